"""`diff`, `overlap` and `matrix`: attempts side by side. They look and write nothing."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import click
import msgspec
from msgspec import Struct

from orchconverge import bootstrap
from orchconverge.app.ground import grounds, merged
from orchconverge.cli.look import chosen_of
from orchconverge.core.matrix import Contrast, contrast, waiting
from orchconverge.core.matrix import matrix as compared
from orchconverge.core.overlap import Change, Difference, Ground, Merge
from orchconverge.core.overlap import overlap as overlapped
from orchconverge.core.state import Basin, Branch, Phase, State
from orchconverge.core.target import Sha
from orchconverge.core.values import Evidence
from orchconverge.core.views import compare as view
from orchconverge.core.views.text import clean
from orchconverge.errors import Refused
from orchconverge.ports import Git

NAMED = 20
"""So many branches are named to who asked for one that is not there."""


class Side(NamedTuple):
    """One side of a diff: what it is called, its commit, what it was seen to meet; ``base`` of a branch."""

    name: str
    commit: Sha
    results: Mapping[str, Evidence]
    base: Sha | None = None


class Compared(Struct, frozen=True, kw_only=True):
    """`diff --json`. ``since`` is the commit that the changes begin at: that of ``old``, or where ``new`` left the target."""

    old: str
    new: str
    old_commit: Sha
    new_commit: Sha
    since: Sha
    only_old: tuple[str, ...]
    only_new: tuple[str, ...]
    both: tuple[str, ...]
    neither: tuple[str, ...]
    unknown: tuple[str, ...]
    files: tuple[Change, ...]
    patch: str | None


@click.command()
@click.argument("a")
@click.argument("b", required=False)
@click.option("--tip", is_flag=True, help="Against the tip of the target, which is meant too where B is left out.")
@click.option("--stat", "only_stat", is_flag=True, help="Which files and how many lines, without the patch.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def diff(a: str, b: str | None, tip: bool, only_stat: bool, as_json: bool) -> int:
    """Show what tells two branches apart: the criteria that one alone meets, then files and lines.

    Two branches are compared as they are, from A to B. Of one branch it is shown what it changed since it left its target;
    its criteria are compared with those of the target's tip as it was last checked. Branches whose working tree is gone
    are found by their commits.

    --json: old (A, or the target), new, old_commit, new_commit, since;
    only_old, only_new, both, neither, unknown (criteria);
    files [{kind, path, old_path, added, removed}], patch (null with --stat)
    """
    if b is not None and tip:
        raise Refused("--tip stands for B: both were given", hint=f"orchconverge diff {a} --tip")
    reader = bootstrap.reader(bootstrap.here())
    reader.ledger.catch_up()
    state = reader.ledger.state
    git = _git(reader)
    branch = _branch(state, a)
    names = [c.name for c in state.basins[branch.basin].criteria if c.in_loop]
    if b is None:
        old, new = _tip(git, state.basins[branch.basin]), _side(git, branch)
        since = git.compare.fork(old.commit, new.commit) or old.commit
        if since == new.commit and new.base is not None:  # it is on the target: what it brought there
            since = new.base
    else:
        against = _branch(state, b)
        names += [c.name for c in state.basins[against.basin].criteria if c.in_loop]
        old, new = _side(git, branch), _side(git, against)
        since = old.commit
    found = git.compare.difference(since, new.commit, patch=not only_stat)
    apart = contrast(names, old.results, new.results)
    if as_json:
        _print_json(_compared(old, new, since, apart, found, only_stat=only_stat))
        return 0
    print(view.contrast(apart, clean(old.name), clean(new.name)))
    print(f"\n{clean(new.name)} since {since:.7}\n{view.stat(found)}")
    if found.patch:
        print(f"\n{view.patch(found)}", end="")
    return 0


def _compared(old: Side, new: Side, since: Sha, apart: Contrast, found: Difference, *, only_stat: bool) -> Compared:
    return Compared(
        old=old.name,
        new=new.name,
        old_commit=old.commit,
        new_commit=new.commit,
        since=since,
        only_old=apart.one,
        only_new=apart.other,
        both=apart.both,
        neither=apart.neither,
        unknown=apart.unknown,
        files=found.changes,
        patch=None if only_stat else found.patch,
    )


def _branch(state: State, name: str) -> Branch:
    if name not in state.branches:
        there = [*state.branches]
        more = f" and {len(there) - NAMED} more" if len(there) > NAMED else ""
        raise Refused(f"no branch is called {name}", hint=f"there is: {', '.join(there[-NAMED:]) or 'none'}{more}")
    return state.branches[name]


def _side(git: Git, branch: Branch) -> Side:
    found = git.compare.commits({branch.id: branch.head})
    if branch.id not in found:
        why = "its commit is not in this repository" if branch.head else f"it is {branch.phase.value}"
        raise Refused(f"{branch.id} has nothing to compare: {why}", hint="orchconverge status --verbose")
    return Side(branch.id, found[branch.id], {x.criterion: x for x in branch.evidence}, branch.base)


def _tip(git: Git, basin: Basin) -> Side:
    """The target as it was last checked, so that criteria and lines are those of one commit; unchecked, as it is."""
    commit = git.resolve(f"refs/heads/{basin.target}")
    if basin.tip is not None:
        checked = basin.tip.head
        if commit not in (checked, None):
            moved = f"{clean(basin.target)} moved to {commit:.7} since it was checked"
            print(f"orchconverge: {moved}: compared with {checked:.7}", file=sys.stderr)
        return Side(basin.target, checked, basin.tip.results)
    if commit is None:
        raise Refused(f"there is no branch {basin.target}, the target of {basin.id}", hint="name a second branch")
    return Side(basin.target, commit, {})


@click.command()
@click.argument("basin", required=False)
@click.option("--all", "also_settled", is_flag=True, help="Also pruned and failed branches whose commits are kept.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.option("--ascii", "in_ascii", is_flag=True, help="Only ASCII.")
def overlap(basin: str | None, also_settled: bool, as_json: bool, in_ascii: bool) -> int:
    """Show which candidates conflict, which claim the same lines, and what only one touches.

    Lines are those of the base that a candidate began from: of each pair those that both changed. "after 7" is the gap
    behind line 7, where both insert or where their changes touch.

    --json: basin; candidates [{branch, base, head, files, only}];
    pairs [{one, other, merges (null: cannot be told), conflicts, shared}];
    shared [{path, claimed (lines, whole, nothing, unknown), lines [{after, last}]}]
    """
    reader, found = _basin(basin, "overlap")
    state = reader.ledger.state
    settled = (Phase.PRUNED, Phase.FAILED)
    chosen = waiting(state, found.id)
    if also_settled:
        chosen = tuple(
            b for b in state.branches_of(found.id) if b in chosen or (b.phase in settled and b.head != b.base)
        )
    shown = overlapped(found.id, *_seen(_git(reader), chosen))
    if as_json:
        _print_json(shown)
    else:
        print(view.overlap(shown, ascii=_plain(in_ascii)))
    return 0


def _seen(git: Git, branches: Sequence[Branch]) -> tuple[Sequence[Ground], dict[tuple[str, str], Merge]]:
    """What these claim, and how each two of them merge. A branch whose commits are gone is left out, and said."""
    heads, found = grounds(git, branches)
    for branch in branches:
        if branch.id not in heads:
            print(f"orchconverge: the commits of {branch.id} are not here: it is left out", file=sys.stderr)
    return found, merged(git, found)


@click.command()
@click.argument("basin", required=False)
@click.option("--json", "as_json", is_flag=True, help="One JSON object, with every candidate.")
@click.option("--ascii", "in_ascii", is_flag=True, help="Only ASCII.")
def matrix(basin: str | None, as_json: bool, in_ascii: bool) -> int:
    """Show criteria x candidates: what the tip meets, what each candidate adds, what it would lose.

    Rows: the criteria that are not met first, the one that most branches did not meet on top. Columns: each time the
    candidate that adds most to those before it. More than four are shown only as long as they add something.

    --json: basin, target, tip, unmet;
    rows [{criterion, required, condition, tip, failures, approaches}];
    columns [{branch, head, cells, met, gains, losses, marginal, dominated_by, beyond}];
    a cell is met, gained, only, unmet, lost or unknown
    """
    reader, found = _basin(basin, "matrix")
    shown = compared(reader.ledger.state, found.id)
    if as_json:
        _print_json(shown)
    else:
        print(view.matrix(shown, ascii=_plain(in_ascii)))
    return 0


def _basin(name: str | None, command: str) -> tuple[bootstrap.Reader, Basin]:
    reader = bootstrap.reader(bootstrap.here())
    reader.ledger.catch_up()
    found = chosen_of(reader.ledger.state, name)
    if found is None:
        raise Refused(f"there is nothing to show a {command} of", hint='start one: orchconverge "…"')
    return reader, found


def _git(reader: bootstrap.Reader) -> Git:
    from orchconverge.adapters.git import Repository

    return Repository.open(bootstrap.here(), trees=reader.places.trees)


def _plain(asked: bool) -> bool:
    return asked or (sys.stdout.encoding or "").lower().replace("-", "") != "utf8"


def _print_json(shown: Struct) -> None:
    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(shown)) + b"\n")
