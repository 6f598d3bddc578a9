"""The engines: how each is started, and what is made of its output."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchconverge.adapters.engines import ENGINES, detect, ready, supported
from orchconverge.adapters.engines.claude import Claude, granted
from orchconverge.adapters.engines.command import Command
from orchconverge.adapters.engines.reading import LONGEST_LINE_BYTES
from orchconverge.adapters.engines.scripted import PLAYER, Scripted
from orchconverge.core.seen import Outcome
from orchconverge.core.values import Limit, Settings, Usage
from orchconverge.errors import Refused
from orchconverge.ports import Brief

ID = "11111111-1111-4111-8111-111111111111"


def settings(**more: object) -> Settings:
    return msgspec.structs.replace(Settings(checkout="/repo", place="here", engines=("claude",)), **more)


def brief(**more: object) -> Brief:
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


@pytest.fixture
def bin_(tmp_path: Path) -> Path:
    for name in ("claude", "agent"):
        program = tmp_path / name
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    return tmp_path


# --- the table -------------------------------------------------------------------------------------------------------


def test_claude_is_chosen_when_it_is_installed_and_what_must_be_named_never_is(bin_: Path) -> None:
    assert detect({"PATH": str(bin_)}) == "claude"
    assert detect({"PATH": "/nowhere"}) is None
    assert next(iter(ENGINES)) == "claude"


def test_the_help_names_every_engine() -> None:
    assert all(name in supported() for name in ENGINES)


@pytest.mark.parametrize("name", ENGINES)
def test_an_engine_s_name_is_the_one_in_the_table(name: str) -> None:
    assert ENGINES[name]({}).name == name


def test_variables_are_passed_through_by_name() -> None:
    assert Claude({}).variables == ("ANTHROPIC_*", "CLAUDE_*")
    assert Command({}).variables == Scripted({}).variables == ()


@pytest.mark.parametrize(
    ("name", "more", "said"),
    [
        ("clade", {}, "no engine"),
        ("claude", {}, "not installed"),
        ("command", {}, "no command"),
        ("command", {"argv": ("missing-program",)}, "not on PATH"),
        ("scripted", {}, "no script"),
        ("scripted", {"script": "missing.json"}, "no script /repo/missing.json"),
    ],
)
def test_what_cannot_start_is_refused_before_anything_was(name: str, more: dict[str, object], said: str) -> None:
    with pytest.raises(Refused, match=said) as caught:
        ready(name, {"PATH": "/nowhere"}, settings(**more))
    assert caught.value.hint


# --- command ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argv", "program"),
    [(("agent", "-x", "$HOME; id"), "{bin}/agent"), (("./agent",), "./agent"), (("/x/agent",), "/x/agent")],
)
def test_a_command_is_run_as_its_words_are(bin_: Path, argv: tuple[str, ...], program: str) -> None:
    launch = ready("command", {"PATH": str(bin_)}, settings(argv=argv)).launch(brief(), settings(argv=argv))
    assert launch.argv == (program.format(bin=bin_), *argv[1:])
    assert launch.brief_on_stdin
    assert launch.env == {
        "ORCHCONVERGE_BRIEF": "/state/m/brief.md",
        "ORCHCONVERGE_REPORT": "/state/m/out/report.json",
    }


def test_a_command_s_last_lines_are_its_summary() -> None:
    said = "\n".join(["\x1b[31mred\x1b[0m", "", "last \x07 word\r"])
    assert Command({}).read(said.encode()) == Outcome(summary="red\nlast  word")
    assert len(Command({}).read(b"x" * 100_000).summary) <= 2000
    assert Command({}).read(b"rate limit reached, 429, invalid API key").limit is None


# --- scripted --------------------------------------------------------------------------------------------------------


def test_the_script_is_played_by_this_interpreter_and_told_who_it_is(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text('{"minds": []}')
    ours = settings(checkout=str(tmp_path), script="s.json")
    launch = ready("scripted", {}, ours).launch(brief(approach="-x =y"), ours)
    told = (f"--script={tmp_path}/s.json", "--branch=b.1", "--attempt=2", "--approach=-x =y")
    assert launch.argv == (sys.executable, "-I", "-S", str(PLAYER), *told)
    assert PLAYER.is_file()
    assert launch.env == {"ORCHCONVERGE_REPORT": "/state/m/out/report.json"}


@pytest.mark.parametrize(
    ("log", "outcome"),
    [
        ("", Outcome()),
        ("hello\nbye\n", Outcome(summary="bye")),
        (
            '{"type":"usage","inputTokens":5,"usd":0.5}\n{"type":"usage","inputTokens":1,"outputTokens":2,"usd":0.25}',
            Outcome(usage=Usage(inputTokens=6, outputTokens=2, usd=0.75, source="reported")),
        ),
        ('{"type":"usage","cacheReadTokens":5}', Outcome(usage=Usage(cacheReadTokens=5))),
        ('{"type":"usage","inputTokens":"7","outputTokens":-1,"usd":NaN}\n', Outcome(summary="{")),
        ('{"type":"usage","inputTokens":"7","outputTokens":-1,"usd":-3}\n', Outcome(usage=Usage())),
        ('{"type":"ratelimit","reset":null}', Outcome(limit=Limit(engine="scripted"))),
        (
            '{"type":"ratelimit","reset":1796000000}',
            Outcome(limit=Limit(engine="scripted", until=datetime(2026, 11, 30, 0, 53, 20, tzinfo=UTC))),
        ),
        (
            '{"type":"ratelimit","reset":"2026-11-30T01:53:20+01:00"}',
            Outcome(limit=Limit(engine="scripted", until=datetime(2026, 11, 30, 0, 53, 20, tzinfo=UTC))),
        ),
        ('{"type":"ratelimit","reset":"tomorrow"}', Outcome(limit=Limit(engine="scripted"))),
    ],
)
def test_what_a_script_says_is_read(log: str, outcome: Outcome) -> None:
    found = Scripted({}).read(log.encode())
    if outcome.summary == "{":
        outcome = Outcome(summary=log.strip())
    assert found == outcome


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
    assert launch.env == {}
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


def log(*records: object) -> bytes:
    return b"".join(
        (r if isinstance(r, bytes) else json.dumps(r, separators=(",", ":")).encode()) + b"\n" for r in records
    )


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
    assert Claude({}).read(log(*records)) == outcome


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


def test_a_line_of_157_megabytes_is_left_out() -> None:
    """B78."""
    found = Claude({}).read(b'{"type":"assistant","message":"' + b"x" * (157 << 20) + b'"}\n' + log(INIT, DONE))
    assert found.summary == "all done"


def test_reading_a_full_log_takes_no_noticeable_time() -> None:
    line = log({"type": "user", "message": "x" * 10_000}, says("working " * 100))
    whole = log(INIT) + line * ((50 << 20) // len(line)) + log(DONE)
    assert Claude({}).read(whole).summary == "all done"


@pytest.mark.parametrize("name", ENGINES)
@given(data=st.binary(max_size=400))
def test_any_bytes_give_an_outcome(name: str, data: bytes) -> None:
    msgspec.json.encode(ENGINES[name]({}).read(data))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
KEYS = ("subtype", "message", "session_id", "usage", "result", "is_error", "errors", "error", "permission_denials")
MORE = ("total_cost_usd", "rate_limit_info", "api_error_status", "error_status", "reset", "usd", "inputTokens")


@given(
    kinds=st.lists(
        st.tuples(
            st.sampled_from(["system", "assistant", "result", "rate_limit_event", "usage", "ratelimit"]),
            st.dictionaries(st.sampled_from(KEYS + MORE), json_values),
            st.sampled_from([{}, {"subtype": "init"}, {"subtype": "api_retry"}, {"subtype": "permission_denied"}]),
        ),
        max_size=4,
    ),
    cut=st.integers(0, 300),
)
def test_known_lines_with_any_values_give_an_outcome(
    kinds: list[tuple[str, dict[str, object], dict[str, object]]], cut: int
) -> None:
    data = log(*({"type": kind, **values, **more} for kind, values, more in kinds))
    for make in ENGINES.values():
        for part in (data, data[cut:], data[: len(data) - cut]):
            found = make({}).read(part)
            assert msgspec.json.decode(msgspec.json.encode(found), type=Outcome) == found
