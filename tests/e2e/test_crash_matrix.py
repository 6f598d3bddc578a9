"""Killed anywhere with SIGKILL and resumed, a run ends the same: nothing lost, nobody started twice, nothing left.

Twice: the controller exactly before and after each append, in a forked child; and each of the processes of a real run in
tmux, by somebody who watches the ledger and kills as soon as a fact is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import pytest

from orchconverge.adapters.ledger import verify
from orchconverge.core import events as e
from tests.e2e import forked
from tests.e2e.forked import Death
from tests.e2e.lab import Lab, kill, meets, met, mind

pytestmark = pytest.mark.tmux
Place = Literal["fresh", "here"]
Victim = Literal["controller", "supervisor", "mind", "server", "step", "controller and supervisor", "all"]

_BEGIN = (
    *("basin.declared", "run.started", "session.opened", "basin.checked", "attempt.started", "basin.opened"),
    *("branch.spawned", "branch.searching", "branch.ended", "branch.candidate"),
)
_END = (
    *("attempt.ended", "step.started", "step.ended", "basin.converged", "step.started", "report.written"),
    *("step.ended", "session.closed", "run.stopped"),
)
STORIES: dict[Place, tuple[str, ...]] = {
    "fresh": (*_BEGIN, "proposal.made", "branch.grafted", "basin.checked", *_END),
    "here": (*_BEGIN, *_END),
}
"""What the ledger says of one mind that meets the one criterion, by place."""
FIRST = STORIES["fresh"].index("run.started") + 1
"""The number of the fact from which on there is something to resume."""
GOAL = "a is there"
BASIN = "a-is-there"
TARGET: dict[Place, str] = {"fresh": f"orchconverge/{BASIN}", "here": "topic"}
REPORT = f"docs: convergence report of {BASIN}"


def started(lab: Lab, place: Place, *acts: dict[str, float]) -> list[str]:
    """The arguments of the story's start. The one mind of the script fits every attempt."""
    if place == "here":
        lab.git("switch", "-q", "-c", "topic")
    script = lab.script(mind(*acts, *meets("a"), *acts))
    return [GOAL, "--engine", "scripted", "--script", str(script), "--interval", "0", "--final", "push", *met("a")]


def same_end(lab: Lab, place: Place, *, minds: tuple[int, ...] = (1,)) -> None:
    """It converged, once; no mind was started twice; all of it is on the remote, once."""
    assert len(lab.facts(e.BasinConverged)) == 1
    assert [fact.reason for fact in lab.facts(e.RunStopped)] == ["converged"]
    spawned = [fact.branch for fact in lab.facts(e.BranchSpawned)]
    assert len(spawned) in minds
    assert spawned == [f"{BASIN}.{number}" for number in range(1, len(spawned) + 1)]
    assert {name: times for name, times in lab.starts().items() if times > 1 or name not in spawned} == {}
    target = TARGET[place]
    landed = [fact.branch for fact in lab.facts(e.BranchGrafted)]
    landed += [fact.branch for fact in lab.facts(e.BranchCandidate) if fact.admitted]
    assert len(landed) == 1
    subject = "a" if place == "here" else f"{GOAL} ({landed[0]})"
    assert lab.subjects(target) == [subject, REPORT]
    assert lab.git("diff", "--name-status", "main", f"{target}~1", cwd=lab.remote) == "A\ta.txt"
    assert lab.git("rev-parse", target) == lab.git("rev-parse", target, cwd=lab.remote)
    assert len(lab.reports(target)) == 1
    assert lab.git("status", "--porcelain") == ""
    assert lab.worktrees() == []
    assert verify(lab.state_dir).exit_code == 0


@pytest.mark.parametrize("place", STORIES)
def test_the_story_undisturbed(lab: Lab, place: Place) -> None:
    assert forked.run(lab, *started(lab, place), "--foreground") == 0
    assert lab.kinds() == STORIES[place]
    same_end(lab, place)


# --- the controller, before and after each append --------------------------------------------------------------------

AFTER_AN_EFFECT = (4, 8, 9, 10, 12, 16, 19)
"""Facts of the longer story that say what was done just before: dying before them is not dying after the one before."""
SAMPLED: dict[Place, tuple[Death, ...]] = {
    "fresh": (
        *(Death("after", number) for number in (FIRST, 8, 10, 11, 12, 14, 17)),
        *(Death("before", number) for number in AFTER_AN_EFFECT),
    ),
    "here": (Death("after", 7), Death("before", 8), Death("before", 9), Death("before", 10), Death("after", 10)),
}


def points() -> list[object]:
    """Every place and death; those that are not sampled are slow."""
    found: list[object] = []
    for place, story in STORIES.items():
        every = [Death(when, n) for n in range(FIRST, len(story) + 1) for when in ("before", "after")]
        for death in every[1:]:  # before the first is nothing to resume: a test of its own
            marks = () if death in SAMPLED[place] else (pytest.mark.slow,)
            name = f"{place}-{death.when}-{death.number:02}-{story[death.number - 1]}"
            found.append(pytest.param(place, death, marks=marks, id=name))
    return found


