"""Whole runs through the real command line, with engines that need no model."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from orchconverge.core import events as e
from orchconverge.core.export import export
from tests.e2e.lab import COMMAND, Lab, kill, meets, met, mind

pytestmark = pytest.mark.tmux

BLOCK = (
    r'Goal: "(?P<goal>.*)"',
    r"Status: (?P<status>RUNNING|CONVERGED|LIMIT|STOPPED|FINALIZING) \(attempt \d+/(?:\d+|no limit)\)",
    r"Elapsed: (?:\d+h )?(?:\d+m )?\d*s? ?/ \d+h \d\dm",
    r"Progress: (?P<progress>\d+)% success criteria met",
    r"Last Result: .+",
    r"Tmux Session: (?P<session>.+)",
    r"Next Attempt: .+",
)
"""The seed's seven lines (C269-C275)."""
SLOW = {"sleep": 0.7}
"""An act that leaves time to look at a run while it runs."""


def block(text: str) -> dict[str, str]:
    """What the first seven lines say; they have to be the seed's."""
    found: dict[str, str] = {}
    for line, shape in zip(text.split("\n"), BLOCK, strict=False):
        matched = re.fullmatch(shape, line)
        assert matched, f"{line!r} is not {shape}"
        found |= matched.groupdict()
    return found


def pushed_with_report(lab: Lab, branch: str, basin: str, *subjects: str) -> None:
    """The remote has these commits and, last and alone, the report; the local branch stands there too."""
    assert lab.subjects(branch) == [*subjects, f"docs: convergence report of {basin}"]
    [report] = lab.reports(branch)
    assert re.fullmatch(rf"docs/convergence-reports/{re.escape(branch.replace('/', '-'))}-\d+\.md", report)
    assert lab.git("diff", "--name-only", f"{branch}~1", branch, cwd=lab.remote) == report
    assert lab.git("rev-parse", branch) == lab.git("rev-parse", branch, cwd=lab.remote)
    assert basin in lab.git("show", f"{branch}:{report}", cwd=lab.remote)


def exported(lab: Lab, basin: str) -> None:
    """Both exports are what the fold says."""
    facts, state = lab.replayed()
    wanted = export(state, basin, seq=facts[-1].seq)
    for path in (lab.state_dir, lab.state_dir / "basins" / basin):
        assert json.loads((path / "convergence_state.json").read_text()) == wanted


# --- the main job ----------------------------------------------------------------------------------------------------


def test_on_the_default_branch_a_goal_converges_in_worktrees_on_a_branch_of_its_own(lab: Lab) -> None:
    script = lab.script(mind(SLOW, *meets("a"), SLOW, attempt=1), mind(*meets("b"), attempt=2))
    said = lab.play("both files", script, *met("a", "b"))
    found = block(said.stdout)
    assert (found["goal"], found["status"]) == ("both files", "RUNNING")
    assert re.fullmatch(r"convergence-orchconverge-both-files-\d+", found["session"])
    attach = next(line for line in said.stdout.split("\n") if line.startswith("Attach: "))
    words = shlex.split(attach.removeprefix("Attach: "))
    assert words[3:5] == ["attach", "-t"]
    elsewhere = {**lab.env, "TMUX_TMPDIR": "/nowhere"}
    subprocess.run([*words[:3], "has-session", *words[4:]], env=elsewhere, check=True)
    assert lab.run("attach", "--print").stdout.strip() == attach.removeprefix("Attach: ")
    ended = block(lab.wait().stdout)
    assert (ended["status"], ended["progress"]) == ("CONVERGED", "100")
    pushed_with_report(
        lab, "orchconverge/both-files", "both-files", "both files (both-files.1)", "both files (both-files.2)"
    )
    assert lab.git("status", "--porcelain", "--branch") == "## main...origin/main"
    assert lab.git("rev-parse", "main") == lab.git("rev-parse", "main", cwd=lab.remote)
    assert lab.worktrees() == []
    exported(lab, "both-files")


