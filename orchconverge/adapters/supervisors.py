"""The controller's side of `pane.py`: prepares, starts, probes, stops and sweeps supervised runs, one folder a name."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import select
import signal
import stat
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeVar

import msgspec
from msgspec import Struct

from orchconverge.core.values import Process
from orchconverge.errors import Failed
from orchconverge.ports import Absent, Ended, Exit, Lost, Probe, Running, Spec, Starting, Unknown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

COOKIE: Final = "ORCHCONVERGE_COOKIE"
"""The variable by which the processes of a run are found when its supervisor cannot be asked any more."""

_PANE: Final = Path(__file__).resolve().parents[1] / "pane.py"
_NAME: Final = re.compile(r"(?:[a-z]{1,20}/)?[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
START_SECONDS: Final = 10.0
"""How long one that was prepared here may take to get its lock. Later, or if it was prepared by another process, its start
counts as lost: to start it again is always safe, since of two supervisors of a name only the first gets the lock."""
_VERSION: Final = 1
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_LOCK_SECONDS: Final = 0.5
KILL_SECONDS: Final = 2.0
_T = TypeVar("_T")
_LEFT_OUT: Final = b"\n[orchconverge: output is left out here]\n"


class Swept(Struct, frozen=True):
    """What a sweep did: how many processes it killed, and the pids of those that are still there."""

    killed: int
    left: tuple[int, ...]


class _Supervisor(Struct):
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


class Supervisors:
    """Supervised runs below one folder, each in a folder of its name.

    Any number of controllers may use the same folder: a name is claimed by its supervisor, under a lock that it holds
    for life, so it is run at most once however often it is started. Not thread-safe.
    """

    def __init__(self, root: Path) -> None:
        self._root = root.absolute()
        self._boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        self._children: set[int] = set()
        self._prepared: dict[str, float] = {}

    def folder(self, name: str) -> Path:
        """The folder of a run, made 0700. Raises `ValueError` for an impossible name, `OSError` if it is not ours."""
        folder = self._folder(name)
        self._make(folder)
        return folder

    def found(self, prefix: str) -> list[str]:
        """The names ``kind/...`` that begin with ``prefix`` and have a folder."""
        kind, _, begins = prefix.partition("/")
        try:
            names = sorted(entry.name for entry in os.scandir(self._root / kind))
        except OSError:
            return []
        return [f"{kind}/{name}" for name in names if name.startswith(begins) and ".lost." not in name]

    def prepare(self, spec: Spec) -> tuple[str, ...]:
        """Write the spec and return the argv that starts its supervisor, for `launch` or a tmux pane.

        A name that was prepared and has not run is prepared anew; one whose supervisor was lost begins again with an empty
        folder, the old one kept beside it. Raises `Failed` if it runs or ran, `OSError` if the folder cannot be written.
        """
        if isinstance(self.probe(spec.name), Lost):
            self._set_aside(spec.name)
        folder = self.folder(spec.name)
        document = {
            "v": _VERSION,
            "dir": str(folder),
            "name": spec.name,
            "cwd": str(spec.cwd.absolute()),
            "branch": spec.branch,
            "argv": list(spec.argv),
            "env": {**spec.env, COOKIE: self.cookie(spec.name)},
            "stdin": str(spec.stdin.absolute()) if spec.stdin else None,
            "deadline_seconds": spec.deadline_seconds,
            "grace_seconds": spec.grace_seconds,
            "idle_seconds": spec.idle_seconds,
            "linger_seconds": spec.linger_seconds,
            "head_bytes": spec.head_bytes,
            "tail_bytes": spec.tail_bytes,
        }
        with _held(folder, patience_seconds=_LOCK_SECONDS) as held:
            if not held or _claimed(folder):
                raise Failed(f"{spec.name} was started before")
            _write_private(folder / "spec.json", json.dumps(document).encode())
        self._prepared[spec.name] = time.monotonic()
        return (sys.executable, "-X", "utf8", "-I", "-S", str(_PANE), str(folder / "spec.json"))

    def cookie(self, name: str) -> str:
        """What every process beneath a run carries in its environment."""
        return hashlib.sha256(os.fsencode(self._folder(name))).hexdigest()[:24]

    def _set_aside(self, name: str) -> None:
        """Rename the folder of a lost run, so that its name can be used again and what it left can be read."""
        folder = self._folder(name)
        number = sum(1 for _ in folder.parent.glob(f"{folder.name}.lost.*")) + 1
        folder.rename(folder.with_name(f"{folder.name}.lost.{number}"))

    def put(self, name: str, file: str, data: bytes) -> Path:
        """Write a small file (0600) into a run's folder, whole or not at all."""
        path = self.folder(name) / file
        _write_private(path, data)
        return path

    def get(self, name: str, file: str, *, most_bytes: int = 1 << 20) -> bytes | None:
        """The first ``most_bytes`` of a regular file in a run's folder; a link, a pipe or a missing file is ``None``."""
        try:
            fd = os.open(self._folder(name) / file, _READ | os.O_NONBLOCK)
        except OSError:
            return None
        with os.fdopen(fd, "rb") as source:
            return source.read(most_bytes) if stat.S_ISREG(os.fstat(fd).st_mode) else None

    def launch(self, argv: Sequence[str]) -> None:
        """Start a supervisor that outlives us, without a terminal. Its start is seen by `probe`, not here."""
        self._reap()
        null = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)]
        self._children.add(
            os.posix_spawn(argv[0], list(argv), os.environ, file_actions=null, setsid=True, setsigmask=())
        )

    def probe(self, name: str) -> Probe:
        """Say what can be known of ``name`` now. Never blocks, never raises but `ValueError` for an impossible name."""
        self._reap()
        folder = self._folder(name)
        # The order makes one look at four moving things consistent: the supervisor writes running.json before it
        # unlinks the spec, and a claim seen before the lock is found free means that its holder is gone for good.
        try:
            prepared = os.path.lexists(folder / "spec.json")
            running = _read(folder / "running.json")
            alive = _is_held(folder)
            ended = _read(folder / "exit.json")
            process = _decode(running, _Supervisor).process if running is not None else None
            if ended is not None:
                return Ended(exit=_decode(ended, _Record).exit(), process=process)
            if process is None:
                return Starting() if alive or (prepared and self._awaited(name)) else Absent()
            if not alive:
                return Lost(process=process)
        except (OSError, ValueError, msgspec.MsgspecError) as error:
            return Unknown(why=f"{folder}: {error}")
        if process.boot != self._boot_id:
            return Unknown(why=f"{folder}: its lock is held from another machine")
        return Running(process=process)

    def _awaited(self, name: str) -> bool:
        """Whether this process prepared it moments ago and its supervisor may still be on its way."""
        return time.monotonic() - self._prepared.get(name, float("-inf")) < START_SECONDS

    def pidfd(self, name: str) -> int | None:
        """Return a handle that polls readable once the supervisor is gone and its record durable.

        ``None`` if the supervisor does not run. The caller closes it.
        """
        state = self.probe(name)
        if not isinstance(state, Running):
            return None
        try:
            handle = os.pidfd_open(state.process.pid)
        except OSError:
            return None
        if _start(state.process.pid) == state.process.start:
            return handle
        os.close(handle)
        return None

    def stop(self, name: str) -> bool:
        """Have the run ended in order: TERM, grace, KILL, record; one that has not begun is withdrawn.

        Returns at once: true if there is no more to ask for, false if it has to be asked again (the supervisor is in
        the few milliseconds of its start, or the state is unknown).
        """
        return self._end(name, signal.SIGTERM)

    def kill(self, name: str) -> bool:
        """Kill the supervisor, with it the program itself, and then whatever carries the run's cookie. As `stop` else."""
        handle = self.pidfd(name)
        done = self._end(name, signal.SIGKILL)
        if handle is not None:
            _wait_for([handle], seconds=KILL_SECONDS)
            os.close(handle)
        self.sweep(self.cookie(name))
        return done

    def sweep(self, cookie: str, *, seconds: float = 2.0) -> Swept:
        """Kill every process of this user, but never this one, that has ``cookie`` in its environment.

        Repeated until a look finds none, for at most ``seconds``: what is being killed can still fork.
        """
        mark = f"{COOKIE}={cookie}".encode()
        until = time.monotonic() + seconds
        killed = 0
        while True:
            handles = [handle for pid in _pids_with(mark) if (handle := _kill_if(pid, mark)) is not None]
            _wait_for(handles, seconds=max(0.0, until - time.monotonic()))
            for handle in handles:
                os.close(handle)
            killed += len(handles)
            left = tuple(_pids_with(mark))
            if not left or time.monotonic() >= until:
                return Swept(killed, left)

    def log(self, name: str, *, most_bytes: int = 1 << 20) -> bytes:
        """Return raw output: all of it, or its beginning and its newest end with one marker line between.

        At most ``most_bytes`` and the marker. A part that was cut begins at the start of a line.
        """
        folder = self._folder(name)
        for _ in range(3):
            try:
                return _join(folder, most_bytes)
            except FileNotFoundError:  # the log went on to its next part meanwhile
                continue
        return b""

    def _folder(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} cannot be the name of a run: letters, digits, dot, dash and underscore only")
        return self._root / name

    def _make(self, folder: Path) -> None:
        for path in dict.fromkeys((self._root, folder.parent, folder)):
            with contextlib.suppress(FileExistsError):
                path.mkdir(mode=0o700, parents=path == self._root)
                path.chmod(0o700)
            found = path.lstat()
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
                raise PermissionError(f"{path} is not a folder of this user")

    def _end(self, name: str, number: signal.Signals) -> bool:
        state = self.probe(name)
        if isinstance(state, Unknown):
            return False
        if isinstance(state, Starting):
            return self._withdraw(name)
        handle = self.pidfd(name)
        if handle is None:  # gone meanwhile, or never there
            return True
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(handle, number)
        os.close(handle)
        return True

    def _withdraw(self, name: str) -> bool:
        """Take back a spec that nobody has claimed, so that a supervisor that is still to come finds nothing."""
        folder = self._folder(name)
        with _held(folder, patience_seconds=0.0) as held:
            if not held or _claimed(folder):
                return False
            (folder / "spec.json").unlink(missing_ok=True)
            return True

    def _reap(self) -> None:
        for pid in list(self._children):
            try:
                gone = os.waitpid(pid, os.WNOHANG)[0] == pid
            except ChildProcessError:
                gone = True
            if gone:
                self._children.discard(pid)


