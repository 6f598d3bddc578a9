"""What the controller says of its facts: one line for its pane, figures for `logs/performance.log`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orchconverge.app.world import World
from orchconverge.core.events import AnyFact, AttemptEnded, BasinChecked


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
