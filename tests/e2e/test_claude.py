"""The real Claude Code CLI, with a scripted model on loopback: converges a repository, is killed, resumed, and pushes."""

from __future__ import annotations

import json
import os
import random
import re
import threading
from collections.abc import Iterator, Sequence
from typing import Literal

import pytest

from orchconverge.core import events as e
from tests.e2e.lab import Lab, kill, met
from tests.tools.agents import installed
from tests.tools.scripted_model import TOKENS_OUT, Act, Call, Model, Rule, Say, model, run, write

pytestmark = [pytest.mark.claude, pytest.mark.tmux, pytest.mark.timeout(300)]
GOAL = "both files say yes"
BASIN = "both-files-say-yes"
REPORT = f"docs: convergence report of {BASIN}"
THINKS = 0.7
"""Seconds before each call: time to be killed in."""


def working_on(criterion: str, prompt: str) -> Sequence[Act]:
    """What the model does for one criterion: the file, a commit with the trailer, the report where the brief says."""
    told = re.search(r"^ +(/\S+/report\.json)$", prompt, re.MULTILINE)
    assert told, prompt
    word = {"summary": f"{criterion}.txt says yes", "residue": [{"text": f"{criterion} is a file"}], "verdict": None}
    message = f"git add -A && git commit -q -m '{criterion}' -m 'Criterion: {criterion}'"
    return (
        run("git status --short", seconds=THINKS),
        write(f"{criterion}.txt", "yes\n"),
        run(message, seconds=THINKS),
        write(told[1], json.dumps(word)),
        Say(f"{criterion} is met."),
    )


@pytest.fixture
def scripted() -> Iterator[Model]:
    rules = [(f"- {name}: not met", lambda prompt, name=name: working_on(name, prompt)) for name in ("a", "b")]
    with model(rules) as server:
        yield server


@pytest.fixture
def ready(lab: Lab, scripted: Model) -> Lab:
    """The lab on a feature branch, with the CLI on its PATH and nothing but our model to talk to."""
    lab.git("switch", "-q", "-c", "topic")
    installed("claude").settle(lab, scripted.url)
    return lab


def start(lab: Lab) -> None:
    lab.run(GOAL, "--engine", "claude", "--interval", "0", *met("a", "b"), code=0)


def contexts(lab: Lab) -> list[str]:
    """The session that Claude itself named at the start of each mind that got so far, in the order of the minds."""
    found = []
    for fact in lab.facts(e.BranchSpawned):
        log = lab.minds / "minds" / fact.branch / "log.head"
        for line in log.read_bytes().split(b"\n") if log.exists() else []:
            if line.startswith(b'{"type":"system","subtype":"init"'):
                found.append(str(json.loads(line)["session_id"]))
    return found


def same_end(lab: Lab) -> None:
    """It converged once, with each criterion's commit once, and all of it is on the remote with the report."""
    assert len(lab.facts(e.BasinConverged)) == 1
    assert lab.facts(e.RunStopped)[-1].reason == "converged"
    assert lab.subjects("topic") == ["a", "b", REPORT]
    assert lab.git("diff", "--name-status", "main", "topic~1", cwd=lab.remote) == "A\ta.txt\nA\tb.txt"
    assert lab.git("rev-parse", "topic") == lab.git("rev-parse", "topic", cwd=lab.remote)
    assert len(lab.reports("topic")) == 1
    assert lab.git("status", "--porcelain") == ""
    assert max(lab.starts().values()) == 1


