"""The written target: none without a way to stop and something that can be gained."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchconverge.core.target import Budget, Criterion, Target, Termination, slug, termination_from, validated

DONE = Criterion(name="done", command="./check.sh")


def target(**changes: Any) -> Target:
    fields = {
        "basin": "drive",
        "title": "Drive",
        "macrostate": "it drives",
        "goal": "make it drive",
        "criteria": (DONE,),
        "termination": Termination(attempts=3),
        "branch": "topic",
    }
    return Target(**(fields | changes))


def test_a_termination_without_any_limit_cannot_be_built() -> None:
    with pytest.raises(ValueError, match="stop condition"):
        Termination()


def test_a_target_without_a_termination_cannot_be_built() -> None:
    fields = msgspec.structs.asdict(target())
    del fields["termination"]
    with pytest.raises(TypeError):
        Target(**fields)


def test_a_stored_target_without_a_stop_condition_cannot_be_read() -> None:
    stored = msgspec.to_builtins(target())
    for broken in ({**stored, "termination": {}}, {k: v for k, v in stored.items() if k != "termination"}):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(broken, Target)


@pytest.mark.parametrize("limit", [{"attempts": 1}, {"hours": 0.5}, {"until": datetime(2030, 1, 1, tzinfo=UTC)}])
def test_any_one_limit_is_enough(limit: dict[str, Any]) -> None:
    assert validated(target(termination=Termination(**limit))).termination == Termination(**limit)


@pytest.mark.parametrize(
    "criteria",
    [
        (Criterion(name="changed", kind="changed"), Criterion(name="mergeable", kind="mergeable")),
        (Criterion(name="review", kind="review"),),
        (Criterion(name="late", command="x", stage="chain"),),
        (),
    ],
)
def test_a_target_at_which_nothing_can_be_gained_cannot_be_built(criteria: tuple[Criterion, ...]) -> None:
    with pytest.raises(ValueError, match="nothing can be gained"):
        target(criteria=criteria)


def test_two_criteria_of_one_name_cannot_be_built() -> None:
    with pytest.raises(ValueError, match="two criteria are called done"):
        target(criteria=(DONE, DONE))


@pytest.mark.parametrize("kind", ["command", "tests"])
@pytest.mark.parametrize("command", ["", "  "])
def test_a_criterion_that_we_run_needs_a_command(kind: Any, command: str) -> None:
    with pytest.raises(ValueError, match="no command"):
        Criterion(name="x", kind=kind, command=command)


def test_a_command_cannot_hold_a_nul_and_docs_need_paths() -> None:
    with pytest.raises(ValueError, match="NUL"):
        Criterion(name="x", command="a\0b")
    with pytest.raises(ValueError, match="names no paths"):
        Criterion(name="x", kind="docs")


@pytest.mark.parametrize(
    "changes",
    [
        {"basin": "Drive"},
        {"basin": "-x"},
        {"basin": "x" * 41},
        {"title": " "},
        {"goal": "\n"},
        {"macrostate": ""},
        {"branch": ""},
        {"approaches": ("",)},
        {"lock": "nobody"},
        {"termination": Termination(attempts=0)},
        {"termination": Termination(hours=0.0)},
        {"budget": Budget(usd=0)},
        {"criteria": (Criterion(name="No", command="x"),)},
        {"criteria": (Criterion(name="x", command="x", deadline=0),)},
    ],
)
def test_bounds_and_shapes_are_checked(changes: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        validated(target(**changes))


def test_a_target_survives_being_stored() -> None:
    whole = target(
        criteria=(DONE, Criterion(name="docs", kind="docs", paths=("README.md",)), Criterion(name="pr", kind="pr")),
        termination=Termination(attempts=3, hours=1.5, until=datetime(2030, 1, 1, tzinfo=UTC)),
        budget=Budget(usd=1, tokens=2, minds=3),
        approaches=("minimal",),
        lock="person",
        may_change=("tests/**",),
    )
    assert msgspec.json.decode(msgspec.json.encode(whole), type=Target) == validated(whole) == whole


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("all criteria hold, or 3 attempts, or 1 hour", Termination(attempts=3, hours=1)),
        ("all criteria hold, or 1 attempt", Termination(attempts=1)),
        ("all  criteria hold,\nor 0.5 hours", Termination(hours=0.5)),
    ],
)
def test_the_sentence_form(sentence: str, expected: Termination) -> None:
    assert termination_from(sentence) == expected
    assert termination_from(expected.sentence) == expected


@pytest.mark.parametrize(
    "sentence", ["", "all criteria hold", "or 3 attempts", "all criteria hold, or soon", "forever"]
)
def test_any_other_sentence_is_refused(sentence: str) -> None:
    with pytest.raises(ValueError, match=r"form|stop condition"):
        termination_from(sentence)


@given(st.integers(1, 10**6) | st.none(), st.sampled_from([0.25, 1.0, 3.0, 1000.0]) | st.none())
def test_a_termination_is_the_same_after_its_sentence(attempts: int | None, hours: float | None) -> None:
    if attempts is not None or hours is not None:
        limit = Termination(attempts=attempts, hours=hours)
        assert termination_from(limit.sentence) == limit


@given(st.text(max_size=120))
def test_any_title_gives_a_legal_id(text: str) -> None:
    assert validated(target(basin=slug(text))).basin == slug(text)


def test_an_id_is_cut_between_words() -> None:
    assert slug("Add OAuth to the login page, with tests and docs", longest=20) == "add-oauth-to-the"
    assert slug("x" * 60) == "x" * 40
    assert slug("???") == "goal"
