"""What a GitHub that fails is answered with: each failure its own error, nothing twice, nothing waited for too long."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

from orchconverge.adapters.forge_calls import Calls
from orchconverge.adapters.forge_github import GitHub
from orchconverge.adapters.forge_urls import address_from
from orchconverge.core.target import Sha
from orchconverge.ports.forge import Check, ForgeError, Remark
from tests.tools.forge_stub import Dying, Fault, Killed, Stub, served
from tests.tools.forges import TOKENS, free_port

HEAD = Sha("a" * 40)
REPO = "/repos/ann/shop"


class Time:
    """A clock that moves only when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def stub() -> Iterator[Stub]:
    with served(Stub()) as stub:
        yield stub


@pytest.fixture
def clock() -> Time:
    return Time()


def github(api: str, clock: Time, **more: Any) -> GitHub:
    given = {"pause_seconds": 0, "sleep": clock.sleep, "clock": lambda: clock.now, **more}
    return GitHub(address_from(f"{api}{REPO}"), Calls(api, TOKENS["ann"], **given))


@pytest.fixture
def forge(stub: Stub, clock: Time) -> GitHub:
    return github(stub.url, clock)


def opened(forge: GitHub) -> int:
    return forge.open("topic", base="main", title="t", body="b", draft=False).number


def asked(stub: Stub, verb: str, path: str) -> int:
    return sum(each[0] == verb and each[1].partition("?")[0] == path for each in stub.seen)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid"),
        (401, "unauthorised"),
        (403, "forbidden"),
        (404, "not_found"),
        (409, "conflict"),
        (410, "not_found"),
        (422, "invalid"),
        (451, "forbidden"),
    ],
)
def test_a_refusal_is_told_at_once_with_the_forges_own_reason(
    stub: Stub, forge: GitHub, clock: Time, status: int, kind: str
) -> None:
    reason = {"message": "Validation Failed", "errors": [{"field": "base", "code": "invalid"}]}
    stub.faults.append(Fault("GET", r"/pulls/7", status, body=reason))
    with pytest.raises(ForgeError) as caught:
        forge.numbered(7)
    assert caught.value.kind == kind
    assert "Validation Failed: base: invalid" in caught.value.message
    assert str(status) in caught.value.message
    assert clock.slept == []
    assert not caught.value.ambiguous


@pytest.mark.parametrize("status", [500, 502, 503, 504, 0])
def test_what_may_pass_is_asked_again(stub: Stub, forge: GitHub, clock: Time, status: int) -> None:
    stub.pull("topic")
    stub.faults.append(Fault("GET", "/pulls/1", status, times=3))
    assert forge.numbered(1).number == 1
    assert clock.slept == [1.0, 2.0, 4.0]


@pytest.mark.parametrize(("status", "kind"), [(503, "server"), (0, "unreachable")])
def test_what_does_not_pass_is_given_up_when_the_time_is_over(
    stub: Stub, forge: GitHub, clock: Time, status: int, kind: str
) -> None:
    stub.faults.append(Fault("GET", "/pulls/1", status, times=1000))
    with pytest.raises(ForgeError) as caught:
        forge.numbered(1)
    assert (caught.value.kind, caught.value.ambiguous) == (kind, True)
    assert 60 < clock.now < 90


@pytest.mark.parametrize("status", [403, 429])
@pytest.mark.parametrize("told", ["7", "date"])
def test_a_limit_is_waited_for_as_long_as_the_forge_asks(
    stub: Stub, forge: GitHub, clock: Time, status: int, told: str
) -> None:
    value = told if told == "7" else format_datetime(datetime.fromtimestamp(time.time() + 7, UTC), usegmt=True)
    limit = Fault(
        "POST", "/pulls$", status, {"Retry-After": value}, {"message": "You have exceeded a secondary rate limit"}
    )
    stub.faults.append(limit)
    assert opened(forge) == 1
    assert len(clock.slept) == 1
    assert 5 <= clock.slept[0] <= 7
    assert len(stub.pulls) == 1


def test_a_limit_that_names_no_time_is_waited_for_a_minute(stub: Stub, forge: GitHub, clock: Time) -> None:
    stub.faults.append(Fault("POST", "/pulls$", 403, body={"message": "You have exceeded a secondary rate limit."}))
    assert opened(forge) == 1
    assert clock.slept == [60.0]


