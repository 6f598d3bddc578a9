"""`timeline`: all pursuits side by side and day by day, on the terminal or as one page of HTML."""

from __future__ import annotations

import os
import shutil
import sys
from datetime import datetime

import click
import msgspec

from orchconverge import bootstrap
from orchconverge.cli.look import chosen_of, told_by
from orchconverge.cli.put import put
from orchconverge.cli.watch import draws_glyphs
from orchconverge.cli.when import When
from orchconverge.core import timeline as model
from orchconverge.core.timeline_scale import ZOOMS, Zoom
from orchconverge.core.views import timeline as view
from orchconverge.core.views.lines import Look
from orchconverge.core.views.text import counted
from orchconverge.core.views.timeline_html import html_page
from orchconverge.errors import Refused
from orchconverge.tui.live import Live


@click.command()
@click.option("--since", metavar="WHEN", type=When(), help="Leave out what was over by then: 12h, 3d, 2026-11-23.")
@click.option("--basin", "basins", metavar="NAME", multiple=True, help="Only this goal; may be given again.")
@click.option("--zoom", type=click.Choice(ZOOMS), help="What a column of the lanes is. Default: the finest that fits.")
@click.option(
    "--html", "html", metavar="FILE", help="Write one page that needs nothing else; a file of that name is replaced."
)
@click.option("--json", "as_json", is_flag=True, help="The same as one JSON object.")
@click.option("--ascii", is_flag=True, help="Draw with ASCII alone.")
def timeline(
    since: datetime | None, basins: tuple[str, ...], zoom: Zoom | None, html: str | None, as_json: bool, ascii: bool
) -> int:
    """Show what happened in every goal, side by side and day by day, newest first, with the cause of each gap.

    A letter is an event: O opened, C candidate, G grafted, P pruned, H harvested, S stalled, W waiting, V converged, X killed.

    --json: schema, as_of, utc_offset (seconds), ledger_lines, since; needs_you as in `status --json`;
    lanes [{basin, macrostate, phase, group, met, required, marks [{seq, at, kind, what, note}],
    stretches [{start, end, cause}]}], where cause is null while something ran; declared [basin] were never opened.
    """
    live = Live(bootstrap.reader(bootstrap.here()))
    shown = live.project()
    if since is not None and since > shown.as_of:
        raise Refused("that moment is yet to come", hint=f"now it is {shown.local:%Y-%m-%dT%H:%M}")
    only = [one.id for name in basins if (one := chosen_of(live.state, name)) is not None]
    found = model.timeline(
        told_by(live.reader.ledger),
        shown,
        since=since,
        only=only,
    )
    if html is not None:
        if put(html, html_page(found, repo=live.repo, zoom=zoom)):
            events = sum(len(lane.marks) for lane in found.lanes)
            click.echo(f"{html}: {counted(len(found.lanes), 'goal')}, {counted(events, 'event')}")
        return 0
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(found)))
        return 0
    look = look_of(ascii=ascii)
    click.echo(view.text(found, look, repo=live.repo, zoom=zoom, height=look.height if sys.stdout.isatty() else None))
    return 0


def look_of(*, ascii: bool) -> Look:
    """The terminal as it is, one line of it left to the prompt; what cannot draw our glyphs gets ASCII."""
    size = shutil.get_terminal_size()
    return Look(
        width=max(20, size.columns),
        height=size.lines - 1,
        ascii=ascii or not draws_glyphs(),
        colour=sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb",
    )
