"""The convergence report: what a person who was not there has to know, complete without its charts.

One document, printed as Markdown (`report`) or, by `orchconverge.core.views.report_html`, as a page. Text of others stays
text, and no path of this machine is in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from orchconverge.core.events import AnyFact
from orchconverge.core.report_record import CriterionReported, PullReported, Report, StepReported
from orchconverge.core.reporting import reported
from orchconverge.core.seen import Commit
from orchconverge.core.state import State
from orchconverge.core.views.document import (
    Block,
    Code,
    Document,
    Heading,
    Line,
    Link,
    Paragraph,
    Quoted,
    Strong,
    Table,
    joined,
    line,
)
from orchconverge.core.views.markdown import printed
from orchconverge.core.views.report_charts import grafts, mermaid, progress, timeline
from orchconverge.core.views.report_sections import (
    asked_for,
    attempts,
    commands,
    commits,
    converging,
    decisions,
    learned,
    rate,
    reproduced,
    requested,
    usage,
)
from orchconverge.core.views.text import counted, duration, tokens

_MET: Final[dict[str | None, str]] = {
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
    facts: Sequence[AnyFact] = (),
) -> str:
    """The whole report of one basin in Markdown; what is given is what `reported` takes."""
    return markdown(
        reported(state, basin_id, now=now, seq_from=seq_from, seq_to=seq_to, bad=bad, commits=commits, facts=facts)
    )


def markdown(told: Report) -> str:
    """A report in Markdown, with its charts in Mermaid."""
    return printed(document(told), lambda chart: mermaid(chart, told.written))


def document(told: Report) -> Document:
    """A report as a document."""
    return [
        Heading(1, (f"{told.basin}: {told.outcome.word}",)),
        Paragraph((Quoted(told.macrostate, 2000),), quoted=True),
        *asked_for(told),
        Table(("", ""), _summary(told)),
        Heading(2, ("Criteria",)),
        _criteria(told.criteria),
        Heading(2, ("How it converged",)),
        *progress(told.progress, told.outcome.required),
        *rate(told),
        *timeline(told.timeline, told.written),
        *grafts(told.candidates, (told.outcome.base or "")[:7], told.outcome.required),
        Heading(2, ("Implementation timeline",)),
        *attempts(told),
        *commits(told),
        *converging(told),
        Heading(2, ("Decisions",)),
        *decisions(told),
        Heading(2, ("What was learned",)),
        *learned(told),
        *requested(told),
        Heading(2, ("Commands and their effect",)),
        *commands(told),
        *usage(told),
        *reproduced(told),
        Heading(2, ("What this report rests on",)),
        _rests(told),
    ]


# --- the outcome -----------------------------------------------------------------------------------------------------


def _summary(told: Report) -> list[tuple[Line, Line]]:
    rows: list[tuple[str, Line]] = [
        ("Outcome", _outcome(told)),
        ("Attempts", (_attempted(told),)),
        ("Active time", (_active(told),)),
        ("Cost", (_cost(told),)),
        ("Merged", (_merged(told),)),
    ]
    titles = {"pushl": "Pull request", "reviewdeep": "Review", "copilot": "Comments and checks"}
    rows += [
        (titles[step.step], (*(_stands(told.pull_request) if step.step == "pushl" else ()), *_step(step)))
        for step in told.steps
        if step.step in titles
    ]
    rows.append(("Needs you", _needs(told)))
    return [((Strong(title),), said) for title, said in rows]


def _outcome(told: Report) -> Line:
    out = told.outcome
    share = f" ({100 * out.met // out.required}%)" if out.required else ""
    said = f"{out.decision}: {out.met} of {out.required} required criteria met{share} on "
    at = (" at ", Code(out.head[:7])) if out.head is not None else ()
    note = (". ", Quoted(out.note, 600)) if out.note else ()
    return (said, Code(out.target, 120), *at, *note)


def _attempted(told: Report) -> str:
    said = f"{told.attempts.n} of {told.attempts.max}" if told.attempts.max is not None else str(told.attempts.n)
    return said + (f", {told.uncharged} more not charged" if told.uncharged else "")


def _active(told: Report) -> str:
    said = duration(told.active_seconds)
    said += f" of {duration(told.most_hours * 3600)}" if told.most_hours is not None else ""
    return said + (f", over {counted(told.days, 'day')}" if told.days > 1 else "")


def _cost(told: Report) -> str:
    usd = "not reported" if told.usd.used is None else f"${told.usd.used:.2f}"
    usd += f" of ${told.usd.max:.2f}" if told.usd.max is not None else ""
    return f"{usd}, {tokens(int(told.tokens.used or 0))} tokens"


def _merged(told: Report) -> str:
    did = told.merged
    said = [counted(did.grafted, "graft")] if did.grafted or not did.in_place else []
    said += [f"{counted(did.in_place, 'attempt')} committed in place"] if did.in_place else []
    said += [f"{counted(did.parts, 'part')} of others"] if did.parts else []
    said += [f"{did.pruned} pruned"] if did.pruned else []
    said += [f"{counted(did.waiting, 'candidate')} waiting"] if did.waiting else []
    said += [f"{did.refused} refused by the gate, kept"] if did.refused else []
    return ", ".join(said)


def _step(step: StepReported) -> Line:
    status = "" if step.status == "done" else f"{step.status}: "
    at = (Link(step.url, numbered(step.url)), ", ") if step.url is not None else ()
    return line(*at, status, Quoted(step.detail, 600))


def _stands(pull: PullReported | None) -> Line:
    """How it stood on the forge when the report was written."""
    if pull is None:
        return ()
    checks = [(pull.passed, "passed"), (pull.failed, "failed"), (pull.pending, "pending")]
    said = [f"{counted(number, 'check')} {word}" for number, word in checks if number] or ["no checks"]
    return (f"{'a draft' if pull.draft else pull.state}, {', '.join(said)}: ",)


def numbered(url: str) -> str:
    """What a pull request is called by its address."""
    last = url.rstrip("/").rsplit("/", 1)[-1]
    return f"#{last}" if last.isascii() and last.isdigit() else "pull request"


def _needs(told: Report) -> Line:
    asks: list[Line] = []
    for one in told.needs_you:
        if one.url is not None:
            asks.append((f"{one.sentence} ", Link(one.url, numbered(one.url))))
        else:
            asks.append((Quoted(one.sentence, 600), ": ", Code(one.command or "")))
    if told.frontier:
        asks.append((f"answer {counted(len(told.frontier), 'open question')}",))
    return joined(asks, "; ") or ("nothing",)


def _rests(told: Report) -> Block:
    rests, now = told.rests, told.written
    record = (
        (
            " ",
            Code(rests.record),
            " lies in the state directory, ",
            Code("orchconverge"),
            " in the repository's git directory.",
        )
        if rests.record
        else ()
    )
    skipped = ", and their permission checks were off" if rests.permissions == "skip" else ""
    return Paragraph(
        (
            f"Ledger lines {rests.seq_from} to {rests.seq_to}, {rests.bad} bad. Every criterion was run by orchconverge, none "
            f"was taken from a mind's word. Minds had no sandbox{skipped}. Times are {now:UTC%z}, written {now:%Y-%m-%d %H:%M}.",
            *record,
        )
    )


# --- criteria --------------------------------------------------------------------------------------------------------


def _criteria(criteria: Sequence[CriterionReported]) -> Block:
    rows = []
    for one in criteria:
        last = _MET[one.met]
        end = (Strong(last),) if last == "met" and one.required else (last,)
        name = f"{one.name}{'' if one.required else ' (advisory)'}"
        start = "" if one.stage == "chain" else _MET[one.start]
        rows.append(((name,), line(start), end, line(one.first_met_by or ""), _asked(one), _evidence(one)))
    return Table(("criterion", "start", "end", "first met by", "checked by", "evidence"), rows)


def _asked(one: CriterionReported) -> Line:
    said: Line
    if one.kind in ("command", "tests"):
        return (Code(one.asked, 120),)
    if one.kind == "docs":
        return ("changed: ", Code(one.asked, 120))
    said = (f"{one.kind}: ", Quoted(one.asked, 200)) if one.asked else (one.kind,)
    return said if one.stage == "loop" else (*said, " (final steps)")


def _evidence(one: CriterionReported) -> Line:
    found = one.evidence
    if found is None:
        return ()
    parts: list[Line] = [(f"exit {found.exit}",)] if found.exit is not None else []
    parts.append((duration(found.seconds),))
    parts += [(Code(found.digest[:6]),)] if found.digest else []
    parts += [(Quoted(found.tail, 80),)] if one.met != "yes" and found.tail else []
    return joined(parts, ", ")
