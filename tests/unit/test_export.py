"""`convergence_state.json`: it may lag, never lie, and never stops anybody."""

from __future__ import annotations

import json
import os
import resource
import stat
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from orchconverge.adapters.export import NAME, Export
from orchconverge.files import OwnLock


class Document(msgspec.Struct):
    goal: str
    status: str = "RUNNING"


def read(path: Path) -> dict[str, object]:
    found = json.loads(path.read_text())
    assert isinstance(found, dict)
    return found


def test_both_files_hold_the_document_and_its_seq(tmp_path: Path) -> None:
    assert Export(tmp_path).write(7, {"goal": "g", "status": "RUNNING"}, "auth")
    expected = {"goal": "g", "status": "RUNNING", "seq": 7}
    assert read(tmp_path / NAME) == expected
    assert read(tmp_path / "basins" / "auth" / NAME) == expected


@pytest.mark.parametrize("document", [{"goal": "g", "status": "RUNNING"}, Document("g"), b'{"goal":"g","seq":3}'])
def test_bytes_mappings_and_structs_are_documents(tmp_path: Path, document: object) -> None:
    assert Export(tmp_path).write(3, document, "auth")  # type: ignore[arg-type]
    assert read(tmp_path / NAME)["goal"] == "g"
    assert read(tmp_path / NAME)["seq"] == 3


def test_only_a_higher_seq_replaces_what_is_there(tmp_path: Path) -> None:
    export = Export(tmp_path)
    for seq, expected in ((5, 5), (4, 5), (5, 5), (6, 6)):
        assert export.write(seq, {"from": seq}, "auth")
        assert read(tmp_path / NAME) == {"from": expected, "seq": expected}


def test_an_older_run_leaves_the_file_at_the_top_alone(tmp_path: Path) -> None:
    export = Export(tmp_path)
    export.write(5, {"basin": "new"}, "new")
    export.write(6, {"basin": "old"}, "old", newest=False)
    assert read(tmp_path / NAME)["basin"] == "new"
    assert read(tmp_path / "basins" / "old" / NAME)["basin"] == "old"


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"seq":"9"}', b'{"goal":1}', b"\xff" * 9, b"[" * 99_999])
def test_a_corrupt_file_is_replaced(tmp_path: Path, content: bytes) -> None:
    (tmp_path / NAME).write_bytes(content)
    assert Export(tmp_path).write(1, {"goal": "g"}, "auth")
    assert read(tmp_path / NAME)["seq"] == 1


def test_a_link_in_its_place_is_replaced_and_not_followed(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("mine")
    (tmp_path / NAME).symlink_to(other)
    assert Export(tmp_path).write(1, {"goal": "g"}, "auth")
    assert other.read_text() == "mine"
    assert not (tmp_path / NAME).is_symlink()


def test_the_last_five_stay_in_backups(tmp_path: Path) -> None:
    export = Export(tmp_path)
    for seq in range(1, 10):
        export.write(seq, {"goal": seq}, "auth")
    kept = sorted((tmp_path / "backups").iterdir())
    assert [read(path)["seq"] for path in kept] == [4, 5, 6, 7, 8]
    assert all(path.stat().st_nlink == 1 for path in [*kept, tmp_path / NAME])


def test_what_a_killed_writer_left_is_cleared_away_and_other_files_are_not(tmp_path: Path) -> None:
    (tmp_path / "backups").mkdir()
    (tmp_path / "backups" / ".new-1-abc").write_text("half")
    (tmp_path / "backups" / "000000000001.ledger.jsonl").write_text("a ledger")
    Export(tmp_path).write(1, {"goal": "g"}, "auth")
    assert [path.name for path in (tmp_path / "backups").iterdir()] == ["000000000001.ledger.jsonl"]


def test_a_writer_killed_between_two_names_does_no_harm(tmp_path: Path) -> None:
    export = Export(tmp_path)
    export.write(1, {"goal": "g"}, "auth")
    (tmp_path / "backups" / f"000000000001.{NAME}").hardlink_to(tmp_path / NAME)
    assert export.write(2, {"goal": "g"}, "auth")
    assert read(tmp_path / NAME)["seq"] == 2


def test_a_full_disk_is_told_and_what_was_there_stays(tmp_path: Path) -> None:
    export = Export(tmp_path)
    assert export.write(1, {"goal": "g"}, "auth")
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        assert export.write(2, {"goal": "x" * 500}, "auth") is False
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    assert read(tmp_path / NAME)["seq"] == 1
    assert not [path for path in (tmp_path / "backups").iterdir() if path.name.startswith(".new-")]
    assert export.write(2, {"goal": "g"}, "auth")


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    assert Export(tmp_path / "state").write(1, {"goal": "g"}, "auth") is False


def test_a_lock_that_is_not_free_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchconverge.adapters.export.WAIT_SECONDS", 0)
    (tmp_path / "locks").mkdir()
    held = OwnLock(tmp_path / "locks" / "export")
    assert held.take(wait_seconds=0)
    assert Export(tmp_path).write(1, {"goal": "g"}, "auth") is False
    held.close()
    assert Export(tmp_path).write(1, {"goal": "g"}, "auth")


@pytest.mark.parametrize("umask", [0, 0o077, 0o777])
def test_exports_are_ours_alone_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        assert Export(tmp_path / "state").write(1, {"goal": "g"}, "auth")
        assert Export(tmp_path / "state").write(2, {"goal": "g"}, "auth")
    finally:
        os.umask(before)
    for path in (tmp_path / "state").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)


def test_writers_at_once_leave_the_highest_and_never_a_half(tmp_path: Path) -> None:
    script = """
import sys
from pathlib import Path
from orchconverge.adapters.export import Export
export = Export(Path(sys.argv[1]))
for seq in range(int(sys.argv[2]), 200, 4):
    export.write(seq, {"goal": "x" * 2000}, "auth")
"""
    writers = [subprocess.Popen([sys.executable, "-c", script, str(tmp_path), str(n)]) for n in range(1, 5)]
    while any(writer.poll() is None for writer in writers):
        if (tmp_path / NAME).exists():
            read(tmp_path / NAME)
    assert [writer.returncode for writer in writers] == [0, 0, 0, 0]
    assert read(tmp_path / NAME)["seq"] == 199
