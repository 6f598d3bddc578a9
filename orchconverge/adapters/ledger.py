"""The ledger as a file: one fact a line, appended under a lock and durable before it is acknowledged, read on from an offset."""

from __future__ import annotations

import errno
import gc
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from orchconverge.core import upcast
from orchconverge.core.events import AnyFact
from orchconverge.core.reducer import State
from orchconverge.core.replay import Replay
from orchconverge.core.seen import Answer, Health
from orchconverge.core.upcast import Damaged, Newer
from orchconverge.core.values import Writer
from orchconverge.errors import Illegal, NotDurable, Refused
from orchconverge.files import BLOCK_BYTES, Lines, OwnLock, open_own, own_folder, sync_folder

if TYPE_CHECKING:
    from orchconverge.ports import Clock

NAME: Final = "ledger.jsonl"
KEPT: Final = 3
"""How many copies stay in `backups/`."""
LONG_BLOCKS: Final = 64
LOCK_SECONDS: Final = 30.0
"""How long an append waits for the ledger's lock, which is held for one append."""
_HINTS: Final = {
    errno.ENOSPC: "make room there and go on: nothing has to be repaired",
    errno.EDQUOT: "make room there and go on: nothing has to be repaired",
    errno.EROFS: "make the file system writable, or choose another place with ORCHCONVERGE_STATE_DIR",
    errno.EACCES: "make it writable for this user, or choose another place with ORCHCONVERGE_STATE_DIR",
    errno.EPERM: "make it writable for this user, or choose another place with ORCHCONVERGE_STATE_DIR",
}


