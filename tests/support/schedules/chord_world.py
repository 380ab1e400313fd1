"""A Chord ring under churn, in virtual time, with Zave's invariant checked after every step.

    python -m schedules.chord_world --seeds 1000 --start 0

A run grows a ring from one peer, by concurrent joins, until it has more members than a successor list is long.  Then
peers join, crash, leave and return at random, with random delays of messages.  After a quiet period of ``HEAL_ROUNDS``
rounds, the ring must be ideal and answer all lookups correctly.

The assumptions are the theory's (Zave, "Reasoning about identifier spaces: how to make Chord correct", IEEE TSE 2017).
A crashed peer is silent, and no live peer is taken for dead: the timeout of a request is longer than any round trip.  A
failure happens only if afterwards every member has a live successor and there are R + 1 principals, R being the length
of the successor lists; other failures are counted as ``forbidden``.

Checks after each change of a pointer or of the membership:

* *OneLiveSuccessor*: every member has a live member other than itself in its successor list.
* *SufficientPrincipals*: at least R + 1 members are skipped by no member, as docs/explanation/design/routing.md
  defines it.
* Consequences of these two: the first live successors lead from all members to *one* cycle, which goes round the ring
  *once*; successor lists are in order and without repeats.

In the theory, a step happens when a request is answered, and the list in the answer is the requester's list at once.
So the check of a failure treats a list in flight as received.
"""

from __future__ import annotations

import argparse
import sys
from bisect import bisect_left, bisect_right
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Final

from p2prdf.errors import P2PRDFError
from p2prdf.overlay.chord import Chord, ChordConfig
from p2prdf.overlay.chord_lookup import ahead, successor_list
from p2prdf.overlay.membership import Create, Introduce, Leave, Packet, Post
from p2prdf.overlay.routed_messages import Ring, RingEffect, RingMessage, RingRequest
from p2prdf.sim.virtual_time import VirtualTime
from p2prdf.wire.contract import FindOwner, OwnersFound
from p2prdf.wire.messages import Contact

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from collections.abc import Set as AbstractSet

    from p2prdf.sim.virtual_time import Timer

__all__ = ["HEAL_ROUNDS", "ChordOptions", "ChordWorld", "RingBroken", "churn", "main", "run_seed"]

HEAL_ROUNDS: Final = 30
"""Rounds after which a quiet ring must be ideal; each has a pause of one second and two requests."""
_EVENTS_MAX: Final = 5_000_000


class RingBroken(P2PRDFError):
    """The ring's invariant does not hold, or it did not become ideal."""

    code = "ring-broken"


@dataclass(frozen=True, slots=True)
class ChordOptions:
    """Options of a run."""

    successors: int = 3
    members: int = 8
    """Target size; at least one more than ``successors``."""
    events: int = 40
    """Number of joins and failures."""
    event_seconds: float = 0.5
    """Mean pause between two events; a stabilisation period is one second."""
    delay_seconds_max: float = 0.1
    """Longest delay of a message; the shortest is a hundredth of it."""
    tended: bool = True
    """Whether peers also ping all their contacts, which the theory does not need."""

    def config(self) -> ChordConfig:
        """Return the settings of each peer."""
        return ChordConfig(
            successors=self.successors,
            timeout_seconds=2.5 * self.delay_seconds_max,
            silences=1,
            contacts_max=8 if self.tended else 0,
            tend_seconds=1.0 if self.tended else 1e6,
            meetings_max=16,
        )


@dataclass(slots=True, eq=False)
class _Node:
    """One incarnation of a peer."""

    chord: Chord
    alive: bool = True
    reborn_at: float = -1e9
    """Time of the join, if an earlier incarnation at the address was a member."""
    second: bool = False
    timer: Timer | None = None
    found: dict[int, OwnersFound] = field(default_factory=dict)

    @property
    def member(self) -> bool:
        return self.alive and self.chord.member


