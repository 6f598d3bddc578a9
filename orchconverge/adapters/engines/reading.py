"""How an engine's output is read: by the line, bounded, and believing no type.

Output comes from a program we do not control: cut in the middle, of another version, or written by a mind that wants to
be misread. So nothing here raises, and what does not fit is left out.
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import msgspec

LONGEST_LINE_BYTES = 4 << 20
LONGEST_TEXT = 2000
LONGEST_WORD, MOST_WORDS = 500, 10
MOST_LISTED = 20

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def lines(log: bytes) -> Iterator[bytes]:
    """The lines that are not blank, without their ends; one over `LONGEST_LINE_BYTES` is left out, not copied."""
    start = 0
    while start < len(log):
        end = log.find(b"\n", start)
        end = len(log) if end < 0 else end
        if end - start <= LONGEST_LINE_BYTES and (line := log[start:end].strip()):
            yield line
        start = end + 1


def record(line: bytes) -> dict[str, object] | None:
    """The JSON object that a line is, or ``None``."""
    if not line.startswith(b"{"):
        return None
    try:
        found = msgspec.json.decode(line)
    except (ValueError, RecursionError):  # msgspec's own errors are ValueErrors
        return None
    return found if isinstance(found, dict) else None


def part(of: object, *keys: str) -> object:
    """What lies below ``keys``, ``None`` if it is missing or on the way something is no object."""
    for key in keys:
        if not isinstance(of, dict):
            return None
        of = of.get(key)
    return of


def text(value: object, *, most: int = LONGEST_TEXT) -> str:
    """``value`` if it is text: without escape sequences, control characters and lone surrogates, at most so long."""
    if not isinstance(value, str):
        return ""
    clean = _CONTROLS.sub("", _ESCAPES.sub("", value[: 4 * most].replace("\r\n", "\n"))).strip()
    return clean if len(clean) <= most else f"{clean[: most - 1]}…"


def count(value: object) -> int:
    """``value`` if it is a whole number of tokens, else 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53 else 0


def amount(value: object) -> float | None:
    """``value`` if it is a number of dollars."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def moment(value: object) -> datetime | None:
    """The UTC time that ``value`` means: seconds or milliseconds since 1970, or ISO 8601 with a zone."""
    try:
        if isinstance(value, str):
            found = datetime.fromisoformat(value)
            return found.astimezone(UTC) if found.tzinfo else None
        number = amount(value)
        if not number:
            return None
        return datetime.fromtimestamp(number / 1000 if number > 1e11 else number, UTC)
    except (ValueError, OverflowError, OSError):
        return None


class Words:
    """The last lines that are no JSON object: they have an error to tell, or are half of one."""

    def __init__(self) -> None:
        self._lines: deque[bytes] = deque(maxlen=MOST_WORDS)
        self._newest = 0

    def hear(self, line: bytes) -> None:
        """A line; half an object is no word."""
        if not line.startswith(b"{"):
            self._lines.append(line[: 4 * LONGEST_WORD])
            self._newest += 1

    def passed(self) -> None:
        """An object came: what was heard before it ended nothing."""
        self._newest = 0

    @property
    def heard(self) -> list[str]:
        """The lines, oldest first."""
        return [text(line.decode("utf-8", "replace"), most=LONGEST_WORD) for line in self._lines]

    @property
    def last(self) -> str:
        """All of them, one below the other."""
        return text("\n".join(self.heard))

    @property
    def newest(self) -> str:
        """Those after the last object, one below the other: what a program says as it starts explains no end."""
        return text("\n".join(self.heard[-self._newest :] if self._newest else ()))


def fed(log: bytes, take: Callable[[dict[str, object]], None]) -> Words:
    """Give each JSON object of an output to ``take``, in order; the lines that are none come back."""
    words = Words()
    for line in lines(log):
        found = record(line)
        if found is None:
            words.hear(line)
        else:
            take(found)
            words.passed()
    return words
