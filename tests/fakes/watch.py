"""What must hold of every run, checked after every append and at the end, by the simulation's own ground truth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from orchconverge.core import events as e
from orchconverge.core.replay import Replay
from orchconverge.core.state import State
from orchconverge.core.values import Evidence, Limits
from tests.fakes.players import TARGET, met

if TYPE_CHECKING:
    from tests.fakes.simulation import Simulation

SLACK = 200.0
"""Seconds of setup, of lost starts and of a stop's grace that come before or after a mind's own deadline."""
QUICK = 15.0
"""Seconds in which a run stops where nothing outside fails: a lost start is waited for, and a grace."""
RUN_BY_US = ("command", "tests")


class Violation(AssertionError):
    """Something that must hold does not."""


class Watch:
    """Reads every fact as it is appended, with a model of its own that shares nothing with the fold."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.story = simulation.story
        self.limits = Limits()
        self.charged = 0
        self.number = 0
        self.running: e.AttemptStarted | None = None
        self.run: str | None = None
        self.waiting: e.RunWaiting | None = None
        self.stop_requested = False
        self.asked_to_stop = 0.0
        self.phase = "open"
        self.last_start: float | None = None
        self.last_charged = False
        self.settled: set[str] = set()
        self.facts: list[e.AnyFact] = []
        self.begun = 0
        """The number of the newest controller that recorded its run."""

    def fail(self, why: str) -> None:
        raise Violation(why)

    def demand(self, holds: bool, why: str) -> None:
        if not holds:
            self.fail(why)

    def appended(self, fact: e.AnyFact) -> None:
        """Check one fact against all that was seen before."""
        self.facts.append(fact)
        check = getattr(self, f"_{type(fact).__name__}", None)
        if check is not None:
            check(fact)
        for field in ("results", "evidence"):
            if not isinstance(fact, e.StepEnded):
                self._evidence(getattr(fact, field, ()))

    # --- runs and attempts -------------------------------------------------------------------------------------------

    def _RunStarted(self, fact: e.RunStarted) -> None:
        self.demand(self.run is None or fact.takesOver == self.run, "a second run started")
        self.run, self.limits, self.waiting = fact.run, fact.limits, None
        self.begun = self.simulation.drives

    def _RunStopRequested(self, fact: e.RunStopRequested) -> None:
        if not self.stop_requested:
            self.asked_to_stop = self.simulation.time.mono
        self.stop_requested = True

    def _RunWaiting(self, fact: e.RunWaiting) -> None:
        self.demand(bool(fact.text), "a wait without a reason")
        self.waiting = fact

    def _RunWoke(self, fact: e.RunWoke) -> None:
        self.waiting = None

    def _RunStopped(self, fact: e.RunStopped) -> None:
        if self.stop_requested and self.simulation.calm:
            took = self.simulation.time.mono - self.asked_to_stop
            self.demand(took <= QUICK, f"it took {took:.1f} s to stop")
        self.run, self.waiting, self.stop_requested = None, None, False
        self.demand(fact.reason != "error", f"a run ended by an error: {fact.text}")
        if fact.reason == "converged":
            self.demand(self.phase == "converged", "a run ended converged and its basin is not")

    def _BasinKilled(self, fact: e.BasinKilled) -> None:
        self.phase = "killed"

    def _AttemptStarted(self, fact: e.AttemptStarted) -> None:
        active = fact.active or 0.0
        self.demand(self.running is None, "two attempts at once")
        self.demand(self.phase == "open", f"an attempt in a basin that is {self.phase}")
        self.demand(not self.stop_requested, "an attempt after a stop was asked for")
        self.demand(self.waiting is None, "an attempt while the run waits")
        self.demand(fact.attempt == self.number + 1, f"attempt {fact.attempt} after {self.number}")
        if self.limits.attempts is not None:
            self.demand(self.charged < self.limits.attempts, f"attempt after {self.charged} of {self.limits.attempts}")
        if self.limits.hours is not None:
            left = self.limits.hours * 3600 - active
            self.demand(left > 0, f"an attempt {-left:.1f} s after the time limit")
            self.demand(fact.deadline <= max(left, 1.0) + 1e-3, f"a deadline of {fact.deadline} with {left:.1f} s left")
        if self.last_start is not None and self.last_charged:
            gap = active - self.last_start
            self.demand(gap >= self.story.settings.interval - 0.01, f"attempts {gap:.2f} s apart")
        self.running, self.number, self.last_start = fact, fact.attempt, active

    def _AttemptEnded(self, fact: e.AttemptEnded) -> None:
        self.demand(
            self.running is not None and self.running.attempt == fact.attempt, "an attempt ended that does not run"
        )
        self.demand(self.minds() == [], f"an attempt ended while {self.minds()} runs")
        self.running, self.last_charged = None, fact.charged
        self.charged += fact.charged
        if fact.result == "success":
            self._truth(fact.evidence, "success")

    # --- branches ----------------------------------------------------------------------------------------------------

    def minds(self) -> list[str]:
        return [name for name in self.simulation.machine.alive() if name.startswith("minds/")]

    def _BranchSpawned(self, fact: e.BranchSpawned) -> None:
        self.demand(self.minds() == [], f"{fact.branch} spawned while {self.minds()} runs")

    def _BranchEnded(self, fact: e.BranchEnded) -> None:
        self.demand(f"minds/{fact.branch}" not in self.minds(), f"{fact.branch} ended while it runs")
        if self.limits.hours is not None and self.running is not None and fact.active is not None:
            most = self.limits.hours * 3600 + SLACK
            self.demand(fact.active <= most, f"a mind ended {fact.active:.0f} s active, {most:.0f} at most")

    def _BranchCandidate(self, fact: e.BranchCandidate) -> None:
        store = self.simulation.store
        self.demand(fact.head in store.commits, "a candidate that does not exist")
        self.demand(all(x.tree == store.commits[fact.head].tree for x in fact.evidence), "evidence of another tree")
        self._settle(fact.branch)

    def _BranchFailed(self, fact: e.BranchFailed) -> None:
        self.demand(f"minds/{fact.branch}" not in self.minds(), f"{fact.branch} failed while it runs")
        self._settle(fact.branch)

    def _settle(self, branch: str) -> None:
        self.demand(branch not in self.settled, f"{branch} was settled twice")
        self.settled.add(branch)

    def _BranchGrafted(self, fact: e.BranchGrafted) -> None:
        store = self.simulation.store
        self.demand(store.commits[fact.mergeCommit].tree == fact.tree, "a graft of another tree than was gated")
        names = {c.name for c in self.story.criteria if c.in_loop}
        self.demand({x.criterion for x in fact.evidence} == names, "a graft without all its evidence")
        self.demand(all(x.tree == fact.tree for x in fact.evidence), "a graft by evidence of another tree")
        for criterion in self.story.criteria:
            if criterion.kind in RUN_BY_US:
                looked = (criterion.command, fact.tree) in self.simulation.players.ran
                error = any(x.criterion == criterion.name and x.met == "error" for x in fact.evidence)
                self.demand(looked or error, f"{criterion.name} never ran on the grafted tree")
        landed = [m for m in store.moves if m.branch == TARGET and m.by == "advance" and m.new == fact.mergeCommit]
        self.demand(len(landed) == 1, "a graft that is not on the target once")

    # --- evidence against the truth ----------------------------------------------------------------------------------

    def _evidence(self, evidence: tuple[Evidence, ...]) -> None:
        """A red answer can be a flaky check; a green one is the truth, of the tree that it names."""
        for x in evidence:
            criterion = next(c for c in self.story.criteria if c.name == x.criterion)
            if x.met != "yes" or criterion.kind not in RUN_BY_US:
                continue
            files = self.simulation.store.trees[x.tree]
            disturbed = x.place == "here" and self.simulation.disturbed
            self.demand(met(files, criterion.command) or disturbed, f"{x.criterion} is called met and is not")

    def _truth(self, evidence: tuple[Evidence, ...], what: str) -> None:
        by_name = {x.criterion: x for x in evidence}
        unmet = [c.name for c in self.story.criteria if c.required and by_name[c.name].met != "yes"]
        self.demand(not unmet, f"{what} with {unmet} unmet")

    def _BasinConverged(self, fact: e.BasinConverged) -> None:
        self.phase = "converged"
        simulation, store = self.simulation, self.simulation.store
        tip = simulation.reader.state.basins[fact.basin].tip
        assert tip is not None
        head = store.refs.get(f"refs/heads/{TARGET}", tip.head)
        self.demand(tip.head in store.reach(head), "converged on what is not the target")
        moved_by = {
            m.by for m in store.moves if m.branch == TARGET and m.new in store.reach(head) - store.reach(tip.head)
        }
        self.demand(moved_by <= {"ann", "commit_file"}, f"converged, and {moved_by} moved the target since")
        files = store.trees[store.commits[tip.head].tree]
        unmet = [c.name for c in self.story.criteria if c.required and c.command and not met(files, c.command)]
        self.demand(not unmet or simulation.disturbed, f"converged, and {unmet} of {tip.head:.8} is not true")

    # --- the end -----------------------------------------------------------------------------------------------------

    def resumed(self, state: State) -> None:
        """The live fold, of a controller that is gone, against one from scratch."""
        shelf = self.simulation.shelf
        again = Replay()
        again.feed(bytes(shelf.content[: shelf.content.rfind(b"\n") + 1]))
        self.demand(again.illegal == 0, "an illegal line on the ledger")
        torn = self.simulation.torn
        self.demand(again.bad <= torn, f"{again.bad} bad lines, {torn} were torn")
        self.demand(told(again.fold.state) == told(state), "the live fold differs from one from scratch")

    def over(self) -> None:
        """After the run: nothing runs, nothing is lost, nothing moved that must not."""
        simulation, store = self.simulation, self.simulation.store
        self.demand(self.run is None, "the controller left and its run is open")
        left = simulation.machine.alive()
        self.demand(left == [], f"still running: {left}")
        twice = {name: n for name, n in simulation.machine.starts.items() if n > 1 and name.startswith("minds/")}
        self.demand(not twice, f"minds started twice: {twice}")
        self.demand(not simulation.machine.together, f"two at once: {simulation.machine.together}")
        heads = [head for tree in store.places.values() if (head := store.head(tree)) is not None]
        lost = set(simulation.players.commits) - store.reach(*store.refs.values(), *heads)
        self.demand(not lost, f"commits of minds that nothing points at: {sorted(lost)}")
        if simulation.calm and not simulation.crashes:
            attempt = simulation.basin.attempt
            running = attempt.branches if attempt is not None else ()
            open_trees = {simulation.reader.state.branches[name].worktree for name in running}
            ours = [path for path, tree in store.places.items() if tree.ours and str(path) not in open_trees]
            self.demand(ours == [], f"working trees are left: {ours}")
        movers = {m.by for m in store.moves if m.branch == TARGET} - {"advance", "ann", "commit_file", "orchconverge"}
        allowed = {"mind"} if self.story.place == "here" else set[str]()
        self.demand(movers <= allowed, f"the target was moved by {movers}")


def told(state: State) -> Mapping[str, object]:
    """A fold as plain values that can be compared."""
    return {
        "basins": dict(state.basins),
        "branches": dict(state.branches),
        "sessions": dict(state.sessions),
        "frontier": dict(state.frontier),
        "results": {name: dict(known) for name, known in state.results.items()},
        "waves": dict(state.waves),
    }
