"""The whole policy of the loop: from what the ledger says and what was seen, the next actions. Pure and total."""

from __future__ import annotations

from datetime import timedelta

from msgspec.structs import replace

from orchconverge.core import events as e
from orchconverge.core import judge, strategy
from orchconverge.core.actions import (
    Action,
    Append,
    EndChecks,
    EndMind,
    EndStep,
    Finish,
    LookAtTarget,
    Sleep,
    StartStep,
)
from orchconverge.core.admit import NOTHING, record_landed
from orchconverge.core.outlook import PROBE, Outlook, blocked, outlook
from orchconverge.core.places import misplaced, short_of
from orchconverge.core.seen import Absent, Ended, Lost, Now, Running, Seen, Starting, TargetSeen, Unknown
from orchconverge.core.state import Basin, Run, State
from orchconverge.core.turn import minds_alive, not_begun, stop_minds, turn
from orchconverge.core.values import Evidence, Place, StopReason, WaitFor
from orchconverge.core.views.text import clean

BEFORE_CONVERGED = ("pushl", "reviewdeep")
"""`basin.converged` follows these steps of the chain: the review may still turn a success down."""
SMALLEST_DEADLINE = 1.0
TOLD = 200
"""Cells of what the chain said against a target, where a run ends with it."""
TAMPERED = (
    "git's configuration, hooks or attributes changed during the run: undo that, or, if it is right, stop and resume"
)
UNKNOWN_QUOTA = timedelta(minutes=30)
"""How long to wait for a quota whose engine did not say when it comes back."""


def decide(state: State, seen: Seen, now: Now) -> list[Action]:
    """The next actions. Empty: something is under way, and its end will wake the controller."""
    basin = state.basins[seen.basin]
    run = basin.running
    if run is None:
        return [Finish()]
    if seen.stopping and not run.stop_requested:
        return [Append(fact=e.RunStopRequested(basin=basin.id))]
    if run.stop_requested or basin.phase == "killed":
        return _stopping(state, seen, basin, run)
    if run.waiting is not None:
        return _waiting(seen, now, basin, run)
    if basin.session is None or not state.sessions[basin.session].open:
        session = basin.session or f"session-{basin.id}"
        return [_open_session(state, basin, session, run.controller.tmux)]
    if seen.fingerprint and seen.target is not None and seen.target.fingerprint not in ("", seen.fingerprint):
        return _wait(basin, "tamper", TAMPERED)
    if seen.target is not None and seen.target.trespass:
        return _wait(basin, "branch", seen.target.trespass)
    if basin.attempt is not None:
        return turn(state, seen, now, basin, run, basin.attempt)
    return _between(state, seen, now, basin, run)


def _wait(basin: Basin, reason: WaitFor, text: str) -> list[Action]:
    return [Append(fact=e.RunWaiting(basin=basin.id, reason=reason, text=text))]


def _open_session(state: State, basin: Basin, session: str, tmux: str) -> Action:
    """The pursuit begins or goes on; it is a fork of the sessions of the pursuits that it starts from."""
    before = (state.basins[name].session for name in basin.parents if name in state.basins)
    parents = tuple(name for name in before if name is not None)
    return Append(fact=e.SessionOpened(session=session, basin=basin.id, tmux=tmux, parents=parents))


# --- ending from outside ---------------------------------------------------------------------------------------------


def _stopping(state: State, seen: Seen, basin: Basin, run: Run) -> list[Action]:
    """End what runs, record its end, stop. The attempt stays open: a resume judges what its mind had committed."""
    actions: list[Action] = [EndChecks()]
    if basin.attempt is not None:
        ends = stop_minds(state, seen, basin.attempt, at_once=seen.stopping > 1)
        if ends or minds_alive(state, seen, basin.attempt):
            return [*actions, *ends]
        actions += [EndMind(branch=name) for name in not_begun(state, basin.attempt)]
    if basin.chain.running is not None and isinstance(seen.step, Running | Starting | Unknown):
        return [*actions, EndStep()]
    if seen.checking:
        return actions
    if basin.phase == "killed":
        return [*actions, Append(fact=e.RunStopped(basin=basin.id, reason="killed", text=basin.note)), Finish()]
    return [*actions, Append(fact=e.RunStopped(basin=basin.id, reason="stopped")), Finish()]


