"""aider: how it is started, and what is made of its words."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchconverge.adapters.engines.aider import INSIDE, Aider
from orchconverge.core.seen import Act
from orchconverge.core.values import Usage
from tests.tools.engines import brief, log, programs, settings, unnumbered


def test_aider_gets_its_brief_by_a_file_and_keeps_its_own_out_of_the_tree(tmp_path: Path) -> None:
    aider = Aider({"PATH": programs(tmp_path, "aider")})
    launch = aider.launch(brief(cwd=tmp_path, model="m"), settings())
    words = dict(zip(launch.argv, launch.argv[1:], strict=False))
    assert words["--message-file"] == "/state/m/aider-message.md"
    assert launch.files == {"aider-message.md": f"goal\n{INSIDE}\n"}
    assert not launch.brief_on_stdin
    assert words["--chat-history-file"].startswith("/state/m/")
    assert words["--input-history-file"].startswith("/state/m/")
    assert words["--model"] == "m"
    assert {"--no-suggest-shell-commands", "--no-dirty-commits", "--no-gitignore", "--no-detect-urls"} <= set(
        launch.argv
    )


@pytest.mark.parametrize(("ignored", "mapped"), [("*.pyc\n.aider*\n", True), ("*.pyc\n", False)])
def test_there_is_a_map_where_its_cache_is_ignored(tmp_path: Path, ignored: str, mapped: bool) -> None:
    (tmp_path / ".gitignore").write_text(ignored)
    aider = Aider({"PATH": programs(tmp_path, "aider")})
    assert ("--map-tokens" in aider.launch(brief(cwd=tmp_path), settings()).argv) != mapped


def test_what_aider_did_and_said_is_read_off_its_words() -> None:
    """As `aider-work.log`, which was captured, with a price."""
    captured = (Path(__file__).parents[1] / "data" / "engines" / "aider-work.log").read_bytes()
    found = Aider({}).read(captured.replace(b"20 received.", b"1.5k received. Cost: $0.25 message, $1.00 session."))
    assert unnumbered(found.acts) == (
        Act(kind="write", target="a.txt", ok=True),
        Act(kind="write", target="b.txt", ok=True),
        Act(kind="run", target="git commit", ok=True),
    )
    assert found.usage == Usage(inputTokens=200, outputTokens=3000, usd=0.5, source="reported")  # of two answers
    assert (found.summary, found.error, found.model) == ("b.txt says yes", "", "openai/scripted")


def test_a_failure_that_it_got_over_is_none_and_one_at_the_end_is() -> None:
    error, tokens = "litellm.APIError: APIError: down", "Tokens: 2k sent, 1 cache write, 3 cache hit, 20 received."
    over = Aider({}).read(log(error, "Retrying in 0.2 seconds...", "done", tokens))
    assert (over.error, over.summary, over.stop) == ("", "Retrying in 0.2 seconds...\ndone", "completed")
    assert over.usage == Usage(inputTokens=2000, outputTokens=20, cacheReadTokens=3, cacheWriteTokens=1)
    last = Aider({}).read(log("done", tokens, "The LLM did not conform to the edit format.", "", error))
    assert last.error == f"The LLM did not conform to the edit format.\n{error}"
    assert Aider({}).read(b"").error == "it ended without a result"
    assert Aider({}).read(b"Skipping edits to x.env that matches gitignore spec.").refused == ("edit: x.env",)
