"""The engine `acp`: how its agents are set up, what their client grants, and what is made of what it tells."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchconverge.acp_client.permission import commands, refusal, unwrapped
from orchconverge.acp_client.spec import Spec
from orchconverge.adapters.engines import ready
from orchconverge.adapters.engines.acp import PRESETS, SPEC, Acp
from orchconverge.core.seen import Act, Outcome
from orchconverge.core.values import Usage
from orchconverge.errors import Refused
from tests.tools import engines
from tests.tools.engines import brief, log

# --- starting --------------------------------------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path: Path) -> str:
    return engines.programs(tmp_path, *(preset.argv[0] for preset in PRESETS.values()), "agent")


def spec_of(name: str, path: str, *, more: dict[str, object] | None = None, **briefed: object) -> dict[str, object]:
    launch = Acp({"PATH": path, "GEMINI_API_KEY": "k"}).launch(
        brief(model=name, **briefed), engines.settings(**(more or {}))
    )
    found: dict[str, object] = json.loads(launch.files[SPEC])
    Spec(**found)
    return found


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_started_by_our_client_on_a_file_and_told_what_is_granted(name: str, path: str) -> None:
    launch = Acp({"PATH": path}).launch(brief(model=name), engines.settings(allow=("make test", "Bash(npm ci:*)")))
    assert launch.argv == (sys.executable, "-P", "-X", "utf8", "-m", "orchconverge.acp_client", f"/state/m/{SPEC}")
    assert not launch.brief_on_stdin
    spec = spec_of(name, path, more={"allow": ("make test", "Bash(npm ci:*)")})
    assert spec["argv"][: len(PRESETS[name].argv)] == [f"{path}/{PRESETS[name].argv[0]}", *PRESETS[name].argv[1:]]
    assert (spec["cwd"], spec["prompt"], spec["roots"]) == ("/tree", "/state/m/brief.md", ["/state/m/out"])
    assert {"git commit", "make test", "npm ci"} <= set(spec["commands"])
    assert spec["anything"] is False
    assert (spec["session"], spec["resume"]) == ("", False)


def test_agents_are_made_to_ask_for_every_call_unless_a_person_skips_that(path: str) -> None:
    asked = spec_of("claude", path)
    assert "Read" in asked["meta"]["claudeCode"]["options"]["settings"]["permissions"]["ask"]
    assert asked["mode"] == "default"
    assert spec_of("codex", path)["mode"] == "workspace-write"
    gemini = Acp({"PATH": path}).launch(brief(model="gemini"), engines.settings())
    assert 'decision = "ask_user"' in gemini.files["acp-policy.toml"]
    assert "/state/m/acp-policy.toml" in json.loads(gemini.files[SPEC])["argv"]
    kept = json.dumps({"model": "mine", "permission": {"bash": "allow"}})
    opencode = Acp({"PATH": path, "OPENCODE_CONFIG_CONTENT": kept}).launch(brief(model="opencode"), engines.settings())
    config = json.loads(opencode.env["OPENCODE_CONFIG_CONTENT"])
    assert (config["model"], config["permission"]["bash"], config["permission"]["*"]) == ("mine", "ask", "ask")
    skipped = spec_of("claude", path, more={"permissions": "skip"})
    assert (skipped["mode"], skipped["meta"], skipped["anything"]) == ("bypassPermissions", {}, True)


def test_an_agent_gets_its_own_variables_and_no_other_s(path: str) -> None:
    environ = {"PATH": path, "ANTHROPIC_API_KEY": "a", "GH_TOKEN": "g", "AWS_SECRET_ACCESS_KEY": "s", "CODEX_HOME": "c"}
    found = {name: dict(Acp(environ).launch(brief(model=name), engines.settings()).env) for name in PRESETS}
    assert found["claude"] == {"ANTHROPIC_API_KEY": "a", "CLAUDE_CODE_ENABLE_PROMPT_SUGGESTION": "false"}
    assert found["codex"] == {"CODEX_HOME": "c"}
    assert found["copilot"] == {"GH_TOKEN": "g"}
    assert found["gemini"] == {}
    assert Acp(environ).variables == ()


def test_a_model_is_named_after_the_preset(path: str) -> None:
    assert spec_of("codex:gpt-5.5", path)["model"] == "gpt-5.5"
    assert spec_of("opencode:openai/gpt:x", path)["model"] == "openai/gpt:x"
    assert spec_of("gemini:pro", path)["argv"][-2:] == ["--model", "pro"]


def test_any_other_agent_is_named_by_its_argv(path: str) -> None:
    assert spec_of("", path, more={"argv": ("agent", "acp")})["argv"] == [f"{path}/agent", "acp"]
    assert spec_of("small", path, more={"argv": ("./agent",)})["model"] == "small"


@pytest.mark.parametrize(
    ("named", "where", "said"),
    [
        ("acp", "", "which agent"),
        ("acp:", "", "which agent"),
        ("acp:clade", "", "no preset `clade`"),
        ("acp:claude", "/nowhere", "claude-agent-acp is not on PATH"),
    ],
)
def test_what_cannot_start_is_refused_with_what_to_type(path: str, named: str, where: str, said: str) -> None:
    with pytest.raises(Refused, match=said) as caught:
        ready(named, {"PATH": where or path}, engines.settings())
    assert caught.value.hint
    ready("acp:codex:gpt-5.5", {"PATH": path}, engines.settings())


def test_a_context_is_continued_once_its_session_is_known(path: str, tmp_path: Path) -> None:
    folder = tmp_path / "minds" / "b.2"
    folder.mkdir(parents=True)
    first = spec_of("claude", path, folder=folder, context="c-1", resume=True)
    assert first["resume"] is False
    Path(str(first["session"])).write_text("s-1")
    again = spec_of("claude", path, folder=tmp_path / "minds" / "b.3", context="c-1", resume=True)
    assert (again["session"], again["resume"], again["loads"]) == (first["session"], True, True)
    assert spec_of("codex", path, folder=folder, context="c-1", resume=True)["resume"] is False, "another agent's"
    assert spec_of("gemini", path, folder=folder, context="c-1", resume=True)["loads"] is False
    assert spec_of("gemini", path)["auth"] == "gemini-api-key"


# --- permission ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tree with a link out of it, beside it a folder of programs that say that they ran."""
    place = tmp_path_factory.mktemp("place")
    (place / "tree" / "sub").mkdir(parents=True)
    (place / "tree" / "out").symlink_to("/etc")
    (place / "bin").mkdir()
    for name in ("git", "evil", "ls", "cat"):
        program = place / "bin" / name
        program.write_text(f'#!/bin/sh\necho "{name} $*" >> {place}/ran\n')
        program.chmod(0o755)
    return place


