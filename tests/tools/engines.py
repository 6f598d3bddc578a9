"""What the tests of all engines need: a brief, settings, a log made of records, programs that are only found."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import msgspec

from orchconverge.core.seen import Act
from orchconverge.core.values import Settings
from orchconverge.ports import Brief


def settings(**more: object) -> Settings:
    """Those of a run in place."""
    return msgspec.structs.replace(Settings(checkout="/repo", place="here", engines=("claude",)), **more)


def brief(**more: object) -> Brief:
    """One of a second attempt."""
    whole = Brief(
        text="goal",
        text_path=Path("/state/m/brief.md"),
        report_path=Path("/state/m/out/report.json"),
        folder=Path("/state/m"),
        cwd=Path("/tree"),
        branch="b.1",
        attempt=2,
        approach="plain",
    )
    return msgspec.structs.replace(whole, **more)


def unnumbered(acts: Iterable[Act]) -> tuple[Act, ...]:
    """Acts without the numbers of their calls."""
    return tuple(msgspec.structs.replace(act, call=0) for act in acts)


def log(*records: object) -> bytes:
    """Lines: bytes as they are, text as it is, anything else as JSON."""
    return b"".join(_line(each) + b"\n" for each in records)


def _line(each: object) -> bytes:
    if isinstance(each, bytes):
        return each
    return (each if isinstance(each, str) else json.dumps(each, separators=(",", ":"))).encode()


def programs(folder: Path, *names: str) -> str:
    """Programs of these names, for PATH."""
    for name in names:
        program = folder / name
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    return str(folder)
