"""The systems of the section ``outside``: an overlay, NATS JetStream and Redis streams, each behind one interface.

Every system starts on this machine with empty directories.  A message is one triple.  A publisher waits for the
acknowledgement of its system: of two copies that are on disks (p2prdf), of a majority of three servers (JetStream) or
of one server after a sync (Redis).
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, Protocol, Self

from daemons import Overlay

__all__ = ["SYSTEMS", "JetStream", "P2prdf", "Publish", "RedisStream", "System", "absent"]

Publish = Callable[[int], Awaitable[None]]
"""Publishes the triple with a number; returns after its acknowledgement."""

START_SECONDS = 60.0
SUBJECT, STREAM = "bench.value", "bench"


class System(Protocol):
    """A system under measurement, started by ``async with``."""

    configuration: str

    async def __aenter__(self) -> Self:
        """Start the servers."""
        ...

    async def __aexit__(self, *_: object) -> None:
        """Stop the servers and remove their data."""
        ...

    async def publisher(self) -> Publish:
        """Return a publisher with a connection of its own."""
        ...

    def numbers(self) -> AsyncIterator[int]:
        """Yield the number of each triple that is published from the first step of the iteration on."""
        ...

    def cpu_seconds(self) -> float:
        """Return the CPU seconds that the servers have used so far."""
        ...

    def resident_bytes(self) -> int:
        """Return the resident memory of the servers."""
        ...


def absent(system: type[P2prdf | JetStream | RedisStream]) -> str | None:
    """Return the program or package that a system needs and this machine lacks; None: nothing is missing."""
    if system.program and shutil.which(system.program) is None:
        return f"no program {system.program} (Debian package {system.program})"
    if system.package:
        try:
            importlib.import_module(system.package)
        except ImportError:
            return f"no Python package {system.package} (`.venv/bin/pip install -e '.[outside]'`)"
    return None


def _triple(number: int) -> tuple[str, str, int]:
    return f"<urn:bench:s{number % 1000}>", "<urn:bench:value>", number


def _line(number: int) -> bytes:
    subject, predicate, value = _triple(number)
    return f'{subject} {predicate} "{value}"^^<http://www.w3.org/2001/XMLSchema#integer> .\n'.encode()


def _number(line: bytes) -> int:
    return int(line.split(b'"')[1])


class P2prdf:
    """Five daemons with their defaults, a standing query of one pattern, publishers at all nodes in turn."""

    program = package = ""
    configuration = "five daemons with the defaults: three copies, two acknowledged; fsync; every index"

    def __init__(self) -> None:
        self._overlay = Overlay(with_data=True)
        self._connections = contextlib.AsyncExitStack()
        self._made = 0

    async def __aenter__(self) -> Self:
        await self._overlay.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._connections.aclose()
        await self._overlay.__aexit__()

    async def publisher(self) -> Publish:
        import p2prdf

        address = self._overlay.addresses[self._made % self._overlay.nodes]
        self._made += 1
        client = await self._connections.enter_async_context(p2prdf.connect(address))

        async def publish(number: int) -> None:
            await client.publish([_triple(number)])

        return publish

    async def numbers(self) -> AsyncIterator[int]:
        subscription = await self._overlay.clients[1].subscribe("SELECT ?n { ?s <urn:bench:value> ?n }")
        async for solution in subscription:
            number = solution.value("n")
            assert isinstance(number, int)
            yield number

    def cpu_seconds(self) -> float:
        return self._overlay.daemons_cpu_seconds()

    def resident_bytes(self) -> int:
        return self._overlay.resident_bytes()


class _Servers:
    """Server processes with a directory each."""

    def __init__(self) -> None:
        self._processes: list[subprocess.Popen[bytes]] = []
        self._folder = tempfile.TemporaryDirectory(prefix="p2prdf-outside-")
        self._connections = contextlib.AsyncExitStack()

    def _start(self, *command: str) -> None:
        log = Path(self._folder.name) / f"{len(self._processes)}.log"
        with log.open("wb") as out:
            self._processes.append(subprocess.Popen(command, stdout=out, stderr=out))

    def _directory(self, name: str) -> str:
        made = Path(self._folder.name) / name
        made.mkdir()
        return str(made)

    async def __aexit__(self, *_: object) -> None:
        await self._connections.aclose()
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.wait(15)
        self._folder.cleanup()

    def cpu_seconds(self) -> float:
        tick = os.sysconf("SC_CLK_TCK")
        used = 0.0
        for process in self._processes:
            fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
            used += (int(fields[11]) + int(fields[12])) / tick
        return used

    def resident_bytes(self) -> int:
        page = os.sysconf("SC_PAGE_SIZE")
        return sum(int(Path(f"/proc/{each.pid}/statm").read_text().split()[1]) * page for each in self._processes)


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [each.getsockname()[1] for each in sockets]


async def _until(attempt: Callable[[], Awaitable[object]]) -> None:
    """Repeat an attempt until it succeeds, at most ``START_SECONDS``."""
    async with asyncio.timeout(START_SECONDS):
        while True:
            try:
                await attempt()
            except Exception:  # noqa: BLE001 - each client library has its own errors for a server that starts
                await asyncio.sleep(0.1)
            else:
                return


class JetStream(_Servers):
    """A NATS cluster of three servers and a stream with three replicas in files."""

    program, package = "nats-server", "nats"
    configuration = "three servers; three replicas, two acknowledged; files, no sync per message"
    NODES = 3

    def __init__(self) -> None:
        super().__init__()
        self._made = 0

    async def __aenter__(self) -> Self:
        ports, routes = _free_ports(self.NODES), _free_ports(self.NODES)
        self._urls = [f"nats://127.0.0.1:{port}" for port in ports]
        for number, (port, route) in enumerate(zip(ports, routes, strict=True)):
            self._start(
                "nats-server", "--name", f"n{number}", "--addr", "127.0.0.1", "--port", str(port), "--jetstream",
                "--store_dir", self._directory(f"n{number}"), "--cluster_name", "bench",
                "--cluster", f"nats://127.0.0.1:{route}",
                "--routes", ",".join(f"nats://127.0.0.1:{each}" for each in routes),
            )  # fmt: skip

        async def make_stream() -> None:
            client = await self._connect()
            try:
                await client.jetstream().add_stream(name=STREAM, subjects=[SUBJECT], num_replicas=3)
            finally:
                await client.close()

        await _until(make_stream)
        return self

    async def _connect(self) -> Any:
        nats = importlib.import_module("nats")
        url = self._urls[self._made % self.NODES]
        self._made += 1

        async def ignore(_: Exception) -> None:
            """The caller sees the error of its own call."""

        return await nats.connect(url, allow_reconnect=False, error_cb=ignore)

    async def publisher(self) -> Publish:
        client = await self._connect()
        self._connections.push_async_callback(client.close)
        jetstream = client.jetstream()

        async def publish(number: int) -> None:
            await jetstream.publish(SUBJECT, _line(number))

        return publish

    async def numbers(self) -> AsyncIterator[int]:
        client = await self._connect()
        self._connections.push_async_callback(client.close)
        policy = importlib.import_module("nats.js.api").DeliverPolicy.NEW
        subscription = await client.jetstream().subscribe(SUBJECT, deliver_policy=policy, ordered_consumer=True)
        async for message in subscription.messages:
            yield _number(message.data)


class RedisStream(_Servers):
    """One Redis server with an append-only file, synced before each reply."""

    program, package = "redis-server", "redis"
    configuration = "one server; one copy; append-only file, fsync always"

    async def __aenter__(self) -> Self:
        (self._port,) = _free_ports(1)
        self._start(
            "redis-server", "--port", str(self._port), "--bind", "127.0.0.1", "--dir", self._directory("data"),
            "--appendonly", "yes", "--appendfsync", "always", "--save", "",
        )  # fmt: skip
        self._client = self._connect()
        await _until(self._client.ping)
        return self

    def _connect(self) -> Any:
        client = importlib.import_module("redis.asyncio").Redis(port=self._port, max_connections=None)
        self._connections.push_async_callback(client.aclose)
        return client

    async def publisher(self) -> Publish:
        client = self._connect()

        async def publish(number: int) -> None:
            await client.xadd(STREAM, {b"line": _line(number)})

        return publish

    async def numbers(self) -> AsyncIterator[int]:
        client, last = self._connect(), "$"
        while True:
            for _, entries in await client.xread({STREAM: last}, count=1000, block=10_000):
                for place, fields in entries:
                    last = place
                    yield _number(fields[b"line"])


SYSTEMS: dict[str, type[P2prdf | JetStream | RedisStream]] = {
    "p2prdf": P2prdf,
    "NATS JetStream": JetStream,
    "Redis stream": RedisStream,
}
