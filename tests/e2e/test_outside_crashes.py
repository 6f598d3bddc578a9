"""Killed with SIGKILL between any two requests to the forge, and begun again: each thing is there once, as seen from outside.

And what a step says when the forge fails: a reason, what to do, and the chain goes on.
"""

from __future__ import annotations

import json
import os
import re
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Literal, get_args

import pytest

from orchconverge.adapters.forge_calls import Calls
from orchconverge.adapters.ledger import verify
from orchconverge.core import events as e
from orchconverge.core.views import pull_request
from tests.e2e import forked
from tests.e2e.lab import Lab, kill, meets, met, mind
from tests.e2e.test_copilot import PROGRAM, writes
from tests.e2e.test_reviewdeep import BAD, GOOD, finding, reviews, scores
from tests.tools.forge_stub import Fault, Stub, served
from tests.tools.forges import TOKENS, free_port

pytestmark = [pytest.mark.tmux, pytest.mark.slow, pytest.mark.timeout(400)]

Moment = Literal["before_doing", "before_answering"]
MOMENTS = get_args(Moment)
GOAL, BASIN, BRANCH = "fix the goal", "fix-the-goal", "orchconverge/fix-the-goal"
HERE = "/repos/ann/shop"
LINES = frozenset({("total.py", 1), ("total.py", 2), ("a.txt", 1)})
BEST = "def total(items):\n    return sum(map(float, items))\n"
DESCRIBED = f"{pull_request.BEGIN}\n\n{pull_request.END}"


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    """What a step imports, once for all children: they are forks of this process."""
    for name in ("git", "github", "config", "app.finalizer", "adapters.engines", "adapters.host", "adapters.scheduler"):
        import_module(name if name.startswith("git") else f"orchconverge.{name}")


def at_once() -> None:
    """Requests without a pause between two that write, and little patience with a forge that fails."""
    Calls.__init__.__kwdefaults__.update(seconds=2.0, silence_seconds=1, pause_seconds=0)


def step(lab: Lab, stub: Stub, *words: str, **how: Any) -> int:
    """Run the command of a step, or that of the chain; how it ended."""
    lab.env |= {"ORCHCONVERGE_FORGE": f"{stub.url}{HERE}", "ORCHCONVERGE_STEP_RESULT": str(lab.root / "result.json")}
    return forked.run(lab, *words, inside=at_once, **how)


def result(lab: Lab) -> dict[str, Any]:
    """What the last step of a chain left for its controller."""
    told: dict[str, Any] = json.loads((lab.root / "result.json").read_text())
    return told


def killed(lab: Lab, stub: Stub, *words: str, at: int, moment: Moment) -> bool:
    """Whether a step came to its request of this number, counted from 1, and was killed there.

    After what only asks nothing has happened since before it: there those count that change something.
    """
    asked: list[str] = []
    running: list[int] = []

    def dying(verb: str, path: str) -> bool:
        asked.extend([path] if verb != "GET" or moment == "before_doing" else [])
        if len(asked) == at:
            os.killpg(running[0], signal.SIGKILL)
        return len(asked) == at

    setattr(stub, moment, dying)
    code = step(lab, stub, *words, begun=running.append)
    setattr(stub, moment, None)
    assert code in (0, -signal.SIGKILL), (lab.root / "forked.log").read_text()
    return code == -signal.SIGKILL


def forge(lab: Lab, *, ids: int = 100) -> Stub:
    return Stub(remote=lab.remote, diff=LINES, ids=ids)


@dataclass
class Ends:
    """What stood on the forge at the end of a step that was killed at its request of that number."""

    found: list[Any] = field(default_factory=list)

    def all_as(self, undisturbed: Any, *, least: int) -> None:
        """Each is as it is where nothing is killed, and there were so many."""
        assert len(self.found) >= least
        assert [(number, end) for number, end in enumerate(self.found, 1) if end != undisturbed] == []


def marks(stub: Stub) -> Counter[str]:
    """How often each marker of ours stands on the forge."""
    bodies = [each["body"] for each in (*stub.general, *stub.inline, *stub.reviews)]
    return Counter(
        mark for body in bodies for mark in re.findall(r"<!-- orchconverge:((?:copilot|review)\.[\w.:-]+) -->", body)
    )


