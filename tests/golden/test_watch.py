"""The overview word for word, colour stripped, at the sizes that people have. ``ORCHCONVERGE_GOLDEN=write`` writes it anew."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from msgspec.structs import replace

from orchconverge.core import events as e
from orchconverge.core.projection import Probes, project
from orchconverge.core.replay import Replay
from orchconverge.core.views.board import board
from orchconverge.core.views.destination_matrix import candidates
from orchconverge.core.views.lines import Look, bare
from orchconverge.core.views.plain import changes, plain
from tests.golden import test_status
from tests.golden.test_ledgers import GOLDEN, VERSION
from tests.golden.test_status import same
from tests.shop import crowd, shop, shown
from tests.stories import START

STORY = shop()
SHOP = shown(STORY)
SIZES = ((40, 12), (80, 24), (120, 40), (200, 60))


def text(lines: tuple[str, ...]) -> str:
    return "".join(f"{bare(line)}\n" for line in lines)


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_eight_goals_at_each_size(width: int, height: int) -> None:
    look = Look(width=width, height=height, keys=True, colour=True)
    frame = board(SHOP, look, repo="shop", compared=candidates(STORY.state, "mfa"))
    assert len(frame.lines) == height
    same(f"watch-{width}x{height}.txt", text(frame.lines))


def test_eight_goals_without_colour_or_utf_8() -> None:
    frame = board(SHOP, Look(width=80, height=24, ascii=True), repo="shop")
    assert text(frame.lines).isascii()
    same("watch-ascii-80x24.txt", text(frame.lines))


def test_thirty_goals_and_two_hundred_minds() -> None:
    frame = board(crowd(SHOP, 30), Look(width=120, height=40, keys=True), repo="shop")
    same("watch-crowd-120x40.txt", text(frame.lines))


def test_one_goal_of_a_ledger_of_a_released_version() -> None:
    replay = Replay()
    replay.feed((GOLDEN / f"{VERSION}-at-the-lock.jsonl").read_bytes())
    found = project(replay.fold.state, probes=Probes(), now=START + timedelta(hours=1))
    compared = candidates(replay.fold.state, "auth")
    same("watch-ledger-80x24.txt", text(board(found, Look(width=80, height=24), repo="shop", compared=compared).lines))


def test_every_way_to_stand_has_its_first_lines() -> None:
    parts = []
    for name in test_status.TOLD:
        lines = board(test_status.shown(name), Look(width=80, height=24), repo="shop").lines
        parts.append(f"## {name}\n{text(lines[:6])}")
    same("watch-states.txt", "\n".join(parts))


def test_sentences_and_what_follows_them() -> None:
    story = shop()
    first = shown(story)
    story.wait(60.0, basin="search").ended("search.4").candidate("search.4", met=["types", "tests", "enrol", "verify"])
    story.graft("search.4", met=["types", "tests", "enrol", "verify"])
    story.judge("search", met=["types", "tests", "enrol", "verify"], text="fixed verify")
    second = shown(story)
    story.graft("mfa.2", met=["types", "tests", "enrol", "verify", "recovery", "docs"], decided_by="person: ana, tty")
    story.tell(e.FrontierAdded(question="Is a code sent twice?", origin="mfa.2", basin="mfa"))
    third = shown(story)
    told = [plain(first), changes(first, second), changes(second, third)]
    assert not re.search(r"\x1b", "".join(told))
    assert changes(third, replace(third, as_of=third.as_of + timedelta(minutes=9))) == ""
    same("watch-plain.txt", "\n".join(told))
