"""The ACP client on an agent that plays a script: what it sends, what it tells, how it ends. Both are real processes."""

from __future__ import annotations

import json
import os
import re
import resource
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from acp import schema
from pydantic import BaseModel

from orchconverge.pane import render

AGENT = Path(__file__).with_name("acp_agent.py")
SECONDS = 60.0
OPTIONS = [
    {"kind": "allow_always", "optionId": "proceed-always"},
    {"kind": "reject_always", "optionId": "never"},
    {"kind": "reject_once", "optionId": "cancel"},
    {"kind": "allow_once", "optionId": "accept"},
]
"""As agents have them: in any order, with ids of their own."""


def update(what: str, /, **more: Any) -> dict[str, Any]:
    return {"update": {"sessionUpdate": what, **more}}


def says(text: str) -> dict[str, Any]:
    return update("agent_message_chunk", content={"type": "text", "text": text})


def call(key: str, **more: Any) -> dict[str, Any]:
    return update("tool_call", toolCallId=key, **more)


def asks(key: str, *options: Mapping[str, str], **more: Any) -> dict[str, Any]:
    return {"ask": {"toolCall": {"toolCallId": key, **more}, "options": [*(options or OPTIONS)]}}


class Talk:
    """A client and its agent. ``said`` is the client's output once it has ended."""

    def __init__(self, root: Path) -> None:
        self.root, self.tree, self.log = root, root / "tree", root / "log"
        self.tree.mkdir()
        self.said = b""
        self.process: subprocess.Popen[bytes]

    def start(self, *prompts: list[dict[str, Any]], env: Mapping[str, str] | None = None, **more: Any) -> None:
        script, spec = self.root / "script.json", self.root / "spec.json"
        own = {key: more.pop(key) for key in ("initialize", "new", "known", "replay", "deaf") if key in more}
        script.write_text(json.dumps({"prompts": prompts, **own}))
        (self.root / "prompt").write_text("the brief")
        told = {"argv": [sys.executable, str(AGENT), str(script), str(self.log)], "cwd": str(self.tree)}
        spec.write_text(json.dumps({**told, "prompt": str(self.root / "prompt"), "commands": ["git commit"], **more}))
        command = [sys.executable, "-P", "-X", "utf8", "-m", "orchconverge.acp_client", str(spec)]
        clean = {"PATH": os.environ["PATH"], "HOME": str(self.root), **(env or {})}
        self.process = subprocess.Popen(command, env=clean, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def end(self) -> int:
        """Await the end. The exit code."""
        self.said += self.process.communicate(timeout=SECONDS)[0]
        return self.process.returncode

    def play(self, *prompts: list[dict[str, Any]], **more: Any) -> int:
        self.start(*prompts, **more)
        return self.end()

    def until(self, mark: bytes) -> None:
        """Read output until it holds ``mark``."""
        assert self.process.stdout is not None
        ends = time.monotonic() + SECONDS
        while mark not in self.said:
            assert select.select([self.process.stdout], [], [], max(0.0, ends - time.monotonic()))[0], self.said
            piece = os.read(self.process.stdout.fileno(), 1 << 16)
            assert piece, self.said
            self.said += piece

    def told(self, key: str) -> list[Any]:
        """The facts of this name, in order."""
        lines = [json.loads(line) for line in self.said.split(b"\n") if line.startswith(b"{")]
        return [line["acp"][key] for line in lines if key in line["acp"]]

    def text(self) -> str:
        lines = [json.loads(line) for line in self.said.split(b"\n") if line.startswith(b"{")]
        return "".join(line["message"]["content"][0]["text"] for line in lines if "text" in line["acp"])

    def pane(self) -> list[str]:
        """What the supervisor's pane shows of it."""
        return [shown for line in self.said.split(b"\n") if line for shown in render(line)]

    def heard(self, method: str | None = None) -> list[dict[str, Any]]:
        """What the agent was sent: requests of a method, or answers."""
        lines = [json.loads(line) for line in self.log.read_bytes().splitlines()]
        return [line for line in lines if line.get("method") == method]

    def answers(self) -> list[str]:
        """The options that were chosen, by their ids; ``cancelled`` where none was."""
        outcomes = [line["result"]["outcome"] for line in self.heard()]
        return [outcome.get("optionId", outcome["outcome"]) for outcome in outcomes]

    def prompts(self) -> list[str]:
        return [line["params"]["prompt"][0]["text"] for line in self.heard("session/prompt")]

    def close(self) -> list[str]:
        """Whoever is left with our HOME, ended."""
        left = []
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and f"HOME={self.root}".encode() in (entry / "environ").read_bytes().split(
                    b"\0"
                ):
                    left.append((entry / "cmdline").read_bytes().decode())
                    os.kill(int(entry.name), signal.SIGKILL)
            except OSError:
                continue
        return left


REQUESTS: Mapping[str, type[BaseModel]] = {
    "initialize": schema.InitializeRequest,
    "authenticate": schema.AuthenticateRequest,
    "session/new": schema.NewSessionRequest,
    "session/load": schema.LoadSessionRequest,
    "session/resume": schema.ResumeSessionRequest,
    "session/set_mode": schema.SetSessionModeRequest,
    "session/set_config_option": schema.SetSessionConfigOptionSelectRequest,
    "session/prompt": schema.PromptRequest,
    "session/cancel": schema.CancelNotification,
}


def hold_against_the_schema(sent: list[dict[str, Any]]) -> None:
    """All that the client says is what the SDK's models of the protocol say, with no field that they do not know."""
    for message in sent:
        method, params = message.get("method"), message.get("params")
        if method is None and "result" in message:
            method, params = "an answer", message["result"]
        if method is None or method.startswith("_") or params == {}:
            continue
        model = REQUESTS.get(method, schema.RequestPermissionResponse)
        found = model.model_validate(params)
        assert found.model_dump(mode="json", by_alias=True, exclude_unset=True) == params, method


@pytest.fixture
def talk(tmp_path: Path) -> Iterator[Talk]:
    talk = Talk(tmp_path)
    yield talk
    assert not talk.close(), "a process was left"
    if talk.log.exists():
        hold_against_the_schema([json.loads(line) for line in talk.log.read_bytes().splitlines()])


# --- a turn ----------------------------------------------------------------------------------------------------------


def test_a_turn_is_begun_told_and_ended(talk: Talk) -> None:
    steps = [
        update("agent_thought_chunk", content={"type": "text", "text": "first I look" + " around" * 100}),
        says("I will "),
        says("write it.\nThen I am do"),
        says("ne.\n"),
        update("plan", entries=[{"content": "write it", "status": "pending", "priority": "high"}]),
        update("available_commands_update", availableCommands=[]),
        update("usage_update", used=120, size=1000, cost={"amount": 0.25, "currency": "USD"}),
        call("1", kind="read", status="pending", title="Read a.txt", rawInput={}),
        update("tool_call_update", toolCallId="1", status="completed", rawInput={"file_path": "a.txt"}),
        call("2", kind="edit", status="in_progress", title="Write b", locations=[{"path": "b.txt", "line": 1}]),
        update(
            "tool_call_update",
            toolCallId="2",
            status="completed",
            content=[{"type": "diff", "path": "b.txt", "oldText": "x\n", "newText": "x\n"}],
        ),
        call("3", kind="execute", status="in_progress", rawInput={"command": ["/bin/bash", "-lc", "git commit -m x"]}),
        update("tool_call_update", toolCallId="3", status="completed", rawOutput={"exit_code": 1}),
        call("4", kind="execute", status="failed", title="make", rawInput={"command": "make"}),
        {"stop": "end_turn", "usage": {"inputTokens": 7, "outputTokens": 2, "totalTokens": 9}},
    ]
    assert talk.play(steps, initialize={"agentInfo": {"name": "an-agent", "version": "2"}}) == 0
    assert [line["params"]["protocolVersion"] for line in talk.heard("initialize")] == [1]
    assert talk.heard("initialize")[0]["params"]["clientCapabilities"] == {}, "neither files nor terminals are offered"
    assert [line["params"]["cwd"] for line in talk.heard("session/new")] == [str(talk.tree)]
    assert talk.prompts() == ["the brief"]
    assert (talk.told("session"), talk.told("agent")) == (["s-1"], ["an-agent 2"])
    assert talk.text() == "I will write it.\nThen I am done.\n"
    assert [len(thought) for thought in talk.told("thought")] == [300]
    ended = [each for each in talk.told("call") if each["status"] in ("completed", "failed")]
    assert [(each["id"], each["kind"], each["target"], each["status"], each.get("exit")) for each in ended] == [
        ("1", "read", "a.txt", "completed", None),
        ("2", "write", "b.txt", "completed", None),
        ("3", "run", "git commit -m x", "completed", 1),
        ("4", "run", "make", "failed", None),
    ]
    assert ended[1]["diff"] == {"b.txt": [2, 2, True]}
    assert talk.told("stop") == ["end_turn"]
    assert (talk.told("usage"), talk.told("usd")) == ([{"inputTokens": 7, "outputTokens": 2, "totalTokens": 9}], [0.25])
    assert not (talk.root / "spec.json").exists()


def test_the_pane_shows_sentences(talk: Talk) -> None:
    steps = [says("hello"), call("1", kind="edit", locations=[{"path": "b.txt"}]), {"stop": "end_turn"}]
    talk.play(steps)
    assert talk.pane() == [
        "· the agent in session s-1",
        "» hello",
        "· → write b.txt",
        "· ended its turn: end_turn",
    ]


def test_mode_and_model_are_set_where_they_are_offered(talk: Talk) -> None:
    modes = {"currentModeId": "auto", "availableModes": [{"id": "auto"}, {"id": "default"}]}
    option = {"id": "model", "category": "model", "currentValue": "small", "type": "select"}
    new = {"result": {"sessionId": "s-1", "modes": modes, "configOptions": [option]}}
    assert talk.play([], new=new, mode="default", model="large", auth="key", meta={"own": 1}) == 0
    assert [line["params"]["modeId"] for line in talk.heard("session/set_mode")] == ["default"]
    assert [line["params"]["value"] for line in talk.heard("session/set_config_option")] == ["large"]
    assert [line["params"]["_meta"] for line in talk.heard("session/new")] == [{"own": 1}]
    assert talk.heard("authenticate") == [], "it is not among the methods that the agent has"
    assert talk.told("model") == ["large"]


def test_it_signs_in_where_the_agent_has_that_method(talk: Talk) -> None:
    assert talk.play([], initialize={"authMethods": [{"id": "key"}]}, auth="key") == 0
    assert [line["params"]["methodId"] for line in talk.heard("authenticate")] == ["key"]


# --- permission ------------------------------------------------------------------------------------------------------


def test_it_allows_what_is_granted_once_and_refuses_the_rest_once(talk: Talk) -> None:
    outside = talk.root / "elsewhere.txt"
    cases: list[tuple[dict[str, Any], str]] = [
        ({"kind": "edit", "locations": [{"path": str(talk.tree / "a.txt")}]}, "accept"),
        ({"kind": "read", "rawInput": {"path": "a.txt"}}, "accept"),
        ({"kind": "search", "rawInput": {"pattern": "x"}}, "accept"),
        ({"kind": "execute", "rawInput": {"command": "git commit -q -m 'it; is' && ls"}}, "accept"),
        ({"kind": "execute", "title": "git commit -m x"}, "accept"),
        ({"kind": "edit", "locations": [{"path": str(outside)}]}, "cancel"),
        ({"kind": "edit", "locations": [{"path": "../elsewhere.txt"}]}, "cancel"),
        ({"kind": "edit", "locations": [{"path": ".git/hooks/pre-commit"}]}, "cancel"),
        ({"kind": "edit", "title": "some file"}, "cancel"),
        ({"kind": "execute", "rawInput": {"command": "rm -rf ."}}, "cancel"),
        ({"kind": "execute"}, "cancel"),
        ({"kind": "fetch", "rawInput": {"url": "http://x"}}, "cancel"),
        ({"kind": {"no": "kind"}, "title": 7}, "cancel"),
    ]
    asked = [step for n, (what, _) in enumerate(cases) for step in (asks(str(n), **what), says("on"))]
    assert talk.play([*asked, {"stop": "end_turn"}]) == 0
    assert talk.answers() == [answer for _, answer in cases]
    assert [each["allowed"] for each in talk.told("permission")] == [answer == "accept" for _, answer in cases]
    assert talk.prompts() == ["the brief"], "it went on by itself after each"


def test_with_everything_granted_nothing_is_refused(talk: Talk) -> None:
    assert talk.play([asks("1", kind="execute", rawInput={"command": "rm -rf /x"})], anything=True) == 0
    assert talk.answers() == ["accept"]


def test_options_it_cannot_choose_from_are_declined(talk: Talk) -> None:
    steps = [asks("1", {"kind": "new_kind", "optionId": "x"}, kind="read"), says("on"), {"stop": "end_turn"}]
    assert talk.play(steps) == 0
    assert talk.answers() == ["cancelled"]
    assert talk.play([asks("1", {"kind": "allow_always", "optionId": "ever"}, kind="read")]) == 0
    assert talk.answers()[-1] == "ever"


@pytest.mark.parametrize("stop", ["cancelled", "end_turn"])
def test_a_turn_that_a_refusal_ended_is_prompted_again_with_the_reason(talk: Talk, stop: str) -> None:
    refused = [asks("1", kind="execute", rawInput={"command": "make"}), {"stop": stop}]
    assert talk.play(refused, [says("another way"), {"stop": "end_turn"}]) == 0
    first, second = talk.prompts()
    assert first == "the brief"
    assert "- make: `make` is not among the commands that are granted" in second
    assert [line["params"]["sessionId"] for line in talk.heard("session/prompt")] == ["s-1", "s-1"]
    assert talk.text() == "another way"


def test_it_is_prompted_again_three_times_at_most(talk: Talk) -> None:
    refused = [asks("1", kind="execute", rawInput={"command": "make"}), {"stop": "cancelled"}]
    assert talk.play(*[refused] * 6) == 1
    assert len(talk.prompts()) == 4
    assert "4 prompts" in talk.told("error")[0]


def test_an_agent_that_can_be_steered_is_told_why_at_once(talk: Talk) -> None:
    steps = [asks("1", kind="fetch"), {"request": ["unknown/method", {}]}, says("on"), {"stop": "end_turn"}]
    assert talk.play(steps, initialize={"_meta": {"steering": {"supported": True}}}) == 0
    [steered] = talk.heard("_session/steering")
    assert "calls of kind fetch are not granted" in steered["params"]["prompt"][0]["text"]


# --- admission -------------------------------------------------------------------------------------------------------


@contextmanager
def controller(path: Path, *answers: bytes) -> Iterator[list[dict[str, Any]]]:
    """A socket that answers questions with these, in order, and keeps all that it was told."""
    heard: list[dict[str, Any]] = []
    rest = list(answers)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()

        def serve() -> None:
            while True:
                try:
                    end, _ = listening.accept()
                except OSError:
                    return
                with end, end.makefile("rb") as lines:
                    line = lines.readline()
                    if not line:
                        return
                    heard.append(json.loads(line))
                    if "observed" not in heard[-1] and rest:
                        end.sendall(rest.pop(0))
                    lines.read()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield heard
        finally:
            with socket.socket(socket.AF_UNIX) as last:
                last.connect(str(path))
            thread.join()


def admitted(talk: Talk) -> dict[str, str]:
    return {"ORCHCONVERGE_ADMISSION": str(talk.root / "gate"), "ORCHCONVERGE_ADMISSION_TOKEN": "t0k"}


def test_admission_is_asked_before_what_is_granted_and_told_how_it_ended(talk: Talk) -> None:
    why = "you have read a.txt four times; write out.txt"
    steps = [
        asks("1", kind="read", locations=[{"path": "a.txt"}]),
        update("tool_call_update", toolCallId="1", status="failed"),
        says("I see"),
        asks("2", kind="edit", locations=[{"path": "out.txt"}]),
        update("tool_call_update", toolCallId="2", status="completed"),
        {"stop": "end_turn"},
    ]
    refusal = json.dumps({"allow": False, "reason": why}).encode() + b"\n"
    with controller(talk.root / "gate", refusal, b'{"allow": true, "reason": ""}\n') as heard:
        assert talk.play(steps, env=admitted(talk)) == 0
    assert talk.answers() == ["cancel", "accept"]
    assert talk.told("permission")[0]["why"] == why
    assert all(line["token"] == "t0k" for line in heard)
    asked = [(line["id"], line["kind"], line["target"]) for line in heard if "observed" not in line]
    assert asked == [("1", "read", "a.txt"), ("2", "write", "out.txt")]
    assert sorted((line["id"], line["observed"]) for line in heard if "observed" in line) == [("1", False), ("2", True)]
    assert not talk.told("admission")


def test_a_turn_is_cut_at_what_admission_refuses_and_prompted_again_with_the_reason(talk: Talk) -> None:
    why = "you have read a.txt four times; write out.txt"
    refusal = json.dumps({"allow": False, "reason": why}).encode() + b"\n"
    loop = [asks("1", kind="read", locations=[{"path": "a.txt"}]), {"cancelled": True}]
    with controller(talk.root / "gate", refusal, refusal, b'{"allow": true}\n'):
        assert talk.play(loop, loop, [asks("2", kind="edit", locations=[{"path": "out.txt"}])], env=admitted(talk)) == 0
    assert talk.answers() == ["cancel", "cancel", "accept"]
    assert [why in prompt for prompt in talk.prompts()] == [False, True, True]
    with controller(talk.root / "gate2", *[refusal] * 9):
        assert talk.play(*[loop] * 9, env={**admitted(talk), "ORCHCONVERGE_ADMISSION": str(talk.root / "gate2")}) == 1
    assert len(talk.prompts()) == 3 + 4, "then it is denied"


@pytest.mark.parametrize("answer", [b"no json\n", b'{"allow": "yes"}\n', b"[]\n"])
def test_what_is_no_answer_of_admission_allows_and_is_counted(talk: Talk, answer: bytes) -> None:
    with controller(talk.root / "gate", answer):
        assert talk.play([asks("1", kind="read"), {"stop": "end_turn"}], env=admitted(talk)) == 0
    assert talk.answers() == ["accept"]
    assert talk.told("admission") == [{"silent": 1}]


def test_nobody_and_nothing_at_the_admission_s_socket_allow(talk: Talk) -> None:
    assert talk.play([asks("1", kind="read"), {"stop": "end_turn"}], env=admitted(talk)) == 0
    with controller(talk.root / "gate"):
        began = time.monotonic()
        assert talk.play([asks("1", kind="read"), {"stop": "end_turn"}], env=admitted(talk)) == 0
        assert time.monotonic() - began >= 2.0
    assert talk.answers() == ["accept", "accept"]
    assert talk.told("admission") == [{"silent": 1}, {"silent": 1}]


# --- continuing ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "able"),
    [
        ("session/load", {"loadSession": True}),
        ("session/resume", {"loadSession": True, "sessionCapabilities": {"resume": {}}}),
    ],
)
def test_a_session_is_kept_and_continued_and_its_past_is_not_told_again(
    talk: Talk, method: str, able: dict[str, Any]
) -> None:
    kept = talk.root / "session"
    assert talk.play([says("one")], session=str(kept)) == 0
    assert kept.read_text() == "s-1"
    past = [call("old", kind="edit", status="completed", locations=[{"path": "a"}])["update"], says("one")["update"]]
    how = {"initialize": {"agentCapabilities": able}, "known": ["s-1"], "replay": past}
    talk.said = b""
    assert talk.play([says("two")], session=str(kept), resume=True, **how) == 0
    assert [line["params"]["sessionId"] for line in talk.heard(method)] == ["s-1"]
    assert (talk.text(), talk.told("call")) == ("two", [])
    assert len(talk.heard("session/new")) == 1


