"""Looks at the machine for the doctor: room, locale, sandbox, state folder, forge. Nothing is written and no network asked."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from orchconverge.core.places import PIDS_FLOOR, PTYS_FLOOR
from orchconverge.core.seen import Machine
from orchconverge.core.views.doctor import Finding, fault, ok, warning
from orchconverge.core.views.gc import size
from orchconverge.errors import Refused
from orchconverge.whereabouts import base_folder

SANDBOX_SECONDS: Final = 1.0
MOUNTS: Final = Path("/proc/self/mountinfo")
FAR: Final = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "lustre", "drvfs", "vboxsf", "prl_fs"}
    | {"fuse.sshfs", "fuse.glusterfs", "fuse.gvfsd-fuse", "fuse.rclone"}
)
"""File systems on which a lock or a flush may not mean what it means on a disk."""
GITHUB: Final = "github.com"


def room(machine: Machine, *, memory_floor: int, disk_floor: int) -> Iterator[Finding]:
    """What is left against the floors below which no mind is started: a fault under one, a warning under twice as much."""
    yield _left("disk", machine.disk_free, disk_floor, size, "orchconverge gc")
    yield _left("memory", machine.memory_free, memory_floor, size, "end something else, or lower memory_floor_bytes")
    yield _left("processes", machine.pids_free, PIDS_FLOOR, str, "end some, or raise pids.max of this container")
    yield _left("terminals", machine.ptys_free, PTYS_FLOOR, str, "close some, or: sysctl kernel.pty.max=8192")


def _left(part: str, free: int | None, floor: int, told: Callable[[int], str], todo: str) -> Finding:
    if free is None:
        return ok(part, "cannot be told here, so it is not waited for")
    said = f"{told(free)} left, the floor is {told(floor)}"
    if free < floor:
        return fault(part, f"{said}: no mind is started", todo)
    return warning(part, said, todo) if free < 2 * floor else ok(part, said)


def locale(environ: Mapping[str, str]) -> Finding:
    """Whether terminals are told to speak UTF-8: the first of three variables that is set decides, as libc has it."""
    name = next((name for name in ("LC_ALL", "LC_CTYPE", "LANG") if environ.get(name)), "")
    if name and "utf" in environ[name].lower():
        return ok("locale", f"UTF-8 by {name}")
    said = f"{name} is {environ[name]}" if name else "none is set"
    return warning("locale", f"{said}: what is shown is in ASCII", "export LC_ALL=C.UTF-8")


EXTRAS: Final = {"notify": ("apprise",), "otel": ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")}
"""Extra of ours -> the modules that it brings."""


def missing(extra: str) -> str:
    """The first module of an extra that is not installed; empty if all are."""
    return next((module for module in EXTRAS[extra] if not _installed(module)), "")


def _installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # of a package above it
        return False


def extras(asked: Mapping[str, bool]) -> Iterator[Finding]:
    """What the settings ask for that is an extra of ours; of what they do not ask for nothing is said."""
    for name in (name for name, wanted in asked.items() if wanted):
        lacking = missing(name)
        if lacking:
            yield warning(name, f"it is set, and {lacking} is not installed", f"pip install 'orchconverge[{name}]'")
        else:
            yield ok(name, f"by {EXTRAS[name][0]}")


def sandbox(environ: Mapping[str, str]) -> Finding:
    """Whether bubblewrap is there and the kernel lets it work."""
    found, without = shutil.which("bwrap", path=environ.get("PATH")), "a mind can do what you can"
    if found is None:
        said = f"bubblewrap is not installed: {without}"
        return warning("sandbox", said, "apt-get install bubblewrap, or your system's equivalent")
    argv = [found, "--ro-bind", "/", "/", "--unshare-all", "--die-with-parent", "true"]
    try:
        ran = subprocess.run(argv, capture_output=True, stdin=subprocess.DEVNULL, timeout=SANDBOX_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        why = str(error)
    else:
        why = ran.stderr.decode("utf-8", "replace").strip() or f"exit {ran.returncode}" if ran.returncode else ""
    if why:
        said = f"bubblewrap cannot be used here ({why}): {without}"
        return warning("sandbox", said, "sysctl kernel.unprivileged_userns_clone=1, where the system has it")
    return ok("sandbox", f"bubblewrap works, {found}")


def state(folder: Path, *, mounts: Path = MOUNTS) -> Finding:
    """Whether the folder of the ledger is ours alone, can be written and lies on a disk of this machine."""
    other = "export ORCHCONVERGE_STATE_DIR=/another/folder"
    there = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
    kind, info = file_system(there, mounts=mounts), there.lstat()
    said = f"{folder} on {kind or 'a file system that is not told'}"
    if not stat.S_ISDIR(info.st_mode):
        return fault("state", f"{there} is not a folder", f"move it away, or: {other}")
    if there == folder and info.st_uid != os.geteuid():
        return fault("state", f"{folder} is owned by user {info.st_uid}, not by you", other)
    if not os.access(there, os.W_OK | os.X_OK):
        return fault("state", f"{said}: it cannot be written", f"chmod u+rwx {there}, or: {other}")
    if kind in FAR:
        return warning("state", f"{said}: locks and flushes may not hold there", other)
    if there != folder:
        return ok("state", f"{said}, made by the first run")
    if info.st_mode & 0o077:
        mode = f"{stat.S_IMODE(info.st_mode):04o}"
        return warning("state", f"{said}: its mode is {mode}, others can look", f"chmod 700 {folder}")
    return ok("state", said)


def file_system(path: Path, *, mounts: Path = MOUNTS) -> str:
    """The type of the file system that a path lies on, as mountinfo tells in proc(5); empty where nothing does."""
    real, kind, longest = Path(os.path.realpath(path)), "", -1
    try:
        lines = mounts.read_bytes().splitlines()
    except OSError:
        return ""
    for line in lines:
        before, _, after = line.partition(b" - ")
        fields = before.split(b" ")
        if len(fields) < 5 or not after:
            continue
        mount = os.fsdecode(fields[4].replace(b"\\040", b" ").replace(b"\\134", b"\\"))
        if len(mount) >= longest and real.is_relative_to(mount):  # of two on one place the later lies on top
            kind, longest = after.split(b" ")[0].decode("ascii", "replace"), len(mount)
    return kind


def forge(remote: str, host: str | None, environ: Mapping[str, str]) -> Finding:
    """Where the remote lies (``None``: there is none, empty: it is a path), and whether `gh` can be used for it."""
    if host is None:
        add = f"git remote add {remote} URL, or start with --final none"
        return warning("forge", f"there is no remote {remote}: nothing is pushed", add)
    if not host:
        return ok("forge", f"{remote} is a path: it is pushed to, without pull requests")
    if host not in (GITHUB, environ.get("GH_HOST")):
        return ok("forge", f"{remote} is on {host}: it is pushed to, pull requests are yours to make")
    found = shutil.which("gh", path=environ.get("PATH"))
    if found is None:
        said = f"{remote} is on {host} and gh is not installed: no pull request is made"
        return warning("forge", said, "install it from https://cli.github.com, then: gh auth login")
    sign = next((name for name in ("GH_TOKEN", "GITHUB_TOKEN") if environ.get(name)), "") or _gh_file(environ)
    if not sign:
        return warning("forge", f"{remote} is on {host}; gh shows no sign-in, {found}", "gh auth login")
    return ok("forge", f"{remote} is on {host}; gh is signed in by {sign}, {found}")


def _gh_file(environ: Mapping[str, str]) -> str:
    """The name of the file in which `gh` keeps its sign-in, if it is there."""
    try:
        own = environ.get("GH_CONFIG_DIR") or base_folder("XDG_CONFIG_HOME", ".config", environ) / "gh"
    except Refused:
        return ""
    return "hosts.yml" if (Path(own) / "hosts.yml").is_file() else ""
