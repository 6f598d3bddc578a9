"""Stops runs from outside, whatever is left of them: a live controller, a dead one, or nothing; finds the one meant."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from orchconverge.app import handover
from orchconverge.app.minds import close_session
from orchconverge.app.start import until
from orchconverge.app.trees import AT_LOCK, Trees
from orchconverge.app.world import World, mind_name
from orchconverge.core.events import AnyFact, BranchEnded, BranchSearching, RunStopped, RunStopRequested
from orchconverge.core.seen import Ended, Lost, Running, Starting
from orchconverge.core.state import Basin, Branch, Phase, Run
from orchconverge.core.values import ControllerId, Process, Writer
from orchconverge.errors import Failed, Illegal, Refused

KINDS = ("minds", "checks", "setups", "steps")
GATES = ("gates", "gatesetups")
"""What a person's command runs at the lock."""
GRACEFUL = 6.0
AFTER_TERM = 1.0
AFTER_KILL = 2.0


def named(world: World, name: str | None, *, verb: str, wanted: Callable[[Basin], bool]) -> Basin:
    """The basin of this name, else the only one that is ``wanted``. Raises `Refused` and lists them."""
    world.ledger.catch_up()
    basins = world.ledger.state.basins
    if name is not None:
        if name not in basins:
            known = ", ".join(basins) or "none"
            raise Refused(f"no destination is called {name}", hint=f"there is: {known}")
        return basins[name]
    found = [b for b in basins.values() if wanted(b)]
    if not found:
        raise Refused(
            f"there is nothing to {verb}", hint='start one: orchconverge "what should be true when it is done"'
        )
    if len(found) > 1:
        listed = ", ".join(b.id for b in found)
        raise Refused(f"several could be meant: {listed}", hint=f"orchconverge {verb} {found[-1].id}, or --all")
    return found[0]


def steps_left(basin: Basin) -> bool:
    """Whether a round of final steps was begun and has steps to go."""
    return (
        not basin.chain.stale and basin.run is not None and not set(basin.run.settings.chain) <= set(basin.chain.names)
    )


def unfinished(basin: Basin) -> bool:
    """Whether a resume has something to do: it was run, and it is open, or converged with its run or final steps not over."""
    rest = basin.running is not None or steps_left(basin)
    return basin.run is not None and (basin.phase == "open" or (basin.phase == "converged" and rest))


def free(world: World, basin: Basin) -> Basin:
    """The basin without a controller: one that only waits until it tries a block again is stopped for this.

    Raises `Refused` if one is at work.
    """
    if not world.leases.held(f"lease/{basin.id}"):
        return basin
    run = basin.running
    if run is None or run.waiting is None or run.waiting.reason != "verdict":
        raise Refused(f"{basin.id} runs already", hint=f"orchconverge status {basin.id}")
    stop(world, basin, cleanup=False)
    return world.ledger.state.basins[basin.id]


# --- stop ------------------------------------------------------------------------------------------------------------


def stop(world: World, basin: Basin, *, cleanup: bool) -> str:
    """Stop a run: ask, then TERM, then KILL. Returns in a sentence what was done.

    Of what it started nothing runs on but what the kernel cannot kill. Raises `Failed` if its controller cannot be ended
    from here, as on another host.
    """
    said = f"{basin.id} does not run"
    if basin.running is not None:
        said = _stop_run(world, basin.id, basin.running, cleanup=cleanup)
    elif (
        world.leases.held(f"lease/{basin.id}") is not False
    ):  # one that is just ending or beginning, or nobody can tell
        until(world, lambda: world.leases.held(f"lease/{basin.id}") is False, seconds=GRACEFUL)
    with _lock_empty(world, basin) as empty:
        end_processes(world, supervised(world, basin.id, KINDS + GATES if empty else KINDS))
        if cleanup:
            said += f"; {_clean(world, basin.id, lock=empty)}"
    return said


@contextmanager
def _lock_empty(world: World, basin: Basin) -> Iterator[bool]:
    """Whether nobody is at the lock: then what runs there is of a command that was killed, and nobody comes meanwhile."""
    lease = world.leases.take(f"graft/{basin.target}")
    try:
        yield lease is not None
    finally:
        if lease is not None:
            lease.release()


def _stop_run(world: World, name: str, run: Run, *, cleanup: bool) -> str:
    def over() -> bool:
        return world.ledger.state.basins[name].running is None

    def gone() -> bool:  # it lets go of its lease a moment before it is gone
        return not world.leases.held(f"lease/{name}") and not _signal(world, driver(), 0)

    def driver() -> ControllerId:
        now = world.ledger.state.basins[name].running
        return (now or run).controller

    if not run.stop_requested:
        _record(world, RunStopRequested(basin=name, cleanup=cleanup), unless=over, writer="cli")
    how = "stopped"
    if not gone():
        _signal(world, driver(), signal.SIGTERM)
        if not until(world, lambda: over() and gone(), seconds=GRACEFUL):
            how = "did not stop by itself and was ended"
            end_processes(world, supervised(world, name))
            if not until(world, lambda: over() and gone(), seconds=AFTER_TERM):
                _signal(world, driver(), signal.SIGKILL)
                if not until(world, gone, seconds=AFTER_KILL):
                    found = driver()
                    raise Failed(
                        f"the controller of {name} cannot be ended from here (pid {found.pid} on {found.host})",
                        hint="it was asked to stop and does so when it looks; if it hangs, end it there",
                    )
    world.ledger.catch_up()
    if not over():
        _record_the_end(world, name, over)
        how = "had no controller, its end is recorded" if how == "stopped" else how
    return f"{name} {how}"


