"""Bound triple terms (RDF 1.2) before the parser reads them.

pyoxigraph 0.5 drops nested triple terms by recursion: some 20,000 levels exhaust the stack and end the process.  A
document has at most as many levels as occurrences of ``<<(``, so their number is bounded: in each line of N-Triples and
N-Quads, and in each document of Turtle and TriG.  Occurrences in literals count, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import IO, Final

from p2prdf.errors import DataRefused

__all__ = ["TRIPLE_TERMS_MAX", "prepared", "too_many"]

TRIPLE_TERMS_MAX: Final = 2000
"""Most occurrences of ``<<(``."""

_OPENS: Final = b"<<("


def too_many(text: bytes) -> bool:
    """Tell whether a text could nest triple terms too deeply for the parser."""
    return text.count(_OPENS) > TRIPLE_TERMS_MAX


def prepared(data: IO[bytes], refuse: Callable[[str, int | None], DataRefused]) -> _Stream:
    """Return a stream of Turtle or TriG that ends at the bound; ``refuse`` makes the error."""
    return _Stream(data, refuse)


class _Stream:
    """A readable stream of the text."""

    def __init__(self, data: IO[bytes], refuse: Callable[[str, int | None], DataRefused]):
        self._data = data
        self._refuse = refuse
        self._count = 0
        self._last = b""
        """The last two bytes read, at which an occurrence may begin."""
        self.error: DataRefused | None = None
        """The error that ended the text; the parser sees an early end of its input."""

    def read(self, size: int = -1) -> bytes:
        """Return at most ``size`` bytes, none at the end."""
        if self.error is not None:
            return b""
        found = self._data.read(size)
        self._count += (self._last + found).count(_OPENS)
        self._last = (self._last + found)[-2:]
        if self._count > TRIPLE_TERMS_MAX:
            reason = f"more than {TRIPLE_TERMS_MAX:,} occurrences of <<( in one document: write N-Triples"
            self.error = self._refuse(reason, None)
            return b""
        return found
