"""What went wrong elsewhere with worktrees, branches and merges, tried on real git here; each test says what failed there."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from itertools import count, pairwise
from pathlib import Path

import pytest

from orchconverge.adapters.git import Repository
from orchconverge.adapters.locks import FileLocks
from orchconverge.app.environment import in_worktree, ports
from orchconverge.app.trees import Trees
from orchconverge.app.world import World
from orchconverge.core import events as e
from orchconverge.core.state import Branch, Phase
from orchconverge.core.target import Sha
from orchconverge.errors import Failed, Refused
from tests.fakes.rest import MemoryJournal
from tests.fakes.simulation import simulate
from tests.fakes.story import plain

BASIN = "goal"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    for name in [name for name in os.environ if name.startswith(("GIT_", "XDG_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    (folder / ".gitconfig").write_text(
        "[user]\n\tname = Ann\n\temail = a@example.org\n[init]\n\tdefaultBranch = main\n"
    )
    return folder


def by_hand(cwd: Path, *args: str, check: bool = True) -> str:
    done = subprocess.run(["git", "-C", str(cwd), *args], check=False, capture_output=True)
    assert done.returncode == 0 or not check, done.stderr.decode()
    return os.fsdecode(done.stdout).strip()


def commit(tree: Path, message: str = "work", **files: str) -> Sha:
    for name, text in files.items():
        (tree / name).write_text(text)
    by_hand(tree, "add", "--all")
    by_hand(tree, "commit", "--quiet", "--allow-empty", "-m", message)
    return Sha(by_hand(tree, "rev-parse", "HEAD"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    by_hand(folder, "init", "--quiet")
    commit(folder, "start", a="one\n")
    return folder


@pytest.fixture
def places(tmp_path: Path) -> Path:
    """The folder of our worktrees."""
    return tmp_path / "data" / "trees"


@pytest.fixture
def repo(root: Path, places: Path) -> Repository:
    return Repository.open(root, trees=places)


@pytest.fixture
def base(repo: Repository) -> Sha:
    found = repo.resolve("HEAD")
    assert found is not None
    return found


def trees_of(repo: Repository, places: Path) -> Trees:
    """What a controller has that was started now. Ports that `Trees` does not use are not there."""
    state = repo.common_dir / "orchconverge"
    given = {"git": repo, "leases": FileLocks(state), "journal": MemoryJournal(), "trees": places, "state": state}
    world = World(**dict.fromkeys(field.name for field in fields(World)) | given)  # type: ignore[arg-type]
    return Trees(world, BASIN)


NUMBERS = count(1)


def mind_of(places: Path, base: Sha, *, git_branch: str = "") -> Branch:
    """A branch as it is recorded when it was spawned in a worktree."""
    number = next(NUMBERS)
    return Branch(
        id=f"{BASIN}.{number}",
        basin=BASIN,
        attempt=1,
        phase=Phase.SPAWNED,
        approach="",
        git_branch=git_branch or f"orchconverge/m-{number}",
        worktree=str(places / f"m-{number}"),
        base=base,
        engine="scripted",
        place="fresh",
    )


def digests(*folders: Path) -> dict[str, str]:
    """Every file below these folders, git's own included, and its digest."""
    files: Iterable[Path] = (file for folder in folders for file in sorted(folder.rglob("*")) if file.is_file())
    return {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


# --- removing --------------------------------------------------------------------------------------------------------


def test_b118_no_way_to_name_a_worktree_removes_the_main_one(
    repo: Repository, root: Path, places: Path, base: Sha
) -> None:
    """The repository was gone: what was to be removed resolved to the main worktree."""
    repo.add_worktree(places / "m", branch="m", at=base)
    (places / "link").symlink_to(root)
    (places / "back").symlink_to(places.parent.parent)
    pointer = root / ".git" / "worktrees" / "m" / "gitdir"
    for path in (root, places / "link", places / "back" / "project", places / "m" / ".." / ".." / ".." / "project"):
        with pytest.raises(Refused):
            repo.remove_worktree(path)
    pointer.write_text(f"{root}/.git\n")  # the record of a mind's tree, doctored
    for path in (root, places / "m"):
        with pytest.raises(Refused):
            repo.remove_worktree(path)
    assert by_hand(root, "status", "--porcelain") == ""
    assert (root / "a").read_text() == "one\n"
    assert by_hand(root, "fsck", "--no-progress") == ""


def test_b121_nothing_that_is_nowhere_else_goes_with_a_worktree(repo: Repository, places: Path, base: Sha) -> None:
    """Untracked files and rebased commits were lost: "nothing to keep" was measured against a base read anew."""
    trees, mind = trees_of(repo, places), mind_of(places, base)
    tree = Path(mind.worktree)
    trees.for_mind(mind, setup="")
    (tree / "untracked").write_text("only here\n")
    kept = repo.snapshot(tree, f"{mind.id}-leftovers")
    commit(tree, b="b")
    by_hand(tree, "checkout", "--quiet", "--detach")
    rebased = commit(tree, "on no branch", c="c")
    assert trees.remove_mind(mind)
    assert not tree.exists()
    assert repo.resolve(f"refs/orchconverge/keep/{mind.id}") == rebased
    assert by_hand(repo.root, "show", f"{kept}:untracked") == "only here"


def test_b121_a_base_that_was_rebased_away_is_still_what_work_is_measured_by(
    repo: Repository, root: Path, places: Path, base: Sha
) -> None:
    """A base read again after a rebase said that there was no work."""
    started = commit(root, "a person's", person="1")
    repo.add_worktree(places / "m", branch="m", at=started)
    commit(places / "m", mind="1")
    by_hand(places / "m", "rebase", "--quiet", "--onto", base, started)
    head = repo.resolve("refs/heads/m")
    assert head is not None
    work = repo.work(started, head)
    assert not work.descends
    assert [one.subject for one in work.commits] == ["work"]


# --- making ----------------------------------------------------------------------------------------------------------


def test_b120_no_mind_works_on_the_target_itself() -> None:
    """Main was removed: a merge was called from the branch it merged into."""
    done = simulate(plain("fresh", minds=("gain", "gain")))
    spawned = done.facts(e.BranchSpawned)
    names = {fact.gitBranch for fact in spawned}
    assert len(names) == len(spawned) == 2
    assert all(name.startswith("orchconverge/m-") and name != done.basin.target for name in names)


def test_b120_a_branch_that_is_checked_out_is_no_minds(repo: Repository, places: Path, base: Sha) -> None:
    with pytest.raises(Refused, match="checked out at"):
        trees_of(repo, places).for_mind(mind_of(places, base, git_branch="main"), setup="")
    assert repo.checked_out_at("main") == repo.root


def test_b123_a_name_that_is_taken_is_refused_and_what_is_there_stays(
    repo: Repository, root: Path, places: Path, base: Sha
) -> None:
    """Edits landed on the user's branch: a second worktree of one name silently was the first."""
    trees, mind = trees_of(repo, places), mind_of(places, base)
    by_hand(root, "branch", mind.git_branch, commit(root, "a person's", p="p"))
    with pytest.raises(Refused, match="exists already"):
        trees.for_mind(mind, setup="")
    other = mind_of(places, base)
    Path(other.worktree).mkdir(parents=True)
    (Path(other.worktree) / "precious").write_text("1")
    with pytest.raises(Refused, match="not a worktree"):
        trees.for_mind(other, setup="")
    assert (Path(other.worktree) / "precious").read_text() == "1"
    assert repo.resolve(f"refs/heads/{other.git_branch}") is None
    mine = mind_of(places, base)
    trees.for_mind(mine, setup="")
    trees_of(repo, places).for_mind(mine, setup="")  # the same, by a controller that took over
    with pytest.raises(Refused, match="something else"):
        repo.add_worktree(Path(mine.worktree), branch="orchconverge/m-other", at=base)


def test_b124_a_tree_stands_at_the_commit_that_was_recorded_and_follows_no_remote(
    repo: Repository, root: Path, places: Path, base: Sha, home: Path
) -> None:
    """A stale base: the worktree was made from origin, which was behind."""
    by_hand(root, "clone", "--quiet", "--bare", str(root), str(root.parent / "origin.git"))
    by_hand(root, "remote", "add", "origin", str(root.parent / "origin.git"))
    by_hand(root, "fetch", "--quiet", "origin")
    by_hand(root, "branch", "--quiet", "--set-upstream-to", "origin/main")
    ahead = commit(root, "ahead of origin", b="b")
    with (home / ".gitconfig").open("a") as file:
        file.write("[branch]\n\tautoSetupMerge = always\n[checkout]\n\tdefaultRemote = origin\n")
    mind = mind_of(places, ahead)
    trees_of(repo, places).for_mind(mind, setup="")
    assert repo.checkout(Path(mind.worktree)).head == ahead
    assert by_hand(root, "for-each-ref", "--format=%(upstream)", f"refs/heads/{mind.git_branch}") == ""


def test_b124_the_base_is_recorded_when_a_mind_is_spawned() -> None:
    done = simulate(plain("fresh", minds=("gain", "gain")))
    first, second = done.facts(e.BranchSpawned)
    [landed, _] = done.facts(e.BranchGrafted)
    assert first.base in done.store.commits
    assert second.base == landed.mergeCommit


def test_b127_sixteen_trees_at_once_are_sixteen_trees(root: Path, places: Path, base: Sha) -> None:
    """Two of three spawns failed: `worktree add` runs that met."""

    def make(mind: Branch) -> str:
        own = Repository.open(root, trees=places)
        trees_of(own, places).for_mind(mind, setup="")
        return own.checkout(Path(mind.worktree)).branch or ""

    minds = [mind_of(places, base) for _ in range(16)]
    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(make, minds)) == [mind.git_branch for mind in minds]


