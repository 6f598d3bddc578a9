"""Stops from outside, over fakes: whatever the controller is doing, whatever it left, and what a cleanup may take."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from orchconverge.app import control, handover, records
from orchconverge.app.admission import Admissions
from orchconverge.app.minds import Minds
from orchconverge.app.trees import AT_LOCK, Trees
from orchconverge.app.world import World, given_name, mind_name
from orchconverge.core.events import AnyFact, BranchSearching, RunStopped, RunStopRequested
from orchconverge.core.target import Sha
from orchconverge.core.values import Limits, Process, Writer
from orchconverge.errors import Failed, Refused
from orchconverge.ports import Absent, Ended, Running, Spec
from tests.fakes import simulation
from tests.fakes.faults import Crash
from tests.fakes.players import TARGET
from tests.fakes.simulation import BASIN, Simulation
from tests.fakes.story import plain, settings

OVER = RunStopped(basin=BASIN, reason="stopped", text="by itself")


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody answers here who would need the time."""
    for name in ("GRACEFUL", "AFTER_TERM", "AFTER_KILL"):
        monkeypatch.setattr(control, name, 0.05)
    monkeypatch.setattr(simulation, "MOST_WAITS", 10**9)


@pytest.fixture
def left() -> Iterator[Simulation]:
    """A run in worktrees whose controller was killed while its first mind ran."""
    made = Simulation(plain("fresh", minds=("hang",) * 9))
    made._declare()

    def killed(where: str) -> None:
        if made.machine.runs(mind_name(f"{BASIN}.1")):
            raise Crash(where)

    made.faults.point = killed  # type: ignore[method-assign]
    assert not made._drive()
    made.faults.quiet = True
    made.faults.point = lambda where: None  # type: ignore[method-assign]
    made.board.held.clear()
    yield made
    shutil.rmtree(made.folder)


def opened(left: Simulation) -> World:
    world = left.world()
    world.ledger.catch_up()
    return world


def stop(world: World, *, cleanup: bool = False) -> str:
    return control.stop(world, world.ledger.state.basins[BASIN], cleanup=cleanup)


def kept(left: Simulation, name: str) -> Sha | None:
    return left.store.refs.get(f"refs/orchconverge/keep/{name}")


def tree_of_the_mind(world: World) -> Path:
    return Path(world.ledger.state.branches[f"{BASIN}.1"].worktree)


