"""What the client prints: a line for each thing that counts, for our parser and for whoever watches the pane."""

from __future__ import annotations

import json
import logging
import sys
from dataclasses import dataclass, field

from orchconverge.acp_client.permission import KINDS, unwrapped
from orchconverge.acp_client.spec import MOST_LISTED, each, get, words

LONGEST_TEXT, LONGEST_TARGET, LONGEST_WHY, LONGEST_COMMAND = 900, 600, 300, 4000
ENDED = ("completed", "failed")


def tell(sentence: str, **facts: object) -> None:
    """A line: the facts for our parser, and the sentence that the pane shows."""
    _out({"type": sentence, "acp": facts})


def stray(line: str) -> None:
    """A line that the agent printed beside the protocol, marked."""
    sys.stdout.write(f"agent: {words(line, 300)}\n")
    sys.stdout.flush()


def _out(line: object) -> None:
    sys.stdout.write(json.dumps(line, ensure_ascii=False) + "\n")
    sys.stdout.flush()


class Complaints(logging.Handler):
    """What the SDK logs, in a line without a traceback."""

    def emit(self, record: logging.LogRecord) -> None:
        """Say it."""
        why = record.exc_info[1] if record.exc_info else None
        stray(" ".join(f"(client) {record.getMessage()}: {why}"[:500].split()))


class Speech:
    """The agent's words, which come in pieces of any size: told by lines, each message with a number of its own."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._kind, self._message, self._number, self._held = "", "", 0, ""

    def hear(self, kind: str, piece: str, *, message: str = "") -> None:
        """A piece of ``text``, or of a ``thought``; of which message, if the agent says so."""
        if (kind, message) != (self._kind, self._message):
            self.end()
            self._kind, self._message = kind, message
        self._held += piece
        if kind == "text" and (len(self._held) > LONGEST_TEXT or "\n" in piece):
            at = self._held.rfind("\n") + 1 or len(self._held)
            self._tell(self._held[:at])
            self._held = self._held[at:]
        self._held = self._held[:LONGEST_TEXT]

    def end(self) -> None:
        """Something else happened: the message is over."""
        if self._kind == "thought" and self._held.strip():
            tell(f"thinks: {self._held[:LONGEST_WHY]}", thought=self._held[:LONGEST_WHY])
        elif self._held:
            self._tell(self._held)
        self._number += bool(self._kind)
        self._kind, self._held = "", ""

    def _tell(self, said: str) -> None:
        for start in range(0, len(said), LONGEST_TEXT):
            part = said[start : start + LONGEST_TEXT]
            if self._most > 0:  # where the pane takes them from, so does our parser
                _out({"message": {"content": [{"type": "text", "text": part}]}, "acp": {"text": self._number}})
            elif self._most + len(part) > 0:
                tell("says more than is kept")
            self._most -= len(part)


@dataclass
class Call:
    """A tool call as far as it was shown."""

    kind: str = ""
    name: str = ""
    title: str = ""
    command: str = ""
    query: str = ""
    paths: list[str] = field(default_factory=list)
    diffs: dict[str, tuple[int, int, bool]] = field(default_factory=dict)
    """Path -> characters before and after, and whether they are the same."""
    status: str = ""
    why: str = ""
    exit: int | None = None
    told: tuple[str, ...] = ()

    def take(self, update: object) -> None:
        """What an update adds."""
        given, out = get(update, "rawInput"), get(update, "rawOutput")
        self.kind = words(get(update, "kind"), 40) or self.kind
        name = get(update, "name") or get(update, "_meta", "claudeCode", "toolName")
        self.name = words(name, 100) or self.name
        self.title = words(get(update, "title"), LONGEST_TARGET) or self.title
        self.command = words(unwrapped(get(given, "command") or get(given, "cmd")), LONGEST_COMMAND) or self.command
        self.query = words(get(given, "pattern") or get(given, "query"), LONGEST_TARGET) or self.query
        self.status = words(get(update, "status"), 40) or self.status
        found = [get(place, "path") for place in each(get(update, "locations"))]
        for part in each(get(update, "content")):
            if get(part, "type") == "diff":
                path, old, new = (words(get(part, key), 1 << 24) for key in ("path", "oldText", "newText"))
                found.append(path)
                self.diffs[path[:LONGEST_TARGET]] = (len(old), len(new), old == new)
            self.why = words(get(part, "content", "text"), LONGEST_WHY) or self.why
        if not found and not self.paths:
            found = [get(given, key) for key in ("file_path", "filePath", "absolute_path", "path")]
        paths = [path for path in found if isinstance(path, str) and path]
        self.paths = list(dict.fromkeys([*self.paths, *paths]))[:MOST_LISTED]
        codes = (get(out, "exit_code"), get(out, "exitCode"), get(out, "metadata", "exit"))
        self.exit = next((code for code in codes if type(code) is int), self.exit)

    @property
    def ours(self) -> str:
        """Its kind in our words."""
        return KINDS.get(self.kind) or ("run" if self.command else "other")

    @property
    def target(self) -> str:
        """The command, the file, or what is looked for; empty as long as nothing of it is known."""
        if self.ours == "run":
            return self.command
        if self.ours == "search" and self.query:
            return self.query
        return words(next(iter(self.paths), self.query or self.command), LONGEST_TARGET)

    def tell(self, key: str, *, weak: bool = False) -> None:
        """A line, if there is news. One that is only begun is told of once its target is known, or if ``weak`` anyway."""
        ended = self.status in ENDED
        target = self.target or (self.title if ended or weak else "")
        news = (self.ours, target, self.status if ended else "")
        if news == self.told or not (target or ended or weak):
            return
        self.told = news
        more = {"tool": self.name or self.kind, "paths": self.paths[1:], "exit": self.exit, "diff": self.diffs}
        if self.status == "failed" or self.exit:
            more["why"] = self.why
        facts = {name: value for name, value in more.items() if value not in (None, "", [], {})}
        said = f"{self.ours} {target}: {self.status}" if ended else f"→ {self.ours} {target}"
        tell(said, call={"id": key, "kind": self.ours, "target": target, "status": self.status, **facts})
