"""The engines: how each is started, and what is made of its output."""

from __future__ import annotations

import json
import re
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import settings as examined
from hypothesis import strategies as st

from orchconverge.adapters.engines import ENGINES, detect, ready, supported
from orchconverge.adapters.engines.calls import MOST_ACTS, Calls
from orchconverge.adapters.engines.claude import Claude
from orchconverge.adapters.engines.command import Command
from orchconverge.adapters.engines.grant import commands
from orchconverge.adapters.engines.reading import LONGEST_LINE_BYTES
from orchconverge.adapters.engines.scripted import PLAYER, Scripted
from orchconverge.adapters.engines.shell import acted
from orchconverge.adapters.engines.trouble import Trouble, of, until
from orchconverge.core.seen import Outcome
from orchconverge.core.values import Limit, Usage
from orchconverge.errors import Refused
from tests.tools.engines import brief, programs, settings

AGENTS = ("claude", "codex", "gemini", "opencode", "aider", "mini")
CAPTURED = Path(__file__).parents[1] / "data" / "engines"
"""What the real ones printed, working on a scripted model and turned away by it."""
LOGS = sorted(CAPTURED.glob("*.log"))


@pytest.fixture
def bin_(tmp_path: Path) -> Path:
    programs(tmp_path, *AGENTS, "agent")
    return tmp_path


# --- the table -------------------------------------------------------------------------------------------------------


def test_claude_is_chosen_when_it_is_installed_and_what_must_be_named_never_is(bin_: Path, tmp_path: Path) -> None:
    assert detect({"PATH": str(bin_)}) == "claude"
    assert detect({"PATH": "/nowhere"}) is None
    assert tuple(ENGINES)[: len(AGENTS)] == AGENTS
    (tmp_path / "others").mkdir()
    assert detect({"PATH": programs(tmp_path / "others", "mini")}) is None
    assert detect({"PATH": programs(tmp_path / "others", "aider", "codex")}) == "codex"


@pytest.mark.parametrize("name", AGENTS)
def test_an_agent_is_started_by_its_absolute_path_or_refused(bin_: Path, name: str) -> None:
    skip = settings(permissions="skip" if name == "mini" else "default")
    assert f"{bin_}/{name}" in ENGINES[name]({"PATH": str(bin_)}).launch(brief(), skip).argv
    with pytest.raises(Refused, match="not installed"):
        ENGINES[name]({"PATH": "/nowhere"}).launch(brief(), skip)


@pytest.mark.parametrize("name", AGENTS)
def test_no_text_of_a_brief_is_an_argument(bin_: Path, name: str) -> None:
    skip = settings(permissions="skip" if name == "mini" else "default")
    launch = ENGINES[name]({"PATH": str(bin_)}).launch(brief(text="the secret plan"), skip)
    assert not any("secret plan" in word for word in (*launch.argv, *launch.env.values()))
    assert launch.brief_on_stdin or any("the secret plan" in text for text in launch.files.values())


@pytest.mark.parametrize("name", [name for name in AGENTS if name != "mini"])
def test_permissions_are_skipped_only_if_that_was_asked_for(bin_: Path, name: str) -> None:
    skips = re.compile(r"--(dangerously-\S+|auto|yolo)|yolo|danger-full-access")
    engine = ENGINES[name]({"PATH": str(bin_)})
    assert not any(skips.fullmatch(word) for word in engine.launch(brief(), settings(allow=("make",))).argv)
    # aider has nothing to skip: it runs no command either way.
    asked = engine.launch(brief(), settings(permissions="skip")).argv
    assert any(skips.fullmatch(word) for word in asked) == (name != "aider")


def test_what_is_granted_are_beginnings_of_commands() -> None:
    git = commands(())
    assert "git commit" in git
    assert "git push" not in git
    allow = ("make test", "Bash(npm run:*)", "WebFetch", "mcp__github__get_issue", " ", "make test")
    assert commands(allow) == (*git, "make test", "npm run")


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
        ("codex", {}, "not installed"),
        ("mini", {}, "not installed"),
        ("scripted", {}, "no script"),
        ("scripted", {"script": "missing.json"}, "no script /repo/missing.json"),
    ],
)
def test_what_cannot_start_is_refused_before_anything_was(name: str, more: dict[str, object], said: str) -> None:
    with pytest.raises(Refused, match=said) as caught:
        ready(name, {"PATH": "/nowhere"}, settings(**more))
    assert caught.value.hint


