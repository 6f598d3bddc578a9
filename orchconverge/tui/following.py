"""What the full-screen view knows and draws: the ledger followed, git asked, one frame at a time, only what changed."""

from __future__ import annotations

import asyncio
import signal
import time
from contextlib import suppress
from functools import partial
from typing import Final

from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.events import Resize

from orchconverge.core.shown import Projection
from orchconverge.core.views.board import Chosen, Frame, board, selected, unreadable
from orchconverge.core.views.destination import destination
from orchconverge.core.views.destination_matrix import Beside, Candidates
from orchconverge.core.views.lines import Look, drawn, keyed
from orchconverge.core.views.text import clock
from orchconverge.errors import OrchConvergeError
from orchconverge.tui.keys import DESTINATION, OVERVIEW, TEXT
from orchconverge.tui.live import Live
from orchconverge.tui.looking import Fault, Repository, Seen, Threads, held, seen, unread
from orchconverge.tui.page import Page
from orchconverge.tui.reading import Text, text_frame

AWAKE_SECONDS: Final = 0.25
IDLE_SECONDS: Final = 1.0
"""Between two looks at the ledger: while it grows, and when it has not for `IDLE_AFTER_SECONDS`."""
IDLE_AFTER_SECONDS: Final = 10.0
LEASES_SECONDS: Final = 5.0
"""A controller that is gone writes nothing: this often it is asked who still holds a lease."""


