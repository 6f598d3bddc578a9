"""Kind `judge` without an engine: clauses out of a text, the question, and what of an answer counts."""

from __future__ import annotations

import json
from collections.abc import Mapping

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchconverge.core.judging import (
    LEAST_QUOTE,
    MOST_ANSWER,
    MOST_CLAUSES,
    MOST_DIFF,
    Found,
    Judgement,
    Quote,
    Subject,
    cited,
    clauses,
    clauses_of,
    drafted,
    inside,
    judgement,
    order,
    question,
    said_by,
    shown,
    stands,
    warning,
    weighed,
)
from orchconverge.core.target import Criterion, Sha
from orchconverge.core.values import Usage

ROOT = "/data/trees/t-goal.j0123"
TREE = Sha("a" * 40)
FILES = {"src/a.py": "def hand(x):\n    return   x + 1\n", "a.txt": "yes\n}\n"}


def asked(*texts: str) -> Criterion:
    return Criterion(name="j", kind="judge", text="\n".join(texts), clauses=texts)


# --- clauses ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It is documented.", ("It is documented",)),
        ("a.txt says yes. b.txt says no!  Is it so?", ("a.txt says yes", "b.txt says no!", "Is it so?")),
        ("Errors name a file, e.g. a.txt, and a line; nothing is printed twice", None),
        ("What must be so:\n- it is fast\n- it is\n  small.\n* it runs", ("it is fast", "it is small", "it runs")),
        ("First of all\n1. one. And two.\n2) three", ("First of all", "one. And two", "three")),
        ("it is fast\n\nit is small. Really.", ("it is fast", "it is small. Really")),
        ("it is fast\nit is fast", ("it is fast",)),
        ("version 1.2 is named", ("version 1.2 is named",)),
    ],
)
def test_a_text_is_split_where_a_person_would(text: str, expected: tuple[str, ...] | None) -> None:
    wanted = expected or ("Errors name a file, e.g. a.txt, and a line", "nothing is printed twice")
    assert clauses(text) == wanted


@given(st.text())
def test_any_text_gives_clauses_that_are_lines_and_no_word_is_lost_but_bullets_and_headings(text: str) -> None:
    found = clauses(text)
    assert all(clause and clause == " ".join(clause.split()) for clause in found)
    assert len(found) == len(set(found))
    again = clauses("\n".join(f"- {clause}" for clause in found))
    assert len(again) <= len(found)


def test_clauses_of_a_person_stay_as_they_are_and_an_old_ledger_gets_them_from_its_text() -> None:
    own = Criterion(name="j", kind="judge", text="One. Two.", clauses=("One. Two",))
    assert drafted(own) == own
    assert drafted(Criterion(name="j", kind="judge", text="One. Two.")).clauses == ("One", "Two")
    assert clauses_of(Criterion(name="j", kind="judge", text="One. Two.")) == ("One", "Two")
    assert clauses_of(Criterion(name="j", kind="judge", text="...")) == ("...",)


def test_none_and_too_many_are_refused() -> None:
    with pytest.raises(ValueError, match="no clause"):
        drafted(Criterion(name="j", kind="judge", text="..."))
    many = "\n".join(f"- clause {n}" for n in range(MOST_CLAUSES + 1))
    with pytest.raises(ValueError, match="13 clauses, 12 at most"):
        drafted(Criterion(name="j", kind="judge", text=many))
    with pytest.raises(ValueError, match="has no text"):
        Criterion(name="j", kind="judge")


@pytest.mark.parametrize(
    ("criteria", "warns"),
    [
        ((asked("a"), Criterion(name="c", kind="changed")), True),
        ((asked("a"), Criterion(name="t", command="t", required=False)), True),
        ((asked("a"), Criterion(name="pr", kind="pr", stage="chain")), True),
        ((asked("a"), Criterion(name="t", command="t")), False),
        ((Criterion(name="t", command="t"),), False),
        ((Criterion(name="c", kind="changed"),), False),
    ],
)
def test_a_judges_word_alone_is_warned_of(criteria: tuple[Criterion, ...], warns: bool) -> None:
    assert ("a judge's word is not a check" in warning(criteria)) == warns


@pytest.mark.parametrize(
    ("engines", "author", "model", "expected"),
    [
        (("claude", "codex"), "claude", "", ("codex", "claude")),
        (("codex", "claude", "gemini"), "claude", "", ("codex", "gemini", "claude")),
        (("claude:a", "claude:b"), "claude", "a", ("claude:b", "claude:a")),
        (("claude",), "claude", "", ("claude",)),
        (("claude", "codex"), "", "", ("claude", "codex")),
    ],
)
def test_another_engine_is_asked_first_then_another_model(
    engines: tuple[str, ...], author: str, model: str, expected: tuple[str, ...]
) -> None:
    assert order(engines, author=author, model=model) == expected


