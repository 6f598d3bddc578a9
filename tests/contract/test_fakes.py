"""The fakes of git, supervisors and tmux do what the real ones do: the same cases on both."""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

import pytest

from orchconverge.adapters.git import Repository
from orchconverge.adapters.supervisors import Supervisors as RealSupervisors
from orchconverge.adapters.tmux import Tmux
from orchconverge.core.target import Sha
from orchconverge.errors import Failed, Refused
from orchconverge.ports import (
    Absent,
    Ended,
    Git,
    Lost,
    Panes,
    Probe,
    Running,
    SessionExists,
    Spec,
    Starting,
    Supervisors,
)
from tests.fakes.clock import Time
from tests.fakes.git import MemoryGit, Store
from tests.fakes.panes import MemoryPanes
from tests.fakes.supervisors import Machine, MemorySupervisors, Program

START = {"a.txt": "one\ntwo\nthree\n", "b.txt": "b\n"}


# --- git -------------------------------------------------------------------------------------------------------------


class Hands(Protocol):
    """What a person does in a repository, without the port."""

    git: Git
    trees: Path

    def write(self, tree: Path, name: str, text: str | None) -> None: ...

    def read(self, tree: Path, name: str) -> str | None: ...

    def commit(
        self, tree: Path, files: Mapping[str, str | None], message: str = "work", *, action: str = ""
    ) -> Sha: ...

    def switch(self, tree: Path, branch: str | None, *, at: Sha | None = None) -> None: ...

    def configure(self) -> None: ...


class RealHands:
    def __init__(self, folder: Path) -> None:
        self.root = folder / "project"
        self.trees = folder / "data" / "trees"
        self.root.mkdir()
        self._git(self.root, "init", "--quiet")
        for name, text in START.items():
            self.write(self.root, name, text)
        self.commit(self.root, {}, "start")
        self.git = Repository.open(self.root, trees=self.trees)

    def _git(self, cwd: Path, *args: str, action: str = "") -> str:
        env = {**os.environ, **({"GIT_REFLOG_ACTION": action} if action else {})}
        done = subprocess.run(["git", "-C", str(cwd), *args], check=True, capture_output=True, text=True, env=env)
        return done.stdout.strip()

    def write(self, tree: Path, name: str, text: str | None) -> None:
        if text is None:
            (tree / name).unlink()
        else:
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            (tree / name).write_text(text)

    def read(self, tree: Path, name: str) -> str | None:
        return (tree / name).read_text() if (tree / name).exists() else None

    def commit(self, tree: Path, files: Mapping[str, str | None], message: str = "work", *, action: str = "") -> Sha:
        for name, text in files.items():
            self.write(tree, name, text)
        self._git(tree, "add", "--all")
        self._git(tree, "commit", "--quiet", "--allow-empty", "-m", message, action=action)
        return Sha(self._git(tree, "rev-parse", "HEAD"))

    def switch(self, tree: Path, branch: str | None, *, at: Sha | None = None) -> None:
        new = ["-b", branch] if branch else ["--detach"]
        self._git(tree, "checkout", "--quiet", *new, *([at] if at else []))

    def configure(self) -> None:
        self._git(self.root, "config", "filter.x.clean", "evil")


class FakeHands:
    def __init__(self, folder: Path) -> None:
        self.root = folder / "project"
        self.trees = folder / "data" / "trees"
        self.store = Store(self.root, START)
        self.git = MemoryGit(self.store, self.trees)

    def write(self, tree: Path, name: str, text: str | None) -> None:
        if text is None:
            del self.store.places[tree].files[name]
        else:
            self.store.places[tree].files[name] = text

    def read(self, tree: Path, name: str) -> str | None:
        return self.store.places[tree].files.get(name)

    def commit(self, tree: Path, files: Mapping[str, str | None], message: str = "work", *, action: str = "") -> Sha:
        return self.store.commit(tree, files, message, by="ann", action=action)

    def switch(self, tree: Path, branch: str | None, *, at: Sha | None = None) -> None:
        assert self.store.switch(tree, branch, create=True)
        if at is not None and branch is not None:
            self.store.refs[f"refs/heads/{branch}"] = at
            self.store.places[tree].files = dict(self.store.files(at))

    def configure(self) -> None:
        self.store.config = "changed"


