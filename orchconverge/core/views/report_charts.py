"""The charts of a report in Mermaid, and for each a sentence that says the same. None is drawn of one point."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise
from typing import Final

from orchconverge.core.report_record import CandidateReported, Point, Span
from orchconverge.core.views.document import Block, Chart, Grafts, Paragraph, Progress, Timeline
from orchconverge.core.views.text import clean, counted, duration

BARS: Final = 40
"""A chart with more is a wall. The newest are kept, and the sentence says so."""
LANES: Final = 12
"""Branches of a graph."""
NAMED: Final = 12
"""Attempts that a sentence names."""
_LABEL: Final = re.compile(r"[^\w ./+()-]+")
_PALETTE: Final = '%%{init: {"themeVariables": {"xyChart": {"plotColorPalette": "#2f7d4f, #8a8f98"}}}}%%'
_GRAPH: Final = '%%{init: {"gitGraph": {"mainBranchName": "target"}}}%%'


def label(text: str, most: int = 40) -> str:
    """Text that Mermaid takes for nothing but a label."""
    return clean(_LABEL.sub(" ", clean(text)), most).replace("…", "") or "unnamed"


# --- with their sentences, as blocks ---------------------------------------------------------------------------------


def progress(points: Sequence[Point], whole: int) -> list[Block]:
    """Required criteria met on the target, at the start and after each attempt."""
    if not points:
        return [Paragraph(("No attempt was judged.",))]
    said = _progress_words(points, whole) + _capped(len(points), BARS, "point")
    return [*([Progress(points, whole)] if len(points) > 1 else []), Paragraph((said,))]


def timeline(spans: Sequence[Span], now: datetime) -> list[Block]:
    """When what ran and what was waited for. Times in the zone of ``now``."""
    if not spans:
        return []
    said = _timeline_words(spans, now) + _capped(len(spans), BARS, "bar")
    return [*([Timeline(spans)] if len(spans) > 1 else []), Paragraph((said,))]


def grafts(candidates: Sequence[CandidateReported], start: str, whole: int) -> list[Block]:
    """What the minds of worktrees made, and what of it the target took."""
    if not candidates:
        return []
    fates = [f"{one.branch}{_share(one, whole)} {_FATES[one.fate]}" for one in candidates[-NAMED:]]
    more = ["and so on"] if len(candidates) > NAMED else []
    said = f"{counted(len(candidates), 'candidate')} from worktrees: {'; '.join([*fates, *more])}."
    said += _capped(len(candidates), LANES, "branch", "branches")
    return [*([Grafts(candidates, start, whole)] if len(candidates) > 1 else []), Paragraph((said,))]


def _share(one: CandidateReported, whole: int) -> str:
    return f" ({one.met}/{whole})" if one.met is not None else ""


_FATES: Final = {
    "grafted": "was grafted",
    "part taken": "gave a part",
    "pruned": "was pruned",
    "waits": "waits at the lock",
    "refused": "was refused by the gate",
}


def _capped(count: int, most: int, noun: str, plural: str = "") -> str:
    return f" The chart shows the last {most} of {counted(count, noun, plural)}." if count > most else ""


def _progress_words(points: Sequence[Point], whole: int) -> str:
    """Where it began and ended, and which attempts moved it."""
    gained, lost, flat = [], [], []
    for before, after in pairwise(points):
        if after.met > before.met:
            gained.append(f"attempt {after.attempt} gained {after.met - before.met}")
        elif after.met < before.met:
            lost.append(f"attempt {after.attempt} lost {before.met - after.met}")
        else:
            flat.append(str(after.attempt))
    parts = [*gained[:NAMED], *lost[:NAMED]]
    if len(gained) > NAMED or len(lost) > NAMED:
        parts.append("and so on")
    if flat:
        which = ", ".join(flat) if len(flat) <= NAMED else f"{len(flat)} of them"
        parts.append(f"no gain in {'attempt' if len(flat) == 1 else 'attempts'} {which}")
    start = f"From {points[0].met} to {points[-1].met} of {whole} required criteria, the line in the chart"
    return f"{start}: {'; '.join(parts)}." if parts else f"{points[-1].met} of {whole} required criteria met."


def _timeline_words(spans: Sequence[Span], now: datetime) -> str:
    start = min(span.start for span in spans).astimezone(now.tzinfo)
    end = max(span.end for span in spans).astimezone(now.tzinfo)
    worked = [span for span in spans if not span.waits]
    waited = sum((span.end - span.start).total_seconds() for span in spans if span.waits)
    longest = max(worked or spans, key=lambda span: span.end - span.start)
    said = (
        f"From {start:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M}: {counted(len(worked), 'span')} of work; the longest, "
        f"{label(longest.label)}, took {duration((longest.end - longest.start).total_seconds())}"
    )
    return said + (f"; {duration(waited)} were waited." if waited else "; nothing was waited for.")


# --- Mermaid ---------------------------------------------------------------------------------------------------------


def mermaid(chart: Chart, now: datetime) -> str:
    """A chart as a fenced block. Times in the zone of ``now``."""
    match chart:
        case Progress():
            lines = _bars(chart)
        case Timeline():
            lines = _gantt(chart, now)
        case Grafts():
            lines = _graph(chart)
    return "\n".join(["```mermaid", *lines, "```"])


def _bars(chart: Progress) -> list[str]:
    shown = chart.points[-BARS:]
    return [
        _PALETTE,
        "xychart-beta",
        '    title "Required criteria met on the target"',
        f'    x-axis "attempt" [{", ".join(str(point.attempt) for point in shown)}]',
        f'    y-axis "criteria met" 0 --> {max(1, chart.whole)}',
        f"    bar [{', '.join(str(point.met) for point in shown)}]",
        f"    line [{', '.join(str(chart.whole) for _ in shown)}]",
    ]


def _gantt(chart: Timeline, now: datetime) -> list[str]:
    shown = chart.spans[-BARS:]
    lines = [
        "gantt",
        "    title When what ran",
        "    dateFormat YYYY-MM-DD HH:mm:ss",
        "    axisFormat %a %H:%M",
        "    todayMarker off",
    ]
    for section in dict.fromkeys(span.section for span in shown):
        lines.append(f"    section {label(section)}")
        for span in shown:
            if span.section == section:
                start = span.start.astimezone(now.tzinfo)
                seconds = max(1, int((span.end - span.start).total_seconds()))
                tag = "active" if span.waits else "done"
                lines.append(f"    {label(span.label)} :{tag}, {start:%Y-%m-%d %H:%M:%S}, {seconds}s")
    return lines


def _graph(chart: Grafts) -> list[str]:
    """All branches first, then what was taken, in order: a graph of what came from where, not of when.

    Their names are quoted: Mermaid takes none that begins with a digit.
    """
    shown = chart.candidates[-LANES:]
    lines = [_GRAPH, "gitGraph", f'    commit id: "target {label(chart.start)}"']
    for one in shown:
        met = f" {one.met}/{chart.whole}" if one.met is not None else ""
        approach = label(one.approach.partition(":")[0], 24)
        lines += [f'    branch "{one.branch}"', f'    commit id: "{one.branch} {approach}{met}"']
        lines += ["    checkout target"]
    for one in shown:
        if one.fate == "grafted":
            lines.append(f'    merge "{one.branch}" id: "graft {one.branch}"')
        elif one.fate == "part taken":
            lines.append(f'    commit id: "part of {one.branch}" type: HIGHLIGHT')
    return lines
