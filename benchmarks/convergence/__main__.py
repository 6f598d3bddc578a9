"""`python -m benchmarks.convergence`: runs the grid and prints what came out, wins and losses alike."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.convergence.figure import figure
from benchmarks.convergence.measure import ANY, CAP, FIRST_TASK, GATE, Goal, Results, Settings, goals, run
from benchmarks.convergence.proof import Proof

MEMORY = Path("/dev/shm")
JUDGED_FROM = 100
"""Tasks from which the goals decide the exit code: with fewer, chance does."""
HEAD = (
    "strategy",
    "layout",
    "s",
    "mind-runs",
    "median",
    "converged",
    "wall",
    "runs / b+",
    "runs / a2",
    "runs / a0",
    "speed / a2",
    "lost",
)


def main() -> int:
    """Exit code 1 if a goal is missed."""
    options = arguments().parse_args()
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="convergence-", dir=MEMORY if MEMORY.is_dir() else None) as folder:
        tasks, proofs, gates = (4, 2, 2) if options.quick else (options.tasks, 20, 5)
        settings = Settings(
            tasks=tasks,
            k=options.k,
            jobs=options.jobs,
            proofs=proofs,
            gates=gates,
            folder=Path(folder),
            squashed=options.squashed,
        )
        grid, proof = run(settings, lambda line: print(line, file=sys.stderr, flush=True))
    results = Results(grid, proof)
    rows, judged = results.rows(), list(goals(results))
    seconds = time.monotonic() - start
    print(as_json(settings, proof, rows, judged, seconds) if options.json else as_text(settings, proof, rows, judged))
    print(f"{seconds:.0f} seconds", file=sys.stderr)
    if options.figure:
        options.figure.write_text(figure(rows), encoding="utf-8")
    return int(settings.tasks >= JUDGED_FROM and not all(goal.met for goal in judged))


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.convergence", description=__doc__)
    parser.add_argument("--tasks", type=int, default=160, help="paired tasks (160)")
    parser.add_argument("--k", type=int, default=20, help="criteria of a task (20)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (2)")
    parser.add_argument("--squashed", action="store_true", help="minds make one commit of all, not one a criterion")
    parser.add_argument("--quick", action="store_true", help="a few tasks, in under a minute: no figure to quote")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of Markdown")
    parser.add_argument("--figure", type=Path, metavar="FILE.svg", help="draw both panels there")
    return parser


def as_json(settings: Settings, proof: Proof, rows: list[dict[str, Any]], judged: list[Goal], seconds: float) -> str:
    told = {
        "tasks": settings.tasks,
        "k": settings.k,
        "firstTask": FIRST_TASK,
        "cap": CAP,
        "squashed": settings.squashed,
        "law": dataclasses.asdict(settings.law),
        "proof": {
            "tasks": proof.tasks,
            "merges": len(proof.merges),
            "conflicts": proof.conflicts,
            "gates": len(proof.gates),
            "gateSeconds": proof.gate_seconds,
            "mergeSeconds": proof.merge_seconds,
        },
        "gate": GATE,
        "rows": [{name: _plain(value) for name, value in row.items()} for row in rows],
        "goals": [dataclasses.asdict(goal) for goal in judged],
        "seconds": seconds,
    }
    return json.dumps(told, indent=1)


def _plain(value: object) -> object:
    return dataclasses.asdict(value) if dataclasses.is_dataclass(value) and not isinstance(value, type) else value


def as_text(settings: Settings, proof: Proof, rows: list[dict[str, Any]], judged: list[Goal]) -> str:
    commits = "one commit of all" if settings.squashed else "one commit a criterion"
    lines = [
        f"{settings.tasks} paired tasks, K={settings.k}, at most {CAP} mind-runs each, {commits}.",
        f"Proven on {proof.tasks} tasks: {len(proof.merges)} merges ({proof.conflicts} conflicts) by the product's adapter"
        f" and {len(proof.gates)} gates by pytest gave the same trees and the same bits.",
        f"A gate took {proof.gate_seconds:.2f} s and a merge {proof.merge_seconds:.3f} s here; a gate counts as {GATE}"
        f" median mind-runs, a merge as {GATE * proof.merge_seconds / proof.gate_seconds:.4f}.",
        "",
        *table(HEAD, (cells(row) for row in rows)),
        "",
        *table(("goal", "measured", ""), ([g.text, str(g.measured), "met" if g.met else "MISSED"] for g in judged)),
    ]
    return "\n".join(lines)


def cells(row: dict[str, Any]) -> list[str]:
    """One line of the table."""
    s = "" if row["s"] is None else f"{row['s']:.2f} ({row['landed']}/{row['parts']}, {row['tries']} tries)"
    s += f" +{row['wholes']} whole" if row["wholes"] else ""
    return [
        row["label"],
        "" if row["layout"] == ANY else row["layout"],
        s,
        f"{row['runs']:.1f}",
        f"{row['median']:.0f}",
        f"{100 * row['converged']:.0f} %",
        f"{row['wall']:.1f}",
        str(row["runs_to_thrown_away"]),
        str(row["runs_to_best_loop"]),
        str(row["runs_to_loop"]),
        str(row["speed_to_best_loop"]),
        f"{row['lost']:.1f}",
    ]


def table(head: Iterable[str], lines: Iterable[Iterable[str]]) -> list[str]:
    """Markdown."""
    head = list(head)
    return [f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *lines)]


if __name__ == "__main__":
    sys.exit(main())
