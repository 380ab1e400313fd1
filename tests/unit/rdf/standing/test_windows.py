"""Continuous queries: both dialects, the translation of windows and reports, and refusals by name and place."""

from __future__ import annotations

import hashlib
import json
import random
from pathlib import Path
from typing import Any

import pytest
from algebra.queries import QueryWriter, for_us

from p2prdf.errors import QueryRefused, RemoteProtocolError
from p2prdf.rdf.algebra import (
    NUMBER_NAME,
    REPORT_NAME,
    WINDOW_ELEMENTS_MAX,
    Closure,
    Counted,
    CountWindow,
    Distinct,
    Form,
    Leaf,
    Project,
    Report,
    Reported,
    StandingQuery,
    Window,
    Windowed,
)
from p2prdf.rdf.quads import graph_of, qualified, stream_parts_of, streamed
from p2prdf.rdf.reach import graphs_read
from p2prdf.rdf.spelling import Names, spell_pattern
from p2prdf.rdf.standing.conjunctive import parse_select
from p2prdf.rdf.standing.form import canonical_bytes, decode, encode
from p2prdf.rdf.standing.query import parse_query
from p2prdf.rdf.tokens import scan

PREFIXES = "PREFIX : <urn:> PREFIX xsd: <http://www.w3.org/2001/XMLSchema#> "
RSP_QL = """REGISTER RSTREAM :out AS
SELECT ?x ?z
FROM NAMED WINDOW :w ON :s [RANGE PT10S STEP PT4S]
FROM NAMED WINDOW <urn:v> ON STREAM :s [RANGE PT1M STEP PT6S]
WHERE { WINDOW :w { ?x :p ?y } ?x :q ?z OPTIONAL { WINDOW :v { ?z :r ?u } } }"""
W = "FROM NAMED WINDOW :w ON :s [RANGE 10s STEP 1s]"
YEAR = 366 * 86_400_000


def parsed(text: str) -> StandingQuery:
    query = parse_query(PREFIXES + text)
    assert decode(encode(query)) == query
    return query


def windows(query: StandingQuery) -> list[Window]:
    return [each.window for each in query.operators if isinstance(each, Windowed)]


def spelled(query: StandingQuery) -> list[list[str]]:
    """Return the patterns of each leaf with the variables of the query as far as they have names."""
    names = Names(query).leaves
    return [
        [spell_pattern(pattern, leaf.constants, known) for pattern in leaf.patterns]
        for leaf, known in zip(query.leaves, names, strict=True)
    ]


def told(query: StandingQuery) -> tuple[Reported, int]:
    assert query.report is not None
    return query.report.reported, query.report.every


def of_window(extent: str) -> Window:
    (window,) = windows(parsed(f"SELECT ?x FROM STREAM :s {extent} {{ ?x :p ?y }}"))
    return window


# --- RSP-QL --------------------------------------------------------------------------------------


def test_patterns_of_windows_are_leaves_and_other_patterns_stay_unchanged() -> None:
    query = parsed(RSP_QL)
    assert told(query) == (Reported.RSTREAM, 2000)  # 2 s is the greatest common divisor of 4 s and 6 s
    assert query.names == ("x", "z", REPORT_NAME)
    assert windows(query) == [Window(10_000, 4000), Window(60_000, 6000)]
    first, static, second = spelled(query)
    assert first[0].startswith("STREAM <urn:s> { ?x <urn:p> ?")
    assert static == ["?x <urn:q> ?z"]
    assert second[0].startswith("STREAM <urn:s> { ?z <urn:r> ?")


def test_a_windows_leaf_answers_all_variables_once_each_and_is_projected_then() -> None:
    query = parsed("SELECT ?x FROM NAMED WINDOW :w ON :s [RANGE 10s STEP 1s] { WINDOW :w { ?x :p [ :q 1 ] } }")
    leaf, distinct, project, report = query.operators
    assert isinstance(leaf, Windowed)
    assert leaf.query.answer == (0, 1)
    assert (distinct, project) == (Distinct(0), Project(1, (0,)))
    assert report == Report(2, Reported.CHANGES, 1000)


def test_where_all_variables_are_wanted_nothing_is_projected() -> None:
    query = parsed("SELECT DISTINCT * FROM NAMED WINDOW :w ON :s [RANGE 10s] { WINDOW :w { ?x :p ?y } }")
    assert [type(each) for each in query.operators] == [Windowed, Distinct, Report]


