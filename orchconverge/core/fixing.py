"""What of a mind's word on the comments it was given counts: a fix by the commit that was taken, the rest by what stands there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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


class Told(Struct, frozen=True, kw_only=True):
    """What a mind says it did about a comment. What is `already_there` it shows by a quote of the file at ``path``."""

    id: str
    outcome: Literal["fixed", "already_there", "deferred", "not_done"]
    reason: Annotated[str, Meta(pattern=r"\S")]
    path: str = ""
    quote: str = ""


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


def claimed(told: Iterable[Told]) -> frozenset[str]:
    """The comments that a mind says it put right."""
    return frozenset(one.id for one in told if one.outcome == "fixed")


def counts(
    items: Iterable[Item],
    told: Sequence[Told],
    *,
    commit: Sha | None,
    refused: Verdict | None,
    files: Mapping[str, str],
    root: str,
) -> Mapping[str, Verdict]:
    """What of a mind's word counts, by key. ``commit`` has its fixes, or there is none, and ``refused`` says why."""
    found: dict[str, Verdict] = {}
    for item in items:
        said = next((one for one in told if one.id == item.key), None)
        reason = clean(said.reason, 400) if said is not None else ""
        if said is None:
            verdict = Verdict(outcome="not_done", reason="nothing was said of it")
        elif said.outcome == "fixed" and commit is not None:
            verdict = Verdict(outcome="fixed", reason=reason, commit=commit)
        elif said.outcome == "fixed":
            verdict = refused or Verdict(outcome="not_done", reason="it was called fixed, and nothing was committed")
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
