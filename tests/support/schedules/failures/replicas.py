"""Checker of the equality of replicas: triples, rows, links of chains, records of subscriptions.

The true ring determines the replicas of a key, not a peer's view.  Items of groups that a peer knows to have ended do
not count: each replica drops them by itself when the lease is over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from p2prdf.peer.joins.items import HOME, Links, Rows

if TYPE_CHECKING:
    from schedules.failures.world import FailingWorld

__all__ = ["difference"]

Held = dict[tuple[int, int], dict[int, dict[int, None]]]
"""Identities of items, by kind and ring key, and by peer."""


def _everything(world: FailingWorld, *, homes: bool) -> Held:
    held: Held = {}
    ended = {group: None for node in world.living() for group in node.peer.ended_groups}
    for node in world.living():
        for kind in node.peer.kinds if homes else (each for each in node.peer.kinds if each.number != HOME):
            items = kind.items()
            gone = kind.of_groups(ended) if isinstance(kind, Rows | Links) else {}
            for key, identity in zip(items.keys.tolist(), items.identities.tolist(), strict=True):
                if identity not in gone:
                    held.setdefault((kind.number, key), {}).setdefault(node.index, {})[identity] = None
    return held


def difference(world: FailingWorld, *, homes: bool = True) -> str | None:
    """Describe an item that is missing at a replica; None if there is none.

    Without ``homes``, records and answers of subscriptions do not count.  Items at other peers only do not count: they
    may be obsolete.
    """
    for (kind, key), peers in _everything(world, homes=homes).items():
        keepers = [node.index for node in world.keepers(key)]
        known = {identity: None for keeper in keepers for identity in peers.get(keeper, {})}
        for index in keepers:
            lacking = [identity for identity in known if identity not in peers.get(index, {})]
            if lacking:
                having = [str(other) for other, held in peers.items() if lacking[0] in held]
                return (
                    f"peer {index} lacks {len(lacking)} of {len(known)} items of kind {kind} under {key:016x}, such as "
                    f"{lacking[0]:016x}, which peer {', '.join(having)} has"
                )
    return None
