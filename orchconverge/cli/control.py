"""`stop`: ask, then TERM, then KILL; with ``--cleanup`` nothing of ours is left but state, logs and commits."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from orchconverge import bootstrap
from orchconverge.core.views.text import clean
from orchconverge.errors import Refused

if TYPE_CHECKING:
    from orchconverge.config import Loaded


@click.command()
@click.argument("basin", required=False)
@click.option(
    "--cleanup", is_flag=True, help="Also remove our sessions and worktrees. State, logs and commits are kept."
)
@click.option("--all", "every", is_flag=True, help="Every run of this repository.")
def stop(basin: str | None, cleanup: bool, every: bool) -> int:
    """Stop a run. What its mind had committed is judged by a resume; nothing of ours survives ten seconds."""
    cwd = bootstrap.here()
    with bootstrap.world(cwd, _loaded(cwd), drives=False) as world:
        from orchconverge.app.control import named
        from orchconverge.app.control import stop as stop_run

        world.ledger.catch_up()
        if every or (basin is None and cleanup and not world.ledger.state.open_runs):
            chosen = [b for b in world.ledger.state.basins.values() if cleanup or b.running is not None]
        elif basin is None and not world.ledger.state.open_runs:
            print("Nothing runs.")
            return 0
        else:
            chosen = [named(world, basin, verb="stop", wanted=lambda b: b.running is not None)]
        for one in chosen:
            print(stop_run(world, one, cleanup=cleanup))
        if not chosen:
            print("Nothing runs.")
    return 0


def _loaded(cwd: Path) -> Loaded:
    """The settings; a file that a mind broke must not keep anybody from stopping it."""
    from orchconverge import config, whereabouts

    repository = whereabouts.required(cwd)
    try:
        return bootstrap.load(cwd, {})
    except Refused as refused:
        print(f"orchconverge: {clean(refused.message)}: stopping without it", file=sys.stderr)
        return config.without_files(repository)
