"""The parts of a report that tell what happened: attempts, waits, decisions, what was learned, commands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from orchconverge.core import events as e
from orchconverge.core.happened import amends
from orchconverge.core.measures import trend
from orchconverge.core.seen import Commit
from orchconverge.core.state import Basin, Past, Phase, State
from orchconverge.core.views.markdown import Paths, code, link, prose, table
from orchconverge.core.views.report_charts import Span
from orchconverge.core.views.text import clean, clock, counted, duration
from orchconverge.core.views.work import asked, closes, motion, plain, read, sentence
from orchconverge.core.work_record import ERROR, Told

ROWS: Final = 200
"""Rows of a table; what is over is counted."""
REASON: Final = 600
"""Cells of a reason. Reasons are shown as they were written; this only stops a mind from filling the page."""
RATED: Final = 600.0
"""Seconds of active time from which on a rate an hour says something."""
_COMMANDS: Final = {"pushl": "`/pushl`", "reviewdeep": "`/reviewdeep`", "copilot": "`/copilot`", "report": "the report"}


class Written(NamedTuple):
    """What the sections share: the basin, its facts if they were read, the reader's time, and the machine's paths."""

    state: State
    basin: Basin
    facts: Sequence[e.AnyFact]
    now: datetime
    paths: Paths

    def prose(self, text: str, most: int = REASON) -> str:
        """Text of others as prose."""
        return prose(self.paths.out_of(clean(text)), most=most)

    def code(self, text: str, most: int = 120) -> str:
        """Text of others as code."""
        return code(self.paths.out_of(clean(text)), most=most)

    def when(self, at: datetime | None) -> str:
        """A time for people."""
        return "" if at is None else clock(at, self.now)


# --- attempts and time -----------------------------------------------------------------------------------------------


def rate(basin: Basin) -> list[str]:
    """How fast it went, as a sentence; nothing is said before an attempt was judged."""
    scores = trend(basin).scores
    if not basin.history or len(scores) < 2:
        return []
    gained, hours = scores[-1] - scores[0], basin.active / 3600
    said = f"{counted(gained, 'criterion', 'criteria')} gained in {counted(len(basin.history), 'attempt')}"
    speed = f": {gained / hours:.1f} an hour of active time." if basin.active >= RATED else "."
    return [f"{said} and {duration(basin.active)}{speed}"]


def attempts(written: Written) -> list[str]:
    """One row an attempt, oldest first."""
    rows = []
    for past in written.basin.history:
        took = past.active_ended - past.active_started
        charged = "" if past.charged else ", not charged"
        rows.append(
            (
                str(past.number),
                written.when(past.started),
                duration(took),
                written.prose(past.approach, 80),
                written.prose(past.engine, 40),
                f"{past.result}{charged}",
                f"{past.progress}%",
                written.prose(past.text or past.summary, 200),
            )
        )
    if not rows:
        return ["No attempt has ended."]
    head = ("attempt", "started", "active", "approach", "engine", "result", "met", "what came of it")
    return ["\n".join(table(head, rows[-ROWS:], right=(0,))), *_left_out(len(rows), "earlier attempt")]


def converging(written: Written) -> list[str]:
    """The section on attempts after which it did not simply go on, and on what a denial was; nothing if there is none."""
    told = [(past.number, read(past.convergence, Told)) for past in written.basin.history]
    lines = []
    for number, one in told:
        if not plain(one):
            how = f" ({asked(one)})" if asked(one) else ""
            lines.append(f"- Attempt {number}: {written.prose(f'{sentence(one)}{how}')}")
    if not lines:
        return []
    denied = [
        f"**Denied after attempt {number}** ({code(ERROR)}): {written.prose(motion(one))}. "
        f"What would have closed it: {written.prose(closes(one))}. It says that the work did not close, not that it cannot."
        for number, one in told
        if one.work_convergence_action == "deny_ordinary_continuation"
    ]
    return [
        "## Work convergence",
        "\n".join(lines[-ROWS:]),
        *_left_out(len(lines), "earlier attempt"),
        *denied[-ROWS:],
    ]


def landed(written: Written, commits: Sequence[Commit]) -> list[str]:
    """The commits on the target, oldest first."""
    if not commits:
        return []
    lines = [
        f"- {code(one.sha[:7])} {written.prose(one.subject, 200)}"
        + (f" ({', '.join(map(code, one.criteria))})" if one.criteria else "")
        for one in commits[-ROWS:]
    ]
    return ["\n".join([f"{counted(len(commits), 'commit')} on the target:", "", *lines])]


def spans(written: Written) -> list[Span]:
    """What ran and what was waited for, as far as its two ends are known."""
    out = []
    for past in written.basin.history:
        if past.started is not None and past.ended is not None:
            out.append(Span("attempts", f"{past.number} {past.result.replace('_', ' ')}", past.started, past.ended))
    began: dict[str, tuple[str, datetime]] = {}
    for fact in written.facts:
        if fact.at is None:
            continue
        if isinstance(fact, e.RunWaiting):
            began["wait"] = (fact.reason, fact.at)
        elif isinstance(fact, e.RunWoke | e.RunStopped | e.RunStarted) and "wait" in began:
            reason, start = began.pop("wait")
            out.append(Span("waits", f"for {reason}", start, fact.at, waits=True))
        elif isinstance(fact, e.StepStarted):
            began[fact.step] = (fact.step, fact.at)
        elif isinstance(fact, e.StepEnded) and fact.step in began:
            _, start = began.pop(fact.step)
            out.append(Span("final steps", fact.step, start, fact.at))
    return out


# --- decisions -------------------------------------------------------------------------------------------------------


def decisions(written: Written) -> list[str]:
    """Who decided what, and why, as it was written."""
    told = (_decision(written, fact) for fact in written.facts)
    rows = [row for row in told if row is not None] if written.facts else _kept(written)
    if not rows:
        return ["None was needed."]
    head = ("when", "decision", "branch", "decided by", "reason, as written")
    return ["\n".join(table(head, rows[-ROWS:])), *_left_out(len(rows), "earlier decision")]


Row = tuple[str, str, str, str, str]


def _decision(written: Written, fact: e.AnyFact) -> Row | None:
    when, why = written.when(fact.at), written.prose
    match fact:
        case e.BranchGrafted():
            return when, "graft", fact.branch, why(fact.decidedBy), f"merged as {code(fact.mergeCommit[:7])}"
        case e.ResidueGrafted():
            paths = ", ".join(written.code(path) for path in fact.paths[:10])
            return when, "part taken", fact.branch, why(fact.decidedBy), f"{why(fact.reason)}; {paths}"
        case e.GraftRefused():
            told = [fact.why] if fact.why else []
            told += [f"conflict in {path}" for path in fact.conflicts] + [f"{name} lost" for name in fact.lost]
            return when, "graft refused", fact.branch, "the gate", why(", ".join(dict.fromkeys(told)))
        case e.BranchPruned():
            return when, "prune", fact.branch, why(fact.decidedBy), why(fact.reason)
        case e.BranchReconciled():
            return when, f"reconciled to {why(fact.to)}", fact.branch, "recovery", why(fact.observed)
        case e.BasinAmended():
            return when, "target amended" if amends(fact) else "taken as it is", "", "person", why(fact.why)
        case e.BasinKilled():
            return when, "kill", "", "", why(fact.reason)
        case e.RunStopRequested():
            return when, "stop asked for", "", "", ""
        case _:
            return None


def _kept(written: Written) -> list[Row]:
    """What the fold kept of decisions: no time, no decider."""
    rows: list[Row] = []
    for branch in written.state.branches_of(written.basin.id):
        if branch.phase is Phase.GRAFTED:
            merged = f"merged as {code(branch.merge_commit[:7])}" if branch.merge_commit else ""
            rows.append(("", "graft", branch.id, "", merged))
        elif branch.phase is Phase.PRUNED:
            rows.append(("", "prune", branch.id, "", written.prose(branch.failure)))
        elif branch.refusal:
            rows.append(("", "graft refused", branch.id, "the gate", written.prose(branch.refusal)))
    if written.basin.phase == "killed":
        rows.append(("", "kill", "", "", written.prose(written.basin.note)))
    return rows


# --- what is left ----------------------------------------------------------------------------------------------------


def learned(written: Written) -> list[str]:
    """Residue, what stood in the way, and the open questions."""
    basin = written.basin
    residue = []
    once = list({" ".join(one.text.split()): one for one in reversed(basin.residue)}.values())[::-1]
    for one in once[:ROWS]:
        about = [*([one.criterion] if one.criterion else []), *one.paths[:5]]
        said = f" ({', '.join(written.code(a) for a in about)})" if about else ""
        residue.append(f"- {written.prose(one.text)}{said}")
    blocks = ["\n".join(residue) if residue else "No residue was kept."]
    blocks += _left_out(len(once), "further piece of residue", "further pieces of residue")
    obstacles = _obstacles(written)
    blocks += ["**What stood in the way**", "\n".join(obstacles)] if obstacles else []
    questions = [
        f"- {written.prose(q.question)} (from {written.prose(q.origin)})"
        + (f", blocks {written.prose(q.blocks)}" if q.blocks else "")
        for q in written.state.frontier.values()
        if q.basin == basin.id
    ]
    return [*blocks, "**Open questions**", "\n".join(questions[:ROWS]) if questions else "None."]


def _obstacles(written: Written) -> list[str]:
    lines = [
        f"- Attempt {past.number}: {'verdict: ' if past.verdict else ''}{written.prose(past.verdict or past.failure, 300)}"
        for past in written.basin.history
        if past.verdict or (past.failure and past.result not in ("success", "partial_success"))
    ]
    lines += [
        f"- Waited for {f.reason}: {written.prose(f.text, 300)}" for f in written.facts if isinstance(f, e.RunWaiting)
    ]
    return list(dict.fromkeys(lines))[:ROWS]


def commands(written: Written) -> list[str]:
    """The slash commands that ran, how often, how long, and what each changed."""
    rows = _converge(written)
    rows += _steps_by_fact(written) if written.facts else _steps_kept(written)
    if not rows:
        return ["No command has run."]
    return table(("command", "runs", "time", "effect"), rows, right=(1,))


def _converge(written: Written) -> list[Sequence[str]]:
    basin, whole = written.basin, len(written.basin.counted)
    scores = trend(basin).scores
    scores = scores if len(scores) > len(basin.history) else (0, *scores)
    before = dict(zip((past.number for past in basin.history), scores, strict=False))
    after = dict(zip((past.number for past in basin.history), scores[1:], strict=True))
    by_engine: dict[str, list[Past]] = {}
    for past in basin.history:
        by_engine.setdefault(past.engine, []).append(past)
    rows: list[Sequence[str]] = []
    for engine, those in by_engine.items():
        took = sum(past.active_ended - past.active_started for past in those)
        gained = sum(max(0, after[p.number] - before[p.number]) for p in those)
        effect = f"{counted(gained, 'criterion', 'criteria')} gained, {after[those[-1].number]}/{whole} met after it"
        rows.append((f"`/converge` with {written.prose(engine, 40)}", str(len(those)), duration(took), effect))
    return rows


def _steps_by_fact(written: Written) -> list[Sequence[str]]:
    began: dict[tuple[int, str], datetime | None] = {}
    ran: dict[str, list[tuple[float, e.StepEnded]]] = {}
    for fact in written.facts:
        if isinstance(fact, e.StepStarted):
            began[fact.round, fact.step] = fact.at
        elif isinstance(fact, e.StepEnded):
            start = began.get((fact.round, fact.step))
            took = (fact.at - start).total_seconds() if fact.at is not None and start is not None else 0.0
            ran.setdefault(fact.step, []).append((took, fact))
    rows: list[Sequence[str]] = []
    for step, those in ran.items():
        last = those[-1][1]
        effect = _effect(written, last.status, last.detail, last.url)
        rows.append((_command(step), str(len(those)), duration(sum(took for took, _ in those)), effect))
    return rows


def _steps_kept(written: Written) -> list[Sequence[str]]:
    done = written.basin.chain.done
    return [(_command(s.name), "1", "", _effect(written, s.status, s.detail, s.url)) for s in done]


def _command(step: str) -> str:
    return _COMMANDS.get(step) or code(step)


def _effect(written: Written, status: str, detail: str, url: str | None) -> str:
    said = "" if status == "done" else f"{status}: "
    at = f" ({link(url, 'there')})" if url is not None else ""
    return f"{said}{written.prose(detail, 300)}{at}"


def _left_out(count: int, noun: str, plural: str = "") -> Iterable[str]:
    return [f"{counted(count - ROWS, noun, plural)} not shown: `orchconverge ledger show`."] if count > ROWS else []
