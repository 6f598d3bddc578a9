"""The machine under us: memory, disk, processes and terminals that are left, who and where this process is."""

from __future__ import annotations

import os
import platform
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

from orchconverge import processes
from orchconverge.core.values import Process
from orchconverge.ports import Machine


class SystemHost:
    """Asks psutil and the kernel. ``folders`` are where worktrees and state lie: the fullest of their disks counts.

    ``proc`` and ``cgroups`` are where the kernel shows itself; without them, as on macOS, some things cannot be told.
    """

    def __init__(
        self, folders: tuple[Path, ...], *, proc: Path = Path("/proc"), cgroups: Path = Path("/sys/fs/cgroup")
    ) -> None:
        self._folders = folders
        self._proc = proc
        self._cgroups = cgroups

    def look(self) -> Machine:
        """Free memory and disk, in bytes; how many more processes can be started and terminals opened."""
        import psutil

        try:
            memory = int(psutil.virtual_memory().available)
        except OSError:
            memory = None
        free = [found for folder in self._folders if (found := _free(folder)) is not None]
        return Machine(
            memory_free=memory,
            disk_free=min(free) if free else None,
            pids_free=min(self._pids(), default=None),
            ptys_free=self._ptys(),
        )

    def _pids(self) -> Iterator[int]:
        """What each limit leaves: the kernel's two, by its count of all threads, and those of the cgroups we are in."""
        running = _word(self._proc / "loadavg", 3).partition("/")[2]
        for limit in ("pid_max", "threads-max"):
            most = _number(self._proc / "sys/kernel" / limit)
            if most is not None and running.isdecimal():
                yield max(0, most - int(running))
        for group in self._groups():
            most, used = _number(group / "pids.max"), _number(group / "pids.current")
            if most is not None and used is not None:
                yield max(0, most - used)

    def _groups(self) -> Iterator[Path]:
        """The cgroups that count our processes, with all above them, of version 2 and 1; see cgroups(7)."""
        for line in _text(self._proc / "self/cgroup").splitlines():
            number, _, rest = line.partition(":")
            kinds, _, path = rest.partition(":")
            if ".." in path or not (number == "0" or "pids" in kinds.split(",")):
                continue  # "..": it lies outside of what this container is shown
            roots = (self._cgroups / kinds,) if kinds else (self._cgroups, self._cgroups / "unified")
            for root in roots:
                group = root / path.strip("/")
                yield from (group, *(above for above in group.parents if above.is_relative_to(root)))

    def _ptys(self) -> int | None:
        """What is left of the system's terminals, without those that the kernel keeps back from containers."""
        folder = self._proc / "sys/kernel/pty"
        most, used, kept = (_number(folder / name) for name in ("max", "nr", "reserve"))
        return None if most is None or used is None else max(0, most - used - (kept or 0))

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


def _text(path: Path) -> str:
    """What the kernel says there; empty where it says nothing."""
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""


def _word(path: Path, place: int) -> str:
    words = _text(path).split()
    return words[place] if place < len(words) else ""


def _number(path: Path) -> int | None:
    """The number there; ``None`` for the word ``max`` too, which is no limit."""
    found = _text(path).strip()
    return int(found) if found.isdecimal() else None
