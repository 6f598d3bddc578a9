"""The valve: a person admits one candidate at a time, or parts of one, by the same gate as the controller does."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Self

from orchconverge.app.asked import Asked
from orchconverge.app.control import GATES
from orchconverge.app.recovery import differences
from orchconverge.app.said import asking
from orchconverge.app.trees import AT_LOCK, Trees
from orchconverge.app.world import World
from orchconverge.core.actions import Action, Append
from orchconverge.core.admit import NOTHING, Answered, landed_as, landed_from, make_proposal, ready, refusal, standing
from orchconverge.core.events import AnyFact, BasinChecked
from orchconverge.core.export import export
from orchconverge.core.harvest import Harvest, assemble
from orchconverge.core.places import misplaced
from orchconverge.core.seen import Ended, Seen
from orchconverge.core.state import Basin, Branch, Phase, Proposal, Run, State, Tip
from orchconverge.core.values import Evidence, Part, Taken, TurnedDown, Writer, storable
from orchconverge.errors import Illegal, Refused

FLOOR = 30.0
Step = Callable[[State, Seen, Basin], list[Action]]


class Lock:
    """One person at the lock of one basin. Holds `graft/<target>` from the gate to the last fact; raises `Refused`."""

    def __init__(self, world: World, basin: str, *, decided_by: str) -> None:
        self.world = world
        self.name = basin
        self.decided_by = decided_by
        self.trees = Trees(world, basin, own=AT_LOCK)
        self.asked = Asked(world, basin, self.trees, anew=world.host.random())

    @classmethod
    @contextmanager
    def taken(cls, world: World, basin: str, *, decided_by: str) -> Iterator[Self]:
        """Take the lock of the basin's target; whoever comes second is told. Throwaway trees are gone afterwards."""
        world.ledger.catch_up()
        found = world.ledger.state.basins[basin]
        if found.run is None:
            raise Refused(f"{basin} was never run: nothing waits", hint=f"orchconverge open {basin}")
        if found.phase == "killed":
            raise Refused(f"{basin} is killed: nothing is admitted any more", hint="its commits stay on keep-refs")
        lease = world.leases.take(f"graft/{found.target}")
        if lease is None:
            raise Refused(f"somebody else grafts into {found.target} right now", hint="orchconverge status; then again")
        lock = cls(world, basin, decided_by=decided_by)
        lock.sweep()
        try:
            yield lock
        finally:
            world.journal.runs(())
            lock.asked.checks.end()
            lock.trees.remove_checked()
            lease.release()

    def sweep(self) -> None:
        """End the checks of a person's command that was killed, and remove its trees: its lock is ours now."""
        supervisors = self.world.supervisors
        for kind in GATES:
            for name in supervisors.found(f"{kind}/{self.name}."):
                if not isinstance(supervisors.probe(name), Ended):
                    supervisors.kill(name)
        self.trees.remove_checked()

    @property
    def basin(self) -> Basin:
        """The basin as the ledger has it now."""
        return self.world.ledger.state.basins[self.name]

    @property
    def run(self) -> Run:
        """Its newest run, whose settings say how things are checked."""
        return self.asked.run

    # --- what is asked for -------------------------------------------------------------------------------------------

    def stand(self) -> Tip:
        """The target's tip with what holds there, after everything that happened behind the ledger's back is on it."""
        for fact in differences(self.world, self.world.ledger.state, self.basin):
            self.write(fact, writer="recovery")
        self._until_nothing_is_missing(standing)
        target, tip = self.asked.target, self.basin.tip
        assert target is not None
        why = misplaced(self.basin, self.run, target, landing=True)
        if why is not None:
            what, _, hint = why.partition(": ")
            raise Refused(f"{what}: nothing is grafted", hint=hint or "orchconverge status")
        assert tip is not None
        return tip

    def proposal(self) -> Proposal | None:
        """What can be admitted now: the recorded proposal, or one that is made and gated here. ``None``: nothing passes."""
        tip = self.stand()
        if self.basin.phase != "open":
            return None

        def step(state: State, seen: Seen, basin: Basin) -> list[Action]:
            made = ready(state, basin, tip.head) is not None
            return NOTHING if made else make_proposal(state, seen, basin, self.run.settings, tip)

        self._until_nothing_is_missing(step)
        return ready(self.world.ledger.state, self.basin, tip.head)

    def accept(self, proposal: Proposal, *, without: Collection[int] = ()) -> tuple[Taken, ...]:
        """Land a proposal, or what is left of it ``without`` the parts of these numbers, from 1, gated anew."""
        tip = self.stand()
        if proposal.tip != tip.head:
            raise Refused(
                f"{self.basin.target} moved since that was proposed",
                hint=f"orchconverge lock {self.name}: it is made anew",
            )
        found = ready(self.world.ledger.state, self.basin, tip.head)
        if found is None or found.head != proposal.head:
            raise Refused(
                f"what was proposed for {self.name} was decided on meanwhile",
                hint=f"orchconverge lock {self.name}: it is made anew",
            )
        if not without:
            return self._land(tip, _whole_evidence(proposal))
        wanted = [(t.part, self._own(t.part)) for n, t in enumerate(proposal.parts, 1) if n not in without]
        if not wanted:
            raise Refused("nothing is left of the proposal", hint=f"orchconverge prune {proposal.parts[0].part.branch}")
        return self._admit(tip, wanted, must_gain=True)

    def graft(self, branch: Branch, *, reason: str = "") -> tuple[Taken, ...]:
        """Admit a waiting candidate as it is. Without a ``reason`` it has to gain a criterion."""
        if not branch.waits:
            raise Refused(f"{branch.id} is {_state(branch)}: it does not wait at the lock", hint=_instead(branch))
        tip = self.stand()
        branch = self.world.ledger.state.branches[branch.id]
        if not branch.waits:
            raise Refused(f"{branch.id} is {_state(branch)}: {branch.observed}", hint="orchconverge lock")
        if tip.head in branch.refused_tips and not reason:
            raise Refused(
                f"{branch.id} was refused on {tip.head:.8} before: {branch.refusal}",
                hint=f"orchconverge retry {branch.id} gives it to a mind again; or take parts of it with --only PATH",
            )
        return self._admit(
            tip, [(Part(branch=branch.id), self._own(Part(branch=branch.id)))], must_gain=not reason, reason=reason
        )

    def take(self, branch: Branch, parts: Sequence[Part], *, reason: str) -> tuple[Taken, ...]:
        """Take parts of any branch whose commits are kept. Nothing that holds may be lost; nothing has to be gained."""
        return self._admit(self.stand(), [(part, {}) for part in parts], must_gain=False, reason=reason)

    # --- how ---------------------------------------------------------------------------------------------------------

    def _own(self, part: Part) -> Mapping[str, Evidence]:
        """What the part was verified to meet on its own branch."""
        evidence = {x.criterion: x for x in self.world.ledger.state.branches[part.branch].evidence}
        return evidence if part.criterion is None else {k: x for k, x in evidence.items() if k == part.criterion}

    def _admit(
        self, tip: Tip, wanted: Sequence[tuple[Part, Mapping[str, Evidence]]], *, must_gain: bool, reason: str = ""
    ) -> tuple[Taken, ...]:
        """Gate the parts one on another and land them, all or none."""
        criteria = [c for c in self.basin.criteria if c.in_loop]
        self.asked.grafts.reason = reason
        found = Harvest()

        def step(state: State, seen: Seen, basin: Basin) -> list[Action]:
            nonlocal found
            ask = Answered(state, seen, basin)
            found = assemble(criteria, tip.head, tip.results, wanted, ask, must_gain=must_gain)
            return list(found.missing)

        self._until_nothing_is_missing(step)
        if found.refused:
            self._refuse(found.refused[0])
        return self._land(tip, found.taken, reason=reason)

    def _refuse(self, refused: TurnedDown) -> None:
        """Record that the gate said no, unless that is on record, and say it."""
        fact = refusal(self.basin, refused)
        try:
            self.write(fact)
        except Illegal:
            self.world.ledger.catch_up()
        conflicts = ", ".join(refused.conflicts[:5])
        why = f"conflict in {conflicts}" if conflicts else refused.why
        branch = refused.part.branch
        hint = f"orchconverge retry {branch} gives it to a mind with that; orchconverge diff {branch} shows it"
        if not conflicts and not refused.lost:
            hint = f"orchconverge prune {branch} --reason TEXT turns it down; --reason TEXT here admits what gains none"
        if not refused.part.whole:
            hint = f"orchconverge diff {branch} shows what it has"
        raise Refused(f"{self.basin.target} is not moved: the gate refused {branch}, {why}", hint=hint)

    def _land(self, tip: Tip, taken: Sequence[Taken], *, reason: str = "") -> tuple[Taken, ...]:
        head = taken[-1]
        self._still_wanted(taken)
        if not self.world.git.advance(self.basin.target, new=head.commit, old=tip.head):
            raise Refused(
                f"{self.basin.target} moved meanwhile: nothing was grafted", hint="the same command once more"
            )
        for one in taken:
            landed = landed_from(one, reason)
            self._record(landed_as(self.world.ledger.state, self.basin, landed, one.evidence, self.decided_by), one)
        self.write(BasinChecked(basin=self.name, head=head.commit, tree=head.tree, results=head.evidence))
        return tuple(taken)

    def _still_wanted(self, taken: Sequence[Taken]) -> None:
        """Decisions of others while the gate ran: what was pruned or killed meanwhile does not land."""
        self.world.ledger.catch_up()
        state, phase = self.world.ledger.state, self.basin.phase
        gone = [t.part.branch for t in taken if t.part.whole and not state.branches[t.part.branch].waits]
        if gone or phase == "killed" or (phase != "open" and any(one.part.whole for one in taken)):
            what = f"{gone[0]} is {state.branches[gone[0]].phase.value}" if gone else f"{self.name} is {phase}"
            raise Refused(f"{what} since the gate began: nothing was grafted", hint=f"orchconverge status {self.name}")

    def _record(self, fact: AnyFact, taken: Taken) -> None:
        """Write down what landed, unless a controller that looked at the same moment has found it by its trailers."""
        try:
            self.write(fact)
        except Illegal:
            self.world.ledger.catch_up()
            if taken.commit not in self.basin.merges:
                raise

    def write(self, fact: AnyFact, *, writer: Writer = "cli") -> None:
        """Append one fact, and bring the JSON export up."""
        seq = self.world.ledger.append(storable(fact), writer=writer).seq
        self.asked.target = None
        state = self.world.ledger.state
        newest = state.newest is not None and state.newest.id == self.name
        self.world.exports.write(seq, export(state, self.name, seq=seq), self.name, newest=newest)

    def _until_nothing_is_missing(self, step: Step) -> None:
        """Get what a step still needs, until it needs nothing; a signal ends the checks that run."""
        world = self.world
        while True:
            world.ledger.catch_up()
            fresh, actions = False, step(world.ledger.state, self.asked.seen(), self.basin)
            if not actions:
                world.journal.runs(())
                return
            for action in actions:
                if isinstance(action, Append):
                    self.write(action.fact)
                    fresh = True
                else:
                    fresh = self.asked.perform[type(action)](action) or fresh
            if not fresh:
                world.journal.runs(asking(self.basin, self.asked.checks))
                world.wakeups.wait(self.asked.checks.names(), until=world.clock.monotonic() + FLOOR)
                self.asked.checks.poll(self.basin, self.run)
            if world.wakeups.stopping():
                raise KeyboardInterrupt


def _whole_evidence(proposal: Proposal) -> tuple[Taken, ...]:
    """The parts of a proposal, the last one with the evidence in whole."""
    *before, last = proposal.parts
    whole = Taken(
        part=last.part,
        commit=last.commit,
        tree=last.tree,
        paths=last.paths,
        gains=last.gains,
        evidence=proposal.evidence,
    )
    return (*before, whole)


def _state(branch: Branch) -> str:
    return "on the target already" if branch.admitted else branch.phase.value


def _instead(branch: Branch) -> str:
    if branch.phase in (Phase.PRUNED, Phase.FAILED) and branch.head is not None:
        return f"parts of it can be taken: orchconverge graft {branch.id} --only PATH --reason TEXT"
    return f"orchconverge lock {branch.basin}"
