"""Which criteria each candidate meets, which it adds to those before it, and which candidate covers which."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from orchconverge.core.judge import gained, met
from orchconverge.core.state import Basin, Branch, State
from orchconverge.core.target import Criterion, Sha
from orchconverge.core.values import Evidence

Cell = Literal["met", "gained", "only", "unmet", "lost", "unknown"]
"""One answer: met on the tip too; met here and not on the tip; so by this candidate alone; not met; met on the tip and on
the base that the candidate began from, and no longer; not run, or it could not be run."""


class Row(Struct, frozen=True, kw_only=True):
    """A criterion. ``failures``: branches that were checked and do not meet it, ``approaches``: how many ways they went."""

    criterion: str
    required: bool
    condition: bool
    tip: Cell
    failures: int
    approaches: int


class Column(Struct, frozen=True, kw_only=True):
    """A candidate. ``cells`` in the order of the rows; ``gains`` counts a ``tests`` criterion too of which more tests pass.

    ``marginal`` are those of its gains that no column before it has. ``dominated_by`` is a column before it that meets
    all that it meets and loses nothing that it keeps; ``beyond`` is what that one meets and this one does not.
    """

    branch: str
    head: Sha
    cells: tuple[Cell, ...]
    met: tuple[str, ...]
    gains: tuple[str, ...]
    losses: tuple[str, ...]
    marginal: tuple[str, ...]
    dominated_by: str | None
    beyond: tuple[str, ...]


class Matrix(Struct, frozen=True, kw_only=True):
    """Criteria x candidates. Rows: those that the tip does not meet first, the most stubborn on top. Columns: greedily.

    ``unmet`` are the criteria that neither the tip nor any of the candidates meets, in the order of the rows.
    """

    basin: str
    target: str
    tip: Sha | None
    rows: tuple[Row, ...]
    columns: tuple[Column, ...]
    unmet: tuple[str, ...]


class Contrast(Struct, frozen=True, kw_only=True):
    """The criteria that tell two trees apart, those that do not, and those that were not answered on both (``unknown``)."""

    one: tuple[str, ...]
    other: tuple[str, ...]
    both: tuple[str, ...]
    neither: tuple[str, ...]
    unknown: tuple[str, ...]


class _Merit(Struct, frozen=True):
    """What a candidate is judged by."""

    branch: Branch
    met: frozenset[str]
    gains: tuple[str, ...]
    losses: frozenset[str]


def waiting(state: State, basin: str) -> tuple[Branch, ...]:
    """The candidates that are neither on the target nor turned down, oldest first."""
    return tuple(b for b in state.branches_of(basin) if b.waits)


def matrix(state: State, basin_id: str, *, sizes: Mapping[str, int] | None = None) -> Matrix:
    """The waiting candidates of a basin against what was last seen of its target. Raises `KeyError` for no such basin.

    ``sizes``: how many lines a branch changes, as far as that is known. Of equal candidates the smaller stands for the rest.
    """
    basin = state.basins[basin_id]
    tip = basin.tip.results if basin.tip is not None else {}
    criteria = [c for c in basin.criteria if c.in_loop]
    missed = {c.name: _missed(state.branches_of(basin_id), c.name) for c in criteria}
    criteria.sort(key=lambda c: (met(tip, c.name), -len(missed[c.name])))
    ordered = _greedy([_merit(basin, branch, criteria) for branch in waiting(state, basin_id)], sizes or {})
    meeting = {c.name: [m for m in ordered if c.name in m.met] for c in criteria}
    columns, covered = [], set[str]()
    for place, merit in enumerate(ordered):
        marginal = tuple(name for name in merit.gains if name not in covered)
        covered.update(marginal)
        columns.append(_column(merit, ordered[:place], tip, meeting, marginal))
    return Matrix(
        basin=basin.id,
        target=basin.target,
        tip=basin.tip.head if basin.tip is not None else None,
        rows=tuple(
            Row(
                criterion=c.name,
                required=c.required,
                condition=c.condition,
                tip=_answered(tip.get(c.name)),
                failures=len(missed[c.name]),
                approaches=len({branch.approach for branch in missed[c.name]}),
            )
            for c in criteria
        ),
        columns=tuple(columns),
        unmet=tuple(c.name for c in criteria if not met(tip, c.name) and not meeting[c.name]),
    )


def _missed(branches: Iterable[Branch], name: str) -> list[Branch]:
    """The branches on which a criterion was answered, and not by yes."""
    return [b for b in branches if any(x.criterion == name and x.met in ("no", "unstable") for x in b.evidence)]


def _merit(basin: Basin, branch: Branch, criteria: Sequence[Criterion]) -> _Merit:
    tip = basin.tip.results if basin.tip is not None else {}
    results, there = _results(branch), began(basin, branch.base)
    return _Merit(
        branch=branch,
        met=frozenset(c.name for c in criteria if met(results, c.name)),
        gains=gained(basin.criteria, tip, results),
        losses=frozenset(
            c.name
            for c in criteria
            if met(tip, c.name) and c.name in results and not met(results, c.name) and there.get(c.name, True)
        ),
    )


def _results(branch: Branch) -> dict[str, Evidence]:
    return {x.criterion: x for x in branch.evidence}


def began(basin: Basin, base: Sha) -> Mapping[str, bool]:
    """What held where a candidate began, as far as it was recorded: what the target got since, it has not lost."""
    for tip in (basin.tip, basin.start):
        if tip is not None and tip.head == base:
            return {name: met(tip.results, name) for name in tip.results}
    return next((past.criteria for past in reversed(basin.history) if past.head == base), {})


def _greedy(merits: Sequence[_Merit], sizes: Mapping[str, int]) -> list[_Merit]:
    """By what each adds to those before it; then fewer losses, more gains, more met, a smaller change, older."""
    left, ordered, covered = list(merits), [], set[str]()
    while left:
        best = max(
            left,
            key=lambda m: (
                len(set(m.gains) - covered),
                -len(m.losses),
                len(m.gains),
                len(m.met),
                -sizes.get(m.branch.id, sys.maxsize),
            ),
        )
        left.remove(best)
        ordered.append(best)
        covered.update(best.gains)
    return ordered


def _column(
    merit: _Merit,
    before: Sequence[_Merit],
    tip: Mapping[str, Evidence],
    meeting: Mapping[str, Collection[_Merit]],
    marginal: tuple[str, ...],
) -> Column:
    results = _results(merit.branch)
    cells = tuple(
        "lost"
        if name in merit.losses
        else _answered(results.get(name))
        if name not in merit.met or met(tip, name)
        else "gained"
        if len(others) > 1
        else "only"
        for name, others in meeting.items()
    )
    above = next((other for other in before if _covers(other, merit)), None)
    return Column(
        branch=merit.branch.id,
        head=merit.branch.head or Sha(""),
        cells=cells,
        met=tuple(name for name in meeting if name in merit.met),
        gains=merit.gains,
        losses=tuple(name for name in meeting if name in merit.losses),
        marginal=marginal,
        dominated_by=above.branch.id if above is not None else None,
        beyond=tuple(name for name in meeting if above is not None and name in above.met - merit.met),
    )


def _covers(other: _Merit, merit: _Merit) -> bool:
    return other.met >= merit.met and set(other.gains) >= set(merit.gains) and other.losses <= merit.losses


def _answered(found: Evidence | None) -> Cell:
    if found is None or found.met in ("error", "unknown"):
        return "unknown"
    return "met" if found.met == "yes" else "unmet"


def contrast(
    names: Iterable[str], one: Mapping[str, Evidence] | None, other: Mapping[str, Evidence] | None
) -> Contrast:
    """Put each criterion where it belongs. An answer that is missing, or that it could not be run, is no answer."""
    found: dict[tuple[Cell, Cell], list[str]] = {}
    unknown = []
    for name in dict.fromkeys(names):
        pair = _answered((one or {}).get(name)), _answered((other or {}).get(name))
        if "unknown" in pair:
            unknown.append(name)
        else:
            found.setdefault(pair, []).append(name)
    return Contrast(
        one=tuple(found.get(("met", "unmet"), ())),
        other=tuple(found.get(("unmet", "met"), ())),
        both=tuple(found.get(("met", "met"), ())),
        neither=tuple(found.get(("unmet", "unmet"), ())),
        unknown=tuple(unknown),
    )
