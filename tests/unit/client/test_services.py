"""One-time queries with SERVICE: solutions, values sent to the endpoint, bounds, failures.

A query over a graph with the data of the endpoint gives the expected solutions.
"""

from __future__ import annotations

import asyncio
from collections import Counter

import pyoxigraph as ox
import pytest

from p2prdf.client import ServiceBounds, services
from p2prdf.client.query import Result
from p2prdf.errors import DataRefused, LocalProtocolError, QueryRefused, TargetRefused, Unavailable
from p2prdf.rdf.federation import SERVICES_MAX, first_service, without_services
from p2prdf.rdf.standing.query import parse_query
from p2prdf.rdf.tokens import QUERY_BYTES_MAX

P = "PREFIX : <http://e.org/> "
REMOTE = "http://remote.org/sparql"
S = f"SERVICE <{REMOTE}>"
HERE = "\n".join(f"<http://e.org/x{n}> <http://e.org/p> <http://e.org/y{n % 4}> ." for n in range(8))
THERE = "\n".join(
    f"<http://e.org/y{n}> <http://e.org/q> {value} ."
    for n in range(1, 9) for value in (f'"z{n}"', f'"{n}"^^<http://www.w3.org/2001/XMLSchema#integer>')
)  # fmt: skip


def store(text: str, graph: ox.NamedNode | None = None, found: ox.Store | None = None) -> ox.Store:
    found = found or ox.Store()
    found.load(text.encode(), format=ox.RdfFormat.N_TRIPLES, to_graph=graph)
    return found


def solutions(found: ox.Store, query: str) -> Result:
    result = found.query(query)
    if isinstance(result, ox.QueryBoolean):
        return Result((), [()] if result else [], 0.0)
    assert isinstance(result, ox.QuerySolutions)
    names = tuple(variable.value for variable in result.variables)
    rows = [tuple(None if row[name] is None else str(row[name]) for name in names) for row in result]
    return Result(names, rows, 0.0)


class Remote:
    """An endpoint in this process; ``asked``: the queries it received."""

    def __init__(self, *failures: Exception | None, permitted: str = REMOTE):
        self.asked: list[str] = []
        self._failures = list(failures)
        self._permitted = permitted
        self._store = store(THERE)

    def check(self, url: str) -> None:
        if url != self._permitted:
            raise TargetRefused("not on the list of permitted hosts")

    async def ask(self, url, query, *, scope, rows_max):
        self.asked.append(query)
        failure = self._failures.pop(0) if self._failures else None
        if failure is not None:
            raise failure
        found = solutions(self._store, query)
        if len(found.rows) > rows_max:
            raise DataRefused(f"more than {rows_max:,} solutions", source=url)
        return found.names, found.rows


def ask(monkeypatch, query, remote=None, **bounds):
    """Answer a query with a store of pyoxigraph as the overlay; return the result and the queries of the overlay."""
    here, texts = store(HERE), []

    async def answer_once(client, text, *, algorithm, timeout_seconds, of_seconds=None, rows_max=None, symmetric=False):
        parse_query(text, ordered=True)  # nodes accept it
        texts.append(text)
        return solutions(here, text)

    monkeypatch.setattr(services, "answer_once", answer_once)
    monkeypatch.setattr(services, "answer", answer_once)
    remote = remote or Remote()
    answer = services.answer_with_services(
        None, P + query, remote, ServiceBounds(**bounds), algorithm="csbv", timeout_seconds=10
    )
    return asyncio.run(answer), texts


