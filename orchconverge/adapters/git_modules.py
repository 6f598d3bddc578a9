"""Submodules of a fresh tree: those that the caller's repository has, filled from its own stores, its settings untouched."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from orchconverge.adapters.git_process import SLOW_SECONDS, Run
from orchconverge.errors import Failed, Refused

FILLED = "refs/orchconverge/filled"
"""In a submodule of a tree of ours: the commit that it was filled with, set last. What is not beyond it is nobody's work."""


def fill(run: Run, *, tree: Path, git_dir: Path, place: Path, store: Path) -> Iterator[str]:
    """Fill the submodules of ``tree``, nested ones too; yields a line for each that has to stay empty.

    ``place`` is the caller's working tree and ``store`` its git directory: what is not initialised there is left empty
    here. No network is used. Raises `Refused` if one was filled half, by a controller that was killed.
    """
    modules = [*_modules(run, tree)]
    urls = _settings(run, store / "config", "url") if modules else {}
    for name, path, sha in modules:
        if name not in urls:
            continue
        source = _source(run, sha, (place / path / ".git", store / "modules" / name))
        if source is None:
            yield f"{path}: this repository does not have its commit {sha:.8}"
            continue
        own, dot = git_dir / "modules" / name, tree / path / ".git"
        if not _is_filled(run, own):
            if os.path.lexists(own) or os.path.lexists(dot):
                raise Refused(f"{tree} has a submodule that was filled half: {path}")
            why = _clone(run, tree, path, name=name, source=source)
            if own.is_dir():
                # Where it would be pushed to; the store is the caller's own, and no place for a mind's branches.
                run(["config", "remote.origin.url", urls[name]], env={"GIT_DIR": str(own)}, check=False)
                run(["update-ref", FILLED, sha], env={"GIT_DIR": str(own)}, check=False)
            if why:
                dot.unlink(missing_ok=True)  # without it git takes it for empty, and commits no other commit of it
                yield f"{path}: {why}"
        if os.path.lexists(dot):
            yield from fill(run, tree=tree / path, git_dir=own, place=place / path, store=source)


def _settings(run: Run, file: Path, key: str) -> dict[str, str]:
    """Submodule -> its ``key``, as a file of settings has it."""
    asked = ["config", "--file", str(file), "-z", "--get-regexp", rf"^submodule\..*\.{key}$"]
    told = os.fsdecode(run(asked, check=False).out).split("\0")[:-1]
    pairs = (entry.partition("\n")[::2] for entry in told)
    return {name.removeprefix("submodule.").removesuffix(f".{key}"): value for name, value in pairs}


def _modules(run: Run, tree: Path) -> Iterator[tuple[str, str, str]]:
    """Name, path and commit of each submodule of a tree. Names that lead elsewhere are none, as for git."""
    listing = tree / ".gitmodules"
    if not listing.is_file() or listing.is_symlink():
        return
    paths = {path: name for name, path in _settings(run, listing, "path").items() if ".." not in Path(name).parts}
    listed = run(["ls-files", "--stage", "-z"], cwd=tree, deadline_seconds=SLOW_SECONDS).out.split(b"\0")
    for entry in listed:
        mode, _, path = os.fsdecode(entry).partition("\t")
        if mode.startswith("160000 ") and path in paths:
            yield paths[path], path, mode.split(" ")[1]


def _source(run: Run, sha: str, candidates: tuple[Path, ...]) -> Path | None:
    """The first git directory of these that has the commit; one may be a file that names it."""
    for candidate in candidates:
        found = candidate
        if candidate.is_file():
            found = candidate.parent / os.fsdecode(candidate.read_bytes()).removeprefix("gitdir: ").removesuffix("\n")
        has = ["cat-file", "-e", f"{sha}^{{commit}}"]
        env = {"GIT_DIR": str(found), "GIT_ALLOW_PROTOCOL": "file"}  # of a partial clone it would be fetched
        if (found / "objects").is_dir() and run(has, env=env, check=False).code == 0:
            return found.resolve()
    return None


def _is_filled(run: Run, own: Path) -> bool:
    asked = ["rev-parse", "--verify", "--quiet", FILLED]
    return own.is_dir() and run(asked, env={"GIT_DIR": str(own)}, check=False).code == 0


def _clone(run: Run, tree: Path, path: str, *, name: str, source: Path) -> str:
    """Let git clone and check out one submodule from ``source``: why it did not, or an empty string."""
    told = {
        f"submodule.{name}.url": str(source),
        "clone.defaultRemoteName": "origin",
        "clone.rejectShallow": "false",
    }
    env = {"GIT_ALLOW_PROTOCOL": "file", "GIT_LITERAL_PATHSPECS": "1", "GIT_CONFIG_COUNT": str(len(told))}
    for number, (key, value) in enumerate(told.items()):
        env |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    asked = ["submodule", "--quiet", "update", "--checkout", "--force", "--no-recommend-shallow", "--", path]
    try:
        done = run(asked, cwd=tree, env=env, check=False, deadline_seconds=SLOW_SECONDS)
    except Failed as failure:
        return failure.message
    if done.code:
        return done.reason
    return "" if os.path.lexists(tree / path / ".git") else "it is switched off in git's settings"
