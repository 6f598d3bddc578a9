"""The timeline of all pursuits, side by side: what happened in each and when, what ran, and why nothing did."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, Final, Literal

from msgspec.structs import replace

from orchconverge.core import events as e
from orchconverge.core.measures import Shown, met_of
from orchconverge.core.needs import Need
from orchconverge.core.projection import Projection
from orchconverge.core.reducer import Fold
from orchconverge.core.standing import queue
from orchconverge.core.state import Basin, State
from orchconverge.core.values import StopReason, WaitFor
from orchconverge.core.views.text import clean, counted
from orchconverge.errors import Illegal

SCHEMA: Final = 1
Kind = Literal["opened", "candidate", "grafted", "pruned", "harvested", "stalled", "waiting", "converged", "killed"]
LETTERS: Final[Mapping[Kind, str]] = {
    "opened": "O",
    "candidate": "C",
    "grafted": "G",
    "pruned": "P",
    "harvested": "H",
    "stalled": "S",
    "waiting": "W",
    "converged": "V",
    "killed": "X",
}
"""Each kind of event has its letter, the same wherever it is drawn."""
LONGEST: Final = 200
"""Cells of what is said of an event."""
FIRST: Final = datetime(1970, 1, 2, tzinfo=UTC)
AHEAD: Final = timedelta(days=1)
"""What a clock put earlier, or so much later than now, is drawn there: it was wrong, and no width is worth its centuries."""
LOST: Final = 120.0
"""Seconds by which wall time has to outrun active time before the machine is said to have slept."""
LOCK: Final = "waited at the lock"
PERSON: Final = "waited for a person"
ASLEEP: Final = "machine asleep or in trouble"
GONE: Final = "the controller was gone"
BETWEEN: Final = "waited for the next attempt"
NOTHING: Final = "nothing ran"
_WAITS: Final[Mapping[WaitFor, str]] = {
    "lock": LOCK,
    "quota": "waited for quota",
    "disk": "waited for disk",
    "memory": "waited for memory",
    "network": "waited for the network",
    "limit": "waited for a place among the minds",
}
_STOPPED: Final[Mapping[StopReason, str]] = {
    "stopped": "stopped",
    "waiting": "waits for you",
    "limit": "limit reached",
    "error": "ended by an error",
    "unsatisfied": "not satisfied",
}


class Mark(Shown, frozen=True, kw_only=True):
    """Something that happened: ``seq`` is its line of the ledger, ``what`` it was about, ``note`` why or how."""

    seq: int
    at: datetime
    kind: Kind
    what: str = ""
    note: str = ""


class Stretch(Shown, frozen=True, kw_only=True):
    """A time in which the pursuit stood the same way. ``cause``: why nothing ran; ``None``: something did."""

    start: datetime
    end: datetime
    cause: str | None


class Lane(Shown, frozen=True, kw_only=True):
    """One pursuit. ``stretches`` follow one another and cover all the time in which it was open; times are UTC."""

    basin: str
    macrostate: str
    phase: str
    group: str
    met: int
    required: int
    marks: tuple[Mark, ...]
    stretches: tuple[Stretch, ...]


class Timeline(Shown, frozen=True, kw_only=True):
    """All pursuits in the order of opening. ``since`` is where it begins; ``declared`` are those that were never opened."""

    schema: int
    as_of: datetime
    utc_offset: int
    ledger_lines: int
    since: datetime | None
    needs_you: tuple[Need, ...]
    lanes: tuple[Lane, ...]
    declared: tuple[str, ...]

    @property
    def local(self) -> datetime:
        """``as_of`` in the reader's zone."""
        return self.as_of.astimezone(timezone(timedelta(seconds=self.utc_offset)))


