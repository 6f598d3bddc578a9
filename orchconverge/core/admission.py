"""Work convergence: whether a next turn, or a next call inside a running one, is admitted by what was observed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from orchconverge.core.fingerprints import nature
from orchconverge.core.frontiers import (
    KEPT,
    Compacted,
    Goal,
    Looked,
    Observed,
    Ran,
    Standing,
    Thresholds,
    answered,
    closed,
    folded,
    observe,
    spent,
)
from orchconverge.core.values import Met, Verdict

DEFAULTS = Thresholds()

Frontier = Literal["verifier_recovery", "authoring"]
Cause = Literal["failed_check", "rereads", "unknown_class", "not_credible", "declared_stage", "expected_artifact"]
"""Why the frontier is of its kind."""
FrontierState = Literal["pending", "satisfied", "unsatisfied", "failed"]
"""``failed``: denied while a check that work was put to is red. ``unsatisfied``: denied without one."""
TurnAction = Literal[
    "allow_next_turn", "constrain_next_turn", "deny_ordinary_continuation", "finalize_without_provider_turn"
]
Gate = Literal["", "operator_stop", "approval_gate", "sandbox"]
"""What stands above admission: a person's stop, a person who is waited for, a call that is not allowed here."""


class Checked(Struct, frozen=True, kw_only=True):
    """Our own answer to a criterion after a turn. ``held``: it was met before; ``gained``: it is met now, or its score rose."""

    name: str
    met: Met
    held: bool = False
    gained: bool = False


class Turn(Struct, frozen=True, kw_only=True):
    """What was observed of one mind in one turn.

    ``claims``: criteria that it says it met. ``fresh``: its context was not that of the turn before. ``holds``: all that is
    required is met now. ``denied``: its own calls were denied before it ended.
    """

    facts: tuple[Observed, ...] = ()
    checks: tuple[Checked, ...] = ()
    claims: tuple[str, ...] = ()
    verdict: Verdict | None = None
    fresh: bool = False
    holds: bool = False
    denied: bool = False


class Admission(Struct, frozen=True, kw_only=True):
    """What is decided. ``closes`` is told to the mind; ``standing`` is what the next question is asked with.

    ``satisfied`` with `allow_next_turn`: this frontier closed and the goal is not reached. `finalize_without_provider_turn`
    closes this mind's work, not the pursuit: after a verdict the policy may try another approach.
    """

    frontier: Frontier
    cause: Cause
    state: FrontierState
    action: TurnAction
    standing: Standing
    closes: str = ""
    overruled: Gate = ""


class Ruling(Struct, frozen=True, kw_only=True):
    """The answer to a call that asks before it runs. ``reason`` goes to the model when it is not allowed."""

    allowed: bool
    admission: Admission
    reason: str = ""


class Call(Struct, frozen=True, kw_only=True):
    """A tool call that is about to run. ``target`` is a path, a pattern or a command line; ``part`` which lines of it."""

    kind: Literal["read", "search", "write", "run", "other"]
    target: str = ""
    part: str = ""


def frontier(standing: Standing, goal: Goal, limits: Thresholds = DEFAULTS) -> tuple[Frontier, Cause]:
    """Which frontier is open, and why. Recovery wins over every declaration, and over what cannot be told."""
    if standing.failed:
        return "verifier_recovery", "failed_check"
    if standing.rereads >= limits.rereads:
        return "verifier_recovery", "rereads"
    if goal.stage is not None:
        strayed = standing.strays >= limits.strays
        elsewhere = bool(goal.inputs) and not standing.inputs and standing.targets >= limits.targets
        if strayed or elsewhere:
            return "verifier_recovery", "not_credible"
        return "authoring", "declared_stage"
    return ("authoring", "expected_artifact") if goal.expects else ("verifier_recovery", "unknown_class")


def after_turn(
    standing: Standing, goal: Goal, turns: Sequence[Turn], *, gate: Gate = "", limits: Thresholds = DEFAULTS
) -> Admission:
    """Whether the next turn is admitted, after one in which these minds worked side by side, each from ``standing``.

    The mind that came farthest speaks for all: width is no fault. A ``gate`` wins: nothing is denied or counted then.
    """
    found = [_judged(standing, goal, turn, limits) for turn in turns]
    best = min(found, key=_rank) if found else _standing_ruled(begun(standing, fresh=False), goal, limits)
    if not gate:
        return best
    kept = replace(best.standing, refusals=standing.refusals, denied=standing.denied, constrained=standing.constrained)
    state = best.state if best.state == "satisfied" else "pending"
    return replace(best, state=state, action=_at(gate), standing=kept, closes=_GATES[gate], overruled=gate)


