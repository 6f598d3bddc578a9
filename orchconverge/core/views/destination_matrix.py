"""Who meets what: criteria x the candidates that no other covers, with the target, all of them together, and it in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from orchconverge.core.card import Clause, clauses
from orchconverge.core.matrix import Cell, Column, Matrix, matrix
from orchconverge.core.overlap import Pair
from orchconverge.core.shown import BasinShown, Projection
from orchconverge.core.state import State
from orchconverge.core.values import Evidence
from orchconverge.core.views.card import WIDE, sign
from orchconverge.core.views.compare import SIGNS
from orchconverge.core.views.lines import BOLD, DIM, Look, Piece, cut, drawn, padded, rule, spread, wrapped
from orchconverge.core.views.text import cells, clean, counted

LOW: Final = 18
"""Under so many lines the names of the criteria take one."""
NAME: Final = 24
"""Cells of the name of a branch or a criterion."""
STATE: Final = 12
"""Cells that are kept for what a candidate waits for."""
NAMED: Final = 3
"""So many names in a sentence, and so many sentences about single candidates; the matrix has the others."""
MARK: Final = ("›", ">")  # noqa: RUF001
"""Before the row that is selected."""
HEADING: Final = "WHO MEETS WHAT"
ANY: Final = "any of them"
_SHORT: Final[Mapping[Cell, str]] = {
    "met": "met",
    "gained": "gained",
    "only": "by this one only",
    "unmet": "not met",
    "lost": "lost",
    "unknown": "not run",
}


class Candidates(NamedTuple):
    """What the ledger says of the candidates that wait. Frozen: another thread than the ledger's may have it.

    ``evidence``, ``clauses`` and ``approaches`` are by branch; ``clauses`` of the `rows` alone.
    """

    matrix: Matrix
    evidence: Mapping[str, tuple[Evidence, ...]]
    clauses: Mapping[str, tuple[Clause, ...]]
    approaches: Mapping[str, str]

    @property
    def rows(self) -> tuple[Column, ...]:
        """The candidates that no other covers, the one that adds most first."""
        return tuple(column for column in self.matrix.columns if column.dominated_by is None)

    @property
    def equals(self) -> tuple[Column, ...]:
        """Those that meet no less than the row that covers them: it stands for them if it changes less."""
        return tuple(column for column in self.matrix.columns if column.dominated_by is not None and not column.beyond)


class Beside(NamedTuple):
    """What git says: the rows' pairs, lines added and removed of them and their equals. ``fault``: why it says nothing."""

    pairs: tuple[Pair, ...] = ()
    sizes: Mapping[str, tuple[int, int]] = {}
    fault: str = ""


def candidates(state: State, basin: str, *, sizes: Mapping[str, int] | None = None) -> Candidates:
    """Gather it; ``sizes`` as in `core.matrix.matrix`. Raises `KeyError` for no such basin."""
    compared = matrix(state, basin, sizes=sizes)
    found = {column.branch: state.branches[column.branch] for column in compared.columns}
    return Candidates(
        matrix=compared,
        evidence={name: branch.evidence for name, branch in found.items()},
        clauses={
            column.branch: clauses(state.basins[basin], found[column.branch], compared, column)
            for column in compared.columns
            if column.dominated_by is None
        },
        approaches={name: clean(branch.approach) for name, branch in found.items()},
    )


def branch_of(found: Candidates, wanted: str | None) -> str | None:
    """The row that is meant: the wanted one, else the first; ``None`` where no candidate waits."""
    there = [column.branch for column in found.rows]
    return wanted if wanted in there else next(iter(there), None)


class Table(NamedTuple):
    """The lines above the candidates, the line of each candidate by its branch, the lines below them."""

    above: list[str]
    rows: dict[str, str]
    below: list[str]


class _Columns(NamedTuple):
    """Cells of each column; 0: not shown. ``heads`` are names, or numbers of as many criteria as fit."""

    label: int
    approach: int
    heads: tuple[str, ...]
    widths: tuple[int, ...]
    met: int
    change: int
    numbered: bool


