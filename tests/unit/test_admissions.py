"""What running minds ask: budgets, what they wrote, who they are, and a controller that takes over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from random import Random
from types import SimpleNamespace

import msgspec
import pytest

from orchconverge.app.admission import Admissions, share_of
from orchconverge.app.world import World, mind_name
from orchconverge.core.admission import Call
from orchconverge.core.seen import Act, Outcome
from orchconverge.core.target import Budget
from orchconverge.core.values import Thresholds, Usage
from orchconverge.ports import Question
from tests.fakes.clock import Time, VirtualClock
from tests.fakes.gate import MemoryGate
from tests.fakes.git import MemoryGit, Store
from tests.fakes.rest import MemoryHost, MemoryJournal, OutcomeEngine
from tests.fakes.supervisors import Machine, MemorySupervisors
from tests.stories import Story, check

ROOT = Path("/repo")
QUICK = Thresholds(targets=2, rereads=1, refusals=2, inside=1)


class Scene:
    """One mind that runs in a tree of its own, and the controllers that come and go beside it."""

    def __init__(self, tmp_path: Path) -> None:
        self.store = Store(ROOT, {"README.md": "hello\n"})
        self.git = MemoryGit(self.store, tmp_path / "trees")
        base = self.git.resolve("HEAD")
        assert base is not None
        self.tree = tmp_path / "trees" / "m"
        self.git.add_worktree(self.tree, branch="orchconverge/m", at=base)
        self.story = Story().declare(criteria=(check("a", command="grep -q yes a.txt"),))
        self.story.start(thresholds=QUICK).check().begin(worktree=str(self.tree))
        self.branch = msgspec.structs.replace(self.story.state.branches["auth.1"], base=base)
        self.time = Time()
        self.machine = Machine(self.time, play=lambda spec: None)  # type: ignore[arg-type,return-value]
        self.journal, self.stopping = MemoryJournal(), 0
        self.controller = self.another()

    def another(self, *, closed: bool = False) -> Admissions:
        """A controller as it is when it starts."""
        self.gate = MemoryGate(closed=closed)
        given = {
            "gate": lambda basin: self.gate,
            "git": self.git,
            "clock": VirtualClock(self.time),
            "supervisors": MemorySupervisors(self.machine, Path("/minds")),
            "journal": self.journal,
            "host": MemoryHost(Random(1)),
            "engines": {"claude": OutcomeEngine("claude")},
            "ledger": SimpleNamespace(state=self.story.state),
            "wakeups": SimpleNamespace(stopping=lambda: self.stopping),
        }
        world = World(**dict.fromkeys(field.name for field in fields(World)) | given)  # type: ignore[arg-type]
        return Admissions(world, "auth")

    def begin(self, asks: str = "hooks") -> str:
        """Start the mind; its token."""
        basin = self.story.basin()
        assert basin.run is not None
        place = self.controller.place(self.branch)
        self.controller.begin(basin, basin.run, self.branch, place, asks, fresh=True)  # type: ignore[arg-type]
        return place.token if place is not None else ""

    def ask(self, token: str, *calls: Call, after: float = 1.0, late: bool = False) -> str | None:
        """The answer to one question, so many seconds after the last one; whether the wait ends is in `news`."""
        self.time.mono += after
        self.gate.asked.append(Question(token=token, id="1", calls=calls, late=late))
        self.news = self.controller.serve()
        return self.gate.answers[-1]

    def log(self, *acts: Act) -> None:
        """The mind's output so far."""
        self.machine.entry(mind_name(self.branch.id)).log = msgspec.json.encode(Outcome(acts=acts))

    def look(self) -> frozenset[str]:
        """What the controller sees a while later."""
        self.time.mono += 3600.0
        return self.controller.look(self.story.basin(), [self.branch])


def reads(*paths: str) -> tuple[Call, ...]:
    return tuple(Call(kind="read", target=path) for path in paths)


def read(path: str, call: int = 0) -> Act:
    return Act(kind="read", target=path, ok=True, call=call)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def denied(scene: Scene, token: str) -> None:
    """Read on until it is denied."""
    for path in ("x", "y", "z", "z", "z"):
        scene.ask(token, *reads(path))


