"""A mind whose engine cannot commit, as in a sandbox where `.git` is read-only: its tree is committed for it, and said."""

from __future__ import annotations

import json

import pytest

from orchconverge.core import events as e
from tests.e2e.lab import Lab, kill, met, mind

pytestmark = pytest.mark.tmux
GOAL, BASIN = "the file says yes", "the-file-says-yes"
BY_US = "Committed by orchconverge: scripted cannot commit where it works."
YES = {"write": {"path": "a.txt", "text": "yes\n"}}
TELLS = {"report": {"summary": "a says yes now\nand more", "verdict": None}}


def sandboxed(lab: Lab, *minds: dict[str, object]) -> str:
    """A script whose minds cannot commit."""
    path = lab.script(*minds)
    path.write_text(json.dumps({**json.loads(path.read_text()), "commits": False}))
    return str(path)


def start(lab: Lab, script: str, *more: str) -> None:
    engine = ("--engine", "scripted", "--script", script, "--interval", "0", "--final", "none")
    lab.run(GOAL, *engine, *met("a"), *more, code=0)


@pytest.mark.parametrize("place", ["here", "worktree"])
def test_what_it_wrote_is_a_commit_on_its_branch(lab: Lab, place: str) -> None:
    lab.git("switch", "-q", "-c", "topic")
    tried = {"commit": "this fails"}
    start(lab, sandboxed(lab, mind(YES, tried, TELLS)), *(["--worktree"] if place == "worktree" else []))
    lab.wait()
    [candidate] = lab.facts(e.BranchCandidate)
    assert candidate.commits == 1
    subject, author, body = lab.git("log", "-1", "--format=%s%n%an%n%b", candidate.head).split("\n", 2)
    assert (subject, author, body.strip()) == ("a says yes now", "A Person", BY_US)
    assert lab.git("diff-tree", "-r", "--name-only", "--no-commit-id", candidate.head) == "a.txt"
    assert lab.facts(e.AttemptEnded)[-1].decision == "SUCCESS"
    assert lab.facts(e.RunStopped)[-1].reason == "converged"
    assert lab.git("show", "topic:a.txt") == "yes"
    assert "was committed for it" in (lab.state_dir / "logs" / "system.log").read_text()


def test_a_person_s_uncommitted_work_is_not_its_own(lab: Lab) -> None:
    lab.git("switch", "-q", "-c", "topic")
    (lab.repo / "notes").write_text("mine\n")
    (lab.repo / "README.md").write_text("# changed by me\n")
    start(lab, sandboxed(lab, mind(YES, {"say": "did it"})), "--allow-dirty")
    lab.wait()
    [candidate] = lab.facts(e.BranchCandidate)
    assert lab.git("diff-tree", "-r", "--name-only", "--no-commit-id", candidate.head) == "a.txt"
    assert lab.git("log", "-1", "--format=%s", candidate.head) == "did it"
    assert lab.git("status", "--porcelain") == " M README.md\n?? notes"


def test_without_anything_to_commit_it_did_nothing(lab: Lab) -> None:
    lab.git("switch", "-q", "-c", "topic")
    start(lab, sandboxed(lab, mind({"say": "done, honestly"})), "--max-attempts", "1")
    lab.wait(code=3)
    assert [fact.reason for fact in lab.facts(e.BranchFailed)] != []
    assert lab.git("rev-parse", "topic") == lab.git("rev-parse", "main")


def test_killed_before_it_was_recorded_the_controller_finds_the_commit_and_makes_no_second(lab: Lab) -> None:
    lab.git("switch", "-q", "-c", "topic")
    start(lab, sandboxed(lab, mind(YES, {"sleep": 1}, TELLS)))
    lab.fact(e.BranchSearching)
    lab.until(lambda: lab.git("log", "-1", "--format=%s", "topic") == "a says yes now")
    kill(lab.controller())
    assert lab.run("--resume").returncode in (0, 2)
    lab.wait()
    assert lab.git("rev-list", "--count", "main..topic") == "1"
    assert lab.facts(e.RunStopped)[-1].reason == "converged"
