"""What a mind is told of earlier ones: each thing once."""

from __future__ import annotations

from orchconverge.core import events as e
from orchconverge.core.brief import brief
from orchconverge.core.target import Stage
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


def test_stages_are_told_with_what_they_read_and_write() -> None:
    plan = Stage(name="plan", inputs=("docs/spec.md", "docs/a b.md"), output="docs/plan.md")
    text = told(Story().declare(stages=(Stage(name="spec", output="docs/spec.md"), plan)).start().check())
    assert (
        "\n- spec: writes `docs/spec.md`\n- plan: reads `docs/spec.md`, `docs/a b.md`, writes `docs/plan.md`\n" in text
    )
    assert "# Stages" not in told(Story().declare().start().check())


def learned(story: Story, basin: str, text: str, question: str) -> Story:
    """A pursuit of one mind that left this behind."""
    story.declare(basin, target=basin).start(basin).check(basin).begin(basin).wait(60.0)
    story.ended(f"{basin}.1").candidate(f"{basin}.1", met=["oauth"], residue=[text])
    story.tell(e.FrontierAdded(question=question, origin=f"{basin}.1", basin=basin))
    return story.judge(basin, met=["oauth"])


def test_what_the_pursuits_before_it_learned_and_left_open_is_told_too_and_theirs_and_no_others() -> None:
    story = learned(Story(), "first", "tokens are opaque", "Do tokens rotate?")
    story.tell(e.FrontierClosed(question="Do tokens rotate?", answer="yes"))
    story.tell(e.FrontierAdded(question="Who revokes them?", origin="first.1", basin="first"))
    learned(story, "stranger", "css is cascading", "Is it blue?")
    story.declare("second", target="second", parents=("first",)).start("second").check("second")
    story.declare(parents=("second", "gone")).start().check()
    text = told(story)
    assert "# What was learned\n\n- tokens are opaque\n" in text
    assert "# Open questions\n\n- Who revokes them?\n" in text
    assert not any(word in text for word in ("rotate", "cascading", "blue", "first", "second"))


def test_its_own_residue_comes_last_and_is_kept_longest() -> None:
    story = learned(Story(), "first", "older", "Q?").declare(parents=("first",)).start().check().begin().wait(60.0)
    story.ended("auth.1").candidate("auth.1", met=["oauth"], residue=[f"own {n}" for n in range(29)])
    text = told(story.judge(met=["oauth"]))
    assert text.index("- older\n") < text.index("- own 0\n") < text.index("- own 28\n")
    story.ended("auth.2").candidate("auth.2", met=["oauth"], residue=["one more"])
    later = told(story.judge(met=["oauth"]))
    assert "- older\n" not in later
    assert "- own 0\n" in later


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
