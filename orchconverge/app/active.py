"""Active time: seconds that count against the hours of a target. Waiting, suspension and a dead controller do not."""

from __future__ import annotations

from orchconverge.ports import Clock


class ActiveTime:
    """Counts on from what the ledger last said."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._last = clock.monotonic()
        self.seconds = seconds

    def tick(self, *, waiting: bool, least: float) -> None:
        """Add what has passed since the last tick, unless the run waits. ``least`` is what the ledger says by now."""
        now = self._clock.monotonic()
        self.seconds = max(self.seconds, least)
        if not waiting:
            self.seconds += max(0.0, now - self._last)
        self._last = now
