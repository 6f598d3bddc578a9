"""What our hook adds to the bare hook, a Python that reads its input and ends, while the admission socket answers it."""

from __future__ import annotations

import argparse
import json
import os
import select
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from orchconverge import hook
from orchconverge.adapters.engines.shell import acted
from orchconverge.adapters.gate import SocketGate

GOAL_SECONDS = 0.015
CALLS = 50
BARE = "import sys; sys.stdin.buffer.read()"
CALL = {"session_id": "s", "tool_name": "Bash", "tool_input": {"command": "sed -n 1,40p README.md"}, "tool_use_id": "1"}


@contextmanager
def served(folder: Path) -> Iterator[tuple[Path, list[str]]]:
    """A gate that is served by a thread and allows everything; the ids that it was asked about."""
    gate = SocketGate("benchmark", acted, environ={"XDG_RUNTIME_DIR": str(folder)})
    path, over, asked = gate.open(), threading.Event(), list[str]()

    def serve() -> None:
        while not over.is_set():
            select.select(gate.handles(), [], [], 0.05)
            gate.serve(lambda question: asked.append(question.id) or "")

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield path, asked
    finally:
        over.set()
        thread.join()
        gate.close()


def timed(argv: list[str], env: dict[str, str]) -> float:
    begun = time.perf_counter()
    done = subprocess.run(argv, input=json.dumps(CALL).encode(), env=env, capture_output=True, check=True)
    took = time.perf_counter() - begun
    assert (done.stdout, done.stderr) == (b"", b""), done
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    parser.add_argument("--margin", type=float, default=1.0, help="fail only beyond this many times the goal (1)")
    parser.add_argument("--calls", type=int, default=CALLS, help=f"how often both are run ({CALLS})")
    options = parser.parse_args()
    python = [sys.executable, "-I", "-S"]
    bare, ours = list[float](), list[float]()
    folder = Path(tempfile.mkdtemp(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None))
    try:
        with served(folder) as (path, asked):
            env = {"ORCHCONVERGE_ADMISSION": str(path), "ORCHCONVERGE_ADMISSION_TOKEN": "t"}
            for number in range(options.calls + 1):
                pair = [([*python, "-c", BARE], bare), ([*python, str(hook.__file__), "claude"], ours)]
                for argv, took in pair if number % 2 else reversed(pair):
                    took.append(timed(argv, env))
    finally:
        shutil.rmtree(folder)
    assert len(asked) == len(ours), "a call was not asked about"
    added = statistics.median(ours[1:]) - statistics.median(bare[1:])  # the first of each warms the machine
    missed = added > GOAL_SECONDS * options.margin
    found = {
        "calls": options.calls,
        "bare_seconds": statistics.median(bare[1:]),
        "ours_seconds": statistics.median(ours[1:]),
        "added_seconds": added,
        "goal_seconds": GOAL_SECONDS,
        "missed": missed,
    }
    if options.json:
        print(json.dumps(found, indent=2))
    else:
        told = f"{found['ours_seconds'] * 1000:.1f} ms, bare {found['bare_seconds'] * 1000:.1f} ms"
        print(f"a call of the hook, median of {options.calls}: {told}; added {added * 1000:.1f} ms")
        print(f"goal <= {GOAL_SECONDS * 1000:.0f} ms: {'MISSED' if missed else 'met'}")
    sys.exit(int(missed))


if __name__ == "__main__":
    main()
