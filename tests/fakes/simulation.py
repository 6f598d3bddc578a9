"""Whole runs in virtual time: the real core and the real controller over fakes of every port, with faults from a seed.

No process, no sleep, and never two threads that run at once. The same story gives the same ledger, byte for byte.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace as replace_rates
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, cast

from msgspec.structs import replace

from orchconverge import ports
from orchconverge.adapters.mind_report import read_report
from orchconverge.app import control, records
from orchconverge.app.drive import drive
from orchconverge.app.lock import Lock
from orchconverge.app.world import World
from orchconverge.core import events as e
from orchconverge.core.standing import FOR_A_PERSON
from orchconverge.core.state import Basin, Branch, Phase, State
from orchconverge.core.target import Sha, Termination
from orchconverge.core.values import Part, Writer
from orchconverge.errors import Failed, Illegal, NotDurable, Refused
from tests.fakes.clock import Awaited, Time, Turns, VirtualClock, VirtualWakeups
from tests.fakes.faults import Crash, Faults, Guarded
from tests.fakes.gate import MemoryGate
from tests.fakes.git import MemoryGit, Store
from tests.fakes.leases import Board, MemoryLeases
from tests.fakes.ledger import MemoryLedger, Shelf
from tests.fakes.panes import MemoryPanes, Server
from tests.fakes.players import TARGET, TARGETS, Players
from tests.fakes.rest import MemoryExports, MemoryHost, MemoryJournal, MemoryShelf, OutcomeEngine
from tests.fakes.story import MINDS, Story
from tests.fakes.supervisors import Machine, MemorySupervisors
from tests.fakes.watch import Violation, Watch

BASIN = "goal"
ROOT = Path("/virtual/project")
FOLDERS = Path("/virtual/state")
MOST_WAITS = 6000
"""How often a run may wait before it counts as one that does not end."""
LATEST = 20 * 3600.0


class FaultyLedger(MemoryLedger):
    """A controller's ledger: it may die before, in the middle of and after a write, and the disk may be full."""

    def __init__(self, simulation: Simulation) -> None:
        super().__init__(simulation.clock, simulation.shelf)
        self._simulation = simulation

    def append(self, fact: e.AnyFact, *, writer: Writer, active: float | None = None) -> e.AnyFact:
        simulation = self._simulation
        faults = simulation.faults
        faults.point("before ledger.append")
        faults.take_time()
        if faults.disk_full and not faults.quiet:
            self.fail_next(1, NotDurable("the ledger could not be written: No space left on device"))
        elif faults.rates.torn and not faults.quiet and faults.random.random() < faults.rates.torn:
            simulation.torn += 1
            simulation.shelf.content += b'{"v":1,"seq":7,"at":"20'
            raise Crash("in the middle of a write")
        written = super().append(fact, writer=writer, active=active)
        simulation.appended(written)
        faults.point("after ledger.append")
        return written


class Pursuit:
    """One basin as it is pursued: whoever resumes it, and the controller that lives now."""

    def __init__(self, simulation: Simulation, name: str) -> None:
        self.name = name
        self.target = TARGETS[name]
        self.settings, self.limits = simulation.story.settings, simulation.story.limits
        self.resumes = simulation.story.resumes
        self.wakeups = VirtualWakeups(
            simulation.time, size=lambda: len(simulation.shelf.content), runs=simulation.machine.runs
        )
        self.leases = MemoryLeases(simulation.board)
        self.drives = 0
        self.waits_since: float | None = None
        """Since when the run waits for a person, and nothing else happened."""
        self.watch = Watch(simulation, self)

    @property
    def ref(self) -> str:
        return f"refs/heads/{self.target}"


