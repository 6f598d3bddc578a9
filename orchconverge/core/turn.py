"""One attempt, from its first branch to its judgement: what is still to be done, read off the facts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from orchconverge.core import events as e
from orchconverge.core import judge
from orchconverge.core.actions import (
    Action,
    Append,
    CleanUp,
    EndMind,
    KillMind,
    Land,
    LookAtTarget,
    LookAtWork,
    ReadMind,
    Squash,
    StartMind,
)
from orchconverge.core.flags import flags, matches
from orchconverge.core.outlook import judged
from orchconverge.core.places import misplaced
from orchconverge.core.seen import Absent, Ended, Exit, Lost, MindEnd, Now, Probe, Running, Seen, TargetSeen, Work
from orchconverge.core.state import UNSETTLED, Attempt, Basin, Branch, Phase, Run, State
from orchconverge.core.strategy import approach
from orchconverge.core.target import Sha
from orchconverge.core.values import EndReason, Place, Process, Usage

NOTHING: list[Action] = []
OBSTACLE_SEEN_BY_GIT_ALONE = timedelta(minutes=5)
"""How long to wait where a target cannot be moved for a reason that only another try can see gone."""
NO_PROCESS = Process(boot="", pid=0, start=0)


def turn(state: State, seen: Seen, now: Now, basin: Basin, run: Run, attempt: Attempt) -> list[Action]:
    """The next actions of the running attempt. Empty: something is under way and its end will wake us."""
    if not attempt.opened:
        return [Append(fact=e.BasinOpened(basin=basin.id, wave=attempt.number))]
    if len(attempt.branches) < attempt.width:
        return _spawn(state, seen, basin, run, attempt)
    branches = [state.branches[b] for b in attempt.branches]
    for branch in branches:
        if branch.phase in UNSETTLED:
            actions = _follow(state, seen, basin, run, branch)
            if actions:
                return actions
    if any(branch.phase in UNSETTLED for branch in branches):
        return NOTHING
    return _admit(state, seen, now, basin, run, branches) or _close(state, seen, now, basin, run, branches)


def _spawn(state: State, seen: Seen, basin: Basin, run: Run, attempt: Attempt) -> list[Action]:
    if seen.target is None:
        return [LookAtTarget()]
    elsewhere = misplaced(basin, run, seen.target)
    if elsewhere is not None or seen.target.head is None:
        return [Append(fact=e.RunWaiting(basin=basin.id, reason="branch", text=elsewhere or ""))]
    context = _context(state, seen, basin, run, attempt)
    if context is not None:
        return [Append(fact=context)]
    here = run.settings.place == "here"
    name, _, model = attempt.engine.partition(":")
    number = basin.branches + 1
    fact = e.BranchSpawned(
        basin=basin.id,
        branch=f"{basin.id}.{number}",
        approach=approach(basin, run, attempt.number),
        gitBranch=basin.target if here else f"orchconverge/m-{_short(seen)}",
        worktree=run.settings.checkout if here else f"{seen.trees}/m-{_short(seen)}",
        base=seen.target.head,
        engine=name,
        model=model,
        place=run.settings.place,
    )
    return [Append(fact=fact)]


def _short(seen: Seen) -> str:
    """A random id for names of ours: no number, so that nothing tells a mind of another."""
    return seen.random.replace("-", "")[:12]


def _context(state: State, seen: Seen, basin: Basin, run: Run, attempt: Attempt) -> e.SessionContext | None:
    """The engine context to declare before the spawn: in place attempts go on in one, until it is to be a fresh one."""
    engine = attempt.engine.partition(":")[0]
    if run.settings.place != "here" or engine not in seen.contextual or basin.session is None:
        return None
    known = state.sessions[basin.session].contexts.get(engine)
    if known is not None and known.attempt == attempt.number:
        return None
    if known is None:
        why = "the first of this engine"
    elif attempt.strategy != "continue":
        why = attempt.why
    elif known.lost:
        why = "the engine did not know the last one"
    else:
        return None
    return e.SessionContext(session=basin.session, engine=engine, engineSession=seen.random, why=why)


def _follow(state: State, seen: Seen, basin: Basin, run: Run, branch: Branch) -> list[Action]:
    """What an unsettled branch needs next."""
    if branch.phase is Phase.ENDED:
        return _verify(state, seen, basin, run, branch)
    probe = seen.probes.get(branch.id)
    if branch.phase is Phase.SPAWNED:
        return _start(seen, branch, probe)
    if isinstance(probe, Ended | Lost | Absent):
        end = seen.ends.get(branch.id)
        if end is None:
            return [ReadMind(branch=branch.id)]
        return [Append(fact=_ended(basin, branch, probe, end))]
    return NOTHING


def _start(seen: Seen, branch: Branch, probe: Probe | None) -> list[Action]:
    if isinstance(probe, Absent):
        return [StartMind(branch=branch.id)]
    if isinstance(probe, Ended) and probe.exit.reason == "refused":
        reason = probe.exit.error or "the supervisor refused to start it"
        return [Append(fact=e.BranchFailed(basin=branch.basin, branch=branch.id, reason=reason))]
    if isinstance(probe, Running | Ended | Lost):
        process = probe.process or NO_PROCESS
        session = seen.sessions.get(branch.id, "")
        fact = e.BranchSearching(basin=branch.basin, branch=branch.id, session=session, process=process)
        return [Append(fact=fact)]
    return NOTHING


def _ended(basin: Basin, branch: Branch, probe: Ended | Lost | Absent, end: MindEnd) -> e.BranchEnded:
    found = probe.exit if isinstance(probe, Ended) else Exit(reason="killed")
    reason: EndReason = "lost"
    if isinstance(probe, Ended):
        reason = "exited" if found.reason == "refused" else found.reason
    return e.BranchEnded(
        basin=basin.id,
        branch=branch.id,
        reason=reason,
        seconds=found.seconds,
        head=end.head,
        exit=found.code,
        signal=found.signal,
        usage=end.outcome.usage,
        limit=end.outcome.limit,
        context="lost" if end.outcome.context_lost else "shown" if end.outcome.context else None,
        error=_explained(end, found),
    )


def _explained(end: MindEnd, found: Exit) -> str:
    parts = [end.outcome.error or found.error]
    if end.outcome.auth_failed:
        parts.append("the engine is not signed in")
    if end.outcome.context_lost:
        parts.append("the engine did not know its context")
    if end.outcome.refused:
        parts.append("refused calls: " + "; ".join(end.outcome.refused[:5]))
    if found.survivors:
        parts.append("could not be ended: " + ", ".join(found.survivors[:5]))
    return ". ".join(p for p in parts if p)


def _verify(state: State, seen: Seen, basin: Basin, run: Run, branch: Branch) -> list[Action]:
    """Claims are checked against git: real head, descends from base, commits, a diff that is not empty; then criteria."""
    end, work = seen.ends.get(branch.id), seen.works.get(branch.id)
    if end is None:
        return [ReadMind(branch=branch.id)]
    if work is None:
        return [LookAtWork(branch=branch.id)]
    questions = [q for q in end.report.frontier if q not in state.frontier]
    asked = [Append(fact=e.FrontierAdded(question=q, origin=branch.id, basin=basin.id)) for q in questions]
    why = _not_a_candidate(branch, end, work)
    if why:
        fact = e.BranchFailed(
            basin=basin.id, branch=branch.id, reason=why, verdict=end.report.verdict, residue=end.report.residue
        )
        return [*asked, Append(fact=fact)]
    before = basin.tip.results if basin.tip is not None else {}
    stands = branch.place == "here" and end.stands and not end.leftovers and work.tree not in seen.spoiled
    place: Place = "here" if stands else "fresh"
    found = judge.answers(
        state,
        seen,
        criteria=[c for c in basin.criteria if c.in_loop],
        tree=work.tree,
        commit=work.head,
        place=place,
        before=before,
    )
    if found.missing:
        return list(found.missing)
    candidate = e.BranchCandidate(
        basin=basin.id,
        branch=branch.id,
        head=work.head,
        summary=end.report.summary or "; ".join(c.subject for c in reversed(work.commits[:5])),
        evidence=found.evidence,
        commits=len(set(work.commits) - set(end.strangers)),
        usage=branch.usage or Usage(),
        admitted=branch.place == "here",
        flags=(*_foreign(work, end, basin), *flags(work, basin.criteria, basin.may_change)),
        residue=end.report.residue,
    )
    return [*asked, Append(fact=candidate)]


def _foreign(work: Work, end: MindEnd, basin: Basin) -> list[str]:
    """Flags on what is not the mind's to commit: a person's own changes, and commits that only this machine has."""
    swept = [f"your uncommitted changes: {path}" for path in end.theirs if path in work.changed]
    linked = [path for path in work.linked if not any(matches(path, glob) for glob in basin.may_change)]
    return [*swept, *(f"commit of another repository: {path}" for path in linked)]


def _not_a_candidate(branch: Branch, end: MindEnd, work: Work) -> str:
    """Why this branch is no candidate, or an empty string."""
    own = set(work.commits) - set(end.strangers)
    if end.strangers and not own:
        return f"committed nothing; a person did meanwhile: {end.strangers[0].sha:.8} {end.strangers[0].subject}"
    if end.report.verdict is not None and not work.commits:
        return f"verdict: {end.report.verdict.text}"
    if not work.descends:
        return f"its head {work.head:.8} does not descend from its base {branch.base:.8}; its commits are kept"
    kept = f"; what it left uncommitted is kept: {', '.join(end.leftovers[:5])}" if end.leftovers else ""
    if not work.commits:
        return f"committed nothing{_how(branch)}{kept}"
    if not work.changed:
        return f"its commits change nothing{_how(branch)}{kept}"
    return ""


def _how(branch: Branch) -> str:
    if branch.limit is not None:
        return f", {branch.limit.engine} has no quota"
    if branch.reason == "lost":
        return ", its supervisor was killed"
    if branch.reason == "deadline":
        return ", stopped at its deadline"
    if branch.reason == "killed":
        return ", ended from outside"
    said = f": {branch.error}" if branch.error else ""
    return f", exit {branch.exit}{said}" if branch.exit else f", though it ended by itself{said}"


def _admit(state: State, seen: Seen, now: Now, basin: Basin, run: Run, branches: Sequence[Branch]) -> list[Action]:
    """Graft the plain case: one candidate, not flagged, gated on the squashed tree at the target's tip."""
    if basin.lock != "auto" or run.settings.place == "here":
        return NOTHING
    for branch in branches:
        if branch.phase is Phase.CANDIDATE and not branch.admitted and not branch.flags:
            if seen.target is None:
                return [LookAtTarget()]
            tip = seen.target.head
            if tip is None or tip in branch.refused_tips:
                continue
            return _graft(state, seen, now, basin, run, branch, seen.target, tip)
    return NOTHING


