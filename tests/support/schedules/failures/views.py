"""The peers' views of each other: a failure detector with delays, disagreement and false alarms.

Every peer has a *view* of its own: the peers that it takes for alive.  A view is complete (its peer learned of every
member once) and follows the truth with a delay that is drawn for each observer and change.  So for seconds two peers
may disagree about the replicas of a key.  At the end of a delay the observer sees the *current* truth, so all views
become true after the last change.

A starting peer knows the members of its cluster file or of its former incarnation, dead ones among them, and detects
their state; or it learns of live members only (``living_only``), as from SWIM.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final

from p2prdf.sim.ring import Ring
from p2prdf.wire.contract import ClusterEntered, ContactLost, ContactSeen, OwnersFound, SeedsReached

if TYPE_CHECKING:
    from p2prdf.sim.world import Node
    from p2prdf.wire.messages import Contact
    from schedules.failures.options import Failures
    from schedules.failures.world import FailingWorld

__all__ = ["Views"]

_READABLE_SECONDS: Final = 10.0
"""Bound in seconds of the difference between two clocks; beyond it peers cannot read each other's datagrams."""
_TOLD_SECONDS: Final = 60.0
"""Time for which the number of members that a peer with another clock reported is valid."""
_STRANGERS_SECONDS_MAX: Final = 8.0
_FEW_SECONDS: Final = 10.0
"""Time after its start in which a peer with at most half of its former members takes no work."""


