"""The parts of the supervisor that can be looked at without starting anything, and its terminal."""

import ast
import fcntl
import json
import os
import pty
import select
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchconverge import pane

HOSTILE = "\x1b]52;c;ZXZpbA==\x07 \x1b]0;title\x07 \x1b[31m \x9b2J \u202e \u2066 \u200b \x7f \x00 \r"


def test_it_is_one_short_file_that_imports_nothing_but_the_standard_library() -> None:
    source = Path(pane.__file__).read_text()
    assert len(source.splitlines()) <= 600
    imported = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(node.module or "")
    assert imported <= set(sys.stdlib_module_names)


@given(st.text())
def test_b184_cleaned_text_is_one_line_of_printable_characters(text: str) -> None:
    cleaned = pane.clean(text)
    assert len(cleaned) <= 201
    assert not any(ord(c) < 32 or 0x7F <= ord(c) < 0xA0 or 0x202A <= ord(c) <= 0x202E for c in cleaned)
    cleaned.encode()


def test_b184_escapes_are_removed_from_plain_lines_and_from_within_json() -> None:
    message = {"type": "assistant", "message": {"content": [{"type": "text", "text": HOSTILE + "shown"}]}}
    for line in (
        HOSTILE.encode() + b"shown",
        json.dumps(message).encode(),
        json.dumps(message, ensure_ascii=False).encode(),
    ):
        [shown] = pane.render(line)
        assert "shown" in shown
        assert not set(shown) & set("\x1b\x07\x9b\u202e\u2066\u200b\x7f\x00\r\n")


def test_a_coding_agents_messages_are_shown_as_words_calls_and_result() -> None:
    parts: list[dict[str, Any]] = [
        {"type": "text", "text": "I look\nfirst"},
        {"type": "tool_use", "name": "Read", "input": {"path": "a.py"}},
    ]
    assert pane.render(json.dumps({"type": "assistant", "message": {"content": parts}}).encode()) == [
        "» I look first",
        '→ Read {"path": "a.py"}',
    ]
    assert pane.render(b'{"type":"result","subtype":"success","result":"done"}') == ["· result success done"]
    assert pane.render(b'{"type":"system","subtype":"init"}') == ["· system init"]


@pytest.mark.parametrize(
    ("engine", "first", "last"),
    [
        ("codex", "· item.started /bin/bash -lc 'cat a.txt'", "· item.completed all done"),
        ("gemini", "· tool_use read_file", "· message all done"),
        ("opencode", "· tool_use read", "· text all done"),
    ],
)
def test_of_the_messages_of_other_agents_those_with_words_are_shown(engine: str, first: str, last: str) -> None:
    log = Path(__file__).parents[1] / "data" / "engines" / f"{engine}-work.log"
    shown = [text for line in log.read_bytes().splitlines() for text in pane.render(line)]
    assert first in shown
    assert shown[-1] == last
    assert [text for text in shown if text.startswith("·") and len(text.split()) < 3] == []


@pytest.mark.parametrize(
    "line",
    [
        b'{"type":"item.started"}',
        b'{"type":"step_start","part":{"id":"prt_1","snapshot":"790a"}}',
        b'{"type":"tool_result","status":"success","output":"","content":""}',
        b'{"type":"user","message":{"content":[{"type":"tool_result"}]}}',
    ],
)
def test_a_message_without_words_is_not_shown(line: bytes) -> None:
    assert pane.render(line) == []


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"{}",
        b'{"type":5}',
        b'{"type":"assistant","message":7}',
        b'{"type":"assistant","message":{"content":"text"}}',
        b'{"type":"assistant","message":{"content":[1]}}',
        b'{"type":"assistant","message":{"content":[{"type":"tool_use"}]}}',
        b'{"type":"\\ud800"}',
        b'{"a":' * 5000,
        b'{"a":' + b"9" * 5000 + b"}",
        b"\xff\xfe",
        b"",
    ],
)
def test_b66_no_shape_of_a_line_is_too_odd_to_be_read(line: bytes) -> None:
    for shown in pane.render(line):
        shown.encode()


def shown_by_screen(data: bytes, size: int, *, now: float = 100.0) -> bytes:
    """What a terminal would be sent if ``data`` came in pieces of ``size``."""
    reading, writing = os.pipe2(os.O_NONBLOCK)
    poller = select.poll()
    screen = pane.Screen(poller)
    screen.close()
    screen.fd = writing
    poller.register(writing, select.POLLOUT)
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 1 << 20)
    for start in range(0, len(data), size):
        screen.feed(memoryview(data[start : start + size]), now)
    screen.tick(now)
    screen.tick(now + 1.5)
    screen.close()
    with os.fdopen(reading, "rb") as file:
        return file.read()


def test_what_is_shown_does_not_depend_on_how_the_output_was_cut() -> None:
    message = json.dumps({"type": "assistant", "message": {"content": [{"type": "text", "text": "häh \x1b[2J"}]}})
    data = f"one\n\n{message}\nzwei ü\n{HOSTILE}\nlast".encode()
    whole = shown_by_screen(data, len(data))
    assert whole.startswith(b"one\r\n\r\n")
    assert b"\x1b" not in whole
    assert b"last" not in whole
    for size in (1, 2, 3, 7, 64):
        assert shown_by_screen(data, size) == whole


def test_lines_over_the_rate_are_counted_and_long_ones_cut() -> None:
    assert shown_by_screen(b"y\n" * 1000, 4096).endswith("y\r\n… 800 lines not shown\r\n".encode())
    shown = shown_by_screen(b"x" * 300_000 + b"\nnext\n", 65_000)
    assert len(shown) < 200
    assert shown.endswith(b"bytes]\r\nnext\r\n")


