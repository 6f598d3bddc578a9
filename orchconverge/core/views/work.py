"""Work convergence in plain English: what was decided of going on, why, and what closes the frontier. Labels stay in JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec

from orchconverge.core.views.text import clean, counted
from orchconverge.core.work_record import Labels, Told

NAMED: Final = 3
"""How many failing checks are named."""
MOST: Final = 64
"""Fingerprints or names of one kind."""
LABEL: Final = 80
"""Cells of one label."""
_ACTIONS: Final = {
    "allow_next_turn": "goes on",
    "constrain_next_turn": "constrained",
    "deny_ordinary_continuation": "denied to go on as it did",
    "finalize_without_provider_turn": "finished without another turn",
}
_CAUSES: Final = {
    "failed_check": "recovering from a failed check",
    "rereads": "recovering since it read the same things again",
    "unknown_class": "recovering since it cannot be told what kind of work is left",
    "not_credible": "recovering since it did not do what its stage declares",
    "declared_stage": "authoring what its stage declares",
    "expected_artifact": "authoring what the goal expects",
}
_STATES: Final = {
    "pending": "not closed yet",
    "satisfied": "closed",
    "unsatisfied": "did not close",
    "failed": "did not close, and a check is red",
}
_GATES: Final = {
    "operator_stop": "a person's stop came first",
    "approval_gate": "a person is asked first",
    "sandbox": "it is not allowed here",
}
_HOW: Final = {
    "hooks": "asked before each call",
    "acp": "asked before each call, over ACP",
    "pane": "read off its pane",
    "between": "asked between attempts alone",
    "lost": "calls stopped asking",
}
_UNCOUNTED: Final = {"no_op": "no-op", "whitespace": "white space alone", "unobserved": "not observed"}

L = TypeVar("L", bound=Labels)


def read(recorded: Mapping[str, Any], kind: type[L]) -> L:
    """A record of the ledger as ``kind`` has it, its texts harmless and bounded; of one that is not as it should be, nothing."""
    try:
        return msgspec.convert({key: _bounded(value) for key, value in recorded.items()}, kind)
    except msgspec.ValidationError:
        return kind()


def _bounded(value: Any) -> Any:  # noqa: ANN401 - whatever a record holds, as JSON has it
    if isinstance(value, str):
        return clean(value, LABEL)
    return [_bounded(item) for item in value[:MOST]] if isinstance(value, list | tuple) else value


def plain(told: Told) -> bool:
    """Whether there is nothing to say: it simply goes on or has closed, no call was refused, and none stopped asking."""
    went = told.work_convergence_action in (None, "allow_next_turn") or told.work_convergence_state == "satisfied"
    return went and told.work_convergence_overruled is None and not told.refused and told.admission != "lost"


def asked(told: Told) -> str:
    """How the calls of its minds met admission: ``asked before each call: 12 asked, 2 refused``; empty if nothing is known."""
    if told.admission is None:
        return ""
    counts = [f"{told.asked} asked"] if told.asked else []
    counts += [f"{told.refused} refused"] if told.refused else []
    counts += [f"{told.unasked} made without asking"] if told.unasked else []
    return _HOW.get(told.admission, told.admission) + (f": {', '.join(counts)}" if counts else "")


def sentence(labels: Labels) -> str:
    """What was decided, of which frontier, and what closes it: one line."""
    action, cause = labels.work_convergence_action or "", labels.work_convergence_cause or ""
    state = labels.work_convergence_state or ""
    said = f"{_ACTIONS.get(action, action)}: {_CAUSES.get(cause, cause)}, {_STATES.get(state, state)}"
    if labels.work_convergence_overruled is not None:
        return f"{said}; {_GATES.get(labels.work_convergence_overruled, labels.work_convergence_overruled)}"
    return said if state == "satisfied" else f"{said}; what closes it: {closes(labels)}"


def closes(labels: Labels) -> str:
    """What closes the frontier."""
    if "rejected" in labels.work_convergence_uncounted:
        return "what is allowed here, or an honest verdict"
    failed = labels.work_convergence_failed_checks
    if failed:
        more = " and more" if len(failed) > NAMED else ""
        return f"a change that makes {', '.join(failed[:NAMED])}{more} pass, or an honest verdict"
    if labels.work_convergence_cause == "declared_stage":
        reading = labels.authoring_next_action == "read_declared_inputs"
        return f"{'reading the declared inputs, then ' if reading else ''}writing the declared output"
    return "a change of a file that the goal is about, or an honest verdict"


def motion(labels: Labels) -> str:
    """What was seen instead of closing: ``9 new things looked at, 4 known ones again; changes that did not count: no-op``."""
    parts = [f"{counted(labels.work_convergence_targets, 'new thing')} looked at"]
    parts += [f"{labels.work_convergence_rereads} known ones again"] if labels.work_convergence_rereads else []
    parts += [counted(labels.work_convergence_runs, "other command")] if labels.work_convergence_runs else []
    parts += [counted(labels.work_convergence_refusals, "refusal")] if labels.work_convergence_refusals else []
    said = ", ".join(parts)
    uncounted = [_UNCOUNTED.get(why, why) for why in labels.work_convergence_uncounted]
    return f"{said}; changes that did not count: {', '.join(uncounted)}" if uncounted else said
