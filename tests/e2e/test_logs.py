"""The four logs of a real run, read afterwards and followed while it goes on."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from orchconverge.core import events as e
from tests.e2e.lab import COMMAND, Lab, kill, meets, met, mind

pytestmark = pytest.mark.tmux

WAITS = """
import pathlib, subprocess, sys, time
print("first \\x1b[31mline", flush=True)
while not pathlib.Path(sys.argv[1]).exists():
    time.sleep(0.05)
pathlib.Path("a.txt").write_text("yes\\n")
subprocess.run(["git", "add", "-A"]); subprocess.run(["git", "commit", "-q", "-m", "a"])
print("last", end="", flush=True)
"""
"""Prints a line, awaits a file, meets the criterion a and prints a line without an end."""


def start(lab: Lab) -> Path:
    """A run whose mind awaits the file that is returned."""
    go = lab.root / "go"
    argv = f"{lab.program(WAITS)} {go}"
    engine = ("--engine", "command", "--argv", argv, "--interval", "0", "--final", "none", "--max-attempts", "1")
    lab.run("a is there", *engine, *met("a"), code=0)
    return go


def follow(lab: Lab, *words: str) -> subprocess.Popen[bytes]:
    """Follow a log; what it prints goes into a file ``logs-N``, where N is its pid."""
    command = [*COMMAND, "logs", "-f", *words]
    return subprocess.Popen(
        command, cwd=lab.repo, env=lab.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def ended(process: subprocess.Popen[bytes]) -> str:
    said, wrong = process.communicate(timeout=30)
    assert (process.returncode, wrong) == (0, b"")
    return said.decode()


def test_followed_logs_show_what_comes_and_end_with_the_run(lab: Lab) -> None:
    go = start(lab)
    [basin] = [fact.basin for fact in lab.facts(e.BasinDeclared)]
    lab.fact(e.BranchSearching)
    kinds = (["--kind", "convergence"], ["--kind", "agent"], ["--kind", "system"], ["--kind", "performance"])
    goal = [follow(lab, basin, *kind) for kind in kinds]
    branch = follow(lab, f"{basin}.1")
    raw = follow(lab, f"{basin}.1", "--raw")
    assert raw.stdout is not None
    assert raw.stdout.readline() == b"first \x1b[31mline\n"
    go.touch()
    convergence, agent, system, performance = (ended(one) for one in goal)
    assert ended(branch) == "first line\nlast\n"
    assert ended(raw) == "last"
    assert agent == f"{basin}.1 | first line\n{basin}.1 | last\n"
    facts, told = lab.replayed()[0], convergence.splitlines()
    assert len(told) == len([fact for fact in facts if getattr(fact, "basin", None) == basin])
    assert any("attempt 1 ended: success" in line and line.endswith("; SUCCESS") for line in told)
    assert any(f"{basin}.1 candidate: met a " in line for line in told)
    assert "run.stopped converged" in system.splitlines()[-1]
    assert f" {basin}: attempt 1, " in performance
    lab.wait(code=0)


def test_a_follower_of_everything_goes_on_until_it_is_interrupted(lab: Lab) -> None:
    everything = follow(lab)
    lab.play("a is there", lab.script(mind(*meets("a"))), *met("a"), "--foreground", "--final", "none")
    assert everything.stdout is not None
    while b"run.stopped" not in everything.stdout.readline():
        assert everything.poll() is None
    kill(everything.pid, 2)
    assert everything.wait(10) == 130
    everything.communicate()


@pytest.mark.slow
def test_a_log_whose_controller_was_killed_ends_and_says_so(lab: Lab) -> None:
    go = start(lab)
    lab.fact(e.BranchSearching)
    following = follow(lab, "a-is-there")
    kill(lab.controller())
    said, wrong = following.communicate(timeout=30)
    assert following.returncode == 0
    assert wrong == b"The controller of a-is-there is gone. orchconverge resume a-is-there\n"
    assert b"attempt.started" in said
    go.touch()
    lab.run("--stop", "--cleanup", code=0)


@pytest.mark.slow
def test_logs_are_read_by_kind_name_time_and_form(lab: Lab) -> None:
    assert lab.run("logs", code=0).stdout == ""
    assert lab.run("logs", "--kind", "agent", code=0).stdout == ""
    assert "no branch or destination is called nobody" in lab.run("logs", "nobody", code=2).stderr
    for goal in ("first", "second"):
        lab.play(
            goal, lab.script(mind({"say": f"{goal} here"}, *meets(goal))), *met(goal), "--foreground", "--final", "none"
        )
    assert "first here" in lab.run("logs", "first.1", code=0).stdout
    shown = lab.run("logs", "--kind", "agent", code=0).stdout
    assert ("second.1 | second here" in shown, "first here" in shown) == (True, False)
    assert {line.split(" ")[2] for line in lab.run("logs", "first", code=0).stdout.splitlines()} == {"first:"}
    both = [json.loads(line) for line in lab.run("logs", "--json", code=0).stdout.splitlines()]
    assert {one["basin"] for one in both} >= {"first", "second"}
    facts = [
        json.loads(line) for line in lab.run("logs", "--kind", "convergence", "--json", code=0).stdout.splitlines()
    ]
    assert [one["seq"] for one in facts] == list(range(1, len(lab.kinds()) + 1))
    raw = lab.run("logs", "--kind", "convergence", "--raw", code=0).stdout.encode()
    assert raw == lab.lines()
    figures = [
        json.loads(line)
        for line in lab.run("logs", "first", "--kind", "performance", "--json", code=0).stdout.splitlines()
    ]
    assert {one["basin"] for one in figures} == {"first"}
    for kind in ("system", "convergence", "performance"):
        assert lab.run("logs", "--kind", kind, "--since", "10m", code=0).stdout
        assert lab.run("logs", "--kind", kind, "--since", "2199-01-01", code=0).stdout == ""
    assert lab.run("logs", "--kind", "agent", "first", "--since", "2199-01-01", code=0).stdout == ""
    assert "is no moment" in lab.run("logs", "--since", "soon", code=2).stderr
    assert "give one of them" in lab.run("logs", "--raw", "--json", code=2).stderr
