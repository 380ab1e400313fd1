"""The elements of texts: what terms are made of, as far as similarity goes (SENS, section 3).

An element is a maximal run of letters, digits and underscores, cut once more wherever a digit follows a letter: the
text ``http://www.uni1.org`` has http, www, uni, 1 and org.  What lies between elements are gaps.  A binding is cut as
one text, its terms in canonical spelling with a line break between them, which no canonical term contains; so a text
put together of elements and gaps falls apart into terms again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

__all__ = ["ELEMENTS_MAX", "TERM_CHARACTERS_MAX", "Cut", "Cuts", "cut"]

ELEMENTS_MAX: Final = 4096
"""Most elements of a graph that anything is foreseen from."""
TERM_CHARACTERS_MAX: Final = 2048
"""A longer text is one element: long literals are not what bindings are made of, and would cost the most."""
_CUTS_MAX: Final = 16_384
"""Terms whose elements are remembered: predicates and classes come again and again."""

_ELEMENT: Final = re.compile(r"\d+[^\W\d]*|[^\W\d]+")


class Cut(NamedTuple):
    """A text as its elements, and the gaps before each and behind the last."""

    elements: tuple[str, ...]
    gaps: tuple[str, ...]


def cut(text: str) -> Cut:
    """Return the elements of a text and the gaps between them."""
    if len(text) > TERM_CHARACTERS_MAX:
        return Cut((text,), ("", ""))
    elements, gaps, at = [], [], 0
    for found in _ELEMENT.finditer(text):
        elements.append(found[0])
        gaps.append(text[at : found.start()])
        at = found.end()
    return Cut(tuple(elements), (*gaps, text[at:]))


class Cuts:
    """Cuts of terms, remembered while there is room."""

    def __init__(self) -> None:
        self._cuts: dict[str, Cut] = {}

    def of(self, term: str) -> Cut:
        """Return the cut of a term."""
        found = self._cuts.get(term)
        if found is None:
            if len(self._cuts) >= _CUTS_MAX:
                self._cuts.clear()
            found = self._cuts[term] = cut(term)
        return found

    def elements(self, terms: Iterable[str]) -> tuple[str, ...]:
        """Return the elements of terms, one after the other."""
        found: list[str] = []
        for term in terms:
            found += self.of(term).elements
        return tuple(found)