def test_patterns_of_one_window_are_one_leaf_and_those_of_two_are_two() -> None:
    both = "FROM NAMED WINDOW :w ON :s [RANGE 10s STEP 1s] FROM NAMED WINDOW :v ON :s [RANGE 5s STEP 1s]"
    query = parsed(f"SELECT * {both} {{ WINDOW :w {{ ?x :p ?y }} WINDOW :v {{ ?y :q ?z }} WINDOW :w {{ ?z :r ?x }} }}")
    assert [len(leaf.patterns) for leaf in query.leaves] == [2, 1]
    assert windows(query) == [Window(10_000, 1000), Window(5000, 1000)]


def test_static_patterns_and_those_of_a_named_graph_share_no_leaf_with_a_window() -> None:
    text = "SELECT * FROM NAMED WINDOW :w ON :s [RANGE 10s] { ?x :a ?y WINDOW :w { ?x :p ?y } GRAPH :s { ?x :p ?y } }"
    query = parsed(text)
    assert [type(each) for each in query.operators if isinstance(each, Leaf)] == [Leaf, Windowed]
    static, window = query.leaves
    assert static.constants == ("<urn:a>", qualified("<urn:p>", "<urn:s>"))
    assert window.constants == (streamed("<urn:p>", "<urn:s>"),)


def test_the_rest_of_sparql_works_inside_a_window() -> None:
    query = parsed("""SELECT ?x (COUNT(DISTINCT ?n) AS ?m) FROM NAMED WINDOW :w ON :s [RANGE 10s] {
      WINDOW :w { ?x :p ?y FILTER(?y > 1) OPTIONAL { ?x :q ?z } MINUS { ?x :r ?y } { ?x :a ?n } UNION { ?n :b ?x }
        BIND(?y + 1 AS ?k) VALUES ?y { 2 3 } FILTER NOT EXISTS { ?x :c ?n } { SELECT ?x { ?x :d/^:e ?i } LIMIT 9 } }
    } GROUP BY ?x""")
    assert {type(each) for each in query.operators if isinstance(each, Leaf)} == {Windowed}


def test_a_repeated_path_in_a_window_is_a_closure_over_its_elements() -> None:
    query = parsed("SELECT * FROM NAMED WINDOW :w ON :s [RANGE 10s] { WINDOW :w { ?x :p ?y . ?y :q* ?z } }")
    assert any(isinstance(each, Closure) and each.reflexive for each in query.operators)
    assert {type(each) for each in query.operators if isinstance(each, Leaf)} == {Windowed}


def test_nodes_of_one_window_or_of_a_graph_are_none_of_another() -> None:
    both = "FROM NAMED WINDOW :w ON :s [RANGE 10s] FROM NAMED WINDOW :v ON :s [RANGE 5s]"
    for elsewhere in ("WINDOW :v { ?x :p ?y }", "?x :p ?y WINDOW :v { :a :b :c }"):
        with pytest.raises(QueryRefused) as refused:
            parsed(f"SELECT * {both} {{ {elsewhere} WINDOW :w {{ ?x :q* ?z }} }}")
        assert refused.value.construct == "property path *"


@pytest.mark.parametrize(
    ("register", "select", "expected"),
    [
        ("REGISTER ISTREAM :o AS", "SELECT", Reported.ISTREAM),
        ("REGISTER DStream name AS", "SELECT", Reported.DSTREAM),
        ("REGISTER STREAM :o AS", "SELECT", Reported.CHANGES),
        ("REGISTER STREAM :o AS", "SELECT DSTREAM DISTINCT", Reported.DSTREAM),
        ("REGISTER QUERY :o AS", "SELECT RSTREAM", Reported.RSTREAM),
        ("", "SELECT", Reported.CHANGES),
        ("", "SELECT istream", Reported.ISTREAM),
    ],
)
def test_register_or_select_names_the_kind_of_report(register: str, select: str, expected: Reported) -> None:
    query = parsed(f"{register} {select} ?x {W} {{ WINDOW :w {{ ?x :p ?y }} }}")
    assert told(query) == (expected, 1000)
    assert query.names == (("x",) if expected is Reported.CHANGES else ("x", REPORT_NAME))


def test_constructed_graphs_and_truths_are_reported_by_their_changes() -> None:
    window = "FROM NAMED WINDOW :w ON :s [RANGE 2s] WHERE { WINDOW :w { ?x :p ?y } }"
    graph = parsed(f"REGISTER STREAM :o AS CONSTRUCT {{ ?y :of ?x }} {window}")
    truth = parsed(f"ASK {window}")
    assert (graph.form, told(graph)) == (Form.CONSTRUCT, (Reported.CHANGES, 2000))
    assert (truth.form, told(truth), truth.names) == (Form.ASK, (Reported.CHANGES, 2000), ())


