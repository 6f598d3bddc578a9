"""The command line in a forked child that kills itself before or after one exact append. Only tests know of this.

A child of the test's own process, since everything is imported there: it costs milliseconds instead of half a second.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import traceback
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from orchconverge import bootstrap, cli
from orchconverge.adapters.ledger import FileLedger
from orchconverge.core.events import AnyFact
from tests.e2e.lab import Lab, kill


class Death(NamedTuple):
    """When to die by SIGKILL: before or after this process's ``number``-th append."""

    when: Literal["before", "after"]
    number: int


def run(
    lab: Lab,
    *args: str,
    death: Death | None = None,
    seconds: float = 60.0,
    inside: Callable[[], object] = lambda: None,
    begun: Callable[[int], object] = lambda pid: None,
) -> int:
    """Run the command line to its end; its exit code, or the negative number of the signal that ended it.

    ``inside`` is called in the child before that, ``begun`` with its pid; it leads a process group.
    """
    pid = os.fork()
    if pid == 0:
        _child(lab, args, death, inside)
    begun(pid)
    handle = os.pidfd_open(pid)
    try:
        if not select.select([handle], [], [], seconds)[0]:
            kill(pid)
            os.waitpid(pid, 0)
            raise AssertionError(f"{args} {death} did not end within {seconds} s\n{lab.told()}")
    finally:
        os.close(handle)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _child(lab: Lab, args: tuple[str, ...], death: Death | None, inside: Callable[[], object]) -> None:
    code: Any = 99
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # the time-out of the test is its parent's
        os.setsid()
        os.chdir(lab.repo)
        os.environ.clear()
        os.environ.update(lab.env)
        out = os.open(lab.root / "forked.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for fd, source in enumerate((os.open(os.devnull, os.O_RDONLY), out, out)):
            os.dup2(source, fd)
        sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
        if death is not None:
            vars(bootstrap)["FileLedger"] = mortal(death)
        inside()
        cli.main(args)
    except SystemExit as left:
        code = left.code
    except BaseException:  # whatever it is: it must not go on as a second pytest
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code if isinstance(code, int) else 98)


def mortal(death: Death) -> type[FileLedger]:
    """A ledger whose process is killed at one append."""

    class Mortal(FileLedger):
        appends = 0

        def append(self, fact: AnyFact, **how: Any) -> AnyFact:
            Mortal.appends += 1
            if death == Death("before", Mortal.appends):
                os.kill(os.getpid(), signal.SIGKILL)
            written = super().append(fact, **how)
            if death == Death("after", Mortal.appends):
                os.kill(os.getpid(), signal.SIGKILL)
            return written

    return Mortal