def test_a_limit_that_lasts_too_long_is_told_with_its_end(stub: Stub, forge: GitHub, clock: Time) -> None:
    reset = int(time.time()) + 3000
    headers = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(reset)}
    stub.faults.append(Fault("GET", "/pulls/1", 403, headers, {"message": "API rate limit exceeded"}))
    with pytest.raises(ForgeError) as caught:
        forge.numbered(1)
    assert caught.value.kind == "rate_limited"
    assert caught.value.until is not None
    assert abs(caught.value.until.timestamp() - reset) < 5
    assert f"{caught.value.until:%H:%M:%S} UTC" in caught.value.message
    assert clock.slept == []


def test_a_forbidden_one_is_no_limit(stub: Stub, forge: GitHub, clock: Time) -> None:
    stub.faults.append(Fault("GET", "/pulls/1", 403, {"X-RateLimit-Remaining": "59"}))
    with pytest.raises(ForgeError) as caught:
        forge.numbered(1)
    assert caught.value.kind == "forbidden"
    assert clock.slept == []


# --- exactly once ----------------------------------------------------------------------------------------------------

MAKE = {
    "open": (f"{REPO}/pulls", lambda forge: forge.open("topic", base="main", title="t", body="b", draft=False)),
    "say": (f"{REPO}/issues/1/comments", lambda forge: forge.say(1, "hello", marker="m")),
    "reply": (
        f"{REPO}/pulls/1/comments/101/replies",
        lambda forge: forge.answer(1, forge.comments(1)[0], "done", marker="m"),
    ),
    "review": (
        f"{REPO}/pulls/1/reviews",
        lambda forge: forge.review(
            1, "sum", head=HEAD, remarks=[Remark(path="a.py", line=1, text="x", marker="m.1")], marker="m"
        ),
    ),
}


def things(stub: Stub) -> tuple[int, int, int, int]:
    return len(stub.pulls), len(stub.general), len(stub.inline), len(stub.reviews)


def there_already(stub: Stub, what: str) -> None:
    if what != "open":
        stub.pull("topic")
    if what == "reply":
        stub.inline.append(stub.new("bob", body="?", path="a.py", line=1, in_reply_to_id=None))


@pytest.mark.parametrize("what", MAKE)
@pytest.mark.parametrize("status", [0, 500, 502])
def test_what_was_done_and_not_answered_is_found_and_not_done_again(
    stub: Stub, forge: GitHub, what: str, status: int
) -> None:
    path, make = MAKE[what]
    there_already(stub, what)
    stub.faults.append(Fault("POST", f"{path}$", status, done=True))
    make(forge)
    first = things(stub)
    make(forge)
    assert things(stub) == first
    assert asked(stub, "POST", path) == 1


@pytest.mark.parametrize("what", MAKE)
@pytest.mark.parametrize("status", [0, 500])
def test_what_may_have_been_done_and_was_not_is_left_to_the_next_call(
    stub: Stub, forge: GitHub, what: str, status: int
) -> None:
    path, make = MAKE[what]
    there_already(stub, what)
    before = things(stub)
    stub.faults.append(Fault("POST", f"{path}$", status))
    with pytest.raises(ForgeError) as caught:
        make(forge)
    assert caught.value.ambiguous
    assert things(stub) == before
    make(forge)
    make(forge)
    assert sum(things(stub)) == sum(before) + (2 if what == "review" else 1)


@pytest.mark.slow
@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_killed_at_any_request_and_begun_again_all_is_said_once(before: bool) -> None:
    """A review with a remark that has no place, an answer in its thread, another one generally, a summary."""
    remarks = [Remark(path="a.py", line=line, text="x", marker=f"m.{line}") for line in (1, 2, 9)]

    def work(forge: GitHub) -> None:
        forge.review(1, "sum", head=HEAD, remarks=remarks, marker="rev")
        asked_for = next(each for each in forge.comments(1) if each.kind == "inline" and each.author.login == "bob")
        forge.answer(1, asked_for, "fixed", marker="ans.1")
        general = next(each for each in forge.comments(1) if each.kind == "general")
        forge.answer(1, general, "seen", marker="ans.2")
        forge.say(1, "all of it", marker="all")
        for thread in forge.threads(1):
            forge.resolve(thread)

    ends = []
    for last in range(1, 80):
        with served(Stub()) as stub:
            stub.pull("topic")
            stub.inline.append(stub.new("bob", body="?", path="a.py", line=1, in_reply_to_id=None))
            stub.general.append(stub.new("bob", body="what of this?"))
            dying = Dying(stub.url, last=last, before=before)
            with suppress(Killed):
                work(GitHub(address_from(f"{stub.url}{REPO}"), dying))
            if dying.last > 0:
                break
            work(github(stub.url, Time()))
            ends.append((len(stub.reviews), len(stub.inline), len(stub.general), len(stub.resolved)))
    assert len(ends) > 20, "each request was the last one once"
    assert set(ends) == {(1, 4, 3, 3)}