def test_a_session_that_is_not_known_is_lost_and_said(talk: Talk) -> None:
    (talk.root / "session").write_text("s-9")
    how: dict[str, Any] = {
        "initialize": {"agentCapabilities": {"loadSession": True}},
        "session": str(talk.root / "session"),
    }
    assert talk.play([says("never")], resume=True, **how) == 1
    assert talk.told("failed") == ["lost"]
    assert "Invalid session identifier" in talk.told("error")[0]
    assert talk.heard("session/prompt") == []


@pytest.mark.parametrize(("able", "loads"), [({}, True), ({"loadSession": True}, False)])
def test_an_agent_that_cannot_load_gets_a_new_session(talk: Talk, able: dict[str, Any], loads: bool) -> None:
    kept = talk.root / "session"
    kept.write_text("s-0")
    how: dict[str, Any] = {"initialize": {"agentCapabilities": able}, "session": str(kept), "loads": loads}
    assert talk.play([says("new")], resume=True, **how) == 0
    assert kept.read_text() == "s-1"


# --- ends ------------------------------------------------------------------------------------------------------------


def test_a_stop_cancels_the_session(talk: Talk) -> None:
    talk.start([says("working\n"), {"cancelled": True}])
    talk.until(b"working")
    talk.process.terminate()
    assert talk.end() == 143
    assert [line["params"]["sessionId"] for line in talk.heard("session/cancel")] == ["s-1"]
    assert talk.told("stop") == ["cancelled"]
    assert talk.prompts() == ["the brief"]


