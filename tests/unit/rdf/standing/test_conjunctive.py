"""SELECT queries to conjunctive queries: accepted forms, refusals by name, and bounds on hostile texts."""

from __future__ import annotations

import json
import pathlib
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable

import pyoxigraph as ox
import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2prdf.errors import QueryRefused
from p2prdf.rdf import compiled
from p2prdf.rdf.expression_parser import parse_expression
from p2prdf.rdf.query import Algorithm, ConjunctiveQuery, Filter, make_plan
from p2prdf.rdf.standing.conjunctive import parse_select

Triple = tuple[str, str, str]
Evaluate = Callable[[ConjunctiveQuery, Iterable[Triple]], list[tuple[str, ...]]]

RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
XSD = "http://www.w3.org/2001/XMLSchema#"
P = "PREFIX : <x:> "


def parsed_or_refused(text: str) -> ConjunctiveQuery | str:
    """Return the query, or the construct for which it is refused."""
    try:
        return parse_select(text)
    except QueryRefused as error:
        return error.construct


def shown(text: str) -> tuple[list[tuple[str, ...]], tuple[str, ...]]:
    """Return the patterns with variables as ?0, ?1 ..., and the projected names with their slots."""
    query = parse_select(text)
    patterns = [
        tuple(query.constants[~slot] if slot < 0 else f"?{slot}" for slot in pattern) for pattern in query.patterns
    ]
    return patterns, tuple(f"{name}={slot}" for name, slot in zip(query.names, query.answer, strict=True))


@pytest.mark.parametrize(
    ("text", "patterns", "answer"),
    [
        ("SELECT * { ?s ?p ?o }", ["?0 ?1 ?2"], "s=0 p=1 o=2"),
        ("SELECT ?o ?s WHERE { ?s ?p ?o . }", ["?0 ?1 ?2"], "o=2 s=0"),
        ("SELECT ?x ?x { ?x :p ?x }", ["?0 <x:p> ?0"], "x=0"),
        ("select $x where { ?x a :C ; :p 1 , 'b'@EN ; ; }", [
            f"?0 <{RDF}type> <x:C>", f'?0 <x:p> "1"^^<{XSD}integer>', '?0 <x:p> "b"@en'], "x=0"),
        ("SELECT * { :s :p 01, 1.0, +1, -1e0, true, FALSE, '01'^^<x:t>, \"\"\"a\"b\"\"\" }", [
            f'<x:s> <x:p> "01"^^<{XSD}integer>', f'<x:s> <x:p> "1.0"^^<{XSD}decimal>',
            f'<x:s> <x:p> "+1"^^<{XSD}integer>', f'<x:s> <x:p> "-1e0"^^<{XSD}double>',
            f'<x:s> <x:p> "true"^^<{XSD}boolean>', f'<x:s> <x:p> "false"^^<{XSD}boolean>',
            '<x:s> <x:p> "01"^^<x:t>', '<x:s> <x:p> "a\\"b"'], ""),
        ("SELECT * { _:a :p [] . _:a :q ?x }", ["?0 <x:p> ?1", "?0 <x:q> ?2"], "x=2"),
        ("SELECT * { ?x :p [ :q ?y ; :r [ :s ?z ] ] }",
         ["?0 <x:p> ?1", "?1 <x:q> ?2", "?1 <x:r> ?3", "?3 <x:s> ?4"], "x=0 y=2 z=4"),
        ("SELECT * { [ :p ?x ] :q ?y . [ :r ?z ] }", ["?0 <x:p> ?1", "?0 <x:q> ?2", "?3 <x:r> ?4"], "x=1 y=2 z=4"),
        ("SELECT * { ?x :p (1 ?y) }", [
            "?0 <x:p> ?1", f'?1 <{RDF}first> "1"^^<{XSD}integer>', f"?1 <{RDF}rest> ?2", f"?2 <{RDF}first> ?3",
            f"?2 <{RDF}rest> <{RDF}nil>"], "x=0 y=3"),
        ("SELECT * { () :p ?x }", [f"<{RDF}nil> <x:p> ?0"], "x=0"),
        ("SELECT * { ?x :p/:q/:r ?y }", ["?0 <x:p> ?1", "?1 <x:q> ?2", "?2 <x:r> ?3"], "x=0 y=3"),
        ("SELECT * { ?x ^:p ?y }", ["?0 <x:p> ?1"], "x=1 y=0"),
        ("SELECT * { ?x ^(:p/^a) ?y }", ["?0 <x:p> ?1", f"?2 <{RDF}type> ?1"], "x=2 y=0"),
        ("SELECT * { ?x (:p) ?y ; ((^:q)/:r) 'z' }", ["?0 <x:p> ?1", "?2 <x:q> ?0", '?2 <x:r> "z"'], "x=0 y=1"),
        ("SELECT * { ?x :p ?y { ?y :q ?z { } } { { ?z :r ?x } } }",
         ["?0 <x:p> ?1", "?1 <x:q> ?2", "?2 <x:r> ?0"], "x=0 y=1 z=2"),
        ("SELECT * { ?x :p 'ftand' . FILTER(true) . ?x :q ?y }", ['?0 <x:p> "ftand"', "?0 <x:q> ?1"], "x=0 y=1"),
        ("BASE <http://a/b/> SELECT * { <c> <#d> <> }", ["<http://a/b/c> <http://a/b/#d> <http://a/b/>"], ""),
        ('SELECT * { "literal" ?p ?o }', ['"literal" ?0 ?1'], "p=0 o=1"),
    ],
)  # fmt: skip
def test_patterns_keep_their_order_and_constants_their_form(text: str, patterns: list[str], answer: str) -> None:
    found, names = shown(P + text if not text.startswith("BASE") else text)
    assert [" ".join(pattern) for pattern in found] == patterns
    assert " ".join(names) == answer


