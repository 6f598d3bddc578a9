"""A ledger followed for a view, and what may be asked of the machine for one. Without textual or click: `status` uses it too."""

from __future__ import annotations

import time
from collections import deque
from datetime import datetime
from typing import TYPE_CHECKING

from orchconverge import processes
from orchconverge.adapters.tmux_socket import answers, attach_line
from orchconverge.core.needs import Damage
from orchconverge.core.projection import EVENTS_AT_MOST, Probes, Projection, project
from orchconverge.errors import OrchConvergeError

if TYPE_CHECKING:
    from orchconverge.adapters.ledger import FileLedger
    from orchconverge.bootstrap import Reader
    from orchconverge.core.events import AnyFact
    from orchconverge.core.state import State
    from orchconverge.ports import Leases, Ledger
    from orchconverge.whereabouts import Places


class Live:
    """A ledger followed for a view: never opened for writing. Belongs to one thread."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self._recent: deque[AnyFact] | None = None
        self._mark: tuple[int, ...] = ()

    @property
    def repo(self) -> str:
        """What a person calls the repository."""
        return self.reader.repository.main_root.name

    @property
    def state(self) -> State:
        """What the ledger said when it was read last. Raises `Unreadable`."""
        return self.reader.ledger.state

    def grown(self) -> bool:
        """Whether the file is another one than when it was read last: one stat. A file that cannot be looked at has grown."""
        return self._looked() != self._mark or not self._mark

    def project(self, now: datetime | None = None, *, basin: str | None = None) -> Projection:
        """Read on, ask the machine, and return everything that is shown. Raises `Refused` and `Unreadable`.

        ``now`` is aware and in the reader's zone, by default this moment; ``basin`` as in `core.projection.project`.
        A ledger that is there again after it could not be read is read from its beginning.
        """
        try:
            return self._projected(now, basin)
        except OrchConvergeError:
            self._mark = ()
            if not self._begun_again():
                raise
            return self._projected(now, basin)

    def _begun_again(self) -> bool:
        """Have the ledger read anew, if it has lines that can be read: one that was lost once is never read on."""
        from orchconverge.adapters.ledger import FileLedger

        fresh = FileLedger(self.reader.places.state, self.reader.clock)
        try:
            if not fresh.seq:
                return False
        except (OrchConvergeError, OSError):
            return False
        self.reader.ledger.close()
        self.reader, self._recent = self.reader._replace(ledger=fresh), None
        return True

    def _projected(self, now: datetime | None, basin: str | None) -> Projection:
        reader, mark = self.reader, self._looked()
        if self._recent is None:
            _ = self.state  # the first use folds the file and does not hold it
            self._recent = deque(recent(reader.ledger), maxlen=EVENTS_AT_MOST)
        last = self._recent[-1].seq if self._recent else 0
        self._recent.extend(fact for fact in reader.ledger.catch_up() if fact.seq > last)
        self._mark = mark
        return project(
            self.state,
            probes=probes(reader.ledger, reader.places, reader.locks, deep=True),
            now=now if now is not None else reader.clock.now().astimezone(),
            recent=tuple(self._recent),
            basin=basin,
        )

    def _looked(self) -> tuple[int, ...]:
        try:
            info = self.reader.ledger.path.lstat()
        except FileNotFoundError:
            return (0,)
        except OSError:
            return ()
        return (info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_mode)


def recent(ledger: FileLedger) -> list[AnyFact]:
    """The newest facts, oldest first, for the list of events."""
    from orchconverge.core.upcast import Damaged, Newer, decode

    lines = deque(ledger.show(), maxlen=EVENTS_AT_MOST)
    return [fact for line in lines if not isinstance(fact := decode(line), Damaged | Newer)]


def probes(ledger: Ledger, places: Places, locks: Leases, *, deep: bool) -> Probes:
    """What may be asked of the machine: leases and sockets; ages of logs and live minds only where they are shown."""
    state, health = ledger.state, ledger.health
    leases: dict[str, bool | None] = {}
    tmux: dict[str, bool | None] = {}
    attach: dict[str, str] = {}
    for basin in state.basins.values():
        run = basin.run
        if run is None:
            continue
        if run.open:
            leases[basin.id] = locks.held(f"lease/{basin.id}")
            if run.controller.tmux and run.controller.socket:
                tmux[basin.id] = answers(run.controller.socket)
        if run.open and run.controller.tmux and run.controller.socket:
            attach[basin.id] = attach_line(run.controller.socket, run.controller.tmux)
    newest = max((b.active_at for b in state.basins.values() if b.active_at is not None), default=None)
    return Probes(
        leases=leases,
        tmux=tmux,
        minds=_minds(state) if deep else {},
        silent=_silent(state, places) if deep else {},
        attach=attach,
        ledger=Damage(
            bad=health.bad,
            lines=health.lines,
            illegal=health.illegal,
            unknown=health.unknown,
            torn=health.torn,
        ),
        seq=health.lines,
        newest=newest,
    )


def _minds(state: State) -> dict[str, int | None]:
    """How many minds of each open run live, by process: boot, pid and start time have to agree."""
    found: dict[str, int | None] = {}
    for basin in state.open_runs:
        branches = [state.branches[b] for b in basin.attempt.branches] if basin.attempt is not None else []
        minds = [b.process for b in branches if b.process is not None and b.reason is None]
        found[basin.id] = sum(processes.alive(process) for process in minds)
    return found


def _silent(state: State, places: Places) -> dict[str, float]:
    try:
        age = time.time() - (places.state / "logs" / "system.log").stat().st_mtime
    except OSError:
        return {}
    return {basin.id: max(0.0, age) for basin in state.open_runs}
