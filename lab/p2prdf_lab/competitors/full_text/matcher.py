"""The interface of all matchers: add and remove queries, and match publications."""

from __future__ import annotations

from typing import Protocol

from p2prdf.text.publication import Publication
from p2prdf.text.query import TextQuery

__all__ = ["Matcher"]


class Matcher(Protocol):
    """Finds the standing queries that a publication satisfies."""

    touched: int
    """Entries examined so far: the cost of matching, independent of the machine."""

    def __len__(self) -> int:
        """Return the number of queries."""
        ...

    def add(self, key: int, query: TextQuery) -> None:
        """Add a query under a number that the caller chooses.

        Raises LocalProtocolError if the number is in use, or if this matcher cannot hold the query.
        """
        ...

    def remove(self, key: int) -> None:
        """Remove a query.  Raises LocalProtocolError if the number is unknown."""
        ...

    def match(self, publication: Publication) -> list[int]:
        """Return the numbers of the queries that a publication satisfies, each once, in ascending order."""
        ...
