"""A forge for a repository that has none: the pull request is a record in our state, with what was said on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from orchconverge.core.secrets import masked, masked_in
from orchconverge.core.target import Sha
from orchconverge.files import own_folder, write_own
from orchconverge.ports.forge import (
    Account,
    Annotation,
    Check,
    Comment,
    ForgeError,
    Home,
    PullRequest,
    Remark,
    Reviewed,
    Thread,
    has_mark,
    marked,
)

NUMBER = 1
"""A record is of one basin, and a basin has one target branch: there is one pull request."""


class Record(Struct, kw_only=True):
    """What the file holds. ``head`` is where the branch stood when the record was last written."""

    basin: str
    branch: str
    base: str
    head: Sha | None
    state: Literal["open", "closed", "merged"] = "open"
    draft: bool = False
    title: str
    body: str
    labels: list[str] = []
    comments: list[Comment] = []
    resolved: list[int] = []


class Local:
    """The record of one basin in ``path``. ``resolve`` answers for branches, ``person`` is who speaks here."""

    kind: Literal["github", "local"] = "local"

    def __init__(
        self, path: Path, *, basin: str, base: str, resolve: Callable[[str], Sha | None], person: str = ""
    ) -> None:
        self.where = f"{path.parent.name}/{path.name}"
        self._path, self._basin, self._base, self._resolve = path, basin, base, resolve
        self._person = Account(login=person or "you")

    def home(self) -> Home:
        """The repository itself."""
        return Home(name=self._basin, default_branch=self._base)

    def me(self) -> Account:
        """Whoever works here: nobody is signed in."""
        return self._person

    # --- the pull request --------------------------------------------------------------------------------------------

    def find(self, branch: str) -> PullRequest | None:
        """The pull request that the record is of."""
        record = self._read()
        return self._shown(record) if record is not None and record.branch == branch else None

    def numbered(self, number: int) -> PullRequest:
        """The pull request of this number: there is but one."""
        return self._shown(self._there(number))

    def open(self, branch: str, *, base: str, title: str, body: str, draft: bool) -> PullRequest:
        """Write the record, or find the open one; it replaces one that is closed, or of a branch the basin had before."""
        record = self._read()
        if record is None or record.branch != branch or record.state != "open":
            record = Record(basin=self._basin, branch=branch, base=base, head=None, title=title, body=body, draft=draft)
            self._write(record)
        return self._shown(record)

    def update(
        self, number: int, *, title: str | None = None, body: str | None = None, draft: bool | None = None
    ) -> PullRequest:
        """Change what is given; ``head`` is brought up to date."""
        record = self._there(number)
        record.title = record.title if title is None else title
        record.body = record.body if body is None else body
        record.draft = record.draft if draft is None else draft
        self._write(record)
        return self._shown(record)

    def label(self, number: int, *, add: Sequence[str], remove: Sequence[str] = ()) -> None:
        """Put labels on, and take others off."""
        record = self._there(number)
        record.labels = list(dict.fromkeys([*(each for each in record.labels if each not in remove), *add]))
        self._write(record)

    # --- what is said on it ------------------------------------------------------------------------------------------

    def comments(self, number: int, *, since: datetime | None = None) -> tuple[Comment, ...]:
        """All that was said, oldest first."""
        said = self._there(number).comments
        return tuple(each for each in said if since is None or each.kind == "review" or each.at >= since)

    def say(self, number: int, body: str, *, marker: str) -> Comment:
        """A general comment."""
        return self._said(number, body, marker, kind="general")

    def answer(self, number: int, comment: Comment, body: str, *, marker: str) -> Comment:
        """Answer in the thread of an inline comment, any other one generally."""
        if comment.kind != "inline":
            return self.say(number, f"On {comment.author.login}'s comment {comment.id}:\n\n{body}", marker=marker)
        root = comment.answers or comment.id
        return self._said(number, body, marker, kind="inline", path=comment.path, line=comment.line, answers=root)

    def threads(self, number: int) -> tuple[Thread, ...]:
        """The threads of inline comments."""
        record = self._there(number)
        return tuple(
            Thread(id=str(each.id), root=each.id, resolved=each.id in record.resolved)
            for each in record.comments
            if each.kind == "inline" and each.answers is None
        )

    def resolve(self, thread: Thread) -> None:
        """Mark a thread as dealt with."""
        record = self._there(NUMBER)
        if thread.root not in record.resolved:
            record.resolved.append(thread.root)
            self._write(record)

    def review(self, number: int, body: str, *, head: Sha, remarks: Sequence[Remark], marker: str) -> Reviewed:
        """Write a review down, each remark with its line."""
        review = self._said(number, body, marker, kind="review", state="commented")
        for each in remarks:
            self._said(number, each.text, each.marker, kind="inline", path=each.path, line=each.line, review=review.id)
        return Reviewed(review=review)

    def checks(self, head: Sha) -> tuple[Check, ...]:
        """Nothing checks here but we ourselves."""
        return ()

    def annotations(self, check: Check) -> tuple[Annotation, ...]:
        """None."""
        return ()

    def log(self, check: Check) -> str:
        """None."""
        return ""

    def _said(
        self,
        number: int,
        body: str,
        marker: str,
        *,
        kind: Literal["general", "inline", "review"],
        path: str = "",
        line: int | None = None,
        answers: int | None = None,
        review: int | None = None,
        state: str = "",
    ) -> Comment:
        """What has this marker, as it now is: brought up to date, or added."""
        record = self._there(number)
        there = next((each for each in record.comments if each.kind == kind and has_mark(each.body, marker)), None)
        text = masked(marked(body, marker))
        if there is not None and there.body == text:
            return there
        made = Comment(
            id=there.id if there is not None else len(record.comments) + 1,
            kind=kind,
            author=self._person,
            association="OWNER",
            body=text,
            url="",
            at=there.at if there is not None else datetime.now(UTC),
            path=path,
            line=line,
            answers=answers,
            review=review,
            state=state,
        )
        record.comments = [made if each is there else each for each in record.comments] + [made] * (there is None)
        self._write(record)
        return made

    # --- the file ----------------------------------------------------------------------------------------------------

    def _shown(self, record: Record) -> PullRequest:
        return PullRequest(
            number=NUMBER,
            url="",
            state=record.state,
            draft=record.draft,
            title=record.title,
            body=record.body,
            branch=record.branch,
            base=record.base,
            head=self._resolve(record.branch),
            author=self._person,
            labels=tuple(record.labels),
        )

    def _read(self) -> Record | None:
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ForgeError("unreachable", f"{self.where} cannot be read: {error.strerror}") from error
        try:
            return msgspec.json.decode(data, type=Record)
        except (
            msgspec.MsgspecError
        ):  # a record of a version that kept less: what it says is in the ledger, and made again
            return None

    def _there(self, number: int) -> Record:
        record = self._read()
        if record is None or number != NUMBER:
            raise ForgeError(
                "not_found", f"there is no pull request {number} in {self.where}", hint="orchconverge pushl"
            )
        return record

    def _write(self, record: Record) -> None:
        record.head = self._resolve(record.branch)
        try:
            own_folder(self._path.parent)
            write_own(self._path, msgspec.json.format(msgspec.json.encode(masked_in(msgspec.to_builtins(record)))))
        except OSError as error:
            raise ForgeError("unreachable", f"{self.where} cannot be written: {error.strerror}") from error
