"""Looks at tmux for the doctor: its version, and whether our own server can be used. Starts no server."""

from __future__ import annotations

import re
from typing import Final

from orchconverge.adapters.tmux import Tmux
from orchconverge.adapters.tmux_socket import answers
from orchconverge.core.views.doctor import Finding, fault, ok, warning
from orchconverge.errors import OrchConvergeError

OLDEST: Final = (2, 6)
SECONDS: Final = 1.0


def tmux(socket: str) -> Finding:
    """The version, the socket's path and its server. ``socket`` is the setting ``tmux.socket``."""
    ours = Tmux(socket, deadline_seconds=SECONDS)
    try:
        version = ours.version()
        ours.ready()
    except OrchConvergeError as error:
        return fault("tmux", error.message, error.hint or "tmux -V")
    told = re.search(r"(\d+)\.(\d+)", version)  # 3.3a, next-3.5, and `master`, which says nothing of its age
    if told and (int(told[1]), int(told[2])) < OLDEST:
        return fault("tmux", f"{version} is too old", "install tmux 2.6 or newer")
    path = ours.socket_path
    listens = answers(path)
    if listens is False:
        return ok("tmux", f"{version}; a run starts our server, at {path}")
    if listens and ours.alive("-") is not None:
        return ok("tmux", f"{version}; our server answers at {path}")
    return warning(
        "tmux", f"{version}; our server at {path} gives no answer: runs go on, and cannot be watched", f"ls -l {path}"
    )