def _record(world: World, fact: AnyFact, *, unless: Callable[[], bool], writer: Writer = "recovery") -> None:
    """Append a fact of a run that others may be ending too: what is not legal any more, since they did, is no error."""
    try:
        world.ledger.append(fact, writer=writer)
    except Illegal:
        world.ledger.catch_up()
        if not unless():
            raise


def _signal(world: World, controller: ControllerId, number: int) -> bool:
    """Signal exactly the process that wrote `run.started`; 0 only asks. False if it does not live, as far as we can see."""
    return world.host.signal(Process(boot=controller.boot, pid=controller.pid, start=controller.start), number)


def supervised(world: World, name: str, kinds: Sequence[str] = KINDS) -> list[str]:
    """All supervised names of a basin, those that were prepared and never begun included."""
    return [found for kind in kinds for found in world.supervisors.found(f"{kind}/{name}.")]


def end_processes(world: World, names: Sequence[str]) -> None:
    """End supervised trees: TERM by their supervisors, then KILL. What was not begun is withdrawn."""
    stop, probe = world.supervisors.stop, world.supervisors.probe
    asked = {one: stop(one) for one in names}
    left = [one for one in names if not asked[one] or isinstance(probe(one), Running | Starting)]

    def live() -> list[str]:
        asked.update({one: stop(one) for one in left if not asked[one]})
        return [one for one in left if not asked[one] or isinstance(probe(one), Running | Starting)]

    until(world, lambda: not live(), seconds=AFTER_TERM, watched=left)
    for one in live():
        world.supervisors.kill(one)
    for one in names:
        if isinstance(probe(one), Lost):
            world.supervisors.kill(one)


def _record_the_end(world: World, name: str, over: Callable[[], bool]) -> None:
    """With no controller left: end what runs, record the ends of its minds, and that the run is over."""
    lease = world.leases.take(f"lease/{name}", wait_seconds=AFTER_TERM)
    if lease is None:
        raise Failed(f"another controller takes {name} over", hint=f"orchconverge stop {name} once more")
    try:
        end_processes(world, supervised(world, name))
        world.ledger.catch_up()
        attempt = world.ledger.state.basins[name].attempt
        for branch in [world.ledger.state.branches[b] for b in attempt.branches] if attempt is not None else []:
            probe = world.supervisors.probe(mind_name(branch.id))
            if branch.phase is Phase.SPAWNED and isinstance(probe, Ended | Lost):
                process = probe.process or Process(boot="", pid=0, start=0)
                fact = BranchSearching(basin=name, branch=branch.id, session="", process=process)
                _record(world, fact, unless=over)
            now = world.ledger.state.branches[branch.id]
            if now.may_run and now.phase is not Phase.SPAWNED:
                _record(world, end_of(world, branch, probe), unless=over)
        stopped = RunStopped(basin=name, reason="stopped", text="recorded after its controller")
        _record(world, stopped, unless=over)
    finally:
        lease.release()


def end_of(world: World, branch: Branch, probe: object) -> BranchEnded:
    """The end of a mind as its supervisor left it, for a branch that no controller follows any more."""
    head = world.git.resolve(f"refs/heads/{branch.git_branch}") or branch.base
    found = probe.exit if isinstance(probe, Ended) else None
    return BranchEnded(
        basin=branch.basin,
        branch=branch.id,
        reason="lost" if found is None else "killed" if found.reason == "refused" else found.reason,
        seconds=found.seconds if found is not None else 0.0,
        head=head,
        exit=found.code if found is not None else None,
        signal=found.signal if found is not None else None,
    )


def _clean(world: World, name: str, *, lock: bool) -> str:
    """Remove sessions and worktrees of ours, after everything in them is on a ref, and what holds an environment.

    State, logs and commits stay; so do the trees at the lock, unless that is asked for.
    """
    sessions, trees = 0, Trees(world, name)
    throwaway = [trees, Trees(world, name, own=AT_LOCK)] if lock else [trees]
    state = world.ledger.state
    run = state.basins[name].run
    for session in {b.session for b in state.branches_of(name)} | ({run.controller.tmux} if run is not None else set()):
        if session and world.panes.alive(session) is not False:
            close_session(world, session)
            sessions += 1
    minds = [b for b in state.branches_of(name) if b.place == "fresh" and Path(b.worktree).is_dir()]
    kept = [Path(b.worktree) for b in minds if not trees.remove_mind(b)]
    checked = [path for each in throwaway for path in each.checked()]
    for each in throwaway:
        each.remove_checked()
        kept += each.checked()
    handover.drop(world.state, name)
    said = f"{sessions} sessions and {len(minds) + len(checked) - len(kept)} worktrees removed"
    if kept:
        said += f"; not removed, `orchconverge logs` says why: {', '.join(map(str, kept))}"
    return f"{said}; state, logs and commits are kept"
