"""What is judged: clean trees at known commits, whose work it is, and what a stop or a person in between changes."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

import pytest

from orchconverge.core import events as e
from orchconverge.core.export import export
from tests.e2e.lab import Lab, meets, met, mind

pytestmark = pytest.mark.tmux

PLACES = pytest.mark.parametrize("place", ["here", "fresh"])


def placed(lab: Lab, place: str) -> str:
    """Go where a run works in place, or stay where it works in worktrees; the target branch of a goal called `goal`."""
    if place == "here":
        lab.git("switch", "-q", "-c", "topic")
    return "topic" if place == "here" else "orchconverge/goal"


def test_what_one_criterion_changes_is_not_there_for_the_next(lab: Lab) -> None:
    (lab.repo / "done.txt").write_text("no\n")
    lab.git("add", "-A")
    lab.git("commit", "-q", "-m", "not done")
    script = lab.script(mind(*meets("other")))
    changes = ("--criterion", "first=echo yes > done.txt && test -f other.txt", *met("done"))
    lab.play("goal", script, *changes, "--max-attempts", "1")
    lab.wait(code=3)
    [ended] = lab.facts(e.AttemptEnded)
    assert ended.criteria["first"]
    assert not ended.criteria["done"]


def test_a_file_that_a_person_saves_while_a_check_runs_decides_nothing(lab: Lab) -> None:
    placed(lab, "here")
    (lab.repo / "done.txt").write_text("no\n")
    lab.git("add", "-A")
    lab.git("commit", "-q", "-m", "not done")
    begun, go = lab.root / "begun", lab.root / "go"
    check = lab.root / "check.sh"
    slow = f"test -f other.txt && touch {begun} && until test -e {go}; do sleep 0.02; done"
    check.write_text(f"#!/bin/sh\n{slow}\ngrep -q yes done.txt\n")
    check.chmod(0o755)
    script = lab.script(mind(*meets("other")))
    lab.play("goal", script, "--criterion", f"done={shlex.quote(str(check))}", "--max-attempts", "1")
    lab.until(begun.exists)
    (lab.repo / "done.txt").write_text("yes\n")
    go.touch()
    lab.wait(code=3)
    [ended] = lab.facts(e.AttemptEnded)
    assert not ended.criteria["done"]
    assert ended.evidence[0].place == "fresh"
    assert lab.git("status", "--porcelain") == " M done.txt"


def held_push(lab: Lab) -> tuple[Path, Path]:
    """Make the remote hold every push: a file that is there once one began, and one that lets it go on."""
    begun, go = lab.root / "begun", lab.root / "go"
    hook = lab.remote / "hooks" / "pre-receive"
    hook.write_text(f"#!/bin/sh\ntouch {begun}\nuntil test -e {go}; do sleep 0.02; done\n")
    hook.chmod(0o755)
    return begun, go


@pytest.mark.slow
@PLACES
def test_a_push_that_was_stopped_is_made_after_the_resume(lab: Lab, place: str) -> None:
    branch = placed(lab, place)
    begun, go = held_push(lab)
    lab.play("goal", lab.script(mind(*meets("a"))), *met("a"))
    lab.until(begun.exists)
    lab.run("--stop", code=0)
    go.touch()
    lab.run("--resume", code=0)
    lab.wait()
    pushl = next(fact for fact in lab.facts(e.StepEnded) if fact.step == "pushl")
    assert pushl.status == "done", pushl
    assert lab.git("rev-parse", branch) == lab.git("rev-parse", branch, cwd=lab.remote)


@pytest.mark.slow
def test_what_a_person_commits_before_a_resume_is_judged_before_it_counts(lab: Lab) -> None:
    branch = placed(lab, "here")
    begun, go = held_push(lab)
    lab.play("goal", lab.script(mind(*meets("a"))), *met("a"))
    lab.until(begun.exists)
    lab.run("--stop", code=0)
    (lab.repo / "a.txt").write_text("broken\n")
    lab.git("commit", "-q", "-am", "broken by a person")
    go.touch()
    lab.run("--resume", code=0)
    lab.wait()
    converged = lab.facts(e.BasinConverged)
    checked = [fact for fact in lab.facts(e.BasinChecked) if fact.results[0].met == "no"]
    assert len(converged) == 1
    assert any(lab.git("log", "-1", "--format=%s", fact.head) == "broken by a person" for fact in checked)
    assert lab.git("show", f"{branch}:a.txt", cwd=lab.remote) == "yes"


def test_a_persons_commit_is_named_and_never_credited_to_the_mind(lab: Lab) -> None:
    placed(lab, "here")
    go = lab.root / "go"
    program = lab.program(f"import pathlib, time\nwhile not pathlib.Path({str(go)!r}).exists(): time.sleep(0.02)\n")
    words = ("--engine", "command", "--argv", program, "--interval", "0", "--max-attempts", "1")
    lab.run("goal", *words, *met("a"), code=0)
    lab.fact(e.BranchSearching)
    (lab.repo / "b.txt").write_text("mine\n")
    lab.git("add", "-A")
    lab.git("commit", "-q", "-m", "my own work")
    go.touch()
    lab.wait(code=5)
    [ended] = lab.facts(e.AttemptEnded)
    assert not lab.facts(e.BranchCandidate)
    assert (ended.charged, ended.result, ended.decision) == (False, "interrupted", "BLOCKED")
    assert "my own work" in ended.text


def test_the_export_is_the_fold_while_a_mind_works(lab: Lab) -> None:
    lab.play("goal", lab.script(mind({"hang": True})), *met("a"))
    lab.fact(e.BranchSearching)

    def quiet() -> bool:
        facts, state = lab.replayed()
        wanted = export(state, "goal", seq=facts[-1].seq)
        return bool(json.loads((lab.state_dir / "convergence_state.json").read_text()) == wanted)

    lab.until(quiet, seconds=5)
    lab.run("--stop", "--cleanup", code=0)
    lab.until(quiet, seconds=5)


@pytest.mark.slow
def test_a_stalled_run_goes_on_when_a_person_says_so(lab: Lab) -> None:
    env = {"ORCHCONVERGE_STALL_AFTER": "1"}
    lab.play("goal", lab.script(mind({"say": "nothing"})), *met("a"), env=env)
    lab.wait(code=4)
    before = len(lab.facts(e.AttemptStarted))
    lab.run("--resume", code=0, env=env)
    lab.wait(code=4)
    assert len(lab.facts(e.AttemptStarted)) > before


def test_a_configuration_that_a_mind_changed_before_a_stop_is_not_the_new_normal(lab: Lab) -> None:
    lab.keeps_worktrees = True
    canary = lab.root / "canary"
    config = shlex.quote(f"touch {canary}; cat")
    text = f"import subprocess, time\nsubprocess.run(['git', 'config', 'filter.x.clean', {config!r}])\ntime.sleep(60)\n"
    lab.run("goal", "--engine", "command", "--argv", lab.program(text), "--interval", "0", *met("a"), code=0)
    lab.fact(e.BranchSearching)
    lab.until(lambda: "canary" in Path(lab.repo, ".git", "config").read_text())
    lab.run("--stop", code=0)
    lab.run("--resume", code=0)
    assert lab.fact(e.RunWaiting).reason == "tamper"
    assert not canary.exists()
    lab.run("--stop", code=0)


def test_a_second_wish_to_stop_gives_a_mind_no_time(lab: Lab) -> None:
    text = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('deaf', flush=True)\ntime.sleep(600)\n"
    lab.run("goal", "--engine", "command", "--argv", lab.program(text), "--interval", "0", *met("a"), code=0)
    lab.fact(e.BranchSearching)
    lab.until(lambda: "deaf" in lab.run("logs", "goal.1").stdout)
    lab.keeps_worktrees = True
    controller = lab.controller()
    os.kill(controller, 15)
    lab.fact(e.RunStopRequested)
    os.kill(controller, 15)
    ended = lab.fact(e.BranchEnded, seconds=3)
    assert ended.reason == "lost"
