"""A frame of `orchconverge watch`, 30 goals and 200 minds, against Textual drawing a static frame of that size; its memory."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from _timing import Row, Wall, arguments, finish
from rich.text import Text
from textual._compositor import CompositorUpdate
from textual.app import App, ComposeResult
from textual.widgets import Static

from orchconverge import bootstrap
from orchconverge.adapters.ledger import NAME, FileLedger
from orchconverge.core import events as e
from orchconverge.core.upcast import encode
from orchconverge.core.views.lines import Look
from orchconverge.tui.app import Watch
from orchconverge.tui.live import Live
from orchconverge.tui.looking import seen

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.stories import Story, check

BASINS, MINDS = 30, 200
SIZE = (120, 40)
FRAMES = 10
"""Frames in one round."""
GOAL = 2.0
HOUR = {"catch-ups": 240, "minutes": 60}
"""What an hour has: a fact each 15 s, and the clock."""
MEMORY_GOAL = 1 << 20
WARM = 60


def many() -> Story:
    """`BASINS` open goals, the first of which has `MINDS` minds at work."""
    story = Story()
    for number in range(1, BASINS + 1):
        name, criteria = f"goal-{number}", tuple(map(check, "abcdef"))
        story.declare(name, goal=f"goal number {number} is reached", criteria=criteria, lock="person", target="main")
        story.start(name, lock="person").check(name, met=("a",))
    story.begin("goal-1", minds=MINDS)
    for number in range(2, BASINS + 1, 2):
        story.attempt(f"goal-{number}", met=("a", "b"))
    return story


class Hands(Wall):
    """The time that the story ends at, moved by hand."""

    def __init__(self, story: Story) -> None:
        self.at = story.now

    def now(self) -> Any:
        """Where it stands."""
        return self.at


class Drawn:
    """An application that also says what a terminal would be sent, which Textual leaves out without one."""

    sent = 0
    done: asyncio.Event

    def _display(self, screen: Any, renderable: Any) -> None:
        if isinstance(renderable, CompositorUpdate):
            self.sent += len(renderable.render_segments(self.console))  # type: ignore[attr-defined]
            self.done.set()
        super()._display(screen, renderable)  # type: ignore[misc]


class Ours(Drawn, Watch):
    """The view."""


class Floor(Drawn, App[None]):
    """A static frame: the same text in one widget of Textual's own, drawn anew each time."""

    CSS = "Screen { background: ansi_default; } Static { width: 100%; height: 100%; }"
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, lines: list[str]) -> None:
        super().__init__(ansi_color=True)
        self.static = Static("", markup=False)
        self.frames = [Text.from_ansi("\n".join(lines)), Text.from_ansi("\n".join(reversed(lines)))]

    def compose(self) -> ComposeResult:
        """One widget is the whole screen."""
        yield self.static


async def drawn(app: Any, begin: Callable[[], object]) -> float:
    """Seconds of processor time from a change to what the terminal is sent. Textual waits for the next 1/60 s in between."""
    app.done = asyncio.Event()
    begun = time.process_time()
    begin()
    await app.done.wait()
    return time.process_time() - begun


