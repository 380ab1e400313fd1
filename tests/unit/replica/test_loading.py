"""Documents of LOAD: their formats, bounds and hosts."""

from __future__ import annotations

import asyncio
import bz2
import gzip
import lzma

import pytest
from aiohttp import web
from web_site import served

from p2prdf.errors import DataRefused, QueryRefused, TargetRefused, Unavailable
from p2prdf.rdf.remote_contexts import Fetched
from p2prdf.replica.hosts import Hosts
from p2prdf.replica.loading import WebLoader

TURTLE = b"@prefix : <urn:> . :a :p <b> , [ :q 1 ] ."
XML = (
    b'<r:RDF xmlns:r="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:u="urn:">'
    b'<r:Description r:about="urn:a"><u:p>x</u:p></r:Description></r:RDF>'
)
BOMB = b"<!DOCTYPE r [" + b"".join(
    b'<!ENTITY e%d "%s">' % (n, b"&e%d;" % (n - 1) * 50 if n else b"x" * 100) for n in range(6)
) + b"]>" + XML.replace(b">x<", b">&e5;<")
DOCUMENTS = {
    "/d.ttl": (TURTLE, {"Content-Type": "text/turtle"}), "/d.nt": (b"<urn:a> <urn:p> _:b .\n", {}),
    "/plain.nt": (b"<urn:a> <urn:p> <urn:b> .\n", {"Content-Type": "text/plain"}),
    "/d.rdf": (XML, {"Content-Type": "application/rdf+xml"}),
    "/bomb.rdf": (BOMB, {"Content-Type": "application/rdf+xml"}),
    "/bad.ttl": (b"<urn:a> <urn:p> .", {"Content-Type": "text/turtle"}),
    "/page": (b"<html>", {"Content-Type": "text/html"}),
    "/d.jsonld": (b'{"@id": "urn:a", "urn:p": "x"}', {"Content-Type": "application/ld+json"}),
    "/json.jsonld": (b'{"@id": "urn:a", "urn:p": "x"}', {"Content-Type": "application/json"}),
    "/named.jsonld": (b'{"@context": "c", "@id": "urn:a", "p": "x"}', {"Content-Type": "application/ld+json"}),
    "/quads.nq": (b"<urn:a> <urn:p> <urn:b> .\n", {"Content-Type": "application/n-quads"}),
    "/graphs.nq": (b"<urn:a> <urn:p> <urn:b> <urn:g> .\n", {"Content-Type": "application/n-quads"}),
    "/d.trig": (TURTLE, {"Content-Type": "application/trig"}),
    "/d.ttl.bz2": (bz2.compress(TURTLE), {"Content-Type": "application/x-bzip2"}),
    "/damaged.nt.gz": (gzip.compress(TURTLE)[:-9], {"Content-Type": "application/gzip"}),
    "/bomb.nt.gz": (gzip.compress(b"\n" * 2_000_000), {"Content-Type": "application/gzip"}),
    "/bomb.ttl.xz": (lzma.compress(b"\n" * 2_000_000), {"Content-Type": "application/x-xz"}),
    "/packed.ttl": (gzip.compress(TURTLE), {"Content-Type": "text/turtle", "Content-Encoding": "gzip"}),
    "/d.nt.gz": (gzip.compress(b"<urn:a> <urn:p> <urn:b> .\n"), {"Content-Type": "application/octet-stream"}),
    "/long.nt": (b"<urn:a> <urn:p> <urn:b> .\n" * 1000, {"Content-Type": "application/n-triples"}),
}  # fmt: skip


def answer(path):
    if path.startswith("/status"):
        return web.Response(status=int(path[7:]))
    body, headers = DOCUMENTS[path]
    return web.Response(body=body, headers=headers)


def loaded(path, *, private=True, listed=None, most=10_000, **options):
    """Return the triples of a document, or the error that refuses it, and the paths of all requests."""

    async def load():
        async with served(answer) as (address, asked):
            loader = WebLoader(Hosts([listed or address], private=private), **options)
            url = path if "://" in path else f"http://{address}{path}"
            try:
                return await loader.load(url, publication_id="s.1", statements_max=most), asked
            except (DataRefused, QueryRefused, TargetRefused, Unavailable) as error:
                return error, asked

    return asyncio.run(load())


