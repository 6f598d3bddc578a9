"""All ports in one place, as `bootstrap` built them, and the names under which supervised processes are found again."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from orchconverge.core.events import AnyFact
from orchconverge.core.seen import MindReport
from orchconverge.core.state import Branch
from orchconverge.core.target import Sha
from orchconverge.core.values import Place
from orchconverge.ports import (
    Clock,
    Engine,
    Exports,
    Gate,
    Git,
    Host,
    Journal,
    Leases,
    Ledger,
    Panes,
    Shelf,
    Supervisors,
    Wakeups,
)

OWN = "mind"
"""The part of a mind's folder that it is told of and may write into; what we keep of it lies outside."""
REPORT = f"{OWN}/report.json"
"""Where its own word is, in its folder."""
MARK = "orchconverge-"
"""How the reflog begins of what a mind did; our own grafts are written as ``orchconverge: graft``."""


@dataclass(frozen=True, kw_only=True)
class World:
    """Everything outside. ``trees`` is the folder of our worktrees, ``state`` that of the ledger, floors are in bytes."""

    ledger: Ledger
    git: Git
    panes: Panes
    supervisors: Supervisors
    leases: Leases
    clock: Clock
    wakeups: Wakeups
    host: Host
    engines: Mapping[str, Engine]
    shelf: Shelf
    exports: Exports
    journal: Journal
    trees: Path
    state: Path
    read_report: Callable[[bytes], MindReport]
    step_argv: Callable[[str, str], tuple[str, ...]]
    """(basin, step) -> the command of a step of the final chain."""
    gate: Callable[[str], Gate]
    """Basin -> where its minds ask before their calls."""
    hook: tuple[str, ...] = ()
    """What agents are told to run before a call, as an argv without the agent's name."""
    allowed: tuple[str, ...] = ()
    """Names of further environment variables that minds and checks get."""
    memory_floor: int = 0
    disk_floor: int = 0
    heard: Callable[[AnyFact], None] = lambda fact: None
    """Told of each fact that a controller has appended. Waits for nothing and raises nothing."""


def mind_name(branch: str) -> str:
    """The supervised name of a mind."""
    return f"minds/{branch}"


def given_name(branch: Branch) -> str:
    """The supervised name of the folder that a mind is told of: in a worktree by its random id, as the worktree itself."""
    return f"given/{branch.git_branch.rpartition('/')[2]}" if branch.place == "fresh" else mind_name(branch.id)


def step_name(basin: str, epoch: int, number: int, step: str) -> str:
    """The supervised name of a step: found again by a controller that takes over, new after a stop."""
    return f"steps/{basin}.{epoch}.{number}.{step}"


def check_name(
    basin: str, epoch: int, attempt: int, command: str, tree: Sha, place: Place, tries: int, *, anew: str = ""
) -> str:
    """The supervised name of a check: the same question has the same name, so a check that runs is found again.

    One that a person's command asks ``anew`` is a kind of its own: no controller finds or ends it.
    """
    parts = (basin, str(epoch), str(attempt), command, tree, place, str(tries))
    kind = "gates" if anew else "checks"
    return f"{kind}/{basin}.{hashlib.sha256(chr(0).join((*parts, anew)).encode()).hexdigest()[:20]}"


def setup_name(basin: str, tree: str, made: str, *, own: str = "") -> str:
    """The supervised name of the setup of one worktree of ours; one that is ``made`` again is set up again."""
    return f"{'gatesetups' if own else 'setups'}/{basin}.{tree[:60]}.{hashlib.sha256(f'{tree}/{made}'.encode()).hexdigest()[:12]}"


def marker(branch: str) -> str:
    """What a mind's commits carry in the reflog, so that a person's commit is never credited to it."""
    return f"{MARK}{hashlib.sha256(branch.encode()).hexdigest()[:10]}"
