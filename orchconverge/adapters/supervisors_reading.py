"""What `pane.py` leaves in the folder of a run, read back: who claimed it, how it ended, what it printed."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO, Final, Literal, TypeVar

import msgspec
from msgspec import Struct

from orchconverge.core.values import Process
from orchconverge.files import open_inside
from orchconverge.ports import Exit

VERSION: Final = 1
"""Of spec and records."""
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # to open a pipe would wait for its writer
_NO_FILE: Final = (errno.ELOOP, errno.ENXIO)
"""What opening a link or a socket fails with."""
_RECORD_BYTES: Final = 1 << 20
LEFT_OUT: Final = b"\n[orchconverge: output is left out here]\n"
"""What stands where parts are gone."""
_T = TypeVar("_T")


class Odd(ValueError):
    """What is there was written by no supervisor."""


class _Claim(Struct):
    """`running.json`, as far as it is asked."""

    boot_id: str
    pid: int
    start: int

    @property
    def process(self) -> Process:
        return Process(boot=self.boot_id, pid=self.pid, start=self.start)


class _Record(Struct):
    """`exit.json`, as far as it is asked."""

    reason: Literal["exited", "deadline", "killed", "refused"]
    code: int | None
    signal: int | None
    seconds: float
    started_at: float | None
    ended_at: float
    bytes: int
    truncated: bool
    error: str | None
    leftover: list[tuple[int, str]]
    survivors: list[tuple[int, str, str]]
    lingered: bool
    idle: bool

    def exit(self) -> Exit:
        return Exit(
            reason=self.reason,
            code=self.code,
            signal=self.signal,
            seconds=self.seconds,
            started_at=self.started_at or 0.0,
            ended_at=self.ended_at,
            bytes=self.bytes,
            truncated=self.truncated,
            error=self.error or "",
            leftover=tuple(f"{name} ({pid})" for pid, name in self.leftover),
            survivors=tuple(f"{name} ({pid}, {state})" for pid, name, state in self.survivors),
            lingered=self.lingered,
            idle=self.idle,
        )


def running(folder: Path) -> Process | None:
    """The supervisor that claimed the run, if one did. Raises `Odd`, and `OSError` where it cannot be asked."""
    data = _read(folder / "running.json")
    return _decode(data, _Claim).process if data is not None else None


def ended(folder: Path) -> Exit | None:
    """How the run ended, if that is on record: it is the record of a run only once its lock is free. Raises as `running`."""
    data = _read(folder / "exit.json")
    return _decode(data, _Record).exit() if data is not None else None


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file, never through a link and never waiting for a pipe's writer. Raises `OSError` and `Odd`."""
    return _regular(os.open(path, _READ), path)


def open_below(folder: Path, file: str) -> BinaryIO:
    """As `open_regular` the file ``part/file`` in a folder, which is reached through no link either."""
    return _regular(open_inside(folder, file, os.O_RDONLY), folder / file)


def _regular(fd: int, path: Path) -> BinaryIO:
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise Odd(f"{path} is not a regular file")
    return os.fdopen(fd, "rb")


def log(folder: Path, limit: int) -> bytes:
    """Raw output, joined from its parts, at most ``limit`` bytes and a marker. Raises `OSError`, `ValueError` for odd files.

    `FileNotFoundError` also if the log went on to its next part meanwhile: then ask again.
    """
    numbers = sorted(int(path.suffix[1:]) for path in folder.glob("log.tail.*"))[-2:]
    paths = [folder / "log.head", *(folder / f"log.tail.{number}" for number in numbers)]
    sizes = [path.stat().st_size for path in paths]
    gap = bool(numbers) and numbers[0] > 0
    if not gap and sum(sizes) <= limit:
        return b"".join(_slice(path, 0, limit) for path in paths)
    front = _slice(paths[0], 0, max(limit // 2, limit - sum(sizes[1:])) if gap else limit // 2)
    back, room = b"", limit - len(front)
    for path, size in reversed(list(zip(paths, sizes, strict=True))[1 if gap else 0 :]):
        first = len(front) if path == paths[0] else 0
        back = _slice(path, max(first, size - room + len(back)), room - len(back)) + back
    return front + LEFT_OUT + back.partition(b"\n")[2]


def _slice(path: Path, first: int, length: int) -> bytes:
    with open_regular(path) as file:
        file.seek(first)
        return file.read(max(0, length))


def _read(path: Path) -> bytes | None:
    """Read a record of ours; ``None`` if there is none. Raises as `running` does."""
    try:
        file = open_regular(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in _NO_FILE:
            raise Odd(f"{path}: {error.strerror}") from error
        raise
    with file:
        if os.fstat(file.fileno()).st_uid != os.geteuid():
            raise Odd(f"{path} belongs to another user")
        return file.read(_RECORD_BYTES)


class _Versioned(Struct):
    v: int


def _decode(data: bytes, type: type[_T]) -> _T:
    try:
        if (version := msgspec.json.decode(data, type=_Versioned).v) != VERSION:
            raise Odd(f"a record of version {version}")
        return msgspec.json.decode(data, type=type)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Odd(f"it is not what a supervisor writes: {error}") from error