def test_one_that_was_opened_meanwhile_is_taken(stub: Stub, forge: GitHub) -> None:
    refusal = {"message": "Validation Failed", "errors": [{"message": "A pull request already exists for ann:topic."}]}
    stub.faults.append(Fault("POST", "/pulls$", 422, body=refusal, done=True))
    assert opened(forge) == 1
    assert len(stub.pulls) == 1


def test_remarks_on_lines_that_did_not_change_are_said_to_have_no_place(stub: Stub, forge: GitHub) -> None:
    opened(forge)
    good, bad = (Remark(path="a.py", line=n, text="x", marker=f"m.{n}") for n in (1, 9))
    for _ in range(2):
        done = forge.review(1, "sum", head=HEAD, remarks=[good, bad], marker="m")
        assert done.unplaced == (bad,)
    assert (len(stub.reviews), len(stub.inline)) == (1, 1)


def test_where_replies_are_refused_one_general_comment_links_what_it_answers(stub: Stub, forge: GitHub) -> None:
    stub.replies = False
    there_already(stub, "reply")
    [asked_for] = forge.comments(1)
    for _ in range(2):
        answer = forge.answer(1, asked_for, "done", marker="m")
    assert answer.kind == "general"
    assert asked_for.url in answer.body
    assert len(stub.general) == 1


def test_a_plan_without_drafts_gets_a_pull_request_that_is_none(stub: Stub, forge: GitHub) -> None:
    stub.faults.append(Fault("POST", "/pulls$", 422, body={"message": "Draft pull requests are not supported"}))
    assert not forge.open("topic", base="main", title="t", body="b", draft=True).draft


def test_a_draft_becomes_ready(stub: Stub, forge: GitHub) -> None:
    made = forge.open("topic", base="main", title="t", body="b", draft=True)
    assert made.draft
    assert not forge.update(made.number, draft=False).draft


# --- reading ---------------------------------------------------------------------------------------------------------


def test_all_pages_are_read(stub: Stub, forge: GitHub) -> None:
    stub.pull("topic")
    stub.per_page = 2
    for number in range(5):
        stub.general.append(stub.new("bob", body=f"general {number}"))
        stub.inline.append(stub.new("bob", body=f"inline {number}", path="a.py", line=1, in_reply_to_id=None))
    assert len(forge.comments(1)) == 10
    assert len(forge.threads(1)) == 5


def test_the_open_one_is_found_though_others_are_newer(stub: Stub, forge: GitHub) -> None:
    for state in ("closed", "open", "closed"):
        stub.pull("topic", state=state)
    found = forge.find("topic")
    assert found is not None
    assert found.number == 2
    stub.pulls[1]["state"] = "closed"
    newest = forge.find("topic")
    assert newest is not None
    assert newest.number == 3


def test_only_what_is_new_is_asked_for(stub: Stub, forge: GitHub) -> None:
    stub.pull("topic")
    for number in range(3):
        stub.general.append(stub.new("bob", body=f"{number}"))
    [_, second, _] = forge.comments(1)
    assert [each.body for each in forge.comments(1, since=second.at)] == ["1", "2"]


def test_what_did_not_change_costs_nothing(stub: Stub, forge: GitHub) -> None:
    stub.pull("topic")
    first = forge.numbered(1)
    assert stub.unchanged == []
    assert forge.numbered(1) == first
    assert stub.unchanged == [f"{REPO}/pulls/1"]
    stub.pulls[0]["title"] = "new"
    assert forge.numbered(1).title == "new"


