"""What a mind is told of earlier ones: each thing once."""

from __future__ import annotations

from orchconverge.core.brief import brief
from tests.stories import Story
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
