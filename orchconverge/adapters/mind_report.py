"""The mind's own word, read from the file it wrote: whatever is in there, the good parts are kept and the rest is named."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError

from orchconverge.core.values import Residue, Verdict
from orchconverge.ports import MindReport

MOST_BYTES = 64 << 10
MOST_PARTS = 200
"""Of residue and of questions each; what is over is left out and said."""

T = TypeVar("T")


def _plain(value: object) -> object:
    """Text that can be stored: lone surrogates (legal in JSON as an escape) and NUL bytes are replaced."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8").replace("\0", "\N{REPLACEMENT CHARACTER}")
    return value


Text = Annotated[str, BeforeValidator(_plain)]
Line = Annotated[Text, Field(pattern=r"\S")]


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)


class VerdictPart(_Part):
    """An honest statement that the mind could not or should not go on."""

    kind: Literal["cannot", "needs_person", "unsafe", "already_done"]
    text: Line


class ResiduePart(_Part):
    """Something learned that the next mind should know."""

    text: Line
    paths: list[Line] | None = Field(default=None, max_length=MOST_PARTS)
    criterion: Line | None = None


class FrontierPart(_Part):
    """An open question, and what waits for its answer."""

    question: Line
    blocks: Text | None = None


class ReportFile(_Part):
    """What a mind may write to the file named in ORCHCONVERGE_REPORT, at most 64 KiB."""

    model_config = ConfigDict(title="orchconverge report of a mind", extra="ignore", frozen=True, strict=True)

    summary: Text = ""
    verdict: VerdictPart | None = None
    residue: list[ResiduePart] = Field(default_factory=list, max_length=MOST_PARTS)
    frontier: list[FrontierPart] = Field(default_factory=list, max_length=MOST_PARTS)


def read_report(data: bytes) -> MindReport:
    """Any bytes give a report. ``problem`` says what was wrong with them, and is empty if nothing was; nothing is raised."""
    if not data.strip():
        return MindReport(problem="the report is empty")
    if len(data) > MOST_BYTES:
        return MindReport(problem=f"the report is larger than {MOST_BYTES} bytes ({len(data)}) and was not read")
    try:
        table = json.loads(data.decode("utf-8-sig", "replace"))
    except (ValueError, RecursionError) as error:
        return MindReport(problem=f"the report is not JSON: {error}")
    if not isinstance(table, dict):
        return MindReport(problem="the report is not a JSON object")
    problems: list[str] = []
    verdict = _one(table, "verdict", _VERDICT, problems)
    asked = _many(table, "frontier", _FRONTIER, problems)
    return MindReport(
        summary=_one(table, "summary", _TEXT, problems) or "",
        verdict=None if verdict is None else Verdict(kind=verdict.kind, text=verdict.text),
        residue=tuple(
            Residue(text=part.text, paths=tuple(part.paths or ()), criterion=part.criterion)
            for part in _many(table, "residue", _RESIDUE, problems)
        ),
        frontier=tuple(dict.fromkeys(part.question for part in asked)),
        blocked={part.question: part.blocks for part in asked if part.blocks and part.blocks.strip()},
        problem="; ".join(problems[:5]),
    )


_TEXT: TypeAdapter[str] = TypeAdapter(Text, config=ConfigDict(strict=True))
_VERDICT = TypeAdapter(VerdictPart)
_RESIDUE = TypeAdapter(ResiduePart)
_FRONTIER = TypeAdapter(FrontierPart)


def _one(table: dict[str, Any], key: str, kind: TypeAdapter[T], problems: list[str]) -> T | None:
    value = table.get(key)
    return None if value is None else _checked(value, key, kind, problems)


def _many(table: dict[str, Any], key: str, kind: TypeAdapter[T], problems: list[str]) -> list[T]:
    value = table.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        problems.append(f"{key} is not a list")
        return []
    if len(value) > MOST_PARTS:
        problems.append(f"{key} has {len(value)} parts, of which {MOST_PARTS} are kept")
    checked = (
        _checked({_ALONE[key]: part} if isinstance(part, str) else part, f"{key}[{place}]", kind, problems)
        for place, part in enumerate(value[:MOST_PARTS])
    )
    return [part for part in checked if part is not None]


_ALONE = {"residue": "text", "frontier": "question"}
"""Where a part that is text alone belongs: minds write `["use the registry"]`, and what they mean is clear."""


def _checked(value: object, name: str, kind: TypeAdapter[T], problems: list[str]) -> T | None:
    try:
        return kind.validate_python(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join([name, *(str(part) for part in first["loc"])])
        problems.append(f"{place}: {first['msg']}")
    return None
