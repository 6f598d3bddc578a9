"""The basins of the overview: a row each, two where all fit, folded from the calm end where they do not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from orchconverge.core.matrix import Cell
from orchconverge.core.shown import BasinShown, Projection
from orchconverge.core.standing import GROUPS, PHASES
from orchconverge.core.views.compare import SIGNS
from orchconverge.core.views.lines import BOLD, DIM, GREEN, RED, TAG, Look, Piece, drawn, padded
from orchconverge.core.views.text import cells, tokens

NARROW, ROOMY, WIDE = 76, 110, 170
"""From so many cells on: bar, trend and limit; the destination; every limit and the scores."""
HOT: Final = 0.8
"""The part of a limit from which on it is near."""
SCORES: Final = 8
"""So many of the newest scores are drawn."""
MERGED: Final = 6
"""In fewer lines all that is folded is said in one."""
NEED: Final = GROUPS[0]
_RAMP: Final = ("▁▂▃▄▅▆▇█", "._-=^*#@")
_CELLS: Final[tuple[tuple[Cell, str], ...]] = (
    ("met", GREEN),
    ("lost", RED),
    ("gained", ""),
    ("unmet", ""),
    ("unknown", DIM),
)
MARK: Final = ("›", ">")  # noqa: RUF001
_PHASE: Final = max(map(len, PHASES)) + 1
_TREND: Final = 8

Pieces = list[Piece]
Drawn = tuple[str, str | None]
"""A line, and the id of the basin that is drawn on it."""


class _Columns(NamedTuple):
    """Cells of each column with the blank behind it; 0: not shown."""

    name: int
    destination: int
    bar: int
    met: int
    trend: int
    limits: tuple[int, ...]


def rows(
    basins: Sequence[BasinShown], shown: Projection, look: Look, *, room: int, selected: str | None
) -> list[Drawn]:
    """At most ``room`` lines. ``basins`` in the order of `GROUPS`; the selected one is always among those drawn."""
    groups = [[one for one in basins if one.group == group] for group in GROUPS]
    groups = [group for group in groups if group]
    blanks = len(groups) - 1
    lost = _lost(shown)
    if ROOMY <= look.width < WIDE and 2 * len(basins) + blanks <= room:
        columns = _columns(basins, look, two=True)
        return _apart([_twice(one, columns, look, lost, one.id == selected) for one in group] for group in groups)
    columns = _columns(basins, look, two=False)
    head: Drawn = (_head(columns, look), None)

    def row(basin: BasinShown) -> Drawn:
        return _row(basin, columns, look, lost, basin.id == selected), basin.id

    if len(basins) + blanks + 1 <= room:
        return [head, *_apart([[row(one)] for one in group] for group in groups)]
    out: list[Drawn] = [head]
    folds = _folded(groups, room - 1, selected)
    for group, hidden in zip(groups, folds, strict=True):
        left_out = {one.id for one in hidden}
        out += [row(one) for one in group if one.id not in left_out]
        if hidden and room >= MERGED:
            out.append((drawn(["   ", _told(group, hidden)], look), None))
    if room < MERGED and any(folds):
        told = ", ".join(f"{len(hidden)} {hidden[0].group}" for hidden in folds if hidden)
        out.append((drawn(["   ", (f"+ {sum(map(len, folds))} more: {told}", DIM)], look), None))
    return out


def near(basin: BasinShown) -> bool:
    """Whether one of its limits ends it soon."""
    return (basin.limit_first.fraction or 0.0) >= HOT


def limit(basin: BasinShown) -> str:
    """The limit that ends it first, in a word."""
    first = basin.limit_first
    said = {
        "attempts": f"try {_tried(basin)}",
        "time": _time(basin),
        "money": _money(basin),
        "tokens": f"{tokens(int(basin.tokens.used or 0))}/{tokens(int(basin.tokens.max or 0))}",
    }
    if first.kind is None:
        return "no limit"
    return said.get(first.kind) or f"{first.kind} {int(100 * (first.fraction or 0.0))}%"


def bar(basin: BasinShown, look: Look, *, width: int, loses: int = 0) -> Pieces:
    """One cell a criterion, or where they are too many one for a part of them, rounded down.

    Met on the target, of that what the candidate at the lock loses; met by it; not met; not run.
    """
    whole, unrun = basin.required, sum(c.met is None and c.required and c.stage == "loop" for c in basin.criteria)
    loses = min(loses, basin.met)
    counts = [basin.met - loses, loses, min(basin.pending_at_lock, whole - basin.met)]
    if whole > width:
        counts = [count * width // whole for count in counts]
        unrun, whole = 0, width
    left = whole - sum(counts)
    counts += [left - min(unrun, left), min(unrun, left)]
    parts = zip(_CELLS, counts, strict=True)
    return [
        *((SIGNS[cell][look.ascii] * count, code) for (cell, code), count in parts if count),
        " " * (width - whole),
    ]


# --- one basin -------------------------------------------------------------------------------------------------------


def _row(basin: BasinShown, columns: _Columns, look: Look, lost: Mapping[str, int], selected: bool) -> str:
    dim = DIM if basin.group == "ended" else ""
    pieces = _name(basin, columns, look, selected)
    if columns.destination:
        pieces += [(padded(basin.macrostate, columns.destination - 1, look), BOLD if selected else dim), " "]
    if columns.bar:
        pieces += [*_bar(basin, columns, look, lost), " "]
    pieces += [(padded(_met(basin), columns.met, look), dim or BOLD), *_phase(basin, dim)]
    if columns.limits[1:]:
        pieces += [(_scores(basin, look), DIM), " "]
    if columns.trend:
        pieces.append((padded(basin.trend.word or "", columns.trend, look), dim))
    pieces += _limits(basin, columns, dim, look)
    return drawn([*pieces, _waits(basin, dim)], look).rstrip()


def _twice(basin: BasinShown, columns: _Columns, look: Look, lost: Mapping[str, int], selected: bool) -> list[Drawn]:
    dim = DIM if basin.group == "ended" else ""
    first = [*_name(basin, columns, look, selected), (basin.macrostate, dim or BOLD)]
    second: Pieces = [" " * (3 + columns.name), *_bar(basin, columns, look, lost), " "]
    second += [(padded(_met(basin), columns.met, look), dim), *_phase(basin, dim)]
    second += [(_scores(basin, look), DIM), " ", (padded(basin.trend.word or "", columns.trend, look), dim)]
    second += [*_limits(basin, columns, dim, look), _waits(basin, dim)]
    return [(drawn(first, look), basin.id), (drawn(second, look).rstrip(), basin.id)]


def _name(basin: BasinShown, columns: _Columns, look: Look, selected: bool) -> Pieces:
    dim = DIM if basin.group == "ended" else ""
    sign = PHASES["AT LOCK" if basin.group == NEED else basin.phase]
    glyph = sign.ascii if look.ascii else sign.glyph
    coloured = GREEN if basin.phase == "CONVERGED" else dim or (BOLD if basin.group == NEED else "")
    mark = MARK[look.ascii] if selected else " "
    return [
        (mark, BOLD),
        (glyph, coloured),
        " ",
        (padded(basin.id, columns.name - 1, look), dim or BOLD),
        " ",
    ]


def _bar(basin: BasinShown, columns: _Columns, look: Look, lost: Mapping[str, int]) -> Pieces:
    found = bar(basin, look, width=columns.bar - 1, loses=lost.get(basin.id, 0))
    return found if basin.group != "ended" else [("".join(p if isinstance(p, str) else p[0] for p in found), DIM)]


def _phase(basin: BasinShown, dim: str) -> Pieces:
    return [(basin.phase, TAG if basin.group == NEED else dim), " " * (_PHASE - len(basin.phase))]


def _limits(basin: BasinShown, columns: _Columns, dim: str, look: Look) -> Pieces:
    if len(columns.limits) > 1:
        said = [(say(basin), _near(*of(basin))) for _, say, of in _LIMITS]
    else:
        said = [(limit(basin), near(basin))][: len(columns.limits)]
    out: Pieces = []
    for (text, close), width in zip(said, columns.limits, strict=True):
        hot = close and not dim
        out.append((padded(text + "!" * hot, width, look), dim or (BOLD if hot else "")))
    return out


def _waits(basin: BasinShown, dim: str) -> Piece:
    return (basin.waits_for.what, dim or (BOLD if basin.group == NEED else ""))


def _scores(basin: BasinShown, look: Look) -> str:
    ramp, whole = _RAMP[look.ascii], basin.required
    steps = (ramp[min(7, round(7 * score / whole))] if whole else " " for score in basin.trend.scores[-SCORES:])
    return "".join(steps).rjust(SCORES)


def _met(basin: BasinShown) -> str:
    return f"{basin.met}/{basin.required}"


def _tried(basin: BasinShown) -> str:
    return f"{basin.attempt.n}" + (f"/{basin.attempt.max}" if basin.attempt.max is not None else "")


def _time(basin: BasinShown) -> str:
    used = in_hours(basin.active_hours.used or 0.0)
    return used + (f"/{in_hours(basin.active_hours.max)}" if basin.active_hours.max is not None else "")


def in_hours(hours: float) -> str:
    """``2h31``: short, for a column."""
    minutes = int(hours * 60 + 1e-6)
    return f"{minutes // 60}h{minutes % 60:02d}"


def _money(basin: BasinShown) -> str:
    used = "-" if basin.usd.used is None else f"${basin.usd.used:.2f}"
    return used + (f"/{basin.usd.max:g}" if basin.usd.max is not None else "")


def _near(used: float | None, most: float | None) -> bool:
    return bool(most) and (used or 0.0) >= HOT * (most or 0.0)


_Of = Callable[[BasinShown], tuple[float | None, float | None]]
_LIMITS: Final[tuple[tuple[str, Callable[[BasinShown], str], _Of], ...]] = (
    ("try", _tried, lambda one: (one.attempt.n, one.attempt.max)),
    ("time", _time, lambda one: (one.active_hours.used, one.active_hours.max)),
    ("money", _money, lambda one: (one.usd.used, one.usd.max)),
)


# --- all of them -----------------------------------------------------------------------------------------------------


def _lost(shown: Projection) -> dict[str, int]:
    """How many criteria the head of each basin's queue loses."""
    return {one.basin: one.loses for one in reversed(shown.lock.queue)}


