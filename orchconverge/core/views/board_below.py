"""What stands below the basins of the overview: the lock, open questions, events, and the criteria of the selected one."""

from __future__ import annotations

from typing import Final

from orchconverge.core.matrix import Cell
from orchconverge.core.shown import BasinShown, CriterionShown, Projection, Queued
from orchconverge.core.views.board_events import together
from orchconverge.core.views.board_rows import NARROW, ROOMY
from orchconverge.core.views.card import EMPTY
from orchconverge.core.views.compare import SIGNS
from orchconverge.core.views.lines import BOLD, DIM, GREEN, Look, Piece, drawn, folded, padded, plain, rule
from orchconverge.core.views.text import age, cells, clip, clock, counted, duration

NAME: Final = 9
"""Cells of a name, as many as those of the rows above, at least."""
WHAT: Final = 24
_ANSWERS: Final[dict[str | None, tuple[Cell, str]]] = {
    "yes": ("met", "met"),
    "no": ("unmet", "not met"),
    "error": ("unknown", "cannot run"),
    "unstable": ("unknown", "unstable"),
    "unknown": ("unknown", "unknown"),
    None: ("unknown", "not run"),
}


def lock(shown: Projection, look: Look, *, most: int) -> list[str]:
    """The queue at the lock in at most ``most`` lines and its heading; one line where it is empty and there is no room."""
    queue = shown.lock.queue
    if not queue:
        if most < 3:
            return [rule("LOCK", "empty", look)]
        return [rule("LOCK", "", look), drawn([(f"   {EMPTY}", DIM)], look)]
    kept = most if len(queue) <= most else most - 1
    wide = _widest([one.branch for one in queue[:kept]], look)
    adds = max(15, max(cells(_adds(one)) for one in queue[:kept]) + 2)
    lines = [rule("LOCK", f"into {shown.lock.target}, first in, first out", look)]
    for place, one in enumerate(queue[:kept]):
        lines.append(_queued(one, place, shown, look, wide, adds))
    if len(queue) > kept:
        lines.append(drawn([(f"       {len(queue) - kept} more", DIM)], look))
    return lines


def _queued(one: Queued, place: int, shown: Projection, look: Look, wide: int, adds: int) -> str:
    basin = shown.basin(one.basin)
    whole = basin.required if basin is not None else 0
    word, code = (("now", BOLD), ("next", DIM), ("", DIM))[min(place, 2)]
    since = "" if one.since is None else f"waits {age((shown.as_of - one.since).total_seconds())}"
    name = padded(one.branch, wide, look)
    pieces: list[Piece] = [(f" {word:<6}", code), name if place else (name, BOLD)]
    pieces += [f"{f'meets {one.met}/{whole}':<11} ", padded(_adds(one), adds, look), (since, DIM)]
    how = "   l opens the review card" if look.keys else f"   orchconverge lock {one.basin}"
    if not place and sum(cells(plain(piece)) for piece in pieces) + cells(how) <= look.width:
        pieces.append((how, DIM))
    return drawn(pieces, look).rstrip()


def _adds(one: Queued) -> str:
    loses = f", loses {one.loses}" if one.loses else ""
    return f"adds {one.adds}{loses}" + (f", {counted(len(one.flags), 'flag')}" if one.flags else "")


def frontier(shown: Projection, look: Look, *, most: int) -> list[str]:
    """Open questions in at most ``most`` lines and a heading; nothing where there is none."""
    asked = shown.frontier
    if not asked or most < 1:
        return []
    wide = _widest([one.basin or "" for one in asked[:most]], look)
    rows = []
    for one in asked:
        pieces: list[Piece] = [" ? ", (padded(one.basin or "", wide, look), BOLD), one.question]
        rows.append(drawn([*pieces, (f"   from {one.origin}" if look.width >= ROOMY else "", DIM)], look))
    kept = most if len(asked) <= most else most - 1
    more = [drawn([(f"   {len(asked) - kept} more", DIM)], look)] if len(asked) > kept else []
    return [rule("FRONTIER", counted(len(asked), "open question"), look), *rows[:kept], *more]


def events(shown: Projection, look: Look, *, most: int, questions: bool) -> list[str]:
    """The newest events, as many lines and a heading; nothing where there is none. ``questions``: those too."""
    told = [one for one in together(shown.events) if questions or one.type != "frontier.added"][:most]
    if not told:
        return []
    exact = look.width >= ROOMY
    times = [clock(one.at, shown.local, seconds=exact) if one.at is not None else "" for one in told]
    wide = _widest([one.basin or "" for one in told], look)
    what = max(WHAT, min(look.width // 3, max(cells(one.what) for one in told)))
    ages = max(map(cells, times))
    lines = [rule("EVENTS", "newest first", look)]
    for one, at in zip(told, times, strict=True):
        pieces: list[Piece] = [(f" {at:<{ages}}  ", DIM), (padded(one.basin or "", wide, look), BOLD)]
        pieces += [f"{padded(one.what, what, look)} ", (one.detail, DIM)] if look.width >= NARROW else [one.what]
        lines.append(drawn(pieces, look).rstrip())
    return lines


def criteria(basin: BasinShown, look: Look, *, most: int) -> list[str]:
    """What decides on a basin, and the newest answer to it: not met first, then met, in at most ``most`` lines with heading."""
    found = sorted(basin.criteria, key=lambda one: one.met == "yes")
    if not found or most < 2:
        return []
    wide = min(24, max(cells(one.name) for one in found))
    names = [one.name for one in found]
    rows = folded([_criterion(one, look, wide) for one in found], names, most - 1, look)
    head = basin.target.head
    at = f"on {basin.target.ref}" + (f" at {head:.7}" if head else ", not checked yet")
    return [rule(f"{clip(basin.id, 24)}: CRITERIA", at, look), *rows]


def _criterion(one: CriterionShown, look: Look, wide: int) -> str:
    cell, word = _ANSWERS[one.met]
    sign = SIGNS[cell][look.ascii]
    asked, tail = one.asked, one.evidence.tail if one.evidence is not None and one.met != "yes" else ""
    took = duration(one.evidence.seconds) if one.evidence is not None else ""
    pieces: list[Piece] = [" ", (sign, GREEN) if one.met == "yes" else sign, " "]
    pieces += [(padded(one.name, wide, look), "" if one.met == "yes" else BOLD), f"  {word:<10} ", (f"{took:<8}", DIM)]
    by = f"by {one.first_met_by}" if one.first_met_by is not None else ""
    pieces += [(padded(by, 14, look), DIM)] if look.width >= ROOMY else []
    more = "" if one.required else " (optional)"
    more += " (final steps)" if one.stage == "chain" else ""
    return drawn([*pieces, (f"{asked}{more}", DIM), f"  {tail}" if tail else ""], look).rstrip()


def _widest(names: list[str], look: Look) -> int:
    most = 12 if look.width < NARROW else 20 if look.width < ROOMY else 32
    return 1 + min(most, max(NAME - 1, *(cells(name) for name in names), 0))
