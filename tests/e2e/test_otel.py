"""A run sends its spans to a receiver of OTLP/HTTP on loopback, only where it is told to, and nobody waits for that."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.e2e.lab import Lab, meets, met, mind

trace_service = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
pytestmark = [pytest.mark.tmux, pytest.mark.slow]


class Collector(ThreadingHTTPServer):
    """Keeps the spans that are posted to it."""

    def __init__(self) -> None:
        self.resources: list[Any] = []
        self.paths: set[str] = set()
        super().__init__(("127.0.0.1", 0), _Post)

    @property
    def spans(self) -> list[Any]:
        return [span for each in self.resources for scope in each.scope_spans for span in scope.spans]


class _Post(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.paths.add(self.path)
        self.server.resources += trace_service.ExportTraceServiceRequest.FromString(body).resource_spans
        self.send_response(200)
        self.end_headers()

    def log_message(self, *words: object) -> None:
        pass


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def attributes(span: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in span.attributes}


def drive(lab: Lab) -> str:
    usage = {"usage": {"inputTokens": 100, "outputTokens": 7}}
    script = lab.script(mind(usage, {"say": "a secret word"}, *meets("a")))
    return lab.play("a is there", script, *met("a"), "--final", "none", "--foreground").stderr


def test_a_run_arrives_as_one_trace(lab: Lab, collector: Collector) -> None:
    lab.env["OTEL_EXPORTER_OTLP_ENDPOINT"] = f"http://127.0.0.1:{collector.server_port}"
    drive(lab)
    assert collector.spans == []  # an endpoint of somebody else's is no wish of a person
    lab.env["ORCHCONVERGE_OTEL"] = "true"
    script = lab.script(mind({"usage": {"inputTokens": 100, "outputTokens": 7}}, {"say": "a secret word"}, *meets("b")))
    lab.play("b is there", script, *met("b"), "--final", "none", "--foreground")
    assert collector.paths == {"/v1/traces"}
    spans = {span.name: span for span in collector.spans}
    assert set(spans) == {"run", "attempt", "criterion", "invoke_agent scripted"}
    assert len({span.trace_id for span in collector.spans}) == 1
    assert spans["invoke_agent scripted"].parent_span_id == spans["attempt"].span_id
    assert spans["attempt"].parent_span_id == spans["run"].span_id
    agent = attributes(spans["invoke_agent scripted"])
    assert (agent["gen_ai.operation.name"], agent["gen_ai.agent.id"]) == ("invoke_agent", "b-is-there.1")
    assert (agent["gen_ai.usage.input_tokens"], agent["gen_ai.usage.output_tokens"]) == (100, 7)
    assert attributes(spans["run"])["orchconverge.reason"] == "converged"
    assert b"a secret word" not in b"".join(each.SerializeToString() for each in collector.resources)
    assert attributes(collector.resources[0].resource)["service.name"] == "orchconverge"


def test_a_receiver_that_is_not_there_is_a_line_and_the_run_goes_on(lab: Lab) -> None:
    lab.env |= {"ORCHCONVERGE_OTEL": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://user:secret@127.0.0.1:9"}
    began = time.monotonic()
    said = drive(lab)
    assert time.monotonic() - began < 45
    assert " otel: " in said
    assert "secret" not in said
    assert "Traceback" not in (lab.state_dir / "logs" / "system.log").read_text()
