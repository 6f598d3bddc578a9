"""One attempt as it went: every fact of it in order, with evidence, usage and work convergence; bounded, without local paths.

A path below a working tree is told relative to it, any other absolute one by its fingerprint: what is shown can be handed on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec import Struct

from orchconverge.core import events as e
from orchconverge.core.fingerprints import fingerprint
from orchconverge.core.happened import happened
from orchconverge.core.values import Evidence, Usage, added
from orchconverge.core.views.text import clean, clock, counted, duration, tokens
from orchconverge.core.views.work import asked, read, sentence
from orchconverge.core.work_record import Told

MOST_FACTS: Final = 1000
"""More are counted, the newest left out: an attempt begins where it begins."""
MOST_LISTED: Final = 50
LONGEST: Final = 500
"""Characters of one text."""
LINE: Final = 160
"""Cells of a line on a terminal."""
_ENVELOPE: Final = frozenset({"type", "v", "seq", "at", "active", "writer", "basin"})

_BEGINS: Final = r"(?:(?<![\w.~/])|(?<=\W-[A-Za-z])|(?<=^-[A-Za-z]))"
"""Where a slash begins a path: not inside of a relative one, but behind ``-I`` as compilers take it."""
_ABSOLUTE: Final = re.compile(
    r"\b(?!file:)[a-z][a-z0-9+.-]*://[^\s'\"]*"  # an address, left as it is
    rf"|{_BEGINS}(?:file://)?(/[\w.@+~-][^\s'\"`<>|;,()]*)"
)


class Entry(Struct, frozen=True, kw_only=True):
    """A fact: when, at which active second of its goal, in words, and all that it holds (``fact``), bounded."""

    seq: int
    at: datetime | None
    active: float | None
    type: str
    what: str
    detail: str
    fact: dict[str, Any]


class Trace(Struct, frozen=True, kw_only=True):
    """An attempt. ``usage`` is of its minds so far; ``work_convergence`` is as its end recorded it; ``more`` were left out."""

    basin: str
    attempt: int
    engine: str
    strategy: str
    branches: tuple[str, ...]
    running: bool
    result: str | None
    decision: str | None
    charged: bool | None
    usage: Usage
    work_convergence: dict[str, Any]
    entries: tuple[Entry, ...]
    more: int


class _Followed:
    """What is kept while the facts of a ledger go by: those of the attempt, and later ones about its branches."""

    def __init__(self, basin: str, number: int) -> None:
        self.basin = basin
        self.number = number
        self.sessions: set[str] = set()
        self.begun: e.AttemptStarted | None = None
        self.ended: e.AttemptEnded | None = None
        self.branches: list[str] = []
        self.roots: list[str] = []
        self.trees: list[str] = []
        self.facts: list[e.AnyFact] = []
        self.usages: list[Usage] = []
        self.more = 0

    def take(self, fact: e.AnyFact) -> None:
        """Look at the next fact of the ledger."""
        if isinstance(fact, e.SessionOpened) and fact.basin == self.basin:
            self.sessions.add(fact.session)
        if isinstance(fact, e.RunStarted) and fact.basin == self.basin:
            self.roots.append(fact.settings.checkout)
        if isinstance(fact, e.AttemptStarted) and (fact.basin, fact.attempt) == (self.basin, self.number):
            self.begun = fact
        if self.begun is None or not self._is_of_it(fact):
            return
        if isinstance(fact, e.BranchSpawned):
            self.branches.append(fact.branch)
            self.roots.append(fact.worktree)
            if fact.place == "fresh":
                self.trees.append(fact.worktree.rstrip("/").rpartition("/")[0])
        if isinstance(fact, e.BranchEnded) and fact.usage is not None:
            self.usages.append(fact.usage)
        if isinstance(fact, e.AttemptEnded):
            self.ended = fact
        if len(self.facts) < MOST_FACTS:
            self.facts.append(fact)
        else:
            self.more += 1

    def _is_of_it(self, fact: e.AnyFact) -> bool:
        if self.ended is not None:
            return getattr(fact, "branch", None) in self.branches
        if isinstance(fact, e.SessionContext):
            return fact.session in self.sessions
        return getattr(fact, "basin", None) == self.basin


def trace(facts: Iterable[e.AnyFact], basin: str, attempt: int) -> Trace | None:
    """The attempt of this number, from a ledger's facts in order; ``None`` if it was never started."""
    found = _Followed(basin, attempt)
    for fact in facts:
        found.take(fact)
    if found.begun is None:
        return None
    told, end = without_paths(found.roots, trees=found.trees), found.ended
    return Trace(
        basin=basin,
        attempt=attempt,
        engine=told(found.begun.engine),
        strategy=told(found.begun.strategy),
        branches=tuple(found.branches),
        running=end is None,
        result=end.result if end is not None else None,
        decision=end.decision if end is not None else None,
        charged=end.charged if end is not None else None,
        usage=_total(found.usages),
        work_convergence=_bounded(end.workConvergence, told) if end is not None else {},
        entries=tuple(_entry(fact, told) for fact in found.facts),
        more=found.more,
    )


def _total(them: Sequence[Usage]) -> Usage:
    total: Usage | None = None
    for one in them:
        total = added(one, total)
    return total or Usage()


