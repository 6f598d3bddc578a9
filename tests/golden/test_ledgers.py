"""Ledgers of released versions, in `state/golden/`: every later one replays them to the same state, for ever.

A file there is never changed. ``ORCHCONVERGE_GOLDEN=write`` adds those that are missing, and their exports beside them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from orchconverge.core import upcast
from orchconverge.core.export import export
from orchconverge.core.replay import Replay
from tests import tellings
from tests.stories import Story

GOLDEN = Path(__file__).parents[2] / "state" / "golden"
VERSION = "0.1.0"
TOLD: dict[str, Callable[[], Story]] = {
    "converged": tellings.converged,
    "stalled": tellings.stalled,
    "limited": tellings.limited,
    "blocked": tellings.blocked,
    "at-the-lock": tellings.at_lock,
    "stopped": tellings.stopped,
}


def replayed(path: Path) -> str:
    """What a ledger adds up to: the export of each of its basins, as JSON."""
    odd: list[str] = []
    replay = Replay(lambda number, why: odd.append(f"{number}: {why}"))
    replay.feed(path.read_bytes())
    assert not odd, odd
    state = replay.fold.state
    return json.dumps([export(state, basin, seq=replay.seq) for basin in state.basins], indent=2) + "\n"


@pytest.fixture(scope="module", autouse=True)
def written() -> None:
    """Add what is missing, if that was asked for."""
    if os.environ.get("ORCHCONVERGE_GOLDEN") != "write":
        return
    for name, tell in TOLD.items():
        path = GOLDEN / f"{VERSION}-{name}.jsonl"
        if not path.exists():
            path.write_bytes(b"".join(upcast.encode(fact) for fact in tell().facts))
            path.with_suffix(".json").write_text(replayed(path), encoding="utf-8")


def test_there_is_a_golden_ledger_of_each_kind_of_end() -> None:
    assert {path.stem for path in GOLDEN.glob("*.jsonl")} >= {f"{VERSION}-{name}" for name in TOLD}


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.jsonl")), ids=lambda path: path.stem)
def test_a_golden_ledger_replays_to_what_it_was(path: Path) -> None:
    assert replayed(path) == path.with_suffix(".json").read_text(encoding="utf-8")