# --- C-SPARQL ------------------------------------------------------------------------------------


def test_without_braces_all_patterns_are_about_the_only_stream() -> None:
    query = parse_query("""REGISTER QUERY Cars COMPUTED EVERY 15m AS PREFIX : <urn:>
      SELECT ?x (COUNT(*) AS ?n) FROM STREAM :s [RANGE 1h STEP 10m]
      WHERE { ?x :p ?y . GRAPH :g { ?y :q ?z } { SELECT ?x { ?x :r ?i } } } GROUP BY ?x""")
    assert told(query) == (Reported.CHANGES, 900_000)
    assert windows(query) == [Window(3_600_000, 600_000)] * 2
    first, graph, inner = query.leaves
    assert graph_of(graph.constants[0]) == "<urn:g>"
    assert [stream_parts_of(leaf.constants[0]) for leaf in (first, inner)] == [
        ("<urn:p>", "<urn:s>"), ("<urn:r>", "<urn:s>")
    ]  # fmt: skip


@pytest.mark.parametrize("braces", ["GRAPH", "STREAM", "WINDOW"])
def test_with_braces_the_others_are_static(braces: str) -> None:
    query = parsed(f"SELECT * FROM STREAM :s [RANGE 10s STEP 1s] {{ {braces} :s {{ ?x :p ?y }} ?x :q ?z }}")
    assert [type(each) for each in query.operators if isinstance(each, Leaf)] == [Windowed, Leaf]


def test_several_streams_are_distinguished_by_braces() -> None:
    query = parsed("""SELECT * FROM STREAM :s [RANGE 10s STEP 1s] FROM NAMED STREAM :t [RANGE 20s TUMBLING] {
      STREAM :s { ?x :p ?y } GRAPH :t { ?x :p ?z } }""")
    assert windows(query) == [Window(10_000, 1000), Window(20_000, 20_000)]
    assert [stream_parts_of(leaf.constants[0]) for leaf in query.leaves] == [
        ("<urn:p>", "<urn:s>"), ("<urn:p>", "<urn:t>")
    ]  # fmt: skip


def test_registered_streams_of_solutions_are_reported_again_at_each_report() -> None:
    assert told(parsed("REGISTER STREAM s AS SELECT ?x FROM STREAM :s [RANGE 3s] { ?x :p ?y }"))[0] is Reported.RSTREAM
    graph = "REGISTER STREAM s COMPUTE EVERY 1s AS CONSTRUCT { ?x :q ?y } FROM STREAM :s [RANGE 3s] { ?x :p ?y }"
    assert told(parsed(graph)) == (Reported.CHANGES, 1000)
    assert parsed("CONSTRUCT FROM STREAM :s [RANGE 3s] WHERE { ?x :p ?y }").leaves[0].constants == (
        streamed("<urn:p>", "<urn:s>"),
    )


def test_the_example_of_the_documents_is_taken() -> None:
    page = (Path(__file__).parents[4] / "docs" / "reference" / "semantics.md").read_text()
    _, _, example = page.partition("## Streams and windows")[2].partition("```sparql\n")
    query = parse_query(example.partition("```")[0])
    assert told(query) == (Reported.RSTREAM, 10_000)
    assert windows(query) == [Window(60_000, 10_000), Window(86_400_000, 3_600_000)]


# --- extents -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("extent", "expected"),
    [
        ("[RANGE PT10S STEP PT1S]", Window(10_000, 1000)),
        ("[RANGE P1DT2H3M4.005S]", Window(93_784_005, 93_784_005)),
        ("[RANGE PT0.5S STEP PT.25S]", None),
        ("[RANGE PT0.5S STEP 250ms]", Window(500, 250)),
        ("[range 1m step 10 s]", Window(60_000, 10_000)),
        ("[RANGE 1.5h TUMBLING]", Window(5_400_000, 5_400_000)),
        ("[RANGE 1s STEP 5s]", Window(1000, 5000)),
        ('[RANGE "PT2S"^^xsd:dayTimeDuration STEP "PT1S"^^xsd:duration]', Window(2000, 1000)),
        ("[RANGE 366d STEP 1ms]", Window(YEAR, 1)),
        ('[FROM "2004-02-29T12:00:00.250+01:00"^^xsd:dateTime TO NOW STEP 1s]', Window(None, 1000, 1_078_052_400_250)),
        ('[FROM "1970-01-01T00:00:00Z"^^xsd:dateTime STEP PT1S]', Window(None, 1000, 0)),
    ],
)
def test_extents(extent: str, expected: Window | None) -> None:
    if expected is None:
        with pytest.raises(QueryRefused):
            of_window(extent)
    else:
        assert of_window(extent) == expected