def _graft(
    state: State, seen: Seen, now: Now, basin: Basin, run: Run, branch: Branch, target: TargetSeen, tip: Sha
) -> list[Action]:
    """One step of a graft. A commit that a lost controller made already was found by its trailer, and is taken as is."""
    landed = seen.landed.get(branch.id)
    if landed is None and (basin.tip is None or basin.tip.head != tip):
        return _recheck(state, seen, basin)
    squash = seen.squashes.get((branch.id, tip))
    tree = landed.tree if landed is not None else squash.tree if squash is not None else None
    if tree is None and squash is None:
        return [Squash(branch=branch.id, tip=tip)]
    if tree is None or basin.tip is None:
        conflicts = squash.conflicts if squash is not None else ()
        return [Append(fact=e.GraftRefused(basin=basin.id, branch=branch.id, tip=tip, conflicts=conflicts))]
    before = basin.tip.results
    expected = {**before, **{x.criterion: x for x in branch.evidence if x.met == "yes"}}
    criteria = [c for c in basin.criteria if c.in_loop]
    commit = landed.commit if landed is not None else tip
    found = judge.answers(state, seen, criteria=criteria, tree=tree, commit=commit, place="fresh", before=expected)
    if found.missing:
        return list(found.missing)
    after = {x.criterion: x for x in found.evidence}
    gone = judge.lost(expected, after)
    if landed is None and (gone or not judge.gained(basin, before, after)):
        why = f"lost: {', '.join(gone)}" if gone else "it gains no criterion"
        fact = e.GraftRefused(basin=basin.id, branch=branch.id, tip=tip, lost=gone, evidence=found.evidence, why=why)
        return [Append(fact=fact)]
    if landed is None and seen.obstacle:
        seen_again = misplaced(basin, run, target, landing=True) is not None
        until = None if seen_again else now.wall + OBSTACLE_SEEN_BY_GIT_ALONE
        return [Append(fact=e.RunWaiting(basin=basin.id, reason="branch", text=seen.obstacle, until=until))]
    if landed is None:
        return [Land(branch=branch.id, tip=tip, tree=tree)]
    grafted = e.BranchGrafted(
        basin=basin.id,
        branch=branch.id,
        mergeCommit=landed.commit,
        tree=tree,
        evidence=found.evidence,
        decidedBy="auto: nothing lost, at least one criterion gained",
    )
    return [Append(fact=grafted)]


