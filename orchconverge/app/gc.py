"""Takes away what runs left behind and nothing needs any more: by the record, under the locks, and never what is nowhere else."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from orchconverge.app.world import World, given_name, mind_name
from orchconverge.core.events import AnyFact
from orchconverge.core.needs import waits_since
from orchconverge.core.seen import Absent, Ended, Lost
from orchconverge.core.state import UNSETTLED, Basin, Branch
from orchconverge.core.target import Sha
from orchconverge.core.views.gc import Always, Remain
from orchconverge.core.views.text import counted
from orchconverge.errors import Failed, Refused
from orchconverge.ports.remains import Left, Refs, Remains

KINDS = ("minds", "given", "checks", "setups", "gates", "gatesetups", "steps")
OURS = "orchconverge/m-"
"""What the branches of minds begin with."""
SPAWN_WAIT = 5.0
"""Seconds to wait for whoever adds a worktree."""
DAY = 86_400.0
_STRANGE = "no fact of this ledger tells of it"


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """One collection. ``dry``: it only looks; ``days``: what is younger stays."""

    world: World
    remains: Remains
    refs: Refs
    dry: bool
    days: float
    runs: dict[str, list[tuple[str, Left]]] = field(default_factory=dict)
    """Basin -> kind and folder of each of its runs."""
    minds: dict[str, str] = field(default_factory=dict)
    """Names under which minds have folders -> their branches."""
    facts: list[AnyFact] = field(default_factory=list)
    """All that the ledger holds."""
    gone: set[Path] = field(default_factory=set)
    """Working trees that went, or would."""

    def read(self) -> None:
        """Read on in the ledger."""
        self.facts.extend(self.world.ledger.catch_up())

    def young(self, changed: float) -> str:
        """Why something, last changed so many seconds after the epoch, is too young to go; empty if it is not."""
        age = self.world.clock.now().timestamp() - changed
        return (
            "" if age >= self.days * DAY else f"it is younger than {self.days:g} {'day' if self.days == 1 else 'days'}"
        )


def gc(world: World, *, remains: Remains, refs: Refs, dry: bool, older_days: float) -> list[Remain]:
    """Take away what is not needed any more, or with ``dry`` say what would go. Returns all that was found, with why it stays.

    Raises `Refused` where the ledger has lines that cannot be read: what they say could be what keeps something.
    """
    sweep = Sweep(world=world, remains=remains, refs=refs, dry=dry, days=older_days)
    sweep.read()
    health = world.ledger.health
    if odd := health.bad + health.illegal + health.unknown:
        raise Refused(
            f"{counted(odd, 'line')} of the ledger cannot be read, and could say what is needed: nothing is removed",
            hint="orchconverge ledger verify",
        )
    for branch in world.ledger.state.branches.values():
        sweep.minds.update(dict.fromkeys((mind_name(branch.id), given_name(branch)), branch.id))
    for kind in KINDS:
        for left in remains.folders(kind):
            sweep.runs.setdefault(_basin_of(sweep, kind, left), []).append((kind, left))
    found: list[Remain] = []
    for name in tuple(world.ledger.state.basins):
        found += _of_basin(sweep, name)
    found += _strange(sweep)
    found += _outputs(sweep)
    return found


def always(world: World, *, remains: Remains, refs: Refs) -> list[Always]:
    """What is never taken away, and where it lies."""
    backups = world.state / "backups"
    kept = counted(len(refs.keeps()), "keep-ref")
    return [
        Always(what="the ledger", where=str(world.state), bytes=remains.size(world.state / "ledger.jsonl")),
        Always(what="its backups", where=str(backups), bytes=remains.size(backups)),
        Always(what=f"the commits of minds, on {kept}", where="refs/orchconverge/keep/"),
    ]


# --- one basin -------------------------------------------------------------------------------------------------------


def _of_basin(sweep: Sweep, name: str) -> list[Remain]:
    """What one basin left. All of it stays while a controller has the basin or its run is open by the record."""
    basin = sweep.world.ledger.state.basins[name]
    with _alone(sweep, basin) as why:
        sweep.read()
        basin = sweep.world.ledger.state.basins[name]
        if basin.running is not None:
            why = f"the run of {name} is open"
        return [
            *_trees(sweep, basin, why),
            *_throwaway(sweep, basin, why),
            *_branches(sweep, basin, why),
            *_folders(sweep, basin, why),
        ]


@contextmanager
def _alone(sweep: Sweep, basin: Basin) -> Iterator[str]:
    """Hold the locks of whoever could be at work in the basin; yields why one cannot be had, or nothing. A look only asks."""
    leases = sweep.world.leases
    locks = {
        f"lease/{basin.id}": f"a controller has {basin.id}",
        f"graft/{basin.target}": f"somebody grafts onto {basin.target}",
        "spawn": "another orchconverge adds a worktree",
    }
    if sweep.dry or basin.running is not None:
        yield next((why for lock, why in locks.items() if leases.held(lock) is not False), "")
        return
    with ExitStack() as held:
        for lock, why in locks.items():
            lease = leases.take(lock, wait_seconds=SPAWN_WAIT if lock == "spawn" else 0.0)
            if lease is None:
                yield why
                return
            held.callback(lease.release)
        yield ""


def _done(sweep: Sweep, remain: Remain, act: Callable[[], str | None]) -> Remain:
    """The same after ``act``, which says or raises why it could not be; in a look, and where it stays, nothing is done."""
    if sweep.dry or remain.why:
        return remain
    try:
        return replace(remain, why=act() or "")
    except (Failed, Refused) as error:
        return replace(remain, why=error.message)


def _needed(sweep: Sweep, basin: Basin, branch: Branch) -> str:
    """Why what a mind left is still needed; empty if it is not. What ended in a killed basin is never gone back to."""
    if _may_run(sweep, mind_name(branch.id)):
        return f"{branch.id} runs, or may run"
    if basin.phase == "killed":
        return ""
    if branch.phase in UNSETTLED or branch.may_run:
        return f"{branch.id} is not settled: a resume judges it"
    if basin.attempt is not None and branch.id in basin.attempt.branches:
        return f"attempt {basin.attempt.number} of {basin.id} is not over: a resume judges it"
    return ""


def _may_run(sweep: Sweep, name: str) -> bool:
    return not isinstance(sweep.world.supervisors.probe(name), Ended | Absent | Lost)


def _ended(basin: Basin, branch: Branch) -> float:
    at = waits_since(branch) or basin.declared
    return at.timestamp() if at is not None else 0.0


# --- trees and branches ----------------------------------------------------------------------------------------------


def _trees(sweep: Sweep, basin: Basin, why: str) -> Iterator[Remain]:
    for branch in sweep.world.ledger.state.branches_of(basin.id):
        path = Path(branch.worktree)
        if branch.place != "fresh" or not path.is_dir():
            continue
        stays = (
            why
            or _needed(sweep, basin, branch)
            or sweep.young(_ended(basin, branch))
            or _precious(sweep, basin, branch, path)
        )
        yield _tree_removed(sweep, "tree", path, stays)


def _throwaway(sweep: Sweep, basin: Basin, why: str) -> Iterator[Remain]:
    for path in _throwaways(sweep, basin.id):
        yield _tree_removed(sweep, "throwaway", path, why or sweep.young(path.lstat().st_mtime))


def _throwaways(sweep: Sweep, basin: str) -> list[Path]:
    """The throwaway trees of a basin: those of its controllers, and, with a letter in front, of commands at its lock."""
    there = sweep.world.trees.iterdir() if sweep.world.trees.is_dir() else ()
    return sorted(path for path in there if re.match(rf"[a-z]?[tg]-{basin}\.", path.name))


def _tree_removed(sweep: Sweep, kind: str, path: Path, why: str) -> Remain:
    real, size = path.resolve(), sweep.remains.size(path)
    remain = Remain(kind=kind, name=path.name, where=str(path.parent), bytes=size, why=why)
    remain = _done(sweep, remain, partial(sweep.world.git.remove_worktree, path))
    if not remain.why:
        sweep.gone.update((path, real))
    return remain


def _precious(sweep: Sweep, basin: Basin, branch: Branch, path: Path) -> str:
    """Why a mind's working tree may hold what is nowhere else; empty if it does not."""
    git, refs = sweep.world.git, sweep.refs
    if not (path / ".git").exists():  # half removed: `remove_worktree` knows whether it is ours
        return ""
    try:
        stands = git.checkout(path)
        if stands.operation is not None:
            return f"a {stands.operation} is in progress in it"
        if stands.head is None or not refs.kept(stands.head, also=basin.target):
            return "it stands at a commit that is on no keep-ref"
        if nested := git.nested(path):
            return f"it holds work that is nowhere else in {', '.join(nested[:3])}"
        if stands.dirty or stands.untracked:
            leftovers = git.resolve(f"refs/orchconverge/keep/{branch.id}-leftovers")
            if leftovers is None or not refs.holds(leftovers, path):
                return "it holds uncommitted work that is on no keep-ref"
    except (Failed, Refused) as error:
        return error.message
    return ""


