"""Supervised processes in virtual time: they outlive whoever started them, as real ones do, and play what a script says."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from orchconverge.core.values import Process
from orchconverge.errors import Failed
from orchconverge.ports import Absent, Ended, Exit, Lost, Probe, Running, Spec, Starting, Unknown
from tests.fakes.clock import Time

NAME = re.compile(r"(?:[a-z]{1,20}/)?[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
START_SECONDS = 10.0
BOOT = "virtual"


@dataclass(kw_only=True)
class Program:
    """What a process does. ``seconds`` may be infinite; ``acts`` are told by their time after its start.

    ``finish`` gives the exit code at its own end; ``obeys`` is how long it takes to end once it is told to, infinite if it
    has to be killed; ``begins`` after how long its supervisor has its lock, ``None`` if the start is lost.
    """

    seconds: float = 1.0
    code: int | None = 0
    signal: int | None = None
    acts: Sequence[tuple[float, Callable[[], None]]] = ()
    finish: Callable[[], int] | None = None
    log: bytes = b""
    obeys: float = 0.0
    begins: float | None = 0.02
    orphans: bool = False


@dataclass
class Entry:
    """The folder of one name, and its process."""

    files: dict[str, bytes] = field(default_factory=dict)
    spec: Spec | None = None
    program: Program = field(default_factory=Program)
    process: Process | None = None
    running: bool = False
    orphaned: bool = False
    ending: str = ""
    exit: Exit | None = None
    log: bytes = b""
    since: float = 0.0
    grace: float = 5.0


class Machine:
    """All processes there are. ``play`` says what one does when it is started; ``refuse`` why it must not run, if so."""

    def __init__(
        self,
        time: Time,
        *,
        play: Callable[[Spec], Program],
        refuse: Callable[[Spec], str] = lambda spec: "",
    ) -> None:
        self.time = time
        self.play = play
        self.refuse = refuse
        self.entries: dict[str, Entry] = {}
        self.starts: Counter[str] = Counter()
        self.together: list[str] = []
        """Names of which two ran at once."""
        self.peak: Counter[str] = Counter()
        """How many of a kind ran at once, at most."""
        self._pid = 100

    def entry(self, name: str) -> Entry:
        return self.entries.setdefault(name, Entry())

    def runs(self, name: str) -> bool:
        found = self.entries.get(name)
        return found is not None and found.running

    def alive(self) -> list[str]:
        """What runs, supervised or left over from a supervisor that was killed."""
        return [name for name, e in self.entries.items() if e.running or e.orphaned]

    def start(self, argv: Sequence[str]) -> None:
        """Execute a supervisor. Whether it gets its lock is seen later."""
        name = argv[-1]
        entry = self.entries.get(name)
        if entry is None or entry.spec is None:
            return
        spec = entry.spec
        program = self.play(spec)
        if program.begins is not None:
            self.time.after(program.begins, lambda: self._claim(entry, spec, program))

    def _claim(self, entry: Entry, spec: Spec, program: Program) -> None:
        name = spec.name
        if entry.process is not None or entry.spec is None:  # another one got the lock, or it was withdrawn
            return
        self._pid += 1
        entry.process = Process(boot=BOOT, pid=self._pid, start=self._pid)
        entry.spec, entry.program, entry.since, entry.grace = None, program, self.time.mono, spec.grace_seconds
        why = self.refuse(spec)
        if why:
            entry.exit = Exit(reason="refused", error=why, ended_at=self.time.mono)
            return
        if self.entries.get(name) is not entry or (self.runs(name) and not entry.running):
            self.together.append(name)
        self.starts[name] += 1
        entry.running = True
        kind = name.partition("/")[0]
        self.peak[kind] = max(
            self.peak[kind], sum(one.startswith(f"{kind}/") and self.runs(one) for one in self.entries)
        )
        for seconds, act in program.acts:
            self.time.after(seconds, lambda act=act: self._act(entry, act))  # type: ignore[misc]
        deadline = math.inf if spec.deadline_seconds is None else spec.deadline_seconds
        if program.seconds <= deadline:
            self.time.after(program.seconds, lambda: self._finish(entry))
        else:
            self.time.after(deadline, lambda: self._told(entry, "deadline"))

    def _act(self, entry: Entry, act: Callable[[], None]) -> None:
        if entry.running or entry.orphaned:
            act()

    def _finish(self, entry: Entry) -> None:
        if entry.orphaned:
            entry.orphaned = False
        if entry.running and not entry.ending:
            code = entry.program.finish() if entry.program.finish is not None else entry.program.code
            self._end(entry, "exited", code, entry.program.signal)

    def _told(self, entry: Entry, reason: str) -> None:
        """TERM: it ends when it obeys, or is killed after the grace."""
        if entry.running and not entry.ending:
            entry.ending = reason
            obeys = entry.program.obeys <= entry.grace
            after = entry.program.obeys if obeys else entry.grace
            signal = 15 if obeys else 9
            self.time.after(after, lambda: self._end(entry, reason, None, signal))

    def _end(self, entry: Entry, reason: str, code: int | None, signal: int | None) -> None:
        if not entry.running:
            return
        entry.running = False
        entry.log = entry.program.log
        assert reason in ("exited", "deadline", "killed", "refused")
        entry.exit = Exit(
            reason=reason,  # type: ignore[arg-type]
            code=code,
            signal=signal,
            seconds=round(self.time.mono - entry.since, 6),
            started_at=entry.since,
            ended_at=self.time.mono,
            bytes=len(entry.log),
        )

    def stop(self, name: str) -> None:
        self._told(self.entries[name], "killed")

    def lose(self, name: str) -> None:
        """Kill a supervisor: its program dies with it, what that one had started may not, and nobody records anything."""
        entry = self.entries[name]
        if entry.running:
            entry.running = False
            entry.orphaned = entry.program.orphans

    def sweep(self, name: str) -> None:
        entry = self.entries.get(name)
        if entry is not None:
            entry.orphaned = False


class MemorySupervisors:
    """`orchconverge.ports.Supervisors` as one process has it. ``unknown`` says whether a probe of a name fails now."""

    def __init__(self, machine: Machine, root: Path, *, unknown: Callable[[str], bool] = lambda name: False) -> None:
        self._machine = machine
        self._root = root
        self._unknown = unknown
        self._prepared: dict[str, float] = {}

    def _named(self, name: str) -> str:
        if not NAME.fullmatch(name):
            raise ValueError(f"{name!r} cannot be the name of a run")
        return name

    def folder(self, name: str) -> Path:
        self._machine.entry(self._named(name))
        return self._root / name

    def subfolder(self, name: str, part: str) -> Path:
        return self.folder(name) / part

    def found(self, prefix: str) -> list[str]:
        return sorted(name for name in self._machine.entries if name.startswith(prefix) and ".lost." not in name)

    def prepare(self, spec: Spec) -> tuple[str, ...]:
        machine, name = self._machine, self._named(spec.name)
        state = self.probe(name)
        if isinstance(state, Lost):
            number = sum(1 for other in machine.entries if other.startswith(f"{name}.lost.")) + 1
            machine.entries[f"{name}.lost.{number}"] = machine.entries.pop(name)
        entry = machine.entry(name)
        if entry.process is not None:
            raise Failed(f"{name} was started before")
        entry.spec = spec
        self._prepared[name] = machine.time.mono
        return ("supervise", name)

    def launch(self, argv: Sequence[str]) -> None:
        self._machine.start(argv)

    def probe(self, name: str) -> Probe:
        entry = self._machine.entries.get(self._named(name))
        if self._unknown(name):
            return Unknown(why="the file system does not answer")
        if entry is None:
            return Absent()
        if entry.exit is not None:
            return Ended(exit=entry.exit, process=entry.process)
        if entry.process is None:
            awaited = self._machine.time.mono - self._prepared.get(name, -math.inf) < START_SECONDS
            return Starting() if entry.spec is not None and awaited else Absent()
        return Running(process=entry.process) if entry.running else Lost(process=entry.process)

    def stop(self, name: str) -> bool:
        state = self.probe(name)
        if isinstance(state, Unknown):
            return False
        self._withdraw(name)
        if isinstance(state, Running):
            self._machine.stop(name)
        return True

    def _withdraw(self, name: str) -> None:
        entry = self._machine.entries.get(name)
        if entry is not None:
            entry.spec = None

    def kill(self, name: str) -> bool:
        state = self.probe(name)
        self._withdraw(name)
        if isinstance(state, Running):
            self._machine.lose(name)
        self._machine.sweep(name)
        return not isinstance(state, Unknown)

    def log(self, name: str, *, most_bytes: int) -> bytes:
        entry = self._machine.entries.get(self._named(name))
        return b"" if entry is None else entry.log[:most_bytes]

    def put(self, name: str, file: str, data: bytes) -> Path:
        self._machine.entry(self._named(name)).files[file] = data
        return self._root / name / file

    def get(self, name: str, file: str, *, most_bytes: int = 1 << 20) -> bytes | None:
        entry = self._machine.entries.get(self._named(name))
        data = entry.files.get(file) if entry is not None else None
        return None if data is None else data[:most_bytes]