def asked(place: Path, line: str) -> str:
    spec = Spec(argv=["x"], cwd=str(place / "tree"), prompt="p", commands=["git commit", "git add", "python -m pytest"])
    return refusal(spec, "execute", [], line)


@pytest.mark.parametrize(
    "line",
    [
        "git commit -m x",
        "git add -A && git commit -q -m 'a; b | c > d & e # f'",
        'git add -A;\ngit commit -m "it\'s"\n',
        'git commit -m "$(cat <<\'EOF\'\nsubject `x` $y\n\nBody: "z"\nEOF\n)"',
        "cd sub && git add . ; ls -la | grep -n x | head -3",
        "git commit -m x 2>&1 | tail -5",
        "git commit -m x >/dev/null 2>&1",
        "python -m pytest -q tests/x.py",
        "git add a &&\n git commit -m b",
    ],
)
def test_what_is_granted_may_be_written_as_people_write_it(place: Path, line: str) -> None:
    assert asked(place, line) == ""


@pytest.mark.parametrize(
    "line",
    [
        "evil",
        "git push",
        "git -c core.pager=evil commit",
        "GIT_DIR=x git commit",
        "git commit -m x; evil",
        "git commit -m x && evil",
        "git commit -m x\nevil",
        "git commit -m x & evil",
        "git commit -m x | evil",
        "git commit -m $(evil)",
        "git commit -m `evil`",
        'git commit -m "$(evil)"',
        "git commit -m <(evil)",
        "git commit $'a\\'; evil; echo \\''",
        "git commit #'\nevil #'",
        "git commit -m x > /tmp/x",
        "git commit -m x >> y",
        "git commit -m x 2> y",
        "(evil)",
        "git commit -m 'x",
        "git commit --output=/tmp/x",
        "git add --outp=/tmp/x",
        "git commit -m \"$(cat <<'EOF'\nx\nEOF\nevil)\"",
        'git commit -m "$(cat <<EOF\n$(evil)\nEOF\n)"',
        "cat /etc/passwd",
        "cat ../x",
        "cat out/passwd",
        "cat ~/.ssh/id_rsa",
        "cat {/etc/passwd,x}",
        "cd .. && git commit -m x",
        "git commitx",
        "xargs evil",
        "git commit -m x \\\n; evil",
    ],
)
def test_what_is_not_granted_is_refused_however_it_is_hidden(place: Path, line: str) -> None:
    assert asked(place, line)


