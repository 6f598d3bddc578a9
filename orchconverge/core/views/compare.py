"""Attempts side by side as text: what tells two apart, where they stand on the same ground, which criteria each meets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from orchconverge.core.matrix import Cell, Column, Contrast, Matrix, Row
from orchconverge.core.overlap import Change, Difference, Lines, Overlap, Pair, Shared
from orchconverge.core.views.text import cells, clean, clip, counted, to_ascii

SIGNS: Final[dict[Cell, tuple[str, str, str]]] = {
    "met": ("■", "#", "met on the tip too"),
    "gained": ("▣", "+", "met here, not on the tip"),
    "only": ("◈", "1", "met by this one only"),
    "unmet": ("□", "-", "not met"),
    "lost": ("!", "!", "lost"),
    "unknown": ("·", ".", "not run"),
}
"""How a cell is drawn, also without UTF-8, and what it is called."""
COLUMNS: Final = 4
"""So many candidates are always shown. Of those after them only the ones that add something."""
NAMED: Final = 8
"""So many names in a list before the rest is counted."""
NAME: Final = 32
"""Cells of a criterion's name."""
PATH: Final = 100
"""Cells of a path."""


# --- matrix ----------------------------------------------------------------------------------------------------------


def matrix(shown: Matrix, *, ascii: bool = False) -> str:
    """Criteria x candidates, what each candidate adds and loses, who is covered by whom, and what is still unmet."""
    held = sum(row.tip == "met" for row in shown.rows)
    head = f"MATRIX  {shown.basin}  into {clean(shown.target, PATH)}"
    head += f" at {shown.tip:.7}" if shown.tip else ", not checked yet"
    lines = [f"{head}  {held}/{len(shown.rows)} met, {counted(len(shown.columns), 'candidate')}"]
    columns = [c for place, c in enumerate(shown.columns) if place < COLUMNS or c.marginal]
    lines += ["", *_table(shown, columns, ascii=ascii), "", *_legend(shown, columns, ascii=ascii)]
    lines += _folded([c for c in shown.columns if c not in columns])
    lines += [_still(row) for row in shown.rows if row.criterion in shown.unmet]
    text = "\n".join(lines)
    return to_ascii(text) if ascii else text


def _table(shown: Matrix, columns: Sequence[Column], *, ascii: bool) -> list[str]:
    heads = ["tip", *(column.branch.removeprefix(shown.basin) for column in columns)]
    width = max(5, *map(len, heads)) + 2
    label = max((cells(_label(row)) for row in shown.rows), default=0)
    label = max(label, len("adds to those before")) + 2

    def drawn(name: str, entries: Iterable[str]) -> str:
        return (name + " " * (label - cells(name)) + "".join(entry.ljust(width) for entry in entries)).rstrip()

    sign = 1 if ascii else 0
    rows = [drawn("", heads)]
    for place, row in enumerate(shown.rows):
        rows.append(drawn(_label(row), (SIGNS[c][sign] for c in (row.tip, *(one.cells[place] for one in columns)))))
    if not columns:
        return rows
    rows.append(drawn("gains", ["", *(f"+{len(column.gains)}" for column in columns)]))
    if any(column.losses for column in columns):
        rows.append(drawn("loses", ["", *(f"-{len(column.losses)}" for column in columns)]))
    rows.append(drawn("adds to those before", ["", *(f"+{len(column.marginal)}" for column in columns)]))
    return rows


def _label(row: Row) -> str:
    return clip(row.criterion, NAME) + ("" if row.required else " (optional)")


def _legend(shown: Matrix, columns: Sequence[Column], *, ascii: bool) -> list[str]:
    used = {row.tip for row in shown.rows} | {cell for column in columns for cell in column.cells}
    signs = [f"{sign[ascii]} {sign[2]}" for cell, sign in SIGNS.items() if cell in used]
    return ["  ".join(signs)] if signs else []


def _folded(columns: Sequence[Column]) -> list[str]:
    lines = [_why(column) for column in columns[:NAMED]]
    if len(columns) > NAMED:
        lines.append(f"{len(columns) - NAMED} more add nothing to the columns shown")
    return lines


def _why(column: Column) -> str:
    if column.dominated_by is None:
        return f"{column.branch} adds nothing to the columns shown"
    beyond = f", and {_names(column.beyond)}" if column.beyond else ""
    return f"{column.branch} is dominated by {column.dominated_by}, which meets all that it meets{beyond}"


def _still(row: Row) -> str:
    if not row.failures:
        return f"Still unmet: {row.criterion}"
    tried = f"{counted(row.failures, 'branch', 'branches')}, {counted(row.approaches, 'approach', 'approaches')}"
    return f"Still unmet: {row.criterion} (not met by {tried})"


