"""The graph of sessions: what it holds, its lanes, how it is drawn at every width, and as Mermaid."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchconverge.core import events as e
from orchconverge.core.pursuits import FOLDED_AFTER, Graph, Pursuit, graph, ordered
from orchconverge.core.views.graph import FOLD, SIGNS, Node, mermaid, nodes, text
from orchconverge.core.views.lines import Look
from orchconverge.core.views.text import cells
from tests.golden.test_status import same
from tests.stories import Story, check
from tests.week import Week, seen, shop


def of(story: Story, only: str | None = None) -> Graph:
    return graph(story.facts, story.state, seen(story), only=only)


def pursuit(name: str, *parents: str, day: int = 0) -> Pursuit:
    return Pursuit(
        session=f"session-{name}",
        basin=name,
        macrostate=f"what {name} is for",
        stands="open",
        reason="",
        parents=parents,
        children=(),
        opened=datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=day),
        closed=None,
        attempts=1,
        met=0,
        required=1,
        tokens=0,
        grafts=0,
        residue=0,
        questions=0,
    )


def drawn_as(*them: Pursuit) -> Graph:
    now = datetime(2026, 3, 1, tzinfo=UTC)
    return Graph(schema=1, as_of=now, utc_offset=0, needs_you=(), pursuits=tuple(ordered(them)), folded=None)


def lanes(found: Graph) -> list[str]:
    """The lanes alone, each node by the first letter of its name."""
    out = []
    for place, node in enumerate(nodes(found)):
        out += [node.above] * bool(place)
        out += [f"{node.line[: node.at]}{node.name[0]}{node.line[node.at + 1 :]}", node.below]
    return [line.rstrip() for line in out]


# --- what it holds ---------------------------------------------------------------------------------------------------


def test_it_holds_a_node_for_each_session() -> None:
    them = {one.basin: one for one in of(shop()).pursuits}
    assert {one.stands for one in them.values()} == {"open", "needs you", "met", "abandoned"}
    auth, cache, fuzzy = them["auth"], them["cache"], them["fuzzy"]
    assert (auth.stands, auth.children, auth.attempts, auth.met, auth.required) == ("met", ("mfa",), 2, 8, 8)
    assert (auth.grafts, auth.residue, auth.questions, auth.tokens) == (2, 2, 1, 93_000)
    assert cache.parents == ("search", "refunds")
    assert (fuzzy.stands, fuzzy.reason) == ("abandoned", "index nine times the memory budget")
    assert auth.closed is not None
    assert auth.opened is not None


def test_a_goal_that_never_ran_has_no_session() -> None:
    assert of(Story().declare()).pursuits == ()
    assert text(of(Story().declare()), Look(), repo="shop") == "No session yet. A run opens one."


def test_newest_come_first_but_children_stand_above_what_they_began_from() -> None:
    names = [one.basin for one in of(shop()).pursuits]
    assert names == ["guide", "cache", "mfa", "refunds", "flaky", "fuzzy", "search", "auth"]
    late = [pursuit("child", "parent", day=1), pursuit("parent", day=9), pursuit("other", day=5)]
    assert [one.basin for one in ordered(late)] == ["other", "child", "parent"]


def test_one_goal_is_shown_with_what_it_began_from_and_what_began_from_it() -> None:
    assert [one.basin for one in of(shop(), "refunds").pursuits] == ["cache", "refunds"]
    assert [one.basin for one in of(shop(), "search").pursuits] == ["cache", "fuzzy", "search"]
    assert [one.basin for one in of(shop(), "cache").pursuits] == ["cache", "refunds", "search"]
    [alone] = of(shop(), "guide").pursuits
    assert alone.basin == "guide"
    mfa, auth = of(shop(), "mfa").pursuits
    assert (mfa.parents, auth.children) == (("auth",), ("mfa",))
    assert of(shop(), "refunds").pursuits[0].parents == ("refunds",)  # of search nothing is shown


def test_what_ended_long_ago_is_counted_unless_it_is_asked_for() -> None:
    story = shop().wait((FOLDED_AFTER + timedelta(days=1)).total_seconds())
    found = of(story)
    assert found.folded is not None
    assert (found.folded.count, found.folded.met, found.folded.children) == (2, 1, ("mfa",))
    assert not {"auth", "fuzzy"} & {one.basin for one in found.pursuits}
    assert "~" in text(found, Look(), repo="shop")
    assert "2 ended over 30 days ago, 1 met" in text(found, Look(), repo="shop")
    assert [one.basin for one in of(story, "mfa").pursuits] == ["mfa", "auth"]
    assert of(shop().wait((FOLDED_AFTER - timedelta(days=4)).total_seconds())).folded is None


def test_a_session_that_was_closed_and_opened_again_is_one_node() -> None:
    story = Story().declare().start().check()
    story.tell(e.SessionClosed(session="session-auth", basin="auth", reason="lost"))
    assert [one.stands for one in of(story).pursuits] == ["lost"]
    story.tell(e.SessionOpened(session="session-auth", basin="auth"))
    assert [one.stands for one in of(story).pursuits] == ["open"]


def test_the_same_as_json_keeps_its_keys() -> None:
    found = msgspec.json.decode(msgspec.json.encode(of(shop())))
    assert set(found) == {"schema", "as_of", "utc_offset", "needs_you", "pursuits", "folded"}
    assert set(found["pursuits"][0]) == {
        *("session", "basin", "macrostate", "stands", "reason", "parents", "children", "opened", "closed"),
        *("attempts", "met", "required", "tokens", "grafts", "residue", "questions"),
    }


# --- lanes -----------------------------------------------------------------------------------------------------------


def test_a_line_of_sessions_is_one_lane() -> None:
    assert lanes(drawn_as(pursuit("a"), pursuit("b", "a", day=1), pursuit("c", "b", day=2))) == [
        *("c", "│", "│"),
        *("b", "│", "│"),
        *("a", ""),
    ]


def test_two_that_began_from_one_join_above_it() -> None:
    assert lanes(drawn_as(pursuit("a"), pursuit("b", "a", day=1), pursuit("c", "a", day=2))) == [
        *("c", "│", "│"),
        *("│ b", "│ │", "├─╯"),
        *("a", ""),
    ]


def test_one_that_carries_two_parts_below_it() -> None:
    assert lanes(drawn_as(pursuit("a"), pursuit("b", day=1), pursuit("c", "b", "a", day=2))) == [
        *("c", "├─╮", "│ │"),
        *("b │", "  │", "  │"),
        *("  a", ""),
    ]


def test_one_that_carries_what_another_waits_for_leads_into_its_lane() -> None:
    found = drawn_as(pursuit("a"), pursuit("b", day=1), pursuit("c", "a", day=2), pursuit("d", "b", "a", day=3))
    assert lanes(found) == [
        *("d", "├─╮", "│ │"),
        *("│ │ c", "│ │ │", "│ │ │"),
        *("b │ │", "  │ │", "  ├─╯"),
        *("  a", ""),
    ]


@st.composite
def histories(draw: st.DrawFn) -> list[Pursuit]:
    """Sessions in which each may begin from some that were there before it."""
    them: list[Pursuit] = []
    for number in range(draw(st.integers(1, 14))):
        before = [one.basin for one in them]
        parents = draw(st.lists(st.sampled_from(before), max_size=3, unique=True)) if before else []
        them.append(pursuit(f"g{number}", *parents, day=draw(st.integers(0, 40))))
    return them


@settings(max_examples=200, deadline=None)
@given(histories())
def test_every_line_goes_on_and_every_node_is_reached_from_its_children(them: list[Pursuit]) -> None:
    found = drawn_as(*them)
    names = [one.basin for one in found.pursuits]
    assert sorted(names) == sorted(one.basin for one in them)
    assert all(names.index(one.basin) < names.index(parent) for one in them for parent in one.parents)
    parents = {one.basin: one.parents for one in them}
    them_drawn = nodes(found)
    for place, node in enumerate(them_drawn):
        assert _led_to(them_drawn, place) == set(parents[node.name])


def _led_to(them: list[Node], place: int) -> set[str]:
    """The nodes that the lines below a node lead to, followed as a reader does: down lanes, across where they join."""
    node = them[place]
    columns = {node.at} if node.below[node.at : node.at + 1] in tuple("│├┤┼") else set()
    for step, opens, ends in ((1, "├┼─╰╭┴┬", "╮┤"), (-1, "┤┼─╯╮┴┬", "╭├")):
        at = node.at
        while node.below[at : at + 1] in tuple(opens if at == node.at else f"{opens}│"):
            at += step
            if node.below[at] in "╮╭┤├┼┬":
                columns.add(at)
            if node.below[at] in ends:
                break
    found: set[str] = set()
    for below in them[place + 1 :]:
        for column in sorted(columns):
            char = below.above[column]
            assert char in "│├╯┴"
            if char in "╯┴" or (column == below.at and char in "│├"):
                found.add(below.name)
                columns.discard(column)
            else:
                assert below.line[column] == below.below[column] == "│" or below.below[column] in "┤├┼"
    assert not columns
    return found


# --- drawn -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 40), (200, 60)])
def test_it_is_drawn_so(width: int, height: int) -> None:
    same(f"graph-{width}x{height}.txt", text(of(shop()), Look(width=width, height=height), repo="shop") + "\n")


def test_without_utf_8_it_is_drawn_with_ascii() -> None:
    drawn = text(of(shop()), Look(width=100, ascii=True), repo="shop")
    assert drawn.isascii()
    same("graph-ascii.txt", drawn + "\n")


HOSTILE = '\x1b[31mred\u202etxet\u200b\n  ```mermaid\nclick s1 call alert(1) "]:::x --> %%{init: {}}%% <b>'


@settings(max_examples=100, deadline=None)
@given(st.integers(20, 240), st.booleans(), st.integers(0, 400), st.booleans())
def test_no_line_is_wider_than_the_terminal(width: int, ascii: bool, days: int, hostile: bool) -> None:
    story = shop()
    if hostile:
        goal = HOSTILE
        story.declare("odd", goal=goal, macrostate=goal, criteria=(check("x"),), parents=("auth", "guide")).start("odd")
        story.tell(e.BasinKilled(basin="odd", reason=goal), writer="cli")
    drawn = text(of(story.wait(days * 86_400.0)), Look(width=width, ascii=ascii), repo="shop")
    assert max(map(cells, drawn.splitlines())) <= width
    assert drawn.isascii() or not ascii
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e]", drawn)


def test_only_what_needs_a_person_is_filled() -> None:
    drawn = text(of(shop()), Look(width=120, colour=True), repo="shop")
    assert set(re.findall(r"\x1b\[([\d;]*)m", drawn)) <= {"1", "2", "32", "30;43", "0"}
    assert re.findall(r"\x1b\[30;43m(.*?)\x1b", drawn) == [" NEEDS YOU 1 of 2 ", "needs you", "needs you"]


def test_the_signs_that_are_drawn_are_explained() -> None:
    drawn = text(of(shop()), Look(width=120), repo="shop")
    for stands in ("open", "needs you", "met", "abandoned"):
        assert f"{SIGNS[stands][0]} {SIGNS[stands][2]}" in drawn.splitlines()[-1]  # type: ignore[index]
    assert "carries the residue" not in text(of(shop(), "guide"), Look(width=120), repo="shop")


# --- Mermaid ---------------------------------------------------------------------------------------------------------


def test_mermaid_has_every_node_and_edge_and_nothing_of_others_that_it_would_read() -> None:
    chart = mermaid(of(shop()))
    assert chart.splitlines()[0] == "flowchart BT"
    assert 's1(["auth<br/>ended met, 8/8<br/>Users sign in with OAuth and stay signed in"]):::met' in chart
    assert sorted(re.findall(r"s\d+ --> s\d+", chart)) == ["s1 --> s6", "s2 --> s3", "s2 --> s7", "s5 --> s7"]
    week = Week().to(0, "09:00").declare("end", goal=HOSTILE, criteria=(check("x"),)).start("end")
    [line] = [each for each in mermaid(of(week)).splitlines() if each.startswith("  s1")]
    assert line.startswith('  s1("end<br/>open, 0/1<br/>red')
    assert line.count('"') == 2
    assert "click" not in line.replace("click s1 call alert(1)", "")
    assert not set("[]{}<>%`;|\\") & set(line.replace("<br/>", ""))


def test_what_is_folded_is_a_node_of_its_own_in_mermaid() -> None:
    chart = mermaid(of(shop().wait(90 * 86_400.0)))
    assert 'old["2 ended over 30 days ago, 1 met"]' in chart
    assert re.search(r"old --> s\d", chart)
    assert FOLD not in chart


@pytest.mark.parametrize("ascii", [False, True])
def test_beside_more_lanes_than_there_is_room_for_every_session_keeps_its_sign_and_its_name(ascii: bool) -> None:
    forks = [pursuit(f"fork-{day}", f"root-{day}", day=day) for day in range(50, 90)]
    roots = [pursuit(f"root-{day}", day=day - 50) for day in range(50, 90)]
    lines = text(drawn_as(*roots, *forks), Look(width=60, ascii=ascii), repo="shop").splitlines()
    for one in (*roots, *forks):
        [line] = [line for line in lines if f" {one.basin} " in line]
        assert SIGNS["open"][ascii] in line.split(one.basin)[0]