@pytest.mark.parametrize(
    ("text", "construct"),
    [
        ("SELECT * FROM STREAM :s [TRIPLES 0] { ?x :p ?y }", "window by count"),
        ("SELECT * FROM STREAM :s [TRIPLES -3] { ?x :p ?y }", "window by count"),
        ("SELECT * FROM STREAM :s [TRIPLES 2.0] { ?x :p ?y }", "window by count"),
        ("SELECT * FROM STREAM :s [ITEM ten] { ?x :p ?y }", "window by count"),
        ("SELECT * FROM STREAM :s [ROWS 5 STEP 0] { ?x :p ?y }", "window by count"),
        (f"SELECT * FROM STREAM :s [ROWS {WINDOW_ELEMENTS_MAX + 1}] {{ ?x :p ?y }}", "window by count"),
        (f"SELECT * FROM STREAM :s [ROWS {'9' * 5000}] {{ ?x :p ?y }}", "window by count"),
        ("SELECT * FROM STREAM :s [ROWS 5 STEP 2s] { ?x :p ?y }", "syntax error"),
        ("SELECT * FROM STREAM :s [ELEMENTS 5] { ?x ?p ?y }", "variable or negated predicate in WINDOW"),
        (f"SELECT * {W} FROM NAMED WINDOW :v ON :t [ROWS 5] {{ WINDOW :w {{ ?x :p ?y }} WINDOW :v {{ ?y :p ?z }} }}",
         "FROM NAMED WINDOW"),
        ("REGISTER QUERY q COMPUTED EVERY 1s AS SELECT * FROM STREAM :s [TRIPLES 5] { ?x :p ?y }", "COMPUTE EVERY"),
        ("SELECT RSTREAM ?report_number FROM STREAM :s [TRIPLES 5] { ?x :p ?report_number }", "RSTREAM"),
        ("SELECT * { ?x ?p ?y FILTER(DATATYPE(?p) = <urn:p2prdf:on>) }", "IRI"),
        ("SELECT * FROM STREAM :s [RANGE 0s] { ?x :p ?y }", "RANGE"),
        ("SELECT * FROM STREAM :s [RANGE PT0S] { ?x :p ?y }", "RANGE"),
        ("SELECT * FROM STREAM :s [RANGE 367d] { ?x :p ?y }", "RANGE"),
        ("SELECT * FROM STREAM :s [RANGE P1M] { ?x :p ?y }", "RANGE"),
        ("SELECT * FROM STREAM :s [RANGE 10] { ?x :p ?y }", "RANGE"),
        ("SELECT * FROM STREAM :s [RANGE 0.5ms] { ?x :p ?y }", "RANGE"),
        ("SELECT * FROM STREAM :s [RANGE -5s] { ?x :p ?y }", "RANGE"),
        ("SELECT * FROM STREAM :s [RANGE 2 weeks] { ?x :p ?y }", "RANGE"),
        ("SELECT * FROM STREAM :s [RANGE " + "9" * 5000 + "s] { ?x :p ?y }", "RANGE"),
        ("SELECT * FROM STREAM :s [RANGE P" + "9" * 5000 + "D] { ?x :p ?y }", "RANGE"),
        ("SELECT * FROM STREAM :s [RANGE 5s STEP 0s] { ?x :p ?y }", "STEP"),
        ("SELECT * FROM STREAM :s [RANGE 5s STEP 9000h] { ?x :p ?y }", "STEP"),
        ("REGISTER QUERY q COMPUTED EVERY 0s AS SELECT * FROM STREAM :s [RANGE 5s] { ?x :p ?y }", "COMPUTE EVERY"),
        ("SELECT * FROM STREAM :s [FROM NOW-PT2H TO NOW-PT1H STEP PT1H] { ?x :p ?y }", "window FROM NOW"),
        ('SELECT * FROM STREAM :s [FROM "2004-02-30T12:00:00Z"^^xsd:dateTime STEP 1s] { ?x :p ?y }', "window FROM"),
        ('SELECT * FROM STREAM :s [FROM "2004-02-03T12:00:00"^^xsd:dateTime STEP 1s] { ?x :p ?y }', "window FROM"),
        ('SELECT * FROM STREAM :s [FROM "1969-12-31T23:59:59Z"^^xsd:dateTime STEP 1s] { ?x :p ?y }', "window FROM"),
        ('SELECT * FROM STREAM :s [FROM "2004-02-03T12:00:00.0001Z"^^xsd:dateTime STEP 1s] {}', "window FROM"),
        ('SELECT * FROM STREAM :s [FROM "2004-02-03T12:00:00Z"^^xsd:dateTime] { ?x :p ?y }', "window FROM"),
        ('SELECT * FROM STREAM :s [FROM "2004-02-03T12:00:00Z"^^xsd:dateTime TO "x" STEP 1s] {}', "window FROM"),
        ("SELECT * FROM STREAM ?s [RANGE 5s] { ?x :p ?y }", "WINDOW"),
        (f"SELECT * {W} {{ WINDOW :v {{ ?x :p ?y }} }}", "WINDOW"),
        ("SELECT * { WINDOW :v { ?x :p ?y } }", "WINDOW"),
        ("SELECT * { STREAM :v { ?x :p ?y } }", "STREAM"),
        (f"SELECT * {W} FROM NAMED WINDOW :w ON :t [RANGE 1s] {{ WINDOW :w {{ ?x :p ?y }} }}", "FROM NAMED WINDOW"),
        ("SELECT * FROM STREAM :s [RANGE 1s] FROM STREAM :s [RANGE 2s] { ?x :p ?y }", "FROM STREAM"),
        ("SELECT * FROM STREAM :s [RANGE 1s] FROM STREAM :t [RANGE 2s] { STREAM :s { ?x :q ?z } }", "FROM STREAM"),
        ("SELECT * FROM NAMED STREAM :s [RANGE 1s] { ?x :p ?y }", "FROM NAMED STREAM"),
        (f"SELECT * {W} {{ WINDOW :w {{ ?x ?p ?y }} }}", "variable or negated predicate in WINDOW"),
        (f"SELECT * {W} {{ WINDOW :w {{ ?x !:p ?y }} }}", "variable or negated predicate in WINDOW"),
        (f"SELECT * {W} {{ WINDOW :w {{ ?x (:q|^!:p)+ ?y }} }}", "variable or negated predicate in WINDOW"),
        (f"SELECT * {W} {{ WINDOW :w {{ ?x :p ?y GRAPH :g {{ ?y :q ?z }} }} }}", "GRAPH in WINDOW"),
        (f"SELECT * {W} {{ WINDOW :w {{ ?x :p ?y WINDOW :w {{ ?y :q ?z }} }} }}", "WINDOW in WINDOW"),
        (f"SELECT * {W} {{ GRAPH :g {{ ?x :p ?y WINDOW :w {{ ?y :q ?z }} }} }}", "WINDOW in GRAPH"),
        (f"SELECT * {W} {{ WINDOW :w {{ }} ?x :p ?y }}", "WINDOW"),
        (f"SELECT * {W} {{ ?x :p ?y MINUS {{ WINDOW :w {{ ?a :q ?b }} }} }}", "WINDOW"),
        (f"WITH :g SELECT * {W} FROM :h {{ WINDOW :w {{ ?x :p ?y }} }}", "FROM"),
        (f"SELECT * {{ {{ SELECT * {W} {{ WINDOW :w {{ ?x :p ?y }} }} }} }}", "FROM"),
        (f"SELECT * {W} {{ {{ SELECT RSTREAM * {{ WINDOW :w {{ ?x :p ?y }} }} }} }}", "syntax error"),
        ("REGISTER QUERY q AS SELECT * { ?x :p ?y }", "REGISTER"),
        ("REGISTER ISTREAM q AS SELECT * { ?x :p ?y }", "REGISTER"),
        ("SELECT ISTREAM * { ?x :p ?y }", "ISTREAM"),
        ("REGISTER QUERY AS SELECT * FROM STREAM :s [RANGE 1s] { ?x :p ?y }", "REGISTER"),
        ("REGISTER VIEW q AS SELECT * FROM STREAM :s [RANGE 1s] { ?x :p ?y }", "syntax error"),
        ("REGISTER QUERY q SELECT * FROM STREAM :s [RANGE 1s] { ?x :p ?y }", "syntax error"),
        (f"REGISTER RSTREAM :o AS SELECT RSTREAM * {W} {{ WINDOW :w {{ ?x :p ?y }} }}", "RSTREAM"),
        (f"SELECT RSTREAM ?report_time {W} {{ WINDOW :w {{ ?x :p ?report_time }} }}", "RSTREAM"),
        (f"ASK ISTREAM {W} {{ WINDOW :w {{ ?x :p ?y }} }}", "ISTREAM of ASK"),
        (f"REGISTER DSTREAM :o AS CONSTRUCT {{ ?x :q ?y }} {W} {{ WINDOW :w {{ ?x :p ?y }} }}", "DSTREAM of CONSTRUCT"),
    ],
)
def test_a_refused_text_is_named_with_its_place(text: str, construct: str) -> None:
    with pytest.raises(QueryRefused) as refused:
        parse_query(PREFIXES + "\n" + text)
    assert (refused.value.construct, refused.value.line) == (construct, 2)
    assert (refused.value.column or 0) <= len(text)