def _names(names: Sequence[str], most: int = NAMED) -> str:
    shown = ", ".join(clean(name, PATH) for name in names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")


# --- overlap ---------------------------------------------------------------------------------------------------------


def overlap(shown: Overlap, *, ascii: bool = False) -> str:
    """The pairs that conflict, then those that claim the same ground; the others counted; what only one touches."""
    clean_pairs = [pair for pair in shown.pairs if pair.merges]
    conflicts = [pair for pair in shown.pairs if pair.merges is False]
    untold = [pair for pair in shown.pairs if pair.merges is None]
    said = [counted(len(shown.candidates), "candidate"), counted(len(shown.pairs), "pair")]
    if shown.pairs:
        said += [f"{len(clean_pairs)} merge clean", f"{len(conflicts)} conflict"]
        said += [f"{len(untold)} cannot be told"] if untold else []
    lines = [f"OVERLAP  {shown.basin}  {', '.join(said)}"]
    close = [pair for pair in clean_pairs if pair.contested]
    for pair in (*conflicts, *untold, *close):
        lines += ["", *_pair(pair)]
    apart = len(clean_pairs) - len(close)
    if apart:
        lines += ["", f"Clean, with no common line: {counted(apart, 'pair')}."]
    if shown.candidates:
        lines += ["", "Files that no other touches:"]
        for one in shown.candidates:
            only = f"  {_names(one.only)}" if one.only else ""
            lines.append(f"  {one.branch}  {len(one.only)} of {counted(one.files, 'file')}{only}")
    text = "\n".join(lines)
    return to_ascii(text) if ascii else text


def _pair(pair: Pair) -> list[str]:
    how = {True: "merge clean", False: f"conflict in {_names(pair.conflicts)}", None: "cannot be told"}[pair.merges]
    lines = [f"{pair.one} {pair.other}  {how}"]
    lines += [f"  same lines  {claimed(file)}" for file in pair.contested[:NAMED]]
    if len(pair.contested) > NAMED:
        lines.append(f"  same lines in {len(pair.contested) - NAMED} more")
    apart = [file.path for file in pair.shared if file.claimed == "nothing"]
    moved = [file.path for file in pair.shared if file.claimed == "unknown"]
    lines += [f"  same files, other lines  {_names(apart)}"] if apart else []
    lines += [f"  same files, begun from different contents  {_names(moved)}"] if moved else []
    return lines


def claimed(file: Shared) -> str:
    """A file of which two claim the same ground, and which lines of it."""
    path = clean(file.path, PATH)
    if file.claimed == "whole":
        return f"{path}: the whole file"
    ranges = [_range(lines) for lines in file.lines]
    return f"{path}: {_names(ranges)}"


def _range(lines: Lines) -> str:
    if lines.after == lines.last:
        return f"after {lines.last}"
    first = lines.after + 1
    return str(first) if first == lines.last else f"{first}-{lines.last}"


# --- diff ------------------------------------------------------------------------------------------------------------


def contrast(found: Contrast, one: str, other: str) -> str:
    """Which criteria tell the two apart, said first; then what both and neither meet."""
    lines = [
        f"{one} alone meets: {_names(found.one) or 'nothing'}",
        f"{other} alone meets: {_names(found.other) or 'nothing'}",
    ]
    rest = (("Both meet", found.both), ("Neither meets", found.neither), ("Not known of both", found.unknown))
    return "\n".join([*lines, *(f"{what}: {_names(names)}" for what, names in rest if names)])


def stat(found: Difference) -> str:
    """One line a file, and the sum."""
    if not found.changes:
        return "No file differs."
    names = [_changed(change) for change in found.changes]
    width = max(map(cells, names))
    lines = [
        f" {name}{' ' * (width - cells(name))}  {_counts(c)}" for name, c in zip(names, found.changes, strict=True)
    ]
    added = sum(change.added or 0 for change in found.changes)
    removed = sum(change.removed or 0 for change in found.changes)
    return "\n".join([*lines, f" {counted(len(found.changes), 'file')}, +{added} -{removed}"])


def _changed(change: Change) -> str:
    path = clean(change.path, PATH)
    return f"{change.kind} {clean(change.old_path, PATH)} => {path}" if change.old_path else f"{change.kind} {path}"


def _counts(change: Change) -> str:
    return "binary" if change.added is None else f"+{change.added} -{change.removed}"


def patch(found: Difference) -> str:
    """The patch, harmless on a terminal; its lines and tabs are kept."""
    return "\n".join(clean(line, keep="\t") for line in found.patch.split("\n"))
