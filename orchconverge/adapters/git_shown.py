"""What `git status` makes of single files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from orchconverge.adapters.git_process import SLOW_SECONDS, run_git


def shown(root: Path, paths: Sequence[str]) -> dict[str, str]:
    """Path below a working tree's ``root`` -> git's two letters, ``??`` new, ``!!`` ignored; what is committed is left out.

    Raises `Failed`, and `Refused` where there is no git.
    """
    asked = [
        "status",
        "--porcelain",
        "-z",
        "--no-renames",
        "--untracked-files=all",
        "--ignored=traditional",
        "--",
        *paths,
    ]
    told = run_git(asked, cwd=root, stdin=None, deadline_seconds=SLOW_SECONDS, env={"GIT_LITERAL_PATHSPECS": "1"})
    if told.code:
        raise told.failure("status")
    return {os.fsdecode(line[3:]): line[:2].decode() for line in told.out.split(b"\0") if line}
