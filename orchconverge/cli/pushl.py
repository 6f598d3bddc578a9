"""`pushl`: the push and the pull request, as a person asks for them."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from orchconverge import bootstrap
from orchconverge.core.standing import shown_first
from orchconverge.core.views.text import clean
from orchconverge.errors import Refused

if TYPE_CHECKING:
    from orchconverge.app.closing import Closing
    from orchconverge.app.pushl import Asked
    from orchconverge.core.seen import StepResult
    from orchconverge.core.state import Basin, Run
    from orchconverge.ports.forge import Forge, PullRequest

ALSO = ("pr", "force")
"""Words that the seed's own command takes beside its flags; a basin cannot be meant by them."""


@click.command()
@click.argument("said", nargs=-1, metavar="[BASIN] [force]")
@click.option("--auto-label", is_flag=True, help="Accepted: labels are always derived.")
@click.option("--update-description", is_flag=True, help="Accepted: the description is always brought up to date.")
@click.option(
    "-m", "--message", default="", help="Commit what is uncommitted first, with this message; hooks are not run."
)
@click.option("--include", multiple=True, metavar="GLOB", help="With --message: only paths that match one.")
@click.option("--exclude", multiple=True, metavar="GLOB", help="With --message: no path that matches one.")
@click.option("--labels-only", is_flag=True, help="Push nothing: put the labels of the pull request right.")
@click.option(
    "--detect-outdated", is_flag=True, help="Push nothing: say whether the description still tells what changed."
)
@click.option("-n", "--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
@click.option("--show", is_flag=True, help="Print the pull request and what was said on it, and do nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def pushl(
    said: tuple[str, ...],
    auto_label: bool,
    update_description: bool,
    message: str,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    labels_only: bool,
    detect_outdated: bool,
    dry_run: bool,
    show: bool,
    as_json: bool,
) -> int:
    """Push the target branch and open its pull request, or bring it up to date.

    What was not checked is not pushed, unless --message commits it. Nothing is ever forced, but by the word `force`: it
    replaces what stands on the remote's branch, if that is still what was seen here last.

    Where no destination was ever written down the branch that is checked out is pushed, and its pull request described by its
    commits; the default branch never.
    """
    from orchconverge.app.finalizer import leave_result
    from orchconverge.app.pushl import Asked

    if (include or exclude) and not message:
        raise Refused("--include and --exclude say what to commit", hint='add --message "…"')
    basin = _basin([word for word in said if word not in ALSO])
    if show:
        return _show(basin)
    asked = Asked(
        force="force" in said,
        message=message,
        include=include,
        exclude=exclude,
        labels_only=labels_only,
        detect_outdated=detect_outdated,
        dry_run=dry_run,
    )
    result = _pushed(basin, asked)
    if target := os.environ.get("ORCHCONVERGE_STEP_RESULT"):
        leave_result(Path(target), result)
    if as_json:
        print(msgspec.json.encode(result).decode())
    else:
        print(f"pushl: {result.status}. {clean(result.detail)}" + (f"\n{clean(result.url)}" if result.url else ""))
    return 1 if result.status == "failed" else 0


def _pushed(name: str | None, asked: Asked) -> StepResult:
    from orchconverge.app.finalizer import step
    from orchconverge.app.pushl import pushl as act

    closing = bootstrap.closing(bootstrap.here())
    if name is not None:
        return step(closing, "pushl", name, act=partial(act, asked=asked))
    from orchconverge.app.pushl_branch import push_branch

    return push_branch(closing, *_here(closing, asked.message), asked=asked)


def _here(closing: Closing, message: str = "") -> tuple[Basin, Run]:
    """The branch that is checked out, as a destination that nobody wrote down."""
    from orchconverge.app.pushl_branch import branch_here

    return branch_here(closing, remote=bootstrap.load(bootstrap.here(), {}).config.remote, message=message)


def _basin(names: list[str]) -> str | None:
    """The destination that is meant; ``None`` where there is none at all."""
    if len(names) > 1:
        raise Refused(f"one basin at a time, not {' '.join(names)}", hint="orchconverge pushl --help")
    if names:
        return names[0]
    reader = bootstrap.reader(bootstrap.here())
    reader.ledger.catch_up()
    newest = shown_first(reader.ledger.state)
    return newest.id if newest is not None else None


def _show(name: str | None) -> int:
    """Print the pull request of a basin or of the branch here, from its forge or its record."""
    closing = bootstrap.closing(bootstrap.here())
    basin, run = _recorded(closing, name) if name is not None else _here(closing)
    forge = closing.forge(basin, run)
    pull = forge.find(basin.target)
    if pull is None:
        again = "orchconverge pushl" + (f" {name}" if name is not None else "")
        raise Refused(f"{basin.target} has no pull request in {forge.where}", hint=again)
    print(_shown(forge, pull))
    return 0


def _recorded(closing: Closing, name: str) -> tuple[Basin, Run]:
    closing.ledger.catch_up()
    basin = closing.ledger.state.basins.get(name)
    if basin is None or basin.run is None:
        raise Refused(f"{name} was never run", hint="orchconverge status shows what there is")
    return basin, basin.run


def _shown(forge: Forge, pull: PullRequest) -> str:
    """Text of others, made harmless, its lines kept."""
    lines = [
        f"{clean(pull.title)} ({'draft, ' if pull.draft else ''}{pull.state})",
        f"{pull.branch} into {pull.base}, {forge.where}" + (f", {clean(pull.url)}" if pull.url else ""),
        f"labels: {', '.join(map(clean, pull.labels)) or 'none'}",
        "",
        clean(pull.body, keep="\n"),
    ]
    for each in forge.comments(pull.number):
        at = f"{each.path}:{each.line}" if each.line else each.path
        said = f"{each.author.login}, {each.kind}, {each.at:%Y-%m-%d %H:%M}" + (f", {at}" if at else "")
        lines += ["", f"-- {clean(said)}", clean(each.body, keep="\n")]
    return "\n".join(lines)
