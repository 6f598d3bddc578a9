"""The admission socket: where running minds ask before each tool call, as one stream socket in a folder that is ours alone.

One JSON line is asked, ``{"token", "id", "tool", "kind", "target", "args"[, "part"]}``, and one answered, ``{"allow", "reason"}``.
A line with ``observed`` tells how a call ended and has no answer. Who asks is a program that a mind can reach, or the mind
itself, so all of it is bounded and nothing of it is believed.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import stat
import struct
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

import msgspec

from orchconverge.core.admission import Call
from orchconverge.errors import Failed, Refused
from orchconverge.files import DIRECTORY, own_folder
from orchconverge.ports import Question

MOST_CONNECTIONS: Final = 64
MOST_LINE_BYTES: Final = 64 << 10
MOST_PATH_BYTES: Final = 100
"""A little less than what `sun_path` of unix(7) holds."""
SILENT_SECONDS: Final = 2.0
MOST_CALLS: Final = 40
_LONGEST_ID, _LONGEST_REASON = 200, 4000

Acted = Callable[[str], Sequence[tuple[Literal["read", "search", "write", "run"], str]]]
"""What a line of a shell does, in parts: kind and target."""


class _Asked(msgspec.Struct, frozen=True):
    """A line as it has to be. What else is in it is not looked at."""

    token: str
    kind: Literal["read", "search", "write", "run", "shell", "other"]
    target: str
    id: str = ""
    part: str = ""
    args: dict[str, object] = {}


@dataclass
class _Connection:
    socket: socket.socket
    until: float
    held: bytearray = field(default_factory=bytearray)


class SocketGate:
    """`orchconverge.ports.Gate`. ``name`` is of the basin and its state; whoever opens it holds the basin's lease.

    ``acted`` takes lines of a shell apart. Not thread-safe.
    """

    def __init__(self, name: str, acted: Acted, *, environ: Mapping[str, str] | None = None) -> None:
        self._acted = acted
        self._folder = _place(name, os.environ if environ is None else environ)
        self._listener: socket.socket | None = None
        self._open: dict[int, _Connection] = {}

    @property
    def path(self) -> Path:
        """Where it listens, or would."""
        return self._folder / "gate"

    def open(self) -> Path:
        """Listen, in place of a socket that was left there. Raises `Failed`."""
        if self._listener is not None:
            return self.path
        if len(os.fsencode(self.path)) > MOST_PATH_BYTES:
            raise Failed(f"{self.path} is too long for a socket", hint="set XDG_RUNTIME_DIR to a shorter folder")
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            own_folder(self._folder)
            _tighten(self._folder)
            with contextlib.suppress(FileNotFoundError):
                if not stat.S_ISSOCK(self.path.lstat().st_mode):
                    raise Refused(f"{self.path} is no socket")
                self.path.unlink()
            listener.bind(str(self.path))
            self.path.chmod(0o600)
            listener.listen(MOST_CONNECTIONS)
        except (OSError, Refused) as error:
            listener.close()
            why = error.message if isinstance(error, Refused) else f"{self.path}: {error.strerror}"
            raise Failed(f"minds have nowhere to ask: {why}", hint=f"move {self._folder} away") from error
        self._listener = listener
        return self.path

    def handles(self) -> Sequence[int]:
        """The listener, and every connection that has not asked yet."""
        return () if self._listener is None else (self._listener.fileno(), *self._open)

    def serve(self, answer: Callable[[Question], str | None]) -> None:
        """Take what is there, answer what is whole, drop what is too old, too long, of somebody else, or no question."""
        if self._listener is None:
            return
        self._accept(self._listener)
        now = time.monotonic()
        for handle, one in list(self._open.items()):
            line = _line(one)
            if line is None and now < one.until:
                continue
            del self._open[handle]
            with one.socket:
                question = _question(line, self._acted) if line else None
                if question is not None and _gone(one.socket):
                    question = msgspec.structs.replace(question, late=True)
                reason = answer(question) if question is not None else None
                if reason is not None:
                    said = {"allow": not reason, "reason": reason[:_LONGEST_REASON]}
                    with contextlib.suppress(OSError):
                        one.socket.send(msgspec.json.encode(said) + b"\n")

    def close(self) -> None:
        """Stop listening, drop who has not asked yet, and remove socket and folder."""
        if self._listener is None:
            return
        for each in (self._listener, *(one.socket for one in self._open.values())):
            each.close()
        self._listener, self._open = None, {}
        with contextlib.suppress(OSError):
            self.path.unlink()
            self._folder.rmdir()

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(MOST_CONNECTIONS):
            try:
                peer, _ = listener.accept()
            except OSError:  # nobody is left, or there are no descriptors: then it is tried again at the next call
                return
            if _uid(peer) != os.geteuid():
                peer.close()
                continue
            peer.setblocking(False)
            if len(self._open) >= MOST_CONNECTIONS:
                self._open.pop(next(iter(self._open))).socket.close()
            self._open[peer.fileno()] = _Connection(peer, time.monotonic() + SILENT_SECONDS)


def _place(name: str, environ: Mapping[str, str]) -> Path:
    """The gate's folder: in `XDG_RUNTIME_DIR` where there is one, else among the temporary files, with the user in its name."""
    if not re.fullmatch(r"[A-Za-z0-9-]{1,40}", name):
        raise ValueError(f"no name for a gate: {name!r}")
    runtime = Path(environ.get("XDG_RUNTIME_DIR", ""))
    if runtime.is_absolute() and os.access(runtime, os.W_OK | os.X_OK):
        return runtime / f"orchconverge-{name}"
    base = Path(environ.get("TMPDIR") or tempfile.gettempdir()).absolute()
    return base / f"orchconverge-{os.geteuid()}-{name}"


