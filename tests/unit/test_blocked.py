"""What only a person can lift: who is asked, when it is tried again, and what of a person ends the wait for that."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from orchconverge.core import events as e
from orchconverge.core.actions import Action, Append, Finish, LookAtTarget
from orchconverge.core.needs import Damage, needs
from orchconverge.core.outlook import PROBE
from orchconverge.core.policy import decide
from orchconverge.core.seen import Now, Seen, TargetSeen
from orchconverge.core.standing import exit_code
from orchconverge.core.waits import At, next_attempt, waits_for
from orchconverge.errors import WAITING
from tests.fakes.simulation import simulate
from tests.fakes.story import holds, plain, settings
from tests.stories import SESSION, Story

KEY = "no sandbox key in the environment"
QUESTION = "where is the sandbox key?"


def blocked(*, tmux: str = SESSION, passes: bool = True, **start: Any) -> Story:
    """The same verdict twice, with a question that goes with it."""
    story = Story().declare().start(tmux=tmux, **start).check()
    story.tell(e.FrontierAdded(question=QUESTION, origin="auth.1", basin="auth"))
    for last in (False, True):
        story.attempt(
            met=[],
            result="verdict",
            text="no key",
            verdict=KEY,
            decision="BLOCKED" if last else "IN_PROGRESS",
            passes=passes and last,
        )
    return story


def decided(story: Story, **seen: Any) -> list[Action]:
    """What is to be done now, with the target as it was checked."""
    tip = story.basin().tip
    assert tip is not None
    target = TargetSeen(head=tip.head, tree=tip.tree)
    now = Now(active=story.active["auth"], mono=0.0, wall=story.now)
    return decide(story.state, Seen(basin="auth", random="0" * 32, trees="/t", target=target, **seen), now)


def appended(actions: list[Action]) -> e.AnyFact:
    """The one fact that is to be appended."""
    [action] = actions
    assert isinstance(action, Append)
    return action.fact


def waiting() -> Story:
    """Blocked, and the controller waits."""
    story = blocked()
    return story.tell(appended(decided(story)))


def test_it_waits_an_hour_from_the_end_of_the_attempt_and_asks_in_the_minds_words() -> None:
    story = blocked().wait(60.0)
    fact = appended(decided(story))
    assert isinstance(fact, e.RunWaiting)
    ended = story.basin().history[-1].ended
    assert ended is not None
    assert (fact.reason, fact.text, fact.until) == ("verdict", KEY, ended + PROBE)
    assert timedelta(hours=1) == PROBE


def test_while_it_waits_scripts_are_told_that_a_person_is_needed() -> None:
    story = waiting()
    assert exit_code(story.state, "auth", lease=True) == WAITING
    [need, *_] = needs(story.state, now=story.now, leases={"auth": True}, silent={}, ledger=Damage())
    assert (need.kind, need.command) == ("verdict", "orchconverge logs auth.2")
    at = At(active=1200.0, now=story.now, lease=True, silent=None)
    wait = waits_for(story.state, story.basin(), at, phase="VERDICT")
    said = next_attempt(story.basin(), at, wait, phase="VERDICT", command=need.command)
    assert said == "after you: orchconverge logs auth.2, or by itself at 15:20"


def test_then_one_mind_tries_again() -> None:
    story = waiting()
    assert decided(story) == []
    story.wait(3600.0)
    story.tell(appended(decided(story)))
    fact = appended(decided(story))
    assert isinstance(fact, e.AttemptStarted)
    assert (fact.attempt, fact.width, fact.strategy) == (3, 1, "continue")
    assert "blocks pass" in fact.why


@pytest.mark.parametrize(
    "answer",
    [
        e.BasinAmended(basin="auth", why="it is not needed"),
        e.FrontierClosed(question=QUESTION, answer="in the vault"),
    ],
)
def test_what_a_person_says_ends_the_wait_at_once(answer: e.AnyFact) -> None:
    story = waiting().tell(answer, writer="cli")
    woke = appended(decided(story))
    assert isinstance(woke, e.RunWoke)
    assert isinstance(appended(decided(story.tell(woke))), e.AttemptStarted)


def test_the_answer_to_a_question_of_another_pursuit_ends_no_wait() -> None:
    story = blocked().tell(e.FrontierAdded(question="which colour?", origin="person"))
    story.tell(appended(decided(story)))
    answer = e.FrontierClosed(question="which colour?", answer="blue")
    assert decided(story.tell(answer, writer="cli")) == []


@pytest.mark.parametrize(
    ("what", "story"),
    [
        ("in the foreground somebody waits for its end", lambda: blocked(tmux="")),
        ("commits of a person, or a flag, do not pass", lambda: blocked(passes=False)),
        ("the limit is reached", lambda: blocked(attempts=2)),
        ("one wave was asked for", lambda: blocked(loop=False)),
    ],
)
def test_otherwise_the_controller_ends_and_a_person_is_asked(what: str, story: Any) -> None:
    told = story()
    first, last = decided(told)
    assert isinstance(first, Append), what
    assert isinstance(first.fact, e.RunStopped), what
    assert (first.fact.reason, type(last)) == ("waiting", Finish)
    assert exit_code(told.tell(first.fact).state, "auth") == WAITING


def test_no_answer_takes_a_flagged_success() -> None:
    story = blocked(passes=False)
    story.tell(e.FrontierClosed(question=QUESTION, answer="in the vault"))
    assert story.basin().amended == 0


def test_what_a_person_mended_by_hand_is_a_success_once_it_is_looked_at_again() -> None:
    story = waiting().wait(3600.0)
    story.tell(appended(decided(story)))
    story.check(met=[c.name for c in story.basin().criteria])
    fact = appended(decided(story)[:1])
    assert isinstance(fact, e.StepStarted), "the final chain begins"


def test_a_criterion_that_defies_every_approach_is_for_a_person_before_the_ladder_ends() -> None:
    """Five minds an attempt, each with a result that meets neither."""
    chosen = settings("fresh", minds=5, widen="5", interval=0.0, stallAfter=9)
    done = simulate(plain("fresh", minds=("noise",) * 40, settings=chosen))
    ended = done.facts(e.AttemptEnded)
    assert [fact.passes for fact in ended] == [False] * (len(ended) - 1) + [True]
    assert ended[-1].decision == "BLOCKED"
    assert sum(past.results for past in done.basin.history[:-1]) < 20 <= sum(p.results for p in done.basin.history)
    assert done.facts(e.RunWaiting)[0].text == "c1 failed 20 times, by 8 approaches"


def test_while_anything_is_gained_a_stubborn_criterion_is_no_reason_to_stop() -> None:
    chosen = settings("fresh", minds=5, widen="5", interval=0.0)
    many = tuple(holds(f"c{n}") for n in range(1, 8))
    done = simulate(plain("fresh", criteria=many, minds=("gain",) * 60, settings=chosen))
    assert "BLOCKED" not in [fact.decision for fact in done.facts(e.AttemptEnded)]
    assert done.basin.phase == "converged"


def test_where_nothing_was_looked_at_it_looks_first() -> None:
    story = blocked()
    now = Now(active=story.active["auth"], mono=0.0, wall=story.now)
    assert decide(story.state, Seen(basin="auth", random="0" * 32, trees="/t"), now) == [LookAtTarget()]
