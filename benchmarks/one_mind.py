"""One trivial mind from start to judged, against the bare git and tmux commands of the same work; and what waiting costs.

The floor is what a shell script would do: add a worktree, run the mind in a new tmux session, run the check, merge with
``--squash``, commit, push. Ours does all of it for a whole run of one attempt, ledger, gate, chain and report included, so
the figure is shown and has no goal of its own; the goals here are the controller's and the supervisor's use of the machine.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
from _timing import Row, arguments, finish

CONTROLLER_MB = 100.0
SUPERVISOR_MB = 15.0
IDLE_CORE = 0.01
IDLE_SECONDS = 10.0
SCRIPT = {"minds": [{"acts": [{"write": {"path": "done.txt", "text": "yes\n"}}, {"commit": "done"}]}]}
HANGS = {"minds": [{"acts": [{"hang": True}]}]}
RUN = ["--engine", "scripted", "--criterion", "done=test -f done.txt", "--interval", "0"]


class Lab:
    """A repository with a bare remote, and a home and a tmux server of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.repo = folder / "repo"
        (folder / "home").mkdir(parents=True)
        (folder / "t").mkdir()
        dropped = ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED", "TMUX", "TMUX_PANE")
        self.env = {
            **{k: v for k, v in os.environ.items() if k not in dropped and not k.startswith("XDG_")},
            "HOME": str(folder / "home"),
            "TMUX_TMPDIR": str(folder / "t"),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_AUTHOR_NAME": "a",
            "GIT_AUTHOR_EMAIL": "a@localhost",
            "GIT_COMMITTER_NAME": "a",
            "GIT_COMMITTER_EMAIL": "a@localhost",
        }
        self.call("git", "init", "-q", "-b", "main", str(self.repo), cwd=folder)
        self.call("git", "commit", "-q", "--allow-empty", "-m", "start")
        self.call("git", "init", "-q", "--bare", str(folder / "remote.git"))
        self.call("git", "remote", "add", "origin", str(folder / "remote.git"))
        self.call("git", "push", "-q", "origin", "main")

    def call(self, *argv: str, cwd: Path | None = None, allowed: tuple[int, ...] = (0,)) -> str:
        """Run a command that has to end with one of the ``allowed`` codes; its output."""
        done = subprocess.run(argv, cwd=cwd or self.repo, env=self.env, capture_output=True, text=True, check=False)
        assert done.returncode in allowed, (argv, done.stdout, done.stderr)
        return done.stdout

    def ours(self, *argv: str, allowed: tuple[int, ...] = (0,)) -> str:
        """Run the real command line."""
        return self.call(sys.executable, "-m", "orchconverge", *argv, allowed=allowed)


def bare(folder: Path, number: int) -> float:
    lab = Lab(folder / f"bare-{number}")
    tree = lab.folder / "tree"
    begun = time.perf_counter()
    lab.call("git", "worktree", "add", "-q", "-b", "mind", str(tree), "main")
    work = f"cd '{tree}' && echo yes > done.txt && git add -A && git commit -q -m done; tmux -L bare wait-for -S over"
    server = ("tmux", "-L", "bare", "-f", "/dev/null")
    lab.call(*server, "start-server", ";", "set", "-g", "exit-empty", "off", ";", "new-session", "-d", work)
    lab.call(*server, "wait-for", "over")
    lab.call("sh", "-c", "test -f done.txt", cwd=tree)
    lab.call("git", "branch", "target", "main")
    lab.call("git", "worktree", "add", "-q", str(lab.folder / "gate"), "target")
    lab.call("git", "merge", "-q", "--squash", "mind", cwd=lab.folder / "gate")
    lab.call("git", "commit", "-q", "-m", "graft", cwd=lab.folder / "gate")
    lab.call("git", "push", "-q", "origin", "target")
    seconds = time.perf_counter() - begun
    lab.call(*server, "kill-server")
    return seconds


def whole(folder: Path, number: int) -> float:
    lab = Lab(folder / f"ours-{number}")
    script = lab.folder / "script.json"
    script.write_text(json.dumps(SCRIPT))
    begun = time.perf_counter()
    lab.ours("say yes", *RUN, "--script", str(script), "--foreground")
    return time.perf_counter() - begun


def waiting(folder: Path) -> dict[str, float]:
    """Use of the machine while a mind runs and nothing happens: after the start, over `IDLE_SECONDS`."""
    lab = Lab(folder / "waiting")
    script = lab.folder / "script.json"
    script.write_text(json.dumps(HANGS))
    lab.ours("wait for ever", *RUN, "--script", str(script))
    state = lab.repo / ".git" / "orchconverge" / "ledger.jsonl"
    until = time.monotonic() + 30
    while b'"branch.searching"' not in state.read_bytes():
        assert time.monotonic() < until, "the mind did not start"
        time.sleep(0.1)
    facts = [json.loads(line) for line in state.read_bytes().splitlines()]
    started = next(f for f in facts if f["type"] == "run.started")
    searching = next(f for f in facts if f["type"] == "branch.searching")
    controller = psutil.Process(started["controller"]["pid"])
    supervisor = psutil.Process(searching["process"]["pid"])
    before, begun = sum(controller.cpu_times()[:2]), time.monotonic()
    time.sleep(IDLE_SECONDS)
    used = (sum(controller.cpu_times()[:2]) - before) / (time.monotonic() - begun)
    figures = {
        "controller_mb": controller.memory_info().rss / 2**20,
        "supervisor_mb": supervisor.memory_info().rss / 2**20,
        "controller_core": used,
    }
    lab.ours("--stop", "--cleanup")
    return figures


def main() -> None:
    options = arguments(__doc__ or "", rounds=7).parse_args()
    base = "/dev/shm" if Path("/dev/shm").is_dir() else None
    folder = Path(tempfile.mkdtemp(prefix="oc-", dir=base))
    numbers = iter(range(1000))
    try:
        row = Row("a run of one trivial attempt", "the bare commands", None).run(
            lambda: bare(folder, next(numbers)), lambda: whole(folder, next(numbers)), options.rounds
        )
        figures = waiting(folder)
    finally:
        shutil.rmtree(folder)
    row.notes.update({name: round(value, 4) for name, value in figures.items()})
    memory = Row("controller while waiting, MB", "1 MB", CONTROLLER_MB, [1.0], [figures["controller_mb"]])
    core = Row("controller while waiting, of a core", "one core", IDLE_CORE, [1.0], [figures["controller_core"]])
    supervisor = Row("supervisor, MB", "1 MB", SUPERVISOR_MB, [1.0], [figures["supervisor_mb"]])
    finish([row, memory, core, supervisor], options)


if __name__ == "__main__":
    main()
