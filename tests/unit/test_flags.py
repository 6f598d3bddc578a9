"""What of a candidate a person must look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchconverge.core.flags import flags, is_test, matches
from orchconverge.core.target import Criterion


@dataclass
class Changed:
    changed: Sequence[str]
    removed_lines: Mapping[str, int] = field(default_factory=dict)
    executable_changed: Sequence[str] = ()


def of(path: str, command: str = "true", *, removed: int = 0, may_change: Sequence[str] = ()) -> tuple[str, ...]:
    return flags(Changed([path], {path: removed}), [Criterion(name="c", command=command)], may_change)


def test_plain_work_has_no_flags() -> None:
    assert of("src/app.py", "python3 -m pytest -q", removed=9) == ()


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("./check.sh", "check.sh"),
        ("bash scripts//check.sh --all", "scripts/check.sh"),
        ("sh -c './check.sh x && true'", "check.sh"),
        ('test "$(./count.sh)" = 3', "count.sh"),
        ("grep -q a b\n./check.sh", "check.sh"),
        ("if ./check.sh; then true; fi", "check.sh"),
        ("FOO=1 ./check.sh", "check.sh"),
        ("cat log | ./check.sh", "check.sh"),
        ("diff expected.txt out.txt", "expected.txt"),
        ("python3 -m tools.check", "tools/check.py"),
        ("run --config=ci/x.cfg", "ci/x.cfg"),
        ("echo 'not closed ./check.sh", "check.sh"),
        ("make test", "Makefile"),
        ("make -C web test", "web/Makefile"),
        ("cd web && npm test", "web/package.json"),
        ("npm test --silent", "package.json"),
        ("python3 -m pytest -q", "pytest.ini"),
        ("python3 -m pytest tests/test_x.py", "tests/test_x.py"),
    ],
)
def test_what_a_criterion_runs_is_flagged(command: str, path: str) -> None:
    assert of(path, command) == (f"criterion: {path}",)


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("grep -q yes done.txt", "done.txt"),
        ("test -f done.txt && ! grep -q no done.txt", "done.txt"),
        ("[ -s done.txt ]", "done.txt"),
        ("ruff check src", "src/app.py"),
        ("python3 -m pytest tests", "tests/test_new.py"),
        ("make test", "src/Makefile.md"),
    ],
)
def test_what_the_work_is_to_bring_about_is_not_flagged(command: str, path: str) -> None:
    assert of(path, command) == ()


def test_a_judge_has_no_command_to_change() -> None:
    assert flags(Changed(["check.sh"]), [Criterion(name="j", kind="judge", text="see ./check.sh")]) == ()


def test_a_test_file_with_deleted_lines_is_flagged_and_one_with_added_lines_is_not() -> None:
    assert of("tests/test_a.py", removed=1) == ("test removed: tests/test_a.py",)
    assert of("tests/test_a.py") == ()
    assert of("pkg/a_test.go", removed=3) == ("test removed: pkg/a_test.go",)
    assert of("web/app.spec.ts", removed=3) == ("test removed: web/app.spec.ts",)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (".github/workflows/ci.yml", "ci"),
        ("Jenkinsfile", "ci"),
        (".travis.yml", "ci"),
        (".husky/pre-commit", "hooks"),
        (".pre-commit-config.yaml", "hooks"),
        ("src/.gitattributes", "hooks"),
        ("AGENTS.md", "agent instructions"),
        ("deep/in/CLAUDE.md", "agent instructions"),
        ("GEMINI.md", "agent instructions"),
        (".claude/settings.json", "agent instructions"),
        ("sub/.codex/config.toml", "agent instructions"),
        (".gemini/x", "agent instructions"),
        (".cursor/rules/a.mdc", "agent instructions"),
        (".opencode/agent/a.md", "agent instructions"),
        (".github/copilot-instructions.md", "agent instructions"),
        ("orchconverge.toml", "settings of the run"),
        (".worktreeinclude", "settings of the run"),
    ],
)
def test_what_commands_machines_and_agents_is_flagged(path: str, kind: str) -> None:
    assert of(path) == (f"{kind}: {path}",)


@pytest.mark.parametrize("path", [".travis.yml.md", "docs/agents.md", "hooks/useThing.ts", "claude/x", "src/ci/x.py"])
def test_what_only_looks_like_it_is_not_flagged(path: str) -> None:
    assert of(path) == ()


def test_a_changed_mode_counts_as_a_change() -> None:
    assert flags(Changed([], {}, ["check.sh"]), [Criterion(name="c", command="./check.sh")]) == ("criterion: check.sh",)


def test_the_criterion_comes_first_and_nothing_twice() -> None:
    work = Changed(["AGENTS.md", "tests/check.py", "tests/check.py"], {"tests/check.py": 2}, ["tests/check.py"])
    assert flags(work, [Criterion(name="c", command="python3 tests/check.py")]) == (
        "criterion: tests/check.py",
        "agent instructions: AGENTS.md",
        "test removed: tests/check.py",
    )


def test_may_change_lifts_the_flags_of_what_it_matches_alone() -> None:
    assert of("tests/a/test_x.py", removed=1, may_change=["tests/**"]) == ()
    assert of("tests/a/test_x.py", removed=1, may_change=["tests/*"]) != ()
    assert of("check.sh", "./check.sh", may_change=["./check.sh"]) == ()


@pytest.mark.parametrize(
    ("path", "glob", "expected"),
    [
        ("tests/a/b.py", "tests/**", True),
        ("tests/a/b.py", "tests/", True),
        ("tests", "tests/**", False),
        ("tests2/a.py", "tests/**", False),
        ("a.py", "**/a.py", True),
        ("x/y/a.py", "**/a.py", True),
        ("x/y/a.py", "x/**/a.py", True),
        ("x/a.py", "x/**/a.py", True),
        ("x/y/z", "**", True),
        ("x/y", "*", False),
        ("x/y", "*/y", True),
        ("x/y", "**/**/**/y", True),
        ("x/A.py", "x/a.py", False),
        ("x/a1.py", "x/a[0-9].py", True),
        ("x/a.py", "a.py", False),
        ("x", "", False),
    ],
)
def test_globs(path: str, glob: str, expected: bool) -> None:
    assert matches(path, glob) is expected


def test_many_stars_cost_little() -> None:
    assert not matches("/".join(["a"] * 200), "/".join(["**", "*a*"] * 100) + "/b")


@given(st.text(max_size=40), st.text(max_size=40))
def test_any_glob_gives_an_answer(path: str, glob: str) -> None:
    assert matches(path, glob) in (True, False)


_PIECES = st.lists(
    st.sampled_from(["'", '"', "\\", "$(", "`", ")", "(", " ", "\n", ";", "|", "a/b", "./x", "=", "#"]), max_size=20
)


@given(st.text(max_size=60) | _PIECES.map("".join))
def test_any_command_gives_flags(command: str) -> None:
    if command.strip() and "\0" not in command:
        assert isinstance(of("x", command), tuple)


def test_what_a_test_looks_like() -> None:
    assert is_test("tests/data/x.json")
    assert is_test("src/x/test_a.py")
    assert not is_test("src/contest.py")