def _entry(fact: e.AnyFact, told: Callable[[str], str]) -> Entry:
    event = happened(fact)
    whole = msgspec.to_builtins(fact)
    return Entry(
        seq=fact.seq,
        at=fact.at,
        active=fact.active,
        type=event.type,
        what=told(event.what),
        detail=told(event.detail),
        fact=_bounded({key: value for key, value in whole.items() if key not in _ENVELOPE}, told),
    )


def _bounded(value: Any, told: Callable[[str], str]) -> Any:  # noqa: ANN401 - whatever a fact holds, as JSON has it
    """The same, each text without local paths, at most `LONGEST` characters of it and `MOST_LISTED` of a list."""
    if isinstance(value, str):
        text = told(clean(value, keep="\n"))
        return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
    if isinstance(value, dict):
        return {_bounded(str(key), told): _bounded(item, told) for key, item in list(value.items())[:MOST_LISTED]}
    if isinstance(value, list | tuple):
        kept = [_bounded(item, told) for item in value[:MOST_LISTED]]
        return [*kept, f"and {len(value) - MOST_LISTED} more"] if len(value) > MOST_LISTED else kept
    return value


def without_paths(roots: Iterable[str], *, trees: Iterable[str] = ()) -> Callable[[str], str]:
    """What takes the local paths out of a text; below one of ``roots``, or a folder in ``trees``, the rest of it is kept."""
    each = [re.escape(root.rstrip("/")) for root in roots] + [rf"{re.escape(folder)}/[\w.-]*\w" for folder in trees]
    known = "|".join(sorted(filter(None, set(each)), key=len, reverse=True))
    ours = re.compile(rf"{_BEGINS}(?:{known})(?:(/+)(?=[\w.@+~-])|/*(?![\w./-]))") if known else None

    def told(text: str) -> str:
        if ours is not None:
            text = ours.sub(lambda found: "" if found[1] else ".", text)
        return _ABSOLUTE.sub(lambda found: f"path:{fingerprint('path', found[1])}" if found[1] else found[0], text)

    return told


# --- as text ---------------------------------------------------------------------------------------------------------


def text(found: Trace, now: datetime) -> str:
    """A line a fact: its time of day in the zone of ``now``, its active time, what it was; below it evidence and usage."""
    state = (
        "runs" if found.running else f"{found.result}, {found.decision}" + ("" if found.charged else ", not charged")
    )
    lines = [f"Attempt {found.attempt} of {found.basin}: {state}"]
    lines.append(
        f"Engine: {clean(found.engine, LINE)}, {clean(found.strategy, LINE)}; {', '.join(found.branches) or 'no mind yet'}"
    )
    lines.append(f"Usage: {_used(found.usage)}")
    for entry in found.entries:
        lines += _lines(entry, now)
    if found.more:
        lines.append(
            f"{counted(found.more, 'fact')} more, see: orchconverge ledger show --since {found.entries[-1].seq}"
        )
    if found.work_convergence:
        told = read(found.work_convergence, Told)
        said = sentence(told) if told.work_convergence_action is not None else "as recorded"
        lines.append(f"Work convergence: {said}")
        lines += [f"  {asked(told)}"] if asked(told) else []
        lines += [
            f"  {key}: {_said(value)}" for key, value in found.work_convergence.items() if value not in (None, [], "")
        ]
    return "\n".join(lines)


def _lines(entry: Entry, now: datetime) -> list[str]:
    at = clock(entry.at, now, seconds=True) if entry.at is not None else "-"
    active = duration(entry.active) if entry.active is not None else "-"
    said = clean(f"{entry.what}: {entry.detail}" if entry.detail else entry.what, LINE)
    lines = [f"{at:>12} {active:>8}  {said}"]
    for answer in (*entry.fact.get("evidence", ()), *entry.fact.get("results", ())):
        if isinstance(answer, dict):
            lines.append(f"{'':23}{_answer(answer)}")
    usage = entry.fact.get("usage")
    if usage:
        lines.append(f"{'':23}used {_used(msgspec.convert(usage, Usage))}")
    return lines


def _answer(answer: dict[str, Any]) -> str:
    held = msgspec.convert(answer, Evidence)
    met = {"yes": "met", "no": "unmet"}.get(held.met, held.met)
    ended = f"exit {held.exit}" if held.exit is not None else "-"
    last = clean(held.excerpt.strip().rsplit("\n", 1)[-1], LINE)
    return f"{met:8} {clean(held.criterion)}  {ended}  {held.seconds:.1f}s  tree {held.tree:.8}  {last}".rstrip()


def _used(usage: Usage) -> str:
    cost = f", ${usage.usd:.2f}" if usage.usd is not None else ", cost not told"
    cached = tokens(usage.cacheReadTokens + usage.cacheWriteTokens)
    return f"{tokens(usage.inputTokens)} tokens in, {tokens(usage.outputTokens)} out, {cached} cached{cost}"


def _said(value: Any) -> str:  # noqa: ANN401 - as above
    listed = value if isinstance(value, list) else [value]
    return clean(", ".join(str(each).lower() if isinstance(each, bool) else str(each) for each in listed), LINE)
