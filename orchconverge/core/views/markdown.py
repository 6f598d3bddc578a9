"""Untrusted text in Markdown: it stays text. No markup, link, mention, reference or HTML of it comes to life on a forge.

A forge looks for mentions, references and addresses in the rendered text, so that escapes of Markdown alone do not stop
it; a zero-width space, written as an entity, does (Renovate and Dependabot do the same).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from orchconverge.core.secrets import masked
from orchconverge.core.views.document import (
    Block,
    Chart,
    Code,
    Document,
    Heading,
    Items,
    Line,
    Link,
    Paragraph,
    Quoted,
    Strong,
    Table,
    Word,
)
from orchconverge.core.views.text import clean, clip

ADDRESS: Final = re.compile(r"https?://[A-Za-z0-9.:-]+(?:/[A-Za-z0-9._~%/-]*)?(?:#[A-Za-z0-9._-]*)?")
"""A plain web address: all that becomes a link."""
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


def _shown(text: str, most: int | None) -> str:
    """Text as it may be seen: a secret has no shape any more once it is clipped or its underlines are escaped."""
    kept = masked(clean(text))
    return kept if most is None else clip(kept, most)


def prose(text: str, *, most: int | None = None) -> str:
    """Untrusted text as one line of prose, in a table or out of it; clipped to ``most`` cells."""
    escaped = _shown(text, most).translate(_MARKUP)
    escaped = _ALIVE.sub(lambda found: f"{found[0]}&#8203;", escaped)
    return _LEADING.sub(lambda found: f"&#8203;{found[0]}" if found[0][0].isdigit() else f"\\{found[0]}", escaped)


def code(text: str, *, most: int | None = None) -> str:
    """Untrusted text as code, in a table or out of it, which nothing inside can end; empty text gives nothing."""
    shown = _shown(text, most)
    if not shown:
        return ""
    # In a table a code span cannot hold a bar after a backslash: https://github.github.com/gfm/#tables
    # And a marker of ours that somebody wrote as the name of a file or of a check is not to be found in what we wrote.
    if "|" in shown or "<!--" in shown:
        return f"<code>{prose(shown)}</code>".replace("\\|", "&#124;")
    fence = "`" * (1 + max((len(run) for run in re.findall(r"`+", shown)), default=0))
    pad = " " if shown[0] == "`" or shown[-1] == "`" else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def link(url: str, text: str) -> str:
    """A link to an address that a forge gave us, with words of ours; what is no plain web address is shown as code."""
    if ADDRESS.fullmatch(url) is None:
        return f"{text} {code(url)}"
    return f"[{text}]({url})"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[int] = ()) -> list[str]:
    """A table of cells that are Markdown already; ``right`` are the columns of numbers."""
    rule = ["---:" if column in right else "---" for column in range(len(head))]
    return [_row(head), f"|{'|'.join(rule)}|", *map(_row, rows)]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


# --- documents -------------------------------------------------------------------------------------------------------


def printed(document: Document, chart: Callable[[Chart], str]) -> str:
    """A document as Markdown; ``chart`` prints its charts."""
    return "\n\n".join(_block(block, chart) for block in document) + "\n"


def _block(block: Block, chart: Callable[[Chart], str]) -> str:
    match block:
        case Heading():
            return f"{'#' * block.level} {_line(block.line)}"
        case Paragraph():
            return f"> {_line(block.line)}" if block.quoted else _line(block.line)
        case Items():
            marks = [f"{number}." if block.numbered else "-" for number in range(1, len(block.lines) + 1)]
            return "\n".join(f"{mark} {_line(each)}" for mark, each in zip(marks, block.lines, strict=True))
        case Table():
            return "\n".join(
                table(block.head, [[_line(cell) for cell in row] for row in block.rows], right=block.right)
            )
        case _:
            return chart(block)


def _line(words: Line) -> str:
    return "".join(map(_word, words))


def _word(word: Word) -> str:
    match word:
        case Quoted():
            return prose(word.text, most=word.most)
        case Code():
            return code(word.text, most=word.most)
        case Link():
            return link(word.url, word.words)
        case Strong():
            return f"**{word.words}**"
        case str():
            return word