def test_a_query_for_changes_may_project_a_variable_with_the_name_of_the_report_time() -> None:
    assert parsed(f"SELECT ?{REPORT_NAME} {W} {{ WINDOW :w {{ ?x :p ?{REPORT_NAME} }} }}").names == (REPORT_NAME,)


def test_asked_once_a_query_with_windows_is_refused_with_the_way_to_ask_it() -> None:
    with pytest.raises(QueryRefused, match="subscribe") as refused:
        parse_query(PREFIXES + RSP_QL, ordered=True)
    assert refused.value.construct == "WINDOW in a one-time query"


def test_texts_cut_anywhere_are_refused_and_nothing_worse() -> None:
    whole = PREFIXES + RSP_QL
    for end in range(len(whole)):
        with pytest.raises(QueryRefused):
            parse_query(whole[:end])


C_SPARQL = """REGISTER STREAM cars COMPUTE EVERY 1m AS PREFIX : <urn:> CONSTRUCT { ?x :on ?y }
FROM STREAM :s [RANGE 10s STEP 1s] FROM NAMED STREAM :t [FROM "2004-01-01T00:00:00Z"^^xsd:dateTime TO NOW STEP 1d]
WHERE { STREAM :s { ?x :p+ ?y } GRAPH :t { ?y a :z FILTER NOT EXISTS { ?y :q 1 } } GRAPH :g { ?x ?p ?y } }"""


