"""What `decide` can ask for: imperative, small, and safe to ask for twice."""

from __future__ import annotations

from msgspec import Struct

from orchconverge.core.events import AnyFact, BranchSpawned
from orchconverge.core.seen import Key
from orchconverge.core.target import Sha
from orchconverge.core.values import Part


class Action(Struct, frozen=True, kw_only=True):
    """One thing to do. Its outcome comes back in `Seen` or as a line of the ledger, never as a return value."""


class Append(Action, frozen=True, kw_only=True):
    """Write this fact."""

    fact: AnyFact


class LookAtTarget(Action, frozen=True, kw_only=True):
    """Ask git where the target stands, and in place how the checkout stands."""


class LookAtWork(Action, frozen=True, kw_only=True):
    """Ask git what a branch added to its base."""

    branch: str


class LookAtContents(Action, frozen=True, kw_only=True):
    """Ask git what the files that these branches changed held before and after."""

    branches: tuple[str, ...]


class StartMind(Action, frozen=True, kw_only=True):
    """Write the brief, make the worktree, open the tmux session with the supervisor in it."""

    branch: str


class ReadMind(Action, frozen=True, kw_only=True):
    """Read what an ended mind left: output, report, head; keep what it did not commit."""

    branch: str


class EndMind(Action, frozen=True, kw_only=True):
    """End a mind and its whole process tree."""

    branch: str


class KillMind(Action, frozen=True, kw_only=True):
    """End a mind and its whole process tree without giving it time."""

    branch: str


class Check(Action, frozen=True, kw_only=True):
    """Run one criterion on one tree, under the supervisor; git's own kinds are answered at once."""

    key: Key
    commit: Sha


class EndChecks(Action, frozen=True, kw_only=True):
    """End the checks that run."""


class Spawn(Action, frozen=True, kw_only=True):
    """Write this fact unless ``most`` minds run already, in all basins of the repository: counted under the spawn lock."""

    fact: BranchSpawned
    most: int


class Try(Action, frozen=True, kw_only=True):
    """Merge a part onto a commit in a throwaway worktree, and make a commit of the result that no ref has."""

    part: Part
    onto: Sha


class Offer(Action, frozen=True, kw_only=True):
    """Point the proposal's ref at the end of its chain, so that git keeps it."""

    head: Sha


class Land(Action, frozen=True, kw_only=True):
    """Move the target from ``tip`` to ``head``, gated commits of ours, by compare-and-swap."""

    tip: Sha
    head: Sha


class CleanUp(Action, frozen=True, kw_only=True):
    """Close the session of a settled branch and remove its worktree, after its commits are on a keep-ref."""

    branch: str


class StartStep(Action, frozen=True, kw_only=True):
    """Run one step of the final chain under the supervisor."""

    round: int
    step: str


class EndStep(Action, frozen=True, kw_only=True):
    """End the step that runs."""


class Sleep(Action, frozen=True, kw_only=True):
    """Nothing is due before this monotonic time, in seconds. Anything else that happens wakes the controller earlier."""

    until: float


class Finish(Action, frozen=True, kw_only=True):
    """The run is over: leave."""
