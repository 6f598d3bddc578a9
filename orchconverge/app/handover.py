"""What a starting command hands to the controller it starts: settings, limits and environment, in a 0600 file.

The tmux server was started some other day with some other environment, so nothing is left to it.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import msgspec
from msgspec import Struct

from orchconverge.core.values import Limits, Settings
from orchconverge.errors import Failed
from orchconverge.files import own_folder, write_own


class Handover(Struct, frozen=True, kw_only=True):
    """Everything a controller needs beyond the ledger. ``env`` is the starting person's own environment."""

    cwd: str
    settings: Settings
    limits: Limits
    env: dict[str, str]
    flags: dict[str, str] = {}
    tmux: str = ""
    socket: str = ""


def path_of(state: Path, basin: str) -> Path:
    """Where the handover of a basin lies until its controller has read it."""
    return state / "basins" / basin / "start.json"


def write(state: Path, basin: str, handover: Handover) -> None:
    """Leave the handover for the controller."""
    path = path_of(state, basin)
    own_folder(path.parent)
    write_own(path, msgspec.json.encode(handover))


def take(state: Path, basin: str) -> Handover:
    """Read the handover and remove it, readable or not: it holds the environment. Raises `Failed` if there is none."""
    path = path_of(state, basin)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(fd, "rb") as file:
            found = msgspec.json.decode(file.read(), type=Handover)
    except (OSError, msgspec.MsgspecError) as error:
        raise Failed(f"nothing to start for {basin}: {error}", hint=f"orchconverge resume {basin}") from error
    finally:
        drop(state, basin)
    return found


def drop(state: Path, basin: str) -> None:
    """Remove a handover that nobody has taken or will take: the controller could not be started, or is not wanted."""
    with contextlib.suppress(OSError):
        path_of(state, basin).unlink()
