"""Replay and fold of a long ledger against a bare msgspec decode of the same lines; and the memory that it takes.

Seconds are of this process's processor time: a busy machine meets both, and there is nothing to wait for.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
from _timing import Row, Wall, arguments, finish
from msgspec.structs import replace

from orchconverge.adapters.ledger import NAME, FileLedger
from orchconverge.core import events as e
from orchconverge.core import upcast
from orchconverge.core import values as v
from orchconverge.core.target import Budget, Criterion, Sha, Termination

GOAL = 3.0
ATTEMPTS, WIDTH = 20, 3
START = datetime(2026, 1, 1, tzinfo=UTC)
PROCESS = v.Process(boot="3c5b1a52-8a43-4e36-9d7e-0a7a2f1b5d11", pid=4242, start=123456)


def sha(*parts: object) -> Sha:
    return Sha(f"{abs(hash(parts)):040x}"[-40:])


def evidence(tree: Sha, met: v.Met) -> tuple[v.Evidence, ...]:
    excerpt = (
        "" if met == "yes" else "FAILED tests/test_auth.py::test_refresh - AssertionError: assert 401 == 200\n" * 3
    )
    return tuple(
        v.Evidence(criterion=name, met=met, exit=0 if met == "yes" else 1, seconds=4.2, tree=tree, excerpt=excerpt)
        for name in ("tests", "types")
    )


def pursuit(number: int) -> Iterator[e.AnyFact]:
    """All facts of one basin: declared, twenty attempts of three minds each, stopped at its limit."""
    basin = f"basin-{number}"
    yield e.BasinDeclared(
        basin=basin,
        title=f"Pursuit {number}",
        macrostate="every request of the API is authenticated",
        goal="implement token refresh",
        criteria=(Criterion(name="tests", command="pytest -q"), Criterion(name="types", command="mypy")),
        termination=Termination(attempts=ATTEMPTS),
        target="main",
        budget=Budget(),
    )
    yield e.RunStarted(
        basin=basin,
        run=f"{basin}.run",
        controller=v.ControllerId(host="host", boot=PROCESS.boot, pid=PROCESS.pid, start=PROCESS.start),
        settings=v.Settings(checkout="/home/me/project", place="fresh", engines=("claude",)),
        limits=v.Limits(attempts=ATTEMPTS),
    )
    yield e.BasinChecked(basin=basin, head=sha(basin), tree=sha(basin, 0), results=evidence(sha(basin, 0), "no"))
    minds = 0
    for attempt in range(1, ATTEMPTS + 1):
        yield e.AttemptStarted(
            basin=basin, attempt=attempt, strategy="vary", why="two criteria are unmet", engine="claude", width=WIDTH
        )
        yield e.BasinOpened(basin=basin, wave=attempt)
        wave = range(minds + 1, minds + WIDTH + 1)
        minds += WIDTH
        for n in wave:
            yield e.BranchSpawned(
                basin=basin,
                branch=f"{basin}.{n}",
                approach="tests first",
                gitBranch=f"orchconverge/{basin}/{n}",
                worktree=f"/home/me/.local/state/orchconverge/project/worktrees/{basin}.{n}",
                base=sha(basin),
                engine="claude",
                place="fresh",
            )
            yield e.BranchSearching(
                basin=basin, branch=f"{basin}.{n}", session=f"mind-{basin}-{n}", pane="%7", process=PROCESS
            )
        for n in wave:
            branch, tree = f"{basin}.{n}", sha(basin, n, "tree")
            usage = v.Usage(inputTokens=51_234, outputTokens=4_321, usd=0.42, source="reported")
            yield e.BranchEnded(
                basin=basin, branch=branch, reason="exited", exit=0, seconds=312.5, head=sha(branch), usage=usage
            )
            if n % 3 == 0:
                yield e.BranchFailed(basin=basin, branch=branch, reason="no commit was made")
                continue
            yield e.BranchCandidate(
                basin=basin,
                branch=branch,
                head=sha(branch),
                summary="Refresh tokens are rotated; the old one is refused. " * 2,
                evidence=evidence(tree, "yes" if n % 3 == 1 else "no"),
                commits=2,
                usage=usage,
            )
            if n % 3 == 1:
                yield e.BranchGrafted(
                    basin=basin,
                    branch=branch,
                    mergeCommit=sha(branch, "merge"),
                    tree=tree,
                    evidence=evidence(tree, "yes"),
                    decidedBy="controller",
                )
            else:
                yield e.BranchPruned(basin=basin, branch=branch, reason="the other was better", decidedBy="controller")
        yield e.AttemptEnded(
            basin=basin,
            attempt=attempt,
            charged=True,
            result="partial_success",
            head=sha(basin, attempt),
            criteria={"tests": False, "types": True},
            progress=50,
            decision="IN_PROGRESS",
            evidence=evidence(sha(basin, attempt, "tree"), "no"),
        )
    yield e.RunStopped(basin=basin, reason="limit")


def write(folder: Path, events: int) -> Path:
    """A ledger of ``events`` lines, as the adapter would have written them."""
    folder.mkdir(parents=True)
    path = folder / NAME
    seq = number = 0
    with path.open("wb", buffering=1 << 20) as file:
        while True:
            number += 1
            for fact in pursuit(number):
                seq += 1
                at = START + timedelta(seconds=seq, microseconds=seq % 1_000_000)
                file.write(upcast.encode(replace(fact, v=1, seq=seq, at=at, writer="controller", active=float(seq))))
                if seq == events:
                    return path


def decode(path: Path) -> float:
    """The floor: every line decoded by the one union decoder, and dropped."""
    decoder = msgspec.json.Decoder(e.AnyFact)
    start = time.process_time()
    rest = b""
    with path.open("rb", buffering=0) as file:
        while chunk := file.read(1 << 20):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                decoder.decode(line)
    return time.process_time() - start


def replay(path: Path, events: int) -> float:
    start = time.process_time()
    ledger = FileLedger(path.parent, Wall())
    health = ledger.health
    seconds = time.process_time() - start
    assert (health.lines, health.bad, health.illegal, health.unknown) == (events, 0, 0, 0), health
    ledger.close()
    return seconds


def peak_bytes(path: Path | None) -> int:
    """The most memory that a fresh process took to replay ``path``; or to start, without one."""
    command = [sys.executable, __file__, "--peak", str(path or "")]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    parser = arguments(__doc__ or "", rounds=3)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, help="where the ledger is written; a temporary folder by default")
    parser.add_argument("--peak", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.peak is not None:
        if chosen.peak:
            state = FileLedger(Path(chosen.peak).parent, Wall()).state
            assert state.basins
        status = Path("/proc/self/status").read_text()  # ru_maxrss would remember the process that forked this one
        print(int(status.split("VmHWM:")[1].split()[0]) * 1024)
        return
    with tempfile.TemporaryDirectory(dir=chosen.folder) as name:
        path = write(Path(name) / "state", chosen.events)
        tenth = write(Path(name) / "tenth", chosen.events // 10)
        row = Row(f"replay and fold, {chosen.events} events", "msgspec decode of the same lines", GOAL)
        row.run(lambda: decode(path), lambda: replay(path, chosen.events), chosen.rounds)
        start, small, large = peak_bytes(None), peak_bytes(tenth), peak_bytes(path)
        row.notes |= {
            "floor_us": round(min(row.floor) / chosen.events * 1e6, 2),
            "ours_us": round(min(row.ours) / chosen.events * 1e6, 2),
            "line_bytes": path.stat().st_size // chosen.events,
            "peak_mb": round(large / 1e6),
            "peak_mb_of_a_tenth": round(small / 1e6),
            "peak_mb_of_none": round(start / 1e6),
            "state_bytes_per_event": round((large - start) / chosen.events),
        }
    finish([row], chosen)


if __name__ == "__main__":
    main()
