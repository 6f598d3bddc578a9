"""Completion as shells ask for it: real bash, zsh and fish, with names from a ledger, and nothing said on any trouble."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from orchconverge.cli import COMPLETE
from orchconverge.cli.completion import VARIABLE, names_of
from orchconverge.cli.group import HOMES, orchconverge
from orchconverge.core.upcast import encode
from tests.e2e.lab import Lab, new
from tests.e2e.terminal import Terminal
from tests.stories import Story, check

OTHERS = frozenset(
    {"goal", "question", "shell", "state", "agents", "name of _step", "basin of _drive", "basin of _step"}
)
"""Arguments that are no names of ours, or that nobody types."""
SHELLS = {
    "bash": (("--norc", "--noprofile", "-i"), 'source <(orchconverge completion bash); echo "rea""dy"'),
    "zsh": (
        ("-f", "-i"),
        'autoload -U compinit; compinit -D; eval "$(orchconverge completion zsh)"; echo "rea""dy"',
    ),
}
"""How it is started on a terminal, and what a person has in its start file."""


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """The goals first, which is over, and second, which runs; `orchconverge` is on PATH."""
    made = new("cp")
    script = made.root / "bin" / "orchconverge"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m orchconverge "$@"\n')
    script.chmod(0o755)
    made.env["PATH"] = f"{script.parent}:{made.env['PATH']}"
    story = Story().declare("first", goal="one: a, b\tand $(touch canary)", criteria=(check("a"),)).start("first")
    story.check("first").begin("first").ended("first.1").candidate("first.1", met=["a"]).stop("waiting", basin="first")
    story.declare("second", goal="two", criteria=(check("a"),), target="other").start("second")
    made.state_dir.mkdir(mode=0o700)
    made.ledger.write_bytes(b"".join(encode(fact) for fact in story.facts))
    made.ledger.chmod(0o600)
    yield made
    assert not list(made.root.rglob("canary*"))
    assert made.close() == []


def asked(lab: Lab, *words: str, cwd: Path | None = None, **env: str) -> list[str]:
    """What is offered for the last of these words, which come after `orchconverge`. Nothing else may be said."""
    line = "\n".join(("orchconverge", *words))
    given = {COMPLETE: "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words)), **env}
    ran = lab.run(cwd=cwd, env=given, code=0)
    assert ran.stderr == ""
    offered = ran.stdout.split()
    assert all(one.startswith("plain,") for one in offered)
    return [one.removeprefix("plain,") for one in offered]


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("grap",), ["graph"]),
        (("gr",), ["graft", "graph"]),
        (("_",), []),
        (("--sto",), ["--stop"]),
        (("--goal-f",), ["--goal-file"]),
        (("status", ""), ["second", "first"]),
        (("status", "f"), ["first"]),
        (("--status", "s"), ["second"]),
        (("stop", ""), ["second"]),
        (("logs", ""), ["second", "first", "first.1"]),
        (("logs", "--kind", "a"), ["agent"]),
        (("diff", "first.1", "f"), ["first.1"]),
        (("graft", ""), ["first.1"]),
        (("prune", ""), ["first.1"]),
        (("run", "--from", "s"), ["second"]),
        (("'fix it'", "--max-a"), ["--max-attempts"]),
        (("--max-hours", "2", "--max-a"), ["--max-attempts"]),
        (("fix", ""), []),
        (("satus", ""), []),
        (("'$(touch canary)'", "--wid"), ["--widen"]),
        (("ledger", "v"), ["verify"]),
        (("completion", ""), ["bash", "zsh", "fish"]),
    ],
)
def test_words_are_completed(lab: Lab, words: tuple[str, ...], offered: list[str]) -> None:
    assert asked(lab, *words) == offered


def test_every_argument_of_every_command_completes_names_or_is_known_to_take_others() -> None:
    untold = []
    for name in HOMES:
        command = orchconverge.get_command(click.Context(orchconverge), name)
        assert command is not None
        every = command.commands.values() if isinstance(command, click.Group) else [command]
        for one in every:
            for parameter in one.params:
                known = {parameter.name, f"{parameter.name} of {name}"}
                if isinstance(parameter, click.Argument) and not known & OTHERS and names_of(name, parameter) is None:
                    untold.append(f"{parameter.name} of {name}")
    assert not untold, "say what they take, in names_of or here"


def test_nothing_is_said_where_nothing_is_known(lab: Lab) -> None:
    outside = lab.root / "outside"
    outside.mkdir(exist_ok=True)
    assert asked(lab, "status", "", cwd=outside) == []
    assert asked(lab, "status", "", ORCHCONVERGE_STATE_DIR="relative") == []
    assert asked(lab, COMP_CWORD="x") == []
    assert lab.run(env={COMPLETE: "tcsh_complete"}, code=0).stdout == ""
    assert COMPLETE == VARIABLE
    os.chmod(lab.ledger, 0o000)  # noqa: PTH101
    try:
        assert asked(lab, "status", "") == ([] if os.geteuid() else ["second", "first"])
    finally:
        lab.ledger.chmod(0o600)


def test_an_odd_name_in_a_damaged_line_is_not_offered(lab: Lab) -> None:
    state = lab.root / "state"
    state.mkdir(mode=0o700)
    [declared, *_] = lab.lines().splitlines(keepends=True)
    odd = declared.replace(b'"basin":"first"', b'"basin":"$(touch canary)"').replace(b'"seq":1', b'"seq":2')
    assert odd != declared
    (state / "ledger.jsonl").write_bytes(declared + odd)
    (state / "ledger.jsonl").chmod(0o600)
    assert asked(lab, "status", "", ORCHCONVERGE_STATE_DIR=str(state)) == ["first"]


@pytest.mark.slow
@pytest.mark.parametrize("shell", sorted(SHELLS))
def test_a_person_types_a_tab(lab: Lab, shell: str) -> None:
    argv, begins = SHELLS[shell]
    found = shutil.which(shell)
    if not found:
        pytest.skip(f"needs {shell}")
    with Terminal(lab, program=(found, *argv)) as terminal:
        terminal.type(begins).until("ready")
        for typed, whole in (
            ("orchconverge stop s", "orchconverge stop second"),
            ("orchconverge logs first.", "orchconverge logs first.1"),
            ("orchconverge 'it is $(touch canary)' --max-a", "orchconverge it is $(touch canary) --max-attempts"),
        ):
            os.write(terminal.ours, f"{typed}\t".encode())
            terminal.until(whole.split()[-1].removeprefix(typed.split()[-1]))
            os.write(terminal.ours, b"\x01echo '<'\n")
            terminal.until(f"<{whole}")
        terminal.type("exit").end(0)


@pytest.mark.slow
def test_fish_completes(lab: Lab) -> None:
    if not shutil.which("fish"):
        pytest.skip("needs fish")

    def offered(line: str) -> list[str]:
        program = "orchconverge completion fish | source; complete --do-complete $argv[1]"
        command = ["fish", "--no-config", "-c", program, line]
        ran = subprocess.run(command, cwd=lab.repo, env=lab.env, capture_output=True, text=True, timeout=60)
        assert (ran.returncode, ran.stderr) == (0, "")
        return [one.partition("\t")[0] for one in ran.stdout.splitlines()]

    assert offered("orchconverge stop ") == ["second"]
    assert sorted(offered("orchconverge status ")) == ["first", "second"]
    assert offered("orchconverge 'it is $(touch canary)' --max-a") == ["--max-attempts"]
