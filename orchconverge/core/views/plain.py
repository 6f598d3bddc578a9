"""The overview in sentences, in reading order, what needs a person first: one fact a line, nothing drawn, nothing redrawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from orchconverge.core.happened import Event
from orchconverge.core.shown import BasinShown, Projection
from orchconverge.core.standing import GROUPS
from orchconverge.core.views.board import calm, notes
from orchconverge.core.views.board_events import together
from orchconverge.core.views.board_rows import in_hours, limit, near
from orchconverge.core.views.text import age, clock, counted

EVENTS: Final = 5
"""So many of the newest are told at first."""
CAUSES: Final = 3
"""So many events of one basin are named in a line that says what changed; the rest is counted."""
_TICKS: Final = frozenset(("mind", "controller"))
"""Waits whose words hold a time that runs: they change without anything having changed."""


def plain(shown: Projection, *, basin: str | None = None) -> str:
    """Everything, a newline after each sentence. ``basin``: of the goals only this one; what needs a person is always all."""
    basins = [one for one in shown.basins if basin in (None, one.id)]
    lines = [*_needs(shown), *(f"{note}." for note in notes(shown))]
    lines += [_goal(one, shown) for one in basins if one.group != "ended" or basin is not None]
    ended = [one for one in basins if one.group == "ended"]
    if ended and basin is None:
        told = ", ".join(f"{one.id} {one.phase.lower()}" for one in ended)
        lines.append(f"{len(ended)} ended: {told}.")
    if shown.basins:
        lines.append(_lock(shown))
    lines += [
        f"Question{f', {one.basin}' if one.basin else ''}: {_end(one.question)} From {one.origin}."
        for one in shown.frontier
        if basin in (None, one.basin)
    ]
    told_events = [one for one in _told(shown.events) if basin in (None, one.basin)][:EVENTS]
    lines += [f"{_at(one, shown)}{_happened(one)}" for one in told_events]
    return "\n".join([*lines, f"As of {shown.local:%H:%M:%S}."]) + "\n"


def changes(before: Projection, after: Projection, *, basin: str | None = None) -> str:
    """What is to be said because it is another fact than before: at most one line a need, a basin, a question; else nothing.

    That time passes is no change.
    """
    now, lines = f"{after.local:%H:%M:%S}", []
    old, new = ({(n.kind, n.basin, n.branch): n for n in shown.needs_you} for shown in (before, after))
    lines += [f"{now} no longer needs you: {_end(need.sentence)}" for key, need in old.items() if key not in new]
    lines += [
        f"{now} needs you: {_end(need.sentence)} Command: {need.command}" for key, need in new.items() if key not in old
    ]
    if old and not new:
        lines.append(f"{now} nothing needs you.")
    lines += [f"{now} {_end(note)}" for note in notes(after) if note not in notes(before)]
    last = before.events[0].seq if before.events else 0
    fresh = _told([one for one in after.events if one.seq > last], whole=True)
    known = {one.id: one for one in before.basins}
    for one in after.basins:
        if basin in (None, one.id):
            causes = [_words(event) for event in reversed(fresh) if event.basin == one.id]
            lines += _changed(known.get(one.id), one, causes, now)
    asked = {(one.basin, one.question) for one in before.frontier}
    lines += [
        f"{now} question{f', {one.basin}' if one.basin else ''}: {_end(one.question)} From {one.origin}."
        for one in after.frontier
        if (one.basin, one.question) not in asked and basin in (None, one.basin)
    ]
    return "".join(f"{line}\n" for line in lines)


def _told(events: Sequence[Event], *, whole: bool = False) -> list[Event]:
    """Those that have no sentence of their own: questions have."""
    return [one for one in together(events, whole=whole) if one.type != "frontier.added"]


def _needs(shown: Projection) -> list[str]:
    if not shown.needs_you:
        said, then, command = calm(shown)
        return [said, *([f"   Command: {then}"] if command else [])]
    count = len(shown.needs_you)
    lines = ["1 needs you." if count == 1 else f"{count} need you."]
    for number, need in enumerate(shown.needs_you, 1):
        since = f" Waiting {age((shown.as_of - need.since).total_seconds())}." if need.since is not None else ""
        lines += [f"{number}. {_end(need.sentence)}{since}", f"   Command: {need.command}"]
    return lines


def _goal(one: BasinShown, shown: Projection) -> str:
    group = "needs you" if one.group == GROUPS[0] else one.group
    parts = [f"{group}: {one.id}", one.macrostate, one.phase, _met(one)]
    parts += [one.trend.word] if one.trend.word else []
    parts += [_limits(one), f"Waits for {one.waits_for.what}"]
    return " ".join(_end(part) for part in parts)


def _met(one: BasinShown) -> str:
    more = f", {one.pending_at_lock} more met at the lock" if one.pending_at_lock else ""
    return f"{one.met} of {one.required} criteria met{more}"


def _limits(one: BasinShown) -> str:
    hours, usd = one.active_hours, one.usd
    parts = [f"attempt {one.attempt.n}" + (f" of {one.attempt.max}" if one.attempt.max is not None else "")]
    parts += [f"{in_hours(hours.used or 0.0)}" + (f" of {in_hours(hours.max)}" if hours.max is not None else "")]
    if usd.used is not None or usd.max is not None:
        parts.append(f"${usd.used or 0.0:.2f}" + (f" of ${usd.max:g}" if usd.max is not None else ""))
    return ", ".join(parts) + (f", near its limit {limit(one)}" if near(one) else "")


def _lock(shown: Projection) -> str:
    if not shown.lock.queue:
        return "Lock: empty."
    parts = []
    for one in shown.lock.queue:
        basin = shown.basin(one.basin)
        said = f"{one.branch} meets {one.met}/{basin.required if basin is not None else 0}, adds {one.adds}"
        said += f", loses {one.loses}" if one.loses else ""
        said += f", {counted(len(one.flags), 'flag')}" if one.flags else ""
        said += f", waits {age((shown.as_of - one.since).total_seconds())}" if one.since is not None else ""
        parts.append(said)
    return f"Lock into {shown.lock.target}: {'; '.join(parts)}."


def _changed(old: BasinShown | None, one: BasinShown, causes: list[str], now: str) -> list[str]:
    """One line of what became of a basin and of what is different now, or none."""
    parts: list[str] = []
    if old is None:
        parts = [one.phase, _met(one)]
    else:
        parts += [one.phase] if one.phase != old.phase else []
        met = (one.met, one.required, one.pending_at_lock)
        parts += [_met(one)] if met != (old.met, old.required, old.pending_at_lock) else []
        parts += [one.trend.word] if one.trend.word and one.trend.word != old.trend.word else []
        parts += [f"near its limit {limit(one)}"] if near(one) and not near(old) else []
    if old is None or _wait(one) != _wait(old):
        parts.append(f"waits for {one.waits_for.what}")
    if not parts and not causes:
        return []
    before = [f"{counted(len(causes) - CAUSES, 'event')} before"] if len(causes) > CAUSES else []
    said = [*before, *causes[-CAUSES:], *([", ".join(parts)] if parts else [])]
    return [f"{now} {one.id}: {' '.join(map(_end, said))}"]


def _wait(one: BasinShown) -> tuple[object, ...]:
    wait = one.waits_for
    return wait.kind, wait.until, "" if wait.kind in _TICKS else wait.what


def _at(event: Event, shown: Projection) -> str:
    return f"{clock(event.at, shown.local)} " if event.at is not None else ""


def _happened(event: Event) -> str:
    return _end(f"{event.basin}: {_words(event)}" if event.basin else _words(event))


def _words(event: Event) -> str:
    return f"{event.what}; {event.detail}" if event.detail else event.what


def _end(text: str) -> str:
    """A sentence with one full stop, unless it ends in another mark."""
    return text if text.endswith((".", "?", "!", "…")) else f"{text}."
