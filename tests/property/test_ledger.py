"""Whatever happens at the end of the file, no acknowledged fact is lost."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from orchconverge.adapters.ledger import FileLedger, verify
from orchconverge.core import upcast
from orchconverge.core.events import AnyFact, FrontierAdded
from orchconverge.core.replay import Replay

PROCESSES = 3
COUNTS = ("lines", "bad", "illegal", "unknown", "seq")


class Still:
    def now(self) -> datetime:
        return datetime(2026, 11, 29, tzinfo=UTC)

    def monotonic(self) -> float:
        return 0.0


@contextmanager
def processes() -> Iterator[list[FileLedger]]:
    shm = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shm if os.access(shm, os.W_OK) else None) as folder:
        ledgers = [FileLedger(Path(folder) / "state", Still()) for _ in range(PROCESSES)]
        yield ledgers
        for ledger in ledgers:
            ledger.close()


who = st.integers(0, PROCESSES - 1)
questions = st.text(st.characters(exclude_categories=["Cs"]), max_size=20).map(lambda text: f"q{text}")
steps = st.one_of(
    st.tuples(st.just("append"), who, questions),
    st.tuples(st.just("die"), who, questions, st.floats(0, 1)),  # writes a part of a line, and is no more
    st.tuples(st.just("junk"), st.binary(max_size=30).map(lambda junk: junk.replace(b"\n", b""))),
    st.tuples(st.just("lose"), st.floats(0, 1)),  # the file system gives back less of what nobody was promised
    st.tuples(st.just("read"), who),
    st.tuples(st.just("restart"), who),
)


@settings(deadline=None)
@given(st.lists(steps, max_size=30))
def test_no_acknowledged_fact_is_lost(story: list[tuple[object, ...]]) -> None:
    with processes() as ledgers:
        path = ledgers[0].path
        acknowledged: list[AnyFact] = []
        seen: list[list[AnyFact]] = [[] for _ in ledgers]
        for step in story:
            match step:
                case ("append", int(n), str(question)):
                    fact = ledgers[n].append(FrontierAdded(question=question, origin="person"), writer="cli")
                    acknowledged.append(fact)
                case ("die", int(n), str(question), float(part)) if path.exists():
                    ledgers[n].catch_up()
                    line = upcast.encode(
                        FrontierAdded(
                            v=1,
                            seq=ledgers[n].seq + 1,
                            at=Still().now(),
                            writer="cli",
                            question=question,
                            origin="person",
                        )
                    )[:-1]
                    with path.open("ab") as file:
                        file.write(line[: int(part * len(line))])
                    ledgers[n] = FileLedger(path.parent, Still())
                    seen[n] = []
                case ("junk", bytes(junk)) if path.exists():
                    with path.open("ab") as file:
                        file.write(junk)
                case ("lose", float(part)) if path.exists():
                    content = path.read_bytes()
                    tail = len(content) - (content.rfind(b"\n") + 1)
                    os.truncate(path, len(content) - int(part * tail))
                case ("read", int(n)):
                    seen[n] += ledgers[n].catch_up()
                case ("restart", int(n)):
                    ledgers[n].close()
                    ledgers[n] = FileLedger(path.parent, Still())
                    seen[n] = []
                case _:
                    pass
        reader = FileLedger(path.parent, Still())
        held = reader.catch_up()
        at = 0
        for fact in acknowledged:
            at = held.index(fact, at) + 1  # each is there, whole, in the order in which they were acknowledged
        assert [f.seq for f in held] == sorted({f.seq for f in held})
        for ledger in ledgers:
            ledger.catch_up()
            assert dict(ledger.state.frontier) == dict(reader.state.frontier)
            assert ledger.seq == reader.seq
        assert verify(path.parent).exit_code == int(reader.health.bad > 0)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_line_of_some_kind(line: bytes) -> None:
    upcast.decode(line)


LINE = upcast.encode(
    FrontierAdded(v=1, seq=7, at=Still().now(), writer="cli", question="what, and why?", origin="auth.1", basin="auth")
)


@given(st.integers(0, len(LINE) - 2), st.binary(min_size=1, max_size=4), st.booleans())
def test_a_line_with_damage_anywhere_never_raises(at: int, junk: bytes, over: bool) -> None:
    upcast.decode(LINE[:at] + junk + LINE[at + len(junk) * over :])


tags = st.sampled_from(["frontier.added", "moon.landed", "basin.killed", ""])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
known_keys = st.sampled_from(["v", "seq", "at", "writer", "question", "from", "basin", "reason", "x"])


@given(tags, st.dictionaries(known_keys, values, max_size=8))
def test_any_object_is_a_fact_or_newer_or_damaged(tag: str, fields: dict[str, object]) -> None:
    import json

    upcast.decode(json.dumps({"type": tag, **fields}).encode())


lines = st.sampled_from(
    [
        LINE,
        LINE.replace(b'"v":1', b'"v":2'),
        LINE.replace(b"frontier.added", b"moon.landed"),
        LINE[:-1] + LINE,
        LINE.replace(b",", b", "),
        LINE[:-1] + b" \n",
        LINE.replace(b'"seq":7', b'"seq":0'),
        b"junk\n",
        b"{}\n",
        b"\n",
        LINE[:40] + b"\n",
        LINE[40:],
        LINE[:-1] + b'{"a":1}\n',
        LINE.replace(b",", b",\n"),
    ]
)


def numbered(parts: list[tuple[bytes, bool]]) -> bytes:
    """Lines of which some carry the next number."""
    block, seq = b"", 0
    for line, following in parts:
        seq += following
        block += line.replace(b'"seq":7', b'"seq":%d' % (seq if following else 7))
    return block


@given(st.lists(st.tuples(lines, st.integers(0, 3).map(bool)), min_size=1, max_size=12), st.data())
def test_lines_fold_the_same_however_they_are_cut_into_blocks(
    parts: list[tuple[bytes, bool]], data: st.DataObject
) -> None:
    block = numbered(parts)
    whole, cut = Replay(), Replay()
    kept: tuple[list[AnyFact], list[AnyFact]] = ([], [])
    whole.feed(block, kept[0])
    ends = [n + 1 for n, byte in enumerate(block) if byte == 10]
    begin = 0
    for end in sorted(data.draw(st.sets(st.sampled_from(ends))) | {ends[-1]}):
        cut.feed(block[begin:end], kept[1])
        begin = end
    assert kept[0] == kept[1]
    assert [getattr(whole, n) for n in COUNTS] == [getattr(cut, n) for n in COUNTS]
    assert dict(whole.fold.state.frontier) == dict(cut.fold.state.frontier)


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=50), st.floats(0, 1e9))
def test_what_is_written_is_what_is_read(text: str, active: float) -> None:
    fact = FrontierAdded(v=1, seq=1, at=Still().now(), writer="cli", active=active, question=f"q{text}", origin=text)
    line = upcast.encode(fact)
    assert line.count(b"\n") == 1
    assert upcast.decode(line) == fact
    assert upcast.decode_next(line, 0) == [fact]
    assert upcast.decode_next(line, 1) is None
