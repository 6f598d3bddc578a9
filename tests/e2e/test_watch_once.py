"""`watch` where it prints: one frame, or sentences that follow a ledger; it needs no terminal and writes nothing."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from orchconverge import bootstrap
from orchconverge.adapters.clock import SystemClock
from orchconverge.adapters.ledger import FileLedger
from orchconverge.core import events as e
from orchconverge.core.projection import EVENTS_AT_MOST
from orchconverge.tui.live import Live
from tests import tellings
from tests.e2e.lab import COMMAND, Lab
from tests.e2e.terminal import Terminal
from tests.shop import shop
from tests.week import lay

SGR = {f"\x1b[{code}m" for code in ("0", "1", "2", "31", "32", "30;43")}


@pytest.fixture
def open_shop(lab: Lab) -> Lab:
    """A repository with eight goals, whose controllers are long gone."""
    lay(shop(), lab.state_dir)
    return lab


def asks(lab: Lab, question: str) -> None:
    """Somebody else appends to the ledger."""
    ledger = FileLedger(lab.state_dir, SystemClock())
    ledger.append(e.FrontierAdded(question=question, origin="person", basin="mfa"), writer="cli")
    ledger.close()


@contextmanager
def killed(process: subprocess.Popen[str]) -> Iterator[IO[str]]:
    """What a process says; it does not outlive a test that fails."""
    assert process.stdout is not None
    try:
        yield process.stdout
    finally:
        process.kill()


def kept(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_elsewhere_than_on_a_terminal_it_is_one_frame(open_shop: Lab) -> None:
    before = kept(open_shop.state_dir)
    lines = open_shop.run("watch", code=0).stdout.splitlines()
    assert lines[0].startswith(" repo   6 need you ")
    assert lines[1].startswith("[NEEDS YOU 1 of ")
    assert max(map(len, lines)) <= 80
    assert len(lines) <= 24
    assert "\x1b" not in "".join(lines)
    wide = open_shop.run("watch", env={"COLUMNS": "200", "LINES": "60"}, code=0).stdout.splitlines()
    assert 120 < max(map(len, wide)) <= 200
    assert [line for line in wide if line.startswith("> ") or line.startswith(" n needs you")] == []
    assert kept(open_shop.state_dir) == before


def test_the_exit_code_says_whether_a_person_is_needed(lab: Lab) -> None:
    assert "No destination yet." in lab.run("watch", "--once", "--exit-code", code=0).stdout
    lay(tellings.at_lock(), lab.state_dir)
    lab.run("watch", "--once", code=0)
    lab.run("watch", "--once", "--exit-code", code=5)
    lab.run("watch", "--plain", "--no-follow", "--exit-code", "auth", code=5)


def test_of_one_goal_only_its_own_needs_count(open_shop: Lab) -> None:
    open_shop.run("watch", "mfa", "--exit-code", code=5)
    said = open_shop.run("watch", "auth", "--exit-code", code=0).stdout
    assert re.search(r"^.● auth", said, re.MULTILINE)
    refused = open_shop.run("watch", "nosuch", code=2)
    assert "no destination is called nosuch" in refused.stderr


def test_where_glyphs_cannot_be_drawn_they_are_ascii(open_shop: Lab) -> None:
    german = {"LANG": "de_DE.UTF-8"}
    for env in (
        {"LC_ALL": "C"},
        {"LANG": "ja_JP.UTF-8"},
        {"PYTHONIOENCODING": "latin-1"},
        {**german, "LC_ALL": "POSIX"},
    ):
        assert open_shop.run("watch", env=env, code=0).stdout.isascii()
    assert "◆" in open_shop.run("watch", env=german, code=0).stdout
    for words in (("--once",), ("--plain", "--no-follow")):
        assert open_shop.run("watch", *words, "--ascii", env=german, code=0).stdout.isascii()


def test_what_cannot_be_meant_is_refused_with_what_to_type(open_shop: Lab) -> None:
    assert "orchconverge watch --once" in open_shop.run("watch", "--no-follow", code=2).stderr
    assert "--once --exit-code" in open_shop.run("watch", "--plain", "--exit-code", code=2).stderr
    open_shop.ledger.unlink()
    open_shop.ledger.mkdir()
    said = open_shop.run("watch", code=None)
    assert said.returncode
    assert "not a regular file" in said.stderr


def test_sentences_follow_the_ledger_until_the_person_leaves(open_shop: Lab) -> None:
    before = kept(open_shop.state_dir)
    watching = subprocess.Popen(
        [*COMMAND, "watch"],
        cwd=open_shop.repo,
        env={**open_shop.env, "ORCHCONVERGE_PLAIN": "1"},
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )
    with watching, killed(watching) as said:
        first = [said.readline()]
        while not first[-1].startswith("As of "):
            first.append(said.readline())
            assert first[-1], "it has ended"
        assert first[0] == "6 need you.\n"
        assert kept(open_shop.state_dir) == before
        asks(open_shop, "Is a code sent twice?")
        assert re.fullmatch(r"[\d:]{8} question, mfa: Is a code sent twice\? From person\.\n", said.readline())
        watching.send_signal(signal.SIGINT)
        assert said.read() == ""
        assert watching.wait(30) == 0


def test_on_a_terminal_one_frame_has_five_colours_at_most(open_shop: Lab) -> None:
    with Terminal(open_shop, "watch", "--once", env={"TERM": "xterm"}) as terminal:
        terminal.end(0)
    found = set(re.findall(r"\x1b[^m]*m", terminal.raw.decode()))
    assert found
    assert found <= SGR
    assert len(terminal.text.splitlines()) <= 39, "the prompt has a line"
    for env in ({"TERM": "xterm", "NO_COLOR": "1"}, {"TERM": "dumb"}):
        with Terminal(open_shop, "watch", "--once", env=env) as terminal:
            terminal.end(0)
        assert "\x1b" not in terminal.raw.decode()
        assert "[NEEDS YOU 1 of 6]" in terminal.text


def test_a_dumb_terminal_is_told_in_sentences(open_shop: Lab) -> None:
    with Terminal(open_shop, "watch", env={"TERM": "dumb"}) as terminal:
        terminal.until("As of ")
        asks(open_shop, "Is a code sent twice?")
        terminal.until("question, mfa: Is a code sent twice?")
        terminal.interrupt(0)
    assert "\x1b" not in terminal.raw.decode()


def test_a_followed_ledger_is_read_once_and_never_written(open_shop: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(open_shop.repo)
    for name in ("HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, open_shop.env[name])
    live = Live(bootstrap.reader(open_shop.repo))
    before = kept(open_shop.state_dir)
    assert live.grown()
    first = live.project()
    assert live.repo == "repo"
    assert not live.grown()
    assert len(first.events) == EVENTS_AT_MOST
    assert live.project().events == first.events
    assert kept(open_shop.state_dir) == before
    asks(open_shop, "Is a code sent twice?")
    assert live.grown()
    second = live.project(basin="mfa")
    assert [one.detail for one in second.events][:2] == ["Is a code sent twice?", first.events[0].detail]
    assert len(second.events) == EVENTS_AT_MOST
    assert second.shown == "mfa"
    live.reader.ledger.close()
