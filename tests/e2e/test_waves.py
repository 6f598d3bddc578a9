"""Many minds of one repository at once: what they share, how they end, what a person does beside them and at the lock."""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from orchconverge.cli import ALLOWED_INSIDE
from orchconverge.cli.group import HOMES
from orchconverge.core import events as e
from orchconverge.core.state import Phase
from tests.e2e import forked
from tests.e2e.lab import COMMAND, Lab, kill, meets, met, mind

pytestmark = pytest.mark.tmux

HANG = {"hang": True}
QUICK = ("--interval", "0", "--final", "none")


def ways(*names: str) -> list[str]:
    """An approach for each mind, by which the script tells them apart."""
    return [word for name in names for word in ("--approach", name)]


def wave(lab: Lab, goal: str, script: Path, *words: str) -> list[str]:
    """The words of a start whose attempts are waves."""
    return [goal, "--engine", "scripted", "--script", str(script), *QUICK, *words]


def run(lab: Lab, *words: str, code: int = 0) -> None:
    """Run the command line to its end in a child of this process, which has to be this one."""
    ended = forked.run(lab, *words)
    assert ended == code, f"{words} ended with {ended}\n{lab.told()}"


def terminal(lab: Lab, words: list[str], **env: str) -> subprocess.Popen[str]:
    """The command line in another terminal, which is not waited for."""
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [*COMMAND, *words],
        cwd=lab.repo,
        env={**lab.env, **env},
        stdin=subprocess.DEVNULL,
        stdout=pipe,
        stderr=pipe,
        text=True,
    )


def committed(lab: Lab, branch: str, subject: str) -> None:
    """Await the last commit of a mind."""
    made = lab.until(lambda: [fact.gitBranch for fact in lab.facts(e.BranchSpawned) if fact.branch == branch])[0]
    lab.until(lambda: lab.git("for-each-ref", "--format=%(subject)", f"refs/heads/{made}") == subject)


def most_at_once(lab: Lab) -> int:
    """How many minds were on record as begun and not ended, at most."""
    running = most = 0
    for fact in lab.replayed()[0]:
        running += isinstance(fact, e.BranchSpawned) - isinstance(fact, e.BranchEnded)
        most = max(most, running)
    return most


# --- what is shared --------------------------------------------------------------------------------------------------


def test_max_minds_holds_over_two_basins_and_two_controllers(lab: Lab) -> None:
    script = lab.script(mind({"sleep": 0.5}, *meets("a")))
    words = ("--minds", "3", "--foreground", *met("a"))
    both = [terminal(lab, wave(lab, goal, script, *words), ORCHCONVERGE_MAX_MINDS="2") for goal in ("first", "second")]
    said = [each.communicate(timeout=60) for each in both]
    assert [each.returncode for each in both] == [0, 0], said
    assert len(lab.facts(e.BranchSpawned)) == 6
    assert most_at_once(lab) == 2


def test_a_wave_wider_than_max_minds_is_made_two_at_a_time_from_one_base(lab: Lab) -> None:
    script = lab.script(mind(*meets("a")))
    lab.run(
        *wave(lab, "wide", script, "--minds", "5", "--foreground", *met("a")),
        env={"ORCHCONVERGE_MAX_MINDS": "2"},
        code=0,
    )
    assert [fact.branch for fact in lab.facts(e.BranchSpawned)] == [f"wide.{n}" for n in range(1, 6)]
    assert len({fact.base for fact in lab.facts(e.BranchSpawned)}) == 1
    assert most_at_once(lab) == 2
    assert len(lab.facts(e.AttemptEnded)) == 1


def test_waves_at_several_targets_from_several_terminals_disturb_nobody(lab: Lab) -> None:
    names = ("alpha", "beta", "gamma")
    scripts = {n: lab.script(mind(*meets(n), approach="one"), mind({"say": "no"}), name=f"{n}.json") for n in names}
    words = ("--minds", "2", *ways("one", "two"))
    begun = [terminal(lab, wave(lab, n, scripts[n], *words, *met(n))) for n in names]
    said = [each.communicate(timeout=60) for each in begun]
    assert [each.returncode for each in begun] == [0, 0, 0], said
    for name in names:
        lab.wait(name)
        [grafted] = [fact for fact in lab.facts(e.BranchGrafted) if fact.basin == name]
        assert grafted.branch == f"{name}.1"
        assert lab.git("diff", "--name-only", "main", f"orchconverge/{name}") == f"{name}.txt"
    numbers = [fact.seq for fact in lab.replayed()[0]]
    assert numbers == list(range(1, len(numbers) + 1))


