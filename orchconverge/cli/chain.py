"""The steps of the final chain, each usable alone, and the report."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from orchconverge import bootstrap
from orchconverge.core.standing import shown_first
from orchconverge.core.views.text import clean
from orchconverge.errors import Refused

if TYPE_CHECKING:
    from orchconverge.app.finalizer import Step


@click.command(hidden=True)
@click.argument("name")
@click.argument("basin")
def step(name: str, basin: str) -> int:
    """Run one step of a chain and leave its result where ORCHCONVERGE_STEP_RESULT says: what a controller starts."""
    return _run(name, basin)


def _run(name: str, basin: str) -> int:
    from orchconverge.app.finalizer import in_chain, leave_result

    closing = bootstrap.closing(bootstrap.here())
    result = in_chain(closing, name, basin, act=_heard() if name == "copilot" else None)
    target = os.environ.get("ORCHCONVERGE_STEP_RESULT")
    if target:
        leave_result(Path(target), result)
    print(f"{name}: {result.status}. {clean(result.detail)}")
    return 1 if result.status == "failed" else 0


def _heard() -> Step:
    """The step `copilot`, which hears the bots that a person's settings of now name."""
    from orchconverge.app.copilot import Asked, copilot

    return partial(copilot, asked=Asked(bots=bootstrap.load(bootstrap.here(), {}).config.bots))


@click.command()
@click.argument("basin", required=False)
def report(basin: str | None) -> int:
    """Print the convergence report of a basin as it stands. Writes nothing."""
    from orchconverge.app.finalizer import told

    closing = bootstrap.closing(bootstrap.here())
    facts = closing.ledger.catch_up()
    basins, newest = closing.ledger.state.basins, shown_first(closing.ledger.state)
    chosen = basin or (newest.id if newest is not None else None)
    if chosen is None or chosen not in basins:
        said = f"no destination is called {chosen}" if chosen else "no destination in this repository"
        raise Refused(said, hint="orchconverge status shows what there is")
    print(told(closing, basins[chosen], facts=facts, now=datetime.now(UTC)))
    return 0
