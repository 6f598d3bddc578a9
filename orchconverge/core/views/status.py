"""The status block of the seed, its long form, and the one-line form for prompts and status bars."""

from __future__ import annotations

from typing import Final

from orchconverge.core.needs import Need
from orchconverge.core.shown import BasinShown, CriterionShown, Projection
from orchconverge.core.standing import GROUPS, PHASES
from orchconverge.core.views.text import age, cells, clean, clip, clock, counted, duration, to_ascii, tokens
from orchconverge.core.views.work import sentence

LINE: Final = 160
"""Cells of the goal and of the last result. The whole text is in `--json`."""
_ASKED: Final = 60
NAMED: Final = 5
"""How many other basins are named."""
_MET: Final = {
    "yes": "met",
    "no": "unmet",
    "error": "cannot run",
    "unstable": "unstable",
    "unknown": "unknown",
    None: "not run",
}
_KINDS: Final = {
    "tamper": "changed hooks or config",
    "ledger": "damaged ledger",
    "controller": "controller gone",
    "lock": "at the lock",
    "verdict": "verdict",
    "branch": "target branch",
    "error": "error",
    "limit": "limit",
    "consent": "consent",
    "question": "question",
}


def nothing() -> str:
    """What is said where there is no basin."""
    return 'No destination in this repository. Start one: orchconverge "<what should be true when it is done>"'


def block(shown: Projection, *, ascii: bool = False) -> str:
    """The seven lines, in the seed's order, without a newline at the end; below them other open basins, and damage."""
    basin = shown.basin()
    if basin is None:
        return nothing()
    lines = [
        f'Goal: "{clip(basin.goal, LINE)}"',
        f"Status: {basin.status}",
        f"Elapsed: {basin.elapsed}",
        f"Progress: {basin.progress}",
        f"Last Result: {clip(basin.last_result, LINE)}",
        f"Tmux Session: {basin.tmux_session}",
        f"Next Attempt: {basin.next_attempt}",
    ]
    lines += _others(shown, basin) + _damage(shown)
    text = "\n".join(lines)
    return to_ascii(text) if ascii else text


def verbose(shown: Projection, *, ascii: bool = False) -> str:
    """The block, a blank line, then ``Label: value`` lines, the most urgent first. Details of a line are indented."""
    basin = shown.basin()
    if basin is None:
        return block(shown, ascii=ascii)
    lines = [
        *_needs(shown),
        f"Waits For: {basin.waits_for.what}",
        *_criteria(basin),
        f"Trend: {_trend(basin)}",
        f"Stall: {basin.stall.attempts} of {basin.stall.of} attempts without progress"
        + (", then it stops" if basin.stall.last_rung else ""),
        *([f"Attempts: {basin.attempt.n} counted, {basin.uncharged} not charged"] if basin.uncharged else []),
        f"Budget: {_budget(basin)}",
        f"Limit First: {_limit(basin)}",
        *_admission(basin),
        f"Strategy: {_strategy(basin)}",
        *_final(basin),
        f"Lock: {_lock(shown, basin)}",
        f"Minds: {basin.minds.running} running" + (f", {basin.minds.unknown} not known" if basin.minds.unknown else ""),
        f"Branches: {_branches(basin)}",
        *_frontier(basin),
        f"Residue: {len(basin.residue)} kept",
        f"Engine: {_engines(shown, basin)}",
        f"Controller: {_controller(shown, basin)}",
        "Sandbox: none, a mind can do what you can"
        + (", its permission checks are off" if basin.permissions == "skip" else ""),
        f"Target: {basin.target.ref}" + (f" at {basin.target.head:.7}" if basin.target.head else ", not checked yet"),
        f"Ledger: {_ledger(shown)}",
        *([f"Attach: {basin.attach}"] if basin.attach is not None else []),
    ]
    text = f"{block(shown)}\n\n" + "\n".join(lines)
    return to_ascii(text) if ascii else text


def line(shown: Projection, *, ascii: bool = False) -> str:
    """How many basins are in each group, and what needs a person first; empty when nothing is open.

    Of a basin only its id is in it, so that tmux's status line finds nothing to expand.
    """
    signs = {sign.group: sign for sign in reversed(tuple(PHASES.values()))}
    parts = []
    for group in GROUPS[:3]:
        count = sum(one.group == group for one in shown.basins)
        if count:
            sign = signs[group]
            parts.append(f"{sign.ascii if ascii else sign.glyph}{count}")
    if shown.needs_you:
        need = shown.needs_you[0]
        where = need.branch or need.basin
        said = f"{where} {_KINDS[need.kind]}" if where else _KINDS[need.kind]
        if need.since is not None:
            said += f" {age((shown.as_of - need.since).total_seconds())}"
        parts.append(said)
    return " ".join(parts)


