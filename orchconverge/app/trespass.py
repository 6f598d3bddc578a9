"""Whether the target was moved past the gate by no person: a mind's commit on it, or a rewind of what was judged."""

from __future__ import annotations

from orchconverge.app.world import MARK, World
from orchconverge.core.state import Basin
from orchconverge.core.target import Sha


def trespass(world: World, basin: Basin, head: Sha) -> str:
    """What was done to the target since it was judged, and what puts it right, in a sentence; empty if nothing was."""
    git, target = world.git, basin.target
    judged = basin.tip.head if basin.tip is not None else head
    if judged == head:
        return ""
    back = f"`git update-ref refs/heads/{target} {judged:.12}` puts it back"
    everything, not_by_minds = (git.unmarked(target, mark, since=judged) for mark in ("\0", MARK))
    if head in everything - not_by_minds:
        return f"a mind moved {target} to {head:.8} past the gate: {back}, a commit of yours on top takes it over"
    run = basin.run
    if run is not None and run.open and not run.checked:
        return ""  # a person resumed it as it is: it is judged anew
    if git.resolve(judged) is None or not git.work(judged, head).descends:
        return (
            f"{target} was rewound to {head:.8}, without what was judged: {back}, --stop and --resume take it as it is"
        )
    return ""
