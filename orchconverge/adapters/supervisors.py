"""The controller's side of `pane.py`: prepares, starts, probes, stops and sweeps supervised runs, one folder a name."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import signal
import stat
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from orchconverge import processes
from orchconverge.adapters.supervisors_reading import VERSION, Odd, ended, log, open_below, running
from orchconverge.errors import Failed
from orchconverge.files import own_folder, write_own
from orchconverge.ports import Absent, Ended, Exit, Lost, Probe, Running, Spec, Starting, Unknown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from orchconverge.core.values import Process

COOKIE: Final = "ORCHCONVERGE_COOKIE"
"""The variable by which the processes of a run are found when its supervisor cannot be asked any more."""

_PANE: Final = Path(__file__).resolve().parents[1] / "pane.py"
_NAME: Final = re.compile(r"(?:[a-z]{1,20}/)?[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
START_SECONDS: Final = 10.0
"""How long one that was prepared here may take to get its lock. Later, or if it was prepared by another process, its start
counts as lost: to start it again is always safe, since of two supervisors of a name only the first gets the lock."""
_LOCK_SECONDS: Final = 0.5
_KILL_SECONDS: Final = 2.0
_ASIDE: Final = ".lost."


class Supervisors:
    """Supervised runs below one folder, each in a folder of its name.

    Any number of controllers may use the same folder: a name is claimed by its supervisor, under a lock that it holds
    for life, so it is run at most once however often it is started. Not thread-safe.
    """

    def __init__(self, root: Path) -> None:
        self._root = root.absolute()
        self._boot_id = processes.boot_id()
        self._children: set[int] = set()
        self._prepared: dict[str, float] = {}

    def folder(self, name: str) -> Path:
        """The folder of a run, made 0700. Raises `ValueError` for an impossible name, `OSError` if it is not ours."""
        folder = self._folder(name)
        self._make(folder)
        return folder

    def subfolder(self, name: str, part: str) -> Path:
        """A folder, made 0700, in that of a run, for what runs to write into. Raises as `folder` does."""
        folder = self.folder(name) / part
        self._make_one(folder)
        return folder

    def found(self, prefix: str) -> list[str]:
        """The names ``kind/...`` that begin with ``prefix`` and have a folder."""
        kind, _, begins = prefix.partition("/")
        try:
            with os.scandir(self._root / kind) as entries:
                names = sorted(e.name for e in entries if e.name.startswith(begins) and e.is_dir(follow_symlinks=False))
        except OSError:
            return []
        return [found for name in names if _NAME.fullmatch(found := f"{kind}/{name}") and _ASIDE not in name]

    def prepare(self, spec: Spec) -> tuple[str, ...]:
        """Write the spec and return the argv that starts its supervisor, for `launch` or a tmux pane.

        A name that was prepared and has not run is prepared anew; one whose supervisor was lost begins again with an empty
        folder, the old one kept beside it, and what it left running is killed. Raises `Failed` if it runs or ran, `OSError`
        if the folder cannot be written.
        """
        state = self.probe(spec.name)
        if isinstance(state, Running | Ended):
            raise Failed(f"{spec.name} was started before")
        if isinstance(state, Lost):
            self._set_aside(spec.name)
        folder = self.folder(spec.name)
        document = {
            "v": VERSION,
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
            write_own(folder / "spec.json", json.dumps(document).encode())
        self._prepared[spec.name] = time.monotonic()
        return (sys.executable, "-X", "utf8", "-I", "-S", str(_PANE), str(folder / "spec.json"))

    def cookie(self, name: str) -> str:
        """What every process beneath a run carries in its environment."""
        return hashlib.sha256(os.fsencode(self._folder(name))).hexdigest()[:24]

    def put(self, name: str, file: str, data: bytes) -> Path:
        """Write a small file (0600) into a run's folder, whole or not at all."""
        path = self.folder(name) / file
        write_own(path, data)
        return path

    def get(self, name: str, file: str, *, most_bytes: int = 1 << 20) -> bytes | None:
        """The first ``most_bytes`` of a regular file in a run's folder, ``part/file`` for one in a `subfolder`.

        A pipe, a missing file, and what is behind a link is ``None``.
        """
        try:
            with open_below(self._folder(name), file) as source:
                return source.read(most_bytes)
        except (OSError, Odd):
            return None

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
        # unlinks the spec, and a claim seen before the lock is found free means that its holder is gone for good. Before
        # that, what lies there as its end is none: what runs could have written it.
        process, odd = None, ""
        try:
            prepared = os.path.lexists(folder / "spec.json")
            try:
                process = running(folder)
            except Odd as error:
                odd = str(error)
            claimed = _claimed(folder)
            if _is_held(folder):
                return self._held_by(folder, process, odd)
            if claimed:
                exit = _end_on_record(folder)
                return Lost(process=process) if exit is None else Ended(exit=exit, process=process)
        except OSError as error:
            return Unknown(why=f"{folder}: {error}")
        if _claimed(folder):  # begun since: look again
            return self.probe(name)
        return Starting() if prepared and self._awaited(name) else Absent()

    def _held_by(self, folder: Path, process: Process | None, odd: str) -> Probe:
        if odd:
            return Unknown(why=f"{folder}: who holds its lock cannot be told: {odd}")
        if process is not None and process.boot != self._boot_id:
            return Unknown(why=f"{folder}: its lock is held from another machine")
        return Starting() if process is None else Running(process=process)

    def _awaited(self, name: str) -> bool:
        """Whether this process prepared it moments ago and its supervisor may still be on its way."""
        return time.monotonic() - self._prepared.get(name, float("-inf")) < START_SECONDS

    def pidfd(self, name: str) -> int | None:
        """Return a handle that polls readable once the supervisor is gone and its record durable.

        ``None`` if the supervisor does not run. The caller closes it.
        """
        state = self.probe(name)
        return processes.opened(state.process) if isinstance(state, Running) else None

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
            processes.wait_for([handle], seconds=_KILL_SECONDS)
            os.close(handle)
        self.sweep(self.cookie(name))
        return done

    def sweep(self, cookie: str) -> processes.Swept:
        """Kill every process of this user, but never this one, that has ``cookie`` in its environment; seconds at most."""
        return processes.sweep(f"{COOKIE}={cookie}", seconds=_KILL_SECONDS)

    def log(self, name: str, *, most_bytes: int = 1 << 20) -> bytes:
        """Return raw output: all of it, or its beginning and its newest end with one marker line between.

        At most ``most_bytes`` and the marker. A part that was cut begins at the start of a line. Empty if there is none, or
        if what is there is not what a supervisor writes.
        """
        folder = self._folder(name)
        for _ in range(3):
            try:
                return log(folder, most_bytes)
            except (OSError, ValueError):  # the log went on to its next part meanwhile
                continue
        return b""

    def _folder(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} cannot be the name of a run: letters, digits, dot, dash and underscore only")
        return self._root / name

    def _make(self, folder: Path) -> None:
        own_folder(self._root)
        for path in dict.fromkeys((self._root, folder.parent, folder)):
            self._make_one(path)

    def _make_one(self, path: Path) -> None:
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode=0o700)
            path.chmod(0o700)
        found = path.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            raise PermissionError(f"{path} is not a folder of this user")

    def _end(self, name: str, number: signal.Signals) -> bool:
        state = self.probe(name)
        if isinstance(state, Unknown):
            return False
        if isinstance(state, Running):
            processes.send(state.process, number)
            return True
        prepared = os.path.lexists(self._folder(name) / "spec.json")
        return self._withdraw(name) if prepared or isinstance(state, Starting) else True

    def _withdraw(self, name: str) -> bool:
        """Take back a spec, so that a supervisor that is still to come finds nothing, and what a killed one left."""
        folder = self._folder(name)
        with _held(folder, patience_seconds=0.0) as held:
            if held:
                (folder / "spec.json").unlink(missing_ok=True)
            return held

    def _set_aside(self, name: str) -> None:
        """End what a lost run left, and rename its folder: the name can be used again, and what was kept can be read."""
        folder = self._folder(name)
        with _held(folder, patience_seconds=_LOCK_SECONDS) as held:
            if not held or _end_on_record(folder) is not None:  # another began it again meanwhile
                raise Failed(f"{name} was started before")
            self.sweep(self.cookie(name))
            number = sum(1 for _ in folder.parent.glob(f"{folder.name}{_ASIDE}*")) + 1
            folder.rename(folder.with_name(f"{folder.name}{_ASIDE}{number}"))

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
    """Hold the lock of a run that does not run; yields false if somebody else kept it, or put the folder aside."""
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    until = time.monotonic() + patience_seconds
    try:
        while not (held := _flock(lock, fcntl.LOCK_EX)) and time.monotonic() < until:
            time.sleep(0.005)  # a prober holds it shared for an instant
        yield held and _is_at(folder / "lock", lock)
    finally:
        fcntl.flock(lock, fcntl.LOCK_UN)  # not by closing alone: a fork in another thread shares what is open
        os.close(lock)


def _is_at(path: Path, fd: int) -> bool:
    try:
        return os.path.samestat(path.lstat(), os.fstat(fd))
    except FileNotFoundError:
        return False


def _is_held(folder: Path) -> bool:
    try:
        lock = os.open(folder / "lock", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
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


def _end_on_record(folder: Path) -> Exit | None:
    """How a run ended whose lock is free; what was written there by another than its supervisor is no record."""
    try:
        return ended(folder)
    except Odd:
        return None
