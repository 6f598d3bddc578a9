"""Append against the least that can be durable under a lock: flock + write + fdatasync of the same lines, same processes."""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing.synchronize import Barrier
from pathlib import Path

from _timing import Row, Wall, arguments, file_system, finish
from append_storm import fact

from orchconverge.adapters.ledger import FileLedger
from orchconverge.core import upcast

GOALS = {1: 2.0, 16: 3.0}
FORK = multiprocessing.get_context("fork")


Step = Callable[[int], None]


def floor(folder: Path, worker: int) -> Step:
    """What has to be done at least for a durable line under a lock."""
    lines = [upcast.encode(fact(worker, n))[:-1] + b" " * 90 + b"\n" for n in range(2)]  # as long as with its envelope
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT)
    file = os.open(folder / "file", os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def append(n: int) -> None:
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.write(file, lines[n % 2])
        os.fdatasync(file)
        fcntl.flock(lock, fcntl.LOCK_UN)

    return append


def ours(folder: Path, worker: int) -> Step:
    """An append as a controller makes it, with the facts of others folded on the way."""
    ledger = FileLedger(folder / "state", Wall())

    def append(n: int) -> None:
        ledger.append(fact(worker, n), writer="cli")
        if n % 100 == 99:
            ledger.catch_up()

    return append


def member(folder: Path, worker: int, turns: int, each: int, barrier: Barrier) -> None:
    steps = (floor(folder, worker), ours(folder, worker))
    for turn in range(turns):
        barrier.wait()
        step = steps[turn % 4 in (1, 2)]
        for n in range(turn // 2 * each, turn // 2 * each + each):
            step(n)
        barrier.wait()


def measure(place: Path, processes: int, rounds: int, each: int, goal: float) -> Row:
    """Floor and ours in turns, in the same processes, a fraction of a second each, so that a busy disk meets both."""
    row = Row(f"append, {processes} process{'es' * (processes > 1)}", "flock + write + fdatasync", goal)
    barrier = FORK.Barrier(processes + 1)
    turns = 2 * (rounds + 1)
    members = [
        FORK.Process(target=member, args=(place, n, turns, each, barrier), daemon=True) for n in range(processes)
    ]
    for process in members:
        process.start()
    for turn in range(turns):
        barrier.wait(120)
        start = time.perf_counter()
        barrier.wait(120)
        if turn >= 2:  # the first round warms up
            (row.ours if turn % 4 in (1, 2) else row.floor).append(time.perf_counter() - start)
    for process in members:
        process.join()
    total = processes * each
    row.notes["floor_us"] = round(statistics.median(row.floor) / total * 1e6)
    row.notes["ours_us"] = round(statistics.median(row.ours) / total * 1e6)
    return row


def main() -> None:
    parser = arguments(__doc__ or "", rounds=30)
    parser.add_argument("--appends", type=int, default=400, help="of all processes together in each turn (400)")
    parser.add_argument("--folder", type=Path, default=Path(__file__).parent, help="a disk-backed place")
    chosen = parser.parse_args()
    kind = file_system(chosen.folder)
    if kind in {"tmpfs", "ramfs"}:
        print(
            f"{chosen.folder} is on {kind}: durability costs nothing there; choose a disk with --folder",
            file=sys.stderr,
        )
    rows = []
    for processes, goal in GOALS.items():
        with tempfile.TemporaryDirectory(dir=chosen.folder, prefix=".append-") as name:
            row = measure(Path(name), processes, chosen.rounds, max(1, chosen.appends // processes), goal)
        row.notes["file_system"] = kind
        rows.append(row)
    finish(rows, chosen)


if __name__ == "__main__":
    main()
