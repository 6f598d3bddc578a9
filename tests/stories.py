"""Tells runs as the controller would write them: facts in order, with their envelope, folded as they come.

    story = Story()
    story.declare(criteria=(check("oauth"), check("docs", required=False)))
    story.start(hours=3.0)
    story.check(met=["oauth"])
    story.attempt(met=["oauth", "docs"], result="partial_success", text="fixed docs")
    story.state, story.facts, story.now

Each method moves the clock by what it says; nothing here decides anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha1
from typing import Any

from msgspec.structs import replace

from orchconverge.core import events as e
from orchconverge.core.reducer import Fold
from orchconverge.core.state import Basin, State
from orchconverge.core.strategy import place
from orchconverge.core.target import Budget, Criterion, Sha, Termination
from orchconverge.core.values import (
    Calls,
    ControllerId,
    Decision,
    Evidence,
    Limits,
    Process,
    Residue,
    Result,
    Settings,
    StopReason,
    Usage,
    Verdict,
    WaitFor,
    Writer,
)

NO_CALLS = Calls()
START = datetime(2026, 11, 29, 14, 0, 0, tzinfo=UTC)
SESSION = "convergence-auth-branch-1692441600"
CHECKOUT = "/home/somebody/shop"


def sha(text: str) -> Sha:
    """A commit id, the same for the same text."""
    return Sha(sha1(text.encode(), usedforsecurity=False).hexdigest())


def check(name: str, *, required: bool = True, command: str | None = None) -> Criterion:
    """A criterion with a command."""
    return Criterion(name=name, command=command or f"pytest -q tests/{name}", required=required)


AUTH = (*(check(name) for name in ("oauth", "refresh", "login", "logout", "expiry", "tests", "docs", "malformed")),)


class Story:
    """Facts of one ledger, told one after the other. Several basins may take turns."""

    def __init__(self, at: datetime = START) -> None:
        self.fold = Fold()
        self.facts: list[e.AnyFact] = []
        self.now = at
        self.active: dict[str, float] = {}

    @property
    def state(self) -> State:
        """What it all adds up to."""
        return self.fold.state

    @property
    def seq(self) -> int:
        """The number of the last line."""
        return len(self.facts)

    def basin(self, name: str = "auth") -> Basin:
        """A basin as it stands."""
        return self.state.basins[name]

    def wait(self, seconds: float, *, basin: str | None = None) -> Story:
        """Let time pass; with ``basin`` it counts as that basin's active time."""
        self.now += timedelta(seconds=seconds)
        if basin is not None:
            self.active[basin] = self.active.get(basin, 0.0) + seconds
        return self

    def tell(self, fact: e.AnyFact, *, writer: Writer = "controller") -> Story:
        """Append one fact now. Raises `Illegal` as the fold does."""
        basin = getattr(fact, "basin", None)
        active = self.active.get(basin, 0.0) if basin is not None and writer == "controller" else None
        whole = replace(fact, v=1, seq=self.seq + 1, at=self.now, writer=writer, active=active)
        self.fold.apply(whole)
        self.facts.append(whole)
        return self

    # --- basins and runs ---------------------------------------------------------------------------------------------

    def declare(
        self,
        basin: str = "auth",
        *,
        goal: str = "implement complete authentication system",
        macrostate: str | None = None,
        criteria: Sequence[Criterion] = AUTH,
        attempts: int | None = 10,
        hours: float | None = 3.0,
        budget: Budget = Budget(),  # noqa: B008 - frozen
        target: str = "auth-branch",
        **more: Any,
    ) -> Story:
        """A target is written down."""
        fact = e.BasinDeclared(
            basin=basin,
            title=basin,
            macrostate=macrostate or goal,
            goal=goal,
            criteria=tuple(criteria),
            termination=Termination(attempts=attempts, hours=hours),
            budget=budget,
            target=target,
            **more,
        )
        return self.tell(fact, writer="cli")

    def start(
        self,
        basin: str = "auth",
        *,
        attempts: int | None = 10,
        hours: float | None = 3.0,
        usd: float | None = None,
        tokens: int | None = None,
        tmux: str = SESSION,
        takes_over: str | None = None,
        **settings: Any,
    ) -> Story:
        """A controller takes the basin."""
        settings = {"checkout": CHECKOUT, "place": "fresh", "engines": ("claude", "codex")} | settings
        fact = e.RunStarted(
            basin=basin,
            run=f"run-{self.seq}",
            controller=ControllerId(host="h", boot="b", pid=7, start=1, tmux=tmux),
            settings=Settings(**settings),
            limits=Limits(attempts=attempts, hours=hours, usd=usd, tokens=tokens),
            takesOver=takes_over,
        )
        self.tell(fact)
        if self.basin(basin).session is None:
            self.tell(e.SessionOpened(session=f"session-{basin}", basin=basin, tmux=tmux))
        return self

    def check(self, basin: str = "auth", *, met: Iterable[str] = (), head: str = "") -> Story:
        """The criteria are run on the target's tip."""
        name = head or f"tip{self.seq}"
        return self.tell(
            e.BasinChecked(basin=basin, head=sha(name), tree=sha(f"{name}t"), results=self.answers(basin, met, name))
        )

    def answers(self, basin: str, met: Iterable[str], tree: str) -> tuple[Evidence, ...]:
        """Evidence for every criterion of the loop."""
        held, out = set(met), []
        for number, criterion in enumerate(c for c in self.basin(basin).criteria if c.in_loop):
            good = criterion.name in held
            out.append(
                Evidence(
                    criterion=criterion.name,
                    met="yes" if good else "no",
                    tree=sha(f"{tree}t"),
                    exit=0 if good else 1,
                    seconds=19.0 + number,
                    digest=sha(f"{tree}{criterion.name}d"),
                    excerpt="9 passed" if good else "F.\n2 failed",
                )
            )
        return tuple(out)

    # --- attempts ----------------------------------------------------------------------------------------------------

    def begin(
        self,
        basin: str = "auth",
        *,
        minds: int = 1,
        engine: str = "claude",
        approach: str = "minimal: the smallest change",
        deadline: float = 1800.0,
        searching: bool = True,
        worktree: str = "/home/somebody/.local/share/orchconverge/shop-0a/trees/m-1f",
    ) -> Story:
        """An attempt starts and its minds search."""
        here, run = self.basin(basin), self.basin(basin).running
        assert run is not None
        number = here.attempts + 1
        self.tell(
            e.AttemptStarted(
                basin=basin,
                attempt=number,
                strategy="continue",
                why="another approach",
                engine=engine,
                width=minds,
                deadline=deadline,
            )
        )
        self.tell(e.BasinOpened(basin=basin, wave=number))
        for _ in range(minds):
            branch = f"{basin}.{self.basin(basin).branches + 1}"
            self.tell(
                e.BranchSpawned(
                    basin=basin,
                    branch=branch,
                    approach=approach,
                    gitBranch=f"orchconverge/m-{self.seq}",
                    worktree=worktree,
                    base=sha("base"),
                    engine=engine,
                    place=place(self.basin(basin), run),
                )
            )
            if searching:
                process = Process(boot="b", pid=8, start=2)
                self.tell(e.BranchSearching(basin=basin, branch=branch, session=f"mind-{branch}", process=process))
        return self

    def ended(
        self,
        branch: str,
        *,
        seconds: float = 600.0,
        exit: int = 0,
        usd: float | None = 0.5,
        calls: Calls = NO_CALLS,
    ) -> Story:
        """A mind ends."""
        basin = branch.split(".")[0]
        usage = Usage(inputTokens=30_000, outputTokens=1_000, usd=usd, source="reported")
        return self.tell(
            e.BranchEnded(
                basin=basin,
                branch=branch,
                reason="exited",
                seconds=seconds,
                head=sha(branch),
                exit=exit,
                usage=usage,
                calls=calls,
            )
        )

    def candidate(
        self,
        branch: str,
        *,
        met: Iterable[str] = (),
        flags: Sequence[str] = (),
        residue: Sequence[str] = (),
        **more: Any,
    ) -> Story:
        """A branch is a candidate."""
        basin = branch.split(".")[0]
        return self.tell(
            e.BranchCandidate(
                basin=basin,
                branch=branch,
                head=sha(branch),
                summary=f"what {branch} did",
                evidence=self.answers(basin, met, branch),
                commits=2,
                flags=tuple(flags),
                residue=tuple(Residue(text=text) for text in residue),
                **more,
            )
        )

    def failed(self, branch: str, reason: str, *, verdict: str = "") -> Story:
        """A branch is no candidate."""
        said = Verdict(kind="needs_person", text=verdict) if verdict else None
        return self.tell(e.BranchFailed(basin=branch.split(".")[0], branch=branch, reason=reason, verdict=said))

    def graft(
        self, branch: str, *, met: Iterable[str], decided_by: str = "auto: at least one criterion gained"
    ) -> Story:
        """A candidate is admitted, and the target is checked."""
        basin = branch.split(".")[0]
        evidence = self.answers(basin, met, f"merged{branch}")
        self.tell(
            e.BranchGrafted(
                basin=basin,
                branch=branch,
                mergeCommit=sha(f"merged{branch}"),
                tree=sha(f"merged{branch}t"),
                evidence=evidence,
                decidedBy=decided_by,
            )
        )
        return self.check(basin, met=met, head=f"merged{branch}")

    def judge(
        self,
        basin: str = "auth",
        *,
        met: Iterable[str] = (),
        result: Result = "partial_success",
        text: str = "",
        decision: Decision = "IN_PROGRESS",
        charged: bool = True,
        passes: bool = False,
        work: Mapping[str, Any] = {},
    ) -> Story:
        """The running attempt ends; ``work`` is its record of work convergence."""
        here, held = self.basin(basin), set(met)
        assert here.attempt is not None
        tip = here.tip.head if here.tip is not None else sha("none")
        names = [c.name for c in here.criteria if c.in_loop]
        required = [c.name for c in here.required]
        return self.tell(
            e.AttemptEnded(
                basin=basin,
                attempt=here.attempt.number,
                charged=charged,
                result=result,
                head=tip,
                criteria={name: name in held for name in names},
                evidence=tuple(here.tip.results.values()) if here.tip is not None else (),
                progress=100 * len(held.intersection(required)) // len(required),
                decision=decision,
                text=text,
                workConvergence=dict(work),
                passes=passes,
            )
        )

    def attempt(
        self,
        basin: str = "auth",
        *,
        met: Iterable[str],
        result: Result = "partial_success",
        text: str = "",
        seconds: float = 600.0,
        decision: Decision = "IN_PROGRESS",
        failure: str = "committed nothing, though it ended by itself",
        verdict: str = "",
        passes: bool = False,
        **how: Any,
    ) -> Story:
        """A whole attempt of one mind: grafted if it brought something, else no candidate."""
        held = list(met)
        self.begin(basin, **how)
        branch = f"{basin}.{self.basin(basin).branches}"
        self.wait(seconds, basin=basin).ended(branch, seconds=seconds)
        if result in ("success", "partial_success"):
            self.candidate(branch, met=held, residue=[f"learned by {branch}"]).graft(branch, met=held)
        else:
            self.failed(branch, failure, verdict=verdict)
        return self.judge(basin, met=held, result=result, text=text, decision=decision, passes=passes)

    # --- waiting and the end -----------------------------------------------------------------------------------------

    def park(self, reason: WaitFor, text: str, *, basin: str = "auth", until: datetime | None = None) -> Story:
        """The run waits."""
        engine = "claude" if reason == "quota" else None
        return self.tell(e.RunWaiting(basin=basin, reason=reason, text=text, until=until, engine=engine))

    def woke(self, basin: str = "auth") -> Story:
        """The run goes on."""
        return self.tell(e.RunWoke(basin=basin))

    def step(
        self, name: str, detail: str, *, basin: str = "auth", seconds: float = 9.0, url: str | None = None
    ) -> Story:
        """A step of the final chain."""
        chain = self.basin(basin).chain
        number = chain.round + 1 if chain.stale else chain.round
        self.tell(e.StepStarted(basin=basin, round=number, step=name, argv=(name,)))
        self.wait(seconds, basin=basin)
        return self.tell(e.StepEnded(basin=basin, round=number, step=name, status="done", detail=detail, url=url))

    def stop(self, reason: StopReason, text: str = "", *, basin: str = "auth") -> Story:
        """The run is over."""
        return self.tell(e.RunStopped(basin=basin, reason=reason, text=text))
