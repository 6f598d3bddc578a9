"""Every fault that a ledger's file, its folder or its lines can have, with real files."""

from __future__ import annotations

import errno
import os
import resource
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from orchconverge.adapters import ledger as module
from orchconverge.adapters.ledger import NAME, FileLedger, verify
from orchconverge.core import upcast
from orchconverge.core.events import AnyFact, FrontierAdded, FrontierClosed
from orchconverge.core.replay import Replay
from orchconverge.errors import Illegal, NotDurable, OrchConvergeError, Refused, Unreadable
from orchconverge.files import Lines, OwnLock, own_folder


class Wall:
    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()


Open = Callable[[], FileLedger]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def opened(folder: Path) -> Iterator[Open]:
    ledgers: list[FileLedger] = []

    def open_one() -> FileLedger:
        ledgers.append(FileLedger(folder, Wall()))
        return ledgers[-1]

    yield open_one
    for ledger in ledgers:
        ledger.close()


@pytest.fixture
def ledger(opened: Open) -> FileLedger:
    return opened()


def asks(question: str) -> AnyFact:
    return FrontierAdded(question=question, origin="person")


def filled(ledger: FileLedger, *questions: str) -> bytes:
    """Append a question each and return the file's content."""
    for question in questions:
        ledger.append(asks(question), writer="cli")
    return ledger.path.read_bytes()


def questions(ledger: FileLedger) -> list[str]:
    return list(ledger.state.frontier)


@contextmanager
def no_file_over(size: int) -> Iterator[None]:
    """A disk that is full at ``size`` bytes, as far as writing goes: a short write, then EFBIG."""
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))


# --- torn tails -------------------------------------------------------------------------------------------------------


def test_a_tail_torn_at_any_byte_is_skipped_and_never_eats_the_next_fact(opened: Open) -> None:
    ledger = opened()
    kept = filled(ledger, "one")
    whole = filled(ledger, 'two: "quoted", \N{SNOWMAN}')
    for end in range(len(kept), len(whole)):
        ledger.path.unlink()
        ledger.path.write_bytes(whole[:end])
        ledger.path.chmod(0o600)
        reader = opened()
        assert questions(reader) == ["one"]
        assert (reader.health.lines, reader.health.bad, reader.health.torn) == (1, 0, end > len(kept))
        complete = end == len(whole) - 1  # all but the newline: the next writer makes it a line like any other
        assert opened().append(asks("three"), writer="cli").seq == (3 if complete else 2)
        for late in (reader, opened()):
            late.catch_up()
            assert [q for q in questions(late) if not q.startswith("two")] == ["one", "three"]
            assert len(questions(late)) == 2 + complete
            assert late.health.bad == int(len(kept) < end and not complete)
            assert not late.health.torn
        assert ledger.path.read_bytes().startswith(whole[:end])


def test_a_torn_tail_is_not_touched_by_readers(opened: Open, ledger: FileLedger) -> None:
    content = filled(ledger, "one") + b'{"type":"fro'
    ledger.path.write_bytes(content)
    reader = opened()
    assert (reader.health.torn, reader.catch_up(), verify(ledger.path.parent).exit_code) == (True, (), 0)
    assert ledger.path.read_bytes() == content


def test_a_line_is_read_once_it_is_whole(opened: Open, ledger: FileLedger) -> None:
    content = filled(ledger, "one", "two")
    first = content.index(b"\n") + 1
    ledger.path.unlink()
    ledger.path.write_bytes(content[: first + 20])
    reader = opened()
    assert len(reader.catch_up()) == 1
    with ledger.path.open("ab") as file:
        file.write(content[first + 20 :])
    assert [f.seq for f in reader.catch_up()] == [2]


