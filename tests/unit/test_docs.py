"""The documentation, held against the code: the generated reference, quoted messages, links, what a page may type."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from orchconverge.cli.group import HOMES
from orchconverge.config import Config
from scripts.lib import reference
from tests.docs.blocks import blocks

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "reference").glob("*.md"), ROOT / "README.md"])
LINK = re.compile(r"\]\(([^)\s#]*)(?:#([^)\s]*))?\)")
LANGUAGES = frozenset(("sh", "console", "text", "toml", "json", "{toctree}", ""))
"""What a block may be: a shell's are typed by a test, so what cannot be run here is text."""


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


# --- the reference ---------------------------------------------------------------------------------------------------


def test_the_reference_is_what_the_code_says() -> None:
    assert reference.stale() == [], "python -m scripts.lib.reference"


def test_every_command_and_every_setting_has_its_place() -> None:
    made = reference.pages()
    for name in HOMES:
        assert name.startswith("_") or f"\n## {name}\n" in made["commands.md"], name
    for name in Config.model_fields:
        assert f"\n| `{name}` |" in made["settings.md"] or f"\n## [{name}]\n" in made["settings.md"], name


def test_a_page_that_is_missing_stale_or_of_nothing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in reference.pages().items():
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(reference, "FOLDER", tmp_path)
    assert reference.stale() == []
    (tmp_path / "events.md").unlink()
    (tmp_path / "settings.md").write_text("# Settings\n")
    (tmp_path / "other.md").write_text("# Other\n")
    assert reference.stale() == ["events.md is missing", "settings.md is stale", "other.md is of nothing"]


# --- messages --------------------------------------------------------------------------------------------------------


@cache
def texts() -> tuple[str, ...]:
    """Every text in the source, with … for what is put into it."""
    found = []
    for path in (ROOT / "orchconverge").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                found.append("".join(p.value if isinstance(p, ast.Constant) else "…" for p in node.values))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
    return tuple(found)


def quoted() -> list[str]:
    """The messages that the page on troubleshooting is about: what is code in the first cell of a row."""
    text = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    rows = [line.split(" | ")[0] for line in text.splitlines() if line.startswith("| `")]
    return [message for row in rows for message in re.findall(r"`([^`]+)`", row) if message not in ("Last Result",)]


def is_said(message: str) -> bool:
    parts = [re.escape(part.strip()) for part in message.split("…") if part.strip(" :,")]
    return any(re.search(".*".join(parts), text) for text in texts())


def test_messages_are_quoted_as_they_are_said() -> None:
    assert len(quoted()) >= 40
    assert [message for message in quoted() if not is_said(message)] == []


def test_a_message_that_nobody_says_is_found() -> None:
    assert is_said("the working tree is not clean: …")
    assert not is_said("the working tree is not tidy: …")


# --- pages -----------------------------------------------------------------------------------------------------------


def anchors(path: Path) -> set[str]:
    """The anchors of a page's headings, as they are made from their words."""
    heads = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL), re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def links(path: Path) -> Iterator[tuple[str, str]]:
    text = re.sub(r"```.*?```|`[^`\n]*`", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    yield from ((target, anchor) for target, anchor in LINK.findall(text) if "://" not in target)


@pytest.mark.parametrize("path", PAGES, ids=named)
def test_a_link_leads_somewhere(path: Path) -> None:
    for target, anchor in links(path):
        there = (path.parent / target).resolve() if target else path
        assert there.exists(), f"{target} in {named(path)}"
        assert not anchor or anchor in anchors(there), f"{target}#{anchor} in {named(path)}"


@pytest.mark.parametrize("path", PAGES, ids=named)
def test_a_block_is_run_or_says_that_it_is_not(path: Path) -> None:
    languages = {block.language for block in blocks(path.read_text(encoding="utf-8"))}
    assert languages <= LANGUAGES, "what a shell runs is sh or console, what it cannot run here is text"
    indented = re.search(r"^\n {4,}(?:\$ )?orchconverge ", path.read_text(encoding="utf-8"), re.MULTILINE)
    assert not indented, "a command stands in a fenced block, where it is run"
