"""Reads what is said on a pull request: comments with their threads, reviews, failed checks, and what we answered before."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Set
from dataclasses import dataclass

from orchconverge.core.comments import Said, Verdict
from orchconverge.core.target import Sha
from orchconverge.core.views import comments as words
from orchconverge.ports.forge import Comment, Forge, ForgeError, Thread, has_mark

MARK = "copilot.{}"
"""The marker of the answer to a comment, by its key."""


@dataclass(frozen=True, kw_only=True)
class News:
    """What there is now. ``comments`` and ``answers`` are by key, ``threads`` by the comment that began them.

    ``answers`` are ours, with the outcome that they have; ``notes`` say what could not be read.
    """

    said: tuple[Said, ...]
    comments: Mapping[str, Comment]
    threads: Mapping[int, Thread]
    answers: Mapping[str, Verdict | None]
    notes: tuple[str, ...]


def news(forge: Forge, number: int, head: Sha) -> News:
    """All that is said on a pull request, and of ``head`` by its checks. Raises `ForgeError`."""
    listed, me = forge.comments(number), forge.me().login
    threads, notes = _threads(forge, number)
    checks, more = _checks(forge, head)
    own = {each for each in listed if each.author.login == me and "<!-- orchconverge:" in each.body}
    asks = {each.id for each in listed if each.kind == "review" and each.state == "changes_requested"}
    keys = {f"{each.kind}.{each.id}": each for each in listed}
    answered = ((key, next((one for one in own if has_mark(one.body, MARK.format(key))), None)) for key in keys)
    return News(
        said=(*(_said(key, each, threads, mine=each in own, asks=asks) for key, each in keys.items()), *checks),
        comments=keys,
        threads=threads,
        answers={key: words.answered(one.body) for key, one in answered if one is not None},
        notes=(*notes, *more),
    )


def _threads(forge: Forge, number: int) -> tuple[Mapping[int, Thread], tuple[str, ...]]:
    try:
        return {thread.root: thread for thread in forge.threads(number)}, ()
    except ForgeError as error:
        if error.kind not in ("not_found", "forbidden", "invalid"):
            raise
        return {}, (f"threads cannot be resolved on {forge.where}",)


def _checks(forge: Forge, head: Sha) -> tuple[tuple[Said, ...], tuple[str, ...]]:
    """The checks that failed. A token need not be allowed to read them."""
    try:
        checks = forge.checks(head)
    except ForgeError as error:
        if error.kind not in ("not_found", "forbidden"):
            raise
        return (), (f"checks of {head:.8} cannot be read on {forge.where}",)
    pending = sum(check.state == "pending" for check in checks)
    failed = tuple(
        Said(
            key=f"check.{hashlib.sha256(check.name.encode()).hexdigest()[:8]}.{head[:8]}",
            kind="check",
            author="",
            body=f"{check.name}: {check.said or 'failed'}",
            url=check.url,
        )
        for check in checks
        if check.state == "failed"
    )
    return failed, (f"checks of {head:.8} pending: {pending}",) if pending else ()


def _said(key: str, comment: Comment, threads: Mapping[int, Thread], *, mine: bool, asks: Set[int]) -> Said:
    root = comment.answers or comment.id
    thread = threads.get(root) if comment.kind == "inline" else None
    return Said(
        key=key,
        kind=comment.kind,
        author=comment.author.login,
        body=comment.body,
        association=comment.association,
        bot=comment.author.bot,
        mine=mine,
        url=comment.url,
        path=comment.path,
        line=comment.line,
        root=root if comment.kind == "inline" else 0,
        state=comment.state,
        asks=comment.state == "changes_requested" or (comment.review in asks and comment.answers is None),
        outdated=thread is not None and thread.outdated,
    )
