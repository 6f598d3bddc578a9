"""A week of one repository: eight pursuits, most of them at once, until Sunday 14:23; what the timeline and graph are seen on."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from orchconverge.core import events as e
from orchconverge.core.needs import Damage
from orchconverge.core.projection import Probes, Projection, project
from orchconverge.core.upcast import encode
from orchconverge.core.values import Residue
from tests.stories import Story, check

MONDAY = datetime(2026, 11, 23, tzinfo=UTC)
GOALS = {
    "auth": ("Users sign in with OAuth and stay signed in", 8, ()),
    "search": ("A search of a million products answers in under 200 ms", 5, ()),
    "fuzzy": ("Misspelt queries find the product", 5, ("search",)),
    "flaky": ("The suite passes fifty times in a row", 5, ()),
    "mfa": ("A second factor can be set up, used and recovered without calling support", 7, ("auth",)),
    "refunds": ("A refund reaches the buyer's account within one day", 6, ()),
    "cache": ("A cold start needs no network", 4, ("search", "refunds")),
    "guide": ("A newcomer deploys from the guide alone", 6, ()),
}


class Week(Story):
    """A story told by the clock; what runs meanwhile counts as active time, unless the machine ``sleeps``."""

    def __init__(self, monday: datetime = MONDAY) -> None:
        super().__init__(at=monday)
        self.monday = monday

    def to(self, day: int, time: str, *, sleeps: bool = False) -> Week:
        """Let the clock come to a time of a day; Monday is 0."""
        at = self.monday + timedelta(days=day, hours=int(time[:2]), minutes=int(time[3:]))
        seconds = (at - self.now).total_seconds()
        assert seconds >= 0
        for basin in self.state.open_runs:
            if not sleeps and basin.run is not None and basin.run.waiting is None:
                self.active[basin.id] = self.active.get(basin.id, 0.0) + seconds
        self.now = at
        return self

    def open(self, name: str, met: int = 0, **settings: Any) -> Week:
        """A pursuit is declared and started; so many of its criteria hold."""
        goal, criteria, parents = GOALS[name]
        names = [check(f"{name}-{number}") for number in range(1, criteria + 1)]
        self.declare(name, goal=goal, criteria=names, parents=parents, target=name, hours=None)
        self.start(name, hours=None, **settings).check(name, met=self.first(name, met))
        return self

    def first(self, name: str, met: int) -> list[str]:
        """The names of the first criteria of a pursuit."""
        return [f"{name}-{number}" for number in range(1, met + 1)]

    def comes(self, branch: str, met: int, *, usd: float | None = 0.5, flags: Sequence[str] = ()) -> Week:
        """A mind ends with a candidate."""
        self.ended(branch, usd=usd)
        self.candidate(branch, met=self.first(branch.split(".")[0], met), flags=flags, residue=[f"learned by {branch}"])
        return self

    def takes(self, branch: str, met: int) -> Week:
        """A candidate is grafted and the attempt is over."""
        name = branch.split(".")[0]
        self.graft(branch, met=self.first(name, met), decided_by="auto: at least one criterion gained")
        return self.over(name, met)

    def over(self, name: str, met: int, **how: Any) -> Week:
        """The attempt is over; so many criteria hold on the target."""
        self.judge(name, met=self.first(name, met), **how)
        return self

    def turn_down(self, branch: str, reason: str) -> Week:
        """A person prunes a candidate."""
        fact = e.BranchPruned(basin=branch.split(".")[0], branch=branch, reason=reason, decidedBy="person: ana, tty")
        self.tell(fact, writer="cli")
        return self


def shop(monday: datetime = MONDAY) -> Week:
    """The whole week."""
    week = Week(monday)
    week.to(0, "08:50").open("auth", met=2, lock="person", minds=2)
    week.begin("auth", minds=2)
    week.to(0, "15:10").comes("auth.1", 5)
    week.to(1, "09:40").comes("auth.2", 7).over("auth", 2, result="no_progress", decision="WAITING")
    week.stop("waiting", "2 candidates wait at the lock", basin="auth")
    week.to(1, "13:05").open("search", met=1).begin("search")
    week.to(1, "17:30").comes("search.1", 2).takes("search.1", 2)
    week.to(1, "17:45").tell(e.RunStopRequested(basin="search"), writer="cli").stop("stopped", basin="search")
    week.to(2, "10:20").graft("auth.2", met=week.first("auth", 7), decided_by="person: ana, tty")
    week.to(2, "11:00").start("search", hours=None).check("search", met=week.first("search", 2)).begin("search")
    week.to(2, "12:10").open("fuzzy").begin("fuzzy")
    week.to(2, "15:00").comes("search.2", 3).takes("search.2", 3)
    week.tell(e.RunStopRequested(basin="search"), writer="cli").stop("stopped", basin="search")
    week.to(2, "17:20").comes("fuzzy.1", 2).over("fuzzy", 0, result="no_progress", text="rewrites the tokenizer")
    week.to(3, "09:05").turn_down("auth.1", "lost to .2, tokens kept in plain text")
    week.start("auth", hours=None).check("auth", met=week.first("auth", 7)).begin("auth")
    week.to(3, "10:30").comes("auth.3", 8).takes("auth.3", 8).step("pushl", "created", basin="auth", seconds=60)
    week.tell(e.BasinConverged(basin="auth"))
    residue = (Residue(text="malformed input is refused at the door"), Residue(text="tokens are rotated"))
    week.tell(e.FrontierAdded(question="Do sessions expire?", origin="auth.3", basin="auth"))
    week.tell(e.BasinHarvested(basin="auth", residue=residue, decidedBy="auto", frontier=("Do sessions expire?",)))
    week.tell(e.SessionClosed(session="session-auth", basin="auth", reason="met")).stop("converged", basin="auth")
    week.to(3, "11:00").turn_down("fuzzy.1", "rewrites the tokenizer").begin("fuzzy")
    week.to(3, "14:05").ended("fuzzy.2").failed("fuzzy.2", "committed nothing")
    week.over("fuzzy", 2, result="no_progress", decision="STALLED", text="flat for 2 attempts")
    week.stop("stalled", "2 attempts without progress and no rung left", basin="fuzzy")
    week.to(3, "14:10").open("flaky", met=3).begin("flaky")
    week.to(4, "08:30", sleeps=True).comes("flaky.1", 4).takes("flaky.1", 4)
    week.tell(e.RunStopRequested(basin="flaky"), writer="cli").stop("stopped", basin="flaky")
    week.to(4, "09:00").open("refunds", met=3).begin("refunds")
    week.to(4, "10:00").ended("refunds.1").failed("refunds.1", "committed nothing")
    week.over("refunds", 3, result="no_progress", text="missing the ledger")
    week.tell(e.RunStopRequested(basin="refunds"), writer="cli").stop("stopped", basin="refunds")
    week.to(4, "14:00").open("mfa", met=1, lock="person", minds=3).begin("mfa")
    week.to(4, "17:00").comes("mfa.1", 2).takes("mfa.1", 2)
    week.tell(e.RunStopRequested(basin="mfa"), writer="cli").stop("stopped", basin="mfa")
    week.to(6, "09:30").start("mfa", hours=None, lock="person", minds=3).check("mfa", met=week.first("mfa", 2))
    week.begin("mfa", minds=3)
    week.to(6, "09:50").start("refunds", hours=None).check("refunds", met=week.first("refunds", 3)).begin("refunds")
    week.to(6, "10:05").start("search", hours=None).check("search", met=week.first("search", 3)).begin("search")
    week.to(6, "10:10").open("cache", met=1).begin("cache")
    week.to(6, "11:20").comes("refunds.2", 4).takes("refunds.2", 4).begin("refunds")
    week.to(6, "12:00").open("guide", met=4).begin("guide")
    week.to(6, "12:30").ended("cache.1").failed("cache.1", "committed nothing")
    week.over("cache", 1, result="no_progress", decision="STALLED", text="flat for 3 attempts")
    week.begin("cache", engine="codex", approach="library first")
    week.to(6, "13:00").comes("search.3", 3)
    week.tell(e.BasinKilled(basin="fuzzy", reason="index nine times the memory budget"), writer="cli")
    week.to(6, "13:10").over("search", 3, result="no_progress", text="missing p99").begin("search")
    week.to(6, "13:20").comes("guide.1", 5).takes("guide.1", 5)
    week.park("quota", "claude has no quota until 15:40", basin="guide", until=week.now + timedelta(minutes=140))
    week.to(6, "13:30").ended("refunds.3").failed(
        "refunds.3", "no sandbox payment key", verdict="no sandbox payment key"
    )
    week.over("refunds", 4, result="verdict", decision="BLOCKED", text="no sandbox payment key")
    week.stop("waiting", "no sandbox payment key", basin="refunds")
    for number, met in ((2, 5), (3, 6), (4, 4)):
        week.comes(f"mfa.{number}", met, flags=("lockfile: uv.lock",) if number == 3 else ())
    week.to(6, "14:09").over("mfa", 2, result="no_progress", decision="WAITING")
    week.stop("waiting", "3 candidates wait at the lock", basin="mfa")
    return week.to(6, "14:23")


def seen(story: Story) -> Projection:
    """A story as it is shown at its own end, by a machine on which every open run has its controller."""
    held = {basin.id: True for basin in story.state.open_runs}
    probes = Probes(
        leases=held, ledger=Damage(lines=story.seq), seq=story.seq, newest=story.facts[-1].at if story.facts else None
    )
    return project(story.state, probes=probes, now=story.now)


def lay(story: Story, state_dir: Path) -> None:
    """Write a story down as the ledger of a repository."""
    state_dir.mkdir(mode=0o700)
    ledger = state_dir / "ledger.jsonl"
    ledger.touch(0o600)
    ledger.write_bytes(b"".join(map(encode, story.facts)))
