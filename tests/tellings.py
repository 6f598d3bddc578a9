"""Named runs, each told to where something is worth looking at: what every view is tested on."""

from __future__ import annotations

from datetime import timedelta

from orchconverge.core import events as e
from orchconverge.core.target import Criterion
from orchconverge.core.values import WaitFor
from tests.stories import AUTH, START, Story, check, sha

MET = ("oauth", "refresh", "login", "logout", "expiry", "tests")


def seeds_example() -> Story:
    """The run of the seed's status block: attempt 4 of 10 judged, 2m 37s of the interval left, at 14:23:07."""
    story = Story(at=START - timedelta(hours=1) + timedelta(seconds=7)).declare()
    story.start(interval=637.0, place="here").check(met=MET[:2], head="target")
    story.attempt(met=MET[:3], text="fixed login, missing logout, expiry, tests", seconds=1500.0)
    story.attempt(met=MET[:3], result="no_progress", text="missing logout, expiry, tests", seconds=1500.0)
    story.attempt(met=MET[:5], text="fixed logout, expiry, missing tests, docs, malformed", seconds=1500.0)
    return story.attempt(met=MET, text="fixed tests, missing docs", seconds=480.0)


def converged() -> Story:
    """A whole run: five attempts, a quota wait, a prune, a graft, a part taken, the final chain."""
    names = ("enrol", "verify", "recovery", "malformed", "types", "tests", "docs")
    criteria = (
        *(check(name, command=f"pytest -q tests/mfa -k {name}") for name in names[:6]),
        Criterion(name="docs", kind="docs", paths=("docs/mfa.md",)),
        Criterion(name="style", kind="judge", text="is it clear", required=False),
    )
    story = Story()
    story.declare(
        "mfa",
        goal="add a second factor",
        macrostate="A second factor can be set up, used and recovered without calling support.",
        criteria=criteria,
        target="mfa",
    )
    story.start("mfa", usd=12.0, minds=2).check("mfa", met=["types", "tests", "style"], head="3f2c9ab")
    story.attempt("mfa", met=["types", "tests"], result="no_progress", text="missing enrol", seconds=1860.0)
    story.begin("mfa", minds=2, approach="library-first").wait(2460.0, basin="mfa")
    story.ended("mfa.2", seconds=2400.0).ended("mfa.3", seconds=2460.0)
    best = ["enrol", "verify", "recovery", "types", "tests", "docs"]
    story.candidate("mfa.2", met=[*best, "style"], residue=["six-digit parsing belongs in one place"])
    story.candidate("mfa.3", met=["enrol", "malformed", "types", "tests"])
    story.graft("mfa.2", met=[*best, "style"])
    story.tell(
        e.BranchPruned(
            basin="mfa",
            branch="mfa.3",
            reason="covered by .2 but for its malformed-input tests",
            decidedBy="auto: covered",
        )
    )
    story.judge("mfa", met=[*best, "style"], text="fixed enrol, verify, recovery, missing malformed")
    story.park("quota", "claude has no quota until 15:40 UTC. No attempt is charged", basin="mfa")
    story.wait(3300.0).woke("mfa")
    story.begin("mfa", engine="codex", approach="test first").wait(720.0, basin="mfa")
    story.ended("mfa.4", seconds=720.0).failed("mfa.4", "committed nothing, though it ended by itself")
    whole = (*best, "malformed", "style")
    story.tell(
        e.ResidueGrafted(
            basin="mfa",
            branch="mfa.3",
            criterion="malformed",
            paths=("tests/mfa/test_malformed.py",),
            mergeCommit=sha("part"),
            reason="its malformed-input tests are stricter than the winner's",
            evidence=story.answers("mfa", whole, "part"),
            decidedBy="person: ana, tty",
        ),
        writer="cli",
    )
    story.check("mfa", met=whole, head="8be1d07")
    story.judge("mfa", met=whole, result="success", text="fixed malformed", decision="SUCCESS")
    story.tell(
        e.FrontierAdded(question="Do recovery codes expire?", origin="mfa.3", basin="mfa"),
    )
    story.step("pushl", "created, labels feature, size/L", basin="mfa", url="https://example.org/shop/pull/221")
    story.step("reviewdeep", "3 findings, 0 critical", basin="mfa", seconds=250.0)
    story.tell(e.BasinConverged(basin="mfa"))
    story.step("copilot", "3 comments fixed, 0 left to a person", basin="mfa", seconds=362.0)
    story.tell(
        e.BasinHarvested(basin="mfa", residue=story.basin("mfa").residue, frontier=(), decidedBy="auto"),
    )
    return story


