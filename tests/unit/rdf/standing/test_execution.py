"""NOW, RAND, UUID, STRUUID and BNODE: their values in one-time queries, and refusals in standing ones."""

from __future__ import annotations

import random
import re

import pytest
from algebra.leaves import Home

from p2prdf.errors import QueryRefused
from p2prdf.rdf import terms
from p2prdf.rdf.execution import Execution
from p2prdf.rdf.ordering import in_order
from p2prdf.rdf.query import Filter
from p2prdf.rdf.standing import form
from p2prdf.rdf.standing.query import parse_query
from p2prdf.rdf.values import decode

EXECUTION = Execution("2026-03-01T12:00:00.000Z", "e1")
DATA = [(f"<x:s{n}>", "<x:p>", f'"{n % 3}"') for n in range(12)]
UUID = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


def rows(text, execution=EXECUTION, data=DATA):
    query = parse_query("PREFIX : <x:> " + text, ordered=True, execution=execution)
    assert form.decode(form.encode(query)) == query
    home = Home(query, random.Random(0))
    for count in (3, len(data)):
        home.change(data[:count])
        home.check_output()
    return in_order(query.names, home.rows.elements())[1]


def column(text, **options):
    return [row[-1] for row in rows(text, **options)]


def test_now_is_one_value_in_all_places():
    text = "SELECT ?s ?n { ?s :p ?o BIND(NOW() AS ?n) FILTER(?n = NOW() && YEAR(now()) = 2026) } ORDER BY NOW()"
    assert column(text) == [f'"{EXECUTION.now}"^^<{terms.XSD}dateTime>'] * 12
    assert rows(text, Execution("2027-01-01T00:00:00Z", "e1")) == []


def test_random_numbers_differ_by_solution_call_and_execution():
    found = column("SELECT ?s (RAND() AS ?r) { ?s :p ?o }")
    numbers = [decode(term).value for term in found]
    assert all(0 <= each < 1 for each in numbers)
    assert decode(found[0]).datatype == terms.XSD + "double"
    assert len(set(numbers)) == 12
    assert column("SELECT ?s (RAND() AS ?r) { ?s :p ?o }") == found
    assert not set(column("SELECT ?s (RAND() AS ?r) { ?s :p ?o }", execution=Execution(seed="e2"))) & set(found)
    assert rows("SELECT ?s { ?s :p ?o FILTER(RAND() = RAND()) }") == []


def test_random_numbers_are_uniform():
    data = [(f"<x:s{n}>", "<x:p>", '"o"') for n in range(2000)]
    assert 900 < len(rows("SELECT ?s { ?s :p ?o FILTER(RAND() < 0.5) }", data=data)) < 1100


def test_solutions_that_project_alike_have_different_values():
    """All variables of a solution count, also those that nothing else needs."""
    for function in ("RAND()", "UUID()", "STRUUID()", "BNODE()", "BNODE('a')"):
        assert len(set(column(f"SELECT ({function} AS ?x) {{ ?s :p ?o }}"))) == 12, function
        assert len(set(column(f"SELECT ?x {{ ?s :p|:q ?o . ?o ^:p ?s BIND({function} AS ?x) }}"))) == 12, function


def test_identifiers_have_the_form_of_random_uuids():
    for term in column("SELECT ?s (STRUUID() AS ?x) { ?s :p ?o }"):
        assert UUID.fullmatch(terms.lexical(term))
    for term in column("SELECT ?s (uuid() AS ?x) { ?s :p ?o }"):
        assert UUID.fullmatch(term.removeprefix("<urn:uuid:")[:-1])
    assert len(set(rows("SELECT (UUID() AS ?a) (UUID() AS ?b) {}")[0])) == 2


def test_blank_nodes_are_new_in_each_solution_and_equal_for_equal_names_within_one():
    found = rows("SELECT ?s (BNODE() AS ?a) (BNODE() AS ?b) (BNODE('x') AS ?c) (BNODE('x') AS ?d) (BNODE(?o) AS ?e)"
                 " { ?s :p ?o FILTER(isBlank(BNODE())) }")  # fmt: skip
    nodes = [node for row in found for node in {*row[1:]}]
    assert len(found) == 12
    assert all(row[3] == row[4] for row in found)
    assert len(nodes) == len(set(nodes)) == 12 * 4
    assert all(node.startswith("<urn:bnode:e1:") and terms.is_skolem(node) for node in nodes)
    assert {row[1:] for row in rows("SELECT ?s (BNODE(?s) AS ?x) (BNODE(5) AS ?y) { ?s :p ?o }")} == {(None, None)}


def test_values_in_groups_aggregates_subqueries_and_options():
    assert len(set(column("SELECT ?o (UUID() AS ?x) { ?s :p ?o } GROUP BY ?o"))) == 3
    assert column("SELECT (COUNT(DISTINCT ?x) AS ?n) { { SELECT (STRUUID() AS ?x) { ?s :p ?o } } }") == [
        f'"12"^^<{terms.XSD}integer>'
    ]
    assert column("SELECT (COUNT(DISTINCT UUID()) AS ?n) { ?s :p ?o }") == [f'"12"^^<{terms.XSD}integer>']
    kept = rows("SELECT ?s ?z { ?s :p ?o OPTIONAL { ?z :p ?o FILTER(RAND() < 0.3) } }")
    assert {row[0] for row in kept} == {s for s, _, _ in DATA}
    assert len(kept) < 48


def test_a_random_order_is_complete_and_depends_on_the_execution():
    orders = {
        tuple(column("SELECT ?s { ?s :p ?o } ORDER BY RAND()", execution=Execution(seed=f"e{n}"))) for n in range(5)
    }
    assert len(orders) == 5
    assert {tuple(sorted(order)) for order in orders} == {tuple(sorted(s for s, _, _ in DATA))}
    chosen = column("SELECT ?s { ?s :p ?o } ORDER BY RAND() LIMIT 5")
    assert len(set(chosen)) == 5


@pytest.mark.parametrize("call", ["NOW()", "RAND()", "UUID()", "STRUUID()", "BNODE()", "BNODE(?o)"])
def test_a_standing_query_is_refused_with_the_reason_and_an_alternative(call):
    name = call.partition("(")[0]
    for text in (f"SELECT ({call} AS ?x)\n{{ ?s <x:p> ?o }}", f"ASK {{ ?s <x:p> ?o FILTER({call} = 1) }}"):
        with pytest.raises(QueryRefused) as refused:
            parse_query(text)
        assert (refused.value.construct, refused.value.line) == (name, 1)
        assert "ask the query once" in refused.value.reason


@pytest.mark.parametrize("call", ["NOW(1)", "RAND(?o)", "UUID('a')", "STRUUID(?o)", "NOW", "BNODE(?o, ?s)", "BNODE"])
def test_wrong_arguments_are_refused(call):
    with pytest.raises(QueryRefused) as refused:
        parse_query(f"SELECT ({call} AS ?x) {{ ?s <x:p> ?o }}", ordered=True)
    assert refused.value.column is not None


def test_a_form_with_an_unknown_kind_is_no_expression():
    from p2prdf.rdf.compiled import compile_expression

    for text in ('<urn:p2prdf:value> ( "NONE" , "e" )', "<urn:p2prdf:value> ( )", "<urn:p2prdf:value> ( ?v0 , ?v0 )"):
        with pytest.raises(QueryRefused):
            compile_expression(Filter(text, (0,) if "?v0" in text else ()))
