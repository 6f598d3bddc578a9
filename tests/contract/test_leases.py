"""What every kind of lock does, the file and the fake."""

from __future__ import annotations

import fcntl
import os
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchconverge.adapters.locks import FileLocks, lock_path
from orchconverge.errors import Failed, Refused
from orchconverge.ports import Leases
from tests.fakes.leases import Board, MemoryLeases

Open = Callable[[], Leases]
HOLD = """
import sys
from pathlib import Path
from orchconverge.adapters.locks import FileLocks
lease = FileLocks(Path(sys.argv[1])).take(sys.argv[2])
print("held" if lease else "not held", flush=True)
sys.stdin.read()
"""


@pytest.fixture(params=["file", "memory"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    if request.param == "memory":
        board = Board()
        return lambda: MemoryLeases(board)
    return lambda: FileLocks(tmp_path / "state")


@pytest.mark.parametrize("name", ["spawn", "lease/auth", "graft/feature/x", "graft/feature"])
def test_a_lock_has_one_holder(opened: Open, name: str) -> None:
    one, two = opened(), opened()
    assert one.held(name) is False
    lease = one.take(name)
    assert lease is not None
    assert (one.held(name), two.held(name)) == (True, True)
    assert two.take(name) is None
    assert one.take(name) is None
    lease.release()
    assert two.held(name) is False
    again = two.take(name)
    assert again is not None
    again.release()


def test_a_lock_given_back_twice_is_given_back_once(opened: Open) -> None:
    first = opened().take("spawn")
    assert first is not None
    first.release()
    second = opened().take("spawn")
    assert second is not None
    first.release()
    assert opened().held("spawn") is True
    second.release()


def test_different_names_are_different_locks(opened: Open) -> None:
    leases = opened()
    taken = [leases.take(n) for n in ("lease/a", "lease/b", "lease/a-b", "graft/a", "graft/a/b", "graft/a%2Fb", "a")]
    assert None not in taken
    for lease in taken:
        assert lease is not None
        lease.release()


# --- the files alone --------------------------------------------------------------------------------------------------


def hold(folder: Path, name: str) -> subprocess.Popen[str]:
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder), name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "held\n"
    return child


def test_a_killed_holder_holds_nothing(tmp_path: Path) -> None:
    child = hold(tmp_path, "lease/auth")
    leases = FileLocks(tmp_path)
    assert leases.held("lease/auth") is True
    assert leases.take("lease/auth") is None
    child.kill()
    child.communicate()
    assert leases.held("lease/auth") is False
    lease = leases.take("lease/auth")
    assert lease is not None
    lease.release()


def test_who_waits_is_told_once_and_gets_the_lock_when_it_is_free(tmp_path: Path) -> None:
    told: list[str] = []
    child = hold(tmp_path, "graft/main")
    assert child.stdin is not None

    def heard(text: str) -> None:
        told.append(text)
        assert child.stdin is not None
        child.stdin.close()

    with FileLocks(tmp_path, waiting=heard).take("graft/main", wait_seconds=30) or pytest.fail("not taken"):
        assert len(told) == 1
        assert "graft/main" in told[0]
    child.wait()
    assert child.stdout is not None
    child.stdout.close()


def test_a_wait_ends_when_it_is_over(tmp_path: Path) -> None:
    child = hold(tmp_path, "spawn")
    told: list[str] = []
    start = time.monotonic()
    assert FileLocks(tmp_path, waiting=told.append).take("spawn", wait_seconds=0.5) is None
    assert 0.5 <= time.monotonic() - start < 10
    assert told == []
    child.communicate()


def test_probes_never_make_a_free_lock_look_held(tmp_path: Path) -> None:
    leases, over = FileLocks(tmp_path), threading.Event()
    lease = leases.take("spawn")
    assert lease is not None
    lease.release()

    def probe() -> None:
        while not over.is_set():
            FileLocks(tmp_path).held("spawn")

    probers = [threading.Thread(target=probe) for _ in range(4)]
    for prober in probers:
        prober.start()
    try:
        for _ in range(200):
            lease = leases.take("spawn")
            assert lease is not None
            lease.release()
    finally:
        over.set()
        for prober in probers:
            prober.join()


def test_a_probe_makes_no_file(tmp_path: Path) -> None:
    assert FileLocks(tmp_path / "state").held("lease/auth") is False
    assert list(tmp_path.iterdir()) == []


def test_a_probe_that_cannot_tell_says_so(tmp_path: Path) -> None:
    (tmp_path / "locks").mkdir()
    (tmp_path / "locks" / "spawn").symlink_to(tmp_path / "elsewhere")
    assert FileLocks(tmp_path).held("spawn") is None
    with pytest.raises(Refused, match="symbolic link"):
        FileLocks(tmp_path).take("spawn")
    assert not (tmp_path / "elsewhere").exists()


def test_a_lock_that_cannot_be_made_says_where(tmp_path: Path) -> None:
    (tmp_path / "locks").write_text("a file where a folder should be")
    with pytest.raises((Failed, Refused), match="locks"):
        FileLocks(tmp_path).take("spawn")


def test_a_lock_whose_file_was_removed_is_taken_on_the_new_file(tmp_path: Path) -> None:
    old = FileLocks(tmp_path).take("spawn")
    assert old is not None
    (tmp_path / "locks" / "spawn").unlink()
    new = FileLocks(tmp_path).take("spawn")
    assert new is not None
    assert FileLocks(tmp_path).held("spawn") is True
    assert FileLocks(tmp_path).take("spawn") is None
    new.release()
    old.release()


def test_a_child_that_was_started_meanwhile_does_not_hold_the_lock(tmp_path: Path) -> None:
    lease = FileLocks(tmp_path).take("lease/auth")
    assert lease is not None
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, close_fds=False)
    lease.release()
    assert FileLocks(tmp_path).held("lease/auth") is False
    child.communicate(b"\n")


@pytest.mark.parametrize("umask", [0o000, 0o077, 0o777])
def test_lock_files_are_ours_alone_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        lease = FileLocks(tmp_path / "state").take("lease/auth")
    finally:
        os.umask(before)
    assert lease is not None
    lease.release()
    modes = {str(p.relative_to(tmp_path)): stat.S_IMODE(p.stat().st_mode) for p in tmp_path.rglob("*")}
    assert modes == {
        "state": 0o700,
        "state/locks": 0o700,
        "state/locks/lease": 0o700,
        "state/locks/lease/auth": 0o600,
    }


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), st.text(min_size=1))
def test_any_name_stays_in_its_folder(kind: str, rest: str) -> None:
    kind = kind.replace("/", "-")
    try:
        path = lock_path(Path("/locks"), f"{kind}/{rest}")
    except UnicodeEncodeError:
        return
    assert path.parent.parent == Path("/locks")
    assert not {path.name, path.parent.name} & {".", "..", ""}
    assert len(os.fsencode(path.name)) <= 255
    assert Path(os.path.normpath(path)) == path


@pytest.mark.parametrize("name", ["", "/x", "lease/"])
def test_a_name_without_a_kind_or_a_rest_is_no_lock(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="names no lock"):
        FileLocks(tmp_path).take(name)


def test_the_lock_is_a_flock_that_a_shell_can_see(tmp_path: Path) -> None:
    lease = FileLocks(tmp_path).take("spawn")
    assert lease is not None
    fd = os.open(tmp_path / "locks" / "spawn", os.O_RDWR)
    with pytest.raises(BlockingIOError):
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    lease.release()
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(fd)
