"""Stages: which one a goal's slash command declares, and which one is open."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchconverge.adapters.stages import stages_of_goal
from orchconverge.core import events as e
from orchconverge.core.frontiers import open_stage
from orchconverge.core.happened import happened
from orchconverge.core.target import Stage
from orchconverge.core.views.target import block, difference, document
from orchconverge.errors import Refused
from tests.stories import Story

SPEC = Stage(name="spec", output="docs/spec.md")
PLAN = Stage(name="plan", inputs=("docs/spec.md",), output="plan", aliases={"plan": "docs/plan.md"})
DECLARES = "---\ndescription: plans\ninputs: [docs/spec.md]\noutput: {}\n---\nPlan $ARGUMENTS\n"


def command(root: Path, path: str, output: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(DECLARES.format(output))


@pytest.mark.parametrize(
    ("goal", "outputs"),
    [
        ("/plan build the login", ["docs/plan.md"]),
        ("  /plan\nbuild the login", ["docs/plan.md"]),
        ("/review it", ["docs/review.md"]),
        ("/team:plan it", ["docs/team.md"]),
        ("/both it", ["docs/first.md"]),
        ("/bare it", []),
        ("/unknown it", []),
        ("build the login as /plan says", []),
        ("/../plan it", []),
        ("/plan/../plan it", []),
        ("/etc/passwd is read", []),
        ("/", []),
        ("", []),
    ],
)
def test_a_goal_that_begins_with_a_slash_command_gets_the_stage_of_it(
    tmp_path: Path, goal: str, outputs: list[str]
) -> None:
    command(tmp_path, "commands/plan.md", "docs/plan.md")
    command(tmp_path, ".claude/commands/review.md", "docs/review.md")
    command(tmp_path, ".claude/commands/team/plan.md", "docs/team.md")
    command(tmp_path, "commands/both.md", "docs/first.md")
    command(tmp_path, ".claude/commands/both.md", "docs/second.md")
    (tmp_path / "commands" / "bare.md").write_text("Plan $ARGUMENTS\n")
    command(tmp_path, ".claude/commands/bare.md", "docs/never.md")
    assert [stage.output for stage in stages_of_goal(tmp_path, goal)] == outputs


def test_a_command_whose_declaration_cannot_be_is_refused(tmp_path: Path) -> None:
    command(tmp_path, "commands/plan.md", "../elsewhere.md")
    with pytest.raises(Refused, match="the stage plan: output"):
        stages_of_goal(tmp_path, "/plan it")


def test_the_first_stage_whose_output_is_not_written_is_open() -> None:
    stages = (SPEC, PLAN)
    assert open_stage(stages, ()) is SPEC
    assert open_stage(stages, ["docs/spec.md"]) is PLAN
    assert open_stage(stages, ["docs/plan.md"]) is SPEC
    assert open_stage(stages, ["./docs/spec.md", "docs/other.md"]) is PLAN
    assert open_stage(stages, ["docs/spec.md", "docs/plan.md"]) is None, "an output may be named by its alias"
    assert open_stage((), ["docs/spec.md"]) is None


def test_stages_are_on_the_ledger_whole_and_amended_as_other_parts() -> None:
    story = Story().declare(stages=(SPEC, PLAN))
    assert story.basin().stages == (SPEC, PLAN)
    before = story.basin()
    story.tell(e.BasinAmended(basin="auth", why="one is enough", stages=(SPEC,)))
    assert difference(before, story.basin()) == ["- stage plan reads docs/spec.md, writes plan"]
    assert happened(story.facts[-1]).what == "amended"
    story.tell(e.BasinAmended(basin="auth", why="another budget"))
    assert story.basin().stages == (SPEC,), "an amendment of something else leaves them"
    story.tell(e.BasinAmended(basin="auth", why="none", stages=()))
    assert story.basin().stages == ()
    assert happened(story.facts[-1]).what == "amended"


def test_what_was_understood_names_the_stages_and_what_it_starts_from() -> None:
    basin = Story().declare("old").declare(stages=(SPEC, PLAN), parents=("old",)).basin()
    assert block(basin).splitlines()[-3:] == [
        "Stage: spec writes docs/spec.md",
        "Stage: plan reads docs/spec.md, writes plan",
        "Starts From: old",
    ]
    assert document(basin)["stages"][1] == {
        "name": "plan",
        "inputs": ["docs/spec.md"],
        "output": "plan",
        "aliases": {"plan": "docs/plan.md"},
    }
    assert document(basin)["parents"] == ["old"]
    assert "Stage" not in block(Story().declare().basin())
