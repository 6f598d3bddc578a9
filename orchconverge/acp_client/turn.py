"""The conversation with one agent: a session, a prompt, its questions, and a prompt again where a refusal ended its turn."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections import OrderedDict
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING

from orchconverge.acp_client.admission import Admission
from orchconverge.acp_client.permission import refusal
from orchconverge.acp_client.spec import Spec, each, get, words
from orchconverge.acp_client.telling import ENDED, Call, Complaints, Speech, tell
from orchconverge.acp_client.wire import Wire

if TYPE_CHECKING:
    from acp.connection import Connection

START_SECONDS = 180.0
"""An agent that has no session by then has none: opencode takes 24 s in a new HOME."""
CANCEL_SECONDS = 2.0
MOST_PROMPTS = 4
"""The first, and three with the reason after a refusal that ended the turn."""
MOST_CALLS = 1000
AUTH_REQUIRED = -32000


class Lost(Exception):
    """The session that was to be continued is not known."""


class Turn:
    """Raises nothing of its own but `Lost`; else what the connection raises: `OSError`, `sdk.RequestError`."""

    def __init__(self, spec: Spec, wire: Wire) -> None:
        self.spec, self.wire = spec, wire
        self.connection: Connection
        self.session = ""
        self.stopping = False
        self._steers = self._replaying = False
        self._refused: list[str] = []
        """The reasons since the last prompt."""
        self._refused_last: str | None = None
        """The call, if nothing was done since it was refused."""
        self._calls: OrderedDict[str, Call] = OrderedDict()
        self._speech = Speech(spec.text_bytes)
        self._admission = Admission()
        self._spent: dict[str, object] = {}
        self._aside: set[asyncio.Task[None]] = set()

    async def run(self, prompt: str) -> bool:
        """All of it. Whether the agent ended its turn as one that has done what it could."""
        async with asyncio.timeout(START_SECONDS):
            await self._begin()
        for number in range(1, MOST_PROMPTS + 1):
            self._refused, self._refused_last = [], None
            stop = await self._prompt(prompt, number)
            if self.stopping or not self._refused or (self._refused_last is None and stop != "cancelled"):
                return stop == "end_turn"
            reasons = "\n".join(f"- {reason}" for reason in dict.fromkeys(self._refused))
            prompt = f"These calls were refused:\n{reasons}\nGo on in another way, without them."
        said = f"each of {MOST_PROMPTS} prompts ended at a refused call"
        tell(said, error=said)
        return False

    async def cancel(self) -> None:
        """Ask the agent to end its turn. It answers the prompt, or is gone after `CANCEL_SECONDS`."""
        self.stopping = True
        await self._cancel()

    async def _cancel(self) -> None:
        with contextlib.suppress(OSError):
            await self.connection.send_notification("session/cancel", {"sessionId": self.session})

    # --- from us -----------------------------------------------------------------------------------------------------

    async def _begin(self) -> None:
        from orchconverge.acp_client.sdk import Connection  # the agent boots meanwhile

        logging.getLogger().addHandler(Complaints())
        self.connection = Connection(self._asked, self.wire)
        us = {"name": "orchconverge", "version": "1"}
        hello = await self._ask("initialize", protocolVersion=1, clientCapabilities={}, clientInfo=us)
        self._steers = get(hello, "_meta", "steering", "supported") is True
        agent = " ".join(filter(None, (words(get(hello, "agentInfo", key), 80) for key in ("name", "version"))))
        if self.spec.auth and self.spec.auth in [get(method, "id") for method in each(get(hello, "authMethods"))]:
            await self._ask("authenticate", methodId=self.spec.auth)
        opened = await self._open(get(hello, "agentCapabilities"))
        model = await self._set_up(opened)
        tell(f"{agent or 'the agent'} in session {self.session}", session=self.session, agent=agent, model=model)

    async def _open(self, able: object) -> object:
        """Begin the session or load it. The agent's answer."""
        from orchconverge.acp_client.sdk import RequestError

        spec, offered = self.spec, get(able, "sessionCapabilities")
        resumes = isinstance(get(offered, "resume"), dict)
        place: dict[str, object] = {"cwd": spec.cwd, "mcpServers": []}
        if isinstance(get(offered, "additionalDirectories"), dict):
            place["additionalDirectories"] = spec.roots
        if spec.meta:
            place["_meta"] = spec.meta
        if not spec.resume or not spec.loads or not (resumes or get(able, "loadSession") is True):
            opened = await self._ask("session/new", **place)
            self.session = words(get(opened, "sessionId"), 400)
            if spec.session:
                _keep(Path(spec.session), self.session)
            return opened
        try:
            self.session, self._replaying = Path(spec.session).read_text(encoding="utf-8"), True
            return await self._ask("session/resume" if resumes else "session/load", sessionId=self.session, **place)
        except (RequestError, FileNotFoundError) as error:
            if getattr(error, "code", 0) == AUTH_REQUIRED:
                raise
            raise Lost(f"the session {self.session or spec.session} is not known: {explained(error)}") from None
        finally:
            self._replaying = False

    async def _set_up(self, opened: object) -> str:
        """Set mode and model where the agent offers them. The model's name, if it tells."""
        modes, options, spec = get(opened, "modes"), each(get(opened, "configOptions")), self.spec
        offered = [get(mode, "id") for mode in each(get(modes, "availableModes"))]
        if spec.mode in offered and spec.mode != get(modes, "currentModeId"):
            await self._ask("session/set_mode", sessionId=self.session, modeId=spec.mode)
        option = next((option for option in options if get(option, "category") == "model"), None)
        model = words(get(option, "currentValue") or get(opened, "models", "currentModelId"), 200)
        if spec.model and spec.model != model and option is not None:
            chosen = {"configId": get(option, "id"), "value": spec.model}
            await self._ask("session/set_config_option", sessionId=self.session, **chosen)
            return spec.model
        return model

    async def _prompt(self, said: str, number: int) -> str:
        """One prompt, to its end. Why the agent stopped."""
        if number > 1:
            tell(f"prompted again: {said}", prompt=number)
        text = {"type": "text", "text": said}
        answer = await self._ask("session/prompt", sessionId=self.session, prompt=[text])
        self._speech.end()
        stop = words(get(answer, "stopReason"), 80)
        used = get(answer, "usage") or get(answer, "_meta", "quota", "token_count")
        spent = dict(self._spent)
        if isinstance(used, dict):
            spent["usage"] = {key: n for key, n in [*used.items()][:20] if type(n) is int}
        tell(f"ended its turn: {stop}", stop=stop, **spent)
        return stop

    async def _ask(self, method: str, **params: object) -> object:
        """A request's answer. What we send is held against the SDK's schema by our tests."""
        return await self.connection.send_request(method, params)

    # --- from the agent ----------------------------------------------------------------------------------------------

    async def _asked(self, method: str, params: object, is_notification: bool) -> object:
        """What the agent sends. Of requests only the one for permission has an answer."""
        from orchconverge.acp_client.sdk import RequestError

        if method == "session/update" and not self._replaying:
            self._update(get(params, "update"))
        elif method == "session/request_permission":
            return await self._permit(params)
        elif method == "fs/write_text_file":  # opencode says what it is about to write itself, asked or not
            return {}
        if not is_notification:
            raise RequestError.method_not_found(method)
        return None

    def _update(self, update: object) -> None:
        what = get(update, "sessionUpdate")
        piece = get(update, "content", "text")
        if what in ("agent_message_chunk", "agent_thought_chunk"):
            if isinstance(piece, str) and piece:
                self._refused_last = None
                kind, message = "text" if what == "agent_message_chunk" else "thought", get(update, "messageId")
                self._speech.hear(kind, words(piece, len(piece)), message=words(message, 200))
        elif what in ("tool_call", "tool_call_update"):
            self._speech.end()
            self._called(update)
        elif what == "plan":
            steps = [words(get(step, "content"), 100) for step in each(get(update, "entries"))]
            tell(f"plans: {'; '.join(steps)}"[:600], plan=len(steps))
        elif what == "usage_update":
            amounts = {key: get(update, key) for key in ("used", "size")}
            self._spent["context"] = {key: n for key, n in amounts.items() if type(n) is int}
            if get(update, "cost", "currency") == "USD" and isinstance(get(update, "cost", "amount"), int | float):
                self._spent["usd"] = get(update, "cost", "amount")

    def _called(self, update: object) -> tuple[str, Call]:
        """Take a call's news, and tell of it."""
        key = words(get(update, "toolCallId"), 200)
        call = self._calls.pop(key, None) or Call()
        self._calls[key] = call
        if len(self._calls) > MOST_CALLS:
            self._calls.popitem(last=False)
        ended_before = call.status in ENDED
        call.take(update)
        if key != self._refused_last:
            self._refused_last = None
        if call.status in ENDED and not ended_before:
            self._do(self._admission.observed(key, call))
        call.tell(key)
        return key, call

    async def _permit(self, params: object) -> dict[str, object]:
        """Answer a question for permission: first by the admission, then by what is granted."""
        self._speech.end()
        update = get(params, "toolCall")
        key, call = self._called(update)
        if call.kind == "execute" and not call.command:
            call.command = call.title  # gemini shows it there and nowhere else
        call.tell(key, weak=True)
        unwanted = await self._admission.refusal(key, call)
        why = unwanted or refusal(self.spec, call.kind, call.paths, call.command)
        wanted = ("reject_once", "reject_always") if why else ("allow_once", "allow_always")
        ids = {
            words(get(o, "kind"), 40): words(get(o, "optionId"), 400) for o in reversed(each(get(params, "options")))
        }
        chosen = next(filter(None, map(ids.get, wanted)), None)
        if not why and chosen is None:
            why = "the agent offers no way to allow it"
        tell(f"refused: {why}" if why else "  allowed", permission={"id": key, "allowed": not why, "why": why[:600]})
        if why:
            self._refused.append(f"{call.target or call.title or 'a call'}: {why}")
            self._refused_last = key
            if self._steers:
                self._do(self._steer(f"The call was refused: {why}"))
            elif unwanted:  # the model is not told why by any agent: the next prompt tells it
                self._do(self._cancel())
        answer = {"outcome": "cancelled"} if chosen is None else {"outcome": "selected", "optionId": chosen}
        return {"outcome": answer}

    async def _steer(self, said: str) -> None:
        """Tell the agent in the middle of its turn, where it can be."""
        from orchconverge.acp_client.sdk import RequestError

        with contextlib.suppress(RequestError, OSError):
            prompt = [{"type": "text", "text": said}]
            await self.connection.send_request("_session/steering", {"sessionId": self.session, "prompt": prompt})

    def _do(self, aside: Coroutine[None, None, None]) -> None:
        """Do something that nobody waits for."""
        doing = asyncio.create_task(aside)
        self._aside.add(doing)
        doing.add_done_callback(self._aside.discard)


def explained(error: BaseException) -> str:
    """An error of the agent in a line: its message, and what it says besides."""
    data = getattr(error, "data", None)
    more = get(data, "details") or get(data, "message") or data
    said = str(error) if not more else f"{error}: {more if isinstance(more, str) else json.dumps(more)}"
    return " ".join(words(said, 1500).split()) or type(error).__name__


def _keep(path: Path, session: str) -> None:
    """Write the session's id for those who continue it, whole or not at all."""
    path.unlink(missing_ok=True)
    new = path.with_name(f"{path.name}.new")
    new.write_text(session, encoding="utf-8")
    new.replace(path)
