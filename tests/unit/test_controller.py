"""The decisions of the loop by example: the real controller over fakes, in virtual time. One run a test, told as a story."""

from __future__ import annotations

from datetime import timedelta

import pytest

from orchconverge.core.events import (
    AttemptEnded,
    AttemptStarted,
    BasinChecked,
    BasinConverged,
    BranchCandidate,
    BranchEnded,
    BranchFailed,
    BranchGrafted,
    BranchPruned,
    BranchSpawned,
    GraftRefused,
    ProposalMade,
    ResidueGrafted,
    RunStarted,
    RunStopped,
    RunWaiting,
    RunWoke,
    SessionContext,
    StepEnded,
)
from orchconverge.core.standing import exit_code
from orchconverge.core.target import Criterion
from orchconverge.core.values import Limits, Place
from tests.fakes.players import TARGET
from tests.fakes.simulation import BASIN, ROOT, Simulation, simulate
from tests.fakes.story import TESTS, Rates, Story, holds, plain, settings

BOTH = pytest.mark.parametrize("place", ["here", "fresh"])


def decisions(done: Simulation) -> list[str]:
    return [fact.decision for fact in done.facts(AttemptEnded)]


def results(done: Simulation) -> list[str]:
    return [fact.result for fact in done.facts(AttemptEnded)]


def stopped(done: Simulation) -> tuple[str, str]:
    last = done.facts(RunStopped)[-1]
    return last.reason, last.text


def starts(done: Simulation) -> list[float]:
    return [fact.active for fact in done.facts(AttemptStarted)]


# --- the decisions of design §6 --------------------------------------------------------------------------------------


@BOTH
def test_success_runs_the_chain_and_converges(place: Place) -> None:
    done = simulate(plain(place, minds=("gain all",)))
    assert decisions(done) == ["SUCCESS"]
    assert [step.step for step in done.facts(StepEnded)] == ["pushl", "report"]
    assert len(done.facts(BasinConverged)) == 1
    assert stopped(done) == ("converged", "all required criteria hold")
    assert exit_code(done.reader.state, BASIN) == 0
    assert done.store.pushed["origin"]["topic"]


@BOTH
def test_progress_goes_on_with_another_approach(place: Place) -> None:
    done = simulate(plain(place, minds=("gain", "gain")))
    assert decisions(done) == ["IN_PROGRESS", "SUCCESS"]
    assert done.facts(AttemptEnded)[0].text == "fixed c1, missing c2"
    first, second = done.facts(BranchSpawned)
    assert first.approach != second.approach


