"""Runs as spans of OpenTelemetry: a run, its attempts, minds, criteria and steps, from facts alone and without anybody's text.

Ids are made from those of the ledger, so a controller that takes over goes on in the same trace. Minds follow the GenAI
conventions: https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-agent-spans/ .
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Final, NamedTuple

from orchconverge.core import events as e
from orchconverge.core.values import Evidence, Usage, all_tokens

Value = str | int | float | bool
PROVIDERS: Final[Mapping[str, str]] = {"claude": "anthropic", "codex": "openai", "gemini": "gcp.gemini"}
"""Agent -> the well-known name of whose models it calls. Of others that is not known: their own name stands there."""


AGENT: Final = "gen_ai.agent.name"


class Span(NamedTuple):
    """Something that is over. Ids are of 128 and 64 bits; ``error`` is empty where all went as it should."""

    name: str
    trace: int
    id: int
    parent: int | None
    start: datetime
    end: datetime
    attributes: Mapping[str, Value]
    error: str = ""


class _Open(NamedTuple):
    name: str
    trace: int
    id: int
    start: datetime
    said: Mapping[str, Value]
    parent: int | None = None


class Spans:
    """What is under way, by the facts so far."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, str], _Open] = {}
        """(kind, its id) -> what began and is not over."""
        self._told: set[int] = set()

    def take(self, fact: e.AnyFact) -> tuple[Span, ...]:
        """Take the next fact; returns what is over by it. A criterion that was answered once is told once."""
        at = fact.at
        if at is None:
            return ()
        said: dict[str, Value]
        if isinstance(fact, e.RunStarted):
            self._run(fact, at)
        elif isinstance(fact, e.AttemptStarted):
            said = {"orchconverge.attempt": fact.attempt, "orchconverge.strategy": fact.strategy}
            self._begin("attempt", fact.basin, f"attempt/{fact.attempt}", at, fact.basin, said)
        elif isinstance(fact, e.BranchSpawned):
            self._begin("mind", fact.branch, f"mind/{fact.branch}", at, fact.basin, _mind(fact))
        elif isinstance(fact, e.BranchEnded):
            return self._end("mind", fact.branch, at, _usage(fact.usage), error=_trouble(fact))
        elif isinstance(fact, e.BranchCandidate):
            return self._criteria(fact.basin, fact.evidence, at)
        elif isinstance(fact, e.BasinChecked):
            return self._criteria(fact.basin, fact.results, at)
        elif isinstance(fact, e.AttemptEnded):
            return self._end("attempt", fact.basin, at, _outcome(fact))
        elif isinstance(fact, e.StepStarted) and fact.basin is not None:
            said = {"orchconverge.step": fact.step, "orchconverge.round": fact.round}
            self._begin("step", f"{fact.basin}/{fact.step}", f"step/{fact.round}/{fact.step}", at, fact.basin, said)
        elif isinstance(fact, e.StepEnded) and fact.basin is not None:
            failed = "failed" if fact.status == "failed" else ""
            return self._end(
                "step", f"{fact.basin}/{fact.step}", at, {"orchconverge.status": fact.status}, error=failed
            )
        elif isinstance(fact, e.RunStopped):
            error = fact.reason if fact.reason in ("error", "refused") else ""
            return self._end("run", fact.basin, at, {"orchconverge.reason": fact.reason}, error=error)
        return ()

    def _run(self, fact: e.RunStarted, at: datetime) -> None:
        """A run; one that takes over goes on with the span of the lost one."""
        key = ("run", fact.basin)
        if fact.takesOver is None or key not in self._open:
            said = {"orchconverge.basin": fact.basin, "orchconverge.run": fact.run}
            self._open[key] = _Open(name="run", trace=_id(16, fact.run), id=_id(8, fact.run), start=at, said=said)

    def _begin(self, kind: str, id: str, own: str, at: datetime, basin: str, said: Mapping[str, Value]) -> None:
        """Something begins in a run, or in an attempt of it. ``own`` tells it from all else in that run."""
        run = self._open.get(("run", basin))
        if run is None:  # it was begun before there was a ledger of ours to tell of it
            return
        above = self._open.get(("attempt", basin), run) if kind == "mind" else run
        name = f"invoke_agent {said[AGENT]}" if kind == "mind" else kind
        said = {"orchconverge.basin": basin, **said}
        self._open[kind, id] = _Open(
            name=name, trace=run.trace, id=_id(8, f"{run.id}/{own}"), parent=above.id, start=at, said=said
        )

    def _end(self, kind: str, id: str, at: datetime, said: Mapping[str, Value], *, error: str = "") -> tuple[Span, ...]:
        begun = self._open.pop((kind, id), None)
        if begun is None:
            return ()
        whole = {**begun.said, **said, **({"error.type": error} if error else {})}
        return (
            Span(
                name=begun.name,
                trace=begun.trace,
                id=begun.id,
                parent=begun.parent,
                start=begun.start,
                end=max(at, begun.start),
                attributes=whole,
                error=error,
            ),
        )

    def _criteria(self, basin: str, evidence: Iterable[Evidence], at: datetime) -> tuple[Span, ...]:
        """Answers: how long each took is known, and that it had come by now."""
        run = self._open.get(("run", basin))
        if run is None:
            return ()
        above, found = self._open.get(("attempt", basin), run), []
        for one in evidence:
            id = _id(8, f"{run.id}/criterion/{one.criterion}/{one.tree}/{one.place}/{one.tries}")
            if id in self._told:
                continue
            self._told.add(id)
            said: dict[str, Value] = {
                "orchconverge.basin": basin,
                "orchconverge.criterion": one.criterion,
                "orchconverge.met": one.met,
                "orchconverge.try": one.tries,
            }
            if one.exit is not None:
                said["process.exit.code"] = one.exit
            start = at - timedelta(seconds=one.seconds)
            error = one.met if one.met == "error" else ""
            found.append(Span("criterion", run.trace, id, above.id, start, at, said, error))
        return tuple(found)


