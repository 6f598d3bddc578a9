"""The target file: exactly what the design says, and for all else what to add."""

from __future__ import annotations

import tomllib
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchconverge.core.target import Budget, Criterion, Stage, Termination
from orchconverge.errors import Refused
from orchconverge.target_file import Written, load_target_file, written

WHOLE = """
id = "drive"
title = "Drive it"
macrostate = "done.txt says yes"
termination = "all criteria hold, or 3 attempts, or 1 hour"
budget = {usd = 12, tokens = 2000000, minds = 8}
target = "topic"
lock = "person"
approaches = ["minimal", "library-first"]
may_change = ["tests/**"]
[[criteria]]
name = "done"
command = "./check.sh"
required = true
stage = "loop"
deadline = 600
[[criteria]]
name = "reviewed"
kind = "review"
stage = "chain"
required = false
[[criteria]]
name = "docs"
kind = "docs"
paths = ["README.md"]
"""
SHORT = """
title = "Drive it"
macrostate = "m"
termination = "all criteria hold, or 3 attempts"
[[criteria]]
name = "done"
command = "./check.sh"
"""
SENTENCE = '"all criteria hold, or 3 attempts"'


def read(text: str, *, root: Path = Path("nowhere"), found: tuple[Criterion, ...] = ()) -> Written:
    return written(tomllib.loads(text), "t.toml", root=root, found=found)


def test_a_whole_file_is_taken(tmp_path: Path) -> None:
    (tmp_path / "t.toml").write_text(WHOLE)
    assert load_target_file(tmp_path / "t.toml", root=tmp_path) == Written(
        basin="drive",
        title="Drive it",
        macrostate="done.txt says yes",
        criteria=(
            Criterion(name="done", command="./check.sh"),
            Criterion(name="reviewed", kind="review", stage="chain", required=False),
            Criterion(name="docs", kind="docs", paths=("README.md",)),
        ),
        termination=Termination(attempts=3, hours=1.0),
        budget=Budget(usd=12, tokens=2_000_000, minds=8),
        branch="topic",
        lock="person",
        approaches=("minimal", "library-first"),
        may_change=("tests/**",),
    )


def test_a_short_file_gets_the_defaults() -> None:
    target = read(SHORT)
    assert (target.basin, target.branch, target.lock, target.budget) == ("drive-it", None, None, Budget())


def test_the_table_form_of_a_termination() -> None:
    target = read(SHORT.replace(SENTENCE, '{attempts = 2, hours = 0.5, until = "2030-01-31T18:00:00+02:00"}'))
    assert target.termination == Termination(attempts=2, hours=0.5, until=datetime(2030, 1, 31, 16, tzinfo=UTC))
    assert read(SHORT.replace(SENTENCE, "{until = 2030-01-31T18:00:00Z}")).termination.until is not None


def test_tests_without_a_command_are_the_ones_that_were_found() -> None:
    text = SHORT.replace('command = "./check.sh"', 'kind = "tests"')
    own = Criterion(name="tests", kind="tests", command="make test")
    assert read(text, found=(own,)).criteria == (Criterion(name="done", kind="tests", command="make test"),)
    with pytest.raises(Refused, match="how tests are run"):
        read(text)


STAGES = """
[[stages]]
name = "spec"
output = "docs/spec.md"
[[stages]]
command = "commands/plan.md"
"""


def test_stages_are_declared_in_the_file_or_by_a_command_of_the_repository(tmp_path: Path) -> None:
    (tmp_path / "commands").mkdir()
    (tmp_path / "commands" / "plan.md").write_text(
        "---\ninputs: [docs/spec.md]\noutput: docs/plan.md\naliases: {plan: docs/plan.md}\n---\nPlan $ARGUMENTS\n"
    )
    assert read(SHORT + STAGES, root=tmp_path).stages == (
        Stage(name="spec", output="docs/spec.md"),
        Stage(name="plan", inputs=("docs/spec.md",), output="docs/plan.md", aliases={"plan": "docs/plan.md"}),
    )


