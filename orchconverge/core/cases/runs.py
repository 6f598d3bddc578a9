"""Cases of runs, sessions, attempts and the final chain: who drives, and how far a turn has got."""

from __future__ import annotations

from msgspec.structs import replace

from orchconverge.core import events as e
from orchconverge.core import values as v
from orchconverge.core.chain import Chain, Step, heard
from orchconverge.core.fold import EXCERPT, TEXT, Fold, on, refuse
from orchconverge.core.state import (
    UNSETTLED,
    Attempt,
    Basin,
    Context,
    Past,
    Phase,
    Run,
    Session,
    Tip,
    Waiting,
)
from orchconverge.core.work_record import without_fingerprints


@on(e.AttemptStarted)
def _attempt_started(fold: Fold, fact: e.AttemptStarted) -> None:
    basin, run = fold.run(fact.basin)
    if basin.attempt is not None:
        refuse(f"attempt {basin.attempt.number} of {basin.id} runs", "attempts never overlap")
    if basin.phase != "open":
        refuse(f"{basin.id} is {basin.phase}", "attempts are made for open basins")
    if fact.attempt != basin.attempts + 1:
        refuse(f"attempt {fact.attempt} of {basin.id} after {basin.attempts}", "ordinals go up by one, never reused")
    if run.limits.attempts is not None and basin.charged >= run.limits.attempts:
        refuse(f"{basin.id} had {basin.charged} attempts", f"the limit is {run.limits.attempts}")
    if run.stop_requested:
        refuse(f"{basin.id} was asked to stop", "no attempt is started then")
    active = max(fold.active(basin), fact.active or 0.0)
    if run.limits.hours is not None and active >= run.limits.hours * 3600:
        refuse(f"{basin.id} was active for {active:.0f} s", f"the limit is {run.limits.hours:g} hours")
    attempt = Attempt(
        number=fact.attempt,
        strategy=fact.strategy,
        why=fact.why,
        engine=fact.engine,
        width=fact.width,
        deadline=fact.deadline,
        active=active,
        at=fact.at,
        opened=fact.retries is not None,
        retries=fact.retries,
    )
    fold.put(basin, fact, attempt=attempt, attempts=fact.attempt, active=active)


@on(e.AttemptEnded)
def _attempt_ended(fold: Fold, fact: e.AttemptEnded) -> None:
    basin, attempt = fold.attempt(fact.basin, fact.attempt)
    branches = [fold.branches[b] for b in attempt.branches]
    for branch in branches:
        if branch.phase in UNSETTLED or branch.may_run:
            refuse(f"{branch.id} is {branch.phase.value}", "an attempt ends when its wave is settled")
    fold.remember(basin.id, fact.evidence)
    approaches = list(dict.fromkeys(b.approach for b in branches))
    past = Past(
        number=attempt.number,
        strategy=attempt.strategy,
        approach=approaches[0] if len(approaches) == 1 else " / ".join(a.split(":")[0] for a in approaches),
        engine=attempt.engine,
        charged=fact.charged,
        result=fact.result,
        decision=fact.decision,
        progress=fact.progress,
        criteria=dict(fact.criteria),
        score=sum(len(item.passed) for item in fact.evidence),
        head=fact.head,
        text=fact.text[:TEXT],
        started=attempt.at,
        ended=fact.at,
        active_started=attempt.active,
        active_ended=max(fold.active(basin), fact.active or 0.0),
        usage=fact.usage,
        summary=" / ".join(b.summary for b in branches if b.summary)[:TEXT],
        failure=" / ".join(b.failure or b.refusal for b in branches if b.failure or b.refusal)[:TEXT],
        verdict=" / ".join(b.verdict.text for b in branches if b.verdict)[:TEXT],
        excerpts=tuple((x.criterion, x.excerpt[-EXCERPT:]) for x in fact.evidence if x.met != "yes"),
        results=sum(branch.head is not None and branch.head != branch.base for branch in branches),
        passes=fact.passes,
        place="fresh" if any(branch.place == "fresh" for branch in branches) else "here",
        denied=fact.workConvergence.get("work_convergence_action") == "deny_ordinary_continuation",
        convergence=without_fingerprints(fact.workConvergence),
    )
    for branch in branches:
        if branch.phase not in (Phase.CANDIDATE,) or branch.admitted:
            fold.branches[branch.id] = replace(branch, evidence=())
    tip = _moved(basin, fact)
    landed = any(branch.phase is Phase.GRAFTED or branch.admitted for branch in branches)
    chain = replace(basin.chain, stale=True, moved=basin.chain.moved or landed)
    convergence = fact.workConvergence or basin.convergence
    history = (*basin.history, past)
    staged = (*basin.staged, *_written(basin, fact))
    fold.put(basin, fact, attempt=None, history=history, tip=tip, chain=chain, convergence=convergence, staged=staged)


