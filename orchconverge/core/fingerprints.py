"""What paths, contents and commands are told by: fingerprints that may be kept, what words name, what a command line does."""

from __future__ import annotations

import hashlib
import posixpath
import re
import shlex
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Literal

from orchconverge.core.seen import Blob as Blob

LENGTH = 16
"""Hexadecimal digits of a fingerprint: of a thousand things two are alike in one of 10^13 runs."""
_UNSEEN = dict.fromkeys(map(ord, "\u200b\u200c\u200d\u2060\ufeff\u00ad"))
"""Characters that take no room and are no white space for Python."""


ABSENT = Blob()


def blob(content: bytes | None) -> Blob:
    """The blob of a file's bytes; ``None`` is a file that is not there."""
    if content is None:
        return ABSENT
    if b"\0" in content:
        ink = content  # no text: a blank is as good as any other byte
    else:
        try:
            ink = "".join(content.decode().translate(_UNSEEN).split()).encode()
        except UnicodeDecodeError:
            ink = b"".join(content.split())
    return Blob(id=_digest(content), ink=_digest(ink) if ink else "")


def fingerprint(*parts: str) -> str:
    """A digest of these texts in this order, `LENGTH` characters long."""
    return _digest(b"".join(b"%d:%s" % (len(raw), raw) for raw in (p.encode("utf-8", "surrogatepass") for p in parts)))


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:LENGTH]


def canonical(path: str, *, root: str = "", aliases: Mapping[str, str] | None = None) -> str:
    """One spelling of a path: relative to ``root`` where it lies below it, aliases resolved, no ``.``, ``..`` or ``//``.

    An alias stands for a file, or for a folder and all below it; it may be absolute. What lies outside stays absolute, or
    begins with ``..``.
    """
    found = posixpath.normpath(path) if path else ""
    for alias, real in (aliases or {}).items():
        plain = posixpath.normpath(alias)
        if found == plain or found.startswith(f"{plain}/"):
            found = posixpath.normpath(real + found[len(plain) :])
            break
    top = posixpath.normpath(root) if root else ""
    if top and found.startswith(f"{top.rstrip('/')}/"):
        found = found[len(top.rstrip("/")) + 1 :]
    return found


Nature = Literal["read", "write", "run"]
_SPLIT = re.compile(r"[;|&\n]+")
_REDIRECTED = re.compile(r"(?<![<>\d=-])\d?>{1,2}(?!&)\s*(?!/dev/(?:null|stdout|stderr)\b)\S|\bapply_patch\b")
_LOOKS = frozenset({
    "cat", "ls", "head", "tail", "grep", "egrep", "fgrep", "rg", "ag", "find", "fd", "wc", "nl", "less", "more", "file",
    "stat", "tree", "pwd", "diff", "cmp", "du", "strings", "xxd", "od", "hexdump", "sort", "uniq", "cut", "tr", "jq",
    "sed", "bat", "readlink", "realpath", "which", "type",
})  # fmt: skip
_NEUTRAL = frozenset({"cd", "echo", "printf", "true", "pushd", "popd", "set", "export", "["})
_CHANGES = frozenset({
    "tee", "cp", "mv", "rm", "mkdir", "rmdir", "touch", "ln", "install", "patch", "dd", "truncate", "chmod", "rsync", "unzip",
    "tar",
})  # fmt: skip
_GIT_LOOKS = frozenset(
    {"log", "show", "diff", "status", "grep", "blame", "ls-files", "cat-file", "rev-parse", "describe"}
)
_SHELLS = frozenset({"sh", "bash", "zsh", "dash"})
_IN_PLACE = re.compile(r"\s(?:-[a-zA-Z]*i\b|-i\S*|--in-place\S*|-delete|-exec\w*|-x|-fprint\w*)")
_DEEPEST = 3


