"""The Graph Store Protocol: graphs are read and written as wholes, and only differences reach subscribers."""

from __future__ import annotations

import asyncio
import itertools
import shutil

import aiohttp
import pyoxigraph as ox
import pytest
from gateways import gateway
from yarl import URL

import p2prdf
from p2prdf.gateway import graph_store
from p2prdf.gateway.access import Permission, Token, _digest

TURTLE = {"Content-Type": "text/turtle"}
_names = itertools.count()


@pytest.fixture
def ns():
    """A namespace of this test's own, as the overlay is shared."""
    return f"urn:store{next(_names)}:"


async def said(answer, status):
    """Check the status of a response, and return its JSON."""
    found = await answer.json(content_type=None)
    assert answer.status == status, found
    return found


async def graph_of(session, target):
    """Return the canonical quads of a graph."""
    async with session.get(target, headers={"Accept": "text/turtle"}) as answer:
        assert answer.status == 200
        found = ox.Dataset(ox.parse(await answer.read(), format=ox.RdfFormat.TURTLE))
    found.canonicalize(ox.CanonicalizationAlgorithm.UNSTABLE)
    return found


async def test_put_publishes_differences_alone(keeping_all, ns):
    graph, query = f"{ns}g", f"SELECT ?o {{ GRAPH <{ns}g> {{ ?s <{ns}p> ?o }} }}"
    target = f"/graphs?graph={graph}"
    async with gateway(keeping_all[0].address) as (session, _), p2prdf.connect(keeping_all[1].address) as client:
        subscription = await client.subscribe(query)

        async def put(text, status, added, deleted):
            async with session.put(target, data=text, headers=TURTLE) as answer:
                assert await said(answer, status) == {"added": added, "deleted": deleted}
                assert answer.headers.get("Location") == (graph if status == 201 else None)

        await put(f"<{ns}a> <{ns}p> 1, 2 .", 201, 2, 0)
        await put(f"<{ns}a> <{ns}p> 2, 3 .", 200, 1, 1)
        await put(f"<{ns}a> <{ns}p> 3, 2, 2 .", 200, 0, 0)
        found = []
        async with asyncio.timeout(60):
            while len(found) < 4:
                solution = await anext(subscription)
                found.append((solution.terms[0][1], solution.removed))
        assert sorted(found) == [("1", False), ("1", True), ("2", False), ("3", False)]
        blank = f"<{ns}a> <{ns}p> [ <{ns}q> _:x ] . _:x <{ns}q> 1 ."
        await put(blank, 200, 3, 2)
        await put(blank, 200, 0, 0)
        assert len(await graph_of(session, target)) == 3
        await put("", 200, 0, 3)
        async with session.get(target) as answer:
            assert "no statements" in (await said(answer, 404))["detail"]


async def test_post_patch_delete_and_graphs_that_do_not_exist(keeping_all, ns):
    target = f"/graphs?graph={ns}g"
    patch = {"Content-Type": "application/rdf-patch"}
    async with gateway(keeping_all[2].address) as (session, _):
        for method in ("GET", "HEAD", "DELETE"):
            async with session.request(method, target) as answer:
                assert answer.status == 404
        async with session.post(target, data=f"<{ns}a> <{ns}p> 1 .", headers=TURTLE) as answer:
            assert await said(answer, 201) == {"added": 1, "deleted": 0}
        async with session.post(target, data=f"<{ns}a> <{ns}p> 2 .", headers=TURTLE) as answer:
            assert await said(answer, 200) == {"added": 1, "deleted": 0}
        rows = f"TX . D <{ns}a> <{ns}p> 1 . A <{ns}a> <{ns}p> 3 . A <{ns}a> <{ns}p> 4 . D <{ns}a> <{ns}p> 4 . TC ."
        async with session.patch(target, data=rows, headers=patch) as answer:
            assert await said(answer, 200) == {"added": 1, "deleted": 2}
        for bad, status in (("TX . A <urn:a>", 400), (b"\xff", 400), (f"A <{ns}a> <{ns}p> _:x .", 400)):
            async with session.patch(target, data=bad, headers=patch) as answer:
                await said(answer, status)
        async with session.patch(target, data=rows, headers=TURTLE) as answer:
            await said(answer, 415)
            assert answer.headers["Accept-Patch"] == "application/rdf-patch"
        assert sorted(str(each.object.value) for each in await graph_of(session, target)) == ["2", "3"]
        async with session.head(target, headers={"Accept": "application/n-triples"}) as answer:
            assert (answer.status, answer.content_type) == (200, "application/n-triples")
        async with session.delete(target) as answer:
            assert await said(answer, 200) == {"added": 0, "deleted": 2}
        async with session.post("/graphs", data=f"<{ns}a> <{ns}p> 1 .", headers=TURTLE) as answer:
            await said(answer, 201)
            assert answer.headers["Location"].startswith(f"{session._base_url}/graphs/".replace(":///", "://"))
            created = answer.headers["Location"]
        assert len(await graph_of(session, created)) == 1
        async with session.put("/graphs?default", data=f"<{ns}a> <{ns}p> 1 .", headers=TURTLE) as answer:
            await said(answer, 200)
        assert len(await graph_of(session, "/graphs?default")) == 1


