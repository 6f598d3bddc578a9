"""What needs a person, computed once: one sentence of at most 60 cells and one command, the same on every surface."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from orchconverge.core.judge import gained, holds, lost, unsettled
from orchconverge.core.matrix import began
from orchconverge.core.measures import Shown, active_seconds, limits, met_of, results
from orchconverge.core.standing import decided, queue, unaccepted, unanswered
from orchconverge.core.state import Basin, Branch, Run, State
from orchconverge.core.values import all_tokens
from orchconverge.core.views.text import clean, counted, duration, tokens
from orchconverge.core.waits import asked

CELLS: Final = 60
ORDER: Final = ("tamper", "ledger", "controller", "lock", "verdict", "branch", "error", "limit", "consent", "question")
"""The most urgent first."""


class Need(Shown, frozen=True, kw_only=True):
    """One thing that a person must do. ``since`` is ``None`` where the ledger does not say."""

    kind: str
    basin: str | None
    branch: str | None
    since: datetime | None
    sentence: str
    command: str


class Damage(Shown, frozen=True, kw_only=True):
    """What the ledger's reader met: whole lines, damaged ones, ones that the rules refuse, and those of a newer version."""

    lines: int = 0
    bad: int = 0
    illegal: int = 0
    unknown: int = 0
    torn: bool = False


def needs(
    state: State, *, now: datetime, leases: Mapping[str, bool | None], silent: Mapping[str, float], ledger: Damage
) -> tuple[Need, ...]:
    """Everything that needs a person, in `ORDER`, then as basins were declared. Of the lock only its head."""
    found: list[Need] = []
    if ledger.bad or ledger.illegal:
        found.append(_ledger(ledger))
    queued: list[tuple[Basin, Branch]] = []
    for basin in state.basins.values():
        run = basin.run
        queued += [(basin, branch) for branch in queue(state, basin)]
        if run is None or basin.phase == "killed":
            continue
        if run.open and leases.get(basin.id) is False:
            found.append(_controller(basin, silent.get(basin.id), now))
        elif run.open:
            found += _waiting(basin, run)
        elif basin.phase == "open":
            found += _stopped(state, basin, run)
    if queued:
        found.append(_lock(*min(queued, key=lambda pair: pair[1].candidate_at or now)))
    found += _questions(state)
    return tuple(sorted(found, key=lambda need: ORDER.index(need.kind)))


def waits_since(branch: Branch) -> datetime | None:
    """When a candidate's mind had ended, by its start and run time: from then on it waited."""
    if branch.spawned_at is None:
        return None
    return datetime.fromtimestamp(branch.spawned_at.timestamp() + branch.seconds, branch.spawned_at.tzinfo)


def _need(
    kind: str,
    sentence: str,
    command: str,
    *,
    basin: Basin | None = None,
    branch: str | None = None,
    since: datetime | None = None,
) -> Need:
    return Need(
        kind=kind,
        basin=basin.id if basin is not None else None,
        branch=branch,
        since=since,
        sentence=clean(sentence, CELLS),
        command=command,
    )


def _short(basin: Basin) -> str:
    return clean(basin.id, 24)


def _ledger(ledger: Damage) -> Need:
    parts = [f"{ledger.bad} damaged"] if ledger.bad else []
    parts += [f"{ledger.illegal} against the rules"] if ledger.illegal else []
    said = f"{' and '.join(parts)} of {counted(ledger.lines, 'line')}, skipped"
    return _need("ledger", said, "orchconverge ledger verify")


def _controller(basin: Basin, silent: float | None, now: datetime) -> Need:
    seen = f"has not been seen for {duration(silent)}" if silent is not None else "is gone"
    since = None if silent is None else datetime.fromtimestamp(now.timestamp() - silent, now.tzinfo)
    said = f"The controller of {_short(basin)} {seen}"
    return _need("controller", said, f"orchconverge resume {basin.id}", basin=basin, since=since)


def _waiting(basin: Basin, run: Run) -> list[Need]:
    waiting = run.waiting
    if waiting is None:
        return []
    name, said = _short(basin), clean(waiting.text, CELLS)
    more = f"orchconverge status {basin.id} --verbose"
    if waiting.reason == "tamper":
        sentence, command, kind = f"Look at git's hooks and config, changed under {name}", more, "tamper"
    elif waiting.reason in ("verdict", "blocked"):
        sentence, command, kind = f"Answer the verdict on {name}: {said}", _look(basin), "verdict"
    elif waiting.reason == "branch":
        sentence, command, kind = f"{name}: {said}", more, "branch"
    elif waiting.reason == "consent":
        sentence, command, kind = f"Allow a command for {name}: {said}", f"orchconverge resume {basin.id}", "consent"
    else:  # the lock is told by its queue; quota, disk, memory, network and room come back by themselves
        return []
    return [_need(kind, sentence, command, basin=basin, since=waiting.at)]


