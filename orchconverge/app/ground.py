"""Where candidates stand, asked of git: which lines each claims, and how each two of them merge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

from orchconverge.core.overlap import Ground, Merge
from orchconverge.core.state import Branch
from orchconverge.core.target import Sha
from orchconverge.ports import Git


def grounds(git: Git, branches: Sequence[Branch]) -> tuple[Mapping[str, Sha], tuple[Ground, ...]]:
    """The heads of those whose commits are here, by branch, and the ground of each of them that changes something."""
    heads = git.compare.commits({one.id: one.head for one in branches}) if branches else {}
    there = [one for one in branches if heads.get(one.id, one.base) != one.base]
    claims = git.compare.claims([(one.base, heads[one.id]) for one in there])
    return heads, tuple(
        Ground(branch=one.id, base=one.base, head=heads[one.id], claims=claimed)
        for one, claimed in zip(there, claims, strict=True)
    )


def merged(git: Git, them: Sequence[Ground]) -> dict[tuple[str, str], Merge]:
    """Each two of them, by their branches."""
    pairs = list(combinations(them, 2))
    merges = git.compare.merge_pairs([(one.head, other.head) for one, other in pairs])
    return {(one.branch, other.branch): merge for (one, other), merge in zip(pairs, merges, strict=True)}
