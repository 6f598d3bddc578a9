"""What a forge says of `pr` and `ci`: of exactly the commit that was judged, and no pending check for a passed one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orchconverge.adapters.forge_calls import Calls
from orchconverge.adapters.forge_github import GitHub
from orchconverge.adapters.forge_local import Local
from orchconverge.adapters.forge_urls import address_from
from orchconverge.app.forge_criteria import APPEAR_SECONDS, passed, requested
from orchconverge.core.target import Sha
from tests.tools.forge_stub import Stub, served
from tests.tools.forges import TOKENS

HEAD = Sha("a" * 40)


class Waited:
    """A clock that only waiting moves; ``then`` is what the forge knows after each wait."""

    def __init__(self, stub: Stub, *then: list[dict[str, Any]]) -> None:
        self.now, self.stub, self.then = 0.0, stub, list(then)

    def clock(self) -> float:
        return self.now

    def pause(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds
        if self.then:
            self.stub.runs = self.then.pop(0)


def check(name: str, conclusion: str | None) -> dict[str, Any]:
    return {"name": name, "status": "completed" if conclusion else "queued", "conclusion": conclusion}


@pytest.fixture
def stub() -> Iterator[Stub]:
    with served(Stub()) as stub:
        yield stub


def github(stub: Stub) -> GitHub:
    return GitHub(address_from(f"{stub.url}/repos/ann/shop"), Calls(stub.url, TOKENS["ann"], pause_seconds=0))


def test_a_check_that_has_not_ended_is_waited_for(stub: Stub) -> None:
    waited = Waited(
        stub,
        [check("unit", None)],
        [check("unit", "success"), check("lint", None)],
        [check("unit", "success"), check("lint", "success")],
    )
    told = passed(github(stub), HEAD, 600.0, clock=waited.clock, pause=waited.pause)
    assert told == ("yes", "passed: lint, unit")
    assert waited.now == 45.0


def test_a_failed_check_decides_at_once_whatever_is_pending(stub: Stub) -> None:
    waited = Waited(stub)
    stub.runs = [check("unit", "failure"), check("slow", None)]
    assert passed(github(stub), HEAD, 600.0, clock=waited.clock, pause=waited.pause) == ("no", "failed: unit")
    assert waited.now == 0.0


def test_what_is_pending_at_the_deadline_is_no_answer(stub: Stub) -> None:
    waited = Waited(stub)
    stub.runs = [check("slow", None)]
    met, text = passed(github(stub), HEAD, 100.0, clock=waited.clock, pause=waited.pause)
    assert (met, waited.now) == ("unknown", 100.0)
    assert text == "pending after 100 s: slow: `orchconverge --resume` asks again"


def test_where_nothing_checks_that_is_known_after_a_moment(stub: Stub, tmp_path: Path) -> None:
    local = Local(tmp_path / "pr" / "goal.json", basin="goal", base="main", resolve=lambda branch: HEAD)
    for forge in (github(stub), local):
        waited = Waited(stub)
        met, text = passed(forge, HEAD, 600.0, clock=waited.clock, pause=waited.pause)
        assert (met, waited.now) == ("error", APPEAR_SECONDS)
        assert text.startswith("nothing checks aaaaaaaa on ")


def test_only_an_open_pull_request_of_what_was_judged_counts(stub: Stub) -> None:
    forge = github(stub)
    assert requested(forge, "topic", HEAD)[0] == "no"
    pull = stub.pull("topic")
    assert requested(forge, "topic", HEAD) == ("yes", f"pull request 1 {pull['html_url']}")
    met, text = requested(forge, "topic", Sha("b" * 40))
    assert (met, text) == ("no", "pull request 1 stands at aaaaaaaa, not at bbbbbbbb: `orchconverge pushl`")
    pull["state"] = "closed"
    assert requested(forge, "topic", HEAD)[0] == "no"
