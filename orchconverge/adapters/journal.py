"""What the controller says, for people: on its own terminal and in `logs/{system,performance}.log`. Never read back."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import resource
import sys
import time
from collections.abc import Mapping, Sequence
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

from orchconverge.adapters.journal_screen import Screen
from orchconverge.core.views.text import clean
from orchconverge.errors import Refused
from orchconverge.files import open_own, own_folder
from orchconverge.ports import Journal, Runs

MOST_BYTES = 4 << 20
KEPT = 3
WIDTH = 400


class _OwnFile(RotatingFileHandler):
    """A rotating file that is ours alone: 0600, and never somebody's link."""

    def _open(self) -> TextIOWrapper:
        fd = open_own(Path(self.baseFilename), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        return TextIOWrapper(os.fdopen(fd, "ab"), encoding=self.encoding, errors=self.errors)

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line where it is read: another controller may have begun a new file since."""
        assert self.stream is not None  # it is opened at once
        try:
            here = os.path.samestat(os.fstat(self.stream.fileno()), os.stat(self.baseFilename))  # noqa: PTH116
        except (OSError, ValueError):
            here = False
        if not here:
            with contextlib.suppress(OSError, Refused):
                opened = self._open()
                self.stream.close()
                self.stream = opened
        super().emit(record)


class About:
    """A journal whose lines begin with the name of what they are about: one file holds those of every goal."""

    def __init__(self, journal: Journal, name: str) -> None:
        self._journal = journal
        self._name = name

    def say(self, text: str) -> None:
        """One line."""
        self._journal.say(f"{self._name}: {text}")

    def measure(self, figures: Mapping[str, Any]) -> None:
        """One line of figures."""
        self._journal.measure(figures)

    def runs(self, what: Sequence[Runs]) -> None:
        """What runs now."""
        self._journal.runs(what)


class LoggedJournal:
    """Lines with their time, to stderr and to a rotating file. A full disk or a closed terminal silences it, nothing else."""

    def __init__(self, folder: Path, *, screen: bool = True) -> None:
        self._log = logging.getLogger("orchconverge.system")
        self._log.propagate = False
        self._log.setLevel(logging.INFO)
        logging.raiseExceptions = False
        self._performance = folder / "performance.log"
        form = logging.Formatter("%(asctime)s %(message)s", "%Y-%m-%d %H:%M:%S")
        handlers: list[logging.Handler] = []
        with contextlib.suppress(OSError, Refused):
            own_folder(folder)
            handlers.append(_OwnFile(folder / "system.log", maxBytes=MOST_BYTES, backupCount=KEPT, encoding="utf-8"))
        self._screen = Screen(sys.stderr, speaks=screen)
        handlers.append(self._screen)
        for handler in handlers:
            handler.setFormatter(form)
            self._log.addHandler(handler)

    def say(self, text: str) -> None:
        """One line, made safe for a terminal."""
        self._log.info(clean(text, WIDTH))

    def measure(self, figures: Mapping[str, Any]) -> None:
        """One line of JSON with its time and this process's own use; best effort."""
        use = resource.getrusage(resource.RUSAGE_SELF)
        own = {"at": time.time(), "cpu_seconds": use.ru_utime + use.ru_stime, "peak_kb": use.ru_maxrss}
        line = json.dumps({**own, **figures}, separators=(",", ":")).encode() + b"\n"
        with contextlib.suppress(OSError):
            if self._performance.stat().st_size > MOST_BYTES:
                self._performance.replace(self._performance.with_suffix(".log.1"))
        with contextlib.suppress(OSError):
            fd = os.open(
                self._performance, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
            )
            with os.fdopen(fd, "wb", buffering=0) as file:
                file.write(line)

    def runs(self, what: Sequence[Runs]) -> None:
        """Show what runs now, on a terminal."""
        self._screen.runs(what)

    def close(self) -> None:
        """Let go of the file."""
        for handler in list(self._log.handlers):
            self._log.removeHandler(handler)
            handler.close()
