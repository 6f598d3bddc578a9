"""Monotonic and wall time of this machine."""

from __future__ import annotations

import time
from datetime import UTC, datetime


class SystemClock:
    """Monotonic and wall time. Monotonic time stands still while the machine is suspended (Linux `CLOCK_MONOTONIC`)."""

    def monotonic(self) -> float:
        """Seconds since some fixed moment."""
        return time.monotonic()

    def now(self) -> datetime:
        """UTC."""
        return datetime.now(UTC)
