"""Long queries: those within the bounds are translated, and hostile ones beyond are refused by name, soon."""

from __future__ import annotations

import json
import random
import time
from collections import Counter

import pytest
from algebra.leaves import Home

from p2prdf.errors import QueryRefused, RemoteProtocolError
from p2prdf.rdf.layouts import FIXED_ROWS_MAX, fixed_rows
from p2prdf.rdf.query import FILTERS_BYTES_MAX, PATTERNS_MAX, filter_bytes
from p2prdf.rdf.standing import form
from p2prdf.rdf.standing.query import parse_query
from p2prdf.rdf.tokens import QUERY_BYTES_MAX

NEVER = 20
"""Seconds of a processor; the slowest text here takes two."""
P = "PREFIX wd: <http://www.wikidata.org/entity/> PREFIX : <x:> "


def listed(count, each="{}", between=" "):
    return between.join(each.format(number) for number in range(count))


def test_a_group_has_64_patterns():
    query = parse_query(f"{P}SELECT ?x64 {{ {chain(64)} }}")
    (leaf,) = query.leaves
    assert len(leaf.patterns) == PATTERNS_MAX == 64
    assert form.decode(form.encode(query)) == query
    home = Home(query, random.Random(0))
    home.change([(f"<x:n{n}>", f"<x:p{n}>", f"<x:n{n + 1}>") for n in range(64)])
    assert home.rows == Counter([("<x:n64>",)])
    with pytest.raises(QueryRefused, match="more than 64"):
        parse_query(f"{P}SELECT * {{ {chain(65)} }}")


def chain(count):
    return "".join(f"?x{n} :p{n} ?x{n + 1} . " for n in range(count))


def test_ten_thousand_rows_of_values_are_joined():
    query = parse_query(f"{P}SELECT ?x ?y {{ VALUES ?x {{ {listed(10_000, 'wd:Q{}')} }} ?x :p ?y }}")
    data = form.encode(query)
    assert form.decode(data) == query
    home = Home(query, random.Random(0))
    home.change([(f"<http://www.wikidata.org/entity/Q{n}>", "<x:p>", f'"{n}"') for n in range(9_990, 10_010)])
    assert sum(home.rows.values()) == 10


def test_a_text_of_256_kib_is_translated():
    text = f"{P}SELECT * {{ VALUES (?x ?y) {{ {listed(9_000, '(:{0} :{0})')} }} ?x :p ?y }}"
    text += "#" * (QUERY_BYTES_MAX - len(text))
    assert parse_query(text).leaves
    with pytest.raises(QueryRefused, match=f"more than {QUERY_BYTES_MAX}"):
        parse_query(text + "#")


def test_the_coordinator_decides_filters_beyond_those_that_a_plan_holds():
    long = [letter * 30_000 for letter in "ab"]
    conditions = " ".join(f'FILTER(STR(?y) != "{text}")' for text in long)
    query = parse_query(f'{P}SELECT ?x {{ ?x :p ?y {conditions} FILTER(?z = 1) FILTER(?y != "c") ?x :q ?z }}')
    (leaf,) = query.leaves
    assert sum(filter_bytes(each.text, each.variables) for each in leaf.filters) <= FILTERS_BYTES_MAX
    assert len(leaf.filters) == 3
    assert form.decode(form.encode(query)) == query
    home = Home(query, random.Random(0))
    values = {"<x:1>": long[0], "<x:2>": long[1], "<x:3>": "c", "<x:4>": "d"}
    for subject, value in values.items():
        home.change(
            [(subject, "<x:p>", f'"{value}"'), (subject, "<x:q>", '"1"^^<http://www.w3.org/2001/XMLSchema#integer>')]
        )
    assert home.rows == Counter([("<x:4>",)])


def test_a_form_whose_leaf_has_too_long_filters_is_no_query():
    query = parse_query(f'{P}SELECT * {{ ?x :p ?y FILTER(STR(?y) != "a") }}')
    data = form.encode(query).replace(b"STR (", b"  " * FILTERS_BYTES_MAX + b"STR (")
    with pytest.raises(RemoteProtocolError, match="filters of a leaf are too long"):
        form.decode(data)


