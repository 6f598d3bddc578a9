"""The environment of what we start: an allow-list for minds and checks, all but git's and tmux's own for steps."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping

PASSED = (
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LC_*",
    "TERM",
    "TZ",
    "TMPDIR",
    "XDG_*",
    "*_proxy",
    "*_PROXY",
    "VIRTUAL_ENV",
    "GIT_AUTHOR_*",
    "GIT_COMMITTER_*",
    "GIT_SSH_COMMAND",
    "SSH_AUTH_SOCK",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
)
"""Patterns of the variables that minds and checks get. A secret comes in only by the name that a person configured."""
NEVER = ("TMUX", "TMUX_*", "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_CONFIG*", "ORCHCONVERGE_*")
DEFAULTS = {"PATH": "/usr/local/bin:/usr/bin:/bin", "TERM": "dumb"}


def allowed(env: Mapping[str, str], *, also: Iterable[str] = ()) -> dict[str, str]:
    """The part of ``env`` that a mind or a check gets."""
    patterns = (*PASSED, *also)
    kept = {
        name: value
        for name, value in env.items()
        if any(fnmatch.fnmatchcase(name, p) for p in patterns) and not any(fnmatch.fnmatchcase(name, p) for p in NEVER)
    }
    return {**DEFAULTS, **kept}


def for_steps(env: Mapping[str, str]) -> dict[str, str]:
    """What a step gets: a person's whole environment but for what would point git or tmux elsewhere."""
    kept = {n: v for n, v in env.items() if not any(fnmatch.fnmatchcase(n, p) for p in NEVER[:-1])}
    return {**DEFAULTS, **kept}
