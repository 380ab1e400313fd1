"""The loop of faults: kills of one node and of all, pauses, and a bad network if there is a proxy.

All choices come from the seed; moments depend on how fast processes start.  A node that was killed is started
again, in the same place with the same data, after a random moment.  As long as ``down_max`` nodes are down no
further one is killed, except all at once, which is every tenth kill.  After every fifth kill the loop waits
until the cluster is whole, and measures that time.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from chaos.cluster import Cluster, Node, NodeFailed

__all__ = ["FaultOptions", "Faults", "Kill"]

WHOLE_EVERY: Final = 5
"""Number of kills between two waits for a whole cluster."""
POLL_SECONDS: Final = 0.05


@dataclass(frozen=True, slots=True)
class FaultOptions:
    """Faults of the cluster.  Seconds are drawn evenly between two bounds."""

    kill_seconds: tuple[float, float] = (1.0, 5.0)
    """Seconds from one kill to the next."""
    down_seconds: tuple[float, float] = (0.0, 2.0)
    """Seconds from a kill to the new start."""
    down_max: int = 1
    all_every: int = 10
    """The number of kills for each kill of all nodes at once; 0: never."""
    pause_share: float = 0.0
    """Share of faults that are a pause (SIGSTOP) instead of a kill."""
    pause_seconds: tuple[float, float] = (0.2, 4.0)
    silent_share: float = 0.0
    """Share of silent kills (half-open connections).  Needs the proxy."""
    network: bool = False
    """Whether links have delay, loss and cuts.  Needs the proxy."""
    network_seconds: tuple[float, float] = (0.5, 5.0)
    """Seconds that a fault of the network lasts, and seconds between two."""


@dataclass(slots=True)
class Kill:
    """One kill.  ``at``: monotonic seconds; ``nodes``: their names."""

    number: int
    at: float
    nodes: list[str]
    ready_seconds: list[float] = field(default_factory=list)
    """Seconds from each process's start until it was ready."""
    back_at: float = 0.0
    """The time at which all of them were ready."""


