"""`pushl` on real git with a bare remote: what goes there, what is refused, and one pull request whatever happens."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from msgspec.structs import replace

from orchconverge.adapters.forge_calls import Calls
from orchconverge.adapters.forge_github import GitHub
from orchconverge.adapters.forge_local import Local
from orchconverge.adapters.forge_urls import address_from
from orchconverge.adapters.git import Repository
from orchconverge.app.closing import Closing
from orchconverge.app.pushl import PLAIN, Asked, pushl
from orchconverge.core.seen import StepResult
from orchconverge.core.state import Basin, Run
from orchconverge.core.target import Sha
from orchconverge.core.values import Settings
from orchconverge.core.views import pull_request as text
from orchconverge.ports.forge import Forge, ForgeError
from tests.fakes.clock import Time, VirtualClock
from tests.fakes.ledger import MemoryLedger
from tests.stories import Story
from tests.tools.forge_stub import Dying, Fault, Killed, Stub, served
from tests.tools.forges import TOKENS

TARGET = "topic"


class Place:
    """A checkout of ``topic`` with one commit that was judged, its bare remote, and the forge."""

    def __init__(self, folder: Path, forge: Callable[[], Forge] | None) -> None:
        self.root, self.remote, self.state = folder / "shop", folder / "remote.git", folder / "state"
        self.git("init", "-q", "--bare", "-b", "main", str(self.remote), cwd=folder)
        self.git("init", "-q", "-b", "main", str(self.root), cwd=folder)
        base = self.commit({"README.md": "# shop\n"}, "start")
        self.git("remote", "add", "origin", str(self.remote))
        self.git("push", "-q", "origin", "main")
        self.git("switch", "-q", "-c", TARGET)
        self.judged = self.commit({"a.py": "a = 1\n"}, "login: a form")
        story = Story().declare(goal="fix the login", target=TARGET)
        story.start(checkout=str(self.root), place="here", base=base, onto="main")
        story.check(met=[criterion.name for criterion in story.basin().criteria])
        told = story.basin()
        assert told.run is not None
        assert told.tip is not None
        self.run: Run = told.run
        self.basin: Basin = replace(told, tip=replace(told.tip, head=self.judged))
        self.repository = Repository.open(self.root, trees=folder / "trees")
        self.closing = Closing(
            ledger=MemoryLedger(VirtualClock(Time())),
            git=self.repository,
            state=self.state,
            forge=(lambda basin, run: forge()) if forge is not None else self.record,
            record=self.record,
        )

    def record(self, basin: Basin, run: Run) -> Local:
        def resolve(name: str) -> Sha | None:
            return self.repository.resolve(f"refs/heads/{name}")

        return Local(self.state / "pr" / f"{basin.id}.json", basin=basin.id, base="main", resolve=resolve)

    def git(self, *words: str, cwd: Path | None = None) -> str:
        ran = subprocess.run(["git", *words], cwd=cwd or self.root, check=True, capture_output=True, text=True)
        return ran.stdout.strip()

    def commit(self, files: dict[str, str], message: str) -> Sha:
        for name, content in files.items():
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text(content)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)
        return Sha(self.git("rev-parse", "HEAD"))

    def there(self, branch: str = TARGET) -> str | None:
        """Where a branch of the remote stands."""
        told = self.git("for-each-ref", "--format=%(objectname)", f"refs/heads/{branch}", cwd=self.remote)
        return told or None

    def pushl(self, asked: Asked = PLAIN, **settings: object) -> StepResult:
        changed: Settings = replace(self.run.settings, **settings)
        return pushl(self.closing, self.basin, replace(self.run, settings=changed), (), asked=asked)

    def unmet(self, *names: str) -> None:
        """Let these criteria not hold at what was judged."""
        assert self.basin.tip is not None
        results = dict(self.basin.tip.results)
        for name in names:
            results[name] = replace(results[name], met="no")
        self.basin = replace(self.basin, tip=replace(self.basin.tip, results=results))


@pytest.fixture(autouse=True)
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("GIT_", "XDG_"))]:
        monkeypatch.delenv(name)
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text("[user]\n\tname = Ann Person\n\temail = ann@example.org\n")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


@pytest.fixture
def stub() -> Iterator[Stub]:
    with served(Stub()) as stub:
        yield stub


@pytest.fixture
def place(tmp_path: Path, stub: Stub) -> Place:
    def forge() -> GitHub:
        calls = Calls(stub.url, TOKENS["ann"], pause_seconds=0, sleep=lambda seconds: None, seconds=5.0)
        return GitHub(address_from(f"{stub.url}/repos/ann/shop"), calls)

    return Place(tmp_path, forge)


@pytest.fixture
def alone(tmp_path: Path) -> Place:
    """One without a forge."""
    return Place(tmp_path, None)


def labels(stub: Stub) -> list[str]:
    return [each["name"] for each in stub.pulls[0]["labels"]]


def test_it_pushes_what_was_judged_and_opens_a_pull_request(place: Place, stub: Stub) -> None:
    result = place.pushl()
    assert result.status == "done", result
    assert place.there() == place.judged == result.commit
    [pull] = stub.pulls
    assert (pull["title"], pull["base"]["ref"], pull["draft"]) == ("auth", "main", False)
    assert result.url == pull["html_url"]
    assert "| oauth | yes |" in pull["body"]
    assert "login: a form" in pull["body"]
    assert labels(stub) == ["type: bug", "size: small", "scope: backend", "priority: normal"]
    assert "pull request 1 opened" in result.detail


def test_a_second_time_brings_it_up_to_date_and_keeps_what_a_person_wrote(place: Place, stub: Stub) -> None:
    place.pushl()
    [pull] = stub.pulls
    pull["body"] = f"Look at a.py first.\n\n{pull['body']}\n\nCloses #12"
    pull["title"] = "A person's title"
    pull["labels"].append({"name": "help wanted"})
    head = place.commit({f"{n}.py": "x\n" * 60 for n in range(3)}, "more")
    assert place.basin.tip is not None
    place.basin = replace(place.basin, tip=replace(place.basin.tip, head=head))
    result = place.pushl()
    assert "brought up to date" in result.detail
    assert len(stub.pulls) == 1
    assert pull["body"].startswith("Look at a.py first.")
    assert pull["body"].endswith("Closes #12")
    assert "Files changed: 4" in pull["body"]
    assert pull["title"] == "A person's title"
    assert labels(stub) == ["type: bug", "scope: backend", "priority: normal", "help wanted", "size: medium"]


def test_nothing_is_written_where_nothing_changed(place: Place, stub: Stub) -> None:
    place.pushl()
    before = len(stub.seen)
    assert place.pushl().status == "done"
    assert {verb for verb, _, _ in stub.seen[before:]} == {"GET"}


def test_what_does_not_hold_yet_is_a_draft_until_it_does(place: Place, stub: Stub) -> None:
    place.unmet("login")
    assert "as a draft" in place.pushl().detail
    assert stub.pulls[0]["draft"]
    assert place.basin.tip is not None
    held = {name: replace(each, met="yes") for name, each in place.basin.tip.results.items()}
    place.basin = replace(place.basin, tip=replace(place.basin.tip, results=held))
    assert place.pushl().status == "done"
    assert not stub.pulls[0]["draft"]


def test_a_persons_own_draft_stays_one(place: Place, stub: Stub) -> None:
    stub.pull(TARGET, draft=True, user=stub.user("bob"))
    assert "mark it as ready there" in place.pushl().detail
    assert stub.pulls[0]["draft"]


# --- what is refused -------------------------------------------------------------------------------------------------


def test_a_merge_in_progress_is_refused(place: Place, stub: Stub) -> None:
    place.git("switch", "-q", "-c", "other", "main")
    place.commit({"a.py": "a = 2\n"}, "other")
    place.git("switch", "-q", TARGET)
    subprocess.run(["git", "merge", "other"], cwd=place.root, capture_output=True)
    result = place.pushl()
    assert result.status == "failed"
    assert "merge is in progress" in result.detail
    assert place.there() is None
    assert stub.pulls == []


def test_a_conflict_without_an_operation_is_refused(place: Place) -> None:
    (place.root / "a.py").write_text("a = 3\n")
    place.git("stash")
    place.commit({"a.py": "a = 4\n"}, "meanwhile")
    subprocess.run(["git", "stash", "pop"], cwd=place.root, capture_output=True)
    result = place.pushl()
    assert "conflict is in progress" in result.detail
    assert place.there() is None


def test_a_detached_head_is_refused(place: Place) -> None:
    place.git("switch", "-q", "--detach")
    result = place.pushl()
    assert result.status == "failed"
    assert "git switch topic" in result.detail
    assert place.there() is None


def test_what_was_not_judged_is_not_pushed(place: Place, stub: Stub) -> None:
    place.commit({"b.py": "b\n"}, "by hand")
    assert "the target moved" in place.pushl().detail
    assert place.there() is None
    assert stub.pulls == []


def test_a_branch_that_is_gone_is_said_to_be(place: Place) -> None:
    place.git("switch", "-q", "main")
    place.git("branch", "-q", "-D", TARGET)
    assert place.pushl().detail == "the branch topic is gone"


def test_the_default_branch_is_never_pushed(place: Place, stub: Stub) -> None:
    before = place.there("main")
    place.basin = replace(place.basin, target="main")
    place.git("switch", "-q", "main")
    place.git("merge", "-q", "--ff-only", TARGET)
    result = place.pushl(Asked(force=True))
    assert result.status == "skipped"
    assert "never pushed unasked" in result.detail
    assert place.there("main") == before
    assert stub.pulls == []


# --- force -----------------------------------------------------------------------------------------------------------


def rewritten(place: Place, *, by: str) -> str:
    """The remote's topic was pushed by us and is now something else."""
    place.pushl()
    place.git("fetch", "-q", "origin")
    place.git("clone", "-q", str(place.remote), by, cwd=place.root.parent)
    clone = place.root.parent / by
    place.git("switch", "-q", TARGET, cwd=clone)
    (clone / "bob.py").write_text("bob\n")
    place.git("add", "-A", cwd=clone)
    place.git("commit", "-q", "-m", "bob's", cwd=clone)
    place.git("push", "-q", "origin", TARGET, cwd=clone)
    head = place.git("rev-parse", "HEAD", cwd=clone)
    place.git("reset", "-q", "--hard", "HEAD~1")
    fresh = place.commit({"a.py": "a = 9\n"}, "again")
    assert place.basin.tip is not None
    place.basin = replace(place.basin, tip=replace(place.basin.tip, head=fresh))
    return head


