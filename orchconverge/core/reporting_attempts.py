"""What a report tells of the attempts: how the criteria moved, what took time, what came of each turn and each mind."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from orchconverge.core import events as e
from orchconverge.core.measures import met_of, trend
from orchconverge.core.report_record import AttemptReported, CandidateReported, Point, Span
from orchconverge.core.secrets import masked
from orchconverge.core.standing import queue
from orchconverge.core.state import Basin, Branch, Phase, State
from orchconverge.core.views.markdown import Paths
from orchconverge.core.views.text import clean
from orchconverge.core.views.work import asked, closes, motion, plain, read, sentence
from orchconverge.core.work_record import Told


class Source(NamedTuple):
    """What a report is made of: a basin, its facts, oldest first, if they were read, and the paths that no report holds."""

    state: State
    basin: Basin
    facts: Sequence[e.AnyFact]
    now: datetime
    paths: Paths

    def said(self, text: str) -> str:
        """Text of others, harmless, without secrets and without paths of this machine."""
        return self.paths.out_of(masked(clean(text)))

    @property
    def branches(self) -> tuple[Branch, ...]:
        """The branches of the basin, oldest first."""
        return self.state.branches_of(self.basin.id)


def progress(basin: Basin) -> tuple[Point, ...]:
    """Required criteria met on the target, at the start and after each attempt."""
    scores = trend(basin).scores
    first = len(basin.history) + 1 - len(scores)
    return tuple(Point(attempt=first + at, met=score) for at, score in enumerate(scores))


def timeline(told: Source) -> tuple[Span, ...]:
    """What ran and what was waited for, as far as its two ends are known, by section and in order of beginning."""
    out = []
    for past in told.basin.history:
        if past.started is not None and past.ended is not None:
            label = f"{past.number} {past.result.replace('_', ' ')}"
            out.append(Span(section="attempts", label=label, start=past.started, end=past.ended))
    began: dict[str, tuple[str, datetime]] = {}
    for fact in told.facts:
        if fact.at is None:
            continue
        if isinstance(fact, e.RunWaiting):
            began["wait"] = (fact.reason, fact.at)
        elif isinstance(fact, e.RunWoke | e.RunStopped | e.RunStarted) and "wait" in began:
            reason, start = began.pop("wait")
            out.append(Span(section="waits", label=f"for {reason}", start=start, end=fact.at, waits=True))
        elif isinstance(fact, e.StepStarted):
            began[fact.step] = (fact.step, fact.at)
        elif isinstance(fact, e.StepEnded) and fact.step in began:
            _, start = began.pop(fact.step)
            out.append(Span(section="final steps", label=told.said(fact.step), start=start, end=fact.at))
    return tuple(sorted(out, key=lambda span: span.start))


def history(told: Source) -> tuple[AttemptReported, ...]:
    """The attempts that are over, oldest first."""
    out = []
    for past in told.basin.history:
        work = read(past.convergence, Told)
        how = f" ({asked(work)})" if asked(work) else ""
        denied = work.work_convergence_action == "deny_ordinary_continuation"
        failed = past.failure if past.result not in ("success", "partial_success") else ""
        out.append(
            AttemptReported(
                attempt=past.number,
                started=past.started,
                active_seconds=round(past.active_ended - past.active_started, 1),
                strategy=told.said(past.strategy),
                approach=told.said(past.approach),
                engine=told.said(past.engine),
                result=past.result,
                charged=past.charged,
                progress=past.progress,
                text=told.said(past.text or past.summary),
                obstacle=told.said(f"verdict: {past.verdict}" if past.verdict else failed),
                convergence="" if plain(work) else told.said(f"{sentence(work)}{how}"),
                denied=told.said(f"{motion(work)}. What would have closed it: {closes(work)}") if denied else "",
            )
        )
    return tuple(out)


def candidates(told: Source) -> tuple[CandidateReported, ...]:
    """What came of the minds in worktrees that made something."""
    parts = {fact.branch: fact.mergeCommit for fact in told.facts if isinstance(fact, e.ResidueGrafted)}
    met = {
        fact.branch: met_of(told.basin, {x.criterion: x for x in fact.evidence})
        for fact in told.facts
        if isinstance(fact, e.BranchCandidate)
    }
    waiting = {branch.id for branch in queue(told.state, told.basin)}
    out = []
    for branch in told.branches:
        if branch.admitted or branch.phase not in (Phase.GRAFTED, Phase.PRUNED, Phase.CANDIDATE):
            continue
        fate = "grafted" if branch.phase is Phase.GRAFTED else "pruned" if branch.phase is Phase.PRUNED else "refused"
        fate = "waits" if branch.id in waiting else "part taken" if branch.id in parts and fate != "grafted" else fate
        own = {x.criterion: x for x in branch.evidence}
        out.append(
            CandidateReported(
                branch=branch.id,
                approach=told.said(branch.approach),
                met=met.get(branch.id, met_of(told.basin, own) if own else None),
                fate=fate,
                commit=branch.merge_commit or parts.get(branch.id),
            )
        )
    return tuple(out)