class Simulation:
    """One story, run to its end. Raises `Violation` with the seed for whatever must not be."""

    def __init__(self, story: Story, *, crash_at: int | None = None) -> None:
        self.story = story
        self.time = Time()
        self.clock = VirtualClock(self.time)
        self.random = Random(f"run {story.seed}")
        self.faults = Faults(Random(f"faults {story.seed}"), story.rates, self.time, crash_at=crash_at)
        memory = Path("/dev/shm")
        self.folder = Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None, prefix="oc-sim-"))
        self.trees = self.folder / "trees"
        self.trees.mkdir()
        self.store = Store(ROOT, story.files)
        self.players = Players(story, self.time, self.store, self.trees)
        self.machine = Machine(self.time, play=self.players.play, refuse=self.players.refuse)
        self.players.machine = self.machine
        self.server = Server(
            self.machine.start, lambda argv: not self.machine.runs(argv[-1]) and self._settled(argv[-1])
        )
        self.board = Board()
        self.shelf = Shelf()
        self.host = MemoryHost(Random(f"ids {story.seed}"))
        self.exports = MemoryExports()
        self.journal = MemoryJournal()
        self.reader = MemoryLedger(self.clock, self.shelf)
        self.person = MemoryLedger(self.clock, self.shelf)
        self.torn = self.crashes = self.waits = 0
        self.disturbed = False
        """Whether a person changed the checkout by hand: what a check saw there meanwhile is nobody's fault."""
        self.by_hand: set[Sha] = set()
        """Where a person moved a target to at the lock."""
        self.pursuits = [Pursuit(self, name) for name in (BASIN, "beside")[: 1 + story.beside]]
        self.watch = self.pursuits[0].watch
        self.turns = Turns(self.time) if story.beside else None

    def _settled(self, name: str) -> bool:
        entry = self.machine.entries.get(name)
        return entry is not None and entry.process is not None

    # --- the outer loop: what a person does who resumes what died -------------------------------------------------------

    def run(self) -> Simulation:
        """Declare, drive, resume after every crash, and check the end."""
        try:
            self._declare()
            self._weather()
            if self.turns is None:
                self._drive_to_the_end(self.pursuits[0])
            else:
                self.turns.run(*(partial(self._drive_to_the_end, pursuit) for pursuit in self.pursuits))
            self.time.run(15.0)
            self.reader.catch_up()
            self.watch.resumed(self.reader.state)
            for pursuit in self.pursuits:
                pursuit.watch.over()
        except Violation as violation:
            raise Violation(f"seed {self.story.seed}: {violation}") from violation
        except Exception as error:
            error.add_note(f"seed {self.story.seed}")
            raise
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)
        return self

    @property
    def ledger(self) -> bytes:
        """All lines, the same for the same story: the folder of the working trees has another name each time."""
        return bytes(self.shelf.content).replace(str(self.folder).encode(), b"/virtual/data")

    @property
    def calm(self) -> bool:
        """Whether no call of a port fails in this story."""
        rates, weather = self.story.rates, {what for _, what in self.story.weather}
        return not (
            rates.failed
            or rates.unknown
            or rates.slow
            or rates.crash
            or rates.torn
            or weather & {"disk full", "tmux hangs", "git fails"}
        )

    def facts(self, *kinds: type[e.AnyFact]) -> list[Any]:
        """What was appended, of these types."""
        return [fact for pursuit in self.pursuits for fact in pursuit.watch.facts if isinstance(fact, kinds)]

    @property
    def basin(self) -> Basin:
        """The basin as it stands at the end."""
        return self.reader.state.basins[BASIN]

    @property
    def tree(self) -> dict[str, str]:
        """The files of the target at the end."""
        return self.store.files(self.store.refs[f"refs/heads/{TARGET}"])

    def _declare(self) -> None:
        story = self.story
        base = self.store.refs["refs/heads/main"]
        self.base = base
        for pursuit in self.pursuits:
            self.store.move(pursuit.ref, base, by="ann")
            pursuit.settings = replace(story.settings, base=base)
        self.store.move("refs/heads/other", base, by="ann")
        if story.target_checked_out:
            self.store.switch(ROOT, TARGET)
        if story.remote:
            self.store.pushed["origin"] = {}
        most = story.limits
        for pursuit in self.pursuits:
            fact = e.BasinDeclared(
                basin=pursuit.name,
                title="goal",
                macrostate="all say yes",
                goal="make c1 and the others say yes",
                criteria=story.criteria,
                termination=Termination(attempts=most.attempts, hours=most.hours),
                target=pursuit.target,
                lock=story.declared,
            )
            self.by_person(fact)

    def _drive_to_the_end(self, pursuit: Pursuit) -> None:
        watch, resumes = pursuit.watch, pursuit.resumes
        while True:
            if pursuit.drives > 200:
                raise Violation("it was resumed 200 times")
            if not self._drive(pursuit):
                self.crashes += 1
                pursuit.leases.lost()
                self._pass(self.random.choice((0.0, 1.0, 40.0)))
                watch.resumed(self._caught_up())
                self._give_up_sometimes(pursuit)
                continue
            self.reader.catch_up()
            basin = self.reader.state.basins[pursuit.name]
            watch.resumed(self.reader.state)
            if basin.running is not None:
                raise Violation("the controller left and its run is open")
            if basin.phase != "open" or resumes == 0:
                return
            resumes -= 1
            self._pass(12.0)
            watch.demand(watch.processes() == [], f"still running: {watch.processes()}")
            self._pass(self.random.choice((0.0, 300.0)))
            if basin.queue and self.story.repertoire is not MINDS:
                self._decide(pursuit)
            limits = pursuit.limits
            if limits.attempts is not None and self.random.random() < 0.7:
                limits = replace(limits, attempts=limits.attempts + 2)
            if limits.hours is not None and self.random.random() < 0.7:
                limits = replace(limits, hours=limits.hours + 0.2)
            pursuit.limits = limits

    def _pass(self, seconds: float) -> None:
        """Let time pass, in which others act."""
        if self.turns is None:
            self.time.run(seconds)
        else:
            self.turns.wait(Awaited(self.time.mono + seconds, lambda: False))

    def _caught_up(self) -> State:
        self.reader.catch_up()
        return self.reader.state

    @contextmanager
    def _person(self, pursuit: Pursuit) -> Iterator[World]:
        """The world of a command that a person gives, in which nothing fails."""
        leases, quiet = pursuit.leases, self.faults.quiet
        pursuit.leases, self.faults.quiet = MemoryLeases(self.board), True
        world = self.world(pursuit)
        world.ledger.catch_up()
        try:
            yield world
        finally:
            pursuit.leases, self.faults.quiet = leases, quiet

    def _give_up_sometimes(self, pursuit: Pursuit) -> None:
        """A killed basin cannot be resumed, and now and then somebody stops it instead."""
        basin = self.reader.state.basins[pursuit.name]
        if basin.running is not None and (basin.phase == "killed" or self.random.random() < 0.05):
            with self._person(pursuit) as world:
                control.stop(world, world.ledger.state.basins[pursuit.name], cleanup=False)

    def _decide(self, pursuit: Pursuit) -> None:
        """What a person does with the candidates that wait, between two runs."""
        pursuit.wakeups.signals = 0
        with self._person(pursuit) as world:
            basin = world.ledger.state.basins[pursuit.name]
            waiting = [world.ledger.state.branches[name] for name in basin.queue]
            if not waiting:
                return
            how = self.random.choice(
                ("accept", "accept", "all but one", "graft", "take", "prune", "prune all", "leave")
            )
            try:
                if how.startswith("prune"):
                    for branch in waiting if how == "prune all" else waiting[:1]:
                        records.prune(world, branch, reason="not this one", decided_by="person(ann, no tty)")
                elif how != "leave":
                    with Lock.taken(world, pursuit.name, decided_by="person(ann, no tty)") as lock:
                        try:
                            self._at_the_lock(lock, how, waiting[0])
                        finally:
                            self.by_hand |= {self.store.refs[ref] for ref in (pursuit.ref,) if ref in self.store.refs}
            except (Refused, Failed, Illegal) as refused:
                killed = world.ledger.state.basins[pursuit.name].phase == "killed"
                pursuit.watch.demand(killed or not isinstance(refused, Illegal), f"a person is told: {refused}")
                self.journal.say(f"a person cannot {how}: {refused.message}")
            except KeyboardInterrupt:
                self.journal.say(f"a person does not {how} after all")

    def _at_the_lock(self, lock: Lock, how: str, head: Branch) -> None:
        if how == "graft":
            lock.graft(head, reason=self.random.choice(("", "it is wanted")))
        elif how == "take":
            assert head.head is not None
            paths = self.store.files(head.head)
            lock.take(head, [Part(branch=head.id, paths=(self.random.choice(sorted(paths)),))], reason="it is good")
        elif (proposal := lock.proposal()) is not None:
            lock.accept(proposal, without={1} if how == "all but one" else set())

    def _drive(self, pursuit: Pursuit | None = None) -> bool:
        """One controller's life. False if it was killed."""
        pursuit = pursuit or self.pursuits[0]
        watch, name = pursuit.watch, pursuit.name
        pursuit.drives += 1
        pursuit.wakeups.signals = 0
        pursuit.leases = MemoryLeases(self.board)
        world = self.world(pursuit)
        self.reader.catch_up()
        basin = self.reader.state.basins[name]
        if basin.phase == "killed" and basin.running is None:
            return True
        try:
            drive(world, name, pursuit.settings, pursuit.limits, tmux=f"run-{name}", socket="/virtual/tmux")
        except Crash:
            return False
        except Refused:
            self.reader.catch_up()  # killed between the look and the start
            watch.demand(self.reader.state.basins[name].phase == "killed", "a start was refused")
            return True
        except (NotDurable, Failed) as error:
            watch.demand(watch.begun < pursuit.drives, f"a controller that had begun was ended by: {error}")
            self._pass(60.0)
            return False
        return True

    def world(self, pursuit: Pursuit | None = None) -> World:
        """The ports as one process has them."""
        pursuit = pursuit or self.pursuits[0]
        faults = self.faults

        def guarded(port: object, name: str) -> object:
            return Guarded(port, name, faults)

        git: ports.Git = MemoryGit(self.store, self.trees, between=faults.between)
        supervisors: ports.Supervisors = MemorySupervisors(self.machine, FOLDERS, unknown=faults.unknown)
        panes: ports.Panes = MemoryPanes(self.server)
        leases: ports.Leases = pursuit.leases
        exports: ports.Exports = self.exports
        wakeups: ports.Wakeups = Waiting(self, pursuit)
        return World(
            ledger=FaultyLedger(self),
            git=cast(ports.Git, guarded(git, "git")),
            panes=cast(ports.Panes, guarded(panes, "panes")),
            supervisors=cast(ports.Supervisors, guarded(supervisors, "supervisors")),
            leases=cast(ports.Leases, guarded(leases, "leases")),
            clock=self.clock,
            wakeups=wakeups,
            host=self.host,
            engines={
                "sim": OutcomeEngine("sim", contextual=True),
                "other": OutcomeEngine("other"),
            },
            shelf=MemoryShelf(),
            exports=cast(ports.Exports, guarded(exports, "exports")),
            journal=self.journal,
            trees=self.trees,
            state=self.trees.parent / "state",
            read_report=read_report,
            step_argv=lambda basin, step: ("step", step, basin),
            gate=lambda basin: MemoryGate(),
            memory_floor=1 << 30,
            disk_floor=1 << 30,
        )

    # --- what others do ----------------------------------------------------------------------------------------------

    def by_person(self, fact: e.AnyFact) -> bool:
        """Append as a command of a person does; what is not legal any more is not written."""
        try:
            self.appended(self.person.append(fact, writer="cli"))
        except Illegal:
            return False
        return True

    def appended(self, fact: e.AnyFact) -> None:
        """Every line passes here, whoever wrote it."""
        self.reader.catch_up()
        pursuit = next(p for p in self.pursuits if p.name == getattr(fact, "basin", p.name))
        pursuit.watch.appended(fact)
        if isinstance(fact, e.RunWaiting) and fact.reason in FOR_A_PERSON and pursuit.waits_since is None:
            pursuit.waits_since = self.time.mono
            self.time.after(self.story.patience, partial(self._lose_patience, pursuit, self.time.mono))
        elif not isinstance(fact, e.RunWaiting | e.RunWoke | e.RunStarted):
            pursuit.waits_since = None
        if isinstance(fact, e.ProposalMade) and self.random.random() < self.story.rates.overtaken:
            self._change(f"person-{self.random.randrange(99)}", "x", pursuit)

    def _lose_patience(self, pursuit: Pursuit, since: float) -> None:
        if pursuit.waits_since == since:
            self.by_person(e.RunStopRequested(basin=pursuit.name))

    def _weather(self) -> None:
        for seconds, what in self.story.weather:
            act = getattr(self, f"_{what.replace(' ', '_')}")
            self.time.after(seconds, act)
        for pursuit in self.pursuits:
            self.time.after(LATEST, partial(self.by_person, e.RunStopRequested(basin=pursuit.name)))

    def _one(self) -> Pursuit:
        """Whose weather it is."""
        return self.pursuits[0] if len(self.pursuits) == 1 else self.random.choice(self.pursuits)

    def _for_a_while(self, begin: Callable[[], None], end: Callable[[], None]) -> None:
        begin()
        self.time.after(self.random.choice((20.0, 200.0, 900.0)), end)

    def _change(self, name: str, text: str, pursuit: Pursuit | None = None) -> None:
        """A person commits to the target, where it is checked out or from elsewhere."""
        pursuit = pursuit or self._one()
        path = self.store.holder(pursuit.target)
        if pursuit.ref not in self.store.refs:
            return
        if path is None:
            self.store.commit_away(pursuit.target, {name: text}, "by hand", by="ann")
        elif self.store.places[path].operation is None:
            self.disturbed = True
            tree = self.store.places[path]
            loose = {n: tree.files[n] for n in self.store.dirt(tree)[0] if n in tree.files}
            gone = [n for n in self.store.dirt(tree)[0] if n not in tree.files]
            tree.files = {**tree.files, **self.store.tracked(tree)}
            untracked = {n: tree.files.pop(n) for n in self.store.dirt(tree)[1]}
            self.store.commit(path, {name: text}, "by hand", by="ann")
            tree.files = {**tree.files, **untracked, **loose}
            for n in gone:
                tree.files.pop(n, None)

    def _commit(self) -> None:
        self._change(f"person-{self.random.randrange(99)}", "x")

    def _break(self) -> None:
        self._change("c1.txt", "no")

    def _fix(self) -> None:
        self._change("c1.txt", "yes")

    def _shared(self) -> None:
        self._change("shared.txt", "person")

    def _switch(self) -> None:
        before = self.store.places[ROOT].branch
        if before is None:  # git says which commits would be left behind, and a person stays
            return
        self.disturbed = True
        if self.store.switch(ROOT, "other"):

            def back() -> None:
                self.store.switch(ROOT, before)

            self.time.after(self.random.choice((20.0, 400.0)), back)

    def _dirty(self) -> None:
        tree = self.store.places[ROOT]
        self.disturbed = True
        before = tree.files.get("shared.txt")
        tree.files["shared.txt"] = "half written"

        def restore() -> None:
            found = self.store.tracked(tree).get("shared.txt", before)
            if found is not None:
                tree.files["shared.txt"] = found

        self.time.after(self.random.choice((20.0, 400.0)), restore)

    def _merging(self) -> None:
        tree = self.store.places[ROOT]
        self.disturbed = True
        tree.operation = "merge"
        self.time.after(self.random.choice((20.0, 400.0)), lambda: setattr(tree, "operation", None))

    def _stop(self) -> None:
        self.by_person(e.RunStopRequested(basin=self._one().name))

    def _signal(self) -> None:
        self._one().wakeups.signals += 1

    def _kill(self) -> None:
        if self.random.random() < 0.5:
            self.by_person(e.BasinKilled(basin=self._one().name, reason="not wanted any more"))

    def _branches(self, *phases: Phase) -> list[Branch]:
        """The branches of one pursuit that stand like this, newest first."""
        self.reader.catch_up()
        name = self._one().name
        return [b for b in reversed(self.reader.state.branches_of(name)) if b.phase in phases]

    def _prune_running(self) -> None:
        self._prune(*self._branches(Phase.SEARCHING)[:1])

    def _prune_waiting(self) -> None:
        self._prune(*self._branches(Phase.CANDIDATE)[:1])

    def _prune(self, *branches: Branch) -> None:
        """What `orchconverge prune` appends; what a controller does not do then, the command does."""
        for branch in branches:
            fact = e.BranchPruned(
                basin=branch.basin, branch=branch.id, reason="enough", decidedBy="person(ann, no tty)"
            )
            self.by_person(fact)

    def _merge_by_hand(self) -> None:
        """A person merges what a mind has committed, history and all, where the target is not checked out with changes."""
        found = self._branches(Phase.SEARCHING, Phase.ENDED, Phase.CANDIDATE, Phase.FAILED, Phase.PRUNED)
        heads = [h for b in found if (h := self.store.refs.get(f"refs/heads/{b.git_branch}")) not in (None, b.base)]
        if not heads:
            return
        pursuit = next(p for p in self.pursuits if p.name == found[0].basin)
        path, head = self.store.holder(pursuit.target), self.random.choice(heads)
        busy = path is not None and (self.store.places[path].operation or any(self.store.dirt(self.store.places[path])))
        if pursuit.ref in self.store.refs and not busy and head is not None:
            self.disturbed = True
            self.store.merge(pursuit.target, head, by="ann")

    def _tmux_dies(self) -> None:
        self.server.die()

    def _tmux_hangs(self) -> None:
        self._for_a_while(lambda: setattr(self.server, "answers", False), lambda: setattr(self.server, "answers", True))

    def _running(self, kind: str = "") -> list[str]:
        return [name for name in self.machine.alive() if name.startswith(kind) and self.machine.runs(name)]

    def _lose(self) -> None:
        for name in self._running()[:1]:
            self.machine.lose(name)

    def _lose_check(self) -> None:
        for name in self._running("checks/")[:1]:
            self.machine.lose(name)
        if not self._running("checks/") and self.random.random() < 0.8:
            self.time.after(3.0, self._lose_check)

    def _end_mind(self) -> None:
        for name in self._running("minds/")[:1]:
            self.machine.stop(name)

    def _git_fails(self) -> None:
        self.faults.rates = replace_rates(self.faults.rates, failed=1.0)

    def _disk_full(self) -> None:
        self._for_a_while(
            lambda: setattr(self.faults, "disk_full", True), lambda: setattr(self.faults, "disk_full", False)
        )

    def _disk_low(self) -> None:
        self._short(disk_free=1 << 20)

    def _memory_low(self) -> None:
        self._short(memory_free=1 << 20)

    def _pids_low(self) -> None:
        self._short(pids_free=100)

    def _ptys_low(self) -> None:
        self._short(ptys_free=2)

    def _short(self, **of: int) -> None:
        before = self.host.machine
        self._for_a_while(
            lambda: setattr(self.host, "machine", replace(before, **of)),
            lambda: setattr(self.host, "machine", MemoryHost(self.random).machine),
        )

    def _jump(self) -> None:
        self.time.jump(self.random.choice((60.0, 7200.0)))

    def _jump_back(self) -> None:
        self.time.jump(-self.random.choice((60.0, 1800.0)))

    def _suspend(self) -> None:
        self.time.jump(8 * 3600.0)

    def _tamper(self) -> None:
        self._for_a_while(
            lambda: setattr(self.store, "config", "changed by somebody"),
            lambda: setattr(self.store, "config", "as it was"),
        )

    def _branch_gone(self) -> None:
        """A person deletes the target, which git allows where nobody has it checked out, and brings it back."""
        pursuit = self._one()
        ref = pursuit.ref
        found = self.store.refs.get(ref)
        if found is None or self.store.holder(pursuit.target) is not None:
            return
        del self.store.refs[ref]

        def back() -> None:
            self.store.refs.setdefault(ref, found)

        self.time.after(100.0, back)


class Waiting:
    """The wakeups of one controller: they count how often it waited, and it may die meanwhile."""

    def __init__(self, simulation: Simulation, pursuit: Pursuit) -> None:
        self._simulation = simulation
        self._pursuit = pursuit

    def stopping(self) -> int:
        return self._pursuit.wakeups.stopping()

    def wait(self, running: Sequence[str], *, until: float | None, served: ports.Served | None = None) -> None:
        simulation = self._simulation
        simulation.waits += 1
        if simulation.waits > MOST_WAITS * len(simulation.pursuits):
            raise Violation(f"it does not end: {simulation.journal.lines[-5:]}")
        simulation.faults.point("before wakeups.wait")
        if simulation.turns is None:
            self._pursuit.wakeups.wait(running, until=until)
        else:
            simulation.turns.wait(self._pursuit.wakeups.awaited(running, until))
        simulation.faults.point("after wakeups.wait")


def simulate(story: Story, *, crash_at: int | None = None) -> Simulation:
    """Run one story to its end."""
    return Simulation(story, crash_at=crash_at).run()


__all__ = ["BASIN", "Crash", "Simulation", "Violation", "simulate"]