def repository(folder: Path, story: Story) -> Path:
    """A repository whose ledger tells it."""
    env = {**os.environ, "GIT_CONFIG_NOSYSTEM": "1", "HOME": str(folder)}
    repo = folder / "repo"
    who = ["-c", "user.name=a", "-c", "user.email=a@localhost"]
    subprocess.run(["git", "init", "-q", str(repo)], check=True, env=env)
    subprocess.run(["git", "-C", str(repo), *who, "commit", "-q", "--allow-empty", "-m", "start"], check=True, env=env)
    state = repo / ".git" / "orchconverge"
    state.mkdir(mode=0o700)
    with os.fdopen(os.open(state / NAME, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
        file.writelines(map(encode, story.facts))
    return repo


class Bench:
    """Both applications at once, so that floor and ours are drawn in turns."""

    def __init__(self, repo: Path, story: Story) -> None:
        self.clock = Hands(story)
        self.live = Live(bootstrap.reader(repo)._replace(clock=self.clock))  # type: ignore[arg-type]
        self.watch = Ours(self.live, seen(self.live, None), Look(*SIZE, colour=True, keys=True))
        self.writer = FileLedger(self.live.reader.places.state, self.clock)

    async def times(self, rounds: int) -> tuple[Row, dict[str, Any]]:
        """The row, and what an hour of following costs in memory."""
        row = Row(f"a watch frame of {BASINS} basins and {MINDS} minds", "a static frame in Textual", GOAL)
        self.watch.done = asyncio.Event()
        async with self.watch.run_test(size=SIZE) as pilot:
            await pilot.pause()
            for worker in list(self.watch.workers):
                worker.cancel()  # from here on it looks when it is told to
            floor = Floor(list(self.watch.page.lines))
            floor.done = asyncio.Event()
            async with floor.run_test(size=SIZE) as other:
                await other.pause()
                for number in range(-1, rounds):
                    pair = [self._floor(floor), self._ours()]
                    spent = [await pair[0], await pair[1]] if number % 2 else [await pair[1], await pair[0]][::-1]
                    if number >= 0:
                        row.floor.append(spent[0])
                        row.ours.append(spent[1])
                row.notes["characters sent"] = {"floor": floor.sent, "ours": self.watch.sent}
            memory = await self._hour()
        self.writer.close()
        return row, memory

    async def _floor(self, floor: Floor) -> float:
        took = 0.0
        for number in range(FRAMES):
            took += await drawn(floor, lambda: floor.static.update(floor.frames[number % 2]))  # noqa: B023 - awaited
        return took

    async def _ours(self) -> float:
        """The whole way of a frame: the projection, its lines, what of them is drawn; all of them are other ones each time."""
        took = 0.0
        for number in range(FRAMES):
            self.clock.at += timedelta(minutes=1)
            self.watch.selected = f"goal-{1 + number % BASINS}"
            took += await drawn(self.watch, self._frame)
        return took

    def _frame(self) -> None:
        self.watch.seen = self.watch.newest = seen(self.live, None)
        self.watch.draw()

    async def _hour(self) -> dict[str, Any]:
        """Bytes that an hour of following adds, by tracemalloc, once what is kept on purpose is full."""
        tracemalloc.start()
        try:
            for number in range(WARM):
                await self._passes(number)
            gc.collect()
            before = tracemalloc.get_traced_memory()[0]
            for number in range(HOUR["catch-ups"]):
                await self._passes(number)
            for _ in range(HOUR["minutes"]):
                self.clock.at += timedelta(minutes=1)
                await drawn(self.watch, self._frame)
            gc.collect()
            grown = tracemalloc.get_traced_memory()[0] - before
        finally:
            tracemalloc.stop()
        return {"grown_bytes_per_hour": grown, "hour": HOUR, "memory_goal_bytes": MEMORY_GOAL, "by": "tracemalloc"}

    async def _passes(self, number: int) -> None:
        """A question comes or is answered, and is seen."""
        self.clock.at += timedelta(seconds=15)
        asked = f"Does case {number // 2} matter?"
        fact: e.AnyFact = e.FrontierAdded(question=asked, origin="person", basin="goal-1")
        if number % 2:
            fact = e.FrontierClosed(question=asked, answer="no")
        self.writer.append(fact, writer="cli")
        await drawn(self.watch, self._frame)


def main() -> None:
    options = arguments(__doc__ or "", rounds=7).parse_args()
    base = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=base) as folder:
        story = many()
        row, memory = asyncio.run(Bench(repository(Path(folder), story), story).times(options.rounds))
    row.notes.update(memory)
    if memory["grown_bytes_per_hour"] > MEMORY_GOAL * options.margin:
        print(f"memory: {memory['grown_bytes_per_hour']} bytes an hour", file=sys.stderr)
        sys.exit(1)
    finish([row], options)


if __name__ == "__main__":
    main()
