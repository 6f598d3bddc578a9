"""Which tests passed: their ids, read from JUnit XML or from what a runner printed. Any input gives an answer.

An id that passed and also failed or was skipped (a teardown error, a second run) did not pass. What is read was written by
the tests themselves, so it can be wrong, and only ever takes a candidate's part away: an id that is gone is a lost one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

MOST_IDS = 20_000
LONGEST_ID = 300
"""In characters. A longer id is left out."""
MOST_XML_BYTES = 64 << 20
_LONGEST_LINE = 4096

_NOT_RUN = frozenset({"notrun", "skipped", "disabled", "ignored", "suppressed", "inactive"})
_NOT_PASSED = _NOT_RUN | {"fail", "failed", "failure", "error"}
"""Values of the attributes ``status`` and ``result`` (GoogleTest, CTest) of a test that did not pass."""
_BAD_CHILDREN = frozenset({"skipped", "failure", "error"})

_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_OUTCOME = "PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS"
_PYTEST = re.compile(rf"(?P<id>[^\s:]\S*?::.+?) (?P<outcome>{_OUTCOME})(?:\s.*)?$")
_PYTEST_FIRST = re.compile(
    rf"(?:\[gw\d+\] (?:\[ *\d+%\] )?)?(?P<outcome>{_OUTCOME}) (?P<id>[^\s:]\S*?::.+?)(?: - .*)?$"
)
_LIBTEST = re.compile(
    r"test (?P<id>\S.*?)(?: - should panic)?(?: \(line \d+\))? \.\.\. (?P<outcome>ok|FAILED|ignored)\b"
)
_UNITTEST = re.compile(r"\s*(?P<name>\w+) \((?P<where>[\w.]+)\)(?P<more>.*)$")
_UNITTEST_END = re.compile(r"(?:.* \.\.\. )?(?P<outcome>ok|FAIL|ERROR|skipped .*|expected failure|unexpected success)$")
_GO = re.compile(r"\s*--- (?P<outcome>PASS|FAIL|SKIP): (?P<id>\S+)")
_TAP = re.compile(r"\s*(?P<outcome>not ok|ok)(?: \d+(?: -)?| -) (?P<id>.+)$")
_TAP_DIRECTIVE = re.compile(r"(?<!\\)\s#\s*(?P<directive>\S*)")
_BATS_TIME = re.compile(r" in \d+ms$")

Result = tuple[str, bool]
"""An id, and whether it passed."""


class _GoEvent(msgspec.Struct):
    """A line of `go test -json`; see https://pkg.go.dev/cmd/test2json ."""

    Action: str
    Package: str = ""
    Test: str = ""


def passed_ids(junit: bytes | None, output: str) -> tuple[str, ...]:
    """The ids of the tests that passed: sorted, unique, at most `MOST_IDS`.

    From ``junit`` (``classname::name``) if it names any test, else from ``output``: pytest -v or -rA, unittest -v, libtest,
    `go test -v` or -json, TAP.
    """
    results = _junit(junit) if junit else []
    if not results:
        clean = output.encode("utf-8", "replace").decode("utf-8")
        results = list(_printed(_COLOUR.sub("", clean).split("\n")))
    passed, other = set[str](), set[str]()
    for name, good in results:
        known = " ".join(name.replace("\0", " ").split())
        if 0 < len(known) <= LONGEST_ID:
            (passed if good else other).add(known)
    return tuple(sorted(passed - other)[:MOST_IDS])


def lost(before: tuple[str, ...], after: tuple[str, ...]) -> tuple[str, ...]:
    """The ids that passed ``before`` and no longer do. Of an ``after`` that was cut at the cap, only what it can tell."""
    now = set(after)
    last = after[-1] if len(after) >= MOST_IDS else None
    return tuple(name for name in before if name not in now and (last is None or name < last))


def _junit(data: bytes) -> list[Result]:
    """The test cases of a JUnit file. One that is broken, too large or declares entities names none."""
    from xml.parsers import expat

    if len(data) > MOST_XML_BYTES:
        return []
    cases = _Cases()
    try:
        parser = expat.ParserCreate()
        parser.StartElementHandler = cases.start
        parser.EndElementHandler = cases.end
        parser.EntityDeclHandler = _refuse_entity
        parser.Parse(data, True)
    except (expat.ExpatError, ValueError, LookupError, RecursionError):
        return []
    return cases.results


