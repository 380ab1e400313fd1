"""The description of the service and its data, the page with links, and compressed responses."""

from __future__ import annotations

import asyncio
import gzip
import re
import shutil

import aiohttp
import pyoxigraph as ox
import pytest
from compression import zstd_expanded
from gateways import gateway

from p2prdf.gateway.access import Permission, Token, _digest
from p2prdf.gateway.sparql import GRAPH_TYPES

SD = "http://www.w3.org/ns/sparql-service-description#"
FORMATS = {
    "application/n-triples": ox.RdfFormat.N_TRIPLES, "text/plain": ox.RdfFormat.N_TRIPLES,
    "text/turtle": ox.RdfFormat.TURTLE, "application/rdf+xml": ox.RdfFormat.RDF_XML,
    "application/ld+json": ox.RdfFormat.JSON_LD, "application/trig": ox.RdfFormat.TRIG,
    "application/n-quads": ox.RdfFormat.N_QUADS,
}  # fmt: skip


async def described(session, path, accept=None, status=200):
    """Return the triples of a description."""
    headers = {} if accept is None else {"Accept": accept}
    async with session.get(path, headers=headers) as answer:
        assert answer.status == status
        return {
            (each.subject.value, each.predicate.value, each.object.value)
            for each in ox.parse(await answer.read(), format=FORMATS[answer.content_type])
        }


async def test_service_description_in_all_formats_names_endpoint_languages_and_formats(keeping_all):
    """W3C's tests of service descriptions: a GET returns RDF, with a triple for the endpoint, after the schema."""
    async with gateway(keeping_all[0].address) as (session, _):
        endpoint = f"{session._base_url}".rstrip("/") + "/sparql"
        found = await described(session, "/sparql")
        assert (endpoint, f"{SD}endpoint", endpoint) in found
        assert {*FORMATS, "application/x-jelly-rdf"} == set(GRAPH_TYPES)
        for kind in FORMATS:
            assert await described(session, "/sparql", kind) == found
        values = {name: {o for _, p, o in found if p == SD + name} for name in ("supportedLanguage", "resultFormat")}
        assert values["supportedLanguage"] == {f"{SD}SPARQL11Query", f"{SD}SPARQL11Update"}
        assert "http://www.w3.org/ns/formats/SPARQL_Results_JSON" in values["resultFormat"]
        types = {s: o for s, p, o in found if p.endswith("#type") and o.startswith(SD)}
        for name, kind in (("defaultDataset", "Dataset"), ("defaultGraph", "Graph"), ("feature", "Feature")):
            assert {types[o] for _, p, o in found if p == SD + name} == {SD + kind}
        paths = {p.removeprefix("urn:x-p2prdf:"): o for _, p, o in found if p.startswith("urn:x-p2prdf:")}
        assert set(paths) == {"serverSentEvents", "webSocket", "graphStore"}
        assert paths["webSocket"].startswith("ws://127.0.0.1:")
        async with session.ws_connect(paths["webSocket"]), session.head(paths["serverSentEvents"]) as answer:
            assert answer.status == 200
        async with session.get("/sparql", headers={"Accept": "image/png"}) as answer:
            assert answer.status == 406
        async with session.get("/sparql", params={"timeout": "1"}) as answer:
            assert answer.status == 400


async def test_void_names_the_endpoint(keeping_all):
    async with gateway(keeping_all[0].address) as (session, _):
        base = f"{session._base_url}".rstrip("/")
        found = await described(session, "/.well-known/void")
        assert (f"{base}/.well-known/void#data", "http://rdfs.org/ns/void#sparqlEndpoint", f"{base}/sparql") in found
        assert found <= await described(session, "/sparql")


async def test_page_leads_to_paths_that_exist(keeping_all):
    known = {_digest("reader-reader-reader"): Token(frozenset({Permission.READ}))}
    async with gateway(keeping_all[0].address, tokens=known) as (session, _):
        async with session.get("/", headers={"Accept": "text/html"}) as answer:
            text = await answer.text()
            assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
        links = re.findall('href="([^"]+)"', text)
        assert {"/console", "/sparql", "/openapi.json"} <= set(links)
        headers = {"Authorization": "Bearer reader-reader-reader"}
        for link in links:
            async with session.get(link, headers=headers) as answer:
                assert answer.status == 200, link
        for link in ("/sparql", "/.well-known/void"):
            async with session.get(link) as answer:
                assert answer.status == 200, "descriptions need no token"


@pytest.mark.parametrize(("header", "coding"), [
    ("gzip", "gzip"), ("br;q=1, gzip;q=0.5", "gzip"), ("*", "gzip"), ("gzip, zstd", "zstd"), ("", None),
    ("gzip;q=0", None), ("*;q=0", None), ("identity", None), ("gzip;q=0, *", None),
])  # fmt: skip
async def test_long_responses_are_compressed_for_clients_that_accept_it(keeping_all, header, coding):
    unpack = {"gzip": gzip.decompress, "zstd": zstd_expanded}
    if coding == "zstd":
        pytest.importorskip("zstandard", reason="the package zstandard is not installed (extra zstd)")
    async with gateway(keeping_all[0].address) as (session, _):
        url = f"{session._base_url}".rstrip("/")
        values = " ".join(map(str, range(2000)))
        query = {"query": f"SELECT ?x {{ VALUES ?x {{ {values} }} }}"}
        construct = {"query": f"CONSTRUCT {{ <urn:a> <urn:p> ?x }} {{ VALUES ?x {{ {values} }} }}"}
        async with aiohttp.ClientSession(auto_decompress=False) as raw:
            for asked, kind in ((query, "text/csv"), (construct, "application/rdf+xml"), (construct, "text/turtle")):
                headers = {"Accept": kind, "Accept-Encoding": header}
                async with raw.get(f"{url}/sparql", params=asked, headers=headers) as answer:
                    body = await answer.read()
                    assert answer.headers.get("Content-Encoding") == coding
                    assert "Accept-Encoding" in answer.headers["Vary"]
                text = unpack.get(coding, bytes)(body).decode()
                assert "1999" in text
            asked, headers = {"query": "ASK { }"}, {"Accept-Encoding": "gzip"}
            async with raw.get(f"{url}/sparql", params=asked, headers=headers) as answer:
                assert "Content-Encoding" not in answer.headers


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
async def test_curl_reads_the_description_and_a_compressed_result(keeping_all):
    async def curl(*words):
        process = await asyncio.create_subprocess_exec("curl", "-sS", *words, stdout=asyncio.subprocess.PIPE)
        found, _ = await process.communicate()
        return found.decode()

    async with gateway(keeping_all[0].address) as (session, _):
        url = f"{session._base_url}".rstrip("/")
        assert f"<{SD}endpoint>" in await curl(f"{url}/sparql")
        values = " ".join(map(str, range(2000)))
        form = f"query=SELECT ?x {{ VALUES ?x {{ {values} }} }}"
        words = ("--compressed", "-H", "Accept: text/csv", "--data-urlencode", form, "-D", "-")
        told = await curl(*words, f"{url}/sparql")
        assert re.search(r"content-encoding: (gzip|zstd)", told.lower())
        assert "1999" in told
