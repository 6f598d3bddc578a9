"""What is observed of a mind, act by act, folded into how far its work frontier has closed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from orchconverge.core.fingerprints import Blob, canonical, fingerprint, nature, plain, relevant
from orchconverge.core.seen import Act
from orchconverge.core.target import Stage as Stage
from orchconverge.core.values import Thresholds as Thresholds

KEPT = 64
"""How many fingerprints of one kind are kept; what is beyond is counted."""


class Goal(Struct, frozen=True, kw_only=True):
    """What work is measured by.

    ``words``: all text that names what it is about (goal, macrostate, criteria, excerpts of failing checks, paths of
    admitted commits). ``checks``: criterion -> its command. ``expects``: some required criterion is unmet that work was
    never put to, so something is to be made; without it and without a ``stage`` the class of the work is unknown.
    ``root``: the tree. ``report``: the file for the mind's own word, which may always be written and is no work.
    """

    words: str = ""
    checks: Mapping[str, str] = {}
    expects: bool = False
    stage: Stage | None = None
    root: str = ""
    report: str = ""

    def path(self, name: str) -> str:
        """The one spelling of a path."""
        return canonical(name, root=self.root, aliases=self.stage.aliases if self.stage is not None else None)

    @property
    def inputs(self) -> frozenset[str]:
        """What the stage is declared to read."""
        return frozenset(map(self.path, self.stage.inputs)) if self.stage is not None else frozenset()

    @property
    def output(self) -> str:
        """What the stage is declared to write, or nothing."""
        return self.path(self.stage.output) if self.stage is not None else ""


class Observed(Struct, frozen=True, kw_only=True):
    """One thing that was observed. ``ok`` is the result that it was seen to have, ``None`` if none was."""


class Looked(Observed, frozen=True, kw_only=True):
    """A file was read, or something was searched for. ``part``: which lines, or the place that was searched."""

    target: str
    ok: bool | None = None
    search: bool = False
    part: str = ""


class Wrote(Observed, frozen=True, kw_only=True):
    """A file was to be written or removed. ``before`` and ``after`` are what it was seen to hold, ``None`` if unknown.

    ``refused``: a permission, a hook or a sandbox said no.
    """

    path: str
    ok: bool | None = None
    refused: bool = False
    before: Blob | None = None
    after: Blob | None = None


class Ran(Observed, frozen=True, kw_only=True):
    """A command was run."""

    command: str
    ok: bool | None = None


class Compacted(Observed, frozen=True, kw_only=True):
    """The mind's context was compacted or is another one: what it had read, it may have to read again."""


def facts_of(acts: Iterable[Act], changes: Mapping[str, tuple[Blob, Blob]], goal: Goal) -> tuple[Observed, ...]:
    """The facts of a turn: its engine's acts, and what git shows of each changed path (before, after), in this order.

    A path that changed without an act that names it was changed by a command, if one ran that was not seen to fail (some
    engines never tell), or by a mind whose engine shows no acts at all; else nobody was seen to change it, and it is no
    observed write.
    """
    known = {goal.path(path): blobs for path, blobs in changes.items()}
    facts: list[Observed] = []
    named, landed = set[str](), set[str]()
    shown = ran = False
    for act in acts:
        shown = True
        if act.kind == "write":
            path = goal.path(act.target)
            if path in landed:
                continue  # one change of the turn, however many acts it took
            named.add(path)
            if act.ok and not act.refused:
                landed.add(path)
            before, after = known.get(path, (Blob(), Blob()))
            facts.append(Wrote(path=path, ok=act.ok, refused=act.refused, before=before, after=after))
        elif act.refused:
            continue
        elif act.kind in ("read", "search"):
            facts.append(Looked(target=act.target, ok=act.ok, search=act.kind == "search", part=act.part))
        elif act.kind == "run":
            facts.append(Ran(command=act.target, ok=act.ok))
            ran = ran or (act.ok is not False and nature(act.target) != "read")
        elif act.kind == "other":
            ran = ran or act.ok is True
    rest = (
        Wrote(path=p, ok=ran or not shown or None, before=b, after=a) for p, (b, a) in known.items() if p not in named
    )
    return (*facts, *rest)


class Net(Struct, frozen=True, kw_only=True):
    """A path over one turn: its ink at first and now, and whether a change of it counted."""

    first: str
    now: str
    counts: bool = False


