"""No publication, query or subscription makes a process contact a server that it names, or read a file."""

from __future__ import annotations

import asyncio
import io
import json

import aiohttp
import pytest
from canaries import canary_server
from gateways import gateway

import p2prdf
from p2prdf.channels.query import parse_channel
from p2prdf.client import Updated
from p2prdf.errors import DataRefused, P2PRDFError, QueryRefused
from p2prdf.interest.expression import parse_interest
from p2prdf.rdf.ntriples import Syntax, read_triples
from p2prdf.rdf.standing.conjunctive import parse_select
from p2prdf.rdf.standing.query import parse_query
from p2prdf.rdf.update import parse_update
from p2prdf.rdf.update_operations import Modify
from p2prdf.reasoning import parse_rules
from p2prdf.reasoning.ruled_query import parse_ruled

QUERIES = {
    "SERVICE": "SELECT * {{ SERVICE <{0}> {{ ?s ?p ?o }} }}",
    "SERVICE SILENT": "ASK {{ ?s <urn:reaching> ?o OPTIONAL {{ SERVICE SILENT <{0}> {{ ?s ?p ?o }} }} }}",
    "SERVICE below EXISTS": "ASK {{ ?s <urn:p> ?o FILTER EXISTS {{ SERVICE <{0}> {{ ?s ?p ?o }} }} }}",
    "SERVICE by a variable": "SELECT * {{ VALUES ?x {{ <{0}> }} SERVICE ?x {{ ?s ?p ?o }} }}",
}
SILENT = ("SERVICE SILENT",)
"""Queries that are answered once without the call."""
UPDATES = {
    "LOAD": "LOAD <{0}>", "LOAD a file": "LOAD <file:///etc/passwd>",
    "SERVICE in WHERE": "INSERT {{ ?s <urn:q> ?o }} WHERE {{ SERVICE <{0}> {{ ?s ?p ?o }} }}",
}  # fmt: skip
WITHOUT_EFFECT = {
    "LOAD SILENT": "LOAD SILENT <{0}> INTO GRAPH <urn:g>",
    "USING": "DELETE {{ ?s ?p ?o }} USING <{0}> WHERE {{ ?s ?p ?o }}",
}
READ_AS_NAMES = {
    "DESCRIBE": "DESCRIBE <{0}> FROM <{0}>",
    "FROM": "SELECT * FROM <{0}> {{ ?s <urn:p> ?o }}",
    "FROM NAMED": "SELECT * FROM NAMED <{0}> {{ GRAPH <{0}> {{ ?s <urn:p> ?o }} }}",
    "GRAPH": "SELECT * {{ GRAPH <{0}> {{ ?s <urn:p> ?o }} }}",
    "BASE and PREFIX": "BASE <{0}> PREFIX x: <{0}x#> SELECT * {{ <a> x:p ?o }}",
}
"""Updates that name another server."""
RULES = "{{ ?s <urn:p> ?o . SERVICE <{0}> {{ ?s ?p ?o }} }} => {{ ?s <urn:q> ?o }} ."
BODIES = {
    "text/turtle": "@base <{0}> . @prefix x: <{0}x#> . <> <http://www.w3.org/2002/07/owl#imports> <a> ; x:p x:o .",
    "application/trig": "@base <{0}> . <g> {{ <> <http://www.w3.org/2002/07/owl#imports> <a> }}",
    "application/n-triples": "<{0}s> <http://www.w3.org/2000/01/rdf-schema#seeAlso> <{0}o> .\n",
    "application/n-quads": "<{0}s> <http://www.w3.org/2000/01/rdf-schema#seeAlso> <{0}o> <{0}g> .\n",
}
ENTITIES = (
    '<!DOCTYPE r [<!ENTITY x SYSTEM "{0}">]>{1}&x;{2}', '<!DOCTYPE r SYSTEM "{0}">{1}x{2}',
    '<!DOCTYPE r [<!ENTITY % x SYSTEM "{0}"> %x;]>{1}x{2}',
    '<!DOCTYPE r [<!ENTITY x SYSTEM "file:///etc/passwd">]>{1}&x;{2}',
)  # fmt: skip
_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_XML = (
    f'<r:RDF xmlns:r="{_RDF}" xmlns:u="urn:u:"><r:Description r:about="urn:s"><u:p>',
    "</u:p></r:Description></r:RDF>",
)
UNREAD = {
    "application/rdf+xml": (ENTITIES[0], 400), "text/html": ("<link href='{0}'>", 415),
    "application/ld+json": ('{{"@context": "{0}", "@id": "urn:s", "urn:p": 1}}', 400),
}
"""Bodies that are refused, by media type, with the status."""
PARSERS = {
    "conjunctive": parse_select, "left standing": parse_query, "with rules": parse_ruled, "an interest": parse_interest,
    "a channel": parse_channel,
}  # fmt: skip


