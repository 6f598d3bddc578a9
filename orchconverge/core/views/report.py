"""The convergence report: what a person who was not there has to know, in Markdown that is complete without its charts.

Text of others (goal, reasons, summaries, output) stays text, and no path of this machine is in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from orchconverge.core import events as e
from orchconverge.core.chain import Step
from orchconverge.core.measures import first_met_by, limits, met_of, results
from orchconverge.core.needs import Damage, needs
from orchconverge.core.outlook import outlook
from orchconverge.core.seen import Commit, Now
from orchconverge.core.standing import queue
from orchconverge.core.state import Basin, Phase, State
from orchconverge.core.target import Criterion
from orchconverge.core.values import Evidence, Met, all_tokens
from orchconverge.core.views.markdown import Paths, code, link, table
from orchconverge.core.views.report_charts import progress, timeline
from orchconverge.core.views.report_sections import (
    Written,
    attempts,
    commands,
    converging,
    decisions,
    landed,
    learned,
    rate,
    spans,
)
from orchconverge.core.views.text import clean, counted, duration, tokens

_WORDS: Final = {
    "SUCCESS": "all required criteria met",
    "TIME_LIMIT": "time limit reached",
    "ATTEMPT_LIMIT": "attempt limit reached",
    "BUDGET_LIMIT": "budget used",
    "STALLED": "stalled",
    "BLOCKED": "waits for a person",
    "WAITING": "waits for a person",
    "UNSATISFIED": "not satisfied",
    "STOPPED": "stopped",
    "IN_PROGRESS": "under way",
    "ERROR": "ended by an error",
}
_STOPPED: Final = {
    "stalled": "STALLED",
    "waiting": "WAITING",
    "stopped": "STOPPED",
    "unsatisfied": "UNSATISFIED",
    "error": "ERROR",
    "refused": "REFUSED",
}
_MET: Final[dict[Met | None, str]] = {
    "yes": "met",
    "no": "not met",
    "error": "could not run",
    "unstable": "unstable",
    "unknown": "unknown",
    None: "not run",
}


def report(
    state: State,
    basin_id: str,
    *,
    now: datetime,
    seq_from: int,
    seq_to: int,
    bad: int,
    commits: Sequence[Commit] = (),
    facts: Sequence[e.AnyFact] = (),
) -> str:
    """The whole report of one basin. ``now`` is aware, and times are said in its zone.

    ``commits`` are those of the target since the start, oldest first. With the basin's ``facts``, oldest first, decisions
    have their time and decider, parts that were taken are named, waits are drawn and every round of the final steps counts;
    without them the report holds what the fold kept. Raises `KeyError` for a basin that is not declared.
    """
    basin = state.basins[basin_id]
    trees = [branch.worktree for branch in state.branches_of(basin_id)]
    trees += [basin.run.settings.checkout] if basin.run is not None else []
    own = [fact for fact in facts if getattr(fact, "basin", None) == basin_id]
    written = Written(state=state, basin=basin, facts=own, now=now, paths=Paths(trees))
    word, decision = _outcome(written)
    rests = f"Ledger lines {seq_from} to {seq_to}, {bad} bad. Every criterion was run by orchconverge, none was taken from a"
    skipped = basin.run is not None and basin.run.settings.permissions == "skip"
    blocks = [
        f"# {basin.id}: {word}",
        f"> {written.prose(basin.macrostate, 2000)}",
        *([f"Asked for: {written.prose(basin.goal, 2000)}"] if basin.goal.strip() != basin.macrostate.strip() else []),
        "\n".join(table(("", ""), _summary(written, decision))),
        "## Criteria",
        "\n".join(_criteria(written)),
        "## How it converged",
        *progress(basin),
        *rate(basin),
        *timeline(spans(written), now),
        "## Implementation timeline",
        *attempts(written),
        *landed(written, commits),
        *converging(written),
        "## Decisions",
        *decisions(written),
        "## What was learned",
        *learned(written),
        "## Commands and their effect",
        "\n".join(commands(written)),
        "## What this report rests on",
        f"{rests} mind's word. Minds had no sandbox{', and their permission checks were off' if skipped else ''}. "
        f"Times are {now:UTC%z}, written {now:%Y-%m-%d %H:%M}.{_recorded(basin)}",
    ]
    return "\n\n".join(blocks) + "\n"


# --- the outcome -----------------------------------------------------------------------------------------------------


def _outcome(written: Written) -> tuple[str, str]:
    """The word of the title, and the decision."""
    basin, run = written.basin, written.basin.run
    if basin.phase == "converged":
        return "converged", "SUCCESS"
    if basin.phase == "killed":
        return "killed", "KILLED"
    if run is None:
        return "declared, never opened", "DECLARED"
    decision = _STOPPED.get(run.stopped or "") if not run.open else None
    if decision is None:
        decision = outlook(basin, run, Now(active=basin.active, mono=0.0, wall=written.now)).decision
    if run.stopped == "limit" and not run.open and not decision.endswith("_LIMIT"):
        decision = "TIME_LIMIT"  # the next attempt would have begun after it
    return _WORDS.get(decision, decision.lower()), decision


def _summary(written: Written, decision: str) -> list[tuple[str, str]]:
    basin, most = written.basin, limits(written.basin)
    met, whole = met_of(basin), len(basin.counted)
    at = f" at {code(basin.tip.head[:7])}" if basin.tip is not None else ""
    share = f" ({100 * met // whole}%)" if whole else ""
    outcome = f"{decision}: {met} of {whole} required criteria met{share} on {written.code(basin.target)}{at}"
    note = basin.note or (basin.run.stop_text if basin.run is not None and decision != "SUCCESS" else "")
    rows = [
        ("**Outcome**", f"{outcome}. {written.prose(note)}" if note else outcome),
        ("**Attempts**", _attempted(basin, most.attempts)),
        ("**Active time**", _active(basin, most.hours)),
        ("**Cost**", _cost(basin)),
        ("**Merged**", _merged(written)),
    ]
    rows += [(f"**{title}**", _step(written, step)) for title, step in _steps(basin)]
    return [*rows, ("**Needs you**", _needs(written))]


def _attempted(basin: Basin, most: int | None) -> str:
    uncharged = sum(not past.charged for past in basin.history)
    said = f"{basin.charged} of {most}" if most is not None else str(basin.charged)
    return said + (f", {uncharged} more not charged" if uncharged else "")


def _active(basin: Basin, most: float | None) -> str:
    said = duration(basin.active) + (f" of {duration(most * 3600)}" if most is not None else "")
    times = [t for past in basin.history for t in (past.started, past.ended) if t is not None]
    days = (max(times).date() - min(times).date()).days + 1 if times else 1
    return said + (f", over {counted(days, 'day')}" if days > 1 else "")


def _cost(basin: Basin) -> str:
    most, usage = limits(basin), basin.usage
    usd = "not reported" if usage.usd is None else f"${usage.usd:.2f}"
    usd += f" of ${most.usd:.2f}" if most.usd is not None else ""
    return f"{usd}, {tokens(all_tokens(usage))} tokens"


def _merged(written: Written) -> str:
    branches = written.state.branches_of(written.basin.id)
    grafted = sum(b.phase is Phase.GRAFTED for b in branches)
    here = sum(b.admitted for b in branches)
    parts = sum(isinstance(fact, e.ResidueGrafted) for fact in written.facts)
    said = [counted(grafted, "graft")] if grafted or not here else []
    said += [f"{counted(here, 'attempt')} committed in place"] if here else []
    said += [f"{counted(parts, 'part')} of others"] if parts else []
    pruned = sum(b.phase is Phase.PRUNED for b in branches)
    waiting = len(queue(written.state, written.basin))
    refused = sum(b.phase is Phase.CANDIDATE and not b.admitted for b in branches) - waiting
    said += [f"{pruned} pruned"] if pruned else []
    said += [f"{counted(waiting, 'candidate')} waiting"] if waiting else []
    said += [f"{refused} refused by the gate, kept"] if refused > 0 else []
    return ", ".join(said)


def _steps(basin: Basin) -> list[tuple[str, Step]]:
    titles = {"pushl": "Pull request", "reviewdeep": "Review", "copilot": "Comments and checks"}
    return [(titles[step.name], step) for step in basin.chain.done if step.name in titles]


def _step(written: Written, step: Step) -> str:
    status = "" if step.status == "done" else f"{step.status}: "
    detail = written.prose(step.detail)
    if step.url is None:
        return f"{status}{detail}"
    return f"{link(step.url, _numbered(step.url))}, {status}{detail}"


def _numbered(url: str) -> str:
    last = url.rstrip("/").rsplit("/", 1)[-1]
    return f"#{last}" if last.isascii() and last.isdigit() else "pull request"


def _needs(written: Written) -> str:
    basin = written.basin
    found = needs(written.state, now=written.now, leases={}, silent={}, ledger=Damage())
    asks = [
        f"{written.prose(n.sentence)}: {code(n.command)}" for n in found if n.basin == basin.id and n.kind != "question"
    ]
    asks += [
        f"merge {link(step.url, _numbered(step.url))}"
        for _, step in _steps(basin)
        if step.name == "pushl" and step.url is not None and basin.phase == "converged"
    ]
    asked = sum(q.basin == basin.id for q in written.state.frontier.values())
    asks += [f"answer {counted(asked, 'open question')}"] if asked else []
    return "; ".join(asks) or "nothing"


def _recorded(basin: Basin) -> str:
    """Where the record of a pull request lies, if a step names it: no path of this machine is in a report."""
    name = f"pr/{basin.id}.json"
    there = any(name in step.detail for step in basin.chain.done)
    return f" `{name}` lies in the state directory, `orchconverge` in the repository's git directory." if there else ""


# --- criteria --------------------------------------------------------------------------------------------------------


def _criteria(written: Written) -> list[str]:
    basin = written.basin
    start = basin.start.results if basin.start is not None else {}
    end, by = results(basin), _first_met(written)
    rows = []
    for criterion in sorted(basin.criteria, key=lambda c: not c.required):
        name, found = criterion.name, end.get(criterion.name)
        before = start.get(name)
        last = _MET[found.met if found is not None else None]
        rows.append(
            (
                f"{name}{'' if criterion.required else ' (advisory)'}",
                _MET[before.met if before is not None else None],
                f"**{last}**" if last == "met" and criterion.required else last,
                "" if criterion.condition else by.get(name) or first_met_by(written.state, basin, criterion) or "",
                _asked(written, criterion),
                _evidence(written, found),
            )
        )
    return table(("criterion", "start", "end", "first met by", "checked by", "evidence"), rows)


def _asked(written: Written, criterion: Criterion) -> str:
    if criterion.command:
        return written.code(criterion.command)
    if criterion.paths:
        return f"changed: {written.code(', '.join(criterion.paths))}"
    said = f"{criterion.kind}: {written.prose(criterion.text, 200)}" if criterion.text else criterion.kind
    return said if criterion.in_loop else f"{said} (final steps)"


def _evidence(written: Written, found: Evidence | None) -> str:
    if found is None:
        return ""
    parts = [f"exit {found.exit}"] if found.exit is not None else []
    parts += [duration(found.seconds)]
    parts += [code(found.digest[:6])] if found.digest else []
    if found.met != "yes" and found.excerpt.strip():
        parts.append(written.prose(clean(found.excerpt, keep="\n").strip().rsplit("\n", 1)[-1], 80))
    return ", ".join(parts)


def _first_met(written: Written) -> dict[str, str]:
    """By the facts: who brought each criterion onto the target first. Those that held at the start are not in it."""
    start, by = written.basin.start, dict[str, str]()
    held = {name for name, x in start.results.items() if x.met == "yes"} if start is not None else set[str]()
    for fact in written.facts:
        if isinstance(fact, e.BranchGrafted) or (isinstance(fact, e.BranchCandidate) and fact.admitted):
            name = fact.branch
        elif isinstance(fact, e.ResidueGrafted):
            name = f"{fact.branch}, in part"
        else:
            continue
        for x in fact.evidence:
            if x.met == "yes" and x.criterion not in held:
                by.setdefault(x.criterion, name)
    return by
