"""The flat record of work convergence, as the ledger, the status, the report and the trace hold it: labels and fingerprints.

`orchconverge.core.admission_record` makes it of an admission. This module alone is light enough for ``--status``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

SOURCE: Final = "work_convergence"
ERROR: Final = "work_convergence_unsatisfied"


class Labels(Struct, frozen=True, kw_only=True):
    """What was decided and why, in labels and counts."""

    work_convergence_frontier: str | None = None
    work_convergence_cause: str | None = None
    work_convergence_state: str | None = None
    work_convergence_action: str | None = None
    work_convergence_source: str = SOURCE
    work_convergence_error: str | None = None
    work_convergence_overruled: str | None = None
    work_convergence_failed_checks: tuple[str, ...] = ()
    work_convergence_uncounted: tuple[str, ...] = ()
    work_convergence_targets: int = 0
    work_convergence_rereads: int = 0
    work_convergence_runs: int = 0
    work_convergence_refusals: int = 0
    work_convergence_compactions: int = 0
    work_convergence_mutations: int = 0
    work_convergence_strays: int = 0
    work_convergence_constrained: bool = False
    authoring_next_action: str = "none"


class Record(Labels, frozen=True, kw_only=True):
    """The whole record: bounded, fingerprints instead of paths."""

    work_convergence_target_fingerprints: tuple[str, ...] = ()
    work_convergence_state_fingerprints: tuple[str, ...] = ()
    authoring_declared_input_fingerprints: tuple[str, ...] = ()
    authoring_declared_output_fingerprint: str | None = None
    authoring_observed_input_fingerprints: tuple[str, ...] = ()


class Told(Labels, frozen=True, kw_only=True):
    """What is kept of every attempt: the labels, and how the calls of its minds met admission (`values.Calls`, all together)."""

    admission: str | None = None
    asked: int = 0
    refused: int = 0
    unasked: int = 0


def without_fingerprints(recorded: Mapping[str, Any]) -> dict[str, Any]:
    """A record without its fingerprints, which only the newest one is asked for."""
    return {key: value for key, value in recorded.items() if not key.endswith(("_fingerprint", "_fingerprints"))}
