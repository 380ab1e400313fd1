"""Export of spans to an OpenTelemetry collector, by OTLP over HTTP (extra ``otel``).

:mod:`p2prdf.peer.network.tracing` creates the spans and their numbers.  This module converts them and passes them to
the batch processor of OpenTelemetry's SDK; its thread sends them, so that the event loop never waits.  Spans that the
collector does not accept are retried for some seconds, then dropped and counted; so are spans beyond the queue of
``QUEUE_SPANS``.

The exporter reads ``OTEL_EXPORTER_OTLP_HEADERS``, ``_CERTIFICATE`` and the other variables of OpenTelemetry, for
collectors that authenticate clients.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from p2prdf.errors import LocalProtocolError

if TYPE_CHECKING:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExportResult
    from opentelemetry.trace import SpanContext

    from p2prdf.wire.contract import Span

__all__ = ["SpanExport"]

QUEUE_SPANS: Final = 2048
BATCH_SPANS: Final = 512
BATCH_SECONDS: Final = 1.0
"""Longest time that a span waits for a batch to fill."""
ATTEMPT_SECONDS: Final = 5.0
"""Deadline for sending a batch, retries included."""


class _Counting:
    """A SpanExporter that counts exported and failed spans, for the status instead of a log line per batch."""

    def __init__(self, exporter: OTLPSpanExporter):
        self._exporter = exporter
        self.exported = self.failed = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send a batch; called by the processor's thread."""
        result = self._exporter.export(spans)
        if result.name == "SUCCESS":
            self.exported += len(spans)
        else:
            self.failed += len(spans)
        return result

    def shutdown(self) -> None:
        """Stop the exporter."""
        self._exporter.shutdown()


class SpanExport:
    """Export of one node's spans to a collector."""

    def __init__(self, endpoint: str, node: str):
        """Send to ``endpoint``, an http or https URL such as ``http://127.0.0.1:4318/v1/traces``.

        ``node``: key of this node.  Raises LocalProtocolError if OpenTelemetry is not installed.
        """
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
        except ImportError as error:
            raise LocalProtocolError(
                f"setting otlp_endpoint: it takes the extra otel (pip install 'p2prdf[otel]'): {error}"
            ) from error
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)  # it would log every batch that fails
        self._resource = Resource.create({"service.name": "p2prdf", "service.instance.id": node})
        self._counting = _Counting(OTLPSpanExporter(endpoint=endpoint, timeout=ATTEMPT_SECONDS))
        self._processor = BatchSpanProcessor(
            self._counting, max_queue_size=QUEUE_SPANS, max_export_batch_size=BATCH_SPANS,
            schedule_delay_millis=BATCH_SECONDS * 1000,
        )  # fmt: skip
        self.taken = 0

    def take(self, span: Span, ended: float) -> None:
        """Queue a span that ended at ``ended`` (seconds since 1970)."""
        self.taken += 1
        self._processor.on_end(_converted(span, ended, self._resource))

    def close(self) -> threading.Thread:
        """Send the queued spans; return the daemon thread that does so, which never keeps the process alive."""
        thread = threading.Thread(target=self._processor.shutdown, name="otlp-shutdown", daemon=True)
        thread.start()
        return thread

    def status(self) -> dict[str, int]:
        """Return counts of spans: queued (``taken``), exported, and refused by the collector (``failed``)."""
        return {"taken": self.taken, "exported": self._counting.exported, "failed": self._counting.failed}


def _converted(span: Span, ended: float, resource: Resource) -> ReadableSpan:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import Link, SpanKind

    links = span.fields.get("links", ())
    assert isinstance(links, list | tuple)
    return ReadableSpan(
        name=span.name,
        context=_context(span.trace, span.span, remote=False),
        parent=_context(span.trace, span.parent, remote=True) if span.parent else None,
        resource=resource,
        attributes={f"p2prdf.{name}": _plain(value) for name, value in span.fields.items() if name != "links"},
        links=[Link(_context(span.trace, int(each, 16), remote=True)) for each in links],
        kind=SpanKind.PRODUCER if span.name == "send" else SpanKind.INTERNAL,
        start_time=int(span.began * 1e9),
        end_time=int(max(span.began, ended) * 1e9),
    )


def _context(trace: int, span: int, *, remote: bool) -> SpanContext:
    from opentelemetry.trace import SpanContext, TraceFlags

    return SpanContext(trace, span, is_remote=remote, trace_flags=TraceFlags(TraceFlags.SAMPLED))


def _plain(value: object) -> str | bool | int | float:
    """Return a value as an attribute; unsigned 64-bit integers beyond OTLP's range become text."""
    if isinstance(value, bool | float) or (isinstance(value, int) and value < 1 << 63):
        return value
    return str(value)
