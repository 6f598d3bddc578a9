"""WHEN on the command line: an age, a time of day, or a date."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

import click

_AGE: Final = re.compile(r"(\d{1,6})([smhdw])")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_CLOCK: Final = re.compile(r"\d?\d:\d\d(:\d\d)?")


def moment(text: str, now: datetime) -> datetime:
    """What ``10m``, ``14:30`` or ``2026-11-29[T14:30[Z]]`` means at ``now``, in its zone unless it names one.

    A time of day is the last one that was. Raises `ValueError`.
    """
    age = _AGE.fullmatch(text)
    try:
        if age is not None:
            return now - timedelta(seconds=int(age[1]) * _SECONDS[age[2]])
        if _CLOCK.fullmatch(text):
            found = datetime.fromisoformat(f"{now:%Y-%m-%d}T{text:0>5}").replace(tzinfo=now.tzinfo)
            return found if found <= now else found - timedelta(days=1)
        found = datetime.fromisoformat(text)
        found = found if found.tzinfo is not None else found.replace(tzinfo=now.tzinfo)
        found.astimezone(UTC)  # in the years 1 and 9999 it may be none
    except OverflowError as error:
        raise ValueError(text) from error
    return found


class When(click.ParamType):  # type: ignore[type-arg]  # not generic in every click that we take
    """A moment in the past, as `moment` reads it."""

    name = "when"

    def convert(self, value: str | datetime, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """The moment that is meant, aware; what is none ends the command with a line that says what is."""
        if isinstance(value, datetime):
            return value
        try:
            return moment(value, datetime.now(UTC).astimezone())
        except ValueError:
            self.fail(f"{value!r} is no moment; write 10m, 2h, 3d, 14:30, 2026-11-29 or 2026-11-29T14:30", param, ctx)
