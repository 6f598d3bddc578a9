"""What every gate does, the socket and the fake; and what the socket does about minds that mean no good."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import socket
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from orchconverge.adapters.engines.shell import acted
from orchconverge.adapters.gate import MOST_CONNECTIONS, MOST_LINE_BYTES, SILENT_SECONDS, SocketGate
from orchconverge.core.admission import Call
from orchconverge.errors import Failed
from orchconverge.ports import Gate, Question
from tests.fakes.gate import MemoryGate

NAME = "0123456789ab"
READ = {"token": "t", "id": "1", "tool": "Read", "kind": "read", "target": "a.txt", "args": {}}
ASKED = Question(token="t", id="1", calls=(Call(kind="read", target="a.txt"),))


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder whose path leaves room for a socket's name."""
    folder = Path(tempfile.mkdtemp(prefix="oc", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def gate(short: Path) -> Iterator[SocketGate]:
    made = SocketGate(NAME, acted, environ={"XDG_RUNTIME_DIR": str(short)})
    made.open()
    yield made
    made.close()


class Asking:
    """A mind at a gate: it asks, and hears what came of it once the gate was served."""

    def __init__(self, gate: SocketGate | MemoryGate) -> None:
        self.gate = gate
        self.path = gate.open()

    def ask(self, question: Question, answer: Callable[[Question], str | None]) -> str | None:
        if isinstance(self.gate, MemoryGate):
            self.gate.asked.append(question)
            self.gate.serve(answer)
            return self.gate.answers.pop()
        [call] = question.calls
        line = {"token": question.token, "id": question.id, "tool": "Read", "kind": call.kind, "target": call.target}
        with connected(self.path, {**line, "args": {}}) as mind:
            said = heard(self.gate, mind, answer)
        return None if said is None else ("" if said["allow"] else said["reason"])


@pytest.fixture(params=["socket", "memory"])
def asking(request: pytest.FixtureRequest) -> Asking:
    return Asking(MemoryGate() if request.param == "memory" else request.getfixturevalue("gate"))


def connected(path: Path, *lines: object) -> socket.socket:
    """A connection on which these were said: bytes as they are, anything else as a line of JSON."""
    mind = socket.socket(socket.AF_UNIX)
    mind.connect(str(path))
    for line in lines:
        mind.sendall(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n")
    return mind


def heard(gate: SocketGate, mind: socket.socket, answer: Callable[[Question], str | None]) -> dict[str, Any] | None:
    """What a mind is answered, ``None`` if its connection is closed without an answer."""
    said, until = b"", time.monotonic() + 10
    while True:
        assert time.monotonic() < until
        select.select(gate.handles(), [], [], 0.1)
        gate.serve(answer)
        while select.select([mind], [], [], 0)[0]:
            try:
                more = mind.recv(1 << 16)
            except ConnectionResetError:  # closed on what was not read
                more = b""
            if not more:
                return dict(json.loads(said)) if said else None
            said += more


def asked(gate: SocketGate, *lines: object) -> list[Question]:
    """What a gate makes of these lines on one connection, which it has closed by then."""
    found: list[Question] = []
    with connected(gate.path, *lines) as mind:
        heard(gate, mind, lambda question: found.append(question) or "")
    return found


# --- both ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", ["", "read enough", None])
def test_a_question_is_answered_as_it_is_told_to(asking: Asking, answer: str | None) -> None:
    found: list[Question] = []
    assert asking.ask(ASKED, lambda question: found.append(question) or answer) == answer
    assert found == [ASKED]


def test_it_is_opened_and_closed_as_often_as_one_likes(asking: Asking) -> None:
    gate: Gate = asking.gate
    assert gate.open() == gate.open() == asking.path
    gate.close()
    gate.close()
    assert gate.handles() == ()
    gate.serve(lambda question: pytest.fail("nobody can ask"))
    assert gate.open() == asking.path
    assert asking.ask(ASKED, lambda question: "no") == "no"


def test_one_that_was_never_opened_has_nothing_to_serve(short: Path) -> None:
    for gate in (SocketGate(NAME, acted, environ={"XDG_RUNTIME_DIR": str(short)}), MemoryGate()):
        assert gate.handles() == ()
        gate.serve(lambda question: pytest.fail("nobody can ask"))
        gate.close()
    assert list(short.iterdir()) == []


# --- what is asked ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "calls"),
    [
        ({"kind": "read", "target": "a", "part": "3"}, [Call(kind="read", target="a", part="3")]),
        ({"kind": "shell", "target": "cat a.txt"}, [Call(kind="read", target="a.txt")]),
        ({"kind": "run", "target": "printf x > f"}, [Call(kind="write", target="f")]),
        ({"kind": "shell", "target": "make a && ls"}, [Call(kind="search", target="ls"), Call(kind="run", target="make a && ls")]),
        ({"kind": "shell", "target": "sed -n 1,9p a"}, [Call(kind="read", target="a", part="1 9")]),
        ({"kind": "read", "target": "a", "args": {"paths": ["a", "b", 3]}}, [Call(kind="read", target=t) for t in "ab"]),
        ({"kind": "search", "target": "x", "args": {"paths": ["b"]}}, [Call(kind="search", target="x")]),
        ({"kind": "other", "target": "https://example.org"}, [Call(kind="other", target="https://example.org")]),
    ],
)  # fmt: skip
def test_a_line_is_taken_apart_into_its_calls(gate: SocketGate, line: dict[str, Any], calls: list[Call]) -> None:
    assert [list(one.calls) for one in asked(gate, READ | {"target": ""} | line)] == [calls]


def test_what_a_call_came_to_is_taken_and_not_answered(gate: SocketGate) -> None:
    assert asked(gate, READ | {"observed": True}) == []


@pytest.mark.parametrize(
    "line",
    [
        b"not json\n",
        b"[]\n",
        b"\n",
        b"\xff\xfe\n",
        b"[" * 60_000 + b"\n",
        READ | {"kind": "delete"},
        READ | {"token": 7},
        READ | {"args": "a"},
        {"token": "t"},
        b'{"token": "\\ud800"}\n',
    ],
)
def test_what_is_no_question_is_dropped(gate: SocketGate, line: object) -> None:
    assert asked(gate, line) == []


def test_a_line_that_comes_in_pieces_is_one_question(gate: SocketGate) -> None:
    data, found = json.dumps(READ).encode() + b"\n", list[Question]()
    with connected(gate.path, data[:20]) as mind:
        gate.serve(found.append)
        mind.sendall(data[20:-1])
        gate.serve(found.append)
        assert found == []
        mind.sendall(data[-1:])
        assert heard(gate, mind, lambda question: found.append(question) or "") == {"allow": True, "reason": ""}
    assert found == [ASKED]


# --- minds that mean no good -----------------------------------------------------------------------------------------


def test_a_line_without_an_end_is_not_held(gate: SocketGate) -> None:
    with connected(gate.path) as mind:
        mind.setblocking(False)
        gate.serve(lambda question: None)
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            for _ in range(1 + (4 << 20) // MOST_LINE_BYTES):
                try:
                    mind.send(b"x" * MOST_LINE_BYTES)
                except BlockingIOError:
                    gate.serve(lambda question: pytest.fail("this is no question"))


def test_a_silent_one_is_dropped_and_the_others_are_answered_meanwhile(gate: SocketGate) -> None:
    began = time.monotonic()
    with connected(gate.path) as silent:
        gate.serve(lambda question: None)
        with connected(gate.path, READ) as mind:
            assert heard(gate, mind, lambda question: "no") == {"allow": False, "reason": "no"}
        assert time.monotonic() - began < SILENT_SECONDS
        assert heard(gate, silent, lambda question: pytest.fail("nobody asked")) is None
    assert SILENT_SECONDS <= time.monotonic() - began < SILENT_SECONDS + 5
    assert len(gate.handles()) == 1


def test_of_too_many_the_oldest_are_dropped(gate: SocketGate) -> None:
    minds = []
    for _ in range(MOST_CONNECTIONS + 3):
        minds.append(connected(gate.path))
        gate.serve(lambda question: None)
    assert len(gate.handles()) == 1 + MOST_CONNECTIONS
    dropped = [bool(select.select([mind], [], [], 0)[0]) for mind in minds]
    assert dropped == [True] * 3 + [False] * MOST_CONNECTIONS
    for mind in minds:
        mind.close()


def test_one_that_is_gone_before_its_answer_disturbs_nobody(gate: SocketGate) -> None:
    connected(gate.path, READ).close()
    with connected(gate.path, READ | {"id": "2"}) as mind:
        assert heard(gate, mind, lambda question: "no") == {"allow": False, "reason": "no"}


def test_who_hung_up_is_told_from_who_waits(gate: SocketGate) -> None:
    """A hook that waited long enough lets its call run: what it is told then, nobody hears."""
    connected(gate.path, READ).close()
    with connected(gate.path, READ):
        heard_of: list[Question] = []
        while len(heard_of) < 2:
            gate.serve(heard_of.append)
    assert sorted(question.late for question in heard_of) == [False, True]


def test_another_user_is_dropped(gate: SocketGate) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root to be another user")
    gate.path.parent.chmod(0o755)
    gate.path.parent.parent.chmod(0o755)
    gate.path.chmod(0o666)
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.setuid(65534)
            mind = socket.socket(socket.AF_UNIX)
            mind.connect(str(gate.path))
            with contextlib.suppress(ConnectionError):
                mind.sendall(json.dumps(READ).encode() + b"\n")
                assert mind.recv(1) == b""
            code = 0
        finally:
            os._exit(code)
    status, found = (0, 0), list[Question]()
    while status[0] == 0:
        select.select(gate.handles(), [], [], 0.05)
        gate.serve(found.append)
        status = os.waitpid(pid, os.WNOHANG)
    assert (os.waitstatus_to_exitcode(status[1]), found) == (0, [])


# --- where it listens ------------------------------------------------------------------------------------------------


def test_it_is_ours_alone_and_removed_when_it_is_closed(short: Path) -> None:
    before = os.umask(0)
    try:
        gate = SocketGate(NAME, acted, environ={"XDG_RUNTIME_DIR": str(short)})
        path = gate.open()
    finally:
        os.umask(before)
    assert path == short / f"orchconverge-{NAME}" / "gate"
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    gate.close()
    assert list(short.iterdir()) == []


def test_without_a_runtime_folder_it_is_among_the_temporary_files_with_the_user_in_its_name(short: Path) -> None:
    for runtime in (
        {},
        {"XDG_RUNTIME_DIR": ""},
        {"XDG_RUNTIME_DIR": str(short / "missing")},
        {"XDG_RUNTIME_DIR": "run"},
    ):
        gate = SocketGate(NAME, acted, environ={"TMPDIR": str(short), **runtime})
        assert gate.open() == short / f"orchconverge-{os.geteuid()}-{NAME}" / "gate"
        gate.close()


def test_a_socket_that_was_left_there_is_replaced(short: Path) -> None:
    first, second = (SocketGate(NAME, acted, environ={"XDG_RUNTIME_DIR": str(short)}) for _ in range(2))
    assert first.open() == second.open()
    with connected(second.path, READ) as mind:
        assert heard(second, mind, lambda question: "second") == {"allow": False, "reason": "second"}
    second.close()
    first.close()


def test_a_folder_that_is_open_to_others_is_tightened(short: Path) -> None:
    folder = short / f"orchconverge-{NAME}"
    folder.mkdir()
    folder.chmod(0o777)
    gate = SocketGate(NAME, acted, environ={"XDG_RUNTIME_DIR": str(short)})
    gate.open()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    gate.close()


@pytest.mark.parametrize("odd", ["link", "file", "stranger", "no socket", "long"])
def test_a_place_that_is_not_ours_is_refused_and_left_as_it_is(short: Path, odd: str) -> None:
    folder = short / f"orchconverge-{NAME}"
    if odd == "link":
        (short / "elsewhere").mkdir()
        folder.symlink_to(short / "elsewhere")
    elif odd == "file":
        folder.write_text("mine")
    elif odd == "stranger":
        if os.geteuid() != 0:
            pytest.skip("needs root to make a folder of another user")
        folder.mkdir()
        os.chown(folder, 65534, 65534)
    elif odd == "no socket":
        folder.mkdir(mode=0o700)
        (folder / "gate").write_text("mine")
    else:
        (short / ("x" * 90)).mkdir()
    runtime = short / ("x" * 90) if odd == "long" else short
    before = sorted((path, path.lstat()[:6]) for path in short.rglob("*"))
    with pytest.raises(Failed) as refused:
        SocketGate(NAME, acted, environ={"XDG_RUNTIME_DIR": str(runtime)}).open()
    assert refused.value.hint
    assert sorted((path, path.lstat()[:6]) for path in short.rglob("*")) == before