# --- how minds of one wave end ---------------------------------------------------------------------------------------


def test_nothing_committed_a_verdict_leftovers_and_work_all_in_one_wave(lab: Lab) -> None:
    verdict = {"kind": "cannot", "text": "the licence forbids it"}
    script = lab.script(
        mind({"say": "done!"}, approach="talks"),
        mind({"report": {"verdict": verdict, "residue": [{"text": "read the licence first"}]}}, approach="is honest"),
        mind({"write": {"path": "draft.txt", "text": "half"}}, approach="forgets"),
        mind(*meets("a"), approach="works"),
    )
    words = ("--minds", "4", *ways("talks", "is honest", "forgets", "works"), "--foreground")
    run(lab, *wave(lab, "mixed", script, *words, *met("a")), code=0)
    failed = {fact.branch: fact for fact in lab.facts(e.BranchFailed)}
    assert set(failed) == {"mixed.1", "mixed.2", "mixed.3"}
    assert failed["mixed.1"].reason == "committed nothing, though it ended by itself: done!" or (
        failed["mixed.1"].reason == "committed nothing, though it ended by itself"
    )
    assert failed["mixed.2"].verdict is not None
    assert failed["mixed.2"].verdict.text == "the licence forbids it"
    assert "what it left uncommitted is kept: draft.txt" in failed["mixed.3"].reason
    assert lab.git("show", "refs/orchconverge/keep/mixed.3-leftovers:draft.txt") == "half"
    assert [fact.branch for fact in lab.facts(e.BranchGrafted)] == ["mixed.4"]
    assert [r.text for r in lab.state().basins["mixed"].residue] == ["read the licence first"]


def test_a_branch_is_pruned_while_its_mind_runs_and_the_wave_goes_on(lab: Lab) -> None:
    script = lab.script(mind(*meets("a"), HANG, approach="one"), mind(*meets("b"), HANG, approach="two"))
    lab.run(
        *wave(lab, "pair", script, "--minds", "2", *ways("one", "two"), "--max-attempts", "1", *met("a", "b")), code=0
    )
    committed(lab, "pair.1", "a")
    committed(lab, "pair.2", "b")
    agent = lab.until(lambda: (lab.record("minds/pair.1") or {}).get("agent"))
    said = lab.run("prune", "pair.1", "--reason", "it does not end", code=0).stdout
    assert "refs/orchconverge/keep/pair.1" in said
    ended = lab.until(lambda: [f for f in lab.facts(e.BranchEnded) if f.branch == "pair.1"])[0]
    assert agent not in lab.processes()
    assert lab.git("log", "-1", "--format=%s", "refs/orchconverge/keep/pair.1") == "a"
    assert ended.head == lab.git("rev-parse", "refs/orchconverge/keep/pair.1")
    assert lab.state().branches["pair.2"].phase is Phase.SEARCHING
    run(lab, "prune", "pair.2", "--reason", "neither does that", code=0)
    lab.wait(code=3)
    assert lab.facts(e.AttemptEnded)[0].progress == 0
    assert lab.worktrees() == []


def test_a_basin_is_killed_while_its_wave_runs_and_all_that_was_committed_is_kept(lab: Lab) -> None:
    script = lab.script(mind(*meets("a"), HANG, approach="one"), mind(*meets("b"), HANG, approach="two"))
    run(lab, *wave(lab, "pair", script, "--minds", "2", *ways("one", "two"), *met("a", "b")), code=0)
    committed(lab, "pair.1", "a")
    committed(lab, "pair.2", "b")
    run(lab, "kill", "pair", "--reason", "not wanted any more", code=0)
    lab.until(lambda: not lab.processes())
    assert [fact.reason for fact in lab.facts(e.RunStopped)] == ["killed"]
    kept = [lab.git("log", "-1", "--format=%s", f"refs/orchconverge/keep/pair.{n}") for n in (1, 2)]
    assert kept == ["a", "b"]
    assert "killed" in lab.run("resume", "pair", code=2).stderr
    run(lab, "gc", code=0)
    lab.keeps_worktrees = True


