"""W3C query evaluation cases, read where they lie beside the repository."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path
from typing import Any

from p2prdf.rdf.ntriples import read_triples

__all__ = ["CASES", "ONCE", "REFUSED", "cases", "triples"]

CASES = Path(__file__).parents[2] / "../shared/data/w3c/sparql-cases.json.gz"

REFUSED = {
    "sparql11/functions/uuid01": "UUID",
}
"""Cases that are refused at registration: name to the construct that the refusal names.  The table is exact."""
ONCE = {"sparql11/functions/uuid01"}
"""Those of them that are answered as one-time queries."""


def cases() -> list[dict[str, Any]]:
    """Return all cases; none if they are not there."""
    if not CASES.exists():
        return []
    with gzip.open(CASES, "rt", encoding="utf-8") as stream:
        found: list[dict[str, Any]] = json.load(stream)
    return found


def triples(text: str) -> list[tuple[str, str, str]]:
    """Return the triples of a case's data in canonical terms, blank nodes by the IRIs that stand for them."""
    batches = read_triples(io.BytesIO(text.encode()), publication_id="d", strict=True)
    return sorted({triple for batch in batches for triple in zip(batch.s, batch.p, batch.o, strict=True)})
