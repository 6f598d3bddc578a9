"""One attempt, from its first branch to its judgement: what is still to be done, read off the facts."""

from __future__ import annotations

from collections.abc import Sequence

from orchconverge.core import events as e
from orchconverge.core import judge
from orchconverge.core.actions import (
    Action,
    Append,
    EndMind,
    KillMind,
    LookAtTarget,
    LookAtWork,
    ReadMind,
    Spawn,
    StartMind,
)
from orchconverge.core.admit import NOTHING, admit, close
from orchconverge.core.flags import flags, matches
from orchconverge.core.places import misplaced, short_of
from orchconverge.core.seen import Absent, Ended, Exit, Lost, MindEnd, Now, Probe, Running, Seen, Work
from orchconverge.core.state import UNSETTLED, Attempt, Basin, Branch, Phase, Run, State
from orchconverge.core.strategy import approach, place, reserve
from orchconverge.core.target import Sha
from orchconverge.core.values import EndReason, Place, Process, Usage

NO_PROCESS = Process(boot="", pid=0, start=0)


def turn(state: State, seen: Seen, now: Now, basin: Basin, run: Run, attempt: Attempt) -> list[Action]:
    """The next actions of the running attempt. Empty: something is under way and its end will wake us."""
    if not attempt.opened:
        return [Append(fact=e.BasinOpened(basin=basin.id, wave=attempt.number))]
    branches = [state.branches[b] for b in attempt.branches]
    actions = [action for branch in branches for action in _follow(state, seen, basin, run, branch)]
    under_way = any(branch.phase in UNSETTLED or branch.may_run for branch in branches)
    wanting = len(branches) < attempt.width and not any(branch.limit is not None for branch in branches)
    if wanting:  # one mind without quota is told for all: the rest of the wave is not started
        actions += _spawn(state, seen, basin, run, attempt, branches, alone=not under_way)
    if actions or under_way or wanting:
        return actions
    return admit(state, seen, now, basin, run, branches) or close(state, seen, now, basin, run, branches)


def _spawn(
    state: State, seen: Seen, basin: Basin, run: Run, attempt: Attempt, branches: Sequence[Branch], *, alone: bool
) -> list[Action]:
    """What starts the rest of the wave, as far as there is room for it. All minds of a wave begin at one recorded base."""
    short = short_of(seen, run)
    if short is not None:
        return [Append(fact=e.RunWaiting(basin=basin.id, reason=short[0], text=short[1]))] if alone else NOTHING
    if seen.target is None:
        return [LookAtTarget()]
    elsewhere = misplaced(basin, run, seen.target)
    if elsewhere is not None or seen.target.head is None:
        return [Append(fact=e.RunWaiting(basin=basin.id, reason="branch", text=elsewhere or ""))] if alone else NOTHING
    context = _context(state, seen, basin, run, attempt)
    if context is not None:
        return [Append(fact=context)]
    most = run.settings.maxMinds
    room = range(min(attempt.width - len(branches), most - seen.minds))
    base = branches[0].base if branches else seen.target.head
    return [Spawn(fact=_spawned(seen, basin, run, attempt, base=base, nth=nth), most=most) for nth in room]


def _spawned(seen: Seen, basin: Basin, run: Run, attempt: Attempt, *, base: Sha, nth: int) -> e.BranchSpawned:
    here = place(basin, run) == "here"
    name, _, model = attempt.engine.partition(":")
    number = basin.branches + 1 + nth
    return e.BranchSpawned(
        basin=basin.id,
        branch=f"{basin.id}.{number}",
        approach=approach(basin, run, number),
        gitBranch=basin.target if here else f"orchconverge/m-{_short(seen, nth)}",
        worktree=run.settings.checkout if here else f"{seen.trees}/m-{_short(seen, nth)}",
        base=base,
        engine=name,
        model=model,
        place="here" if here else "fresh",
        reserve=reserve(basin),
        retries=attempt.retries,
    )


def _short(seen: Seen, nth: int) -> str:
    """A random id for names of ours, another for each mind of a wave: no number, so that nothing tells a mind of another."""
    whole = f"{int(seen.random.replace('-', ''), 16) * (2 * nth + 1):032x}"
    return whole[-32:-20]


