"""Every fact that the ledger can hold: past tense, frozen, explicit type string, the seed's field names.

A fact carries its envelope (`Fact`), filled in as it is appended: a line is decoded at once, and says where it stands.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import Meta, field

from orchconverge.core import values
from orchconverge.core.target import BasinId, BranchId, Budget, Criterion, NonBlank, Sha, Stage, Termination
from orchconverge.core.values import Fact


class BasinDeclared(Fact, frozen=True, kw_only=True, tag="basin.declared"):
    """A target was written down."""

    basin: BasinId
    title: NonBlank
    macrostate: NonBlank
    goal: NonBlank
    criteria: tuple[Criterion, ...]
    termination: Termination
    target: NonBlank
    budget: Budget = Budget()
    approaches: tuple[str, ...] = ()
    lock: Literal["auto", "person"] = "auto"
    mayChange: tuple[str, ...] = ()
    parents: tuple[BasinId, ...] = ()
    stages: tuple[Stage, ...] = ()


class BasinAmended(Fact, frozen=True, kw_only=True, tag="basin.amended"):
    """A person changed the target; ``why`` is kept."""

    basin: BasinId
    why: NonBlank
    criteria: tuple[Criterion, ...] | None = None
    termination: Termination | None = None
    budget: Budget | None = None
    stages: tuple[Stage, ...] | None = None


class BasinChecked(Fact, frozen=True, kw_only=True, tag="basin.checked"):
    """The criteria were run by us on the target's tip."""

    basin: BasinId
    head: Sha
    tree: Sha
    results: tuple[values.Evidence, ...]


class BasinOpened(Fact, frozen=True, kw_only=True, tag="basin.opened"):
    """A wave of branches begins; ``wave`` is the attempt's ordinal."""

    basin: BasinId
    wave: int


class BasinConverged(Fact, frozen=True, kw_only=True, tag="basin.converged"):
    """All required criteria hold on the target; ``note`` says what could not be run here."""

    basin: BasinId
    note: str = ""


class BasinKilled(Fact, frozen=True, kw_only=True, tag="basin.killed"):
    """The pursuit was given up, with the reason."""

    basin: BasinId
    reason: NonBlank


class BasinHarvested(Fact, frozen=True, kw_only=True, tag="basin.harvested"):
    """What the pursuit leaves behind: residue and open questions."""

    basin: BasinId
    residue: Annotated[tuple[values.Residue, ...], Meta(min_length=1)]
    decidedBy: NonBlank
    frontier: tuple[str, ...] = ()


class BranchSpawned(Fact, frozen=True, kw_only=True, tag="branch.spawned"):
    """Intent: one mind is to attempt the target on ``gitBranch``, from ``base``."""

    basin: BasinId
    branch: BranchId
    approach: str
    gitBranch: NonBlank
    worktree: str
    base: Sha
    engine: NonBlank
    place: values.Place
    model: str = ""
    reserve: float | None = None
    retries: BranchId | None = None


class BranchSearching(Fact, frozen=True, kw_only=True, tag="branch.searching"):
    """The mind runs, under this supervisor."""

    basin: BasinId
    branch: BranchId
    session: str
    process: values.Process
    pane: str = ""


class BranchEnded(Fact, frozen=True, kw_only=True, tag="branch.ended"):
    """The mind is gone. ``seconds`` is its own run time, ``head`` where its git branch stands."""

    basin: BasinId
    branch: BranchId
    reason: values.EndReason
    seconds: float
    head: Sha
    exit: int | None = None
    signal: int | None = None
    usage: values.Usage | None = None
    limit: values.Limit | None = None
    calls: values.Calls = values.Calls()
    context: Literal["shown", "lost"] | None = None
    signedOut: bool = False
    error: str = ""


class BranchCandidate(Fact, frozen=True, kw_only=True, tag="branch.candidate"):
    """Its commits exist and its criteria were run by us. ``admitted``: in place, already on the target."""

    basin: BasinId
    branch: BranchId
    head: Sha
    summary: str
    evidence: tuple[values.Evidence, ...]
    commits: Annotated[int, Meta(ge=1)]
    usage: values.Usage = values.Usage()
    admitted: bool = False
    flags: tuple[str, ...] = ()
    residue: tuple[values.Residue, ...] = ()


