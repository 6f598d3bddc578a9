"""Reads `logs/*.log` on while they are written: first what older parts hold, then the newest, also when that is renamed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from orchconverge.files import open_own

OLDER: Final = 9
"""How many older parts are looked for: ``.9`` to ``.1``."""


class Tail:
    """A log from its beginning on. Its file need not be there yet."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd: int | None = None
        self._waiting = self._open_all()

    def more(self) -> bytes:
        """What was written since the last call, may end in half a line. Raises `OSError`, and `Refused` for what is not ours."""
        found = [self._rest(fd) for fd in self._waiting]
        for fd in self._waiting:
            os.close(fd)
        self._waiting = []
        if self._fd is None:
            self._fd = self._opened(self._path)
        if self._fd is not None:
            found.append(self._rest(self._fd))
            found.append(self._renamed(self._fd))
        return b"".join(found)

    def close(self) -> None:
        """Give the descriptors back."""
        for fd in (*self._waiting, *([self._fd] if self._fd is not None else [])):
            os.close(fd)
        self._waiting, self._fd = [], None

    def _open_all(self) -> list[int]:
        """Open all parts, the newest first: one that is renamed meanwhile is met again, and not read twice. Oldest first."""
        self._fd = self._opened(self._path)
        seen = {_identity(self._fd)} if self._fd is not None else set()
        older: list[int] = []
        for number in range(1, OLDER + 1):
            fd = self._opened(self._path.with_name(f"{self._path.name}.{number}"))
            if fd is None:
                break
            if _identity(fd) in seen:
                os.close(fd)
                continue
            seen.add(_identity(fd))
            older.insert(0, fd)
        return older

    def _opened(self, path: Path) -> int | None:
        try:
            return open_own(path, os.O_RDONLY)
        except FileNotFoundError:
            return None

    def _renamed(self, fd: int) -> bytes:
        """What another file at its place holds; then this one is read to its end and let go."""
        new = self._opened(self._path)
        if new is None:
            return b""
        if _identity(new) == _identity(fd):
            os.close(new)
            return b""
        last = self._rest(fd)
        os.close(fd)
        self._fd = new
        return last + self._rest(new)

    def _rest(self, fd: int) -> bytes:
        at, size = os.lseek(fd, 0, os.SEEK_CUR), os.fstat(fd).st_size
        if size < at:  # somebody emptied it
            os.lseek(fd, 0, os.SEEK_SET)
        blocks = []
        while block := os.read(fd, 1 << 20):
            blocks.append(block)
        return b"".join(blocks)


def _identity(fd: int) -> tuple[int, int]:
    info = os.fstat(fd)
    return info.st_dev, info.st_ino
