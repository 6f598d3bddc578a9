"""`sessions`: the pursuits of this repository, what each came from, and which engine contexts it went on in."""

from __future__ import annotations

import click
import msgspec

from orchconverge import bootstrap
from orchconverge.cli.look import chosen_of, told_by
from orchconverge.core.views import sessions as view


@click.command()
@click.argument("basin", required=False)
@click.option("--json", "as_json", is_flag=True, help="The same as one JSON object.")
def sessions(basin: str | None, as_json: bool) -> int:
    """List the sessions: opened from what, open or closed and why, engine contexts that go on, or are fresh and why.

    `graph` draws them as a version history.
    """
    reader = bootstrap.reader(bootstrap.here())
    only = chosen_of(reader.ledger.state, basin) if basin is not None else None
    found = [one for one in view.sessions(told_by(reader.ledger)) if only is None or one.basin == only.id]
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode({"sessions": found})))
    else:
        click.echo(view.text(found, reader.clock.now().astimezone()))
    return 0
