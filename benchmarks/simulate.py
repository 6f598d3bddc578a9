"""The long version of `tests/property/test_simulation.py`: many seeds of both kinds, on all cores; a failure names its seed.

There is no floor here: what counts is that no invariant is violated. `--json` prints the figures as one object.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from orchconverge.core.events import BranchGrafted, GraftRefused, ResidueGrafted, RunStopped
from orchconverge.core.values import Fact
from tests.fakes.simulation import simulate
from tests.fakes.story import drawn, drawn_wave

CHUNK = 50
KINDS = {"single": drawn, "wave": drawn_wave}
"""One mind at a time, or several."""


def chunk(kind: str, first: int, count: int) -> tuple[Counter[str], list[str]]:
    """Run some seeds of one kind. Returns what they led to, and each failure with its seed."""
    met: Counter[str] = Counter()
    failures = []
    for seed in range(first, first + count):
        try:
            done = simulate(KINDS[kind](seed))
        except Exception as error:
            failures.append(f"{kind} seed {seed}: {type(error).__name__}: {error}")
            continue
        met["crashes"] += done.crashes
        met["minds"] += len(done.players.minds)
        met["facts"] += len(done.facts(Fact))
        met["grafted"] += len(done.facts(BranchGrafted))
        met["parts landed"] += len(done.facts(ResidueGrafted))
        met["parts or branches refused"] += len(done.facts(GraftRefused))
        for pursuit in done.pursuits:
            ends = [fact for fact in pursuit.watch.facts if isinstance(fact, RunStopped)]
            met[f"ended {ends[-1].reason if ends else 'before it began'}"] += 1
    return met, failures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--seeds", type=int, default=10_000, metavar="N", help="how many of each (default: %(default)s)"
    )
    parser.add_argument("--kind", choices=KINDS, action="append", help="of which kind (default: both)")
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="the first one (default: %(default)s)")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="processes (default: one a core)"
    )
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    given = parser.parse_args()
    began = time.monotonic()
    met: Counter[str] = Counter()
    failures: list[str] = []
    kinds = given.kind or [*KINDS]
    firsts = range(given.first, given.first + given.seeds, CHUNK)
    chunks = [(kind, first, min(CHUNK, given.first + given.seeds - first)) for kind in kinds for first in firsts]
    with ProcessPoolExecutor(given.jobs) as pool:
        for found, failed in pool.map(chunk, *zip(*chunks, strict=True)):
            met += found
            failures += failed
            for line in failed:
                print(line[:500], file=sys.stderr, flush=True)
    figures = {
        "kinds": kinds,
        "seeds": given.seeds,
        "seconds": round(time.monotonic() - began, 1),
        "failures": failures,
        **dict(sorted(met.items())),
    }
    if given.json:
        print(json.dumps(figures))
    else:
        for name, value in figures.items():
            print(f"{name:26} {len(value) if name == 'failures' else value}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