def test_it_converges_in_two_attempts_with_the_controller_killed_in_between(ready: Lab, scripted: Model) -> None:
    lab = ready
    start(lab)
    lab.fact(e.BranchSearching, 2, seconds=120)
    kill(lab.controller())
    before = lab.lines()
    lab.run("--resume", code=0)
    lab.wait(seconds=120)
    assert lab.lines().startswith(before)
    same_end(lab)
    assert [(fact.criteria["a"], fact.criteria["b"]) for fact in lab.facts(e.AttemptEnded)] == [
        (True, False),
        (True, True),
    ]
    assert len(lab.facts(e.BranchSpawned)) == 2
    # One engine context: declared once, shown by both minds, and the model saw the first brief in the second's conversation.
    [context] = lab.facts(e.SessionContext)
    assert contexts(lab) == [context.engineSession] * 2
    assert [fact.context for fact in lab.facts(e.BranchEnded)] == ["shown", "shown"]
    work = [asked for asked in scripted.asked if "- a: not met" in asked.prompts[0]]  # and not the chain's review
    held = [len(asked.prompts) for asked in work]
    assert held == sorted(held)
    assert (held[0], held[-1]) == (1, 2)
    first, second = work[-1].prompts
    assert "- a: not met" in first
    assert "- a: met" in second
    assert "a is a file" in second  # what the first mind had learned
    # Every call was granted, and what it cost is each mind's own.
    calls = [sum(isinstance(asked.act, Call) and len(asked.prompts) == n for asked in work) for n in (1, 2)]
    assert calls == [4, 4]
    assert not any("refused calls" in fact.error for fact in lab.facts(e.BranchEnded))
    one, two = (fact.usage for fact in lab.facts(e.BranchEnded))
    assert one is not None
    assert two is not None
    assert (one.source, two.source) == ("reported", "reported")
    assert (one.outputTokens, two.outputTokens) == (5 * TOKENS_OUT, 5 * TOKENS_OUT)
    assert one.usd == pytest.approx(two.usd)
    assert one.usd is not None
    assert one.usd > 0
    assert [fact.summary for fact in lab.facts(e.BranchCandidate)] == ["a.txt says yes", "b.txt says yes"]


# --- side by side ----------------------------------------------------------------------------------------------------

WAYS = {"by the front": "a", "by the back": "b"}
"""Approach -> the criterion that its mind meets."""


def together() -> list[Rule]:
    """Two minds, neither of which is answered before both have asked. The one at the back also spoils what the other one makes."""
    asked = {approach: threading.Event() for approach in WAYS}

    def played(approach: str, prompt: str) -> Sequence[Act]:
        asked[approach].set()
        assert all(event.wait(120) for event in asked.values())
        first, *rest = working_on(WAYS[approach], prompt)
        spoils = (write("a.txt", "no\n"), run("git add -A && git commit -q -m 'spoilt'"))
        return (first, *(spoils if WAYS[approach] == "b" else ()), *rest)

    return [(re.escape(approach), lambda prompt, approach=approach: played(approach, prompt)) for approach in WAYS]


def answers(fact: e.BranchCandidate | e.ResidueGrafted) -> dict[str, str]:
    """What was found of our two criteria, of all that are checked."""
    return {one.criterion: one.met for one in fact.evidence if one.criterion in WAYS.values()}


