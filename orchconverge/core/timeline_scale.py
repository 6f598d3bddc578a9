"""How a timeline's time becomes width: by hours, days or weeks, of which only the part that bears work gets any."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final, Literal, NamedTuple

from orchconverge.core.timeline import Timeline
from orchconverge.core.views.text import DAYS, MONTHS

Zoom = Literal["hour", "day", "week"]
ZOOMS: Final[tuple[Zoom, ...]] = ("hour", "day", "week")
LEAST: Final[dict[Zoom, int]] = {"hour": 2, "day": 4, "week": 1}
"""Cells that one of them takes at least, for this zoom to be chosen."""
MOST: Final[dict[Zoom, int]] = {"hour": 60, "day": 24, "week": 14}
"""And at most: wider would say nothing more."""
_MINUTE: Final = timedelta(minutes=1)
_HOUR: Final = timedelta(hours=1)
_DAY: Final = timedelta(days=1)
_WEEK: Final = timedelta(days=7)


class Unit(NamedTuple):
    """The part of an hour, day or week that has width, in the reader's zone."""

    start: datetime
    end: datetime
    label: str


class Scale(NamedTuple):
    """Units side by side, ``cells`` wide each. ``older``: some before them found no room."""

    zoom: Zoom
    units: tuple[Unit, ...]
    cells: int
    older: bool

    def position(self, at: datetime) -> float:
        """How many units lie before a moment, 0 to all of them; what has no width lies where the next unit begins."""
        place = bisect_right(self.units, at, key=lambda unit: unit.start) - 1
        if place < 0:
            return 0.0
        unit = self.units[place]
        return place + min(1.0, (at - unit.start) / (unit.end - unit.start))

    def cell(self, at: datetime) -> int:
        """The cell in which a moment is drawn."""
        return min(int(self.position(at) * self.cells), len(self.units) * self.cells - 1)

    def shows(self, at: datetime) -> bool:
        """Whether a moment is not older than what there was room for."""
        return not self.older or at >= self.units[0].start


def scale(timeline: Timeline, room: int, zoom: Zoom | None = None) -> Scale | None:
    """The scale for so many cells; without a zoom the finest that fits. ``None``: nothing was opened.

    Hours are chosen for a day or two, days while each gets four cells, else weeks.
    """
    busy = sorted(_busy(timeline))
    if not busy:
        return None
    begin, end = busy[0][0], max(timeline.local, *(until for _, until in busy))  # a clock can have been put back
    span = (end.date() - begin.date()).days + 1
    if zoom is None:
        hours = _hours(busy)
        fits = span <= 2 and len(hours) * LEAST["hour"] <= room
        zoom = "hour" if fits else "day" if span * LEAST["day"] <= room else "week"
    units = list(_hours(busy) if zoom == "hour" else _days(busy, end) if zoom == "day" else _weeks(busy, end))
    kept = units[-max(1, room // min(2, LEAST[zoom])) :]
    cells = max(1, min(MOST[zoom], room // len(kept)))
    return Scale(zoom=zoom, units=tuple(kept), cells=cells, older=len(kept) < len(units))


def _busy(timeline: Timeline) -> Iterator[tuple[datetime, datetime]]:
    """When something ran or happened, in the reader's zone."""
    zone = timeline.local.tzinfo
    for lane in timeline.lanes:
        for stretch in lane.stretches:
            if stretch.cause is None:
                yield stretch.start.astimezone(zone), stretch.end.astimezone(zone)
        for at in (*(mark.at for mark in lane.marks), *(stretch.start for stretch in lane.stretches[:1])):
            yield at.astimezone(zone), at.astimezone(zone)


def _midnight(at: datetime) -> datetime:
    return at.replace(hour=0, minute=0, second=0, microsecond=0)


def _hours(busy: list[tuple[datetime, datetime]]) -> list[Unit]:
    """The clock hours in which something ran or happened; of a single one only the minutes."""
    starts: list[datetime] = []
    for start, end in busy:
        hour = start.replace(minute=0, second=0, microsecond=0)
        hour = max(hour, starts[-1] + _HOUR) if starts else hour
        while hour <= start or hour < end:
            starts.append(hour)
            hour += _HOUR
    if len(starts) == 1:
        first = busy[0][0].replace(second=0, microsecond=0)
        last = max(end for _, end in busy)
        return [_hour(first, first + ((last - first) // _MINUTE + 1) * _MINUTE, None)]
    return [_hour(at, at + _HOUR, before) for before, at in zip([None, *starts], starts, strict=False)]


def _hour(start: datetime, end: datetime, before: datetime | None) -> Unit:
    new = before is None or before.date() != start.date()
    return Unit(start, end, f"{DAYS[start.weekday()]} {start:%H:%M}" if new else f"{start:%H:%M}")


def _days(busy: list[tuple[datetime, datetime]], now: datetime) -> Iterator[Unit]:
    """Every day until now, from the first hour of any day that bears work to the last."""
    earliest, latest = _DAY, timedelta(0)
    for start, end in busy:
        if end.date() != start.date() and end > _midnight(start) + _DAY:
            earliest, latest = timedelta(0), _DAY
        earliest = min(earliest, start - _midnight(start))
        latest = max(latest, end - _midnight(start))
    first = timedelta(hours=earliest // _HOUR)
    last = min(_DAY, timedelta(hours=latest // _HOUR + 1))
    day = _midnight(busy[0][0])
    while day <= now:
        yield Unit(day + first, day + last, f"{DAYS[day.weekday()]} {day.day}")
        day += _DAY


def _weeks(busy: list[tuple[datetime, datetime]], now: datetime) -> Iterator[Unit]:
    """Every week until now, its days from the first weekday that bears work to the last."""
    first, last = 6, 0
    for start, end in busy:
        whole = (end.date() - start.date()).days + start.weekday() > 6
        first = 0 if whole else min(first, start.weekday())
        last = 6 if whole else max(last, end.weekday())
    monday = _midnight(busy[0][0]) - busy[0][0].weekday() * _DAY
    while monday <= now:
        begins = monday + first * _DAY
        label = f"{begins.day} {MONTHS[begins.month - 1]}"
        yield Unit(begins, monday + (last + 1) * _DAY, label)
        monday += _WEEK
