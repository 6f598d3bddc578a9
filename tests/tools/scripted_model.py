"""A model that plays a script on loopback, for the real agent CLIs: no network, no credentials.

It speaks Anthropic Messages, OpenAI Responses, OpenAI Chat Completions and Gemini generateContent, streamed or whole. A rule
is a pattern and a function. The newest prompt decides: the first rule whose pattern is found in it gives the acts, and act
number k answers the request that holds k results of tools since that prompt. So a resumed conversation, which holds the older
prompts too, plays its newest script from the start. After the last act the answer is "done".

Acts are ours; what is called is the tool that does it among those that the CLI offers. A CLI that offers none (aider) is told
in text: all writes of the script in one answer.
"""

from __future__ import annotations

import itertools
import json
import re
import shlex
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

TOKENS_IN, TOKENS_OUT = 100, 20
"""What every answer says it has used."""


@dataclass(frozen=True)
class Say:
    """The final answer of a turn."""

    text: str


@dataclass(frozen=True)
class Call:
    """A call of the tool that does it, after ``seconds`` of thought. ``path`` or ``command`` by what it is.

    ``escalated``: where there is a sandbox, the call is to run outside of it.
    """

    kind: Literal["run", "write", "read"]
    command: str = ""
    path: str = ""
    text: str = ""
    seconds: float = 0.0
    escalated: bool = False


@dataclass(frozen=True)
class Fail:
    """An answer of HTTP, not of the model."""

    status: int
    body: Mapping[str, Any]
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Hang:
    """No answer, as long as the client waits."""


@dataclass(frozen=True)
class Garbage:
    """Bytes that are no answer."""


Act = Say | Call | Fail | Hang | Garbage
Rule = tuple[str, Callable[[str], Sequence[Act]]]


def run(command: str, *, seconds: float = 0.0, escalated: bool = False) -> Call:
    return Call("run", command=command, seconds=seconds, escalated=escalated)


def write(path: str, text: str, *, seconds: float = 0.0) -> Call:
    return Call("write", path=path, text=text, seconds=seconds)


def read(path: str, *, seconds: float = 0.0) -> Call:
    return Call("read", path=path, seconds=seconds)


@dataclass(frozen=True)
class Asked:
    """One request for a turn of work: every prompt that the conversation holds, and the act it was answered with."""

    prompts: tuple[str, ...]
    act: Act


# --- tools of the CLIs -----------------------------------------------------------------------------------------------

WRITERS = {"Write": ("file_path", "content"), "write": ("filePath", "content"), "write_file": ("file_path", "content")}
READERS = {"Read": "file_path", "read": "filePath", "read_file": "file_path"}
SHELLS = {"Bash": "command", "bash": "command", "run_shell_command": "command", "exec_command": "cmd"}


