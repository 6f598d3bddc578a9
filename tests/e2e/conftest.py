"""The lab, and the proof after each test that nothing of it is left."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from tests.e2e.lab import Lab, new


@pytest.fixture
def lab() -> Iterator[Lab]:
    if not shutil.which("tmux"):
        pytest.skip("needs tmux")
    made = new()
    yield made
    assert made.close() == []