def test_distinct_and_reduced() -> None:
    assert parse_select("SELECT DISTINCT ?x { ?x ?y ?z }").distinct
    assert not parse_select("SELECT REDUCED ?x { ?x ?y ?z }").distinct
    assert not parse_select("SELECT ?x { ?x ?y ?z }").distinct


def test_queries_alike_up_to_names_are_equal() -> None:
    a = parse_select(P + "SELECT ?x { ?x :p ?y . FILTER(?y > 1 && STRLEN(?x) = ?y) ?y :q [] }")
    b = parse_select("PREFIX z:<x:> SELECT $s{$s z:p $o;.FILTER($o>1)FILTER(strlen($s)=$o)$o z:q _:n}")
    assert a.names == ("x",)
    assert b.names == ("s",)
    assert (a.patterns, a.constants, a.answer, a.filters) == (b.patterns, b.constants, b.answer, b.filters)
    assert parse_select("SELECT ?b ?a { ?a ?p ?b }") != parse_select("SELECT ?a ?b { ?a ?p ?b }")


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("(?y = :a)", [("?v1 = <x:a>", (1,))]),
        ("(?y = 1 && (?x != ?y && bound(?x)))",
         [(f'?v1 = "1"^^<{XSD}integer>', (1,)), ("?v0 != ?v1", (0, 1)), ("BOUND ( ?v0 )", (0,))]),
        ("(?y = 1 || ?x = 2 && ?y = 3)",
         [(f'?v1 = "1"^^<{XSD}integer> || ?v0 = "2"^^<{XSD}integer> && ?v1 = "3"^^<{XSD}integer>', (0, 1))]),
        ("((?y + 1) * 2 = 4)", [(f'( ?v1 + "1"^^<{XSD}integer> ) * "2"^^<{XSD}integer> = "4"^^<{XSD}integer>', (1,))]),
        ("(?y -1 = -1)", [(f'?v1 - "1"^^<{XSD}integer> = "-1"^^<{XSD}integer>', (1,))]),
        ("(?y = ?y) FILTER(?y = ?y)", [("?v1 = ?v1", (1,))]),
        (" isuri(?x)", [("ISIRI ( ?v0 )", (0,))]),
        ("<" + XSD + "integer>(?y)", [(f"<{XSD}integer> ( ?v1 )", (1,))]),
        ("(?y IN (1, 'a'@EN, ?x))", [(f'?v1 IN ( "1"^^<{XSD}integer> , "a"@en , ?v0 )', (0, 1))]),
        ("(?y not in ())", [("?v1 NOT IN ( )", (1,))]),
        ("(regex(?y, '^a', 'i'))", [('REGEX ( ?v1 , "^a" , "i" )', (1,))]),
        # A variable that no pattern binds is unbound.
        ("(!bound(?z))", []),
        ("(?z = 1)", [(f'"false"^^<{XSD}boolean>', ())]),
        ("(?y = 1 || ?z = ?zz || ?z = 2)",
         [(f'?v1 = "1"^^<{XSD}integer> || ?u0 = ?u1 || ?u0 = "2"^^<{XSD}integer>', (1,))]),
        # Conditions without variables are decided at once.
        ("(1 < 2)", []),
        ("(2 < 1) FILTER(?y = 1)", [(f'"false"^^<{XSD}boolean>', ())]),
        ("(true && ?y)", [("?v1", (1,))]),
    ],
)  # fmt: skip
def test_filters_are_canonical_and_divided(condition: str, expected: list[tuple[str, tuple[int, ...]]]) -> None:
    query = parse_select(f"{P} SELECT * {{ ?x :p ?y FILTER{condition} }}")
    assert [(found.text, found.variables) for found in query.filters] == expected
    for found in query.filters:
        assert compiled.compile_filter(found)
    assert make_plan(query, (0,), Algorithm.CSBV).steps[0].filters == tuple(range(len(query.filters)))


