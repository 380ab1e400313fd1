"""Random standing queries over random insertions and removals: each step equals pyoxigraph's fresh answer.

The same with more queries: ``make algebra QUERIES=5000``.
"""

from __future__ import annotations

import pytest
from algebra.compare import Dataset, Tally, play

QUERIES = 150

HARD = (
    "SELECT * { ?x u:p ?y OPTIONAL { ?x u:q ?z } OPTIONAL { ?z u:r ?u } ?z u:p ?i }",
    "SELECT * { ?x u:p ?y OPTIONAL { ?x u:q ?z } MINUS { ?z u:r ?u } ?z u:p ?i }",
    "SELECT * { ?x u:p ?y OPTIONAL { ?x u:q ?z } FILTER EXISTS { ?z u:r ?u } }",
    "SELECT * { ?x u:p ?y OPTIONAL { ?x u:q ?z } FILTER NOT EXISTS { ?y u:r ?u FILTER(?u = ?z) } }",
    ("SELECT * { ?x u:p ?y OPTIONAL { ?x u:q ?z } FILTER NOT EXISTS { ?y u:r ?u FILTER(?u = ?z || !BOUND(?z)) "
    "OPTIONAL { ?u u:p ?z } } }"),
    ("SELECT * { ?x u:p ?y OPTIONAL { ?x u:q ?z } FILTER EXISTS { ?y u:r ?u OPTIONAL { ?z u:p ?i } "
    "FILTER(BOUND(?i)) } }"),
    "SELECT * { ?x u:p ?y FILTER EXISTS { ?x u:q ?u OPTIONAL { ?y u:r ?i } FILTER(!BOUND(?i)) } }",
    "SELECT * { ?x u:p ?y FILTER EXISTS { { SELECT ?u { ?u u:q ?i FILTER(?y = ?i) } } } }",
    "SELECT * { ?x u:p ?y FILTER EXISTS { ?x u:q ?u { SELECT ?u { ?u u:q ?y } } } }",
    "SELECT * { ?x u:p ?y OPTIONAL { ?y u:q ?z FILTER EXISTS { ?x u:r ?u FILTER(?u != ?z) } } }",
    ("SELECT * { ?x u:p ?y OPTIONAL { ?x u:n ?i } OPTIONAL { ?y u:q ?z FILTER EXISTS { ?x u:n ?u FILTER(?u > "
    "?i) } } }"),
    "SELECT * { ?x u:p ?y OPTIONAL { ?y u:q ?z FILTER(?z != ?x && NOT EXISTS { ?z u:r ?x }) } }",
    "SELECT * { ?x u:p ?y FILTER EXISTS { ?x u:q ?u FILTER NOT EXISTS { ?u u:r ?z FILTER(?z = ?y) } } }",
    "SELECT * { ?x u:p ?y FILTER EXISTS { { ?x u:q ?u } UNION { ?u u:r ?i FILTER(?i = ?y) } } }",
    "SELECT * { ?x u:p ?y FILTER EXISTS { BIND(?y AS ?u) ?u u:q ?i } }",
    "SELECT * { ?x u:p ?y FILTER EXISTS { ?x u:q* ?y } }",
    "SELECT * { ?x u:p ?y FILTER EXISTS { ?y u:q? ?u FILTER(?u = ?x) } }",
    "SELECT ?x (SUM(IF(EXISTS { ?y u:q ?u }, 1, 0)) AS ?n) { ?x u:p ?y } GROUP BY ?x",
    "SELECT ?x (COUNT(*) AS ?n) { ?x u:p ?y } GROUP BY ?x HAVING(EXISTS { ?x u:q ?u })",
    "SELECT ?x (EXISTS { ?x u:q ?u } AS ?e) { ?x u:p ?y }",
    "SELECT * { VALUES (?x ?y) { (u:a UNDEF) (UNDEF u:b) (u:c u:c) (UNDEF UNDEF) } ?x u:p ?y }",
    "SELECT * { { ?x u:p ?y } UNION { ?y u:q ?z } { ?x u:r ?z } UNION { ?z u:p ?u } }",
    "SELECT * { { ?x u:p ?y } UNION { ?y u:q ?z } MINUS { { ?x u:r ?z } UNION { ?z u:p ?x } } }",
    "SELECT * { { ?x u:p ?y } UNION { ?y u:q ?z } FILTER EXISTS { { ?x u:r ?z } UNION { ?z u:p ?x } } }",
    "SELECT * { { ?x u:p ?y } UNION { ?y u:q ?z } OPTIONAL { { ?x u:r ?z } UNION { ?z u:p ?u } } }",
    "SELECT * { ?x u:p ?y . ?x (u:p|u:q/u:r)+ ?z . ?z u:q? ?u }",
    "SELECT DISTINCT ?x { { SELECT ?x ?y { ?x u:p ?y } ORDER BY ?y ?x LIMIT 3 } UNION { ?x u:q ?y } }",
    "SELECT * { GRAPH ?g { ?x u:p ?y OPTIONAL { ?y u:q ?z } } GRAPH ?h { ?x u:p ?y } FILTER(?g != ?h || BOUND(?z)) }",
    "SELECT * { GRAPH ?g { ?x u:p ?y OPTIONAL { ?y u:q ?z FILTER EXISTS { ?x u:r ?u FILTER(?u != ?z) } } } }",
    "SELECT * { GRAPH ?g { ?x u:p ?y MINUS { ?x u:q ?z } FILTER NOT EXISTS { ?y u:r ?u OPTIONAL { ?u u:q ?x } } } }",
    "SELECT * { ?x u:p ?y OPTIONAL { GRAPH ?x { ?y u:q ?z } } OPTIONAL { GRAPH ?z { ?y u:r ?u } } }",
    "SELECT * { ?x u:p ?y OPTIONAL { ?x u:q ?g } FILTER EXISTS { GRAPH ?g { ?x ?v ?y } } }",
    "SELECT * { ?x u:p ?y OPTIONAL { ?x u:q ?g } FILTER NOT EXISTS { GRAPH ?g { ?y u:p ?u FILTER(?u = ?x) } } }",
    "SELECT * { GRAPH ?g { { ?x u:p ?y } UNION { ?y u:q ?x { ?x u:r ?z } UNION { ?z u:r ?x } } } ?x ?v ?g }",
    "SELECT ?g ?n (COUNT(*) AS ?m) { GRAPH ?g { ?x ?v ?y } GRAPH u:g { ?x u:p+ ?n } } GROUP BY ?g ?n",
    "SELECT * { GRAPH ?g { ?x ?v ?y . ?y ?v ?z GRAPH u:a { ?z u:p* ?u . ?z u:q ?x } } }",
    "SELECT * { GRAPH u:g { ?x u:p ?y . GRAPH u:a { ?y u:p ?z } ?z u:q? ?u . ?z u:r ?x } }",
    "SELECT * { VALUES (?g ?x) { (u:a UNDEF) (UNDEF u:b) (u:g u:c) (u:none u:a) } GRAPH ?g { ?x ?v ?y } }",
    "SELECT * { ?x u:p ?y FILTER NOT EXISTS { GRAPH ?g { ?x u:p ?y } } MINUS { GRAPH ?h { ?y u:q ?x } } }",
    "SELECT * { GRAPH ?g { ?x u:p ?y { SELECT DISTINCT <<?y||?y ?g>> { ?y u:q ?z } } } }",
    "SELECT * { GRAPH ?g { ?x u:p ?y OPTIONAL { SELECT <<?y||?y ?g>> { ?y u:q ?z FILTER(?z != ?y) } } } }",
    "SELECT * { ?z u:r ?y GRAPH u:none { GRAPH u:a { ?x u:p ?y } } <<||u:none u:none u:none>> }",
    "SELECT * { ?x u:p ?y OPTIONAL { GRAPH u:none { VALUES ?z { 1 2 } } <<||u:none u:none u:none>> } }",
    "SELECT * { ?x u:p ?y MINUS { GRAPH u:none { GRAPH u:none { VALUES ?y { u:a } } } <<||u:none u:none u:none>> } }",
    "SELECT * { { SELECT ?i ?v { ?x ?v ?y } } FILTER NOT EXISTS { ?x u:p ?i FILTER(?v != u:q) } }",
    "SELECT * { { SELECT DISTINCT ?i ?v { ?x ?v ?y } } FILTER EXISTS { ?x u:p ?i FILTER(?v = u:p) } }",
    "SELECT * { ?v u:p ?y OPTIONAL { { SELECT ?i ?v { ?v u:r ?x } } } FILTER EXISTS { ?v u:p ?i FILTER(?y != ?i) } }",
    "SELECT * { { SELECT ?i ?v { ?v u:p ?x } } { SELECT ?i ?y { ?y u:q ?v } } MINUS { ?v u:r ?i } }",
    "CONSTRUCT { ?x ?v ?g } { GRAPH ?g { ?x ?v ?y FILTER(ISIRI(?y)) } }",
)
"""Forms that few random queries have.

Variables that may be unbound at their comparison, variables that EXISTS sees from outside, names that a sub-query
projects and never binds, and graphs that are the values of variables from elsewhere.
"""


