"""The fold: an accumulator that owns its dictionaries, and the table that finds the case of a fact by its type."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final, NoReturn, TypeVar

from msgspec.structs import replace

from orchconverge.core import values as v
from orchconverge.core.state import (
    Attempt,
    Basin,
    Branch,
    Phase,
    Question,
    Run,
    Session,
    State,
)
from orchconverge.errors import Illegal

F = TypeVar("F", bound=v.Fact)
CASES: Final[dict[type[v.Fact], Callable[[Fold, Any], None]]] = {}
EXCERPT: Final = 2048
TEXT: Final = 2000


def on(fact: type[F]) -> Callable[[Callable[[Fold, F], None]], Callable[[Fold, F], None]]:
    """Register the case of one fact."""

    def register(case: Callable[[Fold, F], None]) -> Callable[[Fold, F], None]:
        CASES[fact] = case
        return case

    return register


def refuse(message: str, rule: str) -> NoReturn:
    """Raise `Illegal`."""
    raise Illegal(message, rule=rule)


class Fold:
    """The accumulator. It owns its dictionaries; readers get `state`, which shows them and cannot change them."""

    def __init__(self) -> None:
        self.seq = 0
        self.basins: dict[str, Basin] = {}
        self.branches: dict[str, Branch] = {}
        self.sessions: dict[str, Session] = {}
        self.frontier: dict[str, Question] = {}
        self.consents: dict[str, str] = {}
        self.results: dict[str, dict[tuple[str, str, str], v.Evidence]] = {}
        self.waves: dict[str, tuple[str, ...]] = {}
        self._late: dict[str, tuple[float, datetime | None]] = {}
        self.state = State(
            basins=MappingProxyType(self.basins),
            branches=MappingProxyType(self.branches),
            sessions=MappingProxyType(self.sessions),
            frontier=MappingProxyType(self.frontier),
            consents=MappingProxyType(self.consents),
            results=MappingProxyType(self.results),
            waves=MappingProxyType(self.waves),
        )

    def apply(self, fact: v.Fact) -> None:
        """Fold one fact. Raises `Illegal` before any change if the rules do not allow it here."""
        self.take(fact)
        self.settle()

    def take(self, fact: v.Fact) -> None:
        """Fold one of many facts; `settle` follows the last one. Raises `Illegal` as `apply` does."""
        CASES[type(fact)](self, fact)
        if fact.seq > self.seq:
            self.seq = fact.seq

    # --- what the cases ask ------------------------------------------------------------------------------------------

    def basin(self, name: str) -> Basin:
        """The basin of this name, or `Illegal`."""
        found = self.basins.get(name)
        if found is None:
            refuse(f"{name} is not declared", "a basin is declared before anything happens in it")
        return found

    def branch(self, name: str, *phases: Phase) -> Branch:
        """The branch of this name, in one of these phases, or `Illegal`."""
        found = self.branches.get(name)
        if found is None:
            refuse(f"{name} was not spawned", "a branch is spawned before anything happens to it")
        if phases and found.phase not in phases:
            refuse(f"{name} is {found.phase.value}", f"it would have to be {' or '.join(p.value for p in phases)}")
        return found

    def run(self, name: str) -> tuple[Basin, Run]:
        """The basin and its open run, or `Illegal`."""
        basin = self.basin(name)
        if basin.run is None or not basin.run.open:
            refuse(f"no run of {name} is open", "a run is started first")
        return basin, basin.run

    def attempt(self, name: str, number: int | None = None) -> tuple[Basin, Attempt]:
        """The basin and its running attempt, or `Illegal`."""
        basin = self.basin(name)
        if basin.attempt is None or (number is not None and basin.attempt.number != number):
            refuse(f"attempt {number or ''} of {name} does not run", "an attempt is started first and ends once")
        return basin, basin.attempt

    def put(self, basin: Basin, fact: v.Fact, **changes: Any) -> None:  # noqa: ANN401 - fields of Basin, checked by replace
        """Replace a basin's record, moving its active time on. Time alone is written later, by `settle`: most facts move it."""
        if fact.active is not None:
            self._late[basin.id] = (max(fact.active, self.active(basin)), fact.at)
        if changes:
            late = self._late.pop(basin.id, None) if "active" in changes else None
            if late is not None:
                changes["active_at"] = late[1]
            self.basins[basin.id] = replace(basin, **changes)

    def active(self, basin: Basin) -> float:
        """A basin's active time in seconds, what is not written into its record yet included."""
        late = self._late.get(basin.id)
        return basin.active if late is None else max(basin.active, late[0])

    def settle(self) -> None:
        """Write the active times that moved into the records. What reads the state has to find them there."""
        for name, (active, at) in self._late.items():
            self.basins[name] = replace(self.basins[name], active=active, active_at=at)
        self._late.clear()

    def remember(self, basin: str, evidence: tuple[v.Evidence, ...]) -> None:
        """Keep answers for reuse within the run; what is asked when none is open is asked anew each time."""
        run = self.basins[basin].run
        if run is None or not run.open:
            return
        known = self.results.setdefault(basin, {})
        for item in evidence:
            known[item.criterion, item.tree, item.place] = item
