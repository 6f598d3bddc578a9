"""Every agent that speaks the Agent Client Protocol: `--engine acp:PRESET[:MODEL]`, or `--engine acp --argv "…"`.

The supervisor's child is our client, a program of its own, `orchconverge.acp_client`: this module tells it what to do and
reads what it prints. Agents are set up to ask for every call that they can be made to ask for, and the client answers: that
is the grant. What was captured: claude-agent-acp 0.101.0, codex-acp 2.6.0, gemini 0.61.0, opencode 1.18.33.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from orchconverge.adapters.engines import trouble
from orchconverge.adapters.engines.calls import Calls, Kind
from orchconverge.adapters.engines.claude import ALONE
from orchconverge.adapters.engines.grant import commands
from orchconverge.adapters.engines.reading import Words, amount, count, lines, part, record, text
from orchconverge.core.seen import Outcome
from orchconverge.core.values import Settings, Usage
from orchconverge.errors import Refused
from orchconverge.ports import Brief, Launch

SPEC, POLICY = "acp.json", "acp-policy.toml"
AUTH_REQUIRED = -32000
ASKED = ["Read", "Glob", "Grep", "Edit", "MultiEdit", "Write", "NotebookEdit", "Bash", "WebFetch", "WebSearch"]
OPENCODE = "OPENCODE_CONFIG_CONTENT"

_TRIES = re.compile(r'failed with status (\d{3})|error\.error="((?:[^"\\]|\\.)*)"')
"""What gemini and opencode log of each try; stopped in the middle of them, they say nothing else."""
_KINDS: Mapping[object, Kind] = {"read": "read", "search": "search", "write": "write", "run": "shell"}


@dataclass(frozen=True)
class Preset:
    """How one agent is started and set up. ``install`` is what to type if it is missing.

    ``variables`` of the caller's environment are passed on. ``meta``, ``env`` and ``files`` make it ask; ``loads`` says
    whether it keeps its word that it can load a session; ``auth`` is how it is signed in, and the variable that this needs.
    """

    argv: tuple[str, ...]
    install: str
    variables: tuple[str, ...]
    mode: str = ""
    skip_mode: str = ""
    meta: Mapping[str, object] | None = None
    env: Callable[[Brief, Settings, Mapping[str, str]], dict[str, str]] | None = None
    words: Callable[[Brief, str], tuple[str, ...]] | None = None
    files: Mapping[str, str] | None = None
    loads: bool = True
    auth: tuple[str, str] = ("", "")
    identity: bool = False


def _opencode(brief: Brief, settings: Settings, environ: Mapping[str, str]) -> dict[str, str]:
    config = _object(environ.get(OPENCODE, "")) | {"share": "disabled", "autoupdate": False}
    asked: dict[str, object] = dict.fromkeys(("*", "read", "edit", "bash", "glob", "grep", "list"), "ask")
    asked["external_directory"] = {"*": "ask", f"{brief.report_path.parent}/*": "allow"}
    config["permission"] = (
        "allow" if settings.permissions == "skip" else {**asked, "todoread": "allow", "todowrite": "allow"}
    )
    config["experimental"] = {"continue_loop_on_deny": True}
    return {OPENCODE: json.dumps(config)}


def _gemini(brief: Brief, model: str) -> tuple[str, ...]:
    asking = ("--policy", str(brief.folder / POLICY), "--include-directories", str(brief.report_path.parent))
    reading = ("--include-directories", str(brief.reads)) if brief.reads is not None else ()
    return (*asking, *reading, *(("--model", model) if model else ()))


def _object(value: str) -> dict[str, object]:
    return record(value.strip().encode("utf-8", "replace")) or {}


PRESETS: Mapping[str, Preset] = {
    "claude": Preset(
        argv=("claude-agent-acp",),
        install="npm install -g @agentclientprotocol/claude-agent-acp",
        variables=("ANTHROPIC_*", "CLAUDE_*"),
        mode="default",
        skip_mode="bypassPermissions",
        meta={"claudeCode": {"options": {"settings": {"permissions": {"ask": ASKED}}}}},
        env=lambda brief, settings, environ: dict(ALONE),
    ),
    "codex": Preset(
        argv=("codex-acp",),
        install="npm install -g @agentclientprotocol/codex-acp",
        variables=("CODEX_*", "OPENAI_*", "AZURE_OPENAI_*"),
        mode="workspace-write",  # in its default mode `agent` it asks a model instead of us
        skip_mode="agent-full-access",
    ),
    "gemini": Preset(
        argv=("gemini", "--acp"),
        install="npm install -g @google/gemini-cli",
        variables=("GEMINI_*", "GOOGLE_*", "CLOUDSDK_*"),
        mode="default",
        skip_mode="yolo",
        words=_gemini,
        files={POLICY: '[[rule]]\ntoolName = "*"\ndecision = "ask_user"\npriority = 900\n'},
        loads=False,
        auth=("gemini-api-key", "GEMINI_API_KEY"),
        identity=True,
    ),
    "opencode": Preset(
        argv=("opencode", "acp", "--print-logs", "--log-level", "ERROR"),
        install="npm install -g opencode-ai",
        variables=(
            *("OPENCODE_*", "ANTHROPIC_*", "OPENAI_*", "GEMINI_*", "GOOGLE_*", "OPENROUTER_*", "GROQ_*"),
            *("AZURE_*", "AWS_*"),
        ),
        env=_opencode,
    ),
    "copilot": Preset(
        argv=("copilot", "--acp"),
        install="npm install -g @github/copilot",
        variables=("COPILOT_*", "GH_*", "GITHUB_*"),
    ),
}
"""What `--engine acp:` may be followed by."""


class Acp:
    """The engine ``acp``. A context that is declared is a name of ours for the session that the agent named itself."""

    name = "acp"
    variables: tuple[str, ...] = ()  # each agent gets its own by `launch`, none those of another
    contextual = True
    commits = True

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    def find(self) -> str | None:
        """Our own interpreter, which runs the client. The agent itself is looked for by `agent`."""
        return sys.executable

    def agent(self, named: str, settings: Settings) -> tuple[str, Preset, tuple[str, ...], str]:
        """What ``PRESET[:MODEL]`` names: the preset's name, it, its argv and the model. Raises `Refused`."""
        name, _, model = named.partition(":")
        preset = PRESETS.get(name)
        if preset is None and settings.argv:
            name, model, preset = "argv", named, Preset(argv=settings.argv, install="", variables=())
        if preset is None:
            wrong = f"engine `acp` has no preset `{name}`" if name else "engine `acp` does not say which agent"
            hint = f'--engine acp:{{{",".join(PRESETS)}}}, or any other agent: --engine acp --argv "AGENT ARGUMENT…"'
            raise Refused(wrong, hint=hint)
        program, *words = preset.argv
        found = program if "/" in program else shutil.which(program, path=self._environ.get("PATH"))
        if found is None:
            raise Refused(f"engine `acp`: {program} is not on PATH", hint=preset.install or "give its path in `--argv`")
        return name, preset, (found, *words), model

    def launch(self, brief: Brief, settings: Settings) -> Launch:
        """The client on a file of what to do, which names the brief's. Raises `Refused`."""
        name, preset, argv, model = self.agent(brief.model, settings)
        session = brief.folder.parent / f"acp-{name}-{brief.context}" if brief.context else None
        skips = settings.permissions == "skip"
        own = {n: v for n, v in self._environ.items() if any(fnmatchcase(n, p) for p in preset.variables)}
        spec = {
            "argv": [*argv, *(preset.words(brief, model) if preset.words else ())],
            "cwd": str(brief.cwd),
            "prompt": str(brief.text_path),
            "session": str(session or ""),
            "resume": brief.resume and session is not None and session.exists(),
            "loads": preset.loads,
            "mode": preset.skip_mode if skips else preset.mode,
            "model": model,
            "auth": preset.auth[0] if self._environ.get(preset.auth[1]) else "",
            "meta": {} if skips else preset.meta or {},
            "anything": skips,
            "roots": [str(brief.report_path.parent)],
            "reads": [str(brief.reads)] if brief.reads is not None else [],
            "commands": [] if brief.judge else list(commands(settings.allow)),
        }
        return Launch(
            argv=(sys.executable, "-P", "-X", "utf8", "-m", "orchconverge.acp_client", str(brief.folder / SPEC)),
            env=own | (preset.env(brief, settings, self._environ) if preset.env else {}),
            brief_on_stdin=False,
            files={**(preset.files or {}), SPEC: json.dumps(spec)},
            identity=preset.identity,
            asks="acp" if brief.hook else "",  # our client asks by itself
        )

    def read(self, log: bytes) -> Outcome:
        """What the client told. Tokens and dollars are what the agent said of its session."""
        stream, words = _Stream(), Words()
        for line in lines(log):
            found = record(line)
            if found is None:
                words.hear(line.removeprefix(b"agent: "))
            else:
                stream.take(found)
                words.passed()
        return stream.outcome(self.name, words)