def nature(command: str) -> Nature:
    """What a shell command line does as far as its words tell: only look, change files, or anything else.

    Meant for agents whose only tool is a shell. It errs toward ``run`` and ``write``, which are never taken for reading.
    """
    command = plain(command)
    if _REDIRECTED.search(_unquoted(command)):
        return "write"
    kinds = {_one(part) for part in _SPLIT.split(_unquoted(command)) if part.strip()}
    if "write" in kinds:
        return "write"
    return "read" if "read" in kinds and kinds <= {"read", "neutral"} else "run"


def plain(command: str) -> str:
    """The command line that is run in the end: without ``bash -lc`` around it, and with single blanks."""
    for _ in range(_DEEPEST):
        inner = _inner(command)
        if inner is None:
            break
        command = inner
    return "\n".join(" ".join(line.split()) for line in command.strip().splitlines())


def _inner(command: str) -> str | None:
    """The line that ``bash -lc LINE`` runs."""
    words = _words(command)
    if len(words) < 3 or posixpath.basename(words[0]) not in _SHELLS:
        return None
    place = next((n for n, word in enumerate(words) if n and re.fullmatch(r"-[a-z]*c", word)), None)
    return words[place + 1] if place is not None and place + 1 < len(words) else None


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:  # a quote that is not closed
        return command.split()


def _unquoted(command: str) -> str:
    """The line with what stands in quotes replaced, and without ``2>&1``: what is left is the shell's own."""
    command = re.sub(r"\d?>&\d", "", command)
    return re.sub(r"'[^']*'|\"(?:[^\"\\]|\\.)*\"", lambda found: "$(" if "$(" in found[0] else "_", command)


def _one(part: str) -> Literal["read", "write", "run", "neutral"]:
    words = list(_after_assignments(part.split()))
    if not words:
        return "neutral"
    name = posixpath.basename(words[0])
    if "$(" in part or "`" in part:
        return "run"
    if name in _CHANGES:
        return "write"
    if name == "git":
        verbs = [word for word in words[1:] if not word.startswith("-")]
        return "read" if verbs and verbs[0] in _GIT_LOOKS else "write"
    if name in _LOOKS:
        return "write" if _IN_PLACE.search(part) and name in ("sed", "find", "fd") else "read"
    return "neutral" if name in _NEUTRAL else "run"


def _after_assignments(words: list[str]) -> Iterator[str]:
    begun = False
    for word in words:
        begun = begun or not re.fullmatch(r"[A-Za-z_]\w*=\S*", word)
        if begun:
            yield word


_WORD = re.compile(r"[^\W_]+")
_HUMP = re.compile(r"[A-Z]?[a-z]{2,}|[A-Z]{2,}(?![a-z])")
_GENERIC = frozenset({
    "add", "all", "and", "are", "but", "can", "file", "files", "fix", "for", "from", "has", "have", "index", "init", "into",
    "its", "lib", "main", "make", "mod", "more", "must", "new", "not", "now", "pass", "run", "should", "spec", "src", "test",
    "tests", "than", "that", "the", "them", "then", "this", "util", "utils", "was", "when", "will", "with", "work", "you",
})  # fmt: skip
"""Words that name no file in particular."""


def relevant(path: str, words: str) -> bool:
    """Whether ``words`` name a path: whole, its file name, or a word of its stem; of its folder if the stem says nothing."""
    named = {
        form for word in re.findall(r"[\w./-]+", words) for form in (word, word.strip("./"), word.removeprefix("./"))
    }
    folder, _, name = path.rpartition("/")
    if ("." in name or folder) and (path in named or name in {one.rpartition("/")[2] for one in named}):
        return True
    return bool((_tokens(name.split(".", 1)[0] or name) or _tokens(folder.rpartition("/")[2])) & _tokens(words))


@lru_cache(maxsize=256)
def _tokens(text: str) -> frozenset[str]:
    parts = [part for word in _WORD.findall(text) for part in (word, *_HUMP.findall(word))]
    return frozenset(part.lower() for part in parts if len(part) > 2) - _GENERIC
