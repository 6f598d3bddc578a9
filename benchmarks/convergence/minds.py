"""Scripted minds: what one run meets, breaks and costs by the draw law, and the commits that it makes of that.

The law is the one of the published model: ``logit p[i, a] = mu + sigma (sqrt(rho) z_i + sqrt(1 - rho) y_{a, i}) + spread e_run``,
where ``y`` leans towards the approach that laid the base, and each recorded failure lifts a criterion a little for minds that
are told. Every draw is keyed by (task, approach, ordinal of the run of that approach, criterion): all strategies meet one luck.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

from benchmarks.convergence.generator import Files, Layout, Wording

NORMAL = NormalDist()


@dataclass(frozen=True)
class Law:
    """The constants of the draw law; `mean` is the chance of a criterion in one run, averaged over criteria and approaches."""

    mean: float = 0.45
    sigma: float = 2.0
    rho: float = 0.6
    run_spread: float = 0.5
    lock_in: float = 0.3
    breaks: float = 0.02
    nothing: float = 0.10
    lift: float = 0.25
    lifts: int = 2
    approaches: int = 8
    wall_sigma: float = 0.6


@lru_cache
def mu(law: Law) -> float:
    """The logit at which the mean over a normal difficulty is `Law.mean`."""
    grid = [NORMAL.inv_cdf((n + 0.5) / 400) for n in range(400)]
    low, high = -20.0, 20.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        if sum(_expit(middle + law.sigma * x) for x in grid) / len(grid) < law.mean:
            low = middle
        else:
            high = middle
    return low


def _expit(x: float) -> float:
    return 1 / (1 + math.exp(-x))


@dataclass(frozen=True)
class Luck:
    """All draws of one task, each a pure function of its key."""

    task: int
    law: Law

    def uniform(self, *key: object) -> float:
        """In (0, 1)."""
        digest = hashlib.blake2b(repr((self.task, *key)).encode(), digest_size=7).digest()
        return (int.from_bytes(digest) + 0.5) / 2**56

    def normal(self, *key: object) -> float:
        """Standard normal."""
        return NORMAL.inv_cdf(self.uniform(*key))

    def pick(self, among: Sequence[int], *key: object) -> int | None:
        """One of ``among``; nothing of nothing."""
        return among[int(self.uniform(*key) * len(among))] if among else None

    def chance(self, index: int, run: Run, failures: int) -> float:
        """The chance that ``run`` meets criterion ``index`` after so many recorded ``failures`` that it is told of."""
        law = self.law
        own = self.normal("own", run.approach, index)
        if run.base_approach is not None and run.base_approach != run.approach:
            other = self.normal("own", run.base_approach, index)
            own = ((1 - law.lock_in) * own + law.lock_in * other) / math.hypot(1 - law.lock_in, law.lock_in)
        shared = self.normal("shared", index)
        difficulty = math.sqrt(law.rho) * shared + math.sqrt(1 - law.rho) * own
        mood = law.run_spread * self.normal("mood", run.approach, run.ordinal)
        return _expit(mu(law) + law.sigma * difficulty + mood + law.lift * min(failures, law.lifts))

    def seconds(self, run: Run) -> float:
        """How long ``run`` takes, in units of a median run."""
        return math.exp(self.law.wall_sigma * self.normal("wall", run.approach, run.ordinal))


@dataclass(frozen=True)
class Run:
    """One mind: its approach, the how many-eth run of that approach it is, and the approach that laid what it stands on."""

    approach: int
    ordinal: int
    base_approach: int | None


@dataclass(frozen=True)
class Commit:
    """A commit to be made on the one before it: the files that change, in full, and the criteria that its trailers name."""

    subject: str
    changes: dict[str, str]
    criteria: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        """As git gets it."""
        return "\n".join([self.subject, "", *(f"Criterion: {name}" for name in self.criteria)])


@dataclass(frozen=True)
class Outcome:
    """What a mind is meant to meet and to break (indices), and the commits that do it; ``produced`` if it came to an end."""

    produced: bool
    gains: tuple[int, ...]
    breaks: tuple[int, ...]
    commits: tuple[Commit, ...]


def attempt(
    layout: Layout, luck: Luck, run: Run, files: Files, met: Set[int], failures: Mapping[int, int], *, squashed: bool
) -> Outcome:
    """Work of one mind on ``files``, where the criteria ``met`` hold. A break lies in the commit of something gained, if any."""
    key = (run.approach, run.ordinal)
    if luck.uniform("nothing", *key) < luck.law.nothing:
        return Outcome(False, (), (), ())
    unmet = [index for index in range(layout.k) if index not in met]
    gains = [i for i in unmet if luck.uniform("gain", *key, i) < luck.chance(i, run, failures.get(i, 0))]
    breaks = [i for i in sorted(met) if luck.uniform("break", *key, i) < luck.law.breaks]
    wording = Wording(run.approach, f"By way {run.approach}.")
    now = dict(files)
    commits: list[Commit] = []
    if layout.rewritten and gains + breaks:
        order = sorted(range(layout.k), key=lambda i: luck.uniform("order", *key, i))
        changes = layout.anew(now, f"By way {run.approach}, run {run.ordinal}.", order)
        now |= changes
        commits.append(Commit("write the module anew", changes))
    beside: dict[int | None, list[int]] = {}
    for broken in breaks:
        beside.setdefault(luck.pick(gains, "beside", *key, broken), []).append(broken)
    for gained in [*gains, *([None] if None in beside else [])]:
        edits = [(gained, True)] if gained is not None else []
        edits += [(broken, False) for broken in beside.get(gained, [])]
        changes = {}
        for index, right in edits:
            changes |= layout.write(now | changes, index, wording, right=right)
        now |= changes
        names = () if gained is None else (layout.criteria[gained],)
        commits.append(Commit(f"write {names[0]}" if names else "tidy up", changes, names))
    if squashed and commits:
        whole: dict[str, str] = {}
        for commit in commits:
            whole |= commit.changes
        commits = [Commit("all at once", whole, tuple(layout.criteria[i] for i in gains))]
    return Outcome(True, tuple(gains), tuple(breaks), tuple(commits))
