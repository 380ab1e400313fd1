"""Triples by value: many stores keep a number's value without its spelling, so that 01 equals 1."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from p2prdf.interest import Triple
from p2prdf.rdf import values

__all__ = ["Variants", "by_value"]


def by_value(triple: Triple) -> Triple:
    """Return a triple with its number, date or boolean in a normal form (not a term); others unchanged."""
    if not triple[2].startswith('"') or not triple[2].endswith(">"):
        return triple
    value = values.decode(triple[2])
    if value.family is values.Family.OPAQUE or value.family is values.Family.STRING:
        return triple
    plain = value.value.normalize() if isinstance(value.value, Decimal) else value.value
    return triple[0], triple[1], f"{value.family.value} {value.rank} {plain!r}"


class Variants:
    """The triples of a target that stores may confuse, by value."""

    def __init__(self, triples: Iterable[Triple]):
        self._variants: dict[Triple, dict[Triple, None]] = {}
        self.add(triples)

    def add(self, triples: Iterable[Triple]) -> None:
        """Note triples added to the target."""
        for triple in triples:
            spelled = by_value(triple)
            if spelled != triple:
                self._variants.setdefault(spelled, {})[triple] = None

    def remove(self, triples: Iterable[Triple]) -> list[Triple]:
        """Note triples deleted from the target; return those to insert again.

        Deleting a triple may delete others of equal value, too.
        """
        kept: dict[Triple, None] = {}
        for triple in triples:
            spelled = by_value(triple)
            others = self._variants.get(spelled, {})
            others.pop(triple, None)
            if others:
                kept.update(others)
            else:
                self._variants.pop(spelled, None)
        return list(kept)