WORDS = (
    "git commit",
    "git add",
    "evil",
    "ls",
    "cat",
    "-m",
    "x",
    "'",
    '"',
    ";",
    "&&",
    "||",
    "|",
    "&",
    "\n",
    " ",
    "\t",
    "#",
    "\\",
)
MORE = (
    ">",
    "<",
    ">&",
    "2",
    "1",
    "/dev/null",
    "(",
    ")",
    "{",
    "}",
    "$",
    "`",
    "$(",
    "!",
    "*",
    "~",
    "=",
    "EOF",
    "<<",
    "cd",
    "-c",
    "\r",
)


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    parts=st.lists(st.sampled_from((*WORDS, *WORDS, *MORE)), min_size=1, max_size=12), glue=st.sampled_from(["", " "])
)
def test_no_shell_runs_anything_else_on_a_line_that_was_allowed(place: Path, parts: list[str], glue: str) -> None:
    line = "git commit " + glue.join(parts)
    if "\0" in line or asked(place, line):
        return
    ran = place / "ran"
    ran.unlink(missing_ok=True)
    env = {"PATH": str(place / "bin"), "HOME": "/nowhere"}
    subprocess.run(["/bin/bash", "-c", line], cwd=place / "tree", env=env, capture_output=True, timeout=20)
    did = ran.read_text().splitlines() if ran.exists() else []
    assert not [
        each
        for each in did
        if each.startswith("evil") or (each.startswith("git") and each.split()[1:2] not in (["commit"], ["add"]))
    ]
    assert sorted(path.name for path in (place / "tree").iterdir()) == ["out", "sub"], "nothing was written"


@given(st.text(max_size=200))
def test_any_text_is_a_command_line_that_is_taken_apart_or_refused(line: str) -> None:
    try:
        assert all(argv and all(isinstance(word, str) for word in argv) for argv in commands(line))
    except ValueError as error:
        assert str(error)


def test_the_line_that_a_shell_was_started_for_is_the_command() -> None:
    assert unwrapped(["/bin/bash", "-lc", "git commit -m 'a b'"]) == "git commit -m 'a b'"
    assert unwrapped("/bin/bash -lc \"git commit -m 'a b'\"") == "git commit -m 'a b'"
    assert unwrapped("bash run.sh 'x") == "bash run.sh 'x"
    assert unwrapped(["git", "commit", "-m", "a b"]) == "git commit -m 'a b'"
    assert unwrapped({"no": "command"}) == ""


# --- reading ---------------------------------------------------------------------------------------------------------


def fact(sentence: str = "", **facts: object) -> dict[str, object]:
    return {"type": sentence, "acp": facts}


def said(text: str, number: int = 0) -> dict[str, object]:
    return {"message": {"content": [{"type": "text", "text": text}]}, "acp": {"text": number}}


def ended(key: str, kind: str, target: str, status: str = "completed", **more: object) -> dict[str, object]:
    return fact(call={"id": key, "kind": kind, "target": target, "status": status, "tool": "t", **more})


def read(*records: object) -> Outcome:
    return Acp({}).read(log(*records))


BEGUN = fact(session="s-1", agent="an-agent 1", model="large")
ENDED = fact(
    stop="end_turn",
    usage={"inputTokens": 70, "outputTokens": 7, "cachedReadTokens": 5, "cachedWriteTokens": 3},
    usd=0.5,
)


def test_what_it_did_is_read_with_the_results_that_were_observed() -> None:
    outcome = read(
        BEGUN,
        fact(call={"id": "1", "kind": "read", "target": "a.txt", "status": "pending", "tool": "Read"}),
        ended("1", "read", "a.txt"),
        ended("2", "write", "b.txt", "failed", why="no room"),
        ended("3", "run", "make", exit=2),
        ended("4", "run", "cat c.txt && git commit -m x", exit=0),
        fact(call={"id": "5", "kind": "write", "target": "d.txt", "status": "in_progress"}),
        fact(call={"id": "6", "kind": "run", "target": "evil", "status": "pending", "tool": "Bash"}),
        fact(permission={"id": "6", "allowed": False, "why": "not granted"}),
        ended("6", "run", "evil", "failed", why="User refused"),
        said("half\n"),
        said("done", 1),
        said(" now", 1),
        ENDED,
    )
    assert outcome == Outcome(
        usage=Usage(inputTokens=70, outputTokens=7, cacheReadTokens=5, cacheWriteTokens=3, usd=0.5, source="reported"),
        context="s-1",
        summary="done now",
        refused=("Bash: evil",),
        acts=(
            Act(kind="read", target="a.txt", ok=True),
            Act(kind="write", target="b.txt", ok=False, detail="no room", call=1),
            Act(kind="run", target="make", ok=False, call=2),
            Act(kind="read", target="c.txt", ok=True, call=3),
            Act(kind="run", target="cat c.txt && git commit -m x", ok=True, call=3),
            Act(kind="write", target="d.txt", ok=None, call=4),
            Act(kind="run", target="evil", ok=False, refused=True, detail="not granted", call=5),
        ),
        stop="end_turn",
        model="large",
    )