class Following(App[None]):
    """All destinations, one of them, or a text about it, as the ledger has them now. Reads and draws, nothing else."""

    ENABLE_COMMAND_PALETTE = False
    ALLOW_SELECT = False
    BINDINGS = [Binding("ctrl+c", "quit", show=False, priority=True), Binding("ctrl+z", "suspend_process", show=False)]  # noqa: RUF012 - Textual's
    CSS = "Screen { background: ansi_default; color: ansi_default; }"

    def __init__(self, live: Live, first: Seen, look: Look, *, basin: str | None = None) -> None:
        super().__init__(ansi_color=True)
        self.animation_level = "none"
        self.live = live
        self.seen = first
        """What is drawn; ``newest`` is ahead of it while the view is held."""
        self.newest = first
        self.held = False
        self.look = look
        self.basin = basin
        """The destination that is open."""
        self.branch: str | None = None
        self.selected = self._gathered = basin or selected(first.shown, Chosen())
        self.filter = ""
        self.typing = False
        self.text: Text | None = None
        self.told = ""
        """Stands in the place of the keys until the next one is pressed."""
        self.fault: Fault | None = None
        self.copied = ""
        self.frame = Frame((), {})
        self.page = Page()
        self.redrawn = 0
        """So many lines were drawn so far."""
        self.repository = Repository(live.reader)
        self.threads = Threads()
        self.beside: Beside | None = None
        """What git says of the candidates; ``None`` until it has answered."""
        self._sizes: dict[str, int] = {}
        self._compared: tuple[object, ...] = ()
        self._stale = asyncio.Event()

    # --- following ---------------------------------------------------------------------------------------------------

    def compose(self) -> ComposeResult:
        """One widget is the whole screen."""
        yield self.page

    def on_unmount(self) -> None:
        """Ask nothing more."""
        self.threads.close()

    def on_mount(self) -> None:
        """Draw what is known, and follow. Who ends the process gets the terminal back as it was."""
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self.exit)
        self.app_resume_signal.subscribe(self, lambda _: self.refresh(layout=True))  # after Control + Z too
        self.draw()
        self._ask_git()
        self.run_worker(self._follow(), group="follow")

    async def _follow(self) -> None:
        grown = asked = time.monotonic()
        leases = await self.threads.ledger(partial(held, self.live))
        while True:
            now = time.monotonic()
            if now - asked > LEASES_SECONDS:
                asked, before = now, leases
                leases = await self.threads.ledger(partial(held, self.live))
                if leases != before:
                    self._stale.set()
            if await self.threads.ledger(self.live.grown):
                grown = now
            if grown == now or self._stale.is_set() or self._minute():
                self._stale.clear()
                await self._read()
            idle = self.fault is not None or now - grown > IDLE_AFTER_SECONDS
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stale.wait(), IDLE_SECONDS if idle else AWAKE_SECONDS)

    def _minute(self) -> bool:
        """Whether the clock shows another minute than the newest frame."""
        now, then = self.live.reader.clock.now(), self.newest.shown.as_of
        return (now.hour, now.minute) != (then.hour, then.minute)

    async def _read(self) -> None:
        self._gathered = self.selected
        try:
            look = partial(seen, self.live, self.basin, chosen=self._chosen, sizes=self._sizes)
            self.newest = await self.threads.ledger(look)
            self.fault = None
        except (OrchConvergeError, OSError) as error:
            self.fault = unread(error, self.live.reader.ledger.path)
        if not self.held:
            self.seen = self.newest
        elif self.found is None:  # another destination was opened or selected: it is shown beside what is held
            self.seen = self.newest._replace(shown=self.shown)
        self.draw()
        self._ask_git()

    def _ask_git(self) -> None:
        """Have the candidates of the open destination compared, once for what they are now."""
        branches, equals = self.seen.branches, self.seen.equals
        key = tuple((branch.id, branch.head) for branch in (*branches, *equals))
        if key == self._compared:
            return
        self._compared, self.beside = key, None

        async def ask() -> None:
            answer = await self.threads.git(partial(self.repository.beside, branches, equals))
            if self._compared == key:
                self.beside = answer
                self._sizes = {name: sum(lines) for name, lines in answer.sizes.items()}
                if equals:  # one that changes less may stand for the rest
                    self._stale.set()
                self.draw()

        if branches:
            self.run_worker(ask(), group="git")

    # --- drawing -----------------------------------------------------------------------------------------------------

    @property
    def shown(self) -> Projection:
        """What is drawn."""
        return self.seen.shown

    @property
    def found(self) -> Candidates | None:
        """The candidates of the destination that is open, as soon as they were read."""
        found = self.seen.found
        return found if found is not None and found.matrix.basin == self.basin else None

    @property
    def where(self) -> str:
        """The screen that is shown."""
        return TEXT if self.text is not None else DESTINATION if self.basin is not None else OVERVIEW

    def on_resize(self, event: Resize) -> None:
        """Draw it anew for another size."""
        self.look = self.look._replace(width=event.size.width, height=event.size.height)
        self.draw()

    def draw(self) -> None:
        """Draw what is shown now; lines that are as they were are left alone."""
        self.selected = selected(self.shown, self._chosen)
        if self.selected != self._gathered:  # what of it is drawn is to be gathered first
            self._stale.set()
        self.frame = self._frame()
        lines = list(self.frame.lines)
        if lines and (told := f"/{self.filter}_" if self.typing else self.told):
            lines[-1] = drawn([f" {told}"], self.look)
        self.redrawn += self.page.show(lines)

    def _frame(self) -> Frame:
        if self.fault is not None:
            told = unreadable(*self.fault, self.look, repo=self.live.repo).lines
            return Frame((*told, *[""] * (self.look.height - 1 - len(told)), keyed((("q", "quit"),), self.look)), {})
        repo, found, chosen = self.live.repo, self.found, self._chosen
        if self.text is not None:
            return text_frame(self.text, self.shown, self.look, repo=repo, chosen=chosen)
        if self.basin is not None and found is not None:
            return destination(
                self.shown,
                self.look,
                repo=repo,
                basin=self.basin,
                found=found,
                beside=self.beside,
                chosen=chosen._replace(selected=self.branch),
            )
        return board(self.shown, self.look, repo=repo, chosen=chosen, compared=self.seen.found)

    @property
    def _chosen(self) -> Chosen:
        return Chosen(self.selected, self.filter, self._held())

    def _held(self) -> str:
        if not self.held:
            return ""
        newer = self.newest.shown.ledger.seq - self.shown.ledger.seq
        return f"held {clock(self.shown.local, self.shown.local, seconds=True)}, {newer} newer"

    # --- the end -----------------------------------------------------------------------------------------------------

    def _handle_exception(self, error: Exception) -> None:
        """Leave; `watch` raises it for the command line to write down. A person is shown no traceback."""
        super()._handle_exception(error)
        self._exit_renderables.clear()

    @property
    def broken(self) -> Exception | None:
        """What ended it, if that was a fault of ours."""
        return self._exception