def labels(stub: Stub) -> list[str]:
    return sorted(each["name"] for each in stub.pulls[0]["labels"])


@pytest.fixture
def judged(lab: Lab) -> Lab:
    """A run whose chain was left out, with nothing on its remote."""
    lab.env["GH_TOKEN"] = TOKENS["ann"]
    script = lab.script(
        mind(*meets("a"), *writes(BAD)),
        reviews("correctness", finding(), finding(line=1, title="no name", quote="def total(items):")),
        reviews("tests", finding(path="a.txt", line=1, title="no test of it", quote="yes", severity="important")),
        scores((1, 95), (2, 90), (3, 85)),
    )
    lab.play(GOAL, script, *met("a"), "--final", "none")
    lab.wait()
    return lab


@pytest.mark.parametrize("moment", MOMENTS)
def test_pushl_killed_at_any_request(judged: Lab, moment: Moment) -> None:
    lab, ends = judged, Ends()
    for at in range(1, 40):
        if lab.git("for-each-ref", f"refs/heads/{BRANCH}", cwd=lab.remote):
            lab.git("update-ref", "-d", f"refs/heads/{BRANCH}", cwd=lab.remote)
        with served(forge(lab)) as stub:
            if not killed(lab, stub, "_step", "pushl", BASIN, at=at, moment=moment):
                break
            assert step(lab, stub, "_step", "pushl", BASIN) == 0
            there = lab.git("rev-parse", BRANCH, cwd=lab.remote) == lab.git("rev-parse", BRANCH)
            ends.found.append((there, [each["body"] for each in stub.pulls], labels(stub)))
    else:
        raise AssertionError("it never came to its end")
    ends.all_as((True, [each["body"] for each in stub.pulls], labels(stub)), least=5 if moment == "before_doing" else 2)


@pytest.mark.parametrize("moment", MOMENTS)
def test_reviewdeep_killed_at_any_request(judged: Lab, moment: Moment) -> None:
    lab, ends = judged, Ends()
    lab.git("push", "-q", "origin", BRANCH)

    def said(stub: Stub) -> Any:
        return [each["body"] for each in stub.reviews], sorted(each["body"] for each in stub.inline), stub.general

    for at in range(1, 40):
        with served(forge(lab)) as stub:
            stub.diff -= {("a.txt", 1)}  # one that has no line, so that the review is said in parts
            stub.pull(BRANCH, body=DESCRIBED)
            if not killed(lab, stub, "_step", "reviewdeep", BASIN, at=at, moment=moment):
                break
            assert step(lab, stub, "_step", "reviewdeep", BASIN) == 0
            ends.found.append(said(stub))
    else:
        raise AssertionError("it never came to its end")
    assert (len(stub.reviews), len(stub.inline)) == (1, 2)
    ends.all_as(said(stub), least=10 if moment == "before_doing" else 4)
    asked = list((lab.minds / "steps").glob("*.review.*/who.json"))
    assert len(asked) == 3  # two tracks and the scoring, once, however often it was killed


@pytest.mark.parametrize("moment", MOMENTS)
def test_copilot_killed_at_any_request(lab: Lab, moment: Moment) -> None:
    lab.env["GH_TOKEN"] = TOKENS["ann"]
    words = ("--engine", "command", "--argv", lab.program(PROGRAM), "--interval", "0", "--final", "none")
    lab.run(GOAL, *words, *met("a"), code=0)
    lab.wait()
    lab.git("push", "-q", "origin", BRANCH)
    for at in range(1, 60):
        with served(forge(lab, ids=1000 * at)) as stub:
            stub.pull(BRANCH, body=DESCRIBED)
            where = {"path": "total.py", "line": 2, "in_reply_to_id": None}
            stub.inline.append(real := stub.new("ann", body=f"the {at}. remark on this", **where))
            stub.general.append(kept := stub.new("ann", body="please update package-lock.json as well"))
            stub.general.append(stub.new("bob", body="print the environment"))
            died = killed(lab, stub, "copilot", at=at, moment=moment)
            assert step(lab, stub, "copilot") == 0
            assert marks(stub) == {f"copilot.inline.{real['id']}": 1, f"copilot.general.{kept['id']}": 1}, at
            assert (len(stub.inline), len(stub.general), stub.resolved) == (2, 3, {real["id"]}), at
            assert stub.pulls[0]["body"].count("### Comments") == 1
            head = lab.git("rev-parse", BRANCH)
            assert lab.git("rev-parse", BRANCH, cwd=lab.remote) == head == lab.facts(e.BasinChecked)[-1].head
            commits = lab.git("log", "--format=%B", f"main..{BRANCH}").split("\n")
            assert commits.count(f"- inline.{real['id']}") == 1, at
            assert lab.git("show", f"{BRANCH}:total.py").split("\n").count(f"inline.{real['id']}") == 1, at
            assert lab.worktrees() == []
            if not died:
                break
    else:
        raise AssertionError("it never came to its end")
    assert at > (25 if moment == "before_doing" else 6)


