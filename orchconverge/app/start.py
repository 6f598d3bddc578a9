"""Takes a goal: declares its basin and says how it is to be run, or refuses with what to add. Starts nothing itself."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from orchconverge.app.world import World
from orchconverge.core.events import BasinDeclared
from orchconverge.core.target import Budget, Criterion, Sha, Stage, Target, Termination, slug, validated
from orchconverge.core.values import Limits, Settings, Thresholds
from orchconverge.errors import Illegal, Refused
from orchconverge.ports import Checkout

ORCH = re.compile(
    r"^\s*(?:Autonomous convergence:\s*)?(?P<goal>.*?)\s+with\s+(?P<limits>(?:(?:max-attempts|max-hours|interval)=[\d.]+\s*)+)"
    r"(?:in current directory)?\s*$",
    re.DOTALL,
)
"""The seed's `/orch "Autonomous convergence: <goal> with max-attempts=N max-hours=H interval=M in current directory"`."""
NAMES_TRIED = 50
NAMED = 12
"""How many names a refusal lists."""
TITLE = 80


class Request(Struct, frozen=True, kw_only=True):
    """What a person asked for, checked for form. Times in seconds; ``place`` ``None`` lets the target decide.

    ``parents`` are the basins whose residue and open questions it starts from.
    """

    goal: str
    criteria: tuple[Criterion, ...]
    attempts: int | None
    hours: float | None
    until: datetime | None = None
    engines: tuple[str, ...] = ()
    interval: float = 300.0
    basin: str | None = None
    title: str | None = None
    macrostate: str | None = None
    into: str | None = None
    place: Literal["here", "fresh"] | None = None
    minds: int = 1
    argv: tuple[str, ...] = ()
    script: str = ""
    allow_dirty: bool = False
    approaches: tuple[str, ...] = ()
    may_change: tuple[str, ...] = ()
    chain: tuple[str, ...] = ()
    budget: Budget = Budget()
    attempt_seconds: float = 3600.0
    permissions: Literal["default", "skip"] = "default"
    allow: tuple[str, ...] = ()
    setup: str = ""
    env: tuple[str, ...] = ()
    lock: Literal["auto", "person"] | None = None
    remote: str = "origin"
    report: Literal["commit", "file", "state"] = "commit"
    stall_after: int = 3
    backoff_base: float = 5.0
    backoff_cap: float = 300.0
    max_minds: int = 8
    widen: str = "stall"
    harvest_tries: int = 12
    harvest_minutes: float = 10.0
    thresholds: Thresholds = Thresholds()
    replaced: Mapping[str, tuple[str, ...]] = {}
    step_seconds: float = 3000.0
    stages: tuple[Stage, ...] = ()
    parents: tuple[str, ...] = ()


class Draft(Struct, frozen=True, kw_only=True):
    """A target that could be written down: its title, the id it would like, and its branch, ``new`` ones to be made at ``head``."""

    title: str
    name: str
    target: str
    new: bool
    head: Sha


class Declared(Struct, frozen=True, kw_only=True):
    """A basin that is on the ledger, and how it is to be run."""

    basin: str
    target: str
    settings: Settings
    limits: Limits


def orch(text: str) -> tuple[str, dict[str, float]]:
    """Split the text of an `/orch` line into its goal and the limits in it, by name."""
    found = ORCH.match(text)
    if found is None:
        return text, {}
    limits = dict(part.split("=", 1) for part in found["limits"].split())
    try:
        return found["goal"], {name.replace("-", "_"): float(value) for name, value in limits.items()}
    except ValueError:
        return text, {}


def declare(world: World, request: Request, *, cwd: Path) -> Declared:
    """Check everything that can be checked now, write the target down, and make the target branch if it is a new one."""
    draft = drafted(world, request)
    settings = settled(world, request, draft, cwd=cwd)
    basin, target = write_down(world, request, draft)
    return Declared(basin=basin, target=target, settings=settings, limits=limits(request))


def drafted(world: World, request: Request) -> Draft:
    """What would be written down. Raises `Refused` with what to add."""
    goal = request.goal
    if not goal.strip():
        raise Refused("the goal is blank", hint='say what should be true when it is done: orchconverge "…"')
    if not _storable(goal, *(c.command + c.text for c in request.criteria), *request.approaches):
        raise Refused("what was given is not UTF-8", hint="iconv -t UTF-8 turns it into that; or use --goal-file")
    if "\0" in goal:
        raise Refused("the goal holds a NUL byte", hint="take it out; everything else is kept byte for byte")
    _known(world, request.parents)
    title = request.title or _title(goal)
    name = request.basin or slug(title)
    target, new = _target(world, request, world.git.checkout(world.git.root), name)
    head = world.git.resolve("HEAD") if new else world.git.resolve(f"refs/heads/{target}")
    if head is None:
        raise Refused(f"there is no branch {target}", hint="git branch lists what there is; `--into` names one of them")
    _named_in_utf8(("the branch", target))
    return Draft(title=title, name=name, target=target, new=new, head=head)


