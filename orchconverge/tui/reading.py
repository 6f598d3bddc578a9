"""A text on the whole screen, below the line that says what needs a person: scrolled, never changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from orchconverge.core.shown import Projection
from orchconverge.core.views.board import Chosen, Frame, top
from orchconverge.core.views.lines import Look, keyed, rule
from orchconverge.core.views.text import clean

MOST: Final = 20_000
"""Lines of a text; the command that prints it has the others."""
KEYS: Final = (("esc", "back"), ("up/down", "scroll"), ("n", "needs you"), ("?", "keys"), ("q", "quit"))


class Text:
    """Lines that are made for a width, and the one that is on top."""

    def __init__(self, title: str, made: Callable[[Look], Sequence[str]]) -> None:
        self.title = title
        self._made = made
        self._for: Look | None = None
        self._lines: Sequence[str] = ()
        self._room = 1
        self.top = 0

    def fill(self, made: Callable[[Look], Sequence[str]]) -> None:
        """Have other lines."""
        self._made, self._for = made, None

    def move(self, by: int) -> None:
        """Scroll, not beyond either end."""
        self.top = max(0, min(len(self._lines) - self._room, self.top + by))

    def window(self, look: Look, room: int) -> tuple[Sequence[str], int]:
        """The lines that are seen through so many, and how many there are."""
        if look != self._for:
            lines = self._made(look)
            left = len(lines) - MOST
            self._lines = [*lines[:MOST], f"   + {left} more lines"] if left > 0 else lines
            self._for = look
        self._room = room
        self.move(0)
        return self._lines[self.top : self.top + room], len(self._lines)


def text_frame(text: Text, shown: Projection, look: Look, *, repo: str, chosen: Chosen) -> Frame:
    """The frame of a text; its heading says which of its lines are seen."""
    above = top(shown, look, clean(repo), chosen._replace(filter=""), 0)
    room = max(1, look.height - len(above) - 2)
    lines, whole = text.window(look, room)
    right = f"{text.top + 1}-{text.top + len(lines)} of {whole}" if whole > len(lines) else ""
    body = [*above, rule(text.title, right, look), *lines]
    return Frame((*body, *[""] * (look.height - 1 - len(body)), keyed(KEYS, look))[-look.height :], {})
