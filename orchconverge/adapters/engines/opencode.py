"""opencode, headless: `opencode run --format json` with the brief on its standard input.

What it prints was captured from 1.18.33. Its grant is a set of permissions in an environment variable, which come after
those of the user's own files: nothing is asked for, what is not allowed is denied.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from orchconverge.adapters.engines import trouble
from orchconverge.adapters.engines.calls import Calls, Kind
from orchconverge.adapters.engines.grant import commands
from orchconverge.adapters.engines.hooks import PLUGIN, PLUGIN_TEXT
from orchconverge.adapters.engines.reading import Words, amount, count, fed, moment, part, record, text
from orchconverge.core.seen import Outcome
from orchconverge.core.values import Limit, Settings, Usage
from orchconverge.errors import Refused
from orchconverge.ports import Brief, Launch

PASS_THROUGH = (
    "OPENCODE_*",
    "ANTHROPIC_*",
    "OPENAI_*",
    "GEMINI_*",
    "GOOGLE_*",
    "OPENROUTER_*",
    "GROQ_*",
    "AZURE_*",
    "AWS_*",
)
CONFIG = "OPENCODE_CONFIG_CONTENT"
GRANTED = ("read", "edit", "glob", "grep", "list", "todoread", "todowrite")

_LOGGED = re.compile(r'error\.error="((?:[^"\\]|\\.)*)"')
_LOST = re.compile(r"Session not found", re.IGNORECASE)
_REFUSED = re.compile(r"^work convergence:|prevents you from using|rejected permission", re.IGNORECASE)
_TOOLS: Mapping[str, tuple[Kind, str]] = {
    "read": ("read", "filePath"),
    "glob": ("search", "pattern"),
    "grep": ("search", "pattern"),
    "list": ("search", "path"),
    "write": ("write", "filePath"),
    "edit": ("write", "filePath"),
    "multiedit": ("write", "filePath"),
    "bash": ("shell", "command"),
}
_PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", re.MULTILINE)


class OpenCode:
    """The engine ``opencode``. It names its sessions itself, so no context is declared before one begins."""

    name = "opencode"
    variables: tuple[str, ...] = PASS_THROUGH
    contextual = False
    commits = True

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    def find(self) -> str | None:
        """``opencode`` on PATH."""
        return shutil.which("opencode", path=self._environ.get("PATH"))

    def launch(self, brief: Brief, settings: Settings) -> Launch:
        """The brief goes to stdin; ``brief.model`` is ``provider/model``. Raises `Refused`."""
        program = self.find()
        if program is None:
            raise Refused("opencode is not installed", hint="npm install -g opencode-ai, or another --engine")
        # While it waits for a quota, its log is the only place where it says so.
        argv = [program, "run", "--format", "json", "--print-logs", "--log-level", "ERROR"]
        config = record(self._environ.get(CONFIG, "").strip().encode("utf-8", "replace")) or {}
        config |= {"share": "disabled", "autoupdate": False}
        if settings.permissions == "skip":
            argv += ["--auto"]
        else:
            config["permission"] = permissions(settings.allow, outside=brief.report_path.parent)
        if brief.judge:
            config["permission"] = judging(brief.report_path.parent, brief.reads)
        if brief.model:
            argv += ["--model", brief.model]
        files: dict[str, str] = {}
        if brief.hook:
            files[PLUGIN], before = PLUGIN_TEXT, config.get("plugin")
            config["plugin"] = [*(before if isinstance(before, list) else []), (brief.folder / PLUGIN).as_uri()]
        return Launch(
            argv=tuple(argv), env={CONFIG: json.dumps(config)}, files=files, asks="hooks" if brief.hook else ""
        )

    def read(self, log: bytes) -> Outcome:
        """What the stream says; the cost is opencode's own, and unknown where it has no price."""
        stream = _Stream()
        return stream.outcome(self.name, fed(log, stream.take))


def permissions(allow: tuple[str, ...], *, outside: Path) -> dict[str, object]:
    """The permissions of a mind, the last that fits being decisive; ``outside`` is the one folder it may also write into."""
    shell = {"*": "deny"}
    for words in commands(allow):
        shell |= {words: "allow", f"{words} *": "allow"}
    granted: dict[str, object] = {"*": "deny", **dict.fromkeys(GRANTED, "allow")}
    return {**granted, "bash": shell, "external_directory": {"*": "deny", f"{outside}/*": "allow"}}


