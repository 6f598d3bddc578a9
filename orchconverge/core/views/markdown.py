"""Untrusted text in Markdown: it stays text. No markup, link, mention, reference or HTML of it comes to life on a forge.

A forge looks for mentions, references and addresses in the rendered text, so that escapes of Markdown alone do not stop
it; a zero-width space, written as an entity, does (Renovate and Dependabot do the same).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from orchconverge.core.views.text import clean

_MARKUP: Final = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;"} | {char: f"\\{char}" for char in "\\`*_[]|~$^{}"}
)
_ALIVE: Final = re.compile(
    r"@(?=\w)|#(?=\w)|(?<=\w):(?=//)|\b(?:www(?=\.)|GH(?=-\d)|(?:mailto|xmpp)(?=:))", re.IGNORECASE
)
_LEADING: Final = re.compile(r"^([-+=#!:]|\d{1,9}(?=[.)]))")
_ENDS: Final = r"(?:/|(?=[\s'\"`:;,)\]]|$))"
_HOME: Final = re.compile(r"(?:/home|/Users|/var/home)/[^/\s'\"`:;,)\]]+|(?<![\w/])/root(?=[/\s'\"`:;,)\]]|$)")
# The look-behind keeps it linear: without it each character of a long word is tried as a beginning.
_OURS: Final = re.compile(r"(?<![^\s'\"`=:])[^\s'\"`=:]*/orchconverge/[^\s'\"`/]+/(?:trees|minds)/[^\s'\"`/]+/?")


class Paths:
    """Takes paths of this machine out of text: working trees become relative, what is left of a home becomes ``~``."""

    def __init__(self, trees: Iterable[str]) -> None:
        known = sorted({tree.rstrip("/") for tree in trees if tree.strip("/")}, key=len, reverse=True)
        self._trees = re.compile("|".join(f"{re.escape(tree)}{_ENDS}" for tree in known)) if known else None

    def out_of(self, text: str) -> str:
        """Clean text without them."""
        if self._trees is not None:
            text = self._trees.sub(lambda found: "" if found[0].endswith("/") else ".", text)
        return _HOME.sub("~", _OURS.sub("", text))


def prose(text: str, *, most: int | None = None) -> str:
    """Untrusted text as one line of prose, in a table or out of it; clipped to ``most`` cells."""
    escaped = clean(text, most).translate(_MARKUP)
    escaped = _ALIVE.sub(lambda found: f"{found[0]}&#8203;", escaped)
    return _LEADING.sub(lambda found: f"&#8203;{found[0]}" if found[0][0].isdigit() else f"\\{found[0]}", escaped)


def code(text: str, *, most: int | None = None) -> str:
    """Untrusted text as code, in a table or out of it, which nothing inside can end; empty text gives nothing."""
    shown = clean(text, most)
    if not shown:
        return ""
    if (
        "|" in shown
    ):  # in a table a code span cannot hold a bar after a backslash: https://github.github.com/gfm/#tables
        return f"<code>{prose(shown)}</code>".replace("\\|", "&#124;")
    fence = "`" * (1 + max((len(run) for run in re.findall(r"`+", shown)), default=0))
    pad = " " if shown[0] == "`" or shown[-1] == "`" else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def link(url: str, text: str) -> str:
    """A link to an address that a forge gave us, with words of ours; what is no plain web address is shown as code."""
    if re.fullmatch(r"https?://[A-Za-z0-9.:-]+(?:/[A-Za-z0-9._~%/-]*)?(?:#[A-Za-z0-9._-]*)?", url) is None:
        return f"{text} {code(url)}"
    return f"[{text}]({url})"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[int] = ()) -> list[str]:
    """A table of cells that are Markdown already; ``right`` are the columns of numbers."""
    rule = ["---:" if column in right else "---" for column in range(len(head))]
    return [_row(head), f"|{'|'.join(rule)}|", *map(_row, rows)]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