def _others(shown: Projection, basin: BasinShown) -> list[str]:
    others = [one.id for one in shown.basins if one.id != basin.id and one.group != "ended"]
    if len(others) < 2:
        return [f"1 more: orchconverge status {name}" for name in others]
    more = f" and {len(others) - NAMED} more" if len(others) > NAMED else ""
    return [f"{len(others)} more: orchconverge status NAME, with {', '.join(others[:NAMED])}{more}"]


def _damage(shown: Projection) -> list[str]:
    ledger = shown.ledger
    odd = ledger.bad + ledger.illegal
    if not odd:
        return []
    said = "is damaged or against the rules" if odd == 1 else "are damaged or against the rules"
    return [f"{odd} of {counted(ledger.lines, 'line')} {said}, and skipped. orchconverge ledger verify"]


def _needs(shown: Projection) -> list[str]:
    if not shown.needs_you:
        return ["Needs You: nothing"]
    first, *others = shown.needs_you
    lines = [f"Needs You: {first.sentence}: {first.command}", *_go_on(shown, first)]
    for need in others:
        lines += [f"  then     {need.sentence}: {need.command}", *_go_on(shown, need)]
    return lines


def _go_on(shown: Projection, need: Need) -> list[str]:
    """What a person types once it is seen to."""
    basin = shown.basin(need.basin) if need.basin is not None else None
    if basin is None or need.command.startswith("orchconverge resume"):
        return []
    if need.kind == "verdict":
        most = basin.attempt.max
        flag = f" --max-attempts {basin.attempt.n + most}" if most is not None else ""
        return [f"  go on    orchconverge resume {basin.id}{flag}"]
    if need.kind == "tamper":
        return [f"  go on    orchconverge stop {basin.id}; orchconverge resume {basin.id}"]
    if need.kind == "lock":
        return [f"  go on    merge it into {basin.target.ref} yourself, then orchconverge resume {basin.id}"]
    return []


def _criteria(basin: BasinShown) -> list[str]:
    required = [c for c in basin.criteria if c.required]
    advisory = [c for c in basin.criteria if not c.required]
    said = f"Criteria: {basin.met}/{basin.required} required met"
    if advisory:
        said += f", {sum(c.met == 'yes' for c in advisory)}/{len(advisory)} advisory met"
    width = max((cells(c.name) for c in basin.criteria), default=0)
    return [said, *(f"  {_criterion(c, width)}" for c in (*required, *advisory))]


def _criterion(criterion: CriterionShown, width: int) -> str:
    found = criterion.evidence
    end = "-" if found is None or found.exit is None else f"exit {found.exit}"
    took = "-" if found is None else duration(found.seconds)
    asked = clean(criterion.asked, _ASKED)
    if criterion.met != "yes" and found is not None and found.tail:
        asked += f": {clip(found.tail, _ASKED)}"
    if criterion.stage == "chain":
        asked += " (final steps)"
    return f"{_MET[criterion.met]:<10} {criterion.name:<{width}}  {end:<8} {took:<7} {asked}"


def _trend(basin: BasinShown) -> str:
    scores = ", ".join(map(str, basin.trend.scores[-8:]))
    if basin.trend.word is None:
        return f"no attempt counted yet ({scores} of {basin.required})" if scores else "no attempt counted yet"
    return f"{basin.trend.word} ({scores} of {basin.required})"


def _budget(basin: BasinShown) -> str:
    usd = "cost not reported" if basin.usd.used is None else f"${basin.usd.used:.2f}"
    if basin.usd.max is not None:
        usd += f" / ${basin.usd.max:.2f}"
    used = f"{tokens(int(basin.tokens.used or 0))}"
    if basin.tokens.max is not None:
        used += f" / {tokens(int(basin.tokens.max))}"
    return f"{usd}, {used} tokens"


