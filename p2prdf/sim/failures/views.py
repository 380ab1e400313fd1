"""What each peer believes of the others: a failure detector that is late, uneven and sometimes wrong.

Every peer has a *view* of its own: the peers that it takes for alive.  A view is complete, in
the sense that its peer was told of every member once, and follows the truth with a delay that is drawn for
each observer and each change.  So for seconds two peers disagree about who holds a key.  Which delay
belongs to which change does not matter: when it is over, the observer sees what is true *then*, so
after the last change every view becomes true.

A peer that starts knows the members as its cluster file (or its former life) named them, dead ones
among them, and finds out; or it is told of the living alone (``living_only``), as by SWIM.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final

from p2prdf.sim.ring import Ring
from p2prdf.wire.contract import ContactLost, ContactSeen, DoorsMet, OwnersFound

if TYPE_CHECKING:
    from p2prdf.sim.failures.options import Failures
    from p2prdf.sim.failures.world import FailingWorld
    from p2prdf.sim.world import Node
    from p2prdf.wire.messages import Contact

__all__ = ["Views"]

_READABLE_SECONDS: Final = 10.0
"""Peers whose clocks differ by more cannot read each other's datagrams."""
_TOLD_SECONDS: Final = 60.0
"""How long the number of members counts that a peer of another time has told."""


