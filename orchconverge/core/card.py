"""The review card: all that a person needs to admit or turn down the candidate at the head of the lock. Writes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from msgspec import Struct

from orchconverge.core.admit import ready
from orchconverge.core.flags import is_test
from orchconverge.core.judge import met
from orchconverge.core.matrix import Cell, Column, Matrix, matrix
from orchconverge.core.measures import Shown
from orchconverge.core.needs import waits_since
from orchconverge.core.overlap import Difference, Ground, Merge, Pair, overlap
from orchconverge.core.risks import Counted, Risk, counts, risks, untouched
from orchconverge.core.state import Basin, Branch, Proposal, State
from orchconverge.core.target import Criterion, Sha
from orchconverge.core.values import Evidence, Taken, TurnedDown
from orchconverge.core.views.text import clean

CELLS: Final = 400
"""Cells of any text that was not written by us."""
NAMED: Final = 5
"""So many files of a conflict are named."""
_ORDER: Final[Mapping[Cell, int]] = {"lost": 0, "unmet": 1, "unknown": 1, "gained": 2, "only": 2, "met": 3}


class Clause(Shown, frozen=True, kw_only=True):
    """One criterion on the tip and on this candidate. ``line`` is the telling line of the output, ``log`` where it all is."""

    criterion: str
    required: bool
    tip: Cell
    this: Cell
    exit: int | None
    seconds: float | None
    line: str
    asked: str
    log: str


class Tests(Shown, frozen=True, kw_only=True):
    """Test files that come and go; test cases by their ids, where a criterion of kind ``tests`` tells them."""

    files_added: int
    files_deleted: int
    cases_added: int
    cases_gone: tuple[str, ...]


class Other(Shown, frozen=True, kw_only=True):
    """Another candidate. ``meets``: what neither this one nor the tip does; ``merges`` with this one, ``None``: not known.

    ``lines`` are files of which both claim the same lines, ``files`` those that both touch; ``covered``: it has nothing more.
    """

    branch: str
    approach: str
    met: int
    meets: tuple[str, ...]
    merges: bool | None
    conflicts: tuple[str, ...]
    lines: tuple[str, ...]
    files: tuple[str, ...]
    covered: bool


class Offered(Shown, frozen=True, kw_only=True):
    """A part of the proposal, by its number from 1. ``flags`` are those of what it brings."""

    number: int
    branch: str
    criterion: str | None
    paths: tuple[str, ...]
    gains: tuple[str, ...]
    flags: tuple[str, ...]
    commit: Sha


class Proposed(Shown, frozen=True, kw_only=True):
    """What was gated and can be admitted as it is: ``head`` is its last commit. ``refused`` parts, each with why."""

    tip: Sha
    head: Sha
    parts: tuple[Offered, ...]
    refused: tuple[str, ...]
    met: int


class Card(Shown, frozen=True, kw_only=True):
    """One candidate at the lock. ``met``, ``before``, ``after`` count required criteria, of ``whole``.

    ``tip`` is the target as it was checked, ``target_head`` as it stands. ``before`` holds on the tip, ``after`` with this.
    ``gains`` counts a ``tests`` criterion too of which more tests pass. ``changes`` is ``None`` if its commits are not here.
    ``more_is_met_by`` is the first candidate that meets more. ``proposable``: a proposal can be made anew on this tip.
    """

    basin: str
    branch: str
    approach: str
    title: str
    macrostate: str
    summary: str
    target: str
    tip: Sha | None
    target_head: Sha | None
    position: int
    waiting: int
    since: datetime | None
    whole: int
    before: int
    met: int
    after: int
    gains: tuple[str, ...]
    losses: tuple[str, ...]
    more_is_met_by: str | None
    refused: str
    criteria: tuple[Clause, ...]
    changes: tuple[Counted, ...] | None
    files: int
    only: tuple[str, ...]
    tests: Tests
    flags: tuple[str, ...]
    risks: tuple[Risk, ...]
    untouched: tuple[str, ...]
    others: tuple[Other, ...]
    proposal: Proposed | None
    proposable: bool


class Looked(Struct, frozen=True, kw_only=True):
    """What git said: where the target stands, what the candidate changes (with the patch), who claims which ground.

    ``merges`` is of (this, other) for each other candidate that was compared.
    """

    target: Sha | None = None
    difference: Difference | None = None
    grounds: tuple[Ground, ...] = ()
    merges: Mapping[tuple[str, str], Merge] = {}


def waiting(state: State, basin: Basin) -> tuple[Branch, ...]:
    """The candidates that a person decides on, in the order in which they came.

    While a run admits by itself these are the flagged ones alone; once none is open they are all that are left.
    """
    if basin.phase != "open":
        return ()
    by_itself = basin.running is not None and basin.valve == "auto"
    queued = (state.branches[name] for name in basin.queue)
    return tuple(branch for branch in queued if branch.flags or not by_itself)


def flags_of(state: State, taken: Taken) -> tuple[str, ...]:
    """The flags of a part: all of a whole branch, else those on the files that the part changes."""
    recorded = state.branches[taken.part.branch].flags
    if taken.part.whole:
        return recorded
    return tuple(flag for flag in recorded if flag.partition(": ")[2] in taken.paths)


def card(state: State, basin_id: str, branch_id: str, looked: Looked) -> Card:
    """The card of one of the `waiting` candidates. Raises `KeyError` for one that is not there."""
    basin, branch = state.basins[basin_id], state.branches[branch_id]
    queued = [one.id for one in waiting(state, basin)]
    compared = matrix(state, basin_id)
    columns = {column.branch: column for column in compared.columns}
    column = columns[branch_id]
    names = [c.name for c in basin.counted]
    tip = basin.tip.results if basin.tip is not None else {}
    before = {name for name in names if met(tip, name)}
    after = (before | set(column.met).intersection(names)) - set(column.losses)
    own = _count(column, names)
    better = [one for one in queued if one != branch_id and _count(columns[one], names) > own]
    found = looked.difference
    seen = risks(branch.flags, found, basin.criteria) if found is not None else ()
    refused_here = basin.tip is not None and basin.tip.head in branch.refused_tips
    offered = ready(state, basin, looked.target)
    return Card(
        basin=basin.id,
        branch=branch.id,
        approach=clean(branch.approach, CELLS),
        title=clean(basin.title, CELLS),
        macrostate=clean(basin.macrostate, CELLS),
        summary=clean(branch.summary, CELLS),
        target=clean(basin.target, CELLS),
        tip=basin.tip.head if basin.tip is not None else None,
        target_head=looked.target,
        position=queued.index(branch_id) + 1 if branch_id in queued else 0,
        waiting=len(queued),
        since=waits_since(branch),
        whole=len(names),
        before=len(before),
        met=own,
        after=len(after),
        gains=column.gains,
        losses=column.losses,
        more_is_met_by=better[0] if better else None,
        refused=clean(branch.refusal, CELLS) if refused_here else "",
        criteria=clauses(basin, branch, compared, column),
        changes=counts(found) if found is not None else None,
        files=len(found.changes) if found is not None else 0,
        only=_only(branch, queued, looked),
        tests=_tests(basin, branch, found),
        flags=branch.flags,
        risks=seen,
        untouched=untouched(seen) if found is not None else (),
        others=_others(state, basin, column, queued, columns, looked),
        proposal=_proposed(state, offered, names) if offered is not None else None,
        proposable=any(columns[name].gains and not state.branches[name].flags for name in queued),
    )


def _count(column: Column, names: Sequence[str]) -> int:
    return len(set(column.met).intersection(names))


def clauses(basin: Basin, branch: Branch, compared: Matrix, column: Column) -> tuple[Clause, ...]:
    """The criteria of the candidate with this column: lost first, then unmet, gained, as it was; the most stubborn on top."""
    asked = {c.name: c for c in basin.criteria}
    evidence = {x.criterion: x for x in branch.evidence}
    rows = sorted(zip(compared.rows, column.cells, strict=True), key=lambda pair: _ORDER[pair[1]])
    return tuple(
        Clause(
            criterion=row.criterion,
            required=row.required,
            tip=row.tip,
            this=cell,
            exit=found.exit if (found := evidence.get(row.criterion)) is not None else None,
            seconds=found.seconds if found is not None else None,
            line=telling(found),
            asked=clean(_question(asked[row.criterion]), CELLS),
            log=found.log if found is not None else "",
        )
        for row, cell in rows
    )


def telling(found: Evidence | None) -> str:
    """The last line of an output that says something: where runners put their sum, and shells why they stopped."""
    lines = [clean(line, CELLS) for line in found.excerpt.splitlines()] if found is not None else []
    return next((line for line in reversed(lines) if any(char.isalnum() for char in line)), "")


def _question(criterion: Criterion) -> str:
    return criterion.command or ", ".join(criterion.paths) or criterion.text or criterion.kind


def _tests(basin: Basin, branch: Branch, found: Difference | None) -> Tests:
    held = basin.tip.results if basin.tip is not None else {}
    before = {(name, case) for name, x in held.items() for case in x.passed}
    after = {(x.criterion, case) for x in branch.evidence for case in x.passed}
    run = {x.criterion for x in branch.evidence if x.passed}
    gone = sorted(clean(case, CELLS) for name, case in before - after if name in run)
    return Tests(
        files_added=_test_files(found, "A"),
        files_deleted=_test_files(found, "D"),
        cases_added=len({(name, case) for name, case in after - before if name in held}),
        cases_gone=tuple(gone),
    )


def _test_files(found: Difference | None, how: str) -> int:
    changes = found.changes if found is not None else ()
    return sum(change.kind == how and is_test(change.path) for change in changes)


def _others(
    state: State, basin: Basin, mine: Column, queued: Sequence[str], columns: Mapping[str, Column], looked: Looked
) -> tuple[Other, ...]:
    """The other candidates, those first that have something more, then as they are worth most beside one another."""
    names = [c.name for c in basin.counted]
    held = {*mine.met, *(name for name in names if basin.tip is not None and met(basin.tip.results, name))}
    grounds = {ground.branch: ground for ground in looked.grounds}
    found = []
    for name, column in columns.items():
        if name == mine.branch or name not in queued:
            continue
        more = tuple(criterion for criterion in column.met if criterion not in held)
        pair = _pair(basin.id, grounds.get(mine.branch), grounds.get(name), looked)
        found.append(
            Other(
                branch=name,
                approach=clean(state.branches[name].approach, CELLS),
                met=_count(column, names),
                meets=more,
                merges=pair.merges if pair is not None else None,
                conflicts=pair.conflicts if pair is not None else (),
                lines=tuple(file.path for file in pair.contested) if pair is not None else (),
                files=tuple(file.path for file in pair.shared) if pair is not None else (),
                covered=not more and set(column.gains) <= set(mine.gains),
            )
        )
    return tuple(sorted(found, key=lambda other: (other.covered, not other.meets)))


def _pair(basin: str, mine: Ground | None, other: Ground | None, looked: Looked) -> Pair | None:
    merge = looked.merges.get((mine.branch, other.branch)) if mine is not None and other is not None else None
    if mine is None or other is None or merge is None:
        return None
    return overlap(basin, (mine, other), {(mine.branch, other.branch): merge}).pairs[0]


def _only(branch: Branch, queued: Sequence[str], looked: Looked) -> tuple[str, ...]:
    """The files that no other candidate touches."""
    touched = {ground.branch: [claim.path for claim in ground.claims] for ground in looked.grounds}
    elsewhere = {path for name in queued if name != branch.id for path in touched.get(name, ())}
    return tuple(path for path in touched.get(branch.id, ()) if path not in elsewhere)


def _proposed(state: State, proposal: Proposal, names: Sequence[str]) -> Proposed:
    results = {x.criterion: x for x in proposal.evidence}
    return Proposed(
        tip=proposal.tip,
        head=proposal.head,
        parts=tuple(
            Offered(
                number=number,
                branch=taken.part.branch,
                criterion=taken.part.criterion,
                paths=taken.paths,
                gains=taken.gains,
                flags=flags_of(state, taken),
                commit=taken.commit,
            )
            for number, taken in enumerate(proposal.parts, 1)
        ),
        refused=tuple(_refused(one) for one in proposal.refused),
        met=sum(met(results, name) for name in names),
    )


def _refused(one: TurnedDown) -> str:
    what = one.part.branch if one.part.whole else f"{one.part.criterion or 'a part'} of {one.part.branch}"
    conflicts = ", ".join(one.conflicts[:NAMED])
    return clean(f"{what}: {f'conflict in {conflicts}' if conflicts else one.why}", CELLS)
