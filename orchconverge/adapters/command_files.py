"""The slash commands as they are shipped, and the files that are made of them for the shells of agents."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from orchconverge.core.slash import Source, source
from orchconverge.errors import Refused
from orchconverge.files import DIRECTORY, open_inside, write_inside
from orchconverge.whereabouts import base_folder

NAMES = ("orchconverge", "converge", "orch", "pushl", "reviewdeep", "copilot")
PROJECT = {"claude": ".claude", "codex": ".codex", "gemini": ".gemini", "opencode": ".opencode", "copilot": ".github"}
"""Agent -> its folder in a repository."""
USER = {
    "claude": ("CLAUDE_CONFIG_DIR", ".claude", ""),
    "codex": ("CODEX_HOME", ".codex", ""),
    "gemini": ("GEMINI_CLI_HOME", "", ".gemini"),
    "opencode": ("XDG_CONFIG_HOME", ".config", "opencode"),
    "copilot": ("COPILOT_HOME", ".copilot", ""),
}
"""Agent -> the variable that moves its folder, where that is below HOME otherwise, and the folder in it."""
MOST_BYTES = 1 << 20


def shipped() -> tuple[Source, ...]:
    """The commands that came with this version: in the wheel inside of the package, in a checkout beside it. Raises `Refused`."""
    package = Path(__file__).parents[1]
    folder = next((path for path in (package / "commands", package.parent / "commands") if path.is_dir()), None)
    if folder is None:
        raise Refused("the commands are not where they were installed", hint="install orchconverge again")
    return tuple(source(name, (folder / f"{name}.md").read_text(encoding="utf-8")) for name in NAMES)


def own_folder_of(agent: str, environ: Mapping[str, str]) -> Path:
    """The folder that an agent has for its user; what it lies in may be a link. Raises `Refused` without a home."""
    variable, default, inside = USER[agent]
    folder = base_folder(variable, default, environ) / inside
    return Path(os.path.realpath(folder.parent)) / folder.name


class Placed:
    """Files below ``root``, an absolute folder that need not exist. Implements `orchconverge.ports.commands.CommandFiles`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        there = root
        while not os.path.lexists(there):
            there = there.parent
        self._there, self._missing = there, root.relative_to(there)

    def read(self, path: str) -> bytes | None:
        """As the port says."""
        try:
            opened = open_inside(self._there, str(self._missing / path), os.O_RDONLY)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._odd(path, error) from error
        with os.fdopen(opened, "rb") as file:
            if not stat.S_ISREG(os.fstat(opened).st_mode):
                raise self._odd(path)
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise Refused(f"{self.root / path} is longer than a command of ours", hint="move it away")
        return data

    def write(self, path: str, data: bytes) -> None:
        """As the port says."""
        write_inside(self._there, str(self._missing / path), data)

    def remove(self, path: str) -> None:
        """As the port says."""
        *_, folder, name = (self._missing / path).parts
        inside = PurePosixPath(self._missing / path).parent
        try:
            opened = open_inside(self._there, str(inside), DIRECTORY)
            try:
                os.unlink(name, dir_fd=opened)
            finally:
                os.close(opened)
            if folder in NAMES:
                above = open_inside(self._there, str(inside.parent), DIRECTORY)
                with contextlib.suppress(OSError):  # something else lies in it
                    os.rmdir(folder, dir_fd=above)
                os.close(above)
        except OSError as error:
            raise self._odd(path, error) from error

    def _odd(self, path: str, error: OSError | None = None) -> Refused:
        """What to raise for what is no plain file in plain folders."""
        why = f" ({error.strerror})" if error is not None and error.errno not in (errno.ELOOP, errno.ENOTDIR) else ""
        return Refused(
            f"{self.root / path} cannot be used{why}: it, or a folder on the way, is a link or something else",
            hint="move it away, or name the other agents: --agent NAME",
        )
