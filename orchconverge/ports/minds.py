"""Supervised processes, the panes they are watched in, the engines that run there, and the gate that their calls pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, Protocol

from orchconverge.core.admission import Call
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

    ``folder`` is out of the mind's reach; ``usd`` is what is left of the budget, in dollars. ``hook`` is the argv that asks
    admission before a call, empty if nobody would answer. ``judge`` names the criterion that is answered in place of making
    anything: then ``cwd`` is no tree but a folder for the answer, and what is at ``reads`` is read and not changed.
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
    judge: str = ""
    reads: Path | None = None
    hook: tuple[str, ...] = ()


class Launch(Answer, frozen=True, kw_only=True):
    """How to start an engine: the child's argv, its own variables by name, and whether the brief goes to stdin.

    ``files`` are written into the brief's folder first, name -> text. ``identity``: it keeps git from the user's settings,
    so that it has to be told who commits. ``asks``: how its calls ask admission before they run, if they do.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = {}
    brief_on_stdin: bool = True
    linger_seconds: float | None = None
    files: Mapping[str, str] = {}
    identity: bool = False
    asks: Literal["", "hooks", "acp"] = ""


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


class Question(Answer, frozen=True, kw_only=True):
    """What a mind asks before a tool call. ``calls`` are its parts: a line of a shell may read, write and run.

    ``token`` says which mind it is, ``id`` is the engine's own name of the call. ``late``: who asked is gone.
    """

    token: str
    id: str
    calls: tuple[Call, ...]
    late: bool = False


class Gate(Protocol):
    """Where minds ask before each tool call: one local stream socket of the controller. About convergence, not safety.

    Nothing here blocks, and nothing that comes in raises: what cannot be read is not answered, and who asked goes on.
    """

    def open(self) -> Path:
        """Listen, and say where; the same place for the same basin, so that minds outlive a controller. Raises `Failed`."""

    def handles(self) -> Sequence[int]:
        """File descriptors that can be read when there is something to `serve`; empty if it was never opened."""

    def serve(self, answer: Callable[[Question], str | None]) -> None:
        """Answer all that was asked. ``answer`` gives the refusal's reason, ``""`` to allow, ``None`` not to answer."""

    def close(self) -> None:
        """Stop listening and remove the place. Safe to call twice."""
