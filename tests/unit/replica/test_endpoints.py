"""Endpoints of SERVICE over HTTP: requests, answers, bounds and hosts."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json

import pytest
from aiohttp import web

from p2prdf.errors import DataRefused, TargetRefused, Unavailable
from p2prdf.replica.endpoints import WebEndpoints
from p2prdf.replica.hosts import Hosts

JSON = "application/sparql-results+json"
RESULT = json.dumps({
    "head": {"vars": ["x"]}, "results": {"bindings": [{"x": {"type": "uri", "value": f"urn:{n}"}} for n in range(50)]},
}).encode()  # fmt: skip
ANSWERS = {
    "/json": (RESULT, {"Content-Type": f"{JSON}; charset=utf-8"}), "/page": (b"<html>", {"Content-Type": "text/html"}),
    "/packed": (gzip.compress(RESULT), {"Content-Type": JSON, "Content-Encoding": "gzip"}),
    "/broken": (RESULT[:-9], {"Content-Type": JSON}), "/csv": (b"x\r\n1\r\n", {"Content-Type": "text/csv"}),
}  # fmt: skip


@contextlib.asynccontextmanager
async def server():
    """Serve the answers; yield the address and the queries of all requests."""
    asked = []

    async def answer(request):
        asked.append((request.path, (await request.post()).get("query"), request.headers.get("Accept-Encoding")))
        if request.path == "/moved":
            return web.Response(status=307, headers={"Location": "http://169.254.169.254/latest"})
        if request.path == "/slow":
            await asyncio.sleep(60)
        if request.path.startswith("/status"):
            return web.Response(status=int(request.path[7:]), text="Parse error\nat line 1")
        body, headers = ANSWERS[request.path]
        return web.Response(body=body, headers=headers)

    app = web.Application()
    app.router.add_post("/{path:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"127.0.0.1:{runner.addresses[0][1]}", asked
    finally:
        await runner.cleanup()


def ask(path, *, private=True, listed=None, rows_max=100, **options):
    """Return the solutions or the error of a request, and the requests that the server received."""

    async def done():
        async with server() as (address, asked):
            endpoints = WebEndpoints(Hosts([listed or address], private=private), **options)
            url = path if "://" in path else f"http://{address}{path}"
            try:
                async with asyncio.timeout(5):
                    return await endpoints.ask(url, "SELECT ?x", scope="s", rows_max=rows_max), asked
            except (DataRefused, TargetRefused, Unavailable, TimeoutError) as error:
                return error, asked

    return asyncio.run(done())


def test_a_query_is_posted_as_a_form_and_its_solutions_are_read():
    (names, rows), asked = ask("/json")
    assert names == ("x",)
    assert len(rows) == 50
    assert asked == [("/json", "SELECT ?x", "identity")]


@pytest.mark.parametrize(
    ("path", "kind", "reason"),
    [
        ("/page", DataRefused, "text/html"), ("/csv", DataRefused, "no SPARQL result in JSON or XML"),
        ("/packed", DataRefused, "compresses the answer"), ("/broken", DataRefused, "malformed"),
        ("/status400", DataRefused, "'Parse error at line 1'"), ("/status401", DataRefused, "401"),
        ("/status404", DataRefused, "404"), ("/status429", Unavailable, "429"), ("/status503", Unavailable, "503"),
        ("/moved", TargetRefused, "redirects are not followed"),
    ],
)  # fmt: skip
def test_other_answers_are_refused_with_the_reason(path, kind, reason):
    error, asked = ask(path)
    assert isinstance(error, kind), error
    assert reason in str(error)
    assert len(asked) == 1


def test_bytes_and_rows_are_bounded():
    error, _ = ask("/json", bytes_max=1000)
    assert "more than 1,000 bytes" in str(error)
    error, _ = ask("/json", rows_max=49)
    assert "more than 49 solutions" in str(error)


@pytest.mark.parametrize(
    ("path", "options", "reason"),
    [
        ("/json", {"private": False}, "private networks are not permitted"),
        ("/json", {"listed": "example.org"}, "not on the list"),
        ("http://localhost.:1/", {"listed": "127.0.0.1"}, "not on the list"),
        ("file:///etc/passwd", {}, "not the URL of an endpoint"),
        ("http://user:password@127.0.0.1/", {"listed": "127.0.0.1"}, "credentials"),
        ("http://169.254.169.254/latest", {"listed": "127.0.0.1"}, "not on the list"),
    ],
)
def test_no_other_host_is_asked(path, options, reason):
    error, asked = ask(path, **options)
    assert isinstance(error, TargetRefused)
    assert reason in str(error)
    assert asked == []


def test_a_name_that_leads_to_a_forbidden_address_is_not_asked():
    error, asked = ask("http://localhost:1/", listed="localhost", private=False)
    assert isinstance(error, TargetRefused)
    assert asked == []


def test_the_deadline_of_the_caller_ends_a_request():
    error, asked = ask("/slow")
    assert isinstance(error, TimeoutError)
    assert len(asked) == 1
