"""`status`, `wait` and `attach`: reading only, and all of it also when tmux, the session or the state is gone."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TYPE_CHECKING

import click

from orchconverge import bootstrap
from orchconverge.adapters.tmux_socket import answers, attach_line
from orchconverge.cli.look import block, chosen_of, code_of, show, waits_for
from orchconverge.core.standing import FOR_A_PERSON
from orchconverge.core.views.text import clean
from orchconverge.errors import Refused

if TYPE_CHECKING:
    from orchconverge.adapters.journal_screen import Screen

WAIT_POLL = 0.25
TIMED_OUT = 124
"""As of timeout(1)."""
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
    return show(basin, verbose=verbose, as_json=as_json, line=line, with_code=with_code)


@click.command()
@click.argument("basin", required=False)
@click.option("--timeout", type=click.FloatRange(0), help="Seconds at most; then 124.")
def wait(basin: str | None, timeout: float | None) -> int:
    """Wait until a run is over or needs you. Exit code: 0 converged, 3 a limit, 4 stalled, 5 needs you, 1 anything else."""
    reader = bootstrap.reader(bootstrap.here())
    reader.ledger.catch_up()
    state = reader.ledger.state
    chosen = chosen_of(state, basin)
    if chosen is None:
        raise Refused("there is nothing to wait for", hint='start one: orchconverge "…"')
    if basin is None and len(state.open_runs) > 1:
        others = ", ".join(one.id for one in state.open_runs if one.id != chosen.id)
        print(f"Waits for {chosen.id}; also open: {others}.", file=sys.stderr)
    from orchconverge.adapters.journal_screen import Screen

    with contextlib.closing(Screen(sys.stderr, speaks=False)) as screen:
        return _wait(reader, chosen.id, timeout, screen)


def _wait(reader: bootstrap.Reader, name: str, timeout: float | None, screen: Screen) -> int:
    from orchconverge.app.said import searching
    from orchconverge.ports import Runs

    state, lease = reader.ledger.state, f"lease/{name}"
    begun, lost = time.monotonic(), 0.0
    while (held := reader.locks.held(lease)) or state.basins[name].running is not None:
        run = state.basins[name].running
        if run is not None and run.waiting is not None and run.waiting.reason in FOR_A_PERSON:
            break
        if timeout is not None and time.monotonic() - begun >= timeout:
            screen.close()
            said = waits_for(reader.ledger, reader.places, reader.locks, name)
            print(f"{name} is not over after {timeout:g} s. It waits for {said}", file=sys.stderr)
            return TIMED_OUT
        lost = lost + WAIT_POLL if held is False else 0.0
        if lost >= LOST_AFTER:
            screen.close()
            print(f"The controller of {name} is gone. orchconverge --resume", file=sys.stderr)
            break
        screen.runs(searching(state, state.basins[name]) or [Runs(name, since=run.started if run else None)])
        time.sleep(WAIT_POLL)
        reader.ledger.catch_up()
    screen.close()
    record = state.basins[name].run
    if record is not None and record.stopped == "refused":
        print(f"orchconverge: {clean(record.stop_text)}", file=sys.stderr)
    print(block(reader.ledger, reader.places, reader.locks, name))
    return code_of(state, name, lease=held)


@click.command()
@click.argument("basin", required=False)
@click.option("--print", "only_print", is_flag=True, help="Print the command instead of running it.")
def attach(basin: str | None, only_print: bool) -> int:
    """Attach to the tmux session of a goal."""
    reader = bootstrap.reader(bootstrap.here())
    reader.ledger.catch_up()
    chosen = chosen_of(reader.ledger.state, basin)
    run = chosen.run if chosen is not None else None
    if chosen is None or run is None or not run.controller.tmux:
        raise Refused("there is no session to attach to", hint="orchconverge status")
    if only_print:
        print(attach_line(run.controller.socket, run.controller.tmux))
        return 0
    if not run.open:
        new = f"orchconverge resume {chosen.id} starts a new one"
        over = f"orchconverge logs {chosen.id}, or orchconverge report {chosen.id}"
        raise Refused(f"the run of {chosen.id} is over", hint=new if chosen.phase == "open" else over)
    if answers(run.controller.socket) is False:
        goes_on = reader.locks.held(f"lease/{chosen.id}")
        raise Refused(
            f"the session of {chosen.id} is gone" + (", its controller goes on" if goes_on else ""),
            hint=f"orchconverge logs {chosen.id} shows what it does"
            if goes_on
            else f"orchconverge resume {chosen.id} starts a new one",
        )
    from orchconverge.adapters.tmux import Tmux

    Tmux(run.controller.socket).attach(run.controller.tmux)
    return 0