def test_without_the_word_nothing_is_forced(place: Place) -> None:
    theirs = rewritten(place, by="bob")
    result = place.pushl()
    assert result.status == "failed"
    assert "pushl force" in result.detail
    assert place.there() == theirs


def test_force_replaces_only_what_was_seen(place: Place) -> None:
    theirs = rewritten(place, by="bob")
    result = place.pushl(Asked(force=True))
    assert result.status == "failed"
    assert "moved since it was seen" in result.detail
    assert place.there() == theirs
    place.git("fetch", "-q", "origin")
    assert place.pushl(Asked(force=True)).status == "done"
    assert place.there() == place.git("rev-parse", TARGET)


def test_force_over_what_was_never_seen_is_refused(place: Place) -> None:
    assert "was never seen here" in place.pushl(Asked(force=True)).detail
    assert place.there() is None


# --- what is committed -----------------------------------------------------------------------------------------------


def test_nothing_is_committed_that_was_not_asked_for(place: Place) -> None:
    (place.root / "a.py").write_text("a = 5\n")
    (place.root / "new.py").write_text("new\n")
    assert place.pushl().status == "done"
    assert place.there() == place.judged
    assert place.git("status", "--porcelain") == "M a.py\n?? new.py"


def test_a_message_commits_what_matches_and_says_that_it_was_not_checked(place: Place, stub: Stub) -> None:
    for name in ("src/a.py", "src/a.log", "notes.txt", "docs/b.md"):
        (place.root / name).parent.mkdir(exist_ok=True)
        (place.root / name).write_text("x\n")
    asked = Asked(message="by hand; $(touch pwned) -m x", include=("src/*", "*.md"), exclude=("*.log",))
    result = place.pushl(asked)
    assert result.status == "done"
    assert place.git("show", "--name-only", "--format=%s%n%an", "HEAD").splitlines() == [
        "by hand; $(touch pwned) -m x",
        "Ann Person",
        "",
        "docs/b.md",
        "src/a.py",
    ]
    assert place.there() == place.git("rev-parse", "HEAD") == result.commit
    assert place.git("status", "--porcelain", "-uall") == "?? notes.txt\n?? src/a.log"
    assert "**1 commit on top of what was checked" in stub.pulls[0]["body"]
    assert "the target moved" in place.pushl().detail


