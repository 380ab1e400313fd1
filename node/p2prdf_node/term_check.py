"""Check of published data: whether columns of terms can be triples.

A node checks each term once, with the client's own check (:func:`p2prdf.rdf.terms.refusals`), because frames may come
from other libraries.  It also refuses literals that stand for statements of named graphs (:mod:`p2prdf.rdf.quads`),
which clients must not publish.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from p2prdf.errors import DataRefused
from p2prdf.grow import GrowingColumn
from p2prdf.rdf import quads, terms

if TYPE_CHECKING:
    from p2prdf.rdf.dictionary import TermDictionary

__all__ = ["TermCheck"]

_AT_ONCE = 4096
_FINE, _MALFORMED, _RESERVED, _DEFAULT = range(4)
"""Kinds of terms: publishable; malformed; reserved for p2prdf; the default graph, valid as a graph only."""


class TermCheck:
    """Checks whether columns of term identifiers can be triples.

    Identifiers are dense, so all identifiers below a number have been checked.  New terms are checked together, and
    the kind of each is stored.
    """

    def __init__(self, dictionary: TermDictionary):
        self._dictionary = dictionary
        self._kinds = GrowingColumn(np.uint8)

    def check(self, s: Any, p: Any, o: Any, *graph: Any) -> None:
        """Raise DataRefused, naming the term, unless the columns are triples.

        ``graph``: optionally a column with the graph of each row.
        """
        lengths = [len(column) for column in (s, p, o, *graph)]
        if len(set(lengths)) > 1:
            raise DataRefused(f"columns of different length: {', '.join(map(str, lengths))}")
        self._look_at_new()
        literal = self._dictionary.literal_array()
        places = [(s, "subject", False), (p, "predicate", False), (o, "object", True)]
        for column, place, literals in (*places, *((column, "graph", False) for column in graph)):
            numbers = np.asarray(column)
            kinds = self._kinds.values[numbers]
            wrong = kinds != _FINE
            if place == "graph":
                wrong &= kinds != _DEFAULT
            if not literals:
                wrong |= literal[numbers]
            if wrong.any():
                self._refuse(int(numbers[wrong.argmax()]), place)

    def _look_at_new(self) -> None:
        """Determine the kinds of new terms: together, and one by one if any of them is not publishable."""
        for start in range(len(self._kinds), len(self._dictionary), _AT_ONCE):
            texts = self._dictionary.texts(range(start, min(start + _AT_ONCE, len(self._dictionary))))
            kinds = np.full(len(texts), _FINE, np.uint8)
            kinds[[at for at, _ in terms.refusals(texts)]] = _MALFORMED
            if "" in texts or quads.RESERVED in "\n".join(texts):
                for at, text in enumerate(texts):
                    if text == quads.DEFAULT:
                        kinds[at] = _DEFAULT
                    elif kinds[at] == _FINE and quads.is_reserved(text):
                        kinds[at] = _RESERVED
            self._kinds.append(kinds)

    def _refuse(self, identifier: int, place: str) -> None:
        text = self._dictionary.text(identifier)
        shown = text if len(text) <= 100 else text[:100] + "..."
        kind = self._kinds.values[identifier]
        if kind == _FINE:
            raise DataRefused(f"{place} {shown!r} is a literal")
        if kind == _RESERVED:
            raise DataRefused(f"{place} {shown!r} has a datatype that is reserved: <{quads.RESERVED}...>")
        _, reason = next(terms.refusals([text]), (0, "the empty text names no term"))
        raise DataRefused(f"{place} {shown!r} is not a term in canonical N-Triples form: {reason}")
