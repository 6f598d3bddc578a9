"""The timeline as one page of HTML: a drawing in which every event is a link to its row, and the rows day by day."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Final, NamedTuple

from orchconverge.core.standing import PHASES
from orchconverge.core.timeline import LETTERS, Kind, Lane, Mark, Timeline, told
from orchconverge.core.timeline_days import HALF_A_DAY, HALF_AN_HOUR, Day, Row, days, sentences
from orchconverge.core.timeline_scale import Scale, Zoom, scale
from orchconverge.core.views.page import page, words
from orchconverge.core.views.text import DAYS, MONTHS, cells, clean, clip, counted
from orchconverge.core.views.timeline import span

ROOM: Final = 118
"""Cells of a terminal on which the drawing would be cut into the same hours, days or weeks."""
WIDTH: Final = 1240
"""Of the drawing, in its own units, which are pixels where nothing is scaled; it grows with the events of a lane."""
APART: Final = 24
"""Between the middles of two events of a lane, where there is room for it; never less than half."""
_TOP, _ROW, _RIGHT = 46, 46, 172
_LETTER: Final = 8.2
"""How wide a letter of a name is at most, on the average."""
_SMALL: Final = 6.4
"""And one of a cause."""
_GLYPHS: Final[dict[Kind, str]] = {
    "opened": '<circle class="{c}" cx="{x}" cy="{y}" r="10"/>',
    "converged": '<circle class="{c}" cx="{x}" cy="{y}" r="10"/>',
    "candidate": '<rect class="{c}" x="{x9}" y="{y9}" width="18" height="18" rx="3"/>',
    "grafted": '<rect class="{c}" x="{x9}" y="{y9}" width="18" height="18" rx="3"/>',
    "pruned": '<path class="{c}" d="M{x} {y}m-10 -5l5 -5h10l5 5v10l-5 5h-10l-5 -5z"/>',
    "killed": '<path class="{c}" d="M{x} {y}m-10 -5l5 -5h10l5 5v10l-5 5h-10l-5 -5z"/>',
    "stalled": '<path class="{c}" d="M{x} {y}m0 -12l12 12l-12 12l-12 -12z"/>',
    "harvested": '<path class="{c}" d="M{x} {y}m-13 -9h26l-13 22z"/>',
    "waiting": '<circle class="{c}" cx="{x}" cy="{y}" r="10" stroke-dasharray="3 2"/>',
}
"""Each kind has its own outline as well as its letter: colour only repeats what they say."""
_FULL: Final[frozenset[Kind]] = frozenset({"grafted", "converged"})


class _Placed(NamedTuple):
    """An event where it is drawn: as near to its time as its neighbours let it."""

    mark: Mark
    x: float


class _Drawing(NamedTuple):
    """The page's plan: how long ``width`` is, and how much of it the names take."""

    timeline: Timeline
    to: Scale
    width: float
    left: float

    @property
    def room(self) -> float:
        """Between names and standings."""
        return self.width - self.left - _RIGHT

    def x(self, at: datetime) -> float:
        """Where a moment lies."""
        return round(self.left + self.to.position(at) / len(self.to.units) * self.room, 1)


def html_page(timeline: Timeline, *, repo: str, zoom: Zoom | None = None) -> str:
    """The whole page, in the reader's zone. It holds no script and asks for nothing; text of others is text."""
    to = scale(timeline, ROOM, zoom)
    if to is None:
        none = "Nothing was open since then." if timeline.since is not None else "Nothing was opened yet."
        return page(f"{repo}: timeline", f"<h1>{words(repo)}: timeline</h1>\n<p>{none}</p>")
    now = timeline.local
    when = span(to.units[0].start, now)
    goals = counted(len(timeline.lanes), "goal")
    longest = max(cells(lane.basin) for lane in timeline.lanes)
    most = max(len(lane.marks) for lane in timeline.lanes)
    left = max(104.0, 28 + _LETTER * min(24, longest))
    plan = _Drawing(timeline, to, max(WIDTH, left + _RIGHT + most * APART / 2), left)
    least = HALF_AN_HOUR if to.zoom == "hour" else HALF_A_DAY
    body = [
        '<a class="skip" href="#days">Skip the drawing, read day by day</a>',
        f"<h1>{words(repo)}: timeline</h1>",
        f'<p class="sub">{when} {now.year}, {goals}. Drawn from {counted(timeline.ledger_lines, "ledger line")} at '
        f"{now:%H:%M:%S}.{' What is older is not in it.' if timeline.since is not None else ''}</p>",
        _needs(timeline),
        f'<div class="chart" tabindex="0" role="region" aria-label="Drawing of {goals}, scrolls sideways">'
        f"{_drawing(plan, when)}</div>",
        _key(),
        _declared(timeline),
        '<h2 id="days">Day by day</h2>',
        *(_day(day, timeline) for day in days(timeline, least=least)),
        "<footer>A projection of the ledger: nothing here can be changed. Times are local, "
        f"{now:UTC%z}. The address of an event ends with its line of the ledger.</footer>",
    ]
    return page(f"{repo}: timeline, {when}", "\n".join(filter(None, body)))