def test_a_wave_is_stopped_in_the_middle_and_resumed_with_what_its_minds_had_committed(lab: Lab) -> None:
    script = lab.script(
        mind(*meets("a"), approach="one"), mind(*meets("b"), HANG, approach="two"), mind(HANG, approach="three")
    )
    words = ("--minds", "3", *ways("one", "two", "three"))
    run(lab, *wave(lab, "three", script, *words, *met("a", "b")), code=0)
    committed(lab, "three.2", "b")
    lab.until(lambda: lab.state().branches["three.1"].phase is Phase.CANDIDATE)
    lab.until(lambda: lab.state().branches["three.3"].phase is Phase.SEARCHING)
    run(lab, "--stop", code=0)
    lab.until(lambda: not lab.processes())
    run(lab, "--resume", "--foreground", code=0)
    assert len(lab.facts(e.AttemptStarted)) == 1
    assert set(lab.starts().values()) == {1}
    landed = [fact.branch for fact in (*lab.facts(e.BranchGrafted), *lab.facts(e.ResidueGrafted))]
    assert sorted(landed) == ["three.1", "three.2"]
    assert lab.state().branches["three.3"].phase is Phase.FAILED


# --- a mind cannot approve -------------------------------------------------------------------------------------------

TRIES = """
import json, os, subprocess, sys
from pathlib import Path

command, names, out = json.loads(sys.argv[1]), json.loads(sys.argv[2]), Path(sys.argv[3])
clean = {k: v for k, v in os.environ.items() if not k.startswith("ORCHCONVERGE_")}
refs = lambda: subprocess.run(["git", "for-each-ref"], capture_output=True, text=True).stdout
before, found = refs(), {}
for name in names:
    for env in (dict(os.environ), clean):
        how = {"env": env, "stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "timeout": 60}
        ran = subprocess.run([*command, *name.split()], **how)
        found.setdefault(name, []).append([ran.returncode, ran.stderr])
found["refs"] = before == refs()
out.write_text(json.dumps(found))
"""
LOOKING = frozenset(
    "status wait logs report diff overlap matrix ledger engines doctor sessions trace watch timeline graph completion".split()  # noqa: SIM905
)
"""Commands that only show something. One that is to be among them has to be thought about here."""
ARGUMENTS = {
    "run": "run goal",
    "frontier": "frontier add why?",
    "ledger": "ledger show",
    "wait": "wait --timeout 0",
    "watch": "watch --once",
    "completion": "completion fish",
}
WITH_NAMES = ("prune", "graft", "retry", "diff")


@pytest.mark.slow
def test_every_command_that_writes_is_refused_inside_a_mind_whatever_it_does_to_its_environment(lab: Lab) -> None:
    lines = {n: ARGUMENTS.get(n, f"{n} tries.1" if n in WITH_NAMES else n) for n in HOMES}
    program = lab.program(TRIES)
    argv = f"{program} '{json.dumps(list(COMMAND))}' '{json.dumps(list(lines.values()))}' {lab.root / 'found'}"
    words = ("--engine", "command", "--argv", argv, *QUICK, "--max-attempts", "1", "--worktree", *met("a"))
    run(lab, "tries", *words, "--foreground", code=3)
    found: dict[str, Any] = json.loads((lab.root / "found").read_text())
    assert found.pop("refs") is True
    allowed = {name for name in HOMES if name in ALLOWED_INSIDE}
    assert allowed <= LOOKING
    for name, line in lines.items():
        for code, said in found[line]:
            assert ("this is a mind: it may look, not start, stop or decide" in said) == (name not in allowed), (
                line,
                said,
            )
            assert code == 2 or name in allowed, (line, code, said)
    assert [fact.type for fact in lab_lines(lab) if fact.writer == "cli"] == ["basin.declared"]


class Line:
    """Type and writer of a line of the ledger."""

    def __init__(self, text: bytes) -> None:
        found = json.loads(text)
        self.type, self.writer = found["type"], found["writer"]


def lab_lines(lab: Lab) -> list[Line]:
    return [Line(text) for text in lab.lines().splitlines()]


# --- what a person does beside us ------------------------------------------------------------------------------------


def at_the_lock(lab: Lab, *names: str, into: str = "", hold: bool = False) -> None:
    """A wave whose minds each meet one criterion and whose candidates wait for a person; ``hold`` makes gates wait."""
    script = lab.script(*(mind(*meets(name), approach=name) for name in names))
    criteria = met(*names)
    if hold:
        gate = f"touch {lab.root}/held; while test -e {lab.root}/hold; do sleep 0.02; done"
        criteria += ["--criterion", f"slow={gate}; grep -q yes *.txt"]
    words = ("--minds", str(len(names)), *ways(*names), "--lock", "person", "--foreground")
    place = ("--into", into, "--worktree") if into else ()
    run(lab, *wave(lab, "valve", script, *words, *place, *criteria), code=5)


