"""`gc`: takes away what ended runs left on this machine and in the repository, and says what it keeps."""

from __future__ import annotations

import click

from orchconverge import bootstrap
from orchconverge.core.views import gc as view


@click.command()
@click.option("--dry-run", "dry", is_flag=True, help="Only say what would go.")
@click.option(
    "--older-than", metavar="DAYS", type=click.FloatRange(0), default=0.0, help="Leave what is younger (0: none is)."
)
def gc(dry: bool, older_than: float) -> int:
    """Remove what ended runs left: their folders, trees, branches and outputs. Never what is nowhere else."""
    from orchconverge.app.gc import always
    from orchconverge.app.gc import gc as collect

    cwd = bootstrap.here()
    loaded = bootstrap.load(cwd, {})
    with bootstrap.world(cwd, loaded, drives=False) as world:
        remains, refs = bootstrap.remains(world, loaded.places)
        found = collect(world, remains=remains, refs=refs, dry=dry, older_days=older_than)
        print(view.text(found, always(world, remains=remains, refs=refs), done=not dry))
    return 0
