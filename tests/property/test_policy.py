"""`decide` is total, pure, and says the same twice, after any prefix of any run and whatever the ports may answer."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from datetime import timedelta
from functools import lru_cache
from typing import get_args

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from orchconverge.core import actions as a
from orchconverge.core import upcast
from orchconverge.core.events import AnyFact
from orchconverge.core.policy import decide
from orchconverge.core.reducer import Fold
from orchconverge.core.replay import Replay
from orchconverge.core.seen import (
    Absent,
    Checkout,
    Commit,
    Ended,
    Exit,
    Key,
    Landed,
    Lost,
    Machine,
    MindEnd,
    MindReport,
    Now,
    Outcome,
    Running,
    Seen,
    Starting,
    StepResult,
    TargetSeen,
    Tried,
    Unknown,
    Work,
)
from orchconverge.core.target import Sha
from orchconverge.core.values import Evidence, Limit, Part, Process, Usage, Verdict
from orchconverge.errors import Illegal
from tests.fakes.clock import BEGIN
from tests.fakes.simulation import BASIN, simulate
from tests.fakes.story import drawn, drawn_wave
from tests.fakes.watch import told

SEEDS = 40
SHAS = tuple(Sha(f"{n:040x}") for n in range(1, 4))
ACTIONS = frozenset(kind for kind in vars(a).values() if isinstance(kind, type) and issubclass(kind, a.Action))


@lru_cache(maxsize=SEEDS)
def lines(seed: int) -> tuple[bytes, ...]:
    """The whole lines of a simulated run."""
    content = simulate(drawn(seed) if seed % 2 else drawn_wave(seed)).ledger
    found = [line + b"\n" for line in content.split(b"\n")]
    return tuple(line for line in found if not isinstance(upcast.decode(line), upcast.Damaged))


def folded(prefix: Sequence[bytes]) -> Fold:
    replay = Replay()
    replay.feed(b"".join(prefix))
    assert replay.illegal == 0
    return replay.fold


PROCESS = Process(boot="b", pid=2, start=3)
EXITS = st.builds(
    Exit,
    reason=st.sampled_from(["exited", "deadline", "killed", "refused"]),
    code=st.sampled_from([None, 0, 1, 127]),
    signal=st.sampled_from([None, 9]),
    seconds=st.floats(0, 500),
    error=st.sampled_from(["", "gone"]),
)
PROBES = st.one_of(
    st.sampled_from([Absent(), Starting(), Running(process=PROCESS), Lost(), Lost(process=PROCESS), Unknown(why="no")]),
    st.builds(Ended, exit=EXITS, process=st.sampled_from([None, PROCESS])),
)
SHA = st.sampled_from(SHAS)
COMMITS = st.lists(
    st.builds(Commit, sha=SHA, author=st.just("a"), committer=st.just("c"), subject=st.just("s")), max_size=2
)
PATHS = st.lists(st.sampled_from(["c1.txt", "AGENTS.md", "x"]), max_size=2, unique=True).map(tuple)
LIMIT = st.sampled_from([None, Limit(engine="sim"), Limit(engine="sim", until=BEGIN + timedelta(hours=1))])
ENDS = st.builds(
    MindEnd,
    outcome=st.builds(
        Outcome,
        usage=st.sampled_from([None, Usage(inputTokens=5, usd=0.1)]),
        limit=LIMIT,
        context_lost=st.booleans(),
        auth_failed=st.booleans(),
    ),
    report=st.builds(
        MindReport,
        verdict=st.sampled_from([None, Verdict(kind="cannot", text="no key")]),
        frontier=st.sampled_from([(), ("why?",), ("why?", "how?")]),
    ),
    head=SHA,
    stands=st.booleans(),
    leftovers=PATHS,
    strangers=COMMITS.map(tuple),
)
WORKS = st.builds(Work, base=SHA, head=SHA, tree=SHA, descends=st.booleans(), commits=COMMITS.map(tuple), changed=PATHS)
TRIED = st.one_of(
    st.builds(Tried, tree=st.none(), conflicts=PATHS), st.builds(Tried, tree=SHA, commit=SHA, paths=PATHS)
)
CHECKOUTS = st.builds(
    Checkout,
    branch=st.sampled_from([None, "topic", "other"]),
    head=st.sampled_from([None, *SHAS]),
    dirty=PATHS,
    untracked=PATHS,
    operation=st.sampled_from([None, None, "merge"]),
)


@st.composite
def situations(draw: st.DrawFn) -> tuple[Fold, Seen, Now]:
    """A fold of some prefix of some run, and anything that the ports may say at that point."""
    whole = lines(draw(st.integers(0, SEEDS - 1)))
    fold = folded(whole[: draw(st.integers(1, len(whole)))])
    basin = fold.basins[BASIN]
    branches = [branch.id for branch in fold.state.branches_of(BASIN)]
    known = [basin.tip.head] if basin.tip is not None else []
    trees = [basin.tip.tree] if basin.tip is not None else []
    head = st.sampled_from([*known, *SHAS])
    tree = st.sampled_from([*trees, *SHAS])
    names = [criterion.name for criterion in basin.criteria]
    keys = st.builds(
        Key,
        criterion=st.sampled_from(names),
        tree=tree,
        place=st.sampled_from(["here", "fresh"]),
        tries=st.sampled_from([1, 2]),
    )
    answers = {
        key: Evidence(
            criterion=key.criterion,
            met=draw(st.sampled_from(["yes", "no", "error", "unstable"])),
            tree=key.tree,
            place=key.place,
            tries=key.tries,
            passed=draw(st.sampled_from([(), ("t",)])),
        )
        for key in draw(st.lists(keys, max_size=12))
    }
    one = st.sampled_from(branches) if branches else st.nothing()
    parts = st.builds(
        Part,
        branch=one,
        criterion=st.sampled_from([None, *names]),
        commits=st.sampled_from([(), SHAS[:1], SHAS[:2]]),
        paths=st.sampled_from([(), ("c1.txt",)]),
    )
    landed = st.builds(
        Landed,
        commit=SHA,
        tree=tree,
        branch=st.sampled_from([*branches, "other.1"]),
        part=st.booleans(),
        criterion=st.sampled_from([None, *names]),
        paths=PATHS,
    )
    target = st.builds(
        TargetSeen,
        landed=st.lists(landed, max_size=2).map(tuple),
        head=st.one_of(st.none(), head),
        tree=tree,
        checkout=st.one_of(st.none(), CHECKOUTS),
        fingerprint=st.sampled_from(["", "f", "g"]),
    )
    seen = Seen(
        basin=BASIN,
        random=f"{draw(st.integers(0, 9)):032x}",
        trees="/trees",
        probes=draw(st.dictionaries(one, PROBES)),
        ends=draw(st.dictionaries(one, ENDS)),
        works=draw(st.dictionaries(one, WORKS)),
        target=draw(st.one_of(st.none(), target)),
        answers=answers,
        tried=draw(st.dictionaries(st.tuples(parts, head), TRIED, max_size=6)),
        offered=draw(st.one_of(st.none(), head)),
        harvesting=draw(st.sampled_from([0.0, 1.0, 1e4])),
        minds=draw(st.sampled_from([0, 0, 1, 8])),
        obstacle=draw(st.sampled_from(["", "it is in use"])),
        checking=draw(st.booleans()),
        step=draw(st.one_of(st.none(), PROBES)),
        step_result=draw(st.sampled_from([None, StepResult(status="done", detail="d", path="p")])),
        machine=draw(
            st.sampled_from(
                [Machine(), Machine(memory_free=0), Machine(disk_free=0), Machine(pids_free=0), Machine(ptys_free=0)]
            )
        ),
        contextual=draw(st.sampled_from([frozenset(), frozenset({"sim"})])),
        memory_floor=1,
        disk_floor=1,
        fingerprint=draw(st.sampled_from(["", "f"])),
        stopping=draw(st.sampled_from([0, 0, 0, 1])),
    )
    now = Now(
        active=basin.active + draw(st.sampled_from([0.0, 1.0, 1e5])),
        mono=draw(st.floats(0, 1e6)),
        wall=BEGIN + timedelta(seconds=draw(st.integers(-(10**5), 10**6))),
    )
    return fold, seen, now


@settings(deadline=None, max_examples=150)
@given(situations())
def test_deciding_never_fails_changes_nothing_and_says_the_same_twice(situation: tuple[Fold, Seen, Now]) -> None:
    fold, seen, now = situation
    before = deepcopy(told(fold.state))
    decided = decide(fold.state, seen, now)
    assert decide(fold.state, seen, now) == decided
    assert told(fold.state) == before
    assert {type(action) for action in decided} <= ACTIONS


@settings(deadline=None, max_examples=150)
@given(situations())
def test_what_is_to_be_appended_first_is_legal(situation: tuple[Fold, Seen, Now]) -> None:
    """However odd the answers: `decide` never asks the ledger for something that its own rules refuse."""
    fold, seen, now = situation
    for action in decide(fold.state, seen, now):
        if not isinstance(action, a.Append):
            break
        assert isinstance(action.fact, get_args(AnyFact))
        stamped = type(action.fact)(**{**fields(action.fact), "seq": fold.seq + 1, "active": now.active})
        try:
            fold.apply(stamped)
        except Illegal as illegal:
            raise AssertionError(f"{action.fact} is not legal: {illegal.message}") from illegal


def fields(fact: AnyFact) -> dict[str, object]:
    return {name: getattr(fact, name) for name in fact.__struct_fields__}


@settings(deadline=None, max_examples=150)
@given(situations(), st.data())
def test_whatever_is_answered_next_all_that_follows_is_legal_too(
    situation: tuple[Fold, Seen, Now], data: st.DataObject
) -> None:
    """Ask, answer anything, append what is asked for, and so on: into the middle of a harvest and out of it again."""
    fold, seen, now = situation
    for step in range(15):
        actions = decide(fold.state, seen, now)
        if not actions or isinstance(actions[0], a.Finish | a.Sleep):
            return
        for action in actions:
            if isinstance(action, a.Append):
                stamped = type(action.fact)(**{**fields(action.fact), "seq": fold.seq + 1, "active": now.active})
                try:
                    fold.apply(stamped)
                except Illegal as illegal:
                    raise AssertionError(f"{action.fact} is not legal: {illegal.message}") from illegal
                continue
            seen = answered(seen, action, data, step)


def answered(seen: Seen, action: a.Action, data: st.DataObject, step: int) -> Seen:
    """Anything that the outside could say to an action."""
    new = Sha(f"{step + 10:040x}")
    if isinstance(action, a.Try):
        fits = Tried(tree=new, commit=new, paths=("c1.txt",))
        tried = data.draw(st.sampled_from([fits, fits, replace(fits, paths=()), Tried(tree=None, conflicts=("x",))]))
        return replace(seen, tried={**seen.tried, (action.part, action.onto): tried})
    if isinstance(action, a.Check):
        met = data.draw(st.sampled_from(["yes", "yes", "no", "error"]))
        evidence = Evidence(
            criterion=action.key.criterion,
            met=met,
            tree=action.key.tree,
            place=action.key.place,
            tries=action.key.tries,
        )
        return replace(seen, answers={**seen.answers, action.key: evidence})
    if isinstance(action, a.LookAtWork):
        return replace(seen, works={**seen.works, action.branch: data.draw(WORKS)})
    if isinstance(action, a.Offer):
        return replace(seen, offered=action.head)
    if isinstance(action, a.LookAtTarget):
        moved = data.draw(st.sampled_from([False, False, True]))
        before = seen.target or TargetSeen(head=SHAS[0], tree=SHAS[0])
        return replace(seen, target=replace(before, head=new, tree=new) if moved else before)
    return seen
