"""The decisions of the loop: how an attempt is judged, and whether there is another one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from orchconverge.core import events as e
from orchconverge.core import judge, strategy
from orchconverge.core.seen import Commit, Now, Seen
from orchconverge.core.state import Basin, Branch, Past, Phase, Run
from orchconverge.core.values import Decision, Evidence, Result, StopReason, Usage, added, all_tokens
from orchconverge.core.views.text import counted

GIVEN_BACK_AT_MOST = 3
PROBE = timedelta(hours=1)
"""How long a block that a person has to lift is believed in, before it is tried again: blocks pass."""


class Outlook(Struct, frozen=True, kw_only=True):
    """What follows once no attempt runs: another attempt, now or not before ``until``, or the end and its reason."""

    decision: Decision
    text: str
    stop: StopReason | None = None
    until: datetime | None = None

    @property
    def ends(self) -> bool:
        """Whether the loop is over and the chain (or, for a person, the wait) begins."""
        return self.decision != "IN_PROGRESS" and self.until is None


def outlook(basin: Basin, run: Run, now: Now) -> Outlook:
    """Whether there is another attempt, by the facts and the limits of the open run."""
    limits = run.limits
    last = basin.history[-1] if basin.history else None
    if basin.tip is not None and judge.holds(basin, basin.tip.results):
        if last is not None and last.decision == "BLOCKED" and not last.passes and basin.amended < last.number:
            return Outlook(decision="BLOCKED", text=last.text, stop="waiting")  # flagged, and nobody said yes to it
        return Outlook(decision="SUCCESS", text="all required criteria hold", stop="converged")
    if last is not None and blocked(basin, run):
        return _blocked(basin, run, now, last)
    again = bool(run.settings.retries) and not (last is not None and last.number >= run.first)
    if basin.valve == "person" and basin.queue and strategy.place(basin, run) != "here" and not again:
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
        if basin.history[-1].denied:
            text = "its work does not converge, and no rung of the ladder is left"
            return Outlook(decision="UNSATISFIED", text=text, stop="unsatisfied")
        text = f"{judge.flat(mine)} attempts without progress and no rung left"
        return Outlook(decision="STALLED", text=text, stop="stalled")
    if limits.hours is not None and basin.history and strategy.due(basin, run) >= limits.hours * 3600:
        return Outlook(decision="TIME_LIMIT", text="the next attempt would start after the time limit", stop="limit")
    return Outlook(decision="IN_PROGRESS", text="")


def blocked(basin: Basin, run: Run) -> bool:
    """Whether the last attempt of the run ended in a question to a person, and nobody answered it."""
    last = basin.history[-1] if basin.history else None
    return last is not None and last.decision == "BLOCKED" and last.number >= run.first and basin.amended < last.number


def _blocked(basin: Basin, run: Run, now: Now, last: Past) -> Outlook:
    """A person is asked. Where nobody waits for this controller to end, it stays, and tries again after a while."""
    text = strategy.stubborn(basin, run) or last.text
    stays = last.passes and bool(run.controller.tmux) and run.settings.loop and not run.settings.retries
    at_lock = basin.valve == "person" and bool(basin.queue)
    if not stays or at_lock or last.ended is None or _limit(basin, run, now) is not None:
        return Outlook(decision="BLOCKED", text=text, stop="waiting")
    if now.wall < last.ended + PROBE:
        return Outlook(decision="BLOCKED", text=last.verdict or text, until=last.ended + PROBE)
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
    if limits.tokens is not None and all_tokens(usage) >= limits.tokens:
        return Outlook(decision="BUDGET_LIMIT", text=f"{all_tokens(usage)} of {limits.tokens} tokens", stop="limit")
    if limits.usd is not None and (usage.usd or 0.0) >= limits.usd:
        return Outlook(decision="BUDGET_LIMIT", text=f"${usage.usd:.2f} of ${limits.usd:.2f}", stop="limit")
    if limits.minds is not None and basin.branches >= limits.minds:
        return Outlook(decision="BUDGET_LIMIT", text=f"{basin.branches} of {limits.minds} minds", stop="limit")
    return None


def judged(basin: Basin, run: Run, now: Now, branches: Sequence[Branch], seen: Seen) -> e.AttemptEnded:
    """The end of the running attempt, judged on the target's tip."""
    assert basin.attempt is not None
    before = best(basin)
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
    decision = _decision(basin, run, now, branches, ended, seen)
    passes = decision == "BLOCKED" and not _to_be_seen(basin, branches, seen, success=result == "success")
    return replace(ended, decision=decision, passes=passes)


