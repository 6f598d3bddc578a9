"""Our pages and charts as a reader's browser takes them: nothing is asked for, nothing is complained about, all is drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from orchconverge.core.pursuits import graph
from orchconverge.core.timeline import timeline
from orchconverge.core.views.graph import mermaid
from orchconverge.core.views.timeline_html import html_page
from tests import tellings
from tests.e2e.lab import Lab
from tests.stories import Story
from tests.tools.browser import ROOT, blocks, charts, look
from tests.week import lay, seen, shop

pytestmark = pytest.mark.browser
Scheme = Literal["light", "dark"]
Media = Literal["screen", "print"]
WAYS: tuple[tuple[int, Scheme, Media], ...] = (
    (1280, "light", "screen"),
    (1280, "dark", "screen"),
    (400, "light", "screen"),
    (400, "dark", "screen"),
    (794, "light", "print"),
)


@pytest.fixture
def week(tmp_path: Path) -> Path:
    """The timeline of a week, as a page."""
    story = shop()
    path = tmp_path / "timeline.html"
    path.write_text(html_page(timeline(story.facts, seen(story)), repo="shop"), encoding="utf-8")
    return path


@pytest.mark.parametrize(("width", "scheme", "media"), WAYS)
def test_the_timeline_is_read_without_a_complaint(
    week: Path, tmp_path: Path, width: int, scheme: Scheme, media: Media
) -> None:
    seen = look(week, tmp_path, width=width, scheme=scheme, media=media)
    assert seen["told"] == []
    assert seen["requests"] == []
    assert seen["violations"] == []
    assert seen["overflow"] <= 0
    assert "killed index nine times the memory budget" in " ".join(seen["text"].split())
    if media == "screen":
        assert seen["scrolls"] == [width < 980]
        dark = sum(int(part) for part in seen["background"].removeprefix("rgb(").rstrip(")").split(",")) < 384
        assert dark is (scheme == "dark")
    else:
        assert seen["pages"] > 1000


def test_the_timeline_is_walked_by_keyboard(week: Path, tmp_path: Path) -> None:
    seen = look(week, tmp_path, follow=3)
    skip, drawing, first = seen["focused"]
    assert skip["href"] == "#days"
    assert drawing["name"] == "Drawing of 8 goals, scrolls sideways"
    assert first["name"] == "auth, Mon 23 Nov 08:50, opened"
    assert {one["outline"] for one in seen["focused"]} == {"solid"}
    assert f"#{seen['target']}" == first["href"]


def test_what_a_page_does_wrong_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "wrong.html"
    path.write_text('<html><img src="other.png"><script>console.error("no")</script><a href="#"></a></html>')
    found = look(path, tmp_path)
    assert "error: no" in found["told"]
    assert found["requests"] == [(tmp_path / "other.png").as_uri()]
    assert {one.split(":")[0] for one in found["violations"]} >= {"image-alt", "link-name", "html-has-lang"}
    [refused] = charts(["xychart-beta\n  nonsense"], tmp_path, "wrong")
    assert refused["error"]


def test_a_page_of_many_events_still_fits(tmp_path: Path) -> None:
    story = Story().declare().start().check()
    for _ in range(150):
        story.park("quota", "none").wait(60.0).woke()
    path = tmp_path / "many.html"
    path.write_text(html_page(timeline(story.facts, seen(story)), repo="shop"), encoding="utf-8")
    found = look(path, tmp_path)
    assert found["told"] == found["requests"] == found["violations"] == []
    assert found["overflow"] <= 0
    assert found["scrolls"] == [True]


@pytest.fixture(params=[tellings.converged, shop])
def reported(request: pytest.FixtureRequest, lab: Lab) -> Lab:
    """A repository in which there is something to report."""
    lay(request.param(), lab.state_dir)
    return lab


def test_the_report_is_read_without_a_complaint(reported: Lab, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    reported.run("report", "mfa", "--format", "html", "--output", path, code=0)
    for width, scheme, media in WAYS:
        found = look(path, tmp_path, width=width, scheme=scheme, media=media)
        assert found["told"] == found["requests"] == found["violations"] == [], (width, scheme, media)
        assert found["overflow"] <= 0, (width, scheme, media)
        assert "A second factor can be set up" in found["text"]


def test_real_mermaid_draws_every_chart_of_a_report(reported: Lab, tmp_path: Path) -> None:
    told = [(ROOT / "tests/golden/report.md").read_text(encoding="utf-8")]
    told += [reported.run("report", name, code=0).stdout for name in reported.state().basins]
    them = [block for text in told for block in blocks(text)]
    drawn = charts(them, tmp_path, "report")
    assert [one["error"] for one in drawn] == [None] * len(them)
    assert {one["kind"] for one in drawn} >= {"xychart", "gantt"}


def test_real_mermaid_draws_the_graph(tmp_path: Path) -> None:
    week = shop()
    hostile = (
        Story().declare("end", goal='a"b; c: <b>d</b> %%x `y` [z] {q} #quot; \\n click s1 "javascript:1"').start("end")
    )
    late = shop().wait(90 * 86_400.0)
    stories = (week, late, hostile, Story())
    drawn = charts([mermaid(graph(one.facts, one.state, seen(one))) for one in stories], tmp_path, "graph")
    assert [(one["error"], one["kind"]) for one in drawn] == [(None, "flowchart-v2")] * 4
    assert "A second factor can be set up" in drawn[0]["text"]
    assert "ended over 30 days ago" in drawn[1]["text"]
