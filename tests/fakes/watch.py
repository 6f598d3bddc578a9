"""What must hold of every run, checked after every append and at the end, by the simulation's own ground truth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from orchconverge.core import events as e
from orchconverge.core.replay import Replay
from orchconverge.core.state import State
from orchconverge.core.target import Sha
from orchconverge.core.values import Evidence, Limits, Taken
from tests.fakes.players import met

if TYPE_CHECKING:
    from tests.fakes.simulation import Pursuit, Simulation

SLACK = 200.0
"""Seconds of setup, of lost starts and of a stop's grace that come before or after a mind's own deadline."""
QUICK = 15.0
"""Seconds in which a run stops where nothing outside fails: a lost start is waited for, and a grace."""
RUN_BY_US = ("command", "tests")


class Violation(AssertionError):
    """Something that must hold does not."""


class Watch:
    """Reads every fact of a pursuit as it is appended, with a model of its own that shares nothing with the fold."""

    def __init__(self, simulation: Simulation, pursuit: Pursuit) -> None:
        self.simulation = simulation
        self.name, self.target = pursuit.name, pursuit.target
        self.drives = lambda: pursuit.drives
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
        self.wave: list[e.BranchSpawned] = []
        """What the running attempt spawned."""
        self.live: set[str] = set()
        """The branches whose mind may run, by the facts alone."""
        self.spawned: list[e.BranchSpawned] = []
        self.grafted: set[str] = set()
        self.landed: dict[Sha, str] = {}
        """The commits that were recorded as landed, and of which branch."""
        self.gated: dict[Sha, Taken] = {}
        """Every part of every proposal, by its commit."""
        self.holding: dict[Sha, set[str]] = {}
        """Per commit of the target, or of a chain onto it, the criteria that were found to hold there."""
        self.refused = self.moved = 0
        """In the running attempt: parts that were turned down, and how often the target was checked anew."""
        self.facts: list[e.AnyFact] = []
        self.moved_to_trees = None if self.story.place == "here" else 0
        """How often anything had been moved when its minds began to work in worktrees."""
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
        self.run, self.limits, self.waiting, self.refused = fact.run, fact.limits, None, 0
        self.begun = self.drives()

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
        if self.last_start is not None and self.last_charged and self.story.settings.loop:
            gap = active - self.last_start
            self.demand(gap >= self.story.settings.interval - 0.01, f"attempts {gap:.2f} s apart")
        self.running, self.number, self.last_start = fact, fact.attempt, active
        self.wave, self.refused, self.moved = [], 0, 0

    def _AttemptEnded(self, fact: e.AttemptEnded) -> None:
        self.demand(
            self.running is not None and self.running.attempt == fact.attempt, "an attempt ended that does not run"
        )
        self.demand(self.minds() == [], f"an attempt ended while {self.minds()} runs")
        self.demand(not self.live, f"an attempt ended and {sorted(self.live)} were not seen to end")
        unsettled = [s.branch for s in self.wave if s.branch not in self.settled]
        self.demand(not unsettled, f"an attempt ended and {unsettled} are not settled")
        self.running, self.last_charged = None, fact.charged
        self._stands(fact.head, fact.evidence)
        self.charged += fact.charged
        if fact.result == "success":
            self._truth(fact.evidence, "success")

    # --- branches ----------------------------------------------------------------------------------------------------

    def processes(self) -> list[str]:
        """What runs for this pursuit."""
        return [n for n in self.simulation.machine.alive() if n.partition("/")[2].startswith(f"{self.name}.")]

    def minds(self) -> list[str]:
        return [name for name in self.processes() if name.startswith("minds/")]

    def beside(self) -> int:
        """How many minds another pursuit has to leave room for: of a controller that is gone those that are alive."""
        gone = f"lease/{self.name}" not in self.simulation.board.held
        return sum(map(self.simulation.machine.runs, self.minds())) if gone else len(self.live)

    def _BranchSpawned(self, fact: e.BranchSpawned) -> None:
        attempt, settings = self.running, self.story.settings
        assert attempt is not None
        if fact.place == "here":
            self.demand(self.minds() == [], f"{fact.branch} spawned while {self.minds()} runs")
            self.demand(attempt.width == 1, f"{attempt.width} minds in one place")
            self.demand(self.moved_to_trees is None, f"{fact.branch} in place, though the pursuit left it")
        elif self.moved_to_trees is None:
            self.moved_to_trees = len(self.simulation.store.moves)
        self.demand(self.phase == "open", f"{fact.branch} spawned in a basin that is {self.phase}")
        self.demand(fact.branch == f"{self.name}.{len(self.spawned) + 1}", f"{fact.branch} after {len(self.spawned)}")
        names = {(s.gitBranch, s.worktree) for s in self.spawned if s.place == "fresh"}
        self.demand((fact.gitBranch, fact.worktree) not in names, f"{fact.branch} has the tree of another one")
        self.wave.append(fact)
        self.spawned.append(fact)
        self.live.add(fact.branch)
        self.demand(len(self.wave) <= attempt.width, f"{len(self.wave)} minds in a wave of {attempt.width}")
        self.demand({s.base for s in self.wave} == {self.wave[0].base}, f"{fact.branch} begins elsewhere than its wave")
        at_once = len(self.live) + sum(p.watch.beside() for p in self.simulation.pursuits if p.watch is not self)
        self.demand(at_once <= settings.maxMinds, f"{at_once} minds at once, {settings.maxMinds} at most")
        if self.limits.minds is not None:
            self.demand(len(self.spawned) <= self.limits.minds, f"mind {len(self.spawned)} of {self.limits.minds}")

    def _BranchPruned(self, fact: e.BranchPruned) -> None:
        self.demand(fact.branch not in self.grafted, f"{fact.branch} was pruned and is grafted")
        self.settled.add(fact.branch)

    def _BranchEnded(self, fact: e.BranchEnded) -> None:
        self.live.discard(fact.branch)
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
        self.live.discard(fact.branch)
        self.demand(f"minds/{fact.branch}" not in self.minds(), f"{fact.branch} failed while it runs")
        self._settle(fact.branch)

    def _settle(self, branch: str) -> None:
        self.demand(branch not in self.settled, f"{branch} was settled twice")
        self.settled.add(branch)

    # --- the target --------------------------------------------------------------------------------------------------

    def _BasinChecked(self, fact: e.BasinChecked) -> None:
        self.moved += 1
        self._stands(fact.head, fact.results)

    def _stands(self, commit: Sha, evidence: tuple[Evidence, ...]) -> None:
        """What was found to hold at a commit; of two answers the later one counts."""
        if evidence:
            by_name = {x.criterion: x.met for x in evidence}
            self.holding[commit] = {name for name, met in by_name.items() if met == "yes"}

    def _ProposalMade(self, fact: e.ProposalMade) -> None:
        store, before = self.simulation.store, fact.tip
        self.demand(self.phase == "open", f"a proposal in a basin that is {self.phase}")
        self.demand(bool(fact.parts), "a proposal of nothing")
        for taken in fact.parts:
            self._gated(taken, before)
            before = taken.commit
        self.demand((fact.head, fact.tree) == (before, store.commits[before].tree), "a proposal that ends elsewhere")
        self.demand({x.tree for x in fact.evidence} == {fact.tree}, "a proposal by evidence of another tree")
        whole = [taken.part.branch for taken in fact.parts if taken.part.whole]
        self.demand(fact.graft == (*whole, "")[0], "a proposal that names another branch")
        self.demand(len(set(whole)) == len(whole), "a branch twice in a proposal")
        kept = store.refs.get(f"refs/orchconverge/proposal/{self.name}")
        self.demand(kept == fact.head, "a proposal whose chain nothing keeps")

    def _gated(self, taken: Taken, before: Sha) -> None:
        """A part stands on the commit before it, is of exactly the tree that was checked, loses nothing and gains something."""
        stored = self.simulation.store.commits[taken.commit]
        self.demand(stored.parents == (before,), "a chain that does not hang together")
        self.demand(stored.tree == taken.tree, "a part of another tree than was gated")
        self._admissible(taken.commit, before, taken.evidence)
        self.demand(bool(taken.gains), "a part that gains nothing")
        criterion = taken.part.criterion
        self.demand(criterion is None or criterion in self.holding[taken.commit], "a part without what it is for")
        self.gated[taken.commit] = taken

    def _admissible(self, commit: Sha, before: Sha, evidence: tuple[Evidence, ...]) -> None:
        """All was run on exactly this tree, and nothing that held before is lost."""
        tree = self.simulation.store.commits[commit].tree
        names = {c.name for c in self.story.criteria if c.in_loop}
        self.demand({x.criterion for x in evidence} == names, "a graft without all its evidence")
        self.demand(all(x.tree == tree for x in evidence), "a graft by evidence of another tree")
        for criterion in self.story.criteria:
            if criterion.kind in RUN_BY_US:
                looked = (criterion.command, tree) in self.simulation.players.ran
                error = any(x.criterion == criterion.name and x.met == "error" for x in evidence)
                self.demand(looked or error, f"{criterion.name} never ran on the grafted tree")
        self._stands(commit, evidence)
        lost = self.holding.get(before, set()) - self.holding[commit]
        self.demand(not lost, f"a graft lost {sorted(lost)}")

    def _GraftRefused(self, fact: e.GraftRefused) -> None:
        self.demand(bool(fact.conflicts or fact.lost or fact.why), "a refusal without a reason")
        if (fact.paths or fact.commits) and self.running is not None and fact.writer == "controller":
            self.refused += 1
            most = self.story.settings.harvestTries * (1 + self.moved)
            self.demand(self.refused <= most, f"{self.refused} parts were turned down, {most} at most")

    def _BranchGrafted(self, fact: e.BranchGrafted) -> None:
        self.demand(fact.branch not in self.grafted, f"{fact.branch} was grafted twice")
        self.grafted.add(fact.branch)
        tree = self.simulation.store.commits[fact.mergeCommit].tree
        self.demand(tree == fact.tree, "a graft of another tree than was gated")
        self._has_landed(fact, fact.branch)

    def _ResidueGrafted(self, fact: e.ResidueGrafted) -> None:
        store = self.simulation.store
        parent = store.commits[fact.mergeCommit].parents[0]
        changed = self.simulation.players.git.changed(parent, fact.mergeCommit)
        self.demand(fact.paths == changed, f"{fact.paths} were taken and {changed} changed")
        self._has_landed(fact, fact.branch)

    def _BranchReconciled(self, fact: e.BranchReconciled) -> None:
        self.demand(bool(fact.observed), "something was put right and nobody says what was seen")
        if fact.mergeCommit is not None:
            self.landed[fact.mergeCommit] = fact.branch

    def _has_landed(self, fact: e.BranchGrafted | e.ResidueGrafted, branch: str) -> None:
        """It is on the target, by one move of ours, and was not recorded before."""
        store, commit = self.simulation.store, fact.mergeCommit
        self.demand(commit not in self.landed, f"{commit:.8} was recorded twice")
        self.landed[commit] = branch
        self._admissible(commit, store.commits[commit].parents[0], fact.evidence)
        moves = [
            m
            for m in store.moves
            if (m.branch, m.by) == (self.target, "advance")
            and commit in store.reach(m.new)
            and (m.old is None or commit not in store.reach(m.old))
        ]
        self.demand(len(moves) == 1, "a graft that is not on the target once")

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
        head = store.refs.get(f"refs/heads/{self.target}", tip.head)
        self.demand(tip.head in store.reach(head), "converged on what is not the target")
        moved_by = {
            m.by for m in store.moves if m.branch == self.target and m.new in store.reach(head) - store.reach(tip.head)
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
        most, peak = self.story.settings.maxMinds, simulation.machine.peak["minds"]
        if not (simulation.crashes and self.story.beside):  # a mind that nobody started yet may have lost its room
            self.demand(peak <= most, f"{peak} minds ran at once, {most} at most")
        heads = [head for tree in store.places.values() if (head := store.head(tree)) is not None]
        lost = set(simulation.players.commits) - store.reach(*store.refs.values(), *heads)
        self.demand(not lost, f"commits of minds that nothing points at: {sorted(lost)}")
        if simulation.calm and not simulation.crashes:
            basins = simulation.reader.state.basins.values()
            running = [name for basin in basins if basin.attempt is not None for name in basin.attempt.branches]
            open_trees = {simulation.reader.state.branches[name].worktree for name in running}
            ours = [path for path, tree in store.places.items() if tree.ours and str(path) not in open_trees]
            self.demand(ours == [], f"working trees are left: {ours}")
        self._moves()

    def _moves(self) -> None:
        """The target stands only where a person, the report or the gate put it; with a person at the lock only they do."""
        store = self.simulation.store
        moves = [m for m in store.moves if m.branch == self.target]
        in_place = store.moves[: self.moved_to_trees]
        movers = {m.by for m in moves if m.by != "mind" or m not in in_place}
        movers -= {"advance", "ann", "commit_file", "orchconverge"}
        self.demand(not movers, f"the target was moved by {movers}")
        for move in moves:
            if move.by != "advance":
                continue
            assert move.old is not None
            at = move.new
            while at != move.old:
                known = at in self.landed or at in self.gated or self.phase == "killed"  # nothing is recorded then
                self.demand(known, f"the target was moved over {at:.8}, which nobody gated")
                [at] = store.commits[at].parents
            if self.story.lock == "person":
                self.demand(move.new in self.simulation.by_hand, "the target was moved without a person")


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
