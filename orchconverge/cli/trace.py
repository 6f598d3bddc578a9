"""`trace`: one attempt as it went, to look for what happened in it."""

from __future__ import annotations

import click
import msgspec

from orchconverge import bootstrap
from orchconverge.cli.look import chosen_of, told_by
from orchconverge.core.state import State
from orchconverge.core.views import trace as view
from orchconverge.errors import Refused


@click.command()
@click.argument("name", required=False)
@click.option("--attempt", type=click.IntRange(1), help="The attempt's number. Without it: the newest one.")
@click.option("--json", "as_json", is_flag=True, help="All that is known of each fact, as one JSON object.")
def trace(name: str | None, attempt: int | None, as_json: bool) -> int:
    """Print every fact of one attempt, in order, with evidence, usage and work convergence. Without local paths.

    NAME is a goal (`auth`), one of its branches (`auth.3`: the attempt that made it), or an attempt's number.
    """
    reader = bootstrap.reader(bootstrap.here())
    basin, number = _meant(reader.ledger.state, name, attempt)
    found = view.trace(told_by(reader.ledger), basin, number)
    if found is None:
        raise Refused(f"{basin} has had no attempt {number}", hint=f"orchconverge trace {basin} shows the newest")
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(found)))
    else:
        click.echo(view.text(found, reader.clock.now().astimezone()))
    return 0


def _meant(state: State, name: str | None, attempt: int | None) -> tuple[str, int]:
    """The basin and the number of the attempt. Raises `Refused`."""
    if name is not None and name in state.branches:
        return state.branches[name].basin, state.branches[name].attempt
    if name is not None and name.isdecimal() and name not in state.basins:
        attempt = int(name)
        name = None
    chosen = chosen_of(state, name)
    if chosen is None or not chosen.attempts:
        raise Refused("no attempt was made yet", hint="orchconverge status")
    return chosen.id, attempt or chosen.attempts
