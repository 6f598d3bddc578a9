"""What GitHub answers, checked, and in our words. What it adds one day is ignored; what we need and is not there is an error."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import AliasPath, AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from orchconverge.core.target import Sha
from orchconverge.ports.forge import Account, Annotation, Check, Comment, ForgeError, Home, PullRequest, Thread

P = TypeVar("P", bound=BaseModel)
GHOST = Account(login="ghost")
"""How GitHub itself calls somebody whose account was deleted."""
GONE: Final = "a repository that was deleted"
Text = Annotated[str, BeforeValidator(lambda value: "" if value is None else value)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class _User(_Part):
    login: str
    type: str = "User"

    def account(self) -> Account:
        return Account(login=self.login, bot=self.type == "Bot" or self.login.endswith("[bot]"))


class _Repository(_Part):
    full_name: str
    default_branch: str
    html_url: str


class _Label(_Part):
    name: str


class _Named(_Part):
    full_name: str


class _End(_Part):
    ref: str
    sha: str


class _Head(_End):
    repo: _Named | None = _Named(full_name="")


class _Pull(_Part):
    number: int
    html_url: str
    state: str
    draft: bool = False
    title: str
    body: Text = ""
    head: _Head
    base: _End
    user: _User | None = None
    labels: list[_Label] = []
    merged_at: datetime | None = None
    mergeable: bool | None = None


class _Said(_Part):
    id: int
    body: Text = ""
    html_url: str
    user: _User | None = None
    author_association: str = "NONE"


class _General(_Said):
    created_at: AwareDatetime


class _Inline(_General):
    path: str
    line: int | None = None
    in_reply_to_id: int | None = None
    pull_request_review_id: int | None = None


class _Review(_Said):
    state: str
    submitted_at: AwareDatetime | None = None


class _Output(_Part):
    title: Text = ""
    summary: Text = ""
    annotations_count: int = 0


class _Run(_Part):
    id: int = 0
    name: str
    status: str
    conclusion: str | None = None
    html_url: str | None = None
    details_url: str | None = None
    output: _Output | None = None


class _Status(_Part):
    context: str
    state: str
    target_url: str | None = None
    description: Text = ""


class _Annotation(_Part):
    path: str
    start_line: int | None = None
    title: Text = ""
    message: Text = ""


class _Node(_Part):
    node_id: str


class _Viewer(_Part):
    viewer: _User


class _Root(_Part):
    databaseId: int | None


class _Roots(_Part):
    nodes: list[_Root]


class _Thread(_Part):
    id: str
    isResolved: bool
    isOutdated: bool
    comments: _Roots


class _PageInfo(_Part):
    hasNextPage: bool
    endCursor: str | None


class _Page(_Part):
    pageInfo: _PageInfo
    nodes: list[_Thread]


class _Threads(_Part):
    page: _Page = Field(validation_alias=AliasPath("repository", "pullRequest", "reviewThreads"))


_STATES: Final[Mapping[str, Literal["passed", "failed", "pending"]]] = {
    "success": "passed",
    "neutral": "passed",
    "skipped": "passed",
    "pending": "pending",
}
"""How a check ended, or that it has not; every other word of GitHub's is a failure."""


_JOB: Final = re.compile(r"/actions/runs/\d+/job/(\d+)")
"""The log of a check run is that of the workflow's job, whose id stands in its address alone."""


def checked(kind: type[P], data: object) -> P:
    """One answer as it has to be. Raises `ForgeError`."""
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise ForgeError(
            "server",
            f"the forge answered something else than GitHub does: {where or 'the answer'}: {first['msg']}",
            hint="is the address that of a GitHub API?",
        ) from error


def user(data: object) -> Account:
    """An account."""
    return checked(_User, data).account()


def home(data: object) -> Home:
    """A repository."""
    found = checked(_Repository, data)
    return Home(name=found.full_name, default_branch=found.default_branch, url=found.html_url)


