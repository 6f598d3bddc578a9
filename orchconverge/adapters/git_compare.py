"""What git tells of attempts side by side: how they differ, which lines they claim, whether they merge. Writes nothing."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, TypeVar

from orchconverge.adapters.git_blobs import Blobs, Changes
from orchconverge.adapters.git_files import files_of
from orchconverge.adapters.git_process import SLOW_SECONDS, Run, full_id
from orchconverge.core.overlap import Change, Claim, Difference, Lines, Merge
from orchconverge.core.target import Sha
from orchconverge.errors import Failed

T = TypeVar("T")
R = TypeVar("R")

HUNK = re.compile(rb"^@@ -(\d+)(?:,(\d+))? ", re.MULTILINE)
SECTION = re.compile(rb"^diff --git ", re.MULTILINE)
"""Neither can begin a line of content: that begins with a plus, a minus or a backslash where there is no context."""
LINKS = frozenset({b"120000", b"160000"})
DIFF = ("diff-tree", "-r", "-z", "--raw", "--numstat", "-M", "--no-ext-diff", "--no-textconv", "--no-color")
NEVER_AN_OPTION = ("--ignore-submodules=none", "--src-prefix=a/", "--dst-prefix=b/", "--end-of-options")


class _Entry(NamedTuple):
    """A changed file as `git diff --raw` has it: kind, path before and after, modes, and the blob before."""

    kind: str
    was: str
    path: str
    modes: tuple[bytes, bytes]
    blob: str


class Comparison:
    """Implements `orchconverge.ports.Comparing`. Bytes of a path that are no UTF-8 are shown by their numbers."""

    def __init__(self, run: Run, common_dir: Path) -> None:
        self._run = run
        self._objects = common_dir / "objects"
        self._blobs = Blobs(run)

    def commits(self, heads: Mapping[str, Sha | None]) -> dict[str, Sha]:
        """Those of these branches whose commit is there: the head that was recorded, else what its keep-ref holds."""
        asked = ""
        for branch, head in heads.items():
            kept = f"refs/orchconverge/keep/{branch}"
            asked += f"{full_id(head) if head else kept}^{{commit}}\n{kept}^{{commit}}\n"
        told = self._run(["cat-file", "--batch-check"], stdin=asked.encode()).out.split(b"\n")
        found: dict[str, Sha] = {}
        for branch, answers in zip(heads, zip(told[::2], told[1::2], strict=False), strict=False):
            there = [fields[0] for fields in map(bytes.split, answers) if fields[1:2] == [b"commit"]]
            if there:
                found[branch] = Sha(there[0].decode())
        return found

    def fork(self, one: Sha, other: Sha) -> Sha | None:
        """The newest commit that both descend from."""
        told = self._run(["merge-base", "--end-of-options", full_id(one), full_id(other)], check=False)
        if told.code not in (0, 1):
            raise told.failure("merge-base")
        return Sha(told.text) if told.out else None

    def difference(self, old: Sha, new: Sha, *, patch: bool) -> Difference:
        """How ``new`` differs from ``old``, renames found."""
        asked = [*DIFF, *(["-p"] if patch else []), *NEVER_AN_OPTION, full_id(old), full_id(new)]
        told, _, text = self._run(asked, deadline_seconds=SLOW_SECONDS).out.partition(b"\0\0")
        changes = [
            Change(
                kind=entry.kind,
                path=entry.path,
                old_path=entry.was if entry.was != entry.path else "",
                added=counts[0] if counts else None,
                removed=counts[1] if counts else None,
            )
            for entry, counts in _read(told)
        ]
        return Difference(changes=tuple(changes), patch=text.decode("utf-8", "replace"))

    def claims(self, ranges: Sequence[tuple[Sha, Sha]]) -> tuple[tuple[Claim, ...], ...]:
        """What each head claims of its base, for each (base, head)."""
        return tuple(_side_by_side(self._claims, ranges))

    def files(self, tree: Sha, paths: Sequence[str]) -> dict[str, bytes]:
        """What files of a tree hold, those of the ``paths`` that are there and at most 4 MiB long."""
        return files_of(self._run, tree, paths)

    def contents(self, pairs: Sequence[tuple[Sha, Sha]]) -> tuple[Changes, ...]:
        """Per pair of trees the changed paths: what each held in the one and in the other."""
        return self._blobs.between(pairs)

    def contents_now(self, tree: Path, base: Sha) -> Changes:
        """What changed since the commit ``base`` in the working tree at ``tree``, uncommitted included."""
        return self._blobs.standing(tree, base)

    def _claims(self, pair: tuple[Sha, Sha]) -> tuple[Claim, ...]:
        asked = [*DIFF, "-p", "-U0", "--inter-hunk-context=0", *NEVER_AN_OPTION, *map(full_id, pair)]
        told, _, patch = self._run(asked, deadline_seconds=SLOW_SECONDS).out.partition(b"\0\0")
        sections = iter(SECTION.split(patch)[1:])
        found: list[Claim] = []
        for entry, counts in _read(told):
            section = next(sections, None)
            if entry.kind == "T":  # shown as one file that goes and one that comes
                next(sections, None)
            if section is None:
                raise Failed("git diff-tree told of a change and did not show it")
            whole = entry.kind in "ADT" or counts is None or not LINKS.isdisjoint(entry.modes)
            found.append(Claim(entry.was, "" if entry.kind == "A" else entry.blob, None if whole else _lines(section)))
            if entry.path != entry.was:
                found.append(Claim(entry.path, "", None))
        return tuple(found)

    def merge_pairs(self, pairs: Sequence[tuple[Sha, Sha]]) -> tuple[Merge, ...]:
        """Whether each two merge, and where they conflict. The trees that git makes for it go away with a folder of their own."""
        width = max(1, min(_cores(), len(pairs)))
        size = -(-len(pairs) // width) or 1
        parts = [pairs[at : at + size] for at in range(0, len(pairs), size)]
        with tempfile.TemporaryDirectory(prefix="orchconverge-") as folder:
            env = {"GIT_OBJECT_DIRECTORY": folder, "GIT_ALTERNATE_OBJECT_DIRECTORIES": _quoted(self._objects)}
            merged = _side_by_side(lambda part: self._merge(part, env), parts)
            return tuple(merge for part in merged for merge in part)

    def _merge(self, pairs: Sequence[tuple[Sha, Sha]], env: Mapping[str, str]) -> list[Merge]:
        asked = ["merge-tree", "--write-tree", "--stdin", "--name-only", "--no-messages"]
        found: list[Merge] = []
        while len(found) < len(pairs):
            left = pairs[len(found) :]
            lines = "".join(f"{full_id(one)} {full_id(other)}\n" for one, other in left)
            try:
                told = self._run(asked, stdin=lines.encode(), env=env, check=False, deadline_seconds=SLOW_SECONDS)
            except Failed:
                break
            answered = list(_answers(told.out, left))
            if told.code == 0 and len(answered) < len(left):
                raise Failed("git merge-tree left out pairs that it was asked about")
            found += answered
            if told.code == 129 and not answered:  # its usage: a git that does not know --stdin
                break
            if told.code and len(found) < len(
                pairs
            ):  # it ends at the first pair that it cannot merge at all (no common history, a lost object)
                found.append(Merge(clean=None))
        return [*found, *[Merge(clean=None)] * (len(pairs) - len(found))]


def _answers(out: bytes, pairs: Sequence[tuple[Sha, Sha]]) -> Iterator[Merge]:
    """Each is a status, a tree and conflicting paths, and ends with an empty field; of one cut off nothing is told."""
    fields = iter(out.split(b"\0")[:-1])
    for pair in pairs:
        status = next((field for field in fields if field), None)
        answer: list[bytes] = []
        for field in fields:
            if not field:
                break
            answer.append(field)
        else:
            return
        yield Merge(status == b"1", tuple(sorted({_without(_path(name), pair) for name in answer[1:]})))


def _without(path: str, pair: tuple[Sha, Sha]) -> str:
    """The path of a file that collides with a folder: git lists it beside that, with its commit behind the name."""
    return path.removesuffix(f"~{pair[0]}").removesuffix(f"~{pair[1]}")


def _read(told: bytes) -> list[tuple[_Entry, tuple[int, int] | None]]:
    """The files of `DIFF`, each with its lines added and removed, ``None`` for a binary one."""
    entries: list[_Entry] = []
    counts: list[tuple[int, int] | None] = []
    fields = iter(told.removesuffix(b"\0").split(b"\0") if told else ())
    for field in fields:
        if field.startswith(b":"):
            before, after, blob, _, kind = field[1:].split(b" ")
            was = path = next(fields)
            if kind.startswith(b"R"):
                path = next(fields)
            entries.append(_Entry(kind[:1].decode(), _path(was), _path(path), (before, after), blob.decode()))
        else:
            added, removed, path = field.split(b"\t", 2)
            if not path:  # of a rename both paths follow
                next(fields), next(fields)
            counts.append(None if added == b"-" else (int(added), int(removed)))
    return list(zip(entries, counts, strict=True))


def _lines(section: bytes) -> tuple[Lines, ...]:
    found = []
    for first, count in HUNK.findall(section):
        size = int(count or 1)
        after = int(first) - (1 if size else 0)
        found.append(Lines(after, after + size))
    return tuple(found)


def _path(name: bytes) -> str:
    return name.decode("utf-8", "backslashreplace")


def _quoted(path: Path) -> str:
    """As git reads a list of folders: a colon in one would end it."""
    text = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def _side_by_side(ask: Callable[[T], R], questions: Sequence[T]) -> list[R]:
    """All answers in order, as many at once as there are cores."""
    with ThreadPoolExecutor(_cores()) as pool:
        return list(pool.map(ask, questions))
