"""Random continuous queries over random streams: each report equals pyoxigraph's answer to the windows' contents.

The same with more queries: ``make algebra QUERIES=5000 ARGS=--windows``.
"""

from __future__ import annotations

import re

import pytest
from algebra.windowed import Tally, play
from windows_oracle import CountExtent, Element, Extent, WindowsOracle, plain_sparql

from p2prdf.continuous.counts import CountQueue
from p2prdf.continuous.operators.distinct import Distinct

QUERIES = 150

HARD = (
    "SELECT * WHERE { WINDOW <urn:w> { ?x u:p ?y . ?y u:q ?z } }",
    "SELECT ?x WHERE { WINDOW <urn:w> { ?x u:p ?y . ?x u:q ?z } }",
    "SELECT ?x (COUNT(*) AS ?n) WHERE { WINDOW <urn:w> { ?x u:p ?y . ?z u:q ?y } } GROUP BY ?x",
    "SELECT (SUM(?i) AS ?n) (COUNT(*) AS ?m) (MAX(?i) AS ?o) WHERE { WINDOW <urn:w> { ?x u:n ?i } }",
    "SELECT * WHERE { WINDOW <urn:w> { ?x u:p ?y } ?y u:q ?z }",
    "SELECT * WHERE { WINDOW <urn:w> { ?x u:p ?y } WINDOW <urn:v> { ?y u:p ?z } }",
    "SELECT ?x ?z WHERE { WINDOW <urn:w> { ?x u:p ?y } WINDOW <urn:v> { ?x u:p ?z } ?z u:r ?y }",
    "SELECT * WHERE { WINDOW <urn:w> { ?x u:p ?y OPTIONAL { ?y u:q ?z FILTER(?z != ?x) } } }",
    "SELECT * WHERE { WINDOW <urn:w> { ?x u:p ?y } OPTIONAL { WINDOW <urn:v> { ?x u:p ?z } FILTER(?z != ?y) } }",
    "SELECT * WHERE { WINDOW <urn:w> { ?x u:p ?y } MINUS { WINDOW <urn:v> { ?x u:p ?y } } }",
    "SELECT * WHERE { ?x u:p ?y FILTER NOT EXISTS { WINDOW <urn:w> { ?x u:p ?y } } }",
    "SELECT * WHERE { WINDOW <urn:w> { ?x u:p ?y FILTER EXISTS { ?y u:q ?z FILTER(?z != ?x) } } }",
    "SELECT * WHERE { { WINDOW <urn:w> { ?x u:p ?y } } UNION { WINDOW <urn:v> { ?x u:p ?y } } }",
    "SELECT DISTINCT ?x WHERE { { WINDOW <urn:w> { ?x u:p ?y } } UNION { WINDOW <urn:w> { ?x u:q ?y } } }",
    "SELECT * WHERE { WINDOW <urn:w> { ?x u:p/u:q ?y . ?y ^u:r ?z } }",
    "SELECT * WHERE { WINDOW <urn:w> { ?x u:p+ ?y . ?y u:q ?z } }",
    "SELECT * WHERE { WINDOW <urn:w> { ?x u:p [ u:q ?y ] } }",
    "SELECT ?x (AVG(?i) AS ?n) WHERE { WINDOW <urn:w> { ?x u:n ?i } ?x u:p ?y } GROUP BY ?x HAVING(COUNT(*) > 1)",
    "SELECT * WHERE { { SELECT ?x (COUNT(?y) AS ?n) WHERE { WINDOW <urn:w> { ?x u:p ?y } } GROUP BY ?x } ?x u:q ?z }",
    "SELECT ?x ?y WHERE { WINDOW <urn:w> { { SELECT ?x ?y WHERE { ?x u:p ?y } ORDER BY ?x ?y LIMIT 2 } } }",
    "SELECT * WHERE { WINDOW <urn:w> { OPTIONAL { ?x u:p ?y } } }",
    "SELECT * WHERE { WINDOW <urn:w> { u:a u:p u:b } ?x u:p ?y }",
    "SELECT * WHERE { WINDOW <urn:w> { ?x u:p ?y } GRAPH u:g { ?x u:p ?z } BIND(?z = ?y AS ?e) }",
    "ASK { WINDOW <urn:w> { ?x u:p ?y . ?y u:q ?x } }",
    "CONSTRUCT { ?y u:made ?x } WHERE { WINDOW <urn:w> { ?x u:p ?y } ?y u:q ?z }",
)
"""Few random queries have many answers; these have."""


def test_every_report_of_random_queries_equals_evaluation_from_scratch() -> None:
    tally = Tally()
    for seed in range(QUERIES):
        play(seed, tally)
    assert tally.wrong == []
    assert tally.queries > QUERIES * 0.9
    assert tally.answered > QUERIES / 6
    assert tally.by_count > QUERIES / 4


@pytest.mark.parametrize("query", HARD)
def test_queries_with_many_answers_are_right_too(query: str) -> None:
    tally = Tally()
    for seed in range(8):
        play(seed, tally, re.sub(r"\bu:(\w+)", r"<urn:\1>", query))
    assert tally.wrong == []
    assert tally.queries == 8
    assert tally.answered


