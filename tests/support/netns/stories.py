"""Faults of hosts and nodes while clients publish and subscribe.

Each story is one coroutine of :class:`Story`; its name is that of the method.  All of them must have the same
result: every answer that is owed is delivered once, no other is, and publishers notice nothing that the client
library does not hide.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from chaos.cluster import Node
from chaos.faults import Kill
from chaos.report import Report
from chaos.story import Options, play_on

from netns.hosts import HostCluster
from netns.lan import Lan

__all__ = ["LIMITS", "STORIES", "Settings", "Story", "tell"]

RECONNECT_SECONDS: Final = 60.0
"""Clients of these stories are ordinary: this is the library's default."""
DRAIN_SECONDS: Final = 120.0
"""A node that leaves for good must be able to hand over everything, on a busy machine as well."""
REST_SECONDS: Final = 300.0
"""Bound in seconds for answers at the end, on a busy machine; waiting ends when none is missing."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a story.  ``cut_seconds``: how long a broken network stays broken."""

    cut_seconds: float = 20.0
    rate: float = 10.0
    seed: int = 1
    rest_seconds: float = REST_SECONDS
    nodes: dict[str, object] = field(default_factory=dict)
    """Settings of every node."""
    folder: Path | None = None


class Story:
    """The events of a cluster (:class:`chaos.story.Happenings`)."""

    def __init__(self, cluster: HostCluster, name: str, settings: Settings):
        self.kills: list[Kill] = []
        self.counts: Counter[str] = Counter()
        self.whole_seconds: list[float] = []
        self.leave_seconds: list[float] = []
        """Seconds from a SIGTERM to the end of the process."""
        self._cluster = cluster
        self._lan = cluster.lan
        self._happen: Callable[[], Awaitable[None]] = getattr(self, name)
        self._settings = settings

    async def run(self, *, until: float = float("inf"), kills_max: int | None = None) -> None:
        """Run the story once, and wait until everything is whole.  Raises NodeFailed."""
        await asyncio.sleep(1.0)  # something is published before
        await self._happen()
        await asyncio.sleep(1.0)

    # --- the stories -----------------------------------------------------------------------------

    async def quiet(self) -> None:
        """Do nothing: any problem found then is not caused by faults of hosts."""
        await asyncio.sleep(self._settings.cut_seconds / 10)

    async def rolling_restart(self) -> None:
        """Stop and start one node after the other, the last first, each when all are back from the one before."""
        for node in reversed(self._cluster.nodes):
            kill = await self._leave(node)
            await self._start(kill, node)
            self.counts["restarts"] += 1
            self.whole_seconds.append(await self._cluster.until_back())

    async def scaling(self) -> None:
        """Add six nodes at once; then let them leave for good, one after the other, the last first."""
        before = len(self._cluster.nodes)
        await self._cluster.grow(before + 6)
        self.counts["newcomers"] += 6
        self.whole_seconds.append(await self._cluster.until_back())
        while len(self._cluster.nodes) > before:
            self.leave_seconds.append(await self._cluster.shrink())
            self.counts["leavers"] += 1
        self.whole_seconds.append(await self._cluster.until_back())

    async def leaving_at_once(self) -> None:
        """Add six nodes; then stop all six at once, as a StatefulSet that starts pods in parallel does."""
        before = len(self._cluster.nodes)
        await self._cluster.grow(before + 6)
        self.counts["newcomers"] += 6
        self.whole_seconds.append(await self._cluster.until_back())
        self.leave_seconds += await asyncio.gather(*(self._cluster.shrink() for _ in range(6)))
        self.counts["leavers"] += 6
        self.whole_seconds.append(await self._cluster.until_back())

    async def partition(self) -> None:
        """Two of the nodes do not hear from the others nor these from them; clients reach all of them."""
        hosts = [self._cluster.host(node) for node in self._cluster.nodes]
        await self._broken("partitions", lambda: self._lan.part(hosts[:2], hosts[2:]), self._lan.heal)

    async def one_way(self) -> None:
        """Lose everything that one host sends to the others; then everything that they send to another one."""
        hosts = [self._cluster.host(node) for node in self._cluster.nodes]
        await self._broken("deaf ways out", lambda: self._lan.cut(hosts[:1], hosts[1:]), self._lan.heal)
        await self._broken("deaf ways in", lambda: self._lan.cut(hosts[:-1], hosts[-1:]), self._lan.heal)

    async def pulled_cable(self) -> None:
        """The cable of one host is pulled and put back: its clients must go elsewhere."""
        host = self._cluster.host(self._cluster.nodes[1])
        await self._broken("pulled cables", lambda: self._lan.pull(host), lambda: self._lan.plug(host))

    async def new_addresses(self) -> None:
        """Stop every node in turn, and start it elsewhere with its disk: asked to, killed, or with its host."""
        ways = (self._leave, self._kill, self._vanish)
        for number, node in enumerate(self._cluster.nodes):
            way = ways[number % len(ways)]
            kill = await way(node)
            self._cluster.move(node, self._lan.fresh_address())
            self._lan.plug(self._cluster.host(node))
            await self._start(kill, node)
            self.counts["moves"] += 1
            self.whole_seconds.append(await self._cluster.until_back())

    async def exchanged_addresses(self) -> None:
        """All nodes are killed at once and come back, each at the address of another."""
        nodes = self._cluster.nodes
        kill = Kill(1, time.monotonic(), [node.name for node in nodes])
        self.kills.append(kill)
        addresses = [self._cluster.host(node).address for node in nodes]
        for node in nodes:
            node.kill()
        for node in nodes:  # first away from the old ones: no two hosts may have one address
            self._cluster.move(node, self._lan.fresh_address())
        for node, address in zip(nodes, [*addresses[1:], addresses[0]], strict=True):
            self._cluster.move(node, address)
        await asyncio.gather(*(self._start(kill, node) for node in nodes))
        self.counts["moves"] += len(nodes)
        self.whole_seconds.append(await self._cluster.until_back())

    # --- parts of them ---------------------------------------------------------------------------

    def _down(self, node: Node) -> Kill:
        kill = Kill(len(self.kills) + 1, time.monotonic(), [node.name])
        self.kills.append(kill)
        return kill

    async def _leave(self, node: Node) -> Kill:
        kill = self._down(node)
        self.leave_seconds.append(await node.leave(2 * DRAIN_SECONDS))
        return kill

    async def _kill(self, node: Node) -> Kill:
        node.kill()
        return self._down(node)

    async def _vanish(self, node: Node) -> Kill:
        """A host dies with its node: nothing reports it, no connection is refused."""
        self._lan.pull(self._cluster.host(node))
        kill = self._down(node)
        await asyncio.sleep(1.0)
        node.kill()
        return kill

    async def _start(self, kill: Kill, node: Node) -> None:
        kill.ready_seconds.append(await node.start())
        kill.back_at = time.monotonic()

    async def _broken(self, what: str, breaking: Callable[[], None], mending: Callable[[], None]) -> None:
        breaking()
        self.counts[what] += 1
        await asyncio.sleep(self._settings.cut_seconds)
        mending()
        self.whole_seconds.append(await self._cluster.until_back())


