"""`graph`: the sessions of this repository as a version history is drawn, each as long as its goal."""

from __future__ import annotations

import click
import msgspec

from orchconverge import bootstrap
from orchconverge.cli.look import chosen_of, told_by
from orchconverge.cli.timeline import look_of
from orchconverge.core import pursuits
from orchconverge.core.views import graph as view
from orchconverge.tui.live import Live


@click.command()
@click.option("--basin", metavar="NAME", help="Only what this goal began from, and what began from it.")
@click.option("--json", "as_json", is_flag=True, help="The same as one JSON object.")
@click.option("--mermaid", is_flag=True, help="As a Mermaid flowchart, for a document.")
@click.option("--ascii", is_flag=True, help="Draw with ASCII alone.")
def graph(basin: str | None, as_json: bool, mermaid: bool, ascii: bool) -> int:
    """Draw the sessions, newest first: what each began from, how long it lived, what it accrued and left.

    A session is the pursuit of one goal. In the words of git it is a branch, its attempts are the commits, one that carries
    the residue of two others is a merge, and `attach` shows its HEAD. `sessions` lists the contexts of its engines.

    --json: schema, as_of, utc_offset (seconds); needs_you as in `status --json`; pursuits [{session, basin, macrostate, stands,
    reason, parents, children, opened, closed, attempts, met, required, tokens, grafts, residue, questions}], newest first,
    stands being open, needs you, met, abandoned or lost; folded {count, met, children}, null unless some ended long ago.
    """
    live = Live(bootstrap.reader(bootstrap.here()))
    shown = live.project()
    only = chosen_of(live.state, basin) if basin is not None else None
    found = pursuits.graph(told_by(live.reader.ledger), live.state, shown, only=only.id if only is not None else None)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(found)))
    else:
        click.echo(view.mermaid(found) if mermaid else view.text(found, look_of(ascii=ascii), repo=live.repo))
    return 0
