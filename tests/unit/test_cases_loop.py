"""What went wrong elsewhere in the loop and at the queue; each test is named after its case and says what failed there."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from orchconverge.adapters.ledger import FileLedger
from orchconverge.adapters.scheduler import SystemWakeups
from orchconverge.core import strategy
from orchconverge.core.actions import Append
from orchconverge.core.events import (
    AttemptEnded,
    BasinConverged,
    BranchGrafted,
    BranchSpawned,
    FrontierAdded,
    GraftRefused,
    RunStopped,
    RunStopRequested,
    RunWaiting,
)
from orchconverge.core.needs import Damage, needs
from orchconverge.core.policy import decide
from orchconverge.core.seen import Now, Seen
from orchconverge.core.state import Phase
from orchconverge.core.values import Limits, Place
from tests.fakes.players import TARGET
from tests.fakes.simulation import BASIN, Simulation, simulate
from tests.fakes.story import holds, plain, settings
from tests.stories import Story

PLACES = pytest.mark.parametrize("place", ["here", "fresh"])
SIX = tuple(holds(f"c{n}") for n in range(1, 7))


def decisions(done: Simulation) -> list[str]:
    return [fact.decision for fact in done.facts(AttemptEnded)]


# --- B109: it stopped after five good rounds ---------------------------------------------------------------------------


@PLACES
def test_b109_six_attempts_that_each_bring_something_are_no_reason_to_stop(place: Place) -> None:
    chosen = settings(place, stallAfter=2, interval=0.0)
    done = simulate(plain(place, criteria=SIX, minds=("gain",) * 6, settings=chosen, limits=Limits(attempts=9)))
    assert decisions(done) == ["IN_PROGRESS"] * 5 + ["SUCCESS"]


def test_b109_attempts_without_progress_count_only_in_a_row() -> None:
    chosen = settings("fresh", stallAfter=3, interval=0.0)
    minds = ("none", "none", "gain", "none", "none", "gain", "none", "none", "gain")
    done = simulate(plain("fresh", criteria=SIX[:3], minds=minds, settings=chosen, limits=Limits(attempts=9)))
    assert decisions(done) == ["IN_PROGRESS"] * 8 + ["SUCCESS"]


# --- B111: a new run stopped at once by what a killed one had left -------------------------------------------------------


def now(story: Story, basin: str = "auth") -> Now:
    return Now(active=story.active.get(basin, 0.0), mono=0.0, wall=story.now)


def test_b111_a_stop_that_an_earlier_run_was_asked_for_does_not_stop_the_next_one() -> None:
    def ends(story: Story) -> bool:
        actions = decide(story.state, Seen(basin="auth", random="0" * 32, trees="/t"), now(story))
        return any(isinstance(action, Append) and isinstance(action.fact, RunStopped) for action in actions)

    story = Story().declare().start().check()
    assert not ends(story)
    story.tell(RunStopRequested(basin="auth"))
    assert ends(story)
    story.stop("stopped").start()
    assert not ends(story)


def test_b111_the_end_of_an_earlier_branch_is_not_taken_for_that_of_the_next() -> None:
    done = simulate(plain("fresh", minds=("crash", "gain all"), limits=Limits(attempts=3)))
    assert [fact.branch for fact in done.facts(BranchSpawned)] == ["goal.1", "goal.2"]
    assert [fact.result for fact in done.facts(AttemptEnded)] == ["failed", "success"]


# --- B112: the breaker survived a restart, and nobody was told -----------------------------------------------------------


def stalled() -> Story:
    story = Story().declare().start(attempts=20, stallAfter=3).check()
    for _ in range(9):
        story.attempt(met=[], result="no_progress", text="missing oauth", decision="STALLED")
    return story.stop("stalled", "9 attempts without progress and no rung left")


def test_b112_a_run_that_stalled_says_so_with_its_reason_and_one_command() -> None:
    story = stalled()
    [need] = needs(story.state, now=story.now, leases={}, silent={}, ledger=Damage())
    assert need.kind == "verdict"
    assert need.sentence.startswith("auth is stalled: ")
    assert need.command == "orchconverge resume auth --max-attempts 29"


def test_b112_the_command_clears_it() -> None:
    story = stalled()
    run = story.basin().run
    assert run is not None
    assert strategy.following(story.basin(), run).stop
    story.start(attempts=19, stallAfter=3)
    resumed = story.basin().running
    assert resumed is not None
    assert not strategy.following(story.basin(), resumed).stop
    assert needs(story.state, now=story.now, leases={"auth": True}, silent={}, ledger=Damage()) == ()


# --- B117: finished work was done again eight times, since it was not announced in the right words --------------------------


@pytest.mark.parametrize("said", ["gain all", "gain and crash", "gain and hang"])
def test_b117_what_the_checks_find_decides_and_never_what_a_mind_says_or_ends_with(said: str) -> None:
    one = (holds("c1"),)
    done = simulate(plain("fresh", criteria=one, minds=(said, "none", "none"), limits=Limits(attempts=3)))
    assert decisions(done) == ["SUCCESS"]
    assert len(done.facts(BranchSpawned)) == 1
    assert len(done.facts(BasinConverged)) == 1


def test_b117_a_mind_that_says_it_is_done_and_is_not_is_followed_by_another() -> None:
    done = simulate(plain("fresh", minds=("noise", "gain all"), limits=Limits(attempts=3)))
    assert decisions(done) == ["IN_PROGRESS", "SUCCESS"]


# --- B126: a person switched the branch meanwhile, and another one was worked on --------------------------------------------


@PLACES
@pytest.mark.parametrize("when", [1.0, 15.0, 70.0])
def test_b126_the_target_is_that_of_the_ledger_whatever_is_checked_out(place: Place, when: float) -> None:
    undisturbed = simulate(plain(place))
    done = simulate(plain(place, minds=("gain",) * 5, weather=((when, "switch"),), resumes=2))
    assert done.basin.target == TARGET
    assert done.basin.phase == "converged"
    assert (done.tree["c1.txt"], done.tree["c2.txt"]) == ("yes", "yes")
    if place == "here":  # a mind works where it was put; what is somewhere else then is waited for, not followed
        assert {fact.reason for fact in done.facts(RunWaiting)} <= {"branch"}
        return
    for name in ("other", "main"):
        assert done.store.refs[f"refs/heads/{name}"] == undisturbed.store.refs[f"refs/heads/{name}"]


# --- B147: it merged into whatever was checked out; an event between listing and watching was missed -------------------------


def test_b147_grafts_land_on_the_targets_own_ref_while_another_branch_is_checked_out() -> None:
    story = plain("fresh", target_checked_out=False)
    done = simulate(story)
    heads = {name: head for name, head in done.store.refs.items() if name.startswith("refs/heads/")}
    landed = [fact.mergeCommit for fact in done.facts(BranchGrafted)]
    assert len(landed) == 2
    holding = [name for name, head in heads.items() if "/m-" not in name and landed[0] in done.store.reach(head)]
    assert holding == [f"refs/heads/{TARGET}"]


class Wall:
    """The clock of this machine."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()