# --- command ---------------------------------------------------------------------------------------------------------


def test_a_script_that_cannot_be_played_is_refused_before_anything_was(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text('{"minds": [{"acts": [{"print": "hello"}]}]}')
    with pytest.raises(Refused, match="mind 1 has an act that is none of") as caught:
        ready("scripted", {}, settings(checkout=str(tmp_path), script="s.json"))
    assert caught.value.hint


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


# --- what is behind all of them --------------------------------------------------------------------------------------

HEREDOC = "cat <<'EOF' > new.py\nimport x > y\nEOF"
PATCH = "apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: a/b.py\n-x\n*** Add File: c.py\n+z\n*** End Patch\nEOF"


@pytest.mark.parametrize(
    ("command", "acts"),
    [
        ("cat a.txt b.txt", [("read", "a.txt"), ("read", "b.txt")]),
        ("/bin/bash -lc 'sed -n 1,20p src/a.py'", [("read", "src/a.py")]),
        ("nl -ba f.py | sed -n '10,20p'", [("read", "f.py")]),
        ("head -n 20 f.txt", [("read", "f.txt")]),
        ("cd src && ls -la && cat main.py 2>/dev/null", [("search", "ls -la"), ("read", "src/main.py")]),
        ("grep -rn 'a b' src", [("search", "grep -rn a b src")]),
        ("find . -name '*.pyc' -delete", [("run", "find . -name '*.pyc' -delete")]),
        ("printf x >> log.txt", [("write", "log.txt")]),
        ("sed -i s/a/b/ f g", [("write", "f"), ("write", "g")]),
        ("echo x | tee out.txt", [("write", "out.txt")]),
        (HEREDOC, [("write", "new.py")]),
        (f"{HEREDOC}\npython new.py", [("write", "new.py"), ("run", f"{HEREDOC}\npython new.py")]),
        (PATCH, [("write", "a/b.py"), ("write", "c.py")]),
        ("pytest -q 2>&1 | tail -5", [("run", "pytest -q 2>&1 | tail -5")]),
        ("make >/dev/null", [("run", "make >/dev/null")]),
        ("cat $(ls)", [("run", "cat $(ls)")]),
        ("echo 'unclosed", [("run", "echo 'unclosed")]),
        ("git add -A && git commit -m x", [("run", "git add -A && git commit -m x")]),
        ("", [("run", "")]),
    ],
)
def test_a_command_of_a_shell_is_told_by_what_it_does_to_files(command: str, acts: list[tuple[str, str]]) -> None:
    assert list(acted(command)) == acts


@given(st.text(alphabet="ab '\"<>|&;$()`\n\\-*EOF ", max_size=60))
def test_any_command_is_told_somehow(command: str) -> None:
    assert acted(command)


def test_the_newest_calls_are_kept_in_order_and_a_result_without_a_call_is_nothing() -> None:
    calls = Calls()
    for number in range(3 * MOST_ACTS):
        calls.begin(str(number), "read", str(number))
    calls.end("0", ok=True)
    calls.end(None, ok=True)
    calls.end(str(3 * MOST_ACTS - 1), ok=True)
    acts = calls.acts()
    assert [int(act.target) for act in acts] == [*range(2 * MOST_ACTS, 3 * MOST_ACTS)]
    assert [act.ok for act in acts[-2:]] == [None, True]


AT = datetime(2026, 11, 29, 22, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("said", "end"),
    [
        ("Suggested retry after 3600s.", datetime(2026, 11, 29, 23, 0, tzinfo=UTC)),
        ("quota will reset after 1h2m3s", datetime(2026, 11, 29, 23, 2, 3, tzinfo=UTC)),
        ("try again in 2 days 3 hours.", datetime(2026, 12, 2, 1, 0, tzinfo=UTC)),
        ("try again in 1.5 seconds", datetime(2026, 11, 29, 22, 0, 1, 500_000, tzinfo=UTC)),
        ("usage limit reached|1796000000", datetime(2026, 11, 30, 0, 53, 20, tzinfo=UTC)),
        ('"resets_at":1796000000', datetime(2026, 11, 30, 0, 53, 20, tzinfo=UTC)),
        ("retry after 999999999999999999 days", datetime(2027, 1, 8, 22, 0, tzinfo=UTC)),
        ("try again at Feb 31st, 2026 12:53 AM", None),
        ("try again later", None),
        ("reset after 0s", None),
    ],
)
def test_the_end_of_a_limit_is_read_in_any_of_its_forms(said: str, end: datetime | None) -> None:
    assert until(said, at=AT) == end


def test_a_time_of_day_is_this_machine_s_and_lasts_its_minute() -> None:
    day = until("try again at Nov 30th, 2026 12:53 AM.", at=AT)
    assert day == datetime(2026, 11, 30, 0, 54).astimezone(UTC)
    now = datetime(2026, 11, 29, 22, 0, 30).astimezone(UTC)
    for said, day_, hour, minute in (
        ("11:15 PM", 29, 23, 16),
        ("10:00 PM", 29, 22, 1),  # this very minute
        ("9:59 PM", 29, 22, 0),  # just over
        ("3:00 AM", 30, 3, 1),
    ):
        assert until(f"Try again at {said}.", at=now) == datetime(2026, 11, day_, hour, minute).astimezone(UTC)


@pytest.mark.parametrize(
    ("said", "status", "trouble"),
    [
        ("last status: 429 Too Many Requests", None, Trouble(limit=Limit(engine="x"))),
        ("Overloaded", None, Trouble(limit=Limit(engine="x"))),
        ("anything", 429, Trouble(limit=Limit(engine="x"))),
        ("unexpected status 401 Unauthorized: your quota", None, Trouble(auth=True)),
        ("Incorrect API key provided", None, Trouble(auth=True)),
        ("Missing environment variable: `KEY`.", None, Trouble(auth=True)),
        ("rate limit", 403, Trouble(auth=True)),
        ("stream disconnected before completion", None, Trouble()),
    ],
)
def test_an_error_is_of_the_quota_of_the_key_or_of_neither(said: str, status: object, trouble: Trouble) -> None:
    assert of(said, engine="x", status=status) == trouble


# --- what the real ones printed --------------------------------------------------------------------------------------

REPORT = "/state/m/mind/report.json"
DID = [("read", "a.txt"), ("run", "git status --short"), ("write", "b.txt"), ("read", "missing.txt"), ("write", REPORT)]
RAN = [
    *DID,
    *(("run", each) for each in ("python3 -c 'print(1)'", "git add -A && git commit -qm b", "git log -1 --format=%s")),
]


@pytest.mark.parametrize("name", [name for name in AGENTS if name != "aider"])
def test_one_script_is_one_list_of_acts_whatever_the_engine(name: str) -> None:
    found = ENGINES[name]({}).read((CAPTURED / f"{name}-work.log").read_bytes())
    assert [(act.kind, act.target) for act in found.acts] == RAN
    assert (found.summary, found.error, found.limit, found.auth_failed) == ("all done", "", None, False)
    assert found.usage is not None
    assert (found.usage.inputTokens, found.usage.outputTokens) == (900, 180)
    oks = [act.ok for act in found.acts]
    assert (oks[0], oks[2], oks[3], oks[4]) == (True, True, False, True)
    # gemini never says with which code a command ended; codex cannot commit; the granted ones alone run, but in a sandbox.
    assert oks[1] is (None if name == "gemini" else True)
    assert oks[6] is {"gemini": None, "codex": False}.get(name, True)
    asked = name in ("claude", "gemini", "opencode")
    assert found.acts[5].refused == asked
    assert [each.endswith("python3 -c 'print(1)'") for each in found.refused] == [True] * asked


@pytest.mark.parametrize("name", AGENTS)
def test_who_is_not_let_in_is_told_from_who_has_no_quota(name: str) -> None:
    found = ENGINES[name]({}).read((CAPTURED / f"{name}-auth.log").read_bytes())
    assert (found.auth_failed, found.limit, found.acts) == (True, None, ())
    assert found.error


@pytest.mark.parametrize(
    "log", [path for path in LOGS if path.stem.endswith(("-quota", "-limit"))], ids=lambda p: p.stem
)
def test_a_quota_that_is_used_up_is_a_limit(log: Path) -> None:
    name = log.stem.partition("-")[0]
    found = ENGINES[name]({}).read(log.read_bytes())
    assert found.limit is not None
    assert (found.limit.engine, found.auth_failed) == (name, False)
    # Only gemini passes on what it was told, and codex what its own service says.
    ends = {"gemini-quota": datetime(2026, 11, 29, 21, 18, 57, 505_000, tzinfo=UTC)}
    ends["codex-limit"] = datetime(2026, 11, 30, 0, 54).astimezone(UTC)
    assert found.limit.until == ends.get(log.stem)


# --- any output ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ENGINES)
@given(data=st.binary(max_size=400))
def test_any_bytes_give_an_outcome(name: str, data: bytes) -> None:
    msgspec.json.encode(ENGINES[name]({}).read(data))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def places(value: object) -> list[tuple[object, ...]]:
    """The path to every value in a JSON document, itself first."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [(), *((key, *rest) for key, below in inner for rest in places(below))]


def put(value: object, at: tuple[object, ...], new: object) -> object:
    """The document with one of its values replaced."""
    if not at:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)  # type: ignore[call-overload]
    copy[at[0]] = put(copy[at[0]], at[1:], new)
    return copy


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
@examined(deadline=None)
@given(data=st.data())
def test_what_was_printed_with_any_value_replaced_lost_or_cut_gives_an_outcome(path: Path, data: st.DataObject) -> None:
    lines = path.read_bytes().splitlines()
    number = data.draw(st.integers(0, len(lines) - 1))
    line = lines[number]
    if line.startswith(b"{"):
        document = json.loads(line)
        at = data.draw(st.sampled_from(places(document)))
        lines[number] = json.dumps(put(document, at, data.draw(json_values))).encode()
    whole = b"\n".join(lines)
    cut = data.draw(st.integers(0, len(whole)))
    engine = ENGINES[path.stem.partition("-")[0]]
    for part in (whole, whole[cut:], whole[:cut], whole + b"\n" + whole):
        found = engine({}).read(part)
        assert msgspec.json.decode(msgspec.json.encode(found), type=Outcome) == found


@pytest.mark.parametrize("name", [name for name in AGENTS if name != "aider"])
@pytest.mark.parametrize(
    "noise",
    [
        b'"a string"\n[1,2]\nnull\n12',
        b"\xff\xfe{}\x00\x00",
        b"{" * 100_000,
        b'{"a":' * 100_000,
        b'{"type":"a new thing","deep":{"x":[1]}}',
        b'{"type":["a"],"part":7,"item":"x"}',
        b"x" * (LONGEST_LINE_BYTES + 1),
    ],
    ids=range(7),
)
def test_a_line_that_is_not_understood_takes_nothing_away(name: str, noise: bytes) -> None:
    lines = (CAPTURED / f"{name}-work.log").read_bytes().splitlines()
    plain = ENGINES[name]({}).read(b"\n".join(lines))
    for place in (0, len(lines) // 2, len(lines)):
        assert ENGINES[name]({}).read(b"\n".join([*lines[:place], noise, *lines[place:]])) == plain


NOISE = {
    "bytes": bytes(range(256)) * 4,
    "short words": b"still thinking about it\n" * 40,
    "records": b'{"type":"item.completed","item":{"id":"item_1","type":"reasoning","text":"' + b"x" * 900 + b'"}}\n',
    "results": b'{"type":"user","message":{"content":[{"type":"tool_result","content":"' + b"x" * 2000 + b'"}]}}\n',
    "commands": b'{"type":"item.started","item":{"id":"%d","type":"command_execution","command":"cat a b c | head"}}\n',
}


@pytest.mark.parametrize("name", AGENTS)
@pytest.mark.parametrize("kind", NOISE)
@pytest.mark.parametrize(("megabytes", "seconds"), [(4, 2.0), pytest.param(100, 30.0, marks=pytest.mark.slow)])
def test_megabytes_are_read_in_seconds(name: str, kind: str, megabytes: int, seconds: float) -> None:
    piece = NOISE[kind]
    work = (CAPTURED / f"{name}-work.log").read_bytes()
    many = (megabytes << 20) // len(piece)
    noise = b"".join(piece % each for each in range(many)) if b"%d" in piece else piece * many
    began = time.process_time()
    found = ENGINES[name]({}).read(noise + b"\n" + work)
    took = time.process_time() - began
    assert found.summary
    assert took < seconds, f"{took:.1f} s"