class ChordWorld(VirtualTime):
    """All peers of a simulated ring, and the messages between them."""

    def __init__(self, seed: int, options: ChordOptions, make: Callable[..., Chord] = Chord):
        super().__init__(0.0, horizon_seconds=5.0, events_max=_EVENTS_MAX)
        self.random = Random(seed)
        self.options = options
        self.counts: Counter[str] = Counter()
        self.checking = False
        self._make = make
        self._config = options.config()
        self._nodes: dict[tuple[str, int], _Node] = {}
        self._on_the_way: dict[int, tuple[Contact, Contact, Ring]] = {}
        self._sent = 0
        self._ports = 0

    # --- peers -----------------------------------------------------------------------------------

    def start(self, contact: Contact | None = None) -> _Node:
        """Start a peer that is no member yet, by default at a new address and position."""
        if contact is None:
            self._ports += 1
            contact = Contact(self.random.getrandbits(64), "peer.example", self._ports)
        chord = self._make(contact, self._config, first_request=self.random.getrandbits(62))
        second = (contact.host, contact.port) in self._nodes
        node = self._nodes[contact.host, contact.port] = _Node(chord, second=second)
        return node

    def moved(self, contact: Contact) -> Contact:
        """Return the contact of a peer that returns with the same identifier at another address."""
        self._ports += 1
        return Contact(contact.key, contact.host, self._ports)

    @property
    def members(self) -> list[_Node]:
        """The live members, by position."""
        return sorted((node for node in self._nodes.values() if node.member), key=lambda node: node.chord.own.key)

    @property
    def joining(self) -> list[_Node]:
        """The live peers that are not members yet."""
        return [node for node in self._nodes.values() if node.alive and not node.chord.member]

    def fail(self, node: _Node, *, goodbye: bool = False) -> None:
        """End an incarnation, by a crash or with a goodbye."""
        if goodbye:
            self.submit(node, Leave())
        node.alive = False
        if node.timer is not None:
            node.timer.cancelled = True
        self.check()

    def introduce(self, node: _Node) -> None:
        """Introduce a peer to a random member, with repeats until it has joined, as a driver does."""
        if node.alive and not node.chord.member:
            self.submit(node, Introduce(self.random.choice(self.members).chord.own))
            self.set_timer(self.now + 1.0, self.introduce, node)

    # --- driving ---------------------------------------------------------------------------------

    def submit(self, node: _Node, request: RingRequest) -> None:
        """Give a peer a request."""
        self._step(node, lambda: node.chord.submit(request, now=self.now))

    def _step(self, node: _Node, call: Callable[[], list[RingEffect]]) -> None:
        was_member = node.chord.member
        before = was_member, node.chord.successors
        for effect in call():
            if isinstance(effect, Post):
                self._send(node.chord.own, effect)
            elif isinstance(effect, OwnersFound):
                node.found[effect.key] = effect
        self._arm(node)
        if node.second and node.chord.member and not was_member:
            node.reborn_at = self.now
        if before != (node.chord.member, node.chord.successors):
            self.check()

    def _send(self, sender: Contact, post: Post) -> None:
        self._sent += 1
        self.counts[type(post.message).__name__] += 1
        if isinstance(post.message, Ring):
            self._on_the_way[self._sent] = sender, post.to, post.message
        slowest = self.options.delay_seconds_max
        delay = self.random.uniform(0.01 * slowest, slowest)
        self.schedule(delay, self._deliver, self._sent, sender, post.to, post.message)

    def _deliver(self, number: int, sender: Contact, to: Contact, message: RingMessage) -> None:
        self._on_the_way.pop(number, None)
        node = self._nodes.get((to.host, to.port))
        if node is not None and node.alive:
            self._step(node, lambda: node.chord.receive(Packet(sender, message), now=self.now))

    def _arm(self, node: _Node) -> None:
        if node.timer is not None:
            node.timer.cancelled = True
            node.timer = None
        deadline = node.chord.deadline
        if deadline is not None and node.alive:
            node.timer = self.set_timer(max(deadline, self.now), self._wake, node)

    def _wake(self, node: _Node) -> None:
        node.timer = None
        self._step(node, lambda: node.chord.wake(now=self.now))

    # --- the invariant ---------------------------------------------------------------------------

    def check(self) -> None:
        """Raise RingBroken if the invariant does not hold.  Does nothing while the ring still grows."""
        if self.checking:
            self.counts["checks"] += 1
            reason = self._broken(self.members)
            if reason:
                raise RingBroken(f"at {self.now:.3f} s: {reason}\n{self.picture()}")

    def may_fail(self, node: _Node) -> bool:
        """Return whether the theory allows the failure of this member now.

        The theory has no restarts.  Another peer may still drop a restarted peer after an early request, so for some
        time a restarted peer does not count as live.
        """
        members = [other for other in self.members if other is not node]
        settled = self.now - 3 * self._config.timeout_seconds
        unsure = {other.chord.own for other in members if other.reborn_at > settled}
        return not self._broken(members, on_the_way=True, unsure=unsure)

    def _broken(
        self, members: Sequence[_Node], *, on_the_way: bool = False, unsure: AbstractSet[Contact] = frozenset()
    ) -> str:
        """Return the fault of a ring of these members as a text, or an empty text."""
        live = {node.chord.own for node in members}
        sure = live - unsure
        lists = [(node.chord.own, node.chord.successors) for node in members]
        for own, successors in lists:
            if not any(contact in sure and contact != own for contact in successors):
                return f"{own} has no live successor"
            ways = [ahead(own.key, contact.key) for contact in successors]
            if ways != sorted(set(ways)):
                return f"the successor list of {own} is out of order"
        first = {own: next(contact for contact in successors if contact in live) for own, successors in lists}
        if on_the_way:
            for teller, asker, ring in self._on_the_way.values():
                following = successor_list(asker, teller, ring.successors, self.options.successors)
                if asker not in live:  # it joins, with the list of the answer
                    following = tuple(contact for contact in ring.successors if contact.key != asker.key) or (teller,)
                lists.append((asker, following))
                if not any(contact in sure and contact != asker for contact in following):
                    return f"{asker} will have no live successor"
        principals = len(sure - _skipped(sorted(live, key=lambda contact: contact.key), lists))
        if principals <= self.options.successors:
            return f"{principals} principals are not enough"
        return _misshapen(first)

    def picture(self) -> str:
        """Draw the ring for an error message."""
        lines = []
        for node in self.members:
            names = " ".join(_short(contact) for contact in node.chord.successors)
            predecessor = _short(node.chord.predecessor) if node.chord.predecessor else "-"
            lines.append(f"  {_short(node.chord.own)}: predecessor {predecessor}, successors {names}")
        return "\n".join(lines)

    # --- the ideal -------------------------------------------------------------------------------

    def not_ideal(self) -> str:
        """Return a deviation from the ideal ring, with exact lists, predecessors and fingers, or an empty text."""
        contacts = [node.chord.own for node in self.members]
        for place, node in enumerate(self.members):
            own = node.chord.own
            count = min(len(contacts), self.options.successors)
            successors = tuple(contacts[(place + step) % len(contacts)] for step in range(1, count + 1))
            if node.chord.successors != successors:
                return f"the successor list of {own}"
            if len(contacts) > 1 and node.chord.predecessor != contacts[place - 1]:
                return f"the predecessor of {own}"
            if self.options.tended and node.chord.fingers != self._ideal_fingers(own, successors[-1], contacts):
                return f"the fingers of {own}"
        return ""

    @staticmethod
    def _ideal_fingers(own: Contact, last: Contact, contacts: list[Contact]) -> dict[int, Contact]:
        reach = ahead(own.key, last.key)
        fingers = {
            bit: successor(contacts, (own.key + (1 << bit)) % (1 << 64)) for bit in range(64) if 1 << bit > reach
        }
        return {bit: finger for bit, finger in fingers.items() if finger != own}