@pytest.mark.parametrize(("method", "target", "data", "kind", "status", "told"), [
    ("GET", "/graphs", None, "", 400, "use p2prdf export"), ("PUT", "/graphs", "", "text/turtle", 400, "one graph"),
    ("GET", "/graphs?default&graph=urn:g", None, "", 400, "one graph"),
    ("GET", "/graphs?default=1", None, "", 400, "one graph"), ("GET", "/graphs?graph=g", None, "", 400, "not an IRI"),
    ("PUT", "/graphs?graph=a%20b", "", "text/turtle", 400, "not an IRI"),
    ("GET", "/graphs/x?graph=urn:g", None, "", 400, "no parameters"),
    ("PUT", "/graphs?graph=urn:bad", "<urn:a> <urn:p> 1 . <", "text/turtle", 400, "body"),
    ("POST", "/graphs?graph=urn:bad", "<urn:a> <urn:p> 1 . <", "text/turtle", 400, "body"),
    ("POST", "/graphs", "<urn:a> <urn:p> 1 . <", "text/turtle", 400, "body"),
    ("PUT", "/graphs?graph=urn:bad", "<urn:h> { <urn:a> <urn:p> 1 }", "application/trig", 400, "at /publish"),
    ("PUT", "/graphs?graph=urn:bad", "x", "text/n3", 415, "send Turtle"),
    ("PUT", "/graphs?graph=urn:bad", "x", "text/turtle; charset=latin-1", 415, "UTF-8"),
    ("PUT", "/graphs?graph=urn:bad", "<urn:a> <urn:p> 1, 2, 3 .", "text/turtle", 413, "more than 2 statements"),
    ("PUT", "/graphs?graph=urn:bad", "#" * 2000, "text/turtle", 413, "1,000 bytes"),
    ("PATCH", "/graphs?graph=urn:bad", "#" * 2000, "application/rdf-patch", 413, "1,000 bytes"),
    ("POST", "/graphs?graph=urn:bad", "--x\r\n\r\n\r\n--x--", "multipart/form-data; boundary=x", 415, "not one of"),
    ("POST", "/graphs?graph=urn:bad", "y", "multipart/form-data; boundary=x", 400, "form"),
    ("POST", "/graphs?graph=urn:bad", "--x\r\n--x--\r\n", "multipart/form-data; boundary=x", 400, "Invalid HTTP"),
    ("POST", "/graphs?graph=urn:bad", "y", "multipart/form-data", 400, "form"),
    ("POST", "/graphs?graph=urn:bad", "--x\r\nContent-Type: text/turtle\r\n\r\n" + "#" * 2000 + "\r\n--x--",
     "multipart/form-data; boundary=x", 413, "1,000 bytes"),
    ("GET", "/graphs?default", None, "image/png", 406, "image/png"),
])  # fmt: skip
async def test_requests_that_are_refused_change_nothing(
    keeping_all, monkeypatch, method, target, data, kind, status, told
):
    monkeypatch.setattr(graph_store, "GRAPH_BYTES_MAX", 1000)
    monkeypatch.setattr(graph_store, "GRAPH_STATEMENTS_MAX", 2)
    headers = {"Accept" if data is None else "Content-Type": kind} if kind else {}
    async with gateway(keeping_all[0].address) as (session, _):
        async with session.request(method, target, data=data, headers=headers) as answer:
            found = await said(answer, status)
            assert answer.content_type == "application/problem+json"
            assert told in found["detail"]
        async with session.get("/graphs?graph=urn:bad") as answer:
            assert answer.status == 404


async def test_several_files_of_a_form_are_added_at_once_or_not_at_all(keeping_all, ns):
    def form(*texts):
        data = aiohttp.FormData()
        for number, text in enumerate(texts):
            data.add_field(f"f{number}", text, filename=f"{number}.ttl", content_type="text/turtle")
        return data

    async with gateway(keeping_all[0].address) as (session, _):
        async with session.post(f"/graphs?graph={ns}g", data=form(f"<{ns}a> <{ns}p> 1 .", "nonsense")) as answer:
            await said(answer, 400)
        async with session.get(f"/graphs?graph={ns}g") as answer:
            assert answer.status == 404
        files = form(f"<{ns}a> <{ns}p> [] .", f"<{ns}a> <{ns}p> [] .")
        async with session.post(f"/graphs?graph={ns}g", data=files) as answer:
            assert await said(answer, 201) == {"added": 2, "deleted": 0}, "blank nodes belong to their file"


