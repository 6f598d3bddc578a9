"""`open` and `retry`: one wave of minds at a declared target, or one mind at what could not be merged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from orchconverge import bootstrap
from orchconverge.cli.consent import consent
from orchconverge.cli.launch import launch
from orchconverge.cli.run import loop_options, request_of, resumed, widen_option
from orchconverge.core.state import Phase
from orchconverge.errors import Refused

if TYPE_CHECKING:
    from orchconverge.app.start import Declared
    from orchconverge.app.world import World
    from orchconverge.config import Loaded
    from orchconverge.core.state import Basin
    from orchconverge.core.values import Limits

GIVEN = ("max_attempts", "max_hours", "interval", "engine", "minds", "attempt_minutes", "final", "lock", "widen")


@click.command("open")
@click.argument("name", metavar="BASIN")
@click.option("--minds", type=click.IntRange(1), help="Minds of the wave, side by side (1).")
@click.option("--approach", "approaches", multiple=True, help="One for each mind, in order; may be repeated.")
@click.option("--lock", type=click.Choice(["person", "auto"]), help="Who admits what passed the gate (as declared).")
@widen_option
@click.option("--loop", is_flag=True, help="Go on with further waves until the target holds or a limit is reached.")
@loop_options
def open_(name: str, foreground: bool, loop: bool, **given: Any) -> int:  # noqa: ANN401 - click's own values
    """Send a wave of minds at a declared target, each in a worktree of its own, all from one base.

    It ends when each has become a candidate or failed; what they are worth together is ready at the lock then.
    """
    cwd = bootstrap.here()
    flags = {key: given[key] for key in GIVEN if given.get(key) is not None}
    loaded = bootstrap.load(cwd, flags)
    consent(loaded)
    with bootstrap.world(cwd, loaded, drives=foreground) as world:
        basin = _free(world, name)
        declared = _opened(world, loaded, basin, given, loop=loop)
        return launch(world, loaded, declared, foreground=foreground, flags=flags)


def _free(world: World, name: str) -> Basin:
    """The basin, if another wave can be sent at it now."""
    from orchconverge.app.control import free, named

    basin = named(world, name, verb="open", wanted=lambda found: found.phase == "open")
    if basin.phase != "open":
        raise Refused(f"{basin.id} is {basin.phase}", hint="a new goal is a new start")
    basin = free(world, basin)
    if basin.attempt is not None:
        raise Refused(
            f"attempt {basin.attempt.number} of {basin.id} was interrupted", hint=f"orchconverge resume {basin.id}"
        )
    return basin


def _opened(world: World, loaded: Loaded, basin: Basin, given: dict[str, Any], *, loop: bool) -> Declared:
    from orchconverge.app.start import Declared, Draft, settled

    lock = given["lock"] or basin.lock
    if lock == "person" and basin.queue:
        raise Refused(
            f"{', '.join(basin.queue[:3])} of {basin.id} wait at the lock, and the next wave begins from what you decide",
            hint=f"orchconverge lock {basin.id}",
        )
    head = world.git.resolve(f"refs/heads/{basin.target}")
    if head is None:
        raise Refused(f"the branch {basin.target} is gone", hint=f"git branch {basin.target} COMMIT brings it back")
    request = request_of(loaded.config, given | {"place": "fresh", "allow_dirty": False})
    draft = Draft(title=basin.title, name=basin.id, target=basin.target, new=False, head=head)
    base = basin.run.settings.base if basin.run is not None else str(head)
    settings = settled(world, request, draft, cwd=bootstrap.here())
    approaches = _in_turn(given["approaches"], basin.branches) or basin.approaches or settings.approaches
    settings = replace(settings, lock=given["lock"], loop=loop, base=base, approaches=approaches)
    return Declared(basin=basin.id, target=basin.target, settings=settings, limits=_limits(basin, given))


def _in_turn(typed: tuple[str, ...], branches: int) -> tuple[str, ...]:
    """What was typed, turned so that the first of it goes to the first new branch: approaches are dealt by a branch's number."""
    first = len(typed) - branches % len(typed) if typed else 0
    return (*typed[first:], *typed[:first])


def _limits(basin: Basin, given: dict[str, Any]) -> Limits:
    """The limits that the target was declared with; what is typed now takes their place, and 0 is none."""
    from orchconverge.core.values import Limits

    ends, budget = basin.termination, basin.budget
    attempts, hours = given["max_attempts"], given["max_hours"]
    return Limits(
        attempts=ends.attempts if attempts is None else attempts or None,
        hours=ends.hours if hours is None else hours or None,
        until=ends.until,
        usd=given["usd"] or budget.usd,
        tokens=given["tokens"] or budget.tokens,
        minds=budget.minds,
    )


@click.command()
@click.argument("name", metavar="BRANCH")
@loop_options
def retry(name: str, foreground: bool, **given: Any) -> int:  # noqa: ANN401 - click's own values
    """Give a candidate that could not be admitted to a mind again, with its diff and what stood in its way."""
    from orchconverge.app.records import branch_named

    cwd = bootstrap.here()
    flags = {key: given[key] for key in GIVEN if given.get(key) is not None}
    loaded = bootstrap.load(cwd, flags)
    consent(loaded)
    with bootstrap.world(cwd, loaded, drives=foreground) as world:
        world.ledger.catch_up()
        branch = branch_named(world.ledger.state, name)
        done = branch.phase not in (Phase.CANDIDATE, Phase.FAILED, Phase.PRUNED)
        if branch.head is None or branch.place == "here" or done:
            raise Refused(
                f"{name} is {branch.phase.value}: there is nothing to make again",
                hint="orchconverge open makes a new wave",
            )
        basin = _free(world, branch.basin)
        world.panes.ready()
        declared = resumed(world, loaded, basin, given, again=name)
        return launch(world, loaded, declared, foreground=foreground, flags=flags)
