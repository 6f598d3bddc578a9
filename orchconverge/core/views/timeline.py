"""The timeline on a terminal: a lane for each pursuit, one letter a slot, and the same day by day in words."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, tzinfo
from itertools import groupby
from typing import Final

from orchconverge.core.needs import Need
from orchconverge.core.standing import GROUPS, PHASES
from orchconverge.core.timeline import LETTERS, Kind, Lane, Timeline
from orchconverge.core.timeline_days import HALF_A_DAY, HALF_AN_HOUR, Day, Row, days, sentences
from orchconverge.core.timeline_scale import Scale, Zoom, scale
from orchconverge.core.views.lines import (
    BOLD,
    DIM,
    GREEN,
    NARROW,
    TAG,
    Look,
    Piece,
    drawn,
    rule,
    spread,
    wrapped,
)
from orchconverge.core.views.text import DAYS, MONTHS, cells, clean, clip, counted

NAME: Final = 24
"""Cells of a pursuit's name at most."""
RUNNING: Final = ("━", "=")
IDLE: Final = ("·", ".")
BORDER: Final = ("│", "|")
_STANDS: Final = 9
"""Cells for how a pursuit stands: its glyph and criteria."""
ENDS: Final[frozenset[Kind]] = frozenset({"grafted", "converged", "killed"})
YIELDS: Final[frozenset[Kind]] = frozenset({"opened", "pruned", "harvested", "waiting"})
"""Of two events in one slot the later is drawn, but what comes right after an end does not cover it."""
_STYLES: Final[dict[Kind, str]] = {"grafted": GREEN, "converged": GREEN}


