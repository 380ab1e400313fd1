"""The gateway on real sockets, in front of real nodes: requests of any HTTP client, and requests that it refuses."""

from __future__ import annotations

import asyncio
import gzip
import io
import itertools
import json
import shutil
import signal
import socket
import sys
from random import Random
from urllib.parse import urlencode

import aiohttp
import pyoxigraph as ox
import pytest
from compression import zstd_compressed
from gateways import Events, GatewayProcess, gateway
from rdflib.plugins.stores.sparqlstore import SPARQLStore, SPARQLUpdateStore

import p2prdf
from p2prdf.gateway.access import Permission, Token, _digest
from p2prdf.gateway.bodies import RDF_TYPES
from p2prdf.gateway.metrics import METRICS
from p2prdf.gateway.openapi import description
from p2prdf.gateway.sparql import GRAPH_TYPES, RESULT_TYPES, TABLE_TYPES
from p2prdf.gateway.state import GATEWAY
from p2prdf.rdf.graph_formats import GraphFormat, respelled

SECONDS = 60.0
ASKED = {"Content-Type": "application/sparql-query"}
JELLY = "application/x-jelly-rdf"
_names = itertools.count()


@pytest.fixture
def ns():
    """A namespace of this test's own, as the overlay is shared."""
    return f"urn:gateway{next(_names)}:"


def turtle(ns):
    return f'<{ns}a> <{ns}p> "1", "x\\r\\n\\"y"@en-GB, [] . <{ns}b> <{ns}p> 2.50, <{ns}c> .'


async def publish(session, body, *, kind="text/turtle", status=200, headers=None, **parameters):
    async with session.post(
        "/publish", data=body, params=parameters, headers={"Content-Type": kind, **(headers or {})}
    ) as answer:
        said = await answer.json(content_type=None)
        assert answer.status == status, said
        return said


async def problem(answer, status, code=None):
    """Check that an answer is a problem, and return its text."""
    said = await answer.json(content_type="application/problem+json")
    assert (answer.status, said["status"]) == (status, status), said
    assert code in (None, said["code"])
    return said["detail"]


def rows_of(text):
    """Return the bindings of JSON results as texts, in order."""
    return sorted(json.dumps(each, sort_keys=True) for each in text["results"]["bindings"])


# --- SPARQL 1.1 Protocol -----------------------------------------------------------------------------------------


async def test_every_format_is_read_by_a_foreign_parser_of_it(keeping_all, ns):
    query = f"SELECT ?s ?o {{ ?s <{ns}p> ?o }}"
    formats = {
        "json": ox.QueryResultsFormat.JSON, "xml": ox.QueryResultsFormat.XML, "csv": ox.QueryResultsFormat.CSV,
        "tab-separated-values": ox.QueryResultsFormat.TSV,
    }  # fmt: skip
    async with gateway(keeping_all[0].address) as (session, _), p2prdf.connect(keeping_all[3].address) as client:
        assert await publish(session, turtle(ns)) == {"statements": 5, "acknowledged": "indexed"}
        told = await client.query(query)
        assert len(told.rows) == 5
        for media_type in RESULT_TYPES:
            async with session.get("/sparql", params={"query": query}, headers={"Accept": media_type}) as answer:
                assert (answer.status, answer.content_type) == (200, media_type)
                body = await answer.read()
            wanted = next(each for name, each in formats.items() if media_type.endswith(name))
            if wanted is ox.QueryResultsFormat.CSV:
                assert len(body.decode().splitlines()) == 7, "the one with a line end takes two"
                continue
            read = list(ox.parse_query_results(body, format=wanted))
            assert sorted(str(row["o"]) for row in read if not isinstance(row["o"], ox.BlankNode)) == sorted(
                o for _, o in told.rows if not o.startswith("<urn:bnode:")
            )
            assert sum(isinstance(row["o"], ox.BlankNode) for row in read) == 1
        construct = f"CONSTRUCT {{ ?s <{ns}q> ?o }} {{ ?s <{ns}p> ?o }}"
        syntaxes = {
            "application/n-triples": ox.RdfFormat.N_TRIPLES, "text/plain": ox.RdfFormat.N_TRIPLES,
            "text/turtle": ox.RdfFormat.TURTLE, "application/rdf+xml": ox.RdfFormat.RDF_XML,
            "application/ld+json": ox.RdfFormat.JSON_LD, "application/trig": ox.RdfFormat.TRIG,
            "application/n-quads": ox.RdfFormat.N_QUADS,
        }  # fmt: skip
        assert {*syntaxes, JELLY} == set(GRAPH_TYPES)
        graphs = []
        for media_type, syntax in syntaxes.items():
            async with session.post("/sparql", data={"query": construct}, headers={"Accept": media_type}) as answer:
                assert (answer.status, answer.content_type) == (200, media_type)
                graph = ox.Dataset(ox.parse(await answer.read(), format=syntax))
            graph.canonicalize(ox.CanonicalizationAlgorithm.UNSTABLE)
            graphs.append(graph)
        assert len(graphs[0]) == 5
        assert all(graph == graphs[0] for graph in graphs)


async def test_a_description_is_written_in_all_formats_of_graphs(keeping_all, ns):
    """Blank nodes belong to the description of their subject; triples to the resource only to the symmetric one."""
    async with gateway(keeping_all[0].address) as (session, _):
        text = f"<{ns}a> <{ns}p> [ <{ns}q> [ <{ns}q> 1 ], 2 ] . <{ns}b> <{ns}p> <{ns}a> . <{ns}c> <{ns}p> <{ns}b> ."
        await publish(session, text)
        for media_type in GRAPH_TYPES.keys() - {JELLY}:
            for more, count in (({}, 4), ({"symmetric": "true"}, 5)):
                asked = {"query": f"DESCRIBE ?x WHERE {{ ?x <{ns}p> [] FILTER(?x = <{ns}a>) }}", **more}
                async with session.get("/sparql", params=asked, headers={"Accept": media_type}) as answer:
                    assert (answer.status, answer.content_type) == (200, media_type)
                    syntax = ox.RdfFormat.from_media_type(media_type) or ox.RdfFormat.N_TRIPLES
                    assert len(ox.Dataset(ox.parse(await answer.read(), format=syntax))) == count
        asked = {"query": f"DESCRIBE <{ns}a>", "symmetric": "yes"}
        async with session.get("/sparql", params=asked) as answer:
            assert "neither true nor false" in await problem(answer, 400)


async def test_jelly_is_published_and_answered(keeping_all, ns):
    pytest.importorskip("pyjelly", reason="pyjelly is not installed (extra jelly)")
    from pyjelly.integrations.generic.parse import parse_jelly_flat

    body = respelled("".join(f"<{ns}a> <{ns}p> {o} .\n" for o in ('"1"', '"x"@en', "_:b")), GraphFormat.JELLY)
    asked = {"query": f"CONSTRUCT {{ ?s ?p ?o }} {{ ?s ?p ?o FILTER (?p = <{ns}p>) }}"}
    async with gateway(keeping_all[0].address) as (session, _):
        assert (await publish(session, body, kind=JELLY))["statements"] == 3
        assert "malformed Jelly" in (await publish(session, b"\x05abcde", kind=JELLY, status=400))["detail"]
        async with session.post("/sparql", data=asked, headers={"Accept": JELLY}) as answer:
            assert (answer.status, answer.content_type) == (200, JELLY)
            found = list(parse_jelly_flat(io.BytesIO(await answer.read())))
    assert {getattr(each.o, "_lex", None) for each in found} == {"1", "x", None}
    assert len(found) == 3


async def test_result_as_arrow_stream_or_parquet_has_typed_columns(keeping_all, ns):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    query = f"SELECT ?s ?o {{ ?s <{ns}p> ?o }} ORDER BY ?o"
    async with gateway(keeping_all[0].address) as (session, _):
        await publish(session, f"<{ns}b> <{ns}p> 2 . <{ns}a> <{ns}p> 1 .")
        for media_type in TABLE_TYPES:
            accept = {"Accept": media_type}
            async with session.get("/sparql", params={"query": query}, headers=accept) as answer:
                assert (answer.status, answer.content_type) == (200, media_type)
                body = pa.BufferReader(await answer.read())
            table = parquet.read_table(body) if "parquet" in media_type else pa.ipc.open_stream(body).read_all()
            assert table.to_pydict() == {"s": [f"<{ns}a>", f"<{ns}b>"], "o": [1, 2]}
            async with session.get("/sparql", params={"query": "ASK { ?s ?p 1 }"}, headers=accept) as answer:
                await problem(answer, 406, "request-refused")
            async with session.get("/sparql", params={"query": "SELECT * { }"}, headers=accept) as answer:
                assert "without columns is no table" in await problem(answer, 406, "request-refused")


