"""Health checks of nodes over HTTP, and services that wait for their first node."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys

import aiohttp
import pytest
from gateways import GatewayProcess

SECONDS = 60


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


async def checked(session, url):
    """Return status and text of an answer; None if nothing listens there yet."""
    try:
        async with session.get(url) as answer:
            return answer.status, await answer.text()
    except aiohttp.ClientConnectionError:
        return None


async def eventually(session, url, status):
    async with asyncio.timeout(SECONDS):
        while (found := await checked(session, url)) is None or found[0] != status:
            await asyncio.sleep(0.05)
    return found[1]


async def test_a_node_without_a_cluster_is_alive_and_not_ready_until_its_seed_answers(launcher):
    health, seed = (f"127.0.0.1:{free_port()}" for _ in range(2))
    launcher.launch(bootstrap=seed, health=health)
    async with aiohttp.ClientSession() as session:
        assert await eventually(session, f"http://{health}/healthz", 200) == "ok\n"
        for path in ("readyz", "startupz"):
            assert "none of its bootstrap addresses" in await eventually(session, f"http://{health}/{path}", 503)
        assert (await checked(session, f"http://{health}/metrics"))[0] == 404
        launcher.start(listen=seed)
        for path in ("readyz", "startupz"):
            assert await eventually(session, f"http://{health}/{path}", 200) == "ok\n"


async def test_a_node_that_stops_is_not_ready(launcher):
    health = f"127.0.0.1:{free_port()}"
    nodes = launcher.overlay(2)
    leaving = launcher.start(bootstrap=nodes[0].address, health=health)
    async with aiohttp.ClientSession() as session:
        await eventually(session, f"http://{health}/startupz", 200)
        leaving.terminate()
        async with asyncio.timeout(SECONDS):
            while (found := await checked(session, f"http://{health}/readyz")) is not None:
                assert found in ((200, "ok\n"), (503, "the node stops\n"))
    assert leaving.wait() == 0


@pytest.mark.parametrize(("health", "said"), [("nowhere", "is not host:port"), ("", "in use")])
def test_an_address_for_health_checks_that_cannot_be_had_is_refused_at_the_start(health, said):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        health = health or f"127.0.0.1:{taken.getsockname()[1]}"
        done = subprocess.run(
            [sys.executable, "-m", "p2prdf_node", "--listen", "127.0.0.1:0", "--health", health],
            check=False, capture_output=True, text=True, timeout=SECONDS,
        )  # fmt: skip
    assert done.returncode != 0
    assert "setting health" in done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr


async def test_a_gateway_that_waits_refuses_requests_until_a_node_answers(launcher):
    node = f"127.0.0.1:{free_port()}"
    process = await GatewayProcess.start(node, "--wait")
    try:
        async with aiohttp.ClientSession() as session:
            assert await checked(session, f"{process.url}/healthz") == (200, "ok\n")
            for path in ("/readyz", "/ring", "/subscriptions", "/status", "/sparql?query=ASK%7B%3Fs%20%3Fp%20%3Fo%7D"):
                status, text = await checked(session, f"{process.url}{path}")
                assert (status, json.loads(text)["code"]) == (503, "unavailable"), path
            launcher.start(listen=node)
            assert await eventually(session, f"{process.url}/readyz", 200) == "ready\n"
            assert await eventually(session, f"{process.url}/ring", 200)
    finally:
        await process.kill()


@pytest.mark.parametrize("service", ["interests", "channels"])
async def test_a_worker_that_waits_is_alive_and_becomes_ready_when_a_node_answers(launcher, service):
    node = f"127.0.0.1:{free_port()}"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "p2prdf_cli", "serve", service, "--peer", node, "--metrics", "127.0.0.1:0", "--wait",
        "--json", stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        async with asyncio.timeout(SECONDS), aiohttp.ClientSession() as session:
            url = json.loads(await process.stdout.readline())["url"].removesuffix("/metrics")
            waiting = json.loads(await process.stdout.readline())
            assert (waiting["event"], node in waiting["error"]) == ("waiting", True)
            assert await checked(session, f"{url}/healthz") == (200, "ok\n")
            assert (await checked(session, f"{url}/readyz"))[0] == 503
            launcher.start(listen=node)
            assert await eventually(session, f"{url}/readyz", 200) == "ready\n"
    finally:
        process.kill()
        await process.wait()
