"""What takes time in the full-screen view, away from its keys: one thread has the ledger, another one asks git."""

from __future__ import annotations

import asyncio
import os
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, TypeVar

from orchconverge import bootstrap
from orchconverge.app.ground import grounds, merged
from orchconverge.bootstrap import OURSELVES, Reader
from orchconverge.core.matrix import contrast
from orchconverge.core.overlap import Change, Overlap, overlap
from orchconverge.core.shown import Projection
from orchconverge.core.state import Branch
from orchconverge.core.target import Sha
from orchconverge.core.values import Evidence
from orchconverge.core.views import compare
from orchconverge.core.views.board import Chosen, selected
from orchconverge.core.views.destination_matrix import Beside, Candidates, candidates
from orchconverge.core.views.text import clean
from orchconverge.errors import Failed, OrchConvergeError
from orchconverge.ports import Git
from orchconverge.tui.live import Live

T = TypeVar("T")
COMPARED = 12
"""So many candidates are compared pair by pair; the others are in `orchconverge overlap`."""
MEASURED = 50
"""So many candidates that equal one of those are measured: the smallest stands for the others."""
COMMAND_SECONDS = 60.0
"""How long a command of ours may take whose text is shown."""


class Seen(NamedTuple):
    """What the ledger said at one moment; ``found`` is of the basin that is open, else of the selected one.

    Of an open one: ``branches`` are its rows, ``equals`` those that could stand for one of them.
    """

    shown: Projection
    found: Candidates | None = None
    branches: tuple[Branch, ...] = ()
    equals: tuple[Branch, ...] = ()


class Fault(NamedTuple):
    """Why nothing is shown, and which file that is about and what may be done."""

    why: str
    then: str


class Threads:
    """The ledger's thread and git's. Each does one thing after the other."""

    def __init__(self) -> None:
        self._ledger = ThreadPoolExecutor(1, "ledger")
        self._git = ThreadPoolExecutor(1, "git")

    async def ledger(self, ask: Callable[[], T]) -> T:
        """Do it where the ledger belongs."""
        return await asyncio.get_running_loop().run_in_executor(self._ledger, ask)

    async def git(self, ask: Callable[[], T]) -> T:
        """Do it where it may take time."""
        return await asyncio.get_running_loop().run_in_executor(self._git, ask)

    def close(self) -> None:
        """Begin nothing more."""
        for pool in (self._ledger, self._git):
            pool.shutdown(wait=False, cancel_futures=True)


def seen(
    live: Live,
    basin: str | None,
    *,
    chosen: Chosen = Chosen(),  # noqa: B008 - frozen
    sizes: Mapping[str, int] | None = None,
) -> Seen:
    """Read on, and gather what is shown. Raises `Unreadable`. A basin that is not there is left out.

    ``basin`` is the one that is open, ``chosen`` what is selected where none is; ``sizes`` as in `core.matrix.matrix`.
    """
    shown = live.project(basin=basin)
    name = basin or selected(shown, chosen)
    if name is None or name not in live.state.basins:
        return Seen(shown)
    found = candidates(live.state, name, sizes=sizes)
    rows, equals = (
        tuple(live.state.branches[column.branch] for column in columns) for columns in (found.rows, found.equals)
    )
    return Seen(shown, found, rows, equals) if basin is not None else Seen(shown, found)


def held(live: Live) -> tuple[tuple[str, bool | None], ...]:
    """Of each open run whether a controller holds it; of none where the ledger cannot be read."""
    try:
        return tuple((one.id, live.reader.locks.held(f"lease/{one.id}")) for one in live.state.open_runs)
    except (OrchConvergeError, OSError):
        return ()


