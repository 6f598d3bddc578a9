"""mini-swe-agent: `mini`, with one tool, a shell that nothing limits.

What it writes was captured from 2.4.6. It can ask a person before each command or nobody, so that without ``permissions =
"skip"`` it is refused. Its output is for eyes; `mini_stream` runs it and says what its trajectory says, in lines.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from orchconverge.adapters.engines import trouble
from orchconverge.adapters.engines.calls import Calls
from orchconverge.adapters.engines.reading import Words, amount, count, fed, moment, part, text
from orchconverge.core.seen import Outcome
from orchconverge.core.values import Settings, Usage
from orchconverge.errors import Refused
from orchconverge.ports import Brief, Launch

PASS_THROUGH = (
    "MSWEA_*",
    "LITELLM_*",
    "ANTHROPIC_*",
    "OPENAI_*",
    "GEMINI_*",
    "OPENROUTER_*",
    "DEEPSEEK_*",
    "GROQ_*",
    "AZURE_*",
    "OLLAMA_*",
)
STREAM = Path(__file__).with_name("mini_stream.py")
FINISHED = "Submitted"
HANDS_IN = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
"""What a command begins with that is mini's end, and is not run."""


class Mini:
    """The engine ``mini``."""

    name = "mini"
    variables: tuple[str, ...] = PASS_THROUGH
    contextual = False
    commits = True

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    def find(self) -> str | None:
        """``mini`` on PATH."""
        return shutil.which("mini", path=self._environ.get("PATH"))

    def check(self, settings: Settings) -> None:
        """Raise `Refused` unless it was asked to run without permission checks: it has none."""
        if settings.permissions != "skip":
            raise Refused(
                "engine `mini` runs every command that its model thinks of, and cannot be limited",
                hint='permissions = "skip" in your own config accepts that (or ORCHCONVERGE_PERMISSIONS=skip)',
            )

    def launch(self, brief: Brief, settings: Settings) -> Launch:
        """The brief goes to stdin, and the rest of the budget along. Raises `Refused`."""
        program = self.find()
        if program is None:
            raise Refused("mini is not installed", hint="pipx install mini-swe-agent, or another --engine")
        self.check(settings)
        told = [f"--cost-limit={brief.usd or 0}", *([f"--model={brief.model}"] if brief.model else [])]
        argv = (sys.executable, "-I", "-S", str(STREAM), program, str(brief.folder), *told)
        return Launch(argv=argv, env={"MSWEA_CONFIGURED": "true"})

    def read(self, log: bytes) -> Outcome:
        """What the lines of `mini_stream` say."""
        stream = _Stream()
        return stream.outcome(self.name, fed(log, stream.take))


class _Stream:
    """What was read so far."""

    def __init__(self) -> None:
        self.said = ""
        self.model = ""
        self.end: dict[str, object] | None = None
        self.usage: Usage | None = None
        self.calls = Calls()

    def take(self, found: dict[str, object]) -> None:
        kind = found.get("type")
        if kind == "asked":
            self._asked(found)
        elif kind == "ran":
            code = found.get("returncode")
            self.calls.end(found.get("id"), ok=code == 0 if isinstance(code, int) else None, detail=found.get("output"))
        elif kind == "exit":
            self.end = found

    def _asked(self, found: dict[str, object]) -> None:
        self.said = text(found.get("text")) or self.said
        self.model = text(found.get("model"), most=200) or self.model
        listed = found.get("commands")
        for each in listed if isinstance(listed, list) else []:
            command = part(each, "command")
            if not isinstance(command, str) or HANDS_IN not in command:
                self.calls.begin(part(each, "id"), "shell", command, tool="bash")
        used, before = found.get("usage"), self.usage or Usage()
        cached = count(part(used, "prompt_tokens_details", "cached_tokens"))
        usd = (before.usd or 0.0) + (amount(found.get("cost")) or 0.0)
        self.usage = Usage(
            inputTokens=before.inputTokens + max(0, count(part(used, "prompt_tokens")) - cached),
            outputTokens=before.outputTokens + count(part(used, "completion_tokens")),
            cacheReadTokens=before.cacheReadTokens + cached,
            usd=usd or None,
            source="reported" if usd else "unknown",
        )

    def outcome(self, engine: str, words: Words) -> Outcome:
        """What it adds up to."""
        end = self.end or {}
        stop = text(end.get("status"), most=100)
        error = ""
        if self.end is None:
            error = words.last or "it ended without a result"
        elif stop != FINISHED:
            error = text(end.get("text")) or stop or "it failed"
        found = trouble.Trouble()
        if error:
            found = trouble.of(f"{stop}: {error}", engine=engine, at=moment(end.get("at")))
        return Outcome(
            usage=self.usage,
            limit=found.limit,
            auth_failed=found.auth,
            error=error,
            summary=text(end.get("text")) if stop == FINISHED and end.get("text") else self.said,
            refused=self.calls.refused(),
            acts=self.calls.acts(),
            stop=stop,
            model=self.model,
        )