@contextlib.contextmanager
def _held(folder: Path, *, patience_seconds: float) -> Iterator[bool]:
    """Hold the lock of a run that does not run; yields false if somebody else kept it all the time."""
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    until = time.monotonic() + patience_seconds
    try:
        while not (held := _flock(lock, fcntl.LOCK_EX)) and time.monotonic() < until and not _claimed(folder):
            time.sleep(0.005)  # a prober holds it shared for an instant
        yield held
    finally:
        fcntl.flock(lock, fcntl.LOCK_UN)  # not by closing alone: a fork in another thread shares what is open
        os.close(lock)


def _is_held(folder: Path) -> bool:
    try:
        lock = os.open(folder / "lock", _READ)
    except FileNotFoundError:
        return False
    try:
        return not _flock(lock, fcntl.LOCK_SH)
    finally:
        fcntl.flock(lock, fcntl.LOCK_UN)
        os.close(lock)


def _flock(fd: int, kind: int) -> bool:
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _claimed(folder: Path) -> bool:
    return any(os.path.lexists(folder / record) for record in ("running.json", "exit.json"))


def _write_private(path: Path, data: bytes) -> None:
    """Put a file in place at once, readable by this user alone from its first byte on. Call it under the lock."""
    draft = path.with_name(f"{path.name}.tmp")
    draft.unlink(missing_ok=True)
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        os.fchmod(fd, 0o600)  # a umask can also take away too much
        file.write(data)
    draft.rename(path)