def test_a_filter_sees_the_variables_of_its_own_group_only() -> None:
    query = parse_select(P + "SELECT * { ?x :p ?y . { ?y :q ?z FILTER(?x = ?z || ?y = ?z) { ?z :r ?w } } }")
    assert [(f.text, f.variables) for f in query.filters] == [("?u0 = ?v2 || ?v1 = ?v2", (1, 2))]
    query = parse_select(P + "SELECT * { FILTER(?w = ?x) ?x :p ?y . { ?y :q ?z { ?z :r ?w } } }")
    assert [(f.text, f.variables) for f in query.filters] == [("?v3 = ?v0", (0, 3))]


def test_the_function_iri_knows_the_base_of_its_query() -> None:
    query = parse_select("BASE <http://a/b/> SELECT * { ?x <p> ?y FILTER(IRI(STR(?y)) = <c> || uri('d') = ?x) }")
    (found,) = query.filters
    holds = compiled.compile_filter(found)
    assert holds(("<http://a/b/d>", '"zzz"'))
    assert holds(("<x:x>", '"c"'))
    assert not holds(("<x:x>", '"d"'))
    (found,) = parse_select("SELECT * { ?x ?p ?y FILTER(IRI(?y) = <x:c>) }").filters
    assert not compiled.compile_filter(found)(('"c"',))


