"""The four logs as lines: what converged, what minds printed, what controllers did, and what it cost."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, tzinfo
from typing import Any, Final, NamedTuple

import msgspec

from orchconverge.core import events as e
from orchconverge.core.happened import happened
from orchconverge.core.values import Evidence
from orchconverge.core.views.text import clean, counted, duration

TIME: Final = "%Y-%m-%d %H:%M:%S"
"""How a line of any of them begins, in local time."""
_SYSTEM: Final = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) (?:([A-Za-z0-9._-]+): )?(.*)")


class Entry(NamedTuple):
    """One line: when, if that is known; for people; and as an object."""

    at: datetime | None
    text: str
    record: Mapping[str, Any]


def convergence(fact: e.AnyFact, zone: tzinfo | None) -> Entry:
    """A fact: what happened, what of the criteria holds, and what was decided."""
    event = happened(fact)
    parts = [event.detail]
    if isinstance(fact, e.BasinChecked):
        parts = [_criteria(fact.results)]
    elif isinstance(fact, e.BranchCandidate):
        parts = [_criteria(fact.evidence)]
    elif isinstance(fact, e.GraftRefused | e.ProposalMade):
        parts.append(_criteria(fact.evidence))
    elif isinstance(fact, e.AttemptEnded):
        met = f"{sum(fact.criteria.values())} of {len(fact.criteria)} met"
        parts += [met, fact.decision] if fact.charged else [met, "not charged", fact.decision]
    said = "; ".join(clean(part) for part in parts if part)
    where = f"{event.basin}: " if event.basin else ""
    text = f"{_time(fact.at, zone)} {where}{event.what}" + (f": {said}" if said else "")
    record = {"seq": event.seq, "at": event.at, "basin": event.basin, "type": event.type, "what": event.what}
    return Entry(fact.at, text, {**record, "detail": said})


def system(line: str, zone: tzinfo | None) -> Entry:
    """A line of `system.log`: of one goal, or of none."""
    match = _SYSTEM.fullmatch(line)
    if match is None:
        return Entry(None, clean(line), {"at": None, "basin": None, "text": clean(line)})
    at = datetime.strptime(match[1], TIME).replace(tzinfo=zone)
    return Entry(at, clean(line), {"at": at, "basin": match[2], "text": clean(match[3])})


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """A line of `performance.log`: at the end of an attempt, or of a check of the target. Seconds, bytes, and kilobytes."""

    at: float
    cpu_seconds: float = 0.0
    peak_kb: int = 0
    basin: str = ""
    attempt: int | None = None
    active: float | None = None
    mind_seconds: tuple[float, ...] = ()
    check_seconds: dict[str, float] = {}
    memory_free: int | None = None
    disk_free: int | None = None


def performance(line: str, zone: tzinfo | None) -> Entry | None:
    """A line of `performance.log`; ``None`` for what is none."""
    try:
        found = msgspec.json.decode(line, type=Figures)
        at = datetime.fromtimestamp(found.at, zone)
    except (msgspec.MsgspecError, ValueError, OverflowError, OSError):
        return None
    parts = [f"attempt {found.attempt}" if found.attempt is not None else "target checked"]
    parts += [f"{duration(found.active)} active"] if found.active is not None else []
    if found.mind_seconds:
        each = " ".join(duration(seconds) for seconds in found.mind_seconds)
        parts.append(f"{counted(len(found.mind_seconds), 'mind')} {each}")
    if found.check_seconds:
        each = ", ".join(f"{clean(name)} {seconds:.1f}s" for name, seconds in found.check_seconds.items())
        parts.append(f"checks {sum(found.check_seconds.values()):.1f}s ({each})")
    parts.append(f"controller {found.cpu_seconds:.1f}s of CPU, {found.peak_kb / 1024:.0f} MB at most")
    parts += [f"{found.memory_free / 2**30:.1f} GB of memory free"] if found.memory_free is not None else []
    parts += [f"{found.disk_free / 2**30:.1f} GB of disk free"] if found.disk_free is not None else []
    text = f"{_time(at, zone)} {clean(found.basin)}: {', '.join(parts)}"
    return Entry(at, text, msgspec.json.decode(line))


def agent(branch: str, line: str, *, several: bool) -> Entry:
    """A line that a mind printed; with its branch before it where ``several`` are read."""
    said = clean(line, keep="\t")
    return Entry(None, f"{branch} | {said}" if several else said, {"branch": branch, "text": said})


def _time(at: datetime | None, zone: tzinfo | None) -> str:
    return at.astimezone(zone).strftime(TIME) if at is not None else " " * 19


def _criteria(evidence: Sequence[Evidence]) -> str:
    """``met oauth 41s, refresh 22s; not met malformed (exit 1, 19s)``."""
    met = [f"{x.criterion} {duration(x.seconds)}" for x in evidence if x.met == "yes"]
    lost = [f"{x.criterion} ({_why(x)})" for x in evidence if x.met != "yes"]
    both = (f"met {', '.join(met)}" if met else "", f"not met {', '.join(lost)}" if lost else "")
    return "; ".join(one for one in both if one)


def _why(evidence: Evidence) -> str:
    said = f"exit {evidence.exit}" if evidence.exit is not None else evidence.met
    return f"{said}, {duration(evidence.seconds)}"