# --- what only looks -------------------------------------------------------------------------------------------------


def test_a_dry_run_changes_nothing_and_says_what_it_would(place: Place, stub: Stub) -> None:
    result = place.pushl(Asked(dry_run=True, message="x"))
    assert result.status == "skipped"
    assert "would be pushed to origin, a pull request opened, labels type: bug" in result.detail
    assert place.there() is None
    assert {verb for verb, _, _ in stub.seen} == {"GET"}
    assert not place.state.exists()
    place.pushl()
    assert "pull request 1 brought up to date" in place.pushl(Asked(dry_run=True)).detail


def test_labels_only_pushes_nothing(place: Place, stub: Stub) -> None:
    assert "`orchconverge pushl` opens one" in place.pushl(Asked(labels_only=True)).detail
    stub.pull(TARGET, body="mine")
    result = place.pushl(Asked(labels_only=True))
    assert result.status == "done"
    assert labels(stub)[0] == "type: bug"
    assert stub.pulls[0]["body"] == "mine"
    assert place.there() is None


def test_an_outdated_description_is_found_and_left(place: Place, stub: Stub) -> None:
    stub.pull(TARGET, body=text.body(place.basin, place.repository.work(place.judged, place.judged), ()))
    result = place.pushl(Asked(detect_outdated=True))
    assert "the description speaks of 0 files, 1 changed" in result.detail
    assert {verb for verb, _, _ in stub.seen} == {"GET"}
    place.pushl()
    assert "up to date" in place.pushl(Asked(detect_outdated=True)).detail