def _written(basin: Basin, fact: e.AttemptEnded) -> list[str]:
    """The output of the stage that this attempt closed, if it closed one."""
    mark = fact.workConvergence.get("authoring_declared_output_fingerprint")
    if fact.workConvergence.get("work_convergence_state") != "satisfied" or mark is None:
        return []
    from orchconverge.core.fingerprints import canonical, fingerprint  # it loads hashlib, which no view needs

    outputs = [canonical(one.output, aliases=one.aliases) for one in basin.stages]
    return [path for path in outputs if path not in basin.staged and fingerprint("path", path) == mark]


def _moved(basin: Basin, fact: e.AttemptEnded) -> Tip | None:
    """The tip as the attempt was judged on, if it carries whole evidence."""
    if not fact.evidence:
        return basin.tip
    return Tip(head=fact.head, tree=fact.evidence[-1].tree, results={x.criterion: x for x in fact.evidence})


@on(e.SessionOpened)
def _session_opened(fold: Fold, fact: e.SessionOpened) -> None:
    known = fold.sessions.get(fact.session)
    if known is not None and known.open:
        refuse(f"session {fact.session} is open", "a session is opened when new or closed")
    basin = fold.basin(fact.basin)
    contexts = known.contexts if known is not None else {}
    fold.sessions[fact.session] = Session(id=fact.session, basin=basin.id, tmux=fact.tmux, contexts=contexts)
    fold.put(basin, fact, session=fact.session)


def _open_session(fold: Fold, name: str) -> Session:
    found = fold.sessions.get(name)
    if found is None or not found.open:
        refuse(f"session {name} is not open", "a session is opened first")
    return found


@on(e.SessionContext)
def _context(fold: Fold, fact: e.SessionContext) -> None:
    session = _open_session(fold, fact.session)
    basin = fold.basin(session.basin)
    number = basin.attempt.number if basin.attempt is not None else 0
    context = Context(id=fact.engineSession, attempt=number)
    fold.sessions[session.id] = replace(session, contexts={**session.contexts, fact.engine: context})
    fold.put(basin, fact)


@on(e.SessionClosed)
def _session_closed(fold: Fold, fact: e.SessionClosed) -> None:
    session = _open_session(fold, fact.session)
    fold.sessions[session.id] = replace(session, open=False, reason=fact.reason)
    fold.put(fold.basin(session.basin), fact)


@on(e.RunStarted)
def _run_started(fold: Fold, fact: e.RunStarted) -> None:
    basin = fold.basin(fact.basin)
    if basin.phase == "killed":
        refuse(f"{basin.id} is killed", "a killed basin is not run again")
    open_run = basin.running
    if open_run is not None and fact.takesOver != open_run.id:
        refuse(
            f"run {open_run.id} of {basin.id} is open", "one controller drives a basin; a new one takes over by name"
        )
    if fact.settings.place == "here":
        for other in fold.basins.values():
            theirs = other.running
            if other.id == basin.id or theirs is None or theirs.settings.place != "here":
                continue
            if theirs.settings.checkout == fact.settings.checkout:
                refuse(f"{other.id} runs in {fact.settings.checkout}", "one run works in a checkout at a time")
    fold.results[basin.id] = {}
    run = Run(
        id=fact.run,
        controller=fact.controller,
        settings=fact.settings,
        limits=fact.limits,
        started=fact.at,
        stop_requested=open_run.stop_requested if open_run is not None else False,
        active_started=open_run.active_started if open_run is not None else max(fold.active(basin), fact.active or 0.0),
        first=open_run.first if open_run is not None else basin.attempts + (basin.attempt is None),
        epoch=(basin.run.epoch if basin.run is not None else 0) + (open_run is None),
        fingerprint=fact.fingerprint,
    )
    fold.put(basin, fact, run=run, runs=basin.runs + 1)


