"""The controller's admission, where there is one: asked before a call, told how it ended."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os

from orchconverge.acp_client.spec import get, words
from orchconverge.acp_client.telling import Call, tell

ANSWER_SECONDS = 2.0


class Admission:
    """A stream socket: a JSON line asked, a JSON line answered. It is about convergence, so silence allows, and is counted."""

    def __init__(self) -> None:
        self._path = os.environ.get("ORCHCONVERGE_ADMISSION", "")
        self._token = os.environ.get("ORCHCONVERGE_ADMISSION_TOKEN", "")
        self._silent = 0

    async def refusal(self, key: str, call: Call) -> str:
        """Why a call is refused; empty if it is not, or if nobody says so in time."""
        if not self._path:
            return ""
        args = {"command": call.command, "paths": call.paths, "query": call.query, "title": call.title}
        question = {"tool": call.name or call.kind, "args": args, **self._about(key, call)}
        answer: object = None
        with contextlib.suppress(OSError, ValueError, TimeoutError):
            async with asyncio.timeout(ANSWER_SECONDS):
                answer = json.loads(await self._say(question, answered=True))
        if not isinstance(get(answer, "allow"), bool):
            self._silent += 1
            tell("admission did not answer: allowed", admission={"silent": self._silent})
            return ""
        return "" if get(answer, "allow") else words(get(answer, "reason"), 2000) or "admission refused it"

    async def observed(self, key: str, call: Call) -> None:
        """Say how a call ended."""
        if self._path:
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(ANSWER_SECONDS):
                    done = call.status == "completed" and not call.exit
                    await self._say({"observed": done, **self._about(key, call)})

    def _about(self, key: str, call: Call) -> dict[str, object]:
        return {"token": self._token, "id": key, "kind": call.ours, "target": call.target or call.title}

    async def _say(self, line: dict[str, object], *, answered: bool = False) -> bytes:
        reader, writer = await asyncio.open_unix_connection(self._path)
        try:
            writer.write(json.dumps(line).encode() + b"\n")
            await writer.drain()
            return await reader.readline() if answered else b""
        finally:
            writer.close()
