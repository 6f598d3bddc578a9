"""Targets that are written down, amended and closed by a person, by the real command line."""

from __future__ import annotations

import json
import os
import pty
import subprocess

import pytest

from orchconverge.core import events as e
from orchconverge.core.state import Phase
from orchconverge.core.target import Budget, Criterion, Termination
from tests.e2e.lab import COMMAND, Lab, kill, meets, met, mind

pytestmark = pytest.mark.tmux

TARGET = """
id = "drive"
title = "Drive it"
macrostate = "done.txt says yes"
termination = "all criteria hold, or 3 attempts, or 1 hour"
budget = {usd = 12, tokens = 2000000, minds = 8}
approaches = ["minimal", "library-first"]
may_change = ["tests/**"]
[[criteria]]
name = "done"
command = "grep -q yes done.txt"
[[criteria]]
name = "reviewed"
kind = "review"
required = false
"""
FLAGGED = {"write": {"path": ".github/workflows/ci.yml", "text": "on: push\n"}}
"""A change that no gate admits by itself: its candidate waits at the lock."""


def nothing_runs(lab: Lab) -> bool:
    return lab.processes() == {} and lab.sessions() == [] and lab.facts(e.RunStarted) == []


def hanging(lab: Lab) -> int:
    """A run whose mind hangs; returns the pid of the mind's supervisor."""
    lab.play("never done", lab.script(mind({"hang": True})), *met("a"))
    return lab.fact(e.BranchSearching).process.pid


# --- declare ---------------------------------------------------------------------------------------------------------


def test_a_target_is_declared_and_nothing_starts(lab: Lab) -> None:
    said = lab.run("declare", "a is there", *met("a"), "--approach", "minimal", "--max-hours", "0", code=0).stdout
    assert said.splitlines() == [
        "Target: a-is-there",
        'Goal: "a is there"',
        "Branch: orchconverge/a-is-there",
        "Criteria:",
        "  a          grep -q yes a.txt",
        "  changed    something is committed  (a condition)",
        "  mergeable  merges into the base without conflict  (a condition)",
        "Ends: all criteria hold, or 10 attempts",
        "Budget: no limit",
        "Lock: person, you admit what passed the gate",
        "Approaches: minimal",
        "May Change: no tests, CI or hooks unflagged",
        "",
        "Nothing was started. Next: orchconverge open a-is-there --minds 3",
    ]
    [declared] = lab.facts(e.BasinDeclared)
    assert (declared.lock, declared.writer) == ("person", "cli")
    assert lab.git("rev-parse", "orchconverge/a-is-there") == lab.git("rev-parse", "main")
    assert nothing_runs(lab)


def test_a_target_file_named_here_needs_no_consent(lab: Lab) -> None:
    (lab.repo / "t.toml").write_text(TARGET)
    found = json.loads(lab.run("declare", "--target", "t.toml", "--json", "--usd", "3", code=0).stdout)
    assert (found["id"], found["target"], found["lock"]) == ("drive", "orchconverge/drive", "person")
    assert found["next"] == "orchconverge open drive --minds 3"
    assert found["termination"]["sentence"] == "all criteria hold, or 3 attempts, or 1 hour"
    [declared] = lab.facts(e.BasinDeclared)
    assert (declared.title, declared.macrostate) == ("Drive it", "done.txt says yes")
    assert declared.criteria == (
        Criterion(name="done", command="grep -q yes done.txt"),
        Criterion(name="reviewed", kind="review", required=False),
    )
    assert declared.budget == Budget(usd=3, tokens=2_000_000, minds=8)
    assert (declared.approaches, declared.mayChange) == (("minimal", "library-first"), ("tests/**",))
    assert lab.kinds() == ("basin.declared",)
    assert nothing_runs(lab)


def test_what_a_file_says_gives_way_to_what_is_typed_and_a_taken_name_gets_a_number(lab: Lab) -> None:
    (lab.root / "t.toml").write_text(TARGET.replace("approaches", 'lock = "auto"\napproaches'))
    words = ("declare", "--target", lab.root / "t.toml")
    lab.run(*words, code=0)
    lab.run(*words, "--lock", "person", "--into", "main", "--max-attempts", "0", code=0)
    one, two = lab.facts(e.BasinDeclared)
    assert (one.basin, one.lock, one.target) == ("drive", "auto", "orchconverge/drive")
    assert (two.basin, two.lock, two.target) == ("drive-2", "person", "main")
    assert two.termination == Termination(hours=1.0)


def test_a_goal_comes_by_standard_input_byte_for_byte(lab: Lab) -> None:
    goal = "a is there\n\n" + "more of it: \u00e9 \u4f60\n" * 20_000
    lab.run("declare", "-", *met("a"), input=goal.encode(), code=0)
    [declared] = lab.facts(e.BasinDeclared)
    assert (declared.basin, declared.goal) == ("a-is-there", goal)


