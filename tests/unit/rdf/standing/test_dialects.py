"""Continuous queries in the shapes of published ones: C-SPARQL as in CityBench, RSP-QL as in RSP4J."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from algebra.leaves import Home

from p2prdf.errors import QueryRefused
from p2prdf.rdf import algebra
from p2prdf.rdf.algebra import CountWindow, Reported, StandingQuery, Window
from p2prdf.rdf.quads import stream_parts_of, streamed
from p2prdf.rdf.standing.form import canonical_bytes, decode, encode
from p2prdf.rdf.standing.query import parse_query
from p2prdf.rdf.tokens import DEFAULT_BASE

ROOM, DOOR, PLAN = "http://e.org/streams#room", "http://e.org/streams#door", "http://127.0.0.1:9000/Plan.rdf"
C_SPARQL = [
    # Two streams, static data, plain braces.
    f"""REGISTER QUERY Q1 AS select ?ob1 ?ob2 ?v1 ?v2
        from stream <{ROOM}> [range 3000ms step 1s]
        from stream <{DOOR}> [range 3000ms step 1s]
        FROM <{PLAN}>
        where {{
          ?p1   a <http://e.org/v#Temperature>.
          ?p2   a <http://e.org/v#Opening>.
          {{ ?ob1 <http://e.org/v#property> ?p1. ?ob1 <http://e.org/v#value> ?v1. ?ob1 <http://e.org/v#by> <{ROOM}>. }}
          {{ ?ob2 <http://e.org/v#property> ?p2. ?ob2 <http://e.org/v#value> ?v2. ?ob2 <http://e.org/v#by> <{DOOR}>. }}
        }}""",
    # Observations of one stream, four at a time; the graph before the streams.
    f"""REGISTER QUERY Q2 AS SELECT ?ob1 ?ob2 ?ob3 ?ob4
        FROM <{PLAN}> FROM stream <{ROOM}> [range 3s step 1s] FROM stream <{DOOR}> [range 3s step 1s]
        WHERE {{ ?p1 a <http://e.org/v#A>. ?p2 a <http://e.org/v#B>. ?p3 a <http://e.org/v#C>. ?p4 a <http://e.org/v#D>.
          {{ ?ob1 <http://e.org/v#property> ?p1. ?ob1 <http://e.org/v#value> ?v1. ?ob1 <http://e.org/v#by> <{ROOM}>.
             ?ob2 <http://e.org/v#property> ?p2. ?ob2 <http://e.org/v#value> ?v2. ?ob2 <http://e.org/v#by> <{ROOM}>.
             ?ob3 <http://e.org/v#property> ?p3. ?ob3 <http://e.org/v#value> ?v3. ?ob3 <http://e.org/v#by> <{ROOM}>. }}
          {{ ?ob4 <http://e.org/v#property> ?p4. ?ob4 <http://e.org/v#value> ?v4. ?ob4 <http://e.org/v#by> <{DOOR}>. }}
        }}""",
    # A computed column, several graphs, FILTER over both sides, a comment in the projection.
    f"""REGISTER QUERY Q3 AS SELECT ?ob1 ?v1 #?v2
        (((?v1+?v3)/2) as ?mean)
        FROM <{PLAN}> FROM <http://127.0.0.1:9000/Events.rdf> FROM stream <{ROOM}> [range 3s step 1s]
        WHERE {{ ?event a ?kind. ?event <http://e.org/v#at> ?place. ?place <http://e.org/v#x> ?v3.
          {{ ?ob1 a ?ob. ?ob1 <http://e.org/v#value> ?v1. ?ob1 <http://e.org/v#by> <{ROOM}>. }}
          Filter (((?v1-?v3)*(?v1-?v3)) < 0.1 || ?v1 < 1) }}""",
    # The only stream, no static data.
    f"REGISTER QUERY q AS SELECT ?x FROM stream <{ROOM}> [range 3s step 1s] WHERE {{ {{ ?x <http://e.org/v#v> ?v }} }}",
    f"""REGISTER QUERY q AS PREFIX v: <http://e.org/v#> SELECT (COUNT(?ob) AS ?n) FROM STREAM <{ROOM}>
        [RANGE TRIPLES 10 STEP 5] WHERE {{ ?ob v:value ?v }}""",
]  # fmt: skip
RSP_QL = [
    # Relative names, static FROM beside FROM NAMED WINDOW.
    f"""PREFIX v: <http://e.org/v#>
        REGISTER RSTREAM <bench/query1> AS SELECT ?ob1 ?ob2
        FROM NAMED WINDOW <w1> ON <{ROOM}> [RANGE PT3S STEP PT1S]
        FROM NAMED WINDOW <w2> ON <{DOOR}> [RANGE PT3S STEP PT1S]
        FROM <{PLAN}>
        WHERE {{ ?p1 a v:Temperature . ?p2 a v:Opening .
          WINDOW <w1>  {{ ?ob1 v:property ?p1 . ?ob1 v:by <{ROOM}> . }}
          WINDOW <w2> {{ ?ob2 v:property ?p2 . ?ob2 v:by <{DOOR}> . }} }}""",
    # Any window.
    """#MULTI STREAM
        PREFIX ex: <http://e.org/test#>
        REGISTER RSTREAM <s1> AS SELECT ?o (count(?s) as ?users)
        FROM NAMED WINDOW <win2> ON <stream2> [RANGE PT5S STEP PT1S]
        FROM NAMED WINDOW <win3> ON <stream3> [RANGE PT5S STEP PT1S]
        WHERE  { WINDOW ?w { ?s ex:likes ?o } } GROUP BY ?o ORDER BY DESC(?users)""",
    # Plain braces.
    """REGISTER ISTREAM <http://out/stream> AS SELECT *
        FROM NAMED WINDOW <window2> ON <stream2> [RANGE PT10S STEP PT5S] WHERE { ?s <p> ?o . }""",
    """PREFIX : <http://e.org/streams/> PREFIX on: <http://e.org/onto#>
        REGISTER STREAM :stream1 AS SELECT (count(?ride) AS ?rides)
        FROM NAMED WINDOW :win ON :trips [RANGE PT1H STEP PT1H]
        WHERE { WINDOW :win { ?ride on:distance ?distance FILTER ( ?distance > 2 ) } }""",
    """PREFIX : <https://e.org/> REGISTER RStream <output> AS SELECT (AVG(?v) AS ?mean)
        FROM NAMED WINDOW :w1 ON STREAM :stream1 [RANGE PT10S STEP PT2S] WHERE { WINDOW :w1 { ?sensor :value ?v } }""",
]


def parsed(text: str) -> StandingQuery:
    query = parse_query(text)
    assert decode(encode(query)) == query
    return query


def windows(query: StandingQuery) -> Counter[str]:
    """Return the numbers of leaves by stream; "" for the static ones."""
    found: Counter[str] = Counter()
    for operator in query.operators:
        if isinstance(operator, algebra.Leaf):
            predicates = [operator.query.constants[~p] for _, p, _ in operator.query.patterns if p < 0]
            parts = [parts for each in predicates if (parts := stream_parts_of(each)) is not None]
            found[parts[0][1].strip("<>") if parts else ""] += 1
    return found


@pytest.mark.parametrize("text", C_SPARQL + RSP_QL)
def test_texts_in_the_shapes_of_published_ones_are_accepted_as_written(text: str) -> None:
    query = parsed(text)
    assert query.report is not None
    assert query.report.every in (0, 1000, 2000, 5000, 3_600_000)


# --- the merge of streams and static graphs ------------------------------------------------------


def test_without_braces_patterns_match_the_merge_of_all_streams_and_graphs() -> None:
    assert set(windows(parsed(C_SPARQL[0]))) == {ROOM, DOOR, ""}
    assert set(windows(parsed(C_SPARQL[0].replace(f"FROM <{PLAN}>", "")))) == {ROOM, DOOR}
    assert set(windows(parsed(C_SPARQL[2]))) == {ROOM, ""}
    assert set(windows(parsed(C_SPARQL[3]))) == {ROOM}


def test_one_solution_may_come_from_several_streams_and_a_graph_and_shared_triples_count_once() -> None:
    query = parsed(
        "SELECT ?a ?d FROM STREAM <urn:s> [RANGE 1m] FROM STREAM <urn:t> [RANGE 1m] FROM <urn:g> "
        "{ ?a <urn:p> ?b . ?b <urn:q> ?c . ?c <urn:r> ?d }"
    )
    home = Home(query, random.Random(3))
    p, q, r = "<urn:p>", "<urn:q>", "<urn:r>"

    def on(stream: str, s: str, predicate: str, o: str) -> tuple[str, str, str]:
        return f"<urn:{s}>", streamed(predicate, f"<urn:{stream}>"), f"<urn:{o}>"

    static = [("<urn:3>", r, "<urn:4>", "<urn:g>"), ("<urn:3>", r, "<urn:5>", "<urn:h>"), ("<urn:3>", r, "<urn:6>")]
    home.change([on("s", "1", p, "2"), on("t", "1", p, "2"), on("t", "2", q, "3"), *static])
    assert +home.rows == {("<urn:1>", "<urn:4>"): 1}
    home.change([on("t", "1", p, "2"), on("t", "2", q, "3"), on("s", "3", r, "7"), *static])
    assert +home.rows == {("<urn:1>", "<urn:4>"): 1, ("<urn:1>", "<urn:7>"): 1}
    home.change([on("u", "1", p, "2"), on("t", "2", q, "3"), *static])
    assert +home.rows == {}


def test_several_static_graphs_are_one_part_of_each_pattern() -> None:
    text = "SELECT ?a ?b FROM STREAM <urn:s> [RANGE 1m] FROM <urn:g> FROM <urn:h> { ?a <urn:p> ?b }"
    query = parsed(text)
    assert windows(query) == {"urn:s": 1, "": 1}
    home = Home(query, random.Random(3))
    home.change([
        ("<urn:1>", "<urn:p>", "<urn:2>", "<urn:g>"), ("<urn:1>", "<urn:p>", "<urn:2>", "<urn:h>"),
        ("<urn:1>", "<urn:p>", "<urn:3>", "<urn:h>"), ("<urn:1>", "<urn:p>", "<urn:4>", "<urn:i>"),
        ("<urn:1>", streamed("<urn:p>", "<urn:s>"), "<urn:2>"), ("<urn:1>", "<urn:p>", "<urn:5>"),
    ])  # fmt: skip
    assert +home.rows == {("<urn:1>", "<urn:2>"): 1, ("<urn:1>", "<urn:3>"): 1}


def test_paths_lead_through_streams_and_graphs() -> None:
    query = parsed(
        "SELECT ?b FROM STREAM <urn:s> [RANGE 1m] FROM STREAM <urn:t> [RANGE 1m] FROM <urn:g> { <urn:1> <urn:p>+ ?b }"
    )
    home = Home(query, random.Random(3))
    home.change([
        ("<urn:1>", streamed("<urn:p>", "<urn:s>"), "<urn:2>"), ("<urn:2>", "<urn:p>", "<urn:3>", "<urn:g>"),
        ("<urn:3>", streamed("<urn:p>", "<urn:t>"), "<urn:4>"), ("<urn:4>", "<urn:p>", "<urn:5>"),
    ])  # fmt: skip
    assert +home.rows == {("<urn:2>",): 1, ("<urn:3>",): 1, ("<urn:4>",): 1}
    optional = parsed(
        "SELECT ?b FROM STREAM <urn:s> [RANGE 1m] FROM STREAM <urn:t> [RANGE 1m] { ?a <urn:q> 1 . ?a <urn:p>* ?b }"
    )
    assert set(windows(optional)) == {"urn:s", "urn:t"}


def test_with_braces_for_one_stream_the_others_need_them_too() -> None:
    with pytest.raises(QueryRefused) as caught:
        parsed(
            "SELECT * FROM STREAM <urn:s> [RANGE 1m] FROM STREAM <urn:t> [RANGE 1m] "
            "{ STREAM <urn:s> { ?a <urn:p> ?b } }"
        )
    assert "STREAM <urn:t> { patterns }" in caught.value.reason


def test_static_graphs_are_those_of_from_beside_windows() -> None:
    text = (
        "SELECT * FROM NAMED WINDOW <w> ON <urn:s> [RANGE 1m] FROM <urn:g> "
        "{ WINDOW <w> { ?a <urn:p> ?b } ?b <urn:q> ?c }"
    )
    with_graph = parsed(text)
    assert windows(with_graph) == {"urn:s": 1, "": 1}
    assert canonical_bytes(with_graph) == canonical_bytes(
        parsed(text.replace("FROM <urn:g>", "").replace("?b <urn:q> ?c", "GRAPH <urn:g> { ?b <urn:q> ?c }"))
    )


# --- names, windows with variables, windows by count ---------------------------------------------


def test_relative_names_have_a_base_of_their_own_unless_the_text_has_one() -> None:
    text = "REGISTER RSTREAM <out> AS SELECT * FROM NAMED WINDOW <w> ON <s> [RANGE 1s] { WINDOW <w> { ?x <p> ?y } }"
    assert set(windows(parsed(text))) == {f"{DEFAULT_BASE}s"}
    assert set(windows(parsed(f"BASE <http://e.org/a/> {text}"))) == {"http://e.org/a/s"}
    assert set(windows(parsed("PREFIX : <#> " + text.replace("ON <s>", "ON :s")))) == {f"{DEFAULT_BASE}#s"}
    for refused in ("SELECT * { ?x <p> ?y }", "SELECT * FROM <g> { ?x <urn:p> ?y }"):
        with pytest.raises(QueryRefused):
            parsed(refused)


def test_a_variable_window_is_each_declared_window_and_bound_to_its_name() -> None:
    text = (
        "SELECT ?w ?x FROM NAMED WINDOW <v> ON <urn:s> [RANGE 1m] FROM NAMED WINDOW <w> ON <urn:t> [RANGE 1m] "
        "{ WINDOW ?w { ?x <urn:p> ?y FILTER EXISTS { ?x <urn:q> [] } } ?x <urn:r> 1 }"
    )
    home = Home(parsed(text), random.Random(3))
    one = '"1"^^<http://www.w3.org/2001/XMLSchema#integer>'
    home.change([
        ("<urn:1>", streamed("<urn:p>", "<urn:s>"), "<urn:2>"), ("<urn:1>", streamed("<urn:p>", "<urn:t>"), "<urn:2>"),
        ("<urn:1>", streamed("<urn:q>", "<urn:t>"), "<urn:2>"), ("<urn:1>", "<urn:r>", one),
    ])  # fmt: skip
    assert +home.rows == {(f"<{DEFAULT_BASE}w>", "<urn:1>"): 1}
    only = parsed("SELECT ?w ?x FROM NAMED WINDOW <w> ON <urn:t> [RANGE 1m] { WINDOW ?w { ?x <urn:p> ?y } }")
    assert windows(only) == {"urn:t": 1}


@pytest.mark.parametrize(
    ("text", "construct"),
    [
        ("SELECT * FROM NAMED WINDOW <w> ON <urn:t> [RANGE 1m] { WINDOW ?w { ?w <urn:p> ?y } }", "WINDOW ?w"),
        ("SELECT * { WINDOW ?w { ?x <urn:p> ?y } }", "WINDOW"),
        ("SELECT * FROM NAMED WINDOW <w> ON ?s [RANGE 1m] { WINDOW <w> { ?x <urn:p> ?y } }", "WINDOW"),
        ("SELECT * FROM STREAM <urn:s> [RANGE 1m] FROM STREAM <urn:t> [RANGE TRIPLES 3] { ?x <urn:p> ?y }",
         "FROM STREAM"),
        ("SELECT * FROM STREAM <urn:s> [RANGE TRIPLES 0] { ?x <urn:p> ?y }", "window by count"),
        ("SELECT * FROM STREAM <urn:s> [RANGE 1m] FROM STREAM <urn:t> [RANGE 1m] { ?x ?p ?y }",
         "variable or negated predicate in WINDOW"),
        ("SELECT * FROM NAMED STREAM <urn:s> [RANGE 1m] { ?x <urn:p> ?y }", "FROM NAMED STREAM"),
    ],
)  # fmt: skip
def test_other_texts_are_refused_by_name(text: str, construct: str) -> None:
    with pytest.raises(QueryRefused) as caught:
        parsed(text)
    assert caught.value.construct == construct


@pytest.mark.parametrize(
    ("extent", "elements", "step"),
    [("RANGE TRIPLES 10", 10, 10), ("RANGE TRIPLES 10 STEP 5", 10, 5), ("RANGE TRIPLES 10 TUMBLING", 10, 10)],
)
def test_range_triples_is_a_window_by_count(extent: str, elements: int, step: int) -> None:
    query = parsed(f"SELECT * FROM STREAM <urn:s> [{extent}] {{ ?x <urn:p> ?y }}")
    assert query.windows == (CountWindow(elements, step, "<urn:s>"),)


@pytest.mark.parametrize(
    ("declared", "window"),
    [
        ("<w> [RANGE 5 s, SLIDE 2s] ON STREAM <urn:s>", Window(5000, 2000)),
        ("<w> [RANGE 5s SLIDE 5s] ON <urn:s>", Window(5000, 5000)),
        ("<w> ON <urn:s> [RANGE PT5S, STEP PT2S]", Window(5000, 2000)),
        ("<w> [RANGE TRIPLES 6, SLIDE 2] ON STREAM <urn:s>", CountWindow(6, 2, "<urn:s>")),
    ],
)
def test_extents_are_written_before_the_stream_and_with_slide_in_older_texts(
    declared: str, window: Window | CountWindow
) -> None:
    text = f"REGISTER STREAM <s1> AS SELECT * FROM NAMED WINDOW {declared} WHERE {{ WINDOW ?w {{ ?s <p> ?o }} }}"
    assert parsed(text).windows == (window,)


@pytest.mark.parametrize("extent", ["[RANGE 5s,]", "[RANGE 5s, TUMBLING]", "[RANGE 5s SLIDE]", "[RANGE 5s,, SLIDE 5s]"])
def test_a_comma_stands_before_a_step_only(extent: str) -> None:
    with pytest.raises(QueryRefused):
        parsed(f"SELECT * FROM STREAM <urn:s> {extent} {{ ?x <urn:p> ?y }}")


def test_plain_braces_are_about_the_only_window() -> None:
    text = "REGISTER DSTREAM <o> AS SELECT * FROM NAMED WINDOW <w> ON <urn:s> [RANGE 2s STEP 1s] { ?x <urn:p> ?y }"
    query = parsed(text)
    assert query.windows == (Window(2000, 1000),)
    assert query.report is not None
    assert query.report.reported is Reported.DSTREAM
    assert encode(query) == encode(parsed(text.replace("{ ?x <urn:p> ?y }", "{ WINDOW <w> { ?x <urn:p> ?y } }")))