class Faults:
    """Injects faults until it is stopped, then makes everything whole again."""

    def __init__(self, cluster: Cluster, options: FaultOptions, seed: int):
        self.cluster = cluster
        self.kills: list[Kill] = []
        self.counts: Counter[str] = Counter()
        """Number of faults by kind."""
        self.whole_seconds: list[float] = []
        """Seconds from the last start of a node until all nodes were known and all copies restored."""
        self._options = options
        self._rng = random.Random(seed)
        self._links = random.Random(seed + 1)  # of its own: both loops draw at moments that depend on the machine
        self._restarts: dict[asyncio.Task[None], None] = {}
        self._pauses: dict[asyncio.Task[None], None] = {}
        self._stopped = asyncio.Event()

    def stop(self) -> None:
        """Inject no more."""
        self._stopped.set()

    async def run(self, *, until: float = float("inf"), kills_max: int | None = None) -> None:
        """Inject faults until a moment (monotonic) or a number of kills is reached; all nodes run at the end.

        Raises NodeFailed if a node does not come back.
        """
        network = asyncio.create_task(self._network()) if self._options.network else None
        try:
            while kills_max is None or len(self.kills) < kills_max:
                wait = self._rng.uniform(*self._options.kill_seconds)
                left = until - time.monotonic()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._stopped.wait(), max(0.0, min(wait, left)))
                if wait >= left or self._stopped.is_set():
                    break
                self._look()
                if self._rng.random() < self._options.pause_share:
                    self._pause_one()
                else:
                    await self._kill_some()
        finally:
            if network is not None:
                network.cancel()
                await asyncio.gather(network, return_exceptions=True)
            await self._settle()

    def _look(self) -> None:
        """Raise the errors of background tasks."""
        for task in [task for task in self._restarts if task.done()]:
            del self._restarts[task]
            task.result()
        for node in self.cluster.nodes:
            node.check()
            if node.process is None and node.failures and not self._restarts:
                raise NodeFailed(node.failures[-1])

    # --- kills -----------------------------------------------------------------------------------

    async def _kill_some(self) -> None:
        number = len(self.kills) + 1
        if self._options.all_every and number % self._options.all_every == 0:
            await self._kill_all(number)
        else:
            await self._kill_one(number)
        if number % WHOLE_EVERY == 0:
            await self._whole()

    async def _kill_one(self, number: int) -> None:
        while len(self._restarts) >= self._options.down_max:
            await asyncio.wait(self._restarts, return_when=asyncio.FIRST_COMPLETED)
            self._look()
        node = self._rng.choice(self.cluster.running)
        silent = self._rng.random() < self._options.silent_share
        if silent:
            assert self.cluster.proxy is not None
            self.cluster.proxy.silence(node.name)
        node.kill()
        kill = Kill(number, time.monotonic(), [node.name])
        self.kills.append(kill)
        self.counts["kills_silent" if silent else "kills"] += 1
        task = asyncio.create_task(self._restart(kill, node, self._rng.uniform(*self._options.down_seconds)))
        self._restarts[task] = None

    async def _kill_all(self, number: int) -> None:
        """Kill all running processes at once, as a power cut does."""
        await self._restarted()
        for node in self.cluster.nodes:
            node.kill()
        kill = Kill(number, time.monotonic(), [node.name for node in self.cluster.nodes])
        self.kills.append(kill)
        self.counts["kills_of_all"] += 1
        wait = self._rng.uniform(*self._options.down_seconds)
        for node in self.cluster.nodes:
            self._restarts[asyncio.create_task(self._restart(kill, node, wait))] = None
        await self._restarted()

    async def _restart(self, kill: Kill, node: Node, wait: float) -> None:
        await asyncio.sleep(wait)
        if self.cluster.proxy is not None:
            self.cluster.proxy.revive(node.name)
        kill.ready_seconds.append(await node.start())
        kill.back_at = time.monotonic()

    async def _restarted(self) -> None:
        while self._restarts:
            await asyncio.wait(self._restarts)
            self._look()

    async def _whole(self) -> None:
        await self._restarted()
        if not self._pauses and not self._options.network:
            self.whole_seconds.append(await self.cluster.until_whole())

    # --- pauses ----------------------------------------------------------------------------------

    def _pause_one(self) -> None:
        if self.cluster.running and not self._pauses:
            node = self._rng.choice(self.cluster.running)
            node.pause()
            self.counts["pauses"] += 1
            seconds = self._rng.uniform(*self._options.pause_seconds)
            task = asyncio.create_task(self._resume(node, node.process, seconds))
            self._pauses[task] = None
            task.add_done_callback(lambda done: self._pauses.pop(done, None))

    @staticmethod
    async def _resume(node: Node, process: object, seconds: float) -> None:
        await asyncio.sleep(seconds)
        if node.process is process:  # it was not killed since
            node.resume()

    # --- network ---------------------------------------------------------------------------------

    async def _network(self) -> None:
        proxy = self.cluster.proxy
        assert proxy is not None
        while True:
            await asyncio.sleep(self._links.uniform(*self._options.network_seconds))
            kind = self._links.choice(("slow", "lossy", "parted", "one_way", "alone", "reset"))
            self.counts[kind] += 1
            names = [node.name for node in self.cluster.nodes]
            self._links.shuffle(names)
            half = names[: len(names) // 2]
            match kind:
                case "slow":
                    proxy.change(names, names, delay=self._links.uniform(0, 0.1), jitter=self._links.uniform(0, 0.1))
                case "lossy":
                    loss = self._links.uniform(0, 0.3)
                    proxy.change(names, names, loss=loss, duplicate=loss / 3, corrupt=loss / 10)
                case "parted":
                    proxy.part(half, [name for name in names if name not in half])
                case "one_way":
                    proxy.change(names[:1], names[1:2], cut=True)
                case "alone":
                    proxy.part(names[:1], names[1:])
                case "reset":
                    proxy.reset(names[:1])
            await asyncio.sleep(self._links.uniform(*self._options.network_seconds))
            proxy.heal()

    # --- the end ---------------------------------------------------------------------------------

    async def _settle(self) -> None:
        """Make everything whole: links healed, paused nodes going on, all nodes running."""
        if self.cluster.proxy is not None:
            self.cluster.proxy.heal()
        for task in list(self._pauses):
            task.cancel()
        for node in self.cluster.nodes:
            node.resume()
        await self._restarted()
