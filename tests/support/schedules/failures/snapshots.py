"""Checker of snapshots: a snapshot must restore the same items as the log that it replaces.

A snapshot is taken of a working peer, from tables, logs and queues.  An item that is on the disk and in none of these
is lost with the log.  Subscribers seldom notice this, because other replicas have the item.  So the checker starts an
isolated peer from both and compares the items.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Final

from p2prdf.peer import Peer
from p2prdf.store.tables import NEVER
from schedules.checkers import Problem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from p2prdf.sim.world import Node
    from schedules.failures.disk import Record
    from schedules.failures.world import FailingWorld

__all__ = ["Snapshots"]

_SHOWN_MAX: Final = 3

_Item = tuple[int, int, int]
"""Kind, ring key and identity."""


class Snapshots:
    """Compares each snapshot with the log that it replaces."""

    def __init__(self, world: FailingWorld):
        self._world = world
        self.problems: list[Problem] = []

    def compacted(self, node: Node, before: Sequence[Record], after: Sequence[Record]) -> None:
        """Check a replacement of a peer's durable records.

        The snapshot may have items that were not durable yet, newer items instead of old ones, and optional ones, such
        as further waiters for a row.

        A peer that has forgotten validity intervals may have had the proof for less than a turn, so its log shows
        neither the proof nor that they are forgotten.  Then both are compared without the intervals that may ever go.
        """
        lost = self._lost(node, before, after)
        if lost and node.peer.status()["intervals_forgotten"]:
            lost = self._lost(node, before, after, superseded=False)
        if lost and len(self.problems) < _SHOWN_MAX:
            kind, key, identity = min(lost)
            text = f"{len(lost)} items of the log, such as {identity:016x} of kind {kind} under {key:016x}"
            when = f"at {self._world.now - self._world.started:.6f}"
            self.problems.append(Problem("snapshot", f"peer {node.index}", f"a snapshot lacks {text}, {when}"))

    def _lost(
        self, node: Node, before: Sequence[Record], after: Sequence[Record], *, superseded: bool = True
    ) -> set[_Item]:
        """Return the items of the log that a snapshot lacks; ``superseded``: with intervals to forget."""
        held, found = (self._items(node, each, superseded=superseded) for each in (before, after))
        fewer = Counter(each[:2] for each in held) - Counter(each[:2] for each in found)
        lost = {each for each in held.keys() - found.keys() if each[:2] in fewer}
        if lost:
            buffered = [*before, *self._world.machines[node.index].disk.buffer]
            lost &= self._items(node, buffered, superseded=superseded).keys()
        return lost

    def _items(self, node: Node, records: Sequence[Record], *, superseded: bool) -> dict[_Item, None]:
        """Return the items of a peer that starts from these records."""
        entropy = Random(f"p2prdf snapshot {node.index}")
        peer = Peer(node.contact, node.peer.config, node.dictionary, columns=node.columns, entropy=entropy)
        messages = [message for record in records for message in self._world.read(node, record)]
        now = self._world.now + node.skew
        if node.peer.stamps_corrected:  # corrected stamps depend on the start time
            now = self._world.machines[node.index].started_at
        peer.restore(messages, now=now)
        if not superseded:
            peer._tables.forget_superseded(NEVER)
            while peer._tables.forgetting:
                peer._tables.forget_some()
        return {
            (kind.number, key, identity): None
            for kind in peer.kinds
            for items in (kind.items(),)
            for key, identity in zip(items.keys.tolist(), items.identities.tolist(), strict=True)
        }
