"""How the lines of a surface are made: pieces side by side, clipped, wrapped, ruled and folded to the width there is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Final, NamedTuple

from orchconverge.core.views.text import ELLIPSIS, cells, clean, clip, to_ascii

NARROW: Final = 76
"""Below this many a sentence takes as many lines as it needs."""
KEPT: Final = ("enter", "esc", "?", "q")
"""The keys that are named before all others: how to go on, and how to leave."""
BOLD, DIM, GREEN, RED, TAG = "1", "2", "32", "31", "30;43"
"""How a piece is to look, where there is colour."""
_SGR: Final = re.compile(r"\x1b\[[0-9;]*m")
_RULE: Final = ("─", "-")
_DOTS: Final = (ELLIPSIS, "..")

Piece = str | tuple[str, str]
"""Text, or text with how it is to look."""


class Look(NamedTuple):
    """The surroundings: ``width`` in cells, ``height`` in lines; without ``keys`` the verbs are commands to type."""

    width: int = 80
    height: int = 40
    ascii: bool = False
    colour: bool = False
    keys: bool = False


def most_of(look: Look, lines: int) -> int | None:
    """So many lines, where there is width for it; else as many as are needed."""
    return lines if look.width >= NARROW else None


def cut(text: str, most: int, look: Look) -> str:
    """A text in at most so many cells."""
    return clip(text, most, ellipsis=_DOTS[look.ascii])


def padded(text: str, width: int, look: Look) -> str:
    """A text in exactly so many cells: cut, or with blanks behind it."""
    said = cut(_said(text, look), width, look)
    return said + " " * (width - cells(said))


def bare(line: str) -> str:
    """A drawn line without its colours."""
    return _SGR.sub("", line)


def beside(left: Sequence[str], right: Sequence[str], *, at: int) -> list[str]:
    """Drawn lines side by side, the right ones from cell ``at`` on; both must fit."""
    pairs = zip_longest(left, right, fillvalue="")
    return [f"{one}{' ' * (at - cells(bare(one)))}{other}" if other else one for one, other in pairs]


def plain(piece: Piece) -> str:
    """The text of a piece."""
    return piece if isinstance(piece, str) else piece[0]


def drawn(pieces: Iterable[Piece], look: Look, *, right: Piece = "") -> str:
    """One line, clipped, with something at its right end where there is room for two blanks before it."""
    out, used = [], 0
    for piece in pieces:
        text = cut(_said(plain(piece), look), look.width - used, look)
        used += cells(text)
        out.append(_painted(text, piece[1]) if look.colour and not isinstance(piece, str) else text)
    end = plain(right)
    gap = look.width - used - cells(end)
    if not end or gap < 2:
        return "".join(out)
    return "".join(out) + " " * gap + (_painted(end, right[1]) if look.colour and not isinstance(right, str) else end)


def _said(text: str, look: Look) -> str:
    return to_ascii(text) if look.ascii and not text.isascii() else text


def _painted(text: str, code: str) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if code and text.strip() else text


def rule(name: str, right: str, look: Look) -> str:
    """A heading with a rule behind it, and something at its end where there is room."""
    title = f"{name} " if name else ""
    end = f" {right}" if right and cells(title) + cells(right) + 4 <= look.width else ""
    dashes = _RULE[look.ascii] * (look.width - cells(title) - cells(end))
    return drawn([(title, BOLD), (dashes, DIM), (end, DIM)], look)


def keyed(keys: Iterable[tuple[str, str]], look: Look) -> str:
    """A line of keys and what they do; where there is no room the last ones go, those of `KEPT` after all others."""
    shown, gap = list(keys), 2 if look.width < NARROW else 3
    while shown and 1 - gap + sum(gap + cells(f"{key} {word}") for key, word in shown) > look.width:
        shown.remove(next((one for one in reversed(shown) if one[0] not in KEPT), shown[-1]))
    pieces: list[Piece] = []
    for key, word in shown:
        pieces += [" " * gap if pieces else " ", (key, BOLD), (f" {word}", DIM)]
    return drawn(pieces, look)


def wrapped(
    text: str, look: Look, *, indent: int = 1, first: int = 1, code: str = "", most: int | None = None
) -> list[str]:
    """A text over as many lines as it needs, or ``most``, the last one of them clipped."""
    lines: list[str] = []
    words = _said(text, look).rstrip().split(" ")
    while words:
        while lines and words and not words[0]:
            words.pop(0)
        room = look.width - (indent if lines else first)
        if most is not None and len(lines) == most - 1:
            lines.append(cut(" ".join(words), room, look))
            break
        line = words.pop(0)
        while words and cells(line) + 1 + cells(words[0]) <= room:
            line += f" {words.pop(0)}"
        if cells(line) > room:
            short = clip(line, room, ellipsis="")
            words.insert(0, line[len(short) :])
            line = short
        lines.append(line.rstrip())
    return [
        drawn([" " * (indent if place else first), (line, code) if code else line], look)
        for place, line in enumerate(lines)
    ]


def spread(items: Sequence[str], look: Look, *, indent: int, most: int | None = None) -> list[str]:
    """Items side by side, none of them broken; of more than ``most`` lines the rest is counted."""
    lines: list[list[str]] = []
    for item in items:
        if lines and indent + sum(cells(one) + 3 for one in lines[-1]) + cells(item) <= look.width:
            lines[-1].append(item)
        else:
            lines.append([item])
    if most is not None and len(lines) > most:
        hidden = sum(map(len, lines[most:]))
        lines = lines[:most]
        lines[-1] = [*lines[-1][:-1], f"+ {hidden + 1} more"]
    return [line for row in lines for line in wrapped(" " * (indent - 1) + "   ".join(row), look, indent=indent)]


def listed(names: Sequence[str], width: int) -> str:
    """As many names as there is room for, the rest counted."""
    shown: list[str] = []
    for place, name in enumerate(names):
        rest = len(names) - place
        if cells("   ".join([*shown, clean(name)])) + (12 if rest > 1 else 0) > width and shown:
            return "   ".join([*shown, f"and {rest} more"])
        shown.append(clean(name))
    return "   ".join(shown)


def rooms(wanted: Sequence[int], room: int) -> list[int]:
    """How many lines each list gets: one at least, then in turn until all is given away."""
    given = [min(1, want) for want in wanted]
    left = room - sum(given)
    while left > 0 and given != list(wanted):
        for place, want in enumerate(wanted):
            if left > 0 and given[place] < want:
                given[place] += 1
                left -= 1
    return given


def folded(rows: Sequence[str], names: Sequence[str], room: int, look: Look) -> list[str]:
    """The first rows, and below them one line that counts and names the rest."""
    if len(rows) <= room:
        return list(rows)
    kept = max(0, room - 1)
    hidden = ", ".join(clean(name) for name in names[kept:])
    return [*rows[:kept], drawn([f"   + {len(rows) - kept} more: ", (hidden, DIM)], look)]
