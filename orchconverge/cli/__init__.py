"""The command line: parse, call, print. The one boundary where errors become lines and exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from orchconverge.errors import INTERNAL, INTERRUPTED, OrchConvergeError

COMMANDS = (
    "run status stop resume wait attach logs report ledger pushl reviewdeep copilot engines _drive _step".split()  # noqa: SIM905
)
"""First words that are commands; anything else is a goal."""
AS_FLAGS = {"--status": "status", "--stop": "stop", "--resume": "resume"}
"""The seed's spelling of three of them."""


def rewritten(argv: Sequence[str]) -> list[str]:
    """The arguments as click gets them: a goal alone means `run`, ``--status`` means `status`."""
    if not argv or argv[0] in COMMANDS or argv[0] in ("--help", "-h", "--version"):
        return list(argv)
    before = argv[: argv.index("--")] if "--" in argv else argv
    for flag, command in AS_FLAGS.items():
        if flag in before and argv[0].startswith("-"):
            rest = list(argv)
            rest.remove(flag)
            return [command, *rest]
    return ["run", *argv]


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run one command and leave with its exit code. Never shows a traceback: an internal fault goes to a file."""
    given = list(sys.argv[1:] if argv is None else argv)
    from orchconverge import bootstrap

    bootstrap.clean_environment()
    try:
        from orchconverge.cli.group import command

        code = command(rewritten(given))
    except OrchConvergeError as error:
        _say(error.message, error.hint)
        code = error.exit_code
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    except Exception:
        code = _internal()
    try:
        sys.stdout.flush()
    except (BrokenPipeError, OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raise SystemExit(code)


def _say(message: str, hint: str) -> None:
    from orchconverge.core.views.text import clean

    print(f"orchconverge: {clean(message, 1000)}", file=sys.stderr)
    if hint:
        print(f"  {clean(hint, 1000)}", file=sys.stderr)


def _internal() -> int:
    """Write what went wrong where it can be pasted from, and say where."""
    import tempfile
    import traceback

    fd, path = tempfile.mkstemp(prefix="orchconverge-", suffix=".log")
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        traceback.print_exc(file=file)
    _say("something went wrong inside orchconverge, nothing is lost", f"please report what is in {path}")
    return INTERNAL
