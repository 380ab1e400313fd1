"""Metrics and probes on a real port."""

from __future__ import annotations

import asyncio
import socket

import aiohttp
import pytest

from p2prdf.monitoring.serving import watched_at


class Watched:
    """A monitored component that reports how often it was asked."""

    def __init__(self):
        self.asked = 0
        self.lacks = None
        self.fails = False
        self.gate = None

    async def tell(self):
        self.asked += 1
        if self.gate is not None:
            await self.gate.wait()
        if self.fails:
            raise RuntimeError("inside")
        return f"asked {self.asked}\n"

    def served(self, address=("127.0.0.1", 0)):
        return watched_at(address, self.tell, lambda: self.lacks)


async def fetched(session, url):
    async with session.get(url) as answer:
        return answer.status, await answer.text()


async def test_metrics_and_probes_are_served_and_nothing_else():
    watched = Watched()
    async with watched.served() as url, aiohttp.ClientSession() as session:
        async with session.get(f"{url}/metrics") as answer:
            assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
            assert (answer.status, await answer.text()) == (200, "asked 1\n")
        assert await fetched(session, f"{url}/healthz") == (200, "ok\n")
        assert await fetched(session, f"{url}/readyz") == (200, "ready\n")
        watched.lacks = "nothing was read"
        assert await fetched(session, f"{url}/readyz") == (503, "nothing was read\n")
        assert await fetched(session, f"{url}/healthz") == (200, "ok\n")
        assert (await fetched(session, f"{url}/status"))[0] == 404
        async with session.post(f"{url}/metrics", data=b"x") as answer:
            assert answer.status == 405


async def test_concurrent_scrapes_share_one_answer():
    watched = Watched()
    watched.gate = asyncio.Event()
    async with watched.served() as url, aiohttp.ClientSession() as session:
        asking = [asyncio.create_task(fetched(session, f"{url}/metrics")) for _ in range(20)]
        while not watched.asked:
            await asyncio.sleep(0)
        watched.gate.set()
        assert {text for _, text in await asyncio.gather(*asking)} == {"asked 1\n"}


async def test_a_failure_shows_no_internals_and_the_next_request_asks_again():
    watched = Watched()
    watched.fails = True
    async with watched.served() as url, aiohttp.ClientSession() as session:
        assert await fetched(session, f"{url}/metrics") == (500, "metrics cannot be computed\n")
        watched.fails = False
        assert await fetched(session, f"{url}/metrics") == (200, "asked 2\n")


async def test_an_address_that_is_taken_is_refused_at_once():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(OSError, match=r"in use"):
            async with Watched().served(taken.getsockname()):
                raise AssertionError("it cannot be had")
