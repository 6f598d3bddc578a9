"""What the steps of the final chain share: what they need of the outside, and what may be pushed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from orchconverge.app.world import World
from orchconverge.core.state import Basin, Run
from orchconverge.core.target import Sha
from orchconverge.errors import Refused
from orchconverge.ports import Git, Ledger
from orchconverge.ports.forge import Forge

REPORTS = "docs/convergence-reports"
AT_MOST = 3.0


def nothing_else() -> AbstractContextManager[World]:
    """Nothing else is at hand. Raises `Refused`."""
    raise Refused("no mind can be started from here", hint="orchconverge doctor")


@dataclass(frozen=True, kw_only=True)
class Closing:
    """What a step needs of the outside: far less than a controller, so that it starts fast. ``state`` is our folder.

    ``forge`` is where a basin's pull request is, looked for at each call, and may raise `ForgeError`; ``record`` is the
    record of it in ``state``, for where there is no forge.
    """

    ledger: Ledger
    git: Git
    state: Path
    forge: Callable[[Basin, Run], Forge]
    record: Callable[[Basin, Run], Forge]
    world: Callable[[], AbstractContextManager[World]] = nothing_else
    """Everything else, opened by a step that starts minds or waits."""


def moved(git: Git, basin: Basin, head: Sha) -> str:
    """Why ``head`` may not be pushed: it is neither what was judged nor that with reports of ours on top. Else empty."""
    judged = basin.tip.head if basin.tip is not None else None
    if judged is None:
        return "nothing was checked yet, and what was not checked is not pushed"
    if head == judged:
        return ""
    work = git.work(judged, head)
    ours = all(commit.subject == report_subject(basin) for commit in work.commits)
    if work.descends and ours and all(path.startswith(f"{REPORTS}/") for path in work.changed):
        return ""
    return f"the target moved (was {judged:.8}, is {head:.8}): resume checks it again"


def end_now(world: World, names: Sequence[str]) -> None:
    """Kill what is supervised under these names, what is about to begin too. Takes `AT_MOST` seconds and no more."""
    ends, left = world.clock.monotonic() + AT_MOST, list(names)
    while left and world.clock.monotonic() < ends:
        left = [name for name in left if not world.supervisors.kill(name)]


def report_subject(basin: Basin) -> str:
    """The subject of the commit that holds the report."""
    return f"docs: convergence report of {basin.id}"
