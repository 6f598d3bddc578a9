"""The timeline: what ran when and why nothing did, lanes at every width, day by day in words, and as a page of HTML."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta, timezone
from html.parser import HTMLParser
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from orchconverge.core import events as e
from orchconverge.core.projection import Probes, project
from orchconverge.core.timeline import ASLEEP, BETWEEN, GONE, LETTERS, LOCK, NOTHING, PERSON, Lane, Timeline, timeline
from orchconverge.core.timeline_days import HALF_A_DAY, days, sentences
from orchconverge.core.timeline_scale import ZOOMS, Zoom, scale
from orchconverge.core.views.lines import Look
from orchconverge.core.views.text import cells
from orchconverge.core.views.timeline import text
from orchconverge.core.views.timeline_html import html_page
from tests import tellings
from tests.golden.test_status import same
from tests.stories import Story, check
from tests.week import MONDAY, Week, seen, shop

HOSTILE = (
    '<script>alert(1)</script> " onload=x \x1b[31mred\u202etxet\u200b\nhttps://evil.example & <a href=\'x\' style="y">'
)
TELLINGS: tuple[Callable[[], Story], ...] = (
    shop,
    tellings.seeds_example,
    tellings.converged,
    tellings.running,
    tellings.at_lock,
    tellings.limited,
    tellings.stalled,
    tellings.blocked,
    tellings.stopped,
    tellings.killed,
    tellings.refused,
    tellings.finalizing,
)


def of(story: Story, **how: object) -> Timeline:
    return timeline(story.facts, seen(story), **how)  # type: ignore[arg-type]


def lane(story: Story, name: str = "auth") -> Lane:
    return next(one for one in of(story).lanes if one.basin == name)


def causes(one: Lane) -> list[tuple[str, str, str | None]]:
    return [(f"{s.start:%a %H:%M}", f"{s.end:%a %H:%M}", s.cause) for s in one.stretches]


def hostile() -> Story:
    story = Week().to(0, "09:00")
    story.declare("auth", goal=HOSTILE, macrostate=HOSTILE, criteria=(check("one"),)).start().check()
    story.begin().wait(3600.0, basin="auth").ended("auth.1").candidate("auth.1", met=["one"], flags=[HOSTILE])
    story.tell(e.BranchPruned(basin="auth", branch="auth.1", reason=HOSTILE, decidedBy=f"person: {HOSTILE}"))
    story.judge(text=HOSTILE, result="no_progress", decision="STALLED").park("quota", HOSTILE).wait(7200.0)
    return story.tell(e.BasinKilled(basin="auth", reason=HOSTILE), writer="cli").stop("killed", HOSTILE)


# --- what ran, and why nothing did -----------------------------------------------------------------------------------


def test_lanes_stand_in_the_order_of_opening() -> None:
    assert [one.basin for one in of(shop()).lanes] == [
        *("auth", "search", "fuzzy", "flaky", "refunds", "mfa", "cache", "guide")
    ]
    story = Story().declare("late").declare("never").declare("early")
    story.start("early").wait(60.0).start("late")
    assert [one.basin for one in of(story).lanes] == ["early", "late"]
    assert of(story).declared == ("never",)


def test_a_lane_tells_all_its_time_in_stretches_that_follow_one_another() -> None:
    for one in of(shop()).lanes:
        assert all(
            before.end == after.start and before.cause != after.cause for before, after in pairwise(one.stretches)
        )
        assert one.stretches[0].start == one.marks[0].at
        ended = one.phase in ("CONVERGED", "KILLED")
        assert one.stretches[-1].end == (one.marks[-1].at if ended else of(shop()).as_of)


def test_each_gap_has_its_cause() -> None:
    assert causes(lane(shop()))[:2] == [
        ("Mon 08:50", "Tue 09:40", None),
        ("Tue 09:40", "Thu 09:05", LOCK),  # auth.1 waits on after auth.2 was grafted
    ]
    assert causes(lane(shop(), "fuzzy"))[-1] == ("Thu 14:05", "Sun 13:00", PERSON)
    assert causes(lane(shop(), "flaky")) == [
        ("Thu 14:10", "Fri 08:30", ASLEEP),
        ("Fri 08:30", "Sun 14:23", NOTHING),
    ]
    assert causes(lane(shop(), "guide"))[-1] == ("Sun 13:20", "Sun 14:23", "waited for quota")
    assert causes(lane(shop(), "search"))[-2:] == [
        ("Wed 15:00", "Sun 10:05", NOTHING),
        ("Sun 10:05", "Sun 14:23", None),
    ]


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("lock", LOCK),
        ("consent", PERSON),
        ("tamper", PERSON),
        ("branch", PERSON),
        ("verdict", PERSON),
        ("blocked", PERSON),
        ("quota", "waited for quota"),
        ("disk", "waited for disk"),
        ("memory", "waited for memory"),
        ("network", "waited for the network"),
        ("limit", "waited for a place among the minds"),
    ],
)
def test_each_wait_of_a_run_is_a_cause(reason: str, cause: str) -> None:
    story = tellings.parked(reason, "so it is")  # type: ignore[arg-type]
    assert lane(story).stretches[-1].cause == cause
    assert lane(story).marks[-1].what == f"waits for {reason}"


def test_between_two_attempts_the_next_one_is_waited_for() -> None:
    story = tellings.seeds_example().wait(60.0, basin="auth")
    assert [one.cause for one in lane(story).stretches] == [None, BETWEEN]


def test_where_active_time_stood_still_the_machine_was_asleep() -> None:
    story = Story().declare().start().check().begin()
    began = story.now
    story.wait(600.0, basin="auth").wait(3000.0).ended("auth.1")
    [ran, asleep] = lane(story).stretches[-2:]
    assert (ran.cause, asleep.cause) == (None, ASLEEP)
    assert (asleep.start - began, asleep.end - began) == (timedelta(seconds=600), timedelta(seconds=3600))


def test_a_moment_of_it_is_no_sleep() -> None:
    story = Story().declare().start().check().begin().wait(600.0, basin="auth").wait(119.0).ended("auth.1")
    assert [one.cause for one in lane(story).stretches] == [None]


def test_what_a_controller_missed_before_it_was_replaced_is_told() -> None:
    story = Story().declare().start().check().begin().wait(600.0, basin="auth").wait(7200.0)
    run = story.basin().run
    assert run is not None
    story.start(takes_over=run.id).wait(60.0, basin="auth")
    assert [one.cause for one in lane(story).stretches] == [None, GONE, None]
    assert [(mark.what, mark.note) for mark in lane(story).marks][-1] == ("taken over", "its controller was gone")


def test_of_a_run_whose_controller_is_not_seen_nothing_is_claimed() -> None:
    story = tellings.running().wait(3600.0)
    shown = project(story.state, probes=Probes(leases={"auth": None}), now=story.now)
    [one] = timeline(story.facts, shown).lanes
    assert one.phase == "UNKNOWN"
    assert one.stretches[-1].cause == "the controller is not seen"


def test_facts_that_the_rules_refuse_are_left_out() -> None:
    story = tellings.running()
    odd = replace(story.facts[-1], seq=story.seq + 1)
    assert timeline([*story.facts, odd], seen(story)) == of(story)


# --- what happened ---------------------------------------------------------------------------------------------------


def test_every_kind_of_event_is_told_in_words() -> None:
    said = {mark.kind: f"{mark.what}|{mark.note}" for one in of(shop()).lanes for mark in one.marks}
    assert set(said) == set(LETTERS)
    words = [line for row in (row for day in days(of(shop())) for row in day.rows) for line in sentences(row)]
    assert "candidate mfa.2 5/7, mfa.3 6/7 (1 flag), mfa.4 4/7" in words
    assert "pruned auth.1 by ana: lost to .2, tokens kept in plain text" in words
    assert "grafted auth.2 7/8 by ana" in words
    assert "opened: forked from search, refunds" in words
    assert "opened again" in words
    assert "killed: index nine times the memory budget" in words
    assert "waits for quota: claude has no quota until 15:40" in words
    assert "harvested 2 pieces of residue, 1 question" in words
    assert "converged 8/8" in words
    assert "stopped" in words


def test_a_stop_that_the_last_event_explains_is_not_told_twice() -> None:
    assert [mark.kind for mark in lane(tellings.stalled()).marks] == ["opened", "stalled", "stalled"]
    assert [mark.kind for mark in lane(tellings.blocked()).marks] == ["opened", "stalled"]
    assert [mark.what for mark in lane(tellings.limited()).marks][-1] == "limit reached"


def test_what_was_over_by_then_is_left_out() -> None:
    since = MONDAY + timedelta(days=4)
    them = {one.basin: one for one in of(shop(), since=since).lanes}
    assert "auth" not in them
    assert them["fuzzy"].stretches[0].start == since
    assert [mark.kind for mark in them["fuzzy"].marks] == ["killed"]
    assert [one.basin for one in of(shop(), only=["mfa", "auth"]).lanes] == ["auth", "mfa"]


def test_the_same_as_json_keeps_its_keys() -> None:
    found = msgspec.json.decode(msgspec.json.encode(of(shop())))
    assert set(found) == {*("schema", "as_of", "utc_offset", "ledger_lines", "since", "needs_you", "lanes", "declared")}
    assert set(found["lanes"][0]) == {
        *("basin", "macrostate", "phase", "group", "met", "required", "marks", "stretches")
    }
    assert set(found["lanes"][0]["marks"][0]) == {"seq", "at", "kind", "what", "note"}
    assert found["lanes"][0]["stretches"][0] == {
        "start": "2026-11-23T08:50:00Z",
        "end": "2026-11-24T09:40:00Z",
        "cause": None,
    }


# --- width -----------------------------------------------------------------------------------------------------------


def long(weeks: int) -> Story:
    """A pursuit of so many weeks, with an attempt each Tuesday."""
    week = Week().to(0, "09:00").open("auth", attempts=None, stallAfter=999)
    for number in range(weeks):
        week.to(7 * number + 1, "09:00").begin("auth")
        week.to(7 * number + 1, "12:00").ended(f"auth.{number + 1}").failed(f"auth.{number + 1}", "nothing")
        week.over("auth", 0, result="no_progress")
    return week


@pytest.mark.parametrize(
    ("story", "room", "zoom"),
    [
        (tellings.seeds_example(), 60, "hour"),
        (shop(), 60, "day"),
        (long(2), 60, "day"),
        (long(3), 60, "week"),
        (long(40), 60, "week"),
        (long(3), 180, "day"),
    ],
)
def test_the_finest_zoom_that_fits_is_chosen(story: Story, room: int, zoom: Zoom) -> None:
    found = scale(of(story), room)
    assert found is not None
    assert (found.zoom, found.older) == (zoom, False)
    assert len(found.units) * found.cells <= room


def test_only_hours_that_bear_work_get_width() -> None:
    found = scale(of(long(2)), 60, "day")
    assert found is not None
    assert {(f"{unit.start:%H}", f"{unit.end:%H}") for unit in found.units} == {("09", "13")}
    weeks = scale(of(long(2)), 60, "week")
    assert weeks is not None
    assert {(f"{unit.start:%a}", f"{unit.end:%a}") for unit in weeks.units} == {("Mon", "Wed")}
    day = Week().to(0, "10:15").open("auth").begin("auth").to(0, "10:40").ended("auth.1").failed("auth.1", "nothing")
    day.judge(result="no_progress").park("quota", "none").wait(5 * 3600.0).woke().begin().wait(600.0)
    hours = scale(of(day), 60)
    assert hours is not None
    assert [unit.label for unit in hours.units] == ["Mon 10:00", "15:00"]


def test_a_zoom_that_finds_no_room_keeps_the_newest() -> None:
    found = scale(of(long(40)), 60, "day")
    assert found is not None
    assert found.older
    assert found.units[-1].label == f"{of(long(40)).local:%a} {of(long(40)).local.day}"
    assert "older left out" in text(of(long(40)), Look(width=80), repo="shop", zoom="day")


def test_time_is_width_and_never_goes_back() -> None:
    found = of(shop())
    for zoom in ZOOMS:
        to = scale(found, 100, zoom)
        assert to is not None
        moments = [MONDAY + timedelta(minutes=37 * step) for step in range(400)]
        places = [to.position(at) for at in moments]
        assert places == sorted(places)
        assert all(0 <= place <= len(to.units) for place in places)
        assert to.cell(datetime(2100, 1, 1, tzinfo=UTC)) == len(to.units) * to.cells - 1


def test_a_clock_that_was_put_back_breaks_nothing() -> None:
    story = shop()
    shown = replace(seen(story), as_of=MONDAY - timedelta(days=30))
    assert text(timeline(story.facts, shown), Look(), repo="shop")
    assert html_page(timeline(story.facts, shown), repo="shop")


# --- on a terminal ---------------------------------------------------------------------------------------------------


def test_a_long_name_leaves_room_for_the_lane_and_how_it_stands() -> None:
    told = of(shop())
    long = replace(told, lanes=tuple(replace(one, basin=f"{one.basin}-{'x' * 30}") for one in told.lanes))
    lines = text(long, Look(width=40), repo="shop").splitlines()
    assert any(line.startswith(" auth-xxx") and line.endswith("● 8/8") for line in lines)


@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 40), (200, 60)])
def test_it_is_drawn_so(width: int, height: int) -> None:
    drawn = text(of(shop()), Look(width=width, height=height), repo="shop", height=height)
    assert len(drawn.splitlines()) <= height
    same(f"timeline-{width}x{height}.txt", drawn + "\n")


def test_a_short_one_is_drawn_by_hours_and_in_ascii() -> None:
    drawn = text(of(tellings.converged()), Look(width=80, ascii=True), repo="shop")
    assert drawn.isascii()
    same("timeline-hours.txt", drawn + "\n")


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from((*TELLINGS, hostile)),
    st.integers(20, 240),
    st.none() | st.integers(10, 80),
    st.sampled_from((None, *ZOOMS)),
    st.booleans(),
)
def test_no_line_is_wider_than_the_terminal(
    telling: Callable[[], Story], width: int, height: int | None, zoom: Zoom | None, ascii: bool
) -> None:
    look = Look(width=width, ascii=ascii)
    drawn = text(of(telling()), look, repo="shop", zoom=zoom, height=height)
    assert max(map(cells, drawn.splitlines())) <= width
    assert drawn == text(of(telling()), look, repo="shop", zoom=zoom, height=height)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e]", drawn)
    assert drawn.isascii() or not ascii
    command = seen(telling()).needs_you[0].command if seen(telling()).needs_you else ""
    assert command in " ".join(drawn.split())


def test_the_command_is_whole_and_what_needs_a_person_is_the_only_filled_area() -> None:
    drawn = text(of(shop()), Look(width=120, colour=True), repo="shop")
    assert set(re.findall(r"\x1b\[([\d;]*)m", drawn)) <= {"1", "2", "32", "30;43", "0"}
    filled = re.findall(r"\x1b\[30;43m(.*?)\x1b", drawn)
    assert filled == [" NEEDS YOU 1 of 2 ", "S", "W"]
    assert re.sub(r"\x1b\[[\d;]*m", "", drawn).replace(" NEEDS YOU 1 of 2 ", "[NEEDS YOU 1 of 2]") == text(
        of(shop()), Look(width=120), repo="shop"
    )


def test_an_end_is_not_covered_by_what_comes_right_after_it() -> None:
    lines = text(of(shop()), Look(width=80), repo="shop").splitlines()
    [auth] = [line for line in lines if line.startswith(" auth ") and "8/8" in line]
    assert auth.count("V") == 1
    assert "H" not in auth


def test_what_does_not_fit_is_counted_from_the_calm_end() -> None:
    drawn = text(of(shop()), Look(width=80), repo="shop", height=11)
    lines = drawn.splitlines()
    assert [line.split()[0] for line in lines[5:9]] == ["search", "refunds", "mfa", "cache"]
    assert lines[9] == " + 4 more: 1 waiting, 1 stopped, 1 converged, 1 killed"
    assert lines[-1].startswith(" + ")


def test_where_there_is_nothing_the_next_step_is_named() -> None:
    assert text(of(Story()), Look(), repo="shop").startswith("No destination yet.")
    assert "orchconverge open auth" in text(of(Story().declare()), Look(), repo="shop")
    later = of(tellings.killed(), since=datetime(2100, 1, 1, tzinfo=UTC))
    assert text(later, Look(), repo="shop").startswith("Nothing was open since then.")


# --- day by day ------------------------------------------------------------------------------------------------------


def test_every_event_is_told_on_its_day_and_the_newest_day_comes_first() -> None:
    found = of(shop())
    told = [(day.first, mark.seq) for day in days(found) for row in day.rows for mark in row.marks]
    assert sorted(seq for _, seq in told) == sorted(mark.seq for one in found.lanes for mark in one.marks)
    assert [day.first for day in days(found)] == sorted({day.first for day in days(found)}, reverse=True)


def test_a_day_or_half_a_day_without_work_is_named_with_its_cause() -> None:
    them = {day.name: dict(day.quiet) for day in days(of(shop()))}
    assert them["Sat 28"] == {NOTHING: ("search", "flaky", "refunds", "mfa"), PERSON: ("fuzzy",)}
    assert them["Wed 25"] == {LOCK: ("auth",)}
    assert them["Tue 24"] == {f"{LOCK} from 09:40": ("auth",)}
    assert them["Sun 29"][f"{PERSON} until 13:00"] == ("fuzzy",)
    assert them["Mon 23"] == {}


@pytest.mark.parametrize("telling", TELLINGS)
def test_no_gap_of_half_a_day_is_left_untold(telling: Callable[[], Story]) -> None:
    found = of(telling().wait(3 * 86_400.0))
    told = {
        day.first + timedelta(days=step): day for day in days(found) for step in range((day.last - day.first).days + 1)
    }
    for one in found.lanes:
        for stretch in one.stretches:
            at = stretch.start
            while stretch.cause is not None and at + timedelta(seconds=HALF_A_DAY) <= stretch.end:
                midnight = at.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
                if (min(midnight, stretch.end) - at).total_seconds() >= HALF_A_DAY:
                    quiet = told[at.date()].quiet
                    assert any(one.basin in basins and said.startswith(stretch.cause) for said, basins in quiet)
                at = midnight


def test_days_that_are_told_in_the_same_words_are_told_together() -> None:
    quiet, limit = days(of(tellings.limited().wait(5 * 86_400.0)))
    assert (quiet.name, quiet.full_name) == ("Mon 30 to Fri 4", "Mon 30 Nov to Fri 4 Dec")
    assert quiet.quiet == ((PERSON, ("auth",)),)
    assert limit.name == "Sun 29"


def test_a_day_of_work_without_an_event_says_how_long_it_was() -> None:
    rows = {day.name: [sentences(row) for row in day.rows] for day in days(of(long(1)))}
    assert ["ran 3h 00m"] in rows["Tue 24"]


def test_times_are_the_readers() -> None:
    story = shop()
    east = replace(seen(story), utc_offset=9 * 3600)
    found = timeline(story.facts, east)
    assert found.local == story.now.astimezone(timezone(timedelta(hours=9)))
    assert days(found)[0].rows[0].basin == "search"
    assert "at 23:23:00" in html_page(found, repo="shop")


# --- HTML ------------------------------------------------------------------------------------------------------------


class Read(HTMLParser):
    """What a page is made of; refuses elements that are not closed in order."""

    VOID = frozenset({"meta", "br", "hr", "rect", "circle", "path", "line"})

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(page)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] != "style":
            self.words.append(data)


@pytest.mark.parametrize("telling", [*TELLINGS, hostile, Story, lambda: long(30)])
def test_every_event_is_a_link_to_its_row_and_nothing_is_asked_for(telling: Callable[[], Story]) -> None:
    found = of(telling())
    page = html_page(found, repo="shop")
    read = Read(page)
    ids = [attributes["id"] for _, attributes in read.elements if "id" in attributes]
    links = [attributes["href"] or "" for tag, attributes in read.elements if tag == "a"]
    assert len(ids) == len(set(ids))
    assert {link.removeprefix("#") for link in links} <= set(ids)
    assert {f"e{mark.seq}" for one in found.lanes for mark in one.marks} <= {link.removeprefix("#") for link in links}
    names = {name for _, attributes in read.elements for name in attributes}
    assert not {"style", "src", "srcset", "xmlns"} & names
    assert not any(name.startswith("on") for name in names)
    assert not {"script", "link", "iframe", "img", "object"} & {tag for tag, _ in read.elements}
    if telling is not hostile:
        assert "http" not in page.replace("http-equiv", "")
        assert "style=" not in page
        assert "script" not in page
    assert all(
        attributes.get("aria-label")
        for tag, attributes in read.elements
        if tag == "a" and attributes.get("class") != "skip"
    )


def test_the_page_says_all_that_the_terminal_says() -> None:
    words = " ".join(Read(html_page(of(shop()), repo="shop")).words)
    for said in (
        "orchconverge lock mfa",
        "index nine times the memory budget",
        "by ana",
        "fuzzy: waited for a person until 13:00",
    ):
        assert said in words
    assert "Mon 23 to Sun 29 Nov 2026, 8 goals" in words


def test_events_of_a_lane_stand_apart_inside_of_the_drawing() -> None:
    page = html_page(of(shop()), repo="shop")
    for one in of(shop()).lanes:
        link = rf'<a href="#e(?:{"|".join(str(mark.seq) for mark in one.marks)})".*?<text class="lt[^"]*" x="([\d.]+)"'
        places = [float(x) for x in re.findall(link, page)]
        assert len(places) == len(one.marks)
        assert all(after - before >= 23.9 for before, after in pairwise(places))
        assert places[-1] <= 1240 - 172 + 0.1


def test_a_lane_of_hundreds_of_events_makes_the_drawing_wider() -> None:
    story = Story().declare().start().check()
    for _ in range(150):
        story.park("quota", "none").wait(60.0).woke()
    page = html_page(of(story), repo="shop")
    assert 'class="wide" width="2' in page
    assert 'x="-' not in page


@pytest.mark.parametrize("year", [1, 1970, 2400, 9999])
@pytest.mark.parametrize("hours", [-12, 14])
def test_a_clock_that_was_centuries_off_is_no_fault_of_the_drawing(year: int, hours: int) -> None:
    story = shop()
    place = next(place for place, fact in enumerate(story.facts) if isinstance(fact, e.BranchPruned))
    odd = datetime(year, 12, 31, tzinfo=UTC) if year > 1 else datetime(1, 1, 1, tzinfo=UTC)
    story.facts[place] = replace(story.facts[place], at=odd)
    shown = project(story.state, probes=Probes(), now=story.now.astimezone(timezone(timedelta(hours=hours))))
    told = timeline(story.facts, shown)
    assert "P" in text(told, Look(width=80), repo="shop")
    assert "<svg" in html_page(told, repo="shop")
    assert days(told)
