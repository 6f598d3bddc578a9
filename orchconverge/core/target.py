"""The written target: criteria, termination and budget, which cannot be built without a way to stop."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Literal, NewType

import msgspec
from msgspec import Meta, Struct

BasinId = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")]
BranchId = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9-]{0,39}\.[1-9][0-9]*$")]
NonBlank = Annotated[str, Meta(pattern=r"\S")]
Name = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")]
Sha = NewType("Sha", str)

Kind = Literal["command", "tests", "docs", "changed", "mergeable", "judge", "pr", "ci", "review"]
CONDITIONS: frozenset[str] = frozenset({"changed", "mergeable"})
"""Kinds that say whether the work is in order. They never count as progress, as gained, or as the only thing unmet."""
RUN_BY_US: frozenset[str] = frozenset({"command", "tests"})
"""Kinds that are a command line, run by ``/bin/sh -c`` in the tree."""
FROM_GIT: frozenset[str] = frozenset({"docs", "changed", "mergeable"})
"""Kinds that git alone answers."""
IN_THE_CHAIN: frozenset[str] = frozenset({"pr", "ci", "review"})
"""Kinds that only the final chain can answer."""

SENTENCE = re.compile(
    r"^all criteria hold(?:, or (?P<attempts>\d+) attempts?)?(?:, or (?P<hours>\d+(?:\.\d+)?) hours?)?$"
)


class Criterion(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One checkable clause of the target. ``deadline`` is in seconds; ``paths`` belong to kind ``docs``.

    Kind ``judge`` has a ``text`` of a person and the ``clauses`` that were drafted of it, each answered by itself.
    """

    name: Name
    kind: Kind = "command"
    command: str = ""
    paths: tuple[str, ...] = ()
    text: str = ""
    clauses: tuple[NonBlank, ...] = ()
    required: bool = True
    stage: Literal["loop", "chain"] = "loop"
    deadline: Annotated[float, Meta(gt=0)] = 600.0

    def __post_init__(self) -> None:
        if self.kind in RUN_BY_US and not self.command.strip():
            raise ValueError(f"criterion {self.name} has no command")
        if "\0" in self.command:
            raise ValueError(f"criterion {self.name}: a command cannot hold a NUL byte")
        if self.kind == "docs" and not self.paths:
            raise ValueError(f"criterion {self.name} names no paths")
        if self.kind == "judge" and not self.text.strip():
            raise ValueError(f"criterion {self.name} has no text")

    @property
    def condition(self) -> bool:
        """Whether it says that the work is in order, not that something was gained."""
        return self.kind in CONDITIONS

    @property
    def in_loop(self) -> bool:
        """Whether the loop, not the final chain, answers it."""
        return self.stage == "loop" and self.kind not in IN_THE_CHAIN


class Termination(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """When there have been enough attempts. At least one hard limit; ``hours`` are hours of active time."""

    attempts: Annotated[int, Meta(ge=1)] | None = None
    hours: Annotated[float, Meta(gt=0)] | None = None
    until: Annotated[datetime, Meta(tz=True)] | None = None

    def __post_init__(self) -> None:
        if self.attempts is None and self.hours is None and self.until is None:
            raise ValueError("a target needs a stop condition: attempts, hours or until")

    @property
    def sentence(self) -> str:
        """The termination in the one sentence form that a target file may use."""
        parts = ["all criteria hold"]
        if self.attempts is not None:
            parts.append(f"or {self.attempts} attempt{'s' if self.attempts != 1 else ''}")
        if self.hours is not None:
            parts.append(f"or {self.hours:g} hour{'s' if self.hours != 1 else ''}")
        if self.until is not None:
            parts.append(f"or {self.until.isoformat()}")
        return ", ".join(parts)


def termination_from(sentence: str) -> Termination:
    """Read the sentence form, e.g. ``all criteria hold, or 3 attempts, or 1 hour``. Raises `ValueError` for any other."""
    found = SENTENCE.match(" ".join(sentence.split()))
    if found is None:
        raise ValueError(f'"{sentence}" is not of the form "all criteria hold, or 3 attempts, or 1 hour"')
    attempts, hours = found["attempts"], found["hours"]
    return Termination(attempts=int(attempts) if attempts else None, hours=float(hours) if hours else None)


class Budget(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What the pursuit may spend. ``None`` is no limit; ``minds`` counts minds started, retries included."""

    usd: Annotated[float, Meta(gt=0)] | None = None
    tokens: Annotated[int, Meta(gt=0)] | None = None
    minds: Annotated[int, Meta(gt=0)] | None = None


class Stage(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a stage declares: the paths that it reads, the path that it writes, and other names of both (name -> path)."""

    name: NonBlank
    inputs: tuple[NonBlank, ...] = ()
    output: NonBlank
    aliases: Mapping[str, NonBlank] = {}


class Target(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A whole written target, checked: what `declare` takes and `basin.declared` records."""

    basin: BasinId
    title: NonBlank
    macrostate: NonBlank
    goal: NonBlank
    criteria: Annotated[tuple[Criterion, ...], Meta(min_length=1)]
    termination: Termination
    branch: NonBlank
    budget: Budget = Budget()
    approaches: tuple[NonBlank, ...] = ()
    lock: Literal["auto", "person"] = "auto"
    may_change: tuple[str, ...] = ()
    stages: tuple[Stage, ...] = ()

    def __post_init__(self) -> None:
        names = [c.name for c in self.criteria]
        twice = sorted({n for n in names if names.count(n) > 1})
        if twice:
            raise ValueError(f"two criteria are called {twice[0]}")
        once(self.stages)
        if not any(c.in_loop and not c.condition for c in self.criteria):
            raise ValueError("nothing can be gained: no criterion but conditions")


def once(stages: Sequence[Stage]) -> None:
    """Raise `ValueError` if two stages have one name."""
    names = [stage.name for stage in stages]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"two stages are called {name}")


def slug(text: str, *, longest: int = 40) -> str:
    """Turn any text into ``[a-z0-9-]``, at most ``longest`` characters, cut between words; ``goal`` if nothing is left."""
    words = re.findall(r"[a-z0-9]+", text.lower())
    out = ""
    for word in words:
        grown = f"{out}-{word}" if out else word[:longest]
        if len(grown) > longest:
            break
        out = grown
    return out or "goal"


def validated(target: Target) -> Target:
    """Check the constraints that a constructor does not (patterns, bounds). Raises `msgspec.ValidationError`."""
    return msgspec.convert(msgspec.to_builtins(target), Target)
