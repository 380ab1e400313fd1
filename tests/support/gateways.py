"""Gateways in the process of a test, or in one of their own, on real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from pathlib import Path

import aiohttp
from aiohttp import web

import p2prdf
from p2prdf.gateway import GatewayConfig, application
from p2prdf.gateway.access import Access
from p2prdf.gateway.serving import serve
from p2prdf.gateway.webhooks import Sender, WebhookConfig, WebhookHost, read_keys
from p2prdf.gateway.webhooks.delivery import DeliveryConfig
from p2prdf.replica.hosts import Hosts

__all__ = ["Events", "GatewayProcess", "WebhookGateway", "delivering", "gateway"]

SECONDS = 60.0


@contextlib.asynccontextmanager
async def gateway(
    addresses, *, tokens=None, origins=(), tls=None, webhooks=None, endpoints=None, contexts=None, **bounds
):
    """Run a gateway; yield a session with the gateway as base URL, and the application."""
    app = application(
        lambda name: _connected(addresses, tls=tls, speaks_for=name), Access(tokens, origins, loopback=True),
        GatewayConfig(**bounds),
        reach=lambda address: _connected(address, reconnect_seconds=0, connect_seconds=2.0, tls=tls),
        webhooks=webhooks, endpoints=endpoints, contexts=contexts,
    )  # fmt: skip
    url = asyncio.get_running_loop().create_future()
    served = asyncio.create_task(serve(app, "127.0.0.1", 0, ready=url.set_result))
    await asyncio.wait((served, url), return_when=asyncio.FIRST_COMPLETED)
    if served.done():
        await served
    try:
        async with aiohttp.ClientSession(await url) as session:
            yield session, app
    finally:
        served.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await served


def delivering(addresses, keys, *, tls=None, give_up=60.0, touch=60.0, timeout=2.0, **config):
    """Return a webhook host that delivers to receivers of this machine, with short pauses."""
    return WebhookHost(
        lambda reconnect_seconds: p2prdf.connect(addresses, reconnect_seconds=reconnect_seconds, tls=tls),
        lambda name: _connected(addresses, tls=tls, speaks_for=name),
        Sender(Hosts(["127.0.0.1"], private=True), plain=True, timeout_seconds=timeout), keys,
        WebhookConfig(
            lease_seconds=4.0, check_seconds=0.5, delivery=DeliveryConfig(0.05, 0.4, give_up, touch), **config
        ),
    )  # fmt: skip


async def _connected(addresses, **how):
    return await p2prdf.connect(addresses, **how)


class GatewayProcess:
    """The command in a process of its own."""

    def __init__(self, process, url):
        self.process = process
        self.url = url

    @classmethod
    async def start(cls, address, *words, environment=None):
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "p2prdf_cli", "serve", "gateway", "--peer", address, "--listen", "127.0.0.1:0",
            *words,
            stdout=asyncio.subprocess.PIPE, env=os.environ | (environment or {}),
        )  # fmt: skip
        async with asyncio.timeout(SECONDS):
            line = (await process.stdout.readline()).decode()
        assert line.startswith("ready http://127.0.0.1:"), line
        return cls(process, line.split()[1])

    async def kill(self):
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        await self.process.wait()


class WebhookGateway(GatewayProcess):
    """A gateway with webhooks in a process of its own, with a short lease (:func:`main`)."""

    @classmethod
    async def start(cls, address, keys):
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "gateways", address, str(keys), stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )  # fmt: skip
        async with asyncio.timeout(SECONDS):
            return cls(process, (await process.stdout.readline()).decode().strip())


async def main(address, keys):
    """Run a gateway with webhooks until killed."""
    async with gateway(address, webhooks=delivering(address, read_keys(Path(keys)))) as (session, _):
        print(session._base_url, flush=True)
        await asyncio.Event().wait()


class Events:
    """Reads server-sent events as the standard says: names, identifiers, data."""

    def __init__(self, response: aiohttp.ClientResponse | web.StreamResponse):
        self._lines = response.content
        self.last_id = ""

    async def next(self):
        """Return the next event's name and data."""
        name, data = "message", []
        async with asyncio.timeout(SECONDS):
            while True:
                line = await self._lines.readline()
                if not line:
                    raise EOFError("the stream of events has ended")
                line = line.decode().rstrip("\n")
                field, _, value = line.partition(":")
                value = value.removeprefix(" ")
                if not line and data:
                    return name, json.loads("\n".join(data))
                if field == "event":
                    name = value
                elif field == "data":
                    data.append(value)
                elif field == "id":
                    self.last_id = value


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