def test_an_agent_that_hears_no_cancellation_is_ended(talk: Talk) -> None:
    talk.start([says("working\n"), {"hang": True}], deaf=True)
    talk.until(b"working")
    talk.process.terminate()
    assert talk.end() == 143
    assert talk.told("stop") == []


def test_a_stop_before_there_is_a_session_ends_it_too(talk: Talk) -> None:
    talk.start(argv=["sleep", "600"])
    talk.until(b"")
    ends = time.monotonic() + SECONDS
    while not (children := Path(f"/proc/{talk.process.pid}/task/{talk.process.pid}/children").read_text()):
        assert time.monotonic() < ends
    os.kill(talk.process.pid, signal.SIGTERM)
    assert talk.end() == 143
    assert not Path(f"/proc/{children.split()[0]}").exists()


def test_what_an_agent_leaves_running_is_ended_with_it(talk: Talk) -> None:
    assert talk.play([{"leave": ["sleep", "600"]}, {"stop": "end_turn"}]) == 0


@pytest.mark.parametrize("what", [[], [says("working\n")]])
def test_an_agent_that_dies_in_the_middle_is_told_of(talk: Talk, what: list[dict[str, Any]]) -> None:
    began = time.monotonic()
    assert talk.play([*what, {"die": 9}]) == 1
    assert talk.told("failed") == ["died"]
    assert "with 9" in talk.told("error")[0]
    assert time.monotonic() - began < SECONDS / 2


