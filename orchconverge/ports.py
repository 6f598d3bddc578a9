"""What the application asks of the outside, in our words. Each port has one real adapter and one fake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from orchconverge.core.events import AnyFact
from orchconverge.core.seen import (
    Absent,
    Answer,
    Checkout,
    Commit,
    Ended,
    Exit,
    Health,
    Lost,
    Machine,
    MindReport,
    Outcome,
    Probe,
    Running,
    Squash,
    Starting,
    Unknown,
    Work,
)
from orchconverge.core.state import State
from orchconverge.core.target import Sha
from orchconverge.core.values import Process, Settings, Writer

__all__ = [
    "Absent",
    "Answer",
    "Brief",
    "Checkout",
    "Clock",
    "Commit",
    "Ended",
    "Engine",
    "Exit",
    "Exports",
    "Git",
    "Health",
    "Host",
    "Journal",
    "Launch",
    "Lease",
    "Leases",
    "Ledger",
    "Lost",
    "Machine",
    "MindReport",
    "Outcome",
    "Pane",
    "Panes",
    "Probe",
    "Running",
    "SessionExists",
    "Shelf",
    "Spec",
    "Squash",
    "Starting",
    "Supervisors",
    "Unknown",
    "Wakeups",
    "Work",
]


class Spec(Answer, frozen=True, kw_only=True):
    """What a supervisor is told. Times in seconds, sizes in bytes; ``branch`` is checked against the worktree's HEAD."""

    name: str
    cwd: Path
    argv: tuple[str, ...]
    env: Mapping[str, str]
    stdin: Path | None = None
    branch: str | None = None
    deadline_seconds: float | None = None
    grace_seconds: float = 5.0
    idle_seconds: float | None = None
    linger_seconds: float | None = None
    head_bytes: int = 50 << 20
    tail_bytes: int = 8 << 20


class Supervisors(Protocol):
    """Starts and watches supervised processes, each named once and for ever."""

    def folder(self, name: str) -> Path:
        """The folder of everything that belongs to ``name``; created 0700 if it is missing."""

    def subfolder(self, name: str, part: str) -> Path:
        """A folder (0700) in that of ``name`` for what runs to write into; our records stay outside of it."""

    def found(self, prefix: str) -> Sequence[str]:
        """The names that begin with ``prefix`` and were prepared once, in order."""

    def prepare(self, spec: Spec) -> tuple[str, ...]:
        """Write the spec (0600) and return the argv that starts the supervisor on it."""

    def launch(self, argv: Sequence[str]) -> None:
        """Start a supervisor with no terminal, in a session of its own."""

    def probe(self, name: str) -> Probe:
        """What can be known now; a question that fails is `Unknown`."""

    def stop(self, name: str) -> bool:
        """Ask the supervisor to end its tree: TERM, grace, KILL; withdraw a spec that nobody began. A missing one is no error.

        True if there is no more to ask for.
        """

    def kill(self, name: str) -> bool:
        """End supervisor and tree at once, and whatever carries the cookie of ``name``."""

    def log(self, name: str, *, most_bytes: int) -> bytes:
        """The raw output: the head and the newest tail, at most ``most_bytes``."""

    def put(self, name: str, file: str, data: bytes) -> Path:
        """Write a small file (0600) into the folder of ``name``, whole or not at all."""

    def get(self, name: str, file: str, *, most_bytes: int = 1 << 20) -> bytes | None:
        """The first ``most_bytes`` of a file in the folder of ``name`` or in a `subfolder`, as ``part/file``.

        ``None`` if it is missing, no regular file, or behind a link.
        """


class Pane(Answer, frozen=True, kw_only=True):
    """A pane by the ids tmux gave it, e.g. ``$3`` and ``%7``, and the session's name as it is shown."""

    session: str
    pane: str
    name: str


class SessionExists(Exception):
    """A session of that name is already on the server; it is never reused."""


class Panes(Protocol):
    """Where minds and controllers can be watched: our own tmux server."""

    @property
    def socket_path(self) -> Path:
        """Where the server listens, absolute."""

    def ready(self) -> None:
        """Raise `orchconverge.errors.Refused` if no session could ever be opened here. Starts nothing."""

    def open(self, name: str, argv: Sequence[str]) -> Pane:
        """Run ``argv`` in a new detached session. Raises `SessionExists` and `orchconverge.errors.Failed`."""

    def alive(self, name: str) -> bool | None:
        """Whether a session of exactly this name exists; ``None`` if it cannot be told."""

    def close(self, name: str) -> None:
        """End the session of exactly this name. A missing session or server is not an error."""

    def attach_command(self, name: str) -> str:
        """The line that attaches, right in any shell."""


