"""Our own tmux server: the only module that starts tmux.

Only `Server.cmd` of libtmux is used, and it is our runner: libtmux has no deadlines, omits ``-u``, and its listings and
object look-ups bypass ``cmd``. What reaches tmux is our own words and slugs; no text of a person, a repository or a
mind, since names, directories and messages are formats there, and ``#(…)`` in a format is run.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import libtmux
from libtmux.common import tmux_cmd

from orchconverge.adapters.tmux_socket import attach_line
from orchconverge.errors import Failed, Refused
from orchconverge.ports import Pane, SessionExists

CONFIG: Final = Path(__file__).with_name("tmux.conf")
SOCKET: Final = "orchconverge"
COLUMNS, ROWS = 200, 50
LONGEST_SOCKET_BYTES: Final = 100
"""A Unix socket's path holds 107 bytes on Linux and 103 on macOS, and tmux puts ``.lock`` behind it."""
LONGEST_PART: Final = 48
PAUSES: Final = (0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32)
"""Seconds before each further try of what met a server on its way out."""

# What tmux and the shell-less start of a pane need, and nothing else. The server keeps the environment of whoever
# started it for as long as it lives and gives it to every later pane: yesterday's, or another run's. What a mind gets
# is in its own spec.
PASSED: Final = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "TERMINFO", "LANG", "LC_ALL", "LC_CTYPE", "TZ"),
    "LD_LIBRARY_PATH",  # an interpreter that was not installed by the system may need it to start at all
)

_NAME = re.compile(r"[A-Za-z0-9_-]+")
_ODD = re.compile(r"[^A-Za-z0-9_-]+")
_OPENED = re.compile(r"(\$[0-9]+) (%[0-9]+)")
_LISTED = re.compile(r"(\$[0-9]+) (.+)")
_NO_SERVER = re.compile(r"no server running|error connecting to .* \((?:No such file|Connection refused|File name too)")
_RACE = re.compile(r"server exited|lost server|no server running|error connecting to .* \(Connection re(?:fused|set)")
_DUPLICATE = re.compile(r"duplicate session")
_MISSING = re.compile(r"can't find (?:session|pane|window)|no current target")
_VERSIONS = re.compile(r"protocol version mismatch")


class _Race(Failed):
    """The server went away while it was asked."""


class _NoServer(_Race):
    """There is no server."""


class _Missing(Failed):
    """There is no session of that id."""


class _Duplicate(Failed):
    """There is a session of that name."""


def session_name(kind: str, *parts: object) -> str:
    """A name that tmux keeps as it is: ``kind`` and the parts, each slugged to ``[A-Za-z0-9_-]`` and clipped, with ``-``.

    Two different parts can give one slug, so the caller puts a random part last when the name is taken.
    """
    slugs = [_ODD.sub("-", str(part)).strip("-")[:LONGEST_PART] for part in (kind, *parts)]
    return "-".join(slug for slug in slugs if slug)


class Ran(tmux_cmd):
    """What one call of tmux printed: ``stdout`` and ``stderr`` by line. Made by running it."""

    def __init__(self, argv: Sequence[str], *, env: Mapping[str, str], deadline_seconds: float) -> None:
        self.cmd = list(argv)
        self.process = subprocess.Popen(
            self.cmd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="backslashreplace",
            env=dict(env),
            cwd="/",  # a server or a pane must not keep a worktree busy; who needs a directory changes to it
            start_new_session=True,  # a Ctrl-C meant for us is not one for tmux
        )
        try:
            stdout, stderr = self.process.communicate(timeout=deadline_seconds)
        except BaseException:
            self.process.kill()
            self.process.wait()
            # Not read to their ends: tmux passes them to its server, and a stopped one holds them open for ever.
            for pipe in filter(None, (self.process.stdout, self.process.stderr)):
                pipe.close()
            raise
        self.returncode = self.process.returncode
        self.stdout = stdout.removesuffix("\n").split("\n") if stdout else []
        self.stderr = [line for line in stderr.split("\n") if line.strip()]


