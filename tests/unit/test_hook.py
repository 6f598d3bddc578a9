"""The hook of an agent as a program, what it makes of each agent's calls, and how engines are set up to run it."""

from __future__ import annotations

import json
import shlex
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orchconverge import hook
from orchconverge.adapters.engines import ENGINES
from orchconverge.adapters.engines.hooks import GEMINI_HOME, PLUGIN, claude_settings, command, gemini_home
from orchconverge.ports import Brief
from tests.tools.engines import brief, log, programs, settings

PROGRAM = Path(hook.__file__)
WHY = 'work convergence: "enough" é write x\\y\nnow'
CALL = {"tool_name": "Read", "tool_input": {"file_path": "a.txt"}, "tool_use_id": "1"}


# --- what is asked ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "given", "kind", "target", "part"),
    [
        ("Read", {"file_path": "/w/a", "offset": 10, "limit": 5}, "read", "/w/a", "10 5"),
        ("Read", {"file_path": "/w/a"}, "read", "/w/a", ""),
        ("Write", {"file_path": "/w/a", "content": "x" * 100_000}, "write", "/w/a", ""),
        ("Edit", {"file_path": "/w/a", "old_string": "a", "new_string": "b"}, "write", "/w/a", ""),
        ("MultiEdit", {"file_path": "/w/a", "edits": []}, "write", "/w/a", ""),
        ("NotebookEdit", {"notebook_path": "/w/a.ipynb"}, "write", "/w/a.ipynb", ""),
        ("Glob", {"pattern": "*.py", "path": "/w"}, "search", "*.py", "/w"),
        ("Grep", {"pattern": "x", "path": "/w", "glob": "*.py"}, "search", "x", "/w *.py"),
        ("LS", {"path": "/w"}, "search", "/w", ""),
        ("Bash", {"command": "cat a.txt", "description": "look"}, "shell", "cat a.txt", ""),
        ("WebFetch", {"url": "https://example.org", "prompt": "what"}, "other", "https://example.org", ""),
        ("Task", {"prompt": "look around"}, "other", "look around", ""),
        ("mcp__a__b", {"x": 1}, "other", "", ""),
        ("read_file", {"absolute_path": "/w/a", "offset": 0, "limit": 9}, "read", "/w/a", "0 9"),
        ("write_file", {"file_path": "a", "content": "x"}, "write", "a", ""),
        ("replace", {"file_path": "a", "old_string": "x", "new_string": "y"}, "write", "a", ""),
        ("run_shell_command", {"command": "make"}, "shell", "make", ""),
        ("list_directory", {"dir_path": "/w"}, "search", "/w", ""),
        ("glob", {"pattern": "*"}, "search", "*", ""),
        ("search_file_content", {"pattern": "x", "dir_path": "/w"}, "search", "x", "/w"),
        ("Read", "no object", "read", "", ""),
        ("Read", {"file_path": 7}, "read", "", ""),
    ],
)
def test_each_tool_is_told_of_in_our_words(tool: str, given: object, kind: str, target: str, part: str) -> None:
    asked = hook.question({"tool_name": tool, "tool_input": given, "tool_use_id": "u"}, "t")
    assert (asked["token"], asked["id"], asked["tool"]) == ("t", "u", tool)
    assert (asked["kind"], asked["target"], asked["part"]) == (kind, target, part)
    assert len(hook.encoded(asked)) < 1000


def test_each_of_many_files_is_told_of() -> None:
    asked = hook.question({"tool_name": "read_many_files", "tool_input": {"include": ["a", "b", 3, "c"]}}, "t")
    assert (asked["kind"], asked["target"], asked["args"]) == ("read", "a", {"paths": ["b", "c"]})


def test_of_a_patch_the_files_are_told_however_long_it_is() -> None:
    body = "".join(f"*** Update File: {name}.py\n@@\n" + "+x = 1\n" * 9000 for name in "ab")
    asked = hook.question({"tool_name": "apply_patch", "tool_input": {"command": f"*** Begin Patch\n{body}"}}, "t")
    assert asked["target"] == "*** Begin Patch\n*** Update File: a.py\n*** Update File: b.py"


def test_what_has_no_end_is_cut() -> None:
    for tool, key in (("Bash", "command"), ("Read", "file_path"), ("Task", "prompt")):
        asked = hook.question({"tool_name": tool, "tool_input": {key: "é" * 200_000}, "tool_use_id": "x" * 9999}, "t")
        assert len(hook.encoded(asked)) < 64 << 10


@pytest.mark.parametrize("value", [{"a": ['é\ud800\n"', "", {}], "b": {"c": "\x00\x7f"}}, [], "x"])
def test_what_it_writes_is_json(value: object) -> None:
    assert json.loads(hook.encoded(value)) == json.loads(json.dumps(value).replace("\\ud800", "?"))


