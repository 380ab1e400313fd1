"""Standing queries and their answers by an independent evaluator (pyoxigraph).

An *inventory* is a query that shows every triple of one predicate: inventories tell the judge the cluster's
content.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import pyoxigraph as ox

__all__ = ["NS", "Query", "Row", "Triple", "evaluate", "store_of"]

Triple = tuple[str, str, str]
"""Terms in canonical N-Triples form."""
Row = tuple[str, ...]

NS: Final = "http://chaos.example.org/"
_IRI: Final = re.compile(rf"<(?:{re.escape(NS)}|[^<>]*[/#])([^<>]+)>")


@dataclass(frozen=True, slots=True)
class Query:
    """A conjunctive query; a part that begins with ``?`` is a variable."""

    patterns: tuple[Triple, ...]
    select: tuple[str, ...]
    algorithm: str = "csbv"
    distinct: bool = False
    per_event: bool = False

    @property
    def text(self) -> str:
        """SPARQL."""
        return f"SELECT {'DISTINCT ' if self.distinct else ''}{' '.join(self.select)} WHERE {{ {self._where} }}"

    @property
    def full_text(self) -> str:
        """The same with all variables, each solution once."""
        return f"SELECT {' '.join(self.variables)} WHERE {{ {self._where} }}"

    @property
    def _where(self) -> str:
        return " . ".join(" ".join(pattern) for pattern in self.patterns)

    @property
    def variables(self) -> tuple[str, ...]:
        """All variables in order of appearance."""
        return tuple(dict.fromkeys(part for pattern in self.patterns for part in pattern if part.startswith("?")))

    @property
    def inventory(self) -> str | None:
        """The predicate of an inventory: this query shows all its triples, and each of them whole."""
        if len(self.patterns) != 1 or self.distinct or self.per_event:
            return None
        s, p, o = self.patterns[0]
        shown = self.select == (s, o) and s.startswith("?") and o.startswith("?") and s != o
        return p if shown and not p.startswith("?") else None

    def __str__(self) -> str:
        """Format the query for people: its text, IRIs without their beginnings."""
        short = _IRI.sub(lambda found: f":{found[1]}", self.text)
        return f"{short} ({self.algorithm}{', per event' if self.per_event else ''})"


def store_of(triples: Iterable[Triple]) -> ox.Store:
    """Return a pyoxigraph store of some triples."""
    store = ox.Store()
    store.bulk_load("\n".join(f"{s} {p} {o} ." for s, p, o in triples).encode(), format=ox.RdfFormat.N_TRIPLES)
    return store


def evaluate(query: Query, store: ox.Store, events: Counter[Triple]) -> Counter[Row]:
    """Return the bag of a query's answers; ``events``: how often each triple was published."""
    rows: Counter[Row] = Counter()
    if not query.per_event:
        rows.update(tuple(str(term) for term in solution) for solution in store.query(query.text))
        return rows
    variables = query.variables
    for solution in store.query(query.full_text):
        bound = dict(zip(variables, map(str, solution), strict=True))
        times = 1
        for s, p, o in query.patterns:
            times *= events[bound.get(s, s), bound.get(p, p), bound.get(o, o)]
        rows[tuple(bound[name] for name in query.select)] += times
    return Counter(dict.fromkeys(rows, 1)) if query.distinct else rows