def test_the_log_keeps_its_head_and_the_last_two_tails_and_counts_the_rest(tmp_path: Path) -> None:
    log = pane.Log(str(tmp_path), 10, 4)
    data = bytes(range(65, 65 + 25))
    for start in range(0, 25, 3):
        log.write(memoryview(data[start : start + 3]))
    kept = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert kept == {"log.head": data[:10], "log.tail.2": data[18:22], "log.tail.3": data[22:]}
    assert (log.total, log.lost, log.error) == (25, 8, None)


def test_a_process_is_read_right_whatever_it_calls_itself(tmp_path: Path) -> None:
    program = tmp_path / "a) R 1 (b"
    program.write_bytes(Path("/bin/sleep").read_bytes())
    program.chmod(0o700)
    with subprocess.Popen([program, "60"]) as sleeper:
        read = pane.Process(sleeper.pid)
        sleeper.kill()
    assert (read.comm, read.parent) == ("a) R 1 (b", os.getpid())
    with pytest.raises(OSError, match=r"No such|no such"):
        pane.Process(sleeper.pid)


def git(cwd: Path, *words: str) -> None:
    identity = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "PATH": os.environ["PATH"]}
    options = ("-c", "user.name=t", "-c", "user.email=t@t", "-c", "init.defaultBranch=main")
    subprocess.run(["git", *options, *words], cwd=cwd, env=identity, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "repo")
    git(tmp_path / "repo", "commit", "--allow-empty", "-m", "first")
    git(tmp_path / "repo", "worktree", "add", "-b", "topic/x", "../tree")
    return tmp_path


def enter(cwd: Path, branch: str | None) -> str:
    """Why the place was refused, or nothing."""
    fields = {"v": 1, "dir": "/", "name": "n", "cwd": str(cwd), "branch": branch, "argv": ["true"], "env": {}}
    before = Path.cwd()
    try:
        os.close(pane.enter(pane.Spec(fields, "/")))
    except pane.RefusalError as refusal:
        return str(refusal.args[1])
    finally:
        os.chdir(before)
    return ""


def test_b33_b34_a_work_tree_is_entered_only_if_git_and_the_branch_agree(repository: Path) -> None:
    tree, repo = repository / "tree", repository / "repo"
    assert enter(tree, "topic/x") == ""
    assert enter(repo, "main") == ""
    assert enter(repository, None) == ""
    assert "is not on main" in enter(tree, "main")
    assert "is not on x" in enter(tree, "x")
    assert "cannot be used" in enter(repository, "main")
    assert "cannot be used" in enter(repository / "gone", None)
    git(tree, "checkout", "--detach")
    assert "is not on topic/x" in enter(tree, "topic/x")


def test_b34_a_copy_of_a_linked_work_tree_is_not_that_work_tree(repository: Path) -> None:
    copy = repository / "copy"
    copy.mkdir()
    (copy / ".git").write_bytes((repository / "tree" / ".git").read_bytes())
    assert "is not the work tree that git knows" in enter(copy, "topic/x")


class Terminal:
    """A pane of our own: the supervisor on a pseudo terminal that it controls."""

    def __init__(self, folder: Path, script: str) -> None:
        folder.mkdir(mode=0o700)
        self.folder = folder
        fields = {"v": 1, "dir": str(folder), "name": "t.1", "cwd": "/", "argv": ["/bin/sh", "-c", script], "env": {}}
        (folder / "spec.json").write_text(json.dumps(fields))
        self.master, slave = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-X", "utf8", "-I", "-S", pane.__file__, str(folder / "spec.json")],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - no threads here
        )
        os.close(slave)

    def read_until(self, text: bytes) -> bytes:
        seen = b""
        while text not in seen:
            seen += os.read(self.master, 4096)
        return seen

    def end(self) -> dict[str, Any]:
        self.process.wait(timeout=20)
        record = json.loads((self.folder / "exit.json").read_bytes())
        assert isinstance(record, dict)
        return record


def test_the_pane_shows_a_header_the_output_made_harmless_and_the_end(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path / "run", r"printf 'hello \033]0;x\007\n'; exit 3")
    seen = terminal.read_until(b"ended:")
    record = terminal.end()
    assert record["code"] == terminal.process.returncode == 3
    assert seen.decode().split()[:6] == ["[orchconverge]", "t.1", "started", "in", "/", "hello"]
    assert "hello �]0;x�\r" in seen.decode()
    assert b"\x1b" not in seen
    assert (tmp_path / "run" / "log.head").read_bytes() == b"hello \x1b]0;x\x07\n"
    os.close(terminal.master)


def test_b72_keys_in_the_pane_do_nothing(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    terminal = Terminal(tmp_path / "run", f"read line < {gate}; echo went on; exit 4")
    terminal.read_until(b"started")
    os.write(terminal.master, b"\x03\x1a\x1c\x13\x04\r")
    with gate.open("w") as file:
        file.write("go\n")
    terminal.read_until(b"went on")
    assert terminal.end()["code"] == 4
    os.close(terminal.master)


def test_b81_it_outlives_its_terminal(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    terminal = Terminal(tmp_path / "run", f"read line < {gate}; echo went on; exit 5")
    terminal.read_until(b"started")
    os.close(terminal.master)
    with gate.open("w") as file:
        file.write("go\n")
    record = terminal.end()
    assert (record["reason"], record["code"], record["bytes"], record["hangups"]) == ("exited", 5, 8, 1)