@pytest.mark.parametrize("whole", [RSP_QL, C_SPARQL])
def test_a_text_with_parts_left_out_repeated_or_moved_is_read_or_refused(whole: str) -> None:
    rng = random.Random(7)
    text = PREFIXES + whole
    parsed(whole)
    pieces = [token.text for token in scan(text)]
    refused = 0
    for _ in range(600):
        changed = list(pieces)
        for _ in range(rng.choice((1, 1, 2))):
            at, other = rng.randrange(len(changed)), rng.randrange(len(changed))
            match rng.randrange(3):
                case 0:
                    del changed[at]
                case 1:
                    changed.insert(at, changed[other])
                case _:
                    changed[at], changed[other] = changed[other], changed[at]
        try:
            query = parse_query(" ".join(changed))
        except QueryRefused:
            refused += 1
        else:
            assert decode(encode(query)) == query
    assert 100 < refused < 600


def test_the_parser_of_conjunctive_queries_refuses_continuous_ones_by_name() -> None:
    with pytest.raises(QueryRefused) as refused:
        parse_select(PREFIXES + RSP_QL)
    assert refused.value.construct == "REGISTER"


# --- windows by count ------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["TRIPLES", "ELEMENTS", "ELEMENT", "ITEMS", "item", "Rows"])
def test_a_window_by_count_is_one_leaf_over_its_whole_stream(word: str) -> None:
    text = f"SELECT ISTREAM ?x FROM NAMED WINDOW :w ON :s [{word} 7 STEP 3] {{ WINDOW :w {{ ?x :p ?y . ?y :q :a }} }}"
    query = parsed(text)
    (leaf,) = (each for each in query.operators if isinstance(each, Leaf))
    assert isinstance(leaf, Counted)
    assert leaf.window == query.windows[0] == CountWindow(7, 3, "<urn:s>")
    assert leaf.query.patterns == ((0, 1, 2),)
    assert query.report == Report(len(query.operators) - 2, Reported.ISTREAM, 0)
    assert query.names == ("x", REPORT_NAME, NUMBER_NAME)
    assert graphs_read(query) == frozenset()