def successor(contacts: list[Contact], key: int) -> Contact:
    """Return the first of some contacts, sorted by position, at or after a key."""
    return contacts[bisect_left([contact.key for contact in contacts], key) % len(contacts)]


def _short(contact: Contact) -> str:
    return f"{contact.key >> 48:04x}:{contact.port}"


def _skipped(members: list[Contact], lists: list[tuple[Contact, tuple[Contact, ...]]]) -> set[Contact]:
    """Return the members between two neighbours of a list that is extended by its owner at the front.

    A member whose position stands in a list with the address of an earlier incarnation is skipped as well.
    """
    positions = [contact.key for contact in members]
    skipped: set[Contact] = set()
    for own, successors in lists:
        at = own
        for following in successors:
            low, high = bisect_right(positions, at.key), bisect_right(positions, following.key)
            passed = members[low:high] if at.key < following.key else members[low:] + members[:high]
            skipped.update(contact for contact in passed if contact != following)
            at = following
    return skipped


def _misshapen(following: dict[Contact, Contact]) -> str:
    """Return the fault of the graph of first live successors as a text, or an empty text."""
    at = next(iter(following))
    for _ in following:
        at = following[at]  # now on a cycle
    cycle = [at]
    while following[cycle[-1]] != at:
        cycle.append(following[cycle[-1]])
    if sum(ahead(contact.key, following[contact].key) for contact in cycle) != 1 << 64:
        return "the ring goes round more than once"
    leads = dict.fromkeys(cycle, True)
    for contact in following:
        way: list[Contact] = []
        while contact not in leads and contact not in way:
            way.append(contact)
            contact = following[contact]
        if contact not in leads:
            return "there are two rings"
        leads.update(dict.fromkeys(way, True))
    return ""


# --- a run -------------------------------------------------------------------------------------------


def grow(world: ChordWorld, size: int) -> None:
    """Grow a ring from one member to ``size`` by concurrent joins, and wait until it is ideal."""
    first = world.start()
    world.submit(first, Create())
    while len(world.members) < size:
        for _ in range(world.random.randint(1, 3)):
            if len(world.members) + len(world.joining) < size:
                join(world)
        world.run_for(world.random.uniform(0.0, 1.0))
    settle(world)


