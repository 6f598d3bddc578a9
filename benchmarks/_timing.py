"""Runs a floor and what is measured in turns, in the same run, and says whether the ratio meets its goal."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

NOISE = (
    "a goal counts as missed when three quarters of the rounds are above it: "
    "the lower quartile of the ratios, floor and measured in the same round"
)


@dataclass
class Row:
    """One line of design §15: seconds of the floor and of ours, round by round, and what the ratio may be at most."""

    name: str
    floor_name: str
    goal: float | None
    floor: list[float] = field(default_factory=list)
    ours: list[float] = field(default_factory=list)
    notes: dict[str, Any] = field(default_factory=dict)

    @property
    def ratios(self) -> list[float]:
        return [ours / floor for ours, floor in zip(self.ours, self.floor, strict=True)]

    @property
    def median(self) -> float:
        return statistics.median(self.ratios)

    @property
    def quartiles(self) -> tuple[float, float]:
        if len(self.ratios) < 2:
            return self.ratios[0], self.ratios[0]
        low, _, high = statistics.quantiles(self.ratios, n=4, method="inclusive")
        return low, high

    @property
    def missed(self) -> bool:
        return self.goal is not None and self.quartiles[0] > self.goal

    def run(self, floor: Callable[[], float], ours: Callable[[], float], rounds: int) -> Row:
        """Take both ``rounds`` times, each time in the other order; each returns its own seconds. One round goes before."""
        floor()
        ours()
        for number in range(rounds):
            if number % 2:
                self.ours.append(ours())
                self.floor.append(floor())
            else:
                self.floor.append(floor())
                self.ours.append(ours())
        return self


class Wall:
    """The clock of the machine."""

    def now(self) -> datetime:
        """UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds, never going back."""
        return time.monotonic()


def arguments(description: str, *, rounds: int) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description, epilog=NOISE)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    parser.add_argument(
        "--margin",
        type=float,
        default=1.0,
        help="fail only beyond this many times the goal: for machines that others use too (1)",
    )
    parser.add_argument("--rounds", type=int, default=rounds, help=f"how often floor and ours are run ({rounds})")
    return parser


def finish(rows: list[Row], options: argparse.Namespace) -> None:
    """Print the rows and exit: 1 if a goal was missed by more than noise and the margin that was asked for."""
    if options.json:
        print(json.dumps({"noise": NOISE, "rows": [_plain(row) for row in rows]}, indent=2))
    else:
        for row in rows:
            low, high = row.quartiles
            goal = "no goal" if row.goal is None else f"goal <= {row.goal:g}x: {'MISSED' if row.missed else 'met'}"
            print(f"{row.name}: {row.median:.2f}x of {row.floor_name} (quartiles {low:.2f}-{high:.2f}); {goal}")
            for key, value in row.notes.items():
                print(f"    {key}: {value}")
        print(NOISE)
    sys.exit(int(any(row.goal is not None and row.quartiles[0] > row.goal * options.margin for row in rows)))


def _plain(row: Row) -> dict[str, Any]:
    return {
        "name": row.name,
        "floor": row.floor_name,
        "goal": row.goal,
        "ratio": row.median,
        "quartiles": row.quartiles,
        "missed": row.missed,
        "floor_seconds": row.floor,
        "ours_seconds": row.ours,
        **row.notes,
    }


def file_system(folder: Path) -> str:
    """The type of the file system that holds ``folder``, as the kernel names it."""
    best, kind = "", "unknown"
    for line in Path("/proc/mounts").read_text().splitlines():
        _, place, found, *_ = line.split()
        if folder.resolve().is_relative_to(place) and len(place) >= len(best):
            best, kind = place, found
    return kind
