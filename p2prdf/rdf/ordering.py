"""A total order of terms that agrees with SPARQL's partial order (SPARQL 1.1, 15.1).

Unbound comes first, then blank nodes, IRIs, literals, triple terms (these by their parts).  Literals that ``<`` can
compare are ordered by it: numbers, strings, booleans, dates and times.  The rest of the order is defined by this
project and is the same at every peer: families of literals follow each other, NaN precedes all numbers, a month of a
duration counts as 30.436875 days, and literals without a value are ordered by datatype and lexical form.  Different
terms can be equal in this order, such as 1 and 1.0; where a total order is required, their canonical spelling decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from p2prdf.rdf.moments import Duration, Moment
from p2prdf.rdf.terms import triple_parts
from p2prdf.rdf.values import Family, Value, decode

__all__ = ["OrderKey", "Terms", "in_order", "order_key", "order_name"]

OrderKey: TypeAlias = tuple[object, ...]
Terms: TypeAlias = tuple[str | None, ...]
"""A row of canonical terms; None is unbound."""

_LITERALS: Final = {
    family: rank
    for rank, family in enumerate((
        Family.NUMBER, Family.STRING, Family.LANGUAGE, Family.BOOLEAN, Family.DATE_TIME, Family.DATE, Family.TIME,
        Family.G_YEAR, Family.G_YEAR_MONTH, Family.G_MONTH, Family.G_MONTH_DAY, Family.G_DAY, Family.DURATION,
        Family.OPAQUE,
    ), 3)
}  # fmt: skip
_TRIPLES: Final = 3 + len(_LITERALS)
_ASCENDING: Final = "asc"
_DESCENDING: Final = "desc"
_MONTH_SECONDS: Final = 2_629_746
"""A twelfth of the mean Gregorian year: it keeps the order of durations that have one."""


def order_key(canonical: str | None) -> OrderKey:
    """Return the sort key of a canonical term; None stands for unbound.  Any two keys are comparable."""
    if canonical is None:
        return (0,)
    value = decode(canonical)
    if value.family is Family.BLANK:
        return (1, canonical)
    if value.family is Family.IRI:
        return (2, value.lexical)
    if value.family is Family.TRIPLE:
        return (_TRIPLES, *map(order_key, triple_parts(canonical)))
    return (_LITERALS[value.family], *_within(value))


def _within(value: Value) -> OrderKey:
    """Return the sort key of a literal within its family."""
    found = value.value
    match value.family:
        case Family.NUMBER:
            return (0, 0) if found != found else (1, found)
        case Family.BOOLEAN:
            return (found is True,)
        case Family.STRING | Family.LANGUAGE:
            return (value.lexical, value.language)
    if isinstance(found, Moment):
        return (found.seconds,)
    if isinstance(found, Duration):
        return (found.months * _MONTH_SECONDS + found.seconds,)
    return (value.datatype, value.lexical)


# --- whole results -------------------------------------------------------------------------------


def order_name(number: int, *, descending: bool) -> str:
    """Return the name of the column with the sort keys of an ORDER BY condition; no query can spell it."""
    return f".{_DESCENDING if descending else _ASCENDING}{number}"


def in_order(names: Sequence[str], rows: Iterable[Terms]) -> tuple[tuple[str, ...], list[Terms]]:
    """Return a result sorted by its last columns (:func:`order_name`), without these columns.

    Rows with equal keys are ordered by their terms, so equal results are equal lists.
    """
    shown = next((at for at, name in enumerate(names) if name.startswith(".")), len(names))
    found = list(rows)
    if shown < len(names):
        found.sort(key=lambda row: tuple((term is not None, term or "") for term in row[:shown]))
        for at in reversed(range(shown, len(names))):
            found.sort(key=lambda row: order_key(row[at]), reverse=names[at].startswith("." + _DESCENDING))
        found = [row[:shown] for row in found]
    return tuple(names[:shown]), found