def test_on_a_feature_branch_a_goal_converges_in_place(lab: Lab) -> None:
    lab.git("switch", "-q", "-c", "topic")
    script = lab.script(mind(*meets("a"), attempt=1), mind(*meets("b"), attempt=2))
    said = lab.play("both files", script, *met("a", "b"))
    assert "in this directory, on topic" in said.stdout
    assert block(said.stdout)["session"].startswith("convergence-topic-")
    lab.wait()
    pushed_with_report(lab, "topic", "both-files", "a", "b")
    assert lab.git("status", "--porcelain", "--branch") == "## topic"
    assert all(fact.place == "here" for fact in lab.facts(e.BranchSpawned))
    assert all(fact.admitted for fact in lab.facts(e.BranchCandidate))
    exported(lab, "both-files")


def test_in_the_foreground_the_command_ends_with_the_run(lab: Lab) -> None:
    said = lab.play("a is there", lab.script(mind(*meets("a"))), *met("a"), "--foreground")
    assert block(said.stdout)["status"] == "CONVERGED"
    assert "attempt.ended" in said.stderr
    assert lab.sessions() == []
    pushed_with_report(lab, "orchconverge/a-is-there", "a-is-there", "a is there (a-is-there.1)")


def test_status_says_how_it_stands_in_every_form_and_changes_nothing(lab: Lab) -> None:
    assert "No destination" in lab.run("--status", code=0).stdout
    assert not lab.state_dir.exists()
    lab.play("a is there", lab.script(mind({"sleep": 5}, *meets("a"))), *met("a"))
    lab.fact(e.BranchSearching)
    before = lab.lines()
    running: dict[str, Any] = json.loads(lab.run("--status", "--json", code=0).stdout)
    assert block(lab.run("--status", code=0).stdout)["status"] == "RUNNING"
    verbose = lab.run("--status", "--verbose", code=0).stdout
    assert block(verbose)["status"] == "RUNNING"
    for label in ("Needs You: nothing", "Criteria: ", "Controller: alive", "Minds: 1 running", "Attach: tmux -S"):
        assert label in verbose
    assert lab.run("status", "--line", code=0).stdout.strip()
    assert lab.run("--status", "--exit-code").returncode == 1
    assert lab.lines() == before
    lab.wait()
    over: dict[str, Any] = json.loads(lab.run("status", "a-is-there", "--json", code=0).stdout)
    assert [found["basins"][0]["status"].split()[0] for found in (running, over)] == ["RUNNING", "CONVERGED"]
    assert lab.run("--status", "--exit-code").returncode == 0
    assert lab.run("status", "nobody").returncode == 2


def test_wait_gives_up_when_told_to_and_says_when_there_is_nothing(lab: Lab) -> None:
    assert lab.run("wait").returncode == 2
    lab.play("a is there", lab.script(mind({"sleep": 2}, *meets("a"))), *met("a"))
    assert lab.run("wait", "--timeout", "0.3").returncode == 124
    assert lab.wait().returncode == 0


# --- stop and resume -------------------------------------------------------------------------------------------------

STUBBORN = """
import os, signal, sys, time
from pathlib import Path

def deaf():
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)

def hang(name):
    Path(sys.argv[1], name).touch()
    while True:
        time.sleep(60)

deaf()
if os.fork() == 0:
    hang("child")
if os.fork() == 0:  # one that leaves the session and the parent
    os.setsid()
    if os.fork() == 0:
        hang("orphan")
    os._exit(0)
hang("mind")
"""


@pytest.mark.parametrize("cleanup", [False, True])
def test_stop_leaves_nothing_of_a_mind_that_ignores_every_signal(lab: Lab, cleanup: bool) -> None:
    argv = f"{lab.program(STUBBORN)} {lab.tmp}"
    lab.run("never done", "--engine", "command", "--argv", argv, *met("a"), code=0)
    lab.until(lambda: all((lab.tmp / name).exists() for name in ("mind", "child", "orphan")))
    begun = time.monotonic()
    lab.run("--stop", *(["--cleanup"] if cleanup else []), code=0)
    took = time.monotonic() - begun
    assert lab.processes() == {}
    assert took < 10
    assert [fact.reason for fact in lab.facts(e.RunStopped)] == ["stopped"]
    assert lab.server() is None
    assert (lab.worktrees() == []) == cleanup
    assert (lab.state_dir / "logs" / "system.log").exists()
    assert block(lab.run("--status").stdout)["status"] == "STOPPED"
    assert lab.run("--stop").stdout.strip() == "Nothing runs."
    lab.keeps_worktrees = not cleanup