Uncounted = Literal[
    "failed", "rejected", "unobserved", "no_op", "whitespace", "reverted", "outside", "unrelated", "undeclared"
]
"""Why a write does not count."""


class Standing(Struct, frozen=True, kw_only=True):
    """How far a frontier has got. All tuples are bounded by `KEPT`, the counts beside them are not.

    ``seen``: what was looked at since the last change that counted: ``targets`` new things, ``rereads`` known ones.
    ``inputs``: declared inputs that were read. ``states``: (path, ink) that files were in already: coming back to one is
    no work. ``nets``: path -> what this turn made of it. ``failed``: checks that work was put to, or that held, and are red.
    ``satisfied``: its closing condition was reached; the next turn begins another frontier.
    """

    seen: tuple[str, ...] = ()
    targets: int = 0
    rereads: int = 0
    runs: int = 0
    inputs: tuple[str, ...] = ()
    refusals: int = 0
    compactions: int = 0
    mutations: int = 0
    strays: int = 0
    states: tuple[str, ...] = ()
    nets: Mapping[str, Net] = {}
    failed: tuple[str, ...] = ()
    uncounted: tuple[Uncounted, ...] = ()
    constrained: bool = False
    denied: bool = False
    satisfied: bool = False

    @property
    def durable(self) -> bool:
        """Whether a change that counted stands."""
        return any(net.counts and net.first != net.now for net in self.nets.values())


def observe(standing: Standing, goal: Goal, fact: Observed, limits: Thresholds) -> Standing:
    """The standing after one more fact."""
    if isinstance(fact, Looked):
        return _looked(standing, goal, fact)
    if isinstance(fact, Wrote):
        return _wrote(standing, goal, fact, limits)
    if isinstance(fact, Ran):
        return _ran(standing, goal, fact)
    if isinstance(fact, Compacted) and standing.compactions < limits.compactions:
        return replace(_anew(standing), compactions=standing.compactions + 1)
    return standing


def closed(standing: Standing) -> Standing:
    """A new frontier after one that closed: the whole budget, and nothing that was refused."""
    return Standing(states=standing.states, nets=standing.nets, failed=standing.failed, uncounted=standing.uncounted)


def target_of(standing: Standing, goal: Goal, fact: Looked | Ran) -> str:
    """The fingerprint of what is looked at: a file that was changed is another target, and so is a command after a change."""
    if isinstance(fact, Ran):
        changed = (f"{mark}{net.now}" for mark, net in standing.nets.items() if net.now != net.first)
        return fingerprint("run", plain(fact.command), *changed)
    if fact.search:
        return fingerprint("search", fact.target, fact.part)
    path = goal.path(fact.target)
    net = standing.nets.get(fingerprint("path", path))
    return fingerprint("read", path, fact.part, net.now if net is not None and net.now != net.first else "")


def _anew(standing: Standing) -> Standing:
    return replace(standing, seen=(), targets=0, rereads=0, runs=0)


def _looked(standing: Standing, goal: Goal, fact: Looked) -> Standing:
    path = "" if fact.search else goal.path(fact.target)
    if path in goal.inputs and fact.ok:
        mark = fingerprint("path", path)
        if mark not in standing.inputs:
            seen = _added(standing.seen, target_of(standing, goal, fact))
            return replace(standing, inputs=_added(standing.inputs, mark), seen=seen)
    return _counted(standing, target_of(standing, goal, fact), "targets")


def _ran(standing: Standing, goal: Goal, fact: Ran) -> Standing:
    kind: Literal["targets", "runs"] = "targets" if nature(fact.command) == "read" else "runs"
    return answered(_counted(standing, target_of(standing, goal, fact), kind), goal, fact)


def answered(standing: Standing, goal: Goal, fact: Ran) -> Standing:
    """The standing once the exit of a command is known: what it says of a check, if it is one."""
    check = check_of(goal, fact.command)
    if check is None or fact.ok is None:
        return standing
    if fact.ok:
        return replace(standing, failed=tuple(name for name in standing.failed if name != check))
    return replace(standing, failed=_added(standing.failed, check)) if standing.durable else standing


