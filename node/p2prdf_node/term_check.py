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


class TermCheck:
    """Tells whether columns of term identifiers can be triples."""

    _TERM = re.compile(
        r'(<[^\x00-\x20<>"{}|^`\\]+>)'
        r'|"(?:[^"\\\n\r]|\\[tbnrf"\\]|\\u[0-9A-F]{4}|\\U[0-9A-F]{8})*+"'
        r'(?:@[a-z]+(?:-[a-z0-9]+)*|\^\^<[^\x00-\x20<>"{}|^`\\]+>)?'
    )
    _UNSEEN, _IRI, _LITERAL, _BAD = range(4)  # _IRI is the number of the pattern's group

    def __init__(self, dictionary: TermDictionary):
        self._dictionary = dictionary
        self._kinds = np.zeros(1024, np.uint8)

    def check(self, s: Any, p: Any, o: Any) -> None:
        """Raise DataRefused, naming the term, unless the columns are triples."""
        if not len(s) == len(p) == len(o):
            raise DataRefused(f"columns of different length: {len(s)}, {len(p)}, {len(o)}")
        for column, place, literal in ((s, "subject", False), (p, "predicate", False), (o, "object", True)):
            kinds = self._kinds_of(np.asarray(column))
            wrong = kinds == self._BAD if literal else kinds != self._IRI
            if wrong.any():
                row = int(wrong.argmax())
                self._complain(int(column[row]), place, int(kinds[row]))

    def _kinds_of(self, column: Any) -> Any:
        if len(self._dictionary) > len(self._kinds):
            grown = np.zeros(2 * len(self._dictionary), np.uint8)
            grown[: len(self._kinds)] = self._kinds
            self._kinds = grown
        kinds = self._kinds[column]
        unseen = kinds == self._UNSEEN
        if unseen.any():
            new = np.unique(column[unseen])
            found = map(self._TERM.fullmatch, self._dictionary.texts(new.tolist()))
            # The only group is that of an IRI.
            self._kinds[new] = [
                self._BAD if match is None else match.lastindex or self._LITERAL for match in found
            ]
            kinds = self._kinds[column]
        return kinds

    def _complain(self, identifier: int, place: str, kind: int) -> None:
        text = self._dictionary.text(identifier)
        shown = text if len(text) <= 100 else text[:100] + "..."
        if kind == self._BAD:
            raise DataRefused(f"{place} {shown!r} is not a term in canonical N-Triples form")
        raise DataRefused(f"{place} {shown!r} is a literal")