SHAPES = [
    "SELECT * { ?x :p ?y SERVICE { ?y :q ?z } }",
    "SELECT ?z { ?x :p ?y . SERVICE { ?y :q ?z } }",
    "SELECT ?x { SERVICE { ?y :q ?z } ?x :p ?y }",
    "SELECT * { SERVICE { ?y :q ?z } ?x :p ?y FILTER(?z = 3) }",
    "SELECT * { ?x :p ?y FILTER(BOUND(?z)) SERVICE { ?y :q ?z FILTER(isNumeric(?z)) } }",
    "SELECT * { ?x :p ?y OPTIONAL { SERVICE { ?y :q ?z } } }",
    "SELECT * { ?x :p ?y OPTIONAL { SERVICE { ?y :q ?z } FILTER(?z > 2) } }",
    "SELECT * { { ?x :p ?y } UNION { VALUES ?y { :y7 :y99 } } SERVICE { ?y :q ?z } }",
    "SELECT * { ?x :p ?y { SERVICE { ?y :q ?z } } UNION { BIND(1 AS ?z) } }",
    "SELECT * { ?x :p ?y MINUS { SERVICE { ?y :q 'z2' } } }",
    "SELECT ?x { ?x :p ?y FILTER NOT EXISTS { SERVICE { ?y :q ?z } } }",
    "SELECT ?x { ?x :p ?y FILTER(?x != :x1 && EXISTS { SERVICE { ?y :q ?z } }) }",
    "SELECT ?n { SERVICE { ?y :q ?n } OPTIONAL { ?x :p ?y } FILTER(!BOUND(?x)) }",
    "SELECT * { OPTIONAL { ?x :p ?y FILTER(?x = :x1) } SERVICE { ?y :q ?z } }",
    "SELECT (COUNT(*) AS ?n) { ?x :p ?y SERVICE { ?y :q ?z } }",
    "SELECT (COUNT(DISTINCT *) AS ?n) { ?x :p ?y SERVICE { ?y :q ?z } }",
    "SELECT ?x ?n { ?x :p ?y { SELECT ?y (COUNT(?z) AS ?n) { SERVICE { ?y :q ?z } } GROUP BY ?y } }",
    "SELECT ?x ?z { ?x :p ?y SERVICE { SELECT ?y (MAX(?v) AS ?z) { ?y :q ?v } GROUP BY ?y } }",
    "SELECT ?y ?w { ?x :p ?y SERVICE { ?y :q ?z } BIND(STR(?z) AS ?w) SERVICE { ?v :q ?z } VALUES ?v { :y1 :y2 } }",
    "SELECT * { VALUES (?y ?k) { (:y1 1) (:y2 2) } SERVICE { ?y :q ?z } }",
    "SELECT * { VALUES ?y { :y1 } { ?x :p ?y } SERVICE { ?y :q ?z } }",
    "SELECT * { ?x :p ?y, ?w ; a ?t SERVICE { ?y :q ?z } }",
    "SELECT * { ?x :p [ :r ?y ] SERVICE { ?y :q ?z } }",
    "ASK { ?x :p ?y SERVICE { ?y :q ?z } }",
    "SELECT * { ?x :p :nothing . SERVICE { ?x :q ?z } }",
    "SELECT ?x { ?x :p ?y SERVICE { :y1 :q ?z } }",
    "SELECT ?z { SERVICE { :y1 :q ?z } } ORDER BY ?z LIMIT 1",
    "SELECT * { ?x :p ?y # SERVICE\n SERVICE { ?y :q ?z # }\n } FILTER(?x != 'SERVICE { }') }",
    "SELECT * { ?x :p ?y SERVICE { ?y :q ?z SERVICE SILENT <http://other.org/> { } } }",
]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("batch", [3, 100])
def test_solutions_equal_a_query_over_a_graph_with_the_data_of_the_endpoint(monkeypatch, shape, batch):
    both = store(THERE, ox.NamedNode(REMOTE), store(HERE))
    if "SILENT" in shape:  # inside of the endpoint's pattern
        shape = "SELECT * { ?x :p ?y SERVICE { ?y :q ?z } }"
    expected = solutions(both, P + shape.replace("SERVICE {", f"GRAPH <{REMOTE}> {{"))
    found, _ = ask(monkeypatch, shape.replace("SERVICE {", S + " {"), batch_max=batch)
    assert Counter(frozenset(zip(found.names, row, strict=True)) for row in found.rows) == Counter(
        frozenset(zip(expected.names, row, strict=True)) for row in expected.rows
    )


def test_endpoint_gets_the_joined_values_in_batches(monkeypatch):
    remote = Remote()
    found, texts = ask(monkeypatch, f"SELECT ?z {{ ?x :p ?y {S} {{ ?y :q ?z }} }}", remote, batch_max=3)
    assert len(found.rows) == 12
    assert len(texts) == 2
    assert [query.count("http://e.org/y") for query in remote.asked] == [3, 1]
    assert "PREFIX : <http://e.org/>" in remote.asked[0]