class BranchFailed(Fact, frozen=True, kw_only=True, tag="branch.failed"):
    """Nothing of this branch can be admitted, and why."""

    basin: BasinId
    branch: BranchId
    reason: NonBlank
    verdict: values.Verdict | None = None
    usage: values.Usage | None = None
    residue: tuple[values.Residue, ...] = ()


class BranchGrafted(Fact, frozen=True, kw_only=True, tag="branch.grafted"):
    """A candidate was admitted: ``mergeCommit`` is the squash commit, gated on exactly ``tree``."""

    basin: BasinId
    branch: BranchId
    mergeCommit: Sha
    tree: Sha
    evidence: tuple[values.Evidence, ...]
    decidedBy: NonBlank


class ResidueGrafted(Fact, frozen=True, kw_only=True, tag="residue.grafted"):
    """A part of a branch that was not admitted whole was taken."""

    basin: BasinId
    branch: BranchId
    paths: tuple[str, ...]
    mergeCommit: Sha
    reason: NonBlank
    evidence: tuple[values.Evidence, ...]
    decidedBy: NonBlank
    criterion: str | None = None


class GraftRefused(Fact, frozen=True, kw_only=True, tag="graft.refused"):
    """The gate said no; the target is as it was. ``lost`` are criteria; ``paths`` or ``commits`` are those of a part."""

    basin: BasinId
    branch: BranchId
    tip: Sha
    conflicts: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    evidence: tuple[values.Evidence, ...] = ()
    paths: tuple[str, ...] = ()
    commits: tuple[Sha, ...] = ()
    criterion: str | None = None
    why: str = ""


class ProposalMade(Fact, frozen=True, kw_only=True, tag="proposal.made"):
    """What could be admitted of a wave, built on ``tip`` and gated: ``parts`` in order, the branch ``graft`` first, if any."""

    basin: BasinId
    tip: Sha
    graft: str
    parts: tuple[values.Taken, ...]
    refused: tuple[values.TurnedDown, ...]
    head: Sha
    tree: Sha
    evidence: tuple[values.Evidence, ...]


class BranchPruned(Fact, frozen=True, kw_only=True, tag="branch.pruned"):
    """A candidate was turned down; ``reason`` is what the next mind will be told."""

    basin: BasinId
    branch: BranchId
    reason: NonBlank
    decidedBy: NonBlank
    residue: tuple[values.Residue, ...] = ()


class BranchReconciled(Fact, frozen=True, kw_only=True, tag="branch.reconciled", rename={"was": "from"}):
    """Recovery saw something else than the record says. The key ``from`` is the record, ``to`` what was seen."""

    basin: BasinId
    branch: BranchId
    to: str
    observed: NonBlank
    was: str = ""
    mergeCommit: Sha | None = None


class FrontierAdded(Fact, frozen=True, kw_only=True, tag="frontier.added", rename={"origin": "from"}):
    """An open question; ``origin`` is `<basin>.<n>` or ``person``."""

    question: NonBlank
    origin: str
    basin: BasinId | None = None
    blocks: str | None = None


class FrontierClosed(Fact, frozen=True, kw_only=True, tag="frontier.closed"):
    """An open question has its answer."""

    question: NonBlank
    answer: NonBlank


class AttemptStarted(Fact, frozen=True, kw_only=True, tag="attempt.started"):
    """One turn of the loop begins. ``deadline`` is in seconds for each of its minds."""

    basin: BasinId
    attempt: Annotated[int, Meta(ge=1)]
    strategy: str
    why: str
    engine: str
    width: int = 1
    deadline: float = 3600.0
    retries: BranchId | None = None


class AttemptEnded(Fact, frozen=True, kw_only=True, tag="attempt.ended"):
    """One turn of the loop is over and judged on the target's tip. ``criteria`` is name -> met.

    ``passes``: what blocks it can pass by itself, so that it is worth another try after a while.
    """

    basin: BasinId
    attempt: int
    charged: bool
    result: values.Result
    head: Sha
    criteria: dict[str, bool]
    progress: int
    decision: values.Decision
    evidence: tuple[values.Evidence, ...] = ()
    usage: values.Usage = values.Usage()
    workConvergence: dict[str, Any] = field(default_factory=dict)
    text: str = ""
    passes: bool = False