class Git(Protocol):
    """One repository. Full ids only; every call has a deadline; hooks, fsmonitor and prompts are off."""

    root: Path
    common_dir: Path

    def identity(self) -> bool:
        """Whether git knows who commits here. Else the commits of minds and persons fail; our own have a name of ours."""

    def resolve(self, ref: str) -> Sha | None:
        """The commit that a ref or id names, or ``None``."""

    def tree_of(self, commit: Sha) -> Sha:
        """The tree of a commit."""

    def checkout(self, path: Path) -> Checkout:
        """How the working tree at ``path`` stands (no lock is taken, nothing is refreshed)."""

    def checked_out_at(self, branch: str) -> Path | None:
        """The working tree that has ``branch`` checked out, if any."""

    def default_branch(self, remote: str) -> str | None:
        """``origin/HEAD``, else asked of the remote once, else main or master if they exist."""

    def remotes(self) -> Mapping[str, str]:
        """Remote name -> push URL."""

    def work(self, base: Sha, head: Sha) -> Work:
        """What ``head`` adds to ``base``."""

    def unmarked(self, branch: str, marker: str, *, since: Sha) -> frozenset[Sha]:
        """What was put onto ``branch`` after it stood at ``since``, by the reflog, under another action than ``marker``."""

    def create_branch(self, branch: str, at: Sha) -> None:
        """Create ``branch`` without touching any checkout; already there at ``at`` is not an error. Raises `Refused`."""

    def add_worktree(self, path: Path, *, branch: str | None, at: Sha) -> None:
        """Add a linked worktree of ours on a new ``branch`` (``None``: detached). Idempotent by path and branch."""

    def include(self, path: Path) -> tuple[str, ...]:
        """Copy the untracked files that `.worktreeinclude` names into a tree of ours; returns their paths."""

    def made(self, path: Path) -> str:
        """What tells a worktree of ours from one that was removed and added again at the same place. Raises `Failed`."""

    def nested(self, path: Path) -> Sequence[str]:
        """Repositories inside the working tree at ``path`` that hold what is nowhere else: no keep-ref reaches into them."""

    def remove_worktree(self, path: Path) -> None:
        """Remove a linked worktree of ours, by inode and real path; never anything else; a missing one is not an error."""

    def keep(self, name: str, commit: Sha) -> None:
        """Point ``refs/orchconverge/keep/<name>`` at a commit, so that it is never pruned."""

    def snapshot(self, path: Path, name: str) -> Sha | None:
        """Commit what is uncommitted at ``path`` onto the keep-ref ``name``; index and tree stay as they are."""

    def squash(self, path: Path, *, tip: Sha, head: Sha) -> Squash:
        """In a throwaway worktree at ``path`` on ``tip``: `git merge --squash head`; on success it holds that tree."""

    def commit_tree(self, tree: Sha, *, parent: Sha, message: str) -> Sha:
        """A commit object of exactly ``tree``; no ref moves."""

    def advance(self, branch: str, *, new: Sha, old: Sha) -> bool:
        """Move ``branch`` from ``old`` to ``new``, and a clean checkout of it along. False if it was moved meanwhile."""

    def commit_file(self, branch: str, path: str, text: str, message: str) -> Sha:
        """Commit one file alone on ``branch``, by plumbing, or in the checkout that has it; nothing else goes in."""

    def push(self, remote: str, sha: Sha, branch: str) -> tuple[bool, str]:
        """Push ``sha`` to ``refs/heads/<branch>`` of a remote, never forced. Whether it went, and git's last word if not."""

    def bundle(self, path: Path, base: Sha, branch: str) -> None:
        """Write a bundle of what ``branch`` adds to ``base``."""

    def find_graft(self, branch: str, head: Sha) -> Sha | None:
        """The commit on ``branch`` whose trailer ``Orchconverge-Head`` is ``head``: the graft of exactly that work."""

    def merges(self, base: Sha, head: Sha) -> bool | None:
        """Whether the two merge without conflict; ``None`` if it cannot be told."""

    def fingerprint(self) -> str:
        """A digest of shared config, hooks and attributes: what a mind could change to make our git run its code."""