def test_checks_are_runs_and_statuses(stub: Stub, forge: GitHub) -> None:
    stub.runs = [
        {"name": "unit", "status": "completed", "conclusion": "timed_out"},
        {"name": "docs", "status": "completed", "conclusion": "skipped"},
        {"name": "slow", "status": "queued", "conclusion": None},
    ]
    stub.statuses = [
        {"context": "deploy", "state": "error"},
        {"context": "deploy", "state": "success"},  # the older one: GitHub puts the newest first
        {"context": "lint", "state": "success"},
    ]
    found = {each.name: each.state for each in forge.checks(HEAD)}
    assert found == {"deploy": "failed", "docs": "passed", "lint": "passed", "slow": "pending", "unit": "failed"}


def test_a_review_that_was_not_sent_is_nobodys_word(stub: Stub, forge: GitHub) -> None:
    stub.pull("topic")
    stub.reviews.append(stub.new("ann", body="draft", state="PENDING", submitted_at=None))
    assert forge.comments(1) == ()


def test_somebody_who_is_gone_is_a_ghost(stub: Stub, forge: GitHub) -> None:
    stub.pull("topic")
    stub.general.append({**stub.new("bob", body="x"), "user": None})
    stub.general.append(stub.new("helper[bot]", body="y"))
    assert [(each.author.login, each.author.bot) for each in forge.comments(1)] == [
        ("ghost", False),
        ("helper[bot]", True),
    ]


def test_a_renamed_repository_is_asked_by_its_new_name(stub: Stub, forge: GitHub) -> None:
    stub.name = "ann/store"
    stub.faults.append(Fault("GET", f"^{REPO}$", 301, {"Location": f"{stub.url}/repos/ann/store"}))
    assert opened(forge) == 1
    assert forge.home().name == "ann/store"


def test_the_token_of_an_app_has_a_name_too(stub: Stub, forge: GitHub) -> None:
    stub.faults.append(Fault("GET", "/user", 403, body={"message": "Resource not accessible by integration"}))
    assert forge.me().login == "ann"


# --- where nobody answers --------------------------------------------------------------------------------------------


def test_where_nobody_listens_it_is_unreachable_in_bounded_time(clock: Time) -> None:
    with pytest.raises(ForgeError) as caught:
        github(f"http://127.0.0.1:{free_port()}", clock).home()
    assert caught.value.kind == "unreachable"
    assert clock.now < 90


def test_one_that_never_answers_is_given_up(clock: Time) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(8)
        api = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(ForgeError) as caught:
            github(api, clock, silence_seconds=1, seconds=2.0).home()
    assert caught.value.kind == "unreachable"
    assert "in time" in caught.value.message


@pytest.mark.parametrize(
    "page", [b"<html>sign in</html>", b"[1, 2]", b'{"nothing": 1}', b"", b"\xff\xfe", b"[" * 100_000]
)
def test_what_is_no_answer_of_githubs_is_an_error_and_no_fault_of_ours(stub: Stub, forge: GitHub, page: bytes) -> None:
    for path in ("/pulls/1", "/pulls[?]", "/graphql"):
        for verb in ("GET", "POST"):
            stub.faults.append(Fault(verb, path, 200, body=page, times=1000))
    for ask in (lambda: forge.numbered(1), lambda: forge.find("topic"), lambda: forge.threads(1)):
        with pytest.raises(ForgeError) as caught:
            ask()
        assert caught.value.kind == "server"


@pytest.mark.parametrize("value", ["9" * 400, "9" * 15, "\u00b2", "Fri, 31 Dec 99999 23:59:59 GMT", "soon", "-1"])
@pytest.mark.parametrize("header", ["Retry-After", "X-RateLimit-Reset"])
def test_a_limit_that_ends_never_or_nowhere_is_still_a_limit(
    stub: Stub, forge: GitHub, clock: Time, header: str, value: str
) -> None:
    stub.faults.append(Fault("GET", "/pulls/1", 429, {"X-RateLimit-Remaining": "0", header: value}, times=1000))
    with pytest.raises(ForgeError) as caught:
        forge.numbered(1)
    assert caught.value.kind == "rate_limited" or header != "Retry-After"  # PyGithub reads the other one, too
    assert clock.now < 90


def test_threads_that_never_end_are_not_read_for_ever(stub: Stub, forge: GitHub) -> None:
    page = {"pageInfo": {"hasNextPage": True, "endCursor": "same"}, "nodes": []}
    body = {"data": {"repository": {"pullRequest": {"reviewThreads": page}}}}
    stub.faults.append(Fault("POST", "/graphql", 200, body=body, times=10_000))
    with pytest.raises(ForgeError, match="threads"):
        forge.threads(1)


