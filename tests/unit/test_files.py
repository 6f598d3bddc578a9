"""Writing files of ours: whole or not at all, for this user alone, through no link."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from orchconverge.errors import Refused
from orchconverge.files import open_inside, write_inside, write_own


@pytest.mark.parametrize("umask", [0, 0o777])
def test_a_file_of_ours_is_ours_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        write_own(tmp_path / "f", b"x")
    finally:
        os.umask(before)
    assert (tmp_path / "f").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


def test_what_is_in_the_way_is_replaced_and_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("kept")
    (tmp_path / "f").symlink_to(tmp_path / "secret")
    write_own(tmp_path / "f", b"ours")
    assert (tmp_path / "secret").read_text() == "kept"
    assert (tmp_path / "f").read_bytes() == b"ours"
    assert not (tmp_path / "f").is_symlink()


def test_a_write_that_fails_leaves_what_was_there_and_no_draft(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("old")
    drafts = tmp_path / "drafts"
    drafts.mkdir()

    def fails() -> None:
        [draft] = drafts.iterdir()
        assert draft.read_bytes() == b"new"
        raise OSError("no room")

    with pytest.raises(OSError, match="no room"):
        write_own(tmp_path / "f", b"new", drafts=drafts, last=fails)
    assert (tmp_path / "f").read_text() == "old"
    assert list(drafts.iterdir()) == []


def test_no_link_leads_out_of_a_folder_to_write_or_to_read(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    outside.mkdir()
    (outside / "f").write_text("kept")
    (inside / "d").symlink_to(outside)
    with pytest.raises(Refused):
        write_inside(inside, "d/f", b"x")
    with pytest.raises(OSError):
        open_inside(inside, "d/f", os.O_RDONLY)
    assert (outside / "f").read_text() == "kept"
    write_inside(inside, "e/f", b"x")
    os.close(open_inside(inside, "e/f", os.O_RDONLY))
    assert (inside / "e" / "f").read_bytes() == b"x"
