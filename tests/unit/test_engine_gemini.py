"""Gemini: how it is started, and what is made of its output beyond what was captured."""

from __future__ import annotations

import tomllib
from datetime import UTC, datetime
from pathlib import Path

import pytest

from orchconverge.adapters.engines.gemini import Gemini, policy
from orchconverge.adapters.engines.grant import commands
from orchconverge.core.seen import Act, Outcome
from orchconverge.core.values import Limit, Usage
from tests.tools.engines import brief, log, programs, settings

ID = "11111111-1111-4111-8111-111111111111"
AT = "2026-11-29T22:00:00.000Z"
INIT = {"type": "init", "timestamp": AT, "session_id": ID, "model": "g"}
CUT = "it ended without a result"
ALWAYS = ("--output-format", "stream-json", "--skip-trust", "--include-directories", "/state/m/out")
GRANT = ("--approval-mode", "auto_edit", "--policy", "/state/m/gemini-policy.toml")


@pytest.mark.parametrize(
    ("more", "permissions", "argv"),
    [
        ({}, "default", GRANT),
        ({"context": ID}, "default", (*GRANT, "--session-id", ID)),
        ({"context": ID, "resume": True, "model": "g"}, "default", (*GRANT, "--resume", ID, "--model", "g")),
        ({}, "skip", ("--approval-mode", "yolo")),
    ],
)
def test_gemini_s_argv(tmp_path: Path, more: dict[str, object], permissions: str, argv: tuple[str, ...]) -> None:
    gemini = Gemini({"PATH": programs(tmp_path, "gemini")})
    launch = gemini.launch(brief(**more), settings(permissions=permissions))
    assert launch.argv == (f"{tmp_path}/gemini", *ALWAYS, *argv)
    assert list(launch.files) == ([] if permissions == "skip" else ["gemini-policy.toml"])
    assert launch.identity


def test_the_policy_allows_what_is_granted_and_nothing_else() -> None:
    allow = ('./check.sh "a b"', "mäke\x7f", "Bash(npm test:*)", "WebFetch")
    [rule] = tomllib.loads(policy(allow))["rule"]
    assert rule["commandPrefix"] == [*commands(()), './check.sh "a b"', "mäke\x7f", "npm test"]
    assert (rule["toolName"], rule["decision"]) == ("run_shell_command", "allow")


def said(text: str) -> dict[str, object]:
    return {"type": "message", "timestamp": AT, "role": "assistant", "content": text, "delta": True}


def used(name: str, key: str, **parameters: object) -> dict[str, object]:
    return {"type": "tool_use", "timestamp": AT, "tool_name": name, "tool_id": key, "parameters": parameters}


def ended(status: str, message: str = "") -> dict[str, object]:
    stats = {"input_tokens": 100, "cached": 60, "output_tokens": 7}
    error = {"error": {"type": "unknown", "message": message}} if message else {}
    return {"type": "result", "timestamp": AT, "status": status, "stats": stats, **error}


SPENT = Usage(inputTokens=40, outputTokens=7, cacheReadTokens=60)


@pytest.mark.parametrize(
    ("records", "outcome"),
    [
        pytest.param([], Outcome(error=CUT), id="nothing"),
        pytest.param(
            [INIT, said("look"), used("glob", "1", pattern="*"), said("all "), said("done"), ended("success")],
            Outcome(
                usage=SPENT,
                context=ID,
                summary="all done",
                stop="success",
                model="g",
                acts=(Act(kind="search", target="*"),),
            ),
            id="what-it-said-last-is-its-summary",
        ),
        pytest.param(
            [INIT, said("429, please log in"), ended("success")],
            Outcome(usage=SPENT, context=ID, summary="429, please log in", stop="success", model="g"),
            id="what-it-says-is-no-error",
        ),
        pytest.param(
            [INIT, ended("error", "Your quota will reset after 1h0m0s.")],
            Outcome(
                usage=SPENT,
                context=ID,
                error="Your quota will reset after 1h0m0s.",
                limit=Limit(engine="gemini", until=datetime(2026, 11, 29, 23, 0, tzinfo=UTC)),
                stop="error",
                model="g",
            ),
            id="a-reset-is-counted-from-when-it-was-said",
        ),
        pytest.param(
            [b'Error resuming session: Invalid session identifier "3".', b"  Searched for sessions in /home."],
            Outcome(
                context_lost=True,
                error='Error resuming session: Invalid session identifier "3".\nSearched for sessions in /home.',
            ),
            id="resumed-what-is-not-there",
        ),
        pytest.param(
            [b"Please set an Auth method in your settings or specify GEMINI_API_KEY"],
            Outcome(
                error="Please set an Auth method in your settings or specify GEMINI_API_KEY",
                auth_failed=True,
            ),
            id="no-key",
        ),
    ],
)
def test_what_gemini_says_is_read(records: list[object], outcome: Outcome) -> None:
    assert Gemini({}).read(log(*records)) == outcome


@pytest.mark.parametrize(
    ("result", "ok", "refused"),
    [
        ({"status": "success", "output": "fatal: bad"}, None, False),
        ({"status": "success", "output": "Command exited with code: 1"}, False, False),
        ({"status": "error", "error": {"type": "policy_violation", "message": "no"}}, False, True),
        ({"status": "error", "error": {"message": "Tool execution blocked: work convergence"}}, False, True),
        ({}, False, False),
    ],
)
def test_of_a_command_it_is_known_only_that_it_failed(
    result: dict[str, object], ok: bool | None, refused: bool
) -> None:
    called = used("run_shell_command", "1", command="make")
    [act] = Gemini({}).read(log(INIT, called, {"type": "tool_result", "tool_id": "1", **result})).acts
    assert (act.kind, act.target, act.ok, act.refused) == ("run", "make", ok, refused)
