"""What a mind could change in the shared part of a repository to make our own git run its code."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

from orchconverge.adapters.git_process import Run
from orchconverge.errors import Failed

HARMLESS = re.compile(r"branch\..*\.(?!mergeoptions$)[^.]*|submodule\..*\.(?:active|url)", re.DOTALL)
"""Settings that a person's daily work writes and that make git run nothing."""


def fingerprint(run: Run, common_dir: Path) -> str:
    """A digest of the settings, with what they include, of hooks and of attributes. Raises `Failed`."""
    digest = hashlib.sha256()
    configs = {common_dir / "config": b"config", common_dir / "config.worktree": b"worktree"}
    copies = dict.fromkeys(sorted(common_dir.glob("worktrees/*/config.worktree")), b"worktree")
    told: set[bytes] = set()  # a set: a new worktree gets a copy of the first one's file, which changes nothing
    for path, kind in {**configs, **copies}.items():
        if path.is_file():
            listed = run(["config", "--file", str(path), "--includes", "--list", "-z"]).out.split(b"\0")
            kept = [entry for entry in listed if not HARMLESS.fullmatch(os.fsdecode(entry.partition(b"\n")[0]))]
            told.add(kind + b"\0" + b"\0".join(kept))
    for part in sorted(told):
        digest.update(hashlib.sha256(part).digest())
    for path in (common_dir / "info" / "attributes", *sorted(common_dir.glob("hooks/**/*"))):
        if path.is_file():
            try:
                said = [os.fsencode(path), b"%o" % path.stat().st_mode, path.read_bytes()]
            except OSError as error:
                raise Failed(f"{path} cannot be read: {error.strerror}") from error
            digest.update(b"".join(hashlib.sha256(part).digest() for part in said))
    return digest.hexdigest()
