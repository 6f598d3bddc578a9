"""What the product gives an engine to start with: programs of these names that tell what they got."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from tests.e2e.lab import Lab, met

pytestmark = pytest.mark.tmux
TELLS = """#!/usr/bin/env python3
import json, os, sys
named = [word for word in sys.argv[1:] if os.path.isfile(word)]
told = {"argv": sys.argv[1:], "env": dict(os.environ), "files": {name: open(name).read() for name in named}}
print(json.dumps({"type": "told", **told}))
"""


def told(lab: Lab, engine: str) -> dict[str, object]:
    """What the engine's program got in a run of one attempt."""
    programs = lab.root / "programs"
    programs.mkdir()
    (programs / engine).write_text(TELLS)
    (programs / engine).chmod(0o755)
    lab.env["PATH"] = f"{programs}:{lab.env['PATH']}"
    lab.git("switch", "-q", "-c", "topic")
    one = ("--max-attempts", "1", "--usd", "2", "--interval", "0", "--final", "none")
    lab.run("the file says yes", "--engine", engine, *one, *met("a"), code=0)
    lab.wait(code=3)
    [log] = (lab.minds / "minds").glob("*/log.head")
    found: dict[str, object] = json.loads(log.read_text())
    return found


def test_what_is_left_of_the_budget_is_passed_on(lab: Lab) -> None:
    argv = told(lab, "claude")["argv"]
    assert isinstance(argv, list)
    assert argv[argv.index("--max-budget-usd") + 1] == "2.00"


def test_an_engine_s_files_are_there_and_it_is_told_who_commits(lab: Lab) -> None:
    found = told(lab, "gemini")
    argv, env, files = found["argv"], found["env"], found["files"]
    assert isinstance(argv, list)
    assert isinstance(env, dict)
    assert isinstance(files, dict)
    policy = argv[argv.index("--policy") + 1]
    assert Path(policy).stat().st_mode & 0o777 == 0o600
    [rule] = tomllib.loads(files[policy])["rule"]
    assert {"git commit", "grep -q yes a.txt"} <= set(rule["commandPrefix"])
    assert (env["GIT_AUTHOR_NAME"], env["GIT_COMMITTER_EMAIL"]) == ("A Person", "person@example.org")
