"""`commands`: the slash commands, placed where the shells of agents look for them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from orchconverge import bootstrap, whereabouts
from orchconverge.core.slash import AGENTS
from orchconverge.core.views.text import clean, counted
from orchconverge.errors import Refused

if TYPE_CHECKING:
    from orchconverge.app.commands import Found
    from orchconverge.core.slash import File, Scope
    from orchconverge.ports.commands import CommandFiles

F = TypeVar("F", bound=Callable[..., Any])
NAMED = ("outdated", "changed", "not ours")
"""How a file stands that is named."""
Wanted = list[tuple["CommandFiles", "File"]]


def place_options(function: F) -> F:
    """The options that say for whom, and where."""
    options = [
        click.option(
            "--agent", "agents", multiple=True, type=click.Choice([*AGENTS]), help="For whom; may be repeated."
        ),
        click.option("--project", "scope", flag_value="project", help="In this repository (the default in one)."),
        click.option("--user", "scope", flag_value="user", help="In your own folders, for every repository."),
        click.option("--json", "as_json", is_flag=True, help="The same as one JSON object."),
    ]
    for option in reversed(options):
        function = option(function)
    return function


@click.group()
def commands() -> None:
    """Place /orchconverge, /converge, /orch, /pushl, /reviewdeep and /copilot where agents look for commands."""


@commands.command()
@place_options
def install(agents: tuple[str, ...], scope: Scope | None, as_json: bool) -> int:
    """Write what each agent's shell reads: for every agent on PATH, if none is named.

    What is there already and is not ours, or was changed, is never overwritten: then nothing is written, and it is named.
    """
    from orchconverge.app import commands as app

    scope, root = _scope(scope)
    chosen = agents or _installed()
    if not chosen:
        raise Refused("no agent was found on PATH", hint=f"name one: --agent {', --agent '.join(AGENTS)}")
    return _said(app.install(_wanted(chosen, scope, root)), scope, root, as_json=as_json)


@commands.command()
@place_options
def uninstall(agents: tuple[str, ...], scope: Scope | None, as_json: bool) -> int:
    """Take away what `install` wrote: of every agent, if none is named. Never what is not ours, or was changed."""
    from orchconverge.app import commands as app

    scope, root = _scope(scope)
    found = app.uninstall(_wanted(agents or tuple(AGENTS), scope, root))
    return _said([each for each in found if each.did], scope, root, as_json=as_json)


@commands.command()
@place_options
def check(agents: tuple[str, ...], scope: Scope | None, as_json: bool) -> int:
    """Say of each file whether it is fine, missing, outdated, changed or not ours. Exit 1 unless all are fine.

    If no agent is named: those on PATH, and those that have a file there.
    """
    from orchconverge.app import commands as app

    scope, root = _scope(scope)
    found = app.look(_wanted(agents or tuple(AGENTS), scope, root))
    if not agents:
        shown = {*_installed(), *(each.file.agent for each in found if each.standing != "missing")}
        found = [each for each in found if each.file.agent in shown]
    _said(found, scope, root, as_json=as_json)
    return int(not found or any(each.standing != "fine" for each in found))


def _scope(asked: Scope | None) -> tuple[Scope, Path | None]:
    """Which of the two it is, and the working tree of a project. Raises `Refused` for a project that is none."""
    cwd = bootstrap.here()
    repository = whereabouts.required(cwd) if asked == "project" else whereabouts.repository(cwd)
    if asked == "user" or repository is None or (asked is None and repository.root is None):
        return "user", None
    if repository.root is None:
        raise Refused(f"{cwd} has no working tree", hint="orchconverge commands install --user")
    return "project", repository.root


def _installed() -> tuple[str, ...]:
    return tuple(agent for agent in AGENTS if shutil.which(agent))


def _wanted(agents: Sequence[str], scope: Scope, root: Path | None) -> Wanted:
    return [*_each(agents, scope, root)]


def _each(agents: Sequence[str], scope: Scope, root: Path | None) -> Iterator[tuple[CommandFiles, File]]:
    from orchconverge.adapters.command_files import PROJECT, Placed, own_folder_of, shipped
    from orchconverge.core.slash import files

    sources = shipped()
    for agent in dict.fromkeys(agents):
        placed = Placed(root / PROJECT[agent] if root is not None else own_folder_of(agent, os.environ))
        yield from ((placed, file) for file in files(sources, agent, scope))


def _said(found: Sequence[Found], scope: Scope, root: Path | None, *, as_json: bool) -> int:
    """Print what was found and done."""
    git = _git(found, root) if root is not None else ""
    if as_json:
        rows = [
            {
                "agent": each.file.agent,
                "command": each.file.command,
                "path": each.where,
                "was": each.standing,
                "did": each.did,
            }
            for each in found
        ]
        document = {"scope": scope, "files": rows, "git": git}
        print(msgspec.json.format(msgspec.json.encode(document)).decode())
        return 0
    for agent in dict.fromkeys(each.file.agent for each in found):
        mine = [each for each in found if each.file.agent == agent]
        for word in dict.fromkeys(each.did or each.standing for each in mine):
            files = [each for each in mine if (each.did or each.standing) == word]
            print(f"{agent:9} {counted(len(files), 'file')} {word}, in {clean(str(files[0].files.root))}")
            if word in NAMED:
                print(*(f"  {clean(each.file.path)}" for each in files), sep="\n")
    if git or not found:
        print(git or "Nothing of ours is there.")
    return 0


def _git(found: Sequence[Found], root: Path) -> str:
    """What git makes of the files that are there now, in a sentence; empty if all of them are committed."""
    from orchconverge.adapters.git_shown import shown

    there = [each for each in found if each.did == "written" or (not each.did and each.standing != "missing")]
    names = [str(Path(each.where).relative_to(root)) for each in there]
    letters = [*shown(root, names).values()] if names else []
    open_ = sum(each != "!!" for each in letters)
    if open_:
        those = "them" if open_ == len(names) else f"{open_} of them"
        return (
            f"git status shows {those}, and a run in this directory asks for a clean tree: commit them, or ignore them."
        )
    return "git ignores them." if letters else ""