def test_tokens_are_each_turn_s_and_dollars_the_session_s() -> None:
    second = fact(stop="end_turn", usage={"input_tokens": 30, "output_tokens": 3}, usd=0.75)
    usage = read(BEGUN, ENDED, second).usage
    assert usage is not None
    assert (usage.inputTokens, usage.outputTokens, usage.usd) == (100, 10, 0.75)
    assert read(BEGUN, fact(stop="end_turn")).usage is None


def test_gemini_s_commands_are_completed_however_they_ended() -> None:
    [act] = read(fact(session="s", agent="gemini-cli 0.61.0"), ended("1", "run", "make"), ENDED).acts
    assert act.ok is None


@pytest.mark.parametrize(
    ("records", "error", "auth", "limited"),
    [
        ([BEGUN, fact(error="Authentication required", code=-32000)], "Authentication required", True, False),
        (
            [BEGUN, fact(error="Internal error: API Error: Request rejected (429)")],
            "Internal error: API Error: Request",
            False,
            True,
        ),
        ([BEGUN, fact(stop="max_tokens")], "it ended its turn: max_tokens", False, False),
        ([BEGUN, fact(stopping=True)], "it was stopped", False, False),
        ([BEGUN, "agent: it broke"], "it broke", False, False),
        ([], "it ended without a result", False, False),
        (
            [BEGUN, fact(stopping=True), "agent: Attempt 3 failed with status 429. Retrying…", fact(stop="cancelled")],
            "it ended its turn: cancelled",
            False,
            True,
        ),
        (
            [
                fact(session="s", agent="@agentclientprotocol/codex-acp 2.6.0"),
                said("Warning: x\n\n"),
                said("exceeded retry limit, last status: 429 Too Many Requests\n\n"),
                fact(stop="end_turn"),
            ],
            "exceeded retry limit",
            False,
            True,
        ),
    ],
)
def test_what_went_wrong_is_told_apart(records: list[object], error: str, auth: bool, limited: bool) -> None:
    outcome = read(*records)
    assert outcome.error.startswith(error)
    assert (outcome.auth_failed, outcome.limit is not None, outcome.context_lost) == (auth, limited, False)


def test_a_limit_has_the_time_at_which_it_ends_where_the_agent_says_it() -> None:
    limit = read(BEGUN, fact(error="429: try again in 20s")).limit
    assert limit is not None
    assert limit.until is not None
    assert 0 < (limit.until - datetime.now(UTC)).total_seconds() <= 20


def test_a_session_that_was_not_known_is_lost() -> None:
    outcome = read(fact(error="the session s-9 is not known: 429", failed="lost"))
    assert (outcome.context_lost, outcome.context, outcome.limit) == (True, None, None)


def test_what_the_agent_printed_itself_is_no_fact() -> None:
    assert read(BEGUN, 'agent: {"acp": {"stop": "end_turn"}}').stop == ""


def values() -> st.SearchStrategy[object]:
    leaf = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
    return st.recursive(
        leaf, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    )


KEYS = (
    "session",
    "agent",
    "model",
    "stopping",
    "text",
    "call",
    "permission",
    "stop",
    "usage",
    "usd",
    "error",
    "code",
    "failed",
)


@given(
    st.lists(
        st.dictionaries(st.sampled_from(KEYS), values(), max_size=4) | values() | st.binary(max_size=40), max_size=8
    )
)
def test_whatever_is_in_the_log_there_is_an_outcome(records: list[object]) -> None:
    lines: Iterator[bytes] = (
        each if isinstance(each, bytes) else json.dumps({"acp": each, "message": {"content": each}}).encode()
        for each in records
    )
    outcome = Acp({}).read(b"\n".join(lines))
    assert isinstance(outcome, Outcome)
    assert len(outcome.error) <= 2000
