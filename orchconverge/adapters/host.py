"""The machine under us: memory, disk, who and where this process is."""

from __future__ import annotations

import os
import platform
import uuid
from collections.abc import Mapping
from pathlib import Path

from orchconverge import processes
from orchconverge.core.values import Process
from orchconverge.ports import Machine


class SystemHost:
    """Asks psutil and the kernel. ``folders`` are where worktrees and state lie: the fullest of their disks counts."""

    def __init__(self, folders: tuple[Path, ...]) -> None:
        self._folders = folders

    def look(self) -> Machine:
        """Free memory and disk, in bytes."""
        import psutil

        try:
            memory = int(psutil.virtual_memory().available)
        except OSError:
            memory = None
        free = [found for folder in self._folders if (found := _free(folder)) is not None]
        return Machine(memory_free=memory, disk_free=min(free) if free else None)

    def identity(self) -> tuple[str, Process]:
        """The host's name and this process: boot id, pid, start in ticks since boot."""
        return platform.node(), processes.me()

    def signal(self, process: Process, number: int) -> bool:
        """Send a signal to exactly this process; false if it does not live."""
        return processes.send(process, number)

    def random(self) -> str:
        """A random uuid, dashes included, since engines take it as their session's id."""
        return str(uuid.uuid4())

    def environment(self) -> Mapping[str, str]:
        """The environment as `bootstrap` cleaned it."""
        return dict(os.environ)


def _free(folder: Path) -> int | None:
    """Bytes free for this user at the nearest existing parent of ``folder``."""
    for path in (folder, *folder.parents):
        try:
            found = os.statvfs(path)
        except FileNotFoundError:
            continue
        except OSError:
            return None
        return found.f_bavail * found.f_frsize
    return None