def test_cleanup_keeps_what_a_mind_committed_and_what_it_did_not(lab: Lab) -> None:
    draft = {"write": {"path": "draft.txt", "text": "half"}}
    lab.play("never done", lab.script(mind(*meets("a"), draft, {"hang": True})), *met("a", "b"))
    tree = lab.fact(e.BranchSpawned).worktree
    lab.until(Path(tree, "draft.txt").exists)
    lab.run("--stop", "--cleanup", code=0)
    refs = lab.git("for-each-ref", "--format=%(refname)", "refs/orchconverge/keep").split("\n")
    assert len(refs) == 2
    kept = {path for ref in refs for path in lab.git("ls-tree", "-r", "--name-only", ref).split("\n")}
    assert {"a.txt", "draft.txt"} <= kept
    assert lab.ledger.exists()


@pytest.mark.parametrize("place", ["fresh", "here"])
def test_a_stopped_run_is_resumed_with_what_its_mind_had_committed(lab: Lab, place: str) -> None:
    if place == "here":
        lab.git("switch", "-q", "-c", "topic")
    script = lab.script(mind(*meets("a"), {"say": "ready"}, {"hang": True}, attempt=1), mind(*meets("b"), attempt=2))
    lab.play("both files", script, *met("a", "b"))
    branch = lab.fact(e.BranchSpawned)
    lab.until(lambda: b"ready" in (lab.minds / "minds" / branch.branch / "log.head").read_bytes())
    lab.run("--stop", code=0)
    assert lab.processes() == {}
    assert lab.run("wait").returncode == 1
    lab.run("--resume", code=0)
    lab.wait()
    assert [(fact.attempt, fact.criteria["a"], fact.criteria["b"]) for fact in lab.facts(e.AttemptEnded)] == [
        (1, True, False),
        (2, True, True),
    ]
    assert lab.starts() == {"both-files.1": 1, "both-files.2": 1}


@pytest.mark.slow
def test_a_run_whose_controller_is_gone_is_said_to_be_and_can_be_stopped(lab: Lab) -> None:
    lab.play("never done", lab.script(mind({"hang": True})), *met("a"))
    lab.fact(e.BranchSearching)
    kill(lab.controller())
    assert "--resume" in lab.run("wait").stderr
    assert "Controller: gone" in lab.run("--status", "--verbose", code=0).stdout
    lab.run("--stop", "--cleanup", code=0)
    assert lab.processes() == {}
    assert [fact.reason for fact in lab.facts(e.BranchEnded)] == ["killed"]
    assert [fact.reason for fact in lab.facts(e.RunStopped)] == ["stopped"]


def test_an_interrupt_in_the_foreground_stops_the_run(lab: Lab) -> None:
    script = lab.script(mind({"hang": True}))
    words = ["never done", "--engine", "scripted", "--script", str(script), "--foreground", *met("a")]
    with subprocess.Popen([*COMMAND, *words], cwd=lab.repo, env=lab.env) as ran:
        lab.fact(e.BranchSearching)
        ran.send_signal(signal.SIGINT)
        assert ran.wait(10) == 130
    assert lab.processes() == {}
    assert [fact.reason for fact in lab.facts(e.RunStopped)] == ["stopped"]
    lab.run("--stop", "--cleanup", code=0)


# --- limits and exit codes -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_at_the_attempt_limit_it_ends_with_partial_results_and_goes_on_with_a_higher_one(lab: Lab) -> None:
    script = lab.script(mind(*meets("a"), attempt=1), mind(*meets("b"), attempt=2))
    lab.play("both files", script, *met("a", "b"), "--max-attempts", "1")
    assert block(lab.wait(code=3).stdout)["status"] == "LIMIT"
    assert [fact.decision for fact in lab.facts(e.AttemptEnded)] == ["ATTEMPT_LIMIT"]
    pushed_with_report(lab, "orchconverge/both-files", "both-files", "both files (both-files.1)")
    assert lab.run("--status", "--exit-code").returncode == 3
    refused = lab.run("--resume", code=2)
    assert "--max-attempts" in refused.stderr
    lab.run("--resume", "--max-attempts", "5", code=0)
    lab.wait(code=0)
    assert [fact.limits.attempts for fact in lab.facts(e.RunStarted)] == [1, 5]
    assert len(lab.reports("orchconverge/both-files")) == 2
    assert lab.subjects("orchconverge/both-files")[-1] == "docs: convergence report of both-files"


