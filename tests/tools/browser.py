"""A real browser (headless Chromium) that looks at our pages, and real Mermaid that draws our charts."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".cache/browser"
LOOK = ROOT / "tests/browser/look.mjs"
PATIENCE = 90.0
"""Seconds for one look: a browser starts beside other tests."""


def installed() -> str:
    """The browser. The test is skipped where something is missing, and fails where all must be run."""
    found = shutil.which("chromium") or shutil.which("google-chrome")
    if found and shutil.which("node") and (FOLDER / "node_modules/mermaid/dist/mermaid.min.js").exists():
        return found
    said = "scripts/browser installs what is missing"
    if os.environ.get("CI"):
        pytest.fail(said)
    pytest.skip(said)


def look(
    page: Path,
    home: Path,
    *,
    width: int = 1280,
    scheme: Literal["light", "dark"] = "light",
    media: Literal["screen", "print"] = "screen",
    follow: int = 0,
) -> dict[str, Any]:
    """What a reader of the page meets: console lines, requests, what axe objects to, its text.

    ``follow``: so many times Tab, then Enter. With ``ORCHCONVERGE_PICTURES`` a picture is left in that folder.
    """
    asked = {"page": page.as_uri(), "width": width, "scheme": scheme, "media": media, "follow": follow}
    pictures = os.environ.get("ORCHCONVERGE_PICTURES")
    if pictures:
        asked["picture"] = f"{pictures}/{page.stem}-{media}-{scheme}-{width}.png"
    return _asked(asked, home)


def charts(texts: list[str], home: Path, name: str) -> list[dict[str, Any]]:
    """Each chart as Mermaid draws it: its ``kind``, the ``text`` in it, or the ``error``."""
    pictures = os.environ.get("ORCHCONVERGE_PICTURES")
    picture = {"picture": f"{pictures}/{name}.png"} if pictures else {}
    answer = _asked({"charts": texts} | picture, home)
    assert answer["told"] == []
    drawn = answer["drawn"]
    assert isinstance(drawn, list)
    return drawn


def blocks(markdown: str) -> list[str]:
    """The Mermaid blocks of a Markdown text."""
    return [part.split("\n```")[0] for part in markdown.split("```mermaid\n")[1:]]


def _asked(asked: dict[str, Any], home: Path) -> dict[str, Any]:
    said = json.dumps(asked | {"browser": installed()})
    with TemporaryDirectory(prefix="oc") as short:  # it puts a socket there, whose path has to be
        env = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", "TMPDIR": short}
        done = subprocess.run(
            ["node", str(LOOK)],
            cwd=FOLDER,
            env=env,
            input=said,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-2000:]
    answer = json.loads(done.stdout)
    assert isinstance(answer, dict)
    return answer