@pytest.mark.parametrize("name", ["FETCH_HEAD", "HEAD", "main", "origin/main", "refs/heads/main"])
def test_b129_a_tree_is_made_of_a_commit_and_of_no_name_that_can_move(
    repo: Repository, places: Path, base: Sha, name: str
) -> None:
    """An invalid reference: a fetch and an add of FETCH_HEAD ran at the same time."""
    (repo.common_dir / "FETCH_HEAD").write_text(f"{base}\t\tbranch 'main' of elsewhere\n")
    for branch in ("m", None):
        with pytest.raises(Refused, match="full commit id"):
            repo.add_worktree(places / "m", branch=branch, at=Sha(name))
    assert not (places / "m").exists()
    assert repo.resolve("refs/heads/m") is None


def test_b130_a_branch_of_a_goals_name_and_one_below_it_are_told_apart_beforehand(
    repo: Repository, root: Path, base: Sha
) -> None:
    """Cannot lock ref: the branch `release/1` existed, and the goal was `release`."""
    by_hand(root, "branch", "release/1")
    repo.create_branch("orchconverge/release", base)  # ours lie in a folder of their own
    with pytest.raises(Refused, match="cannot exist beside branch release/1"):
        repo.create_branch("release", base)
    with pytest.raises(Refused, match="cannot exist beside branch orchconverge/release"):
        repo.create_branch("orchconverge/release/1", base)
    assert by_hand(root, "for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads").split() == [
        "main",
        "orchconverge/release",
        "release/1",
    ]