@pytest.mark.parametrize(
    ("words", "says", "hint"),
    [
        (["x", *met("a"), "--max-attempts", "0", "--max-hours", "0"], "needs a stop condition", "--max-attempts N"),
        (["x"], "nothing can be gained", "--criterion NAME=COMMAND"),
        ([" ", *met("a")], "the goal is blank", "say what should be true"),
        ([], "there is no goal", "say what should be true"),
        (["x", "--criterion", "a"], "'a' is no kind of criterion", "--criterion"),
        (["x", *met("a"), "--into", "nowhere"], "no branch 'nowhere'", "--into"),
        (["--target", "none.toml"], "there is no", "target file"),
        (["x", "--target", "t.toml"], "says its goal and criteria itself", "leave out --target"),
        (["--target", "t.toml", *met("a")], "says its goal and criteria itself", "leave out --target"),
        (
            ["--target", "t.toml", "--max-attempts", "0", "--max-hours", "0"],
            "needs a stop condition",
            "--max-attempts N",
        ),
    ],
)
def test_what_is_no_target_is_refused_with_what_to_add(lab: Lab, words: list[str], says: str, hint: str) -> None:
    (lab.repo / "t.toml").write_text(TARGET)
    refused = lab.run("declare", *words, code=2)
    message, added = refused.stderr.splitlines()
    assert says in message
    assert hint in added
    assert lab.kinds() == ()


def test_without_a_commit_there_is_nothing_to_start_from(lab: Lab) -> None:
    empty = lab.root / "empty"
    lab.git("init", "-q", "-b", "main", str(empty), cwd=lab.root)
    refused = lab.run("declare", "x", *met("a"), cwd=empty, code=2)
    assert "needs one commit to start from" in refused.stderr


def test_a_run_takes_the_lock_and_the_width_that_it_is_given(lab: Lab) -> None:
    script = lab.script(mind(*meets("a")))
    lab.play("a is there", script, *met("a"), "--lock", "person", "--minds", "2", "--max-attempts", "1")
    [started] = lab.facts(e.RunStarted)
    assert (started.settings.lock, started.settings.minds, started.settings.place) == ("person", 2, "fresh")
    assert lab.facts(e.BasinDeclared)[0].lock == "person"
    lab.run("--stop", "--cleanup", code=0)


# --- amend -----------------------------------------------------------------------------------------------------------


def test_a_target_is_amended_between_attempts_and_the_difference_is_said(lab: Lab) -> None:
    lab.run("declare", "a is there", *met("a"), code=0)
    more = ("--add-criterion", "b=grep -q yes b.txt", "--max-attempts", "4", "--usd", "2")
    said = lab.run("amend", "a-is-there", "--why", "b belongs to it", *more, code=0).stdout
    assert said.splitlines() == [
        "a-is-there is amended:",
        "  + b: grep -q yes b.txt",
        "  Ends: all criteria hold, or 4 attempts, or 3 hours (was: all criteria hold, or 10 attempts, or 3 hours)",
        "  Budget: $2.00 (was: no limit)",
        "Next: orchconverge open a-is-there --minds 3",
    ]
    [amended] = lab.facts(e.BasinAmended)
    assert (amended.why, amended.writer) == ("b belongs to it", "cli")
    lab.run("amend", "a-is-there", "--why", "only c", *met("c"), code=0)
    assert [c.name for c in lab.state().basins["a-is-there"].criteria] == ["c", "changed", "mergeable"]
    unsaid = lab.run("amend", "a-is-there", *met("d"), code=2)
    assert "why is it changed?" in unsaid.stderr
    assert "--why" in unsaid.stderr


def test_while_an_attempt_runs_nothing_is_amended(lab: Lab) -> None:
    hanging(lab)
    refused = lab.run("amend", "never-done", "--why", "more", "--max-attempts", "20", code=2)
    assert "attempt 1 of never-done runs: a target is amended between attempts" in refused.stderr
    lab.run("--stop", "--cleanup", code=0)
    assert lab.facts(e.BasinAmended) == []


@pytest.mark.slow
def test_what_is_amended_after_a_limit_counts_in_the_run_that_is_resumed_with_it(lab: Lab) -> None:
    script = lab.script(mind(*meets("a")))
    lab.play("a and b", script, *met("a", "b"), "--max-attempts", "1", "--foreground", code=3)
    said = lab.run("amend", "a-and-b", "--why", "a is enough", *met("a"), "--max-attempts", "3", code=0).stdout
    resume = said.splitlines()[-1].partition("orchconverge ")[2]
    assert resume == "resume a-and-b --max-attempts 3"
    lab.run(*resume.split(), "--foreground", code=0)
    assert lab.state().basins["a-and-b"].phase == "converged"


# --- prune -----------------------------------------------------------------------------------------------------------


