"""A GitHub in this process: what `emulate` lacks (replies, threads, statuses), and every way in which one can fail.

`Relay` is one whose memory is `emulate`'s, with the same eyes and the same ways to fail. REST requests can be shown to
GitHub's published contract (prism), as they come or afterwards; GraphQL documents are those that a test holds against the
published schema.
"""

from __future__ import annotations

import json
import re
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from orchconverge.adapters import forge_graphql
from orchconverge.adapters.forge_calls import Calls, Said
from tests.tools.forges import TOKENS

REPO = "/repos/ann/shop"
STORED = "/stored/"


@dataclass
class Fault:
    """What happens instead, the next ``times`` that a request looks like this.

    ``status`` 0 breaks the connection off; ``done``: what was asked for is carried out before that.
    """

    verb: str
    path: str
    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: Any = None
    done: bool = False
    times: int = 1


@dataclass
class Stub:
    """The state, open to a test, and all requests that came, ``(verb, path?query, body)``."""

    url: str = ""
    pulls: list[dict[str, Any]] = field(default_factory=list)
    general: list[dict[str, Any]] = field(default_factory=list)
    inline: list[dict[str, Any]] = field(default_factory=list)
    reviews: list[dict[str, Any]] = field(default_factory=list)
    resolved: set[int] = field(default_factory=set)
    runs: list[dict[str, Any]] = field(default_factory=list)
    statuses: list[dict[str, Any]] = field(default_factory=list)
    annotations: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    """By the id of a check run."""
    logs: dict[int, str] = field(default_factory=dict)
    """By the id of a job. They lie on another host, which answers nobody that shows it a token."""
    stored: list[tuple[str, str | None]] = field(default_factory=list)
    """Under which name that host was asked, and with which token."""
    labels: list[str] = field(default_factory=list)
    name: str = "ann/shop"
    per_page: int = 100
    diff: frozenset[tuple[str, int]] = frozenset({("a.py", 1), ("a.py", 2)})
    """The lines on which a comment may stand; on others GitHub refuses it."""
    faults: list[Fault] = field(default_factory=list)
    seen: list[tuple[str, str, Any]] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    contract: str = ""
    violations: list[str] = field(default_factory=list)
    replies: bool = True
    remote: Path | None = None
    """The bare repository whose branches its pull requests stand at; without one they stay where they were opened.

    Its refs are read as files: to start a process here while a test forks its own is to wait for both.
    """
    before_doing: Callable[[str, str], bool] | None = None
    """Called with what is asked for. Where it says so, that is not done, and the connection breaks off."""
    before_answering: Callable[[str, str], None] | None = None
    """Called with what was asked for, once it is done and before that is told."""
    ids: int = 100
    clock: int = 0

    # --- what it answers ---------------------------------------------------------------------------------------------

    def user(self, login: str) -> dict[str, Any]:
        return {"login": login, "type": "Bot" if login.endswith("[bot]") else "User", "id": 1}

    def moment(self) -> str:
        self.clock += 1
        return f"2026-11-29T{10 + self.clock // 3600:02}:{self.clock // 60 % 60:02}:{self.clock % 60:02}Z"

    def new(self, login: str, **more: Any) -> dict[str, Any]:
        self.ids += 1
        at = self.moment()
        return {
            "id": self.ids,
            "html_url": f"https://github.example/ann/shop/pull/1#c{self.ids}",
            "user": self.user(login),
            "author_association": "OWNER" if login == "ann" else "NONE",
            "created_at": at,
            "updated_at": at,
            **more,
        }

    def pull(self, branch: str, *, head: str = "a" * 40, base: str = "main", **more: Any) -> dict[str, Any]:
        number = len(self.pulls) + 1
        made = {
            "number": number,
            "node_id": f"PR_{number}",
            "html_url": f"https://github.example/ann/shop/pull/{number}",
            "state": "open",
            "draft": False,
            "title": "t",
            "body": "",
            "head": {"ref": branch, "sha": head},
            "base": {"ref": base, "sha": "b" * 40},
            "user": self.user("ann"),
            "labels": [],
            "merged_at": None,
            "mergeable": True,
            **more,
        }
        self.pulls.append(made)
        return made

    def answer(self, login: str, verb: str, path: str, query: dict[str, str], body: Any) -> tuple[int, Any]:
        """The status and the JSON of one request."""
        for method, form, act in self.routes():
            found = re.fullmatch(form, path)
            if method == verb and found:
                return act(login, query, body, *found.groups())
        return 404, {"message": "Not Found"}

    def stands(self, told: Any) -> None:
        """Let the pull requests of an answer stand where their branches do."""
        for each in told if isinstance(told, list) else [told]:
            if self.remote is not None and isinstance(each, dict) and "head" in each:
                ref = self.remote / "refs" / "heads" / each["head"]["ref"]
                each["head"]["sha"] = ref.read_text().strip() if ref.exists() else each["head"]["sha"]

    def routes(self) -> list[tuple[str, str, Callable[..., tuple[int, Any]]]]:
        repo = f"/repos/{self.name}"
        return [
            ("GET", "/user", lambda login, q, b: (200, self.user(login))),
            ("GET", repo, lambda login, q, b: (200, self._home())),
            ("GET", f"{repo}/pulls", self._listed),
            ("POST", f"{repo}/pulls", self._opened),
            ("GET", rf"{repo}/pulls/(\d+)", lambda login, q, b, n: self._one(self.pulls, "number", n)),
            ("PATCH", rf"{repo}/pulls/(\d+)", lambda login, q, b, n: self._changed(self.pulls, "number", n, b)),
            ("POST", rf"{repo}/issues/(\d+)/labels", self._labelled),
            ("DELETE", rf"{repo}/issues/(\d+)/labels/(.+)", self._unlabelled),
            ("GET", rf"{repo}/issues/\d+/comments", lambda login, q, b: (200, _since(self.general, q))),
            ("POST", rf"{repo}/issues/\d+/comments", lambda login, q, b: self._added(self.general, login, b)),
            ("PATCH", rf"{repo}/issues/comments/(\d+)", lambda login, q, b, n: self._changed(self.general, "id", n, b)),
            ("GET", rf"{repo}/pulls/\d+/comments", lambda login, q, b: (200, _since(self.inline, q))),
            ("POST", rf"{repo}/pulls/\d+/comments", self._remarked),
            ("PATCH", rf"{repo}/pulls/comments/(\d+)", lambda login, q, b, n: self._changed(self.inline, "id", n, b)),
            ("POST", rf"{repo}/pulls/\d+/comments/(\d+)/replies", self._replied),
            ("GET", rf"{repo}/pulls/\d+/reviews", lambda login, q, b: (200, self.reviews)),
            ("POST", rf"{repo}/pulls/\d+/reviews", self._reviewed),
            ("PUT", rf"{repo}/pulls/\d+/reviews/(\d+)", lambda login, q, b, n: self._changed(self.reviews, "id", n, b)),
            ("GET", rf"{repo}/commits/\w+/check-runs", lambda login, q, b: (200, _counted("check_runs", self.runs))),
            ("GET", rf"{repo}/commits/\w+/status", lambda login, q, b: (200, _counted("statuses", self.statuses))),
            ("GET", rf"{repo}/check-runs/(\d+)/annotations", lambda login, q, b, n: (200, self.annotations[int(n)])),
            ("GET", rf"{repo}/actions/jobs/(\d+)/logs", self._log),
            ("POST", "/graphql", self._graphql),
        ]

    def _log(self, login: str, query: dict[str, str], body: Any, job: str) -> tuple[int, Any]:
        if int(job) not in self.logs:
            return 404, {"message": "Not Found"}
        return 302, f"{self.url.replace('127.0.0.1', 'localhost')}{STORED}{job}?sig=once"

    def _home(self) -> dict[str, Any]:
        return {"full_name": self.name, "default_branch": "main", "html_url": f"https://github.example/{self.name}"}

    def _one(self, among: list[dict[str, Any]], key: str, value: str) -> tuple[int, Any]:
        found = next((each for each in among if each[key] == int(value)), None)
        return (200, found) if found else (404, {"message": "Not Found"})

    def _changed(self, among: list[dict[str, Any]], key: str, value: str, body: Any) -> tuple[int, Any]:
        status, found = self._one(among, key, value)
        if status == 200:
            found.update(body)
        return status, found

    def _added(self, among: list[dict[str, Any]], login: str, body: Any, **more: Any) -> tuple[int, Any]:
        among.append(self.new(login, body=body["body"], **more))
        return 201, among[-1]

    def _listed(self, login: str, query: dict[str, str], body: Any) -> tuple[int, Any]:
        branch = query.get("head", "").partition(":")[2]
        return 200, [each for each in reversed(self.pulls) if each["head"]["ref"] == branch]

    def _opened(self, login: str, query: dict[str, str], body: Any) -> tuple[int, Any]:
        branch = body["head"].rpartition(":")[2]
        if any(each["head"]["ref"] == branch and each["state"] == "open" for each in self.pulls):
            said = f"A pull request already exists for ann:{branch}."
            return 422, {"message": "Validation Failed", "errors": [{"message": said}]}
        more = {name: body[name] for name in ("title", "body", "draft") if name in body}
        return 201, self.pull(branch, base=body["base"], user=self.user(login), **more)

    def _labelled(self, login: str, query: dict[str, str], body: Any, number: str) -> tuple[int, Any]:
        there = self._one(self.pulls, "number", number)[1]["labels"]
        there += [{"name": name} for name in body["labels"] if {"name": name} not in there]
        return 200, there

    def _unlabelled(self, login: str, query: dict[str, str], body: Any, number: str, name: str) -> tuple[int, Any]:
        there = self._one(self.pulls, "number", number)[1]["labels"]
        if {"name": name} not in there:
            return 404, {"message": "Label does not exist"}
        there.remove({"name": name})
        return 200, there

    def _remarked(self, login: str, query: dict[str, str], body: Any) -> tuple[int, Any]:
        if (body["path"], body["line"]) not in self.diff:
            said = "pull_request_review_thread.line must be part of the diff"
            return 422, {"message": "Validation Failed", "errors": [said]}
        return self._added(self.inline, login, body, path=body["path"], line=body["line"], in_reply_to_id=None)

    def _replied(self, login: str, query: dict[str, str], body: Any, root: str) -> tuple[int, Any]:
        status, found = self._one(self.inline, "id", root)
        if not self.replies or status != 200:
            return 404, {"message": "Not Found"}
        where = {"path": found["path"], "line": found["line"]}
        return self._added(self.inline, login, body, in_reply_to_id=int(root), **where)

    def _reviewed(self, login: str, query: dict[str, str], body: Any) -> tuple[int, Any]:
        inside = body.get("comments", [])
        if any((each["path"], each["line"]) not in self.diff for each in inside):
            return 422, {"message": "Unprocessable Entity", "errors": ["Line could not be resolved"]}
        more = {"state": "COMMENTED", "submitted_at": self.moment()}
        status, made = self._added(self.reviews, login, body, **more)
        for each in inside:
            self._added(self.inline, login, each, path=each["path"], line=each["line"], in_reply_to_id=None)
        return status, made

    def _graphql(self, login: str, query: dict[str, str], body: Any) -> tuple[int, Any]:
        document, given = body["query"], body["variables"]
        if document == forge_graphql.VIEWER:
            return 200, {"data": {"viewer": {"login": login}}}
        if document == forge_graphql.THREADS:
            return 200, {"data": {"repository": {"pullRequest": {"reviewThreads": self._threads(given["after"])}}}}
        if document == forge_graphql.RESOLVE:
            self.resolved.add(int(given["id"].removeprefix("T_")))
            return 200, {"data": {"resolveReviewThread": {"thread": {"isResolved": True}}}}
        if document in (forge_graphql.READY, forge_graphql.DRAFT):
            pull = next(each for each in self.pulls if each["node_id"] == given["id"])
            pull["draft"] = document == forge_graphql.DRAFT
            return 200, {"data": {"any": {"pullRequest": {"isDraft": pull["draft"]}}}}
        return 200, {"data": None, "errors": [{"type": "INVALID", "message": "no such document"}]}

    def _threads(self, after: str | None) -> dict[str, Any]:
        roots = [each["id"] for each in self.inline if each["in_reply_to_id"] is None]
        first = int(after or 0)
        nodes = [
            {"id": f"T_{root}", "isResolved": root in self.resolved, "isOutdated": False}
            | {"comments": {"nodes": [{"databaseId": root}]}}
            for root in roots[first : first + self.per_page]
        ]
        more = first + self.per_page < len(roots)
        info = {"hasNextPage": more, "endCursor": str(first + self.per_page) if more else None}
        return {"pageInfo": info, "nodes": nodes}


