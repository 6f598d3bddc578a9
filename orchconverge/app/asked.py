"""What was asked so far of git and of the criteria, with the answers: the same for a controller and for a person's graft."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from orchconverge.app.checks import Checks
from orchconverge.app.grafts import Grafts
from orchconverge.app.trees import Trees
from orchconverge.app.trespass import trespass
from orchconverge.app.world import World
from orchconverge.core import actions as a
from orchconverge.core.fingerprints import Blob
from orchconverge.core.seen import MindEnd, Seen, TargetSeen, Work
from orchconverge.core.state import Basin, Run
from orchconverge.core.strategy import place


class Asked:
    """The answers about one basin. ``perform`` gets those that an action asks for; each says whether there is news."""

    def __init__(self, world: World, basin: str, trees: Trees, *, anew: str = "") -> None:
        self.world = world
        self.name = basin
        self.checks = Checks(world, trees, anew=anew)
        self.grafts = Grafts(world, trees)
        self.ends: dict[str, MindEnd] = {}
        self.works: dict[str, Work] = {}
        self.contents: dict[str, Mapping[str, tuple[Blob, Blob]]] | None = None
        self.target: TargetSeen | None = None
        self.looked = float("-inf")
        self.perform: dict[type[a.Action], Callable[[Any], bool]] = {
            a.LookAtTarget: self._look_at_target,
            a.LookAtWork: self._look_at_work,
            a.LookAtContents: self._look_at_contents,
            a.Check: self._check,
            a.Try: self._try,
            a.Offer: self._offer,
        }

    @property
    def basin(self) -> Basin:
        """The basin as the ledger has it now."""
        return self.world.ledger.state.basins[self.name]

    @property
    def run(self) -> Run:
        """Its newest run, whose settings say how it is checked."""
        found = self.basin.run
        assert found is not None
        return found

    def seen(self) -> Seen:
        """The answers so far, frozen."""
        return Seen(
            basin=self.name,
            random=self.world.host.random(),
            trees=str(self.world.trees),
            ends=self.ends,
            works=self.works,
            contents=self.contents,
            target=self.target,
            answers=self.checks.answers,
            spoiled=frozenset(self.checks.spoiled),
            tried=self.grafts.tried,
            offered=self.grafts.offered,
            harvesting=self.grafts.seconds(),
            obstacle=self.grafts.obstacle,
        )

    def _look_at_target(self, action: a.LookAtTarget) -> bool:
        git, basin, run = self.world.git, self.basin, self.run
        head = git.resolve(f"refs/heads/{basin.target}")
        here = place(basin, run) == "here"
        where: Path | None = Path(run.settings.checkout)
        if not here:
            held = git.checked_out_at(basin.target)
            where = held if held is not None else where if basin.start is None else None
        since = basin.tip.head if basin.tip is not None else None
        moved = head is not None and since is not None and since != head
        self.target = TargetSeen(
            head=head,
            tree=git.tree_of(head) if head is not None else None,
            checkout=git.checkout(where) if where is not None else None,
            fingerprint=git.fingerprint(),
            landed=tuple(git.landed(basin.id, since=since, head=head)) if moved and since and head else (),
            trespass=trespass(self.world, basin, head) if moved and not here and head else "",
        )
        self.looked = self.world.clock.monotonic()
        return True

    def _look_at_work(self, action: a.LookAtWork) -> bool:
        branch = self.world.ledger.state.branches[action.branch]
        head = self.ends[branch.id].head if branch.id in self.ends else branch.head
        assert head is not None
        self.works[branch.id] = self.world.git.work(branch.base, head)
        return True

    def _look_at_contents(self, action: a.LookAtContents) -> bool:
        git, state = self.world.git, self.world.ledger.state
        branches = [(name, state.branches[name].base, state.branches[name].head) for name in action.branches]
        pairs = [(git.tree_of(base), git.tree_of(head)) for _, base, head in branches if head is not None]
        self.contents = dict(zip(action.branches, git.compare.contents(pairs), strict=True))
        return True

    def _check(self, action: a.Check) -> bool:
        return self.checks.ask(self.basin, self.run, action.key, action.commit)

    def _try(self, action: a.Try) -> bool:
        branch = self.world.ledger.state.branches[action.part.branch]
        self.grafts.attempt(self.basin, branch, action.part, action.onto)
        return True

    def _offer(self, action: a.Offer) -> bool:
        self.grafts.offer(self.basin, action.head)
        return True