# --- the forge fails, or has other ideas -----------------------------------------------------------------------------


@pytest.mark.parametrize("status", [401, 403, 404, 409, 422, 500, 0])
def test_a_forge_that_fails_ends_the_step_with_a_reason_after_the_push(place: Place, stub: Stub, status: int) -> None:
    stub.faults.append(Fault("POST", "/pulls$", status, times=99))
    result = place.pushl()
    assert result.status == "failed"
    assert "pushed to origin; no pull request: " in result.detail
    assert place.there() == place.judged
    assert "pr/auth.json, with a bundle beside it" in result.detail
    stub.faults.clear()
    assert place.pushl().status == "done"
    assert place.pushl().status == "done"
    assert len(stub.pulls) == 1


@pytest.mark.parametrize("status", [403, 404, 422])
def test_labels_that_are_refused_are_said_and_are_no_failure(place: Place, stub: Stub, status: int) -> None:
    stub.faults.append(Fault("POST", "/labels$", status))
    result = place.pushl()
    assert result.status == "done"
    assert "not labelled: " in result.detail


def test_where_nobody_is_signed_in_the_push_is_done_and_a_record_kept(place: Place) -> None:
    def nobody(basin: Basin, run: Run) -> Forge:
        raise ForgeError("unauthorised", "nobody is signed in to github.com", hint="`gh auth login`")

    place.closing = dataclasses.replace(place.closing, forge=nobody)
    result = place.pushl()
    assert result.status == "done"
    assert "nobody is signed in to github.com (`gh auth login`)" in result.detail
    assert place.there() == place.judged


