"""Google Gemini CLI, headless: `gemini --output-format stream-json` with the brief on its standard input.

What it prints was captured from 0.61.0. Its grant is mode ``auto_edit`` for the tree and the report's folder, and a policy
file of ours with the beginnings of commands; what would be asked is denied when nobody is there. It takes git's settings of
the user away from what it runs, so it has to be told who commits. Of a command it never says with which code it ended.
"""

from __future__ import annotations

import json
import re
import shutil
from collections import deque
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path

from orchconverge.adapters.engines import trouble
from orchconverge.adapters.engines.calls import Calls, Kind
from orchconverge.adapters.engines.grant import commands
from orchconverge.adapters.engines.hooks import gemini_home
from orchconverge.adapters.engines.reading import Words, count, fed, moment, part, text
from orchconverge.core.seen import Outcome
from orchconverge.core.values import Settings, Usage
from orchconverge.errors import Refused
from orchconverge.ports import Brief, Launch

PASS_THROUGH = ("GEMINI_*", "GOOGLE_*", "CLOUDSDK_*")
POLICY = "gemini-policy.toml"

_LOST = re.compile(r"Invalid session identifier|No previous sessions found|[Ss]ession .{0,60}already exists")
_REFUSED = re.compile(
    r"denied by policy|Tool execution blocked|not in workspace|requires user confirmation", re.IGNORECASE
)
_TOOLS: Mapping[str, tuple[Kind, tuple[str, ...]]] = {
    "read_file": ("read", ("file_path", "absolute_path")),
    "read_many_files": ("read", ("include", "paths")),
    "list_directory": ("search", ("dir_path", "path")),
    "glob": ("search", ("pattern",)),
    "grep_search": ("search", ("pattern",)),
    "search_file_content": ("search", ("pattern",)),
    "write_file": ("write", ("file_path",)),
    "replace": ("write", ("file_path",)),
    "run_shell_command": ("shell", ("command",)),
}


class Gemini:
    """The engine ``gemini``."""

    name = "gemini"
    variables: tuple[str, ...] = PASS_THROUGH
    contextual = True
    commits = True

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    def find(self) -> str | None:
        """``gemini`` on PATH."""
        return shutil.which("gemini", path=self._environ.get("PATH"))

    def launch(self, brief: Brief, settings: Settings) -> Launch:
        """The brief goes to stdin. ``brief.context`` must be a UUID: a new session's, or one's to resume. Raises `Refused`."""
        program = self.find()
        if program is None:
            raise Refused("gemini is not installed", hint="npm install -g @google/gemini-cli, or another --engine")
        # Trust is of the folder, for this session: without it no mode but asking is possible. Its own hooks stay off.
        argv = [program, "--output-format", "stream-json", "--skip-trust"]
        argv += ["--include-directories", str(brief.report_path.parent)]
        files: dict[str, str] = {}
        if settings.permissions == "skip":
            argv += ["--approval-mode", "yolo"]
        else:
            argv += ["--approval-mode", "auto_edit", "--policy", str(brief.folder / POLICY)]
            files[POLICY] = judging(brief.reads) if brief.judge else policy(settings.allow)
        if brief.reads is not None:
            argv += ["--include-directories", str(brief.reads)]
        if brief.context is not None:
            argv += ["--resume" if brief.resume else "--session-id", brief.context]
        if brief.model:
            argv += ["--model", brief.model]
        home = gemini_home(brief, self._environ) if brief.hook else None
        env = {} if home is None else {"GEMINI_CLI_HOME": str(home)}
        return Launch(argv=tuple(argv), env=env, files=files, identity=True, asks="" if home is None else "hooks")

    def read(self, log: bytes) -> Outcome:
        """What the stream says. Gemini tells no cost."""
        stream = _Stream()
        return stream.outcome(self.name, fed(log, stream.take))


