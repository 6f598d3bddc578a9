"""The eight frames, as they stand in the documentation."""

from __future__ import annotations

import re

import pytest

from tests.docs import frames


def test_the_frames_are_what_the_commands_show() -> None:
    again = "python -m tests.docs.frames"
    assert frames.PAGE.read_text(encoding="utf-8") == frames.page(), again
    text = frames.README.read_text(encoding="utf-8")
    assert text == frames.readme(text), again


def test_a_readme_without_a_place_for_a_frame_is_refused() -> None:
    with pytest.raises(ValueError, match="stand 0 times"):
        frames.readme("# orchconverge\n")


def test_ten_times_the_minds_change_two_numbers_and_no_row() -> None:
    few, many = (frames.frames()[number].seen for number in (2, 3))
    numbers = re.compile(r" +\d+ minds|wave of \d+")
    assert few != many
    assert numbers.sub("", few) == numbers.sub("", many)


def test_there_are_eight_and_each_fits_a_terminal() -> None:
    made = frames.frames()
    assert [frame.second for frame in made] == [0, 6, 14, 22, 28, 34, 44, 52]
    assert all(len(line) <= 80 for frame in made for line in frame.seen.splitlines() if not line.startswith("$ "))