# --- the program -----------------------------------------------------------------------------------------------------


@pytest.fixture
def short() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="oc"))
    yield folder
    shutil.rmtree(folder)


class Controller:
    """Listens, and answers one question with these bytes; never, if there are none."""

    def __init__(self, folder: Path, answer: bytes | None) -> None:
        self.path, self.asked, self.over = folder / "gate", list[dict[str, Any]](), threading.Event()
        self._answer = answer
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.path))
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        mind, _ = self._listener.accept()
        with mind, mind.makefile("rb") as said:
            self.asked.append(json.loads(said.readline()))
            if self._answer is None:
                self.over.wait(30)
            else:
                mind.sendall(self._answer)

    def close(self) -> None:
        self.over.set()
        self._thread.join()
        self._listener.close()


def ran(agent: str, path: Path | None, given: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    env = {} if path is None else {"ORCHCONVERGE_ADMISSION": str(path), "ORCHCONVERGE_ADMISSION_TOKEN": "t"}
    argv = [sys.executable, "-I", "-S", str(PROGRAM), agent]
    data = json.dumps(CALL).encode() if given is None else given
    return subprocess.run(argv, input=data, capture_output=True, env=env, timeout=30)


@pytest.mark.parametrize(
    ("agent", "expected"),
    [
        ("claude", {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": WHY}),
        ("codex", {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": WHY}),
        ("gemini", {"decision": "deny", "reason": WHY}),
    ],
)
def test_a_refusal_is_printed_as_the_agent_reads_it(short: Path, agent: str, expected: dict[str, str]) -> None:
    controller = Controller(short, json.dumps({"allow": False, "reason": WHY}).encode() + b"\n")
    done = ran(agent, controller.path)
    controller.close()
    said = json.loads(done.stdout)
    assert (said if agent == "gemini" else said["hookSpecificOutput"]) == expected
    assert (done.returncode, done.stderr) == (0, b"")
    asked = {
        "token": "t",
        "id": "1",
        "tool": "Read",
        "kind": "read",
        "target": "a.txt",
        "part": "",
        "args": {"paths": []},
    }
    assert controller.asked == [asked]


def test_what_is_allowed_says_nothing(short: Path) -> None:
    controller = Controller(short, b'{"allow": true, "reason": ""}\n')
    done = ran("claude", controller.path)
    controller.close()
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.parametrize(
    "answer", [b"", b"\n", b"no json\n", b"{}\n", b'{"allow": "no"}\n', b"[" * 60_000 + b"\n", b"\xff\n"]
)
def test_an_answer_that_is_none_allows_and_says_so(short: Path, answer: bytes) -> None:
    controller = Controller(short, answer)
    done = ran("claude", controller.path)
    controller.close()
    assert allowed(done)


def test_silence_allows_after_a_second(short: Path) -> None:
    controller = Controller(short, None)
    began = time.monotonic()
    done = ran("claude", controller.path)
    took = time.monotonic() - began
    controller.close()
    assert allowed(done)
    assert hook.ANSWER_SECONDS <= took < hook.ANSWER_SECONDS + 5


@pytest.mark.parametrize("given", [b"", b"no json", b"{}", b"[]", b'{"tool_name": 3}', b"\xff\x00", b"[" * 100_000])
def test_a_call_that_is_none_is_allowed(short: Path, given: bytes) -> None:
    assert allowed(ran("claude", short / "gate", given))


def test_where_nobody_listens_it_is_allowed(short: Path) -> None:
    assert allowed(ran("gemini", short / "gate"))
    assert allowed(ran("gemini", Path(f"/{'x' * 300}")))
    assert allowed(ran("gemini", None))


def allowed(done: subprocess.CompletedProcess[bytes]) -> bool:
    assert done.returncode == 0, done
    assert done.stdout == b""
    [line] = done.stderr.splitlines()
    return line.startswith(b"orchconverge: admission did not answer (") and line.endswith(b"): allowed")


def test_it_loads_next_to_nothing() -> None:
    program = (
        "import sys; before = set(sys.modules)\n"
        f"exec(compile(open({str(PROGRAM)!r}).read(), 'hook.py', 'exec'), {{'__name__': 'hook'}})\n"
        "print(*set(sys.modules) - before)"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", program], check=True, capture_output=True, text=True)
    own = {"__future__", "_json", "_socket"}
    assert set(done.stdout.split()) <= own | {
        "os",
        "os.path",
        "posixpath",
        "genericpath",
        "stat",
        "_stat",
        "_collections_abc",
    }


# --- engines ---------------------------------------------------------------------------------------------------------

ODD = ("/a b/python", "-I", "-S", "/it's/hook.py")


def asking(folder: Path) -> Brief:
    return brief(folder=folder / "minds" / "b.1", hook=ODD)


def test_the_line_for_a_shell_is_the_argv_and_never_fails(tmp_path: Path) -> None:
    line = command(asking(tmp_path), "claude")
    assert shlex.split(line) == [*ODD, "claude", "||", "true"]
    done = subprocess.run(["/bin/sh", "-c", line], capture_output=True)
    assert (done.returncode, done.stdout) == (0, b"")


@pytest.mark.parametrize("name", ["claude", "codex", "gemini", "opencode", "acp"])
def test_without_a_hook_nothing_is_set_up(tmp_path: Path, name: str) -> None:
    names = ("claude", "codex", "gemini", "opencode", "claude-agent-acp")
    engine = ENGINES[name]({"PATH": programs(tmp_path, *names), "HOME": str(tmp_path)})
    launch = engine.launch(brief(folder=tmp_path / "m" / "b.1", model="claude" if name == "acp" else ""), settings())
    assert launch.asks == ""
    assert not {"--settings", "-c"} & set(launch.argv)
    assert "GEMINI_CLI_HOME" not in launch.env
    assert "plugin" not in launch.env.get("OPENCODE_CONFIG_CONTENT", "")
    assert PLUGIN not in launch.files
    assert not (tmp_path / "m").exists()


def test_claude_is_told_by_its_command_line(tmp_path: Path) -> None:
    mind = asking(tmp_path)
    launch = ENGINES["claude"]({"PATH": programs(tmp_path, "claude")}).launch(mind, settings())
    assert launch.asks == "hooks"
    assert launch.argv[-2:] == ("--settings", claude_settings(mind))
    [one] = json.loads(claude_settings(mind))["hooks"]["PreToolUse"]
    assert (one["matcher"], one["hooks"][0]["command"]) == ("*", command(mind, "claude"))


@pytest.mark.parametrize(
    "server", ["exit 0", "cat", 'echo \'{"id": 2, "result": {"data": [7]}}\'', "echo oops; exec sleep 30"]
)
def test_a_codex_that_does_not_say_whom_it_trusts_is_started_without_hooks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: str
) -> None:
    monkeypatch.setattr("orchconverge.adapters.engines.hooks.CODEX_SECONDS", 0.5)
    program = tmp_path / "codex"
    program.write_text(f"#!/bin/sh\n{server}\n")
    program.chmod(0o755)
    launch = ENGINES["codex"]({"PATH": f"{tmp_path}:/bin:/usr/bin"}).launch(asking(tmp_path), settings())
    assert launch.asks == ""
    assert "-c" not in launch.argv


def test_codex_is_asked_once_whom_it_trusts_and_told_that(tmp_path: Path) -> None:
    hooks = [
        {"source": "user", "key": "u", "currentHash": "sha256:0"},
        {"source": "sessionFlags", "key": "k:0", "currentHash": "sha256:1"},
    ]
    program = tmp_path / "codex"
    answer = shlex.quote(json.dumps({"id": 2, "result": {"data": [{"hooks": hooks}]}}))
    program.write_text(
        f'#!/bin/sh\necho "$CODEX_HOME $*" >> {tmp_path}/asked\nread a; read b; read c; echo {answer}; cat\n'
    )
    program.chmod(0o755)
    engine = ENGINES["codex"]({"PATH": f"{tmp_path}:/bin:/usr/bin", "HOME": "/nowhere"})
    first, second = (engine.launch(asking(tmp_path), settings()) for _ in range(2))
    assert first == second
    assert first.asks == "hooks"
    assert first.argv[-1] == "-"
    assert first.argv[-3:-1] == ("-c", 'hooks.state={"k:0"={trusted_hash="sha256:1"}}')
    assert json.dumps(command(asking(tmp_path), "codex")) in first.argv[-4]
    [asked] = (tmp_path / "asked").read_text().splitlines()
    home, _, words = asked.partition(" ")
    assert not Path(home).exists()
    assert words.endswith(" app-server")


def test_the_plugin_of_opencode_comes_beside_the_users(tmp_path: Path) -> None:
    config = json.dumps({"plugin": ["theirs"], "theme": "x"})
    engine = ENGINES["opencode"]({"PATH": programs(tmp_path, "opencode"), "OPENCODE_CONFIG_CONTENT": config})
    launch = engine.launch(asking(tmp_path / "ä b"), settings())
    found = json.loads(launch.env["OPENCODE_CONFIG_CONTENT"])
    assert (launch.asks, found["theme"], set(launch.files)) == ("hooks", "x", {PLUGIN})
    assert found["plugin"] == ["theirs", f"file://{tmp_path}/%C3%A4%20b/minds/b.1/{PLUGIN}"]


def test_the_client_of_acp_asks_by_itself(tmp_path: Path) -> None:
    engine = ENGINES["acp"]({"PATH": programs(tmp_path, "claude-agent-acp")})
    launch = engine.launch(brief(folder=tmp_path, model="claude", hook=ODD), settings())
    assert (launch.asks, set(launch.files)) == ("acp", {"acp.json"})


@pytest.mark.parametrize("name", ["claude", "opencode"])
def test_a_refused_call_is_read_as_refused(name: str) -> None:
    call = {"type": "tool_use", "id": "1", "name": "Read", "input": {"file_path": "a.txt"}}
    result = {"type": "tool_result", "tool_use_id": "1", "is_error": True, "content": WHY}
    state = {"status": "error", "input": {"filePath": "a.txt"}, "error": WHY}
    lines: dict[str, tuple[object, ...]] = {
        "claude": (
            {"type": "assistant", "message": {"id": "m", "content": [call]}},
            {"type": "user", "message": {"content": [result]}},
        ),
        "opencode": ({"type": "tool_use", "part": {"tool": "read", "callID": "1", "state": state}},),
    }
    [act] = ENGINES[name]({}).read(log(*lines[name])).acts
    assert (act.kind, act.target, act.ok, act.refused) == ("read", "a.txt", False, True)


# --- gemini's home ---------------------------------------------------------------------------------------------------


@pytest.fixture
def user(tmp_path: Path) -> Path:
    """The home of somebody who has signed in, and whose own hook is there."""
    own = tmp_path / "home" / ".gemini"
    (own / "extensions").mkdir(parents=True)
    (own / "tmp").mkdir()
    (own / "oauth_creds.json").write_text("secret")
    (own / "settings.json").write_text(
        json.dumps({"ui": {"theme": "x"}, "hooks": {"BeforeTool": [{"hooks": ["theirs"]}], "AfterTool": []}})
    )
    return tmp_path / "home"


def test_gemini_has_a_home_that_is_the_users_but_for_the_hook(tmp_path: Path, user: Path) -> None:
    mind = asking(tmp_path)
    before = {path: path.read_bytes() for path in user.rglob("*") if path.is_file()}
    engine = ENGINES["gemini"]({"PATH": programs(tmp_path, "gemini"), "HOME": str(user)})
    launch = engine.launch(mind, settings())
    assert engine.launch(mind, settings()) == launch
    home = mind.folder.parent / GEMINI_HOME
    assert (launch.asks, launch.env) == ("hooks", {"GEMINI_CLI_HOME": str(home)})
    own = home / ".gemini"
    found = json.loads((own / "settings.json").read_text())
    assert (found["ui"], found["hooks"]["AfterTool"]) == ({"theme": "x"}, [])
    theirs, ours = found["hooks"]["BeforeTool"]
    assert theirs == {"hooks": ["theirs"]}
    assert ours["hooks"][0]["command"] == command(mind, "gemini")
    assert {path.name: path.is_symlink() for path in own.iterdir()} == {
        "extensions": True,
        "oauth_creds.json": True,
        "settings.json": False,
    }
    (own / "oauth_creds.json").write_text("renewed")
    assert (user / ".gemini" / "oauth_creds.json").read_text() == "renewed"
    assert [stat.S_IMODE(path.stat().st_mode) for path in (home, own, own / "settings.json")] == [0o700, 0o700, 0o600]
    after = {path: path.read_bytes() for path in user.rglob("*") if path.is_file()}
    assert after == before | {user / ".gemini" / "oauth_creds.json": b"renewed"}


def test_gemini_without_a_home_of_the_users_has_one_with_the_hook_alone(tmp_path: Path) -> None:
    home = gemini_home(asking(tmp_path), {"HOME": str(tmp_path / "new")})
    assert home is not None
    assert list(json.loads((home / ".gemini" / "settings.json").read_text())) == ["hooks"]
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("text", ["{ // a comment\n}", "[]", "", '{"hooksConfig": {"enabled": false}}'])
def test_settings_that_cannot_be_kept_whole_leave_gemini_as_it_is(tmp_path: Path, user: Path, text: str) -> None:
    (user / ".gemini" / "settings.json").write_text(text)
    engine = ENGINES["gemini"]({"PATH": programs(tmp_path, "gemini"), "HOME": str(user)})
    launch = engine.launch(asking(tmp_path), settings())
    assert (launch.asks, launch.env) == ("", {})


def test_a_home_that_cannot_be_made_leaves_gemini_as_it_is(tmp_path: Path, user: Path) -> None:
    mind = asking(tmp_path)
    mind.folder.parent.mkdir()
    (mind.folder.parent / GEMINI_HOME).symlink_to(user)
    before = (user / ".gemini" / "settings.json").read_bytes()
    assert gemini_home(mind, {"HOME": str(user)}) is None
    assert (user / ".gemini" / "settings.json").read_bytes() == before
    assert gemini_home(mind, {"HOME": ""}) is None
