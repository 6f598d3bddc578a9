"""What runs left behind as text: what goes, what stays and why, each with its size and where it lies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from orchconverge.core.views.text import clean, counted

KINDS: Final[Mapping[str, tuple[str, str]]] = {
    "tree": ("worktree of a mind", "worktrees of minds"),
    "throwaway": ("throwaway tree", "throwaway trees"),
    "branch": ("branch of a mind", "branches of minds"),
    "minds": ("folder of a mind", "folders of minds"),
    "given": ("folder given to a mind", "folders given to minds"),
    "checks": ("folder of a check", "folders of checks"),
    "setups": ("folder of a setup", "folders of setups"),
    "gates": ("folder of a person's check", "folders of a person's checks"),
    "gatesetups": ("folder of a person's setup", "folders of a person's setups"),
    "steps": ("folder of a step", "folders of steps"),
    "evidence": ("output of a check", "outputs of checks"),
}
"""In the order in which they are shown: what one and what several are called."""
NAMED: Final = 3
"""How many of a kind are named in a line."""


class Remain(Struct, frozen=True, kw_only=True):
    """One thing that a run left. ``why`` it stays; empty: it goes, or went. ``where`` is the folder it lies in."""

    kind: str
    name: str
    where: str
    bytes: int = 0
    why: str = ""


class Always(Struct, frozen=True, kw_only=True):
    """What is never taken away."""

    what: str
    where: str
    bytes: int = 0


def text(remains: Sequence[Remain], always: Sequence[Always], *, done: bool) -> str:
    """What goes (``done``: went), then what is kept, a line for all of one kind in one place for one reason."""
    going = [one for one in remains if not one.why]
    lines = [f"{'Removed' if done else 'Would go'}: {_sum(going)}" if going else "Nothing to remove."]
    lines += _grouped(going)
    lines.append("Kept:")
    lines += [f"  {one.what}{_sized(one.bytes)}, in {clean(one.where)}" for one in always]
    lines += _grouped([one for one in remains if one.why])
    return "\n".join(lines)


def size(amount: int) -> str:
    """``0 B``, ``12.0 kB``, ``3.4 MB``, ``1.2 GB``."""
    for unit, bytes in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if amount >= bytes:
            return f"{amount / bytes:.1f} {unit}"
    return f"{amount} B"


def _sum(them: Iterable[Remain]) -> str:
    found = list(them)
    return f"{counted(len(found), 'thing')}, {size(sum(one.bytes for one in found))}"


def _grouped(them: Sequence[Remain]) -> list[str]:
    groups: dict[tuple[str, str, str], list[Remain]] = {}
    for one in sorted(them, key=lambda one: list(KINDS).index(one.kind)):
        groups.setdefault((one.kind, one.why, one.where), []).append(one)
    lines = []
    for (kind, why, where), found in groups.items():
        names = ", ".join(clean(one.name) for one in found[:NAMED])
        more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
        said = f"  {counted(len(found), *KINDS[kind])}{_sized(sum(one.bytes for one in found))}"
        lines.append(f"{said}: {names}{more}" + (f"; {clean(why)}" if why else ""))
        lines.append(f"    in {clean(where)}")
    return lines


def _sized(amount: int) -> str:
    return f" ({size(amount)})" if amount else ""
