"""Reads what is said on a pull request: comments with their threads, reviews, failed checks, and what we answered before."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from orchconverge.core.checks import text
from orchconverge.core.comments import MOST_ITEMS, REPAIRABLE, Said, Verdict
from orchconverge.core.target import Sha
from orchconverge.core.views import comments as words
from orchconverge.core.views.text import clean
from orchconverge.ports.forge import Annotation, Check, Comment, Forge, ForgeError, Thread, has_mark

MARK = "copilot.{}"
"""The marker of the answer to a comment, by its key."""
NO_FILE = ".github"
"""The path of what a workflow of GitHub remarks on no file."""


@dataclass(frozen=True, kw_only=True)
class News:
    """What there is now. ``comments`` and ``answers`` are by key, ``threads`` by the comment that began them.

    ``answers`` are ours, with the outcome that they have; ``checks`` are those of the head, ``notes`` say what could not be
    read.
    """

    said: tuple[Said, ...]
    comments: Mapping[str, Comment]
    threads: Mapping[int, Thread]
    answers: Mapping[str, Verdict | None]
    notes: tuple[str, ...]
    checks: tuple[Check, ...] = ()

    @property
    def running(self) -> tuple[Check, ...]:
        """The checks that have not ended."""
        return tuple(check for check in self.checks if check.state == "pending")


NOTHING_NEW = News(said=(), comments={}, threads={}, answers={}, notes=())


def news(forge: Forge, number: int, head: Sha, *, before: News = NOTHING_NEW) -> News:
    """All that is said on a pull request, and of ``head`` by its checks; of what was read ``before`` no log is read again.

    Raises `ForgeError`.
    """
    listed, me = forge.comments(number), forge.me().login
    threads, notes = _threads(forge, number)
    checks, failed, more = _checks(forge, head, before)
    own = {each for each in listed if each.author.login == me and "<!-- orchconverge:" in each.body}
    asks = {each.id for each in listed if each.kind == "review" and each.state == "changes_requested"}
    keys = {f"{each.kind}.{each.id}": each for each in listed}
    answered = ((key, next((one for one in own if has_mark(one.body, MARK.format(key))), None)) for key in keys)
    return News(
        said=(*(_said(key, each, threads, mine=each in own, asks=asks) for key, each in keys.items()), *failed),
        comments=keys,
        threads=threads,
        answers={key: words.answered(one.body) for key, one in answered if one is not None},
        notes=(*notes, *more),
        checks=checks,
    )


def states(checks: Sequence[Check]) -> tuple[tuple[str, str], ...]:
    """How each of the checks stands, whatever they say meanwhile."""
    return tuple((check.name, check.state) for check in checks)


def _threads(forge: Forge, number: int) -> tuple[Mapping[int, Thread], tuple[str, ...]]:
    try:
        return {thread.root: thread for thread in forge.threads(number)}, ()
    except ForgeError as error:
        return {}, (unresolved(forge, error),)


def unresolved(forge: Forge, error: ForgeError) -> str:
    """That threads stay as they are, since the forge has none or the token may not; what else went wrong is raised again."""
    if error.kind not in ("not_found", "forbidden", "invalid"):
        raise error
    return f"threads cannot be resolved on {forge.where}"


def _checks(forge: Forge, head: Sha, before: News) -> tuple[tuple[Check, ...], tuple[Said, ...], tuple[str, ...]]:
    """The checks, what the failed ones say, and what could not be read: a token need not be allowed to."""
    try:
        checks = forge.checks(head)
    except ForgeError as error:
        if error.kind not in ("not_found", "forbidden"):
            raise
        return (), (), (f"checks of {head:.8} cannot be read on {forge.where}",)
    known = {said.key: said for said in before.said}
    heard: list[Said] = []
    notes: list[str] = []
    for check in [check for check in checks if check.state == "failed"][:MOST_ITEMS]:
        key = f"check.{hashlib.sha256(check.name.encode()).hexdigest()[:8]}.{head[:8]}"
        if key in known and check in before.checks:
            heard.append(known[key])
            continue
        remarks, log, missing = _details(forge, check)
        notes += missing
        heard.append(
            Said(
                key=key,
                kind="check",
                author="",
                body=text(
                    check.name,
                    check.said or "failed",
                    words=check.text,
                    remarks=[(each.path, each.line, each.text) for each in remarks],
                    log=log,
                ),
                url=check.url,
                state=check.said,
                about=tuple(dict.fromkeys(each.path for each in remarks if each.path != NO_FILE)),
            )
        )
    return checks, tuple(heard), tuple(notes)


def _details(forge: Forge, check: Check) -> tuple[tuple[Annotation, ...], str, list[str]]:
    """What a failed check remarks and the end of its log, and what of it could not be read: then it is told without."""
    remarks: tuple[Annotation, ...] = ()
    log, missing = "", list[str]()
    if check.said and check.said not in REPAIRABLE:  # no mind will be asked about it
        return remarks, log, missing
    try:
        remarks = forge.annotations(check)
    except ForgeError as error:
        missing.append(f"the remarks of check {clean(check.name, 60)} cannot be read: {error.message}")
    try:
        log = forge.log(check)
    except ForgeError as error:
        missing.append(f"the log of check {clean(check.name, 60)} cannot be read: {error.message}")
    return remarks, log, missing


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
        resolved=thread is not None and thread.resolved,
    )