REFUSED = [
    ("ASK { ?s ?p ?o }", "ASK", 1, 1),
    ("PREFIX : <x:>\nCONSTRUCT { ?s ?p ?o } WHERE { ?s ?p ?o }", "CONSTRUCT", 2, 1),
    ("DESCRIBE <x:a>", "DESCRIBE", 1, 1),
    ("INSERT DATA { <x:a> <x:b> <x:c> }", "INSERT", 1, 1),
    ("DELETE WHERE { ?s ?p ?o }", "DELETE", 1, 1),
    ("LOAD <x:a>", "LOAD", 1, 1),
    ("CLEAR ALL", "CLEAR", 1, 1),
    ("SELECT * FROM <x:g> { ?s ?p ?o }", "FROM", 1, 10),
    ("SELECT (?s AS ?t) { ?s ?p ?o }", "expression in SELECT", 1, 8),
    ("SELECT ?s (COUNT(*) AS ?n) { ?s ?p ?o }", "expression in SELECT", 1, 11),
    ("SELECT ?z { ?s ?p ?o }", "unbound variable in SELECT", 1, 8),
    ("SELECT * { ?s ?p ?o\n  OPTIONAL { ?o ?q ?r } }", "OPTIONAL", 2, 3),
    ("SELECT * { { ?s ?p ?o } UNION { ?o ?p ?s } }", "UNION", 1, 25),
    ("SELECT * { ?s ?p ?o MINUS { ?o ?p ?s } }", "MINUS", 1, 21),
    ("SELECT * { ?s ?p ?o FILTER EXISTS { ?o ?p ?s } }", "EXISTS", 1, 28),
    ("SELECT * { ?s ?p ?o FILTER NOT EXISTS { ?o ?p ?s } }", "EXISTS", 1, 32),
    ("SELECT * { ?s ?p ?o FILTER(?s = 1 || exists { ?o ?p ?s }) }", "EXISTS", 1, 38),
    ("SELECT * { ?s ?p ?o FILTER(!NOT EXISTS { ?o ?p ?s }) }", "EXISTS", 1, 33),
    ("SELECT * { ?s ?p ?o BIND(?o AS ?x) }", "BIND", 1, 21),
    ("SELECT * { VALUES ?s { 1 } ?s ?p ?o }", "VALUES", 1, 12),
    ("SELECT * { ?s ?p ?o } VALUES ?s { 1 }", "VALUES", 1, 23),
    ("SELECT * { ?s ?p ?o { SELECT ?s { ?s ?p ?o } } }", "sub-SELECT", 1, 23),
    ("SELECT * { GRAPH ?g { ?s ?p ?o } }", "GRAPH", 1, 12),
    ("SELECT * { SERVICE <x:e> { ?s ?p ?o } }", "SERVICE", 1, 12),
    ("SELECT * { ?s ?p ?o } GROUP BY ?s", "GROUP BY", 1, 23),
    ("SELECT * { ?s ?p ?o } HAVING(?s)", "HAVING", 1, 23),
    ("SELECT * { ?s ?p ?o }\norder by ?s", "ORDER BY", 2, 1),
    ("SELECT * { ?s ?p ?o } LIMIT 1", "LIMIT", 1, 23),
    ("SELECT * { ?s ?p ?o } OFFSET 1", "OFFSET", 1, 23),
    ("SELECT * { ?s <x:p>* ?o }", "property path *", 1, 15),
    ("SELECT * { ?s <x:p>+ ?o }", "property path +", 1, 15),
    ("SELECT * { ?s <x:p>? ?o }", "property path ?", 1, 15),
    ("SELECT * { ?s <x:p>|<x:q> ?o }", "property path |", 1, 15),
    ("SELECT * { ?s !<x:p> ?o }", "property path !", 1, 15),
    ("SELECT * { ?s ?p ?o FILTER(RAND() < ?o) }", "RAND", 1, 28),
    ("SELECT * { ?s ?p ?o FILTER(now() < ?o) }", "NOW", 1, 28),
    ("SELECT * { ?s ?p ?o FILTER(UUID() = ?o) }", "UUID", 1, 28),
    ("SELECT * { ?s ?p ?o FILTER(STRUUID() = ?o) }", "STRUUID", 1, 28),
    ("SELECT * { ?s ?p ?o FILTER(BNODE() = ?o) }", "BNODE", 1, 28),
    ("SELECT * { ?s ?p ?o FILTER(COUNT(?o) > 1) }", "COUNT", 1, 28),
    ("SELECT * { ?s ?p ?o FILTER(<x:f>(?o)) }", "function <x:f>", 1, 28),
    ("PREFIX xsd: <http://www.w3.org/2001/XMLSchema#> SELECT * { ?s ?p ?o FILTER xsd:int(?o) }",
     f"function <{XSD}int>", 1, 76),
    ("SELECT * { ?s ?p ?o FILTER(?o > 1 && REGEX(?o, '(')) }", "REGEX", 1, 38),
    ("SELECT * { ?s ?p ?o FILTER(REPLACE(?o, 'a', 'b', 'z') = 'c') }", "REGEX", 1, 28),
    ("SELECT * { _:a ?p ?o . { _:a ?q ?r } }", "blank node label", 1, 26),
    ("SELECT * { _:a ?p ?o . { ?x ?q ?r } _:a ?q ?r }", "blank node label", 1, 37),
    ("SELECT * { }", "empty pattern", None, None),
    ("SELECT * { { } FILTER(true) }", "empty pattern", None, None),
    ("SELECT * { ?s <p> ?o }", "IRI", 1, 15),
    ("SELECT * { ?s x:p ?o }", "prefix", 1, 15),
    ("SELECT * {" + " ?s ?p ?o ." * 65 + " }", "triple patterns", 1, 15),
    ("SELECT * { ?s " + "/".join(["<x:p>"] * 65) + " ?o }", "triple patterns", None, None),
    ("SELECT * { ?s ?p (" + " 1" * 33 + ") }", "triple patterns", 1, 15),
    ("SELECT * { ?s ?p ?o" + " FILTER(?s)" * 65 + " }", "FILTER", 1, 725),
    ("SELECT * { ?s ?p ?o" + " {}" * 130 + " }", "query size", 1, 402),
    ("SELECT * { ?s ?p ?o FILTER(?o" + "+?o" * 1100 + ") }", "filter length", 1, 28),
]  # fmt: skip


