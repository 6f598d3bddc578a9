"""A ledger in memory: the same lines, the same fold, no file. It fails when it is told to."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from orchconverge.core import upcast
from orchconverge.core.events import AnyFact
from orchconverge.core.reducer import State
from orchconverge.core.replay import Replay
from orchconverge.core.upcast import Damaged, Newer
from orchconverge.core.values import Writer
from orchconverge.errors import Illegal
from orchconverge.ports import Clock, Health


class Shelf:
    """The bytes that several `MemoryLedger`s share, as processes share a file."""

    def __init__(self, content: bytes = b"") -> None:
        self.content = bytearray(content)


class MemoryLedger:
    """`orchconverge.ports.Ledger` over a `Shelf`; a second instance on the same one is another process."""

    def __init__(self, clock: Clock, shelf: Shelf | None = None) -> None:
        self.shelf = Shelf() if shelf is None else shelf
        self._clock = clock
        self._offset = 0
        self._replay = Replay()
        self._begun = False
        self._unseen: list[AnyFact] = []
        self._failures = 0
        self._error: Exception | None = None
        self.copies: list[bytes] = []

    def fail_next(self, n: int, error: Exception) -> None:
        """Raise ``error`` from each of the next ``n`` appends that are legal; nothing is written."""
        self._failures, self._error = n, error

    @property
    def state(self) -> State:
        self._begin()
        return self._replay.fold.state

    @property
    def health(self) -> Health:
        self._begin()
        r = self._replay
        torn = len(self.shelf.content) > self._offset
        return Health(lines=r.lines, bad=r.bad, illegal=r.illegal, unknown=r.unknown, torn=torn)

    def catch_up(self) -> tuple[AnyFact, ...]:
        self._read(self._unseen)
        seen, self._unseen = tuple(self._unseen), []
        return seen

    def append(self, fact: AnyFact, *, writer: Writer, active: float | None = None) -> AnyFact:
        self._begin()
        self._read(self._unseen)
        if len(self.shelf.content) > self._offset:
            self.shelf.content += b"\n"
            self._read(self._unseen)
        stamped = replace(
            fact, v=upcast.VERSION, seq=self._replay.seq + 1, at=self._clock.now(), writer=writer, active=active
        )
        try:
            line = upcast.encode(stamped)
        except ValueError as error:
            raise Illegal(f"{type(fact).__name__} cannot be written", rule=str(error)) from error
        again = upcast.decode(line)
        if isinstance(again, Damaged | Newer):
            raise Illegal(f"{type(fact).__name__} could not be read again", rule=str(again))
        self._replay.fold.apply(again)
        if self._failures and self._error is not None:
            self._failures -= 1
            self._offset, self._replay = 0, Replay()
            self._read(None)
            raise self._error
        self.shelf.content += line
        self._offset += len(line)
        self._replay.passed(again.seq)
        return again

    def backup(self) -> Path | None:
        self.copies.append(bytes(self.shelf.content))
        return None

    def _begin(self) -> None:
        if not self._begun:
            self._read(None)

    def _read(self, keep: list[AnyFact] | None) -> None:
        self._begun = True
        cut = self.shelf.content.rfind(b"\n") + 1
        if cut > self._offset:
            self._replay.feed(bytes(self.shelf.content[self._offset : cut]), keep)
            self._offset = cut
