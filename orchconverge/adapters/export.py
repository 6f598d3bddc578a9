"""Writes `convergence_state.json`: an export for people and scripts, never read back as truth."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from orchconverge.core.target import BasinId
from orchconverge.errors import Refused
from orchconverge.files import OwnLock, open_own, own_folder, write_own

NAME: Final = "convergence_state.json"
KEPT: Final = 5
"""How many earlier exports stay in `backups/`."""
WAIT_SECONDS: Final = 2.0
_MOST_BYTES: Final = 64 << 20


class _Numbered(Struct):
    seq: int


class Export:
    """The export files of one state directory: of the newest run at the top, and one for each basin."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._backups = folder / "backups"
        self._lock = OwnLock(folder / "locks" / "export")

    def write(
        self, seq: int, document: bytes | Mapping[str, Any] | Struct, basin: BasinId, *, newest: bool = True
    ) -> bool:
        """Replace both files by ``document``, each only if it holds a lower ``seq``, nothing readable, or is missing.

        ``newest=False`` leaves the file at the top to the run that is newer. Bytes must be a JSON object with this ``seq``
        in it; anything else gets it. False if it could not be done (disk full, read-only, lock not free): an export may
        lag. Never raises for the disk's sake.
        """
        content = document if isinstance(document, bytes) else _rendered(seq, document)
        own = self._folder / "basins" / basin / NAME
        try:
            own_folder(self._folder / "locks")
            own_folder(self._backups)
            own_folder(own.parent)
            if not self._lock.take(wait_seconds=WAIT_SECONDS):
                return False
            try:
                self._replace(own, seq, content, keep=False)
                if newest:
                    self._replace(self._folder / NAME, seq, content, keep=True)
                self._tidy()
            finally:
                self._lock.release()
        except (OSError, Refused):
            return False
        return True

    def _replace(self, path: Path, seq: int, content: bytes, *, keep: bool) -> None:
        held = _seq_of(path)
        if held is not None and held >= seq:
            return

        def back_up() -> None:
            if keep and held is not None:
                kept = self._backups / f"{held:012d}.{NAME}"
                kept.unlink(missing_ok=True)
                with suppress(OSError):  # not every file system has hard links
                    kept.hardlink_to(path)  # two names for a moment only: the new one takes one away

        write_own(path, content, drafts=self._backups, last=back_up)

    def _tidy(self) -> None:
        """Drop all but the newest backups, and what a killed writer left; the lock is held, so nobody writes it now."""
        names = sorted(path.name for path in self._backups.iterdir())
        kept = [name for name in names if name.endswith(f".{NAME}")]
        left = [name for name in names if name.startswith(".new-")]
        for name in kept[:-KEPT] + left:
            (self._backups / name).unlink(missing_ok=True)


def _rendered(seq: int, document: Mapping[str, Any] | Struct) -> bytes:
    return msgspec.json.format(msgspec.json.encode(msgspec.to_builtins(document) | {"seq": seq}), indent=2) + b"\n"


def _seq_of(path: Path) -> int | None:
    """The ``seq`` that a file holds; ``None`` if it is missing or nothing that can be read."""
    try:
        fd = open_own(path, os.O_RDONLY)
        with os.fdopen(fd, "rb") as file:
            return msgspec.json.decode(file.read(_MOST_BYTES), type=_Numbered).seq
    except (OSError, Refused, msgspec.MsgspecError, ValueError, RecursionError):
        return None
