"""The overview of all goals as a frame of lines: what needs a person first, then every basin, then what waits and happened."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from orchconverge.core.shown import BasinShown, Projection
from orchconverge.core.standing import GROUPS, PHASES
from orchconverge.core.views import board_below
from orchconverge.core.views.board_rows import MARK, NARROW, ROOMY, WIDE, Drawn, rows
from orchconverge.core.views.destination_matrix import HEADING, NAME, Candidates, reading, table
from orchconverge.core.views.lines import (
    BOLD,
    DIM,
    TAG,
    Look,
    Piece,
    bare,
    beside,
    cut,
    drawn,
    folded,
    keyed,
    plain,
    wrapped,
)
from orchconverge.core.views.text import age, cells, clean, clip, counted, to_ascii

LEAST: Final = (40, 12)
"""Cells and lines below which nothing is drawn."""
SHORT, TALL, VAST = 18, 30, 50
"""From so many lines on: lock and events; open questions and blank lines; more of each."""
SMALL: Final = ("Too small to draw.", "orchconverge status")
NOTHING: Final = "No destination yet."
BEGIN: Final = 'orchconverge "what should be true when it is done"'
KEYS: Final = (
    ("n", "needs you"),
    ("enter", "open"),
    ("l", "lock"),
    ("t", "timeline"),
    ("g", "graph"),
    ("?", "keys"),
    ("q", "quit"),
    ("/", "filter"),
    ("f", "frontier"),
    ("e", "events"),
    ("c", "copy the command"),
    ("space", "hold still"),
    ("a", "attach"),
)
"""By how much they are wanted: the last ones go where there is no room."""
MATRIX: Final = 6
"""Lines below which a matrix says nothing."""
LITTLE: Final = 3
"""Criteria below which a list of more of them says nothing."""
_GAP: Final = 3


class Chosen(NamedTuple):
    """What a person chose: the id of a basin, a filter, and the words ``held 14:23:07, 12 newer`` where the frame is held."""

    selected: str | None = None
    filter: str = ""
    held: str = ""


class Frame(NamedTuple):
    """Lines, and the index of each line on which a basin is drawn -> its id."""

    lines: tuple[str, ...]
    rows: Mapping[int, str]


def order(shown: Projection, *, filter: str = "") -> tuple[str, ...]:
    """The ids of basins in the order drawn, also of those that are folded.

    ``filter`` is a part of the id, or of the destination; ``phase:waiting`` a part of the phase or of the group.
    """
    return tuple(one.id for one in _filtered(shown, filter))


def _filtered(shown: Projection, filter: str) -> list[BasinShown]:
    wanted = clean(filter).casefold()
    kind, colon, value = wanted.partition(":")
    if colon and kind == "phase":
        return [one for one in shown.basins if value in one.phase.casefold() or value in one.group]
    return [one for one in shown.basins if wanted in one.id or wanted in one.macrostate.casefold()]


def selected(shown: Projection, chosen: Chosen) -> str | None:
    """The basin that is chosen; where none is, the one of what needs a person first, else the first."""
    found = _selected(_filtered(shown, chosen.filter), shown, chosen.selected)
    return found.id if found is not None else None


def board(
    shown: Projection,
    look: Look,
    *,
    repo: str,
    chosen: Chosen = Chosen(),  # noqa: B008 - frozen
    compared: Candidates | None = None,
) -> Frame:
    """The frame, never wider nor higher than ``look``; with ``look.keys`` exactly as high, the keys on its last line.

    ``compared`` are the candidates of the selected basin: who meets what is drawn where there is room, else its criteria.
    """
    if look.width < LEAST[0] or look.height < LEAST[1]:
        said = [" ".join(SMALL)] if cells(" ".join(SMALL)) <= look.width else SMALL
        small = [line for each in said for line in wrapped(each, look, indent=0, first=0)]
        return Frame(tuple(small[: look.height]), MappingProxyType({}))
    basins = _filtered(shown, chosen.filter)
    marked = _selected(basins, shown, chosen.selected)
    above: list[Drawn] = [(line, None) for line in top(shown, look, clean(repo), chosen, len(basins))]
    foot = [keyed(KEYS, look)] if look.keys else []
    room = look.height - len(above) - len(foot)
    parts = _parts(shown, look)
    taken = sum(map(len, parts))
    middle = _middle(basins, shown, look, room - taken, marked)
    if marked is not None and look.width >= NARROW and room - taken - len(middle) > 2:
        panel = _panel(marked, shown, look, compared, room - taken - len(middle) - 1)
        middle += [("", None), *((line, None) for line in panel)] if panel else []
    below = _spaced(parts, room - taken - len(middle))
    body = [*above, *middle, *((line, None) for line in below)][: look.height - len(foot)]
    body += [("", None)] * (look.height - len(foot) - len(body) if look.keys else 0)
    lines = (*(line for line, _ in body), *foot)
    return Frame(lines, MappingProxyType({place: name for place, (_, name) in enumerate(body) if name is not None}))


def _selected(basins: list[BasinShown], shown: Projection, name: str | None) -> BasinShown | None:
    """The basin of this name; without one the basin of what needs a person first; else the first."""
    first = shown.needs_you[0].basin if shown.needs_you and name is None else None
    return next((one for one in basins if one.id == (name or first)), basins[0] if basins else None)


def unreadable(why: str, then: str, look: Look, *, repo: str) -> Frame:
    """The frame where the ledger cannot be read: ``why`` in the words of the machine, ``then`` which file, and what to do."""
    said = f"Cannot read the ledger: {clean(why)}. Nothing is shown, because nothing is known."
    lines = [drawn([" ", (clean(repo), BOLD)], look), *wrapped(said, look, code=BOLD), *wrapped(clean(then), look)]
    return Frame(tuple(lines[: look.height]), MappingProxyType({}))


def notes(shown: Projection) -> list[str]:
    """What is odd about the ledger, in a sentence each, unless it is the first thing that needs a person."""
    ledger, said = shown.ledger, []
    odd = ledger.bad + ledger.illegal
    if odd and not (shown.needs_you and shown.needs_you[0].kind == "ledger"):
        are = "is" if odd == 1 else "are"
        said.append(f"{odd} of {counted(ledger.lines, 'line')} {are} damaged and skipped. orchconverge ledger verify")
    if ledger.unknown:
        are = "is" if ledger.unknown == 1 else "are"
        said.append(f"{counted(ledger.unknown, 'event')} {are} of a newer version and {are} kept, not shown.")
    return said


# --- the top ---------------------------------------------------------------------------------------------------------


def top(shown: Projection, look: Look, repo: str, chosen: Chosen, matching: int) -> list[str]:
    """The first lines of every screen; ``matching`` basins are let through by the filter. ``repo`` is clean."""
    lines = [_header(shown, look, repo, chosen), *_strip(shown, look)]
    lines += [line for note in notes(shown) for line in wrapped(note, look, code=BOLD)]
    if chosen.filter:
        said = f" /{clean(chosen.filter)}   {matching} of {len(shown.basins)}   esc shows all"
        lines.append(drawn([(said, BOLD)], look))
    return [*lines, ""] if look.height >= TALL else lines


def _header(shown: Projection, look: Look, repo: str, chosen: Chosen) -> str:
    now = chosen.held or f"{shown.local:%H:%M:%S}"
    counts = _counts(shown, look) if shown.basins else []
    wide = look.width >= NARROW and bool(shown.basins)
    rights = [f"{_minds(shown)}   {chosen.held or _dated(shown, look, now)} "] if wide else []
    short = cut(repo, 8, look)
    for name, right in [(cut(repo, max(8, look.width // 4), look), each) for each in (*rights, f"{now} ")] + [
        (short, "")
    ]:
        pieces: list[Piece] = [" ", (name, BOLD), "   " if wide else "  ", *counts]
        if sum(cells(plain(piece)) for piece in pieces) + cells(right) + 2 <= look.width:
            break
    return drawn(pieces, look, right=(right, BOLD if chosen.held else DIM))


def _counts(shown: Projection, look: Look) -> list[Piece]:
    """How many things need a person, and how many basins are in each of the other groups."""
    counts = [len(shown.needs_you), *(sum(one.group == group for one in shown.basins) for group in GROUPS[1:])]
    found = list(zip(GROUPS, counts, (BOLD if counts[0] else "", "", "", DIM), strict=True))
    if look.width < NARROW:
        signs = {sign.group: (sign.glyph, sign.ascii)[look.ascii] for sign in reversed(tuple(PHASES.values()))}
        return [" ".join(f"{signs[group]}{count}" for group, count, _ in found if count)]
    pieces: list[Piece] = []
    for group, count, code in found:
        if count or group in GROUPS[:2]:
            said = f"{count} {'needs you' if group == GROUPS[0] and count == 1 else group}"
            pieces += [(", " if look.ascii else " · ", DIM)] if pieces else []
            pieces.append((said, code) if code else said)
    return pieces


def _minds(shown: Projection) -> str:
    running, unknown = sum(one.minds.running for one in shown.basins), sum(one.minds.unknown for one in shown.basins)
    return counted(running, "mind") + (f", {unknown} not known" if unknown else "")


def _dated(shown: Projection, look: Look, now: str) -> str:
    newest = shown.events[0].at if shown.events else None
    if look.width < ROOMY or newest is None:
        return now
    ago = age((shown.as_of - newest).total_seconds())
    return f"newest event {ago}{'' if ago == 'now' else ' ago'}   {now}"


def _strip(shown: Projection, look: Look) -> list[str]:
    """The first thing read, two lines where they fit: what needs a person, and the command, which is never cut."""
    if not shown.needs_you:
        return _nothing(shown, look)
    need, *others = shown.needs_you
    count = f" 1 of {len(shown.needs_you)}" if others else ""
    tag = f" NEEDS YOU{count} " if look.colour else f"[NEEDS YOU{count}]"
    waiting = "" if need.since is None else f"waiting {age((shown.as_of - need.since).total_seconds())}"
    at = cells(tag) + 2
    if look.width < NARROW or at + max(cells(need.sentence), cells(need.command)) > look.width:
        first = drawn([(tag, TAG), (f"  {waiting}", DIM)], look).rstrip()
        return [first, *wrapped(need.sentence, look, code=BOLD), *wrapped(need.command, look, code=BOLD)]
    second: list[Piece] = [" " * at, (need.command, BOLD)]
    if waiting and at + cells(need.command) + 3 + cells(waiting) <= look.width:
        second.append((f"   {waiting}", DIM))
    if others and look.width >= ROOMY:
        second.append((f"   then: {others[0].sentence}", DIM))
    return [drawn([(tag, TAG), "  ", (need.sentence, BOLD)], look), drawn(second, look)]


def _nothing(shown: Projection, look: Look) -> list[str]:
    """The same place, where nothing needs a person: what comes next by itself, or how to begin or go on."""
    said, then, command = calm(shown)
    mark = " |" if look.ascii else " ▏"
    first = drawn([(f"{mark} ", DIM), (said, BOLD)], look)
    if look.width < NARROW or cells(said) + 3 > look.width:
        lines = wrapped(said, look, code=BOLD)
        return [*lines, *(wrapped(then, look, code=BOLD if command else DIM) if command else [])]
    return [first, drawn([(f"{mark} ", DIM), (then, BOLD if command else DIM)], look).rstrip()]


def calm(shown: Projection) -> tuple[str, str, bool]:
    """What is said where nothing needs a person: a sentence, one more, and whether that is a command."""
    if not shown.basins:
        return NOTHING, BEGIN, True
    quiet = "Nothing needs you."
    alive = [one for one in shown.basins if one.group != GROUPS[-1]]
    idle = [one for one in alive if one.waits_for.kind in ("open", "resume", "limit", "you")]
    unknown = next((one for one in alive if one.waits_for.kind == "controller"), None)
    goes_on = (
        "Everything below goes on by itself." if not idle else f"{idle[0].id} does not; the others go on by themselves."
    )
    goes_on = "Unknown changes nothing." if unknown is not None else goes_on
    coming = shown.next_event
    if coming.what is not None and coming.at is not None:
        what, latest = coming.what.removesuffix(" at the latest"), coming.what.endswith(" at the latest")
        left = age((coming.at - shown.as_of).total_seconds())
        when = "in under a minute" if left == "now" else f"in {left}"
        return f"{quiet} Next: {what} {when}{' at the latest' if latest else ''}.", goes_on, False
    if unknown is not None:
        return f"{quiet} {unknown.id}: {unknown.waits_for.what}.", goes_on, False
    moving = next((one for one in alive if one not in idle), None)
    if moving is not None:
        return f"{quiet} {moving.id} waits for {moving.waits_for.what}.", goes_on, False
    if idle and idle[0].waits_for.kind == "open":
        return f"{idle[0].id} is declared, nothing runs.", f"orchconverge open {idle[0].id}", True
    if idle:
        return f"{quiet} {idle[0].id} is stopped, nothing runs.", f"orchconverge resume {idle[0].id}", True
    counts = [(sum(one.phase == phase for one in shown.basins), phase.lower()) for phase in ("CONVERGED", "KILLED")]
    ended = ", ".join(f"{count} {word}" for count, word in counts if count)
    return f"Nothing needs you and nothing runs. {ended}.", "", False


# --- the rest --------------------------------------------------------------------------------------------------------


def _middle(
    basins: list[BasinShown], shown: Projection, look: Look, room: int, selected: BasinShown | None
) -> list[Drawn]:
    """The basins, and what of the selected one had no room in its row."""
    if not basins or selected is None:
        return [(drawn([("   Nothing matches.", DIM)], look), None)] if shown.basins else []
    found = rows(basins, shown, look, room=room, selected=selected.id)
    seen = " ".join(bare(line) for line, name in found if name == selected.id)
    for text in (selected.macrostate, f"waits for {selected.waits_for.what}"):
        left = room - len(found)
        if left > 0 and (to_ascii(text) if look.ascii else text).removeprefix("waits for ") not in seen:
            told = wrapped(text, look, indent=3, first=3, most=min(2, left))
            found += [(f"{MARK[look.ascii]}{told[0][1:]}", None), *((line, None) for line in told[1:])]
    return found


def _panel(basin: BasinShown, shown: Projection, look: Look, compared: Candidates | None, most: int) -> list[str]:
    """What is known of one basin in at most so many lines: who meets what where candidates wait, else its criteria."""
    if compared is None or compared.matrix.basin != basin.id or not compared.rows or most < MATRIX:
        return board_below.criteria(basin, look, most=most) if most > min(LITTLE, len(basin.criteria)) else []
    matrix = table(shown, basin, compared, None, None, look, heading=f"{clip(basin.id, NAME)}: {HEADING}")
    words = [line for sentence in reading(basin, compared, look) for line in sentence]
    room = most - len(matrix.above) - len(matrix.below)
    found = folded(list(matrix.rows.values()), list(matrix.rows), room, look)
    words = words if len(found) + len(words) <= room else []
    return [*matrix.above, *found, *matrix.below, *words][:most]


def _parts(shown: Projection, look: Look) -> list[list[str]]:
    """Lock, open questions and events, by the height; side by side where there is the width."""
    if look.height < SHORT or not shown.basins:
        return []
    queue, asked, told = (2, 0, 3) if look.height < TALL else (3, 3, 6) if look.height < VAST else (4, 3, 11)
    if look.width < WIDE or not asked:
        parts = [
            board_below.lock(shown, look, most=queue),
            board_below.frontier(shown, look, most=asked),
            board_below.events(shown, look, most=told, questions=not asked),
        ]
        return [part for part in parts if part]
    wide = look.width * 46 // 100
    left = board_below.lock(shown, look._replace(width=wide), most=queue)
    questions = board_below.frontier(shown, look._replace(width=wide), most=asked)
    left += ["", *questions] if questions else []
    right_look = look._replace(width=look.width - wide - _GAP)
    right = board_below.events(shown, right_look, most=max(told, len(left) - 1), questions=False)
    return [beside(left, right, at=wide + _GAP)]


def _spaced(parts: list[list[str]], spare: int) -> list[str]:
    """The parts, as long as there is room with a blank line before each."""
    out: list[str] = []
    for part in parts:
        out += [""] if spare > 0 else []
        spare -= 1
        out += part
    return out
