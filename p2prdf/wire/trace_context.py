"""The trace of a publication: W3C Trace Context (level 1), header ``traceparent``.

The format is ``00-`` trace identifier (32 hexadecimal digits) ``-`` the sender's span (16) ``-`` flags (2).  Only the
lowest flag counts: if the sender records the trace, this node does, too; otherwise nothing is traced.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from p2prdf.errors import LocalProtocolError

__all__ = ["TRACEPARENT_CHARACTERS_MAX", "TraceContext", "parse_traceparent"]

TRACEPARENT_CHARACTERS_MAX: Final = 255
"""Maximum length, with room for later versions; longer texts are refused unread."""

_TRACEPARENT: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class TraceContext:
    """A trace (128 bits, not 0) and the parent span of the traced work (64 bits; 0: none)."""

    trace: int
    parent: int = 0

    def __str__(self) -> str:
        return f"00-{self.trace:032x}-{self.parent:016x}-01"


def parse_traceparent(text: str) -> TraceContext | None:
    """Return the context in a ``traceparent``; None if its sender does not record.

    Raises LocalProtocolError with the reason for a malformed text.
    """
    found = _TRACEPARENT.fullmatch(text) if len(text) <= TRACEPARENT_CHARACTERS_MAX else None
    if found is None:
        raise LocalProtocolError(f"traceparent {text[:80]!r}: not of the form 00-(32 digits)-(16 digits)-(2 digits)")
    version, trace, parent, flags, more = found.groups()
    if version == "ff" or (version == "00" and more):
        raise LocalProtocolError(f"traceparent {text[:80]!r}: not of version 00, nor of a later one")
    if not int(trace, 16) or not int(parent, 16):
        raise LocalProtocolError(f"traceparent {text[:80]!r}: a trace or span of zeros alone is none")
    return TraceContext(int(trace, 16), int(parent, 16)) if int(flags, 16) & 1 else None
