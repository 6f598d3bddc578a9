"""The target file: what a person may write in TOML, checked, and nothing else taken."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from pydantic import (
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from orchconverge.adapters.stages import Inside, StagePart, stage_at
from orchconverge.config import refuse_unknown, said
from orchconverge.core.frontiers import KEPT
from orchconverge.core.judging import drafted
from orchconverge.core.target import Budget, Criterion, Kind, Stage, Termination, once, slug, termination_from
from orchconverge.errors import Refused
from orchconverge.fields import Amount, Count, Line, Text
from orchconverge.whereabouts import read_regular, toml

MOST_BYTES = 1 << 20
_STOP = 'add e.g. termination = "all criteria hold, or 3 attempts, or 1 hour"'
_EXAMPLES = {
    "title": 'add title = "a short name"',
    "macrostate": 'add macrostate = "what is true of the world when it is done"',
    "criteria": 'add [[criteria]] with name = "done" and command = "./check.sh"',
    "stages": 'write [[stages]] with name = "plan" and output = "docs/plan.md", or with command = "commands/plan.md"',
    "name": 'add name = "done" to that [[criteria]]',
    "termination": _STOP,
    "until": 'write it with its zone: until = "2030-01-31T18:00:00Z"',
}


def _no_number(value: object) -> object:
    if isinstance(value, int | float):
        raise ValueError("a date with its time is needed")
    return value


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class CriterionPart(_Part):
    """One [[criteria]]: a command, or another kind with what that kind needs."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")]
    kind: Kind = "command"
    command: Text = Field(default="", description="Run by /bin/sh -c in the tree (kinds command and tests).")
    paths: tuple[Line, ...] = Field(default=(), description="Kind docs: paths that the work must have changed.")
    text: Text = Field(default="", description="Kind judge: what must be true, a clause a line, bullet or sentence.")
    clauses: tuple[Line, ...] = Field(default=(), description="Kind judge: its clauses, in place of those of its text.")
    required: bool = True
    stage: Literal["loop", "chain"] = "loop"
    deadline: Amount = Field(default=600.0, gt=0, le=86_400, description="Seconds.")


class TerminationPart(_Part):
    """The table form of a termination."""

    attempts: Count | None = Field(default=None, ge=1, description="Attempts that count.")
    hours: Amount | None = Field(default=None, gt=0, le=100_000, description="Hours of active time.")
    until: Annotated[AwareDatetime, BeforeValidator(_no_number)] | None = Field(
        default=None, description="An end by the clock on the wall, with its zone."
    )


class BudgetPart(_Part):
    """What the pursuit may spend; what is left out is not limited."""

    usd: Amount | None = Field(default=None, gt=0)
    tokens: Count | None = Field(default=None, gt=0)
    minds: Count | None = Field(default=None, gt=0, description="Minds started, retries included.")


class DeclaredStage(_Part):
    """One [[stages]]: what it is called, reads and writes; or the command in the repository that declares all of it."""

    name: Line | None = None
    inputs: Annotated[tuple[Inside, ...], Field(max_length=KEPT)] = ()
    output: Inside | None = None
    aliases: Annotated[dict[str, Inside], Field(max_length=KEPT)] = Field(
        default={}, description="Other names of its paths: name -> path."
    )
    command: Inside | None = Field(
        default=None, description="A Markdown file with front matter, e.g. commands/plan.md."
    )

    @model_validator(mode="after")
    def _one_form(self) -> DeclaredStage:
        itself = self.name or self.output or self.inputs or self.aliases
        if self.command is not None and itself:
            raise ValueError("a command declares all of its stage itself")
        if self.command is None and (self.name is None or self.output is None):
            raise ValueError("a name and an output are needed, or a command")
        return self

    def stage(self, root: Path) -> Stage:
        """The declaration as the core knows it; that of a command is read below ``root``. Raises `Refused`."""
        if self.command is not None:
            return stage_at(root, self.command)
        assert self.name is not None
        assert self.output is not None
        return StagePart(inputs=self.inputs, output=self.output, aliases=self.aliases).stage(self.name)


class TargetFile(_Part):
    """A written target. Everything but title, macrostate, termination and criteria has a default."""

    model_config = ConfigDict(title="orchconverge target file", extra="forbid", frozen=True)

    id: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")] | None = Field(
        default=None, description="Nothing: the title, slugged; -2, -3 when taken."
    )
    title: Line
    macrostate: Line = Field(description="What is true of the world when it is done.")
    termination: TerminationPart | str = Field(description='A table, or "all criteria hold, or 3 attempts, or 1 hour".')
    criteria: Annotated[tuple[CriterionPart, ...], Field(min_length=1)]
    budget: BudgetPart = BudgetPart(usd=None, tokens=None, minds=None)
    target: Line | None = Field(default=None, description="Branch to merge into. Nothing: the current one.")
    lock: Literal["auto", "person"] | None = Field(
        default=None, description="Who admits. Nothing: the command's own default."
    )
    approaches: tuple[Line, ...] = ()
    may_change: tuple[Line, ...] = Field(
        default=(), description="Globs (`**`: any depth) that a candidate may change unflagged."
    )
    stages: Annotated[tuple[DeclaredStage, ...], Field(max_length=KEPT)] = Field(
        default=(), description="What is made one after the other, each from its inputs."
    )

    @field_validator("termination", mode="before")
    @classmethod
    def _one_form(cls, value: object) -> object:
        if isinstance(value, str):
            found = termination_from(value)
            return {"attempts": found.attempts, "hours": found.hours}
        if not isinstance(value, dict):
            raise ValueError("a sentence or a table is needed")
        return value


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """What a target file says, in the core's own words: all that a `Target` needs but the goal's own defaults."""

    basin: str
    title: str
    macrostate: str
    criteria: tuple[Criterion, ...]
    termination: Termination
    budget: Budget
    branch: str | None
    lock: Literal["auto", "person"] | None
    approaches: tuple[str, ...]
    may_change: tuple[str, ...]
    stages: tuple[Stage, ...] = ()


