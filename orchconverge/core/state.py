"""What the facts add up to: frozen records, held in the fold's own dictionaries and shown through a read-only `State`.

A record is replaced whole when a fact changes it, which costs the same for the first and the millionth; the dictionaries
are never copied. A settled branch keeps only what later questions need, so memory follows what is open.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import Enum
from types import MappingProxyType
from typing import Any, Literal

from msgspec import Struct

from orchconverge.core.chain import Chain
from orchconverge.core.target import Budget, Criterion, Sha, Stage, Termination
from orchconverge.core.values import (
    Calls,
    ControllerId,
    Decision,
    EndReason,
    Evidence,
    Limit,
    Limits,
    Place,
    Process,
    Residue,
    Result,
    Settings,
    StopReason,
    Taken,
    TurnedDown,
    Usage,
    Verdict,
    WaitFor,
)


class Phase(Enum):
    """Where a branch stands."""

    SPAWNED = "spawned"
    SEARCHING = "searching"
    ENDED = "ended"
    CANDIDATE = "candidate"
    FAILED = "failed"
    GRAFTED = "grafted"
    PRUNED = "pruned"


UNSETTLED = frozenset({Phase.SPAWNED, Phase.SEARCHING, Phase.ENDED})
"""A wave is settled when none of its branches is in one of these."""


class Record(Struct, frozen=True, kw_only=True):
    """One thing as it stands now."""


class Branch(Record, frozen=True, kw_only=True):
    """One attempt of one mind."""

    id: str
    basin: str
    attempt: int
    phase: Phase
    approach: str
    git_branch: str
    worktree: str
    base: Sha
    engine: str
    place: Place
    model: str = ""
    head: Sha | None = None
    process: Process | None = None
    session: str = ""
    reason: EndReason | None = None
    exit: int | None = None
    signal: int | None = None
    error: str = ""
    seconds: float = 0.0
    usage: Usage | None = None
    limit: Limit | None = None
    calls: Calls = Calls()
    evidence: tuple[Evidence, ...] = ()
    summary: str = ""
    commits: int = 0
    admitted: bool = False
    flags: tuple[str, ...] = ()
    verdict: Verdict | None = None
    failure: str = ""
    merge_commit: Sha | None = None
    decided_by: str = ""
    decided_at: datetime | None = None
    refused_tips: tuple[Sha, ...] = ()
    refused_parts: frozenset[tuple[Sha, str | None, tuple[str, ...]]] = frozenset()
    """(onto, criterion, paths or commits) of what was tried of it and refused."""
    refusal: str = ""
    conflicts: tuple[str, ...] = ()
    """The files in which its last refused graft met what was there already."""
    observed: str = ""
    retries: str | None = None
    active: float = 0.0
    """The basin's active time when it was spawned, in seconds."""
    spawned_at: datetime | None = None
    candidate_at: datetime | None = None

    @property
    def may_run(self) -> bool:
        """Whether its mind is not known to be gone: a branch can be pruned while its mind runs."""
        if self.phase is Phase.PRUNED:
            return self.process is not None and self.reason is None
        return self.phase in (Phase.SPAWNED, Phase.SEARCHING)

    @property
    def waits(self) -> bool:
        """Whether it waits at the lock."""
        return self.phase is Phase.CANDIDATE and not self.admitted


class Attempt(Record, frozen=True, kw_only=True):
    """The turn of the loop that runs now. ``active`` is the active time at its start, in seconds."""

    number: int
    strategy: str
    why: str
    engine: str
    width: int
    deadline: float
    active: float
    at: datetime | None
    opened: bool = False
    retries: str | None = None
    branches: tuple[str, ...] = ()
    refused: tuple[TurnedDown, ...] = ()
    """What the gate turned down in it."""


class Past(Record, frozen=True, kw_only=True):
    """A turn of the loop that is over: what later briefs, the report and the stall count need of it."""

    number: int
    strategy: str
    approach: str
    engine: str
    charged: bool
    result: Result
    decision: Decision
    progress: int
    criteria: Mapping[str, bool]
    score: int
    head: Sha
    text: str
    started: datetime | None
    ended: datetime | None
    active_started: float
    active_ended: float
    usage: Usage
    summary: str = ""
    failure: str = ""
    verdict: str = ""
    excerpts: tuple[tuple[str, str], ...] = ()
    results: int = 1
    """How many of its branches ended with something to judge."""
    place: Place = "here"
    passes: bool = False
    denied: bool = False
    """Whether admission denied that it goes on as it did."""
    convergence: Mapping[str, Any] = {}
    """Its record of work convergence, without fingerprints: those of the newest one are with the basin."""


class Tip(Record, frozen=True, kw_only=True):
    """The target's tip as we checked it."""

    head: Sha
    tree: Sha
    results: Mapping[str, Evidence]


class Proposal(Record, frozen=True, kw_only=True):
    """What the controller would admit, built on ``tip`` and gated; it is stale once the target stands elsewhere."""

    tip: Sha
    graft: str
    parts: tuple[Taken, ...]
    refused: tuple[TurnedDown, ...]
    head: Sha
    tree: Sha
    evidence: tuple[Evidence, ...]
    at: datetime | None


class Waiting(Record, frozen=True, kw_only=True):
    """What a run stands still for."""

    reason: WaitFor
    text: str
    until: datetime | None
    engine: str | None
    at: datetime | None


