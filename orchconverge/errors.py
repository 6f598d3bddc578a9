"""The one family of errors: what happened, what to type next, and the exit code that says so to a script."""

from __future__ import annotations

USAGE = 2
LIMIT = 3
STALLED = 4
WAITING = 5
INTERNAL = 70
INTERRUPTED = 130


class OrchConvergeError(Exception):
    """Something a person can act on. The CLI prints ``message`` and ``hint`` on one line each and exits."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class Refused(OrchConvergeError):
    """The request cannot be taken as it stands; nothing was started and nothing was changed."""

    exit_code = USAGE


class Illegal(OrchConvergeError):
    """A fact that the ledger's rules do not allow at this point; it was not written."""

    def __init__(self, message: str, *, rule: str) -> None:
        super().__init__(f"{message}: {rule}", hint="`orchconverge status --verbose` shows where things stand")
        self.rule = rule


class NotDurable(OrchConvergeError):
    """The ledger could not be written or flushed (disk full, read-only); the fact is not acknowledged."""


class Unreadable(OrchConvergeError):
    """The ledger exists and cannot be read; that is never the same as an empty one."""


class Failed(OrchConvergeError):
    """An outside program (git, tmux, an agent) did not do what was asked."""