def test_it_is_constrained_then_denied_then_over(scene: Scene) -> None:
    token = scene.begin()
    assert [scene.ask(token, *reads(path)) for path in ("x", "y")] == ["", ""]
    assert "refused after" in (scene.ask(token, *reads("z")) or "")
    assert scene.ask(token, *reads("q"))
    assert "this turn is over" in (scene.ask(token, *reads("q")) or "")
    assert not scene.news, "it may still end by itself"
    assert scene.ask(token, *reads("q"))
    assert not scene.news
    assert scene.ask(token, *reads("q"))
    assert scene.news
    assert scene.look() == {"auth.1"}
    found = scene.controller.ended(scene.branch, Outcome())
    assert (found.how, found.asked, found.refused, found.denied) == ("hooks", 7, 5, True)


def test_a_path_told_twice_in_one_question_is_read_once(scene: Scene) -> None:
    token = scene.begin()
    assert scene.ask(token, *reads("x", f"{scene.tree}/x")) == ""
    assert scene.ask(token, *reads("y", "./y")) == ""


def test_what_it_wrote_is_looked_at_before_the_first_no(scene: Scene) -> None:
    token = scene.begin()
    for path in ("x", "y"):
        scene.ask(token, *reads(path))
    scene.store.places[scene.tree].files["a.txt"] = "yes\n"
    assert scene.ask(token, *reads("z")) == "", "nobody asks before a file is changed; it is seen in the tree"
    scene.ask(token, *reads("q"))
    assert scene.ask(token, *reads("r")), "and counts once"


def test_a_file_that_only_gets_white_space_buys_nothing(scene: Scene) -> None:
    token = scene.begin()
    for path in ("x", "y"):
        scene.ask(token, *reads(path))
    scene.store.places[scene.tree].files["README.md"] = "hello  \n\n"
    assert scene.ask(token, *reads("z"))


def test_who_has_another_token_gets_no_answer(scene: Scene) -> None:
    scene.begin()
    assert scene.ask("another", *reads("x")) is None
    assert scene.ask("", *reads("x")) is None


def test_a_persons_stop_stands_above_it(scene: Scene) -> None:
    token = scene.begin()
    scene.stopping = 1
    assert scene.ask(token, Call(kind="write", target="a.txt")) == "A person stopped this run."


def test_a_controller_that_takes_over_knows_what_was_denied(scene: Scene) -> None:
    token = scene.begin()
    denied(scene, token)
    scene.controller = scene.another()
    assert scene.look() == frozenset()
    assert scene.ask(token, *reads("new")), "denied is denied"
    assert scene.ask(token, *reads("new"))
    assert scene.news
    assert scene.look() == {"auth.1"}


def test_its_token_is_the_same_for_a_start_that_is_made_again(scene: Scene) -> None:
    token = scene.begin()
    scene.controller = scene.another()
    place = scene.controller.place(scene.branch)
    assert place is not None
    assert place.token == token


def test_who_makes_calls_and_does_not_ask_is_read_off_its_output(scene: Scene) -> None:
    scene.begin()
    scene.log(*(read(path, number) for number, path in enumerate(("x", "y", "z", "z", "z", "z"))))
    assert scene.look() == {"auth.1"}, "its reason cannot be told, so it is over at once"
    assert "without asking" in scene.journal.lines[-1]
    found = scene.controller.ended(scene.branch, Outcome())
    assert (found.how, found.denied) == ("lost", True)


def test_the_parts_of_one_line_of_a_shell_are_one_call(scene: Scene) -> None:
    token = scene.begin()
    scene.ask(token, *reads("x", "y"))
    scene.log(read("x", 0), read("y", 0))
    scene.look()
    assert scene.controller.ended(scene.branch, Outcome(acts=(read("x", 0), read("y", 0)))).how == "hooks"


@pytest.mark.parametrize("acts", [(), (read("x"),)])
def test_an_engine_that_never_asks_is_seen_by_its_output_or_not_at_all(scene: Scene, acts: Sequence[Act]) -> None:
    scene.begin(asks="")
    found = scene.controller.ended(scene.branch, Outcome(acts=tuple(acts)))
    assert found.how == ("pane" if acts else "between")
    assert not found.denied


def test_where_nobody_can_listen_it_is_said_once_and_the_mind_starts(scene: Scene) -> None:
    scene.controller = scene.another(closed=True)
    assert scene.controller.place(scene.branch) is None
    assert scene.controller.place(scene.branch) is None
    assert len([line for line in scene.journal.lines if "cannot ask" in line]) == 1