@pytest.mark.parametrize("text", [*QUERIES.values(), RULES], ids=[*QUERIES, "a rule"])
@pytest.mark.parametrize("reader", PARSERS)
def test_no_reader_of_queries_accepts_a_reference_to_another_server(reader, text):
    with pytest.raises(QueryRefused):
        PARSERS[reader](text.format("http://127.0.0.1:9/"))


@pytest.mark.parametrize("text", [*UPDATES.values(), *WITHOUT_EFFECT.values()], ids=[*UPDATES, *WITHOUT_EFFECT])
def test_the_query_of_an_update_names_no_server(text):
    try:
        operations = parse_update(text.format("http://127.0.0.1:9/"), scope="x")
    except QueryRefused:
        return
    assert not any("SERVICE" in each.query for each in operations if isinstance(each, Modify))


@pytest.mark.parametrize("text", [RULES, "{{ ?s <urn:p> ?o }} => {{ LOAD <{0}> }} .", "LOAD <{0}>"])
def test_no_rule_names_another_server(text):
    with pytest.raises(QueryRefused):
        parse_rules(text.format("http://127.0.0.1:9/"))


@pytest.mark.parametrize("text", ENTITIES)
async def test_entities_of_rdf_xml_are_not_fetched(text):
    """Files are read with RDF/XML; an external entity stays undefined, which ends the file."""
    async with canary_server() as canary:
        data = text.format(canary.url, *_XML).encode()

        def read():
            batches = read_triples(io.BytesIO(data), publication_id="x", syntax=Syntax.RDF_XML, strict=True)
            return [term for batch in batches for column in (batch.s, batch.p, batch.o) for term in column]

        try:
            found = await asyncio.to_thread(read)
        except DataRefused:
            found = []
        assert not any("root:" in term for term in found)
        assert canary.hits == []


async def test_a_canary_records_every_request():
    async with canary_server() as canary, aiohttp.ClientSession() as session, session.get(canary.url) as answer:
        assert answer.status == 200
        assert canary.hits == [b"GET / HTTP/1.1\r\n"]


async def test_a_node_and_a_gateway_ask_no_server_that_a_request_names(keeping_all):
    """By every way in: queries, subscriptions, updates and rules of a client, all forms of the gateway."""
    async with canary_server() as canary:
        refused = [text.format(canary.url) for name, text in QUERIES.items() if name not in SILENT]
        left_out = [QUERIES[name].format(canary.url) for name in SILENT]
        loads = [text.format(canary.url) for text in UPDATES.values()]
        silent = [text.format(canary.url) for text in WITHOUT_EFFECT.values()]
        names = [text.format(canary.url) for text in READ_AS_NAMES.values()]
        async with p2prdf.connect(keeping_all[0].address) as client:
            for text in refused:
                for ask in (client.query, client.subscribe, client.explain):
                    with pytest.raises(QueryRefused):
                        await ask(text)
            for text in left_out:
                assert (await client.query(text)).rows == []
                for ask in (client.subscribe, client.explain):
                    with pytest.raises(QueryRefused):
                        await ask(text)
            for text in loads:
                with pytest.raises(QueryRefused):
                    await client.update(text)
            for text in silent:
                assert await client.update(text) == Updated(0, 0)
            for text in names:
                assert (await client.query(text)).rows == []
            with pytest.raises(P2PRDFError):
                await client.query("ASK { ?s ?p ?o }", rules=RULES.format(canary.url))
        async with gateway(keeping_all[1].address) as (session, _):
            assert set(await _asked(session, refused, "query")) == {400}
            assert set(await _asked(session, [*names, *left_out], "query")) == {200}
            assert set(await _asked(session, loads, "update")) == {400}
            assert set(await _asked(session, silent, "update")) == {200}
            for kind, body in BODIES.items():
                assert await _posted(session, body.format(canary.url), kind) == 200
            for kind, (body, status) in UNREAD.items():
                assert await _posted(session, body.format(canary.url, *_XML), kind) == status
            params = {"query": "ASK {}", "default-graph-uri": canary.url, "named-graph-uri": canary.url}
            async with session.get("/sparql", params=params) as answer:
                assert answer.status == 200
            async with session.ws_connect("/subscribe") as socket:
                for text in [*refused, *left_out, *loads]:
                    await socket.send_str(json.dumps({"subscribe": {"sparql": text}}))
                    assert "error" in (await socket.receive_json(timeout=60))
        assert canary.hits == []


async def _asked(session, texts, what):
    """Ask by all forms that the protocol has; return the statuses."""
    found = []
    for text in texts:
        given = {what: text}
        kind = {"Content-Type": f"application/sparql-{what}"}
        ways = [("POST", "/sparql", {"data": given}), ("POST", "/sparql", {"data": text, "headers": kind})]
        if what == "query":
            ways += [("GET", "/sparql", {"params": given})]
        for method, path, how in ways:
            async with session.request(method, path, **how) as answer:
                found.append(answer.status)
    return found


async def _posted(session, body, kind):
    async with session.post("/publish", data=body, headers={"Content-Type": kind}) as answer:
        return answer.status
