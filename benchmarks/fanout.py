"""A wave of trivial minds, from the first spawn until every end is on the ledger, against hand-written shell of the same calls.

Two floors: `git worktree add` and `tmux new-session` for one mind after another; and the best that was found by hand,
worktrees two wide and all sessions by one `tmux source-file`. A mind writes one file and commits it. Ours is the time between
`attempt.started` and the last `branch.ended`: brief, report folder, supervisor, deadline and ledger included, and the checks
of those that ended already run beside it.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from datetime import datetime
from itertools import count
from pathlib import Path
from time import perf_counter

from _timing import Row, arguments, finish
from one_mind import Lab

MIND = "echo yes > done.txt && git add -A && git commit -q -m done"
SERIAL, BEST = 1.0, 1.4
SERVER = ("tmux", "-L", "bare", "-f", "/dev/null")


def bare(lab: Lab, minds: int, *, best: bool) -> float:
    """Seconds of the hand-written shell until all commits are there."""
    trees = lab.folder / "trees"
    trees.mkdir()
    lab.call(*SERVER, "start-server", ";", "set", "-g", "exit-empty", "off")
    lines = [f"new-session -d -c '{trees}/{n}' \"{MIND}; tmux -L bare wait-for -S over-{n}\"" for n in range(minds)]
    sessions = lab.folder / "sessions.conf"
    begun = perf_counter()
    if best:
        numbers = "\n".join(str(n) for n in range(minds))
        add = f"git worktree add -q -b m-{{}} '{trees}/{{}}' main"
        subprocess.run(
            ["xargs", "-P", "2", "-I", "{}", "sh", "-c", add],
            input=numbers,
            text=True,
            cwd=lab.repo,
            env=lab.env,
            check=True,
        )
        sessions.write_text("\n".join(lines))
        lab.call(*SERVER, "source-file", str(sessions))
    else:
        script = "\n".join(
            f"git worktree add -q -b m-{n} '{trees}/{n}' main\n{' '.join(SERVER)} {line}"
            for n, line in enumerate(lines)
        )
        lab.call("sh", "-e", "-c", script)
    lab.call("sh", "-e", "-c", "\n".join(f"{' '.join(SERVER)} wait-for over-{n}" for n in range(minds)))
    seconds = perf_counter() - begun
    done = lab.call("git", "for-each-ref", "--format=%(contents:subject)", "refs/heads/m-*").split()
    assert done == ["done"] * minds, done
    lab.call(*SERVER, "kill-server")
    return seconds


def ours(lab: Lab, minds: int) -> float:
    """Seconds between `attempt.started` and the last `branch.ended`."""
    mind = lab.folder / "mind.sh"
    mind.write_text(f"#!/bin/sh\ncat > /dev/null\n{MIND}\n")
    mind.chmod(0o755)
    lab.env["ORCHCONVERGE_MAX_MINDS"] = str(minds)
    lab.call("git", "branch", "topic")
    lab.ours(
        *("run", "say yes", "--into", "topic", "--worktree", "--minds", str(minds), "--lock", "person"),
        *("--engine", "command", "--argv", str(mind), "--criterion", "done=test -f done.txt", "--foreground"),
        allowed=(0, 5),
    )
    lines = (lab.repo / ".git" / "orchconverge" / "ledger.jsonl").read_bytes().splitlines()
    facts = [json.loads(line) for line in lines]
    begun = next(fact["at"] for fact in facts if fact["type"] == "attempt.started")
    ends = [fact["at"] for fact in facts if fact["type"] == "branch.ended"]
    candidates = [fact for fact in facts if fact["type"] == "branch.candidate"]
    assert len(ends) == len(candidates) == minds, (len(ends), len(candidates))
    return (datetime.fromisoformat(ends[-1]) - datetime.fromisoformat(begun)).total_seconds()


def main() -> None:
    parser = arguments(__doc__ or "", rounds=3)
    parser.add_argument("--minds", type=int, nargs="+", default=[20, 100], help="how many (20 100)")
    options = parser.parse_args()
    base = "/dev/shm" if Path("/dev/shm").is_dir() else None
    folder = Path(tempfile.mkdtemp(prefix="oc-", dir=base))
    numbers = count()
    rows = []
    try:
        for minds in options.minds:
            for name, best, goal in (("shell, one after another", False, SERIAL), ("the best shell found", True, BEST)):

                def floor(minds: int = minds, best: bool = best) -> float:
                    return _in(folder, next(numbers), lambda lab: bare(lab, minds, best=best))

                def measured(minds: int = minds) -> float:
                    return _in(folder, next(numbers), lambda lab: ours(lab, minds))

                row = Row(f"fan-out of {minds} minds", name, goal).run(floor, measured, options.rounds)
                rows.append(row)
    finally:
        shutil.rmtree(folder)
    finish(rows, options)


def _in(folder: Path, number: int, what: Callable[[Lab], float]) -> float:
    lab = Lab(folder / str(number))
    try:
        return what(lab)
    finally:
        shutil.rmtree(lab.folder)


if __name__ == "__main__":
    main()
