"""The parts that facts are made of: answers of checks, usage, residue, the settings and limits of a run."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

from orchconverge.core.target import NonBlank, Sha

LONE = re.compile("[\ud800-\udfff]")
Writer = Literal["controller", "cli", "recovery"]
Met = Literal["yes", "no", "error", "unstable", "unknown"]
"""``error``: it could not be run. ``unknown``: it was asked, and what came back is no answer."""
Place = Literal["here", "fresh"]
"""Where something runs: in the caller's own directory, or in a tree of ours."""
Result = Literal["success", "partial_success", "no_progress", "failed", "interrupted", "quota", "verdict"]
Decision = Literal[
    "SUCCESS",
    "IN_PROGRESS",
    "STALLED",
    "BLOCKED",
    "WAITING",
    "TIME_LIMIT",
    "ATTEMPT_LIMIT",
    "BUDGET_LIMIT",
    "UNSATISFIED",
    "STOPPED",
]
EndReason = Literal["exited", "deadline", "killed", "lost", "denied", "budget"]
"""``denied``: ended by us, since its work did not converge. ``budget``: since its share of that was spent."""
WaitFor = Literal[
    "lock", "quota", "disk", "memory", "network", "consent", "tamper", "branch", "verdict", "limit", "blocked"
]
StopReason = Literal["converged", "limit", "stalled", "unsatisfied", "waiting", "stopped", "killed", "refused", "error"]
StepStatus = Literal["done", "skipped", "failed"]