@pytest.mark.parametrize(
    ("stage", "says", "hint"),
    [
        ('name = "spec"', "a name and an output are needed, or a command", "[[stages]]"),
        ('output = "a.md"', "a name and an output are needed, or a command", "[[stages]]"),
        ('name = "x"\ncommand = "commands/bare.md"', "declares all of its stage itself", "[[stages]]"),
        ('name = "spec"\noutput = "../a.md"', "stages.0.output in t.toml: a path below the top", "[[stages]]"),
        ('name = "spec"\noutput = "a.md"\ninputs = ["*.md"]', "stages.0.inputs.0 in t.toml: one path", "[[stages]]"),
        ('name = "spec"\noutputs = "a.md"', "[[stages]] of t.toml has no setting called 'outputs'", "output"),
        ('command = "commands/none.md"', "there is no commands/none.md in this repository", "commands/plan.md"),
        ('command = "/etc/passwd"', "stages.0.command in t.toml: a path below the top", "[[stages]]"),
        ('command = "commands/bare.md"', "commands/bare.md declares no stage", "output: docs/plan.md"),
        ('command = "commands/half.md"', "the stage half: output: Field required", "output: docs/plan.md"),
        (
            'name = "spec"\noutput = "a.md"\n[[stages]]\nname = "spec"\noutput = "b.md"',
            "two stages are called spec",
            "another name",
        ),
    ],
)
def test_a_stage_that_cannot_be_is_refused_with_what_to_write(tmp_path: Path, stage: str, says: str, hint: str) -> None:
    (tmp_path / "commands").mkdir()
    (tmp_path / "commands" / "bare.md").write_text("---\ndescription: plans\n---\nPlan it\n")
    (tmp_path / "commands" / "half.md").write_text("---\ninputs: [a.md]\n---\n")
    with pytest.raises(Refused) as refused:
        read(f"{SHORT}[[stages]]\n{stage}\n", root=tmp_path)
    assert says in refused.value.message
    assert hint in refused.value.hint


def test_a_judge_has_the_clauses_of_its_text_or_those_that_are_written() -> None:
    drafted = read(SHORT.replace('command = "./check.sh"', 'kind = "judge"\ntext = "It is fast. It is small."'))
    assert drafted.criteria[0].clauses == ("It is fast", "It is small")
    own = read(SHORT.replace('command = "./check.sh"', 'kind = "judge"\nclauses = ["It is fast. Really."]'))
    assert (own.criteria[0].text, own.criteria[0].clauses) == ("It is fast. Really.", ("It is fast. Really.",))


