"""What is shown of a ledger: the state, what may be probed and the time, as one frozen record that every view prints.

Text that others wrote is harmless in it already; only views clip it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from msgspec.structs import asdict

from orchconverge.core.events import AnyFact
from orchconverge.core.export import export
from orchconverge.core.happened import happened
from orchconverge.core.measures import (
    active_seconds,
    first_met_by,
    limits,
    met_of,
    nearest,
    results,
    stall,
    trend,
)
from orchconverge.core.needs import Damage, Need, at_lock, go_on, lock_command, needs, waits_since
from orchconverge.core.shown import (
    Answered,
    AttemptShown,
    BasinShown,
    BranchShown,
    Controller,
    Counted,
    CriterionShown,
    Ledger,
    Lock,
    Minds,
    NextEvent,
    Probes,
    Projection,
    QuestionShown,
    Queued,
    Quota,
    ResidueShown,
    SessionShown,
    TargetShown,
    Used,
    WaitsFor,
)
from orchconverge.core.standing import (
    FOR_A_PERSON,
    GROUPS,
    PHASES,
    decided,
    exit_code,
    group,
    phase,
    queue,
    shown_first,
    unaccepted,
)
from orchconverge.core.state import Basin, Branch, Past, Phase, State
from orchconverge.core.strategy import following, place
from orchconverge.core.target import Criterion
from orchconverge.core.values import all_tokens
from orchconverge.core.views.text import clean, counted, duration
from orchconverge.core.views.work import read
from orchconverge.core.waits import At, Wait, next_attempt, waits_for
from orchconverge.core.work_record import ERROR, Record, Told

__all__ = ["PHASES", "Damage", "Need", "Probes", "Projection", "exit_code", "export", "project"]

SCHEMA: Final = 1
EVENTS_AT_MOST: Final = 50
ATTEMPTS_AT_MOST: Final = 50
EXCERPT: Final = 120
"""Cells of the last line of a check's output."""


def project(
    state: State,
    *,
    probes: Probes,
    now: datetime,
    recent: Sequence[AnyFact] = (),
    basin: str | None = None,
    details: bool = True,
) -> Projection:
    """Everything that is shown.

    ``now`` is aware, and times of day are said in its zone. ``recent`` are the newest facts, oldest first. ``basin`` is the
    one whose status block is wanted; without it `shown_first`. ``details=False`` leaves criteria, branches, residue and
    questions of all the others out, which `views.status` does not print: hundreds of basins then cost little.
    """
    found = needs(state, now=now, leases=probes.leases, silent=probes.silent, ledger=probes.ledger)
    first = shown_first(state)
    wanted = basin if basin is not None else first.id if first is not None else None
    drawn = [
        _basin(state, one, probes, now, found, details=details or one.id == wanted) for one in state.basins.values()
    ]
    shown = tuple(one for one, _ in sorted(drawn, key=lambda pair: GROUPS.index(pair[0].group)))
    alone = next((one for one in shown if one.id == wanted), None)
    damage = probes.ledger
    return Projection(
        schema=SCHEMA,
        as_of=now.astimezone(UTC),
        utc_offset=int((now.utcoffset() or timedelta()).total_seconds()),
        ledger=Ledger(
            seq=probes.seq,
            bad=damage.bad,
            lines=damage.lines,
            illegal=damage.illegal,
            unknown=damage.unknown,
            torn=damage.torn,
            newest=probes.newest,
        ),
        needs_you=found,
        next_event=_next_event([wait for _, wait in drawn], now),
        shown=wanted,
        basins=shown,
        lock=_lock(state, now),
        frontier=_questions(state, None),
        events=tuple(happened(fact) for fact in reversed(recent[-EVENTS_AT_MOST:])),
        controller=alone.controller if alone is not None else Controller(state="none", seen=None),
        quota=tuple(
            Quota(engine=clean(limit.engine), until=limit.until)
            for b in state.basins.values()
            for limit in b.quotas.values()
        ),
        attach=tuple(one.attach for one in shown if one.attach is not None),
    )


