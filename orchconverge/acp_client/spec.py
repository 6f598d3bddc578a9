"""What the client is told, and how values of any type are read."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MOST_LISTED = 20


@dataclass(frozen=True)
class Spec:
    """A turn of work, as JSON. Paths are absolute.

    ``argv`` starts the agent in ``cwd``; ``prompt`` is the file of what it is told. ``session`` is the file that holds the
    session's id: written once there is one, and read if ``resume``. ``loads``: the agent does what it says when it says that
    it can load. ``mode`` and ``model`` are set where the agent offers them; ``auth`` is the method that it is signed in by if
    it asks; ``meta`` goes with the session as the agent's own.

    Granted are ``anything``, or edits and reads in ``cwd`` and ``roots``, reads in ``reads`` and commands that begin with one
    of ``commands``.
    ``text_bytes``: so much is told of its words, the rest is counted.
    """

    argv: list[str]
    cwd: str
    prompt: str
    session: str = ""
    resume: bool = False
    loads: bool = True
    mode: str = ""
    model: str = ""
    auth: str = ""
    meta: dict[str, Any] = field(default_factory=dict)
    anything: bool = False
    roots: list[str] = field(default_factory=list)
    reads: list[str] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    text_bytes: int = 1 << 20


def taken(path: Path) -> tuple[Spec, str]:
    """The spec, unlinked, and the prompt. Raises `OSError`, `ValueError`, `TypeError`."""
    data = path.read_bytes()
    path.unlink()
    spec = Spec(**json.loads(data))
    return spec, Path(spec.prompt).read_bytes().decode("utf-8", "replace")


def get(of: object, *keys: str) -> object:
    """What lies below ``keys``, ``None`` if on the way something is no object."""
    for key in keys:
        of = of.get(key) if isinstance(of, dict) else None
    return of


def words(value: object, most: int) -> str:
    """``value`` if it is text, cut; half characters are replaced."""
    return value[:most].encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def each(value: object) -> list[object]:
    """The parts of a list, not too many; of anything else none."""
    return value[:MOST_LISTED] if isinstance(value, list) else []
