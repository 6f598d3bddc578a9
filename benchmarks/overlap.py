"""`orchconverge overlap` of 20 candidates against the 190 bare calls of `git merge-tree --write-tree` that it stands for."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from functools import partial
from itertools import combinations
from pathlib import Path

from _timing import Row, Wall, arguments, finish

from orchconverge.adapters.ledger import FileLedger
from orchconverge.core import events as e
from orchconverge.core.target import Criterion, Sha, Termination
from orchconverge.core.values import ControllerId, Limits, Process, Settings

CANDIDATES = 20
FILES = 200
LINES = 100
CHANGED = 8
"""Files that one candidate changes, two of them the same for all."""
GOAL = 1.5


class Sample:
    """A repository with `CANDIDATES` branches from one base, and the ledger of the run that made them."""

    def __init__(self, folder: Path) -> None:
        self.repo = folder / "repo"
        self.conflicts: set[int] = set()
        self.env = {**os.environ, "GIT_CONFIG_NOSYSTEM": "1", "HOME": str(folder)}
        for name in ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED"):
            self.env.pop(name, None)
        self.repo.mkdir()
        self.git("init", "-q", "-b", "main")
        self.git("config", "user.name", "a")
        self.git("config", "user.email", "a@localhost")
        for number in range(FILES):
            path = self.repo / f"folder{number % 10}" / f"file{number}.py"
            path.parent.mkdir(exist_ok=True)
            path.write_text("".join(f"value_{line} = {number}\n" for line in range(LINES)))
        base = self.commit()
        draw = random.Random(1)
        self.heads = [self.attempt(base, number, draw) for number in range(CANDIDATES)]
        self.git("checkout", "-q", "main")
        self.write(base)

    def git(self, *args: str) -> str:
        """Run git there; what it said."""
        ran = subprocess.run(["git", *args], cwd=self.repo, env=self.env, check=True, capture_output=True, text=True)
        return ran.stdout.strip()

    def commit(self) -> Sha:
        """Commit all that lies there."""
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "work")
        return Sha(self.git("rev-parse", "HEAD"))

    def attempt(self, base: Sha, number: int, draw: random.Random) -> Sha:
        """One line in each of some files, and a file of its own."""
        self.git("checkout", "-q", "--detach", base)
        for file in (0, 1, *draw.sample(range(2, FILES), CHANGED - 2)):
            path = self.repo / f"folder{file % 10}" / f"file{file}.py"
            lines = path.read_text().splitlines()
            lines[draw.randrange(LINES)] = f"changed = {number}"
            path.write_text("\n".join(lines) + "\n")
        (self.repo / f"new{number}.py").write_text(f"new = {number}\n")
        return self.commit()

    def write(self, base: Sha) -> None:
        """The facts of one wave, through the real ledger."""
        ledger = FileLedger(self.repo / ".git" / "orchconverge", Wall())

        def tell(fact: e.AnyFact) -> None:
            ledger.append(fact, writer="controller", active=0.0)

        goal = {"title": "b", "macrostate": "b", "goal": "b", "target": "main", "termination": Termination(attempts=9)}
        tell(e.BasinDeclared(basin="b", criteria=(Criterion(name="c", command="true"),), **goal))  # type: ignore[arg-type]
        settings = Settings(checkout=str(self.repo), place="fresh", engines=("command",))
        held = ControllerId(host="h", boot="b", pid=1, start=1)
        tell(e.RunStarted(basin="b", run="r", controller=held, settings=settings, limits=Limits(attempts=9)))
        turn = {"strategy": "first", "why": "first", "engine": "command", "width": CANDIDATES, "deadline": 60.0}
        tell(e.AttemptStarted(basin="b", attempt=1, **turn))  # type: ignore[arg-type]
        tell(e.BasinOpened(basin="b", wave=1))
        for number, head in enumerate(self.heads, 1):
            name = f"b.{number}"
            where = {"gitBranch": f"m-{number}", "worktree": f"trees/{number}", "place": "fresh", "engine": "command"}
            tell(e.BranchSpawned(basin="b", branch=name, approach="any", base=base, **where))  # type: ignore[arg-type]
            process = Process(boot="b", pid=2, start=2)
            tell(e.BranchSearching(basin="b", branch=name, session="s", process=process))
            tell(e.BranchEnded(basin="b", branch=name, reason="exited", seconds=1.0, head=head, exit=0))
            tell(e.BranchCandidate(basin="b", branch=name, head=head, summary="", evidence=(), commits=1))
        ledger.close()

    def bare(self) -> float:
        """Every pair by its own process, one after the other, nothing read of what it says."""
        begun, conflicts = time.perf_counter(), 0
        for one, other in combinations(self.heads, 2):
            argv = ["git", "merge-tree", "--write-tree", one, other]
            ran = subprocess.run(argv, cwd=self.repo, env=self.env, stdout=subprocess.DEVNULL, check=False)
            conflicts += ran.returncode == 1
        took = time.perf_counter() - begun
        self.conflicts.add(conflicts)
        return took

    def ours(self) -> float:
        """The whole command: the interpreter, the ledger, the lines of each candidate, every pair."""
        argv = [sys.executable, "-m", "orchconverge", "overlap", "--json"]
        begun = time.perf_counter()
        ran = subprocess.run(argv, cwd=self.repo, env=self.env, stdout=subprocess.PIPE, check=True)
        took = time.perf_counter() - begun
        self.conflicts.add(sum(pair["merges"] is False for pair in json.loads(ran.stdout)["pairs"]))
        return took


def main() -> None:
    options = arguments(__doc__ or "", rounds=9).parse_args()
    base = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=base) as folder:
        sample = Sample(Path(folder))
        pairs = CANDIDATES * (CANDIDATES - 1) // 2
        row = Row(f"overlap of {CANDIDATES} candidates", f"{pairs} bare git merge-tree --write-tree", GOAL)
        row.run(partial(sample.bare), partial(sample.ours), options.rounds)
        [conflicts] = sample.conflicts  # one number, whoever counted
        row.notes = {"conflicts": conflicts, "files": FILES, "cores": len(os.sched_getaffinity(0))}
    finish([row], options)


if __name__ == "__main__":
    main()
