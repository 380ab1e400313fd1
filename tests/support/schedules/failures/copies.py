"""How many disks hold what was acknowledged, at any moment, and at the end which ones.

A publication is acknowledged when every triple of it, under every role that it was published under, is on
``copies_min`` disks.  From then on it must stay there: no crash takes it away, and the disks that are lost
on purpose are counted.  Looked at are the disks themselves, record by record: what a crash at this very
moment would leave.

At the end, healed and at rest, everything of which anything is left must be *whole*: under each of its
roles, on the disks of all who keep it by the true ring.  A publication that nobody was told of may be
there or not, but not in part.

An *item* is a triple, or a publication event, under one role.  A disk's *holdings* are kept up as records
become durable, and made anew when a snapshot or a loss has replaced them.
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
"""A triple (as a set has it), one with a mark for its removal, or the identity of a publication event."""

_REMOVED = "removed"

Item = tuple[Thing, int]
"""A thing, and the bit number of a role."""


@dataclass(slots=True)
class _Holdings:
    """What the durable records of one disk hold: of each triple and event its roles and the latest stamp.

    As in a peer's tables, a triple has one stamp, whatever roles it came under with it.
    """

    losses: int
    compactions: int
    read: int = 0
    things: dict[Thing, tuple[int, int]] = field(default_factory=dict)

    def stamp(self, item: Item) -> int:
        """Return the stamp that an item is held with, -1 if it is not held."""
        thing, bit = item
        roles, stamp = self.things.get(thing, (0, -1))
        if isinstance(thing, tuple) and thing[-1] == _REMOVED:  # a triple ends under all roles at once
            roles |= self.things.get(thing[:-1], (0, -1))[0]
        return stamp if roles >> bit & 1 else -1

    def is_left(self, item: Item, stamp: int) -> bool:
        """Return whether anything is held of an item that was published, or removed, with a stamp.

        Two peers may give the same stamp at the same time: a triple that is known to be removed with it says nothing of
        its publication (seed 2107994).
        """
        thing, _ = item
        removed = self.things.get((*thing, _REMOVED), (0, -1)) if isinstance(thing, tuple) else (0, -1)
        return self.stamp(item) == stamp != removed[1]


def _items(triple: Triple, event: int, roles: int, *, removed: bool) -> Iterator[Item]:
    """Yield the items of a publication, or of a removal."""
    for bit in range(_ROLE_BITS):
        if roles >> bit & 1:
            yield ((*triple, _REMOVED) if removed else triple) if bit < keys.EVENT_SHIFT else event, bit


class Copies:
    """Watches that what was acknowledged is on enough disks, and says which disks may be lost."""

    def __init__(self, world: FailingWorld):
        self._world = world
        self._copies_min = world.options.config.copies_min
        self._holdings: dict[int, _Holdings] = {}
        self._due: dict[Item, int] = {}  # each acknowledged item and its latest acknowledged stamp
        self._lacking: dict[Item, int] = {}  # how many of its disks were lost on purpose, and not yet made up for
        self._lost: dict[Item, int] = {}  # the latest stamp that these were held with
        self.problems: list[Problem] = []

    # --- what is held ----------------------------------------------------------------------------

    def _held(self, node: Node) -> _Holdings:
        """Return what a disk holds."""
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
        """Return how many disks hold an item; of a triple, published at that stamp or later."""
        least = _least(item, stamp)
        return sum(self._held(node).stamp(item) >= least for node in self._world.members())

    # --- what must be held -----------------------------------------------------------------------

    @property
    def _enough(self) -> int:
        members = sum(1 for _ in self._world.members())
        return min(self._copies_min, members)

    def acknowledged(self, publishing: RepeatedPublishing, stamp: int) -> None:
        """Note a publication that was acknowledged just now, and check it at once."""
        for triple, event in zip(publishing.statements, publishing.events, strict=False):  # none of elements
            roles = self._world.stamps.get(event, {}).get(stamp, 0)
            for item in _items(triple, event, roles, removed=publishing.removed):
                self._due[item] = max(stamp, self._due.get(item, 0))
                self._check(item, "when it was acknowledged")

    def look(self, when: str) -> None:
        """Check everything that was acknowledged so far."""
        for item in self._due:
            self._check(item, when)

    def _due_now(self, item: Item) -> int:
        """Return the stamp that an acknowledged item is to be held with: peers may have corrected the first one."""
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
            # What was lost may have been a later publication of the triple, of which nobody has heard yet.
            if lacking and self.count(item, self._lost.get(item, 0)) >= self._enough:
                self._lacking.pop(item)
                self._lost.pop(item, None)
        elif found < self._enough - lacking:
            self._lacking[item] = self._enough - found  # said once
            self._complain("copies", f"{_name(item)} is on {found} of {self._enough} disks {when}")

    def _complain(self, kind: str, text: str) -> None:
        if len(self.problems) < _SHOWN_MAX:
            self.problems.append(Problem(kind, "all disks", f"{text} at {self._world.now - self._world.started:.6f}"))

    # --- losing disks ----------------------------------------------------------------------------

    def spared(self, *nodes: Node) -> bool:
        """Return whether disks may be lost at once as far as publications go: enough others have what they hold."""
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
        """Note that a disk is lost on purpose: until repair, its items may lack one more.

        Also those of which the publisher has not heard yet: whoever counts their copies may have counted this one.
        """
        for thing, (roles, stamp) in self._held(node).things.items():
            for bit in range(_ROLE_BITS):
                if roles >> bit & 1:
                    self._lacking[thing, bit] = self._lacking.get((thing, bit), 0) + 1
                    self._lost[thing, bit] = max(stamp, self._lost.get((thing, bit), 0))

    # --- at the end ------------------------------------------------------------------------------

    def check_whole(self, publishings: Iterable[RepeatedPublishing]) -> None:
        """Check that all of which anything is left is on the disks of all who keep it."""
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
            return  # one of eight buckets, which the tables choose
        for node in self._world.keepers(key):
            if held[node.index].stamp(item) < _least(item, stamp):
                self._complain("part", f"{_name(item)}, stamp {stamp:#x}, is not on peer {node.index}'s disk")


def _least(item: Item, stamp: int) -> int:
    """Return the stamp with which an item must be held: an event is the same whenever it came."""
    return stamp if item[1] < keys.EVENT_SHIFT else 0


def _take(node: Node, message: IndexTriples, things: dict[Thing, tuple[int, int]]) -> None:
    """Note what a record holds."""
    texts = (node.dictionary.texts(as_list(column)) for column in (message.s, message.p, message.o))
    columns = (as_list(column) for column in (message.time, message.event, message.roles))
    for triple, time, event, roles in zip(zip(*texts, strict=True), *columns, strict=True):
        # A triple that is removed later need not be held as published; that it was removed must be known.
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
