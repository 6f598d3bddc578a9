"""`timeline` and `graph` as they are called: on a terminal's width, into a file, as JSON; and they change nothing."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta

import pytest

from tests.e2e.lab import Lab, meets, met, mind
from tests.week import lay, shop


@pytest.fixture
def week(lab: Lab) -> Lab:
    """A repository in which a week of pursuits ended yesterday."""
    yesterday = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=7)
    lay(shop(yesterday), lab.state_dir)
    return lab


def timeless(page: str) -> str:
    """A page without the time at which it was drawn, and where now lies in it."""
    return re.sub(r" at [\d:]{8}\.|x2=\"[\d.]+\"", "", page)


def test_they_are_drawn_at_the_width_there_is(week: Lab) -> None:
    for columns in (60, 80, 120):
        for command in ("timeline", "graph"):
            out = week.run(command, env={"COLUMNS": str(columns)}, code=0).stdout
            assert out.startswith(" repo   ")
            assert max(map(len, out.splitlines())) <= columns
            assert "\x1b" not in out
            assert "mfa" in out
    assert week.run("timeline", "--ascii", code=0).stdout.isascii()
    assert week.run("timeline", env={"PYTHONIOENCODING": "ascii"}, code=0).stdout.isascii()


def test_what_was_over_by_then_and_other_goals_are_left_out(week: Lab) -> None:
    found = json.loads(week.run("timeline", "--json", "--since", "3d", code=0).stdout)
    assert "auth" not in [lane["basin"] for lane in found["lanes"]]
    found = json.loads(week.run("timeline", "--json", "--basin", "mfa", "--basin", "auth", code=0).stdout)
    assert [lane["basin"] for lane in found["lanes"]] == ["auth", "mfa"]
    found = json.loads(week.run("graph", "--json", "--basin", "refunds", code=0).stdout)
    assert [one["basin"] for one in found["pursuits"]] == ["cache", "refunds"]
    assert week.run("graph", "--mermaid", code=0).stdout.startswith("flowchart BT\n")


def test_a_line_that_is_there_twice_is_told_once(week: Lab) -> None:
    once = json.loads(week.run("timeline", "--json", code=0).stdout)
    week.ledger.write_bytes(b"".join(line + line for line in week.lines().splitlines(keepends=True)))
    twice = json.loads(week.run("timeline", "--json", code=0).stdout)
    assert [lane["marks"] for lane in twice["lanes"]] == [lane["marks"] for lane in once["lanes"]]
    assert [lane["stretches"][:-1] for lane in twice["lanes"]] == [lane["stretches"][:-1] for lane in once["lanes"]]


def test_what_cannot_be_meant_is_refused(week: Lab) -> None:
    said = week.run("timeline", "--since", "yesterday", code=2).stderr
    assert "is no moment" in said
    assert "yet to come" in week.run("timeline", "--since", "2999-01-01", code=2).stderr
    assert "no destination is called nothing" in week.run("timeline", "--basin", "nothing", code=2).stderr
    assert "no destination is called nothing" in week.run("graph", "--basin", "nothing", code=2).stderr


def test_the_page_is_put_in_place_whole_and_through_no_link(week: Lab) -> None:
    out = week.root / "out.html"
    out.write_text("what was there before")
    said = week.run("timeline", "--html", out, code=0).stdout
    assert said == f"{out}: 8 goals, 51 events\n"
    assert out.read_text().startswith("<!doctype html>")
    assert timeless(week.run("timeline", "--html", "-", code=0).stdout) == timeless(out.read_text())
    other, link = week.root / "other", week.root / "link.html"
    other.write_text("somebody's")
    link.symlink_to(other)
    assert "not a regular file" in week.run("timeline", "--html", link, code=2).stderr
    assert other.read_text() == "somebody's"
    assert "is no folder" in week.run("timeline", "--html", week.root / "none" / "out.html", code=2).stderr
    assert [path.name for path in week.root.iterdir() if path.name.startswith(".")] == []


def test_looking_changes_nothing(week: Lab) -> None:
    def all_of_it() -> dict[str, tuple[int, bytes]]:
        files = [path for path in week.state_dir.rglob("*") if path.is_file()]
        return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in files}

    before = all_of_it()
    for command in (("timeline",), ("timeline", "--json"), ("graph",), ("graph", "--mermaid"), ("sessions",)):
        week.run(*command, code=0)
    assert all_of_it() == before


@pytest.mark.tmux
def test_a_real_run_has_its_lane_and_its_node(lab: Lab) -> None:
    lab.play("a is there", lab.script(mind(*meets("a"))), *met("a"), "--foreground")
    [lane] = json.loads(lab.run("timeline", "--json", code=0).stdout)["lanes"]
    assert [mark["kind"] for mark in lane["marks"]][:4] == ["opened", "candidate", "grafted", "converged"]
    assert lane["stretches"][0]["cause"] is None
    assert f" {lane['basin']}" in lab.run("timeline", code=0).stdout
    [node] = json.loads(lab.run("graph", "--json", code=0).stdout)["pursuits"]
    assert (node["basin"], node["stands"], node["met"], node["attempts"]) == (lane["basin"], "met", 1, 1)
    assert "ended: met" in lab.run("graph", code=0).stdout


def test_where_there_is_no_ledger_yet_they_say_so(lab: Lab) -> None:
    assert lab.run("timeline", code=0).stdout.startswith("No destination yet.")
    assert lab.run("graph", code=0).stdout == "No session yet. A run opens one.\n"
    assert json.loads(lab.run("timeline", "--json", code=0).stdout)["lanes"] == []
