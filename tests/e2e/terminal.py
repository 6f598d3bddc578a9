"""A person at a terminal: the real command line on a pseudo-terminal of its own, typed into and read."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from typing import Self

from tests.e2e.lab import COMMAND, Lab, kill

CONTROLS = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
"""Makes its standard input the terminal that controls it, so that Control + C reaches it."""
AGAIN = 2.0
"""Seconds after which a person types Control + C once more."""
SGR = re.compile(r"\x1b\[[0-9;]*m")


class Terminal:
    """One command on a terminal of 120 x 40. Use as a context: what still runs at its end is killed."""

    def __init__(
        self,
        lab: Lab,
        *args: str,
        columns: int = 120,
        lines: int = 40,
        env: Mapping[str, str] | None = None,
        program: Sequence[str] = COMMAND,
    ) -> None:
        self.lab = lab
        self.ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", lines, columns, 0, 0))
        self.raw = b""
        self.seen = 0
        """So far `until` has read."""
        command = [sys.executable, "-c", CONTROLS, *program, *args]
        self.process = subprocess.Popen(
            command,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=lab.repo,
            env={**lab.env, **(env or {})},
            start_new_session=True,
        )
        os.close(theirs)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            kill(self.process.pid)
        self.process.wait()
        os.close(self.ours)

    @property
    def text(self) -> str:
        """All that was shown, without colour."""
        return SGR.sub("", self.raw.decode("utf-8", "replace")).replace("\r\n", "\n")

    def type(self, line: str) -> Self:
        """Type a line."""
        os.write(self.ours, f"{line}\n".encode())
        return self

    def interrupt(self, code: int, *, seconds: float = 30.0) -> None:
        """Control + C until it ends, with this exit code: one that comes just before Python reads a line is not seen by it."""
        ends = time.monotonic() + seconds
        while self.process.poll() is None:
            assert time.monotonic() < ends, self.text
            with contextlib.suppress(OSError):  # it has ended meanwhile
                os.write(self.ours, b"\x03")
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(AGAIN)
        self.end(code)

    def until(self, words: str, *, seconds: float = 30.0) -> str:
        """Read until these words come, after those of the last call. What was shown since then."""
        ends = time.monotonic() + seconds
        while (at := self.text.find(words, self.seen)) < 0:
            assert self._read(ends), f"{words!r} did not come:\n{self.text[self.seen :]}\n{self.lab.told()}"
        shown, self.seen = self.text[self.seen : at + len(words)], at + len(words)
        return shown

    def end(self, code: int, *, seconds: float = 30.0) -> str:
        """Read to the end, which has to come with this exit code. What was shown since the last `until`."""
        ends = time.monotonic() + seconds
        while self._read(ends):
            pass
        ended = self.process.wait(max(1.0, ends - time.monotonic()))
        assert ended == code, f"exit {ended}\n{self.text}"
        assert "Traceback" not in self.text
        return self.text[self.seen :]

    def _read(self, ends: float) -> bool:
        ready, _, _ = select.select([self.ours], [], [], max(0.0, ends - time.monotonic()))
        if not ready:
            return False
        try:
            data = os.read(self.ours, 65536)
        except OSError:  # EIO: nobody has the other end any more
            return False
        self.raw += data
        return bool(data)
