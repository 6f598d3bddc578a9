"""The pursuits of a ledger: what each came from, whether it is open, and in which engine contexts it went on."""

from __future__ import annotations

from msgspec.structs import replace

from orchconverge.core import events as e
from orchconverge.core.actions import Append
from orchconverge.core.policy import decide
from orchconverge.core.seen import Now, Seen
from orchconverge.core.values import Process
from orchconverge.core.views.sessions import MOST_CONTEXTS, sessions, text
from tests.stories import Story, sha


def context(story: Story, engine: str, id: str, why: str) -> Story:
    return story.tell(e.SessionContext(session="session-auth", engine=engine, engineSession=id, why=why))


def mind(story: Story, *, engine: str = "claude", lost: bool = False, place: str = "here") -> Story:
    """An attempt of one mind that ends with nothing; ``lost``: its engine did not know the context."""
    number = story.basin().attempts + 1
    story.tell(e.AttemptStarted(basin="auth", attempt=number, strategy="continue", why="w", engine=engine))
    story.tell(e.BasinOpened(basin="auth", wave=number))
    branch = f"auth.{story.basin().branches + 1}"
    spawned = e.BranchSpawned(
        basin="auth",
        branch=branch,
        approach="a",
        gitBranch="auth-branch",
        worktree="/w",
        base=sha("b"),
        engine=engine,
        place=place,  # type: ignore[arg-type]
    )
    story.tell(spawned)
    process = Process(boot="b", pid=8, start=2)
    story.tell(e.BranchSearching(basin="auth", branch=branch, session="", process=process))
    story.tell(
        e.BranchEnded(
            basin="auth",
            branch=branch,
            reason="exited",
            seconds=1.0,
            head=sha("b"),
            context="lost" if lost else "shown",
        )
    )
    return story.failed(branch, "nothing").judge(result="no_progress")


def in_place() -> Story:
    return Story().declare().start(place="here").check()


def test_a_context_goes_on_through_attempts_until_a_fresh_one_is_chosen() -> None:
    story = context(in_place(), "claude", "one", "the first of this engine")
    mind(mind(story))
    mind(context(story, "claude", "two", "a fresh context: 3 attempts without gain"))
    [session] = sessions(story.facts)
    assert session.attempts == 3
    assert [(c.id, c.attempts, c.state) for c in session.contexts] == [
        ("one", [1, 2], "replaced"),
        ("two", [3], "current"),
    ]
    assert session.contexts[1].why == "a fresh context: 3 attempts without gain"


def test_a_context_that_its_engine_did_not_know_is_lost() -> None:
    story = mind(context(in_place(), "claude", "one", "the first of this engine"), lost=True)
    mind(context(story, "claude", "two", "the engine did not know the last one"))
    assert [c.state for c in sessions(story.facts)[0].contexts] == ["lost", "current"]


def test_each_engine_has_a_context_of_its_own() -> None:
    story = mind(context(in_place(), "claude", "one", "first"))
    mind(context(story, "gemini", "two", "first"), engine="gemini")
    mind(story)
    assert [(c.engine, c.attempts, c.state) for c in sessions(story.facts)[0].contexts] == [
        ("claude", [1, 3], "current"),
        ("gemini", [2], "current"),
    ]


def test_minds_in_worktrees_begin_from_the_brief() -> None:
    story = mind(context(in_place(), "claude", "one", "first"), place="fresh")
    assert sessions(story.facts)[0].contexts[0].attempts == []
    assert "every mind starts from the brief" in text(
        sessions(mind(Story().declare().start().check()).facts), story.now
    )


def test_open_and_closed_and_opened_again_with_the_reason() -> None:
    story = in_place()
    assert (sessions(story.facts)[0].open, sessions(story.facts)[0].reason) == (True, None)
    story.wait(60.0).tell(e.SessionClosed(session="session-auth", basin="auth", reason="abandoned"))
    [closed] = sessions(story.facts)
    assert (closed.open, closed.reason, closed.closed) == (False, "abandoned", story.now)
    story.wait(60.0).tell(e.SessionOpened(session="session-auth", basin="auth", tmux="again"))
    [again] = sessions(story.facts)
    assert (again.open, again.reason, again.opened, again.tmux) == (True, None, 2, "again")


def test_newest_first_with_what_it_came_from() -> None:
    story = in_place()
    story.declare("checkout", target="x", parents=("auth",)).start("checkout", tmux="t")
    story.tell(e.SessionClosed(session="session-auth", basin="auth", reason="met"))
    found = sessions(story.facts)
    assert [(one.basin, one.parents, one.forks) for one in found] == [
        ("checkout", ["auth"], []),
        ("auth", [], ["checkout"]),
    ]
    said = text(found, story.now).split("\n")
    assert said[0] == "checkout  continuing since 14:00  0 attempts, forked from auth"
    assert said[2] == "auth  closed: met  0 attempts, forked into checkout"


def test_a_session_is_opened_with_the_sessions_of_the_pursuits_that_it_starts_from() -> None:
    story = Story().declare("auth").start().declare("never-run", target="y")
    story.declare("checkout", target="x", parents=("auth", "never-run")).start("checkout", tmux="t")
    story.tell(e.SessionClosed(session="session-checkout", basin="checkout", reason="abandoned"))
    [action] = decide(
        story.state, Seen(basin="checkout", random="1f", trees="/trees"), Now(active=0.0, mono=0.0, wall=story.now)
    )
    assert isinstance(action, Append)
    assert action.fact == e.SessionOpened(
        session="session-checkout", basin="checkout", tmux="t", parents=("session-auth",)
    )


def test_a_fork_before_its_parent_was_opened_is_known_by_its_declaration_alone() -> None:
    story = Story().declare("auth").declare("checkout", target="x", parents=("auth",)).start("checkout", tmux="t")
    assert [(one.basin, one.parents) for one in sessions(story.facts)] == [("checkout", ["auth"])]
    [*_, opened] = [fact for fact in story.facts if isinstance(fact, e.SessionOpened)]
    undeclared = [replace(fact, parents=()) if isinstance(fact, e.BasinDeclared) else fact for fact in story.facts]
    undeclared[undeclared.index(opened)] = replace(opened, parents=("session-lost",))
    assert sessions(undeclared)[0].parents == ["session-lost"]


def test_what_is_said_of_a_session() -> None:
    story = mind(mind(context(in_place(), "claude", "one", "the first of this engine")))
    story.tell(e.SessionClosed(session="session-auth", basin="auth", reason="met"))
    assert text(sessions(story.facts), story.now) == (
        "auth  closed: met  2 attempts\n  claude  continues  attempts 1 to 2  fresh: the first of this engine"
    )
    assert text([], story.now) == "No session yet. A run opens one."


def test_contexts_beyond_the_most_are_counted() -> None:
    story = in_place()
    for number in range(MOST_CONTEXTS + 3):
        context(story, "claude", str(number), "again")
    [session] = sessions(story.facts)
    assert (len(session.contexts), session.left_out, session.contexts[-1].id) == (MOST_CONTEXTS, 3, "52")
    assert "3 older contexts not shown" in text([session], story.now)