def text(timeline: Timeline, look: Look, *, repo: str, zoom: Zoom | None = None, height: int | None = None) -> str:
    """Lanes, their key, and day by day, newest first. Over ``height`` lines the oldest days are counted in the last one."""
    if not timeline.lanes:
        return "\n".join(_nothing(timeline, look))
    drawn_to = scale(timeline, _room(timeline, look), zoom)
    assert drawn_to is not None  # a lane has a beginning
    head = [_title(timeline, drawn_to, look, repo), *needs(timeline.needs_you, look), ""]
    head += _lanes(timeline, drawn_to, look, most=None if height is None else max(3, height // 2))
    head += [*_key(look), "", rule("DAY BY DAY", "newest first", look)]
    hours = drawn_to.zoom == "hour"
    told = days(timeline, least=HALF_AN_HOUR if hours else HALF_A_DAY)
    below = _days(told, look, zone=timeline.local.tzinfo if hours else None)
    room = len(below) if height is None else max(1, height - len(head))
    if len(below) > room:
        hidden = len(below) - room + 1
        all_of_it = f"+ {hidden} older: orchconverge timeline | less"
        below = [*below[: room - 1], drawn([(f" {all_of_it}", DIM)], look)]
    return "\n".join([*head, *below])


def _nothing(timeline: Timeline, look: Look) -> list[str]:
    if timeline.since is not None:
        return wrapped("Nothing was open since then. All there was: orchconverge timeline", look, indent=0, first=0)
    if timeline.declared:
        first = timeline.declared[0]
        return wrapped(f"{first} is declared, nothing ran yet. orchconverge open {first}", look, indent=0, first=0)
    return wrapped("No destination yet. A run draws its own line here.", look, indent=0, first=0)


def _room(timeline: Timeline, look: Look) -> int:
    return max(8, look.width - _label(timeline, look) - _STANDS)


def _label(timeline: Timeline, look: Look) -> int:
    longest = max(cells(lane.basin) for lane in timeline.lanes)
    return 3 + max(8, min(NAME, longest, look.width // 3))


def _title(timeline: Timeline, to: Scale, look: Look, repo: str) -> str:
    when = span(to.units[0].start, timeline.local) + (", older left out" if to.older else "")
    goals = counted(len(timeline.lanes), "goal")
    return drawn([(f" {clean(repo)}", BOLD), f"   timeline   {when}"], look, right=f"{goals} ")


def span(first: datetime, last: datetime) -> str:
    """From which day to which: ``Mon 23 to Sun 29 November``."""
    names = [f"{DAYS[at.weekday()]} {at.day}" for at in (first, last)]
    months = [f" {MONTHS[at.month - 1]}" + ("" if first.year == last.year else f" {at.year}") for at in (first, last)]
    if first.date() == last.date():
        return f"{names[1]}{months[1]}"
    return f"{names[0]}{months[0] if months[0] != months[1] else ''} to {names[1]}{months[1]}"


def needs(them: Sequence[Need], look: Look) -> list[str]:
    """What needs a person first: one sentence, and the command, which is never cut."""
    if not them:
        return [drawn([(" Nothing needs you.", BOLD)], look)]
    first, count = them[0], f" 1 of {len(them)}" if len(them) > 1 else ""
    tag = f" NEEDS YOU{count} " if look.colour else f"[NEEDS YOU{count}]"
    at = cells(tag) + 2
    if look.width < NARROW or at + max(cells(first.sentence), cells(first.command)) > look.width:
        said = [line for part in (first.sentence, first.command) for line in wrapped(part, look, code=BOLD)]
        return [drawn([(tag, TAG)], look), *said]
    return [drawn([(tag, TAG), "  ", (first.sentence, BOLD)], look), drawn([" " * at, (first.command, BOLD)], look)]


# --- lanes -----------------------------------------------------------------------------------------------------------


def _lanes(timeline: Timeline, to: Scale, look: Look, *, most: int | None) -> list[str]:
    label = _label(timeline, look)
    lines = [drawn([" " * label, *_header(to, look)], look)]
    kept = _kept(timeline.lanes, most)
    lines += [_lane(lane, timeline, to, look) for lane in timeline.lanes if lane in kept]
    hidden = [lane for lane in timeline.lanes if lane not in kept]
    if hidden:
        words = [f"{sum(one.phase == phase for one in hidden)} {phase.lower()}" for phase in PHASES]
        said = ", ".join(word for word in words if not word.startswith("0 "))
        lines.append(drawn([(f" + {len(hidden)} more: {said}", DIM)], look))
    if timeline.declared:
        names = ", ".join(timeline.declared)
        lines.append(drawn([(f" + {counted(len(timeline.declared), 'goal')} never opened: {names}", DIM)], look))
    return lines


def _kept(lanes: Sequence[Lane], most: int | None) -> Sequence[Lane]:
    """The lanes that are drawn: where there are too many the calm ones go first, of those the oldest."""
    if most is None or len(lanes) <= most:
        return lanes
    order = sorted(range(len(lanes)), key=lambda place: (GROUPS.index(lanes[place].group), -place))
    return [lanes[place] for place in sorted(order[: most - 1])]


def _header(to: Scale, look: Look) -> list[Piece]:
    """The names of the units, each where there is room for it; that of now is always there, and bold."""
    *before, now = to.units
    width = len(to.units) * to.cells
    end = max(0, min(len(before) * to.cells, width - cells(now.label)))
    pieces: list[Piece] = []
    used = 0
    for place, unit in enumerate(before):
        at = place * to.cells
        if (at > used or not place) and at + cells(unit.label) < end:
            pieces += [" " * (at - used), (unit.label, DIM)]
            used = at + cells(unit.label)
    gap = " " * max(1, width - max(end + cells(now.label), used) + 1)
    return [*pieces, " " * (end - used), (now.label, BOLD), gap, ("now", DIM)]


def _lane(lane: Lane, timeline: Timeline, to: Scale, look: Look) -> str:
    label = _label(timeline, look)
    pieces: list[Piece] = [(f" {clip(lane.basin, label - 2)}".ljust(label), BOLD)]
    last: tuple[str, str] | None = None
    for char, code in _slots(lane, to, look):
        if last is not None and last[1] != code:
            pieces.append(last)
            last = None
        last = (char if last is None else last[0] + char, code)
    pieces += [last] if last is not None else []
    sign = PHASES[lane.phase]
    code = GREEN if lane.phase == "CONVERGED" else BOLD if lane.group == "need you" else ""
    stands = f"{sign.ascii if look.ascii else sign.glyph} {lane.met}/{lane.required}"
    return drawn(
        [*((p[0], p[1]) if p[1] else p[0] for p in pieces if not isinstance(p, str)), " ", (stands, code)], look
    )


def _slots(lane: Lane, to: Scale, look: Look) -> list[tuple[str, str]]:
    """What stands in each cell of a lane, and how it looks: the later of two events, what ran, the border of a unit."""
    width = len(to.units) * to.cells
    border = BORDER[look.ascii] if to.cells > 2 else " "
    slots = [(border if place % to.cells == 0 and place else " ", DIM) for place in range(width)]
    for runs in (False, True):
        for stretch in lane.stretches:
            if (stretch.cause is None) is not runs or not to.shows(stretch.end):
                continue
            end = to.position(stretch.end) * to.cells
            for place in range(to.cell(stretch.start), max(to.cell(stretch.start) + 1, min(width, -int(-end // 1)))):
                slots[place] = (RUNNING[look.ascii], "") if runs else (IDLE[look.ascii], DIM)
    kinds: dict[int, Kind] = {}
    for mark in lane.marks:
        place = to.cell(mark.at)
        if not to.shows(mark.at) or (mark.kind in YIELDS and kinds.get(place) in ENDS):
            continue
        needed = lane.group == "need you" and mark is lane.marks[-1]
        kinds[place] = mark.kind
        slots[place] = (LETTERS[mark.kind], TAG if needed else _STYLES.get(mark.kind, BOLD))
    return slots


def _key(look: Look) -> list[str]:
    words = [f"{letter} {kind}" for kind, letter in LETTERS.items()]
    words += [f"{RUNNING[look.ascii]} running", f"{IDLE[look.ascii]} nothing ran"]
    return spread(words, look, indent=3)


# --- day by day ------------------------------------------------------------------------------------------------------


def _days(them: Sequence[Day], look: Look, *, zone: tzinfo | None) -> list[str]:
    """Each day's events, with their times in ``zone`` where one is given, and below them why nothing ran."""
    wide = 2 + max(cells(day.name) for day in them)
    name = 2 + min(NAME, max((cells(row.basin) for day in them for row in day.rows), default=0))
    narrow = look.width < wide + name + 24
    lines: list[str] = []
    for day in them:
        label = f" {day.name.ljust(wide)}"
        if narrow:  # the day has a line of its own
            lines.append(drawn([(label.rstrip(), BOLD)], look))
            label = "   "
        for row in day.rows:
            goal = f"{clip(row.basin, NAME)}  "
            before = label + (goal if narrow else goal.ljust(name))
            for said in _said(row, zone):
                lines += _told(before, said, look, indent=5 if narrow else cells(before) + (7 if zone else 0))
                before = " " * (5 if narrow else cells(before))
            label = " " * cells(label)
        for cause, basins in day.quiet or ([] if day.rows else [("nothing was open", ())]):
            said = f"{', '.join(basins)}: {cause}" if basins else cause
            lines += _told(label, said, look, indent=cells(label), code=DIM)
            label = " " * cells(label)
    return lines


def _said(row: Row, zone: tzinfo | None) -> list[str]:
    """What happened in one pursuit on one day: all of it as one text, or a text for each minute in which something did."""
    if zone is None or not row.marks:
        return ["; ".join(sentences(row))]
    minutes = groupby(row.marks, key=lambda mark: f"{mark.at.astimezone(zone):%H:%M}")
    return [f"{at}  {'; '.join(sentences(row._replace(marks=tuple(marks))))}" for at, marks in minutes]


def _told(before: str, said: str, look: Look, *, indent: int, code: str = "") -> list[str]:
    """A label and words behind it, which go on in the lines below."""
    first, *more = wrapped(said, look, indent=indent, first=cells(before))
    words = first[cells(before) :]
    painted = [drawn([(line, code) if code else line], look) for line in more]
    return [drawn([(before, BOLD), (words, code) if code else words], look), *painted]