def _branches(sweep: Sweep, basin: Basin, why: str) -> Iterator[Remain]:
    known = sweep.refs.branches("orchconverge/")
    for branch in sweep.world.ledger.state.branches_of(basin.id):
        name, tip = branch.git_branch, known.get(branch.git_branch)
        if tip is None or not name.startswith(OURS):
            continue
        stays = why or _needed(sweep, basin, branch) or sweep.young(_ended(basin, branch))
        if not stays and branch.waits and basin.phase == "open":
            stays = f"{branch.id} waits at the lock"
        holder = sweep.world.git.checked_out_at(name) if not stays else None
        if holder is not None and holder not in sweep.gone:
            stays = f"it is checked out at {holder}"
        if not stays and not sweep.refs.kept(tip, also=basin.target):
            stays = "it stands at a commit that is on no keep-ref"
        remain = Remain(kind="branch", name=name, where="refs/heads", why=stays)
        yield _done(sweep, remain, partial(_deleted, sweep, name, tip))


def _deleted(sweep: Sweep, name: str, tip: Sha) -> str:
    return "" if sweep.refs.delete(name, old=tip) else "it was moved meanwhile"


# --- folders ---------------------------------------------------------------------------------------------------------


def _folders(sweep: Sweep, basin: Basin, why: str) -> Iterator[Remain]:
    for kind, left in sweep.runs.get(basin.id, ()):
        stays = why or _needed_folder(sweep, basin, kind, left) or sweep.young(left.changed)
        yield _done(sweep, _remain(kind, left, stays), partial(_emptied, sweep, kind, left))


