"""Work convergence in the loop: what is denied climbs the ladder, what is constrained is told, what was not made counts not."""

from __future__ import annotations

from typing import Any

import pytest

from orchconverge.core.admission_record import resumed
from orchconverge.core.brief import brief
from orchconverge.core.convergence import converging, goal_of, limits_of
from orchconverge.core.events import AttemptEnded, AttemptStarted, RunStopped
from orchconverge.core.fingerprints import blob
from orchconverge.core.seen import Act, MindEnd, MindReport, Now, Outcome, Seen
from orchconverge.core.target import Stage
from orchconverge.core.values import Calls, Limits, Place, Thresholds
from tests.fakes.simulation import Simulation, simulate
from tests.fakes.story import plain, settings
from tests.stories import NO_CALLS, Story, check, sha

DENY = "deny_ordinary_continuation"
QUICK = Thresholds(refusals=1)


def idle(place: Place, attempts: int, *minds: str, **chosen: Any) -> Simulation:
    """A run whose minds end well and make nothing, and that stalls late."""
    given = settings(place, interval=0.0, stallAfter=5, thresholds=QUICK, **chosen)
    return simulate(plain(place, minds=minds or ("none",) * attempts, settings=given, limits=Limits(attempts=attempts)))


def told(done: Simulation) -> list[tuple[str, str]]:
    """Per attempt what admission said of the next one, and what was decided."""
    ends = done.facts(AttemptEnded)
    return [(fact.workConvergence["work_convergence_action"], fact.decision) for fact in ends]


# --- in the loop -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["here", "fresh"])
def test_to_deny_is_to_climb_at_once_and_at_the_top_it_is_over_unsatisfied(place: Place) -> None:
    done = idle(place, 20)
    assert told(done)[:2] == [("constrain_next_turn", "IN_PROGRESS"), (DENY, "STALLED")]
    assert told(done)[-1] == (DENY, "UNSATISFIED")
    assert len(told(done)) < 10, "long before five attempts on each rung"
    [stopped] = done.facts(RunStopped)
    assert stopped.reason == "unsatisfied"
    rungs = [fact.strategy for fact in done.facts(AttemptStarted)]
    assert rungs[:2] == ["continue", "continue"]
    assert "continue" not in rungs[2::2]


def test_a_new_rung_has_the_whole_budget_again() -> None:
    done = idle("fresh", 20)
    assert told(done)[2] == ("constrain_next_turn", "IN_PROGRESS"), "not denied again for what was before"


def test_a_limit_that_is_reached_is_a_limit() -> None:
    assert told(idle("fresh", 2))[-1] == (DENY, "ATTEMPT_LIMIT")


def test_what_gains_is_never_denied() -> None:
    minds = ("none", "gain", "none", "gain", "none", "gain")
    done = idle("fresh", 6, *minds)
    assert all(action != DENY for action, _ in told(done))
    assert told(done)[1][0] == "allow_next_turn"


def test_a_mind_that_was_kept_from_its_turn_leaves_the_frontier_as_it_is() -> None:
    done = idle("fresh", 6, "crash", "crash", "crash", "crash", "gain all")
    assert [action for action, _ in told(done)[:4]] == ["allow_next_turn"] * 4


# --- one attempt -----------------------------------------------------------------------------------------------------


CRITERION = check("a", command="grep -q yes a.txt")
YES = {"a.txt": (blob(None), blob(b"yes\n"))}


def judged(
    story: Story, *acts: Act, contents: dict[str, Any] | None = None, result: Any = "no_progress", **more: Any
) -> AttemptEnded:
    """The end of the attempt whose one mind is gone, with what its engine and git showed of it."""
    basin = story.basin()
    assert basin.run is not None
    assert basin.attempt is not None
    [name] = basin.attempt.branches
    seen = Seen(
        basin="auth",
        random="0" * 32,
        trees="/t",
        ends={name: MindEnd(outcome=Outcome(acts=acts), report=MindReport(), head=sha(name))},
        contents={name: contents or {}},
    )
    ended = AttemptEnded(
        basin="auth",
        attempt=basin.attempt.number,
        charged=more.pop("charged", True),
        result=result,
        head=sha("tip"),
        criteria={"a": False},
        progress=0,
        decision=more.pop("decision", "IN_PROGRESS"),
    )
    now = Now(active=0.0, mono=0.0, wall=story.now)
    return converging(seen, now, basin, basin.run, [story.state.branches[name]], ended)


def made(story: Story, *, met: tuple[str, ...] = (), calls: Calls = NO_CALLS) -> Story:
    """A mind had its turn in the next attempt of this story."""
    story.begin()
    name = story.basin().attempt.branches[0]  # type: ignore[union-attr]
    story.ended(name, calls=calls)
    return story.candidate(name, met=met)


def begun(**chosen: Any) -> Story:
    return Story().declare(criteria=(CRITERION,), **chosen).start().check()


