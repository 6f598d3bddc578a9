"""`lock`: the review card of the candidate at the head of the queue, and the keys by which a person decides."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

import click
import msgspec

from orchconverge import bootstrap
from orchconverge.app.ground import grounds
from orchconverge.cli.graft import confirmed, follows, grafted
from orchconverge.cli.records import opened, person, said
from orchconverge.core.admit import ready
from orchconverge.core.card import Card, Looked, card, flags_of, waiting
from orchconverge.core.state import Basin, Branch, Proposal, State
from orchconverge.core.views import card as view
from orchconverge.core.views import compare
from orchconverge.core.views.lines import Look
from orchconverge.core.views.text import clean, counted
from orchconverge.errors import WAITING, OrchConvergeError, Refused

if TYPE_CHECKING:
    from orchconverge.app.lock import Lock
    from orchconverge.ports import Git

T = TypeVar("T")
COMPARED = 24
"""So many other candidates are merged with the shown one to see whether they conflict."""


@click.command()
@click.argument("name", metavar="[BASIN]", required=False)
@click.option("--once", is_flag=True, help="Print the card and leave.")
@click.option("--json", "as_json", is_flag=True, help="The card as one JSON object.")
@click.option("--accept", is_flag=True, help="Take the proposal, and say what landed.")
@click.option("--without", type=click.IntRange(1), multiple=True, metavar="N", help="With part N of it turned off.")
@click.option("--yes", "sure", is_flag=True, help="Take it although something in it is flagged.")
@click.option("--ascii", "in_ascii", is_flag=True, help="Only ASCII.")
def lock(
    name: str | None,
    once: bool,
    as_json: bool,
    accept: bool,
    without: tuple[int, ...],
    sure: bool,
    in_ascii: bool,
) -> int:
    """Decide on the candidate that has waited longest: what it meets, changes, risks, and what is given up by taking it.

    On a terminal keys decide, each with Enter: a accept the proposal, 1-9 turn a part of it, g graft this one alone,
    p prune, s skip, d diff, v evidence, q leave. Elsewhere the card is printed, and the exit code is 5 if something
    waits.

    --json: basin, waiting [branch], card (null if nothing waits) of {basin, branch, approach, title, macrostate, summary,
    target, tip, target_head, position, waiting, since, whole, before, met, after, gains, losses, more_is_met_by, refused,
    files, only, flags, untouched, proposable};
    criteria [{criterion, required, tip, this, exit, seconds, line, asked, log}], a cell as in `matrix`;
    changes [{kind, files, added, removed}]; tests {files_added, files_deleted, cases_added, cases_gone};
    risks [{kind, path, count, flagged}];
    others [{branch, approach, met, meets, merges, conflicts, lines, files, covered}];
    proposal (null if none is ready) {tip, head, met, refused, parts}, with
    parts [{number, branch, criterion, paths, gains, flags, commit}]
    """
    if (without or sure) and not accept:
        raise Refused("--without and --yes belong to --accept", hint="orchconverge lock --accept --without N")
    if accept and (once or as_json):
        raise Refused("--accept decides, --once and --json look", hint="orchconverge lock --once")
    desk = Desk(name, ascii=in_ascii or (sys.stdout.encoding or "").lower().replace("-", "") != "utf8")
    if desk.basin is None or not desk.queue():
        return desk.nothing(as_json=as_json)
    if accept:
        print("\n".join(desk.accept(without, sure=sure)))
        return 0
    if as_json:
        desk.print_json()
        return 0
    if once or not (sys.stdin.isatty() and sys.stdout.isatty()):
        desk.show()
        return 0 if once else WAITING
    return desk.decide()


class Desk:
    """One basin's lock as a person sees it. It looks without holding anything; only what admits takes the lock."""

    def __init__(self, name: str | None, *, ascii: bool) -> None:
        self.cwd = bootstrap.here()
        self.reader = bootstrap.reader(self.cwd)
        self.reader.ledger.catch_up()
        self.basin_id = _chosen(self.state, name)
        self.look = Look(
            width=shutil.get_terminal_size().columns,
            ascii=ascii,
            colour=sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb",
        )
        self.off: set[int] = set()
        """The parts that are turned off, of the proposal ``off_of``."""
        self.off_of = ""
        self.skipped: set[str] = set()
        self._git: Git | None = None

    @property
    def state(self) -> State:
        """What the ledger says, as far as it was read."""
        return self.reader.ledger.state

    @property
    def basin(self) -> Basin | None:
        """The basin, if there is one to decide on."""
        return self.state.basins[self.basin_id] if self.basin_id is not None else None

    @property
    def git(self) -> Git:
        """The repository, for looking."""
        from orchconverge.adapters.git import Repository

        if self._git is None:
            self._git = Repository.open(self.cwd, trees=self.reader.places.trees)
        return self._git

    @property
    def here(self) -> Basin:
        """The basin, where there is one to decide on."""
        assert self.basin is not None
        return self.basin

    def queue(self) -> list[Branch]:
        """The candidates that wait, those left out that were skipped."""
        waits = waiting(self.state, self.basin) if self.basin is not None else ()
        return [branch for branch in waits if branch.id not in self.skipped]

    # --- looking -----------------------------------------------------------------------------------------------------

    def card(self) -> Card:
        """The card of the first candidate of the queue."""
        branch = self.queue()[0]
        return card(self.state, self.here.id, branch.id, looked(self.git, self.state, self.here, branch))

    def show(self) -> None:
        """Print it."""
        now = datetime.now().astimezone()
        print(view.card(self.card(), self.look, now=now, off=self.off))

    def print_json(self) -> None:
        """Print it as JSON."""
        self._json([branch.id for branch in self.queue()], self.card())

    def nothing(self, *, as_json: bool) -> int:
        """Say that nothing waits."""
        if as_json:
            self._json([], None)
        else:
            print(f"The lock is {view.EMPTY}")
        return 0

    def _json(self, waits: Sequence[str], shown: Card | None) -> None:
        whole = {"basin": self.basin_id, "waiting": waits, "card": shown}
        sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(whole)) + b"\n")

    # --- admitting ---------------------------------------------------------------------------------------------------

    def accept(self, without: Collection[int], *, sure: bool) -> list[str]:
        """Take the proposal, made anew where it is stale, and say what landed. Raises `Refused`."""
        name, proposal = self.here.id, self._ready()
        if proposal is None:
            proposal = self.propose()
            if without:
                raise Refused(
                    "these numbers are of a proposal that is out of date; it was made anew",
                    hint=f"orchconverge lock {name} --once",
                )
        on = [taken for number, taken in enumerate(proposal.parts, 1) if number not in without]
        unknown = [number for number in without if number > len(proposal.parts)]
        if unknown or not on:
            why = f"there is no part {unknown[0]}" if unknown else "every part is turned off"
            raise Refused(why, hint=f"orchconverge lock {name} --once numbers them, 1 to {len(proposal.parts)}")
        flags = list(dict.fromkeys(flag for taken in on for flag in flags_of(self.state, taken)))
        confirmed(flags, what="the proposal", sure=sure, again=f"orchconverge lock {name} --accept --yes")
        taken = self._at_lock(lambda held: held.accept(proposal, without=without))
        return [*grafted(self.here, taken), *follows(self.state, self.here)]

    def propose(self) -> Proposal:
        """Have a proposal made and gated on the target as it stands. Raises `Refused` if nothing passes."""
        made = self._at_lock(lambda held: held.proposal())
        if made is None:
            raise Refused(
                f"nothing that waits passes the gate on {self.here.target} by itself",
                hint="orchconverge graft BRANCH --only PATH --reason TEXT takes parts; g grafts a flagged one",
            )
        return made

    def _ready(self) -> Proposal | None:
        tip = self.git.resolve(f"refs/heads/{self.here.target}")
        return ready(self.state, self.here, tip)

    def _at_lock(self, act: Callable[[Lock], T]) -> T:
        """Do something while the lock is held, and read what it wrote."""
        from orchconverge.app.lock import Lock

        loaded = bootstrap.load(self.cwd, {})
        try:
            with (
                bootstrap.world(self.cwd, loaded, drives=True) as world,
                Lock.taken(world, self.here.id, decided_by=person()) as held,
            ):
                return act(held)
        finally:
            self.reader.ledger.catch_up()

    # --- keys --------------------------------------------------------------------------------------------------------

    def decide(self) -> int:
        """Show one card after the other and do what the keys say, until nothing is left or the person leaves."""
        self.look = self.look._replace(keys=True)
        again, trouble = True, ""
        while self.queue():
            if again:
                size = shutil.get_terminal_size()
                self.look = self.look._replace(width=size.columns, height=size.lines - 1)
                self._forget_turned()
                self.show()
            if trouble:
                print(trouble, file=sys.stderr)
            again, trouble = True, ""
            answer: str = click.prompt("", prompt_suffix="key, then Enter> ", default="", show_default=False)
            key = answer.strip().lower()
            if key == "q":
                return 0
            try:
                again = self._pressed(key)
            except OrchConvergeError as error:
                trouble = f"{clean(error.message, 1000)}\n  {clean(error.hint, 1000)}"
            self.reader.ledger.catch_up()
        waits = waiting(self.state, self.here)
        if waits:
            print(f"Skipped, and still at the lock: {', '.join(branch.id for branch in waits)}")
        else:
            print("\n".join([f"The lock is {view.EMPTY}", *follows(self.state, self.here)]))
        return 0

    def _pressed(self, key: str) -> bool:
        """Do what a key says. Returns whether the card is to be shown again."""
        branch = self.queue()[0]
        if key == "s":
            self.skipped.add(branch.id)
        elif key == "a":
            self._accept()
        elif key.isdecimal() and len(key) == 1:
            self._turn(int(key))
        elif key == "g":
            self._graft(branch)
        elif key == "p":
            self._prune(branch)
        elif key == "d":
            self._diff(branch)
            return False
        elif key == "v":
            print(
                view.evidence(self.card().criteria, branch.evidence, self.reader.places.state / "evidence", self.look)
            )
            return False
        else:
            print("a accept, 1-9 turn a part, g graft alone, p prune, s skip, d diff, v evidence, q leave")
            return False
        return True

    def _forget_turned(self) -> None:
        """Numbers are of one proposal: of another they mean something else."""
        found = self._ready()
        head = found.head if found is not None else ""
        if head != self.off_of:
            self.off, self.off_of = set(), head

    def _turn(self, number: int) -> None:
        found = self._ready()
        if found is None or not 1 <= number <= len(found.parts):
            there = f"1 to {len(found.parts)} are there" if found is not None else "there is no proposal yet"
            raise Refused(f"no part has the number {number}: {there}", hint="a makes a proposal, and accepts it")
        self.off ^= {number}

    def _accept(self) -> None:
        if self._ready() is None:
            self.propose()
            return
        found = self._ready()
        assert found is not None
        if found.head != self.off_of:
            raise Refused("the proposal was made anew meanwhile", hint="look at it; then a")
        self._told(self.accept(self.off, sure=False))

    def _graft(self, branch: Branch) -> None:
        gains = self.card().gains
        reason = "" if gains else said(None, question="it gains no criterion. Why is it admitted?", missing="g")
        again = f"orchconverge graft {branch.id} --yes"
        confirmed(branch.flags, what=branch.id, sure=False, again=again)
        taken = self._at_lock(lambda held: held.graft(branch, reason=reason))
        self._told([*grafted(self.here, taken)])

    def _told(self, lines: Sequence[str]) -> None:
        """Say what landed, and offer to prune what has nothing left to give."""
        print("\n".join(lines))
        from orchconverge.app.records import prune
        from orchconverge.core.judge import covered

        spent = {name: covered(self.here, self.state.branches[name]) for name in self.here.queue}
        names = [name for name, why in spent.items() if why]
        if not names or not click.confirm(f"Covered now: {', '.join(names)}. Prune?", default=False):
            return
        with opened() as world:
            for name in names:
                prune(world, world.ledger.state.branches[name], reason=spent[name], decided_by=person())
                print(f"{name} is pruned: {clean(spent[name], 200)}")

    def _prune(self, branch: Branch) -> None:
        from orchconverge.app.records import prune

        shown = self.card()
        alone = [clause.criterion for clause in shown.criteria if clause.this == "only"]
        more = f", and alone {', '.join(alone)}" if alone else ""
        print(f"{branch.id} meets {shown.met}/{shown.whole}{more}.")
        missing = f"orchconverge prune {branch.id} --reason TEXT"
        why = said(None, question="why? (kept for ever)", missing=missing)
        kept: str = click.prompt("What is worth keeping? (empty: nothing)", default="", show_default=False)
        residue = [kept.strip()] if kept.strip() else []
        with opened() as world:
            now = world.ledger.state.branches[branch.id]
            told = prune(world, now, reason=why, residue=residue, decided_by=person())
        print(f"{branch.id} is pruned: {clean(why, 200)}\n{told}")

    def _diff(self, branch: Branch) -> None:
        found = looked(self.git, self.state, self.here, branch).difference
        if found is None:
            raise Refused(f"the commits of {branch.id} are not in this repository", hint="p prune")
        print(f"{compare.stat(found)}\n\n{compare.patch(found)}")


