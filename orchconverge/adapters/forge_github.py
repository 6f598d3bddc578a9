"""GitHub and GitHub Enterprise as a forge: REST, and GraphQL for what only that can do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Literal, TypeVar
from urllib.parse import quote

from msgspec.structs import replace

from orchconverge.adapters import forge_answers as answers
from orchconverge.adapters.forge_calls import MOST_PAGES, PER_PAGE, Calls
from orchconverge.adapters.forge_graphql import DRAFT, READY, RESOLVE, THREADS, VIEWER
from orchconverge.adapters.forge_urls import Address
from orchconverge.core.target import Sha
from orchconverge.ports.forge import (
    MOST_LOG,
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

T = TypeVar("T")


class GitHub:
    """One repository, at ``address``. ``head_owner`` has the branches that are pushed, if it is not the owner: a fork."""

    kind: Literal["github", "local"] = "github"

    def __init__(self, address: Address, calls: Calls, *, head_owner: str = "") -> None:
        self.where = f"{address.host}/{address.owner}/{address.name}"
        self._address, self._calls, self.head_owner = address, calls, head_owner
        self._home: Home | None = None
        self._me: Account | None = None

    def home(self) -> Home:
        """The repository."""
        if self._home is None:
            self._home = answers.home(self._calls.ask("GET", self._address.path).data)
        return self._home

    def me(self) -> Account:
        """Whose token it is. The token of an app has no user: GraphQL then says what the app is called."""
        if self._me is None:
            try:
                self._me = answers.user(self._calls.ask("GET", "/user").data)
            except ForgeError as error:
                if error.kind != "forbidden":
                    raise
                self._me = answers.viewer(self._calls.graphql(VIEWER, {}))
        return self._me

    def _path(self, rest: str) -> str:
        """A path below the repository, by the name that it has now: what a redirection would lose is its query."""
        owner, _, name = self.home().name.partition("/")
        return f"/repos/{quote(owner)}/{quote(name)}{rest}"

    def _send(self, verb: str, path: str, body: Mapping[str, object]) -> object:
        return self._calls.ask(verb, self._path(path), body=dict(body)).data

    # --- the pull request --------------------------------------------------------------------------------------------

    def _pull(self, data: object) -> PullRequest:
        """A pull request, with a ``fork`` if its branch is not where we push to."""
        found, home = answers.pull(data), self.home().name
        ours = found.fork.partition("/")[0] == self.head_owner if self.head_owner else found.fork == home
        return replace(found, fork="") if ours or not found.fork else found

    def find(self, branch: str) -> PullRequest | None:
        """The pull request of a head branch: the open one, else the newest."""
        owner = self.head_owner or self.home().name.partition("/")[0]
        asked = {"head": f"{owner}:{branch}", "state": "all", "sort": "created", "direction": "desc"}
        listed = self._calls.pages(self._path("/pulls"), parameters=asked)
        found = [pull for pull in map(self._pull, listed) if pull.branch == branch]
        return next((pull for pull in found if pull.state == "open"), found[0] if found else None)

    def numbered(self, number: int) -> PullRequest:
        """The pull request of this number."""
        return self._pull(self._calls.ask("GET", self._path(f"/pulls/{number}")).data)

    def open(self, branch: str, *, base: str, title: str, body: str, draft: bool) -> PullRequest:
        """Open a pull request, or find the open one that is there."""
        head = f"{self.head_owner}:{branch}" if self.head_owner else branch
        asked = {"title": title, "head": head, "base": base, "body": body}

        def look() -> PullRequest | None:
            found = self.find(branch)
            return found if found is not None and found.state == "open" else None

        def make() -> PullRequest:
            try:
                return self._pull(self._send("POST", "/pulls", {**asked, "draft": draft}))
            except ForgeError as error:
                if error.kind != "invalid" or not draft:
                    raise
            return self._pull(self._send("POST", "/pulls", asked))  # not every plan has drafts

        return _once(look, make, also=("invalid",))

    def update(
        self, number: int, *, title: str | None = None, body: str | None = None, draft: bool | None = None
    ) -> PullRequest:
        """Change what is given, and only if it differs. Whether it is a draft is GraphQL's to change."""
        now = self.numbered(number)
        changed = {
            name: value
            for name, value, was in (("title", title, now.title), ("body", body, now.body))
            if value is not None and self._calls.harmless(value).rstrip() != was.rstrip()
        }
        if changed:
            now = self._pull(self._send("PATCH", f"/pulls/{number}", changed))
        if draft is not None and draft is not now.draft:
            node = answers.node(self._calls.ask("GET", self._path(f"/pulls/{number}")).data)
            self._calls.graphql(DRAFT if draft else READY, {"id": node})
            now = self.numbered(number)
        return now

    def label(self, number: int, *, add: Sequence[str], remove: Sequence[str] = ()) -> None:
        """Put labels on, and take others off."""
        if add:
            self._send("POST", f"/issues/{number}/labels", {"labels": list(add)})
        for name in remove:
            try:
                self._calls.ask("DELETE", self._path(f"/issues/{number}/labels/{quote(name, safe='')}"))
            except ForgeError as error:
                if error.kind != "not_found":
                    raise

    # --- what is said on it ------------------------------------------------------------------------------------------

    def comments(self, number: int, *, since: datetime | None = None) -> tuple[Comment, ...]:
        """All that was said, oldest first."""
        later = {"since": since.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")} if since is not None else {}
        found = [answers.general(each) for each in self._pages(f"/issues/{number}/comments", later)]
        found += self._inline(number, later)
        found += self._reviews(number)
        return tuple(sorted(found, key=lambda comment: (comment.at, comment.kind, comment.id)))

    def _pages(self, path: str, parameters: Mapping[str, str] | None = None) -> Sequence[object]:
        return list(self._calls.pages(self._path(path), parameters=parameters))

    def _inline(self, number: int, parameters: Mapping[str, str] | None = None) -> list[Comment]:
        return [answers.inline(each) for each in self._pages(f"/pulls/{number}/comments", parameters)]

    def _reviews(self, number: int) -> list[Comment]:
        return [sent for each in self._pages(f"/pulls/{number}/reviews") if (sent := answers.review(each))]

    def _mine(self, comments: Sequence[Comment], marker: str) -> Comment | None:
        """What this account said under a marker: anybody can write one."""
        me = self.me().login
        return next((each for each in comments if each.author.login == me and has_mark(each.body, marker)), None)

    def say(self, number: int, body: str, *, marker: str) -> Comment:
        """A general comment."""
        text = self._calls.harmless(marked(body, marker))

        def look() -> Comment | None:
            return self._mine([answers.general(each) for each in self._pages(f"/issues/{number}/comments")], marker)

        there = _once(look, lambda: answers.general(self._send("POST", f"/issues/{number}/comments", {"body": text})))
        if there.body.rstrip() == text:
            return there
        return answers.general(self._send("PATCH", f"/issues/comments/{there.id}", {"body": text}))

    def answer(self, number: int, comment: Comment, body: str, *, marker: str) -> Comment:
        """Answer in the thread of an inline comment; any other one, or where that is refused, generally."""
        if comment.kind == "inline":
            root, text = comment.answers or comment.id, self._calls.harmless(marked(body, marker))

            def reply() -> Comment:
                return answers.inline(self._send("POST", f"/pulls/{number}/comments/{root}/replies", {"body": text}))

            try:
                there = _once(lambda: self._mine(self._inline(number), marker), reply)
            except ForgeError as error:
                if error.kind not in ("not_found", "invalid", "forbidden"):
                    raise
            else:
                if there.body.rstrip() == text:
                    return there
                return answers.inline(self._send("PATCH", f"/pulls/comments/{there.id}", {"body": text}))
        return self.say(number, f"On [this comment]({comment.url}):\n\n{body}", marker=marker)

    def threads(self, number: int) -> tuple[Thread, ...]:
        """The threads of inline comments, which REST does not know."""
        owner, _, name = self.home().name.partition("/")
        found: list[Thread] = []
        after: str | None = None
        for _ in range(MOST_PAGES):
            variables = {"owner": owner, "name": name, "number": number, "after": after}
            page, after = answers.threads(self._calls.graphql(THREADS, variables))
            found += page
            if after is None:
                return tuple(found)
        raise ForgeError("invalid", f"{self.where} has more than {MOST_PAGES * PER_PAGE} threads")

    def resolve(self, thread: Thread) -> None:
        """Mark a thread as dealt with; one that is already stays so."""
        if not thread.resolved:
            self._calls.graphql(RESOLVE, {"id": thread.id})

    def review(self, number: int, body: str, *, head: Sha, remarks: Sequence[Remark], marker: str) -> Reviewed:
        """Post a review. GitHub refuses a whole one for a single line that the diff has not: then each remark goes alone."""
        text = self._calls.harmless(marked(body, marker))

        def look() -> Comment | None:
            return self._mine(self._reviews(number), marker)

        def post(inside: Sequence[Remark]) -> Comment:
            asked = {"commit_id": head, "body": text, "event": "COMMENT"}
            sent = answers.review(
                self._send("POST", f"/pulls/{number}/reviews", {**asked, "comments": list(map(_placed, inside))})
            )
            if sent is None:
                raise ForgeError("server", f"{self.where} kept a review and did not send it")
            return sent

        missing = self._missing(number, remarks)
        try:
            there = _once(look, lambda: post(missing), also=("invalid",))
        except ForgeError as error:
            if error.kind != "invalid" or not missing:
                raise
            there = _once(look, lambda: post(()))
        if there.body.rstrip() != text:
            there = self._rewritten(number, there, body, marker)
        unplaced = tuple(each for each in self._missing(number, missing) if not self._place(number, head, each))
        return Reviewed(review=there, unplaced=unplaced)

    def _rewritten(self, number: int, there: Comment, body: str, marker: str) -> Comment:
        """The review with another body; where one that was sent cannot be changed, it is said generally beside it."""
        asked = {"body": marked(body, marker)}
        try:
            return answers.review(self._send("PUT", f"/pulls/{number}/reviews/{there.id}", asked)) or there
        except ForgeError as error:
            if error.kind != "invalid":
                raise
        self.say(number, body, marker=marker)
        return there

    def _missing(self, number: int, remarks: Sequence[Remark]) -> list[Remark]:
        there = self._inline(number) if remarks else []
        return [each for each in remarks if self._mine(there, each.marker) is None]

    def _place(self, number: int, head: Sha, remark: Remark) -> bool:
        asked = {"commit_id": head, **_placed(remark)}
        try:
            _once(
                lambda: self._mine(self._inline(number), remark.marker),
                lambda: answers.inline(self._send("POST", f"/pulls/{number}/comments", asked)),
            )
        except ForgeError as error:
            if error.kind != "invalid":
                raise
            return False
        return True

    def checks(self, head: Sha) -> tuple[Check, ...]:
        """Check runs and commit statuses; a forge that has no statuses has none of this commit."""
        runs = list(self._calls.pages(self._path(f"/commits/{head}/check-runs"), within="check_runs"))
        try:
            statuses = list(self._calls.pages(self._path(f"/commits/{head}/status"), within="statuses"))
        except ForgeError as error:
            if error.kind != "not_found":
                raise
            statuses = []
        return answers.checks(runs, statuses)

    def annotations(self, check: Check) -> tuple[Annotation, ...]:
        """What a check run remarks on lines, the first page of it."""
        if not check.run:
            return ()
        listed = self._calls.pages(self._path(f"/check-runs/{check.run}/annotations"))
        return tuple(answers.annotation(each) for each in islice(listed, PER_PAGE))

    def log(self, check: Check) -> str:
        """The end of the log of a workflow's job, which lies on another host, at an address that is good for a minute."""
        if not check.job:
            return ""
        return self._calls.end_of(
            self._calls.sent_on(self._path(f"/actions/jobs/{check.job}/logs")), most_bytes=MOST_LOG
        )


def _placed(remark: Remark) -> dict[str, object]:
    return {"path": remark.path, "line": remark.line, "side": "RIGHT", "body": marked(remark.text, remark.marker)}


def _once(look: Callable[[], T | None], make: Callable[[], T], *, also: Sequence[str] = ()) -> T:
    """What is there, else what is made. If it is not known whether that was done, or it failed as ``also``, look again."""
    there = look()
    if there is not None:
        return there
    try:
        return make()
    except ForgeError as error:
        if not error.ambiguous and error.kind not in also:
            raise
        there = look()
        if there is None:
            raise
        return there
