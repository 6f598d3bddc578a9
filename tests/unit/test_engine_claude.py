"""Claude Code: how it is started, and what is made of its output."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from orchconverge.adapters.engines.claude import Claude, granted
from orchconverge.adapters.engines.reading import LONGEST_LINE_BYTES
from orchconverge.core.seen import Act, Outcome
from orchconverge.core.values import Limit, Usage
from orchconverge.errors import Refused
from tests.tools.engines import brief, log, programs, settings, unnumbered

ID = "11111111-1111-4111-8111-111111111111"


@pytest.fixture
def bin_(tmp_path: Path) -> Path:
    programs(tmp_path, "claude")
    return tmp_path


# --- claude: how it is started ---------------------------------------------------------------------------------------

ALWAYS = ("-p", "--output-format", "stream-json", "--verbose")
GRANT = tuple(granted(()))
REPORTS = ("--add-dir", "/state/m/out")


@pytest.mark.parametrize(
    ("more", "asked", "expected"),
    [
        ({}, {}, ("--permission-mode", "acceptEdits", "--allowedTools", *GRANT, *REPORTS)),
        (
            {"context": ID},
            {},
            ("--permission-mode", "acceptEdits", "--allowedTools", *GRANT, *REPORTS, "--session-id", ID),
        ),
        (
            {"context": ID, "resume": True, "model": "opus"},
            {"allow": ("make test",)},
            (
                *("--permission-mode", "acceptEdits", "--allowedTools", *GRANT, "Bash(make test:*)", *REPORTS),
                *("--resume", ID, "--model", "opus"),
            ),
        ),
        ({}, {"permissions": "skip"}, ("--dangerously-skip-permissions", *REPORTS)),
    ],
)
def test_claude_s_argv(
    bin_: Path, more: dict[str, object], asked: dict[str, object], expected: tuple[str, ...]
) -> None:
    launch = Claude({"PATH": str(bin_)}).launch(brief(**more), settings(**asked))
    assert launch.argv == (f"{bin_}/claude", *ALWAYS, *expected)
    assert launch.brief_on_stdin
    assert launch.env == {"CLAUDE_CODE_ENABLE_PROMPT_SUGGESTION": "false"}
    assert launch.linger_seconds == 30


def test_the_grant_is_reading_and_git_and_never_a_write_that_would_hold_everywhere() -> None:
    assert {"Read", "Glob", "Grep", "Bash(git commit:*)", "Bash(git status:*)"} <= set(GRANT)
    assert not {"Write", "Edit", "Bash", "Bash(git:*)", "Bash(git push:*)"} & set(GRANT)


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        ("npm test", "Bash(npm test:*)"),
        ("make", "Bash(make:*)"),
        ("./check.sh (fast)", "Bash(./check.sh (fast):*)"),
        ("WebFetch", "WebFetch"),
        ("Bash(npm run lint:*)", "Bash(npm run lint:*)"),
        ("mcp__github__get_issue", "mcp__github__get_issue"),
    ],
)
def test_what_a_person_allows_becomes_a_rule(words: str, rule: str) -> None:
    assert granted((words, " ", words))[len(GRANT) :] == [rule]


def test_without_claude_its_launch_is_refused() -> None:
    with pytest.raises(Refused):
        Claude({"PATH": "/nowhere"}).launch(brief(), settings())


# --- claude: what it says (captured from 2.1.197, cut to the keys there are) ------------------------------------------

INIT = {"type": "system", "subtype": "init", "cwd": "/tree", "session_id": ID, "tools": ["Bash"], "model": "m"}
USED = {
    "input_tokens": 700,
    "cache_creation_input_tokens": 3,
    "cache_read_input_tokens": 2,
    "output_tokens": 140,
    "server_tool_use": {"web_search_requests": 0},
    "service_tier": "standard",
}
DENIED = [
    {"tool_name": "Write", "tool_use_id": "t1", "tool_input": {"file_path": "/tmp/outside.txt", "content": "x"}},
    {"tool_name": "Bash", "tool_use_id": "t2", "tool_input": {"command": "python3 -c 'print(1)'"}},
    {"tool_name": "Bash", "tool_use_id": "t3", "tool_input": {"command": "python3 -c 'print(1)'"}},
]
DONE = {
    "type": "result",
    "subtype": "success",
    "is_error": False,
    "api_error_status": None,
    "num_turns": 7,
    "result": "all done",
    "session_id": ID,
    "total_cost_usd": 0.007,
    "usage": USED,
    "permission_denials": DENIED,
}
NOTHING = {"input_tokens": 0, "output_tokens": 0}
SPENT = Usage(inputTokens=700, outputTokens=140, cacheReadTokens=2, cacheWriteTokens=3, usd=0.007, source="reported")


def says(text: str, *, key: str = "m1", error: str | None = None) -> dict[str, object]:
    used = {"input_tokens": 100, "output_tokens": 20}
    found: dict[str, object] = {
        "type": "assistant",
        "message": {"id": key, "content": [{"type": "text", "text": text}], "usage": used},
        "session_id": ID,
    }
    return found | ({} if error is None else {"error": error})


def fails(said: str, status: int | None) -> dict[str, object]:
    return DONE | {
        "is_error": True,
        "api_error_status": status,
        "result": said,
        "total_cost_usd": 0,
        "usage": NOTHING,
        "permission_denials": [],
    }


UNKNOWN_ID = "No conversation found with session ID: 2"
LOST = {
    "type": "result",
    "subtype": "error_during_execution",
    "is_error": True,
    "session_id": "2",
    "total_cost_usd": 0,
    "usage": NOTHING,
    "permission_denials": [],
    "errors": [UNKNOWN_ID],
}
RETRY = {"type": "system", "subtype": "api_retry", "attempt": 1, "max_retries": 10, "session_id": ID}
REJECTED = {
    "type": "rate_limit_event",
    "rate_limit_info": {"status": "rejected", "resetsAt": 1796000000, "rateLimitType": "five_hour"},
    "session_id": ID,
}
ALLOWED = {"type": "rate_limit_event", "rate_limit_info": {"status": "allowed", "resetsAt": 1796000000}}
RESET = datetime(2026, 11, 30, 0, 53, 20, tzinfo=UTC)
FREE = Usage(usd=0.0, source="reported")
CUT = "it ended without a result"


@pytest.mark.parametrize(
    ("records", "outcome"),
    [
        pytest.param(
            [INIT, says("looking"), ALLOWED, DONE],
            Outcome(
                usage=SPENT,
                context=ID,
                summary="all done",
                refused=("Write: /tmp/outside.txt", "Bash: python3 -c 'print(1)'"),
            ),
            id="done",
        ),
        pytest.param(
            [INIT, says("in use: No conversation found, 429, Invalid API key"), DONE | {"permission_denials": []}],
            Outcome(usage=SPENT, context=ID, summary="all done"),
            id="what-it-says-is-no-error",
        ),
        pytest.param(
            [
                INIT,
                says("API Error", error="rate_limit"),
                fails("API Error: Request rejected (429) · rate limited", 429),
            ],
            Outcome(
                usage=FREE,
                context=ID,
                limit=Limit(engine="claude"),
                error="API Error: Request rejected (429) · rate limited",
                summary="API Error",
            ),
            id="429-of-a-key",
        ),
        pytest.param(
            [INIT, REJECTED, fails("You've hit your session limit · resets 12:53am (UTC)", 429)],
            Outcome(
                usage=FREE,
                context=ID,
                limit=Limit(engine="claude", until=RESET),
                error="You've hit your session limit · resets 12:53am (UTC)",
            ),
            id="429-of-a-subscription",
        ),
        pytest.param(
            [INIT, fails("Claude AI usage limit reached|1796000000", None)],
            Outcome(
                usage=FREE,
                context=ID,
                limit=Limit(engine="claude", until=RESET),
                error="Claude AI usage limit reached|1796000000",
            ),
            id="limit-of-an-old-version",
        ),
        pytest.param(
            [INIT, fails("API Error: 529 Overloaded.", 529)],
            Outcome(usage=FREE, context=ID, limit=Limit(engine="claude"), error="API Error: 529 Overloaded."),
            id="overloaded",
        ),
        pytest.param(
            [INIT, says("x", error="authentication_failed"), fails("Invalid API key · Fix external API key", 401)],
            Outcome(
                usage=FREE, context=ID, auth_failed=True, error="Invalid API key · Fix external API key", summary="x"
            ),
            id="401",
        ),
        pytest.param(
            [INIT, says("x", error="authentication_failed"), fails("Not logged in · Please run /login", None)],
            Outcome(usage=FREE, context=ID, auth_failed=True, error="Not logged in · Please run /login", summary="x"),
            id="not-logged-in",
        ),
        pytest.param(
            [INIT, says("x", error="billing_error"), fails("Credit balance is too low", 400)],
            Outcome(usage=FREE, context=ID, auth_failed=True, error="Credit balance is too low", summary="x"),
            id="no-credit",
        ),
        pytest.param(
            [INIT, RETRY | {"error": "rate_limit", "error_status": 429}],
            Outcome(context=ID, limit=Limit(engine="claude"), error=CUT),
            id="killed-while-it-waited-for-quota",
        ),
        pytest.param(
            [INIT, RETRY | {"error": "authentication_failed", "error_status": 401}],
            Outcome(context=ID, auth_failed=True, error=CUT),
            id="killed-while-it-was-not-let-in",
        ),
        pytest.param(
            [
                INIT,
                RETRY | {"error": "rate_limit", "error_status": 429},
                says("on"),
                says("and on"),
                says("b", key="m2"),
            ],
            Outcome(usage=Usage(inputTokens=200, outputTokens=40), context=ID, summary="b", error=CUT),
            id="killed-at-work",
        ),
        pytest.param(
            [UNKNOWN_ID.encode(), LOST],
            Outcome(usage=FREE, context_lost=True, error=UNKNOWN_ID),
            id="resumed-what-is-not-there",
        ),
        pytest.param(
            [b"Error: Session ID 1 is already in use."],
            Outcome(context_lost=True, error="Error: Session ID 1 is already in use."),
            id="used-twice",
        ),
        pytest.param(
            [INIT, {"type": "system", "subtype": "permission_denied", "message": "Bash was denied"}, says("b")],
            Outcome(
                usage=Usage(inputTokens=100, outputTokens=20),
                context=ID,
                summary="b",
                error=CUT,
                refused=("Bash was denied",),
            ),
            id="refused-and-killed",
        ),
        pytest.param([], Outcome(error=CUT), id="nothing"),
        pytest.param([b"Segmentation fault"], Outcome(error="Segmentation fault"), id="crashed"),
    ],
)
def test_what_claude_says_is_read(records: list[object], outcome: Outcome) -> None:
    ends = [record["subtype"] for record in records if isinstance(record, dict) and record["type"] == "result"]
    model = "m" if INIT in records else ""
    assert Claude({}).read(log(*records)) == msgspec.structs.replace(outcome, model=model, stop="".join(map(str, ends)))


@pytest.mark.parametrize(
    "noise",
    [
        b'{"type":"result","subtype":"suc',
        b'"a string"\n[1,2]\nnull\n12',
        b"\xff\xfe{}\x00\x00",
        b'{"type":"assistant","message":"a string"}',
        b'{"type":"assistant","message":{"content":"text","usage":[1]}}',
        b'{"type":"assistant","message":{"content":[null,1,{"text":{}}],"id":[],"usage":{"input_tokens":"7"}}}',
        b'{"type":"system","subtype":"permission_denied","message":{"a":1}}',
        b'{"type":"system","subtype":["init"],"session_id":7}',
        b'{"type":"rate_limit_event","rate_limit_info":"rejected"}',
        b'{"type":{"type":"result"}}',
        b"{" * 100_000,
        b'{"a":' * 100_000,
        b'{"type":"new thing","deep":{"x":[1]}}',
        b'{"type":"user","message":"' + b"x" * (LONGEST_LINE_BYTES + 1) + b'"}',
        b"x" * (LONGEST_LINE_BYTES + 1),
    ],
)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_line_that_is_not_understood_takes_nothing_away(noise: bytes, place: int) -> None:
    records: list[object] = [INIT, says("looking"), DONE]
    records.insert(place, noise)
    assert Claude({}).read(log(*records)) == Claude({}).read(log(INIT, DONE))


@pytest.mark.parametrize(
    "broken",
    [
        {"usage": "much"},
        {"usage": {"input_tokens": -1, "output_tokens": 1e400, "cache_read_input_tokens": True}},
        {"total_cost_usd": "0.1"},
        {"total_cost_usd": -1},
        {"permission_denials": {"a": 1}},
        {"permission_denials": [None, 3, {"tool_name": 4, "tool_input": "x"}, {"tool_input": {"command": ["ls"]}}]},
        {"result": ["text"]},
        {"result": "a\ud800b\x1b[31m\x00" + "x" * 10_000},
        {"session_id": 12},
        {"is_error": "yes"},
        {"errors": "text", "is_error": True},
        {"subtype": None},
        {"api_error_status": "429"},
    ],
)
def test_a_final_line_of_wrong_types_is_read_as_far_as_it_goes(broken: dict[str, object]) -> None:
    found = Claude({}).read(log(INIT, DONE | broken))
    assert found.context == ID
    assert len(found.summary) <= 2000
    assert "\x1b" not in found.summary
    msgspec.json.encode(found)


def uses(key: str, tool: str, **given: str) -> dict[str, object]:
    content = [{"type": "tool_use", "id": key, "name": tool, "input": given}]
    return {"type": "assistant", "message": {"id": f"m-{key}", "content": content}, "session_id": ID}


def returned(key: str, text: object, *, failed: bool = False) -> dict[str, object]:
    content = [{"tool_use_id": key, "type": "tool_result", "content": text, "is_error": failed}]
    return {"type": "user", "message": {"role": "user", "content": content}, "session_id": ID}


def test_its_calls_are_acts_with_the_result_that_was_observed() -> None:
    records = [
        uses("1", "Read", file_path="/tree/a.py"),
        uses("2", "Grep", pattern="def x"),
        returned("1", "1\tx"),
        returned("2", [{"type": "text", "text": "a.py"}]),
        uses("3", "Edit", file_path="a.py", old_string="a", new_string="b"),
        returned("3", "<tool_use_error>String to replace not found</tool_use_error>", failed=True),
        uses("4", "Write", file_path="b.py", content="x"),
        returned("4", "PreToolUse:Write hook error: work convergence: read enough", failed=True),
        uses("5", "Bash", command="pytest -q"),
        returned("5", "Exit code 1\n1 failed", failed=True),
        uses("6", "Bash", command="cat c.txt | head -3"),
        uses("7", "Task", prompt="look"),
    ]
    assert unnumbered(Claude({}).read(log(INIT, *records)).acts) == (
        Act(kind="read", target="/tree/a.py", ok=True),
        Act(kind="search", target="def x", ok=True),
        Act(
            kind="write", target="a.py", ok=False, detail="<tool_use_error>String to replace not found</tool_use_error>"
        ),
        Act(
            kind="write",
            target="b.py",
            ok=False,
            refused=True,
            detail="PreToolUse:Write hook error: work convergence: read enough",
        ),
        Act(kind="run", target="pytest -q", ok=False, detail="Exit code 1\n1 failed"),
        Act(kind="read", target="c.txt", part="3"),
        Act(kind="other"),
    )


def test_the_rest_of_the_budget_caps_a_new_session_alone(bin_: Path) -> None:
    claude = Claude({"PATH": str(bin_)})
    assert claude.launch(brief(usd=1.256, context=ID), settings()).argv[-2:] == ("--max-budget-usd", "1.26")
    assert "--max-budget-usd" not in claude.launch(brief(usd=1.25, context=ID, resume=True), settings()).argv


def test_a_line_of_157_megabytes_is_left_out() -> None:
    """B78."""
    found = Claude({}).read(b'{"type":"assistant","message":"' + b"x" * (157 << 20) + b'"}\n' + log(INIT, DONE))
    assert found.summary == "all done"


def test_reading_a_full_log_takes_no_noticeable_time() -> None:
    line = log({"type": "user", "message": "x" * 10_000}, says("working " * 100))
    whole = log(INIT) + line * ((50 << 20) // len(line)) + log(DONE)
    assert Claude({}).read(whole).summary == "all done"
