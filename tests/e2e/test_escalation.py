"""The escalation by the real command line: from a person's own checkout to worktrees and back, and blocks that pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchconverge.core import events as e
from tests.e2e.lab import Lab, meets, met, mind

pytestmark = [pytest.mark.tmux, pytest.mark.slow]

WAYS = tuple(f"w{n}" for n in range(1, 9))
STALL = {"ORCHCONVERGE_STALL_AFTER": "3"}


def in_place(lab: Lab, *words: str, code: int = 0) -> None:
    """On a branch of the person's: nobody gets anywhere but the eighth mind, which is the second of the first wave."""
    lab.git("switch", "-q", "-c", "topic")
    script = lab.script(mind(*meets("a"), approach="w8"), mind({"say": "nothing"}))
    ways = [word for name in WAYS for word in ("--approach", name)]
    lab.play("a is there", script, *met("a"), *ways, "--final", "none", *words, env=STALL, code=code)


def climbed(lab: Lab) -> None:
    """Three attempts, three in a fresh context, then two minds in worktrees on branches of their own."""
    assert [(fact.strategy, fact.width) for fact in lab.facts(e.AttemptStarted)] == [
        *[("continue", 1)] * 3,
        ("fresh context", 1),
        *[("continue", 1)] * 2,
        ("wider", 2),
    ]
    spawned = lab.facts(e.BranchSpawned)
    assert [fact.place for fact in spawned] == ["here"] * 6 + ["fresh"] * 2
    assert {fact.gitBranch for fact in spawned[:6]} == {"topic"}
    assert all(fact.gitBranch.startswith("orchconverge/m-") for fact in spawned[6:])


def landed(lab: Lab) -> None:
    """The person's checkout is at the new tip, on its branch, with what the one mind wrote, and clean."""
    [graft] = lab.facts(e.BranchGrafted)
    assert graft.branch == "a-is-there.8"
    assert graft.decidedBy.startswith("auto")
    assert lab.git("rev-parse", "topic") == lab.git("rev-parse", "HEAD") == graft.mergeCommit
    assert lab.git("symbolic-ref", "--short", "HEAD") == "topic"
    assert (lab.repo / "a.txt").read_text() == "yes\n"


def test_in_place_a_stall_moves_the_pursuit_to_worktrees_and_what_passes_lands_in_the_checkout(lab: Lab) -> None:
    in_place(lab, "--foreground")
    climbed(lab)
    landed(lab)
    assert lab.git("status", "--porcelain") == ""
    assert lab.worktrees() == []
    assert "in worktrees" in lab.run("--status", "--verbose", code=0).stdout


@pytest.mark.slow
def test_a_checkout_with_changes_is_left_alone_and_waited_for(lab: Lab) -> None:
    (lab.repo / "README.md").write_text("half written\n")
    in_place(lab, "--allow-dirty")
    lab.wait(code=5)
    climbed(lab)
    waiting = lab.facts(e.RunWaiting)[-1]
    assert (waiting.reason, "uncommitted changes: README.md" in waiting.text) == ("branch", True)
    assert lab.facts(e.BranchGrafted) == []
    assert lab.git("status", "--porcelain") == " M README.md"
    assert (lab.repo / "README.md").read_text() == "half written\n"
    assert lab.git("rev-parse", "topic") == lab.git("rev-parse", "main")
    lab.git("stash", "-q")
    lab.fact(e.BranchGrafted, seconds=60.0)
    lab.wait()
    landed(lab)
    lab.git("stash", "pop", "-q")
    assert (lab.repo / "README.md").read_text() == "half written\n"


@pytest.mark.parametrize(("widen", "widths"), [("3", [3]), ("f4", [1, 2])])
def test_in_place_widening_to_a_number_or_by_failures_moves_it_too(lab: Lab, widen: str, widths: list[int]) -> None:
    """A commit that meets nothing is one failure, which f4 answers with one mind more."""
    lab.git("switch", "-q", "-c", "topic")
    wrong = {"write": {"path": "b.txt", "text": "no\n"}}
    script = lab.script(mind(*meets("a"), approach=f"w{sum(widths)}"), mind(wrong, {"commit": "wrong"}))
    ways = [word for name in WAYS for word in ("--approach", name)]
    lab.play("a is there", script, *met("a"), *ways, "--widen", widen, "--final", "none", "--foreground")
    assert [fact.width for fact in lab.facts(e.AttemptStarted)] == widths
    places = {fact.branch: fact.place for fact in lab.facts(e.BranchSpawned)}
    assert list(places.values()) == [where for n in widths for where in (["here"] if n == 1 else ["fresh"] * n)]
    assert lab.git("status", "--porcelain") == ""
    assert (lab.repo / "a.txt").read_text() == "yes\n"


def test_a_width_that_is_none_is_refused_with_what_can_be_given(lab: Lab) -> None:
    refused = lab.play("a is there", lab.script(mind(*meets("a"))), *met("a"), "--widen", "often", code=2)
    assert "widen" in refused.stderr
    assert "stall" in refused.stderr


def twice(lab: Lab, *words: str) -> Path:
    """A goal whose minds all give the same verdict, until the key is there."""
    said = {"kind": "needs_person", "text": "there is no key"}
    question = {"question": "where is the key?"}
    script = lab.script(mind({"report": {"summary": "no", "verdict": said, "frontier": [question]}}))
    lab.play("never done", script, *met("a"), "--final", "none", *words)
    return script


def test_a_block_is_said_at_once_while_the_controller_stays_and_an_answer_makes_it_try_again(lab: Lab) -> None:
    script = twice(lab)
    said = lab.wait(code=5).stdout
    assert "there is no key" in said
    assert "or by itself at" in said
    assert lab.run("--status", "--exit-code").returncode == 5
    [waiting] = lab.facts(e.RunWaiting)
    [*_, blocked] = lab.facts(e.AttemptEnded)
    assert blocked.at is not None
    assert waiting.until is not None
    assert (waiting.until - blocked.at).total_seconds() == 3600
    assert lab.state().basins["never-done"].running is not None
    script.write_text(script.read_text().replace("there is no key", "there is a key"))
    lab.run("frontier", "close", "1", "--answer", "in the vault", code=0)
    lab.fact(e.RunWoke)
    lab.fact(e.AttemptEnded, 3)
    lab.run("--stop", "--cleanup", code=0)


def test_a_resume_of_what_is_blocked_starts_anew_with_what_is_given_now(lab: Lab) -> None:
    twice(lab)
    lab.wait(code=5)
    works = lab.script(mind(*meets("a")), name="works.json")
    lab.run("--resume", "--script", works, code=0)
    lab.wait()
    assert [fact.reason for fact in lab.facts(e.RunStopped)] == ["stopped", "converged"]
    assert len(lab.facts(e.RunStarted)) == 2
    assert lab.facts(e.RunStarted)[-1].settings.script == str(works)


def test_a_mind_at_work_is_not_resumed(lab: Lab) -> None:
    lab.play("never done", lab.script(mind({"hang": True})), *met("a"))
    lab.fact(e.BranchSearching)
    refused = lab.run("--resume", code=2)
    assert "runs already" in refused.stderr
    lab.run("--stop", "--cleanup", code=0)
