"""``traceparent`` as W3C Trace Context defines it (section 3.2), and no other text is taken for one."""

from __future__ import annotations

import pytest

from p2prdf.errors import LocalProtocolError
from p2prdf.wire.trace_context import TraceContext, parse_traceparent

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.mark.parametrize("flags", ["01", "03", "ff"])
def test_a_recorded_trace_is_taken_and_spelled_as_it_was(flags):
    found = parse_traceparent(f"00-{TRACE}-{PARENT}-{flags}")
    assert found == TraceContext(int(TRACE, 16), int(PARENT, 16))
    assert str(found) == f"00-{TRACE}-{PARENT}-01"


def test_a_trace_that_its_sender_does_not_record_is_not_traced():
    assert parse_traceparent(f"00-{TRACE}-{PARENT}-00") is None
    assert parse_traceparent(f"00-{TRACE}-{PARENT}-fe") is None


def test_a_later_version_may_say_more():
    assert parse_traceparent(f"cc-{TRACE}-{PARENT}-01-what-the-future-brings") is not None


@pytest.mark.parametrize("text", [
    "", "00", f"00-{TRACE}-{PARENT}", f"00-{TRACE}-{PARENT}-1", f"00-{TRACE.upper()}-{PARENT}-01",
    f"00-{'0' * 32}-{PARENT}-01", f"00-{TRACE}-{'0' * 16}-01", f"ff-{TRACE}-{PARENT}-01", f"00-{TRACE}-{PARENT}-01-x",
    f"00-{TRACE}-{PARENT}-01\n", f"cc-{TRACE}-{PARENT}-01-" + "x" * 255,
])  # fmt: skip
def test_a_bad_traceparent_is_refused_and_named(text):
    with pytest.raises(LocalProtocolError, match="traceparent"):
        parse_traceparent(text)
