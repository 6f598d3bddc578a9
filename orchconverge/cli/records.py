"""What a person closes or asks: `prune`, `kill`, `harvest` and `frontier`, each kept on the ledger with its reason."""

from __future__ import annotations

import os
import pwd
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click
import msgspec

from orchconverge import bootstrap
from orchconverge.core.views.text import clean, counted
from orchconverge.errors import Refused

if TYPE_CHECKING:
    from orchconverge.app.world import World
    from orchconverge.core.state import Basin

SHOWN = 200
"""Cells of what a person said, as it is repeated."""


def person() -> str:
    """Who decides, and where it was typed: ``person(ann, /dev/pts/3)``."""
    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        user = str(os.getuid())
    try:
        tty = os.ttyname(0)
    except OSError:
        tty = "no tty"
    return f"person({user}, {tty})"


def said(text: str | None, *, question: str, missing: str) -> str:
    """What was given, else what is answered on a terminal. Raises `Refused` with ``missing``, the line to type."""
    if text is None and sys.stdin.isatty():
        text = click.prompt(question.capitalize(), err=True, default="", show_default=False)
    if text is None:
        raise Refused(f"it has to be said, and nobody can be asked here: {question}", hint=missing)
    if not text.strip():
        raise Refused(f"a blank is no answer: {question}", hint=missing)
    return text.strip()


@contextmanager
def opened() -> Iterator[World]:
    """Everything, with the ledger read to its end."""
    cwd = bootstrap.here()
    with bootstrap.world(cwd, bootstrap.load(cwd, {}), drives=False) as world:
        world.ledger.catch_up()
        yield world


# --- candidates ------------------------------------------------------------------------------------------------------


@click.command()
@click.argument("name", metavar="BRANCH")
@click.option("--reason", help="Why it is turned down: kept, and told to later minds. Asked for on a terminal.")
@click.option("--residue", multiple=True, help="What was learned by it; may be repeated.")
@click.option("--others", is_flag=True, help="BRANCH is a basin: all its waiting candidates that bring nothing new.")
def prune(name: str, reason: str | None, residue: tuple[str, ...], others: bool) -> int:
    """Turn a candidate down. Its commits are kept; a mind that still runs is ended."""
    from orchconverge.app.records import branch_named
    from orchconverge.app.records import prune as prune_branch

    with opened() as world:
        if others:
            return _prune_others(world, name, reason, residue)
        branch = branch_named(world.ledger.state, name)
        why = said(reason, question="why is it turned down?", missing=f'orchconverge prune {branch.id} --reason "why"')
        learned = [text for text in residue if text.strip()]
        follows = prune_branch(world, branch, reason=why, residue=learned, decided_by=person())
        print(f"{branch.id} is pruned: {clean(why, SHOWN)}")
        print(follows)
        _left_waiting(world, branch.basin)
    return 0


def _prune_others(world: World, name: str, reason: str | None, residue: tuple[str, ...]) -> int:
    from orchconverge.app.control import named
    from orchconverge.app.records import prune as prune_branch
    from orchconverge.core.judge import covered

    if reason is not None or residue:
        raise Refused("--others writes the reason for each itself", hint=f"orchconverge prune --others {name}")
    basin = named(world, name, verb="prune", wanted=lambda b: True)
    if basin.tip is None:
        raise Refused(f"the target of {basin.id} was not checked yet", hint=f"orchconverge status {basin.id} --verbose")
    waiting = [b for b in world.ledger.state.branches_of(basin.id) if b.waits]
    pruned = [(b, why) for b in waiting if (why := covered(basin, b))]
    for branch, why in pruned:
        prune_branch(world, branch, reason=why, decided_by=person())
        print(f"{branch.id} is pruned: {clean(why, SHOWN)}")
    if not pruned:
        print(
            f"Nothing to prune: each of {counted(len(waiting), 'waiting candidate')} meets something that is not there."
        )
    _left_waiting(world, basin.id)
    return 0


def _left_waiting(world: World, basin: str) -> None:
    waiting = [b.id for b in world.ledger.state.branches_of(basin) if b.waits]
    if waiting:
        print(f"At the lock: {', '.join(waiting)}")


# --- the end of a pursuit --------------------------------------------------------------------------------------------