def _columns(basins: Sequence[BasinShown], look: Look, *, two: bool) -> _Columns:
    width = look.width
    most = 24 if two or width >= WIDE else 8 + max(0, width - NARROW) // 4
    name = 1 + min(_widest(8, (one.id for one in basins)), most)
    met = 1 + _widest(4, map(_met, basins))
    if width < NARROW:
        return _Columns(name, 0, 0, met, 0, ())
    limits: tuple[int, ...] = (2 + _widest(9, map(limit, basins)),)
    box, trend, destination = 9, _TREND, 0
    if width >= WIDE:
        box, limits = 11, tuple(3 + _widest(len(head), map(say, basins)) for head, say, _ in _LIMITS)
    elif two:
        box, trend, limits = 9, _TREND + 1, (limits[0] + 1,)
    if width >= ROOMY and not two:
        scores = SCORES + 1 if width >= WIDE else 0
        rest = width - 3 - name - box - met - _PHASE - scores - trend - sum(limits)
        waits = 28 if width < WIDE else 40
        destination = max(12, min(rest - waits, 1 + _widest(11, (one.macrostate for one in basins))))
    return _Columns(name, destination, box, met, trend, limits)


def _widest(least: int, texts: Iterable[str]) -> int:
    return max(least, *map(cells, texts), least)


