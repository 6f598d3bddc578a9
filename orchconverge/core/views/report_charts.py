"""The two charts of a report, in Mermaid. Each comes with a sentence that says the same, and none is drawn of one point."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple

from orchconverge.core.measures import trend
from orchconverge.core.state import Basin
from orchconverge.core.views.text import clean, counted, duration

BARS: Final = 40
"""A chart with more is a wall. The newest are kept, and the sentence says so."""
_LABEL: Final = re.compile(r"[^\w ./+()-]+")
_PALETTE: Final = '%%{init: {"themeVariables": {"xyChart": {"plotColorPalette": "#2f7d4f, #8a8f98"}}}}%%'


class Span(NamedTuple):
    """Something that took time. ``waits``: nothing was charged meanwhile."""

    section: str
    label: str
    start: datetime
    end: datetime
    waits: bool = False


def label(text: str, most: int = 40) -> str:
    """Text that Mermaid takes for nothing but a label."""
    return clean(_LABEL.sub(" ", clean(text)), most).replace("…", "") or "unnamed"


def progress(basin: Basin) -> list[str]:
    """Required criteria met on the target, at the start and after each attempt: a chart and its sentence, as blocks."""
    scores = list(trend(basin).scores)
    whole = len(basin.counted)
    first = len(basin.history) + 1 - len(scores)
    names = list(range(first, first + len(scores)))
    if not scores:
        return ["No attempt was judged."]
    shown, values = names[-BARS:], scores[-BARS:]
    said = _progress_words(names, scores, whole)
    if len(scores) < 2:
        return [said]
    if len(shown) < len(names):
        said += f" The chart shows the last {BARS} of {len(names)} points."
    chart = [
        "```mermaid",
        _PALETTE,
        "xychart-beta",
        '    title "Required criteria met on the target"',
        f'    x-axis "attempt" [{", ".join(map(str, shown))}]',
        f'    y-axis "criteria met" 0 --> {max(1, whole)}',
        f"    bar [{', '.join(map(str, values))}]",
        f"    line [{', '.join(str(whole) for _ in values)}]",
        "```",
    ]
    return ["\n".join(chart), said]


def _progress_words(names: Sequence[int], scores: Sequence[int], whole: int) -> str:
    """Where it began and ended, and which attempts moved it."""
    gained, lost, flat = [], [], []
    for name, before, after in zip(names[1:], scores, scores[1:], strict=False):
        if after > before:
            gained.append(f"attempt {name} gained {after - before}")
        elif after < before:
            lost.append(f"attempt {name} lost {before - after}")
        else:
            flat.append(str(name))
    parts = [*gained[:12], *lost[:12]]
    if len(gained) > 12 or len(lost) > 12:
        parts.append("and so on")
    if flat:
        which = ", ".join(flat) if len(flat) <= 12 else f"{len(flat)} of them"
        parts.append(f"no gain in {'attempt' if len(flat) == 1 else 'attempts'} {which}")
    start = f"From {scores[0]} to {scores[-1]} of {whole} required criteria, the line in the chart"
    return f"{start}: {'; '.join(parts)}." if parts else f"{scores[-1]} of {whole} required criteria met."


def timeline(spans: Sequence[Span], now: datetime) -> list[str]:
    """When what ran and what was waited for: a chart and its sentence, as blocks. Times in the zone of ``now``."""
    if not spans:
        return []
    ordered = sorted(spans, key=lambda span: span.start)
    said = _timeline_words(ordered, now)
    if len(ordered) < 2:
        return [said]
    shown = ordered[-BARS:]
    if len(shown) < len(ordered):
        said += f" The chart shows the last {BARS} of {len(ordered)} bars."
    lines = [
        "```mermaid",
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
    return ["\n".join([*lines, "```"]), said]


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
