"""The real agent CLIs as judges, each with a scripted model on loopback: they read the tree, answer, and change nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from orchconverge.adapters.engines import ENGINES
from orchconverge.core import events as e
from tests.e2e.lab import Lab, meets, met, mind
from tests.tools.agents import Agent, installed
from tests.tools.scripted_model import Act, Say, model, read, run, write

pytestmark = [pytest.mark.engines, pytest.mark.tmux, pytest.mark.timeout(400)]
YES = {"clauses": [{"clause": 1, "met": True, "evidence": [{"path": "a.txt", "quote": "yes"}]}]}


HAVE_A_SHELL = ("claude", "codex")
"""The others are not even offered one."""


@pytest.mark.parametrize("name", ["claude", "codex", "gemini", "opencode"])
def test_it_reads_answers_and_may_change_nothing(lab: Lab, name: str) -> None:
    agent: Agent = installed(name)
    tries: list[str] = []

    def played(prompt: str) -> Sequence[Act]:
        tree = re.search(r"^The tree, to be read: (/.+)$", prompt, re.MULTILINE)
        answer = re.search(r"^ +(/\S+/answer\.json)$", prompt, re.MULTILINE)
        assert tree, prompt
        assert answer, prompt
        tries.append(tree[1])
        there = tree[1]
        stolen = run(f"cd {there} && touch c.txt; git -C {there} commit -q --allow-empty -m stolen")
        return (
            read(f"{there}/a.txt"),
            write(f"{there}/b.txt", "mine\n"),
            *((stolen,) if name in HAVE_A_SHELL else ()),
            write(answer[1], json.dumps(YES)),
            Say("all done"),
        )

    words = ("--criterion", "judge=a.txt says yes", *met("a"), "--max-attempts", "1", "--interval", "0")
    with model([("You are a judge", played)]) as server:
        agent.settle(lab, server.url)
        script = lab.script(mind(*meets("a")))
        lab.run("goal", "--engine", f"scripted,{agent.spec}", "--script", script, *words, "--final", "none", code=0)
        lab.wait(seconds=120)
    [ended] = lab.facts(e.AttemptEnded)
    found = next(each for each in ended.evidence if each.criterion == "judge")
    assert (found.met, found.passed, found.exit) == ("yes", ("judge:1",), 0), found.excerpt
    last = found.excerpt.splitlines()[-1]
    assert last.startswith(f"judged by {agent.spec}, not by scripted, which made it: 1 of 1 clause met (")
    assert len(set(tries)) == 2
    for who in (lab.minds / "checks").glob("*/who.json"):  # it tried to, each time, and was not let
        acts = ENGINES[name]({}).read(who.with_name("log.head").read_bytes()).acts
        writes = {Path(act.target).name: act.ok for act in acts if act.kind == "write"}
        assert (writes["b.txt"], writes["answer.json"]) == (False, True), acts
