"""Queries with rules have the answers that they would have if all consequences had been published."""

from __future__ import annotations

import random
from collections import Counter

import pyoxigraph as ox
import pytest
from algebra.leaves import answers
from algebra.windowed import Reports
from windows_oracle import Element

from p2prdf.continuous.dataflow import Dataflow
from p2prdf.errors import QueryRefused, RemoteProtocolError
from p2prdf.rdf.algebra import Inferred, Leaf
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.rdf.standing.form import decode, encode
from p2prdf.rdf.standing.inference import OBJECTS_MAX
from p2prdf.rdf.standing.query import parse_query
from schedules.closure import closed

NODES = tuple(f"<urn:{name}>" for name in "abcd")
PREDICATES = tuple(f"<urn:{name}>" for name in "pqrk")
TRANSITIVE = (("?x", "<urn:p>", "?z"), (("?x", "<urn:p>", "?y"), ("?y", "<urn:p>", "?z")))
SYMMETRIC = (("?y", "<urn:q>", "?x"), (("?x", "<urn:q>", "?y"),))
CHAIN = (("?x", "<urn:q>", "?z"), (("?x", "<urn:p>", "?y"), ("?y", "<urn:r>", "?z")))
CIRCLE = (("?x", "<urn:p>", "?y"), (("?x", "<urn:q>", "?y"), ("?y", "<urn:k>", "<urn:a>")))
CONSTANT = (("?x", "<urn:r>", "<urn:b>"), (("?x", "<urn:k>", "<urn:c>"),))
RULES = [TRANSITIVE, SYMMETRIC, CHAIN, CIRCLE, CONSTANT]
QUERIES = [
    "SELECT ?x ?y { ?x u:p ?y }",
    "SELECT ?y { u:a u:p ?y }",
    "SELECT ?x { ?x u:p ?x }",
    "SELECT ?x ?z { ?x u:p ?y . ?y u:q ?z FILTER(?x != ?z) }",
    "SELECT ?x ?k { ?x u:p u:b . ?x u:k ?k }",
    "SELECT ?x (COUNT(*) AS ?n) { ?x u:q ?y } GROUP BY ?x",
    "SELECT ?x ?z { ?x u:k ?k OPTIONAL { ?x u:r ?z FILTER(?z != ?k) } }",
    "SELECT ?x { ?x u:k ?k FILTER NOT EXISTS { ?x u:p ?y . ?y u:k u:c } }",
    "SELECT ?x { { ?x u:p u:a } UNION { ?x u:k u:b } }",
    "SELECT ?x ?y { ?x (u:p|u:r)+ ?y . ?y u:k ?k }",
    "SELECT ?x ?y { ?x u:q/^u:p ?y }",
    "ASK { u:a u:p u:c . u:c u:k u:a }",
    "CONSTRUCT { ?y u:made ?x } { ?x u:p [ u:q ?y ] }",
    "SELECT ?g ?x { GRAPH ?g { ?x u:p ?y } ?y u:q ?x }",
    "SELECT ?x { GRAPH u:g { ?x u:p ?y } }",
]  # fmt: skip


def prefixed(query):
    return f"PREFIX u: <urn:> {query}"


def evaluated(query, triples, quads=()):
    store = ox.Store()
    for statement in [*triples, *quads]:
        store.load(" ".join((*statement, ".")).encode(), format=ox.RdfFormat.N_QUADS)
    found = store.query(prefixed(query))
    if isinstance(found, ox.QueryBoolean):
        return Counter({(): 1} if found else {})
    if isinstance(found, ox.QueryTriples):
        return Counter({(str(each.subject), str(each.predicate), str(each.object)) for each in found})
    return Counter(tuple(None if term is None else str(term) for term in row) for row in found)