def _basin(
    state: State, basin: Basin, probes: Probes, now: datetime, found: Sequence[Need], *, details: bool
) -> tuple[BasinShown, Wait]:
    run, lease = basin.run, probes.leases.get(basin.id)
    active = active_seconds(basin, now=now, lease=lease, asleep=probes.asleep)
    at = At(active=active, now=now, lease=lease, silent=probes.silent.get(basin.id))
    word = phase(state, basin, lease=lease)
    wait = waits_for(state, basin, at, phase=word)
    most, met, required = limits(basin), met_of(basin), len(basin.counted)
    waiting = run.waiting if run is not None else None
    for_you = waiting is not None and waiting.reason in FOR_A_PERSON
    command = next((need.command for need in found if need.basin == basin.id), None)
    queued = queue(state, basin)
    if command is None and word == "AT LOCK" and queued:
        command = lock_command(basin)  # its candidate is not the head of the queue
    plain = unaccepted(basin) or decided(state, basin)
    if word in ("STALLED", "VERDICT") and run is not None and not run.open and not plain:
        command = go_on(basin)
    attempts = f"{basin.charged}/{most.attempts}" if most.attempts is not None else str(basin.charged)
    hours = f" / {duration(most.hours * 3600)}" if most.hours is not None else ""
    tmux = _tmux(state, basin)
    shown = BasinShown(
        id=basin.id,
        macrostate=clean(basin.macrostate),
        phase=word,
        decision=_decision(basin),
        group=group(word, waits_for_you=for_you),
        goal=clean(basin.goal),
        status=f"{word} (attempt {attempts})",
        elapsed=f"{duration(active)}{hours}",
        progress=f"{100 * met // required if required else 0}% success criteria met",
        last_result=_last_result(state, basin),
        tmux_session=_tmux_line(basin, tmux, probes),
        next_attempt=next_attempt(basin, at, wait, phase=word, command=command),
        criteria=tuple(_criterion(state, basin, c) for c in basin.criteria) if details else (),
        met=met,
        required=required,
        pending_at_lock=at_lock(basin, queued[0])[0] if queued else 0,
        trend=trend(basin),
        stall=stall(basin),
        attempt=Counted(n=basin.charged, max=most.attempts),
        uncharged=sum(not past.charged for past in basin.history),
        active_hours=Used(used=round(active / 3600, 4), max=most.hours),
        usd=Used(used=basin.usage.usd, max=most.usd),
        tokens=Used(used=all_tokens(basin.usage), max=most.tokens),
        limit_first=nearest(basin, active=active, now=now),
        waits_for=WaitsFor(kind=wait.kind, what=wait.what, until=wait.until),
        place=place(basin, run) if run is not None else None,
        target=TargetShown(ref=clean(basin.target), head=basin.tip.head if basin.tip is not None else None),
        session=SessionShown(tmux=tmux, engine=_engine(basin)),
        engines=tuple(clean(e) for e in run.settings.engines) if run is not None else (),
        permissions=run.settings.permissions if run is not None else None,
        strategy=_strategy(basin),
        final_steps=(len(basin.chain.done), len(run.settings.chain) if run is not None else 0),
        **_converging(basin),
        attempts=tuple(map(_attempt, basin.history[-ATTEMPTS_AT_MOST:])) if details else (),
        minds=_minds(state, basin, probes),
        branches=tuple(_branch(basin, b) for b in state.branches_of(basin.id)) if details else (),
        residue=_residue(basin) if details else (),
        frontier=_questions(state, basin.id) if details else (),
        controller=_controller(basin, lease, probes, now),
        attach=probes.attach.get(basin.id)
        if run is not None and run.open and probes.tmux.get(basin.id) is not False
        else None,
    )
    return shown, wait


def _converging(basin: Basin) -> dict[str, Any]:
    """The newest record of work convergence, all its keys. A run that ended unsatisfied has its error whatever was recorded."""
    found = asdict(read(basin.convergence, Record))
    if _decision(basin) == "UNSATISFIED":
        found["work_convergence_error"] = ERROR
    return found


def _attempt(past: Past) -> AttemptShown:
    told = read(past.convergence, Told)
    return AttemptShown(
        attempt=past.number, result=past.result, decision=past.decision, charged=past.charged, **asdict(told)
    )


def _decision(basin: Basin) -> str | None:
    run = basin.run
    if run is not None and not run.open and run.stopped in ("stopped", "unsatisfied"):
        return run.stopped.upper()
    if basin.phase == "converged":
        return "SUCCESS"
    return basin.history[-1].decision if basin.history else None


def _last_result(state: State, basin: Basin) -> str:
    run = basin.run
    if not basin.history:
        told = run is not None and run.stopped in ("refused", "error")
        return f"{run.stopped} ({clean(run.stop_text)})" if run is not None and told else "none yet"
    last = basin.history[-1]
    text = clean(last.text)
    grafts = sum(b.phase is Phase.GRAFTED for b in state.branches_of(basin.id) if b.attempt == last.number)
    if grafts and last.decision == "WAITING":
        text += f"{'; ' if text else ''}{counted(grafts, 'graft')} at the lock since"
    return f"{last.result} ({text})" if text else last.result


def _tmux(state: State, basin: Basin) -> str | None:
    if basin.run is not None and basin.run.controller.tmux:
        return clean(basin.run.controller.tmux)
    session = state.sessions.get(basin.session or "")
    return clean(session.tmux) if session is not None and session.tmux and basin.run is None else None