@dataclass
class Relay(Stub):
    """A GitHub that remembers, at ``api``, behind this one, which tells it nothing of git."""

    api: str = ""

    def answer(self, login: str, verb: str, path: str, query: dict[str, str], body: Any) -> tuple[int, Any]:
        """What it answers."""
        asked = urllib.request.Request(
            f"{self.api}{quote(path)}?{urlencode(query)}",
            method=verb,
            data=json.dumps(body).encode() if body is not None else None,
            headers={"Authorization": f"token {TOKENS[login]}"},
        )
        try:
            with urllib.request.urlopen(asked, timeout=30) as answer:
                return answer.status, json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            said = error.read()
            return error.code, json.loads(said) if said.startswith(b"{") else {"message": said.decode()[:200]}


def _since(among: list[dict[str, Any]], query: dict[str, str]) -> list[dict[str, Any]]:
    return [each for each in among if each["updated_at"] >= query.get("since", "")]


def _counted(name: str, items: list[dict[str, Any]]) -> dict[str, Any]:
    return {"total_count": len(items), name: items}


# --- what calls it ---------------------------------------------------------------------------------------------------


class Killed(BaseException):
    """What stands for kill -9: nothing may catch it."""


class Dying(Calls):
    """Calls of a process that is killed at its ``last`` request, before that is sent or after it was answered."""

    def __init__(self, api: str, *, last: int, before: bool) -> None:
        super().__init__(api, TOKENS["ann"], pause_seconds=0)
        self.last, self.before = last, before

    def _once(self, *request: Any) -> Said:
        self.last -= 1
        if self.last == 0 and self.before:
            raise Killed
        answer = super()._once(*request)
        if self.last == 0:
            raise Killed
        return answer


