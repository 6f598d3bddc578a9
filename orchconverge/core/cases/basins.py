"""Cases of basins and of the frontier: what is wanted, what holds, what is still asked."""

from __future__ import annotations

from msgspec.structs import replace

from orchconverge.core import events as e
from orchconverge.core import values as v
from orchconverge.core.fold import Fold, on, refuse
from orchconverge.core.state import Basin, Question, Tip
from orchconverge.core.target import Criterion


@on(e.BasinDeclared)
def _declared(fold: Fold, fact: e.BasinDeclared) -> None:
    if fact.basin in fold.basins:
        refuse(f"{fact.basin} is declared already", "a basin is never erased or declared twice")
    if not any(c.in_loop and not c.condition for c in fact.criteria):
        refuse(f"{fact.basin} has nothing that can be gained", "a basin has a criterion that is not a condition")
    fold.basins[fact.basin] = Basin(
        id=fact.basin,
        title=fact.title,
        macrostate=fact.macrostate,
        goal=fact.goal,
        criteria=fact.criteria,
        termination=fact.termination,
        budget=fact.budget,
        target=fact.target,
        approaches=fact.approaches,
        lock=fact.lock,
        may_change=fact.mayChange,
        parents=fact.parents,
        stages=fact.stages,
        declared=fact.at,
    )


@on(e.BasinAmended)
def _amended(fold: Fold, fact: e.BasinAmended) -> None:
    basin = fold.basin(fact.basin)
    if basin.phase != "open":
        refuse(f"{basin.id} is {basin.phase}", "an open target is amended")
    if basin.attempt is not None:
        refuse(f"attempt {basin.attempt.number} of {basin.id} runs", "a target is amended between attempts")
    changes = {
        "termination": fact.termination or basin.termination,
        "budget": fact.budget or basin.budget,
        "stages": basin.stages if fact.stages is None else fact.stages,
        "amended": basin.attempts,
    }
    if fact.criteria:
        fold.results.pop(basin.id, None)
        changes |= {"criteria": fact.criteria, "proposal": None, "tip": _still(basin, fact.criteria)}
    fold.put(basin, fact, **changes)


def _still(basin: Basin, criteria: tuple[Criterion, ...]) -> Tip | None:
    """The tip with the answers to those criteria alone that mean what they meant."""
    same = {c.name for c in criteria if c in basin.criteria}
    return basin.tip and replace(basin.tip, results={n: x for n, x in basin.tip.results.items() if n in same})


@on(e.BasinChecked)
def _checked(fold: Fold, fact: e.BasinChecked) -> None:
    basin = fold.basin(fact.basin)
    tip = Tip(head=fact.head, tree=fact.tree, results={r.criterion: r for r in fact.results if not _shadowed(r, fact)})
    fold.remember(basin.id, fact.results)
    run = basin.run and replace(basin.run, checked=True)
    chain = basin.chain
    if chain.said and basin.tip is not None and basin.tip.tree != fact.tree:  # what it said was of another tree
        chain = replace(chain, stale=True, moved=True)
    fold.put(basin, fact, tip=tip, start=basin.start or tip, run=run, chain=chain)


def _shadowed(result: v.Evidence, fact: e.BasinChecked) -> bool:
    """Whether the same criterion was also answered in the other place, later in the list, which then counts."""
    later = fact.results[fact.results.index(result) + 1 :]
    return any(other.criterion == result.criterion for other in later)


@on(e.BasinOpened)
def _opened(fold: Fold, fact: e.BasinOpened) -> None:
    basin, attempt = fold.attempt(fact.basin, fact.wave)
    if attempt.opened:
        refuse(f"wave {fact.wave} of {basin.id} is open", "an attempt opens one wave")
    fold.put(basin, fact, attempt=replace(attempt, opened=True))


@on(e.BasinConverged)
def _converged(fold: Fold, fact: e.BasinConverged) -> None:
    basin = fold.basin(fact.basin)
    if basin.phase != "open":
        refuse(f"{basin.id} is {basin.phase}", "only an open basin converges")
    tip = basin.tip
    unmet = [c.name for c in basin.required if tip is None or not _met(tip, c.name)]
    if unmet:
        refuse(f"{', '.join(unmet)} of {basin.id} not met", "all required criteria hold on the target")
    fold.put(basin, fact, phase="converged", note=fact.note)


def _met(tip: Tip, name: str) -> bool:
    found = tip.results.get(name)
    return found is not None and found.met == "yes"


@on(e.BasinKilled)
def _killed(fold: Fold, fact: e.BasinKilled) -> None:
    basin = fold.basin(fact.basin)
    if basin.phase != "open":
        refuse(f"{basin.id} is {basin.phase}", "only an open basin is killed")
    fold.put(basin, fact, phase="killed", note=fact.reason)


@on(e.BasinHarvested)
def _harvested(fold: Fold, fact: e.BasinHarvested) -> None:
    basin = fold.basin(fact.basin)
    if basin.phase == "open" and basin.running is not None and basin.chain.stale:
        refuse(f"{basin.id} is still pursued", "a basin is harvested once it ended or its chain has begun")
    history = tuple(replace(past, excerpts=()) for past in basin.history)
    fold.put(basin, fact, harvested=True, residue=fact.residue, history=history)


@on(e.FrontierAdded)
def _question(fold: Fold, fact: e.FrontierAdded) -> None:
    fold.frontier.setdefault(
        fact.question,
        Question(question=fact.question, origin=fact.origin, basin=fact.basin, blocks=fact.blocks),
    )


@on(e.FrontierClosed)
def _answered(fold: Fold, fact: e.FrontierClosed) -> None:
    if fact.question not in fold.frontier:
        refuse("that question is not open", "an open question is closed once")
    basin = fold.basins.get(fold.frontier.pop(fact.question).basin or "")
    if basin is not None and basin.attempt is None and basin.history and basin.history[-1].passes:
        fold.put(basin, fact, amended=basin.attempts)  # the answer may be what the attempt was blocked by
