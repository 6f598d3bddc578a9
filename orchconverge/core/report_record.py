"""The shape of a convergence report: the keys of `report --format json`, and all that the other formats are written from.

Text that others wrote is harmless in it already, and holds no path of this machine; only views clip it. Times are aware.
"""

from __future__ import annotations

from datetime import datetime

from orchconverge.core.measures import Shown
from orchconverge.core.shown import Counted, CriterionShown, QuestionShown, ResidueShown, Used


class Outcome(Shown, frozen=True, kw_only=True):
    """What it came to: ``word`` for a title, ``decision`` as a label; ``met`` of the ``required`` criteria of the loop.

    ``base`` is the commit that it began on, ``head`` the one that was judged last.
    """

    word: str
    decision: str
    met: int
    required: int
    target: str
    base: str | None
    head: str | None
    note: str


class Merged(Shown, frozen=True, kw_only=True):
    """How many branches were grafted, landed in place, were pruned, wait at the lock, or were refused; ``parts`` taken."""

    grafted: int
    in_place: int
    parts: int
    pruned: int
    waiting: int
    refused: int


class AskedOfYou(Shown, frozen=True, kw_only=True):
    """What a person is to do: a sentence, and the command or the address where it is done."""

    sentence: str
    command: str | None
    url: str | None


class CriterionReported(CriterionShown, frozen=True, kw_only=True):
    """A criterion at the end, and ``start``: what was answered before the first attempt. ``condition``: it is no progress."""

    start: str | None
    condition: bool


class Point(Shown, frozen=True, kw_only=True):
    """Required criteria that the target met after an attempt; attempt 0 is the start."""

    attempt: int
    met: int


class Span(Shown, frozen=True, kw_only=True):
    """Something that took time. ``waits``: nothing was charged meanwhile."""

    section: str
    label: str
    start: datetime
    end: datetime
    waits: bool = False


class AttemptReported(Shown, frozen=True, kw_only=True):
    """A turn of the loop. ``progress`` is per cent, ``obstacle`` what stood in its way; ``convergence`` is one sentence."""

    attempt: int
    started: datetime | None
    active_seconds: float
    strategy: str
    approach: str
    engine: str
    result: str
    charged: bool
    progress: int
    text: str
    obstacle: str
    convergence: str
    denied: str


class CandidateReported(Shown, frozen=True, kw_only=True):
    """What a mind of a worktree made, and its ``fate``: grafted, part taken, pruned, waits, or refused.

    ``met`` of the required criteria held on its own tree; ``None`` where that was not kept.
    """

    branch: str
    approach: str
    met: int | None
    fate: str
    commit: str | None


class CommitReported(Shown, frozen=True, kw_only=True):
    """A commit on the target."""

    commit: str
    subject: str
    criteria: tuple[str, ...]


class DecisionReported(Shown, frozen=True, kw_only=True):
    """Who decided what, when, and the reason as it was written."""

    at: datetime | None
    decision: str
    branch: str
    decided_by: str
    reason: str
    commit: str | None = None
    paths: tuple[str, ...] = ()


class CommandReported(Shown, frozen=True, kw_only=True):
    """A command, how often it ran, how long, and what it led to. ``status`` and ``url`` are those of a step's last run."""

    command: str
    engine: str | None
    runs: int
    seconds: float | None
    effect: str
    status: str | None = None
    url: str | None = None


class UsageReported(Shown, frozen=True, kw_only=True):
    """Tokens and dollars of one engine, or of one step; ``usd`` is ``None`` where nobody said it."""

    of: str
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    usd: float | None


class FindingReported(Shown, frozen=True, kw_only=True):
    """A finding of a review. ``stands``: the last one has it too, else it was put right or not found again."""

    severity: str
    path: str
    line: int
    title: str
    stands: bool


class CommentReported(Shown, frozen=True, kw_only=True):
    """A comment on the pull request and what became of it: fixed, already there, deferred, acknowledged, not done, open."""

    severity: str
    path: str
    line: int
    author: str
    url: str
    outcome: str
    reason: str
    commit: str | None


class StepReported(Shown, frozen=True, kw_only=True):
    """A step of the final chain that is over, as it ended last, in its own words, with the findings of all its rounds.

    ``by`` is a person's own command, if it was one.
    """

    step: str
    status: str
    detail: str
    url: str | None
    by: str
    findings: tuple[FindingReported, ...] = ()
    comments: tuple[CommentReported, ...] = ()


class PullReported(Shown, frozen=True, kw_only=True):
    """The pull request as the forge had it when the report was written, and how many checks of its head say what."""

    number: int
    url: str
    state: str
    draft: bool
    passed: int
    failed: int
    pending: int


class Rests(Shown, frozen=True, kw_only=True):
    """What the report rests on: lines of the ledger, how many of them are bad, and whether agents asked before they acted."""

    seq_from: int
    seq_to: int
    bad: int
    permissions: str | None
    record: str | None


class Report(Shown, frozen=True, kw_only=True):
    """One pursuit, told to who was not there. ``written`` is in the reader's zone; everything else follows `Report`'s order."""

    schema: int
    basin: str
    macrostate: str
    goal: str
    outcome: Outcome
    attempts: Counted
    uncharged: int
    active_seconds: float
    most_hours: float | None
    days: int
    usd: Used
    tokens: Used
    merged: Merged
    needs_you: tuple[AskedOfYou, ...]
    criteria: tuple[CriterionReported, ...]
    progress: tuple[Point, ...]
    timeline: tuple[Span, ...]
    history: tuple[AttemptReported, ...]
    candidates: tuple[CandidateReported, ...]
    commits: tuple[CommitReported, ...]
    decisions: tuple[DecisionReported, ...]
    residue: tuple[ResidueShown, ...]
    obstacles: tuple[str, ...]
    frontier: tuple[QuestionShown, ...]
    commands: tuple[CommandReported, ...]
    usage: tuple[UsageReported, ...]
    steps: tuple[StepReported, ...]
    pull_request: PullReported | None
    reproduce: tuple[str, ...]
    rests: Rests
    written: datetime
