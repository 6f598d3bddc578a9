"""Claude Code, headless: `claude -p` with its stream of JSON lines.

What it prints was captured from 2.1.197; nothing of it is relied on. Where it can write is not a list of ours but its own
rule: in mode ``acceptEdits`` the tree and what ``--add-dir`` names, while an allowed ``Write`` would be allowed anywhere.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Mapping

from orchconverge.adapters.engines.calls import Calls, Kind
from orchconverge.adapters.engines.grant import CLAUDE_RULE, GIT
from orchconverge.adapters.engines.hooks import claude_settings
from orchconverge.adapters.engines.reading import MOST_LISTED, Words, amount, count, fed, moment, part, text
from orchconverge.core.seen import Outcome
from orchconverge.core.values import Limit, Settings, Usage
from orchconverge.errors import Refused
from orchconverge.ports import Brief, Launch

PASS_THROUGH = ("ANTHROPIC_*", "CLAUDE_*")
GRANTED = ("Read", "Glob", "Grep")
ALONE = {"CLAUDE_CODE_ENABLE_PROMPT_SUGGESTION": "false"}
"""Nobody is there to be offered a next prompt, which costs one more request over the whole context and is counted nowhere."""
LINGER_SECONDS = 30.0
"""It has said its last word and does not leave: anthropics/claude-code#25629."""

_LOST = re.compile(r"No conversation found|is already in use|Invalid session ID")
_AUTH = re.compile(r"Invalid API key|Not logged in|run /login|login again|OAuth token|authentication_error")
_LIMIT = re.compile(
    r"(?:usage|session|weekly|5-hour|rate) limit|hit your .{0,20}limit|\(429\)|Overloaded", re.IGNORECASE
)
_EPOCH = re.compile(r"limit reached\|(\d{9,13})\b")
_REFUSED = re.compile(
    r"^work convergence:|requires approval|haven't granted|hook error:|was denied|denied by|sensitive file"
)
_TOOLS: Mapping[object, tuple[Kind, str]] = {
    "Read": ("read", "file_path"),
    "NotebookRead": ("read", "notebook_path"),
    "Glob": ("search", "pattern"),
    "Grep": ("search", "pattern"),
    "LS": ("search", "path"),
    "Write": ("write", "file_path"),
    "Edit": ("write", "file_path"),
    "MultiEdit": ("write", "file_path"),
    "NotebookEdit": ("write", "notebook_path"),
    "Bash": ("shell", "command"),
    "WebFetch": ("other", "url"),
    "WebSearch": ("other", "query"),
}
_AUTH_KINDS = {"authentication_failed", "billing_error", "oauth_org_not_allowed"}
_LIMIT_KINDS = {"rate_limit", "overloaded"}


class Claude:
    """The engine ``claude``."""

    name = "claude"
    variables: tuple[str, ...] = PASS_THROUGH
    contextual = True
    commits = True

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    def find(self) -> str | None:
        """``claude`` on PATH."""
        return shutil.which("claude", path=self._environ.get("PATH"))

    def launch(self, brief: Brief, settings: Settings) -> Launch:
        """The brief goes to stdin. ``brief.context`` must be a UUID: a new session's, or one's to resume. Raises `Refused`."""
        program = self.find()
        if program is None:
            raise Refused(
                "claude is not installed", hint="npm install -g @anthropic-ai/claude-code, or another --engine"
            )
        argv = [program, "-p", "--output-format", "stream-json", "--verbose"]
        if settings.permissions == "skip":
            argv += ["--dangerously-skip-permissions"]
        else:
            argv += ["--permission-mode", "acceptEdits", "--allowedTools"]
            argv += GRANTED if brief.judge else granted(settings.allow)
        argv += ["--add-dir", str(brief.report_path.parent)]
        if brief.context is not None:
            argv += ["--resume" if brief.resume else "--session-id", brief.context]
        if brief.model:
            argv += ["--model", brief.model]
        if brief.usd is not None and not brief.resume:  # of a resumed session the cap would count what was spent before
            argv += ["--max-budget-usd", f"{brief.usd:.2f}"]
        if brief.hook:
            argv += ["--settings", claude_settings(brief)]
        return Launch(argv=tuple(argv), env=ALONE, linger_seconds=LINGER_SECONDS, asks="hooks" if brief.hook else "")

    def read(self, log: bytes) -> Outcome:
        """What the stream says.

        ``usage`` counts this run's tokens. ``usage.usd`` is ``total_cost_usd`` as it stands: of this run, or, when Claude
        remembers the resumed session as the project's last one, of the session so far. The caller takes off what it
        already counted for the same ``context``.
        """
        stream = _Stream()
        return stream.outcome(self.name, fed(log, stream.take))


def granted(allow: Iterable[str]) -> list[str]:
    """Claude's names for the default grant and for ``allow``: tool rules of its own, or the beginnings of commands."""
    rules = [*GRANTED, *(f"Bash(git {verb}:*)" for verb in GIT)]
    for words in filter(None, map(str.strip, allow)):
        rules.append(words if CLAUDE_RULE.fullmatch(words) else f"Bash({words}:*)")
    return list(dict.fromkeys(rules))


