"""Sends spans over OTLP/HTTP, to where the standard `OTEL_EXPORTER_OTLP_*` variables say. Nobody waits for it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from orchconverge import __version__
from orchconverge.core.secrets import masked
from orchconverge.core.spans import Span
from orchconverge.core.views.text import clean

SEND_SECONDS: Final = 5.0
"""After which one try to send is given up."""
CLOSE_SECONDS: Final = 5.0
"""How long the last spans may take at the end of a run."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_WIDTH: Final = 200


class Telemetry:
    """Spans on their way. It owns a thread; what does not get through is said, each thing once."""

    def __init__(self, say: Callable[[str], None], *, processor: SpanProcessor | None = None) -> None:
        self._said = _Said(say)
        logging.getLogger("opentelemetry").addHandler(self._said)
        logging.getLogger("opentelemetry").propagate = False
        self._processor = processor or BatchSpanProcessor(OTLPSpanExporter(timeout=SEND_SECONDS))
        self._resource = Resource.create({"service.name": "orchconverge", "service.version": __version__})
        self._scope = InstrumentationScope("orchconverge", __version__)

    def send(self, spans: Iterable[Span]) -> None:
        """Take spans over. Returns at once."""
        for span in spans:
            self._processor.on_end(self._readable(span))

    def close(self) -> None:
        """Send what is left, for `CLOSE_SECONDS` at most."""
        thread = threading.Thread(target=self._processor.shutdown, name="telemetry", daemon=True)
        thread.start()
        thread.join(CLOSE_SECONDS)
        if thread.is_alive():
            self._said.say(f"the last spans could not be sent within {CLOSE_SECONDS:.0f} s")
        logging.getLogger("opentelemetry").removeHandler(self._said)

    def _readable(self, span: Span) -> ReadableSpan:
        def context(id: int) -> SpanContext:
            return SpanContext(span.trace, id, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))

        return ReadableSpan(
            name=span.name,
            context=context(span.id),
            parent=context(span.parent) if span.parent is not None else None,
            resource=self._resource,
            attributes=dict(span.attributes),
            kind=SpanKind.INTERNAL,
            status=Status(StatusCode.ERROR, span.error) if span.error else Status(StatusCode.UNSET),
            start_time=_nanoseconds(span.start),
            end_time=_nanoseconds(span.end),
            instrumentation_scope=self._scope,
        )


def _nanoseconds(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(microseconds=1) * 1000


class _Said(logging.Handler):
    """What the exporter says, in our log instead of on the terminal."""

    def __init__(self, say: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._say = say
        self._before: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        """One line, unless it was said before."""
        self.say(record.getMessage())

    def say(self, text: str) -> None:
        """Say it of the exporter, without what looks like a secret."""
        line = f"otel: {clean(masked(text), _WIDTH)}"
        if line not in self._before:
            self._before.add(line)
            self._say(line)
