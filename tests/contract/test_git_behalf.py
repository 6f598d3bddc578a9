"""What is committed for a mind that cannot: the same cases on real git and its fake, then what only real git has."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from orchconverge.adapters.git import Repository
from orchconverge.core.target import Sha
from orchconverge.errors import Failed
from tests.contract.test_fakes import FakeHands, Hands, RealHands

MARKER = "orchconverge goal.1"


@pytest.fixture(params=[RealHands, FakeHands], ids=["real", "fake"])
def hands(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hands:
    person(tmp_path, monkeypatch)
    made: Hands = request.param(tmp_path)
    return made


@pytest.fixture
def real(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RealHands:
    person(tmp_path, monkeypatch)
    return RealHands(tmp_path)


def person(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("GIT_", "XDG_"))]:
        monkeypatch.delenv(name)
    (folder / "home").mkdir()
    monkeypatch.setenv("HOME", str(folder / "home"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    settings = "[user]\n\tname = Ann Person\n\temail = ann@example.org\n[init]\n\tdefaultBranch = main\n"
    (folder / "home/.gitconfig").write_text(settings)


def base_of(hands: Hands) -> Sha:
    found = hands.git.resolve("refs/heads/main")
    assert found is not None
    return found


def test_all_that_is_uncommitted_is_committed_on_the_branch_that_is_checked_out(hands: Hands) -> None:
    git, base, tree = hands.git, base_of(hands), hands.trees / "m"
    git.add_worktree(tree, branch="m", at=base)
    assert git.commit_all(tree, "nothing\n", marker=MARKER) is None
    hands.write(tree, "a.txt", "changed\n")
    hands.write(tree, "b.txt", None)
    hands.write(tree, "deep/new.txt", "new\n")
    made = git.commit_all(tree, "what it did\n\nCommitted by us.\n", marker=MARKER)
    assert made is not None
    assert git.resolve("refs/heads/m") == made
    work = git.work(base, made)
    assert work.changed == ("a.txt", "b.txt", "deep/new.txt")
    assert [commit.subject for commit in work.commits] == ["what it did"]
    assert git.checkout(tree).dirty == git.checkout(tree).untracked == ()
    assert git.unmarked("m", MARKER, since=base) == frozenset()
    assert git.resolve("refs/heads/main") == base


def test_what_was_there_before_is_left_as_it_is(hands: Hands) -> None:
    git, base = hands.git, base_of(hands)
    hands.write(git.root, "a.txt", "a person's\n")
    hands.write(git.root, "notes", "a person's\n")
    hands.write(git.root, "b.txt", "a mind's\n")
    made = git.commit_all(git.root, "b", marker=MARKER, without=("a.txt", "notes"))
    assert made is not None
    assert git.work(base, made).changed == ("b.txt",)
    assert git.checkout(git.root).dirty == ("a.txt",)
    assert git.checkout(git.root).untracked == ("notes",)
    assert git.commit_all(git.root, "b", marker=MARKER, without=("a.txt", "notes")) is None


def test_a_detached_head_is_moved_and_no_branch(hands: Hands) -> None:
    git, base, tree = hands.git, base_of(hands), hands.trees / "m"
    git.add_worktree(tree, branch="m", at=base)
    hands.switch(tree, None)
    hands.write(tree, "new", "new\n")
    made = git.commit_all(tree, "detached", marker=MARKER)
    assert git.checkout(tree).head == made
    assert git.resolve("refs/heads/m") == base


# --- real git --------------------------------------------------------------------------------------------------------


def by_hand(cwd: Path, *args: str) -> str:
    done = subprocess.run(["git", "-C", str(cwd), *args], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_no_hook_runs_nothing_is_signed_and_the_author_is_the_configured_one(real: RealHands) -> None:
    hook = real.root / ".git/hooks/pre-commit"
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    by_hand(real.root, "config", "commit.gpgSign", "true")
    real.write(real.root, "#odd: [name] *", "x")
    assert real.git.commit_all(real.root, "#1 is done\n", marker=MARKER) is not None
    told = by_hand(real.root, "log", "-1", "--format=%s|%an <%ae>|%cn|%G?", "--name-only").split("\n")
    assert told == ["#1 is done|Ann Person <ann@example.org>|Ann Person|N", "", "#odd: [name] *"]
    assert by_hand(real.root, "reflog", "-1", "--format=%gs") == f"{MARKER}: #1 is done"


def test_what_a_person_had_staged_stays_staged_and_ignored_and_nested_ones_stay_out(real: RealHands) -> None:
    root = real.root
    real.write(root, "staged", "a person's\n")
    by_hand(root, "add", "staged")
    real.write(root, ".git/info/exclude", "*.log\n")
    real.write(root, "x.log", "ignored\n")
    (root / "nested").mkdir()
    by_hand(root / "nested", "init", "--quiet")
    by_hand(root / "nested", "commit", "--quiet", "--allow-empty", "-m", "inner")
    real.write(root, "mine", "a mind's\n")
    made = real.git.commit_all(root, "mine", marker=MARKER, without=("staged",))
    assert made is not None
    assert by_hand(root, "diff-tree", "-r", "--name-only", "--no-commit-id", made) == "mine"
    assert by_hand(root, "status", "--porcelain") == "A  staged\n?? nested/"
    assert real.git.commit_all(root, "mine", marker=MARKER, without=("staged",)) is None


def test_in_the_middle_of_a_merge_nothing_is_committed(real: RealHands) -> None:
    root = real.root
    real.switch(root, "side")
    real.commit(root, {"c.txt": "c\n"})
    by_hand(root, "checkout", "--quiet", "main")
    by_hand(root, "merge", "--quiet", "--no-commit", "--no-ff", "side")
    real.write(root, "new", "new\n")
    with pytest.raises(Failed, match="merge"):
        real.git.commit_all(root, "no", marker=MARKER)
    assert by_hand(root, "status", "--porcelain") == "A  c.txt\n?? new"
    assert by_hand(root, "log", "-1", "--format=%s") == "start"


def test_who_commits_here_is_told_in_variables_and_nobody_in_none(real: RealHands, tmp_path: Path) -> None:
    ann = {"NAME": "Ann Person", "EMAIL": "ann@example.org"}
    assert real.git.author() == {
        f"GIT_{who}_{key}": text for who in ("AUTHOR", "COMMITTER") for key, text in ann.items()
    }
    (tmp_path / "home/.gitconfig").write_text("")
    assert Repository.open(real.root, trees=real.trees).author() == {}
