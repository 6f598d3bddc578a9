"""mini-swe-agent: how it is started, the program that follows its trajectory, and what is made of that."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from orchconverge.adapters.engines import ready
from orchconverge.adapters.engines.mini import STREAM, Mini
from orchconverge.core.seen import Act
from orchconverge.core.values import Usage
from orchconverge.errors import Refused
from tests.tools.engines import brief, log, programs, settings, unnumbered


def test_mini_is_refused_unless_permissions_are_to_be_skipped(tmp_path: Path) -> None:
    environ = {"PATH": programs(tmp_path, "mini")}
    for start in (lambda: ready("mini", environ, settings()), lambda: Mini(environ).launch(brief(), settings())):
        with pytest.raises(Refused, match="cannot be limited") as caught:
            start()
        assert 'permissions = "skip"' in caught.value.hint
    assert ready("mini", environ, settings(permissions="skip")).find() == f"{tmp_path}/mini"


def test_mini_is_followed_and_told_what_it_may_cost(tmp_path: Path) -> None:
    mini = Mini({"PATH": programs(tmp_path, "mini")})
    skip = settings(permissions="skip")
    follower = (sys.executable, "-I", "-S", str(STREAM), f"{tmp_path}/mini", "/state/m")
    assert mini.launch(brief(), skip).argv == (*follower, "--cost-limit=0")
    assert mini.launch(brief(usd=1.5, model="m"), skip).argv == (*follower, "--cost-limit=1.5", "--model=m")
    assert STREAM.is_file()


PLAYED = """#!{python}
import json, sys
told = dict(zip(sys.argv, sys.argv[1:]))
config = open([w for n, w in zip(sys.argv, sys.argv[1:]) if n == "--config"][1], encoding="utf-8").read()
messages = [{{"role": "system", "content": "s"}}, {{"role": "user", "content": config}}]
def add(**message):
    messages.append(message)
    with open(told["--output"], "w") as out:
        json.dump({{"messages": messages}}, out)
usage = {{"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {{"cached_tokens": 4}}}}
actions = [{{"command": "cat a", "tool_call_id": "1"}}, {{"command": "make", "tool_call_id": "2"}}]
add(role="assistant", content="look", extra={{"actions": actions, "cost": 0.5, "response": {{"model": "m", "usage": usage}}}})
add(role="tool", tool_call_id="1", content="", extra={{"raw_output": "x", "returncode": 0, "exception_info": ""}})
add(role="tool", tool_call_id="2", content="", extra={{"raw_output": "no rule", "returncode": 2, "exception_info": ""}})
add(role="exit", content="all done", extra={{"exit_status": "Submitted", "submission": "all done"}})
print("words for people")
print(json.dumps({{"brief": config, "argv": sys.argv[1:]}}), file=sys.stderr)
sys.exit(3)
"""


def test_a_trajectory_becomes_lines_and_a_brief_reaches_it_as_it_is(tmp_path: Path) -> None:
    program = tmp_path / "mini"
    program.write_text(PLAYED.format(python=sys.executable))
    program.chmod(0o755)
    text = 'a "goal"\\ud83d: 😀\u0085\x7f\x07 {{x}}\n- b'
    ran = subprocess.run(
        [sys.executable, "-I", "-S", str(STREAM), str(program), str(tmp_path), "--model=m"],
        input=text.encode(),
        capture_output=True,
    )
    assert ran.returncode == 3
    assert b"words for people" not in ran.stdout
    told = json.loads(ran.stderr.splitlines()[-1])
    assert told["argv"][:2] == ["--yolo", "--exit-immediately"]
    assert told["argv"][-1] == "--model=m"
    assert '"task"' in told["brief"]
    assert r"\U0001f600" in told["brief"]  # YAML takes the two halves of JSON's escape for two characters
    assert r"\\ud83d" in told["brief"]
    found = Mini({}).read(ran.stdout)
    assert unnumbered(found.acts) == (
        Act(kind="read", target="a", ok=True),
        Act(kind="run", target="make", ok=False, detail="no rule"),
    )
    assert (found.summary, found.stop, found.model, found.error) == ("all done", "Submitted", "m", "")
    assert found.usage == Usage(inputTokens=5, outputTokens=2, cacheReadTokens=4, usd=0.5, source="reported")


def test_an_end_that_is_no_success_is_an_error() -> None:
    over = Mini({}).read(log({"type": "exit", "status": "LimitsExceeded", "text": "LimitsExceeded"}))
    assert (over.error, over.stop, over.limit) == ("LimitsExceeded", "LimitsExceeded", None)
    quota = Mini({}).read(log({"type": "exit", "status": "RateLimitError", "text": "slow down"}))
    assert quota.limit is not None
    assert Mini({}).read(b"Traceback\nOSError: x").error == "Traceback\nOSError: x"
