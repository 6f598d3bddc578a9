"""Our worktrees: one for a mind, one for each tree that is checked, set up before they are used and removed after."""

from __future__ import annotations

from pathlib import Path

from orchconverge.app.environment import allowed
from orchconverge.app.world import World, setup_name
from orchconverge.core.seen import Absent, Ended, Lost
from orchconverge.core.state import Branch, State
from orchconverge.core.target import Sha
from orchconverge.errors import Failed, Refused
from orchconverge.ports import Spec

SPAWN_WAIT = 60.0
SETUP_DEADLINE = 1800.0


AT_LOCK = "l"
"""Whose throwaway trees are those of commands at the lock: `Trees.own`."""


class SetupFailed(Failed):
    """The setup command did not succeed in a fresh tree."""


class Trees:
    """The worktrees of one basin, by names that a resume finds again."""

    def __init__(self, world: World, basin: str, *, own: str = "") -> None:
        self.world = world
        self.basin = basin
        self.own = own
        """What tells the throwaway trees of a command from those of a controller that runs beside it."""
        self.ready: set[Path] = set()

    def for_mind(self, branch: Branch, *, setup: str) -> str:
        """Make a mind's worktree. Returns the name of the setup that still runs, or an empty string."""
        return self._make(Path(branch.worktree), branch=branch.git_branch, at=branch.base, setup=setup)

    def for_tree(self, tree: Sha, commit: Sha, *, setup: str) -> tuple[Path, str]:
        """A clean tree to run criteria in, and the name of the setup that still runs, or an empty string.

        ``tree`` is the commit's own, or what a graft onto it would give: then it stands at a commit that no ref has.
        """
        git, at = self.world.git, commit
        path = self._checked(tree, commit)
        if git.tree_of(commit) != tree:
            at = git.commit_tree(tree, parent=commit, message=f"a tree of {self.basin} that is checked")
        try:
            return path, self._make(path, branch=None, at=at, setup=setup)
        except Refused:  # of the same tree, made for a controller that is gone: it is ours and holds nothing
            git.remove_worktree(path)
            return path, self._make(path, branch=None, at=at, setup=setup)

    def _checked(self, tree: Sha, commit: Sha) -> Path:
        own = self.world.git.tree_of(commit) == tree
        return self.world.trees / f"{self.own}t-{self.basin}.{(commit if own else tree)[:16]}"

    def to_read(self, tree: Sha, commit: Sha) -> Path:
        """A tree of exactly what git has, made anew: no check or setup ran in it, and no untracked file is brought along."""
        git, path = self.world.git, self.read(tree)
        at = commit
        if git.tree_of(commit) != tree:
            at = git.commit_tree(tree, parent=commit, message=f"a tree of {self.basin} that is judged")
        git.remove_worktree(path)
        self._add(path, branch=None, at=at)
        return path

    def read(self, tree: Sha) -> Path:
        """Where a tree is that is only read."""
        return self.world.trees / f"{self.own}t-{self.basin}.j{tree[:15]}"

    def used(self, tree: Sha, commit: Sha) -> None:
        """Take a tree away in which a check changed what is tracked, so that the next one gets a clean one."""
        path = self._checked(tree, commit)
        if path not in self.ready or not self.world.git.checkout(path).dirty:
            return
        self.world.git.remove_worktree(path)
        self.ready.discard(path)

    def gate(self, branch: Branch, tip: Sha) -> Path:
        """Where a branch is squashed onto the tip."""
        return self.world.trees / f"{self.own}g-{branch.id}-{tip[:12]}"

    def _make(self, path: Path, *, branch: str | None, at: Sha, setup: str) -> str:
        git = self.world.git
        if path not in self.ready:
            self._add(path, branch=branch, at=at)
            try:
                empty = git.fill(path)
            except Refused:  # a kill left a submodule half filled: nobody and no setup was in this tree yet
                git.remove_worktree(path)
                self._add(path, branch=branch, at=at)
                empty = git.fill(path)
            for why in empty:
                self.world.journal.say(f"a submodule stays empty in {path.name}: {why}")
            git.include(path)
            self.ready.add(path)
        return self._set_up(path, setup)

    def _add(self, path: Path, *, branch: str | None, at: Sha) -> None:
        lease = self.world.leases.take("spawn", wait_seconds=SPAWN_WAIT)
        if lease is None:
            raise Failed(
                "another orchconverge adds a worktree and does not end",
                hint="it holds the lock `spawn` in the state directory: `orchconverge status` shows what runs",
            )
        try:
            self.world.git.add_worktree(path, branch=branch, at=at)
        finally:
            lease.release()

    def _set_up(self, path: Path, setup: str) -> str:
        """Run the setup command once in a tree, under the supervisor. Raises `SetupFailed`."""
        if not setup:
            return ""
        supervisors = self.world.supervisors
        name = setup_name(self.basin, path.name, self.world.git.made(path), own=self.own)
        probe = supervisors.probe(name)
        if isinstance(probe, Ended):
            if probe.exit.code == 0:
                return ""
            output = supervisors.log(name, most_bytes=2048).decode("utf-8", "replace")
            raise SetupFailed(f"setup failed in a fresh tree (exit {probe.exit.code}): {output[-500:]}")
        if isinstance(probe, Lost):
            supervisors.kill(name)
        if isinstance(probe, Absent | Lost):
            spec = Spec(
                name=name,
                cwd=path,
                argv=("/bin/sh", "-c", setup),
                env=allowed(self.world.host.environment(), also=self.world.allowed),
                deadline_seconds=SETUP_DEADLINE,
            )
            supervisors.launch(supervisors.prepare(spec))
        return name

    def remove_mind(self, branch: Branch) -> bool:
        """Remove a settled mind's worktree, once what it has checked out and left uncommitted is on keep-refs.

        False if it stays, since it could not be read, kept or removed, or holds repositories whose work is nowhere else.
        """
        path, git = Path(branch.worktree), self.world.git
        if branch.place != "fresh":
            return True
        try:
            if (path / ".git").exists():
                head = git.checkout(path).head
                if head is not None:
                    git.keep(branch.id, head)
                git.snapshot(path, f"{branch.id}-leftovers")
                if nested := git.nested(path):
                    self.world.journal.say(
                        f"kept {path}: it holds work that is nowhere else in {', '.join(nested[:5])}"
                    )
                    return False
        except (Failed, Refused) as error:
            self.world.journal.say(f"kept {path.name}: {error.message}")
            return False
        return self._remove(path)

    def remove_settled(self, state: State) -> None:
        """Remove what a lost controller had no time to: the worktrees of minds whose attempt is over."""
        attempt = state.basins[self.basin].attempt
        running = attempt.branches if attempt is not None else ()
        for branch in state.branches_of(self.basin):
            if branch.id not in running and Path(branch.worktree).is_dir():
                self.remove_mind(branch)

    def remove_checked(self) -> None:
        """Remove the throwaway trees of this basin: checks ran there, no mind did."""
        for path in self.checked():
            self._remove(path)

    def checked(self) -> list[Path]:
        """The throwaway trees of this basin that are there."""
        if not self.world.trees.is_dir():
            return []
        ours = (f"{self.own}t-{self.basin}.", f"{self.own}g-{self.basin}.")
        return [path for path in sorted(self.world.trees.iterdir()) if path.name.startswith(ours)]

    def _remove(self, path: Path) -> bool:
        self.ready.discard(path)
        try:
            self.world.git.remove_worktree(path)
        except (Failed, Refused) as error:
            self.world.journal.say(f"kept {path.name}: {error.message}")
            return False
        return True