async def test_terms_of_rdf_1_2_are_published_matched_and_written_in_all_formats(keeping_all, ns):
    text = f'VERSION "1.2" <{ns}a> <{ns}p> <{ns}b> {{| <{ns}q> "x"@ar--rtl, [] |}} .'
    reifies = "http://www.w3.org/1999/02/22-rdf-syntax-ns#reifies"
    formats = {
        "application/n-triples": ox.RdfFormat.N_TRIPLES, "text/turtle": ox.RdfFormat.TURTLE,
        "application/rdf+xml": ox.RdfFormat.RDF_XML, "application/n-quads": ox.RdfFormat.N_QUADS,
    }  # fmt: skip
    async with gateway(keeping_all[0].address) as (session, _):
        assert (await publish(session, text))["statements"] == 4
        construct = f"CONSTRUCT {{ ?r <{ns}is> ?t . ?r <{ns}q> ?x }} {{ ?r <{reifies}> ?t ; <{ns}q> ?x }}"
        graphs = []
        for media_type, syntax in formats.items():
            async with session.post("/sparql", data={"query": construct}, headers={"Accept": media_type}) as answer:
                graph = ox.Dataset(ox.parse(await answer.read(), format=syntax))
            graph.canonicalize(ox.CanonicalizationAlgorithm.UNSTABLE)
            graphs.append(graph)
        assert len(graphs[0]) == 3
        assert all(graph == graphs[0] for graph in graphs)
        async with session.post(
            "/sparql", data={"query": construct}, headers={"Accept": "application/ld+json"}
        ) as answer:
            assert "JSON-LD does not support RDF 1.2" in await problem(answer, 406)
        found = {}
        asked = f"SELECT ?s ?t ?x {{ << ?s <{ns}p> ?o ~ ?r >> <{ns}q> ?x . ?r <{reifies}> ?t FILTER hasLangdir(?x) }}"
        for media_type in ("application/sparql-results+json", "application/sparql-results+xml", "text/csv"):
            async with session.post("/sparql", data={"query": asked}, headers={"Accept": media_type}) as answer:
                assert answer.status == 200
                found[media_type] = await answer.text()
        (row,) = json.loads(found["application/sparql-results+json"])["results"]["bindings"]
        assert row["x"] == {"type": "literal", "value": "x", "xml:lang": "ar", "its:dir": "rtl"}
        assert row["t"]["value"]["object"] == {"type": "uri", "value": f"{ns}b"}
        (solution,) = ox.parse_query_results(
            found["application/sparql-results+xml"], format=ox.QueryResultsFormat.XML
        )
        assert f"<<( {solution['t']} )>>" == f"<<( <{ns}a> <{ns}p> <{ns}b> )>>"
        assert str(solution["x"]) == '"x"@ar--rtl'
        assert f"<<( <{ns}a> <{ns}p> <{ns}b> )>>" in found["text/csv"]
        term = f"?r <{reifies}> <<( ?s ?p ?o )>>"
        update = f"DELETE {{ {term} }} WHERE {{ {term} ; <{ns}q> ?x }}"
        async with session.post("/sparql", data={"update": update}) as answer:
            assert (await answer.json())["deleted"] == 1


RDF_LI = "http://www.w3.org/1999/02/22-rdf-syntax-ns#li"


@pytest.mark.parametrize(
    ("predicate", "value", "without"),
    [
        ("p", '"x"', ()), (RDF_LI, '"x"', ("rdf+xml",)), ("p/", '"x"', ("rdf+xml",)), ("7", '"x"', ("rdf+xml",)),
        ("p", '"\\u0001"', ("xml",)), ("p", '"\uffff"', ("xml",)), ("p", '""', ()), ("p", "[]", ()),
        ("p", '"<a>]]>&\\r\\n"@en', ()), ("p", "<urn:x:a&b'>", ()), ("p", '"x"^^<urn:t:>', ()),
        ("p", '"NaN"^^<http://www.w3.org/2001/XMLSchema#double>', ()),
    ],
)
async def test_an_answer_that_a_format_cannot_hold_is_406_and_names_others(keeping_all, ns, predicate, value, without):
    """No term and no format make the gateway fail."""
    predicate = predicate if ":" in predicate else f"{ns}{predicate}"
    async with gateway(keeping_all[0].address) as (session, _):
        await publish(session, f"<{ns}a> <{predicate}> {value} .")
        where = f"{{ <{ns}a> ?p ?o }}"
        for head, types in (
            ("SELECT ?p ?o", RESULT_TYPES), ("ASK", RESULT_TYPES), (f"CONSTRUCT {{ <{ns}a> ?p ?o }}", GRAPH_TYPES)
        ):
            for media_type in types:
                query = f"{head} {where}" if head == "ASK" else f"{head} WHERE {where}"
                async with session.get("/sparql", params={"query": query}, headers={"Accept": media_type}) as answer:
                    refused = head != "ASK" and any(media_type.endswith(each) for each in without)
                    if refused and not (head.startswith("SELECT") and "rdf+xml" in without):
                        assert "ask for one of" in await problem(answer, 406, "request-refused")
                    else:
                        assert answer.status == 200, await answer.text()


async def test_all_ways_to_ask(keeping_all, ns):
    async with gateway(keeping_all[1].address) as (session, _):
        await publish(session, f'<{ns}a> <{ns}p> "1" .', kind="application/n-triples")
        ask = f"ASK {{ <{ns}a> <{ns}p> ?o }}"
        asked = [
            session.get("/sparql", params={"query": ask}),
            session.post("/sparql", data={"query": ask}),
            session.post("/sparql", data=ask, headers={"Content-Type": "application/sparql-query"}),
            session.post("/sparql?timeout=30", data=ask, headers={"Content-Type": "application/sparql-query"}),
        ]
        for each in asked:
            async with each as answer:
                assert answer.status == 200
                said = await answer.json(content_type="application/sparql-results+json")
                assert said == {"head": {}, "boolean": True}
        updates = [
            session.post("/sparql", data={"update": f"DELETE WHERE {{ <{ns}a> <{ns}p> ?o }}"}),
            session.post(
                "/sparql", data=f"INSERT DATA {{ <{ns}b> <{ns}p> 7 }}",
                headers={"Content-Type": "application/sparql-update"},
            ),
        ]  # fmt: skip
        for each, told in zip(updates, ((0, 1), (1, 0)), strict=True):
            async with each as answer:
                assert answer.status == 200
                assert await answer.json() == dict(zip(("inserted", "deleted"), told, strict=True))
        everything = {"query": f"SELECT * {{ ?s <{ns}p> ?o }}"}
        async with session.get("/sparql", params=everything, headers={"Accept": "text/csv"}) as answer:
            assert await answer.text() == f"s,o\r\n{ns}b,7\r\n"


@pytest.mark.parametrize(("kind", "body", "status"), [
    ("application/sparql-query", b"\xff", 400), ("application/sparql-query; charset=punycode", b"x", 415),
    ("application/sparql-query; charset=nonsense", b"x", 415), ("application/sparql-update", b"x", 415),
])  # fmt: skip
async def test_a_query_that_is_not_text_is_refused_as_a_subscription(keeping_all, kind, body, status):
    async with (
        gateway(keeping_all[0].address) as (session, _),
        session.post("/events", data=body, headers={"Content-Type": kind}) as answer,
    ):
        await problem(answer, status)


@pytest.mark.parametrize(("request_", "status", "told"), [
    (("GET", {"params": {"timeout": "1"}}), 400, "exactly one query or update is expected, not 0"),
    (("GET", {"params": {"query": "SELECT * {"}}), 400, "syntax error"),
    (("GET", {"params": {"query": "ASK { ?s <urn:p> ?o }", "default-graph-uri": "no iri"}}), 400, "not an IRI"),
    (("GET", {"params": [("query", "ASK { }"), *[("named-graph-uri", "urn:g")] * 1001]}), 400, "1000 graphs"),
    (("GET", {"params": {"update": "INSERT DATA { <urn:a> <urn:p> 1 }"}}), 405, "by POST"),
    (("GET", {"params": {"query": "ASK { ?s <urn:p> ?o }"}, "headers": {"Accept": "image/png"}}), 406, "image/png"),
    (("GET", {"params": {"query": "ASK { ?s <urn:p> ?o }", "timeout": "inf"}}), 400, "timeout"),
    (("GET", {"params": [("query", "ASK {}"), ("query", "ASK {}")]}), 400, "not 2"),
    (("POST", {"data": "ASK {}", "headers": {"Content-Type": "text/plain"}}), 415, "text/plain"),
    (("POST", {"data": b"\xff", "headers": {"Content-Type": "application/sparql-query"}}), 400, "not in UTF-8"),
    (("POST", {"data": b"x", "headers": {"Content-Type": "application/sparql-query; charset=punycode"}}), 415, "UTF-8"),
    (("POST", {"data": "query=%ff", "headers": {"Content-Type": "application/x-www-form-urlencoded"}}), 400, "form"),
    (("POST", {"data": {"query": "#" * 300_000}}), 413, "300,000 characters"),
    (("POST", {"data": io.BytesIO(b"#" * 5_000_000), "headers": ASKED}), 413, "1,048,576 bytes"),
    (("PUT", {}), 405, "PUT /sparql"),
])  # fmt: skip
async def test_requests_outside_the_protocol_are_answered_with_a_problem(keeping_all, request_, status, told):
    method, arguments = request_
    async with (
        gateway(keeping_all[0].address) as (session, _),
        session.request(method, "/sparql", **arguments) as answer,
    ):
        assert told in await problem(answer, status)