def running(minds: int = 1) -> Story:
    """Attempt 2 under way, four minutes old."""
    story = Story().declare().start().check(met=MET[:2])
    story.attempt(met=MET[:3], text="fixed login, missing logout, expiry, tests", seconds=600.0)
    return story.begin(minds=minds).wait(240.0)


def at_lock(*, flagged: bool = False) -> Story:
    """Opened for a person to admit: the wave is over, two candidates wait, nothing runs."""
    story = Story().declare(lock="person").start(lock="person").check(met=MET[:2], head="3f2c9ab")
    story.begin(minds=2).wait(900.0, basin="auth").ended("auth.1", seconds=600.0).ended("auth.2", seconds=900.0)
    flags = ("lockfile: uv.lock", "test removed: tests/test_login.py") if flagged else ()
    story.candidate("auth.1", met=MET, flags=flags).candidate("auth.2", met=("oauth", "docs"))
    story.judge(met=MET[:2], result="no_progress", text="missing login, logout, expiry", decision="WAITING")
    return story.stop("waiting", "2 candidates wait at the lock").wait(600.0)


def parked(reason: WaitFor, text: str, *, minutes: float | None = None) -> Story:
    """Waits after one attempt, for ten minutes by now."""
    story = Story().declare().start().check(met=MET[:2])
    story.attempt(met=MET[:3], text="fixed login, missing logout, expiry, tests")
    until = story.now + timedelta(minutes=minutes) if minutes is not None else None
    return story.park(reason, text, until=until).wait(600.0)


def limited() -> Story:
    """Three of three attempts, the chain ran, the basin is still open."""
    story = Story().declare(attempts=3).start(attempts=3, chain=("pushl", "report")).check(met=MET[:2])
    story.attempt(met=MET[:3], text="fixed login").wait(60.0, basin="auth").attempt(met=MET[:4], text="fixed logout")
    story.attempt(met=MET[:4], result="no_progress", text="missing expiry", decision="ATTEMPT_LIMIT")
    story.step("pushl", "no remote: recorded here").step("report", "written")
    return story.stop("limit", "3 of 3 attempts").wait(7200.0)


def stalled() -> Story:
    """Three attempts without progress and no rung left."""
    story = Story().declare().start(engines=("claude",), stallAfter=1).check(met=MET[:2])
    for _ in range(2):
        story.attempt(met=MET[:2], result="no_progress", text="missing login", decision="STALLED")
    return story.stop("stalled", "2 attempts without progress and no rung left").wait(60.0)


def blocked() -> Story:
    """The same verdict from two approaches."""
    story = Story().declare().start().check(met=MET[:2])
    for decision in ("IN_PROGRESS", "BLOCKED"):
        story.attempt(
            met=MET[:2],
            result="verdict",
            text="no sandbox key",
            verdict="no sandbox key in the environment",
            decision=decision,
        )
    return story.stop("waiting", "no sandbox key in the environment").wait(60.0)


def stopped() -> Story:
    """Asked to stop, and stopped."""
    story = running()
    story.tell(e.RunStopRequested(basin="auth"), writer="cli").wait(1.0)
    return story.ended("auth.2", seconds=241.0, exit=143).stop("stopped").wait(30.0)


def killed() -> Story:
    """Given up after one attempt."""
    story = Story().declare().start().check(met=MET[:2]).attempt(met=MET[:3], text="fixed login")
    story.tell(e.BasinKilled(basin="auth", reason="index is nine times the budget"), writer="cli")
    return story.stop("killed", "index is nine times the budget")


def refused() -> Story:
    """Found at the start to make no sense."""
    said = "everything that is checked holds already"
    story = Story().declare().start().check(met=[c.name for c in AUTH]).stop("refused", said)
    return story.tell(e.BasinKilled(basin="auth", reason=said))


def finalizing() -> Story:
    """All criteria met; the second of four steps runs."""
    story = Story().declare().start().check(met=MET[:2])
    story.attempt(met=[c.name for c in AUTH], result="success", text="fixed all", decision="SUCCESS")
    story.step("pushl", "pull request created", url="https://example.org/shop/pull/7")
    return story.tell(e.StepStarted(basin="auth", round=1, step="reviewdeep", argv=("reviewdeep",))).wait(5.0)