class Value(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A part of a fact."""


class Evidence(Value, frozen=True, kw_only=True, rename={"tries": "try"}):
    """One answer to one criterion on one tree. ``seconds`` is wall time, ``passed`` are what of it holds: test ids, or clauses.

    They are of kind ``tests`` and, as ``judge:2``, of kind ``judge``.
    """

    criterion: str
    met: Met
    tree: Sha
    place: Place = "fresh"
    exit: int | None = None
    seconds: float = 0.0
    tries: int = 1
    digest: str = ""
    log: str = ""
    excerpt: str = ""
    passed: tuple[str, ...] = ()
    dirtied: tuple[str, ...] = ()


class Usage(Value, frozen=True, kw_only=True):
    """What one mind used, its own alone: tokens, and dollars where the engine or a price list says."""

    inputTokens: int = 0
    outputTokens: int = 0
    cacheReadTokens: int = 0
    cacheWriteTokens: int = 0
    usd: float | None = None
    source: Literal["reported", "priced", "unknown"] = "unknown"


class Residue(Value, frozen=True, kw_only=True):
    """Something learned that is worth telling the next mind."""

    text: NonBlank
    paths: tuple[str, ...] = ()
    criterion: str | None = None


class Verdict(Value, frozen=True, kw_only=True):
    """A mind's honest statement that it could not or should not go on. A claim to check, never a result."""

    kind: Literal["cannot", "needs_person", "unsafe", "already_done"]
    text: NonBlank


class Limit(Value, frozen=True, kw_only=True):
    """An engine said that its quota is used up; ``until`` is its own reset time where it gave one."""

    engine: str
    until: Annotated[datetime, Meta(tz=True)] | None = None


class Process(Value, frozen=True, kw_only=True):
    """A process, so that no other can be taken for it: boot id, pid and start time in clock ticks since boot."""

    boot: str
    pid: int
    start: int


class ControllerId(Value, frozen=True, kw_only=True):
    """Which process holds a run, and in which tmux session, of the server at ``socket``, it can be watched."""

    host: str
    boot: str
    pid: int
    start: int
    tmux: str = ""
    socket: str = ""


class Part(Value, frozen=True, kw_only=True):
    """What is taken of a branch: its commits or paths that meet one criterion, or, if neither is named, all of it."""

    branch: str
    criterion: str | None = None
    commits: tuple[Sha, ...] = ()
    paths: tuple[str, ...] = ()
    patch: bytes = b""
    """Of its paths only these hunks, as a person chose them: a diff for `git apply`. It is never recorded."""

    @property
    def whole(self) -> bool:
        """Whether it is the branch as it is."""
        return not self.commits and not self.paths


class Taken(Value, frozen=True, kw_only=True):
    """A part that passed the gate: ``commit``, of exactly ``tree``, stands on the one taken before it or on the tip.

    ``paths`` are the files it changes, ``gains`` the criteria that hold by it and did not before.
    """

    part: Part
    commit: Sha
    tree: Sha
    paths: tuple[str, ...] = ()
    gains: tuple[str, ...] = ()
    evidence: tuple[Evidence, ...] = ()


class TurnedDown(Value, frozen=True, kw_only=True):
    """A part that the gate refused on ``onto``: ``conflicts`` are paths, ``lost`` criteria."""

    part: Part
    onto: Sha
    conflicts: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    why: str = ""
    evidence: tuple[Evidence, ...] = ()


class Calls(Value, frozen=True, kw_only=True):
    """How the tool calls of a mind met admission. ``unasked``: those that were seen to be made and did not ask before.

    ``how``: they asked by ``hooks`` of the agent or over ``acp``; they were read off the ``pane``; nothing was seen of them
    ``between`` beginning and end; or it was to ask and did not (``lost``). ``denied``: its turn was over before it ended.
    ``overspent``: its share of the budget was.
    """

    how: Literal["hooks", "acp", "pane", "between", "lost"] = "between"
    asked: int = 0
    refused: int = 0
    unasked: int = 0
    denied: bool = False
    overspent: bool = False


class Thresholds(Value, frozen=True, kw_only=True):
    """When motion without closing is constrained, and when it is denied. One frontier has one such budget.

    ``targets`` new things may be looked at and ``rereads`` known ones again; then ``refusals`` are given, and the next
    is a denial. ``compactions``: how often a context that was compacted or made anew begins that budget again.
    ``mutations``: changes that count which renew it while a failed check stays red. ``strays``: changes beside the goal
    that renew it, though they close nothing (a plan rarely names every file); at a declared stage so many make the
    declaration void. ``runs``: other commands than looking and checking. ``inside``: how many times as much may be looked at,
    run and changed beside the goal inside one running turn, which is many turns of a model.
    """

    targets: int = 8
    rereads: int = 3
    refusals: int = 3
    compactions: int = 1
    mutations: int = 24
    strays: int = 3
    runs: int = 24
    inside: int = 4


class Settings(Value, frozen=True, kw_only=True):
    """All that a resume needs to go on as the run was started. Times in seconds.

    ``checkout`` is the top of the caller's working tree, ``base`` the commit that the target was declared on, ``onto`` the
    ref that it is meant to be merged into one day. ``env`` are the names of further variables that minds and checks get.
    ``lock`` is who admits in this run, where it is not as the target was declared. ``minds`` is the width of a wave,
    ``maxMinds`` how many may run at once in all basins of the repository. Without ``loop`` the run ends after one wave;
    ``retries`` names the branch that its one attempt is to make anew. ``replaced``: step of the chain -> a person's own
    command in its place, an argv or the one word ``engine:PROMPT``, which has ``stepSeconds``.
    """

    checkout: str
    place: Place
    engines: tuple[str, ...]
    interval: float = 300.0
    argv: tuple[str, ...] = ()
    script: str = ""
    minds: int = 1
    widen: str = "stall"
    approaches: tuple[str, ...] = ()
    lock: Literal["auto", "person"] | None = None
    attemptSeconds: float = 3600.0
    chain: tuple[str, ...] = ("pushl", "reviewdeep", "copilot", "report")
    permissions: Literal["default", "skip"] = "default"
    allow: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    setup: str = ""
    remote: str = "origin"
    stallAfter: int = 3
    backoffBase: float = 5.0
    backoffCap: float = 300.0
    allowDirty: bool = False
    report: Literal["commit", "file", "state"] = "commit"
    base: str = ""
    onto: str = ""
    maxMinds: int = 8
    loop: bool = True
    retries: str = ""
    harvestTries: int = 12
    harvestMinutes: float = 10.0
    thresholds: Thresholds = Thresholds()
    replaced: dict[str, tuple[str, ...]] = {}
    stepSeconds: float = 3000.0


class Limits(Value, frozen=True, kw_only=True):
    """The hard limits of an open run. ``hours`` are active hours; ``None`` is no limit of that kind."""

    attempts: int | None = None
    hours: float | None = None
    until: Annotated[datetime, Meta(tz=True)] | None = None
    usd: float | None = None
    tokens: int | None = None
    minds: int | None = None


class Fact(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    """One thing that happened, in order. ``at`` is UTC, ``active`` seconds of the basin's active time."""

    v: Annotated[int, Meta(ge=0)] = 0
    seq: Annotated[int, Meta(ge=0)] = 0
    at: Annotated[datetime, Meta(tz=True)] | None = None
    writer: Writer | None = None
    active: float | None = None


F = TypeVar("F", bound=Fact)


def storable(fact: F) -> F:
    """The fact with text that JSON can hold: bytes of a path that are no UTF-8 become U+FFFD."""
    try:
        msgspec.json.encode(fact)
    except UnicodeEncodeError:
        return msgspec.convert(_replaced(msgspec.to_builtins(fact)), type(fact))
    return fact


def _replaced(value: object) -> object:
    if isinstance(value, str):
        return LONE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_replaced(key): _replaced(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_replaced(item) for item in value]
    return value


def all_tokens(usage: Usage) -> int:
    """Every token, cached ones included, as the budget counts them."""
    return usage.inputTokens + usage.outputTokens + usage.cacheReadTokens + usage.cacheWriteTokens


def added(one: Usage, other: Usage | None) -> Usage:
    """The sum of two usages; unknown dollars stay unknown only if both are."""
    if other is None:
        return one
    usd = None if one.usd is None and other.usd is None else (one.usd or 0.0) + (other.usd or 0.0)
    return Usage(
        inputTokens=one.inputTokens + other.inputTokens,
        outputTokens=one.outputTokens + other.outputTokens,
        cacheReadTokens=one.cacheReadTokens + other.cacheReadTokens,
        cacheWriteTokens=one.cacheWriteTokens + other.cacheWriteTokens,
        usd=usd,
        source=other.source if other.source != "unknown" else one.source,
    )
