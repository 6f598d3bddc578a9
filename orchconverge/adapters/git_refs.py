"""The refs that minds leave in a repository: where they stand, what they keep, and the only code that deletes one."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from orchconverge.adapters.git_process import SLOW_SECONDS, Run, branch_ref, full_id
from orchconverge.core.target import Sha

KEEP = "refs/orchconverge/keep/"


class LeftRefs:
    """Implements `orchconverge.ports.remains.Refs` on a repository's own `run`."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def branches(self, prefix: str) -> dict[str, Sha]:
        """The branches whose name begins with ``prefix``, which ends in a slash, and where they stand."""
        return self._below(f"refs/heads/{prefix}", "refs/heads/")

    def keeps(self) -> dict[str, Sha]:
        """The keep-refs, without what they all begin with, and where they stand."""
        return self._below(KEEP, KEEP)

    def _below(self, prefix: str, without: str) -> dict[str, Sha]:
        told = self._run(["for-each-ref", "--format=%(objectname) %(refname)", prefix]).out
        lines = (os.fsdecode(line).partition(" ") for line in told.splitlines())
        return {ref.removeprefix(without): Sha(sha) for sha, _, ref in lines}

    def kept(self, commit: Sha, *, also: str) -> bool:
        """Whether a keep-ref, or the branch ``also``, leads to a commit."""
        asked = ["for-each-ref", "--count=1", f"--contains={full_id(commit)}", "--format=%(refname)"]
        return bool(self._run([*asked, KEEP, branch_ref(also)], deadline_seconds=SLOW_SECONDS).out)

    def holds(self, commit: Sha, path: Path) -> bool:
        """Whether ``commit`` has all that lies in the working tree at ``path``, changed or new, ignored files left out."""
        flags = ["--porcelain", "-z", "--untracked-files=all", "--no-renames", "--ignore-submodules=none"]
        with tempfile.TemporaryDirectory(prefix="orchconverge-") as folder:
            env = {"GIT_INDEX_FILE": str(Path(folder) / "index")}
            self._run(["read-tree", full_id(commit)], cwd=path, env=env, deadline_seconds=SLOW_SECONDS)
            told = self._run(["status", *flags], cwd=path, env=env, deadline_seconds=SLOW_SECONDS).out
        # The second letter tells the tree from the index, which is the commit; the first, the index from HEAD.
        return all(entry[1:2] == b" " for entry in told.split(b"\0") if entry)

    def delete(self, branch: str, *, old: Sha) -> bool:
        """Delete a branch that stands at ``old``. False, and nothing was done, if it stands elsewhere by now."""
        swap = ["update-ref", "-d", "--end-of-options", branch_ref(branch), full_id(old)]
        return self._run(swap, check=False).code == 0