def test_b132_a_repository_without_a_commit_is_told_what_it_needs_and_gets_nothing(tmp_path: Path) -> None:
    """A cryptic message after `git init`."""
    unborn = tmp_path / "unborn"
    unborn.mkdir()
    by_hand(unborn, "init", "--quiet")
    before = digests(unborn)
    with pytest.raises(Refused, match="needs one commit") as refused:
        Repository.open(unborn, trees=tmp_path / "trees")
    assert "git commit" in refused.value.hint
    assert digests(unborn) == before
    assert not (tmp_path / "trees").exists()


def test_b133_a_tree_that_cannot_be_made_is_no_reason_to_work_in_another(
    repo: Repository, root: Path, places: Path, base: Sha
) -> None:
    """It went on in the main tree."""
    places.parent.mkdir()
    places.write_text("a file where our trees would lie")
    before = digests(root)
    with pytest.raises((Failed, Refused, OSError)):
        trees_of(repo, places).for_mind(mind_of(places, base), setup="touch ran")
    after = digests(root)
    assert {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)} <= {
        str(root / ".git/orchconverge/locks/spawn")
    }
    assert by_hand(root, "branch", "--format=%(refname:short)") == "main"


def test_a_tree_whose_submodule_was_filled_half_when_a_controller_was_killed_is_made_again(
    repo: Repository, root: Path, places: Path
) -> None:
    by_hand(root.parent, "init", "--quiet", "library")
    commit(root.parent / "library", file="whole\n")
    by_hand(
        root, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(root.parent / "library"), "lib"
    )
    mind = mind_of(places, commit(root, "with library"))
    tree = Path(mind.worktree)
    trees_of(repo, places).for_mind(mind, setup="")
    by_hand(tree / "lib", "update-ref", "-d", "refs/orchconverge/filled")  # what is done last was not done
    (tree / "lib" / "file").write_text("ha")
    trees_of(repo, places).for_mind(mind, setup="")
    assert (tree / "lib" / "file").read_text() == "whole\n"
    assert repo.checkout(tree).dirty == ()


