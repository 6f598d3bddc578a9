"""What a shell command does to files, as far as its words say it: engines with one tool, a shell, show no more."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from posixpath import join
from typing import Literal

Kind = Literal["read", "search", "write", "run"]

LONGEST_HEREDOC = 8000
LONGEST_COMMAND = 4000
"""Characters that are looked at; a longer one is only run."""

_WRAPPED = re.compile(r"(?:/\S+/)?(?:ba|z|da|k)?sh")
_HEREDOC = re.compile(r"<<-?[ ]*(['\"]?)(\w+)\1([^\n]*)\n.*?(?:\n[\t]*\2[ \t]*(?=\n|$)|$)", re.DOTALL)
_PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", re.MULTILINE)
_BETWEEN = frozenset({"&&", "||", ";", "|", "&", "|&", "\n"})
_READERS = frozenset({"cat", "head", "tail", "nl", "less", "more", "bat", "wc", "file", "stat"})
_SEARCHERS = frozenset({"grep", "egrep", "rg", "ag", "find", "fd", "ls", "tree"})
_SILENT = frozenset({"printf", "echo", "true", ":", "cd", "mkdir", "pwd", "sort", "uniq"})


def acted(command: str) -> tuple[tuple[Kind, str], ...]:
    """What it reads, searches and writes, in order, and that it was run if a program of it could do anything else."""
    inner = _unwrapped(command)
    patched = _PATCHED.findall(inner) if "*** Begin Patch" in inner else []
    if not patched and len(inner) > LONGEST_HEREDOC:  # looking for the ends of here-documents takes the square of it
        return (("run", inner),)
    plain = _HEREDOC.sub(r"\3", inner)
    if patched:
        return tuple(("write", path.strip()) for path in patched)
    if len(plain) > LONGEST_COMMAND or re.search(r"\$\(|`|<\(", plain):
        return (("run", inner),)
    found: list[tuple[Kind, str]] = []
    where = ""
    try:
        for words in _commands(plain):
            if words[:1] == ["cd"] and len(words) == 2:
                where = join(where, words[1])
            found += [(kind, at if kind in ("run", "search") else join(where, at)) for kind, at in _one(words)]
    except ValueError:  # a quote that is not closed
        found = [("run", "")]
    acts = [act for act in found if act[0] != "run"]
    if len(acts) < len(found) or not acts:
        acts.append(("run", inner))
    return tuple(acts)


def _unwrapped(command: str) -> str:
    """The command that a shell was started for: codex shows ``/bin/bash -lc '…'``."""
    program, _, rest = command.partition(" ")
    if not _WRAPPED.fullmatch(program) or not rest.startswith(("-lc ", "-c ")):
        return command
    try:
        words = shlex.split(rest)
    except ValueError:
        return command
    return words[1] if len(words) == 2 else command


def _commands(line: str) -> Iterator[list[str]]:
    """The simple commands of a line, as words and redirections."""
    lexer = shlex.shlex(line.replace("\n", " ; "), posix=True, punctuation_chars="();<>|&")
    lexer.whitespace_split = True
    lexer.commenters = ""
    words: list[str] = []
    for word in lexer:
        if word in _BETWEEN:
            yield words
            words = []
        else:
            words.append(word)
    yield words


def _one(words: Sequence[str]) -> Iterator[tuple[Kind, str]]:
    arguments: list[str] = []
    rest = iter(words)
    for word in rest:
        if word in (">", ">>", ">|", "&>") and arguments[-1:] != ["2"]:
            target = next(rest, "")
            if target and target != "/dev/null":
                yield "write", target
        elif word in ("<", ">&", "<<<", ">", ">>"):
            next(rest, "")
        else:
            arguments.append(word)
    while arguments and re.fullmatch(r"\w+=.*", arguments[0]):
        arguments.pop(0)
    if not arguments:
        return
    program, given = arguments[0].rpartition("/")[2], arguments[1:]
    files = [word for word in given if not word.startswith("-")]
    if program == "sed":
        yield from (("write" if any(w.startswith("-i") for w in given) else "read", path) for path in files[1:])
    elif program == "tee":
        yield from (("write", path) for path in files)
    elif program in _READERS:
        yield from (("read", path) for path in files if not path.isdecimal())
    elif program in _SEARCHERS and "-exec" not in given and "-delete" not in given:
        yield "search", " ".join([program, *given])
    elif program not in _SILENT:
        yield "run", ""