def timeline(
    facts: Iterable[e.AnyFact],
    shown: Projection,
    *,
    since: datetime | None = None,
    only: Collection[str] = (),
) -> Timeline:
    """The timeline until ``shown.as_of``, from a ledger's facts in order. ``only``: these pursuits, all if empty.

    Facts that the rules refuse are left out, as everywhere. With ``since`` what was over by then is left out.
    """
    fold, told = Fold(), dict[str, _Told]()
    state = fold.state
    for fact in facts:
        with suppress(Illegal):
            fold.apply(fact)
            basin = state.basins.get(getattr(fact, "basin", None) or "")
            if basin is not None and fact.at is not None:
                at = min(max(fact.at, FIRST), shown.as_of + AHEAD)
                told.setdefault(basin.id, _Told()).take(fact, at, state, basin)
    lanes = []
    for name, one in told.items():
        drawn = shown.basin(name)
        if drawn is None or (only and name not in only) or not one.opened:
            continue
        one.until(shown.as_of, unknown=drawn.phase == "UNKNOWN")
        lane = Lane(
            basin=name,
            macrostate=drawn.macrostate,
            phase=drawn.phase,
            group=drawn.group,
            met=drawn.met,
            required=drawn.required,
            marks=tuple(one.marks),
            stretches=tuple(one.stretches),
        )
        if (part := _since(lane, since)) is not None:
            lanes.append((one.opened, part))
    return Timeline(
        schema=SCHEMA,
        as_of=shown.as_of,
        utc_offset=shown.utc_offset,
        ledger_lines=shown.ledger.lines,
        since=since.astimezone(UTC) if since is not None else None,
        needs_you=shown.needs_you,
        lanes=tuple(lane for _, lane in sorted(lanes, key=lambda pair: pair[0])),
        declared=tuple(name for name, one in told.items() if not one.opened and (not only or name in only)),
    )


def _since(lane: Lane, since: datetime | None) -> Lane | None:
    """What of a lane is not over by then; ``None`` if all of it is."""
    if since is None:
        return lane
    marks = tuple(mark for mark in lane.marks if mark.at >= since)
    stretches = tuple(
        replace(one, start=max(one.start, since.astimezone(UTC))) for one in lane.stretches if one.end > since
    )
    return replace(lane, marks=marks, stretches=stretches) if marks or stretches else None


class _Told:
    """What one pursuit's facts say as they go by."""

    def __init__(self) -> None:
        self.opened = 0
        """The line that opened it."""
        self.marks: list[Mark] = []
        self.stretches: list[Stretch] = []
        self._now: tuple[bool, str | None] = (False, None)
        self._from: datetime | None = None
        self._counted: tuple[datetime, float] | None = None
        """When its controller last said how much active time there was, if that could grow since."""

    def take(self, fact: e.AnyFact, at: datetime, state: State, basin: Basin) -> None:
        """Look at the next fact of this pursuit, which is from ``at``; the state is after it."""
        self._mark(fact, at, state)
        if not self.opened and isinstance(fact, e.RunStarted):
            self.opened = fact.seq
        at = max(at, self._from) if self._from is not None else at
        self._slept(fact, at)
        stands = standing(state, basin)
        if stands != self._now:
            self._close(at)
            self._now, self._from = stands, at

    def until(self, now: datetime, *, unknown: bool) -> None:
        """It stands so still. ``unknown``: nobody knows whether anything runs."""
        if unknown and self._now == (True, None) and self.stretches:
            seen = self._counted[0] if self._counted is not None else self._from
            self._close(max(seen or now, self._from or now))
            self._from, self._now = seen, (True, "the controller is not seen")
        self._close(max(now, self._from or now))

    def _close(self, at: datetime) -> None:
        alive, cause = self._now
        if alive and self._from is not None and at > self._from:
            last = self.stretches[-1] if self.stretches else None
            if last is not None and last.cause == cause and last.end == self._from:
                self.stretches[-1] = replace(last, end=at)
            else:
                self.stretches.append(Stretch(start=self._from, end=at, cause=cause))

    def _slept(self, fact: e.AnyFact, at: datetime) -> None:
        """Active time stands still while the machine sleeps; where in the stretch it did, nobody knows: its end is drawn so."""
        counts = self._now == (True, None) or self._now == (True, BETWEEN)
        if self._counted is not None and counts and fact.active is not None:
            since, active = self._counted
            asleep = (at - since).total_seconds() - max(0.0, fact.active - active)
            if asleep >= LOST:
                fell = max(at - timedelta(seconds=asleep), self._from or at)
                self._close(fell)
                before = self._now
                taken = isinstance(fact, e.RunStarted) and fact.takesOver is not None
                self._from, self._now = fell, (True, GONE if taken else ASLEEP)
                self._close(at)
                self._from, self._now = at, before
        if fact.active is not None:
            self._counted = (at, fact.active)

    def _mark(self, fact: e.AnyFact, at: datetime, state: State) -> None:
        words = _WORDS.get(type(fact))
        said = words(fact, state) if words is not None else None
        if said is None:
            return
        kind, what, note = said
        if isinstance(fact, e.RunStopped) and self.marks and self.marks[-1].kind in ("stalled", "waiting"):
            return  # the end of the last attempt, or the wait, has said why
        if isinstance(fact, e.RunStarted) and self.opened and not what:
            what, note = "again", ""
        what, note = clean(what, LONGEST), clean(note, LONGEST)
        self.marks.append(Mark(seq=fact.seq, at=at.astimezone(UTC), kind=kind, what=what, note=note))


