"""The full-screen view under its keys: what each of them shows at every size, and that the ledger never hears of it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from textual.events import MouseEvent, MouseScrollUp
from textual.pilot import Pilot

from orchconverge import bootstrap
from orchconverge.adapters.ledger import NAME, FileLedger
from orchconverge.core import events as e
from orchconverge.core.upcast import encode
from orchconverge.core.views.board import LEAST, Chosen, board, order
from orchconverge.core.views.lines import Look, bare
from orchconverge.errors import Failed, Refused
from orchconverge.tui.app import ASKED, Watch, watch
from orchconverge.tui.keys import KEYS, OVERVIEW
from orchconverge.tui.live import Live
from orchconverge.tui.looking import COMMAND_SECONDS, printed, seen
from orchconverge.tui.page import PLAIN, STYLES, strip
from tests.stories import START, Story, check, sha
from tests.unit.test_destination import told

SIZES = ((80, 24), (120, 40), (200, 60), (40, 12))
PATIENCE = 20.0
"""Seconds after which what did not come will not."""
Steps = Callable[[Watch, Pilot[None]], Awaitable[None]]


class Hands:
    """A clock that somebody moves."""

    def __init__(self, at: datetime = START) -> None:
        self.at = at

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return self.at.timestamp()


class Watched:
    """A repository whose ledger tells a story, and the view of it at the story's end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = folder / ".git" / "orchconverge"
        self.git("init", "-q", "-b", "main")
        self.git("commit", "-q", "--allow-empty", "-m", "start")
        self.clock = Hands()

    def git(self, *words: str) -> str:
        who = ["-c", "user.name=a", "-c", "user.email=a@localhost"]
        ran = subprocess.run(["git", "-C", str(self.folder), *who, *words], check=True, capture_output=True, text=True)
        return ran.stdout.strip()

    def commits(self, name: str, lines: int) -> str:
        """Commit a file of so many lines. Returns the commit."""
        (self.folder / name).write_text("".join(f"line {number}\n" for number in range(lines)))
        self.git("add", name)
        self.git("commit", "-q", "-m", name)
        return self.git("rev-parse", "HEAD")

    def tells(self, story: Story) -> None:
        """Write it down, whole."""
        self.state.mkdir(mode=0o700, exist_ok=True)
        with os.fdopen(os.open(self.ledger, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.writelines(map(encode, story.facts))
        self.clock = Hands(story.now)

    def hears(self, *facts: e.AnyFact) -> None:
        """Append what another process would."""
        ledger = FileLedger(self.state, self.clock)
        for fact in facts:
            ledger.append(fact, writer="cli")
        ledger.close()

    @property
    def ledger(self) -> Path:
        return self.state / NAME

    def live(self, kind: type[Live] = Live) -> Live:
        return kind(bootstrap.reader(self.folder)._replace(clock=self.clock))  # type: ignore[arg-type]

    def app(self, basin: str | None = None, *, live: Live | None = None, colour: bool = True) -> Watch:
        followed = live or self.live()
        return Watch(followed, seen(followed, basin), Look(keys=True, colour=colour), basin=basin)

    def everything(self) -> dict[str, tuple[bytes, int]]:
        """Every file of the state: what it holds, and when that was written."""
        files = [path for path in self.state.rglob("*") if path.is_file()]
        return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    found = Watched(tmp_path)
    found.tells(told())
    yield found


def run(app: Watch, steps: Steps, size: tuple[int, int] = (120, 40)) -> None:
    async def whole() -> None:
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            await steps(app, pilot)

    asyncio.run(whole())


async def until(pilot: Pilot[None], true: Callable[[], Any], *, seconds: float = PATIENCE) -> None:
    ends = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < ends, "\n".join(screen(pilot.app))
        await pilot.pause(0.005)


def screen(app: Any) -> list[str]:
    """What is on the screen, asked of Textual, without colours and the blanks at the ends."""
    return [app.page.render_line(place).text.rstrip() for place in range(app.size.height)]


def text(app: Any) -> str:
    return "\n".join(screen(app))


def said(app: Any) -> str:
    """All words of the screen, wherever its lines end."""
    return " ".join(text(app).split())


def wheel(kind: type[MouseEvent]) -> MouseEvent:
    """One step of the wheel, as a terminal reports it."""
    return kind(None, 5, 5, 0, 0, 0, shift=False, meta=False, ctrl=False)


def many(basins: int = 30, minds: int = 200) -> Story:
    """As many goals, the first of which has all the minds."""
    story = Story()
    for number in range(1, basins + 1):
        name = f"goal-{number}"
        criteria = (check("a"), check("b"), check("c"))
        story.declare(name, goal=f"goal number {number}", criteria=criteria, lock="person", target="main")
        story.start(name, lock="person").check(name, met=("a",))
    story.begin("goal-1", minds=minds)
    for number in range(2, basins + 1, 3):
        story.attempt(f"goal-{number}", met=("a", "b"))
    return story


# --- drawing ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_the_overview_is_the_frame_that_once_prints(watched: Watched, size: tuple[int, int]) -> None:
    watched.tells(many())

    async def steps(app: Watch, pilot: Pilot[None]) -> None:
        look = Look(*size, colour=True, keys=True)
        frame = board(app.shown, look, repo=watched.folder.name, chosen=Chosen(), compared=app.seen.found)
        assert screen(app) == [bare(line).rstrip() for line in frame.lines]
        assert app.screen.get_style_at(0, 0).bgcolor in (None, PLAIN.bgcolor)

    run(watched.app(), steps, size)


def test_only_the_sixteen_colours_of_the_terminal_are_used(watched: Watched) -> None:
    async def steps(app: Watch, pilot: Pilot[None]) -> None:
        assert app.native_ansi_color
        for keys in ([], ["enter"], ["v"]):
            await pilot.press(*keys)
            await pilot.pause()
            drawn = [segment.style for place in range(40) for segment in app.page.render_line(place)]
            assert set(drawn) <= {*STYLES.values()}
        assert STYLES["30;43"].render("x").count("\x1b[30;43m") == 1

    run(watched.app(), steps)


def test_a_line_is_as_it_was_drawn() -> None:
    line = "\x1b[1mbold\x1b[0m plain \x1b[30;43m NEEDS \x1b[0m"
    assert [(part.text, part.style) for part in strip(line)] == [
        ("bold", STYLES["1"]),
        (" plain ", PLAIN),
        (" NEEDS ", STYLES["30;43"]),
    ]


def test_another_size_is_drawn_at_once(watched: Watched) -> None:
    async def steps(app: Watch, pilot: Pilot[None]) -> None:
        await pilot.press("enter")
        await until(pilot, lambda: "WHO MEETS WHAT" in text(app))
        for width, height in ((40, 12), (200, 60), (30, 8), (80, 24)):
            await pilot.resize_terminal(width, height)
            await until(pilot, lambda: app.look[:2] == (width, height))  # noqa: B023 - awaited before the next one
            lines = screen(app)
            assert len(lines) == height
            small = width < 40
            assert ("WHO MEETS WHAT" in text(app)) != small
            assert not small or lines[0].startswith("Too small to draw.")

    run(watched.app(), steps)


def test_thirty_goals_and_two_hundred_minds_answer_to_every_key(watched: Watched) -> None:
    watched.tells(many())

    async def steps(app: Watch, pilot: Pilot[None]) -> None:
        names = order(app.shown)
        await pilot.press("end")
        assert app.selected == names[-1]
        assert any(line.startswith("›") and names[-1] in line for line in screen(app))  # noqa: RUF001
        await pilot.press("home", "down", "j", "k")
        assert app.selected == names[1]
        await pilot.press("enter")
        await until(pilot, lambda: "WHO MEETS WHAT" in text(app))
        assert f" {names[1]} " in text(app)

    for size in SIZES[:3]:
        run(watched.app(), steps, size)


# --- keys ------------------------------------------------------------------------------------------------------------


def test_enter_goes_deeper_and_escape_comes_back(watched: Watched) -> None:
    async def steps(app: Watch, pilot: Pilot[None]) -> None:
        first = screen(app)
        await pilot.press("enter")
        await until(pilot, lambda: "WHO MEETS WHAT" in text(app))
        await until(pilot, lambda: "their commits are not in this repository" in text(app))
        assert "EVIDENCE of mfa.2" in text(app)
        await pilot.press("j")
        assert "EVIDENCE of mfa.1" in text(app)
        await pilot.press("k", "enter")
        await until(pilot, lambda: "the commits of mfa.2 are not in this repository" in text(app))
        assert screen(app)[1].startswith(" NEEDS YOU")
        await pilot.press("escape")
        assert "WHO MEETS WHAT" in text(app)
        await pilot.press("escape")
        await until(pilot, lambda: screen(app) == first)

    run(watched.app(), steps)


def test_of_equal_candidates_the_smaller_one_is_the_row(watched: Watched) -> None:
    story = Story().declare("mfa", criteria=(check("a"), check("b")), lock="person", target="main")
    story.start("mfa", lock="person").check("mfa").begin("mfa", minds=2)
    for name in ("mfa.1", "mfa.2"):
        story.ended(name).candidate(name, met=("a",))
    watched.tells(story)
    commits = {"base": watched.commits("base.txt", 1), "mfa.1": watched.commits("a.txt", 30)}
    watched.git("reset", "-q", "--hard", commits["base"])
    commits["mfa.2"] = watched.commits("a.txt", 2)
    whole = watched.ledger.read_text()
    for name, commit in commits.items():
        whole = whole.replace(sha(name), commit)
    watched.ledger.write_text(whole)

    async def steps(app: Watch, pilot: Pilot[None]) -> None:
        await until(pilot, lambda: "1 covered: mfa.1 by mfa.2" in text(app) and "+2 -0" in text(app))
        assert "›mfa.2" in text(app)  # noqa: RUF001

    app = watched.app("mfa")
    assert app.found is not None
    assert [row.branch for row in app.found.rows] == ["mfa.1"], "the oldest, until git has measured them"
    run(app, steps)


def test_where_there_is_room_the_selected_goal_has_its_candidates_beside_it(watched: Watched) -> None:
    async def steps(app: Watch, pilot: Pilot[None]) -> None:
        assert "mfa: WHO MEETS WHAT" in text(app)
        assert "mfa.2 meets most (6 of 7)." in text(app)

    run(watched.app(), steps, (200, 60))


def test_it_begins_with_what_needs_a_person_first(watched: Watched) -> None:
    story = Story()
    for name in ("one", "two"):
        story.declare(name, criteria=(check("a"),), target="main").start(name).check(name)
    story.attempt("one", met=(), result="failed").stop("limit", basin="one")
    watched.tells(story)

    async def steps(app: Watch, pilot: Pilot[None]) -> None:
        assert app.selected == app.shown.needs_you[0].basin == "two"
        assert order(app.shown)[0] == "one"
        assert "orchconverge resume two" in screen(app)[2]

    run(watched.app(), steps)


def test_n_goes_from_one_need_to_the_next(watched: Watched) -> None:
    story = Story()
    for name in ("one", "two", "three"):
        story.declare(name, criteria=(check("a"),), target="main").start(name, attempts=1).check(name)
    for name in ("one", "three"):
        story.attempt(name, met=(), result="failed").stop("limit", basin=name)
    watched.tells(story)

    async def steps(app: Watch, pilot: Pilot[None]) -> None:
        needing = [need.basin for need in app.shown.needs_you]
        await pilot.press("home")
        seen_ = []
        for _ in needing:
            await pilot.press("n")
            seen_.append(app.selected)
        assert sorted(map(str, seen_)) == sorted(map(str, needing))
        await pilot.press("enter", "n")
        await until(pilot, lambda: app.found is not None)
        assert app.basin == app.selected != seen_[-1]

    run(watched.app(), steps)


def test_a_filter_is_typed_and_taken_away(watched: Watched) -> None:
    watched.tells(many(12, 1))

    async def steps(app: Watch, pilot: Pilot[None]) -> None:
        await pilot.press("slash", *"goal-11")
        assert screen(app)[-1] == " /goal-11_"
        assert app.selected == "goal-11"
        await pilot.press("backspace", "enter")
        assert "goal-10" in text(app)
        assert "goal-9" not in text(app)
        assert "enter open" in screen(app)[-1]
        await pilot.press("escape")
        assert app.filter == ""
        await pilot.press("slash", "q", "escape")
        assert app.is_running
        assert "goal-9" in text(app)

    run(watched.app(), steps)


def test_a_held_frame_stands_still_and_says_how_much_is_newer(watched: Watched) -> None:
    async def steps(app: Watch, pilot: Pilot[None]) -> None:
        await pilot.press("space")
        before = screen(app)
        assert f"held {app.shown.local:%H:%M:%S}, 0 newer" in before[0]
        asked = [e.FrontierAdded(question=f"what of {number}?", origin="person", basin="mfa") for number in range(3)]
        watched.hears(*asked)
        await until(pilot, lambda: ", 3 newer" in screen(app)[0])
        assert screen(app)[1:] == before[1:]
        await pilot.press("space")
        assert "newer" not in screen(app)[0]
        assert "4 open questions" in text(app)

    run(watched.app(), steps)


def test_the_command_is_copied_and_kept_for_the_end(watched: Watched) -> None:
    async def steps(app: Watch, pilot: Pilot[None]) -> None:
        await pilot.press("c")
        command = app.shown.needs_you[0].command
        assert app.clipboard == app.copied == command
        assert screen(app)[-1] == f" copied, and printed when you quit: {command}"
        await pilot.press("j")
        assert "enter open" in screen(app)[-1]

    run(watched.app(), steps)


def test_texts_are_read_and_scrolled(watched: Watched) -> None:
    async def steps(app: Watch, pilot: Pilot[None]) -> None:
        await pilot.press("question_mark")
        there = [key for key in KEYS if OVERVIEW in key.where]
        assert "KEYS of the overview" in text(app)
        assert f" of {len(there)}" in text(app)
        top = [line for line in screen(app) if line.startswith("   n  ")]
        assert top
        await pilot.press("end")
        assert f"of {len(there)}" in text(app)
        assert not [line for line in screen(app) if line.startswith("   n  ")]
        await pilot.press("pageup", "pagedown", "up", "down", "home")
        assert [line for line in screen(app) if line.startswith("   n  ")] == top
        await pilot.press("f")
        assert "Do recovery codes expire" in text(app)
        await pilot.press("e")
        assert "EVENTS ─" in text(app)
        assert "attempt 2 started" in text(app)
        await pilot.press("escape")
        assert "enter open" in screen(app)[-1]

    run(watched.app(), steps, (80, 18))


def test_a_command_that_fails_is_one_line(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(watched.folder)
    with pytest.raises(Failed, match=r"^no destination is called nowhere$"):
        asyncio.run(printed(["status", "nowhere"], width=80))


def test_a_command_is_shown_as_it_prints(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(watched.folder)

    async def steps(app: Watch, pilot: Pilot[None]) -> None:
        await pilot.press("t")
        await until(pilot, lambda: ASKED not in text(app), seconds=COMMAND_SECONDS)
        assert "DAY BY DAY" in text(app)
        assert screen(app)[2].strip().startswith("orchconverge ")

    run(watched.app(), steps)


def test_evidence_is_what_the_commands_said_and_where_it_lies(watched: Watched) -> None:
    async def steps(app: Watch, pilot: Pilot[None]) -> None:
        await until(pilot, lambda: "WHO MEETS WHAT" in text(app))
        await pilot.press("v")
        assert "EVIDENCE of mfa.2" in text(app)
        assert "□ malformed  pytest -q tests/mfa -k malformed" in text(app)
        assert "  | 2 failed" in text(app)

    run(watched.app("mfa"), steps)


def test_what_cannot_be_done_here_is_said(watched: Watched) -> None:
    watched.tells(Story().declare("mfa", criteria=(check("a"),), target="main"))

    async def steps(app: Watch, pilot: Pilot[None]) -> None:
        for key, words in (
            ("v", "v is for a destination: enter opens one"),
            ("l", "The lock is empty. The next candidate will wait here for you."),
            ("a", "mfa has no session to attach to."),
            ("c", "Nothing needs you: there is no command to copy."),
            ("n", "Nothing needs you."),
        ):
            await pilot.press(key)
            assert screen(app)[-1] == f" {words}"
        await pilot.press("enter")
        await until(pilot, lambda: "WHO MEETS WHAT" in text(app))
        for key in ("v", "d", "o", "x"):
            await pilot.press(key)
            assert screen(app)[-1] == " No candidate waits here."

    run(watched.app(), steps)


def test_the_mouse_selects_and_scrolls(watched: Watched) -> None:
    watched.tells(many(6, 1))

    async def steps(app: Watch, pilot: Pilot[None]) -> None:
        place, name = sorted(app.frame.rows.items())[-1]
        await pilot.click(offset=(5, place))
        assert app.selected == name
        app.screen.post_message(wheel(MouseScrollUp))
        await pilot.pause()
        assert app.selected == order(app.shown)[-2]

    run(watched.app(), steps)


def test_every_key_of_the_table_does_something_and_no_two_are_one() -> None:
    names = [name for key in KEYS for name in key.names]
    assert len(names) == len(set(names))
    assert [key.does for key in KEYS if not callable(getattr(Watch, f"do_{key.does}", None))] == []


def test_without_a_terminal_it_is_refused_with_what_to_type() -> None:
    with pytest.raises(Refused) as refused:
        watch(None, ascii=False)
    assert refused.value.hint == "orchconverge watch --once"


# --- following -------------------------------------------------------------------------------------------------------


class Counted(Live):
    """A ledger whose looks are counted."""

    looks = 0

    def grown(self) -> bool:
        self.looks += 1
        return super().grown()


def test_what_is_appended_is_shown_and_only_its_lines_are_drawn(watched: Watched) -> None:
    async def steps(app: Watch, pilot: Pilot[None]) -> None:
        before = app.redrawn
        watched.hears(e.FrontierAdded(question="is it so?", origin="person", basin="mfa"))
        await until(pilot, lambda: "is it so?" in text(app))
        assert app.redrawn - before < 20

    run(watched.app(), steps)


def test_while_nothing_happens_nothing_is_drawn(watched: Watched) -> None:
    live = watched.live(Counted)
    assert isinstance(live, Counted)

    async def steps(app: Watch, pilot: Pilot[None]) -> None:
        before, looks = app.redrawn, live.looks
        await until(pilot, lambda: live.looks > looks + 4)
        assert app.redrawn == before

    run(watched.app(live=live), steps)


def test_the_clock_alone_draws_once_a_minute(watched: Watched) -> None:
    async def steps(app: Watch, pilot: Pilot[None]) -> None:
        was, before = app.shown.as_of, app.redrawn
        watched.clock.at += timedelta(seconds=61)
        await until(pilot, lambda: app.shown.as_of != was)
        assert app.shown.as_of - was == timedelta(seconds=61)
        assert 0 < app.redrawn - before < 10

    run(watched.app(), steps)


# --- faults ----------------------------------------------------------------------------------------------------------


def test_a_ledger_that_cannot_be_read_is_one_sentence(watched: Watched) -> None:
    async def steps(app: Watch, pilot: Pilot[None]) -> None:
        watched.ledger.rename(watched.state / "away")
        watched.ledger.mkdir()
        await until(pilot, lambda: "Cannot read the ledger: it " in said(app))
        assert "while it was in use. Nothing is shown, because nothing is known." in said(app)
        assert f"{watched.ledger}: put it back" in said(app)
        assert "mfa" not in text(app)
        await pilot.press("j", "enter", "question_mark")
        assert "Cannot read the ledger: " in said(app)
        watched.ledger.rmdir()
        (watched.state / "away").rename(watched.ledger)
        await until(pilot, lambda: "KEYS of a destination" in text(app))
        await pilot.press("escape")
        assert "WHO MEETS WHAT" in text(app)
        await pilot.press("q")

    run(watched.app(), steps, (240, 40))


def test_a_ledger_that_is_gone_is_not_an_empty_one_and_one_put_in_its_place_is_shown(watched: Watched) -> None:
    other = watched.state / "other"
    watched.ledger.rename(other)
    watched.tells(many(3, 1))
    now = watched.ledger

    async def steps(app: Watch, pilot: Pilot[None]) -> None:
        now.unlink()
        await until(pilot, lambda: "Cannot read the ledger: it is gone while it was in use." in said(app))
        assert "No destination yet." not in said(app)
        other.rename(now)
        await until(pilot, lambda: "Decide mfa.2 at the lock" in said(app))
        assert "goal-1" not in text(app)

    run(watched.app(), steps)


def test_a_git_that_cannot_answer_is_one_line(watched: Watched) -> None:
    (watched.folder / ".git" / "HEAD").write_text("nonsense\n")

    async def steps(app: Watch, pilot: Pilot[None]) -> None:
        await until(pilot, lambda: "OVERLAP" in text(app) and "git is asked" not in text(app))
        [line] = [one for one in screen(app) if "not a git repository" in one]
        assert line.startswith("   ")
        assert "EVIDENCE of mfa.2" in text(app)

    run(watched.app("mfa"), steps)


class Broken(Live):
    """A ledger that is read once, and then meets a fault of ours."""

    def grown(self) -> bool:
        raise ValueError("a fault of ours")


def test_a_fault_of_ours_ends_it_without_a_traceback_on_the_screen(
    watched: Watched, capfd: pytest.CaptureFixture[str]
) -> None:
    app = watched.app(live=watched.live(Broken))
    app.run(headless=True, size=(80, 24))
    assert isinstance(app.broken, Exception)
    assert "a fault of ours" in str(app.broken)
    out, err = capfd.readouterr()
    assert "Traceback" not in out + err


# --- reading only ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_no_key_changes_anything(watched: Watched) -> None:
    before = watched.everything()
    quiet = [key.names[0] for key in KEYS if key.does not in ("quit", "lock", "attach", "timeline", "graph")]

    async def steps(app: Watch, pilot: Pilot[None]) -> None:
        for screens in ([], ["enter"], ["v"]):
            await pilot.press(*screens)
            for key in quiet:
                await pilot.press(key)
            await pilot.press("escape", "escape", "escape", "escape")
        await until(pilot, lambda: app.where == OVERVIEW)

    run(watched.app(), steps)
    assert watched.everything() == before


@pytest.mark.parametrize(
    ("seed", "presses"), [(1, 20), *(pytest.param(seed, 400, marks=pytest.mark.slow) for seed in (2, 3))]
)
def test_whatever_is_typed_nothing_breaks_nothing_is_written_and_q_leaves(
    watched: Watched, monkeypatch: pytest.MonkeyPatch, seed: int, presses: int
) -> None:
    monkeypatch.chdir(watched.folder)
    of, names = Random(seed), sorted({name for key in KEYS for name in key.names} - {"q"})
    before = watched.everything()

    async def steps(app: Watch, pilot: Pilot[None]) -> None:
        nonlocal before
        for number in range(presses):
            await pilot.press(of.choice(names))
            if of.random() < 0.1:
                await pilot.resize_terminal(of.choice((30, 40, 75, 80, 120, 200)), of.choice((8, 12, 18, 24, 40, 60)))
            if of.random() < 0.1:
                assert watched.everything() == before
                watched.hears(e.FrontierAdded(question=f"what of {number}?", origin="person", basin="mfa"))
                before = watched.everything()
        assert app.is_running
        assert app.fault is None
        assert app.shown.needs_you[0].command in said(app) or app.size.width < LEAST[0] or app.size.height < LEAST[1]
        await pilot.press("escape", "q")
        await until(pilot, lambda: not app.is_running)

    watched_app = watched.app()
    run(watched_app, steps)
    assert watched_app.broken is None
    assert watched.everything() == before


PROGRAM = """
import os, sys
from pathlib import Path

opened = []
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGES = ("os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate", "os.utime", "os.chmod")

def audit(event, args):
    if event == "open" and isinstance(args[0], (str, bytes, os.PathLike)):
        opened.append((os.fsdecode(args[0]), args[1], args[2]))
    elif event in CHANGES:
        opened.append((os.fsdecode(args[0]) if not isinstance(args[0], int) else "?", event, WRITING))

sys.addaudithook(audit)
from tests.unit import test_watch_app as t

async def steps(app, pilot):
    await pilot.press("n", "j", "k", "enter")
    await t.until(pilot, lambda: app.found is not None and app.beside is not None)
    await pilot.press("d")
    await t.until(pilot, lambda: "commits of" in t.text(app))
    await pilot.press("escape", "o", "escape", "v", "escape", "f", "e", "space", "space", "escape", "escape", "c")

watched = t.Watched.__new__(t.Watched)
watched.folder = Path(sys.argv[1])
watched.state = watched.folder / ".git" / "orchconverge"
watched.clock = t.Hands()
opened.clear()
t.run(watched.app(), steps)
below = [one for one in opened if one[0].startswith(sys.argv[1])]
ledger = [one for one in below if one[0].endswith("ledger.jsonl")]
assert ledger, "the ledger was opened where the hook sees it"
wrote = [one for one in below if one[2] & WRITING]
assert not wrote, wrote
print("only read", len(ledger))
"""


def test_nothing_below_a_watch_opens_anything_of_the_state_for_writing(watched: Watched) -> None:
    root = Path(__file__).parents[2]
    argv = [sys.executable, "-c", PROGRAM, str(watched.folder)]
    ran = subprocess.run(argv, cwd=root, env={**os.environ, "PYTHONPATH": str(root)}, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("only read")


@pytest.mark.slow
def test_the_gate_of_that_test_sees_a_write(watched: Watched) -> None:
    root = Path(__file__).parents[2]
    writes = 'watched.hears(t.e.FrontierAdded(question="?", origin="person", basin="mfa"))\nbelow = ['
    argv = [sys.executable, "-c", PROGRAM.replace("below = [", writes, 1), str(watched.folder)]
    ran = subprocess.run(argv, cwd=root, env={**os.environ, "PYTHONPATH": str(root)}, capture_output=True, text=True)
    assert ran.returncode == 1
    assert "AssertionError" in ran.stderr
    assert "ledger.jsonl" in ran.stderr
