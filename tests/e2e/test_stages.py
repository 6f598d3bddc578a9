"""Stages, thresholds, and pursuits that start from others, by the real command line."""

from __future__ import annotations

import json

import pytest

from orchconverge.core import events as e
from orchconverge.core.target import Stage
from orchconverge.core.values import Thresholds
from tests.e2e.lab import Lab, meets, met, mind

pytestmark = [pytest.mark.tmux, pytest.mark.slow]

TARGET = """
title = "Plan it"
macrostate = "the plan is there"
termination = "all criteria hold, or 3 attempts"
[[criteria]]
name = "done"
command = "grep -q yes done.txt"
[[stages]]
name = "spec"
output = "docs/spec.md"
[[stages]]
command = "commands/plan.md"
"""
COMMAND = "---\ndescription: Plan something\ninputs: [docs/spec.md]\noutput: docs/plan.md\n---\nPlan $ARGUMENTS\n"
SPEC = Stage(name="spec", output="docs/spec.md")
PLAN = Stage(name="plan", inputs=("docs/spec.md",), output="docs/plan.md")


def commanded(lab: Lab) -> None:
    """The repository has the command `/plan`, which declares a stage."""
    (lab.repo / "commands").mkdir()
    (lab.repo / "commands" / "plan.md").write_text(COMMAND)
    lab.git("add", "-A")
    lab.git("commit", "-q", "-m", "a command")


def brief(lab: Lab, number: int = 0) -> str:
    """What the mind of the ``number``-th spawn was told."""
    name = lab.facts(e.BranchSpawned)[number].gitBranch.removeprefix("orchconverge/")
    return (lab.minds / "given" / name / "brief.md").read_text()


def test_a_target_file_declares_stages_which_are_amended_as_other_parts_of_it(lab: Lab) -> None:
    commanded(lab)
    (lab.repo / "t.toml").write_text(TARGET)
    (lab.repo / "sub").mkdir()
    said = lab.run("declare", "--target", "../t.toml", cwd=lab.repo / "sub", code=0).stdout.splitlines()
    assert [line for line in said if line.startswith("Stage: ")] == [
        "Stage: spec writes docs/spec.md",
        "Stage: plan reads docs/spec.md, writes docs/plan.md",
    ]
    [declared] = lab.facts(e.BasinDeclared)
    assert declared.stages == (SPEC, PLAN)
    amended = lab.run("amend", "plan-it", "--why", "the spec is there", "--stage", "commands/plan.md", code=0).stdout
    assert amended.splitlines()[:2] == ["plan-it is amended:", "  - stage spec writes docs/spec.md"]
    assert lab.state().basins["plan-it"].stages == (PLAN,)
    assert lab.state().basins["plan-it"].criteria == declared.criteria
    nothing = lab.run("amend", "plan-it", "--why", "again", "--stage", "commands/plan.md", code=2)
    assert "that changes nothing of plan-it" in nothing.stderr
    twice = lab.run("amend", "plan-it", "--why", "x", *("--stage", "commands/plan.md") * 2, code=2)
    assert "two stages are called plan" in twice.stderr
    lab.run("amend", "plan-it", "--why", "free", "--no-stages", code=0)
    assert lab.state().basins["plan-it"].stages == ()
    both = lab.run("amend", "plan-it", "--why", "x", "--no-stages", "--stage", "commands/plan.md", code=2)
    assert "were both given" in both.stderr
    assert len(lab.facts(e.BasinAmended)) == 2


def test_a_goal_that_begins_with_a_command_has_its_stage_and_a_resume_its_thresholds(lab: Lab) -> None:
    commanded(lab)
    (lab.repo / "orchconverge.toml").write_text("[convergence]\ntargets = 20\nrereads = 5\n")
    script = lab.script(mind({"hang": True}))
    words = ("--worktree", *met("a"), "--final", "none")
    first = lab.play("/plan build the login", script, *words, env={"ORCHCONVERGE_CONVERGENCE_REREADS": "7"})
    assert "Stage: plan reads docs/spec.md, writes docs/plan.md" in first.stdout.splitlines()
    lab.fact(e.BranchSearching)
    assert "- plan: reads `docs/spec.md`, writes `docs/plan.md`" in brief(lab)
    lab.run("--stop", code=0)
    (lab.repo / "orchconverge.toml").unlink()
    lab.script(mind(*meets("a")))
    lab.run("--resume", "--foreground", code=0)
    [declared] = lab.facts(e.BasinDeclared)
    assert (declared.goal, declared.stages) == ("/plan build the login", (PLAN,))
    assert [run.settings.thresholds for run in lab.facts(e.RunStarted)] == [Thresholds(targets=20, rereads=7)] * 2


def test_a_command_whose_stage_cannot_be_starts_nothing(lab: Lab) -> None:
    commanded(lab)
    (lab.repo / "commands" / "plan.md").write_text(COMMAND.replace("docs/plan.md", "/etc/plan.md"))
    refused = lab.run("/plan it", "--engine", "scripted", "--script", lab.script(mind()), *met("a"), code=2)
    assert "the stage plan: output: " in refused.stderr
    assert "output: docs/plan.md" in refused.stderr
    assert lab.kinds() == ()


def test_a_goal_starts_from_what_another_pursuit_learned_and_left_open(lab: Lab) -> None:
    report = {"report": {"residue": [{"text": "tokens are opaque"}], "frontier": [{"question": "Do they rotate?"}]}}
    script = lab.script(mind(report, *meets("a")), mind(*meets("b")))
    lab.play("a is there", script, "--worktree", *met("a"), "--final", "none", "--foreground")
    unknown = lab.run("declare", "b is there", *met("b"), "--from", "elsewhere", code=2)
    assert "there is no pursuit called elsewhere to start from" in unknown.stderr
    assert "there is: a-is-there" in unknown.stderr
    said = lab.run("declare", "c is there", *met("c"), "--from", "a-is-there", code=0).stdout
    assert "Starts From: a-is-there" in said.splitlines()
    script = lab.script(mind(*meets("b")))
    lab.play("b is there", script, "--worktree", *met("b"), "--final", "none", "--from", "a-is-there", "--foreground")
    told = brief(lab, -1)
    assert "# What was learned\n\n- tokens are opaque\n" in told
    assert "# Open questions\n\n- Do they rotate?\n" in told
    assert "a-is-there" not in told
    assert [fact.parents for fact in lab.facts(e.BasinDeclared)] == [(), ("a-is-there",), ("a-is-there",)]
    assert [fact.parents for fact in lab.facts(e.SessionOpened)] == [(), ("session-a-is-there",)]
    listed = lab.run("sessions", code=0).stdout.splitlines()
    assert listed[0].startswith("b-is-there  closed: met  1 attempt, forked from a-is-there")
    assert any(
        line.startswith("a-is-there  closed: met  1 attempt, forked into c-is-there, b-is-there") for line in listed
    )
    found = json.loads(lab.run("sessions", "--json", code=0).stdout)["sessions"]
    assert [(one["basin"], one["parents"], one["forks"]) for one in found] == [
        ("b-is-there", ["a-is-there"], []),
        ("a-is-there", [], ["c-is-there", "b-is-there"]),
    ]