def before_call(
    standing: Standing,
    goal: Goal,
    call: Call,
    *,
    since: Sequence[Observed] = (),
    gate: Gate = "",
    limits: Thresholds = DEFAULTS,
) -> Ruling:
    """Whether a call inside a running turn may run. ``since``: what was observed since the last question, in order.

    The question itself counts a call; of what was observed writes, compactions and the exits of commands count.
    Writes are never refused before a denial: one of them is what closes the frontier. The mind's own report may always be
    written. What a ``gate`` forbids is not allowed here, and is no refusal of ours; what is allowed here a gate may forbid.
    """
    for fact in since:
        if isinstance(fact, Ran):
            standing = answered(standing, goal, fact)
        elif not isinstance(fact, Looked):
            standing = observe(standing, goal, fact, limits)
    if gate:
        ruled = _ruled(standing, goal, limits, "pending", _at(gate))
        ruled = replace(ruled, closes=_GATES[gate], overruled=gate)
        return Ruling(allowed=False, admission=ruled, reason=_GATES[gate])
    if call.kind == "write" and goal.report and goal.path(call.target) == goal.path(goal.report):
        return Ruling(allowed=True, admission=_standing_ruled(standing, goal, limits))
    if standing.denied:
        return _refused(standing, goal, limits)
    look = _look(call)
    if look is None:
        return Ruling(allowed=True, admission=_standing_ruled(standing, goal, limits))
    after = observe(standing, goal, look, limits)
    if not _beyond(standing, after, limits):
        return Ruling(allowed=True, admission=_standing_ruled(after, goal, limits))
    if standing.refusals >= limits.refusals:
        return _refused(replace(standing, denied=True, constrained=True), goal, limits)
    return _refused(replace(standing, refusals=standing.refusals + 1, constrained=True), goal, limits)


def begun(standing: Standing, *, fresh: bool) -> Standing:
    """What a mind's own calls are measured by: what is red and what was there, and with a fresh context all of the budget."""
    if fresh:
        return Standing(failed=standing.failed, states=standing.states)
    return replace(closed(standing) if standing.satisfied else standing, nets={}, uncounted=())


def _look(call: Call) -> Looked | Ran | None:
    """The call as what it would be if it only looked; ``None`` for what may change something."""
    if call.kind in ("read", "search"):
        return Looked(target=call.target, part=call.part, search=call.kind == "search", ok=True)
    return Ran(command=call.target) if call.kind == "run" and nature(call.target) != "write" else None


def _beyond(before: Standing, after: Standing, limits: Thresholds) -> bool:
    """Whether this one call is more than the budget of its own kind."""
    return (
        before.targets < after.targets > limits.targets
        or before.rereads < after.rereads > limits.rereads
        or before.runs < after.runs > limits.runs
    )


def _refused(standing: Standing, goal: Goal, limits: Thresholds) -> Ruling:
    ruled = _standing_ruled(standing, goal, limits)
    if standing.denied:
        reason = f"work convergence: this turn is over, it did not close. What is left is your report: {_report(goal)}"
    else:
        counts = f"{standing.targets} things looked at, {standing.rereads} times again, and nothing closed"
        reason = f"work convergence: refused after {counts}. {ruled.closes} Looking goes on after that."
    return Ruling(allowed=False, admission=ruled, reason=reason)


def _judged(before: Standing, goal: Goal, turn: Turn, limits: Thresholds) -> Admission:
    """One mind's turn."""
    start = begun(before, fresh=False)
    if turn.fresh:
        start = observe(start, goal, Compacted(), limits)
    standing = folded(start, goal, turn.facts, limits)
    advanced = len(standing.inputs) > len(start.inputs) or standing.targets > start.targets
    gained = any(check.gained for check in turn.checks)
    standing = replace(standing, failed=_red(before, standing, goal, turn))
    kind, cause = frontier(standing, goal, limits)
    if before.failed:
        kind, cause = "verifier_recovery", "failed_check"
    honest = turn.verdict is not None and _honest(turn.verdict, turn)
    reached = turn.holds and gained
    shown = cause != "unknown_class" or gained or turn.holds
    if honest or reached or (standing.durable and not standing.failed and shown):
        done = honest or turn.holds or (goal.stage is not None and kind == "authoring")
        action: TurnAction = "finalize_without_provider_turn" if done else "allow_next_turn"
        found = _ruled(replace(standing, satisfied=True), goal, limits, "satisfied", action)
        return replace(found, frontier=kind, cause=cause)
    moved = standing.durable and standing.mutations <= limits.mutations
    shown_by_us = gained or bool(before.failed and not standing.failed)
    if moved or shown_by_us:
        refusals = 0 if shown_by_us else standing.refusals
        anew = replace(standing, seen=(), targets=0, rereads=0, runs=0)
        standing = replace(anew, constrained=False, refusals=refusals)
        return _ruled(standing, goal, limits, "pending", "allow_next_turn")
    if turn.denied:
        standing = replace(standing, constrained=True, denied=True)
    elif start.constrained:
        refusals = start.refusals + 1
        standing = replace(standing, constrained=True, refusals=refusals, denied=refusals >= limits.refusals)
    elif spent(standing, limits) or not advanced:
        standing = replace(standing, constrained=True)
    return _standing_ruled(standing, goal, limits)