# --- writes that fail -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("room", [0, 1, 60, 10_000])
def test_a_short_write_is_not_acknowledged_and_the_next_append_just_works(opened: Open, room: int) -> None:
    ledger, other = opened(), opened()
    before = len(filled(ledger, "one"))
    fact = asks("x" * 20_000)
    with no_file_over(before + room):
        for _ in range(3):
            with pytest.raises(NotDurable) as caught:
                ledger.append(fact, writer="cli")
            assert caught.value.hint
            assert questions(ledger) == ["one"]
    assert ledger.append(asks("two"), writer="cli").seq == 2
    assert questions(ledger) == ["one", "two"]
    other.catch_up()
    assert questions(other) == ["one", "two"]
    assert other.health.bad == int(room > 0)
    assert verify(ledger.path.parent).exit_code == int(room > 0)


def test_a_disk_that_fills_up_and_is_freed_needs_no_repair(tmp_path: Path) -> None:
    script = """
import sys
from pathlib import Path
sys.path[:0] = sys.argv[2:]
from tests.unit.test_ledger import *
disk = Path(sys.argv[1])
ledger, fat = FileLedger(disk / "state", Wall()), disk / "fat"
filled(ledger, "one")
with fat.open("wb", buffering=0) as file:
    try:
        while file.write(b"x" * 1024): pass
    except OSError as error:
        assert error.errno == errno.ENOSPC
refused = taken = 0
while refused < 20:
    try:
        ledger.append(asks(f"{taken} " + "y" * 900), writer="cli")
        taken += 1
    except NotDurable as error:
        assert "room" in error.hint and ("space" in error.message or "bytes were taken" in error.message)
        refused += 1
assert questions(ledger)[0] == "one" and len(questions(ledger)) == 1 + taken
fat.unlink()
ledger.append(asks("two"), writer="cli")
assert len(questions(ledger)) == taken + 2
fresh = FileLedger(disk / "state", Wall())
assert questions(fresh) == questions(ledger) and fresh.health.lines == taken + 2 + fresh.health.bad
print("ok", fresh.health)
"""
    mount = 'mount -t tmpfs -o size=128k t "$1" || exit 77; exec "$2" -c "$3" "$1" "$4"'
    disk = tmp_path / "disk"
    disk.mkdir()
    root = str(Path(__file__).resolve().parents[2])
    ran = subprocess.run(
        ["unshare", "-m", "sh", "-c", mount, "sh", str(disk), sys.executable, script, root],
        capture_output=True,
        text=True,
    )
    if ran.returncode == 77 or "unshare" in ran.stderr:
        pytest.skip("needs the right to mount")
    assert ran.stdout.startswith("ok"), ran.stderr


