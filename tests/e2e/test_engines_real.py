"""The real agent CLIs, each with a scripted model on loopback: every way in which a mind can end, through the whole product."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import pytest

from orchconverge.adapters.engines import ENGINES
from orchconverge.core import events as e
from orchconverge.core.seen import Outcome
from orchconverge.core.values import Result
from tests.e2e.lab import Lab, kill, met, mind
from tests.tools.agents import AGENTS, Agent, installed
from tests.tools.scripted_model import (
    TOKENS_IN,
    TOKENS_OUT,
    Act,
    Fail,
    Garbage,
    Hang,
    Model,
    model,
    read,
    run,
    write,
)

F = TypeVar("F")
pytestmark = [pytest.mark.engines, pytest.mark.tmux, pytest.mark.timeout(400)]
NATIVE = tuple(name for name in AGENTS if ":" not in name)
QUICK = ("--interval", "0", "--final", "none")


@pytest.fixture
def agent(request: pytest.FixtureRequest) -> Agent:
    return installed(request.param)


def report_of(prompt: str) -> str:
    """Where the brief says that the report is to be written."""
    told = re.search(r"^ +(/\S+/report\.json)$", prompt, re.MULTILINE)
    assert told, prompt
    return told[1]


def works(agent: Agent, prompt: str) -> Sequence[Act]:
    """Reads, writes, reports, commits; codex tries to, and over ACP it asks to leave its sandbox for that."""
    commit = run("git add -A && git commit -q -m 'a' -m 'Criterion: a'", escalated=agent.name == "acp:codex")
    work = (read("README.md"), read("missing.txt"), write("a.txt", "yes\n"))
    return agent.works(report_of(prompt), *work, commit=commit)


# --- every way to end ------------------------------------------------------------------------------------------------

HALF = "half\n"
AWAY = 7200
"""Seconds until there is quota again."""


def no_quota(agent: Agent) -> Fail:
    """The refusal of its provider, with the time of the reset as that one tells it: 429 and Retry-After say it to no CLI's user."""
    reset = int(time.time()) + AWAY
    said: dict[str, dict[str, object]] = {
        "claude": {"type": "rate_limit_error", "message": f"Claude AI usage limit reached|{reset}"},
        "codex": {"type": "usage_limit_reached", "message": "The usage limit has been reached", "resets_at": reset},
        "gemini": {
            "code": 429,
            "status": "RESOURCE_EXHAUSTED",
            "message": "You exceeded your current quota",
            "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": f"{AWAY}s"}],
        },
    }
    openai = {"code": "rate_limit_exceeded", "message": "Rate limit reached for scripted. Please try again in 2h0m0s."}
    return Fail(429, {"type": "error", "error": said.get(agent.family, openai)}, {"retry-after": str(AWAY)})


KEY = {
    "type": "authentication_error",
    "code": 401,
    "status": "UNAUTHENTICATED",
    "message": "Incorrect API key provided",
}


@dataclass(frozen=True)
class Way:
    """How a mind ends, and how its attempt then has to stand on the ledger. ``reason`` is the branch's, a pattern.

    ``trying``: its CLI may go on trying for ever, so that it gets a deadline of seconds.
    """

    result: Result
    reason: str
    charged: bool = True
    waits: str = ""
    trying: bool = False