def test_a_mind_whose_end_was_read_is_not_looked_at_again(scene: Scene) -> None:
    scene.begin()
    scene.controller.ended(scene.branch, Outcome())
    scene.look()
    assert scene.controller.due() == float("inf")


def test_who_spends_its_share_of_the_tokens_is_over(scene: Scene) -> None:
    token = scene.begin()
    scene.controller._minds["auth.1"].share = Budget(tokens=100)
    used = Usage(inputTokens=60, cacheReadTokens=41)
    scene.machine.entry(mind_name("auth.1")).log = msgspec.json.encode(Outcome(usage=used))
    assert scene.look() == {"auth.1"}
    assert scene.ask(token, *reads("x")) == ""
    found = scene.controller.ended(scene.branch, Outcome(usage=used))
    assert (found.overspent, found.denied) == (True, False)


def test_the_share_of_a_mind_is_what_is_left_of_the_run_and_never_nothing() -> None:
    story = Story().declare().start(usd=2.0, tokens=1000).check().begin(minds=2)
    basin = story.basin()
    assert basin.run is not None
    assert share_of(basin, basin.run) == Budget(usd=1.0, tokens=500)
    story.ended("auth.1", usd=5.0)
    assert share_of(story.basin(), basin.run) == Budget(usd=0.01, tokens=1)


def test_the_calls_of_one_message_are_one_refusal(scene: Scene) -> None:
    """A model has read nothing of the first no when it makes the eighth call of the same message."""
    token = scene.begin()
    for path in ("x", "y"):
        scene.ask(token, *reads(path))
    assert all(scene.ask(token, *reads(f"p{number}"), after=0.05) for number in range(8))
    assert scene.look() == frozenset()
    found = scene.controller.ended(scene.branch, Outcome())
    assert (found.refused, found.denied) == (8, False)


def test_a_question_of_many_parts_is_one_refusal_and_none_of_them_was_looked_at(scene: Scene) -> None:
    token = scene.begin()
    assert "refused after" in (scene.ask(token, *reads("a", "b", "c", "d", "e")) or "")
    assert scene.ask(token, *reads("a", "b")) == "", "what was refused was not read"


def test_a_no_that_nobody_hears_does_not_count(scene: Scene) -> None:
    token = scene.begin()
    for path in ("x", "y"):
        scene.ask(token, *reads(path))
    assert [scene.ask(token, *reads("z"), late=True) for _ in range(9)] == [None] * 9
    assert "refused after" in (scene.ask(token, *reads("z")) or "")


def test_a_call_that_failed_before_its_hook_makes_no_mind_lost(scene: Scene) -> None:
    token = scene.begin()
    scene.ask(token, *reads("x"))
    failed = Act(kind="write", target="x", ok=False, call=1)
    scene.log(read("x", 0), failed)
    scene.look()
    assert scene.controller.ended(scene.branch, Outcome(acts=(read("x", 0), failed))).how == "hooks"


def test_what_was_asked_is_not_counted_again_when_a_mind_is_lost(scene: Scene) -> None:
    token = scene.begin()
    for path in ("x", "y"):
        scene.ask(token, *reads(path))
    scene.log(read("x", 0), read("y", 1), Act(kind="write", target="a.txt", ok=True, call=2))
    assert scene.look() == frozenset()
    assert not scene.controller.ended(scene.branch, Outcome()).denied


@pytest.mark.parametrize("damaged", [b"{", b"[]", b'{"how": "hooks"}', b'{"token": 7}', b"\xff"])
def test_what_is_kept_of_a_mind_may_be_damaged(scene: Scene, damaged: bytes) -> None:
    scene.begin()
    scene.controller = scene.another()
    scene.machine.entry(mind_name("auth.1")).files["admission.json"] = damaged
    assert scene.look() == frozenset()
    assert scene.controller.ended(scene.branch, Outcome()).how == "between"


def test_who_was_lost_is_lost_to_the_next_controller_too(scene: Scene) -> None:
    scene.begin()
    scene.log(read("x", 0))
    scene.look()
    scene.controller = scene.another()
    scene.log(*(read(path, number) for number, path in enumerate(("x", "y", "z", "z", "z", "z"))))
    scene.look()
    assert scene.look() == {"auth.1"}, "it is known again at the first look and read at the next"
