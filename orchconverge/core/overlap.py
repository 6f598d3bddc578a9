"""Whose changes stand on the same ground: the lines of the base that each candidate claims, and what two of them both claim."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Literal

from msgspec import Struct

from orchconverge.core.target import Sha


class Lines(Struct, frozen=True, order=True):
    """Lines of a base file: those from ``after`` + 1 up to ``last``. If these are equal it is the gap behind that line.

    Two that touch claim the same ground, for git merges neither two insertions at one place nor changes of neighbours.
    """

    after: int
    last: int


class Claim(Struct, frozen=True):
    """What one candidate changes in one file of its base.

    ``blob`` is the content that the lines are counted in, empty for a file that is not there. ``lines`` ascend and do not
    touch; none: the name or the mode alone; ``None``: the whole file (new, deleted, binary, a link).
    """

    path: str
    blob: str
    lines: tuple[Lines, ...] | None


class Merge(Struct, frozen=True):
    """Whether two commits merge without conflict, ``None`` if it cannot be told, and the files that conflict."""

    clean: bool | None
    conflicts: tuple[str, ...] = ()


class Change(Struct, frozen=True, kw_only=True):
    """A file that differs: ``kind`` as git has it (A, D, M, R, T), ``old_path`` of a rename, lines or ``None`` if binary."""

    kind: str
    path: str
    old_path: str = ""
    added: int | None
    removed: int | None


class Difference(Struct, frozen=True, kw_only=True):
    """All that differs between two commits; ``patch`` is empty where it was not asked for."""

    changes: tuple[Change, ...]
    patch: str = ""


class Ground(Struct, frozen=True, kw_only=True):
    """One candidate and what it claims of its base."""

    branch: str
    base: Sha
    head: Sha
    claims: tuple[Claim, ...]


class Shared(Struct, frozen=True, kw_only=True):
    """A file that both touch. ``claimed``: ``lines`` of it, the ``whole`` file, ``nothing`` in common but the file.

    ``unknown``: they began from different contents of it, whose lines cannot be compared.
    """

    path: str
    claimed: Literal["lines", "whole", "nothing", "unknown"]
    lines: tuple[Lines, ...] = ()


class Pair(Struct, frozen=True, kw_only=True):
    """How two candidates stand to one another; ``merges`` is ``None`` if it cannot be told."""

    one: str
    other: str
    merges: bool | None
    conflicts: tuple[str, ...]
    shared: tuple[Shared, ...]

    @property
    def contested(self) -> tuple[Shared, ...]:
        """The files in which both claim the same ground, as far as can be told."""
        return tuple(file for file in self.shared if file.claimed in ("lines", "whole"))


class Touched(Struct, frozen=True, kw_only=True):
    """The files of one candidate: how many, and which of them no other touches."""

    branch: str
    base: Sha
    head: Sha
    files: int
    only: tuple[str, ...]


class Overlap(Struct, frozen=True, kw_only=True):
    """All candidates and every pair of them, in the order in which they were spawned."""

    basin: str
    candidates: tuple[Touched, ...]
    pairs: tuple[Pair, ...]


def overlap(basin: str, grounds: Sequence[Ground], merges: Mapping[tuple[str, str], Merge]) -> Overlap:
    """Compare every pair. ``merges`` has an answer for each two branches, in the order of ``grounds``."""
    counted = Counter(claim.path for ground in grounds for claim in ground.claims)
    claimed = {ground.branch: {claim.path: claim for claim in ground.claims} for ground in grounds}
    pairs = []
    for one, other in combinations(claimed, 2):
        merge = merges[one, other]
        shared = _shared(claimed[one], claimed[other])
        pairs.append(Pair(one=one, other=other, merges=merge.clean, conflicts=merge.conflicts, shared=shared))
    return Overlap(
        basin=basin,
        candidates=tuple(
            Touched(
                branch=ground.branch,
                base=ground.base,
                head=ground.head,
                files=len(ground.claims),
                only=tuple(claim.path for claim in ground.claims if counted[claim.path] == 1),
            )
            for ground in grounds
        ),
        pairs=tuple(pairs),
    )


def _shared(one: Mapping[str, Claim], other: Mapping[str, Claim]) -> tuple[Shared, ...]:
    return tuple(_file(one[path], other[path]) for path in sorted(one.keys() & other.keys()))


def _file(one: Claim, other: Claim) -> Shared:
    if one.blob != other.blob:
        return Shared(path=one.path, claimed="unknown")
    lines = both(one.lines, other.lines)
    if lines is None:
        return Shared(path=one.path, claimed="whole")
    return Shared(path=one.path, claimed="lines" if lines else "nothing", lines=lines)


def both(one: tuple[Lines, ...] | None, other: tuple[Lines, ...] | None) -> tuple[Lines, ...] | None:
    """The ground that two claims of one file have in common; ``None`` is the whole file, in and out."""
    if one is None or other is None:
        return other if one is None else one
    found, here, there = [], 0, 0
    while here < len(one) and there < len(other):
        after = max(one[here].after, other[there].after)
        last = min(one[here].last, other[there].last)
        if after <= last:
            found.append(Lines(after, last))
        if one[here].last < other[there].last:
            here += 1
        else:
            there += 1
    return tuple(found)
