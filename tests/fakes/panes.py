"""A tmux server in memory: sessions with one process each, gone when the process ends or the server dies."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from orchconverge.errors import Failed
from orchconverge.ports import Pane, SessionExists

NAME = re.compile(r"[A-Za-z0-9_-]+")


class Server:
    """What clients share. ``run`` starts what a session is to hold, ``over`` says whether that one ended."""

    def __init__(
        self,
        run: Callable[[Sequence[str]], None] = lambda argv: None,
        over: Callable[[Sequence[str]], bool] = lambda argv: False,
    ) -> None:
        self.run = run
        self.over = over
        self.sessions: dict[str, tuple[int, tuple[str, ...]]] = {}
        self.answers = True
        self.opened = 0

    def die(self) -> None:
        """End the server with all its sessions. What is supervised in them notes the hang-up and goes on."""
        self.sessions.clear()


class MemoryPanes:
    """`orchconverge.ports.Panes` over a `Server`."""

    def __init__(self, server: Server | None = None) -> None:
        self.server = Server() if server is None else server

    @property
    def socket_path(self) -> Path:
        return Path("/virtual/tmux")

    def ready(self) -> None:
        pass

    def open(self, name: str, argv: Sequence[str]) -> Pane:
        server = self.server
        if not NAME.fullmatch(name):
            raise Failed(f"{name!r} cannot be a tmux session's name", hint="only A-Z a-z 0-9 _ and - can")
        if not server.answers:
            raise Failed("tmux did not answer within 10 s")
        if self.alive(name):
            raise SessionExists(name)
        number = server.opened
        server.opened += 1
        server.sessions[name] = (number, tuple(argv))
        server.run(argv)
        return Pane(session=f"${number}", pane=f"%{number}", name=name)

    def alive(self, name: str) -> bool | None:
        server = self.server
        if not server.answers:
            return None
        if name in server.sessions and server.over(server.sessions[name][1]):
            del server.sessions[name]
        return name in server.sessions

    def close(self, name: str) -> None:
        if not self.server.answers:
            raise Failed("tmux did not answer within 10 s")
        self.server.sessions.pop(name, None)

    def attach_command(self, name: str) -> str:
        return f"tmux -S {self.socket_path} attach -t ={name}"
