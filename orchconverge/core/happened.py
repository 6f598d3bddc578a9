"""Says each fact in one line: what happened, and to which basin."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

from orchconverge.core import events as e
from orchconverge.core.measures import Shown
from orchconverge.core.values import Evidence
from orchconverge.core.views.text import clean, counted

CELLS: Final = 200


class Event(Shown, frozen=True, kw_only=True):
    """A fact as people are told it; ``seq`` is its line of the ledger."""

    seq: int
    at: datetime | None
    basin: str | None
    type: str
    what: str
    detail: str


def happened(fact: e.AnyFact) -> Event:
    """Tell one fact. Total: one that has no words of its own is told by its type."""
    kind = str(fact.__struct_config__.tag)
    words = _WORDS.get(type(fact))
    what, detail = words(fact) if words is not None else (kind.replace(".", " "), "")
    return Event(
        seq=fact.seq,
        at=fact.at,
        basin=getattr(fact, "basin", None),
        type=kind,
        what=clean(what, CELLS),
        detail=clean(detail, CELLS),
    )


def amends(fact: e.BasinAmended) -> bool:
    """Whether a part of the target is another one now; else what was made was accepted as it is."""
    return bool(fact.criteria or fact.termination or fact.budget or fact.stages is not None)


def _held(evidence: tuple[Evidence, ...]) -> str:
    answers = {x.criterion: x.met for x in evidence}  # at a start some are asked twice, here and in a fresh tree
    unmet = [name for name, met in answers.items() if met != "yes"]
    return f"{len(answers) - len(unmet)} of {len(answers)} met" + (f", {', '.join(unmet[:3])} not met" if unmet else "")


def _refused(fact: e.GraftRefused) -> str:
    return fact.why or ", ".join((*(f"conflict in {p}" for p in fact.conflicts), *(f"{c} lost" for c in fact.lost)))


_WORDS: Final[dict[type, Callable[[Any], tuple[str, str]]]] = {
    e.BasinDeclared: lambda f: ("declared", f.macrostate),
    e.BasinAmended: lambda f: ("amended" if amends(f) else "taken as it is", f.why),
    e.BasinChecked: lambda f: ("target checked", _held(f.results)),
    e.BasinOpened: lambda f: (f"wave {f.wave} opened", ""),
    e.BasinConverged: lambda f: ("converged", f.note),
    e.BasinKilled: lambda f: ("killed", f.reason),
    e.BasinHarvested: lambda f: ("harvested", f"{counted(len(f.residue), 'piece')} of residue"),
    e.BranchSpawned: lambda f: (f"{f.branch} spawned", f"{f.engine}, {f.approach}"),
    e.BranchSearching: lambda f: (f"{f.branch} searching", ""),
    e.BranchEnded: lambda f: (f"{f.branch} ended", f.reason if f.exit is None else f"{f.reason}, exit {f.exit}"),
    e.BranchCandidate: lambda f: (f"{f.branch} candidate", _held(f.evidence)),
    e.BranchFailed: lambda f: (f"{f.branch} is no candidate", f.reason),
    e.BranchGrafted: lambda f: (f"{f.branch} grafted", f"{f.mergeCommit:.8}, {f.decidedBy}"),
    e.ResidueGrafted: lambda f: (f"part of {f.branch} grafted", f.reason),
    e.GraftRefused: lambda f: (f"graft of {f.branch} refused", _refused(f)),
    e.ProposalMade: lambda f: ("proposal made", f"graft {f.graft}, {counted(len(f.parts), 'part')}"),
    e.BranchPruned: lambda f: (f"{f.branch} pruned", f.reason),
    e.BranchReconciled: lambda f: (f"{f.branch} reconciled to {f.to}", f.observed),
    e.FrontierAdded: lambda f: (f"question from {f.origin}", f.question),
    e.FrontierClosed: lambda f: (f"question answered: {f.question}", f.answer),
    e.AttemptStarted: lambda f: (f"attempt {f.attempt} started", f"engine {f.engine}, {f.why}"),
    e.AttemptEnded: lambda f: (f"attempt {f.attempt} ended", f"{f.result} ({f.text})" if f.text else f.result),
    e.SessionOpened: lambda f: ("session opened", f.tmux),
    e.SessionContext: lambda f: (f"new context of {f.engine}", f.why),
    e.SessionClosed: lambda f: ("session closed", f.reason),
    e.RunStarted: lambda f: ("run started", "takes over" if f.takesOver else ""),
    e.RunWaiting: lambda f: (f"waits for {f.reason}", f.text),
    e.RunWoke: lambda f: ("goes on", ""),
    e.RunStopRequested: lambda f: ("asked to stop", "with cleanup" if f.cleanup else ""),
    e.RunStopped: lambda f: (f"run over: {f.reason}", f.text),
    e.StepStarted: lambda f: (f"step {f.step} started", ""),
    e.StepEnded: lambda f: (f"step {f.step} {f.status}", f.detail),
    e.ReportWritten: lambda f: ("report written", ""),
    e.ConsentGiven: lambda f: ("consent given", f.where),
}