@pytest.mark.parametrize(("text", "construct", "line", "column"), REFUSED)
def test_an_unsupported_query_is_refused_by_name_and_place(
    text: str, construct: str, line: int | None, column: int | None
) -> None:
    with pytest.raises(QueryRefused) as refused:
        parse_select(text)
    assert (refused.value.construct, refused.value.line, refused.value.column) == (construct, line, column)
    assert refused.value.reason


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("", 1, 1),
        ("SELECT", 1, 7),
        ("SELECT { ?s ?p ?o }", 1, 8),
        ("SELECT ?s", 1, 10),
        ("SELECT ?s, ?p { ?s ?p ?o }", 1, 10),
        ("SELECT * { ?s ?p }", 1, 18),
        ("SELECT * { ?s ?p ?o .\n ?s ?o .\n ?s ?p ?o }", 2, 8),
        ("SELECT * { ?s ?p ?o . { ?a ?b ?c } ?q [ ?o ] }", 1, 39),
        ("SELECT * { ?s 'p' ?o }", 1, 15),
        ("SELECT * { a ?p ?o }", 1, 12),
        ("SELECT * { ?s _:b ?o }", 1, 15),
        ("SELECT * { ?s ?p ?o ?s ?p ?o }", 1, 21),
        ("SELECT * { ?s ?p ?o } }", 1, 23),
        ("SELECT * { ?s ?p ?o } ?x", 1, 23),
        ("SELECT * { ?s ?p ?o FILTER }", 1, 28),
        ("SELECT * { ?s ?p ?o FILTER ?o }", 1, 28),
        ("SELECT * { ?s ?p ?o FILTER() }", 1, 27),
        ("SELECT * { ?s ?p ?o FILTER(?o +) }", 1, 28),
        ("SELECT * { ?s ?p ?o FILTER(?o && ) }", 1, 27),
        ("SELECT * { ?s ?p ?o FILTER(!!?o) }", 1, 28),
        ("SELECT * { ?s ?p ?o FILTER(?o = 1 = 2) }", 1, 28),
        ("SELECT * { ?s ?p ?o FILTER(BOUND(1)) }", 1, 28),
        ("SELECT * { ?s ?p ?o FILTER(STR(?o, 1)) }", 1, 28),
        ("SELECT * { ?s ?p ?o FILTER(foo(?o)) }", 1, 28),
        ("SELECT * { ?s ?p ?o FILTER(_:b = ?o) }", 1, 28),
        ("SELECT * { ?s ?p ?o = ?q }", 1, 21),
        ("SELECT DISTINCT REDUCED * { ?s ?p ?o }", 1, 17),
        ("{ ?s ?p ?o }", 1, 1),
    ],
)
def test_syntax_errors_have_a_place(text: str, line: int, column: int) -> None:
    with pytest.raises(QueryRefused) as refused:
        parse_select(text)
    assert (refused.value.construct, refused.value.line, refused.value.column) == ("syntax error", line, column)


# --- hostile input -------------------------------------------------------------------------------

NEVER = 30
"""Bound in seconds of work, which separates quick from never.

Trying parts twice at each of 62 levels takes longer than the machine lives, so this bound separates the two on
a machine of any speed; the honest cost is below one second.
"""

