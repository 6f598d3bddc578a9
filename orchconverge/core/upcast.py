"""Turns a line of the ledger into a fact and back: the only place that knows versions of the stored form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, get_args

import msgspec
from msgspec import Struct

from orchconverge.core.events import AnyFact

VERSION: Final = 1
"""The version of the stored form that is written."""
LONGEST_BYTES: Final = 64 << 20
"""No line is longer; one that is was not written by us."""

Step = Callable[[dict[str, Any]], dict[str, Any]]
UPCASTERS: Final[Mapping[tuple[str, int], Step]] = {}
"""(type, v) -> what makes a stored line of that version one of the next. A type that is not named did not change."""

_SEQ: Final = b'"seq":'
_FAULTS: Final = (msgspec.MsgspecError, ValueError, RecursionError)  # ValueError holds UnicodeDecodeError


class Newer(Struct, frozen=True):
    """A whole line of a later version of this tool: an unknown ``type``, or a ``v`` above ours. It is kept and counted."""

    type: str
    v: int
    seq: int
    line: bytes


class Damaged(Struct, frozen=True):
    """A line that no version of this tool wrote, and why."""

    why: str


class _Envelope(Struct):
    """What every version's lines have."""

    type: str
    v: int
    seq: int


class Codec:
    """The stored form: its version and the steps that lead to it. Tests build their own; the module's functions use ours."""

    def __init__(self, upcasters: Mapping[tuple[str, int], Step] = UPCASTERS, *, version: int = VERSION) -> None:
        self._upcasters = upcasters
        self._version = version
        self._decoder: msgspec.json.Decoder[AnyFact] = msgspec.json.Decoder(AnyFact)
        self._envelope = msgspec.json.Decoder(_Envelope)
        self._encoder = msgspec.json.Encoder()
        self._tags = frozenset(str(kind.__struct_config__.tag) for kind in get_args(AnyFact))

    def decode(self, line: bytes, *, after: int | None = None) -> AnyFact | Newer | Damaged:
        """Read one line, with or without its newline. Any bytes give an answer.

        A line that has its keys twice was spliced from two; one that is number ``after`` + 1 is what was expected.
        """
        if len(line) > LONGEST_BYTES:
            return Damaged(f"{len(line)} bytes, over {LONGEST_BYTES}")
        try:
            fact = self._decoder.decode(line)
        except _FAULTS as error:
            return self._odd(line, str(error), after)
        if fact.v != self._version:
            return self._odd(line, "", after)
        return self._whole(fact, line, after)

    def decode_next(self, block: bytes, after: int) -> list[AnyFact] | None:
        """Read whole lines, each with its newline, that are numbered ``after`` + 1 and on: the same as `decode`, but faster.

        ``None`` if a line among them is anything else; then they are read one by one.
        """
        if len(block) > LONGEST_BYTES:
            return None
        *lines, _ = block.split(b"\n")
        v = self._version
        try:
            facts = list(map(self._decoder.decode, lines))
            odd = [
                1
                for seq, f in enumerate(facts, after + 1)
                if f.seq != seq or f.v != v or f.writer is None or f.at.tzinfo is None  # type: ignore[union-attr]
            ]
        except (*_FAULTS, AttributeError):  # AttributeError: no time at all
            return None
        return None if odd else facts

    def encode(self, fact: AnyFact) -> bytes:
        """Write one line with its newline. Raises `ValueError` for text that is not Unicode (a lone surrogate)."""
        return self._encoder.encode(fact) + b"\n"

    def _whole(self, fact: AnyFact, line: bytes, after: int | None) -> AnyFact | Damaged:
        if fact.seq < 1 or fact.writer is None or fact.at is None or fact.at.tzinfo is None:
            return Damaged("no seq, no writer or no time with a zone")
        if after is None or fact.seq != after + 1:
            keys = line.count(_SEQ)
            if keys != 1 and self._encoder.encode(fact).count(_SEQ) != keys:
                return Damaged("two lines spliced into one")
        return fact

    def _odd(self, line: bytes, why: str, after: int | None) -> AnyFact | Newer | Damaged:
        """Read a line that is not simply a fact of our version."""
        try:
            head = self._envelope.decode(line)
        except _FAULTS as error:
            return Damaged(why or str(error))
        if head.v < 1 or head.seq < 1:
            return Damaged("no version or no seq")
        if head.v > self._version or head.type not in self._tags:
            return Newer(type=head.type, v=head.v, seq=head.seq, line=line)
        steps = [
            self._upcasters[head.type, v] for v in range(head.v, self._version) if (head.type, v) in self._upcasters
        ]
        if why and not steps:
            return Damaged(why)
        try:
            stored = msgspec.json.decode(line)
            for step in steps:
                stored = step(stored)
            fact = msgspec.convert(stored | {"v": self._version}, AnyFact)
        except (*_FAULTS, LookupError, TypeError) as error:
            return Damaged(f"version {head.v} of {head.type}: {error}")
        return self._whole(fact, line, after)


_OURS: Final = Codec()
decode = _OURS.decode
decode_next = _OURS.decode_next
encode = _OURS.encode
