"""Tells a person of what needs them, by services (apprise) and by a command of theirs; never waited for."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec

from orchconverge.core.needs import Need
from orchconverge.core.telling import Notice, key, notice, untold
from orchconverge.errors import Refused
from orchconverge.files import OwnLock, open_own, own_folder, write_own

COMMAND_SECONDS: Final = 20.0
MISSING: Final = "notify.urls is set, and apprise is not installed: pip install 'orchconverge[notify]'"
_LOCK_SECONDS: Final = 1.0
_MOST_BYTES: Final = 1 << 20


class Notifier:
    """Sees to it that each need is sent once, whoever sees it first: what was sent is kept in ``notified.json``.

    A need that went away is forgotten, so that it is told when it comes again. What is needed when nothing was ever sent
    is no news. ``argv`` sends one notice, which it reads from standard input; it is started and left to itself.
    """

    def __init__(self, state: Path, *, repository: str, argv: Sequence[str], say: Callable[[str], None]) -> None:
        self._state = state
        self._repository = repository
        self._argv = list(argv)
        self._say = say
        self.sent: list[subprocess.Popen[bytes]] = []
        """What was started and may still run."""

    def look(self, found: Sequence[Need]) -> None:
        """Send what of these was not sent yet. Never raises: what goes wrong is said."""
        self.sent = [one for one in self.sent if one.poll() is None]
        try:
            for need in self._untold(found):
                self._send(notice(need, self._repository))
        except (OSError, Refused) as error:
            self._say(f"a notification could not be sent: {error}")

    def _untold(self, found: Sequence[Need]) -> tuple[Need, ...]:
        """What is news, already written down as told: what is not sent then is not sent twice either."""
        own_folder(self._state / "locks")
        lock = OwnLock(self._state / "locks" / "notified")
        try:
            if not lock.take(wait_seconds=_LOCK_SECONDS):
                return ()  # the next look is soon
            told = self._told()
            news = untold(found, told)
            now = sorted(map(key, found))
            if told is None or now != sorted(told):
                write_own(self._state / "notified.json", json.dumps(now).encode())
            return news
        finally:
            lock.close()

    def _told(self) -> list[str] | None:
        try:
            with os.fdopen(open_own(self._state / "notified.json", os.O_RDONLY), "rb") as file:
                return msgspec.json.decode(file.read(_MOST_BYTES), type=list[str])
        except (FileNotFoundError, msgspec.MsgspecError):
            return None

    def _send(self, what: Notice) -> None:
        null = subprocess.DEVNULL
        process = subprocess.Popen(self._argv, stdin=subprocess.PIPE, stdout=null, stderr=null, start_new_session=True)
        self.sent.append(process)
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError), process.stdin:
            process.stdin.write(msgspec.json.encode(what))  # less than a pipe holds: nobody is waited for


def installed() -> bool:
    """Whether services can be reached at all."""
    return find_spec("apprise") is not None


def send(what: Notice, *, urls: Sequence[str], command: Sequence[str]) -> Iterator[str]:
    """Send a notice to each service and to a person's command; yields a line for each that failed, without its address."""
    if urls and not installed():
        yield MISSING
    elif urls:
        yield from _by_services(what, urls)
    if command:
        yield from _by_command(what, command)


def _by_services(what: Notice, urls: Sequence[str]) -> Iterator[str]:
    import apprise

    for url in urls:
        service = apprise.Apprise()
        if not service.add(url):
            yield f"notify: apprise knows no such address, {_scheme(url)}://…"
        elif not service.notify(title=what.title, body=what.body, body_format=apprise.NotifyFormat.TEXT):
            yield f"notify by {_scheme(url)}://… failed: nobody was told that {what.sentence}"


def _scheme(url: str) -> str:
    """What may be said of an address, which mostly is a secret."""
    return urlsplit(url).scheme[:20] if "://" in url else "?"


def _by_command(what: Notice, command: Sequence[str]) -> Iterator[str]:
    null = subprocess.DEVNULL
    try:
        process = subprocess.Popen(
            list(command), stdin=subprocess.PIPE, stdout=null, stderr=null, start_new_session=True
        )
    except OSError as error:
        yield f"notify.command {command[0]} could not be started: {error.strerror}"
        return
    with process:
        try:
            process.communicate(msgspec.json.encode(what) + b"\n", timeout=COMMAND_SECONDS)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            yield f"notify.command {command[0]} took longer than {COMMAND_SECONDS:.0f} s, and was ended"
            return
    if process.returncode:
        yield f"notify.command {command[0]} ended with {process.returncode}"
