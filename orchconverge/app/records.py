"""What a person puts on record about a target, a candidate, a pursuit or a question, and what follows from it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from orchconverge.app.control import GRACEFUL, end_of, end_processes, stop
from orchconverge.app.start import until
from orchconverge.app.world import World, mind_name
from orchconverge.core import events as e
from orchconverge.core.export import export
from orchconverge.core.state import Basin, Branch, Question, State
from orchconverge.core.target import Budget, Criterion, Stage, Target, Termination, once, validated
from orchconverge.core.values import Residue, storable
from orchconverge.errors import Illegal, Refused
from orchconverge.ports import Ledger

NAMED = 12
"""How many names a refusal lists."""
LEASE_WAIT = 1.0
"""Seconds to wait for the lease of a controller that is just ending."""


def record(ledger: Ledger, fact: e.AnyFact) -> e.AnyFact:
    """Append a person's fact. Raises `Refused`, in the words of the rule, where it is not legal now."""
    try:
        return ledger.append(storable(fact), writer="cli")
    except Illegal as error:
        raise Refused(error.message, hint=error.hint) from error


def _record(world: World, basin: str, fact: e.AnyFact) -> None:
    """Append it, and bring the JSON export up: that is written by whoever appended last."""
    seq = record(world.ledger, fact).seq
    state = world.ledger.state
    newest = state.newest
    world.exports.write(seq, export(state, basin, seq=seq), basin, newest=newest is not None and newest.id == basin)


def branch_named(state: State, name: str) -> Branch:
    """The branch ``<basin>.<n>``. Raises `Refused` and lists those that there are, the newest first."""
    if name in state.branches:
        return state.branches[name]
    known = list(state.branches)[::-1]
    more = f" and {len(known) - NAMED} more" if len(known) > NAMED else ""
    raise Refused(f"no branch is called {name}", hint=f"there is: {', '.join(known[:NAMED]) or 'none yet'}{more}")


# --- the target ------------------------------------------------------------------------------------------------------


def amend(
    world: World,
    basin: Basin,
    *,
    why: str,
    criteria: tuple[Criterion, ...] | None = None,
    termination: Termination | None = None,
    budget: Budget | None = None,
    stages: tuple[Stage, ...] | None = None,
) -> Basin:
    """Change a target between attempts. Returns it as it was before. Raises `Refused` where it would make no sense."""
    if basin.phase != "open":
        raise Refused(f"{basin.id} is {basin.phase}", hint="an open target is amended; a new goal is a new start")
    changes = {
        "criteria": criteria if criteria != basin.criteria else None,
        "termination": termination if termination != basin.termination else None,
        "budget": budget if budget != basin.budget else None,
        "stages": stages if stages != basin.stages else None,
    }
    if all(change is None for change in changes.values()):
        raise Refused(
            f"that changes nothing of {basin.id}", hint="see orchconverge amend --help for what can be changed"
        )
    if criteria is not None:
        _gainable(basin, criteria)
        _not_under_way(basin, criteria)
    try:
        once(stages or ())
    except ValueError as error:
        raise Refused(str(error), hint="name each command once") from error
    _record(world, basin.id, replace(e.BasinAmended(basin=basin.id, why=why), **changes))
    return basin


def _gainable(basin: Basin, criteria: tuple[Criterion, ...]) -> None:
    try:
        validated(
            Target(
                basin=basin.id,
                title=basin.title,
                macrostate=basin.macrostate,
                goal=basin.goal,
                criteria=criteria,
                termination=basin.termination,
                branch=basin.target,
            )
        )
    except (ValueError, msgspec.ValidationError) as error:
        raise Refused(str(error), hint="give --criterion NAME=COMMAND, with a name of its own") from error


def _not_under_way(basin: Basin, criteria: tuple[Criterion, ...]) -> None:
    """An open run reuses its answers by a criterion's name: one that means something else now would get the old ones."""
    old = {c.name: c for c in basin.criteria}
    changed = [c.name for c in criteria if c.name in old and c != old[c.name]]
    if changed and basin.running is not None:
        raise Refused(
            f"a run of {basin.id} has answers for {', '.join(changed)} as it was",
            hint=f"orchconverge stop {basin.id}, amend it, and resume it",
        )


