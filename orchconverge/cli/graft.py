"""`graft`: admit a candidate, or parts of any branch whose commits are kept, through the gate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from orchconverge import bootstrap
from orchconverge.cli.records import person, said
from orchconverge.core.views.text import clean, counted
from orchconverge.errors import Refused

if TYPE_CHECKING:
    from orchconverge.core.state import Basin, Branch, State
    from orchconverge.core.values import Part, Taken
    from orchconverge.ports import Git


@click.command()
@click.argument("name", metavar="BRANCH")
@click.option("--only", "paths", multiple=True, metavar="PATH", help="Only what it changed there; may be repeated.")
@click.option("--hunk", "hunks", is_flag=True, help="Choose hunk by hunk, on a terminal; with --only, in those files.")
@click.option("--reason", help="Why: needed for parts, and for what gains no criterion.")
@click.option("--yes", "sure", is_flag=True, help="Admit it although it is flagged.")
def graft(name: str, paths: tuple[str, ...], hunks: bool, reason: str | None, sure: bool) -> int:
    """Admit a candidate onto its target, squashed, if the criteria hold on exactly that tree."""
    from orchconverge.adapters.git import Repository
    from orchconverge.app.lock import Lock
    from orchconverge.app.records import branch_named

    cwd = bootstrap.here()
    reader = bootstrap.reader(cwd)
    reader.ledger.catch_up()
    branch, part = branch_named(reader.ledger.state, name), None
    if paths or hunks:  # asked before the lock is taken: nobody waits for an answer, and Control + C ends it
        missing = f"orchconverge graft {name} --only PATH --reason TEXT"
        reason = said(reason, question="why is this part taken?", missing=missing)
        git = Repository.open(cwd, trees=reader.places.trees)
        part = _chosen(git, branch, paths, hunks=hunks)
        found = _flagged(git, reader.ledger.state.basins[branch.basin], branch, part)
        confirmed(found, what=f"that part of {branch.id}", sure=sure, again=f"{missing} --yes")
    elif branch.waits:
        confirmed(branch.flags, what=branch.id, sure=sure, again=f"orchconverge graft {branch.id} --yes")
    with (
        bootstrap.world(cwd, bootstrap.load(cwd, {}), drives=True) as world,
        Lock.taken(world, branch.basin, decided_by=person()) as lock,
    ):
        if part is not None:
            taken = lock.take(branch, [part], reason=reason or "")
        else:
            taken = lock.graft(branch, reason=(reason or "").strip())
        print("\n".join([*grafted(lock.basin, taken), *follows(world.ledger.state, lock.basin)]))
    return 0


def confirmed(flags: Sequence[str], *, what: str, sure: bool, again: str) -> None:
    """Have what is flagged confirmed by a typed word. Raises `Refused` without it; ``again`` is the line that insists."""
    import sys

    if not flags or sure:
        return
    print("\n".join(f" ! {clean(flag)}" for flag in flags), file=sys.stderr)
    if not sys.stdin.isatty():
        raise Refused(f"{what} is flagged: {flags[0]}", hint=f"look at it with orchconverge diff; then {again}")
    asked = f"{counted(len(flags), 'flag')}. Type graft to go on"
    if click.prompt(asked, err=True, default="", show_default=False) != "graft":
        raise Refused(f"{what} was not grafted", hint="orchconverge prune BRANCH --reason TEXT turns one down")


def _chosen(git: Git, branch: Branch, paths: Sequence[str], *, hunks: bool) -> Part:
    """The part of a branch that was named: files, what lies in folders, and of those the hunks that are wanted."""
    from orchconverge.core.values import Part

    if branch.head is None:
        raise Refused(f"{branch.id} committed nothing", hint="orchconverge status --verbose shows what each branch is")
    if git.resolve(branch.head) is None:
        raise Refused(f"the commits of {branch.id} are gone", hint=f"orchconverge open {branch.basin} makes a new wave")
    changed = git.work(branch.base, branch.head).changed
    wanted = tuple(
        p for p in changed if not paths or any(p == one or p.startswith(f"{one.rstrip('/')}/") for one in paths)
    )
    unknown = [one for one in paths if not any(p == one or p.startswith(f"{one.rstrip('/')}/") for p in changed)]
    if unknown or not wanted:
        listed = ", ".join(changed[:12]) + (f" and {len(changed) - 12} more" if len(changed) > 12 else "")
        raise Refused(f"{branch.id} does not change {', '.join(unknown)}", hint=f"it changes: {listed}")
    if not hunks:
        return Part(branch=branch.id, paths=wanted)
    from orchconverge.cli.hunks import chosen

    patch = chosen(git.patch(branch.base, branch.head, wanted))
    return Part(branch=branch.id, paths=wanted, patch=patch)


def _flagged(git: Git, basin: Basin, branch: Branch, part: Part) -> list[str]:
    """The flags on the files of a part: those on record, and, of a branch that was no candidate, those it would have had."""
    from orchconverge.core.flags import flags

    assert branch.head is not None
    found = flags(git.work(branch.base, branch.head), basin.criteria, basin.may_change)
    every = dict.fromkeys((*branch.flags, *found))
    return [flag for flag in every if flag.partition(": ")[2] in part.paths]


def grafted(basin: Basin, taken: Sequence[Taken]) -> list[str]:
    """What was admitted, and what it gained, a line each."""
    lines = []
    for one in taken:
        of = (
            one.part.branch
            if one.part.whole
            else f"{one.part.criterion or ', '.join(one.paths[:3])} of {one.part.branch}"
        )
        gains = f", gains {', '.join(one.gains)}" if one.gains else ""
        lines.append(
            f"Grafted {of} onto {basin.target} as {one.commit:.8}{gains}. Its criteria held on exactly that tree."
        )
    return [clean(line, 1000) for line in lines]


def follows(state: State, basin: Basin) -> list[str]:
    """What to do next: what has nothing left to give, what waits, or the way on."""
    from orchconverge.core.judge import covered, holds

    tip = basin.tip.results if basin.tip is not None else {}
    lines = []
    spent = [name for name in basin.queue if covered(basin, state.branches[name])]
    if spent:
        lines.append(f"Covered now: {', '.join(spent)}. Turn them down: orchconverge prune {basin.id} --others")
    left = [name for name in basin.queue if name not in spent]
    if left:
        lines.append(f"Next at the lock: {left[0]}: orchconverge lock {basin.id}")
    elif basin.phase == "open" and basin.running is None:
        done = "All required criteria hold. The final steps" if holds(basin, tip) else "The next attempt"
        lines.append(f"{done}: orchconverge resume {basin.id}")
    return [clean(line, 1000) for line in lines]