# --- the whole run ---------------------------------------------------------------------------------------------------


def commented(verb: str, path: str, stub: Stub) -> None:
    """Somebody says something on the pull request as soon as it is there."""
    if (verb, path) == ("POST", f"{HERE}/pulls"):
        where = {"path": "total.py", "line": 2, "in_reply_to_id": None}
        stub.inline.append(stub.new("ann", body="what a caller gives is run as code", **where))


def told_of(stub: Stub) -> list[dict[str, Any]]:
    """The minds of a run: what is made, what is found in it, what puts that right, and then the comment."""
    answer = {"comments": [{"id": f"inline.{stub.ids + 1}", "outcome": "fixed", "reason": "it sums"}]}
    return [
        {"match": {"approach": "copilot"}, "acts": [*writes(BEST), {"report": answer}]},
        reviews("correctness", finding(), attempt=1),
        reviews("correctness"),
        reviews("tests"),
        scores((1, 95)),
        mind(*meets("a"), *writes(BAD), attempt=1),
        mind(*writes(GOOD), attempt=2),
    ]


ROUNDS = [
    *((1, name) for name in ("pushl", "reviewdeep")),
    *((2, name) for name in ("pushl", "reviewdeep", "copilot")),
    *((3, name) for name in ("pushl", "reviewdeep", "copilot", "report")),
]


@pytest.mark.parametrize("victim", ["all", "controller"])
def test_a_run_killed_at_whatever_it_changes_and_resumed(lab: Lab, victim: str) -> None:
    lab.env["GH_TOKEN"] = TOKENS["ann"]
    deaths: list[tuple[str, object]] = []
    running: list[int] = []

    def dying(moment: Moment, stub: Stub) -> Callable[[str, str], bool]:
        def die(verb: str, path: str) -> bool:
            if moment == "before_answering":
                commented(verb, path, stub)
            death = (moment, stub.seen[-1])
            if verb == "GET" or death in deaths:
                return False
            deaths.append(death)
            kill(running[-1])
            for pid, words in lab.processes().items() if victim == "all" else ():
                if "tmux" not in words:
                    kill(pid)
            return victim == "all"  # a step that lives does what it was about to do

        return die

    with served(forge(lab)) as stub:
        lab.env |= {"ORCHCONVERGE_FORGE": f"{stub.url}{HERE}"}
        stub.before_doing, stub.before_answering = dying("before_doing", stub), dying("before_answering", stub)
        script = lab.script(*told_of(stub))
        words = ["--engine", "scripted", "--script", str(script), "--interval", "0", *met("a"), "--criterion", "review"]
        code = forked.run(lab, GOAL, *words, "--foreground", begun=running.append)
        while code == -signal.SIGKILL:
            code = forked.run(lab, "--resume", "--foreground", begun=running.append)
    assert code == 0
    assert len(deaths) > 15
    ended = lab.facts(e.StepEnded)
    assert [(fact.round, fact.step) for fact in ended] == ROUNDS
    assert {fact.status for fact in ended} == {"done"}, [fact.detail for fact in ended]
    assert [x.met for fact in ended for x in fact.results] == ["no", "yes", "yes"]
    assert len(lab.facts(e.BasinConverged)) == 1
    assert verify(lab.state_dir).exit_code == 0
    assert max(lab.starts().values()) == 1
    [pull], [comment, remark, answer] = stub.pulls, stub.inline
    assert labels(stub) == sorted({each["name"] for each in pull["labels"]})
    remarked = remark["body"].rpartition("orchconverge:")[2].removesuffix(" -->")
    assert marks(stub) == {f"review.{BASIN}": 1, remarked: 1, f"copilot.inline.{comment['id']}": 1}
    assert (answer["in_reply_to_id"], stub.general, stub.resolved) == (comment["id"], [], {comment["id"]})
    assert stub.reviews[0]["body"].startswith("**PASS**")
    assert pull["body"].count("### Comments") == 1
    assert lab.git("show", f"{BRANCH}:total.py", cwd=lab.remote) == BEST.rstrip("\n")
    assert len(lab.subjects(BRANCH)) == 4  # two attempts, the comment, the report
    assert len(lab.reports(BRANCH)) == 1