# --- candidates ------------------------------------------------------------------------------------------------------


def prune(world: World, branch: Branch, *, reason: str, residue: Sequence[str] = (), decided_by: str) -> str:
    """Turn a branch down, and end its mind if that still runs. Returns in a sentence what follows."""
    learned = tuple(Residue(text=text) for text in residue)
    fact = e.BranchPruned(basin=branch.basin, branch=branch.id, reason=reason, residue=learned, decidedBy=decided_by)
    _record(world, branch.basin, fact)
    now = world.ledger.state.branches[branch.id]
    said = _end_mind(world, now) if now.may_run else ""
    if now.head is not None or said:
        left = f", what it left uncommitted on {branch.id}-leftovers" if said else ""
        said += f"Its commits stay on refs/orchconverge/keep/{branch.id}{left}. "
    return f"{said}Later minds are told why."


def _end_mind(world: World, branch: Branch) -> str:
    """End the mind of a pruned branch where no controller does: then also record its end and keep what it committed."""
    lease = world.leases.take(f"lease/{branch.basin}", wait_seconds=LEASE_WAIT)
    if lease is None:
        return "Its controller ends its mind. "
    try:
        world.ledger.catch_up()
        if not world.ledger.state.branches[branch.id].may_run:
            return "Its controller ended its mind. "
        name = mind_name(branch.id)
        end_processes(world, [name])
        end = end_of(world, branch, world.supervisors.probe(name))
        world.git.keep(branch.id, end.head)
        record(world.ledger, end)
    finally:
        lease.release()
    return "Its mind was ended. "


# --- the end of a pursuit --------------------------------------------------------------------------------------------


def kill(world: World, basin: Basin, *, reason: str) -> str:
    """Give a pursuit up, and end what runs of it. Returns in a sentence what follows."""
    _record(world, basin.id, e.BasinKilled(basin=basin.id, reason=reason))

    def over() -> bool:
        return world.ledger.state.basins[basin.id].running is None

    said = ""
    if not over():
        if world.leases.held(f"lease/{basin.id}") is not False and until(world, over, seconds=GRACEFUL):
            said = "Its controller has ended. "
        else:
            said = f"{stop(world, world.ledger.state.basins[basin.id], cleanup=False)}. "
    return f"{said}All commits of its minds stay on refs/orchconverge/keep/{basin.id}.*."


def harvest(world: World, basin: Basin, *, residue: Sequence[str], frontier: Sequence[str], decided_by: str) -> None:
    """Keep what a pursuit leaves: what its branches left, with what is said now, and new open questions."""
    learned = {r.text: r for r in (*basin.residue, *(Residue(text=text) for text in residue))}
    asked = tuple(dict.fromkeys(frontier))
    fact = e.BasinHarvested(basin=basin.id, residue=tuple(learned.values()), frontier=asked, decidedBy=decided_by)
    _record(world, basin.id, fact)
    for question in asked:
        if question not in world.ledger.state.frontier:
            record(world.ledger, e.FrontierAdded(question=question, origin="person", basin=basin.id))


# --- open questions --------------------------------------------------------------------------------------------------


def ask(ledger: Ledger, question: str, *, basin: str | None, blocks: str | None) -> None:
    """Add an open question of a person's. ``basin`` and ``blocks`` are names of basins. Raises `Refused`."""
    ledger.catch_up()
    for name in (basin, blocks):
        if name is not None and name not in ledger.state.basins:
            known = ", ".join(ledger.state.basins) or "none"
            raise Refused(f"no destination is called {name}", hint=f"there is: {known}")
    if question in ledger.state.frontier:
        raise Refused("that question is open already", hint="orchconverge frontier list")
    record(ledger, e.FrontierAdded(question=question, origin="person", basin=basin, blocks=blocks))


def question_named(state: State, text: str) -> Question:
    """The open question of this text, or of this number in the list. Raises `Refused`."""
    questions = list(state.frontier.values())
    if text in state.frontier:
        return state.frontier[text]
    if text.isdecimal() and 1 <= int(text) <= len(questions):
        return questions[int(text) - 1]
    hint = f"orchconverge frontier list numbers them, 1 to {len(questions)}" if questions else "none is open"
    raise Refused(f"no open question is {text!r}", hint=hint)
