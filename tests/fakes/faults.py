"""Seeded faults at every call of a port: the controller dies, the call fails before or after its effect, it takes long."""

from __future__ import annotations

import errno
from collections.abc import Callable
from random import Random
from typing import Any

from orchconverge.errors import Failed
from tests.fakes.clock import Time
from tests.fakes.story import Rates

EFFECTS = frozenset(
    {
        "git.create_branch", "git.add_worktree", "git.include", "git.remove_worktree", "git.keep", "git.snapshot", "git.squash",
        "git.commit_tree", "git.advance", "panes.open", "panes.close", "supervisors.prepare", "supervisors.launch",
        "supervisors.stop", "supervisors.kill", "supervisors.put", "leases.take", "ledger.append", "exports.write",
        "wakeups.wait",
    }
)  # fmt: skip
"""The calls that change something, or before which time passes."""
FAILS = ("git.", "panes.open", "panes.close")
"""Calls that raise `Failed` now and then."""


class Crash(BaseException):
    """The controller is killed here."""


class Faults:
    """Decides what goes wrong at which call. ``crash_at`` kills at exactly that point, counted over all effects."""

    def __init__(self, random: Random, rates: Rates, time: Time, *, crash_at: int | None = None) -> None:
        self.random = random
        self.rates = rates
        self.time = time
        self.crash_at = crash_at
        self.points = 0
        self.where: list[str] = []
        self.crashes_left = 40
        self.quiet = False
        self.disk_full = False

    def point(self, where: str) -> None:
        """A place where the controller can be killed."""
        if self.quiet:
            return
        self.points += 1
        if self.crash_at is not None and self.points == self.crash_at:
            raise Crash(where)
        if self.rates.crash and self.crashes_left and self.random.random() < self.rates.crash:
            self.crashes_left -= 1
            raise Crash(where)

    def fail(self, where: str) -> None:
        """Raise what this call raises now and then."""
        if self.quiet:
            return
        if self.disk_full and where in ("supervisors.prepare", "supervisors.put"):
            raise OSError(errno.ENOSPC, "No space left on device", where)
        if self.rates.failed and where.startswith(FAILS) and self.random.random() < self.rates.failed:
            raise Failed(f"{where} did not answer in time")

    def take_time(self) -> None:
        """Let some time pass in the middle of the controller's work, in which others go on."""
        if self.rates.slow and not self.quiet and self.random.random() < self.rates.slow:
            self.time.run(self.random.choice((0.01, 0.5, 3.0)))

    def unknown(self, name: str) -> bool:
        return bool(self.rates.unknown) and not self.quiet and self.random.random() < self.rates.unknown

    def between(self, where: str) -> None:
        """The middle of an effect that takes several steps."""
        self.point(f"in the middle of {where}")


class Guarded:
    """A port behind which each call can go wrong."""

    def __init__(self, port: object, name: str, faults: Faults) -> None:
        self._port = port
        self._name = name
        self._faults = faults

    def __getattr__(self, attribute: str) -> Any:
        found = getattr(self._port, attribute)
        if not callable(found) or attribute.startswith("_"):
            return found
        guarded = self._guard(found, f"{self._name}.{attribute}")
        self.__dict__[attribute] = guarded
        return guarded

    def _guard(self, call: Callable[..., object], where: str) -> Callable[..., object]:
        faults, effect = self._faults, where in EFFECTS

        def guarded(*args: object, **named: object) -> object:
            if effect:
                faults.point(f"before {where}")
            faults.take_time()
            if effect:
                faults.fail(where)
            result = call(*args, **named)
            faults.fail(where)
            if effect:
                faults.point(f"after {where}")
            return result

        return guarded
