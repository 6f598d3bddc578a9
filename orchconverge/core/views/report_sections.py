"""The sections of a report that tell what happened: attempts, decisions, what was learned, the review, commands, cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from orchconverge.core.report_record import CommandReported, CommentReported, DecisionReported, Report, StepReported
from orchconverge.core.views.document import (
    Block,
    Code,
    Heading,
    Items,
    Line,
    Link,
    Paragraph,
    Quoted,
    Strong,
    Table,
    Word,
    joined,
    line,
)
from orchconverge.core.views.text import clock, counted, duration, tokens
from orchconverge.core.work_record import ERROR

ROWS: Final = 200
"""Rows of a table; what is over is counted."""
REASON: Final = 600
"""Cells of a reason. Reasons are shown as they were written; this only stops a mind from filling the page."""
RATED: Final = 600.0
"""Seconds of active time from which on a rate an hour says something."""


def asked_for(told: Report) -> list[Block]:
    """What was typed, where the target says it in other words."""
    if told.goal == told.macrostate:
        return []
    return [Paragraph(("Asked for: ", Quoted(told.goal, 2000)))]


# --- attempts and time -----------------------------------------------------------------------------------------------


def rate(told: Report) -> list[Block]:
    """How fast it went, as a sentence; nothing is said before an attempt was judged."""
    if not told.history or len(told.progress) < 2:
        return []
    gained, hours = told.progress[-1].met - told.progress[0].met, told.active_seconds / 3600
    said = f"{counted(gained, 'criterion', 'criteria')} gained in {counted(len(told.history), 'attempt')}"
    speed = f": {gained / hours:.1f} an hour of active time." if told.active_seconds >= RATED else "."
    return [Paragraph((f"{said} and {duration(told.active_seconds)}{speed}",))]


def attempts(told: Report) -> list[Block]:
    """One row an attempt, oldest first."""
    rows: list[tuple[Line, ...]] = [
        (
            (str(one.attempt),),
            line("" if one.started is None else clock(one.started, told.written)),
            (duration(one.active_seconds),),
            (Quoted(one.approach, 80),),
            (Quoted(one.engine, 40),),
            (f"{one.result}{'' if one.charged else ', not charged'}",),
            (f"{one.progress}%",),
            (Quoted(one.text, 200),),
        )
        for one in told.history
    ]
    if not rows:
        return [Paragraph(("No attempt has ended.",))]
    head = ("attempt", "started", "active", "approach", "engine", "result", "met", "what came of it")
    return [Table(head, rows[-ROWS:], right=(0,)), *_left_out(len(rows), "earlier attempt")]


def commits(told: Report) -> list[Block]:
    """The commits on the target, oldest first."""
    if not told.commits:
        return []
    lines: list[Line] = []
    for one in told.commits[-ROWS:]:
        named = joined([(Code(name),) for name in one.criteria], ", ")
        lines.append((Code(one.commit[:7]), " ", Quoted(one.subject, 200), *((" (", *named, ")") if named else ())))
    return [Paragraph((f"{counted(len(told.commits), 'commit')} on the target:",)), Items(lines)]


def converging(told: Report) -> list[Block]:
    """The section on attempts after which it did not simply go on, and on what a denial was; nothing if there is none."""
    lines: list[Line] = [
        (f"Attempt {one.attempt}: ", Quoted(one.convergence, REASON)) for one in told.history if one.convergence
    ]
    if not lines:
        return []
    denied = [
        Paragraph(
            (
                Strong(f"Denied after attempt {one.attempt}"),
                " (",
                Code(ERROR),
                "): ",
                Quoted(one.denied, REASON),
                ". It says that the work did not close, not that it cannot.",
            )
        )
        for one in told.history
        if one.denied
    ]
    more = _left_out(len(lines), "earlier attempt")
    return [Heading(2, ("Work convergence",)), Items(lines[-ROWS:]), *more, *denied[-ROWS:]]


# --- decisions, and what is left -------------------------------------------------------------------------------------


def decisions(told: Report) -> list[Block]:
    """Who decided what, and why, as it was written."""
    if not told.decisions:
        return [Paragraph(("None was needed.",))]
    rows: list[tuple[Line, ...]] = [
        (
            line("" if one.at is None else clock(one.at, told.written)),
            (Quoted(one.decision),),
            line(one.branch),
            (Quoted(one.decided_by, REASON),),
            _reason(one),
        )
        for one in told.decisions
    ]
    head = ("when", "decision", "branch", "decided by", "reason, as written")
    return [Table(head, rows[-ROWS:]), *_left_out(len(rows), "earlier decision")]


def _reason(one: DecisionReported) -> Line:
    parts: list[Line] = [(Quoted(one.reason, REASON),)] if one.reason else []
    parts += [joined([(Code(path, 120),) for path in one.paths], ", ")] if one.paths else []
    parts += [("merged as ", Code(one.commit[:7]))] if one.commit is not None and one.decision == "graft" else []
    return joined(parts, "; ")


def learned(told: Report) -> list[Block]:
    """Residue, what stood in the way, and the open questions."""
    residue: list[Line] = []
    for one in told.residue[:ROWS]:
        about = [*([one.criterion] if one.criterion else []), *one.paths[:5]]
        named = joined([(Code(each, 120),) for each in about], ", ")
        residue.append((Quoted(one.text, REASON), *((" (", *named, ")") if named else ())))
    blocks: list[Block] = [Items(residue) if residue else Paragraph(("No residue was kept.",))]
    blocks += _left_out(len(told.residue), "further piece of residue", "further pieces of residue")
    if told.obstacles:
        stood = Items([(Quoted(each, REASON),) for each in told.obstacles[:ROWS]])
        blocks += [Paragraph((Strong("What stood in the way"),)), stood]
    blocks.append(Paragraph((Strong("Open questions"),)))
    questions: list[Line] = []
    for q in told.frontier[:ROWS]:
        blocked: Line = (", blocks ", Quoted(q.blocks, REASON)) if q.blocks else ()
        questions.append((Quoted(q.question, REASON), " (from ", Quoted(q.origin, REASON), ")", *blocked))
    return [*blocks, Items(questions) if questions else Paragraph(("None.",))]


# --- the pull request ------------------------------------------------------------------------------------------------


def requested(told: Report) -> list[Block]:
    """What the review found, and what became of each comment; nothing if neither said anything that can be listed."""
    blocks: list[Block] = []
    for step in told.steps:
        blocks += _found(step) if step.findings else []
        blocks += _heard(step) if step.comments else []
    return [Heading(2, ("Pull request and review",)), *blocks] if blocks else []


def _found(step: StepReported) -> list[Block]:
    rows: list[tuple[Line, ...]] = [
        (
            (Quoted(one.severity, 20),),
            _place(one.path, one.line),
            (Quoted(one.title, REASON),),
            ("stands" if one.stands else "gone",),
        )
        for one in step.findings[:ROWS]
    ]
    counts = Counter(one.severity for one in step.findings)
    said = joined([(f"{number} ", Quoted(name, 20)) for name, number in counts.items()], ", ")
    return [
        Paragraph((Strong("Findings of the review"), ": ", *said, ".")),
        Table(("severity", "where", "finding", "at the end"), rows),
    ]


def _heard(step: StepReported) -> list[Block]:
    rows: list[tuple[Line, ...]] = [
        (_comment(one), (Quoted(one.author, 60),), (Quoted(one.severity, 20),), *_became(one))
        for one in step.comments[:ROWS]
    ]
    counts = Counter(one.outcome for one in step.comments)
    said = joined([(f"{number} ", Quoted(name, 20)) for name, number in counts.items()], ", ")
    brake = step.detail.partition("stopped after ")[2]
    ended: Line = (". Stopped after ", Quoted(brake, REASON)) if brake else ()
    head = ("comment", "by", "severity", "outcome", "commit", "why")
    return [Paragraph((Strong("Comments and checks"), ": ", *said, *ended, ".")), Table(head, rows)]


def _comment(one: CommentReported) -> Line:
    return (Link(one.url, "there"), " ", *_place(one.path, one.line)) if one.url else _place(one.path, one.line)


def _became(one: CommentReported) -> tuple[Line, ...]:
    commit: Line = (Code(one.commit[:7]),) if one.commit else ()
    return (Quoted(one.outcome, 20),), commit, (Quoted(one.reason, REASON),)


def _place(path: str, number: int) -> Line:
    return (Code(f"{path}:{number}" if number else path, 120),) if path else ()


# --- commands and cost -----------------------------------------------------------------------------------------------


def commands(told: Report) -> list[Block]:
    """What ran, how often, how long, and what each changed; then what a person typed."""
    if not told.commands:
        return [Paragraph(("No command has run.",))]
    theirs = {step.step: step.by for step in told.steps if step.by}
    rows: list[tuple[Line, ...]] = [
        (
            _command(one, theirs.get(one.command.removeprefix("/"), "")),
            (str(one.runs),),
            line("" if one.seconds is None else duration(one.seconds)),
            _effect(one),
        )
        for one in told.commands
    ]
    return [Table(("command", "runs", "time", "effect"), rows[-ROWS:], right=(1,))]


def _command(one: CommandReported, theirs: str) -> Line:
    said: tuple[Word, ...] = ("the report",) if one.command == "report" else (Code(one.command),)
    said += (" with ", Quoted(one.engine, 40)) if one.engine is not None else ()
    return (*said, ", replaced by ", Code(theirs, 120)) if theirs else said


def _effect(one: CommandReported) -> Line:
    said = "" if one.status in (None, "done") else f"{one.status}: "
    at = (" (", Link(one.url, "there"), ")") if one.url is not None else ()
    return line(said, Quoted(one.effect, 300), *at)


def usage(told: Report) -> list[Block]:
    """Tokens and dollars, by engine and by step, with their sum."""
    if not told.usage:
        return []
    rows: list[tuple[Line, ...]] = [
        (
            (Quoted(one.of, 40),),
            (tokens(one.input_tokens),),
            (tokens(one.output_tokens),),
            (tokens(one.cache_read_tokens + one.cache_write_tokens),),
            ("not reported" if one.usd is None else f"${one.usd:.2f}",),
        )
        for one in told.usage
    ]
    head = ("used by", "input tokens", "output tokens", "cached tokens", "cost")
    return [Heading(2, ("Usage and cost",)), Table(head, rows, right=(1, 2, 3, 4))]


def reproduced(told: Report) -> list[Block]:
    """What to type to see for oneself."""
    if not told.reproduce:
        return []
    lines: Sequence[Line] = [(Code(step, 500),) for step in told.reproduce[:ROWS]]
    return [Heading(2, ("How to reproduce",)), Items(lines, numbered=True)]


def _left_out(count: int, noun: str, plural: str = "") -> list[Block]:
    if count <= ROWS:
        return []
    return [Paragraph((f"{counted(count - ROWS, noun, plural)} not shown: ", Code("orchconverge ledger show"), "."))]
