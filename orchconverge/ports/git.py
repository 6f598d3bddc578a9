"""The repository: what is asked of git, and what is changed there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from orchconverge.core.seen import Checkout, Squash, Work
from orchconverge.core.target import Sha


class Git(Protocol):
    """One repository. Full ids only; every call has a deadline; hooks, fsmonitor and prompts are off."""

    root: Path
    common_dir: Path

    def identity(self) -> bool:
        """Whether git knows who commits here. Else the commits of minds and persons fail; our own have a name of ours."""

    def resolve(self, ref: str) -> Sha | None:
        """The commit that a ref or id names, or ``None``."""

    def tree_of(self, commit: Sha) -> Sha:
        """The tree of a commit."""

    def checkout(self, path: Path) -> Checkout:
        """How the working tree at ``path`` stands (no lock is taken, nothing is refreshed)."""

    def checked_out_at(self, branch: str) -> Path | None:
        """The working tree that has ``branch`` checked out, if any."""

    def default_branch(self, remote: str) -> str | None:
        """``origin/HEAD``, else asked of the remote once, else main or master if they exist."""

    def remotes(self) -> Mapping[str, str]:
        """Remote name -> push URL."""

    def work(self, base: Sha, head: Sha) -> Work:
        """What ``head`` adds to ``base``."""

    def unmarked(self, branch: str, marker: str, *, since: Sha) -> frozenset[Sha]:
        """What was put onto ``branch`` after it stood at ``since``, by the reflog, under another action than ``marker``."""

    def create_branch(self, branch: str, at: Sha) -> None:
        """Create ``branch`` without touching any checkout; already there at ``at`` is not an error. Raises `Refused`."""

    def add_worktree(self, path: Path, *, branch: str | None, at: Sha) -> None:
        """Add a linked worktree of ours on a new ``branch`` (``None``: detached). Idempotent by path and branch."""

    def include(self, path: Path) -> tuple[str, ...]:
        """Copy the untracked files that `.worktreeinclude` names into a tree of ours; returns their paths."""

    def made(self, path: Path) -> str:
        """What tells a worktree of ours from one that was removed and added again at the same place. Raises `Failed`."""

    def nested(self, path: Path) -> Sequence[str]:
        """Repositories inside the working tree at ``path`` that hold what is nowhere else: no keep-ref reaches into them."""

    def remove_worktree(self, path: Path) -> None:
        """Remove a linked worktree of ours, by inode and real path; never anything else; a missing one is not an error."""

    def keep(self, name: str, commit: Sha) -> None:
        """Point ``refs/orchconverge/keep/<name>`` at a commit, so that it is never pruned."""

    def snapshot(self, path: Path, name: str) -> Sha | None:
        """Commit what is uncommitted at ``path`` onto the keep-ref ``name``; index and tree stay as they are."""

    def squash(self, path: Path, *, tip: Sha, head: Sha) -> Squash:
        """In a throwaway worktree at ``path`` on ``tip``: `git merge --squash head`; on success it holds that tree."""

    def commit_tree(self, tree: Sha, *, parent: Sha, message: str) -> Sha:
        """A commit object of exactly ``tree``; no ref moves."""

    def advance(self, branch: str, *, new: Sha, old: Sha) -> bool:
        """Move ``branch`` from ``old`` to ``new``, and a clean checkout of it along. False if it was moved meanwhile."""

    def commit_file(self, branch: str, path: str, text: str, message: str) -> Sha:
        """Commit one file alone on ``branch``, by plumbing, or in the checkout that has it; nothing else goes in."""

    def push(self, remote: str, sha: Sha, branch: str) -> tuple[bool, str]:
        """Push ``sha`` to ``refs/heads/<branch>`` of a remote, never forced. Whether it went, and git's last word if not."""

    def bundle(self, path: Path, base: Sha, branch: str) -> None:
        """Write a bundle of what ``branch`` adds to ``base``."""

    def find_graft(self, branch: str, head: Sha) -> Sha | None:
        """The commit on ``branch`` whose trailer ``Orchconverge-Head`` is ``head``: the graft of exactly that work."""

    def merges(self, base: Sha, head: Sha) -> bool | None:
        """Whether the two merge without conflict; ``None`` if it cannot be told."""

    def fingerprint(self) -> str:
        """A digest of shared config, hooks and attributes: what a mind could change to make our git run its code."""