@pytest.mark.parametrize(
    ("old", "new", "says", "hint"),
    [
        (f"termination = {SENTENCE}", "", "no stop condition", "add e.g. termination"),
        (SENTENCE, "{}", "needs a stop condition", "add e.g. termination"),
        (SENTENCE, '"all criteria hold"', "needs a stop condition", "add e.g. termination"),
        (SENTENCE, '"when it is done"', "is not of the form", "add e.g. termination"),
        (SENTENCE, '"all criteria hold, or 0 attempts"', "greater than or equal to 1", "termination"),
        (SENTENCE, "{attempts = 0}", "greater than or equal to 1", "termination"),
        (SENTENCE, "{attempts = true}", "not true or false", "termination"),
        (SENTENCE, "{hours = inf}", "finite", "termination"),
        (SENTENCE, "{hours = 1e9}", "less than or equal", "termination"),
        (SENTENCE, "3", "a sentence or a table", "termination"),
        (SENTENCE, '{until = "2030-01-31T18:00:00"}', "timezone", "with its zone"),
        (SENTENCE, "{until = 5}", "date", "with its zone"),
        (SENTENCE, "{attemps = 3}", "no setting called 'attemps'", "attempts"),
        ("termination =", "terminate =", "no setting called 'terminate'", "termination"),
        ('macrostate = "m"', "", "has no macrostate", "what is true of the world"),
        ('macrostate = "m"', 'macrostate = " "', "blank", "what is true of the world"),
        ('title = "Drive it"', "", "has no title", "add title"),
        ('title = "Drive it"', 'id = "A"\ntitle = "x"', "id in t.toml", ""),
        ('title = "Drive it"', 'title = "x"\nbudget = {usd = 0}', "budget.usd", ""),
        ('title = "Drive it"', 'title = "x"\nbudget = {usd = inf}', "budget.usd", ""),
        ('title = "Drive it"', 'title = "x"\nlock = "nobody"', "lock in t.toml", ""),
        ('title = "Drive it"', 'title = "x"\napproaches = [""]', "approaches.0", ""),
        ('title = "Drive it"', 'title = "x"\nengine = "claude"', "no setting called 'engine'", ""),
        ('command = "./check.sh"', "", "done has no command", "add command"),
        ('command = "./check.sh"', 'comand = "x"', "no setting called 'comand'", "command"),
        ('command = "./check.sh"', 'command = "a\\u0000"', "NUL", ""),
        ('command = "./check.sh"', 'kind = "dcos"', "'docs'", ""),
        ('command = "./check.sh"', 'kind = "docs"', "names no paths", "add paths"),
        ('command = "./check.sh"', 'kind = "judge"', "done has no text", 'add text = "what must be true"'),
        ('command = "./check.sh"', 'kind = "judge"\ntext = "..."', "no clause that could", "add text"),
        ('command = "./check.sh"', 'kind = "judge"\ntext = "a;b; c; d; e; f; g; h; i; j; k; l; m; n"', "most", "fewer"),
        ('command = "./check.sh"', 'kind = "judge"\ntext = "a"\nstage = "chain"', "by nobody", "mend"),
        ('command = "./check.sh"', 'kind = "judge"\nclauses = [" "]', "clauses", ""),
        ('command = "./check.sh"', 'command = "x"\nclauses = ["a"]', "is no judge", "mend"),
        ('command = "./check.sh"', 'kind = "changed"', "nothing can be gained", "add [[criteria]]"),
        ('command = "./check.sh"', 'kind = "review"', "nothing can be gained", "add [[criteria]]"),
        ('command = "./check.sh"', 'command = "x"\nstage = "chain"', "nothing can be gained", "add [[criteria]]"),
        ('name = "done"', "", "criterion 1 has no name", "add name"),
        ('name = "done"', 'name = "Done"', "must look like", "add name"),
        ('command = "./check.sh"', 'command = "x"\n[[criteria]]\nname = "done"\ncommand = "y"', "two criteria", ""),
        ('[[criteria]]\nname = "done"\ncommand = "./check.sh"', "criteria = []", "criteria", "add [[criteria]]"),
        ('[[criteria]]\nname = "done"\ncommand = "./check.sh"', "", "no criteria", "add [[criteria]]"),
    ],
)
def test_all_else_is_refused_with_what_to_add(old: str, new: str, says: str, hint: str) -> None:
    assert old in SHORT
    with pytest.raises(Refused) as refused:
        read(SHORT.replace(old, new))
    assert says in refused.value.message
    assert hint in refused.value.hint


@pytest.mark.parametrize(
    ("data", "says"), [(b"a =", "not TOML"), (b"a = '\xff'", "not UTF-8"), (b"a=" + b"[" * 50_000, "TOML")]
)
def test_what_is_no_toml_is_refused(tmp_path: Path, data: bytes, says: str) -> None:
    (tmp_path / "t.toml").write_bytes(data)
    with pytest.raises(Refused, match=says):
        load_target_file(tmp_path / "t.toml", root=tmp_path)


def test_a_missing_file_a_folder_and_a_huge_one_are_refused(tmp_path: Path) -> None:
    (tmp_path / "huge.toml").write_bytes(b"#" * (2 << 20))
    for path, says in (
        (tmp_path / "no.toml", "there is no"),
        (tmp_path, "regular"),
        (tmp_path / "huge.toml", "larger"),
    ):
        with pytest.raises(Refused, match=says):
            load_target_file(path, root=tmp_path)


VALUES = st.recursive(
    st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.datetimes(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "kind", "command", "attempts", "until", "usd", "output", "x"]), inner, max_size=3
        )
    ),
    max_leaves=8,
)
KEYS = [
    *("id", "title", "macrostate", "termination", "criteria", "budget", "target", "lock", "approaches", "may_change")
]
KEYS += ["stages"]


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(KEYS), VALUES))
def test_any_table_is_taken_or_refused(table: dict[str, object]) -> None:
    try:
        written({**tomllib.loads(SHORT), **table}, "t.toml", root=Path("nowhere"))
    except Refused as refused:
        assert refused.message