def _known(world: World, parents: Sequence[str]) -> None:
    """Refuse to start from a pursuit that is not on the ledger."""
    if parents:
        world.ledger.catch_up()
    known = tuple(world.ledger.state.basins)
    for name in parents:
        if name not in known:
            there = ", ".join(known[: -NAMED - 1 : -1]) or "none yet"
            raise Refused(f"there is no pursuit called {name} to start from", hint=f"there is: {there}")


def settled(world: World, request: Request, draft: Draft, *, cwd: Path) -> Settings:
    """How a run of this target is to be made here and now. Raises `Refused` where it cannot be."""
    script = str((cwd / request.script).resolve()) if request.script else ""
    if not _storable(*request.argv, script):
        raise Refused("what was given is not UTF-8", hint="give --argv and --script other names")
    if not world.git.identity():
        raise Refused(
            "git does not know who you are, and commits need a name",
            hint='git config --global user.name "Your Name"; git config --global user.email you@example.org',
        )
    checkout = world.git.checkout(world.git.root)
    if checkout.operation is not None:
        raise Refused(f"a {checkout.operation} is in progress here", hint="finish or abort it, then start again")
    place = _place(world, request, checkout, draft.target, new=draft.new)
    if place == "here" and (checkout.dirty or checkout.untracked) and not request.allow_dirty:
        raise _dirty(checkout)
    _named_in_utf8(("this repository", world.git.root), ("our worktrees", world.trees))
    world.panes.ready()
    default = world.git.default_branch(request.remote)
    settings = _settings(world, request, script=script, place=place, base=draft.head, onto=default or "")
    _one_in_place(world, settings)
    return settings


def write_down(world: World, request: Request, draft: Draft) -> tuple[str, str]:
    """Record the target under its name, or ``-2``, ``-3``, and make its branch if it is new. Returns basin and branch.

    Raises `Refused` with what to add where it has no stop condition, or nothing in it that can be gained.
    """
    basin = _declare(world, request, title=draft.title, name=draft.name, target=draft.target, fixed=not draft.new)
    branch = draft.target if not draft.new or basin == draft.name else f"orchconverge/{basin}"
    if draft.new:
        world.git.create_branch(branch, draft.head)
    return basin, branch


def _named_in_utf8(*named: tuple[str, str | Path]) -> None:
    for what, stored in named:
        if not _storable(str(stored)):
            raise Refused(
                f"the name of {what} is not UTF-8: {stored}", hint="rename it: the ledger and briefs are UTF-8"
            )


def _storable(*texts: str) -> bool:
    """Whether the texts can be stored: what was no UTF-8 outside came in as lone surrogates."""
    return not any("\ud800" <= char <= "\udfff" for text in texts for char in text)


def _title(goal: str) -> str:
    first = next(line.strip() for line in goal.splitlines() if line.strip())
    return first if len(first) <= TITLE else f"{first[: TITLE - 1]}…"


def _target(world: World, request: Request, checkout: Checkout, name: str) -> tuple[str, bool]:
    """The target branch and whether it is still to be made: `--into`, else the current one, else one of the goal's own."""
    if request.into is not None:
        if world.git.resolve(f"refs/heads/{request.into}") is None:
            raise Refused(
                f"there is no branch {request.into!r}", hint="git branch lists what there is; or leave out --into"
            )
        return request.into, False
    default = world.git.default_branch(request.remote)
    if checkout.branch is None or checkout.branch == default:
        if request.place == "here":
            where = f"{checkout.branch}, the default branch" if checkout.branch else "a detached HEAD"
            raise Refused(f"--here would work on {where}", hint="git switch -c NAME first, or leave out --here")
        return f"orchconverge/{name}", True
    return checkout.branch, False


def _place(world: World, request: Request, checkout: Checkout, target: str, *, new: bool) -> Literal["here", "fresh"]:
    if request.place == "here" and checkout.branch != target:
        raise Refused(
            f"--here works on the branch that is checked out, not on {target}", hint="leave out --here or --into"
        )
    if request.place == "here" and request.minds > 1:
        raise Refused(f"{request.minds} minds cannot work in one directory", hint="leave out --here, or --minds")
    if request.place is not None:
        return request.place
    own = checkout.branch == target and not new and target != world.git.default_branch(request.remote)
    return "here" if own and request.minds == 1 else "fresh"


