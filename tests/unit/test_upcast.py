"""The stored form: what is a fact, what is of a later version, what is damage; and how old forms become new ones."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from orchconverge.core import upcast
from orchconverge.core.events import AttemptEnded, FrontierAdded, FrontierClosed
from orchconverge.core.upcast import Codec, Damaged, Newer

AT = datetime(2026, 11, 29, 14, 0, 0, 123456, tzinfo=UTC)
ASKED = FrontierAdded(
    v=1, seq=17, at=AT, writer="controller", active=1.5, question="why", origin="auth.1", basin="auth"
)


def test_a_line_is_one_object_in_the_spelling_of_the_seed() -> None:
    line = upcast.encode(ASKED)
    assert line.endswith(b"}\n")
    assert msgspec.json.decode(line) == {
        "v": 1,
        "seq": 17,
        "at": "2026-11-29T14:00:00.123456Z",
        "writer": "controller",
        "active": 1.5,
        "type": "frontier.added",
        "question": "why",
        "from": "auth.1",
        "basin": "auth",
    }
    assert upcast.decode(line) == ASKED


def test_nothing_needs_a_step_yet() -> None:
    assert (upcast.VERSION, dict(upcast.UPCASTERS)) == (1, {})


def test_old_lines_become_new_facts_step_by_step() -> None:
    """Once upon a time a question was called ``text``, and before that its origin was a pair."""

    def joined(stored: dict[str, Any]) -> dict[str, Any]:
        basin, number = stored.pop("by")
        return stored | {"from": f"{basin}.{number}"}

    def renamed(stored: dict[str, Any]) -> dict[str, Any]:
        return stored | {"question": stored.pop("text")}

    codec = Codec({("frontier.added", 1): joined, ("frontier.added", 2): renamed}, version=4)
    envelope = {"type": "frontier.added", "seq": 17, "at": AT, "writer": "controller"}

    def read(**fields: object) -> object:
        return codec.decode(msgspec.json.encode(envelope | fields))

    expected = FrontierAdded(v=4, seq=17, at=AT, writer="controller", question="why", origin="auth.1")
    assert read(v=1, text="why", by=["auth", 1]) == expected
    assert read(v=2, text="why", **{"from": "auth.1"}) == expected
    assert read(v=3, question="why", **{"from": "auth.1"}) == expected
    assert read(v=4, question="why", **{"from": "auth.1"}) == expected
    assert isinstance(read(v=5, question="why", **{"from": "auth.1"}), Newer)
    for broken in (read(v=1, text="why"), read(v=2, by=["auth", 1]), read(v=1, text=" ", by=["auth", 1])):
        assert isinstance(broken, Damaged)
    block = b"".join(
        msgspec.json.encode(envelope | fields) + b"\n"
        for fields in ({"v": 1, "text": "why", "by": ["auth", 1]}, {"v": 4, "question": "why", "from": "auth.1"})
    )
    assert codec.decode_next(block, 16) is None
    assert [codec.decode(line) for line in block.splitlines()] == [expected, expected]


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (b'{"type":"moon.landed","v":1,"seq":3}', Newer),
        (b'{"type":"frontier.added","v":2,"seq":3}', Newer),
        (b'{"type":"moon.landed","v":0,"seq":3}', Damaged),
        (b'{"type":"moon.landed","v":1}', Damaged),
        (b'{"type":"moon.landed","v":1,"seq":"3"}', Damaged),
        (b'{"type":"moon.landed","v":1,"seq":1e999}', Damaged),
        (b'{"type":3,"v":1,"seq":3}', Damaged),
        (b'{"v":1,"seq":3}', Damaged),
        (b'{"type":"frontier.added","v":1,"seq":3}', Damaged),
        (b'{"type":"frontier.added","v":true,"seq":3}', Damaged),
        (b"null", Damaged),
        (b"", Damaged),
        (b'{"type":"moon.landed","v":1,"seq":3', Damaged),
        (b'{"type":"moon.landed","v":1,"seq":3}{"type":"moon.landed","v":1,"seq":4}', Damaged),
    ],
)
def test_an_unknown_line_is_newer_only_if_it_has_an_envelope(line: bytes, kind: type) -> None:
    assert isinstance(upcast.decode(line), kind)


def test_what_is_newer_is_kept_as_it_was() -> None:
    line = b'{"type":"moon.landed","v":3,"seq":9,"who":["a"]}'
    assert upcast.decode(line) == Newer(type="moon.landed", v=3, seq=9, line=line)


def test_a_key_seq_inside_a_value_is_no_splice() -> None:
    ended = AttemptEnded(
        v=1,
        seq=1,
        at=AT,
        writer="controller",
        basin="auth",
        attempt=1,
        charged=True,
        result="success",
        head="a" * 40,
        criteria={"seq": True, "x": False},
        progress=1,
        decision="SUCCESS",
    )
    assert upcast.decode(upcast.encode(ended)) == ended
    told = FrontierClosed(v=1, seq=2, at=AT, writer="cli", question='is "seq":1 right?', answer='{"seq":2}')
    assert upcast.decode(upcast.encode(told)) == told
    assert upcast.decode_next(upcast.encode(ended) + upcast.encode(told), 0) == [ended, told]
