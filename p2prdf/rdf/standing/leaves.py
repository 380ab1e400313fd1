"""Basic graph patterns as conjunctive queries, which the overlay joins."""

from __future__ import annotations

from p2prdf.rdf import filters, quads
from p2prdf.rdf.compiled import ALWAYS, NEVER, compile_filter
from p2prdf.rdf.query import FILTERS_BYTES_MAX, ConjunctiveQuery, Filter, Pattern, filter_bytes
from p2prdf.rdf.standing.relations import Basic, Condition, Names, variables
from p2prdf.rdf.standing.syntax import is_variable

__all__ = ["conjunctive_query", "decided", "too_long", "whole_stream"]


def conjunctive_query(basic: Basic, answer: Names, base: str | None) -> ConjunctiveQuery:
    """Return a basic graph pattern with its conditions, projected to some of its variables.

    Variables and constants are numbered by first occurrence, as in ``parse_select``.  A leaf has no names; column
    numbers take their place.
    """
    variables: dict[str, int] = {}
    constants: dict[str, int] = {}
    patterns: list[Pattern] = []
    for pattern in basic.patterns:
        s, p, o = (
            variables.setdefault(term[1:], len(variables))
            if is_variable(term)
            else ~constants.setdefault(term, len(constants))
            for term in pattern
        )
        patterns.append((s, p, o))
    found: dict[Filter, None] = {}
    for condition in basic.conditions:
        scope = {name: number for name, number in variables.items() if name in condition.scope}
        found[decided(Filter(*filters.spell(list(condition.symbols), scope, base)))] = None
    found.pop(ALWAYS, None)
    return ConjunctiveQuery(
        patterns=tuple(patterns),
        constants=tuple(constants),
        answer=tuple(variables[name] for name in answer),
        names=tuple(map(str, range(len(answer)))),
        filters=(NEVER,) if NEVER in found else tuple(found),
    )


def too_long(basic: Basic, base: str | None) -> tuple[Condition, ...]:
    """Return the conditions beyond FILTERS_BYTES_MAX, in order: the coordinator decides them instead of the nodes."""
    numbers = {name: number for number, name in enumerate(variables(basic))}
    found: list[Condition] = []
    size = 0
    for condition in basic.conditions:
        scope = {name: number for name, number in numbers.items() if name in condition.scope}
        own = filter_bytes(*filters.spell(list(condition.symbols), scope, base))
        if condition.seen and size + own > FILTERS_BYTES_MAX:
            found.append(condition)
        else:
            size += own if condition.seen else 0
    return tuple(found)


def whole_stream(stream: str) -> ConjunctiveQuery:
    """Return the query for all elements of a stream, a canonical IRI.

    It returns subject, predicate in the stream and object.
    """
    conditions = quads.stream_conditions(1, stream)
    return ConjunctiveQuery(((0, 1, 2),), (), (0, 1, 2), ("0", "1", "2"), False, tuple(
        Filter(text, (1,)) for text in conditions
    ))  # fmt: skip


def decided(condition: Filter) -> Filter:
    """Return a condition, replaced by ``ALWAYS`` or ``NEVER`` if it has no variables."""
    if condition.variables:
        return condition
    return ALWAYS if compile_filter(condition)(()) else NEVER