@pytest.mark.parametrize("path", [
    "/d.ttl", "/d.rdf", "/plain.nt", "/d.nt", "/d.jsonld", "/json.jsonld", "/quads.nq", "/d.trig", "/d.nt.gz",
    "/d.ttl.bz2",
])  # fmt: skip
def test_documents_are_read_by_their_type_or_else_their_name(path):
    found, asked = loaded(path)
    assert [triple[:2] for triple in found][:1] == [("<urn:a>", "<urn:p>")]
    assert asked == [path]
    if path == "/d.ttl":
        assert found[0][2].startswith("<http://127.0.0.1:")
        assert any(s.startswith("<urn:bnode:s.1:") for s, _, _ in found)


@pytest.mark.parametrize(
    ("path", "kind", "reason"),
    [
        ("/bad.ttl", DataRefused, "bad.ttl"), ("/page", DataRefused, "publish the document instead"),
        ("/named.jsonld", DataRefused, "--context-from"), ("/graphs.nq", DataRefused, "in a named graph"),
        ("/packed.ttl", DataRefused, "compresses the answer"), ("/damaged.nt.gz", DataRefused, "damaged"),
        ("/bomb.rdf", DataRefused, "bomb.rdf"), ("/status404", DataRefused, "404"), ("/status401", DataRefused, "401"),
        ("/status503", Unavailable, "503"), ("/status429", Unavailable, "429"),
        ("/moved", TargetRefused, "redirects are not followed"),
    ],
)  # fmt: skip
def test_other_answers_are_refused_with_the_reason(path, kind, reason):
    error, asked = loaded(path)
    assert isinstance(error, kind), error
    assert reason in str(error)
    assert asked == [path]


@pytest.mark.parametrize("path", ["/bomb.nt.gz", "/bomb.ttl.xz"])
def test_an_expanded_document_is_bounded(path):
    error, _ = loaded(path, bytes_max=100_000)
    assert isinstance(error, DataRefused), error
    assert "expands to more than 800,000 bytes" in str(error)
    assert loaded(path)[0] == []


def test_contexts_of_a_document_are_relative_to_it():
    class Contexts:
        def fetch(self, url):
            assert url.endswith("/c")
            return Fetched({"@context": {"p": "urn:p"}}, 20)

    found, _ = loaded("/named.jsonld", contexts=Contexts())
    assert found == [("<urn:a>", "<urn:p>", '"x"')]


def test_bytes_and_statements_are_bounded():
    error, _ = loaded("/long.nt", bytes_max=20_000)
    assert "more than 20,000 bytes" in str(error)
    error, _ = loaded("/long.nt", most=999)
    assert isinstance(error, QueryRefused)
    assert "more than 999 statements" in str(error)
    assert len(loaded("/long.nt", most=1000)[0]) == 1000


@pytest.mark.parametrize(
    ("path", "options", "reason"),
    [
        ("/d.ttl", {"private": False}, "private networks are not permitted"),
        ("/d.ttl", {"listed": "example.org"}, "not on the list"),
        ("http://localhost:1/d.ttl", {}, "not on the list"),
        ("http://[::ffff:169.254.169.254]/d", {"listed": "[::ffff:169.254.169.254]", "private": False}, "non-public"),
        ("file:///etc/passwd", {}, "not the URL"), ("ftp://127.0.0.1/d", {}, "not the URL"),
        ("http://user:secret@127.0.0.1/d", {}, "credentials"),
    ],
)  # fmt: skip
def test_no_request_is_sent_to_a_host_that_is_not_permitted(path, options, reason):
    error, asked = loaded(path, **options)
    assert isinstance(error, TargetRefused), error
    assert reason in str(error)
    assert "secret" not in str(error)
    assert asked == []


def test_the_deadline_of_the_caller_ends_a_request():
    async def load():
        async with served(answer) as (address, asked):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await WebLoader(Hosts([address], private=True)).load(
                        f"http://{address}/slow", publication_id="s", statements_max=9
                    )
            return asked

    assert asyncio.run(load()) == ["/slow"]


def test_a_name_that_resolves_to_a_private_address_is_refused_at_the_connection():
    async def load():
        async with served(answer) as (address, asked):
            loader = WebLoader(Hosts(["localhost"], private=False))
            with pytest.raises((TargetRefused, Unavailable), match="private networks are not permitted"):
                await loader.load(f"http://localhost:{address.rpartition(':')[2]}/d.ttl", publication_id="s",
                                  statements_max=9)  # fmt: skip
            return asked

    assert asyncio.run(load()) == []
