"""Runs mini-swe-agent on the brief from standard input, and prints what its trajectory says as lines of JSON.

    python -I -S mini_stream.py PROGRAM FOLDER --cost-limit=DOLLARS [--model=NAME] <BRIEF

One object a line: ``asked`` (what the model said, its commands, what it used), ``ran`` (a command's code and the end of its
output), ``exit`` (why it ended, and what it handed in). Its errors are passed on as they are; its code is ours. The brief
goes into a config file in FOLDER, never into an argument. Standard library only: it imports nothing of ours.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

SHIPPED = "../config/mini.yaml"
"""Mini's own config. By its plain name one of the repository's would be taken."""
LOOKS_SECONDS = 0.2
LONGEST = 2000


def mapping(value: object) -> dict[str, Any]:
    """The object that it is, or an empty one."""
    return value if isinstance(value, dict) else {}


def yaml(value: object) -> str:
    """JSON as YAML reads it: of a character beyond 16 bits it knows one escape, JSON the two of UTF-16."""
    return re.sub(
        r"\\\\|\\u(d[89ab]..)\\u(d[c-f]..)",
        lambda found: "\\U{:08x}".format(ord(json.loads(f'"{found[0]}"'))) if found[1] else found[0],
        json.dumps(value),
    )


def told(message: dict[str, Any]) -> dict[str, Any] | None:
    """A message of the trajectory as a line of ours, if it is one that tells something."""
    role, extra, content = message.get("role"), mapping(message.get("extra")), message.get("content")
    if role == "assistant":
        actions = [mapping(action) for action in extra.get("actions") or []]
        response = mapping(extra.get("response"))
        return {
            "type": "asked",
            "text": content,
            "commands": [{"id": action.get("tool_call_id"), "command": action.get("command")} for action in actions],
            "model": response.get("model"),
            "usage": response.get("usage"),
            "cost": extra.get("cost"),
        }
    if role == "tool":
        output = str(extra.get("raw_output") or extra.get("exception_info") or "")[-LONGEST:]
        code = None if extra.get("exception_info") else extra.get("returncode")
        return {"type": "ran", "id": message.get("tool_call_id"), "returncode": code, "output": output}
    if role == "exit":
        return {"type": "exit", "status": extra.get("exit_status"), "text": content, "at": time.time()}
    return None


def follow(trajectory: Path, shown: int) -> int:
    """Print the messages from number ``shown`` on; how many there are now. It may be looked at while it is written."""
    try:
        messages = mapping(json.loads(trajectory.read_bytes())).get("messages") or []
    except (OSError, ValueError):
        return shown
    for message in messages[shown:]:
        line = told(mapping(message))
        if line is not None:
            print(json.dumps(line), flush=True)
    return len(messages)


def main() -> int:
    """Run it, and give its code."""
    program, folder, *words = sys.argv[1:]
    config, trajectory = Path(folder) / "mini-brief.yaml", Path(folder) / "mini-trajectory.json"
    config.write_text(yaml({"run": {"task": sys.stdin.buffer.read().decode("utf-8", "replace")}}))
    files = ["--config", SHIPPED, "--config", str(config), "--output", str(trajectory)]
    argv = [program, "--yolo", "--exit-immediately", *files, *words]
    stamp, shown = -1, 0
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as mini:
        while True:
            ended = mini.poll() is not None
            now = trajectory.stat().st_mtime_ns if trajectory.exists() else -1
            if ended or now != stamp:
                stamp, shown = now, follow(trajectory, shown)
            if ended:
                return mini.returncode if mini.returncode >= 0 else 128 - mini.returncode
            time.sleep(LOOKS_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
