"""`copilot`: what is said of the pull request is worked through, as a person asks for it."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import click
import msgspec

from orchconverge import bootstrap
from orchconverge.cli.alone import interruptible, newest_id
from orchconverge.core.comments import SEVERITIES
from orchconverge.core.views.text import clean
from orchconverge.errors import Refused


@click.command()
@click.argument("what", required=False, metavar="[PR | BASIN]")
@click.option("--autonomous", is_flag=True, help="Accepted: it always is.")
@click.option(
    "--max-rounds", type=click.IntRange(min=0), default=3, show_default=True, help="Rounds of a mind at most."
)
@click.option(
    "--wait-checks",
    type=click.FloatRange(min=0),
    default=10.0,
    show_default=True,
    metavar="MINUTES",
    help="How long checks that still run are waited for, in all.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result with every comment as JSON.")
def copilot(what: str | None, autonomous: bool, max_rounds: int, wait_checks: float, as_json: bool) -> int:
    """Work through the comments, reviews and failed checks on the pull request that a run opened, or on that number.

    Members and the bots of the setting `bots` are heard, and of a failed check its remarks and the end of its log. What is
    true, in scope and for no person is put right by a mind, a commit each, taken if the criteria lose nothing by it, pushed,
    and answered once. It stops when nothing new is said, findings repeat, the scope grows, or after --max-rounds. It never
    merges.
    """
    from orchconverge.app.copilot import Asked
    from orchconverge.app.copilot import copilot as act
    from orchconverge.app.finalizer import leave_result, step

    here = bootstrap.here()
    closing = bootstrap.closing(here)
    pull = int(what) if what is not None and what.isdecimal() else None
    basin = _of_pull(pull) if pull is not None else what or newest_id()
    asked = Asked(
        pull=pull,
        most_rounds=max_rounds,
        bots=bootstrap.load(here, {}).config.bots,
        wait_seconds=60 * wait_checks,
        anew=True,
    )
    with interruptible():
        result = step(closing, "copilot", basin, act=partial(act, asked=asked))
    if target := os.environ.get("ORCHCONVERGE_STEP_RESULT"):
        leave_result(Path(target), result)
    if as_json:
        print(msgspec.json.encode(result).decode())
        return 1 if result.status == "failed" else 0
    print(f"copilot: {result.status}. {clean(result.detail)}")
    for found in result.findings:
        at = f" {clean(str(found['path']))}:{found['line']}" if found["path"] else ""
        how = found["severity"] if found["severity"] in SEVERITIES else "stranger"
        reason = f": {clean(str(found['reason']), 120)}" if found["reason"] else ""
        print(f"  {how} {found['id']}{at} {str(found['outcome']).replace('_', ' ')}{reason}")
    if result.url:
        print(clean(result.url))
    return 1 if result.status == "failed" else 0


def _of_pull(number: int) -> str:
    """The newest basin with the branch of a pull request: its criteria are what a fix is held against."""
    closing = bootstrap.closing(bootstrap.here())
    closing.ledger.catch_up()
    basins = closing.ledger.state.basins
    newest = basins[newest_id()]
    if newest.run is None:
        raise Refused(f"{newest.id} was never run", hint="orchconverge status shows what there is")
    pull = closing.forge(newest, newest.run).numbered(number)
    if pull.fork:
        return newest.id  # that nothing can be pushed there is for the step to say
    branch = pull.branch
    found = [each.id for each in basins.values() if each.target == branch and each.run is not None]
    if not found:
        raise Refused(
            f"pull request {number} is of {clean(branch)}, and no destination here has that target",
            hint=f'what is put right is held against criteria: orchconverge "…" --into {clean(branch)}',
        )
    return newest.id if newest.id in found else found[-1]