# --- what minds do ---------------------------------------------------------------------------------------------------


def test_b138_work_on_a_detached_head_is_grafted() -> None:
    """Thirty-two commits orphaned, and marked complete."""
    done = simulate(plain("fresh", criteria=plain("fresh").criteria[:1], minds=("detached",)))
    [candidate], [_] = done.facts(e.BranchCandidate), done.facts(e.BranchGrafted)
    assert candidate.head in done.players.commits
    assert done.tree["c1.txt"] == "yes"


def test_b145_a_restart_reads_the_trees_of_minds_and_changes_nothing_there(
    repo: Repository, root: Path, places: Path, base: Sha
) -> None:
    """A restart with a dirty tree lost the work."""
    mind = mind_of(places, base)
    tree, entry = Path(mind.worktree), root / ".git" / "worktrees" / Path(mind.worktree).name
    trees_of(repo, places).for_mind(mind, setup="")
    commit(tree, b="b")
    (tree / "a").write_text("changed\n")
    (tree / "staged").write_text("staged\n")
    by_hand(tree, "add", "staged")
    (tree / "untracked").write_text("untracked\n")
    by_hand(tree, "status")  # settles the index: whatever changes from here on was us
    before = digests(tree, entry)
    restarted = Repository.open(root, trees=places)
    trees_of(restarted, places).for_mind(mind, setup="")
    stands = restarted.checkout(tree)
    assert restarted.snapshot(tree, f"{mind.id}-leftovers") is not None
    assert (stands.dirty, stands.untracked) == (("a", "staged"), ("untracked",))
    assert digests(tree, entry) == before


# --- grafting --------------------------------------------------------------------------------------------------------


def landed(repo: Repository, places: Path, head: Sha) -> Sha:
    """What a graft into main makes of a mind's head."""
    tip = repo.resolve("refs/heads/main")
    assert tip is not None
    squash = repo.squash(places / "q", tip=tip, head=head)
    repo.remove_worktree(places / "q")
    assert squash.tree is not None
    new = repo.commit_tree(squash.tree, parent=tip, message=f"graft of {head}")
    assert repo.advance("main", new=new, old=tip)
    return new


@pytest.mark.parametrize("style", ["merge", "zdiff3"])
def test_b141_a_conflict_leaves_no_marker_in_any_commit(
    repo: Repository, root: Path, places: Path, base: Sha, style: str
) -> None:
    """Markers in the history: a squash in conflict, then `commit -a`."""
    by_hand(root, "config", "merge.conflictStyle", style)
    for name in ("clash", "fits"):
        repo.add_worktree(places / name, branch=name, at=base)
    clash, fits = commit(places / "clash", a="mind\n"), commit(places / "fits", b="b\n")
    tip = commit(root, a="person\n")
    refused = repo.squash(places / "q", tip=tip, head=clash)
    assert (refused.tree, refused.conflicts) == (None, ("a",))
    new = landed(repo, places, fits)  # in the same place
    assert by_hand(root, "show", f"{new}:a") == "person"
    assert by_hand(root, "log", "--all", "--format=%H", "-G<<<<<<<") == ""


