"""What a report tells of commands: the attempts of each engine, the steps of the final chain, what was said in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from orchconverge.core import events as e
from orchconverge.core.chain import Step
from orchconverge.core.measures import trend
from orchconverge.core.report_record import CommandReported, CommentReported, FindingReported, StepReported
from orchconverge.core.secrets import masked
from orchconverge.core.state import Basin, Past
from orchconverge.core.views.text import clean, counted

COMMANDS: Final = {"pushl": "/pushl", "reviewdeep": "/reviewdeep", "copilot": "/copilot", "report": "report"}
Said = Callable[[str], str]
"""Makes text of others harmless, and takes the paths of this machine out of it."""


def ended(basin: Basin, facts: Sequence[e.AnyFact]) -> tuple[Step, ...]:
    """The steps that are over, each as it ended last, by the facts if they were read, else those of the newest round."""
    if not facts:
        return basin.chain.done
    last = {
        fact.step: Step(name=fact.step, status=fact.status, detail=fact.detail, url=fact.url, at=fact.at)
        for fact in facts
        if isinstance(fact, e.StepEnded)
    }
    return tuple(last.values())


def effects(basin: Basin, facts: Sequence[e.AnyFact], said: Said) -> tuple[CommandReported, ...]:
    """The slash commands that ran: how often, how long, and what each changed."""
    return (*_converge(basin, said), *(_steps(basin, facts, said) if facts else _kept(basin, said)))


def _converge(basin: Basin, said: Said) -> list[CommandReported]:
    whole = len(basin.counted)
    scores = trend(basin).scores
    scores = scores if len(scores) > len(basin.history) else (0, *scores)
    numbers = [past.number for past in basin.history]
    before, after = dict(zip(numbers, scores, strict=False)), dict(zip(numbers, scores[1:], strict=True))
    by_engine: dict[str, list[Past]] = {}
    for past in basin.history:
        by_engine.setdefault(past.engine, []).append(past)
    out = []
    for engine, those in by_engine.items():
        gained = sum(max(0, after[p.number] - before[p.number]) for p in those)
        met = f"{after[those[-1].number]}/{whole} met after it"
        out.append(
            CommandReported(
                command="/converge",
                engine=said(engine),
                runs=len(those),
                seconds=sum(past.active_ended - past.active_started for past in those),
                effect=f"{counted(gained, 'criterion', 'criteria')} gained, {met}",
            )
        )
    return out


def _steps(basin: Basin, facts: Sequence[e.AnyFact], said: Said) -> list[CommandReported]:
    began: dict[tuple[int, str], datetime | None] = {}
    took: dict[str, list[float]] = {}
    for fact in facts:
        if isinstance(fact, e.StepStarted):
            began[fact.round, fact.step] = fact.at
        elif isinstance(fact, e.StepEnded):
            start = began.get((fact.round, fact.step))
            seconds = (fact.at - start).total_seconds() if fact.at is not None and start is not None else 0.0
            took.setdefault(fact.step, []).append(seconds)
    return [_step(step, said, runs=len(took[step.name]), seconds=sum(took[step.name])) for step in ended(basin, facts)]


def _kept(basin: Basin, said: Said) -> list[CommandReported]:
    """What the fold kept of steps: no time."""
    return [_step(step, said, runs=1, seconds=None) for step in basin.chain.done]


def _step(step: Step, said: Said, *, runs: int, seconds: float | None) -> CommandReported:
    return CommandReported(
        command=COMMANDS.get(step.name, said(step.name)),
        engine=None,
        runs=runs,
        seconds=seconds,
        effect=said(step.detail),
        status=step.status,
        url=address(step.url),
    )


def reported_steps(basin: Basin, facts: Sequence[e.AnyFact], said: Said) -> tuple[StepReported, ...]:
    """The steps that are over, with the comments that their last end has and the findings of all of them."""
    found = {fact.step: fact.findings for fact in facts if isinstance(fact, e.StepEnded)}
    return tuple(
        StepReported(
            step=said(step.name),
            status=step.status,
            detail=said(step.detail),
            url=address(step.url),
            by=said(" ".join(basin.run.settings.replaced.get(step.name, ()))) if basin.run is not None else "",
            findings=_findings([f for f in facts if isinstance(f, e.StepEnded) and f.step == step.name], said),
            comments=tuple(_comment(one, said) for one in found.get(step.name, ()) if "outcome" in one),
        )
        for step in ended(basin, facts)
    )


def _findings(ends: Sequence[e.StepEnded], said: Said) -> tuple[FindingReported, ...]:
    """What was found in any round, oldest first, each once: the same thing is found again on another line.

    A round that could not look says nothing of what stands.
    """
    rounds = [fact.findings for fact in ends if fact.findings or fact.status == "done"]
    last = {_about(one) for found in rounds[-1:] for one in found}
    every = {_about(one): one for found in rounds for one in found if "outcome" not in one}
    return tuple(_finding(one, said, stands=about in last) for about, one in every.items())


def _about(one: Mapping[str, Any]) -> object:
    return str(one.get("path", "")), str(one.get("title", "")).lower()


def _finding(one: Mapping[str, Any], said: Said, *, stands: bool) -> FindingReported:
    return FindingReported(
        severity=said(str(one.get("severity", ""))),
        path=said(str(one.get("path", ""))),
        line=_number(one.get("line")),
        title=said(str(one.get("title", ""))),
        stands=stands,
    )


def _comment(one: Mapping[str, Any], said: Said) -> CommentReported:
    commit = one.get("commit")
    return CommentReported(
        severity=said(str(one.get("severity", ""))),
        path=said(str(one.get("path", ""))),
        line=_number(one.get("line")),
        author=said(str(one.get("author", ""))),
        url=address(str(one.get("url", ""))) or "",
        outcome=said(str(one.get("outcome", "")).replace("_", " ")),
        reason=said(str(one.get("reason", ""))),
        commit=said(str(commit)) if commit else None,
    )


def address(url: str | None) -> str | None:
    """An address, in which nothing is a path of this machine."""
    return masked(clean(url)) if url is not None else None


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
