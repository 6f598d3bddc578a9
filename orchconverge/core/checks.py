"""What a failed check says of itself, in a text that is bounded, harmless, and the same when it fails the same way again."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from orchconverge.core.secrets import masked
from orchconverge.core.views.text import clean, clip

MOST_WORDS: Final = 600
MOST_REMARKS, MOST_PATH, MOST_REMARK = 8, 100, 200
"""How many remarks are told, and characters of the path and the text of each."""
MOST_LINES, MOST_LINE = 30, 150
"""How many lines of the end of a log are told, and characters of each. No bytes: their number differs from run to run."""
_STAMP: Final = re.compile(r"^\d{4}-\d\d-\d\dT[\d:.]+Z ?", re.MULTILINE)
"""What a runner of GitHub writes before each line."""
_ERROR: Final = "##[error]"
"""What it writes before the last line of what failed; behind that it only cleans up."""
_VARIES: Final = re.compile(r"\b\d+(?:\.\d+)?(?:ms|s|m|h)?\b|\b[0-9a-f]*\d[0-9a-f]*\b")


def text(
    name: str, said: str, *, words: str = "", remarks: Sequence[tuple[str, int | None, str]] = (), log: str = ""
) -> str:
    """The check and how it ended, its own ``words``, its ``remarks`` as path, line and text, and the end of its ``log``.

    Controls are taken out first, then secrets, and only then it is cut: in pieces a secret has no shape.
    """
    lines = [f"{clean(name, 200)}: {clean(said, 60)}"]
    if words.strip():
        lines.append(_harmless(words).strip()[:MOST_WORDS])
    for path, line, remark in remarks[:MOST_REMARKS]:
        at = f"{clean(path, MOST_PATH)}:{line}" if line is not None else clean(path, MOST_PATH)
        lines.append(f"{at}: {clip(masked(clean(remark)), MOST_REMARK)}")
    if ended := end_of_log(log):
        lines += ["The end of its log:", ended]
    return "\n".join(lines)


def end_of_log(log: str) -> str:
    """The last lines of a log up to the last error, without what a runner writes before each."""
    plain = _STAMP.sub("", _harmless(log))
    before, found, after = plain.rpartition(_ERROR)
    if found:
        plain = before + found + after.partition("\n")[0]
    lines = [clip(line.rstrip(), MOST_LINE) for line in plain.split("\n") if line.strip()]
    return "\n".join(lines[-MOST_LINES:])


def _harmless(text: str) -> str:
    return masked(clean(text.replace("\r\n", "\n"), keep="\n\t"))


def alike(text: str) -> str:
    """The words of such a text, without what differs from run to run: numbers, times, ids."""
    return " ".join(re.findall(r"\w+", _VARIES.sub("0", text.lower())))