def _context(state: State, seen: Seen, basin: Basin, run: Run, attempt: Attempt) -> e.SessionContext | None:
    """The engine context to declare before the spawn: in place attempts go on in one, until it is to be a fresh one."""
    engine = attempt.engine.partition(":")[0]
    if place(basin, run) != "here" or engine not in seen.contextual or basin.session is None:
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
    if not branch.may_run:
        return NOTHING
    probe = seen.probes.get(branch.id)
    if (branch.phase is Phase.PRUNED or branch.id in seen.over) and isinstance(probe, Running):
        return [EndMind(branch=branch.id)]
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
    if reason == "killed" and (end.calls.denied or end.calls.overspent):
        reason = "denied" if end.calls.denied else "budget"
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
        calls=end.calls,
        signedOut=end.outcome.auth_failed,
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
    asked = [
        Append(fact=e.FrontierAdded(question=q, origin=branch.id, basin=basin.id, blocks=end.report.blocked.get(q)))
        for q in questions
    ]
    why = _not_a_candidate(branch, end, work)
    if why:
        fact = e.BranchFailed(
            basin=basin.id, branch=branch.id, reason=why, verdict=end.report.verdict, residue=end.report.residue
        )
        return [*asked, Append(fact=fact)]
    before = basin.tip.results if basin.tip is not None else {}
    stands = branch.place == "here" and end.stands and not end.leftovers and work.tree not in seen.spoiled
    where: Place = "here" if stands else "fresh"
    found = judge.answers(
        state,
        seen,
        criteria=[c for c in basin.criteria if c.in_loop],
        tree=work.tree,
        commit=work.head,
        place=where,
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
        return f"committed nothing{_how(branch)}{kept}{_said(branch, end)}"
    if not work.changed:
        return f"its commits change nothing{_how(branch)}{kept}"
    return ""


def _said(branch: Branch, end: MindEnd) -> str:
    """The last words of a mind that tried and could not: what a hook or git said to its commit is among them."""
    said = " ".join(end.outcome.summary.split())[-300:]
    return f"; it said last: {said}" if said and (end.leftovers or branch.exit) else ""


def _how(branch: Branch) -> str:
    if branch.limit is not None:
        return f", {branch.limit.engine} has no quota"
    if branch.reason == "lost":
        return ", its supervisor was killed"
    if branch.reason == "deadline":
        return ", stopped at its deadline"
    if branch.reason == "killed":
        return ", ended from outside"
    if branch.reason == "denied":
        return ", ended because its work did not converge"
    if branch.reason == "budget":
        return ", ended at its share of the budget"
    said = f": {branch.error}" if branch.error else ""
    if branch.signal:
        return f", killed by signal {branch.signal}{said}"
    return f", exit {branch.exit}{said}" if branch.exit else f", though it ended by itself{said}"


def stop_minds(state: State, seen: Seen, attempt: Attempt, *, at_once: bool) -> list[Action]:
    """End the minds of the running attempt, with their time to end themselves or without; record the ends."""
    actions: list[Action] = []
    for name in attempt.branches:
        branch = state.branches[name]
        if not branch.may_run:
            continue
        probe = seen.probes.get(name)
        if isinstance(probe, Running):
            actions.append(KillMind(branch=name) if at_once else EndMind(branch=name))
        elif branch.phase is not Phase.SPAWNED and isinstance(probe, Ended | Lost | Absent):
            end = seen.ends.get(name)
            basin = state.basins[branch.basin]
            actions.append(ReadMind(branch=name) if end is None else Append(fact=_ended(basin, branch, probe, end)))
        elif branch.phase is Phase.SPAWNED and isinstance(probe, Ended | Lost):
            actions += _start(seen, branch, probe)
    return actions


def minds_alive(state: State, seen: Seen, attempt: Attempt) -> bool:
    """Whether a mind of the attempt may still run."""
    for name in attempt.branches:
        branch, probe = state.branches[name], seen.probes.get(name)
        if branch.may_run and not (branch.phase is Phase.SPAWNED and isinstance(probe, Absent)):
            return True
    return False


def not_begun(state: State, attempt: Attempt) -> list[str]:
    """Branches whose mind is not known to have begun: a start that is on its way is to be withdrawn."""
    return [name for name in attempt.branches if state.branches[name].phase is Phase.SPAWNED]
