"""Parts that are evaluated graph by graph, and DISTINCT with an order by other variables; pyoxigraph is the oracle."""

from __future__ import annotations

import random
import re
from collections import Counter

import pytest
from algebra.leaves import Home
from algebra.statements import of_oxigraph, positive

from p2prdf.rdf.ordering import in_order
from p2prdf.rdf.standing import form
from p2prdf.rdf.standing.query import parse_query

IN_EACH_GRAPH = [
    "SELECT ?g ?n { GRAPH ?g { { SELECT (COUNT(*) AS ?n) { ?s :p ?o } } } }",
    "SELECT ?g ?n ?m { GRAPH ?g { { SELECT (SUM(?o) AS ?n) (SAMPLE(?s) AS ?m) { ?s :r ?o } } } }",
    "SELECT ?g ?s ?n { GRAPH ?g { { SELECT ?s (COUNT(?o) AS ?n) { ?s :p ?o } GROUP BY ?s } } }",
    "SELECT ?g ?s { GRAPH ?g { { SELECT ?s { ?s :p ?o } GROUP BY ?s HAVING(COUNT(*) > 1) } } }",
    "SELECT ?g ?n { GRAPH ?g { { SELECT (COUNT(*) AS ?n) { ?s :p ?o } HAVING(COUNT(*) > 0) } ?a :q ?b } }",
    "SELECT ?g (COUNT(*) AS ?n) { GRAPH ?g { { SELECT DISTINCT ?s { ?s :p ?o } } } } GROUP BY ?g",
    "SELECT ?g ?s { GRAPH ?g { { SELECT ?s ?o { ?s :p ?o } ORDER BY ?s ?o LIMIT 2 } } }",
    "SELECT ?g ?s { GRAPH ?g { { SELECT ?s ?o { ?s :p ?o } ORDER BY DESC(?s) ?o OFFSET 1 } } }",
    "SELECT ?g ?s { GRAPH ?g { { SELECT DISTINCT ?s { ?s :p ?o } ORDER BY ?s LIMIT 1 } } GRAPH ?g { ?s :q ?z } }",
    "SELECT ?g ?n FROM NAMED :g { GRAPH ?g { { SELECT (COUNT(*) AS ?n) { ?s :q ?o } } } }",
    "SELECT ?g ?n { GRAPH ?g { ?s :q ?z OPTIONAL { SELECT ?s (COUNT(*) AS ?n) { ?s :p ?o } GROUP BY ?s } } }",
]
PATHS = [f"SELECT * {{ GRAPH ?g {{ {group} }} }}" for group in (
    "?s :p+ ?o", "?s :p* ?o", "?s :p? ?o", ":n1 :p+ ?o", ":n1 :p* ?o", "?s :p? :n2", "?s :p+ :n2", "?s :p* :n2",
    ":n1 :p* :n2", ":n1 :p+ :n1", ":n1 :p? :n1", ":no :p* ?o", "?s :p+ ?s", "?s :p* ?s", "?s ^:p+ ?o",
    "?s :q ?x . ?x :p* ?o", "?s :q ?x . ?o :p+ ?x", "?s :p*/:q ?o", "?s (:p|:q)+ ?o", "?s (:p/:q)+ ?o",
    "?s :q|:p* ?o", "?s !:q+ ?o", "?s :p+ ?x . ?x :q* ?o", "?s (:p?/:q?) ?o", "VALUES ?s { :n1 :n2 :no } ?s :p* ?o",
    "VALUES ?s { :n1 :no } ?s :p+ ?o", "?s :q ?x OPTIONAL { ?x :p+ ?o }", "?s :q ?x MINUS { ?x :p+ ?s }",
    "?s :q ?x FILTER EXISTS { ?x :p+ ?y }", "?s :q ?x { ?x :p* ?o } UNION { ?x :q ?o }", "?s :p+ ?o FILTER(?s != ?o)",
)]  # fmt: skip
PATHS += [
    "SELECT * { GRAPH ?g { ?s :p+ ?x } ?x :q ?o }",
    "SELECT * { ?s :q ?x GRAPH ?g { ?x :p+ ?o } }",
    "SELECT * { ?s :q ?x GRAPH ?g { ?x :p* ?o } }",
    "SELECT ?g (COUNT(*) AS ?n) { GRAPH ?g { ?s :p+ ?o } } GROUP BY ?g",
    "SELECT DISTINCT ?o { GRAPH ?g { ?s :p+ ?o } }",
    "SELECT * FROM NAMED :g { GRAPH ?g { ?s :p* ?o } }",
    "SELECT * { GRAPH ?g { ?s :p+ ?o } GRAPH ?g { ?o :p+ ?s } }",
]
DISTINCT_IN_ORDER = [
    "SELECT DISTINCT ?s { ?s :r ?o } ORDER BY ?o LIMIT 3", "SELECT DISTINCT ?s { ?s :r ?o } ORDER BY DESC(?o) ?s",
    "SELECT DISTINCT ?s { ?s :r ?o } ORDER BY (?o + 1) OFFSET 1", "SELECT DISTINCT ?s { ?s :r ?o } ORDER BY STR(?s)",
    "SELECT DISTINCT ?s ?x { ?s :r ?o OPTIONAL { ?s :p ?x } } ORDER BY ?o ?x LIMIT 4",
    "SELECT DISTINCT ?s { ?s :p ?o } GROUP BY ?s ORDER BY DESC(COUNT(?o)) ?s LIMIT 2",
    "SELECT DISTINCT ?s { ?s :r ?o } ORDER BY ?unknown ?o ?s LIMIT 2",
]  # fmt: skip


