"""`declare` and `amend`: write a target down without starting anything, and change it between attempts."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec
from msgspec.structs import replace

from orchconverge import bootstrap
from orchconverge.cli.records import opened, said
from orchconverge.cli.run import criteria_of, from_option, goal_of, warn
from orchconverge.core.views import target as view
from orchconverge.errors import Refused

if TYPE_CHECKING:
    from orchconverge.app.start import Request
    from orchconverge.config import Config
    from orchconverge.core.state import Basin
    from orchconverge.core.target import Criterion, Stage, Termination

IN_THE_FILE = ("criteria", "add_found")
"""What a target file says for itself: given beside one, it could only contradict it."""
OPENED_WITH = 3
"""Minds of the wave that is suggested: one head compares about three."""


def target_options(function: Any) -> Any:  # noqa: ANN401 - click's own values
    """The options that say what a target is; how it is run is said to `open`."""
    options = [
        click.option(
            "--target", "file", type=click.Path(path_type=Path), help="A target file (TOML) instead of a goal."
        ),
        click.option(
            "--goal-file", type=click.Path(dir_okay=False), help="Read the goal from a file (`-`: standard input)."
        ),
        click.option(
            "--criterion", "criteria", multiple=True, metavar="NAME=COMMAND", help="What must exit 0; may be repeated."
        ),
        click.option("--add-found", is_flag=True, help="Keep the criteria found in the repository beside those given."),
        click.option(
            "--into", metavar="BRANCH", help="The branch to bring there. Default: the current one, or one of its own."
        ),
        click.option("--approach", "approaches", multiple=True, help="One for each mind, in order; may be repeated."),
        click.option(
            "--may-change", multiple=True, metavar="GLOB", help="Tests, CI or hooks that may be changed unflagged."
        ),
        click.option("--max-attempts", type=click.IntRange(0), help="Attempts at most (10). 0: no limit."),
        click.option("--max-hours", type=click.FloatRange(0), help="Hours of active time at most (3). 0: no limit."),
        click.option("--usd", type=click.FloatRange(0, min_open=True), help="Dollars at most."),
        click.option("--tokens", type=click.IntRange(1), help="Tokens at most."),
        click.option("--lock", type=click.Choice(["person", "auto"]), help="Who admits what passed the gate (person)."),
        click.option(
            "--json", "as_json", is_flag=True, help="What was understood as one object, with the keys of a target file."
        ),
    ]
    for option in reversed(options):
        function = option(function)
    return function


@click.command()
@click.argument("goal", required=False)
@target_options
@from_option
def declare(goal: str | None, file: Path | None, as_json: bool, **given: Any) -> int:  # noqa: ANN401 - click's own values
    """Write a target down and start nothing: say what was understood, and what to type next."""
    from orchconverge.app.start import drafted, write_down

    path = given.pop("goal_file")
    contradicting = goal is not None or path is not None or any(given[name] for name in IN_THE_FILE)
    if file is not None and contradicting:
        raise Refused(
            "a target file says its goal and criteria itself", hint=f"write them into {file}, or leave out --target"
        )
    worded: dict[str, float] = {}
    if file is None:
        given["goal"], worded = goal_of(goal, path)
    for name, value in worded.items():
        if given.get(name) is None:
            given[name] = value
    cwd = bootstrap.here()
    settings = {name: given[name] for name in ("max_attempts", "max_hours", "lock") if given.get(name) is not None}
    loaded = bootstrap.load(cwd, settings)
    with bootstrap.world(cwd, loaded, drives=False) as world:
        typed = _typed if file is None else _from_file
        request = typed(world.git.root, loaded.config, given, cwd / file if file is not None else None)
        basin, _ = write_down(world, request, drafted(world, request))
        shown = world.ledger.state.basins[basin]
    warn(shown.criteria)
    following = f"orchconverge open {shown.id} --minds {OPENED_WITH}"
    if as_json:
        document = view.document(shown) | {"next": following}
        sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(document)) + b"\n")
    else:
        print(f"{view.block(shown)}\n\nNothing was started. Next: {following}")
    return 0


def _typed(root: Path, config: Config, given: dict[str, Any], _: Path | None) -> Request:
    from orchconverge.adapters.stages import stages_of_goal
    from orchconverge.app.start import Request
    from orchconverge.core.target import Budget

    return Request(
        goal=given["goal"],
        criteria=criteria_of(root, given["criteria"], add_found=given["add_found"]),
        attempts=config.max_attempts or None,
        hours=config.max_hours or None,
        into=given["into"],
        approaches=tuple(given["approaches"]) or config.approaches,
        may_change=(*given["may_change"], *config.may_change),
        budget=Budget(usd=given["usd"], tokens=given["tokens"]),
        lock=config.lock or "person",
        remote=config.remote,
        stages=stages_of_goal(root, given["goal"]),
        parents=given["parents"],
    )


def _from_file(root: Path, config: Config, given: dict[str, Any], file: Path | None) -> Request:
    """A target file, and in place of what it says what was typed. What is not in it is as settings have it."""
    from orchconverge.adapters import finder
    from orchconverge.app.start import Request
    from orchconverge.target_file import load_target_file

    assert file is not None
    found = load_target_file(file, root=root, found=finder.found(root))
    limits = _limited(found.termination, given)
    return Request(
        goal=found.macrostate,
        basin=found.basin,
        title=found.title,
        macrostate=found.macrostate,
        criteria=found.criteria,
        attempts=limits.attempts,
        hours=limits.hours,
        until=limits.until,
        into=given["into"] or found.branch,
        approaches=tuple(given["approaches"]) or found.approaches or config.approaches,
        may_change=(*found.may_change, *given["may_change"], *config.may_change),
        budget=replace(found.budget, **{name: given[name] for name in ("usd", "tokens") if given[name] is not None}),
        lock=given["lock"] or found.lock or config.lock or "person",
        remote=config.remote,
        stages=found.stages,
        parents=given["parents"],
    )


def _limited(termination: Termination, given: dict[str, Any]) -> Termination:
    """The termination with what was typed in its place; 0 is no limit. Raises `Refused` where nothing would end it."""
    changes = {
        key: given[name] or None
        for key, name in (("attempts", "max_attempts"), ("hours", "max_hours"))
        if given[name] is not None
    }
    try:
        return replace(termination, **changes)
    except ValueError as error:
        raise Refused(str(error), hint="give --max-attempts N or --max-hours H") from error


@click.command()
@click.argument("basin")
@click.option("--why", help="Why it is changed; kept. Asked for on a terminal.")
@click.option(
    "--criterion",
    "criteria",
    multiple=True,
    metavar="NAME=COMMAND",
    help="These instead of its criteria, conditions kept.",
)
@click.option("--add-criterion", "added", multiple=True, metavar="NAME=COMMAND", help="One more; may be repeated.")
@click.option("--max-attempts", type=click.IntRange(0), help="Attempts at most. 0: no limit.")
@click.option("--max-hours", type=click.FloatRange(0), help="Hours of active time at most. 0: no limit.")
@click.option("--usd", type=click.FloatRange(0, min_open=True), help="Dollars at most.")
@click.option(
    "--stage",
    "stages",
    multiple=True,
    metavar="FILE",
    help="A command that declares a stage, e.g. commands/plan.md: these instead of its stages.",
)
@click.option("--no-stages", is_flag=True, help="Take its stages away.")
def amend(
    basin: str,
    why: str | None,
    criteria: tuple[str, ...],
    added: tuple[str, ...],
    stages: tuple[str, ...],
    no_stages: bool,
    **given: Any,  # noqa: ANN401 - click's own values
) -> int:
    """Change a written target between attempts, and say the difference."""
    if stages and no_stages:
        raise Refused("--stage and --no-stages were both given", hint="give one of them")
    from orchconverge.app.control import named
    from orchconverge.app.records import amend as amend_basin

    with opened() as world:
        found = named(world, basin, verb="amend", wanted=lambda b: True)
        reason = said(why, question="why is it changed?", missing=f'orchconverge amend {found.id} --why "why" …')
        wanted = _amended(world.git.root, found, criteria, added)
        spend = found.budget if given["usd"] is None else replace(found.budget, usd=given["usd"])
        limits = _limited(found.termination, given)
        typed = () if no_stages else _stages(world.git.root, stages)
        before = amend_basin(world, found, why=reason, criteria=wanted, termination=limits, budget=spend, stages=typed)
        after = world.ledger.state.basins[found.id]
    warn(after.criteria)
    print(f"{after.id} is amended:")
    for line in view.difference(before, after):
        print(f"  {line}")
    print(_follows(before, after, given))
    return 0


def _amended(root: Path, basin: Basin, texts: tuple[str, ...], added: tuple[str, ...]) -> tuple[Criterion, ...]:
    from orchconverge.adapters import finder

    found = finder.found(root)
    kept = basin.criteria
    if texts:
        typed = tuple(finder.criterion_from(text, found) for text in texts)
        names = {c.name for c in typed}
        kept = (*typed, *(c for c in basin.criteria if c.condition and c.name not in names))
    return (*kept, *(finder.criterion_from(text, found) for text in added))


def _stages(root: Path, paths: tuple[str, ...]) -> tuple[Stage, ...] | None:
    from orchconverge.adapters.stages import stage_at

    return tuple(stage_at(root, path) for path in paths) or None


def _follows(before: Basin, after: Basin, given: dict[str, Any]) -> str:
    if after.run is None:
        return f"Next: orchconverge open {after.id} --minds {OPENED_WITH}"
    if (before.termination, before.budget) == (after.termination, after.budget):
        return (
            "It is judged by that from now on."
            if after.running is not None
            else f"Next: orchconverge resume {after.id}"
        )
    flags = [f"--{name.replace('_', '-')} {value:g}" for name, value in given.items() if value is not None]
    return f"A run has its own limits, until it is resumed with these: orchconverge resume {after.id} {' '.join(flags)}"
