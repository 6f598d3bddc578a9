"""The pursuits as a graph: one node a session, which lives as long as its goal, and from which others each began."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from heapq import heappop, heappush
from typing import Final, Literal

from msgspec.structs import replace

from orchconverge.core import events as e
from orchconverge.core.measures import Shown
from orchconverge.core.needs import Need
from orchconverge.core.projection import Projection
from orchconverge.core.state import Phase, State
from orchconverge.core.values import all_tokens
from orchconverge.core.views.sessions import SessionShown, sessions
from orchconverge.core.views.text import clean

SCHEMA: Final = 1
FOLDED_AFTER: Final = timedelta(days=30)
"""A session that ended so long ago is counted, not drawn."""
Stands = Literal["open", "needs you", "met", "abandoned", "lost"]


class Pursuit(Shown, frozen=True, kw_only=True):
    """A session and its goal. ``parents`` and ``children`` are basins; ``reason`` is why it was given up.

    ``tokens`` is all the context that its minds accrued, ``grafts`` what of theirs is on the target, parts included;
    ``residue`` and ``questions`` are what it leaves to others. Times are UTC.
    """

    session: str
    basin: str
    macrostate: str
    stands: Stands
    reason: str
    parents: tuple[str, ...]
    children: tuple[str, ...]
    opened: datetime | None
    closed: datetime | None
    attempts: int
    met: int
    required: int
    tokens: int
    grafts: int
    residue: int
    questions: int


class Folded(Shown, frozen=True, kw_only=True):
    """Sessions that ended long ago: how many, how many of them met, and the basins of those that began from one of them."""

    count: int
    met: int
    children: tuple[str, ...]


class Graph(Shown, frozen=True, kw_only=True):
    """The sessions as they are drawn: newest first, none below one that it began from."""

    schema: int
    as_of: datetime
    utc_offset: int
    needs_you: tuple[Need, ...]
    pursuits: tuple[Pursuit, ...]
    folded: Folded | None

    @property
    def local(self) -> datetime:
        """``as_of`` in the reader's zone."""
        return self.as_of.astimezone(timezone(timedelta(seconds=self.utc_offset)))


def graph(facts: Iterable[e.AnyFact], state: State, shown: Projection, *, only: str | None = None) -> Graph:
    """All sessions, or those that ``only`` began from or that began from it, which are then all drawn however old."""
    ended: dict[str, datetime | None] = {}

    def passing() -> Iterator[e.AnyFact]:
        for fact in facts:
            if isinstance(fact, e.BasinConverged | e.BasinKilled):
                ended[fact.basin] = fact.at
            yield fact

    them = [one for one in sessions(passing()) if one.basin in state.basins]
    pursuits = {one.basin: _pursuit(one, state, shown, ended.get(one.basin)) for one in them}
    kept = _related(pursuits, only) if only is not None else set(pursuits)
    old = set() if only is not None else {name for name in kept if _old(pursuits[name], shown.as_of)}
    drawn = [_among(one, kept - old) for one in pursuits.values() if one.basin in kept - old]
    return Graph(
        schema=SCHEMA,
        as_of=shown.as_of,
        utc_offset=shown.utc_offset,
        needs_you=shown.needs_you,
        pursuits=tuple(ordered(drawn)),
        folded=_folded([pursuits[name] for name in pursuits if name in old], kept - old) if old else None,
    )


def _pursuit(session: SessionShown, state: State, shown: Projection, ended: datetime | None) -> Pursuit:
    basin = state.basins[session.basin]
    drawn = shown.basin(basin.id)
    landed = sum(b.phase is Phase.GRAFTED or b.admitted for b in state.branches_of(basin.id))
    stands = _stands(session, basin.phase, needs=drawn is not None and drawn.group == "need you")
    return Pursuit(
        session=session.id,
        basin=basin.id,
        macrostate=clean(basin.macrostate),
        stands=stands,
        reason=clean(basin.note) if stands == "abandoned" else "",
        parents=tuple(session.parents),
        children=tuple(session.forks),
        opened=session.at,
        closed=ended if stands in ("met", "abandoned") else session.closed,
        attempts=session.attempts,
        met=drawn.met if drawn is not None else 0,
        required=drawn.required if drawn is not None else len(basin.counted),
        tokens=all_tokens(basin.usage),
        grafts=landed + basin.parts_landed,
        residue=len(basin.residue),
        questions=sum(question.basin == basin.id for question in state.frontier.values()),
    )


def _stands(session: SessionShown, phase: str, *, needs: bool) -> Stands:
    """As the goal does; a session of one that is neither met nor given up can still be lost."""
    if phase == "killed":
        return "abandoned"
    if phase == "converged":
        return "met"
    if needs:
        return "needs you"
    return "open" if session.open else "lost"


def _old(pursuit: Pursuit, now: datetime) -> bool:
    return pursuit.closed is not None and pursuit.stands in ("met", "abandoned") and now - pursuit.closed > FOLDED_AFTER


def _among(pursuit: Pursuit, kept: Collection[str]) -> Pursuit:
    """A pursuit with those of its neighbours that are looked at."""
    return replace(
        pursuit,
        parents=tuple(name for name in pursuit.parents if name in kept),
        children=tuple(name for name in pursuit.children if name in kept),
    )


def _folded(old: Sequence[Pursuit], drawn: Collection[str]) -> Folded:
    children = dict.fromkeys(child for one in old for child in one.children if child in drawn)
    return Folded(count=len(old), met=sum(one.stands == "met" for one in old), children=tuple(children))


def _related(pursuits: Mapping[str, Pursuit], name: str) -> set[str]:
    """A pursuit, what it began from, and what began from it, however far."""
    parents = {one.basin: one.parents for one in pursuits.values()}
    children: dict[str, list[str]] = {}
    for one in pursuits.values():
        for parent in one.parents:
            children.setdefault(parent, []).append(one.basin)
    found: set[str] = set()
    for nexts in (parents, children):
        ahead = [name]
        while ahead:
            here = ahead.pop()
            found.add(here)
            ahead += [each for each in nexts.get(here, ()) if each not in found]
    return found & pursuits.keys()


def ordered(pursuits: Iterable[Pursuit]) -> list[Pursuit]:
    """Newest first, but none before all that began from it; as they are given where neither tells them apart."""
    them = {one.basin: one for one in pursuits}
    waits = dict.fromkeys(them, 0)
    for one in them.values():
        for parent in one.parents:
            if parent in waits:
                waits[parent] += 1
    rank = {name: place for place, name in enumerate(them)}
    ready: list[tuple[float, int, str]] = []

    def free(name: str) -> None:
        at = them[name].opened
        heappush(ready, (-at.timestamp() if at is not None else 0.0, rank[name], name))

    for name, count in waits.items():
        if not count:
            free(name)
    out: list[Pursuit] = []
    while ready:
        _, _, name = heappop(ready)
        out.append(them[name])
        for parent in them[name].parents:
            if parent in waits:
                waits[parent] -= 1
                if not waits[parent]:
                    free(parent)
    return out