STORIES: Final = {
    "quiet": 3,
    "rolling_restart": 5,
    "scaling": 3,
    "leaving_at_once": 3,
    "partition": 5,
    "one_way": 5,
    "pulled_cable": 5,
    "new_addresses": 5,
    "exchanged_addresses": 5,
}
"""Stories and the number of nodes at their beginning."""
LIMITS: Final = {"leaving_at_once"}
"""Stories about behaviour that is not promised: they run only on request."""


async def tell(name: str, lan: Lan, settings: Settings) -> tuple[Report, dict[str, Any]]:
    """Run one story; return its report, and the seconds of leaving and the logged errors."""
    nodes = {"drain_seconds": DRAIN_SECONDS, **settings.nodes}
    cluster = HostCluster(lan, STORIES[name], nodes, folder=settings.folder)
    story = Story(cluster, name, settings)
    options = Options(
        seconds=settings.cut_seconds, nodes=STORIES[name], seed=settings.seed, give_up=0.0,
        publications_per_second=settings.rate, reconnect_seconds=RECONNECT_SECONDS,
        rest_seconds=settings.rest_seconds, settings=nodes,
    )  # fmt: skip
    complaints: Counter[str] = Counter()
    report = await play_on(cluster, options, story, before_closing=lambda: complaints.update(cluster.complaints()))
    return report, {"leave_seconds": story.leave_seconds, "complaints": dict(complaints)}
