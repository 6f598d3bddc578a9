"""What looking at a goal takes, without click: the status path costs little more than its reading."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from orchconverge import bootstrap, whereabouts
from orchconverge.core.projection import Projection, exit_code, project
from orchconverge.core.standing import shown_first
from orchconverge.core.state import Basin, State
from orchconverge.core.views import status as view
from orchconverge.errors import Refused
from orchconverge.tui.live import probes, recent

if TYPE_CHECKING:
    from orchconverge.adapters.ledger import FileLedger
    from orchconverge.core.events import AnyFact
    from orchconverge.ports import Leases, Ledger
    from orchconverge.whereabouts import Places


def show(
    basin: str | None = None,
    *,
    verbose: bool = False,
    as_json: bool = False,
    line: bool = False,
    with_code: bool = False,
) -> int:
    """Print how far a goal has got, and return the exit code. Stores nothing, starts nothing."""
    if line and whereabouts.repository(bootstrap.here()) is None:
        return 0  # a prompt asks in every folder
    gc.disable()  # 10,000 facts are read, and the process ends right after
    reader = bootstrap.reader(bootstrap.here())
    state = reader.ledger.state
    chosen = chosen_of(state, basin)
    shown = project(
        state,
        probes=probes(reader.ledger, reader.places, reader.locks, deep=verbose or as_json),
        now=_local(reader),
        recent=recent(reader.ledger) if as_json else (),
        details=as_json,
        basin=chosen.id if chosen is not None else None,
    )
    plain = (sys.stdout.encoding or "").lower().replace("-", "") != "utf8"
    if as_json:
        sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(shown)) + b"\n")
    elif line:
        print(view.line(shown, ascii=plain))
    elif chosen is None:
        print(view.nothing())
    else:
        print(view.verbose(shown, ascii=plain) if verbose else view.block(shown, ascii=plain))
    if not with_code or chosen is None:
        return 0
    return exit_code(state, chosen.id, lease=reader.locks.held(f"lease/{chosen.id}"))


def told_by(ledger: FileLedger) -> Iterator[AnyFact]:
    """Every fact of the ledger, in order; damaged lines, copies and those of a newer version are left out."""
    from orchconverge.core.upcast import Damaged, Newer, decode

    last = 0
    for line in ledger.show():
        fact = decode(line)
        if not isinstance(fact, Damaged | Newer) and fact.seq > last:
            last = fact.seq
            yield fact


def _local(reader: bootstrap.Reader) -> datetime:
    return reader.clock.now().astimezone()


def chosen_of(state: State, name: str | None) -> Basin | None:
    """The basin of this name, else `shown_first`; ``None`` if there is none. Raises `Refused`."""
    if name is None:
        return shown_first(state)
    if name not in state.basins:
        raise Refused(f"no destination is called {name}", hint=f"there is: {', '.join(state.basins) or 'none'}")
    return state.basins[name]


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
