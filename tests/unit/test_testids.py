"""Which tests passed, from each kind of report that we read."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from orchconverge.core.testids import LONGEST_ID, MOST_IDS, lost, passed_ids


def test_junit_gives_classname_and_name_of_what_passed() -> None:
    report = b"""<?xml version="1.0"?><testsuites><testsuite>
      <testcase classname="tests.test_a.C" name="test_ok"><system-out>error</system-out></testcase>
      <testcase classname="tests.test_a" name="test_bad"><failure>no</failure></testcase>
      <testcase classname="tests.test_a" name="test_broken"><error/></testcase>
      <testcase classname="tests.test_a" name="test_later"><skipped/></testcase>
      <testcase name="alone"/>
      <testcase classname="g" name="off" status="notrun"/>
    </testsuite></testsuites>"""
    assert passed_ids(report, "") == ("alone", "tests.test_a.C::test_ok")


def test_a_test_that_passed_and_then_broke_in_its_teardown_did_not_pass() -> None:
    report = b'<t><testcase classname="m" name="a"/><testcase classname="m" name="a"><error/></testcase></t>'
    assert passed_ids(report, "") == ()


def test_a_skipped_element_deeper_in_a_test_case_is_not_its_result() -> None:
    report = b'<t><testcase classname="m" name="a"><properties><skipped/></properties></testcase></t>'
    assert passed_ids(report, "") == ("m::a",)


def test_an_entity_bomb_is_refused_and_the_output_read_instead() -> None:
    bomb = b"""<?xml version="1.0"?><!DOCTYPE b [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>
      <t><testcase classname="m" name="&b;"/></t>"""
    assert passed_ids(bomb, "ok 1 - honest\n") == ("honest",)


def test_a_broken_report_names_nothing_and_the_output_is_read() -> None:
    half = b'<t><testcase classname="m" name="a"/><testcase classname="m"'
    assert passed_ids(half, "ok 1 - b") == ("b",)
    assert passed_ids(b"", "ok 1 - b") == ("b",)
    assert passed_ids(b"<t/>", "ok 1 - b") == ("b",)


def test_go_test_json_gives_package_and_test() -> None:
    output = "\n".join(
        [
            '{"Time":"2026-01-01T00:00:00Z","Action":"run","Package":"x/y","Test":"TestA"}',
            '{"Action":"output","Package":"x/y","Test":"TestA","Output":"--- PASS: TestA (0.00s)\\n"}',
            '{"Action":"pass","Package":"x/y","Test":"TestA","Elapsed":0}',
            '{"Action":"pass","Package":"x/y","Test":"TestA/sub","Elapsed":0}',
            '{"Action":"fail","Package":"x/y","Test":"TestB","Elapsed":0}',
            '{"Action":"skip","Package":"x/y","Test":"TestC","Elapsed":0}',
            '{"Action":"pass","Package":"x/y","Elapsed":0.1}',
            '{"Action":3}',
            "{not json",
            "{" * 3000,
        ]
    )
    assert passed_ids(None, output) == ("x/y::TestA", "x/y::TestA/sub")


def test_go_test_v_is_read_too() -> None:
    output = "=== RUN   TestA\n--- PASS: TestA (0.00s)\n    --- PASS: TestA/sub (0.00s)\n--- FAIL: TestB (0.0s)\nok  \tx/y\t0.01s"
    assert passed_ids(None, output) == ("TestA", "TestA/sub")


def test_libtest_lines_are_read_and_a_moved_doc_test_keeps_its_id() -> None:
    output = """running 4 tests
test core::tests::adds ... ok
test core::tests::panics - should panic ... ok
test core::tests::slow ... ignored, takes long
test core::tests::bad ... FAILED
test src/lib.rs - core::add (line 12) ... ok
test result: FAILED. 3 passed; 1 failed"""
    assert passed_ids(None, output) == ("core::tests::adds", "core::tests::panics", "src/lib.rs - core::add")
    assert passed_ids(None, output.replace("line 12", "line 80")) == passed_ids(None, output)


def test_unittest_lines_are_read_in_both_spellings_of_python() -> None:
    new = "test_x (mod.C.test_x) ... ok\ntest_y (mod.C.test_y) ... FAIL\ntest_z (mod.C.test_z) ... skipped 'why'\n"
    old = "test_x (mod.C) ... ok\ntest_w (mod.C) ... expected failure\n"
    assert passed_ids(None, new) == passed_ids(None, old) == ("mod.C.test_x",)


def test_a_unittest_with_a_docstring_or_with_output_is_read() -> None:
    output = """test_doc (mod.C.test_doc)
What it says first. ... ok
test_loud (mod.C.test_loud) ... something printed
ok
test_sub (mod.C.test_sub) ... ok
  test_sub (mod.C.test_sub) (i=1) ... FAIL
"""
    assert passed_ids(None, output) == ("mod.C.test_doc", "mod.C.test_loud")


def test_tap_leaves_out_what_is_skipped_to_do_or_failed() -> None:
    output = """TAP version 14
1..6
ok 1 - opens
not ok 2 - closes
ok 3 - waits # SKIP no clock
ok 4 - hopes # todo later
ok 5 sings # time=3ms
    ok 1 - inner
ok 6 - bats in 12ms
ok 7
ok 8 # SKIP"""
    assert passed_ids(None, output) == ("bats", "inner", "opens", "sings")


def test_pytest_lines_have_the_ids_that_its_junit_file_has() -> None:
    output = """tests/test_a.py::test_plain PASSED                                       [ 20%]
tests/test_a.py::C::test_in_class PASSED [ 40%]
tests/test_a.py::test_p[a b::c] PASSED [ 50%]
tests/test_a.py::test_bad FAILED [ 60%]
tests/test_a.py::test_no SKIPPED (why) [ 80%]
[gw1] [ 90%] PASSED tests/sub/test_b.py::test_far
PASSED tests/test_a.py::test_plain
FAILED tests/test_a.py::test_bad - assert 1 == 2"""
    assert passed_ids(None, output) == (
        "tests.sub.test_b::test_far",
        "tests.test_a.C::test_in_class",
        "tests.test_a::test_p[a b::c]",
        "tests.test_a::test_plain",
    )


def test_colours_and_carriage_returns_do_not_matter() -> None:
    assert passed_ids(None, "tests/t.py::a \x1b[32mPASSED\x1b[0m [100%]\r\n") == ("tests.t::a",)


def test_ids_are_sorted_unique_short_and_not_too_many() -> None:
    output = (
        "\n".join(f"ok {n} - t{n:06}" for n in range(MOST_IDS + 50))
        + "\nok 1 - t000000\nok 1 - "
        + "x" * (LONGEST_ID + 1)
    )
    ids = passed_ids(None, output)
    assert len(ids) == MOST_IDS
    assert list(ids) == sorted(set(ids))


def test_lost_is_what_passed_before_and_does_not_now() -> None:
    assert lost(("a", "b", "c"), ("a", "c", "d")) == ("b",)
    assert lost((), ("a",)) == ()


def test_what_fell_off_the_end_of_a_full_list_is_not_lost() -> None:
    before = tuple(f"t{n:06}" for n in range(MOST_IDS))
    after = tuple(sorted({"a-new-one", *before} - {"t000005"} | {"b-new-one"}))[:MOST_IDS]
    assert lost(before, after) == ("t000005",)


@given(st.binary(max_size=400) | st.none(), st.text(st.characters(), max_size=400))
def test_any_input_gives_sorted_unique_ids(junit: bytes | None, output: str) -> None:
    ids = passed_ids(junit, output)
    assert list(ids) == sorted(set(ids))
    assert all(name.encode() for name in ids)


_XML = st.lists(
    st.sampled_from(
        [
            *(b"<t>", b"</t>", b"<testcase name='a'", b" classname='b'", b">", b"/>", b"<skipped/>", b"</testcase>"),
            *(
                b"<?xml version='1.0' encoding='",
                b"idna",
                b"rot13",
                b"utf-16",
                b"undefined",
                b"utf-7",
                b"'?>",
                b"\xff\xfe",
            ),
            *(b"<!DOCTYPE t [", b"<!ENTITY a SYSTEM 'file:///etc/passwd'>", b"]>", b"&a;", b"<![CDATA[", b"]]>"),
        ]
    ),
    max_size=14,
).map(b"".join)


@given(_XML)
def test_any_xml_gives_a_tuple(junit: bytes) -> None:
    assert isinstance(passed_ids(junit, ""), tuple)


_LINES = st.lists(
    st.sampled_from(
        [
            "ok ",
            "not ok ",
            "1 - ",
            "x",
            "::",
            " PASSED",
            "test ",
            " ... ok",
            "(",
            ")",
            "{",
            '{"Action":"pass"}',
            "--- PASS: ",
            "\n",
            " #",
        ]
    ),
    max_size=30,
).map("".join)


@given(_LINES)
def test_any_lines_give_a_tuple(output: str) -> None:
    assert isinstance(passed_ids(None, output), tuple)


def test_what_real_runners_print_is_read(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_real.py").write_text(REAL)
    run = partial(subprocess.run, cwd=tmp_path, capture_output=True, text=True, check=False)
    python = [sys.executable, "-m"]
    shown = run([*python, "pytest", "-v", "-p", "no:cacheprovider", "--junitxml=j.xml", "tests"]).stdout
    expected = ("tests.test_real.T::test_doc", "tests.test_real.T::test_loud", "tests.test_real.T::test_sub")
    assert passed_ids((tmp_path / "j.xml").read_bytes(), "") == expected
    assert passed_ids(None, shown) == expected
    unittest = run([*python, "unittest", "discover", "-v", "-s", "tests"])
    names = ("test_real.T.test_doc", "test_real.T.test_loud", "test_real.T.test_sub")
    assert passed_ids(None, unittest.stdout + unittest.stderr) == names


REAL = '''
import sys, unittest

class T(unittest.TestCase):
    def test_doc(self):
        """What it says."""

    def test_loud(self):
        sys.stderr.write("loud" + chr(10))

    def test_sub(self):
        for n in range(2):
            with self.subTest(n=n):
                self.assertEqual(n, n)

    def test_bad(self):
        self.fail()

    @unittest.skip("why")
    def test_skipped(self):
        pass

    @unittest.expectedFailure
    def test_expected(self):
        self.fail()
'''