def _waiting(seen: Seen, now: Now, basin: Basin, run: Run) -> list[Action]:
    """Whether what the run waits for is over."""
    assert run.waiting is not None
    waiting = run.waiting
    over = False
    if waiting.until is not None:
        answered = waiting.reason == "verdict" and not blocked(basin, run)
        over = answered or now.wall >= waiting.until
    elif waiting.reason in ("disk", "memory", "limit"):
        over = short_of(seen, run) is None
    elif waiting.reason in ("branch", "tamper"):
        if seen.target is None:
            return [LookAtTarget()]
        over = (
            seen.target.fingerprint in ("", seen.fingerprint)
            and misplaced(basin, run, seen.target, landing=True) is None
        )
    if over:
        return [Append(fact=e.RunWoke(basin=basin.id))]
    return NOTHING


# --- between attempts ------------------------------------------------------------------------------------------------


def _between(state: State, seen: Seen, now: Now, basin: Basin, run: Run) -> list[Action]:
    look = outlook(basin, run, now)
    if basin.chain.running is not None or basin.phase == "converged":
        return _finish(state, seen, now, basin, run, look)
    if look.ends and _over(basin, run):
        return _finish(state, seen, now, basin, run, look)
    target = seen.target
    if target is None:
        return [LookAtTarget()]
    elsewhere = misplaced(basin, run, target)
    if elsewhere is not None:
        return _wait(basin, "branch", elsewhere)
    unrecorded = record_landed(state, seen, basin, target)
    if unrecorded:
        return unrecorded
    if basin.phase == "open" and not _checked(basin, run, target):
        return _check_target(state, seen, basin, run, target)
    refused = _refusal(state, basin)
    if refused is not None:
        stopped = e.RunStopped(basin=basin.id, reason="refused", text=refused)
        return [Append(fact=stopped), Append(fact=e.BasinKilled(basin=basin.id, reason=refused)), Finish()]
    look = outlook(basin, run, now)
    if look.ends:
        return _finish(state, seen, now, basin, run, look)
    if look.until is not None:
        return [Append(fact=e.RunWaiting(basin=basin.id, reason="verdict", text=look.text, until=look.until))]
    engine = _engine(basin, run, seen, now)
    if isinstance(engine, e.RunWaiting):
        return [Append(fact=engine)]
    due = strategy.due(basin, run)
    if now.active < due:
        return [Sleep(until=now.mono + due - now.active)]
    short = short_of(seen, run)
    if short is not None:
        return _wait(basin, *short)
    return [Append(fact=_next_attempt(basin, run, now, engine))]


def _over(basin: Basin, run: Run) -> bool:
    """Whether the final chain ran to its end in this run: what it committed itself is no reason to judge again."""
    chain = basin.chain
    last = chain.done[-1].at if chain.done else None
    done = not chain.stale and set(run.settings.chain) <= set(chain.names)
    return done and last is not None and run.started is not None and last >= run.started


def _checked(basin: Basin, run: Run, target: TargetSeen) -> bool:
    """Whether the target's tip was checked in this run, where its next attempt works: a directory holds more than git has."""
    in_place = basin.tip is not None and any(x.place == "here" for x in basin.tip.results.values())
    moved = in_place and strategy.place(basin, run) == "fresh"
    return run.checked and judge.answered(basin, target.head) and not moved


def _check_target(state: State, seen: Seen, basin: Basin, run: Run, target: TargetSeen) -> list[Action]:
    """Run the criteria on the target's tip: before the first attempt in the caller's directory and in a fresh tree."""
    assert target.head is not None
    assert target.tree is not None
    criteria = [c for c in basin.criteria if c.in_loop]
    found: list[Evidence] = []
    for place in _places(seen, basin, run, target):
        part = judge.answers(state, seen, criteria=criteria, tree=target.tree, commit=target.head, place=place)
        if part.missing:
            return list(part.missing)
        found += part.evidence
    fact = e.BasinChecked(basin=basin.id, head=target.head, tree=target.tree, results=tuple(found))
    return [Append(fact=fact)]


