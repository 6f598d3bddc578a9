"""What wakes the controller: ends of processes, growth of the ledger, signals, and APScheduler as the alarm clock.

APScheduler only rings: what is due is decided by the core on monotonic time. Its own decisions about late jobs are
switched off (``misfire_grace_time=None, coalesce=True, max_instances=1``): a job that is late rings late, and once.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import FrameType, TracebackType
from typing import Self

from apscheduler.jobstores.base import JobLookupError
from apscheduler.schedulers.background import BackgroundScheduler

from orchconverge.ports import Served

LEDGER_POLL = 0.25
"""Seconds between looks at the ledger's size."""
UNWATCHED_POLL = 0.05
"""Seconds between looks while a process was started and cannot be watched yet."""
DUE = "due"
GRACE = 5
"""Seconds that a supervisor gives what it was told to end, before it kills it (`Spec.grace_seconds`)."""
JOB_DEFAULTS = {"misfire_grace_time": None, "coalesce": True, "max_instances": 1}


class SystemWakeups:
    """Waits on process handles, the ledger's size, a signal pipe and an alarm. Use as a context: it owns a thread.

    With ``told``, which says a line to a person, signals are counted as wishes to stop; without it they are left as they
    were, so that Control + C ends what only waits.
    """

    def __init__(
        self, *, ledger: Path, handle: Callable[[str], int | None], told: Callable[[str], None] | None = None
    ) -> None:
        self._ledger = ledger
        self._handle = handle
        self._told = told
        self._signals = self._said = 0
        self._pipe = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._scheduler = BackgroundScheduler(timezone=UTC, job_defaults=JOB_DEFAULTS)
        self._before: list[tuple[signal.Signals, object]] = []
        self._known = self._size()
        """The ledger's size when the last wait ended: what came since was perhaps not read before the next one."""

    def __enter__(self) -> Self:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP) if self._told is not None else ():
            self._before.append((number, signal.signal(number, self._on_signal)))
        self._scheduler.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A job that its thread takes out just when it is shut down is not found there any more: a traceback on the terminal.
        with contextlib.suppress(JobLookupError):
            self._scheduler.remove_job(DUE)
        self._scheduler.shutdown(wait=False)
        for number, before in self._before:
            signal.signal(number, before)  # type: ignore[arg-type]
        for end in self._pipe:
            os.close(end)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if number != signal.SIGHUP:  # the terminal going away is no wish to stop
            self._signals += 1
        self._ring()

    def _ring(self) -> None:
        with contextlib.suppress(OSError):  # full is rung already; closed is over
            os.write(self._pipe[1], b"!")

    def stopping(self) -> int:
        """How often SIGTERM or SIGINT came."""
        return self._signals

    def wait(self, running: Sequence[str], *, until: float | None, served: Served | None = None) -> None:
        """Return when something happened. See `orchconverge.ports.Wakeups`."""
        handles = {name: self._handle(name) for name in running}
        watched = [fd for fd in handles.values() if fd is not None]
        try:
            self._poll(watched, unwatched=len(watched) < len(handles), until=until, served=served)
        finally:
            for fd in watched:
                os.close(fd)
        if (
            self._told is not None and self._signals > self._said
        ):  # said here: a handler could come in the middle of a line
            first, self._said = not self._said, self._signals
            once = f"stopping: waits up to {GRACE} s for the mind; again ends it now"
            self._told(once if first and self._signals == 1 else "ending it now")

    def _poll(self, watched: Sequence[int], *, unwatched: bool, until: float | None, served: Served | None) -> None:
        poll = select.poll()
        for fd in (*watched, self._pipe[0]):
            poll.register(fd, select.POLLIN)
        if until is not None:
            ahead = timedelta(seconds=max(0.0, until - time.monotonic()))
            self._scheduler.add_job(
                self._ring, "date", run_date=datetime.now(UTC) + ahead, id=DUE, replace_existing=True
            )
        while not self._rang(poll, (UNWATCHED_POLL if unwatched else LEDGER_POLL) * 1000, served):
            late = until is not None and time.monotonic() >= until
            if late or unwatched or self._size() != self._known:
                break
        self._known = self._size()
        with contextlib.suppress(BlockingIOError):
            os.read(self._pipe[0], 4096)

    def _rang(self, poll: select.poll, milliseconds: float, served: Served | None) -> bool:
        """Whether something ended or rang. What is asked meanwhile is answered, and ends the wait only if it says so."""
        asked = served.handles() if served is not None else ()
        for handle in asked:
            poll.register(handle, select.POLLIN)
        try:
            ready = {handle for handle, _ in poll.poll(milliseconds)}
        finally:
            for handle in asked:
                poll.unregister(handle)
        news = served.serve() if served is not None and asked else False
        return news or bool(ready.difference(asked))

    def _size(self) -> int:
        try:
            return self._ledger.stat().st_size
        except OSError:
            return -1
