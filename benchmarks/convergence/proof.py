"""Does the same again for some tasks with the product's own git adapter and the real pytest, and insists on the same answers."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.convergence.admission import Queue
from benchmarks.convergence.generator import Layout
from benchmarks.convergence.minds import Law, Luck
from benchmarks.convergence.runner import by_pytest
from benchmarks.convergence.store import Store
from benchmarks.convergence.strategies import Bench, Mind, ours, pursue
from orchconverge.adapters.git import Repository
from orchconverge.core.seen import Work
from orchconverge.core.target import Sha


@dataclass
class Proof:
    """What was compared, and the median seconds of one real gate and one real merge."""

    tasks: int = 0
    merges: list[float] = field(default_factory=list)
    conflicts: int = 0
    gates: list[float] = field(default_factory=list)

    def plus(self, other: Proof) -> Proof:
        """Both together."""
        return Proof(
            tasks=self.tasks + other.tasks,
            merges=self.merges + other.merges,
            conflicts=self.conflicts + other.conflicts,
            gates=self.gates + other.gates,
        )

    @property
    def gate_seconds(self) -> float:
        """Of one run of pytest over all tests of a tree."""
        return statistics.median(self.gates)

    @property
    def merge_seconds(self) -> float:
        """Of one merge by the product's adapter, its throwaway worktree included."""
        return statistics.median(self.merges)


class RealWitness:
    """Compares each merge at once, and keeps what was judged until `gate`."""

    def __init__(self, repository: Repository, folder: Path, proof: Proof) -> None:
        self._repository = repository
        self._folder = folder
        self._proof = proof
        self._judged: dict[Sha, frozenset[int]] = {}

    def merged(self, onto: Sha, mind: Mind, commits: Sequence[Sha], paths: Sequence[str], tree: Sha | None) -> None:
        """Merge it with the adapter, as the controller does."""
        start = time.perf_counter()
        place = self._folder / "merge"
        found = self._repository.squash(
            place, tip=onto, head=mind.commits[-1], base=mind.base, commits=commits, paths=paths
        )
        self._proof.merges.append(time.perf_counter() - start)
        self._proof.conflicts += found.tree is None
        assert found.tree == tree, f"the adapter says {found}, `git merge-tree` {tree}"

    def looked(self, mind: Mind, work: Work) -> None:
        """Look at it with the adapter."""
        found = self._repository.work(mind.base, mind.commits[-1])
        assert [(c.sha, c.criteria, c.subject) for c in found.commits] == [
            (c.sha, c.criteria, c.subject) for c in work.commits
        ]
        assert (found.base, found.head, found.tree, found.descends) == (work.base, work.head, work.tree, work.descends)
        assert sorted(found.changed) == sorted(work.changed)

    def judged(self, commit: Sha, met: frozenset[int]) -> None:
        """Remember it for `gate`."""
        self._judged.setdefault(commit, met)

    def gate(self, most: int) -> None:
        """Check out at most so many of the commits that were judged, first and last among them, and run pytest there."""
        commits = list(self._judged)
        step = max(1, -(-len(commits) // most))
        for commit in {*commits[::step], commits[-1]}:
            place = self._folder / f"gate-{commit[:12]}"
            self._repository.add_worktree(place, branch=None, at=commit)
            start = time.perf_counter()
            met = by_pytest(place)
            self._proof.gates.append(time.perf_counter() - start)
            assert met == self._judged[commit], f"pytest says {sorted(met)}, in this process {self._judged[commit]}"
            self._repository.remove_worktree(place)


def prove(
    proof: Proof, task: int, layout: Layout, law: Law, folder: Path, *, gates: int, squashed: bool = False
) -> None:
    """One task by ours at three minds, witnessed. Raises `AssertionError` where an answer differs."""
    store = Store(folder / "repository")
    try:
        trees = folder / "trees"
        repository = Repository(root=store.root, common_dir=store.root / ".git", trees=trees)
        witness = RealWitness(repository, trees, proof)
        bench = Bench(layout, Luck(task, law), store, squashed=squashed, witness=witness)
        pursue(bench, ours(3), Queue().admit, cap=120)
        witness.gate(gates)
        proof.tasks += 1
    finally:
        store.close()
