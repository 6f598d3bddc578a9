"""The controller: looks, lets the core decide, performs, and waits. A foreground process that drives one basin."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

from msgspec.structs import replace

from orchconverge.app.active import ActiveTime
from orchconverge.app.admission import Admissions
from orchconverge.app.asked import Asked
from orchconverge.app.minds import Minds, close_session
from orchconverge.app.recovery import differences
from orchconverge.app.said import measured, told, under_way
from orchconverge.app.steps import Steps
from orchconverge.app.trees import SPAWN_WAIT, Trees
from orchconverge.app.world import World, mind_name
from orchconverge.core import actions as a
from orchconverge.core.admit import ready
from orchconverge.core.events import AnyFact, AttemptEnded, BasinChecked, BranchFailed, RunWaiting
from orchconverge.core.places import lacking
from orchconverge.core.policy import decide
from orchconverge.core.projection import export
from orchconverge.core.seen import Absent, Ended, Now, Probe, Seen
from orchconverge.core.state import Basin, Branch, Run
from orchconverge.core.values import Writer, storable
from orchconverge.errors import Failed, Illegal, NotDurable, Refused

EXPORT_EVERY = 1.0
FLOOR = 30.0
"""Seconds after which the controller looks again, whatever happens."""
RETRY = 5.0
RETRY_LATER = 300.0
TROUBLES_AT_MOST = 6
"""Turns in a row in which something outside failed, before the run waits `RETRY_LATER` seconds and says what for."""
ILLEGAL_AT_MOST = 5
START_AT_MOST = 3
TARGET_FRESH = 1.0
"""Seconds for which a look at the target counts, if nothing else happened."""


class Controller:
    """Drives one basin to the end of its run. Everything it knows can be lost: the ledger and the folders give it back."""

    def __init__(self, world: World, basin: str) -> None:
        self.world = world
        self.name = basin
        self.trees = Trees(world, basin)
        self.admission = Admissions(world, basin)
        self.minds = Minds(world, self.trees, self.admission)
        self.asked = Asked(world, basin, self.trees)
        self.steps = Steps(world, basin)
        self.fingerprint = ""
        self.wake: float | None = None
        self.awaited: dict[str, str] = {}
        self.starts: dict[str, int] = {}
        self.illegal = 0
        self.troubles = 0
        self.held = False
        self.exported = float("-inf")
        self.exported_seq = self.seq = 0
        self.finished = False
        self.active = ActiveTime(world.clock, self.basin.active)
        self.perform: dict[type[a.Action], Callable[[Any], bool]] = {
            a.Append: self._append,
            **self.asked.perform,
            a.StartMind: self._start_mind,
            a.ReadMind: self._read_mind,
            a.EndMind: lambda action: self._stop(mind_name(action.branch)),
            a.KillMind: lambda action: not self.world.supervisors.kill(mind_name(action.branch)),
            a.EndChecks: self._end_checks,
            a.Spawn: self._spawn,
            a.Land: self._land,
            a.CleanUp: self._clean_up,
            a.StartStep: self._start_step,
            a.EndStep: self._end_step,
            a.Sleep: self._sleep,
            a.Finish: self._finish,
        }

    # --- the loop ----------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Look, decide, act, append, until the run is over. Raises nothing that the ledger could not explain."""
        try:
            self._drive()
        finally:
            self.world.journal.runs(())
            self.admission.close()

    def _drive(self) -> None:
        while not self.finished:
            fresh, self.wake = False, None
            try:
                self._begin()
                fresh = self._turn()
                self.troubles = 0
            except NotDurable as error:
                self.held = True
                self._again(f"{error.message}. Nothing is acknowledged")
            except Illegal as error:
                self._overtaken(error)
                fresh = True
            except (Failed, Refused, OSError) as error:
                self._troubled(error)
            if not fresh and not self.finished:
                self._wait()

    def _begin(self) -> None:
        """Once: what git looks like before anything runs, and what a lost controller left half done."""
        if not self.fingerprint and not self._ending() and not self.world.wakeups.stopping():
            self.trees.remove_settled(self.world.ledger.state)
            for fact in differences(self.world, self.world.ledger.state, self.basin):
                self.write(fact, writer="recovery")
            self.fingerprint = self.record.fingerprint or self.world.git.fingerprint()

    def _turn(self) -> bool:
        """Look, decide and act once. True if there is something new to decide on."""
        fresh = False
        self.world.ledger.catch_up()
        waiting = self.held or self.basin.running is None or self.record.waiting is not None
        self.active.tick(waiting=waiting, least=self.basin.active)
        self.held = False
        if not self._ending() and not self.world.wakeups.stopping():  # a stop waits for nothing
            self.asked.checks.poll(self.basin, self.record)
        asked = self.world.wakeups.stopping()
        for action in decide(self.world.ledger.state, self.look(), self.now()):
            fresh = self.perform[type(action)](action) or fresh
            if self.world.wakeups.stopping() > asked:  # the rest of a wave is not started first
                return True
        return fresh

    def _again(self, why: str) -> None:
        self.world.journal.say(f"{why}; trying again")
        self.wake = self.world.clock.monotonic() + RETRY

    def _troubled(self, error: Failed | Refused | OSError) -> None:
        """Git, tmux or the disk did not do what was asked: try again soon, and if that does not help, wait and say so.

        Until it helps no time counts: hours are the minds', not the machine's.
        """
        self.troubles += 1
        self.asked.target = None
        self.held = True
        why = str(error)
        self._again(why)
        if self.troubles >= TROUBLES_AT_MOST and self.basin.running is not None and self.record.waiting is None:
            until = self.world.clock.now() + timedelta(seconds=RETRY_LATER)
            self.troubles = 0
            with suppress(NotDurable, Illegal):
                self.write(RunWaiting(basin=self.name, reason="blocked", text=why or type(error).__name__, until=until))

    def _wait(self) -> None:
        """Until something under way ends, somebody appends, a signal comes, or time is due. A floor wakes us anyway."""
        until = self.world.clock.monotonic() + FLOOR
        if self.seq > self.exported_seq:
            self.export(seq=self.seq)
        if self.seq > self.exported_seq:
            until = min(until, self.exported + EXPORT_EVERY)
        if not self.held:  # in trouble nothing is looked at sooner than it is tried again
            until = min(until, self.admission.due())
        until = min(until, self.wake if self.wake is not None else until)
        names = self._under_way()
        self.world.journal.runs(under_way(self.world, self.basin, self.asked.checks) if names else ())
        self.world.wakeups.wait(names, until=until, served=self.admission)
        if self.world.clock.monotonic() - self.asked.looked >= TARGET_FRESH:
            self.asked.target = None

    def _under_way(self) -> list[str]:
        """What wakes the controller by its end. Nothing does while the run waits: it would not be looked at."""
        if self.basin.running is not None and self.record.waiting is not None and not self._ending():
            return []
        attempt = self.basin.attempt
        minds = [mind_name(b) for b in attempt.branches if self._branch(b).may_run] if attempt else []
        step = self.steps.name(self.basin)
        return [*minds, *self.asked.checks.names(), *self.awaited.values(), *([step] if step else [])]

    def _overtaken(self, error: Illegal) -> None:
        """Somebody appended first and the fact is not legal any more: decide anew, but not for ever."""
        self.illegal += 1
        self.asked.target = None
        if self.illegal > ILLEGAL_AT_MOST:
            raise error
        self.world.journal.say(f"decides anew: {error.message}")

    # --- what is seen ------------------------------------------------------------------------------------------------

    @property
    def basin(self) -> Basin:
        """The basin as the ledger has it now."""
        return self.world.ledger.state.basins[self.name]

    @property
    def record(self) -> Run:
        """The run as the ledger has it now."""
        found = self.basin.run
        assert found is not None
        return found

    def _branch(self, name: str) -> Branch:
        return self.world.ledger.state.branches[name]

    def now(self) -> Now:
        """Time three ways."""
        clock = self.world.clock
        return Now(active=self.active.seconds, mono=clock.monotonic(), wall=clock.now())

    def look(self) -> Seen:
        """One frozen record of what the ports answer now."""
        basin = self.basin
        step, result = self.steps.probe(basin)
        probes = self._probes(basin)
        return replace(
            self.asked.seen(),
            probes=probes,
            sessions={name: self.minds.session(name) for name in probes},
            minds=self.minds.running(self.world.ledger.state),
            step=step,
            step_result=result,
            step_argv=self.steps.argv(self.record),
            machine=self.world.host.look(),
            over=self._over(basin),
            contextual=frozenset(name for name, engine in self.world.engines.items() if engine.contextual),
            absent=self._absent(),
            memory_floor=self.world.memory_floor,
            disk_floor=self.world.disk_floor,
            fingerprint=self.fingerprint,
            checking=self.asked.checks.alive() if self.basin.running and self._ending() else False,
            stopping=self.world.wakeups.stopping(),
        )

    def _over(self, basin: Basin) -> frozenset[str]:
        """The minds that were denied to go on, and do."""
        names = basin.attempt.branches if basin.attempt is not None and basin.running is not None else ()
        running = [branch for name in names if (branch := self._branch(name)).may_run]
        return self.admission.look(basin, running)

    def _absent(self) -> frozenset[str]:
        """The engines of the run that are not installed, or not any more. Asked between attempts only."""
        if self.basin.running is None or self.basin.attempt is not None:
            return frozenset()
        names = {engine.partition(":")[0] for engine in self.record.settings.engines}
        known = self.world.engines
        return frozenset(name for name in names if name not in known or known[name].find() is None)

    def _ending(self) -> bool:
        return self.record.stop_requested or self.basin.phase == "killed"

    def _probes(self, basin: Basin) -> dict[str, Probe]:
        if basin.attempt is None:
            return {}
        names = [b for b in basin.attempt.branches if self._branch(b).may_run]
        return {name: self.world.supervisors.probe(mind_name(name)) for name in names}

    # --- what is done: each returns whether there is something new to decide on ----------------------------------------

    def _append(self, action: a.Append) -> bool:
        self.write(action.fact)
        return True

    def write(self, fact: AnyFact, *, writer: Writer = "controller") -> None:
        """Append one fact, say it, and keep the export up."""
        ledger = self.world.ledger
        written = ledger.append(storable(fact), writer=writer, active=round(self.active.seconds, 3))
        self.illegal = 0
        self.asked.target = None
        self.world.journal.say(told(written))
        if isinstance(written, RunWaiting):
            self.asked.grafts.obstacle = ""
        if isinstance(written, AttemptEnded | BasinChecked):
            self.world.journal.measure(measured(self.world, written))
        if isinstance(written, AttemptEnded):
            self.asked.grafts.began = self.asked.contents = None
        self.seq = written.seq
        self.world.heard(written)
        self.export(seq=written.seq)

    def export(self, *, seq: int, now: bool = False) -> None:
        """Bring the JSON export up to the ledger, at most once a second between own facts."""
        moment, ledger = self.world.clock.monotonic(), self.world.ledger
        if not now and moment - self.exported < EXPORT_EVERY:
            return
        self.exported, self.exported_seq = moment, seq
        newest = ledger.state.newest
        top = newest is not None and newest.id == self.name
        self.world.exports.write(seq, export(ledger.state, self.name, seq=seq), self.name, newest=top)

    def _start_mind(self, action: a.StartMind) -> bool:
        """Start a mind; one that cannot be started is a failed branch, after a few tries."""
        branch, state, most = self._branch(action.branch), self.world.ledger.state, self.record.settings.maxMinds
        self.awaited.pop(branch.id, None)
        if self.minds.running(state) > most and self.minds.seen_to_run(state) >= most:
            return False  # while this one's controller was gone, another basin took its room
        try:
            awaited = self.minds.start(
                self.world.ledger.state, self.basin, self.record, branch, active=self.active.seconds
            )
        except (Failed, Refused) as error:
            tries = self.starts[branch.id] = self.starts.get(branch.id, 0) + 1
            self.world.journal.say(f"{branch.id} could not be started: {error.message}")
            if (isinstance(error, Refused) or tries >= START_AT_MOST) and self._withdrawn(mind_name(branch.id)):
                self.write(BranchFailed(basin=branch.basin, branch=branch.id, reason=error.message))
            return True
        if awaited:
            self.awaited[branch.id] = awaited
        return False

    def _withdrawn(self, name: str) -> bool:
        """Take a start back. False if it came through after all: a call that failed may have done what it was asked."""
        self.world.supervisors.stop(name)
        return isinstance(self.world.supervisors.probe(name), Absent)

    def _read_mind(self, action: a.ReadMind) -> bool:
        state, branch = self.world.ledger.state, self._branch(action.branch)
        name = mind_name(branch.id)
        if not isinstance(self.world.supervisors.probe(name), Ended):
            self.world.supervisors.kill(name)
        self.asked.ends[branch.id] = self.minds.read(state, branch)
        return True

    def _stop(self, name: str) -> bool:
        self.world.supervisors.stop(name)
        return False

    def _end_checks(self, action: a.EndChecks) -> bool:
        self.asked.checks.end()
        return False

    def _spawn(self, action: a.Spawn) -> bool:
        """Record one more mind of the wave, if there still is room for it under the lock that everyone spawns under."""
        lease = self.world.leases.take("spawn", wait_seconds=SPAWN_WAIT)
        if lease is None:
            raise Failed(
                "another orchconverge starts minds and does not end", hint="orchconverge status shows what runs"
            )
        try:
            self.world.ledger.catch_up()
            if self.minds.running(self.world.ledger.state) >= action.most or self._short():
                return False
            return self._append(a.Append(fact=action.fact))
        finally:
            lease.release()

    def _short(self) -> bool:
        """Whether the machine has too little left for one more mind."""
        floors = {"memory_floor": self.world.memory_floor, "disk_floor": self.world.disk_floor}
        return lacking(self.world.host.look(), **floors) is not None

    def _land(self, action: a.Land) -> bool:
        self.world.ledger.catch_up()
        offered = ready(self.world.ledger.state, self.basin, action.tip)
        if offered is None or offered.head != action.head or self._ending():
            return True
        self.asked.grafts.land(self.basin, tip=action.tip, head=action.head)
        self.asked.target = None
        if self.asked.grafts.busy:  # somebody else grafts right now
            self.wake = self.world.clock.monotonic() + 1.0
            return False
        return True

    def _clean_up(self, action: a.CleanUp) -> bool:
        branch = self._branch(action.branch)
        session = self.minds.session(branch.id)
        if session:
            close_session(self.world, session)
        self.trees.remove_mind(branch)
        self.trees.remove_checked()
        return False

    def _start_step(self, action: a.StartStep) -> bool:
        self.steps.start(self.basin, self.record, action.round, action.step)
        return False

    def _end_step(self, action: a.EndStep) -> bool:
        name = self.steps.name(self.basin)
        return self._stop(name) if name is not None else False

    def _sleep(self, action: a.Sleep) -> bool:
        self.wake = action.until
        return False

    def _finish(self, action: a.Finish) -> bool:
        self.asked.checks.end()
        if self.asked.checks.ending:  # a harvest that ran out of time left one: nothing of ours runs on
            return False
        self.finished = True
        self.trees.remove_checked()
        if self.seq:
            self.export(seq=self.seq, now=True)
        return False
