"""`watch`: all goals of a repository at once, on a screen of their own, as one frame, or in sentences that follow."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import time

import click

from orchconverge import bootstrap
from orchconverge.cli.look import chosen_of
from orchconverge.core.shown import Projection
from orchconverge.core.views.board import Chosen, board, selected
from orchconverge.core.views.destination_matrix import candidates
from orchconverge.core.views.lines import Look
from orchconverge.core.views.plain import changes, plain
from orchconverge.core.views.text import to_ascii
from orchconverge.errors import WAITING, Refused
from orchconverge.tui.live import Live

BUSY_SECONDS, IDLE_SECONDS = 0.25, 1.0
"""How often the ledger is looked at: while it grows, and when it has not for `IDLE_AFTER_SECONDS`."""
IDLE_AFTER_SECONDS = 10.0
AGAIN_SECONDS = 60.0
"""A controller that is gone writes nothing: this often the machine is asked although the ledger has not grown."""
COERCED = "C.UTF-8"
"""What Python itself puts into `LC_CTYPE` where it does not know the locale (PEP 538): it hides `LANG`."""
CJK = ("ja", "ko", "zh")
"""Languages whose terminals draw our glyphs two cells wide."""


@click.command()
@click.argument("basin", required=False)
@click.option("--once", is_flag=True, help="Print one frame and leave.")
@click.option("--exit-code", "with_code", is_flag=True, help="With one frame: leave with 5 when you are needed.")
@click.option(
    "--plain", "in_sentences", is_flag=True, help="Sentences, one a line, then what changes; nothing is drawn."
)
@click.option("--no-follow", is_flag=True, help="With --plain: print once and leave.")
@click.option("--ascii", "in_ascii", is_flag=True, help="Only ASCII.")
def watch(basin: str | None, once: bool, with_code: bool, in_sentences: bool, no_follow: bool, in_ascii: bool) -> int:
    """Watch every goal of this repository: what needs you first, then how far each has got.

    Not on a terminal it is as with --once: one frame, COLUMNS wide and LINES high. ORCHCONVERGE_PLAIN=1 is --plain,
    NO_COLOR leaves the colours out. Control + C leaves.
    """
    screen = sys.stdin.isatty() and sys.stdout.isatty()
    in_sentences = in_sentences or os.environ.get("ORCHCONVERGE_PLAIN") == "1"
    one = once or no_follow or not (screen or in_sentences)
    if no_follow and not in_sentences:
        raise Refused("--no-follow belongs to --plain", hint="orchconverge watch --once")
    if with_code and not one:
        raise Refused("--exit-code belongs to what prints once", hint="orchconverge watch --once --exit-code")
    ascii = in_ascii or not draws_glyphs()
    live = Live(bootstrap.reader(bootstrap.here()))
    if basin is not None:
        chosen_of(live.state, basin)  # or it is refused
    if not one and not in_sentences and os.environ.get("TERM") != "dumb":
        from orchconverge.tui import app

        return app.watch(basin, ascii=ascii)
    shown = live.project(basin=basin)
    if one and not in_sentences:
        _draw(live, shown, basin, ascii=ascii)
    else:
        _say(plain(shown, basin=basin), ascii=ascii)
    if not one:
        with contextlib.suppress(KeyboardInterrupt):
            _follow(live, shown, basin, ascii=ascii)
    needed = any(basin in (None, need.basin) for need in shown.needs_you)
    return WAITING if with_code and needed else 0


def draws_glyphs() -> bool:
    """Whether this terminal's text is UTF-8, and its glyphs are one cell wide."""
    names = [os.environ.get(name, "") for name in ("LC_ALL", "LC_CTYPE", "LANG")]
    if names[1] == COERCED:
        del names[1]
    locale = next(filter(None, names), "").lower()
    told = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    return told and locale not in ("c", "posix") and not locale.startswith(CJK)


def _draw(live: Live, shown: Projection, basin: str | None, *, ascii: bool) -> None:
    """Print one frame. On a terminal one line is left to the prompt."""
    size, screen = shutil.get_terminal_size(), sys.stdout.isatty()
    colour = screen and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    look = Look(width=size.columns, height=size.lines - screen, ascii=ascii, colour=colour)
    chosen = Chosen(selected=basin)
    name = selected(shown, chosen)
    compared = candidates(live.state, name) if name is not None else None
    print("\n".join(board(shown, look, repo=live.repo, chosen=chosen, compared=compared).lines))


def _say(text: str, *, ascii: bool) -> None:
    sys.stdout.write(to_ascii(text) if ascii else text)
    sys.stdout.flush()


def _follow(live: Live, shown: Projection, basin: str | None, *, ascii: bool) -> None:
    """Say what changes, until the person leaves."""
    grew = asked = time.monotonic()
    while True:
        now = time.monotonic()
        if live.grown():
            grew = now
        if grew == now or now - asked >= AGAIN_SECONDS:
            after = live.project(basin=basin)
            _say(changes(shown, after, basin=basin), ascii=ascii)
            shown, asked = after, now
        time.sleep(BUSY_SECONDS if now - grew < IDLE_AFTER_SECONDS else IDLE_SECONDS)
