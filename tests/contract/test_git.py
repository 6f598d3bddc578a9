"""What every `Git` does: the real repository, and any fake that is given these fixtures too."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from orchconverge.adapters.git import Repository
from orchconverge.core.target import Sha
from orchconverge.errors import Failed, Refused
from orchconverge.ports import Git, Squash

Commits = Callable[..., Sha]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    for name in [name for name in os.environ if name.startswith(("GIT_", "XDG_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    (folder / ".gitconfig").write_text(
        "[user]\n\tname = Ann Person\n\temail = ann@example.org\n[init]\n\tdefaultBranch = main\n"
    )
    return folder


def by_hand(cwd: Path, *args: str) -> str:
    return subprocess.run(["git", "-C", str(cwd), *args], check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def commit() -> Commits:
    """A person who writes files in a working tree and commits all of it; ``None`` deletes."""

    def make(tree: Path, files: Mapping[str, str | None], message: str = "work") -> Sha:
        for name, text in files.items():
            path = tree / name
            if text is None:
                path.unlink()
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
        by_hand(tree, "add", "--all")
        by_hand(tree, "commit", "--quiet", "--allow-empty", "-m", message)
        return Sha(by_hand(tree, "rev-parse", "HEAD"))

    return make


@pytest.fixture
def trees(tmp_path: Path) -> Path:
    return tmp_path / "data" / "trees"


@pytest.fixture
def git_repository(tmp_path: Path, trees: Path, commit: Commits) -> Repository:
    root = tmp_path / "project"
    root.mkdir()
    by_hand(root, "init", "--quiet")
    commit(root, {"a.txt": "one\ntwo\nthree\n", "run.sh": "echo\n"}, "start")
    return Repository.open(root, trees=trees)


@pytest.fixture(params=["git"])
def repository(request: pytest.FixtureRequest) -> Git:
    found: Git = request.getfixturevalue(f"{request.param}_repository")
    return found


@pytest.fixture
def base(repository: Git) -> Sha:
    found = repository.resolve("HEAD")
    assert found is not None
    return found


# --- questions -------------------------------------------------------------------------------------------------------


def test_a_ref_resolves_to_a_full_id_and_nonsense_to_none(repository: Git, base: Sha) -> None:
    assert len(base) == 40
    for ref in ("main", "refs/heads/main", "HEAD", base, base[:10]):
        assert repository.resolve(ref) == base
    for ref in ("", "nothing", "refs/heads/nothing", "0" * 40, "--help", "-x", "main\nmain", "main:a.txt", "HEAD^7"):
        assert repository.resolve(ref) is None
    assert repository.tree_of(base) == by_hand(repository.root, "rev-parse", "HEAD^{tree}")


def test_a_branch_comes_before_a_tag_of_its_name(repository: Git, base: Sha, commit: Commits) -> None:
    by_hand(repository.root, "tag", "main")
    newer = commit(repository.root, {"b": "b"})
    assert repository.resolve("main") == newer != base


def test_a_checkout_tells_changed_from_untracked(repository: Git, base: Sha) -> None:
    clean = repository.checkout(repository.root)
    assert (clean.branch, clean.head, clean.dirty, clean.untracked, clean.operation) == ("main", base, (), (), None)
    (repository.root / "a.txt").write_text("changed\n")
    (repository.root / "sub").mkdir()
    (repository.root / "sub/new").write_text("new\n")
    stands = repository.checkout(repository.root)
    assert (stands.dirty, stands.untracked) == (("a.txt",), ("sub/new",))


def test_a_detached_head_has_no_branch(repository: Git, base: Sha) -> None:
    by_hand(repository.root, "checkout", "--quiet", "--detach")
    stands = repository.checkout(repository.root)
    assert (stands.branch, stands.head) == (None, base)


def test_an_unborn_branch_has_no_commit(repository: Git) -> None:
    by_hand(repository.root, "checkout", "--quiet", "--orphan", "fresh")
    stands = repository.checkout(repository.root)
    assert (stands.branch, stands.head) == ("fresh", None)


def test_work_is_what_stands_between_two_commits(repository: Git, base: Sha, commit: Commits) -> None:
    (repository.root / "run.sh").chmod(0o755)
    first = commit(repository.root, {"a.txt": "one\n"}, "cut\n\nCriterion: c1\nCriterion: c2")
    head = commit(repository.root, {"new": "x\n"}, "grow")
    work = repository.work(base, head)
    assert (work.base, work.head, work.descends, work.tree) == (base, head, True, repository.tree_of(head))
    assert [(c.sha, c.subject, c.criteria) for c in work.commits] == [
        (head, "grow", ()),
        (first, "cut", ("c1", "c2")),
    ]
    assert {c.author for c in work.commits} == {c.committer for c in work.commits} == {"Ann Person <ann@example.org>"}
    assert work.changed == ("a.txt", "new", "run.sh")
    assert work.removed_lines == {"a.txt": 2}
    assert work.executable_changed == ("run.sh",)


def test_nothing_between_a_commit_and_itself(repository: Git, base: Sha) -> None:
    work = repository.work(base, base)
    assert (work.commits, work.changed, work.descends, work.tree) == ((), (), True, repository.tree_of(base))


def test_work_on_another_line_does_not_descend(repository: Git, base: Sha, commit: Commits) -> None:
    here = commit(repository.root, {"here": "1"})
    by_hand(repository.root, "checkout", "--quiet", "-b", "other", base)
    there = commit(repository.root, {"there": "1"})
    work = repository.work(here, there)
    assert not work.descends
    assert [c.sha for c in work.commits] == [there]


def test_a_short_id_is_not_taken(repository: Git, base: Sha) -> None:
    for bad in (Sha(base[:12]), Sha("main"), Sha("--all")):
        with pytest.raises(Refused, match="full commit id"):
            repository.work(base, bad)


def test_whether_two_merge_is_known_beforehand(repository: Git, base: Sha, commit: Commits) -> None:
    ours = commit(repository.root, {"a.txt": "ours\n"})
    by_hand(repository.root, "checkout", "--quiet", "-b", "other", base)
    clash = commit(repository.root, {"a.txt": "theirs\n"})
    by_hand(repository.root, "checkout", "--quiet", "-b", "third", base)
    apart = commit(repository.root, {"c": "c\n"})
    assert repository.merges(ours, clash) is False
    assert repository.merges(ours, apart) is True
    assert repository.merges(ours, Sha("1" * 40)) is None


def test_commits_made_without_the_marker_are_known_by_the_reflog(
    repository: Git, base: Sha, commit: Commits, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_REFLOG_ACTION", "mind b.1")
    commit(repository.root, {"a.txt": "mind\n"})
    assert repository.unmarked("main", "mind b.1", since=base) == frozenset()
    monkeypatch.delenv("GIT_REFLOG_ACTION")
    person = commit(repository.root, {"a.txt": "person\n"})
    assert repository.unmarked("main", "mind b.1", since=base) == {person}


def test_what_landed_is_told_by_exact_trailers_oldest_first(repository: Git, base: Sha, commit: Commits) -> None:
    root = repository.root
    before = commit(root, {"w": "0"}, "earlier\n\nOrchconverge-Basin: b\nOrchconverge-Branch: b.9")
    commit(
        root, {"x": "0"}, "talk\n\nWe saw\nOrchconverge-Basin: b\nOrchconverge-Branch: b.7\nin the text.\n\nOther: 1"
    )
    whole = commit(root, {"x": "1", "y": "1"}, "graft\n\nwhy\n\nOrchconverge-Basin: b\nOrchconverge-Branch: b.1")
    commit(root, {"x": "2"}, "of another\n\nOrchconverge-Basin: bb\nOrchconverge-Branch: bb.1")
    trailers = "Orchconverge-Basin: b\nOrchconverge-Residue-Of: b.12\nOrchconverge-Criterion: c1\nOrchconverge-Reason: it is so"
    part = commit(root, {"y": None}, f"part\n\n{trailers}")
    head = commit(root, {"x": "3"}, "after")
    found = repository.landed("b", since=before, head=head)
    assert [(x.commit, x.branch, x.part, x.paths, x.criterion, x.reason) for x in found] == [
        (whole, "b.1", False, ("x", "y"), None, ""),
        (part, "b.12", True, ("y",), "c1", "it is so"),
    ]
    assert [x.tree for x in found] == [repository.tree_of(whole), repository.tree_of(part)]
    assert repository.landed("b", since=part, head=head) == []
    assert [x.branch for x in repository.landed("b", since=base, head=whole)] == ["b.9", "b.1"]


def test_what_a_person_merges_in_is_their_landing_and_not_ours(repository: Git, base: Sha, commit: Commits) -> None:
    by_hand(repository.root, "checkout", "--quiet", "-b", "side")
    commit(repository.root, {"s": "1"}, "side\n\nOrchconverge-Basin: b\nOrchconverge-Branch: b.1")
    by_hand(repository.root, "checkout", "--quiet", "main")
    by_hand(repository.root, "merge", "--quiet", "--no-ff", "-m", "by hand", "side")
    head = repository.resolve("refs/heads/main")
    assert head is not None
    assert repository.landed("b", since=base, head=head) == []


def test_the_paths_in_which_two_commits_differ(repository: Git, base: Sha, commit: Commits) -> None:
    head = commit(repository.root, {"a.txt": "1", "run.sh": None, "d/new name": "1"})
    assert repository.changed(base, head) == repository.changed(head, base) == ("a.txt", "d/new name", "run.sh")
    assert repository.changed(head, head) == ()


def test_a_proposal_is_kept_on_a_ref_of_its_basin_and_the_newest_counts(repository: Git, base: Sha) -> None:
    for text in ("one", "two"):
        made = repository.commit_tree(repository.tree_of(base), parent=base, message=text)
        repository.offer("b", made)
        assert repository.resolve("refs/orchconverge/proposal/b") == made
    repository.offer("b", made)
    assert repository.resolve("refs/orchconverge/proposal/b") == made


# --- branches and worktrees ------------------------------------------------------------------------------------------


def test_a_branch_is_created_once_and_no_checkout_notices(repository: Git, base: Sha, commit: Commits) -> None:
    repository.create_branch("goal", base)
    repository.create_branch("goal", base)
    assert repository.resolve("refs/heads/goal") == base
    assert repository.checkout(repository.root).branch == "main"
    newer = commit(repository.root, {"n": "n"})
    with pytest.raises(Refused, match="exists already"):
        repository.create_branch("goal", newer)


def test_a_branch_cannot_stand_above_or_below_another(repository: Git, base: Sha) -> None:
    repository.create_branch("release/1", base)
    with pytest.raises(Refused, match="cannot exist beside branch release/1"):
        repository.create_branch("release", base)
    with pytest.raises(Refused, match="cannot exist beside branch main"):
        repository.create_branch("main/x/y", base)


@pytest.mark.parametrize(
    "name", ["", "-x", "a..b", "a b", "a:b", "HEAD", "a.lock", "a~1", "a\n", "/a", "a//b", "@{-1}"]
)
def test_a_bad_branch_name_is_refused(repository: Git, base: Sha, name: str) -> None:
    with pytest.raises(Refused):
        repository.create_branch(name, base)


def test_a_worktree_is_added_and_adding_it_again_changes_nothing(
    repository: Git, base: Sha, trees: Path, commit: Commits
) -> None:
    repository.add_worktree(trees / "m1", branch="mind/1", at=base)
    stands = repository.checkout(trees / "m1")
    assert (stands.branch, stands.head, stands.dirty) == ("mind/1", base, ())
    assert repository.checked_out_at("mind/1") == trees / "m1"
    head = commit(trees / "m1", {"n": "n"})
    repository.add_worktree(trees / "m1", branch="mind/1", at=base)
    assert repository.checkout(trees / "m1").head == head
    with pytest.raises(Refused, match="something else"):
        repository.add_worktree(trees / "m1", branch="mind/2", at=base)
    assert repository.resolve("refs/heads/mind/2") is None


def test_a_worktree_whose_branch_was_made_before_the_crash_is_added(repository: Git, base: Sha, trees: Path) -> None:
    repository.create_branch("mind", base)
    (trees / "m").mkdir(parents=True)
    repository.add_worktree(trees / "m", branch="mind", at=base)
    assert repository.checkout(trees / "m").branch == "mind"


def test_a_deleted_worktree_that_is_still_registered_is_made_anew(repository: Git, base: Sha, trees: Path) -> None:
    for name in ("m", "other"):
        repository.add_worktree(trees / name, branch=name, at=base)
        by_hand(trees / name, "rev-parse", "HEAD")
        (trees / name).rename(trees.parent / f"gone-{name}")
    assert repository.checked_out_at("m") is None
    repository.add_worktree(trees / "m", branch="m", at=base)
    assert repository.checkout(trees / "m").branch == "m"
    assert str(trees / "other") in by_hand(repository.root, "worktree", "list")  # nobody else's entry is pruned


def test_a_branch_checked_out_elsewhere_names_that_tree(repository: Git, base: Sha, trees: Path) -> None:
    with pytest.raises(Refused, match="project"):
        repository.add_worktree(trees / "m", branch="main", at=base)
    assert not (trees / "m").exists()


def test_a_failed_add_leaves_no_branch_behind(repository: Git, base: Sha, trees: Path) -> None:
    (trees / "m").mkdir(parents=True)
    (trees / "m/precious").write_text("1")
    with pytest.raises(Refused, match="exists"):
        repository.add_worktree(trees / "m", branch="mind", at=base)
    assert repository.resolve("refs/heads/mind") is None
    assert (trees / "m/precious").read_text() == "1"


def test_a_worktree_is_removed_with_what_is_in_it_and_a_second_time_is_no_error(
    repository: Git, base: Sha, trees: Path
) -> None:
    repository.add_worktree(trees / "m", branch="m", at=base)
    (trees / "m/untracked").write_text("x")
    repository.remove_worktree(trees / "m")
    repository.remove_worktree(trees / "m")
    assert not (trees / "m").exists()
    assert repository.resolve("refs/heads/m") == base
    repository.add_worktree(trees / "m", branch="m", at=base)


def test_who_commits_is_known_by_the_settings_or_the_environment(
    repository: Git, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert repository.identity()
    (home / ".gitconfig").write_text("[user]\n\tname = Ann Person\n")
    assert not repository.identity()
    (home / ".gitconfig").unlink()
    assert not repository.identity()
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "Ann")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "ann@example.org")
    assert repository.identity()


def test_repositories_inside_a_worktree_are_told_while_what_they_hold_is_nowhere_else(
    repository: Git, base: Sha, trees: Path, tmp_path: Path, commit: Commits
) -> None:
    m = trees / "m"
    repository.add_worktree(m, branch="m", at=base)
    assert tuple(repository.nested(m)) == ()
    by_hand(tmp_path, "init", "--quiet", "upstream")
    commit(tmp_path / "upstream", {"lib": "1"})
    by_hand(m, "clone", "--quiet", str(tmp_path / "upstream"), "lib")
    assert tuple(repository.nested(m)) == ("lib/",)
    commit(m, {"a.txt": "with a link to its commit"})
    assert tuple(repository.nested(m)) == ()  # what it holds is upstream
    commit(m / "lib", {"lib": "2"})
    assert tuple(repository.nested(m)) == ("lib",)
    commit(m, {"a.txt": "with a link to a commit that is there alone"})
    assert repository.checkout(m).dirty == ()
    assert tuple(repository.nested(m)) == ("lib",)
    by_hand(m / "lib", "push", "--quiet", "origin", "HEAD:refs/heads/new")
    assert tuple(repository.nested(m)) == ()
    (m / "lib/new").write_text("not committed")
    assert tuple(repository.nested(m)) == ("lib",)


def test_work_in_a_submodule_is_told_though_its_folder_is_gone(
    repository: Git, trees: Path, tmp_path: Path, commit: Commits
) -> None:
    by_hand(tmp_path, "init", "--quiet", "upstream")
    commit(tmp_path / "upstream", {"lib": "1"})
    allowed = ("-c", "protocol.file.allow=always")
    by_hand(repository.root, *allowed, "submodule", "--quiet", "add", str(tmp_path / "upstream"), "lib")
    m, base = trees / "m", commit(repository.root, {})
    repository.add_worktree(m, branch="m", at=base)
    by_hand(m, *allowed, "submodule", "--quiet", "update", "--init")
    assert tuple(repository.nested(m)) == ()
    commit(m / "lib", {"lib": "2"})
    by_hand(m, "submodule", "--quiet", "deinit", "--force", "lib")
    [told] = repository.nested(m)
    assert told.endswith("modules/lib")


def test_only_our_linked_worktrees_are_ever_removed(repository: Git, base: Sha, trees: Path, tmp_path: Path) -> None:
    by_hand(repository.root, "worktree", "add", "--quiet", "--detach", str(tmp_path / "theirs"))
    (trees / "plain").mkdir(parents=True)
    (trees / "plain/file").write_text("x")
    for path in (repository.root, tmp_path / "theirs", trees, trees / "plain", trees / ".." / "..", Path("/")):
        with pytest.raises(Refused):
            repository.remove_worktree(path)
    assert (trees / "plain/file").exists()
    assert (tmp_path / "theirs/a.txt").exists()


# --- commits ---------------------------------------------------------------------------------------------------------


def test_a_snapshot_keeps_what_is_uncommitted_and_leaves_index_and_tree_alone(repository: Git, base: Sha) -> None:
    root = repository.root
    (root / ".gitignore").write_text("ignored\n")
    (root / "a.txt").write_text("changed\n")
    (root / "ignored").write_text("x")
    (root / "staged").write_text("staged\n")
    (root / "run.sh").unlink()
    by_hand(root, "add", "staged")
    before = by_hand(root, "status", "--porcelain")
    kept = repository.snapshot(root, "b.1")
    assert kept is not None
    assert by_hand(root, "status", "--porcelain") == before
    assert repository.resolve("refs/orchconverge/keep/b.1") == kept
    assert by_hand(root, "rev-parse", f"{kept}^") == base
    assert by_hand(root, "ls-tree", "-r", "--name-only", kept).split() == [".gitignore", "a.txt", "staged"]
    assert by_hand(root, "show", f"{kept}:a.txt") == "changed"


def test_nothing_to_keep_makes_no_snapshot(repository: Git) -> None:
    assert repository.snapshot(repository.root, "b.1") is None
    assert repository.resolve("refs/orchconverge/keep/b.1") is None


def test_a_squash_holds_the_merged_tree_and_moves_nothing(
    repository: Git, base: Sha, trees: Path, commit: Commits
) -> None:
    repository.add_worktree(trees / "m", branch="m", at=base)
    head = commit(trees / "m", {"from-mind": "1"})
    tip = commit(repository.root, {"from-person": "1"})
    for _ in range(2):  # the second finds the first one's tree in its way
        squash = repository.squash(trees / "q", tip=tip, head=head)
        assert squash.conflicts == ()
        assert squash.tree is not None
        assert not (trees / "q").exists()
    graft = repository.commit_tree(squash.tree, parent=tip, message="graft\n\nOrchconverge-Head: m")
    assert repository.resolve("refs/heads/main") == tip
    assert repository.work(tip, graft).changed == ("from-mind",)
    assert repository.tree_of(graft) == squash.tree


def test_a_squash_in_conflict_names_the_paths(repository: Git, base: Sha, trees: Path, commit: Commits) -> None:
    repository.add_worktree(trees / "m", branch="m", at=base)
    head = commit(trees / "m", {"a.txt": "mind\n", "run.sh": None, "fine": "1"})
    tip = commit(repository.root, {"a.txt": "person\n", "run.sh": "changed\n"})
    squash = repository.squash(trees / "q", tip=tip, head=head)
    assert (squash.tree, squash.conflicts) == (None, ("a.txt", "run.sh"))
    assert repository.squash(trees / "q", tip=tip, head=tip).tree == repository.tree_of(tip)


def result(repository: Git, squash: Squash, tip: Sha) -> dict[str, bytes]:
    """The files that a squash changed on the tip, with what is in them; of a file that is gone, nothing."""
    assert squash.tree is not None, squash.conflicts
    made = repository.commit_tree(squash.tree, parent=tip, message="part")
    told = {}
    for path in repository.changed(tip, made):
        done = subprocess.run(
            ["git", "-C", str(repository.root), "cat-file", "blob", f"{made}:{path}"], capture_output=True
        )
        told[path] = done.stdout
    return told


def test_single_commits_are_taken_in_their_order_and_nothing_else(
    repository: Git, base: Sha, trees: Path, commit: Commits
) -> None:
    mind = trees / "m"
    repository.add_worktree(mind, branch="m", at=base)
    first = commit(mind, {"c1": "1\n"})
    commit(mind, {"a.txt": "one\nTWO\nthree\n"})
    (mind / "bin").write_bytes(bytes(range(256)))
    third = commit(mind, {"c1": "1\n2\n", "run.sh": None})
    tip = commit(repository.root, {"a.txt": "ONE\ntwo\nthree\n"})
    took = repository.squash(trees / "q", tip=tip, head=third, base=base, commits=(first, third))
    assert result(repository, took, tip) == {"c1": b"1\n2\n", "bin": bytes(range(256)), "run.sh": b""}
    assert not (trees / "q").exists()


def test_single_paths_are_taken_as_the_branch_left_them_merged_where_lines_moved(
    repository: Git, base: Sha, trees: Path, commit: Commits
) -> None:
    mind = trees / "m"
    repository.add_worktree(mind, branch="m", at=base)
    lines = [f"line {n}\n" for n in range(20)]
    started = commit(repository.root, {"long": "".join(lines)})
    by_hand(mind, "reset", "--quiet", "--hard", started)
    commit(mind, {"long": "".join([*lines[:-1], "mind\n"]), "other": "x"})
    head = commit(mind, {"d/*[": "odd", "d/o": "no", "run.sh": None})
    tip = commit(repository.root, {"long": "".join(["person\n", *lines])})
    took = repository.squash(trees / "q", tip=tip, head=head, base=started, paths=("long", "run.sh", "d/*["))
    merged = "".join(["person\n", *lines[:-1], "mind\n"]).encode()
    assert result(repository, took, tip) == {"d/*[": b"odd", "long": merged, "run.sh": b""}
    unchanged = repository.squash(trees / "q", tip=tip, head=head, base=started, paths=("a.txt",))
    assert unchanged.tree == repository.tree_of(tip)


def test_a_part_in_conflict_names_its_paths_and_leaves_nothing_behind(
    repository: Git, base: Sha, trees: Path, commit: Commits
) -> None:
    mind = trees / "m"
    repository.add_worktree(mind, branch="m", at=base)
    (mind / "bin").write_bytes(b"\0mind")
    one = commit(mind, {"a.txt": "mind\n"})
    two = commit(mind, {"a.txt": "mind again\n", "new": "1"})
    (repository.root / "bin").write_bytes(b"\0person")
    tip = commit(repository.root, {"a.txt": "person\n", "new": "2"})

    def conflicts(**part: tuple[str, ...]) -> tuple[str, ...]:
        found = repository.squash(trees / "q", tip=tip, head=two, base=base, **part)  # type: ignore[arg-type]
        assert found.tree is None
        assert not (trees / "q").exists()
        return found.conflicts

    assert conflicts(paths=("a.txt",)) == ("a.txt",)
    assert conflicts(paths=("a.txt", "bin", "new")) == ("a.txt", "bin", "new")
    assert conflicts(commits=(one,)) == ("a.txt", "bin")
    assert conflicts(commits=(two,)) == ("a.txt", "new")


def test_a_commit_that_does_not_apply_at_all_names_the_files_that_are_not_there(
    repository: Git, base: Sha, trees: Path, commit: Commits
) -> None:
    mind = trees / "m"
    repository.add_worktree(mind, branch="m", at=base)
    commit(mind, {"own": "1\n", "odd: name": "1\n"})
    head = commit(mind, {"own": "2\n", "odd: name": "2\n", "third": "3\n"})
    gone = commit(repository.root, {"a.txt": None})
    found = repository.squash(trees / "q", tip=gone, head=head, base=base, commits=(head,))
    assert (found.tree, set(found.conflicts)) == (None, {"own", "odd: name"})
    changed = commit(mind, {"a.txt": "changed\n", "new\nline": "1\n"})
    later = commit(mind, {"new\nline": None, "d/x": "1\n"})
    found = repository.squash(trees / "q", tip=gone, head=later, base=base, commits=(changed,))
    assert (found.tree, found.conflicts) == (None, ("a.txt",))
    found = repository.squash(trees / "q", tip=gone, head=later, base=base, commits=(later,))
    assert (found.tree, set(found.conflicts)) == (None, {"d/x", "new\nline"}), "git does not name it in one line"
    file = commit(repository.root, {"d": "a file\n"})
    found = repository.squash(trees / "q", tip=file, head=later, base=base, paths=("d/x",))
    assert (found.tree, found.conflicts) == (None, ("d/x",))
    folder = commit(repository.root, {"d": None, "third/x": "1\n"})
    found = repository.squash(trees / "q", tip=folder, head=head, base=base, paths=("third",))
    assert (found.tree, found.conflicts) == (None, ("third",))


def test_a_branch_that_nobody_has_checked_out_advances(repository: Git, base: Sha, commit: Commits) -> None:
    repository.create_branch("goal", base)
    new = repository.commit_tree(repository.tree_of(base), parent=base, message="new")
    assert repository.advance("goal", new=new, old=base)
    assert repository.advance("goal", new=new, old=base)  # told twice, done once
    assert repository.resolve("refs/heads/goal") == new


def test_a_clean_checkout_moves_along_with_its_branch(repository: Git, base: Sha, trees: Path, commit: Commits) -> None:
    repository.add_worktree(trees / "m", branch="m", at=base)
    new = commit(trees / "m", {"a.txt": "new\n", "b": "b"})
    (repository.root / "untracked").write_text("mine")
    assert repository.advance("main", new=new, old=base)
    stands = repository.checkout(repository.root)
    assert (stands.head, stands.branch, stands.dirty, stands.untracked) == (new, "main", (), ("untracked",))
    assert (repository.root / "a.txt").read_text() == "new\n"


def test_a_branch_that_moved_meanwhile_is_not_advanced(
    repository: Git, base: Sha, trees: Path, commit: Commits
) -> None:
    repository.add_worktree(trees / "m", branch="m", at=base)
    new = commit(trees / "m", {"b": "b"})
    moved = commit(repository.root, {"c": "c"})
    assert repository.advance("main", new=new, old=base) is False
    assert repository.resolve("refs/heads/main") == moved


def test_a_branch_is_never_rewound(repository: Git, base: Sha, commit: Commits) -> None:
    new = commit(repository.root, {"c": "c"})
    with pytest.raises(Refused, match="never rewound"):
        repository.advance("main", new=base, old=new)


@pytest.mark.parametrize("name", ["a.txt", "b"])
def test_a_checkout_with_changes_is_not_moved(
    repository: Git, base: Sha, trees: Path, commit: Commits, name: str
) -> None:
    repository.add_worktree(trees / "m", branch="m", at=base)
    new = commit(trees / "m", {"a.txt": "new\n", "b": "b"})
    (repository.root / name).write_text("mine\n")  # changed, or untracked and in the way
    with pytest.raises(Refused):
        repository.advance("main", new=new, old=base)
    assert (repository.root / name).read_text() == "mine\n"
    assert repository.resolve("refs/heads/main") == base


def test_one_file_is_committed_alone_where_the_branch_is_checked_out(repository: Git, base: Sha) -> None:
    root = repository.root
    (root / "a.txt").write_text("dirty\n")
    (root / "staged").write_text("staged\n")
    by_hand(root, "add", "staged")
    made = repository.commit_file("main", "docs/reports/r.md", "# report\n", "report")
    assert repository.resolve("HEAD") == made
    assert repository.work(base, made).changed == ("docs/reports/r.md",)
    assert by_hand(root, "status", "--porcelain").splitlines() == [
        "M a.txt",
        "A  staged",
    ]  # the first blank is stripped
    assert repository.commit_file("main", "docs/reports/r.md", "# report\n", "report") == made
    again = repository.commit_file("main", "docs/reports/r.md", "# more\n", "report")
    assert repository.work(made, again).changed == ("docs/reports/r.md",)


def test_one_file_is_committed_by_plumbing_on_a_branch_that_nobody_has(repository: Git, base: Sha) -> None:
    repository.create_branch("goal", base)
    made = repository.commit_file("goal", "docs/r.md", "é\n", "report")
    assert repository.resolve("refs/heads/goal") == made
    assert repository.work(base, made).changed == ("docs/r.md",)
    assert repository.commit_file("goal", "docs/r.md", "é\n", "report") == made
    assert repository.checkout(repository.root).dirty == repository.checkout(repository.root).untracked == ()
    assert not (repository.root / "docs").exists()


@pytest.mark.parametrize("path", ["", "/etc/x", "../x", "a/../../x", ".git/hooks/x", "sub/.GIT/x", "."])
def test_a_file_outside_the_tree_is_not_committed(repository: Git, base: Sha, path: str) -> None:
    with pytest.raises(Refused):
        repository.commit_file("main", path, "x", "no")
    assert repository.resolve("refs/heads/main") == base


def test_a_file_that_a_person_is_writing_is_not_replaced(repository: Git, base: Sha) -> None:
    (repository.root / "a.txt").write_text("mine\n")
    (repository.root / "new.md").write_text("mine\n")
    for path in ("a.txt", "new.md"):
        with pytest.raises(Refused, match="not committed"):
            repository.commit_file("main", path, "ours\n", "report")
        assert (repository.root / path).read_text() == "mine\n"


# --- what is shared, and what is away from here ----------------------------------------------------------------------


def test_the_fingerprint_changes_with_what_makes_git_run_code_and_with_nothing_else(
    repository: Git, base: Sha, trees: Path, commit: Commits
) -> None:
    root, git_dir = repository.root, repository.common_dir
    before = repository.fingerprint()
    by_hand(root, "config", "branch.x.y.remote", "origin")
    by_hand(root, "config", "submodule.s.url", "https://example.org/s")
    repository.add_worktree(trees / "m", branch="m", at=base)
    commit(root, {"n": "n"})
    assert repository.fingerprint() == before
    seen = {before}
    (root / "included").write_text("[alias]\n\tx = !true\n")
    hook = git_dir / "hooks" / "post-merge"
    for change in (
        lambda: by_hand(root, "config", "filter.x.clean", "evil"),
        lambda: by_hand(root, "config", "branch.main.mergeOptions", "-s evil"),
        lambda: by_hand(root, "config", "include.path", "../included"),
        lambda: (root / "included").write_text("[alias]\n\tx = !false\n"),
        lambda: (hook.parent.mkdir(exist_ok=True), hook.write_text("#!/bin/sh\n")),
        lambda: hook.chmod(0o755),
        lambda: ((git_dir / "info").mkdir(exist_ok=True), (git_dir / "info/attributes").write_text("* filter=x\n")),
    ):
        change()
        seen.add(repository.fingerprint())
    assert len(seen) == 8


@pytest.fixture
def origin(repository: Git, tmp_path: Path) -> Path:
    away = tmp_path / "origin.git"
    by_hand(tmp_path, "init", "--quiet", "--bare", "--initial-branch=trunk", str(away))
    by_hand(repository.root, "remote", "add", "origin", str(away))
    return away


def test_the_default_branch_is_recorded_or_asked_for_or_guessed(
    repository: Git, base: Sha, origin: Path, trees: Path
) -> None:
    assert repository.default_branch("nowhere") == "main"
    by_hand(repository.root, "push", "--quiet", "origin", "main:trunk")
    assert repository.default_branch("origin") == "trunk"
    by_hand(repository.root, "update-ref", "refs/remotes/origin/dev", base)
    by_hand(repository.root, "symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/dev")
    assert Repository.open(repository.root, trees=trees).default_branch("origin") == "dev"


def test_remotes_are_told_with_the_address_that_a_push_uses(repository: Git, origin: Path) -> None:
    by_hand(repository.root, "remote", "add", "fork", "https://example.org/fork.git")
    by_hand(repository.root, "remote", "set-url", "--push", "fork", "git@example.org:fork.git")
    assert repository.remotes() == {"origin": str(origin), "fork": "git@example.org:fork.git"}


def test_one_commit_is_pushed_to_one_branch_and_nothing_is_forced(
    git_repository: Repository, commit: Commits, tmp_path: Path
) -> None:
    away = tmp_path / "origin.git"
    by_hand(tmp_path, "init", "--quiet", "--bare", str(away))
    by_hand(git_repository.root, "remote", "add", "origin", str(away))
    by_hand(git_repository.root, "config", "push.followTags", "true")
    by_hand(git_repository.root, "tag", "-a", "-m", "t", "v1")
    base = git_repository.resolve("HEAD")
    assert base is not None
    ok, detail = git_repository.push("origin", base, "goal")
    assert (ok, detail) == (True, "[new branch]")
    assert by_hand(away, "for-each-ref", "--format=%(refname) %(objectname)") == f"refs/heads/goal {base}"
    newer = commit(git_repository.root, {"n": "n"})
    assert git_repository.push("origin", newer, "goal")[0]
    other = git_repository.commit_tree(git_repository.tree_of(base), parent=base, message="other")
    ok, detail = git_repository.push("origin", other, "goal")
    assert not ok
    assert "[rejected]" in detail
    assert by_hand(away, "rev-parse", "goal") == newer
    with pytest.raises(Refused, match="no remote"):
        git_repository.push("fork", newer, "goal")


def test_what_a_ref_of_a_remote_stands_at_is_fetched_to_a_private_ref_and_nothing_else_moves(
    git_repository: Repository, commit: Commits, tmp_path: Path
) -> None:
    root, away = git_repository.root, tmp_path / "origin.git"
    by_hand(tmp_path, "init", "--quiet", "--bare", str(away))
    by_hand(root, "remote", "add", "origin", str(away))
    by_hand(root, "push", "--quiet", "origin", "main")
    by_hand(tmp_path, "clone", "--quiet", "--branch=main", str(away), "theirs")
    theirs = tmp_path / "theirs"
    head = commit(theirs, {"n": "n"})
    by_hand(theirs, "tag", "-a", "-m", "t", "v1")
    by_hand(theirs, "push", "--quiet", "origin", "main", "v1", "main:refs/pull/7/head")
    for name, value in (
        ("fetch.prune", "true"),
        ("remote.origin.tagOpt", "--tags"),
        ("remote.origin.uploadpack", "false"),
    ):
        by_hand(root, "config", name, value)
    refs = by_hand(root, "for-each-ref", "--format=%(refname) %(objectname)")
    assert git_repository.fetch("origin", "refs/pull/7/head", "7") == head
    moved = by_hand(root, "for-each-ref", "--format=%(refname) %(objectname)")
    assert set(moved.split("\n")) - set(refs.split("\n")) == {f"refs/orchconverge/pulls/7 {head}"}
    assert not (root / ".git/FETCH_HEAD").exists()
    first = Sha(by_hand(root, "rev-parse", "main"))
    by_hand(theirs, "push", "--quiet", "--force", "origin", f"{first}:refs/pull/7/head")
    assert git_repository.fetch("origin", "refs/pull/7/head", "7") == first
    with pytest.raises(Failed, match="refs/pull/8/head"):
        git_repository.fetch("origin", "refs/pull/8/head", "8")
    with pytest.raises(Refused, match="no full ref"):
        git_repository.fetch("origin", "--upload-pack=touch x", "8")
    with pytest.raises(Refused, match="no remote"):
        git_repository.fetch("fork", "refs/heads/main", "8")
    by_hand(root, "remote", "add", "evil", "ext::sh -c true")
    with pytest.raises(Refused, match="not allowed"):
        git_repository.fetch("evil", "refs/heads/main", "8")


def test_a_bundle_holds_what_a_branch_adds(git_repository: Repository, commit: Commits, tmp_path: Path) -> None:
    base = git_repository.resolve("HEAD")
    assert base is not None
    by_hand(tmp_path, "clone", "--quiet", str(git_repository.root), "clone")
    head = commit(git_repository.root, {"n": "n"})
    git_repository.bundle(tmp_path / "b.bundle", base, "main")
    by_hand(tmp_path / "clone", "fetch", "--quiet", str(tmp_path / "b.bundle"), "refs/heads/main:refs/heads/in")
    assert by_hand(tmp_path / "clone", "rev-parse", "in") == head
    with pytest.raises(Failed, match="empty"):
        git_repository.bundle(tmp_path / "c.bundle", head, "main")