def _places(seen: Seen, basin: Basin, run: Run, target: TargetSeen) -> tuple[Place, ...]:
    """Where the tip is checked; the last one is what counts. The caller's directory only while it is clean and there."""
    clean = target.checkout is not None and not target.checkout.dirty and target.tree not in seen.spoiled
    if strategy.place(basin, run) == "here":
        if not clean:
            return ("fresh",)
        return ("fresh", "here") if basin.start is None else ("here",)
    return ("here", "fresh") if basin.start is None and run.settings.base == target.head and clean else ("fresh",)


def _refusal(state: State, basin: Basin) -> str | None:
    """Why the target makes no sense as it was found at the start, with what to type; ``None`` once an attempt was made."""
    if basin.attempts or basin.tip is None or basin.start is None or basin.tip.head != basin.start.head:
        return None
    known = state.results.get(basin.id, {})
    for criterion in basin.criteria:
        here = known.get((criterion.name, basin.tip.tree, "here"))
        fresh = known.get((criterion.name, basin.tip.tree, "fresh"))
        if here is not None and fresh is not None and here.met == "yes" and fresh.met != "yes":
            return (
                f"{criterion.name} holds in your directory and not in a fresh tree of the same commit: "
                "add a setup command (setup in orchconverge.toml) or a .worktreeinclude"
            )
    if judge.only_conditions_missing(basin, basin.tip.results):
        return (
            "everything that is checked holds already, so nothing would show that the goal is met: "
            "add --criterion NAME=COMMAND for what is still missing"
        )
    return None


def _engine(basin: Basin, run: Run, seen: Seen, now: Now) -> strategy.Strategy | e.RunWaiting:
    """The engine that is next, or what to wait for where no engine of the chain can be used."""
    following = strategy.following(basin, run)
    found = strategy.engine_for(basin, run, following.engine, now.wall, seen.absent)
    if found is not None:
        return found
    names = [engine.partition(":")[0] for engine in run.settings.engines]
    limits = [basin.quotas[name] for name in names if name in basin.quotas and name not in run.signed_out | seen.absent]
    if limits:
        until = min(limit.until or now.wall + UNKNOWN_QUOTA for limit in limits)
        engine = next(limit.engine for limit in limits if (limit.until or now.wall + UNKNOWN_QUOTA) == until)
        text = f"{engine} has no quota until {until:%H:%M} UTC. No attempt is charged"
        return e.RunWaiting(basin=basin.id, reason="quota", text=text, until=until, engine=engine)
    text = "; ".join(strategy.unusable(basin, run, name, now.wall, seen.absent) for name in dict.fromkeys(names))
    return e.RunWaiting(basin=basin.id, reason="blocked", text=f"{text}: put that right", until=now.wall + PROBE)


def _next_attempt(basin: Basin, run: Run, now: Now, engine: strategy.Strategy) -> e.AttemptStarted:
    plan = strategy.following(basin, run)
    if engine.why:  # another engine than the plan's has no context to go on in
        plan = replace(engine, why=f"{engine.why}; {plan.why}", fresh=True)
    if blocked(basin, run):
        plan = replace(plan, strategy="continue", why="it was blocked, and blocks pass", fresh=False)
    if (against := judge.objections(basin)) and plan.strategy == "continue":
        plan = replace(plan, why=f"{', '.join(one.criterion for one in against)} turned it down")
    left = run.settings.attemptSeconds
    if run.limits.hours is not None:
        left = min(left, run.limits.hours * 3600 - now.active)
    return e.AttemptStarted(
        basin=basin.id,
        attempt=basin.attempts + 1,
        strategy=plan.strategy if plan.fresh or plan.strategy == "wider" else "continue",
        why=plan.why,
        engine=engine.engine,
        width=1 if run.settings.retries or blocked(basin, run) else strategy.width(basin, run),
        deadline=max(SMALLEST_DEADLINE, left),
        retries=run.settings.retries or None,
    )