WAYS = {
    "hang": Way("failed", "^committed nothing, stopped at its deadline", trying=True),
    "quota": Way("quota", "^committed nothing, NAME has no quota", False, "quota", trying=True),
    "auth": Way("failed", "the engine is not signed in|stopped at its deadline", False, "blocked", trying=True),
    "garbage": Way(
        "failed", "^committed nothing, (exit [1-9]|stopped at its deadline|though it ended by itself: .)", trying=True
    ),
    "killed": Way("failed", "^committed nothing, "),
    "nothing": Way("no_progress", "^committed nothing, though it ended by itself$"),
    "works": Way("success", ""),
}
"""In the order in which they are started: those that last come first."""
QUICK_ONES = ("claude", "codex", "acp:claude", "acp:codex")
DEADLINE, QUICK_DEADLINE = 40.0, 20.0
"""Seconds of one that tries for ever: it has to come to its first try, on a machine that others use too."""
OTHERWISE: dict[tuple[str, str], Result] = {
    ("codex", "killed"): "no_progress",  # what it left is committed for it, as always
    ("aider", "auth"): "no_progress",  # its exit code is 0 whatever happens
    ("acp:codex", "garbage"): "no_progress",  # codex-acp ends its turn as if all was well
}


def basin(way: str) -> str:
    return f"the-case-{way}"


def acts(agent: Agent, way: str, prompt: str) -> Sequence[Act]:
    """What the model does in a way."""
    if way == "works":
        return works(agent, prompt)
    scripts: dict[str, Sequence[Act]] = {
        "hang": (Hang(),),
        "quota": (no_quota(agent),),
        "auth": (Fail(401, {"type": "error", "error": KEY}),),
        "garbage": (Garbage(),),
        "killed": (read("README.md"), write("a.txt", HALF), Hang()),
        "nothing": agent.ended(),
    }
    return scripts[way]


class Story:
    """One run of each way, each at a target of its own; the next one is started as soon as the last one has asked the model."""

    def __init__(self, lab: Lab, agent: Agent, server: Model) -> None:
        self.lab, self.agent, self.server = lab, agent, server
        self.engine = ENGINES[agent.engine](lab.env)

    def start(self, way: str) -> None:
        """One attempt, without its chain."""
        trying = QUICK_DEADLINE if self.agent.name in QUICK_ONES else DEADLINE
        seconds = trying if WAYS[way].trying else 300.0
        once = ("--engine", self.agent.spec, "--max-attempts", "1", *QUICK)
        deadline = {"ORCHCONVERGE_ATTEMPT_MINUTES": str(seconds / 60)}
        self.lab.run(f"the case {way}", *once, *met("a"), env=deadline, code=0)

    def asked(self, way: str) -> list[Act]:
        """What the model answered in a way."""
        return [one.act for one in self.server.asked if f"the case {way}" in "\n".join(one.prompts)]

    def outcome(self, way: str) -> Outcome:
        """What the parser makes of the mind's output."""
        log = self.lab.minds / "minds" / f"{basin(way)}.1" / "log.head"
        return self.engine.read(log.read_bytes() if log.exists() else b"")

    def kill(self) -> None:
        """Kill the mind that wrote half, once it has shown that."""

        def written() -> bool:
            if not any(isinstance(act, Hang) for act in self.asked("killed")):
                return False
            found = self.outcome("killed").acts
            return self.agent.bare or (len(found) == 2 and found[-1].ok is not None)

        self.lab.until(written, seconds=120)
        record = self.lab.record(f"minds/{basin('killed')}.1")
        assert record is not None
        kill(record["agent"])

    def facts(self, kind: type[F], way: str) -> list[F]:
        """The facts of a kind about a way."""
        return [fact for fact in self.lab.facts(kind) if getattr(fact, "basin", None) == basin(way)]

    def failures(self) -> list[tuple[e.BranchEnded, e.BranchFailed]]:
        """How each mind ended that left nothing to admit, and what was said of it."""
        failed = {fact.branch: fact for fact in self.lab.facts(e.BranchFailed)}
        return [(ended, failed[ended.branch]) for ended in self.lab.facts(e.BranchEnded) if ended.branch in failed]

    def settled(self, way: str) -> bool:
        """Whether its run has ended or is parked."""
        return bool(self.facts(e.RunStopped, way) or self.facts(e.RunWaiting, way))


