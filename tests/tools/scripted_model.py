"""A model that plays a script: the streaming half of the Anthropic Messages API on loopback, for the real agent CLI.

A rule is a pattern and a function. The newest prompt decides: the first rule whose pattern is found in it gives the acts,
and act number k answers the request that holds k results of tools since that prompt. So a resumed conversation, which holds
the older prompts too, plays its newest script from the start. After the last act the answer is "done".
"""

from __future__ import annotations

import itertools
import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOKENS_IN, TOKENS_OUT = 100, 20
"""What every answer says it has used."""


@dataclass(frozen=True)
class Say:
    """The final answer of a turn."""

    text: str


@dataclass(frozen=True)
class Call:
    """A call of one of the agent's tools, after ``seconds`` of thought."""

    tool: str
    arguments: dict[str, Any]
    seconds: float = 0.0


Act = Say | Call
Rule = tuple[str, Callable[[str], Sequence[Act]]]


def run(command: str, *, seconds: float = 0.0) -> Call:
    return Call("Bash", {"command": command, "description": "scripted"}, seconds)


def write(path: str, text: str, *, seconds: float = 0.0) -> Call:
    return Call("Write", {"file_path": path, "content": text}, seconds)


@dataclass(frozen=True)
class Asked:
    """One request for a turn of work: every prompt that the conversation holds, and the act it was answered with."""

    prompts: tuple[str, ...]
    act: Act


class Model(ThreadingHTTPServer):
    """The server. ``asked`` are the requests that offered tools, in order."""

    daemon_threads = True

    def __init__(self, rules: Sequence[Rule]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.rules = rules
        self.asked: list[Asked] = []
        self.numbers = itertools.count(1)
        """Messages and calls need ids of their own: Claude Code merges messages of one id when it resumes."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def act(self, request: dict[str, Any]) -> Act:
        """The next act for a conversation."""
        if not request.get("tools"):
            return Say("a title")
        prompts: list[str] = []
        results = 0
        for message in request["messages"]:
            blocks = message["content"]
            blocks = [{"type": "text", "text": blocks}] if isinstance(blocks, str) else blocks
            if message["role"] != "user":
                continue
            found = sum(block["type"] == "tool_result" for block in blocks)
            results += found
            if not found:
                prompts.append("\n".join(block["text"] for block in blocks if block["type"] == "text"))
                results = 0
        acts = next((acts(prompts[-1]) for pattern, acts in self.rules if re.search(pattern, prompts[-1])), ())
        act = acts[results] if results < len(acts) else Say("done")
        self.asked.append(Asked(tuple(prompts), act))
        return act

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that was killed in the middle is what these tests are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Model

    def log_message(self, *args: object) -> None:
        """Not on the terminal of the tests."""

    def do_HEAD(self) -> None:
        self._send(b"", "text/plain")

    def do_GET(self) -> None:
        self._send(b'{"data": []}', "application/json")

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if not self.path.partition("?")[0].endswith("/v1/messages"):
            return self._send(json.dumps({"input_tokens": TOKENS_IN}).encode(), "application/json")
        act = self.server.act(request)
        time.sleep(act.seconds if isinstance(act, Call) else 0)
        number = next(self.server.numbers)
        if isinstance(act, Say):
            block: dict[str, Any] = {"type": "text", "text": ""}
            delta, why = {"type": "text_delta", "text": act.text}, "end_turn"
        else:
            block = {"type": "tool_use", "id": f"toolu_{number}", "name": act.tool, "input": {}}
            delta, why = {"type": "input_json_delta", "partial_json": json.dumps(act.arguments)}, "tool_use"
        usage = {"input_tokens": TOKENS_IN, "output_tokens": TOKENS_OUT}
        message = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": request["model"]}
        message |= {"content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
        events: list[dict[str, Any]] = [
            {"type": "message_start", "message": message},
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": why, "stop_sequence": None}, "usage": usage},
            {"type": "message_stop"},
        ]
        said = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
        return self._send(said.encode(), "text/event-stream")

    def _send(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def model(rules: Sequence[Rule]) -> Iterator[Model]:
    """A model that answers until the context is left."""
    with Model(rules) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
