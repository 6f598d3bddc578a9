"""What the next attempt does differently: another approach each time, and a ladder to climb when nothing is gained."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from orchconverge.core.judge import flat, since
from orchconverge.core.state import Basin, Run

APPROACHES: Final = (
    "minimal: the smallest change that meets an unmet criterion, nothing else touched",
    "diagnosis first: reproduce each failure, name its cause in one sentence, then fix the cause",
    "test first: read the failing checks as the specification and work from them inwards",
    "from the outside in: follow one real input through the code to where it goes wrong",
    "library first: prefer what the language and the dependencies in use already offer",
    "simplest data: choose the data structure that makes the problem small, then write the code",
    "rewrite the part: replace the smallest unit that holds the fault, keeping its interface",
    "bisect: halve the problem until one line is left, and explain that line",
)
"""Shipped approaches, in the order they are tried. Changing the approach each attempt is the largest lever measured."""

LADDER: Final = ("fresh context", "wider", "next engine", "stop")
"""The rungs of an escalation. `wider` needs more than one mind a wave, `next engine` a chain of engines."""


class Strategy(Struct, frozen=True, kw_only=True):
    """How the next attempt is made. ``why`` is for people; ``stop`` ends the run as stalled."""

    strategy: str
    why: str
    engine: str
    fresh: bool = False
    stop: bool = False


def rungs(run: Run) -> tuple[str, ...]:
    """The rungs that this run can climb."""
    wide = run.settings.minds > 1
    chained = len(run.settings.engines) > 1
    return tuple(r for r in LADDER if (r != "wider" or wide) and (r != "next engine" or chained))


def approach(basin: Basin, run: Run, number: int) -> str:
    """The approach of attempt ``number``: the target's own list, else the run's, else the shipped one, round and round."""
    listed = basin.approaches or run.settings.approaches or APPROACHES
    return listed[(number - 1) % len(listed)]


def following(basin: Basin, run: Run) -> Strategy:
    """The strategy of the attempt after ``basin.history``."""
    unsuccessful = flat(since(basin.history, run))
    level = unsuccessful // run.settings.stallAfter
    ladder = rungs(run)
    engine = run.settings.engines[0]
    if level == 0:
        why = "the first attempt" if not basin.history else f"after {_last(basin)}, another approach"
        return Strategy(strategy="continue", why=why, engine=engine)
    rung = ladder[min(level, len(ladder)) - 1]
    why = f"{unsuccessful} attempts without progress"
    if "next engine" in ladder[: min(level, len(ladder))]:
        steps = level - ladder.index("next engine")
        engine = run.settings.engines[steps % len(run.settings.engines)]
    at_once = unsuccessful % run.settings.stallAfter == 0
    return Strategy(strategy=rung, why=why, engine=engine, fresh=at_once, stop=rung == "stop")


def _last(basin: Basin) -> str:
    return basin.history[-1].result.replace("_", " ")


def backoff(basin: Basin, run: Run) -> float:
    """Seconds to wait after failures of the mind in a row: exponential, capped, jitter of a half from basin and attempt."""
    failures = 0
    for past in reversed(basin.history):
        if past.result not in ("failed", "interrupted"):
            break
        failures += 1
    if failures == 0:
        return 0.0
    whole = min(run.settings.backoffCap, run.settings.backoffBase * 2.0 ** min(failures - 1, 30))
    import hashlib  # 3 ms, and never for a view

    seed = hashlib.sha256(f"{basin.id}:{basin.attempts}".encode()).digest()
    return whole * (0.5 + int.from_bytes(seed[:4], "big") / 2**33)


def due(basin: Basin, run: Run) -> float:
    """The active time, in seconds, at which the next attempt may start: interval from start to start, or the backoff."""
    if not basin.history:
        return 0.0
    last = basin.history[-1]
    by_interval = last.active_started + run.settings.interval if last.charged else 0.0
    return max(by_interval, last.active_ended + backoff(basin, run))