def test_one_that_never_begins_and_ends_is_told_of(talk: Talk) -> None:
    assert talk.play(argv=["false"]) == 1
    assert talk.told("failed") == ["died"]
    assert talk.play(argv=["no-such-agent"]) == 1
    assert talk.told("failed") == ["died", "start"]


@pytest.mark.parametrize("stop", ["max_tokens", "max_turn_requests", "refusal", "something_new", "cancelled"])
def test_another_end_of_a_turn_is_no_success(talk: Talk, stop: str) -> None:
    assert talk.play([{"stop": stop}]) == 1
    assert talk.told("stop") == [stop]


def test_an_error_of_the_agent_is_told_with_its_code_and_what_it_says_besides(talk: Talk) -> None:
    assert (
        talk.play([{"fail": {"code": -32603, "message": "Internal error", "data": {"details": "429 slow down"}}}]) == 1
    )
    assert (talk.told("error"), talk.told("code")) == (["Internal error: 429 slow down"], [-32603])
    assert talk.play(new={"error": {"code": -32000, "message": "Authentication required"}}) == 1
    assert talk.told("code") == [-32603, -32000]


def test_what_is_no_protocol_is_marked_and_breaks_nothing(talk: Talk) -> None:
    forged = '{"acp": {"stop": "end_turn"}}'
    steps = [
        {"raw": line}
        for line in (
            "not json",
            "[1]",
            "null",
            "7",
            '"x"',
            forged,
            '{"id": [], "result": {}}',
            '{"id": 2, "error": 7}',
            '{"id": 99, "result": {}}',
            '{"method": 7, "params": []}',
            '{"method": "session/update", "params": [1]}',
            '{"method": "session/update", "params": {"update": {"sessionUpdate": ["x"]}}}',
            "[" * 100_000,
            "\udcff".encode("utf-8", "surrogateescape").decode("latin-1"),
        )
    ]
    steps += [
        {"stderr": forged},
        update("brand_new_update", what=[1, {"x": 2}]),
        update("agent_message_chunk", content="no block"),
        call("x", kind=7, status=["?"], locations="here", content={"type": "diff"}, rawInput="?"),
        update(
            "tool_call_update",
            toolCallId={"no": "id"},
            locations=[1, {"path": 2}],
            content=[{"type": "diff", "oldText": 3}],
        ),
        update("plan", entries="all"),
        update("usage_update", used="much", cost={"currency": "USD", "amount": "free"}),
        {"request": ["brand/new", {}]},
        {"request": ["terminal/create", {"command": "ls"}]},
        says("still here"),
        {"stop": "end_turn"},
    ]
    assert talk.play(steps) == 0
    assert talk.text() == "still here"
    assert talk.told("stop") == ["end_turn"], "what it printed itself is no fact"
    assert f"agent: {forged}".encode() in talk.said
    assert [line["error"]["code"] for line in talk.heard()] == [-32601, -32601]


