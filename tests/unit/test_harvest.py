"""What can be admitted together: random branches over a small model of git and of the criteria, asked one answer at a time."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchconverge.core.actions import Action, Check, LookAtWork, Try
from orchconverge.core.harvest import Harvest, Results, Source, assemble, named, parts_of, propose
from orchconverge.core.judge import Answers, gained, lost
from orchconverge.core.seen import Commit, Key, Tried, Work
from orchconverge.core.target import Criterion, Sha
from orchconverge.core.values import Evidence, Part

Files = Mapping[str, str]
FILES = tuple("abcdef")
NAMES = tuple(f"c{n}" for n in range(4))
CRITERIA = tuple(Criterion(name=name, command=name) for name in NAMES)


def sha(*told: object) -> Sha:
    return Sha(hashlib.sha1(repr(told).encode()).hexdigest())


class Truth(NamedTuple):
    """A criterion holds where each file of ``needs`` has one of its good texts and no file of ``spoilers`` says `bad`."""

    needs: tuple[str, ...]
    spoilers: tuple[str, ...]

    def holds(self, files: Files) -> bool:
        return all(files.get(n, "").startswith("good") for n in self.needs) and not any(
            files.get(n) == "bad" for n in self.spoilers
        )


class Made(NamedTuple):
    """One commit of a branch: what it changes and what its trailers name."""

    changes: Files
    criteria: tuple[str, ...] = ()


class Scene(NamedTuple):
    """The truth of each criterion, the files of the tip, and the commits of each branch, which all begin there."""

    truth: tuple[Truth, ...]
    start: Files
    branches: tuple[tuple[Made, ...], ...]


class World:
    """`orchconverge.core.harvest.Ask` over a model: whole files, three-way. It knows what was answered before, and no more."""

    def __init__(self, scene: Scene) -> None:
        self.truth = dict(zip(NAMES, scene.truth, strict=True))
        self.start = dict(scene.start)
        self.made = {f"goal.{n}": commits for n, commits in enumerate(scene.branches, 1)}
        self.tip = sha("tip")
        self.files: dict[Sha, Files] = {self.tip: self.start}
        self.known: dict[tuple[Part, Sha], Tried] = {}
        self.answers: dict[Key, Evidence] = {}
        self.asked: list[Action] = []

    # --- what is so --------------------------------------------------------------------------------------------------

    def evidence(self, files: Files, name: str) -> Evidence:
        met = "yes" if self.truth[name].holds(files) else "no"
        return Evidence(criterion=name, met=met, tree=sha(sorted(files.items())))  # type: ignore[arg-type]

    def results(self, files: Files) -> Results:
        return {name: self.evidence(files, name) for name in NAMES}

    def head(self, branch: str) -> Files:
        files = dict(self.start)
        for made in self.made[branch]:
            files |= made.changes
        return files

    def ids(self, branch: str) -> list[Sha]:
        return [sha(branch, n) for n in range(len(self.made[branch]))]

    def work(self, branch: str) -> Work:
        commits = [
            Commit(sha=one, author="", committer="", subject="", criteria=made.criteria)
            for one, made in zip(self.ids(branch), self.made[branch], strict=True)
        ]
        changed = sorted(n for n, text in self.head(branch).items() if self.start.get(n) != text)
        return Work(
            base=self.tip,
            head=commits[-1].sha,
            tree=sha(branch),
            descends=True,
            commits=tuple(reversed(commits)),
            changed=tuple(changed),
        )

    def merged(self, part: Part, onto: Sha) -> Tried:
        """The changes of a part on a commit; a file that both sides changed to something else conflicts."""
        chosen = [
            m for one, m in zip(self.ids(part.branch), self.made[part.branch], strict=True) if one in part.commits
        ]
        if part.whole or part.paths:
            head = self.head(part.branch)
            wanted = {n: t for n, t in head.items() if (part.whole or n in part.paths) and self.start.get(n) != t}
        else:
            wanted = {n: t for made in chosen for n, t in made.changes.items()}
        here = self.files[onto]
        conflicts = tuple(sorted(n for n, t in wanted.items() if here.get(n) not in (t, self.start.get(n))))
        if conflicts:
            return Tried(tree=None, conflicts=conflicts)
        files = {**here, **wanted}
        commit = sha(onto, part)
        self.files[commit] = files
        paths = tuple(sorted(n for n in files if files[n] != here.get(n)))
        return Tried(tree=sha(sorted(files.items())), commit=commit, paths=paths)

    # --- what is asked -----------------------------------------------------------------------------------------------

    def tried(self, part: Part, onto: Sha) -> Tried | None:
        return self.known.get((part, onto))

    def judged(self, tree: Sha, commit: Sha, expected: Results) -> Answers:
        found = []
        for name in NAMES:
            key = Key(criterion=name, tree=tree, place="fresh")
            if key not in self.answers:
                return Answers(missing=(Check(key=key, commit=commit),))
            found.append(self.answers[key])
        return Answers(evidence=tuple(found))

    def answer(self, action: Action) -> None:
        self.asked.append(action)
        if isinstance(action, Try):
            assert (action.part, action.onto) not in self.known, "asked twice"
            self.known[action.part, action.onto] = self.merged(action.part, action.onto)
        elif isinstance(action, Check):
            assert action.key not in self.answers, "asked twice"
            self.answers[action.key] = self.evidence(self.files[action.commit], action.key.criterion)

    def sources(self, *, seen: Sequence[str] | None = None) -> list[Source]:
        return [
            Source(
                branch=branch,
                base=self.tip,
                evidence=self.results(self.head(branch)),
                work=self.work(branch) if seen is None or branch in seen else None,
            )
            for branch in self.made
        ]


def harvest(
    world: World,
    sources: Sequence[Source] | None = None,
    *,
    tries: int = 12,
    objected: frozenset[str] | None = None,
) -> Harvest:
    """Answer until nothing is missing. Branches are looked at when that is asked for."""
    looked: set[str] = set()
    given = world.sources(seen=()) if sources is None else list(sources)
    for _ in range(2000):
        ready = [s if s.work or s.branch not in looked else replaced(world, s) for s in given]
        before = world.results(world.start)
        found = propose(CRITERIA, world.tip, before, ready, world, tries=tries, objected=objected)
        if not found.missing:
            return found
        for action in found.missing:
            if isinstance(action, LookAtWork):
                assert action.branch not in looked
                looked.add(action.branch)
            world.answer(action)
    raise AssertionError("it never has enough")


def replaced(world: World, source: Source) -> Source:
    return Source(branch=source.branch, base=source.base, evidence=source.evidence, work=world.work(source.branch))


def held(results: Results) -> set[str]:
    return {name for name, x in results.items() if x.met == "yes"}


texts = st.sampled_from(("good", "good too", "bad", "neutral"))
changes = st.dictionaries(st.sampled_from(FILES), texts, min_size=1, max_size=3)
commits = st.builds(Made, changes, st.lists(st.sampled_from(NAMES), max_size=2, unique=True).map(tuple))
names = st.lists(st.sampled_from(FILES), min_size=1, max_size=2, unique=True).map(tuple)
truths = st.builds(Truth, names, st.lists(st.sampled_from(FILES), max_size=1).map(tuple))
scenes = st.builds(
    Scene,
    st.tuples(*[truths] * len(NAMES)),
    st.dictionaries(st.sampled_from(FILES), texts, max_size=3),
    st.lists(st.lists(commits, min_size=1, max_size=4).map(tuple), min_size=1, max_size=4).map(tuple),
)


@given(scenes)
def test_nothing_that_held_is_lost_and_what_is_said_to_hold_does(scene: Scene) -> None:
    world = World(scene)
    found = harvest(world)
    before = held(world.results(world.start))
    at = world.tip
    for taken in found.taken:
        after = held(world.results(world.files[taken.commit]))
        assert taken.commit == sha(at, taken.part), "each part stands on the one before it"
        assert before <= after
        assert set(taken.gains) == after - before
        assert taken.gains
        assert held({x.criterion: x for x in taken.evidence}) == after
        before, at = after, taken.commit
    assert held(found.results) == before


@given(scenes)
def test_parts_are_of_branches_that_meet_what_they_are_taken_for(scene: Scene) -> None:
    world = World(scene)
    found = harvest(world)
    wholes = [taken.part.branch for taken in found.taken if taken.part.whole]
    assert len(set(wholes)) == len(wholes)
    for x in (*found.taken, *found.refused):
        if not x.part.whole:
            assert x.part.criterion is not None
            assert world.truth[x.part.criterion].holds(world.head(x.part.branch))
    after = [x.part.branch for x in found.taken[1:] if x.part.whole]
    assert all(len(world.made[b]) == 1 or all(made.criteria for made in world.made[b]) for b in after)
    for taken in found.taken:
        assert taken.part.whole or taken.part.criterion in taken.gains


@given(scenes, st.integers(0, 5))
def test_no_more_parts_are_tried_than_asked_for(scene: Scene, tries: int) -> None:
    world = World(scene)
    found = harvest(world, tries=tries)
    tried = [a.part for a in world.asked if isinstance(a, Try)]
    assert len([part for part in tried if not part.whole]) <= tries
    assert len(tried) <= tries + len(world.made)
    assert len([x for x in (*found.taken, *found.refused) if not x.part.whole]) <= tries


@given(scenes, st.randoms(use_true_random=False))
def test_the_same_answers_in_another_order_give_the_same_result(scene: Scene, random: object) -> None:
    one = World(scene)
    found = harvest(one)
    other = World(scene)
    early = [a for a in one.asked if isinstance(a, Try) and a.onto == other.tip]
    random.shuffle(early)  # type: ignore[attr-defined]
    for action in early:
        other.answer(action)
    for _, tried in sorted(other.known.items(), key=lambda item: repr(item[0])):
        if tried.tree is not None and tried.commit is not None:
            for name in reversed(NAMES):
                key = Key(criterion=name, tree=tried.tree, place="fresh")
                if key not in other.answers:
                    other.answer(Check(key=key, commit=tried.commit))
    assert harvest(other, other.sources()) == found


@given(scenes)
def test_what_was_refused_before_is_not_tried_again(scene: Scene) -> None:
    world = World(scene)
    found = harvest(world)
    refused: dict[str, set[tuple[Sha, str | None, tuple[str, ...]]]] = {}
    for x in found.refused:
        if not x.part.whole:
            refused.setdefault(x.part.branch, set()).add((x.onto, x.part.criterion, named(x.part)))
    whole = {x.part.branch for x in found.refused if x.part.whole and x.onto == world.tip}
    for x in found.refused:
        if x.part.whole:
            refused.setdefault(x.part.branch, set()).add((x.onto, None, ()))
    again = [
        Source(
            branch=s.branch,
            base=s.base,
            evidence=s.evidence,
            whole=s.branch not in whole,
            work=s.work,
            refused=frozenset(refused.get(s.branch, ())),
        )
        for s in world.sources()
    ]
    asked = len(world.asked)
    repeated = harvest(world, again)
    assert (repeated.taken, repeated.refused, repeated.results) == (found.taken, (), found.results)
    assert len(world.asked) == asked


@given(scenes)
def test_a_branch_is_looked_at_when_a_part_of_it_is_wanted_and_not_before(scene: Scene) -> None:
    world = World(scene)
    found = harvest(world)
    looked = {a.branch for a in world.asked if isinstance(a, LookAtWork)}
    parted = {a.part.branch for a in world.asked if isinstance(a, Try) and not a.part.whole}
    assert parted <= looked
    for branch in looked:
        before = world.asked[: world.asked.index(LookAtWork(branch=branch))]
        assert not any(isinstance(a, Try) and a.part.branch == branch and not a.part.whole for a in before)
    useless = {b for b in world.made if not held(world.results(world.head(b))) - held(world.results(world.start))}
    assert not useless & looked
    assert found.missing == ()


@given(st.lists(st.lists(st.sampled_from(NAMES), min_size=1, unique=True), min_size=1, max_size=4), st.booleans())
def test_all_that_is_separable_lands(gains: list[list[str]], trailers: bool) -> None:
    """One file a criterion, one commit each, nothing in common: the result is the union of what the branches meet."""
    truth = tuple(Truth((f,), ()) for f in FILES[: len(NAMES)])
    branches = tuple(
        tuple(Made({FILES[NAMES.index(c)]: "good"}, (c,) if trailers else ()) for c in chosen) for chosen in gains
    )
    found = harvest(World(Scene(truth, {}, branches)), tries=99)
    assert held(found.results) == {c for chosen in gains for c in chosen}


@given(scenes, st.data())
def test_what_a_person_chose_is_taken_in_that_order_or_named(scene: Scene, data: st.DataObject) -> None:
    world = World(scene)
    paths = st.lists(st.sampled_from(FILES), min_size=1, max_size=2, unique=True).map(tuple)
    parts = st.builds(Part, branch=st.sampled_from(sorted(world.made)), paths=paths)
    chosen = data.draw(st.lists(parts, max_size=3, unique_by=repr))
    for _ in range(500):
        before = world.results(world.start)
        found = assemble(CRITERIA, world.tip, before, [(part, {}) for part in chosen], world, must_gain=False)
        if not found.missing:
            break
        for action in found.missing:
            world.answer(action)
    assert sorted(map(repr, chosen)) == sorted(repr(x.part) for x in (*found.taken, *found.refused))
    assert [x.part for x in found.taken] == [p for p in chosen if p in [x.part for x in found.taken]][
        : len(found.taken)
    ]
    assert held(before) <= held(found.results)


# --- by example ------------------------------------------------------------------------------------------------------


def taken(found: Harvest) -> list[tuple[str, str | None, tuple[str, ...]]]:
    return [(x.part.branch, x.part.criterion, named(x.part)) for x in found.taken]


TRUTH = tuple(Truth((f,), ("f",) if f == "a" else ()) for f in FILES[: len(NAMES)])


def test_the_branch_that_gains_most_is_grafted_and_the_others_give_their_parts() -> None:
    one = (Made({"a": "good", "e": "mine"}),)
    most = (Made({"b": "good"}), Made({"c": "good", "e": "other"}))
    third = (Made({"d": "good"}, ("c3",)), Made({"e": "rival"}))
    world = World(Scene(TRUTH, {}, (one, most, third)))
    found = harvest(world)
    assert taken(found) == [("goal.2", None, ()), ("goal.1", "c0", ("a",)), ("goal.3", "c3", (world.ids("goal.3")[0],))]
    assert held(found.results) == set(NAMES)


def test_a_branch_that_breaks_what_held_still_gives_the_part_that_does_not() -> None:
    breaks = (Made({"b": "good"}), Made({"f": "bad"}))
    world = World(Scene(TRUTH, {"a": "good"}, (breaks,)))
    found = harvest(world)
    assert [x.lost for x in found.refused] == [("c0",)]
    assert taken(found) == [("goal.1", "c1", (world.ids("goal.1")[0],))]


def test_the_most_stubborn_criterion_is_tried_first_and_the_smallest_diff_of_it() -> None:
    graft = (Made({"a": "good", "b": "good"}),)
    large = (Made({"c": "good", "d": "good", "e": "x"}),)
    small = (Made({"d": "good", "e": "y"}),)
    world = World(Scene(TRUTH, {}, (graft, large, small)))
    order = []
    for stubborn in ({}, {"c3": 9}):
        asked = World(world_scene(world))
        while (found := propose_once(asked, failures=stubborn)).missing:
            for action in found.missing:
                asked.answer(action)
        order.append([(p.branch, p.criterion) for p in parts_tried(asked)])
    assert order[0][0] == ("goal.2", "c2")
    assert order[1][0] == ("goal.3", "c3")


def world_scene(world: World) -> Scene:
    return Scene(TRUTH, world.start, tuple(world.made.values()))


def propose_once(world: World, *, failures: Mapping[str, int]) -> Harvest:
    return propose(CRITERIA, world.tip, world.results(world.start), world.sources(), world, failures=failures)


def parts_tried(world: World) -> list[Part]:
    return [a.part for a in world.asked if isinstance(a, Try) and not a.part.whole]


@pytest.mark.parametrize(
    ("commits", "parts"),
    [
        ((Made({"a": "good"}, ("c0",)), Made({"b": "x"})), lambda ids: [((ids[0],), ())]),
        (
            (Made({"a": "x"}, ("c0",)), Made({"b": "x"}), Made({"a": "y"}, ("c0",))),
            lambda ids: [((ids[0], ids[2]), ())],
        ),
        ((Made({"a": "x"}), Made({"b": "x"})), lambda ids: [((ids[0],), ()), ((ids[1],), ())]),
        ((Made({"a": "x", "b": "x"}),), lambda ids: [((), ("a",)), ((), ("b",))]),
        ((Made({"a": "x", "b": "x"}, ("c0",)),), lambda ids: [((), ("a",)), ((), ("b",))]),
        ((Made({"a": "x"}),), lambda ids: []),
    ],
    ids=["its trailer", "two with its trailer", "each commit", "each file", "each file of the marked one", "nothing"],
)
def test_parts_are_by_trailer_else_each_commit_else_each_file(
    commits: tuple[Made, ...], parts: Callable[[list[Sha]], list[tuple[tuple[Sha, ...], tuple[str, ...]]]]
) -> None:
    world = World(Scene(TRUTH, {}, (commits,)))
    found = parts_of("goal.1", world.work("goal.1"), "c0")
    assert [(x.commits, x.paths) for x in found] == parts(world.ids("goal.1"))


def test_a_condition_is_never_a_reason_to_take_a_part() -> None:
    criteria = (Criterion(name="changed", kind="changed"), *CRITERIA)
    world = World(Scene(TRUTH, {}, ((Made({"e": "x"}), Made({"b": "neutral"})),)))
    before = world.results(world.start)
    found = propose(criteria, world.tip, before, world.sources(), world)
    assert (found.taken, found.missing) == ((), ())
    assert [x.why for x in found.refused] == ["it gains no criterion"]
    assert gained(criteria, before, before) == lost(before, before) == ()


@pytest.mark.parametrize(
    ("objected", "changes", "lands"),
    [
        (None, {"e": "neutral"}, False),
        (frozenset({"e"}), {"e": "neutral"}, True),
        (frozenset(), {"e": "neutral"}, True),
        (frozenset({"f"}), {"e": "neutral"}, False),
        (frozenset({"e"}), {"e": "neutral", "a": "bad"}, False),
    ],
)
def test_where_all_holds_a_branch_lands_if_it_answers_an_objection_and_loses_nothing(
    objected: frozenset[str] | None, changes: Files, lands: bool
) -> None:
    start = dict.fromkeys("abcd", "good")
    scene = Scene(tuple(Truth((file,), ()) for file in "abcd"), start, ((Made(changes),),))
    found = harvest(World(scene), objected=objected)
    assert [taken.gains for taken in found.taken] == ([()] if lands else [])
