"""Grafts: parts merged in throwaway worktrees, commits that no ref has, a compare-and-swap of the target."""

from __future__ import annotations

from orchconverge.app.trees import Trees
from orchconverge.app.world import World
from orchconverge.core.seen import Tried
from orchconverge.core.state import Basin, Branch
from orchconverge.core.target import Sha
from orchconverge.core.values import Part
from orchconverge.core.views.text import clean
from orchconverge.errors import Refused


class Grafts:
    """What was tried in this process. What landed and was not recorded is found again in git, by its trailers."""

    def __init__(self, world: World, trees: Trees) -> None:
        self.world = world
        self.trees = trees
        self.tried: dict[tuple[Part, Sha], Tried] = {}
        self.offered: Sha | None = None
        self.began: float | None = None
        """When the first part of the attempt was tried, monotonic seconds."""
        self.obstacle = ""
        self.busy = False
        """Whether somebody else held the lock of the target when this last came to land: it is tried again in a moment."""
        self.reason = ""
        """Why a person takes what is tried now; it goes into the commit."""

    def seconds(self) -> float:
        """Seconds since the first try of the attempt."""
        return self.world.clock.monotonic() - self.began if self.began is not None else 0.0

    def attempt(self, basin: Basin, branch: Branch, part: Part, onto: Sha) -> None:
        """Merge a part onto a commit, and make a commit of the result."""
        assert branch.head is not None
        git, path = self.world.git, self.trees.gate(branch, onto)
        self.began = self.world.clock.monotonic() if self.began is None else self.began
        found = git.squash(
            path,
            tip=onto,
            head=branch.head,
            base=branch.base,
            commits=part.commits,
            paths=part.paths,
            patch=part.patch,
        )
        if found.tree is None:
            self.tried[part, onto] = Tried(tree=None, conflicts=found.conflicts)
            return
        commit = git.commit_tree(found.tree, parent=onto, message=message(basin, branch, part, reason=self.reason))
        self.tried[part, onto] = Tried(tree=found.tree, commit=commit, paths=git.changed(onto, commit))

    def offer(self, basin: Basin, head: Sha) -> None:
        """Keep the chain that a proposal ends in."""
        self.world.git.offer(basin.id, head)
        self.offered = head

    def land(self, basin: Basin, *, tip: Sha, head: Sha) -> bool:
        """Move the target. One that moved meanwhile, has a dirty checkout or is grafted onto is left as it is: False."""
        self.obstacle = ""
        lease = self.world.leases.take(f"graft/{basin.target}")
        self.busy = lease is None
        if lease is None:
            return False
        try:
            return self.world.git.advance(basin.target, new=head, old=tip)
        except Refused as refused:
            self.obstacle = f"{refused.message}: {refused.hint}" if refused.hint else refused.message
            return False
        finally:
            lease.release()


def message(basin: Basin, branch: Branch, part: Part, *, reason: str = "") -> str:
    """A graft's commit message: what it is for, what the mind said, and the trailers by which recovery finds it."""
    summary = " ".join(branch.summary.split())[:500]
    title = " ".join(basin.title.split())[:60]
    trailers = [f"Orchconverge-Basin: {basin.id}"]
    if part.whole:
        subject = f"{title} ({branch.id})"
        trailers += [f"Orchconverge-Branch: {branch.id}", f"Orchconverge-Head: {branch.head}"]
    else:
        subject = f"{title} ({part.criterion or 'a part'} of {branch.id})"
        trailers += [f"Orchconverge-Residue-Of: {branch.id}", f"Orchconverge-Head: {branch.head}"]
        trailers += [f"Orchconverge-Criterion: {part.criterion}"] if part.criterion else []
    trailers += [f"Orchconverge-Reason: {clean(' '.join(reason.split()), 500)}"] if reason.strip() else []
    return "\n\n".join(filter(None, (subject, summary, "\n".join(trailers)))) + "\n"
