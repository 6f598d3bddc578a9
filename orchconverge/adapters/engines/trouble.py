"""What the text of an error means for us: a quota that is used up, and until when; or nobody who is signed in."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from orchconverge.adapters.engines.reading import moment
from orchconverge.core.values import Limit

LONGEST_WAIT = timedelta(days=40)
TOLD_TO = timedelta(minutes=1)
"""A time of day is told without its seconds: it is over when its minute is."""

_LIMITED = re.compile(
    r"\b(?:429|529)\b|rate.?limit|usage limit|quota|too many requests|RESOURCE_EXHAUSTED|overloaded", re.IGNORECASE
)
_UNKNOWN = re.compile(
    r"\b(?:401|403)\b|unauthori[sz]ed|authenticat|API.?key|UNAUTHENTICATED|not (?:logged|signed) in|please log ?in"
    r"|Missing environment variable|select(?:ed)? an auth|set an auth method",
    re.IGNORECASE,
)
_PART = r"\d+(?:\.\d+)?\s*(?:days?|d|hours?|hrs?|h|minutes?|mins?|m|seconds?|secs?|s)"
_IN = re.compile(
    rf"(?:retry after|try again (?:in|after)|resets? (?:in|after))[: ]+((?:{_PART}[\s,]*(?:and )?)+)", re.IGNORECASE
)
_PIECE = re.compile(r"(\d+(?:\.\d+)?)\s*([dhms])", re.IGNORECASE)
_SECONDS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_DAY = re.compile(r"[Tt]ry again at (\w{3}) (\d{1,2})\w{2}, (\d{4}) (\d{1,2}:\d{2} [AP]M)")
_HOUR = re.compile(r"[Tt]ry again at (\d{1,2}:\d{2} [AP]M)")
_EPOCH = re.compile(r"(?:reset\w*|reached)\W{1,4}(\d{9,13})\b")


class Trouble(NamedTuple):
    """Not both: who is not let in has no quota either."""

    limit: Limit | None = None
    auth: bool = False


def of(error: str, *, engine: str, status: object = None, at: datetime | None = None) -> Trouble:
    """What an error says, with the ``status`` of HTTP where the engine gives one; ``at``: when it was said."""
    if status in (401, 403):
        return Trouble(auth=True)
    if status in (429, 529) or (_LIMITED.search(error) and not re.search(r"\b401\b", error)):
        return Trouble(limit=Limit(engine=engine, until=until(error, at=at)))
    return Trouble(auth=bool(_UNKNOWN.search(error)))


def until(error: str, *, at: datetime | None = None) -> datetime | None:
    """The end of a limit, in any of the ways in which one is told. Times of day are those of this machine."""
    now = at or datetime.now(UTC)
    try:
        if found := _DAY.search(error):
            return datetime.strptime(" ".join(found.groups()), "%b %d %Y %I:%M %p").astimezone(UTC) + TOLD_TO
        if found := _HOUR.search(error):
            hour = datetime.strptime(found[1], "%I:%M %p").time()
            today = datetime.combine(now.astimezone().date(), hour).astimezone(UTC) + TOLD_TO
            return today if today > now - timedelta(hours=12) else today + timedelta(days=1)
        if found := _IN.search(error):
            return after(sum(float(n) * _SECONDS[unit.lower()] for n, unit in _PIECE.findall(found[1])), at=now)
    except (ValueError, OverflowError):
        return None
    stamp = _EPOCH.search(error)
    return moment(int(stamp[1])) if stamp else None


def after(seconds: float, *, at: datetime | None = None) -> datetime | None:
    """So many seconds later, if that can be meant."""
    wait = timedelta(seconds=min(seconds, LONGEST_WAIT.total_seconds()))
    return (at or datetime.now(UTC)) + wait if seconds > 0 else None
