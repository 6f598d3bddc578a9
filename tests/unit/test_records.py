"""What a person puts on record, on a real ledger and a real repository: what is written, what is refused, what follows."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from orchconverge import bootstrap
from orchconverge.app import records
from orchconverge.app.recovery import GONE, differences
from orchconverge.app.start import Request, drafted, settled, write_down
from orchconverge.app.world import World
from orchconverge.core import events as e
from orchconverge.core import judge
from orchconverge.core.judge import gained
from orchconverge.core.state import Branch, Phase
from orchconverge.core.target import Budget, Criterion, Termination
from orchconverge.core.values import Evidence
from orchconverge.core.views import target as view
from orchconverge.errors import Refused
from tests.stories import Story, check, sha

ANN = "person(ann, no tty)"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A repository on main with one commit, and everything around it but minds."""
    repo = tmp_path / "repo"
    repo.mkdir()
    (tmp_path / ".gitconfig").write_text("[user]\n\tname = A Person\n\temail = person@example.org\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    for words in (["init", "-q", "-b", "main"], ["commit", "-q", "--allow-empty", "-m", "start"]):
        subprocess.run(["git", *words], cwd=repo, check=True)
    with bootstrap.world(repo, bootstrap.load(repo, {}), drives=False) as made:
        yield made


def told(world: World, story: Story) -> World:
    """The story, appended to the real ledger."""
    for fact in story.facts:
        assert fact.writer is not None
        world.ledger.append(fact, writer=fact.writer, active=fact.active)
    return world


def request(**changes: object) -> Request:
    plain = Request(goal="a is there", criteria=(check("a"),), attempts=3, hours=None)
    return replace(plain, **changes)


def at_lock(*, met: tuple[str, ...] = ("oauth",), tip: tuple[str, ...] = ()) -> Story:
    """A run that ended with one candidate at the lock."""
    story = Story().declare(criteria=(check("oauth"), check("docs")), lock="person").start().check(met=tip)
    story.begin().ended("auth.1").candidate("auth.1", met=met, residue=["left by auth.1"])
    return story.judge(met=tip, result="no_progress").stop("waiting")


# --- declaring without a run -----------------------------------------------------------------------------------------


def test_a_target_is_written_down_and_its_branch_made_and_nothing_is_started(world: World) -> None:
    asked = request(lock="person", until=datetime(2030, 1, 1, tzinfo=UTC), budget=Budget(usd=2))
    draft = drafted(world, asked)
    assert world.ledger.state.basins == {}
    assert write_down(world, asked, draft) == ("a-is-there", "orchconverge/a-is-there")
    basin = world.ledger.state.basins["a-is-there"]
    assert (basin.lock, basin.budget, basin.run) == ("person", Budget(usd=2), None)
    assert basin.termination == Termination(attempts=3, until=datetime(2030, 1, 1, tzinfo=UTC))
    assert world.git.resolve("refs/heads/orchconverge/a-is-there") == world.git.resolve("HEAD")


def test_a_name_that_is_taken_gets_a_number(world: World) -> None:
    names = [write_down(world, request(), drafted(world, request())) for _ in range(3)]
    assert names == [(name, f"orchconverge/{name}") for name in ("a-is-there", "a-is-there-2", "a-is-there-3")]
    onto_main = request(into="main")
    assert write_down(world, onto_main, drafted(world, onto_main)) == ("a-is-there-4", "main")


@pytest.mark.parametrize(
    ("changes", "says", "hint"),
    [
        ({"goal": " \n"}, "goal is blank", "say what should be true"),
        ({"goal": "a\0"}, "NUL", "take it out"),
        ({"goal": "a\udcff"}, "not UTF-8", "iconv"),
        ({"attempts": None}, "needs a stop condition", "--max-attempts"),
        ({"criteria": ()}, "nothing can be gained", "--criterion"),
        ({"criteria": (Criterion(name="changed", kind="changed"),)}, "nothing can be gained", "--criterion"),
        ({"criteria": (check("a"), check("a"))}, "two criteria are called a", "--criterion"),
        ({"into": "nowhere"}, "no branch 'nowhere'", "--into"),
    ],
)
def test_what_is_no_target_is_refused_with_what_to_add(
    world: World, changes: dict[str, object], says: str, hint: str
) -> None:
    with pytest.raises(Refused) as refused:
        write_down(world, request(**changes), drafted(world, request(**changes)))
    assert says in refused.value.message
    assert hint in refused.value.hint
    assert world.ledger.state.basins == {}
    assert world.git.resolve("refs/heads/orchconverge/a-is-there") is None


def test_several_minds_need_worktrees(world: World) -> None:
    asked = request(minds=3, lock="person", place="here")
    subprocess.run(["git", "switch", "-q", "-c", "topic"], cwd=world.git.root, check=True)
    with pytest.raises(Refused, match="3 minds cannot work in one directory"):
        settled(world, asked, drafted(world, asked), cwd=world.git.root)
    asked = replace(asked, place=None)
    settings = settled(world, asked, drafted(world, asked), cwd=world.git.root)
    assert (settings.place, settings.minds, settings.lock) == ("fresh", 3, "person")


# --- amending --------------------------------------------------------------------------------------------------------


def amended(world: World, **changes: object) -> list[str]:
    before = records.amend(world, world.ledger.state.basins["auth"], why="because", **changes)  # type: ignore[arg-type]
    return view.difference(before, world.ledger.state.basins["auth"])


def test_an_amendment_changes_what_it_names_and_says_the_difference(world: World) -> None:
    told(world, Story().declare(criteria=(check("oauth"), check("docs"))))
    changed = (check("oauth", command="make oauth"), check("login"))
    assert amended(world, criteria=changed, termination=Termination(attempts=20), budget=Budget(usd=5)) == [
        "- oauth: pytest -q tests/oauth",
        "- docs: pytest -q tests/docs",
        "+ oauth: make oauth",
        "+ login: pytest -q tests/login",
        "Ends: all criteria hold, or 20 attempts (was: all criteria hold, or 10 attempts, or 3 hours)",
        "Budget: $5.00 (was: no limit)",
    ]
    basin = world.ledger.state.basins["auth"]
    assert (basin.criteria, basin.termination, basin.budget) == (changed, Termination(attempts=20), Budget(usd=5))
    assert amended(world, budget=Budget(usd=6)) == ["Budget: $6.00 (was: $5.00)"]
    assert basin.criteria == changed


@pytest.mark.parametrize(
    ("story", "changes", "says"),
    [
        (Story().declare(), {}, "changes nothing"),
        (Story().declare(), {"termination": Termination(attempts=10, hours=3.0)}, "changes nothing"),
        (Story().declare(), {"criteria": (Criterion(name="changed", kind="changed"),)}, "nothing can be gained"),
        (Story().declare(), {"criteria": (check("a"), check("a"))}, "two criteria are called a"),
        (Story().declare().start().begin(), {"budget": Budget(usd=1)}, "attempt 1 of auth runs"),
        (Story().declare(criteria=(check("a"),)).start(), {"criteria": (check("a", command="x"),)}, "answers for a"),
        (at_lock(), {"phase": "killed"}, "auth is killed"),
    ],
)
def test_an_amendment_that_makes_no_sense_is_refused(
    world: World, story: Story, changes: dict[str, object], says: str
) -> None:
    told(world, story)
    if changes.pop("phase", None):
        records.kill(world, world.ledger.state.basins["auth"], reason="enough")
        changes["budget"] = Budget(usd=1)
    before = world.ledger.state.basins["auth"]
    with pytest.raises(Refused, match=says) as refused:
        amended(world, **changes)
    assert refused.value.exit_code == 2
    assert world.ledger.state.basins["auth"] == before


def test_a_criterion_can_be_added_while_a_run_is_open(world: World) -> None:
    told(world, Story().declare(criteria=(check("oauth"),)).start())
    assert amended(world, criteria=(check("oauth"), check("docs"))) == ["+ docs: pytest -q tests/docs"]


# --- pruning ---------------------------------------------------------------------------------------------------------


def test_a_pruned_candidate_waits_no_more_and_leaves_its_residue(world: World) -> None:
    told(world, at_lock())
    branch = records.branch_named(world.ledger.state, "auth.1")
    follows = records.prune(world, branch, reason="too large", residue=["split it"], decided_by=ANN)
    pruned = world.ledger.state.branches["auth.1"]
    assert (pruned.phase, pruned.waits, pruned.failure, pruned.decided_by) == (Phase.PRUNED, False, "too large", ANN)
    assert [r.text for r in world.ledger.state.basins["auth"].residue] == ["left by auth.1", "split it"]
    assert follows == "Its commits stay on refs/orchconverge/keep/auth.1. Later minds are told why."
    exported = json.loads((world.state / "convergence_state.json").read_bytes())
    assert (exported["basin"], exported["seq"]) == ("auth", world.ledger.health.lines)


def test_what_is_not_legal_comes_back_in_the_words_of_the_rule(world: World) -> None:
    told(world, at_lock().tell(e.BranchPruned(basin="auth", branch="auth.1", reason="no", decidedBy=ANN)))
    lines = world.ledger.health.lines
    branch = world.ledger.state.branches["auth.1"]
    with pytest.raises(Refused, match=r"auth\.1 is pruned: it would have to be candidate or failed or searching") as no:
        records.prune(world, branch, reason="again", decided_by=ANN)
    assert no.value.exit_code == 2
    assert world.ledger.health.lines == lines


def test_a_branch_that_is_not_there_lists_the_newest_that_are(world: World) -> None:
    story = Story().declare().start(attempts=None)
    for number in range(1, 15):
        story.begin().ended(f"auth.{number}").failed(f"auth.{number}", "nothing").judge()
    told(world, story.stop("limit"))
    with pytest.raises(Refused, match="no branch is called auth") as refused:
        records.branch_named(world.ledger.state, "auth")
    assert refused.value.hint.startswith("there is: auth.14, auth.13, ")
    assert refused.value.hint.endswith(" and 2 more")


@pytest.mark.parametrize(
    ("met", "tip", "said"),
    [
        (("oauth",), ("oauth", "docs"), "covered: oauth holds on auth-branch at"),
        (("oauth", "docs"), ("oauth", "docs"), "covered: oauth, docs hold on auth-branch at"),
        (("oauth",), ("docs",), ""),
        (("oauth", "docs"), ("oauth",), ""),
        ((), (), "covered: it meets no criterion"),
    ],
)
def test_a_candidate_is_covered_by_a_tip_that_has_all_it_meets(
    met: tuple[str, ...], tip: tuple[str, ...], said: str
) -> None:
    story = at_lock(met=met, tip=tip)
    why = judge.covered(story.basin(), story.state.branches["auth.1"])
    assert bool(why) == bool(said)
    assert why.startswith(said)


IDS = st.frozensets(st.sampled_from(["t1", "t2", "t3"])).map(lambda ids: tuple(sorted(ids)))
ANSWERS = st.fixed_dictionaries(
    {name: st.tuples(st.sampled_from(["yes", "no", "error", "unstable"]), IDS) for name in ("oauth", "docs")}
)


@settings(deadline=None)
@given(ANSWERS, ANSWERS)
def test_what_is_covered_gains_nothing(
    own: dict[str, tuple[str, tuple[str, ...]]], tip: dict[str, tuple[str, tuple[str, ...]]]
) -> None:
    def evidence(answers: dict[str, tuple[str, tuple[str, ...]]]) -> tuple[Evidence, ...]:
        return tuple(
            Evidence(criterion=name, met=met, tree=sha("t"), passed=ids)  # type: ignore[arg-type]
            for name, (met, ids) in answers.items()
        )

    story = at_lock()
    held = {x.criterion: x for x in evidence(tip)}
    assert story.basin().tip is not None
    basin = replace(story.basin(), tip=replace(story.basin().tip, results=held))
    branch: Branch = replace(story.state.branches["auth.1"], evidence=evidence(own))
    if judge.covered(basin, branch):
        assert gained(basin.criteria, held, {x.criterion: x for x in branch.evidence}) == ()


def test_a_candidate_whose_commits_are_gone_is_failed_once_and_nothing_raises(world: World) -> None:
    subprocess.run(["git", "branch", "auth-branch"], cwd=world.git.root, check=True)
    tip, story = world.git.resolve("HEAD"), at_lock()
    assert tip is not None
    story.tell(
        e.BasinChecked(basin="auth", head=tip, tree=world.git.tree_of(tip), results=story.answers("auth", (), ""))
    )
    state = told(world, story).ledger.state
    [gone] = differences(world, state, state.basins["auth"])
    assert (gone.branch, gone.was, gone.to, gone.observed) == ("auth.1", "candidate", "failed", GONE)
    world.ledger.append(gone, writer="recovery")
    state = world.ledger.state
    assert (state.branches["auth.1"].phase, state.basins["auth"].queue) == (Phase.FAILED, ())
    assert list(differences(world, state, state.basins["auth"])) == []


# --- the end of a pursuit --------------------------------------------------------------------------------------------


def test_a_pursuit_is_killed_once(world: World) -> None:
    told(world, at_lock())
    follows = records.kill(world, world.ledger.state.basins["auth"], reason="another way was found")
    assert "refs/orchconverge/keep/auth.*" in follows
    basin = world.ledger.state.basins["auth"]
    assert (basin.phase, basin.note) == ("killed", "another way was found")
    with pytest.raises(Refused, match="auth is killed: only an open basin is killed"):
        records.kill(world, basin, reason="again")


def test_a_harvest_keeps_what_the_branches_left_and_its_questions_are_open(world: World) -> None:
    told(world, at_lock())
    records.ask(world.ledger, "why?", basin="auth", blocks=None)
    records.harvest(
        world,
        world.ledger.state.basins["auth"],
        residue=["it is hard", "left by auth.1"],
        frontier=["why?", "how?", "how?"],
        decided_by=ANN,
    )
    basin = world.ledger.state.basins["auth"]
    assert basin.harvested
    assert [r.text for r in basin.residue] == ["left by auth.1", "it is hard"]
    assert [(q.question, q.basin) for q in world.ledger.state.frontier.values()] == [("why?", "auth"), ("how?", "auth")]


def test_what_is_still_pursued_is_not_harvested_and_asks_nothing(world: World) -> None:
    told(world, Story().declare().start().begin())
    with pytest.raises(Refused, match="auth is still pursued"):
        records.harvest(world, world.ledger.state.basins["auth"], residue=["x"], frontier=["why?"], decided_by=ANN)
    assert world.ledger.state.frontier == {}


# --- open questions --------------------------------------------------------------------------------------------------


def test_a_question_is_found_by_its_text_or_its_number(world: World) -> None:
    told(world, Story().declare())
    for question in ("why?", "2", "how?"):
        records.ask(world.ledger, question, basin=None, blocks="auth")
    state = world.ledger.state
    assert records.question_named(state, "1").question == "why?"
    assert records.question_named(state, "2").question == "2"
    assert records.question_named(state, "3").question == "how?"
    assert records.question_named(state, "how?").blocks == "auth"
    for text in ("0", "4", "-1", "who?"):
        with pytest.raises(Refused, match="no open question") as refused:
            records.question_named(state, text)
        assert "1 to 3" in refused.value.hint


def test_a_question_is_asked_once_and_of_what_there_is(world: World) -> None:
    records.ask(world.ledger, "why?", basin=None, blocks=None)
    for question, basin, says in (("why?", None, "open already"), ("how?", "auth", "no destination is called auth")):
        with pytest.raises(Refused, match=says):
            records.ask(world.ledger, question, basin=basin, blocks=None)
    assert list(world.ledger.state.frontier) == ["why?"]


def test_text_that_is_no_utf8_is_stored_with_a_replacement(world: World) -> None:
    records.ask(world.ledger, "caf\udce9?", basin=None, blocks=None)
    assert list(world.ledger.state.frontier) == ["caf\ufffd?"]
