"""Bound the memory of nested terms with long prefixes in Turtle and TriG.

The parser writes prefixes out, and holds the terms of all open brackets (``[``, ``<<``, ``{|``) at once, before there
is a statement to count (:mod:`p2prdf.rdf.expansion`).  From the first very long IRI on that may be a prefix or a base,
the number of opening brackets is therefore bounded; those in strings and comments count as well.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["HELD_BYTES_MAX", "LongPrefixes"]

HELD_BYTES_MAX: Final = 32 << 20
"""Most bytes of very long prefixes in open brackets, if all brackets remain open."""

_LONG_BYTES: Final = 1 << 14
_LONG: Final = re.compile(rb'<[^\x00-\x20<>"]{%d,}+' % _LONG_BYTES)
_END: Final = re.compile(rb'[\x00-\x20<>"]')
_BEFORE_BYTES: Final = 256
_ELSEWHERE: Final = re.compile(rb"[^#\n\r]*[^#\n\r\s:][ \t]+\Z")
"""Text on a line before an IRI that is no prefix; a base is told by its keyword."""
_BASE: Final = re.compile(rb"base[ \t]+\Z", re.IGNORECASE)
_OPENS: Final = (b"[", b"<<", b"{|")


class LongPrefixes:
    """Examines a text piece by piece."""

    def __init__(self) -> None:
        self._rest = b""
        """The end of the text so far, if a long IRI may begin there, with some text before it."""
        self._within = 0
        """Length of the long prefix that the text so far ends in; 0 if it does not."""
        self._longest = 0
        self._brackets = 0
        self._last = b""

    def refusal(self, found: bytes) -> str:
        """Examine more text, and return the reason to refuse it; empty for nearly all texts."""
        self._search(found)
        if not self._longest:
            self._last = found[-1:] or self._last
            return ""
        self._brackets += sum((self._last[: len(each) - 1] + found).count(each) for each in _OPENS)
        self._last = found[-1:] or self._last
        if self._brackets * self._longest <= HELD_BYTES_MAX:
            return ""
        return f"{self._brackets:,} brackets beside a prefix of {self._longest:,} bytes: write a shorter prefix"

    def _search(self, found: bytes) -> None:
        """Note the length of long prefixes."""
        if self._within:
            end = _END.search(found)
            self._within += len(found) if end is None else end.start()
            self._longest = max(self._longest, self._within)
            if end is None:
                return
            self._within = 0
        text, self._rest = self._rest + found, b""
        for long in _LONG.finditer(text):
            before = text[max(0, long.start() - _BEFORE_BYTES) : long.start()]
            if _ELSEWHERE.match(before.rpartition(b"\n")[2]) is None or _BASE.search(before):
                self._longest = max(self._longest, len(long[0]))
                self._within = len(long[0]) if long.end() == len(text) else 0
        begin = text.rfind(b"<")
        if begin >= 0 and not self._within and _END.search(text, begin + 1) is None:
            self._rest = text[max(0, begin - _BEFORE_BYTES) :][: _BEFORE_BYTES + _LONG_BYTES + 1]
