"""The floor of all engines: any program, given as an argv, that reads the brief and works in the directory it is in."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping

from orchconverge.adapters.engines.reading import LONGEST_TEXT, lines, text
from orchconverge.core.seen import Outcome
from orchconverge.core.values import Settings
from orchconverge.errors import Refused
from orchconverge.ports import Brief, Launch

PASS_THROUGH: tuple[str, ...] = ()


class Command:
    """``--engine command --argv "…"``: the words are run as they are, never by a shell."""

    name = "command"
    variables: tuple[str, ...] = PASS_THROUGH
    contextual = False
    commits = True

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    def find(self) -> str | None:
        """Our own interpreter: nothing needs to be installed. The program itself is looked for by `launch`."""
        return sys.executable

    def launch(self, brief: Brief, settings: Settings) -> Launch:
        """``settings.argv``; the brief is its standard input, and a file named by ORCHCONVERGE_BRIEF. Raises `Refused`."""
        variables = {"ORCHCONVERGE_BRIEF": str(brief.text_path), "ORCHCONVERGE_REPORT": str(brief.report_path)}
        return Launch(argv=self.argv(settings), env=variables)

    def argv(self, settings: Settings) -> tuple[str, ...]:
        """The argv with its program made absolute; one with a slash is left, it is of the tree. Raises `Refused`."""
        if not settings.argv:
            raise Refused("engine `command` has no command", hint='add `--argv "PROGRAM ARGUMENT…"`')
        program, *words = settings.argv
        found = program if "/" in program else shutil.which(program, path=self._environ.get("PATH"))
        if found is None:
            said = f"engine `command`: {program} is not on PATH"
            raise Refused(said, hint="install it, or give its path in `--argv`")
        return (found, *words)

    def read(self, log: bytes) -> Outcome:
        """The last lines are the summary. Of limits, costs and errors nothing is known: the words could be anybody's."""
        tail = b"\n".join([*lines(log[-8 * LONGEST_TEXT :])][-20:])
        said = text(tail.decode("utf-8", "replace"), most=8 * LONGEST_TEXT)
        return Outcome(summary=said[-LONGEST_TEXT:])
