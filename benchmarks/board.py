"""A frame of the overview, 30 goals and 200 minds, against measuring the cells of its text: what drawing costs beside that."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

from _timing import Row, arguments, finish

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from orchconverge.core.views.board import board
from orchconverge.core.views.destination_matrix import candidates
from orchconverge.core.views.lines import Look, bare
from orchconverge.core.views.text import cells
from tests.shop import crowd, shop, shown

BASINS = 30
FRAMES = 20
"""Frames in one round."""
GOAL = 15.0
"""Measured: 4 to 9, which is 1 to 4 ms on a machine of two cores; the design allows 10 ms a frame."""
SIZES = ((80, 24), (120, 40), (200, 60))


def timed(act: Callable[[], object]) -> float:
    begun = time.perf_counter()
    for _ in range(FRAMES):
        act()
    return time.perf_counter() - begun


def main() -> None:
    options = arguments(__doc__ or "", rounds=25).parse_args()
    story = shop()
    found, compared = crowd(shown(story), BASINS), candidates(story.state, "mfa")
    assert sum(one.minds.running for one in found.basins) >= 200
    rows = []
    for width, height in SIZES:
        look = Look(width=width, height=height, keys=True, colour=True)
        lines = [bare(line) for line in board(found, look, repo="shop", compared=compared).lines]

        def measure(lines: list[str] = lines) -> None:
            for line in lines:
                cells(line)

        def draw(look: Look = look) -> None:
            board(found, look, repo="shop", compared=compared)

        row = Row(f"a frame of {width} x {height}", "measuring its cells", GOAL)
        row.run(lambda measure=measure: timed(measure), lambda draw=draw: timed(draw), options.rounds)  # type: ignore[misc]
        row.notes["milliseconds"] = round(1000 * sum(row.ours) / len(row.ours) / FRAMES, 2)
        rows.append(row)
    finish(rows, options)


if __name__ == "__main__":
    main()
