"""The full-screen view: it reads, draws and quits. What decides is another command, for which it steps aside."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

from msgspec.structs import replace
from textual.app import SuspendNotSupported
from textual.events import Click, Key, MouseScrollDown, MouseScrollUp

from orchconverge import bootstrap
from orchconverge.core.needs import Need
from orchconverge.core.state import Branch
from orchconverge.core.views import board_below, card
from orchconverge.core.views.board import order
from orchconverge.core.views.destination_matrix import branch_of
from orchconverge.core.views.lines import Look, drawn
from orchconverge.core.views.text import clean
from orchconverge.errors import OrchConvergeError, Refused
from orchconverge.tui.following import Following
from orchconverge.tui.keys import ACTIONS, OVERVIEW, listed
from orchconverge.tui.live import Live
from orchconverge.tui.looking import printed, said, seen
from orchconverge.tui.reading import Text

WHEEL: Final = 3
"""Lines of a text that one step of the wheel moves."""
ASKED: Final = "It is asked for, and comes when it is there."


class Watch(Following):
    """The view with its keys. None of them changes anything but what is shown."""

    # --- keys --------------------------------------------------------------------------------------------------------

    def on_key(self, event: Key) -> None:
        """Do what the key says on this screen."""
        event.stop()
        self.told = ""
        if self.typing:
            self._typed(event)
        elif (key := ACTIONS.get(event.key)) is not None:
            if self.where in key.where:
                getattr(self, f"do_{key.does}")()
            else:
                self.told = f"{key.shown} is for {key.where[0]}: {'enter opens one' if self.where == OVERVIEW else 'esc goes back'}"
        self.draw()

    def on_click(self, event: Click) -> None:
        """Select what is drawn there."""
        if self.text is None and (there := self.frame.rows.get(event.y)) is not None:
            self._select(there)
            self.draw()

    def on_mouse_scroll_down(self, event: MouseScrollDown) -> None:
        """Scroll down."""
        self._move(WHEEL if self.text is not None else 1)
        self.draw()

    def on_mouse_scroll_up(self, event: MouseScrollUp) -> None:
        """Scroll up."""
        self._move(-WHEEL if self.text is not None else -1)
        self.draw()

    def _typed(self, event: Key) -> None:
        if event.key == "escape":
            self.filter, self.typing = "", False
        elif event.key == "enter":
            self.typing = False
        elif event.key == "backspace":
            self.filter = self.filter[:-1]
        elif event.is_printable and event.character is not None:
            self.filter += event.character

    def _listed(self) -> Sequence[str]:
        """What can be selected here."""
        if self.basin is not None:
            return [row.branch for row in self.found.rows] if self.found is not None else []
        return order(self.shown, filter=self.filter)

    def _select(self, name: str) -> None:
        if self.basin is not None:
            self.branch = name
        else:
            self.selected = name

    def _move(self, by: int) -> None:
        if self.text is not None:
            self.text.move(by)
            return
        names = list(self._listed())
        if names:
            now = branch_of(self.found, self.branch) if self.basin is not None and self.found else self.selected
            at = names.index(now) if now in names else 0
            self._select(names[max(0, min(len(names) - 1, at + by))])

    def do_down(self) -> None:
        """One down."""
        self._move(1)

    def do_up(self) -> None:
        """One up."""
        self._move(-1)

    def do_home(self) -> None:
        """To the first."""
        self._move(-sys.maxsize)

    def do_end(self) -> None:
        """To the last."""
        self._move(sys.maxsize)

    def do_page_down(self) -> None:
        """A screen down."""
        self._move(max(1, self.look.height - 6))

    def do_page_up(self) -> None:
        """A screen up."""
        self._move(-max(1, self.look.height - 6))

    def do_need(self) -> None:
        """Go to the next destination that needs a person."""
        names = list(dict.fromkeys(need.basin for need in self.shown.needs_you if need.basin is not None))
        if not names:
            self.told = "Nothing needs you."
            return
        self.text = None
        at = names.index(self.selected) + 1 if self.selected in names else 0
        self.selected = names[at % len(names)]
        if self.selected not in order(self.shown, filter=self.filter):
            self.filter = ""
        if self.basin is not None:
            self._open(self.selected)

    def do_enter(self) -> None:
        """Open the destination that is selected, then the diff of its candidate."""
        if self.basin is not None:
            self.do_diff()
        elif self.selected is not None:
            self._open(self.selected)

    def _open(self, basin: str | None) -> None:
        self.basin, self.branch = basin, None
        self._stale.set()

    def do_back(self) -> None:
        """Leave the text, then the destination, then the filter."""
        if self.text is not None:
            self.text = None
        elif self.basin is not None:
            self._open(None)
        else:
            self.filter = ""

    def do_find(self) -> None:
        """Type a filter."""
        self.filter, self.typing = "", True

    def do_hold(self) -> None:
        """Hold still, or go on."""
        self.held = not self.held
        self.seen = self.newest

    def do_copy(self) -> None:
        """Copy the command that is needed here, else the one that is needed first."""
        needs = self.shown.needs_you
        here: Need | None = next((need for need in needs if need.basin == (self.basin or self.selected)), None)
        found = here or next(iter(needs), None)
        if found is None:
            self.told = "Nothing needs you: there is no command to copy."
            return
        self.copied = found.command
        self.copy_to_clipboard(found.command)
        self.told = f"copied, and printed when you quit: {found.command}"

    def do_quit(self) -> None:
        """Leave."""
        self.exit()

    # --- texts -------------------------------------------------------------------------------------------------------

    def _read_on(self, title: str, made: Callable[[Look], Sequence[str]]) -> None:
        self.text = Text(title, made)

    def _awaited(self, title: str, ask: Callable[[], Awaitable[Sequence[str]]]) -> None:
        """Show a text that takes time, as soon as it is there."""
        shown = self.text = Text(title, lambda look: [ASKED])

        async def fill() -> None:
            try:
                lines = await ask()
            except (OrchConvergeError, OSError) as error:
                lines = [said(error)]
            shown.fill(lambda look: [drawn([line.expandtabs()], look) for line in lines])
            self.draw()

        self.run_worker(fill(), group="texts")

    def _asked(self, title: str, ask: Callable[[], Sequence[str]]) -> None:
        """Show what git says."""
        self._awaited(title, partial(self.threads.git, ask))

    def do_keys(self) -> None:
        """The keys of this screen."""
        where = self.where
        self._read_on(f"KEYS of {where}", partial(listed, where))

    def do_evidence(self) -> None:
        """What the criteria's commands said on the candidate."""
        found = self.found
        name = branch_of(found, self.branch) if found is not None else None
        if found is None or name is None:
            self.told = "No candidate waits here."
            return
        folder = self.live.reader.places.state / "evidence"
        clauses, answers = found.clauses[name], found.evidence[name]
        self._read_on(f"EVIDENCE of {name}", lambda look: card.evidence(clauses, answers, folder, look).split("\n"))

    def do_diff(self) -> None:
        """What the candidate changes."""
        branches = self._candidates(1)
        if branches:
            self._asked(f"DIFF of {branches[0].id}", partial(self.repository.diff, branches[0]))

    def do_against(self) -> None:
        """The candidate against the next best."""
        branches, found = self._candidates(2), self.found
        if len(branches) > 1 and found is not None:
            criteria = [row.criterion for row in found.matrix.rows]
            title = f"{branches[0].id} AGAINST {branches[1].id}"
            self._asked(title, partial(self.repository.against, branches[0], branches[1], criteria))

    def do_overlap(self) -> None:
        """Where candidates claim the same lines."""
        if self._candidates(2) and self.basin is not None:
            self._asked("OVERLAP", partial(self.repository.overlap, self.basin, self.seen.branches))

    def _candidates(self, least: int) -> list[Branch]:
        """The selected candidate, then the others, the best first; none, and said, if there are fewer than that."""
        found = self.found
        name = branch_of(found, self.branch) if found is not None else None
        ordered = sorted(self.seen.branches, key=lambda branch: branch.id != name)
        if len(ordered) < least:
            self.told = "No candidate waits here." if not ordered else "One candidate waits: there is none beside it."
            return []
        return ordered

    def do_timeline(self) -> None:
        """The timeline, as the command prints it."""
        self._command("timeline", "--basin")

    def do_graph(self) -> None:
        """The graph of pursuits, as the command prints it."""
        self._command("graph", "--basin")

    def _command(self, word: str, option: str) -> None:
        words = [
            word,
            *([option, self.basin] if self.basin is not None else []),
            *(["--ascii"] if self.look.ascii else []),
        ]
        self._awaited(word.upper(), partial(printed, words, width=self.look.width))

    def do_frontier(self) -> None:
        """The open questions."""
        asked = tuple(one for one in self.shown.frontier if self.basin in (None, one.basin))
        shown = replace(self.shown, frontier=asked)
        none = ["   No question is open."]
        self._read_on("FRONTIER", lambda look: board_below.frontier(shown, look, most=sys.maxsize)[1:] or none)

    def do_events(self) -> None:
        """What happened, newest first."""
        told = tuple(one for one in self.shown.events if self.basin in (None, one.basin))
        shown, none = replace(self.shown, events=told), ["   Nothing happened here lately."]
        self._read_on(
            "EVENTS", lambda look: board_below.events(shown, look, most=sys.maxsize, questions=True)[1:] or none
        )

    # --- stepping aside ----------------------------------------------------------------------------------------------

    def do_lock(self) -> None:
        """Step aside for `orchconverge lock`."""
        waiting = [one.basin for one in self.shown.lock.queue]
        if not waiting:
            self.told = f"The lock is {card.EMPTY}"
        elif self.basin not in (None, *waiting):
            self.told = f"Nothing of {self.basin} waits at the lock."
        else:
            here = self.basin or (self.selected if self.selected in waiting else waiting[0])
            self._aside("lock", here or "", *(["--ascii"] if self.look.ascii else []))

    def do_attach(self) -> None:
        """Step aside for tmux."""
        here = self.shown.basin(self.basin or self.selected)
        if here is None or here.attach is None:
            self.told = f"{here.id if here is not None else 'Nothing'} has no session to attach to."
            return
        self._aside("attach", here.id)

    def _aside(self, *words: str) -> None:
        """Give the terminal to another command of ours until it ends; what it said last is read before we are back."""
        try:
            with self.suspend():
                code = away(words)
                if code or (words[0] != "attach" and self.live.grown()):
                    print("\n enter: back to watch ", end="", flush=True)
                    sys.stdin.readline()
        except SuspendNotSupported:
            self.told = f"This terminal cannot be given away: orchconverge {' '.join(words)}"
        self._stale.set()


def away(words: Sequence[str]) -> int:
    """Run a command of ours on this terminal, to its end. Control + C is for it alone. Returns its exit code."""
    before = signal.signal(signal.SIGINT, lambda *_: None)  # not SIG_IGN, which it would inherit
    try:
        return subprocess.run([*bootstrap.OURSELVES, *words], check=False).returncode
    finally:
        signal.signal(signal.SIGINT, before)


def watch(basin: str | None, *, ascii: bool) -> int:
    """Show it until a person quits; then leave the last frame on the terminal. Raises `Refused` and `Unreadable`."""
    if not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        raise Refused("watch needs a terminal of its own", hint="orchconverge watch --once")
    live = Live(bootstrap.reader(bootstrap.here()))
    first = seen(live, basin)
    if basin is not None and first.found is None:
        there = ", ".join(live.state.basins) or "none"
        raise Refused(f"no destination is called {clean(basin)}", hint=f"there is: {there}")
    colour = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    app = Watch(live, first, Look(ascii=ascii, colour=colour, keys=True), basin=basin)
    app.run()
    if app.broken is not None:
        raise app.broken
    frame = "\n".join(app.page.lines[:-1]).rstrip()
    print(frame)
    if app.copied:
        print(f"\n{app.copied}")
    return 0
