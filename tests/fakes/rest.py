"""The small ports in memory: host, engines, shelf, exports, journal."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import msgspec

from orchconverge.core.seen import Outcome
from orchconverge.core.values import Process, Settings
from orchconverge.ports import Brief, Launch, Machine, Runs


class MemoryHost:
    """`orchconverge.ports.Host`. ``machine`` is what is left of it; ids come from ``random``, so a seed gives them again."""

    def __init__(self, random: Random, *, pid: int = 1) -> None:
        self.machine = Machine(memory_free=8 << 30, disk_free=100 << 30, pids_free=30_000, ptys_free=3_000)
        self.processes: set[Process] = set()
        """The processes that live."""
        self.signals: list[tuple[Process, int]] = []
        self._random = random
        self._pid = pid

    def look(self) -> Machine:
        return self.machine

    def identity(self) -> tuple[str, Process]:
        return "virtual", Process(boot="virtual", pid=self._pid, start=self._pid)

    def signal(self, process: Process, number: int) -> bool:
        self.signals.append((process, number))
        return process in self.processes

    def random(self) -> str:
        digits = f"{self._random.getrandbits(128):032x}"
        return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))

    def environment(self) -> Mapping[str, str]:
        return {"PATH": "/usr/bin:/bin", "HOME": "/home/ann"}


class OutcomeEngine:
    """`orchconverge.ports.Engine` whose log is an `Outcome` as JSON."""

    variables: tuple[str, ...] = ()

    def __init__(self, name: str, *, contextual: bool = False, commits: bool = True) -> None:
        self.name = name
        self.contextual = contextual
        self.commits = commits

    def find(self) -> str | None:
        return f"/usr/bin/{self.name}"

    def launch(self, brief: Brief, settings: Settings) -> Launch:
        context = (brief.context,) if brief.context is not None else ()
        return Launch(argv=(self.name, "resume" if brief.resume else "start", *context))

    def read(self, log: bytes) -> Outcome:
        try:
            return msgspec.json.decode(log, type=Outcome)
        except msgspec.DecodeError:
            return Outcome()


class MemoryShelf:
    """`orchconverge.ports.Shelf`."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    def keep(self, output: bytes) -> tuple[str, str]:
        digest = hashlib.sha256(output).hexdigest()
        self.kept[digest] = output
        return digest, f"{digest[:32]}.log"


class MemoryExports:
    """`orchconverge.ports.Exports`: the newest document of each basin and of the newest run (``""``)."""

    def __init__(self) -> None:
        self.documents: dict[str, tuple[int, Mapping[str, Any]]] = {}
        self.full = False

    def write(self, seq: int, document: Mapping[str, Any], basin: str, *, newest: bool = True) -> bool:
        if self.full:
            return False
        for name in (basin, "") if newest else (basin,):
            if self.documents.get(name, (0, {}))[0] < seq:
                self.documents[name] = (seq, document)
        return True


class MemoryJournal:
    """`orchconverge.ports.Journal`."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.figures: list[Mapping[str, Any]] = []
        self.running: tuple[Runs, ...] = ()

    def say(self, text: str) -> None:
        self.lines.append(text)

    def measure(self, figures: Mapping[str, Any]) -> None:
        self.figures.append(figures)

    def runs(self, what: Sequence[Runs]) -> None:
        self.running = tuple(what)
