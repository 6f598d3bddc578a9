"""Codex: how it is started, and what is made of its output beyond what was captured."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchconverge.adapters.engines.codex import Codex
from orchconverge.core.seen import Act, Outcome
from orchconverge.core.values import Limit, Usage
from tests.tools.engines import brief, log, programs, settings, unnumbered

STARTED = {"type": "thread.started", "thread_id": "t1"}
CUT = "it ended without a result"


def item(kind: str, *, type: str = "item.completed", **more: object) -> dict[str, object]:
    return {"type": type, "item": {"id": "item_1", "type": kind, **more}}


@pytest.mark.parametrize(
    ("model", "permissions", "argv"),
    [
        ("", "default", ("--sandbox", "workspace-write", "--add-dir", "/state/m/out", "-")),
        ("m", "default", ("--sandbox", "workspace-write", "--add-dir", "/state/m/out", "--model", "m", "-")),
        ("", "skip", ("--dangerously-bypass-approvals-and-sandbox", "--add-dir", "/state/m/out", "-")),
    ],
)
def test_codex_s_argv(tmp_path: Path, model: str, permissions: str, argv: tuple[str, ...]) -> None:
    codex = Codex({"PATH": programs(tmp_path, "codex")})
    launch = codex.launch(brief(model=model), settings(permissions=permissions))
    assert launch.argv == (f"{tmp_path}/codex", "exec", "--json", "--color", "never", *argv)
    assert launch.brief_on_stdin
    assert not codex.commits


@pytest.mark.parametrize(
    ("records", "outcome"),
    [
        pytest.param([], Outcome(error=CUT), id="nothing"),
        pytest.param(
            [STARTED, item("agent_message", text="looking")],
            Outcome(context="t1", summary="looking", error=CUT),
            id="killed",
        ),
        pytest.param(
            [STARTED, {"type": "error", "message": "Reconnecting... 1/5 (last status: 429 Too Many Requests)"}],
            Outcome(
                context="t1",
                error="Reconnecting... 1/5 (last status: 429 Too Many Requests)",
                limit=Limit(engine="codex"),
            ),
            id="killed-while-it-waited-for-quota",
        ),
        pytest.param(
            [
                STARTED,
                {"type": "error", "message": "Reconnecting... 1/5 (429)"},
                item("error", message="Model metadata not found"),
                item("agent_message", text="I see: rate limit, 401 Unauthorized"),
                {
                    "type": "turn.completed",
                    "usage": {"input_tokens": 100, "cached_input_tokens": 60, "output_tokens": 7},
                },
            ],
            Outcome(
                context="t1",
                summary="I see: rate limit, 401 Unauthorized",
                usage=Usage(inputTokens=40, outputTokens=7, cacheReadTokens=60),
                stop="completed",
            ),
            id="what-went-by-and-what-it-says-are-no-errors",
        ),
        pytest.param(
            [b"error: unexpected argument '--x' found"],
            Outcome(error="error: unexpected argument '--x' found"),
            id="usage",
        ),
    ],
)
def test_what_codex_says_is_read(records: list[object], outcome: Outcome) -> None:
    assert Codex({}).read(log(*records)) == outcome


def test_patches_are_writes_and_a_command_that_was_declined_is_refused() -> None:
    changes = [{"path": "/tree/a.py", "kind": "update"}, {"path": "b.py", "kind": "add"}]
    found = Codex({}).read(
        log(
            item("file_change", changes=changes, status="completed"),
            item("file_change", changes=[{"path": "c.py", "kind": "add"}], status="failed"),
            item("command_execution", type="item.started", command="bash -lc 'rm -rf /'", status="in_progress"),
            item("command_execution", command="bash -lc 'rm -rf /'", status="declined", exit_code=None),
        )
    )
    assert unnumbered(found.acts) == (
        Act(kind="write", target="/tree/a.py", ok=True),
        Act(kind="write", target="b.py", ok=True),
        Act(kind="write", target="c.py", ok=False),
        Act(kind="run", target="rm -rf /", ok=False, refused=True),
    )
    assert found.refused == ("shell: bash -lc 'rm -rf /'",)


def test_a_command_that_was_not_seen_to_end_has_no_result() -> None:
    begun = item("command_execution", type="item.started", command="cat a", exit_code=None, status="in_progress")
    assert Codex({}).read(log(STARTED, begun)).acts == (Act(kind="read", target="a"),)
