"""`reviewdeep`: the review of a change, as a person asks for it."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import click
import msgspec

from orchconverge import bootstrap
from orchconverge.cli.alone import interruptible, newest_id
from orchconverge.core.views.text import clean
from orchconverge.errors import Refused


@click.command()
@click.argument("basin", required=False)
@click.option(
    "--focus-correctness", is_flag=True, help="The tracks correctness and tests alone, as the final chain does."
)
@click.option("--tracks", default="", metavar="A,B", help="These tracks: correctness, tests, security, performance.")
@click.option("--pr", "pull", type=click.IntRange(min=1), help="Another pull request than that of the target.")
@click.option("--json", "as_json", is_flag=True, help="Print the result with its findings as JSON.")
def reviewdeep(basin: str | None, focus_correctness: bool, tracks: str, pull: int | None, as_json: bool) -> int:
    """Have the change reviewed against its written target, and say on its pull request what is found.

    The engines of the run review it in tracks, side by side; another one scores what they find, and what it is not sure of
    is dropped. A second review brings the first one up to date. Nothing is changed but what is said there.
    """
    from orchconverge.app.finalizer import leave_result, step
    from orchconverge.app.reviewdeep import Asked
    from orchconverge.app.reviewdeep import reviewdeep as act

    asked = Asked(tracks=_tracks(tracks, focused=focus_correctness), pull=pull, anew=True)
    closing = bootstrap.closing(bootstrap.here())
    with interruptible():
        result = step(closing, "reviewdeep", basin or newest_id(), act=partial(act, asked=asked))
    if target := os.environ.get("ORCHCONVERGE_STEP_RESULT"):
        leave_result(Path(target), result)
    if as_json:
        print(msgspec.json.encode(result).decode())
        return 1 if result.status == "failed" else 0
    print(f"reviewdeep: {result.status}. {clean(result.detail)}")
    for found in result.findings:
        print(f"  {found['severity']} {clean(str(found['path']))}:{found['line']} {clean(str(found['title']))}")
    if result.url:
        print(clean(result.url))
    return 1 if result.status == "failed" else 0


def _tracks(named: str, *, focused: bool) -> tuple[str, ...]:
    """The tracks that are asked for, each once."""
    from orchconverge.core.review_questions import DEFAULT, FOCUSED, TRACKS

    if named and focused:
        raise Refused("--focus-correctness and --tracks both say which tracks", hint="leave one of them out")
    chosen = tuple(dict.fromkeys(filter(None, (each.strip() for each in named.split(",")))))
    strange = [each for each in chosen if each not in TRACKS]
    if strange or (named and not chosen):
        raise Refused(
            f"there is no track {clean(strange[0] if strange else named)}", hint=f"tracks: {', '.join(TRACKS)}"
        )
    return chosen or (FOCUSED if focused else DEFAULT)