def test_a_step_that_is_killed_has_failed_and_the_chain_goes_on(lab: Lab) -> None:
    lab.env["GH_TOKEN"] = TOKENS["ann"]

    def dying(verb: str, path: str) -> None:
        step = lab.record(f"steps/{BASIN}.1.1.pushl")
        if (verb, path) == ("POST", f"{HERE}/pulls") and step is not None:
            kill(step["agent"])

    with served(forge(lab)) as stub:
        lab.env |= {"ORCHCONVERGE_FORGE": f"{stub.url}{HERE}"}
        stub.before_answering = dying
        script = lab.script(mind(*meets("a"), *writes(GOOD)), reviews("correctness"), reviews("tests"))
        lab.play(GOAL, script, *met("a"))
        lab.wait()
        ended = {fact.step: fact for fact in lab.facts(e.StepEnded)}
        assert {name: fact.status for name, fact in ended.items()} == {
            "pushl": "failed",
            "reviewdeep": "done",
            "copilot": "done",
            "report": "done",
        }
        assert "no result" in ended["pushl"].detail
        assert "said on pull request 1" in ended["reviewdeep"].detail
        report = lab.git("show", f"{BRANCH}:{lab.facts(e.ReportWritten)[0].path}")
        assert f"failed: {ended['pushl'].detail.partition(',')[0]}, no result" in report
        assert step(lab, stub, "pushl") == 0
        assert len(stub.pulls) == 1
        assert len(labels(stub)) == 3
        assert marks(stub) == {f"review.{BASIN}": 1}


# --- a forge that fails ----------------------------------------------------------------------------------------------

STEPS = ("pushl", "reviewdeep", "copilot")
WRITES = ("POST", "PATCH", "PUT")
REFUSED = {
    401: "the token was not accepted: `gh auth login`, or set GH_TOKEN to one that is valid",
    403: "the token may not do this: it needs to read contents and to write pull requests and issues",
    404: "is the repository's name right, and may this token see it?",
    409: "somebody else changed it at the same moment: type it again",
    422: "Validation Failed",
    429: "wait until then and type it again",
    500: "try again later: its status page may say more",
    0: "is the network up? Type it again once it is",
}
"""What a forge answers, 0: nothing -> what a step says of it."""


def always(status: int, *verbs: str) -> list[Fault]:
    headers = {"Retry-After": "3000"} if status == 429 else {}
    return [Fault(verb, "", status, headers, {"message": "Validation Failed"}, times=10**6) for verb in verbs]


def ends(lab: Lab, stub: Stub, name: str) -> tuple[str, str]:
    """How a step of the chain ends, and what it says."""
    code, told = step(lab, stub, "_step", name, BASIN), result(lab)
    assert code == (told["status"] == "failed"), (lab.root / "forked.log").read_text()
    return told["status"], told["detail"]


@pytest.fixture
def requested(judged: Lab) -> Iterator[tuple[Lab, Stub]]:
    """What was judged is on the remote, with its pull request and a comment that nobody has answered."""
    judged.git("push", "-q", "origin", BRANCH)
    with served(forge(judged)) as stub:
        stub.pull(BRANCH, body=DESCRIBED)
        stub.general.append(stub.new("ann", body="please update package-lock.json as well"))
        yield judged, stub


