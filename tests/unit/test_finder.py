"""What a repository says of its tests, and what may be typed as a criterion."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchconverge.adapters.finder import CHANGED, MERGEABLE, criterion_from, found
from orchconverge.core.target import Criterion
from orchconverge.errors import Refused

UNITTEST = "import unittest\nclass T(unittest.TestCase):\n    def test_a(self): pass\n"


def made(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def command(root: Path) -> str:
    first = found(root)[0]
    return first.command if first.kind == "tests" else ""


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"pyproject.toml": "[tool.pytest.ini_options]\n"}, "python3 -m pytest -q"),
        ({"pyproject.toml": "[dependency-groups]\ntest = ['pytest>=8']\n"}, "python3 -m pytest -q"),
        ({"pytest.ini": ""}, "python3 -m pytest -q"),
        ({"tox.ini": "[tox]\n[pytest]\naddopts = -q\n"}, "python3 -m pytest -q"),
        ({"setup.cfg": "[tool:pytest]\n"}, "python3 -m pytest -q"),
        ({"conftest.py": ""}, "python3 -m pytest -q"),
        ({"tests/test_a.py": "def test_a(): pass\n"}, "python3 -m pytest -q"),
        ({"tests/unit/deep/test_a.py": "def test_a(): pass\n"}, "python3 -m pytest -q"),
        ({"package.json": '{"scripts": {"test": "vitest run"}}'}, "npm test --silent"),
        ({"Cargo.toml": '[package]\nname = "x"\n'}, "cargo test"),
        ({"Cargo.toml": '[workspace]\nmembers = ["a"]\n'}, "cargo test"),
        ({"go.mod": "module x/y\n"}, "go test -json ./..."),
        ({"Makefile": "test: build\n\tgo\n"}, "make test"),
        ({"Makefile": ".PHONY: all\nall lint check::\n\tgo\n"}, "make check"),
        ({"GNUmakefile": "test:\n", "Makefile": "check:\n"}, "make test"),
        ({"Cargo.toml": '[package]\nname = "x"\n', "Makefile": "test:\n"}, "cargo test"),
    ],
)
def test_a_runner_is_found_by_the_file_that_declares_it(tmp_path: Path, files: dict[str, str], expected: str) -> None:
    assert found(made(tmp_path, files)) == (
        Criterion(name="tests", kind="tests", command=expected),
        CHANGED,
        MERGEABLE,
    )


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"pyproject.toml": "[project]\nname = 'mypytest'\n"},
        {"package.json": '{"scripts": {"test": "echo \\"Error: no test specified\\" && exit 1"}}'},
        {"package.json": '{"scripts": {"test": ""}}'},
        {"package.json": '{"scripts": ["test"]}'},
        {"package.json": "[" * 100_000},
        {"package.json": "not json"},
        {"Cargo.toml": "[package"},
        {"go.mod": "// module\n"},
        {"Makefile": "test := yes\ntest ::= yes\nX = a:test\n\ttest: x\n# test:\nlatest:\n"},
        {"Makefile/x": ""},
        {"src/test_a.py": "def test_a(): pass\n"},
    ],
)
def test_where_nothing_declares_tests_only_the_conditions_are_found(tmp_path: Path, files: dict[str, str]) -> None:
    assert found(made(tmp_path, files)) == (CHANGED, MERGEABLE)


@pytest.fixture
def without_pytest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `python3` on the PATH that knows no pytest."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "python3").write_text("#!/bin/sh\nexit 1\n")
    (folder / "python3").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    root = tmp_path / "root"
    root.mkdir()
    return root


def test_plain_unittest_is_run_as_such_where_there_is_no_pytest(without_pytest: Path) -> None:
    assert (
        command(made(without_pytest, {"tests/__init__.py": "", "tests/test_a.py": UNITTEST}))
        == "python3 -m unittest -v"
    )


def test_tests_in_a_folder_that_is_no_package_are_discovered_there(without_pytest: Path) -> None:
    root = made(without_pytest, {"tests/test_a.py": UNITTEST})
    assert command(root) == "python3 -m unittest discover -v -s tests"


def test_a_pytest_that_is_declared_is_meant_even_if_it_is_not_installed(without_pytest: Path) -> None:
    assert command(made(without_pytest, {"pytest.ini": "", "test_a.py": UNITTEST})) == "python3 -m pytest -q"


def test_tests_that_are_no_unittests_need_pytest(without_pytest: Path) -> None:
    root = made(without_pytest, {"test_a.py": UNITTEST, "test_b.py": "def test_b(): pass\n"})
    assert command(root) == "python3 -m pytest -q"


def test_unittests_are_run_by_a_pytest_that_is_there(without_pytest: Path, tmp_path: Path) -> None:
    (tmp_path / "bin" / "python3").write_text("#!/bin/sh\nexit 0\n")
    assert command(made(without_pytest, {"test_a.py": UNITTEST})) == "python3 -m pytest -q"


def test_a_python_that_cannot_be_started_has_no_pytest(without_pytest: Path, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "bin")
    assert command(made(without_pytest, {"test_a.py": UNITTEST})) == "python3 -m unittest -v"


def test_no_link_out_of_the_root_is_followed(tmp_path: Path) -> None:
    outside = made(tmp_path / "outside", {"Makefile": "test:\n", "tests/test_a.py": "def test_a(): pass\n"})
    root = made(tmp_path / "root", {"README.md": ""})
    (root / "Makefile").symlink_to(outside / "Makefile")
    (root / "tests").symlink_to(outside / "tests")
    (root / "conftest.py").symlink_to("/etc/hostname")
    assert found(root) == (CHANGED, MERGEABLE)


def test_a_link_within_the_root_is_followed(tmp_path: Path) -> None:
    root = made(tmp_path, {"build/Makefile": "test:\n"})
    (root / "Makefile").symlink_to("build/Makefile")
    assert command(root) == "make test"


def test_a_pipe_and_a_huge_file_are_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "Makefile")
    (tmp_path / "package.json").write_text('{"scripts": {"test": "x"}}' + " " * (1 << 20))
    assert found(tmp_path) == (CHANGED, MERGEABLE)


@given(st.binary(max_size=200))
def test_any_bytes_in_the_files_give_criteria(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    root = tmp_path_factory.getbasetemp() / "any"
    root.mkdir(exist_ok=True)
    for name in ("package.json", "Cargo.toml", "go.mod", "Makefile", "pyproject.toml", "tox.ini"):
        (root / name).write_bytes(data)
    assert found(root)[-2:] == (CHANGED, MERGEABLE)


TESTS = Criterion(name="tests", kind="tests", command="make test")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("done=./check.sh", Criterion(name="done", command="./check.sh")),
        ("done = test a = b ", Criterion(name="done", command="test a = b")),
        ("tests", TESTS),
        ("tests=tox -q", Criterion(name="tests", kind="tests", command="tox -q")),
        ("docs", Criterion(name="docs", kind="docs", paths=("README.md",))),
        ("docs=./README.md, docs/**", Criterion(name="docs", kind="docs", paths=("README.md", "docs/**"))),
        (
            "judge=It is fast. It is small.",
            Criterion(
                name="judge", kind="judge", text="It is fast. It is small.", clauses=("It is fast", "It is small")
            ),
        ),
        ("changed", CHANGED),
        ("mergeable", MERGEABLE),
        ("review", Criterion(name="review", kind="review", stage="chain")),
        ("pr", Criterion(name="pr", kind="pr", stage="chain")),
        ("ci", Criterion(name="ci", kind="ci", stage="chain")),
    ],
)
def test_what_may_be_typed_as_a_criterion(text: str, expected: Criterion) -> None:
    assert criterion_from(text, (TESTS, CHANGED)) == expected


@pytest.mark.parametrize(
    ("text", "says", "hint"),
    [
        ("Done=./x", "cannot be the name", 'done="./x"'),
        ("=./x", "cannot be the name", 'goal="./x"'),
        ("done=", "nothing after the =", 'done="COMMAND"'),
        ("docs=", "nothing after the =", "README.md"),
        ("docs=,", "names no paths", "write e.g."),
        ("docs=/etc/passwd", "not a path inside", "write e.g."),
        ("docs=../x", "not a path inside", "write e.g."),
        ("review=make review", "takes no command", 'my-review="make review"'),
        ("judge", "has to be told", "what must be true"),
        ("judge=...", "no clause", "write fewer"),
        (f"judge={'it is so. ' * 3}{'. '.join(map(str, range(12)))}", "13 clauses, 12 at most", "several targets"),
        ("test", "no kind of criterion", "did you mean --criterion tests?"),
        ("make lint", "no kind of criterion", 'make-lint="COMMAND"'),
        ("", "no kind of criterion", "COMMAND"),
        ("done=a\0b", "NUL", "write e.g."),
    ],
)
def test_what_may_not_be_typed_is_refused_with_what_to_type(text: str, says: str, hint: str) -> None:
    with pytest.raises(Refused) as refused:
        criterion_from(text, (TESTS,))
    assert says in refused.value.message
    assert hint in refused.value.hint


def test_tests_alone_are_refused_where_none_were_found() -> None:
    with pytest.raises(Refused, match="how tests are run") as refused:
        criterion_from("tests", (CHANGED,))
    assert refused.value.hint == 'write --criterion tests="COMMAND"'


@given(st.text(max_size=80))
def test_any_text_is_a_criterion_or_refused(text: str) -> None:
    try:
        assert isinstance(criterion_from(text), Criterion)
    except Refused as refused:
        assert refused.hint
