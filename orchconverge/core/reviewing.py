"""What counts of what review minds find in a change: placed by git, scored by another mind.

The word of whoever found something decides nothing: a finding stands where its quote stands, on a line that the change
touches or with a link to one, and is kept if a mind that does not know how bad it was called scores it high enough.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Annotated, Final, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from orchconverge.core.judging import LEAST_QUOTE, inside
from orchconverge.core.overlap import Change
from orchconverge.core.secrets import masked
from orchconverge.core.views.text import clean

T = TypeVar("T")
Severity = Literal["critical", "important", "suggestion"]
Verdict = Literal["PASS", "MIXED", "REWORK"]

SEVERITIES: Final[tuple[Severity, ...]] = ("critical", "important", "suggestion")
KEPT_FROM: Final = 80
"""The least score, of 100, of a finding that is kept."""
NEAR: Final = 3
"""Lines that two findings of one title may be apart and still be one."""
MOST_ANSWER: Final = 256 << 10
MOST_FINDINGS: Final = 50
"""Findings of one track that are looked at."""
MOST_SCORED: Final = 60
"""Findings of all tracks that are scored, the worst first."""
MOST_TITLE, MOST_TEXT = 200, 2000
MOST_SPANS: Final = 200
"""Places of one quote that are looked at."""

_FILE = re.compile(r"^(?=diff --git )", re.MULTILINE)
_HUNK = re.compile(r"@@ -\d+(?:,\d+)? \+(\d+)")


class Causal(Struct, frozen=True, kw_only=True):
    """The changed line that makes an unchanged one wrong."""

    path: str
    line: int
    why: str = ""


class Finding(Struct, frozen=True, kw_only=True):
    """What a review mind says is wrong, at a line of the file as it is after the change."""

    path: Annotated[str, Meta(min_length=1, max_length=4096)]
    line: int
    severity: Severity
    title: Annotated[str, Meta(pattern=r"\S")]
    text: str = ""
    quote: str
    causal: Causal | None = None


class Placed(Struct, frozen=True, kw_only=True):
    """A finding whose quote stands, with the lines that it really is about. ``touched``: the change touches one of them."""

    finding: Finding
    track: str
    last: int
    touched: bool
    score: int = 0
    why: str = ""


# --- the answers -----------------------------------------------------------------------------------------------------


class Score(Struct, frozen=True, kw_only=True):
    """How sure the scorer is of the finding of that number. ``causal``: it saw the link to the change that this names."""

    finding: int
    score: Annotated[float, Meta(ge=0, le=100)]
    why: str = ""
    causal: bool = False


def findings(data: bytes | None) -> tuple[tuple[Finding, ...], int]:
    """What a track found, and how many entries could not be read. Raises `ValueError` that says why it is no answer."""
    listed = _listed(data, "findings")
    found = [one for each in listed[:MOST_FINDINGS] if (one := _converted(each, Finding)) is not None]
    return tuple(found), len(listed) - len(found)


def scores(data: bytes | None) -> Mapping[int, Score]:
    """Number of a finding -> its score, the lowest where there are several. Raises `ValueError`."""
    found: dict[int, Score] = {}
    for each in _listed(data, "scores")[:MOST_SCORED]:
        one = _converted(each, Score)
        if one is not None and (one.finding not in found or one.score < found[one.finding].score):
            found[one.finding] = one
    return found


def _listed(data: bytes | None, key: str) -> list[object]:
    if data is None or not data.strip():
        raise ValueError("it wrote no answer")
    if len(data) > MOST_ANSWER:
        raise ValueError(f"its answer is longer than {MOST_ANSWER >> 10} KiB")
    try:
        found = msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"))
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ValueError(f"its answer cannot be read: {clean(str(error), 150)}") from error
    listed = found.get(key) if isinstance(found, dict) else found
    if not isinstance(listed, list):
        raise ValueError(f"its answer has no list of {key}")
    return listed


def _converted(each: object, kind: type[T]) -> T | None:
    try:
        return msgspec.convert(each, kind)
    except (msgspec.MsgspecError, RecursionError):
        return None


# --- what counts -----------------------------------------------------------------------------------------------------

UNREAD, NO_QUOTE, UNTOUCHED = (
    "not in the form",
    "its quote does not stand there",
    "on lines that the change does not touch",
)
TOO_MANY = f"beyond the first {MOST_SCORED}"
TWICE, UNSCORED, LOW, NO_LINK = (
    "said twice",
    "not scored",
    f"scored below {KEPT_FROM}",
    "its link to the change not seen",
)


class Sifted(Struct, frozen=True, kw_only=True):
    """Findings that are still in, worst first, and how many were dropped, by reason."""

    kept: tuple[Placed, ...] = ()
    dropped: Mapping[str, int] = {}


def ground(changes: Sequence[Change], patch: str) -> Mapping[str, frozenset[int]]:
    """Changed path -> the lines that the change touches, as they are counted after it: added ones, and those beside a gap."""
    sections = iter(_FILE.split(patch)[1:])
    found: dict[str, frozenset[int]] = {}
    for change in changes:
        section = next(sections, "")
        if change.kind == "T":  # shown as one file that goes and one that comes
            section = next(sections, section)
        found[change.path] = frozenset(_touched(section))
    return found


def _touched(section: str) -> Iterable[int]:
    number: int | None = None
    removed = added = False
    for line in section.split("\n"):
        head = _HUNK.match(line)
        kind = line[:1]
        if number is not None and kind not in ("+", "-"):
            if removed and not added:
                yield from (number - 1, number)
            removed = added = False
        if head is not None:
            number = int(head[1])
        elif number is not None and kind == "+":
            yield number
            number, added = number + 1, True
        elif number is not None and kind == "-":
            removed = True
        elif number is not None and kind == " ":
            number += 1


def spans(quote: str, text: str) -> tuple[tuple[int, int], ...]:
    """Every place at which a quote stands in a text, as first and last line, from 1; white space is not counted."""
    wanted = "".join(quote.split())
    lines = ["".join(line.split()) for line in text.split("\n")]
    if not wanted:
        return ()
    if wanted in lines:
        whole = [number for number, line in enumerate(lines, 1) if line == wanted]
        return tuple((number, number) for number in whole[:MOST_SPANS])
    if len(wanted) < LEAST_QUOTE:
        return ()
    joined, ends = "".join(lines), list(accumulate(map(len, lines)))
    found: list[tuple[int, int]] = []
    at = joined.find(wanted)
    while at >= 0 and len(found) < MOST_SPANS:
        found.append((bisect_right(ends, at) + 1, bisect_right(ends, at + len(wanted) - 1) + 1))
        at = joined.find(wanted, at + 1)
    return tuple(found)


def sifted(
    found: Mapping[str, Sequence[Finding]],
    *,
    files: Mapping[str, str],
    touched: Mapping[str, frozenset[int]],
    roots: Mapping[str, str],
) -> Sifted:
    """What of the findings, by track, has its place: ``files`` are the tree's own, ``roots`` what each track knew it as."""
    kept: list[Placed] = []
    dropped: Counter[str] = Counter()
    everything = [(track, one) for track, listed in found.items() for one in listed]
    for track, one in sorted(everything, key=lambda each: SEVERITIES.index(each[1].severity)):
        path = inside(one.path, root=roots[track])
        standing = spans(one.quote, files[path]) if path in files else ()
        if not standing:
            dropped[NO_QUOTE] += 1
            continue
        lines = touched.get(path, frozenset())
        first, last = min(standing, key=lambda span: (abs(span[0] - one.line), lines.isdisjoint(_lines(span))))
        placed = Placed(
            finding=replace(one, path=path, line=first),
            track=track,
            last=last,
            touched=not lines.isdisjoint(_lines((first, last))),
        )
        if not placed.touched and not _linked(placed.finding, touched, roots[track]):
            dropped[UNTOUCHED] += 1
        elif any(_same(placed.finding, other.finding) for other in kept):
            dropped[TWICE] += 1
        elif len(kept) == MOST_SCORED:
            dropped[TOO_MANY] += 1
        else:
            kept.append(placed)
    return Sifted(kept=tuple(kept), dropped=dict(dropped))