# --- the question ----------------------------------------------------------------------------------------------------


def put(criterion: Criterion, patch: str, changed: tuple[str, ...] = ("a.txt",)) -> str:
    subject = Subject(tree=TREE, path=ROOT, changed=changed, patch=patch)
    return question(criterion, goal="make it so", subject=subject, answer="/own/answer.json")


@given(st.text(), st.lists(st.text(min_size=1)))
def test_all_that_a_candidate_made_stands_between_the_fences(patch: str, paths: list[str]) -> None:
    fence = f"\n=====[ {TREE} ]=====\n"
    whole = put(asked("one", "two"), f"planted {patch} planted", tuple(paths))
    before, data, after = whole.split(fence)
    assert "planted" in data
    assert "planted" not in before + after
    assert after == put(asked("one", "two"), "").split(fence)[2]
    assert before == put(asked("one", "two"), "").split(fence)[0]


def test_a_question_names_tree_clauses_and_answer_and_is_bounded() -> None:
    whole = put(asked("it is fast", "it is small"), "x" * 10 * MOST_DIFF, tuple(f"f{n}" for n in range(1000)))
    assert f"The tree, to be read: {ROOT}\n" in whole
    assert "\n1. it is fast\n2. it is small\n" in whole
    assert "    /own/answer.json\n" in whole
    assert "and 800 more" in whole
    assert "[cut]" in whole
    assert len(whole.encode()) < 2 * MOST_DIFF


def test_reports_of_earlier_runs_are_not_shown() -> None:
    one = "diff --git a/docs/convergence-reports/x.md b/docs/convergence-reports/x.md\n+a mind said so\n"
    other = "diff --git a/a.txt b/a.txt\n+yes\n"
    assert shown(one + other, without="docs/convergence-reports") == other


