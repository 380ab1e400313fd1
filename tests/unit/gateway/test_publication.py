"""A publication that ends before its body does gives back the workers lent to it."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

from p2prdf.gateway.publication import _Batches
from p2prdf.gateway.state import GatewayConfig
from p2prdf.rdf.ntriples import Syntax


def _request(body):
    """Return a request with a body of unknown length."""
    return SimpleNamespace(content=body, content_length=None, headers={})


def _gateway(**settings):
    return SimpleNamespace(config=GatewayConfig(**settings), contexts=None)


class Endless:
    """A body that never ends and has no further data."""

    def __init__(self):
        self.asked = asyncio.Event()

    async def readany(self):
        self.asked.set()
        await asyncio.Event().wait()


async def test_a_thread_that_waits_for_a_body_is_free_when_nobody_waits_for_its_batches():
    body, line = Endless(), SimpleNamespace(reader=ThreadPoolExecutor(1))
    batches = _Batches(_request(body), Syntax.N_TRIPLES, "0" * 32, _gateway(body_silence_seconds=9), removed=False)
    reading = asyncio.ensure_future(anext(batches.read(line)))
    async with asyncio.timeout(20):
        await body.asked.wait()
    reading.cancel()
    free = asyncio.get_running_loop().run_in_executor(line.reader, int)
    assert await asyncio.wait_for(free, 3) == 0
    line.reader.shutdown()


class Slow:
    """A body with lines that come when the test says so."""

    def __init__(self, *parts):
        self.parts, self.more = list(parts), asyncio.Semaphore(0)

    async def readany(self):
        await self.more.acquire()
        return self.parts.pop(0) if self.parts else b""


async def test_a_line_of_a_body_is_published_before_the_next_one_comes():
    body, line = Slow(b"<urn:a> <urn:p> <urn:o> .\n<urn:", b"b> <urn:p> <urn:o> .\n"), SimpleNamespace(reader=None)
    batches = _Batches(_request(body), Syntax.N_QUADS, "0" * 32, _gateway(), removed=False)
    found = batches.read(line)
    async with asyncio.timeout(20):
        body.more.release()
        assert (await anext(found)).s == ["<urn:a>"]
        body.more.release()
        assert (await anext(found)).s == ["<urn:b>"]
        body.more.release()
        assert await anext(found, None) is None
