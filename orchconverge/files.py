"""Files that are ours alone: 0600 in folders of 0700 whatever the umask, never through a link; their locks and their lines.

And, through no link either, files inside of trees that others may write to.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Final, NoReturn

from orchconverge.errors import Refused, Unreadable

LEAST_SECONDS: Final = 0.2
"""How long a lock is tried at least: a probe holds it for microseconds, and must not look like a holder."""
TELL_AFTER_SECONDS: Final = 1.0
BLOCK_BYTES: Final = 1 << 16  # what is decoded from it stays in the cache while it is folded
LONGEST_BYTES: Final = 64 << 20
_MARK_BYTES: Final = 256
_TOO_LONG: Final = b"(a line that was too long to be read)\n"
_SAFE: Final = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY  # O_NONBLOCK: opening a FIFO would hang
DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_ODD: Final = {errno.ELOOP: "a symbolic link", errno.ENXIO: "not a regular file", errno.EISDIR: "a directory"}


def own_folder(folder: Path) -> None:
    """Make ``folder`` and what is missing above it, 0700. Raises `Refused` if it is something else, and `OSError`."""
    if not os.path.lexists(folder.parent):
        own_folder(folder.parent)
    try:
        folder.mkdir(0o700)
    except FileExistsError:
        pass
    else:
        folder.chmod(0o700)
        sync_folder(folder.parent)
        return
    info = folder.lstat()
    if not stat.S_ISDIR(info.st_mode):
        raise _refused(folder, "a symbolic link" if stat.S_ISLNK(info.st_mode) else "not a folder")
    if info.st_uid != os.geteuid():
        raise _refused(folder, f"owned by user {info.st_uid}, not by us ({os.geteuid()})")


def sync_folder(folder: Path) -> None:
    """Make the names in ``folder`` durable. Raises `OSError`."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def open_own(path: Path, flags: int) -> int:
    """Open a regular file of ours; with ``O_CREAT`` in ``flags`` it is made 0600 if it is missing.

    Raises `Refused` for a link, a second hard link, a FIFO, a device or somebody else's file, and `OSError`.
    """
    create = bool(flags & os.O_CREAT)
    flags = (flags & ~os.O_CREAT) | _SAFE
    while True:
        made = False
        try:
            fd = os.open(path, flags)
        except FileNotFoundError:
            if not create:
                raise
            try:
                fd, made = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o600), True
            except FileExistsError:  # another process was faster
                continue
        except OSError as error:
            if error.errno in _ODD:
                raise _refused(path, _ODD[error.errno]) from error
            raise
        try:
            if made:
                os.fchmod(fd, 0o600)
            info = os.fstat(fd)
            if not stat.S_ISREG(info.st_mode):
                raise _refused(path, "not a regular file")
            if info.st_uid != os.geteuid():
                raise _refused(path, f"owned by user {info.st_uid}, not by us ({os.geteuid()})")
            if info.st_nlink > 1:
                raise _refused(path, "a file with a second hard link")
        except BaseException:
            os.close(fd)
            raise
        if info.st_nlink or not create:
            return fd
        os.close(fd)  # it was removed while it was opened


def write_own(path: Path, data: bytes, *, drafts: Path | None = None, last: Callable[[], None] | None = None) -> None:
    """Put a file of ours in place whole, readable by this user alone from its first byte on, through no link.

    The draft lies beside it, or in ``drafts`` on the same file system, as ``.new-…``. ``last`` is called when the draft is
    whole and before it takes the place of what is there. Raises `OSError`; then what is there stays.
    """
    draft = (path.parent if drafts is None else drafts) / f".new-{os.getpid()}-{os.urandom(6).hex()}"
    try:
        fd = os.open(draft, _NEW, 0o600)
        with os.fdopen(fd, "wb") as file:
            os.fchmod(fd, 0o600)  # a umask can also take away too much
            file.write(data)
        if last is not None:
            last()
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def write_inside(root: Path, path: str, data: bytes) -> None:
    """Replace one regular file below ``root``, following no link on the way. Raises `Refused`."""
    *parents, name = PurePosixPath(path).parts
    temporary = f".{os.urandom(8).hex()}.tmp"
    with contextlib.ExitStack() as opened:
        try:
            folder = os.open(root, DIRECTORY)
            opened.callback(os.close, folder)
            for part in parents:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, dir_fd=folder)
                folder = os.open(part, DIRECTORY, dir_fd=folder)
                opened.callback(os.close, folder)
            with contextlib.suppress(FileNotFoundError):
                if not stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                    raise Refused(f"{path} in {root} is not a regular file")
            with open(os.open(temporary, _NEW, 0o666, dir_fd=folder), "wb") as file:  # noqa: PTH123 - a descriptor
                file.write(data)
            os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError as error:
            raise Refused(f"{path} cannot be written in {root}: {error.strerror}") from error


def open_inside(root: Path, path: str, flags: int) -> int:
    """Open what lies below ``root``, following no link on the way and not waiting for a pipe. Raises `OSError`."""
    *parents, name = PurePosixPath(path).parts
    with contextlib.ExitStack() as opened:
        folder = os.open(root, DIRECTORY)
        opened.callback(os.close, folder)
        for part in parents:
            folder = os.open(part, DIRECTORY, dir_fd=folder)
            opened.callback(os.close, folder)
        return os.open(name, flags | _SAFE, dir_fd=folder)


