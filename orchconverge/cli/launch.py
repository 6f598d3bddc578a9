"""From a declared basin to a controller: in its own tmux session, in the foreground, or as `_drive` in that session."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from orchconverge import bootstrap
from orchconverge.core.views.target import stage
from orchconverge.core.views.text import clean
from orchconverge.errors import INTERRUPTED, Failed, OrchConvergeError, Refused

if TYPE_CHECKING:
    from orchconverge.app.start import Declared
    from orchconverge.app.world import World
    from orchconverge.config import Loaded

START_SECONDS = 15.0
CHECK_SECONDS = 5.0


def launch(world: World, loaded: Loaded, declared: Declared, *, foreground: bool, flags: dict[str, Any]) -> int:
    """Drive here, or start a controller in the goal's own tmux session and return once it is recorded."""
    from orchconverge.cli.look import block, code_of

    if foreground:
        from orchconverge.app.drive import drive

        own = bootstrap.driving(world, declared.basin, declared.settings)
        drive(own, declared.basin, declared.settings, declared.limits)
        print(block(world.ledger, loaded.places, world.leases, declared.basin))
        record = world.ledger.state.basins[declared.basin].run
        interrupted = world.wakeups.stopping() and record is not None and record.stopped == "stopped"
        return INTERRUPTED if interrupted else code_of(world.ledger.state, declared.basin)
    from orchconverge.app import handover

    try:
        name = _open_session(world, loaded, declared, flags)
        _await_start(world, declared.basin)
    except BaseException:
        handover.drop(loaded.places.state, declared.basin)  # it holds the environment, and nobody will read it now
        raise
    print(block(world.ledger, loaded.places, world.leases, declared.basin))
    running = world.ledger.state.basins[declared.basin].running is not None
    print(f"\nAttach: {world.panes.attach_command(name)}" if running else "\nIt is over already: nothing to attach to.")
    branch = clean(declared.target)
    where = f"in this directory, on {branch}"
    if declared.settings.place != "here":
        where = f"in worktrees of its own, for the branch {branch}"
    print(f"Works {where}. No sandbox: a mind can do what you can.")
    for one in world.ledger.state.basins[declared.basin].stages:
        print(f"Stage: {stage(one)}")
    return 0


def _open_session(world: World, loaded: Loaded, declared: Declared, flags: dict[str, Any]) -> str:
    from orchconverge.adapters.tmux import session_name
    from orchconverge.app import handover
    from orchconverge.ports import SessionExists

    plain = session_name("convergence", declared.target, int(time.time()))
    for name in (plain, f"{plain}-{world.host.random()[:8]}"):
        note = handover.Handover(
            cwd=str(world.git.root),
            settings=declared.settings,
            limits=declared.limits,
            env=dict(os.environ),
            flags={key: str(value) for key, value in flags.items()},
            tmux=name,
            socket=str(world.panes.socket_path),
        )
        handover.write(loaded.places.state, declared.basin, note)
        try:
            return world.panes.open(name, bootstrap.controller_argv(loaded.places.state, declared.basin)).name
        except SessionExists:
            continue
    raise Failed(f"sessions called {plain} exist already", hint="orchconverge --foreground, or try again")


def _await_start(world: World, basin: str) -> None:
    """Until the run is recorded, and its start check passed, or took longer than one waits for it. Raises `Refused`."""
    from orchconverge.app.start import until
    from orchconverge.ports import Runs

    world.journal.runs([Runs(f"the controller of {basin} starts", deadline_seconds=START_SECONDS)])
    state = world.ledger.state
    runs = state.basins[basin].runs
    if not until(world, lambda: state.basins[basin].runs > runs, seconds=START_SECONDS):
        raise Failed(
            f"the controller of {basin} did not start within {START_SECONDS:.0f} s",
            hint=f"orchconverge logs {basin}; orchconverge resume {basin} --foreground shows why",
        )

    def checked() -> bool:
        record = state.basins[basin].run
        if record is None or not record.open or record.waiting is not None:
            return record is not None
        return record.checked and state.basins[basin].attempts > 0  # between the two it can still be refused

    world.journal.runs([Runs(f"the criteria of {basin} are run", deadline_seconds=CHECK_SECONDS)])
    until(world, checked, seconds=CHECK_SECONDS)
    world.journal.runs(())
    record = state.basins[basin].run
    if record is not None and record.stopped == "refused":
        raise Refused(record.stop_text.partition(": ")[0], hint=record.stop_text.partition(": ")[2])


@click.command(hidden=True)
@click.argument("state", type=click.Path(path_type=Path))
@click.argument("basin")
def drive(state: Path, basin: str) -> int:
    """Drive a basin in this terminal: what the goal's tmux session runs. Reads its handover."""
    from orchconverge.app import handover
    from orchconverge.app.drive import drive as drive_basin
    from orchconverge.cli.look import code_of

    note = handover.take(state, basin)
    os.environ.clear()
    os.environ.update(note.env)
    cwd = Path(note.cwd)
    os.chdir(cwd)
    loaded = bootstrap.load(cwd, note.flags)
    with bootstrap.world(cwd, loaded, drives=True) as built:
        world = bootstrap.driving(built, basin, note.settings)
        try:
            drive_basin(world, basin, note.settings, note.limits, tmux=note.tmux, socket=note.socket)
        except OrchConvergeError as error:
            world.journal.say(f"{error.message}. {error.hint}")
            raise
        return code_of(world.ledger.state, basin)
