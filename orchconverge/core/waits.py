"""What a basin waits for, and when its next attempt comes: nothing is ever just running."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from orchconverge.core.measures import met_of, results
from orchconverge.core.standing import decided, queue, refused_at_start
from orchconverge.core.state import UNSETTLED, Attempt, Basin, Branch, Phase, Run, State
from orchconverge.core.strategy import due
from orchconverge.core.views.text import age, clean, clock, counted, duration

SHORT = 100
"""Cells of a reason that somebody else wrote, in a line of ours."""
WHOLE = 2000
"""Cells of a question to a person: it is shown whole, and this only stops a mind from filling the screen."""
NEVER_STARTED = "start it with orchconverge open"


class Wait(NamedTuple):
    """What is waited for, until when at the latest, and the same as an event: ``attempt 7 of search ends``."""

    kind: str
    what: str
    until: datetime | None = None
    event: str = ""


class At(NamedTuple):
    """The moment that waits are told for: active seconds, wall time in the reader's zone, the controller's silence."""

    active: float
    now: datetime
    lease: bool | None
    silent: float | None


def asked(basin: Basin) -> str:
    """What a person is asked, or told, in the words of whoever asked; may be empty."""
    run = basin.run
    if run is None:
        return ""
    last = basin.history[-1] if basin.history else None
    said = run.waiting.text if run.waiting is not None else run.stop_text
    if last is not None and last.decision == "BLOCKED" and last.verdict and run.waiting is None:
        said = last.verdict  # in the mind's own words, which the reason of the stop may shorten
    return clean(said or (last.verdict or last.text if last is not None else ""), WHOLE)


def waits_for(state: State, basin: Basin, at: At, *, phase: str) -> Wait:
    """The last column of every view."""
    run = basin.run
    if phase == "KILLED":
        said = clean(basin.note, SHORT)
        return Wait(
            "nothing", f"nothing, refused at the start: {said}" if refused_at_start(basin) else f"nothing: {said}"
        )
    if phase == "CONVERGED":
        grafts = sum(b.phase is Phase.GRAFTED or b.admitted for b in state.branches_of(basin.id))
        return Wait("nothing", f"nothing: {counted(grafts, 'graft')}")
    if run is None:
        return Wait("open", f"you: it was never started, {NEVER_STARTED}")
    if phase == "UNKNOWN":
        return Wait("controller", silence(at))
    if phase == "AT LOCK":
        return Wait("you", _at_lock(state, basin))
    if decided(state, basin):
        return Wait("you", f"you: orchconverge resume {basin.id}")
    if phase in ("STALLED", "VERDICT"):
        said = asked(basin)
        again = run.waiting.until if run.waiting is not None else None
        return Wait("you", f"you: {said}" if said else "you: an answer", again, f"{basin.id} is tried again")
    if phase == "LIMIT":
        return Wait("limit", f"limit: {asked(basin) or 'reached'}")
    if phase == "STOPPED":
        ending = "the minds end" if run.open else f"orchconverge resume {basin.id}"
        return Wait("stop" if run.open else "resume", f"stop: {ending}" if run.open else f"resume: {ending}")
    if phase == "FINALIZING":
        return _step(basin, run)
    if run.waiting is not None:
        return _parked(basin, run, at.now)
    if basin.attempt is not None:
        return _attempt(state, basin, basin.attempt, at.now)
    return _between(basin, run, at)


def silence(at: At) -> str:
    """Words for a controller that is gone, or about which nothing could be learned."""
    seen = f"not seen for {duration(at.silent)}" if at.silent is not None else "not seen"
    return f"controller {seen}, nothing changed" if at.lease is False else "controller gave no answer, nothing changed"


def _at_lock(state: State, basin: Basin) -> str:
    waiting = queue(state, basin)
    return f"you: decide {waiting[0].id}" if waiting else f"you: {asked(basin) or 'the lock'}"


def _step(basin: Basin, run: Run) -> Wait:
    steps, done = run.settings.chain, basin.chain.names
    step = basin.chain.running or next((s for s in steps if s not in done), None)
    if step is None:
        return Wait("step", "the end of the final steps")
    number = steps.index(step) + 1 if step in steps else len(done) + 1
    return Wait("step", f"step {number} of {len(steps)}, {clean(step, 40)}")


def _parked(basin: Basin, run: Run, now: datetime) -> Wait:
    waiting = run.waiting
    assert waiting is not None
    if waiting.reason == "quota":
        engine = clean(waiting.engine or run.settings.engines[0], 40)
        until = f", until {clock(waiting.until, now)}" if waiting.until is not None else ""
        return Wait("quota", f"quota: {engine}{until}", waiting.until, f"{engine} has quota again")
    if waiting.reason in ("disk", "memory", "network"):
        return Wait(waiting.reason, f"{waiting.reason}: {clean(waiting.text, SHORT)}", waiting.until)
    return Wait("you", f"you: {clean(waiting.text, WHOLE)}", waiting.until)


def _attempt(state: State, basin: Basin, attempt: Attempt, now: datetime) -> Wait:
    branches = [state.branches[b] for b in attempt.branches]
    missing = attempt.width - len(branches)
    searching = [b for b in branches if b.phase in (Phase.SPAWNED, Phase.SEARCHING)]
    if missing and not searching:
        return Wait("mind", f"attempt {attempt.number}, its {'mind starts' if attempt.width == 1 else 'minds start'}")
    if searching:
        until = _deadline(attempt, searching)
        what = f"wave of {attempt.width} ends" if attempt.width > 1 else f"attempt {attempt.number} ends"
        what += f", {missing} of it {'waits' if missing == 1 else 'wait'} for room" if missing else ""
        latest = ""
        if until is not None:
            left = (until - now).total_seconds()
            latest = ", its deadline is over" if left < 0 else f", <= {age(max(60.0, left))}"
        return Wait("mind", what + latest, until, f"attempt {attempt.number} of {basin.id} ends at the latest")
    if any(b.phase in UNSETTLED for b in branches):
        return Wait("check", f"the checks of attempt {attempt.number}")
    return Wait("graft", f"the lock and the judgement of attempt {attempt.number}")


def _deadline(attempt: Attempt, searching: Sequence[Branch]) -> datetime | None:
    started = [b.spawned_at for b in searching if b.spawned_at is not None]
    return max(started) + timedelta(seconds=attempt.deadline) if started else None


def _between(basin: Basin, run: Run, at: At) -> Wait:
    if not run.checked or basin.tip is None:
        return Wait("check", f"the check of {clean(basin.target, 60)} before the first attempt of this run")
    number = basin.attempts + 1
    left = due(basin, run) - at.active
    if left > 0 and met_of(basin) < len(basin.counted) and not _spent(basin, run, at.active + left):
        starts = at.now + timedelta(seconds=left)
        what = f"the interval, attempt {number} starts at {clock(starts, at.now, seconds=True)}"
        return Wait("interval", what, starts, f"attempt {number} of {basin.id} starts")
    return Wait("decision", "the next step of its controller")


def _spent(basin: Basin, run: Run, active: float) -> bool:
    most = run.limits
    too_late = most.hours is not None and active >= most.hours * 3600
    return too_late or (most.attempts is not None and basin.charged >= most.attempts)


def next_attempt(basin: Basin, at: At, wait: Wait, *, phase: str, command: str | None) -> str:
    """The value of `Next Attempt:`: a time, or why none comes by itself and what to type. ``command`` is a need's."""
    run = basin.run
    ends = {"CONVERGED": "none, converged", "KILLED": "none, killed", "LIMIT": "none, limit reached"}.get(phase)
    if refused_at_start(basin):
        return "none, refused at the start"
    if ends is not None:
        return ends
    if run is None:
        return f"none, never started: {NEVER_STARTED}"
    if phase == "UNKNOWN":
        return f"after you: orchconverge resume {basin.id}" if at.lease is False else "unknown, no answer"
    if phase == "STOPPED":
        return "none, stopping" if run.open else f"none, stopped (orchconverge resume {basin.id})"
    if phase == "FINALIZING":
        return "none, the final steps run"
    if wait.kind == "you":
        again = f", or by itself at {clock(wait.until, at.now)}" if wait.until is not None else ""
        return (f"after you: {command}" if command else "after you") + again
    if wait.kind in ("quota", "disk", "memory", "network"):
        until = f", {clock(wait.until, at.now)}" if wait.until is not None else ""
        return f"after {wait.kind}{until}"
    if basin.attempt is not None:
        return _after(basin, basin.attempt, run, at.active)
    return _soon(basin, run, wait, at)


def _after(basin: Basin, attempt: Attempt, run: Run, active: float) -> str:
    if _spent(basin, run, active):
        return f"none, attempt {attempt.number} is the last"
    left = attempt.active + run.settings.interval - active
    earliest = f", in {duration(left)} at the earliest" if left >= 1 else ""
    return f"after attempt {attempt.number}{earliest}"


def _soon(basin: Basin, run: Run, wait: Wait, at: At) -> str:
    if wait.until is not None:
        return duration((wait.until - at.now).total_seconds())
    if wait.kind == "check":
        return "after the check of the target"
    if results(basin) and met_of(basin) == len(basin.counted):
        return "none, all required criteria met"
    left = max(0.0, due(basin, run) - at.active)
    return "none, limit reached" if _spent(basin, run, at.active + left) else "now"
