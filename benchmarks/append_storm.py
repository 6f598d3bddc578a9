"""Many processes append at once: every line must be whole, legal and in order, and the export must be the fold."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _timing import Wall

from orchconverge.adapters.export import NAME as EXPORT
from orchconverge.adapters.export import Export
from orchconverge.adapters.ledger import FileLedger, verify
from orchconverge.core import upcast
from orchconverge.core.events import AnyFact, FrontierAdded, FrontierClosed

BASIN = "storm"


def fact(worker: int, n: int) -> AnyFact:
    """The ``n``-th fact of a worker: it asks and answers in turns, and an answer is legal only after its question."""
    question = f"{worker}.{n // 2}: " + "what, why and how? " * 8
    if n % 2:
        return FrontierClosed(question=question, answer="because")
    return FrontierAdded(question=question, origin="person")


def export(ledger: FileLedger, target: Export) -> bool:
    document = {"lines": ledger.health.lines, "open": sorted(ledger.state.frontier)}
    return target.write(ledger.seq, document, BASIN)


def work(folder: Path, worker: int, appends: int) -> None:
    ledger, target = FileLedger(folder, Wall()), Export(folder)
    print("ready", flush=True)
    sys.stdin.readline()
    for n in range(appends):
        written = ledger.append(fact(worker, n), writer="cli")
        print(written.seq)  # acknowledged
        if n % 100 == 99:
            ledger.catch_up()
            export(ledger, target)
    export(ledger, target)


def storm(folder: Path, processes: int, appends: int) -> dict[str, object]:
    """Run it and say what is wrong with the file afterwards; ``problems`` is empty if nothing is."""
    command = [sys.executable, __file__, "--folder", str(folder), "--appends", str(appends), "--worker"]
    workers = [
        subprocess.Popen([*command, str(n)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for n in range(processes)
    ]
    for worker in workers:
        assert worker.stdout is not None
        worker.stdout.readline()
    start = time.perf_counter()
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    # `communicate` one after another is enough: a pipe holds 64 KiB, and who blocks on it holds no lock
    acknowledged = [[int(seq) for seq in worker.communicate()[0].split()] for worker in workers]
    seconds = time.perf_counter() - start
    problems = [f"worker {n} exited {w.returncode}" for n, w in enumerate(workers) if w.returncode]

    facts = [upcast.decode(line) for line in FileLedger(folder, Wall()).show()]
    total = processes * appends
    if [getattr(f, "seq", None) for f in facts] != list(range(1, total + 1)):
        problems.append(f"not the lines 1 to {total}, whole and in order: {len(facts)} lines")
    for n, seqs in enumerate(acknowledged):
        theirs = [facts[seq - 1] for seq in seqs if seq <= len(facts)]
        wanted = [fact(n, i) for i in range(appends)]
        if [(type(f), getattr(f, "question", "")) for f in theirs] != [(type(f), f.question) for f in wanted]:  # type: ignore[union-attr]
            problems.append(f"worker {n} was told of other lines than it wrote")
    audit = verify(folder)
    if audit.exit_code or audit.torn or audit.unknown:
        problems.append(f"verify: {audit}")
    ledger = FileLedger(folder, Wall())
    quiet = json.loads((folder / EXPORT).read_text())
    if quiet != {"lines": ledger.health.lines, "open": sorted(ledger.state.frontier), "seq": ledger.seq}:
        problems.append(f"the export is not the fold: {quiet}")
    return {
        "lines": len(facts),
        "of": total,
        "seconds": seconds,
        "us_per_append": seconds / total * 1e6,
        "problems": problems,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--processes", type=int, default=16)
    parser.add_argument("--appends", type=int, default=5000, help="of each process")
    parser.add_argument("--folder", type=Path, help="a disk-backed place; by default beside this script")
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.worker is not None:
        work(chosen.folder, chosen.worker, chosen.appends)
        return
    with tempfile.TemporaryDirectory(dir=chosen.folder or Path(__file__).parent, prefix=".storm-") as place:
        found = storm(Path(place) / "state", chosen.processes, chosen.appends)
    if chosen.json:
        print(json.dumps(found))
    else:
        print(
            f"{found['lines']} of {found['of']} lines whole, legal and in order: {found['us_per_append']:.0f} us each"
        )
        for problem in found["problems"]:  # type: ignore[attr-defined]
            print(problem)
    sys.exit(int(bool(found["problems"])))


if __name__ == "__main__":
    main()