class _Stream:
    """What was read so far."""

    def __init__(self) -> None:
        self.context = ""
        self.model = ""
        self.said = ""
        self.calls = Calls()
        self.denied: list[str] = []
        self.trouble: tuple[str, object] = ("", None)
        self.reset: object = None
        self.result: dict[str, object] | None = None
        self.spent: dict[str, object] = {}

    def take(self, found: dict[str, object]) -> None:
        """A JSON object."""
        kind, sub = found.get("type"), found.get("subtype")
        if kind == "system" and sub == "init":
            self.context = text(found.get("session_id"), most=200) or self.context
            self.model = text(found.get("model"), most=200) or self.model
        elif kind == "system" and sub == "api_retry":
            self.trouble = (text(found.get("error")), found.get("error_status"))
        elif kind == "system" and sub == "permission_denied":
            self.denied.append(text(found.get("message"), most=300))
        elif kind == "rate_limit_event" and part(found, "rate_limit_info", "status") == "rejected":
            self.reset = part(found, "rate_limit_info", "resetsAt")
        elif kind == "assistant":
            self._assistant(found)
        elif kind == "user":
            self._returned(found)
        elif kind == "result":
            self.result = found

    def _assistant(self, found: dict[str, object]) -> None:
        self.trouble = (text(found.get("error")), None)
        message = found.get("message")
        usage = part(message, "usage")
        if isinstance(usage, dict):  # one message comes in several lines, each with its usage
            self.spent[str(part(message, "id"))] = usage
        blocks = part(message, "content")
        for block in blocks if isinstance(blocks, list) else []:
            self.said = text(part(block, "text")) or self.said
            if part(block, "type") == "tool_use":
                name, given = part(block, "name"), part(block, "input")
                of, key = _TOOLS.get(name, ("other", "")) if isinstance(name, str) else ("other", "")
                self.calls.begin(part(block, "id"), of, part(given, key), tool=name)

    def _returned(self, found: dict[str, object]) -> None:
        """What its tools returned: the bulk of a log."""
        blocks = part(found, "message", "content")
        for block in blocks if isinstance(blocks, list) else []:
            if part(block, "type") == "tool_result":
                content, failed = part(block, "content"), part(block, "is_error") is True
                said = content if isinstance(content, str) else ""
                refused = failed and bool(_REFUSED.search(said[:2000]))
                self.calls.end(part(block, "tool_use_id"), ok=not failed, refused=refused, detail=said)

    def outcome(self, engine: str, words: Words) -> Outcome:
        """What it adds up to."""
        result = self.result or {}
        failed = result.get("is_error") is True or str(result.get("subtype", "")).startswith("error")
        errors = result.get("errors")
        listed = [text(error) for error in errors] if isinstance(errors, list) else []
        answer = text(result.get("result"))
        error = ""
        if self.result is None:
            error = words.last or "it ended without a result"
        elif failed:
            error = "\n".join(filter(None, listed)) or answer or text(result.get("subtype")) or "it failed"
        kind, status = self.trouble if self.result is None or failed else ("", None)
        status = result.get("api_error_status") if failed and result.get("api_error_status") is not None else status
        limited = kind in _LIMIT_KINDS or status in (429, 529) or bool(failed and _LIMIT.search(error))
        auth = kind in _AUTH_KINDS or status in (401, 403) or bool(failed and _AUTH.search(error))
        lost = bool(error) and bool(_LOST.search("\n".join([error, *words.heard])))
        epoch = _EPOCH.search(error)
        until = moment(self.reset) or (moment(int(epoch[1])) if epoch else None)
        return Outcome(
            usage=self._usage(),
            context=None if lost else self.context or text(result.get("session_id"), most=200) or None,
            limit=Limit(engine=engine, until=until) if limited and not auth else None,
            auth_failed=auth,
            context_lost=lost,
            error=error[:2000],
            summary=answer if answer and not failed else self.said if self.said != error else "",
            refused=self._refused(),
            acts=self.calls.acts(),
            stop=text(result.get("terminal_reason") or result.get("subtype"), most=100),
            model=self.model,
        )

    def _usage(self) -> Usage | None:
        final = part(self.result, "usage")
        all_used = [final] if isinstance(final, dict) else list(self.spent.values())
        usd = amount(part(self.result, "total_cost_usd"))
        if not all_used and usd is None:
            return None

        def total(key: str) -> int:
            return sum(count(part(used, key)) for used in all_used)

        return Usage(
            inputTokens=total("input_tokens"),
            outputTokens=total("output_tokens"),
            cacheReadTokens=total("cache_read_input_tokens"),
            cacheWriteTokens=total("cache_creation_input_tokens"),
            usd=usd,
            source="unknown" if usd is None else "reported",
        )

    def _refused(self) -> tuple[str, ...]:
        denials = part(self.result, "permission_denials")
        calls = [_call(denial) for denial in denials] if isinstance(denials, list) else []
        return tuple(dict.fromkeys(filter(None, calls or self.denied)))[:MOST_LISTED]


def _call(denial: object) -> str:
    """A refused call in a line: the tool, and its command, file or whatever comes first."""
    name, given = text(part(denial, "tool_name"), most=100), part(denial, "tool_input")
    values = given if isinstance(given, dict) else {}
    first = (values.get(key) for key in ("command", "file_path", "notebook_path", "url", "pattern"))
    what = next(filter(None, (text(value, most=300) for value in first)), "")
    return f"{name}: {what}" if name and what else name or what
