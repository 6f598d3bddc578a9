"""The four logs: what a line says, what is found again when files were renamed or cut, and what WHEN means."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from orchconverge.adapters import journal as journals
from orchconverge.adapters.journal import LoggedJournal
from orchconverge.adapters.journal_tail import Tail
from orchconverge.adapters.supervisors_tail import Output
from orchconverge.cli.when import moment
from orchconverge.core.values import Evidence
from orchconverge.core.views import logs as view
from orchconverge.errors import Refused
from orchconverge.pane import Log
from tests.stories import Story, check, sha

ZONE = timezone(timedelta(hours=2))
NOW = datetime(2026, 11, 29, 14, 30, 0, tzinfo=ZONE)


def told(story: Story) -> list[str]:
    return [view.convergence(fact, UTC).text for fact in story.facts]


# --- convergence ------------------------------------------------------------------------------------------------------


def test_a_check_and_an_attempt_are_told_with_criteria_and_decision() -> None:
    story = Story().declare(criteria=(check("oauth"), check("docs"))).start().check(met=["oauth"])
    story.attempt(met=["oauth"], result="partial_success", text="fixed tests")
    lines = told(story)
    assert lines[0].startswith("2026-11-29 14:00:00 auth: declared: ")
    [checked] = [line for line in lines if "auth: target checked: " in line and "14:00" in line][:1]
    assert "met oauth" in checked
    assert "not met docs (exit 1" in checked
    [ended] = [line for line in lines if "attempt 1 ended" in line]
    assert "attempt 1 ended: partial_success (fixed tests); 1 of 2 met; IN_PROGRESS" in ended


def test_what_a_mind_said_stays_one_harmless_line() -> None:
    story = Story().declare(goal="x\x1b[31m\ny", macrostate="x\x1b[31m\ny")
    [line] = told(story)
    assert line == "2026-11-29 14:00:00 auth: declared: x y"


# --- system and performance -------------------------------------------------------------------------------------------


def test_a_system_line_is_read_with_its_time_and_goal() -> None:
    entry = view.system("2026-11-29 14:00:05 auth: checks oauth on 1234 (fresh)", UTC)
    assert entry.at == datetime(2026, 11, 29, 14, 0, 5, tzinfo=UTC)
    assert entry.record == {"at": entry.at, "basin": "auth", "text": "checks oauth on 1234 (fresh)"}
    assert view.system("2026-11-29 14:00:05 waiting for a lock", UTC).record["basin"] is None
    assert view.system("no time at all", UTC).at is None


def test_figures_are_told_and_what_is_none_is_left_out() -> None:
    line = (
        '{"at":1796047200.0,"cpu_seconds":1.25,"peak_kb":51200,"basin":"auth","seq":9,"active":750.0,"attempt":3,'
        '"check_seconds":{"oauth":1.2,"docs":0.4},"mind_seconds":[41.0,157.0],"memory_free":3221225472,"disk_free":null}'
    )
    entry = view.performance(line, UTC)
    assert entry is not None
    assert entry.text == (
        f"{datetime.fromtimestamp(1796047200, UTC):%Y-%m-%d %H:%M:%S} auth: attempt 3, 12m 30s active, "
        "2 minds 41s 2m 37s, checks 1.6s (oauth 1.2s, docs 0.4s), controller 1.2s of CPU, 50 MB at most, "
        "3.0 GB of memory free"
    )
    assert entry.record["seq"] == 9
    for odd in ("", "{", '{"at":"now"}', '{"at":1e300}', "[]"):
        assert view.performance(odd, UTC) is None


# --- files that grow --------------------------------------------------------------------------------------------------


def test_a_journal_is_read_across_renames_each_line_once_and_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journals, "MOST_BYTES", 40_000)
    tail = Tail(tmp_path / "system.log")
    assert tail.more() == b""
    journal, read = LoggedJournal(tmp_path, screen=False), b""
    text = "x" * 300
    count = 350
    for number in range(count):
        journal.say(f"{number} {text}")
        if number % 97 == 0:
            read += tail.more()
    read += tail.more()
    journal.close()
    assert (tmp_path / "system.log.2").exists()
    assert [int(line.split()[2]) for line in read.splitlines()] == list(range(count))
    again = Tail(tmp_path / "system.log")
    assert again.more() == read
    tail.close()
    again.close()


def test_a_second_controller_writes_on_in_the_file_that_the_first_began(tmp_path: Path) -> None:
    journal = LoggedJournal(tmp_path, screen=False)
    try:
        journal.say("before")
        (tmp_path / "system.log").rename(tmp_path / "system.log.1")
        journal.say("after")
    finally:
        journal.close()
    assert (tmp_path / "system.log").read_text().endswith(" after\n")
    assert (tmp_path / "system.log.1").read_text().endswith(" before\n")


def test_a_journal_that_is_somebodys_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("secret\n")
    (tmp_path / "system.log").symlink_to(tmp_path / "other")
    with pytest.raises(Refused, match="symbolic link"):
        Tail(tmp_path / "system.log").more()


def test_output_is_followed_through_its_parts(tmp_path: Path) -> None:
    output, log = Output(tmp_path), None
    assert output.more() == b""
    log, read, written = Log(str(tmp_path), 100, 50), b"", b""
    for number in range(60):
        line = b"line %d\n" % number
        log.write(memoryview(line))
        written += line
        read += output.more()
    assert read == written
    output.close()
    late = Output(tmp_path)
    first, gap, rest = late.more().partition(b"\n[orchconverge: output is left out here]\n")
    assert gap
    assert (written.startswith(first), written.endswith(rest), len(rest) > 0) == (True, True, True)
    late.close()


def test_output_that_is_a_pipe_or_a_link_is_none(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "log.head")
    output = Output(tmp_path)
    assert output.more() == b""
    (tmp_path / "log.head").unlink()
    (tmp_path / "log.head").write_bytes(b"begin ")
    (tmp_path / "log.tail.0").symlink_to("/etc/hostname")
    assert (output.more(), output.more()) == (b"begin ", b"")
    output.close()


# --- WHEN -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("90s", NOW - timedelta(seconds=90)),
        ("10m", NOW - timedelta(minutes=10)),
        ("2h", NOW - timedelta(hours=2)),
        ("3d", NOW - timedelta(days=3)),
        ("14:00", NOW.replace(minute=0)),
        ("9:05", NOW.replace(hour=9, minute=5)),
        ("15:00", NOW.replace(hour=15, minute=0) - timedelta(days=1)),
        ("2026-11-28", datetime(2026, 11, 28, tzinfo=ZONE)),
        ("2026-11-28T10:00", datetime(2026, 11, 28, 10, tzinfo=ZONE)),
        ("2026-11-28T10:00Z", datetime(2026, 11, 28, 10, tzinfo=UTC)),
    ],
)
def test_when_is_an_age_a_time_or_a_date(text: str, meant: datetime) -> None:
    assert moment(text, NOW) == meant


@pytest.mark.parametrize("text", ["", "yesterday", "10", "25:00", "2026-13-01", "999999w", "-5m", "0001-01-01"])
def test_what_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w+|^$"):
        moment(text, NOW)


def test_evidence_without_an_exit_is_told_by_its_answer() -> None:
    story = Story().declare(criteria=(check("oauth"),)).start()
    from orchconverge.core import events as e

    checked = e.BasinChecked(
        basin="auth", head=sha("h"), tree=sha("t"), results=(Evidence(criterion="oauth", met="unknown", tree=sha("t")),)
    )
    assert view.convergence(story.tell(checked).facts[-1], UTC).text.endswith("not met oauth (unknown, 0s)")
