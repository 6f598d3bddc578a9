"""One destination's frame: word for word at three sizes, and what holds of it at every size, with anything in it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchconverge.core import events as e
from orchconverge.core.needs import Damage
from orchconverge.core.overlap import Lines, Pair, Shared
from orchconverge.core.projection import Probes, Projection, project
from orchconverge.core.views.board import SMALL, Chosen, Frame
from orchconverge.core.views.destination import destination
from orchconverge.core.views.destination_matrix import Beside, candidates
from orchconverge.core.views.lines import Look, bare
from orchconverge.core.views.text import cells
from tests.golden.test_status import same
from tests.stories import Story, check
from tests.unit.test_card import NAMES, wave

SIZES = ((80, 24), (120, 40), (200, 60))
HOSTILE = "\x1b[31mred\x1b[0m \u202egnal\u200b " + "名" * 70
LOGIN = Shared(path="src/login.py", claimed="lines", lines=(Lines(39, 72),))
PAIRS = (
    Pair(one="mfa.1", other="mfa.2", merges=True, conflicts=(), shared=(LOGIN,)),
    Pair(one="mfa.1", other="mfa.4", merges=False, conflicts=("src/login.py",), shared=(LOGIN,)),
    Pair(one="mfa.2", other="mfa.4", merges=True, conflicts=(), shared=()),
)
BESIDE = Beside(PAIRS, {"mfa.1": (233, 12), "mfa.2": (412, 38), "mfa.4": (9, 0)})


def told() -> Story:
    """Three candidates that no other covers, mfa.3 that mfa.2 covers; something learned and something asked."""
    story = wave(flags=("test removed: tests/test_login.py",)).tell(
        e.FrontierAdded(question="Do recovery codes expire, and who is told?", origin="mfa.3", basin="mfa")
    )
    story.judge("mfa", met=("types", "tests")).begin("mfa", approach="state machine").wait(300.0, basin="mfa")
    story.ended("mfa.4", seconds=300.0).candidate("mfa.4", met=("malformed", "docs", "tests"), residue=["a counter"])
    return story


def shown_of(story: Story, basin: str = "mfa") -> Projection:
    probes = Probes(leases={basin: True}, ledger=Damage(lines=story.seq), seq=story.seq)
    return project(story.state, probes=probes, now=story.now, recent=story.facts, basin=basin)


def drawn(
    story: Story, look: Look, *, beside: Beside | None = BESIDE, selected: str | None = None, basin: str = "mfa"
) -> Frame:
    return destination(
        shown_of(story, basin),
        look._replace(keys=True),
        repo="shop",
        basin=basin,
        found=candidates(story.state, basin),
        beside=beside,
        chosen=Chosen(selected=selected),
    )


def text(frame: Frame) -> str:
    return "\n".join(frame.lines) + "\n"


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_it_reads_as_it_always_did(size: tuple[int, int]) -> None:
    same(f"destination-{size[0]}x{size[1]}.txt", text(drawn(told(), Look(*size))))


def test_it_reads_so_in_ascii_and_where_there_is_little_room() -> None:
    frame = text(drawn(told(), Look(80, 24, ascii=True)))
    assert frame.isascii()
    same("destination-80x24-ascii.txt", frame)
    same("destination-40x12.txt", text(drawn(told(), Look(40, 12))))


def test_what_needs_a_person_stands_where_it_stands_everywhere() -> None:
    for size in SIZES:
        lines = drawn(told(), Look(*size)).lines
        assert lines[1].startswith("[NEEDS YOU")
        assert lines[2].strip().startswith("orchconverge lock mfa")


def test_a_row_is_one_candidate_that_no_other_covers() -> None:
    frame = drawn(told(), Look(120, 40))
    assert list(frame.rows.values()) == ["mfa.2", "mfa.1", "mfa.4"]
    for place, name in frame.rows.items():
        assert frame.lines[place][1:].startswith(name)
    assert "\n 1 covered: mfa.3 by mfa.2\n" in text(frame)


def test_two_hundred_equal_candidates_are_one_row_and_a_count() -> None:
    story = Story()
    story.declare("mfa", criteria=tuple(check(name) for name in NAMES), target="main", lock="person")
    story.start("mfa", lock="person").check("mfa", met=("types",)).begin("mfa", minds=200).wait(60.0, basin="mfa")
    for number in range(1, 201):
        story.ended(f"mfa.{number}", seconds=9.0).candidate(f"mfa.{number}", met=("types", "docs"))
    frame = drawn(story, Look(80, 24), beside=Beside())
    assert list(frame.rows.values()) == ["mfa.1"]
    assert " 199 covered: mfa.2 by mfa.1, mfa.3 by mfa.1" in text(frame)
    assert "together" not in text(frame)
    assert "   mfa.1 meets 2 of 7.\n" in text(frame)


def test_all_of_them_together_are_a_row_and_a_sentence() -> None:
    frame = text(drawn(told(), Look(120, 40)))
    [row] = [line for line in frame.splitlines() if line.startswith(" together")]
    assert re.search(r" 7/7$", row.rstrip())
    assert "Together they meet everything: what is left is your decision, not more minds." in frame
    one = text(drawn(wave(flags=()), Look(120, 40)))
    assert "Only mfa.1 meets malformed: orchconverge graft mfa.1 --only PATH" in one


def test_what_none_meets_is_said_with_how_often_it_was_tried() -> None:
    story = Story().declare("mfa", criteria=(check("a"), check("b")), target="main", lock="person")
    story.start("mfa", lock="person").check("mfa").begin("mfa", minds=2).wait(9.0, basin="mfa")
    story.ended("mfa.1").candidate("mfa.1", met=("a",)).ended("mfa.2").candidate("mfa.2", met=("a",))
    assert "   None meets b: 2 branches did not, by 1 approach." in text(drawn(story, Look(80, 24), beside=Beside()))


def test_a_candidate_that_loses_something_says_what() -> None:
    story = Story().declare("mfa", criteria=(check("a"), check("b")), target="main", lock="person")
    story.start("mfa", lock="person").check("mfa", met=("a",), head="base").begin("mfa", minds=1).wait(9.0, basin="mfa")
    story.ended("mfa.1").candidate("mfa.1", met=("b",))
    frame = drawn(story, Look(80, 24, colour=True), beside=Beside())
    assert "mfa.1 loses a, which main has." in text(frame)
    assert "\x1b[31m!\x1b[0m" in text(frame)


def test_criteria_are_numbers_with_a_legend_where_their_names_do_not_fit() -> None:
    names = [f"criterion-{number:02}" for number in range(40)]
    story = Story().declare("mfa", criteria=tuple(map(check, names)), target="main", lock="person")
    story.start("mfa", lock="person").check("mfa", met=names[20:], head="base").begin("mfa").wait(9.0, basin="mfa")
    story.ended("mfa.1").candidate("mfa.1", met=names)
    lines = drawn(story, Look(80, 24), beside=Beside()).lines
    [head] = [line for line in lines if " met " in line and " 1  2  3 " in line]
    shown = [int(word) for word in re.findall(r"(?<![+\d])\d+", head.partition("met")[0])]
    assert shown == list(range(1, len(shown) + 1))
    assert f"+{40 - len(shown)} more" in head
    assert any("   1 criterion-00   2 criterion-01" in line for line in lines)
    assert "criterion-39" in text(drawn(story, Look(1000, 60), beside=Beside()))


def test_until_git_has_answered_and_when_it_cannot_the_rest_is_there() -> None:
    asked = text(drawn(told(), Look(120, 40), beside=None))
    assert "   git is asked; its answer comes here" in asked
    assert "+412" not in asked
    refused = text(drawn(told(), Look(120, 40), beside=Beside(fault="git does not trust this repository")))
    assert "   git does not trust this repository\n" in refused
    assert "mfa.2 meets most (6 of 7)" in refused
    gone = text(drawn(told(), Look(120, 40), beside=Beside()))
    assert "   their commits are not in this repository" in gone


def test_the_selected_candidates_evidence_is_shown() -> None:
    frame = drawn(told(), Look(120, 40), selected="mfa.1")
    assert "EVIDENCE of mfa.1 " in text(frame)
    [row] = [line for line in frame.lines if line.startswith("›")]  # noqa: RUF001
    assert "mfa.1" in row
    assert "EVIDENCE of mfa.2 " in text(drawn(told(), Look(120, 40), selected="gone.9"))


def test_where_no_candidate_waits_the_target_is_shown_and_what_is_waited_for() -> None:
    story = Story().declare("mfa", criteria=(check("a"), check("b")), target="main")
    story.start("mfa").check("mfa", met=("a",)).begin("mfa").wait(60.0, basin="mfa")
    frame = drawn(story, Look(120, 40), beside=Beside())
    assert not frame.rows
    assert "No candidate waits. mfa waits for attempt 1 ends" in text(frame)
    assert "CRITERIA ─" in text(frame)
    assert "OVERLAP" not in text(frame)
    with pytest.raises(KeyError):
        drawn(story, Look(), basin="other")


# --- at every size ---------------------------------------------------------------------------------------------------

MET = st.frozensets(st.sampled_from(NAMES))


@st.composite
def crowds(draw: st.DrawFn) -> tuple[Story, Beside | None]:
    """A basin with any candidates, hostile words in it, and git's answer or none."""
    story = Story()
    criteria = tuple(check(name, required=draw(st.booleans()) or name == NAMES[0]) for name in NAMES)
    story.declare(
        "mfa", goal=draw(st.sampled_from(["short", HOSTILE])), criteria=criteria, target="main", lock="person"
    )
    story.start("mfa", lock="person", usd=draw(st.sampled_from([None, 12.0]))).check("mfa", met=draw(MET), head="base")
    wave_of: Sequence[frozenset[str]] = draw(st.lists(MET, max_size=9))
    if wave_of:
        story.begin("mfa", minds=len(wave_of), approach=draw(st.sampled_from(["minimal", HOSTILE]))).wait(9.0)
    for number, met in enumerate(wave_of, 1):
        flags = draw(st.sampled_from([(), ("ci: .github/workflows/ci.yml",)]))
        story.ended(f"mfa.{number}").candidate(f"mfa.{number}", met=met, flags=flags, residue=[HOSTILE])
    for number in range(draw(st.integers(0, 3))):
        story.tell(e.FrontierAdded(question=f"{number} {HOSTILE}", origin=HOSTILE, basin="mfa"))
    rows = [row.branch for row in candidates(story.state, "mfa").rows]
    sizes: Mapping[str, Any] = {name: (10**number, number) for number, name in enumerate(rows)}
    pairs = tuple(
        Pair(
            one=one,
            other=other,
            merges=draw(st.sampled_from([True, False, None])),
            conflicts=(HOSTILE,),
            shared=(LOGIN,),
        )
        for one, other in pairwise(rows)
    )
    return story, draw(st.sampled_from([None, Beside(), Beside(pairs, sizes), Beside(fault=HOSTILE)]))


