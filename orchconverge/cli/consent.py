"""What a person is asked before something starts: commands that came with the repository, and flags on what was reached."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from orchconverge.core.standing import unaccepted
from orchconverge.core.views.text import clean
from orchconverge.errors import WAITING, Refused

if TYPE_CHECKING:
    from orchconverge.app.world import World
    from orchconverge.config import Asked, Loaded
    from orchconverge.core.state import Basin
    from orchconverge.ports import Ledger

ASKED = 2000
"""Cells of what is asked about."""


def consent(loaded: Loaded) -> None:
    """Refuse commands that came with the repository until a person has allowed them."""
    from orchconverge.adapters.clock import SystemClock
    from orchconverge.adapters.ledger import FileLedger

    if not loaded.asked:
        return
    ledger = FileLedger(loaded.places.state, SystemClock())
    try:
        ledger.catch_up()
        for asked in loaded.asked:
            if asked.digest not in ledger.state.consents:
                _ask(ledger, asked)
    finally:
        ledger.close()


def accept(world: World, basin: Basin, *, accepted: bool) -> None:
    """Record that a person takes what a run stopped at: all criteria hold, and something in it was flagged.

    Asks on a terminal; without one ``accepted`` must have been said. Raises `Refused`.
    """
    from orchconverge.core.events import BasinAmended

    if not unaccepted(basin):
        return
    said = clean(basin.history[-1].text, ASKED)
    if not accepted:
        if not sys.stdin.isatty():
            raise _waits(
                f"{basin.id} waits for you: {said}",
                hint=f"look at it (git log -p {clean(basin.target)}), then: orchconverge resume {basin.id} --accept",
            )
        if not click.confirm(f"{basin.id}: {said}\nTake it as it is?", err=True):
            raise Refused(f"{basin.id} stays as it is", hint=f"mend it on {clean(basin.target)}, then resume it")
    world.ledger.append(BasinAmended(basin=basin.id, why=f"accepted: {said}"), writer="cli")


def _ask(ledger: Ledger, asked: Asked) -> None:
    from orchconverge.core.events import ConsentGiven

    words = " ".join(asked.argv)
    if len(words) > ASKED:  # nobody allows what was not shown
        raise Refused(
            f"{asked.where} of this repository sets {asked.key} to {len(words)} characters, too many to be asked about",
            hint=f"put what it runs into a file of at most {ASKED}, or take it out",
        )
    said = f"{asked.where} of this repository sets {asked.key}: {clean(words)}"
    if not sys.stdin.isatty():
        raise _waits(said, hint=f"look at it, then do this once from a terminal to allow it ({asked.digest[:12]})")
    if not click.confirm(f"{said}\nAllow it from now on?", err=True):
        raise Refused(f"{asked.key} was not allowed", hint=f"take it out of {asked.where}, or allow it")
    ledger.append(ConsentGiven(digest=asked.digest, argv=asked.argv, where=asked.where), writer="cli")


def _waits(message: str, *, hint: str) -> Refused:
    refused = Refused(message, hint=hint)
    refused.exit_code = WAITING
    return refused
