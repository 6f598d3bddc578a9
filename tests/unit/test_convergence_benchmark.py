"""The convergence benchmark measures what it says: real merges, real tests, one luck for all, and nothing where nothing can be."""

from __future__ import annotations

import random
import statistics
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path

import pytest

from benchmarks.convergence.admission import Answering, Queue, Waiting
from benchmarks.convergence.figure import figure
from benchmarks.convergence.generator import LAYOUTS, Layout, Wording
from benchmarks.convergence.measure import ANY, Goal, Key, Ratio, Results, goals
from benchmarks.convergence.minds import Law, Luck, Run, attempt
from benchmarks.convergence.proof import Proof, RealWitness, prove
from benchmarks.convergence.runner import Runner
from benchmarks.convergence.store import Store
from benchmarks.convergence.strategies import (
    BASELINES,
    BEST_LOOP,
    LOOP,
    WIDTHS,
    Admitted,
    Bench,
    Mind,
    Pursuit,
    Strategy,
    best,
    best_of,
    ours,
    pursue,
    thrown_away,
    wholes,
)
from orchconverge.adapters.git import Repository
from orchconverge.core.harvest import propose
from orchconverge.core.target import Criterion, Sha

FRESH = Run(approach=0, ordinal=0, base_approach=None)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(tmp_path / "repository")
    yield made
    made.close()


def pursued(tmp_path: Path, layout: str, strategy: Strategy, *, task: int = 0, k: int = 8) -> Pursuit:
    store = Store(tmp_path / f"{layout}-{strategy.label}-{task}")
    try:
        admit = best if strategy.tries is None else Queue().admit
        return pursue(Bench(Layout(layout, k), Luck(task, Law()), store), strategy, admit, cap=120)
    finally:
        store.close()


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_feature_meets_its_own_criterion_and_no_other_and_a_wrong_body_loses_it(store: Store, name: str) -> None:
    layout = Layout(name, 12)
    runner = Runner(layout, store)
    tip = store.chain(None, [("start\n", layout.start())])[0]
    assert runner.met(store.tree(tip)) == frozenset()
    order = random.Random(1).sample(range(12), 12)
    for step, index in enumerate(order, 1):
        files = store.files(store.tree(tip))
        tip = store.chain(tip, [("write\n", layout.write(files, index, Wording(step, "Words."), right=True))])[0]
        assert runner.met(store.tree(tip)) == frozenset(order[:step])
    for index in range(12):
        files = store.files(store.tree(tip))
        broken = store.chain(tip, [("break\n", layout.write(files, index, Wording(0, "Words."), right=False))])[0]
        assert runner.met(store.tree(broken)) == frozenset(range(12)) - {index}
    if layout.rewritten:
        anew = store.chain(tip, [("anew\n", layout.anew(store.files(store.tree(tip)), "Other words.", order))])[0]
        assert runner.met(store.tree(anew)) == frozenset(range(12))
        assert not set(store.files(store.tree(anew))["parts/features.py"].splitlines()) >= {'    """Words."""'}


def test_luck_depends_on_its_key_alone_and_has_the_mean_of_the_law() -> None:
    law = Law()
    one = Luck(3, law)
    assert (
        one.uniform("gain", 1, 2, 3) == Luck(3, law).uniform("gain", 1, 2, 3) != Luck(4, law).uniform("gain", 1, 2, 3)
    )
    chances = [Luck(task, law).chance(i, FRESH, 0) for task in range(300) for i in range(20)]
    assert statistics.fmean(chances) == pytest.approx(law.mean, abs=0.02)
    assert one.chance(0, FRESH, 0) < one.chance(0, FRESH, 1) < one.chance(0, FRESH, 2) == one.chance(0, FRESH, 9)
    assert one.chance(0, Run(1, 0, None), 0) == one.chance(0, Run(1, 0, 1), 0) != one.chance(0, Run(1, 0, 2), 0)


