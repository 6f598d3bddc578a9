"""Answers the criteria of the final chain that the forge knows: `pr`, an open pull request of what was judged, and `ci`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from orchconverge.app.closing import Closing
from orchconverge.core.policy import BEFORE_CONVERGED
from orchconverge.core.seen import StepResult
from orchconverge.core.state import Basin, Run
from orchconverge.core.target import Criterion, Sha
from orchconverge.core.values import Evidence, Met
from orchconverge.core.views.text import clean
from orchconverge.errors import OrchConvergeError
from orchconverge.ports.forge import Check, Forge, ForgeError

KINDS: Final = ("pr", "ci")
POLL_SECONDS = 15.0
APPEAR_SECONDS = 60.0
"""How long after a push a first check is waited for: a forge needs a moment to begin one."""
NAMED: Final = 5
"""How many checks are named."""

Pause = Callable[[float], None]
"""Waits so many seconds."""


def asked_in(run: Run) -> str:
    """The step after which they are asked: the last one before a target has converged. Empty if the run has none."""
    return next((step for step in reversed(run.settings.chain) if step in BEFORE_CONVERGED), "")


def answered(closing: Closing, basin: Basin, run: Run, name: str, result: StepResult) -> StepResult:
    """The result of a step of the chain, with the answers that are due after it."""
    criteria = [c for c in basin.criteria if c.kind in KINDS]
    head = closing.git.resolve(f"refs/heads/{basin.target}")
    if not criteria or name != asked_in(run) or head is None:
        return result
    found = _asked(closing, basin, run, criteria, head)
    return replace(result, results=(*result.results, *found))


def _asked(closing: Closing, basin: Basin, run: Run, criteria: list[Criterion], head: Sha) -> tuple[Evidence, ...]:
    tree = closing.git.tree_of(head)

    def evidence(criterion: Criterion, met: Met, text: str) -> Evidence:
        return Evidence(criterion=criterion.name, met=met, tree=tree, excerpt=text[:2048])

    try:
        forge = closing.forge(basin, run)
        if forge.kind == "local":
            return tuple(evidence(c, "error", f"no forge is known for {run.settings.remote}") for c in criteria)
    except OrchConvergeError as error:
        return tuple(evidence(c, "unknown", _told(error)) for c in criteria)
    out = []
    for criterion in criteria:
        try:
            if criterion.kind == "pr":
                met, text = requested(forge, basin.target, head)
            else:
                met, text = _awaited(closing, forge, head, criterion.deadline)
        except ForgeError as error:
            met, text = "unknown", _told(error)
        out.append(evidence(criterion, met, text))
    return tuple(out)


def _awaited(closing: Closing, forge: Forge, head: Sha, deadline: float) -> tuple[Met, str]:
    """`passed`, by this machine's clock."""
    with closing.world() as world:
        clock = world.clock.monotonic

        def pause(seconds: float) -> None:
            ends = clock() + seconds
            while clock() < ends:
                world.wakeups.wait((), until=ends)

        return passed(forge, head, deadline, clock=clock, pause=pause)


def requested(forge: Forge, branch: str, head: Sha) -> tuple[Met, str]:
    """Whether ``head`` is what an open pull request of its branch stands at, and what there is."""
    pull = forge.find(branch)
    if pull is None or pull.state != "open":
        return "no", f"{branch} has no open pull request: `orchconverge pushl` opens one"
    if pull.head != head:
        there = pull.head[:8] if pull.head is not None else "nothing"
        return "no", f"pull request {pull.number} stands at {there}, not at {head:.8}: `orchconverge pushl`"
    return "yes", f"pull request {pull.number} {pull.url}".rstrip()


def passed(forge: Forge, head: Sha, deadline: float, *, clock: Callable[[], float], pause: Pause) -> tuple[Met, str]:
    """Whether all checks of ``head`` passed, awaited for ``deadline`` seconds. A failed one decides at once."""
    begun = clock()
    while True:
        checks = forge.checks(head)
        failed = [check for check in checks if check.state == "failed"]
        pending = [check for check in checks if check.state == "pending"]
        if failed:
            return "no", f"failed: {_named(failed)}"
        if checks and not pending:
            return "yes", f"passed: {_named(checks)}"
        left = begun + (deadline if checks else min(deadline, APPEAR_SECONDS)) - clock()
        if left <= 0 and checks:
            return "unknown", f"pending after {deadline:.0f} s: {_named(pending)}: `orchconverge --resume` asks again"
        if left <= 0:
            return "error", f"nothing checks {head:.8} on {forge.where}"
        pause(min(POLL_SECONDS, left))


def _named(checks: list[Check] | tuple[Check, ...]) -> str:
    named = [f"{clean(check.name, 80)} {check.url}".rstrip() for check in checks[:NAMED]]
    more = [f"{len(checks) - NAMED} more"] if len(checks) > NAMED else []
    return ", ".join([*named, *more])


def _told(error: OrchConvergeError) -> str:
    return f"{error.message} ({error.hint})" if error.hint else error.message
