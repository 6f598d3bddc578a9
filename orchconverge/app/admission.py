"""Admission inside running minds: they ask before their calls, or are read off their output; which of them is over."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from orchconverge.app.world import REPORT, World, given_name, mind_name
from orchconverge.core.admission import Call, Gate, Ruling, before_call, begun
from orchconverge.core.admission_record import record, resumed
from orchconverge.core.convergence import at_start, goal_of, limits_of
from orchconverge.core.fingerprints import Blob
from orchconverge.core.frontiers import Goal, Standing, Wrote
from orchconverge.core.seen import Act, Outcome
from orchconverge.core.state import Basin, Branch, Run
from orchconverge.core.target import Budget
from orchconverge.core.values import Calls, Thresholds, Usage, all_tokens
from orchconverge.errors import Failed, Refused
from orchconverge.ports import Question

LOOK_EVERY = 2.0
"""Seconds between looks at the output of a young mind; later they are a twentieth of its age."""
SHARE = 20
"""What a look took, times this, is the least time to the next one: reading outputs is at most a twentieth of the work."""
MOST_LOG = 16 << 20
FILE = "admission.json"
"""The file of a mind's folder by which a controller that takes over knows it again."""

TOGETHER = 0.5
"""Seconds in which refusals are one: the calls of one message of a model are made before it reads what became of the first."""
LATE = 0.8
"""Seconds after which who asked does not wait any more, or hardly: a no that is not heard must not count."""

Asks = Literal["", "hooks", "acp"]
How = Literal["hooks", "acp", "pane", "lost"]


class _Known(Struct, kw_only=True):
    """What is kept of a mind."""

    token: str
    how: How = "pane"
    asked: int = 0
    refused: int = 0
    more: int = 0
    acts: int = 0
    standing: dict[str, Any] = {}