def test_a_minds_break_lies_beside_something_it_gained_and_squashed_it_is_one_commit() -> None:
    layout, luck = Layout("one-file-spread", 20), Luck(1, Law(breaks=0.3, nothing=0))
    files, met = layout.start(), frozenset(range(0, 20, 2))
    for index in met:
        files |= layout.write(files, index, Wording(5, "Words."), right=True)
    made = attempt(layout, luck, FRESH, files, met, {}, squashed=False)
    assert made.breaks and made.gains
    assert [commit.criteria for commit in made.commits] == [(layout.criteria[i],) for i in made.gains]
    squashed = attempt(layout, luck, FRESH, files, met, {}, squashed=True)
    assert [commit.criteria for commit in squashed.commits] == [tuple(layout.criteria[i] for i in made.gains)]
    after = files.copy()
    for commit in made.commits:
        after |= commit.changes
    assert {**files, **squashed.commits[0].changes} == after


def test_the_store_is_a_sound_git_repository(store: Store) -> None:
    pursue(Bench(Layout("half-reg", 8), Luck(0, Law()), store), ours(3), Queue().admit, cap=120)
    found = subprocess.run(["git", "fsck", "--strict", "--full"], cwd=store.root, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    assert "error" not in found.stderr and "missing" not in found.stdout


def test_the_products_adapter_and_pytest_give_the_same_trees_and_bits(tmp_path: Path) -> None:
    proof = Proof()
    prove(proof, 4, Layout("tight", 8), Law(), tmp_path, gates=2)
    assert len(proof.gates) >= 2
    assert 0 < proof.conflicts < len(proof.merges)


def test_a_wrong_tree_and_a_wrong_bit_are_found(tmp_path: Path, store: Store) -> None:
    bench = Bench(Layout("spread", 4), Luck(0, Law(nothing=0)), store)
    mind = bench.mind(bench.start, frozenset(), FRESH, {})
    repository = Repository(root=store.root, common_dir=store.root / ".git", trees=tmp_path / "trees")
    witness = RealWitness(repository, tmp_path / "trees", Proof())
    witness.merged(bench.start, mind, mind.commits[:1], (), store.tree(mind.commits[0]))
    for wrong in (None, mind.tree):
        with pytest.raises(AssertionError, match="the adapter says"):
            witness.merged(bench.start, mind, mind.commits[:1], (), wrong)
    witness.judged(mind.commits[-1], mind.met)
    witness.gate(1)
    false = RealWitness(repository, tmp_path / "trees", Proof())
    false.judged(mind.commits[-1], mind.met ^ {0})
    with pytest.raises(AssertionError, match="pytest says"):
        false.gate(1)


def test_the_baselines_do_not_depend_on_the_layout(tmp_path: Path) -> None:
    for strategy in (BEST_LOOP, thrown_away(3), best_of(8)):
        told = {layout: pursued(tmp_path, layout, strategy, task=2) for layout in ("spread", "tight", "rewrite")}
        assert told["spread"] == told["tight"] == told["rewrite"]


def test_losers_thrown_away_is_what_the_product_does_without_its_harvest(tmp_path: Path) -> None:
    waves = 0

    def first_step(
        bench: Bench, strategy: Strategy, tip: Sha, met: Set[int], minds: Sequence[Mind], failures: Mapping[int, int]
    ) -> Admitted:
        nonlocal waves
        answering = Answering(bench, {f"b.{n}": mind for n, mind in enumerate(minds, 1) if mind.commits})
        criteria = [Criterion(name=name, command="pytest") for name in bench.layout.criteria]
        sources = [answering.source(name, tip, Waiting(mind)) for name, mind in answering.minds.items()]
        found = propose(criteria, tip, answering.results(bench.store.tree(tip)), sources, answering, tries=0)
        own = best(bench, strategy, tip, met, minds, failures)
        assert [taken.part.branch for taken in found.taken] == [
            name for name, mind in answering.minds.items() if mind is own.whole
        ]
        waves += 1
        return own

    for task in range(3):
        store = Store(tmp_path / str(task))
        pursue(Bench(Layout("spread", 12), Luck(task, Law(breaks=0.1)), store), thrown_away(3), first_step, cap=120)
        store.close()
    assert waves > 10


def test_where_nothing_comes_apart_nothing_is_saved_and_where_all_does_something_is(tmp_path: Path) -> None:
    for task in range(4):
        floor = pursued(tmp_path, "rewrite", thrown_away(3), task=task)
        held = pursued(tmp_path, "rewrite", ours(3), task=task)
        assert (held.landed, held.wholes, held.minds) == (0, 0, floor.minds)
    apart = [pursued(tmp_path, "spread", ours(3), task=task) for task in range(4)]
    alone = [pursued(tmp_path, "spread", thrown_away(3), task=task) for task in range(4)]
    assert sum(done.landed for done in apart) > 0
    assert sum(done.minds for done in apart) < sum(done.minds for done in alone)
    assert all(done.lost == 0 for done in apart + alone)


def test_whole_branches_only_takes_no_parts(tmp_path: Path) -> None:
    done = [pursued(tmp_path, "spread", wholes(8), task=task) for task in range(4)]
    assert sum(each.wholes for each in done) > 0
    assert [each.tries for each in done] == [0] * 4


def test_the_plain_loop_loses_what_it_had_and_is_capped(tmp_path: Path) -> None:
    store = Store(tmp_path / "plain")
    done = pursue(Bench(Layout("spread", 20), Luck(0, Law(breaks=0.2)), store), LOOP, best, cap=30)
    store.close()
    assert done.lost > 0
    assert (done.minds, done.converged, done.gates) == (30, False, 0)


def test_a_ratio_is_of_means_and_its_interval_comes_from_whole_tasks() -> None:
    assert Ratio.of([3.0] * 20, [4.0] * 20) == Ratio(0.75, 0.75, 0.75)
    dice = random.Random(1)
    floor = [dice.uniform(10, 100) for _ in range(160)]
    found = Ratio.of([0.8 * one + dice.uniform(-5, 5) for one in floor], floor)
    assert found.low < found.value < found.high
    assert found.value == pytest.approx(0.8, abs=0.02)
    assert found.high - found.low < 0.04, "paired: what tasks differ in falls out"


def grid(minds: Mapping[Key, int], *, parts: int, landed: int) -> dict[Key, list[Pursuit]]:
    keys = [(ANY, strategy) for strategy in BASELINES]
    keys += [(layout, strategy) for layout in LAYOUTS for strategy in map(ours, WIDTHS)]
    made = {}
    for key in keys:
        runs = minds.get(key, 100)
        harvest = {"parts": parts, "landed": landed} if key[1].tries else {}
        made[key] = [Pursuit(converged=True, minds=runs, mind_time=runs / key[1].width, **harvest) for _ in range(12)]
    return made


def judged(minds: Mapping[Key, int], *, parts: int = 10, landed: int = 6) -> dict[str, bool]:
    proof = Proof(tasks=1, merges=[0.05], gates=[1.0])
    found: Sequence[Goal] = list(goals(Results(grid(minds, parts=parts, landed=landed), proof)))
    return {goal.text: goal.met for goal in found if goal.text.startswith("spread, ")}


def test_goals_are_judged_in_their_band_of_separability_and_outside_it_that_is_said() -> None:
    name = "spread, N=3, s=0.60: runs / b+ <= 0.90, interval below 1"
    assert judged({("spread", ours(3)): 90})[name]
    assert not judged({("spread", ours(3)): 91})[name]
    assert judged({}, landed=8) == {
        "spread, N=3, s=0.80 (outside .5-.7, the nearest): runs / b+ <= 0.90, interval below 1": False,
        "spread, N=8, s=0.80 (outside .5-.7, the nearest): runs / b+ <= 0.80, interval below 1": False,
    }
    leaks = "spread, N=8, s=0.00: nothing to harvest, runs / b+ >= 0.97"
    assert judged({("spread", ours(8)): 97}, landed=0)[leaks]
    assert not judged({("spread", ours(8)): 96}, landed=0)[leaks]


def test_the_figure_is_whole_xml_and_names_every_layout_and_baseline() -> None:
    results = Results(grid({}, parts=10, landed=6), Proof(tasks=1, merges=[0.05], gates=[1.0]))
    root = ET.fromstring(figure(results.rows()))
    words = " ".join(text for element in root.iter() if (text := element.text))
    assert all(layout in words for layout in LAYOUTS)
    assert all(strategy.label in words for strategy in BASELINES)
    assert "0.60 / 0.60 / 0.60" in words
