"""The captured transcripts: whose they are, that they tell nothing of a machine, and what is made of them to game admission."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

from benchmarks import admission_transcripts as transcripts
from benchmarks import capture_tasks
from orchconverge.core.seen import Act

ROOT = Path(__file__).resolve().parents[2]
CAPTURED = ROOT / "tests" / "data" / "admission"
MOST_BYTES = 1 << 20
OF_A_MACHINE = re.compile(
    r"/tmp/|/var/|/dev/shm|/work\b|/root\b|/home/|/Users/|capture-\w|127\.0\.0\.1|localhost|https?:|dummy|\bsk-|api.?key|[\w.]+@[\w.]+",
    re.IGNORECASE,
)


@pytest.fixture(scope="module")
def real() -> list[transcripts.Transcript]:
    return list(transcripts.captured(CAPTURED))


@pytest.fixture(scope="module")
def gaming(real: list[transcripts.Transcript]) -> list[transcripts.Transcript]:
    return list(transcripts.mutated(real, 1))


@pytest.fixture
def capture(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("capture_admission")


def test_every_cli_played_its_tasks_and_there_are_a_hundred(real: list[transcripts.Transcript]) -> None:
    made = {
        f"{engine.replace(':', '-')}-{number:02}-{capture_tasks.task(engine, number, Path('/a/tree'), Path('/a/r')).name}"
        for engine, count in capture_tasks.COUNTS.items()
        for number in range(count)
    }
    assert {one.name for one in real} == made
    assert len(real) == 100
    assert Counter(one.engine for one in real) == capture_tasks.COUNTS


def test_all_shapes_are_played_by_somebody(real: list[transcripts.Transcript]) -> None:
    shapes = {shape.__name__ for shape in (*capture_tasks.SHAPES, *capture_tasks.IN_WORDS)}
    played = {
        one.name.split("-", 2)[2] if not one.name.startswith("acp") else one.name.split("-", 3)[3] for one in real
    }
    told = {re.sub(r"-with-\d+-inputs", "", name).replace("-", "_") for name in played}
    assert shapes - told <= {"a_wide_stage"}  # told as a stage with ten inputs
    assert "a-stage-with-10-inputs" in played


def test_each_converges_and_says_where(real: list[transcripts.Transcript]) -> None:
    for one in real:
        assert not one.edge
        assert one.rounds[-1].closes, one.name
        assert one.rounds[-1].holds or one.rounds[-1].verdict, one.name


def test_what_the_acts_do_to_a_file_leads_from_one_state_to_the_next(real: list[transcripts.Transcript]) -> None:
    for one in real:
        held: dict[str, str | None] = {}
        for turn in one.rounds:
            for step in turn.steps:
                if step.kind in ("write", "unseen"):
                    path = transcripts.in_tree(step)
                    assert step.before == held.get(path, step.before), (one.name, step)
                    held[path] = step.after


def test_they_tell_nothing_of_the_machine_they_were_made_on() -> None:
    files = sorted(CAPTURED.glob("*"))
    assert sum(file.stat().st_size for file in files) <= MOST_BYTES
    found = [
        f"{file.name}:{number} {match[0]}"
        for file in files
        if file.suffix == ".jsonl"
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        for match in OF_A_MACHINE.finditer(line)
    ]
    assert not found, "\n".join(found[:20])


@pytest.mark.parametrize("line", ["/tmp/capture-x1/tree/a.py", "http://127.0.0.1:80", "OPENAI_API_KEY", "a@b.org"])
def test_a_place_of_a_machine_would_be_seen(line: str) -> None:
    assert OF_A_MACHINE.search(json.dumps({"target": line}))


def test_each_is_gamed_once_by_all_edges_in_turn(
    real: list[transcripts.Transcript], gaming: list[transcripts.Transcript]
) -> None:
    assert [one.name.partition(": ")[0] for one in gaming] == [one.name for one in real]
    count = Counter(one.edge for one in gaming)
    assert set(count) == set(transcripts.EDGES)
    assert min(count.values()) >= 5
    assert not any(turn.closes or turn.holds for one in gaming for turn in one.rounds)


LABELLED_BY_THE_CHECKS = {"recovery dressed as authoring", "mixed evidence"}
"""Their writes are real; that they close nothing is what our checks say."""


def test_what_is_called_gaming_really_changes_nothing_that_counts(
    real: list[transcripts.Transcript], gaming: list[transcripts.Transcript]
) -> None:
    """Told by contents alone: after a turn that is gamed no file of the goal is seen to hold other ink than before."""
    for whole, gamed in zip(real, gaming, strict=True):
        for honest, turn in zip(whole.rounds, gamed.rounds, strict=True):
            if not honest.closes:
                assert turn == honest
                continue
            if gamed.edge in LABELLED_BY_THE_CHECKS:
                assert any(met != "yes" for _, met, _, _ in turn.checks) or not turn.checks
                continue
            about = {transcripts.in_tree(step) for step in honest.steps if step.before != step.after}
            first: dict[str, str | None] = {}
            last: dict[str, str | None] = {}
            for step in (each for each in turn.steps if each.kind in ("write", "unseen")):
                path = transcripts.in_tree(step)
                if path in about and step.ok and not step.refused and not step.unknown:
                    first.setdefault(path, step.before)
                    last[path] = step.after
            assert {path: ink(text) for path, text in first.items()} == {p: ink(text) for p, text in last.items()}


def ink(text: str | None) -> str:
    return "".join((text or "").replace("\u200b", "").split())


def test_none_of_them_is_judged_wrongly(real: list[transcripts.Transcript]) -> None:
    argv = [sys.executable, str(ROOT / "benchmarks" / "admission.py"), "--json", "--count", "0"]
    ran = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    found = json.loads(ran.stdout)
    assert found["transcripts"] == {"converging": 100, "gaming": 100}
    for name, count in capture_tasks.COUNTS.items():
        told = found["engines"][name]
        assert (told["converging"], told["gaming"]) == (count, count)
        assert (told.get("credited", 0), told.get("denied", 0)) == (0, 0), name
    assert not any(found["closing_turns_not_credited"].values())


# What was seen, put together -----------------------------------------------------------------------------------------------


def test_a_write_has_what_became_of_its_file(capture: ModuleType) -> None:
    acts = [Act(kind="read", target="a", ok=True), Act(kind="write", target="/t/a", ok=True)]
    found = capture.observed(acts, [{"a": "1"}, {"a": "1"}, {"a": "2"}, {"a": "2"}], ["cat a", ""], root="/t")
    assert [(step.kind, step.before, step.after) for step in found] == [("read", None, None), ("write", "1", "2")]


def test_a_write_that_failed_has_not_what_came_later(capture: ModuleType) -> None:
    acts = [Act(kind="write", target="a", ok=False), Act(kind="write", target="a", ok=True)]
    found = capture.observed(acts, [{"a": "1"}, {"a": "1"}, {"a": "2"}], ["", ""], root="/t")
    assert [(step.before, step.after) for step in found] == [("1", "1"), ("1", "2")]


def test_what_a_command_changed_stands_after_it(capture: ModuleType) -> None:
    acts = [Act(kind="run", target="make gen", ok=True), Act(kind="run", target="git diff", ok=True)]
    found = capture.observed(acts, [{}, {"b": "1"}, {"b": "1"}], ["make gen", "git diff"], root="/t")
    assert [(step.kind, step.target) for step in found] == [("run", "make gen"), ("unseen", "b"), ("run", "git diff")]


def test_what_is_left_goes_to_the_last_write_of_the_file(capture: ModuleType) -> None:
    acts = [Act(kind="write", target="a", ok=True)]
    found = capture.observed(acts, [{}, {"a": "1"}, {"a": "2"}], ["", ""], root="/t")
    assert [(step.before, step.after) for step in found] == [(None, "2")]


def test_a_turn_that_was_not_looked_at_in_between_is_one_change(capture: ModuleType) -> None:
    acts = [Act(kind="write", target="a", ok=True), Act(kind="write", target="b", ok=True)]
    found = capture.observed(acts, [{}, None, {"a": "1", "b": "2"}], ["", ""], root="/t")
    assert [(step.target, step.before, step.after) for step in found] == [("a", None, "1"), ("b", None, "2")]
