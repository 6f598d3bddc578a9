"""Tool calls as an engine's output shows them: begun, and later ended with what was observed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import count, islice
from typing import Literal

from msgspec.structs import replace

from orchconverge.adapters.engines.reading import LONGEST_TEXT, MOST_LISTED, text
from orchconverge.adapters.engines.shell import acted
from orchconverge.core.seen import Act

MOST_ACTS = 2000
"""The newest calls that are told of."""
LONGEST_DETAIL, LONGEST_SHELL = 300, 20_000
"""Characters: of a reason, and of a shell command that is still to be taken apart."""

Kind = Literal["read", "search", "write", "shell", "other"]


@dataclass
class _Call:
    kind: Kind
    target: str
    tool: str
    ok: bool | None = None
    refused: bool = False
    detail: str = ""
    ended: bool = False
    of: str = ""
    """The call that it is a part of, where an agent has one for several files."""


class Calls:
    """In the order in which they were begun. Keys are the engine's own ids of its calls."""

    def __init__(self) -> None:
        self._calls: dict[object, _Call] = {}
        self._own = count()

    def begin(self, key: object, kind: Kind, target: object, *, tool: object = "") -> None:
        """A call was made; one without an id can only be known by what follows."""
        name = text(key, most=200) or object()
        if name not in self._calls:
            most = LONGEST_SHELL if kind == "shell" else LONGEST_TEXT
            self._calls[name] = _Call(kind, text(target, most=most), text(tool, most=100))
        if len(self._calls) > 2 * MOST_ACTS:
            for old in [*islice(self._calls, MOST_ACTS)]:
                del self._calls[old]

    def kind(self, key: object) -> Kind | None:
        """What a call was begun as."""
        call = self._calls.get(text(key, most=200))
        return None if call is None else call.kind

    def end(self, key: object, *, ok: bool | None, refused: bool = False, detail: object = "") -> None:
        """What became of it. ``detail`` is kept of what did not succeed."""
        call = self._calls.get(text(key, most=200))
        if call is not None:
            call.ok, call.refused, call.ended = (False, True, True) if refused else (ok, False, True)
            call.detail = "" if ok and not refused else text(detail, most=LONGEST_DETAIL)

    def did(
        self,
        kind: Kind,
        target: object,
        *,
        ok: bool | None,
        refused: bool = False,
        tool: object = "",
        of: object = "",
    ) -> None:
        """A call whose beginning and end are one; ``of`` the call that it is a part of."""
        key = f"our own {next(self._own)}"
        self.begin(key, kind, target, tool=tool)
        self.end(key, ok=ok, refused=refused)
        self._calls[key].of = text(of, most=200)

    def acts(self) -> tuple[Act, ...]:
        """What was done, commands of a shell by what they do to files.

        Where an agent does not say how a command ended (Gemini), what it was to write is taken as written: git shows if it is.
        """
        found: list[Act] = []
        numbers: dict[object, int] = {}
        for key, call in list(self._calls.items())[-MOST_ACTS:]:
            number = numbers.setdefault(call.of or key, len(numbers))
            pages = " ".join(re.findall(r"\d+", call.target)) if call.kind == "shell" else ""
            parts = acted(call.target) if call.kind == "shell" else ((call.kind, call.target),)
            for kind, target in parts:
                of = text(target, most=LONGEST_TEXT)
                unsaid = call.kind == "shell" and kind == "write" and call.ended and call.ok is None
                ok = True if unsaid else call.ok
                act = Act(kind=kind, target=of, ok=ok, refused=call.refused, detail=call.detail, call=number)
                found.append(replace(act, part=pages) if kind == "read" else act)
        return tuple(found[-MOST_ACTS:])

    def refused(self) -> tuple[str, ...]:
        """The calls that were refused, each as the tool and what it was called with."""
        said = (
            f"{call.tool}: {call.target[:LONGEST_DETAIL]}".strip(": ") for call in self._calls.values() if call.refused
        )
        return tuple(dict.fromkeys(filter(None, said)))[:MOST_LISTED]
