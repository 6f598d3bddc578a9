"""Signals reach exactly the process that is meant, whoever has its pid."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from msgspec.structs import replace

from orchconverge import processes
from orchconverge.adapters.host import SystemHost
from orchconverge.core.values import Process


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "600"], env={"MARK": "none"}) as process:
        yield process
        process.kill()


def of(process: subprocess.Popen[bytes]) -> Process:
    start = processes.started(process.pid)
    assert start is not None
    return Process(boot=processes.boot_id(), pid=process.pid, start=start)


def end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def test_this_process_is_known_and_alive() -> None:
    me = processes.me()
    assert (me.pid, me.boot) == (os.getpid(), Path("/proc/sys/kernel/random/boot_id").read_text().strip())
    assert me.start == processes.started(os.getpid()) != 0
    assert processes.alive(me)
    assert SystemHost(()).identity()[1] == me


def test_a_process_is_read_right_whatever_it_calls_itself(tmp_path: Path) -> None:
    program = tmp_path / "a) R 1 (b"
    program.write_bytes(Path("/bin/sleep").read_bytes())
    program.chmod(0o700)
    with subprocess.Popen([program, "60"]) as sleeper:
        assert processes.alive(of(sleeper))
        assert (processes.started(sleeper.pid) or 0) >= processes.me().start
        sleeper.kill()


@pytest.mark.parametrize("change", [{"boot": "another"}, {"boot": ""}, {"start": 1}])
def test_another_boot_or_start_is_another_process(sleeper: subprocess.Popen[bytes], change: dict[str, str]) -> None:
    other = replace(of(sleeper), **change)
    assert not processes.alive(other)
    assert processes.opened(other) is None
    assert not processes.send(other, signal.SIGKILL)
    assert not SystemHost(()).signal(other, signal.SIGKILL)
    assert sleeper.poll() is None


@pytest.mark.parametrize("pid", [0, -1, 2**22 + 1, 2**40, 2**70])
def test_a_pid_that_cannot_be_is_nobodys(pid: int) -> None:
    nobody = Process(boot=processes.boot_id(), pid=pid, start=0)
    assert processes.started(pid) is None
    assert not processes.alive(nobody)
    assert not processes.send(nobody, 0)


def test_a_signal_arrives_and_afterwards_there_is_nobody(sleeper: subprocess.Popen[bytes]) -> None:
    process = of(sleeper)
    assert processes.send(process, 0)
    handle = processes.opened(process)
    assert handle is not None
    assert SystemHost(()).signal(process, signal.SIGTERM)
    poller = select.poll()
    poller.register(handle, select.POLLIN)
    assert poller.poll(20_000)
    assert not processes.alive(process), "a zombie does not live"
    assert not processes.send(process, signal.SIGTERM)
    assert sleeper.wait() == -signal.SIGTERM
    assert processes.started(process.pid) is None
    processes.wait_for([handle], seconds=20)
    os.close(handle)


def test_no_handle_is_left_open(sleeper: subprocess.Popen[bytes]) -> None:
    process = of(sleeper)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        assert processes.send(process, 0)
        assert processes.opened(replace(process, start=1)) is None
        assert processes.sweep(f"NOBODY={uuid4().hex}", seconds=1.0) == processes.Swept(0, ())
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_waiting_for_one_that_stays_is_bounded(sleeper: subprocess.Popen[bytes]) -> None:
    handle = processes.opened(of(sleeper))
    assert handle is not None
    processes.wait_for([handle], seconds=0.05)
    assert sleeper.poll() is None
    os.close(handle)


def test_a_sweep_takes_exactly_those_with_the_entry(sleeper: subprocess.Popen[bytes]) -> None:
    value = uuid4().hex
    ones = [subprocess.Popen(["sleep", "600"], env={"MARK": value, "OTHER": "x"}) for _ in range(3)]
    near = [
        subprocess.Popen(["sleep", "600"], env=env)
        for env in ({"MARK": f"{value}0"}, {"XMARK": value}, {"OTHER": f"MARK={value}"})
    ]
    try:
        until = time.monotonic() + 10
        while not all(Path(f"/proc/{one.pid}/environ").read_bytes() for one in (*ones, *near)):
            assert time.monotonic() < until, "the kernel shows an environment a moment after exec has begun"
        assert sorted(processes.carriers(f"MARK={value}")) == sorted(one.pid for one in ones)
        assert processes.sweep(f"MARK={value}", seconds=20) == processes.Swept(killed=3, left=())
        assert [one.wait() for one in ones] == [-signal.SIGKILL] * 3
        assert [one.poll() for one in (*near, sleeper)] == [None] * 4
    finally:
        for one in (*ones, *near):
            end(one)


def test_a_sweep_neither_ends_nor_counts_the_sweeper() -> None:
    value = uuid4().hex
    program = (
        "import sys; from orchconverge import processes; print(processes.sweep(sys.argv[1], seconds=9), flush=True)"
    )
    argv = [sys.executable, "-c", program, f"MARK={value}"]
    root = Path(__file__).parents[2]
    done = subprocess.run(argv, env={"MARK": value}, cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout == "Swept(killed=0, left=())\n"
