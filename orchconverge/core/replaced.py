"""A person's own command in place of a step of the chain: how it is written, and what of the word that it leaves counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from orchconverge.core.reviewing import Severity
from orchconverge.core.secrets import masked
from orchconverge.core.seen import StepResult
from orchconverge.core.target import NonBlank, Sha
from orchconverge.core.values import StepStatus
from orchconverge.core.views.text import clean

STEPS: Final = ("pushl", "reviewdeep", "copilot")
"""The steps that can be replaced. The report is ours."""
ENGINE: Final = "engine:"
"""How the one word begins that is a prompt for the run's engine, as ``engine:/pushl``."""
MOST_WORD: Final = 256 << 10
MOST_FINDINGS: Final = 100
MOST_TEXT: Final = 2000
MOST_TITLE: Final = 200


class Finding(Struct, frozen=True, kw_only=True):
    """Something that is wrong, at a line of a file; line 0 is the file."""

    path: Annotated[str, Meta(pattern=r"\S", max_length=4096)]
    severity: Severity
    title: NonBlank
    line: Annotated[int, Meta(ge=0)] = 0
    text: str = ""


class Word(Struct, frozen=True, kw_only=True):
    """What the file holds that ORCHCONVERGE_STEP_RESULT names. A reason is asked for however it ended."""

    status: StepStatus
    reason: NonBlank
    url: Annotated[str, Meta(pattern=r"^https?://[!-~]+$", max_length=2000)] | None = None
    commit: Annotated[str, Meta(pattern=r"^([0-9a-f]{40}|[0-9a-f]{64})$")] | None = None
    findings: Annotated[tuple[Finding, ...], Meta(max_length=MOST_FINDINGS)] = ()


def prompt(words: tuple[str, ...]) -> str:
    """The prompt for an engine that the words are; empty if they are an argv."""
    return words[0].removeprefix(ENGINE) if len(words) == 1 and words[0].startswith(ENGINE) else ""


def word(data: bytes) -> StepResult:
    """What a command left, harmless and without what has the shape of a secret. Raises `ValueError` where it is no word."""
    if len(data) > MOST_WORD:
        raise ValueError(f"it is larger than {MOST_WORD >> 10} KiB")
    try:
        found = msgspec.json.decode(data, type=Word)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ValueError(str(error)) from error
    return StepResult(
        status=found.status,
        detail=_said(found.reason),
        url=masked(found.url) if found.url is not None else None,
        commit=Sha(found.commit) if found.commit is not None else None,
        findings=tuple(map(_recorded, found.findings)),
    )


def against(findings: tuple[Mapping[str, object], ...]) -> str:
    """The critical findings as text: what stands against the work; empty if none does."""
    return "\n".join(
        f"{one['path']}:{one['line']} critical: {one['title']}" for one in findings if one["severity"] == "critical"
    )


def _recorded(one: Finding) -> dict[str, object]:
    return {
        "path": _said(one.path),
        "line": one.line,
        "severity": one.severity,
        "title": _said(one.title, MOST_TITLE),
        "text": _said(one.text),
    }


def _said(text: str, most: int = MOST_TEXT) -> str:
    return masked(clean(text))[:most]  # not cut before: half a secret has no shape
