"""The overview: what it says in each state, how its rows stand, and what follows a ledger that grows."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from datetime import timedelta

import click
import pytest
from msgspec.structs import replace

from orchconverge.cli.group import orchconverge
from orchconverge.core.happened import Event
from orchconverge.core.measures import Nearest
from orchconverge.core.needs import ORDER, Damage
from orchconverge.core.projection import Probes, Projection, project
from orchconverge.core.shown import BasinShown, Queued, Used
from orchconverge.core.views import card
from orchconverge.core.views.board import SMALL, Chosen, board, order, unreadable
from orchconverge.core.views.board_events import together
from orchconverge.core.views.board_rows import MARK, bar, limit
from orchconverge.core.views.lines import Look, bare, plain
from orchconverge.core.views.plain import changes
from orchconverge.core.views.plain import plain as plain_text
from orchconverge.core.views.text import cells
from tests import tellings
from tests.shop import crowd, shop, shown
from tests.stories import START, Story
from tests.unit.test_projection import everything

SHOP = shown(shop())
AT_80 = Look(width=80, height=24)


def texts(found: Projection, look: Look = AT_80, **chosen: str) -> list[str]:
    return [bare(line) for line in board(found, look, repo="shop", chosen=Chosen(**chosen)).lines]


def text(found: Projection, look: Look = AT_80, **chosen: str) -> str:
    return "\n".join(texts(found, look, **chosen))


def basin(name: str) -> BasinShown:
    found = SHOP.basin(name)
    assert found is not None
    return found


# --- what is said first ----------------------------------------------------------------------------------------------


def test_without_a_goal_it_says_how_to_begin() -> None:
    nothing = project(Story().state, probes=Probes(), now=START)
    assert texts(nothing)[1:] == [" ▏ No destination yet.", ' ▏ orchconverge "what should be true when it is done"']


BY_ITSELF = "Everything below goes on by itself."


@pytest.mark.parametrize(
    ("story", "said", "below"),
    [
        (Story().declare(), "auth is declared, nothing runs.", "orchconverge open auth"),
        (tellings.stopped(), "Nothing needs you. auth is stopped, nothing runs.", "orchconverge resume auth"),
        (tellings.killed(), "Nothing needs you and nothing runs. 1 killed.", ""),
        (tellings.finalizing(), "Nothing needs you. auth waits for step 2 of 4, reviewdeep.", BY_ITSELF),
        (tellings.running(), "Nothing needs you. Next: attempt 2 of auth ends in 26m at the latest.", BY_ITSELF),
    ],
)  # fmt: skip
def test_where_nothing_needs_a_person_it_says_what_comes_next(story: Story, said: str, below: str) -> None:
    lines = texts(shown(story))
    assert [line.removeprefix(" ▏").strip() for line in lines[1:3]] == [said, below]
    assert "NEEDS YOU" not in "".join(lines)


def test_one_that_was_stopped_does_not_go_on_by_itself() -> None:
    story = tellings.stopped()
    story.declare("mfa").start("mfa").check("mfa").begin("mfa")
    assert "auth does not; the others go on by themselves." in text(shown(story))


def test_a_controller_without_an_answer_is_unknown_and_neither_dead_nor_done() -> None:
    story = tellings.running()
    said = text(project(story.state, probes=Probes(), now=story.now))
    assert "? auth" in said
    assert "UNKNOWN" in said
    assert "auth: controller gave no answer, nothing changed." in said
    gone = text(project(story.state, probes=Probes(leases={"auth": False}, silent={"auth": 371.0}), now=story.now))
    assert "[NEEDS YOU]  The controller of auth has not been seen for 6m 11s" in gone
    assert "orchconverge resume auth" in gone


def test_a_damaged_ledger_and_events_of_a_newer_version_are_on_every_screen() -> None:
    story = tellings.parked("tamper", "hooks changed")
    probes = Probes(leases={"auth": True}, ledger=Damage(lines=1842, bad=2, unknown=3))
    for look in (AT_80, Look(width=120, height=40), Look(width=60, height=12)):
        said = " ".join(texts(project(story.state, probes=probes, now=story.now), look))
        assert "2 of 1842 lines are damaged and skipped. orchconverge" in said
        assert "3 events are of a newer version and are kept, not shown." in said
    alone = project(tellings.running().state, probes=Probes(ledger=Damage(lines=9, bad=2)), now=story.now)
    assert text(alone).count("damaged") == 1, "what the strip says is not said again"


def test_a_ledger_that_cannot_be_read_shows_nothing() -> None:
    frame = unreadable("permission denied", "ledger.jsonl: put it back", AT_80, repo="shop")
    said = " ".join(" ".join(bare(line) for line in frame.lines).split())
    sentence = "Cannot read the ledger: permission denied. Nothing is shown, because nothing is known."
    assert said == f"shop {sentence} ledger.jsonl: put it back"
    assert not frame.rows


def test_too_small_is_said_in_words_that_help() -> None:
    for look in (Look(width=39, height=40), Look(width=80, height=11)):
        assert texts(SHOP, look) == [" ".join(SMALL)]
    assert texts(SHOP, Look(width=30, height=8)) == [*SMALL], "the command is whole"


def test_on_a_narrow_screen_the_ways_in_and_out_are_named_and_no_note_is_cut() -> None:
    story = tellings.running()
    odd = project(story.state, probes=Probes(ledger=Damage(lines=9, bad=2, unknown=3)), now=story.now)
    lines = texts(odd, Look(width=40, height=14, keys=True))
    assert lines[-1] == " n needs you  enter open  ? keys  q quit"
    said = " ".join(" ".join(lines).split())
    assert "3 events are of a newer version and are kept, not shown." in said


def test_a_tag_is_filled_only_where_a_person_is_needed() -> None:
    colour = Look(width=120, height=40, colour=True)
    needed = "".join(board(SHOP, colour, repo="shop").lines)
    assert needed.count("\x1b[30;43m") == 3, "the strip and the two words that say why"
    assert needed.index("\x1b[30;43m NEEDS YOU 1 of 2 \x1b[0m") < needed.index("AT LOCK")
    assert "\x1b[30;43m" not in "".join(board(shown(tellings.running()), colour, repo="shop").lines)


def test_the_same_cells_hold_the_tag_without_colour() -> None:
    colour, none = (texts(SHOP, Look(width=80, height=24, colour=colour)) for colour in (True, False))
    assert colour[1].replace(" NEEDS YOU 1 of 2 ", "[NEEDS YOU 1 of 2]") == none[1]
    assert colour[2:] == none[2:]


# --- rows ------------------------------------------------------------------------------------------------------------


def test_rows_stand_in_the_order_of_groups_then_as_declared() -> None:
    assert order(SHOP) == ("refunds", "mfa", "search", "cache", "flaky", "guide", "auth", "fuzzy")
    frame = board(SHOP, Look(width=120, height=40), repo="shop")
    assert list(dict.fromkeys(frame.rows.values())) == list(order(SHOP))
    assert len(frame.rows) == 16, "two lines each while all of them fit"


def test_a_filter_is_a_part_of_the_id_or_of_the_destination_or_a_phase() -> None:
    assert order(SHOP, filter="a") == order(SHOP, filter="A")
    assert order(SHOP, filter="buyer's") == ("refunds",)
    assert order(SHOP, filter="phase:waiting") == ("guide",)
    assert order(SHOP, filter="phase:at lock") == ("mfa",)
    assert "/buyer's   1 of 8   esc shows all" in text(SHOP, filter="buyer's")
    assert "Nothing matches." in text(SHOP, filter="no such words")


def test_the_selected_one_is_marked_and_its_destination_said_in_full() -> None:
    lines = texts(SHOP, selected="guide")
    assert sum(line.startswith(MARK[0]) for line in lines) == 3
    assert f"{MARK[0]}◷ guide" in "".join(lines)
    assert f"{MARK[0]}  A newcomer deploys from the guide alone" in lines
    assert f"{MARK[0]}  waits for quota: claude, until 15:40" in lines, "its row had no room for it"


def test_what_needs_a_person_first_is_selected_where_nothing_was() -> None:
    assert f"{MARK[0]}◆ mfa" in text(SHOP)
    assert f"{MARK[0]}◆ refunds" in text(SHOP, selected="refunds")


def test_a_fold_says_how_many_it_hides_and_keeps_what_is_near_a_limit() -> None:
    many = crowd(SHOP, 30)
    hot = [
        replace(one, limit_first=Nearest(kind="time", fraction=0.9)) if one.id == "goal-20" else one
        for one in many.basins
    ]
    lines = texts(replace(many, basins=tuple(hot)))
    folds = [line for line in lines if line.startswith("   + ")]
    assert folds[0].endswith("more moving")
    assert folds[1:] == ["   + 1 waiting", "   + 2 ended: 1 converged, 1 killed"]
    assert any("goal-20" in line for line in lines)
    assert any("goal-21" in line for line in texts(replace(many, basins=tuple(hot)), selected="goal-21"))
    waiting = [one for one in lines if "near a limit" in one]
    assert not waiting
    close = replace(basin("guide"), limit_first=Nearest(kind="money", fraction=0.8))
    found = replace(many, basins=tuple(close if one.id == "guide" else one for one in many.basins))
    assert "   + 1 waiting, 1 near a limit" in texts(found)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"kind": "attempts", "fraction": 0.1}, "try 4/10"),
        ({"kind": "time", "fraction": 0.1}, "2h15/3h00"),
        ({"kind": "money", "fraction": 0.1}, "$1.50/8"),
        ({"kind": "tokens", "fraction": 0.1}, "124k/2.0M"),
        ({"kind": "minds", "fraction": 0.5}, "minds 50%"),
        ({"kind": None, "fraction": None}, "no limit"),
    ],
)
def test_the_limit_that_ends_it_first_is_a_word(change: dict[str, object], said: str) -> None:
    one = replace(
        basin("search"),
        limit_first=Nearest(**change),  # type: ignore[arg-type]
        usd=Used(used=1.5, max=8.0),
        tokens=Used(used=124_000.0, max=2e6),
    )
    assert limit(one) == said


def test_a_limit_from_four_fifths_on_is_marked() -> None:
    for fraction, said in ((0.79, "2h15/3h00  attempt"), (0.8, "2h15/3h00! attempt")):
        one = replace(basin("search"), limit_first=Nearest(kind="time", fraction=fraction))
        assert said in text(replace(SHOP, basins=tuple(one if x.id == "search" else x for x in SHOP.basins)))


@dataclass
class Bar:
    met: int
    whole: int
    pending: int = 0
    loses: int = 0


@pytest.mark.parametrize(
    ("given", "drawn"),
    [
        (Bar(2, 7, 4), "■■▣▣▣▣□ "),
        (Bar(4, 6), "■■■■□□  "),
        (Bar(3, 5, 1, loses=2), "■!!▣□   "),
        (Bar(0, 0), "        "),
        (Bar(8, 8), "■■■■■■■■"),
        (Bar(15, 16), "■■■■■■■□"),
    ],
)
def test_a_bar_has_a_cell_for_each_criterion_or_is_rounded_down(given: Bar, drawn: str) -> None:
    one = replace(basin("auth"), met=given.met, required=given.whole, pending_at_lock=given.pending)
    assert "".join(plain(piece) for piece in bar(one, AT_80, width=8, loses=given.loses)) == drawn


def test_what_the_candidate_at_the_lock_loses_is_in_the_row() -> None:
    queue = tuple(replace(one, loses=1) if one.branch == "mfa.2" else one for one in SHOP.lock.queue)
    assert "■!▣▣▣▣□  2/7" in text(replace(SHOP, lock=replace(SHOP.lock, queue=queue)))


def test_what_was_never_run_is_not_called_unmet() -> None:
    assert "········ 0/8" in text(shown(Story().declare()))
    assert "□□□□□□□□ 0/8" in text(shown(Story().declare().start().check().begin()))


# --- below the rows --------------------------------------------------------------------------------------------------


def test_an_empty_lock_is_said() -> None:
    found = shown(tellings.running())
    assert f"   {card.EMPTY}" in texts(found, Look(width=120, height=40))
    assert any(line.startswith("LOCK ") and line.endswith(" empty") for line in texts(found))


def test_the_queue_is_counted_where_it_does_not_fit() -> None:
    more = tuple(
        Queued(branch=f"mfa.{n}", basin="mfa", met=1, adds=1, loses=0, since=None, flags=("ci",)) for n in range(4, 9)
    )
    found = replace(SHOP, lock=replace(SHOP.lock, queue=(*SHOP.lock.queue, *more)))
    assert "       7 more" in texts(found)
    assert "       6 more" in texts(found, Look(width=120, height=40))
    assert "l opens the review card" in text(SHOP, Look(width=80, height=24, keys=True))
    assert "orchconverge lock mfa\n       2 more" in text(SHOP)


def test_a_wave_is_one_event_however_many_minds_it_has() -> None:
    def of(minds: int) -> list[Event]:
        story = Story().declare().start().check().begin(minds=minds).wait(60.0, basin="auth")
        for number in range(1, minds + 1):
            story.ended(f"auth.{number}").failed(f"auth.{number}", "committed nothing")
        return together(shown(story).events)

    few, many = of(3), of(11)
    assert [one.what for one in many] == ["11 minds ended", "attempt 1 started", *(one.what for one in few[2:6])]
    assert [one.detail for one in many[:2]] == ["11 without a candidate", "engine claude, another approach, 11 minds"]
    assert [one.what for one in of(1)][:2] == ["auth.1 is no candidate", "attempt 1 started"]


def test_of_a_wave_whose_beginning_is_out_of_sight_the_minds_are_told() -> None:
    story = Story().declare().start().check().begin(minds=40)
    assert [one.what for one in together(shown(story).events)] == ["minds searching"]


def test_of_a_wave_whose_end_is_in_part_out_of_sight_no_count_is_given_for_the_whole() -> None:
    story = Story().declare().start().check().begin(minds=200)
    for number in range(1, 201):
        story.ended(f"auth.{number}").candidate(f"auth.{number}", met=())
    found = shown(story).events
    assert [(one.what, one.detail) for one in together(found)] == [("25 or more minds ended", "")]
    assert [(one.what, one.detail) for one in together(found, whole=True)] == [("25 minds ended", "25 candidates")]


def test_waves_that_begin_side_by_side_are_one_event_each() -> None:
    found = shown(Story().declare().start().check().begin(minds=4)).events
    mixed = [event for one in found for event in (one, replace(one, basin="mfa"))]
    assert [(one.basin, one.what) for one in together(mixed)][:2] == [
        ("auth", "attempt 1 started"),
        ("mfa", "attempt 1 started"),
    ]


def test_criteria_of_the_selected_one_are_shown_where_there_is_room() -> None:
    lines = texts(shown(tellings.running()))
    at = next(place for place, line in enumerate(lines) if line.startswith("auth: CRITERIA "))
    assert lines[at + 1].startswith(" □ logout     not met    22s     pytest -q tests/logout  2 failed")
    assert " ■ oauth      met        19s     pytest -q tests/oauth" in lines
    assert "CRITERIA" not in text(SHOP), "eight goals leave no room"


# --- what needs a person ---------------------------------------------------------------------------------------------


def test_each_kind_of_need_has_a_sentence_that_fits_and_a_command_that_parses() -> None:
    story = everything()
    leases = dict.fromkeys(story.state.basins, True) | {"gone": False}
    probes = Probes(leases=leases, silent={"gone": 360.0}, ledger=Damage(lines=90, bad=2))
    found = project(story.state, probes=probes, now=story.now).needs_you
    assert {need.kind for need in found} == set(ORDER)
    for need in found:
        assert 0 < cells(need.sentence) <= 60
        words = shlex.split(need.command)
        assert words[0] == "orchconverge"
        parsed(orchconverge, words[1:])


def parsed(group: click.Group, words: list[str]) -> None:
    """Parse a command line as click would, and run nothing. Raises `click.UsageError`."""
    name, command, rest = group.resolve_command(click.Context(group), words)
    assert name is not None
    assert command is not None
    if isinstance(command, click.Group):
        parsed(command, rest)
    else:
        command.make_context(name, rest)


def test_a_need_says_since_when_and_what_comes_after_it() -> None:
    lines = texts(SHOP, Look(width=120, height=40))
    assert lines[2].strip().startswith("orchconverge lock mfa   waiting 14m   then: Answer the verdict on refunds")
    later = replace(SHOP, as_of=SHOP.as_of + timedelta(hours=3))
    assert "waiting 3h" in text(later)


def test_time_alone_changes_ages_and_the_clock() -> None:
    later = replace(SHOP, as_of=SHOP.as_of + timedelta(seconds=20))
    now, then = texts(SHOP), texts(later)
    assert [place for place, (one, other) in enumerate(zip(now, then, strict=True)) if one != other] == [0]


def test_a_held_frame_says_so_where_the_clock_was() -> None:
    assert texts(SHOP, held="held 14:23:07, 12 newer")[0].rstrip().endswith("held 14:23:07, 12 newer")


# --- what follows ----------------------------------------------------------------------------------------------------


def test_that_time_passes_is_no_change() -> None:
    story = tellings.running()
    first = shown(story)
    story.wait(300.0)
    assert plain_text(first) != plain_text(shown(story))
    assert changes(first, shown(story)) == ""


def test_a_change_is_one_line_a_goal_with_its_cause() -> None:
    story = tellings.running(minds=3)
    first = shown(story)
    for number in (2, 3, 4):
        story.ended(f"auth.{number}", seconds=240.0)
    story.candidate("auth.2", met=tellings.MET).failed("auth.3", "empty").failed("auth.4", "empty")
    said = changes(first, shown(story))
    assert (
        said
        == "14:14:00 auth: 3 minds ended; 1 candidate, 2 without a candidate. waits for the lock and the judgement of attempt 2.\n"
    )
    assert changes(first, shown(story), basin="mfa") == ""


def test_what_comes_to_need_a_person_and_what_no_longer_does_is_a_line_each() -> None:
    story = tellings.parked("consent", "./check.sh came with the repository")
    waiting = shown(story)
    gone = shown(story.woke())
    assert changes(waiting, gone).splitlines()[:2] == [
        "14:20:00 no longer needs you: Allow a command for auth: ./check.sh came with the reposito…",
        "14:20:00 nothing needs you.",
    ]
    assert changes(gone, waiting).splitlines()[0].endswith(" Command: orchconverge resume auth")


def test_what_is_said_first_and_of_one_goal_alone() -> None:
    assert plain_text(SHOP).startswith(
        "2 need you.\n1. Decide mfa.2 at the lock: 2 of 7 becomes 6 of 7. Waiting 14m.\n"
    )
    alone = plain_text(SHOP, basin="auth")
    assert alone.startswith("2 need you.\n"), "what needs a person is never left out"
    assert "ended: auth. Users sign in with OAuth and stay signed in. CONVERGED. 8 of 8 criteria met." in alone
    assert "moving:" not in alone
    calm = plain_text(shown(tellings.stopped()))
    assert calm.startswith("Nothing needs you. auth is stopped, nothing runs.\n   Command: orchconverge resume auth\n")