def test_the_time_limit_is_hard(lab: Lab) -> None:
    lab.play("never done", lab.script(mind({"hang": True})), *met("a"), "--max-hours", "0.0004", "--foreground", code=3)
    assert [fact.reason for fact in lab.facts(e.BranchEnded)] == ["deadline"]
    assert lab.facts(e.AttemptEnded)[-1].decision == "TIME_LIMIT"


def test_without_progress_it_escalates_and_ends_as_stalled(lab: Lab) -> None:
    lab.play("never done", lab.script(mind({"say": "nothing"})), *met("a"), "--foreground", code=4)
    assert [fact.decision for fact in lab.facts(e.AttemptEnded)].count("STALLED") == 2
    assert {fact.strategy for fact in lab.facts(e.AttemptStarted)} == {"continue", "wider"}
    approaches = [fact.approach for fact in lab.facts(e.BranchSpawned)]
    assert len(set(approaches[:8])) == 8, "the shipped ones in turn, then again from the first"


def test_the_same_verdict_twice_waits_for_a_person(lab: Lab) -> None:
    verdict = {"report": {"summary": "no", "verdict": {"kind": "cannot", "text": "there is no such file"}}}
    lab.play("never done", lab.script(mind(verdict)), *met("a"), "--foreground", code=5)
    assert [fact.decision for fact in lab.facts(e.AttemptEnded)] == ["IN_PROGRESS", "BLOCKED"]
    assert lab.run("--status", "--exit-code").returncode == 5


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["  ", *met("a")], "blank"),
        (["a goal", "--criterion", "a=true"], "holds already"),
        (["a goal", *met("a"), "--here"], "default branch"),
        (["a goal", *met("a"), "--into", "nowhere"], "nowhere"),
        (["a goal", *met("a"), "--max-attempts", "0", "--max-hours", "0"], "stop condition"),
        (["a goal", *met("a"), "--max-attempts", "-1"], "--max-attempts"),
        (["a goal"], "--criterion"),
    ],
)
def test_what_cannot_be_started_is_refused_with_what_to_type(lab: Lab, words: list[str], said: str) -> None:
    script = lab.script(mind(*meets("a")))
    refused = lab.run(*words, "--engine", "scripted", "--script", script, code=2)
    assert said in refused.stderr
    assert len(refused.stderr.strip().split("\n")) == 2
    assert refused.stdout == ""
    assert lab.facts(e.BranchSpawned) == []


def test_a_dirty_tree_is_refused_in_place_and_worked_around_elsewhere(lab: Lab) -> None:
    script = lab.script(mind(*meets("a")))
    (lab.repo / "README.md").write_text("changed\n")
    lab.git("switch", "-q", "-c", "topic")
    refused = lab.play("a is there", script, *met("a"), code=2)
    assert "README.md" in refused.stderr
    assert "--worktree" in refused.stderr
    lab.git("switch", "-q", "main")
    lab.play("a is there", script, *met("a"), "--foreground")
    assert (lab.repo / "README.md").read_text() == "changed\n"
    assert lab.git("status", "--porcelain") == " M README.md"


# --- the seed's example command lines --------------------------------------------------------------------------------

TESTS = """import unittest, pathlib

class Sample(unittest.TestCase):
    def test_a(self):
        self.assertTrue(pathlib.Path("a.txt").exists())

    def test_b(self):
        self.assertTrue(pathlib.Path("b.txt").exists())
"""
EXAMPLES = (
    '/orchconverge "implement complete user authentication with OAuth, tests, and documentation" --max-attempts 15 --max-hours 4',
    '/orchconverge "fix all failing tests in the test suite and achieve 100% pass rate" --max-attempts 8 --interval 3',
    '/orchconverge "refactor legacy authentication code to use modern patterns while maintaining all functionality" --max-hours 6',
    '/orchconverge "implement auth system" --max-attempts 20 --max-hours 6 --interval 10',
)
"""C298-C301, as written in the seed."""