# --- whoever else is ending it ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("overtaken", [RunStopRequested, RunStopped])
def test_a_run_that_ends_at_the_same_moment_is_stopped(
    left: Simulation, overtaken: type[AnyFact], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = opened(left)
    append = world.ledger.append

    def late(fact: AnyFact, *, writer: Writer, active: float | None = None) -> AnyFact:
        if isinstance(fact, overtaken):
            left.by_person(OVER)
        return append(fact, writer=writer, active=active)

    monkeypatch.setattr(world.ledger, "append", late)
    assert stop(world).startswith(BASIN)
    assert len(left.facts(RunStopped)) == 1
    assert left.machine.alive() == []


def test_a_controller_whose_lease_cannot_be_asked_about_is_told_and_awaited(left: Simulation) -> None:
    world = opened(left)
    run = world.ledger.state.basins[BASIN].running
    assert run is not None
    controller = Process(boot=run.controller.boot, pid=run.controller.pid, start=run.controller.start)
    left.board.unknown.add(f"lease/{BASIN}")
    left.host.processes.add(controller)
    told = left.host.signal

    def obeys(process: Process, number: int) -> bool:
        lives = told(process, number)
        if number == signal.SIGTERM and lives:
            left.by_person(OVER)
            left.host.processes.clear()
        return lives

    left.host.signal = obeys  # type: ignore[method-assign]
    assert stop(world) == f"{BASIN} stopped"
    assert (controller, signal.SIGTERM) in left.host.signals
    assert [fact.text for fact in left.facts(RunStopped)] == ["by itself"]


def test_a_controller_that_cannot_be_ended_from_here_is_said_and_its_end_is_not_made_up(left: Simulation) -> None:
    world = opened(left)
    left.board.held.add(f"lease/{BASIN}")
    with pytest.raises(Failed, match="cannot be ended from here"):
        stop(world)
    assert left.facts(RunStopped) == []


def test_the_end_of_a_run_that_is_being_taken_over_is_not_recorded(
    left: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = opened(left)
    monkeypatch.setattr(world.leases, "take", lambda name, *, wait_seconds=0.0: None)
    with pytest.raises(Failed, match=f"takes {BASIN} over"):
        stop(world)
    assert left.facts(RunStopped) == []


def test_every_name_is_stopped_also_one_that_was_prepared_and_not_begun(left: Simulation) -> None:
    world = opened(left)
    names = [f"minds/{BASIN}.77", f"checks/{BASIN}.0a", f"setups/{BASIN}.t-1", f"steps/{BASIN}.1.1.pushl"]
    for name in names:
        left.world().supervisors.prepare(Spec(name=name, cwd=Path("/"), argv=("x",), env={"TOKEN": "secret"}))
    stop(world)
    assert [left.machine.entries[name].spec for name in names] == [None] * 4
    assert all(world.supervisors.probe(name) == Absent() for name in names)
    assert isinstance(world.supervisors.probe(mind_name(f"{BASIN}.1")), Ended)
    assert [fact.text for fact in left.facts(RunStopped)] == ["recorded after its controller"]


# --- what a cleanup takes --------------------------------------------------------------------------------------------


def test_commits_on_a_detached_head_and_leftovers_survive_a_cleanup(left: Simulation) -> None:
    world = opened(left)
    path = tree_of_the_mind(world)
    left.store.switch(path, None)
    detached = left.store.commit(path, {"good": "work"}, "on no branch", by="mind")
    left.store.places[path].files["left"] = "uncommitted"
    said = stop(world, cleanup=True)
    assert kept(left, f"{BASIN}.1") == detached
    leftovers = kept(left, f"{BASIN}.1-leftovers")
    assert leftovers is not None
    assert left.store.files(leftovers)["left"] == "uncommitted"
    assert not path.exists()
    assert "2 worktrees removed; state" in said


def test_what_a_pruned_mind_left_uncommitted_survives_the_resume_that_cleans_up(left: Simulation) -> None:
    world = opened(left)
    branch, path = world.ledger.state.branches[f"{BASIN}.1"], tree_of_the_mind(world)
    left.store.places[path].files["left"] = "uncommitted"
    process = left.machine.entries[mind_name(branch.id)].process
    assert process is not None
    world.ledger.append(
        BranchSearching(basin=BASIN, branch=branch.id, session="", process=process), writer="controller"
    )
    records.prune(world, branch, reason="not this one", decided_by="person(ann, no tty)")
    assert path.exists()
    assert left._drive()
    assert not path.exists()
    leftovers = kept(left, f"{BASIN}.1-leftovers")
    assert leftovers is not None
    assert left.store.files(leftovers)["left"] == "uncommitted"


@pytest.mark.parametrize("somebody", [False, True])
def test_what_a_killed_graft_left_at_the_lock_is_ended_unless_somebody_is_there(
    left: Simulation, somebody: bool
) -> None:
    world = opened(left)
    tree, _ = Trees(world, BASIN, own=AT_LOCK).for_tree(world.git.tree_of(left.base), left.base, setup="")
    names = [f"gates/{BASIN}.0a", f"gatesetups/{BASIN}.lt-1"]
    for name in names:
        spec = Spec(name=name, cwd=tree, argv=("/bin/sh", "-c", "holds c1"), env={})
        world.supervisors.launch(world.supervisors.prepare(spec))
    left.time.run(0.3)
    assert all(isinstance(world.supervisors.probe(name), Running) for name in names)
    if somebody:
        left.board.held.add(f"graft/{TARGET}")
    stop(world, cleanup=True)
    assert [isinstance(world.supervisors.probe(name), Running) for name in names] == [somebody] * 2
    assert (tree in left.store.places) == somebody
    assert (f"graft/{TARGET}" in left.board.held) == somebody


def test_a_worktree_with_a_repository_inside_stays_and_is_named(left: Simulation) -> None:
    world = opened(left)
    path = tree_of_the_mind(world)
    left.store.places[path].files["clone/"] = "a repository"
    said = stop(world, cleanup=True)
    assert path in left.store.places
    assert f"not removed, `orchconverge logs` says why: {path}" in said
    assert any("nowhere else in clone/" in line for line in left.journal.lines)


def test_a_half_removed_worktree_is_no_error_and_one_that_cannot_be_read_stays(left: Simulation) -> None:
    world = opened(left)
    path = tree_of_the_mind(world)
    (path / ".git").unlink()
    del left.store.places[path]
    assert "worktrees removed; state" in stop(world, cleanup=True)
    assert not path.exists()
    path.mkdir()
    (path / ".git").touch()  # no working tree of this repository
    (path / "precious").touch()
    assert f"says why: {path}" in stop(world, cleanup=True)
    assert (path / "precious").exists()


def test_what_holds_an_environment_goes_with_a_cleanup(left: Simulation) -> None:
    world = opened(left)
    note = handover.Handover(cwd="/", settings=settings("fresh"), limits=Limits(attempts=1), env={"TOKEN": "secret"})
    handover.write(world.state, BASIN, note)
    stop(world, cleanup=True)
    assert not handover.path_of(world.state, BASIN).exists()


def test_what_lies_in_a_repository_of_its_own_is_not_said_to_be_kept(left: Simulation) -> None:
    world = opened(left)
    branch = world.ledger.state.branches[f"{BASIN}.1"]
    path = Path(branch.worktree)
    left.store.places[path].files |= {"clone/": "a repository", "left": "uncommitted"}
    end = Minds(world, Trees(world, BASIN), Admissions(world, BASIN)).read(world.ledger.state, branch)
    assert end.leftovers == ("left",)
    assert f"{branch.id} left repositories of its own in {path}: clone/" in left.journal.lines


def test_a_mind_is_told_of_a_folder_of_its_own_and_our_records_lie_outside(left: Simulation) -> None:
    branch = opened(left).ledger.state.branches[f"{BASIN}.1"]
    given, ours = left.machine.entries[given_name(branch)].files, left.machine.entries[mind_name(branch.id)].files
    assert f"/{given_name(branch)}/mind/report.json".encode() in given["brief.md"]
    assert f"{BASIN}.1".encode() not in given["brief.md"]
    left.time.run(5.0)
    assert given.keys() == {"brief.md", "mind/report.json"}
    assert not {"brief.md", "report.json", "mind/report.json"} & ours.keys()


# --- trees -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("again", ["removed", "squashed onto"])
def test_a_throwaway_tree_that_is_made_again_is_set_up_again(left: Simulation, again: str) -> None:
    world = opened(left)
    base = left.base
    tree = world.git.tree_of(base)

    def ready(trees: Trees) -> list[str]:
        waited = []
        while awaited := trees.for_tree(tree, base, setup="install")[1]:
            waited.append(awaited)
            left.time.run(40.0)
        return waited

    trees = Trees(world, BASIN)
    assert len(ready(trees)) == 1
    assert ready(Trees(world, BASIN)) == []
    path = trees.for_tree(tree, base, setup="install")[0]
    if again == "removed":
        trees.remove_checked()
    else:
        world.git.remove_worktree(path)
        world.git.add_worktree(path, branch=None, at=base)
    assert len(ready(Trees(world, BASIN))) == 1


# --- the handover ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("take", [lambda state: handover.drop(state, BASIN), lambda state: handover.take(state, BASIN)])
def test_a_handover_does_not_stay_whether_it_can_be_read_or_not(tmp_path: Path, take: Callable[[Path], object]) -> None:
    handover.drop(tmp_path, BASIN)
    note = handover.Handover(cwd="/", settings=settings("fresh"), limits=Limits(attempts=1), env={"TOKEN": "secret"})
    for damage in (False, True):
        handover.write(tmp_path, BASIN, note)
        path = handover.path_of(tmp_path, BASIN)
        assert path.stat().st_mode & 0o777 == 0o600
        if damage:
            path.write_text("{")
        try:
            take(tmp_path)
        except Failed:
            assert damage
        assert list(path.parent.iterdir()) == []


def test_a_name_that_is_not_there_lists_those_that_are(left: Simulation) -> None:
    world = opened(left)
    with pytest.raises(Refused, match="no destination is called x") as caught:
        control.named(world, "x", verb="stop", wanted=lambda basin: True)
    assert BASIN in caught.value.hint