def load_target_file(path: Path, *, root: Path, found: Sequence[Criterion] = ()) -> Written:
    """Read a target file. ``found`` are the repository's own criteria: a ``kind = "tests"`` without a command is taken from them.

    ``root`` is the top of the repository, below which commands that declare stages lie. Raises `Refused` with what to add
    or mend; a problem at a time.
    """
    data = read_regular(path, most_bytes=MOST_BYTES)
    if data is None:
        raise Refused(f"there is no {path}", hint="give the path of a target file, or a goal in words")
    return written(toml(data, path.name), path.name, root=root, found=found)


def written(table: dict[str, Any], name: str, *, root: Path, found: Sequence[Criterion] = ()) -> Written:
    """Check a target's table; ``name`` is what its file is called in messages. Raises `Refused`."""
    _unknown(table, name)
    if "termination" not in table:
        raise Refused(f"{name} has no stop condition", hint=_STOP)
    try:
        file = TargetFile.model_validate(table)
    except ValidationError as error:
        raise _refused(error, name) from error
    try:
        return _written(file, root, found)
    except ValueError as error:
        raise Refused(f"{name}: {error}", hint=_hint(str(error))) from error


def _written(file: TargetFile, root: Path, found: Sequence[Criterion]) -> Written:
    assert isinstance(file.termination, TerminationPart)
    termination = Termination(
        attempts=file.termination.attempts,
        hours=file.termination.hours,
        until=_utc(file.termination.until),
    )
    criteria = tuple(_criterion(part, found) for part in file.criteria)
    names = [criterion.name for criterion in criteria]
    twice = sorted({each for each in names if names.count(each) > 1})
    if twice:
        raise ValueError(f"two criteria are called {twice[0]}")
    if not any(criterion.in_loop and not criterion.condition for criterion in criteria):
        raise ValueError("nothing can be gained: no criterion but conditions and those of the final chain")
    stages = tuple(part.stage(root) for part in file.stages)
    once(stages)
    return Written(
        basin=file.id or slug(file.title),
        title=file.title,
        macrostate=file.macrostate,
        criteria=criteria,
        termination=termination,
        budget=Budget(**file.budget.model_dump()),
        branch=file.target,
        lock=file.lock,
        approaches=file.approaches,
        may_change=file.may_change,
        stages=stages,
    )


def _criterion(part: CriterionPart, found: Sequence[Criterion]) -> Criterion:
    fields = part.model_dump()
    if part.kind == "tests" and not part.command.strip():
        own = next((criterion for criterion in found if criterion.kind == "tests"), None)
        if own is None:
            raise ValueError(f"criterion {part.name} has no command, and nothing here says how tests are run")
        fields["command"] = own.command
    if part.kind != "judge":
        if part.clauses:
            raise ValueError(f"criterion {part.name} has clauses, and is no judge")
        return Criterion(**fields)
    if part.stage != "loop":
        raise ValueError(f"criterion {part.name} would be judged by nobody: a judge answers in the loop")
    return drafted(Criterion(**fields | {"text": part.text if part.text.strip() else "\n".join(part.clauses)}))


def _unknown(table: dict[str, Any], name: str) -> None:
    refuse_unknown(table, TargetFile.model_fields, name)
    for key, part in (("termination", TerminationPart), ("budget", BudgetPart)):
        value = table.get(key)
        if isinstance(value, dict):
            refuse_unknown(value, part.model_fields, f"{key} of {name}")
    for key, fields in (("criteria", CriterionPart.model_fields), ("stages", DeclaredStage.model_fields)):
        listed = table.get(key)
        for item in listed if isinstance(listed, list) else ():
            if isinstance(item, dict):
                refuse_unknown(item, fields, f"[[{key}]] of {name}")


def _refused(error: ValidationError, name: str) -> Refused:
    first = error.errors(include_url=False, include_input=False)[0]
    path = [str(part) for part in first["loc"] if part not in ("TerminationPart", "str")]
    key = next((part for part in reversed(path) if part in _EXAMPLES), path[-1] if path else "")
    if path[:1] == ["stages"]:
        return Refused(f"{'.'.join(path)} in {name}: {said(first)}", hint=_EXAMPLES["stages"])
    if first["type"] == "missing" and path[:1] == ["criteria"] and len(path) > 1:
        return Refused(f"{name}: criterion {int(path[1]) + 1} has no {path[-1]}", hint=_EXAMPLES.get(key, ""))
    if first["type"] == "missing":
        return Refused(f"{name} has no {'.'.join(path)}", hint=_EXAMPLES.get(key, f"add {key} = ..."))
    return Refused(f"{'.'.join(path)} in {name}: {said(first)}", hint=_EXAMPLES.get(key, ""))


def _hint(problem: str) -> str:
    if "stop condition" in problem:
        return _STOP
    if "gained" in problem:
        return _EXAMPLES["criteria"]
    if "no command" in problem:
        return 'add command = "..." to it, or another kind'
    if "no text" in problem or "no clause" in problem:
        return 'add text = "what must be true" to it'
    if "at most" in problem:
        return "write fewer, or several targets: so many are not one thing"
    if "stages" in problem:
        return "give each another name"
    if "no paths" in problem:
        return 'add paths = ["README.md"] to it'
    return "mend it there"


def _utc(until: datetime | None) -> datetime | None:
    return None if until is None else until.astimezone(UTC)
