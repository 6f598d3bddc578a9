"""Stops, resumes and awaits runs from outside, whatever is left of them: a live controller, a dead one, or nothing."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

from orchconverge.app.start import until
from orchconverge.app.world import World, mind_name, step_name
from orchconverge.core.events import BranchEnded, BranchSearching, RunStopped, RunStopRequested
from orchconverge.core.seen import Ended, Lost, Running
from orchconverge.core.state import Basin, Branch, Phase, Run
from orchconverge.core.values import ControllerId, Process
from orchconverge.errors import Refused

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


# --- stop ------------------------------------------------------------------------------------------------------------


def stop(world: World, basin: Basin, *, cleanup: bool) -> str:
    """Stop a run: ask, then TERM, then KILL. Returns what was done, in a sentence. Nothing of ours survives ten seconds."""
    said = f"{basin.id} does not run"
    if basin.running is not None:
        said = _stop_run(world, basin.id, basin.running, cleanup=cleanup)
    elif world.leases.held(f"lease/{basin.id}"):
        until(world, lambda: world.leases.held(f"lease/{basin.id}") is False, seconds=GRACEFUL)
    _end_processes(world, basin.id)
    if cleanup:
        said += f"; {_clean(world, basin.id)}"
    return said


def _stop_run(world: World, name: str, run: Run, *, cleanup: bool) -> str:
    def over() -> bool:
        return world.ledger.state.basins[name].running is None

    def gone() -> bool:
        return world.leases.held(f"lease/{name}") is False

    if not run.stop_requested:
        world.ledger.append(RunStopRequested(basin=name, cleanup=cleanup), writer="cli")
    how = "stopped"
    if world.leases.held(f"lease/{name}"):
        _signal(world, run.controller, signal.SIGTERM)
        if not until(world, lambda: over() and gone(), seconds=GRACEFUL):
            how = "did not stop by itself and was ended"
            _end_processes(world, name)
            if not until(world, lambda: over() and gone(), seconds=AFTER_TERM):
                _signal(world, run.controller, signal.SIGKILL)
                until(world, gone, seconds=AFTER_KILL)
    if not over():
        _record_the_end(world, name)
        how = "had no controller, its end is recorded" if how == "stopped" else how
    return f"{name} {how}"


def _signal(world: World, controller: ControllerId, number: int) -> None:
    """Signal exactly the process that wrote `run.started`."""
    world.host.signal(Process(boot=controller.boot, pid=controller.pid, start=controller.start), number)


def supervised(world: World, name: str) -> list[str]:
    """The supervised names of a basin that may still run."""
    basin = world.ledger.state.basins[name]
    minds = [mind_name(b.id) for b in world.ledger.state.branches_of(name)[-32:]]
    chain = basin.chain
    steps = [step_name(name, chain.round, chain.running)] if chain.running is not None else []
    return [*minds, *steps, *world.supervisors.found(f"checks/{name}."), *world.supervisors.found(f"setups/{name}.")]


def _end_processes(world: World, name: str) -> None:
    """End every supervised tree of a basin: TERM by its supervisor, then KILL."""
    names = [n for n in supervised(world, name) if isinstance(world.supervisors.probe(n), Running)]
    for one in names:
        world.supervisors.stop(one)
    until(
        world,
        lambda: not any(isinstance(world.supervisors.probe(n), Running) for n in names),
        seconds=AFTER_TERM,
        watched=names,
    )
    for one in names:
        if isinstance(world.supervisors.probe(one), Running):
            world.supervisors.kill(one)
    for one in supervised(world, name):
        if isinstance(world.supervisors.probe(one), Lost):
            world.supervisors.kill(one)


def _record_the_end(world: World, name: str) -> None:
    """With no controller left: end what runs, record the ends of its minds, and that the run is over."""
    _end_processes(world, name)
    state = world.ledger.state
    attempt = state.basins[name].attempt
    for branch in [state.branches[b] for b in attempt.branches] if attempt is not None else []:
        probe = world.supervisors.probe(mind_name(branch.id))
        if branch.phase is Phase.SPAWNED and isinstance(probe, Ended | Lost):
            process = probe.process or Process(boot="", pid=0, start=0)
            fact = BranchSearching(basin=name, branch=branch.id, session="", process=process)
            world.ledger.append(fact, writer="recovery")
        if world.ledger.state.branches[branch.id].phase is Phase.SEARCHING:
            world.ledger.append(_end_of(world, branch, probe), writer="recovery")
    world.ledger.append(
        RunStopped(basin=name, reason="stopped", text="recorded after its controller"), writer="recovery"
    )


def _end_of(world: World, branch: Branch, probe: object) -> BranchEnded:
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


def _clean(world: World, name: str) -> str:
    """Remove sessions and worktrees of ours, after everything in them is on a ref. State, logs and commits stay."""
    sessions = trees = 0
    state = world.ledger.state
    run = state.basins[name].run
    for session in {b.session for b in state.branches_of(name)} | ({run.controller.tmux} if run is not None else set()):
        if session and world.panes.alive(session):
            world.panes.close(session)
            sessions += 1
    for branch in state.branches_of(name):
        path = Path(branch.worktree)
        if branch.place == "fresh" and path.is_dir():
            world.git.snapshot(path, f"{branch.id}-leftovers")
            head = world.git.resolve(f"refs/heads/{branch.git_branch}")
            if head is not None:
                world.git.keep(branch.id, head)
            world.git.remove_worktree(path)
            trees += 1
    if world.trees.is_dir():
        for path in sorted(world.trees.iterdir()):
            if path.name.startswith((f"t-{name}.", f"g-{name}.")):
                world.git.remove_worktree(path)
                trees += 1
    return f"{sessions} sessions and {trees} worktrees removed; state, logs and commits are kept"
