"""What is written down: the ledger, its locks, and what is kept beside it for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from orchconverge.core.events import AnyFact
from orchconverge.core.seen import Health
from orchconverge.core.state import State
from orchconverge.core.values import Writer


class Ledger(Protocol):
    """The only truth."""

    @property
    def state(self) -> State:
        """What the lines read so far add up to."""

    @property
    def health(self) -> Health:
        """What the reader met so far."""

    def catch_up(self) -> tuple[AnyFact, ...]:
        """Read and fold what was appended since, by anybody; returns those facts."""

    def append(self, fact: AnyFact, *, writer: Writer, active: float | None = None) -> AnyFact:
        """Write one fact, durably. Raises `Illegal` and `NotDurable`; then nothing was acknowledged."""

    def backup(self) -> Path | None:
        """Copy the ledger beside itself, at a run's end; the last three are kept. ``None`` if it could not be copied."""


class Lease(Protocol):
    """A lock that lives as long as its holder."""

    def release(self) -> None:
        """Give it back."""


class Leases(Protocol):
    """Who drives which basin, and who may add a worktree or move a target."""

    def take(self, name: str, *, wait_seconds: float = 0.0) -> Lease | None:
        """Take the lock ``name``; ``None`` if somebody holds it until ``wait_seconds`` are over."""

    def held(self, name: str) -> bool | None:
        """Whether somebody holds it; ``None`` if it cannot be told."""


class Shelf(Protocol):
    """Where outputs of checks are kept for people, by digest. Never read back as truth."""

    def keep(self, output: bytes) -> tuple[str, str]:
        """Store an output; returns its digest (sha256, hex) and the file's name. A full disk stores nothing, and it is fine."""


class Exports(Protocol):
    """The JSON export in the seed's shape, for whoever reads that."""

    def write(self, seq: int, document: Mapping[str, Any], basin: str, *, newest: bool = True) -> bool:
        """Write the export if it is newer than the one there. False if it could not be: it may lag, never lie."""


class Runs(NamedTuple):
    """Something that runs now: since when, or since it was first shown, and how long it may."""

    what: str
    since: datetime | None = None
    deadline_seconds: float | None = None


class Journal(Protocol):
    """The controller's own words, for people: the pane it runs in and `logs/system.log`."""

    def say(self, text: str) -> None:
        """One line."""

    def measure(self, figures: Mapping[str, Any]) -> None:
        """One line of `logs/performance.log`: timings and use of resources, JSON."""

    def runs(self, what: Sequence[Runs]) -> None:
        """Show a person at a terminal what runs now, in place of what was shown before. Nothing: clear it."""