DEEP = {
    "(": "SELECT * {?s ?p ?o FILTER" + "(" * 63 + "?o" + ")" * 63 + "}",
    "function": "SELECT * {?s ?p ?o FILTER(" + "STR(" * 62 + "?o" + ")" * 62 + ")}",
    "IF": "SELECT * {?s ?p ?o FILTER(" + "IF(?s,?p," * 62 + "?o" + ")" * 62 + ")}",
    "COALESCE": "SELECT * {?s ?p ?o FILTER(" + "COALESCE(?s," * 62 + "?o" + ")" * 62 + ")}",
    "cast": "SELECT * {?s ?p ?o FILTER(" + f"<{XSD}string>(" * 62 + "?o" + ")" * 62 + ")}",
    "IN": "SELECT * {?s ?p ?o FILTER(" + "?o IN (" * 62 + "?o" + ")" * 62 + ")}",
    "!": "SELECT * {?s ?p ?o FILTER(" + "!(" * 62 + "?o" + ")" * 62 + ")}",
    "-": "SELECT * {?s ?p ?o FILTER(" + "-(" * 62 + "?o" + ")" * 62 + ")}",
    "mixed": "SELECT * {?s ?p ?o FILTER(" + "(?s + STR(" * 31 + "?o" + "))" * 31 + ")}",
    "||": "SELECT * {?s ?p ?o FILTER(" + "||".join(["?o"] * 195) + ")}",
    "{": "SELECT * " + "{" * 64 + "?s ?p ?o" + "}" * 64,
    "[": "SELECT * {" + "?s ?p [ ?q " * 15 + "?o" + "]" * 15 + "}",
    "path": "SELECT * {?s " + "(" * 63 + "<x:p>" + ")" * 63 + " ?o}",
    "^": "SELECT * {?s " + "^(" * 63 + "<x:p>" + ")" * 63 + " ?o}",
}


@pytest.mark.parametrize("name", DEEP)
def test_deep_nesting_is_quick_at_any_depth_of_the_stack(name: str) -> None:
    """64 levels of every bracket are parsed in a moment, and no RecursionError comes through."""

    def parse() -> ConjunctiveQuery | str:
        compiled.compile_filter.cache_clear()
        start = time.process_time()
        found = parsed_or_refused(DEEP[name])
        assert time.process_time() - start < NEVER
        return found

    def deeper(frames: int) -> ConjunctiveQuery | str:
        return parse() if frames == 0 else deeper(frames - 1)

    limit = sys.getrecursionlimit()
    found = parse()
    assert deeper(500) == found
    assert sys.getrecursionlimit() == limit
    if name == "[":
        assert found == "syntax error"
    else:
        assert isinstance(found, ConjunctiveQuery)
        rows = [["<x:a>"] * len(condition.variables) for condition in found.filters]
        for condition, row in zip(found.filters, rows, strict=True):
            compiled.compile_filter(condition)(row)


def test_nested_collections_and_property_lists_end_at_the_pattern_bound() -> None:
    for opening, closing in (("(", ")"), ("[ ?p ", "]")):
        nested = " . ".join("?s ?p " + opening * 40 + "?o" + closing * 40 for _ in range(2))
        with pytest.raises(QueryRefused) as refused:
            parse_select("SELECT * {" + nested + "}")
        assert refused.value.construct == "triple patterns"


