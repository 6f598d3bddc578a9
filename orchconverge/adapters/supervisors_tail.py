"""Reads what a supervised program prints on while it runs: `log.head`, then each `log.tail.N`, as `pane.py` writes them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import BinaryIO, Final

from orchconverge.adapters.supervisors_reading import LEFT_OUT, Odd, open_below

MOST_BYTES: Final = 4 << 20
_TAIL: Final = re.compile(r"log\.tail\.(\d+)")


class Output:
    """The output of one run, below its folder, from its beginning on. The folder need not be there yet."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: BinaryIO | None = None
        self._number = -1
        """Of the part that is read: -1 is the head, which is followed by ``log.tail.0``."""

    def more(self) -> bytes:
        """What was printed since the last call, at most `MOST_BYTES` at once; a marker line stands for parts that are gone.

        Empty where nothing more is there, or what is there is no log of ours.
        """
        if self._file is None:
            self._file = self._opened("log.head")
        found: list[bytes] = []
        room = MOST_BYTES
        while self._file is not None and room > 0:
            later = [n for n in self._numbers() if n > self._number]  # looked for first: what it follows is whole then
            found.append(self._file.read(room))
            room -= len(found[-1])
            if room <= 0:
                break
            following = next(((n, file) for n in later if (file := self._opened(f"log.tail.{n}")) is not None), None)
            if following is None:
                break
            if following[0] > self._number + 1:
                found.append(LEFT_OUT)
            self._file.close()
            self._number, self._file = following
        return b"".join(found)

    def close(self) -> None:
        """Give the descriptor back."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _numbers(self) -> list[int]:
        try:
            names = [path.name for path in self._folder.iterdir()]
        except OSError:
            return []
        return sorted(int(match[1]) for name in names if (match := _TAIL.fullmatch(name)))

    def _opened(self, name: str) -> BinaryIO | None:
        try:
            return open_below(self._folder, name)
        except (OSError, Odd):
            return None