def pull(data: object) -> PullRequest:
    """A pull request; its ``fork`` is the repository of its branch, whichever that is."""
    found = checked(_Pull, data)
    return PullRequest(
        number=found.number,
        url=found.html_url,
        state="merged" if found.merged_at is not None else "open" if found.state == "open" else "closed",
        draft=found.draft,
        title=found.title,
        body=found.body.replace("\r\n", "\n"),
        branch=found.head.ref,
        base=found.base.ref,
        head=Sha(found.head.sha),
        author=found.user.account() if found.user is not None else GHOST,
        labels=tuple(label.name for label in found.labels),
        mergeable=found.mergeable,
        fork=found.head.repo.full_name if found.head.repo is not None else GONE,
    )


def general(data: object) -> Comment:
    """A comment on the pull request as a whole."""
    found = checked(_General, data)
    return Comment(**_said(found), kind="general", at=found.created_at)


def inline(data: object) -> Comment:
    """A comment on a line or a file."""
    found = checked(_Inline, data)
    return Comment(
        **_said(found),
        kind="inline",
        at=found.created_at,
        path=found.path,
        line=found.line,
        answers=found.in_reply_to_id,
        review=found.pull_request_review_id,
    )


def review(data: object) -> Comment | None:
    """A review; ``None`` for one that its author has not sent yet."""
    found = checked(_Review, data)
    if found.submitted_at is None:
        return None
    return Comment(**_said(found), kind="review", at=found.submitted_at, state=found.state.lower())


def _said(found: _Said) -> dict[str, Any]:
    return {
        "id": found.id,
        "body": found.body.replace("\r\n", "\n"),
        "url": found.html_url,
        "author": found.user.account() if found.user is not None else GHOST,
        "association": found.author_association,
    }


def threads(data: object) -> tuple[list[Thread], str | None]:
    """A page of threads, those without comments left out, and the cursor of the next one."""
    page = checked(_Threads, data).page
    found = [
        Thread(id=each.id, root=root, resolved=each.isResolved, outdated=each.isOutdated)
        for each in page.nodes
        if each.comments.nodes and (root := each.comments.nodes[0].databaseId) is not None
    ]
    return found, page.pageInfo.endCursor if page.pageInfo.hasNextPage else None


def viewer(data: object) -> Account:
    """Who is signed in, by GraphQL."""
    return checked(_Viewer, data).viewer.account()


def node(data: object) -> str:
    """The id by which GraphQL knows what REST answered."""
    return checked(_Node, data).node_id


def checks(runs: Iterable[object], statuses: Iterable[object]) -> tuple[Check, ...]:
    """Check runs and statuses, by name."""
    found: dict[str, Check] = {}
    for data in statuses:
        status = checked(_Status, data)
        check = Check(
            name=status.context,
            state=_STATES.get(status.state, "failed"),
            url=status.target_url or "",
            said=status.state,
            text=status.description,
        )
        found.setdefault(status.context, check)
    for run in sorted((checked(_Run, data) for data in runs), key=lambda run: run.id):  # of one name the newest counts
        said = (run.conclusion or "") if run.status == "completed" else "pending"
        address, output = run.html_url or run.details_url or "", run.output or _Output()
        job = _JOB.search(address) or _JOB.search(run.details_url or "")
        found[run.name] = Check(
            name=run.name,
            state=_STATES.get(said, "failed"),
            url=address,
            said=run.conclusion or run.status,
            text="\n".join(filter(None, (output.title, output.summary))),
            run=run.id if output.annotations_count else 0,
            job=int(job[1]) if job is not None else 0,
        )
    return tuple(found[name] for name in sorted(found))


def annotation(data: object) -> Annotation:
    """What a check run remarks on a line."""
    found = checked(_Annotation, data)
    text = ": ".join(filter(None, (found.title, found.message)))
    return Annotation(path=found.path, line=found.start_line, text=text)
