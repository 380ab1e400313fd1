"""SPARQL 1.1 Query Results JSON.

Rows are sequences of canonical terms in the order of the projected names; None is unbound.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from p2prdf.rdf import terms

__all__ = ["Row", "bindings", "document"]

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
