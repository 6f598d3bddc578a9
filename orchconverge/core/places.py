"""Whether the target stands where it can be worked on, or moved."""

from __future__ import annotations

from orchconverge.core.seen import TargetSeen
from orchconverge.core.state import Basin, Run


def misplaced(basin: Basin, run: Run, target: TargetSeen, *, landing: bool = False) -> str | None:
    """Why the target cannot be worked on as it stands, or be moved (``landing``), in a sentence; ``None`` if it can."""
    if target.head is None:
        return f"the branch {basin.target} is gone"
    checkout = target.checkout
    here = run.settings.place == "here"
    if checkout is None or not (here or landing):
        return None
    if checkout.operation is not None:
        return f"a {checkout.operation} is in progress on {basin.target}: finish it first"
    if here and checkout.branch != basin.target:
        other = checkout.branch or "a detached HEAD"
        return f"the checkout is on {other}, the run works on {basin.target}: git switch {basin.target}"
    if not here and checkout.dirty:
        return f"{basin.target} is checked out with changes in {len(checkout.dirty)} files: commit them first"
    return None
