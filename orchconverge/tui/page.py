"""Lines of ours on a Textual screen: each is made into a strip once, and only those that changed are drawn again."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from orchconverge.core.views.lines import BOLD, DIM, GREEN, RED, TAG

PLAIN: Final = Style(color="default", bgcolor="default")
STYLES: Final[Mapping[str, Style]] = {
    "0": PLAIN,
    BOLD: PLAIN + Style(bold=True),
    DIM: PLAIN + Style(dim=True),
    GREEN: PLAIN + Style(color="green"),
    RED: PLAIN + Style(color="red"),
    TAG: Style(color="black", bgcolor="yellow"),
}
"""The codes of `core.views.lines`, in the sixteen colours of the terminal."""
_SGR: Final = re.compile("\x1b\\[([0-9;]*)m")


def strip(line: str) -> Strip:
    """One line of ours."""
    parts = _SGR.split(line)
    styles = ["0", *parts[1::2]]
    return Strip(
        [Segment(text, STYLES.get(code, PLAIN)) for text, code in zip(parts[::2], styles, strict=True) if text]
    )


class Page(Widget, can_focus=False):
    """A screen full of lines. What of them is no longer shown is forgotten."""

    DEFAULT_CSS = "Page { width: 1fr; height: 1fr; background: ansi_default; color: ansi_default; }"
    ALLOW_SELECT = False

    def __init__(self) -> None:
        super().__init__()
        self.lines: tuple[str, ...] = ()
        self._strips: dict[str, Strip] = {}

    def show(self, lines: Sequence[str]) -> int:
        """Show these from the top. Returns how many are drawn again."""
        before, self.lines = self.lines, tuple(lines)
        self._strips = {line: self._strips.get(line) or strip(line) for line in self.lines}
        changed = [
            place
            for place in range(max(len(before), len(self.lines)))
            if before[place : place + 1] != self.lines[place : place + 1]
        ]
        if changed:
            self.refresh(*(Region(0, place, self.size.width, 1) for place in changed))
        return len(changed)

    def render_line(self, y: int) -> Strip:
        """A line over the whole width, in the terminal's own colours."""
        found = self._strips[self.lines[y]] if y < len(self.lines) else Strip([])
        return found.adjust_cell_length(self.size.width, PLAIN)
