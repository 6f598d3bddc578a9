"""Everything that the README and the documentation type is typed here, in their order, and has to do what they say.

The tutorial makes a repository from nothing; the other pages go on in it, as a reader does.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.lib import sample
from tests.docs.blocks import Shell, Step, matches, steps
from tests.e2e import lab as labs

ROOT = Path(__file__).resolve().parents[2]
PAGES = tuple(sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").glob("*.md")))
TUTORIAL = "docs/tutorial.md"
NOT_RUN = {
    "scripts/demo": "installs the project and runs a demo of a minute; .ci/run runs it",
    "scripts/test": "runs these very tests",
    "pipx install .": "installs into the home of whoever types it, and fetches what it needs",
    "python3 -m venv ~/.local/orchconverge && ~/.local/orchconverge/bin/pip install .": "the same without pipx",
    "mkdir -p ~/.local/bin && ln -sf ~/.local/orchconverge/bin/orchconverge ~/.local/bin/": "the end of that",
}
"""Set-up that is not run here, and why."""
SCRIPTED = "--engine scripted --script ../minds.json --interval 0"
PLAYED = {'orchconverge "every test passes" --criterion tests="python3 -m unittest"': SCRIPTED}
"""What needs an agent, and what is typed behind it where there is none."""


def page(name: str) -> list[Step]:
    return [step for step in steps((ROOT / name).read_text(encoding="utf-8")) if step.command not in NOT_RUN]


def played(shell: Shell, name: str) -> None:
    """Type a page's commands. The first one that does not do what is written there fails."""
    for step in page(name):
        code, printed = shell.run(" ".join(filter(None, (step.command, PLAYED.get(step.command)))))
        place = f"{name}:{step.line}: {step.command}\n"
        assert code == step.code, f"{place}left with {code}, not {step.code}:\n{printed}"
        if step.printed is not None:
            wanted = "\n".join(step.printed)
            assert matches(step.printed, printed), f"{place}printed:\n{printed}\n\nand there stands:\n{wanted}"


def opened(lab: labs.Lab, cwd: Path) -> Shell:
    """A shell in which `orchconverge` is what these tests test."""
    program = lab.root / "bin"
    program.mkdir(exist_ok=True)
    (program / "orchconverge").write_text(f'#!/bin/sh\nexec {" ".join(labs.COMMAND)} "$@"\n')
    (program / "orchconverge").chmod(0o700)
    scratch = lab.root / "scratch"
    scratch.mkdir(exist_ok=True)
    return Shell(cwd, lab.env | {"PATH": f"{program}:{os.environ['PATH']}"}, scratch)


@pytest.fixture(scope="module")
def learned() -> Iterator[tuple[labs.Lab, Path]]:
    """Where the tutorial was played to its end: its repository."""
    lab = labs.new("ocdocs")
    for name in [name for name in lab.env if name.startswith(("XDG_", "ORCHCONVERGE_"))]:
        del lab.env[name]  # everything lies where the pages say
    shell = opened(lab, lab.home)
    try:
        played(shell, TUTORIAL)
        yield lab, Path(shell.run("pwd")[1].strip())
    finally:
        shell.close()
        left = lab.close()
    assert not left


@pytest.fixture
def till(learned: tuple[labs.Lab, Path]) -> Path:
    """The sample of `scripts/demo`, whose tests fail, and a mind that puts all of it right."""
    folder = learned[0].root / "sample"
    folder.mkdir()
    sample.make(folder)
    done = {"prices": sample.PRICES_DONE, "basket": sample.BASKET_DONE, "receipt": sample.RECEIPT_DONE}
    parts = [sample.part(f"till/{name}.py", text, f"{name}: write it", "tests") for name, text in done.items()]
    (folder / "minds.json").write_text(json.dumps({"minds": [sample.mind(1, "everything is done", *parts)]}))
    return folder / "till"


@pytest.mark.slow
@pytest.mark.tmux
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", [TUTORIAL, *(name for name in PAGES if name != TUTORIAL and page(name))])
def test_what_a_page_types_does_what_it_says(learned: tuple[labs.Lab, Path], name: str) -> None:
    lab, repository = learned
    if name != TUTORIAL:  # that is `learned` itself
        in_a_shell(lab, repository, name)


@pytest.mark.slow
@pytest.mark.tmux
@pytest.mark.timeout(600)
def test_what_the_readme_types_does_what_it_says(learned: tuple[labs.Lab, Path], till: Path) -> None:
    in_a_shell(learned[0], till, "README.md")


def test_what_is_not_run_stands_somewhere() -> None:
    text = "\n".join((ROOT / name).read_text(encoding="utf-8") for name in (*PAGES, "README.md"))
    assert [command for command in (*NOT_RUN, *PLAYED) if command not in text] == []


def in_a_shell(lab: labs.Lab, cwd: Path, name: str) -> None:
    shell = opened(lab, cwd)
    try:
        played(shell, name)
    finally:
        shell.close()
