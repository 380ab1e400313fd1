"""What all matchers have in common: queries come and go, and publications find those that they satisfy."""

from __future__ import annotations

import enum
from typing import Protocol

from p2prdf.errors import LocalProtocolError
from p2prdf.text.publication import Publication
from p2prdf.text.query import TextQuery

__all__ = ["Matcher", "Semantics", "refuse_known", "refuse_unknown"]


class Semantics(enum.Enum):
    """What it means that a publication satisfies a query."""

    PAPER = "paper"
    """Each pattern is matched by some triple.  Names of variables say nothing, as in the paper's tries."""
    EXACT = "exact"
    """Each pattern is matched by some triple, equal variables by equal terms."""


class Matcher(Protocol):
    """Finds which of many standing queries a publication satisfies."""

    touched: int
    """Entries looked at, so far: what matching costs, whatever the machine."""

    def __len__(self) -> int:
        """Return how many queries there are."""
        ...

    def add(self, key: int, query: TextQuery) -> None:
        """Take in a query, which the caller's number then stands for.

        Raises LocalProtocolError if the number is taken, or the query is none that this matcher can hold.
        """
        ...

    def remove(self, key: int) -> None:
        """Forget a query.  Raises LocalProtocolError if there is none of this number."""
        ...

    def match(self, publication: Publication) -> list[int]:
        """Return the numbers of the queries that a publication satisfies, each once, in ascending order."""
        ...

    def memory_bytes(self) -> int:
        """Return how many bytes all that it holds takes; it looks at every object, so it is slow."""
        ...


def refuse_known(key: int, known: bool) -> None:
    """Raise LocalProtocolError if there is a query of this number."""
    if known:
        raise LocalProtocolError(f"there is a full-text query of number {key} already")


def refuse_unknown(key: int, known: bool) -> None:
    """Raise LocalProtocolError if there is no query of this number."""
    if not known:
        raise LocalProtocolError(f"there is no full-text query of number {key}")