@settings(max_examples=60, deadline=None)
@given(crowds(), st.integers(36, 210), st.integers(10, 64), st.booleans(), st.integers(0, 9), st.data())
def test_it_fits_says_what_is_needed_and_hides_nothing_unsaid(
    crowd: tuple[Story, Beside | None], width: int, height: int, ascii: bool, number: int, data: st.DataObject
) -> None:
    story, beside = crowd
    look = Look(width, height, ascii=ascii, colour=data.draw(st.booleans()))
    frame = drawn(story, look, beside=beside, selected=f"mfa.{number}")
    assert frame == drawn(story, look, beside=beside, selected=f"mfa.{number}")
    plain = [bare(line) for line in frame.lines]
    assert max(map(cells, plain)) <= width
    assert len(plain) <= height
    assert not re.search(r"[\x00-\x1f\u200b\u202e]", "".join(plain))
    assert set(re.findall(r"\x1b\[([\d;]*)m", "".join(frame.lines))) <= {"0", "1", "2", "31", "32", "30;43"}
    assert not ascii or "".join(plain).isascii()
    if width < 40 or height < 12:
        assert " ".join(plain) == " ".join(SMALL)
        return
    assert len(plain) == height
    needs = shown_of(story).needs_you
    if needs:
        assert any(needs[0].command in line for line in plain)
    rows = [row.branch for row in candidates(story.state, "mfa").rows]
    shown = list(frame.rows.values())
    assert set(shown) <= set(rows)
    if height >= 18:
        assert bool(shown) == bool(rows)
        hidden = len(rows) - len(shown)
        assert not hidden or any(f"+ {hidden} more: " in line for line in plain) or len(shown) == 1
        if f"mfa.{number}" in rows:
            assert f"mfa.{number}" in shown
