"""Which trace a publication belongs to, as W3C Trace Context (level 1) spells it in ``traceparent``.

``00-`` trace id (32 hexadecimal digits) ``-`` the sender's span (16) ``-`` flags (2).  Of the flags the lowest bit
counts: the sender records, and so do we; without it nothing is traced.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from p2prdf.errors import LocalProtocolError

__all__ = ["TRACEPARENT_CHARACTERS_MAX", "TraceContext", "parse_traceparent"]

TRACEPARENT_CHARACTERS_MAX: Final = 255
"""Of later versions, which say more behind; of what is longer nothing is looked at."""

_TRACEPARENT: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class TraceContext:
    """A trace (128 bits, not 0) and the span that comes before what is to be traced (64 bits; 0: none)."""

    trace: int
    parent: int = 0

    def __str__(self) -> str:
        return f"00-{self.trace:032x}-{self.parent:016x}-01"


def parse_traceparent(text: str) -> TraceContext | None:
    """Return what a ``traceparent`` says; None if its sender does not record.

    Raises LocalProtocolError naming what is wrong with it.
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