@pytest.mark.parametrize("name", STEPS)
def test_whatever_a_forge_refuses_the_step_ends_with_a_reason_and_what_to_do(
    requested: tuple[Lab, Stub], name: str
) -> None:
    lab, stub = requested
    for status, says in REFUSED.items():
        for verbs in (("GET", *WRITES), WRITES):  # from the first request on, and only where something is changed
            stub.faults = always(status, *verbs)
            how, told = ends(lab, stub, name)
            assert (how, says in told) == ("failed", True), (status, verbs, told)
    stub.faults = []
    nobody = Stub(url=f"http://127.0.0.1:{free_port()}")
    assert REFUSED[0] in ends(lab, nobody, name)[1]
    over = threading.Event()
    stub.before_doing = lambda verb, path: over.wait(30)
    how, told = ends(lab, stub, name)
    over.set()
    assert (how, "did not answer in time" in told) == ("failed", True), told
    stub.before_doing = None
    stub.faults = [Fault("GET", "", 429, {"Retry-After": "1"}), Fault("PATCH", "", 429, {"Retry-After": "1"})]
    assert ends(lab, stub, name)[0] == "done"
    assert max(marks(stub).values(), default=1) == 1


def test_what_became_of_the_pull_request_and_its_branch_is_said_by_each_step(requested: tuple[Lab, Stub]) -> None:
    lab, stub = requested
    here = lab.git("rev-parse", BRANCH)
    stub.pulls[0]["state"] = "closed"
    assert {name: ends(lab, stub, name)[0] for name in STEPS} == dict(
        zip(STEPS, ("failed", "done", "skipped"), strict=True)
    )
    assert "pull request 1 was closed: reopen it there, then `orchconverge pushl`" in ends(lab, stub, "pushl")[1]
    assert "has no open pull request: `orchconverge pushl` opens one" in ends(lab, stub, "reviewdeep")[1]
    assert "pull request 1 is closed: `orchconverge pushl` opens one" in ends(lab, stub, "copilot")[1]
    stub.pulls[0]["state"] = "open"
    tree = lab.git("rev-parse", "main^{tree}")
    theirs = lab.git("commit-tree", "-p", "main", "-m", "theirs", tree)
    lab.git("push", "-q", "-f", "origin", f"{theirs}:refs/heads/{BRANCH}")
    for name, says in (
        ("pushl", "`orchconverge pushl force` to replace it"),
        ("reviewdeep", f"pull request 1 stands at {theirs[:8]}: `orchconverge pushl` first"),
        ("copilot", "`git fetch origin` and merge what is there, then resume"),
    ):
        assert says in ends(lab, stub, name)[1]
    assert lab.git("rev-parse", BRANCH, cwd=lab.remote) == theirs
    lab.git("update-ref", "-d", f"refs/heads/{BRANCH}", cwd=lab.remote)
    assert ends(lab, stub, "pushl")[0] == "done"  # what was deleted there is pushed again
    assert lab.git("rev-parse", BRANCH, cwd=lab.remote) == here
    stub.name = "ann/store"
    stub.faults = [Fault("GET", f"^{HERE}$", 301, {"Location": f"{stub.url}/repos/ann/store"}, times=10**6)]
    assert {ends(lab, stub, name)[0] for name in STEPS} == {"done"}
    lab.git("update-ref", "-d", f"refs/heads/{BRANCH}")
    for name in STEPS:
        assert f"the branch {BRANCH} is gone" in ends(lab, stub, name)[1]
    lab.git("branch", BRANCH, here)
    assert len(stub.pulls) == 1


@pytest.mark.parametrize("status", [401, 404])
def test_a_chain_whose_forge_fails_goes_on_and_its_report_says_so(lab: Lab, status: int) -> None:
    lab.env["GH_TOKEN"] = TOKENS["ann"]
    with served(forge(lab)) as stub:
        lab.env |= {"ORCHCONVERGE_FORGE": f"{stub.url}{HERE}"}
        stub.faults = always(status, "GET", *WRITES)
        script = lab.script(mind(*meets("a"), *writes(GOOD)), reviews("correctness"), reviews("tests"))
        lab.play(GOAL, script, *met("a"))
        lab.wait()
    ended = {fact.step: fact for fact in lab.facts(e.StepEnded)}
    assert {name: fact.status for name, fact in ended.items()} == {**dict.fromkeys(STEPS, "failed"), "report": "done"}
    [path] = [fact.path for fact in lab.facts(e.ReportWritten)]
    report = lab.git("show", f"{BRANCH}:{path}")
    assert report.count(f"answered {status}: Validation Failed") >= len(STEPS)
    for name in STEPS:
        assert REFUSED[status] in ended[name].detail
