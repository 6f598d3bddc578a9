"""The product's own admission at work: `orchconverge.core.harvest` asks, and real git and the tests of a tree answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field

from benchmarks.convergence.strategies import Admitted, Bench, Mind, Strategy
from orchconverge.core import judge
from orchconverge.core.actions import Action, LookAtWork
from orchconverge.core.harvest import Harvest, Source, named, propose
from orchconverge.core.judge import Answers
from orchconverge.core.seen import Commit, Tried, Work
from orchconverge.core.target import Criterion, Sha
from orchconverge.core.values import Evidence, Part, Taken


@dataclass
class Waiting:
    """A branch at the lock, and what was refused of it."""

    mind: Mind
    refused_tips: set[Sha] = field(default_factory=set)
    refused_parts: set[tuple[Sha, str | None, tuple[str, ...]]] = field(default_factory=set)


class Queue:
    """The lock of one basin, as the controller keeps it: what waits, until it is admitted or has nothing left to give."""

    def __init__(self) -> None:
        self._waiting: dict[str, Waiting] = {}
        self._spawned = 0
        self._seen: set[tuple[str, str | None]] = set()

    def admit(
        self,
        bench: Bench,
        strategy: Strategy,
        tip: Sha,
        met: Set[int],
        minds: Sequence[Mind],
        failures: Mapping[int, int],
    ) -> Admitted:
        """Propose and land, until the product proposes nothing more; the first branch taken whole is said."""
        assert strategy.tries is not None, "losers are not thrown away here"
        for mind in minds:
            self._spawned += 1
            if mind.commits:
                self._waiting[f"basin.{self._spawned}"] = Waiting(mind)
        names = bench.layout.criteria
        criteria = [Criterion(name=name, command=f"pytest {bench.layout.test(i)}") for i, name in enumerate(names)]
        stubborn = {names[index]: count for index, count in failures.items()}
        answering = Answering(bench, {branch: waiting.mind for branch, waiting in self._waiting.items()})
        taken: list[Taken] = []
        tries, parts = 0, len(self._seen)
        while True:
            results = answering.results(bench.store.tree(tip))
            self._drop_covered(criteria, tip, results, answering)
            found = self._propose(criteria, tip, results, answering, stubborn, strategy.tries)
            tried = [step.part for step in found.taken] + [step.part for step in found.refused]
            tried = [part for part in tried if not part.whole]
            self._seen |= {(part.branch, part.criterion) for part in tried}
            tries += len(tried)
            if not found.taken:
                break
            taken += found.taken
            tip = found.taken[-1].commit
            for step in found.taken:
                if step.part.whole:
                    del self._waiting[step.part.branch]
        wholes = [answering.minds[step.part.branch] for step in taken if step.part.whole]
        return Admitted(
            tip,
            wholes[0] if wholes else None,
            gates=answering.gates,
            tries=tries,
            parts=len(self._seen) - parts,
            landed=len(taken) - len(wholes),
            wholes=len(wholes[1:]),
        )

    def _propose(
        self,
        criteria: Sequence[Criterion],
        tip: Sha,
        results: Mapping[str, Evidence],
        answering: Answering,
        stubborn: Mapping[str, int],
        tries: int,
    ) -> Harvest:
        while True:
            sources = [answering.source(branch, tip, waiting) for branch, waiting in self._waiting.items()]
            found = propose(criteria, tip, results, sources, answering, failures=stubborn, tries=tries)
            if not found.missing:
                break
            answering.look(found.missing)
        for refusal in found.refused:
            waiting, part = self._waiting[refusal.part.branch], refusal.part
            if part.whole:
                waiting.refused_tips.add(refusal.onto)
            else:
                waiting.refused_parts.add((refusal.onto, part.criterion, named(part)))
        return found

    def _drop_covered(
        self, criteria: Iterable[Criterion], tip: Sha, results: Mapping[str, Evidence], answering: Answering
    ) -> None:
        for branch, waiting in list(self._waiting.items()):
            mind = waiting.mind
            if mind.base != tip and not judge.gained(criteria, results, answering.results(mind.tree)):
                del self._waiting[branch]


class Answering:
    """Answers the product's questions about some branches. ``gates`` counts the trees that were judged to do so."""

    def __init__(self, bench: Bench, minds: Mapping[str, Mind]) -> None:
        self.bench = bench
        self.minds = minds
        self.gates = 0
        self._judged = {mind.tree for mind in minds.values()}
        self._looked: set[str] = set()
        self._tried: dict[tuple[Part, Sha], Tried] = {}

    def source(self, branch: str, tip: Sha, waiting: Waiting) -> Source:
        """A branch at the lock, with its commits if these were asked for."""
        mind = waiting.mind
        return Source(
            branch=branch,
            base=mind.base,
            evidence=self.results(mind.tree),
            whole=tip not in waiting.refused_tips,
            work=self._work(mind) if branch in self._looked else None,
            refused=frozenset(waiting.refused_parts | {(onto, None, ()) for onto in waiting.refused_tips}),
        )

    def look(self, missing: Sequence[Action]) -> None:
        """Look at what the harvest wants to see; all else it is answered at once, when it asks."""
        for action in missing:
            assert isinstance(action, LookAtWork), action
            self._looked.add(action.branch)

    def tried(self, part: Part, onto: Sha) -> Tried:
        """Merge a part onto a commit."""
        if (part, onto) not in self._tried:
            self._tried[part, onto] = self._try(part, onto)
        return self._tried[part, onto]

    def judged(self, tree: Sha, commit: Sha, expected: Mapping[str, Evidence]) -> Answers:
        """Run the tests of a tree."""
        self.gates += tree not in self._judged
        self._judged.add(tree)
        return Answers(evidence=tuple(self.results(tree).values()))

    def results(self, tree: Sha) -> dict[str, Evidence]:
        """Criterion -> evidence on a tree."""
        met = self.bench.runner.met(tree)
        return {
            name: Evidence(criterion=name, met="yes" if index in met else "no", tree=tree)
            for index, name in enumerate(self.bench.layout.criteria)
        }

    def _work(self, mind: Mind) -> Work:
        store = self.bench.store
        commits = [
            Commit(sha=sha, author="", committer="", subject=made.subject, criteria=made.criteria)
            for sha, made in zip(mind.commits, mind.outcome.commits, strict=True)
        ]
        work = Work(
            base=mind.base,
            head=mind.commits[-1],
            tree=mind.tree,
            descends=True,
            commits=tuple(reversed(commits)),
            changed=store.changed(store.tree(mind.base), mind.tree),
        )
        if self.bench.witness is not None:
            self.bench.witness.looked(mind, work)
        return work

    def _try(self, part: Part, onto: Sha) -> Tried:
        store, mind = self.bench.store, self.minds[part.branch]
        tree: Sha | None = None
        if part.commits:
            standing = onto
            for sha in part.commits:
                at = mind.commits.index(sha)
                tree = store.pick(standing, sha, mind.commits[at - 1] if at else mind.base)
                if tree is None:
                    break
                standing = store.commit_of(tree, standing, "part\n")
        elif part.paths:
            tree = store.squash(onto, store.only(mind.base, mind.tree, part.paths))
        else:
            tree = store.squash(onto, mind.commits[-1])
        if (witness := self.bench.witness) is not None:
            witness.merged(onto, mind, part.commits, part.paths, tree)
        if tree is None:
            return Tried(tree=None, conflicts=("in a file",))
        commit = store.commit_of(tree, onto, "part\n")
        if witness is not None:
            witness.judged(commit, self.bench.runner.met(tree))
        return Tried(tree=tree, commit=commit, paths=store.changed(store.tree(onto), tree))