@pytest.mark.parametrize(
    ("place", "ladder"),
    [
        (
            "here",
            [("continue", 1), ("continue", 1), ("fresh context", 1), ("continue", 1), ("wider", 2), ("wider", 3)],
        ),
        ("fresh", [("continue", 1), ("continue", 1), ("wider", 2), ("wider", 3)]),
    ],
)
def test_no_progress_climbs_to_a_fresh_context_or_wider_and_then_stops(
    place: Place, ladder: list[tuple[str, int]]
) -> None:
    chosen = settings(place, stallAfter=2, interval=0.0)
    done = simulate(plain(place, minds=("none",) * 9, settings=chosen, limits=Limits(attempts=9)))
    assert decisions(done) == ["IN_PROGRESS", "STALLED"] * (len(ladder) // 2)
    assert [(fact.strategy, fact.width) for fact in done.facts(AttemptStarted)] == ladder
    assert len(done.facts(BranchSpawned)) == sum(width for _, width in ladder)
    assert stopped(done)[0] == "stalled"
    assert [step.step for step in done.facts(StepEnded)] == ["pushl", "report"]
    assert done.basin.phase == "open"


def test_in_place_the_engines_context_is_continued_until_the_escalation() -> None:
    chosen = settings("here", stallAfter=2, interval=0.0)
    done = simulate(plain("here", minds=("none",) * 9, settings=chosen, limits=Limits(attempts=9)))
    contexts = done.facts(SessionContext)
    assert [fact.why for fact in contexts] == ["the first of this engine", "2 attempts without progress"]
    argv = [entry.program.log for name, entry in done.machine.entries.items() if name.startswith("minds/")]
    assert [sum(fact.engineSession.encode() in log for log in argv) for fact in contexts] == [2, 2]
    assert len(argv) == 9, "and none for the five minds in worktrees"


def test_in_place_it_widens_in_worktrees_and_what_passes_the_gate_lands_on_the_same_branch() -> None:
    chosen = settings("here", stallAfter=2, interval=0.0)
    minds = ("none",) * 5 + ("gain all",)
    done = simulate(plain("here", minds=minds, settings=chosen, limits=Limits(attempts=9)))
    assert [fact.place for fact in done.facts(BranchSpawned)] == ["here"] * 4 + ["fresh"] * 2
    assert [fact.branch for fact in done.facts(BranchGrafted)] == ["goal.6"]
    assert stopped(done)[0] == "converged"
    root = done.store.places[ROOT]
    assert (root.branch, done.store.dirt(root)) == (TARGET, ((), ()))
    assert done.store.files(done.store.refs[f"refs/heads/{TARGET}"])["c2.txt"] == "yes"


def test_what_landed_from_worktrees_waits_for_a_checkout_that_is_not_clean() -> None:
    chosen = settings("here", stallAfter=1, interval=0.0)
    minds = ("none", "none", "gain all", "gain all")
    story = plain("here", minds=minds, settings=chosen, limits=Limits(attempts=9), weather=((100.0, "dirty"),))
    done = simulate(story)
    [waiting] = done.facts(RunWaiting)
    assert (waiting.reason, "changes" in waiting.text) == ("branch", True)
    assert stopped(done)[0] == "converged"


def test_in_place_with_a_person_at_the_lock_a_wave_ends_in_a_proposal() -> None:
    chosen = settings("here", stallAfter=1, interval=0.0, lock="person")
    done = simulate(plain("here", minds=("none", "none", "gain", "none"), settings=chosen, limits=Limits(attempts=9)))
    assert [fact.parts[0].part.branch for fact in done.facts(ProposalMade)] == ["goal.3"]
    assert done.facts(BranchGrafted) == []
    assert stopped(done)[0] == "waiting"


def test_a_controller_that_died_after_the_move_goes_on_in_worktrees() -> None:
    chosen = settings("here", stallAfter=1, interval=0.0)
    minds = ("none",) * 3 + ("gain", "gain", "gain")
    for seed in range(6):
        story = plain(
            "here", seed=seed, minds=minds, settings=chosen, limits=Limits(attempts=9), rates=Rates(crash=0.02)
        )
        done = simulate(story)
        spawned = [fact.place for fact in done.facts(BranchSpawned)]
        assert spawned == sorted(spawned, reverse=True)
        assert "fresh" in spawned


@pytest.mark.parametrize(("place", "below"), [("here", ["fresh context", "wider"]), ("fresh", ["wider"])])
def test_the_last_rung_but_one_is_the_next_engine(place: Place, below: list[str]) -> None:
    chosen = settings(place, stallAfter=1, interval=0.0, engines=("sim", "other"))
    done = simulate(plain(place, minds=("none",) * 9, settings=chosen, limits=Limits(attempts=9)))
    started = done.facts(AttemptStarted)
    assert [fact.engine for fact in started] == ["sim", *("sim" for _ in below), "other"]
    assert [fact.strategy for fact in started] == ["continue", *below, "next engine"]
    assert stopped(done)[0] == "stalled"


@BOTH
def test_the_attempt_limit_ends_with_the_chain_and_leaves_the_basin_open(place: Place) -> None:
    done = simulate(plain(place, minds=("noise", "none"), limits=Limits(attempts=2)))
    assert decisions(done)[-1] == "ATTEMPT_LIMIT"
    assert stopped(done) == ("limit", "2 of 2 attempts")
    assert done.basin.phase == "open"
    assert done.facts(StepEnded)[-1].step == "report"


def test_the_time_limit_cuts_the_last_attempt_short() -> None:
    done = simulate(
        plain("fresh", minds=("hang",) * 9, limits=Limits(hours=0.05), settings=settings("fresh", interval=0.0))
    )
    [attempt] = done.facts(AttemptStarted)
    assert attempt.deadline == pytest.approx(180.0 - attempt.active)
    assert decisions(done) == ["TIME_LIMIT"]
    assert stopped(done)[0] == "limit"


def test_no_attempt_is_begun_that_the_interval_puts_behind_the_time_limit() -> None:
    chosen = settings("fresh", interval=600.0)
    done = simulate(plain("fresh", minds=("none",) * 9, limits=Limits(hours=0.1), settings=chosen))
    assert len(starts(done)) == 1
    assert stopped(done) == ("limit", "the next attempt would start after the time limit")


def test_a_budget_of_minds_ends_the_run() -> None:
    done = simulate(plain("fresh", minds=("none",) * 9, limits=Limits(attempts=9, minds=2)))
    assert decisions(done)[-1] == "BUDGET_LIMIT"
    assert stopped(done) == ("limit", "2 of 2 minds")


@BOTH
def test_a_wait_for_quota_charges_nothing_and_ends_at_the_reset(place: Place) -> None:
    done = simulate(plain(place, minds=("quota", "gain all"), limits=Limits(attempts=1)))
    assert decisions(done) == ["WAITING", "SUCCESS"]
    assert [fact.charged for fact in done.facts(AttemptEnded)] == [False, True]
    [waiting], [woke] = done.facts(RunWaiting), done.facts(RunWoke)
    assert waiting.reason == "quota"
    assert woke.at >= waiting.until
    assert woke.active == pytest.approx(waiting.active, abs=1.0), "waiting is no active time"


def test_three_attempts_that_could_not_be_made_are_left_to_a_person() -> None:
    done = simulate(plain("fresh", minds=("quota",) * 9))
    assert results(done) == ["quota"] * 3
    assert stopped(done)[0] == "waiting"
    assert done.basin.charged == 0


@BOTH
def test_a_stop_ends_the_mind_and_keeps_the_attempt_open(place: Place) -> None:
    done = simulate(plain(place, minds=("hang",), weather=((90.0, "stop"),)))
    assert stopped(done)[0] == "stopped"
    assert done.facts(AttemptEnded) == []
    assert done.basin.attempt is not None
    assert done.machine.alive() == []


@BOTH
def test_a_resume_judges_what_the_stopped_mind_had_committed(place: Place) -> None:
    minds = ("gain and hang", "gain")
    done = simulate(plain(place, minds=minds, weather=((120.0, "stop"),), resumes=1))
    assert [fact.reason for fact in done.facts(RunStopped)] == ["stopped", "converged"]
    assert results(done) == ["partial_success", "success"]
    assert done.machine.starts["minds/goal.1"] == 1


@pytest.mark.parametrize("what", ["signal", "stop", "kill"])
def test_a_run_ends_at_once_while_a_check_runs(what: str) -> None:
    done = simulate(plain("fresh", seed=3, weather=((1.0, what),), rates=Rates(hang=1.0)))
    assert done.machine.alive() == []
    assert done.time.mono - 1000 < 40


def test_success_that_rests_on_a_flagged_change_in_place_is_blocked() -> None:
    done = simulate(plain("here", criteria=(holds("c1"),), minds=("flagged",)))
    assert decisions(done) == ["BLOCKED"]
    assert done.facts(BranchCandidate)[0].flags == ("agent instructions: AGENTS.md",)
    assert stopped(done)[0] == "waiting"
    assert done.facts(BasinConverged) == []


def test_a_flagged_candidate_in_a_worktree_waits_and_is_not_grafted() -> None:
    done = simulate(plain("fresh", criteria=(holds("c1"),), minds=("flagged",)))
    assert decisions(done) == ["BLOCKED"]
    assert done.facts(BranchGrafted) == []
    assert stopped(done)[0] == "waiting"


def test_the_same_verdict_from_two_approaches_is_blocked_and_tried_again_after_an_hour() -> None:
    chosen = settings("fresh", stallAfter=2)
    minds = ("same verdict",) * 3 + ("gain all",)
    done = simulate(plain("fresh", minds=minds, settings=chosen, patience=9000.0))
    assert decisions(done) == ["IN_PROGRESS", "BLOCKED", "BLOCKED", "SUCCESS"]
    first, second = done.facts(RunWaiting)
    assert (first.reason, first.text) == ("verdict", "the key is missing")
    ended, started = done.facts(AttemptEnded), done.facts(AttemptStarted)
    assert [first.until, second.until] == [fact.at + timedelta(hours=1) for fact in ended[1:3]]
    late = [fact.at - until for fact, until in zip(started[2:], [first.until, second.until], strict=True)]
    assert all(timedelta(0) <= after < timedelta(seconds=30 + chosen.interval) for after in late)
    assert [fact.width for fact in started[2:]] == [1, 1], "a probe is not wider, though the run has stalled"
    assert started[2].active - ended[1].active < 60, "waiting is no active time"
    assert stopped(done)[0] == "converged"


def test_no_block_is_tried_again_past_the_limits() -> None:
    done = simulate(plain("fresh", minds=("same verdict",) * 9, limits=Limits(attempts=2)))
    assert decisions(done) == ["IN_PROGRESS", "BLOCKED"]
    assert done.facts(RunWaiting) == []
    assert stopped(done)[0] == "waiting"


def test_while_a_block_is_waited_out_a_person_can_stop_the_run() -> None:
    done = simulate(plain("fresh", minds=("same verdict",) * 9))
    assert decisions(done) == ["IN_PROGRESS", "BLOCKED"]
    assert stopped(done)[0] == "stopped"


# --- when the next attempt comes -------------------------------------------------------------------------------------


def test_the_interval_is_from_start_to_start() -> None:
    done = simulate(
        plain("fresh", minds=("noise",) * 3, limits=Limits(attempts=3), settings=settings("fresh", interval=200.0))
    )
    first, second, third = starts(done)
    assert second - first == pytest.approx(200.0, abs=0.01)
    assert third - second == pytest.approx(200.0, abs=0.01)


def test_no_interval_is_waited_for_after_the_last_attempt() -> None:
    done = simulate(
        plain("fresh", minds=("noise",), limits=Limits(attempts=1), settings=settings("fresh", interval=9000.0))
    )
    assert done.facts(RunStopped)[-1].active < 200


def test_the_backoff_grows_with_failures_in_a_row() -> None:
    chosen = settings("fresh", interval=0.0, stallAfter=9, backoffBase=40.0, backoffCap=10_000.0)
    done = simulate(plain("fresh", minds=("crash",) * 5, limits=Limits(attempts=5), settings=chosen))
    assert results(done) == ["failed"] * 5
    ends = [fact.active for fact in done.facts(AttemptEnded)]
    pauses = [start - end for start, end in zip(starts(done)[1:], ends, strict=False)]
    for number, pause in enumerate(pauses):
        assert 0.5 * 40 * 2**number <= pause <= 1.0 * 40 * 2**number + 0.01


# --- what makes no sense from the start ------------------------------------------------------------------------------


@BOTH
def test_a_target_where_everything_holds_already_is_refused(place: Place) -> None:
    done = simulate(plain(place, files={"c1.txt": "yes", "c2.txt": "yes"}))
    assert stopped(done)[0] == "refused"
    assert "add --criterion" in stopped(done)[1]
    assert done.basin.phase == "killed"
    assert done.facts(AttemptStarted) == []
    assert exit_code(done.reader.state, BASIN) == 2


@BOTH
def test_what_holds_here_and_not_in_a_fresh_tree_is_refused(place: Place) -> None:
    done = simulate(plain(place, files={"c1.txt": "yes"}, fresh_differs=True))
    assert stopped(done)[0] == "refused"
    assert "add a setup command" in stopped(done)[1]
    assert done.facts(AttemptStarted) == []


@BOTH
def test_a_setup_command_makes_the_fresh_tree_the_same(place: Place) -> None:
    chosen = settings(place, setup="install", interval=0.0)
    done = simulate(plain(place, files={"c1.txt": "yes"}, fresh_differs=True, minds=("none", "gain"), settings=chosen))
    assert stopped(done)[0] == "converged"


# --- people beside it ------------------------------------------------------------------------------------------------


def test_a_persons_commit_in_place_is_named_and_parks_the_run() -> None:
    done = simulate(plain("here", minds=("gain and hang",), weather=((100.0, "commit"),)))
    assert decisions(done) == ["BLOCKED"]
    assert done.facts(AttemptEnded)[0].text.startswith("a person committed meanwhile: ")
    assert stopped(done)[0] == "waiting"


def test_a_head_elsewhere_parks_the_run_and_its_return_wakes_it() -> None:
    minds = ("noise", "gain all")
    done = simulate(
        plain("here", seed=1, minds=minds, settings=settings("here", interval=300.0), weather=((150.0, "switch"),))
    )
    [waiting], [_] = done.facts(RunWaiting), done.facts(RunWoke)
    assert waiting.reason == "branch"
    assert waiting.text == "the checkout is on other, the run works on topic: git switch topic"
    assert stopped(done)[0] == "converged"


def test_a_mind_that_goes_to_another_branch_has_no_part_in_the_target() -> None:
    done = simulate(plain("here", minds=("elsewhere",), criteria=(holds("c1"),), weather=((2000.0, "stop"),)))
    assert results(done) == ["no_progress"]
    assert done.facts(RunWaiting)[0].reason == "branch"
    assert done.facts(BasinConverged) == []


def test_a_changed_configuration_stops_everything_until_it_is_as_it_was() -> None:
    done = simulate(plain("fresh", minds=("tamper", "gain")))
    assert done.facts(RunWaiting)[0].reason == "tamper"
    assert done.facts(BranchGrafted) == []
    assert stopped(done)[0] == "stopped", "the person lost patience"


@pytest.mark.parametrize("short", ["disk", "memory"])
def test_a_machine_that_runs_short_is_waited_for(short: str) -> None:
    done = simulate(plain("fresh", minds=("noise", "gain all"), weather=((60.0, f"{short} low"),)))
    assert [fact.reason for fact in done.facts(RunWaiting)] == [short]
    assert len(done.facts(RunWoke)) == 1
    assert stopped(done)[0] == "converged"


# --- the gate --------------------------------------------------------------------------------------------------------


def test_a_candidate_that_gains_nothing_is_not_grafted() -> None:
    done = simulate(plain("fresh", minds=("noise",), limits=Limits(attempts=1)))
    assert [fact.why for fact in done.facts(GraftRefused)] == ["it gains no criterion"]
    assert done.facts(BranchGrafted) == []


def test_a_candidate_in_conflict_with_the_tip_is_refused_and_names_the_path() -> None:
    done = simulate(plain("fresh", minds=("shared",), weather=((25.0, "shared"),), limits=Limits(attempts=1)))
    assert [fact.conflicts for fact in done.facts(GraftRefused)] == [("shared.txt",)]


def test_a_red_answer_against_what_held_is_asked_twice_and_called_unstable() -> None:
    found = set()
    for seed in range(30):
        done = simulate(plain("fresh", seed=seed, minds=("gain", "noise", "gain"), rates=Rates(flaky=0.4)))
        found |= {x.met for fact in done.facts(BranchCandidate) for x in fact.evidence}
    assert found == {"yes", "no", "unstable"}


def test_a_test_that_is_gone_is_a_lost_criterion() -> None:
    files = {"t-1": "green", "t-2": "green"}
    done = simulate(
        plain("fresh", files=files, criteria=(holds("c1"), TESTS), minds=("deleted test",), limits=Limits(attempts=1))
    )
    [candidate] = done.facts(BranchCandidate)
    tests = next(x for x in candidate.evidence if x.criterion == "tests")
    assert tests.met == "no"
    assert tests.excerpt.startswith("lost: t::t-1 held before")
    assert done.facts(BranchGrafted) == []


def test_the_kinds_that_git_answers_are_never_gained_alone() -> None:
    criteria = (holds("c1"), Criterion(name="changed", kind="changed"), Criterion(name="mergeable", kind="mergeable"))
    done = simulate(
        plain("fresh", criteria=criteria, minds=("noise", "gain"), settings=settings("fresh", interval=0.0))
    )
    assert results(done) == ["no_progress", "success"]
    assert [x.met for x in done.facts(BasinChecked)[0].results if x.criterion == "changed"] == ["no", "no"]


# --- several minds at once --------------------------------------------------------------------------------------------

THREE = (holds("c1"), holds("c2"), holds("c3"))


def wave(*minds: str, **changes: object) -> Story:
    """One attempt of three minds with three criteria. What is no part of a story is one of its settings."""
    names = ("seed", "weather", "declared", "beside", "rates", "resumes", "limits")
    parts: dict[str, object] = {"limits": Limits(attempts=1), "criteria": THREE, "minds": minds}
    parts |= {name: changes.pop(name) for name in names if name in changes}
    return plain("fresh", settings=settings("fresh", **{"minds": 3, "interval": 5.0, **changes}), **parts)  # type: ignore[arg-type]


def met(done: Simulation) -> list[set[str]]:
    return [{x.criterion for x in c.evidence if x.met == "yes"} for c in done.facts(BranchCandidate)]


def test_a_wave_begins_at_one_commit_and_what_its_branches_met_lands_together() -> None:
    done = simulate(wave("each", "gain", "at once and shared", seed=4))
    spawned = done.facts(BranchSpawned)
    assert [x.branch for x in spawned] == ["goal.1", "goal.2", "goal.3"]
    assert (len({x.base for x in spawned}), len({x.approach for x in spawned})) == (1, 3)
    assert done.machine.peak["minds"] == 3
    assert met(done) == [{"c1", "c2"}, {"c1"}, {"c2", "c3"}]
    [proposal] = done.facts(ProposalMade)
    assert [(x.part.branch, x.part.criterion, x.part.paths) for x in proposal.parts] == [
        ("goal.1", None, ()),
        ("goal.3", "c3", ("c3.txt",)),
    ]
    assert [x.branch for x in done.facts(BranchGrafted)] == ["goal.1"]
    assert [(x.branch, x.criterion, x.paths) for x in done.facts(ResidueGrafted)] == [("goal.3", "c3", ("c3.txt",))]
    assert {x.branch: x.reason for x in done.facts(BranchPruned)}.keys() == {"goal.2", "goal.3"}
    assert decisions(done) == ["SUCCESS"]
    files = {name: text for name, text in done.tree.items() if not name.startswith("docs/")}
    assert files == {"shared.txt": "start", "c1.txt": "yes", "c2.txt": "yes", "c3.txt": "yes"}


def test_with_a_person_at_the_lock_the_attempt_ends_with_a_proposal_and_nothing_moves() -> None:
    done = simulate(wave("each", "gain", "at once and shared", seed=4, declared="person"))
    assert decisions(done) == ["WAITING"]
    assert len(done.facts(ProposalMade)) == 1
    assert done.facts(BranchGrafted, ResidueGrafted, StepEnded) == []
    assert stopped(done) == ("waiting", "3 candidates at the lock: orchconverge lock goal")
    assert done.tree == {"shared.txt": "start"}
    assert exit_code(done.reader.state, BASIN) == 5


def test_of_a_wave_no_more_run_at_once_than_there_is_room_for() -> None:
    done = simulate(wave("none", "none", "none", maxMinds=2))
    assert len(done.facts(BranchSpawned)) == 3
    assert done.machine.peak["minds"] == 2
    assert results(done) == ["no_progress"]


def test_two_pursuits_share_the_room() -> None:
    done = simulate(wave(*["gain"] * 9, maxMinds=2, beside=True))
    assert done.machine.peak["minds"] == 2
    assert {x.basin for x in done.facts(BranchSpawned)} == {"goal", "beside"}
    assert [x.reason for x in done.facts(RunWaiting)][:1] == ["limit"]
    assert len(done.facts(AttemptEnded)) == 2


def test_a_mind_that_a_person_prunes_is_ended_and_the_others_go_on() -> None:
    weather = ((30.0, "prune running"), (31.0, "prune running"))
    done = simulate(wave("hang", "each", "hang", seed=3, weather=weather))
    assert [x.branch for x in done.facts(BranchPruned)] == ["goal.3", "goal.2"]
    assert {x.branch: x.reason for x in done.facts(BranchEnded)} == {
        "goal.1": "deadline",
        "goal.2": "killed",
        "goal.3": "killed",
    }
    assert done.facts(BranchCandidate) == []
    assert [(x.result, x.charged) for x in done.facts(AttemptEnded)] == [("no_progress", True)]


def test_a_wave_of_which_one_mind_was_lost_is_charged_and_one_that_nobody_finished_is_not() -> None:
    one = simulate(wave("hang", "none", "none", seed=1, weather=((60.0, "end mind"),)))
    assert [(x.result, x.charged) for x in one.facts(AttemptEnded)] == [("no_progress", True)]
    all_of_them = tuple((60.0 + n, "end mind") for n in range(3))
    none = simulate(wave(*["hang"] * 3, *["none"] * 3, seed=1, weather=all_of_them))
    assert next((x.result, x.charged) for x in none.facts(AttemptEnded)) == ("interrupted", False)


def test_a_proposal_whose_tip_moved_is_made_anew_on_the_new_one() -> None:
    done = simulate(wave("each", "gain", "none", seed=4, rates=Rates(overtaken=0.7)))
    proposals, tips = done.facts(ProposalMade), [x.head for x in done.facts(BasinChecked)]
    assert len(proposals) > 1
    assert len({x.tip for x in proposals}) == len(proposals)
    assert {x.tip for x in proposals} <= set(tips)
    assert [x.mergeCommit for x in done.facts(BranchGrafted)] == [proposals[-1].parts[0].commit]


def test_where_nothing_is_left_to_spend_a_wave_is_narrower() -> None:
    done = simulate(wave(*["none"] * 9, limits=Limits(attempts=3, minds=4)))
    assert [x.width for x in done.facts(AttemptStarted)] == [3, 1]
    assert stopped(done) == ("limit", "4 of 4 minds")


def test_one_wave_that_was_asked_for_alone_is_one_attempt() -> None:
    done = simulate(wave(*["noise"] * 9, loop=False, limits=Limits(attempts=5)))
    assert len(done.facts(AttemptStarted)) == 1
    assert stopped(done)[0] == "limit"


# --- what fails outside ----------------------------------------------------------------------------------------------


def test_a_git_that_keeps_failing_is_waited_for_and_said_and_a_stop_still_works() -> None:
    done = simulate(plain("fresh", weather=((5.0, "git fails"),), minds=("gain all",)))
    assert {fact.reason for fact in done.facts(RunWaiting)} == {"blocked"}
    assert "did not answer in time" in done.facts(RunWaiting)[0].text
    assert done.basin.charged == 0
    assert stopped(done)[0] == "stopped", "the person lost patience"


def test_a_full_disk_is_waited_out_and_costs_no_active_time() -> None:
    done = simulate(plain("fresh", seed=2, minds=("gain all",), weather=((20.0, "disk full"),)))
    assert stopped(done)[0] == "converged"
    first, last = done.facts(RunStarted)[0], done.facts(RunStopped)[-1]
    assert last.active < (last.at - first.at).total_seconds() / 2


def test_minds_that_tmux_could_not_start_are_not_charged_and_after_three_a_person_is_asked() -> None:
    done = simulate(plain("fresh", seed=4, minds=("gain all",) * 9, weather=((5.0, "tmux hangs"),)))
    assert [fact.reason for fact in done.facts(BranchFailed)] == ["tmux did not answer within 10 s"] * 3
    assert results(done) == ["interrupted"] * 3
    assert done.basin.charged == 0
    assert stopped(done)[0] == "waiting"
    assert done.machine.starts.total() == 4, "two checks in two places, no mind"
