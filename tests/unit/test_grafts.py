"""Over fakes: who lands when somebody else does, and the dollars and flags that each mind and each part comes with."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from orchconverge.app.grafts import Grafts
from orchconverge.app.trees import Trees
from orchconverge.cli.graft import _flagged
from orchconverge.core.events import BranchCandidate
from orchconverge.core.values import Limits, Part, Settings
from orchconverge.ports import Brief, Launch
from tests.fakes.git import MemoryGit
from tests.fakes.players import TARGET
from tests.fakes.rest import OutcomeEngine
from tests.fakes.simulation import BASIN, Simulation, simulate
from tests.fakes.story import WAVE_MINDS, plain, settings


def test_while_somebody_else_grafts_a_landing_is_put_off_and_waits_for_nobody(tmp_path: Path) -> None:
    made = Simulation(plain("fresh"))
    made.trees = tmp_path
    made._declare()
    world = made.world()
    world.ledger.catch_up()
    basin = world.ledger.state.basins[BASIN]
    grafts = Grafts(world, Trees(world, BASIN))
    new = world.git.commit_tree(world.git.tree_of(made.base), parent=made.base, message="a graft")
    made.board.held.add(f"graft/{TARGET}")
    assert not grafts.land(basin, tip=made.base, head=new)
    assert (grafts.busy, grafts.obstacle) == (True, "")
    assert made.pursuits[0].leases.waits == [(f"graft/{TARGET}", 0.0)]
    assert made.store.refs[f"refs/heads/{TARGET}"] == made.base
    made.board.held.clear()
    assert grafts.land(basin, tip=made.base, head=new)
    assert (grafts.busy, grafts.obstacle) == (False, "")
    assert made.store.refs[f"refs/heads/{TARGET}"] == new


def test_each_mind_may_spend_its_share_of_what_the_run_has_left(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[float | None] = []
    launch = OutcomeEngine.launch

    def noted(engine: OutcomeEngine, brief: Brief, settings: Settings) -> Launch:
        given.append(brief.usd)
        return launch(engine, brief, settings)

    monkeypatch.setattr(OutcomeEngine, "launch", noted)
    waves = settings("fresh", minds=3, widen="3", interval=0.0)
    simulate(plain("fresh", minds=("none",) * 6, settings=waves, limits=Limits(attempts=2, usd=0.93)))
    assert given == [pytest.approx(0.31)] * 3 + [pytest.approx(0.30)] * 3


def test_a_part_has_the_flags_of_its_own_files_also_of_a_branch_that_was_no_candidate() -> None:
    done = simulate(plain("fresh", minds=("flagged",), repertoire=WAVE_MINDS, limits=Limits(attempts=1)))
    [candidate] = done.facts(BranchCandidate)
    branch, git = done.reader.state.branches[candidate.branch], MemoryGit(done.store, done.trees)
    [flag] = candidate.flags
    path = flag.partition(": ")[2]
    for each in (branch, replace(branch, flags=())):
        assert _flagged(git, done.basin, each, Part(branch=branch.id, paths=(path,))) == [flag]
        assert _flagged(git, done.basin, each, Part(branch=branch.id, paths=("c1.txt",))) == []