class FileLedger:
    """The ledger in ``folder``. The first use folds the whole file; from then on it is read on from where it stands.

    An instance belongs to one thread. ``waiting`` is told, once a wait, that another process holds the lock.
    """

    def __init__(self, folder: Path, clock: Clock, *, waiting: Callable[[str], None] = lambda text: None) -> None:
        self.path = folder / NAME
        self._folder = folder
        self._clock = clock
        self._waiting = waiting
        self._lock = OwnLock(folder / "locks" / "ledger")
        self._lines = Lines(self.path)
        self._replay = Replay()
        self._agree = False
        """Whether the fold is what the lines up to the offset add up to. If not, it is made again."""
        self._handed = -1
        """The seq up to which facts were handed out, or lie in `_unseen`; -1 before the first use."""
        self._unseen: list[AnyFact] = []
        self._fd: int | None = None
        self._writes_to = (0, 0)

    @property
    def state(self) -> State:
        """What the lines read so far add up to: a live view, until an append fails; then ask again."""
        self._begin()
        return self._replay.fold.state

    @property
    def health(self) -> Health:
        """What the reader met so far. ``lines`` are all whole ones, those that were skipped included."""
        self._begin()
        r = self._replay
        return Health(lines=r.lines, bad=r.bad, illegal=r.illegal, unknown=r.unknown, torn=self._lines.torn)

    @property
    def seq(self) -> int:
        """The number of the last line that was read."""
        self._begin()
        return self._replay.seq

    def catch_up(self) -> tuple[AnyFact, ...]:
        """Read and fold what was appended since, by anybody, and return it, each fact once; `append` returns its own.

        On a ledger that was not used yet that is the whole file: touch `state` first where a long one must not be held.
        """
        self._read(self._unseen)
        seen, self._unseen = tuple(self._unseen), []
        return seen

    def append(self, fact: AnyFact, *, writer: Writer, active: float | None = None) -> AnyFact:
        """Write one fact and return it as it stands in the ledger. Raises `Illegal` and `NotDurable`.

        After either nothing was acknowledged. After `NotDurable` the line can be there all the same, if only the flush
        failed: the state says so.
        """
        self._begin()
        with self._locked():
            self._read(self._unseen)
            try:
                self._open()
                if self._lines.torn:  # a torn line must never eat the next one; whole but for its newline, it counts
                    self._write(b"\n")
                    self._read(self._unseen)
            except OSError as error:
                raise self._not_durable(error) from error
            stamped, line = self._stamped(fact, writer, active)
            try:
                self._replay.fold.apply(stamped)
                self._write(line)
            except Illegal:
                raise
            except BaseException as error:
                self._agree = False  # the fold is ahead of the file
                if isinstance(error, OSError):
                    raise self._not_durable(error) from error
                raise
            if self._writes_end() == self._lines.offset + len(line):
                self._lines.passed(line)
                self._replay.passed(stamped.seq)
                self._handed = stamped.seq
            else:  # somebody wrote without the lock: the file decides, not what was folded here
                self._agree = False
        return stamped

    def show(self, *, since_seq: int = 0) -> Iterator[bytes]:
        """The raw lines after the one numbered ``since_seq``, newlines included, damaged ones too."""
        lines = Lines(self.path)
        shown = since_seq <= 0
        try:
            for block in lines.more():
                for line in block.splitlines(keepends=True):
                    if not shown:
                        fact = upcast.decode(line)
                        shown = not isinstance(fact, Damaged) and fact.seq > since_seq
                    if shown:
                        yield line
        finally:
            lines.close()

    def backup(self) -> Path | None:
        """Copy the whole lines to `backups/` and keep the newest three; ``None`` if there is nothing or no room."""
        self._read(self._unseen)
        end = self._lines.offset
        if not end:
            return None
        folder = self._folder / "backups"
        kept = folder / f"{self._replay.seq:012d}.{NAME}"
        new = folder / f".ledger-{os.getpid()}-{os.urandom(6).hex()}"
        try:
            own_folder(folder)
            _copy(self.path, new, end)
            new.replace(kept)
            sync_folder(folder)
            for old in sorted(folder.glob(f"*.{NAME}"))[:-KEPT]:
                old.unlink(missing_ok=True)
        except OSError:
            new.unlink(missing_ok=True)
            return None
        return kept

    def close(self) -> None:
        """Give the descriptors back; the ledger cannot be used afterwards."""
        self._lines.close()
        self._lock.close()
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _begin(self) -> None:
        """Fold what is there, unless that was done. What was there at the first use is not kept."""
        if not self._agree:
            self._read(None if self._handed < 0 else self._unseen)

    def _read(self, keep: list[AnyFact] | None) -> None:
        if not self._agree:
            self._lines.rewind()
            self._replay = Replay()
        self._agree = False  # until all is read: whatever is raised, the next use begins again
        collecting, blocks = gc.isenabled(), 0
        try:
            for block in self._lines.more():
                blocks += 1
                if blocks == 2:  # a long one: many small facts come and go, and none of them is in a cycle
                    gc.disable()
                self._replay.feed(block, keep, after=self._handed)
            if blocks > LONG_BLOCKS:
                gc.freeze()  # what was folded stays; the collector need not walk through it (0.1 s for 300,000 lines)
        finally:
            if collecting:
                gc.enable()
        self._agree = True
        self._handed = max(self._handed, self._replay.seq)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            try:
                taken = self._lock.take(wait_seconds=LOCK_SECONDS, waiting=self._tell)
            except FileNotFoundError:
                own_folder(self._folder)
                own_folder(self._folder / "locks")
                taken = self._lock.take(wait_seconds=LOCK_SECONDS, waiting=self._tell)
        except OSError as error:
            raise self._not_durable(error) from error
        if not taken:
            raise NotDurable(
                f"the lock of {self.path} was held by another process for {LOCK_SECONDS:.0f} s",
                hint="an append takes a moment, so that process is stopped or its disk hangs",
            )
        try:
            yield
        finally:
            self._lock.release()

    def _tell(self) -> None:
        self._waiting("waiting for the lock ledger: another orchconverge process holds it")

    def _open(self) -> None:
        """Have the file open for appending: the one that is read. Under the lock."""
        if self._fd is not None and self._writes_to == self._lines.identity:
            return
        if self._fd is not None:
            os.close(self._fd)
        self._fd = open_own(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        info = os.fstat(self._fd)
        self._writes_to = (info.st_dev, info.st_ino)
        if not info.st_size:
            sync_folder(self._folder)
        self._read(self._unseen)

    def _stamped(self, fact: AnyFact, writer: Writer, active: float | None) -> tuple[AnyFact, bytes]:
        """Fill in the envelope; what comes back is what every reader will read."""
        stamped = replace(
            fact, v=upcast.VERSION, seq=self._replay.seq + 1, at=self._clock.now(), writer=writer, active=active
        )
        try:
            line = upcast.encode(stamped)
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            raise Illegal(f"{type(fact).__name__} cannot be written", rule=str(error)) from error
        again = upcast.decode(line)
        if isinstance(again, Damaged | Newer):
            why = again.why if isinstance(again, Damaged) else "of a later version"
            raise Illegal(f"{type(fact).__name__} could not be read again", rule=why)
        return again, line

    def _write(self, line: bytes) -> None:
        """Write ``line`` in one call and make it durable. Raises `OSError`."""
        assert self._fd is not None
        written = os.write(self._fd, line)
        if written != len(line):
            raise OSError(errno.ENOSPC, f"only {written} of {len(line)} bytes were taken")
        os.fdatasync(self._fd)

    def _writes_end(self) -> int:
        assert self._fd is not None
        return os.lseek(self._fd, 0, os.SEEK_CUR)

    def _not_durable(self, error: OSError) -> NotDurable:
        return NotDurable(
            f"{self.path} could not be written: {error.strerror}",
            hint=_HINTS.get(error.errno or 0, "look after the disk, then go on: nothing has to be repaired"),
        )


class Audit(Answer, frozen=True):
    """What `verify` found. ``odd`` are (line number, why), the first hundred; ``copies`` says which backups disagree."""

    lines: int = 0
    bad: int = 0
    illegal: int = 0
    unknown: int = 0
    torn: bool = False
    odd: tuple[tuple[int, str], ...] = ()
    copies: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """0 if all is well or the last line is torn, 1 if lines are damaged, illegal, missing or changed."""
        return int(bool(self.bad or self.illegal or self.copies))


def verify(folder: Path) -> Audit:
    """Read the whole ledger in ``folder`` and compare its beginning with the backups. Raises what reading raises."""
    odd: list[tuple[int, str]] = []
    replay = Replay(lambda line, why: odd.append((line, why)) if len(odd) < 100 else None)
    lines = Lines(folder / NAME)
    try:
        for block in lines.more():
            replay.feed(block, None)
    finally:
        lines.close()
    copies = sorted((folder / "backups").glob(f"*.{NAME}")) if (folder / "backups").is_dir() else []
    differing = [f"{copy.name} {why}" for copy in copies if (why := _differs(copy, folder / NAME))]
    return Audit(
        lines=replay.lines,
        bad=replay.bad,
        illegal=replay.illegal,
        unknown=replay.unknown,
        torn=lines.torn,
        odd=tuple(odd),
        copies=tuple(differing),
    )


def _differs(copy: Path, ledger: Path) -> str:
    """Where ``ledger`` does not begin with what ``copy`` holds; empty if it does."""
    try:
        with os.fdopen(open_own(copy, os.O_RDONLY), "rb") as old, os.fdopen(open_own(ledger, os.O_RDONLY), "rb") as new:
            for number, line in enumerate(old, 1):
                if new.readline(len(line)) != line:
                    return f"differs from line {number} on"
    except FileNotFoundError:
        return "has lines, and the ledger is gone"
    except (OSError, Refused) as error:
        return f"cannot be compared: {error}"
    return ""


def _copy(source: Path, target: Path, end: int) -> None:
    """Copy the first ``end`` bytes durably into a new file of ours."""
    reading = open_own(source, os.O_RDONLY)
    try:
        writing = open_own(target, os.O_WRONLY | os.O_CREAT)
        try:
            position = 0
            while position < end:
                block = memoryview(os.pread(reading, min(BLOCK_BYTES, end - position), position))
                if not block:
                    raise OSError(errno.EIO, "the ledger ends early")
                position += len(block)
                while block:
                    block = block[os.write(writing, block) :]
            os.fsync(writing)
        finally:
            os.close(writing)
    finally:
        os.close(reading)