def test_b147_what_is_appended_between_reading_and_waiting_is_read_at_once_and_once(tmp_path: Path) -> None:
    ours, theirs = FileLedger(tmp_path, Wall()), FileLedger(tmp_path, Wall())
    theirs.append(FrontierAdded(question="first", origin="person"), writer="cli")
    with SystemWakeups(ledger=tmp_path / "ledger.jsonl", handle=lambda _: None, told=lambda _: None) as wakeups:
        wakeups.wait([], until=time.monotonic())
        assert [fact.seq for fact in ours.catch_up()] == [1]
        theirs.append(FrontierAdded(question="second", origin="person"), writer="cli")
        begun = time.monotonic()
        wakeups.wait([], until=begun + 30.0)  # the floor
        assert time.monotonic() - begun < 15.0
        assert [fact.seq for fact in ours.catch_up()] == [2]
        assert list(ours.catch_up()) == []
    for ledger in (ours, theirs):
        ledger.close()


# --- B148: five clean merges waited for 49 hours, since new ones came first --------------------------------------------------


def queue() -> Story:
    """Three candidates, of which the second to be spawned was the first to be one."""
    story = Story().declare(lock="person").start(lock="person").check().begin(minds=3).wait(60.0, basin="auth")
    for branch in ("auth.2", "auth.3", "auth.1"):
        story.ended(branch, seconds=60.0).candidate(branch, met=["oauth"]).wait(5.0)
    return story


def test_b148_the_queue_is_in_the_order_in_which_candidates_came() -> None:
    story = queue()
    assert story.basin().queue == ("auth.2", "auth.3", "auth.1")
    tip = story.basin().tip
    assert tip is not None
    story.tell(GraftRefused(basin="auth", branch="auth.2", tip=tip.head, conflicts=("a.py",)))
    assert story.basin().queue == ("auth.2", "auth.3", "auth.1")
    story.judge(decision="WAITING").begin().wait(60.0, basin="auth").ended("auth.4").candidate("auth.4", met=["docs"])
    assert story.basin().queue == ("auth.2", "auth.3", "auth.1", "auth.4")
    story.graft("auth.3", met=["oauth"])
    assert story.basin().queue == ("auth.2", "auth.1", "auth.4")


def test_b148_how_long_the_head_waits_is_said() -> None:
    story = queue()
    story.judge(decision="WAITING").stop("waiting").wait(49 * 3600.0)
    [need] = [n for n in needs(story.state, now=story.now, leases={}, silent={}, ledger=Damage()) if n.kind == "lock"]
    assert need.branch == "auth.2"
    assert need.since is not None
    assert story.now - need.since > timedelta(hours=49)


def test_b148_of_all_basins_the_one_that_waits_longest_is_named_first() -> None:
    story = queue()
    story.judge(decision="WAITING").stop("waiting").wait(3600.0)
    story.declare("later", target="later", lock="person").start("later", lock="person").check("later")
    story.begin("later").wait(60.0, basin="later").ended("later.1").candidate("later.1", met=["oauth"])
    [need] = [n for n in needs(story.state, now=story.now, leases={}, silent={}, ledger=Damage()) if n.kind == "lock"]
    assert need.branch == "auth.2"


def test_b148_clean_candidates_of_one_wave_all_land_in_it() -> None:
    chosen = settings("fresh", minds=6, interval=0.0)
    done = simulate(plain("fresh", criteria=SIX, minds=("each",) * 6, settings=chosen, limits=Limits(attempts=3)))
    assert len(done.facts(AttemptEnded)) == 1
    assert [b.id for b in done.reader.state.branches_of(BASIN) if b.phase is Phase.CANDIDATE] == []
    assert done.basin.phase == "converged"
