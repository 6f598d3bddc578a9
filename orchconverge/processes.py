"""What the kernel says of processes: who this is, which one lives, and signals that reach exactly the one that is meant."""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from orchconverge.core.values import Process

_SUPERVISOR = re.compile(rb"/orchconverge/pane\.py\0[^\0]*/([a-z]+)/[^/\0]+/spec\.json\0*\Z")
"""How the command line of a supervisor ends, with the kind of what it runs."""


class Swept(NamedTuple):
    """What a sweep did: how many processes it killed, and the pids of those that are still there."""

    killed: int
    left: tuple[int, ...]


def boot_id() -> str:
    """The kernel's id of this boot; empty where there is none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def started(pid: int) -> int | None:
    """When a process started, in clock ticks since boot (proc(5), field 22); ``None`` if it is gone."""
    fields = _stat(pid)
    return int(fields[19]) if fields is not None else None


def me() -> Process:
    """The running process, so that no other can be taken for it."""
    return Process(boot=boot_id(), pid=os.getpid(), start=started(os.getpid()) or 0)


def alive(process: Process) -> bool:
    """Whether exactly this process lives: one of another boot, a later owner of its pid and a zombie are not it."""
    fields = _stat(process.pid)
    if fields is None or fields[0] in (b"Z", b"X"):
        return False
    return int(fields[19]) == process.start and process.boot == boot_id()


def opened(process: Process) -> int | None:
    """A pidfd of exactly this process, readable once it is gone; ``None`` if it does not live. The caller closes it."""
    try:
        handle = os.pidfd_open(process.pid)
    except (OSError, OverflowError):
        return None
    if alive(process):  # asked while it is held: from here on its pid cannot become another's
        return handle
    os.close(handle)
    return None


def send(process: Process, number: int) -> bool:
    """Send a signal to exactly this process; false if it does not live or is not ours to signal. Never to a bare pid."""
    handle = opened(process)
    if handle is None:
        return False
    try:
        signal.pidfd_send_signal(handle, number)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True


def was_given(variable: str) -> bool:
    """Whether this process, or one of its living ancestors, was started with ``variable`` in its environment."""
    mark = f"{variable}=".encode()
    return any(entry.startswith(mark) for pid in _upwards() for entry in _said(pid, "environ"))


def supervised_as() -> frozenset[str]:
    """The kinds of our supervisors above this process (`minds`, `checks` ...), by their command lines.

    They take in what lost its parent, with whatever environment it was started: see `pane.py`.
    """
    lines = (_said(pid, "cmdline") for pid in _upwards())
    found = (_SUPERVISOR.search(b"\0".join(line)) for line in lines)
    return frozenset(os.fsdecode(one[1]) for one in found if one is not None)


def wait_for(handles: Sequence[int], *, seconds: float) -> None:
    """Wait until the processes of all these pidfds are gone, but not longer than ``seconds``."""
    until = time.monotonic() + seconds
    for handle in handles:
        poller = select.poll()
        poller.register(handle, select.POLLIN)
        poller.poll(max(0.0, until - time.monotonic()) * 1000)


def carriers(entry: str) -> Iterator[int]:
    """The pids of this user, but never our own, that were started with ``entry`` (``NAME=value``) in their environment."""
    mark = os.fsencode(entry)
    with os.scandir("/proc") as found:
        for each in found:
            if each.name.isdigit() and int(each.name) != os.getpid() and _carries(int(each.name), mark):
                yield int(each.name)


def sweep(entry: str, *, seconds: float) -> Swept:
    """Kill all `carriers` of ``entry``, until a look finds none, for at most ``seconds``: the dying can still fork."""
    until = time.monotonic() + seconds
    killed = 0
    while True:
        handles = [handle for pid in carriers(entry) if (handle := _kill_if(pid, os.fsencode(entry))) is not None]
        wait_for(handles, seconds=max(0.0, until - time.monotonic()))
        for handle in handles:
            os.close(handle)
        killed += len(handles)
        left = tuple(carriers(entry))
        if not left or time.monotonic() >= until:
            return Swept(killed, left)


def _upwards() -> Iterator[int]:
    """The pids of this process and of its living ancestors, but that of the first of all."""
    pid = os.getpid()
    while pid > 1:
        yield pid
        fields = _stat(pid)
        pid = int(fields[1]) if fields is not None else 0


def _said(pid: int, file: str) -> list[bytes]:
    """The entries of `environ` or `cmdline` of a process; none of one that is gone or another user's."""
    try:
        return Path(f"/proc/{pid}/{file}").read_bytes().split(b"\0")
    except OSError:
        return []


def _stat(pid: int) -> list[bytes] | None:
    """The fields of `/proc/PID/stat` from the state (field 3) on; the name before them can hold spaces and brackets."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None


def _carries(pid: int, mark: bytes) -> bool:
    try:
        with Path(f"/proc/{pid}/environ").open("rb") as file:  # empty for the dead that nobody has taken
            return os.fstat(file.fileno()).st_uid == os.geteuid() and mark in file.read().split(b"\0")
    except OSError:
        return False


def _kill_if(pid: int, mark: bytes) -> int | None:
    """Kill a process that has ``mark`` and return its handle; held first, so that it is no later owner of the pid."""
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return None
    if _carries(pid, mark):
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(handle, signal.SIGKILL)
            return handle
    os.close(handle)
    return None
