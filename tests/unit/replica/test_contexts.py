"""Contexts of JSON-LD from web servers: hosts, redirects, bounds, and how long they are kept."""

from __future__ import annotations

import asyncio
import json

import pytest
from aiohttp import web
from web_site import served

from p2prdf.errors import DataRefused, TargetRefused, Unavailable
from p2prdf.replica.contexts import WebContexts
from p2prdf.replica.hosts import Hosts

CONTEXT = {"@context": {"name": "http://v.org/name"}}
ANSWERS = {
    "/ld": ("application/ld+json", json.dumps(CONTEXT)), "/json": ("application/json", json.dumps(CONTEXT)),
    "/plain": ("text/plain", json.dumps(CONTEXT)), "/page": ("text/html", "<html>"),
    "/broken": ("application/json", "{"), "/deep": ("application/json", "[" * 100_000),
    "/long": ("application/json", json.dumps({"@context": {"a": "x" * 2000}})),
}  # fmt: skip


def answer(path):
    kind, text = ANSWERS[path]
    return web.Response(text=text, content_type=kind)


async def fetched(path, *, private=True, listed=None, **options):
    """Return a context, or the error that refuses it, and the paths of all requests."""
    async with asyncio.timeout(60), served(answer) as (address, asked):
        contexts = WebContexts(Hosts([listed or address], private=private), **options)
        url = path if "://" in path else f"http://{address}{path}"
        try:
            return await asyncio.to_thread(contexts.fetch, url), asked
        except (DataRefused, TargetRefused, Unavailable) as error:
            return error, asked


@pytest.mark.parametrize("path", ["/ld", "/json", "/plain"])
async def test_contexts_are_fetched_from_permitted_hosts(path):
    found, asked = await fetched(path)
    assert found.document == CONTEXT
    assert found.size == len(ANSWERS[path][1])
    assert asked == [path]


@pytest.mark.parametrize(("path", "kind", "reason"), [
    ("/page", DataRefused, "text/html is no JSON"), ("/broken", DataRefused, "no JSON"),
    ("/deep", DataRefused, "no JSON"),
    ("/long", DataRefused, "more than 1,000 bytes"), ("/moved", TargetRefused, "redirects are not followed"),
    ("/slow", Unavailable, "not loaded within"),
])  # fmt: skip
async def test_other_answers_are_refused_with_the_reason(path, kind, reason):
    error, asked = await fetched(path, bytes_max=1000 if path == "/long" else 1 << 20, seconds_max=0.3)
    assert isinstance(error, kind), error
    assert reason in str(error)
    assert asked == [path]


@pytest.mark.parametrize(("path", "options", "reason"), [
    ("/ld", {"private": False}, "private networks are not permitted"),
    ("/ld", {"listed": "example.org"}, "not on the list"), ("file:///etc/passwd", {}, "not the URL"),
    ("http://[::ffff:169.254.169.254]/d", {"listed": "[::ffff:169.254.169.254]", "private": False}, "non-public"),
])  # fmt: skip
async def test_no_request_is_sent_to_a_host_that_is_not_permitted(path, options, reason):
    error, asked = await fetched(path, **options)
    assert isinstance(error, TargetRefused), error
    assert reason in str(error)
    assert asked == []


async def test_contexts_are_kept_for_a_while_and_few_of_them():
    time = 0.0
    async with asyncio.timeout(60), served(answer) as (address, asked):
        contexts = WebContexts(
            Hosts([address], private=True), kept_seconds=10, kept_max=2, clock=lambda: time
        )

        async def fetch(*paths):
            for path in paths:
                await asyncio.to_thread(contexts.fetch, f"http://{address}{path}")

        first, second = [await asyncio.to_thread(contexts.fetch, f"http://{address}/ld") for _ in range(2)]
        assert first == second
        assert first.document is not second.document  # readers share no object
        await fetch("/json")
        assert asked == ["/ld", "/json"]
        time = 11.0
        await fetch("/ld", "/ld")
        assert asked == ["/ld", "/json", "/ld"]
        await fetch("/plain", "/ld")
        assert asked == ["/ld", "/json", "/ld", "/plain"]
        await fetch("/json", "/ld")
        assert asked == ["/ld", "/json", "/ld", "/plain", "/json", "/ld"]