class Place(NamedTuple):
    """Where a mind asks, and who it is there."""

    path: Path
    token: str

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables that tell what asks for a mind."""
        return {"ORCHCONVERGE_ADMISSION": str(self.path), "ORCHCONVERGE_ADMISSION_TOKEN": self.token}


@dataclass
class _Mind:
    """What is known of a running mind. ``counted``: from its beginning on, by this controller."""

    branch: Branch
    token: str
    goal: Goal
    limits: Thresholds
    standing: Standing
    how: How
    asked: int = 0
    refused: int = 0
    more: int = 0
    """Refused calls after the denial."""
    told: float = -math.inf
    """When a refusal was counted last."""
    share: Budget = field(default_factory=Budget)
    overspent: bool = False
    counted: bool = True
    acts: int = 0
    size: int = -1
    began: float = 0.0
    due: float = 0.0
    """Monotonic: when it was first seen here, and when its output is looked at next."""
    written: tuple[str, ...] = ()
    """The outputs of stages that it closed."""
    files: dict[str, Blob] = field(default_factory=dict)
    """What changed files held at the last look."""

    @property
    def over(self) -> bool:
        """Whether it has spent its share, or was denied to go on and had the chance to end by itself."""
        told = self.how in ("hooks", "acp")
        return self.overspent or (self.standing.denied and (not told or self.more >= self.limits.refusals))


class Admissions:
    """The minds of one basin before admission. What is served while the controller waits is quick and appends nothing."""

    def __init__(self, world: World, basin: str) -> None:
        self.world = world
        self.basin = basin
        self.gate = world.gate(basin)
        self._minds: dict[str, _Mind] = {}
        self._read_out: set[str] = set()
        """Those whose end was read: what they did is all known."""
        self._known: frozenset[str] = frozenset()
        self._said = False

    # --- beginning and end -------------------------------------------------------------------------------------------

    def place(self, branch: Branch) -> Place | None:
        """Where this mind can ask; ``None``, and it is said once, if nobody can listen."""
        try:
            path = self.gate.open()
        except (Failed, OSError) as error:
            if not self._said:
                self.world.journal.say(f"minds cannot ask before their calls: {error}")
            self._said = True
            return None
        known = self._load(branch)
        return Place(path, known.token if known is not None and known.token else self.world.host.random())

    def begin(self, basin: Basin, run: Run, branch: Branch, place: Place | None, asks: Asks, *, fresh: bool) -> None:
        """Remember a mind that is about to start. Safe to call again."""
        standing = at_start(basin, run, fresh=fresh)
        mind = self._mind(basin, run, branch, place.token if place is not None else "", asks or "pane", standing)
        if not fresh:  # the dollars that are told go on over a resumed context
            mind.share = replace(mind.share, usd=None)
        if branch.place == "here":
            with suppress(Failed, Refused, OSError):
                mind.files = {path: now for path, (_, now) in self._contents(mind).items()}
        self._minds[branch.id] = mind
        self._save(mind)

    def ended(self, branch: Branch, outcome: Outcome) -> Calls:
        """How the calls of a mind that is gone met admission, by all of its output."""
        basin = self.world.ledger.state.basins[self.basin]
        mind = self._minds.pop(branch.id, None) or self._again(basin, branch)
        if mind is None:
            return Calls()
        self._read_out.add(branch.id)
        self._compare(mind, outcome.acts)
        made = _completed(outcome.acts)
        silent = mind.how == "pane" and not outcome.acts
        return Calls(
            how="between" if silent else mind.how,
            asked=mind.asked,
            refused=mind.refused,
            unasked=max(0, made - mind.asked) if mind.counted else 0,
            denied=mind.standing.denied,
            overspent=mind.overspent,
        )

    def close(self) -> None:
        """Stop listening."""
        self.gate.close()

    # --- while the controller waits -----------------------------------------------------------------------------------

    def handles(self) -> Sequence[int]:
        """What becomes readable when a mind asks."""
        return self.gate.handles()

    def serve(self) -> bool:
        """Answer what was asked. True if a mind is over by it."""
        self.gate.serve(self._answer)
        news = self._over() - self._known
        self._known |= news
        return bool(news)

    def _answer(self, question: Question) -> str | None:
        """Why a call is refused; empty if it is not, ``None`` if nobody knows who asks."""
        mind = next((one for one in self._minds.values() if one.token and one.token == question.token), None)
        if mind is None:
            return None
        mind.asked += 1
        if question.late:
            return None
        calls = {(one.kind, mind.goal.path(one.target), one.part): one for one in question.calls}  # a path told twice
        before, denied = mind.standing, mind.standing.denied
        for call in calls.values():
            ruling = self._ruled(mind, call)
            if not ruling.allowed:
                mind.refused += 1
                self._refused(mind, before, again=denied)
                with suppress(Failed, Refused, OSError):
                    self._save(mind)
                return ruling.reason
        return ""

    def _refused(self, mind: _Mind, before: Standing, *, again: bool) -> None:
        """Count one refusal, whatever number of parts a call has, and one for the calls of one message."""
        now, after = self.world.clock.monotonic(), mind.standing
        mind.standing = replace(
            after,
            seen=before.seen if after.targets >= before.targets else after.seen,
            targets=min(before.targets, after.targets),
            rereads=min(before.rereads, after.rereads),
            runs=min(before.runs, after.runs),
        )
        if now - mind.told < TOGETHER:
            mind.standing = replace(mind.standing, refusals=before.refusals, denied=before.denied)
            return
        mind.told = now
        mind.more += again

    def _ruled(self, mind: _Mind, call: Call) -> Ruling:
        """Whether a call may run. Before the first no, what the mind changed is looked at: it asks nobody to change a file."""
        gate: Gate = "operator_stop" if self.world.wakeups.stopping() else ""
        ruling = before_call(mind.standing, mind.goal, call, gate=gate, limits=mind.limits)
        if not ruling.allowed and not gate and not mind.standing.denied:
            changed = self._changed(mind)
            if changed is None:  # it cannot be told, or not in time: then nothing is counted
                return Ruling(allowed=True, admission=ruling.admission)
            if changed:
                ruling = self._after(mind, call, changed)
        mind.standing = ruling.admission.standing
        return ruling

    def _after(self, mind: _Mind, call: Call, changed: Sequence[Wrote]) -> Ruling:
        """Whether a call may run once it is known what was written: a stage that closed by it gives way to the next one."""
        ruling = before_call(mind.standing, mind.goal, call, since=changed, limits=mind.limits)
        if mind.goal.stage is None or ruling.admission.state != "satisfied":
            return ruling
        mind.written = (*mind.written, mind.goal.output)
        basin = self.world.ledger.state.basins[self.basin]
        mind.goal = goal_of(basin, root=mind.goal.root, report=mind.goal.report, written=mind.written)
        mind.standing = begun(replace(ruling.admission.standing, satisfied=True), fresh=False)
        return before_call(mind.standing, mind.goal, call, limits=mind.limits)

    def _changed(self, mind: _Mind) -> tuple[Wrote, ...] | None:
        """What a mind wrote since the last look, by its tree as it stands; ``None`` if that cannot be told in time."""
        began = self.world.clock.monotonic()
        try:
            found = self._contents(mind)
        except (Failed, Refused, OSError):
            return None
        if self.world.clock.monotonic() - began > LATE:
            return None
        facts = []
        for path, (before, now) in found.items():
            was = mind.files.get(path, before)
            if was.id != now.id:
                facts.append(Wrote(path=path, ok=True, before=was, after=now))
            mind.files[path] = now
        return tuple(facts)

    def _contents(self, mind: _Mind) -> Mapping[str, tuple[Blob, Blob]]:
        return self.world.git.compare.contents_now(Path(mind.branch.worktree), mind.branch.base)

    # --- between two waits --------------------------------------------------------------------------------------------

    def look(self, basin: Basin, running: Sequence[Branch]) -> frozenset[str]:
        """The running minds that are over. Reads the output of those that do not ask, or did not so far."""
        names = {branch.id for branch in running}
        self._minds = {name: mind for name, mind in self._minds.items() if name in names}
        for branch in running:
            if branch.id in self._read_out:
                continue
            mind = self._minds.get(branch.id) or self._again(basin, branch)
            if mind is None:
                continue
            self._minds[branch.id] = mind
            if not mind.over and self.world.clock.monotonic() >= mind.due:
                self._read(mind)
        self._known = self._over()
        return self._known

    def due(self) -> float:
        """When to look again, monotonic; infinity if there is nothing to look at."""
        return min((mind.due for mind in self._minds.values() if not mind.over), default=math.inf)

    def _over(self) -> frozenset[str]:
        return frozenset(name for name, mind in self._minds.items() if mind.over)

    def _read(self, mind: _Mind) -> None:
        began = self.world.clock.monotonic()
        mind.due = began + LOOK_EVERY
        log = self.world.supervisors.log(mind_name(mind.branch.id), most_bytes=MOST_LOG)
        if len(log) != mind.size:
            mind.size = len(log)
            outcome = self.world.engines[mind.branch.engine].read(log)
            mind.overspent = mind.overspent or _beyond(mind.share, outcome.usage)
            self._compare(mind, outcome.acts)
        took = self.world.clock.monotonic() - began
        mind.due = began + max(LOOK_EVERY, SHARE * took, (began - mind.began) / SHARE)

    def _compare(self, mind: _Mind, acts: Sequence[Act]) -> None:
        """Hold what was made against what was asked; put to admission what nobody asked about."""
        if mind.how in ("hooks", "acp"):
            if not mind.counted or mind.asked >= _completed(acts):
                return
            mind.how = "lost"
            mind.acts = len(acts) if mind.asked else 0  # what was asked is counted already
            engine = mind.branch.engine
            self.world.journal.say(
                f"{mind.branch.id}: {engine} makes calls without asking before; its output is read instead"
            )
            with suppress(Failed, Refused, OSError):
                self._save(mind)
        for act in acts[mind.acts :]:
            if not act.refused and not mind.standing.denied:
                self._ruled(mind, Call(kind=act.kind, target=act.target, part=act.part))
        mind.acts = max(mind.acts, len(acts))

    # --- what outlives a controller -----------------------------------------------------------------------------------

    def _mind(
        self,
        basin: Basin,
        run: Run,
        branch: Branch,
        token: str,
        how: How,
        standing: Standing,
    ) -> _Mind:
        report = self.world.supervisors.folder(given_name(branch)) / REPORT
        goal = goal_of(basin, root=branch.worktree, report=str(report))
        now, limits = self.world.clock.monotonic(), limits_of(run, inside=True)
        share = share_of(basin, run)
        return _Mind(branch, token, goal, limits, standing, how, share=share, began=now, due=now + LOOK_EVERY)

    def _again(self, basin: Basin, branch: Branch) -> _Mind | None:
        """A mind that another controller started."""
        known, run = self._load(branch), basin.run
        if known is None or run is None:
            return None
        mind = self._mind(basin, run, branch, known.token, known.how, resumed(known.standing))
        mind.counted = False
        mind.asked, mind.refused, mind.more, mind.acts = known.asked, known.refused, known.more, known.acts
        with suppress(Failed, Refused, OSError):  # what changed until now is nobody's credit
            mind.files = {path: now for path, (_, now) in self._contents(mind).items()}
        if mind.how != "pane":
            self.place(branch)
        return mind

    def _load(self, branch: Branch) -> _Known | None:
        data = self.world.supervisors.get(mind_name(branch.id), FILE)
        try:
            return msgspec.json.decode(data, type=_Known) if data else None
        except ValueError:  # half of it, or of another version: then it is a mind that nobody knows
            return None

    def _save(self, mind: _Mind) -> None:
        """Keep what a mind was told: written when that changes, not with every call."""
        ruled = before_call(mind.standing, mind.goal, Call(kind="other"), limits=mind.limits).admission
        known = _Known(
            token=mind.token,
            how=mind.how,
            asked=mind.asked,
            refused=mind.refused,
            more=mind.more,
            acts=mind.acts,
            standing=record(ruled, mind.goal),
        )
        self.world.supervisors.put(mind_name(mind.branch.id), FILE, msgspec.json.encode(known))


def share_of(basin: Basin, run: Run) -> Budget:
    """What one mind of the running attempt may spend of what the run has left; never nothing, which would be no limit."""
    width = basin.attempt.width if basin.attempt is not None else 1
    usd, most = run.limits.usd, run.limits.tokens
    return Budget(
        usd=None if usd is None else max(0.01, (usd - (basin.usage.usd or 0.0)) / width),
        tokens=None if most is None else max(1, (most - all_tokens(basin.usage)) // width),
    )


def _beyond(share: Budget, used: Usage | None) -> bool:
    """Whether more was used than the share."""
    if used is None:
        return False
    dear = share.usd is not None and used.usd is not None and used.usd > share.usd
    return dear or (share.tokens is not None and all_tokens(used) > share.tokens)


def _completed(acts: Sequence[Act]) -> int:
    """How many tool calls were made and came off; the parts of a line of a shell are one.

    One that failed may never have come to its hook: Claude checks what it was called with before.
    """
    return len({act.call for act in acts if act.ok and not act.refused})
