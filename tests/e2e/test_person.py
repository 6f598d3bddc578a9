"""What is asked of a person and what a person says: refusals at the start, consent, acceptance, waiting, Control + C."""

from __future__ import annotations

import signal
import subprocess
import time

import pytest

from orchconverge.core import events as e
from tests.e2e.lab import COMMAND, Lab, kill, meets, met, mind

pytestmark = pytest.mark.tmux

FLAGGED = {"write": {"path": ".github/workflows/ci.yml", "text": "on: push\n"}}
"""A change that no mind makes unseen."""


# --- refused at the start --------------------------------------------------------------------------------------------


def test_a_judge_that_is_told_nothing_is_refused(lab: Lab) -> None:
    words = (*met("a"), "--criterion", "judge")
    refused = lab.play("a is there", lab.script(mind(*meets("a"))), *words, code=2)
    assert "a judge has to be told what must be true" in refused.stderr
    assert lab.kinds() == ()


def test_without_a_name_for_commits_nothing_starts(lab: Lab) -> None:
    (lab.home / ".gitconfig").write_text("[user]\n\tuseConfigOnly = true\n")
    refused = lab.play("a is there", lab.script(mind(*meets("a"))), *met("a"), code=2)
    assert "git config --global user.name" in refused.stderr
    assert "git config --global user.email" in refused.stderr
    assert lab.kinds() == ()


@pytest.mark.slow
def test_what_was_refused_at_its_start_hides_no_other_goal(lab: Lab) -> None:
    lab.play("a is there", lab.script(mind(*meets("a"))), *met("a"), "--foreground")
    lab.play("it is there", lab.script(mind(*meets("a"))), "--criterion", "true=true", code=2)
    assert lab.run("--status").stdout.startswith('Goal: "a is there"')
    assert lab.wait(code=0).stdout.startswith('Goal: "a is there"')
    assert "Waits For: nothing, refused at the start" in lab.run("status", "it-is-there", "--verbose").stdout


# --- resume ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_resume_has_a_stop_condition_and_can_raise_a_budget(lab: Lab) -> None:
    usage = {"usage": {"inputTokens": 100, "outputTokens": 1}}
    script = lab.script(mind(usage, {"say": "no"}, attempt=1), mind(*meets("a"), attempt=2))
    lab.play("a is there", script, *met("a"), "--tokens", "50", "--foreground", code=3)
    assert "--tokens 100" in lab.run("--status", "--verbose").stdout
    assert "--tokens N" in lab.run("--resume", code=2).stderr
    endless = lab.run("--resume", "--max-attempts", "0", "--max-hours", "0", code=2)
    assert "stop condition" in endless.stderr
    lab.run("--resume", "--tokens", "5000", "--foreground", code=0)
    assert [fact.limits.tokens for fact in lab.facts(e.RunStarted)] == [50, 5000]


def test_a_mind_cannot_open_the_environment_for_later_ones(lab: Lab) -> None:
    """S4: a name in a settings file that a mind committed needs a person's consent, also where a run is resumed."""
    lab.git("switch", "-q", "-c", "topic")
    theirs = "printf 'env = [\"SECRET\"]\\n' > orchconverge.toml; git add -A; git commit -q -m settings"
    loud = f"echo secret=${{SECRET-none}} >> {lab.root}/seen; {theirs}"
    argv = f"sh {lab.root / 'mind.sh'}"
    (lab.root / "mind.sh").write_text(loud)
    words = ("never done", "--engine", "command", "--argv", argv, "--interval", "0", "--max-attempts", "2")
    lab.run(*words, *met("a"), "--final", "none", "--may-change", "**", env={"SECRET": "s3cret"}, code=0)
    lab.wait(code=3)
    refused = lab.run("--resume", "--max-attempts", "3", env={"SECRET": "s3cret"}, code=5)
    assert "orchconverge.toml of this repository sets env: SECRET" in refused.stderr
    assert (lab.root / "seen").read_text() == "secret=none\n" * 2


def test_names_that_a_person_gave_are_recorded_and_reach_a_resumed_run(lab: Lab) -> None:
    (lab.root / "mind.sh").write_text(f"echo secret=${{SECRET-none}} >> {lab.root}/seen")
    argv = f"sh {lab.root / 'mind.sh'}"
    words = ("never done", "--engine", "command", "--argv", argv, "--interval", "0", "--max-attempts", "1")
    secret = {"SECRET": "s3cret"}
    lab.run(*words, *met("a"), "--final", "none", env={**secret, "ORCHCONVERGE_ENV": "SECRET"}, code=0)
    lab.wait(code=3)
    lab.run("--resume", "--max-attempts", "2", env=secret, code=0)
    lab.wait(code=3)
    assert (lab.root / "seen").read_text() == "secret=s3cret\n" * 2
    assert [fact.settings.env for fact in lab.facts(e.RunStarted)] == [("SECRET",)] * 2
    assert b"s3cret" not in lab.lines()


