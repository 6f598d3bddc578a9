"""Choosing of a diff, hunk by hunk, on a terminal: with the answers of `git add -p`."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import click

from orchconverge.core.views.text import clean
from orchconverge.errors import Refused

HELP = """\
y  take this hunk
n  leave it
a  take this and all that follow in this file
d  leave this and all that follow in this file
q  leave this and all that follow
"""
_FILE = re.compile(rb"^diff --git ", re.MULTILINE)
_HUNK = re.compile(rb"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@", re.MULTILINE)
"""Neither can begin a line of content: that begins with a plus, a minus, a blank or a backslash."""
_MODES = re.compile(rb"^old mode \d+\nnew mode \d+\n", re.MULTILINE)


@dataclass(frozen=True)
class File:
    """One file of a diff. Without ``hunks`` (binary, empty, only its mode) it is taken or left as it is."""

    header: bytes
    hunks: tuple[bytes, ...]

    @property
    def name(self) -> str:
        """What it is called, made safe to show."""
        told = re.search(rb"^(?:\+\+\+ \"?b/|--- \"?a/)(.+)$", self.header, re.MULTILINE)
        both = self.header.split(b"\n", 1)[0].removeprefix(b"diff --git ")  # a/NAME b/NAME
        return clean((told[1] if told else both[2 : len(both) // 2]).strip(b'/"').decode("utf-8", "backslashreplace"))

    @property
    def whole(self) -> bool:
        """Whether it can only be taken in one piece: also one that comes or goes."""
        return not self.hunks or b"\nnew file mode " in self.header or b"\ndeleted file mode " in self.header


def files(diff: bytes) -> Iterator[File]:
    """The files of a diff, in order."""
    starts = [found.start() for found in _FILE.finditer(diff)]
    for start, end in zip(starts, [*starts[1:], len(diff)], strict=True):
        section = diff[start:end]
        cuts = [found.start() for found in _HUNK.finditer(section)]
        bounds = [*cuts, len(section)]
        yield File(section[: bounds[0]], tuple(section[at:to] for at, to in pairwise(bounds)))


def joined(file: File, wanted: Sequence[bool]) -> bytes:
    """The file's diff with only the ``wanted`` hunks, each said to land where it does without the others.

    Without any of them it is the change of the file's mode, if it has one.
    """
    out, shift = file.header, 0
    for hunk, take in zip(file.hunks, wanted, strict=True):
        found = _HUNK.match(hunk)
        assert found is not None
        old, new = int(found[2] or 1), int(found[4] or 1)
        if not take:
            shift += new - old
            continue
        out += b"@@ -%b,%d +%d,%d @@" % (found[1], old, int(found[3]) - shift, new) + hunk[found.end() :]
    if any(wanted):
        return out
    mode = _MODES.search(file.header)
    return file.header[: mode.end()] if mode is not None else b""


def chosen(diff: bytes) -> bytes:
    """Ask for each hunk, and return the diff of those taken. Raises `Refused` without a terminal, and if none was taken."""
    if not sys.stdin.isatty():
        raise Refused(
            "hunks are chosen on a terminal, and there is none",
            hint="whole files need none: orchconverge graft BRANCH --only PATH --reason TEXT",
        )
    found = list(files(diff))
    taken, left = b"", False
    for place, file in enumerate(found, 1):
        if left:
            break
        print(f"\n{file.name}  (file {place} of {len(found)})", file=sys.stderr)
        part, left = _whole(file) if file.whole else _hunks(file)
        taken += part
    if not taken:
        raise Refused("nothing was chosen, so nothing is taken", hint="orchconverge graft BRANCH --hunk asks again")
    return taken


def _whole(file: File) -> tuple[bytes, bool]:
    """A file that comes in one piece: what of it is taken, and whether nothing more is to be asked."""
    for hunk in file.hunks:
        _show(hunk)
    if not file.hunks:
        kind = "binary, or without lines" if b"\nGIT binary patch" in file.header else "without lines"
        print(f"  ({kind})", file=sys.stderr)
    answer = _asked("Take this file")
    return (file.header + b"".join(file.hunks) if answer in "ya" else b""), answer == "q"


def _hunks(file: File) -> tuple[bytes, bool]:
    if _MODES.search(file.header):
        answer = _asked("Take the change of its mode")
        if answer in "dq":
            return b"", answer == "q"
        if answer == "a":
            return joined(file, [True] * len(file.hunks)), False
        if answer == "n":
            file = File(_MODES.sub(b"", file.header), file.hunks)
    wanted: list[bool] = []
    answer = ""
    for place, hunk in enumerate(file.hunks, 1):
        if answer in ("a", "d", "q"):
            wanted.append(answer == "a")
            continue
        _show(hunk)
        answer = _asked(f"({place}/{len(file.hunks)}) Take this hunk")
        wanted.append(answer in "ya")
    return joined(file, wanted), answer == "q"


def _show(hunk: bytes) -> None:
    lines = hunk.decode("utf-8", "backslashreplace").rstrip("\n").split("\n")
    print("\n".join(clean(line, keep="\t") for line in lines), file=sys.stderr)


def _asked(question: str) -> str:
    """One of y n a d q. Anything else is told what they mean, and asked again."""
    while True:
        answer: str = click.prompt(f"{question} [y,n,a,d,q,?]", err=True, default="", show_default=False)
        answer = answer.strip().lower()
        if answer in ("y", "n", "a", "d", "q"):
            return answer
        print(HELP, end="", file=sys.stderr)
