"""One destination as a frame: who meets what, where candidates stand on the same ground, the evidence, what is kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from orchconverge.core.card import Clause
from orchconverge.core.overlap import Pair
from orchconverge.core.shown import BasinShown, Projection
from orchconverge.core.standing import PHASES
from orchconverge.core.views import board_below
from orchconverge.core.views.board import LEAST, TALL, Chosen, Frame, board, top
from orchconverge.core.views.card import WIDE, sign
from orchconverge.core.views.compare import claimed
from orchconverge.core.views.destination_matrix import LOW, NAME, Beside, Candidates, branch_of, reading, table
from orchconverge.core.views.lines import (
    BOLD,
    DIM,
    TAG,
    Look,
    Piece,
    cut,
    drawn,
    folded,
    keyed,
    padded,
    rooms,
    rule,
    wrapped,
)
from orchconverge.core.views.text import cells, clean, counted, duration

KEYS: Final = (
    ("esc", "back"),
    ("enter", "diff"),
    ("v", "evidence"),
    ("o", "overlap"),
    ("l", "lock"),
    ("x", "next best"),
    ("?", "keys"),
    ("q", "quit"),
    ("n", "needs you"),
    ("c", "copy the command"),
    ("a", "attach"),
    ("t", "timeline"),
    ("g", "graph"),
)
"""By how much they are wanted: the last ones go where there is no room."""
ROWS: Final = 4
WORDS: Final = 2
"""So many candidates and lines of words stand before any part below them."""


class _Part(NamedTuple):
    """A part of the frame below the matrix: its heading, and rows that may be folded into a line with their names."""

    name: str
    right: str
    rows: Sequence[str]
    names: Sequence[str]


def destination(
    shown: Projection,
    look: Look,
    *,
    repo: str,
    basin: str,
    found: Candidates,
    beside: Beside | None,
    chosen: Chosen = Chosen(),  # noqa: B008 - frozen
) -> Frame:
    """The frame of one basin. ``chosen.selected`` is a branch, as are the ids of the frame's rows.

    ``beside`` is ``None`` until git has answered. Never wider or higher than there is room. Raises `KeyError`.
    """
    here = shown.basin(basin)
    if here is None:
        raise KeyError(basin)
    if look.width < LEAST[0] or look.height < LEAST[1]:
        return board(shown, look, repo=repo)
    selected = branch_of(found, chosen.selected)
    top_lines = top(shown, look, clean(repo), chosen._replace(filter=""), 0)
    matrix = table(shown, here, found, beside, selected, look)
    above = [*top_lines, *_head(here, look), *matrix.above]
    sentences = reading(here, found, look)
    parts = _parts(here, found, beside, selected, look) if look.height >= LOW else []
    left = look.height - 1 - len(above) - len(matrix.below)
    words = sum(map(len, sentences))
    while parts and left - _least(parts) < min(ROWS, len(matrix.rows)) + min(WORDS, words):
        parts.pop()
    first = rooms([len(matrix.rows), words], max(0, left - _least(parts)))
    given = rooms([len(part.rows) for part in parts], left - sum(first) - len(parts))
    rows = _kept(matrix.rows, selected, first[0], look)
    lines = [*above, *(line for line, _ in rows), *matrix.below, *_whole(sentences, first[1])]
    spare = look.height - 1 - len(lines) - len(parts) - sum(given)
    for part, room in zip(parts, given, strict=True):
        lines += [""] if look.height >= TALL and spare >= len(parts) else []
        lines += [rule(part.name, part.right, look), *folded(part.rows, part.names, room, look)]
    lines = lines[: look.height - 1]
    lines += [""] * (look.height - 1 - len(lines))
    return Frame((*lines, keyed(KEYS, look)), {len(above) + at: name for at, (_, name) in enumerate(rows) if name})


def _least(parts: Sequence[_Part]) -> int:
    """The lines without which a part is worth nothing."""
    return sum(1 + min(2, len(part.rows)) for part in parts)


def _kept(rows: Mapping[str, str], selected: str | None, room: int, look: Look) -> list[tuple[str, str]]:
    """The rows that there is room for, each with its branch, the selected one among them; the last line counts the others."""
    if len(rows) <= room:
        return [(line, name) for name, line in rows.items()]
    names = list(rows)[: max(1, room - 1)]
    if selected is not None and selected not in names:
        names[-1] = selected
    hidden = [name for name in rows if name not in names]
    more = drawn([f"   + {len(hidden)} more: ", (", ".join(hidden), DIM)], look)
    return [*((rows[name], name) for name in names), *([(more, "")] if room > 1 else [])]


def _whole(sentences: Sequence[Sequence[str]], room: int) -> list[str]:
    """The first sentences, none of them broken."""
    lines: list[str] = []
    for sentence in sentences:
        lines += sentence if len(lines) + len(sentence) <= room else []
    return lines


# --- the head --------------------------------------------------------------------------------------------------------


def _head(here: BasinShown, look: Look) -> list[str]:
    signs = PHASES[here.phase]
    glyph = signs.ascii if look.ascii else signs.glyph
    phase: Piece = (here.phase, TAG) if here.group == "need you" else here.phase
    name = cut(here.id, NAME, look)
    room = look.width - cells(name) - cells(here.phase) - 10
    at = f" at {here.target.head:.7}" if here.target.head else ", not checked yet"
    said = [f"{here.met}/{here.required} on {here.target.ref}{at}", f"try {_of(here.attempt.n, here.attempt.max)}"]
    said.append(here.elapsed)
    said += (
        [f"${here.usd.used:.2f} / ${here.usd.max:g}"] if here.usd.used is not None and here.usd.max is not None else []
    )
    said += [here.trend.word] if here.trend.word is not None else []
    if look.width < WIDE:
        first = drawn([f" {glyph} ", (name, BOLD), " " * max(2, room + 6), phase], look)
        lines = [first, *wrapped(here.macrostate, look, indent=3, first=3, code=BOLD, most=1)]
        return lines if look.height < LOW else [*lines, *wrapped("   ".join(said), look, indent=3, first=3, most=1)]
    macrostate = cut(here.macrostate, room, look)
    gap = " " * (room - cells(macrostate) + 3)
    first = drawn([f" {glyph} ", (name, BOLD), "   ", (macrostate, BOLD), gap, phase], look)
    ends = ["all required criteria hold"]
    ends += [counted(here.attempt.max, "attempt")] if here.attempt.max is not None else []
    ends += [duration(here.active_hours.max * 3600)] if here.active_hours.max is not None else []
    ends += [f"${here.usd.max:g}"] if here.usd.max is not None else []
    lines = [first, drawn([(f"   ends when {', or '.join(ends)}", DIM)], look), drawn([f"   {'   '.join(said)}"], look)]
    return [*lines, ""] if look.height >= TALL else lines


def _of(used: int, most: int | None) -> str:
    return f"{used}/{most}" if most is not None else str(used)


# --- the parts below -------------------------------------------------------------------------------------------------


def _parts(here: BasinShown, found: Candidates, beside: Beside | None, selected: str | None, look: Look) -> list[_Part]:
    """Overlap, evidence and what is kept, those that have something; the last is the first to go."""
    if selected is not None:
        answers = found.clauses[selected]
        wide = min(NAME, max(cells(one.criterion) for one in answers))
        rows = [_evidence(one, look, wide) for one in answers]
        right = "run by us on exactly its tree"
        parts = [_Part(f"EVIDENCE of {selected}", right, rows, [one.criterion for one in answers])]
    else:
        rows = board_below.criteria(here, look, most=len(here.criteria) + 1)[1:]
        parts = [
            _Part("CRITERIA", f"run by us on the tip of {here.target.ref}", rows, [one.name for one in here.criteria])
        ]
    if len(found.rows) > 1:
        rows, names = _overlap(beside, look)
        parts.insert(
            0 if look.height >= TALL else 1, _Part("OVERLAP", "by git merge-tree, no tree touched", rows, names)
        )
    kept = [("residue", one.text, f"for {one.criterion}" if one.criterion else "") for one in here.residue]
    kept += [("question", one.question, f"from {one.origin}") for one in here.frontier]
    if kept:
        rows = [
            drawn([f"   {kind:<10}", text, (f"   {origin}" if origin else "", DIM)], look)
            for kind, text, origin in kept
        ]
        parts.append(_Part("KEPT", "memory belongs to the pursuit", rows, [text for _, text, _ in kept]))
    return parts


def _overlap(beside: Beside | None, look: Look) -> tuple[list[str], list[str]]:
    if beside is None or beside.fault:
        said = "git is asked; its answer comes here" if beside is None else beside.fault
        return [drawn([f"   {clean(said)}"], look)], [""]
    if not beside.pairs:
        return [drawn(["   their commits are not in this repository"], look)], [""]
    both = [f"{pair.one} and {pair.other}" for pair in beside.pairs]
    wide = max(map(cells, both), default=0)
    rows = []
    for pair, name in zip(beside.pairs, both, strict=True):
        how, where = stands(pair)
        rows.append(drawn(["   ", (padded(name, wide + 3, look), BOLD), f"{how:<24}", (where, DIM)], look).rstrip())
    return rows, both


def stands(pair: Pair) -> tuple[str, str]:
    """How two candidates stand to one another, and where."""
    if pair.merges is None:
        return "cannot be told", ""
    if pair.merges is False:
        return f"conflict in {counted(len(pair.conflicts), 'file')}", ", ".join(map(clean, pair.conflicts))
    if pair.contested:
        return f"same lines in {counted(len(pair.contested), 'file')}", ", ".join(map(claimed, pair.contested))
    return "no shared lines", counted(len(pair.shared), "shared file") if pair.shared else ""


def _evidence(one: Clause, look: Look, wide: int) -> str:
    end = f"exit {one.exit}" if one.exit is not None else "no exit" if one.this != "unknown" else "not run"
    took = duration(one.seconds) if one.seconds is not None else ""
    pieces: list[Piece] = ["   ", sign(one.this, look), " ", (padded(one.criterion, wide, look), BOLD), f"  {end:<9}"]
    if look.width < WIDE:
        return drawn([*pieces, one.line or (one.asked, DIM)], look)
    half = (look.width - wide - 30) // 2
    return drawn([*pieces, (f"{took:<8}", DIM), padded(one.line, half, look), "  ", (one.asked, DIM)], look)