def test_a_flush_that_fails_is_not_acknowledged(ledger: FileLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(ledger, "one")

    def fails(fd: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", fails)
        with pytest.raises(NotDurable, match="Input/output"):
            ledger.append(asks("two"), writer="cli")
    assert questions(ledger) == ["one", "two"]  # the file decides: its bytes were taken
    assert [f.seq for f in ledger.catch_up()] == [2]
    assert ledger.append(asks("three"), writer="cli").seq == 3
    assert ledger.health.bad == 0


def test_an_interrupt_in_an_append_leaves_the_state_as_the_file_has_it(
    ledger: FileLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(ledger, "one")

    def interrupted(fd: int, line: bytes) -> int:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            ledger.append(asks("two"), writer="cli")
    assert questions(ledger) == ["one"]
    assert ledger.append(asks("two"), writer="cli").seq == 2


def test_signals_in_the_middle_of_appends_do_no_harm(opened: Open, ledger: FileLedger) -> None:
    rung = 0

    def ring(*_: object) -> None:
        nonlocal rung
        rung += 1

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
    try:
        filled(ledger, *(f"q{n}" for n in range(200)))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert rung > 0
    assert len(opened().catch_up()) == 200
    assert opened().health.bad == 0


def test_a_lock_that_is_never_given_back_is_an_error_and_not_a_hang(
    ledger: FileLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(ledger, "one")
    told: list[str] = []
    patient = FileLedger(ledger.path.parent, Wall(), waiting=told.append)
    monkeypatch.setattr(module, "LOCK_SECONDS", 1.2)
    held = OwnLock(ledger.path.parent / "locks" / "ledger")
    assert held.take(wait_seconds=0)
    with pytest.raises(NotDurable, match="held by another process"):
        patient.append(asks("two"), writer="cli")
    assert len(told) == 1
    held.close()
    assert patient.append(asks("two"), writer="cli").seq == 2
    patient.close()


# --- what is not ours -------------------------------------------------------------------------------------------------


def make_symlink(path: Path) -> None:
    (path.parent / "elsewhere").write_text("somebody's\n")
    path.symlink_to(path.parent / "elsewhere")


def make_dangling(path: Path) -> None:
    path.symlink_to(path.parent / "missing")


def make_hardlink(path: Path) -> None:
    (path.parent / "elsewhere").write_text("somebody's\n")
    path.hardlink_to(path.parent / "elsewhere")


def make_fifo(path: Path) -> None:
    os.mkfifo(path)


def make_socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # the whole path may be too long for a socket
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(path.name)
    os.chdir(here)


def make_folder(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize("name", [NAME, "locks/ledger"])
@pytest.mark.parametrize(
    "make", [make_symlink, make_dangling, make_hardlink, make_fifo, make_socket, make_folder], ids=lambda f: f.__name__
)
def test_what_is_no_file_of_ours_is_refused_and_left_alone(
    ledger: FileLedger, folder: Path, make: Callable[[Path], None], name: str
) -> None:
    (folder / "locks").mkdir(parents=True)
    make(folder / name)
    with pytest.raises(Refused) as caught:
        ledger.append(asks("one"), writer="cli")
    assert str(folder / name) in caught.value.message
    assert caught.value.hint
    if name == NAME:
        with pytest.raises(Refused):
            ledger.catch_up()
        with pytest.raises(Refused):
            verify(folder)
    for path in folder.rglob("elsewhere"):
        assert path.read_text() == "somebody's\n"
    assert not list(folder.rglob("missing"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_somebody_elses_file_is_refused(ledger: FileLedger, folder: Path) -> None:
    filled(ledger, "one")
    os.chown(folder / NAME, 65534, 65534)
    fresh = FileLedger(folder, Wall())
    with pytest.raises(Refused, match="owned by user 65534"):
        fresh.catch_up()
    fresh.close()


def test_a_file_where_the_folder_should_be_is_refused(ledger: FileLedger, folder: Path) -> None:
    folder.write_text("not a folder")
    with pytest.raises(OrchConvergeError, match="state"):
        ledger.append(asks("one"), writer="cli")


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077, 0o277])
def test_files_are_0600_and_folders_0700_whatever_the_umask(ledger: FileLedger, folder: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        filled(ledger, "one")
        assert ledger.backup() is not None
    finally:
        os.umask(before)
    for path in (folder, *folder.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_reading_makes_nothing(ledger: FileLedger, folder: Path) -> None:
    assert (ledger.catch_up(), ledger.health.lines, list(ledger.show()), ledger.backup()) == ((), 0, [], None)
    assert verify(folder).exit_code == 0
    assert not folder.exists()


# --- unreadable is not empty ------------------------------------------------------------------------------------------


def without_permission(folder: Path) -> None:
    """Run as somebody whom permissions bind."""
    ledger = FileLedger(folder, Wall())
    filled(ledger, "one")
    ledger.close()
    (folder / NAME).chmod(0)
    uses: list[Callable[[FileLedger], object]] = [
        lambda one: one.catch_up(),
        lambda one: one.state,
        lambda one: one.health,
        lambda one: one.append(asks("two"), writer="cli"),
        lambda one: list(one.show()),
        lambda one: verify(folder),
    ]
    for use in uses:
        with pytest.raises(Unreadable, match="Permission denied") as caught:
            use(FileLedger(folder, Wall()))
        assert "not an empty ledger" in caught.value.hint
    (folder / NAME).chmod(0o400)
    ledger = FileLedger(folder, Wall())
    assert questions(ledger) == ["one"]
    with pytest.raises(NotDurable) as refused:
        ledger.append(asks("two"), writer="cli")
    assert "writable" in refused.value.hint
    assert questions(ledger) == ["one"]
    (folder / NAME).chmod(0o600)
    ledger.append(asks("two"), writer="cli")
    assert questions(ledger) == ["one", "two"]


def test_a_ledger_without_permission_is_unreadable_and_not_empty(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        without_permission(tmp_path / "state")
        return
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as said:
        os.chown(folder, 65534, 65534)
        child = os.fork()
        if not child:
            try:
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
                without_permission(Path(folder) / "state")
            except BaseException:
                traceback.print_exc(file=said)
                said.flush()
                os._exit(1)
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        said.seek(0)
        assert status == 0, said.read()


def test_a_ledger_that_shrank_is_unreadable_and_stays_so(ledger: FileLedger, opened: Open) -> None:
    content = filled(ledger, "one", "two", "three")
    ledger.path.write_bytes(content[: content.index(b"\n") + 1])
    for _ in range(2):
        with pytest.raises(Unreadable, match=r"shrank .* while it was in use"):
            ledger.catch_up()
        with pytest.raises(Unreadable, match="shrank"):
            ledger.append(asks("four"), writer="cli")
    ledger.path.write_bytes(content + content)
    with pytest.raises(Unreadable):
        ledger.catch_up()
    assert ledger.path.read_bytes() == content + content


def test_a_ledger_that_was_replaced_is_unreadable(ledger: FileLedger, folder: Path) -> None:
    content = filled(ledger, "one", "two")
    (folder / "new").write_bytes(content + content)
    (folder / "new").chmod(0o600)
    (folder / "new").replace(ledger.path)
    with pytest.raises(Unreadable, match="replaced"):
        ledger.append(asks("three"), writer="cli")
    assert ledger.path.read_bytes() == content + content


def test_a_ledger_that_was_written_anew_in_place_is_unreadable(ledger: FileLedger) -> None:
    content = filled(ledger, "one", "two")
    ledger.path.write_bytes(content.replace(b"two", b"2wo") + content)
    with pytest.raises(Unreadable, match="not the file it was"):
        ledger.catch_up()


def test_a_ledger_that_is_gone_is_unreadable_and_not_empty(ledger: FileLedger) -> None:
    filled(ledger, "one")
    ledger.path.unlink()
    with pytest.raises(Unreadable, match="gone"):
        ledger.catch_up()
    with pytest.raises(Unreadable, match="gone"):
        ledger.append(asks("two"), writer="cli")
    assert not ledger.path.exists()


def test_a_failed_append_does_not_make_a_replaced_file_acceptable(ledger: FileLedger) -> None:
    content = filled(ledger, "one", "two")
    with no_file_over(len(content)), pytest.raises(NotDurable):
        ledger.append(asks("three"), writer="cli")
    ledger.path.write_bytes(content[: content.index(b"\n") + 1])
    with pytest.raises(Unreadable, match="shrank"):
        questions(ledger)


# --- odd lines --------------------------------------------------------------------------------------------------------


def rewritten(ledger: FileLedger, change: Callable[[list[bytes]], list[bytes]]) -> None:
    lines = change(ledger.path.read_bytes().splitlines(keepends=True))
    ledger.path.unlink()
    ledger.path.write_bytes(b"".join(lines))


BAD = {
    "not JSON": b"not json\n",
    "binary": bytes(range(1, 10)) + b"\xff\xfe\n",
    "NUL": b"\0" * 500 + b"\n",
    "no type": b'{"v":1,"seq":2}\n',
    "a list": b"[1,2]\n",
    "wrong fields": b'{"type":"frontier.added","v":1,"seq":2,"at":"2026-01-01T00:00:00Z","writer":"cli","question":7}\n',
    "no envelope": b'{"type":"frontier.added","question":"q","from":"person"}\n',
    "no zone": b'{"type":"frontier.added","v":1,"seq":2,"at":"2026-01-01T00:00:00","writer":"cli","question":"q","from":"p"}\n',
    "deep": b'{"type":"frontier.added","x":' + b"[" * 100_000 + b"\n",
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
def test_a_damaged_line_in_the_middle_is_skipped_and_counted(opened: Open, bad: bytes) -> None:
    filled(opened(), "one", "two", "three")
    rewritten(opened(), lambda lines: [lines[0], bad, lines[2]])
    reader = opened()
    assert questions(reader) == ["one", "three"]
    assert (reader.health.lines, reader.health.bad, reader.health.illegal) == (3, 1, 0)
    assert reader.append(asks("four"), writer="cli").seq == 4
    audit = verify(reader.path.parent)
    assert (audit.exit_code, [line for line, _ in audit.odd]) == (1, [2])


def test_two_lines_without_the_newline_between_them_are_damage(opened: Open) -> None:
    filled(opened(), "one", "two", "three", "four")
    rewritten(opened(), lambda lines: [lines[0], lines[1].rstrip(b"\n") + lines[2], lines[3]])
    reader = opened()
    assert questions(reader) == ["one", "four"]
    assert reader.health.bad == 1


def test_a_spliced_line_that_is_still_json_is_damage(opened: Open) -> None:
    filled(opened(), "one", "two", "three")

    def splice(lines: list[bytes]) -> list[bytes]:
        return [lines[0], lines[1][: lines[1].index(b',"question')] + b"," + lines[2][lines[2].index(b'"v"') :]]

    rewritten(opened(), splice)
    assert msgspec.json.decode(opened().path.read_bytes().splitlines()[1])["question"] == "three"
    reader = opened()
    assert questions(reader) == ["one"]
    assert reader.health.bad == 1


def test_a_splice_inside_a_value_shows_by_the_missing_number(opened: Open) -> None:
    filled(opened(), "first question", "second question", "third")

    def splice(lines: list[bytes]) -> list[bytes]:
        return [lines[0][: lines[0].index(b"question", 60)] + lines[1][lines[1].index(b"question", 60) :], lines[2]]

    rewritten(opened(), splice)
    reader = opened()
    assert questions(reader)[-1] == "third"
    assert reader.health.bad == 1


def test_a_line_that_comes_twice_is_folded_once(opened: Open) -> None:
    filled(opened(), "one", "two")
    rewritten(opened(), lambda lines: [*lines, lines[0]])
    reader = opened()
    assert len(reader.catch_up()) == 2
    assert reader.health.bad == 1


def test_missing_lines_are_told(opened: Open) -> None:
    filled(opened(), "one", "two", "three")
    rewritten(opened(), lambda lines: [lines[0], lines[2]])
    reader = opened()
    assert questions(reader) == ["one", "three"]
    assert reader.health.bad == 1
    assert "missing" in verify(reader.path.parent).odd[0][1]


def test_damage_explains_only_the_gap_that_follows_it(opened: Open) -> None:
    lines = filled(opened(), "one", "two", "three", "four").splitlines(keepends=True)
    replay = Replay()
    for block in (lines[0], b"damage\n", lines[1], lines[3]):
        replay.feed(block)
    assert (replay.lines, replay.bad, replay.seq) == (4, 2, 4)


def test_blank_lines_are_nothing(opened: Open) -> None:
    filled(opened(), "one", "two")
    rewritten(opened(), lambda lines: [b"\n", lines[0], b"\n\n", lines[1], b"  \n"])
    reader = opened()
    assert len(reader.catch_up()) == 2
    assert (reader.health.lines, reader.health.bad, reader.health.torn) == (2, 0, False)


def test_an_illegal_fact_in_the_file_is_skipped_and_counted(opened: Open) -> None:
    filled(opened(), "one", "two")
    answer = upcast.encode(
        FrontierClosed(v=1, seq=3, at=datetime.now(UTC), writer="cli", question="never asked", answer="no")
    )
    rewritten(opened(), lambda lines: [*lines, answer])
    reader = opened()
    assert questions(reader) == ["one", "two"]
    assert (reader.health.illegal, reader.health.bad) == (1, 0)
    assert reader.append(asks("three"), writer="cli").seq == 4
    assert opened().health.illegal == 1
    assert verify(reader.path.parent).exit_code == 1


@pytest.mark.parametrize(
    "newer",
    [
        b'{"type":"moon.landed","v":1,"seq":2,"at":"2030-01-01T00:00:00Z","writer":"robot","who":["a"]}\n',
        b'{"type":"frontier.added","v":9,"seq":2,"ask":"differently"}\n',
        b'{"type":"frontier.added","v":2,"seq":2,"at":"2030-01-01T00:00:00Z","writer":"cli","question":"q","from":"p"}\n',
    ],
)
def test_what_a_later_version_wrote_is_kept_counted_and_never_fatal(opened: Open, newer: bytes) -> None:
    filled(opened(), "one", "two", "three")
    rewritten(opened(), lambda lines: [lines[0], newer, lines[2]])
    reader = opened()
    assert questions(reader) == ["one", "three"]
    assert (reader.health.unknown, reader.health.bad, reader.health.lines) == (1, 0, 3)
    assert reader.append(asks("four"), writer="cli").seq == 4
    assert newer in reader.path.read_bytes()
    assert verify(reader.path.parent).exit_code == 0
    assert next(iter(reader.show(since_seq=1))) == newer


def test_a_line_over_the_limit_is_damage_and_is_not_held_in_memory(opened: Open, folder: Path) -> None:
    content = filled(opened(), "one", "x" * 3_000_000, "three")
    first = content.index(b"\n") + 1
    for longest, expected in ((4 << 20, 3), (1 << 20, 2)):
        lines = Lines(folder / NAME, longest_bytes=longest)
        blocks = list(lines.more())
        lines.close()
        read = [upcast.decode(line) for block in blocks for line in block.splitlines()]
        assert len(read) == 3
        assert sum(not isinstance(d, upcast.Damaged) for d in read) == expected
        assert (lines.offset, lines.torn) == (len(content), False)
        assert b"".join(blocks).startswith(content[:first])
        assert (b"too long to be read" in b"".join(blocks)) == (expected == 2)
    assert isinstance(upcast.decode(b"{" + b" " * upcast.LONGEST_BYTES), upcast.Damaged)


def test_a_fact_over_the_limit_is_not_written(ledger: FileLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upcast, "LONGEST_BYTES", 1000)
    with pytest.raises(Illegal, match="over 1000"):
        ledger.append(asks("x" * 2000), writer="cli")
    assert not ledger.path.exists() or not ledger.path.read_bytes()


def test_lines_are_the_same_whatever_the_size_of_a_block(
    opened: Open, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = filled(opened(), *(f"q{n}" * (n * 7 % 30 + 1) for n in range(30)))
    for size in (1, 7, 100, 333, 4096):
        monkeypatch.setattr("orchconverge.files.BLOCK_BYTES", size)
        lines = Lines(folder / NAME)
        assert b"".join(lines.more()) == content
        assert list(lines.more()) == []
        lines.close()
        assert len(opened().catch_up()) == 30


# --- show, backup, verify ---------------------------------------------------------------------------------------------


def test_show_gives_the_raw_lines_after_a_number(ledger: FileLedger) -> None:
    content = filled(ledger, "one", "two", "three").splitlines(keepends=True)
    assert list(ledger.show()) == content
    assert list(ledger.show(since_seq=2)) == content[2:]
    assert list(ledger.show(since_seq=3)) == []


def test_backups_are_whole_lines_and_the_newest_three_stay(ledger: FileLedger, folder: Path) -> None:
    contents = []
    for n in range(5):
        contents.append(filled(ledger, f"q{n}"))
        with ledger.path.open("ab") as file:
            file.write(b'{"torn')
        copy = ledger.backup()
        assert copy is not None
        assert ledger.path.read_bytes().startswith(copy.read_bytes())
        assert copy.read_bytes().endswith(b"\n")
    assert [p.name for p in sorted((folder / "backups").iterdir())] == [f"{n:012d}.{NAME}" for n in (3, 4, 5)]
    assert verify(folder).copies == ()
    assert ledger.backup() == copy


def test_a_backup_on_a_full_disk_is_no_error_and_leaves_nothing(ledger: FileLedger, folder: Path) -> None:
    filled(ledger, "one", "two")
    with no_file_over(100):
        assert ledger.backup() is None
    assert list((folder / "backups").iterdir()) == []


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda content: content.replace(b"two", b"2wo"), "differs from line 2"),
        (lambda content: content[: content.index(b"\n") + 1], "differs from line 2"),
        (lambda content: b"", "differs from line 1"),
    ],
)
def test_verify_sees_that_the_past_was_changed(
    ledger: FileLedger, folder: Path, damage: Callable[[bytes], bytes], says: str
) -> None:
    content = filled(ledger, "one", "two")
    assert ledger.backup() is not None
    assert verify(folder).exit_code == 0
    ledger.path.write_bytes(damage(content))
    audit = verify(folder)
    assert audit.exit_code == 1
    assert says in audit.copies[0]


def test_verify_sees_that_the_ledger_is_gone(ledger: FileLedger, folder: Path) -> None:
    filled(ledger, "one")
    assert ledger.backup() is not None
    ledger.path.unlink()
    assert verify(folder).exit_code == 1


# --- what processes share ---------------------------------------------------------------------------------------------


def test_a_folder_that_others_make_at_the_same_time_is_no_error(tmp_path: Path) -> None:
    own_folder(tmp_path / "a" / "b" / "c")
    own_folder(tmp_path / "a" / "b" / "c")
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o700


def test_a_forked_child_and_its_parent_exclude_each_other(opened: Open, ledger: FileLedger) -> None:
    filled(ledger, "one")
    child = os.fork()
    for n in range(100):
        ledger.append(asks(f"{'parent' if child else 'child'} {n}"), writer="cli")
    if not child:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    reader = opened()
    assert len(reader.catch_up()) == 201
    assert reader.health.bad == 0


def test_a_lock_whose_file_was_removed_between_two_appends_is_taken_on_the_new_file(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    one, two = OwnLock(path), OwnLock(path)
    assert one.take(wait_seconds=0)
    one.release()
    path.unlink()
    assert two.take(wait_seconds=0)
    assert not one.take(wait_seconds=0)
    two.close()
    assert one.take(wait_seconds=0)
    one.close()


def test_a_lock_that_is_held_for_a_moment_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    holder, taker = OwnLock(path), OwnLock(path)
    assert holder.take(wait_seconds=0)
    giving_back = threading.Timer(0.05, holder.release)
    giving_back.start()
    assert taker.take(wait_seconds=0)
    giving_back.join()
    for lock in (holder, taker):
        lock.close()


def test_descriptors_do_not_leak(ledger: FileLedger, folder: Path) -> None:
    filled(ledger, "one")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for n in range(50):
        ledger.append(asks(f"q{n}"), writer="cli")
        verify(folder)
        list(ledger.show())
    assert len(list(Path("/proc/self/fd").iterdir())) == before