def _basin_of(sweep: Sweep, kind: str, left: Left) -> str:
    """The basin that a run's folder is called after, or, of one that is called after a mind's tree, that mind's."""
    branch = _mind_of(sweep, kind, left) if kind == "given" else None
    return branch.basin if branch is not None else left.path.name.partition(".")[0]


def _mind_of(sweep: Sweep, kind: str, left: Left) -> Branch | None:
    name = sweep.minds.get(f"{kind}/{left.path.name.partition('.lost.')[0]}")
    return sweep.world.ledger.state.branches[name] if name is not None else None


def _remain(kind: str, left: Left, why: str) -> Remain:
    return Remain(kind=kind, name=left.path.name, where=str(left.path.parent), bytes=left.bytes, why=why)


def _needed_folder(sweep: Sweep, basin: Basin, kind: str, left: Left) -> str:
    """Why the folder of a run is still needed; empty if it is not."""
    name, state = left.path.name, sweep.world.ledger.state
    if _may_run(sweep, f"{kind}/{name}"):
        return "it runs, or may run"
    if kind == "setups":
        tree = sweep.world.trees / name.removeprefix(f"{basin.id}.").rpartition(".")[0]
        return "" if tree in sweep.gone or not tree.exists() else "the tree that it set up is there"
    if kind not in ("minds", "given"):
        return ""
    branch = _mind_of(sweep, kind, left)
    if branch is None:
        return _STRANGE
    first = next((b for b in state.branches_of(basin.id) if b.place == "here"), None)
    if branch == first and basin.phase == "open":
        return "it says what was uncommitted here before the first mind: a resume asks for that"
    return _needed(sweep, basin, branch)


def _emptied(sweep: Sweep, kind: str, left: Left) -> str:
    """Take a run's folder away, and before that what a lost supervisor may have left running."""
    name = f"{kind}/{left.path.name}"
    if isinstance(sweep.world.supervisors.probe(name), Lost):
        sweep.world.supervisors.kill(name)
    return sweep.remains.remove(left)


def _strange(sweep: Sweep) -> list[Remain]:
    """What lies where ours do and is not of this ledger: it is named, and stays."""
    state, trees = sweep.world.ledger.state, sweep.world.trees
    strange = [runs for basin, runs in sweep.runs.items() if basin not in state.basins]
    found = [_remain(kind, left, _STRANGE) for runs in strange for kind, left in runs]
    known = {Path(b.worktree) for b in state.branches.values()}
    known |= {path for basin in state.basins for path in _throwaways(sweep, basin)}
    there = sorted(trees.iterdir()) if trees.is_dir() else []
    for path in there:
        if path not in known:
            size = sweep.remains.size(path)
            found.append(Remain(kind="tree", name=path.name, where=str(trees), bytes=size, why=_STRANGE))
    return found


# --- outputs of checks -----------------------------------------------------------------------------------------------


def _outputs(sweep: Sweep) -> Iterator[Remain]:
    """Outputs that no fact of an open basin names. While any run may be open all stay: its next fact may name one."""
    state, leases = sweep.world.ledger.state, sweep.world.leases
    named: set[str] = set()
    busy = [b.id for b in state.basins.values() if b.running is not None or leases.held(f"lease/{b.id}") is not False]
    sweep.read()
    for fact in sweep.facts:
        basin = state.basins.get(getattr(fact, "basin", None) or "")
        if basin is not None and basin.phase == "open":
            answers = (*getattr(fact, "evidence", ()), *getattr(fact, "results", ()))
            named.update(answer.log for answer in answers)
    for left in sweep.remains.outputs():
        why = f"the run of {', '.join(busy)} is open" if busy else sweep.young(left.changed)
        if left.path.name in named:
            why = "a fact of an open basin names it"
        yield _done(sweep, _remain("evidence", left, why), partial(sweep.remains.remove, left))
