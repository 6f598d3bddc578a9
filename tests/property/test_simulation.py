"""Five hundred runs of the real controller in virtual time, with faults from a seed, and a kill at every point of one story.

What must hold of each is in `tests/fakes/watch.py`. A failure names its seed: ``simulate(drawn(SEED))`` gives it again,
byte for byte. `benchmarks/simulate.py --seeds N` is the long version.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from msgspec.structs import replace

from orchconverge.app.checks import Checks
from orchconverge.app.trees import Trees
from orchconverge.core import judge, outlook
from orchconverge.core.events import AttemptStarted, BranchSpawned, RunStopped, RunWaiting
from orchconverge.core.fold import CASES
from orchconverge.core.judge import Answers
from orchconverge.core.seen import Absent, Running
from orchconverge.core.values import Evidence, Place
from tests.fakes.git import MemoryGit
from tests.fakes.simulation import Simulation, Violation, simulate
from tests.fakes.story import Rates, Story, drawn, plain, settings
from tests.fakes.supervisors import MemorySupervisors

SEEDS = 500
CHUNK = 25
MET: Counter[str] = Counter()
"""What the seeds led to, so that it can be said that they lead everywhere."""


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_whatever_goes_wrong_every_invariant_holds(first: int) -> None:
    for seed in range(first, first + CHUNK):
        done = simulate(drawn(seed))
        MET["runs"] += 1
        MET["crashes"] += done.crashes
        for fact in done.watch.facts:
            MET[type(fact).__name__] += 1
            if isinstance(fact, RunStopped | RunWaiting):
                MET[f"{type(fact).__name__} {fact.reason}"] += 1


def test_the_seeds_lead_everywhere() -> None:
    """A simulation that meets nothing proves nothing."""
    if MET["runs"] < SEEDS:
        pytest.skip("not all seeds were run")
    assert MET["crashes"] > SEEDS
    for what in ("BranchGrafted", "GraftRefused", "BranchFailed", "BasinConverged", "StepEnded", "ReportWritten"):
        assert MET[what] > 20, what
    for reason in ("converged", "limit", "stalled", "waiting", "stopped", "killed", "refused"):
        assert MET[f"RunStopped {reason}"] > 2, reason
    for reason in ("quota", "tamper", "branch", "disk", "memory"):
        assert MET[f"RunWaiting {reason}"] > 2, reason


@pytest.mark.parametrize("seed", [5987, 7467, 8950])
def test_what_a_longer_search_found_stays_mended(seed: int) -> None:
    """A chain that was over before its basin converged; hours that ran while the disk was full; a kill before the start."""
    simulate(drawn(seed))


@pytest.mark.parametrize("seed", range(20))
def test_a_seed_gives_the_same_ledger_byte_for_byte(seed: int) -> None:
    assert simulate(drawn(seed)).ledger == simulate(drawn(seed)).ledger


def outcome(done: Simulation) -> tuple[object, ...]:
    """What must not depend on where the controller was killed."""
    basin = done.basin
    minds = sorted((name, n) for name, n in done.machine.starts.items() if name.startswith("minds/"))
    stopped = done.facts(RunStopped)[-1].reason
    steps = [(step.name, step.status) for step in basin.chain.done]
    return done.tree, basin.charged, basin.phase, stopped, minds, len(done.facts(BranchSpawned)), steps


@pytest.mark.parametrize("place", ["here", "fresh"])
def test_killed_anywhere_and_resumed_it_ends_the_same(place: Place) -> None:
    """Before, in the middle of and after each append and each effect of one story."""
    story = plain(place, minds=("gain", "noise", "gain"), settings=settings(place, setup="install", interval=5.0))
    whole = simulate(story)
    assert whole.basin.phase == "converged"
    points = whole.faults.points
    assert points > 150
    for point in range(1, points + 1):
        killed = simulate(story, crash_at=point)
        assert killed.crashes == 1
        assert outcome(killed) == outcome(whole), f"killed at point {point}"


# --- shown red: what the watch sees where the product is broken -----------------------------------------------------------


def red(*stories: Story) -> str:
    """The violation that one of these stories leads to."""
    with pytest.raises(Violation) as seen:
        for story in stories:
            simulate(story)
    return str(seen.value)


def test_an_attempt_beyond_the_limit_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two guards have to be broken first: `decide` and the legality of the ledger."""
    case = CASES[AttemptStarted]

    def lawless(fold: Any, fact: AttemptStarted) -> None:
        basin = fold.basins[fact.basin]
        unlimited = replace(basin.run, limits=replace(basin.run.limits, attempts=None))
        fold.basins[fact.basin] = replace(basin, run=unlimited)
        case(fold, fact)

    monkeypatch.setattr(outlook, "_limit", lambda basin, run, now: None)
    monkeypatch.setitem(CASES, AttemptStarted, lawless)
    assert "attempt after 5 of 5" in red(plain("fresh", minds=("noise",) * 9, settings=settings("fresh", stallAfter=9)))


def test_a_check_that_is_left_running_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Checks, "end", lambda self: None)
    monkeypatch.setattr(Checks, "alive", lambda self: False)
    assert "still running: ['checks/" in red(plain("fresh", weather=((0.1, "stop"),), rates=Rates(hang=1.0)))


def test_a_commit_that_is_not_kept_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemoryGit, "keep", lambda self, name, commit: None)
    assert "nothing points at" in red(plain("fresh", minds=("detached", "gain", "gain")))


def test_a_graft_of_a_tree_that_was_not_checked_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def believed(state: object, seen: object, *, criteria: Any, tree: Any, place: Place, **_: object) -> Answers:
        before = isinstance(_.get("before"), dict)
        return Answers(
            evidence=tuple(Evidence(criterion=c.name, met="yes" if before else "no", tree=tree) for c in criteria)
        )

    monkeypatch.setattr(judge, "answers", believed)
    assert "is called met and is not" in red(plain("fresh"))


def test_a_check_in_the_wrong_tree_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    make = Trees._make

    def of_the_start(self: Any, path: Any, *, branch: str | None, at: Any, setup: str) -> str:
        start = next(iter(self.world.git._port.store.commits))
        return make(self, path, branch=branch, at=at if branch else start, setup=setup)

    monkeypatch.setattr(Trees, "_make", of_the_start)
    stories = (plain("fresh", seed=seed, files={"c1.txt": "yes"}, minds=("regress", "regress")) for seed in range(20))
    assert "is called met and is not" in red(*stories)


def test_a_mind_that_is_started_twice_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    probe = MemorySupervisors.probe

    def forgets_its_claims(self: Any, name: str) -> object:
        found = probe(self, name)
        entry = self._machine.entries.get(name)
        if name.startswith("minds/") and entry is not None and isinstance(found, Running):
            self._machine.entries[name] = type(entry)(files=entry.files)
            return Absent()
        return found

    monkeypatch.setattr(MemorySupervisors, "probe", forgets_its_claims)
    assert "goal.1" in red(plain("fresh"))