def table(
    shown: Projection,
    here: BasinShown,
    found: Candidates,
    beside: Beside | None,
    selected: str | None,
    look: Look,
    *,
    heading: str = HEADING,
) -> Table:
    """Criteria x candidates, in the width that there is. Where names do not fit the criteria are numbers with a legend."""
    compared, columns = found.matrix, _laid(found, beside, here.required, look)
    counts = _counts(compared)

    def row(name: str, about: str, answers: Sequence[Cell], met: int, code: str, rest: Sequence[Piece] = ()) -> str:
        mark = MARK[look.ascii] if name == selected else " "
        pieces: list[Piece] = [(mark, BOLD), (padded(name, columns.label, look), code), "  "]
        pieces += [(padded(about, columns.approach, look), DIM), "  "] if columns.approach else []
        for cell, width in zip(answers, columns.widths, strict=False):
            pieces += [sign(cell, look), " " * (width - 1)]
        return drawn([*pieces, (padded(f"{met}/{here.required}", columns.met + 2, look), code), *rest], look).rstrip()

    tip = f"{compared.target} at {compared.tip:.7}" if compared.tip else "not checked yet"
    answers = [each.tip for each in compared.rows]
    above = [rule(heading, _signs(found, look, cells(heading)), look), _heads(columns, len(compared.rows), look)]
    above.append(row("target", tip, answers, here.met, DIM))
    rows = {}
    for column in found.rows:
        name, met = column.branch, len(counts.intersection(column.met))
        rest = _rest(name, shown, here, columns, beside)
        rows[name] = row(name, found.approaches[name], column.cells, met, BOLD, rest)
    below = _covered(found, look)
    if len(found.rows) > 1:
        each_best = [
            _best(tip_cell, [column.cells[place] for column in found.rows]) for place, tip_cell in enumerate(answers)
        ]
        below.append(row("together", ANY, each_best, len(counts.difference(compared.unmet)), BOLD))
    if columns.numbered:
        names = [
            f"{head} {cut(each.criterion, NAME, look)}"
            for head, each in zip(columns.heads, compared.rows, strict=False)
        ]
        below += spread(names, look, indent=3, most=1 if look.height < LOW else 3)
    return Table(above, rows, below)


def _counts(compared: Matrix) -> frozenset[str]:
    """The criteria that are progress: required, and no condition."""
    return frozenset(row.criterion for row in compared.rows if row.required and not row.condition)


