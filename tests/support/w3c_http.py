"""W3C tests of HTTP interfaces, read from the archive beside the repository and run against a server."""

from __future__ import annotations

import json
import re
import tarfile
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from urllib.parse import quote

import aiohttp
import pyoxigraph as ox
from rdflib import Graph, Namespace
from rdflib.collection import Collection
from yarl import URL

__all__ = ["ARCHIVE", "HttpTest", "Request", "failure", "read_manifest", "read_member"]

ARCHIVE = Path(__file__).parents[2] / "../shared/data/w3c/suites.tar.xz"
_MF = Namespace("http://www.w3.org/2001/sw/DataAccess/tests/test-manifest#")
_UT = Namespace("http://www.w3.org/2009/sparql/tests/test-update#")
_HT = Namespace("http://www.w3.org/2011/http#")
_CNT = Namespace("http://www.w3.org/2011/content#")
_RDFS = Namespace("http://www.w3.org/2000/01/rdf-schema#")
_BASE = "http://example.org/manifest/"
_STATUSES = {each.phrase.replace(" ", "").lower(): each.value for each in HTTPStatus}
_FORMATS = {"text/turtle": ox.RdfFormat.TURTLE, "application/n-triples": ox.RdfFormat.N_TRIPLES}


@dataclass(frozen=True)
class Request:
    """A request and its expected response; ``graph``: the Turtle text of the expected body."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes | None
    statuses: tuple[str, ...]
    boolean: bool | None
    kind: str
    graph: str | None
    location: str


@dataclass(frozen=True)
class HttpTest:
    """A test: requests in order; ``data``: graphs that exist before, as IRI and N-Triples."""

    name: str
    requests: tuple[Request, ...]
    data: tuple[tuple[str, str], ...]


def read_member(name: str) -> str:
    """Return a text file of the archive."""
    with tarfile.open(ARCHIVE) as archive:
        member = next(each for each in archive if each.name.removeprefix("./") == name)
        stream = archive.extractfile(member)
        assert stream is not None
        return stream.read().decode()


def read_manifest(folder: str, name: str) -> list[HttpTest]:
    """Return the tests of a manifest; none if the archive is not there."""
    if not ARCHIVE.exists():
        return []
    graph = Graph()
    graph.parse(data=read_member(f"{folder}/{name}"), format="turtle", publicID=_BASE)
    (entries,) = graph.objects(None, _MF.entries)
    return [_test(graph, folder, each) for each in Collection(graph, entries)]


def _test(graph, folder, test) -> HttpTest:
    action = graph.value(test, _MF.action)
    requests = Collection(graph, graph.value(action, _HT.requests)) if action is not None else ()
    data = []
    for each in graph.objects(test, _UT.graphData):
        file = str(graph.value(each, _UT.graph)).removeprefix(_BASE)
        data.append((str(graph.value(each, _RDFS.label)), read_member(f"{folder}/{file}")))
    return HttpTest(re.split("[#/]", test)[-1], tuple(_request(graph, each) for each in requests), tuple(sorted(data)))


def _request(graph, node) -> Request:
    response = graph.value(node, _HT.resp)
    expected = graph.value(response, _HT.body)
    boolean = graph.value(response, _MF.expectedBoolean)
    return Request(
        str(graph.value(node, _HT.methodName)), str(graph.value(node, _HT.absolutePath)), _headers(graph, node),
        _body(graph, graph.value(node, _HT.body)),
        tuple(str(each).rpartition("#")[2] for each in graph.objects(response, _MF.expectedStatus)),
        None if boolean is None else bool(boolean), str(graph.value(response, _MF.expectedFormat) or ""),
        None if expected is None else str(graph.value(expected, _CNT.chars)),
        str(graph.value(response, _MF.expectedLocation) or ""),
    )  # fmt: skip


def _headers(graph, node) -> dict[str, str]:
    listed = graph.value(node, _HT.headers)
    found = () if listed is None else Collection(graph, listed)
    return {str(graph.value(each, _HT.fieldName)): str(graph.value(each, _HT.fieldValue)) for each in found}


def _body(graph, node) -> bytes | None:
    if node is None:
        return None
    return str(graph.value(node, _CNT.chars)).encode(str(graph.value(node, _CNT.characterEncoding)))


async def failure(session: aiohttp.ClientSession, test: HttpTest, prefix: str, path: str) -> str:
    """Run a test; return the first difference from the expected responses, "" if there is none.

    ``prefix``: the start of the manifest's paths, which ``path`` replaces.
    """
    places: dict[str, str] = {}
    for number, request in enumerate(test.requests):
        url = path + request.path.removeprefix(prefix)
        for name, value in places.items():
            url = url.replace(name, quote(value, safe=""))
        async with session.request(
            request.method, _as_written(session, url), headers=request.headers, data=request.body,
            skip_auto_headers=["Content-Type"],
        ) as response:  # fmt: skip
            body = await response.read()
            said = f"request {number}: {response.status} {body[:300]!r}"
            if not any(_fits(response.status, each) for each in request.statuses):
                return f"{said}: expected {request.statuses}"
            wrong = _difference(request, response, body)
            if wrong:
                return f"{said}: {wrong}"
            if request.location:
                places[request.location] = response.headers.get("Location", "")
    return ""


def _as_written(session: aiohttp.ClientSession, url: str):
    """Return a URL with its escapes as they are; aiohttp leaves them unchanged."""
    return URL(str(session._base_url).rstrip("/") + url, encoded=True)


def _fits(status: int, expected: str) -> bool:
    if expected.startswith("StatusCode"):
        return str(status)[0] == expected.removeprefix("StatusCode")[0]
    return _STATUSES[expected.lower()] == status


def _difference(request: Request, response: aiohttp.ClientResponse, body: bytes) -> str:
    kind = response.content_type
    if request.boolean is not None and json.loads(body)["boolean"] is not request.boolean:
        return f"not {request.boolean}"
    if request.kind == "RDF" and kind not in ("application/n-triples", "text/turtle", "application/rdf+xml"):
        return f"{kind} is no format of RDF"
    if request.kind in ("tabular", "boolean") and kind != "application/sparql-results+json":
        return f"{kind} is no format of results"
    if request.graph is not None:
        wanted = ox.Dataset(ox.parse(request.graph, format=ox.RdfFormat.TURTLE))
        found = ox.Dataset(ox.parse(body, format=_FORMATS[kind]))
        for each in (wanted, found):
            each.canonicalize(ox.CanonicalizationAlgorithm.UNSTABLE)
        if wanted != found:
            return "another graph"
    return ""
