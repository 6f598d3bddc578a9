"""The grid of tasks, layouts and strategies, and what comes out: means, paired ratios with their intervals, the goals."""

from __future__ import annotations

import random
import shutil
import statistics
import tempfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

from benchmarks.convergence.admission import Queue
from benchmarks.convergence.generator import LAYOUTS, Layout
from benchmarks.convergence.minds import Law, Luck
from benchmarks.convergence.proof import Proof, prove
from benchmarks.convergence.store import Store
from benchmarks.convergence.strategies import (
    BASELINES,
    BEST_LOOP,
    LOOP,
    WIDTHS,
    Bench,
    Pursuit,
    Strategy,
    best,
    best_of,
    ours,
    pursue,
    thrown_away,
    wholes,
)

CAP = 120
ANY = "any"
"""The layout of the baselines: they take one branch of a wave as it is, which stands on the tip, so that nothing collides."""
GATE = 0.1
"""What one gate costs, in median mind-runs; merges are scaled with it, by what both took here."""
FIRST_TASK = 1000
"""The tasks below were looked at while the layouts were made; none of them is measured."""
RESAMPLES = 2000
BAND = (0.5, 0.7)

Key = tuple[str, Strategy]


@dataclass(frozen=True)
class Settings:
    """What is measured. ``folder`` should be in memory: thousands of small repositories come and go there."""

    tasks: int
    k: int
    jobs: int
    proofs: int
    gates: int
    folder: Path
    squashed: bool = False
    law: Law = field(default_factory=Law)


def one_task(settings: Settings, task: int) -> dict[Key, Pursuit]:
    """Every strategy on one task, with the same luck."""
    done = {(ANY, strategy): _pursued(settings, task, LAYOUTS[0], strategy) for strategy in BASELINES}
    for layout in LAYOUTS:
        for strategy in [*map(ours, WIDTHS), *(wholes(width) for width in WIDTHS[1:])]:
            done[layout, strategy] = _pursued(settings, task, layout, strategy)
    return done


def _pursued(settings: Settings, task: int, layout: str, strategy: Strategy) -> Pursuit:
    folder = Path(tempfile.mkdtemp(prefix="task-", dir=settings.folder))
    store = Store(folder / "repository")
    try:
        bench = Bench(Layout(layout, settings.k), Luck(task, settings.law), store, squashed=settings.squashed)
        return pursue(bench, strategy, best if strategy.tries is None else Queue().admit, cap=CAP)
    finally:
        store.close()
        shutil.rmtree(folder)


def one_proof(settings: Settings, task: int) -> Proof:
    """One task once more with the product's adapter and the real pytest, the layouts in turn."""
    proof = Proof()
    with tempfile.TemporaryDirectory(prefix="proof-", dir=settings.folder) as folder:
        layout = Layout(LAYOUTS[task % len(LAYOUTS)], settings.k)
        prove(proof, task, layout, settings.law, Path(folder), gates=settings.gates, squashed=settings.squashed)
    return proof


def run(settings: Settings, say: Callable[[str], None]) -> tuple[dict[Key, list[Pursuit]], Proof]:
    """The proof first, then the grid. Progress is told to ``say``."""
    proof, grid = Proof(), dict[Key, list[Pursuit]]()
    with ProcessPoolExecutor(settings.jobs) as pool:
        for proven in pool.map(partial(one_proof, settings), _tasks(settings.proofs)):
            proof = proof.plus(proven)
        say(f"{proof.tasks} tasks proven: {len(proof.merges)} merges, {len(proof.gates)} gates")
        for number, each in enumerate(pool.map(partial(one_task, settings), _tasks(settings.tasks)), 1):
            for key, pursuit in each.items():
                grid.setdefault(key, []).append(pursuit)
            if number % 10 == 0:
                say(f"{number} of {settings.tasks} tasks")
    return grid, proof


def _tasks(count: int) -> range:
    return range(FIRST_TASK, FIRST_TASK + count)


# --- what comes out --------------------------------------------------------------------------------------------------


@cache
def _resamples(tasks: int) -> tuple[tuple[int, ...], ...]:
    dice = random.Random("the same for every ratio")
    return tuple(tuple(dice.choices(range(tasks), k=tasks)) for _ in range(RESAMPLES))


