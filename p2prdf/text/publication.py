"""A publication as matchers take it: distinct triples, and the texts of their objects in words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from p2prdf.errors import DataRefused
from p2prdf.rdf.fulltext import Text, text_of

__all__ = ["TRIPLES_MAX", "Publication", "Triple"]

TRIPLES_MAX: Final = 65_536
"""Most triples of one publication."""

Triple = tuple[str, str, str]
"""Canonical terms."""


class Publication:
    """Triples published together; to be matched once or more.  Raises DataRefused if there are too many."""

    __slots__ = ("_texts", "triples")

    def __init__(self, triples: Iterable[Triple]):
        self.triples = list(dict.fromkeys(triples))
        if len(self.triples) > TRIPLES_MAX:
            raise DataRefused(f"a publication of {len(self.triples)} triples, more than {TRIPLES_MAX}")
        self._texts: dict[int, Text | None] = {}

    @classmethod
    def of_text(cls, text: Text) -> Publication:
        """Return a publication of one literal whose text is known, for patterns that ask for nothing else."""
        made = cls((("", "", '"'),))
        made._texts[0] = text
        return made

    def text(self, number: int) -> Text | None:
        """Return the text of the object of a triple, by its place in ``triples``; None if it has none."""
        found = self._texts.get(number)
        if found is None and number not in self._texts:
            found = self._texts[number] = text_of(self.triples[number][2])
        return found