def judging(own: Path, reads: Path | None) -> dict[str, object]:
    """The permissions of a judge: it reads what is at ``reads``, writes into its ``own`` folder, and runs nothing."""
    granted: dict[str, object] = {"*": "deny", **dict.fromkeys(GRANTED, "allow")}
    there = {} if reads is None else {f"{reads}/*": "allow"}
    edit = {"*": "allow", **({} if reads is None else {f"*{reads.name}/*": "deny"})}
    return {**granted, "edit": edit, "external_directory": {"*": "deny", f"{own}/*": "allow", **there}}


class _Stream:
    """What was read so far."""

    def __init__(self) -> None:
        self.session = ""
        self.said = ""
        self.stop = ""
        self.error: dict[str, object] | None = None
        self.at: datetime | None = None
        self.usage: Usage | None = None
        self.calls = Calls()

    def take(self, found: dict[str, object]) -> None:
        kind, own = found.get("type"), found.get("part")
        self.session = text(found.get("sessionID"), most=200) or self.session
        self.at = moment(found.get("timestamp")) or self.at
        if kind == "text":
            self.said = text(part(own, "text")) or self.said
        elif kind == "tool_use":
            self._called(own)
        elif kind == "step_finish":
            self.stop = text(part(own, "reason"), most=100)
            self._spent(own)
        elif kind == "error":
            error = found.get("error")
            self.error = error if isinstance(error, dict) else {"name": text(error)}

    def _called(self, own: object) -> None:
        name, key, state = part(own, "tool"), part(own, "callID"), part(own, "state")
        given, why, output = part(state, "input"), text(part(state, "error")), part(state, "output")
        ok, refused = part(state, "status") == "completed", bool(_REFUSED.search(why))
        if name == "apply_patch":
            patch = part(given, "patchText")
            for path in _PATCHED.findall(patch) if isinstance(patch, str) else []:
                self.calls.did("write", path, ok=ok, refused=refused, tool=name, of=key)
            return
        kind, field = _TOOLS.get(name, ("other", "")) if isinstance(name, str) else ("other", "")
        self.calls.begin(key, kind, part(given, field), tool=name)
        ended = part(state, "metadata", "exit")
        self.calls.end(key, ok=ok and (kind != "shell" or ended == 0), refused=refused, detail=why or output)

    def _spent(self, own: object) -> None:
        used, before = part(own, "tokens"), self.usage or Usage()
        usd = (before.usd or 0.0) + (amount(part(own, "cost")) or 0.0)
        self.usage = Usage(
            inputTokens=before.inputTokens + count(part(used, "input")),
            outputTokens=before.outputTokens + count(part(used, "output")) + count(part(used, "reasoning")),
            cacheReadTokens=before.cacheReadTokens + count(part(used, "cache", "read")),
            cacheWriteTokens=before.cacheWriteTokens + count(part(used, "cache", "write")),
            usd=usd or None,
            source="reported" if usd else "unknown",
        )

    def outcome(self, engine: str, words: Words) -> Outcome:
        """What it adds up to."""
        logged = _LOGGED.findall("\n".join(words.heard))
        error, status = "", None
        if self.error is not None:
            status = part(self.error, "data", "statusCode")
            error = text(part(self.error, "data", "message")) or text(self.error.get("name")) or "it failed"
        elif self.stop in ("", "tool-calls", "unknown"):
            unread = "the model's answers could not be read" if self.stop == "unknown" else "it ended without a result"
            error = (logged[-1] if logged else words.last) or unread
        found = trouble.of(error, engine=engine, status=status, at=self.at) if error else trouble.Trouble()
        limit, lost = found.limit, bool(_LOST.search(error))
        wait = part(self.error, "data", "responseHeaders", "retry-after")
        if limit is not None and limit.until is None and isinstance(wait, str) and wait.isdecimal() and len(wait) < 9:
            limit = Limit(engine=engine, until=trouble.after(int(wait), at=self.at))
        return Outcome(
            usage=self.usage,
            context=None if lost else self.session or None,
            limit=limit,
            auth_failed=found.auth,
            context_lost=lost,
            error=text(error),
            summary=self.said,
            refused=self.calls.refused(),
            acts=self.calls.acts(),
            stop=self.stop,
        )