def waiting(lab: Lab) -> None:
    """A run that ended with goal `a-is-there` and its candidate `.1` at the lock."""
    lab.play("a is there", lab.script(mind(FLAGGED, *meets("a"))), *met("a"), "--final", "none", "--foreground", code=5)
    assert lab.state().branches["a-is-there.1"].waits


def test_a_candidate_is_pruned_with_its_reason_and_by_whom(lab: Lab) -> None:
    waiting(lab)
    head = lab.state().branches["a-is-there.1"].head
    unsaid = lab.run("prune", "a-is-there.1", code=2)
    assert 'orchconverge prune a-is-there.1 --reason "why"' in unsaid.stderr
    blank = lab.run("prune", "a-is-there.1", "--reason", " ", code=2)
    assert "why is it turned down?" in blank.stderr
    unknown = lab.run("prune", "a-is-there.9", "--reason", "no", code=2)
    assert unknown.stderr.splitlines()[1].strip().startswith("there is: a-is-there.")
    said = lab.run("prune", "a-is-there.1", "--reason", "it touches CI", "--residue", "CI is not needed", code=0).stdout
    assert said.splitlines() == [
        "a-is-there.1 is pruned: it touches CI",
        "Its commits stay on refs/orchconverge/keep/a-is-there.1. Later minds are told why.",
    ]
    [pruned] = lab.facts(e.BranchPruned)
    assert pruned.decidedBy.startswith("person(")
    assert pruned.decidedBy.endswith(", no tty)")
    assert [r.text for r in pruned.residue] == ["CI is not needed"]
    assert lab.git("rev-parse", "refs/orchconverge/keep/a-is-there.1") == head
    again = lab.run("prune", "a-is-there.1", "--reason", "again", code=2)
    assert "a-is-there.1 is pruned" in again.stderr
    assert len(again.stderr.splitlines()) == 2
    assert len(lab.facts(e.BranchPruned)) == 1


def test_on_a_terminal_the_reason_is_asked_for_and_the_terminal_is_on_record(lab: Lab) -> None:
    waiting(lab)
    ours, theirs = pty.openpty()
    tty = os.ttyname(theirs)
    words = [*COMMAND, "prune", "a-is-there.1"]
    with subprocess.Popen(words, cwd=lab.repo, env=lab.env, stdin=theirs, stderr=theirs, stdout=subprocess.PIPE) as ran:
        os.close(theirs)
        asked = b""
        while b"turned down?" not in asked:
            asked += os.read(ours, 1024)
        os.write(ours, b"it touches CI\n")
        assert ran.wait(20) == 0
    os.close(ours)
    [pruned] = lab.facts(e.BranchPruned)
    assert pruned.reason == "it touches CI"
    assert pruned.decidedBy.endswith(f", {tty})")


def test_candidates_that_are_covered_are_pruned_together(lab: Lab) -> None:
    waiting(lab)
    kept = lab.run("prune", "--others", "a-is-there", code=0).stdout
    assert kept.splitlines()[0].startswith("Nothing to prune")
    assert kept.splitlines()[1] == "At the lock: a-is-there.1"
    lab.git("switch", "-q", "orchconverge/a-is-there")
    (lab.repo / "a.txt").write_text("yes\n")
    lab.git("add", "-A")
    lab.git("commit", "-q", "-m", "by hand")
    tip = lab.git("rev-parse", "HEAD")
    lab.git("switch", "-q", "main")
    lab.run("resume", "a-is-there", "--foreground", "--accept", code=5)
    checked = [fact for fact in lab.facts(e.BasinChecked) if fact.head == tip]
    assert checked
    said = lab.run("prune", "--others", "a-is-there", code=0).stdout
    assert f"a-is-there.1 is pruned: covered: a holds on orchconverge/a-is-there at {tip[:8]} already" in said
    assert lab.state().branches["a-is-there.1"].phase is Phase.PRUNED
    refused = lab.run("prune", "--others", "a-is-there", "--reason", "mine", code=2)
    assert "--others writes the reason" in refused.stderr


def test_a_mind_that_runs_without_a_controller_is_ended_by_the_prune(lab: Lab) -> None:
    supervisor = hanging(lab)
    kill(lab.controller())
    assert supervisor in lab.processes()
    said = lab.run("prune", "never-done.1", "--reason", "it hangs", code=0).stdout
    assert "Its mind was ended." in said
    lab.until(lambda: supervisor not in lab.processes())
    [ended] = lab.facts(e.BranchEnded)
    assert (ended.branch, ended.writer, ended.reason) == ("never-done.1", "cli", "killed")
    assert lab.git("rev-parse", "refs/orchconverge/keep/never-done.1") == ended.head
    lab.run("--stop", "--cleanup", code=0)


