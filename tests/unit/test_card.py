"""The review card: what it says of a candidate, word for word at two widths, and that it fits wherever it is shown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from orchconverge.core import events as e
from orchconverge.core.card import Card, Looked, card, ready, telling, waiting
from orchconverge.core.overlap import Change, Claim, Difference, Ground, Lines, Merge
from orchconverge.core.risks import KINDS, LOOKED_FOR, kind, risks, untouched
from orchconverge.core.target import Criterion
from orchconverge.core.values import Evidence, Part, Taken, TurnedDown
from orchconverge.core.views import card as view
from orchconverge.core.views.lines import Look
from orchconverge.core.views.text import cells
from tests import tellings
from tests.golden.test_status import same
from tests.stories import Story, check, sha

NAMES = ("enrol", "verify", "recovery", "malformed", "types", "tests", "docs")
TIP = ("types", "tests")
BEST = ("enrol", "verify", "recovery", "types", "tests", "docs")
FLAGS = ("test removed: tests/test_login.py", "ci: .github/workflows/ci.yml")


def change(how: str, path: str, added: int | None, removed: int | None, old_path: str = "") -> Change:
    return Change(kind=how, path=path, old_path=old_path, added=added, removed=removed)


def patched(*changes: tuple[Change, str]) -> Difference:
    """A difference of these files, each with the body of its part of the patch."""
    text = "".join(f"diff --git a/{one.path} b/{one.path}\n{body}" for one, body in changes)
    return Difference(changes=tuple(one for one, _ in changes), patch=text)


BODY = "index 1..2 100644\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n"
CHANGED = patched(
    (change("M", "src/mfa/recovery.py", 180, 30), BODY),
    (change("A", "src/mfa/codes.py", 88, 7), BODY),
    (change("A", "tests/mfa/test_recovery.py", 118, 0), BODY),
    (change("M", "tests/test_login.py", 0, 9), f"{BODY}-    assert login()\n-    assert logout()\n"),
    (change("A", "docs/mfa.md", 14, 0), BODY),
    (change("M", "uv.lock", 12, 0), BODY),
    (change("M", ".github/workflows/ci.yml", 3, 1), BODY),
)


def wave(*, flags: Sequence[str] = FLAGS, lock: str = "person") -> Story:
    """Three candidates at one target; mfa.2 came first, mfa.1 alone meets `malformed`, mfa.3 loses `types`."""
    criteria = (*(check(name, command=f"pytest -q tests/mfa -k {name}") for name in NAMES),)
    story = Story()
    goal = "A second factor can be set up, used and recovered without calling support"
    story.declare("mfa", goal=goal, criteria=criteria, target="main", lock=lock)
    story.start("mfa", lock=lock).check("mfa", met=TIP, head="base")
    story.begin("mfa", minds=3, approach="library-first").wait(900.0, basin="mfa")
    for name, met, flagged in (("mfa.2", BEST, flags), ("mfa.1", ("enrol", "verify", "malformed", *TIP), ())):
        story.ended(name, seconds=60.0).candidate(name, met=met, flags=flagged)
    return story.ended("mfa.3", seconds=60.0).candidate("mfa.3", met=("enrol", "verify", "recovery", "tests"))


def proposed(story: Story) -> Story:
    """With what the controller would admit: mfa.2 whole, one part of mfa.1; a part of mfa.3 was refused."""
    evidence = story.answers("mfa", NAMES, "chain")
    whole = Taken(
        part=Part(branch="mfa.2"), commit=sha("p1"), tree=sha("t1"), paths=("src/mfa/codes.py",), gains=BEST[:3]
    )
    part = Part(branch="mfa.1", criterion="malformed", commits=(sha("c"),))
    taken = Taken(part=part, commit=sha("p2"), tree=sha("t2"), paths=("tests/mfa/test_m.py",), gains=("malformed",))
    refused = TurnedDown(part=Part(branch="mfa.3", paths=("registry.py",)), onto=sha("p2"), conflicts=("registry.py",))
    fact = e.ProposalMade(
        basin="mfa",
        tip=sha("base"),
        graft="mfa.2",
        parts=(whole, taken),
        refused=(refused,),
        head=sha("p2"),
        tree=sha("t2"),
        evidence=evidence,
    )
    return story.tell(fact)


def ground(branch: str, *paths: str, lines: tuple[Lines, ...] = (Lines(2, 4),)) -> Ground:
    claims = tuple(Claim(path, "blob", lines) for path in paths)
    return Ground(branch=branch, base=sha("base"), head=sha(branch), claims=claims)


GROUNDS = (
    ground("mfa.2", "src/mfa/recovery.py", "src/mfa/codes.py", "tests/test_login.py"),
    ground("mfa.1", "src/mfa/recovery.py", "tests/test_login.py"),
    ground("mfa.3", "src/mfa/recovery.py", lines=(Lines(90, 95),)),
)
MERGES = {("mfa.2", "mfa.1"): Merge(True), ("mfa.2", "mfa.3"): Merge(True)}


def looked(**changes: object) -> Looked:
    plain = Looked(target=sha("base"), difference=CHANGED, grounds=GROUNDS, merges=MERGES)
    return replace(plain, **changes)


def head(story: Story, basin: str = "mfa", **changes: object) -> Card:
    """The card of the candidate that waits longest."""
    return card(story.state, basin, waiting(story.state, story.basin(basin))[0].id, looked(**changes))


def drawn(shown: Card, look: Look = Look(), *, off: Sequence[int] = ()) -> str:  # noqa: B008 - frozen
    return view.card(shown, look, now=Story().now + timedelta(minutes=14), off=off)


# --- what it says ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [80, 120, 200])
@pytest.mark.parametrize("name", ["proposed", "flagged", "auth"])
def test_the_card_reads_as_it_always_did(name: str, width: int) -> None:
    stories = {"proposed": lambda: proposed(wave(flags=())), "flagged": wave, "auth": tellings.at_lock}
    basin = "auth" if name == "auth" else "mfa"
    seen = {"target": sha("3f2c9ab"), "grounds": (), "merges": {}} if name == "auth" else {}
    height = 24 if width == 80 else 40
    text = drawn(head(stories[name](), basin, **seen), Look(width=width, height=height, keys=name != "auth"))
    same(f"lock-{name}-{width}.txt", text + "\n")


def test_the_head_is_who_came_first_and_not_who_was_spawned_first() -> None:
    story = wave()
    assert [branch.id for branch in waiting(story.state, story.basin("mfa"))] == ["mfa.2", "mfa.1", "mfa.3"]
    shown = head(story)
    assert (shown.branch, shown.position, shown.waiting) == ("mfa.2", 1, 3)
    assert drawn(shown).startswith("[LOCK]  mfa.2  into main at ")


def test_gains_and_losses_are_over_the_tip() -> None:
    shown = head(wave())
    assert (shown.before, shown.met, shown.after, shown.whole) == (2, 6, 6, 7)
    assert (shown.gains, shown.losses, shown.more_is_met_by) == (("enrol", "verify", "recovery", "docs"), (), None)
    story = wave()
    third = card(story.state, "mfa", "mfa.3", looked())
    assert third.losses == ("types",)
    assert (third.before, third.met, third.after) == (2, 4, 4)
    assert third.more_is_met_by == "mfa.2"
    assert third.criteria[0].criterion == "types"
    assert "  ■ !  types" in drawn(third)


def test_unmet_comes_first_then_gained_and_what_is_as_it_was_is_one_line() -> None:
    shown = head(wave())
    assert [clause.this for clause in shown.criteria] == ["unmet", "only", "gained", "gained", "gained", "met", "met"]
    text = drawn(shown)
    assert (
        text.index("  □ □  malformed")
        < text.index("  □ ◈  docs")
        < text.index("2 met before and still met: types, tests")
    )
    assert "exit 1  2 failed" in text


def test_what_the_target_got_since_is_not_said_to_be_lost() -> None:
    story = wave(flags=()).graft("mfa.2", met=BEST)
    shown = head(story, target=sha("mergedmfa.2"))
    assert shown.branch == "mfa.1"
    assert shown.losses == ()
    text = drawn(shown)
    assert "Adds 1 criterion, loses none: 6/7 to 7/7." in text
    assert "2 met on the tip since it began: " in text


def test_the_others_say_what_is_lost_by_taking_this_one() -> None:
    first, second = head(wave()).others
    assert (first.branch, first.meets, first.covered, first.merges) == ("mfa.1", ("malformed",), False, True)
    assert first.lines == ("src/mfa/recovery.py", "tests/test_login.py")
    assert (second.branch, second.meets, second.covered, second.lines) == ("mfa.3", (), True, ())
    text = drawn(head(wave()))
    assert "mfa.1  5/7  meets malformed, this does not; same lines in 2 files" in text
    assert "mfa.3  4/7  meets nothing this does not; no shared lines; 1 shared file" in text
    conflict = {("mfa.2", "mfa.1"): Merge(False, ("src/mfa/recovery.py",))}
    text = drawn(head(wave(), merges=conflict))
    assert "meets malformed, this does not; conflict in src/mfa/recovery.py" in text
    assert "meets nothing this does not; not compared" in text


def test_only_here_are_the_files_that_nobody_else_touches() -> None:
    assert head(wave()).only == ("src/mfa/codes.py",)
    assert "7 files, only here: 1" in drawn(head(wave()))


def test_silence_is_a_statement() -> None:
    shown = head(wave())
    touched = {risk.kind for risk in shown.risks}
    assert touched == {"test removed", "ci", "lockfile", "fewer assertions"}
    assert set(shown.untouched) == set(LOOKED_FOR) - touched
    assert "untouched: criteria, hooks, agents, settings, secrets," in drawn(shown)


def test_flags_come_first_and_ask() -> None:
    shown = head(wave())
    assert [(risk.kind, risk.flagged) for risk in shown.risks] == [
        ("test removed", True),
        ("ci", True),
        ("fewer assertions", False),
        ("lockfile", False),
    ]
    text = drawn(shown, Look(keys=True))
    assert "Look at first: test removed, CI (2 flags)" in text
    assert " ! test removed       tests/test_login.py  +0 -9" in text
    assert "g graft alone (2 flags, asks)" in text
    assert "orchconverge graft mfa.2 --yes" in drawn(shown)


def test_commits_that_are_gone_are_said_and_nothing_is_called_untouched() -> None:
    shown = head(wave(), difference=None, grounds=GROUNDS[1:], merges={})
    assert (shown.changes, shown.untouched) == (None, ())
    text = drawn(shown)
    assert "its commits are not in this repository" in text
    assert "untouched" not in text


def test_a_target_that_moved_or_is_gone_is_said() -> None:
    text = drawn(head(wave(), target=sha("later")))
    assert f"main moved ({sha('base'):.7} to {sha('later'):.7}). mfa.2 will be checked again on it." in text
    assert "The branch main is gone" in drawn(head(wave(), target=None))


def test_what_was_refused_on_this_tip_says_why() -> None:
    story = wave().tell(e.GraftRefused(basin="mfa", branch="mfa.2", tip=sha("base"), conflicts=("src/x.py",)))
    assert "Refused on this tip before: conflict in src/x.py" in drawn(head(story))


# --- the proposal ----------------------------------------------------------------------------------------------------


def test_the_proposal_is_one_sentence_with_its_parts_numbered() -> None:
    text = drawn(head(proposed(wave(flags=()))), Look(width=120, keys=True))
    said = f"p1  graft mfa.2, take malformed from mfa.1: 2/7 to 7/7, gate passed on {sha('p2'):.7}   1 part refused"
    assert said in text
    assert "1 graft mfa.2 +3   2 malformed of mfa.1 +1   refused a part of mfa.3: conflict in registry.py" in text
    assert "a accept   1-2 turn a part   g graft alone   p prune   s skip" in text


def test_a_part_that_is_turned_off_takes_the_gates_word_away() -> None:
    text = drawn(head(proposed(wave(flags=()))), off=[2])
    assert "graft mfa.2: 1 turned off, what is left is gated anew" in text
    assert "2 malformed of mfa.1 +1 off" in text
    assert "gate passed" not in text


def test_only_a_proposal_of_this_tip_whose_branches_wait_is_ready() -> None:
    story = proposed(wave(flags=()))
    assert ready(story.state, story.basin("mfa"), sha("base")) is not None
    assert ready(story.state, story.basin("mfa"), sha("later")) is None
    story.tell(e.BranchPruned(basin="mfa", branch="mfa.1", reason="no", decidedBy="person"))
    assert ready(story.state, story.basin("mfa"), sha("base")) is None
    assert "No proposal for this tip yet" in drawn(head(story))


def test_flags_of_a_part_are_those_on_its_files() -> None:
    story = proposed(wave(flags=("ci: .github/workflows/ci.yml",)))
    parts = head(story).proposal.parts  # type: ignore[union-attr]
    assert [part.flags for part in parts] == [("ci: .github/workflows/ci.yml",), ()]


def test_where_nothing_can_be_proposed_it_is_not_offered() -> None:
    story = wave(flags=()).graft("mfa.2", met=NAMES)
    shown = head(story, target=sha("mergedmfa.2"))
    assert not shown.proposable
    text = drawn(shown)
    assert "No proposal: nothing that waits gains a criterion." in text
    assert "--accept" not in text


def test_while_a_run_admits_by_itself_only_what_is_flagged_waits_for_a_person() -> None:
    story = wave(lock="auto")
    assert [branch.id for branch in waiting(story.state, story.basin("mfa"))] == ["mfa.2"]
    story.judge("mfa", met=TIP).stop("limit", basin="mfa")
    assert len(waiting(story.state, story.basin("mfa"))) == 3
    story.tell(e.BasinKilled(basin="mfa", reason="enough"))
    assert waiting(story.state, story.basin("mfa")) == ()


# --- evidence and tests ----------------------------------------------------------------------------------------------


def test_the_telling_line_is_the_last_that_says_something() -> None:
    def of(text: str) -> str:
        return telling(Evidence(criterion="c", met="no", tree=sha("t"), excerpt=text))

    assert of("F.\n2 failed: empty code\n\n=====\n") == "2 failed: empty code"
    assert of("\x1b[31mred\x1b[0m\n---") == "red"
    assert (of(""), telling(None)) == ("", "")


def test_test_cases_that_come_and_go_are_named() -> None:
    story = Story().declare("mfa", criteria=(Criterion(name="tests", kind="tests", command="pytest"),), lock="person")
    story.start("mfa", lock="person")

    def ran(tree: str, *passed: str) -> tuple[Evidence, ...]:
        return (Evidence(criterion="tests", met="no", tree=sha(tree), exit=1, passed=passed),)

    story.tell(e.BasinChecked(basin="mfa", head=sha("base"), tree=sha("baset"), results=ran("baset", "one", "two")))
    story.begin("mfa").ended("mfa.1")
    evidence = ran("mfa.1t", "two", "three", "four")
    story.tell(
        e.BranchCandidate(basin="mfa", branch="mfa.1", head=sha("mfa.1"), summary="", evidence=evidence, commits=1)
    )
    shown = head(story, grounds=(), merges={})
    assert (shown.tests.cases_added, shown.tests.cases_gone, shown.tests.files_added) == (2, ("one",), 1)
    assert "2 tests more   1 test gone: one" in drawn(shown)


def test_evidence_shows_the_output_and_where_it_lies(tmp_path) -> None:
    story = wave()
    branch = story.state.branches["mfa.2"]
    found = [replace(x, log="abc.log") for x in branch.evidence]
    text = view.evidence(head(story).criteria, found, tmp_path, Look())
    assert "□ malformed  pytest -q tests/mfa -k malformed\n  exit 1, 22s, on tree " in text
    assert "  | F.\n  | 2 failed\n" in text
    assert f"  {tmp_path}/abc.log" in text


# --- risks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "what"),
    [
        ("src/app.py", "source"),
        ("tests/test_app.py", "tests"),
        ("docs/guide.txt", "docs"),
        ("README.md", "docs"),
        ("AGENTS.md", "agent instructions"),
        ("uv.lock", "lockfile"),
        ("web/package-lock.json", "lockfile"),
        (".github/workflows/ci.yml", "ci"),
        (".pre-commit-config.yaml", "hooks"),
        ("pyproject.toml", "config"),
        ("orchconverge.toml", "config"),
    ],
)
def test_a_file_is_of_one_kind(path: str, what: str) -> None:
    assert kind(path) == what
    assert what in KINDS


@pytest.mark.parametrize(
    ("path", "added", "meta", "body", "what"),
    [
        ("tests/test_a.py", 1, "", "+@pytest.mark.skip\n", ("test skipped", "1 added")),
        ("web/a.test.ts", 1, "", "+it.only('x')\n", ("test skipped", "1 added")),
        ("tests/test_a.py", 0, "", "-    assert a\n-    assert b\n+    assert c\n", ("fewer assertions", "1 fewer")),
        ("src/a.py", 1, "", "+-----BEGIN RSA PRIVATE KEY-----\n", ("secret", "1 like one")),
        ("src/a.py", 1, "", "+api_key = 'abcdefghijklmnop'\n", ("secret", "1 like one")),
        ("run", 0, "old mode 100644\nnew mode 100755\n", "", ("permission", "mode 755")),
        ("run", 1, "new file mode 100755\n", "", ("permission", "mode 755")),
        ("to", 1, "new file mode 120000\n", "", ("link", "+1 -0")),
        ("sub", 1, "new file mode 160000\n", "", ("submodule", "+1 -0")),
        ("a.png", None, "Binary files differ\n", "", ("binary", "binary")),
        ("Cargo.lock", 4, "", "", ("lockfile", "+4 -0")),
    ],
)
def test_content_is_looked_at_too(path: str, added: int | None, meta: str, body: str, what: tuple[str, str]) -> None:
    found = patched((change("M", path, added, 0 if added is not None else None), f"{meta}@@ -1 +1 @@\n{body}"))
    seen = risks((), found, ())
    assert what in [(risk.kind, risk.count) for risk in seen]
    assert not any(risk.flagged for risk in seen)
    assert what[0] not in untouched(seen)


def test_plain_work_has_nothing_to_look_at_first() -> None:
    found = patched((change("M", "src/a.py", 3, 1), f"{BODY}+password = read()\n+assert it.only\n"))
    assert risks((), found, ()) == ()
    assert untouched(()) == LOOKED_FOR


def test_a_file_of_another_type_does_not_shift_the_parts_of_those_behind_it() -> None:
    link = change("T", "a", 1, 1)
    both = "deleted file mode 100644\n@@ -1 +0,0 @@\n-x\ndiff --git a/a b/a\nnew file mode 120000\n@@ -0,0 +1 @@\n+y\n"
    found = patched((link, both), (change("M", "tests/test_b.py", 1, 0), "@@ -1 +1 @@\n+pytest.skip('x')\n"))
    assert {(risk.kind, risk.path) for risk in risks((), found, ())} == {
        ("link", "a"),
        ("test skipped", "tests/test_b.py"),
    }


def test_what_may_change_unflagged_is_still_not_called_untouched() -> None:
    found = patched((change("M", ".github/workflows/ci.yml", 1, 0), BODY))
    assert "ci" not in untouched(risks((), found, ()))


# --- that it fits ----------------------------------------------------------------------------------------------------

HOSTILE = st.text(st.characters(codec="utf-8"), max_size=40) | st.sampled_from(
    ["\x1b[2J\x1b]0;x\x07", "漢字" * 30, "a" * 300, "\u202eevil", "e\u0301" * 20, "…" * 50]
)


@st.composite
def cards(draw: st.DrawFn) -> Card:
    """Any card: of the wave, with more of everything, and hostile words everywhere."""
    story = wave(flags=[f"ci: {draw(HOSTILE)}" for _ in range(draw(st.integers(0, 4)))])
    if draw(st.booleans()):
        proposed(story)
    changes = [change("M", draw(HOSTILE) or "x", 1, 1) for _ in range(draw(st.integers(0, 30)))]
    shown = head(story, difference=Difference(changes=tuple(changes)))
    more = draw(st.integers(0, 12))
    return replace(
        shown,
        macrostate=shown.macrostate * draw(st.integers(1, 4)),
        criteria=shown.criteria + tuple(replace(shown.criteria[0], criterion=f"c{n}") for n in range(more)),
        others=shown.others
        + tuple(replace(shown.others[0], branch=f"mfa.{n}") for n in range(4, 4 + draw(st.integers(0, 200)))),
        refused=draw(st.sampled_from(["", "conflict in " + "a/b.py, " * 30])),
    )


@settings(max_examples=60, deadline=None)
@given(cards(), st.integers(40, 200), st.booleans(), st.booleans())
def test_no_line_is_wider_than_the_screen_and_nothing_harmful_is_left(
    shown: Card, width: int, ascii: bool, keys: bool
) -> None:
    text = drawn(shown, Look(width=width, ascii=ascii, keys=keys))
    assert max(map(cells, text.split("\n"))) <= width
    assert re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text) is None
    assert text.isascii() or not ascii


@settings(max_examples=60, deadline=None)
@given(cards(), st.integers(80, 200), st.booleans())
def test_all_that_decides_is_within_twenty_four_lines(shown: Card, width: int, keys: bool) -> None:
    lines = drawn(shown, Look(width=width, keys=keys)).split("\n")
    assert len(drawn(shown, Look(width=width, height=24, keys=keys)).split("\n")) <= view.LINES
    assert all(line.startswith("   ") for line in lines[view.LINES :])
    lines = lines[: view.LINES]
    assert any(line.startswith(" p1  ") or " No proposal" in line for line in lines)
    hidden = sum(int(found[1]) for line in lines if (found := re.match(r"   \+ (\d+) more: ", line)))
    rows = len([c for c in shown.criteria if c.tip != "met"]) + len(shown.risks) + len(shown.others)
    rows_shown = sum(bool(re.match(r"  [□■·] [□▣◈!·■] |  *! |   mfa\.", line)) for line in lines)
    assert rows_shown + hidden == rows


@pytest.mark.parametrize("width", [80, 120, 200])
def test_a_command_is_never_cut(width: int) -> None:
    text = drawn(head(proposed(wave(flags=()))), Look(width=width))
    for command in ("lock mfa --accept [--without N]", "graft mfa.2", "prune mfa.2 --reason TEXT"):
        assert f"orchconverge {command}" in text


def test_colour_repeats_what_shape_and_word_say_and_uses_five_codes() -> None:
    shown = head(wave())
    bright, plain = drawn(shown, Look(colour=True)), drawn(shown)
    assert set(re.findall(r"\x1b\[([0-9;]*)m", bright)) <= {"0", "1", "2", "32", "31", "30;43"}
    assert re.sub(r"\x1b\[[0-9;]*m", "", bright) == plain.replace("[LOCK]", " LOCK ")
    assert "\x1b" not in plain


def test_every_glyph_has_its_twin_in_ascii() -> None:
    text = drawn(head(wave()), Look(ascii=True))
    assert "  - -  malformed" in text
    assert "  - 1  docs" in text
    assert "?" not in text


def test_the_same_card_is_drawn_the_same_twice_and_goes_through_json() -> None:
    shown = head(proposed(wave()))
    assert drawn(shown) == drawn(shown)
    keys = msgspec.json.decode(msgspec.json.encode(shown))
    assert {"branch", "criteria", "risks", "others", "proposal", "untouched", "changes"} <= set(keys)
    assert keys["proposal"]["parts"][1]["criterion"] == "malformed"
