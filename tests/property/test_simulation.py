"""Hundreds of runs of the real controller in virtual time, with faults from a seed, and a kill at every point of some stories.

What must hold of each is in `tests/fakes/watch.py`. A failure names its seed: ``simulate(drawn(SEED))`` gives it again,
byte for byte, and ``simulate(drawn_wave(SEED))`` one with several minds at once. `benchmarks/simulate.py --seeds N` is the
long version.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from orchconverge.app.checks import Checks
from orchconverge.app.grafts import Grafts
from orchconverge.app.minds import Minds
from orchconverge.app.trees import Trees
from orchconverge.core import judge, outlook, turn
from orchconverge.core.events import (
    AttemptEnded,
    AttemptStarted,
    BranchGrafted,
    BranchSpawned,
    GraftRefused,
    ProposalMade,
    ResidueGrafted,
    RunStopped,
    RunWaiting,
)
from orchconverge.core.fold import CASES
from orchconverge.core.judge import Answers
from orchconverge.core.seen import Absent, Running
from orchconverge.core.state import Basin, Branch, Phase, Run
from orchconverge.core.values import Evidence, Fact, Place
from tests.fakes.git import MemoryGit
from tests.fakes.simulation import Simulation, Violation, simulate
from tests.fakes.story import Rates, Story, drawn, drawn_wave, holds, plain, settings
from tests.fakes.supervisors import MemorySupervisors

SEEDS = 500
WAVE_SEEDS = 200
CHUNK = 25
MET: Counter[str] = Counter()
"""What the seeds led to, so that it can be said that they lead everywhere."""
WAVES: Counter[str] = Counter()
"""The same of the seeds with several minds."""


def count(met: Counter[str], done: Simulation) -> None:
    met["runs"] += 1
    met["crashes"] += done.crashes
    met["moved to worktrees"] += len({fact.place for fact in done.facts(BranchSpawned)}) > 1
    for fact in done.facts(Fact):
        met[type(fact).__name__] += 1
        if isinstance(fact, RunStopped | RunWaiting):
            met[f"{type(fact).__name__} {fact.reason}"] += 1


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_whatever_goes_wrong_every_invariant_holds(first: int) -> None:
    for seed in range(first, first + CHUNK):
        count(MET, simulate(drawn(seed)))


@pytest.mark.parametrize("first", range(0, WAVE_SEEDS, CHUNK))
def test_whatever_goes_wrong_every_invariant_holds_of_waves_too(first: int) -> None:
    for seed in range(first, first + CHUNK):
        done = simulate(drawn_wave(seed))
        count(WAVES, done)
        WAVES["beside"] += len(done.pursuits) > 1
        WAVES["by a person"] += len(done.by_hand)
        for made in done.facts(ProposalMade):
            WAVES["chains"] += len(made.parts) > 1


def test_the_seeds_lead_everywhere() -> None:
    """A simulation that meets nothing proves nothing."""
    if MET["runs"] < SEEDS:
        pytest.skip("not all seeds were run")
    assert MET["crashes"] > SEEDS
    for what in ("BranchGrafted", "GraftRefused", "BranchFailed", "BasinConverged", "StepEnded", "ReportWritten"):
        assert MET[what] > 20, what
    for reason in ("converged", "limit", "stalled", "waiting", "stopped", "killed", "refused"):
        assert MET[f"RunStopped {reason}"] > 2, reason
    for reason in ("quota", "tamper", "branch", "disk", "memory", "verdict"):
        assert MET[f"RunWaiting {reason}"] > 2, reason
    assert MET["moved to worktrees"] > 10


def test_the_seeds_of_waves_lead_everywhere_too() -> None:
    if WAVES["runs"] < WAVE_SEEDS:
        pytest.skip("not all seeds were run")
    for what in ("BranchGrafted", "ResidueGrafted", "GraftRefused", "BranchPruned", "BasinConverged", "ProposalMade"):
        assert WAVES[what] > 20, what
    for what in ("crashes", "beside", "by a person", "chains", "RunWaiting limit", "RunStopped waiting"):
        assert WAVES[what] > 5, what


@pytest.mark.parametrize("seed", [5987, 7467, 8950])
def test_what_a_longer_search_found_stays_mended(seed: int) -> None:
    """A chain that was over before its basin converged; hours that ran while the disk was full; a kill before the start."""
    simulate(drawn(seed))


@pytest.mark.parametrize("seed", [26, 40, 927, 4524, 4803, 6241])
def test_what_a_longer_search_found_of_waves_stays_mended(seed: int) -> None:
    """A proposal of which a person took nothing; a mind that began though its room was gone; a check that outlived its run.

    Minds not counted while a probe could not tell; an end that was not known once and then never; a wait that slept badly.
    """
    simulate(drawn_wave(seed))


@pytest.mark.parametrize("drawn", [drawn, drawn_wave])
@pytest.mark.parametrize("seed", range(20))
def test_a_seed_gives_the_same_ledger_byte_for_byte(seed: int, drawn: Callable[[int], Story]) -> None:
    assert simulate(drawn(seed)).ledger == simulate(drawn(seed)).ledger


def outcome(done: Simulation) -> tuple[object, ...]:
    """What must not depend on where the controller was killed."""
    basin = done.basin
    minds = sorted((name, n) for name, n in done.machine.starts.items() if name.startswith("minds/"))
    stopped = done.facts(RunStopped)[-1].reason
    steps = [(step.name, step.status) for step in basin.chain.done]
    landed = sorted(
        (fact.branch, getattr(fact, "criterion", None)) for fact in done.facts(BranchGrafted, ResidueGrafted)
    )
    return done.tree, basin.charged, basin.phase, stopped, minds, len(done.facts(BranchSpawned)), steps, landed


STRIDES = pytest.mark.parametrize("stride", [5, pytest.param(1, marks=pytest.mark.slow)])
"""Every fifth point by default; every one is slow."""


@STRIDES
@pytest.mark.parametrize("place", ["here", "fresh"])
def test_killed_anywhere_and_resumed_it_ends_the_same(place: Place, stride: int) -> None:
    """Before, in the middle of and after each append and each effect of one story."""
    story = plain(place, minds=("gain", "noise", "gain"), settings=settings(place, setup="install", interval=5.0))
    whole = simulate(story)
    assert whole.basin.phase == "converged"
    points = whole.faults.points
    assert points > 150
    for point in range(1, points + 1, stride):
        killed = simulate(story, crash_at=point)
        assert killed.crashes == 1
        assert outcome(killed) == outcome(whole), f"killed at point {point}"


def wave(*minds: str, seed: int = 0, **changes: object) -> Story:
    """Three minds at once that do this, and three criteria. What is no part of a story is one of its settings."""
    parts = {name: changes.pop(name) for name in ("weather", "files", "declared") if name in changes}
    criteria = (holds("c1"), holds("c2"), holds("c3"))
    chosen = settings("fresh", minds=3, interval=5.0, **changes)
    return plain("fresh", minds=minds, seed=seed, criteria=criteria, settings=chosen, **parts)


@STRIDES
def test_a_wave_that_is_killed_anywhere_and_resumed_ends_the_same(stride: int) -> None:
    """Three minds that differ in what they gain: one is grafted whole, parts of the others land, some are turned down."""
    story = wave("each", "gain", "at once and shared", seed=4)
    whole = simulate(story)
    assert whole.basin.phase == "converged"
    assert len(whole.facts(ResidueGrafted)) > 0
    assert len(whole.facts(GraftRefused)) > 0
    points = whole.faults.points
    assert points > 400
    for point in range(1, points + 1, stride):
        killed = simulate(story, crash_at=point)
        assert killed.crashes == 1
        assert outcome(killed) == outcome(whole), f"killed at point {point}"


@STRIDES
def test_killed_anywhere_while_it_moves_from_the_checkout_to_worktrees_it_ends_the_same(stride: int) -> None:
    """One mind gets nowhere in the checkout, nor in a fresh context; of two in worktrees one meets both criteria."""
    chosen = settings("here", stallAfter=1, interval=5.0)
    story = plain("here", minds=("none", "none", "noise", "gain all"), settings=chosen)
    whole = simulate(story)
    assert [fact.place for fact in whole.facts(BranchSpawned)] == ["here", "here", "fresh", "fresh"]
    assert whole.basin.phase == "converged"
    points = whole.faults.points
    assert points > 200
    for point in range(1, points + 1, stride):
        killed = simulate(story, crash_at=point)
        assert killed.crashes == 1
        assert outcome(killed) == outcome(whole), f"killed at point {point}"


@STRIDES
def test_killed_anywhere_a_block_is_waited_out_once(stride: int) -> None:
    story = plain("fresh", minds=("same verdict", "same verdict", "gain all"), patience=9000.0)
    whole = simulate(story)
    assert [fact.reason for fact in whole.facts(RunWaiting)] == ["verdict"]
    assert whole.basin.phase == "converged"
    for point in range(1, whole.faults.points + 1, stride):
        killed = simulate(story, crash_at=point)
        assert killed.crashes == 1
        assert outcome(killed) == outcome(whole), f"killed at point {point}"
        blocked, probe = killed.facts(AttemptEnded)[1], killed.facts(AttemptStarted)[2]
        assert probe.at - blocked.at >= outlook.PROBE, f"tried again too early, killed at point {point}"


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


def test_more_minds_than_there_is_room_for_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Minds, "running", lambda self, state: 0)
    assert "3 minds at once, 2 at most" in red(wave("gain", "gain", "gain", maxMinds=2))


def test_a_mind_that_begins_elsewhere_than_its_wave_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    spawned = turn._spawned

    def at_the_tip(seen: Any, *args: Any, base: Any, **named: Any) -> BranchSpawned:
        return spawned(seen, *args, base=seen.target.head, **named)

    monkeypatch.setattr(turn, "_spawned", at_the_tip)
    story = wave("gain", "gain", "gain", maxMinds=1, weather=((20.0, "commit"), (30.0, "commit"), (40.0, "commit")))
    assert "begins elsewhere than its wave" in red(story)


def test_a_wave_in_one_directory_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn, "place", lambda basin, run: "here")
    chosen = settings("here", stallAfter=1, interval=0.0)
    assert "2 minds in one place" in red(plain("here", minds=("none",) * 9, settings=chosen))


def test_a_mind_that_goes_back_to_the_checkout_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def by_width(basin: Basin, run: Run) -> Place:
        return "fresh" if basin.attempt is not None and basin.attempt.width > 1 else "here"

    monkeypatch.setattr(turn, "place", by_width)
    chosen = settings("here", stallAfter=1, interval=0.0)
    story = plain(
        "here",
        minds=("none", "none", "gain", "gain", "gain"),
        criteria=tuple(map(holds, ("c1", "c2", "c3"))),
        settings=chosen,
    )
    assert "in place, though the pursuit left it" in red(story)


def test_a_graft_that_loses_what_held_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge, "lost", lambda before, after: ())
    assert "a graft lost" in red(
        *(wave(*["each and break"] * 3, seed=seed, files={"c1.txt": "yes"}) for seed in range(9))
    )


def test_a_proposal_that_nothing_keeps_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Grafts, "offer", lambda self, basin, head: setattr(self, "offered", head))
    assert "whose chain nothing keeps" in red(wave("gain", "gain", "gain"))


def test_a_graft_behind_the_persons_back_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Basin, "valve", property(lambda self: "auto"))
    assert "without a person" in red(wave("gain", "gain", "gain", declared="person"))


def test_an_attempt_that_ends_while_a_pruned_mind_runs_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Branch, "may_run", property(lambda self: self.phase in (Phase.SPAWNED, Phase.SEARCHING)))
    story = wave("none", "none", "deaf", weather=tuple((at, "prune running") for at in (20.0, 40.0, 60.0, 80.0)))
    assert "an attempt ended while" in red(story)
