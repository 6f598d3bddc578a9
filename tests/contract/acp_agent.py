"""An agent that speaks ACP and plays a script: ``acp_agent.py SCRIPT LOG``. What it was sent is in LOG, a JSON line each.

SCRIPT: {"initialize": {...}, "new": {...}, "known": [sessions that can be loaded], "replay": [updates], "deaf": true (to SIGTERM),
"prompts": [[step, ...]]}.
A step is {"update": {...}}, {"ask": {...}} (for permission: params), {"raw": "text"}, {"stderr": "text"}, {"flood": n},
{"request": [method, params]}, {"cancelled": true} (wait for the cancellation), {"hang": true}, {"die": code},
{"leave": argv} (a process that goes on),
{"fail": {code, message, data}} (the prompt's answer is an error) or {"stop": reason, ...} (the prompt's answer).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

script = json.loads(Path(sys.argv[1]).read_text())
SESSION = script.get("session", "s-1")


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def hear() -> dict[str, Any]:
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    with Path(sys.argv[2]).open("a") as log:
        log.write(line)
    message: dict[str, Any] = json.loads(line)
    return message


def update(what: dict[str, Any]) -> None:
    send({"method": "session/update", "params": {"sessionId": SESSION, "update": what}})


def answer_of(number: str) -> None:
    while hear().get("id") != number:
        continue


def hang() -> NoReturn:
    while True:
        signal.pause()


def flood(many: int) -> None:
    piece = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "w "}}
    call = {"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "in_progress", "title": "t"}
    for number in range(many):
        update(piece if number % 2 else call)


def play(steps: list[dict[str, Any]]) -> dict[str, Any]:
    """The prompt's answer."""
    for number, step in enumerate(steps):
        [(what, value), *more] = step.items()
        if what == "update":
            update(value)
        elif what in ("ask", "request"):
            asked = f"q-{number}"
            method, params = value if what == "request" else ("session/request_permission", value)
            send({"id": asked, "method": method, "params": {"sessionId": SESSION, **params}})
            answer_of(asked)
        elif what == "raw":
            sys.stdout.write(value + "\n")
            sys.stdout.flush()
        elif what == "stderr":
            sys.stderr.write(value + "\n")
            sys.stderr.flush()
        elif what == "flood":
            flood(value)
        elif what == "cancelled":
            while hear().get("method") != "session/cancel":
                continue
            return {"result": {"stopReason": "cancelled"}}
        elif what == "leave":
            subprocess.Popen(value, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        elif what == "hang":
            hang()
        elif what == "die":
            os._exit(value)
        elif what == "fail":
            return {"error": value}
        elif what == "stop":
            return {"result": {"stopReason": value, **dict(more)}}
    return {"result": {"stopReason": "end_turn"}}


def main() -> None:
    prompts = iter(script.get("prompts", []))
    if script.get("deaf"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        message = hear()
        method, params = message.get("method"), message.get("params", {})
        answer: dict[str, Any] = {"error": {"code": -32601, "message": "Method not found"}}
        if method == "initialize":
            answer = {"result": {"protocolVersion": 1, **script.get("initialize", {})}}
        elif method == "session/new":
            answer = script.get("new", {"result": {"sessionId": SESSION}})
        elif method in ("session/load", "session/resume"):
            if params["sessionId"] in script.get("known", []):
                for each in script.get("replay", []):
                    update(each)
                answer = {"result": {}}
            else:
                answer = {"error": {"code": -32602, "message": "Invalid session identifier"}}
        elif method == "session/prompt":
            answer = play(next(prompts, []))
        elif method in ("session/set_mode", "session/set_config_option", "authenticate", "_session/steering"):
            answer = {"result": {}}
        if "id" in message:
            send({"id": message["id"], **answer})


main()