class Repository:
    """Git, asked about candidates. Opened when it is first needed; used by one thread."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._git: Git | None = None

    @property
    def git(self) -> Git:
        """The repository. Raises `Refused`."""
        from orchconverge.adapters.git import Repository as Real

        if self._git is None:
            self._git = Real.open(self._reader.repository.root or bootstrap.here(), trees=self._reader.places.trees)
        return self._git

    def beside(self, branches: Sequence[Branch], equals: Sequence[Branch]) -> Beside:
        """Candidates side by side, those that no other covers. What git cannot tell is said, not raised."""
        measured = [*branches[:COMPARED], *equals[:MEASURED]]
        try:
            found, there = self._overlap(branches[:COMPARED]), self._heads(measured)
            sizes = {
                one.id: _size(self.git.compare.difference(one.base, there[one.id], patch=False).changes)
                for one in measured
                if one.id in there
            }
        except (OrchConvergeError, OSError) as error:
            return Beside(fault=said(error))
        return Beside(pairs=found.pairs, sizes=sizes)

    def overlap(self, basin: str, branches: Sequence[Branch]) -> list[str]:
        """All pairs in words."""
        found = self._overlap(branches[:COMPARED], basin)
        left = len(branches) - COMPARED
        more = [f"{left} more candidates are not compared here: orchconverge overlap {basin}"] if left > 0 else []
        return [*compare.overlap(found).split("\n"), *more]

    def diff(self, branch: Branch) -> list[str]:
        """What a candidate changes since it left its target."""
        head = self._head(branch)
        return self._told(branch.base, head)

    def against(self, one: Branch, other: Branch, criteria: Sequence[str]) -> list[str]:
        """What tells two candidates apart: criteria, then files and lines."""
        results: list[dict[str, Evidence]] = [{x.criterion: x for x in branch.evidence} for branch in (one, other)]
        apart = compare.contrast(contrast(criteria, *results), one.id, other.id)
        return [*apart.split("\n"), "", *self._told(self._head(one), self._head(other))]

    def _told(self, old: Sha, new: Sha) -> list[str]:
        found = self.git.compare.difference(old, new, patch=True)
        return [*compare.stat(found).split("\n"), "", *compare.patch(found).split("\n")]

    def _heads(self, branches: Sequence[Branch]) -> dict[str, Sha]:
        return dict(self.git.compare.commits({one.id: one.head for one in branches})) if branches else {}

    def _head(self, branch: Branch) -> Sha:
        found = self._heads([branch])
        if branch.id not in found:
            raise Failed(f"the commits of {branch.id} are not in this repository")
        return found[branch.id]

    def _overlap(self, branches: Sequence[Branch], basin: str = "") -> Overlap:
        _, found = grounds(self.git, branches)
        return overlap(basin, found, merged(self.git, found))


def _size(changes: Sequence[Change]) -> tuple[int, int]:
    return sum(change.added or 0 for change in changes), sum(change.removed or 0 for change in changes)


async def printed(words: Sequence[str], *, width: int) -> list[str]:
    """What a command of ours prints, without a terminal. Raises `Failed` with the first line of what it says instead."""
    env = {**os.environ, "COLUMNS": str(width), "PYTHONIOENCODING": "utf-8"}
    ran = await asyncio.create_subprocess_exec(*OURSELVES, *words, env=env, stdin=DEVNULL, stdout=PIPE, stderr=PIPE)
    try:
        out, told = await asyncio.wait_for(ran.communicate(), COMMAND_SECONDS)
    except TimeoutError as error:
        raise Failed(f"orchconverge {words[0]} took longer than {COMMAND_SECONDS:.0f} s") from error
    finally:
        if ran.returncode is None:  # also where nobody waits for it any more
            ran.kill()
    if ran.returncode:
        first = told.decode("utf-8", "replace").strip().split("\n")[0]
        raise Failed(first.removeprefix("orchconverge: ") or f"orchconverge {words[0]} ended with {ran.returncode}")
    return [clean(line, keep="\t") for line in out.decode("utf-8", "replace").rstrip("\n").split("\n")]


def said(error: OrchConvergeError | OSError) -> str:
    """A fault in one line, with what to type."""
    if isinstance(error, OSError):
        return clean(f"{error.filename or 'the machine'}: {error.strerror}")
    return clean(f"{error.message}. {error.hint}" if error.hint else error.message)


def unread(error: OrchConvergeError | OSError, path: Path) -> Fault:
    """Why the ledger at ``path`` cannot be read, in the machine's words, and what to do."""
    cause = error if isinstance(error, OSError) else error.__cause__
    if isinstance(cause, OSError) and cause.strerror:
        return Fault(cause.strerror[:1].lower() + cause.strerror[1:], str(path))
    assert isinstance(error, OrchConvergeError)
    return Fault(clean(error.message.replace(str(path), "it")), f"{path}: {error.hint}" if error.hint else str(path))