class Views:
    """The views of all peers of a world."""

    def __init__(self, world: FailingWorld, failures: Failures, random: Random):
        self._world = world
        self._failures = failures
        self._random = random
        self._views: dict[int, dict[int, Contact]] = {}
        self._told: dict[int, dict[int, tuple[int, float]]] = {}
        """By peer: the number of members that each peer of another time has told it, and when."""
        self._resolve_at: float | None = None
        """When the names of peers resolve; until then no peer sees another."""
        self.false_alarms = 0
        """How often a living peer was taken for dead."""

    def of(self, node: Node) -> dict[int, Contact]:
        """Return whom a peer takes for alive, itself included, by ring position."""
        return self._views[node.index]

    def start(self, node: Node) -> None:
        """Tell a peer that starts who is there, and have it and the others look at each other."""
        world = self._world
        self._told.pop(node.index, None)
        if self._resolve_at is None:
            self._resolve_at = world.now + self._failures.late_bootstrap_seconds
        if world.now < self._resolve_at:
            self._start_alone(node, self._resolve_at - world.now)
            return
        self._views[node.index] = view = {node.contact.key: node.contact}
        if zone := world.zone(node):
            world.tell(node, ContactSeen(node.contact, zone))
        for other in world.members():
            if other is not node and not (self._failures.living_only and not self._visible(node, other)):
                view[other.contact.key] = other.contact
                world.tell(node, ContactSeen(other.contact, world.zone(other)))
        world.tell(node, self.owners(node, node.contact.key))
        self._see_doors(node)
        for other in world.members():
            if other is not node:
                self._later(node, other, self._failures.detect_min_seconds, self._failures.detect_max_seconds)

    def _start_alone(self, node: Node, seconds: float) -> None:
        """Tell a peer that starts of itself alone, and have it and the others look at each other when names resolve.

        Daemons tell their peers nothing until then.  Here a peer owns all keys meanwhile: it must keep the promises.
        """
        world = self._world
        self._views[node.index] = {node.contact.key: node.contact}
        world.happened["late-bootstrap"] += 1
        if zone := world.zone(node):
            world.tell(node, ContactSeen(node.contact, zone))
        world.tell(node, self.owners(node, node.contact.key))
        low, high = self._delays(gone=False)
        for other in world.members():
            if other is not node:
                self._later(node, other, seconds + low, seconds + high)
                self._later(other, node, seconds + low, seconds + high)

    def changed(self, node: Node, *, gone: bool) -> None:
        """Have all others look at a peer that went (or came), each when it notices."""
        low, high = self._delays(gone=gone)
        for other in self._world.members():
            if other is not node:
                self._later(other, node, low, high)

    def between(self, one: Node, other: Node, *, gone: bool) -> None:
        """Have two peers look at each other, as the link between them went (or came)."""
        low, high = self._delays(gone=gone)
        self._later(one, other, low, high)
        self._later(other, one, low, high)

    def suspect(self, observer: Node, other: Node, seconds: float) -> None:
        """Let a peer take another for dead, whatever is true, and look again after some time."""
        if self._world.alive(observer) and other.contact.key in self.of(observer):
            self.false_alarms += 1
            self._lose(observer, other)
            self._world.schedule(seconds, self.look, observer, other)

    def _delays(self, *, gone: bool) -> tuple[float, float]:
        failures = self._failures
        if gone:
            return failures.detect_min_seconds, failures.detect_max_seconds
        return failures.meet_min_seconds, failures.meet_max_seconds

    def _later(self, observer: Node, other: Node, low: float, high: float) -> None:
        self._world.schedule(self._random.uniform(low, high), self.look, observer, other)

    def look(self, observer: Node, other: Node) -> None:
        """Have a peer see whether another is there now."""
        world = self._world
        if not world.alive(observer) or observer is other:
            return
        there = self._visible(observer, other)
        known = self.of(observer).get(other.contact.key)
        if there and known != other.contact:
            self.of(observer)[other.contact.key] = other.contact
            world.view_changes += 1
            world.tell(observer, ContactSeen(other.contact, world.zone(other)))
            self._see_doors(observer)
        elif known is not None and not there:
            self._lose(observer, other)

    def _see_doors(self, node: Node) -> None:
        """Tell a peer that waits for it that it knows all members, living ones: all of them are its doors."""
        world = self._world
        if world.alive(node) and node.peer.waits_for_doors:
            members = [other for other in world.members() if other is not node]
            if all(other.contact.key in self.of(node) and self._visible(node, other) for other in members):
                world.submit(node, DoorsMet())

    def _visible(self, observer: Node, other: Node) -> bool:
        if self._resolve_at is not None and self._world.now < self._resolve_at:
            return False
        if abs(observer.skew - other.skew) > _READABLE_SECONDS:
            return False
        return self._reached(observer, other)

    def _reached(self, observer: Node, other: Node) -> bool:
        return self._world.alive(other) and self._world.links.visible(observer.index, other.index)

    def _lose(self, observer: Node, other: Node) -> None:
        known = self.of(observer).pop(other.contact.key)
        self._world.view_changes += 1
        self._world.tell(observer, ContactLost(known, left=self._world.machines[other.index].left))

    def owners(self, node: Node, key: int) -> OwnersFound:
        """Return what a peer's overlay says about a key: its whole view, closest first."""
        ring = Ring(self.of(node).values(), self._world.options.overlay)
        before = ring.before(key) if self._world.options.overlay == "chord" else None
        return OwnersFound(key, ring.closest(key, len(ring)), complete=True, before=before)

    def fenced(self, node: Node) -> bool:
        """Return whether a peer takes no new work, since a peer of another time sees at least as many members.

        What such a peer has told counts for some time (:mod:`p2prdf.overlay.swim_clock`).
        """
        told = self._told.setdefault(node.index, {})
        for other in self._world.members():
            if abs(other.skew - node.skew) <= _READABLE_SECONDS:
                told.pop(other.index, None)
            elif other is not node and self._reached(node, other):
                told[other.index] = len(self.of(other)), self._world.now
        since = self._world.now - _TOLD_SECONDS
        own = len(self.of(node))
        return any(members >= own and at >= since for members, at in told.values())

    def true(self) -> bool:
        """Return whether every living peer takes exactly the living peers for alive."""
        living = {node.contact.key: node.contact for node in self._world.members() if self._world.alive(node)}
        return all(self.of(node) == living for node in self._world.members() if self._world.alive(node))
