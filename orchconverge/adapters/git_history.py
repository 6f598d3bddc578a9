"""What git tells about commits: which there are between two of them, and what they change."""

from __future__ import annotations

import os

from orchconverge.adapters.git_process import SLOW_SECONDS, Run, full_id
from orchconverge.core.target import Sha
from orchconverge.ports import Commit, Work

COMMIT_FIELDS = "%m%x00%H%x00%T%x00%an <%ae>%x00%cn <%ce>%x00%s%x00%(trailers:key=Criterion,valueonly,unfold)"


class History:
    """Reads commits; messages are decoded with replacement characters, paths so that they lead back to the file."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def work(self, base: Sha, head: Sha) -> Work:
        """What ``head`` adds to ``base``: commits newest first; a rename is a path removed and a path added."""
        asked = ["log", "-z", "--encoding=UTF-8", f"--format=tformat:{COMMIT_FIELDS}", "--end-of-options"]
        told = self._run([*asked, f"{full_id(base)}...{full_id(head)}"], deadline_seconds=SLOW_SECONDS)
        fields = told.out.decode("utf-8", "replace").split("\0")
        commits: list[Commit] = []
        descends, tree = True, None
        for side, sha, its_tree, author, committer, subject, criteria in zip(*[iter(fields)] * 7, strict=False):
            if side == "<":
                descends = False
                continue
            tree = Sha(its_tree) if sha == head else tree
            named = tuple(line.strip() for line in criteria.splitlines() if line.strip())
            commits.append(Commit(sha=Sha(sha), author=author, committer=committer, subject=subject, criteria=named))
        changed, removed, executable, linked = self._difference(base, head)
        return Work(
            base=base,
            head=head,
            tree=tree or Sha(self._run(["rev-parse", "--verify", f"{head}^{{tree}}"]).text),
            descends=descends,
            commits=tuple(commits),
            changed=changed,
            removed_lines=removed,
            executable_changed=executable,
            linked=linked,
        )

    def _difference(
        self, base: Sha, head: Sha
    ) -> tuple[tuple[str, ...], dict[str, int], tuple[str, ...], tuple[str, ...]]:
        flags = ["-r", "-z", "--raw", "--numstat", "--no-renames", "--no-ext-diff", "--no-textconv"]
        told = self._run(["diff-tree", *flags, "--end-of-options", base, head], deadline_seconds=SLOW_SECONDS)
        changed: list[str] = []
        executable: list[str] = []
        linked: list[str] = []
        removed: dict[str, int] = {}
        fields = iter(os.fsdecode(told.out).split("\0")[:-1])
        for field in fields:
            if field.startswith(":"):
                path, (before, after) = next(fields), field[1:].split(" ")[:2]
                changed.append(path)
                if after != "000000" and (before == "100755") != (after == "100755"):
                    executable.append(path)
                if after == "160000":
                    linked.append(path)
            else:
                _, lost, path = field.split("\t", 2)
                if lost not in ("-", "0"):
                    removed[path] = int(lost)
        return tuple(changed), removed, tuple(executable), tuple(linked)

    def unmarked(self, ref: str, marker: str, *, since: Sha) -> frozenset[Sha]:
        """Ids that the reflog of ``ref`` took after it stood at ``since``, by another action than ``marker``."""
        told = self._run(["reflog", "show", "-z", "--format=tformat:%H%x00%gs", "--end-of-options", ref], check=False)
        fields = told.out.decode("utf-8", "replace").split("\0")
        foreign: set[Sha] = set()
        for sha, action in zip(*[iter(fields)] * 2, strict=False):
            if sha == since:
                break
            if not action.startswith(marker):
                foreign.add(Sha(sha))
        return frozenset(foreign)