async def test_another_library_asks_and_updates(keeping_all, ns):
    """rdflib's stores use the protocol as they do with other servers."""
    async with gateway(keeping_all[2].address) as (session, _):
        url = f"{session._base_url}/sparql"

        def work():
            store = SPARQLUpdateStore(query_endpoint=url, update_endpoint=url, context_aware=False)
            store.update(f'INSERT DATA {{ <{ns}a> <{ns}p> "1"@de . <{ns}b> <{ns}p> 5 }}')
            found = {}
            for wanted in ("json", "xml", "csv", "tsv"):
                reader = SPARQLStore(query_endpoint=url, returnFormat=wanted)
                found[wanted] = sorted(str(row.s) for row in reader.query(f"SELECT ?s {{ ?s <{ns}p> ?o }}"))
            graph = SPARQLStore(query_endpoint=url).query(f"CONSTRUCT {{ ?s <{ns}q> ?o }} {{ ?s <{ns}p> ?o }}").graph
            return found, sorted(o.n3() for o in graph.objects())

        found, objects = await asyncio.to_thread(work)
    assert all(rows == [f"{ns}a", f"{ns}b"] for rows in found.values()), found
    assert objects == ['"1"@de', '"5"^^<http://www.w3.org/2001/XMLSchema#integer>']


async def test_a_result_of_many_rows_is_written_as_it_is_read(keeping_all, ns):
    count = 20_000
    lines = "".join(f'<{ns}{number}> <{ns}p> "{number}" .\n' for number in range(count))

    async def in_pieces():
        for start in range(0, len(lines), 50_000):
            yield lines[start : start + 50_000].encode()

    async with gateway(keeping_all[0].address) as (session, _):
        said = await publish(session, in_pieces(), kind="application/n-triples")
        assert said["statements"] == count
        query = {"query": f"SELECT ?o {{ ?s <{ns}p> ?o }}"}
        async with session.get("/sparql", params=query, headers={"Accept": "text/csv"}) as answer:
            assert sorted(map(int, (await answer.text()).split()[1:])) == list(range(count))


# --- publication -------------------------------------------------------------------------------------------------


async def test_a_publication_that_is_sent_again_under_its_key_counts_once(keeping_all, ns):
    query = f"SELECT ?s ?o {{ ?s <{ns}p> ?o }}"
    async with (
        gateway(keeping_all[0].address) as (session, _),
        gateway(keeping_all[3].address) as (other, _),
        p2prdf.connect(keeping_all[1].address) as client,
    ):
        subscription = await client.subscribe(query, per_event=True)
        more = f"<{ns}c> <{ns}p> 1 . {turtle(ns)} <{ns}d> <{ns}p> 1 ."
        for sender, body in ((session, turtle(ns)), (other, turtle(ns)), (session, more)):
            await publish(sender, body, headers={"Idempotency-Key": f"{ns}1"})
        await publish(session, f"<{ns}end> <{ns}p> 1 .", status=202, level="accepted")

        async def told():
            found = []
            async with asyncio.timeout(SECONDS):
                while not found or found[-1][0] != f"<{ns}end>":
                    found.append((await anext(subscription)).terms)
            return found

        first = await told()
        assert len(first) == len(set(first)) == 8, "also in another order, with more beside; a blank node is the same"
        await publish(session, turtle(ns))
        await publish(session, f"<{ns}end> <{ns}p> 2 .")
        fresh = set(await told()) - set(first)
        assert sum(o.startswith("<urn:bnode:") for _, o in fresh) == 1, "without a key it is another blank node"


async def test_graphs_and_removals(keeping_all, ns):
    async with gateway(keeping_all[0].address) as (session, _):
        await publish(session, f"<{ns}a> <{ns}p> 1, 2 .", graph=f"{ns}g")
        await publish(
            session, f"<{ns}g2> {{ <{ns}a> <{ns}p> 3 }} <{ns}a> <{ns}p> 4 .", kind="application/trig", graph=f"{ns}g"
        )
        async with session.post(
            "/retract", params={"graph": f"{ns}g"}, headers={"Content-Type": "text/turtle"},
            data=f"<{ns}a> <{ns}p> 2 .",
        ) as answer:  # fmt: skip
            assert await answer.json() == {"statements": 1, "acknowledged": "indexed"}
        query = {"query": f"SELECT ?g ?o {{ GRAPH ?g {{ <{ns}a> <{ns}p> ?o }} }}"}
        async with session.get("/sparql", params=query, headers={"Accept": "text/csv"}) as answer:
            assert sorted((await answer.text()).split()[1:]) == [f"{ns}g,1", f"{ns}g,4", f"{ns}g2,3"]


PACKED = gzip.compress(b"<urn:a> <urn:p> 1 .")
PACKERS = {"": bytes, "gzip": gzip.compress, "zstd": zstd_compressed}


@pytest.mark.parametrize(("arguments", "status", "told"), [
    ({"data": "<urn:a> <urn:p> .\n", "kind": "application/n-triples"}, 400, "body:1"),
    ({"data": "<urn:a> <urn:p> 1 ; .x", "kind": "text/turtle"}, 400, "body"),
    ({"data": "x", "kind": "application/rdf+xml"}, 400, "malformed XML"),
    ({"data": "{", "kind": "application/ld+json"}, 400, "body"),
    ({"data": '{"@context": "urn:c", "@id": "urn:a"}', "kind": "application/ld+json"}, 400, "not fetched"),
    ({"data": "[" * 100_000, "kind": "application/ld+json"}, 413, "30,000 bytes"),
    ({"data": "[" * 10_000, "kind": "application/ld+json"}, 400, "deeper than 64"),
    ({"data": "x", "kind": "text/n3"}, 415, "send Turtle"), ({"data": "x", "kind": "application/vnd.hdt"}, 415, "HDT"),
    ({"data": "x", "kind": "text/turtle", "headers": {"Content-Encoding": "br"}}, 415, "send gzip or zstd"),
    ({"data": "x", "kind": "text/turtle", "headers": {"Content-Encoding": "gzip"}}, 400, "damaged"),
    ({"data": PACKED[:-9], "kind": "text/turtle", "headers": {"Content-Encoding": "gzip"}}, 400, "breaks off"),
    ({"data": PACKED + b"x" * 20, "kind": "text/turtle", "headers": {"Content-Encoding": "gzip"}}, 400, "damaged"),
    ({"data": gzip.compress(b"#" * 31_000), "kind": "text/turtle", "headers": {"Content-Encoding": "gzip"}}, 413, "30"),
    ({"data": b"x", "kind": "text/turtle; charset=latin-1"}, 415, "UTF-8"),
    ({"data": "", "kind": "text/turtle", "params": {"graph": "no iri"}}, 400, "not an IRI"),
    ({"data": "", "kind": "text/turtle", "params": {"level": "safe"}}, 400, "level"),
    ({"data": "", "kind": "text/turtle", "headers": {"Idempotency-Key": "a b"}}, 400, "Idempotency-Key"),
    ({"data": "<urn:a> <urn:p> 1 .\n" * 2000, "kind": "text/turtle"}, 413, "30,000 bytes"),
])  # fmt: skip
async def test_unpublishable_bodies_are_answered_with_a_problem(keeping_all, arguments, status, told):
    kind, headers = arguments["kind"], arguments.get("headers", {})
    async with (
        gateway(keeping_all[0].address, body_bytes_max=30_000) as (session, _),
        session.post(
            "/publish", data=arguments["data"], params=arguments.get("params"),
            headers={"Content-Type": kind, **headers}, skip_auto_headers=["Content-Encoding"],
        ) as answer,
    ):  # fmt: skip
        assert told in await problem(answer, status)


@pytest.mark.parametrize("coding", ["", "gzip", "zstd"])
async def test_all_formats_are_published_compressed_or_not(keeping_all, ns, coding):
    pack = PACKERS[coding]
    xml = ('<r:RDF xmlns:r="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:x="{0}"><r:Description r:about="{0}a">'
           '<x:p>{1}</x:p></r:Description></r:RDF>')  # fmt: skip
    bodies = {
        "application/n-triples": '<{0}a> <{0}p> "{1}" .', "application/n-quads": '<{0}a> <{0}p> "{1}" .',
        "text/turtle": '@prefix x: <{0}> . x:a x:p "{1}" .', "application/trig": '{{ <{0}a> <{0}p> "{1}" }}',
        "application/rdf+xml": xml,
        "application/ld+json": '{{"@context": {{"@vocab": "{0}"}}, "@id": "{0}a", "p": "{1}"}}',
    }  # fmt: skip
    assert {*bodies, JELLY} == set(RDF_TYPES)
    async with gateway(keeping_all[0].address) as (session, _):
        for number, (kind, body) in enumerate(bodies.items()):
            text = b"\xef\xbb\xbf" + body.format(ns, number).encode()
            data = pack(text[:20]) + pack(text[20:])
            headers = {"Content-Encoding": coding} if coding else {}
            assert (await publish(session, data, kind=kind, headers=headers))["statements"] == 1
        query = pack(f"SELECT ?o {{ <{ns}a> <{ns}p> ?o }}".encode())
        headers = {**ASKED, **headers, "Accept": "text/csv"}
        async with session.post("/sparql", data=query, headers=headers) as answer:
            assert sorted((await answer.text()).split()[1:]) == list("012345")


