"""A forge: the same cases on our own record, on a GitHub that remembers, and on a stub whose requests GitHub's contract saw."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from orchconverge.adapters import forge_answers, forge_graphql
from orchconverge.adapters.forge_calls import Calls
from orchconverge.adapters.forge_github import GitHub
from orchconverge.adapters.forge_local import Local
from orchconverge.adapters.forge_urls import address_from
from orchconverge.core.target import Sha
from orchconverge.ports.forge import MOST_LOG, Annotation, Check, Comment, Forge, ForgeError, PullRequest, Remark
from tests.tools import forges
from tests.tools.forge_stub import Stub, served
from tests.tools.forges import TOKENS

HEAD = Sha("a" * 40)


def github(api: str, who: str = "ann", **more: Any) -> GitHub:
    return GitHub(address_from(f"{api}/repos/ann/shop"), Calls(api, TOKENS[who], pause_seconds=0, **more))


class Place:
    """A forge as ann sees it, and what bob says there."""

    forge: Forge
    threads = True
    rewrites = True
    """Whether a review that was sent can be changed."""

    def branch(self, name: str) -> None:
        """Have a branch of this name on the forge."""

    def head(self, pull: PullRequest) -> Sha:
        """A commit that the forge has."""
        return pull.head or HEAD

    def says(self, pull: PullRequest, body: str) -> None:
        """Bob says something in general."""
        raise NotImplementedError

    def closes(self, pull: PullRequest) -> None:
        """Somebody closes it."""
        raise NotImplementedError


class LocalPlace(Place):
    def __init__(self, folder: Path) -> None:
        self._path = folder / "pr" / "goal.json"
        self.forge = self._as("ann")

    def _as(self, person: str) -> Local:
        return Local(self._path, basin="goal", base="main", resolve=lambda branch: HEAD, person=person)

    def says(self, pull: PullRequest, body: str) -> None:
        self._as("bob").say(pull.number, body, marker=f"by-bob.{len(body)}")

    def closes(self, pull: PullRequest) -> None:
        record = json.loads(self._path.read_text())
        self._path.write_text(json.dumps({**record, "state": "closed"}))


class EmulatedPlace(Place):
    threads = rewrites = False

    def __init__(self, api: str) -> None:
        self.server, self.forge = forges.Emulated(api), github(api)

    def branch(self, name: str) -> None:
        self.server.branch(name)

    def says(self, pull: PullRequest, body: str) -> None:
        self.server.call("POST", f"/repos/ann/shop/issues/{pull.number}/comments", {"body": body}, "bob")

    def closes(self, pull: PullRequest) -> None:
        self.server.call("PATCH", f"/repos/ann/shop/pulls/{pull.number}", {"state": "closed"})


class StubPlace(Place):
    def __init__(self, stub: Stub) -> None:
        self.stub, self.forge = stub, github(stub.url)

    def says(self, pull: PullRequest, body: str) -> None:
        self.stub.general.append(self.stub.new("bob", body=body))

    def closes(self, pull: PullRequest) -> None:
        self.stub.pulls[pull.number - 1]["state"] = "closed"


@pytest.fixture(scope="module")
def emulated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with forges.emulate(tmp_path_factory.mktemp("emulate")) as api:
        yield api


@pytest.fixture(scope="module")
def contract(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with forges.prism(tmp_path_factory.mktemp("prism")) as api:
        yield api


@pytest.fixture
def stub() -> Iterator[Stub]:
    with served(Stub()) as stub:
        yield stub


@pytest.fixture(
    params=[
        "local",
        "stub",
        pytest.param("emulated", marks=pytest.mark.forge),
        pytest.param("contract", marks=[pytest.mark.forge, pytest.mark.timeout(240)]),
    ]
)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    with ExitStack() as opened:
        if request.param == "local":
            yield LocalPlace(tmp_path)
        elif request.param == "emulated":
            yield EmulatedPlace(request.getfixturevalue("emulated"))
        else:
            shown_to = request.getfixturevalue("contract") if request.param == "contract" else ""
            stub = opened.enter_context(served(Stub(contract=shown_to)))
            yield StubPlace(stub)
            assert not stub.violations, "\n".join(stub.violations)


@pytest.fixture
def branch(request: pytest.FixtureRequest, place: Place) -> str:
    """A branch of this test alone: the emulator remembers what others did."""
    name = f"topic-{abs(hash(request.node.nodeid)) % 10**9}"
    place.branch(name)
    return name


def opened(place: Place, branch: str, body: str = "what it does") -> PullRequest:
    return place.forge.open(branch, base="main", title="a title", body=body, draft=False)


def test_a_branch_has_no_pull_request_until_one_is_opened(place: Place, branch: str) -> None:
    assert place.forge.find(branch) is None
    made = opened(place, branch)
    assert (made.branch, made.base, made.title, made.body, made.state, made.draft) == (
        branch,
        "main",
        "a title",
        "what it does",
        "open",
        False,
    )
    assert made.author == place.forge.me()
    assert place.forge.find(branch) == place.forge.numbered(made.number)


def test_a_second_one_is_not_opened_beside_it(place: Place, branch: str) -> None:
    made = opened(place, branch)
    again = place.forge.open(branch, base="main", title="other", body="other", draft=False)
    assert (again.number, again.title) == (made.number, "a title")


def test_a_draft_is_one(place: Place, branch: str) -> None:
    assert place.forge.open(branch, base="main", title="t", body="b", draft=True).draft
    found = place.forge.find(branch)
    assert found is not None
    assert found.draft


def test_what_is_given_is_changed_and_the_rest_stays(place: Place, branch: str) -> None:
    made = opened(place, branch)
    changed = place.forge.update(made.number, body="another")
    assert (changed.title, changed.body) == ("a title", "another")
    changed = place.forge.update(made.number, title="another")
    assert (changed.title, changed.body) == ("another", "another")


def test_labels_are_put_on_once_and_taken_off(place: Place, branch: str) -> None:
    number = opened(place, branch).number
    place.forge.label(number, add=("size: small", "type: bug"))
    place.forge.label(number, add=("size: large", "type: bug"), remove=("size: small", "never there"))
    assert sorted(place.forge.numbered(number).labels) == ["size: large", "type: bug"]


def test_one_that_was_closed_is_found_and_another_may_be_opened(place: Place, branch: str) -> None:
    made = opened(place, branch)
    place.closes(made)
    found = place.forge.find(branch)
    assert found is not None
    assert found.state == "closed"
    assert opened(place, branch).state == "open"


def test_what_is_said_under_a_marker_is_said_once_and_brought_up_to_date(place: Place, branch: str) -> None:
    number = opened(place, branch).number
    first = place.forge.say(number, "one", marker="sum")
    second = place.forge.say(number, "two", marker="sum")
    place.forge.say(number, "other", marker="sum-2")
    said = place.forge.comments(number)
    assert first.id == second.id
    assert [each.body.splitlines()[0] for each in said] == ["two", "other"]


def test_a_marker_of_somebody_else_is_not_taken_for_ours(place: Place, branch: str) -> None:
    made = opened(place, branch)
    place.says(made, "hello\n\n<!-- orchconverge:sum -->")
    ours = place.forge.say(made.number, "ours", marker="sum")
    said = place.forge.comments(made.number)
    assert [each.author.login for each in said] == ["bob", "ann"] or isinstance(place, LocalPlace)
    if not isinstance(place, LocalPlace):  # nobody else writes into a record of ours
        assert ours.author.login == "ann"
        assert said[0].association == "NONE"


def remarks(branch: str) -> tuple[Remark, Remark]:
    return (
        Remark(path="a.py", line=1, text="wrong sign", marker=f"{branch}.1"),
        Remark(path="a.py", line=2, text="never closed", marker=f"{branch}.2"),
    )


def inline(said: tuple[Comment, ...]) -> list[tuple[str, int | None, str]]:
    return [(each.path, each.line, each.body.splitlines()[0]) for each in said if each.kind == "inline"]


def test_a_review_is_posted_once_with_each_remark_on_its_line(place: Place, branch: str) -> None:
    made = opened(place, branch)
    head = place.head(made)
    first = place.forge.review(made.number, "two findings", head=head, remarks=remarks(branch), marker="rev")
    again = place.forge.review(made.number, "still two", head=head, remarks=remarks(branch), marker="rev")
    said = place.forge.comments(made.number)
    assert (first.unplaced, again.unplaced) == ((), ())
    assert first.review.id == again.review.id
    latest = [each.body.splitlines()[0] for each in said if each.kind == ("review" if place.rewrites else "general")]
    assert latest == ["still two"]
    assert len([each for each in said if each.kind == "review"]) == 1
    assert sorted(inline(said)) == [("a.py", 1, "wrong sign"), ("a.py", 2, "never closed")]


def test_a_comment_on_a_line_is_answered_once_where_that_is_possible(place: Place, branch: str) -> None:
    made = opened(place, branch)
    place.forge.review(made.number, "r", head=place.head(made), remarks=remarks(branch)[:1], marker="rev")
    [root] = [each for each in place.forge.comments(made.number) if each.kind == "inline"]
    first = place.forge.answer(made.number, root, "fixed", marker="ans")
    again = place.forge.answer(made.number, root, "fixed in 1234", marker="ans")
    assert first.id == again.id
    assert "fixed in 1234" in again.body
    if first.kind == "inline":
        assert first.answers == root.id
    else:
        assert root.url in again.body
    assert len(place.forge.comments(made.number)) == 3


def test_a_general_comment_is_answered_generally(place: Place, branch: str) -> None:
    made = opened(place, branch)
    place.says(made, "what of this?")
    [asked] = place.forge.comments(made.number)
    answer = place.forge.answer(made.number, asked, "that", marker="ans")
    assert (answer.kind, "that" in answer.body) == ("general", True)


def test_threads_are_resolved(place: Place, branch: str) -> None:
    made = opened(place, branch)
    place.forge.review(made.number, "r", head=place.head(made), remarks=remarks(branch), marker="rev")
    if not place.threads:
        with pytest.raises(ForgeError) as caught:
            place.forge.threads(made.number)
        assert caught.value.kind == "not_found"
        return
    one, two = place.forge.threads(made.number)
    place.forge.resolve(one)
    place.forge.resolve(one)
    assert [each.resolved for each in place.forge.threads(made.number)] == [True, False]
    assert {one.root, two.root} == {each.id for each in place.forge.comments(made.number) if each.kind == "inline"}


def test_a_number_that_is_not_there_is_not_found(place: Place, branch: str) -> None:
    with pytest.raises(ForgeError) as caught:
        place.forge.numbered(4711)
    assert caught.value.kind == "not_found"
    assert caught.value.hint


def test_checks_are_none_where_nothing_checks(place: Place, branch: str) -> None:
    made = opened(place, branch)
    assert place.forge.checks(place.head(made)) == ()


RUN = {"id": 7, "name": "unit", "status": "completed", "conclusion": "failure"}
AT = "https://github.example/ann/shop/actions/runs/5/job/9"


def test_a_failed_check_tells_its_words_its_remarks_and_the_end_of_its_log(place: Place) -> None:
    if not isinstance(place, StubPlace):
        assert place.forge.annotations(Check(name="unit", state="failed")) == ()
        assert place.forge.log(Check(name="unit", state="failed")) == ""
        return
    stub = place.stub
    output = {"title": "2 failed", "summary": None, "annotations_count": 1}
    stub.runs = [{**RUN, "html_url": AT, "output": output}, {**RUN, "id": 8, "name": "plain"}]
    stub.statuses = [{"context": "jenkins", "state": "error", "description": "no node"}]
    stub.annotations[7] = [
        {"path": "a.py", "start_line": 3, "title": "", "message": "E501", "annotation_level": "failure"}
    ]
    stub.logs[9] = "begin\n" + "x" * MOST_LOG + f"\n{TOKENS['ann']}\nend\n"
    jenkins, plain, unit = place.forge.checks(HEAD)
    assert (jenkins.text, plain.text, unit.text) == ("no node", "", "2 failed")
    assert place.forge.annotations(unit) == (Annotation(path="a.py", line=3, text="E501"),)
    assert place.forge.log(unit) == "***\nend\n"
    assert stub.stored == [("localhost", None)]
    for other in (jenkins, plain):
        assert (place.forge.annotations(other), place.forge.log(other)) == ((), "")


# --- what only one of them has ---------------------------------------------------------------------------------------


def test_a_pull_request_from_a_fork_says_which(stub: Stub) -> None:
    found = []
    for repo in ({"full_name": "ann/shop"}, {"full_name": "bob/shop"}, None):
        made = stub.pull("topic")
        made["head"]["repo"] = repo
        found.append(github(stub.url).numbered(made["number"]).fork)
    assert found == ["", "bob/shop", "a repository that was deleted"]


@pytest.mark.forge
def test_check_runs_of_a_real_server_are_read(emulated: str) -> None:
    place = EmulatedPlace(emulated)
    head = place.server.call("GET", "/repos/ann/shop/branches/main")["commit"]["sha"]
    for name, more in (("unit", {"conclusion": "failure"}), ("lint", {"conclusion": "success"})):
        place.server.call(
            "POST", "/repos/ann/shop/check-runs", {"name": name, "head_sha": head, "status": "completed", **more}
        )
    place.server.call("POST", "/repos/ann/shop/check-runs", {"name": "slow", "head_sha": head, "status": "in_progress"})
    found = {each.name: each.state for each in place.forge.checks(Sha(head))}
    assert found == {"lint": "passed", "slow": "pending", "unit": "failed"}


@pytest.mark.forge
@pytest.mark.timeout(240)
def test_the_examples_that_github_published_can_be_read(contract: str) -> None:
    """Prism answers from the contract's own examples: what we make of them is what GitHub says it sends."""
    calls, answers = Calls(contract, TOKENS["ann"]), forge_answers

    def asked(path: str) -> Any:
        return calls.ask("GET", f"/repos/octocat/Hello-World{path}").data

    pull = answers.pull(asked("/pulls/1347"))
    assert (pull.number, pull.state, pull.branch, pull.labels) == (1347, "merged", "new-topic", ("bug",))
    assert [answers.pull(each).number for each in asked("/pulls")] == [1347]
    assert answers.home(asked("")).name == "octocat/Hello-World"
    said = [answers.general(each) for each in asked("/issues/1347/comments")]
    said += [answers.inline(each) for each in asked("/pulls/1347/comments")]
    said += [review for each in asked("/pulls/1347/reviews") if (review := answers.review(each))]
    assert [each.kind for each in said] == ["general", "inline", "review"]
    assert all(each.author.login == "octocat" and each.body for each in said)
    runs, statuses = asked(f"/commits/{HEAD}/check-runs"), asked(f"/commits/{HEAD}/status")
    [remark] = [answers.annotation(each) for each in asked("/check-runs/4/annotations")]
    assert (remark.path, remark.line, remark.text) == (
        "README.md",
        2,
        "Spell Checker: Check your spelling for 'banaas'.",
    )
    assert calls.sent_on("/repos/octocat/Hello-World/actions/jobs/21/logs").startswith("https://")
    found = answers.checks(runs["check_runs"], statuses["statuses"])
    assert {each.name: each.state for each in found} == {
        "continuous-integration/jenkins": "passed",
        "mighty_readme": "passed",
        "security/brakeman": "passed",
    }