@click.command()
@click.argument("basin")
@click.option("--reason", help="Why it is given up. Asked for on a terminal.")
def kill(basin: str, reason: str | None) -> int:
    """Give a pursuit up for good, and end what runs of it. Commits, logs and the ledger are kept."""
    from orchconverge.app.records import kill as kill_basin

    with opened() as world:
        found = _basin(world, basin, "kill")
        why = said(reason, question="why is it given up?", missing=f'orchconverge kill {found.id} --reason "why"')
        follows = kill_basin(world, found, reason=why)
        print(f"{found.id} is killed: {clean(why, SHOWN)}")
        print(follows)
        print(f'Keep what was learned: orchconverge harvest {found.id} --residue "what"')
    return 0


@click.command()
@click.argument("basin")
@click.option("--residue", multiple=True, help="What was learned; may be repeated. Asked for on a terminal.")
@click.option("--frontier", multiple=True, metavar="QUESTION", help="A question it leaves open; may be repeated.")
def harvest(basin: str, residue: tuple[str, ...], frontier: tuple[str, ...]) -> int:
    """Keep what a pursuit leaves behind once it has ended: what was learned, and what is still open."""
    from orchconverge.app.records import harvest as harvest_basin

    with opened() as world:
        found = _basin(world, basin, "harvest")
        missing = f'orchconverge harvest {found.id} --residue "what"'
        first = residue[0] if residue else None
        learned = [said(first, question="what was learned?", missing=missing), *(t for t in residue[1:] if t.strip())]
        asked = [question.strip() for question in frontier if question.strip()]
        harvest_basin(world, found, residue=learned, frontier=asked, decided_by=person())
        kept = len(world.ledger.state.basins[found.id].residue)
        print(f"{found.id} is harvested: {counted(kept, 'piece')} of residue, {counted(len(asked), 'open question')}.")
        print("A later goal can start from it; the questions: orchconverge frontier list")
    return 0


def _basin(world: World, name: str, verb: str) -> Basin:
    from orchconverge.app.control import named

    return named(world, name, verb=verb, wanted=lambda basin: True)


# --- open questions --------------------------------------------------------------------------------------------------


@click.group()
def frontier() -> None:
    """Open questions: what they are, new ones, and answers."""


@frontier.command()
@click.argument("question")
@click.option("--basin", help="The pursuit that it came up in.")
@click.option("--blocks", metavar="BASIN", help="The pursuit that cannot end without an answer.")
def add(question: str, basin: str | None, blocks: str | None) -> int:
    """Add an open question."""
    from orchconverge.app.records import ask

    text = said(question, question="what is asked?", missing='orchconverge frontier add "what is asked"')
    ledger = bootstrap.reader(bootstrap.here()).ledger
    ask(ledger, text, basin=basin, blocks=blocks)
    number = len(ledger.state.frontier)
    print(f"Open, as number {number}: {clean(text, SHOWN)}")
    print(f'Its answer: orchconverge frontier close {number} --answer "what"')
    return 0


@frontier.command(name="list")
@click.option(
    "--json", "as_json", is_flag=True, help="One object: frontier[] of {number, question, from, basin, blocks}."
)
def list_(as_json: bool) -> int:
    """List the open questions, oldest first, by number."""
    ledger = bootstrap.reader(bootstrap.here()).ledger
    questions = list(enumerate(ledger.state.frontier.values(), 1))
    if as_json:
        listed = [
            {"number": n, "question": q.question, "from": q.origin, "basin": q.basin, "blocks": q.blocks}
            for n, q in questions
        ]
        sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode({"frontier": listed})) + b"\n")
        return 0
    for number, question in questions:
        notes = [f"from {clean(question.origin)}"]
        notes += [f"in {question.basin}"] if question.basin else []
        notes += [f"blocks {clean(question.blocks)}"] if question.blocks else []
        print(f"{number}  {clean(question.question, SHOWN)}  ({', '.join(notes)})")
    if not questions:
        print("No question is open.")
    return 0


@frontier.command()
@click.argument("question", metavar="QUESTION|NUMBER")
@click.option("--answer", help="What the answer is. Asked for on a terminal.")
def close(question: str, answer: str | None) -> int:
    """Close an open question with its answer."""
    from orchconverge.app.records import question_named, record
    from orchconverge.core.events import FrontierClosed

    ledger = bootstrap.reader(bootstrap.here()).ledger
    found = question_named(ledger.state, question)
    text = said(answer, question="what is the answer?", missing='orchconverge frontier close NUMBER --answer "what"')
    record(ledger, FrontierClosed(question=found.question, answer=text))
    print(f"Closed: {clean(found.question, SHOWN)}")
    print(f"Answer: {clean(text, SHOWN)}")
    return 0
