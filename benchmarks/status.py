"""`orchconverge --status` on a 10,000-line ledger against `python -c pass`: what looking costs."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _timing import Row, Wall, arguments, finish
from replay import write

from orchconverge.adapters.ledger import FileLedger

LINES = 10_000
GOAL = 10.0


def repository(folder: Path) -> Path:
    """A repository with one commit whose ledger holds `LINES` realistic lines, written by our own ledger's codec."""
    env = {**os.environ, "GIT_CONFIG_NOSYSTEM": "1", "HOME": str(folder)}
    who = ["-c", "user.name=a", "-c", "user.email=a@localhost"]
    repo = folder / "repo"
    subprocess.run(["git", "init", "-q", str(repo)], check=True, env=env)
    subprocess.run(["git", "-C", str(repo), *who, "commit", "-q", "--allow-empty", "-m", "start"], check=True, env=env)
    state = repo / ".git" / "orchconverge"
    write(state, LINES)
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
    with tempfile.TemporaryDirectory(dir=base) as folder:
        repo = repository(Path(folder))
        row = Row(f"status on {LINES} lines", "python -c pass", GOAL).run(
            lambda: timed([sys.executable, "-c", "pass"], repo),
            lambda: timed([sys.executable, "-m", "orchconverge", "--status"], repo),
            options.rounds,
        )
    finish([row], as_json=options.json)


if __name__ == "__main__":
    main()