def test_of_two_side_by_side_one_is_grafted_and_the_tested_part_of_the_other_on_top(lab: Lab) -> None:
    with model(together()) as server:
        installed("claude").settle(lab, server.url)
        words = [word for approach in WAYS for word in ("--approach", approach)]
        lab.run(GOAL, "--engine", "claude", "--minds", "2", *words, "--interval", "0", *met("a", "b"), code=0)
        lab.wait(seconds=200)
    target, branches = f"orchconverge/{BASIN}", (f"{BASIN}.1", f"{BASIN}.2")
    assert [fact.approach for fact in lab.facts(e.BranchSpawned)] == list(WAYS)
    assert len({fact.worktree for fact in lab.facts(e.BranchSpawned)}) == 2
    assert [(fact.exit, fact.error) for fact in lab.facts(e.BranchEnded)] == [(0, "")] * 2
    found = {fact.branch: fact for fact in lab.facts(e.BranchCandidate)}
    assert {name: (fact.commits, fact.summary) for name, fact in found.items()} == {
        branches[0]: (1, "a.txt says yes"),
        branches[1]: (2, "b.txt says yes"),
    }
    assert [answers(found[name]) for name in branches] == [{"a": "yes", "b": "no"}, {"a": "no", "b": "yes"}]
    [proposal], [grafted], [part] = lab.facts(e.ProposalMade), lab.facts(e.BranchGrafted), lab.facts(e.ResidueGrafted)
    assert proposal.graft == grafted.branch == branches[0]
    assert (part.branch, part.criterion, part.paths) == (branches[1], "b", ("b.txt",))
    assert answers(part) == {"a": "yes", "b": "yes"}
    [attempt] = lab.facts(e.AttemptEnded)
    assert (attempt.result, attempt.charged, set(attempt.criteria.values())) == ("success", True, {True})
    assert len(lab.facts(e.BasinConverged)) == 1
    assert lab.facts(e.RunStopped)[-1].reason == "converged"
    assert lab.git("rev-parse", target) == lab.git("rev-parse", target, cwd=lab.remote)
    assert len(lab.subjects(target)) == 3
    assert lab.subjects(target)[-1] == REPORT
    assert lab.git("diff", "--name-status", "main", f"{target}~1", cwd=lab.remote) == "A\ta.txt\nA\tb.txt"
    assert lab.git("show", f"{target}:a.txt", cwd=lab.remote) == "yes"
    [report] = lab.reports(target)
    assert all(name in lab.git("show", f"{target}:{report}", cwd=lab.remote) for name in branches)
    assert lab.git("status", "--porcelain") == ""
    assert lab.worktrees() == []


# --- sampled boundaries ----------------------------------------------------------------------------------------------

TOGETHER = os.environ.get("PYTEST_XDIST_TESTRUNUID")
"""Of a run of several processes: all of them have to draw the same."""
SEED = int(os.environ.get("ORCHCONVERGE_TEST_SEED") or random.Random(TOGETHER).randrange(10**6))
FACTS = range(2, 29)
"""From `run.started` to the last before `run.stopped` of two attempts in place."""
MIND_TO_COME = range(2, 16)
"""Up to the second `branch.spawned`."""
Victim = Literal["controller", "mind", "supervisor", "server"]


def sampled() -> list[tuple[Victim, int]]:
    """Three deaths of the controller and one of each other. Of a mind, those are drawn after which another one will run."""
    draw = random.Random(SEED)
    of_the_controller = draw.sample(FACTS, 3)
    return [
        *(("controller", number) for number in of_the_controller),
        ("mind", draw.choice(MIND_TO_COME)),
        ("supervisor", draw.choice(MIND_TO_COME)),
        ("server", draw.choice(FACTS)),
    ]


@pytest.mark.parametrize(("victim", "number"), sampled(), ids=[f"{v}-{n}-seed-{SEED}" for v, n in sampled()])
def test_killed_at_a_sampled_boundary_it_ends_the_same(ready: Lab, victim: Victim, number: int) -> None:
    lab = ready
    print(f"ORCHCONVERGE_TEST_SEED={SEED}: the {victim} dies after fact {number}")
    start(lab)
    lab.until(lambda: lab.lines().count(b"\n") >= number, seconds=120)
    before, server = lab.lines(), lab.server()
    if victim == "controller":
        kill(lab.controller())
        resumed = lab.run("--resume")
        assert resumed.returncode == 0 or "nothing to resume" in resumed.stderr
    elif victim == "server":
        assert server is not None
        kill(server)
    else:
        kill(lab.until(lambda: living(lab), seconds=120)["agent" if victim == "mind" else "pid"])
    lab.wait(seconds=200)
    assert lab.lines().startswith(before)
    same_end(lab)


def living(lab: Lab) -> dict[str, int]:
    """The record of the newest mind, if it runs, else an empty one."""
    for fact in lab.facts(e.BranchSpawned)[-1:]:
        found = lab.record(f"minds/{fact.branch}")
        if found is not None and found["agent"] and lab.record(f"minds/{fact.branch}", "exit.json") is None:
            return found
    return {}