HOSTILE = [
    "SELECT * { ?s ?p ?o } #" + "x" * (256 << 10), "(" * 65, "SELECT * {" + "{" * 64, "}" * 16000, "\0" * 100, "\ufeff",
    "\ud800", "SELECT * { ?s ?p \0 }", "SELECT " + "?x " * 5000, "PREFIX a: <b:> " * 1000,
    *("SELECT * { ?s ?p ?o " + text + "}" for text in (
        "." * 8000, "[] " * 4000, "^" * 8000, "{" * 63 + "}" * 61, "FILTER(?o) " * 1400,
    )),
    *("SELECT * { ?s ?p ?o FILTER(" + text + ") }" for text in (
        "!" * 10_000 + "?o", "-" * 8000 + "1", "1 +" * 4000 + "1 = 1", "?o IN (" + "1," * 7000 + ")", "?o," * 5000,
    )),
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_refused_at_once(text: str) -> None:
    start = time.process_time()
    with pytest.raises(QueryRefused):
        parse_select(text)
    assert time.process_time() - start < NEVER


def test_repeated_semicolons_are_skipped() -> None:
    assert parse_select("SELECT * { ?s ?p ?o " + ";" * 8000 + "}") == parse_select("SELECT * { ?s ?p ?o }")


def test_long_lists_of_constants_are_fine() -> None:
    members = ", ".join(str(n) for n in range(800))
    (found,) = parse_select(f"SELECT * {{ ?s ?p ?o FILTER(?o IN ({members})) }}").filters
    assert compiled.compile_filter(found)((f'"799"^^<{XSD}integer>',))
    assert not compiled.compile_filter(found)((f'"800"^^<{XSD}integer>',))
    assert parse_expression(found.text, found.variables)[1] == 5
    with pytest.raises(QueryRefused, match="49152 bytes") as refused:
        parse_select(f"SELECT * {{ ?s ?p ?o FILTER(?o IN ({', '.join(map(str, range(2000)))})) }}")
    assert refused.value.construct == "filter length"


def test_the_canonical_text_of_a_filter_is_bounded_too() -> None:
    """Prefixes make a short query long."""
    long = "<x:" + "a" * 8000 + ">"
    with pytest.raises(QueryRefused, match="262144") as refused:
        parse_select(f"PREFIX p: {long} SELECT * {{ ?s ?p ?o FILTER(?o IN ({', '.join(['p:b'] * 1000)})) }}")
    assert refused.value.construct == "filter length"


pieces = st.sampled_from([
    "SELECT", "*", "?x", "?y", "{", "}", "(", ")", "[", "]", ".", ";", ",", "a", "<x:p>", "'l'", "1", "-2", "_:b",
    "FILTER", "FILTER(", "=", "<", "&&", "||", "!", "+", "-", "/", "^", "|", "IN", "NOT", "STR(", "BOUND(", "EXISTS",
    "OPTIONAL", "true", "REGEX(", "IF(", "@en", "^^", "#", "\n", "WHERE", "BASE", "PREFIX", "p:", "p:q",
])  # fmt: skip


@given(st.lists(pieces, max_size=30).map(" ".join), st.booleans())
def test_any_text_is_a_query_or_is_refused(text: str, wrapped: bool) -> None:
    query = parsed_or_refused(f"SELECT * {{ ?x <x:p> ?y {text} }}" if wrapped else text)
    if isinstance(query, str):
        assert query
        return
    assert query.patterns
    assert max(slot for pattern in query.patterns for slot in pattern) == query.variable_count - 1
    assert query.constants == tuple(dict.fromkeys(query.constants))


# --- answers against another engine --------------------------------------------------------------


NAMES = [f"?{c}" for c in "abcde"]


class RandomQuery:
    """SELECT queries that use the grammar's abbreviations."""

    def __init__(self, rng: random.Random):
        self.choice = rng.choice
        self._rng = rng

    def chance(self, share: float) -> bool:
        return self._rng.random() < share

    def text(self) -> str:
        return f"PREFIX : <x:> SELECT {self.choice(['', 'DISTINCT '])}* {self.group(1)}"

    def group(self, depth: int) -> str:
        parts = []
        for _ in range(self.choice([1, 1, 2])):
            subject = self.choice([*NAMES, ":n0", f"[ :p {self.choice(NAMES)} ]"])
            parts.append(f"{subject} {self.properties(1)} .")
            if self.chance(0.3):
                parts.append(f"FILTER{self.condition()}")
            if depth and self.chance(0.3):
                parts.append(self.group(depth - 1))
        return "{ " + " ".join(parts) + " }"

    def properties(self, depth: int) -> str:
        return " ; ".join(f"{self.path()} {self.objects(depth)}" for _ in range(self.choice([1, 1, 2])))

    def objects(self, depth: int) -> str:
        return ", ".join(self.term(depth) for _ in range(self.choice([1, 1, 2])))

    def term(self, depth: int) -> str:
        if depth and self.chance(0.1):
            return f"[ {self.properties(depth - 1)} ]"
        if depth and self.chance(0.04):
            return f"( {self.term(depth - 1)} )"
        if self.chance(0.65):
            return self.choice(NAMES)
        return self.choice([":n0", ":n1", ":n2", "1", "'l'", "[]", "_:z"])

    def path(self) -> str:
        if self.chance(0.1):
            return self.choice(NAMES)
        if self.chance(0.2):
            return self.choice(["^", ""]) + f"({self.step()}/{self.step()})"
        return self.step()

    def step(self) -> str:
        return self.choice(["", "", "^"]) + self.choice([":p", ":q", "a"])

    def condition(self) -> str:
        a, b = self.choice(NAMES), self.choice([*NAMES, "1", ":n0", "'l'"])
        return self.choice([
            f"({a} != {b})", f"(BOUND({a}) && {a} = {b})", f"(!BOUND({a}) || ISIRI({a}))", f"(ISLITERAL({a}))",
        ])  # fmt: skip


@pytest.mark.parametrize("seed", range(8))
def test_random_queries_have_the_answers_of_another_engine(seed: int, evaluate: Evaluate) -> None:
    """Bags of solutions, so a rewriting that kept only the set would be found."""
    rng = random.Random(seed)
    nodes = [f"<x:n{n}>" for n in range(3)]
    edges = ["<x:p>", "<x:q>", f"<{RDF}type>", f"<{RDF}first>", f"<{RDF}rest>"]
    leaves = [*nodes, *nodes, f'"1"^^<{XSD}integer>', '"l"', f"<{RDF}nil>"]
    triples = {(rng.choice(nodes), rng.choice(edges), rng.choice(leaves)) for _ in range(14)}
    store = ox.Store()
    store.update("INSERT DATA {" + " . ".join(" ".join(triple) for triple in triples) + "}")
    compared = answers = 0
    while compared < 40:
        text = RandomQuery(rng).text()
        query = parsed_or_refused(text)
        if isinstance(query, str):
            assert query in ("triple patterns", "blank node label"), text
            continue
        if len(query.patterns) > 7:
            continue
        result = store.query(text)
        names = [variable.value for variable in result.variables]  # type: ignore[union-attr]
        expected = Counter(
            frozenset((name, str(row[name])) for name in names if row[name] is not None)
            for row in result  # type: ignore[union-attr]
        )
        found = Counter(frozenset(zip(query.names, row, strict=True)) for row in evaluate(query, triples))
        assert found == expected, text
        compared += 1
        answers += sum(expected.values())
    assert answers > 10


# --- real queries --------------------------------------------------------------------------------


def test_the_queries_of_the_shared_streams_are_taken_or_refused_for_a_reason(shared_data: pathlib.Path) -> None:
    folders = [*sorted(shared_data.glob("conjunctive/*.queries.json")), shared_data / "streams" / "paths.queries.json"]
    refused = Counter[str]()
    taken = 0
    for path in folders:
        for query in json.loads(path.read_text()):
            try:
                found = parse_select(query["query"])
            except QueryRefused as error:
                assert "optional" in query.get("features", ())
                refused[error.construct] += 1
            else:
                assert "optional" not in query.get("features", ())
                assert found.distinct == ("distinct" in query.get("features", ()))
                taken += 1
    assert taken == 265
    assert refused == {"OPTIONAL": 15}


def test_queries_that_differ_in_constants_share_their_patterns_and_the_shape_of_filters() -> None:
    text = P + "SELECT ?a {{ ?a :p{0} ?b . ?b :q ?c FILTER(?c > {0}) }}"
    found = [parse_select(text.format(number)) for number in range(1, 50)]
    assert len({query.patterns for query in found}) == 1
    assert [query.constants for query in found] == [(f"<x:p{number}>", "<x:q>") for number in range(1, 50)]
    assert all(query.filters == (Filter(f'?v2 > "{n}"^^<{XSD}integer>', (2,)),) for n, query in enumerate(found, 1))