class Brief(Answer, frozen=True, kw_only=True):
    """What an engine needs to start one mind. ``text`` is the whole brief; ``context`` an engine session to continue."""

    text: str
    text_path: Path
    report_path: Path
    folder: Path
    cwd: Path
    branch: str
    attempt: int
    approach: str
    model: str = ""
    context: str | None = None
    resume: bool = False


class Launch(Answer, frozen=True, kw_only=True):
    """How to start an engine: the child's argv, its own variables by name, and whether the brief goes to stdin."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = {}
    brief_on_stdin: bool = True
    linger_seconds: float | None = None


class Engine(Protocol):
    """A program that can be a mind."""

    name: str
    variables: tuple[str, ...]
    contextual: bool

    def find(self) -> str | None:
        """The program's absolute path, or ``None`` if it is not installed."""

    def launch(self, brief: Brief, settings: Settings) -> Launch:
        """How one mind is started."""

    def read(self, log: bytes) -> Outcome:
        """What the output says; tolerant: any bytes give an outcome."""


class Ledger(Protocol):
    """The only truth."""

    @property
    def state(self) -> State:
        """What the lines read so far add up to."""

    @property
    def health(self) -> Health:
        """What the reader met so far."""

    def catch_up(self) -> tuple[AnyFact, ...]:
        """Read and fold what was appended since, by anybody; returns those facts."""

    def append(self, fact: AnyFact, *, writer: Writer, active: float | None = None) -> AnyFact:
        """Write one fact, durably. Raises `Illegal` and `NotDurable`; then nothing was acknowledged."""

    def backup(self) -> Path | None:
        """Copy the ledger beside itself, at a run's end; the last three are kept. ``None`` if it could not be copied."""


class Lease(Protocol):
    """A lock that lives as long as its holder."""

    def release(self) -> None:
        """Give it back."""


class Leases(Protocol):
    """Who drives which basin, and who may add a worktree or move a target."""

    def take(self, name: str, *, wait_seconds: float = 0.0) -> Lease | None:
        """Take the lock ``name``; ``None`` if somebody holds it until ``wait_seconds`` are over."""

    def held(self, name: str) -> bool | None:
        """Whether somebody holds it; ``None`` if it cannot be told."""


class Shelf(Protocol):
    """Where outputs of checks are kept for people, by digest. Never read back as truth."""

    def keep(self, output: bytes) -> tuple[str, str]:
        """Store an output; returns its digest (sha256, hex) and the file's name. A full disk stores nothing, and it is fine."""


class Exports(Protocol):
    """The JSON export in the seed's shape, for whoever reads that."""

    def write(self, seq: int, document: Mapping[str, Any], basin: str, *, newest: bool = True) -> bool:
        """Write the export if it is newer than the one there. False if it could not be: it may lag, never lie."""


class Journal(Protocol):
    """The controller's own words, for people: the pane it runs in and `logs/system.log`."""

    def say(self, text: str) -> None:
        """One line."""

    def measure(self, figures: Mapping[str, Any]) -> None:
        """One line of `logs/performance.log`: timings and use of resources, JSON."""


class Clock(Protocol):
    """Time. Budgets are kept on monotonic time, wall time is shown."""

    def monotonic(self) -> float:
        """Seconds, never going back, standing still while the machine is suspended."""

    def now(self) -> datetime:
        """UTC."""


class Wakeups(Protocol):
    """What ends the controller's wait. Nothing is decided here."""

    def wait(self, running: Sequence[str], *, until: float | None) -> None:
        """Return when a supervised process of these names ends, the ledger grows, a signal comes, or at ``until`` (monotonic)."""

    def stopping(self) -> int:
        """How often this process was asked to stop by a signal."""


class Host(Protocol):
    """The machine under us."""

    def look(self) -> Machine:
        """Free memory, and free disk where our worktrees and state lie."""

    def identity(self) -> tuple[str, Process]:
        """The host's name and this process."""

    def signal(self, process: Process, number: int) -> bool:
        """Send a signal to exactly this process, whoever has its pid now; false if it does not live. Never raises."""

    def random(self) -> str:
        """A fresh id, 32 hex digits."""

    def environment(self) -> Mapping[str, str]:
        """The environment of this process."""
