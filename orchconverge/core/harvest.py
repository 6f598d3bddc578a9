"""Mechanical harvest: what of a wave's branches can be admitted together, found part by part and gated at each step.

One branch is grafted whole; then, for each criterion that another branch meets and the result does not, its part is tried on
top: its commits with that criterion's trailer, else each of its commits alone, else each of its files, or all of it if it is
one piece. Nothing that holds is ever lost. Pure: what git and the criteria say is asked for one answer at a time, and the same
answers give the same result.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from orchconverge.core import judge
from orchconverge.core.actions import Action, LookAtWork, Try
from orchconverge.core.judge import Answers
from orchconverge.core.seen import Tried, Work
from orchconverge.core.target import Criterion, Sha
from orchconverge.core.values import Evidence, Part, Taken, TurnedDown

Results = Mapping[str, Evidence]


class Source(Struct, frozen=True, kw_only=True):
    """A branch that something may be taken of: what it meets, what it is made of (once looked at), what was refused.

    ``whole``: it may be grafted as it is. ``refused`` are (onto, criterion, `named`) of what was tried before; of the whole
    branch (onto, ``None``, ``()``).
    """

    branch: str
    base: Sha
    evidence: Results
    whole: bool = True
    work: Work | None = None
    refused: frozenset[tuple[Sha, str | None, tuple[str, ...]]] = frozenset()


class Ask(Protocol):
    """Where answers come from."""

    def tried(self, part: Part, onto: Sha) -> Tried | None:
        """What merging the part onto a commit gave; ``None`` if it was not tried yet."""

    def judged(self, tree: Sha, commit: Sha, expected: Results) -> Answers:
        """Evidence of every criterion on a tree, or the checks that have to run first."""


class Harvest(Struct, frozen=True, kw_only=True):
    """How far it got: what was taken, in order, what was refused, what holds then. ``missing`` has to be answered first."""

    taken: tuple[Taken, ...] = ()
    refused: tuple[TurnedDown, ...] = ()
    results: Results = {}
    missing: tuple[Action, ...] = ()


def gate(
    criteria: Sequence[Criterion],
    part: Part,
    onto: Sha,
    before: Results,
    own: Results,
    ask: Ask,
    *,
    must_gain: bool = True,
    objected: frozenset[str] | None = None,
) -> Taken | TurnedDown | tuple[Action, ...]:
    """Try one part on a commit: nothing that held ``before`` or that it was verified to meet (``own``) may be lost.

    Unless a person says otherwise it must gain a criterion, and a part that is for one must gain that one. A whole branch
    that changes what was ``objected`` to gains as well: the next round of the chain judges it.
    """
    tried = ask.tried(part, onto)
    if tried is None:
        return (Try(part=part, onto=onto),)
    if tried.tree is None or tried.commit is None:
        return TurnedDown(part=part, onto=onto, conflicts=tried.conflicts)
    if not tried.paths:
        return TurnedDown(part=part, onto=onto, why="it changes nothing there")
    asked = {c.name for c in criteria}
    before = {name: x for name, x in before.items() if name in asked}
    meets = {name: x for name, x in own.items() if x.met == "yes" and name in asked}
    expected = {**before, **{name: judge.both(before.get(name), x) for name, x in meets.items()}}
    found = ask.judged(tried.tree, tried.commit, expected)
    if found.missing:
        return found.missing
    after = {x.criterion: x for x in found.evidence}
    lost = judge.lost(expected, after)
    gains = judge.gained(criteria, before, after)
    for_one = part.criterion is not None and part.criterion not in gains
    answers = part.whole and _answers(objected, tried.paths)
    if lost or (must_gain and ((not gains and not answers) or for_one)):
        why = f"lost: {', '.join(lost)}" if lost else f"it does not gain {part.criterion or 'a criterion'}"
        return TurnedDown(part=part, onto=onto, lost=lost, why=why, evidence=found.evidence)
    return Taken(
        part=part, commit=tried.commit, tree=tried.tree, paths=tried.paths, gains=gains, evidence=found.evidence
    )


def propose(
    criteria: Sequence[Criterion],
    tip: Sha,
    before: Results,
    sources: Sequence[Source],
    ask: Ask,
    *,
    failures: Mapping[str, int] | None = None,
    tries: int = 12,
    objected: frozenset[str] | None = None,
) -> Harvest:
    """What can be admitted onto ``tip``, where ``before`` holds, and of which the chain ``objected`` to these paths.

    Whole branches are tried by what they gain, most first, then in their own order, until one passes. For parts the
    most stubborn criterion (by ``failures``) comes first, and of it the smallest diff; ``tries`` parts are tried.
    """
    building = _Building(criteria, tip, before, ask, objected)
    for source in ordered(criteria, before, sources):
        passed = building.whole(source)
        if passed is None:
            return building.state
        if passed:
            sources = [s for s in sources if s.branch != source.branch]
            break
    stubborn = failures or {}
    wanted = [c.name for c in sorted(criteria, key=lambda c: -stubborn.get(c.name, 0)) if not c.condition]
    for name in wanted:
        for source, part in _parts(name, sources):
            if building.tried >= tries or judge.met(building.results, name):
                break
            if source.work is None:
                return building.needs(LookAtWork(branch=source.branch))
            if (building.again(source) if part.whole else building.part(source, part)) is None:
                return building.state
    return building.state


def assemble(
    criteria: Sequence[Criterion],
    tip: Sha,
    before: Results,
    wanted: Sequence[tuple[Part, Results]],
    ask: Ask,
    *,
    must_gain: bool = True,
) -> Harvest:
    """A chain of exactly these parts, each with what its branch was verified to meet, as a person chose them.

    What the gate turns down is left out and named.
    """
    building = _Building(criteria, tip, before, ask)
    for part, own in wanted:
        if building.take(part, own, must_gain=must_gain) is None:
            break
    return building.state


def ordered(criteria: Sequence[Criterion], before: Results, sources: Sequence[Source]) -> list[Source]:
    """The branches that may be grafted whole, by what they gain, most first, else as they came. The rule of `auto`."""
    gains = {s.branch: len(judge.gained(criteria, before, s.evidence)) for s in sources}
    return sorted((s for s in sources if s.whole), key=lambda s: -gains[s.branch])


def _parts(name: str, sources: Sequence[Source]) -> Iterator[tuple[Source, Part]]:
    """The parts that could meet a criterion, smallest diff first. Of a branch not looked at, one that asks for the look."""
    meeting = [s for s in sources if judge.met(s.evidence, name)]
    unseen = [s for s in meeting if s.work is None]
    if unseen:
        yield unseen[0], Part(branch=unseen[0].branch, criterion=name)
        return
    for source in sorted(meeting, key=lambda s: len(s.work.changed) if s.work else 0):
        for part in parts_of(source.branch, source.work, name):
            yield source, part
        if source.whole and source.work is not None and _undivided(source.work, name):
            yield source, Part(branch=source.branch)


def _undivided(work: Work, criterion: str) -> bool:
    """Whether the commits for a criterion are all that the branch is: then it is grafted as it is, if no file alone does."""
    return len(work.commits) == 1 or all(criterion in c.criteria for c in work.commits)


def parts_of(branch: str, work: Work | None, criterion: str) -> Iterator[Part]:
    """The parts of a branch that could meet a criterion: by trailer, else each commit alone, else each file."""
    if work is None:
        return
    oldest_first = work.commits[::-1]
    marked = tuple(c.sha for c in oldest_first if criterion in c.criteria)
    if marked and len(marked) < len(oldest_first):
        yield Part(branch=branch, criterion=criterion, commits=marked)
    elif len(oldest_first) > 1 and not marked:
        yield from (Part(branch=branch, criterion=criterion, commits=(c.sha,)) for c in oldest_first)
    elif len(work.changed) > 1:
        yield from (Part(branch=branch, criterion=criterion, paths=(path,)) for path in work.changed)


class _Building:
    """The chain so far: each step stands on the one before it."""

    def __init__(
        self,
        criteria: Sequence[Criterion],
        tip: Sha,
        before: Results,
        ask: Ask,
        objected: frozenset[str] | None = None,
    ) -> None:
        self.criteria = criteria
        self.objected = objected
        self.head = tip
        self.tip = tip
        self.tried = 0
        self.ask = ask
        self.state = Harvest(results=before)

    @property
    def results(self) -> Results:
        return self.state.results

    def needs(self, *missing: Action) -> Harvest:
        """Stop here: these have to be answered first."""
        self.state = replace(self.state, missing=missing)
        return self.state

    def whole(self, source: Source) -> bool | None:
        """Graft a branch as it is: whether it passed; ``None`` if an answer is missing."""
        part = Part(branch=source.branch)
        if judge.gained(self.criteria, self.results, source.evidence):
            return self.take(part, source.evidence)
        if self.objected is not None and source.work is None:
            self.needs(LookAtWork(branch=source.branch))
            return None
        if source.work is not None and _answers(self.objected, source.work.changed):
            return self.take(part, source.evidence)
        why = (
            "it gains no criterion" if self.objected is None else "it changes nothing that the final chain objected to"
        )
        return self._refuse(TurnedDown(part=part, onto=self.head, why=why))

    def again(self, source: Source) -> bool | None:
        """Graft another branch as it is onto what was taken: whether it passed; ``None`` if an answer is missing."""
        self.tried += 1
        before = {(x.onto, x.part) for x in self.state.refused}
        if (self.head, None, ()) in source.refused or (self.head, Part(branch=source.branch)) in before:
            return False
        return self.take(Part(branch=source.branch), source.evidence)

    def part(self, source: Source, part: Part) -> bool | None:
        """Take a part of a branch: whether it passed; ``None`` if an answer is missing."""
        assert part.criterion is not None
        self.tried += 1
        if (self.head, part.criterion, named(part)) in source.refused:
            return False
        return self.take(part, {part.criterion: source.evidence[part.criterion]})

    def take(self, part: Part, own: Results, *, must_gain: bool = True) -> bool | None:
        """Try any part: whether it passed; ``None`` if an answer is missing."""
        answer = gate(
            self.criteria, part, self.head, self.results, own, self.ask, must_gain=must_gain, objected=self.objected
        )
        if isinstance(answer, tuple):
            self.needs(*answer)
            return None
        if isinstance(answer, TurnedDown):
            return self._refuse(answer)
        self.head = answer.commit
        after = {x.criterion: x for x in answer.evidence}
        self.state = replace(self.state, taken=(*self.state.taken, answer), results=after)
        return True

    def _refuse(self, answer: TurnedDown) -> bool:
        self.state = replace(self.state, refused=(*self.state.refused, answer))
        return False


def _answers(objected: frozenset[str] | None, changed: Collection[str]) -> bool:
    """Whether a change of these paths can be an answer to an objection."""
    return objected is not None and bool(changed) and (not objected or not objected.isdisjoint(changed))


def named(part: Part) -> tuple[str, ...]:
    """What tells a part of a branch from another for the same criterion: its paths, or the ids of its commits."""
    return part.paths or part.commits