def _lines(span: tuple[int, int]) -> range:
    return range(span[0], span[1] + 1)


def _linked(found: Finding, touched: Mapping[str, frozenset[int]], root: str) -> bool:
    return found.causal is not None and found.causal.line in touched.get(inside(found.causal.path, root=root), ())


def _same(one: Finding, other: Finding) -> bool:
    if one.path != other.path or abs(one.line - other.line) > NEAR:
        return False
    left, right = (set(re.findall(r"\w+", found.title.lower())) for found in (one, other))
    return left <= right or right <= left or 2 * len(left & right) >= len(left | right)


def scored(before: Sifted, answers: Mapping[int, Score]) -> Sifted:
    """What is left once another mind has scored what was placed, by number from 1 in that order."""
    kept: list[Placed] = []
    dropped = Counter(before.dropped)
    for number, one in enumerate(before.kept, 1):
        answer = answers.get(number)
        if answer is None:
            dropped[UNSCORED] += 1
        elif answer.score < KEPT_FROM:
            dropped[LOW] += 1
        elif not one.touched and not answer.causal:
            dropped[NO_LINK] += 1
        else:
            kept.append(replace(one, score=int(answer.score), why=answer.why))
    return Sifted(kept=tuple(kept), dropped=dict(dropped))


def verdict(kept: Sequence[Placed]) -> Verdict:
    """`REWORK` for one that is critical, `MIXED` for one that is important, else `PASS`."""
    found = {one.finding.severity for one in kept}
    return "REWORK" if "critical" in found else "MIXED" if "important" in found else "PASS"


def recorded(one: Placed) -> dict[str, object]:
    """A finding as the ledger and the result have it: bounded, clean, without what has the shape of a secret."""
    found = one.finding
    return {
        "path": found.path,
        "line": found.line,
        "severity": found.severity,
        "title": masked(clean(found.title, MOST_TITLE)),
        "text": masked(clean(found.text[:MOST_TEXT], keep="\n")),
        "track": one.track,
        "score": one.score,
        "why": masked(clean(one.why, MOST_TITLE)),
    }
