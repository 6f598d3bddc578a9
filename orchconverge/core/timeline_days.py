"""A timeline read day by day: what happened in each pursuit, and each day or half-day without work with its cause."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import date, datetime, timedelta, tzinfo
from itertools import groupby
from typing import Final, NamedTuple

from orchconverge.core.timeline import Lane, Mark, Stretch, Timeline, told
from orchconverge.core.views.text import DAYS, MONTHS, duration

HALF_A_DAY: Final = 12 * 3600.0
HALF_AN_HOUR: Final = 1800.0
"""So many seconds without work are told, where a timeline is drawn by hours."""
_DAY: Final = timedelta(days=1)


class Row(NamedTuple):
    """What happened in one pursuit on one day, oldest first, and for how many seconds something ran."""

    basin: str
    marks: tuple[Mark, ...]
    ran: float


class Day(NamedTuple):
    """A day of all pursuits, or several in a row that are told in the same words. ``quiet``: why nothing ran, and where."""

    first: date
    last: date
    rows: tuple[Row, ...]
    quiet: tuple[tuple[str, tuple[str, ...]], ...]

    @property
    def name(self) -> str:
        """``Sun 29``, ``Sat 28 to Sun 29``."""
        return _short(self.first) if self.first == self.last else f"{_short(self.first)} to {_short(self.last)}"

    @property
    def full_name(self) -> str:
        """``Sun 29 Nov``, ``Sat 28 Nov to Sun 29 Nov``."""
        names = dict.fromkeys(f"{_short(day)} {MONTHS[day.month - 1]}" for day in (self.first, self.last))
        return " to ".join(names)


def days(timeline: Timeline, *, least: float = HALF_A_DAY) -> list[Day]:
    """Every day, newest first.

    A stretch without work is told from ``least`` seconds on; a quarter of it is enough on a day on which nothing ran there.
    """
    now = timeline.local
    rows: dict[date, list[Row]] = defaultdict(list)
    quiet: dict[date, dict[str, list[str]]] = defaultdict(dict)
    begins: list[date] = []
    for lane in timeline.lanes:
        for day, marks, parts in _by_day(lane, now.tzinfo):
            begins.append(day)
            ran = sum((part.end - part.start).total_seconds() for part in parts if part.cause is None)
            if marks or ran >= 60:
                rows[day].append(Row(lane.basin, marks, ran))
            for part in parts:
                seconds = (part.end - part.start).total_seconds()
                if part.cause is not None and seconds >= (least if ran else least / 4):
                    quiet[day].setdefault(_when(part, now), []).append(lane.basin)
    if not begins:
        return []
    first, last = min(begins), max(now.date(), *begins)
    every = [first + place * _DAY for place in range((last - first).days + 1)]
    whys = {day: tuple((words, tuple(names)) for words, names in quiet[day].items()) for day in every}
    return _merged([Day(day, day, tuple(rows[day]), whys[day]) for day in every])[::-1]


def _by_day(lane: Lane, zone: tzinfo | None) -> Iterator[tuple[date, tuple[Mark, ...], list[Stretch]]]:
    """A lane's marks and stretches, cut at midnight, one day after the other."""
    marks: dict[date, list[Mark]] = defaultdict(list)
    parts: dict[date, list[Stretch]] = defaultdict(list)
    for mark in lane.marks:
        marks[mark.at.astimezone(zone).date()].append(mark)
    for stretch in lane.stretches:
        start, end = stretch.start.astimezone(zone), stretch.end.astimezone(zone)
        while start < end:
            midnight = start.replace(hour=0, minute=0, second=0, microsecond=0) + _DAY
            parts[start.date()].append(Stretch(start=start, end=min(end, midnight), cause=stretch.cause))
            start = midnight
    for day in sorted({*marks, *parts}):
        yield day, tuple(marks[day]), parts[day]


def _when(part: Stretch, now: datetime) -> str:
    """A cause with the part of the day that it held for; alone if it was all of it."""
    midnight = part.start.replace(hour=0, minute=0, second=0, microsecond=0)
    begins = part.start == midnight
    ends = part.end in (midnight + _DAY, now)
    if begins and ends:
        return str(part.cause)
    if begins:
        return f"{part.cause} until {part.end:%H:%M}"
    return f"{part.cause} from {part.start:%H:%M}" + ("" if ends else f" to {part.end:%H:%M}")


def _merged(them: Sequence[Day]) -> list[Day]:
    """Days in a row on which nothing happened, and for the same cause, as one."""
    merged: list[Day] = []
    for day in them:
        last = merged[-1] if merged else None
        if last is not None and not day.rows and not last.rows and day.quiet == last.quiet:
            merged[-1] = last._replace(last=day.last)
        else:
            merged.append(day)
    return merged


def sentences(row: Row) -> list[str]:
    """What happened, in words, events of one kind without a note together; else how long it ran."""
    if not row.marks:
        return [f"ran {duration(row.ran)}"]
    said: list[str] = []
    for (kind, bare), marks in groupby(row.marks, key=lambda mark: (mark.kind, not mark.note and bool(mark.what))):
        them = list(marks)
        if bare and len(them) > 1:
            said.append(f"{kind} {', '.join(mark.what for mark in them)}")
        else:
            said += map(told, them)
    return said


def _short(day: date) -> str:
    return f"{DAYS[day.weekday()]} {day.day}"
