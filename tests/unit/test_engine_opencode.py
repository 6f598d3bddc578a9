"""opencode: how it is started, and what is made of its output beyond what was captured."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from orchconverge.adapters.engines.opencode import CONFIG, OpenCode
from orchconverge.core.seen import Act, Outcome
from orchconverge.core.values import Limit, Usage
from tests.tools.engines import brief, log, programs, settings, unnumbered

CUT = "it ended without a result"
AT = 1_795_989_600_000  # 2026-11-29T22:00:00Z


def test_what_is_not_granted_is_denied_and_nothing_asks(tmp_path: Path) -> None:
    opencode = OpenCode({"PATH": programs(tmp_path, "opencode")})
    launch = opencode.launch(brief(model="p/m"), settings(allow=("make test",)))
    ran = ("run", "--format", "json", "--print-logs", "--log-level", "ERROR", "--model", "p/m")
    assert launch.argv == (f"{tmp_path}/opencode", *ran)
    permission = json.loads(launch.env[CONFIG])["permission"]
    assert next(iter(permission.items())) == ("*", "deny")  # the last that fits decides
    assert "ask" not in json.dumps(permission)
    assert [tool for tool, rule in permission.items() if rule == "allow"] == [
        *("read", "edit", "glob", "grep", "list", "todoread", "todowrite")
    ]
    shell = permission["bash"]
    assert next(iter(shell.items())) == ("*", "deny")
    assert {"git commit *", "make test", "make test *"} <= {words for words, rule in shell.items() if rule == "allow"}
    assert permission["external_directory"] == {"*": "deny", "/state/m/out/*": "allow"}


def test_a_person_s_own_settings_stay_but_for_what_is_permitted(tmp_path: Path) -> None:
    own = json.dumps({"permission": "allow", "provider": {"p": {}}, "share": "auto"})
    opencode = OpenCode({"PATH": programs(tmp_path, "opencode"), CONFIG: own})
    config = json.loads(opencode.launch(brief(), settings()).env[CONFIG])
    assert (config["provider"], config["share"]) == ({"p": {}}, "disabled")
    assert config["permission"]["*"] == "deny"
    skipped = opencode.launch(brief(), settings(permissions="skip"))
    assert skipped.argv[-1] == "--auto"
    assert json.loads(skipped.env[CONFIG])["permission"] == "allow"


def event(kind: str, **part: object) -> dict[str, object]:
    return {"type": kind, "timestamp": AT, "sessionID": "ses_1", "part": part}


def failed(status: int, message: str, **headers: str) -> dict[str, object]:
    data = {"message": message, "statusCode": status, "responseHeaders": headers}
    return {"type": "error", "timestamp": AT, "sessionID": "ses_1", "error": {"name": "APIError", "data": data}}


TOKENS = {"input": 10, "output": 5, "reasoning": 2, "cache": {"read": 3, "write": 4}}
LOGGED = b'timestamp=x level=ERROR message="stream error" error.error="AI_APICallError: Rate limit reached"'


@pytest.mark.parametrize(
    ("records", "outcome"),
    [
        pytest.param([], Outcome(error=CUT), id="nothing"),
        pytest.param(
            [
                event("step_finish", reason="tool-calls", tokens=TOKENS, cost=0.5),
                event("text", text="all done"),
                event("step_finish", reason="stop", tokens=TOKENS, cost=0.25),
            ],
            Outcome(
                usage=Usage(
                    inputTokens=20,
                    outputTokens=14,
                    cacheReadTokens=6,
                    cacheWriteTokens=8,
                    usd=0.75,
                    source="reported",
                ),
                context="ses_1",
                summary="all done",
                stop="stop",
            ),
            id="steps-add-up",
        ),
        pytest.param(
            [event("step_finish", reason="tool-calls", tokens={}, cost=0)],
            Outcome(usage=Usage(), context="ses_1", error=CUT, stop="tool-calls"),
            id="killed-at-work-and-no-price",
        ),
        pytest.param(
            [failed(429, "slow down", **{"retry-after": "60"})],
            Outcome(
                context="ses_1",
                error="slow down",
                limit=Limit(engine="opencode", until=datetime(2026, 11, 29, 22, 1, tzinfo=UTC)),
            ),
            id="quota-with-its-header",
        ),
        pytest.param(
            [LOGGED],
            Outcome(error="AI_APICallError: Rate limit reached", limit=Limit(engine="opencode")),
            id="killed-while-it-waited-for-quota",
        ),
        pytest.param(
            [{"type": "error", "error": {"name": "UnknownError", "data": {"message": "Session not found: ses_2"}}}],
            Outcome(error="Session not found: ses_2", context_lost=True),
            id="resumed-what-is-not-there",
        ),
    ],
)
def test_what_opencode_says_is_read(records: list[object], outcome: Outcome) -> None:
    assert OpenCode({}).read(log(*records)) == outcome


def test_a_command_is_judged_by_its_code_and_a_patch_by_its_files() -> None:
    ran = {"status": "completed", "input": {"command": "make"}, "output": "no rule", "metadata": {"exit": 2}}
    patch = {"status": "completed", "input": {"patchText": "*** Update File: a.py\n+x\n*** Add File: b.py"}}
    found = OpenCode({}).read(
        log(
            event("tool_use", tool="bash", callID="1", state=ran),
            event("tool_use", tool="apply_patch", callID="2", state=patch),
        )
    )
    assert unnumbered(found.acts) == (
        Act(kind="run", target="make", ok=False, detail="no rule"),
        Act(kind="write", target="a.py", ok=True),
        Act(kind="write", target="b.py", ok=True),
    )
