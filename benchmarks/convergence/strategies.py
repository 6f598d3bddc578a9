"""The strategies: how wide, which approaches, what is told, what is admitted; and the pursuit of one task by one of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Literal, Protocol

from benchmarks.convergence.generator import Layout
from benchmarks.convergence.minds import Luck, Outcome, Run, attempt
from benchmarks.convergence.runner import Runner
from benchmarks.convergence.store import Store
from orchconverge.core.seen import Work
from orchconverge.core.target import Sha
from orchconverge.core.values import Settings


@dataclass(frozen=True)
class Strategy:
    """``gate``: take what comes (`none`), what raises the score, or what loses nothing and gains (`strict`).

    ``approaches``: a different one each run; ``notes``: minds are told what failed; ``tries``: how many
    parts may be refused in a wave; without it, losers are thrown away.
    """

    name: str
    width: int
    gate: Literal["none", "score", "strict"] = "strict"
    approaches: bool = True
    notes: bool = True
    tries: int | None = None

    @property
    def label(self) -> str:
        """Its name, and how wide it is where that is not one."""
        return self.name if self.width == 1 and self.tries is None else f"{self.name} N={self.width}"


LOOP = Strategy("a0", 1, gate="none", approaches=False, notes=False)
BEST_LOOP = Strategy("a2", 1)
WIDTHS = (1, 3, 8)


def best_of(width: int) -> Strategy:
    """Best of N, carried to the next wave: what raises the score is taken, nothing is told."""
    return Strategy("b", width, gate="score", notes=False)


def thrown_away(width: int) -> Strategy:
    """Ours without the harvest. One mind wide this is `BEST_LOOP`."""
    return Strategy("b+", width) if width > 1 else BEST_LOOP


def ours(width: int) -> Strategy:
    """The product's own way, with its own number of tries."""
    shipped = Settings(checkout="", place="fresh", engines=("scripted",))
    return Strategy("ours", width, tries=shipped.harvestTries)


def wholes(width: int) -> Strategy:
    """The product without parts: a loser is tried again on the new tip, but only as it is."""
    return Strategy("ours, whole branches only", width, tries=0)


BASELINES = (LOOP, BEST_LOOP, best_of(3), best_of(8), thrown_away(3), thrown_away(8))


@dataclass(frozen=True)
class Mind:
    """A mind that ended: its commits, oldest first, what holds at the last of them, and what it took (in median runs)."""

    run: Run
    base: Sha
    outcome: Outcome
    commits: tuple[Sha, ...]
    tree: Sha
    met: frozenset[int]
    seconds: float


@dataclass(frozen=True)
class Admitted:
    """Where the target stands after a wave. ``gates`` are those that ran one after another, after the wave's own.

    ``parts`` are pairs of a branch and a criterion that were tried for the first time, ``landed`` those taken, ``tries``
    all tries, again on a later tip included; ``wholes`` are the further branches that were taken as they are.
    """

    tip: Sha
    whole: Mind | None
    gates: int = 0
    tries: int = 0
    parts: int = 0
    landed: int = 0
    wholes: int = 0


@dataclass
class Pursuit:
    """What one task cost one strategy: minds and waves, minds' wall time in median runs, gates and merges in a row."""

    converged: bool = False
    minds: int = 0
    waves: int = 0
    mind_time: float = 0.0
    gates: int = 0
    merges: int = 0
    tries: int = 0
    parts: int = 0
    landed: int = 0
    wholes: int = 0
    lost: int = 0


class Witness(Protocol):
    """Who does the same again with the product's own adapter and the real pytest, and compares."""

    def merged(self, onto: Sha, mind: Mind, commits: Sequence[Sha], paths: Sequence[str], tree: Sha | None) -> None:
        """A mind's branch, or these commits or paths of it, gave ``tree`` on ``onto``, or a conflict."""

    def looked(self, mind: Mind, work: Work) -> None:
        """A mind's branch was said to be made of this."""

    def judged(self, commit: Sha, met: frozenset[int]) -> None:
        """These criteria were said to hold on a commit."""