def _stopped(state: State, basin: Basin, run: Run) -> list[Need]:
    name, said = _short(basin), asked(basin)
    since = basin.history[-1].ended if basin.history else run.started
    if run.stopped == "limit":
        kind, sentence, command = "limit", *_limit(basin)
    elif run.stopped == "stalled":
        kind, sentence, command = "verdict", f"{name} is stalled: {said}", go_on(basin)
    elif run.stopped == "unsatisfied":
        kind, sentence, command = "verdict", f"{name} is not satisfied: {said}", go_on(basin)
    elif decided(state, basin):
        kind, sentence, command = "verdict", _decided(basin), f"orchconverge resume {basin.id}"
    elif run.stopped == "waiting" and unaccepted(basin) and not queue(state, basin):
        kind, sentence, command = "verdict", f"Take or mend {name}: {said}", f"orchconverge resume {basin.id}"
    elif run.stopped == "waiting" and unanswered(basin) and not queue(state, basin):
        kind, sentence, command = "verdict", f"Answer the verdict on {name}: {said}", _look(basin)
    elif run.stopped == "waiting" and (open_ := unsettled(basin)) and not queue(state, basin):
        told = "; ".join(f"{one.criterion}: {clean(one.text, CELLS)}" for one in open_)
        kind, sentence, command = "verdict", f"See to {name}, {told}", f"orchconverge resume {basin.id}"
    elif run.stopped == "error":
        kind, sentence, command = "error", f"{name} ended by an error: {said}", f"orchconverge resume {basin.id}"
    else:  # stopped because it was asked to, or left with candidates at the lock, which its queue tells
        return []
    return [_need(kind, sentence, command, basin=basin, since=since)]


def _decided(basin: Basin) -> str:
    if basin.tip is not None and holds(basin, basin.tip.results):
        return f"Finish {_short(basin)}: every criterion is met"
    return f"Go on with {_short(basin)}: {met_of(basin)}/{len(basin.counted)} met, the lock is empty"


def _look(basin: Basin) -> str:
    """What shows what the last mind did and said."""
    return f"orchconverge logs {basin.id}.{basin.branches}" if basin.branches else f"orchconverge status {basin.id} -v"


def go_on(basin: Basin) -> str:
    """What tries again, with as many attempts more as it was given at first."""
    most = limits(basin).attempts
    return f"orchconverge resume {basin.id}" + (f" --max-attempts {basin.charged + most}" if most is not None else "")


def _limit(basin: Basin) -> tuple[str, str]:
    """The sentence of a limit that was reached, and the command: where a flag raises it, that goes on with twice as much."""
    most, name, resume = limits(basin), _short(basin), f"orchconverge resume {basin.id}"
    met = f"{met_of(basin)}/{len(basin.counted)} met"
    if basin.run is not None and not basin.run.settings.loop and not basin.run.settings.retries:
        return f"The wave of {name} is over, {met}", f"orchconverge open {basin.id} --minds 3"
    if most.attempts is not None and basin.charged >= most.attempts:
        said = f"{name} used {counted(most.attempts, 'attempt')}, {met}"
        return said, f"{resume} --max-attempts {2 * most.attempts}"
    if most.usd is not None and (basin.usage.usd or 0.0) >= most.usd:
        return f"{name} used ${most.usd:.2f}, {met}", f"{resume} --usd {2 * most.usd:g}"
    if most.tokens is not None and all_tokens(basin.usage) >= most.tokens:
        return f"{name} used {tokens(most.tokens)} tokens, {met}", f"{resume} --tokens {2 * most.tokens}"
    if most.minds is not None and basin.branches >= most.minds:
        return f"{name} used {counted(most.minds, 'mind')}, {met}", f"orchconverge status {basin.id} --verbose"
    if most.hours is not None:
        used = duration(active_seconds(basin))
        return f"{name} used its time ({used}), {met}", f"{resume} --max-hours {2 * most.hours:g}"
    return f"{name} reached its end of time, {met}", resume


def _lock(basin: Basin, branch: Branch) -> Need:
    whole = len(basin.counted)
    before = met_of(basin)
    gains, losses = at_lock(basin, branch)
    if whole and before + gains - losses != before:
        said = f"Decide {clean(branch.id, 28)} at the lock: {before} of {whole} becomes {before + gains - losses} of {whole}"
    else:
        said = f"Decide {clean(branch.id, 28)} at the lock: it meets no more than {before} of {whole}"
    if branch.flags:
        said += f", {counted(len(branch.flags), 'flag')}"
    return _need("lock", said, lock_command(basin), basin=basin, branch=branch.id, since=waits_since(branch))


def lock_command(basin: Basin) -> str:
    """What shows the head of a basin's queue, and asks."""
    return f"orchconverge lock {basin.id}"


def at_lock(basin: Basin, branch: Branch) -> tuple[int, int]:
    """How many required criteria a candidate meets that the tip does not, and how many it loses, each by its own tree."""
    tip, own = results(basin), {x.criterion: x for x in branch.evidence}
    required = {c.name for c in basin.counted}
    newly = [n for n in own if n in required and own[n].met == "yes" and (n not in tip or tip[n].met != "yes")]
    held = began(basin, branch.base)  # what the target got since it began there, it has not lost
    gone = [name for name in lost(tip, own) if name in required and held.get(name, True)]
    return len(newly), len(gone)


def adds(basin: Basin, branch: Branch) -> tuple[str, ...]:
    """The criteria that the gate would count as gained, by the candidate's own tree."""
    return gained(basin.criteria, results(basin), {x.criterion: x for x in branch.evidence})


def _questions(state: State) -> list[Need]:
    out: list[Need] = []
    for question in state.frontier.values():
        basin = state.basins.get(question.basin or "")
        if not question.blocks or (basin is not None and basin.phase != "open"):
            continue
        where = f"orchconverge status {basin.id} --verbose" if basin is not None else "orchconverge status --verbose"
        out.append(_need("question", f"Answer: {clean(question.question, CELLS)}", where, basin=basin))
    return out