def test_b142_two_grafts_in_a_row_are_two_commits_and_leave_nothing_staged(
    repo: Repository, root: Path, places: Path, base: Sha
) -> None:
    """The squash was staged and not committed, and the second merge saw a dirty tree."""
    heads = []
    for name in ("one", "two"):
        repo.add_worktree(places / name, branch=name, at=base)
        heads.append(commit(places / name, **{name: "1"}))
    (root / "untracked").write_text("a person's")
    for head in heads:
        landed(repo, places, head)
        assert by_hand(root, "status", "--porcelain") == "?? untracked"
    assert by_hand(root, "log", "--format=%s").splitlines() == [
        *(f"graft of {head}" for head in reversed(heads)),
        "start",
    ]
    assert {"one", "two"} <= {path.name for path in root.iterdir()}


OPERATIONS = {
    "merge": ["merge", "theirs"],
    "rebase": ["rebase", "theirs"],
    "cherry-pick": ["cherry-pick", "theirs"],
    "revert": ["revert", "--no-edit", "HEAD~1"],
    "am": ["am", "--3way"],
    "bisect": ["bisect", "start"],
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_b144_a_half_done_operation_of_a_persons_is_left_exactly_so(
    repo: Repository, root: Path, places: Path, operation: str
) -> None:
    """The user's half-done rebase was aborted."""
    for text in ("two", "three"):
        commit(root, text, a=f"{text}\n")
    tip = repo.resolve("HEAD")
    assert tip is not None
    by_hand(root, "switch", "--quiet", "-c", "theirs", "HEAD~2")
    commit(root, "theirs", a="theirs\n")
    patch = by_hand(root, "format-patch", "--stdout", "-1") + "\n"
    by_hand(root, "switch", "--quiet", "main")
    repo.add_worktree(places / "m", branch="m", at=tip)
    head = commit(places / "m", b="b")
    words = ["git", "-C", str(root), *OPERATIONS[operation]]
    subprocess.run(words, input=patch.encode(), capture_output=True, check=False)
    assert repo.checkout(root).operation == operation
    by_hand(root, "status")
    before = digests(root)
    with pytest.raises(Refused, match=operation):
        repo.advance("main", new=head, old=tip)
    with pytest.raises(Refused, match=operation):
        repo.commit_file("main", "report.md", "# report\n", "report")
    after = digests(root)
    changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    assert {name for name in changed if "/objects/" not in name} == set()


# --- ports -----------------------------------------------------------------------------------------------------------


def test_the_ports_of_a_thousand_minds_of_one_basin_never_meet() -> None:
    taken = set()
    for number in range(1, 1001):
        first, last = map(int, ports(f"goal.{number}", where="here").split("-"))
        assert 20_000 < first < last < 32_768
        taken |= set(range(first, last + 1))
    assert len(taken) == 10_000


def test_ports_do_not_tell_the_number_of_a_mind_nor_follow_it_alike_in_every_basin() -> None:
    firsts = {
        basin: [int(ports(f"{basin}.{number}", where=where).split("-")[0]) for number in range(1, 9)]
        for where in ("here", "there")
        for basin in (f"goal-{where}", f"other-{where}")
    }
    steps = [tuple(after - before for before, after in pairwise(dealt)) for dealt in firsts.values()]
    assert len(set(steps)) == len(steps)
    assert len({dealt[0] for dealt in firsts.values()}) == len(firsts)
    assert all(10 not in map(abs, step) for step in steps)
    assert ports("goal.1", where="here") == ports("goal.1", where="here")


def test_a_mind_in_a_worktree_is_asked_for_no_key(tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    by_hand(root, "config", "commit.gpgSign", "true")
    by_hand(root, "config", "gpg.program", "/no/such/gpg")
    assert by_hand(root, "commit", "--quiet", "--allow-empty", "-m", "signed", check=False) == ""
    assert by_hand(root, "log", "-1", "--format=%s") == "start"
    for name, value in in_worktree("goal.1", where="here").items():
        monkeypatch.setenv(name, value)
    by_hand(root, "commit", "--quiet", "--allow-empty", "-m", "not signed")
