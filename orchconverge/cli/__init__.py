"""The command line: parse, call, print. The one boundary where errors become lines and exit codes."""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from typing import NoReturn

from orchconverge.errors import INTERNAL, INTERRUPTED, OrchConvergeError, Refused

COMMANDS = (
    *"run status watch stop resume wait attach logs report diff overlap matrix ledger pushl reviewdeep copilot commands".split(),  # noqa: SIM905
    *"declare amend open lock graft retry prune kill harvest frontier gc engines doctor sessions trace timeline graph".split(),  # noqa: SIM905
    *("completion", "_drive", "_step", "_notify"),
)
"""First words that are commands; anything else is a goal."""
NOT_YET = frozenset(("trust",))
"""Commands that are designed and not built: never taken for goals, or a later version would read the same line otherwise."""
LIKE = 0.75
"""How close a single word has to come to a command to be taken for a slip, by `difflib`."""
OUTSIDE = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO, errno.EMFILE))
"""What the machine refuses and no change of ours would help: a line, and no report to us."""
ALLOWED_INSIDE = frozenset(
    (
        "frontier list",
        "commands check",
        *"status watch wait logs report diff overlap matrix ledger engines".split(),  # noqa: SIM905
        *"doctor sessions trace timeline graph completion --help -h --version".split(),  # noqa: SIM905
    )
)
"""What may be run inside a mind, a check or a setup: looking. None of them starts, stops or decides anything.

By the first word, or by the first two where only some of a group's commands look.
"""
COMPLETE = "_ORCHCONVERGE_COMPLETE"
"""The variable in which a shell asks what may stand where its cursor is; see `orchconverge.cli.completion`."""
AS_FLAGS = {"--status": "status", "--stop": "stop", "--resume": "resume"}
"""The seed's spelling of three of them."""


def rewritten(argv: Sequence[str]) -> list[str]:
    """The arguments as click gets them: a goal alone means `run`, ``--status`` means `status`. Raises `Refused`."""
    if not argv or argv[0] in COMMANDS or argv[0] in ("--help", "-h", "--version"):
        return list(argv)
    before = argv[: argv.index("--")] if "--" in argv else argv
    for flag, command in AS_FLAGS.items():
        if flag in before and argv[0].startswith("-"):
            rest = list(argv)
            rest.remove(flag)
            return [command, *rest]
    _no_slip(argv)
    return ["run", *argv]


def _no_slip(argv: Sequence[str]) -> None:
    """Refuse a first word that is no goal but a command of a later version, or one that is misspelt."""
    import difflib
    import shlex
    from itertools import takewhile

    word = argv[0]
    goal = shlex.quote(" ".join(takewhile(lambda each: not each.startswith("-"), argv)))
    if word in NOT_YET:
        raise Refused(f"{word} is not in this version", hint=f"as a goal: orchconverge run {goal}")
    if word.startswith(("-", "/")) or any(char.isspace() for char in word):
        return
    known = [command for command in COMMANDS if not command.startswith("_")]
    near = difflib.get_close_matches(word.lower(), known, n=1, cutoff=LIKE)
    if near:
        raise Refused(f"there is no command {word}", hint=f"did you mean {near[0]}? As a goal: orchconverge run {goal}")


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run one command and leave with its exit code. Never shows a traceback: an internal fault goes to a file."""
    given = list(sys.argv[1:] if argv is None else argv)
    _open_streams()
    _import_msgspec()
    if asked := os.environ.get(COMPLETE):
        from orchconverge.cli.completion import answer

        raise SystemExit(answer(asked, words=rewritten, flags=AS_FLAGS))
    from orchconverge import bootstrap

    bootstrap.clean_environment()
    try:
        words = rewritten(given)
        if words and not ALLOWED_INSIDE & {words[0], " ".join(words[:2])} and (what := _inside()):
            raise Refused(f"this is {what}: it may look, not start, stop or decide", hint="orchconverge status")
        code = _called(words)
    except OrchConvergeError as error:
        _say(error.message, error.hint)
        code = error.exit_code
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:
        code = 1
    except OSError as error:
        code = _surroundings(error) if error.errno in OUTSIDE else _internal()
    except Exception:
        code = _internal()
    raise SystemExit(code if _flushed() else code or 1)


def _inside() -> str:
    """What of ours runs this, by its environment or its ancestors: `env -i` hides nothing. Empty: a person, or a step."""
    from orchconverge.processes import supervised_as, was_given

    kinds = supervised_as() - {"steps"}
    if "minds" in kinds or was_given("ORCHCONVERGE_BRIEF"):
        return "a mind"
    return "a check or a setup" if kinds or was_given("ORCHCONVERGE_INSIDE") else ""


def _called(words: list[str]) -> int:
    """Run one command. Looking, as agents and prompts do it every few seconds, goes without click, which costs 20 ms."""
    looks = {"--verbose": "verbose", "-v": "verbose", "--json": "as_json", "--line": "line", "--exit-code": "with_code"}
    if words[:1] == ["status"] and set(words[1:]) <= set(looks):
        from orchconverge.cli.look import show

        asked = {looks[word] for word in words[1:]}
        return show(
            verbose="verbose" in asked, as_json="as_json" in asked, line="line" in asked, with_code="with_code" in asked
        )
    from orchconverge.cli.group import command

    return command(words)


def _open_streams() -> None:
    """Open what was closed of 0, 1 and 2, or a file of ours would get the number and the text; refuse no character."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):  # in the order of their numbers
        if getattr(sys, name) is None:
            lowest = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(lowest, True)
            setattr(sys, name, os.fdopen(lowest, mode, encoding="utf-8"))
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def _flushed() -> bool:
    """Whether all that was said could be written. What could not is dropped, or Python would try again on its way out."""
    done = True
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError as error:
            if done and not isinstance(error, BrokenPipeError):
                _surroundings(error)
            done = False
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return done


def _import_msgspec() -> None:
    """Import msgspec without typing_extensions, which it prefers to `typing` where it is installed, for `inspect` and 8 ms."""
    if "msgspec" in sys.modules or "typing_extensions" in sys.modules:
        return
    sys.modules["typing_extensions"] = None  # type: ignore[assignment]  # importing it raises ImportError
    try:
        importlib.import_module("msgspec")
    finally:
        del sys.modules["typing_extensions"]


def _say(message: str, hint: str) -> None:
    from orchconverge.core.views.text import clean

    print(f"orchconverge: {clean(message, 1000)}", file=sys.stderr)
    if hint:
        print(f"  {clean(hint, 1000)}", file=sys.stderr)


def _surroundings(error: OSError) -> int:
    """Say what the machine would not do: a full disk, a file that is not ours to write."""
    _say(f"{error.filename or 'the output'}: {error.strerror}", "nothing is lost: put that right and type it again")
    return 1


def _internal() -> int:
    """Write what went wrong where it can be pasted from, and say where."""
    import tempfile
    import traceback

    where = "please report it; there was no room to write it down"
    with contextlib.suppress(OSError):
        fd, path = tempfile.mkstemp(prefix="orchconverge-", suffix=".log")
        with os.fdopen(fd, "w", encoding="utf-8", errors="backslashreplace") as file:
            traceback.print_exc(file=file)
        where = f"please report what is in {path}"
    _say("something went wrong inside orchconverge, nothing is lost", where)
    return INTERNAL
