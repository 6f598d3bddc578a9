"""What holds of every supervised run: of each `Supervisors`, then of the real one on real and hostile processes."""

import contextlib
import errno
import fcntl
import json
import os
import re
import select
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol, TypeVar
from uuid import uuid4

import pytest

from orchconverge import processes
from orchconverge.adapters import supervisors as adapter
from orchconverge.adapters.supervisors import COOKIE, Supervisors
from orchconverge.core.values import Process
from orchconverge.errors import Failed
from orchconverge.ports import Absent, Ended, Exit, Lost, Running, Spec, Starting, Unknown
from orchconverge.ports import Supervisors as Port

T = TypeVar("T")
PATH = "/usr/local/bin:/usr/bin:/bin"
MAX_RSS_KB = 15 * 1024


@pytest.fixture
def supervisors(tmp_path: Path) -> Supervisors:
    return Supervisors(tmp_path / "runs")


class Place(Protocol):
    """Runs that several controllers share. A fake gives its own: a table of programs, and time that passes in ``until``."""

    def controller(self) -> Port:
        """Another controller of the same runs; it knows nothing of what the others did but what they left."""

    def exits(self, code: int, *, says: str = "") -> tuple[str, ...]:
        """A program that prints a line and ends with this code."""

    def hangs(self) -> tuple[str, ...]:
        """A program that ends only if it is made to."""

    def until(self, controller: Port, name: str, kind: type[T]) -> T:
        """Let time pass until a probe answers this."""

    def lose(self, controller: Port, name: str) -> None:
        """End a supervisor that runs in such a way that it records nothing."""


class RealPlace:
    """The real one: a folder below the test's own, programs that are shell lines."""

    def __init__(self, root: Path, mark: str) -> None:
        self._root, self._mark = root, mark

    def controller(self) -> Supervisors:
        return Supervisors(self._root)

    def exits(self, code: int, *, says: str = "") -> tuple[str, ...]:
        return ("/bin/sh", "-c", f"printf '{says}'; exit {code}")

    def hangs(self) -> tuple[str, ...]:
        return ("/bin/sleep", self._mark)

    def until(self, controller: Port, name: str, kind: type[T]) -> T:
        deadline = time.monotonic() + 20
        while not isinstance(state := controller.probe(name), kind):
            assert time.monotonic() < deadline, state
            time.sleep(0.002)
        return state

    def lose(self, controller: Port, name: str) -> None:
        assert isinstance(controller, Supervisors)
        lose(controller, name)


@pytest.fixture
def real_place(tmp_path: Path, mark: str) -> RealPlace:
    return RealPlace(tmp_path / "runs", mark)


@pytest.fixture(params=["real"])
def place(request: pytest.FixtureRequest) -> Place:
    found: Place = request.getfixturevalue(f"{request.param}_place")
    return found


@pytest.fixture
def mark() -> Iterator[str]:
    """A number of seconds to sleep that no other process sleeps; none of those who do may be left."""
    seconds = f"6{uuid4().int % 10**9}"
    yield seconds
    assert sleepers(seconds) == []


def sleepers(mark: str) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if mark.encode() in path.read_bytes() and int(path.parent.name) != os.getpid():
                found.append(int(path.parent.name))
    return found


def has_open(pid: int, path: Path, *, to_write: bool = False) -> bool:
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            if link.readlink() == path and (link.lstat().st_mode & 0o200 or not to_write):
                return True
    return False


def prepare(supervisors: Port, name: str, script: str, **fields: Any) -> tuple[str, ...]:
    defaults: dict[str, Any] = {"cwd": Path("/"), "argv": ("/bin/sh", "-c", script), "env": {"PATH": PATH}}
    return supervisors.prepare(Spec(name=name, **{**defaults, **fields}))


def ended(supervisors: Supervisors, name: str) -> Exit:
    state = supervisors.probe(name)
    assert isinstance(state, Ended), state
    return state.exit


def run(supervisors: Supervisors, script: str, name: str = "a.1", **fields: Any) -> Exit:
    argv = prepare(supervisors, name, script, **fields)
    subprocess.run(argv, start_new_session=True, timeout=30, stderr=subprocess.PIPE)
    return ended(supervisors, name)


def logged(supervisors: Port, name: str) -> bytes:
    return supervisors.log(name, most_bytes=1 << 20)


def record(supervisors: Supervisors, tmp_path: Path, name: str = "a.1") -> dict[str, Any]:
    found = json.loads((tmp_path / "runs" / name / "exit.json").read_bytes())
    assert isinstance(found, dict)
    return found


class Gate:
    """A named pipe by which a child says that it got somewhere, or is let go on."""

    def __init__(self, tmp_path: Path) -> None:
        self.path = tmp_path / f"gate-{uuid4().hex}"
        os.mkfifo(self.path)
        self.say = f"echo x > {self.path}"
        self.hear = f"read x < {self.path}"

    def wait(self) -> None:
        self.path.read_bytes()

    def open(self) -> None:
        self.path.write_text("x\n")


