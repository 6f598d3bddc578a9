"""A gate in memory: minds ask it by a call, and are answered when it is served."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from orchconverge.errors import Failed
from orchconverge.ports import Question


class MemoryGate:
    """`orchconverge.ports.Gate`. ``asked`` waits to be served; ``answers`` are the refusals' reasons, in order."""

    def __init__(self, *, closed: bool = False) -> None:
        self.closed = closed
        self.asked: list[Question] = []
        self.answers: list[str | None] = []

    def open(self) -> Path:
        if self.closed:
            raise Failed("nobody can listen here")
        return Path("/gate")

    def handles(self) -> Sequence[int]:
        return ()

    def serve(self, answer: Callable[[Question], str | None]) -> None:
        while self.asked:
            self.answers.append(answer(self.asked.pop(0)))

    def close(self) -> None:
        self.asked.clear()