def _refuse_entity(*_: object) -> None:
    raise ValueError("a test report needs no entities: https://en.wikipedia.org/wiki/Billion_laughs_attack")


class _Cases:
    """What the parser has met: the results, and the test case it stands in."""

    def __init__(self) -> None:
        self.results: list[Result] = []
        self._name = ""
        self._good = True
        self._depth = 0

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        kind = tag.rpartition(":")[2]
        if self._depth:
            self._depth += 1
            if self._depth == 2 and kind in _BAD_CHILDREN:
                self._good = False
        elif kind == "testcase":
            self._depth = 1
            of, name = attributes.get("classname", ""), attributes.get("name", "")
            self._name = f"{of}::{name}" if of and name else name
            said = {attributes.get("status", "").lower(), attributes.get("result", "").lower()}
            self._good = not said & _NOT_PASSED

    def end(self, _: str) -> None:
        if self._depth:
            self._depth -= 1
            if not self._depth:
                self.results.append((self._name, self._good))


def _printed(lines: list[str]) -> Iterator[Result]:
    """Every line that a runner of those we know prints of one test."""
    pending = ""  # a unittest whose outcome comes on a later line: it has a docstring, or it printed something
    for whole in lines:
        line = whole.rstrip()
        if not line or len(line) > _LONGEST_LINE:
            continue
        if line.startswith("{"):
            yield from _go_event(line)
        elif "::" in line and (found := _PYTEST.match(line) or _PYTEST_FIRST.match(line)):
            yield _node_id(found["id"]), found["outcome"] in ("PASSED", "XPASS")
        elif line.startswith("test ") and (found := _LIBTEST.match(line)):
            yield found["id"], found["outcome"] == "ok"
        elif "--- " in line and (found := _GO.match(line)):
            yield found["id"], found["outcome"] == "PASS"
        elif "(" in line and (found := _UNITTEST.match(line)):
            name, end = _dotted(found["name"], found["where"]), _UNITTEST_END.match(found["more"])
            pending = "" if end else name
            if end:
                yield name, end["outcome"] == "ok"
        elif pending and (found := _UNITTEST_END.match(line)):
            yield pending, found["outcome"] == "ok"
            pending = ""
        elif "ok " in line and (found := _TAP.match(line)):
            yield from _tap(found["id"], found["outcome"] == "ok")


def _go_event(line: str) -> Iterator[Result]:
    try:
        event = msgspec.json.decode(line, type=_GoEvent)
    except (msgspec.DecodeError, RecursionError):
        return
    if event.Test and event.Action in ("pass", "fail", "skip"):
        yield f"{event.Package}::{event.Test}", event.Action == "pass"


def _node_id(text: str) -> str:
    """A pytest node id as pytest's own JUnit file would have it: ``tests/test_a.py::C::test_x`` -> ``tests.test_a.C::test_x``."""
    plain, bracket, parameters = text.partition("[")
    path, *names = plain.split("::")
    module = path.replace("/", ".").removesuffix(".py")
    return f"{'.'.join((module, *names[:-1]))}::{names[-1] if names else ''}{bracket}{parameters}"


def _dotted(name: str, where: str) -> str:
    """``mod.C.test_x``, whether Python printed ``(mod.C.test_x)`` (3.11 on) or ``(mod.C)``."""
    return where if where.endswith(f".{name}") else f"{where}.{name}"


def _tap(text: str, good: bool) -> Iterator[Result]:
    """A TAP description without its directive; see https://testanything.org/tap-version-14-specification.html ."""
    directive = _TAP_DIRECTIVE.search(text)
    name = text[: directive.start()] if directive else text
    word = directive["directive"].upper() if directive else ""
    if name.startswith("#"):  # a test without a description
        return
    yield _BATS_TIME.sub("", name.strip()), good and not word.startswith(("SKIP", "TODO"))
