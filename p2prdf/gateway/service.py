"""Descriptions of the service and its data: SPARQL 1.1 Service Description and VoID.

A GET of the endpoint without a query is answered with the service description, in any format of graphs.  It names the
languages, the formats, and the paths for standing queries and graphs.  ``/.well-known/void`` describes the data set
("Describing Linked Datasets with the VoID Vocabulary", 7.2).  Both use the host of the request, so they are right
behind any number of gateways.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from aiohttp import web

from p2prdf.client import Result
from p2prdf.gateway import sparql
from p2prdf.gateway.sparql import GRAPH_TYPES, accepted, write_graph
from p2prdf.gateway.state import GATEWAY
from p2prdf.rdf import terms
from p2prdf.rdf.terms import RDF

__all__ = ["VOCABULARY", "endpoint", "void"]

VOCABULARY: Final = "urn:x-p2prdf:"
"""Prefix of the terms for which there is no standard vocabulary."""
_SD: Final = "http://www.w3.org/ns/sparql-service-description#"
_VOID: Final = "http://rdfs.org/ns/void#"
_FORMATS: Final = "http://www.w3.org/ns/formats/"
_RESULTS: Final = ("SPARQL_Results_JSON", "SPARQL_Results_XML", "SPARQL_Results_CSV", "SPARQL_Results_TSV")
_GRAPHS: Final = ("N-Triples", "N-Quads", "Turtle", "TriG", "RDF_XML", "JSON-LD")
_TITLE: Final = "http://purl.org/dc/terms/title"
_SEE_ALSO: Final = "http://www.w3.org/2000/01/rdf-schema#seeAlso"

_Property = tuple[str, str]


async def endpoint(request: web.Request) -> web.StreamResponse:
    """Answer a query in the URL, or describe the service if the URL has no parameters."""
    if request.query_string:
        return await sparql.handle(request)
    base = f"{request.scheme}://{request.host}"
    return await _answer(request, [*_service(base, webhooks=request.app[GATEWAY].webhooks is not None), *_data(base)])


async def void(request: web.Request) -> web.StreamResponse:
    """Describe the data set."""
    return await _answer(request, list(_data(f"{request.scheme}://{request.host}")))


def _service(base: str, *, webhooks: bool) -> Iterator[tuple[str, str, str]]:
    """Yield the triples about the service, with canonical terms."""
    socket = base.replace("http", "ws", 1)
    default = f"{base}/.well-known/void#default"
    yield from _about(f"{base}/sparql", [
        (f"{RDF}type", f"{_SD}Service"), (f"{_SD}endpoint", f"{base}/sparql"),
        (f"{_SD}supportedLanguage", f"{_SD}SPARQL11Query"), (f"{_SD}supportedLanguage", f"{_SD}SPARQL11Update"),
        *((f"{_SD}resultFormat", _FORMATS + each) for each in (*_RESULTS, *_GRAPHS)),
        *((f"{_SD}inputFormat", _FORMATS + each) for each in _GRAPHS),
        (f"{_SD}defaultDataset", _dataset(base)),
        (f"{_SD}feature", f"{VOCABULARY}StandingQueries"), (f"{_SD}feature", f"{VOCABULARY}GraphStore"),
        (f"{VOCABULARY}serverSentEvents", f"{base}/events"), (f"{VOCABULARY}webSocket", f"{socket}/subscribe"),
        *([(f"{VOCABULARY}webhooks", f"{base}/webhooks")] if webhooks else []),
        (f"{VOCABULARY}graphStore", f"{base}/graphs"), (_SEE_ALSO, f"{base}/openapi.json"),
    ])  # fmt: skip
    for feature in ("StandingQueries", "GraphStore"):
        yield from _about(f"{VOCABULARY}{feature}", [(f"{RDF}type", f"{_SD}Feature")])
    yield from _about(_dataset(base), [(f"{RDF}type", f"{_SD}Dataset"), (f"{_SD}defaultGraph", default)])
    yield from _about(default, [(f"{RDF}type", f"{_SD}Graph")])


def _data(base: str) -> Iterator[tuple[str, str, str]]:
    """Yield the triples about the data set."""
    yield from _about(_dataset(base), [
        (f"{RDF}type", f"{_VOID}Dataset"), (f"{_VOID}sparqlEndpoint", f"{base}/sparql"),
        *((f"{_VOID}feature", _FORMATS + each) for each in _GRAPHS),
    ])  # fmt: skip
    yield terms.iri(_dataset(base)), terms.iri(_TITLE), terms.literal("Data of a p2prdf overlay", language="en")


def _dataset(base: str) -> str:
    return f"{base}/.well-known/void#data"


def _about(subject: str, properties: list[_Property]) -> Iterator[tuple[str, str, str]]:
    for name, value in properties:
        yield terms.iri(subject), terms.iri(name), terms.iri(value)


async def _answer(request: web.Request, triples: list[tuple[str, str, str]]) -> web.StreamResponse:
    media_type, wanted = accepted(request, {"text/turtle": GRAPH_TYPES["text/turtle"], **GRAPH_TYPES})
    rows: list[tuple[str | None, ...]] = [*triples]
    return await write_graph(request, media_type, wanted, Result(("subject", "predicate", "object"), rows, 0.0))
