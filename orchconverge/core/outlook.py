"""The decisions of the loop: how an attempt is judged, and whether there is another one."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from orchconverge.core import events as e
from orchconverge.core import judge, strategy
from orchconverge.core.seen import Now, Seen
from orchconverge.core.state import Basin, Branch, Past, Phase, Run
from orchconverge.core.values import Decision, Evidence, Result, StopReason, Usage, added
from orchconverge.core.views.text import counted

GIVEN_BACK_AT_MOST = 3


class Outlook(Struct, frozen=True, kw_only=True):
    """What follows once no attempt runs: another attempt, or the end and its reason."""

    decision: Decision
    text: str
    stop: StopReason | None = None

    @property
    def ends(self) -> bool:
        """Whether the loop is over and the chain (or, for a person, the wait) begins."""
        return self.decision != "IN_PROGRESS"


def outlook(basin: Basin, run: Run, now: Now) -> Outlook:
    """Whether there is another attempt, by the facts and the limits of the open run."""
    limits = run.limits
    last = basin.history[-1] if basin.history else None
    blocked = last is not None and last.decision == "BLOCKED"
    if basin.tip is not None and judge.holds(basin, basin.tip.results):
        if last is not None and blocked and basin.amended < last.number:  # a flagged success, and nobody said yes to it
            return Outlook(decision="BLOCKED", text=last.text, stop="waiting")
        return Outlook(decision="SUCCESS", text="all required criteria hold", stop="converged")
    if last is not None and blocked and last.number >= run.first:
        return Outlook(decision="BLOCKED", text=last.text, stop="waiting")
    again = bool(run.settings.retries) and not (last is not None and last.number >= run.first)
    if basin.valve == "person" and basin.queue and run.settings.place != "here" and not again:
        text = f"{counted(len(basin.queue), 'candidate')} at the lock: orchconverge lock {basin.id}"
        return Outlook(decision="WAITING", text=text, stop="waiting")
    limit = _limit(basin, run, now)
    if limit is not None:
        return limit
    if not run.settings.loop and last is not None and last.number >= run.first:
        text = f"one wave was asked for: orchconverge open {basin.id} makes another"
        return Outlook(decision="ATTEMPT_LIMIT", text=text, stop="limit")
    mine = judge.since(basin.history, run)
    if judge.given_back(mine) >= GIVEN_BACK_AT_MOST:
        text = f"{GIVEN_BACK_AT_MOST} attempts in a row could not be made: {basin.history[-1].text}"
        return Outlook(decision="WAITING", text=text, stop="waiting")
    if strategy.following(basin, run).stop:
        text = f"{judge.flat(mine)} attempts without progress and no rung left"
        return Outlook(decision="STALLED", text=text, stop="stalled")
    if limits.hours is not None and basin.history and strategy.due(basin, run) >= limits.hours * 3600:
        return Outlook(decision="TIME_LIMIT", text="the next attempt would start after the time limit", stop="limit")
    return Outlook(decision="IN_PROGRESS", text="")


def _limit(basin: Basin, run: Run, now: Now) -> Outlook | None:
    limits, usage = run.limits, basin.usage
    if limits.attempts is not None and basin.charged >= limits.attempts:
        return Outlook(
            decision="ATTEMPT_LIMIT", text=f"{basin.charged} of {counted(limits.attempts, 'attempt')}", stop="limit"
        )
    if limits.hours is not None and now.active >= limits.hours * 3600:
        return Outlook(decision="TIME_LIMIT", text=f"{limits.hours:g} hours of active time", stop="limit")
    if limits.until is not None and now.wall >= limits.until:
        return Outlook(decision="TIME_LIMIT", text=f"{limits.until.isoformat()} has passed", stop="limit")
    tokens = usage.inputTokens + usage.outputTokens + usage.cacheReadTokens + usage.cacheWriteTokens
    if limits.tokens is not None and tokens >= limits.tokens:
        return Outlook(decision="BUDGET_LIMIT", text=f"{tokens} of {limits.tokens} tokens", stop="limit")
    if limits.usd is not None and (usage.usd or 0.0) >= limits.usd:
        return Outlook(decision="BUDGET_LIMIT", text=f"${usage.usd:.2f} of ${limits.usd:.2f}", stop="limit")
    if limits.minds is not None and basin.branches >= limits.minds:
        return Outlook(decision="BUDGET_LIMIT", text=f"{basin.branches} of {limits.minds} minds", stop="limit")
    return None


def judged(basin: Basin, run: Run, now: Now, branches: Sequence[Branch], seen: Seen) -> e.AttemptEnded:
    """The end of the running attempt, judged on the target's tip."""
    assert basin.attempt is not None
    before = _best(basin)
    after = _standing(basin, branches)
    gained = [c.name for c in basin.required if not c.condition and judge.met(after, c.name) and c.name not in before]
    missing = [c.name for c in basin.required if not judge.met(after, c.name)]
    result = _result(basin, branches, after, gained, seen)
    charged = result not in ("quota", "interrupted") and not _given_back(branches, seen)
    text = _text(result, gained, missing, branches, seen)
    usage = Usage()
    for branch in branches:
        usage = added(usage, branch.usage)
    head = seen.target.head if seen.target is not None and seen.target.head is not None else branches[-1].base
    ended = e.AttemptEnded(
        basin=basin.id,
        attempt=basin.attempt.number,
        charged=charged,
        result=result,
        head=head,
        criteria={c.name: judge.met(after, c.name) for c in basin.criteria if c.in_loop},
        evidence=tuple(after.values()),
        progress=judge.percent(basin, after),
        usage=usage,
        decision="IN_PROGRESS",
        text=text,
    )
    return replace(ended, decision=_decision(basin, run, now, branches, ended, seen))


