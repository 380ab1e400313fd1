"""The elements of texts, by which terms are compared (SENS, section 3).

An element is a maximal run of letters, digits and underscores, split again wherever a digit follows a letter:
the text ``http://www.uni1.org`` has http, www, uni, 1 and org. The text between elements forms gaps. A binding
is split as one text: its canonical terms with a line break in between. No canonical term contains a line break,
so a text put together from elements and gaps splits into terms again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

__all__ = ["ELEMENTS_MAX", "TERM_CHARACTERS_MAX", "Cut", "Cuts", "cut"]

ELEMENTS_MAX: Final = 4096
"""Bound on the elements of a graph for predictions."""
TERM_CHARACTERS_MAX: Final = 2048
"""A longer text is one element: bindings rarely contain long literals, which would cost the most."""
_CUTS_MAX: Final = 16_384
"""Bound on the cached terms: predicates and classes recur."""

_ELEMENT: Final = re.compile(r"\d+[^\W\d]*|[^\W\d]+")


class Cut(NamedTuple):
    """A text as its elements, and the gaps before each and after the last."""

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
    """A bounded cache of the elements of terms."""

    def __init__(self) -> None:
        self._cuts: dict[str, Cut] = {}

    def of(self, term: str) -> Cut:
        """Return the elements and gaps of a term."""
        found = self._cuts.get(term)
        if found is None:
            if len(self._cuts) >= _CUTS_MAX:
                self._cuts.clear()
            found = self._cuts[term] = cut(term)
        return found

    def elements(self, terms: Iterable[str]) -> tuple[str, ...]:
        """Return the elements of terms, concatenated."""
        found: list[str] = []
        for term in terms:
            found += self.of(term).elements
        return tuple(found)
