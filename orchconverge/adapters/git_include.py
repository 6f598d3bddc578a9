"""`.worktreeinclude`: untracked files that a fresh tree needs (`.env`, a local config) are copied into it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from orchconverge.adapters.git_process import SLOW_SECONDS, Run
from orchconverge.errors import Refused
from orchconverge.files import write_inside

NAME = ".worktreeinclude"
MOST_BYTES = 32 << 20
MOST_FILES = 2000


def include(run: Run, root: Path, place: Path) -> tuple[str, ...]:
    """Copy what the patterns of ``root``'s file name (gitignore syntax) into ``place``; returns the copied paths.

    Regular files that git does not track only, no link is followed, 32 MiB a file and 2,000 files at most; a path that is
    there already stays as it is.
    """
    patterns = root / NAME
    if not patterns.is_file() or patterns.is_symlink():
        return ()
    asked = ["ls-files", "-z", "--others", "--ignored", f"--exclude-from={patterns}"]
    listed = os.fsdecode(run(asked, cwd=root, deadline_seconds=SLOW_SECONDS).out).split("\0")[:-1]
    copied = []
    for path in listed[:MOST_FILES]:
        source = root / path
        found = source.lstat()
        if not stat.S_ISREG(found.st_mode) or found.st_size > MOST_BYTES or os.path.lexists(place / path):
            continue
        try:
            write_inside(place, path, source.read_bytes())
            (place / path).chmod(stat.S_IMODE(found.st_mode))
        except (Refused, OSError):
            continue
        copied.append(path)
    return tuple(copied)