def _best(basin: Basin) -> frozenset[str]:
    """Every criterion that held at the start or after an attempt: met again is not newly met."""
    held = {n for n, x in (basin.start.results if basin.start else {}).items() if x.met == "yes"}
    for past in basin.history:
        held |= {name for name, met in past.criteria.items() if met}
    return frozenset(held)


def _standing(basin: Basin, branches: Sequence[Branch]) -> dict[str, Evidence]:
    """Evidence on the target's tip: in place that of the admitted candidate, else of the last check of the target."""
    for branch in reversed(branches):
        if branch.admitted and branch.evidence:
            return {x.criterion: x for x in branch.evidence}
    return dict(basin.tip.results) if basin.tip is not None else {}


def _result(
    basin: Basin, branches: Sequence[Branch], after: dict[str, Evidence], gained: Sequence[str], seen: Seen
) -> Result:
    if judge.holds(basin, after):
        return "success"
    landed = [b for b in branches if b.phase is Phase.GRAFTED or b.admitted]
    if gained or (landed and (_rose(basin, after) or _moved_on(basin, landed, seen))):
        return "partial_success"
    if all(b.limit is not None for b in branches) and not landed:
        return "quota"
    if not landed and any(b.id in seen.ends and seen.ends[b.id].strangers for b in branches):
        return "interrupted"
    if not landed and all(_interrupted(b) for b in branches):
        return "interrupted"
    if any(b.verdict is not None for b in branches):
        return "verdict"
    if all(b.phase is Phase.FAILED and (b.exit or b.signal or b.reason is None) for b in branches):
        return "failed"
    return "no_progress"


def _interrupted(branch: Branch) -> bool:
    """Whether its mind was kept from its work, and not by a person who pruned it while it ran."""
    pruned = branch.phase is Phase.PRUNED and branch.candidate_at is None
    never_began = branch.phase is Phase.FAILED and branch.process is None
    return never_began or (branch.reason in ("lost", "killed") and not pruned)


def _rose(basin: Basin, after: dict[str, Evidence]) -> bool:
    best = max((past.score for past in basin.history), default=0)
    if basin.start is not None:
        best = max(best, sum(len(x.passed) for x in basin.start.results.values()))
    return sum(len(x.passed) for x in after.values()) > best


