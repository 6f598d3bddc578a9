"""The sanitizer against any text, and every view against any ledger."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchconverge.core import events as e
from orchconverge.core.projection import PHASES, Damage, Probes, exit_code, export, project
from orchconverge.core.target import Sha
from orchconverge.core.values import ControllerId, Evidence, Limits, Process, Residue, Settings, Usage, Verdict
from orchconverge.core.views.markdown import code, prose
from orchconverge.core.views.report import report
from orchconverge.core.views.status import block, line, verbose
from orchconverge.core.views.text import age, cells, clean, clip, clock, duration, tail, to_ascii
from orchconverge.errors import Illegal
from tests import tellings
from tests.stories import Story

PIECES = (
    "\x1b[31m", "\x1b]0;title\x07", "\x1b]8;;http://x\x1b\\", "\x1bP1$q\x1b\\", "\x9b2J", "\x9d0;t\x9c", "\x1b", "\x1b]",
    "\u202e", "\u2066", "\u200b", "\u200d", "\ufeff", "\u00ad", "\u2028", "\x00", "\x7f", "\x85", "\r\n", "\t", "\ud800",
    "\U000e0041", "\ufe0f", "\u3164", "e\u0301", "\u0301" * 9, "語", "👩\u200d👩", "ﷺ", "½", " ", "a", "word ", "|", "`",
)  # fmt: skip
HOSTILE = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=8)), max_size=12).map("".join)
SHORT = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def unseen(text: str, allowed: str = "") -> list[str]:
    """What must not be left: controls, format characters, surrogates, separators of lines."""
    return [c for c in text if c not in allowed and unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")]


# --- the sanitizer ---------------------------------------------------------------------------------------------------


@given(HOSTILE)
@SHORT
def test_a_clean_line_has_nothing_that_acts_or_hides(text: str) -> None:
    line = clean(text)
    assert not unseen(line)
    assert "  " not in line
    assert line == line.strip(" ")
    assert not {"\ufe0f", "\u3164", "\u034f"} & set(line)
    line.encode()


@given(HOSTILE)
@SHORT
def test_lines_and_tabs_stay_only_where_they_are_allowed(text: str) -> None:
    assert not unseen(clean(text, keep="\n\t"), allowed="\n\t")
    kept = tail(text, 64)
    assert not unseen(kept, allowed="\n\t")
    assert len(kept.encode()) <= 64


@given(HOSTILE)
@SHORT
def test_cleaning_twice_is_cleaning_once(text: str) -> None:
    assert clean(clean(text)) == clean(text)


@given(HOSTILE, st.integers(0, 30))
@SHORT
def test_clipped_text_fits(text: str, most: int) -> None:
    line = clean(text, most)
    assert cells(line) <= most
    assert cells(clip(clean(text), most, ellipsis="..")) <= most
    assert to_ascii(line).isascii()


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=40))
def test_plain_text_is_left_alone(text: str) -> None:
    assert clean(text) == " ".join(text.split())


def test_what_stands_between_sequences_is_not_lost() -> None:
    assert clean("\x1b[1;31mred\x1b[0m \x1b]8;;http://x\x07link\x1b]8;;\x07") == "red link"
    assert clean("\x1b]0;never ended, and more words") == "0;never ended, and more words"
    assert clean("one\r\ntwo\tthree\u2028four") == "one two three four"
    assert tail("a\r\nb\n\n", 100) == "a\nb"
    assert clean("Zalgo" + "\u0301" * 50) == "Zalgo" + "\u0301" * 3


@pytest.mark.parametrize(
    ("text", "width"), [("語", 2), ("e\u0301", 1), ("abc", 3), ("\u1112\u1161", 2), ("½", 1), ("👍", 2)]
)
def test_cells_are_what_a_terminal_takes(text: str, width: int) -> None:
    assert cells(text) == width


def test_a_hostile_megabyte_costs_no_more_than_reading_it() -> None:
    for piece in ("\x1b]", "\x9d", "\x1b[", "\x1b[1;", "\x1bP\x1b", "\u0301"):
        assert cells(clean(piece * 300_000, 60)) <= 60
        assert len(clean(piece * 100_000)) <= 200_000


def test_durations_ages_and_clocks() -> None:
    assert [duration(s) for s in (-1, 0, 41.9, 157, 4980, 10800, 400_000)] == [
        "0s", "0s", "41s", "2m 37s", "1h 23m", "3h 00m", "111h 06m",
    ]  # fmt: skip
    assert [age(s) for s in (-1, 59, 60, 840, 7200, 172_800)] == ["now", "now", "1m", "14m", "2h", "2d"]
    now = datetime(2026, 11, 29, 14, 23, 7, tzinfo=UTC)
    assert clock(now, now, seconds=True) == "14:23:07"
    assert clock(now - timedelta(days=3), now) == "Thu 14:23"
    assert clock(now - timedelta(days=30), now) == "30 Oct 14:23"


@given(HOSTILE)
@SHORT
def test_markdown_of_any_text_is_one_line_without_markup(text: str) -> None:
    for shown in (prose(text), code(text)):
        assert not unseen(shown)
        assert "\n" not in shown
    plain = prose(text)
    assert "<" not in plain
    assert ">" not in plain
    assert not any(c in "|`*_[]~$" and (at == 0 or plain[at - 1] != "\\") for at, c in enumerate(plain))


# --- any ledger ------------------------------------------------------------------------------------------------------

BASINS = st.sampled_from(["auth", "mfa", "new"])
BRANCHES = st.builds("{}.{}".format, BASINS, st.integers(1, 5))
TEXT = st.one_of(st.sampled_from(["why", "x" * 300]), HOSTILE.filter(lambda t: "\ud800" not in t))
SAID = TEXT.map(lambda text: text + "!")
SHAS = st.sampled_from([Sha(c * 40) for c in "ab"])
NAMES = st.sampled_from(["oauth", "docs", "enrol", "else"])
TIMES = st.one_of(st.none(), st.datetimes(datetime(2026, 1, 1), datetime(2027, 1, 1), timezones=st.just(UTC)))
EVIDENCE = st.lists(
    st.builds(
        Evidence,
        criterion=NAMES,
        met=st.sampled_from(["yes", "no", "error", "unstable"]),
        tree=SHAS,
        exit=st.one_of(st.none(), st.integers(0, 255)),
        seconds=st.floats(0, 1e5),
        excerpt=TEXT,
    ),
    max_size=3,
).map(tuple)
RESIDUE = st.lists(st.builds(Residue, text=SAID, paths=st.tuples(TEXT)), max_size=2).map(tuple)
USAGE = st.builds(Usage, inputTokens=st.integers(0, 10**9), usd=st.one_of(st.none(), st.floats(0, 1e4)))
LIMITS = st.builds(
    Limits,
    attempts=st.one_of(st.none(), st.integers(1, 9)),
    hours=st.one_of(st.none(), st.floats(0.1, 9)),
    usd=st.one_of(st.none(), st.floats(0.1, 9)),
    tokens=st.one_of(st.none(), st.integers(1, 10**7)),
    minds=st.one_of(st.none(), st.integers(1, 9)),
    until=TIMES,
)
SETTINGS = st.builds(
    Settings,
    checkout=st.just("/home/somebody/shop"),
    place=st.sampled_from(["here", "fresh"]),
    engines=st.lists(SAID, min_size=1, max_size=3).map(tuple),
    chain=st.lists(st.sampled_from(["pushl", "report"]), unique=True).map(tuple),
    stallAfter=st.integers(1, 3),
    interval=st.floats(0, 1e4),
)
LABELS = ("frontier", "cause", "state", "action", "source", "error", "overruled")
LISTS = ("failed_checks", "uncounted", "target_fingerprints")
WORK = st.fixed_dictionaries(
    {},
    optional={f"work_convergence_{name}": TEXT for name in LABELS}
    | {f"work_convergence_{name}": st.lists(TEXT, max_size=4) for name in LISTS}
    | {"admission": TEXT, "authoring_next_action": TEXT, "refused": st.integers(0, 9)},
)
OWN: dict[str, st.SearchStrategy[Any]] = {
    "basin": BASINS, "branch": BRANCHES, "title": SAID, "macrostate": SAID, "goal": SAID, "why": SAID, "target": SAID,
    "head": SHAS, "tree": SHAS, "base": SHAS, "tip": SHAS, "mergeCommit": SHAS, "commit": st.one_of(st.none(), SHAS),
    "results": EVIDENCE, "evidence": EVIDENCE, "residue": RESIDUE, "frontier": st.just(()), "usage": USAGE,
    "process": st.just(Process(boot="b", pid=1, start=1)), "settings": SETTINGS, "limits": LIMITS, "until": TIMES,
    "controller": st.builds(ControllerId, host=TEXT, boot=st.just("b"), pid=st.just(1), start=st.just(1), tmux=TEXT),
    "criteria": st.dictionaries(NAMES, st.booleans()), "wave": st.integers(1, 6), "attempt": st.integers(1, 6),
    "session": st.sampled_from(["session-auth", "session-mfa", "s"]), "round": st.integers(0, 3),
    "step": st.sampled_from(["pushl", "reviewdeep", "copilot", "report"]), "progress": st.integers(0, 100),
    "verdict": st.one_of(st.none(), st.builds(Verdict, kind=st.just("cannot"), text=SAID)), "question": SAID,
    "seconds": st.floats(0, 1e5), "width": st.integers(1, 3), "commits": st.integers(1, 9), "deadline": st.floats(1, 1e5),
    "flags": st.lists(TEXT, max_size=2).map(tuple), "origin": TEXT, "url": st.one_of(st.none(), TEXT), "to": TEXT,
    "workConvergence": WORK, "findings": st.just(()), "parts": st.just(()), "refused": st.just(()),
    "conflicts": st.lists(TEXT, max_size=2).map(tuple), "retries": st.none(), "takesOver": st.none(), "limit": st.none(),
    "engine": SAID, "reserve": st.none(), "budget": st.none(), "exit": st.none(), "signal": st.none(),
}  # fmt: skip
PLAIN = {"str": TEXT, "NonBlank": SAID, "bool": st.booleans(), "str | None": st.one_of(st.none(), TEXT)}


def any_of(kind: type[msgspec.Struct]) -> st.SearchStrategy[Any]:
    """Any fact of a kind: known fields as above, words from their list, the rest plain text."""
    parts: dict[str, st.SearchStrategy[Any]] = {}
    for field in msgspec.inspect.type_info(kind).fields:  # type: ignore[union-attr]
        name, typed = field.name, field.type
        if name in ("v", "seq", "at", "writer", "active"):
            continue
        if isinstance(typed, msgspec.inspect.LiteralType):
            parts[name] = st.sampled_from(typed.values)
        elif name in OWN and not (kind is e.BasinAmended and name != "basin"):
            parts[name] = OWN[name]
        elif isinstance(typed, msgspec.inspect.StrType):
            parts[name] = SAID
        elif isinstance(typed, msgspec.inspect.BoolType):
            parts[name] = st.booleans()
    if kind is e.BasinAmended:
        parts["why"] = SAID
    return st.builds(kind, **parts)


KINDS = [kind for kind in e.AnyFact.__args__ if kind is not e.BasinDeclared]
FACTS = st.one_of(*map(any_of, KINDS))
BEGUN: list[Callable[[], Story]] = [
    Story,
    lambda: Story().declare(),
    tellings.seeds_example,
    tellings.converged,
    tellings.at_lock,
    tellings.finalizing,
    lambda: tellings.running(minds=2),
    lambda: tellings.parked("quota", "no quota", minutes=9),
    tellings.limited,
    tellings.blocked,
]
BEGINNINGS = [tuple(begin().facts) for begin in BEGUN]
ANSWER = st.one_of(st.none(), st.booleans())
PROBES = st.builds(
    Probes,
    leases=st.one_of(st.just({"auth": True, "mfa": True, "new": True}), st.dictionaries(BASINS, ANSWER)),
    tmux=st.dictionaries(BASINS, ANSWER),
    minds=st.dictionaries(BASINS, st.one_of(st.none(), st.integers(0, 9))),
    silent=st.dictionaries(BASINS, st.floats(0, 1e6)),
    asleep=st.floats(0, 1e6),
    ledger=st.builds(Damage, lines=st.integers(0, 99), bad=st.integers(0, 9), torn=st.booleans()),
    newest=TIMES,
)


def folded(beginning: tuple[e.AnyFact, ...], upto: int, lost: set[int], more: dict[int, e.AnyFact]) -> Story:
    """A run up to a point, with some of its lines lost and others come in between, as far as all that is legal."""
    story = Story()
    for number in range(upto):
        known = [beginning[number]] if number < len(beginning) and number not in lost else []
        for fact in (*known, *([more[number]] if number in more else [])):
            story.now = max(story.now, fact.at or story.now) + timedelta(seconds=30)
            try:
                story.tell(fact)
            except Illegal:
                continue
    return story


@given(
    st.sampled_from(BEGINNINGS),
    st.integers(0, 50),
    st.sets(st.integers(0, 50), max_size=6),
    st.dictionaries(st.integers(0, 50), FACTS, max_size=8),
    PROBES,
    st.booleans(),
)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_any_ledger_can_be_shown(
    beginning: tuple[e.AnyFact, ...],
    upto: int,
    lost: set[int],
    more: dict[int, e.AnyFact],
    probes: Probes,
    ascii: bool,
) -> None:
    story = folded(beginning, upto, lost, more)
    shown = project(story.state, probes=probes, now=story.now, recent=story.facts)
    msgspec.json.encode(shown)
    for text in (block(shown, ascii=ascii), verbose(shown, ascii=ascii), line(shown, ascii=ascii)):
        assert not unseen(text, allowed="\n")
        assert text.isascii() or not ascii
    if shown.basins:
        assert [one.partition(":")[0] for one in block(shown).splitlines()[:7]] == [
            "Goal", "Status", "Elapsed", "Progress", "Last Result", "Tmux Session", "Next Attempt",
        ]  # fmt: skip
    for need in shown.needs_you:
        assert cells(need.sentence) <= 60
        assert need.command.startswith(("orchconverge ", "git diff "))
    for basin in shown.basins:
        assert basin.phase in PHASES
        assert basin.waits_for.what
        assert exit_code(story.state, basin.id) in (0, 1, 2, 3, 4, 5)
        assert msgspec.json.encode(export(story.state, basin.id, seq=story.seq))
        text = report(
            story.state,
            basin.id,
            now=story.now,
            seq_from=1,
            seq_to=story.seq,
            bad=0,
            facts=story.facts if ascii else (),
        )
        assert not unseen(text, allowed="\n")
        assert "/home/somebody" not in text
