"""A step of the final chain that a person runs alone: which destination it is for, and what ends it before it is done."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from orchconverge import bootstrap
from orchconverge.core.standing import shown_first
from orchconverge.errors import Refused

ENDS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interruptible() -> Iterator[None]:
    """Let a signal end what is done here as Control + C does: the minds go at once, and their trees. A second one is too late.

    What was ignored before, as by `nohup`, still is.
    """

    def interrupt(number: int, frame: FrameType | None) -> None:
        for each in ENDS:
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt

    heeded = [number for number in ENDS if signal.getsignal(number) is not signal.SIG_IGN]
    before = [(number, signal.signal(number, interrupt)) for number in heeded]
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)


def newest_id() -> str:
    """The destination that is shown first. Raises `Refused` where there is none."""
    reader = bootstrap.reader(bootstrap.here())
    reader.ledger.catch_up()
    found = shown_first(reader.ledger.state)
    if found is None:
        raise Refused("no destination in this repository", hint='start one: orchconverge "…"')
    return found.id