async def test_malformed_body_with_a_length_publishes_nothing(keeping_all, ns):
    body = f"<{ns}a> <{ns}p> 1 .\n" * 5000 + "nonsense"
    async with gateway(keeping_all[0].address) as (session, _):
        for kind in ("text/turtle", "application/trig"):
            assert "body" in (await publish(session, body, kind=kind, status=400))["detail"]
        async with session.get("/sparql", params={"query": f"ASK {{ ?s <{ns}p> ?o }}"}) as answer:
            assert not (await answer.json(content_type=None))["boolean"]


async def test_zstandard_body_that_breaks_off_or_is_too_long_is_refused(keeping_all):
    data = zstd_compressed(b"#" * 31_000)
    async with gateway(keeping_all[0].address, body_bytes_max=30_000) as (session, _):
        for body, status, told in ((data, 413, "30"), (data[:-1], 400, "breaks off"), (b"no zstd", 400, "not Z")):
            headers = {"Content-Type": "text/turtle", "Content-Encoding": "zstd"}
            async with session.post("/publish", data=body, headers=headers) as answer:
                assert told in await problem(answer, status)


@pytest.mark.parametrize("coding", ["gzip", "zstd"])
async def test_compressed_bodies_that_expand_enormously_are_refused(keeping_all, coding):
    bomb = PACKERS[coding](b"#" * (50 << 20))
    assert len(bomb) < 100_000
    targets = [("/publish", "text/turtle"), ("/graphs?default", "text/turtle"), ("/sparql", "application/sparql-query"),
               ("/sparql", "application/x-www-form-urlencoded"), ("/events", "application/sparql-query")]  # fmt: skip
    async with gateway(keeping_all[0].address) as (session, _):
        for path, kind in targets:
            async with session.post(
                path, data=bomb, headers={"Content-Type": kind, "Content-Encoding": coding}
            ) as answer:
                await problem(answer, 413)


async def test_compressed_bodies_that_expand_to_nothing_are_bounded(keeping_all):
    headers = {"Content-Type": "text/turtle", "Content-Encoding": "gzip"}
    async with gateway(keeping_all[0].address, body_bytes_max=10_000) as (session, _):
        async with session.post("/publish", data=gzip.compress(b"") * 400, headers=headers) as answer:
            assert answer.status == 200
        async with session.post("/publish", data=gzip.compress(b"") * 600, headers=headers) as answer:
            assert "more than 10,000 bytes" in await problem(answer, 413)


@pytest.mark.parametrize("kind", ["text/turtle", "application/trig", "application/n-quads"])
async def test_blank_nodes_of_a_body_are_not_removed_and_nothing_is_kept_of_them(keeping_all, ns, status, kind):
    """Blank nodes of a body exist nowhere else, and deleting an absent triple leaves a permanent tombstone."""
    bodies = {
        "text/turtle": f"<{ns}a> <{ns}p> [] . " * 50, "application/trig": f"_:g {{ <{ns}a> <{ns}p> 1 }}",
        "application/n-quads": f"_:s <{ns}p> <{ns}o> <{ns}g> .\n",
    }  # fmt: skip
    async with gateway(keeping_all[0].address) as (session, _):
        before = (await status(keeping_all[0]))["peer"]["triples"]
        async with session.post("/retract", data=bodies[kind], headers={"Content-Type": kind}) as answer:
            assert "blank node" in await problem(answer, 400)
        assert (await status(keeping_all[0]))["peer"]["triples"] == before


async def test_a_body_that_stops_is_given_up_and_others_wait_for_their_turn(keeping_all, ns):
    """A slow client occupies a line and a thread at most, and for a limited time."""
    async with gateway(keeping_all[0].address, publications_max=1, body_silence_seconds=1.0) as (session, app):
        going_on = asyncio.Event()

        async def slow():
            yield f"<{ns}a> <{ns}p> <{ns}o> .".encode()
            await going_on.wait()

        first = asyncio.create_task(
            session.post("/publish", data=slow(), headers={"Content-Type": "application/n-triples"})
        )
        while not app[GATEWAY].connections._publications.locked():
            await asyncio.sleep(0.01)
        second = asyncio.create_task(publish(session, f"<{ns}b> <{ns}p> 1 ."))
        answer = await first
        assert "no bytes of the body arrived for 1 s" in await problem(answer, 408)
        assert (await second)["statements"] == 1
        going_on.set()


async def test_requests_beyond_the_bound_are_refused_with_a_time_to_retry(keeping_all, monkeypatch):
    monkeypatch.setattr("p2prdf.gateway.capacity._WAIT_SECONDS", 0.1)
    bounds = {"publications_max": 1, "queries_max": 1, "subscribers_max": 1}
    async with gateway(keeping_all[0].address, **bounds) as (session, app):
        held = app[GATEWAY]
        async with held.connections.line(), held.turn():
            with held.delivering():
                asked = [
                    session.post("/publish", data="", headers={"Content-Type": "text/turtle"}),
                    session.get("/sparql", params={"query": "ASK { <urn:a> <urn:p> <urn:o> }"}),
                    session.get("/events", params={"query": "SELECT * { ?s <urn:p> ?o }"}),
                ]
                for each in asked:
                    async with each as answer:
                        assert "try again" in await problem(answer, 503, "busy")
                        assert int(answer.headers["Retry-After"]) >= 1


# --- subscriptions -----------------------------------------------------------------------------------------------


def objects_of(event, which):
    return [each["o"]["value"] for each in event[which]["results"]["bindings"]]


async def test_server_sent_events_report_additions_and_removals(keeping_all, ns):
    query = f"SELECT ?o {{ ?s <{ns}p> ?o }}"
    async with gateway(keeping_all[0].address) as (session, _):
        await publish(session, f'<{ns}a> <{ns}p> "old" .')
        async with session.get("/events", params={"query": query, "since": "beginning"}) as answer:
            assert answer.content_type == "text/event-stream"
            events = Events(answer)
            name, opened = await events.next()
            assert (name, opened["vars"]) == ("opened", ["o"])
            name, told = await events.next()
            assert (name, objects_of(told, "addedResults")) == ("notification", ["old"])
            async with session.post(
                "/retract", data=f'<{ns}a> <{ns}p> "old" .', headers={"Content-Type": "text/turtle"}
            ):
                pass
            _, told = await events.next()
            assert (objects_of(told, "addedResults"), objects_of(told, "removedResults")) == ([], ["old"])
        async with session.post(
            "/events", data=query, headers={"Content-Type": "application/sparql-query"}
        ) as answer:
            events = Events(answer)
            assert (await events.next())[0] == "opened"
            await publish(session, f'<{ns}a> <{ns}p> "new" .')
            assert objects_of((await events.next())[1], "addedResults") == ["new"]


async def test_settled_events_tell_a_transaction_as_a_whole_with_a_mark(keeping_all, ns):
    query = f"SELECT ?o {{ ?s <{ns}p> ?o MINUS {{ ?s <{ns}q> ?o }} }}"
    async with asyncio.timeout(60), gateway(keeping_all[0].address) as (session, _):
        await publish(session, f'<{ns}a> <{ns}p> "1" .')
        async with session.get("/events", params={"query": query, "settled": "perhaps"}) as answer:
            assert "neither true nor false" in await problem(answer, 400)
        async with session.get("/events", params={"query": query, "settled": "true"}) as answer:
            events = Events(answer)
            names = [(await events.next())[0]]
            while names[-1] != "mark":
                name, told = await events.next()
                names.append(name)
            assert names[:2] == ["opened", "notification"]
            assert told["time"] > 1e9


async def test_events_go_on_at_another_gateway_where_they_broke_off_however_it_was_killed(keeping_all, ns):
    """The reader is cut off in the middle of bursts and its gateway is killed; each answer is delivered once."""
    query, count, rng = f"SELECT ?o {{ ?s <{ns}p> ?o }}", 600, Random(5)
    gateways = [await GatewayProcess.start(keeping_all[at].address) for at in (0, 3)]
    told, last_id = [], ""

    async def published():
        async with p2prdf.connect(keeping_all[1].address) as client:
            for number in range(count):
                await client.publish([(f"<{ns}{number}>", f"<{ns}p>", f'"{number}"')])

    try:
        async with aiohttp.ClientSession() as session, asyncio.timeout(SECONDS):
            publication = None
            while len(told) < count:
                headers = {"Last-Event-ID": last_id} if last_id else {}
                url = f"{gateways[0].url}/events"
                async with session.get(url, params={"query": query, "lease": "60"}, headers=headers) as answer:
                    assert answer.status == 200, await answer.text()
                    assert len(last_id) < 8000, "it has to fit into a header"
                    events = Events(answer)
                    assert (await events.next())[0] == "opened"
                    publication = publication or asyncio.create_task(published())
                    upto = min(count, len(told) + rng.randint(1, 150))
                    while len(told) < upto:
                        name, event = await events.next()
                        assert name == "notification", event
                        told += objects_of(event, "addedResults")
                    last_id = events.last_id
                gateways.reverse()
                if len(told) > count // 2 and len(gateways) == 2:
                    await gateways.pop().kill()  # the one that reported it
            await publication
    finally:
        for each in gateways:
            await each.kill()
    assert sorted(map(int, told)) == list(range(count))


