"""The end of a wave: what its branches are worth together, how that comes onto the target, and how the attempt is judged."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from msgspec.structs import replace

from orchconverge.core import events as e
from orchconverge.core import judge
from orchconverge.core.actions import Action, Append, CleanUp, Land, LookAtContents, LookAtTarget, Offer
from orchconverge.core.convergence import converging
from orchconverge.core.harvest import Harvest, Results, Source, propose
from orchconverge.core.judge import Answers
from orchconverge.core.outlook import judged
from orchconverge.core.places import misplaced
from orchconverge.core.seen import Landed, Now, Seen, TargetSeen, Tried
from orchconverge.core.state import Basin, Branch, Phase, Proposal, Run, State, Tip
from orchconverge.core.strategy import failures, place
from orchconverge.core.target import Sha
from orchconverge.core.values import Evidence, Part, Settings, Taken, TurnedDown

NOTHING: list[Action] = []
OBSTACLE_SEEN_BY_GIT_ALONE = timedelta(minutes=5)
"""How long to wait where a target cannot be moved for a reason that only another try can see gone."""
RULE = "auto: nothing lost, at least one criterion gained"
COVERED = "auto: covered"


class Answered:
    """What the controller was told so far: `orchconverge.core.harvest.Ask` over one turn's `Seen`."""

    def __init__(self, state: State, seen: Seen, basin: Basin) -> None:
        self._state = state
        self._seen = seen
        self._criteria = [c for c in basin.criteria if c.in_loop]

    def tried(self, part: Part, onto: Sha) -> Tried | None:
        """What merging the part onto a commit gave."""
        return self._seen.tried.get((part, onto))

    def judged(self, tree: Sha, commit: Sha, expected: Results) -> Answers:
        """Evidence on a tree, or the checks that are missing."""
        return judge.answers(
            self._state, self._seen, criteria=self._criteria, tree=tree, commit=commit, place="fresh", before=expected
        )


def sources(state: State, seen: Seen, basin: Basin, tip: Sha) -> list[Source]:
    """The branches that wait and that nobody has to look at first, oldest first: it does not matter which ended first."""
    waiting = [branch for branch in state.branches_of(basin.id) if branch.id in basin.queue]
    return [
        Source(
            branch=branch.id,
            base=branch.base,
            evidence={x.criterion: x for x in branch.evidence},
            whole=tip not in branch.refused_tips,
            work=seen.works.get(branch.id),
            refused=branch.refused_parts | {(onto, None, ()) for onto in branch.refused_tips},
        )
        for branch in waiting
        if not branch.flags
    ]


def admit(state: State, seen: Seen, now: Now, basin: Basin, run: Run, branches: Sequence[Branch]) -> list[Action]:
    """Bring onto the target what passes the gate, or propose it to a person. Empty: there is nothing more to admit."""
    if place(basin, run) == "here":
        return NOTHING
    target = seen.target
    if target is None:
        return [LookAtTarget()]
    unrecorded = record_landed(state, seen, basin, target)
    if unrecorded or target.head is None or not any(not state.branches[name].flags for name in basin.queue):
        return unrecorded
    tip = basin.tip
    if tip is None or not judge.answered(basin, target.head):
        return recheck(state, seen, basin)
    proposal = ready(state, basin, tip.head)
    if proposal is not None:
        return NOTHING if basin.valve == "person" else _land(seen, now, basin, run, target, proposal)
    covered = _covered(state, basin, tip) if basin.valve == "auto" else NOTHING
    return covered or make_proposal(state, seen, basin, run.settings, tip)


def ready(state: State, basin: Basin, tip: Sha | None) -> Proposal | None:
    """The recorded proposal, if it was made on this tip and all that it is made of still waits."""
    found = basin.proposal
    if found is None or tip is None or found.tip != tip or basin.phase != "open":
        return None
    return found if all(state.branches[taken.part.branch].waits for taken in found.parts) else None


def standing(state: State, seen: Seen, basin: Basin) -> list[Action]:
    """What has to be done before the target's tip is what the ledger says of it: looked at, recorded, checked."""
    target = seen.target
    if target is None:
        return [LookAtTarget()]
    if target.head is None or target.trespass:  # nobody's to take over: a person is told
        return NOTHING
    unrecorded = record_landed(state, seen, basin, target)
    if unrecorded or judge.answered(basin, target.head):
        return unrecorded
    return recheck(state, seen, basin)