@pytest.mark.parametrize("line", EXAMPLES)
def test_the_seeds_examples_run_as_written(lab: Lab, line: str) -> None:
    (lab.repo / "tests").mkdir()
    (lab.repo / "tests" / "__init__.py").touch()
    (lab.repo / "tests" / "test_sample.py").write_text(TESTS)
    (lab.repo / ".gitignore").write_text("__pycache__/\n.pytest_cache/\n")
    lab.git("add", "-A")
    lab.git("commit", "-q", "-m", "tests that fail")
    lab.git("push", "-q")
    _, goal, *options = shlex.split(line)
    given = dict(zip(options[::2], options[1::2], strict=True))
    if "--interval" in given:  # no interval is waited for
        minds = [mind(*meets("a"), *meets("b"))]
    else:
        minds = [mind(*meets("a"), attempt=1), mind(*meets("b"), attempt=2)]
        options += ["--interval", "0"]
    lab.run(goal, *options, "--engine", "scripted", "--script", lab.script(*minds), code=0)
    lab.wait()
    run = lab.facts(e.RunStarted)[0]
    assert run.limits.attempts == int(given.get("--max-attempts", 10))
    assert run.limits.hours == float(given.get("--max-hours", 3))
    assert run.settings.interval == 60 * float(given.get("--interval", 0))
    assert run.settings.chain == ("pushl", "reviewdeep", "copilot", "report")
    assert [fact.step for fact in lab.facts(e.StepEnded)] == list(run.settings.chain)
    declared = lab.facts(e.BasinDeclared)[0]
    assert declared.goal == goal
    assert len(lab.facts(e.AttemptEnded)) == len(minds)
    assert lab.subjects(declared.target)[-1] == f"docs: convergence report of {declared.basin}"


# --- more than one ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_two_goals_at_once_in_one_repository_do_not_disturb_each_other(lab: Lab) -> None:
    script = lab.script(mind({"sleep": 5}, *meets("a")))
    other = lab.script(mind({"sleep": 5}, *meets("b")), name="other.json")
    lab.play("first goal", script, *met("a"))
    lab.play("second goal", other, *met("b"))
    assert "1 more" in lab.run("--status").stdout
    assert lab.run("--stop").returncode == 2  # which one?
    lab.wait("first-goal")
    lab.wait("second-goal")
    pushed_with_report(lab, "orchconverge/first-goal", "first-goal", "first goal (first-goal.1)")
    pushed_with_report(lab, "orchconverge/second-goal", "second-goal", "second goal (second-goal.1)")
    assert lab.git("ls-tree", "--name-only", "orchconverge/first-goal", "b.txt", cwd=lab.remote) == ""


@pytest.mark.slow
def test_the_same_goal_twice_at_once_is_two_goals(lab: Lab) -> None:
    script = lab.script(mind(SLOW, *meets("a"), SLOW))
    for _ in range(2):
        lab.play("a goal", script, *met("a"))
    for basin in ("a-goal", "a-goal-2"):
        lab.wait(basin)
        pushed_with_report(lab, f"orchconverge/{basin}", basin, f"a goal ({basin}.1)")


def test_a_second_run_in_place_in_one_checkout_is_refused_by_name(lab: Lab) -> None:
    lab.git("switch", "-q", "-c", "topic")
    lab.play("first goal", lab.script(mind({"sleep": 2}, *meets("a"))), *met("a"))
    refused = lab.play("second goal", lab.script(mind(*meets("b")), name="other.json"), *met("b"), code=2)
    assert "first-goal" in refused.stderr
    assert "--worktree" in refused.stderr
    assert [fact.basin for fact in lab.facts(e.BasinDeclared)] == ["first-goal"]
    lab.wait()


def test_of_two_runs_in_place_started_in_the_same_instant_one_runs(lab: Lab) -> None:
    lab.git("switch", "-q", "-c", "topic")
    script = lab.script(mind({"sleep": 2}, *meets("a")))
    words = ["--engine", "scripted", "--script", str(script), "--foreground", *met("a")]
    both = [
        subprocess.Popen([*COMMAND, goal, *words], cwd=lab.repo, env=lab.env, stderr=subprocess.PIPE, text=True)
        for goal in ("first goal", "second goal")
    ]
    said = [each.communicate(timeout=60)[1] for each in both]
    assert sorted(each.returncode for each in both) == [0, 2], said
    assert not any("Traceback" in each for each in said)
    assert len(lab.facts(e.RunStarted)) == 1