def git_branch(lab: Lab, branch: str) -> str:
    return lab.state().branches[branch].git_branch


def test_what_a_person_did_by_hand_is_put_on_record_once_and_said(lab: Lab) -> None:
    at_the_lock(lab, "a", "b", "c")
    target = "orchconverge/valve"
    judged = lab.state().branches["valve.3"].head
    lab.git("switch", "-q", target)
    lab.git("merge", "-q", "--no-ff", "-m", "by hand", git_branch(lab, "valve.1"))
    lab.git("switch", "-q", "main")
    lab.git("branch", "-q", "-D", git_branch(lab, "valve.2"))
    lab.git("branch", "-q", "-f", git_branch(lab, "valve.3"), "main")
    tip = lab.git("rev-parse", target)
    said = lab.run("graft", "valve.1", code=2).stderr
    assert "valve.1 is grafted: its head" in said
    assert "merged by hand" in said
    assert lab.git("rev-parse", target) == tip
    seen = {fact.branch: fact for fact in lab.facts(e.BranchReconciled)}
    assert {name: (fact.was, fact.to, fact.writer) for name, fact in seen.items()} == {
        "valve.1": ("candidate", "grafted", "recovery"),
        "valve.2": ("candidate", "candidate", "recovery"),
        "valve.3": ("candidate", "candidate", "recovery"),
    }
    assert "was deleted" in seen["valve.2"].observed
    assert f"what was judged, {judged:.8}, is on refs/orchconverge/keep/valve.3" in seen["valve.3"].observed
    for name, criterion in (("valve.2", "b"), ("valve.3", "c")):  # what was judged is what is grafted
        run(lab, "graft", name, code=0)
        assert lab.git("show", f"{target}:{criterion}.txt") == "yes"
    assert len(lab.facts(e.BranchReconciled)) == 3
    run(lab, "resume", "valve", "--foreground", code=0)
    assert len(lab.facts(e.BranchReconciled)) == 3


@pytest.mark.slow
def test_a_worktree_that_a_person_removed_under_a_mind_is_put_on_record_once(lab: Lab) -> None:
    script = lab.script(mind(*meets("a"), HANG, approach="one"), mind(*meets("b"), HANG, approach="two"))
    lab.run(
        *wave(lab, "pair", script, "--minds", "2", *ways("one", "two"), "--max-attempts", "1", *met("a", "b")), code=0
    )
    committed(lab, "pair.1", "a")
    committed(lab, "pair.2", "b")
    kill(lab.controller())
    spawned = {fact.branch: fact for fact in lab.facts(e.BranchSpawned)}
    lab.git("worktree", "remove", "--force", spawned["pair.1"].worktree)
    run(lab, "--resume", code=0)
    [seen] = lab.until(lambda: lab.facts(e.BranchReconciled))
    assert (seen.branch, seen.observed) == ("pair.1", f"its worktree {seen.observed.split()[2]} is gone")
    for number in (1, 2):
        kill((lab.record(f"minds/pair.{number}") or {})["agent"])
    lab.wait()
    assert len(lab.facts(e.BranchReconciled)) == 1
    landed = [fact.branch for fact in (*lab.facts(e.BranchGrafted), *lab.facts(e.ResidueGrafted))]
    assert sorted(landed) == ["pair.1", "pair.2"]


# --- people at the lock ----------------------------------------------------------------------------------------------


