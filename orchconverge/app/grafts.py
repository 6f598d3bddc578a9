"""Grafts: a squash in a throwaway worktree, a commit of exactly the gated tree, a compare-and-swap of the target."""

from __future__ import annotations

from orchconverge.app.trees import Trees
from orchconverge.app.world import World
from orchconverge.core.seen import Landed, Squash
from orchconverge.core.state import Basin, Branch, Phase, State
from orchconverge.core.target import Sha
from orchconverge.errors import Refused


class Grafts:
    """What was squashed and landed in this controller's life; a lost one's landing is found again by its trailer."""

    def __init__(self, world: World, trees: Trees) -> None:
        self.world = world
        self.trees = trees
        self.squashes: dict[tuple[str, Sha], Squash] = {}
        self.landed: dict[str, Landed] = {}
        self.obstacle = ""

    def find(self, state: State, basin: Basin) -> None:
        """Look for commits that were landed and never recorded."""
        for branch in state.branches_of(basin.id):
            if branch.phase is Phase.CANDIDATE and not branch.admitted and branch.head is not None:
                commit = self.world.git.find_graft(basin.target, branch.head)
                if commit is not None:
                    self.landed[branch.id] = Landed(commit=commit, tree=self.world.git.tree_of(commit))

    def squash(self, branch: Branch, tip: Sha) -> None:
        """Merge the branch onto the tip without committing, in a throwaway worktree."""
        assert branch.head is not None
        path = self.trees.gate(branch, tip)
        found = self.world.git.squash(path, tip=tip, head=branch.head)
        self.world.git.remove_worktree(path)
        self.squashes[branch.id, tip] = found

    def land(self, basin: Basin, branch: Branch, tip: Sha, tree: Sha) -> None:
        """Commit the tree and move the target. A target that moved meanwhile, or a dirty checkout of it, lands nothing."""
        lease = self.world.leases.take(f"graft/{basin.target}", wait_seconds=60.0)
        if lease is None:
            self.obstacle = f"another graft into {basin.target} does not end"
            return
        try:
            commit = self.world.git.commit_tree(tree, parent=tip, message=message(basin, branch))
            if self.world.git.advance(basin.target, new=commit, old=tip):
                self.landed[branch.id] = Landed(commit=commit, tree=tree)
            self.obstacle = ""
        except Refused as refused:
            self.obstacle = f"{refused.message}: {refused.hint}" if refused.hint else refused.message
        finally:
            lease.release()


def message(basin: Basin, branch: Branch) -> str:
    """The squash commit's message: what it is for, what the mind said, and the trailers by which recovery finds it."""
    summary = " ".join(branch.summary.split())[:500]
    title = " ".join(basin.title.split())[:60]
    return (
        f"{title} ({branch.id})\n\n{summary}\n\n"
        f"Orchconverge-Basin: {basin.id}\n"
        f"Orchconverge-Branch: {branch.id}\n"
        f"Orchconverge-Head: {branch.head}\n"
    )