@pytest.mark.parametrize(("place", "death"), points())
def test_a_controller_killed_at_an_append_is_resumed_to_the_same_end(lab: Lab, place: Place, death: Death) -> None:
    assert forked.run(lab, *started(lab, place), "--foreground", death=death) == -9
    before = lab.lines()
    written = death.number - (death.when == "before")
    assert lab.kinds() == STORIES[place][:written]
    if written < len(STORIES[place]):
        assert forked.run(lab, "--resume", "--foreground") == 0, lab.told()
    assert lab.lines().startswith(before)
    same_end(lab, place)


def test_what_was_declared_and_never_started_is_started_again_by_its_goal(lab: Lab) -> None:
    start = started(lab, "fresh")
    assert forked.run(lab, *start, "--foreground", death=Death("before", FIRST)) == -9
    assert "nothing to resume" in lab.run("--resume", code=2).stderr
    assert f"orchconverge open {BASIN}" in lab.run("resume", BASIN, code=2).stderr
    lab.run(*start, "--foreground", code=0)
    assert len(lab.facts(e.BasinConverged)) == 1


def test_a_resumed_run_can_be_killed_and_resumed_again(lab: Lab) -> None:
    assert forked.run(lab, *started(lab, "fresh"), "--foreground", death=Death("before", 8)) == -9
    for death in (Death("after", 1), Death("before", 4), Death("after", 4)):
        assert forked.run(lab, "--resume", "--foreground", death=death) == -9
    assert forked.run(lab, "--resume", "--foreground") == 0
    same_end(lab, "fresh")


# --- every process of a run in tmux, by one who watches the ledger ----------------------------------------------------

PAUSE = {"sleep": 0.4}
"""Before and after the mind's commit: time for the killer, who is a few milliseconds behind."""
MIND_RUNS = (7, 8)
"""After `branch.spawned` and `branch.searching` there is a mind, or there will be."""
CONTROLLER = frozenset({"controller", "controller and supervisor", "all"})
HITS: tuple[tuple[Place, Victim, int], ...] = (
    ("fresh", "controller", 14),
    ("fresh", "mind", 8),
    ("fresh", "server", 8),
    ("fresh", "step", 14),
    ("fresh", "controller and supervisor", 7),
    ("here", "supervisor", 8),
)


def numbers(victim: Victim, story: tuple[str, ...]) -> Sequence[int]:
    """The numbers of facts after which there is such a victim."""
    if victim in ("controller", "server"):
        return range(FIRST, len(story))
    if victim == "step":
        return [number for number, kind in enumerate(story, 1) if kind == "step.started"]
    return MIND_RUNS


def hits() -> list[object]:
    """Every place, victim and number of facts at which it is there; those that are not sampled are slow."""
    found: list[object] = []
    for place, story in STORIES.items():
        for victim in get_args(Victim):
            for number in numbers(victim, story):
                marks = () if (place, victim, number) in HITS else (pytest.mark.slow,)
                name = f"{place}-{victim.replace(' ', '-')}-{number:02}-{story[number - 1]}"
                found.append(pytest.param(place, victim, number, marks=marks, id=name))
    return found


@pytest.mark.parametrize(("place", "victim", "number"), hits())
def test_a_run_in_tmux_ends_the_same_whatever_of_it_is_killed(
    lab: Lab, place: Place, victim: Victim, number: int
) -> None:
    lab.run(*started(lab, place, PAUSE), code=0)
    lab.until(lambda: lab.lines().count(b"\n") >= number)
    before = lab.lines()
    server = lab.server()
    if victim in CONTROLLER:
        kill(lab.controller())
    if victim in ("supervisor", "mind", "controller and supervisor", "all"):
        kill(lab.until(lambda: begun(lab, f"minds/{BASIN}.1"))["agent" if victim == "mind" else "pid"])
    if victim == "step":
        kill(lab.until(lambda: begun(lab, f"steps/{BASIN}.1.1.{lab.facts(e.StepStarted)[-1].step}"))["pid"])
    if victim in ("server", "all") and server is not None:
        kill(server)
    if victim in CONTROLLER:  # it survives the others
        resumed = lab.run("--resume")
        assert resumed.returncode == 0 or "nothing to resume" in resumed.stderr, resumed
    lab.wait()
    assert lab.lines().startswith(before)
    same_end(lab, place, minds=(1,) if victim in ("controller", "server", "step") else (1, 2))


def begun(lab: Lab, name: str) -> dict[str, int]:
    """The record of a supervisor once it has started its program, else an empty one."""
    found = lab.record(name)
    return found if found is not None and found["agent"] else {}
