"""What files of a tree hold, read off git's objects and never off a working tree."""

from __future__ import annotations

import os
from collections.abc import Sequence

from orchconverge.adapters.git_process import SLOW_SECONDS, Run, full_id
from orchconverge.core.target import Sha

MOST_BYTES = 4 << 20


def files_of(run: Run, tree: Sha, paths: Sequence[str]) -> dict[str, bytes]:
    """Path -> its bytes, for those that are files of the tree (a link's are where it leads) and not too long. Raises `Failed`."""
    asked = [path for path in dict.fromkeys(paths) if path and "\n" not in path]
    lines = b"".join(b"%s:%s\n" % (full_id(tree).encode(), os.fsencode(path)) for path in asked)
    if not asked:
        return {}
    told = run(["cat-file", "--batch-check"], stdin=lines).out.split(b"\n")
    objects = {path: line.split() for path, line in zip(asked, told, strict=False)}
    small = {
        path: words[0]
        for path, words in objects.items()
        if len(words) == 3 and words[1] == b"blob" and words[2].isdigit() and int(words[2]) <= MOST_BYTES
    }
    if not small:
        return {}
    wanted = b"".join(b"%s\n" % oid for oid in small.values())
    out = run(["cat-file", "--batch"], stdin=wanted, deadline_seconds=SLOW_SECONDS).out
    found: dict[str, bytes] = {}
    at = 0
    for path in small:
        begins = out.index(b"\n", at) + 1
        ends = begins + int(out[at:begins].split()[2])
        found[path] = out[begins:ends]
        at = ends + 1
    return found