async def test_tokens_need_read_to_get_and_write_to_change(keeping_all, ns):
    tokens = {_digest(f"{each}-{each}-{each}"): Token(frozenset({Permission(each)})) for each in ("read", "write")}
    tokens[_digest("both-both-both-both")] = Token(frozenset(Permission))
    async with gateway(keeping_all[0].address, tokens=tokens) as (session, _):
        for method in ("GET", "HEAD", "PUT", "POST", "PATCH", "DELETE"):
            reading, writing = method in ("GET", "HEAD", "PUT", "DELETE"), method not in ("GET", "HEAD")
            for held, refused in (("", 401), ("read", 403 * writing), ("write", 403 * reading), ("both-both", 0)):
                headers = {"Authorization": "Bearer " + "-".join([held] * (2 if "-" in held else 3))} if held else {}
                headers |= {"Content-Type": "application/rdf-patch" if method == "PATCH" else "text/turtle"}
                async with session.request(method, f"/graphs?graph={ns}g", headers=headers) as answer:
                    assert (answer.status == refused) if refused else answer.status in (200, 404)


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
async def test_curl_puts_and_gets_a_compressed_graph(keeping_all, ns, tmp_path):
    file = tmp_path / "graph.ttl"
    file.write_text(f"<{ns}a> <{ns}p> 1 .")

    async def curl(*words):
        process = await asyncio.create_subprocess_exec("curl", "-sS", *words, stdout=asyncio.subprocess.PIPE)
        found, _ = await process.communicate()
        return found.decode()

    async with gateway(keeping_all[0].address) as (session, _):
        url = f"{session._base_url}".rstrip("/") + f"/graphs?graph={ns}g"
        written = await curl("-T", str(file), "-H", "Content-Type: text/turtle", "-w", "%{http_code}", url)
        assert written.endswith("201")
        assert f"<{ns}a> <{ns}p>" in await curl("--compressed", "-H", "Accept: text/turtle", url)
        head = await curl("-I", url)
        assert head.startswith("HTTP/1.1 200")


async def test_path_with_an_encoded_line_feed_names_a_graph(keeping_all):
    async with gateway(keeping_all[0].address) as (session, _):
        target = URL("/graphs/a%0Ab", encoded=True)
        async with session.put(target, data="<urn:a> <urn:lf> 1 .", headers=TURTLE) as answer:
            assert await said(answer, 201) == {"added": 1, "deleted": 0}
            assert answer.headers["Location"].endswith("/graphs/a%0Ab")
        async with session.delete(target) as answer:
            assert await said(answer, 200) == {"added": 0, "deleted": 1}


async def test_dataset_posted_without_a_name_goes_to_its_own_graphs(keeping_all, ns):
    kinds = ("application/n-quads", "application/trig")
    async with gateway(keeping_all[0].address) as (session, _):
        for number, kind in enumerate(kinds):
            data = f"<{ns}s> <{ns}p> <{ns}o{number}> ."  # no statement has a graph
            async with session.post("/graphs", data=data, headers={"Content-Type": kind}) as answer:
                assert (answer.status, await answer.json()) == (200, {"added": 1, "deleted": 0})
        data = f"<{ns}s> <{ns}p> <{ns}o> . <{ns}g> {{ <{ns}s> <{ns}p> <{ns}q> }}"
        async with session.post("/graphs", data=data, headers={"Content-Type": kinds[1]}) as answer:
            assert await answer.json() == {"added": 2, "deleted": 0}
        for pattern, count in ((f"<{ns}s> ?p ?o", 3), (f"GRAPH <{ns}g> {{ <{ns}s> ?p ?o }}", 1)):
            asked = {"query": f"SELECT * {{ {pattern} }}"}
            async with session.get("/sparql", params=asked, headers={"Accept": "text/csv"}) as answer:
                assert len((await answer.text()).splitlines()) == 1 + count
        for data in ("<urn:a> <urn:b>", "<urn:a> <urn:b> <urn:c> <urn:d> <urn:e> ."):
            async with session.post("/graphs", data=data, headers={"Content-Type": kinds[0]}) as answer:
                assert answer.status == 400


async def test_relative_iris_are_resolved_against_the_graph(keeping_all, ns):
    async with gateway(keeping_all[0].address) as (session, _):
        base = str(session._base_url).rstrip("/")
        for target, name in [("/graphs/rel/a", f"{base}/graphs/rel/a"), ("/graphs?graph=http://x/y/z", "http://x/y/z")]:
            sent = {"PUT": (f"<> <{ns}p> <b> .", 201), "POST": (f"<#c> <{ns}p> </d> .", 200)}
            for method, (text, status) in sent.items():
                async with session.request(method, target, data=text, headers=TURTLE) as answer:
                    assert (await said(answer, status))["added"] == 1
            found = await graph_of(session, target)
            assert {(str(each.subject), str(each.object)) for each in found} == {
                (f"<{name}>", f"<{URL(name).join(URL('b'))}>"),
                (f"<{name}#c>", f"<{URL(name).join(URL('/d'))}>"),
            }
        async with session.post("/graphs", data=f"<> <{ns}p> 1 .", headers=TURTLE) as answer:
            assert answer.status == 201
            created = answer.headers["Location"]
        assert [str(each.subject) for each in await graph_of(session, URL(created))] == [f"<{created}>"]
        async with session.post("/graphs?default", data=f"<x> <{ns}p> 1 .", headers=TURTLE) as answer:
            assert (await said(answer, 200))["added"] == 1
        async with session.get("/sparql", params={"query": f"ASK {{ <{base}/x> <{ns}p> 1 }}"}) as answer:
            assert (await said(answer, 200))["boolean"]
