"""Virtual time: it stands still until somebody waits, and then goes from one happening to the next."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from threading import Semaphore, Thread, local
from typing import NamedTuple

from orchconverge.ports import Served

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


class Awaited(NamedTuple):
    """Until when somebody waits, and whether what is waited for has come."""

    latest: float
    over: Callable[[], bool]


class VirtualWakeups:
    """`orchconverge.ports.Wakeups`. ``size`` is that of the ledger, ``runs`` whether a name can be watched."""

    def __init__(self, time: Time, *, size: Callable[[], int], runs: Callable[[str], bool]) -> None:
        self._time = time
        self._size = size
        self._runs = runs
        self.signals = 0

    def stopping(self) -> int:
        return self.signals

    def wait(self, running: Sequence[str], *, until: float | None, served: Served | None = None) -> None:
        awaited = self.awaited(running, until)
        while self._time.step(awaited.latest):
            if awaited.over():
                return

    def awaited(self, running: Sequence[str], until: float | None) -> Awaited:
        """What such a wait ends with."""
        time, size, signals = self._time, self._size(), self.signals
        watched = [name for name in running if self._runs(name)]
        latest = float("inf") if until is None else max(until, time.mono + LEAST_SECONDS)
        if len(watched) < len(running):
            latest = min(latest, time.mono + UNWATCHED_SECONDS)
        return Awaited(
            latest,
            lambda: self._size() != size or self.signals != signals or not all(map(self._runs, watched)),
        )


class Abandoned(BaseException):
    """Another one of those who take turns has failed: nobody goes on."""


class Turns:
    """Several who act in the same time, one at a time: each goes on until it waits. The order is always the same."""

    def __init__(self, time: Time) -> None:
        self._time = time
        self._back = Semaphore(0)
        self._waits: dict[Semaphore, Awaited] = {}
        self._mine = local()
        self._failed: BaseException | None = None

    def run(self, *acts: Callable[[], None]) -> None:
        """Let all act until they are done. Raises what the first one raised that failed."""
        turns = [Semaphore(0) for _ in acts]
        threads = [Thread(target=self._act, args=pair, daemon=True) for pair in zip(acts, turns, strict=True)]
        self._waits = {turn: Awaited(self._time.mono, lambda: True) for turn in turns}
        for thread in threads:
            thread.start()
        while self._waits:
            self._give(self._next())
        for thread in threads:
            thread.join()
        if self._failed is not None:
            raise self._failed

    def _next(self) -> Semaphore:
        """Whose wait is over, after as much time as that takes."""
        while True:
            for turn, awaited in self._waits.items():
                if self._failed is not None or awaited.over() or self._time.mono >= awaited.latest:
                    return turn
            self._time.step(min(awaited.latest for awaited in self._waits.values()))

    def _give(self, turn: Semaphore) -> None:
        del self._waits[turn]
        turn.release()
        self._back.acquire()

    def _act(self, act: Callable[[], None], turn: Semaphore) -> None:
        self._mine.turn = turn
        turn.acquire()
        try:
            if self._failed is None:
                act()
        except Abandoned:
            pass
        except BaseException as error:
            self._failed = self._failed or error
        finally:
            self._back.release()

    def wait(self, awaited: Awaited) -> None:
        """Let the others act until it is over. Raises `Abandoned`."""
        turn = self._mine.turn
        self._waits[turn] = awaited
        self._back.release()
        turn.acquire()
        if self._failed is not None:
            raise Abandoned
