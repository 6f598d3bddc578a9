"""What of a mind's word on the comments it was given counts: a fix by the commit that was taken, the rest by what stands there."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta, Struct

from orchconverge.core.comments import MOST_ITEMS, Item, Scope, Verdict, protected
from orchconverge.core.flags import Changes, flags
from orchconverge.core.judging import inside, stands
from orchconverge.core.target import Sha
from orchconverge.core.views.text import clean

MOST_ANSWER: Final = 256 << 10
"""Bytes of an answer that is read."""
LEAST_ID: Final = 7
"""Digits of a commit's id that name it."""


class Told(Struct, frozen=True, kw_only=True):
    """What a mind says it did about a comment. What is `already_there` it shows by a quote of the file at ``path``.

    ``commit`` is the one of its own that has the fix, or the beginning of its id.
    """

    id: str
    outcome: Literal["fixed", "already_there", "deferred", "not_done"]
    reason: Annotated[str, Meta(pattern=r"\S")]
    path: str = ""
    quote: str = ""
    commit: str = ""


class Done(Struct, frozen=True, kw_only=True):
    """A commit that a mind made, and the paths in which it differs from the one before."""

    commit: Sha
    changed: tuple[str, ...]


class Fix(Struct, frozen=True, kw_only=True):
    """What a mind's ``commit``, after that of the fix before, puts right: the ``keys`` of comments."""

    commit: Sha
    keys: tuple[str, ...]


def answers(data: bytes | None) -> tuple[Told, ...]:
    """What a mind wrote, entries that are none left out. Raises `ValueError` that says why it is no answer."""
    if data is None or not data.strip():
        raise ValueError("it wrote no answer")
    if len(data) > MOST_ANSWER:
        raise ValueError(f"its answer is longer than {MOST_ANSWER >> 10} KiB")
    try:
        found: Any = msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"))
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ValueError(f"its answer cannot be read: {clean(str(error), 150)}") from error
    listed = found.get("comments") if isinstance(found, dict) else None
    if not isinstance(listed, list):
        raise ValueError("its answer has no list of comments")
    out: list[Told] = []
    for each in listed[: 10 * MOST_ITEMS]:
        try:
            out.append(msgspec.convert(each, Told))
        except (msgspec.MsgspecError, RecursionError):
            continue
    return tuple(out)


def fixes(items: Iterable[Item], told: Sequence[Told], done: Sequence[Done]) -> tuple[Fix, ...]:
    """The commits of a mind, oldest first, by the comments that it says each puts right.

    A comment goes with the commit that is named for it; else with the newest that changes its file; else with the last one.
    A commit with no comment goes with the next that has one, and what follows the last of them with that.
    """
    if not done:
        return ()
    goes: dict[Sha, list[str]] = {}
    for item in items:
        said = next((one for one in told if one.id == item.key and one.outcome == "fixed"), None)
        if said is not None:
            goes.setdefault(_commit_of(item, said, done), []).append(item.key)
    found = [Fix(commit=one.commit, keys=tuple(goes[one.commit])) for one in done if one.commit in goes]
    return (*found[:-1], Fix(commit=done[-1].commit, keys=found[-1].keys)) if found else ()


def _commit_of(item: Item, said: Told, done: Sequence[Done]) -> Sha:
    name = said.commit.strip().lower()
    named = [one.commit for one in done if len(name) >= LEAST_ID and one.commit.startswith(name)]
    there = [one.commit for one in done if set(item.paths) & set(one.changed)]
    return named[0] if len(named) == 1 else there[-1] if there else done[-1].commit


def counts(
    items: Iterable[Item],
    told: Sequence[Told],
    *,
    taken: Mapping[str, Sha],
    refused: Mapping[str, Verdict],
    waiting: Container[str] = (),
    files: Mapping[str, str],
    root: str,
) -> Mapping[str, Verdict]:
    """What of a mind's word counts, by key. ``taken`` are the commits that have its fixes, ``refused`` says of others why not.

    What is ``waiting`` has no outcome yet.
    """
    found: dict[str, Verdict] = {}
    for item in items:
        if item.key in waiting:
            continue
        said = next((one for one in told if one.id == item.key), None)
        reason = clean(said.reason, 400) if said is not None else ""
        if said is None:
            verdict = Verdict(outcome="not_done", reason="nothing was said of it")
        elif said.outcome == "fixed" and item.key in taken:
            verdict = Verdict(outcome="fixed", reason=reason, commit=taken[item.key])
        elif said.outcome == "fixed":
            nothing = Verdict(outcome="not_done", reason="it was called fixed, and nothing was committed")
            verdict = refused.get(item.key, nothing)
        elif said.outcome == "already_there" and not _shown(said, files, root):
            verdict = Verdict(
                outcome="not_done", reason="it was called already there, and no quote of it stands in the tree"
            )
        else:
            verdict = Verdict(outcome=said.outcome, reason=reason)
        found[item.key] = verdict
    return found


def quoted(told: Iterable[Told], *, root: str) -> tuple[str, ...]:
    """The paths that quotes are said to stand at."""
    return tuple(dict.fromkeys(path for one in told if one.path and (path := inside(one.path, root=root))))


def _shown(said: Told, files: Mapping[str, str], root: str) -> bool:
    path = inside(said.path, root=root)
    return path in files and stands(said.quote, files[path]) is not None


def objection(work: Changes, scope: Scope) -> tuple[Verdict | None, tuple[str, ...]]:
    """Why a fix is not taken whatever the criteria say of it, and those of its paths that lead out of scope."""
    person = (*flags(work, scope.criteria, scope.may_change), *protected(work.changed, scope))
    if person:
        reason = f"putting it right changes {person[0].partition(': ')[2]}, which is for a person ({person[0]})"
        return Verdict(outcome="acknowledged", reason=reason), ()
    grown = scope.grown(work.changed)
    if grown:
        reason = f"what was tried changes {grown[0]} too, which this pull request is not about"
        return Verdict(outcome="deferred", reason=reason), grown
    return None, ()
