"""How many disks hold what was acknowledged, at any moment.

A publication is acknowledged when every triple of it, under every role that it is indexed under, is on
``copies_min`` disks.  From then on it must stay there: no crash takes it away, and the disks that are lost
on purpose are counted.  Looked at are the disks themselves, record by record: what a crash at this very
moment would leave.

A disk's *holdings* are kept up as records become durable, and made anew when a snapshot or a loss has
replaced them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from p2prdf import keys
from p2prdf.columns import as_list
from p2prdf.sim.checkers import Problem
from p2prdf.wire.messages import IndexTriples

if TYPE_CHECKING:
    from p2prdf.sim.failures.clients import RepeatedPublishing
    from p2prdf.sim.failures.disk import Disk
    from p2prdf.sim.failures.world import FailingWorld
    from p2prdf.sim.world import Node

__all__ = ["Copies"]

_ROLES = (1 << keys.MARK_SHIFT) - 1
_SHOWN_MAX = 3

Item = tuple[int, int]
"""A publication event and the bit of a role that it is indexed under."""


@dataclass(slots=True)
class _Holdings:
    """What the durable records of one disk hold."""

    roles: dict[int, int] = field(default_factory=dict)  # per publication event, the roles it is held under
    read: int = 0
    losses: int = 0
    compactions: int = 0
    base: object = None


class Copies:
    """Watches that what was acknowledged is on enough disks, and says which disks may be lost."""

    def __init__(self, world: FailingWorld):
        self._world = world
        config = world.options.config
        self._copies_min = config.copies_min
        self._replicas = config.replicas
        self._holdings: dict[int, _Holdings] = {}
        self._items: dict[Item, int] = {}  # each acknowledged item and how many disks may lack it by now
        self._lost: dict[int, None] = {}
        self.problems: list[Problem] = []
        self.looks = 0

    # --- what is held ----------------------------------------------------------------------------

    def _held(self, node: Node) -> dict[int, int]:
        """Return, per publication event, the roles that a disk holds it under."""
        disk = self._world.machines[node.index].disk
        holdings = self._holdings.get(node.index)
        fresh = holdings is None or (holdings.losses, holdings.compactions) != (disk.losses, disk.compactions)
        if holdings is None or fresh:
            holdings = self._holdings[node.index] = _Holdings(losses=disk.losses, compactions=disk.compactions)
        self._read_on(node, holdings, disk)
        return holdings.roles

    def _read_on(self, node: Node, holdings: _Holdings, disk: Disk) -> None:
        for record in disk.durable[holdings.read :]:
            for message in self._world.read(node, record):
                if isinstance(message, IndexTriples):
                    for event, roles in zip(as_list(message.event), as_list(message.roles), strict=True):
                        holdings.roles[event] = holdings.roles.get(event, 0) | roles & _ROLES
        holdings.read = len(disk.durable)

    def count(self, item: Item) -> int:
        """Return how many disks hold an item."""
        event, bit = item
        return sum(bool(self._held(node).get(event, 0) & bit) for node in self._world.members())

    # --- what must be held -----------------------------------------------------------------------

    @property
    def _enough(self) -> int:
        members = sum(1 for _ in self._world.members())
        return min(self._copies_min, self._replicas, members)

    def acknowledged(self, publishing: RepeatedPublishing, stamp: int) -> None:
        """Note a publication that was acknowledged just now, and check it at once."""
        for event in publishing.events:
            roles = self._world.stamps.get(event, {}).get(stamp, 0)
            for bit in (1 << at for at in range(keys.MARK_SHIFT) if roles >> at & 1):
                item = (event, bit)
                if item not in self._items:
                    self._items[item] = 0
                    self._check(item, "when it was acknowledged")

    def look(self, when: str) -> None:
        """Check everything that was acknowledged so far."""
        self.looks += 1
        for item in self._items:
            self._check(item, when)

    def _check(self, item: Item, when: str) -> None:
        found, lacking = self.count(item), self._items[item]
        if found >= self._enough:
            self._items[item] = 0
        elif found < self._enough - lacking:
            self._items[item] = self._enough - found  # said once
            event, bit = item
            text = f"event {event:016x} {keys.role_name(bit)} is on {found} of {self._enough} disks {when}"
            if len(self.problems) < _SHOWN_MAX:
                self.problems.append(Problem("copies", "all disks", text))

    # --- losing disks ----------------------------------------------------------------------------

    def spared(self, node: Node) -> bool:
        """Return whether a disk may be lost: what it holds is on at least one other, and was on enough."""
        if self._copies_min < 2:
            return False
        self.look("before a disk is lost")
        held = self._held(node)
        return all(
            not held.get(event, 0) & bit or (lacking < self._copies_min - 1 and self.count((event, bit)) > 1)
            for (event, bit), lacking in self._items.items()
        )

    def losing(self, node: Node) -> None:
        """Note that a disk is lost on purpose: until repair, its items may lack one more."""
        held = self._held(node)
        for (event, bit), lacking in self._items.items():
            if held.get(event, 0) & bit:
                self._items[event, bit] = lacking + 1