@contextlib.contextmanager
def started(supervisors: Supervisors, gate: Gate, script: str, **fields: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A run that is known to have reached ``gate``; whatever is left of it is swept."""
    argv = prepare(supervisors, "a.1", script, **fields)
    with subprocess.Popen(argv, start_new_session=True) as process:
        try:
            gate.wait()
            yield process
            process.wait(timeout=20)
        finally:
            process.kill()
            supervisors.sweep(supervisors.cookie("a.1"))


def lose(supervisors: Supervisors, name: str) -> Running:
    """Kill a supervisor as the kernel does when memory is short: nothing is recorded."""
    state, handle = supervisors.probe(name), supervisors.pidfd(name)
    assert isinstance(state, Running)
    assert handle is not None
    assert processes.send(state.process, signal.SIGKILL)
    wait_for_pidfd(handle)
    return state


def wait_for_pidfd(handle: int) -> None:
    poller = select.poll()
    poller.register(handle, select.POLLIN)
    assert poller.poll(20_000)
    os.close(handle)


# every `Supervisors`


def begin(controller: Port, name: str, argv: Sequence[str]) -> None:
    controller.launch(prepare(controller, name, "", argv=tuple(argv)))


def test_a_name_is_absent_then_starting_then_running_then_ended(place: Place) -> None:
    controller = place.controller()
    assert controller.probe("minds/auth.1") == Absent()
    argv = prepare(controller, "minds/auth.1", "", argv=place.exits(3, says="hello"))
    assert controller.probe("minds/auth.1") == Starting()
    controller.launch(argv)
    found = place.until(controller, "minds/auth.1", Ended)
    assert (found.exit.reason, found.exit.code, found.exit.signal, found.exit.error) == ("exited", 3, None, "")
    assert controller.log("minds/auth.1", most_bytes=100) == b"hello"
    assert place.controller().probe("minds/auth.1") == found


def test_a_name_is_prepared_again_until_it_runs_and_never_after(place: Place) -> None:
    controller = place.controller()
    prepare(controller, "minds/auth.1", "", argv=place.exits(1))
    begin(controller, "minds/auth.1", place.hangs())
    running = place.until(controller, "minds/auth.1", Running)
    with pytest.raises(Failed):
        prepare(controller, "minds/auth.1", "", argv=place.exits(1))
    assert controller.probe("minds/auth.1") == running
    assert controller.stop("minds/auth.1")
    place.until(controller, "minds/auth.1", Ended)
    with pytest.raises(Failed):
        prepare(place.controller(), "minds/auth.1", "", argv=place.exits(1))


def test_what_is_stopped_ended_as_killed_and_asking_again_or_for_nothing_is_harmless(place: Place) -> None:
    controller = place.controller()
    begin(controller, "checks/auth.0a", place.hangs())
    place.until(controller, "checks/auth.0a", Running)
    assert place.controller().stop("checks/auth.0a")
    assert place.until(controller, "checks/auth.0a", Ended).exit.reason == "killed"
    for name in ("checks/auth.0a", "checks/none.0a"):
        assert controller.stop(name)
        assert controller.kill(name)
    assert controller.probe("checks/none.0a") == Absent()


def test_what_is_killed_at_once_is_lost(place: Place) -> None:
    controller = place.controller()
    begin(controller, "checks/auth.0a", place.hangs())
    place.until(controller, "checks/auth.0a", Running)
    assert controller.kill("checks/auth.0a")
    place.until(controller, "checks/auth.0a", Lost)


def test_a_lost_name_is_prepared_again_and_runs_with_nothing_of_what_was_there(place: Place) -> None:
    controller = place.controller()
    begin(controller, "checks/auth.0a", place.hangs())
    place.until(controller, "checks/auth.0a", Running)
    controller.put("checks/auth.0a", "junit.xml", b"old")
    for code in (4, 5):
        place.lose(controller, "checks/auth.0a")
        place.until(
            place.controller(), "checks/auth.0a", Lost
        )  # a child that is just becoming the program is still dying
        begin(controller, "checks/auth.0a", place.hangs())
        place.until(controller, "checks/auth.0a", Running)
        assert controller.get("checks/auth.0a", "junit.xml") is None
        controller.put("checks/auth.0a", "junit.xml", b"%d" % code)
    assert controller.found("checks/auth.") == ["checks/auth.0a"]
    place.lose(controller, "checks/auth.0a")
    place.until(controller, "checks/auth.0a", Lost)
    begin(controller, "checks/auth.0a", place.exits(6))
    assert place.until(controller, "checks/auth.0a", Ended).exit.code == 6


def test_what_another_controller_prepared_and_never_started_is_absent_and_can_be_started(place: Place) -> None:
    other, controller = place.controller(), place.controller()
    prepare(other, "minds/auth.1", "", argv=place.exits(1))
    assert other.probe("minds/auth.1") == Starting()
    assert controller.probe("minds/auth.1") == Absent()
    begin(controller, "minds/auth.1", place.exits(2))
    assert place.until(controller, "minds/auth.1", Ended).exit.code == 2
    assert place.until(other, "minds/auth.1", Ended).exit.code == 2


def test_what_another_controller_prepared_is_withdrawn_by_a_stop(place: Place) -> None:
    other, controller = place.controller(), place.controller()
    argv = prepare(other, "minds/auth.1", "", argv=place.exits(1))
    assert controller.stop("minds/auth.1")
    assert other.probe("minds/auth.1") == controller.probe("minds/auth.1") == Absent()
    other.launch(argv)
    begin(controller, "minds/auth.1", place.exits(2))
    assert place.until(controller, "minds/auth.1", Ended).exit.code == 2


def test_names_are_found_by_their_beginning_in_order(place: Place) -> None:
    controller = place.controller()
    assert controller.found("checks/") == []
    for name in ("checks/auth.0b", "checks/auth.0a", "checks/auth-2.0a", "checks/authx.0a", "minds/auth.1"):
        prepare(controller, name, "", argv=place.exits(0))
    assert list(controller.found("checks/auth.")) == ["checks/auth.0a", "checks/auth.0b"]
    assert list(place.controller().found("checks/auth-2.")) == ["checks/auth-2.0a"]
    assert list(controller.found("minds/")) == ["minds/auth.1"]
    assert list(controller.found("steps/")) == []


def test_small_files_are_kept_in_the_folder_of_a_name_before_and_after_it_runs(place: Place) -> None:
    controller = place.controller()
    assert controller.get("minds/auth.1", "brief.md") is None
    path = controller.put("minds/auth.1", "brief.md", b"first")
    assert path == controller.folder("minds/auth.1") / "brief.md"
    controller.put("minds/auth.1", "brief.md", b"\x00\xff" * 10)
    begin(controller, "minds/auth.1", place.exits(0))
    place.until(controller, "minds/auth.1", Ended)
    other = place.controller()
    assert other.get("minds/auth.1", "brief.md") == b"\x00\xff" * 10
    assert other.get("minds/auth.1", "brief.md", most_bytes=3) == b"\x00\xff\x00"
    assert other.get("minds/auth.1", "none") is None
    assert other.get("minds/auth.2", "brief.md") is None


# the end


@pytest.mark.parametrize(
    ("script", "code", "number"), [("exit 0", 0, None), ("exit 75", 75, None), ("kill -9 $$", None, 9)]
)
def test_the_programs_own_end_is_recorded(supervisors: Supervisors, script: str, code: int, number: int) -> None:
    end = run(supervisors, script)
    assert (end.reason, end.code, end.signal, end.error, end.leftover, end.survivors) == (
        "exited",
        code,
        number,
        "",
        (),
        (),
    )
    assert 0 < end.seconds < 5
    assert abs(end.ended_at - time.time()) < 30


def test_b73_two_hundred_fast_exits_are_all_seen_with_their_codes(supervisors: Supervisors) -> None:
    codes = {f"a.{n}": n % 120 for n in range(200)}
    names = list(codes)
    for batch in (names[start : start + 8] for start in range(0, 200, 8)):
        running = []
        for name in batch:
            argv = prepare(supervisors, name, "", argv=("/bin/sh", "-c", f"exit {codes[name]}"))
            running.append(subprocess.Popen(argv, start_new_session=True))
        for process in running:
            process.wait(timeout=20)
    assert {name: ended(supervisors, name).code for name in names} == codes


def test_the_deadline_holds_and_a_program_that_obeys_keeps_its_code(supervisors: Supervisors, mark: str) -> None:
    end = run(supervisors, f"trap 'exit 7' TERM; sleep {mark} & wait", deadline_seconds=0.2)
    assert (end.reason, end.code, end.idle) == ("deadline", 7, False)
    assert 0.2 <= end.seconds < 1.2


def test_b79_a_program_that_ignores_term_and_prints_for_ever_is_killed_after_the_grace(
    supervisors: Supervisors,
) -> None:
    end = run(
        supervisors,
        "trap '' TERM; yes",
        deadline_seconds=0.2,
        grace_seconds=0.3,
        head_bytes=1 << 20,
        tail_bytes=1 << 20,
    )
    assert (end.reason, end.code, end.signal, end.truncated) == ("deadline", None, 9, True)
    assert 0.4 < end.seconds < 3


def test_nothing_that_the_program_started_survives_it(supervisors: Supervisors, tmp_path: Path, mark: str) -> None:
    ready = Gate(tmp_path)
    script = f"""
        setsid sleep {mark} & nohup sleep {mark} & sh -c '(setsid sleep {mark} &)' ; env -i /usr/bin/setsid /bin/sleep {mark} &
        sh -c 'trap "" TERM HUP INT; echo deaf > {ready.path}.deaf; sleep {mark}; sleep {mark}' &
        sleep {mark} & kill -STOP $! ; read x < {ready.path}.deaf; exit 9
    """
    os.mkfifo(f"{ready.path}.deaf")
    end = run(supervisors, script)
    assert (end.reason, end.code, end.survivors) == ("exited", 9, ())
    assert len(end.leftover) >= 6
    assert {program.partition(" (")[0] for program in end.leftover} >= {"sleep", "sh"}
    assert all(re.fullmatch(r"\w+ \(\d+\)", program) for program in end.leftover)
    assert sleepers(mark) == []


def test_b65_a_background_child_that_holds_stdout_open_delays_nothing(supervisors: Supervisors, mark: str) -> None:
    before = time.monotonic()
    end = run(supervisors, f"echo done; sleep {mark} &")
    assert time.monotonic() - before < 2
    assert (end.code, end.bytes) == (0, 5)


def test_a_thousand_daemons_are_gone_with_the_program(supervisors: Supervisors, mark: str) -> None:
    script = f"import os\nfor n in range(300):\n if os.fork() == 0:\n  os.setsid(); os.execv('/bin/sleep', ['sleep', '{mark}'])\n"
    end = run(supervisors, "", argv=(sys.executable, "-I", "-S", "-c", script))
    assert (end.reason, end.code, end.survivors) == ("exited", 0, ())


def test_stop_ends_the_tree_and_says_killed(supervisors: Supervisors, tmp_path: Path, mark: str) -> None:
    gate = Gate(tmp_path)
    with started(supervisors, gate, f"(setsid sleep {mark} &); trap 'exit 3' TERM; sleep {mark} & {gate.say}; wait"):
        handle = supervisors.pidfd("a.1")
        assert handle is not None
        assert supervisors.stop("a.1")
        wait_for_pidfd(handle)
        end = ended(supervisors, "a.1")  # durable once the handle says that the supervisor is gone
    assert (end.reason, end.code) == ("killed", 3)
    assert supervisors.stop("a.1")  # B85: asking again is harmless


def test_b81_a_hang_up_is_noted_and_changes_nothing(supervisors: Supervisors, tmp_path: Path) -> None:
    gate, go = Gate(tmp_path), Gate(tmp_path)
    with started(supervisors, gate, f"{gate.say}; {go.hear}; exit 6") as process:
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGINT)
        go.open()
    assert ended(supervisors, "a.1").code == 6
    assert record(supervisors, tmp_path)["hangups"] == 1


# hanging


def test_b64_after_the_final_result_the_tree_is_given_a_while_and_then_ended(
    supervisors: Supervisors, mark: str
) -> None:
    script = f"""printf '{{"type":"assistant"}}\\n{{"type":"result","subtype":"success"}}\\n'; sleep {mark}"""
    end = run(supervisors, script, linger_seconds=0.2)
    assert (end.reason, end.code, end.signal, end.lingered) == ("exited", None, None, True)
    assert end.seconds >= 0.2


def test_b64_a_program_that_ends_by_itself_after_its_result_keeps_its_code(supervisors: Supervisors) -> None:
    end = run(supervisors, """echo '{"type":"result"}'; exit 4""", linger_seconds=5.0)
    assert (end.reason, end.code, end.lingered) == ("exited", 4, False)


def test_b64_more_work_after_a_result_is_not_cut_off(supervisors: Supervisors, tmp_path: Path) -> None:
    gate, go = Gate(tmp_path), Gate(tmp_path)
    script = f"""printf '{{"type":"result"}}\\n{{"type":"assi'; printf 'stant"}}\\n'; {gate.say}; {go.hear}; exit 5"""
    with started(supervisors, gate, script, linger_seconds=0.1) as process:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=0.4)
        go.open()
    assert ended(supervisors, "a.1").code == 5


def test_b64_a_result_elsewhere_than_at_the_start_of_a_line_is_not_the_final_one(supervisors: Supervisors) -> None:
    end = run(supervisors, """echo 'x {"type":"result"}'; exec sleep 0.4""", linger_seconds=0.1)
    assert (end.code, end.lingered) == (0, False)


@pytest.mark.parametrize("stopped", [False, True])
def test_b60_b61_silence_without_work_is_a_hang(supervisors: Supervisors, stopped: bool, mark: str) -> None:
    script = "kill -STOP $$" if stopped else f"echo started; exec sleep {mark}"
    end = run(supervisors, script, idle_seconds=0.4)
    assert (end.reason, end.idle) == ("deadline", True)
    assert end.seconds < 2


def test_b60_silence_with_work_is_not_a_hang(supervisors: Supervisors) -> None:
    end = run(supervisors, "while :; do :; done", idle_seconds=0.3, deadline_seconds=1.0, grace_seconds=0.1)
    assert (end.reason, end.idle) == ("deadline", False)
    assert end.seconds >= 1.0


# output


def test_b78_fifty_megabytes_and_one_endless_line_stay_within_memory_and_caps(
    supervisors: Supervisors, tmp_path: Path
) -> None:
    script = "head -c 26000000 /dev/zero | tr '\\0' 'x'; yes '{\"type\":\"assistant\"}' | head -c 30000000"
    end = run(supervisors, script, head_bytes=20 << 20, tail_bytes=4 << 20, linger_seconds=5.0)
    assert (end.code, end.bytes, end.truncated) == (0, 56_000_000, True)
    sizes = {path.name: path.stat().st_size for path in (tmp_path / "runs" / "a.1").glob("log.*")}
    assert sizes.pop("log.head") == 20 << 20
    assert len(sizes) == 2
    assert 4 << 20 < sum(sizes.values()) <= 8 << 20
    assert record(supervisors, tmp_path)["hwm_kb"] <= MAX_RSS_KB


def test_the_log_is_read_whole_or_as_its_beginning_and_its_newest_end(supervisors: Supervisors) -> None:
    lines = "".join(f"line {n}\n" for n in range(3000))
    script = "i=0; while [ $i -lt 3000 ]; do echo line $i; i=$((i+1)); done"
    run(supervisors, script, "a.1")
    run(supervisors, script, "a.2", head_bytes=1000, tail_bytes=100_000)
    run(supervisors, script, "a.3", head_bytes=1000, tail_bytes=1000)
    assert logged(supervisors, "a.1").decode() == logged(supervisors, "a.2").decode() == lines
    for name in ("a.1", "a.2", "a.3"):
        begin, between, end = (
            supervisors.log(name, most_bytes=2000).decode().partition("\n[orchconverge: output is left out here]\n")
        )
        assert between
        assert len(begin) == 1000
        assert len(end) <= 1000
        assert lines.startswith(begin)
        assert lines.endswith(end)
        assert re.fullmatch(r"(line \d+\n)+", end)
    assert logged(supervisors, "a.9") == b""


def test_b177_a_full_disk_stops_neither_the_program_nor_its_record(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    script = f"""
        mount -t tmpfs -o size=1m tmpfs {disk} && {sys.executable} -c '
import json, subprocess, sys
from pathlib import Path
from orchconverge.adapters.supervisors import Supervisors
from orchconverge.ports import Spec
s = Supervisors(Path("{disk}/runs"))
full = "head -c 3000000 /dev/zero; rm {disk}/runs/a.1/log.head; echo again; exit 8"
argv = s.prepare(Spec(name="a.1", cwd=Path("/"), argv=("/bin/sh", "-c", full), env={{"PATH": "{PATH}"}}))
subprocess.run(argv, check=False)
print(json.dumps(json.loads(Path("{disk}/runs/a.1/exit.json").read_bytes())))'
    """
    done = subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True, cwd=Path(__file__).parents[2])
    if b"unshare" in done.stderr or b"mount:" in done.stderr:
        pytest.skip("mounting is not allowed here")
    end = json.loads(done.stdout)
    assert (end["code"], end["bytes"], end["truncated"], end["log_error"]) == (8, 3_000_006, True, "ENOSPC")


def test_a_limit_on_file_sizes_stops_neither_the_program_nor_its_record(
    supervisors: Supervisors, tmp_path: Path
) -> None:
    argv = prepare(supervisors, "a.1", "head -c 500000 /dev/zero; exit 8")
    limit = 100_000
    subprocess.run(["prlimit", f"--fsize={limit}:{limit}", *argv], timeout=20)
    end = record(supervisors, tmp_path)
    assert (end["code"], end["bytes"], end["truncated"], end["log_error"]) == (8, 500_000, True, "EFBIG")


# what the program is given


def test_b45_stdin_arrives_byte_for_byte(supervisors: Supervisors, tmp_path: Path) -> None:
    brief = tmp_path / "brief.md"
    brief.write_bytes(b"`touch x` $(id) \"'\\\n\x00\xff\xfe\r\n" * 9000)
    end = run(supervisors, "cat", stdin=brief)
    assert end.code == 0
    assert logged(supervisors, "a.1") == brief.read_bytes()


def test_b61_without_stdin_the_program_reads_the_end_at_once(supervisors: Supervisors) -> None:
    assert run(supervisors, "read x; test $? = 1").code == 0


def test_the_program_is_given_exactly_the_environment_and_nothing_of_ours(supervisors: Supervisors) -> None:
    env = {"PATH": PATH, "A B": "ü \n = '", "RAW": os.fsdecode(b"\xff\xfe"), COOKIE: "another's"}
    look = """
import json, os
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
print(json.dumps({
    "env": sorted(open("/proc/self/environ", "rb").read().decode("utf-8", "surrogateescape").split("\\0")[:-1]),
    "fds": sorted(os.listdir("/proc/self/fd"))[:3], "more": len(os.listdir("/proc/self/fd")) - 4,
    "ignored": int(status["SigIgn"], 16) & ~(1 << 12 | 1 << 24), "blocked": int(status["SigBlk"], 16),
    "leads": os.getsid(0) == os.getpid(), "cwd": os.getcwd(), "umask": os.umask(0), "argv": __import__("sys").argv[1:],
}))
try:
    os.open("/dev/tty", os.O_RDWR)
except OSError:
    print("no terminal")
"""
    words = ["a b", "", "$(id)", "ü", os.fsdecode(b"\xfe")]
    argv = prepare(
        supervisors,
        "a.1",
        "",
        argv=(sys.executable, "-I", "-S", "-X", "utf8", "-c", look, *words),
        env=env,
        cwd=Path("/tmp"),
    )
    leaked = os.open("/", os.O_RDONLY)
    previous = os.umask(0o027)
    try:
        subprocess.run(argv, start_new_session=True, pass_fds=(leaked,), timeout=20)
    finally:
        os.umask(previous)
        os.close(leaked)
    seen, tty = logged(supervisors, "a.1").splitlines()
    assert tty == b"no terminal"
    assert json.loads(seen) == {
        "env": sorted(f"{key}={value}" for key, value in {**env, COOKIE: supervisors.cookie("a.1")}.items()),
        "fds": ["0", "1", "2"],
        "more": 0,
        "ignored": 0,
        "blocked": 0,
        "leads": True,
        "cwd": "/tmp",
        "umask": 0o027,
        "argv": words,
    }


def test_b49_any_path_will_do(tmp_path: Path) -> None:
    folder = tmp_path / "my 'own' \"h\nome\" $(id) ü"
    folder.mkdir()
    (folder / "in").write_text("brief")
    supervisors = Supervisors(folder / "runs")
    assert run(supervisors, "cat; pwd > where", cwd=folder, stdin=folder / "in").code == 0
    assert (folder / "where").read_text() == f"{folder}\n"
    assert logged(supervisors, "a.1") == b"brief"


# what is refused


def test_a_program_that_cannot_be_executed_is_127_with_a_reason(supervisors: Supervisors, tmp_path: Path) -> None:
    end = run(supervisors, "", argv=("no-such-program",))
    assert (end.reason, end.code, end.error) == ("exited", 127, "cannot run no-such-program: No such file or directory")
    plain = tmp_path / "plain"
    plain.write_text("text")
    assert run(supervisors, "", "a.2", argv=(str(plain),)).code == 127


@pytest.mark.parametrize(
    "fields",
    [{"cwd": Path("/no/such/place")}, {"branch": "main"}, {"stdin": Path("/no/such/file")}],
    ids=["cwd", "branch", "stdin"],
)
def test_b33_a_place_that_is_not_as_promised_is_refused_and_nothing_started(
    supervisors: Supervisors, tmp_path: Path, fields: dict[str, Any]
) -> None:
    end = run(supervisors, f"touch {tmp_path}/ran", **fields)
    assert (end.reason, end.code, end.signal) == ("refused", None, None)
    assert "/no/such" in end.error or "/.git" in end.error
    assert not (tmp_path / "ran").exists()


def test_a_second_supervisor_is_refused_while_the_first_runs_and_after_its_end(
    supervisors: Supervisors, tmp_path: Path
) -> None:
    gate, go = Gate(tmp_path), Gate(tmp_path)
    with started(supervisors, gate, f"{gate.say}; {go.hear}") as process:
        argv = [str(word) for word in process.args]  # type: ignore[union-attr]
        assert subprocess.run(argv, stderr=subprocess.PIPE).returncode == 75
        with pytest.raises(Failed):
            prepare(supervisors, "a.1", "true")
        go.open()
    before = sorted((path.name, path.stat().st_mtime_ns) for path in (tmp_path / "runs" / "a.1").iterdir())
    assert subprocess.run(argv, stderr=subprocess.PIPE).returncode == 76
    assert sorted((path.name, path.stat().st_mtime_ns) for path in (tmp_path / "runs" / "a.1").iterdir()) == before
    with pytest.raises(Failed):
        prepare(supervisors, "a.1", "true")


def test_b88_b94_of_many_starts_of_one_name_one_runs(supervisors: Supervisors, tmp_path: Path) -> None:
    argv = prepare(supervisors, "a.1", f"echo ran >> {tmp_path}/count; exec sleep 0.1")
    other = Supervisors(tmp_path / "runs")
    assert prepare(other, "a.1", f"echo ran >> {tmp_path}/count; exec sleep 0.1") == argv
    racers = [subprocess.Popen(argv, start_new_session=True, stderr=subprocess.DEVNULL) for _ in range(6)]
    codes = sorted(racer.wait(timeout=20) for racer in racers)
    assert (tmp_path / "count").read_text() == "ran\n"
    assert codes[0] == 0
    assert set(codes[1:]) <= {75, 76}


def test_probers_do_not_keep_a_supervisor_from_starting(supervisors: Supervisors) -> None:
    argv = prepare(supervisors, "a.1", "exit 0")
    with subprocess.Popen(argv, start_new_session=True) as process:
        states = set()
        while process.poll() is None:
            states.add(type(supervisors.probe("a.1")))
    assert states <= {Starting, Running, Ended}
    assert ended(supervisors, "a.1").code == 0


# the folder


def test_b181_the_folder_is_private_and_the_environment_does_not_stay_there(
    supervisors: Supervisors, tmp_path: Path
) -> None:
    folder = tmp_path / "runs" / "a.1"
    previous = os.umask(0)
    try:
        argv = prepare(supervisors, "a.1", "true", env={"PATH": PATH, "TOKEN": "secret"})
        assert (folder / "spec.json").stat().st_mode & 0o777 == 0o600
        subprocess.run(argv, start_new_session=True, timeout=20)
    finally:
        os.umask(previous)
    assert folder.stat().st_mode & 0o777 == folder.parent.stat().st_mode & 0o777 == 0o700
    assert {path.name for path in folder.iterdir()} == {"lock", "running.json", "exit.json", "log.head"}
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    assert not [path for path in folder.iterdir() if b"secret" in path.read_bytes()]


@pytest.mark.parametrize(
    "name", ["", ".", "..", "A/b", "a/b/c", "/b", "a/", "a/..", "a/.b", "../x", "a\0b", "-x", "a b", "x" * 200]
)
def test_only_plain_names_are_folders(supervisors: Supervisors, name: str) -> None:
    with pytest.raises(ValueError, match="cannot be the name"):
        prepare(supervisors, name, "true")
    with pytest.raises(ValueError, match="cannot be the name"):
        supervisors.probe(name)


def test_b183_a_link_in_the_place_of_the_folder_is_refused(supervisors: Supervisors, tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "runs" / "a.1").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PermissionError):
        prepare(supervisors, "a.1", "true")


@pytest.mark.parametrize("kind", ["link", "dangling", "pipe", "folder"])
def test_what_is_no_regular_file_is_neither_read_nor_written_through(
    supervisors: Supervisors, tmp_path: Path, kind: str
) -> None:
    secret = tmp_path / "secret"
    if kind != "dangling":
        secret.write_text("kept")
    path = supervisors.folder("minds/a.1") / "report.json"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(secret)
    assert supervisors.get("minds/a.1", "report.json") is None
    if kind == "folder":
        with pytest.raises(IsADirectoryError):
            supervisors.put("minds/a.1", "report.json", b"ours")
        assert [file.name for file in path.parent.iterdir()] == ["report.json"]
        return
    supervisors.put("minds/a.1", "report.json", b"ours")
    assert supervisors.get("minds/a.1", "report.json") == b"ours"
    assert (secret.read_text() == "kept") if kind != "dangling" else not secret.exists()
    assert stat.S_IMODE((supervisors.folder("minds/a.1") / "report.json").lstat().st_mode) == 0o600
    assert {path.name for path in supervisors.folder("minds/a.1").iterdir()} == {"report.json"}


def test_reading_what_is_no_regular_file_leaves_nothing_open(supervisors: Supervisors) -> None:
    (supervisors.folder("minds/a.1") / "report.json").mkdir()
    os.mkfifo(supervisors.folder("minds/a.1") / "exit.json")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        assert supervisors.get("minds/a.1", "report.json") is None
        assert isinstance(supervisors.probe("minds/a.1"), Lost)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.parametrize("odd", ["link", "pipe", "name"])
def test_a_log_that_no_supervisor_writes_is_empty_and_waits_for_nobody(
    supervisors: Supervisors, tmp_path: Path, odd: str
) -> None:
    run(supervisors, "echo x")
    head = tmp_path / "runs" / "a.1" / "log.head"
    if odd == "name":
        head.with_name("log.tail.x").touch()
    else:
        head.unlink()
        if odd == "pipe":
            os.mkfifo(head)
        else:
            head.symlink_to("/etc/passwd")
    assert logged(supervisors, "a.1") == b""


def test_only_folders_with_a_possible_name_are_found(supervisors: Supervisors, tmp_path: Path) -> None:
    prepare(supervisors, "checks/auth.0a", "true")
    (tmp_path / "runs" / "checks" / "auth.0b").write_text("a file")
    (tmp_path / "runs" / "checks" / "auth.0c").symlink_to(tmp_path)
    (tmp_path / "runs" / "checks" / "auth. 0d").mkdir()
    assert supervisors.found("checks/auth.") == ["checks/auth.0a"]


def test_the_folder_of_a_lost_run_is_kept_beside_the_new_one(supervisors: Supervisors, tmp_path: Path) -> None:
    for code in (1, 2):
        gate, go = Gate(tmp_path), Gate(tmp_path)
        supervisors.launch(prepare(supervisors, "minds/a.1", f"echo said {code}; {gate.say}; {go.hear}"))
        gate.wait()
        supervisors.put("minds/a.1", "report.json", b"%d" % code)
        deadline = time.monotonic() + 20
        while not logged(supervisors, "minds/a.1"):
            assert time.monotonic() < deadline
        lose(supervisors, "minds/a.1")
    assert run(supervisors, "exit 3", "minds/a.1").code == 3
    minds = tmp_path / "runs" / "minds"
    assert sorted(path.name for path in minds.iterdir()) == ["a.1", "a.1.lost.1", "a.1.lost.2"]
    for code in (1, 2):
        kept = minds / f"a.1.lost.{code}"
        assert (kept / "report.json").read_text() == f"{code}"
        assert (kept / "log.head").read_text() == f"said {code}\n"
    assert supervisors.get("minds/a.1", "report.json") is None


# probing


def test_a_run_is_absent_starting_running_and_ended(supervisors: Supervisors, tmp_path: Path) -> None:
    assert supervisors.probe("a.1") == Absent()
    assert supervisors.pidfd("a.1") is None
    gate, go = Gate(tmp_path), Gate(tmp_path)
    argv = prepare(supervisors, "a.1", f"{gate.say}; {go.hear}")
    assert supervisors.probe("a.1") == Starting()
    supervisors.launch(argv)
    gate.wait()
    state = supervisors.probe("a.1")
    assert isinstance(state, Running)
    assert os.getsid(state.process.pid) == state.process.pid
    handle = supervisors.pidfd("a.1")
    assert handle is not None
    go.open()
    wait_for_pidfd(handle)
    assert ended(supervisors, "a.1").code == 0
    assert not Path(f"/proc/{state.process.pid}").exists()  # and no zombie of ours is left
    assert supervisors.pidfd("a.1") is None


def test_b91_a_start_that_was_lost_can_be_made_again(supervisors: Supervisors) -> None:
    prepare(supervisors, "a.1", "exit 1")
    assert supervisors.probe("a.1") == Starting()
    assert run(supervisors, "exit 2").code == 2


def test_b91_a_start_that_takes_too_long_counts_as_lost(
    supervisors: Supervisors, monkeypatch: pytest.MonkeyPatch
) -> None:
    argv = prepare(supervisors, "a.1", "exit 1")
    monkeypatch.setattr(adapter, "START_SECONDS", 0.0)
    assert supervisors.probe("a.1") == Absent()
    prepare(supervisors, "a.1", "exit 2")
    subprocess.run(argv, start_new_session=True, timeout=20)
    assert ended(supervisors, "a.1").code == 2


def test_a_start_that_was_withdrawn_never_runs(supervisors: Supervisors, tmp_path: Path) -> None:
    argv = prepare(supervisors, "a.1", f"touch {tmp_path}/ran")
    assert supervisors.stop("a.1")
    assert supervisors.probe("a.1") == Absent()
    assert subprocess.run(argv, stderr=subprocess.PIPE).returncode == 66
    assert not (tmp_path / "ran").exists()
    assert run(supervisors, "exit 2").code == 2


def test_a_supervisor_that_was_told_to_stop_before_it_began_starts_nothing(
    supervisors: Supervisors, tmp_path: Path
) -> None:
    argv = prepare(supervisors, "a.1", f"touch {tmp_path}/ran")
    lock = os.open(tmp_path / "runs" / "a.1" / "lock", os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    with subprocess.Popen(argv, start_new_session=True, stderr=subprocess.PIPE) as process:
        while not has_open(process.pid, tmp_path / "runs" / "a.1" / "lock"):
            assert process.poll() is None
        process.terminate()
        assert process.wait(timeout=20) == 75
    os.close(lock)
    assert not (tmp_path / "ran").exists()
    assert supervisors.probe("a.1") == Starting()


def test_b82_an_end_that_no_supervisor_wrote_is_a_lost_one_that_can_begin_again(
    supervisors: Supervisors, tmp_path: Path
) -> None:
    run(supervisors, "exit 0")
    exit_record = tmp_path / "runs" / "a.1" / "exit.json"
    whole = exit_record.read_bytes()
    deep = b'{"v": 1, "x": ' + b"[" * 100_000
    for damage in (b"", b"{}", b"\xff", deep, whole[:40], whole.replace(b'"v": 1', b'"v": 2')):
        exit_record.write_bytes(damage)
        assert isinstance(supervisors.probe("a.1"), Lost)
        assert supervisors.stop("a.1")
    exit_record.unlink()
    exit_record.symlink_to("/etc/passwd")
    assert isinstance(supervisors.probe("a.1"), Lost)
    exit_record.unlink()
    exit_record.mkdir()
    assert isinstance(supervisors.probe("a.1"), Lost)
    assert run(supervisors, "exit 3").code == 3


def test_b82_a_folder_that_cannot_be_asked_is_unknown(
    supervisors: Supervisors, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(supervisors, "exit 0")

    def broken(*_: object) -> int:
        raise OSError(errno.EIO, "Input/output error")

    for asked in ("ended", "running", "_is_held"):
        with monkeypatch.context() as patched:
            patched.setattr(adapter, asked, broken)
            assert isinstance(supervisors.probe("a.1"), Unknown)
            assert not supervisors.stop("a.1")


def test_what_runs_cannot_write_its_own_end(supervisors: Supervisors, tmp_path: Path) -> None:
    """A mind that leaves an exit.json and goes on is running, and what it left is not its end either."""
    folder, gate = tmp_path / "runs" / "a.1", Gate(tmp_path)
    run(supervisors, "exit 0", "a.0")
    forged = (tmp_path / "runs" / "a.0" / "exit.json").read_text()
    (tmp_path / "forged").write_text(forged)
    script = f"cp {tmp_path}/forged {folder}/exit.json; {gate.say}; exec sleep 60"
    argv = prepare(supervisors, "a.1", script)
    with subprocess.Popen(argv, start_new_session=True) as process:
        gate.wait()
        assert (folder / "exit.json").exists()
        assert isinstance(supervisors.probe("a.1"), Running)
        assert supervisors.stop("a.1")
        process.wait(timeout=20)
    assert ended(supervisors, "a.1").reason == "killed"


def test_the_environment_that_a_supervisor_left_when_it_was_killed_goes_with_a_stop(
    supervisors: Supervisors, tmp_path: Path
) -> None:
    folder = tmp_path / "runs" / "a.1"
    prepare(supervisors, "a.1", "true", env={"TOKEN": "secret"})
    (folder / "running.json").write_text(json.dumps({"v": 1, "boot_id": "other", "pid": os.getpid(), "start": 1}))
    assert isinstance(supervisors.probe("a.1"), Lost)
    assert supervisors.stop("a.1")
    assert not (folder / "spec.json").exists()


def test_what_runs_has_a_folder_of_its_own_and_a_link_in_its_place_leads_nowhere(
    supervisors: Supervisors, tmp_path: Path
) -> None:
    own = supervisors.subfolder("minds/a.1", "mind")
    assert own == supervisors.folder("minds/a.1") / "mind"
    assert own.stat().st_mode & 0o777 == 0o700
    (own / "report.json").write_text("said")
    assert supervisors.get("minds/a.1", "mind/report.json") == b"said"
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "report.json").write_text("secret")
    own.rename(own.with_name("was"))
    own.symlink_to(tmp_path / "elsewhere")
    assert supervisors.get("minds/a.1", "mind/report.json") is None
    with pytest.raises(PermissionError):
        supervisors.subfolder("minds/a.1", "mind")


def test_b102_a_record_of_another_boot_is_never_alive(supervisors: Supervisors, tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "a.1"
    prepare(supervisors, "a.1", "true")
    (folder / "running.json").write_text(json.dumps({"v": 1, "boot_id": "other", "pid": os.getpid(), "start": 1}))
    assert supervisors.probe("a.1") == Lost(process=Process(boot="other", pid=os.getpid(), start=1))
    lock = os.open(folder / "lock", os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    assert isinstance(supervisors.probe("a.1"), Unknown)
    os.close(lock)


def test_b100_a_pid_that_now_is_another_process_is_left_alone(supervisors: Supervisors, tmp_path: Path) -> None:
    boot_id = processes.boot_id()
    prepare(supervisors, "a.1", "true")
    folder = tmp_path / "runs" / "a.1"
    with subprocess.Popen(["sleep", "60"]) as stranger:
        (folder / "running.json").write_text(json.dumps({"v": 1, "boot_id": boot_id, "pid": stranger.pid, "start": 1}))
        lock = os.open(folder / "lock", os.O_RDWR)
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert supervisors.probe("a.1") == Running(process=Process(boot=boot_id, pid=stranger.pid, start=1))
        assert supervisors.pidfd("a.1") is None
        supervisors.kill("a.1")
        assert stranger.poll() is None
        os.close(lock)
        stranger.kill()


# the supervisor's own death


def test_b94_a_killed_supervisor_is_lost_and_the_cookie_finds_what_it_left(
    supervisors: Supervisors, tmp_path: Path, mark: str
) -> None:
    gate = Gate(tmp_path)
    script = f"(setsid sh -c 'trap \"\" TERM; sleep {mark}; :' &) ; (nohup sleep {mark} &) ; {gate.say}; sleep {mark}"
    argv = prepare(supervisors, "a.1", script)
    cookie = supervisors.cookie("a.1")
    with subprocess.Popen(["sleep", "60"], env={COOKIE: f"{cookie}0"}) as stranger:
        supervisors.launch(argv)
        gate.wait()
        state = lose(supervisors, "a.1")
        assert supervisors.probe("a.1") == Lost(process=state.process)
        swept = supervisors.sweep(cookie)
        assert swept.killed >= 2
        assert swept.left == ()
        assert sleepers(mark) == []
        assert supervisors.sweep(cookie).killed == 0
        assert stranger.poll() is None
        stranger.kill()
    assert subprocess.run(argv, stderr=subprocess.PIPE).returncode == 76


def test_kill_leaves_nothing_that_has_the_cookie_of_the_run(
    supervisors: Supervisors, tmp_path: Path, mark: str
) -> None:
    gate = Gate(tmp_path)
    script = f"(setsid sh -c 'trap \"\" TERM; sleep {mark}; :' &) ; (nohup sleep {mark} &) ; {gate.say}; sleep {mark}"
    supervisors.launch(prepare(supervisors, "minds/a.1", script))
    gate.wait()
    entry = f"{COOKIE}={supervisors.cookie('minds/a.1')}"
    ends = time.monotonic() + 5
    while len(list(processes.carriers(entry))) < 4 or not isinstance(supervisors.probe("minds/a.1"), Running):
        assert time.monotonic() < ends  # what the shell put into its background is on its way, and the record too
        time.sleep(0.01)
    other = f"{COOKIE}={supervisors.cookie('minds/a.2')}"
    with subprocess.Popen(["sleep", "60"], env=dict([other.split("=")])) as stranger:
        assert supervisors.kill("minds/a.1")
        assert list(processes.carriers(entry)) == []
        assert sleepers(mark) == []
        assert stranger.poll() is None
        assert isinstance(supervisors.probe("minds/a.1"), Lost)
        assert supervisors.kill("minds/a.1")
        stranger.kill()


def test_what_a_lost_supervisor_left_running_ends_before_its_name_begins_again(
    supervisors: Supervisors, tmp_path: Path, mark: str
) -> None:
    gate = Gate(tmp_path)
    supervisors.launch(prepare(supervisors, "a.1", f"(setsid sleep {mark} &) ; {gate.say}; sleep {mark}"))
    gate.wait()
    lose(supervisors, "a.1")
    assert sleepers(mark)
    assert run(supervisors, "exit 2").code == 2
    assert sleepers(mark) == []


def test_of_two_that_begin_a_lost_name_again_none_puts_the_others_run_aside(
    supervisors: Supervisors, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapter, "_LOCK_SECONDS", 20.0)
    supervisors.launch(prepare(supervisors, "a.1", "exec sleep 60"))
    while not isinstance(supervisors.probe("a.1"), Running):
        assert not isinstance(supervisors.probe("a.1"), Ended)
    lose(supervisors, "a.1")
    while not isinstance(supervisors.probe("a.1"), Lost):
        pass
    folder, gate, go = tmp_path / "runs" / "a.1", Gate(tmp_path), Gate(tmp_path)
    late = Supervisors(tmp_path / "runs")
    with (folder / "lock").open() as lock, ThreadPoolExecutor(1) as pool:
        fcntl.flock(lock, fcntl.LOCK_SH)  # a probe sees it lost, and one who wants to put it aside waits
        waiting = pool.submit(prepare, late, "a.1", "exit 1")
        while not (has_open(os.getpid(), folder / "lock", to_write=True) or waiting.done()):
            pass
        folder.rename(folder.with_name("a.1.lost.1"))
        supervisors.launch(prepare(supervisors, "a.1", f"{gate.say}; {go.hear}; exit 2"))
        gate.wait()
        running = supervisors.probe("a.1")
        fcntl.flock(lock, fcntl.LOCK_UN)
        with pytest.raises(Failed):
            waiting.result(timeout=60)
        assert supervisors.probe("a.1") == running
    go.open()
    while not isinstance(supervisors.probe("a.1"), Ended):
        assert isinstance(supervisors.probe("a.1"), Running | Ended)
    assert ended(supervisors, "a.1").code == 2
    assert sorted(path.name for path in folder.parent.iterdir()) == ["a.1", "a.1.lost.1"]


def test_b96_a_sweep_never_ends_the_sweeper() -> None:
    script = """
from pathlib import Path
from orchconverge.adapters.supervisors import Supervisors
print(Supervisors(Path("/tmp")).sweep("ours"))
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={COOKIE: "ours"},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
    )
    assert done.stdout == "Swept(killed=0, left=())\n"


def test_the_supervisor_is_small_while_it_waits(supervisors: Supervisors, tmp_path: Path) -> None:
    gate, go = Gate(tmp_path), Gate(tmp_path)
    with started(supervisors, gate, f"{gate.say}; {go.hear}") as process:
        [resident] = re.findall(r"^VmRSS:\s+(\d+)", Path(f"/proc/{process.pid}/status").read_text(), re.M)
        assert int(resident) <= MAX_RSS_KB
        go.open()
