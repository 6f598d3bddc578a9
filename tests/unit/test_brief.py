"""What a mind is told of earlier ones: each thing once."""

from __future__ import annotations

from orchconverge.core import events as e
from orchconverge.core.brief import brief
from tests.stories import Story, sha
from tests.tellings import MET


def told(story: Story) -> str:
    story.begin()
    return brief(story.state, story.basin(), story.state.branches_of("auth")[-1], report_path="/report.json")


def test_a_verdict_is_told_once_and_not_also_as_the_reason_why() -> None:
    story = Story().declare().start().check(met=MET[:2])
    story.attempt(
        met=MET[:2], result="verdict", text="missing login, verdict: no key in the vault", verdict="no key in the vault"
    )
    text = told(story)
    assert text.count("no key in the vault") == 1
    assert "Why not: verdict" not in text


def test_a_failure_that_the_result_names_is_not_repeated() -> None:
    story = Story().declare().start().check(met=MET[:2]).begin().wait(60.0, basin="auth")
    story.ended("auth.1").failed("auth.1", "committed nothing, exit 1")
    text = told(story.judge(met=MET[:2], result="no_progress", text="missing login, committed nothing, exit 1"))
    assert text.count("committed nothing, exit 1") == 1


def test_a_failure_that_the_result_does_not_name_is_told() -> None:
    story = Story().declare().start().check(met=MET[:2]).begin().wait(60.0, basin="auth")
    story.ended("auth.1").failed("auth.1", "committed nothing, exit 1")
    assert "Why not: committed nothing, exit 1" in told(story.judge(met=MET[:2], result="failed", text="missing login"))


def test_what_was_learned_twice_is_told_once() -> None:
    story = Story().declare().start().check().begin(minds=2).wait(60.0)
    for branch in ("auth.1", "auth.2"):
        story.ended(branch).candidate(branch, met=["oauth"], residue=["parsing belongs in one place"])
    assert told(story.judge(met=["oauth"])).count("parsing belongs in one place") == 1


def test_who_makes_something_again_is_told_what_it_was_and_what_stood_in_its_way_and_of_nobody() -> None:
    story = Story().declare(lock="person").start(lock="person").check().begin().wait(60.0)
    story.ended("auth.1").candidate("auth.1", met=["oauth"])
    tip = story.basin().tip
    assert tip is not None
    story.tell(e.GraftRefused(basin="auth", branch="auth.1", tip=tip.head, conflicts=("src/login.py",), lost=("docs",)))
    story.judge(decision="WAITING").tell(
        e.AttemptStarted(basin="auth", attempt=2, strategy="continue", why="a retry", engine="claude", retries="auth.1")
    )
    story.tell(
        e.BranchSpawned(
            basin="auth",
            branch="auth.2",
            approach="minimal",
            gitBranch="orchconverge/m-5e",
            worktree="/trees/m-5e",
            base=tip.head,
            engine="claude",
            place="fresh",
            retries="auth.1",
        )
    )
    text = brief(story.state, story.basin(), story.state.branches["auth.2"], report_path="/report.json")
    assert f"`git diff {sha('base')} {sha('auth.1')}`" in text
    assert "conflict in src/login.py, docs lost" in text
    assert "  - `src/login.py`" in text
    theirs = "what auth.1 did"  # the summary, in the words of whoever made it
    assert theirs in text
    assert "auth.1" not in text.replace(theirs, "")
    assert story.state.branches["auth.1"].git_branch not in text


def test_a_mind_of_a_wave_is_told_of_no_work_to_be_made_again() -> None:
    story = Story().declare().start().check()
    assert "Made before" not in told(story)
