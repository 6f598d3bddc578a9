"""What the final chain has come to: its steps, and what it said of the criteria that only it can answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from msgspec import Struct

from orchconverge.core.target import Sha
from orchconverge.core.values import Evidence, Met, StepStatus

MENDED: Final = frozenset({"review", "ci"})
"""Kinds of the chain whose `no` another attempt can mend; a pull request that is missing no mind can open."""
MOST_TEXT: Final = 2048
MOST_PATHS: Final = 50


class Step(Struct, frozen=True, kw_only=True):
    """A step of the final chain that is over."""

    name: str
    status: StepStatus
    detail: str
    url: str | None = None
    commit: Sha | None = None
    at: datetime | None = None


class Said(Struct, frozen=True, kw_only=True):
    """What the chain said of one of its criteria. ``paths`` are the files that findings against it name."""

    criterion: str
    met: Met
    text: str = ""
    paths: tuple[str, ...] = ()


class Chain(Struct, frozen=True, kw_only=True):
    """The round of the final chain: what ran, what runs. A round is stale once an attempt ended after it.

    ``said`` is about the target as it stands, until it ``moved``.
    """

    round: int = 0
    running: str | None = None
    argv: tuple[str, ...] = ()
    done: tuple[Step, ...] = ()
    stale: bool = True
    said: tuple[Said, ...] = ()
    moved: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The steps of this round that are over."""
        return tuple(step.name for step in self.done)


def heard(
    before: Sequence[Said], results: Iterable[Evidence], findings: Iterable[Mapping[str, Any]]
) -> tuple[Said, ...]:
    """What is known once a step said this as well. That it could not tell takes no `no` back."""
    named = tuple(dict.fromkeys(str(one["path"]) for one in findings if one.get("severity") == "critical"))
    known = {one.criterion: one for one in before}
    for found in results:
        there = known.get(found.criterion)
        if there is not None and there.met == "no" and found.met in ("error", "unknown"):
            continue
        known[found.criterion] = Said(
            criterion=found.criterion,
            met=found.met,
            text=found.excerpt[:MOST_TEXT],
            paths=named[:MOST_PATHS] if found.met == "no" else (),
        )
    return tuple(known.values())
