"""OpenAI Codex, headless: `codex exec --json`.

What it prints was captured from 0.171.0. Its grant is a sandbox, not a list: every command runs, none writes outside the
tree, the report's folder and temporary ones, and none has a network. In it ``.git`` is read-only, so it cannot commit. What
it does is a shell command each time, but for patches.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping

from orchconverge.adapters.engines import trouble
from orchconverge.adapters.engines.calls import Calls
from orchconverge.adapters.engines.hooks import codex_words
from orchconverge.adapters.engines.reading import Words, count, fed, part, text
from orchconverge.core.seen import Outcome
from orchconverge.core.values import Settings, Usage
from orchconverge.errors import Refused
from orchconverge.ports import Brief, Launch

PASS_THROUGH = ("CODEX_*", "OPENAI_*", "AZURE_OPENAI_*")


class Codex:
    """The engine ``codex``. It names its threads itself, so no context is declared before one begins."""

    name = "codex"
    variables: tuple[str, ...] = PASS_THROUGH
    contextual = False
    commits = False

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    def find(self) -> str | None:
        """``codex`` on PATH."""
        return shutil.which("codex", path=self._environ.get("PATH"))

    def launch(self, brief: Brief, settings: Settings) -> Launch:
        """The brief goes to stdin. Raises `Refused`."""
        program = self.find()
        if program is None:
            raise Refused("codex is not installed", hint="npm install -g @openai/codex, or another --engine")
        argv = [program, "exec", "--json", "--color", "never"]
        if settings.permissions == "skip":
            argv += ["--dangerously-bypass-approvals-and-sandbox"]
        else:
            argv += ["--sandbox", "workspace-write"]
        argv += ["--add-dir", str(brief.report_path.parent)]
        argv += ["--skip-git-repo-check"] if brief.judge else []
        if brief.model:
            argv += ["--model", brief.model]
        hooks = codex_words(brief, program, self._environ) if brief.hook else ()
        return Launch(argv=(*argv, *hooks, "-"), asks="hooks" if hooks else "")

    def read(self, log: bytes) -> Outcome:
        """What the stream says. Codex tells no cost, and its input includes what was cached."""
        stream = _Stream()
        return stream.outcome(self.name, fed(log, stream.take))


class _Stream:
    """What was read so far."""

    def __init__(self) -> None:
        self.thread = ""
        self.said = ""
        self.error = ""
        self.stop = ""
        self.usage: Usage | None = None
        self.calls = Calls()

    def take(self, found: dict[str, object]) -> None:
        kind = found.get("type")
        if kind == "thread.started":
            self.thread = text(found.get("thread_id"), most=200)
        elif kind == "error":
            self.error = text(found.get("message")) or self.error
        elif kind == "turn.failed":
            self.stop, self.error = "failed", text(part(found, "error", "message")) or self.error
        elif kind == "turn.completed":
            self.stop, self.error = "completed", ""
            self._spent(found.get("usage"))
        elif kind in ("item.started", "item.completed"):
            self._item(found.get("item"), ended=kind == "item.completed")

    def _spent(self, used: object) -> None:
        cached, before = count(part(used, "cached_input_tokens")), self.usage or Usage()
        self.usage = Usage(
            inputTokens=before.inputTokens + max(0, count(part(used, "input_tokens")) - cached),
            outputTokens=before.outputTokens + count(part(used, "output_tokens")),
            cacheReadTokens=before.cacheReadTokens + cached,
            cacheWriteTokens=before.cacheWriteTokens + count(part(used, "cache_write_input_tokens")),
        )

    def _item(self, item: object, *, ended: bool) -> None:
        kind, key, status = part(item, "type"), part(item, "id"), part(item, "status")
        ok, refused = (status == "completed" if ended else None), status == "declined"
        if kind == "agent_message" and ended:
            self.said = text(part(item, "text")) or self.said
        elif kind == "command_execution":
            self.calls.begin(key, "shell", part(item, "command"), tool="shell")
            if ended:
                done = ok and part(item, "exit_code") == 0
                self.calls.end(key, ok=done, refused=refused, detail=_end(part(item, "aggregated_output")))
        elif kind == "file_change":
            changes = part(item, "changes")
            for change in changes if isinstance(changes, list) and ended else []:
                self.calls.did("write", part(change, "path"), ok=ok, refused=refused, tool="patch", of=key)
        elif kind in ("mcp_tool_call", "web_search"):
            what = part(item, "query") if kind == "web_search" else part(item, "tool")
            self.calls.begin(key, "other", what, tool=kind)
            if ended:
                self.calls.end(key, ok=None if kind == "web_search" else ok, refused=refused)

    def outcome(self, engine: str, words: Words) -> Outcome:
        """What it adds up to."""
        error = self.error if self.stop else self.error or words.last or "it ended without a result"
        found = trouble.of(error, engine=engine) if error else trouble.Trouble()
        return Outcome(
            usage=self.usage,
            context=self.thread or None,
            limit=found.limit,
            auth_failed=found.auth,
            error=error,
            summary=self.said,
            refused=self.calls.refused(),
            acts=self.calls.acts(),
            stop=self.stop,
        )


def _end(output: object) -> str:
    """The last words of a command: there it says what went wrong."""
    return output[-300:] if isinstance(output, str) else ""
