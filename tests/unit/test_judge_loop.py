"""A judge in the loop, over fakes in virtual time: when it is asked, what is remembered, and that a kill changes nothing."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from orchconverge.app.checks import Checks
from orchconverge.app.trees import Trees
from orchconverge.core.events import AttemptEnded, BasinChecked
from orchconverge.core.seen import Key
from orchconverge.core.target import Criterion
from orchconverge.core.values import Evidence, Limits, Met, Place
from tests.fakes.simulation import BASIN, Simulation, simulate
from tests.fakes.story import Story, holds, plain, settings

PLACES = pytest.mark.parametrize("place", ["here", "fresh"])
JUDGED = Criterion(
    name="judge", kind="judge", text="both", clauses=("c1 says yes", "c2 says yes"), deadline=60.0, required=True
)


def judging(place: Place, **changes: object) -> Story:
    """Two attempts, each of which meets one clause more."""
    given: dict[str, object] = {"engines": ("sim", "other:large"), "interval": 5.0, "setup": "install", **changes}
    return plain(place, criteria=(holds("c1"), holds("c2"), JUDGED), settings=settings(place, **given))


def found(done: Simulation) -> list[Evidence]:
    """What is recorded of the target, in order."""
    facts = done.facts(BasinChecked, AttemptEnded)
    told = [fact.results if isinstance(fact, BasinChecked) else fact.evidence for fact in facts]
    return [each for answers in told for each in answers if each.criterion == "judge"]


@PLACES
def test_clauses_that_come_to_hold_are_progress_and_no_tree_is_judged_twice(place: Place) -> None:
    done = simulate(judging(place))
    assert [fact.decision for fact in done.facts(AttemptEnded)] == ["IN_PROGRESS", "SUCCESS"]
    assert [len(each.passed) for each in found(done)] == sorted(len(each.passed) for each in found(done))
    assert {each.met for each in found(done)} == {"no", "yes"}
    trees = [tree for _, tree in done.players.judged]
    assert len(trees) == len(set(trees)) == 3


@pytest.mark.parametrize(("met", "again"), [("no", False), ("yes", False), ("unknown", True)])
def test_a_second_look_at_a_tree_asks_only_a_judge_that_did_not_judge(met: Met, again: bool) -> None:
    done = simulate(judging("fresh"))
    world, run = done.world(), done.basin.run
    assert run is not None
    world.ledger.catch_up()
    checks = Checks(world, Trees(world, BASIN))
    tree, judges = world.git.tree_of(done.base), len(done.players.judged)
    first, second = (Key(criterion="judge", tree=tree, place="fresh", tries=tries) for tries in (1, 2))
    said = checks.answers[first] = Evidence(criterion="judge", met=met, tree=tree, excerpt="so it is")
    assert checks.ask(done.basin, run, second, done.base) == (not again)
    assert (second in checks.awaited) == again
    assert again or checks.answers[second] == replace(said, tries=2)
    assert len(done.players.judged) == judges


def test_each_is_judged_by_the_engine_that_did_not_make_it() -> None:
    done = simulate(judging("fresh"))
    assert all("judged by other:large" in each.excerpt for each in found(done))
    assert "not by sim, which made it" in found(done)[-1].excerpt
    alone = simulate(judging("fresh", engines=("sim",)))
    assert "judged by sim, which made it too: the run has no other engine" in found(alone)[-1].excerpt


@pytest.mark.parametrize("stride", [29, pytest.param(3, marks=pytest.mark.slow)])
@PLACES
def test_killed_anywhere_and_resumed_it_ends_the_same_and_no_judge_is_asked_twice(place: Place, stride: int) -> None:
    story = judging(place)
    whole = simulate(story)
    assert whole.faults.points > 300
    for point in range(1, whole.faults.points + 1, stride):
        killed = simulate(story, crash_at=point)
        assert killed.crashes == 1
        assert [fact.decision for fact in killed.facts(AttemptEnded)] == ["IN_PROGRESS", "SUCCESS"], point
        assert [each.met for each in found(killed)][-1] == "yes", point
        names = [name for name, _ in killed.players.judged]
        assert len(names) == len(set(names)), point
        assert {tree for _, tree in killed.players.judged} == {tree for _, tree in whole.players.judged}, point


def test_a_judge_that_has_no_time_is_unknown_and_the_run_goes_on_to_its_limit() -> None:
    short = Criterion(name="judge", kind="judge", text="both", clauses=("c1 says yes",), deadline=0.5)
    story = plain("fresh", criteria=(holds("c1"), short), minds=("gain", "none"), limits=Limits(attempts=2))
    done = simulate(story)
    assert {each.met for each in found(done)} == {"unknown"}
    assert all(each.excerpt.startswith("no answer: deadline after 0 s") for each in found(done))
    assert done.facts(AttemptEnded)[-1].decision == "ATTEMPT_LIMIT"
