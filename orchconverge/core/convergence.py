"""Work convergence of the loop: what the minds of an attempt did is put to admission, and what it says is told the next ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from orchconverge.core import events as e
from orchconverge.core import judge, strategy
from orchconverge.core.admission import Admission, Checked, Gate, Turn, after_turn, begun
from orchconverge.core.admission_record import record, resumed
from orchconverge.core.frontiers import Goal, Standing, Thresholds, facts_of, open_stage
from orchconverge.core.outlook import best, ended_with, interrupted, rose
from orchconverge.core.seen import Now, Seen
from orchconverge.core.state import Basin, Branch, Phase, Run
from orchconverge.core.values import Calls, Evidence

HOW = ("lost", "between", "pane", "acp", "hooks")
"""How calls met admission, the least first: of a wave the least is told."""


def goal_of(basin: Basin, *, root: str = "", report: str = "", written: Sequence[str] = ()) -> Goal:
    """What the work of this basin is measured by.

    ``root`` is a mind's tree, ``report`` the file for its own word, ``written`` the outputs of stages that it closed.
    """
    results = basin.tip.results if basin.tip is not None else {}
    excerpts = [x.excerpt for x in results.values() if x.met != "yes"]
    listed = [part for c in basin.criteria for part in (c.name, c.command, c.text, *c.paths)]
    red = standing_of(basin).failed
    return Goal(
        words="\n".join((basin.goal, basin.macrostate, *listed, *excerpts)),
        checks={c.name: c.command for c in basin.criteria if c.command and c.in_loop},
        expects=any(not judge.met(results, c.name) and c.name not in red for c in basin.required if not c.condition),
        stage=open_stage(basin.stages, (*basin.staged, *written)),
        root=root,
        report=report,
    )


def limits_of(run: Run, *, inside: bool = False) -> Thresholds:
    """The thresholds of this run, between its attempts or ``inside`` of a running one."""
    found = run.settings.thresholds
    if not inside:
        return found
    times = found.inside
    return replace(
        found,
        targets=found.targets * times,
        rereads=found.rereads * times,
        runs=found.runs * times,
        strays=found.strays * times,
    )


def standing_of(basin: Basin) -> Standing:
    """How far the pursuit's frontier has got, by its newest record."""
    return resumed(basin.convergence) if basin.convergence else Standing()


def at_start(basin: Basin, run: Run, *, fresh: bool) -> Standing:
    """What the calls of a mind of the running attempt are measured from. ``fresh``: its context knows nothing yet."""
    return begun(_before(basin, run), fresh=fresh)


def _before(basin: Basin, run: Run) -> Standing:
    """The standing that the running attempt began at: a new run and a new rung of the ladder begin the budget anew."""
    known, attempt = standing_of(basin), basin.attempt
    last = basin.history[-1] if basin.history else None
    if last is None or last.number < run.first or last.denied:
        return begun(known, fresh=True)
    rung = attempt.strategy if attempt is not None else "continue"
    return begun(known, fresh=True) if rung not in ("continue", last.strategy) else known


def converging(
    seen: Seen, now: Now, basin: Basin, run: Run, branches: Sequence[Branch], ended: e.AttemptEnded
) -> e.AttemptEnded:
    """The end of an attempt with what admission says of going on, and what follows of that.

    To deny is to leave the rung of the ladder that the attempt was on; where none is left the run is over, unsatisfied.
    """
    goal = goal_of(basin)
    admission = _admission(seen, basin, run, branches, ended, goal)
    told = replace(ended, workConvergence={**record(admission, goal), **_met(branches)})
    if admission.action != "deny_ordinary_continuation" or ended.decision not in ("IN_PROGRESS", "STALLED"):
        return told
    over = strategy.following(ended_with(basin, ended, now, denied=True), run).stop
    return replace(told, decision="UNSATISFIED" if over else "STALLED")


def _admission(
    seen: Seen, basin: Basin, run: Run, branches: Sequence[Branch], ended: e.AttemptEnded, goal: Goal
) -> Admission:
    gate: Gate = "approval_gate" if ended.decision in ("BLOCKED", "WAITING") and ended.result != "success" else ""
    if not ended.charged:
        return after_turn(_before(basin, run), goal, (), gate=gate, limits=limits_of(run))
    turns = [_turn(seen, basin, branch, ended, goal) for branch in branches if _was_made(branch)]
    return after_turn(_before(basin, run), goal, turns, gate=gate, limits=limits_of(run))


def _was_made(branch: Branch) -> bool:
    """Whether its mind had its turn: one that was kept from it, or whose process failed, shows nothing of the work."""
    crashed = branch.phase is Phase.FAILED and branch.reason == "exited" and bool(branch.exit or branch.signal)
    return not interrupted(branch) and not crashed


def _turn(seen: Seen, basin: Basin, branch: Branch, ended: e.AttemptEnded, goal: Goal) -> Turn:
    """What was observed of one mind. Its own tree's evidence counts, whether or not it was admitted since."""
    end, work = seen.ends.get(branch.id), seen.works.get(branch.id)
    contents = (seen.contents or {}).get(branch.id, {})
    own = replace(goal, root=branch.worktree)
    return Turn(
        facts=facts_of(end.outcome.acts if end is not None else (), contents, own),
        checks=_checks(basin, branch.evidence),
        claims=tuple({name for commit in work.commits for name in commit.criteria}) if work is not None else (),
        verdict=branch.verdict,
        fresh=branch.place == "fresh",
        holds=ended.result == "success",
        denied=branch.calls.denied,
    )


def _checks(basin: Basin, evidence: Sequence[Evidence]) -> tuple[Checked, ...]:
    """Our answers on a mind's own tree, beside what held when the attempt began."""
    ever, more = best(basin), rose(basin, {x.criterion: x for x in evidence})
    start = {n: x.met == "yes" for n, x in (basin.start.results if basin.start is not None else {}).items()}
    before = basin.history[-1].criteria if basin.history else start
    return tuple(
        Checked(
            name=x.criterion,
            met=x.met,
            held=before.get(x.criterion, False),
            gained=(x.met == "yes" and x.criterion not in ever) or (more and bool(x.passed)),
        )
        for x in evidence
    )


def _met(branches: Sequence[Branch]) -> Mapping[str, str | int]:
    """How the calls of the attempt's minds met admission, all together."""
    calls = [branch.calls for branch in branches] or [Calls()]
    return {
        "admission": min((one.how for one in calls), key=HOW.index),
        "asked": sum(one.asked for one in calls),
        "refused": sum(one.refused for one in calls),
        "unasked": sum(one.unasked for one in calls),
    }


def closing(basin: Basin, run: Run) -> str:
    """What closes the frontier, told to the minds of an attempt that was constrained; empty if it was not."""
    standing = _before(basin, run)
    if not standing.constrained or standing.denied:
        return ""
    return after_turn(standing, goal_of(basin), (), limits=limits_of(run)).closes
