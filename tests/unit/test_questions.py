"""A question that a mind leaves keeps what waits for its answer, all the way to the ledger and to a person."""

from __future__ import annotations

from orchconverge.core.events import FrontierAdded
from orchconverge.core.values import Limits
from tests.fakes.simulation import simulate
from tests.fakes.story import plain


def test_what_a_question_blocks_is_on_the_ledger() -> None:
    done = simulate(plain("fresh", minds=("question", "gain"), limits=Limits(attempts=2)))
    added = done.facts(FrontierAdded)
    assert [(fact.question, fact.blocks) for fact in added] == [("is it meant so?", "c1")]
    assert done.reader.state.frontier["is it meant so?"].blocks == "c1"
