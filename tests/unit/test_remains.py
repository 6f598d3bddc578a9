"""What runs left behind, on real git and real files: what a ref keeps, what is deleted by compare-and-swap, what is ours."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from orchconverge.adapters.git import Repository
from orchconverge.adapters.git_refs import LeftRefs
from orchconverge.adapters.remains import FileRemains
from orchconverge.core.target import Sha
from orchconverge.core.views.gc import Always, Remain, size, text

PLAIN = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C.UTF-8"}
WHO = {f"GIT_{who}_{what}": "x@y" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


class Hands:
    """A repository on main with one commit, and a person's git."""

    def __init__(self, root: Path) -> None:
        self.repo, self.tree = root / "repo", root / "trees" / "m-1"
        self.repo.mkdir()
        self.git("init", "-q", "-b", "main")
        (self.repo / ".gitignore").write_text("*.pyc\n")
        (self.repo / "a").write_text("a\n")
        self.base = self.commit(self.repo, "start")
        self.repository = Repository.open(self.repo, trees=root / "trees")
        self.refs = LeftRefs(self.repository.run)

    def git(self, *words: str, cwd: Path | None = None) -> str:
        ran = subprocess.run(["git", *words], cwd=cwd or self.repo, env=PLAIN | WHO, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout.strip()

    def commit(self, at: Path, message: str) -> Sha:
        self.git("add", "-A", cwd=at)
        self.git("commit", "-q", "-m", message, cwd=at)
        return Sha(self.git("rev-parse", "HEAD", cwd=at))

    def mind(self) -> Sha:
        """A worktree with one commit more than main."""
        self.repository.add_worktree(self.tree, branch="orchconverge/m-1", at=self.base)
        (self.tree / "b").write_text("b\n")
        return self.commit(self.tree, "work")


@pytest.fixture
def hands(tmp_path: Path) -> Hands:
    return Hands(tmp_path)


# --- refs ------------------------------------------------------------------------------------------------------------


def test_a_commit_is_kept_by_a_keep_ref_that_leads_to_it_or_by_the_target(hands: Hands) -> None:
    first = hands.mind()
    assert hands.refs.kept(hands.base, also="main")
    assert not hands.refs.kept(first, also="main")
    (hands.tree / "c").write_text("c\n")
    second = hands.commit(hands.tree, "more")
    hands.repository.keep("goal.1", first)
    assert hands.refs.kept(first, also="main")
    assert not hands.refs.kept(second, also="main")
    hands.repository.keep("goal.1", second)
    assert hands.refs.kept(first, also="main")
    assert hands.refs.keeps() == {"goal.1": second}


def test_a_branch_is_deleted_only_where_it_stands_as_it_was_seen(hands: Hands) -> None:
    head = hands.mind()
    assert hands.refs.branches("orchconverge/") == {"orchconverge/m-1": head}
    assert not hands.refs.delete("orchconverge/m-1", old=hands.base)
    assert hands.refs.branches("orchconverge/") == {"orchconverge/m-1": head}
    hands.repository.remove_worktree(hands.tree)
    assert hands.refs.delete("orchconverge/m-1", old=head)
    assert hands.refs.branches("orchconverge/") == {}
    assert not hands.refs.delete("orchconverge/m-1", old=head)


def test_a_tree_is_held_by_its_snapshot_until_something_changes_in_it(hands: Hands) -> None:
    hands.mind()
    (hands.tree / "a").write_text("changed\n")
    (hands.tree / "with space\nand line").write_text("new\n")
    (hands.tree / "x.pyc").write_text("ignored")
    snapshot = hands.repository.snapshot(hands.tree, "goal.1-leftovers")
    assert snapshot is not None
    assert hands.refs.holds(snapshot, hands.tree)
    before = hands.git("status", "--porcelain", cwd=hands.tree)
    for path, data in (("a", "changed again\n"), ("with space\nand line", "else\n"), ("third", "new too\n")):
        old = (hands.tree / path).read_text() if (hands.tree / path).exists() else None
        (hands.tree / path).write_text(data)
        assert not hands.refs.holds(snapshot, hands.tree), path
        (hands.tree / path).unlink() if old is None else (hands.tree / path).write_text(old)
    (hands.tree / "b").unlink()
    assert not hands.refs.holds(snapshot, hands.tree)
    hands.git("checkout", "-q", "--", "b", cwd=hands.tree)
    (hands.tree / "a").chmod(0o755)
    assert not hands.refs.holds(snapshot, hands.tree)
    (hands.tree / "a").chmod(0o644)
    assert hands.refs.holds(snapshot, hands.tree)
    assert hands.git("status", "--porcelain", cwd=hands.tree) == before, "to ask changes no index"


# --- files -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def left(tmp_path: Path) -> FileRemains:
    for name in ("minds/goal.1/mind", "minds/goal.2", "checks/goal.0a"):
        (tmp_path / "runs" / name).mkdir(parents=True)
    (tmp_path / "runs" / "minds" / "goal.1" / "log.head").write_bytes(b"x" * 100_000)
    (tmp_path / "evidence").mkdir()
    (tmp_path / "evidence" / f"{'0a' * 16}.log").write_text("output")
    (tmp_path / "evidence" / "notes.txt").write_text("a person's")
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_text("a person's")
    return FileRemains(runs=tmp_path / "runs", evidence=tmp_path / "evidence")


def test_folders_and_outputs_are_found_by_name_with_their_sizes(left: FileRemains, tmp_path: Path) -> None:
    (tmp_path / "runs" / "minds" / "goal.3").symlink_to(tmp_path / "precious")
    (tmp_path / "evidence" / f"{'0b' * 16}.log").symlink_to(tmp_path / "precious" / "file")
    (tmp_path / "runs" / "minds" / "a file").write_text("no run")
    found = left.folders("minds")
    assert [one.path.name for one in found] == ["goal.1", "goal.2"]
    assert found[0].bytes >= 100_000 > found[1].bytes
    assert [one.path.name for one in left.outputs()] == [f"{'0a' * 16}.log"]
    assert left.folders("steps") == []


def test_what_is_removed_is_gone_and_nothing_behind_a_link_is(left: FileRemains, tmp_path: Path) -> None:
    first = left.folders("minds")[0]
    (first.path / "mind" / "out").symlink_to(tmp_path / "precious")
    assert left.remove(first) == ""
    assert not first.path.exists()
    assert left.remove(first) == ""
    [output] = left.outputs()
    assert left.remove(output) == ""
    assert (tmp_path / "precious" / "file").read_text() == "a person's"
    assert (tmp_path / "evidence" / "notes.txt").exists()


def test_another_one_of_the_same_name_and_a_link_in_its_place_are_left_alone(left: FileRemains, tmp_path: Path) -> None:
    one, two = left.folders("minds")
    one.path.rename(tmp_path / "moved")
    one.path.mkdir()
    assert "another one" in left.remove(one)
    assert one.path.is_dir()
    two.path.rmdir()
    two.path.symlink_to(tmp_path / "precious")
    assert "another one" in left.remove(two)
    assert (tmp_path / "precious" / "file").exists()


def test_a_folder_that_is_reached_through_a_link_is_not_ours(left: FileRemains, tmp_path: Path) -> None:
    check = left.folders("checks")[0]
    (tmp_path / "runs" / "checks").rename(tmp_path / "elsewhere")
    (tmp_path / "runs" / "checks").symlink_to(tmp_path / "elsewhere")
    assert "not inside" in left.remove(check)
    assert (tmp_path / "elsewhere" / "goal.0a").is_dir()


def test_what_the_disk_does_not_let_go_is_said(left: FileRemains) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may remove everything")
    first = left.folders("minds")[0]
    first.path.chmod(0o500)
    try:
        assert "Permission denied" in left.remove(first)
    finally:
        first.path.chmod(0o700)


# --- as text ---------------------------------------------------------------------------------------------------------


def test_one_kind_in_one_place_for_one_reason_is_one_line() -> None:
    gone = [Remain(kind="checks", name=f"goal.{n}", where="/s/checks", bytes=600_000) for n in range(5)]
    kept = [Remain(kind="tree", name="m-1", where="/t", bytes=10, why="it holds uncommitted work\x1b[2J")]
    always = [Always(what="the ledger", where="/s", bytes=2_500)]
    assert text([*kept, *gone], always, done=True) == (
        "Removed: 5 things, 3.0 MB\n"
        "  5 folders of checks (3.0 MB): goal.0, goal.1, goal.2 and 2 more\n"
        "    in /s/checks\n"
        "Kept:\n"
        "  the ledger (2.5 kB), in /s\n"
        "  1 worktree of a mind (10 B): m-1; it holds uncommitted work\n"
        "    in /t"
    )
    assert text([], always, done=False).startswith("Nothing to remove.\nKept:\n")
    assert [size(n) for n in (0, 999, 1000, 10**9)] == ["0 B", "999 B", "1.0 kB", "1.0 GB"]
