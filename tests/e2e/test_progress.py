"""What a person at a terminal sees while something takes long: what runs, for how long, its deadline, and no traces of that."""

from __future__ import annotations

import pytest

from orchconverge.core import events as e
from tests.e2e.lab import Lab, meets, mind
from tests.e2e.terminal import Terminal

pytestmark = pytest.mark.tmux

CLEAR = "\r\x1b[K"
SLOW = "slow=until test -e {go}; do sleep 0.05; done; test -e a.txt"
"""A criterion that is not answered before a file is there."""


def rows(terminal: Terminal) -> list[str]:
    """What stays on the screen: the lines, without what was cleared of them."""
    return [line.rsplit(CLEAR, 1)[-1] for line in terminal.text.split("\n")]


def test_a_run_in_the_foreground_shows_what_runs_and_leaves_its_lines(lab: Lab) -> None:
    go = lab.root / "go"
    script = lab.script(mind({"sleep": 1.2}, *meets("a")))
    words = ("--engine", "scripted", "--script", str(script), "--final", "none", "--interval", "0")
    with Terminal(lab, "a is there", *words, "--criterion", SLOW.format(go=go), "--foreground") as terminal:
        terminal.until(f"{CLEAR}criterion slow 0s of 10m 00s")
        terminal.until(f"{CLEAR}criterion slow 1s of 10m 00s")
        go.touch()
        terminal.until("mind a-is-there.1 (scripted) 1s of 1h 00m")
        terminal.end(0)
        kept = rows(terminal)
        assert not [row for row in kept if "of 10m" in row or "of 1h 00m" in row]
        assert 'Goal: "a is there"' in kept
        assert [row for row in kept if "run.stopped converged" in row]


@pytest.mark.slow
def test_a_graft_shows_the_criterion_that_it_waits_for_beside_clean_output(lab: Lab) -> None:
    go = lab.root / "go"
    go.touch()
    script = lab.script(mind(*meets("a")))
    words = ("--engine", "scripted", "--script", str(script), "--final", "none", "--interval", "0")
    lab.run("a is there", *words, "--criterion", SLOW.format(go=go), "--lock", "person", "--worktree", code=0)
    lab.fact(e.BranchCandidate)
    lab.wait(code=5)
    go.unlink()
    with Terminal(lab, "graft", "a-is-there.1") as terminal:
        terminal.until(f"{CLEAR}criterion slow 0s of 10m 00s")
        go.touch()
        terminal.end(0)
        assert [row for row in rows(terminal) if row.startswith("Grafted a-is-there.1 onto ")]
        assert not [row for row in rows(terminal) if "of 10m" in row]
    lab.run("--stop", "--cleanup")


def test_nothing_of_it_is_written_where_nobody_looks(lab: Lab) -> None:
    script = lab.script(mind({"sleep": 1.2}, *meets("a")))
    done = lab.play("a is there", script, "--criterion", "a=test -e a.txt", "--final", "none", "--foreground")
    assert "\r" not in done.stdout + done.stderr
    assert "mind a-is-there.1 (scripted)" not in done.stderr


@pytest.mark.slow
def test_who_waits_sees_the_mind_and_is_left_with_a_clean_line(lab: Lab) -> None:
    lab.play("a is there", lab.script(mind({"hang": True})), "--criterion", "a=test -e a.txt")
    lab.fact(e.BranchSearching)
    with Terminal(lab, "wait", "--timeout", "2") as terminal:
        terminal.until(f"{CLEAR}mind a-is-there.1 (scripted) ")
        terminal.end(124)
        [row] = [row for row in rows(terminal) if row]
        assert row.startswith("a-is-there is not over after 2 s. It waits for attempt 1 ends")
    with Terminal(lab, "wait") as terminal:
        terminal.until(f"{CLEAR}mind a-is-there.1 (scripted) ")
        terminal.interrupt(130)
        assert not [row for row in rows(terminal) if "scripted" in row]
    lab.run("--stop", "--cleanup", code=0)
