"""Admission inside a running mind, with the real agent CLIs: a model that reads for ever is constrained, then denied."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import pytest

from orchconverge.core import events as e
from tests.e2e.lab import Lab, met
from tests.tools.agents import installed
from tests.tools.scripted_model import Act, Model, Say, conversation, model, read, run, write

pytestmark = [pytest.mark.engines, pytest.mark.tmux, pytest.mark.timeout(400)]
GOAL = "the file a.txt says yes"
HOW = {"claude": "hooks", "codex": "hooks", "gemini": "hooks", "opencode": "hooks", "acp:claude": "acp", "mini": "pane"}
BUDGET = {"TARGETS": "2", "REREADS": "2", "REFUSALS": "2", "INSIDE": "1"}
THINKS = 0.7
"""Seconds before each call, as a model takes: refusals of calls that are made at once are one."""
REFUSED = "work convergence: refused"


class Reader:
    """A model that reads two files again and again; ``yields``: what it does once it is told that it may not."""

    def __init__(self, *, yields: bool) -> None:
        self.yields = yields
        self.server: Model | None = None
        self.told = 0
        """Requests that held a refusal."""
        self.turned: int | None = None
        """How many calls it had made when it turned."""

    def __call__(self, prompt: str) -> Sequence[Act]:
        assert self.server is not None
        refused = REFUSED in json.dumps(self.server.newest)
        self.told += refused
        _, done = conversation(self.server.newest)
        loop = [read("README.md", seconds=THINKS), read("notes.md", seconds=THINKS)] * 20
        if not (refused and self.yields):
            return loop
        report = re.search(r"^ +(/\S+/report\.json)$", prompt, re.MULTILINE)
        assert report, prompt
        word = json.dumps({"summary": "a.txt says yes", "residue": [], "verdict": None})
        ends = (
            write("a.txt", "yes\n"),
            write(report[1], word),
            run("git add -A && git commit -q -m 'a' -m 'Criterion: a'"),
            Say("done"),
        )
        self.turned = done if self.turned is None else self.turned
        return [*loop[: self.turned], *ends]


def drive(lab: Lab, name: str, reader: Reader, *, code: int) -> None:
    """One attempt with this agent and this model."""
    (lab.repo / "notes.md").write_text("notes\n")
    lab.git("add", "-A")
    lab.git("commit", "-q", "-m", "notes")
    lab.git("switch", "-q", "-c", "topic")
    lab.env |= {f"ORCHCONVERGE_CONVERGENCE_{key}": value for key, value in BUDGET.items()}
    with model([("- a: not met", reader)]) as server:
        reader.server = server
        agent = installed(name)
        agent.settle(lab, server.url)
        asked = (GOAL, "--engine", agent.spec, "--max-attempts", "1", "--final", "none", "--foreground", *met("a"))
        lab.run(*asked, code=code, seconds=300)


@pytest.mark.parametrize("name", HOW)
def test_who_reads_for_ever_is_constrained_then_denied_within_the_budget(lab: Lab, name: str) -> None:
    reader = Reader(yields=False)
    drive(lab, name, reader, code=3)
    [gone] = lab.facts(e.BranchEnded)
    [ended] = lab.facts(e.AttemptEnded)
    found = ended.workConvergence
    assert (gone.calls.how, found["admission"]) == (HOW[name], HOW[name])
    assert gone.calls.denied
    assert found["work_convergence_error"] == "work_convergence_unsatisfied"
    assert found["work_convergence_action"] == "deny_ordinary_continuation"
    assert ended.charged
    assert ended.result == "no_progress"
    if HOW[name] != "pane":
        # 2 new ones and 2 again; 2 refusals, the denial, and 2 more chances to end by itself.
        assert (gone.calls.asked - gone.calls.refused, gone.calls.refused) == (2 + 2, 2 + 1 + 2)
        assert reader.told >= 2, "the reason of a refusal is in the model's next request"
    assert lab.processes() == {}


@pytest.mark.parametrize("name", [name for name in HOW if HOW[name] != "pane"])
def test_who_writes_once_it_is_refused_converges(lab: Lab, name: str) -> None:
    reader = Reader(yields=True)
    drive(lab, name, reader, code=0)
    [gone] = lab.facts(e.BranchEnded)
    [ended] = lab.facts(e.AttemptEnded)
    assert (gone.calls.how, gone.calls.denied) == (HOW[name], False)
    assert gone.calls.refused >= 1
    assert (ended.result, ended.decision) == ("success", "SUCCESS")
    assert ended.workConvergence["work_convergence_state"] == "satisfied"
    assert ended.workConvergence["work_convergence_action"] == "finalize_without_provider_turn"
    assert ended.workConvergence["refused"] == gone.calls.refused
