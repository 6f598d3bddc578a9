"""What of a basin can be counted: active time, the limit that comes first, the trend, who met what first."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from msgspec import Struct

from orchconverge.core.judge import flat, met, since
from orchconverge.core.state import Basin, Phase, State
from orchconverge.core.strategy import rungs
from orchconverge.core.target import Criterion
from orchconverge.core.values import Evidence, Limits, all_tokens


class Shown(Struct, frozen=True, kw_only=True):
    """A part of what is shown. Its fields are the keys of `--json`; they never vanish, ``None`` is unknown."""


class Trend(Shown, frozen=True, kw_only=True):
    """Which way the target goes: ``rising``, ``flat N``, ``fell``, ``done``; required criteria met, start first."""

    word: str | None
    scores: tuple[int, ...]


class Stall(Shown, frozen=True, kw_only=True):
    """Attempts without progress, and at how many something else is tried."""

    attempts: int
    of: int
    last_rung: bool


class Nearest(Shown, frozen=True, kw_only=True):
    """The limit that ends the pursuit first: ``attempts``, ``time``, ``money``, ``tokens``, ``minds`` or ``until``."""

    kind: str | None
    fraction: float | None


def active_seconds(
    basin: Basin, *, now: datetime | None = None, lease: bool | None = None, asleep: float = 0.0
) -> float:
    """Seconds of active time at ``now``: never less than the ledger says.

    While a controller is known to hold an open run that waits for nothing, the wall time since the newest fact that carried
    active time counts too, less the seconds that the machine slept since.
    """
    run = basin.running
    if run is None or run.waiting is not None or lease is not True or now is None:
        return basin.active
    said = [at for at in (basin.active_at, run.started) if at is not None]
    since = (now - max(said)).total_seconds() if said else 0.0
    return basin.active + max(0.0, since - asleep)


def limits(basin: Basin) -> Limits:
    """Those of the newest run, which decide, else those of the target."""
    if basin.run is not None:
        return basin.run.limits
    end, budget = basin.termination, basin.budget
    return Limits(
        attempts=end.attempts,
        hours=end.hours,
        until=end.until,
        usd=budget.usd,
        tokens=budget.tokens,
        minds=budget.minds,
    )


def nearest(basin: Basin, *, active: float, now: datetime | None = None) -> Nearest:
    """The limit of which the largest part is used; the order attempts, time, money breaks a tie."""
    most = limits(basin)
    used: list[tuple[str, float, float | None]] = [
        ("attempts", float(basin.charged), most.attempts),
        ("time", active, most.hours * 3600 if most.hours is not None else None),
        ("money", basin.usage.usd or 0.0, most.usd),
        ("tokens", float(all_tokens(basin.usage)), most.tokens),
        ("minds", float(basin.branches), most.minds),
    ]
    started = basin.run.started if basin.run is not None else None
    if most.until is not None and started is not None and now is not None:
        used.append(("until", (now - started).total_seconds(), (most.until - started).total_seconds()))
    parts = [(kind, spent / end if end > 0 else 1.0) for kind, spent, end in used if end is not None]
    if not parts:
        return Nearest(kind=None, fraction=None)
    kind, fraction = max(parts, key=lambda part: part[1])
    return Nearest(kind=kind, fraction=round(fraction, 4))


def results(basin: Basin) -> Mapping[str, Evidence]:
    """The answers on the target's tip."""
    return basin.tip.results if basin.tip is not None else {}


def met_of(basin: Basin, answers: Mapping[str, Evidence] | None = None) -> int:
    """How many of the criteria that the loop requires hold, on the tip or by these answers."""
    found = results(basin) if answers is None else answers
    return sum(met(found, c.name) for c in basin.counted)


def trend(basin: Basin) -> Trend:
    """From the start check and every attempt."""
    required = basin.counted
    start = basin.start
    scores = [sum(met(start.results, c.name) for c in required)] if start is not None else []
    scores += [sum(past.criteria.get(c.name, False) for c in required) for past in basin.history]
    return Trend(word=_word(basin, scores), scores=tuple(scores))


def _word(basin: Basin, scores: list[int]) -> str | None:
    if basin.phase == "converged" or (basin.tip is not None and met_of(basin) == len(basin.counted)):
        return "done"
    if not any(past.charged for past in basin.history):
        return None
    if len(scores) > 1 and scores[-1] < scores[-2]:
        return "fell"
    unsuccessful = flat(basin.history)
    return f"flat {unsuccessful}" if unsuccessful else "rising"


def stall(basin: Basin) -> Stall:
    """How far it is to the next rung of the escalation."""
    run = basin.run
    if run is None:
        return Stall(attempts=flat(basin.history), of=3, last_rung=False)
    count = flat(since(basin.history, run))
    step = max(1, run.settings.stallAfter)
    rung = count // step + 1
    return Stall(attempts=count, of=rung * step, last_rung=rung >= len(rungs(run)))


def first_met_by(state: State, basin: Basin, criterion: Criterion) -> str | None:
    """The branch that was landed newest when the criterion was first seen to hold; ``None`` if it held at the start.

    A part that a person took by hand is not told apart: the fold keeps no commit of it.
    """
    name = criterion.name
    if not met(results(basin), name) or (basin.start is not None and met(basin.start.results, name)):
        return None
    first = next((past.number for past in basin.history if past.criteria.get(name)), basin.attempts)
    landed = [b for b in state.branches_of(basin.id) if (b.phase is Phase.GRAFTED or b.admitted) and b.attempt <= first]
    return landed[-1].id if landed else None
