"""What wakes the controller: signals are wishes to stop where one runs, and end what only waits."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from orchconverge.adapters.scheduler import SystemWakeups


def test_where_a_controller_runs_signals_are_counted_and_said(tmp_path: Path) -> None:
    said: list[str] = []
    before = signal.getsignal(signal.SIGINT)
    with SystemWakeups(ledger=tmp_path / "ledger", handle=lambda _: None, told=said.append) as wakeups:
        assert wakeups.stopping() == 0
        for count in (1, 2):
            os.kill(os.getpid(), signal.SIGINT)
            wakeups.wait([], until=None)
            assert wakeups.stopping() == count
    assert said == ["stopping: waits up to 5 s for the mind; again ends it now", "ending it now"]
    assert signal.getsignal(signal.SIGINT) is before


def test_a_terminal_that_goes_away_is_no_wish_to_stop(tmp_path: Path) -> None:
    said: list[str] = []
    with SystemWakeups(ledger=tmp_path / "ledger", handle=lambda _: None, told=said.append) as wakeups:
        os.kill(os.getpid(), signal.SIGHUP)
        wakeups.wait([], until=None)
        assert (wakeups.stopping(), said) == (0, [])


def test_what_only_waits_is_ended_by_an_interrupt(tmp_path: Path) -> None:
    with SystemWakeups(ledger=tmp_path / "ledger", handle=lambda _: None) as wakeups, pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
        wakeups.wait([], until=None)