def test_a_setting_that_means_no_forge_fails_and_the_push_is_said(place: Place) -> None:
    def wrong(basin: Basin, run: Run) -> Forge:
        address_from("github.com/ann/shop")
        raise AssertionError

    place.closing = dataclasses.replace(place.closing, forge=wrong)
    result = place.pushl()
    assert result.status == "failed"
    assert "pushed to origin; no pull request: the setting forge is no address" in result.detail


def test_one_that_a_person_closed_is_not_opened_again(place: Place, stub: Stub) -> None:
    place.pushl()
    stub.pulls[0]["state"] = "closed"
    result = place.pushl()
    assert result.status == "failed"
    assert "pull request 1 was closed: reopen it there" in result.detail
    assert len(stub.pulls) == 1


def test_one_that_was_merged_is_done_and_further_work_gets_another(place: Place, stub: Stub) -> None:
    place.pushl()
    stub.pulls[0] |= {"state": "closed", "merged_at": stub.moment()}
    stub.pulls[0]["head"]["sha"] = place.judged
    assert "was merged" in place.pushl().detail
    assert len(stub.pulls) == 1
    head = place.commit({"b.py": "b\n"}, "more")
    assert place.basin.tip is not None
    place.basin = replace(place.basin, tip=replace(place.basin.tip, head=head))
    assert "pull request 2 opened" in place.pushl().detail


def test_without_a_difference_no_pull_request_is_opened(place: Place, stub: Stub) -> None:
    result = place.pushl(base=place.judged)
    assert result.status == "done"
    assert "nothing differs" in result.detail
    assert stub.pulls == []


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_killed_at_any_request_and_begun_again_it_ends_the_same(place: Place, before: bool) -> None:
    place.unmet("login")
    ends = []
    for last in range(1, 40):
        with served(Stub()) as stub:
            calls = Dying(stub.url, last=last, before=before)
            forges = iter((calls, Calls(stub.url, TOKENS["ann"], pause_seconds=0)))
            place.closing = dataclasses.replace(
                place.closing,
                forge=lambda basin, run: GitHub(address_from(f"{stub.url}/repos/ann/shop"), next(forges)),  # noqa: B023
            )
            with suppress(Killed):
                place.pushl()
            if calls.last > 0:
                break
            assert place.pushl().status == "done"
            [pull] = stub.pulls
            ends.append((pull["body"], pull["draft"], sorted(labels(stub))))
    assert len(ends) >= 6, "each request of the step was the last one once"
    assert all(end == ends[0] for end in ends)


# --- no forge --------------------------------------------------------------------------------------------------------


def test_without_a_forge_there_is_a_record_and_a_bundle(alone: Place) -> None:
    result = alone.pushl()
    assert result.status == "done"
    assert alone.there() == alone.judged
    record = json.loads((alone.state / "pr/auth.json").read_text())
    assert (record["basin"], record["branch"], record["head"], record["base"]) == ("auth", TARGET, alone.judged, "main")
    assert record["labels"] == ["type: bug", "size: small", "scope: backend", "priority: normal"]
    assert "| oauth | yes |" in record["body"]
    bundle = alone.state / "pr/auth.bundle"
    assert TARGET in alone.git("bundle", "list-heads", str(bundle))
    assert {path.stat().st_mode & 0o777 for path in (bundle, alone.state / "pr/auth.json")} == {0o600}


def test_without_a_remote_there_is_the_record_alone(alone: Place) -> None:
    alone.git("remote", "remove", "origin")
    result = alone.pushl()
    assert result.status == "skipped"
    assert "no remote called origin; the pull request record is pr/auth.json" in result.detail


def test_what_a_person_wrote_into_a_record_stays(alone: Place) -> None:
    alone.pushl()
    path = alone.state / "pr/auth.json"
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, "body": f"Mine.\n\n{record['body']}"}))
    alone.pushl()
    assert json.loads(path.read_text())["body"].startswith("Mine.\n\n<!-- orchconverge:description -->")
