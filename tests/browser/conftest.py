"""A repository of its own for the pages that commands write."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.lab import Lab, new


@pytest.fixture
def lab() -> Iterator[Lab]:
    made = new()
    yield made
    assert made.close() == []