def _tighten(folder: Path) -> None:
    """Take away what others could do in a folder that is ours. Raises `OSError`."""
    handle = os.open(folder, DIRECTORY)
    try:
        os.fchmod(handle, 0o700)
    finally:
        os.close(handle)


def _uid(peer: socket.socket) -> int:
    """Who is at the other end, as the kernel saw it when they connected."""
    _, uid, _ = struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    return int(uid)


def _gone(peer: socket.socket) -> bool:
    """Whether who asked has hung up: a hook that waited long enough lets its call run."""
    try:
        return peer.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def _line(one: _Connection) -> bytes | None:
    """The line that was asked, empty if there will be none, ``None`` as long as it is not whole."""
    try:
        while b"\n" not in one.held:
            more = one.socket.recv(MOST_LINE_BYTES)
            one.held += more
            if not more or len(one.held) > MOST_LINE_BYTES:
                return b""
    except BlockingIOError:
        return None
    except OSError:
        return b""
    return bytes(one.held[: one.held.index(b"\n")])


def _question(line: bytes, acted: Acted) -> Question | None:
    """The question that a line is, with a call for each thing that it is about; ``None`` if it is none."""
    try:
        if "observed" in msgspec.json.decode(line, type=dict[str, msgspec.Raw]):
            return None
        asked = msgspec.json.decode(line, type=_Asked)
    except (ValueError, RecursionError):  # msgspec's own errors are ValueErrors
        return None
    return Question(token=asked.token, id=asked.id[:_LONGEST_ID], calls=tuple(_calls(asked, acted))[:MOST_CALLS])


def _calls(asked: _Asked, acted: Acted) -> Sequence[Call]:
    if asked.kind == "run" or asked.kind == "shell":
        pages = " ".join(re.findall(r"\d+", asked.target))  # of `sed -n 1,40p`: these lines are another look than those
        return [
            Call(kind=kind, target=target, part=pages if kind == "read" else "") for kind, target in acted(asked.target)
        ]
    found = asked.args.get("paths") if asked.kind in ("read", "write") else None
    more = [path for path in found if isinstance(path, str)] if isinstance(found, list) else []
    return [Call(kind=asked.kind, target=target, part=asked.part) for target in dict.fromkeys((asked.target, *more))]