def test_without_a_step_windows_by_count_follow_each_other() -> None:
    for extent in ("TRIPLES 5", "TRIPLES 5 TUMBLING", "TRIPLES 5 STEP 5"):
        query = parsed(f"SELECT * FROM STREAM :s [{extent}] {{ ?x :p ?y }}")
        assert query.windows == (CountWindow(5, 5, "<urn:s>"),)
        assert query.names == ("x", "y")


def test_queries_of_other_counts_or_streams_are_other_queries() -> None:
    text = "SELECT * FROM STREAM :s [TRIPLES 5 STEP 2] { ?x :p ?y }"
    form = canonical_bytes(parsed(text))
    assert canonical_bytes(parsed(text.replace("TRIPLES", "ITEMS"))) == form
    for old, new in (("5", "6"), ("STEP 2", "STEP 3"), (":s", ":t")):
        assert canonical_bytes(parsed(text.replace(old, new, 1))) != form


@pytest.mark.parametrize(
    "spoil",
    [
        lambda form: form[3][2].__setitem__(0, 0),
        lambda form: form[3][2].__setitem__(0, WINDOW_ELEMENTS_MAX + 1),
        lambda form: form[3][2].__setitem__(1, 0),
        lambda form: form[3][2].__setitem__(1, "2"),
        lambda form: form[3][2].__setitem__(2, "<urn:t>"),
        lambda form: form[3][2].__setitem__(2, "urn:s"),
        lambda form: form[3][1].__setitem__(3, []),
        lambda form: form[3][1].__setitem__(3, form[3][1][3][:1]),
        lambda form: form[3].__setitem__(slice(None), ["leaf", form[3][1]]),
        lambda form: form[-1].__setitem__(3, 1000),
        lambda form: form[-1].__setitem__(2, "changes"),
        lambda form: form[2].__setitem__(-1, "report_count"),
    ],
)
def test_a_form_with_a_window_by_count_that_no_text_has_is_refused(spoil: Any) -> None:
    text = "SELECT RSTREAM ?x FROM NAMED WINDOW :w ON :s [ROWS 10 STEP 2] { WINDOW :w { ?x :p ?y } }"
    form: list[Any] = json.loads(encode(parsed(text)))
    assert [each[0] for each in form[3:]] == ["counted", "distinct", "filter", "project", "report"]
    spoil(form)
    with pytest.raises(RemoteProtocolError):
        decode(json.dumps(form, ensure_ascii=False, separators=(",", ":")).encode())


# --- the form ------------------------------------------------------------------------------------


def test_queries_without_windows_keep_their_canonical_form() -> None:
    """The digest covers 400 texts: their forms, and the constructs and positions of refusals."""
    rng = random.Random(20)
    digest = hashlib.blake2b(digest_size=16)
    for _ in range(400):
        text = for_us(QueryWriter(rng).query())
        try:
            digest.update(canonical_bytes(parse_query(text)))
        except QueryRefused as refused:
            digest.update(f"{refused.construct} {refused.line} {refused.column}".encode())
    assert digest.hexdigest() == "56b11b504f1b1548fb91ea82d460fc51"


def test_names_of_windows_are_no_part_of_a_query_but_their_extents_are() -> None:
    text = "SELECT ISTREAM ?x FROM NAMED WINDOW :w ON :s [RANGE 10s STEP 1s] { WINDOW :w { ?x :p ?y } }"
    form = canonical_bytes(parsed(text))
    assert canonical_bytes(parsed(text.replace(":w", ":v").replace("?y", "?z"))) == form
    for old, new in (("10s", "11s"), ("STEP 1s", "STEP 2s"), (":s", ":t"), ("ISTREAM", "DSTREAM"), ("ISTREAM", "")):
        assert canonical_bytes(parsed(text.replace(old, new, 1))) != form


def _form() -> list[Any]:
    text = "SELECT RSTREAM ?x FROM NAMED WINDOW :w ON :s [RANGE 10s STEP 1s] { WINDOW :w { ?x :p ?y } ?x :q 1 }"
    found: list[Any] = json.loads(encode(parsed(text)))
    kinds = ["window", "distinct", "project", "leaf", "join", "report"]
    assert [each[0] for each in found[3:]] == kinds
    return found


