"""The mind's own word: whatever it wrote, the good parts are kept."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchconverge.adapters.mind_report import MOST_BYTES, MOST_PARTS, read_report
from orchconverge.core.values import Residue, Verdict
from orchconverge.ports import MindReport


def read(value: object) -> MindReport:
    return read_report(json.dumps(value).encode())


def test_a_whole_report_is_taken_as_it_is() -> None:
    assert read(
        {
            "summary": "added the registry",
            "verdict": {"kind": "needs_person", "text": "no key"},
            "residue": [
                {"text": "the cache lies", "paths": ["a.py"], "criterion": "done"},
                {"text": "b", "paths": None},
            ],
            "frontier": [{"question": "which key?", "blocks": "done"}, {"question": "why?"}, {"question": "why?"}],
        }
    ) == MindReport(
        summary="added the registry",
        verdict=Verdict(kind="needs_person", text="no key"),
        residue=(Residue(text="the cache lies", paths=("a.py",), criterion="done"), Residue(text="b")),
        frontier=("which key?", "why?"),
        blocked={"which key?": "done"},
    )


def test_nothing_but_a_summary_is_enough() -> None:
    assert read({"summary": "x", "verdict": None, "more": 1}) == MindReport(summary="x")


def test_parts_that_are_text_alone_are_understood() -> None:
    report = read({"residue": ["a"], "frontier": ["b?"]})
    assert (report.residue, report.frontier, report.problem) == ((Residue(text="a"),), ("b?",), "")


def test_good_parts_are_kept_beside_bad_ones_which_are_named() -> None:
    report = read(
        {
            "summary": 3,
            "verdict": {"kind": "tired", "text": "x"},
            "residue": [{"text": " "}, {"text": "good"}, {"paths": []}, 7],
            "frontier": {"question": "x"},
        }
    )
    assert report.residue == (Residue(text="good"),)
    assert report.verdict is None
    for part in ("summary", "verdict.kind", "residue[0].text", "residue[2].text", "frontier is not a list"):
        assert part in report.problem


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "empty"),
        (b"  \n", "empty"),
        (b"# Done", "not JSON"),
        (b"[]", "not a JSON object"),
        (b'"done"', "not a JSON object"),
        (b"{" * 60_000, "not JSON"),
        (b'{"a":' * 12_000, "not JSON"),
        (b" " * MOST_BYTES + b"{}", "larger than"),
    ],
)
def test_what_is_no_report_is_a_problem(data: bytes, says: str) -> None:
    report = read_report(data)
    assert says in report.problem
    assert report == MindReport(problem=report.problem)


def test_a_byte_order_mark_and_wrong_bytes_do_not_lose_the_rest() -> None:
    assert read_report(b'\xef\xbb\xbf{"summary": "a\xffb"}').summary == "a\N{REPLACEMENT CHARACTER}b"


def test_what_is_kept_can_be_stored() -> None:
    report = read_report(b'{"summary": "\\ud800\\u0000x", "residue": [{"text": "\\udfff"}]}')
    assert "\0" not in report.summary
    msgspec.json.encode(report)


def test_more_parts_than_anybody_reads_are_left_out_and_said() -> None:
    report = read({"frontier": [f"q{n}" for n in range(MOST_PARTS + 1)]})
    assert len(report.frontier) == MOST_PARTS
    assert f"has {MOST_PARTS + 1} parts" in report.problem


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["text", "kind", "question", "paths", "criterion", "blocks"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@given(st.binary(max_size=300))
def test_any_bytes_give_a_report(data: bytes) -> None:
    assert isinstance(read_report(data), MindReport)


@given(st.dictionaries(st.sampled_from(["summary", "verdict", "residue", "frontier"]), ANY))
def test_any_json_gives_a_report_that_can_be_stored(value: object) -> None:
    report = read(value)
    assert msgspec.json.decode(msgspec.json.encode(report), type=MindReport) == report
