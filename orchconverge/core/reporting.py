"""What of a ledger a convergence report tells: one record of a basin, from its state and, where they were read, its facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from orchconverge.core import events as e
from orchconverge.core.measures import first_met_by, limits, met_of, results
from orchconverge.core.needs import Damage, needs
from orchconverge.core.outlook import outlook
from orchconverge.core.report_record import (
    AskedOfYou,
    CommitReported,
    CriterionReported,
    Merged,
    Outcome,
    PullReported,
    Report,
    Rests,
)
from orchconverge.core.reporting_attempts import Source, candidates, history, progress, timeline
from orchconverge.core.reporting_chain import address, effects, ended, reported_steps
from orchconverge.core.reporting_decisions import decided, typed, used
from orchconverge.core.seen import Commit, Now
from orchconverge.core.shown import Answered, Counted, QuestionShown, ResidueShown, Used
from orchconverge.core.standing import queue
from orchconverge.core.state import Basin, Phase, State
from orchconverge.core.target import Criterion
from orchconverge.core.values import Evidence, Met, all_tokens
from orchconverge.core.views.markdown import Paths
from orchconverge.core.views.text import clean

SCHEMA: Final = 1
EXCERPT: Final = 120
"""Cells of the last line of a check's output."""
_WORDS: Final = {
    "SUCCESS": "all required criteria met",
    "TIME_LIMIT": "time limit reached",
    "ATTEMPT_LIMIT": "attempt limit reached",
    "BUDGET_LIMIT": "budget used",
    "STALLED": "stalled",
    "BLOCKED": "waits for a person",
    "WAITING": "waits for a person",
    "UNSATISFIED": "not satisfied",
    "STOPPED": "stopped",
    "IN_PROGRESS": "under way",
    "ERROR": "ended by an error",
}
_STOPPED: Final = {
    "stalled": "STALLED",
    "waiting": "WAITING",
    "stopped": "STOPPED",
    "unsatisfied": "UNSATISFIED",
    "error": "ERROR",
    "refused": "REFUSED",
}


def reported(
    state: State,
    basin_id: str,
    *,
    now: datetime,
    seq_from: int,
    seq_to: int,
    bad: int,
    commits: Sequence[Commit] = (),
    facts: Sequence[e.AnyFact] = (),
    pull: PullReported | None = None,
) -> Report:
    """The record of one basin. ``now`` is aware, and the zone that times are said in.

    ``commits`` are those of the target since the start, oldest first. With the basin's ``facts``, oldest first, decisions
    have their time and decider, parts that were taken are named, waits are drawn and every round of the final steps counts;
    without them it holds what the fold kept. ``pull`` is what the forge says, if it was asked. Raises `KeyError` for a basin
    that is not declared.
    """
    basin = state.basins[basin_id]
    trees = [branch.worktree for branch in state.branches_of(basin_id)]
    trees += [basin.run.settings.checkout] if basin.run is not None else []
    own = [fact for fact in facts if getattr(fact, "basin", None) == basin_id]
    told = Source(state=state, basin=basin, facts=own, now=now, paths=Paths(trees))
    most, usage = limits(basin), basin.usage
    return Report(
        schema=SCHEMA,
        basin=basin.id,
        macrostate=told.said(basin.macrostate),
        goal=told.said(basin.goal),
        outcome=_outcome(told),
        attempts=Counted(n=basin.charged, max=most.attempts),
        uncharged=sum(not past.charged for past in basin.history),
        active_seconds=round(basin.active, 1),
        most_hours=most.hours,
        days=_days(basin),
        usd=Used(used=usage.usd, max=most.usd),
        tokens=Used(used=all_tokens(usage), max=most.tokens),
        merged=_merged(told),
        needs_you=_needs(told),
        criteria=_criteria(told),
        progress=progress(basin),
        timeline=timeline(told),
        history=history(told),
        candidates=candidates(told),
        commits=tuple(
            CommitReported(commit=c.sha, subject=told.said(c.subject), criteria=tuple(map(told.said, c.criteria)))
            for c in commits
        ),
        decisions=decided(told.state, basin, own, told.said),
        residue=_residue(told),
        obstacles=_obstacles(told),
        frontier=tuple(
            QuestionShown(
                question=told.said(q.question),
                origin=told.said(q.origin),
                basin=q.basin,
                blocks=told.said(q.blocks) if q.blocks is not None else None,
            )
            for q in state.frontier.values()
            if q.basin == basin.id
        ),
        commands=(*effects(basin, own, told.said), *typed(basin, own)),
        usage=used(state, basin, own),
        steps=reported_steps(basin, own, told.said),
        pull_request=pull,
        reproduce=_reproduce(told),
        rests=Rests(
            seq_from=seq_from,
            seq_to=seq_to,
            bad=bad,
            permissions=basin.run.settings.permissions if basin.run is not None else None,
            record=_record(basin),
        ),
        written=now,
    )


# --- the outcome -----------------------------------------------------------------------------------------------------


def _outcome(told: Source) -> Outcome:
    basin, run = told.basin, told.basin.run
    word, decision = _decision(told)
    stopped = run.stop_text if run is not None and decision != "SUCCESS" else ""
    return Outcome(
        word=word,
        decision=decision,
        met=met_of(basin),
        required=len(basin.counted),
        target=told.said(basin.target),
        base=basin.start.head if basin.start is not None else None,
        head=basin.tip.head if basin.tip is not None else None,
        note=told.said(basin.note or stopped),
    )


