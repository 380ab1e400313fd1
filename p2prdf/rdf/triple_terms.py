"""Bound the nesting of triple terms (RDF 1.2) before the parser reads them.

pyoxigraph 0.5 drops nested triple terms by recursion: some 20,000 levels exhaust the stack and end the process.  A line
of N-Triples or N-Quads has at most as many levels as occurrences of ``<<(``, so their number is bounded.  In Turtle and
TriG, each ``)>>`` ends a level, unless it may belong to a comment: if ``#`` precedes it on its line, outside of an IRI
in angle brackets.  (Between the beginnings of two levels there can be no string.)
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import IO, Final

from p2prdf.errors import DataRefused
from p2prdf.rdf.long_prefixes import LongPrefixes

__all__ = ["TRIPLE_TERMS_MAX", "prepared", "too_many"]

TRIPLE_TERMS_MAX: Final = 2000
"""Most occurrences of ``<<(`` in a line, and most levels in a document of Turtle or TriG."""

_OPENS: Final = b"<<("
_MARK: Final = re.compile(rb"<<\(|\)>>")
_IRI: Final = re.compile(rb"<[^<>\s]*>")
_LINE_BYTES: Final = 1 << 20
"""A longer line is examined in parts."""


def too_many(text: bytes) -> bool:
    """Tell whether a text could nest triple terms too deeply for the parser."""
    return text.count(_OPENS) > TRIPLE_TERMS_MAX


def prepared(data: IO[bytes], refuse: Callable[[str, int | None], DataRefused]) -> _Stream:
    """Return a stream of Turtle or TriG that ends at the bound; ``refuse`` makes the error."""
    return _Stream(data, refuse)


class _Stream:
    """A readable stream of the text; in the present line, which is examined at its end, every ``<<(`` counts."""

    def __init__(self, data: IO[bytes], refuse: Callable[[str, int | None], DataRefused]):
        self._data = data
        self._refuse = refuse
        self._prefixes = LongPrefixes()
        self._level = 0
        self._line = bytearray()
        """The beginning of the present line."""
        self._opened = 0
        """Occurrences of ``<<(`` in the present line."""
        self._commented = False
        """Whether a part of the present line that was examined has a ``#``."""
        self.error: DataRefused | None = None
        """The error that ended the text; the parser sees an early end of its input."""

    def read(self, size: int = -1) -> bytes:
        """Return at most ``size`` bytes, none at the end."""
        if self.error is not None:
            return b""
        found = self._data.read(size)
        if self._deep(found):
            reason = f"triple terms nest deeper than {TRIPLE_TERMS_MAX:,}, or many follow a # on their line"
            self.error = self._refuse(f"{reason}: write N-Triples", None)
        elif reason := self._prefixes.refusal(found):
            self.error = self._refuse(reason, None)
        return b"" if self.error else found

    def _deep(self, found: bytes) -> bool:
        """Examine the lines that end in some bytes; tell whether triple terms nest too deeply."""
        end = max(found.rfind(b"\n"), found.rfind(b"\r")) + 1
        self._line += found[:end]
        deep = end > 0 and self._examined(bytes(self._line))
        if end:
            self._line.clear()
            self._opened = 0
            self._commented = False
        self._opened += (bytes(self._line[-2:]) + found[end:]).count(_OPENS)
        self._line += found[end:]
        if not deep and (len(self._line) > _LINE_BYTES or self._level + self._opened > TRIPLE_TERMS_MAX):
            deep = self._examined_in_part()
        return deep or self._level + self._opened > TRIPLE_TERMS_MAX

    def _examined_in_part(self) -> bool:
        """Examine the present line up to an IRI or a mark that may be incomplete."""
        cut = max(self._line.rfind(b"<"), self._line.rfind(b")"))
        cut = len(self._line) if cut < 0 or b">" in self._line[cut:] else cut - (self._line[cut - 1 : cut] == b"<")
        part = bytes(self._line[:cut])
        deep = self._examined(part)
        self._commented = self._commented or b"#" in _IRI.sub(b"", part)
        del self._line[:cut]
        self._opened = self._line.count(_OPENS)
        return deep

    def _examined(self, text: bytes) -> bool:
        if _OPENS not in text and b")>>" not in text:
            return False
        commented = self._commented
        for line in text.replace(b"\r", b"\n").split(b"\n"):
            if _OPENS in line or b")>>" in line:
                plain = _IRI.sub(b"", line)
                comment = 0 if commented else plain.find(b"#")
                for mark in _MARK.finditer(plain):
                    if mark[0] == _OPENS:
                        self._level += 1
                    elif comment < 0 or mark.start() < comment:
                        self._level = max(0, self._level - 1)
                    if self._level > TRIPLE_TERMS_MAX:
                        return True
            commented = False
        return False