class Bench:
    """One task in one layout, in a repository of its own. ``witness`` is told of every merge and every tree judged."""

    def __init__(
        self, layout: Layout, luck: Luck, store: Store, *, squashed: bool = False, witness: Witness | None = None
    ) -> None:
        self.layout = layout
        self.luck = luck
        self.store = store
        self.runner = Runner(layout, store)
        self.witness = witness
        self.start = store.chain(None, [("the task\n", layout.start())])[0]
        self._squashed = squashed

    def mind(self, tip: Sha, met: Set[int], run: Run, told: Mapping[int, int]) -> Mind:
        """Let one mind work on ``tip``, where ``met`` holds. What its real tests say has to be what was drawn."""
        files = self.store.files(self.store.tree(tip))
        outcome = attempt(self.layout, self.luck, run, files, met, told, squashed=self._squashed)
        commits = self.store.chain(tip, [(c.message, c.changes) for c in outcome.commits]) if outcome.commits else []
        tree = self.store.tree(commits[-1] if commits else tip)
        holds = self.runner.met(tree)
        assert holds == (met - set(outcome.breaks)) | set(outcome.gains), "the tests do not say what was drawn"
        if self.witness is not None and commits:
            self.witness.judged(commits[-1], holds)
        return Mind(run, tip, outcome, tuple(commits), tree, holds, self.luck.seconds(run))


Admit = Callable[[Bench, Strategy, Sha, Set[int], Sequence[Mind], Mapping[int, int]], Admitted]


def best(
    bench: Bench, strategy: Strategy, tip: Sha, met: Set[int], minds: Sequence[Mind], failures: Mapping[int, int]
) -> Admitted:
    """What the baselines admit: the candidate that the gate lets through and that meets most, else nothing."""
    gates: dict[str, Callable[[Mind], bool]] = {
        "none": lambda mind: True,
        "score": lambda mind: len(mind.met) > len(met),
        "strict": lambda mind: met < mind.met,
    }
    passes = gates[strategy.gate]
    passing = [mind for mind in minds if mind.commits and passes(mind)]
    if not passing:
        return Admitted(tip, None)
    chosen = max(passing, key=lambda mind: len(mind.met))
    tree = bench.store.squash(tip, chosen.commits[-1])
    assert tree == chosen.tree, "a branch that stands on the tip merges into what it is"
    return Admitted(bench.store.commit_of(tree, tip, "graft\n"), chosen)


def pursue(bench: Bench, strategy: Strategy, admit: Admit, *, cap: int) -> Pursuit:
    """Wave after wave until all criteria hold, or ``cap`` minds have been started."""
    done, tip = Pursuit(), bench.start
    met = bench.runner.met(bench.store.tree(tip))
    failures: Counter[int] = Counter()
    ordinals: Counter[int] = Counter()
    laid_by: int | None = None
    while len(met) < bench.layout.k and done.minds < cap:
        minds = []
        for _ in range(min(strategy.width, cap - done.minds)):
            approach = done.minds % bench.luck.law.approaches if strategy.approaches else 0
            run = Run(approach, ordinals[approach], laid_by)
            minds.append(bench.mind(tip, met, run, failures if strategy.notes else {}))
            ordinals[approach] += 1
            done.minds += 1
        done.waves += 1
        done.mind_time += max(mind.seconds for mind in minds)
        admitted = admit(bench, strategy, tip, met, minds, failures)
        for mind in minds:
            failures.update(i for i in range(bench.layout.k) if mind.outcome.produced and i not in met | mind.met)
        done.gates += (strategy.gate != "none" and any(mind.outcome.produced for mind in minds)) + admitted.gates
        done.tries += admitted.tries
        done.parts += admitted.parts
        done.landed += admitted.landed
        done.wholes += admitted.wholes
        tip, held = admitted.tip, met
        met = bench.runner.met(bench.store.tree(tip))
        done.lost += len(held - met)
        if (whole := admitted.whole) and (laid_by is None or 2 * len(whole.outcome.gains) >= len(met)):
            laid_by = whole.run.approach
    done.converged = len(met) == bench.layout.k
    done.merges = bench.store.merges
    return done
