"""How wide a wave is, which rung an escalation climbs, which approach a branch gets: pure, by example and by property."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from orchconverge.core.state import Basin, Past, Run
from orchconverge.core.strategy import (
    APPROACHES,
    STUBBORN,
    STUBBORN_APPROACHES,
    WIDTHS,
    approach,
    failures,
    following,
    place,
    rungs,
    stubborn,
    width,
)
from orchconverge.core.target import Budget, Criterion, Sha, Termination
from orchconverge.core.values import ControllerId, Limits, Place, Result, Usage
from tests.fakes.story import settings

NAMES = ("c1", "c2")
AT = datetime(2026, 11, 29, tzinfo=UTC)


def run(place: Place = "fresh", *, limits: Limits | None = None, **chosen: object) -> Run:
    controller = ControllerId(host="h", boot="b", pid=1, start=1)
    return Run(id="r", controller=controller, settings=settings(place, **chosen), limits=limits or Limits(), started=AT)


def past(
    number: int,
    *,
    met: tuple[str, ...] = (),
    result: Result = "no_progress",
    results: int = 1,
    approach: str = "",
    where: Place = "here",
    denied: bool = False,
) -> Past:
    return Past(
        number=number,
        strategy="continue",
        approach=approach,
        engine="sim",
        charged=True,
        result=result,
        decision="IN_PROGRESS",
        progress=0,
        criteria={name: name in met for name in NAMES},
        score=0,
        head=Sha("0" * 40),
        text="",
        started=AT,
        ended=AT,
        active_started=0.0,
        active_ended=0.0,
        usage=Usage(),
        results=results,
        place=where,
        denied=denied,
    )


def basin(*history: Past, branches: int | None = None, usd: float | None = None) -> Basin:
    return Basin(
        id="goal",
        title="goal",
        macrostate="x",
        goal="x",
        criteria=(*(Criterion(name=n, command=n) for n in NAMES), Criterion(name="changed", kind="changed")),
        termination=Termination(attempts=99),
        budget=Budget(),
        target="topic",
        branches=sum(p.results for p in history) if branches is None else branches,
        usage=Usage(usd=usd),
        history=history,
    )


def flat(count: int, *, results: int = 1) -> Basin:
    """So many attempts without progress, each of so many branches with a result."""
    return basin(*(past(n, results=results) for n in range(1, count + 1)))


def test_a_wave_is_as_wide_as_it_was_asked_for_until_it_stalls() -> None:
    for minds in (1, 2, 5, 20):
        assert [width(flat(n), run(minds=minds)) for n in range(3)] == [minds] * 3


def test_stalled_each_attempt_on_the_rung_is_one_step_wider_and_stays_so_above_it() -> None:
    here = run(engines=("sim", "other"), stallAfter=2)
    assert rungs(here) == ("wider", "next engine", "stop")
    found = [(following(flat(n, results=0), here).strategy, width(flat(n, results=0), here)) for n in range(6)]
    assert found == [
        ("continue", 1),
        ("continue", 1),
        ("wider", 2),
        ("wider", 3),
        ("next engine", 3),
        ("next engine", 3),
    ]
    assert following(flat(6, results=0), here).stop


def test_progress_makes_it_narrow_again() -> None:
    stalled = [past(n, results=0) for n in range(1, 4)]
    assert width(basin(*stalled), run()) == 2
    assert width(basin(*stalled, past(4, met=("c1",), result="partial_success")), run()) == 1


def test_where_it_stalls_it_is_at_least_as_wide_as_the_most_stubborn_criterion_asks_for() -> None:
    """1 + ceil(F / 4), rounded down to 1, 2, 3, 5, 8; three attempts of so many results each."""
    assert [width(flat(3, results=n), run()) for n in (0, 1, 2, 4, 5, 9, 99)] == [2, 2, 3, 3, 5, 8, 8]


@pytest.mark.parametrize(
    ("failed", "wide"), [(0, 1), (1, 2), (4, 2), (5, 3), (8, 3), (9, 3), (12, 3), (13, 5), (24, 5), (25, 8), (999, 8)]
)
def test_f4_follows_the_most_stubborn_criterion_without_a_stall(failed: int, wide: int) -> None:
    made = basin(past(1, met=("c1",), result="partial_success", results=failed))
    assert failures(made) == {"c1": 0, "c2": failed}
    assert width(made, run(widen="f4")) == wide
    assert width(made, run(widen="f4", minds=4)) == max(4, wide)
    assert width(made, run(widen="stall")) == 1


def test_a_width_that_is_named_is_kept_stalled_or_not() -> None:
    assert [width(flat(n), run(widen="4", minds=2)) for n in (0, 3, 9)] == [4, 4, 4]
    assert rungs(run(widen="4")) == ("stop",)


def test_in_place_it_gets_a_fresh_context_first_and_moves_to_worktrees_to_get_wider() -> None:
    here = run("here", stallAfter=2)
    assert rungs(here) == ("fresh context", "wider", "stop")
    climb = [flat(n, results=0) for n in range(6)]
    assert [(following(b, here).strategy, width(b, here), place(b, here)) for b in climb] == [
        ("continue", 1, "here"),
        ("continue", 1, "here"),
        ("fresh context", 1, "here"),
        ("fresh context", 1, "here"),
        ("wider", 2, "fresh"),
        ("wider", 3, "fresh"),
    ]
    assert following(flat(6, results=0), here).stop


def test_a_pursuit_that_moved_to_worktrees_stays_there_when_it_is_narrow_again_and_when_it_is_resumed() -> None:
    here = run("here", stallAfter=1)
    moved = basin(past(1), past(2), past(3, where="fresh", results=2), past(4, met=("c1",), result="partial_success"))
    assert (width(moved, here), place(moved, here)) == (1, "fresh")
    again = replace(here, first=5)
    assert (width(moved, again), place(moved, again)) == (1, "fresh")


@pytest.mark.parametrize(("left", "wide", "where"), [(None, 2, "fresh"), (7, 1, "here")])
def test_in_place_a_budget_for_one_mind_more_leaves_it_where_it_is(left: int | None, wide: int, where: Place) -> None:
    limits = Limits(minds=left)
    stalled = flat(6, results=0)
    found = replace(stalled, branches=6)
    assert following(found, run("here", limits=limits)).strategy == "wider"
    assert (width(found, run("here", limits=limits)), place(found, run("here", limits=limits))) == (wide, where)


@pytest.mark.parametrize(
    ("widen", "expected"),
    [
        ("stall", [(1, "here"), (1, "here"), (1, "here"), (1, "here"), (5, "fresh"), (5, "fresh")]),
        ("f4", [(1, "here"), (2, "fresh"), (3, "fresh"), (3, "fresh"), (5, "fresh"), (5, "fresh")]),
        ("3", [(3, "fresh")] * 6),
        ("1", [(1, "here")] * 6),
    ],
)
def test_in_place_widening_by_failures_or_to_a_number_moves_it_too(
    widen: str, expected: list[tuple[int, Place]]
) -> None:
    """Each attempt has four failures of its most stubborn criterion; a rung has two attempts."""
    here = run("here", widen=widen, stallAfter=2)
    found = [(width(b, here), place(b, here)) for b in (flat(n, results=n and 4) for n in range(6))]
    assert found == expected


def test_with_a_number_of_minds_there_is_no_context_to_leave() -> None:
    assert rungs(run("here", widen="3")) == ("stop",)
    assert rungs(run("here", widen="1")) == rungs(run("here", widen="f4")) == ("fresh context", "stop")


def test_a_denial_leaves_the_rung_at_once_in_place_too() -> None:
    here = run("here", stallAfter=3)
    denied = [past(n, results=0, denied=True) for n in (1, 2)]
    assert following(basin(*denied[:1]), here).strategy == "fresh context"
    assert [(following(b, here).strategy, width(b, here), place(b, here)) for b in (basin(*denied),)] == [
        ("wider", 2, "fresh")
    ]


# --- what only a person can lift -------------------------------------------------------------------------------------


def tried(count: int, ways: int, *, results: int = 1, met_at: int = 0) -> Basin:
    """Attempts by so many approaches in turn; c1 holds after all, c2 after the one of this number alone."""
    names = [f"way {n % ways}: do it so" for n in range(count)]
    held = [("c1", "c2") if n + 1 == met_at else ("c1",) for n in range(count)]
    return basin(*(past(n + 1, met=held[n], results=results, approach=names[n]) for n in range(count)))


def test_a_criterion_is_stubborn_that_failed_often_by_many_approaches() -> None:
    assert (STUBBORN, STUBBORN_APPROACHES) == (20, 6)
    assert stubborn(tried(20, 6), run()) == "c2 failed 20 times, by 6 approaches"
    assert stubborn(tried(19, 6), run()) == ""
    assert stubborn(tried(40, 5), run()) == ""
    assert stubborn(tried(40, 8, met_at=30), run()) == ""
    assert stubborn(tried(40, 8, results=0), run()) == ""


def test_a_wave_counts_each_of_its_approaches_once() -> None:
    wave = " / ".join(f"way {n}" for n in range(6))
    assert stubborn(basin(*(past(n, results=6, approach=wave) for n in range(1, 5))), run()).endswith("6 approaches")


def test_a_person_who_resumes_or_amends_starts_that_count_anew() -> None:
    found = tried(25, 6)
    assert stubborn(found, run())
    assert stubborn(found, replace(run(), first=10)) == ""
    assert stubborn(replace(found, amended=10), run()) == ""


def test_a_criterion_that_holds_is_stubborn_no_more_and_one_that_is_lost_counts_anew() -> None:
    history = [past(1, results=3), past(2, met=("c1",), results=2), past(3, results=2)]
    assert [failures(basin(*history[:n])) for n in (1, 2, 3)] == [
        {"c1": 3, "c2": 3},
        {"c1": 0, "c2": 5},
        {"c1": 2, "c2": 7},
    ]


@given(
    st.lists(st.integers(0, 8), max_size=12),
    st.integers(1, 9),
    st.sampled_from(("stall", "f4", "1", "6")),
    st.none() | st.integers(1, 40),
    st.none() | st.floats(0.01, 5.0),
    st.integers(1, 4),
)
def test_no_wave_is_wider_than_the_budget_and_none_is_empty(
    results: list[int], minds: int, widen: str, most: int | None, usd: float | None, stall: int
) -> None:
    history = [past(n, results=r) for n, r in enumerate(results, 1)]
    limits = Limits(minds=most, usd=usd)
    cost = 0.1 * sum(results) or None
    found = width(basin(*history, usd=cost), run(limits=limits, minds=minds, widen=widen, stallAfter=stall))
    assert found >= 1
    if most is not None:
        assert found <= max(1, most - sum(results))
    if usd is not None and cost is not None:
        assert found == 1 or cost + found * 0.1 <= usd + 1e-6
    if widen.isdigit():
        assert found <= int(widen)
    else:
        assert found <= max(minds, 8)


@given(st.integers(1, 5), st.integers(0, 30), st.sampled_from(("stall", "f4")))
def test_without_progress_it_never_gets_narrower_and_grows_in_known_steps(minds: int, count: int, widen: str) -> None:
    widths = [width(flat(n), run(minds=minds, widen=widen)) for n in range(count)]
    assert all(one <= other for one, other in pairwise(widths))
    assert set(widths) <= {minds, *WIDTHS}


def test_each_branch_has_the_next_approach_of_the_first_list_that_there_is() -> None:
    shipped = [approach(basin(), run(), n) for n in range(1, 10)]
    assert shipped == [*APPROACHES, APPROACHES[0]]
    assert [approach(basin(), run(approaches=("x", "y")), n) for n in (1, 2, 3)] == ["x", "y", "x"]