class SessionOpened(Fact, frozen=True, kw_only=True, tag="session.opened"):
    """The long-lived pursuit of one goal begins, or goes on after it was closed."""

    session: NonBlank
    basin: BasinId
    tmux: str = ""
    parents: tuple[str, ...] = ()


class SessionContext(Fact, frozen=True, kw_only=True, tag="session.context"):
    """An engine's own context was chosen for the next mind; appended before it is used."""

    session: NonBlank
    engine: str
    engineSession: str
    why: str


class SessionClosed(Fact, frozen=True, kw_only=True, tag="session.closed"):
    """The pursuit is over."""

    session: NonBlank
    basin: BasinId
    reason: Literal["met", "abandoned", "lost"]


class RunStarted(Fact, frozen=True, kw_only=True, tag="run.started"):
    """A controller drives the basin. ``takesOver``: the run whose controller is gone, with its ``fingerprint`` of git."""

    basin: BasinId
    run: NonBlank
    controller: values.ControllerId
    settings: values.Settings
    limits: values.Limits
    takesOver: str | None = None
    fingerprint: str = ""


class RunWaiting(Fact, frozen=True, kw_only=True, tag="run.waiting", rename={"reason": "for"}):
    """The run stands still, and for what. The key ``for`` of the line is ``reason`` here."""

    basin: BasinId
    reason: values.WaitFor
    text: str
    engine: str | None = None
    until: Annotated[datetime, Meta(tz=True)] | None = None


class RunWoke(Fact, frozen=True, kw_only=True, tag="run.woke"):
    """What the run waited for is over."""

    basin: BasinId


class RunStopRequested(Fact, frozen=True, kw_only=True, tag="run.stop_requested"):
    """Somebody asked the run to stop."""

    basin: BasinId
    cleanup: bool = False


class RunStopped(Fact, frozen=True, kw_only=True, tag="run.stopped"):
    """The run is over and its controller gone."""

    basin: BasinId
    reason: values.StopReason
    text: str = ""


class StepStarted(Fact, frozen=True, kw_only=True, tag="step.started"):
    """Intent: one step of the final chain. ``round`` 0 is a step asked for alone."""

    round: int
    step: str
    argv: tuple[str, ...]
    basin: BasinId | None = None


class StepEnded(Fact, frozen=True, kw_only=True, tag="step.ended"):
    """A step of the final chain is over."""

    round: int
    step: str
    status: values.StepStatus
    detail: str
    basin: BasinId | None = None
    url: str | None = None
    commit: Sha | None = None
    results: tuple[values.Evidence, ...] = ()
    findings: tuple[dict[str, Any], ...] = ()
    usage: values.Usage | None = None


class ReportWritten(Fact, frozen=True, kw_only=True, tag="report.written"):
    """The convergence report exists at ``path``, relative to the tree, or absolute where it was not committed."""

    basin: BasinId
    path: str
    commit: Sha | None = None


class ConsentGiven(Fact, frozen=True, kw_only=True, tag="consent.given"):
    """A person allowed a command that came with the repository."""

    digest: NonBlank
    argv: tuple[str, ...]
    where: str


AnyFact = (
    BasinDeclared | BasinAmended | BasinChecked | BasinOpened | BasinConverged | BasinKilled | BasinHarvested
    | BranchSpawned | BranchSearching | BranchEnded | BranchCandidate | BranchFailed | BranchGrafted | ResidueGrafted
    | GraftRefused | ProposalMade | BranchPruned | BranchReconciled | FrontierAdded | FrontierClosed | AttemptStarted
    | AttemptEnded | SessionOpened | SessionContext | SessionClosed | RunStarted | RunWaiting | RunWoke
    | RunStopRequested | RunStopped | StepStarted | StepEnded | ReportWritten | ConsentGiven
)  # fmt: skip
