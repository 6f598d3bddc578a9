"""The supervisor: runs one program to its end, ends all that it started, and keeps a record that nothing can lose.

Run as ``python -X utf8 -I -S pane.py DIR/spec.json``, in a tmux pane (minds) or without a terminal (checks and steps).
It needs no controller: the deadline holds when nobody is left to watch, and the program outlives the tmux server.

In DIR it keeps ``lock`` (an flock held for life: held is alive, free is dead), ``running.json`` (who runs),
``log.head`` and ``log.tail.N`` (raw output, capped) and ``exit.json`` (how it ended, durable before we are gone). A
name is run once: whoever takes the lock second finds one of the two records and leaves. The spec holds the environment,
so it is unlinked as soon as running.json says that the name is used up. Fifty of these run side by side, each in less
than 15 MB: hence the standard library only, and little of that.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import select
import signal
import sys
import termios
import time
from contextlib import suppress

TYPE_CHECKING = False  # importing typing costs 1 MB
if TYPE_CHECKING:
    from typing import Any

VERSION = 1  # of spec and records
NO_SPEC, NO_RECORD, BUSY, SPENT, REFUSED = 66, 74, 75, 76, 78  # our own exit codes
NOT_STARTED = 127  # the child's, as a shell has it
LOCK_SECONDS, LOCK_POLL_SECONDS = 2.0, 0.02  # probers hold the lock shared for an instant
REAP_SECONDS = 0.03  # by time, not by count: a fork bomb must neither hold us nor pile up its dead
LEFTOVER_GRACE_SECONDS = 1.0  # for what a program that has ended left behind
KILL_SECONDS = 10.0  # what sleeps uninterruptibly is reported, not waited for
DRAIN_SECONDS = 2.0  # for output in the pipe once all writers that we know of are dead
STORM_PER_SECOND = 500  # orphans; above this, time to end politely only feeds the storm
IDLE_CPU_SHARE = 0.01  # a silent tree that uses less of one CPU than this makes no progress
MAX_LISTED, MAX_ERROR_CHARS, RESERVED_BYTES = 20, 300, 8192  # so that a record always fits its reserved blocks
READ_BYTES, PIPE_BYTES = 1 << 17, 1 << 20
NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
TEXT = ("utf-8", "replace")  # how bytes that nobody vouches for become text
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
prctl = ctypes.CDLL(None, use_errno=True).prctl
prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]


class RefusalError(Exception):
    """Nothing may be started: (code, why). ``REFUSED`` goes on record; with another code the folder stays as it is."""


class Spec:
    """What to run, where and within which limits. Seconds are monotonic; null or 0 is no limit."""

    def __init__(self, fields: dict[str, Any], folder: str) -> None:
        if fields["v"] != VERSION or not fields["argv"] or not os.path.samefile(fields["dir"], folder):
            raise ValueError(f"v {fields['v']!r}, argv {fields['argv']!r}, dir {fields['dir']!r}")
        self.dir, self.name, self.cwd = str(fields["dir"]), str(fields["name"]), str(fields["cwd"])
        self.branch: str | None = fields.get("branch")
        self.argv: list[str] = fields["argv"]
        self.env: dict[str, str] = fields["env"]
        self.stdin: str = fields.get("stdin") or os.devnull
        limits = [float(fields.get(f"{limit}_seconds") or "inf") for limit in ("deadline", "idle", "linger")]
        self.deadline, self.idle, self.linger = limits
        self.grace = float(fields.get("grace_seconds", 5.0))
        self.log_bytes = (int(fields.get("head_bytes", 50 << 20)), int(fields.get("tail_bytes", 8 << 20)))


def content(path: str) -> str:
    """Read a small text file; bytes that are not UTF-8 come back as lone surrogates."""
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        return file.read().rstrip("\n")


class Signals:
    """Signals as data: a handler only notes them, the loop acts. Keys and hang-ups of the terminal stop nothing."""

    def __init__(self) -> None:
        self.stop, self.hangups = False, 0
        self.wake, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        for name in ("TERM", "HUP", "CHLD"):
            signal.signal(getattr(signal, f"SIG{name}"), self._note)
        for name in ("INT", "QUIT", "TSTP", "TTIN", "TTOU", "PIPE", "ALRM", "USR1", "USR2"):
            signal.signal(getattr(signal, f"SIG{name}"), signal.SIG_IGN)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())

    def _note(self, number: int, _frame: object) -> None:
        self.stop = self.stop or number == signal.SIGTERM
        self.hangups += number == signal.SIGHUP


class Process:
    """One line of the process table. Raises `OSError` if the process is gone."""

    def __init__(self, pid: int) -> None:
        with open(f"/proc/{pid}/stat", "rb", 0) as file:
            head, _, rest = file.read(1024).rpartition(b")")  # a name may hold spaces and brackets
        fields = rest.split()
        self.comm = head.partition(b"(")[2].decode(*TEXT)
        self.state, self.parent, self.start = fields[0].decode(), int(fields[1]), int(fields[19])
        self.cpu_ticks = sum(map(int, fields[11:15]))  # own and those of children waited for, user and system


class Tree:
    """All processes below this one. Orphans come to us, so ECHILD from ``waitpid`` is the proof that none is left."""

    def __init__(self, child: int) -> None:
        self.child, self.ended = child, 0.0
        self.status: int | None = None
        self.empty = self.storming = False
        self.killed: set[int] = set()
        self._reaped, self._since = 0, time.monotonic()

    def reap(self) -> None:
        """Take the dead, for a bounded time. The one and only reaper: a second one would read false exit codes."""
        start = now = time.monotonic()
        try:
            while now - start < REAP_SECONDS and (dead := os.waitpid(-1, os.WNOHANG))[0]:
                now = time.monotonic()
                self._reaped += 1
                if dead[0] == self.child:
                    self.status, self.ended = dead[1], now
        except ChildProcessError:
            self.empty = True
        if now - self._since > 0.25:
            self.storming = self._reaped / (now - self._since) > STORM_PER_SECOND
            self._reaped, self._since = 0, now

    def living(self) -> dict[int, Process]:
        """Return every descendant that can still do something."""
        processes: dict[int, Process] = {}
        below: dict[int, list[int]] = {}
        for pid in [int(name) for name in os.listdir("/proc") if name.isdigit()]:
            with suppress(OSError):
                processes[pid] = Process(pid)
                below.setdefault(processes[pid].parent, []).append(pid)
        found = below.get(os.getpid(), [])
        for pid in found:
            found += below.get(pid, ())
        return {pid: processes[pid] for pid in found if processes[pid].state not in "ZX"}

    def cpu_seconds(self) -> float:
        """Add up what all descendants have used of the CPU, with those of the dead that were waited for."""
        ticks = sum(process.cpu_ticks for process in self.living().values())
        return ticks / os.sysconf("SC_CLK_TCK") + sum(os.times()[2:4])

    def terminate(self) -> list[tuple[int, str]]:
        """Ask every descendant to end, stopped ones too; returns those that are not the child itself."""
        with suppress(OSError):  # where allowed, go before normal processes: else a fork storm outruns its killer
            os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))
        living = {} if self.storming else self.living()
        for pid, process in living.items():
            self._send(pid, process, signal.SIGTERM, signal.SIGCONT)
        return [(pid, process.comm) for pid, process in living.items() if pid != self.child]

    def kill(self, seconds: float) -> None:
        """Kill and reap in a tight loop for at most ``seconds``, so that nothing finds the time to fork again."""
        until, turn = time.monotonic() + seconds, 0
        while not self.empty and time.monotonic() < until:
            children: list[int] = []
            with suppress(OSError):  # a kernel without that file, or a change of user: `living` is slower, and enough
                children = [int(pid) for pid in content(f"/proc/self/task/{os.getpid()}/children").split()]
                for pid in children:  # not reaped, so their pids cannot have been given away
                    os.kill(pid, signal.SIGKILL)
            self.killed.update(children)
            if turn % 64 == 0 or len(children) < 2:
                for pid, process in self.living().items():
                    self._send(pid, process, signal.SIGKILL)
            turn += 1
            time.sleep(0.0002)  # let the dying die: we may be going before them
            self.reap()

    def _send(self, pid: int, process: Process, *numbers: int) -> None:
        """Signal that very process: hold it first, then see that its pid has not been given to another one."""
        with suppress(OSError), open(os.pidfd_open(pid), "rb", 0) as handle:
            if Process(pid).start == process.start:
                for number in numbers:
                    signal.pidfd_send_signal(handle.fileno(), number)
                self.killed.add(pid)


class Log:
    """Raw output: ``log.head``, then ``log.tail.N``, the last two kept. A full disk never stops the program."""

    def __init__(self, folder: str, head_bytes: int, tail_bytes: int) -> None:
        self.total = self.lost = 0
        self.error: str | None = None
        self._base, self._tail_bytes = os.path.join(folder, "log"), tail_bytes
        self._number, self._room = -1, head_bytes
        self._fd = os.open(f"{self._base}.head", NEW_FILE, 0o600)

    def write(self, data: memoryview) -> None:
        """Keep ``data`` as far as caps and disk allow."""
        self.total += len(data)
        try:
            while data:
                if self._room <= 0:
                    self._next_tail()
                written = os.write(self._fd, data[: self._room])
                self._room -= written
                data = data[written:]
        except OSError as error:
            self.lost, self.error = self.lost + len(data), errno.errorcode.get(error.errno or 0, "EIO")

    def _next_tail(self) -> None:
        fd = os.open(f"{self._base}.tail.{self._number + 1}", NEW_FILE, 0o600)
        os.close(self._fd)
        self._fd, self._number, self._room = fd, self._number + 1, self._tail_bytes
        if self._number > 1:
            self.lost += self._tail_bytes
            os.unlink(f"{self._base}.tail.{self._number - 2}")


_HOSTILE = [(0, 0x20), (0x7F, 0xA0), (0xAD, 0xAE), (0x61C, 0x61D), (0x180E, 0x180F), (0x200B, 0x2010), (0x2028, 0x202F)]
_HOSTILE += [(0x2060, 0x2070), (0xFEFF, 0xFF00), (0xFFF9, 0xFFFC), (0xE0000, 0xE0080)]
_WORDS = ("subtype", "result", "text", "content", "message", "command", "tool_name", "tool", "name")  # for people
_CLEAN = {code: " " if chr(code) in "\t\r\n" else "\ufffd" for first, end in _HOSTILE for code in range(first, end)}


def clean(text: str, limit: int = 200) -> str:
    """Make ``text`` one harmless line of at most ``limit`` characters: no escapes, no controls, no reordering."""
    return (text[:limit] + ("…" if len(text) > limit else "")).translate(_CLEAN).encode(*TEXT).decode()


def render(line: bytes) -> list[str]:
    """Turn a line of output into what a person reads, if anything. Cleaned after JSON is decoded: it can hide escapes."""
    said = [line[:800].decode(*TEXT)]
    with suppress(ValueError, RecursionError, TypeError, KeyError, AttributeError):
        message = json.loads(line if line.startswith(b"{") else "")
        places = [one for one in (message, *map(message.get, ("item", "part", "error"))) if isinstance(one, dict)]
        words = " ".join(one[key] for one in places for key in _WORDS if isinstance(one.get(key), str)).strip()
        said = [f"· {message['type']} {words}".rstrip()] if words or " " in message.get("type", "") else []
        parts = [part for part in message["message"]["content"] if part["type"] in ("text", "tool_use")]
        said = [f"» {p['text']}" if "text" in p else f"→ {p['name']} {json.dumps(p['input'])}" for p in parts] or said
    return [clean(text) for text in said]


class Screen:
    """The pane's terminal, for people: never waited for, and not needed. Keys do nothing."""

    LINES_PER_SECOND, MAX_LINE_BYTES, MAX_PENDING_BYTES = 200, 1 << 16, 1 << 16

    def __init__(self, poller: select.poll) -> None:
        self.fd, self._poller = -1, poller
        self.pending, self.skipped, self._rest, self._cut = b"", 0, b"", 0
        self._second, self._allowance = 0.0, 0
        with suppress(OSError, termios.error):
            self.fd = os.open("/dev/tty", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
            poller.register(self.fd, select.POLLIN)
            mode = termios.tcgetattr(self.fd)
            mode[0] &= ~(termios.IXON | termios.IXOFF)  # ^S must not stop our writes
            mode[3] &= ~(termios.ECHO | termios.ICANON | termios.ISIG)
            termios.tcsetattr(self.fd, termios.TCSANOW, mode)

    def close(self) -> None:
        """Forget the terminal: a dead one is readable for ever."""
        if self.fd >= 0:
            self._poller.unregister(self.fd)
            os.close(self.fd)
            self.fd = -1

    def hear(self, events: int) -> None:
        """Read keys away; a hang-up closes the screen and nothing else."""
        if events & ~select.POLLIN:
            self.close()
        elif events:
            with suppress(OSError):
                os.read(self.fd, 4096)

    def say(self, text: str) -> None:
        """Show one line that is already clean; dropped when the terminal is behind."""
        if self.fd >= 0 and len(self.pending) < self.MAX_PENDING_BYTES:
            self.pending += text.encode() + b"\r\n"

    def tick(self, now: float) -> None:
        """Write what is pending; once a second tell what was left out."""
        if now - self._second >= 1.0:
            self._second, self._allowance = now, self.LINES_PER_SECOND
            if self.skipped:
                self.say(f"… {self.skipped} lines not shown")
                self.skipped = 0
        try:
            while self.fd >= 0 and self.pending:
                self.pending = self.pending[os.write(self.fd, self.pending) :]
        except OSError as error:
            if error.errno != errno.EAGAIN:  # the tmux server is gone
                self.close()

    def feed(self, data: memoryview, now: float) -> None:
        """Show a piece of output, a line at a time; lines over the rate are counted, long ones cut."""
        if self.fd < 0:
            return
        self.tick(now)
        *lines, rest = (self._rest + data).split(b"\n", self._allowance)
        for line in lines:
            for text in [f"{clean(line.decode(*TEXT), 80)} [and {self._cut} bytes]"] if self._cut else render(line):
                self.say(text)
            self._cut = 0
        self._allowance -= len(lines)
        if over := rest.count(b"\n"):
            self.skipped, self._cut, rest = self.skipped + over, 0, rest[rest.rfind(b"\n") + 1 :]
        if len(rest) > self.MAX_LINE_BYTES:
            self._cut, rest = self._cut + len(rest) - 256, rest[:256]
        self._rest = rest


class Record:
    """The two records of a run. Their blocks are taken before anything starts: the log may fill the disk."""

    def __init__(self, spec: Spec) -> None:
        self._folder = os.open(spec.dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._who: dict[str, Any] = {"v": VERSION, "name": spec.name, "pid": os.getpid()}
        self._who |= {"boot_id": content("/proc/sys/kernel/random/boot_id"), "start": Process(os.getpid()).start}
        self._exit = self._reserve("exit.json")
        self.running(None)

    def running(self, child: int | None) -> None:
        """Claim the name, before there is a child; afterwards say who it is."""
        self._who |= {"agent": child, "started_at": time.time()}
        self.monotonic, self._boot = time.monotonic(), time.clock_gettime(time.CLOCK_BOOTTIME)
        record = self._who | {"agent_start": Process(child).start if child else None}
        self._write("running.json", self._reserve("running.json"), record, flush=child is not None)

    def end(self, *, ended: float | None = None, error: str | None = None, **fields: object) -> None:
        """Write exit.json; when this returns the end is durable. ``ended`` is monotonic, now by default."""
        now, boot = time.monotonic(), time.clock_gettime(time.CLOCK_BOOTTIME)
        peak = content("/proc/self/status").partition("VmHWM:")[2].split()[0]  # ru_maxrss is inherited through exec
        record = self._who | {"reason": None, "code": None, "signal": None, "ended_at": time.time()}
        record |= {"error": error and clean(error, MAX_ERROR_CHARS), "seconds": (ended or now) - self.monotonic}
        record |= {"suspended_seconds": round(max(0.0, boot - self._boot - (now - self.monotonic)), 3)}
        record |= {"bytes": 0, "truncated": False, "log_error": None, "killed": 0, "leftover": [], "survivors": []}
        record |= {"hwm_kb": int(peak), "idle": False, "lingered": False, "hangups": 0}
        self._write("exit.json", self._exit, record | fields, flush=True)

    def _reserve(self, name: str) -> int:
        fd = os.open(f"{name}.tmp", NEW_FILE, 0o600, dir_fd=self._folder)
        os.posix_fallocate(fd, 0, RESERVED_BYTES)
        return fd

    def _write(self, name: str, fd: int, record: dict[str, Any], *, flush: bool) -> None:
        """Put a record in place; without a flush it is lost with the power, but then so is the run."""
        os.ftruncate(fd, os.pwrite(fd, json.dumps(record).encode() + b"\n", 0))
        if flush:
            os.fsync(fd)
        os.close(fd)
        os.rename(f"{name}.tmp", name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        if flush:
            os.fsync(self._folder)


def tidy_inheritance() -> None:
    """Keep 0, 1 and 2 open and nothing else: a stranger's pipe or lock is neither ours nor the child's."""
    while os.open(os.devnull, os.O_RDWR) <= 2:
        continue
    for fd in [int(name) for name in os.listdir("/proc/self/fd") if int(name) > 2]:
        with suppress(OSError):
            os.close(fd)


def take_lock(folder: str, signals: Signals) -> None:
    """Hold the folder's lock until this process dies, unless another one does or the name was run before."""
    lock = os.open(os.path.join(folder, "lock"), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    until = time.monotonic() + LOCK_SECONDS
    while True:
        with suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        if signals.stop or time.monotonic() > until:
            raise RefusalError(BUSY, f"{folder} is held by another supervisor")
        time.sleep(LOCK_POLL_SECONDS)
    if os.path.lexists(os.path.join(folder, "exit.json")) or os.path.lexists(os.path.join(folder, "running.json")):
        raise RefusalError(SPENT, f"{folder} was run before")


def enter(spec: Spec) -> int:
    """Go to the place and see from files alone that it is the work tree of the branch; returns the open stdin."""
    try:
        stdin = os.open(spec.stdin, os.O_RDONLY | os.O_CLOEXEC)
        os.chdir(spec.cwd)
        if spec.branch is None:
            return stdin
        git = os.path.join(spec.cwd, ".git")
        if os.path.isfile(git):  # a linked work tree: the link must point here and back
            entry = os.path.join(spec.cwd, content(git).removeprefix("gitdir: "))
            back = os.path.join(entry, content(os.path.join(entry, "gitdir")))
            if os.path.realpath(back) != os.path.realpath(git):
                raise RefusalError(REFUSED, f"{spec.cwd} is not the work tree that git knows, which is {back}")
            git = entry
        head = content(os.path.join(git, "HEAD"))
    except OSError as error:
        raise RefusalError(REFUSED, f"{spec.cwd} cannot be used: {error}") from None
    if head != f"ref: refs/heads/{spec.branch}":
        raise RefusalError(REFUSED, f"{spec.cwd} is not on {spec.branch}: its HEAD is {head!r}")
    return stdin


def start_child(spec: Spec, stdin: int, umask: int) -> tuple[int, int, str | None]:
    """Start the program in a session of its own; returns its pid, its output, and why it could not be executed."""
    output, child_output = os.pipe2(os.O_CLOEXEC)
    failure, child_failure = os.pipe2(os.O_CLOEXEC)
    os.set_blocking(output, False)
    with suppress(OSError):  # this user may have used up the memory for pipes: the default will do
        fcntl.fcntl(child_output, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    supervisor, child = os.getpid(), os.fork()
    if child == 0:
        try:
            _become(spec, supervisor, (stdin, child_output, child_output), umask)
        except (OSError, ValueError) as error:
            os.write(child_failure, str(getattr(error, "strerror", error)).encode(*TEXT))
        finally:
            os._exit(NOT_STARTED)
    for fd in (child_output, child_failure, stdin):
        os.close(fd)
    why = os.read(failure, 512).decode(*TEXT)
    os.close(failure)
    return child, output, f"cannot run {spec.argv[0]}: {why}" if why else None


def _become(spec: Spec, supervisor: int, files: tuple[int, int, int], umask: int) -> None:
    """Turn the forked child into the program, which knows nothing of us but its pipe."""
    os.setsid()
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != supervisor:  # it died before the line above
        os._exit(NOT_STARTED)
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)  # an ignored signal would stay ignored through exec
    os.umask(umask)
    for target, fd in enumerate(files):
        os.dup2(fd, target)
    os.execvpe(spec.argv[0], spec.argv, spec.env)  # noqa: S606


class Supervision:
    """One run, from the start of the child to the proof that nothing of it is left."""

    def __init__(self, spec: Spec, signals: Signals, log: Log, tree: Tree, output: int, started: float) -> None:
        self.spec, self.signals, self.log, self.tree, self.output = spec, signals, log, tree, output
        self.poller = select.poll()
        self.screen = Screen(self.poller)
        self.result_at, self._end = float("inf"), b"\n"
        self.deadline = started + spec.deadline
        self.reason: str | None = None
        self.idle = self.lingered = False
        self.leftover: list[tuple[int, str]] = []
        self.asked_at = self.killing_at = float("inf")
        self._quiet_since, self._quiet_cpu = started, -1.0
        self._buffer = memoryview(bytearray(READ_BYTES))
        for fd in (signals.wake, output):
            self.poller.register(fd, select.POLLIN)

    def run(self) -> None:
        """Watch until no process is left, or what is left cannot be killed; then read the rest of the output."""
        while not self.tree.empty and time.monotonic() - self.killing_at < KILL_SECONDS:
            self.screen.tick(time.monotonic())
            ready = dict(self.poller.poll(self._patience_ms(time.monotonic())))
            if self.signals.wake in ready:
                os.read(self.signals.wake, 4096)
            self.screen.hear(ready.get(self.screen.fd, 0))
            if self.output in ready:
                self._read(pieces=16)
            now = time.monotonic()
            self.tree.reap()  # before the judgement: a child that has ended has not missed its deadline
            self.reason = self.reason or self._judge(now)
            if self.reason and not self.tree.empty:
                self._end_tree(now)
        until = time.monotonic() + DRAIN_SECONDS  # the pipe may have no end: an escaped process can hold it open
        while self.output >= 0 and time.monotonic() < until:
            select.select([self.output], [], [], 0.05)
            self._read(pieces=64)

    def result(self) -> dict[str, Any]:
        """Return the fields of exit.json that the run decides."""
        fields: dict[str, Any] = {"reason": self.reason, "idle": self.idle, "lingered": self.lingered}
        if self.tree.status is not None and not self.lingered:
            code = os.waitstatus_to_exitcode(self.tree.status)
            fields["signal" if code < 0 else "code"] = abs(code)
        survivors = [] if self.tree.empty else [(pid, p.comm, p.state) for pid, p in self.tree.living().items()]
        fields |= {"survivors": survivors[:MAX_LISTED], "leftover": self.leftover[:MAX_LISTED]}
        fields |= {"killed": len(self.tree.killed), "ended": self.tree.ended or None, "hangups": self.signals.hangups}
        return fields | {"bytes": self.log.total, "truncated": self.log.lost > 0, "log_error": self.log.error}

    def _patience_ms(self, now: float) -> int:
        """How long nothing has to be looked at if nothing happens."""
        if self.reason:
            return 20 if self.killing_at > now else 0
        pause = 0.2 if self.screen.pending or self.screen.skipped else min(1.0, self.spec.idle / 4)
        due = min(self.deadline, self.result_at + self.spec.linger, now + pause)
        return int(max(0.0, due - now) * 1000) + 1

    def _read(self, *, pieces: int) -> None:
        for _ in range(pieces):
            try:
                count = os.readv(self.output, [self._buffer])
            except BlockingIOError:
                return
            if count == 0:
                self.poller.unregister(self.output)
                self.output = -1
                return
            data, now = self._buffer[:count], time.monotonic()
            self.log.write(data)
            self.screen.feed(data, now)
            self._quiet_since, self._quiet_cpu = now, -1.0
            if self.spec.linger < float("inf"):
                self._look_for_result(data, now)

    def _look_for_result(self, data: memoryview, now: float) -> None:
        """Notice, in a stream of JSON lines of any length, that the newest message is the final ``result``."""
        text = self._end + bytes(data)
        result, *work = (text.rfind(b'\n{"type":"%s"' % word) for word in (b"result", b"assistant", b"user"))
        if result != max(work):
            self.result_at = now if result > max(work) else float("inf")
        self._end = text[-20:]  # of a mark that is cut in two

    def _judge(self, now: float) -> str | None:
        """Say why the run ends now, if it does."""
        if self.tree.status is not None:
            return "exited"
        if self.signals.stop:
            return "killed"
        self.lingered = now >= self.result_at + self.spec.linger
        self.idle = not self.lingered and now < self.deadline and self._hangs(now)
        return "exited" if self.lingered else "deadline" if self.idle or now >= self.deadline else None

    def _hangs(self, now: float) -> bool:
        """Say whether there was neither output nor work for too long; what is stopped does not work."""
        quiet = now - self._quiet_since
        if self._quiet_cpu < 0 and quiet >= min(1.0, self.spec.idle / 4) and self.spec.idle < float("inf"):
            self._quiet_cpu = self.tree.cpu_seconds()
        if quiet < self.spec.idle:
            return False
        cpu, before = self.tree.cpu_seconds(), self._quiet_cpu
        self._quiet_since, self._quiet_cpu = now, cpu
        return abs(cpu - before) <= quiet * IDLE_CPU_SHARE

    def _end_tree(self, now: float) -> None:
        """Take one step towards an empty tree: ask all, give them the grace, then kill until none is left."""
        grace = self.spec.grace if self.tree.status is None else min(self.spec.grace, LEFTOVER_GRACE_SECONDS)
        if now < self.asked_at:
            self.asked_at = now
            self.leftover = self.tree.terminate()
        elif self.tree.storming or now >= self.asked_at + grace:
            self.killing_at = min(self.killing_at, now)
            self.tree.kill(0.1)


def supervise(path: str) -> int:
    """Run the spec in ``path`` to its end and return our own exit code, which for people is that of the program."""
    umask = os.umask(0o077)
    tidy_inheritance()
    signals = Signals()
    take_lock(os.path.dirname(path), signals)
    try:  # under the lock: until then the controller may replace or withdraw the spec
        spec = Spec(json.loads(content(path)), os.path.dirname(path))
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise RefusalError(NO_SPEC, f"{path} cannot be used: {type(error).__name__}: {error}") from None
    log, record = Log(spec.dir, *spec.log_bytes), Record(spec)
    os.unlink(path)
    try:
        stdin = enter(spec)
    except RefusalError as refusal:
        record.end(reason="refused", error=refusal.args[1])
        return REFUSED
    if signals.stop:
        record.end(reason="killed")
        return 128 + signal.SIGTERM
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    child, output, failure = start_child(spec, stdin, umask)
    with suppress(OSError):  # where the disk is full by now the first record stays, and is enough to find us
        record.running(child)
    run = Supervision(spec, signals, log, Tree(child), output, record.monotonic)
    run.screen.say(f"[orchconverge] {clean(spec.name)} started in {clean(spec.cwd)}")
    run.run()
    result = run.result()
    record.end(error=failure, **result)
    outcome = ", ".join(f"{key} {result[key]}" for key in ("reason", "code", "signal", "bytes") if key in result)
    run.screen.say(f"[orchconverge] {clean(spec.name)} ended: {outcome}")
    run.screen.tick(time.monotonic())
    return int(result.get("code") or (128 + result["signal"] if result.get("signal") else 0))


def main() -> int:
    """Read the command line; say in one line what went wrong."""
    try:
        return supervise(os.path.abspath(sys.argv[1]))
    except RefusalError as refusal:
        code, why = int(refusal.args[0]), str(refusal.args[1])
    except (OSError, IndexError) as error:  # the name could not be claimed, or the end not recorded
        code, why = NO_RECORD, str(error)
    with suppress(OSError):  # nobody may be there to read it
        os.write(2, f"pane.py: {clean(why)}\n".encode())
    return code


if __name__ == "__main__":
    os._exit(main())  # no destructors, and no flushing of a terminal that may be gone