@dataclass(frozen=True)
class Ratio:
    """A ratio of means over the same tasks, and its 95 % interval by resampling the tasks."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, ours: Sequence[float], floor: Sequence[float]) -> Ratio:
        """``ours`` to ``floor``, task by task in the same order."""
        drawn = sorted(sum(ours[i] for i in some) / sum(floor[i] for i in some) for some in _resamples(len(ours)))
        edge = RESAMPLES // 40
        return cls(sum(ours) / sum(floor), drawn[edge], drawn[-edge - 1])

    def __str__(self) -> str:
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"


class Results:
    """The grid, asked for figures."""

    def __init__(self, grid: dict[Key, list[Pursuit]], proof: Proof) -> None:
        self.grid = grid
        self.merge = GATE * proof.merge_seconds / proof.gate_seconds
        """What one merge costs, in median mind-runs."""

    def runs(self, key: Key) -> list[float]:
        """Mind-runs, task by task."""
        return [float(done.minds) for done in self.grid[key]]

    def wall(self, key: Key) -> list[float]:
        """Wall time in median mind-runs, task by task."""
        return [done.mind_time + GATE * done.gates + self.merge * done.merges for done in self.grid[key]]

    def separability(self, key: Key) -> float | None:
        """Parts that landed over parts tried; nothing where none was."""
        parts = sum(done.parts for done in self.grid[key])
        return sum(done.landed for done in self.grid[key]) / parts if parts else None

    def against(self, key: Key, strategy: Strategy) -> Ratio:
        """Mind-runs relative to a baseline."""
        return Ratio.of(self.runs(key), self.runs((ANY, strategy)))

    def faster(self, key: Key, strategy: Strategy) -> Ratio:
        """How many times faster than a baseline, in wall time."""
        return Ratio.of(self.wall((ANY, strategy)), self.wall(key))

    def row(self, key: Key) -> dict[str, Any]:
        """All figures of one strategy in one layout."""
        layout, strategy = key
        done, runs = self.grid[key], self.runs(key)
        return {
            "layout": layout,
            "strategy": strategy.name,
            "width": strategy.width,
            "label": strategy.label,
            "s": self.separability(key),
            "parts": sum(each.parts for each in done),
            "landed": sum(each.landed for each in done),
            "wholes": sum(each.wholes for each in done),
            "tries": sum(each.tries for each in done),
            "runs": statistics.fmean(runs),
            "median": statistics.median(runs),
            "converged": statistics.fmean(each.converged for each in done),
            "wall": statistics.fmean(self.wall(key)),
            "lost": statistics.fmean(each.lost for each in done),
            "runs_to_thrown_away": self.against(key, thrown_away(strategy.width)),
            "runs_to_best_loop": self.against(key, BEST_LOOP),
            "runs_to_loop": self.against(key, LOOP),
            "speed_to_best_loop": self.faster(key, BEST_LOOP),
        }

    def rows(self) -> list[dict[str, Any]]:
        """The whole table."""
        return [self.row(key) for key in self.grid]


@dataclass(frozen=True)
class Goal:
    """A goal written down before anything was measured, and what came out."""

    text: str
    measured: Ratio
    met: bool


def goals(results: Results) -> Iterable[Goal]:
    """Those of the design for layouts whose measured separability is in `BAND`, and the falsifier where it is none.

    Where no layout is in the band at a width, the nearest is judged against b+ alone, and said to be outside.
    """
    for strategy in map(ours, WIDTHS):
        measured = {layout: results.separability((layout, strategy)) or 0.0 for layout in LAYOUTS}
        inside = [layout for layout, s in measured.items() if BAND[0] <= s <= BAND[1]]
        for layout, s in measured.items():
            key, place = (layout, strategy), f"{layout}, N={strategy.width}, s={s:.2f}"
            if s == 0:
                leak = results.against(key, thrown_away(strategy.width))
                yield Goal(f"{place}: nothing to harvest, runs / b+ >= 0.97", leak, leak.value >= 0.97)
            elif strategy.width > 1 and layout in inside:
                yield _saved(results, key, place)
                yield from _against_the_rest(results, key, place)
        if strategy.width > 1 and not inside:
            layout = min(LAYOUTS, key=lambda each: max(BAND[0] - measured[each], measured[each] - BAND[1]))
            place = f"{layout}, N={strategy.width}, s={measured[layout]:.2f} (outside .5-.7, the nearest)"
            yield _saved(results, (layout, strategy), place)


def _saved(results: Results, key: Key, place: str) -> Goal:
    most = {3: 0.90, 8: 0.80}[key[1].width]
    ratio = results.against(key, thrown_away(key[1].width))
    return Goal(f"{place}: runs / b+ <= {most:.2f}, interval below 1", ratio, ratio.value <= most and ratio.high < 1)


def _against_the_rest(results: Results, key: Key, place: str) -> Iterable[Goal]:
    width = key[1].width
    most = {3: 0.75, 8: 0.65}[width]
    ratio = results.against(key, best_of(width))
    yield Goal(f"{place}: runs / b <= {most:.2f}", ratio, ratio.value <= most)
    if width == 3:
        ratio = results.against(key, LOOP)
        yield Goal(f"{place}: runs / a0 <= 0.50", ratio, ratio.value <= 0.5)
        price, speed = results.against(key, BEST_LOOP), results.faster(key, BEST_LOOP)
        yield Goal(f"{place}: runs / a2 <= 1.15", price, price.value <= 1.15)
        yield Goal(f"{place}: speed / a2 >= 1.7", speed, speed.value >= 1.7)