@pytest.mark.parametrize(
    "spoil",
    [
        lambda form: form[3][2].__setitem__(0, 0),
        lambda form: form[3][2].__setitem__(0, YEAR + 1),
        lambda form: form[3][2].__setitem__(1, 0),
        lambda form: form[3][2].__setitem__(1, None),
        lambda form: form[3][2].__setitem__(2, 1),
        lambda form: form[3][2].append(0),
        lambda form: form[3].__setitem__(2, {"range": 10_000}),
        lambda form: form[3][1].__setitem__(2, [0]),
        lambda form: form[3][1].__setitem__(1, ["<urn:p>"]),
        lambda form: form[3][1].__setitem__(1, [streamed("<urn:p>", "s")]),
        lambda form: form[3][1].__setitem__(1, [qualified("<urn:p>", "<urn:s>")]),
        lambda form: form[6][1][1].__setitem__(0, streamed("<urn:q>", "<urn:s>")),
        lambda form: form[3].__setitem__(slice(None), ["leaf", form[3][1]]),
        lambda form: form[4].__setitem__(slice(None), ["filter", 0, ["?v0 = 1", [0]]]),
        lambda form: form[8].__setitem__(2, "stream"),
        lambda form: form[8].__setitem__(2, "changes"),
        lambda form: form[8].__setitem__(3, 0),
        lambda form: form[8].__setitem__(3, YEAR + 1),
        lambda form: form[8].__setitem__(3, 1.0),
        lambda form: form[2].__setitem__(1, "t"),
        lambda form: form[2].pop(),
        lambda form: form.pop(),
        lambda form: (form.append(["distinct", 5])),
        lambda form: form.__setitem__(1, "ask"),
    ],
)
def test_a_form_that_no_query_has_is_refused(spoil: Any) -> None:
    form = _form()
    decode(json.dumps(form, separators=(",", ":")).encode())
    spoil(form)
    with pytest.raises(RemoteProtocolError):
        decode(json.dumps(form, separators=(",", ":")).encode())


def test_a_changed_form_is_refused_or_is_another_query_in_its_own_form() -> None:
    rng = random.Random(8)
    strange = [-1, 0, 1, 2, 10**30, 1.5, True, None, "", "x", [], {}, "changes", "window", "report"]
    strange.append(streamed("<x:p>", "<x:s>"))
    whole = json.dumps(_form())
    taken = 0
    for _ in range(1500):
        form: Any = json.loads(whole)
        place = form
        while True:
            at = rng.randrange(len(place))
            if not isinstance(place[at], list) or not place[at] or rng.random() < 0.1:
                break
            place = place[at]
        place[at] = rng.choice(strange)
        data = json.dumps(form, ensure_ascii=False, separators=(",", ":")).encode()
        try:
            query = decode(data)
        except RemoteProtocolError:
            continue
        taken += 1
        assert encode(query) == data
    assert 0 < taken < 300


def test_a_report_without_windows_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="windows without a report"):
        decode(b'[1,"select",["x"],["leaf",[[[0,1,2]],[],[0],[]]],["report",0,"changes",1000]]')


def test_a_landmark_has_a_start_and_other_windows_have_none() -> None:
    form = _form()
    for spoiled in ([None, 1000, 10**15], [None, 1000, -1], [10_000, 1000, 5]):
        form[3][2] = spoiled
        with pytest.raises(RemoteProtocolError, match="starts out of range"):
            decode(json.dumps(form, separators=(",", ":")).encode())
    form[3][2] = [None, 1000, 7]
    assert windows(decode(json.dumps(form, separators=(",", ":")).encode())) == [Window(None, 1000, 7)]


# --- as people read it ---------------------------------------------------------------------------


def test_windows_and_reports_are_spelled() -> None:
    query = parsed(RSP_QL)
    names = Names(query)
    found = {type(each): names.spell_operator(number) for number, each in enumerate(query.operators)}
    assert found[Windowed] == "part 3 in a window of 60 s, every 6 s"
    assert found[Report] == "rstream every 2 s"
    landmark = 'SELECT ?x FROM STREAM :s [FROM "1970-01-01T00:00:01Z"^^xsd:dateTime STEP 5ms] { ?x :p ?y }'
    assert Names(parsed(landmark)).spell_operator(0) == "part 1 in a window from 1 s after 1970 on, every 5 ms"


def test_a_stream_is_no_graph_that_a_query_reads() -> None:
    text = f"SELECT * {W} {{ WINDOW :w {{ ?x :p ?y }} GRAPH :g {{ ?x :q ?y }} }}"
    assert graphs_read(parsed(text)) == {"<urn:g>"}
