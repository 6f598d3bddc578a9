"""Who drives which basin, and who may move a target: locks that are files, held as long as their holder lives.

Locks are taken in this order and given back in the opposite one; nobody takes one that stands above one he holds:

1. ``lease/<basin>``: the basin's controller, for life. The kernel gives it back when the process is gone; no pid is read.
2. ``copilot/<target>``: one step `copilot`, so that two of them do not answer the same comment.
3. ``graft/<target>``: from the gate to the ref update and its fact.
4. ``spawn``: around adding a worktree and the check of ``max_minds``, memory, disk and budget, of all basins.
5. ``ledger``: one append (`orchconverge.adapters.ledger`).
6. ``export``: one rewrite of `convergence_state.json`, after ``ledger`` was given back (`orchconverge.adapters.export`).
7. ``notified``: one look at who was told of what, after the others of one append (`orchconverge.adapters.notify`).
"""

from __future__ import annotations

import fcntl
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from orchconverge.errors import Failed, Refused
from orchconverge.files import OwnLock, open_own, own_folder

_LONGEST: Final = 120


def lock_path(folder: Path, name: str) -> Path:
    """The file of a lock. ``kind/rest`` is nested once; what is no letter, digit or one of ``._-`` becomes ``%XX``.

    Different names have different files. Raises `ValueError` for a name without a kind or without a rest.
    """
    kind, slash, rest = name.partition("/")
    if not kind or (slash and not rest):
        raise ValueError(f"{name!r} names no lock")
    return folder / _slug(kind) / _slug(rest) if slash else folder / _slug(kind)


def _slug(text: str) -> str:
    raw = os.fsencode(text)
    safe = re.sub(rb"[^A-Za-z0-9._-]|^\.", lambda found: b"%%%02X" % found[0][0], raw).decode("ascii")
    if len(safe) <= _LONGEST:
        return safe
    import hashlib  # 3 ms, and only for a name that is too long

    return f"{safe[:_LONGEST]}%{hashlib.sha256(raw).hexdigest()[:32]}"


def tell(text: str) -> None:
    """Say on stderr what is waited for."""
    print(text, file=sys.stderr, flush=True)


class FileLock:
    """A lock that is held until `release`, or until the process is gone."""

    def __init__(self, lock: OwnLock) -> None:
        self._lock = lock

    def release(self) -> None:
        """Give it back; a second time is not an error."""
        self._lock.close()

    def __enter__(self) -> FileLock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class FileLocks:
    """Locks in ``<folder>/locks``; ``waiting`` is told, once a wait, what is waited for."""

    def __init__(self, folder: Path, *, waiting: Callable[[str], None] = tell) -> None:
        self._folder = folder / "locks"
        self._waiting = waiting

    def take(self, name: str, *, wait_seconds: float = 0.0) -> FileLock | None:
        """Take ``name``; ``None`` if somebody holds it until ``wait_seconds`` are over, and for at least 0.2 s.

        Raises `Refused` where the lock is no file of ours, and `Failed` where none can be made.
        """
        path = lock_path(self._folder, name)
        lock = OwnLock(path)
        try:
            own_folder(path.parent)
            taken = lock.take(
                wait_seconds=wait_seconds,
                waiting=lambda: self._waiting(f"waiting for the lock {name}: another orchconverge process holds it"),
            )
        except OSError as error:
            raise Failed(
                f"the lock {path} cannot be taken: {error.strerror}",
                hint="make room there, or choose another place with ORCHCONVERGE_STATE_DIR",
            ) from error
        if not taken:
            lock.close()
            return None
        return FileLock(lock)

    def held(self, name: str) -> bool | None:
        """Whether somebody holds ``name``, this process included; ``None`` if it cannot be told. Makes nothing."""
        try:
            fd = open_own(lock_path(self._folder, name), os.O_RDONLY)
        except FileNotFoundError:
            return False
        except (OSError, Refused):
            return None
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return None
        finally:
            os.close(fd)  # and the probe's lock with it
        return False