def statements_of(rng, *, numbers=6):
    nodes = [f"<x:n{number}>" for number in range(6)]
    found = set()
    for graph in (None, "<x:g>", "<x:h>", "<x:i>"):
        for _ in range(6):
            triple = rng.choice(nodes), f"<x:{rng.choice('pppq')}>", rng.choice(nodes)
            found.add(triple if graph is None else (*triple, graph))
    for number in range(numbers):  # no two equal values, so that every order is a total one
        triple = rng.choice(nodes), "<x:r>", f'"{number}"^^<http://www.w3.org/2001/XMLSchema#integer>'
        found |= {triple, (*triple, "<x:h>")}
    return sorted(found)


def graph_by_graph(statements, text, names):
    """Return the solutions of the query for each graph, with the columns in this order.

    pyoxigraph itself groups and cuts over all graphs.
    """
    found = Counter()
    for graph in {each[3] for each in statements if len(each) == 4}:
        if "FROM NAMED" not in text or f"FROM NAMED :{graph[3:-1]} " in text:
            one = text.replace("GRAPH ?g", f"GRAPH {graph}").replace("FROM NAMED :g ", "") + f" VALUES ?g {{ {graph} }}"
            one = one.replace("SELECT *", "SELECT " + " ".join(f"?{name}" for name in names))
            if re.search(r":n[1-9o] :p[*?]|:p[*?] :n|:q\|:p\*", text):
                # pyoxigraph has no path of length zero at a constant, and counts alternatives once.
                home = Home(parse_query(one), random.Random(0))
                home.change(statements)
                found += positive(home.rows)
            else:
                found += Counter(of_oxigraph(statements, one))
    return Counter(dict.fromkeys(found, 1)) if "DISTINCT" in text.partition("{")[0] else found


@pytest.mark.parametrize("text", IN_EACH_GRAPH)
def test_each_graph_has_its_own_groups_and_slices(text):
    text = "PREFIX : <x:> " + text
    query = parse_query(text)
    assert form.decode(form.encode(query)) == query
    sampled = "SAMPLE" in text
    for seed in range(3):
        rng = random.Random(seed)
        statements = statements_of(rng)
        home = Home(query, rng)
        for part in (statements[:9], statements, statements[5:], []):
            home.change(part)
            home.check_output()
            found, wanted = positive(home.rows), graph_by_graph(part, text, query.names)
            if sampled:
                found, wanted = (Counter({row[:2]: count for row, count in each.items()}) for each in (found, wanted))
            assert found == wanted, (seed, len(part))


@pytest.mark.parametrize("text", DISTINCT_IN_ORDER)
def test_distinct_solutions_have_the_place_of_their_first_copy(text):
    text = "PREFIX : <x:> " + text
    query, standing = parse_query(text, ordered=True), parse_query(text)
    assert form.decode(form.encode(query)) == query
    for seed in range(4):
        rng = random.Random(seed)
        statements = [each for each in statements_of(rng) if len(each) == 3]
        once, left_standing = Home(query, rng), Home(standing, rng)
        for part in (statements[:7], statements):
            once.change(part)
            left_standing.change(part)
            for home in (once, left_standing):
                home.check_output()
            rows = in_order(query.names, once.rows.elements())[1]
            wanted = of_oxigraph(part, text)
            assert rows == wanted, (seed, len(part))
            assert left_standing.rows == Counter(wanted)


@pytest.mark.parametrize("text", PATHS)
def test_repeated_paths_stay_in_one_graph(text):
    """Graph by graph, as SPARQL 1.1 (18.6) evaluates GRAPH; triples come and go."""
    text = "PREFIX : <x:> " + text
    query = parse_query(text)
    assert form.decode(form.encode(query)) == query
    for seed in range(6):
        rng = random.Random(seed)
        statements = statements_of(rng)
        home = Home(query, rng)
        for part in (statements[:9], statements, statements[4:], [], rng.sample(statements, 12)):
            home.change(part)
            home.check_output()
            assert positive(home.rows) == graph_by_graph(part, text, query.names), (seed, len(part))