@pytest.mark.parametrize("agent", AGENTS, indirect=True)
def test_each_way_to_end_is_on_the_ledger_for_what_it_was(lab: Lab, agent: Agent) -> None:
    rules = [(f"the case {way}\\b", lambda prompt, way=way: acts(agent, way, prompt)) for way in WAYS]
    with model(rules, bare=agent.bare) as server:
        agent.settle(lab, server.url)
        story = Story(lab, agent, server)
        for way in WAYS:
            story.start(way)
            lab.until(lambda way=way: story.asked(way), seconds=100)
        story.kill()
        lab.until(lambda: all(map(story.settled, WAYS)), seconds=200)
        for way in WAYS:
            ends_as_it_should(story, way)
        for way in ("quota", "auth"):
            lab.run("--stop", basin(way), "--cleanup", code=0)
        lab.until(lambda: not lab.processes(), seconds=60)
    done_as_scripted(story)
    killed_with_what_it_did(story)
    told = [(ended.error, failed.reason) for ended, failed in story.failures()]
    same = (
        agent.name == "acp:opencode"
    )  # of garbage it asks again and again, and tells nothing of that: it is as if it hung
    assert len(set(told)) == len(told) - same > 3, told


def ends_as_it_should(story: Story, way: str) -> None:
    """What the ledger says of a way: of the mind's end, of the branch, of the attempt, and of the run after it."""
    expected, name = WAYS[way], story.agent.name
    [ended], [attempt] = story.facts(e.BranchEnded, way), story.facts(e.AttemptEnded, way)
    said = (way, ended, attempt)
    assert (attempt.result, attempt.charged) == (OTHERWISE.get((name, way), expected.result), expected.charged), said
    assert ended.reason in (("deadline",) if way == "hang" else ("exited", "deadline")[: 1 + expected.trying]), said
    assert (ended.limit is not None, ended.signedOut) == (way == "quota", way == "auth"), said
    assert bool(ended.error) == (way not in ("nothing", "works")), said
    if way != "works" and (name, way) != ("codex", "killed"):
        [failed] = story.facts(e.BranchFailed, way)
        assert re.search(expected.reason.replace("NAME", story.agent.engine), failed.reason), said
    waiting = [(fact.reason, fact.engine) for fact in story.facts(e.RunWaiting, way)]
    stopped = [fact.reason for fact in story.facts(e.RunStopped, way)]
    if expected.waits:
        assert waiting == [(expected.waits, story.agent.engine if way == "quota" else None)], said
    else:
        assert (waiting, stopped) == ([], ["converged" if way == "works" else "limit"]), said
    if way == "quota":
        assert ended.limit is not None
        assert ended.limit.engine == story.agent.engine
        until = ended.limit.until
        assert until is not None, said
        assert abs((until - datetime.now(UTC)).total_seconds() - AWAY) < 200
        assert story.facts(e.RunWaiting, way)[0].until == until


def done_as_scripted(story: Story) -> None:
    """The acts of the one that works are those of its script, in order, with what was observed of each, and so is its cost."""
    name, agent = story.agent.name, story.agent
    [ended], [candidate] = story.facts(e.BranchEnded, "works"), story.facts(e.BranchCandidate, "works")
    assert (ended.exit, ended.error, candidate.commits) == (0, "", 1)
    # Without a report, which aider cannot write, it is the subject of its commit.
    assert candidate.summary == ("a title" if agent.bare else "all done")
    assert story.lab.git("show", f"orchconverge/{basin('works')}:a.txt") == "yes"
    asked = 1 if name == "acp:opencode" else len(story.asked("works"))  # it tells of the last request alone
    assert ended.usage is not None
    used = (ended.usage.inputTokens, ended.usage.outputTokens)
    assert used == (TOKENS_IN * asked, TOKENS_OUT * asked), story.asked("works")
    assert (ended.usage.usd is not None) == (agent.family == "claude")
    found = [
        (act.kind, Path(act.target).name if act.kind != "run" else "", act.ok) for act in story.outcome("works").acts
    ]
    if agent.bare:
        assert found == [("write", "a.txt", True), ("run", "", True)]
        return
    assert found[:4] == [
        ("read", "README.md", True),
        ("read", "missing.txt", False),
        ("write", "a.txt", True),
        ("write", "report.json", True),
    ]
    if name == "codex":  # a command that fails at once is sometimes not in its stream
        assert found[4:] in ([], [("run", "", False)])
    else:
        assert found[4:] == [("run", "", None if agent.family == "gemini" else True)]


