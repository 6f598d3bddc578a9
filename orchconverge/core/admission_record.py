"""Makes the flat record of an admission that the ledger, the status and the report hold, and reads the standing back from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import structs

from orchconverge.core.admission import Admission
from orchconverge.core.fingerprints import fingerprint
from orchconverge.core.frontiers import KEPT, Goal, Standing
from orchconverge.core.work_record import ERROR, Record

NextAction = Literal[
    "read_declared_inputs", "write_declared_output", "write_goal_relevant_file", "make_check_pass_or_report", "none"
]


def record(admission: Admission, goal: Goal) -> dict[str, Any]:
    """The flat record of an admission: all keys of `Record`, always, at most `KEPT` fingerprints under each."""
    held = admission.standing
    found = Record(
        work_convergence_frontier=admission.frontier,
        work_convergence_cause=admission.cause,
        work_convergence_state=admission.state,
        work_convergence_action=admission.action,
        work_convergence_error=ERROR if held.denied else None,
        work_convergence_overruled=admission.overruled or None,
        work_convergence_failed_checks=held.failed,
        work_convergence_uncounted=held.uncounted,
        work_convergence_targets=held.targets,
        work_convergence_rereads=held.rereads,
        work_convergence_runs=held.runs,
        work_convergence_refusals=held.refusals,
        work_convergence_compactions=held.compactions,
        work_convergence_mutations=held.mutations,
        work_convergence_strays=held.strays,
        work_convergence_constrained=held.constrained,
        work_convergence_target_fingerprints=held.seen,
        work_convergence_state_fingerprints=held.states,
        authoring_declared_input_fingerprints=tuple(sorted(fingerprint("path", path) for path in goal.inputs))[:KEPT],
        authoring_declared_output_fingerprint=fingerprint("path", goal.output) if goal.output else None,
        authoring_observed_input_fingerprints=held.inputs,
        authoring_next_action=_next(admission, goal),
    )
    # lists, as it will be read back
    return {key: list(value) if isinstance(value, tuple) else value for key, value in structs.asdict(found).items()}


def resumed(recorded: Mapping[str, Any]) -> Standing:
    """The standing that a record was made of; of anything else, the beginning."""
    try:
        found = msgspec.convert(dict(recorded), Record)
    except msgspec.ValidationError:
        return Standing()
    return Standing(
        seen=found.work_convergence_target_fingerprints,
        targets=found.work_convergence_targets,
        rereads=found.work_convergence_rereads,
        runs=found.work_convergence_runs,
        inputs=found.authoring_observed_input_fingerprints,
        refusals=found.work_convergence_refusals,
        compactions=found.work_convergence_compactions,
        mutations=found.work_convergence_mutations,
        strays=found.work_convergence_strays,
        states=found.work_convergence_state_fingerprints,
        failed=found.work_convergence_failed_checks,
        constrained=found.work_convergence_constrained,
        denied=found.work_convergence_error is not None,
        satisfied=found.work_convergence_state == "satisfied",
    )


def _next(admission: Admission, goal: Goal) -> NextAction:
    """The label of what would close the frontier."""
    if admission.state != "pending" or admission.overruled:
        return "none"
    if admission.frontier == "verifier_recovery":
        return "make_check_pass_or_report"
    if goal.stage is None:
        return "write_goal_relevant_file"
    marks = {fingerprint("path", path) for path in goal.inputs}
    return "write_declared_output" if marks <= set(admission.standing.inputs) else "read_declared_inputs"