def _counted(standing: Standing, target: str, kind: Literal["targets", "runs"]) -> Standing:
    if target in standing.seen:
        return replace(standing, rereads=standing.rereads + 1)
    seen = _added(standing.seen, target)
    if kind == "runs":
        return replace(standing, seen=seen, runs=standing.runs + 1)
    return replace(standing, seen=seen, targets=standing.targets + 1)


def check_of(goal: Goal, command: str) -> str | None:
    """The criterion whose command this is, alone or as the last of several joined by ``&&``: its exit is the whole's."""
    given = plain(command)
    for name, line in goal.checks.items():
        if line.strip() and (given == plain(line) or given.endswith(f"&& {plain(line)}")):
            return name
    return None


def _wrote(standing: Standing, goal: Goal, fact: Wrote, limits: Thresholds) -> Standing:
    path = goal.path(fact.path)
    if not path or path == goal.path(goal.report):
        return standing
    why = _why_not(standing, goal, fact, path)
    if why != "outside":
        standing = _noted(standing, fact, path, counts=why is None)
    if why is None:
        mutations = standing.mutations + bool(standing.failed)
        after = _anew(standing) if mutations <= limits.mutations else standing
        return replace(after, mutations=mutations, refusals=0 if mutations <= limits.mutations else after.refusals)
    standing = replace(standing, uncounted=tuple(dict.fromkeys((*standing.uncounted, why))))
    if why not in ("unrelated", "undeclared"):
        return standing
    strays = standing.strays + 1
    renewed = why == "unrelated" and strays <= limits.strays
    return replace(_anew(standing) if renewed else standing, strays=strays)


def _why_not(standing: Standing, goal: Goal, fact: Wrote, path: str) -> Uncounted | None:
    """Why a write does not count; ``None`` if it does."""
    if path.startswith(("/", "../", ".git/")):
        return "outside"
    if fact.refused:
        return "rejected"
    if fact.ok is False:
        return "failed"
    if fact.ok is None or fact.before is None or fact.after is None:
        return "unobserved"
    if fact.before.id == fact.after.id:
        return "no_op"
    if fact.before.ink == fact.after.ink:
        return "whitespace"
    if fingerprint("state", path, fact.after.ink) in standing.states:
        return "reverted"
    if goal.stage is not None and path != goal.output and not standing.failed:
        return "undeclared"
    return None if path == goal.output or relevant(path, goal.words) else "unrelated"


def _noted(standing: Standing, fact: Wrote, path: str, *, counts: bool) -> Standing:
    """What is known of a file's state now. A write that does not count is noted too: it may undo one that does."""
    if fact.after is None:
        return standing
    mark = fingerprint("path", path)
    before = fact.before.ink if fact.before is not None else ""
    known = dict(standing.nets)
    net = known.get(mark)
    if net is None:
        if not counts and fact.before is None:
            return standing
        if len(known) >= KEPT:  # room for what counts is made of what does not
            spare = next((one for one, other in known.items() if not other.counts), None) if counts else None
            if spare is None:
                return standing
            del known[spare]
        net = Net(first=before, now=before)
    known[mark] = Net(first=net.first, now=fact.after.ink, counts=net.counts or counts)
    states = standing.states
    if counts:
        for ink in (before, fact.after.ink):
            states = _latest(states, fingerprint("state", path, ink))
    return replace(standing, nets=known, states=states)


def _added(known: tuple[str, ...], new: str) -> tuple[str, ...]:
    return known if new in known or len(known) >= KEPT else (*known, new)


def _latest(known: tuple[str, ...], new: str) -> tuple[str, ...]:
    return (*(one for one in known if one != new), new)[-KEPT:]


def open_stage(stages: Iterable[Stage], done: Collection[str]) -> Stage | None:
    """The first stage whose output is not among ``done``, the paths below the tree that were written; ``None``: no such one."""
    for stage in stages:
        written = {canonical(path, aliases=stage.aliases) for path in done}
        if canonical(stage.output, aliases=stage.aliases) not in written:
            return stage
    return None


def spent(standing: Standing, limits: Thresholds) -> bool:
    """Whether a turn that goes on in the same way would add nothing."""
    return standing.targets >= limits.targets or standing.rereads >= limits.rereads or standing.runs >= limits.runs


def folded(standing: Standing, goal: Goal, facts: Sequence[Observed], limits: Thresholds) -> Standing:
    """The standing after these facts, in order."""
    for fact in facts:
        standing = observe(standing, goal, fact, limits)
    return standing
