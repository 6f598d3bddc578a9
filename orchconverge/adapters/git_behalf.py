"""Commits on behalf of a mind whose engine cannot, and who it is that commits here."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from orchconverge.adapters.git_process import SLOW_SECONDS, Run
from orchconverge.core.target import Sha
from orchconverge.errors import Failed
from orchconverge.ports import Checkout

_IDENTITY = re.compile(r"(.*) <(.*)> \d+ [+-]\d+")


class Behalf:
    """``stands`` says how a tree stands, ``who`` what our own commits need for a name."""

    def __init__(self, run: Run, *, stands: Callable[[Path], Checkout], who: Callable[[], Mapping[str, str]]) -> None:
        self._run = run
        self._stands = stands
        self._who = who

    def commit_all(self, path: Path, message: str, *, marker: str, without: Sequence[str] = ()) -> Sha | None:
        """Commit what is uncommitted at ``path`` where its HEAD is, but the paths ``without``; ``None`` if that is nothing.

        What is staged of those stays staged. Ignored files and other repositories below ``path`` are left out. Raises
        `Failed`, in the middle of a merge too.
        """
        now = self._stands(path)
        paths = [name for name in (*now.dirty, *now.untracked) if name not in without and not name.endswith("/")]
        if not paths:
            return None
        if now.operation:
            raise Failed(f"git commit: a part cannot be committed in the middle of a {now.operation}")
        literal = {"GIT_LITERAL_PATHSPECS": "1"}
        with tempfile.NamedTemporaryFile(prefix="orchconverge-") as listed:
            listed.write(b"\0".join(map(os.fsencode, paths)))
            listed.flush()
            those = [f"--pathspec-from-file={listed.name}", "--pathspec-file-nul"]
            self._run(["add", "--all", *those], cwd=path, env=literal, deadline_seconds=SLOW_SECONDS)
            made = self._run(
                ["commit", "--quiet", "--no-verify", "--cleanup=whitespace", "--file=-", "--only", *those],
                cwd=path,
                stdin=message.encode("utf-8", "replace"),
                env={**literal, **self._who(), "GIT_REFLOG_ACTION": marker},
                deadline_seconds=SLOW_SECONDS,
                check=False,
            )
        if made.code == 1 and not made.err:
            return None  # it differs in nothing that can be committed, such as what is inside a submodule
        if made.code:
            raise made.failure("commit")
        return Sha(self._run(["rev-parse", "--verify", "HEAD^{commit}"], cwd=path).text)

    def author(self) -> Mapping[str, str]:
        """The variables that tell git who commits here, as it would find them itself; empty if it knows nobody."""
        found: dict[str, str] = {}
        for who in ("AUTHOR", "COMMITTER"):
            told = self._run(["-c", "user.useConfigOnly=true", "var", f"GIT_{who}_IDENT"], check=False)
            named = _IDENTITY.fullmatch(told.text) if told.code == 0 else None
            if named:
                found |= {f"GIT_{who}_NAME": named[1], f"GIT_{who}_EMAIL": named[2]}
        return found
