"""What a failed check says: bounded, harmless, and the same when it fails the same way again."""

from __future__ import annotations

import time

import pytest

from orchconverge.core import checks

STAMP = "2026-11-30T01:02:03.4567890Z "
TOKEN = "ghp_" + "a" * 36


def log(*lines: str) -> str:
    return "".join(f"{STAMP}{line}\r\n" for line in lines)


def test_its_words_its_remarks_and_the_end_of_its_log_are_told() -> None:
    found = checks.text(
        "unit",
        "failure",
        words="2 failed",
        remarks=[("a.py", 3, "E501: too\nlong"), ("b.py", None, "whole")],
        log=log(
            "##[group]Run pytest",
            "E   assert 1 == 2",
            "##[error]Process completed with exit code 1.",
            "Post job cleanup.",
        ),
    )
    assert found.split("\n") == [
        "unit: failure",
        "2 failed",
        "a.py:3: E501: too long",
        "b.py: whole",
        "The end of its log:",
        "##[group]Run pytest",
        "E   assert 1 == 2",
        "##[error]Process completed with exit code 1.",
    ]


def test_a_check_that_says_nothing_is_its_name_and_how_it_ended() -> None:
    assert checks.text("ci/jenkins", "error") == "ci/jenkins: error"


def test_no_secret_and_no_control_comes_out_of_it_wherever_it_is_cut() -> None:
    evil = f"\x1b]0;title\x07\x1b[31mred\x1b[0m \u202eno {TOKEN} {TOKEN[:9]}\x1b[1m{TOKEN[9:]}\n"
    for room in range(160):
        text = checks.text(
            "a\x1b[2J",
            "failure",
            words=evil,
            remarks=[("x\n", 1, evil)],
            log="x" * room + evil * 40,
        )
        assert "ghp_" not in text
        assert not set("\x1b\x07\u202e") & set(text)


@pytest.mark.parametrize("words", ["-eyJ", "eyJaaaaaaaaaa.", "-sk-", "://a:", "-----BEGIN ", "xoxb-"])
def test_a_log_of_what_begins_like_a_secret_is_read_in_no_time(words: str) -> None:
    begun = time.process_time()
    checks.end_of_log(words * ((128 << 10) // len(words)))
    assert time.process_time() - begun < 5


def test_it_is_bounded() -> None:
    much = "wörd " * 100_000
    found = checks.text("n" * 999, "s" * 999, words=much, remarks=[(much, 1, much)] * 99, log=log(*[much] * 3))
    assert len(found.encode()) < 16 << 10
    assert len(checks.end_of_log(log(*map(str, range(99)))).split("\n")) == checks.MOST_LINES


def test_two_failures_are_alike_but_for_what_differs_from_run_to_run() -> None:
    one = checks.alike("test_a1 failed in 0.31s at 4f1c2d3e, line 7")
    assert one == checks.alike("test_a1 failed in 12ms at 99aa0011, line 12")
    assert one != checks.alike("test_a2 failed in 0.31s at 4f1c2d3e, line 7")
