"""Bound JSON-LD before the parser reads it.

pyoxigraph 0.5 processes nested objects by recursion: a document of 5,000 levels exhausts the stack and ends the
process.  Nested contexts take time with the third power of their depth.  So the text passes through a stream that
counts brackets outside of strings, and ends at the first one that nests too deeply.  The parser may keep the whole
document, so its length is bounded, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import IO, Final

from p2prdf.errors import DataRefused

__all__ = ["JSON_LD_BYTES_MAX", "JSON_LD_DEPTH_MAX", "prepared", "reason_of"]

JSON_LD_DEPTH_MAX: Final = 64
"""Deepest nesting of objects and arrays."""
JSON_LD_BYTES_MAX: Final = 64 << 20
"""Longest document."""

_CHUNK_BYTES: Final = 1 << 16
_OUTSIDE: Final = re.compile(rb'["\[\]{}]')
_INSIDE: Final = re.compile(rb'\\|"')
_REMOTE: Final = "No LoadDocumentCallback"


def prepared(data: IO[bytes], refuse: Callable[[str, int | None], DataRefused]) -> _Stream:
    """Return a stream of JSON-LD within the bounds; ``refuse`` makes the error for text beyond them."""
    return _Stream(data, refuse)


def reason_of(message: str) -> str:
    """Return the reason for the parser's message; contexts at other addresses are never fetched."""
    if _REMOTE in message:
        return "a context at another address is not fetched: write the context itself into the document"
    return message


class _Stream:
    """A readable stream of the text."""

    def __init__(self, data: IO[bytes], refuse: Callable[[str, int | None], DataRefused]):
        self._data = data
        self._refuse = refuse
        self._depth = self._size = 0
        self._line = 1
        self._within = False
        """Whether the text read so far ends within a string."""
        self._escaped = False
        """Whether it ends with the backslash of an escape."""
        self.error: DataRefused | None = None
        """The error that ended the text; the parser sees an early end of its input."""

    def read(self, size: int = -1) -> bytes:
        """Return at most ``size`` bytes, none at the end."""
        if self.error is not None:
            return b""
        chunk = self._data.read(min(size, _CHUNK_BYTES) if size >= 0 else _CHUNK_BYTES)
        self._size += len(chunk)
        if self._size > JSON_LD_BYTES_MAX:
            self.error = self._refuse(f"more than {JSON_LD_BYTES_MAX:,} bytes of JSON-LD: send N-Quads", None)
        else:
            self._count(chunk)
        self._line += chunk.count(b"\n")
        return b"" if self.error is not None else chunk

    def _count(self, chunk: bytes) -> None:
        """Count brackets outside of strings; set ``error`` at one that nests too deeply."""
        at = 0
        if self._escaped:
            at, self._escaped = 1, not chunk
        while (found := (_INSIDE if self._within else _OUTSIDE).search(chunk, at)) is not None:
            at, mark = found.end(), found[0]
            if mark == b'"':
                self._within = not self._within
            elif mark == b"\\":
                self._escaped = at == len(chunk)
                at += 1
            elif mark in b"[{":
                self._depth += 1
                if self._depth > JSON_LD_DEPTH_MAX:
                    line = self._line + chunk.count(b"\n", 0, at)
                    self.error = self._refuse(f"objects and arrays nest deeper than {JSON_LD_DEPTH_MAX}", line)
                    return
            else:
                self._depth -= 1