def best(basin: Basin) -> frozenset[str]:
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
    landed = [b for b in branches if b.phase is Phase.GRAFTED or b.admitted]
    if judge.holds(basin, after, moved=bool(landed)):
        return "success"
    if gained or (landed and (rose(basin, after) or _moved_on(basin, landed, seen))):
        return "partial_success"
    if all(b.limit is not None for b in branches) and not landed:
        return "quota"
    if not landed and _strangers(branches, seen):
        return "interrupted"
    if not landed and all(interrupted(b) for b in branches):
        return "interrupted"
    if any(b.verdict is not None for b in branches):
        return "verdict"
    crashed = [
        b.exit or b.signal or b.reason in (None, "deadline") for b in branches if b.reason not in ("denied", "budget")
    ]
    if all(b.phase is Phase.FAILED for b in branches) and len(crashed) == len(branches) and all(crashed):
        return "failed"
    return "no_progress"


def interrupted(branch: Branch) -> bool:
    """Whether its mind was kept from its work, and not by a person who pruned it while it ran."""
    pruned = branch.phase is Phase.PRUNED and branch.candidate_at is None
    never_began = branch.phase is Phase.FAILED and branch.process is None
    return never_began or (branch.reason in ("lost", "killed") and not pruned)


def rose(basin: Basin, after: Mapping[str, Evidence]) -> bool:
    """Whether more tests pass than ever before."""
    most = max((past.score for past in basin.history), default=0)
    if basin.start is not None:
        most = max(most, sum(len(x.passed) for x in basin.start.results.values()))
    return sum(len(x.passed) for x in after.values()) > most


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


def _strangers(branches: Sequence[Branch], seen: Seen) -> list[Commit]:
    """Commits of somebody else that came onto the target while its minds worked there."""
    return [c for b in branches if b.id in seen.ends for c in seen.ends[b.id].strangers]


def _text(result: Result, gained: Sequence[str], missing: Sequence[str], branches: Sequence[Branch], seen: Seen) -> str:
    """The words in brackets after the result, at most three names each."""
    strangers = _strangers(branches, seen)
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
    at_lock = basin.valve == "person" and not success and any(b.waits for b in branches)
    if at_lock and not _strangers(branches, seen):
        return "WAITING"
    if _to_be_seen(basin, branches, seen, success=success):
        return "BLOCKED"
    if success:
        return "SUCCESS"
    if ended.result == "quota":
        return "WAITING"
    after = ended_with(basin, ended, now, branches)
    if same_verdict(basin, branches) or (judge.fruitless(after.history) and strategy.stubborn(after, run)):
        return "BLOCKED"
    limit = _limit(after, run, now)
    if limit is not None:
        return limit.decision
    flat = judge.flat(judge.since(after.history, run))
    return "STALLED" if flat and flat % run.settings.stallAfter == 0 else "IN_PROGRESS"


def _to_be_seen(basin: Basin, branches: Sequence[Branch], seen: Seen, *, success: bool) -> bool:
    """Whether only a person can say what is to become of it: of commits of somebody else, and of a flagged success."""
    flagged = any(b.flags and (b.admitted or b.phase is Phase.CANDIDATE) for b in branches)
    return bool(_strangers(branches, seen)) or (flagged and _decides(basin, branches, success))


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


def ended_with(
    basin: Basin, ended: e.AttemptEnded, now: Now, branches: Sequence[Branch] = (), *, denied: bool = False
) -> Basin:
    """The basin once this end of its attempt is on record, as far as the policy looks at it."""
    assert basin.attempt is not None
    past = Past(
        number=ended.attempt,
        strategy="",
        approach=" / ".join(dict.fromkeys(b.approach.partition(":")[0] for b in branches)),
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
        results=sum(b.head not in (None, b.base) for b in branches),
        denied=denied,
    )
    return replace(basin, attempt=None, history=(*basin.history, past))