def record_landed(state: State, seen: Seen, basin: Basin, target: TargetSeen) -> list[Action]:
    """Write down the first commit of ours on the target that is on no record."""
    for landed in target.landed:
        if landed.commit not in basin.merges and _ours(state, basin, landed):
            return _record(state, seen, basin, landed)
    return NOTHING


def _ours(state: State, basin: Basin, landed: Landed) -> bool:
    """Whether a commit that carries our trailers is of a branch of this ledger, and one that has commits."""
    branch = state.branches.get(landed.branch)
    return branch is not None and branch.basin == basin.id and branch.head is not None


def _covered(state: State, basin: Basin, tip: Tip) -> list[Action]:
    """Turn down what has nothing left to give since something else was admitted."""
    for name in basin.queue:
        branch = state.branches[name]
        covered = "" if branch.flags or branch.base == tip.head else judge.covered(basin, branch)
        if covered:
            return [Append(fact=e.BranchPruned(basin=basin.id, branch=name, reason=covered, decidedBy=COVERED))]
    return NOTHING


def make_proposal(state: State, seen: Seen, basin: Basin, settings: Settings, tip: Tip) -> list[Action]:
    """One step of the harvest: what is missing, what was refused and is not on record, or the proposal."""
    criteria = [c for c in basin.criteria if c.in_loop]
    found = propose(
        criteria,
        tip.head,
        tip.results,
        sources(state, seen, basin, tip.head),
        Answered(state, seen, basin),
        failures=failures(basin),
        tries=settings.harvestTries,
        objected=judge.objected(basin),
    )
    if found.refused:
        return [Append(fact=refusal(basin, found.refused[0]))]
    if found.missing and seen.harvesting <= settings.harvestMinutes * 60:
        return list(found.missing)
    if not found.taken:
        return NOTHING
    head = found.taken[-1].commit
    if seen.offered != head:
        return [Offer(head=head)]
    refused = basin.attempt.refused if basin.attempt is not None else ()
    return [Append(fact=proposal_of(basin, tip.head, found, refused))]


def refusal(basin: Basin, refused: TurnedDown) -> e.GraftRefused:
    """The fact of a part that the gate turned down; of a part the evidence of what was lost is enough."""
    part = refused.part
    return e.GraftRefused(
        basin=basin.id,
        branch=part.branch,
        tip=refused.onto,
        conflicts=refused.conflicts,
        lost=refused.lost,
        evidence=refused.evidence if part.whole else tuple(x for x in refused.evidence if x.criterion in refused.lost),
        paths=part.paths,
        commits=part.commits,
        criterion=part.criterion,
        why=refused.why,
    )


def proposal_of(basin: Basin, tip: Sha, found: Harvest, refused: Sequence[TurnedDown]) -> e.ProposalMade:
    """The fact of what can be admitted together."""
    last, whole = found.taken[-1], [taken.part.branch for taken in found.taken if taken.part.whole]
    return e.ProposalMade(
        basin=basin.id,
        tip=tip,
        graft=whole[0] if whole else "",
        parts=tuple(replace(taken, evidence=brief(taken.evidence)) for taken in found.taken),
        refused=tuple(refused),
        head=last.commit,
        tree=last.tree,
        evidence=last.evidence,
    )


def brief(evidence: Sequence[Evidence]) -> tuple[Evidence, ...]:
    """Evidence without the words of the outputs, which are on record with the last of a chain."""
    return tuple(replace(x, excerpt="") for x in evidence)


def _land(seen: Seen, now: Now, basin: Basin, run: Run, target: TargetSeen, proposal: Proposal) -> list[Action]:
    """Move the target to the gated chain. What stands in the way is waited for."""
    if not seen.obstacle:
        return [Land(tip=proposal.tip, head=proposal.head)]
    seen_again = misplaced(basin, run, target, landing=True) is not None
    until = None if seen_again else now.wall + OBSTACLE_SEEN_BY_GIT_ALONE
    return [Append(fact=e.RunWaiting(basin=basin.id, reason="branch", text=seen.obstacle, until=until))]