def _needs(timeline: Timeline) -> str:
    """What needs a person, all of it, each with its command."""
    if not timeline.needs_you:
        return '<p class="quiet">Nothing needs you.</p>'
    lines = [
        f"<div><b>{'Then' if place else 'Needs you'}</b>{words(need.sentence)} <code>{words(need.command)}</code></div>"
        for place, need in enumerate(timeline.needs_you)
    ]
    return f'<div class="need" role="note">{"".join(lines)}</div>'


def _declared(timeline: Timeline) -> str:
    if not timeline.declared:
        return ""
    return f'<p class="quiet">Never opened: {words(", ".join(timeline.declared))}</p>'


# --- the drawing -----------------------------------------------------------------------------------------------------


def _drawing(plan: _Drawing, when: str) -> str:
    height = _TOP + _ROW * len(plan.timeline.lanes) + 14
    said = f"A lane for each goal, {when}. Every event is a link to its row below."
    wide = f' class="wide" width="{plan.width:.0f}" height="{height}"' if plan.width > WIDTH else ""
    parts = [f'<svg viewBox="0 0 {plan.width:.0f} {height}" role="group" aria-label="{words(said)}"{wide}>']
    parts += _borders(plan, height)
    for row, lane in enumerate(plan.timeline.lanes):
        parts += _lane(lane, plan, _TOP + _ROW * row + _ROW / 2)
    return "".join([*parts, "</svg>"])


def _borders(plan: _Drawing, height: int) -> Iterable[str]:
    """Where units begin, with their names where there is room for them."""
    step, used = plan.room / len(plan.to.units), 0.0
    for place, unit in enumerate(plan.to.units):
        x, last = plan.left + place * step, place == len(plan.to.units) - 1
        yield f'<line class="day" x1="{x:.0f}" x2="{x:.0f}" y1="{_TOP - 12}" y2="{height - 8}"/>'
        if x >= used:
            yield f'<text class="dl{" now" if last else ""}" x="{x + 6:.0f}" y="{_TOP - 20}">{unit.label}</text>'
            used = x + 16 + 7 * cells(unit.label)


def _lane(lane: Lane, plan: _Drawing, y: float) -> Iterable[str]:
    yield f'<text class="nm" x="14" y="{y + 4:.0f}">{words(clip(clean(lane.basin), 24))}</text>'
    placed = _placed(lane, plan)
    for stretch in lane.stretches:
        if plan.to.shows(stretch.end):
            x1, x2 = plan.x(stretch.start), plan.x(stretch.end)
            kind = "run" if stretch.cause is None else "idle"
            yield f'<line class="{kind}" x1="{x1}" x2="{max(x2, x1 + 1)}" y1="{y}" y2="{y}"/>'
    for stretch in lane.stretches:
        if stretch.cause is not None and plan.to.shows(stretch.end):
            yield from _cause(stretch.cause, plan.x(stretch.start), plan.x(stretch.end), placed, y)
    for mark, x in placed:
        needed = lane.group == "need you" and mark is lane.marks[-1]
        said = words(f"{lane.basin}, {_moment(mark, plan.timeline)}, {_spoken(mark)}")
        yield f'<a href="#e{mark.seq}" aria-label="{said}"><title>{said}</title>{_glyph(mark.kind, x, y, needed)}</a>'
    needs = lane.group == "need you"
    yield (
        f'<text class="{"stn" if needs else "st"}" x="{plan.width - _RIGHT + 28:.0f}" y="{y + 4:.0f}">'
        f"{PHASES[lane.phase].glyph} {lane.met}/{lane.required} {'needs you' if needs else lane.phase.lower()}</text>"
    )


