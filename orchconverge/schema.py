"""The JSON Schemas of what is persisted and what is taken in, generated: `python -m orchconverge.schema state/schema`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import msgspec
from pydantic import BaseModel

from orchconverge.adapters.mind_report import ReportFile
from orchconverge.config import Config
from orchconverge.core.events import AnyFact
from orchconverge.core.judging import Judgement
from orchconverge.target_file import TargetFile

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_MODELS: dict[str, type[BaseModel]] = {
    "settings.schema.json": Config,
    "target.schema.json": TargetFile,
    "mind-report.schema.json": ReportFile,
}


def schemas() -> dict[str, str]:
    """File name -> JSON text, ending in a newline; the same for the same code."""
    line = {"title": "a line of orchconverge's ledger", **msgspec.json.schema(AnyFact)}
    answer = {"title": "orchconverge answer of a judge", **msgspec.json.schema(Judgement)}
    return {
        "line.schema.json": _text(line),
        "judge-answer.schema.json": _text(answer),
        **{name: _text(model.model_json_schema(by_alias=False)) for name, model in _MODELS.items()},
    }


def write(folder: Path) -> None:
    """Write every schema into ``folder``, over what is there."""
    for name, text in schemas().items():
        (folder / name).write_text(text, encoding="utf-8")


def _text(schema: dict[str, Any]) -> str:
    return json.dumps(_whole({"$schema": DIALECT, **schema}), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _whole(value: object) -> object:
    """Whole numbers without a fraction: pydantic's versions differ in ``0`` and ``0.0``, which are one number in JSON."""
    if isinstance(value, dict):
        return {key: _whole(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_whole(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


if __name__ == "__main__":
    write(Path(sys.argv[1] if len(sys.argv) > 1 else "state/schema"))
