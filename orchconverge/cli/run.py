"""`run` and `resume`: from words to a declared basin, which `launch` then drives."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Sequence
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
    from orchconverge.core.target import Criterion
    from orchconverge.core.values import Limits, Settings

F = TypeVar("F", bound=Callable[..., Any])
MOST_GOAL = 16 << 20


def loop_options(function: F) -> F:
    """The options that `run` and `resume` share: those that a resume may change."""
    options = [
        click.option("--max-attempts", type=click.IntRange(0), help="Attempts at most (10). 0: no limit."),
        click.option("--max-hours", type=click.FloatRange(0), help="Hours of active time at most (3). 0: no limit."),
        click.option("--interval", type=click.FloatRange(0), help="Minutes from start to start of attempts (5)."),
        click.option(
            "--engine", help="NAME[:MODEL][,NAME…], as `orchconverge engines` lists them. Default: the first one found."
        ),
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


def from_option(function: F) -> F:
    """The option that names the pursuits that a goal starts from."""
    said = "Start from what this pursuit learned and left open; may be repeated."
    return click.option("--from", "parents", multiple=True, metavar="BASIN", help=said)(function)


def widen_option(function: F) -> F:
    """The option that says when attempts get more minds than they were asked for."""
    said = "When attempts get more minds: on a stall (stall), by failures (f4), or always N."
    return click.option("--widen", metavar="stall|f4|N", help=said)(function)


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
@click.option("--minds", type=click.IntRange(1), help="Minds of an attempt, side by side (1).")
@widen_option
@click.option("--lock", type=click.Choice(["auto", "person"]), help="Who admits what passed the gate (auto).")
@from_option
def run(goal: str | None, foreground: bool, **given: Any) -> int:  # noqa: ANN401 - click's own values
    """Start: write the goal down as a target, and drive it until its criteria hold or a limit is reached."""
    cwd = bootstrap.here()
    text, worded = goal_of(goal, given.pop("goal_file"))
    for name, value in worded.items():
        if given.get(name) is None:
            given[name] = value
    loaded = bootstrap.load(cwd, _flags(given))
    consent(loaded)
    with bootstrap.world(cwd, loaded, drives=foreground) as world:
        request = _request(world, loaded.config, text, given)
        from orchconverge.app.start import declare

        declared = declare(world, request, cwd=cwd)
        warn(request.criteria)
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
        from orchconverge.app.control import free, named, unfinished

        found = free(world, named(world, basin, verb="resume", wanted=unfinished))
        world.panes.ready()
        declared = resumed(world, loaded, found, given)
        accept(world, found, accepted=accepted)
        return launch(world, loaded, declared, foreground=foreground, flags=_flags(given))


def resumed(world: World, loaded: Loaded, basin: Basin, given: dict[str, Any], *, again: str = "") -> Declared:
    """The run as it was, with what is given now put in its place. Raises `Refused` where nothing is left to do.

    ``again`` is a branch that one attempt is to make anew, and no more.
    """
    from orchconverge.app.control import steps_left, unfinished
    from orchconverge.app.start import Declared
    from orchconverge.core.outlook import outlook
    from orchconverge.core.seen import Now

    if basin.run is None:
        raise Refused(f"{basin.id} was declared and never started", hint=f"orchconverge open {basin.id}")
    if not unfinished(basin):
        raise Refused(f"{basin.id} is {basin.phase}", hint="orchconverge status shows it; a new goal is a new start")
    settings = _resettled(loaded, basin, basin.run.settings, given)
    if again:
        settings = replace(settings, loop=False, retries=again)
    run = replace(
        basin.run,
        settings=settings,
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


def _resettled(loaded: Loaded, basin: Basin, settings: Settings, given: dict[str, Any]) -> Settings:
    """The settings of the run, what was given now in their place; of the files only what needs consent, which was asked for.

    What was to end after one wave goes on, but for a wave that was interrupted.
    """
    changes: dict[str, Any] = {key: getattr(loaded.config, key) for key in WITH_CONSENT if key in loaded.origins}
    if "chain" in loaded.origins:
        changes |= {"replaced": loaded.config.chain.commands(), "stepSeconds": loaded.config.chain.minutes * 60}
    if basin.attempt is None:
        changes |= {"loop": True, "retries": ""}
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
    return replace(settings, engines=ready_engines(tuple(engines), settings))


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


def goal_of(goal: str | None, path: str | None) -> tuple[str, dict[str, float]]:
    """The goal byte for byte, and the limits that an `/orch` text carries. Raises `Refused`."""
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
    names = ("max_attempts", "max_hours", "interval", "engine", "minds", "attempt_minutes", "final", "lock", "widen")
    return {name: given[name] for name in names if given.get(name) is not None}


def warn(criteria: Sequence[Criterion]) -> None:
    """Say on standard error where a target rests on a judge's word alone."""
    from orchconverge.core.judging import warning

    if said := warning(criteria):
        click.echo(f"warning: {said}", err=True)


