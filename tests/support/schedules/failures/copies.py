"""Checker of copies on disks: enough of them at any time, the right ones at the end.

A publication is acknowledged when each of its triples, in each of its indexes, is on ``copies_min`` disks.  From then
on it must stay there: a crash must not remove it, and disks that are lost on purpose are counted.  The checker reads
the durable records of the disks, which would remain after a crash.

At the end, healed and at rest, each publication that exists at all must be *whole*: in each of its indexes, on the
disks of all replicas by the true ring.  An unacknowledged publication may be there or not, but not in part.

An *item* is a triple, or a publication event, in one index.  The *holdings* of a disk are updated as records become
durable, and rebuilt after a snapshot or a loss.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from p2prdf import hlc, keys
from p2prdf.columns import as_list
from p2prdf.wire.messages import IndexTriples
from schedules.checkers import Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from p2prdf.sim.oracle import Triple
    from p2prdf.sim.world import Node
    from schedules.failures.clients import RepeatedPublishing
    from schedules.failures.world import FailingWorld

__all__ = ["Copies"]

_ROLE_BITS = keys.MARK_SHIFT
_SET_ROLES = (1 << keys.EVENT_SHIFT) - 1
_EVENT_ROLES = _SET_ROLES << keys.EVENT_SHIFT
_SHOWN_MAX = 3

Thing = tuple[str, ...] | int
"""A triple (with set semantics), a triple with a mark of its deletion, or the identity of a publication event."""

_REMOVED = "removed"

Item = tuple[Thing, int]
"""A thing, and the bit number of an index."""


@dataclass(slots=True)
class _Holdings:
    """Contents of one disk's durable records: indexes and latest stamp of each triple and event.

    As in a peer's tables, a triple has one stamp for all indexes.
    """

    losses: int
    compactions: int
    read: int = 0
    things: dict[Thing, tuple[int, int]] = field(default_factory=dict)

    def stamp(self, item: Item) -> int:
        """Return the stamp of an item, -1 if the disk does not have it."""
        thing, bit = item
        roles, stamp = self.things.get(thing, (0, -1))
        if isinstance(thing, tuple) and thing[-1] == _REMOVED:  # a triple ends in all indexes at once
            roles |= self.things.get(thing[:-1], (0, -1))[0]
        return stamp if roles >> bit & 1 else -1

    def is_left(self, item: Item, stamp: int) -> bool:
        """Return whether the disk has an item that was published, or deleted, with a stamp.

        Two peers may assign the same stamp: a deletion with this stamp is no evidence of a publication (seed 2107994).
        """
        thing, _ = item
        removed = self.things.get((*thing, _REMOVED), (0, -1)) if isinstance(thing, tuple) else (0, -1)
        return self.stamp(item) == stamp != removed[1]


def _items(triple: Triple, event: int, roles: int, *, removed: bool) -> Iterator[Item]:
    """Yield the items of a publication or of a deletion."""
    for bit in range(_ROLE_BITS):
        if roles >> bit & 1:
            yield ((*triple, _REMOVED) if removed else triple) if bit < keys.EVENT_SHIFT else event, bit


class Copies:
    """Checks that acknowledged items are on enough disks, and decides which disks may be lost."""

    def __init__(self, world: FailingWorld):
        self._world = world
        self._copies_min = world.options.config.copies_min
        self._holdings: dict[int, _Holdings] = {}
        self._due: dict[Item, int] = {}  # each acknowledged item and its latest acknowledged stamp
        self._lacking: dict[Item, int] = {}  # how many of its disks were lost on purpose, and not yet made up for
        self._lost: dict[Item, int] = {}  # the latest stamp that these were held with
        self.problems: list[Problem] = []

    # --- contents of disks -----------------------------------------------------------------------

    def _held(self, node: Node) -> _Holdings:
        """Return the contents of a disk."""
        disk = self._world.machines[node.index].disk
        holdings = self._holdings.get(node.index)
        if holdings is None or (holdings.losses, holdings.compactions) != (disk.losses, disk.compactions):
            holdings = self._holdings[node.index] = _Holdings(disk.losses, disk.compactions)
        for record in disk.durable[holdings.read :]:
            for message in self._world.read(node, record):
                if isinstance(message, IndexTriples):
                    _take(node, message, holdings.things)
        holdings.read = len(disk.durable)
        return holdings

    def count(self, item: Item, stamp: int) -> int:
        """Return the number of disks with an item; for a triple, published at ``stamp`` or later."""
        least = _least(item, stamp)
        return sum(self._held(node).stamp(item) >= least for node in self._world.members())

    # --- acknowledged items ----------------------------------------------------------------------

    @property
    def _enough(self) -> int:
        members = sum(1 for _ in self._world.members())
        return min(self._copies_min, members)

    def acknowledged(self, publishing: RepeatedPublishing, stamp: int) -> None:
        """Record a publication at its acknowledgement, and check it."""
        for triple, event in zip(publishing.statements, publishing.events, strict=False):  # elements have none
            roles = self._world.stamps.get(event, {}).get(stamp, 0)
            for item in _items(triple, event, roles, removed=publishing.removed):
                self._due[item] = max(stamp, self._due.get(item, 0))
                self._check(item, "when it was acknowledged")

    def look(self, when: str) -> None:
        """Check all items that were acknowledged so far."""
        for item in self._due:
            self._check(item, when)

    def _due_now(self, item: Item) -> int:
        """Return the required stamp of an acknowledged item: peers may have corrected the first one."""
        return self._corrected(item, self._due[item])

    def _corrected(self, item: Item, stamp: int) -> int:
        thing = item[0]
        if isinstance(thing, int):
            return stamp
        s, p, o = thing[:3]
        return min(stamp, self._world.earliest.get((s, p, o), stamp))

    def _check(self, item: Item, when: str) -> None:
        found = self.count(item, self._due_now(item))
        lacking = self._lacking.get(item, 0)
        if found >= self._enough:
            # The lost copy may have been of a later, still unacknowledged publication of the triple.
            if lacking and self.count(item, self._lost.get(item, 0)) >= self._enough:
                self._lacking.pop(item)
                self._lost.pop(item, None)
        elif found < self._enough - lacking:
            self._lacking[item] = self._enough - found  # reported once
            self._complain("copies", f"{_name(item)} is on {found} of {self._enough} disks {when}")

    def _complain(self, kind: str, text: str) -> None:
        if len(self.problems) < _SHOWN_MAX:
            self.problems.append(Problem(kind, "all disks", f"{text} at {self._world.now - self._world.started:.6f}"))

    # --- losing disks ----------------------------------------------------------------------------

    def spared(self, *nodes: Node) -> bool:
        """Return whether these disks may be lost together: enough others have their items."""
        if self._copies_min < 2:
            return False
        self.look("before a disk is lost")
        lost = [self._held(node) for node in nodes]
        kept = [self._held(node) for node in self._world.members() if node not in nodes]
        return all(
            all(held.stamp(item) < 0 for held in lost)
            or (
                self._lacking.get(item, 0) < self._copies_min - 1
                and any(held.stamp(item) >= _least(item, self._due_now(item)) for held in kept)
            )
            for item in self._due
        )

    def losing(self, node: Node) -> None:
        """Record the loss of a disk on purpose: until repair, its items may have one copy less.

        This includes unacknowledged items: their copies may have been counted already, with this one.
        """
        for thing, (roles, stamp) in self._held(node).things.items():
            for bit in range(_ROLE_BITS):
                if roles >> bit & 1:
                    self._lacking[thing, bit] = self._lacking.get((thing, bit), 0) + 1
                    self._lost[thing, bit] = max(stamp, self._lost.get((thing, bit), 0))

    # --- at the end ------------------------------------------------------------------------------

    def check_whole(self, publishings: Iterable[RepeatedPublishing]) -> None:
        """Check that each publication with any remaining item is on the disks of all replicas."""
        held = {node.index: self._held(node) for node in self._world.living()}
        for publishing in publishings:
            for triple, event in zip(publishing.statements, publishing.events, strict=False):
                for stamp, roles in self._world.stamps.get(event, {}).items():
                    items = list(_items(triple, event, roles, removed=publishing.removed))
                    left = any(each.is_left(item, stamp) for item in items for each in held.values())
                    if left or stamp in publishing.stamps:
                        for item in items:
                            self._check_kept(triple, item, self._corrected(item, stamp), held)

    def _check_kept(self, triple: Triple, item: Item, stamp: int, held: dict[int, _Holdings]) -> None:
        role = item[1] % keys.EVENT_SHIFT
        hashes = [keys.term_hash(term) for term in triple]
        key = keys.role_key(role, *hashes)
        if role == keys.ANY:
            return  # in one of eight buckets, chosen by the tables
        for node in self._world.keepers(key):
            if held[node.index].stamp(item) < _least(item, stamp):
                self._complain("part", f"{_name(item)}, stamp {stamp:#x}, is not on peer {node.index}'s disk")


def _least(item: Item, stamp: int) -> int:
    """Return the least stamp of an item; events are the same with any stamp."""
    return stamp if item[1] < keys.EVENT_SHIFT else 0


def _take(node: Node, message: IndexTriples, things: dict[Thing, tuple[int, int]]) -> None:
    """Add the contents of a record."""
    texts = (node.dictionary.texts(as_list(column)) for column in (message.s, message.p, message.o))
    columns = (as_list(column) for column in (message.time, message.event, message.roles))
    for triple, time, event, roles in zip(zip(*texts, strict=True), *columns, strict=True):
        # The disk need not have the publication of a triple that was deleted later, but must have the deletion.
        found: list[tuple[Thing, int]] = [(triple, roles & _SET_ROLES), (event, roles & _EVENT_ROLES)]
        if time >= hlc.GONE:
            found.append(((*triple, _REMOVED), roles & _SET_ROLES))
        for thing, part in found:
            if part:
                before, stamp = things.get(thing, (0, 0))
                things[thing] = (before | part, max(stamp, hlc.plain(time)))


def _name(item: Item) -> str:
    what, bit = item
    named = f"event {what:016x}" if isinstance(what, int) else f"triple ({' '.join(what)})"
    return f"{named} under {keys.role_name(1 << bit)}"