def _id(size: int, text: str) -> int:
    """An id of ``size`` bytes. It is not zero: that would be none."""
    return int.from_bytes(sha256(text.encode()).digest()[:size]) or 1


def _mind(fact: e.BranchSpawned) -> dict[str, Value]:
    agent, _, within = fact.engine.partition(":")
    provider = PROVIDERS.get(within.partition(":")[0] if agent == "acp" else agent, fact.engine)
    said: dict[str, Value] = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": provider,
        "gen_ai.system": provider,  # its older name, which many backends still read
        AGENT: fact.engine,
        "gen_ai.agent.id": fact.branch,
    }
    return {**said, "gen_ai.request.model": fact.model} if fact.model else said


def _usage(usage: Usage | None) -> dict[str, Value]:
    """Tokens as the conventions count them: those that came from, or went into, a cache are input, too."""
    if usage is None or not all_tokens(usage):
        return {}
    said: dict[str, Value] = {
        "gen_ai.usage.input_tokens": usage.inputTokens + usage.cacheReadTokens + usage.cacheWriteTokens,
        "gen_ai.usage.output_tokens": usage.outputTokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cacheReadTokens,
        "gen_ai.usage.cache_creation.input_tokens": usage.cacheWriteTokens,
    }
    return {**said, "orchconverge.usage.usd": usage.usd} if usage.usd is not None else said


def _trouble(fact: e.BranchEnded) -> str:
    if fact.limit is not None:
        return "quota"
    if fact.reason != "exited":
        return fact.reason
    return f"exit {fact.exit}" if fact.exit else "signal" if fact.signal is not None else ""


def _outcome(fact: e.AttemptEnded) -> dict[str, Value]:
    return {
        "orchconverge.result": fact.result,
        "orchconverge.decision": fact.decision,
        "orchconverge.charged": fact.charged,
        "orchconverge.criteria.met": sum(fact.criteria.values()),
        "orchconverge.criteria.total": len(fact.criteria),
    }
