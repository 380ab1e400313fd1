"""The check of what clients publish: are these columns of terms triples?

A node looks at each term once, for the outer shape of canonical N-Triples, so that it never passes on
what a reader of results would choke on.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from p2prdf.errors import DataRefused

if TYPE_CHECKING:
    from p2prdf.rdf.dictionary import TermDictionary

__all__ = ["TermCheck"]

_AT_ONCE = 4096


class TermCheck:
    """Tells whether columns of term identifiers can be triples.

    Identifiers are dense, so what was looked at is a number: everything below it.  New terms are looked
    at together; the few that are bad are remembered.
    """

    _IRI_TEXT = r'<[^\x00-\x20<>"{}|^`\\]+>'
    _LITERAL_TEXT = (
        r'"[^"\\\n\r]*+(?:\\(?:[tbnrf"\\]|u[0-9A-F]{4}|U[0-9A-F]{8})[^"\\\n\r]*+)*"'
        rf"(?:@[a-z]+(?:-[a-z0-9]+)*|\^\^{_IRI_TEXT})?"
    )
    _TERM = re.compile(f"{_IRI_TEXT}|{_LITERAL_TEXT}")
    _LINES = re.compile(f"(?:(?:{_IRI_TEXT}|{_LITERAL_TEXT})\n)*")

    def __init__(self, dictionary: TermDictionary):
        self._dictionary = dictionary
        self._seen = 0
        self._bad: set[int] = set()

    def check(self, s: Any, p: Any, o: Any) -> None:
        """Raise DataRefused, naming the term, unless the columns are triples."""
        if not len(s) == len(p) == len(o):
            raise DataRefused(f"columns of different length: {len(s)}, {len(p)}, {len(o)}")
        self._look_at_new()
        literal = self._dictionary.literal_array()
        for column, place, literals in ((s, "subject", False), (p, "predicate", False), (o, "object", True)):
            terms = np.asarray(column)
            wrong = np.isin(terms, list(self._bad)) if self._bad else np.zeros(len(terms), np.bool_)
            if not literals:
                wrong |= literal[terms]
            if wrong.any():
                self._complain(int(terms[wrong.argmax()]), place)

    def _look_at_new(self) -> None:
        """Look at the terms taken in since: all at once, and one by one if one of them is bad."""
        first, self._seen = self._seen, len(self._dictionary)
        for start in range(first, self._seen, _AT_ONCE):
            numbers = range(start, min(start + _AT_ONCE, self._seen))
            texts = self._dictionary.texts(numbers)
            joined = "\n".join(texts)
            if joined.count("\n") != len(texts) - 1 or not self._LINES.fullmatch(joined + "\n"):
                self._bad.update(
                    number for number, text in zip(numbers, texts, strict=True) if not self._TERM.fullmatch(text)
                )

    def _complain(self, identifier: int, place: str) -> None:
        text = self._dictionary.text(identifier)
        shown = text if len(text) <= 100 else text[:100] + "..."
        if identifier in self._bad:
            raise DataRefused(f"{place} {shown!r} is not a term in canonical N-Triples form")
        raise DataRefused(f"{place} {shown!r} is a literal")
