"""`orchconverge --status` on a 10,000-line ledger against `python -c pass`: what looking costs."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from _timing import Row, Wall, arguments, finish
from msgspec.structs import replace
from replay import START, write

from orchconverge.adapters.ledger import NAME, FileLedger
from orchconverge.core.events import FrontierAdded
from orchconverge.core.upcast import encode

LINES = 10_000
GOAL = 10.0


def questions(folder: Path) -> None:
    """A ledger of `LINES` short lines: open questions."""
    folder.mkdir(parents=True)
    with (folder / NAME).open("wb") as file:
        for seq in range(1, LINES + 1):
            fact = FrontierAdded(question=f"Does case {seq} matter?", origin="person")
            file.write(encode(replace(fact, v=1, seq=seq, at=START, writer="cli")))


def runs(folder: Path) -> None:
    """A ledger of `LINES` lines of whole pursuits, with their evidence."""
    write(folder, LINES)


def repository(folder: Path, fill: Callable[[Path], object]) -> Path:
    """A repository with one commit and a ledger of `LINES` lines."""
    env = {**os.environ, "GIT_CONFIG_NOSYSTEM": "1", "HOME": str(folder)}
    who = ["-c", "user.name=a", "-c", "user.email=a@localhost"]
    repo = folder / "repo"
    folder.mkdir()
    subprocess.run(["git", "init", "-q", str(repo)], check=True, env=env)
    subprocess.run(["git", "-C", str(repo), *who, "commit", "-q", "--allow-empty", "-m", "start"], check=True, env=env)
    state = repo / ".git" / "orchconverge"
    fill(state)
    ledger = FileLedger(state, Wall())
    ledger.catch_up()
    assert ledger.health.lines == LINES, ledger.health
    assert not ledger.health.bad, ledger.health
    assert not ledger.health.illegal, ledger.health
    ledger.close()
    return repo


def timed(argv: list[str], cwd: Path) -> float:
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED")}
    begun = time.perf_counter()
    subprocess.run(argv, cwd=cwd, env=env, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - begun


def main() -> None:
    options = arguments(__doc__ or "", rounds=25).parse_args()
    base = "/dev/shm" if Path("/dev/shm").is_dir() else None
    rows = []
    with tempfile.TemporaryDirectory(dir=base) as folder:
        for fill in (questions, runs):
            repo = repository(Path(folder) / fill.__name__, fill)
            row = Row(f"status on {LINES} lines of {fill.__name__}", "python -c pass", GOAL)
            rows.append(
                row.run(
                    partial(timed, [sys.executable, "-c", "pass"], repo),
                    partial(timed, [sys.executable, "-m", "orchconverge", "--status"], repo),
                    options.rounds,
                )
            )
    finish(rows, options)


if __name__ == "__main__":
    main()
