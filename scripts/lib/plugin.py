"""Writes what `commands/*.md` is made into for agents that install the repository itself: `python scripts/lib/plugin.py`."""

from __future__ import annotations

from pathlib import Path

from orchconverge.adapters.command_files import shipped
from orchconverge.core.slash import plugin

ROOT = Path(__file__).resolve().parents[2]

for name, data in plugin(shipped()).items():
    (ROOT / name).parent.mkdir(parents=True, exist_ok=True)
    (ROOT / name).write_bytes(data)
