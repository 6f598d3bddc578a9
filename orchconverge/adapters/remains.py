"""Folders of supervised runs and outputs of checks, as they lie on disk, and the only code that takes one away."""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from orchconverge.ports.remains import Left

_RUN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_OUTPUT: Final = re.compile(r"[0-9a-f]{32}\.log")
_BLOCK_BYTES: Final = 512
"""The unit of ``st_blocks``, see stat(2)."""


class FileRemains:
    """Implements `orchconverge.ports.remains.Remains`: runs lie in ``runs/<kind>/<name>``, outputs in ``evidence``."""

    def __init__(self, *, runs: Path, evidence: Path) -> None:
        self._runs = runs
        self._evidence = evidence

    def folders(self, kind: str) -> list[Left]:
        """The folders of runs of a kind, by name; each is one run's."""
        return list(_listed(self._runs / kind, _RUN, stat.S_ISDIR))

    def outputs(self) -> list[Left]:
        """The outputs of checks that are kept for people."""
        return list(_listed(self._evidence, _OUTPUT, stat.S_ISREG))

    def size(self, path: Path) -> int:
        """Bytes that a file or a folder takes on disk, links not followed; 0 where that cannot be told."""
        return _size(path)

    def remove(self, left: Left) -> str:
        """Take exactly that away. Empty if it is gone, else in a phrase why it is not."""
        path, folder = left.path, left.path.parent != self._evidence
        try:
            if (folder and path.parent.parent != self._runs) or path.parent.resolve(strict=True) != _real(path.parent):
                return "it is not inside a folder of ours"
            found = path.lstat()
            same = (found.st_ino, found.st_mtime) == (left.inode, left.changed) and found.st_uid == os.geteuid()
            if not same or not (stat.S_ISDIR if folder else stat.S_ISREG)(found.st_mode):
                return "it is another one by now"
            if folder:
                shutil.rmtree(path)  # goes down by descriptors: a link that appears meanwhile is removed, not followed
            else:
                path.unlink()
        except FileNotFoundError:
            return "" if not os.path.lexists(path) else "it changes while it is removed"
        except OSError as error:
            return f"{error.strerror}: {error.filename}"
        return ""


def _real(folder: Path) -> Path:
    """The folder's own path with links above it followed, and itself not."""
    return folder.parent.resolve(strict=True) / folder.name


def _listed(folder: Path, name: re.Pattern[str], wanted: Callable[[int], bool]) -> Iterator[Left]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        try:
            found = entry.stat(follow_symlinks=False)
        except OSError:
            continue
        if name.fullmatch(entry.name) and wanted(found.st_mode) and found.st_uid == os.geteuid():
            path = folder / entry.name
            yield Left(path=path, inode=found.st_ino, bytes=_size(path), changed=found.st_mtime)


def _size(path: Path) -> int:
    try:
        found = path.lstat()
        below = os.scandir(path) if stat.S_ISDIR(found.st_mode) else ()
        return found.st_blocks * _BLOCK_BYTES + sum(_size(path / entry.name) for entry in below)
    except OSError:
        return 0
