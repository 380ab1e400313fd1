"""How long a node takes to leave, by its data: a measure for ``drain_seconds`` and Kubernetes' grace periods.

Five nodes with three copies on disks; after each size one of them is told to leave, and comes back.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from chaos.cluster import Node

import p2prdf
from netns.hosts import HostCluster
from netns.lan import Lan

__all__ = ["measure"]

NODES: Final = 5
BATCH: Final = 1000
DRAIN_SECONDS: Final = 600
"""Setting of the nodes: so long that no node's leaving reaches it."""


async def measure(lan: Lan, sizes: Sequence[int], tell: Callable[[dict[str, Any]], None]) -> None:
    """Publish up to each size, let a node leave, and print the time that it took."""
    cluster = HostCluster(lan, NODES, {"drain_seconds": DRAIN_SECONDS})
    try:
        await cluster.start()
        published = 0
        for number, size in enumerate(sizes):
            async with p2prdf.connect(cluster.nodes[0].address) as client:
                await client.publish(_triples(published, size), batch_triples=BATCH)
            published = size
            await cluster.until_whole(seconds=DRAIN_SECONDS)
            node = cluster.nodes[1 + number % (NODES - 1)]
            held = (await node.status() or {})["peer"]["index_entries"]
            seconds = await node.leave(2 * DRAIN_SECONDS)
            ready = await node.start()
            whole = await cluster.until_whole(seconds=DRAIN_SECONDS)
            drained = _last_drained(node)
            tell({
                "triples": size, "held": held, "leave_seconds": round(seconds, 2), "drain_seconds": drained["seconds"],
                "handed_off": drained["handed_off"], "ready_seconds": round(ready, 2),
                "whole_seconds": round(whole, 2),
            })  # fmt: skip
    finally:
        await cluster.close()


def _triples(first: int, last: int) -> Iterator[tuple[str, str, str]]:
    return ((f"<urn:s{n // 4}>", f"<urn:p{n % 4}>", f'"value {n}"') for n in range(first, last))


def _last_drained(node: Node) -> dict[str, Any]:
    told = [line for line in node.log.read_text().splitlines() if '"node_drained"' in line]
    last: dict[str, Any] = json.loads(told[-1])
    return last
