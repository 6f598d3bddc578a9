"""What the next attempt does differently: another approach each time, and a ladder to climb when nothing is gained."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from msgspec import Struct

from orchconverge.core.judge import fruitless, since
from orchconverge.core.state import Basin, Past, Run
from orchconverge.core.values import Place

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
"""The rungs of an escalation, each climbed after `Settings.stallAfter` attempts without progress. Only in place is there a
context to leave, `wider` moves the pursuit to worktrees, and `next engine` needs a chain of engines."""
WIDTHS: Final = (1, 2, 3, 5, 8)
"""How wide a wave grows by itself: wider than that costs runs and gains hardly any time."""
FAILURES_A_MIND: Final = 4
"""So many failures of the most stubborn criterion are worth one more mind."""
STUBBORN: Final = 20
STUBBORN_APPROACHES: Final = 6
"""A criterion that failed so often, by so many approaches, is for a person."""


class Strategy(Struct, frozen=True, kw_only=True):
    """How the next attempt is made. ``why`` is for people; ``stop`` ends the run as stalled."""

    strategy: str
    why: str
    engine: str
    fresh: bool = False
    stop: bool = False


def rungs(run: Run) -> tuple[str, ...]:
    """The rungs that this run can climb."""
    settings = run.settings
    alone = settings.place == "here" and not (settings.widen.isdigit() and int(settings.widen) > 1)
    without = {"wider" if settings.widen != "stall" else "", "fresh context" if not alone else ""}
    if len(settings.engines) == 1:
        without.add("next engine")
    return tuple(rung for rung in LADDER if rung not in without)


def approach(basin: Basin, run: Run, number: int) -> str:
    """The approach of branch ``number``: of the run's own list, else the target's, else the shipped one, round and round."""
    listed = run.settings.approaches or basin.approaches or APPROACHES
    return listed[(number - 1) % len(listed)]


def climbed(basin: Basin, run: Run) -> tuple[int, ...]:
    """How many attempts without progress were made on the ground and on each rung of the ladder, up to where it stands.

    A rung is left after ``stallAfter`` of them, and at once where admission denied that it goes on like that.
    """
    made = [0]
    for past in fruitless(since(basin.history, run)):
        made[-1] += 1
        if past.denied or made[-1] == run.settings.stallAfter:
            made.append(0)
    return tuple(made)


def following(basin: Basin, run: Run) -> Strategy:
    """The strategy of the attempt after ``basin.history``."""
    made = climbed(basin, run)
    level, unsuccessful = len(made) - 1, sum(made)
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
    if basin.history[-1].denied:
        why = "going on in the same way was denied"
    return Strategy(strategy=rung, why=why, engine=engine, fresh=made[-1] == 0, stop=rung == "stop")


def engine_for(basin: Basin, run: Run, wanted: str, now: datetime, absent: frozenset[str]) -> Strategy | None:
    """The engine of the chain that the next attempt gets in place of ``wanted``, and why; ``None`` if none can be used now.

    Passed over are engines that are not installed, where nobody is signed in, without quota until later, and, as far as
    there are others, one for each attempt in a row that failed as a process.
    """
    chain = run.settings.engines
    failed = 0
    for past in reversed(since(basin.history, run)):
        if past.result != "failed":
            break
        failed += 1
    first = (chain.index(wanted) + failed) % len(chain)
    for engine in (*chain[first:], *chain[:first]):
        why = unusable(basin, run, engine, now, absent)
        if not why:
            passed = unusable(basin, run, wanted, now, absent) or ("it failed" if engine != wanted else "")
            return Strategy(strategy="next engine" if passed else "continue", why=passed, engine=engine)
    return None


def unusable(basin: Basin, run: Run, engine: str, now: datetime, absent: frozenset[str]) -> str:
    """Why an engine cannot be used now; empty if it can."""
    name = engine.partition(":")[0]
    limit = basin.quotas.get(name)
    if name in absent:
        return f"{name} is not installed"
    if name in run.signed_out:
        return f"{name} is not signed in"
    if limit is not None and (limit.until is None or limit.until > now):
        return f"{name} has no quota"
    return ""


def failures(basin: Basin) -> dict[str, int]:
    """Per criterion, how many branches had a result that did not bring it onto the target: how stubborn it is."""
    counted: dict[str, int] = {}
    for past in basin.history:
        for name, held in past.criteria.items():
            counted[name] = 0 if held else counted.get(name, 0) + past.results
    return counted


def stubborn(basin: Basin, run: Run) -> str:
    """The criterion that is not to be met by just another approach, with its figures; empty if there is none.

    A person who starts the run anew, or answers, starts the count anew.
    """
    mine = [past for past in since(basin.history, run) if past.number > basin.amended]
    for criterion in basin.counted:
        unmet: list[Past] = []
        for past in mine:
            unmet = [] if past.criteria.get(criterion.name) else [*unmet, past]
        failed = sum(past.results for past in unmet)
        ways = {way.partition(":")[0] for past in unmet if past.results for way in past.approach.split(" / ")}
        if failed >= STUBBORN and len(ways) >= STUBBORN_APPROACHES:
            return f"{criterion.name} failed {failed} times, by {len(ways)} approaches"
    return ""


def place(basin: Basin, run: Run) -> Place:
    """Where the minds of the running attempt work, else those of the next.

    One directory has room for one mind: a pursuit that once was wider has moved to worktrees, and stays there.
    """
    if run.settings.place == "fresh" or any(past.place == "fresh" for past in basin.history):
        return "fresh"
    wide = basin.attempt.width if basin.attempt is not None else width(basin, run)
    return "fresh" if wide > 1 else "here"


def width(basin: Basin, run: Run) -> int:
    """How many minds the next attempt has: as asked for, more where it stalls, never more than budget and limits allow."""
    settings, limits = run.settings, run.limits
    wanted = settings.minds
    failed = max((n for name, n in failures(basin).items() if name in {c.name for c in basin.counted}), default=0)
    by_failures = max(w for w in WIDTHS if w <= 1 + -(-failed // FAILURES_A_MIND))
    if settings.widen.isdigit():
        wanted = int(settings.widen)
    elif settings.widen == "f4":
        wanted = max(wanted, by_failures)
    else:
        steps = _steps_wider(basin, run)
        wider = [w for w in WIDTHS if w > wanted][:steps]
        wanted = max([wanted, *wider, *([by_failures] if steps else [])])
    if limits.minds is not None:
        wanted = min(wanted, limits.minds - basin.branches)
    one, spent = reserve(basin), basin.usage.usd or 0.0
    if one and limits.usd is not None:
        wanted = min(wanted, int((limits.usd - spent) / one))
    return max(1, wanted)


def _steps_wider(basin: Basin, run: Run) -> int:
    """How far the rung `wider` is climbed: one step with each attempt on it, and it stays that wide on the rungs above."""
    ladder, made = rungs(run), climbed(basin, run)
    if "wider" not in ladder:
        return 0
    rung = ladder.index("wider") + 1
    return 0 if len(made) <= rung else made[rung] + (len(made) == rung + 1)


def reserve(basin: Basin) -> float | None:
    """What one mind is taken to cost, in dollars, before it is started: the mean of those that ended."""
    return basin.usage.usd / basin.branches if basin.usage.usd and basin.branches else None


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
    """The active time, in seconds, at which the next attempt may start: interval from start to start, or the backoff.

    A single wave that a person asked for starts at once.
    """
    if not basin.history or not run.settings.loop:
        return 0.0
    last = basin.history[-1]
    by_interval = last.active_started + run.settings.interval if last.charged else 0.0
    return max(by_interval, last.active_ended + backoff(basin, run))
