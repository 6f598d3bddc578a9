"""The repository: what is asked of git, and what is changed there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from orchconverge.core.fingerprints import Blob
from orchconverge.core.overlap import Claim, Difference, Merge
from orchconverge.core.seen import Checkout, Landed, Squash, Work
from orchconverge.core.target import Sha


class Comparing(Protocol):
    """Attempts side by side. Full ids only; nothing is written, not even an object."""

    def commits(self, heads: Mapping[str, Sha | None]) -> Mapping[str, Sha]:
        """Those of these branches whose commit is there: the head that was recorded, else what its keep-ref holds."""

    def fork(self, one: Sha, other: Sha) -> Sha | None:
        """The newest commit that both descend from; ``None`` without common history."""

    def difference(self, old: Sha, new: Sha, *, patch: bool) -> Difference:
        """How ``new`` differs from ``old``, renames found. Raises `Failed` if one is not there."""

    def claims(self, ranges: Sequence[tuple[Sha, Sha]]) -> tuple[tuple[Claim, ...], ...]:
        """What each head claims of its base, for each (base, head). Raises `Failed` if one is not there."""

    def merge_pairs(self, pairs: Sequence[tuple[Sha, Sha]]) -> tuple[Merge, ...]:
        """Whether each two merge, and in which files they conflict."""

    def files(self, tree: Sha, paths: Sequence[str]) -> Mapping[str, bytes]:
        """What files of a tree hold, those of the ``paths`` that are there and at most 4 MiB long. Raises `Failed`."""

    def contents(self, pairs: Sequence[tuple[Sha, Sha]]) -> tuple[Mapping[str, tuple[Blob, Blob]], ...]:
        """Per pair of trees the changed paths: what each held in the one and in the other. Raises `Failed`."""

    def contents_now(self, tree: Path, base: Sha) -> Mapping[str, tuple[Blob, Blob]]:
        """What changed since the commit ``base`` in the working tree at ``tree``, uncommitted included. Raises `Failed`."""


class Git(Protocol):
    """One repository. Full ids only; every call has a deadline; hooks, fsmonitor and prompts are off."""

    root: Path
    common_dir: Path

    @property
    def compare(self) -> Comparing:
        """What is asked of attempts side by side."""

    def identity(self) -> bool:
        """Whether git knows who commits here. Else the commits of minds and persons fail; our own have a name of ours."""

    def author(self) -> Mapping[str, str]:
        """The variables that tell git who commits here, as it would find them itself; empty if it knows nobody."""

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

    def fill(self, path: Path) -> tuple[str, ...]:
        """Fill the submodules that are initialised here into a tree of ours, without network; returns why others stay empty.

        Raises `Refused` for a tree in which a kill left one half filled: it is to be made again.
        """

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

    def commit_all(self, path: Path, message: str, *, marker: str, without: Sequence[str] = ()) -> Sha | None:
        """Commit what is uncommitted at ``path`` where its HEAD is, but the paths ``without``; ``None`` if that is nothing.

        The reflog has it under the action ``marker``. Other repositories below ``path`` are left out. Raises `Failed`.
        """

    def squash(
        self,
        path: Path,
        *,
        tip: Sha,
        head: Sha,
        base: Sha | None = None,
        commits: Sequence[Sha] = (),
        paths: Sequence[str] = (),
        patch: bytes = b"",
    ) -> Squash:
        """What a branch gives on ``tip``, in a throwaway worktree at ``path``: all of it, as `git merge --squash` does.

        Or only some of its ``commits``, one after another, or what ``base..head`` changes in some ``paths``, or a ``patch``.
        """

    def patch(self, old: Sha, new: Sha, paths: Sequence[str]) -> bytes:
        """The diff of some paths, for `git apply`."""

    def landed(self, basin: str, *, since: Sha, head: Sha) -> Sequence[Landed]:
        """The grafts of a basin after ``since`` up to ``head``, by their trailers, oldest first."""

    def changed(self, old: Sha, new: Sha) -> tuple[str, ...]:
        """The paths in which two commits differ."""

    def offer(self, basin: str, commit: Sha) -> None:
        """Point ``refs/orchconverge/proposal/<basin>`` at a commit, so that a proposal's chain is kept."""

    def commit_tree(self, tree: Sha, *, parent: Sha, message: str) -> Sha:
        """A commit object of exactly ``tree``; no ref moves."""

    def advance(self, branch: str, *, new: Sha, old: Sha) -> bool:
        """Move ``branch`` from ``old`` to ``new``, and a clean checkout of it along. False if it was moved meanwhile."""

    def commit_file(self, branch: str, path: str, text: str, message: str) -> Sha:
        """Commit one file alone on ``branch``, by plumbing, or in the checkout that has it; nothing else goes in."""

    def fetch(self, remote: str, ref: str, name: str) -> Sha:
        """Bring what a full ``ref`` of a remote stands at to ``refs/orchconverge/pulls/<name>``, and say what that is.

        No other ref, no tag and no checkout is touched. Raises `Failed` if it is not there, `Refused`.
        """

    def push(self, remote: str, sha: Sha, branch: str, *, over: Sha | None = None) -> tuple[bool, str]:
        """Push ``sha`` to ``refs/heads/<branch>`` of a remote. Whether it went, and git's last word if not.

        Never forced, unless ``over`` is what a person wants replaced: then only if the branch stands exactly there.
        """

    def bundle(self, path: Path, base: Sha, branch: str) -> None:
        """Write a bundle of what ``branch`` adds to ``base``."""

    def merges(self, base: Sha, head: Sha) -> bool | None:
        """Whether the two merge without conflict; ``None`` if it cannot be told."""

    def fingerprint(self) -> str:
        """A digest of shared config, hooks and attributes: what a mind could change to make our git run its code."""
