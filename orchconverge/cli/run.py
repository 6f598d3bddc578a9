"""`run` and `resume`: from words to a declared basin, which `launch` then drives."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click
from msgspec.structs import replace

from orchconverge import bootstrap
from orchconverge.cli.consent import accept, consent
from orchconverge.cli.launch import launch
from orchconverge.config import WITH_CONSENT, steps
from orchconverge.errors import Refused

if TYPE_CHECKING:
    from orchconverge.app.start import Declared, Request
    from orchconverge.app.world import World
    from orchconverge.config import Config, Loaded
    from orchconverge.core.state import Basin
    from orchconverge.core.values import Limits, Settings

F = TypeVar("F", bound=Callable[..., Any])
MOST_GOAL = 16 << 20


def loop_options(function: F) -> F:
    """The options that `run` and `resume` share: those that a resume may change."""
    options = [
        click.option("--max-attempts", type=click.IntRange(0), help="Attempts at most (10). 0: no limit."),
        click.option("--max-hours", type=click.FloatRange(0), help="Hours of active time at most (3). 0: no limit."),
        click.option("--interval", type=click.FloatRange(0), help="Minutes from start to start of attempts (5)."),
        click.option("--engine", help="NAME[:MODEL][,NAME…]: claude, command, scripted. Default: the first one found."),
        click.option("--argv", help='The program of `--engine command`, split as a shell would: "my-agent --flag".'),
        click.option("--script", help="The file that `--engine scripted` plays."),
        click.option("--attempt-minutes", type=click.FloatRange(0, min_open=True), help="Deadline of one mind (60)."),
        click.option(
            "--usd", type=click.FloatRange(0, min_open=True), help="Dollars at most, where the engine says them."
        ),
        click.option("--tokens", type=click.IntRange(1), help="Tokens at most."),
        click.option("--final", help="Steps after the loop: none, or push,review,copilot. A report ends them."),
        click.option("--foreground", is_flag=True, help="Run the controller here, not in tmux."),
    ]
    for option in reversed(options):
        function = option(function)
    return function


@click.command()
@click.argument("goal", required=False)
@loop_options
@click.option("--goal-file", type=click.Path(dir_okay=False), help="Read the goal from a file (`-`: standard input).")
@click.option(
    "--criterion", "criteria", multiple=True, metavar="NAME=COMMAND", help="What must exit 0; may be repeated."
)
@click.option("--add-found", is_flag=True, help="Keep the criteria found in the repository beside those given.")
@click.option(
    "--into", metavar="BRANCH", help="The branch to bring there. Default: the current one, or one of its own."
)
@click.option("--worktree", "place", flag_value="fresh", help="Work in worktrees of our own, not in this directory.")
@click.option("--here", "place", flag_value="here", help="Work in this directory, on the branch that is checked out.")
@click.option("--allow-dirty", is_flag=True, help="Work here on top of uncommitted changes.")
@click.option("--approach", "approaches", multiple=True, help="One for each attempt, in order; may be repeated.")
@click.option("--may-change", multiple=True, metavar="GLOB", help="Tests, CI or hooks that may be changed unflagged.")
def run(goal: str | None, foreground: bool, **given: Any) -> int:  # noqa: ANN401 - click's own values
    """Start: write the goal down as a target, and drive it until its criteria hold or a limit is reached."""
    cwd = bootstrap.here()
    text, worded = _goal(goal, given.pop("goal_file"))
    for name, value in worded.items():
        if given.get(name) is None:
            given[name] = value
    loaded = bootstrap.load(cwd, _flags(given))
    consent(loaded)
    with bootstrap.world(cwd, loaded, drives=foreground) as world:
        request = _request(world, loaded.config, text, given)
        from orchconverge.app.start import declare

        declared = declare(world, request, cwd=cwd)
        return launch(world, loaded, declared, foreground=foreground, flags=_flags(given))


@click.command()
@click.argument("basin", required=False)
@loop_options
@click.option("--accept", "accepted", is_flag=True, help="Take a result that was flagged as it is.")
def resume(basin: str | None, foreground: bool, accepted: bool, **given: Any) -> int:  # noqa: ANN401 - click's own values
    """Go on with a run that stopped, reached a limit, or lost its controller. Flags given now replace the old ones."""
    cwd = bootstrap.here()
    loaded = bootstrap.load(cwd, _flags(given))
    consent(loaded)
    with bootstrap.world(cwd, loaded, drives=foreground) as world:
        from orchconverge.app.control import named, unfinished

        found = named(world, basin, verb="resume", wanted=unfinished)
        if world.leases.held(f"lease/{found.id}"):
            raise Refused(f"{found.id} runs already", hint=f"orchconverge status {found.id}")
        world.panes.ready()
        declared = resumed(world, loaded, found, given)
        accept(world, found, accepted=accepted)
        return launch(world, loaded, declared, foreground=foreground, flags=_flags(given))


def resumed(world: World, loaded: Loaded, basin: Basin, given: dict[str, Any]) -> Declared:
    """The run as it was, with what is given now put in its place. Raises `Refused` where nothing is left to do."""
    from orchconverge.app.control import steps_left, unfinished
    from orchconverge.app.start import Declared
    from orchconverge.core.outlook import outlook
    from orchconverge.core.seen import Now

    if basin.run is None:
        raise Refused(f"{basin.id} was declared and never started", hint="start it again with its goal")
    if not unfinished(basin):
        raise Refused(f"{basin.id} is {basin.phase}", hint="orchconverge status shows it; a new goal is a new start")
    run = replace(
        basin.run,
        settings=_resettled(world, loaded, basin.run.settings, given),
        limits=_relimited(basin.run.limits, given),
        open=True,
        active_started=float("inf"),
        first=basin.attempts + 1,
    )
    now = Now(active=basin.active, mono=0.0, wall=world.clock.now())
    look = outlook(basin, run, now) if basin.attempt is None and not steps_left(basin) else None
    if look is not None and look.stop == "limit" and basin.run.stopped == "limit":
        flags = "--usd D, or --tokens N" if look.decision == "BUDGET_LIMIT" else "--max-attempts N, or --max-hours H"
        raise Refused(f"{basin.id} is at its limit: {look.text}", hint=f"raise it: orchconverge --resume {flags}")
    return Declared(basin=basin.id, target=basin.target, settings=run.settings, limits=run.limits)


def _resettled(world: World, loaded: Loaded, settings: Settings, given: dict[str, Any]) -> Settings:
    """The settings of the run, what was given now in their place; of the files only what needs consent, which was asked for."""
    changes: dict[str, Any] = {key: getattr(loaded.config, key) for key in WITH_CONSENT if key in loaded.origins}
    if given.get("interval") is not None:
        changes["interval"] = given["interval"] * 60
    if given.get("attempt_minutes") is not None:
        changes["attemptSeconds"] = given["attempt_minutes"] * 60
    if given.get("argv"):
        changes["argv"] = _split(given["argv"])
    if given.get("script"):
        changes["script"] = str((bootstrap.here() / given["script"]).resolve())
    if given.get("final") is not None:
        changes["chain"] = steps(given["final"])
    settings = replace(settings, **changes)
    engine: str = given.get("engine") or ""
    engines = engine.split(",") if engine else settings.engines
    return replace(settings, engines=_ready(world, tuple(engines), settings))


def _relimited(limits: Limits, given: dict[str, Any]) -> Limits:
    changes: dict[str, Any] = {}
    if given.get("max_attempts") is not None:
        changes["attempts"] = given["max_attempts"] or None
    if given.get("max_hours") is not None:
        changes["hours"] = given["max_hours"] or None
    changes |= {name: given[name] for name in ("usd", "tokens") if given.get(name) is not None}
    limits = replace(limits, **changes)
    if limits.attempts is None and limits.hours is None and limits.until is None:
        raise Refused("a run needs a stop condition", hint="give --max-attempts N or --max-hours H")
    return limits


# --- from words to a request -----------------------------------------------------------------------------------------


def _goal(goal: str | None, path: str | None) -> tuple[str, dict[str, float]]:
    """The goal byte for byte, and the limits that an `/orch` text carries."""
    from orchconverge.app.start import orch

    if path is not None and goal is not None:
        raise Refused("a goal and --goal-file were both given", hint="give one of them")
    if goal == "-" or path == "-":
        data = sys.stdin.buffer.read(MOST_GOAL + 1)
    elif path is not None:
        try:
            with Path(path).open("rb") as file:
                data = file.read(MOST_GOAL + 1)
        except OSError as error:
            raise Refused(
                f"cannot read {path}: {error.strerror}", hint="give an existing file to --goal-file"
            ) from error
    elif goal is None:
        raise Refused("there is no goal", hint='say what should be true when it is done: orchconverge "…"')
    else:
        return orch(goal)
    if len(data) > MOST_GOAL:
        raise Refused(f"the goal is longer than {MOST_GOAL >> 20} MiB", hint="put the material into the repository")
    try:
        return data.decode("utf-8"), {}
    except UnicodeDecodeError as error:
        raise Refused("the goal is not UTF-8", hint="iconv -t UTF-8 turns it into that") from error


def _flags(given: dict[str, Any]) -> dict[str, Any]:
    names = ("max_attempts", "max_hours", "interval", "engine", "attempt_minutes", "final")
    return {name: given[name] for name in names if given.get(name) is not None}


def _split(argv: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(argv))
    except ValueError as error:
        raise Refused(f"--argv cannot be split: {error}", hint="quote it as for a shell") from error


def _request(world: World, config: Config, goal: str, given: dict[str, Any]) -> Request:
    from orchconverge.adapters import finder
    from orchconverge.app.start import Request
    from orchconverge.core.target import Budget
    from orchconverge.core.values import Settings

    found = finder.found(world.git.root)
    criteria = tuple(finder.criterion_from(text, found) for text in given["criteria"])
    names = {c.name for c in criteria}
    if criteria and given["add_found"]:
        criteria += tuple(c for c in found if c.name not in names)
    elif criteria:
        criteria += tuple(c for c in found if c.condition and c.name not in names)
    argv = _split(given["argv"]) if given["argv"] else ()
    place: Literal["here", "fresh"] | None = given["place"]
    settings = Settings(
        checkout=str(bootstrap.here()), place=place or "fresh", engines=(), argv=argv, script=given["script"] or ""
    )
    engines = tuple(part for part in config.engine.split(",") if part)
    if not engines:
        from orchconverge.adapters.engines import detect, supported

        detected = detect(os.environ)
        if detected is None:
            raise Refused(
                "no agent was found on PATH", hint=f"supported: {supported()}; scripts/demo shows it with none"
            )
        engines = (detected,)
    return Request(
        goal=goal,
        criteria=criteria or found,
        engines=_ready(world, engines, settings),
        attempts=config.max_attempts or None,
        hours=config.max_hours or None,
        interval=config.interval * 60,
        into=given["into"],
        place=place,
        minds=config.minds,
        argv=argv,
        script=given["script"] or "",
        allow_dirty=given["allow_dirty"],
        approaches=tuple(given["approaches"]) or config.approaches,
        may_change=(*given["may_change"], *config.may_change),
        chain=config.final,
        budget=Budget(usd=given["usd"], tokens=given["tokens"]),
        attempt_seconds=config.attempt_minutes * 60,
        permissions=config.permissions,
        allow=config.allow,
        setup=config.setup,
        env=config.env,
        lock=config.lock,
        remote=config.remote,
        report=config.report,
        stall_after=config.stall_after,
        backoff_base=config.backoff_base_seconds,
        backoff_cap=config.backoff_cap_seconds,
    )


def _ready(world: World, engines: tuple[str, ...], settings: Settings) -> tuple[str, ...]:
    """The engines of a chain, each checked as far as can be without a request. Raises `Refused`."""
    from orchconverge.adapters.engines import ready

    del world
    for engine in engines:
        ready(engine.partition(":")[0], os.environ, settings)
    return engines