class Flow:
    """A dataflow fed with the leaves' answers to some triples."""

    def __init__(self, query):
        self.query, self.dictionary = query, TermDictionary()
        self.flow = Dataflow(query, self.dictionary)
        self.held = [Counter() for _ in query.leaves]

    def set(self, triples, rng):
        """Let leaves answer to these triples now, in some order and in pieces."""
        changes = []
        for number, leaf in enumerate(self.query.leaves):
            now = answers(leaf, triples)
            changes += [(number, row, now[row] - self.held[number][row]) for row in {*now, *self.held[number]}]
            self.held[number] = now
        rng.shuffle(changes)
        while changes:
            piece = {}
            for _ in range(min(len(changes), rng.randint(1, 6))):
                number, row, weight = changes.pop()
                if weight:
                    piece.setdefault(number, []).append((tuple(self.dictionary.intern_all(row)), weight))
            self.flow.apply_all(piece)

    @property
    def rows(self):
        text = self.dictionary.text
        found = self.flow.output().items()
        assert all(count > 0 for _, count in found)
        return Counter({tuple(text(cell) if cell >= 0 else None for cell in row): count for row, count in found})


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("seed", range(4))
def test_answers_cover_all_consequences_through_additions_and_removals(query, seed):
    rng = random.Random(f"{query} {seed}")
    rules = rng.sample(RULES, rng.randint(1, len(RULES)))
    parsed = parse_query(prefixed(query), rules=rules)
    assert decode(encode(parsed)) == parsed
    flow, facts = Flow(parsed), set()
    quad = ("<urn:a>", "<urn:p>", "<urn:d>", "<urn:g>")
    graph = [("<urn:a>", '"<urn:p> <urn:g>"^^<urn:p2prdf:in>', "<urn:d>")]
    directory = [
        ('"<urn:p> <urn:g>"^^<urn:p2prdf:in>', '"<urn:p>"^^<urn:p2prdf:predicate>', "<urn:g>"),
        ('"<urn:p>"^^<urn:p2prdf:predicate>', '"of"^^<urn:p2prdf:predicate>', "<urn:p>"),
    ]
    for _ in range(8):
        for _ in range(rng.randint(1, 5)):
            fact = rng.choice(NODES), rng.choice(PREDICATES), rng.choice(NODES)
            facts.symmetric_difference_update([fact])
        flow.set([*facts, *graph, *directory], rng)
        assert flow.rows == evaluated(query, closed(rules, facts), [quad]), (sorted(facts), rules)
    flow.set([], rng)
    assert flow.flow.rows_held <= 1, "nothing is left of what came and went but a count of nothing"


FIGURE = {
    1: "AB", 2: "AB BC AC", 3: "AB BC AC CD AD BD", 4: "AB BC AC CD AD BD AE ED",
    11: "AB BC AC CD AD BD AE ED", 12: "BC CD BD AE ED AD", 13: "CD AE ED AD", 14: "AE ED AD", 15: "",
}  # fmt: skip
"""Figure 4 of the stream-reasoning paper: the pairs in a transitive relation at each second."""
STREAM = [(1, "AB"), (2, "BC"), (3, "CD"), (4, "AE"), (4, "ED")]


def window(text):
    """An element counts for ten seconds and the second it comes in, as in the figure."""
    return prefixed(
        f"REGISTER RSTREAM u:out AS SELECT * FROM NAMED WINDOW u:w ON u:s [RANGE 11s STEP 1s] WHERE {{ {text} }}"
    )


def test_figure_4_of_the_paper_is_a_query_with_a_window_and_a_rule():
    query = parse_query(window("WINDOW u:w { ?x u:p ?y }"), rules=[TRANSITIVE])
    elements = [Element(at * 1000, "<urn:s>", (f"<urn:{a}>", "<urn:p>", f"<urn:{b}>")) for at, (a, b) in STREAM]
    for skipped in ((), (12,), (12, 13, 14)):
        reports = Reports(query, [], elements)
        for now, held in FIGURE.items():
            if now not in skipped:
                pairs = {f"{x[5]}{y[5]}" for x, y in reports.rows(now * 1000)}
                assert pairs == set(held.split()), now


