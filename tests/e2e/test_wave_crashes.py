"""Killed anywhere with SIGKILL and resumed, a wave ends the same: each graft once, the target never at what passed no gate.

The controller exactly before and after each append of a wave of three minds of which one is grafted whole and of another a
part; a person's `graft` between the move of the target and its facts; the supervisor of one mind.
"""

from __future__ import annotations

from collections import Counter

import pytest

from orchconverge.adapters.ledger import verify
from orchconverge.core import events as e
from orchconverge.core.state import Phase
from tests.e2e import forked
from tests.e2e.forked import Death
from tests.e2e.lab import Lab, kill, meets, met, mind

pytestmark = [pytest.mark.tmux, pytest.mark.slow]

GOAL, BASIN, TARGET = "three files", "three-files", "orchconverge/three-files"
WAYS = ("one", "two", "three")
BEGIN = ("basin.declared", "run.started", "session.opened", "basin.checked", "attempt.started", "basin.opened")
WAVE = Counter(
    {
        "branch.spawned": 3,
        "branch.searching": 3,
        "branch.ended": 3,
        "branch.candidate": 2,
        "branch.failed": 1,
        "proposal.made": 1,
        "branch.grafted": 1,
        "residue.grafted": 1,
        "basin.checked": 1,
        "branch.pruned": 1,
        "attempt.ended": 1,
    }
)
"""What a wave puts on the ledger; the order of what its minds do is theirs."""
END = ("basin.converged", "session.closed", "run.stopped")
LENGTH = len(BEGIN) + WAVE.total() + len(END)
FIRST = BEGIN.index("run.started") + 1
"""The number of the fact from which on there is something to resume."""


def started(lab: Lab, *last: dict[str, object]) -> list[str]:
    """The words that start the story: one mind meets a and b, one c beside a change that conflicts, one nothing.

    ``last`` are acts of the second mind after its commits.
    """
    script = lab.script(
        mind({"write": {"path": "README.md", "text": "# one\n"}}, *meets("a"), *meets("b"), approach="one"),
        mind(
            *({"write": {"path": "README.md", "text": "# another\n"}}, {"commit": "words"}, *meets("c"), *last),
            approach="two",
        ),
        mind({"say": "nothing"}, approach="three"),
    )
    return [
        *(GOAL, "--engine", "scripted", "--script", str(script), "--interval", "0", "--final", "none", "--minds", "3"),
        *met("a", "b", "c"),
        *(word for way in WAYS for word in ("--approach", way)),
    ]


def stood_at(lab: Lab) -> list[str]:
    """Where the target stood, oldest first, by its own reflog."""
    return lab.git("log", "-g", "--format=%H", TARGET).split("\n")[::-1]


def same_end(lab: Lab) -> None:
    """One wave, three minds, one graft and one part, each once; the target moved at once to what was gated as a whole."""
    assert len(lab.facts(e.BasinConverged)) == 1
    assert [fact.reason for fact in lab.facts(e.RunStopped)] == ["converged"]
    assert [fact.branch for fact in lab.facts(e.BranchSpawned)] == [f"{BASIN}.{n}" for n in (1, 2, 3)]
    assert set(lab.starts().values()) == {1}
    [grafted], [part] = lab.facts(e.BranchGrafted), lab.facts(e.ResidueGrafted)
    assert (grafted.branch, part.branch, part.criterion) == (f"{BASIN}.1", f"{BASIN}.2", "c")
    assert lab.git("log", "--reverse", "--format=%s", f"main..{TARGET}").split("\n") == [
        f"{GOAL} ({BASIN}.1)",
        f"{GOAL} (c of {BASIN}.2)",
    ]
    gated = {fact.head: fact for fact in lab.facts(e.BasinChecked)}
    [before, landed] = stood_at(lab)
    assert before == lab.git("rev-parse", "main")
    assert landed == part.mergeCommit == lab.git("rev-parse", TARGET)
    assert {x.criterion for x in gated[part.mergeCommit].results if x.met == "yes"} >= {"a", "b", "c"}
    for fact in (grafted, part):
        assert {x.tree for x in fact.evidence} == {lab.git("rev-parse", f"{fact.mergeCommit}^{{tree}}")}
    assert lab.git("status", "--porcelain") == ""
    assert lab.worktrees() == []
    assert verify(lab.state_dir).exit_code == 0


def test_the_wave_undisturbed(lab: Lab) -> None:
    assert forked.run(lab, *started(lab), "--foreground") == 0, lab.told()
    kinds = lab.kinds()
    assert kinds[: len(BEGIN)] == BEGIN
    assert Counter(kinds[len(BEGIN) : -len(END)]) == WAVE
    assert kinds[-len(END) :] == END
    same_end(lab)


SAMPLED = frozenset(
    {
        Death("after", 8),  # of three minds two are on record, and none is started
        Death("before", 11),  # all are started, one is on record as that
        Death("after", 14),
        Death("before", 18),
        Death("after", 19),  # proposed, not landed
        Death("before", 20),  # landed, and on no record
        Death("after", 20),  # of two commits that landed one is on record
        Death("after", 23),
        Death("before", 25),
    }
)


