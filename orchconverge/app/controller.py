"""The controller: looks, lets the core decide, performs, and waits. A foreground process that drives one basin."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from orchconverge.app.active import ActiveTime
from orchconverge.app.checks import Checks
from orchconverge.app.grafts import Grafts
from orchconverge.app.minds import Minds
from orchconverge.app.steps import Steps
from orchconverge.app.trees import Trees
from orchconverge.app.world import World, mind_name
from orchconverge.core import actions as a
from orchconverge.core.events import AnyFact, AttemptEnded, BasinChecked, BranchFailed, RunWaiting
from orchconverge.core.policy import decide
from orchconverge.core.projection import export
from orchconverge.core.seen import Absent, Ended, MindEnd, Now, Probe, Seen, TargetSeen, Work
from orchconverge.core.state import Basin, Branch, Phase, Run
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
SEARCHING = (Phase.SPAWNED, Phase.SEARCHING)


class Controller:
    """Drives one basin to the end of its run. Everything it knows can be lost: the ledger and the folders give it back."""

    def __init__(self, world: World, basin: str) -> None:
        self.world = world
        self.name = basin
        self.trees = Trees(world, basin)
        self.minds = Minds(world, self.trees)
        self.checks = Checks(world, self.trees)
        self.steps = Steps(world, basin)
        self.grafts = Grafts(world, self.trees)
        self.ends: dict[str, MindEnd] = {}
        self.works: dict[str, Work] = {}
        self.target: TargetSeen | None = None
        self.looked = float("-inf")
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
            a.LookAtTarget: self._look_at_target,
            a.LookAtWork: self._look_at_work,
            a.StartMind: self._start_mind,
            a.ReadMind: self._read_mind,
            a.EndMind: lambda action: self._stop(mind_name(action.branch)),
            a.KillMind: lambda action: not self.world.supervisors.kill(mind_name(action.branch)),
            a.Check: self._check,
            a.EndChecks: self._end_checks,
            a.Squash: self._squash,
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
        if not self.fingerprint and not self._ending():
            self.grafts.find(self.world.ledger.state, self.basin)
            self.trees.remove_settled(self.world.ledger.state)
            self.fingerprint = self.record.fingerprint or self.world.git.fingerprint()

    def _turn(self) -> bool:
        """Look, decide and act once. True if there is something new to decide on."""
        fresh = False
        self.world.ledger.catch_up()
        waiting = self.held or self.basin.running is None or self.record.waiting is not None
        self.active.tick(waiting=waiting, least=self.basin.active)
        self.held = False
        if not self._ending() and not self.world.wakeups.stopping():  # a stop waits for nothing
            self.checks.poll(self.basin, self.record)
        for action in decide(self.world.ledger.state, self.look(), self.now()):
            fresh = self.perform[type(action)](action) or fresh
        return fresh

    def _again(self, why: str) -> None:
        self.world.journal.say(f"{why}; trying again")
        self.wake = self.world.clock.monotonic() + RETRY

    def _troubled(self, error: Failed | Refused | OSError) -> None:
        """Git, tmux or the disk did not do what was asked: try again soon, and if that does not help, wait and say so.

        Until it helps no time counts: hours are the minds', not the machine's.
        """
        self.troubles += 1
        self.target = None
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
        self.world.wakeups.wait(self._under_way(), until=min(until, self.wake) if self.wake is not None else until)
        if self.world.clock.monotonic() - self.looked >= TARGET_FRESH:
            self.target = None

    def _under_way(self) -> list[str]:
        attempt = self.basin.attempt
        minds = [mind_name(b) for b in attempt.branches if self._branch(b).phase in SEARCHING] if attempt else []
        step = self.steps.name(self.basin)
        return [*minds, *self.checks.names(), *self.awaited.values(), *([step] if step else [])]

    def _overtaken(self, error: Illegal) -> None:
        """Somebody appended first and the fact is not legal any more: decide anew, but not for ever."""
        self.illegal += 1
        self.target = None
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
        return Seen(
            basin=basin.id,
            random=self.world.host.random(),
            trees=str(self.world.trees),
            probes=probes,
            sessions={name: self.minds.session(name) for name in probes},
            ends=self.ends,
            works=self.works,
            target=self.target,
            answers=self.checks.answers,
            spoiled=frozenset(self.checks.spoiled),
            squashes=self.grafts.squashes,
            landed=self.grafts.landed,
            obstacle=self.grafts.obstacle,
            step=step,
            step_result=result,
            step_argv=self.steps.argv(self.record),
            machine=self.world.host.look(),
            contextual=frozenset(name for name, engine in self.world.engines.items() if engine.contextual),
            memory_floor=self.world.memory_floor,
            disk_floor=self.world.disk_floor,
            fingerprint=self.fingerprint,
            checking=self.checks.alive() if self.basin.running and self._ending() else False,
            stopping=self.world.wakeups.stopping(),
        )

    def _ending(self) -> bool:
        return self.record.stop_requested or self.basin.phase == "killed"

    def _probes(self, basin: Basin) -> dict[str, Probe]:
        if basin.attempt is None:
            return {}
        names = [b for b in basin.attempt.branches if self._branch(b).phase in SEARCHING]
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
        self.target = None
        self.world.journal.say(told(written))
        if isinstance(written, RunWaiting):
            self.grafts.obstacle = ""
        if isinstance(written, AttemptEnded | BasinChecked):
            self._measure(written)
        self.seq = written.seq
        self.export(seq=written.seq)

    def _measure(self, fact: AttemptEnded | BasinChecked) -> None:
        """Timings and use of resources, for `logs/performance.log`."""
        checks = {x.criterion: x.seconds for x in (fact.evidence if isinstance(fact, AttemptEnded) else fact.results)}
        machine = self.world.host.look()
        figures = {"basin": self.name, "seq": fact.seq, "active": fact.active, "check_seconds": checks}
        if isinstance(fact, AttemptEnded):
            minds = [b for b in self.world.ledger.state.branches_of(self.name) if b.attempt == fact.attempt]
            figures |= {"attempt": fact.attempt, "mind_seconds": [b.seconds for b in minds]}
        self.world.journal.measure({**figures, "memory_free": machine.memory_free, "disk_free": machine.disk_free})

    def export(self, *, seq: int, now: bool = False) -> None:
        """Bring the JSON export up to the ledger, at most once a second between own facts."""
        moment, ledger = self.world.clock.monotonic(), self.world.ledger
        if not now and moment - self.exported < EXPORT_EVERY:
            return
        self.exported, self.exported_seq = moment, seq
        newest = ledger.state.newest
        top = newest is not None and newest.id == self.name
        self.world.exports.write(seq, export(ledger.state, self.name, seq=seq), self.name, newest=top)

    def _look_at_target(self, action: a.LookAtTarget) -> bool:
        git, basin, run = self.world.git, self.basin, self.record
        head = git.resolve(f"refs/heads/{basin.target}")
        place: Path | None = Path(run.settings.checkout)
        if run.settings.place != "here":
            held = git.checked_out_at(basin.target)
            place = held if held is not None else place if basin.start is None else None
        self.target = TargetSeen(
            head=head,
            tree=git.tree_of(head) if head is not None else None,
            checkout=git.checkout(place) if place is not None else None,
            fingerprint=git.fingerprint(),
        )
        self.looked = self.world.clock.monotonic()
        return True

    def _look_at_work(self, action: a.LookAtWork) -> bool:
        branch = self._branch(action.branch)
        end = self.ends[action.branch]
        self.works[action.branch] = self.world.git.work(branch.base, end.head)
        return True

    def _start_mind(self, action: a.StartMind) -> bool:
        """Start a mind; one that cannot be started is a failed branch, after a few tries."""
        branch = self._branch(action.branch)
        self.awaited.pop(branch.id, None)
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
        self.ends[branch.id] = self.minds.read(state, branch)
        return True

    def _stop(self, name: str) -> bool:
        self.world.supervisors.stop(name)
        return False

    def _check(self, action: a.Check) -> bool:
        return self.checks.ask(self.basin, self.record, action.key, action.commit)

    def _end_checks(self, action: a.EndChecks) -> bool:
        self.checks.end()
        return False

    def _squash(self, action: a.Squash) -> bool:
        self.grafts.squash(self._branch(action.branch), action.tip)
        return True

    def _land(self, action: a.Land) -> bool:
        self.grafts.land(self.basin, self._branch(action.branch), action.tip, action.tree)
        self.target = None
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
        self.finished = True
        self.checks.end()
        self.trees.remove_checked()
        if self.seq:
            self.export(seq=self.seq, now=True)
        return False


def close_session(world: World, session: str) -> None:
    """Close a tmux session; one that cannot be closed now is said, and ends with its process."""
    try:
        world.panes.close(session)
    except Failed as error:
        world.journal.say(f"the session {session} was not closed: {error.message}")


def told(fact: AnyFact) -> str:
    """A fact in one line for the controller's pane: its type, its branch or number, and what decided."""
    kind = str(fact.__struct_config__.tag)
    words = [
        str(getattr(fact, name))
        for name in ("branch", "attempt", "step", "status", "result", "decision", "reason", "text", "detail")
        if getattr(fact, name, None) not in (None, "")
    ]
    return " ".join([kind, *words])