def standing(state: State, basin: Basin) -> tuple[bool, str | None]:
    """Whether the pursuit is open to go on by itself or by a person; and why nothing of it runs, ``None`` if something does."""
    run = basin.run
    if run is None:
        return False, None
    if run.open:
        if run.waiting is not None:
            return True, _WAITS.get(run.waiting.reason, PERSON)
        if basin.attempt is not None or basin.chain.running is not None or not run.checked:
            return True, None
        return True, LOCK if queue(state, basin) else BETWEEN
    if basin.phase != "open":
        return False, None
    if queue(state, basin):
        return True, LOCK
    return True, NOTHING if run.stopped == "stopped" else PERSON


# --- words -----------------------------------------------------------------------------------------------------------

_Said = tuple[Kind, str, str] | None


def _opened(fact: e.RunStarted, state: State) -> _Said:
    parents = state.basins[fact.basin].parents
    if fact.takesOver is not None:
        return "opened", "taken over", "its controller was gone"
    return "opened", "", f"forked from {', '.join(parents)}" if parents else ""


def _candidate(fact: e.BranchCandidate, state: State) -> _Said:
    basin = state.basins[fact.basin]
    met = met_of(basin, {one.criterion: one for one in fact.evidence})
    flags = f" ({counted(len(fact.flags), 'flag')})" if fact.flags else ""
    return "candidate", f"{fact.branch} {met}/{len(basin.counted)}{flags}", ""


def _grafted(fact: e.BranchGrafted, state: State) -> _Said:
    basin = state.basins[fact.basin]
    met = met_of(basin, {one.criterion: one for one in fact.evidence})
    return "grafted", f"{fact.branch} {met}/{len(basin.counted)}{_by(fact.decidedBy)}", ""


def _by(decider: str) -> str:
    """By whom, if a person decided: the fact has ``person: ana, tty``."""
    return f" by {decider.removeprefix('person: ').split(',')[0]}" if decider.startswith("person: ") else ""


def _harvested(fact: e.BasinHarvested, state: State) -> _Said:
    asked = f", {counted(len(fact.frontier), 'question')}" if fact.frontier else ""
    return "harvested", f"{counted(len(fact.residue), 'piece')} of residue{asked}", ""


def _attempted(fact: e.AttemptEnded, state: State) -> _Said:
    """A stall, or an end that only a person can pass; that candidates wait at the lock is seen by them."""
    if fact.decision not in ("STALLED", "BLOCKED", "UNSATISFIED"):
        return None
    words = {"STALLED": "", "BLOCKED": "verdict", "UNSATISFIED": "not satisfied"}[fact.decision]
    return "stalled", f"attempt {fact.attempt}", f"{words}: {fact.text}" if words and fact.text else words or fact.text


def _stopped(fact: e.RunStopped, state: State) -> _Said:
    if fact.reason in ("converged", "killed", "refused"):
        return None
    if fact.reason == "stalled":
        return "stalled", "", fact.text
    return "waiting", _STOPPED.get(fact.reason, fact.reason), fact.text


def _converged(fact: e.BasinConverged, state: State) -> _Said:
    basin = state.basins[fact.basin]
    return "converged", f"{met_of(basin)}/{len(basin.counted)}", fact.note


_WORDS: Final[Mapping[type, Callable[[Any, State], _Said]]] = {
    e.RunStarted: _opened,
    e.BranchCandidate: _candidate,
    e.BranchGrafted: _grafted,
    e.ResidueGrafted: lambda f, s: ("grafted", f"part of {f.branch}{_by(f.decidedBy)}", f.reason),
    e.BranchPruned: lambda f, s: ("pruned", f"{f.branch}{_by(f.decidedBy)}", f.reason),
    e.BasinHarvested: _harvested,
    e.AttemptEnded: _attempted,
    e.RunStopped: _stopped,
    e.RunWaiting: lambda f, s: ("waiting", f"waits for {f.reason}", f.text),
    e.BasinConverged: _converged,
    e.BasinKilled: lambda f, s: ("killed", "", f.reason),
}


def told(mark: Mark, *, with_kind: bool = True) -> str:
    """An event in words: ``candidate auth.1 5/8``, ``killed: index nine times the budget``, ``waits for quota: …``."""
    head = " ".join(filter(None, (mark.kind if with_kind and mark.kind != "waiting" else "", mark.what)))
    return f"{head}: {mark.note}" if head and mark.note else head or mark.note
