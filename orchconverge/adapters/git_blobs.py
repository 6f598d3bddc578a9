"""What changed files held before and after, as admission weighs it: by commits, or in a working tree as it stands now."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from orchconverge.adapters.git_process import SLOW_SECONDS, Run, full_id
from orchconverge.core.fingerprints import ABSENT, Blob, blob
from orchconverge.core.target import Sha

Changes = Mapping[str, tuple[Blob, Blob]]

MOST_PATHS = 500
"""Changed files that are looked at; what is changed beyond them is changed well enough."""
MOST_BYTES = 1 << 20
"""Of a larger file only its identity is told, so that a change of it is never white space alone."""
RAW = ("--raw", "-z", "--no-renames", "--no-abbrev", "--no-ext-diff", "--no-textconv", "--ignore-submodules=none")
LINK = b"160000"
NOW_SECONDS = 5.0
"""How long a look at a working tree may take: a mind waits for it."""


class Blobs:
    """Reads contents off git's objects and off working trees. Nothing is written."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def between(self, pairs: Sequence[tuple[Sha, Sha]]) -> tuple[Changes, ...]:
        """Per pair of trees: path -> what it held in the one and in the other. Raises `Failed`."""
        if not pairs:
            return ()
        asked = "".join(f"{full_id(one)} {full_id(other)}\n" for one, other in pairs).encode()
        told = self._run(["diff-tree", "--stdin", "-r", *RAW], stdin=asked, deadline_seconds=SLOW_SECONDS).out
        found: list[dict[str, tuple[bytes, bytes]]] = []
        while told:
            if not told.startswith(
                b":"
            ):  # the line of a pair; a path may hold a newline too, but stands behind its entry
                _, _, told = told.partition(b"\n")
                found.append({})
                continue
            entry, path, told = told.split(b"\0", 2)
            was, now, one, other, _ = entry[1:].split(b" ")
            if len(found[-1]) < MOST_PATHS and LINK not in (was, now):
                found[-1][_path(path)] = (one, other)
        held = self._contents({oid for change in found for both in change.values() for oid in both})
        return tuple({p: (held[one], held[other]) for p, (one, other) in change.items()} for change in found)

    def standing(self, tree: Path, base: Sha) -> Changes:
        """Path -> what it held in the commit ``base`` and holds in the working tree at ``tree`` now. Raises `Failed`."""
        told = self._run(["diff", *RAW, full_id(base), "--"], cwd=tree, deadline_seconds=NOW_SECONDS).out
        fields = iter(told.split(b"\0")[:-1])
        before: dict[bytes, bytes] = {}
        for field in fields:
            was, now, one, _, _ = field[1:].split(b" ")
            path = next(fields)
            if len(before) < MOST_PATHS and LINK not in (was, now):
                before[path] = one
        new = self._run(["ls-files", "-z", "--others", "--exclude-standard"], cwd=tree, deadline_seconds=NOW_SECONDS)
        for path in new.out.split(b"\0")[:-1]:
            if len(before) < MOST_PATHS and not path.endswith(b"/"):
                before.setdefault(path, b"0" * len(base))
        held = self._contents(set(before.values()))
        return {_path(path): (held[one], _on_disk(tree, os.fsdecode(path))) for path, one in before.items()}

    def _contents(self, wanted: set[bytes]) -> dict[bytes, Blob]:
        """The blobs of these object ids; all zeros is a file that is not there."""
        found = {oid: ABSENT for oid in wanted if not oid.strip(b"0")}
        asked = sorted(wanted - found.keys())
        if not asked:
            return found
        lines = b"\n".join(asked) + b"\n"
        sizes = self._run(["cat-file", "--batch-check"], stdin=lines).out.splitlines()
        small = []
        for oid, line in zip(asked, sizes, strict=True):
            words = line.split()
            if words[1:2] == [b"blob"] and int(words[2]) <= MOST_BYTES:
                small.append(oid)
            else:
                found[oid] = Blob(id=oid.decode(), ink=oid.decode())
        if not small:
            return found
        out = self._run(["cat-file", "--batch"], stdin=b"\n".join(small) + b"\n", deadline_seconds=SLOW_SECONDS).out
        at = 0
        for oid in small:
            start = out.index(b"\n", at) + 1
            size = int(out[at:start].split()[2])
            found[oid] = blob(out[start : start + size])
            at = start + size + 1
        return found


def _on_disk(tree: Path, name: str) -> Blob:
    """What a path in a working tree holds now; a link is what it says, anything else that is no file is not there."""
    path = tree / name
    try:
        found = path.lstat()
        if stat.S_ISLNK(found.st_mode):
            return blob(os.fsencode(path.readlink()))
        if found.st_size > MOST_BYTES:
            mark = f"{found.st_size}.{found.st_mtime_ns}"
            return Blob(id=mark, ink=mark)
        if not stat.S_ISREG(found.st_mode):
            return ABSENT
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            return blob(file.read(MOST_BYTES + 1))
    except OSError:
        return ABSENT


def _path(name: bytes) -> str:
    return name.decode("utf-8", "backslashreplace")
