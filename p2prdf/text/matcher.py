"""The interface of all matchers: add and remove queries, and match publications."""

from __future__ import annotations

import enum
from typing import Protocol

from p2prdf.errors import LocalProtocolError
from p2prdf.text.publication import Publication
from p2prdf.text.query import TextQuery

__all__ = ["Matcher", "Semantics", "refuse_known", "refuse_unknown"]


class Semantics(enum.Enum):
    """The condition under which a publication satisfies a query."""

    PAPER = "paper"
    """Some triple matches each pattern.  Names of variables are ignored, as in the paper's tries."""
    EXACT = "exact"
    """Some triple matches each pattern, with equal terms for equal variables."""


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

    def memory_bytes(self) -> int:
        """Return the bytes of all data held; slow, since it visits every object."""
        ...


def refuse_known(key: int, known: bool) -> None:
    """Raise LocalProtocolError if there is a query with this number."""
    if known:
        raise LocalProtocolError(f"full-text query {key} exists already")


def refuse_unknown(key: int, known: bool) -> None:
    """Raise LocalProtocolError if there is no query with this number."""
    if not known:
        raise LocalProtocolError(f"there is no full-text query {key}")
