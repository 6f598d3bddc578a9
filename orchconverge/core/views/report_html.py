"""A report as one page of HTML: the document that is also its Markdown, its charts drawn as SVG."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from html import escape
from typing import Final

from orchconverge.core.report_record import Report
from orchconverge.core.views.document import (
    Block,
    Chart,
    Code,
    Grafts,
    Heading,
    Items,
    Line,
    Link,
    Paragraph,
    Progress,
    Quoted,
    Strong,
    Table,
    Timeline,
    Word,
)
from orchconverge.core.views.markdown import ADDRESS
from orchconverge.core.views.page import page, words
from orchconverge.core.views.report import document
from orchconverge.core.views.report_charts import BARS, LANES
from orchconverge.core.views.text import clock, duration

WIDE: Final = 980
"""Units of a drawing, across."""
ROW: Final = 26
MANY: Final = 7
"""From so many columns on a table scrolls on a narrow screen, which a keyboard has to reach."""


def html(told: Report) -> str:
    """A report as a whole page, which needs nothing else and asks for nothing."""
    blocks = document(told)
    sections = [block for block in blocks if isinstance(block, Heading) and block.level == 2]
    contents = [f'<li><a href="#{_anchor(each)}">{_line(each.line)}</a></li>' for each in sections]
    body = [_block(block, told.written) for block in blocks]
    skip = '<a class="skip" href="#criteria">Skip to the criteria</a>'
    nav = f'<nav aria-label="Sections"><ul class="key">{"".join(contents)}</ul></nav>'
    return page(f"{told.basin}: {told.outcome.word}", "\n".join([skip, body[0], nav, *body[1:]]))


# --- blocks ----------------------------------------------------------------------------------------------------------


def _anchor(block: Heading) -> str:
    return re.sub(r"[^a-z]+", "-", "".join(word for word in block.line if isinstance(word, str)).lower())


def _block(block: Block, now: datetime) -> str:
    match block:
        case Heading():
            named = f' id="{_anchor(block)}"' if block.level > 1 else ""
            return f"<h{block.level}{named}>{_line(block.line)}</h{block.level}>"
        case Paragraph():
            tag = "blockquote" if block.quoted else "p"
            return f"<{tag}>{_line(block.line)}</{tag}>"
        case Items():
            tag = "ol" if block.numbered else "ul"
            return f"<{tag}>{''.join(f'<li>{_line(each)}</li>' for each in block.lines)}</{tag}>"
        case Table():
            return _table(block)
        case _:
            return _drawn(block, now)


def _table(table: Table) -> str:
    head = "".join(
        f'<th scope="col"{_right(table, column)}>{escape(each)}</th>' for column, each in enumerate(table.head)
    )
    rows = []
    for row in table.rows:
        cells = [f"<td{_right(table, column)}>{_line(cell)}</td>" for column, cell in enumerate(row)]
        if not any(table.head):
            cells[0] = f'<th scope="row">{_line(row[0])}</th>'
        rows.append(f"<tr>{''.join(cells)}</tr>")
    top = f"<thead><tr>{head}</tr></thead>" if any(table.head) else ""
    scrolls = ' tabindex="0"' if len(table.head) >= MANY else ""
    return f"<table{scrolls}>{top}<tbody>{''.join(rows)}</tbody></table>"


def _right(table: Table, column: int) -> str:
    return ' class="n"' if column in table.right else ""


def _line(line: Line) -> str:
    return "".join(map(_word, line))


def _word(word: Word) -> str:
    match word:
        case Quoted():
            return words(word.text, word.most)
        case Code():
            return f"<code>{words(word.text, word.most)}</code>" if word.text else ""
        case Link():
            said = escape(word.words)
            if ADDRESS.fullmatch(word.url) is None:
                return f"{said} <code>{words(word.url)}</code>"
            return f'<a href="{escape(word.url)}" rel="noreferrer">{said}</a>'
        case Strong():
            return f"<strong>{escape(word.words)}</strong>"
        case str():
            return escape(word)


# --- charts ----------------------------------------------------------------------------------------------------------


def _drawn(chart: Chart, now: datetime) -> str:
    match chart:
        case Progress():
            name, high, parts = "Required criteria met on the target, by attempt", 220, _bars(chart)
        case Timeline():
            name, high, parts = "When what ran", ROW * len(chart.spans[-BARS:]) + 40, _spans(chart, now)
        case Grafts():
            name, high, parts = "What came from where", ROW * len(chart.candidates[-LANES:]) + 60, _lanes(chart)
    return (
        f'<figure><div class="chart" tabindex="0" role="region" aria-label="{name}, scrolls sideways">'
        f'<svg viewBox="0 0 {WIDE} {high}" role="img" aria-label="{name}">{"".join(parts)}</svg></div></figure>'
    )


def _text(x: float, y: float, said: str, kind: str = "dl") -> str:
    return f'<text class="{kind}" x="{x:.0f}" y="{y:.0f}">{words(said)}</text>'


def _bars(chart: Progress) -> Iterator[str]:
    shown, whole = chart.points[-BARS:], max(1, chart.whole)
    left, right, top, floor = 60, WIDE - 30, 24, 190
    step = (right - left) / len(shown)

    def high(met: int) -> float:
        return floor - (floor - top) * met / whole

    yield f'<line class="whole" x1="{left}" x2="{right}" y1="{high(whole):.0f}" y2="{high(whole):.0f}"/>'
    yield f'<line class="axis" x1="{left}" x2="{right}" y1="{floor}" y2="{floor}"/>'
    yield _text(left - 8, high(whole) + 4, str(chart.whole), "dl end")
    yield _text(left - 8, floor + 4, "0", "dl end")
    for at, point in enumerate(shown):
        x, y = left + step * at, high(point.met)
        yield (
            f'<rect class="met" x="{x + step * 0.2:.1f}" y="{y:.1f}" width="{step * 0.6:.1f}" height="{floor - y:.1f}">'
            f"<title>attempt {point.attempt}: {point.met} of {chart.whole}</title></rect>"
        )
        middle = x + step / 2
        yield _text(middle, y - 5, str(point.met), "dl mid") if point.met else ""
        yield _text(middle, floor + 18, str(point.attempt) if point.attempt else "start", "dl mid")


def _spans(chart: Timeline, now: datetime) -> Iterator[str]:
    shown = chart.spans[-BARS:]
    begin, end = min(span.start for span in shown), max(span.end for span in shown)
    left, right = 250.0, WIDE - 90.0
    each = (right - left) / max(1.0, (end - begin).total_seconds())
    ordered = [span for section in dict.fromkeys(s.section for s in shown) for span in shown if span.section == section]
    floor = 24 + ROW * len(ordered)
    for x, at in ((left, begin), (right, end)):
        yield f'<line class="day" x1="{x}" x2="{x}" y1="20" y2="{floor}"/>'
        yield _text(x, 14, clock(at, now), "dl mid")
    for row, span in enumerate(ordered):
        x, y = left + each * (span.start - begin).total_seconds(), 28 + ROW * row
        seconds = (span.end - span.start).total_seconds()
        if row == 0 or ordered[row - 1].section != span.section:
            yield _text(12, y + 13, span.section, "nm")
        yield _text(left - 12, y + 13, span.label, "dl end")
        yield (
            f'<rect class="{"wait" if span.waits else "work"}" x="{x:.1f}" y="{y}" '
            f'width="{max(2.0, each * seconds):.1f}" height="16" rx="2"/>'
        )
        yield _text(x + max(2.0, each * seconds) + 6, y + 13, duration(seconds))


def _lanes(chart: Grafts) -> Iterator[str]:
    """The target above; below it a lane for each branch, which comes back to it where something was taken."""
    shown = chart.candidates[-LANES:]
    left, right, main = 150.0, WIDE - 260.0, 26
    step = (right - left) / (len(shown) + 1)
    yield f'<line class="run" x1="{left}" x2="{right + 40}" y1="{main}" y2="{main}"/>'
    yield _text(left - 12, main + 4, f"target {chart.start}", "dl end")
    for at, one in enumerate(shown):
        y, x = main + 36 + ROW * at, left + step * (at + 1)
        yield f'<path class="idle" fill="none" d="M{left + 8} {main}V{y}H{x:.0f}"/>'
        if one.fate in ("grafted", "part taken"):
            yield f'<path class="idle" fill="none" d="M{x:.0f} {y}L{x + step / 2:.0f} {main}"/>'
            whole = " full" if one.fate == "grafted" else ""
            yield f'<circle class="badge{whole}" cx="{x + step / 2:.0f}" cy="{main}" r="6"/>'
        full = " full" if one.fate == "grafted" else " warn" if one.fate == "waits" else ""
        yield f'<circle class="badge{full}" cx="{x:.0f}" cy="{y}" r="6"/>'
        met = f"{one.met}/{chart.whole} " if one.met is not None else ""
        yield _text(x + 12, y + 4, f"{one.branch} {met}{one.fate}")
