"""The agent's process, and its standard streams as messages."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from typing import Any

from orchconverge.acp_client.telling import stray

LONGEST_LINE_BYTES = 16 << 20
MOST_STRAY_LINES = 200
LEAVE_SECONDS = 1.0
"""For an agent to end by itself; then TERM, and as long again KILL."""


async def started(argv: list[str], cwd: str) -> asyncio.subprocess.Process:
    """The agent, in a process group of its own. Raises `OSError`."""
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(
        *argv, cwd=cwd, stdin=pipe, stdout=pipe, stderr=pipe, limit=1 << 17, process_group=0
    )


async def ended(agent: asyncio.subprocess.Process) -> None:
    """See that the agent and its group are gone. What has left the group is the supervisor's."""
    for number in (None, signal.SIGTERM, signal.SIGKILL):
        if number is None and agent.stdin is not None:
            agent.stdin.close()
        elif number is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(agent.pid, number)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(agent.wait(), LEAVE_SECONDS)
            break
    with contextlib.suppress(ProcessLookupError):
        os.killpg(agent.pid, signal.SIGKILL)


class Wire:
    """Messages, a line each. What would break the SDK's connection (0.12.1 ends at what is no object) does not get through."""

    def __init__(self, agent: asyncio.subprocess.Process) -> None:
        assert agent.stdin is not None
        assert agent.stdout is not None
        assert agent.stderr is not None
        self._reader, self._errors, self._writer = agent.stdout, agent.stderr, agent.stdin
        self._rest, self._looked, self._strays = bytearray(), 0, 0

    async def send(self, message: dict[str, Any]) -> None:
        """Write a message. Raises `OSError` if the agent is gone."""
        self._writer.write(json.dumps(message).encode() + b"\n")
        await self._writer.drain()

    async def receive(self) -> dict[str, Any] | None:
        """The next message; ``None`` at the end."""
        while (line := await self._line()) is not None:
            if (message := _message(line)) is not None:
                return message
            self._stray(line)
        return None

    async def close(self) -> None:
        """Nothing more is said to the agent."""
        self._writer.close()

    async def errors(self) -> None:
        """Pass on what the agent says on its standard error, as long as anybody holds it."""
        rest = b""
        while piece := await self._errors.read(1 << 16):
            *lines, rest = (rest[-LONGEST_LINE_BYTES:] + piece).split(b"\n")
            for line in lines:
                self._stray(line)
        self._stray(rest)

    async def _line(self) -> bytes | None:
        while (end := self._rest.find(b"\n", self._looked)) < 0:
            self._looked = len(self._rest)
            piece = await self._reader.read(1 << 16)
            if not piece:
                return None
            self._rest += piece
            if len(self._rest) > LONGEST_LINE_BYTES and b"\n" not in piece:
                self._rest[:], self._looked = b"too long: ", 0  # with its end it makes a line that is no message
        line = bytes(self._rest[:end]).strip()
        del self._rest[: end + 1]
        self._looked = 0
        return line

    def _stray(self, line: bytes) -> None:
        self._strays += bool(line)
        if line and self._strays <= MOST_STRAY_LINES:
            stray(line.decode("utf-8", "replace"))


def _message(line: bytes) -> dict[str, Any] | None:
    """The message that a line is, if it is one."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict) or type(message.get("id", 0)) not in (int, str):
        return None
    return message if isinstance(message.get("error", {}), dict) else None