def test_a_write_that_git_shows_too_is_progress_and_one_that_only_the_engine_shows_is_none() -> None:
    wrote = Act(kind="write", target="a.txt", ok=True)
    assert judged(made(begun()), wrote, contents=YES).workConvergence["work_convergence_mutations"] == 0
    found = judged(made(begun()), wrote).workConvergence
    assert found["work_convergence_action"] == "constrain_next_turn"
    assert found["work_convergence_uncounted"] == ["no_op"]


def test_work_that_leaves_its_check_red_opens_recovery() -> None:
    found = judged(made(begun()), contents=YES).workConvergence
    assert (found["work_convergence_frontier"], found["work_convergence_cause"]) == (
        "verifier_recovery",
        "failed_check",
    )
    assert found["work_convergence_failed_checks"] == ["a"]
    assert found["work_convergence_action"] == "allow_next_turn"


def test_what_holds_is_finished_without_another_turn() -> None:
    found = judged(made(begun(), met=("a",)), contents=YES, result="success", decision="SUCCESS").workConvergence
    assert (found["work_convergence_state"], found["work_convergence_action"]) == (
        "satisfied",
        "finalize_without_provider_turn",
    )
    assert found["work_convergence_source"] == "work_convergence"
    assert found["work_convergence_error"] is None


def test_a_mind_that_was_denied_inside_its_turn_denies_the_next_one() -> None:
    calls = Calls(how="hooks", asked=9, refused=4, denied=True)
    ended = judged(made(begun(), calls=calls))
    found = ended.workConvergence
    assert (found["work_convergence_action"], ended.decision) == (DENY, "STALLED")
    assert found["work_convergence_error"] == "work_convergence_unsatisfied"
    assert (found["admission"], found["asked"], found["refused"]) == ("hooks", 9, 4)


def test_a_person_who_is_waited_for_stands_above_it() -> None:
    ended = judged(made(begun(), calls=Calls(denied=True)), decision="WAITING")
    assert ended.decision == "WAITING"
    assert ended.workConvergence["work_convergence_overruled"] == "approval_gate"
    assert ended.workConvergence["work_convergence_error"] is None


def test_an_attempt_that_is_given_back_changes_nothing() -> None:
    story = begun()
    story.judge(work=judged(made(story)).workConvergence, result="no_progress")
    before = resumed(story.basin().convergence)
    ended = judged(made(story), charged=False)
    assert resumed(ended.workConvergence) == before
    assert before.constrained


def test_what_closes_it_is_told_to_the_next_mind() -> None:
    story = begun()
    story.judge(work=judged(made(story)).workConvergence, result="no_progress")
    story.begin()
    basin = story.basin()
    branch = story.state.branches[basin.attempt.branches[0]]  # type: ignore[union-attr]
    assert "# What has to come of this" in brief(story.state, basin, branch, report_path="/r.json")
    fresh = begun().begin()
    branch = fresh.state.branches["auth.1"]
    assert "# What has to come of this" not in brief(fresh.state, fresh.basin(), branch, report_path="/r.json")


# --- stages ----------------------------------------------------------------------------------------------------------

PLAN = Stage(name="plan", inputs=("spec.md",), output="plan.md")
CODE = Stage(name="code", inputs=("plan.md",), output="a.txt")


def test_a_stage_is_open_until_its_output_is_written_and_then_the_next_one_is() -> None:
    story = begun(stages=(PLAN, CODE))
    assert goal_of(story.basin()).stage == PLAN
    read, wrote = Act(kind="read", target="spec.md", ok=True), Act(kind="write", target="plan.md", ok=True)
    plan = {"plan.md": (blob(None), blob(b"first a.txt\n"))}
    ended = judged(made(story), read, wrote, contents=plan)
    found = ended.workConvergence
    assert (found["work_convergence_frontier"], found["work_convergence_cause"]) == ("authoring", "declared_stage")
    assert found["work_convergence_state"] == "satisfied"
    assert len(found["authoring_observed_input_fingerprints"]) == 1
    story.judge(work=found, result="no_progress")
    assert story.basin().staged == ("plan.md",)
    assert goal_of(story.basin()).stage == CODE


def test_at_a_stage_what_was_not_declared_closes_nothing() -> None:
    ended = judged(made(begun(stages=(PLAN,))), contents=YES)
    assert ended.workConvergence["work_convergence_state"] != "satisfied"
    assert "undeclared" in ended.workConvergence["work_convergence_uncounted"]


def test_the_goal_is_told_by_the_target_and_by_what_is_red() -> None:
    goal = goal_of(Story().declare(criteria=(check("a", command="grep -q yes a.txt"),)).start().check().basin())
    assert goal.checks == {"a": "grep -q yes a.txt"}
    assert "a.txt" in goal.words
    assert goal.expects


def test_inside_a_mind_there_is_more_room_and_the_same_refusals() -> None:
    run = Story().declare().start().basin().run
    assert run is not None
    between, within = limits_of(run), limits_of(run, inside=True)
    assert (within.targets, within.rereads, within.refusals) == (4 * between.targets, 4 * between.rereads, 3)
