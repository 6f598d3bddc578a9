"""Supervised processes, the panes they are watched in, and the engines that run there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from orchconverge.core.seen import Answer, Outcome, Probe
from orchconverge.core.values import Settings


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


class Brief(Answer, frozen=True, kw_only=True):
    """What an engine needs to start one mind. ``text`` is the whole brief; ``context`` an engine session to continue.

    ``folder`` is out of the mind's reach; ``usd`` is what is left of the budget, in dollars.
    """

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
    usd: float | None = None


class Launch(Answer, frozen=True, kw_only=True):
    """How to start an engine: the child's argv, its own variables by name, and whether the brief goes to stdin.

    ``files`` are written into the brief's folder first, name -> text. ``identity``: it keeps git from the user's settings,
    so that it has to be told who commits.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = {}
    brief_on_stdin: bool = True
    linger_seconds: float | None = None
    files: Mapping[str, str] = {}
    identity: bool = False


class Engine(Protocol):
    """A program that can be a mind. ``commits``: it can commit where it works; else its tree is committed for it."""

    name: str
    variables: tuple[str, ...]
    contextual: bool
    commits: bool

    def find(self) -> str | None:
        """The program's absolute path, or ``None`` if it is not installed."""

    def launch(self, brief: Brief, settings: Settings) -> Launch:
        """How one mind is started."""

    def read(self, log: bytes) -> Outcome:
        """What the output says; tolerant: any bytes give an outcome."""