# --- the final chain and the end -------------------------------------------------------------------------------------


def _finish(state: State, seen: Seen, now: Now, basin: Basin, run: Run, look: Outlook) -> list[Action]:
    """Run what is left of the chain, then close. A wait for a person ends the controller without a chain."""
    if look.stop == "waiting" or (look.stop == "limit" and not run.settings.loop):
        return [Append(fact=e.RunStopped(basin=basin.id, reason=look.stop, text=look.text)), Finish()]
    chain = basin.chain
    if chain.running is not None:
        return _follow_step(seen, basin, chain.round, chain.running)
    anew = chain.stale or _asks_again(basin, run)
    done = () if anew else chain.names
    left = [step for step in run.settings.chain if step not in done]
    converging = basin.phase == "open" and basin.tip is not None and judge.holds(basin, basin.tip.results)
    if converging and not judge.unsettled(basin) and not any(step in BEFORE_CONVERGED for step in left):
        return [Append(fact=e.BasinConverged(basin=basin.id, note=_note(basin)))]
    if left:
        number = chain.round + 1 if anew else chain.round
        argv = seen.step_argv.get(left[0], (left[0],))
        return [Append(fact=e.StepStarted(basin=basin.id, round=number, step=left[0], argv=argv))]
    return _leave(state, basin, look)


def _asks_again(basin: Basin, run: Run) -> bool:
    """Whether this run asks what the chain could not settle in the one before."""
    last = basin.chain.done[-1].at if basin.chain.done else None
    before = last is not None and run.started is not None and last < run.started
    return before and basin.phase == "open" and bool(judge.unsettled(basin))


def _follow_step(seen: Seen, basin: Basin, number: int, step: str) -> list[Action]:
    if isinstance(seen.step, Absent | Lost):
        return [StartStep(round=number, step=step)]
    if not isinstance(seen.step, Ended) or seen.step_result is None:
        return NOTHING
    result = seen.step_result
    ended = e.StepEnded(
        basin=basin.id,
        round=number,
        step=step,
        status=result.status,
        detail=result.detail,
        url=result.url,
        commit=result.commit,
        results=result.results,
        findings=result.findings,
        usage=result.usage,
    )
    if step == "report" and result.path:
        written = e.ReportWritten(basin=basin.id, path=result.path, commit=result.commit)
        if basin.report != result.path:
            return [Append(fact=written), Append(fact=ended)]
    return [Append(fact=ended)]


def _note(basin: Basin) -> str:
    """What the chain could not run here, said on the ledger."""
    held = {one.criterion for one in basin.chain.said if one.met == "yes"}
    unasked = [c.name for c in basin.criteria if c.required and not c.in_loop and c.name not in held]
    return f"could not be run here: {', '.join(unasked)}" if unasked else ""


def _leave(state: State, basin: Basin, look: Outlook) -> list[Action]:
    actions: list[Action] = []
    questions = tuple(q.question for q in state.frontier.values() if q.basin == basin.id)
    if basin.phase == "converged":
        if basin.residue and not basin.harvested:
            harvest = e.BasinHarvested(basin=basin.id, residue=basin.residue, frontier=questions, decidedBy="auto")
            actions.append(Append(fact=harvest))
        if basin.session is not None and state.sessions[basin.session].open:
            closed = e.SessionClosed(session=basin.session, basin=basin.id, reason="met")
            actions.append(Append(fact=closed))
    reason: StopReason
    reason, text = look.stop or "error", look.text
    against = judge.objections(basin) or judge.unsettled(basin)
    if basin.phase == "open" and against:
        reason = "waiting" if reason == "converged" else reason
        text = "; ".join((text, *(f"{one.criterion} is not met: {clean(one.text, TOLD)}" for one in against)))
    return [*actions, Append(fact=e.RunStopped(basin=basin.id, reason=reason, text=text)), Finish()]
