"""The review card as text, in the order of deciding: right target, gains and losses, what could hurt, what is given up."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime
from pathlib import PurePath
from typing import Final

from orchconverge.core.card import Card, Clause, Other, Proposed
from orchconverge.core.risks import LOOKED_FOR, Risk
from orchconverge.core.values import Evidence
from orchconverge.core.views.compare import SIGNS
from orchconverge.core.views.lines import (
    BOLD,
    DIM,
    GREEN,
    NARROW,
    RED,
    TAG,
    Look,
    Piece,
    cut,
    drawn,
    folded,
    listed,
    most_of,
    plain,
    rooms,
    rule,
    spread,
    wrapped,
)
from orchconverge.core.views.text import age, cells, clean, counted, duration, tail, to_ascii

LINES: Final = 24
"""What is decisive is within so many lines where 80 cells or more are there; the rest is folded and named."""
WIDE: Final = 110
"""From so many cells on there is room for approaches, times and commands."""
TAKES: Final = 3
"""So many parts of a proposal are said in its sentence. More are counted there, and numbered below it."""
EXCERPT: Final = 2048
"""Bytes of an output, from its end."""
EMPTY: Final = "empty. The next candidate will wait here for you."
_NAMES: Final = {"ci": "CI", "criterion": "what judges it"}
"""Kinds whose own word would not be understood."""
_UNTOUCHED: Final = {
    "criterion": "criteria",
    "test removed": "removed tests",
    "agent instructions": "agents",
    "settings of the run": "settings",
    "secret": "secrets",
    "test skipped": "skips",
    "fewer assertions": "assertions",
    "permission": "modes",
    "link": "links",
    "submodule": "submodules",
    "binary": "binaries",
}
"""What they are called where many are listed."""
_COLOURS: Final = {"met": GREEN, "gained": GREEN, "only": GREEN, "lost": RED}


def card(shown: Card, look: Look, *, now: datetime, off: Collection[int] = ()) -> str:
    """The whole card. ``off`` are numbers of parts of the proposal that are turned off."""
    look = look._replace(width=max(40, look.width))
    for calm in (2, 1, 0):
        lines, whole = _drawn(shown, look, now, off, calm=calm)
        if whole or look.width < NARROW:
            break
    text = "\n".join(lines)
    return to_ascii(text) if look.ascii else text


def _drawn(shown: Card, look: Look, now: datetime, off: Collection[int], *, calm: int) -> tuple[list[str], bool]:
    """The lines, and whether no row was folded. ``calm`` is how much room (2 to 0) is given to what decides nothing.

    What is untouched then comes last, if there is room below `LINES`, else it is counted.
    """
    top = [*_head(shown, look, now, calm), *_short(shown, look), *_proposal(shown, look, off), *_first(shown, look)]
    bare = _untouched(shown, look)
    below = bare if calm < 2 and LINES + len(bare) <= look.height else []
    bare = bare if calm == 2 else []
    change = [rule("CHANGE", _files(shown, told=bool(bare or below)), look), *_change(shown, look, calm)]
    verbs = [rule("", "", look), *_verbs(shown, look, off)]
    apart = [clause for clause in shown.criteria if not _unchanged(clause)]
    wide = min(24, max((cells(clause.criterion) for clause in apart), default=0))
    lists = [
        ([_clause(clause, look, wide) for clause in apart], [clause.criterion for clause in apart]),
        ([_risk(risk, look) for risk in shown.risks], [f"{risk.kind} {risk.path}" for risk in shown.risks]),
        ([_other(other, shown, look) for other in shown.others], [other.branch for other in shown.others]),
    ]
    same = _same(shown, look)
    taken = len(top) + len(change) + len(verbs) + len(same) + len(bare) + 1 + bool(shown.others)
    wanted = [len(rows) for rows, _ in lists]
    given = rooms(wanted, max(3 if look.width >= NARROW else 9, LINES - taken))
    criteria, risks, others = (folded(*both, room, look) for both, room in zip(lists, given, strict=True))
    lines = [*top, rule("CRITERIA", "tip, this, evidence", look), *criteria, *same, *change, *risks, *bare]
    if shown.others:
        lines += [rule("THE OTHERS", "what is lost by taking this one", look), *others]
    return [*lines, *verbs, *below], given == wanted


# --- the top ---------------------------------------------------------------------------------------------------------


def _head(shown: Card, look: Look, now: datetime, calm: int) -> list[str]:
    tag = " LOCK " if look.colour else "[LOCK]"
    pieces: list[Piece] = [(tag, TAG), "  ", (shown.branch, BOLD)]
    if look.width >= WIDE and shown.approach:
        pieces.append(f"  {cut(shown.approach, 36, look)}")
    at = f" at {shown.tip:.7}" if shown.tip else ", not checked yet"
    since = f", {age((now - shown.since).total_seconds())}" if shown.since is not None else ""
    right = f"{shown.position} of {shown.waiting} waiting{since}"
    into = f"  into {shown.target}{at}"
    fits = sum(map(cells, map(plain, pieces))) + cells(into) + cells(right) + 2 <= look.width
    lines = [drawn([*pieces, into], look, right=right)] if fits else [drawn(pieces, look, right=right)]
    lines += [] if fits else wrapped(into.strip(), look)
    lines += wrapped(shown.macrostate, look, code=BOLD, most=most_of(look, max(1, calm)))
    if shown.target_head is not None and shown.tip is not None and shown.target_head != shown.tip:
        moved = f"{shown.target} moved ({shown.tip:.7} to {shown.target_head:.7})."
        lines += wrapped(f"{moved} {shown.branch} will be checked again on it.", look, most=most_of(look, 1))
    elif shown.target_head is None:
        lines += wrapped(f"The branch {shown.target} is gone: nothing can be admitted.", look)
    return lines


def _short(shown: Card, look: Look) -> list[str]:
    adds = f"Adds {counted(len(shown.gains), 'criterion', 'criteria')}" if shown.gains else "Gains no criterion"
    loses = f"loses {', '.join(shown.losses)}" if shown.losses else "loses none"
    said = f"{adds}, {loses}: {shown.before}/{shown.whole} to {shown.after}/{shown.whole}."
    if shown.waiting > 1:
        more = shown.more_is_met_by
        said += f" {more} meets more." if more is not None else " No other candidate meets more."
    lines = wrapped(said, look, code=BOLD, most=most_of(look, 2))
    if shown.refused:
        lines += wrapped(f"Refused on this tip before: {shown.refused}", look, most=most_of(look, 1))
    return lines


def proposed(proposal: Proposed, whole: int, before: int, *, off: Collection[int] = ()) -> str:
    """The proposal in a sentence."""
    on = [part for part in proposal.parts if part.number not in off]
    grafts = [f"graft {part.branch}" for part in on if part.criterion is None]
    takes = [f"{part.criterion} from {part.branch}" for part in on if part.criterion is not None]
    takes = takes if len(takes) <= TAKES else [counted(len(takes), "part")]
    said = ", ".join([*grafts, *([f"take {', '.join(takes)}"] if takes else [])]) or "nothing"
    refused = f"   {counted(len(proposal.refused), 'part')} refused" if proposal.refused else ""
    if off:
        return f"{said}: {len(off)} turned off, what is left is gated anew{refused}"
    return f"{said}: {before}/{whole} to {proposal.met}/{whole}, gate passed on {proposal.head:.7}{refused}"


def _proposal(shown: Card, look: Look, off: Collection[int]) -> list[str]:
    if shown.proposal is None:
        if not shown.proposable:
            why = "what is flagged is admitted by itself" if shown.flags else "nothing that waits gains a criterion"
            return wrapped(f"No proposal: {why}.", look)
        how = "a makes it" if look.keys else f"orchconverge lock {shown.basin} --accept makes and takes it"
        return wrapped(f"No proposal for this tip yet: {how}.", look)
    lines = wrapped(
        f"p1  {proposed(shown.proposal, shown.whole, shown.before, off=off)}", look, indent=5, most=most_of(look, 2)
    )
    parts = []
    for part in shown.proposal.parts:
        what = f"graft {part.branch}" if part.criterion is None else f"{part.criterion} of {part.branch}"
        gains = f" +{len(part.gains)}" if part.gains else ""
        flags = f", {counted(len(part.flags), 'flag')}" if part.flags else ""
        parts.append(f"{part.number} {what}{gains}{flags}" + (" off" if part.number in off else ""))
    if look.width >= WIDE:
        parts += [f"refused {cut(one, 40, look)}" for one in shown.proposal.refused]
    return [*lines, *spread(parts, look, indent=5, most=2)]


def _first(shown: Card, look: Look) -> list[str]:
    if shown.changes is None:
        return wrapped("Look at first: its commits are not in this repository.", look)
    flagged = [risk for risk in shown.risks if risk.flagged] or list(shown.risks[:3])
    if not flagged:
        return wrapped("Look at first: nothing is flagged.", look)
    kinds = list(dict.fromkeys(_name(risk.kind) for risk in flagged))
    said = ", ".join(kinds)
    asks = f" ({counted(len(shown.flags), 'flag')})" if shown.flags else " (not flagged)"
    return wrapped(f"Look at first: {said}{asks}", look, most=most_of(look, 2))


# --- criteria --------------------------------------------------------------------------------------------------------


def _unchanged(clause: Clause) -> bool:
    return clause.tip == "met" and clause.this in ("met", "unmet", "unknown")


def _clause(clause: Clause, look: Look, wide: int) -> str:
    name = cut(clause.criterion, wide, look)
    end = f"exit {clause.exit}" if clause.exit is not None else "no exit" if clause.this != "unknown" else "not run"
    pieces: list[Piece] = ["  ", sign(clause.tip, look), " ", sign(clause.this, look), "  "]
    pieces += [(name, BOLD), " " * (wide - cells(name)), f"  {end:<8}"]
    if look.width >= WIDE:
        took = duration(clause.seconds) if clause.seconds is not None else ""
        line = cut(clause.line, 40, look)
        pieces += [f"{took:<8}", line, " " * (42 - cells(line)), (clause.asked, DIM)]
    else:
        pieces.append(clause.line or (clause.asked, DIM))
    return drawn(pieces, look)


def sign(cell: str, look: Look) -> Piece:
    """How a cell of `matrix` is drawn."""
    drawn_as = SIGNS[cell][1 if look.ascii else 0]  # type: ignore[index]
    return (drawn_as, _COLOURS[cell]) if cell in _COLOURS else drawn_as


def _same(shown: Card, look: Look) -> list[str]:
    """What the tip has in any case, in one line each: met here too, and what the target got since this one began."""
    kept = [clause.criterion for clause in shown.criteria if clause.tip == "met" and clause.this == "met"]
    since = [clause.criterion for clause in shown.criteria if _unchanged(clause) and clause.this != "met"]
    said = [f"{len(kept)} met before and still met: {', '.join(kept)}"] if kept else []
    said += [f"{len(since)} met on the tip since it began: {', '.join(since)}"] if since else []
    return [drawn([" " * 7, (line, DIM)], look) for line in said]


# --- the change ------------------------------------------------------------------------------------------------------


def _files(shown: Card, *, told: bool) -> str:
    only = f", only here: {len(shown.only)}" if shown.waiting > 1 else ""
    bare = f", {len(shown.untouched)} of {len(LOOKED_FOR)} kinds of risk untouched" if not told else ""
    return f"{counted(shown.files, 'file')}{only}{bare if shown.changes is not None else ''}"


def _change(shown: Card, look: Look, calm: int) -> list[str]:
    kinds = [f"{_name(one.kind)} {one.files} +{one.added} -{one.removed}" for one in shown.changes or ()]
    tests, said = shown.tests, []
    said += [f"{counted(tests.files_added, 'test file')} added"] if tests.files_added else []
    said += [f"{counted(tests.files_deleted, 'test file')} deleted"] if tests.files_deleted else []
    said += [f"{counted(tests.cases_added, 'test')} more"] if tests.cases_added else []
    gone = ", ".join(tests.cases_gone[:3])
    said += [f"{counted(len(tests.cases_gone), 'test')} gone: {gone}"] if tests.cases_gone else []
    lines = spread([*kinds, *said], look, indent=1, most=2)
    if shown.only and shown.waiting > 1 and calm:
        lines.append(drawn([" only here ", (listed(shown.only, look.width - 12), DIM)], look))
    return lines


def _risk(risk: Risk, look: Look) -> str:
    mark: Piece = ("!", RED) if risk.flagged else "!"
    name = _name(risk.kind)
    path = cut(clean(risk.path), max(16, look.width - 36), look)
    return drawn([" ", mark, " ", (f"{name:<19}", BOLD), path, f"  {risk.count}"], look)


def _untouched(shown: Card, look: Look) -> list[str]:
    if not shown.untouched:
        return []
    said = f"untouched: {', '.join(_UNTOUCHED.get(name, _name(name)) for name in shown.untouched)}"
    return wrapped(said, look, indent=3, first=3, code=DIM, most=most_of(look, 2))


def _name(kind: str) -> str:
    return _NAMES.get(kind, kind)


# --- the others ------------------------------------------------------------------------------------------------------


def _other(other: Other, shown: Card, look: Look) -> str:
    meets = f"meets {', '.join(other.meets)}, this does not" if other.meets else "meets nothing this does not"
    pieces: list[Piece] = ["   ", (other.branch, BOLD), f"  {other.met}/{shown.whole}  "]
    if look.width >= WIDE and other.approach:
        pieces.insert(2, f"  {cut(other.approach, 30, look)}")
    return drawn([*pieces, (f"{meets};", BOLD if other.meets else DIM), f" {_ground(other)}"], look)


def _ground(other: Other) -> str:
    if other.merges is None:
        return "not compared"
    if other.merges is False:
        return f"conflict in {', '.join(clean(path) for path in other.conflicts[:3])}"
    if other.lines:
        return f"same lines in {counted(len(other.lines), 'file')}"
    return f"no shared lines; {counted(len(other.files), 'shared file')}"


# --- verbs -----------------------------------------------------------------------------------------------------------


def _verbs(shown: Card, look: Look, off: Collection[int]) -> list[str]:
    flags = f" ({counted(len(shown.flags), 'flag')}, asks)" if shown.flags else ""
    many = len(shown.proposal.parts) if shown.proposal is not None else 0
    if not look.keys:
        accept = [f"orchconverge lock {shown.basin} --accept"] if shown.proposable else []
        accept = [f"{accept[0]} [--without N]" if many > 1 else accept[0]] if accept else []
        yes = " --yes" if shown.flags else ""
        alone = [f"orchconverge graft {shown.branch}{yes}", f"orchconverge prune {shown.branch} --reason TEXT"]
        return spread([*accept, *alone], look, indent=1)
    verbs = ["a accept"] if shown.proposable else []
    verbs += [f"1-{min(many, 9)} turn a part"] if many > 1 else []
    verbs += [f"g graft alone{flags}", "p prune", *(["s skip"] if shown.waiting > 1 else [])]
    return spread([*verbs, "d diff", "v evidence", "q leave"], look, indent=1)


# --- evidence --------------------------------------------------------------------------------------------------------


def evidence(shown: Iterable[Clause], found: Iterable[Evidence], folder: PurePath, look: Look) -> str:
    """What the criteria's commands said on this candidate: the end of each output, and where all of it lies."""
    by_name = {one.criterion: one for one in found}
    lines: list[str] = []
    for clause in shown:
        lines.append(drawn([sign(clause.this, look), " ", (clause.criterion, BOLD), f"  {clause.asked}"], look))
        one = by_name.get(clause.criterion)
        if one is None:
            lines.append("  not run")
            continue
        end = f"exit {one.exit}" if one.exit is not None else "no exit"
        lines.append(f"  {end}, {duration(one.seconds)}, on tree {one.tree:.8}")
        lines += [f"  | {line}" for line in tail(one.excerpt, EXCERPT).split("\n") if line]
        lines += [f"  {clean(str(folder / one.log))}"] if one.log else []
    text = "\n".join(lines)
    return to_ascii(text) if look.ascii else text
