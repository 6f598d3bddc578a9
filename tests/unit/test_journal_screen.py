"""The line about what runs: rewritten in place on a terminal, never within another line, and nowhere else."""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import pty
import select
import struct
import termios
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

import pytest

from orchconverge.adapters import journal_screen
from orchconverge.adapters.journal import LoggedJournal
from orchconverge.adapters.journal_screen import CLEAR, told
from orchconverge.ports import Runs

CHECK = Runs("criterion oauth", deadline_seconds=600.0)


class Pty:
    """A terminal of 40 columns that nobody types on."""

    def __init__(self) -> None:
        self.ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 20, 40, 0, 0))
        self.stream: TextIO = os.fdopen(theirs, "w")
        self.text = ""

    def journal(self, folder: Path, *, screen: bool = True) -> LoggedJournal:
        """A journal whose standard error this is."""
        with contextlib.redirect_stderr(self.stream):
            return LoggedJournal(folder, screen=screen)

    def until(self, words: str) -> str:
        """All that was written, as soon as these words are in it."""
        ends = time.monotonic() + 10
        while words not in self.text:
            ready, _, _ = select.select([self.ours], [], [], max(0.0, ends - time.monotonic()))
            assert ready, f"{words!r} did not come: {self.text!r}"
            self.text += os.read(self.ours, 65536).decode()
        return self.text


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pty]:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    made = Pty()
    yield made
    with contextlib.suppress(OSError):  # of one that went away
        made.stream.close()
    os.close(made.ours)


def test_what_runs_is_rewritten_in_place_and_cleared_before_a_line(terminal: Pty, tmp_path: Path) -> None:
    journal = terminal.journal(tmp_path)
    journal.runs([CHECK])
    terminal.until(f"{CLEAR}criterion oauth 0s of 10m 00s")
    terminal.until(f"{CLEAR}criterion oauth 1s of 10m 00s")
    journal.say("attempt.ended 1")
    journal.runs([])
    journal.say("run.stopped converged")
    shown = terminal.until("converged\r\n")
    journal.close()
    lines = [line.rsplit(CLEAR, 1)[-1] for line in shown.split("\r\n")]
    assert lines[0].endswith(" attempt.ended 1")
    assert lines[1].endswith(" run.stopped converged")
    assert lines[2:] == [""]
    assert "\x1b" not in shown.replace(CLEAR, "")


def test_it_is_cut_to_one_line_and_cleaned(terminal: Pty, tmp_path: Path) -> None:
    journal = terminal.journal(tmp_path)
    journal.runs([Runs(f"criterion \x1b[31m{'x' * 100}\n")])
    shown = terminal.until("…")
    journal.close()
    assert [len(part) for part in shown.split(CLEAR)] == [0, 39]
    assert "\x1b" not in shown.replace(CLEAR, "")


@pytest.mark.parametrize(("name", "value"), [("TERM", "dumb"), ("NO_COLOR", "1")])
def test_where_nothing_can_be_rewritten_a_plain_line_comes_seldom(
    terminal: Pty, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    monkeypatch.setattr(journal_screen, "PLAIN_EVERY_SECONDS", 1.5)
    monkeypatch.setattr(journal_screen, "EVERY_SECONDS", 0.1)
    journal = terminal.journal(tmp_path)
    began = time.monotonic()
    journal.runs([CHECK])
    first = terminal.until("criterion oauth 0s of 10m 00s\r\n")
    shown = terminal.until("s of 10m 00s\r\ncriterion oauth")
    assert time.monotonic() - began >= 1.5
    assert shown.count("criterion") == first.count("criterion") + 1
    assert "\x1b" not in shown
    journal.close()


def test_nothing_is_shown_where_nobody_looks(tmp_path: Path) -> None:
    written = io.StringIO()
    with contextlib.redirect_stderr(written):
        journal = LoggedJournal(tmp_path)
    journal.runs([CHECK])
    journal.say("attempt.ended 1")
    journal.close()
    assert written.getvalue().endswith(" attempt.ended 1\n")
    assert written.getvalue().count("\n") == 1


def test_a_command_that_only_waits_shows_what_runs_and_no_lines(terminal: Pty, tmp_path: Path) -> None:
    journal = terminal.journal(tmp_path, screen=False)
    journal.say("unseen")
    journal.runs([Runs("the controller of auth starts", deadline_seconds=15.0)])
    terminal.until("the controller of auth starts 0s of 15s")
    journal.close()
    assert terminal.until(f"15s{CLEAR}").count(CLEAR) == 2
    assert "unseen" not in terminal.text
    assert "unseen" in (tmp_path / "system.log").read_text()


def test_a_terminal_that_went_away_silences_it_alone(terminal: Pty, tmp_path: Path) -> None:
    journal = terminal.journal(tmp_path)
    os.close(terminal.ours)
    journal.runs([CHECK])
    journal.say("goes on")
    journal.close()
    terminal.ours = os.open(os.devnull, os.O_RDONLY)
    assert "goes on" in (tmp_path / "system.log").read_text()


def test_of_several_the_one_that_runs_longest_is_told() -> None:
    at = datetime(2026, 11, 29, 14, 0, tzinfo=UTC)
    mind = Runs("mind auth.2 (claude)", since=at, deadline_seconds=3600.0)
    now = at.timestamp() + 192
    assert told([CHECK, mind], {CHECK.what: now - 2}, now) == "mind auth.2 (claude) 3m 12s of 1h 00m, and 1 more"
    assert told([Runs("step report")], {"step report": now - 5}, now) == "step report 5s"
    assert told([], {}, now) == ""


class Interrupted(io.StringIO):
    """A terminal at which Control + C is typed in the moment in which the first line is there."""

    typed = False

    def isatty(self) -> bool:
        return True

    def flush(self) -> None:
        if not self.typed:
            self.typed = True
            raise KeyboardInterrupt


def test_a_line_that_is_interrupted_as_it_is_written_is_cleared_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    stream = Interrupted()
    screen = journal_screen.Screen(stream, speaks=False)
    with pytest.raises(KeyboardInterrupt):
        screen.runs([CHECK])
    screen.close()
    assert "criterion oauth" in stream.getvalue()
    assert stream.getvalue().endswith(CLEAR)