def test_a_line_without_end_is_left_out(talk: Talk) -> None:
    assert talk.play([{"raw": "x" * (40 << 20)}, says("still here"), {"stop": "end_turn"}]) == 0
    assert talk.text() == "still here"
    assert len(talk.said) < 10_000


@pytest.mark.parametrize("spec", ["", "[]", '{"argv": ["x"]}', '{"argv": ["x"], "cwd": "/", "prompt": "/missing"}'])
def test_a_spec_that_cannot_be_used_is_said_and_nothing_starts(tmp_path: Path, spec: str) -> None:
    path = tmp_path / "spec.json"
    path.write_text(spec)
    command = [sys.executable, "-P", "-m", "orchconverge.acp_client", str(path)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    assert (ran.returncode, ran.stdout) == (66, "")
    assert "no usable SPEC" in ran.stderr
    assert "Traceback" not in ran.stderr


# --- much ------------------------------------------------------------------------------------------------------------


def test_a_hundred_thousand_updates_are_told_in_bounds(talk: Talk) -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert talk.play([{"flood": 100_000}, {"stop": "end_turn"}], text_bytes=20_000) == 0
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert talk.told("stop") == ["end_turn"]
    assert len(talk.said) < 10 << 20
    assert len(talk.text()) <= 20_000 + 900
    seconds = after.ru_utime - before.ru_utime
    print(f"100,000 updates: {seconds:.1f} s of CPU for client and agent, {len(talk.said) / 1e6:.1f} MB told")
    assert seconds < 60
    assert re.search(rb"says more than is kept", talk.said)
