"""A cluster with nodes on test hosts of their own, by names and numbers as a StatefulSet gives them.

Node ``n2`` is pod 2: it keeps its disk, its ordinal and its name ``n2.nodes`` for ever, and its address until
it is moved.  The names of the first two are the seeds of all nodes, as in ``k8s/base``.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from chaos.cluster import POLL_SECONDS, Cluster, Node, NodeFailed

from netns.lan import Host, Lan

__all__ = ["HostCluster"]

PORT: Final = 7400
DOORS: Final = 2
"""Number of seeds."""
SECRET: Final = "known to the hosts of one test alone"
BACK_SECONDS: Final = 300.0
LEAVE_SECONDS: Final = 240.0


class HostCluster(Cluster):
    """Some nodes, each on a host of its own."""

    def __init__(self, lan: Lan, count: int, settings: Mapping[str, object], *, folder: Path | None = None):
        super().__init__(count, settings, folder=folder)
        self.lan = lan
        self._secret = self.folder / "secret"
        self._hosts: dict[str, Host] = {}

    async def start(self) -> None:
        """Start all nodes and wait until the cluster is whole.  Raises NodeFailed."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._secret.write_text(SECRET)
        await self.grow(self._count)
        await self.until_whole()

    @property
    def addresses(self) -> list[str]:
        """Names: a client that is connected to one node does not learn the new addresses of moved ones."""
        return [f"{node.name}.nodes:{PORT}" for node in self.nodes]

    def host(self, node: Node) -> Host:
        """Return the host of a node."""
        return self._hosts[node.name]

    async def grow(self, count: int) -> None:
        """Start nodes at once, up to a number."""
        made = [self._make(number) for number in range(len(self.nodes), count)]
        self.nodes += made
        await asyncio.gather(*(node.start() for node in made))

    async def shrink(self) -> float:
        """Let the last node leave for good; return the seconds it took."""
        node = self.nodes.pop()
        self.former.append(node)
        seconds = await node.leave(LEAVE_SECONDS)
        self.lan.call(f"{node.name}.nodes", None)
        return seconds

    def move(self, node: Node, address: str) -> None:
        """Give a node that is down another address; its name follows."""
        host = self.host(node)
        self.lan.readdress(host, address)
        self.lan.call(f"{node.name}.nodes", host)
        self._place(node)

    async def until_back(self) -> float:
        """Wait until all nodes know each other and may be primaries of subscriptions; return the seconds it took.

        A rolling restart waits for the same: under steady publication copies are always being compared
        somewhere. Raises NodeFailed.
        """
        begun = time.monotonic()
        while True:
            peers = [(state or {}).get("peer") for state in await self.statuses()]
            if all(p and len(p["contacts"]) == len(peers) and p["settled"] and p["in_sync"] for p in peers):
                return time.monotonic() - begun
            for node in self.nodes:
                node.check()
            if self.failures:
                raise NodeFailed(self.failures[0])
            if time.monotonic() - begun > BACK_SECONDS:
                raise NodeFailed(f"not all nodes are back after {BACK_SECONDS:.0f} s")
            await asyncio.sleep(POLL_SECONDS)

    def complaints(self) -> Counter[str]:
        """Count the errors in the nodes' logs, by event."""
        found: Counter[str] = Counter()
        for node in (*self.nodes, *self.former):
            for line in node.log.read_text(errors="replace").splitlines():
                if '"level": "error"' in line:
                    found[json.loads(line).get("event", "?")] += 1
        return found

    async def close(self) -> None:
        """Kill the processes that still run; the hosts go with the lan."""
        for node in self.former:
            node.kill()
        await super().close()

    # --- inside ----------------------------------------------------------------------------------

    def _make(self, number: int) -> Node:
        name = f"n{number}"
        host = self._hosts.get(name)
        if host is None:
            host = self._hosts[name] = self.lan.add(name)
        folder = self.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        self.lan.call(f"{name}.nodes", host)
        node = Node(name, "", "", folder, [], enter=host.enter)
        self._place(node)
        return node

    def _place(self, node: Node) -> None:
        """Give a node its address, and clients the names."""
        address = self.host(node).address
        settings = {
            "listen": f"0.0.0.0:{PORT}", "advertise": address, "data": node.folder / "data", "log_format": "json",
            "ordinal": node.name.removeprefix("n"), "secret_file": self._secret,
            "bootstrap": ",".join(f"n{number}.nodes:{PORT}" for number in range(DOORS)), **self._settings,
        }  # fmt: skip
        node.arguments = [
            part for key, value in settings.items() for part in (f"--{key.replace('_', '-')}", str(value))
        ]
        node.address = node.advertised = f"{address}:{PORT}"
