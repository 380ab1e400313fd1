"""Test every query on every publication: the reference for correctness and cost of the other matchers."""

from __future__ import annotations

from p2prdf.rdf.fulltext import condition_holds
from p2prdf.text.joins import agrees, is_joined, joinable
from p2prdf.text.matcher import Semantics, refuse_known, refuse_unknown
from p2prdf.text.publication import Publication
from p2prdf.text.query import TextPattern, TextQuery, is_constant

__all__ = ["BruteForce", "satisfies"]


class BruteForce:
    """Holds queries unindexed, and tests all of them."""

    def __init__(self, semantics: Semantics = Semantics.EXACT):
        self.semantics = semantics
        self.touched = 0
        self._queries: dict[int, TextQuery] = {}

    def __len__(self) -> int:
        return len(self._queries)

    def add(self, key: int, query: TextQuery) -> None:
        """Add a query.  Raises LocalProtocolError if the number is in use."""
        refuse_known(key, key in self._queries)
        self._queries[key] = query

    def remove(self, key: int) -> None:
        """Remove a query.  Raises LocalProtocolError if the number is unknown."""
        refuse_unknown(key, key in self._queries)
        del self._queries[key]

    def match(self, publication: Publication) -> list[int]:
        """Return the numbers of the queries that a publication satisfies, ascending."""
        self.touched += len(self._queries)
        return sorted(key for key, each in self._queries.items() if satisfies(publication, each, self.semantics))


def satisfies(publication: Publication, query: TextQuery, semantics: Semantics = Semantics.EXACT) -> bool:
    """Tell whether a publication satisfies a query."""
    exact = semantics is Semantics.EXACT
    found = []
    for pattern in query.patterns:
        rows = [
            triple
            for number, triple in enumerate(publication.triples)
            if _fits(pattern, number, publication) and (not exact or agrees(pattern, triple))
        ]
        if not rows:
            return False
        found.append(rows)
    return not exact or not is_joined(query.patterns) or joinable(query.patterns, found)


def _fits(pattern: TextPattern, number: int, publication: Publication) -> bool:
    triple = publication.triples[number]
    if any(is_constant(part) and part != term for part, term in zip(pattern.parts, triple, strict=True)):
        return False
    return pattern.condition is None or condition_holds(pattern.condition, publication.text(number))
