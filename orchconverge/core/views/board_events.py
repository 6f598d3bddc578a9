"""What happened, as an overview tells it: facts of one wave in one line, so that a mind adds none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from orchconverge.core.happened import Event
from orchconverge.core.views.text import counted

_BEGINS: Final = frozenset(("attempt.started", "basin.opened", "branch.spawned", "branch.searching"))
_ENDS: Final = frozenset(("branch.ended", "branch.candidate", "branch.failed"))
_ALIKE: Final = {"branch.pruned": "pruned", "branch.reconciled": "reconciled"}


def together(events: Sequence[Event], *, whole: bool = False) -> list[Event]:
    """The same events, newest first as they come; what of a basin begins, or ends, one wave is one, its newest.

    Unless they are the ``whole`` of what is told, more of each basin's oldest wave may be out of sight, and is not counted.
    """
    groups: list[list[Event]] = []
    newest: dict[str | None, list[Event]] = {}
    for event in events:
        group = newest.get(event.basin)
        if group is None or _wave(event) != _wave(group[0]):
            group = newest[event.basin] = []
            groups.append(group)
        group.append(event)
    oldest = [] if whole else [id(group) for group in newest.values()]
    return [_one(group, more=" or more" if id(group) in oldest else "") for group in groups]


def _wave(event: Event) -> str:
    """What tells waves apart, for neighbours of one basin."""
    if event.type in _BEGINS or event.type in _ENDS:
        return "begins" if event.type in _BEGINS else "ends"
    return event.type if event.type in _ALIKE else str(event.seq)


def _one(group: Sequence[Event], *, more: str) -> Event:
    """One event that stands for neighbours. Its number and time are the newest's. ``more``: what is said behind a count."""
    newest = group[0]
    counts = {kind: sum(one.type == kind for one in group) for kind in {one.type for one in group}}
    if len(group) == 1:
        return newest
    if newest.type in _BEGINS:
        started = next((one for one in group if one.type == "attempt.started"), None)
        minds = max(counts.get("branch.spawned", 0), counts.get("branch.searching", 0))
        if started is None:  # out of sight, and so may be some of the minds
            return newest if minds < 2 else replace(newest, what="minds searching", detail="")
        said = f", {minds} minds" if minds > 1 else ""
        return replace(newest, what=started.what, detail=f"{started.detail}{said}")
    if newest.type in _ENDS:
        candidates, failed = counts.get("branch.candidate", 0), counts.get("branch.failed", 0)
        ended = max(counts.get("branch.ended", 0), candidates + failed)
        if ended == 1:
            return next((one for one in group if one.type != "branch.ended"), newest)
        if more:
            return replace(newest, what=f"{ended}{more} minds ended", detail="")
        ends = [counted(candidates, "candidate")] if candidates or not failed else []
        ends += [f"{failed} without a candidate"] if failed else []
        return replace(newest, what=f"{ended} minds ended", detail=", ".join(ends) if candidates + failed else "")
    return replace(newest, what=f"{len(group)}{more} {_ALIKE[newest.type]}", detail=newest.detail)
