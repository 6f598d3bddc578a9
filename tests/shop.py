"""The repository of the pictures in the design: eight goals, one in each way to stand that an overview has to tell apart."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from msgspec.structs import replace

from orchconverge.core import events as e
from orchconverge.core.projection import Damage, Probes, Projection, project
from orchconverge.core.shown import Minds
from orchconverge.core.standing import GROUPS
from orchconverge.core.target import Criterion
from tests.stories import START, Story, check


def _names(count: int) -> tuple[Criterion, ...]:
    words = ("types", "tests", "enrol", "verify", "recovery", "docs", "malformed", "style")
    return tuple(check(word) for word in words[:count])


def _begun(story: Story, name: str, goal: str, count: int, met: int, **how: Any) -> Story:
    story.declare(name, goal=goal, criteria=_names(count), target="main", lock="person" if name == "mfa" else "auto")
    story.start(name, tmux=f"convergence-{name}", lock="person" if name == "mfa" else "auto", **how)
    return story.check(name, met=_held(count, met), head=f"{name}-start")


def _held(count: int, met: int) -> list[str]:
    return [criterion.name for criterion in _names(count)[:met]]


def shop() -> Story:
    """All of it, at 14:23:07 of a Sunday."""
    story = Story(at=START - timedelta(days=3, hours=5))
    _begun(story, "auth", "Users sign in with OAuth and stay signed in", 8, 2)
    for met, seconds in ((3, 1800.0), (5, 2400.0), (7, 2000.0)):
        story.attempt("auth", met=_held(8, met), text="fixed more", seconds=seconds)
    story.attempt("auth", met=_held(8, 8), result="success", text="fixed all", decision="SUCCESS", seconds=2000.0)
    story.tell(e.BasinConverged(basin="auth")).stop("converged", basin="auth")
    story.wait(86_400.0)
    _begun(story, "fuzzy", "Misspelt queries still find the product", 5, 1)
    story.attempt("fuzzy", met=_held(5, 2), text="fixed tests", seconds=3600.0)
    for _ in range(2):
        story.attempt("fuzzy", met=_held(5, 2), result="no_progress", text="missing enrol", seconds=1080.0)
    story.tell(e.BasinKilled(basin="fuzzy", reason="index nine times the budget"), writer="cli")
    story.stop("killed", "index nine times the budget", basin="fuzzy")
    story.now = START - timedelta(hours=4)
    _begun(story, "search", "A search of a million products answers in under 200 ms", 5, 0)
    for met in (1, 2, 3):
        story.attempt("search", met=_held(5, met), text="nearer", seconds=2700.0)
    _begun(story, "cache", "A cold start needs no network", 4, 1, attempts=12)
    story.attempt("cache", met=_held(4, 2), text="fixed tests", seconds=300.0)
    for _ in range(3):
        story.attempt("cache", met=_held(4, 2), result="no_progress", text="missing enrol", seconds=300.0)
    _begun(story, "refunds", "A refund reaches the buyer's account within one day", 6, 2)
    for met in (3, 4):
        story.attempt("refunds", met=_held(6, met), text="fixed more", seconds=400.0)
    for decision in ("IN_PROGRESS", "BLOCKED"):
        story.attempt(
            "refunds",
            met=_held(6, 4),
            result="verdict",
            text="no sandbox key",
            verdict="no sandbox key in the environment",
            decision=decision,
            seconds=300.0,
        )
    story.stop("waiting", "no sandbox key in the environment", basin="refunds")
    _begun(story, "guide", "A newcomer deploys from the guide alone", 6, 2, usd=6.0, attempts=40, hours=40.0)
    for met in (4, 5):
        story.attempt("guide", met=_held(6, met), text="fixed more", seconds=300.0)
    until = START + timedelta(hours=1, minutes=40)
    story.park("quota", "claude has no quota until 15:40 UTC. No attempt is charged", basin="guide", until=until)
    _begun(
        story,
        "flaky",
        "The suite passes fifty times in a row",
        5,
        1,
        chain=("pushl", "reviewdeep", "copilot", "report"),
    )
    story.attempt("flaky", met=_held(5, 4), text="fixed more", seconds=600.0)
    story.attempt("flaky", met=_held(5, 5), result="success", text="fixed all", decision="SUCCESS", seconds=600.0)
    story.step("pushl", "pull request #218 updated", basin="flaky")
    story.tell(e.StepStarted(basin="flaky", round=1, step="reviewdeep", argv=("reviewdeep",)))
    _begun(story, "mfa", "A second factor can be set up, used and recovered without calling support", 7, 2)
    story.now = START - timedelta(minutes=6)
    story.begin("mfa", minds=3, approach="library-first").wait(900.0, basin="mfa")
    best = ["types", "tests", "enrol", "verify", "recovery", "docs"]
    waves = {"mfa.2": best, "mfa.1": [*best[:4], "malformed"], "mfa.3": ["types", *best[2:5]]}
    for name, names in waves.items():
        story.ended(name, seconds=880.0).candidate(name, met=names)
    story.judge("mfa", met=_held(7, 2), result="no_progress", text="missing enrol", decision="WAITING")
    story.stop("waiting", "3 candidates wait at the lock", basin="mfa")
    for origin, question in (
        ("mfa.3", "Do recovery codes expire, and who is told when one is used?"),
        ("search.3", "Is 200 ms measured at the median or at p99?"),
        ("refunds.4", "Which sandbox account may tests charge?"),
    ):
        story.tell(e.FrontierAdded(question=question, origin=origin, basin=origin.split(".")[0]))
    story.wait(600.0).begin("cache", minds=3, deadline=2700.0).wait(200.0)
    story.begin("search", deadline=1800.0)
    story.now = START + timedelta(minutes=23, seconds=7)
    return story


def probes(story: Story) -> Probes:
    """What the machine would say: every open run has its controller, its session and its minds."""
    runs = [basin.id for basin in story.state.open_runs]
    attempts = {basin.id: basin.attempt for basin in story.state.open_runs}
    return Probes(
        leases=dict.fromkeys(runs, True),
        tmux=dict.fromkeys(runs, True),
        minds={name: len(found.branches) if found is not None else 0 for name, found in attempts.items()},
        silent=dict.fromkeys(runs, 2.0),
        ledger=Damage(lines=story.seq),
        seq=story.seq,
        newest=story.facts[-1].at if story.facts else None,
    )


def shown(story: Story) -> Projection:
    """The projection of a story at its own end."""
    return project(story.state, probes=probes(story), now=story.now, recent=story.facts)


def crowd(found: Projection, basins: int, *, minds: int = 1) -> Projection:
    """The same repository with so many goals, most of them under way, and ``minds`` times as many minds."""
    some = [one for one in found.basins if one.group == "moving"]
    more = [
        replace(some[at % len(some)], id=f"goal-{at}", minds=Minds(running=16 * minds, unknown=0))
        for at in range(max(0, basins - len(found.basins)))
    ]
    first = [replace(one, minds=Minds(running=one.minds.running * minds, unknown=0)) for one in found.basins[:basins]]
    return replace(found, basins=tuple(sorted([*first, *more], key=lambda one: GROUPS.index(one.group))))