def test_consequences_in_a_window_follow_from_its_elements_and_static_triples():
    query = parse_query(window("WINDOW u:w { ?x u:q ?y } ?y u:q ?z"), rules=[CHAIN])
    static = [("<urn:b>", "<urn:r>", "<urn:c>", ""), ("<urn:c>", "<urn:q>", "<urn:d>", "")]
    elements = [Element(1000, "<urn:s>", ("<urn:a>", "<urn:p>", "<urn:b>"))]
    reports = Reports(query, static, elements)
    both = {("<urn:a>", "<urn:c>", "<urn:d>"): 1}
    assert [reports.rows(now) for now in (0, 1000, 11_000, 12_000)] == [{}, both, both, {}]


def test_patterns_that_no_rule_concludes_are_joined_in_the_network():
    query = parse_query(prefixed("SELECT * { ?x u:k ?y . ?y u:k ?z . ?x u:p ?z }"), rules=[TRANSITIVE])
    assert sorted(len(leaf.patterns) for leaf in query.leaves) == [1, 2]
    assert parse_query(prefixed(QUERIES[4]), rules=[SYMMETRIC]) == parse_query(prefixed(QUERIES[4]))


def test_rules_that_do_not_matter_and_names_of_variables_are_no_part_of_the_query():
    renamed = (("?1", "<urn:p>", "?n"), (("?1", "<urn:p>", "?b"), ("?b", "<urn:p>", "?n")))
    query = parse_query(prefixed(QUERIES[0]), rules=[renamed, CONSTANT, TRANSITIVE])
    assert query == parse_query(prefixed(QUERIES[0]), rules=[TRANSITIVE])
    (inferred,) = (each for each in query.operators if isinstance(each, Inferred))
    assert len(inferred.rules) == 1


def test_of_a_predicate_with_few_objects_only_these_are_looked_for():
    def leaves(count):
        rules = [(("?x", "<urn:r>", "<urn:b>"), (("?x", "<urn:k>", f"<urn:{n}>"),)) for n in range(count)]
        query = parse_query(prefixed("SELECT ?x { ?x u:r u:b }"), rules=rules)
        return sorted(len(each.query.answer) for each in query.operators if isinstance(each, Leaf))

    assert leaves(OBJECTS_MAX) == [1] * (OBJECTS_MAX + 1)
    assert leaves(OBJECTS_MAX + 1) == [1, 2]


@pytest.mark.parametrize(
    ("query", "rules", "reason"),
    [
        ("SELECT * { ?x ?p ?y }", [TRANSITIVE], "variable predicate with rules"),
        ("SELECT * { ?x !u:k ?y }", [TRANSITIVE], "variable predicate with rules"),
        (QUERIES[0], [(("?x", "?p", "?y"), (("?x", "<urn:p>", "?y"),))], "a predicate is a variable"),
        (QUERIES[0], [(("?x", "<urn:p>", "?z"), (("?x", "<urn:p>", "?y"),))], "does not bind ?z"),
        (QUERIES[0], [(("?x", "<urn:p>", "?x"), ())], "a body has 1 to"),
    ],
)
def test_unanswerable_queries_are_refused_by_name(query, rules, reason):
    with pytest.raises(QueryRefused) as refused:
        parse_query(prefixed(query), rules=rules)
    assert reason in f"{refused.value.construct} {refused.value}"


def test_forms_from_outside_with_other_rules_than_ours_are_refused():
    form = encode(parse_query(prefixed(QUERIES[0]), rules=[TRANSITIVE])).decode()
    assert decode(form.encode())
    head = '["?v0","<urn:p>","?v1"]'
    for old, new in (
        (head, '["?v0","?v2","?v1"]'), (head, '["?v0","<urn:p>","?v9"]'), (head, '["?v0","<urn:p>","bad"]'),
        (head, '["?v0","\\"p\\"","?v1"]'), ("?v2", "?v3"), ('["inferred",2', '["inferred",0'),
        ('["?v2","<urn:p>","?v1"]', '["?v2","<urn:p>","?v2"]'),
    ):  # fmt: skip
        assert old in form
        with pytest.raises(RemoteProtocolError):
            decode(form.replace(old, new).encode())
