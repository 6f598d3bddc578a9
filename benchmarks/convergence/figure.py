"""Draws the result: what harvesting saves by width, and what speed costs. Plain SVG out of string templates."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from benchmarks.convergence.generator import LAYOUTS

Row = dict[str, Any]
WIDTH, HEIGHT = 1120, 520
TOP, BOTTOM = 70, 450
COLOURS = ("#1b6ca8", "#2a9d8f", "#6a994e", "#e9a100", "#e76f51", "#b23a48", "#7b4b94", "#555555")
PAGE = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">\n'
    '<rect width="{width}" height="{height}" fill="#ffffff"/>\n{body}\n</svg>\n'
)


class Panel:
    """A rectangle between ``left`` and ``right`` with linear or logarithmic axes."""

    def __init__(
        self, left: int, right: int, *, x: tuple[float, float], y: tuple[float, float], log_x: bool, log_y: bool
    ) -> None:
        self._left, self._right = left, right
        self._x, self._y, self._log_x, self._log_y = x, y, log_x, log_y

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Where a point lies on the page."""
        across, up = _share(x, self._x, log=self._log_x), _share(y, self._y, log=self._log_y)
        return self._left + across * (self._right - self._left), BOTTOM - up * (BOTTOM - TOP)

    def frame(self, title: str, x_title: str, y_title: str, xs: Sequence[float], ys: Sequence[float]) -> list[str]:
        """Title, axes, grid lines and their figures."""
        middle = (self._left + self._right) / 2
        out = [_text(middle, TOP - 30, title, anchor="middle", extra=' font-size="15" font-weight="bold"')]
        out.append(_text(middle, BOTTOM + 42, x_title, anchor="middle"))
        out.append(_text(self._left, TOP - 10, y_title, anchor="start"))
        for value in ys:
            _, y = self.at(self._x[0], value)
            out.append(_line(self._left, y, self._right, y, "#888888" if value == 1 else "#dddddd"))
            out.append(_text(self._left - 6, y + 4, f"{value:g}", anchor="end"))
        for value in xs:
            x, _ = self.at(value, self._y[0])
            out.append(_line(x, TOP, x, BOTTOM, "#eeeeee"))
            out.append(_text(x, BOTTOM + 18, f"{value:g}", anchor="middle"))
        return out


def figure(rows: Iterable[Row]) -> str:
    """The two panels, from the rows of `Results.rows`."""
    rows = list(rows)
    return PAGE.format(width=WIDTH, height=HEIGHT, body="\n".join([*_saved(rows), *_price(rows)]))


def _saved(rows: Sequence[Row]) -> list[str]:
    least = min(row["runs_to_thrown_away"].low for row in rows if row["strategy"] == "ours")
    bottom = min(0.5, math.floor(least * 10) / 10)
    panel = Panel(60, 400, x=(0.8, 10), y=(bottom, 1.1), log_x=True, log_y=False)
    ticks = [round(bottom + 0.1 * n, 1) for n in range(round((1.1 - bottom) * 10) + 1)]
    out = panel.frame(
        "What harvest saves", "N, minds in a wave", "mind-runs / those without harvest (b+)", (1, 3, 8), ticks
    )
    labels: list[tuple[float, str, str]] = []
    for number, (layout, colour) in enumerate(zip(LAYOUTS, COLOURS, strict=True)):
        beside = 4 * (number - len(LAYOUTS) / 2)
        mine = [row for row in rows if row["layout"] == layout and row["strategy"] == "ours"]
        points = [panel.at(row["width"], row["runs_to_thrown_away"].value) for row in mine]
        points = [(x + beside, y) for x, y in points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for row, (x, y) in zip(mine, points, strict=True):
            ratio = row["runs_to_thrown_away"]
            low, high = (panel.at(row["width"], min(edge, 1.1))[1] for edge in (ratio.low, ratio.high))
            out.append(_line(x, low, x, high, colour))
            out.append(_dot(x, y, colour))
        s = " / ".join("-" if row["s"] is None else f"{row['s']:.2f}" for row in mine)
        labels.append((points[-1][1], f"{layout}, s {s}", colour))
    x = panel.at(8, 1)[0] + 26
    for y, label, colour in _apart(labels):
        out.append(_text(x, y + 4, label, anchor="start", extra=f' fill="{colour}"'))
    out.append(
        _text(60, HEIGHT - 12, "s: parts landed / tried, at N = 1 / 3 / 8; bars: 95 % of resampled tasks", "start")
    )
    return out


def _price(rows: Sequence[Row]) -> list[str]:
    panel = Panel(690, 1080, x=(0.45, 3.2), y=(0.35, 6.0), log_x=True, log_y=True)
    out = panel.frame(
        "Speed and its price",
        "price: mind-runs / those of the best sequential loop (a2)",
        "speed: a2's wall time / its own",
        (0.5, 0.75, 1, 1.5, 2, 3),
        (0.5, 1, 2, 3, 4, 6),
    )
    for row in rows:
        if row["strategy"].startswith("ours,"):
            continue
        x, y = panel.at(
            min(max(row["runs_to_best_loop"].value, 0.45), 3.2), min(max(row["speed_to_best_loop"].value, 0.35), 6)
        )
        if row["strategy"] == "ours":
            colour = COLOURS[LAYOUTS.index(row["layout"])]
            out.append(_dot(x, y, colour, radius=3 + row["width"] / 2))
        else:
            out.append(f'<rect x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8" fill="#111111"/>')
            out.append(_text(x + 8, y + 4, row["label"], anchor="start"))
    out.append(_text(690, HEIGHT - 12, "circles: ours, coloured as left, larger with N; squares: baselines", "start"))
    return out


def _apart(ends: Sequence[tuple[float, str, str]]) -> list[tuple[float, str, str]]:
    """Labels by height, moved down where they would lie on one another."""
    out: list[tuple[float, str, str]] = []
    for y, label, colour in sorted(ends):
        out.append((max(y, out[-1][0] + 15) if out else y, label, colour))
    return out


def _share(value: float, ends: tuple[float, float], *, log: bool) -> float:
    low, high = ends
    if log:
        return (math.log(value) - math.log(low)) / (math.log(high) - math.log(low))
    return (value - low) / (high - low)


def _text(x: float, y: float, text: str, anchor: str, extra: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{extra}>{escape(text)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>'


def _dot(x: float, y: float, colour: str, *, radius: float = 4) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill="{colour}" fill-opacity="0.8"/>'
