"""The schemas in state/schema are those of the code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchconverge.schema import schemas, write

FOLDER = Path(__file__).parents[2] / "state" / "schema"


@pytest.mark.parametrize("name", sorted(schemas()))
def test_the_stored_schema_is_the_one_of_the_code(name: str) -> None:
    stored = (FOLDER / name).read_text(encoding="utf-8")
    assert stored == schemas()[name], "run `python -m orchconverge.schema state/schema` and look at what changed"


def test_no_schema_is_left_over() -> None:
    assert {path.name for path in FOLDER.glob("*.json")} == set(schemas())


def test_each_fact_has_its_line(tmp_path: Path) -> None:
    write(tmp_path)
    line = json.loads((tmp_path / "line.schema.json").read_text(encoding="utf-8"))
    assert "branch.grafted" in line["discriminator"]["mapping"]
