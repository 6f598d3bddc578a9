"""A file that a person named for a command's output: whole, through no link, never waiting for a pipe."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from orchconverge.cli.put import put
from orchconverge.errors import Refused


def test_a_file_is_replaced_whole_and_a_dash_is_the_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("out.md").write_text("longer than what comes")
    assert put("out.md", "é\n")
    assert Path("out.md").read_text() == "é\n"
    assert not put("-", "é\n")
    assert [path.name for path in tmp_path.iterdir()] == ["out.md"]


@pytest.mark.parametrize("made", ["link", "pipe", "folder"])
def test_what_is_no_file_is_refused_and_stays(tmp_path: Path, made: str) -> None:
    (tmp_path / "other").write_text("somebody's")
    path = tmp_path / "out.md"
    if made == "link":
        path.symlink_to(tmp_path / "other")
    elif made == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    with pytest.raises(Refused, match="not a regular file"):
        put(str(path), "x")
    assert (tmp_path / "other").read_text() == "somebody's"


@pytest.mark.parametrize("name", ["", " ", "/", ".."])
def test_what_names_no_file_is_refused_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Refused):
        put(name, "x")
    with pytest.raises(Refused, match="is no folder"):
        put(str(tmp_path / "none" / "out.md"), "x")
