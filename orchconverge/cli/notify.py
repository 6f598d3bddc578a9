"""`_notify`: sends one notice, which it reads from standard input, and ends in time. Started by controllers."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

import click
import msgspec

from orchconverge import bootstrap
from orchconverge.adapters.journal import LoggedJournal
from orchconverge.adapters.notify import send
from orchconverge.core.telling import Notice
from orchconverge.errors import Refused

DEADLINE_SECONDS = 40.0
MOST_BYTES = 1 << 16


@click.command(hidden=True)
def notify() -> int:
    """Send one notice. What fails is a line in `system.log`."""
    loaded = bootstrap.load(bootstrap.here(), {})
    journal = LoggedJournal(loaded.places.state / "logs", screen=False)

    def late(number: int, frame: FrameType | None) -> None:
        journal.say(f"a notification took longer than {DEADLINE_SECONDS:.0f} s, and was ended")
        os._exit(1)

    signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, DEADLINE_SECONDS)
    try:
        what = msgspec.json.decode(sys.stdin.buffer.read(MOST_BYTES), type=Notice)
    except msgspec.MsgspecError as error:
        raise Refused(
            f"that is no notice: {error}", hint="controllers start this, with a notice on its input"
        ) from error
    failed = list(send(what, urls=loaded.config.notify.urls, command=loaded.config.notify.command))
    for line in failed:
        journal.say(f"{what.basin}: {line}" if what.basin else line)
    journal.close()
    return int(bool(failed))
