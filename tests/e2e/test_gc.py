"""What `gc` takes away and what never: after runs that ended, stopped, were killed, are under way or lost their controller."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from orchconverge.adapters.locks import FileLocks
from orchconverge.core import events as e
from orchconverge.core.state import Branch
from tests.e2e.lab import Lab, kill, meets, met, mind

pytestmark = [pytest.mark.tmux, pytest.mark.slow]

FLAGGED = {"write": {"path": ".github/workflows/ci.yml", "text": "on: push\n"}}
LEAVES = {"write": {"path": "left.txt", "text": "not committed\n"}}
KINDS = ("minds", "given", "checks", "setups", "steps")


def ended(lab: Lab) -> None:
    """A run of `a-and-b` that reached its limit: one graft, one mind that left something uncommitted."""
    script = lab.script(mind(*meets("a"), attempt=1), mind(LEAVES))
    lab.play("a and b", script, *met("a", "b"), "--max-attempts", "2", "--foreground", code=3)


def hanging(lab: Lab, *, committed: bool = False) -> Branch:
    """A run of `never-done` whose mind hangs, once it has committed something."""
    acts = [*meets("b")] if committed else []
    lab.play("never done", lab.script(mind(*acts, {"hang": True})), *met("a", "b"))
    branch = lab.until(lambda: [f.branch for f in lab.facts(e.BranchSearching) if f.basin == "never-done"])[0]
    tree = Path(lab.state().branches[branch].worktree)
    if committed:
        lab.until(
            lambda: (tree / "b.txt").exists() and lab.git("rev-parse", "HEAD", cwd=tree) != lab.git("rev-parse", "main")
        )
    return lab.state().branches[branch]


def everything(lab: Lab) -> dict[str, str | bytes]:
    """All refs, and all files of ours but locks and our own words, by path: what may not change unsaid."""
    found: dict[str, str | bytes] = {"refs": lab.git("for-each-ref"), "trees": lab.git("worktree", "list")}
    for top in (lab.state_dir, lab.home):
        for path in sorted(top.rglob("*")):
            inside = path.relative_to(lab.root)
            if path.is_file() and not path.is_symlink() and not {"locks", "logs"} & set(inside.parts):
                found[str(inside)] = path.read_bytes()
    return found


def left(lab: Lab) -> list[str]:
    """The run folders that are there, by kind and name."""
    return sorted(str(path.relative_to(lab.minds)) for kind in KINDS for path in (lab.minds / kind).glob("*"))


def branches(lab: Lab) -> list[str]:
    return lab.git("for-each-ref", "--format=%(refname:short)", "refs/heads/orchconverge/m-*").split()


def keeps(lab: Lab) -> str:
    return lab.git("for-each-ref", "refs/orchconverge/keep/")


def evidence(lab: Lab) -> list[str]:
    return sorted(path.name for path in (lab.state_dir / "evidence").iterdir())


def worktree_again(lab: Lab, branch: Branch) -> Path:
    """The worktree of a settled mind, as if it had not been removed."""
    path = Path(branch.worktree)
    lab.git("worktree", "add", "-q", str(path), branch.git_branch)
    return path


# --- what goes -------------------------------------------------------------------------------------------------------


def test_a_look_says_what_would_go_and_changes_nothing(lab: Lab) -> None:
    ended(lab)
    before = everything(lab)
    said = lab.run("gc", "--dry-run", code=0).stdout
    assert everything(lab) == before
    assert said.startswith("Would go: ")
    for line in (
        "  2 branches of minds: orchconverge/m-",
        "  2 folders of minds (",
        " folders of checks (",
        " folders of steps (",
    ):
        assert line in said
    assert f"    in {lab.minds}/minds" in said
    kept = said.partition("Kept:\n")[2]
    assert "  the ledger (" in kept
    assert "  the commits of minds, on 3 keep-refs, in refs/orchconverge/keep/" in kept
    assert "a fact of an open basin names it" in kept


def test_what_an_ended_run_left_goes_and_ledger_backups_and_keep_refs_stay(lab: Lab) -> None:
    ended(lab)
    settled = lab.state().branches["a-and-b.2"]
    tree = worktree_again(lab, settled)
    for name in ("t-a-and-b.0123456789abcdef", "lt-a-and-b.0123456789abcdef"):
        lab.git("worktree", "add", "-q", "--detach", str(tree.with_name(name)), "main")
        (tree.with_name(name) / "built").write_text("by a check")
    before, kept, outputs = everything(lab), keeps(lab), evidence(lab)
    assert len(branches(lab)) == 2
    said = lab.run("gc", code=0).stdout
    assert said.startswith("Removed: ")
    assert "  1 worktree of a mind (" in said
    assert "  2 throwaway trees (" in said
    assert (left(lab), branches(lab), lab.worktrees()) == ([], [], [])
    assert (keeps(lab), evidence(lab)) == (kept, outputs)
    after = everything(lab)
    for path in ("repo/.git/orchconverge/ledger.jsonl", *(p for p in before if "/backups/" in p)):
        assert after[path] == before[path]
    assert lab.git("rev-parse", "refs/orchconverge/keep/a-and-b.1") == lab.state().branches["a-and-b.1"].head
    assert lab.run("gc", code=0).stdout.startswith("Nothing to remove.\n")
    lab.run("resume", "a-and-b", "--max-attempts", "3", "--foreground", code=3)


@pytest.mark.slow
def test_a_killed_pursuit_keeps_its_commits_and_nothing_else(lab: Lab) -> None:
    branch = hanging(lab, committed=True)
    kill(lab.controller())
    lab.run("--stop", code=0)
    lab.run("kill", "never-done", "--reason", "enough", code=0)
    head = lab.git("rev-parse", branch.git_branch)
    first = lab.run("gc", code=0).stdout
    assert "it stands at a commit that is on no keep-ref" in first, "no controller has read that mind"
    assert Path(branch.worktree).is_dir()
    assert branches(lab) == [branch.git_branch]
    lab.run("stop", "never-done", "--cleanup", code=0)
    assert lab.git("rev-parse", "refs/orchconverge/keep/never-done.1") == head
    lab.run("gc", code=0)
    assert (left(lab), branches(lab), evidence(lab), lab.worktrees()) == ([], [], [], [])
    assert lab.git("rev-parse", "refs/orchconverge/keep/never-done.1") == head


@pytest.mark.slow
def test_what_is_younger_stays_until_it_is_old_enough(lab: Lab) -> None:
    ended(lab)
    before = everything(lab)
    said = lab.run("gc", "--older-than", "1", code=0).stdout
    assert everything(lab) == before
    assert said.startswith("Nothing to remove.")
    assert "it is younger than 1 day\n" in said
    old = lab.minds / "checks"
    for path in old.iterdir():
        os.utime(path, (0, 0))
    assert " folders of checks" in lab.run("gc", "--older-than", "1", code=0).stdout.partition("Kept:")[0]
    assert list(old.iterdir()) == []
    assert "minds/a-and-b.1" in left(lab)


# --- what a run still needs ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_nothing_of_a_run_that_is_under_way_goes(lab: Lab) -> None:
    ended(lab)
    branch = hanging(lab)
    given = f"given/{Path(branch.worktree).name}"
    before = [name for name in left(lab) if "/never-done." in name or name == given]
    assert {given, "minds/never-done.1"} < {*before}
    said = lab.run("gc", code=0).stdout
    assert "the run of never-done is open" in said
    assert left(lab) == before, "what the other run left is gone, what this one has is there"
    assert Path(branch.worktree).is_dir()
    assert branches(lab) == [branch.git_branch]
    assert evidence(lab) != []
    assert branch.process is None or branch.process.pid in lab.processes()
    assert lab.state().basins["never-done"].running is not None
    lab.run("--stop", "--cleanup", code=0)


def test_nothing_of_a_run_that_lost_its_controller_goes(lab: Lab) -> None:
    branch = hanging(lab)
    kill(lab.controller())
    before = everything(lab)
    said = lab.run("gc", code=0).stdout
    assert "the run of never-done is open" in said
    assert said.startswith("Nothing to remove.")
    after = everything(lab)
    assert (after["refs"], after["trees"]) == (before["refs"], before["trees"])
    assert Path(branch.worktree).is_dir()
    lab.run("--stop", "--cleanup", code=0)


@pytest.mark.slow
def test_what_a_resume_judges_stays_and_is_judged(lab: Lab) -> None:
    branch = hanging(lab, committed=True)
    lab.run("--stop", code=0)
    said = lab.run("gc", code=0).stdout
    assert "never-done.1 is not settled: a resume judges it" in said
    assert Path(branch.worktree).is_dir()
    assert "minds/never-done.1" in left(lab)
    script = lab.script(mind(*meets("a")), name="second.json")
    lab.run("resume", "never-done", "--script", script, "--foreground", code=0)
    assert [fact.branch for fact in lab.facts(e.BranchGrafted)] == ["never-done.1", "never-done.2"]


def test_what_was_here_before_the_first_mind_is_remembered_while_a_resume_may_ask(lab: Lab) -> None:
    lab.git("switch", "-q", "-c", "topic")
    (lab.repo / "mine.txt").write_text("a person's\n")
    script = lab.script(mind(*meets("a"), attempt=1), mind({"say": "no"}))
    words = (*met("a", "b"), "--here", "--allow-dirty", "--max-attempts", "2", "--final", "none", "--foreground")
    lab.play("a and b", script, *words, code=3)
    lab.run("gc", code=0)
    assert [name for name in left(lab) if name.startswith("minds/")] == ["minds/a-and-b.1"]
    assert (lab.repo / "mine.txt").read_text() == "a person's\n"
    lab.run("resume", "a-and-b", "--max-attempts", "3", "--foreground", code=3)
    assert (lab.repo / "mine.txt").read_text() == "a person's\n"


def test_a_candidate_at_the_lock_keeps_the_branch_that_shows_it(lab: Lab) -> None:
    lab.play("a is there", lab.script(mind(FLAGGED, *meets("a"))), *met("a"), "--final", "none", "--foreground", code=5)
    [name] = branches(lab)
    said = lab.run("gc", code=0).stdout
    assert f"  1 branch of a mind: {name}; a-is-there.1 waits at the lock\n" in said
    assert branches(lab) == [name]
    lab.run("prune", "a-is-there.1", "--reason", "it touches CI", code=0)
    lab.run("gc", code=0)
    assert branches(lab) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lock", "said"),
    [
        ("lease/a-and-b", "a controller has a-and-b"),
        ("graft/orchconverge/a-and-b", "somebody grafts onto orchconverge/a-and-b"),
        ("spawn", "another orchconverge adds a worktree"),
    ],
)
def test_while_somebody_is_at_work_in_a_basin_nothing_of_it_goes(lab: Lab, lock: str, said: str) -> None:
    ended(lab)
    before = everything(lab)
    held = FileLocks(lab.state_dir).take(lock)
    assert held is not None
    try:
        for words in (["gc", "--dry-run"], ["gc"]):
            assert said in lab.run(*words, code=0).stdout
            assert everything(lab) == before
    finally:
        held.release()
    lab.run("gc", code=0)
    assert left(lab) == []


# --- what is nowhere else --------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_worktree_goes_only_with_all_that_is_in_it_on_a_keep_ref(lab: Lab) -> None:
    ended(lab)
    branch = lab.state().branches["a-and-b.2"]
    tree = worktree_again(lab, branch)

    def stays(why: str) -> None:
        for words in (["gc", "--dry-run"], ["gc"]):
            said = lab.run(*words, code=0).stdout
            assert f"{tree.name}; {why}" in said, said
            assert f"{branch.git_branch}; it is checked out at {tree}" in said
        assert tree.is_dir()
        assert branches(lab) == [branch.git_branch]

    (tree / "left.txt").write_text("not what the mind left\n")
    stays("it holds uncommitted work that is on no keep-ref")
    (tree / "left.txt").write_text("not committed\n")
    (tree / "README.md").write_text("changed\n")
    stays("it holds uncommitted work that is on no keep-ref")
    lab.git("add", "-A", cwd=tree)
    lab.git("commit", "-q", "-m", "by hand", cwd=tree)
    stays("it stands at a commit that is on no keep-ref")
    lab.git("reset", "-q", "--hard", "HEAD^", cwd=tree)
    lab.git("init", "-q", str(tree / "inner"))
    stays("it holds work that is nowhere else in inner/")
    lab.git("-c", "core.bare=false", "worktree", "list")
    for path in sorted((tree / "inner").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    (tree / "inner").rmdir()
    (tree / "left.txt").write_text("not committed\n")
    assert "1 worktree of a mind" in lab.run("gc", code=0).stdout.partition("Kept:")[0], (
        "its leftovers are on a keep-ref"
    )
    assert not tree.exists()
    assert branches(lab) == []


@pytest.mark.slow
def test_a_branch_that_moved_to_what_no_ref_keeps_stays(lab: Lab) -> None:
    ended(lab)
    [one, two] = branches(lab)
    lab.git("switch", "-q", one)
    (lab.repo / "more.txt").write_text("by hand\n")
    lab.git("add", "-A")
    lab.git("commit", "-q", "-m", "by hand")
    said = lab.run("gc", code=0).stdout
    assert f"{one}; it is checked out at {lab.repo}" in said
    lab.git("switch", "-q", "main")
    said = lab.run("gc", code=0).stdout
    assert f"{one}; it stands at a commit that is on no keep-ref" in said
    assert branches(lab) == [one], "the other went"
    assert two != one


def test_what_is_not_ours_is_named_and_stays(lab: Lab) -> None:
    ended(lab)
    precious = lab.root / "precious"
    precious.mkdir()
    (precious / "file").write_text("a person's\n")
    trees = lab.home / "data" / "orchconverge" / lab.minds.name / "trees"
    (lab.minds / "minds" / "other.1").mkdir()
    (lab.minds / "minds" / "a-and-b.9").mkdir()
    (lab.minds / "checks" / "a-and-b.link").symlink_to(precious)
    (lab.state_dir / "evidence" / f"{'0' * 32}.log").symlink_to(precious / "file")
    (lab.state_dir / "evidence" / "notes.txt").write_text("a person's\n")
    (trees / "m-foreign").mkdir(parents=True)
    (trees / "t-a-and-b.foreign").mkdir()
    (trees / "t-a-and-b.foreign" / "file").write_text("a person's\n")
    lab.git("branch", "orchconverge/m-mine", "main")
    said = lab.run("gc", code=0).stdout
    assert "a-and-b.9, other.1; no fact of this ledger tells of it" in said
    assert left(lab) == ["checks/a-and-b.link", "minds/a-and-b.9", "minds/other.1"]
    assert (precious / "file").read_text() == "a person's\n"
    assert (lab.state_dir / "evidence" / "notes.txt").exists()
    assert (trees / "t-a-and-b.foreign" / "file").exists()
    assert "m-foreign; no fact of this ledger tells of it" in said
    assert branches(lab) == ["orchconverge/m-mine"]
    (trees / "m-foreign").rmdir()
    (trees / "t-a-and-b.foreign" / "file").unlink()
    (trees / "t-a-and-b.foreign").rmdir()


@pytest.mark.slow
def test_a_ledger_that_cannot_be_read_whole_removes_nothing(lab: Lab) -> None:
    ended(lab)
    with lab.ledger.open("ab") as file:
        file.write(b'{"v":1,"seq":9999,"type":"basin.\n')
    before = everything(lab)
    refused = lab.run("gc", code=2)
    assert "1 line of the ledger cannot be read" in refused.stderr
    assert "orchconverge ledger verify" in refused.stderr
    assert everything(lab) == before


@pytest.mark.slow
def test_gc_leaves_files_of_ours_as_private_as_they_were(lab: Lab) -> None:
    ended(lab)
    lab.run("gc", code=0)
    for path in (lab.state_dir, *lab.state_dir.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