def _read(path: Path) -> bytes | None:
    """Read a file of ours; ``None`` if there is none. Raises `OSError` for a link or another user's file."""
    try:
        fd = os.open(path, _READ)
    except FileNotFoundError:
        return None
    with os.fdopen(fd, "rb") as file:
        if os.fstat(fd).st_uid != os.geteuid():
            raise PermissionError(f"{path} belongs to another user")
        return file.read()


class _Versioned(Struct):
    v: int


def _decode(data: bytes, type: type[_T]) -> _T:
    if (version := msgspec.json.decode(data, type=_Versioned).v) != _VERSION:
        raise ValueError(f"a record of version {version}")
    return msgspec.json.decode(data, type=type)


def _start(pid: int) -> int | None:
    """Return when a process started, in ticks since boot."""
    try:
        line = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    return int(line.rpartition(b")")[2].split()[19])


def _pids_with(mark: bytes) -> Iterator[int]:
    """Go through the processes of this user, but this one, that have ``mark`` as an entry of their environment."""
    for entry in os.scandir("/proc"):
        if entry.name.isdigit() and int(entry.name) != os.getpid() and _has(int(entry.name), mark):
            yield int(entry.name)


def _has(pid: int, mark: bytes) -> bool:
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
    if _has(pid, mark):
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(handle, signal.SIGKILL)
            return handle
    os.close(handle)
    return None


def _wait_for(handles: Sequence[int], *, seconds: float) -> None:
    """Wait until all these processes are gone, but not longer than ``seconds``."""
    until = time.monotonic() + seconds
    for handle in handles:
        poller = select.poll()
        poller.register(handle, select.POLLIN)
        poller.poll(max(0.0, until - time.monotonic()) * 1000)


def _join(folder: Path, limit: int) -> bytes:
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
    return front + _LEFT_OUT + back.partition(b"\n")[2]


def _slice(path: Path, first: int, length: int) -> bytes:
    with os.fdopen(os.open(path, _READ), "rb") as file:
        file.seek(first)
        return file.read(max(0, length))