@pytest.mark.parametrize(
    ("query", "joined", "beside"),
    [
        ("SELECT * { ?x :p ?y . ?x :r ?w . CALL }", ("y",), ["?x :p ?y . ?x :r ?w ."]),
        ("SELECT * { CALL ?x :p ?y . OPTIONAL { ?x :r ?y } }", ("y",), ["?x :p ?y ."]),
        ("SELECT * { ?x :p ?y OPTIONAL { ?y :r ?w FILTER(?w > 1) CALL } }", ("y",), ["?x :p ?y .", "?y :r ?w ."]),
        ("SELECT * FROM :g FROM NAMED :h { GRAPH ?g { ?x :p ?y CALL } }", ("y",), ["GRAPH ?g", "FROM NAMED :h"]),
        ("SELECT * { { ?x :p ?y } UNION { ?y :r 1 } CALL }", ("y",), ["{ ?x :p ?y } UNION { ?y :r 1 }"]),
        ("SELECT * { ?y :p 1 { SELECT ?z { ?w :r ?z CALL } } }", ("z",), ["?w :r ?z ."]),
        ("SELECT * { { ?x :p ?y } UNION { CALL } }", (), []),
        ("SELECT * { ?x :p ?w CALL }", (), []),
        ("SELECT * { FILTER(?y > 1) CALL }", (), []),
        ("SELECT * { MINUS { ?y :p ?z } CALL ?y :r 1, 2 . }", ("y", "z"), ["MINUS { ?y :p ?z }", "?y :r 1, 2 ."]),
    ],
)
def test_bindings_come_from_the_patterns_beside_a_call(query, joined, beside):
    call = first_service(P + query.replace("CALL", f"{S} {{ ?y :q ?z }}"))
    assert call.joined == joined
    assert (call.bindings is None) == (not joined)
    for part in beside:
        assert part in call.bindings
    assert "UNION { ?" not in (call.bindings or "") or "UNION" in "".join(beside)


def test_long_values_are_sent_in_smaller_batches():
    row = ("<" + "x" * 30_000 + ">",)
    assert [len(batch) for batch in services._batches([row] * 5, 100)] == [2, 2, 1]
    assert [len(batch) for batch in services._batches([(row[0] * 4,)] * 2, 100)] == [1, 1]
    assert [len(batch) for batch in services._batches([(None,)] * 250, 100)] == [100, 100, 50]


def test_endpoint_gets_the_whole_pattern_without_bindings_or_with_too_many(monkeypatch):
    remote = Remote()
    ask(monkeypatch, f"SELECT ?z {{ {S} {{ ?y :q ?z }} }}", remote)
    ask(monkeypatch, f"SELECT ?z {{ ?x :p ?y {S} {{ ?y :q ?z }} }}", remote, values_max=3)
    assert len(remote.asked) == 2
    assert not any("VALUES" in query for query in remote.asked)


def test_endpoint_gets_no_request_without_values_to_join(monkeypatch):
    remote = Remote()
    found, _ = ask(monkeypatch, f"SELECT * {{ ?x :p :nothing {S} {{ ?x :q ?z }} }}", remote)
    assert found.rows == []
    assert remote.asked == []


FAILURES = [
    Unavailable(f"{REMOTE}: the endpoint answers 503"), DataRefused("more than 5 solutions", source=REMOTE),
    TargetRefused(f"{REMOTE}: redirects are not followed"),
]  # fmt: skip


@pytest.mark.parametrize("failure", FAILURES)
def test_a_failure_names_the_endpoint_and_the_remedy(monkeypatch, failure):
    with pytest.raises(Unavailable if isinstance(failure, Unavailable) else QueryRefused) as caught:
        ask(monkeypatch, f"SELECT * {{ ?x :p ?y {S} {{ ?y :q ?z }} }}", Remote(failure))
    assert REMOTE in str(caught.value)
    assert "use SERVICE SILENT" in str(caught.value)


@pytest.mark.parametrize("failure", FAILURES)
def test_a_silent_call_that_fails_has_one_empty_solution(monkeypatch, failure):
    query = f"SELECT ?x ?z {{ ?x :p :y1 . :y1 :same ?y . {S} {{ }} }}"
    assert ask(monkeypatch, query.replace(f"{S} {{ }}", ""))[0].rows == []
    query = f"SELECT ?x ?z {{ ?x :p ?y {S.replace('SERVICE', 'SERVICE SILENT')} {{ ?y :q ?z }} }}"
    found, _ = ask(monkeypatch, query, Remote(failure))
    assert len(found.rows) == 8
    assert {row[1] for row in found.rows} == {None}
    found, _ = ask(monkeypatch, query, Remote(None, failure), batch_max=1)
    assert {row[1] for row in found.rows} == {None}


def test_forbidden_endpoint_is_refused_before_any_request(monkeypatch):
    remote = Remote()
    query = f"SELECT * {{ {S} {{ ?y :q ?z }} SERVICE <http://other.org/> {{ ?y :q ?w }} }}"
    with pytest.raises(QueryRefused) as caught:
        ask(monkeypatch, query, remote)
    assert caught.value.construct == "SERVICE"
    assert caught.value.line == 1
    assert "http://other.org/: not on the list of permitted hosts; permit its host" in str(caught.value)
    assert remote.asked == []
    found, _ = ask(monkeypatch, query.replace("SERVICE <http://o", "SERVICE SILENT <http://o"), remote)
    assert len(found.rows) == 16