class Server(libtmux.Server):
    """libtmux's server with our runner. Of its methods only `cmd` is used."""

    def __init__(self, address: tuple[str, str], *, env: Mapping[str, str], deadline_seconds: float) -> None:
        flag, value = address
        super().__init__(
            socket_name=value if flag == "-L" else None,
            socket_path=value if flag == "-S" else None,
            config_file=str(CONFIG),
        )
        self.address = address
        self.env = env
        self.deadline_seconds = deadline_seconds

    def cmd(self, cmd: str, *args: Any, **options: Any) -> Ran:  # type: ignore[override]  # noqa: ANN401
        """Run one tmux command, at ``target=``. Raises `Refused` (no tmux) and `Failed` (a time-out, an error)."""
        aimed = ("-t", str(options["target"])) if options.get("target") is not None else ()
        return self.run(*self.address, "-f", str(CONFIG), cmd, *aimed, *map(str, args))

    def program(self) -> str:
        """Where tmux is. Raises `Refused`."""
        found = shutil.which("tmux", path=self.env.get("PATH"))
        if found is None:
            raise Refused("tmux is not installed", hint="type `apt-get install tmux`, or your system's equivalent")
        return found

    def run(self, *args: str) -> Ran:
        """Run tmux with these arguments, within the deadline."""
        try:
            ran = Ran((self.program(), "-u", *args), env=self.env, deadline_seconds=self.deadline_seconds)
        except subprocess.TimeoutExpired:
            raise Failed(
                f"tmux did not answer within {self.deadline_seconds:g} s",
                hint=f"is its server stopped or the machine overloaded? It listens at {self.address[1]}",
            ) from None
        except (OSError, ValueError) as error:
            raise Failed(f"tmux could not be started: {error}") from error
        if ran.returncode != 0:
            raise _failure("; ".join(ran.stderr or ran.stdout) or f"exit code {ran.returncode}")
        return ran


def _failure(said: str) -> Failed:
    """The error for what tmux said, by kind."""
    if _DUPLICATE.search(said):
        return _Duplicate(f"tmux: {said}")
    if _MISSING.search(said):
        return _Missing(f"tmux: {said}")
    if _VERSIONS.search(said):
        return Failed(
            f"tmux: {said}",
            hint="tmux was upgraded while its server runs; what runs there goes on, and a new server starts after it",
        )
    if _NO_SERVER.search(said):
        return _NoServer(f"tmux: {said}")
    return _Race(f"tmux: {said}") if _RACE.search(said) else Failed(f"tmux: {said}")


