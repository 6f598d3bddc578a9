"""The shape of what is shown: the keys of `status --json`. They never vanish, and ``None`` is what is not known."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta, timezone

from orchconverge.core.happened import Event
from orchconverge.core.measures import Nearest, Shown, Stall, Trend
from orchconverge.core.needs import Damage, Need
from orchconverge.core.work_record import Record, Told


class Probes(Shown, frozen=True, kw_only=True):
    """What a view may ask the machine without storing it. By basin; a basin that is missing was not, or could not be, asked.

    ``leases``: a controller holds it; ``tmux``: its session is there; ``minds``: how many supervisors hold their lock;
    ``silent``: seconds since its controller last wrote its log; ``attach``: the whole attach line; ``asleep``: seconds that
    the machine was suspended since the newest fact of the controller. ``newest``: time of the last line of the ledger.
    """

    leases: Mapping[str, bool | None] = {}
    tmux: Mapping[str, bool | None] = {}
    minds: Mapping[str, int | None] = {}
    silent: Mapping[str, float] = {}
    attach: Mapping[str, str] = {}
    asleep: float = 0.0
    ledger: Damage = Damage()
    seq: int = 0
    newest: datetime | None = None


class Ledger(Shown, frozen=True, kw_only=True):
    """How far the ledger was read, and how well."""

    seq: int
    bad: int
    lines: int
    illegal: int
    unknown: int
    torn: bool
    newest: datetime | None


class NextEvent(Shown, frozen=True, kw_only=True):
    """What comes next by itself."""

    at: datetime | None
    what: str | None


class Answered(Shown, frozen=True, kw_only=True):
    """The answer to a criterion on the target's tip; ``tail`` is the last line of its output."""

    exit: int | None
    seconds: float
    tree: str
    digest: str
    tail: str


class CriterionShown(Shown, frozen=True, kw_only=True):
    """``met`` is yes, no, error, unstable or unknown; ``None``: not run."""

    name: str
    kind: str
    required: bool
    stage: str
    asked: str
    met: str | None
    first_met_by: str | None
    evidence: Answered | None


class Counted(Shown, frozen=True, kw_only=True):
    """Attempts that count against the limit, the running one included."""

    n: int
    max: int | None


class Used(Shown, frozen=True, kw_only=True):
    """What is used of a limit; ``None``: not known, or no limit."""

    used: float | None
    max: float | None


class WaitsFor(Shown, frozen=True, kw_only=True):
    """What the basin waits for, and until when at the latest."""

    kind: str
    what: str
    until: datetime | None


class TargetShown(Shown, frozen=True, kw_only=True):
    """The branch that the basin merges into, where it was checked last."""

    ref: str
    head: str | None


class SessionShown(Shown, frozen=True, kw_only=True):
    """Where the pursuit can be watched, and the engine at work."""

    tmux: str | None
    engine: str | None


class Minds(Shown, frozen=True, kw_only=True):
    """Minds seen alive, and minds by the record about which nothing could be learned."""

    running: int
    unknown: int


class BranchShown(Shown, frozen=True, kw_only=True):
    """One attempt of one mind."""

    id: str
    attempt: int
    approach: str
    engine: str
    phase: str
    admitted: bool
    met: int | None
    commits: int
    flags: tuple[str, ...]
    summary: str
    reason: str


class ResidueShown(Shown, frozen=True, kw_only=True):
    """Something that was learned."""

    text: str
    paths: tuple[str, ...]
    criterion: str | None


class QuestionShown(Shown, frozen=True, kw_only=True, rename={"origin": "from"}):
    """An open question."""

    question: str
    origin: str
    basin: str | None
    blocks: str | None


class Controller(Shown, frozen=True, kw_only=True):
    """``alive``, ``gone``, ``unknown`` or ``none``, and when its log last grew."""

    state: str
    seen: datetime | None


class AttemptShown(Told, frozen=True, kw_only=True):
    """A turn of the loop that is over, with its work convergence, flat; the fingerprints of the newest are the basin's."""

    attempt: int
    result: str
    decision: str
    charged: bool


class BasinShown(Record, frozen=True, kw_only=True):
    """A basin. From ``goal`` to ``next_attempt`` are the seven values of the status block, as it prints them.

    Flat in it is the newest record of work convergence; ``attempts`` are the newest of those that are over, oldest first.
    """

    id: str
    macrostate: str
    phase: str
    decision: str | None
    group: str
    goal: str
    status: str
    elapsed: str
    progress: str
    last_result: str
    tmux_session: str
    next_attempt: str
    criteria: tuple[CriterionShown, ...]
    met: int
    required: int
    pending_at_lock: int
    trend: Trend
    stall: Stall
    attempt: Counted
    uncharged: int
    active_hours: Used
    usd: Used
    tokens: Used
    limit_first: Nearest
    waits_for: WaitsFor
    place: str | None
    target: TargetShown
    session: SessionShown
    engines: tuple[str, ...]
    permissions: str | None
    strategy: str | None
    final_steps: tuple[int, int]
    attempts: tuple[AttemptShown, ...]
    minds: Minds
    branches: tuple[BranchShown, ...]
    residue: tuple[ResidueShown, ...]
    frontier: tuple[QuestionShown, ...]
    controller: Controller
    attach: str | None


class Queued(Shown, frozen=True, kw_only=True):
    """A candidate that waits at the lock: required criteria it meets, adds to the tip and loses, and what to look at."""

    branch: str
    basin: str
    met: int
    adds: int
    loses: int
    since: datetime | None
    flags: tuple[str, ...]


class Lock(Shown, frozen=True, kw_only=True):
    """The queue at the lock, first in, first out; ``target`` is the head's."""

    target: str | None
    queue: tuple[Queued, ...]


class Quota(Shown, frozen=True, kw_only=True):
    """An engine that said it has no quota."""

    engine: str
    until: datetime | None


class Projection(Shown, frozen=True, kw_only=True):
    """Everything that a view shows. ``basins`` in the order of `GROUPS`, then as declared; ``shown`` is the status block's."""

    schema: int
    as_of: datetime
    utc_offset: int
    ledger: Ledger
    needs_you: tuple[Need, ...]
    next_event: NextEvent
    shown: str | None
    basins: tuple[BasinShown, ...]
    lock: Lock
    frontier: tuple[QuestionShown, ...]
    events: tuple[Event, ...]
    controller: Controller
    quota: tuple[Quota, ...]
    attach: tuple[str, ...]

    @property
    def local(self) -> datetime:
        """``as_of`` in the reader's zone, which is ``utc_offset`` seconds east."""
        return self.as_of.astimezone(timezone(timedelta(seconds=self.utc_offset)))

    def basin(self, name: str | None = None) -> BasinShown | None:
        """The basin of this name, or the one shown."""
        wanted = name or self.shown
        return next((b for b in self.basins if b.id == wanted), None)
