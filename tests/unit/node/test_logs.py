from __future__ import annotations

import io
import json

import structlog

from p2prdf_node.logs import LineLimit, configure_logs, trace_level


def test_json_logs_are_one_object_per_line_and_long_values_are_cut():
    out = io.StringIO()
    configure_logs("json", "info", stream=out)
    try:
        log = structlog.get_logger("test")
        log.debug("hidden")
        log.warning("event_name", reason="x" * 10_000, count=3)
    finally:
        structlog.reset_defaults()
    (line,) = out.getvalue().splitlines()
    entry = json.loads(line)
    assert entry["event"] == "event_name"
    assert entry["level"] == "warning"
    assert entry["count"] == 3
    assert entry["reason"].endswith("(10000 characters)")
    assert len(line) < 800


def test_errors_in_the_core_are_logged_as_warnings():
    assert trace_level("message-refused") == "warning"
    assert trace_level("planned") == "debug"


def test_lines_are_limited_per_second():
    limit = LineLimit(2)
    assert [limit.allow(10.1), limit.allow(10.2), limit.allow(10.9), limit.allow(11.0)] == [True, True, False, True]