def points() -> list[object]:
    """Every death; those that are not sampled are slow."""
    every = [Death(when, number) for number in range(FIRST, LENGTH + 1) for when in ("before", "after")]
    return [
        pytest.param(d, marks=() if d in SAMPLED else (pytest.mark.slow,), id=f"{d.when}-{d.number:02}")
        for d in every[1:]
    ]


@pytest.mark.parametrize("death", points())
def test_a_controller_killed_at_an_append_of_a_wave_is_resumed_to_the_same_end(lab: Lab, death: Death) -> None:
    assert forked.run(lab, *started(lab), "--foreground", death=death) == -9
    before = lab.lines()
    written = death.number - (death.when == "before")
    assert before.count(b"\n") == written
    if written < LENGTH:
        assert forked.run(lab, "--resume", "--foreground") == 0, lab.told()
    assert lab.lines().startswith(before)
    same_end(lab)


# --- a person's graft, killed between the move of the target and its facts ------------------------------------------------


def at_the_lock(lab: Lab) -> None:
    """Three candidates of one wave wait for a person: the first meets a, the second b, the third c."""
    script = lab.script(*(mind(*meets(name), approach=name) for name in "abc"))
    words = ("--engine", "scripted", "--script", str(script), "--minds", "3", "--lock", "person")
    ways = [word for way in "abc" for word in ("--approach", way)]
    assert forked.run(lab, GOAL, *words, *ways, *met("a", "b", "c"), "--final", "none", "--foreground") == 5, lab.told()


def test_a_graft_that_moved_the_target_and_died_is_recorded_once_by_the_next_command(lab: Lab) -> None:
    at_the_lock(lab)
    before = lab.lines()
    assert forked.run(lab, "graft", f"{BASIN}.1", death=Death("before", 1)) == -9
    assert lab.lines() == before
    moved = lab.git("rev-parse", TARGET)
    assert lab.git("rev-parse", f"{TARGET}~1") == lab.git("rev-parse", "main")
    assert forked.run(lab, "graft", f"{BASIN}.2") == 0, lab.told()
    first, second = lab.facts(e.BranchGrafted)
    assert (first.branch, first.mergeCommit, first.decidedBy) == (f"{BASIN}.1", moved, "found by its trailers")
    assert {x.criterion for x in first.evidence if x.met == "yes"} >= {"a"}
    assert (second.branch, lab.git("rev-parse", f"{second.mergeCommit}~1")) == (f"{BASIN}.2", moved)
    assert lab.state().basins[BASIN].queue == (f"{BASIN}.3",)
    assert stood_at(lab)[1:] == [first.mergeCommit, second.mergeCommit]
    assert lab.worktrees() == []


def test_a_part_that_moved_the_target_and_died_is_recorded_with_its_reason(lab: Lab) -> None:
    at_the_lock(lab)
    words = ("graft", f"{BASIN}.2", "--only", "b.txt", "--reason", "b is worth having")
    assert forked.run(lab, *words, death=Death("before", 1)) == -9
    assert lab.facts(e.ResidueGrafted) == []
    assert forked.run(lab, "graft", f"{BASIN}.1") == 0, lab.told()
    [part] = lab.facts(e.ResidueGrafted)
    assert (part.branch, part.reason, part.paths) == (f"{BASIN}.2", "b is worth having", ("b.txt",))
    assert stood_at(lab)[1:] == [part.mergeCommit, lab.facts(e.BranchGrafted)[0].mergeCommit]


def test_a_graft_that_died_before_the_target_was_checked_again_is_not_made_again(lab: Lab) -> None:
    at_the_lock(lab)
    assert forked.run(lab, "graft", f"{BASIN}.1", death=Death("after", 1)) == -9
    moved = lab.git("rev-parse", TARGET)
    assert forked.run(lab, "graft", f"{BASIN}.1") == 2
    assert lab.git("rev-parse", TARGET) == moved
    assert len(lab.facts(e.BranchGrafted)) == 1


# --- the supervisor of one mind ---------------------------------------------------------------------------------------


def test_the_supervisor_of_one_mind_is_killed_and_the_wave_goes_on_without_it(lab: Lab) -> None:
    lab.run(*started(lab, {"hang": True}), code=0)
    second = lab.fact(e.BranchSpawned, 2)
    lab.until(lambda: lab.git("for-each-ref", "--format=%(subject)", f"refs/heads/{second.gitBranch}") == "c")
    found = lab.until(lambda: lab.record(f"minds/{BASIN}.2"))
    agent = found["agent"]
    kill(found["pid"])
    lab.wait()
    assert agent not in lab.processes()
    ended = {fact.branch: fact.reason for fact in lab.facts(e.BranchEnded)}
    assert ended == {f"{BASIN}.1": "exited", f"{BASIN}.2": "lost", f"{BASIN}.3": "exited"}
    same_end(lab)
    assert lab.state().branches[f"{BASIN}.2"].phase is Phase.PRUNED
