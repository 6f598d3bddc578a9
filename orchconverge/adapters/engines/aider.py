"""aider, headless: `aider --message-file`, one prompt and its answer.

What it prints was captured from 0.86.2: words, no records. It edits the files of the tree and commits each time by itself; it
runs no command that the model thinks of, so there is nothing to skip. Its own files go into the mind's folder, but for the
repository map's cache, which it has no other place for: without ``.aider*`` in ``.gitignore`` there is no map.
"""

from __future__ import annotations

import re
import shutil
from collections import deque
from collections.abc import Mapping
from pathlib import Path

from orchconverge.adapters.engines import trouble
from orchconverge.adapters.engines.calls import Calls
from orchconverge.adapters.engines.reading import LONGEST_WORD, lines, text
from orchconverge.core.seen import Outcome
from orchconverge.core.values import Settings, Usage
from orchconverge.errors import Refused
from orchconverge.ports import Brief, Launch

PASS_THROUGH = (
    "AIDER_*",
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
PLAIN = ("--no-pretty", "--no-stream", "--no-fancy-input", "--no-show-model-warnings", "--no-show-release-notes")
ALONE = ("--yes-always", "--no-suggest-shell-commands", "--no-detect-urls", "--no-check-update", "--analytics-disable")
TIDY = ("--no-gitignore", "--no-dirty-commits", "--no-attribute-author", "--no-attribute-committer")
MESSAGE = "aider-message.md"
INSIDE = """You can write files of the repository and nothing else, and run no command: leave the report file out, and say
what belongs in it at the end of your answer. What you write is committed for you."""
"""One file outside, and aider takes none of an answer."""
MOST_SAID = 60
"""The lines of the last answer that are looked at."""

TELLING = ("Tokens:", "Applied", "Added", "Skipping", "Commit", "Model:", "Main model:", "The ", "Missing")
"""How the lines begin that are aider's own."""

_EDITED = re.compile(r"Applied edit to (.+)")
_ADDED = re.compile(r"Added (.+) to the chat\.?")
_SKIPPED = re.compile(r"Skipping edits to (.+?)(?: that matches gitignore spec\.| outside.*)?")
_COMMITTED = re.compile(r"Commit [0-9a-f]{7,40} (.*)")
_TOKENS = re.compile(r"Tokens: (.+ sent|.+ received).*")
_NUMBER = re.compile(r"([\d.,]+)([kM]?) (sent|cache write|cache hit|received)")
_COST = re.compile(r"Cost: \$([\d.]+) message")
_FAILED = re.compile(
    r"(?:litellm\.)?\w*(?:Error|Exception): .+|The API provider .+|Missing these environment variables.*"
    r"|The LLM did not conform .+"
)
_MODEL = re.compile(r"(?:Main model|Model): (\S+) with .+")
_UNITS = {"": 1, "k": 1_000, "M": 1_000_000}


class Aider:
    """The engine ``aider``."""

    name = "aider"
    variables: tuple[str, ...] = PASS_THROUGH
    contextual = False
    commits = True

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    def find(self) -> str | None:
        """``aider`` on PATH."""
        return shutil.which("aider", path=self._environ.get("PATH"))

    def launch(self, brief: Brief, settings: Settings) -> Launch:
        """The brief is read from a file, with a word on what aider cannot do. Raises `Refused`."""
        program = self.find()
        if program is None:
            raise Refused("aider is not installed", hint="pipx install aider-chat, or another --engine")
        if brief.judge:
            raise Refused("aider writes files of a repository alone, and no answer", hint="add an engine to the chain")
        argv = [program, "--message-file", str(brief.folder / MESSAGE), *PLAIN, *ALONE, *TIDY]
        argv += ["--chat-history-file", str(brief.folder / "aider.history.md")]
        argv += ["--input-history-file", str(brief.folder / "aider.input")]
        if not _ignores(brief.cwd):
            argv += ["--map-tokens", "0"]
        if brief.model:
            argv += ["--model", brief.model]
        # It breaks lines where a terminal would: a path in two parts is none.
        files = {MESSAGE: f"{brief.text}\n{INSIDE}\n"}
        return Launch(argv=tuple(argv), env={"COLUMNS": "1000"}, brief_on_stdin=False, files=files)

    def read(self, log: bytes) -> Outcome:
        """What its words say: they could also be the model's, and are as little believed as those."""
        talk = _Talk()
        for line in lines(log):
            talk.take(line[: 4 * LONGEST_WORD].decode("utf-8", "replace").strip())
        return talk.outcome(self.name)


def _ignores(tree: Path) -> bool:
    """Whether git is told there to overlook what aider leaves."""
    try:
        return any(line.strip() in (".aider*", "/.aider*") for line in (tree / ".gitignore").read_text().splitlines())
    except (OSError, ValueError):
        return False


class _Talk:
    """What was read so far."""

    def __init__(self) -> None:
        self.block: deque[str] = deque(maxlen=MOST_SAID)
        self.said = ""
        self.failed: deque[str] = deque(maxlen=4)
        self.model = ""
        self.usage: Usage | None = None
        self.calls = Calls()

    def take(self, line: str) -> None:
        if not line.startswith(TELLING) and "Error: " not in line and "Exception: " not in line:
            self.block.append(line)
        elif found := _TOKENS.fullmatch(line):
            self._spent(line)
            self.said, self.failed = _answer(self.block), deque(maxlen=4)
            self.block.clear()
        elif found := _EDITED.fullmatch(line):
            self.calls.did("write", found[1], ok=True, tool="edit")
        elif found := _ADDED.fullmatch(line):
            self.calls.did("read", found[1], ok=True, tool="add")
        elif found := _SKIPPED.fullmatch(line):
            self.calls.did("write", found[1], ok=False, refused=True, tool="edit")
        elif _COMMITTED.fullmatch(line):
            self.calls.did("shell", "git commit", ok=True, tool="git")
        elif found := _MODEL.fullmatch(line):
            self.model = text(found[1], most=200)
        elif _FAILED.fullmatch(line):
            self.failed.append(line)
        else:
            self.block.append(line)

    def _spent(self, line: str) -> None:
        numbers = {what: _tokens(number, unit) for number, unit, what in _NUMBER.findall(line)}
        cost, before = _COST.search(line), self.usage or Usage()
        usd = (before.usd or 0.0) + (_price(cost[1]) if cost else 0.0)
        self.usage = Usage(
            inputTokens=before.inputTokens + numbers.get("sent", 0),
            outputTokens=before.outputTokens + numbers.get("received", 0),
            cacheReadTokens=before.cacheReadTokens + numbers.get("cache hit", 0),
            cacheWriteTokens=before.cacheWriteTokens + numbers.get("cache write", 0),
            usd=usd or None,
            source="reported" if usd else "unknown",
        )

    def outcome(self, engine: str) -> Outcome:
        """What it adds up to."""
        error = text("\n".join(dict.fromkeys(self.failed)))
        if not error and self.usage is None:
            error = text("\n".join(list(self.block)[-10:])) or "it ended without a result"
        found = trouble.of(error, engine=engine) if self.failed else trouble.Trouble()
        return Outcome(
            usage=self.usage,
            limit=found.limit,
            auth_failed=found.auth,
            error=error,
            summary=text(self.said),
            refused=self.calls.refused(),
            acts=self.calls.acts(),
            stop="" if error else "completed",
            model=self.model,
        )


def _answer(block: deque[str]) -> str:
    """The last words of an answer, after its files."""
    said = list(block)
    fence = max((i for i, line in enumerate(said) if line.startswith("```")), default=-1)
    return "\n".join(said[fence + 1 :][-20:])


def _tokens(number: str, unit: str) -> int:
    """Tokens as aider shortens them: ``1.2k``."""
    try:
        return min(round(float(number.replace(",", "")) * _UNITS[unit]), 1 << 53)
    except (ValueError, OverflowError):
        return 0


def _price(number: str) -> float:
    try:
        return float(number)
    except ValueError:
        return 0.0