def _record(state: State, seen: Seen, basin: Basin, landed: Landed) -> list[Action]:
    """Write down what landed: moved a moment ago, by a controller that is gone, or by a command that was killed."""
    evidence = _evidence(basin, landed)
    if not evidence:
        before = basin.tip.results if basin.tip is not None else {}
        found = Answered(state, seen, basin).judged(landed.tree, landed.commit, before)
        if found.missing:
            return list(found.missing)
        evidence = found.evidence
    proposed = basin.proposal is not None and any(one.commit == landed.commit for one in basin.proposal.parts)
    decided = RULE if proposed and basin.valve == "auto" else "found by its trailers"
    return [Append(fact=landed_as(state, basin, landed, evidence, decided))]


def _evidence(basin: Basin, landed: Landed) -> tuple[Evidence, ...]:
    if basin.proposal is None:
        return ()
    if landed.commit == basin.proposal.head:
        return basin.proposal.evidence
    return next((taken.evidence for taken in basin.proposal.parts if taken.commit == landed.commit), ())


def landed_as(
    state: State, basin: Basin, landed: Landed, evidence: tuple[Evidence, ...], decided: str
) -> e.BranchGrafted | e.ResidueGrafted | e.BranchReconciled:
    """The fact of a commit of ours that is on the target."""
    branch = state.branches[landed.branch]
    if basin.phase == "killed" or (not landed.part and (basin.phase != "open" or not branch.waits)):
        return e.BranchReconciled(
            basin=basin.id,
            branch=branch.id,
            was=branch.phase.value,
            to=(branch.phase if landed.part else Phase.GRAFTED).value,
            observed=f"{landed.commit} on the target",
            mergeCommit=landed.commit,
        )
    if landed.part:
        return e.ResidueGrafted(
            basin=basin.id,
            branch=branch.id,
            criterion=landed.criterion,
            paths=landed.paths,
            mergeCommit=landed.commit,
            reason=landed.reason or f"it meets {landed.criterion}",
            evidence=evidence,
            decidedBy=decided,
        )
    return e.BranchGrafted(
        basin=basin.id,
        branch=branch.id,
        mergeCommit=landed.commit,
        tree=landed.tree,
        evidence=evidence,
        decidedBy=decided,
    )


def landed_from(taken: Taken, reason: str = "") -> Landed:
    """What a part is once the target stands at or after its commit."""
    part = taken.part
    return Landed(
        commit=taken.commit,
        tree=taken.tree,
        branch=part.branch,
        part=not part.whole,
        criterion=part.criterion,
        paths=taken.paths,
        reason=reason,
    )


def recheck(state: State, seen: Seen, basin: Basin) -> list[Action]:
    """Run the criteria on the target's tip where it moved since they were run."""
    target = seen.target
    if target is None or target.head is None or target.tree is None:
        return [LookAtTarget()]
    before = basin.tip.results if basin.tip is not None else None
    criteria = [c for c in basin.criteria if c.in_loop]
    found = judge.answers(
        state, seen, criteria=criteria, tree=target.tree, commit=target.head, place="fresh", before=before
    )
    if found.missing:
        return list(found.missing)
    fact = e.BasinChecked(basin=basin.id, head=target.head, tree=target.tree, results=found.evidence)
    return [Append(fact=fact)]


def close(state: State, seen: Seen, now: Now, basin: Basin, run: Run, branches: Sequence[Branch]) -> list[Action]:
    """Judge the attempt on the target's tip and end it."""
    if seen.target is None:
        return [LookAtTarget()]
    if place(basin, run) != "here" and basin.tip is not None and seen.target.head not in (None, basin.tip.head):
        return recheck(state, seen, basin)
    if seen.contents is None and any(b.head not in (None, b.base) for b in branches):
        return [LookAtContents(branches=tuple(b.id for b in branches if b.head not in (None, b.base)))]
    ends = converging(seen, now, basin, run, branches, judged(basin, run, now, branches, seen))
    return [Append(fact=ends), *(CleanUp(branch=b.id) for b in branches)]
