"""A repository with a remote, a HOME and a tmux server of its own, in which the real command line is run and watched."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from orchconverge.core.events import AnyFact, RunStarted
from orchconverge.core.reducer import State
from orchconverge.core.replay import Replay

T = TypeVar("T")
F = TypeVar("F")
COMMAND = (sys.executable, "-P", "-m", "orchconverge")
"""As the installed script: the directory it is called in is no place for modules."""
ROOMY = 2 << 30
POLL = 0.01
SETTLED = 5.0
"""Seconds within which all that ended is gone: tmux leaves a moment after its last session."""


class Lab:
    """``repo`` on branch main with one commit, pushed to the bare ``remote``. Below ``root``, whose path is short."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.repo, self.remote = root / "repo", root / "remote.git"
        self.home, self.tmp, self.tmux = root / "home", root / "tmp", root / "t"
        for folder in (self.home, self.tmp, self.tmux):
            folder.mkdir(mode=0o700)
        self.env: dict[str, str] = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "XDG_CONFIG_HOME": str(self.home / "config"),
            "XDG_DATA_HOME": str(self.home / "data"),
            "XDG_STATE_HOME": str(self.home / "state"),
            "TMUX_TMPDIR": str(self.tmux),
            "TMPDIR": str(self.tmp),
            "LANG": "C.UTF-8",
            "TERM": "xterm",
            "GIT_CONFIG_NOSYSTEM": "1",
            "ORCHCONVERGE_BACKOFF_BASE_SECONDS": "0",
        }
        self.keeps_worktrees = False
        """Set by a test that leaves a run stopped, to be resumed one day: its worktrees are meant to stay."""
        (self.home / ".gitconfig").write_text("[user]\n\tname = A Person\n\temail = person@example.org\n")
        git = self.git
        git("init", "-q", "--bare", "-b", "main", str(self.remote), cwd=root)
        git("init", "-q", "-b", "main", str(self.repo), cwd=root)
        (self.repo / "README.md").write_text("# sample\n")
        git("add", "-A")
        git("commit", "-q", "-m", "init")
        git("remote", "add", "origin", str(self.remote))
        git("push", "-q", "-u", "origin", "main")
        git("remote", "set-head", "origin", "main")

    # --- doing -------------------------------------------------------------------------------------------------------

    def run(
        self,
        *args: str | Path,
        input: bytes | None = None,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        seconds: float = 60.0,
        code: int | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run the real command line in the repository; with ``code`` it has to end with that one."""
        ran = subprocess.run(
            [*COMMAND, *map(str, args)],
            input=b"" if input is None else input,
            capture_output=True,
            cwd=cwd or self.repo,
            env={**self.env, **(env or {})},
            timeout=seconds,
        )
        said = subprocess.CompletedProcess(ran.args, ran.returncode, ran.stdout.decode(), ran.stderr.decode())
        assert "Traceback" not in said.stderr, said.stderr
        assert code is None or said.returncode == code, f"{said}\n{self.told()}"
        return said

    def play(
        self, goal: str, script: Path, *args: str | Path, code: int = 0, **how: Any
    ) -> subprocess.CompletedProcess[str]:
        """Start a goal with the scripted engine and no interval."""
        engine = ("--engine", "scripted", "--script", str(script), "--interval", "0")
        return self.run(goal, *engine, *args, code=code, **how)

    def wait(self, *args: str, code: int = 0, seconds: float = 60.0) -> subprocess.CompletedProcess[str]:
        """Await the end of the run, which has to come with this exit code."""
        return self.run("wait", *args, "--timeout", str(seconds), seconds=seconds + 30, code=code)

    def git(self, *words: str, cwd: Path | None = None) -> str:
        """Run git in the repository as a person would. Its output without the last newline."""
        command = ["git", *words]
        ran = subprocess.run(command, cwd=cwd or self.repo, env=self.env, capture_output=True, check=False)
        assert ran.returncode == 0, f"{command}: {ran.stderr.decode()}"
        return ran.stdout.decode("utf-8", "surrogateescape").removesuffix("\n")

    def script(self, *minds: Mapping[str, Any], name: str = "script.json") -> Path:
        """A file for the scripted engine, outside the repository."""
        path = self.root / name
        path.write_text(json.dumps({"minds": minds}))
        return path

    def program(self, text: str, name: str = "mind.py") -> str:
        """A program for the command engine, outside the repository: the words for ``--argv``."""
        path = self.root / name
        path.write_text(text)
        return f"{sys.executable} {path}"

    # --- looking -----------------------------------------------------------------------------------------------------

    @property
    def state_dir(self) -> Path:
        return self.repo / ".git" / "orchconverge"

    @property
    def ledger(self) -> Path:
        return self.state_dir / "ledger.jsonl"

    def lines(self) -> bytes:
        """The whole lines of the ledger."""
        data = self.ledger.read_bytes() if self.ledger.exists() else b""
        return data[: data.rfind(b"\n") + 1]

    def replayed(self) -> tuple[list[AnyFact], State]:
        """What the core makes of the ledger; every line has to be whole, legal and in order."""
        odd: list[str] = []
        kept: list[AnyFact] = []
        replay = Replay(lambda line, why: odd.append(f"{line}: {why}"))
        replay.feed(self.lines(), kept)
        assert not odd, odd
        return kept, replay.fold.state

    def facts(self, kind: type[F]) -> list[F]:
        """The facts of a kind."""
        return [fact for fact in self.replayed()[0] if isinstance(fact, kind)]

    def kinds(self) -> tuple[str, ...]:
        """The kinds of all facts, in order."""
        return tuple(str(fact.__struct_config__.tag) for fact in self.replayed()[0])

    def state(self) -> State:
        return self.replayed()[1]

    def until(self, true: Callable[[], T], *, seconds: float = 30.0) -> T:
        """Poll until it is true; what it was then."""
        ends = time.monotonic() + seconds
        while not (found := true()):
            assert time.monotonic() < ends, f"not within {seconds} s\n{self.told()}"
            time.sleep(POLL)
        return found

    def fact(self, kind: type[F], number: int = 1, *, seconds: float = 30.0) -> F:
        """Await the ``number``-th fact of a kind."""
        size = -1

        def there() -> list[F]:
            nonlocal size
            now = self.ledger.stat().st_size if self.ledger.exists() else 0
            if now == size:
                return []
            size = now
            return self.facts(kind)[number - 1 :]

        return self.until(there, seconds=seconds)[0]

    def controller(self) -> int:
        """The pid of the newest run's controller."""
        return self.facts(RunStarted)[-1].controller.pid

    @property
    def minds(self) -> Path:
        """Where the folders of minds, checks and steps lie."""
        [folder] = (self.home / "state" / "orchconverge").iterdir()
        return folder

    def record(self, name: str, file: str = "running.json") -> dict[str, Any] | None:
        """A supervisor's record, e.g. of ``minds/goal.1``."""
        try:
            found: dict[str, Any] = json.loads((self.minds / name / file).read_bytes())
        except (OSError, ValueError):
            return None
        return found

    def starts(self) -> dict[str, int]:
        """How often each mind was started: its folder, and those of starts whose supervisor was lost."""
        folder = self.minds / "minds"
        ran = [path.name for path in folder.iterdir() if (path / "running.json").exists()]
        names = [name.partition(".lost.")[0] for name in ran]
        return {name: names.count(name) for name in names}

    @property
    def socket(self) -> Path:
        """Where our tmux server listens."""
        return self.tmux / f"tmux-{os.getuid()}" / "orchconverge"

    def server(self) -> int | None:
        """The pid of our tmux server, asked of the kernel."""
        with socket.socket(socket.AF_UNIX) as end:
            try:
                end.connect(str(self.socket))
            except OSError:
                return None
            pid: int = struct.unpack("3i", end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
            return pid

    def sessions(self) -> list[str]:
        """The names of our tmux sessions."""
        command = ["tmux", "-S", str(self.socket), "list-sessions", "-F", "#{session_name}"]
        ran = subprocess.run(command, env=self.env, capture_output=True, text=True)
        return ran.stdout.split()

    def subjects(self, branch: str, *, since: str = "main") -> list[str]:
        """The subjects of the commits that the remote has on ``branch``, oldest first."""
        log = self.git("log", "--reverse", "--format=%s", f"{since}..{branch}", cwd=self.remote)
        return log.split("\n") if log else []

    def reports(self, branch: str) -> list[str]:
        """The convergence reports that the remote has on ``branch``."""
        listed = self.git("ls-tree", "-r", "--name-only", branch, "--", "docs/convergence-reports", cwd=self.remote)
        return listed.split("\n") if listed else []

    def worktrees(self) -> list[str]:
        """The working trees that git knows besides the checkout, and what else lies where ours are made."""
        listed = self.git("worktree", "list", "--porcelain").split("\n")
        known = [line.removeprefix("worktree ") for line in listed if line.startswith("worktree ")]
        left = (self.home / "data").glob("orchconverge/*/trees/*")
        return sorted({*known[1:], *map(str, left)})

    def told(self) -> str:
        """Where things stand, for a failure's message."""
        journal = self.state_dir / "logs" / "system.log"
        said = journal.read_text()[-4000:] if journal.exists() else ""
        return f"{said}\n... {' '.join(self.kinds()[-12:])}\nprocesses: {self.processes()}"

    def processes(self) -> dict[int, str]:
        """Every living process that was started with our HOME: pid -> command line."""
        mark, found = f"HOME={self.home}".encode(), {}
        for entry in os.scandir("/proc"):
            if not entry.name.isdigit():
                continue
            try:
                if mark in Path(entry.path, "environ").read_bytes().split(b"\0"):
                    said = Path(entry.path, "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
                    found[int(entry.name)] = said[:160]
            except OSError:
                continue
        return found

    # --- ending ------------------------------------------------------------------------------------------------------

    def close(self) -> list[str]:
        """End all that is left of this lab, remove it, and say what was left."""
        ends = time.monotonic() + SETTLED
        while (left := self.processes()) and time.monotonic() < ends:
            time.sleep(POLL)
        said = [f"process {pid}: {words}" for pid, words in left.items()]
        while left:
            for pid in left:
                kill(pid)
            left = self.processes()
        if not self.keeps_worktrees:
            said += [f"worktree {path}" for path in self.worktrees()]
        said += [f"internal error: {path.read_text()}" for path in self.tmp.glob("orchconverge-*.log")]
        shutil.rmtree(self.root)
        return said


def new(prefix: str = "oc") -> Lab:
    """A lab where paths are short and, if there is room, in memory."""
    shm = Path("/dev/shm")
    roomy = shm.is_dir() and os.access(shm, os.W_OK) and shutil.disk_usage(shm).free > ROOMY
    return Lab(Path(tempfile.mkdtemp(prefix=prefix, dir=shm if roomy else "/tmp")).resolve())


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    """Signal one process, by a handle, and after SIGKILL wait until it is gone."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        signal.pidfd_send_signal(handle, number)
        if number == signal.SIGKILL:
            select.select([handle], [], [], 10)
    except ProcessLookupError:
        return
    finally:
        os.close(handle)


def mind(*acts: Mapping[str, Any], **match: Any) -> dict[str, Any]:
    """A mind of a script; without a match it fits always."""
    return {"match": match, "acts": list(acts)}


def meets(criterion: str, *, text: str = "yes\n") -> Iterable[dict[str, Any]]:
    """The acts of a commit that meets `criterion`, as `met` has it."""
    message = f"{criterion}\n\nCriterion: {criterion}"
    return ({"write": {"path": f"{criterion}.txt", "text": text}}, {"commit": message})


def met(*criteria: str) -> list[str]:
    """The arguments for criteria that each ask for a file of their name."""
    return [word for name in criteria for word in ("--criterion", f"{name}=grep -q yes {name}.txt")]
