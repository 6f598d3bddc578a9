"""The steps of the final chain, each usable alone, and the report."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import click

from orchconverge import bootstrap
from orchconverge.core.standing import shown_first
from orchconverge.core.views.text import clean
from orchconverge.errors import Refused


@click.command(hidden=True)
@click.argument("name")
@click.argument("basin")
def step(name: str, basin: str) -> int:
    """Run one step of a chain and leave its result where ORCHCONVERGE_STEP_RESULT says: what a controller starts."""
    return _run(name, basin)


def _run(name: str, basin: str) -> int:
    from orchconverge.app.finalizer import leave_result
    from orchconverge.app.finalizer import step as run_step

    result = run_step(bootstrap.closing(bootstrap.here()), name, basin)
    target = os.environ.get("ORCHCONVERGE_STEP_RESULT")
    if target:
        leave_result(Path(target), result)
    print(f"{name}: {result.status}. {clean(result.detail)}")
    return 1 if result.status == "failed" else 0


def _alone(name: str, basin: str | None) -> int:
    reader = bootstrap.reader(bootstrap.here())
    reader.ledger.catch_up()
    newest = shown_first(reader.ledger.state)
    if basin is None and newest is None:
        raise Refused("no destination in this repository", hint='start one: orchconverge "…"')
    assert newest is not None or basin is not None
    return _run(name, basin if basin is not None else newest.id if newest is not None else "")


@click.command()
@click.argument("basin", required=False)
@click.option("--auto-label", is_flag=True, help="Accepted: labels are always derived.")
@click.option("--update-description", is_flag=True, help="Accepted: the description is always brought up to date.")
def pushl(basin: str | None, auto_label: bool, update_description: bool) -> int:
    """Push the target branch and bring its pull request record up to date."""
    return _alone("pushl", basin)


@click.command()
@click.argument("basin", required=False)
@click.option("--focus-correctness", is_flag=True, help="Accepted: correctness is what it is about.")
def reviewdeep(basin: str | None, focus_correctness: bool) -> int:
    """Review the change against the written target (not in this version: says so)."""
    return _alone("reviewdeep", basin)


@click.command()
@click.argument("basin", required=False)
@click.option("--autonomous", is_flag=True, help="Accepted: it always is.")
def copilot(basin: str | None, autonomous: bool) -> int:
    """Work through the comments on the pull request (not in this version: says so)."""
    return _alone("copilot", basin)


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