def _limit(basin: BasinShown) -> str:
    first = basin.limit_first
    hours, usd = basin.active_hours, basin.usd
    if first.kind is None or first.fraction is None:
        return "none"
    if first.fraction >= 1:
        return f"{first.kind}, reached"
    if first.kind == "time" and hours.max is not None and hours.used is not None:
        return f"time, in {duration((hours.max - hours.used) * 3600)} of active time"
    if first.kind == "attempts":
        return f"attempts, {basin.attempt.n} of {basin.attempt.max}"
    if first.kind == "money" and usd.max is not None:
        return f"money, ${usd.used or 0.0:.2f} of ${usd.max:.2f}"
    return f"{first.kind}, {first.fraction:.0%} used"


def _admission(basin: BasinShown) -> list[str]:
    """What was decided of going on and what closes the frontier; nothing where the next turn is allowed as any other."""
    if basin.work_convergence_action is None:
        return [f"Admission: {basin.work_convergence_error}"] if basin.work_convergence_error is not None else []
    if basin.work_convergence_action == "allow_next_turn" and basin.work_convergence_overruled is None:
        return []
    error = f" ({basin.work_convergence_error})" if basin.work_convergence_error is not None else ""
    return [f"Admission: {sentence(basin)}{error}"]


def _strategy(basin: BasinShown) -> str:
    place = {"here": "in place", "fresh": "in worktrees", None: "not chosen"}[basin.place]
    return place + (f", {clip(basin.strategy, 40)}" if basin.strategy else "")


def _final(basin: BasinShown) -> list[str]:
    """How far the final steps are; nothing while they have not begun."""
    done, whole = basin.final_steps
    return [f"Final Steps: {done} of {whole} done"] if done else []


def _lock(shown: Projection, basin: BasinShown) -> str:
    waiting = [one for one in shown.lock.queue if one.basin == basin.id]
    if not waiting:
        return "empty"
    head = waiting[0]
    since = f", waits {age((shown.as_of - head.since).total_seconds())}" if head.since is not None else ""
    more = f", {len(waiting) - 1} more" if len(waiting) > 1 else ""
    flags = f", {counted(len(head.flags), 'flag')}" if head.flags else ""
    stands = f"{head.branch} {head.met}/{basin.required}, adds {head.adds}, loses {head.loses}{flags}{since}{more}"
    return f"{stands}: orchconverge lock {head.basin}"


def _branches(basin: BasinShown) -> str:
    def count(*phases: str) -> int:
        return sum(one.phase in phases and not one.admitted for one in basin.branches)

    landed = sum(one.phase == "grafted" or one.admitted for one in basin.branches)
    said = f"{counted(count('candidate'), 'candidate')}, {landed} grafted, {count('pruned')} pruned"
    said += f", {count('failed')} no candidate" if count("failed") else ""
    open_ones = count("spawned", "searching", "ended")
    return said + (f", {open_ones} searching" if open_ones else "")


def _frontier(basin: BasinShown) -> list[str]:
    lines = [f"Frontier: {len(basin.frontier)} open"]
    return [*lines, *(f"  {one.origin:<8} {one.question}" for one in basin.frontier)]


def _engines(shown: Projection, basin: BasinShown) -> str:
    names = ", then ".join(basin.engines) or "not chosen"
    if not shown.quota:
        return f"{names}; no quota hit"
    told = [
        f"{one.engine} has no quota" + (f" until {clock(one.until, shown.local)}" if one.until is not None else "")
        for one in shown.quota
    ]
    return f"{names}; {', '.join(told)}"


def _controller(shown: Projection, basin: BasinShown) -> str:
    seen = basin.controller.seen
    ago = f"seen {duration((shown.as_of - seen).total_seconds())} ago" if seen is not None else "not seen"
    said = {"alive": f"alive, {ago}", "gone": f"gone, {ago}", "unknown": f"no answer, {ago}"}
    return said.get(basin.controller.state, "none, nothing runs")


def _ledger(shown: Projection) -> str:
    ledger = shown.ledger
    parts = [counted(ledger.lines, "line"), f"{ledger.bad} bad"]
    if ledger.illegal:
        parts.append(f"{ledger.illegal} against the rules")
    if ledger.unknown:
        parts.append(f"{ledger.unknown} of a newer version")
    if ledger.torn:
        parts.append("the last one torn")
    if ledger.newest is not None:
        parts.append(f"newest {clock(ledger.newest, shown.local, seconds=True)}")
    return ", ".join(parts)