# --- what we never do ------------------------------------------------------------------------------------------------

HOOKS = (
    *("pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "pre-merge-commit", "post-merge", "pre-push"),
    *("post-checkout", "post-rewrite", "pre-rebase", "reference-transaction", "post-index-change", "fsmonitor"),
)


@pytest.mark.parametrize("place", ["fresh", "here"])
def test_hooks_of_a_person_run_for_a_minds_commits_and_never_for_ours(lab: Lab, place: str) -> None:
    if place == "here":
        lab.git("switch", "-q", "-c", "topic")
    log = lab.root / "hooks.log"
    for name in HOOKS:
        hook = lab.repo / ".git" / "hooks" / name
        hook.write_text(f'#!/bin/sh\necho "{name} ${{ORCHCONVERGE_BRIEF:-ours}}" >> {log}\n')
        hook.chmod(0o755)
    lab.git("config", "core.fsmonitor", str(lab.repo / ".git" / "hooks" / "fsmonitor"))
    log.unlink(missing_ok=True)
    lab.play("both files", lab.script(mind(*meets("a"), attempt=1), mind(*meets("b"))), *met("a", "b"), "--foreground")
    ran = log.read_text().split("\n")[:-1]
    assert [line for line in ran if line.endswith(" ours")] == []
    assert sum(line.startswith("pre-commit ") for line in ran) == 2


@pytest.mark.parametrize("place", ["fresh", "here"])
def test_modules_of_the_repository_are_never_run_as_ours(lab: Lab, place: str) -> None:
    for name in ("click", "msgspec", "git", "logging", "orchconverge"):
        (lab.repo / f"{name}.py").write_text(f"open({str(lab.root / 'ran')!r}, 'a').write({name!r})\n")
    lab.git("add", "-A")
    lab.git("commit", "-q", "-m", "names that are others'")
    lab.git("push", "-q")
    if place == "here":
        lab.git("switch", "-q", "-c", "topic")
    lab.play("a is there", lab.script(mind(*meets("a"))), *met("a"), "--foreground")
    assert not (lab.root / "ran").exists()
    assert {fact.step: fact.status for fact in lab.facts(e.StepEnded)}["report"] == "done"


GOAL = (
    "Make a.txt say \"yes\", 'really' naïve ½ 🦀 日本\r\n"
    "$(touch {0}/pwned) `touch {0}/pwned` ; touch {0}/pwned #(touch {0}/pwned) ${{HOME}} %s \\n \\\n"
    "#{{q:pane}} && exit 1 | cat < /dev/null > {0}/pwned & \t$'x' !! ~ * ? [a] {{a,b}}\n   \n-- --engine nobody\n"
)
COPIER = """
import subprocess, sys
from pathlib import Path
Path(sys.argv[1], "got").write_bytes(sys.stdin.buffer.read())
Path("a.txt").write_text("yes\\n")
subprocess.run(["git", "add", "-A"], check=True)
subprocess.run(["git", "commit", "-q", "-m", "a"], check=True)
"""


@pytest.mark.parametrize("way", ["file", "dash", "goal-file dash", "argument"])
def test_a_goal_arrives_byte_for_byte_and_is_never_executed(lab: Lab, way: str) -> None:
    goal = GOAL.format(lab.tmp)
    if way != "argument":
        goal += "x" * (200_000 - len(goal.encode())) + "\nthe end \t"
        assert len(goal.encode()) > 200_000
    (lab.root / "goal.txt").write_bytes(goal.encode())
    words = {
        "file": ["--goal-file", str(lab.root / "goal.txt")],
        "dash": ["-"],
        "goal-file dash": ["--goal-file", "-"],
        "argument": [goal],
    }[way]
    argv = f"{lab.program(COPIER)} {lab.tmp}"
    lab.run(*words, "--engine", "command", "--argv", argv, *met("a"), code=0, input=goal.encode())
    lab.wait()
    assert (lab.tmp / "got").read_bytes().startswith(b"# Goal\n\n" + goal.encode() + b"\n")
    assert lab.facts(e.BasinDeclared)[0].goal == goal
    assert not (lab.tmp / "pwned").exists()
    assert len(lab.reports(lab.facts(e.BasinDeclared)[0].target)) == 1
    assert len(lab.run("--status").stdout.split("\n")[0]) < 200