def test_of_the_remarks_of_a_check_one_page_is_read(stub: Stub, forge: GitHub) -> None:
    stub.annotations[7] = [{"path": f"{n}.py", "start_line": n, "message": "m"} for n in range(1000)]
    assert len(forge.annotations(Check(name="unit", state="failed", run=7))) == 100
    assert asked(stub, "GET", f"{REPO}/check-runs/7/annotations") == 1


def test_of_two_check_runs_of_one_name_the_newest_counts_in_whichever_order_they_come(
    stub: Stub, forge: GitHub
) -> None:
    old, new = ({"id": n, "name": "build", "status": "completed", "conclusion": end} for n, end in PAIR)
    for runs in ([old, new], [new, old]):
        stub.runs = runs
        assert [each.state for each in forge.checks(HEAD)] == ["failed"]


# --- secrets ---------------------------------------------------------------------------------------------------------


def test_the_token_is_sent_as_a_header_and_stands_in_nothing_else(
    stub: Stub, forge: GitHub, clock: Time, caplog: pytest.LogCaptureFixture
) -> None:
    token = TOKENS["ann"]
    other = "ghp_" + "x" * 36
    said: list[str] = []
    with caplog.at_level(logging.DEBUG):
        opened(forge)
        forge.say(1, f"it printed {token} and {other} and https://me:hunter22@example.org", marker="m")
        for status in (401, 403, 404, 422, 500, 0):
            stub.faults.append(Fault("POST", "/issues/1/comments", status, body={"message": f"no, {status}"}))
            with pytest.raises(ForgeError) as caught:
                forge.say(1, "x", marker=f"m.{status}")
            said += [caught.value.message, caught.value.hint, repr(caught.value), str(caught.value.__cause__)]
    assert set(stub.tokens) == {token}
    bodies = repr([each[2] for each in stub.seen]) + repr([each[1] for each in stub.seen])
    for secret in (token, other, "hunter22"):
        assert secret not in bodies
        assert secret not in "\n".join(said)
        assert secret not in caplog.text
        assert secret not in repr(vars(forge)) + repr(forge)
    assert "***" in stub.general[0]["body"]
    before = len(stub.seen)
    forge.say(1, f"it printed {token} and {other} and https://me:hunter22@example.org", marker="m")
    assert {verb for verb, _, _ in stub.seen[before:]} == {"GET"}, "it is known to be there"


PAIR = ((1, "success"), (2, "failure"))
FAILED = Check(name="unit", state="failed", job=9)


@pytest.mark.parametrize(
    ("to", "kind", "said"),
    [
        ("http://192.0.2.1/log", "unreachable", "not https"),
        ("file:///etc/passwd", "unreachable", "not https"),
        ("/log", "unreachable", "not https"),
        ("https://[::1/log", "unreachable", "not https"),
    ],
)
def test_a_log_is_read_from_nowhere_that_is_not_https(clock: Time, to: str, kind: str, said: str) -> None:
    calls = Calls("https://api.github.example", TOKENS["ann"], sleep=clock.sleep, clock=lambda: clock.now)
    with pytest.raises(ForgeError, match=said) as caught:
        calls.end_of(to, most_bytes=10)
    assert caught.value.kind == kind


def test_the_host_of_a_log_is_not_followed_further_and_sees_no_password_of_ours(
    stub: Stub, forge: GitHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".netrc").write_text("machine localhost login ann password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    stub.logs[9] = "all of it"
    assert forge.log(FAILED) == "all of it"
    assert stub.stored == [("localhost", None)]
    elsewhere = {"Location": f"{stub.url}{REPO}/actions/jobs/9/logs"}
    stub.faults.append(Fault("GET", "/jobs/9/logs", 302, headers=elsewhere))
    with pytest.raises(ForgeError, match="401"):  # the forge itself, asked as if it were another host: without a token
        forge.log(FAILED)


def test_a_log_that_is_gone_or_that_nobody_has_is_a_forge_error(stub: Stub, forge: GitHub) -> None:
    for job, kind in ((9, "not_found"), (10, "unreachable")):
        stub.logs = {10: ""}
        if job == 10:
            stub.faults.append(
                Fault("GET", "/jobs/10/logs", 302, headers={"Location": f"http://localhost:{free_port()}/"})
            )
        with pytest.raises(ForgeError) as caught:
            forge.log(Check(name="unit", state="failed", job=job))
        assert caught.value.kind == kind