def test_counting_triples_by_element_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the step that makes a set of a window's triples the comparison fails."""
    monkeypatch.setattr(Distinct, "apply", lambda _, change: change)
    tally = Tally()
    for seed in range(12):
        play(seed, tally, "SELECT * WHERE { WINDOW <urn:w> { ?x <urn:p> ?y } }")
    assert tally.wrong


def test_counting_elements_before_all_are_there_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    known_upto = CountQueue.known_upto
    monkeypatch.setattr(CountQueue, "known_upto", lambda queue, upto: known_upto(queue, upto + 5000))
    tally = Tally()
    for seed in range(12):
        play(seed, tally, "SELECT * WHERE { WINDOW <urn:w> { ?x <urn:p> ?y } }")
    assert tally.wrong


# --- the oracle itself ---------------------------------------------------------------------------


A, B = ("<urn:a>", "<urn:p>", '"1"'), ("<urn:b>", "<urn:p>", '"2"')
TEXT = """REGISTER ISTREAM <urn:out> AS SELECT ?x FROM NAMED WINDOW <urn:w> ON <urn:s> [RANGE 2s STEP 1s]
WHERE { WINDOW <urn:w> { ?x <urn:p> ?y } FILTER NOT EXISTS { ?x <urn:off> ?z } }"""


def oracle(*elements: Element) -> WindowsOracle:
    static = [("<urn:c>", "<urn:off>", '"1"')]
    return WindowsOracle(TEXT, {"<urn:w>": Extent("<urn:s>", 2000, 1000)}, static, elements)


def test_a_window_is_open_where_it_begins_and_closed_where_it_ends() -> None:
    found = oracle(Element(1000, "<urn:s>", A), Element(1500, "<urn:s>", B), Element(1500, "<urn:t>", A))
    contents = {now: found.contents("<urn:w>", now) for now in (999, 1000, 1999, 2000, 2999, 3000, 3999, 4000)}
    assert contents == {
        999: set(), 1000: {A}, 1999: {A}, 2000: {A, B}, 2999: {A, B}, 3000: {B}, 3999: {B}, 4000: set(),
    }  # fmt: skip


def test_a_landmark_window_holds_all_elements_since_its_start() -> None:
    window = {"<urn:w>": Extent("<urn:s>", None, 1000, 1500)}
    elements = [Element(1499, "<urn:s>", A), Element(1500, "<urn:s>", B)]
    found = WindowsOracle("ASK { WINDOW <urn:w> { ?x ?p ?y } }", window, [], elements)
    assert [found.contents("<urn:w>", now) for now in (1999, 2000, 9000)] == [set(), {B}, {B}]


def test_streams_report_all_current_new_and_gone_rows() -> None:
    off = ("<urn:c>", "<urn:p>", '"3"')
    elements = [Element(500, "<urn:s>", A), Element(900, "<urn:s>", A), Element(1500, "<urn:s>", B)]
    found = oracle(*elements, Element(1500, "<urn:s>", off))
    a, b = ("<urn:a>",), ("<urn:b>",)
    expected = {
        "rstream": [[a], [a, b], [b], []], "istream": [[a], [b], [], []], "dstream": [[], [], [a], [b]],
    }  # fmt: skip
    for reported, rows in expected.items():
        told = found.told(reported, [1000, 2000, 3000, 4000])
        assert [now for now, _ in told] == [1000, 2000, 3000, 4000]
        assert [sorted(each.elements()) for _, each in told] == rows


def test_windows_are_graphs_and_declarations_are_dropped() -> None:
    text = "SELECT DSTREAM ?x FROM STREAM <urn:s> [RANGE 2s STEP 1s] { STREAM <urn:s> { ?x <urn:p> ?y } }"
    assert " ".join(plain_sparql(text).split()) == "SELECT ?x { GRAPH <urn:s> { ?x <urn:p> ?y } }"
    text = "PREFIX : <urn:> " + TEXT
    body = "{ GRAPH <urn:w> { ?x <urn:p> ?y } FILTER NOT EXISTS { ?x <urn:off> ?z } }"
    assert " ".join(plain_sparql(text).split()) == f"PREFIX : <urn:> SELECT ?x WHERE {body}"


def test_a_window_by_count_holds_the_last_elements_in_order_of_time_and_text() -> None:
    elements = [Element(time, "<urn:s>", each) for time, each in ((2000, B), (1000, A), (2000, A), (1000, A), (500, B))]
    extent = CountExtent("<urn:s>", 2, 1, first=1000)
    text = "ASK { WINDOW <urn:w> { ?x ?p ?y } }"
    found = WindowsOracle(text, {"<urn:w>": extent}, [], [*elements, Element(1500, "<urn:t>", B)])
    assert extent.reports(elements, 1999) == {1: 1000}
    assert extent.reports(elements, 2000) == {1: 1000, 2: 2000, 3: 2000}
    assert [found.contents("<urn:w>", number) for number in (1, 2, 3)] == [{A}, {A}, {A, B}]
