"""Runs as spans: which there are and what hangs below what, what they say and never say, and what the exporter makes of them."""

from __future__ import annotations

import logging
from collections.abc import Iterable

import pytest
from msgspec.structs import replace

from orchconverge.core import events as e
from orchconverge.core.spans import Span, Spans
from orchconverge.core.values import Limit, Usage
from tests.stories import START, Story, check, sha

SECRET = "what only a person, a repository or a mind would say"


def whole() -> Story:
    """A run with an attempt of two minds, their criteria, and a step; all its texts are `SECRET`."""
    story = Story().declare(goal=SECRET, macrostate=SECRET, criteria=(check("oauth"), check("docs"))).start().check()
    story.wait(10).begin(minds=2, approach=SECRET).wait(600)
    used = Usage(inputTokens=30, outputTokens=5, cacheReadTokens=1000, cacheWriteTokens=200, usd=0.5, source="reported")
    end = e.BranchEnded(
        basin="auth", branch="auth.1", reason="exited", seconds=600.0, head=sha("a"), exit=0, usage=used
    )
    story.tell(end).tell(replace(end, branch="auth.2", reason="deadline", exit=None, usage=None, error=SECRET))
    story.candidate("auth.1", met=["oauth", "docs"]).failed("auth.2", SECRET)
    story.graft("auth.1", met=["oauth", "docs"]).judge(
        met=["oauth", "docs"], result="success", text=SECRET, decision="SUCCESS"
    )
    story.wait(5).tell(e.StepStarted(basin="auth", round=1, step="pushl", argv=(SECRET,))).wait(30)
    story.tell(e.StepEnded(basin="auth", round=1, step="pushl", status="failed", detail=SECRET))
    return story.stop("converged", SECRET)


def spans(facts: Iterable[e.AnyFact]) -> list[Span]:
    taken = Spans()
    return [span for fact in facts for span in taken.take(fact)]


def named(found: Iterable[Span], name: str) -> list[Span]:
    return [span for span in found if span.name == name]


def test_a_run_is_a_tree_of_attempt_minds_criteria_and_step() -> None:
    found = spans(whole().facts)
    [run], [attempt], [step] = (named(found, name) for name in ("run", "attempt", "step"))
    minds, criteria = named(found, "invoke_agent claude"), named(found, "criterion")
    assert len(found) == 3 + len(minds) + len(criteria)
    assert (len(minds), len(criteria)) == (2, 6)  # two of the start, two of the candidate, two of what was grafted
    assert {span.trace for span in found} == {run.trace}
    assert len({span.id for span in found}) == len(found)
    assert (run.parent, attempt.parent, step.parent) == (None, run.id, run.id)
    assert {mind.parent for mind in minds} == {attempt.id}
    assert {one.parent for one in criteria} == {run.id, attempt.id}
    assert ((attempt.end - attempt.start).total_seconds(), (step.end - step.start).total_seconds()) == (600, 30)
    assert run.start == START
    assert all(span.start <= span.end for span in found)


def test_a_mind_follows_the_conventions() -> None:
    good, late = named(spans(whole().facts), "invoke_agent claude")
    assert dict(good.attributes) == {
        "orchconverge.basin": "auth",
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.system": "anthropic",
        "gen_ai.agent.name": "claude",
        "gen_ai.agent.id": "auth.1",
        "gen_ai.usage.input_tokens": 1230,
        "gen_ai.usage.output_tokens": 5,
        "gen_ai.usage.cache_read.input_tokens": 1000,
        "gen_ai.usage.cache_creation.input_tokens": 200,
        "orchconverge.usage.usd": 0.5,
    }
    assert (good.error, late.error, late.attributes["error.type"]) == ("", "deadline", "deadline")
    assert not any("usage" in name for name in late.attributes)


@pytest.mark.parametrize(
    ("engine", "provider"),
    [("codex", "openai"), ("gemini", "gcp.gemini"), ("acp:claude", "anthropic"), ("opencode", "opencode")],
)
def test_a_provider_is_told_by_the_agent(engine: str, provider: str) -> None:
    story = Story().declare().start().begin(engine=engine)
    story.tell(replace(story.facts[-2], branch="auth.2", model="m-1"))
    quota = e.BranchEnded(
        basin="auth", branch="auth.2", reason="exited", seconds=1.0, head=sha("a"), exit=1, limit=Limit(engine=engine)
    )
    [span] = spans([*story.facts, replace(quota, at=story.now)])
    assert (span.attributes["gen_ai.provider.name"], span.attributes["gen_ai.request.model"]) == (provider, "m-1")
    assert span.error == "quota"


def test_nobodys_text_is_in_a_span() -> None:
    assert SECRET not in repr(spans(whole().facts))


def test_a_controller_that_takes_over_goes_on_in_the_same_trace() -> None:
    story = Story().declare(criteria=(check("a"),)).start()
    lost = story.facts[-2]
    assert isinstance(lost, e.RunStarted)
    story.begin().wait(60).start(takes_over=lost.run).ended("auth.1").failed("auth.1", "no commits")
    story.judge().stop("limit")
    found = spans(story.facts)
    [run] = named(found, "run")
    assert run.attributes["orchconverge.run"] == lost.run
    assert {span.trace for span in found} == {run.trace}
    alone = Spans()
    for fact in story.facts[:-4]:
        alone.take(fact)
    assert [span for fact in story.facts[-4:] for span in alone.take(fact)] == found


def test_of_what_began_before_nothing_is_told() -> None:
    assert spans(fact for fact in whole().facts if not isinstance(fact, e.RunStarted)) == []


# --- the exporter -----------------------------------------------------------------------------------------------------


def test_the_sdk_gets_them_as_they_are() -> None:
    pytest.importorskip("opentelemetry.sdk")
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    from opentelemetry.trace import StatusCode

    from orchconverge.adapters.telemetry import Telemetry

    memory, said = InMemorySpanExporter(), list[str]()
    telemetry = Telemetry(said.append, processor=SimpleSpanProcessor(memory))
    found = spans(whole().facts)
    telemetry.send(found)
    got = memory.get_finished_spans()
    logging.getLogger("opentelemetry.exporter").error("Failed to export to https://user:secret@host/x, code: 400")
    logging.getLogger("opentelemetry.exporter").error("Failed to export to https://user:secret@host/x, code: 400")
    telemetry.close()
    for span, one in zip(got, found, strict=True):
        assert (span.name, span.context.trace_id, span.context.span_id) == (one.name, one.trace, one.id)
        assert (span.parent.span_id if span.parent else None) == one.parent
        assert dict(span.attributes or {}) == dict(one.attributes)
        assert (span.status.status_code is StatusCode.ERROR) == bool(one.error)
        assert span.resource.attributes["service.name"] == "orchconverge"
    run = next(span for span in got if span.name == "run")
    assert run.start_time == int(START.timestamp()) * 10**9
    assert said == ["otel: Failed to export to https://***@host/x, code: 400"]
    logging.getLogger("opentelemetry.exporter").error("nobody listens any more")
    assert len(said) == 1
