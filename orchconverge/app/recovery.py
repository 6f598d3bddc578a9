"""What was changed behind the ledger's back: worktrees and branches that are gone or moved, candidates merged by hand.

Each becomes a `branch.reconciled` that says what was seen. Nothing is put back and nothing is taken away.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from orchconverge.app.trespass import trespass
from orchconverge.app.world import World
from orchconverge.core.events import BranchReconciled
from orchconverge.core.state import Basin, Branch, Phase, State
from orchconverge.core.target import Sha

GONE = "its commits are gone"


def differences(world: World, state: State, basin: Basin) -> Iterator[BranchReconciled]:
    """What git shows of a basin's branches that the record does not say, and did not say before."""
    target = world.git.resolve(f"refs/heads/{basin.target}")
    if target is not None and trespass(world, basin, target):
        return  # what a mind put there is nobody's merge, and a person is told of that first
    for name in basin.queue:
        branch = state.branches[name]
        if branch.head is not None and world.git.resolve(branch.head) is None:
            yield _fact(branch, Phase.FAILED, GONE)
            continue
        merged = _merged(world, branch, target)
        to, observed = Phase.GRAFTED if merged else branch.phase, merged or _moved(world, branch)
        if observed and observed != branch.observed:
            yield _fact(branch, to, observed)
    for name in basin.attempt.branches if basin.attempt is not None else ():
        branch = state.branches[name]
        began = branch.place == "fresh" and branch.phase in (Phase.SEARCHING, Phase.ENDED)
        observed = f"its worktree {branch.worktree} is gone" if began and not Path(branch.worktree).is_dir() else ""
        if observed and observed != branch.observed:
            yield _fact(branch, branch.phase, observed)


def _fact(branch: Branch, to: Phase, observed: str) -> BranchReconciled:
    return BranchReconciled(
        basin=branch.basin, branch=branch.id, was=branch.phase.value, to=to.value, observed=observed
    )


def _merged(world: World, branch: Branch, target: Sha | None) -> str:
    """That somebody merged a candidate into the target, history and all."""
    if target is None or branch.head is None or not world.git.work(branch.head, target).descends:
        return ""
    return f"its head {branch.head:.8} is part of the target at {target:.8}: merged by hand"


def _moved(world: World, branch: Branch) -> str:
    """That a candidate's git branch does not stand where it was judged. What was judged is on a keep-ref."""
    now = world.git.resolve(f"refs/heads/{branch.git_branch}")
    if now == branch.head or branch.head is None:
        return ""
    kept = f"what was judged, {branch.head:.8}, is on refs/orchconverge/keep/{branch.id}"
    return (
        f"{branch.git_branch} was deleted; {kept}" if now is None else f"{branch.git_branch} moved to {now:.8}; {kept}"
    )