async def test_a_burst_is_delivered_in_parts_and_reading_resumes_after_any_of_them(keeping_all, ns):
    count = 1000
    async with gateway(keeping_all[0].address) as (session, _):
        await publish(session, "".join(f'<{ns}a> <{ns}p> "{number}" .\n' for number in range(count)))
        wanted = {"query": f"SELECT ?o {{ ?s <{ns}p> ?o }}", "since": "beginning"}
        told, headers = [], {}
        while len(told) < count:
            async with session.get("/events", params=wanted, headers=headers) as answer:
                events = Events(answer)
                assert (await events.next())[0] == "opened"
                upto = min(count, len(told) + 200)
                while len(told) < upto:
                    part = objects_of((await events.next())[1], "addedResults")
                    assert len(part) <= 128
                    told += part
            headers = {"Last-Event-ID": events.last_id}
        assert sorted(map(int, told)) == list(range(count))


async def test_a_reader_cut_off_before_the_first_answer_resumes_there(keeping_all, ns):
    asked = {"query": f"SELECT ?o {{ ?s <{ns}p> ?o }}"}
    async with gateway(keeping_all[0].address) as (session, _):
        async with session.get("/events", params=asked) as answer:
            events = Events(answer)
            assert (await events.next())[0] == "opened"
        await publish(session, f'<{ns}a> <{ns}p> "meanwhile" .')
        headers = {"Last-Event-ID": events.last_id}
        async with session.get("/events", params=asked, headers=headers) as answer:
            events = Events(answer)
            assert (await events.next())[0] == "opened"
            await publish(session, f'<{ns}a> <{ns}p> "then" .')
            told = objects_of((await events.next())[1], "addedResults")
            while len(told) < 2:
                told += objects_of((await events.next())[1], "addedResults")
            assert sorted(told) == ["meanwhile", "then"]


