"""The overview at any size, with any number of goals and any text: nothing runs over, nothing that matters is cut."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import takewhile
from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from orchconverge.core.events import AnyFact
from orchconverge.core.happened import Event
from orchconverge.core.measures import Nearest, Trend
from orchconverge.core.needs import CELLS, ORDER, Need
from orchconverge.core.projection import Probes, project
from orchconverge.core.shown import BasinShown, Counted, Lock, Minds, Projection, QuestionShown, Queued, Used, WaitsFor
from orchconverge.core.standing import GROUPS, PHASES
from orchconverge.core.views.board import KEYS, LEAST, SMALL, Chosen, Frame, board, order, selected
from orchconverge.core.views.board_rows import limit
from orchconverge.core.views.destination_matrix import candidates
from orchconverge.core.views.lines import Look, bare
from orchconverge.core.views.plain import changes, plain
from orchconverge.core.views.text import cells, clean, to_ascii
from tests.property.test_text import BEGINNINGS, FACTS, HOSTILE, PROBES, folded, unseen
from tests.shop import crowd, shop, shown

SHOP = shown(shop())
SGR = {f"\x1b[{code}m" for code in ("0", "1", "2", "31", "32", "30;43")}
SLOW = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
TEXT = HOSTILE.filter(lambda text: "\ud800" not in text).map(lambda text: clean(f"{text} said"))
WIDTHS = st.one_of(st.sampled_from([39, 40, 75, 76, 80, 109, 110, 120, 169, 170, 200]), st.integers(1, 240))
HEIGHTS = st.one_of(st.sampled_from([11, 12, 17, 18, 24, 29, 30, 40, 50, 60]), st.integers(1, 70))
Made = tuple[int, list[str]]
LOOKS = st.builds(Look, width=WIDTHS, height=HEIGHTS, ascii=st.booleans(), colour=st.booleans(), keys=st.booleans())


def goal(name: str, texts: Sequence[str], of: Random) -> BasinShown:
    """One basin: a real one in another state, with other figures and other words."""
    phase = of.choice(sorted(PHASES))
    required = of.choice((0, 1, 5, 8, 9, 40))
    met = of.randint(0, required)
    return replace(
        of.choice(SHOP.basins),
        id=name,
        macrostate=of.choice(texts),
        phase=phase,
        group="need you" if phase == "WAITING" and of.random() < 0.5 else PHASES[phase].group,
        met=met,
        required=required,
        pending_at_lock=of.randint(0, required),
        trend=Trend(word=of.choice((None, "rising", "flat 12", "fell", "done")), scores=(0, met, required)),
        attempt=Counted(n=of.randint(0, 999), max=of.choice((None, 1, 400))),
        active_hours=Used(used=of.random() * 300, max=of.choice((None, 0.01, 300.0))),
        usd=Used(used=of.choice((None, 0.0, 9999.0)), max=of.choice((None, 0.5, 10_000.0))),
        limit_first=Nearest(
            kind=of.choice((None, "attempts", "time", "money", "tokens", "minds", "until")),
            fraction=of.choice((None, 0.0, 0.79, 0.8, 3.0)),
        ),
        waits_for=WaitsFor(kind="mind", what=of.choice(texts), until=None),
        minds=Minds(running=of.randint(0, 300), unknown=of.randint(0, 2)),
    )


def repository(seed: int, texts: Sequence[str]) -> Projection:
    """One with 0 to 30 goals, in the order in which `project` has them, and with these texts everywhere."""
    of = Random(seed)
    count = of.choice((0, 1, 2, 5, 8, 12, 30))
    names = [f"{of.choice('abc')}{'x' * of.choice((0, 3, 9, 36))}-{place}"[-40:] for place in range(count)]
    basins = sorted((goal(name, texts, of) for name in names), key=lambda one: GROUPS.index(one.group))

    def some(most: int) -> list[tuple[str | None, str]]:
        return [(of.choice(names) if names else None, of.choice(texts)) for _ in range(of.randint(0, most))]

    def when() -> datetime | None:
        return of.choice((None, SHOP.as_of, SHOP.as_of - timedelta(days=3)))

    needs = [
        Need(
            kind=of.choice(ORDER),
            basin=name,
            branch=None,
            since=when(),
            sentence=clean(text * 3, CELLS),
            command=f"orchconverge resume {name or 'auth'} --max-attempts {of.randint(1, 999)}",
        )
        for name, text in some(12)
    ]
    queue = [
        Queued(
            branch=f"{name}.{of.randint(1, 300)}",
            basin=name,
            met=of.randint(0, 40),
            adds=of.randint(0, 40),
            loses=of.choice((0, 0, 3, 40)),
            since=when(),
            flags=of.choice(((), ("lockfile",), ("ci", "lockfile"))),
        )
        for name, _ in some(9)
        if name is not None
    ]
    kinds = ("attempt.started", "branch.spawned", "branch.ended", "branch.candidate", "branch.pruned", "run.waiting")
    events = [
        Event(seq=place, at=when(), basin=name, type=of.choice(kinds), what=text, detail=of.choice(texts))
        for place, (name, text) in enumerate(some(20))
    ]
    return replace(
        SHOP,
        basins=tuple(basins),
        needs_you=tuple(needs),
        lock=Lock(target=of.choice(texts), queue=tuple(queue)),
        frontier=tuple(QuestionShown(question=text, origin=text, basin=name, blocks=None) for name, text in some(9)),
        events=tuple(reversed(events)),
        ledger=replace(SHOP.ledger, bad=of.choice((0, 0, 2)), unknown=of.choice((0, 0, 1))),
    )


SEEDS = st.tuples(st.integers(0, 2**32), st.lists(TEXT, min_size=2, max_size=5))
"""What a repository is made of: small enough to be printed where one fails."""


def texts(frame: Frame) -> list[str]:
    return [bare(line) for line in frame.lines]


def hidden(frame: Frame) -> int:
    """How many basins the folds count."""
    told = re.compile(r"   \+ (\d+) (?:more: |(?:more )?(?:need you|moving|waiting|ended))")
    above = takewhile(lambda line: "CRITERIA" not in line, texts(frame))
    return sum(int(found[1]) for line in above if (found := told.match(line)))


@given(SEEDS, LOOKS, TEXT, st.integers(0, 29))
@SLOW
def test_a_frame_of_any_size_holds_all_that_matters(made: Made, look: Look, repo: str, place: int) -> None:
    found = repository(*made)
    names = order(found)
    chosen = Chosen(selected=names[place % len(names)] if names else None)
    frame = board(found, look, repo=repo, chosen=chosen)
    assert frame == board(found, look, repo=repo, chosen=chosen)
    lines = texts(frame)
    assert len(lines) <= look.height
    assert all(cells(line) <= look.width for line in lines)
    assert not unseen("".join(lines))
    assert set(re.findall(r"\x1b\[[0-9;]*m", "".join(frame.lines))) <= (SGR if look.colour else set())
    assert "".join(lines).isascii() or not look.ascii
    if look.width < LEAST[0] or look.height < LEAST[1]:
        assert "".join(SMALL).replace(" ", "").startswith("".join(lines).replace(" ", ""))
        return
    assert len(lines) == look.height or not look.keys
    assert ("NEEDS YOU" in "\n".join(lines)) == bool(found.needs_you)
    if found.needs_you:
        command = found.needs_you[0].command
        said = "\n".join(lines)
        assert command in said or command.replace(" ", "") in re.sub(r"\s", "", said)
    drawn = list(dict.fromkeys(frame.rows[at] for at in sorted(frame.rows)))
    assert [name for name in names if name in drawn] == drawn
    # A command of many lines can leave one line for the rows: then it is the chosen one, and none is left to count by.
    alone = len(drawn) == 1 and len(lines) == look.height
    assert len(drawn) + hidden(frame) == len(names) or alone
    assert chosen.selected is None or chosen.selected in drawn
    for at, name in frame.rows.items():
        basin = found.basin(name)
        assert basin is not None
        both = "".join(lines[other] for other, one in frame.rows.items() if one == name)
        assert name[:6] in both
        assert basin.phase in both
        assert f" {basin.met}/{basin.required}" in both
        if look.width >= 76:
            first = limit(basin)
            assert first in both or look.width >= 170
        said = to_ascii(basin.waits_for.what) if look.ascii else basin.waits_for.what
        assert said[:4].rstrip() in both, lines[at]


@given(SEEDS, LOOKS)
@SLOW
def test_a_hundred_times_the_minds_change_one_number(made: Made, look: Look) -> None:
    found = repository(*made)
    few, many = (
        replace(
            found,
            basins=tuple(
                replace(one, minds=Minds(running=one.minds.running * times, unknown=0)) for one in found.basins
            ),
        )
        for times in (1, 100)
    )
    one, other = (
        [re.sub(r"\d+ minds?", "", line).split() for line in texts(board(each, look, repo="shop"))]
        for each in (few, many)
    )
    assert one == other


@given(SEEDS, TEXT)
@SLOW
def test_a_filter_lets_through_what_it_names_and_says_so(made: Made, words: str) -> None:
    found = repository(*made)
    for one in found.basins:
        assert one.id in order(found, filter=one.id)
        assert one.id in order(found, filter=f"phase:{one.phase.lower()}")
        assert one.id in order(found, filter=f"phase:{one.group}")
    some = order(found, filter=words)
    frame = board(found, Look(width=120, height=70), repo="shop", chosen=Chosen(filter=words))
    assert set(frame.rows.values()) <= set(some)
    assert len(set(frame.rows.values())) + hidden(frame) == len(some)


@given(SEEDS, SEEDS)
@SLOW
def test_sentences_hold_nothing_that_acts(made: Made, then: Made) -> None:
    found, other = repository(*made), repository(*then)
    text = plain(found)
    assert not unseen(text, allowed="\n")
    lines = text.splitlines()
    assert lines[0] == {0: lines[0], 1: "1 needs you."}.get(len(found.needs_you), f"{len(found.needs_you)} need you.")
    assert all(need.command in text for need in found.needs_you)
    assert not unseen(changes(found, other), allowed="\n")
    assert changes(found, found) == ""


@given(
    st.sampled_from(BEGINNINGS),
    st.integers(0, 50),
    st.sets(st.integers(0, 50), max_size=6),
    st.dictionaries(st.integers(0, 50), FACTS, max_size=8),
    PROBES,
    LOOKS,
)
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_any_ledger_can_be_watched(
    beginning: tuple[AnyFact, ...],
    upto: int,
    lost: set[int],
    more: dict[int, AnyFact],
    probes: Probes,
    look: Look,
) -> None:
    story = folded(beginning, upto, lost, more)
    found = project(story.state, probes=probes, now=story.now, recent=story.facts)
    name = selected(found, Chosen())
    compared = candidates(story.state, name) if name is not None else None
    lines = texts(board(found, look, repo="shop", compared=compared))
    assert len(lines) <= look.height
    assert all(cells(line) <= look.width for line in lines)
    assert not unseen("".join(lines))
    assert "".join(lines).isascii() or not look.ascii
    earlier = folded(beginning, upto // 2, lost, more)
    before = project(earlier.state, probes=probes, now=earlier.now, recent=earlier.facts)
    said = changes(before, found)
    assert not unseen(plain(found) + said, allowed="\n")
    assert all(line[8] == " " for line in said.splitlines()), "each begins with its time"


def test_thirty_goals_and_two_hundred_minds_fold_to_a_screen() -> None:
    found = crowd(SHOP, 30, minds=1)
    for width, height in ((80, 24), (120, 40), (200, 60), (40, 12)):
        frame = board(found, Look(width=width, height=height, keys=True), repo="shop")
        assert len(set(frame.rows.values())) + hidden(frame) == 30
        assert texts(frame)[-1].startswith(f" {KEYS[0][0]} ")
