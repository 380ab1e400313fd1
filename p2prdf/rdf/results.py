"""SPARQL 1.1 Query Results JSON.

Rows are sequences of canonical terms in the order of the projected names; None is unbound.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from p2prdf.errors import DataRefused
from p2prdf.rdf import terms

__all__ = ["Row", "bindings", "document", "rows_of"]

Row = Sequence[str | None]

def bindings(names: Sequence[str], row: Row) -> dict[str, dict[str, str]]:
    """Return one solution as a binding object; unbound variables are left out."""
    return {
        name: terms.to_json(value) for name, value in zip(names, row, strict=True) if value is not None
    }


def document(names: Sequence[str], rows: Iterable[Row]) -> dict[str, object]:
    """Return a SPARQL 1.1 JSON results document, ready for ``json.dumps``."""
    return {
        "head": {"vars": list(names)},
        "results": {"bindings": [bindings(names, row) for row in rows]},
    }


def rows_of(
    names: Sequence[str], found: Iterable[Mapping[str, Mapping[str, str]]]
) -> Iterator[tuple[str | None, ...]]:
    """Turn the bindings of a results document back into rows of canonical terms.

    Raises DataRefused when a binding names a variable that is not in ``names``.
    """
    known = set(names)
    for binding in found:
        if not known.issuperset(binding):
            extra = sorted(set(binding) - known)
            raise DataRefused(f"a solution binds {extra}, which is not among {list(names)}")
        yield tuple(terms.from_json(binding[name]) if name in binding else None for name in names)
