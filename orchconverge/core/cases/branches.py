"""Cases of branches: from the intent to spawn a mind to its graft or its end."""

from __future__ import annotations

from msgspec.structs import replace

from orchconverge.core import events as e
from orchconverge.core import values as v
from orchconverge.core.fold import TEXT, Fold, on, refuse
from orchconverge.core.state import Basin, Branch, Phase


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
        error=fact.error[:TEXT],
    )
    began = basin.attempt.active if basin.attempt is not None else 0.0
    active = max(fold.active(basin), began + fact.seconds)
    _context_seen(fold, basin, branch.engine, fact)
    active = max(active, fact.active or 0.0)
    quota = fact.limit or basin.quota
    fold.put(basin, fact, usage=v.added(basin.usage, fact.usage), active=active, quota=quota)


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
    )
    fold.remember(branch.basin, fact.evidence)
    basin = fold.basin(branch.basin)
    fold.put(basin, fact, **({"residue": basin.residue + fact.residue} if fact.residue else {}))


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
    if basin.phase == "killed":
        refuse(f"{basin.id} is killed", "nothing is grafted for a killed basin")
    fold.branches[branch.id] = replace(
        branch,
        phase=Phase.GRAFTED,
        merge_commit=fact.mergeCommit,
        decided_by=fact.decidedBy,
        decided_at=fact.at,
    )
    fold.remember(basin.id, fact.evidence)
    fold.put(basin, fact)


@on(e.ResidueGrafted)
def _residue_grafted(fold: Fold, fact: e.ResidueGrafted) -> None:
    fold.branch(fact.branch, Phase.CANDIDATE, Phase.FAILED, Phase.PRUNED, Phase.GRAFTED)
    fold.put(fold.basin(fact.basin), fact)


@on(e.GraftRefused)
def _refused(fold: Fold, fact: e.GraftRefused) -> None:
    branch = fold.branch(fact.branch, Phase.CANDIDATE, Phase.FAILED, Phase.PRUNED)
    if fact.tip in branch.refused_tips:
        refuse(f"{branch.id} was refused on {fact.tip:.8} before", "a graft is tried once on one tip")
    said = fact.why or ", ".join((*(f"conflict in {p}" for p in fact.conflicts), *(f"{c} lost" for c in fact.lost)))
    fold.branches[branch.id] = replace(branch, refused_tips=(*branch.refused_tips, fact.tip), refusal=said[:TEXT])
    fold.remember(branch.basin, fact.evidence)
    fold.put(fold.basin(branch.basin), fact)


@on(e.ProposalMade)
def _proposal(fold: Fold, fact: e.ProposalMade) -> None:
    basin = fold.basin(fact.basin)
    if basin.phase != "open":
        refuse(f"{basin.id} is {basin.phase}", "a proposal is made for an open basin")
    fold.put(basin, fact)


@on(e.BranchPruned)
def _pruned(fold: Fold, fact: e.BranchPruned) -> None:
    branch = fold.branch(fact.branch, Phase.CANDIDATE, Phase.FAILED, Phase.SEARCHING)
    fold.branches[branch.id] = replace(
        branch, phase=Phase.PRUNED, failure=fact.reason[:TEXT], decided_by=fact.decidedBy, decided_at=fact.at
    )
    basin = fold.basin(branch.basin)
    fold.put(basin, fact, **({"residue": basin.residue + fact.residue} if fact.residue else {}))


@on(e.BranchReconciled)
def _reconciled(fold: Fold, fact: e.BranchReconciled) -> None:
    branch = fold.branch(fact.branch)
    try:
        phase = Phase(fact.to)
    except ValueError:
        refuse(f"{fact.to} is no phase of a branch", "a branch is reconciled to a phase it can have")
    fold.branches[branch.id] = replace(branch, phase=phase)
    fold.put(fold.basin(branch.basin), fact)
