"""What minds may run: the git verbs of daily work, and the commands that the person or the criteria name."""

from __future__ import annotations

import re
from collections.abc import Iterable

GIT = ("status", "diff", "log", "show", "add", "commit", "rm", "mv")

CLAUDE_RULE = re.compile(r"(?:[A-Z]\w*|mcp__[\w-]+)(?:\(.*\))?", re.DOTALL)
"""`allow` may hold rules in Claude's own words beside the beginnings of commands."""
_BASH = re.compile(r"Bash\((.+?)(?::\*|\s*\*)?\)", re.DOTALL)


def commands(allow: Iterable[str]) -> tuple[str, ...]:
    """The beginnings of the commands that are granted."""
    found = [f"git {verb}" for verb in GIT]
    for words in filter(None, map(str.strip, allow)):
        shell = _BASH.fullmatch(words)
        if shell or not CLAUDE_RULE.fullmatch(words):
            found.append(shell[1] if shell else words)
    return tuple(dict.fromkeys(found))
