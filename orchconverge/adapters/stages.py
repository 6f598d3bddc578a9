"""Reads what a stage declares: `inputs`, `output` and `aliases`, in the front matter of a command or in a target file.

A command is a Markdown file of the repository. It is read as data: nothing in it is run or told to anybody here.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from orchconverge.core.frontiers import KEPT
from orchconverge.core.target import Stage
from orchconverge.errors import Refused
from orchconverge.whereabouts import read_regular

MOST_BYTES = 256 << 10
_EXAMPLE = "write e.g. `inputs: [docs/spec.md]` and `output: docs/plan.md`"
COMMANDS = ("commands", ".claude/commands")
"""Where in a repository a slash command is looked for, in this order; ``/a:b`` is ``b.md`` in the folder ``a`` there."""
_SLASH = re.compile(r"\s*/([A-Za-z0-9][\w.-]*(?::[A-Za-z0-9][\w.-]*)*)(?:\s|$)")
_KEY = re.compile(r"(inputs|output|aliases):(?:\s+(.*))?$")
_PAIR = re.compile(r"(\"[^\"]*\"|'[^']*'|[^\s:'\"][^:]*?)\s*:\s+(.+)$")


def _inside(path: str) -> str:
    plain = path.strip()
    parts = plain.split("/")
    if not plain or plain.startswith(("/", "~")) or ".." in parts or parts[0].lower() == ".git":
        raise ValueError("a path below the top of the repository is needed")
    if any(ord(letter) < 32 for letter in plain) or any(letter in plain for letter in "*?[]"):
        raise ValueError("one path is needed, not a pattern")
    return plain


Inside = Annotated[str, Field(max_length=1000), AfterValidator(_inside)]


class StagePart(BaseModel):
    """What one stage declares. Reading its inputs is its progress, and writing its output is its end; nothing else is."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    inputs: Annotated[tuple[Inside, ...], Field(max_length=KEPT)] = ()
    output: Inside
    aliases: Annotated[dict[str, Inside], Field(max_length=KEPT)] = {}

    def stage(self, name: str) -> Stage:
        """The declaration as the core knows it."""
        return Stage(name=name, inputs=self.inputs, output=self.output, aliases=dict(self.aliases))


def stages_of_goal(root: Path, goal: str) -> tuple[Stage, ...]:
    """The stage, if any, of the slash command that a goal begins with, by the first file of that name below ``root``.

    Raises as `read_stage`.
    """
    command = _SLASH.match(goal)
    files = [root / folder / f"{command[1].replace(':', '/')}.md" for folder in COMMANDS] if command else []
    declared = next((read_stage(file) for file in files if file.is_file()), None)
    return (declared,) if declared is not None else ()


def stage_at(root: Path, path: str) -> Stage:
    """The stage that the command at ``path`` below ``root`` declares. Raises `Refused` also where it declares none."""
    try:
        inside = _inside(path)
    except ValueError as error:
        raise Refused(f"{path}: {error}", hint="write e.g. commands/plan.md") from error
    if not (root / inside).exists():
        raise Refused(f"there is no {inside} in this repository", hint="name a command in it, e.g. commands/plan.md")
    found = read_stage(root / inside)
    if found is None:
        raise Refused(f"{inside} declares no stage", hint=f"in its front matter {_EXAMPLE}")
    return found


def read_stage(file: Path) -> Stage | None:
    """The stage that a Markdown file declares, called as the file; ``None`` if it is missing or declares none.

    Raises `Refused` if it declares one that cannot be.
    """
    content = read_regular(file, most_bytes=MOST_BYTES)
    return None if content is None else stage_of(content.decode("utf-8", "replace"), file.stem)


def stage_of(text: str, name: str) -> Stage | None:
    """The stage that a Markdown text with front matter declares. Raises `Refused`."""
    declared = _declared(text)
    if not declared:
        return None
    try:
        return StagePart.model_validate(declared).stage(name)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise Refused(f"the stage {name}: {place}: {first['msg']}", hint=_EXAMPLE) from error


def _declared(text: str) -> dict[str, object]:
    """Our keys of the front matter; the others belong to the agents, whose own dialects are not judged here.

    A list is ``[a, b]`` or one ``- a`` a line; aliases are ``{name: path}`` or one ``name: path`` a line.
    """
    lines = text.removeprefix("\ufeff").splitlines()
    if not lines or lines[0].rstrip() != "---":
        return {}
    ends = next((n for n, line in enumerate(lines[1:], 1) if line.rstrip() in ("---", "...")), 0)
    found: dict[str, object] = {}
    key, below = "", list[str]()
    for line in [*lines[1:ends], "end:"]:
        if line[:1] in (" ", "\t", "-", "#") or not line.strip():
            below.append(line.strip())
            continue
        if key:
            found[key] = _value(key, str(found[key]), [one for one in below if one and not one.startswith("#")])
        head = _KEY.match(line.rstrip())
        key, below = (head[1], []) if head else ("", [])
        if head:
            found[key] = (head[2] or "").strip()
    return found


def _value(key: str, beside: str, below: list[str]) -> object:
    if key == "output":
        return _scalar(beside or " ".join(below))
    if key == "inputs":
        if beside.startswith("[") and beside.endswith("]"):
            return [_scalar(one) for one in _split(beside[1:-1])]
        listed = [one.removeprefix("-").strip() for one in below if one.startswith("-")]
        return [_scalar(one) for one in ([beside] if beside else listed)]
    pairs = _split(beside[1:-1]) if beside.startswith("{") and beside.endswith("}") else below
    matched = [(one, _PAIR.match(one)) for one in pairs]
    return {_scalar(pair[1] if pair else one): _scalar(pair[2]) if pair else "" for one, pair in matched}


def _split(text: str) -> list[str]:
    return [one.strip() for one in re.findall(r"(?:\"[^\"]*\"|'[^']*'|[^,])+", text) if one.strip()]


def _scalar(text: str) -> str:
    plain = text.strip()
    if plain[:1] == "'" and (closed := re.match(r"'((?:[^']|'')*)'", plain)):
        return closed[1].replace("''", "'")
    if plain[:1] == '"' and (quoted := re.match(r'"(?:[^"\\]|\\.)*"', plain)):
        try:
            return str(json.loads(quoted[0]))
        except ValueError:
            return quoted[0][1:-1]
    return re.sub(r"\s#.*$", "", plain).rstrip()
