"""Looks at git and the repository for the doctor: version, trust, identity, worktrees, submodules. No network is asked."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from orchconverge.adapters.git import Repository
from orchconverge.adapters.git_process import run_git
from orchconverge.core.views.doctor import Finding, fault, ok, warning
from orchconverge.errors import Failed, OrchConvergeError

OLDEST: Final = (2, 38)
SECONDS: Final = 2.0
"""For one question: all of them are about files here."""


def git(environ: Mapping[str, str]) -> Finding:
    """Where git is, and its version."""
    try:
        said = run_git(["version"], cwd=Path("/"), stdin=None, deadline_seconds=SECONDS, env={}).text
    except OrchConvergeError as error:
        return fault("git", error.message, error.hint or "install git 2.38 or newer")
    told = re.search(r"\d+(?:\.\d+)+", said)
    found = told[0] if told else said
    where = shutil.which("git", path=environ.get("PATH"))
    if told and tuple(map(int, found.split(".")))[:2] < OLDEST:
        return fault("git", f"{found} is too old, {where}", "install git 2.38 or newer")
    return ok("git", f"{found}, {where}")


def repository(cwd: Path, trees: Path) -> Iterator[Finding]:
    """The repository around ``cwd``: what keeps it from being worked in, or how it stands."""
    try:
        here = Repository.open(cwd, trees=trees)
        yield ok("repository", f"{here.root}")
        yield _identity(here)
        yield _worktrees(here)
        yield _submodules(here)
    except OrchConvergeError as error:
        yield fault("repository", error.message, error.hint or "git status")


def identity(cwd: Path) -> Finding:
    """Whether git knows who commits, asked where there is no repository."""
    return _identity(Repository(root=cwd, common_dir=cwd, trees=cwd))


def host(cwd: Path, remote: str) -> str | None:
    """The host that a remote is on: empty for a path, ``None`` without that remote. Never its user or password."""
    here = Repository(root=cwd, common_dir=cwd, trees=cwd)
    try:
        asked = ["remote", "get-url", "--push", "--end-of-options", remote]
        found = here.run(asked, check=False, deadline_seconds=SECONDS)
    except Failed:
        return None
    if found.code:
        return None
    url = re.fullmatch(r"(?!file:)[a-z][a-z0-9+.-]*://(?:[^/@]*@)?(\[[^\]]*\]|[^/:]*).*", found.text, re.IGNORECASE)
    short = re.fullmatch(r"(?:[^/@:]+@)?([^/:@]{2,}):(?!//).*", found.text)  # as scp would read it
    return (url or short)[1].lower() if url or short else ""  # type: ignore[index]


def _identity(here: Repository) -> Finding:
    if here.identity():
        return ok("identity", "git knows who commits")
    said = "git does not know who commits: those of minds and persons fail"
    return fault("identity", said, 'git config --global user.name "…"; git config --global user.email "…"')


def _worktrees(here: Repository) -> Finding:
    told = here.run(["worktree", "list", "--porcelain", "-z"], deadline_seconds=SECONDS).out.split(b"\0")
    count = sum(line.startswith(b"worktree ") for line in told)
    gone = sum(line.split(b" ")[0] == b"prunable" for line in told)
    if gone:
        return warning("worktrees", f"{count}, of which {gone} lost their folder", "git worktree prune")
    return ok("worktrees", f"{count}, this one included")


def _submodules(here: Repository) -> Finding:
    listing = here.root / ".gitmodules"
    if not listing.is_file():
        return ok("submodules", "none")
    asked = ["config", "--file", str(listing), "-z", "--get-regexp", r"^submodule\..*\.path$"]
    told = here.run(asked, check=False, deadline_seconds=SECONDS).out.decode("utf-8", "surrogateescape")
    paths = [entry.partition("\n")[2] for entry in told.split("\0") if entry]
    empty = [path for path in paths if not (here.root / path / ".git").exists()]
    if empty:
        said = f"{len(empty)} of {len(paths)} are not filled here, so minds find them empty: {', '.join(empty[:3])}"
        return warning("submodules", said, "git submodule update --init --recursive")
    return ok("submodules", f"{len(paths)}, filled")