@on(e.RunWaiting)
def _waiting(fold: Fold, fact: e.RunWaiting) -> None:
    basin, run = fold.run(fact.basin)
    if run.waiting is not None:
        refuse(f"{basin.id} waits already, for {run.waiting.reason}", "a run waits for one thing at a time")
    waiting = Waiting(reason=fact.reason, text=fact.text, until=fact.until, engine=fact.engine, at=fact.at)
    tampered = run.tampered or fact.reason == "tamper"
    fold.put(basin, fact, run=replace(run, waiting=waiting, tampered=tampered))


@on(e.RunWoke)
def _woke(fold: Fold, fact: e.RunWoke) -> None:
    basin, run = fold.run(fact.basin)
    if run.waiting is None:
        refuse(f"{basin.id} does not wait", "only a waiting run wakes")
    waited = run.waiting.reason
    signed_out = frozenset() if waited == "blocked" else run.signed_out
    quotas = {} if waited == "quota" else basin.quotas
    fold.put(basin, fact, run=replace(run, waiting=None, signed_out=signed_out), quotas=quotas)


@on(e.RunStopRequested)
def _stop_requested(fold: Fold, fact: e.RunStopRequested) -> None:
    basin, run = fold.run(fact.basin)
    fold.put(basin, fact, run=replace(run, stop_requested=True))


@on(e.RunStopped)
def _stopped(fold: Fold, fact: e.RunStopped) -> None:
    basin, run = fold.run(fact.basin)
    fold.results.pop(basin.id, None)
    ended = replace(run, open=False, stopped=fact.reason, stop_text=fact.text, waiting=None)
    fold.put(basin, fact, run=ended)


@on(e.StepStarted)
def _step_started(fold: Fold, fact: e.StepStarted) -> None:
    if fact.basin is None or fact.round == 0:
        return
    basin, run = fold.run(fact.basin)
    chain, steps = basin.chain, run.settings.chain
    if chain.running is not None:
        refuse(f"step {chain.running} of {basin.id} runs", "steps never overlap")
    if basin.attempt is not None:
        refuse(f"attempt {basin.attempt.number} of {basin.id} runs", "the chain begins when no attempt runs")
    following = [s for s in steps if s not in chain.names]
    if fact.round == chain.round and not chain.stale and following[:1] == [fact.step]:
        fold.put(basin, fact, chain=replace(chain, running=fact.step, argv=fact.argv))
    elif fact.round == chain.round + 1 and steps[:1] == (fact.step,):
        fold.put(basin, fact, chain=_round(chain, fact))
    else:
        refuse(f"step {fact.step} of round {fact.round}", "the steps of a round follow settings.chain")


def _round(before: Chain, fact: e.StepStarted) -> Chain:
    """A new round. What the last one said stands as long as the target does."""
    said = () if before.moved else before.said
    return Chain(round=fact.round, running=fact.step, argv=fact.argv, stale=False, said=said)


@on(e.StepEnded)
def _step_ended(fold: Fold, fact: e.StepEnded) -> None:
    if fact.basin is None or fact.round == 0:
        return
    basin = fold.basin(fact.basin)
    chain = basin.chain
    if chain.running != fact.step or chain.round != fact.round:
        refuse(f"step {fact.step} of {basin.id} does not run", "a step is started first and ends once")
    step = Step(name=fact.step, status=fact.status, detail=fact.detail, url=fact.url, commit=fact.commit, at=fact.at)
    said = heard(chain.said, fact.results, fact.findings)
    ended = replace(chain, running=None, argv=(), done=(*chain.done, step), said=said)
    fold.put(basin, fact, chain=ended, usage=v.added(basin.usage, fact.usage))


@on(e.ReportWritten)
def _report(fold: Fold, fact: e.ReportWritten) -> None:
    fold.put(fold.basin(fact.basin), fact, report=fact.path)


@on(e.ConsentGiven)
def _consent(fold: Fold, fact: e.ConsentGiven) -> None:
    fold.consents[fact.digest] = fact.where
