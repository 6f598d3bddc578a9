"""The working trees of a repository: which there are, which are ours, and the only code that adds or removes one."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Collection, Iterator
from pathlib import Path

from msgspec import Struct

from orchconverge.adapters.git_process import SLOW_SECONDS, Run
from orchconverge.core.target import Sha
from orchconverge.errors import Failed, Refused
from orchconverge.files import DIRECTORY, own_folder, write_inside

OPERATIONS = {
    "rebase-merge": "rebase",
    "rebase-apply/applying": "am",
    "rebase-apply": "rebase",
    "MERGE_HEAD": "merge",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
    "sequencer": "cherry-pick or revert",
    "BISECT_LOG": "bisect",
}
"""What lies in the git directory of a working tree while an operation is in progress there; the first one counts."""
RACES = 3
"""Tries of `git worktree add`: it fails when somebody else's runs at the same moment ("failed to read commondir")."""


class Tree(Struct, frozen=True):
    """A working tree on git's list. ``ref`` is the full ref it has checked out, if any."""

    path: Path
    ref: str | None


class Trees:
    """The working trees of one repository; ``ours`` is the only folder in which anything is added or removed."""

    def __init__(self, run: Run, *, root: Path, common_dir: Path, ours: Path) -> None:
        self._run = run
        self._root = root
        self._common_dir = common_dir
        self._entries = common_dir / "worktrees"
        self._ours = ours

    def git_dir(self, path: Path) -> Path:
        """The git directory of a working tree of this repository. Raises `Failed` for any other path."""
        # Never left to git: where `.git` is missing or planted, git would answer for the repository around or behind it.
        dot = path / ".git"
        found = dot
        with contextlib.suppress(OSError):
            if dot.is_file():
                found = path / os.fsdecode(dot.read_bytes()).removeprefix("gitdir: ").removesuffix("\n")
            real = found.resolve(strict=True)
            if real == self._common_dir or real.parent == self._entries:
                return real
        raise Failed(f"{path} is not a working tree of this repository", hint="`git worktree list` shows those it has")

    def operation(self, path: Path) -> str | None:
        """The merge, rebase, … in progress at ``path``."""
        git_dir = self.git_dir(path)
        return next((what for name, what in OPERATIONS.items() if (git_dir / name).exists()), None)

    def listed(self) -> Iterator[Tree]:
        """Git's list, without trees whose folder is gone; the caller's own first tree under its real path."""
        out = self._run(["worktree", "list", "--porcelain", "-z"]).out
        for number, record in enumerate(out.removesuffix(b"\0\0").split(b"\0\0")):
            told = dict(os.fsdecode(line).partition(" ")[::2] for line in record.split(b"\0"))
            # Of a submodule or a separate git directory git lists the git directory where the tree should be.
            own = number == 0 and self.git_dir(self._root) == self._common_dir
            if "prunable" not in told:
                yield Tree(self._root if own else Path(told["worktree"]), told.get("branch"))

    def holder(self, branch: str) -> Path | None:
        """The working tree that has ``branch`` checked out, or is in the middle of rebasing or bisecting it."""
        ref = f"refs/heads/{branch}"
        return next((tree.path for tree in self.listed() if tree.ref == ref or self._rewrites(tree, ref)), None)

    def _rewrites(self, tree: Tree, ref: str) -> bool:
        with contextlib.suppress(OSError, Failed):
            git_dir = self.git_dir(tree.path)
            for name in ("rebase-merge/head-name", "rebase-apply/head-name", "BISECT_START"):
                if (git_dir / name).is_file():
                    said = os.fsdecode((git_dir / name).read_bytes()).removesuffix("\n")
                    return said in (ref, ref.removeprefix("refs/heads/"))
        return False

    def place(self, path: Path) -> Path:
        """The real path of something inside our folder; its last part is not followed. Raises `Refused` for others."""
        absolute = Path(os.path.abspath(path))  # noqa: PTH100 - resolve() would follow the last part
        place, ours = absolute.parent.resolve() / absolute.name, self._ours.resolve()
        if place == ours or not place.is_relative_to(ours):
            raise Refused(f"{path} is not inside {self._ours}: nothing is added or removed elsewhere")
        return place

    def linked(self) -> Iterator[tuple[Path, Path]]:
        """Each folder in which git keeps a linked working tree, and where that tree is or was."""
        for pointer in sorted(self._entries.glob("*/gitdir")):
            with contextlib.suppress(OSError):
                tree = (pointer.parent / os.fsdecode(pointer.read_bytes()).removesuffix("\n")).parent
                yield pointer.parent, tree.parent.resolve() / tree.name

    def entry(self, place: Path) -> Path | None:
        """The folder in which git keeps the linked working tree at ``place``, whole or not."""
        return next((entry for entry, tree in self.linked() if tree == place), None)

    def half_made(self, entry: Path) -> bool:
        """Whether a `git worktree add` was killed before its end: until then git keeps a lock of this text."""
        with contextlib.suppress(OSError):
            return (entry / "locked").read_bytes().strip() == b"initializing"
        return False

    def stands(self, path: Path, *, ref: str | None, at: Sha) -> bool:
        """Whether the wanted tree is there; what a killed git left is cleared away. Raises `Refused` if others use it."""
        place = self.place(path)
        entry = self.entry(place)
        if entry is None:
            self._refuse_nested(place)
            if os.path.lexists(place) and not (place.is_dir() and not place.is_symlink() and not any(place.iterdir())):
                raise Refused(f"{place} exists and is not a worktree of this repository", hint="move it away")
            return False
        if self.half_made(entry) or not os.path.lexists(place):
            self.remove(place)
            return False
        if self.git_dir(place) != entry or os.fsdecode((entry / "HEAD").read_bytes()).strip() != (
            f"ref: {ref}" if ref else at
        ):
            raise Refused(f"{place} is a worktree already, with something else checked out")
        return True

    def _refuse_nested(self, place: Path) -> None:
        main = [self._common_dir.parent] if self._common_dir.name == ".git" else []
        for tree in (self._root, *main, *(tree for _, tree in self.linked())):
            if place.is_relative_to(tree.resolve()):
                raise Refused(
                    f"{place} would lie inside the working tree {tree} and be committed there",
                    hint="set XDG_DATA_HOME to a folder outside of it",
                )

    def add(self, path: Path, *, branch: str | None, at: Sha) -> None:
        """Add the tree once `stands` has said no: on an existing free ``branch``, or detached at ``at``."""
        place = self.place(path)
        own_folder(place.parent)
        wanted = ["--detach", "--end-of-options", str(place), at] if branch is None else ["--", str(place), branch]
        for left in reversed(range(RACES)):
            result = self._run(["worktree", "add", "--quiet", *wanted], deadline_seconds=SLOW_SECONDS, check=False)
            if result.code == 0:
                return
            if not left or "commondir" not in result.err:
                raise result.failure("worktree add")
            self.stands(place, ref=None, at=Sha(""))

    def remove(self, path: Path) -> None:
        """Remove the linked tree at ``path``, whole or half there. A missing one is not an error. Raises `Refused`."""
        place = self.place(path)
        entry = self.entry(place)
        there = os.path.lexists(place)
        if entry is None and not there:
            return
        if entry is None and not place.is_symlink():
            with contextlib.suppress(OSError):
                place.rmdir()  # empty: a `git worktree add` was killed before it wrote anything
                return
        if entry is None or place == self._root.resolve():
            raise Refused(f"{path} is not a linked worktree of this repository: it is left alone")
        if there:
            self._claim(place, entry)
        # Locked ones need it twice. Git itself checks once more that the tree and its entry point at each other.
        self._run(
            ["worktree", "remove", "--force", "--force", "--end-of-options", str(place)], deadline_seconds=SLOW_SECONDS
        )

    def made(self, path: Path) -> str:
        """What tells this tree from an earlier or a later one at the same place. Raises `Failed` where there is none."""
        try:
            found = (self.place(path) / ".git").lstat()
        except OSError as error:
            raise Failed(f"{path} is not a working tree of this repository") from error
        return f"{found.st_ino:x}-{found.st_mtime_ns:x}"

    def linked_work(self, path: Path, *, changed: Collection[str]) -> Iterator[str]:
        """Submodules and other linked repositories with work that no remote is known to have; ``changed`` ones have some."""
        listed = self._run(["ls-files", "--stage", "-z"], cwd=path, deadline_seconds=SLOW_SECONDS).out.split(b"\0")
        links = [os.fsdecode(entry.partition(b"\t")[2]) for entry in listed if entry.startswith(b"160000 ")]
        stored = [head.parent for head in sorted((self.git_dir(path) / "modules").glob("**/HEAD"))]
        modules = {str(p): p for p in stored if (p / "objects").is_dir()}
        for name, place in {**{link: path / link for link in links}, **modules}.items():
            if place.is_dir() and (place in stored or os.path.lexists(place / ".git")):
                asked = ["rev-list", "--max-count=1", "HEAD", "--branches", "--glob=refs/stash*", "--not", "--remotes"]
                asked.append("--glob=refs/orchconverge")  # what it was filled with is the caller's
                told = self._run(asked, cwd=place, env={"GIT_NO_LAZY_FETCH": "1"}, check=False)
                if name in changed or told.code or told.out:
                    yield name

    def _claim(self, place: Path, entry: Path) -> None:
        """See that the folder is the one git linked, and complete what a kill left so far from whole that git balks."""
        dot = place / ".git"
        try:
            os.close(os.open(place, DIRECTORY))
            status = dot.lstat() if os.path.lexists(dot) else None
        except OSError as error:
            raise Refused(f"{place} is no longer the folder that was made there: it is left alone") from error
        if status is not None and status.st_size:
            whole = stat.S_ISREG(status.st_mode) and os.fsdecode(dot.read_bytes()).removesuffix("\n")
            if not whole or Path(whole.removeprefix("gitdir: ")).resolve() != entry:
                raise Refused(f"{place} belongs to another repository now: it is left alone")
        for missing, text in ((entry / "HEAD", "ref: refs/heads/half-made"), (entry / "commondir", "../..")):
            if not missing.exists() or not missing.stat().st_size:
                missing.write_text(f"{text}\n")
        if status is None or not status.st_size:
            write_inside(place, ".git", b"gitdir: " + os.fsencode(entry) + b"\n")
