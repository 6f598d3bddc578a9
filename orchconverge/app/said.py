"""What the controller says of its facts: one line for its pane, figures for `logs/performance.log`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orchconverge.app.checks import Checks
from orchconverge.app.steps import DEADLINE
from orchconverge.app.trees import SETUP_DEADLINE
from orchconverge.app.world import World
from orchconverge.core.events import AnyFact, AttemptEnded, BasinChecked
from orchconverge.core.state import Basin, State
from orchconverge.ports import Runs


def measured(world: World, fact: AttemptEnded | BasinChecked) -> Mapping[str, Any]:
    """Timings and use of resources at the end of an attempt or of a check of the target, in seconds and bytes."""
    checks = {x.criterion: x.seconds for x in (fact.evidence if isinstance(fact, AttemptEnded) else fact.results)}
    machine = world.host.look()
    figures = {"basin": fact.basin, "seq": fact.seq, "active": fact.active, "check_seconds": checks}
    if isinstance(fact, AttemptEnded):
        minds = [b for b in world.ledger.state.branches_of(fact.basin) if b.attempt == fact.attempt]
        figures |= {"attempt": fact.attempt, "mind_seconds": [b.seconds for b in minds]}
    return {**figures, "memory_free": machine.memory_free, "disk_free": machine.disk_free}


def told(fact: AnyFact) -> str:
    """A fact in one line for the controller's pane: its type, its branch or number, and what decided."""
    kind = str(fact.__struct_config__.tag)
    words = [
        str(getattr(fact, name))
        for name in ("branch", "attempt", "step", "status", "result", "decision", "reason", "text", "detail")
        if getattr(fact, name, None) not in (None, "")
    ]
    return " ".join([kind, *words])


def under_way(world: World, basin: Basin, checks: Checks) -> list[Runs]:
    """What runs for a basin now: its minds, the criteria that are asked, a step of its final chain."""
    found = [*searching(world.ledger.state, basin), *asking(basin, checks)]
    if basin.chain.running is not None:
        found.append(Runs(f"step {basin.chain.running}", deadline_seconds=DEADLINE))
    return found


def searching(state: State, basin: Basin) -> list[Runs]:
    """The minds of the running attempt that may run."""
    attempt = basin.attempt
    if attempt is None:
        return []
    minds = [mind for name in attempt.branches if (mind := state.branches[name]).may_run]
    return [
        Runs(f"mind {mind.id} ({mind.engine})", since=mind.spawned_at, deadline_seconds=attempt.deadline)
        for mind in minds
    ]


def asking(basin: Basin, checks: Checks) -> list[Runs]:
    """The criteria that are asked now, and the setups of trees that they await."""
    deadlines = {criterion.name: criterion.deadline for criterion in basin.criteria}
    found = []
    for key, (name, _) in checks.awaited.items():
        setup = name.partition("/")[0].endswith("setups")
        what = f"setup for {key.criterion}" if setup else f"criterion {key.criterion}"
        found.append(Runs(what, deadline_seconds=SETUP_DEADLINE if setup else deadlines.get(key.criterion)))
    return found
