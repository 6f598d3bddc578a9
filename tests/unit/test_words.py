"""First words that are commands, slips and later commands; help and hints that can be typed; who may call from inside."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from orchconverge.adapters.supervisors import Supervisors
from orchconverge.cli import COMMANDS, NOT_YET, rewritten
from orchconverge.errors import Refused
from orchconverge.ports import Spec

COMMAND = (sys.executable, "-P", "-m", "orchconverge")


def run(*words: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    plain = {name: os.environ[name] for name in ("PATH", "HOME")} | env
    return subprocess.run(
        [*COMMAND, *words], cwd=cwd, env=plain, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )


# --- first words -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", sorted(NOT_YET))
def test_a_command_of_a_later_version_is_no_goal(word: str) -> None:
    with pytest.raises(Refused, match=f"{word} is not in this version") as refused:
        rewritten([word])
    assert refused.value.hint == f"as a goal: orchconverge run {word}"
    assert rewritten(["run", word]) == ["run", word]
    assert rewritten(["--", word]) == ["run", "--", word]


def test_more_words_after_one_are_named_as_the_goal_that_they_could_be() -> None:
    with pytest.raises(Refused) as refused:
        rewritten(["trust", "the door", "--max-attempts", "3"])
    assert refused.value.hint == "as a goal: orchconverge run 'trust the door'"


@pytest.mark.parametrize(
    ("word", "meant"), [("statsu", "status"), ("Status", "status"), ("resum", "resume"), ("log", "logs")]
)
def test_a_slip_of_a_command_is_no_goal(word: str, meant: str) -> None:
    with pytest.raises(Refused, match=f"there is no command {word}") as refused:
        rewritten([word])
    assert refused.value.hint == f"did you mean {meant}? As a goal: orchconverge run {word}"


@pytest.mark.parametrize("goal", ["refactor", "fix the statsu page", "lock the door", "tests", "/orchconverge", "-"])
def test_what_is_like_no_command_is_a_goal(goal: str) -> None:
    assert rewritten([goal]) == ["run", goal]


def test_no_command_is_in_both_lists() -> None:
    assert not NOT_YET & set(COMMANDS)


# --- help ------------------------------------------------------------------------------------------------------------


def test_help_is_readable_and_says_where_the_options_are(tmp_path: Path) -> None:
    said = run("--help", cwd=tmp_path)
    assert said.returncode == 0
    assert "\b" not in said.stdout
    assert "\\b" not in said.stdout
    assert "\n  orchconverge --stop [--cleanup]                        stop\n" in said.stdout
    assert "orchconverge run --help" in said.stdout


@pytest.mark.parametrize("words", [[], ["ledger"]])
def test_too_few_words_get_help_and_no_complaint(tmp_path: Path, words: list[str]) -> None:
    said = run(*words, cwd=tmp_path)
    assert (said.returncode, said.stderr) == (2, "")
    assert said.stdout.startswith("Usage: orchconverge")
    assert len(said.stdout.splitlines()) > 8


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["a goal", "--max-attempts", "x"], "orchconverge run --help"),
        (["--resume", "--frob"], "orchconverge resume --help"),
        (["timeline", "--html"], "orchconverge timeline --help"),
        (["ledger", "frob"], "orchconverge ledger --help"),
    ],
)
def test_a_wrong_flag_is_answered_with_the_help_that_lists_the_right_ones(
    tmp_path: Path, words: list[str], hint: str
) -> None:
    said = run(*words, cwd=tmp_path)
    assert said.returncode == 2
    assert said.stderr.splitlines()[1:] == [f"  {hint}"]


# --- from inside -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mark", "what"), [("ORCHCONVERGE_BRIEF", "a mind"), ("ORCHCONVERGE_INSIDE", "a check or a setup")]
)
@pytest.mark.parametrize("words", [["a goal"], ["stop"], ["--resume"], ["pushl"], ["_step", "pushl", "a"]])
def test_from_inside_nothing_is_started_stopped_or_pushed(
    tmp_path: Path, mark: str, what: str, words: list[str]
) -> None:
    said = run(*words, cwd=tmp_path, **{mark: "1"})
    assert said.returncode == 2
    assert f"this is {what}: it may look" in said.stderr


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("minds", "this is a mind: it may look"),
        ("checks", "this is a check or a setup: it may look"),
        ("setups", "this is a check or a setup: it may look"),
        ("gates", "this is a check or a setup: it may look"),
        ("gatesetups", "this is a check or a setup: it may look"),
        ("steps", "Missing argument"),
    ],
)
def test_what_lost_its_parent_and_its_environment_is_still_inside(tmp_path: Path, kind: str, said: str) -> None:
    orphan = f"setsid {' '.join(COMMAND)} frontier add; echo over > done"
    plain = f"PATH={os.environ['PATH']} HOME={os.environ['HOME']}"
    script = f"mkfifo done; (env -i {plain} sh -c {shlex.quote(orphan)} &) ; read word < done"
    supervisors = Supervisors(tmp_path / "runs")
    spec = Spec(name=f"{kind}/goal.1", cwd=tmp_path, argv=("/bin/sh", "-c", script), env={"PATH": os.environ["PATH"]})
    subprocess.run(supervisors.prepare(spec), cwd=tmp_path, stdin=subprocess.DEVNULL, timeout=60, check=True)
    assert said in supervisors.log(spec.name).decode()


def test_from_inside_one_may_look(tmp_path: Path) -> None:
    said = run("status", cwd=tmp_path, ORCHCONVERGE_INSIDE="1", GIT_CEILING_DIRECTORIES=str(tmp_path.parent))
    assert "may look" not in said.stderr
