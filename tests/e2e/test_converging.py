"""Work convergence through the whole product: what moves and closes nothing is denied, and every surface says so."""

from __future__ import annotations

import json

from orchconverge.core import events as e
from tests.e2e.lab import Lab, meets, met, mind

DENIED = "work_convergence_unsatisfied"


def test_minds_that_close_nothing_end_the_run_unsatisfied(lab: Lab) -> None:
    """Two attempts on the ground, two on the only rung that a worktree and one engine have, then it is over."""
    lab.env |= {"ORCHCONVERGE_CONVERGENCE_REFUSALS": "1", "ORCHCONVERGE_STALL_AFTER": "9"}
    stray = [{"write": {"path": "other.txt", "text": "x\n"}}, {"commit": "beside the point"}]
    script = lab.script(mind(*stray, attempt=1), mind())
    asked = ("--engine", "scripted", "--script", script, "--interval", "0", "--max-attempts", "20", "--worktree")
    lab.run("a says yes", *asked, "--final", "none", "--foreground", *met("a"), code=4)
    ends = lab.facts(e.AttemptEnded)
    assert [fact.decision for fact in ends][-1] == "UNSATISFIED"
    assert len(ends) < 8
    assert lab.facts(e.RunStopped)[-1].reason == "unsatisfied"
    last = ends[-1].workConvergence
    assert last["work_convergence_error"] == DENIED
    assert last["work_convergence_source"] == "work_convergence"
    assert last["admission"] == "between"
    assert "Admission: denied to go on" in lab.run("status", "--verbose").stdout
    shown = json.loads(lab.run("status", "--json").stdout)
    assert DENIED in json.dumps(shown)
    traced = lab.run("trace", "--attempt", str(len(ends)), "--json", code=0).stdout
    assert DENIED in traced
    assert str(lab.root) not in traced


def test_a_first_attempt_that_meets_it_is_finished_without_another_turn(lab: Lab) -> None:
    lab.play("a says yes", lab.script(mind(*meets("a"))), *met("a"))
    lab.wait()
    [ended] = lab.facts(e.AttemptEnded)
    assert ended.workConvergence["work_convergence_action"] == "finalize_without_provider_turn"
    assert ended.workConvergence["work_convergence_error"] is None


def test_a_mind_that_spends_more_than_its_share_is_ended_and_charged(lab: Lab) -> None:
    """It would hang for an hour: what it says that it used is read while it runs."""
    script = lab.script(mind({"usage": {"inputTokens": 5000}}, {"hang": True}))
    asked = ("--engine", "scripted", "--script", script, "--interval", "0", "--max-attempts", "3", "--worktree")
    lab.run("a says yes", *asked, "--tokens", "1000", "--final", "none", "--foreground", *met("a"), code=3)
    [gone] = lab.facts(e.BranchEnded)
    assert (gone.reason, gone.calls.overspent) == ("budget", True)
    [ended] = lab.facts(e.AttemptEnded)
    assert (ended.charged, ended.result, ended.decision) == (True, "no_progress", "BUDGET_LIMIT")
    assert "its share of the budget" in ended.text
    assert lab.processes() == {}
