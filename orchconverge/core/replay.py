"""Folds stored lines, and counts those that could not be folded: damaged, illegal, of a later version."""

from __future__ import annotations

from collections.abc import Callable

from orchconverge.core import upcast
from orchconverge.core.events import AnyFact
from orchconverge.core.reducer import Fold
from orchconverge.core.upcast import Damaged, Newer
from orchconverge.errors import Illegal


class Replay:
    """The fold of lines, and the count of those that could not be folded; ``odd`` is told of each with its number."""

    def __init__(self, odd: Callable[[int, str], None] = lambda line, why: None) -> None:
        self.fold = Fold()
        self.seq = 0
        """The number of the last line that had one; the next has the next."""
        self.lines = self.bad = self.illegal = self.unknown = 0
        self._gap = False  # a damaged line came since: it explains why numbers are missing
        self._odd = odd

    def feed(self, block: bytes, keep: list[AnyFact] | None = None, *, after: int = 0) -> None:
        """Fold whole lines, each with its newline; facts with a higher seq than ``after`` are appended to ``keep``."""
        facts = upcast.decode_next(block, self.seq)
        if facts is None:
            for line in block.split(b"\n"):
                if line.strip():
                    self._one(line, keep, after)
            return
        take = self.fold.take
        for number, fact in enumerate(facts, self.lines + 1):
            try:
                take(fact)
            except Illegal as error:
                self._count_illegal(number, error)
                continue
            if keep is not None and fact.seq > after:
                keep.append(fact)
        self.fold.settle()
        self.lines += len(facts)
        self.seq += len(facts)
        self._gap = False

    def _one(self, line: bytes, keep: list[AnyFact] | None, after: int) -> None:
        """Fold a line among which something is odd."""
        self.lines += 1
        fact = upcast.decode(line, after=self.seq)
        if isinstance(fact, Damaged):
            self._gap = True
            self._count_bad(fact.why)
            return
        if fact.seq <= self.seq:
            self._count_bad(f"seq {fact.seq} after {self.seq}: a copy of an earlier line, or of two lines")
            return
        if fact.seq != self.seq + 1 and not self._gap:
            self._count_bad(f"seq {fact.seq} after {self.seq}: lines are missing before it")
        self.seq = fact.seq
        self._gap = False
        if isinstance(fact, Newer):
            self.unknown += 1
            return
        try:
            self.fold.apply(fact)
        except Illegal as error:
            self._count_illegal(self.lines, error)
            return
        if keep is not None and fact.seq > after:
            keep.append(fact)

    def passed(self, seq: int) -> None:
        """Take note of a line that was folded and written by this process itself."""
        self.lines += 1
        self.seq = seq
        self._gap = False

    def _count_bad(self, why: str) -> None:
        self.bad += 1
        self._odd(self.lines, why)

    def _count_illegal(self, line: int, error: Illegal) -> None:
        self.illegal += 1
        self._odd(line, f"not legal here: {error.message}")
