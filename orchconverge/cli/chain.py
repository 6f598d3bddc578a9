"""The steps of the final chain, each usable alone, and the report."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from orchconverge import bootstrap
from orchconverge.cli.alone import interruptible
from orchconverge.cli.look import chosen_of
from orchconverge.cli.put import put
from orchconverge.core.views.text import clean
from orchconverge.errors import Refused

if TYPE_CHECKING:
    from orchconverge.app.finalizer import Step
    from orchconverge.core.report_record import Report


@click.command(hidden=True)
@click.argument("name")
@click.argument("basin")
def step(name: str, basin: str) -> int:
    """Run one step of a chain and leave its result where ORCHCONVERGE_STEP_RESULT says: what a controller starts."""
    return _run(name, basin)


def _run(name: str, basin: str) -> int:
    from orchconverge.app.finalizer import in_chain, leave_result

    closing = bootstrap.closing(bootstrap.here())
    with interruptible():
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
@click.option(
    "--format",
    "form",
    type=click.Choice(["md", "json", "html"]),
    default="md",
    show_default=True,
    help="What to write.",
)
@click.option("--output", metavar="FILE", help="Write it into this file; a file of that name is replaced.")
def report(basin: str | None, form: str, output: str | None) -> int:
    """Print the convergence report of a basin as it stands. Nothing is changed, committed or asked of a forge.

    html is one page that needs nothing else: no script, no request, light and dark. md has its charts in Mermaid.

    json: schema, basin, macrostate, goal, outcome {word, decision, met, required, target, base, head, note}, attempts {n, max},
    uncharged, active_seconds, most_hours, days, usd and tokens {used, max},
    merged {grafted, in_place, parts, pruned, waiting, refused}, needs_you [{sentence, command, url}];
    criteria [{name, kind, required, stage, asked, met, first_met_by, start, condition,
    evidence {exit, seconds, tree, digest, tail}}], null where there is none;
    progress [{attempt, met}]; timeline [{section, label, start, end, waits}];
    history [{attempt, started, active_seconds, strategy, approach, engine, result, charged, progress, text, obstacle,
    convergence, denied}]; candidates [{branch, approach, met, fate, commit}]; commits [{commit, subject, criteria}];
    decisions [{at, decision, branch, decided_by, reason, commit, paths}];
    residue [{text, paths, criterion}]; obstacles [text]; frontier [{question, from, basin, blocks}];
    commands [{command, engine, runs, seconds, effect, status, url}];
    usage [{of, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, usd}];
    steps [{step, status, detail, url, by, findings, comments}], with findings [{severity, path, line, title, stands}] and
    comments [{severity, path, line, author, url, outcome, reason, commit}];
    pull_request {number, url, state, draft, passed, failed, pending}, as the forge had it when a run wrote its report, else null;
    reproduce [command]; rests {seq_from, seq_to, bad, permissions, record}; written
    """
    from orchconverge.app.finalizer import told

    closing = bootstrap.closing(bootstrap.here())
    facts = closing.ledger.catch_up()
    chosen = chosen_of(closing.ledger.state, basin)
    if chosen is None:
        raise Refused("no destination in this repository", hint="orchconverge status shows what there is")
    text = _written(told(closing, chosen, facts=facts, now=datetime.now(UTC)), form)
    if output is None and form == "md":  # it is read where it is printed, in the characters that there are
        print(text, end="")
    elif put("-" if output is None else output, text):
        print(f"{chosen.id}: the report is in {output}")
    return 0


def _written(told: Report, form: str) -> str:
    from orchconverge.core.views import report as view
    from orchconverge.core.views.report_html import html

    if form == "json":
        return msgspec.json.format(msgspec.json.encode(told)).decode() + "\n"
    return html(told) if form == "html" else view.markdown(told)
