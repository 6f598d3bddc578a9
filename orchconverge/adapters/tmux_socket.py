"""What can be said of a tmux server by its socket alone: no subprocess and no import, for the status path."""

from __future__ import annotations

import shlex
from pathlib import Path

CONNECT_SECONDS = 0.5


def attach_line(path: str | Path, name: str) -> str:
    """The command that attaches to the session of exactly this name, right in any POSIX shell."""
    quoted = name.replace("'", "'\\''")  # zsh expands an unquoted =name, which shlex.quote leaves as it is
    return f"tmux -S {shlex.quote(str(path))} attach -t '={quoted}'"


def answers(path: str | Path) -> bool | None:
    """Whether a server listens there. ``None`` if it cannot be told."""
    import socket  # 3 ms, and only while a run is open

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(CONNECT_SECONDS)
        try:
            client.connect(str(path))
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        except OSError:
            return None
    return True