def _chosen(state: State, name: str | None) -> str | None:
    """The basin of this name, else the only one with candidates that wait, else none. Raises `Refused`."""
    if name is not None:
        if name not in state.basins:
            raise Refused(f"no destination is called {name}", hint=f"there is: {', '.join(state.basins) or 'none'}")
        return name
    found = {basin.id: len(waiting(state, basin)) for basin in state.basins.values()}
    found = {basin: count for basin, count in found.items() if count}
    if len(found) > 1:
        listed = ", ".join(f"{basin} ({counted(count, 'candidate')})" for basin, count in found.items())
        raise Refused(f"several wait at the lock: {listed}", hint=f"orchconverge lock {next(iter(found))}")
    return next(iter(found), None)


def looked(git: Git, state: State, basin: Basin, branch: Branch) -> Looked:
    """What git says of a candidate and of those that wait beside it. Commits that are gone are left out."""
    queued = waiting(state, basin)
    heads, found = grounds(git, queued)
    head = heads.get(branch.id)
    others = [one.branch for one in found if one.branch != branch.id][:COMPARED] if head is not None else []
    merges = git.compare.merge_pairs([(heads[branch.id], heads[name]) for name in others])
    return Looked(
        target=git.resolve(f"refs/heads/{basin.target}"),
        difference=git.compare.difference(branch.base, head, patch=True) if head is not None else None,
        grounds=found,
        merges={(branch.id, name): merge for name, merge in zip(others, merges, strict=True)},
    )
