"""Runs a controller: takes the basin's lease, records the run, drives to its end, leaves nothing behind."""

from __future__ import annotations

from orchconverge.app.controller import Controller
from orchconverge.app.minds import close_session
from orchconverge.app.world import World
from orchconverge.core.events import RunStarted
from orchconverge.core.state import UNSETTLED, Run
from orchconverge.core.values import ControllerId, Limits, Settings
from orchconverge.core.views.text import counted
from orchconverge.errors import Failed, Illegal, Refused

LEASE_WAIT = 3.0
"""Seconds to wait for the lease of a controller that is just ending."""


def drive(world: World, basin: str, settings: Settings, limits: Limits, *, tmux: str = "", socket: str = "") -> None:
    """Drive ``basin`` until its run is over. Raises `Failed` if another controller has it, `Refused` if it may not run now."""
    lease = world.leases.take(f"lease/{basin}", wait_seconds=LEASE_WAIT)
    if lease is None:
        raise Failed(f"another controller drives {basin}", hint="orchconverge status")
    try:
        host, me = world.host.identity()
        record = world.ledger.state.basins[basin]
        open_run = record.running
        fact = RunStarted(
            basin=basin,
            run=world.host.random().replace("-", "")[:12],
            controller=ControllerId(host=host, boot=me.boot, pid=me.pid, start=me.start, tmux=tmux, socket=socket),
            settings=settings,
            limits=limits,
            takesOver=open_run.id if open_run is not None else None,
            fingerprint=_known(record.run) or _fingerprint(world),
        )
        controller = Controller(world, basin)
        try:
            controller.write(fact)
        except Illegal as error:  # somebody was faster: what was looked for at the door is only certain under the lock
            raise Refused(
                error.message, hint="`orchconverge status` shows what runs; wait for it, or stop it"
            ) from error
        announce(world, settings, limits)
        controller.run()
        close_sessions(world, basin)
        world.ledger.backup()
    finally:
        lease.release()


def _known(before: Run | None) -> str:
    """What git ran with in the run before; empty where there was none, or where a person stopped it to look at that."""
    looked_at = before is not None and before.tampered and not before.open
    return before.fingerprint if before is not None and not looked_at else ""


def _fingerprint(world: World) -> str:
    """What git runs with now; empty if it does not answer: the controller then asks it again."""
    try:
        return world.git.fingerprint()
    except (Failed, OSError):
        return ""


def announce(world: World, settings: Settings, limits: Limits) -> None:
    """Say what may be started, before it is."""
    attempts = f"up to {counted(limits.attempts, 'attempt')}" if limits.attempts is not None else "no limit of attempts"
    hours = f", {limits.hours:g} h" if limits.hours is not None else ""
    place = f"in place in {settings.checkout}" if settings.place == "here" else "in worktrees of its own"
    world.journal.say(
        f"{attempts}{hours}, {counted(settings.minds, 'mind')} each, deadline {settings.attemptSeconds / 60:g} min, "
        f"engine {', '.join(settings.engines)}, {place}; no sandbox: a mind can do what you can"
    )


def close_sessions(world: World, basin: str) -> None:
    """Close the tmux sessions of minds that are settled."""
    for branch in world.ledger.state.branches_of(basin):
        if branch.session and branch.phase not in UNSETTLED:
            close_session(world, branch.session)
