"""The order in which a query's patterns are joined.

The join order determines the cost: with the rarest pattern first a stream leaves a few partial solutions, where the
order as written may leave millions.  The coordinator of a new query asks the owners of the patterns' keys for the
numbers of triples (seed 004: getRates) and orders greedily: the rarest pattern first, then always the rarest pattern
that shares a bound variable.  A pattern without free variables is nearly free and comes at once.

Without a count (no query waits in that index yet) an assumption by the positions of the constants decides: subjects
and objects are selective, a predicate alone hardly is.  A small part of that assumption is added to counts too: in a
young overlay all counts are zero, and the order as written would be as good as any other.
"""

from __future__ import annotations

from collections.abc import Mapping

from p2prdf import keys
from p2prdf.rdf.query import ConjunctiveQuery, Pattern, constant_mask

__all__ = ["evaluation_order", "expected_triples"]

_ASSUMED: dict[int, float] = {
    keys.SPO: 1.0,
    keys.S | keys.O: 2.0,
    keys.S | keys.P: 4.0,
    keys.P | keys.O: 50.0,
    keys.S: 100.0,
    keys.O: 1_000.0,
    keys.P: 100_000.0,
    keys.ANY: 10_000_000.0,
}
"""Triples expected under a key of each index, if nothing was counted."""

_DOUBT = 1e-3
"""The part of the assumption that is added to a count."""

_TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"


def expected_triples(pattern: Pattern, constants: tuple[str, ...], counted: int | None) -> float:
    """Return the expected number of triples that match the constants of a pattern."""
    mask = constant_mask(pattern)
    assumed = _ASSUMED[mask]
    if mask & keys.P and constants[~pattern[1]] == _TYPE:
        assumed *= 50  # classes are large
    return assumed if counted is None else counted + assumed * _DOUBT


def evaluation_order(query: ConjunctiveQuery, counts: Mapping[int, int]) -> tuple[int, ...]:
    """Return the positions of the patterns in join order.

    ``counts``: the number of triples under a pattern's constants, by position, where known.  Ties go to the pattern
    written first, so the order is deterministic.  The pattern that a rule concludes comes last.
    """
    conditions = query.patterns[:-1] if query.concludes else query.patterns
    expected = {
        at: expected_triples(pattern, query.constants, counts.get(at)) for at, pattern in enumerate(conditions)
    }
    order: list[int] = []
    bound: set[int] = set()
    while len(order) < len(conditions):
        left = [at for at in expected if at not in order]

        def cost(at: int) -> tuple[int, float, int]:
            variables = {slot for slot in query.patterns[at] if slot >= 0}
            newly = variables - bound
            if not newly and order:
                return (0, expected[at], at)  # a mere check
            connected = bool(variables & bound) or not order
            return (1 if connected else 2, expected[at], at)

        best = min(left, key=cost)
        order.append(best)
        bound.update(slot for slot in query.patterns[best] if slot >= 0)
    return (*order, len(order)) if query.concludes else tuple(order)
