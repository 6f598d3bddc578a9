"""Which calls of an agent are granted: by their kind, their files and their command line."""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from orchconverge.acp_client.spec import Spec, words

KINDS = {"read": "read", "search": "search", "edit": "write", "delete": "write", "move": "write", "execute": "run"}
"""ACP's kinds in our words; whatever else there is, is ``other``."""
LOOKERS = frozenset({"cat", "cd", "echo", "grep", "head", "ls", "nl", "printf", "pwd", "stat", "tail", "true", "wc"})
"""Commands that look, and can do nothing else."""
_MESSAGE = re.compile(r"\"\$\(cat <<'(\w+)'\n[^\0]*?\n\1\n\)\"")
"""How agents write a message of several lines: no shell looks at anything in it."""
_SHELL = re.compile(r"(?:/\S+/)?(?:ba|z|da)?sh")


def refusal(spec: Spec, kind: str, paths: Sequence[str], command: str) -> str:
    """Why a call is not granted; empty if it is. ``kind`` is ACP's own."""
    if spec.anything:
        return ""
    ours = KINDS.get(kind, "other")
    looks = ours in ("read", "search")
    outside = next((path for path in paths if not _within(spec, path, looks=looks)), "")
    if outside:
        return f"{outside} is outside of the working tree"
    if command:
        return _not_granted(spec, command)
    if ours == "write" and not paths:
        return "it does not say which file it changes"
    if ours == "write" and any(".git" in Path(path).parts for path in paths):
        return "files of git are changed by git alone"
    if ours in ("read", "search", "write") or kind == "think":
        return ""
    return "its command is not shown" if ours == "run" else f"calls of kind {kind or 'unknown'} are not granted"


def _within(spec: Spec, path: str, *, looks: bool) -> bool:
    try:
        real = Path(spec.cwd, path).resolve()
    except (OSError, ValueError, RuntimeError):  # a loop of links, a null character
        return False
    roots = (spec.cwd, *spec.roots, *(spec.reads if looks else ()))
    return any(real.is_relative_to(Path(root).resolve()) for root in roots)


def _not_granted(spec: Spec, line: str) -> str:
    """Why a command line is not granted. What cannot be read for certain is not."""
    try:
        for argv in commands(line):
            given = " ".join(argv)
            if argv[0] in LOOKERS:
                paths = [word for word in argv[1:] if word[:1] != "-" and argv[0] not in ("echo", "printf")]
                outside = next((word for word in paths if word[:1] in "~{" or not _within(spec, word, looks=True)), "")
                if outside:
                    return f"{outside} is outside of the working tree"
            elif not any(argv[: len(begin)] == begin for begin in map(shlex.split, spec.commands) if begin):
                return f"`{words(given, 200)}` is not among the commands that are granted"
            elif argv[0] == "git" and any(word.startswith("--ou") for word in argv):
                return "git may not write to a file of its choice"
    except ValueError as error:
        return f"the command cannot be checked: {error}"
    return ""


def commands(line: str) -> Iterator[list[str]]:
    """The simple commands of a command line. Raises `ValueError` for whatever a shell could read in another way."""
    line = _MESSAGE.sub("message", line)
    if set(line) & set("$`\r\0") or "\\\n" in line:
        raise ValueError("write it without variables and substitutions")
    lexer = shlex.shlex(line, posix=True, punctuation_chars="();<>|&\n")
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t", True, ""
    argv: list[str] = []
    rest = iter(lexer)
    for word in rest:
        if word.strip("\n") in ("&&", "||", ";", "|", "&", ""):
            if argv:
                yield argv
            argv = []
        elif word == ">&" and argv[-1:] in (["1"], ["2"]) and next(rest, "") in ("1", "2"):
            argv.pop()
        elif word == ">" and next(rest, "") == "/dev/null":
            argv = argv[:-1] if argv[-1:] in (["1"], ["2"]) else argv
        elif set(word) <= set("();<>|&\n"):
            raise ValueError("write it without redirections and groups, and files with the edit tool")
        elif word.startswith("#"):
            raise ValueError("write it without comments")
        else:
            argv.append(word)
    if argv:
        yield argv


def unwrapped(given: object) -> str:
    """The command line in a call's input, text or an argv; of a shell that is started for a line, that line."""
    argv = [word for word in given if isinstance(word, str)] if isinstance(given, list) else []
    if isinstance(given, str):
        if not _SHELL.fullmatch(given.partition(" ")[0]):
            return given
        with contextlib.suppress(ValueError):
            argv = shlex.split(given)
    if len(argv) == 3 and _SHELL.fullmatch(argv[0]) and argv[1] in ("-c", "-lc"):
        return argv[2]
    return given if isinstance(given, str) else shlex.join(argv)
