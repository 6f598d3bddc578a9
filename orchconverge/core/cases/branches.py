"""Cases of branches: from the intent to spawn a mind to its graft or its end."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from orchconverge.core import events as e
from orchconverge.core import values as v
from orchconverge.core.fold import TEXT, Fold, on, refuse
from orchconverge.core.state import Attempt, Basin, Branch, Phase, Proposal


@on(e.BranchSpawned)
def _spawned(fold: Fold, fact: e.BranchSpawned) -> None:
    basin, attempt = fold.attempt(fact.basin)
    if fact.branch in fold.branches:
        refuse(f"{fact.branch} was spawned already", "a branch is spawned once")
    if basin.phase != "open":
        refuse(f"{basin.id} is {basin.phase}", "minds are spawned for open basins")
    fold.branches[fact.branch] = Branch(
        id=fact.branch,
        basin=basin.id,
        attempt=attempt.number,
        phase=Phase.SPAWNED,
        approach=fact.approach,
        git_branch=fact.gitBranch,
        worktree=fact.worktree,
        base=fact.base,
        engine=fact.engine,
        place=fact.place,
        model=fact.model,
        retries=fact.retries,
        active=max(fold.active(basin), fact.active or 0.0),
        spawned_at=fact.at,
    )
    fold.waves[basin.id] = (*fold.waves.get(basin.id, ()), fact.branch)
    grown = replace(attempt, branches=(*attempt.branches, fact.branch))
    fold.put(basin, fact, attempt=grown, branches=basin.branches + 1)


@on(e.BranchSearching)
def _searching(fold: Fold, fact: e.BranchSearching) -> None:
    branch = fold.branch(fact.branch, Phase.SPAWNED)
    fold.branches[branch.id] = replace(branch, phase=Phase.SEARCHING, process=fact.process, session=fact.session)
    fold.put(fold.basin(branch.basin), fact)


@on(e.BranchEnded)
def _ended(fold: Fold, fact: e.BranchEnded) -> None:
    branch = fold.branch(fact.branch, Phase.SEARCHING, Phase.PRUNED)
    if not branch.may_run:
        refuse(f"the mind of {branch.id} is gone", "a mind ends once")
    basin = fold.basin(branch.basin)
    phase = Phase.ENDED if branch.phase is Phase.SEARCHING else branch.phase
    fold.branches[branch.id] = replace(
        branch,
        phase=phase,
        reason=fact.reason,
        exit=fact.exit,
        signal=fact.signal,
        seconds=fact.seconds,
        head=fact.head,
        usage=fact.usage,
        limit=fact.limit,
        calls=fact.calls,
        error=fact.error[:TEXT],
    )
    began = basin.attempt.active if basin.attempt is not None else 0.0
    active = max(fold.active(basin), began + fact.seconds)
    _context_seen(fold, basin, branch.engine, fact)
    active = max(active, fact.active or 0.0)
    changes: dict[str, Any] = {"usage": v.added(basin.usage, fact.usage), "active": active}
    if fact.limit is not None:
        changes["quotas"] = {**basin.quotas, fact.limit.engine: fact.limit}
    if fact.signedOut and basin.run is not None:
        changes["run"] = replace(basin.run, signed_out=basin.run.signed_out | {branch.engine})
    fold.put(basin, fact, **changes)


def _context_seen(fold: Fold, basin: Basin, engine: str, fact: e.BranchEnded) -> None:
    session = fold.sessions.get(basin.session or "")
    context = session.contexts.get(engine) if session is not None else None
    if session is None or context is None or fact.context is None:
        return
    known = replace(context, shown=context.shown or fact.context == "shown", lost=fact.context == "lost")
    fold.sessions[session.id] = replace(session, contexts={**session.contexts, engine: known})


@on(e.BranchCandidate)
def _candidate(fold: Fold, fact: e.BranchCandidate) -> None:
    branch = fold.branch(fact.branch, Phase.ENDED)
    if fact.head == branch.base:
        refuse(f"{fact.branch} has nothing new", "a candidate has at least one commit and a diff that is not empty")
    fold.branches[branch.id] = replace(
        branch,
        phase=Phase.CANDIDATE,
        head=fact.head,
        summary=fact.summary[:TEXT],
        evidence=fact.evidence,
        commits=fact.commits,
        admitted=fact.admitted,
        flags=fact.flags,
        candidate_at=fact.at,
    )
    fold.remember(branch.basin, fact.evidence)
    basin = fold.basin(branch.basin)
    queue = basin.queue if fact.admitted else (*basin.queue, branch.id)
    fold.put(basin, fact, queue=queue, residue=basin.residue + fact.residue)


@on(e.BranchFailed)
def _failed(fold: Fold, fact: e.BranchFailed) -> None:
    branch = fold.branch(fact.branch, Phase.SPAWNED, Phase.ENDED)
    fold.branches[branch.id] = replace(
        branch, phase=Phase.FAILED, failure=fact.reason[:TEXT], verdict=fact.verdict, usage=fact.usage or branch.usage
    )
    basin = fold.basin(branch.basin)
    fold.put(basin, fact, **({"residue": basin.residue + fact.residue} if fact.residue else {}))


@on(e.BranchGrafted)
def _grafted(fold: Fold, fact: e.BranchGrafted) -> None:
    branch = fold.branch(fact.branch, Phase.CANDIDATE)
    if branch.admitted:
        refuse(f"{branch.id} is on the target already", "only a candidate that waits can be grafted")
    basin = fold.basin(branch.basin)
    if basin.phase != "open":
        refuse(f"{basin.id} is {basin.phase}", "whole branches are grafted for open basins")
    fold.branches[branch.id] = replace(
        branch,
        phase=Phase.GRAFTED,
        merge_commit=fact.mergeCommit,
        decided_by=fact.decidedBy,
        decided_at=fact.at,
    )
    fold.remember(basin.id, fact.evidence)
    amended = basin.attempts if fact.decidedBy.startswith("person") else basin.amended
    fold.put(basin, fact, queue=_without(basin, branch), merges=(*basin.merges, fact.mergeCommit), amended=amended)


def _without(basin: Basin, branch: Branch) -> tuple[str, ...]:
    return tuple(name for name in basin.queue if name != branch.id)


@on(e.ResidueGrafted)
def _residue_grafted(fold: Fold, fact: e.ResidueGrafted) -> None:
    branch = fold.branch(fact.branch, Phase.CANDIDATE, Phase.FAILED, Phase.PRUNED, Phase.GRAFTED, Phase.ENDED)
    basin = fold.basin(fact.basin)
    if branch.basin != basin.id:
        refuse(f"{branch.id} is no branch of {basin.id}", "parts are taken of the basin's own branches")
    if fact.mergeCommit in basin.merges:
        refuse(f"{fact.mergeCommit:.8} is on record", "a commit is recorded once")
    if basin.phase == "killed":
        refuse(f"{basin.id} is killed", "nothing is grafted for a killed basin")
    if branch.head is None:
        refuse(f"{branch.id} has no commits", "parts are taken of a branch whose commits are kept")
    fold.remember(basin.id, fact.evidence)
    fold.put(basin, fact, merges=(*basin.merges, fact.mergeCommit), parts_landed=basin.parts_landed + 1)


@on(e.GraftRefused)
def _refused(fold: Fold, fact: e.GraftRefused) -> None:
    branch = fold.branch(fact.branch, Phase.CANDIDATE, Phase.FAILED, Phase.PRUNED, Phase.GRAFTED)
    basin = fold.basin(branch.basin)
    said = fact.why or ", ".join((*(f"conflict in {p}" for p in fact.conflicts), *(f"{c} lost" for c in fact.lost)))
    if fact.paths or fact.commits:
        part = (fact.tip, fact.criterion, fact.paths or fact.commits)
        if part in branch.refused_parts:
            refuse(f"that part of {branch.id} was refused on {fact.tip:.8} before", "a part is tried once on one tip")
        fold.branches[branch.id] = replace(branch, refused_parts=branch.refused_parts | {part})
        fold.put(basin, fact, attempt=_turned_down(basin, fact, said), parts_refused=basin.parts_refused + 1)
        return
    if branch.phase is Phase.GRAFTED:
        refuse(f"{branch.id} is grafted", "a branch is grafted once")
    if fact.tip in branch.refused_tips:
        refuse(f"{branch.id} was refused on {fact.tip:.8} before", "a graft is tried once on one tip")
    tips = (*branch.refused_tips, fact.tip)
    fold.branches[branch.id] = replace(branch, refused_tips=tips, refusal=said[:TEXT], conflicts=fact.conflicts)
    fold.remember(branch.basin, fact.evidence)
    fold.put(basin, fact, attempt=_turned_down(basin, fact, said))


def _turned_down(basin: Basin, fact: e.GraftRefused, said: str) -> Attempt | None:
    """The running attempt, with what was refused in it: the proposal names it."""
    if basin.attempt is None:
        return None
    part = v.Part(branch=fact.branch, criterion=fact.criterion, commits=fact.commits, paths=fact.paths)
    refused = v.TurnedDown(part=part, onto=fact.tip, conflicts=fact.conflicts, lost=fact.lost, why=said[:TEXT])
    return replace(basin.attempt, refused=(*basin.attempt.refused, refused))


@on(e.ProposalMade)
def _proposal(fold: Fold, fact: e.ProposalMade) -> None:
    basin = fold.basin(fact.basin)
    if basin.phase != "open":
        refuse(f"{basin.id} is {basin.phase}", "a proposal is made for an open basin")
    if not fact.parts:
        refuse("it proposes nothing", "a proposal has at least one part that passed the gate")
    for taken in fact.parts:
        branch = fold.branch(taken.part.branch, Phase.CANDIDATE, Phase.FAILED, Phase.PRUNED, Phase.GRAFTED)
        if branch.basin != basin.id:
            refuse(f"{branch.id} is no branch of {basin.id}", "a proposal is made of the basin's own branches")
    proposal = Proposal(
        tip=fact.tip,
        graft=fact.graft,
        parts=fact.parts,
        refused=fact.refused,
        head=fact.head,
        tree=fact.tree,
        evidence=fact.evidence,
        at=fact.at,
    )
    fold.put(basin, fact, proposal=proposal)


@on(e.BranchPruned)
def _pruned(fold: Fold, fact: e.BranchPruned) -> None:
    branch = fold.branch(fact.branch, Phase.CANDIDATE, Phase.FAILED, Phase.SEARCHING)
    if branch.admitted:
        refuse(f"{branch.id} is on the target already", "what is admitted is not pruned")
    fold.branches[branch.id] = replace(
        branch, phase=Phase.PRUNED, failure=fact.reason[:TEXT], decided_by=fact.decidedBy, decided_at=fact.at
    )
    basin = fold.basin(branch.basin)
    fold.put(basin, fact, queue=_without(basin, branch), residue=basin.residue + fact.residue)


@on(e.BranchReconciled)
def _reconciled(fold: Fold, fact: e.BranchReconciled) -> None:
    branch = fold.branch(fact.branch)
    try:
        phase = Phase(fact.to)
    except ValueError:
        refuse(f"{fact.to} is no phase of a branch", "a branch is reconciled to a phase it can have")
    if fact.observed == branch.observed:
        refuse(f"that of {branch.id} is on record", "what recovery saw is recorded once")
    fold.branches[branch.id] = replace(branch, phase=phase, observed=fact.observed)
    basin = fold.basin(branch.basin)
    queue = _without(basin, branch)
    if phase is Phase.CANDIDATE and not branch.admitted:
        queue = basin.queue if branch.id in basin.queue else (*queue, branch.id)
    merges = (*basin.merges, fact.mergeCommit) if fact.mergeCommit is not None else basin.merges
    fold.put(basin, fact, queue=queue, merges=merges)
