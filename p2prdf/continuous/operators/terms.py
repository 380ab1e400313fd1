"""Terms for operators: by number, with their values and their places in SPARQL's order."""

from __future__ import annotations

from typing import Protocol

from p2prdf.continuous.operators.zset import UNBOUND
from p2prdf.rdf import ordering, values
from p2prdf.rdf.ordering import OrderKey
from p2prdf.rdf.values import Value

__all__ = ["Dictionary", "Terms"]


class Dictionary(Protocol):
    """A numbering of terms: :class:`~p2prdf.rdf.dictionary.TermDictionary`, or a simpler one in tests."""

    def intern(self, text: str) -> int:
        """Return the number of a canonical term, adding the term if it is new."""
        ...

    def text(self, identifier: int) -> str:
        """Return the canonical term of a number."""
        ...


class Terms:
    """The terms of a dictionary."""

    __slots__ = ("_dictionary", "intern", "text")

    def __init__(self, dictionary: Dictionary):
        self._dictionary = dictionary
        self.intern = dictionary.intern
        self.text = dictionary.text

    def cell(self, text: str | None) -> int:
        """Return the number of a term, UNBOUND for None."""
        return UNBOUND if text is None else self.intern(text)

    def known(self, number: int) -> str | None:
        """Return a term; None for a negative number."""
        return self.text(number) if number >= 0 else None

    def value(self, number: int) -> Value:
        """Return the value of a term."""
        return values.decode(self.text(number))

    def place(self, number: int) -> OrderKey:
        """Return a term's place in a total order that extends SPARQL's; different terms have different places."""
        text = self.known(number)
        return (ordering.order_key(text), text or "")