@pytest.mark.forge
def test_every_graphql_document_is_one_that_github_takes(tmp_path: Path) -> None:
    if not (forges.OCTOKIT / "graphql").exists():
        forges.program("octokit")
    script = tmp_path / "check.cjs"
    script.write_text(
        "const {buildSchema, parse, validate} = require('graphql');\n"
        "const {readFileSync} = require('fs');\n"
        "const built = buildSchema(readFileSync(process.argv[2], 'utf8'), {assumeValid: true});\n"
        "const documents = JSON.parse(readFileSync(0, 'utf8'));\n"
        "console.log(JSON.stringify(documents.map(d => validate(built, parse(d)).map(e => e.message))));\n"
    )

    def wrong(*documents: str) -> list[list[str]]:
        env = {"NODE_PATH": str(forges.OCTOKIT), "PATH": os.environ["PATH"]}
        argv = ["node", str(script), str(forges.OCTOKIT / "@octokit/graphql-schema/schema.graphql")]
        ran = subprocess.run(argv, input=json.dumps(documents), env=env, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr
        return list(json.loads(ran.stdout))

    assert wrong(*forge_graphql.ALL) == [[] for _ in forge_graphql.ALL]
    assert wrong("{ viewer { nothing } }") != [[]]


def test_an_answer_that_is_none_of_githubs_is_said_to_be_one() -> None:
    with pytest.raises(ForgeError, match="number") as caught:
        forge_answers.pull({"html_url": "x"})
    assert caught.value.kind == "server"