class Tmux:
    """The `orchconverge.ports.Panes` of a real tmux, 2.6 or newer.

    ``socket`` is the setting ``tmux.socket``: a name as for ``tmux -L``, or with a slash a path as for ``tmux -S``.
    ``environ`` is the caller's environment (default: the process's), of which the server gets `PASSED` alone.
    """

    def __init__(
        self, socket: str = SOCKET, *, environ: Mapping[str, str] | None = None, deadline_seconds: float = 10.0
    ) -> None:
        around = os.environ if environ is None else environ
        env = {name: around[name] for name in PASSED if around.get(name)}
        if "utf" not in (env.get("LC_ALL") or env.get("LC_CTYPE") or env.get("LANG") or "").lower():
            env["LC_ALL"] = "C.UTF-8"
        env.setdefault("TERM", "xterm")
        base = _socket_base(around.get("TMUX_TMPDIR", ""))
        if base != Path("/tmp").resolve():  # noqa: S108 - tmux's own default, below which it makes a directory of ours
            env["TMUX_TMPDIR"] = str(base)
        if "/" in socket:
            self._socket_path = Path(os.path.abspath(Path(socket).expanduser()))  # noqa: PTH100 - resolve() would follow links
            address = ("-S", str(self._socket_path))
        else:
            self._socket_path = base / f"tmux-{os.getuid()}" / socket
            address = ("-L", socket)
        self._server = Server(address, env=env, deadline_seconds=deadline_seconds)

    @property
    def socket_path(self) -> Path:
        """Where the server listens, or would: absolute, as tmux itself derives it."""
        return self._socket_path

    def ready(self) -> None:
        """Raise `Refused` if there is no tmux, or its socket's path cannot be used. Starts no server."""
        self._server.program()
        self._check_socket()

    def open(self, name: str, argv: Sequence[str]) -> Pane:
        """Run ``argv`` in a new detached session called ``name``, in ``/``, as the pane's own process.

        Raises `SessionExists`, `Refused` (no tmux, a socket path that cannot be used) and `Failed`. After `Failed` it
        cannot be known that nothing was started: a server that died when it was asked, or answered too late, may have.
        Whoever starts something twice must not mind; our supervisor takes a lock.
        """
        if not _NAME.fullmatch(name):
            raise Failed(f"{name!r} cannot be a tmux session's name", hint="only A-Z a-z 0-9 _ and - can")
        self._check_socket()
        shape = ("-d", "-P", "-F", "#{session_id} #{pane_id}", "-s", name, "-x", str(COLUMNS), "-y", str(ROWS))
        # Not in tmux.conf: as a default it makes 3.3a crash at its first new-session.
        fixed = ("set-option", "-w", "-q", "-t", f"={name}:", "window-size", "manual")
        try:
            ran = self._retried("new-session", *shape, "--", *_words(argv), ";", *fixed)
        except _Duplicate:
            raise SessionExists(name) from None
        made = _OPENED.fullmatch("\n".join(ran.stdout))
        if made is None:
            raise Failed(f"tmux answered something else than its ids: {ran.stdout!r}")
        return Pane(session=made[1], pane=made[2], name=name)

    def alive(self, name: str) -> bool | None:
        """Whether a session of exactly this name exists; ``None`` if it cannot be told."""
        try:
            return name in self._sessions()
        except (Failed, Refused):
            return None

    def close(self, name: str) -> None:
        """End the session of exactly this name. A missing session or server is not an error. Raises `Failed`."""
        try:
            session = self._sessions().get(name)
            if session is not None:
                self._server.cmd("kill-session", target=session)
        except (_Race, _Missing):
            return  # it went meanwhile, alone or with its server

    def attach_command(self, name: str) -> str:
        """The line that attaches, right in any POSIX shell and wherever TMUX_TMPDIR points there."""
        return attach_line(self._socket_path, name)

    def attach(self, name: str) -> None:
        """Become a tmux client attached to the session of exactly this name: replaces this process."""
        os.execvp("tmux", ["tmux", "-u", "-S", str(self._socket_path), "attach-session", "-t", f"={name}"])  # noqa: S606 - argv form

    def version(self) -> str:
        """The installed tmux, e.g. ``3.3a``. Raises `Refused` if there is none."""
        return self._server.run("-V").stdout[0].removeprefix("tmux ").strip()

    def _sessions(self) -> dict[str, str]:
        """Name -> id of the sessions there are. Raises `Failed` for an answer that is not such a list."""
        try:
            lines = self._retried("list-sessions", "-F", "#{session_id} #{session_name}").stdout
        except _NoServer:
            return {}
        listed = [_LISTED.fullmatch(line) for line in lines]
        if None in listed:
            raise Failed(f"tmux answered something else than its sessions: {lines!r}")
        return {found[2]: found[1] for found in listed if found}

    def _retried(self, *command: str) -> Ran:
        """Run it, again when the server was just leaving, as it does with its last session (see tmux.conf)."""
        for pause_seconds in PAUSES:
            try:
                return self._server.cmd(*command)
            except _Race as error:
                if isinstance(error, _NoServer) and command[0] != "new-session":
                    raise
                time.sleep(pause_seconds)
        return self._server.cmd(*command)

    def _check_socket(self) -> None:
        size = len(os.fsencode(self._socket_path))
        if size > LONGEST_SOCKET_BYTES:
            raise Refused(
                f"tmux cannot listen at {self._socket_path}: {size} bytes, and {LONGEST_SOCKET_BYTES} is the most",
                hint="set TMUX_TMPDIR to a short path, or take it out of the environment: then it is /tmp",
            )
        if self._server.address[0] == "-S":
            try:
                self._socket_path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError as error:
                said = f"tmux cannot listen at {self._socket_path}: {error}"
                raise Refused(said, hint="set `tmux.socket`") from error


def _socket_base(tmux_tmpdir: str) -> Path:
    """The directory tmux puts ``tmux-<uid>`` in: TMUX_TMPDIR if it exists, else /tmp (tmux.c: make_label)."""
    for place in filter(None, (tmux_tmpdir, "/tmp")):  # noqa: S108 - as above
        try:
            return Path(place).resolve(strict=True)
        except OSError:
            continue
    return Path("/tmp")  # noqa: S108 - as above


def _words(argv: Sequence[str]) -> list[str]:
    """``argv`` such that tmux passes it on unchanged: it ends a command at a last ``;``, a lone word goes to a shell."""
    words = list(argv) if len(argv) > 1 else ["/bin/sh", "-c", 'exec "$0"', *argv]
    return [f"{word[:-1]}\\;" if word.endswith(";") else word for word in words]