# --- the answer ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (None, "wrote no answer"),
        (b" \n", "wrote no answer"),
        (b"{", "cannot be read"),
        (b"\xff\xfe", "cannot be read"),
        (b"[]", "cannot be read"),
        (b"{}", "cannot be read"),
        (b'{"clauses": []}', "cannot be read"),
        (b'{"clauses": [{"clause": "1", "met": true}]}', "cannot be read"),
        (b'{"clauses": [{"clause": 1, "met": "yes"}]}', "cannot be read"),
        (b'{"clauses": [{"clause": 1, "met": true, "evidence": "a.txt"}]}', "cannot be read"),
        (b"[" * 100_000, "cannot be read"),
        (b" " * MOST_ANSWER + b"{}", "longer than 256 KiB"),
    ],
)
def test_what_is_no_answer_is_said_to_be_none(data: bytes | None, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        judgement(data)


@given(st.binary())
def test_any_bytes_are_an_answer_or_a_value_error(data: bytes) -> None:
    try:
        found = judgement(data)
    except ValueError:
        return
    assert found.clauses


def test_an_answer_with_more_in_it_is_taken() -> None:
    found = judgement(b'\xef\xbb\xbf{"model": "m", "clauses": [{"clause": 1, "met": false, "sure": 0.5}]}')
    assert found == Judgement(clauses=(Found(clause=1, met=False),))


def says(clause: int, path: str = "a.txt", quote: str = "yes", *, met: bool = True) -> Found:
    return Found(clause=clause, met=met, evidence=(Quote(path=path, quote=quote),))


def weigh(*found: Found, whole: int = 2, files: Mapping[str, str] = FILES) -> tuple[str, tuple[str, ...]]:
    criterion = asked(*(f"clause {n}" for n in range(1, whole + 1)))
    result = weighed(criterion, Judgement(clauses=found), files=files, root=ROOT)
    return result.met, result.passed


def test_a_clause_holds_by_yes_and_one_quote_that_stands() -> None:
    assert weigh(says(1), says(2, "src/a.py", "return x + 1")) == ("yes", ("judge:1", "judge:2"))
    assert weigh(says(1), says(2, f"{ROOT}/src/a.py", "def hand(x): return x+1")) == ("yes", ("judge:1", "judge:2"))
    assert weigh(says(1), says(2, "a.txt", "never said"), says(2)) == ("yes", ("judge:1", "judge:2"))


def test_what_is_denied_unproven_or_answered_both_ways_does_not_hold() -> None:
    assert weigh(says(1), says(2, met=False)) == ("no", ("judge:1",))
    assert weigh(says(1), says(2, "b.txt")) == ("no", ("judge:1",))
    assert weigh(says(1), says(2, "a.txt", "")) == ("no", ("judge:1",))
    assert weigh(says(1), Found(clause=2, met=True)) == ("no", ("judge:1",))
    assert weigh(says(1), says(2), says(2, met=False)) == ("no", ("judge:1",))


def test_what_is_not_answered_is_unknown_unless_another_does_not_hold() -> None:
    assert weigh(says(1)) == ("unknown", ("judge:1",))
    assert weigh(says(3), says(0), says(-1)) == ("unknown", ())
    assert weigh(says(1), says(3), whole=3) == ("unknown", ("judge:1", "judge:3"))
    assert weigh(says(1), says(2, met=False), whole=3) == ("no", ("judge:1",))


@given(
    st.lists(
        st.builds(
            says,
            st.integers(-1, 4),
            st.sampled_from(["a.txt", "b.txt", "../a.txt", "/a.txt", ""]),
            st.sampled_from(["yes", "no", "", "}", "def hand(x):"]),
            met=st.booleans(),
        ),
        min_size=1,
    )
)
def test_no_answer_holds_a_clause_that_there_is_not_or_without_a_quote(found: list[Found]) -> None:
    met, passed = weigh(*found, whole=3)
    assert set(passed) <= {"judge:1", "judge:2", "judge:3"}
    for number in range(1, 4):
        own = [each for each in found if each.clause == number]
        quoted = any(q.path == "a.txt" and q.quote in ("yes", "}") for each in own for q in each.evidence)
        if not quoted or not all(each.met for each in own):
            assert f"judge:{number}" not in passed
    assert (met == "yes") == (len(passed) == 3)


@pytest.mark.parametrize(
    ("quote", "line"),
    [
        ("return x + 1", 2),
        ("return\tx+1", 2),
        ("hand(x):\nreturn x", 1),
        ("x + 1", None),
        ("x", None),
        ("", None),
        (" \n", None),
        ("returns x + 1", None),
    ],
)
def test_a_quote_stands_whatever_its_white_space_if_it_says_anything(quote: str, line: int | None) -> None:
    assert stands(quote, FILES["src/a.py"]) == line


def test_a_short_quote_has_to_be_a_whole_line() -> None:
    assert stands("yes", "a\nyes\n") == 2
    assert stands("yes", "yes, but not so\n") is None
    assert stands("y" * (LEAST_QUOTE - 1), "y" * 20) is None
    assert stands("y" * LEAST_QUOTE, "y" * 20) == 1


@given(st.text(), st.text())
def test_a_quote_stands_only_where_its_letters_do(quote: str, text: str) -> None:
    bare = "".join(quote.split())
    if stands(quote, text) is not None:
        assert bare
        assert bare in "".join(text.split())


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a.txt", "a.txt"),
        ("./src//a.py", "src/a.py"),
        (f"{ROOT}/src/a.py", "src/a.py"),
        (f"{ROOT}-other/a.py", ""),
        ("/etc/passwd", ""),
        ("src/../../a.py", ""),
        ("a\nb", ""),
        ("", ""),
        (".", ""),
    ],
)
def test_a_path_is_one_of_the_tree(path: str, expected: str) -> None:
    assert inside(path, root=ROOT) == expected
    wanted = (expected,) if expected else ()
    assert cited(Judgement(clauses=(says(1, path),)), root=ROOT) == wanted


def test_who_judged_is_said() -> None:
    found = weighed(asked("a"), Judgement(clauses=(says(1),)), files=FILES, root=ROOT)

    def said(judge: str, author: str, *, alone: bool = False, usage: Usage | None = None) -> str:
        return said_by(judge, author=author, alone=alone, weighed=found, whole=1, usage=usage)

    assert said("codex", "") == "judged by codex: 1 of 1 clause met"
    assert said("codex:m", "claude") == "judged by codex:m, not by claude, which made it: 1 of 1 clause met"
    assert "which made it too: the run has no other engine" in said("claude", "claude", alone=True)
    assert "which made it too: no other engine of the run can" in said("claude:b", "claude")
    used = Usage(inputTokens=1500, outputTokens=9, usd=0.1)
    assert said("codex", "", usage=used).endswith("1 of 1 clause met (1k tokens in, 9 out, $0.10)")


def test_the_schema_that_a_judge_is_told_is_the_one_that_is_read() -> None:
    told = put(asked("a"), "")
    begins = told.index('{"clauses"')
    example = json.loads(told[begins : told.index("\n\n", begins)])
    found = msgspec.convert(example, Judgement)
    assert found.clauses[0].evidence[0].quote