def test_a_malformed_query_is_refused_before_any_request_with_its_position(monkeypatch):
    remote = Remote()
    with pytest.raises(QueryRefused) as caught:
        ask(monkeypatch, f"SELECT * {{ {S} {{ ?y :q ?z }}\n ?x :p }}", remote)
    assert caught.value.line == 2
    assert remote.asked == []


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("SELECT * { VALUES ?e { :e } SERVICE ?e { ?y :q ?z } }", "the endpoint ?e is a variable"),
        ("SELECT * { " + f"{S} {{ ?y :q ?z }} " * (SERVICES_MAX + 1) + "}", f"at most {SERVICES_MAX} times"),
    ],
)
def test_variable_endpoints_and_too_many_calls_are_refused(monkeypatch, query, reason):
    remote = Remote()
    with pytest.raises(QueryRefused) as caught:
        ask(monkeypatch, query, remote)
    assert caught.value.construct == "SERVICE"
    assert reason in str(caught.value)
    assert remote.asked == []


def test_a_query_with_too_long_solutions_is_refused(monkeypatch):
    class Large(Remote):
        async def ask(self, url, query, *, scope, rows_max):
            return ("z",), [(f'"{"z" * 100}{n}"',) for n in range(QUERY_BYTES_MAX // 100)]

    with pytest.raises(QueryRefused) as caught:
        ask(monkeypatch, f"SELECT ?z {{ {S} {{ ?y :q ?z }} }}", Large())
    assert "ask for fewer" in str(caught.value)
    found, _ = ask(monkeypatch, f"ASK {{ {S} {{ ?y :q ?z }} }}", Large())  # without the column
    assert found


def test_bound_of_solutions_covers_all_requests_of_a_call(monkeypatch):
    query = f"SELECT * {{ ?x :p ?y {S} {{ ?y :q ?z }} }}"
    asked = Remote()
    assert ask(monkeypatch, query, asked, batch_max=1)[0].rows
    assert len(asked.asked) > 2
    for most in (1, 2):
        with pytest.raises(QueryRefused, match=f"more than {most} solutions"):
            ask(monkeypatch, query, Remote(), batch_max=1, solutions_max=most)


def test_the_deadline_covers_the_requests(monkeypatch):
    class Slow(Remote):
        async def ask(self, url, query, *, scope, rows_max):
            await asyncio.sleep(60)

    async def answer():
        await services.answer_with_services(
            None, f"SELECT ?z {{ {S} {{ ?y <urn:q> ?z }} }}", Slow(), None, algorithm="csbv", timeout_seconds=0.05
        )

    with pytest.raises(Unavailable, match="did not answer within"):
        asyncio.run(answer())


def test_without_permitted_hosts_only_silent_calls_are_left_out(monkeypatch):
    silent = "SELECT * { ?x :p ?y SERVICE SILENT <http://nowhere/> { ?y :q ?z } }"
    found, texts = ask(monkeypatch, silent, services.NO_ENDPOINTS)
    assert found.rows == solutions(store(HERE), P + "SELECT * { ?x :p ?y }").rows != []
    assert len(texts) == 1  # no values are asked for
    with pytest.raises(QueryRefused, match="no host is permitted, so http://nowhere/ is not asked; permit its host"):
        ask(monkeypatch, silent.replace("SILENT", ""), services.NO_ENDPOINTS)


def test_errors_name_the_whole_timeout(monkeypatch):
    async def answer():
        await services.with_solutions(
            None, f"SELECT ?z {{ {S} {{ ?y <urn:q> ?z }} }}", Remote(), None, algorithm="csbv", timeout_seconds=0.0,
            of_seconds=5.0,
        )  # fmt: skip

    with pytest.raises(Unavailable, match="did not answer within 5 s"):
        asyncio.run(answer())


def test_bounds_are_positive():
    with pytest.raises(LocalProtocolError):
        ServiceBounds(batch_max=0).validate()


def test_label_service_is_no_call_of_another_endpoint():
    text = "SELECT ?x ?xLabel { ?x <urn:p> 1 SERVICE <http://wikiba.se/ontology#label> { } }"
    assert first_service(text) is None
    assert without_services(text) == text


@pytest.mark.parametrize("text", ["SERVICE <x:e> { }", "SELECT * { SERVICE <x:e> }", "SERVICE"])
def test_malformed_call_is_left_to_the_parser(text):
    assert without_services(text) == text


def test_open_brace_is_refused():
    with pytest.raises(QueryRefused, match=r"'\{' is never closed"):
        without_services("SELECT * { SERVICE")