def test_every_step_of_every_history_equals_evaluation_from_scratch() -> None:
    tally = Tally()
    for seed in range(QUERIES):
        play(seed, tally)
    assert tally.wrong == []
    assert tally.queries > QUERIES * 0.9
    assert tally.changed > tally.steps / 5  # or most queries would ask for absent triples


A, G, NONE = "<urn:a>", "<urn:g>", "<urn:none>"
DATASETS = (
    Dataset((A,), ()), Dataset((A, G), ()), Dataset((G, NONE), (A,)), Dataset((A,), (G, NONE)),
    Dataset((G, A), (A, G)), Dataset((G,), None),
)  # fmt: skip


def test_queries_that_choose_their_graphs_are_right_in_every_history() -> None:
    tally = Tally()
    for seed in range(QUERIES):
        play(seed, tally, dataset=DATASETS[seed % len(DATASETS)])
    assert tally.wrong == []
    assert tally.queries > QUERIES * 0.9
    assert tally.changed > tally.steps / 8


@pytest.mark.parametrize("query", HARD)
def test_hard_queries_are_right_too(query: str) -> None:
    tally = Tally()
    for seed in range(4):
        play(seed, tally, "PREFIX u: <urn:> " + query)
    assert tally.wrong == []
    assert tally.queries == 4
