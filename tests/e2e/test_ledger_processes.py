"""Real processes on one ledger. The full storm (16 x 5,000) is `benchmarks/append_storm.py`; here a tenth of it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from orchconverge.adapters.ledger import FileLedger, verify
from orchconverge.core.events import FrontierAdded

ROOT = Path(__file__).resolve().parents[2]
STORM = ROOT / "benchmarks" / "append_storm.py"
APPENDER = """
import sys, time
from datetime import UTC, datetime
from pathlib import Path
from orchconverge.adapters.ledger import FileLedger
from orchconverge.core.events import FrontierAdded
class Wall:
    def now(self): return datetime.now(UTC)
    def monotonic(self): return time.monotonic()
ledger = FileLedger(Path(sys.argv[1]), Wall())
n = 0
while True:
    fact = ledger.append(FrontierAdded(question=f"{sys.argv[2]}.{n} " + "?" * 300, origin="person"), writer="cli")
    print(fact.seq, fact.question, flush=True)
    n += 1
"""


class Wall:
    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()


@pytest.mark.slow
@pytest.mark.skipif(not STORM.exists(), reason="runs from the source tree")
def test_sixteen_processes_write_whole_legal_lines_in_order_and_the_export_is_the_fold(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, str(STORM), "--json", "--appends", "500", "--folder", str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert ran.stdout, ran.stderr
    found = json.loads(ran.stdout)
    assert found["problems"] == []
    assert (found["lines"], found["of"]) == (8000, 8000)
    assert ran.returncode == 0


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.001)


@pytest.mark.parametrize("rounds", [5])
def test_writers_killed_in_the_middle_lose_nothing_that_was_acknowledged(tmp_path: Path, rounds: int) -> None:
    folder = tmp_path / "state"
    reader = FileLedger(folder, Wall())
    acknowledged: dict[int, str] = {}
    for number in range(rounds):
        said = [tmp_path / f"{number}.{n}" for n in range(3)]
        writers = []
        for path in said:
            with path.open("w") as out:
                command = [sys.executable, "-c", APPENDER, str(folder), path.name]
                writers.append(subprocess.Popen(command, stdout=out))
        before = reader.seq
        until(lambda before=before: bool(reader.catch_up() or True) and reader.seq > before + 50)  # type: ignore[misc]
        for writer in writers:
            writer.kill()
        for writer, path in zip(writers, said, strict=True):
            writer.wait()
            for line in path.read_text().split("\n")[:-1]:
                seq, question = line.split(" ", 1)
                assert int(seq) not in acknowledged
                acknowledged[int(seq)] = question
    fresh = FileLedger(folder, Wall())
    held = {fact.seq: fact for fact in fresh.catch_up()}
    for seq, question in acknowledged.items():
        fact = held[seq]
        assert isinstance(fact, FrontierAdded)
        assert fact.question == question
    assert verify(folder).bad == fresh.health.bad
    assert fresh.append(FrontierAdded(question="and on", origin="person"), writer="cli").seq == max(held) + 1
    for ledger in (reader, fresh):
        ledger.close()