class _Stream:
    """What was read so far."""

    def __init__(self) -> None:
        self.session = self.agent = self.model = self.stop = self.error = self.failed = ""
        self.code: object = None
        self.stopping = self.used = False
        self.message: object = None
        self.said: list[str] = []
        self.usage: Usage | None = None
        self.refused: set[object] = set()
        self.calls = Calls()

    def take(self, found: dict[str, object]) -> None:
        """A line of the client."""
        facts = found.get("acp")
        if not isinstance(facts, dict):
            return
        self.session = text(facts.get("session"), most=400) or self.session
        self.model = text(facts.get("model"), most=200) or self.model
        self.agent = text(facts.get("agent"), most=200) or self.agent
        self.stopping = self.stopping or facts.get("stopping") is True
        if "text" in facts:
            self._heard(facts["text"], part(found, "message", "content"))
        elif "call" in facts:
            self._called(facts["call"])
        elif "permission" in facts:
            self._answered(facts["permission"])
        elif "stop" in facts:
            self._stopped(facts)
        elif "error" in facts:
            self.error, self.code = text(facts["error"]), facts.get("code")
            self.failed = text(facts.get("failed"), most=20)

    def _heard(self, number: object, blocks: object) -> None:
        if number != self.message:
            self.message, self.said = number, []
        pieces = [part(block, "text") for block in blocks] if isinstance(blocks, list) else []
        self.said = [*self.said, *(piece for piece in pieces if isinstance(piece, str))][-20:]

    def _called(self, call: object) -> None:
        key, status, code = part(call, "id"), part(call, "status"), part(call, "exit")
        kind, target, tool = _KINDS.get(_name(part(call, "kind")), "other"), part(call, "target"), part(call, "tool")
        self.calls.begin(key, kind, target, tool=tool)
        if status in ("completed", "failed") and _name(key) not in self.refused:
            ok: bool | None = status == "completed" and (code is None or code == 0)
            if ok and kind == "shell" and code is None and self.agent.startswith("gemini"):
                ok = None  # its commands are completed, however they end
            self.calls.end(key, ok=ok, detail=part(call, "why"))

    def _answered(self, answer: object) -> None:
        if part(answer, "allowed") is False:
            key = part(answer, "id")
            self.refused.add(_name(key))
            self.calls.end(key, ok=False, refused=True, detail=part(answer, "why"))

    def outcome(self, engine: str, words: Words) -> Outcome:
        """What it adds up to."""
        error, said = self.error, text("".join(self.said))
        if self.agent.partition("/")[2].startswith("codex") and self.stop == "end_turn" and not self.used:
            error = said.rpartition("\n\n")[2] or "it failed"  # it tells of a failure in words, with no tokens used
        if not error and not self.stop:
            error = "it was stopped" if self.stopping else words.newest or "it ended without a result"
        elif not error and self.stop != "end_turn":
            error = f"it ended its turn: {self.stop}"
        lost = self.failed == "lost"
        found = trouble.of(error, engine=engine) if error and not (lost or self.stopping) else trouble.Trouble()
        tries = _TRIES.findall("\n".join(words.heard)) if self.stopping else []
        if tries:
            status, said_of_it = tries[-1]
            error = text(said_of_it) or error
            found = trouble.of(said_of_it or words.last, engine=engine, status=int(status) if status else None)
        return Outcome(
            usage=self.usage,
            context=None if lost else self.session or None,
            limit=found.limit,
            auth_failed=found.auth or self.code == AUTH_REQUIRED,
            context_lost=lost,
            error=error,
            summary="" if said.endswith(error or "\0") else said,
            refused=self.calls.refused(),
            acts=self.calls.acts(),
            stop=self.stop,
            model=self.model,
        )

    def _stopped(self, facts: dict[str, object]) -> None:
        """A turn ended: its tokens are its own, its dollars the session's so far."""
        self.stop = text(facts.get("stop"), most=100)
        self.used = "usage" in facts
        used, before, usd = facts.get("usage"), self.usage or Usage(), amount(facts.get("usd"))
        if not isinstance(used, dict) and usd is None:
            return
        self.usage = Usage(
            inputTokens=before.inputTokens + (count(part(used, "inputTokens")) or count(part(used, "input_tokens"))),
            outputTokens=before.outputTokens
            + (count(part(used, "outputTokens")) or count(part(used, "output_tokens"))),
            cacheReadTokens=before.cacheReadTokens + count(part(used, "cachedReadTokens")),
            cacheWriteTokens=before.cacheWriteTokens + count(part(used, "cachedWriteTokens")),
            usd=before.usd if usd is None else usd,
            source="unknown" if usd is None and before.usd is None else "reported",
        )


def _name(key: object) -> str:
    return key if isinstance(key, str) else ""
