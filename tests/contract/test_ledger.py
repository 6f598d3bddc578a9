"""What every ledger does, the file and the fake."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from orchconverge.adapters.ledger import FileLedger
from orchconverge.core.events import AnyFact, BasinKilled, FrontierAdded, FrontierClosed
from orchconverge.errors import Illegal
from orchconverge.ports import Ledger
from tests.fakes.ledger import MemoryLedger, Shelf

START = datetime(2026, 11, 29, 14, 0, 0, 123456, tzinfo=UTC)


class Ticking:
    """A clock that moves on by a second each time it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    def now(self) -> datetime:
        self.asked += 1
        return START + timedelta(seconds=self.asked - 1)

    def monotonic(self) -> float:
        return float(self.asked)


Open = Callable[[], Ledger]


@pytest.fixture(params=["file", "memory"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    """Opens one ledger, again and again: each is another process."""
    clock = Ticking()
    if request.param == "memory":
        shelf = Shelf()
        yield lambda: MemoryLedger(clock, shelf)
        return
    ledgers: list[FileLedger] = []

    def open_file() -> FileLedger:
        ledgers.append(FileLedger(tmp_path / "state", clock))
        return ledgers[-1]

    yield open_file
    for ledger in ledgers:
        ledger.close()


@pytest.fixture
def ledger(opened: Open) -> Ledger:
    return opened()


def asks(question: str) -> AnyFact:
    return FrontierAdded(question=question, origin="person")


def answers(question: str) -> AnyFact:
    return FrontierClosed(question=question, answer="yes")


def test_a_new_ledger_is_empty(ledger: Ledger) -> None:
    assert ledger.catch_up() == ()
    assert not ledger.state.frontier
    assert ledger.health.lines == 0
    assert not ledger.health.torn


def test_an_appended_fact_comes_back_with_its_envelope(ledger: Ledger) -> None:
    fact = ledger.append(asks("why"), writer="controller", active=12.5)
    assert (fact.v, fact.seq, fact.at, fact.writer, fact.active) == (1, 1, START, "controller", 12.5)
    assert ledger.append(asks("how"), writer="cli").seq == 2


def test_what_was_appended_is_in_the_state(ledger: Ledger) -> None:
    ledger.append(asks("why"), writer="cli")
    assert list(ledger.state.frontier) == ["why"]
    ledger.append(answers("why"), writer="cli")
    assert list(ledger.state.frontier) == []


def test_another_process_reads_the_same_facts(opened: Open) -> None:
    one, two = opened(), opened()
    written = (one.append(asks("why"), writer="cli"), one.append(answers("why"), writer="recovery"))
    assert two.catch_up() == written
    assert two.catch_up() == ()


def test_the_state_of_an_unused_ledger_is_what_is_in_it(opened: Open) -> None:
    opened().append(asks("why"), writer="cli")
    reader = opened()
    assert list(reader.state.frontier) == ["why"]
    assert reader.health.lines == 1
    assert reader.catch_up() == ()


def test_an_illegal_fact_is_not_written_and_changes_nothing(opened: Open) -> None:
    ledger = opened()
    ledger.append(asks("why"), writer="cli")
    with pytest.raises(Illegal):
        ledger.append(answers("how"), writer="cli")
    assert list(ledger.state.frontier) == ["why"]
    assert len(opened().catch_up()) == 1
    assert ledger.append(answers("why"), writer="cli").seq == 2


@pytest.mark.parametrize(
    "fact",
    [
        FrontierAdded(question="   ", origin="person"),
        FrontierAdded(question="lone \ud800 surrogate", origin="person"),
        FrontierAdded(question="why", origin="person", basin="Not A Basin"),
        BasinKilled(basin="auth", reason=7),  # type: ignore[arg-type]
    ],
)
def test_a_fact_that_could_not_be_read_again_is_not_written(opened: Open, fact: AnyFact) -> None:
    ledger = opened()
    with pytest.raises(Illegal):
        ledger.append(fact, writer="cli")
    assert not ledger.state.frontier
    assert opened().health.lines == 0
    assert ledger.append(asks("why"), writer="cli").seq == 1


def test_legality_is_judged_on_what_others_wrote(opened: Open) -> None:
    one, two = opened(), opened()
    assert not one.state.frontier
    two.append(asks("why"), writer="cli")
    assert one.append(answers("why"), writer="controller").seq == 2
    with pytest.raises(Illegal):
        two.append(answers("why"), writer="cli")


def test_what_others_wrote_before_an_append_is_handed_out_by_the_next_catch_up(opened: Open) -> None:
    one, two = opened(), opened()
    assert one.catch_up() == ()
    theirs = two.append(asks("theirs"), writer="cli")
    one.append(asks("ours"), writer="controller")
    assert one.catch_up() == (theirs,)
    assert one.catch_up() == ()


def test_a_state_once_taken_moves_on(opened: Open) -> None:
    one, two = opened(), opened()
    state = one.state
    two.append(asks("why"), writer="cli")
    assert not state.frontier
    one.catch_up()
    assert list(state.frontier) == ["why"]


def test_an_append_that_failed_is_not_in_the_state_and_the_next_one_works() -> None:
    ledger = MemoryLedger(Ticking())
    ledger.append(asks("why"), writer="cli")
    ledger.fail_next(2, OSError("full"))
    for _ in range(2):
        with pytest.raises(OSError, match="full"):
            ledger.append(asks("how"), writer="cli")
        assert list(ledger.state.frontier) == ["why"]
    assert ledger.append(asks("how"), writer="cli").seq == 2
    assert ledger.catch_up() == ()
