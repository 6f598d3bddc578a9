"""`status`, `wait`, `attach` and `logs`: reading only, and all of it also when tmux, the session or the state is gone."""

from __future__ import annotations

import gc
import sys
import time
from datetime import datetime
from typing import TYPE_CHECKING

import click
import msgspec

from orchconverge import bootstrap, processes
from orchconverge.adapters.tmux_socket import answers, attach_line
from orchconverge.core.needs import Damage
from orchconverge.core.projection import Probes, Projection, exit_code, project
from orchconverge.core.state import Basin, State
from orchconverge.core.views import status as view
from orchconverge.errors import Refused

if TYPE_CHECKING:
    from orchconverge.ports import Leases, Ledger
    from orchconverge.whereabouts import Places

WAIT_POLL = 0.25
LOST_AFTER = 5.0
"""Seconds that a run may be open with nobody holding its lease before `wait` says that its controller is lost."""


@click.command()
@click.argument("basin", required=False)
@click.option("--verbose", "-v", is_flag=True, help="Also evidence, health, sessions, paths.")
@click.option("--json", "as_json", is_flag=True, help="Everything that is known, as one JSON object.")
@click.option("--line", is_flag=True, help="One short line, for a prompt or a status bar.")
@click.option("--exit-code", "with_code", is_flag=True, help="Leave with the code that says how it stands.")
def status(basin: str | None, verbose: bool, as_json: bool, line: bool, with_code: bool) -> int:
    """Show how far a goal has got. Stores nothing, starts nothing."""
    gc.disable()  # 10,000 facts are read, and the process ends right after
    reader = bootstrap.reader(bootstrap.here())
    facts = reader.ledger.catch_up()
    state = reader.ledger.state
    chosen = _chosen(state, basin)
    shown = project(
        state,
        probes=probes(reader.ledger, reader.places, reader.locks, deep=verbose or as_json),
        now=_local(reader),
        recent=facts[-50:],
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
    return exit_code(state, chosen.id) if with_code and chosen is not None else 0


def _local(reader: bootstrap.Reader) -> datetime:
    return reader.clock.now().astimezone()


def _chosen(state: State, name: str | None) -> Basin | None:
    if name is None:
        return state.newest
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


def code_of(state: State, basin: str) -> int:
    """The exit code that says how a basin stands."""
    return exit_code(state, basin)


@click.command()
@click.argument("basin", required=False)
@click.option("--timeout", type=click.FloatRange(0), help="Seconds at most; then 124.")
def wait(basin: str | None, timeout: float | None) -> int:
    """Wait until a run is over; leave with its code: 0 converged, 3 a limit, 4 stalled, 5 waits for you, 1 anything else."""
    reader = bootstrap.reader(bootstrap.here())
    reader.ledger.catch_up()
    state = reader.ledger.state
    chosen = _chosen(state, basin)
    if chosen is None:
        raise Refused("there is nothing to wait for", hint='start one: orchconverge "…"')
    begun, lost = time.monotonic(), 0.0
    while state.basins[chosen.id].running is not None or reader.locks.held(f"lease/{chosen.id}"):
        if timeout is not None and time.monotonic() - begun >= timeout:
            return 124
        held = reader.locks.held(f"lease/{chosen.id}")
        lost = lost + WAIT_POLL if held is False else 0.0
        if lost >= LOST_AFTER:
            print(f"The controller of {chosen.id} is gone. orchconverge --resume", file=sys.stderr)
            return 1
        time.sleep(WAIT_POLL)
        reader.ledger.catch_up()
    record = state.basins[chosen.id].run
    if record is not None and record.stopped == "refused":
        print(f"orchconverge: {record.stop_text}", file=sys.stderr)
    print(block(reader.ledger, reader.places, reader.locks, chosen.id))
    return code_of(state, chosen.id)


@click.command()
@click.argument("basin", required=False)
@click.option("--print", "only_print", is_flag=True, help="Print the command instead of running it.")
def attach(basin: str | None, only_print: bool) -> int:
    """Attach to the tmux session of a goal."""
    reader = bootstrap.reader(bootstrap.here())
    reader.ledger.catch_up()
    chosen = _chosen(reader.ledger.state, basin)
    run = chosen.run if chosen is not None else None
    if chosen is None or run is None or not run.controller.tmux:
        raise Refused("there is no session to attach to", hint="orchconverge status")
    if only_print:
        print(attach_line(run.controller.socket, run.controller.tmux))
        return 0
    if answers(run.controller.socket) is False or not run.open:
        raise Refused(f"the session of {chosen.id} is gone", hint=f"orchconverge resume {chosen.id} starts a new one")
    from orchconverge.adapters.tmux import Tmux

    Tmux(run.controller.socket).attach(run.controller.tmux)
    return 0


@click.command()
@click.argument("name", required=False)
@click.option("--raw", is_flag=True, help="The bytes as they are: escape sequences reach your terminal.")
def logs(name: str | None, raw: bool) -> int:
    """Print the controller's log, or the output of a branch (`auth.3`)."""
    from orchconverge.core.views.text import clean

    reader = bootstrap.reader(bootstrap.here())
    reader.ledger.catch_up()
    if name is not None and name in reader.ledger.state.branches:
        from orchconverge.adapters.supervisors import Supervisors
        from orchconverge.app.world import mind_name

        data = Supervisors(reader.places.minds).log(mind_name(name), most_bytes=64 << 20)
    elif name is None or name in reader.ledger.state.basins:
        path = reader.places.state / "logs" / "system.log"
        data = path.read_bytes() if path.is_file() else b""
    else:
        raise Refused(f"no branch or destination is called {name}", hint="orchconverge status --verbose lists them")
    if raw:
        sys.stdout.buffer.write(data)
    else:
        print(clean(data.decode("utf-8", "replace"), keep="\n\t"), end="")
    return 0