def test_a_mind_that_runs_under_a_controller_is_ended_by_it(lab: Lab) -> None:
    script = lab.script(mind({"hang": True}, attempt=1), mind(*meets("a"), attempt=2))
    lab.play("a is there", script, *met("a"), "--final", "none")
    supervisor = lab.fact(e.BranchSearching).process.pid
    said = lab.run("prune", "a-is-there.1", "--reason", "it hangs", code=0).stdout
    assert "Its controller ends its mind." in said or "Its controller ended its mind." in said
    lab.wait(code=0)
    assert supervisor not in lab.processes()
    ended = lab.facts(e.BranchEnded)[0]
    assert (ended.branch, ended.writer) == ("a-is-there.1", "controller")
    assert lab.state().branches["a-is-there.1"].phase is Phase.PRUNED


# --- kill and harvest ------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("lives", [True, False], ids=["a live controller", "a dead one"])
def test_a_killed_pursuit_leaves_nothing_running(lab: Lab, lives: bool) -> None:
    hanging(lab)
    if not lives:
        kill(lab.controller())
    said = lab.run("kill", "never-done", "--reason", "another way was found", code=0).stdout
    assert said.startswith("never-done is killed: another way was found\n")
    lab.until(lambda: lab.processes() == {})
    state = lab.state()
    assert (state.basins["never-done"].phase, state.basins["never-done"].note) == ("killed", "another way was found")
    assert state.open_runs == ()
    again = lab.run("kill", "never-done", "--reason", "again", code=2)
    assert "only an open basin is killed" in again.stderr
    lab.run("harvest", "never-done", "--residue", "it cannot be done", "--frontier", "why not?", code=0)
    [harvested] = lab.facts(e.BasinHarvested)
    assert [r.text for r in harvested.residue] == ["it cannot be done"]
    assert harvested.decidedBy.startswith("person(")
    assert [(q.question, q.basin) for q in lab.state().frontier.values()] == [("why not?", "never-done")]
    lab.run("--stop", "--cleanup", code=0)


def test_what_is_still_pursued_is_not_harvested(lab: Lab) -> None:
    hanging(lab)
    refused = lab.run("harvest", "never-done", "--residue", "x", code=2)
    assert "never-done is still pursued" in refused.stderr
    unsaid = lab.run("harvest", "never-done", code=2)
    assert "what was learned?" in unsaid.stderr
    lab.run("--stop", "--cleanup", code=0)


# --- the frontier ----------------------------------------------------------------------------------------------------


def test_questions_are_asked_listed_and_answered(lab: Lab) -> None:
    lab.run("declare", "a is there", *met("a"), code=0)
    assert lab.run("frontier", "list", code=0).stdout == "No question is open.\n"
    lab.run("frontier", "add", "which port?", "--basin", "a-is-there", "--blocks", "a-is-there", code=0)
    said = lab.run("frontier", "add", "is it \x1b[2Jneeded?", code=0).stdout
    assert said.startswith("Open, as number 2: is it needed?\n")
    assert lab.run("frontier", "list", code=0).stdout.splitlines() == [
        "1  which port?  (from person, in a-is-there, blocks a-is-there)",
        "2  is it needed?  (from person)",
    ]
    assert "Answer: which port?" in lab.run("status", "--verbose").stdout
    lab.run("frontier", "close", "1", "--answer", "8080", code=0)
    lab.run("frontier", "close", "is it \x1b[2Jneeded?", "--answer", "no", code=0)
    assert [(f.question, f.answer) for f in lab.facts(e.FrontierClosed)] == [
        ("which port?", "8080"),
        ("is it \x1b[2Jneeded?", "no"),
    ]
    assert json.loads(lab.run("frontier", "list", "--json", code=0).stdout) == {"frontier": []}
    assert "no open question" in lab.run("frontier", "close", "1", "--answer", "8080", code=2).stderr


def test_inside_a_mind_the_frontier_is_only_listed(lab: Lab) -> None:
    lab.run("declare", "a is there", *met("a"), code=0)
    lab.run("frontier", "add", "why?", code=0)
    before, inside = lab.lines(), {"ORCHCONVERGE_BRIEF": "/a/brief"}
    for words in (
        ["frontier", "add", "how?"],
        ["frontier", "close", "1", "--answer", "so"],
        ["frontier"],
        ["declare", "x", *met("a")],
        ["amend", "a-is-there", "--why", "x", "--usd", "1"],
        ["prune", "a-is-there.1", "--reason", "x"],
        ["kill", "a-is-there", "--reason", "x"],
        ["harvest", "a-is-there", "--residue", "x"],
        ["gc"],
    ):
        refused = lab.run(*words, env=inside, code=2)
        assert "this is a mind: it may look, not start, stop or decide" in refused.stderr, words
    assert lab.run("frontier", "list", env=inside, code=0).stdout == "1  why?  (from person)\n"
    assert lab.lines() == before
