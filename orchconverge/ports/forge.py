"""The forge: where a pull request of the target branch is, what is said on it, and what its checks say."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, Protocol

from orchconverge.core.seen import Answer
from orchconverge.core.target import Sha
from orchconverge.errors import OrchConvergeError

Trouble = Literal[
    "unreachable", "unauthorised", "forbidden", "not_found", "conflict", "invalid", "rate_limited", "server"
]


class ForgeError(OrchConvergeError):
    """What a forge would not or could not do. ``until`` is when a rate limit ends, where that is known.

    Only `unreachable` and `server` leave it open whether what was asked for was done.
    """

    def __init__(self, kind: Trouble, message: str, *, hint: str = "", until: datetime | None = None) -> None:
        super().__init__(message, hint=hint)
        self.kind = kind
        self.until = until

    @property
    def ambiguous(self) -> bool:
        """Whether it may have been done all the same: then look before it is tried again."""
        return self.kind in ("unreachable", "server")


class Account(Answer, frozen=True, kw_only=True):
    """Somebody on the forge."""

    login: str
    bot: bool = False


class Home(Answer, frozen=True, kw_only=True):
    """The repository as the forge calls it now: a renamed one answers with its new ``name``, ``OWNER/NAME``."""

    name: str
    default_branch: str
    url: str = ""


class PullRequest(Answer, frozen=True, kw_only=True):
    """A pull request from ``branch``, which stands at ``head``, into ``base``.

    ``mergeable`` is ``None`` while the forge does not know; it says nothing of checks. ``fork`` is the repository that its
    branch is in, if that is not where we push to.
    """

    number: int
    url: str
    state: Literal["open", "closed", "merged"]
    draft: bool
    title: str
    body: str
    branch: str
    base: str
    head: Sha | None
    author: Account
    labels: tuple[str, ...] = ()
    mergeable: bool | None = None
    fork: str = ""


class Comment(Answer, frozen=True, kw_only=True):
    """Something that was said on a pull request; ``id`` is unique among those of its ``kind``.

    An `inline` one is about ``path`` and ``line``; without a line it is about the file, or about what has changed since.
    ``answers`` is the id of the inline comment that began its thread. ``state`` is a review's, such as `commented`.
    ``association`` is the author's to the repository, as the forge says it: `OWNER`, `MEMBER`, `NONE`.
    """

    id: int
    kind: Literal["general", "inline", "review"]
    author: Account
    association: str
    body: str
    url: str
    at: datetime
    path: str = ""
    line: int | None = None
    answers: int | None = None
    review: int | None = None
    state: str = ""


class Thread(Answer, frozen=True, kw_only=True):
    """A conversation on a line: ``id`` is the forge's own, ``root`` the id of the inline comment that began it."""

    id: str
    root: int
    resolved: bool
    outdated: bool = False


class Check(Answer, frozen=True, kw_only=True):
    """A check run or a status of a commit, the newest of its name. ``said`` is the forge's own word for how it ended.

    ``text`` is what it says of itself. ``run`` is the id of a check run that remarks on lines, ``job`` that of what has a
    log; 0: there is none.
    """

    name: str
    state: Literal["passed", "failed", "pending"]
    url: str = ""
    said: str = ""
    text: str = ""
    run: int = 0
    job: int = 0


class Annotation(Answer, frozen=True, kw_only=True):
    """What a check run remarks on a line; a path need not be a file's."""

    path: str
    line: int | None
    text: str


class Remark(Answer, frozen=True, kw_only=True):
    """What a review says of a line of the head commit. ``marker`` tells it from every other one on the pull request."""

    path: str
    line: int
    text: str
    marker: str


class Reviewed(Answer, frozen=True, kw_only=True):
    """A review as it stands on the forge. ``unplaced`` are remarks on lines that the forge would not take."""

    review: Comment
    unplaced: tuple[Remark, ...] = ()


class Forge(Protocol):
    """One repository on a forge. Every call is bounded in time, retries included, and raises `ForgeError` alone.

    What has a ``marker`` (``[a-z0-9.:-]+``) is done once as seen from outside: it is looked for among what this account
    has said, and brought up to date if it is there.
    """

    kind: Literal["github", "local"]
    where: str
    """The forge in words, with no secret in it: ``github.com/acme/shop``."""

    def home(self) -> Home:
        """The repository. `not_found` also if this account may not see it."""

    def me(self) -> Account:
        """Whose credentials are used."""

    def find(self, branch: str) -> PullRequest | None:
        """The pull request of a head branch: the open one, else the newest."""

    def numbered(self, number: int) -> PullRequest:
        """The pull request of this number."""

    def open(self, branch: str, *, base: str, title: str, body: str, draft: bool) -> PullRequest:
        """Open a pull request, or find the open one that is there."""

    def update(
        self, number: int, *, title: str | None = None, body: str | None = None, draft: bool | None = None
    ) -> PullRequest:
        """Change what is given, and only if it differs."""

    def label(self, number: int, *, add: Sequence[str], remove: Sequence[str] = ()) -> None:
        """Put labels on, which the repository need not know yet, and take others off; one that is not there is no error."""

    def comments(self, number: int, *, since: datetime | None = None) -> tuple[Comment, ...]:
        """All that was said, oldest first; with ``since`` only what was said or edited from then on, but all reviews."""

    def say(self, number: int, body: str, *, marker: str) -> Comment:
        """A general comment."""

    def answer(self, number: int, comment: Comment, body: str, *, marker: str) -> Comment:
        """Answer in the thread of an inline comment; any other one, or where that is refused, generally, with a link to it."""

    def threads(self, number: int) -> tuple[Thread, ...]:
        """The threads of inline comments. `not_found` where the forge has no such thing."""

    def resolve(self, thread: Thread) -> None:
        """Mark a thread as dealt with."""

    def review(self, number: int, body: str, *, head: Sha, remarks: Sequence[Remark], marker: str) -> Reviewed:
        """Post a review of ``head`` that neither approves nor requests changes, each remark on its line."""

    def checks(self, head: Sha) -> tuple[Check, ...]:
        """What the checks of a commit say, by name."""

    def annotations(self, check: Check) -> tuple[Annotation, ...]:
        """What a check remarks on lines; of very many the first."""

    def log(self, check: Check) -> str:
        """The end of a check's log, `MOST_LOG` bytes at most, as it was written; empty if it has none."""


MOST_LOG = 128 << 10
MARK = "<!-- orchconverge:{} -->"


def marked(body: str, marker: str) -> str:
    """The text with a marker that a reader does not see."""
    return f"{body.rstrip()}\n\n{MARK.format(marker)}"


def has_mark(body: str, marker: str) -> bool:
    """Whether a text carries this marker."""
    return MARK.format(marker) in body
