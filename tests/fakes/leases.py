"""Locks in memory. Several `MemoryLeases` on one `Board` are several processes."""

from __future__ import annotations


class Board:
    """Which locks are held, by name, and which cannot be told."""

    def __init__(self) -> None:
        self.held: set[str] = set()
        self.unknown: set[str] = set()


class MemoryLease:
    def __init__(self, board: Board, name: str) -> None:
        self._board: Board | None = board
        self._name = name

    def release(self) -> None:
        if self._board is not None:
            self._board.held.discard(self._name)
            self._board = None


class MemoryLeases:
    """`orchconverge.ports.Leases`. It never waits: nobody else runs meanwhile. `waits` lists what was waited for, and how long."""

    def __init__(self, board: Board | None = None) -> None:
        self.board = Board() if board is None else board
        self.waits: list[tuple[str, float]] = []
        self._taken: list[MemoryLease] = []

    def take(self, name: str, *, wait_seconds: float = 0.0) -> MemoryLease | None:
        if name in self.board.held:
            self.waits.append((name, wait_seconds))
            return None
        self.board.held.add(name)
        self._taken.append(MemoryLease(self.board, name))
        return self._taken[-1]

    def lost(self) -> None:
        """Let go of everything, as the kernel does for a process that is gone."""
        for lease in self._taken:
            lease.release()
        self._taken.clear()

    def held(self, name: str) -> bool | None:
        return None if name in self.board.unknown else name in self.board.held
