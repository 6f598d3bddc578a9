"""How a basin stands, in one word; what of it waits for a person; and the exit code that says so to a script."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from orchconverge.core.judge import holds, objections
from orchconverge.core.state import Basin, Branch, Phase, State
from orchconverge.core.values import StopReason
from orchconverge.errors import LIMIT, STALLED, USAGE, WAITING

GROUPS: Final = ("need you", "moving", "waiting", "ended")


class Sign(NamedTuple):
    """How a phase is drawn and where it is listed."""

    glyph: str
    ascii: str
    group: str


PHASES: Final[Mapping[str, Sign]] = {
    "AT LOCK": Sign("◆", "!", "need you"),
    "STALLED": Sign("◆", "!", "need you"),
    "VERDICT": Sign("◆", "!", "need you"),
    "RUNNING": Sign("▶", ">", "moving"),
    "FINALIZING": Sign("▷", "=", "moving"),
    "WAITING": Sign("◷", "~", "waiting"),
    "LIMIT": Sign("▮", "L", "waiting"),
    "STOPPED": Sign("▮", "-", "waiting"),
    "UNKNOWN": Sign("?", "?", "waiting"),
    "CONVERGED": Sign("●", "*", "ended"),
    "KILLED": Sign("✕", "x", "ended"),
}
FOR_A_PERSON: Final = frozenset({"lock", "consent", "tamper", "branch", "verdict", "blocked"})
"""What a run waits for that does not come by itself."""
_WAITS: Final = {"lock": "AT LOCK", "verdict": "VERDICT", "blocked": "VERDICT"}
_STOPS: Final = {"limit": "LIMIT", "stalled": "STALLED", "unsatisfied": "STALLED"}


def queue(state: State, basin: Basin) -> tuple[Branch, ...]:
    """The candidates that only a person admits, in the order in which they came: under ``lock: auto`` the flagged ones."""
    if basin.phase != "open":
        return ()
    waiting = [state.branches[name] for name in basin.queue]
    return tuple(b for b in waiting if basin.valve == "person" or b.flags)


def phase(state: State, basin: Basin, *, lease: bool | None) -> str:
    """One of `PHASES`. ``lease`` is whether a controller holds this basin now, ``None`` if that could not be told."""
    run = basin.run
    if basin.phase == "killed":
        return "KILLED"
    if run is None:
        return "CONVERGED" if basin.phase == "converged" else "WAITING"
    if not run.open:
        return _closed(state, basin, run.stopped)
    if lease is not True:
        return "UNKNOWN"
    if run.stop_requested:
        return "STOPPED"
    if run.waiting is not None:
        return _WAITS.get(run.waiting.reason, "WAITING")
    if basin.attempt is not None:
        return "RUNNING"
    over = not basin.chain.stale and not objections(basin)
    if basin.phase == "converged" or basin.chain.running is not None or over:
        return "FINALIZING"
    return "AT LOCK" if basin.valve == "person" and queue(state, basin) else "RUNNING"


def _closed(state: State, basin: Basin, stopped: StopReason | None) -> str:
    if basin.phase == "converged":
        return "CONVERGED"
    ended = _STOPS.get(stopped or "")
    if ended is not None:
        return ended
    if queue(state, basin):
        return "AT LOCK"
    return "VERDICT" if stopped == "waiting" and unanswered(basin) else "STOPPED"


def unanswered(basin: Basin) -> bool:
    """Whether the last attempt ended in a question to a person, not in candidates at the lock."""
    return bool(basin.history) and basin.history[-1].decision in ("BLOCKED", "WAITING")


def decided(state: State, basin: Basin) -> bool:
    """Whether the run left candidates at the lock and each of them is decided on since: `resume` goes on from there."""
    last = basin.history[-1] if basin.history else None
    if last is None or last.decision != "WAITING" or basin.phase != "open" or basin.run is None or basin.queue:
        return False
    those = (b for b in state.branches_of(basin.id) if b.attempt == last.number)
    return basin.run.stopped == "waiting" and any(b.phase in (Phase.GRAFTED, Phase.PRUNED) for b in those)


def unaccepted(basin: Basin) -> bool:
    """Whether all criteria hold by an attempt with something in it that a person has to see, and none has said yes to it."""
    last = basin.history[-1] if basin.history else None
    if last is None or last.decision != "BLOCKED" or last.passes or basin.tip is None or basin.phase != "open":
        return False
    return basin.amended < last.number and holds(basin, basin.tip.results)


def refused_at_start(basin: Basin) -> bool:
    """Whether it never was a pursuit: the start check found that it makes no sense."""
    return basin.run is not None and basin.run.stopped == "refused" and not basin.history


def shown_first(state: State) -> Basin | None:
    """The basin that is meant where none is named: the newest that was not refused at its start, else the newest."""
    last = None
    for name in reversed(state.basins):
        basin = state.basins[name]
        if not refused_at_start(basin):
            return basin
        last = last or basin
    return last


def group(phase: str, *, waits_for_you: bool) -> str:
    """Where a basin is listed: a wait that does not end by itself needs you, whatever it is for."""
    return "need you" if phase == "WAITING" and waits_for_you else PHASES[phase].group


def exit_code(state: State, basin_id: str, *, lease: bool | None = None) -> int:
    """What `wait`, `--foreground` and `status --exit-code` end with.

    0 converged; 2 refused at the start, or no such basin; 3 a limit; 4 stalled or unsatisfied; 5 a person has to act, to
    which belongs a run whose controller is known to be gone (``lease`` false). 1 is all else that is not converged, and the
    ledger says why: still under way, stopped because it was asked to, killed, ended by an error. 130 is not among them: that
    *this* process was interrupted only itself can know, and a ledger cannot tell Control + C from `stop`.
    """
    basin = state.basins.get(basin_id)
    if basin is None:
        return USAGE
    if basin.phase == "converged":
        return 0
    run = basin.run
    if run is not None and run.stopped == "refused":
        return USAGE
    if basin.phase == "killed" or run is None:
        return 1
    if run.open:
        waits = run.waiting.reason if run.waiting is not None else ""
        if waits == "limit":
            return LIMIT
        return WAITING if lease is False or waits in FOR_A_PERSON else 1
    standing = _closed(state, basin, run.stopped)
    return {"LIMIT": LIMIT, "STALLED": STALLED, "AT LOCK": WAITING, "VERDICT": WAITING}.get(
        standing, WAITING if run.stopped == "waiting" else 1
    )