def _tmux_line(basin: Basin, name: str | None, probes: Probes) -> str:
    if name is None:
        return "none, runs in the foreground" if basin.running is not None else "none"
    there = probes.tmux.get(basin.id)
    if there is True:
        return name
    if basin.running is None:
        return f"{name} (ended)"
    if there is None:
        return f"{name} (tmux gave no answer)"
    if probes.leases.get(basin.id):
        return f"{name} (gone, its controller goes on: nothing to attach to)"
    return f"{name} (not found, resume restarts it)"


def _engine(basin: Basin) -> str | None:
    if basin.attempt is not None:
        return clean(basin.attempt.engine)
    return clean(basin.run.settings.engines[0]) if basin.run is not None else None


def _strategy(basin: Basin) -> str | None:
    if basin.attempt is not None:
        return clean(basin.attempt.strategy)
    if basin.running is None or basin.phase != "open":
        return None
    following_one = following(basin, basin.running)
    return "fresh context" if following_one.fresh else following_one.strategy


def _criterion(state: State, basin: Basin, criterion: Criterion) -> CriterionShown:
    found = results(basin).get(criterion.name)
    asked = criterion.command or ", ".join(criterion.paths) or criterion.text or criterion.kind
    evidence = None
    if found is not None:
        lines = clean(found.excerpt[-4 * EXCERPT :], keep="\n").strip().rsplit("\n", 1)
        evidence = Answered(
            exit=found.exit,
            seconds=round(found.seconds, 1),
            tree=found.tree,
            digest=found.digest,
            tail=clean(lines[-1], EXCERPT),
        )
    return CriterionShown(
        name=criterion.name,
        kind=criterion.kind,
        required=criterion.required,
        stage="loop" if criterion.in_loop else "chain",
        asked=clean(asked),
        met=found.met if found is not None else None,
        first_met_by=first_met_by(state, basin, criterion),
        evidence=evidence,
    )


def _minds(state: State, basin: Basin, probes: Probes) -> Minds:
    alive = probes.minds.get(basin.id)
    if alive is not None:
        return Minds(running=alive, unknown=0)
    names = basin.attempt.branches if basin.attempt is not None else ()
    return Minds(running=0, unknown=sum(state.branches[n].phase is Phase.SEARCHING for n in names))


def _branch(basin: Basin, branch: Branch) -> BranchShown:
    held = {x.criterion: x for x in branch.evidence}
    return BranchShown(
        id=branch.id,
        attempt=branch.attempt,
        approach=clean(branch.approach),
        engine=clean(branch.engine),
        phase=branch.phase.value,
        admitted=branch.admitted,
        met=met_of(basin, held) if held else None,
        commits=branch.commits,
        flags=tuple(map(clean, branch.flags)),
        summary=clean(branch.summary),
        reason=clean(branch.failure or branch.refusal),
    )


def _residue(basin: Basin) -> tuple[ResidueShown, ...]:
    return tuple(
        ResidueShown(text=clean(r.text), paths=tuple(map(clean, r.paths)), criterion=r.criterion) for r in basin.residue
    )


def _questions(state: State, basin: str | None) -> tuple[QuestionShown, ...]:
    return tuple(
        QuestionShown(
            question=clean(q.question),
            origin=clean(q.origin),
            basin=q.basin,
            blocks=clean(q.blocks) if q.blocks is not None else None,
        )
        for q in state.frontier.values()
        if basin is None or q.basin == basin
    )


def _controller(basin: Basin, lease: bool | None, probes: Probes, now: datetime) -> Controller:
    silent = probes.silent.get(basin.id)
    seen = (now - timedelta(seconds=silent)).astimezone(UTC) if silent is not None else None
    if basin.running is None:
        return Controller(state="none", seen=seen)
    return Controller(state={True: "alive", False: "gone", None: "unknown"}[lease], seen=seen)


def _lock(state: State, now: datetime) -> Lock:
    waiting = [(basin, branch) for basin in state.basins.values() for branch in queue(state, basin)]
    waiting.sort(key=lambda pair: pair[1].candidate_at or now)
    shown = []
    for basin, branch in waiting:
        adds, loses = at_lock(basin, branch)
        own = {x.criterion: x for x in branch.evidence}
        shown.append(
            Queued(
                branch=branch.id,
                basin=basin.id,
                met=met_of(basin, own),
                adds=adds,
                loses=loses,
                since=waits_since(branch),
                flags=tuple(map(clean, branch.flags)),
            )
        )
    return Lock(target=clean(waiting[0][0].target) if waiting else None, queue=tuple(shown))


def _next_event(waits: Sequence[Wait], now: datetime) -> NextEvent:
    coming = [(wait.until, wait.event) for wait in waits if wait.until is not None and wait.event and wait.until >= now]
    if not coming:
        return NextEvent(at=None, what=None)
    at, what = min(coming)
    return NextEvent(at=at.astimezone(UTC), what=what)
