"""The hook of an agent: it asks the controller's admission before a tool call, and prints a refusal as the agent reads it.

Run as ``python -I -S hook.py AGENT`` for each call, with the agent's account of it on standard input. It always ends with 0:
admission is about convergence, so whatever fails here, or does not answer within `ANSWER_SECONDS`, allows the call and says so
in a line on standard error. Where to ask is in ``ORCHCONVERGE_ADMISSION`` and ``ORCHCONVERGE_ADMISSION_TOKEN``.

What an agent does by itself with a hook that crashes or hangs stands in `orchconverge.adapters.engines.hooks`.
"""

from __future__ import annotations

import _json  # `json` and `socket` around these cost 10 ms for each call of a tool, as much as Python's own start
import _socket
import os
import sys

TYPE_CHECKING = False  # importing typing costs as much
if TYPE_CHECKING:
    from collections.abc import Iterator

ANSWER_SECONDS = 1.0
MOST_STDIN_BYTES, MOST_ANSWER_BYTES = 16 << 20, 1 << 16
LONGEST, LONGEST_COMMAND, MOST_PATHS = 600, 8000, 20

READ, SEARCH, WRITE, SHELL = "read", "search", "write", "shell"
TOOLS: dict[str, tuple[str, tuple[str, ...]]] = {
    # claude
    "Read": (READ, ("file_path",)),
    "NotebookRead": (READ, ("notebook_path",)),
    "Glob": (SEARCH, ("pattern",)),
    "Grep": (SEARCH, ("pattern",)),
    "LS": (SEARCH, ("path",)),
    "Write": (WRITE, ("file_path",)),
    "Edit": (WRITE, ("file_path",)),
    "MultiEdit": (WRITE, ("file_path",)),
    "NotebookEdit": (WRITE, ("notebook_path",)),
    "Bash": (SHELL, ("command",)),  # codex calls its shell so too
    # codex
    "apply_patch": (SHELL, ("command", "input", "patch")),
    "view_image": (READ, ("path",)),
    # gemini
    "read_file": (READ, ("file_path", "absolute_path")),
    "read_many_files": (READ, ("include", "paths")),
    "list_directory": (SEARCH, ("dir_path", "path")),
    "glob": (SEARCH, ("pattern",)),
    "grep_search": (SEARCH, ("pattern",)),
    "search_file_content": (SEARCH, ("pattern",)),
    "write_file": (WRITE, ("file_path",)),
    "replace": (WRITE, ("file_path",)),
    "run_shell_command": (SHELL, ("command",)),
}
"""A tool's name -> what it does in our words, and where its input says to what."""
PARTS = {
    READ: ("offset", "limit", "pages", "start_line", "end_line"),
    SEARCH: ("path", "dir_path", "glob", "include", "include_pattern", "type", "output_mode"),
}
"""What of an input tells one look at the same target from another."""


class _Reading:
    """How JSON is read, for the scanner of the standard library."""

    strict = False
    object_hook = object_pairs_hook = None
    parse_float, parse_int, parse_constant = float, int, float


def decoded(data: bytes) -> object:
    """What JSON text means. Raises `ValueError`, and `StopIteration` where nothing can begin."""
    scan = _json.make_scanner(_Reading)  # type: ignore[arg-type]  # its stub knows no other reader than `json`'s own
    return scan(data.decode("utf-8", "replace").strip(), 0)[0]


def encoded(value: object) -> str:
    """Text, lists and objects as JSON; a half character becomes a question mark."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{encoded(key)}:{encoded(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(encoded, value)) + "]"
    return _json.encode_basestring_ascii(str(value).encode("utf-8", "replace").decode())


def texts(value: object) -> Iterator[str]:
    """The texts that an input's value consists of: one, or a list of them."""
    for each in value if isinstance(value, list) else [value]:
        if isinstance(each, str) and each:
            yield each


def question(asked: object, token: str) -> dict[str, object]:
    """What the admission is asked about a call that an agent tells of. Raises `TypeError` and the like for what is no call."""
    if not isinstance(asked, dict) or not isinstance(tool := asked.get("tool_name"), str):
        raise TypeError("this is no tool call")
    given = asked.get("tool_input")
    values = given if isinstance(given, dict) else {}
    kind, keys = TOOLS.get(tool, ("other", ("url", "query", "file_path", "path", "prompt")))
    found = [each for key in keys for each in texts(values.get(key))] or [""]
    target, most = found[0], LONGEST
    if kind == SHELL:
        target, most = patched(target), LONGEST_COMMAND
    parts = [str(values[key]) for key in PARTS.get(kind, ()) if key not in keys and values.get(key) is not None]
    return {
        "token": token,
        "id": str(asked.get("tool_use_id") or asked.get("timestamp") or "")[:LONGEST],
        "tool": tool[:LONGEST],
        "kind": kind,
        "target": target[:most],
        "part": " ".join(parts)[:LONGEST],
        "args": {"paths": [each[:LONGEST] for each in found[1:MOST_PATHS]] if kind == READ else []},
    }


def patched(command: str) -> str:
    """A command, of a patch in it only what it is about: the rest may be of any length."""
    if "*** Begin Patch" not in command:
        return command
    kept = [line for line in command.splitlines() if line.startswith(("*** ", "apply_patch"))]
    return "\n".join(kept)


def answer(path: str, asked: dict[str, object]) -> str:
    """Why the call is refused; empty if it is allowed. Raises `OSError` and `ValueError` without an answer."""
    gate = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        gate.settimeout(ANSWER_SECONDS)
        gate.connect(path)
        gate.sendall(encoded(asked).encode() + b"\n")
        line = b""
        while not line.endswith(b"\n") and len(line) < MOST_ANSWER_BYTES and (more := gate.recv(MOST_ANSWER_BYTES)):
            line += more
    finally:
        gate.close()
    said = decoded(line) if line else None
    if not isinstance(said, dict) or not isinstance(said.get("allow"), bool):
        raise ValueError("no answer")
    return "" if said["allow"] else str(said.get("reason") or "admission refused it")


def refusal(agent: str, why: str) -> str:
    """What the agent's hook has to print so that the call does not run and the model is told why."""
    if agent == "gemini":
        return encoded({"decision": "deny", "reason": why})
    said = {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": why}
    return encoded({"hookSpecificOutput": said})


def main(agent: str) -> None:
    """Ask about the call on standard input."""
    path, token = (os.environ.get(f"ORCHCONVERGE_ADMISSION{end}", "") for end in ("", "_TOKEN"))
    try:
        asked = question(decoded(sys.stdin.buffer.read(MOST_STDIN_BYTES)), token)
        why = answer(path, asked)
    except Exception as fault:
        sys.stderr.write(f"orchconverge: admission did not answer ({fault or type(fault).__name__}): allowed\n")
        return
    if why:
        sys.stdout.write(refusal(agent, why) + "\n")


if __name__ == "__main__":
    main(sys.argv[-1])
