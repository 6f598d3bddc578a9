"""What one value of a setting or a target file may be, checked as it comes from outside."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema
from pydantic_settings import NoDecode

from orchconverge.core.replaced import ENGINE

STEPS: dict[str, str] = {
    "push": "pushl",
    "pushl": "pushl",
    "review": "reviewdeep",
    "reviewdeep": "reviewdeep",
    "copilot": "copilot",
    "report": "report",
}
"""What may be written in ``final`` -> the step it means, in the order in which steps run."""


def _no_truth(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("a number is needed, not true or false")
    return value


def _no_nul(value: str) -> str:
    if "\0" in value:
        raise ValueError("a NUL byte cannot be part of it")
    return value


def listed(value: object) -> object:
    """A list from an environment variable or a flag: JSON if it begins like it, else separated by commas."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        try:
            return json.loads(value)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"it begins like a JSON list and is none: {error}") from error
    return [part.strip() for part in value.split(",") if part.strip()]


def _chain(value: object) -> object:
    words = listed(value)
    return chained(words) if isinstance(words, list | tuple) else words


def chained(words: object) -> tuple[str, ...]:
    """Words of the final chain -> its steps in order; ``report`` always comes last, unless there is nothing at all."""
    asked = list(words) if isinstance(words, Iterable) else []
    if asked == ["none"]:
        return ()
    for word in asked:
        if not isinstance(word, str) or word not in STEPS:
            raise ValueError(f"{word!r} is no step; write none, or any of {', '.join(STEPS)}")
    meant = {STEPS[word] for word in asked} | {"report"}
    return tuple(step for step in dict.fromkeys(STEPS.values()) if step in meant)


def _own(value: object) -> object:
    """A command of a person's own: an argv, or the one word ``engine:PROMPT``."""
    words = listed(value) if isinstance(value, str) and value.lstrip().startswith("[") else value
    if isinstance(words, str):
        if not words.strip():
            return ()
        if words.startswith(ENGINE) and words.removeprefix(ENGINE).strip():
            return (words,)
        raise ValueError(f'it must be a list of words, as ["my-push", "--fast"], or "{ENGINE}/COMMAND"')
    if isinstance(words, list | tuple) and words and str(words[0]).startswith(ENGINE):
        if len(words) > 1:
            raise ValueError(f'after "{ENGINE}" comes the whole prompt, in one text')
        return _own(words[0])
    return words


Text = Annotated[str, AfterValidator(_no_nul)]
Count = Annotated[int, BeforeValidator(_no_truth)]
Amount = Annotated[float, BeforeValidator(_no_truth), Field(allow_inf_nan=False)]
Line = Annotated[str, Field(pattern=r"\S"), AfterValidator(_no_nul)]
Lines = Annotated[tuple[Line, ...], NoDecode, BeforeValidator(listed)]
Variables = Annotated[
    tuple[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], ...], NoDecode, BeforeValidator(listed)
]
Command = Annotated[
    tuple[Line, ...],
    NoDecode,
    BeforeValidator(_own),
    WithJsonSchema(
        {"anyOf": [{"type": "string", "pattern": rf"^{ENGINE}.*\S"}, {"type": "array", "items": {"type": "string"}}]}
    ),
]
"""A command of a person's own, as words; none: ours."""
Chain = Annotated[
    tuple[str, ...],
    NoDecode,
    BeforeValidator(_chain),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"enum": ["none", *STEPS]}}]}),
]
