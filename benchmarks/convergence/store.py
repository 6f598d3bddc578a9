"""A real git repository with few processes: one that writes commits, one that reads objects, one for each merge."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO

from orchconverge.core.target import Sha

IDENTITY = "mind <mind@localhost> 0 +0000"
SETTINGS = {"fastimport.unpackLimit": "0", "gc.auto": "0", "core.hooksPath": os.devnull}
FLAGS = tuple(part for name, value in SETTINGS.items() for part in ("-c", f"{name}={value}"))
QUIET = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, "LC_ALL": "C.UTF-8"}


class Store:
    """A new repository at ``root``. ``merges`` counts those that were tried in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.merges = 0
        self._trees: dict[Sha, Sha] = {}
        self._blobs: dict[Sha, dict[str, Sha]] = {}
        self._texts: dict[Sha, str] = {}
        self._marks = 0
        self._env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")} | QUIET
        self._run(["init", "--quiet", "--template=", "--initial-branch=main", str(root)], Path.cwd())
        self._importer = self._open("fast-import", "--quiet", "--force")
        self._reader = self._open("cat-file", "--batch")

    def close(self) -> None:
        """End both processes; the repository stays."""
        for process in (self._importer, self._reader):
            process.communicate()

    # --- what is there -----------------------------------------------------------------------------------------------

    def tree(self, commit: Sha) -> Sha:
        """The tree of a commit."""
        if commit not in self._trees:
            self._trees[commit] = Sha(self._object(commit)[5:45].decode())
        return self._trees[commit]

    def blobs(self, tree: Sha) -> Mapping[str, Sha]:
        """Path -> blob of a whole tree."""
        if tree not in self._blobs:
            found: dict[str, Sha] = {}
            data, at = self._object(tree), 0
            while at < len(data):
                end = data.index(b"\0", at)
                mode, name = data[at:end].split(b" ", 1)
                sha = Sha(data[end + 1 : end + 21].hex())
                inner = {f"/{path}": blob for path, blob in self.blobs(sha).items()} if mode == b"40000" else {"": sha}
                found |= {name.decode() + rest: blob for rest, blob in inner.items()}
                at = end + 21
            self._blobs[tree] = found
        return self._blobs[tree]

    def text(self, blob: Sha) -> str:
        """What is in a blob."""
        if blob not in self._texts:
            self._texts[blob] = self._object(blob).decode()
        return self._texts[blob]

    def files(self, tree: Sha) -> dict[str, str]:
        """Path -> text of a whole tree."""
        return {path: self.text(blob) for path, blob in self.blobs(tree).items()}

    def changed(self, one: Sha, other: Sha) -> tuple[str, ...]:
        """Paths that differ between two trees."""
        left, right = self.blobs(one), self.blobs(other)
        return tuple(sorted(path for path in left.keys() | right.keys() if left.get(path) != right.get(path)))

    # --- what is made ------------------------------------------------------------------------------------------------

    def chain(self, parent: Sha | None, commits: Iterable[tuple[str, Mapping[str, str]]]) -> list[Sha]:
        """Commits, each a message and the files that change, one on the other; whole in git when this returns."""
        lines, first = b"", self._marks + 1
        onto: str | None = parent
        for message, changes in commits:
            lines += self._commit(onto, message)
            for path, text in changes.items():
                lines += _line(f"M 100644 inline {path}") + _data(text)
            onto = f":{self._marks}"
        return self._made(lines, first)

    def _commit(self, parent: str | None, message: str) -> bytes:
        self._marks += 1
        head = f"commit refs/minds/newest\nmark :{self._marks}\ncommitter {IDENTITY}"
        return _line(head) + _data(message) + (_line(f"from {parent}") if parent else b"")

    def _made(self, lines: bytes, first: int) -> list[Sha]:
        marks = range(first, self._marks + 1)
        stdin, stdout = self._importer.stdin, self._importer.stdout
        assert stdin is not None and stdout is not None
        stdin.write(lines + b"".join(_line(f"get-mark :{mark}") for mark in marks) + b"checkpoint\nprogress done\n")
        stdin.flush()
        made = [Sha(stdout.readline().strip().decode()) for _ in marks]
        assert stdout.readline() == b"progress done\n", "git fast-import ended"
        return made

    def squash(self, tip: Sha, head: Sha) -> Sha | None:
        """The tree that `git merge --squash head` leaves on ``tip``; nothing if they conflict."""
        self.merges += 1
        told = self._run(["merge-tree", "--write-tree", "--no-messages", tip, head], self.root, codes=(0, 1))
        return Sha(told.stdout.strip().decode()) if told.returncode == 0 else None

    def pick(self, onto: Sha, commit: Sha, parent: Sha) -> Sha | None:
        """The tree that `git cherry-pick commit` leaves on ``onto``; nothing if they conflict.

        Before 2.40, `merge-tree` takes no base of one's own: a commit of the same tree whose only parent is the picked
        one's gives it.
        """
        return self.squash(self.commit_of(self.tree(onto), parent, "stands in\n"), commit)

    def commit_of(self, tree: Sha, parent: Sha, message: str) -> Sha:
        """A commit of exactly ``tree`` on ``parent``."""
        return self._made(self._commit(parent, message) + _line(f"M 040000 {tree} "), self._marks)[0]

    def only(self, base: Sha, tree: Sha, paths: Sequence[str]) -> Sha:
        """A commit on ``base`` that brings some paths to where ``tree`` has them."""
        there = self.blobs(tree)
        gone = [path for path in paths if path not in there]
        assert not gone, f"minds remove nothing, and {gone} are gone"
        return self.chain(base, [("some paths", {path: self.text(there[path]) for path in paths})])[0]

    # --- processes ---------------------------------------------------------------------------------------------------

    def _run(self, args: list[str], cwd: Path, codes: tuple[int, ...] = (0,)) -> subprocess.CompletedProcess[bytes]:
        told = subprocess.run(["git", *FLAGS, *args], cwd=cwd, env=self._env, capture_output=True, check=False)
        assert told.returncode in codes, told.stderr.decode()
        return told

    def _open(self, *args: str) -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE
        return subprocess.Popen(["git", *FLAGS, *args], cwd=self.root, env=self._env, stdin=pipe, stdout=pipe)

    def _object(self, sha: Sha) -> bytes:
        stdin, stdout = self._reader.stdin, self._reader.stdout
        assert stdin is not None and stdout is not None
        stdin.write(_line(sha))
        stdin.flush()
        return _body(stdout)


def _body(stdout: IO[bytes]) -> bytes:
    head = stdout.readline().split()
    assert head[1:2] not in ([b"missing"], []), f"git does not have {head}"
    data = stdout.read(int(head[2]))
    stdout.read(1)
    return data


def _line(text: str) -> bytes:
    return f"{text}\n".encode()


def _data(text: str) -> bytes:
    data = text.encode()
    return b"data %d\n%s\n" % (len(data), data)
