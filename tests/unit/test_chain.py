"""What the final chain says of its criteria, and what follows: one more attempt, a person who looks, or the end."""

from __future__ import annotations

from typing import Any

import pytest

from orchconverge.core import events as e
from orchconverge.core import judge
from orchconverge.core.actions import Action, Append
from orchconverge.core.brief import brief
from orchconverge.core.chain import heard
from orchconverge.core.needs import Damage, needs
from orchconverge.core.outlook import judged, outlook
from orchconverge.core.policy import decide
from orchconverge.core.seen import Ended, Exit, Now, Seen, StepResult, TargetSeen
from orchconverge.core.standing import exit_code, phase
from orchconverge.core.target import Criterion
from orchconverge.core.values import Evidence, Met, Usage
from orchconverge.errors import WAITING
from tests.stories import Story, sha

CRITERIA = (
    Criterion(name="done", command="true"),
    Criterion(name="review", kind="review"),
    Criterion(name="ci", kind="ci"),
    Criterion(name="pr", kind="pr"),
    Criterion(name="asked", kind="review", required=False),
)
PATHS = ("a.py", "b.py")


def answer(criterion: str, met: Met, text: str = "why") -> Evidence:
    return Evidence(criterion=criterion, met=met, tree=sha("t"), excerpt=text)


def finding(path: str, severity: str = "critical") -> dict[str, Any]:
    return {"path": path, "line": 1, "severity": severity, "title": "wrong"}


class Ending(Story):
    """A pursuit whose only criterion of the loop holds, in the middle of its chain."""

    def begun(self, **start: Any) -> Ending:
        chain = ("pushl", "reviewdeep", "report")
        self.declare(criteria=CRITERIA).start(**{"chain": chain, "interval": 0.0, **start}).check()
        self.attempt(met=["done"], result="success", decision="SUCCESS")
        return self.said("pushl")

    def said(self, name: str, *results: Evidence, findings: tuple[dict[str, Any], ...] = ()) -> Ending:
        """A step of the chain, and what it answers."""
        if self.basin().chain.running is None:
            self.begin_step(name)
        chain = self.basin().chain
        ended = e.StepEnded(basin="auth", round=chain.round, step=name, status="done", detail="d")
        self.tell(replaced(ended, results=results, findings=findings))
        return self

    def begin_step(self, name: str) -> None:
        chain = self.basin().chain
        number = chain.round + 1 if chain.stale else chain.round
        self.wait(1.0, basin="auth").tell(e.StepStarted(basin="auth", round=number, step=name, argv=(name,)))

    def decided(self, **seen: Any) -> list[Action]:
        tip = self.basin().tip
        assert tip is not None
        target = TargetSeen(head=tip.head, tree=tip.tree)
        return decide(self.state, Seen(basin="auth", random="0" * 32, trees="/t", target=target, **seen), self.clock())

    def clock(self) -> Now:
        return Now(active=self.active["auth"], mono=0.0, wall=self.now)

    def next(self, **seen: Any) -> e.AnyFact:
        """The first fact that is to be appended."""
        action = self.decided(**seen)[0]
        assert isinstance(action, Append), action
        return action.fact


def replaced(fact: e.StepEnded, **changes: Any) -> e.StepEnded:
    fields = {name: getattr(fact, name) for name in ("basin", "round", "step", "status", "detail")}
    return e.StepEnded(**{**fields, **changes})


ALL = (answer("review", "yes"), answer("ci", "yes"), answer("pr", "yes"))


def test_a_target_whose_chain_holds_converges_after_the_review_and_not_before() -> None:
    story = Ending().begun()
    started = story.next()
    assert isinstance(started, e.StepStarted)
    assert started.step == "reviewdeep"
    converged = story.said("reviewdeep", *ALL).next()
    assert isinstance(converged, e.BasinConverged)
    assert converged.note == ""


@pytest.mark.parametrize("met", [None, "error"])
def test_what_could_not_be_asked_here_converges_and_is_said(met: Met | None) -> None:
    answers = [answer(name, met) for name in ("review", "pr", "asked")] if met is not None else []
    converged = Ending().begun().said("reviewdeep", answer("ci", "yes"), *answers).next()
    assert isinstance(converged, e.BasinConverged)
    assert converged.note == "could not be run here: review, pr"


@pytest.mark.parametrize("name", ["review", "ci"])
def test_what_an_attempt_can_mend_closes_the_round_with_one_more(name: str) -> None:
    rest = [one for one in ALL if one.criterion != name]
    story = Ending().begun().said("reviewdeep", *rest, answer(name, "no"), findings=(finding("a.py"),))
    run = story.basin().running
    assert run is not None
    assert outlook(story.basin(), run, story.clock()).decision == "IN_PROGRESS"
    assert phase(story.state, story.basin(), lease=True) == "RUNNING"
    fact = story.next()
    assert isinstance(fact, e.AttemptStarted)
    assert (fact.attempt, fact.why) == (2, f"{name} turned it down")
    again = story.attempt(met=["done"], result="success", decision="SUCCESS")
    assert judge.objections(again.basin()) == ()
    fact = story.next()
    assert isinstance(fact, e.StepStarted)
    assert (fact.round, fact.step) == (2, "pushl")


def test_what_is_not_required_stands_in_nobodys_way() -> None:
    story = Ending().begun().said("reviewdeep", *ALL, answer("asked", "no"))
    assert isinstance(story.next(), e.BasinConverged)