class Run(Record, frozen=True, kw_only=True):
    """A controller's hold of a basin; kept after its end, since a resume takes its settings."""

    id: str
    controller: ControllerId
    settings: Settings
    limits: Limits
    started: datetime | None
    open: bool = True
    checked: bool = False
    waiting: Waiting | None = None
    stop_requested: bool = False
    stopped: StopReason | None = None
    stop_text: str = ""
    active_started: float = 0.0
    first: int = 1
    """The ordinal of its first attempt. A run that was taken over goes on with that of the lost one."""
    tampered: bool = False
    signed_out: frozenset[str] = frozenset()
    """Engines that said that nobody is signed in there."""
    epoch: int = 1
    """Counts the runs that were not taken over: answers of checks are shared within one, never across."""
    fingerprint: str = ""


class Context(Record, frozen=True, kw_only=True):
    """An engine's own context. ``shown``: an ended mind was seen to use it; ``lost``: the engine did not know it."""

    id: str
    attempt: int
    shown: bool = False
    lost: bool = False


class Session(Record, frozen=True, kw_only=True):
    """The long-lived pursuit of one goal and the engine contexts beneath it."""

    id: str
    basin: str
    open: bool = True
    tmux: str = ""
    reason: Literal["met", "abandoned", "lost"] | None = None
    contexts: Mapping[str, Context] = {}


class Basin(Record, frozen=True, kw_only=True):
    """One written target and how far it has got."""

    id: str
    title: str
    macrostate: str
    goal: str
    criteria: tuple[Criterion, ...]
    termination: Termination
    budget: Budget
    target: str
    approaches: tuple[str, ...] = ()
    lock: Literal["auto", "person"] = "auto"
    may_change: tuple[str, ...] = ()
    parents: tuple[str, ...] = ()
    stages: tuple[Stage, ...] = ()
    staged: tuple[str, ...] = ()
    """The declared outputs that were written: paths."""
    declared: datetime | None = None
    phase: Literal["open", "converged", "killed"] = "open"
    note: str = ""
    harvested: bool = False
    start: Tip | None = None
    tip: Tip | None = None
    active: float = 0.0
    active_at: datetime | None = None
    attempts: int = 0
    branches: int = 0
    attempt: Attempt | None = None
    history: tuple[Past, ...] = ()
    run: Run | None = None
    runs: int = 0
    session: str | None = None
    chain: Chain = Chain()
    residue: tuple[Residue, ...] = ()
    queue: tuple[str, ...] = ()
    """The candidates that wait at the lock, in the order in which they came."""
    proposal: Proposal | None = None
    merges: tuple[Sha, ...] = ()
    """The commits of ours on the target that are on record, in order."""
    parts_landed: int = 0
    parts_refused: int = 0
    usage: Usage = Usage()
    convergence: Mapping[str, Any] = {}
    """The newest record of work convergence, as `orchconverge.core.admission_record` makes and reads it."""
    report: str | None = None
    amended: int = 0
    """How many attempts had been made when a person last amended the target, or accepted what was made."""
    quotas: Mapping[str, Limit] = {}
    """Engine -> what it said of its quota when that was used up."""

    @property
    def running(self) -> Run | None:
        """The open run, if there is one."""
        return self.run if self.run is not None and self.run.open else None

    @property
    def valve(self) -> Literal["auto", "person"]:
        """Who admits: as the newest run was started, else as the target was declared."""
        return (self.run.settings.lock if self.run is not None else None) or self.lock

    @property
    def charged(self) -> int:
        """How many attempts count against the limit, the running one included."""
        return sum(past.charged for past in self.history) + (self.attempt is not None)

    @property
    def required(self) -> tuple[Criterion, ...]:
        """The required criteria that the loop answers."""
        return tuple(c for c in self.criteria if c.required and c.in_loop)

    @property
    def counted(self) -> tuple[Criterion, ...]:
        """Those of them that are progress: conditions say that the work is in order, never that something was gained."""
        return tuple(c for c in self.required if not c.condition)


class Question(Record, frozen=True, kw_only=True):
    """An open question and where it came from."""

    question: str
    origin: str
    basin: str | None
    blocks: str | None


class State:
    """Everything the ledger says, read-only. Mappings are live views: they move on when the fold does."""

    __slots__ = ("basins", "branches", "consents", "frontier", "results", "sessions", "waves")

    def __init__(
        self,
        *,
        basins: MappingProxyType[str, Basin],
        branches: Mapping[str, Branch],
        sessions: Mapping[str, Session],
        frontier: Mapping[str, Question],
        consents: Mapping[str, str],
        results: Mapping[str, Mapping[tuple[str, str, str], Evidence]],
        waves: Mapping[str, tuple[str, ...]],
    ) -> None:
        self.basins = basins
        self.branches = branches
        self.sessions = sessions
        self.frontier = frontier
        self.consents = consents
        self.results = results
        """Per basin, what this run's checks answered: (criterion, tree, place) -> evidence."""
        self.waves = waves
        """Per basin, the ids of its branches in the order they were spawned."""

    def branches_of(self, basin: str) -> tuple[Branch, ...]:
        """The branches of a basin, oldest first."""
        return tuple(self.branches[b] for b in self.waves.get(basin, ()))

    @property
    def newest(self) -> Basin | None:
        """The basin that was declared last."""
        return self.basins[next(reversed(self.basins))] if self.basins else None

    @property
    def open_runs(self) -> tuple[Basin, ...]:
        """The basins that a controller holds, by the record."""
        return tuple(b for b in self.basins.values() if b.running is not None)