def _moved_on(basin: Basin, landed: Sequence[Branch], seen: Seen) -> bool:
    """A new change that touches what the goal, the target or a failing check named; anything else counts once."""
    words = " ".join((basin.goal, basin.macrostate, *(x for p in basin.history[-1:] for _, x in p.excerpts)))
    if basin.start is not None:
        words += " ".join(x.excerpt for x in basin.start.results.values() if x.met != "yes")
    words += " ".join(c.command for c in basin.criteria)
    changed = [path for b in landed if b.id in seen.works for path in seen.works[b.id].changed]
    once = not any(past.result == "partial_success" for past in basin.history)
    return bool(changed) and (judge.relevant(changed, words) or once)


def _given_back(branches: Sequence[Branch], seen: Seen) -> bool:
    outcomes = [seen.ends[b.id].outcome for b in branches if b.id in seen.ends]
    return any(outcome.context_lost or outcome.auth_failed for outcome in outcomes)


def _text(result: Result, gained: Sequence[str], missing: Sequence[str], branches: Sequence[Branch], seen: Seen) -> str:
    """The words in brackets after the result, at most three names each."""
    strangers = [c for b in branches if b.id in seen.ends for c in seen.ends[b.id].strangers]
    if strangers:
        named = ", ".join(f"{c.sha:.8} {c.subject}" for c in strangers[:3])
        return f"a person committed meanwhile: {named}"
    flagged = [flag for b in branches for flag in b.flags]
    parts = []
    if gained:
        parts.append("fixed " + ", ".join(gained[:3]))
    if missing:
        parts.append("missing " + ", ".join(missing[:3]))
    if flagged:
        parts.append("flagged " + ", ".join(flagged[:3]))
    if not gained and result not in ("success", "partial_success"):
        parts += [b.failure or b.refusal for b in branches if b.failure or b.refusal][:1]
    return ", ".join(parts)


def _decision(
    basin: Basin, run: Run, now: Now, branches: Sequence[Branch], ended: e.AttemptEnded, seen: Seen
) -> Decision:
    success = ended.result == "success"
    if any(b.id in seen.ends and seen.ends[b.id].strangers for b in branches):
        return "BLOCKED"
    if basin.valve == "person" and not success and any(b.waits for b in branches):
        return "WAITING"
    if any(b.flags and (b.admitted or b.phase is Phase.CANDIDATE) for b in branches) and _decides(
        basin, branches, success
    ):
        return "BLOCKED"
    if success:
        return "SUCCESS"
    if ended.result == "quota":
        return "WAITING"
    if same_verdict(basin, branches):
        return "BLOCKED"
    after = replace(basin, attempt=None, history=(*basin.history, _as_past(basin, ended, now)))
    limit = _limit(after, run, now)
    if limit is not None:
        return limit.decision
    flat = judge.flat(judge.since(after.history, run))
    return "STALLED" if flat and flat % run.settings.stallAfter == 0 else "IN_PROGRESS"


def _decides(basin: Basin, branches: Sequence[Branch], success: bool) -> bool:
    """Whether the flagged branch is what success rests on: in place it does, in a worktree it waits at the lock."""
    if success:
        return True
    waiting = [b for b in branches if b.phase is Phase.CANDIDATE and not b.admitted and b.flags]
    return any(judge.only_conditions_missing(basin, {x.criterion: x for x in b.evidence}) for b in waiting)


def same_verdict(basin: Basin, branches: Sequence[Branch]) -> bool:
    """The same verdict from two approaches."""
    said = {b.verdict.text.strip().lower() for b in branches if b.verdict is not None}
    past = basin.history[-1].verdict.strip().lower() if basin.history else ""
    return bool(past) and past in said


def _as_past(basin: Basin, ended: e.AttemptEnded, now: Now) -> Past:
    assert basin.attempt is not None
    return Past(
        number=ended.attempt,
        strategy="",
        approach="",
        engine="",
        charged=ended.charged,
        result=ended.result,
        decision=ended.decision,
        progress=ended.progress,
        criteria=ended.criteria,
        score=0,
        head=ended.head,
        text=ended.text,
        started=None,
        ended=None,
        active_started=basin.attempt.active,
        active_ended=now.active,
        usage=ended.usage,
    )