def join(world: ChordWorld, contact: Contact | None = None) -> None:
    """Start a peer and introduce it to a random member, sometimes to a peer that is not a member yet."""
    newcomer = world.start(contact)
    others = [node for node in world.joining if node is not newcomer]
    if others and world.random.random() < 0.1:
        world.submit(newcomer, Introduce(world.random.choice(others).chord.own))
    world.introduce(newcomer)


def settle(world: ChordWorld) -> None:
    """Run until all peers have joined and the ring is ideal; raises RingBroken after HEAL_ROUNDS."""
    for _ in range(HEAL_ROUNDS):
        world.run_for(1.0 + 4 * world.options.delay_seconds_max)
        if not world.joining and not world.not_ideal():
            return
        world.counts["rounds_to_heal"] += 1
    reason = world.not_ideal() or "somebody could not join"
    raise RingBroken(f"after {HEAL_ROUNDS} rounds of rest: {reason}\n{world.picture()}")


def churn(world: ChordWorld) -> None:
    """Let peers join and fail, with checks of the invariant."""
    options, random = world.options, world.random
    dead: list[Contact] = []
    world.checking = True
    for _ in range(options.events):
        world.run_for(random.expovariate(1 / options.event_seconds))
        members = world.members
        if random.random() < 0.5 + 0.1 * (options.members - len(members) - len(world.joining)):
            world.counts["joins"] += 1
            back = dead.pop(random.randrange(len(dead))) if dead and random.random() < 0.3 else None
            if back is not None and random.random() < 0.5:
                back = world.moved(back)
            join(world, back)
            continue
        victim = random.choice(members)
        if not world.may_fail(victim):
            world.counts["forbidden"] += 1
            continue
        goodbye = random.random() < 0.3
        world.counts["leaves" if goodbye else "crashes"] += 1
        world.fail(victim, goodbye=goodbye)
        dead.append(victim.chord.own)


def look_up_everywhere(world: ChordWorld, keys: int) -> None:
    """Look up random keys, and positions of members, at every member; raises RingBroken for a wrong result."""
    contacts = [node.chord.own for node in world.members]
    wanted = [world.random.getrandbits(64) for _ in range(keys)] + [contact.key for contact in contacts]
    for node in world.members:
        for key in wanted:
            world.submit(node, FindOwner(key))
    world.run_until(lambda: all(len(node.found) == len(set(wanted)) for node in world.members))
    for node in world.members:
        for key in wanted:
            found = node.found[key]
            first = successor(contacts, key)
            place = contacts.index(first)
            count = min(len(contacts), world.options.successors)
            truth = tuple(contacts[(place + step) % len(contacts)] for step in range(count))
            if (found.contacts, found.before) != (truth, contacts[place - 1]):
                raise RingBroken(f"{node.chord.own} takes {found} for the owners of {key:016x}\n{world.picture()}")
            world.counts["lookups"] += 1


def options_of(seed: int) -> ChordOptions:
    """Return the options of a run."""
    random = Random(seed)
    successors = random.randint(2, 4)
    return ChordOptions(
        successors=successors,
        members=successors + random.randint(2, 10),
        events=random.randint(20, 60),
        event_seconds=random.choice([0.1, 0.3, 1.0]),
        delay_seconds_max=random.choice([0.02, 0.1, 0.4]),
        tended=random.random() < 0.5,
    )


def run_seed(seed: int, make: Callable[..., Chord] = Chord) -> Counter[str]:
    """Execute one run and return its counts.  Raises RingBroken, with the seed."""
    world = ChordWorld(seed, options_of(seed), make)
    try:
        grow(world, world.options.members)
        churn(world)
        settle(world)
        look_up_everywhere(world, 5)
    except RingBroken as error:
        raise RingBroken(f"seed {seed}, {world.options}: {error}") from None
    return world.counts


def main(arguments: Sequence[str] | None = None) -> int:
    """Run many seeds and print counts; return 1 if a ring broke."""
    parser = argparse.ArgumentParser(prog="python -m schedules.chord_world", description="Chord rings under churn.")
    parser.add_argument("--seeds", type=int, default=100, help="number of runs")
    parser.add_argument("--start", type=int, default=0, help="first seed")
    options = parser.parse_args(arguments)
    counts: Counter[str] = Counter()
    for seed in range(options.start, options.start + options.seeds):
        try:
            counts += run_seed(seed)
        except P2PRDFError as error:
            print(error, file=sys.stderr)
            return 1
    for name, number in sorted(counts.items()):
        print(f"{name:16} {number:10}")
    print(f"{'seeds':16} {options.seeds:10}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