class Views:
    """The views of all peers of a world."""

    def __init__(self, world: FailingWorld, failures: Failures, random: Random):
        self._world = world
        self._failures = failures
        self._random = random
        self._views: dict[int, dict[int, Contact]] = {}
        self._told: dict[int, dict[int, tuple[int, float]]] = {}
        """By peer: the number of members that each peer with another clock has reported, and the time."""
        self._began: dict[int, tuple[float, float]] = {}
        """By peer: the start of its process, and the delay until peers with other clocks report to it."""
        self._resolve_at: float | None = None
        """Time at which the names of peers resolve; before it no peer sees another."""
        self._meet_at: float | None = None
        """Time at which two separate clusters see each other."""
        self._islands: dict[int, int] = {}
        """By peer: its first cluster, in schedules with two separate clusters."""
        self.identities: set[int] = set()
        """Identities of the clusters when they met."""
        self._islands_random = world._generator("islands")
        self.false_alarms = 0
        """Number of live peers that were taken for dead."""

    def of(self, node: Node) -> dict[int, Contact]:
        """Return the peers that a peer takes for alive, with itself, by ring position."""
        return self._views[node.index]

    def start(self, node: Node) -> None:
        """Give a starting peer its members, and let it and the others examine each other."""
        world = self._world
        self._told.pop(node.index, None)
        strangers = Random(f"{world.options.seed} strangers {node.index} {world.now}")
        self._began[node.index] = world.now, strangers.uniform(0.0, _STRANGERS_SECONDS_MAX)
        if self._resolve_at is None:
            self._resolve_at = world.now + self._failures.late_bootstrap_seconds
            if self._failures.islands_seconds:
                self._meet_at = world.now + self._failures.islands_seconds
                world.schedule(self._failures.islands_seconds, self._meet)
        if world.now < self._resolve_at and self._late(node):
            world.happened["late-bootstrap"] += 1
        self._views[node.index] = view = {node.contact.key: node.contact}
        if zone := world.zone(node):
            world.tell(node, ContactSeen(node.contact, zone))
        others = [other for other in world.members() if other is not node]
        apart = [other for other in others if self._apart(node, other)]
        for other in others:
            if other not in apart and not (self._failures.living_only and not self._visible(node, other)):
                view[other.contact.key] = other.contact
                world.tell(node, ContactSeen(other.contact, world.zone(other)))
        world.tell(node, self.owners(node, node.contact.key))
        self._see_doors(node)
        if self._meet_at is not None or (self._failures.late_bootstrap_seconds and len(view) > 1):
            world.tell(node, ClusterEntered())
        for other in others:
            if other not in apart:
                self._later(node, other, self._failures.detect_min_seconds, self._failures.detect_max_seconds)
        for other in apart:
            self._meet_later(node, other)

    def _meet_later(self, node: Node, other: Node) -> None:
        """Let two peers examine each other soon after they can."""
        seconds = self._apart_seconds(node, other)
        low, high = self._delays(gone=False)
        self._later(node, other, seconds + low, seconds + high)
        self._later(other, node, seconds + low, seconds + high)

    # --- names that resolve late -----------------------------------------------------------------

    def _late(self, node: Node) -> bool:
        """Return whether a peer's name resolves late, and the peer resolves other names late."""
        failures = self._failures
        if not failures.late_bootstrap_seconds:
            return False
        peers = self._world.options.peers
        return not failures.late_bootstrap_peers or peers - failures.late_bootstrap_peers <= node.index < peers

    def _apart(self, one: Node, other: Node) -> bool:
        """Return whether two peers cannot see each other yet."""
        return self._apart_seconds(one, other) > 0

    def _apart_seconds(self, one: Node, other: Node) -> float:
        """Return the time until two peers can see each other: after resolution of names, or after clusters meet."""
        now, until = self._world.now, 0.0
        if self._resolve_at is not None and now < self._resolve_at and (self._late(one) or self._late(other)):
            until = self._resolve_at - now
        if self._meet_at is not None and now < self._meet_at and self.island(one) != self.island(other):
            until = self._meet_at - now
        return until

    # --- islands ---------------------------------------------------------------------------------

    def island(self, node: Node) -> int:
        """Return the first cluster of a peer, one of two; each has two peers at least."""
        if node.index not in self._islands:
            count, random = len(self._world.nodes), self._islands_random
            if not self._islands and count > 1:
                first = set(random.sample(range(count), random.randint(min(2, count - 1), max(1, count - 2))))
                self._islands = {index: int(index in first) for index in range(count)}
            else:
                self._islands[node.index] = random.randint(0, 1)
        return self._islands[node.index]

    def known_to_each_other(self, one: Node, other: Node) -> bool:
        """Return whether a subscription at one of two peers may be known at the other.

        The peers of two clusters that meet see each other within ``meet_max_seconds``.
        """
        met = self._meet_at is None or self._world.now > self._meet_at + self._failures.meet_max_seconds
        return met or self.island(one) == self.island(other)

    def sees_other_island(self, node: Node) -> bool:
        """Return whether a peer sees a member of the other cluster."""
        world = self._world
        return any(self.island(world.by_key[key]) != self.island(node) for key in self.of(node))

    def _meet(self) -> None:
        """Record the identities of the clusters just before their peers see each other."""
        world = self._world
        world.happened["islands"] += 1
        self.identities = {node.peer.cluster.identity for node in world.living()} - {0}
        shown = ", ".join(f"{each:016x}" for each in sorted(self.identities))
        world.say(world.nodes[0], f"clusters meet: {shown}")

    # --- looking ---------------------------------------------------------------------------------

    def changed(self, node: Node, *, gone: bool) -> None:
        """Let all others examine a peer that failed (or started), each after its delay."""
        low, high = self._delays(gone=gone)
        for other in self._world.members():
            if other is not node:
                self._later(other, node, low, high)

    def between(self, one: Node, other: Node, *, gone: bool) -> None:
        """Let two peers examine each other after their link failed (or healed)."""
        low, high = self._delays(gone=gone)
        self._later(one, other, low, high)
        self._later(other, one, low, high)

    def suspect(self, observer: Node, other: Node, seconds: float) -> None:
        """Let a peer take another for dead, also a live one, and examine it again after some time."""
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
        """Update a peer's view of another to the current truth."""
        world = self._world
        if not world.alive(observer) or observer is other:
            return
        there = self._visible(observer, other)
        known = self.of(observer).get(other.contact.key)
        if there and known != other.contact:
            self.of(observer)[other.contact.key] = other.contact
            world.view_changes += 1
            world.tell(observer, ContactSeen(other.contact, world.zone(other)))
            if self._failures.late_bootstrap_seconds:
                world.tell(observer, ClusterEntered())
            self._see_doors(observer)
        elif known is not None and not there:
            self._lose(observer, other)

    def _see_doors(self, node: Node) -> None:
        """Report to a waiting peer that it has reached its seeds: all live members."""
        world = self._world
        if self._resolve_at is not None and world.now < self._resolve_at:
            return  # some names do not resolve
        if world.alive(node) and node.peer.waits_for_seeds:
            members = [other for other in world.members() if other is not node and not self._apart(node, other)]
            if all(other.contact.key in self.of(node) and self._visible(node, other) for other in members):
                world.submit(node, SeedsReached())

    def _visible(self, observer: Node, other: Node) -> bool:
        if self._apart(observer, other):
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
        """Return a peer's owners of a key: its whole view, closest first."""
        ring = Ring(self.of(node).values(), self._world.options.overlay)
        before = ring.before(key) if self._world.options.overlay == "chord" else None
        return OwnersFound(key, ring.closest(key, len(ring)), complete=True, before=before)

    def fenced(self, node: Node) -> bool:
        """Return whether a peer takes no new work, because a peer with another clock sees at least as many members.

        Such a peer reports with a delay, and its report is valid for some time (:mod:`p2prdf.overlay.swim_clock`).  A
        peer that has just started waits for reports if it sees few others.
        """
        if not self._failures.clock_steps_max:
            return False
        began, delay = self._began[node.index]
        told = self._told.setdefault(node.index, {})
        for other in self._world.members():
            if abs(other.skew - node.skew) <= _READABLE_SECONDS:
                told.pop(other.index, None)
            elif other is not node and self._reached(node, other) and self._world.now >= began + delay:
                told[other.index] = len(self.of(other)), self._world.now
        since = self._world.now - _TOLD_SECONDS
        own = len(self.of(node))
        if self._world.now < began + _FEW_SECONDS and 2 * own <= node.peer.members_max:
            return True
        return any(members >= own and at >= since for members, at in told.values())

    def true(self) -> bool:
        """Return whether the view of every live peer has exactly the live peers."""
        living = {node.contact.key: node.contact for node in self._world.members() if self._world.alive(node)}
        return all(self.of(node) == living for node in self._world.members() if self._world.alive(node))
