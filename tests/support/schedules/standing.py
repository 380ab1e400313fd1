"""Random standing queries beyond conjunctive ones, and their answers over a set of triples.

They consist of conjunctive queries of :mod:`p2prdf_lab.workloads.random_queries`, which share some variables.  The
oracle evaluates the leaves, and the product's operators the rest: ``make algebra`` tests the operators against another
engine.  The schedules test that the network, coordinators and failover lose and duplicate nothing.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from p2prdf.continuous.dataflow import Dataflow
from p2prdf.errors import QueryRefused
from p2prdf.rdf import algebra
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.rdf.query import ConjunctiveQuery
from p2prdf.rdf.standing.query import parse_query
from p2prdf.sim.oracle import Oracle, Publication, Row, Triple
from p2prdf_lab.workloads.random_queries import Vocabulary, draw_query, sparql_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from random import Random

    from p2prdf.wire.messages import Query

__all__ = ["draw_standing", "only_grows", "standing_answers"]

_SHAPES: Final = (
    "SELECT * WHERE {{ {a} }}",
    "SELECT * WHERE {{ {a} OPTIONAL {{ {b} }} }}",
    "SELECT * WHERE {{ {a} OPTIONAL {{ {b} OPTIONAL {{ {c} }} }} }}",
    "SELECT * WHERE {{ {a} MINUS {{ {b} }} }}",
    "SELECT * WHERE {{ {a} FILTER NOT EXISTS {{ {b} }} }}",
    "SELECT * WHERE {{ {a} FILTER EXISTS {{ {b} }} }}",
    "SELECT * WHERE {{ {{ {a} }} UNION {{ {b} }} }}",
    "SELECT DISTINCT ?v0 WHERE {{ {{ {a} }} UNION {{ {b} }} }}",
    "SELECT DISTINCT ?v0 ?v1 WHERE {{ {a} }}",
    "SELECT ?v0 (COUNT(*) AS ?n) WHERE {{ {a} }} GROUP BY ?v0",
    "SELECT (COUNT(*) AS ?n) (MAX(?v1) AS ?m) WHERE {{ {a} OPTIONAL {{ {b} }} }}",
    "SELECT ?v0 WHERE {{ {a} }} ORDER BY DESC(?v0) LIMIT 3",
    "ASK {{ {a} FILTER NOT EXISTS {{ {b} }} }}",
    "CONSTRUCT {{ ?v0 <urn:made> ?v1 . ?v1 <urn:of> ?v0 }} WHERE {{ {a} }}",
)  # fmt: skip


def draw_standing(rng: Random, data: Sequence[Triple], vocabulary: Vocabulary) -> str:
    """Return the text of a query that usually has answers over the data."""
    while True:
        shape = rng.choice(_SHAPES)
        drawn = {name: draw_query(rng, data, vocabulary) for name in "abc" if "{" + name + "}" in shape}
        text = " ".join(shape.format(**{name: _body(sparql_text(each)) for name, each in drawn.items()}).split())
        try:
            parse_query(text)
        except QueryRefused:  # such as a literal as subject, which the overlay itself accepts
            continue
        return text


def _body(text: str) -> str:
    return text[text.index("{") + 1 : text.rindex("}")]


def only_grows(query: Query) -> bool:
    """Return whether a query is monotonic: further triples retract no answer."""
    if isinstance(query, ConjunctiveQuery):
        return True
    takes_away = (
        algebra.LeftJoin, algebra.Minus, algebra.Group, algebra.Slice, algebra.Slices, algebra.Windowed,
        algebra.Counted,
    )  # fmt: skip
    return not any(
        isinstance(each, takes_away)
        or (isinstance(each, algebra.Exists) and each.existence is not algebra.Existence.SOME)
        for each in query.operators
    )  # fmt: skip


def standing_answers(query: Query, triples: Iterable[Triple]) -> Counter[Row]:
    """Return the bag of a query's answers over a set of triples; the empty text is an unbound value."""
    oracle = Oracle(Publication(1, number, triple) for number, triple in enumerate(triples))
    if isinstance(query, ConjunctiveQuery):
        return oracle.answers(query, 0)
    dictionary = TermDictionary()
    flow = Dataflow(query, dictionary)
    flow.apply_all({
        number: [
            (tuple(dictionary.intern_all(row)) if row else (), count) for row, count in oracle.answers(leaf, 0).items()
        ]
        for number, leaf in enumerate(query.leaves)
    })  # fmt: skip
    rows: Counter[Row] = Counter()
    for row, count in flow.output().items():
        rows[tuple(dictionary.text(term) if term >= 0 else "" for term in row)] += count
    return rows