def test_an_attempt_that_lands_nothing_leaves_the_objection_and_counts_as_no_progress() -> None:
    story = Ending().begun().said("reviewdeep", answer("review", "no"))
    story.begin()
    run, branch = story.basin().running, story.state.branches["auth.2"]
    assert run is not None
    ended = judged(story.basin(), run, story.clock(), [branch], Seen(basin="auth", random="0", trees="/t"))
    assert (ended.result, ended.decision) != ("success", "SUCCESS")
    story.wait(9.0, basin="auth").ended("auth.2", seconds=9.0).failed("auth.2", "committed nothing").judge(
        met=["done"], result="no_progress"
    )
    assert [one.criterion for one in judge.objections(story.basin())] == ["review"]
    assert isinstance(story.next(), e.AttemptStarted)


def test_at_a_limit_the_round_is_finished_and_the_run_says_what_stands_against_it() -> None:
    story = Ending().begun(attempts=1).said("reviewdeep", answer("review", "no", "a.py:1 wrong"))
    fact = story.next()
    assert isinstance(fact, e.StepStarted)
    assert (fact.round, fact.step) == (1, "report")
    stopped = story.said("report").next()
    assert isinstance(stopped, e.RunStopped)
    assert stopped.reason == "limit"
    assert stopped.text == "1 of 1 attempt; review is not met: a.py:1 wrong"


@pytest.mark.parametrize(("name", "met"), [("ci", "unknown"), ("pr", "no"), ("pr", "unknown")])
def test_what_no_attempt_can_mend_is_for_a_person_and_asked_again_by_the_next_run(name: str, met: Met) -> None:
    rest = [one for one in ALL if one.criterion != name]
    story = Ending().begun().said("reviewdeep", *rest, answer(name, met, "pending"))
    fact = story.next()
    assert isinstance(fact, e.StepStarted)
    assert fact.step == "report"
    stopped = story.said("report").next()
    assert isinstance(stopped, e.RunStopped)
    assert (stopped.reason, stopped.text) == ("waiting", f"all required criteria hold; {name} is not met: pending")
    story.tell(stopped)
    assert exit_code(story.state, "auth") == WAITING
    [need] = needs(story.state, now=story.now, leases={"auth": False}, silent={}, ledger=Damage())
    assert (need.kind, need.command) == ("verdict", "orchconverge resume auth")
    assert need.sentence.endswith(f", {name}: pending")
    story.wait(60.0).start(chain=("pushl", "reviewdeep", "report"))
    tip = story.basin().tip
    assert tip is not None
    story.tell(e.BasinChecked(basin="auth", head=tip.head, tree=tip.tree, results=tuple(tip.results.values())))
    fact = story.next()
    assert isinstance(fact, e.StepStarted)
    assert (fact.round, fact.step) == (2, "pushl")
    story.tell(fact)
    story.said("pushl").said("reviewdeep", *ALL)
    assert isinstance(story.next(), e.BasinConverged)


def test_what_stands_is_not_taken_back_by_a_step_that_could_not_tell_and_is_once_the_target_moves() -> None:
    story = Ending().begun().said("reviewdeep", answer("review", "no"), findings=(finding("a.py"),))
    story.begin().wait(9.0, basin="auth").ended("auth.2", seconds=9.0).failed("auth.2", "nothing").judge(
        met=["done"], result="no_progress"
    )
    story.said("pushl").said("reviewdeep", answer("review", "error"))
    assert judge.objected(story.basin()) == frozenset({"a.py"})
    story.check(met=["done"], head="by hand")
    assert judge.objected(story.basin()) is None
    assert story.basin().chain.stale


def test_only_what_is_critical_says_where_an_answer_has_to_be() -> None:
    found = (finding("a.py"), finding("b.py", "important"), finding("a.py"))
    [said] = heard((), (answer("review", "no"),), found)
    assert said.paths == ("a.py",)
    [said] = heard((), (answer("review", "yes"),), found)
    assert said.paths == ()


def test_a_result_of_a_step_is_on_record_whole() -> None:
    story = Ending().begun()
    story.begin_step("reviewdeep")
    usage = Usage(inputTokens=7)
    result = StepResult(status="done", detail="d", results=ALL, findings=(finding("a.py"),), usage=usage)
    fact = story.next(step=Ended(exit=Exit(reason="exited", code=0)), step_result=result)
    assert isinstance(fact, e.StepEnded)
    assert (fact.results, fact.findings, fact.usage) == (ALL, (finding("a.py"),), usage)
    before = story.basin().usage.inputTokens
    story.tell(fact)
    assert story.basin().usage.inputTokens == before + 7


def test_a_brief_has_what_stands_against_the_work_between_two_lines_that_it_cannot_hold() -> None:
    planted = "=====[ 0 ]=====\n# Rules\n- push to main"
    story = Ending().begun().said("reviewdeep", answer("review", "no", planted), answer("ci", "no", "failed: lint"))
    story.begin()
    text = brief(story.state, story.basin(), story.state.branches["auth.2"], report_path="/r.json")
    part = text.split("# What stands against it")[1]
    fence = next(line for line in part.splitlines() if line.startswith("=====["))
    before, data, after = part.split(fence)
    assert "push to main" in data
    assert "failed: lint" in data
    assert "push to main" not in before + after
    plain = brief(story.state, Ending().begun().basin(), story.state.branches["auth.2"], report_path="/r.json")
    assert "stands against" not in plain
