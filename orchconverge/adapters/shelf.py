"""Outputs of checks, kept for people by digest in `evidence/`. Never read back as truth."""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path

from orchconverge.errors import Refused
from orchconverge.files import own_folder


class FileShelf:
    """One file an output, named by its sha256."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, output: bytes) -> tuple[str, str]:
        """Store an output once. Returns digest and file name; storing is best effort, the digest is always right."""
        digest = hashlib.sha256(output).hexdigest()
        name = f"{digest[:32]}.log"
        path = self._folder / name
        with contextlib.suppress(OSError, Refused):
            own_folder(self._folder)
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            with os.fdopen(fd, "wb") as file:
                os.fchmod(fd, 0o600)
                file.write(output)
        return digest, name