def _decision(told: Source) -> tuple[str, str]:
    """The word of the title, and the decision."""
    basin, run = told.basin, told.basin.run
    if basin.phase == "converged":
        return "converged", "SUCCESS"
    if basin.phase == "killed":
        return "killed", "KILLED"
    if run is None:
        return "declared, never opened", "DECLARED"
    decision = _STOPPED.get(run.stopped or "") if not run.open else None
    if decision is None:
        decision = outlook(basin, run, Now(active=basin.active, mono=0.0, wall=told.now)).decision
    if run.stopped == "limit" and not run.open and not decision.endswith("_LIMIT"):
        decision = "TIME_LIMIT"  # the next attempt would have begun after it
    return _WORDS.get(decision, decision.lower()), decision


def _days(basin: Basin) -> int:
    times = [t for past in basin.history for t in (past.started, past.ended) if t is not None]
    return (max(times).date() - min(times).date()).days + 1 if times else 1


def _merged(told: Source) -> Merged:
    branches = told.branches
    waiting = len(queue(told.state, told.basin))
    return Merged(
        grafted=sum(b.phase is Phase.GRAFTED for b in branches),
        in_place=sum(b.admitted for b in branches),
        parts=sum(isinstance(fact, e.ResidueGrafted) for fact in told.facts),
        pruned=sum(b.phase is Phase.PRUNED for b in branches),
        waiting=waiting,
        refused=max(0, sum(b.waits for b in branches) - waiting),
    )


def _needs(told: Source) -> tuple[AskedOfYou, ...]:
    basin = told.basin
    found = needs(told.state, now=told.now, leases={}, silent={}, ledger=Damage())
    asks = [
        AskedOfYou(sentence=told.said(n.sentence), command=n.command, url=None)
        for n in found
        if n.basin == basin.id and n.kind != "question"
    ]
    asks += [
        AskedOfYou(sentence="merge", command=None, url=address(step.url))
        for step in ended(basin, told.facts)
        if step.name == "pushl" and step.url is not None and basin.phase == "converged"
    ]
    return tuple(asks)


def _record(basin: Basin) -> str | None:
    """The record of a pull request in the state directory, if a step names it."""
    name = f"pr/{basin.id}.json"
    return name if any(name in step.detail for step in basin.chain.done) else None


def _reproduce(told: Source) -> tuple[str, ...]:
    """What to type, in order, to see for oneself what holds."""
    basin = told.basin
    if basin.tip is None:
        return ()
    return (
        f"git checkout --detach {basin.tip.head[:12]}",
        *(told.said(c.command) for c in basin.criteria if c.command and c.in_loop),
    )


# --- criteria --------------------------------------------------------------------------------------------------------


def _criteria(told: Source) -> tuple[CriterionReported, ...]:
    basin = told.basin
    start = basin.start.results if basin.start is not None else {}
    end, by = results(basin), _first_met(told)
    answered: dict[str, Met] = {one.criterion: one.met for one in basin.chain.said}
    out = []
    for criterion in sorted(basin.criteria, key=lambda c: not c.required):
        name, found = criterion.name, end.get(criterion.name)
        before = start.get(name)
        first = None if criterion.condition else by.get(name) or first_met_by(told.state, basin, criterion)
        out.append(
            CriterionReported(
                name=name,
                kind=criterion.kind,
                required=criterion.required,
                stage="loop" if criterion.in_loop else "chain",
                asked=told.said(_asked(criterion)),
                met=found.met if found is not None else answered.get(name),
                first_met_by=first,
                evidence=_evidence(told, found) if found is not None else None,
                start=before.met if before is not None else None,
                condition=criterion.condition,
            )
        )
    return tuple(out)


def _asked(criterion: Criterion) -> str:
    return criterion.command or ", ".join(criterion.paths) or criterion.text


def _evidence(told: Source, found: Evidence) -> Answered:
    last = clean(found.excerpt, keep="\n").strip().rsplit("\n", 1)[-1]
    return Answered(
        exit=found.exit,
        seconds=round(found.seconds, 1),
        tree=found.tree,
        digest=found.digest,
        tail=clean(told.said(last), EXCERPT),
    )


def _first_met(told: Source) -> Mapping[str, str]:
    """By the facts: who brought each criterion onto the target first. Those that held at the start are not in it."""
    start, by = told.basin.start, dict[str, str]()
    held = {name for name, x in start.results.items() if x.met == "yes"} if start is not None else set[str]()
    for fact in told.facts:
        if isinstance(fact, e.BranchGrafted) or (isinstance(fact, e.BranchCandidate) and fact.admitted):
            name = fact.branch
        elif isinstance(fact, e.ResidueGrafted):
            name = f"{fact.branch}, in part"
        else:
            continue
        for x in fact.evidence:
            if x.met == "yes" and x.criterion not in held:
                by.setdefault(x.criterion, name)
    return by


# --- what is left ----------------------------------------------------------------------------------------------------


def _residue(told: Source) -> tuple[ResidueShown, ...]:
    """What was learned; what was learned twice, as it was said last."""
    once = {" ".join(one.text.split()): one for one in reversed(told.basin.residue)}
    return tuple(
        ResidueShown(text=told.said(r.text), paths=tuple(map(told.said, r.paths)), criterion=r.criterion)
        for r in reversed(once.values())
    )


def _obstacles(told: Source) -> tuple[str, ...]:
    found = [f"Attempt {past.attempt}: {past.obstacle}" for past in history(told) if past.obstacle]
    found += [f"Waited for {f.reason}: {told.said(f.text)}" for f in told.facts if isinstance(f, e.RunWaiting)]
    return tuple(dict.fromkeys(found))