# --- the server ------------------------------------------------------------------------------------------------------


@contextmanager
def served(stub: Stub) -> Iterator[Stub]:
    """Serve it on loopback."""
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # headers and body are two packets, and the second one is not to wait for 40 ms

        def handle_one(self) -> None:
            split = urlsplit(self.path)
            query = dict(parse_qsl(split.query))
            length = int(self.headers.get("Content-Length") or 0)
            raw = self.rfile.read(length)
            body = json.loads(raw) if raw else None
            if split.path.startswith(STORED):
                return self.stored(int(split.path.removeprefix(STORED)))
            token = (self.headers.get("Authorization") or "").rpartition(" ")[2]
            login = next((who for who, its in TOKENS.items() if its == token), None)
            with lock:
                stub.seen.append((self.command, self.path, body))
                stub.tokens.append(token)
                if stub.contract and split.path != "/graphql":
                    accepts = self.headers.get("Accept", "*/*")
                    stub.violations += against(stub.contract, self.command, self.path, raw, accepts=accepts)
                fault = next((f for f in stub.faults if f.verb == self.command and re.search(f.path, self.path)), None)
                if fault is not None:
                    fault.times -= 1
                    if fault.times == 0:
                        stub.faults.remove(fault)
                if login is None:
                    return self.send(401, {"message": "Bad credentials"})
                if fault is not None and not fault.done:
                    return self.fail(fault)
                if stub.before_doing is not None and stub.before_doing(self.command, split.path):
                    return self.fail(Fault(self.command, self.path, 0))
                status, told = stub.answer(login, self.command, unquote(split.path), query, body)
                if status == 302:
                    return self.send(302, b"", {"Location": told})
                stub.stands(told)
                if stub.before_answering is not None:
                    stub.before_answering(self.command, split.path)
                if fault is not None:
                    return self.fail(fault)
                return self.send(status, *_page(stub, told, query, self.path))

        do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = handle_one

        def stored(self, job: int) -> None:
            """What lies on another host: as Azure's storage, it takes no `Authorization` beside a signed address."""
            stub.stored.append((self.headers["Host"].partition(":")[0], self.headers.get("Authorization")))
            if self.headers.get("Authorization") or not self.path.endswith("?sig=once"):
                return self.send(400, b"", {})
            return self.send(200, stub.logs[job].encode(), {"Content-Type": "text/plain"})

        def fail(self, fault: Fault) -> None:
            if fault.status == 0:
                self.close_connection = True
                self.connection.close()
                return
            self.send(fault.status, fault.body if fault.body is not None else {"message": "no"}, fault.headers)

        def send(self, status: int, told: Any, headers: dict[str, str] | None = None) -> None:
            data = told if isinstance(told, bytes) else json.dumps(told).encode()
            tag = f'"{hash(data)}"'
            if status == 200 and self.command == "GET" and self.headers.get("If-None-Match") == tag:
                status, data = 304, b""
                stub.unchanged.append(self.path)
            self.send_response(status)
            for name, value in {"ETag": tag, "Content-Type": "application/json", **(headers or {})}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *args: Any) -> None: ...

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: Any, client_address: Any) -> None:
            """A client that was killed is what these tests are about."""

    server = Server(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    stub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield stub
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


def _page(stub: Stub, told: Any, query: dict[str, str], path: str) -> tuple[Any, dict[str, str]]:
    """One page of a list, as GitHub pages it."""
    if not isinstance(told, list) or "per_page" not in query:
        return told, {}
    size, page = min(stub.per_page, int(query["per_page"])), int(query.get("page", 1))
    if page * size >= len(told):
        return told[(page - 1) * size :], {}
    further = re.sub(r"&page=\d+", "", path) + f"&page={page + 1}"
    return told[(page - 1) * size : page * size], {"Link": f'<{stub.url}{further}>; rel="next"'}


class _Stays(urllib.request.HTTPRedirectHandler):
    """Goes to no other host."""

    def redirect_request(self, *asked: Any) -> None:
        return None


def against(contract: str, verb: str, path: str, raw: bytes, *, accepts: str = "*/*") -> list[str]:
    """Show a request to GitHub's contract; what that does not allow."""
    headers = {"Authorization": "Bearer none", "Accept": accepts}
    if raw:
        headers["Content-Type"] = "application/json"
    asked = urllib.request.Request(contract + path, data=raw or None, headers=headers, method=verb)
    try:
        urllib.request.build_opener(_Stays).open(asked, timeout=30).read()
    except urllib.error.HTTPError as error:
        if error.code < 400:
            return []
        return [f"{verb} {path}: {error.code} {error.read().decode(errors='replace')[:600]}"]
    return []