def _red(before: Standing, standing: Standing, goal: Goal, turn: Turn) -> tuple[str, ...]:
    """Checks that are red although they held, or although work was put to them or is said to have met them.

    What is unmet and was never worked at is open, not failed; so is the rest of a goal of which something was gained, and
    what a declared stage is not about.
    A mind's own run of a check never makes it green here: only our answer does.
    """
    gained = any(check.gained for check in turn.checks)
    worked = standing.durable and not gained and goal.stage is None
    red = dict.fromkeys((*before.failed, *standing.failed))
    for check in turn.checks:
        if check.met == "yes":
            red.pop(check.name, None)
        elif check.held or check.met != "no" or check.name in turn.claims or worked:
            red[check.name] = None
    return tuple(red)[:KEPT]


def _honest(verdict: Verdict, turn: Turn) -> bool:
    """Whether a verdict says something, and nothing that we observed contradicts it: what is already done is met."""
    return bool(verdict.text.strip()) and (verdict.kind != "already_done" or turn.holds)


def _rank(one: Admission) -> int:
    order = ("finalize_without_provider_turn", "allow_next_turn", "constrain_next_turn", "deny_ordinary_continuation")
    return 4 * (one.state != "satisfied") + order.index(one.action)


def _standing_ruled(standing: Standing, goal: Goal, limits: Thresholds) -> Admission:
    """The admission that a standing amounts to while nothing more is known."""
    if standing.denied:
        state: FrontierState = "failed" if standing.failed else "unsatisfied"
        return _ruled(standing, goal, limits, state, "deny_ordinary_continuation")
    if standing.durable and not standing.failed:
        typed = goal.stage is not None and frontier(standing, goal, limits)[0] == "authoring"
        return _ruled(
            standing, goal, limits, "satisfied", "finalize_without_provider_turn" if typed else "allow_next_turn"
        )
    action: TurnAction = "constrain_next_turn" if standing.constrained else "allow_next_turn"
    return _ruled(standing, goal, limits, "pending", action)


def _ruled(standing: Standing, goal: Goal, limits: Thresholds, state: FrontierState, action: TurnAction) -> Admission:
    kind, cause = frontier(standing, goal, limits)
    closes = _closes(standing, goal, kind)
    return Admission(frontier=kind, cause=cause, state=state, action=action, standing=standing, closes=closes)


def _at(gate: Gate) -> TurnAction:
    return "finalize_without_provider_turn" if gate == "operator_stop" else "constrain_next_turn"


_GATES: Mapping[Gate, str] = {
    "operator_stop": "A person stopped this run.",
    "approval_gate": "A person is asked first; nothing goes on until then.",
    "sandbox": "This is not allowed here. If the goal cannot be met without it, say so in your report.",
}


def _report(goal: Goal) -> str:
    return f"a verdict in {goal.report}." if goal.report else "a verdict in your report."


def _closes(standing: Standing, goal: Goal, kind: Frontier) -> str:
    """What closes the frontier, in a sentence or two for the mind."""
    if "rejected" in standing.uncounted:
        return f"A write was rejected here: do what is allowed, or give {_report(goal)}"
    if standing.failed:
        named = ", ".join(standing.failed[:3]) + (" and more" if len(standing.failed) > 3 else "")
        return f"What closes this: a change that makes {named} pass, or {_report(goal)}"
    if kind == "authoring" and goal.stage is not None:
        return f"What closes this: {goal.output}, written with what {goal.stage.name} asks for."
    return f"What closes this: a change of a file that the goal is about, or {_report(goal)}"
