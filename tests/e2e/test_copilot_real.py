"""The real agent CLIs put a comment right, each with a scripted model on loopback: told it as data, granted what it takes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

import pytest

from orchconverge.core import events as e
from tests.e2e.lab import Lab, met
from tests.tools.agents import Agent, installed
from tests.tools.forge_stub import Stub, served
from tests.tools.forges import TOKENS
from tests.tools.scripted_model import Act, model, read, run, write

pytestmark = [pytest.mark.engines, pytest.mark.tmux, pytest.mark.timeout(400)]
BRANCH = "orchconverge/fix-the-goal"
GOOD = "def total(items):\n    return sum(items)\n"


@pytest.fixture
def stub() -> Iterator[Stub]:
    with served(Stub()) as stub:
        yield stub


@pytest.mark.parametrize("name", ["claude", "codex", "gemini", "opencode"])
def test_it_puts_a_comment_right_and_says_so_by_its_id(lab: Lab, stub: Stub, name: str) -> None:
    agent: Agent = installed(name)
    told: list[str] = []
    commit = run("git add -A && git commit -q -m 'what I did'")

    def makes(prompt: str) -> Sequence[Act]:
        report = re.search(r"^ +(/\S+/report\.json)$", prompt, re.MULTILINE)
        assert report, prompt
        bad = GOOD.replace("sum", "eval")
        return agent.works(report[1], write("a.txt", "yes\n"), write("total.py", bad), commit=commit)

    def fixes(prompt: str) -> Sequence[Act]:
        answer = re.search(r"^ +(/\S+/answer\.json)$", prompt, re.MULTILINE)
        key = re.search(r"^(inline\.\d+) \(", prompt, re.MULTILINE)
        assert answer, prompt
        assert key, prompt
        told.append(prompt)
        word = {"comments": [{"id": key[1], "outcome": "fixed", "reason": "it sums"}]}
        return agent.ended(read("total.py"), write("total.py", GOOD), commit, write(answer[1], json.dumps(word)))

    with model([("You put right what is said", fixes), ("- a: not met", makes)]) as server:
        agent.settle(lab, server.url)
        lab.run("fix the goal", "--engine", agent.spec, "--interval", "0", *met("a"), "--final", "none", code=0)
        lab.wait(seconds=120)
        lab.env |= {"ORCHCONVERGE_FORGE": f"{stub.url}/repos/ann/shop", "GH_TOKEN": TOKENS["ann"]}
        lab.run("pushl", code=0)
        stub.pulls[0]["head"]["sha"] = lab.git("rev-parse", BRANCH, cwd=lab.remote)
        body = "critical: what a caller gives is run as code"
        stub.inline.append(stub.new("ann", body=body, path="total.py", line=2, in_reply_to_id=None))
        result = json.loads(lab.run("copilot", "--json", code=0, seconds=120).stdout)
    [found] = result["findings"]
    assert (found["outcome"], found["reason"]) == ("fixed", "it sums"), result
    assert len(set(told)) == 1
    assert "> critical: what a caller gives is run as code" in told[0]
    assert lab.git("show", f"{BRANCH}:total.py", cwd=lab.remote) == GOOD.rstrip("\n")
    assert lab.facts(e.BasinChecked)[-1].head == found["commit"] == lab.git("rev-parse", BRANCH, cwd=lab.remote)
    assert "**Fixed** in" in stub.inline[-1]["body"]
    assert lab.worktrees() == []
    for path in lab.minds.rglob("log.*"):
        assert TOKENS["ann"].encode() not in path.read_bytes()