def _recheck(state: State, seen: Seen, basin: Basin) -> list[Action]:
    """Run the criteria on the target's tip where it moved since they were run."""
    target = seen.target
    if target is None or target.head is None or target.tree is None:
        return [LookAtTarget()]
    before = basin.tip.results if basin.tip is not None else None
    criteria = [c for c in basin.criteria if c.in_loop]
    found = judge.answers(
        state, seen, criteria=criteria, tree=target.tree, commit=target.head, place="fresh", before=before
    )
    if found.missing:
        return list(found.missing)
    fact = e.BasinChecked(basin=basin.id, head=target.head, tree=target.tree, results=found.evidence)
    return [Append(fact=fact)]


def _close(state: State, seen: Seen, now: Now, basin: Basin, run: Run, branches: Sequence[Branch]) -> list[Action]:
    """Judge the attempt on the target's tip and end it."""
    if seen.target is None:
        return [LookAtTarget()]
    if run.settings.place != "here" and basin.tip is not None and seen.target.head not in (None, basin.tip.head):
        return _recheck(state, seen, basin)
    ends = judged(basin, run, now, branches, seen)
    return [Append(fact=ends), *(CleanUp(branch=b.id) for b in branches)]


def stop_minds(state: State, seen: Seen, attempt: Attempt, *, at_once: bool) -> list[Action]:
    """End the minds of the running attempt, with their time to end themselves or without; record the ends."""
    actions: list[Action] = []
    for name in attempt.branches:
        branch = state.branches[name]
        if branch.phase not in (Phase.SPAWNED, Phase.SEARCHING):
            continue
        probe = seen.probes.get(name)
        if isinstance(probe, Running):
            actions.append(KillMind(branch=name) if at_once else EndMind(branch=name))
        elif branch.phase is Phase.SEARCHING and isinstance(probe, Ended | Lost | Absent):
            end = seen.ends.get(name)
            basin = state.basins[branch.basin]
            actions.append(ReadMind(branch=name) if end is None else Append(fact=_ended(basin, branch, probe, end)))
        elif branch.phase is Phase.SPAWNED and isinstance(probe, Ended | Lost):
            actions += _start(seen, branch, probe)
    return actions


def minds_alive(state: State, seen: Seen, attempt: Attempt) -> bool:
    """Whether a mind of the attempt may still run."""
    for name in attempt.branches:
        phase, probe = state.branches[name].phase, seen.probes.get(name)
        if phase is Phase.SEARCHING or (phase is Phase.SPAWNED and not isinstance(probe, Absent)):
            return True
    return False


def not_begun(state: State, attempt: Attempt) -> list[str]:
    """Branches whose mind is not known to have begun: a start that is on its way is to be withdrawn."""
    return [name for name in attempt.branches if state.branches[name].phase is Phase.SPAWNED]