@contextmanager
def held(lab: Lab, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A command in another terminal, in the middle of its gate for as long as this lasts."""
    (lab.root / "held").unlink()
    (lab.root / "hold").touch()
    ran = terminal(lab, list(words))
    try:
        lab.until((lab.root / "held").exists)
        yield ran
    finally:
        (lab.root / "hold").unlink()


def test_of_two_people_who_graft_at_once_one_lands_and_one_is_told(lab: Lab) -> None:
    at_the_lock(lab, "a", "b", hold=True)
    with held(lab, "graft", "valve.1") as first:
        second = lab.run("graft", "valve.2", code=2)
        assert "somebody else grafts into orchconverge/valve right now" in second.stderr
        assert "orchconverge status" in second.stderr
    assert first.communicate(timeout=30)[0].startswith("Grafted valve.1")
    assert [fact.branch for fact in lab.facts(e.BranchGrafted)] == ["valve.1"]
    run(lab, "graft", "valve.2", code=0)


def test_a_target_that_moved_under_the_gate_is_left_where_it_was_moved_to(lab: Lab) -> None:
    at_the_lock(lab, "a", "b", hold=True)
    with held(lab, "graft", "valve.1") as gating:
        theirs = lab.git("commit-tree", "-p", "orchconverge/valve", "-m", "theirs", "main^{tree}")
        lab.git("update-ref", "refs/heads/orchconverge/valve", theirs)
    out, said = gating.communicate(timeout=30)
    assert (gating.returncode, out) == (2, "")
    assert "moved meanwhile: nothing was grafted" in said
    assert "the same command once more" in said
    assert lab.git("rev-parse", "orchconverge/valve") == theirs
    assert lab.facts(e.BranchGrafted) == []
    run(lab, "graft", "valve.1", code=0)
    assert lab.git("rev-parse", "orchconverge/valve~1") == theirs


def everything(lab: Lab) -> str:
    """A hash of the person's tree to the byte: every file with its kind and rights, index, HEAD and operation of git."""
    found = hashlib.sha256()
    within = [path for path in sorted(lab.repo.rglob("*")) if ".git" not in path.relative_to(lab.repo).parts[:1]]
    git = lab.repo / ".git"
    states = [git / "index", git / "HEAD", *sorted(git.glob("rebase-*/*")), *sorted(git.glob("*_HEAD"))]
    for path in (*within, *states):
        found.update(f"{path} {path.lstat().st_mode}\0".encode())
        if path.is_file():
            found.update(path.read_bytes())
    return found.hexdigest()


def dirty(lab: Lab) -> str:
    lab.git("switch", "-q", "product")
    (lab.repo / "README.md").write_text("# mine\n")
    (lab.repo / "staged.txt").write_text("mine\n")
    lab.git("add", "staged.txt")
    (lab.repo / "loose.txt").write_text("mine\n")
    return "commit them first"


def test_a_dirty_checkout_of_the_target_is_refused_and_not_touched(lab: Lab) -> None:
    lab.git("branch", "product")
    at_the_lock(lab, "a", into="product")
    says = dirty(lab)
    before, tip = everything(lab), lab.git("rev-parse", "product")
    refused = lab.run("graft", "valve.1", code=2)
    assert "product is checked out with changes in" in refused.stderr
    assert says in refused.stderr
    assert (everything(lab), lab.git("rev-parse", "product")) == (before, tip)
    lab.git("reset", "-q", "--hard")
    run(lab, "graft", "valve.1", code=0)
    assert (lab.repo / "a.txt").read_text() == "yes\n"
    assert (lab.repo / "loose.txt").read_text() == "mine\n"


def test_a_checkout_in_the_middle_of_a_rebase_of_the_target_is_refused_and_not_touched(lab: Lab) -> None:
    lab.git("switch", "-q", "-c", "product")
    (lab.repo / "README.md").write_text("# one\n")
    lab.git("commit", "-q", "-am", "one")
    lab.git("switch", "-q", "-c", "other", "main")
    (lab.repo / "README.md").write_text("# two\n")
    lab.git("commit", "-q", "-am", "two")
    at_the_lock(lab, "a", into="product")
    rebase = subprocess.run(["git", "rebase", "-q", "other", "product"], cwd=lab.repo, env=lab.env, capture_output=True)
    assert rebase.returncode == 1
    before, tip = everything(lab), lab.git("rev-parse", "product")
    refused = lab.run("graft", "valve.1", code=2)
    assert "rebase" in refused.stderr
    assert "finish" in refused.stderr
    assert (everything(lab), lab.git("rev-parse", "product")) == (before, tip)
    lab.git("rebase", "--abort")
    run(lab, "graft", "valve.1", code=0)
    assert lab.git("rev-parse", "product~1") == tip


def test_a_checkout_of_another_branch_is_not_touched_by_a_graft(lab: Lab) -> None:
    lab.git("branch", "product")
    at_the_lock(lab, "a", into="product")
    lab.git("switch", "-q", "-c", "topic")
    (lab.repo / "README.md").write_text("# mine\n")
    before = everything(lab)
    run(lab, "graft", "valve.1", code=0)
    assert everything(lab) == before
    assert lab.git("show", "product:a.txt") == "yes"
