"""The environment of what we start: an allow-list for minds and checks, all but git's and tmux's own for steps."""

from __future__ import annotations

import fnmatch
import hashlib
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
FIRST_PORT, PORTS, RANGES = 20_010, 10, 1_259
"""Ranges of ports for minds: all below 32768, where Linux takes its own from. Their number is prime: see `ports`."""


def allowed(env: Mapping[str, str], *, also: Iterable[str] = ()) -> dict[str, str]:
    """The part of ``env`` that a mind or a check gets."""
    patterns = (*PASSED, *also)
    kept = {
        name: value
        for name, value in env.items()
        if any(fnmatch.fnmatchcase(name, p) for p in patterns) and not any(fnmatch.fnmatchcase(name, p) for p in NEVER)
    }
    return {**DEFAULTS, **kept}


def ports(branch: str, *, where: str) -> str:
    """The ports that a mind may listen on, ``FIRST-LAST``, ten of them: no other's of the last 1,000 of its basin.

    ``where`` tells repositories apart. The number of ``branch`` cannot be read off it: ranges are dealt in an order of
    the basin's own, each once before any comes again, as step and number of ranges have no common divisor.
    """
    basin, _, number = branch.rpartition(".")
    digest = hashlib.sha256(f"{where}\0{basin}".encode("utf-8", "surrogateescape")).digest()
    begin, step = int.from_bytes(digest[:8]), 2 + int.from_bytes(digest[8:16]) % (RANGES - 3)
    first = FIRST_PORT + PORTS * ((begin + step * int(number)) % RANGES)
    return f"{first}-{first + PORTS - 1}"


def in_worktree(branch: str, *, where: str) -> dict[str, str]:
    """What a mind in a worktree of its own gets besides: its `ports`, and commits that ask nobody for a key.

    Its commits are squashed into one of ours. In place they stay on a person's branch, as that person's settings want them.
    """
    unsigned = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "commit.gpgSign", "GIT_CONFIG_VALUE_0": "false"}
    return {"ORCHCONVERGE_PORTS": ports(branch, where=where), **unsigned}


def for_steps(env: Mapping[str, str]) -> dict[str, str]:
    """What a step gets: a person's whole environment but for what would point git or tmux elsewhere."""
    kept = {n: v for n, v in env.items() if not any(fnmatch.fnmatchcase(n, p) for p in NEVER[:-1])}
    return {**DEFAULTS, **kept}
