"""Structured logs: one event name and plain fields per line, on standard error.

The core does not log; it returns Trace facts, to which :func:`trace_level` assigns levels.  Standard output is
reserved for the line that says that the node is ready.
"""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any, Final, TextIO

import structlog

if TYPE_CHECKING:
    from p2prdf.wire.contract import Span

__all__ = ["LineLimit", "configure_logs", "log_span", "trace_level"]

_LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40}
_ERRORS: Final = ("stamps-corrected", "clusters-met")
_INFO: Final = ("cluster-named", "cluster-merged")
_VALUE_CHARACTERS_MAX: Final = 500
"""Longer values are cut: input of unauthenticated senders must not fill the disk."""


def configure_logs(log_format: str, log_level: str, *, stream: TextIO | None = None) -> None:
    """Set up structlog for this process: JSON lines or a console rendering, to stderr by default."""
    out = sys.stderr if stream is None else stream
    as_json = log_format == "json" or (log_format == "auto" and not out.isatty())
    renderer: Any = (
        structlog.processors.JSONRenderer(sort_keys=False, default=str)
        if as_json
        else structlog.dev.ConsoleRenderer(colors=out.isatty())
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _shorten,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[log_level]),
        logger_factory=structlog.PrintLoggerFactory(out),
        cache_logger_on_first_use=True,
    )
    logging.captureWarnings(capture=True)


def trace_level(event: str) -> str:
    """Return the level at which a Trace of the core is logged."""
    bad = (
        "refused", "dropped", "protocol", "malformed", "failed", "lost", "expired", "broken", "withheld", "expelled",
        "expulsion", "readmitted",
    )  # fmt: skip
    if event in _ERRORS:
        return "error"
    if event in _INFO:
        return "info"
    return "warning" if any(word in event for word in bad) else "debug"


def log_span(span: Span, ended: float) -> None:
    """Log a span of a trace: one line with the trace's number, which the logs of all nodes share."""
    _spans.info(
        "span", name=span.name, trace=f"{span.trace:032x}", span=f"{span.span:016x}", parent=f"{span.parent:016x}",
        began=round(span.began, 6), ms=round(max(0.0, ended - span.began) * 1000, 3), **span.fields,
    )  # fmt: skip


def _shorten(_logger: Any, _method: str, fields: Any) -> Any:
    for name, value in fields.items():
        if isinstance(value, str) and len(value) > _VALUE_CHARACTERS_MAX and name != "exception":
            fields[name] = f"{value[:_VALUE_CHARACTERS_MAX]}... ({len(value)} characters)"
    return fields


_spans = structlog.get_logger("trace")


class LineLimit:
    """Admits a bounded number of log lines per second: unauthenticated senders must not fill the disk."""

    def __init__(self, lines_per_second: int):
        self._lines_per_second = lines_per_second
        self._second = -1
        self._lines = 0

    def allow(self, now: float) -> bool:
        """Tell whether one more line may be logged at time ``now`` (seconds)."""
        if int(now) != self._second:
            self._second, self._lines = int(now), 0
        self._lines += 1
        return self._lines <= self._lines_per_second
