"""The files of slash commands, in the folders where the shells of agents look for them."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol


class CommandFiles(Protocol):
    """Files below ``root``, by relative path. A link on the way is never followed: it is `Refused`, with its name."""

    root: Path

    def read(self, path: str) -> bytes | None:
        """The bytes of a regular file, ``None`` if there is none. Raises `Refused`."""

    def write(self, path: str, data: bytes) -> None:
        """Put a file in place whole, with the folders that it needs. Raises `Refused`."""

    def remove(self, path: str) -> None:
        """Take a file away, and the folder that it leaves empty if that has its command's name. Raises `Refused`."""
