"""Slash commands: one Markdown source for each, and what the shell of each agent reads of it.

The agents hand the request over in ways of their own, each seen with the real CLI, but for Copilot's prompts:

- Claude Code puts it where ``$ARGUMENTS`` stands, with a backslash before some exclamation marks, and once more as it was
  typed, in ``<command-args>``.
- Gemini CLI and opencode change ``$&`` and ``$$`` where they fill in a placeholder. Where there is none they put the request
  at the end, as it was typed.
- Codex and Copilot fill nothing in: the request is in the user's own message.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from hashlib import sha256
from typing import Final, Literal

from msgspec import Struct

from orchconverge.errors import Refused

REQUEST: Final = """\
The request, word for word; where `<command-args>` stands too, what is in that counts:

<request>
$ARGUMENTS
</request>

If nothing stands between the marks, or only a placeholder that was not filled in, take the request from what the user
wrote.
"""
"""The part of every source that differs from agent to agent, as the source has it."""
_LAST: Final = """\
The request, word for word, is at the very end of this text: all that stands behind `/{name}` there, or all of it where that
is not repeated. If nothing follows this text, take the request from what the user wrote.
"""
_SAID: Final = """\
The request, word for word, is what the user wrote behind the name of this skill (`${name}`, `/{name}`), or what the user
asked for.
"""
_STAMP: Final = re.compile(
    rb"^# by `orchconverge commands`, left alone once it is changed: ([0-9a-f]{64})\n", re.MULTILINE
)
_LINE: Final = re.compile(r"(description|argument-hint): +(.+)")
CONVERSED: Final = frozenset({"orchconverge"})
"""Commands that are also for what a user says without typing them: skills, where commands are not shown to the model."""
LONGEST_DESCRIPTION: Final = 1024
"""Of a skill, in characters: https://agentskills.io/specification ."""

Kind = Literal["claude", "opencode", "toml", "skill", "prompt"]
Standing = Literal["missing", "fine", "outdated", "changed", "not ours"]
Scope = Literal["project", "user"]


class Source(Struct, frozen=True, kw_only=True):
    """A command as it is shipped: its name, the two texts of its front matter, and the text that the agent gets."""

    name: str
    description: str
    hint: str
    body: str


class File(Struct, frozen=True, kw_only=True):
    """One command as one agent reads it; ``path`` is relative to the folder that the agent has in the scope."""

    agent: str
    command: str
    path: str
    data: bytes


class Reads(Struct, frozen=True):
    """A kind of file that an agent reads, ``{}`` being the command's name. ``conversed``: of `CONVERSED` alone, or of others."""

    kind: Kind
    path: str
    scopes: tuple[Scope, ...] = ("project", "user")
    conversed: bool | None = None


AGENTS: Final[dict[str, tuple[Reads, ...]]] = {
    # Both would be shown to Claude twice; a command is shown to it as a skill is.
    "claude": (
        Reads("claude", "commands/{}.md", conversed=False),
        Reads("claude", "skills/{}/SKILL.md", conversed=True),
    ),
    "codex": (Reads("skill", "skills/{}/SKILL.md"),),
    "gemini": (Reads("toml", "commands/{}.toml"), Reads("skill", "skills/{}/SKILL.md", conversed=True)),
    "opencode": (Reads("opencode", "commands/{}.md"), Reads("skill", "skills/{}/SKILL.md", conversed=True)),
    "copilot": (Reads("skill", "skills/{}/SKILL.md"), Reads("prompt", "prompts/{}.prompt.md", scopes=("project",))),
}
"""Agent -> what it reads of ours."""


def source(name: str, text: str) -> Source:
    """A command as its Markdown file says it. Raises `Refused` where the front matter or the request's part is missing."""
    head, closed, body = text.removeprefix("---\n").partition("\n---\n")
    found = {key: _plain(value) for key, value in _LINE.findall(head)}
    if not closed or "description" not in found or body.count(REQUEST) != 1:
        raise Refused(f"commands/{name}.md is not whole", hint="install orchconverge again")
    return Source(name=name, description=found["description"], hint=found.get("argument-hint", ""), body=body)


def files(sources: tuple[Source, ...], agent: str, scope: Scope) -> Iterator[File]:
    """All that an agent of `AGENTS` reads in a scope."""
    for each in sources:
        for reads in AGENTS[agent]:
            fits = reads.conversed is None or reads.conversed == (each.name in CONVERSED)
            if fits and scope in reads.scopes:
                data = _stamped(_text(each, reads.kind))
                yield File(agent=agent, command=each.name, path=reads.path.format(each.name), data=data)


def plugin(sources: tuple[Source, ...]) -> dict[str, bytes]:
    """What agents need beside ``commands/*.md`` that install the repository itself: path in it -> bytes."""
    made = {f"commands/{each.name}.toml": _stamped(_text(each, "toml")) for each in sources}
    return made | {f".codex-plugin/skills/{each.name}/SKILL.md": _stamped(_text(each, "skill")) for each in sources}


def standing(there: bytes | None, wanted: bytes) -> Standing:
    """How a file stands to what would be written now. Only what bears our line, unchanged since, is ours to replace or remove."""
    if there is None:
        return "missing"
    if there == wanted:
        return "fine"
    stamp = _STAMP.search(there)
    if stamp is None:
        return "not ours"
    rest = there[: stamp.start()] + there[stamp.end() :]
    return "outdated" if sha256(rest).hexdigest().encode() == stamp[1] else "changed"


def _plain(value: str) -> str:
    return str(json.loads(value)) if value.startswith('"') else value.strip()


def _text(each: Source, kind: Kind) -> tuple[str, str]:
    """A form in two parts, between which the stamp goes: a comment in front matter, and in TOML."""
    body = each.body if kind == "claude" else each.body.replace(REQUEST, _asked(each, kind))
    described = f"description: {_quoted(each.description)}\n"
    if kind == "toml":
        if "'''" in body:
            raise Refused(f"commands/{each.name}.md holds three quotes in a row", hint="write it without")
        return "", f"description = {_quoted(each.description)}\nprompt = '''\n{body}'''\n"
    named = f"name: {each.name}\n" if kind == "skill" or (each.name in CONVERSED and kind == "claude") else ""
    hint = f"argument-hint: {_quoted(each.hint)}\n" if kind in ("claude", "prompt") and each.hint else ""
    return "---\n", f"{named}{described}{hint}---\n{body}"


def _asked(each: Source, kind: Kind) -> str:
    return (_LAST if kind in ("toml", "opencode") else _SAID).format(name=each.name)


def _quoted(text: str) -> str:
    """Text in double quotes, as YAML and TOML read it too."""
    return json.dumps(text, ensure_ascii=False)


def _stamped(parts: tuple[str, str]) -> bytes:
    before, after = (part.encode() for part in parts)
    digest = sha256(before + after).hexdigest().encode()
    return before + b"# by `orchconverge commands`, left alone once it is changed: " + digest + b"\n" + after
