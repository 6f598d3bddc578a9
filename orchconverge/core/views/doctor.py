"""What the doctor found and what the engines can do, as text: a line each, and what to type where something is not in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from orchconverge.core.views.text import cells, clean, counted

WIDE: Final = 300
"""Cells of a line: what is found has paths and words of other programs in it."""


class Finding(Struct, frozen=True, kw_only=True):
    """One part of what is needed. A ``fault`` keeps a run from starting or ending; ``todo`` is what to type."""

    part: str
    state: Literal["ok", "warning", "fault"]
    said: str
    todo: str = ""


def ok(part: str, said: str) -> Finding:
    """It is in order."""
    return Finding(part=part, state="ok", said=said)


def warning(part: str, said: str, todo: str) -> Finding:
    """A run goes, with less than there could be."""
    return Finding(part=part, state="warning", said=said, todo=todo)


def fault(part: str, said: str, todo: str) -> Finding:
    """A run cannot start, or cannot end as it should."""
    return Finding(part=part, state="fault", said=said, todo=todo)


class Ability(Struct, frozen=True, kw_only=True):
    """What an engine can do. ``path`` is ``None`` where it is not installed, ``version`` empty where its files do not tell.

    ``signed_in`` are names of variables and files that say so, never what is in them. ``caps`` are limits that it keeps
    itself. ``resumes``: a context of its own can be continued by a later attempt. ``hooks``: it asks before each tool call.
    ``cost``: it tells dollars.
    """

    engine: str
    path: str | None
    version: str
    signed_in: tuple[str, ...]
    caps: tuple[str, ...]
    resumes: bool
    commits: bool
    hooks: bool
    cost: bool


def text(findings: Sequence[Finding]) -> str:
    """A line a part, below it what to type, and at the end how many faults there are."""
    wide = max(cells(one.part) for one in findings)
    lines = []
    for one in findings:
        lines.append(f"{one.state:7}  {one.part.ljust(wide)}  {clean(one.said, WIDE)}")
        if one.todo:
            lines.append(f"{'':7}  {'':{wide}}    {clean(one.todo, WIDE)}")
    faults, warnings = (sum(one.state == state for one in findings) for state in ("fault", "warning"))
    lines.append(f"{counted(faults, 'fault')}, {counted(warnings, 'warning')}.")
    return "\n".join(lines)


def document(findings: Sequence[Finding]) -> dict[str, Any]:
    """The same as one object."""
    return {"ok": all(one.state != "fault" for one in findings), "findings": msgspec.to_builtins(findings)}


def engines(abilities: Sequence[Ability]) -> str:
    """A line an engine: where it is, and below it what it can do."""
    lines, wide = [], max(cells(one.engine) for one in abilities)
    for one in abilities:
        where = f"{one.version or 'version not told'}, {one.path}" if one.path is not None else "not installed"
        lines.append(f"{one.engine:{wide}}  {clean(where, WIDE)}")
        can = (
            f"context {'continued' if one.resumes else 'fresh each time'}",
            f"limits kept by itself: {', '.join(one.caps) or 'none'}",
            "commits" if one.commits else "cannot commit, so orchconverge does",
            "asks before each tool call" if one.hooks else "judged between attempts",
            "tells its cost" if one.cost else "tells no cost",
        )
        lines.append(f"{'':{wide}}  {'; '.join(can)}")
    return "\n".join(lines)