def _dirty(checkout: Checkout) -> Refused:
    paths = (*checkout.dirty, *checkout.untracked)
    named = ", ".join(paths[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")
    return Refused(
        f"the working tree is not clean: {named}",
        hint="commit it, or --worktree to leave it alone, or --allow-dirty to work on top of it",
    )


def _settings(
    world: World, request: Request, *, script: str, place: Literal["here", "fresh"], base: str, onto: str
) -> Settings:
    return Settings(
        checkout=str(world.git.root),
        place=place,
        engines=request.engines,
        interval=request.interval,
        argv=request.argv,
        script=script,
        minds=request.minds,
        approaches=request.approaches,
        attemptSeconds=request.attempt_seconds,
        chain=request.chain,
        permissions=request.permissions,
        allow=request.allow,
        setup=request.setup,
        env=request.env,
        remote=request.remote,
        stallAfter=request.stall_after,
        backoffBase=request.backoff_base,
        backoffCap=request.backoff_cap,
        allowDirty=request.allow_dirty,
        report=request.report,
        lock=request.lock,
        maxMinds=request.max_minds,
        widen=request.widen,
        harvestTries=request.harvest_tries,
        harvestMinutes=request.harvest_minutes,
        thresholds=request.thresholds,
        replaced=dict(request.replaced),
        stepSeconds=request.step_seconds,
        base=base,
        onto=onto,
    )


def limits(request: Request) -> Limits:
    """The hard limits that a request asks for."""
    budget = request.budget
    return Limits(
        attempts=request.attempts,
        hours=request.hours,
        until=request.until,
        usd=budget.usd,
        tokens=budget.tokens,
        minds=budget.minds,
    )


def _one_in_place(world: World, settings: Settings) -> None:
    if settings.place != "here":
        return
    for other in world.ledger.state.open_runs:
        theirs = other.running.settings if other.running is not None else None
        if theirs is not None and theirs.place == "here" and theirs.checkout == settings.checkout:
            gone = world.leases.held(f"lease/{other.id}") is False
            raise Refused(
                f"{other.id} {'lost its controller' if gone else 'runs'} in this checkout",
                hint=f"{'orchconverge resume' if gone else 'wait for it, or orchconverge stop'} {other.id}, or --worktree",
            )


def _declare(world: World, request: Request, *, title: str, name: str, target: str, fixed: bool) -> str:
    """Write the target down under ``name``, or ``name-2``, ``name-3`` where that is taken."""
    world.ledger.catch_up()
    for number in range(1, NAMES_TRIED):
        basin = name if number == 1 else f"{name[:36]}-{number}"
        if basin in world.ledger.state.basins:
            continue
        branch = target if fixed or number == 1 else f"orchconverge/{basin}"
        if not fixed and world.git.resolve(f"refs/heads/{branch}") is not None:
            continue
        try:
            fact = _fact(request, basin=basin, title=title, branch=branch)
            world.ledger.append(fact, writer="cli")
        except Illegal as error:
            if basin not in world.ledger.state.basins:
                raise Refused(error.message, hint="add --criterion NAME=COMMAND") from error
            continue
        return basin
    raise Refused(f"every name from {name} to {name}-{NAMES_TRIED} is taken", hint="give the goal another first line")


def _fact(request: Request, *, basin: str, title: str, branch: str) -> BasinDeclared:
    try:
        target = validated(
            Target(
                basin=basin,
                title=title,
                macrostate=request.macrostate or request.goal,
                goal=request.goal,
                criteria=request.criteria,
                termination=Termination(attempts=request.attempts, hours=request.hours, until=request.until),
                branch=branch,
                budget=request.budget,
                approaches=request.approaches,
                lock=request.lock or "auto",
                may_change=request.may_change,
                stages=request.stages,
            )
        )
    except (ValueError, msgspec.ValidationError) as error:
        hint = (
            "add --max-attempts N or --max-hours H"
            if "stop condition" in str(error)
            else "add --criterion NAME=COMMAND"
        )
        raise Refused(str(error), hint=hint) from error
    return BasinDeclared(
        basin=target.basin,
        title=target.title,
        macrostate=target.macrostate,
        goal=target.goal,
        criteria=target.criteria,
        termination=target.termination,
        target=target.branch,
        budget=target.budget,
        approaches=target.approaches,
        lock=target.lock,
        mayChange=target.may_change,
        stages=target.stages,
        parents=tuple(dict.fromkeys(request.parents)),
    )


def until(world: World, over: Callable[[], bool], *, seconds: float, watched: Sequence[str] = ()) -> bool:
    """Read on in the ledger until ``over`` or the time is up. Returns what ``over`` said last."""
    ends = time.monotonic() + seconds
    while True:
        world.ledger.catch_up()
        if over():
            return True
        if time.monotonic() >= ends:
            return False
        world.wakeups.wait(watched, until=min(ends, time.monotonic() + 0.25))