def _cause(cause: str, start: float, end: float, placed: Sequence[_Placed], y: float) -> Iterable[str]:
    """Why nothing ran, in the widest part of a gap that no event covers, where it fits."""
    inside = [one.x for one in placed if start <= one.x <= end]
    left, right = max(pairwise([start, *inside, end]), key=lambda pair: pair[1] - pair[0])
    if right - left > _SMALL * cells(cause) + 32:
        yield f'<text class="gap" x="{(left + right) / 2:.0f}" y="{y + 4:.0f}">{words(cause)}</text>'


def _placed(lane: Lane, plan: _Drawing) -> list[_Placed]:
    """The events from left to right, pushed apart where they would cover one another, and back where the drawing ends."""
    marks = [mark for mark in lane.marks if plan.to.shows(mark.at)]
    apart = min(APART, plan.room / max(1, len(marks)))
    placed: list[_Placed] = []
    for mark in marks:
        x = plan.x(mark.at)
        placed.append(_Placed(mark, max(x, placed[-1].x + apart) if placed else x))
    most = plan.left + plan.room
    for place in range(len(placed) - 1, -1, -1):
        placed[place] = placed[place]._replace(x=round(min(placed[place].x, most), 1))
        most = placed[place].x - apart
    return placed


def _glyph(kind: Kind, x: float, y: float, needed: bool = False) -> str:
    c, letter = ("badge warn", "lt warn") if needed else ("badge full", "lt in") if kind in _FULL else ("badge", "lt")
    shape = _GLYPHS[kind].format(c=c, x=x, y=y, x9=round(x - 9, 1), y9=round(y - 9, 1))
    down = 2 if kind == "harvested" else 4
    return f'{shape}<text class="{letter}" x="{x}" y="{y + down}" aria-hidden="true">{LETTERS[kind]}</text>'


def _key() -> str:
    items = [
        f'<li><svg viewBox="0 0 28 28" aria-hidden="true">{_glyph(kind, 14, 14)}</svg>{kind}</li>' for kind in LETTERS
    ]
    for kind, said in (("run", "running"), ("idle", "nothing ran")):
        line = f'<line class="{kind}" x1="3" x2="25" y1="14" y2="14"/>'
        items.append(f'<li><svg viewBox="0 0 28 28" aria-hidden="true">{line}</svg>{said}</li>')
    return f'<ul class="key" aria-label="Key">{"".join(items)}</ul>'


# --- day by day ------------------------------------------------------------------------------------------------------


def _day(day: Day, timeline: Timeline) -> str:
    rows = [line for row in day.rows for line in _rows(row, timeline)]
    quiet = [f'<p class="quiet">{words(", ".join(basins))}: {words(cause)}</p>' for cause, basins in day.quiet]
    if not rows and not quiet:
        quiet = ['<p class="quiet">nothing was open</p>']
    table = f"<table>{''.join(rows)}</table>" if rows else ""
    return f"<h3>{day.full_name}</h3>\n{table}{''.join(quiet)}"


def _rows(row: Row, timeline: Timeline) -> Iterable[str]:
    """A row an event; the pursuit's name stands before the first."""
    name = f'<th scope="row" class="g" rowspan="{max(1, len(row.marks))}">{words(row.basin)}</th>'
    if not row.marks:
        yield f'<tr>{name}<td class="t"></td><td class="k">ran</td><td>{words(sentences(row)[0].removeprefix("ran "))}</td></tr>'
    for mark in row.marks:
        at = f"{mark.at.astimezone(timeline.local.tzinfo):%H:%M}"
        said = words(told(mark, with_kind=False))
        yield f'<tr id="e{mark.seq}">{name}<td class="t">{at}</td><td class="k">{mark.kind}</td><td>{said}</td></tr>'
        name = ""


def _moment(mark: Mark, timeline: Timeline) -> str:
    at = mark.at.astimezone(timeline.local.tzinfo)
    return f"{DAYS[at.weekday()]} {at.day} {MONTHS[at.month - 1]} {at:%H:%M}"


def _spoken(mark: Mark) -> str:
    said = told(mark, with_kind=False)
    return f"{mark.kind}: {said}" if said else mark.kind
