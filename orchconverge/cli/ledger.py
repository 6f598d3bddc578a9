"""`ledger show|verify|schema`."""

from __future__ import annotations

import sys

import click

from orchconverge import bootstrap
from orchconverge.core.views.text import clean, counted


@click.group()
def ledger() -> None:
    """Look at the ledger itself: the only truth there is."""


@ledger.command()
@click.option("--since", type=click.IntRange(0), default=0, help="Only lines above this seq.")
def show(since: int) -> int:
    """Print its lines as they are (JSON, one a line)."""
    for line in bootstrap.reader(bootstrap.here()).ledger.show(since_seq=since):
        sys.stdout.buffer.write(line.rstrip(b"\n") + b"\n")
    return 0


@ledger.command()
def verify() -> int:
    """Check every line, and the backups' prefixes. Exit 0: clean or a torn last line; 1: damaged lines."""
    from orchconverge.adapters.ledger import verify as audit

    found = audit(bootstrap.reader(bootstrap.here()).places.state)
    torn = ", the last line is torn" if found.torn else ""
    whole = counted(found.lines, "line")
    print(f"{whole}, {found.bad} damaged, {found.illegal} illegal, {found.unknown} of a newer version{torn}")
    for number, why in found.odd:
        print(f"  line {number}: {clean(why)}")
    for copy in found.copies:
        print(f"  backup {clean(str(copy))}")
    return found.exit_code


@ledger.command()
def schema() -> int:
    """Print the JSON Schema of a line."""
    from orchconverge.schema import schemas

    print(schemas()["line.schema.json"])
    return 0
