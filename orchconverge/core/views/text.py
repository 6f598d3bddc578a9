"""The one sanitizer of untrusted text, its width in cells, and how amounts and times are said."""

from __future__ import annotations

import re
import unicodedata
from datetime import UTC, datetime
from typing import Final

ELLIPSIS: Final = "…"
DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
MARKS_AT_MOST: Final = 3
"""Combining marks on one letter. More is no script, it is a stack that runs over the lines above."""

# ECMA-48 sequences in both encodings; one that does not end loses its beginning only, so that it cannot hide the rest.
_SEQUENCE: Final = re.compile(
    r"(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x80-\x9f]*(?:\x07|\x1b\\|\x9c)"
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"
    r"|\x1b[ -/]*[0-~]?"
)
_UNSEEN: Final = frozenset(  # draw nothing, though their category says that they are letters or marks
    (0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2065, 0x3164, 0xFFA0, *range(0x180B, 0x1810), *range(0xFE00, 0xFE10))
)


def clean(text: str, cells: int | None = None, *, keep: str = "") -> str:
    r"""Make untrusted text harmless: no escape sequence, control, bidi or zero-width character is left.

    One line, its white space folded, unless ``keep`` names control characters that may stay (``"\n\t"``). With ``cells``
    it is clipped to that width, by an ellipsis. What cannot be stored (a lone surrogate) becomes U+FFFD.
    """
    if cells is not None:
        text = text[: 4096 + 8 * cells]  # so that the first line of a long goal costs as much as a short one's
    if not (text.isascii() and text.isprintable()):
        text = _harmless(_SEQUENCE.sub("", text), keep)
    if not keep:
        text = (re.sub("  +", " ", text) if "  " in text else text).strip(" ")
    return text if cells is None else clip(text, cells)


def _harmless(text: str, keep: str) -> str:
    out: list[str] = []
    marks = 0
    for char in text:
        code = ord(char)
        if 0x20 <= code < 0x7F or char in keep:
            marks = 0
            out.append(char)
            continue
        kind = unicodedata.category(char)
        if kind in ("Mn", "Me"):
            marks += 1
            if marks <= MARKS_AT_MOST and not _unseen(code):
                out.append(char)
            continue
        if kind == "Zs" or kind in ("Zl", "Zp") or char in "\t\n\v\f\r\x1c\x1d\x1e\x1f\x85":
            out.append(" ")
        elif kind == "Cs":
            out.append("\N{REPLACEMENT CHARACTER}")
        elif kind not in ("Cc", "Cf") and not _unseen(code):
            out.append(char)
        else:
            continue
        marks = 0
    return "".join(out)


def _unseen(code: int) -> bool:
    """Whether it is ignorable by default (Unicode, DerivedCoreProperties) or no character at all."""
    return (
        code in _UNSEEN
        or 0xE0000 <= code <= 0xE0FFF
        or 0xFFF0 <= code <= 0xFFF8
        or 0xFDD0 <= code <= 0xFDEF
        or code & 0xFFFE == 0xFFFE
    )


def tail(text: str, most_bytes: int) -> str:
    """The end of some output, harmless, its lines kept, at most ``most_bytes`` long in UTF-8."""
    kept = clean(text[-4 * most_bytes :].replace("\r\n", "\n"), keep="\n\t").strip("\n")
    return kept.encode()[-most_bytes:].decode("utf-8", "ignore")


def cells(text: str) -> int:
    """How many cells clean text takes on a terminal."""
    return len(text) if text.isascii() else sum(map(_width, text))


def _width(char: str) -> int:
    code = ord(char)
    if code < 0x300:
        return 1
    if unicodedata.category(char) in ("Mn", "Me") or 0x1160 <= code <= 0x11FF or 0xD7B0 <= code <= 0xD7FF:
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def clip(text: str, most: int, *, ellipsis: str = ELLIPSIS) -> str:
    """Clean text in at most ``most`` cells; what is left out is shown by an ellipsis."""
    if cells(text) <= most:
        return text
    if most <= len(ellipsis):
        return ellipsis[: max(0, most)]
    room, used, at = most - len(ellipsis), 0, 0
    for at, char in enumerate(text):  # noqa: B007 - where it stops is what is asked
        used += _width(char)
        if used > room:
            break
    return text[:at].rstrip() + ellipsis


def to_ascii(text: str) -> str:
    """The same text for a terminal without UTF-8."""
    return text.replace(ELLIPSIS, "..").encode("ascii", "replace").decode()


# --- amounts and times -----------------------------------------------------------------------------------------------


def duration(seconds: float) -> str:
    """``41s``, ``2m 37s``, ``1h 23m``. Never negative, rounded down."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02d}s"
    return f"{whole // 3600}h {whole % 3600 // 60:02d}m"


def age(seconds: float) -> str:
    """``now`` under a minute, else one number: ``14m``, ``3h``, ``2d``."""
    whole = max(0, int(seconds))
    if whole < 60:
        return "now"
    if whole < 3600:
        return f"{whole // 60}m"
    return f"{whole // 3600}h" if whole < 86400 else f"{whole // 86400}d"


def clock(at: datetime, now: datetime, *, seconds: bool = False) -> str:
    """A time of day in the zone of ``now``, with the day when that is not today."""
    here = at.astimezone(now.tzinfo)
    time = f"{here:%H:%M:%S}" if seconds else f"{here:%H:%M}"
    days = abs((here.date() - now.date()).days)
    if days == 0:
        return time
    if days < 7:
        return f"{DAYS[here.weekday()]} {time}"
    return f"{here.day} {MONTHS[here.month - 1]} {time}"


def iso(at: datetime | None) -> str | None:
    """UTC to the second, ``2026-11-29T14:00:00Z``."""
    return None if at is None else f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def tokens(count: int) -> str:
    """``950``, ``188k``, ``1.2M``."""
    if count < 1000:
        return str(count)
    return f"{count // 1000}k" if count < 1_000_000 else f"{count / 1_000_000:.1f}M"


def counted(count: int, noun: str, plural: str = "") -> str:
    """``1 line``, ``2 lines``."""
    return f"{count} {noun}" if count == 1 else f"{count} {plural or noun + 's'}"