HOSTILE = {
    "rows of VALUES": (f"SELECT * {{ VALUES ?x {{ {listed(25_000)} }} ?x :p ?y }}", "VALUES"),
    "empty rows of VALUES": ("SELECT * { VALUES () { " + "()" * 100_000 + " } ?x :p ?y }", "VALUES"),
    "product of VALUES": (
        f"SELECT * {{ VALUES ?x {{ {listed(9_000)} }} VALUES ?y {{ {listed(9_000)} }} ?x :p ?z }}", "VALUES"
    ),
    "columns of VALUES": (f"SELECT * {{ VALUES ({listed(2_000, '?v{}')}) {{ }} ?x :p ?y }}", "VALUES"),
    "wide VALUES": (
        f"SELECT * {{ VALUES ({listed(1_000, '?v{}')}) {{ {('(' + '1 ' * 1_000 + ')') * 100} }} ?x :p ?y }}",
        "query length",
    ),
    "projection": (f"SELECT {listed(30_000, '?a{}')} {{ ?x :p ?y }}", "SELECT"),
    "patterns": (f"SELECT * {{ {listed(16_000, '?x :p ?x{} .')} }}", "query size"),
    "collection": ("SELECT * { ?x :p (" + " 1" * 60_000 + ") }", "query size"),
    "steps of a path": ("SELECT * { ?x " + "/".join([":p"] * 80_000) + " ?y }", "query size"),
    "repeated steps": ("SELECT * { ?x " + "/".join([":p*"] * 2_000) + " ?y }", "nesting"),
    "alternatives": ("SELECT * { ?x " + "/".join(["(:p|:q)"] * 1_000) + " ?y }", "nesting"),
    "negated path": ("SELECT * { ?x !(" + "|".join([":p"] * 3_000) + ") ?y }", "query size"),
    "graphs": (f"SELECT * {listed(20_000, 'FROM :{}')} {{ {'?x :p ?y . ' * 60} }}", "query size"),
    "list after IN": (f"SELECT * {{ ?x :p ?y FILTER(?y IN ({listed(40_000, between=',')})) }}", "filter length"),
    "conditions": ("SELECT * { ?x :p ?y FILTER(" + "&&".join(["?x"] * 60_000) + ") }", "filter length"),
    "keys": ("SELECT * { ?x :p ?y } ORDER BY" + " ?x" * 40_000, "query size"),
    "expanded prefix": (
        f"PREFIX l: <x:{'a' * 100_000}> SELECT * {{ VALUES ?x {{ {'l:a ' * 19_000} }} ?x ?p ?o }}", "IRI"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "construct"), HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_is_refused_by_name(text, construct):
    start = time.process_time()
    with pytest.raises(QueryRefused) as refused:
        parse_query(P + text)
    assert refused.value.construct == construct, refused.value
    assert time.process_time() - start < NEVER


def test_rows_of_values_are_bounded_over_all_operators():
    def rows(text):
        return fixed_rows(parse_query(P + text).operators)

    values = f"VALUES ?x {{ {listed(100)} }} VALUES ?y {{ {listed(10)} }}"
    assert rows(f"SELECT * {{ {values} }}") == 100 + 10 + 1000
    assert rows(f"SELECT * {{ {values} ?x :p ?z }}") == 100 + 10 + 1000
    assert rows(f"SELECT (COUNT(*) AS ?n) {{ {values} }}") < 100 + 10 + 1000 + 10
    assert rows("SELECT * { ?s :p ?o OPTIONAL { ?s :q ?z } }") == 0
    options = "".join(f" OPTIONAL {{ ?x :p{n} ?y{n} }}" for n in range(20))
    assert rows(f"SELECT * {{ VALUES ?x {{ {listed(10_000)} }}{options} }}") == 210_000 < FIXED_ROWS_MAX


def test_a_form_with_too_many_rows_is_no_query():
    query = parse_query(f"{P}SELECT * {{ VALUES ?x {{ {listed(1_000)} }} VALUES ?y {{ 1 2 }} ?x :p ?z }}")
    parts = json.loads(form.encode(query))
    tables = [part for part in parts[3:] if part[0] == "table"]
    assert [len(table[2]) for table in tables] == [1_000, 2]
    tables[1][2] = [[f'"{number}"'] for number in range(1_000)]
    with pytest.raises(RemoteProtocolError, match="rows of VALUES"):
        form.decode(json.dumps(parts, ensure_ascii=False, separators=(",", ":")).encode())


@pytest.mark.parametrize("call", ["REGEX(?o, '(a)\\\\1')", "REPLACE(?o, '(.).*\\\\1', 'b') = 'c'"])
def test_a_back_reference_is_refused_by_name(call):
    with pytest.raises(QueryRefused, match=r"'\\1' is a back-reference") as refused:
        parse_query(f"SELECT * {{ ?s ?p ?o FILTER({call}) }}")
    assert (refused.value.construct, refused.value.line) == ("REGEX", 1)