@pytest.fixture(params=["git", "fake"])
def hands(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hands:
    for name in [name for name in os.environ if name.startswith(("GIT_", "XDG_"))]:
        monkeypatch.delenv(name)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    (home / ".gitconfig").write_text(
        "[user]\n\tname = ann\n\temail = ann@example.org\n[init]\n\tdefaultBranch = main\n"
    )
    return RealHands(tmp_path) if request.param == "git" else FakeHands(tmp_path)


@pytest.fixture
def git(hands: Hands) -> Git:
    return hands.git


@pytest.fixture
def base(git: Git) -> Sha:
    found = git.resolve("HEAD")
    assert found is not None
    return found


def test_refs_resolve(git: Git, base: Sha) -> None:
    for ref in ("main", "refs/heads/main", "HEAD", base, base[:10]):
        assert git.resolve(ref) == base
    for ref in ("", "nothing", "refs/heads/nothing", "0" * 40):
        assert git.resolve(ref) is None


def test_a_checkout_tells_changed_from_untracked(hands: Hands, git: Git, base: Sha) -> None:
    hands.write(git.root, "a.txt", "changed\n")
    hands.write(git.root, "b.txt", None)
    hands.write(git.root, "new", "new\n")
    stands = git.checkout(git.root)
    assert (stands.branch, stands.head, stands.operation) == ("main", base, None)
    assert (set(stands.dirty), stands.untracked) == ({"a.txt", "b.txt"}, ("new",))


def test_a_detached_head_has_no_branch(hands: Hands, git: Git, base: Sha) -> None:
    hands.switch(git.root, None)
    stands = git.checkout(git.root)
    assert (stands.branch, stands.head) == (None, base)
    made = hands.commit(git.root, {"x": "x"})
    assert git.checkout(git.root).head == made
    assert git.resolve("main") == base


def test_work_is_what_stands_between_two_commits(hands: Hands, git: Git, base: Sha) -> None:
    first = hands.commit(git.root, {"a.txt": "one\n"}, "cut\n\nCriterion: c1\nCriterion: c2")
    head = hands.commit(git.root, {"new": "x\n"}, "grow")
    work = git.work(base, head)
    assert (work.base, work.head, work.descends, work.tree) == (base, head, True, git.tree_of(head))
    assert [(c.sha, c.subject, c.criteria) for c in work.commits] == [(head, "grow", ()), (first, "cut", ("c1", "c2"))]
    assert (work.changed, work.removed_lines) == (("a.txt", "new"), {"a.txt": 2})
    assert git.work(base, base).commits == ()
    assert not git.work(head, base).descends


def test_two_sides_merge_or_do_not(hands: Hands, git: Git, base: Sha) -> None:
    ours = hands.commit(git.root, {"a.txt": "ours\n"})
    hands.switch(git.root, "clash", at=base)
    clash = hands.commit(git.root, {"a.txt": "theirs\n"})
    hands.switch(git.root, "apart", at=base)
    apart = hands.commit(git.root, {"c": "c\n"})
    assert [git.merges(ours, other) for other in (clash, apart, Sha("1" * 40))] == [False, True, None]


def test_commits_without_the_marker_are_known_by_the_reflog(hands: Hands, git: Git, base: Sha) -> None:
    hands.commit(git.root, {"a.txt": "mind\n"}, action="mind b.1")
    assert git.unmarked("main", "mind b.1", since=base) == frozenset()
    person = hands.commit(git.root, {"a.txt": "person\n"})
    assert git.unmarked("main", "mind b.1", since=base) == {person}


def test_what_landed_is_told_by_exact_trailers_oldest_first(hands: Hands, git: Git, base: Sha) -> None:
    def commit(files: Mapping[str, str | None], *paragraphs: str) -> Sha:
        return hands.commit(git.root, files, "\n\n".join(paragraphs))

    before = commit({"w": "0"}, "earlier", "Orchconverge-Basin: b\nOrchconverge-Branch: b.9")
    commit({"x": "0"}, "talk", "We saw\nOrchconverge-Basin: b\nOrchconverge-Branch: b.7\nin the text.", "Other: 1")
    whole = commit({"x": "1", "y": "1"}, "graft", "why", "Orchconverge-Basin: b\nOrchconverge-Branch: b.1")
    commit({"x": "2"}, "of another", "Orchconverge-Basin: bb\nOrchconverge-Branch: bb.1")
    part = commit(
        {"y": None},
        "part",
        "Orchconverge-Basin: b\nOrchconverge-Residue-Of: b.12\nOrchconverge-Criterion: c1\nOrchconverge-Reason: so",
    )
    head = commit({"x": "3"}, "after")
    found = git.landed("b", since=before, head=head)
    assert [(x.commit, x.branch, x.part, x.paths, x.criterion, x.reason) for x in found] == [
        (whole, "b.1", False, ("x", "y"), None, ""),
        (part, "b.12", True, ("y",), "c1", "so"),
    ]
    assert [x.tree for x in found] == [git.tree_of(whole), git.tree_of(part)]
    assert [x.branch for x in git.landed("b", since=base, head=whole)] == ["b.9", "b.1"]
    assert list(git.landed("b", since=part, head=head)) == []
    assert git.changed(before, part) == git.changed(part, before) == ("x",)


def test_a_proposal_is_kept_on_a_ref_of_its_basin(git: Git, base: Sha) -> None:
    for text in ("one", "two"):
        made = git.commit_tree(git.tree_of(base), parent=base, message=text)
        git.offer("b", made)
        git.offer("b", made)
        assert git.resolve("refs/orchconverge/proposal/b") == made


def test_branches_are_created_once_and_not_above_one_another(hands: Hands, git: Git, base: Sha) -> None:
    git.create_branch("goal/one", base)
    git.create_branch("goal/one", base)
    newer = hands.commit(git.root, {"n": "n"})
    for name, at in (("goal/one", newer), ("goal", base), ("main/x", base), ("a..b", base), ("-x", base), ("", base)):
        with pytest.raises(Refused):
            git.create_branch(name, at)


def test_a_worktree_is_added_once_and_is_its_own(hands: Hands, git: Git, base: Sha) -> None:
    place = hands.trees / "m1"
    git.add_worktree(place, branch="mind/1", at=base)
    assert (git.checkout(place).branch, git.checked_out_at("mind/1")) == ("mind/1", place)
    head = hands.commit(place, {"n": "n"})
    git.add_worktree(place, branch="mind/1", at=base)
    assert git.checkout(place).head == git.resolve("mind/1") == head
    with pytest.raises(Refused):
        git.add_worktree(place, branch="mind/2", at=base)
    with pytest.raises(Refused):
        git.add_worktree(hands.trees / "m2", branch="main", at=base)
    git.remove_worktree(place)
    git.remove_worktree(place)
    assert not place.exists()
    assert git.resolve("mind/1") == head
    with pytest.raises(Failed):
        git.checkout(place)


def test_a_worktree_that_is_made_again_is_another_one(hands: Hands, git: Git, base: Sha) -> None:
    place = hands.trees / "m"
    git.add_worktree(place, branch=None, at=base)
    first = git.made(place)
    git.add_worktree(place, branch=None, at=base)
    assert git.made(place) == first
    git.remove_worktree(place)
    with pytest.raises(Failed):
        git.made(place)
    git.add_worktree(place, branch=None, at=base)
    assert git.made(place) != first
    assert git.nested(place) == ()
    git.squash(place, tip=base, head=base)
    with pytest.raises(Failed):
        git.made(place)
    assert git.identity()


def test_a_detached_tree_stands_at_one_commit(hands: Hands, git: Git, base: Sha) -> None:
    git.add_worktree(hands.trees / "t", branch=None, at=base)
    git.add_worktree(hands.trees / "t", branch=None, at=base)
    newer = hands.commit(git.root, {"n": "n"})
    with pytest.raises(Refused):
        git.add_worktree(hands.trees / "t", branch=None, at=newer)


def test_nothing_but_our_own_trees_is_removed(hands: Hands, git: Git) -> None:
    (hands.trees / "plain").mkdir(parents=True)
    (hands.trees / "plain/file").write_text("x")
    for path in (git.root, hands.trees, hands.trees / "plain", Path("/")):
        with pytest.raises(Refused):
            git.remove_worktree(path)
    assert (hands.trees / "plain/file").exists()


def test_what_is_included_is_untracked_and_named(hands: Hands, git: Git, base: Sha) -> None:
    hands.write(git.root, ".worktreeinclude", "*.env\n")
    hands.write(git.root, "local.env", "key")
    git.add_worktree(hands.trees / "m", branch="m", at=base)
    assert git.include(hands.trees / "m") == ("local.env",)
    assert git.include(hands.trees / "m") == ()
    assert hands.read(hands.trees / "m", "local.env") == "key"


def test_a_snapshot_keeps_what_is_uncommitted_and_leaves_it_there(hands: Hands, git: Git, base: Sha) -> None:
    assert git.snapshot(git.root, "b.0") is None
    hands.write(git.root, "a.txt", "changed\n")
    hands.write(git.root, "new", "new\n")
    before = git.checkout(git.root)
    kept = git.snapshot(git.root, "b.1")
    assert kept is not None
    assert git.resolve("refs/orchconverge/keep/b.1") == kept
    assert git.work(base, kept).changed == ("a.txt", "new")
    assert git.checkout(git.root) == before


def test_a_squash_holds_the_merged_tree_and_moves_nothing(hands: Hands, git: Git, base: Sha) -> None:
    git.add_worktree(hands.trees / "m", branch="m", at=base)
    head = hands.commit(hands.trees / "m", {"from-mind": "1"})
    tip = hands.commit(git.root, {"from-person": "1"})
    for _ in range(2):
        squash = git.squash(hands.trees / "q", tip=tip, head=head)
        assert squash.tree is not None
        assert not (hands.trees / "q").exists()
    made = git.commit_tree(squash.tree, parent=tip, message="graft\n\nOrchconverge-Branch: m")
    assert (git.resolve("main"), git.tree_of(made), git.work(tip, made).changed) == (tip, squash.tree, ("from-mind",))
    assert git.squash(hands.trees / "q", tip=tip, head=tip).tree == git.tree_of(tip)


def test_a_squash_in_conflict_names_the_paths(hands: Hands, git: Git, base: Sha) -> None:
    git.add_worktree(hands.trees / "m", branch="m", at=base)
    head = hands.commit(hands.trees / "m", {"a.txt": "mind\n", "b.txt": None, "fine": "1"})
    tip = hands.commit(git.root, {"a.txt": "person\n", "b.txt": "changed\n"})
    squash = git.squash(hands.trees / "q", tip=tip, head=head)
    assert (squash.tree, squash.conflicts) == (None, ("a.txt", "b.txt"))


def test_parts_are_single_commits_or_single_paths(hands: Hands, git: Git, base: Sha) -> None:
    mind, place = hands.trees / "m", hands.trees / "q"
    git.add_worktree(mind, branch="m", at=base)
    first = hands.commit(mind, {"c1": "1\n", "gone": "1\n"})
    second = hands.commit(mind, {"a.txt": "mind\n", "new": "1\n"})
    third = hands.commit(mind, {"c1": "1\n2\n", "b.txt": None, "gone": None})
    tip = hands.commit(git.root, {"a.txt": "person\n", "new": "2\n"})

    def took(commits: tuple[Sha, ...] = (), paths: tuple[str, ...] = (), patch: bytes = b"") -> tuple[str, ...]:
        found = git.squash(place, tip=tip, head=third, base=base, commits=commits, paths=paths, patch=patch)
        assert not place.exists()
        if found.tree is None:
            return ("in conflict:", *sorted(found.conflicts))
        return git.changed(tip, git.commit_tree(found.tree, parent=tip, message="part"))

    assert took(commits=(first,)) == ("c1", "gone")
    assert took(commits=(first, third)) == ("b.txt", "c1")
    assert took(paths=("c1",)) == ("c1",)
    assert took(paths=("b.txt", "c1")) == ("b.txt", "c1")
    assert took(paths=("gone",)) == ()
    assert took(paths=("a.txt",)) == ("in conflict:", "a.txt")
    assert took(paths=("a.txt", "c1", "new")) == ("in conflict:", "a.txt", "new")
    assert took(commits=(second,)) == ("in conflict:", "a.txt", "new")
    assert took(commits=(third,)) == ("in conflict:", "c1", "gone")
    assert took() == ("in conflict:", "a.txt", "new")
    assert took(patch=git.patch(base, third, ("c1",))) == ("c1",)
    assert took(patch=git.patch(base, third, ("a.txt", "c1"))) == ("in conflict:", "a.txt")


def test_files_are_read_off_a_tree_and_never_off_what_lies_there(hands: Hands, git: Git, base: Sha) -> None:
    head = hands.commit(git.root, {"b.txt": None, "in/a b.txt": "yes\n", "x blob": "x"})
    hands.write(git.root, "a.txt", "changed since")
    hands.write(git.root, "new.txt", "new")
    asked = ("a.txt", "in/a b.txt", "b.txt", "new.txt", "in", "x blob", "y blob", "gone blob 7", "a\nb", "", "a.txt")
    found = git.compare.files(git.tree_of(head), asked)
    assert found == {"a.txt": b"one\ntwo\nthree\n", "in/a b.txt": b"yes\n", "x blob": b"x"}
    assert git.compare.files(git.tree_of(base), ("b.txt",)) == {"b.txt": b"b\n"}
    assert git.compare.files(git.tree_of(base), ()) == {}


def test_a_branch_advances_by_compare_and_swap(hands: Hands, git: Git, base: Sha) -> None:
    git.create_branch("goal", base)
    new = git.commit_tree(git.tree_of(base), parent=base, message="new")
    assert git.advance("goal", new=new, old=base)
    assert git.advance("goal", new=new, old=base)
    other = git.commit_tree(git.tree_of(base), parent=base, message="other")
    assert not git.advance("goal", new=other, old=base)
    with pytest.raises(Refused):
        git.advance("goal", new=base, old=new)
    assert git.resolve("goal") == new


def test_a_clean_checkout_moves_along_and_one_with_changes_does_not(hands: Hands, git: Git, base: Sha) -> None:
    git.add_worktree(hands.trees / "m", branch="m", at=base)
    new = hands.commit(hands.trees / "m", {"a.txt": "new\n", "c": "c"})
    for name in ("a.txt", "c"):  # changed, or untracked and in the way
        hands.write(git.root, name, "mine\n")
        with pytest.raises(Refused):
            git.advance("main", new=new, old=base)
        hands.write(git.root, name, START.get(name))
    hands.write(git.root, "untracked", "mine")
    assert git.advance("main", new=new, old=base)
    stands = git.checkout(git.root)
    assert (stands.head, stands.branch, stands.dirty, stands.untracked) == (new, "main", (), ("untracked",))
    assert hands.read(git.root, "a.txt") == "new\n"


@pytest.mark.parametrize("branch", ["main", "goal"])
def test_one_file_is_committed_alone(hands: Hands, git: Git, base: Sha, branch: str) -> None:
    git.create_branch("goal", base)
    hands.write(git.root, "a.txt", "dirty\n")
    made = git.commit_file(branch, "docs/r.md", "# report\n", "report")
    assert git.resolve(branch) == made
    assert git.work(base, made).changed == ("docs/r.md",)
    assert git.commit_file(branch, "docs/r.md", "# report\n", "report") == made
    assert git.checkout(git.root).dirty == ("a.txt",)
    for path in ("../x", "/etc/x", ".git/x", ""):
        with pytest.raises(Refused):
            git.commit_file(branch, path, "x", "no")


def test_a_file_that_a_person_is_writing_is_not_replaced(hands: Hands, git: Git, base: Sha) -> None:
    hands.write(git.root, "a.txt", "mine\n")
    with pytest.raises(Refused):
        git.commit_file("main", "a.txt", "ours\n", "report")
    assert hands.read(git.root, "a.txt") == "mine\n"


def test_the_fingerprint_changes_with_the_configuration_alone(hands: Hands, git: Git) -> None:
    before = git.fingerprint()
    hands.commit(git.root, {"n": "n"})
    assert git.fingerprint() == before
    hands.configure()
    assert git.fingerprint() != before


# --- supervisors -----------------------------------------------------------------------------------------------------


class Bench(Protocol):
    """Runs what is supervised and lets time pass until something is so."""

    supervisors: Supervisors

    def other(self) -> Supervisors: ...

    def spec(self, name: str, does: str, *, deadline: float | None = None) -> Spec: ...

    def until(self, name: str, kind: type[Probe]) -> Probe: ...


SCRIPTS = {"ends": "echo out; exit 3", "sleeps": "sleep 600", "works": "exit 0"}


class RealBench:
    def __init__(self, folder: Path) -> None:
        self._folder = folder / "runs"
        self.supervisors = RealSupervisors(self._folder)

    def other(self) -> Supervisors:
        return RealSupervisors(self._folder)

    def spec(self, name: str, does: str, *, deadline: float | None = None) -> Spec:
        argv = ("/bin/sh", "-c", SCRIPTS[does])
        return Spec(name=name, cwd=Path("/"), argv=argv, env={"PATH": os.environ["PATH"]}, deadline_seconds=deadline)

    def until(self, name: str, kind: type[Probe]) -> Probe:
        poller = select.poll()
        for _ in range(2000):
            found = self.supervisors.probe(name)
            if isinstance(found, kind):
                return found
            handle = self.supervisors.pidfd(name) if isinstance(found, Running) else None
            poller.poll(5) if handle is None else select.select([handle], [], [], 10)
            if handle is not None:
                os.close(handle)
        raise AssertionError(f"{name} is {found}, not {kind.__name__}")


class FakeBench:
    def __init__(self, folder: Path) -> None:
        self._time = Time()
        self._machine = Machine(self._time, play=self._play)
        self._folder = folder
        self.supervisors = MemorySupervisors(self._machine, folder)

    def _play(self, spec: Spec) -> Program:
        return {
            "ends": Program(code=3, log=b"out\n"),
            "sleeps": Program(seconds=600),
            "works": Program(),
        }[spec.argv[0]]

    def other(self) -> Supervisors:
        return MemorySupervisors(self._machine, self._folder)

    def spec(self, name: str, does: str, *, deadline: float | None = None) -> Spec:
        return Spec(name=name, cwd=Path("/"), argv=(does,), env={}, deadline_seconds=deadline)

    def until(self, name: str, kind: type[Probe]) -> Probe:
        for _ in range(100):
            found = self.supervisors.probe(name)
            if isinstance(found, kind):
                return found
            self._time.run(0.5)
        raise AssertionError(f"{name} is {found}, not {kind.__name__}")


@pytest.fixture(params=["real", "fake"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    made: Bench = RealBench(tmp_path) if request.param == "real" else FakeBench(tmp_path)
    yield made
    for name in made.supervisors.found("minds/"):
        made.supervisors.kill(name)


def start(bench: Bench, name: str, does: str, *, deadline: float | None = None) -> None:
    bench.supervisors.launch(bench.supervisors.prepare(bench.spec(name, does, deadline=deadline)))


def test_a_run_is_absent_starting_running_and_ended(bench: Bench) -> None:
    supervisors = bench.supervisors
    assert supervisors.probe("minds/a.1") == Absent()
    argv = supervisors.prepare(bench.spec("minds/a.1", "sleeps"))
    assert supervisors.probe("minds/a.1") == Starting()
    assert bench.other().probe("minds/a.1") == Absent(), "who did not prepare it cannot know that it is on its way"
    supervisors.launch(argv)
    bench.until("minds/a.1", Running)
    assert supervisors.stop("minds/a.1")
    ended = bench.until("minds/a.1", Ended)
    assert isinstance(ended, Ended)
    assert ended.exit.reason == "killed"
    assert supervisors.stop("minds/a.1")


def test_an_end_has_its_code_and_its_output(bench: Bench) -> None:
    start(bench, "minds/a.1", "ends")
    ended = bench.until("minds/a.1", Ended)
    assert isinstance(ended, Ended)
    assert (ended.exit.reason, ended.exit.code, ended.process is not None) == ("exited", 3, True)
    assert bench.supervisors.log("minds/a.1", most_bytes=100) == b"out\n"


def test_the_deadline_ends_it(bench: Bench) -> None:
    start(bench, "minds/a.1", "sleeps", deadline=0.3)
    ended = bench.until("minds/a.1", Ended)
    assert isinstance(ended, Ended)
    assert ended.exit.reason == "deadline"
    assert ended.exit.seconds >= 0.3


def test_what_runs_or_ran_is_not_prepared_again(bench: Bench) -> None:
    start(bench, "minds/a.1", "sleeps")
    bench.until("minds/a.1", Running)
    with pytest.raises(Failed):
        bench.other().prepare(bench.spec("minds/a.1", "works"))
    bench.supervisors.stop("minds/a.1")
    bench.until("minds/a.1", Ended)
    with pytest.raises(Failed):
        bench.supervisors.prepare(bench.spec("minds/a.1", "works"))


def test_of_two_starts_one_runs(bench: Bench) -> None:
    argv = bench.supervisors.prepare(bench.spec("minds/a.1", "ends"))
    bench.supervisors.launch(argv)
    bench.supervisors.launch(argv)
    first = bench.until("minds/a.1", Ended)
    bench.supervisors.launch(argv)
    assert bench.until("minds/a.1", Ended) == first


def test_a_start_that_was_withdrawn_never_runs(bench: Bench) -> None:
    argv = bench.supervisors.prepare(bench.spec("minds/a.1", "ends"))
    assert bench.supervisors.stop("minds/a.1")
    assert bench.supervisors.probe("minds/a.1") == Absent()
    bench.supervisors.launch(argv)
    start(bench, "minds/a.2", "ends")
    bench.until("minds/a.2", Ended)
    assert bench.supervisors.probe("minds/a.1") == Absent()


def test_what_another_controller_prepared_is_withdrawn_by_a_stop(bench: Bench) -> None:
    argv = bench.supervisors.prepare(bench.spec("minds/a.1", "ends"))
    other = bench.other()
    assert other.probe("minds/a.1") == Absent()
    assert other.stop("minds/a.1")
    bench.supervisors.launch(argv)
    start(bench, "minds/a.2", "ends")
    bench.until("minds/a.2", Ended)
    assert bench.supervisors.probe("minds/a.1") == Absent()


def test_what_runs_has_a_folder_inside_of_its_own(bench: Bench) -> None:
    inside = bench.supervisors.subfolder("minds/a.1", "mind")
    assert inside == bench.supervisors.folder("minds/a.1") / "mind"
    assert bench.supervisors.get("minds/a.1", "mind/report.json") is None


def test_one_that_was_killed_is_lost_and_can_begin_again(bench: Bench) -> None:
    start(bench, "minds/a.1", "sleeps")
    bench.until("minds/a.1", Running)
    assert bench.supervisors.kill("minds/a.1")
    assert isinstance(bench.until("minds/a.1", Lost), Lost)
    start(bench, "minds/a.1", "works")
    bench.until("minds/a.1", Ended)
    assert bench.supervisors.found("minds/") == ["minds/a.1"]


def test_small_files_are_put_and_got(bench: Bench) -> None:
    path = bench.supervisors.put("minds/a.1", "brief.md", b"hello")
    assert path == bench.supervisors.folder("minds/a.1") / "brief.md"
    assert bench.supervisors.get("minds/a.1", "brief.md") == b"hello"
    assert bench.supervisors.get("minds/a.1", "brief.md", most_bytes=2) == b"he"
    assert bench.supervisors.get("minds/a.1", "other") is None
    assert bench.supervisors.get("minds/a.9", "brief.md") is None


def test_names_are_found_by_how_they_begin(bench: Bench) -> None:
    for name in ("checks/a.2", "checks/a.1", "checks/b.1", "minds/a.1"):
        bench.supervisors.folder(name)
    assert bench.supervisors.found("checks/a.") == ["checks/a.1", "checks/a.2"]
    assert bench.supervisors.found("steps/") == []


@pytest.mark.parametrize("name", ["", "..", "../x", "a\0b", "-x", "a b", "x" * 200])
def test_an_impossible_name_is_refused(bench: Bench, name: str) -> None:
    with pytest.raises(ValueError, match="cannot be the name"):
        bench.supervisors.probe(name)


# --- tmux ------------------------------------------------------------------------------------------------------------


@pytest.fixture(params=[pytest.param("tmux", marks=pytest.mark.tmux), "fake"])
def panes(request: pytest.FixtureRequest) -> Iterator[Panes]:
    if request.param == "fake":
        yield MemoryPanes()
        return
    if not shutil.which("tmux"):
        pytest.skip("needs tmux")
    with tempfile.TemporaryDirectory(prefix="oc", dir="/tmp") as home:
        tmux = Tmux("orchconverge", environ={"PATH": os.environ["PATH"], "HOME": home, "TMUX_TMPDIR": home})
        yield tmux
        for name in list(tmux._sessions()):
            tmux.close(name)


SLEEP = ("sleep", "600")


def test_a_session_is_there_from_open_to_close_and_never_opened_twice(panes: Panes) -> None:
    assert panes.alive("mind-a-1") is False
    pane = panes.open("mind-a-1", SLEEP)
    assert (pane.name, pane.session[0], pane.pane[0]) == ("mind-a-1", "$", "%")
    with pytest.raises(SessionExists):
        panes.open("mind-a-1", SLEEP)
    assert panes.alive("mind-a-1") is True
    panes.close("mind-a-1")
    panes.close("mind-a-1")
    assert panes.alive("mind-a-1") is False


def test_only_the_exact_name_is_meant(panes: Panes) -> None:
    panes.open("m-10", SLEEP)
    for asked in ("m-1", "m", "m-*", "$0", ""):
        assert panes.alive(asked) is False
        panes.close(asked)
    assert panes.alive("m-10") is True


@pytest.mark.parametrize("name", ["", "a.b", "a:b", "#(true)", "a b"])
def test_a_name_that_tmux_would_change_is_turned_down(panes: Panes, name: str) -> None:
    with pytest.raises(Failed):
        panes.open(name, SLEEP)


def test_the_attach_command_names_socket_and_session(panes: Panes) -> None:
    line = panes.attach_command("m-1")
    assert str(panes.socket_path) in line
    assert "=m-1" in line