def criteria_of(root: Path, texts: Sequence[str], *, add_found: bool) -> tuple[Criterion, ...]:
    """The criteria that were typed, with the conditions, or with ``add_found`` all, that the repository has; else those alone."""
    from orchconverge.adapters import finder

    found = finder.found(root)
    typed = tuple(finder.criterion_from(text, found) for text in texts)
    names = {c.name for c in typed}
    return typed + tuple(c for c in found if c.name not in names and (c.condition or add_found or not typed))


def _split(argv: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(argv))
    except ValueError as error:
        raise Refused(f"--argv cannot be split: {error}", hint="quote it as for a shell") from error


def _request(world: World, config: Config, goal: str, given: dict[str, Any]) -> Request:
    from orchconverge.adapters.stages import stages_of_goal
    from orchconverge.core.target import Budget

    return replace(
        request_of(config, given),
        goal=goal,
        criteria=criteria_of(world.git.root, given["criteria"], add_found=given["add_found"]),
        into=given["into"],
        may_change=(*given["may_change"], *config.may_change),
        budget=Budget(usd=given["usd"], tokens=given["tokens"]),
        stages=stages_of_goal(world.git.root, goal),
        parents=given["parents"],
    )


def request_of(config: Config, given: dict[str, Any]) -> Request:
    """How a run is to be made, by what was typed and the settings; what it is for is left open. Raises `Refused`."""
    from orchconverge.app.start import Request
    from orchconverge.core.values import Settings, Thresholds

    argv = _split(given["argv"]) if given["argv"] else ()
    place: Literal["here", "fresh"] | None = given["place"]
    settings = Settings(
        checkout=str(bootstrap.here()),
        place=place or "fresh",
        engines=(),
        argv=argv,
        script=given["script"] or "",
        permissions=config.permissions,
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
        goal="",
        criteria=(),
        engines=ready_engines(engines, settings),
        attempts=config.max_attempts or None,
        hours=config.max_hours or None,
        interval=config.interval * 60,
        place=place,
        minds=config.minds,
        argv=argv,
        script=given["script"] or "",
        allow_dirty=given["allow_dirty"],
        approaches=tuple(given["approaches"]) or config.approaches,
        chain=config.final,
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
        max_minds=config.max_minds,
        widen=config.widen,
        harvest_tries=config.harvest_tries,
        harvest_minutes=config.harvest_minutes,
        thresholds=Thresholds(**config.convergence.model_dump()),
        replaced=config.chain.commands(),
        step_seconds=config.chain.minutes * 60,
    )


def ready_engines(engines: tuple[str, ...], settings: Settings) -> tuple[str, ...]:
    """The engines of a chain, each checked as far as can be without a request. Raises `Refused`.

    One that is not installed is passed over as long as another can be used.
    """
    from orchconverge.adapters.engines import ENGINES, ready

    refused: list[Refused] = []
    for engine in engines:
        name = engine.partition(":")[0]
        try:
            ready(engine, os.environ, settings)
        except Refused as refusal:
            if name not in ENGINES or len(engines) == 1:
                raise
            refused.append(refusal)
    if refused and len(refused) == len(engines):
        raise refused[0]
    return engines
