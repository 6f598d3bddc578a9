"""How the lines of a surface are made: pieces side by side, clipped, wrapped, ruled and folded to the width there is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from orchconverge.core.views.text import ELLIPSIS, cells, clean, clip, to_ascii

NARROW: Final = 76
"""Below this many a sentence takes as many lines as it needs."""
BOLD, DIM, GREEN, RED, TAG = "1", "2", "32", "31", "30;43"
"""How a piece is to look, where there is colour."""
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


def plain(piece: Piece) -> str:
    """The text of a piece."""
    return piece if isinstance(piece, str) else piece[0]


def drawn(pieces: Iterable[Piece], look: Look, *, right: str = "") -> str:
    """One line, clipped, with something at its right end where there is room for two blanks before it."""
    out, used = [], 0
    for piece in pieces:
        text = cut(_said(plain(piece), look), look.width - used, look)
        used += cells(text)
        out.append(_painted(text, piece[1]) if look.colour and not isinstance(piece, str) else text)
    gap = look.width - used - cells(right)
    return "".join(out) + (f"{' ' * gap}{right}" if right and gap >= 2 else "")


def _said(text: str, look: Look) -> str:
    return to_ascii(text) if look.ascii and not text.isascii() else text


def _painted(text: str, code: str) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if text.strip() else text


def rule(name: str, right: str, look: Look) -> str:
    """A heading with a rule behind it, and something at its end where there is room."""
    title = f"{name} " if name else ""
    end = f" {right}" if right and cells(title) + cells(right) + 4 <= look.width else ""
    dashes = _RULE[look.ascii] * (look.width - cells(title) - cells(end))
    return drawn([(title, BOLD), dashes, (end, DIM)] if name else [dashes], look)


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
