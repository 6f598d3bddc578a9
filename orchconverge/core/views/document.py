"""A document before it is Markdown or HTML: blocks of lines, in which the words of others are told from ours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from orchconverge.core.report_record import CandidateReported, Point, Span


class Quoted(NamedTuple):
    """Text of others, shown as words and never as markup; clipped to ``most`` cells."""

    text: str
    most: int | None = None


class Code(NamedTuple):
    """Text of others as code."""

    text: str
    most: int | None = None


class Link(NamedTuple):
    """A link to an address that a forge gave us, with words of ours; what is no plain web address is shown as code."""

    url: str
    words: str


class Strong(NamedTuple):
    """Words of ours that stand out."""

    words: str


Word = str | Quoted | Code | Link | Strong
"""A plain string is ours, and holds nothing that is markup anywhere."""
Line = tuple[Word, ...]


class Heading(NamedTuple):
    """A title: level 1 is the document's."""

    level: int
    line: Line


class Paragraph(NamedTuple):
    """One paragraph; ``quoted``: it is somebody else's."""

    line: Line
    quoted: bool = False


class Items(NamedTuple):
    """A list; ``numbered``: in this order."""

    lines: Sequence[Line]
    numbered: bool = False


class Table(NamedTuple):
    """A table; ``right`` are its columns of numbers. Without words in the head the first column is one of names."""

    head: Sequence[str]
    rows: Sequence[Sequence[Line]]
    right: Sequence[int] = ()


class Progress(NamedTuple):
    """A chart of the criteria met on the target, by attempt, against the ``whole`` of them."""

    points: Sequence[Point]
    whole: int


class Timeline(NamedTuple):
    """A chart of when what ran."""

    spans: Sequence[Span]


class Grafts(NamedTuple):
    """A chart of what the minds made and what was taken of it; ``start`` is the commit that all began from."""

    candidates: Sequence[CandidateReported]
    start: str
    whole: int


Chart = Progress | Timeline | Grafts
Block = Heading | Paragraph | Items | Table | Chart
Document = Sequence[Block]


def line(*words: Word) -> Line:
    """A line without its empty words."""
    return tuple(word for word in words if word != "")


def joined(lines: Sequence[Line], by: str) -> Line:
    """Lines as one, with ``by`` between them."""
    out: list[Word] = []
    for each in lines:
        out += [by, *each] if out else each
    return tuple(out)
