"""The machine under us: time, what wakes the controller, processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from orchconverge.core.seen import Machine
from orchconverge.core.values import Process


class Clock(Protocol):
    """Time. Budgets are kept on monotonic time, wall time is shown."""

    def monotonic(self) -> float:
        """Seconds, never going back, standing still while the machine is suspended."""

    def now(self) -> datetime:
        """UTC."""


class Served(Protocol):
    """What is answered while the controller waits."""

    def handles(self) -> Sequence[int]:
        """File descriptors that can be read when something is asked."""

    def serve(self) -> bool:
        """Answer what was asked, without waiting for anything. True if there is something new to decide on."""


class Wakeups(Protocol):
    """What ends the controller's wait. Nothing is decided here."""

    def wait(self, running: Sequence[str], *, until: float | None, served: Served | None = None) -> None:
        """Return when a supervised process of these names ends, the ledger grows, a signal comes, or at ``until`` (monotonic).

        Meanwhile ``served`` is, and ends the wait where it says so.
        """

    def stopping(self) -> int:
        """How often this process was asked to stop by a signal."""


class Host(Protocol):
    """The machine under us."""

    def look(self) -> Machine:
        """Free memory, free disk where our worktrees and state lie, and how many more processes and terminals there can be."""

    def identity(self) -> tuple[str, Process]:
        """The host's name and this process."""

    def signal(self, process: Process, number: int) -> bool:
        """Send a signal to exactly this process, whoever has its pid now; false if it does not live. Never raises."""

    def random(self) -> str:
        """A fresh id, 32 hex digits."""

    def environment(self) -> Mapping[str, str]:
        """The environment of this process."""
