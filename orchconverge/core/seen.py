"""What `decide` is given: one frozen record of what the ports answered this turn, unknown answers included."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

from msgspec import Struct

from orchconverge.core.target import Sha
from orchconverge.core.values import Calls, Evidence, Limit, Part, Place, Process, Residue, StepStatus, Usage, Verdict


class Answer(Struct, frozen=True, kw_only=True):
    """What a port answered. Frozen; a question that could not be answered has an answer of its own."""


class Exit(Answer, frozen=True, kw_only=True):
    """How a supervised process ended: the supervisor's own record. ``seconds`` is monotonic run time."""

    reason: Literal["exited", "deadline", "killed", "refused"]
    code: int | None = None
    signal: int | None = None
    seconds: float = 0.0
    started_at: float = 0.0
    ended_at: float = 0.0
    bytes: int = 0
    truncated: bool = False
    error: str = ""
    leftover: tuple[str, ...] = ()
    survivors: tuple[str, ...] = ()
    lingered: bool = False
    idle: bool = False


class Absent(Answer, frozen=True, kw_only=True):
    """Nothing of this name was ever started, or its start was lost before it took its lock: it may be started."""


class Starting(Answer, frozen=True, kw_only=True):
    """It was prepared moments ago and has not taken its lock yet."""


class Running(Answer, frozen=True, kw_only=True):
    """Its supervisor holds its lock."""

    process: Process


class Ended(Answer, frozen=True, kw_only=True):
    """Its supervisor wrote how it ended."""

    exit: Exit
    process: Process | None = None


class Lost(Answer, frozen=True, kw_only=True):
    """It ran, its supervisor is gone, and nobody wrote how it ended."""

    process: Process | None = None


class Unknown(Answer, frozen=True, kw_only=True):
    """The probe could not tell. Nobody acts on it."""

    why: str


Probe = Absent | Starting | Running | Ended | Lost | Unknown


class Commit(Answer, frozen=True, kw_only=True):
    """A commit: full id, author ``Name <mail>``, committer, subject, and the criteria its trailers name."""

    sha: Sha
    author: str
    committer: str
    subject: str
    criteria: tuple[str, ...] = ()


class Checkout(Answer, frozen=True, kw_only=True):
    """A working tree as it stands. ``branch`` is ``None`` when HEAD is detached; ``operation`` a merge, rebase, … in progress."""

    branch: str | None
    head: Sha | None
    dirty: tuple[str, ...] = ()
    untracked: tuple[str, ...] = ()
    operation: str | None = None


class Work(Answer, frozen=True, kw_only=True):
    """What stands between ``base`` and ``head``. ``changed`` are paths; ``removed_lines`` maps a path to lines deleted.

    ``linked`` are paths that became a commit of another repository, which a push of this one does not take along.
    """

    base: Sha
    head: Sha
    tree: Sha
    descends: bool
    commits: tuple[Commit, ...] = ()
    changed: tuple[str, ...] = ()
    removed_lines: Mapping[str, int] = {}
    executable_changed: tuple[str, ...] = ()
    linked: tuple[str, ...] = ()


class Squash(Answer, frozen=True, kw_only=True):
    """What merging work onto a commit gives: a tree, or the paths in conflict."""

    tree: Sha | None
    conflicts: tuple[str, ...] = ()


class Tried(Answer, frozen=True, kw_only=True):
    """A part merged onto a commit: ``commit`` is of exactly ``tree`` and no ref has it; or the paths in conflict.

    ``paths`` are the files it changes there.
    """

    tree: Sha | None
    commit: Sha | None = None
    paths: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()


class Act(Answer, frozen=True, kw_only=True):
    """One thing that an agent did, as its engine showed it. ``target`` is a path or a command line.

    ``ok`` is the result that was observed: ``None`` if none was. ``refused``: a permission or a hook of ours said no.
    ``call`` is the same for the parts of one tool call. ``part``: which part of the target, where that is told.
    """

    kind: Literal["read", "search", "write", "run", "other"]
    target: str = ""
    ok: bool | None = None
    refused: bool = False
    detail: str = ""
    call: int = 0
    part: str = ""


class Outcome(Answer, frozen=True, kw_only=True):
    """What an engine's output says. Nothing here is believed; it explains, counts and continues.

    ``acts`` are its tool calls in order, ``stop`` is why it says that it ended, ``summary`` what it claims at the end.
    """

    usage: Usage | None = None
    context: str | None = None
    limit: Limit | None = None
    auth_failed: bool = False
    context_lost: bool = False
    error: str = ""
    summary: str = ""
    refused: tuple[str, ...] = ()
    acts: tuple[Act, ...] = ()
    stop: str = ""
    model: str = ""


class MindReport(Answer, frozen=True, kw_only=True):
    """The mind's own word, validated. Never believed: it becomes summary, residue and questions."""

    summary: str = ""
    verdict: Verdict | None = None
    residue: tuple[Residue, ...] = ()
    frontier: tuple[str, ...] = ()
    blocked: Mapping[str, str] = {}
    """Question -> what waits for its answer, where the mind said so."""
    problem: str = ""