async def test_a_reader_that_takes_nothing_and_is_cut_off_has_lost_nothing(keeping_all, ns):
    """Answers in buffers on their way, more than a thousand, are not acknowledged."""
    count, last = 2500, f"<{ns}a> <{ns}p> "
    asked = "/events?" + urlencode({"query": f"SELECT ?o {{ ?s <{ns}p> ?o }}"})
    async with gateway(keeping_all[0].address) as (session, _):
        small = socket.socket()
        small.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        small.setblocking(False)
        await asyncio.get_running_loop().sock_connect(small, ("127.0.0.1", session._base_url.port))
        reader, writer = await asyncio.open_connection(sock=small)
        writer.write(f"GET {asked} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        last_id = ""
        async with asyncio.timeout(SECONDS):
            while not last_id:
                line = (await reader.readline()).decode()
                last_id = line.removeprefix("id: ").strip() if line.startswith("id: ") else ""
        writer.transport.pause_reading()
        numbers = iter(range(count))
        while some := list(itertools.islice(numbers, 100)):
            await publish(session, "".join(f'{last}"{number}" .\n' for number in some))
        writer.transport.abort()
        async with session.get(asked, headers={"Last-Event-ID": last_id}) as answer:
            events, told = Events(answer), []
            assert (await events.next())[0] == "opened"
            while len(told) < count:
                told += objects_of((await events.next())[1], "addedResults")
    assert sorted(map(int, told)) == list(range(count))


async def test_a_token_that_is_none_and_a_subscription_that_is_gone(keeping_all, ns):
    async with gateway(keeping_all[0].address) as (session, _):
        async with session.get("/events", headers={"Last-Event-ID": "nonsense!"}) as answer:
            assert "base64url" in await problem(answer, 400, "token-refused")
        async with session.get("/events", params={"last-event-id": "bm9uc2Vuc2U"}) as answer:
            await problem(answer, 400, "token-refused")
        async with session.get("/events") as answer:
            assert "query" in await problem(answer, 400)
        async with session.get("/events", params={"query": f"SELECT * {{ ?s <{ns}p> ?o }}"}) as answer:
            events = Events(answer)
            _, opened = await events.next()
            await publish(session, f"<{ns}a> <{ns}p> 1 .")
            await events.next()
        async with p2prdf.connect(keeping_all[1].address) as client:
            await client.unsubscribe(int(opened["subscription"], 16))
        async with session.get("/events", headers={"Last-Event-ID": events.last_id}) as answer:
            await problem(answer, 410, "subscription-gone")

async def test_a_resume_token_is_taken_for_its_own_query_alone(keeping_all, ns):
    query, other = f"SELECT ?o {{ ?s <{ns}p> ?o }}", f"SELECT ?s {{ ?s <{ns}q> ?o }}"
    async with gateway(keeping_all[0].address) as (session, _):
        async with session.get("/events", params={"query": query}) as answer:
            events = Events(answer)
            _, opened = await events.next()
        again = {"Last-Event-ID": events.last_id}
        for asked in (
            session.get("/events", params={"query": other, "since": "beginning"}, headers=again),
            session.get("/events", params={"query": other, "last-event-id": events.last_id}),
            session.post("/events", data=other, headers=again | ASKED),
            session.get("/events", params={"query": query, "default-graph-uri": "urn:g"}, headers=again),
        ):
            async with asked as answer:
                told = await problem(answer, 409, "token-mismatch")
                assert "of another query: resume with the query that the token was made for" in told
        for asked in (
            session.get("/events", params={"query": "SELEKT nonsense {"}, headers=again),
            session.post("/events", data="SELEKT nonsense {", headers=again | ASKED),
            session.get("/events", params={"query": query, "using-graph-uri": "urn:g"}, headers=again),
        ):
            async with asked as answer:
                await problem(answer, 400, "query-refused")
        spelled = f"PREFIX x: <{ns}>\nSELECT ?o {{ ?s x:p ?o }} # the same"
        for asked in (
            session.get("/events", params={"query": spelled, "since": "beginning"}, headers=again),
            session.post("/events", data=spelled, headers=again | ASKED),
            session.get("/events", headers=again),
            session.post("/events", headers=again),
        ):
            async with asked as answer:
                assert answer.status == 200
                assert (await Events(answer).next())[1] == opened


async def receive(socket, kind):
    """Return the next message of a socket, which has to be of a kind."""
    async with asyncio.timeout(SECONDS):  # aiohttp's own timeout restarts with every ping
        message = await socket.receive_json()
    assert kind in message, message
    return message[kind] if kind != "error" else message


async def test_sockets_send_the_messages_of_sepa(keeping_all, ns, until):
    query = f"SELECT ?o {{ ?s <{ns}p> ?o }}"
    async with gateway(keeping_all[0].address) as (session, _), session.ws_connect("/subscribe") as socket:
        await publish(session, f'<{ns}a> <{ns}p> "1", "2" .')
        await socket.send_json({"subscribe": {"sparql": query, "alias": "all"}})
        first = await receive(socket, "notification")
        assert (first["alias"], first["sequence"]) == ("all", 0)
        assert sorted(objects_of(first, "addedResults")) == ["1", "2"]
        assert first["removedResults"] == {"head": {"vars": ["o"]}, "results": {"bindings": []}}
        await socket.send_json({"subscribe": query.replace("?s", "?who"), "alias": "plain"})
        assert (await receive(socket, "notification"))["alias"] == "plain"
        async with session.post(
            "/sparql", data={"update": f'DELETE DATA {{ <{ns}a> <{ns}p> "1" }}'}
        ) as answer:
            assert answer.status == 200
        both = [await receive(socket, "notification") for _ in range(2)]
        assert {each["alias"] for each in both} == {"all", "plain"}
        assert all((objects_of(each, "removedResults"), each["sequence"]) == (["1"], 1) for each in both)
        await socket.send_json({"unsubscribe": {"spuid": first["spuid"]}})
        assert (await receive(socket, "unsubscribed"))["spuid"] == first["spuid"]
        await publish(session, f'<{ns}a> <{ns}p> "3" .')
        told = await receive(socket, "notification")
        assert (told["alias"], objects_of(told, "addedResults")) == ("plain", ["3"])
    number = int(told["spuid"].rpartition("/")[2], 16)
    async with p2prdf.connect(keeping_all[1].address) as client:

        async def is_gone():
            try:
                await client.explain(number)
            except p2prdf.SubscriptionGone:
                return True

        assert await until(is_gone, seconds=20), "it ends with its socket, and not with its lease"


async def test_a_socket_resumes_from_a_token_with_the_answers_not_acknowledged_before_it(keeping_all, ns):
    query = f"SELECT ?o {{ ?s <{ns}p> ?o }}"
    async with gateway(keeping_all[0].address) as (session, _), gateway(keeping_all[4].address) as (other, _):
        async with session.ws_connect("/subscribe") as socket:
            await socket.send_json(
                {"subscribe": {"sparql": query, "since": "now", "acknowledge": True, "lease": 60}}
            )
            assert (await receive(socket, "notification"))["sequence"] == 0
            tokens, told = [], []
            for number in range(6):
                await publish(session, f'<{ns}a> <{ns}p> "{number}" .')
                notification = await receive(socket, "notification")
                told += objects_of(notification, "addedResults")
                tokens.append(notification["token"])
                if number == 2:
                    await socket.send_json({"acknowledge": {"spuid": notification["spuid"], "sequence": 3}})
            assert told == [str(number) for number in range(6)]
        rest = [str(number) for number in range(6)]
        for at in (3, 5):
            async with other.ws_connect("/subscribe") as socket:
                await socket.send_json({"subscribe": {"resume": tokens[at]}})
                await publish(session, f'<{ns}a> <{ns}p> "after {at}" .')
                rest.append(f"after {at}")
                told = []
                while f"after {at}" not in told:
                    told += objects_of(await receive(socket, "notification"), "addedResults")
                assert sorted(told) == sorted(rest[at + 1 :])


async def test_a_blank_node_has_one_label_in_queries_events_and_sockets(keeping_all, ns):
    query = f"SELECT ?s {{ ?s <{ns}p> ?o }}"
    async with gateway(keeping_all[0].address) as (session, _), session.ws_connect("/subscribe") as socket:
        await publish(session, f"_:b <{ns}p> _:c .")
        async with session.get("/sparql", params={"query": query}) as answer:
            (node,) = (each["s"] for each in (await answer.json(content_type=None))["results"]["bindings"])
        assert node["type"] == "bnode"
        async with session.get("/events", params={"query": query, "since": "beginning"}) as answer:
            events = Events(answer)
            await events.next()
            assert (await events.next())[1]["addedResults"]["results"]["bindings"] == [{"s": node}]
        await socket.send_json({"subscribe": {"sparql": query}})
        assert (await receive(socket, "notification"))["addedResults"]["results"]["bindings"] == [{"s": node}]
        triple = f"<_:{node['value']}> <{ns}p> ?o"
        async with session.post("/sparql", data={"update": f"DELETE WHERE {{ {triple} }}"}) as answer:
            assert answer.status < 300
        async with session.get("/sparql", params={"query": f"ASK {{ {triple} }}"}) as answer:
            assert (await answer.json(content_type=None))["boolean"] is False


async def test_a_socket_resumes_the_query_that_it_names(keeping_all, ns):
    query, other = f"SELECT ?o {{ ?s <{ns}p> ?o }}", f"SELECT ?s {{ ?s <{ns}q> ?o }}"
    async with gateway(keeping_all[0].address) as (session, _):
        async with session.ws_connect("/subscribe") as socket:
            await socket.send_json({"subscribe": {"sparql": query, "acknowledge": True}})
            first = await receive(socket, "notification")
        async with session.ws_connect("/subscribe") as socket:
            for sparql, status, code in ((other, 409, "token-mismatch"), ("SELEKT {", 400, "query-refused")):
                await socket.send_json({"subscribe": {"sparql": sparql, "resume": first["token"], "alias": "x"}})
                told = await receive(socket, "error")
                assert (told["status_code"], told["error"], told["alias"]) == (status, code, "x")
            await socket.send_json({"subscribe": {"sparql": "", "resume": first["token"]}})
            assert (await receive(socket, "error"))["status_code"] == 400
            await socket.send_json({"subscribe": {"sparql": query, "resume": first["token"]}})
            await publish(session, f'<{ns}a> <{ns}p> "1" . <{ns}b> <{ns}q> "2" .')
            told = await receive(socket, "notification")
            assert (told["spuid"], objects_of(told, "addedResults")) == (first["spuid"], ["1"])


@pytest.mark.parametrize("acknowledge", [False, True])
async def test_the_first_notification_holds_more_than_the_window_of_a_coordinator(keeping_all, ns, acknowledge):
    count = 17_000  # solutions_window is 16,384
    async with gateway(keeping_all[0].address) as (session, _):
        await publish(session, "".join(f'<{ns}a> <{ns}p> "{number}" .\n' for number in range(count)))
        async with session.ws_connect("/subscribe", max_msg_size=0) as socket:
            wanted = {"sparql": f"SELECT ?o {{ ?s <{ns}p> ?o }}", "acknowledge": acknowledge}
            await socket.send_json({"subscribe": wanted})
            told = await receive(socket, "notification")
            assert sorted(map(int, objects_of(told, "addedResults"))) == list(range(count))
            await publish(session, f'<{ns}a> <{ns}p> "more" .')
            assert objects_of(await receive(socket, "notification"), "addedResults") == ["more"]


@pytest.mark.parametrize(("said", "told"), [
    ("{", "not JSON"), ("[]", "one of subscribe"), ("{}", "one of subscribe"), ("1", "one of subscribe"),
    ("[" * 100_000, "not JSON"), ('{"subscribe": {"sparql": "SELECT x", "alias": "\\ud800"}}', "not a character"),
    ('{"subscribe": 5}', "not an object"), ('{"subscribe": {}}', "sparql: missing"),
    ('{"subscribe": {"sparql": "SELECT x", "alias": "mine"}}', "syntax error"),
    ('{"subscribe": {"sparql": "ASK {}", "since": []}}', "since"),
    ('{"subscribe": {"sparql": "ASK {}", "lease": "nan"}}', "lease"),
    ('{"subscribe": {"sparql": "ASK {}", "colour": 1}}', "colour"),
    ('{"subscribe": {"sparql": "ASK {}", "default-graph-uri": "no iri"}}', "not an IRI"),
    ('{"subscribe": {"sparql": "ASK {}", "named-graph-uri": [1]}}', "named-graph-uri"),
    ('{"subscribe": {"resume": "AAAA"}}', "resume token"),
    ('{"unsubscribe": {"spuid": "x"}}', "no subscription of this socket"),
    ('{"unsubscribe": "x"}', "no subscription of this socket"),
    ('{"acknowledge": {"spuid": 3, "sequence": 1}}', "no subscription of this socket"),
])  # fmt: skip
async def test_a_bad_message_on_a_socket_is_answered_with_an_error_and_the_socket_goes_on(keeping_all, ns, said, told):
    async with gateway(keeping_all[0].address) as (session, _), session.ws_connect("/subscribe") as socket:
        await socket.send_str(said)
        error = await receive(socket, "error")
        assert told in error["error_description"], error
        assert 400 <= error["status_code"] < 500
        await socket.send_json({"subscribe": {"sparql": f"SELECT ?o {{ ?s <{ns}p> ?o }}"}})
        assert (await receive(socket, "notification"))["sequence"] == 0


SCRIPT = """
const socket = new WebSocket(process.argv[2]);
socket.onopen = () => socket.send(JSON.stringify({subscribe: {sparql: process.argv[3], alias: "node"}}));
socket.onmessage = (event) => {
  const told = JSON.parse(event.data).notification;
  for (const row of told.addedResults.results.bindings) console.log(row.o.value);
  if (told.sequence === 0) console.log("ready");
  if (told.addedResults.results.bindings.some((row) => row.o.value === "end")) socket.close();
};
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not on this machine")
async def test_a_client_in_another_language(keeping_all, ns, tmp_path):
    (tmp_path / "client.js").write_text(SCRIPT)
    async with gateway(keeping_all[0].address) as (session, _):
        url = f"{session._base_url}/subscribe".replace("http", "ws")
        process = await asyncio.create_subprocess_exec(
            "node", "--experimental-websocket", str(tmp_path / "client.js"), url, f"SELECT ?o {{ ?s <{ns}p> ?o }}",
            stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        async with asyncio.timeout(SECONDS):
            assert await process.stdout.readline() == b"ready\n"
            for text in ("one", "two", "end"):
                await publish(session, f'<{ns}a> <{ns}p> "{text}" .')
            rest, _ = await process.communicate()
    assert (rest.decode().split(), process.returncode) == (["one", "two", "end"], 0)


# --- permissions -------------------------------------------------------------------------------------------


async def test_tokens_allow_their_own_actions_and_no_others(keeping_all, ns):
    permissions = {
        "reader-reader-reader": {Permission.READ}, "writer-writer-writer": {Permission.WRITE},
        "both-both-both-both": {Permission.READ, Permission.WRITE}, "unknown-unknown-unk": set(),
    }  # fmt: skip
    known = {_digest(token): Token(frozenset(held)) for token, held in permissions.items() if held}
    asked = {
        Permission.READ: [("GET", "/sparql", {"params": {"query": "ASK { <urn:a> <urn:b> <urn:c> }"}}),
                     ("GET", "/status", {}), ("GET", "/events", {"params": {"query": "SELECT * { ?s <urn:p> ?o }"}})],
        Permission.WRITE: [("POST", "/publish", {"data": "", "headers": {"Content-Type": "text/turtle"}}),
                      ("POST", "/retract", {"data": "", "headers": {"Content-Type": "text/turtle"}}),
                      ("POST", "/sparql", {"data": {"update": "DELETE DATA { <urn:a> <urn:b> <urn:c> }"}})],
    }  # fmt: skip
    async with gateway(keeping_all[0].address, tokens=known) as (session, _):
        for right, requests in asked.items():
            for method, path, arguments in requests:
                for token, held in [*permissions.items(), (None, set())]:
                    headers = {**arguments.get("headers", {})}
                    if token is not None:
                        headers["Authorization"] = f"Bearer {token}"
                    async with session.request(method, path, **{**arguments, "headers": headers}) as answer:
                        if right in held:
                            assert answer.status in (200, 204), await answer.text()
                        elif held:
                            assert right in await problem(answer, 403)
                        else:
                            await problem(answer, 401)
                            assert answer.headers["WWW-Authenticate"].startswith("Bearer")
        async with session.ws_connect("/subscribe") as socket:
            wanted = {"sparql": f"SELECT ?o {{ ?s <{ns}p> ?o }}"}
            for token, status in ((None, 401), ("writer-writer-writer", 403)):
                await socket.send_json({"subscribe": {**wanted, "authorization": f"Bearer {token}"}})
                assert (await receive(socket, "error"))["status_code"] == status
            await socket.send_json({"subscribe": {**wanted, "authorization": "Bearer reader-reader-reader"}})
            assert (await receive(socket, "notification"))["sequence"] == 0
        for path in ("/healthz", "/readyz", "/openapi.json"):
            async with session.get(path) as answer:
                assert answer.status == 200


async def test_scripts_of_other_web_sites_are_kept_out(keeping_all):
    ask = {"params": {"query": "ASK { <urn:a> <urn:b> <urn:c> }"}}
    async with gateway(keeping_all[0].address, origins=["https://app.example"]) as (session, _):
        own = f"http://127.0.0.1:{session._base_url.port}"
        for headers, status in (
            ({}, 200), ({"Origin": own}, 200), ({"Origin": "https://evil.example"}, 403), ({"Origin": "null"}, 403),
            ({"Sec-Fetch-Site": "cross-site"}, 403), ({"Sec-Fetch-Site": "same-origin"}, 200),
            ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "document"}, 200), ({"Sec-Fetch-Site": "none"}, 200),
            ({"Host": "evil.example"}, 403), ({"Host": "localhost:7480"}, 200), ({"Host": ""}, 403),
        ):  # fmt: skip
            async with session.get("/sparql", **ask, headers=headers) as answer:
                assert answer.status == status, headers
        async with session.get("/sparql", **ask, headers={"Origin": "https://app.example"}) as answer:
            assert answer.headers["Access-Control-Allow-Origin"] == "https://app.example"
        async with session.options(
            "/publish", headers={"Origin": "https://app.example", "Access-Control-Request-Method": "POST"}
        ) as answer:
            assert answer.status == 204
            assert answer.headers["Access-Control-Allow-Headers"] == (
                "Authorization, Content-Type, Idempotency-Key, Last-Event-ID, traceparent"
            )
            assert answer.headers["Access-Control-Allow-Methods"] == "GET, HEAD, POST, PUT, PATCH, DELETE"
            assert answer.headers["Access-Control-Expose-Headers"] == "Allow, Location, Retry-After, WWW-Authenticate"
            assert answer.headers["Access-Control-Max-Age"] == "600"
        async with session.options(
            "/publish", headers={"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
        ) as answer:
            assert "evil.example" in await problem(answer, 403)
            assert "Access-Control-Allow-Origin" not in answer.headers


# --- the whole ---------------------------------------------------------------------------------------------------


async def test_the_root_is_a_page_for_browsers_and_names_the_paths_to_programs(keeping_all):
    async with gateway(keeping_all[0].address) as (session, app):
        for accept in ("text/html,application/xhtml+xml,*/*;q=0.8", "application/json;q=0.5, text/html"):
            async with session.get("/", headers={"Accept": accept}) as answer:
                assert (answer.status, answer.content_type) == (200, "text/html")
                assert 'href="/console"' in await answer.text()
        for accept in ("*/*", "application/json", "", "text/html;q=0.1, application/json"):
            async with session.get("/", headers={"Accept": accept}) as answer:
                index = await answer.json()
        assert index["console"] == "/console"
        assert set(index.values()) <= {route.resource.canonical for route in app.router.routes()}
        async with session.get("/", headers={"Accept": "image/png"}) as answer:
            assert "text/html" in await problem(answer, 406)


async def test_options_are_the_methods_that_there_are(keeping_all):
    async with gateway(keeping_all[0].address) as (session, _):
        for path, methods in description()["paths"].items():
            path = path.replace("{name}", "main.js")
            async with session.options(path) as answer:
                assert answer.status == 204
                allowed = set(answer.headers["Allow"].lower().split(", "))
            assert "options" in allowed
            assert allowed - {"head", "options"} == set(methods)
            assert ("head" in allowed) == ("get" in allowed)
            async with session.request("PROPFIND", path) as answer:
                await problem(answer, 405)
                assert set(answer.headers["Allow"].lower().split(",")) == allowed


async def test_head_is_answered_with_the_status_and_headers_of_get_and_no_body(keeping_all, ns):
    construct = f"CONSTRUCT {{ ?s <{ns}q> ?o }} {{ ?s <{ns}p> ?o }}"
    paths = ["/", "/console", "/console/nothing", "/status", "/openapi.json", "/metrics", "/sparql", "/subscribe",
             "/.well-known/void", "/graphs?default"]  # fmt: skip
    asked = [(path, None) for path in paths] + [
        ("/sparql", {"query": query}) for query in (f"SELECT * {{ ?s <{ns}p> ?o }}", "ASK { }", construct, "SELECT * {")
    ]
    async with gateway(keeping_all[0].address) as (session, _):
        await publish(session, turtle(ns))
        for path, parameters in asked:
            async with session.get(path, params=parameters, allow_redirects=False) as answer:
                status, kind = answer.status, answer.headers.get("Content-Type")
            async with session.head(path, params=parameters) as answer:
                assert (answer.status, answer.headers.get("Content-Type")) == (status, kind), path
                assert await answer.read() == b""
        async with session.head("/events", params={"query": "ASK { }"}) as answer:
            assert (answer.status, answer.content_type) == (200, "text/event-stream")


async def test_parameters_choose_the_graphs_of_queries_events_and_sockets(keeping_all, ns):
    query, graph = f"SELECT ?o FROM <{ns}h> {{ ?s <{ns}p> ?o }}", f"{ns}g"
    async with gateway(keeping_all[0].address) as (session, _):
        for number, name in enumerate((None, f"{ns}g", f"{ns}h")):
            await publish(session, f"<{ns}a> <{ns}p> {number} .", **({} if name is None else {"graph": name}))
        parameters = {"query": query, "default-graph-uri": graph}
        async with session.get("/sparql", params=parameters, headers={"Accept": "text/csv"}) as answer:
            assert await answer.text() == "o\r\n1\r\n"
        async with session.get("/events", params={**parameters, "since": "beginning"}) as answer:
            events = Events(answer)
            await events.next()
            assert objects_of((await events.next())[1], "addedResults") == ["1"]
        async with session.ws_connect("/subscribe") as socket:
            await socket.send_json({"subscribe": {"sparql": query, "default-graph-uri": [graph]}})
            assert objects_of(await receive(socket, "notification"), "addedResults") == ["1"]


async def test_parameters_of_updates_are_refused_by_name_and_empty_parameters_are_ignored(keeping_all):
    names = ("default-graph-uri", "named-graph-uri", "using-graph-uri", "using-named-graph-uri")
    async with gateway(keeping_all[0].address) as (session, _):
        empty = dict.fromkeys(names, "")
        async with session.get("/sparql", params={"query": "ASK { }", **empty}) as answer:
            assert answer.status == 200
        async with session.post("/sparql", params=empty, data={"query": "ASK { }", **empty}) as answer:
            assert (answer.status, answer.headers["Vary"]) == (200, "Accept, Accept-Encoding")
        for name in names[2:]:
            for arguments in ({"params": {name: "urn:g"}, "data": {"query": "ASK { }"}},
                              {"data": {"query": "ASK { }", name: "urn:g"}}):  # fmt: skip
                async with session.post("/sparql", **arguments) as answer:
                    said = await answer.json(content_type="application/problem+json")
                    assert (answer.status, said["construct"]) == (400, name)
        for arguments in ({"params": {"query": "ASK { }"}, "data": {"query": "ASK { }"}},
                          {"params": {"query": "ASK { }"}, "data": "ASK { }", "headers": ASKED}):  # fmt: skip
            async with session.post("/sparql", **arguments) as answer:
                assert "not 2" in await problem(answer, 400)


async def test_the_description_names_all_that_is_served(keeping_all):
    async with gateway(keeping_all[0].address) as (session, app):
        async with session.get("/openapi.json") as answer:
            told = await answer.json()
        served = {(route.resource.canonical, route.method.lower()) for route in app.router.routes()}
        served = {(path, method) for path, method in served if method not in ("head", "options")}
    assert told == description()
    assert {(path, method) for path, methods in told["paths"].items() for method in methods} == served


async def test_every_bad_request_is_answered_with_the_reason(keeping_all):
    """Requests drawn from the description, and bytes that are no request: none is answered with a failure."""
    rng, paths, seen = Random(11), description()["paths"], set()
    texts = ["", "x", "SELECT * { ?s ?p ?o } LIMIT 1", "ASK { <urn:a> <urn:b> <urn:c> }", "urn:g", "\x00\ud7ff", "-1",
             "<urn:a> <urn:b> <urn:c> .", "{" * 3000, "indexed", "now", "é" * 500, "%%%", "1e999", "nan"]  # fmt: skip
    kinds = ["text/turtle", "application/sparql-query", "application/sparql-update", "application/n-quads", "nonsense",
             "application/x-www-form-urlencoded", "multipart/form-data; boundary=x",
             "text/turtle; charset=utf-7"]  # fmt: skip
    async with gateway(keeping_all[0].address, query_seconds_max=2.0) as (session, _):
        for _ in range(400):
            path = rng.choice(sorted(paths))
            method = rng.choice([*paths[path], "delete", "patch", "head"])
            parameters = paths[path].get(method, {}).get("parameters", ())
            query = [(each["name"], rng.choice(texts)) for each in parameters if rng.random() < 0.6]
            headers = {"Content-Type": rng.choice(kinds)} if rng.random() < 0.8 else {}
            if rng.random() < 0.3:
                headers[rng.choice(["Accept", "Last-Event-ID", "Idempotency-Key", "Authorization", "Range"])] = "x;q=,/"
            data = rng.choice(texts).encode(errors="replace") if rng.random() < 0.7 else None
            async with session.request(method, path, params=query, headers=headers, data=data) as answer:
                seen.add(answer.status)
                assert answer.status < 500, (method, path, query, headers, data, await answer.text())
        for _ in range(50):
            with socket.create_connection(("127.0.0.1", session._base_url.port)) as raw:
                raw.settimeout(SECONDS)
                raw.sendall(rng.randbytes(rng.randint(1, 2000)) + b"\r\n\r\n")
                raw.shutdown(socket.SHUT_WR)
                said = await asyncio.to_thread(raw.recv, 100)
                assert said.startswith((b"HTTP/1.1 4", b"HTTP/1.0 4")) or not said
        async with session.get("/readyz") as answer:
            assert answer.status == 200
    assert {200, 400, 405, 415} <= seen


@pytest.mark.parametrize(("header", "status"), [
    (b"Accept: \xff", 406), (b"Origin: http://\xff", 403), (b"Origin: http://[", 403), (b"Origin: null", 403),
    (b"Authorization: Bearer \xff\xff", 401),
])  # fmt: skip
async def test_bytes_that_are_no_characters_are_reported_and_break_nothing(keeping_all, header, status):
    known = {_digest("reader-reader-reader"): Token(frozenset({Permission.READ}))}
    async with gateway(keeping_all[0].address, tokens=known) as (session, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", session._base_url.port)
        token = b"" if header.startswith(b"Authorization") else b"Authorization: Bearer reader-reader-reader\r\n"
        asked = b"GET /sparql?query=ASK%7B%3Curn:a%3E%3Curn:b%3E%3Curn:c%3E%7D HTTP/1.1\r\n"
        host = b"" if header.endswith(b"null") else b"localhost"
        writer.write(asked + b"Host: " + host + b"\r\nConnection: close\r\n" + token + header + b"\r\n\r\n")
        said = await asyncio.wait_for(reader.read(), SECONDS)
        writer.close()
    head, _, body = said.partition(b"\r\n\r\n")
    assert head.startswith(f"HTTP/1.1 {status} ".encode()), said
    assert json.loads(body)["status"] == status


async def test_an_answer_that_has_begun_is_broken_off_and_has_no_second_one_in_it(keeping_all, ns, monkeypatch):
    async def fails(*_):
        raise ValueError("a bug")

    monkeypatch.setattr("p2prdf.gateway.events._EventWriter._write_batch", fails)
    monkeypatch.setattr("p2prdf.gateway.sockets._Socket._handle", fails)
    async with gateway(keeping_all[0].address) as (session, _):
        async with session.get("/events", params={"query": f"SELECT ?o {{ ?s <{ns}p> ?o }}"}) as answer:
            assert (await Events(answer).next())[0] == "opened"
            await publish(session, f"<{ns}a> <{ns}p> 1 .")
            with pytest.raises(aiohttp.ClientPayloadError):
                await asyncio.wait_for(answer.read(), SECONDS)
        async with session.ws_connect("/subscribe") as socket:
            await socket.send_str("{}")
            told = await asyncio.wait_for(socket.receive(), SECONDS)
            assert told.type is aiohttp.WSMsgType.CLOSED, told


async def test_the_command_ends_its_streams_and_sockets_when_it_stops(keeping_all, ns):
    process = await GatewayProcess.start(keeping_all[0].address, "--announce", "0.5")
    try:
        async with aiohttp.ClientSession() as session, asyncio.timeout(SECONDS):
            asked = session.get(f"{process.url}/events", params={"query": f"SELECT * {{ ?s <{ns}p> ?o }}"})
            async with asked as answer, session.ws_connect(f"{process.url}/subscribe") as told:
                events = Events(answer)
                assert (await events.next())[0] == "opened"
                process.process.send_signal(signal.SIGTERM)
                while True:
                    async with session.get(f"{process.url}/readyz") as ready:
                        if ready.status == 503:
                            assert "is stopping" in await problem(ready, 503)
                            break
                async with session.get(f"{process.url}/healthz") as healthy:
                    assert healthy.status == 200
                assert (await events.next())[0] == "leaving"
                assert (await told.receive()).type is aiohttp.WSMsgType.CLOSE
            assert await process.process.wait() == 143
    finally:
        await process.kill()


@pytest.mark.parametrize(("words", "code", "told"), [
    (("--listen", "0.0.0.0:0"), 4, "give --tokens"), (("--listen", "nowhere"), 4, "not host:port"),
    (("--peer", "127.0.0.1:1"), 3, "unavailable"), (("--allow-host", "h"), 4, "are for webhooks: --webhooks FILE"),
    (("--webhooks", "/nowhere/keys"), 4, "/nowhere/keys: signing keys cannot be read"),
    (("--webhooks", __file__, "--allow-host", "a/b"), 4, "not a host or host:port: 'a/b'"),
])  # fmt: skip
async def test_the_command_says_why_it_does_not_begin(keeping_all, words, code, told):
    peer = () if "--peer" in words else ("--peer", keeping_all[0].address)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "p2prdf_cli", "serve", "gateway", *peer, *words, stderr=asyncio.subprocess.PIPE
    )
    _, said = await process.communicate()
    assert (process.returncode, told in said.decode()) == (code, True), said


async def test_metrics_equal_the_status_of_node_and_gateway(keeping_all, ns):
    async with gateway(keeping_all[0].address) as (session, _):
        await publish(session, f"<{ns}a> <{ns}p> 1, 2, 3 .")
        async with session.get("/events", params={"query": f"SELECT * {{ ?s <{ns}p> ?o }}"}) as answer:
            assert (await Events(answer).next())[0] == "opened"
            async with session.get("/status") as answer:
                state = await answer.json()
            async with session.get("/metrics") as answer:
                assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
                text = await answer.text()
    lines = text.splitlines()
    told = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    for metric in METRICS:
        has = metric.of in ("", "a view")
        assert (f"# TYPE {metric.name} {metric.kind}" in lines) == has, f"{metric.name}: does the node tell that?"
    within = [float(count) for name, count in told.items() if name.startswith("p2prdf_publication_seconds_bucket")]
    counted = [float(told[f'p2prdf_publication_seconds_count{{level="{level}"}}']) for level in ("indexed", "accepted")]
    assert 0 < sum(counted) <= state["clients"]["publications"]  # those that failed have no time
    assert within[: len(within) // 2] == sorted(within[: len(within) // 2])
    assert within[len(within) // 2 - 1] == counted[0]
    assert told["p2prdf_published_total"] == str(state["peer"]["published"])
    assert told["p2prdf_in_sync"] == "1"
    assert told["p2prdf_peers"] == "4"
    assert told["p2prdf_gateway_subscribers"] == "1"
    assert told['p2prdf_gateway_requests_total{path="/publish",status="200"}'] == "1"


async def test_the_time_of_acknowledgements_is_a_metric(keeping_all, ns):
    async with p2prdf.connect(keeping_all[3].address) as client, gateway(keeping_all[3].address) as (session, _):

        async def counts():
            async with session.get("/metrics") as answer:
                lines = (await answer.text()).splitlines()
            told = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
            names = ('publication_seconds_count{level="accepted"}', "solution_acknowledged_seconds_count")
            return [int(told[f"p2prdf_{name}"]) for name in names]

        before = await counts()
        subscription = await client.subscribe(f"SELECT * {{ ?s <{ns}p> ?o }}", auto_acknowledge=False)
        for number in range(3):
            await client.publish([(f"<{ns}s>", f"<{ns}p>", f'"{number}"')], acknowledge="accepted")
            async with asyncio.timeout(SECONDS):
                await anext(subscription)
        assert await counts() == [before[0] + 3, before[1]]
        subscription.acknowledge()
        async with asyncio.timeout(SECONDS):
            while await counts() != [before[0] + 3, before[1] + 3]:
                await asyncio.sleep(0.02)
        await subscription.unsubscribe()


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed (Debian: prometheus)")
async def test_prometheus_own_tool_finds_nothing_wrong_with_names_and_types(keeping_all):
    async with gateway(keeping_all[0].address) as (session, _), session.get("/metrics") as answer:
        told = await answer.read()
    check = await asyncio.create_subprocess_exec(
        "promtool", "check", "metrics", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    said, _ = await check.communicate(told)
    assert (check.returncode, said.decode()) == (0, "")