def _head(columns: _Columns, look: Look) -> str:
    parts = [("", 3), ("basin", columns.name), ("destination", columns.destination)]
    parts += [("criteria", columns.bar + columns.met)] if columns.bar else [("met", columns.met)]
    parts += [("phase", _PHASE)]
    wide = len(columns.limits) == 3
    parts += [("trend", columns.trend + (SCORES + 1) * wide)]
    parts += zip([head for head, *_ in _LIMITS] if wide else ["limit"], columns.limits, strict=False)
    said = "".join(padded(text, width, look) for text, width in parts if width)
    return drawn([(f"{said}waits for", DIM)], look)


def _apart(groups: Iterable[Sequence[Sequence[Drawn]]]) -> list[Drawn]:
    """Groups of rows with a blank line between them."""
    out: list[Drawn] = []
    for group in groups:
        out += [("", None)] if out else []
        out += [line for lines in group for line in lines]
    return out


def _folded(groups: Sequence[Sequence[BasinShown]], room: int, selected: str | None) -> list[list[BasinShown]]:
    """What of each group is not drawn in so many lines: of the calmest first, of a group what is far from a limit."""
    kept = [len(group) for group in groups]

    def lines() -> int:
        folds = sum(count < len(group) for count, group in zip(kept, groups, strict=True))
        return sum(kept) + (min(1, folds) if room + 1 < MERGED else folds)

    least = [int(any(one.id == selected for one in group)) for group in groups]
    for place in reversed(range(len(groups))):
        while lines() > room and kept[place] > least[place]:
            kept[place] -= 1
    hidden = []
    for group, count in zip(groups, kept, strict=True):
        ranked = sorted(group, key=lambda one: (one.id != selected, not near(one), not _flat(one)))
        left_out = {one.id for one in ranked[count:]}
        hidden.append([one for one in group if one.id in left_out])
    return hidden


def _flat(basin: BasinShown) -> bool:
    return (basin.trend.word or "").startswith(("flat", "fell"))


def _told(group: Sequence[BasinShown], hidden: Sequence[BasinShown]) -> Piece:
    """What a fold hides: how many, of which group, and what of them is worth a look."""
    name = group[0].group
    more = "more " if len(hidden) < len(group) else ""
    said = f"+ {len(hidden)} {more}{name}"
    if name == "ended":
        counts = [(sum(one.phase == phase for one in hidden), phase.lower()) for phase in ("CONVERGED", "KILLED")]
        return f"{said}: {', '.join(f'{count} {word}' for count, word in counts if count)}", DIM
    close = sum(map(near, hidden))
    return said + (f", {close} near a limit" if close else ""), BOLD if name == NEED else DIM