def test_a_flagged_success_is_taken_only_by_saying_so(lab: Lab) -> None:
    lab.git("switch", "-q", "-c", "topic")
    lab.play("a is there", lab.script(mind(FLAGGED, *meets("a"))), *met("a"), "--final", "none", "--foreground", code=5)
    asked = lab.run("--resume", code=5)
    assert "flagged" in asked.stderr
    assert "orchconverge resume a-is-there --accept" in asked.stderr
    assert "Take or mend a-is-there" in lab.run("--status", "--verbose").stdout
    assert len(lab.facts(e.RunStarted)) == 1
    lab.run("--resume", "--accept", "--foreground", code=0)
    [taken] = lab.facts(e.BasinAmended)
    assert taken.why.startswith("accepted: ")
    assert "flagged" in taken.why
    assert taken.writer == "cli"


# --- waiting ---------------------------------------------------------------------------------------------------------


def test_wait_ends_with_5_where_a_person_is_needed(lab: Lab) -> None:
    lab.git("switch", "-q", "-c", "topic")
    lab.play("never done", lab.script(mind({"sleep": 1}, {"say": "nothing"})), *met("a"))
    lab.fact(e.BranchSearching)
    lab.git("switch", "-q", "main")
    lab.wait(code=5)
    assert lab.facts(e.RunWaiting)[-1].reason == "branch"
    lab.run("--stop", code=0)


@pytest.mark.slow
def test_wait_says_what_it_waits_for(lab: Lab) -> None:
    script = lab.script(mind({"hang": True}))
    lab.play("first", script, *met("a"))
    lab.play("second", script, *met("a"))
    lab.fact(e.BranchSearching, 2)
    said = lab.run("wait", "--timeout", "0.3", code=124).stderr.splitlines()
    assert said[0] == "Waits for second; also open: first."
    assert said[1].startswith("second is not over after 0.3 s. It waits for attempt 1 ends")
    assert len(said) == 2
    kill(lab.controller())
    lost = lab.run("wait", "second", code=5)
    assert "The controller of second is gone" in lost.stderr
    lab.run("--stop", "--all", "--cleanup", code=0)


@pytest.mark.slow
def test_the_log_of_a_goal_is_its_own(lab: Lab) -> None:
    for goal in ("first", "second"):
        lab.play(goal, lab.script(mind(*meets(goal))), *met(goal), "--foreground")
    lines = lab.run("logs", "first", code=0).stdout.splitlines()
    assert lines
    assert all(line.split(" ")[2] == "first:" for line in lines)
    assert "second: " in lab.run("logs", code=0).stdout


# --- Control + C -----------------------------------------------------------------------------------------------------


def test_an_interrupt_of_the_starting_command_ends_it_and_not_the_run(lab: Lab) -> None:
    script = lab.script(mind({"hang": True}))
    words = ["never done", "--engine", "scripted", "--script", str(script), "--criterion", "a=sleep 3; test -f a.txt"]
    with subprocess.Popen([*COMMAND, *words], cwd=lab.repo, env=lab.env, stdout=subprocess.PIPE) as ran:
        lab.fact(e.RunStarted)
        ran.send_signal(signal.SIGINT)
        begun = time.monotonic()
        assert ran.wait(10) == 130
        assert time.monotonic() - begun < 2
    assert lab.state().open_runs
    lab.run("--stop", "--cleanup", code=0)


def test_a_second_interrupt_ends_the_mind_at_once(lab: Lab) -> None:
    deaf = "trap '' TERM INT HUP; touch $PWD/../../../../deaf; while :; do sleep 1; done"
    (lab.root / "mind.sh").write_text(deaf.replace("$PWD/../../../..", str(lab.root)))
    words = ["never done", "--engine", "command", "--argv", f"sh {lab.root / 'mind.sh'}", "--foreground", *met("a")]
    with subprocess.Popen([*COMMAND, *words], cwd=lab.repo, env=lab.env, stderr=subprocess.PIPE, text=True) as ran:
        lab.until((lab.root / "deaf").exists)
        ran.send_signal(signal.SIGINT)
        lab.fact(e.RunStopRequested)
        begun = time.monotonic()
        ran.send_signal(signal.SIGINT)
        _, said = ran.communicate(timeout=10)
        assert ran.returncode == 130
        assert time.monotonic() - begun < 3
    assert "stopping: waits up to 5 s for the mind; again ends it now" in said
    assert "ending it now" in said
    lab.run("--stop", "--cleanup", code=0)