def killed_with_what_it_did(story: Story) -> None:
    """What a killed mind had done until then is known, was observed, and is kept."""
    [ended] = story.facts(e.BranchEnded, "killed")
    assert ended.signal == 9
    done = [(act.kind, Path(act.target).name, act.ok) for act in story.outcome("killed").acts]
    assert done == ([] if story.agent.bare else [("read", "README.md", True), ("write", "a.txt", True)])
    if not story.agent.bare:
        said = [failed.reason for _, failed in story.failures() if failed.branch == ended.branch]
        assert all(reason.find("; what it left uncommitted is kept: a.txt") > 0 for reason in said), said
        kept = "" if story.agent.name == "codex" else "-leftovers"  # committed for it
        assert story.lab.git("show", f"refs/orchconverge/keep/{basin('killed')}.1{kept}:a.txt") == HALF.strip()


# --- one after the other, in place -----------------------------------------------------------------------------------

GOAL = "the file says yes"


@pytest.mark.parametrize("agent", NATIVE, indirect=True)
def test_in_place_it_does_nothing_then_converges(lab: Lab, agent: Agent) -> None:
    prompts: list[str] = []

    def played(prompt: str) -> Sequence[Act]:
        if prompt not in prompts:
            prompts.append(prompt)
        return agent.ended() if prompts.index(prompt) == 0 else works(agent, prompt)

    lab.git("switch", "-q", "-c", "topic")
    with model([("- a: not met", played)], bare=agent.bare) as server:
        agent.settle(lab, server.url)
        lab.run(GOAL, "--engine", agent.spec, "--max-attempts", "4", *QUICK, *met("a"), code=0)
        lab.wait(seconds=300)
    assert [fact.result for fact in lab.facts(e.AttemptEnded)] == ["no_progress", "success"]
    assert [fact.error for fact in lab.facts(e.BranchEnded)] == ["", ""]
    assert lab.git("show", "topic:a.txt") == "yes"
    assert lab.git("log", "-1", "--format=%an", "topic") == "A Person"
    assert lab.git("status", "--porcelain") == ""
    assert lab.facts(e.RunStopped)[-1].reason == "converged"
    # Who cannot commit was committed for.
    by_us = "Committed by orchconverge" in lab.git("log", "-1", "--format=%b", "topic")
    assert by_us == (not ENGINES[agent.engine]({}).commits)


@pytest.mark.parametrize("agent", ["codex"], indirect=True)
def test_who_is_not_let_in_leaves_it_to_the_next_of_the_chain(lab: Lab, agent: Agent) -> None:
    script = lab.script(mind({"write": {"path": "a.txt", "text": "yes\n"}}, {"commit": "a"}))
    lab.git("switch", "-q", "-c", "topic")
    with model([("", lambda prompt: (Fail(401, {"type": "error", "error": KEY}),))]) as server:
        agent.settle(lab, server.url)
        lab.run(GOAL, "--engine", f"{agent.spec},scripted", "--script", str(script), *QUICK, *met("a"), code=0)
        lab.wait(seconds=120)
    first, second = lab.facts(e.BranchEnded)
    assert first.signedOut
    assert "401" in first.error
    assert not second.signedOut
    assert [fact.engine for fact in lab.facts(e.BranchSpawned)] == ["codex", "scripted"]
    assert [fact.charged for fact in lab.facts(e.AttemptEnded)] == [False, True]
