"""What runs leave behind on this machine: folders, files and refs, looked at and taken away one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from orchconverge.core.seen import Answer
from orchconverge.core.target import Sha


class Left(Answer, frozen=True, kw_only=True):
    """Something of ours on disk, by the inode it had when it was seen. ``changed`` in seconds since the epoch."""

    path: Path
    inode: int
    bytes: int
    changed: float


class Remains(Protocol):
    """Folders of supervised runs, and outputs of checks."""

    def folders(self, kind: str) -> Sequence[Left]:
        """The folders of runs of a kind (``minds``, ``checks``, ``setups``, ``steps``), by name; each is one run's."""

    def outputs(self) -> Sequence[Left]:
        """The outputs of checks that are kept for people."""

    def size(self, path: Path) -> int:
        """Bytes that a file or a folder takes on disk, links not followed; 0 where that cannot be told."""

    def remove(self, left: Left) -> str:
        """Take exactly that away. Empty if it is gone, else in a phrase why it is not."""


class Refs(Protocol):
    """The refs that minds leave in the repository."""

    def branches(self, prefix: str) -> Mapping[str, Sha]:
        """The branches whose name begins with ``prefix``, which ends in a slash, and where they stand."""

    def keeps(self) -> Mapping[str, Sha]:
        """The keep-refs, without what they all begin with, and where they stand."""

    def kept(self, commit: Sha, *, also: str) -> bool:
        """Whether a keep-ref, or the branch ``also``, leads to a commit."""

    def holds(self, commit: Sha, path: Path) -> bool:
        """Whether ``commit`` has all that lies in the working tree at ``path``, changed or new, ignored files left out."""

    def delete(self, branch: str, *, old: Sha) -> bool:
        """Delete a branch that stands at ``old``. False, and nothing was done, if it stands elsewhere by now."""
