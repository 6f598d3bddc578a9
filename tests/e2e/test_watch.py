"""The full-screen view in a real terminal beside the real product: typed into, read, and in nobody's way."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchconverge.adapters.ledger import verify
from orchconverge.core import events as e
from tests.e2e.lab import COMMAND, Lab, kill, meets, met, mind
from tests.e2e.test_lock import opened, three, tip

pytestmark = [pytest.mark.tmux, pytest.mark.slow]


class Pane:
    """`orchconverge watch` in a tmux of its own; each frame that was awaited is kept as text in ``frames``."""

    def __init__(
        self, lab: Lab, frames: Path, *words: str, name: str = "watch", size: tuple[int, int] = (120, 40)
    ) -> None:
        self.lab, self.frames, self.name = lab, frames, name
        self.socket = lab.root / name
        command = shlex.join([*COMMAND, "watch", *words])
        self.tmux("new-session", "-d", "-s", name, "-x", str(size[0]), "-y", str(size[1]), "sh")
        self.tmux("send-keys", "-t", name, f"clear; {command}; echo left $?", "Enter")

    def tmux(self, *words: str) -> str:
        argv = ["tmux", "-S", str(self.socket), "-f", "/dev/null", *words]
        ran = subprocess.run(argv, env={**self.lab.env, "PS1": "$ "}, cwd=self.lab.repo, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    @property
    def screen(self) -> str:
        return self.tmux("capture-pane", "-p", "-t", self.name)

    def keys(self, *names: str) -> None:
        self.tmux("send-keys", "-t", self.name, *names)

    def until(self, *words: str, without: str = "") -> str:
        """Await a screen that has all of these, and keep it."""
        shown = ""

        def there() -> str:
            nonlocal shown
            shown = self.screen
            return shown if all(one in shown for one in words) and not (without and without in shown) else ""

        try:
            found = self.lab.until(there)
        except AssertionError as error:
            raise AssertionError(f"{words} did not come:\n{shown}") from error
        number = len(list(self.frames.glob(f"{self.name}-*.txt"))) + 1
        (self.frames / f"{self.name}-{number:02}.txt").write_text(found)
        assert "Traceback" not in found
        return found

    def close(self) -> None:
        self.tmux("kill-server")


@pytest.fixture
def panes(lab: Lab, tmp_path: Path) -> Iterator[list[Pane]]:
    made: list[Pane] = []
    yield made
    for pane in made:
        pane.close()


def test_from_nothing_to_converged_a_person_sees_decides_and_comes_back(
    lab: Lab, tmp_path: Path, panes: list[Pane]
) -> None:
    pane = Pane(lab, tmp_path)
    panes.append(pane)
    pane.until("No destination yet.", 'orchconverge "what should be true when it is done"')

    opened(lab, three())
    pane.until("NEEDS YOU", "Decide demo.1 at the lock: 0 of 4 becomes 2 of 4", "orchconverge lock demo", "AT LOCK")
    pane.keys("n", "Enter")
    matrix = pane.until("WHO MEETS WHAT", "›demo.1", "together", "conflict in 1 file", "+2 -0")  # noqa: RUF001
    assert "Together they meet everything: what is left is your decision, not more minds." in matrix
    pane.keys("o")
    pane.until("OVERLAP  demo  3 candidates, 3 pairs, 0 merge clean, 3 conflict")
    pane.keys("Escape")  # a key that comes with it would be Alt and that key
    pane.until("WHO MEETS WHAT")
    pane.keys("d")
    pane.until("DIFF of demo.1", "A a.txt", "+a1")
    pane.keys("Escape")
    pane.until("WHO MEETS WHAT")
    pane.keys("x")
    pane.until("demo.1 AGAINST demo.2", "demo.1 alone meets: b", "demo.2 alone meets: c")
    pane.keys("Escape")
    pane.until("WHO MEETS WHAT")
    pane.keys("v")
    pane.until("EVIDENCE of demo.1", "exit 0, 0s, on tree")
    pane.keys("Escape")
    pane.until("WHO MEETS WHAT")
    pane.keys("Escape")
    pane.until("LOCK ─", "EVENTS ─")

    before = tip(lab)
    pane.keys("l")
    pane.until("a accept", "q leave\nkey, then Enter>")
    pane.keys("a", "Enter")
    pane.until("All required criteria hold.", "Prune? [y/N]:")
    pane.keys("y", "Enter")
    pane.until("The lock is empty.", "enter: back to watch")
    assert tip(lab) != before
    pane.keys("Enter")
    pane.until("4/4", "empty. The next candidate", without="enter: back to watch")

    lab.run("resume", "demo", code=0)
    pane.until("● demo", "CONVERGED", "Nothing needs you and nothing runs. 1 converged.")
    pane.keys("c")
    pane.until("Nothing needs you: there is no command to copy.")
    pane.keys("q")
    last = pane.until("left 0")
    assert "● demo" in last
    assert len(lab.facts(e.BasinConverged)) == 1


def test_two_watches_beside_a_run_are_in_nobodys_way(lab: Lab, tmp_path: Path, panes: list[Pane]) -> None:
    """Whatever they ask of the ledger, the locks and git, the run is the one that it is without them."""
    lab.git("switch", "-q", "-c", "topic")
    script = lab.script(mind(*meets("a"), attempt=1), mind(*meets("b"), attempt=2))
    panes += [Pane(lab, tmp_path), Pane(lab, tmp_path, name="other", size=(80, 24))]
    for pane in panes:
        pane.until("No destination yet.")
    lab.play("a and b are there", script, *met("a", "b"))
    for pane in panes:
        pane.until("a-and-b-are-there"[:8])
    panes[1].keys("Enter")
    panes[1].until("WHO MEETS WHAT")
    lab.wait()
    for pane in panes:
        pane.until("CONVERGED")
    found = verify(lab.state_dir)
    assert (found.exit_code, found.bad, found.illegal, found.torn) == (0, 0, 0, False)
    assert [fact.result for fact in lab.facts(e.AttemptEnded)] == ["partial_success", "success"]
    for pane in panes:
        pane.keys("q")
        pane.until("left 0")


def test_a_person_attaches_and_is_back_on_detach(lab: Lab, tmp_path: Path, panes: list[Pane]) -> None:
    lab.git("switch", "-q", "-c", "topic")
    lab.play("a is there", lab.script(mind({"say": "it goes on"}, {"hang": True})), *met("a"))
    lab.fact(e.BranchSearching)
    pane = Pane(lab, tmp_path)
    panes.append(pane)
    pane.until("RUNNING", "1 mind ")
    pane.keys("a")
    pane.until("branch.searching", without="EVENTS")
    pane.keys("C-b", "d")
    pane.until("RUNNING", "EVENTS", "n needs you")
    lab.run("stop", code=0)
    pane.until("STOPPED")
    pane.keys("q")
    pane.until("left 0")


def test_who_stops_it_or_ends_it_has_a_terminal_again(lab: Lab, tmp_path: Path, panes: list[Pane]) -> None:
    pane = Pane(lab, tmp_path)
    panes.append(pane)
    pane.until("No destination yet.", "q quit")
    pane.keys("C-z")
    pane.until("Stopped", without="q quit")
    pane.keys("clear; fg", "Enter")
    pane.until("No destination yet.", "q quit")
    shell = int(pane.tmux("display-message", "-p", "-t", "watch", "#{pane_pid}"))
    [view] = Path(f"/proc/{shell}/task/{shell}/children").read_text().split()
    os.kill(int(view), signal.SIGTERM)
    pane.until("No destination yet.", without="q quit")
    pane.keys("echo seen $((40 + 2))", "Enter")
    pane.until("echo seen $((40 + 2))", "seen 42")


def test_a_controller_that_is_gone_is_seen_though_the_ledger_is_silent(
    lab: Lab, tmp_path: Path, panes: list[Pane]
) -> None:
    lab.git("switch", "-q", "-c", "topic")
    lab.play("a is there", lab.script(mind({"hang": True})), *met("a"))
    lab.fact(e.BranchSearching)
    pane = Pane(lab, tmp_path)
    panes.append(pane)
    pane.until("RUNNING")
    kill(lab.controller())
    pane.until("UNKNOWN", "The controller of a-is-there", "orchconverge resume a-is-there")
    pane.keys("q")
    pane.until("left 0")
    lab.run("stop", "--cleanup", code=0)
