"""Merges in throwaway worktrees: a whole branch by `git merge --squash`, a part of one by its commits or by its files."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from orchconverge.adapters.git_process import SLOW_SECONDS, Result, Run, full_id
from orchconverge.core.target import Sha
from orchconverge.ports import Landed, Squash

FIELDS = ("Orchconverge-Branch", "Orchconverge-Residue-Of", "Orchconverge-Criterion", "Orchconverge-Reason")
DIFF = ("diff-tree", "-p", "--binary", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color")
"""Plumbing: no setting of a person changes the form of its patches."""
UNFIT = re.compile(
    "error: (.+): (?:patch does not apply|does not match index|does not exist in index|already exists in index)"
)
IN_THE_WAY = re.compile(
    "error: unable to write file .* mode [0-7]+: (?:Not a directory|Is a directory|Directory not empty|File exists)"
)


class Grafting:
    """Builds trees and never moves a ref. ``add`` makes a worktree of ours, ``remove`` takes one away."""

    def __init__(
        self,
        run: Run,
        *,
        add: Callable[..., None],
        remove: Callable[[Path], None],
        who: Callable[[], Mapping[str, str]],
    ) -> None:
        self._run = run
        self._add = add
        self._remove = remove
        self._who = who

    def squash(
        self,
        path: Path,
        *,
        tip: Sha,
        head: Sha,
        base: Sha | None = None,
        commits: Sequence[Sha] = (),
        paths: Sequence[str] = (),
        patch: bytes = b"",
    ) -> Squash:
        """What a branch gives on ``tip``: by `git merge --squash`, by single commits, or by the changes of single files."""
        with self._place(path, tip):
            if patch:
                return self._apply(path, patch)
            if paths and base is not None:
                return self._apply(path, self.patch(base, head, paths))
            if not commits:
                return self._merge(path, head)
            built = Squash(tree=None)
            for commit in commits:
                built = self._apply(path, self.patch(Sha(f"{full_id(commit)}^"), commit))
                if built.tree is None:
                    break
            return built

    def _merge(self, path: Path, head: Sha) -> Squash:
        merge = ["merge", "--squash", "--quiet", "--no-stat", "--end-of-options", full_id(head)]
        merged = self._run(merge, cwd=path, env=self._who(), check=False, deadline_seconds=SLOW_SECONDS)
        return self._built(path, merged, "merge --squash")

    def patch(self, old: Sha, new: Sha, paths: Sequence[str] = ()) -> bytes:
        """The diff between two commits, of some paths or of all, so that it can be applied to the byte."""
        literal = {"GIT_LITERAL_PATHSPECS": "1"}
        return self._run([*DIFF, old, new, "--", *paths], env=literal, deadline_seconds=SLOW_SECONDS).out

    def _apply(self, path: Path, patch: bytes) -> Squash:
        """Apply a patch to index and tree, by merging where the lines moved. No trace of whose commit it was goes in."""
        if not patch:
            return self._built(path, None, "apply")
        applied = self._run(
            ["apply", "--3way", "--index", "--whitespace=nowarn", "-"],
            cwd=path,
            stdin=patch,
            check=False,
            deadline_seconds=SLOW_SECONDS,
        )
        unfit = applied.code == 1 or (applied.code and IN_THE_WAY.search(applied.err))
        if unfit and not self._unmerged(path):  # it does not fit at all
            return Squash(tree=None, conflicts=self._unfit(path, patch, applied.err))
        return self._built(path, applied, "apply")

    def _unfit(self, path: Path, patch: bytes, said: str) -> tuple[str, ...]:
        """The files in which a patch does not fit: those that git names, else all that it touches."""
        told = os.fsdecode(self._run(["apply", "--numstat", "-z"], cwd=path, stdin=patch).out).split("\0")[:-1]
        touched = {entry.split("\t", 2)[2] for entry in told}
        return tuple(sorted(touched.intersection(UNFIT.findall(said)) or touched))

    def _built(self, path: Path, done: Result | None, what: str) -> Squash:
        # Never by the exit code alone: a conflict leaves no MERGE_HEAD, and a later commit would take the markers along.
        conflicts = self._unmerged(path)
        if conflicts:
            return Squash(tree=None, conflicts=conflicts)
        if done is not None and done.code:
            raise done.failure(what)
        if marked := self._markers(path):
            return Squash(tree=None, conflicts=marked)
        return Squash(tree=Sha(self._run(["write-tree"], cwd=path).text))

    def _markers(self, path: Path) -> tuple[str, ...]:
        """Files in which somebody committed a conflict as it stood. A line of seven `=` alone is a heading."""
        told = self._run(["diff", "--cached", "--check", "--no-ext-diff", "--no-textconv"], cwd=path, check=False)
        begins, ends = set[str](), set[str]()
        name = ""
        for line in os.fsdecode(told.out).splitlines():
            if line.endswith(": leftover conflict marker"):
                name = line.rsplit(":", 2)[0]
            elif name and line.startswith("+<<<<<<< "):
                begins.add(name)
            elif name and line.startswith("+>>>>>>> "):
                ends.add(name)
        return tuple(sorted(begins & ends))

    def _unmerged(self, path: Path) -> tuple[str, ...]:
        told = os.fsdecode(self._run(["ls-files", "--unmerged", "-z"], cwd=path).out).split("\0")[:-1]
        return tuple(sorted({entry.partition("\t")[2] for entry in told}))

    @contextmanager
    def _place(self, path: Path, onto: Sha) -> Iterator[None]:
        """A clean worktree of ``onto`` for as long as it is needed."""
        self._remove(path)
        self._add(path, branch=None, at=onto)
        try:
            yield
        finally:
            self._remove(path)

    def landed(self, basin: str, *, since: Sha, head: Sha) -> Sequence[Landed]:
        """Commits after ``since`` up to ``head`` that carry the trailers of a graft for this basin, oldest first."""
        trailers = "%x00".join(f"%(trailers:key={key},valueonly,unfold)" for key in ("Orchconverge-Basin", *FIELDS))
        asked = ["log", "-z", "--reverse", "--first-parent", f"--format=tformat:%H%x00%T%x00{trailers}"]
        asked += [
            "--fixed-strings",
            "--grep=Orchconverge-Basin: ",
            "--end-of-options",
            full_id(head),
            f"^{full_id(since)}",
        ]
        fields = self._run(asked, deadline_seconds=SLOW_SECONDS).out.decode("utf-8", "replace").split("\0")
        found = []
        for sha, tree, of, branch, loser, criterion, reason in zip(*[iter(fields)] * 7, strict=False):
            if of.strip() != basin:
                continue
            found.append(
                Landed(
                    commit=Sha(sha),
                    tree=Sha(tree),
                    branch=(loser or branch).strip(),
                    part=bool(loser.strip()),
                    criterion=criterion.strip() or None,
                    paths=self.changed(Sha(f"{sha}^"), Sha(sha)),
                    reason=reason.strip(),
                )
            )
        return found

    def changed(self, old: Sha, new: Sha) -> tuple[str, ...]:
        """The paths in which two commits differ."""
        asked = [
            "diff-tree",
            "-r",
            "-z",
            "--name-only",
            "--no-renames",
            "--no-ext-diff",
            "--end-of-options",
            old,
            new,
        ]
        return tuple(os.fsdecode(self._run(asked, deadline_seconds=SLOW_SECONDS).out).split("\0")[:-1])