def _laid(found: Candidates, beside: Beside | None, whole: int, look: Look) -> _Columns:
    names = [cut(row.criterion, NAME, look) for row in found.matrix.rows]
    ids = [column.branch for column in found.rows]
    label, met = min(NAME, max(map(cells, ("together", *ids)))), max(3, len(f"{whole}/{whole}"))
    room = look.width - (1 + label + 2) - (met + 2) - (STATE if ids else 0)
    widths = [cells(name) + 2 for name in names]
    number = len(str(len(names))) + 1
    changes = [f"+{added} -{removed}" for added, removed in beside.sizes.values()] if beside is not None else []
    change = max(map(len, ("change", *changes))) if ids else 0
    if change and room - change - 2 >= number * len(names):
        room -= change + 2
    else:
        change = 0
    if numbered := sum(widths) > room:
        names = [str(place) for place in range(1, 1 + min(len(names), room // number))]
        widths = [number] * len(names)
    left = room - sum(widths) - 2
    about = max(map(cells, (ANY, f"{found.matrix.target} at 1234567", *(found.approaches[name] for name in ids))))
    approach = min(about, left) if left >= len(ANY) else 0
    return _Columns(label, approach, tuple(names), tuple(widths), met, change, numbered)


def _signs(found: Candidates, look: Look, taken: int) -> str:
    """What the signs mean that are there; where that does not fit, how many candidates there are."""
    used = {row.tip for row in found.matrix.rows} | {cell for column in found.rows for cell in column.cells}
    there = [cell for cell in SIGNS if cell in used]
    words = {cell: SIGNS[cell][2] if look.width >= WIDE else _SHORT[cell] for cell in there}
    said = "   ".join(f"{SIGNS[cell][look.ascii]} {words[cell]}" for cell in there)
    return said if taken + cells(said) + 5 <= look.width else counted(len(found.rows), "candidate")


def _heads(columns: _Columns, criteria: int, look: Look) -> str:
    blank = 1 + columns.label + 2 + (columns.approach + 2 if columns.approach else 0)
    heads = "".join(padded(head, width, look) for head, width in zip(columns.heads, columns.widths, strict=True))
    ends = padded("met", columns.met + 2, look) + (padded("change", columns.change + 2, look) if columns.change else "")
    hidden = criteria - len(columns.heads)
    return drawn([(f"{' ' * blank}{heads}{ends}{f'+{hidden} more' if hidden else ''}".rstrip(), DIM)], look)


def _rest(branch: str, shown: Projection, here: BasinShown, columns: _Columns, beside: Beside | None) -> list[Piece]:
    """How much it changes, and how it stands at the lock."""
    size = beside.sizes.get(branch) if beside is not None else None
    change = f"+{size[0]} -{size[1]}" if size is not None else ""
    queue = {one.branch: one for one in shown.lock.queue if one.basin == here.id}
    place = list(queue).index(branch) if branch in queue else -1
    told = "at the lock" if place == 0 else f"{_ordinal(place + 1)} in line" if place > 0 else "waits"
    if branch in queue and queue[branch].flags:
        told += f", {counted(len(queue[branch].flags), 'flag')}"
    return [*([change.ljust(columns.change + 2)] if columns.change else []), (told, BOLD) if place == 0 else told]


def _ordinal(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _best(tip: Cell, row: Sequence[Cell]) -> Cell:
    """What any of them meets; what the target has is lost only if all of them lose it."""
    if tip == "met":
        return "met" if any(cell != "lost" for cell in row) else "lost"
    return next((cell for cell in ("gained", "only") if cell in row), tip)


def _covered(found: Candidates, look: Look) -> list[str]:
    """One line that counts and names the candidates that another covers."""
    spent = [column for column in found.matrix.columns if column.dominated_by is not None]
    names = ", ".join(f"{column.branch} by {column.dominated_by}" for column in spent)
    return [drawn([f" {len(spent)} covered: ", (names, DIM)], look)] if spent else []


# --- in words --------------------------------------------------------------------------------------------------------


def reading(here: BasinShown, found: Candidates, look: Look) -> list[list[str]]:
    """The same in words, a sentence each: who meets most, what all of them leave, what one alone meets or loses."""
    said = _sentences(here, found)
    return [wrapped(one, look, indent=5, first=3, code="" if place else BOLD) for place, one in enumerate(said)]


def _sentences(here: BasinShown, found: Candidates) -> list[str]:
    columns = found.rows
    if not columns:
        return [f"No candidate waits. {here.id} waits for {here.waits_for.what}"]
    counts = _counts(found.matrix)
    most = max(columns, key=lambda column: len(counts.intersection(column.met)))
    part = f"{len(counts.intersection(most.met))} of {len(counts)}"
    several = len(columns) > 1
    said = [f"{most.branch} meets most ({part})." if several else f"{most.branch} meets {part}."]
    said.append(_left(found, who="Together they meet" if several else "It meets"))
    about = []
    for column in columns:
        alone = [row.criterion for row, cell in zip(found.matrix.rows, column.cells, strict=True) if cell == "only"]
        if alone and column is not most:
            about.append(f"Only {column.branch} meets {_named(alone)}: orchconverge graft {column.branch} --only PATH")
        if column.losses:
            about.append(f"{column.branch} loses {_named(column.losses)}, which {found.matrix.target} has.")
    return [*said, *about[:NAMED]]


def _left(found: Candidates, *, who: str) -> str:
    unmet = [row for row in found.matrix.rows if row.criterion in found.matrix.unmet and row.required]
    if not unmet:
        return f"{who} everything: what is left is your decision, not more minds."
    said = f"None meets {_named([row.criterion for row in unmet])}"
    if len(unmet) == 1 and unmet[0].failures > 1:
        tried = counted(unmet[0].approaches, "approach", "approaches")
        said += f": {unmet[0].failures} branches did not, by {tried}"
    return f"{said}."


def _named(names: Sequence[str]) -> str:
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")