class Machine(Answer, frozen=True, kw_only=True):
    """What the host has left: bytes, and how many more processes and terminals; ``None`` where it cannot be told."""

    memory_free: int | None = None
    disk_free: int | None = None
    pids_free: int | None = None
    ptys_free: int | None = None


class Health(Answer, frozen=True, kw_only=True):
    """What a ledger's reader met: whole lines, damaged ones, ones of a newer version, and a torn last one."""

    lines: int = 0
    bad: int = 0
    illegal: int = 0
    unknown: int = 0
    torn: bool = False


class Blob(Answer, frozen=True, kw_only=True):
    """What a file held. ``id`` tells its bytes, ``ink`` what is left of them without any white space.

    A file that is not there has neither; one of nothing but white space has no ink. Two blobs of one ink differ in
    white space alone. Where indentation is meaning this misses a change of meaning: it then takes a check to show it.
    """

    id: str = ""
    ink: str = ""


class MindEnd(Answer, frozen=True, kw_only=True):
    """What was read once a mind was gone: its engine's output, its own report, and where its git branch stands.

    ``stands``: its working tree has exactly ``head`` of its git branch checked out. ``theirs`` are the paths whose
    uncommitted changes are a person's: no mind commits them unseen.
    """

    outcome: Outcome
    report: MindReport
    head: Sha
    stands: bool = False
    leftovers: tuple[str, ...] = ()
    strangers: tuple[Commit, ...] = ()
    theirs: tuple[str, ...] = ()
    calls: Calls = Calls()


class Landed(Answer, frozen=True, kw_only=True):
    """A commit of ours on the target, told by its trailers: of exactly ``tree``, and what of which branch it took."""

    commit: Sha
    tree: Sha
    branch: str
    part: bool = False
    criterion: str | None = None
    paths: tuple[str, ...] = ()
    reason: str = ""


class TargetSeen(Answer, frozen=True, kw_only=True):
    """The target branch, and in place the checkout that the run works in."""

    head: Sha | None
    tree: Sha | None
    checkout: Checkout | None = None
    fingerprint: str = ""
    landed: tuple[Landed, ...] = ()
    """Commits of ours since the target was checked last, oldest first."""
    trespass: str = ""
    """How the target was moved past the gate since then, by no person, in a sentence with what to do."""


class StepResult(Answer, frozen=True, kw_only=True):
    """What a step wrote to ``ORCHCONVERGE_STEP_RESULT``, validated. ``results`` are of criteria that the chain answers.

    ``dropped``: why -> how many findings of a review were left out.
    """

    status: StepStatus
    detail: str
    url: str | None = None
    commit: Sha | None = None
    path: str | None = None
    results: tuple[Evidence, ...] = ()
    findings: tuple[dict[str, Any], ...] = ()
    usage: Usage | None = None
    verdict: str = ""
    dropped: Mapping[str, int] = {}


class Now(Answer, frozen=True, kw_only=True):
    """Time three ways: seconds of active time (limits), monotonic seconds (waits), UTC (shown, quota resets)."""

    active: float
    mono: float
    wall: datetime


class Key(Answer, frozen=True, kw_only=True):
    """Which check: this criterion on this tree (of ``commit``), in that place, for the n-th time."""

    criterion: str
    tree: Sha
    place: Place
    tries: int = 1


class Seen(Answer, frozen=True, kw_only=True):
    """All that was asked this turn. A missing key or ``None`` is a question not asked yet.

    ``contents`` are what the branches of the attempt changed: path -> what it held at the base and at the head. ``over``
    are the branches whose mind was denied to go on, and goes on. ``tried`` are parts merged onto commits, ``offered`` is what
    the proposal's ref names, ``harvesting`` the seconds since the first try of this attempt, ``minds`` how many run in all
    basins of the repository.
    """

    basin: str
    random: str
    trees: str
    probes: Mapping[str, Probe] = {}
    ends: Mapping[str, MindEnd] = {}
    works: Mapping[str, Work] = {}
    contents: Mapping[str, Mapping[str, tuple[Blob, Blob]]] | None = None
    over: frozenset[str] = frozenset()
    target: TargetSeen | None = None
    answers: Mapping[Key, Evidence] = {}
    spoiled: frozenset[Sha] = frozenset()
    tried: Mapping[tuple[Part, Sha], Tried] = {}
    offered: Sha | None = None
    harvesting: float = 0.0
    obstacle: str = ""
    minds: int = 0
    checking: bool = False
    step: Probe | None = None
    step_result: StepResult | None = None
    step_argv: Mapping[str, tuple[str, ...]] = {}
    machine: Machine = Machine()
    sessions: Mapping[str, str] = {}
    contextual: frozenset[str] = frozenset()
    absent: frozenset[str] = frozenset()
    memory_floor: int = 0
    disk_floor: int = 0
    fingerprint: str = ""
    stopping: int = 0