class OwnLock:
    """The `flock` on a file of ours. It is the process's, not a thread's; a forked child opens the file for itself."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd: int | None = None
        self._pid = 0

    def take(self, *, wait_seconds: float, waiting: Callable[[], None] | None = None) -> bool:
        """Take it; False if somebody holds it until the wait is over. Raises what `open_own` raises.

        It tries for at least `LEAST_SECONDS`, and calls ``waiting`` once after a second. Polled, not blocked: a holder that
        was stopped (SIGSTOP, a hung disk) must not hold everybody for ever.
        """
        start = time.monotonic()
        pause = 0.0003
        while True:
            fd = self._open()
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                waited = time.monotonic() - start
                if waited >= max(wait_seconds, LEAST_SECONDS):
                    return False
                if waiting is not None and waited >= TELL_AFTER_SECONDS:
                    waiting()
                    waiting = None
                time.sleep(pause * (0.5 + time.monotonic_ns() % 1000 / 1000))  # spread, or all come at once
                pause = min(pause * 1.5, 0.02 if waited > TELL_AFTER_SECONDS else 0.003)
                continue
            if os.fstat(fd).st_nlink:
                return True
            self.close()  # the file was removed meanwhile: others lock the new one

    def release(self) -> None:
        """Give it back, and keep the file open for the next time."""
        if self._fd is not None:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        """Give it back for good, also where a forked child has inherited the descriptor. A second time is not an error."""
        if self._fd is not None:
            fd, self._fd = self._fd, None
            try:
                if self._pid == os.getpid():
                    fcntl.flock(fd, fcntl.LOCK_UN)
            finally:
                os.close(fd)

    def _open(self) -> int:
        if self._fd is None or self._pid != os.getpid():
            self.close()
            self._fd = open_own(self._path, os.O_RDWR | os.O_CREAT)
            self._pid = os.getpid()
        return self._fd


class Lines:
    """The whole lines of a file that only grows, from where the last read stopped. A missing file has none.

    Raises `Unreadable` for a file that cannot be read, and from then on for one that shrank or was replaced while it was
    read; `Refused` where it is no regular file of ours. A line of more than ``longest_bytes`` is not held: one that says so
    comes in its place.
    """

    def __init__(self, path: Path, *, longest_bytes: int = LONGEST_BYTES) -> None:
        self.path = path
        self._longest = longest_bytes
        self.offset = 0
        """Where the first line begins that was not read yet, in bytes."""
        self.size = 0
        """How large the file was when it was last looked at, in bytes."""
        self._least = 0
        self._mark = b""
        self._fd: int | None = None
        self._identity = (0, 0)
        self._lost = ""

    @property
    def torn(self) -> bool:
        """Whether the file ended in a part of a line when it was last looked at."""
        return self.size > self.offset

    @property
    def identity(self) -> tuple[int, int]:
        """Device and inode of the file that is read."""
        return self._identity

    def close(self) -> None:
        """Give the descriptor back."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def rewind(self) -> None:
        """Begin again at the first line of the same file, which may not be shorter than what was read of it."""
        self._least = max(self._least, self.offset)
        self.offset, self._mark = 0, b""

    def passed(self, line: bytes) -> None:
        """Take note of a line that this process has appended at the end."""
        self.offset += len(line)
        self.size = self.offset
        self._mark = line[-_MARK_BYTES:]

    def more(self) -> Iterator[bytes]:
        """Blocks of whole lines, each ending in a newline."""
        try:
            yield from self._more()
        except OSError as error:
            raise Unreadable(
                f"{self.path} cannot be read: {error.strerror}",
                hint="that is not an empty ledger; nothing goes on until it can be read",
            ) from error

    def _more(self) -> Iterator[bytes]:
        if not self._look():
            return
        assert self._fd is not None
        position = self.offset
        held: list[bytes] = []  # of a line that is longer than what was read so far
        held_bytes = 0
        mark = self._mark  # what was read last stands before it, or it is another file
        while position < self.size:
            chunk = os.pread(self._fd, BLOCK_BYTES + len(mark), position - len(mark))
            if not chunk.startswith(mark) or len(chunk) == len(mark):
                self._lose("is not the file it was")
            chunk, mark = chunk[len(mark) :], b""
            position += len(chunk)
            cut = chunk.rfind(b"\n") + 1
            if not cut:
                held_bytes += len(chunk)
                held = [*held, chunk] if held_bytes <= self._longest else []
                continue
            block = chunk[:cut]
            if held_bytes > self._longest:
                block = _TOO_LONG + block[block.find(b"\n") + 1 :]
            elif held:
                block = b"".join((*held, block))
            held = [chunk[cut:]] if cut < len(chunk) else []
            held_bytes = len(chunk) - cut
            self.offset = position - held_bytes
            self._mark = block[-_MARK_BYTES:]
            yield block
        self.size = max(self.size, position)

    def _look(self) -> bool:
        """Find out whether there is more than was read."""
        if self._lost:
            self._lose(self._lost)
        try:
            info = self.path.lstat()
        except FileNotFoundError:
            if self._fd is None:
                return False
            self._lose("is gone")
        if self._fd is None:
            self._fd = open_own(self.path, os.O_RDONLY)
            info = os.fstat(self._fd)
            self._identity = (info.st_dev, info.st_ino)
        elif (info.st_dev, info.st_ino) != self._identity:
            self._lose("was replaced by another file")
        if info.st_size < max(self.offset, self._least):
            self._lose(f"shrank to {info.st_size} bytes, of which {max(self.offset, self._least)} were read")
        self.size = info.st_size
        return self.size > self.offset

    def _lose(self, what: str) -> NoReturn:
        self._lost = what
        raise Unreadable(
            f"{self.path} {what} while it was in use",
            hint="put it back (copies are in backups/; see `orchconverge ledger verify`), then start again",
        )


def _refused(path: Path, what: str) -> Refused:
    return Refused(
        f"{path} is {what}; nothing is read from it or written to it",
        hint="move it away, or choose another place with ORCHCONVERGE_STATE_DIR",
    )
