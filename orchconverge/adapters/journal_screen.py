"""One line on a person's terminal about what runs now, rewritten in place, and never in the middle of another line."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Sequence
from typing import Final, TextIO

from orchconverge.core.views.text import clean, clip, counted, duration
from orchconverge.ports import Runs

EVERY_SECONDS: Final = 1.0
PLAIN_EVERY_SECONDS: Final = 30.0
"""How often at most a line is written where none can be rewritten."""
CLEAR: Final = "\r\x1b[K"
COLUMNS: Final = 80


class Screen(logging.StreamHandler[TextIO]):
    """Lines of a log on ``stream``, and below them one about what runs. Where that is no terminal, no such line.

    It owns a thread while something runs. ``speaks``: lines are written; else only what runs is shown.
    """

    def __init__(self, stream: TextIO, *, speaks: bool = True) -> None:
        super().__init__(stream)
        self._speaks = speaks
        self._terminal = stream.isatty()
        self._plain = os.environ.get("TERM", "dumb") == "dumb" or bool(os.environ.get("NO_COLOR"))
        self._runs: Sequence[Runs] = ()
        self._first: dict[str, float] = {}
        self._shown = ""
        self._said_at = float("-inf")
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._over = False

    def emit(self, record: logging.LogRecord) -> None:
        """One line of the log, above the one about what runs."""
        if not self._speaks:
            return
        self._clear()
        super().emit(record)
        self._draw()

    def runs(self, what: Sequence[Runs]) -> None:
        """Show these from now on, in place of what was shown."""
        if not self._terminal:
            return
        now = time.time()
        with self._changed:
            self._runs = tuple(what)
            self._first = {one.what: self._first.get(one.what, now) for one in what}
            if what and self._thread is None and not self._over:
                self._thread = threading.Thread(target=self._draw_on, name="screen", daemon=True)
                self._thread.start()
            self._changed.notify()
        self._locked(draws=bool(what))

    def close(self) -> None:
        """Clear the line, and end the thread."""
        with self._changed:
            self._runs, self._over = (), True
            self._changed.notify()
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join(EVERY_SECONDS)
        if thread is None or not thread.is_alive():  # else it writes to a terminal that was stopped, and has the lock
            self._locked(draws=False)
        super().close()

    def _draw_on(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._over, EVERY_SECONDS if self._runs else None)
                if self._over:
                    return
            self._locked(draws=True)

    def _locked(self, *, draws: bool) -> None:
        self.acquire()
        try:
            self._draw() if draws else self._clear()
        finally:
            self.release()

    def _draw(self) -> None:
        """Write the line, if it is another one. With the handler's lock."""
        text = told(self._runs, self._first, time.time()) if self._terminal else ""
        if not text or text == self._shown:
            return
        if self._plain:
            moment = time.monotonic()
            if moment - self._said_at >= PLAIN_EVERY_SECONDS:
                self._said_at = moment
                self._write(f"{text}\n")
            return
        self._shown = text  # before it is: who is interrupted in between has to clear it
        self._write(f"{CLEAR}{clip(text, self._columns() - 1)}")

    def _clear(self) -> None:
        if self._shown:
            self._shown = ""
            self._write(CLEAR)

    def _write(self, text: str) -> None:
        try:
            self.stream.write(text)
            self.stream.flush()
        except (OSError, ValueError):  # the terminal is gone: nobody looks
            self._terminal = False

    def _columns(self) -> int:
        try:
            return os.get_terminal_size(self.stream.fileno()).columns or COLUMNS
        except (OSError, ValueError):
            return COLUMNS


def told(runs: Sequence[Runs], first: dict[str, float], now: float) -> str:
    """What runs, the one that runs longest in full: ``auth.2 3m 12s of 1h 00m, and 2 more``. Empty if nothing does."""
    if not runs:
        return ""
    began = [one.since.timestamp() if one.since is not None else first.get(one.what, now) for one in runs]
    longest = min(range(len(runs)), key=began.__getitem__)
    one = runs[longest]
    most = f" of {duration(one.deadline_seconds)}" if one.deadline_seconds is not None else ""
    others = f", and {counted(len(runs) - 1, 'more', 'more')}" if len(runs) > 1 else ""
    return f"{clean(one.what)} {duration(now - began[longest])}{most}{others}"
