"""One attempt as it went: what is told of it, how much, and that nothing of it says where on a machine it was."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchconverge.core import events as e
from orchconverge.core.values import Evidence, Usage
from orchconverge.core.views import trace as view
from orchconverge.core.views.trace import LONGEST, MOST_FACTS, MOST_LISTED, trace, without_paths
from tests.stories import CHECKOUT, Story, sha

TREES = "/home/somebody/.local/share/orchconverge/shop-0a/trees"
RECORD = {
    "work_convergence_frontier": "authoring",
    "work_convergence_state": "pending",
    "work_convergence_error": None,
    "work_convergence_constrained": True,
    "work_convergence_failed_checks": ["docs", "tests"],
}


def run_of_two() -> Story:
    """Two attempts; the second has two minds, of which one is grafted and the other pruned after its end."""
    story = Story().declare().start().check(met=["login"])
    story.attempt(met=["login"], result="no_progress", text="missing oauth", seconds=60.0)
    story.begin(minds=2).wait(120.0, basin="auth").ended("auth.2", usd=0.5).ended("auth.3", usd=0.25)
    story.candidate("auth.2", met=["login", "oauth"]).candidate("auth.3", met=["login"])
    story.graft("auth.2", met=["login", "oauth"]).judge(met=["login", "oauth"], text="fixed oauth")
    return story.wait(60.0).tell(
        e.BranchPruned(basin="auth", branch="auth.3", reason="covered by auth.2", decidedBy="ann"), writer="cli"
    )


def of(story: Story, number: int, basin: str = "auth") -> view.Trace:
    found = trace(story.facts, basin, number)
    assert found is not None
    return found


def test_every_fact_of_the_attempt_is_told_in_order_with_both_times() -> None:
    story = run_of_two()
    found = of(story, 2)
    assert [entry.type for entry in found.entries] == [
        "attempt.started",
        "basin.opened",
        *("branch.spawned", "branch.searching") * 2,
        *("branch.ended",) * 2,
        *("branch.candidate",) * 2,
        "branch.grafted",
        "basin.checked",
        "attempt.ended",
        "branch.pruned",
    ]
    told = {fact.seq: fact for fact in story.facts}
    assert all((entry.at, entry.active) == (told[entry.seq].at, told[entry.seq].active) for entry in found.entries)
    assert [entry.active for entry in found.entries][-2:] == [180.0, None], "a person's decision has no active time"


def test_the_head_says_what_became_of_it_and_what_it_used() -> None:
    found = of(run_of_two(), 2)
    assert (found.branches, found.running, found.result, found.charged) == (
        ("auth.2", "auth.3"),
        False,
        "partial_success",
        True,
    )
    assert found.usage == Usage(inputTokens=60_000, outputTokens=2_000, usd=0.75, source="reported")


def test_an_attempt_that_runs_is_told_so_far() -> None:
    story = Story().declare().start().check().begin()
    found = of(story, 1)
    assert (found.running, found.result, len(found.entries)) == (True, None, 4)
    assert view.text(found, story.now).startswith("Attempt 1 of auth: runs\n")


def test_there_is_none_of_another_number_or_basin() -> None:
    story = run_of_two()
    assert trace(story.facts, "auth", 3) is None
    assert trace(story.facts, "other", 1) is None


def test_facts_of_another_basin_are_not_of_it() -> None:
    story = Story().declare().start().check().begin()
    story.declare("other", target="x").start("other", tmux="t").check("other").begin("other").ended("other.1")
    story.ended("auth.1")
    assert {entry.fact.get("branch") for entry in of(story, 1).entries} == {None, "auth.1"}


def test_the_context_that_was_chosen_for_it_is_of_it() -> None:
    story = Story().declare().start(place="here").check()
    story.tell(e.AttemptStarted(basin="auth", attempt=1, strategy="continue", why="first", engine="claude"))
    story.tell(e.SessionContext(session="session-auth", engine="claude", engineSession="id", why="the first"))
    assert [entry.type for entry in of(story, 1).entries] == ["attempt.started", "session.context"]


def test_evidence_usage_and_the_record_of_work_convergence_are_shown() -> None:
    story = Story().declare().start().check().begin().ended("auth.1")
    story.candidate("auth.1", met=["oauth"])
    story.judge(met=["oauth"])
    facts = [*story.facts[:-1], msgspec.structs.replace(story.facts[-1], workConvergence=RECORD)]
    found = trace(facts, "auth", 1)
    assert found is not None
    assert found.work_convergence == RECORD
    said = view.text(found, story.now)
    assert "used 30k tokens in, 1k out, 0 cached, $0.50" in said
    assert f"met      oauth  exit 0  19.0s  tree {sha('auth.1t'):.8}  9 passed" in said
    assert "unmet    refresh  exit 1  20.0s" in said
    assert said.endswith(
        "Work convergence: as recorded\n"
        "  work_convergence_frontier: authoring\n"
        "  work_convergence_state: pending\n"
        "  work_convergence_constrained: true\n"
        "  work_convergence_failed_checks: docs, tests"
    )


# --- bounded ---------------------------------------------------------------------------------------------------------


def test_long_texts_and_lists_are_cut() -> None:
    story = Story().declare().start().check().begin()
    long = Evidence(criterion="oauth", met="no", tree=sha("t"), excerpt="x" * 100_000)
    story.ended("auth.1").candidate("auth.1", flags=["y" * 10_000] * 200)
    facts = [*story.facts[:-1], msgspec.structs.replace(story.facts[-1], evidence=(long,) * 300)]
    found = trace(facts, "auth", 1)
    assert found is not None
    last = found.entries[-1].fact
    assert len(last["evidence"]) == MOST_LISTED + 1
    assert last["evidence"][-1] == "and 250 more"
    assert len(last["evidence"][0]["excerpt"]) == len(last["flags"][0]) == LONGEST
    assert len(msgspec.json.encode(found)) < 80_000
    assert view.text(found, story.now).count("unmet    oauth") == MOST_LISTED


def test_facts_beyond_the_most_are_counted() -> None:
    story = Story().declare().start().check().begin()
    for number in range(MOST_FACTS):
        story.tell(e.FrontierAdded(question=f"question {number}", origin="auth.1", basin="auth"))
    found = of(story, 1)
    assert (len(found.entries), found.more) == (MOST_FACTS, 4)
    assert f"4 facts more, see: orchconverge ledger show --since {found.entries[-1].seq}" in view.text(found, story.now)


# --- without local paths ---------------------------------------------------------------------------------------------

told = without_paths([CHECKOUT, f"{TREES}/m-1f"], trees=[TREES])


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"{CHECKOUT}/tests/a.py:7: error", "tests/a.py:7: error"),
        (f"in {CHECKOUT}, and {CHECKOUT}/", "in ., and ."),
        (f"{TREES}/m-1f/src/x.py", "src/x.py"),
        (f"{TREES}/check-9c/src/x.py", "src/x.py"),
        (f"--rootdir={CHECKOUT}/docs", "--rootdir=docs"),
        ("tests/a.py and ./b/c and and/or", "tests/a.py and ./b/c and and/or"),
        ("see https://example.org/a/b?c=/d", "see https://example.org/a/b?c=/d"),
        ("3 / 4 of //", "3 / 4 of //"),
    ],
)
def test_what_lies_below_a_working_tree_is_told_from_there(text: str, shown: str) -> None:
    assert told(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "/etc/passwd",
        f"{CHECKOUT}2/a",
        f"{CHECKOUT}.",
        "error:/srv/a",
        "('/srv/a', 1)",
        "gcc -I/srv/include",
        "-L/srv/lib",
        "-/srv/removed line",
        "file:///srv/a",
        "PATH=/srv/bin",
        "/srv/a b",
    ],
)
def test_any_other_absolute_path_is_told_by_its_fingerprint(text: str) -> None:
    assert "path:" in told(text)
    assert "srv" not in told(text)
    assert "/home" not in told(text)
    assert told(text) == told(text), "the same each time, so that two can be compared"


HIDDEN = st.sampled_from([CHECKOUT, f"{TREES}/m-1f", f"{TREES}/check-00", "/home/somebody/.claude", "/home/somebody"])
BESIDE = st.text(st.sampled_from(" \n\t:=,;()[]{}'\"`<>|#@+-!?*&$%^"), max_size=3)


@given(st.lists(st.tuples(BESIDE, HIDDEN, st.sampled_from(["", "/", "/a.py", "/b/c.py:3"])), min_size=1, max_size=4))
def test_no_text_of_a_fact_keeps_a_local_path(parts: list[tuple[str, str, str]]) -> None:
    text = "said" + "".join(f"{before or ' '}{path}{rest}" for before, path, rest in parts)
    story = Story().declare().start().check().begin().ended("auth.1")
    story.failed("auth.1", text, verdict=text)
    story.tell(e.FrontierAdded(question=text, origin="auth.1", basin="auth"))
    story.park("disk", text).woke()
    story.judge(text=text)
    last = msgspec.structs.replace(story.facts[-1], workConvergence={text: [text]})
    found = trace([*story.facts[:-1], last], "auth", 1)
    assert found is not None
    assert "somebody" not in msgspec.json.encode(found).decode()
    assert "somebody" not in view.text(found, story.now)


def test_the_document_can_be_read_by_anybody() -> None:
    document = json.loads(msgspec.json.encode(of(run_of_two(), 2)))
    spawned = next(entry for entry in document["entries"] if entry["type"] == "branch.spawned")
    assert spawned["fact"]["worktree"] == "."
    assert set(spawned) == {"seq", "at", "active", "type", "what", "detail", "fact"}
