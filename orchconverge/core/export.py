"""The seed's `convergence_state.json`, from the fold alone: the same fold gives the same document, whoever writes it."""

from __future__ import annotations

from typing import Any

from orchconverge.core.measures import active_seconds, limits, results
from orchconverge.core.standing import phase
from orchconverge.core.state import Basin, Past, State
from orchconverge.core.views.text import iso

FLAT = ("work_convergence_", "authoring_")
"""How the keys of the newest record of work convergence begin, which stand flat in the document once there is one."""


def export(state: State, basin_id: str, *, seq: int) -> dict[str, Any]:
    """The document of one basin after line ``seq``. Raises `KeyError` for a basin that is not declared.

    ``status`` is the phase by the record; ``elapsed_hours`` is active time as the newest line of its controller has it.
    """
    basin = state.basins[basin_id]
    most = limits(basin)
    found = results(basin)
    converging = {key: value for key, value in basin.convergence.items() if key.startswith(FLAT)}
    return {
        "goal": basin.goal,
        "start_time": iso(basin.declared),
        "current_attempt": basin.charged,
        "max_attempts": most.attempts,
        "elapsed_hours": round(active_seconds(basin) / 3600, 4),
        "max_hours": most.hours,
        "last_result": basin.history[-1].result if basin.history else None,
        "success_criteria": {c.name: c.name in found and found[c.name].met == "yes" for c in basin.criteria},
        "convergence_log": [_logged(past) for past in basin.history],
        "tmux_session": _tmux(state, basin),
        "status": phase(state, basin, lease=True),
        "basin": basin.id,
        "seq": seq,
        **converging,
    }


def _logged(past: Past) -> dict[str, Any]:
    logged = {
        "attempt": past.number,
        "timestamp": iso(past.started),
        "result": past.result,
        "progress": past.progress,
        "decision": past.decision,
        "text": past.text,
        "strategy": past.strategy,
        "approach": past.approach,
        "engine": past.engine,
        "charged": past.charged,
    }
    return logged | {key: value for key, value in past.convergence.items() if key not in logged}


def _tmux(state: State, basin: Basin) -> str | None:
    if basin.run is not None:
        return basin.run.controller.tmux or None
    session = state.sessions.get(basin.session or "")
    return session.tmux or None if session is not None else None