def as_call(act: Call, tools: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """The tool on offer that does it, and its arguments: the shell where there is no other."""
    command = act.command
    if act.kind == "write":
        for name in WRITERS.keys() & set(tools):
            path, text = WRITERS[name]
            return name, {path: act.path, text: act.text}
        command = f"printf %s {shlex.quote(act.text)} > {shlex.quote(act.path)}"
    if act.kind == "read":
        for name in READERS.keys() & set(tools):
            return name, {READERS[name]: act.path}
        command = f"cat {shlex.quote(act.path)}"
    name = next(name for name in SHELLS if name in tools)
    described = {"description": "scripted"} if name != "exec_command" else {}
    if act.escalated and name == "exec_command":
        described = {"sandbox_permissions": "require_escalated", "justification": "scripted"}
    return name, {SHELLS[name]: command, **described}


def in_words(acts: Sequence[Act]) -> Act:
    """All that a script writes, as aider reads it: a path, and the whole file in a fence."""
    other = next((act for act in acts if isinstance(act, Fail | Hang | Garbage)), None)
    if other is not None:
        return other
    blocks = [f"{act.path}\n```\n{act.text}```\n" for act in acts if isinstance(act, Call) and act.kind == "write"]
    last = next((act.text for act in acts if isinstance(act, Say)), "")
    return Say("\n".join([*blocks, last]))


# --- conversations ---------------------------------------------------------------------------------------------------


def texts(node: Any) -> str:
    """The text of a message's content, whatever the API."""
    if isinstance(node, str):
        return node
    if isinstance(node, dict):
        return node["text"] if isinstance(node.get("text"), str) else ""
    return "\n".join(filter(None, map(texts, node or [])))


def results(message: dict[str, Any]) -> int:
    """How many results of tools a message of a conversation holds."""
    if message.get("role") == "tool" or message.get("type") == "function_call_output":
        return 1
    content = message.get("content", message.get("parts"))
    blocks = content if isinstance(content, list) else []
    return sum(block.get("type") == "tool_result" or "functionResponse" in block for block in blocks)


def conversation(request: dict[str, Any]) -> tuple[tuple[str, ...], int]:
    """Its prompts, and how many results of tools came after the last one."""
    prompts: list[str] = []
    since = 0
    for message in request.get("messages") or request.get("input") or request.get("contents") or []:
        found = results(message)
        since += found
        if not found and message.get("role") == "user":
            prompts.append(texts(message.get("content", message.get("parts"))))
            since = 0
    return tuple(prompts), since


def offered(request: dict[str, Any]) -> list[str]:
    """The names of the tools that the client has."""
    names: list[str] = []
    for tool in request.get("tools") or []:
        names += [each["name"] for each in tool.get("functionDeclarations", [])]
        names.append(tool.get("function", {}).get("name") or tool.get("name") or "")
    return [name for name in names if name]


class Model(ThreadingHTTPServer):
    """The server. ``asked`` are the requests for a turn of work, in order, ``newest`` the last of
    them whole; ``bare``: the client (aider) offers no tools."""

    daemon_threads = True

    def __init__(self, rules: Sequence[Rule], *, bare: bool = False) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.rules = rules
        self.bare = bare
        self.asked: list[Asked] = []
        self.newest: dict[str, Any] = {}
        self.numbers = itertools.count(1)
        """Messages and calls need ids of their own: Claude Code merges messages of one id when it resumes."""
        self.over = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def act(self, request: dict[str, Any]) -> Act:
        """The next act for a conversation."""
        prompts, done = conversation(request)
        tools = offered(request)
        if not tools and (not self.bare or "commit message" in json.dumps(request)):
            return Say("a title")
        self.newest = request
        said = "\n".join(prompts if self.bare else prompts[-1:])
        acts = next((acts(said) for pattern, acts in self.rules if re.search(pattern, said)), ())
        act = (acts[done] if done < len(acts) else Say("done")) if tools else in_words(acts)
        self.asked.append(Asked(prompts, act))
        return act

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that was killed in the middle is what these tests are about."""


# --- the wire --------------------------------------------------------------------------------------------------------


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Model

    def log_message(self, *args: object) -> None:
        """Not on the terminal of the tests."""

    def do_HEAD(self) -> None:
        self._send(b"", "text/plain")

    def do_GET(self) -> None:
        listed = [{"id": "scripted", "object": "model", "created": 1, "owned_by": "script"}]
        self._json({"object": "list", "data": listed, "models": []})

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        path = self.path.partition("?")[0]
        apis = {
            "/messages": self._messages,
            "/chat/completions": self._chat,
            "/responses": self._responses,
            "eneratecontent": self._gemini,
        }
        answer = next((apis[end] for end in apis if path.lower().endswith(end)), None)
        if answer is None:
            return self._json({"input_tokens": TOKENS_IN, "totalTokens": TOKENS_IN})
        act = self.server.act(request)
        if isinstance(act, Fail):
            return self._send(json.dumps(act.body).encode(), "application/json", status=act.status, more=act.headers)
        if isinstance(act, Garbage):
            return self._send(b"\x00\xff no answer {" * 50, "text/event-stream")
        if isinstance(act, Hang):
            self.server.over.wait()
            return None
        if isinstance(act, Call):
            self.server.over.wait(act.seconds)
        return answer(request, act, next(self.server.numbers))

    def _messages(self, request: dict[str, Any], act: Say | Call, number: int) -> None:
        if isinstance(act, Say):
            block: dict[str, Any] = {"type": "text", "text": ""}
            delta, why = {"type": "text_delta", "text": act.text}, "end_turn"
        else:
            name, arguments = as_call(act, offered(request))
            block = {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": {}}
            delta, why = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}, "tool_use"
        usage = {"input_tokens": TOKENS_IN, "output_tokens": TOKENS_OUT}
        message = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": request["model"]}
        message |= {"content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
        self._events(
            {"type": "message_start", "message": message},
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": why, "stop_sequence": None}, "usage": usage},
            {"type": "message_stop"},
        )

    def _responses(self, request: dict[str, Any], act: Say | Call, number: int) -> None:
        if isinstance(act, Say):
            said = {"type": "output_text", "text": act.text, "annotations": []}
            item: dict[str, Any] = {"type": "message", "id": f"m_{number}", "role": "assistant", "content": [said]}
        else:
            name, arguments = as_call(act, offered(request))
            item = {"type": "function_call", "id": f"f_{number}", "call_id": f"call_{number}", "name": name}
            item["arguments"] = json.dumps(arguments)
        item["status"] = "completed"
        usage = {"input_tokens": TOKENS_IN, "output_tokens": TOKENS_OUT, "total_tokens": TOKENS_IN + TOKENS_OUT}
        usage |= {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
        done = {"id": f"resp_{number}", "object": "response", "created_at": 1, "status": "completed", "usage": usage}
        done |= {"model": request["model"], "output": [item]}
        self._events(
            {"type": "response.created", "response": {**done, "status": "in_progress", "output": []}},
            {"type": "response.output_item.added", "output_index": 0, "item": item},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": done},
        )

    def _chat(self, request: dict[str, Any], act: Say | Call, number: int) -> None:
        message: dict[str, Any] = {"role": "assistant", "content": act.text if isinstance(act, Say) else ""}
        why = "stop"
        if isinstance(act, Call):
            name, arguments = as_call(act, offered(request))
            called = {"name": name, "arguments": json.dumps(arguments)}
            message["tool_calls"] = [{"index": 0, "id": f"call_{number}", "type": "function", "function": called}]
            why = "tool_calls"
        usage = {"prompt_tokens": TOKENS_IN, "completion_tokens": TOKENS_OUT, "total_tokens": TOKENS_IN + TOKENS_OUT}
        base = {"id": f"c_{number}", "created": 1, "model": request["model"]}
        if not request.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": why}
            return self._json({**base, "object": "chat.completion", "choices": [choice], "usage": usage})
        base["object"] = "chat.completion.chunk"
        return self._events(
            {**base, "choices": [{"index": 0, "delta": message, "finish_reason": None}]},
            {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": why}]},
            {**base, "choices": [], "usage": usage},
            last="data: [DONE]\n\n",
        )

    def _gemini(self, request: dict[str, Any], act: Say | Call, number: int) -> None:
        part: dict[str, Any] = {"text": act.text} if isinstance(act, Say) else {}
        if isinstance(act, Call):
            name, arguments = as_call(act, offered(request))
            part = {"functionCall": {"name": name, "args": arguments}}
        used = {"promptTokenCount": TOKENS_IN, "candidatesTokenCount": TOKENS_OUT}
        used["totalTokenCount"] = TOKENS_IN + TOKENS_OUT
        candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
        reply = {
            "candidates": [candidate],
            "usageMetadata": used,
            "modelVersion": "scripted",
            "responseId": str(number),
        }
        return self._events(reply) if "stream" in self.path.lower() else self._json(reply)

    def _json(self, body: object) -> None:
        self._send(json.dumps(body).encode(), "application/json")

    def _events(self, *events: Mapping[str, Any], last: str = "") -> None:
        named = ((f"event: {event['type']}\n" if "type" in event else "", json.dumps(event)) for event in events)
        said = "".join(f"{name}data: {data}\n\n" for name, data in named)
        self._send((said + last).encode(), "text/event-stream")

    def _send(self, body: bytes, kind: str, *, status: int = 200, more: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"content-type": kind, "content-length": str(len(body)), **(more or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


@contextmanager
def model(rules: Sequence[Rule], *, bare: bool = False) -> Iterator[Model]:
    """A model that answers until the context is left."""
    with Model(rules, bare=bare) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.over.set()
            server.shutdown()
            thread.join()