def policy(allow: Iterable[str]) -> str:
    """The rules that allow what is granted, in the TOML of Gemini's policy engine."""
    listed = ",\n  ".join(json.dumps(each, ensure_ascii=False).replace("\x7f", "\\u007f") for each in commands(allow))
    return f'[[rule]]\ntoolName = "run_shell_command"\ncommandPrefix = [\n  {listed}\n]\ndecision = "allow"\npriority = 500\n'


def judging(reads: Path | None) -> str:
    """The rules of a judge: nothing is run, and nothing is written at ``reads``, which it has to name to read it."""
    there = json.dumps(f'"file_path":"{re.escape(str(reads))}')
    writing = f'toolName = ["write_file", "replace"]\nargsPattern = {there}'
    rules = ('toolName = "run_shell_command"', writing)
    return "\n".join(f'[[rule]]\n{rule}\ndecision = "deny"\npriority = 900\n' for rule in rules)


class _Stream:
    """What was read so far."""

    def __init__(self) -> None:
        self.context = ""
        self.model = ""
        self.said: deque[str] = deque(maxlen=400)
        self.failed = ""
        self.at: datetime | None = None
        self.result: dict[str, object] | None = None
        self.calls = Calls()

    def take(self, found: dict[str, object]) -> None:
        kind = found.get("type")
        self.at = moment(found.get("timestamp")) or self.at
        if kind == "init":
            self.context = text(found.get("session_id"), most=200)
            self.model = text(found.get("model"), most=200)
        elif kind == "message" and found.get("role") == "assistant":
            content = found.get("content")
            self.said.append(content if isinstance(content, str) else "")
        elif kind == "tool_use":
            self.said.clear()
            self._called(found)
        elif kind == "tool_result":
            self._ended(found)
        elif kind == "error":
            self.failed = text(found.get("message")) or self.failed
        elif kind == "result":
            self.result = found

    def _called(self, found: dict[str, object]) -> None:
        name, given = found.get("tool_name"), found.get("parameters")
        kind, keys = _TOOLS.get(name, ("other", ())) if isinstance(name, str) else ("other", ())
        values = [part(given, key) for key in keys]
        lists = [each for value in values if isinstance(value, list) for each in value[:1]]
        what = next((value for value in (*values, *lists) if isinstance(value, str)), "")
        self.calls.begin(found.get("tool_id"), kind, what, tool=name)

    def _ended(self, found: dict[str, object]) -> None:
        key, why, output = found.get("tool_id"), text(part(found, "error", "message")), found.get("output")
        refused = part(found, "error", "type") == "policy_violation" or bool(_REFUSED.search(why))
        ok: bool | None = found.get("status") == "success"
        if ok and self.calls.kind(key) == "shell":
            ok = False if isinstance(output, str) and output.startswith("Command exited with code:") else None
        self.calls.end(key, ok=ok, refused=refused, detail=why or output)

    def outcome(self, engine: str, words: Words) -> Outcome:
        """What it adds up to."""
        status = part(self.result, "status")
        error = ""
        if self.result is None:
            error = self.failed or words.newest or "it ended without a result"
        elif status != "success":
            error = text(part(self.result, "error", "message")) or self.failed or "it failed"
        found = trouble.of(error, engine=engine, at=self.at) if error else trouble.Trouble()
        lost = bool(_LOST.search("\n".join([error, *words.heard])))
        return Outcome(
            usage=self._usage(),
            context=None if lost else self.context or None,
            limit=found.limit,
            auth_failed=found.auth,
            context_lost=lost,
            error=error,
            summary=text("".join(self.said)),
            refused=self.calls.refused(),
            acts=self.calls.acts(),
            stop=text(status, most=100),
            model=self.model,
        )

    def _usage(self) -> Usage | None:
        stats = part(self.result, "stats")
        if not isinstance(stats, dict):
            return None
        cached = count(stats.get("cached"))
        return Usage(
            inputTokens=max(0, count(stats.get("input_tokens")) - cached),
            outputTokens=count(stats.get("output_tokens")),
            cacheReadTokens=cached,
        )
