"""What looking at a goal takes, without click: the status path costs little more than its reading."""

from __future__ import annotations

import gc
import sys
import time
from collections import deque
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from orchconverge import bootstrap, processes
from orchconverge.adapters.tmux_socket import answers, attach_line
from orchconverge.core.needs import Damage
from orchconverge.core.projection import Probes, Projection, exit_code, project
from orchconverge.core.standing import shown_first
from orchconverge.core.state import Basin, State
from orchconverge.core.views import status as view
from orchconverge.errors import Refused

if TYPE_CHECKING:
    from orchconverge.adapters.ledger import FileLedger
    from orchconverge.core.events import AnyFact
    from orchconverge.ports import Leases, Ledger
    from orchconverge.whereabouts import Places

RECENT = 50


def show(
    basin: str | None = None,
    *,
    verbose: bool = False,
    as_json: bool = False,
    line: bool = False,
    with_code: bool = False,
) -> int:
    """Print how far a goal has got, and return the exit code. Stores nothing, starts nothing."""
    gc.disable()  # 10,000 facts are read, and the process ends right after
    reader = bootstrap.reader(bootstrap.here())
    state = reader.ledger.state
    chosen = chosen_of(state, basin)
    shown = project(
        state,
        probes=probes(reader.ledger, reader.places, reader.locks, deep=verbose or as_json),
        now=_local(reader),
        recent=_recent(reader.ledger) if as_json else (),
        details=as_json,
        basin=chosen.id if chosen is not None else None,
    )
    if as_json:
        sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(shown)) + b"\n")
    elif line:
        print(view.line(shown))
    elif chosen is None:
        print(view.nothing())
    else:
        print(view.verbose(shown) if verbose else view.block(shown))
    if not with_code or chosen is None:
        return 0
    return exit_code(state, chosen.id, lease=reader.locks.held(f"lease/{chosen.id}"))


def _recent(ledger: FileLedger) -> list[AnyFact]:
    """The newest facts, for the list of events."""
    from orchconverge.core.upcast import Damaged, Newer, decode

    lines = deque(ledger.show(), maxlen=RECENT)
    return [fact for line in lines if not isinstance(fact := decode(line), Damaged | Newer)]


def told_by(ledger: FileLedger) -> Iterator[AnyFact]:
    """Every fact of the ledger, in order; damaged lines and those of a newer version are left out."""
    from orchconverge.core.upcast import Damaged, Newer, decode

    return (fact for line in ledger.show() if not isinstance(fact := decode(line), Damaged | Newer))


def _local(reader: bootstrap.Reader) -> datetime:
    return reader.clock.now().astimezone()


def chosen_of(state: State, name: str | None) -> Basin | None:
    """The basin of this name, else `shown_first`; ``None`` if there is none. Raises `Refused`."""
    if name is None:
        return shown_first(state)
    if name not in state.basins:
        raise Refused(f"no destination is called {name}", hint=f"there is: {', '.join(state.basins) or 'none'}")
    return state.basins[name]


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


def block(ledger: Ledger, places: Places, locks: Leases, basin: str) -> str:
    """The status block of one basin, as the starting command prints it."""
    ledger.catch_up()
    shown: Projection = project(
        ledger.state,
        probes=probes(ledger, places, locks, deep=False),
        now=datetime.now().astimezone(),
        basin=basin,
    )
    return view.block(shown)


def code_of(state: State, basin: str, *, lease: bool | None = None) -> int:
    """The exit code that says how a basin stands."""
    return exit_code(state, basin, lease=lease)


def waits_for(ledger: Ledger, places: Places, locks: Leases, basin: str) -> str:
    """What a basin waits for now, in the words of `status`."""
    shown = project(
        ledger.state, probes=probes(ledger, places, locks, deep=False), now=datetime.now().astimezone(), basin=basin
    )
    one = shown.basin(basin)
    return one.waits_for.what if one is not None else ""
