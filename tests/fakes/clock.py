"""Virtual time: it stands still until somebody waits, and then goes from one happening to the next."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

BEGIN = datetime(2026, 11, 29, 14, 0, 0, tzinfo=UTC)
UNWATCHED_SECONDS = 0.5
"""How soon to look again at what was started and cannot be watched yet."""
LEAST_SECONDS = 0.001
"""No wait takes no time at all."""


class Time:
    """What time it is, and what is still to happen in it, in order."""

    def __init__(self) -> None:
        self.mono = 1000.0
        self.wall = BEGIN
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    def after(self, seconds: float, happen: Callable[[], None]) -> None:
        """Let something happen that many seconds from now."""
        self._count += 1
        heapq.heappush(self._due, (self.mono + max(0.0, seconds), self._count, happen))

    def step(self, until: float) -> bool:
        """Go on to the next happening, or to ``until`` if nothing happens before. True if something happened."""
        if self._due and self._due[0][0] <= until:
            moment, _, happen = heapq.heappop(self._due)
            self._move(moment)
            happen()
            return True
        self._move(until)
        return False

    def run(self, seconds: float) -> None:
        """Let that many seconds pass."""
        until = self.mono + seconds
        while self.step(until):
            pass

    def jump(self, seconds: float) -> None:
        """Set the wall clock forward or back; a suspended machine does the same while monotonic time stands still."""
        self.wall += timedelta(seconds=seconds)

    def _move(self, moment: float) -> None:
        if moment > self.mono:
            self.wall += timedelta(seconds=moment - self.mono)
            self.mono = moment


class VirtualClock:
    """`orchconverge.ports.Clock`."""

    def __init__(self, time: Time) -> None:
        self._time = time

    def monotonic(self) -> float:
        return self._time.mono

    def now(self) -> datetime:
        return self._time.wall


class VirtualWakeups:
    """`orchconverge.ports.Wakeups`. ``size`` is that of the ledger, ``runs`` whether a name can be watched."""

    def __init__(self, time: Time, *, size: Callable[[], int], runs: Callable[[str], bool]) -> None:
        self._time = time
        self._size = size
        self._runs = runs
        self.signals = 0

    def stopping(self) -> int:
        return self.signals

    def wait(self, running: Sequence[str], *, until: float | None) -> None:
        time, size, signals = self._time, self._size(), self.signals
        watched = [name for name in running if self._runs(name)]
        latest = float("inf") if until is None else max(until, time.mono + LEAST_SECONDS)
        if len(watched) < len(running):
            latest = min(latest, time.mono + UNWATCHED_SECONDS)
        while time.step(latest):
            if self._size() != size or self.signals != signals or not all(map(self._runs, watched)):
                return
