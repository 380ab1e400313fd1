"""A publication as input of matchers: distinct triples, and the words of their objects' texts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from p2prdf.errors import DataRefused
from p2prdf.rdf.fulltext import Text, text_of

__all__ = ["TRIPLES_MAX", "Publication", "Triple"]

TRIPLES_MAX: Final = 65_536
"""Most triples of one publication."""

Triple = tuple[str, str, str]
"""Subject, predicate and object as canonical terms."""


class Publication:
    """Triples published together, for one or more matches.  Raises DataRefused if there are too many."""

    __slots__ = ("_texts", "triples")

    def __init__(self, triples: Iterable[Triple]):
        self.triples = list(dict.fromkeys(triples))
        if len(self.triples) > TRIPLES_MAX:
            raise DataRefused(f"a publication of {len(self.triples)} triples, more than {TRIPLES_MAX}")
        self._texts: dict[int, Text | None] = {}

    @classmethod
    def of_text(cls, text: Text) -> Publication:
        """Return a publication of one literal with a given text, for patterns with a condition only."""
        made = cls((("", "", '"'),))
        made._texts[0] = text
        return made

    def text(self, number: int) -> Text | None:
        """Return the text of a triple's object, by its index in ``triples``; None if it has no text."""
        found = self._texts.get(number)
        if found is None and number not in self._texts:
            found = self._texts[number] = text_of(self.triples[number][2])
        return found
