"""Membership views under faults, in virtual time: convergence to the live members, and its time.

    python -m schedules.swim_world --seeds 200 --start 0

A run lets a view grow, then draws faults: processes are killed and restarted at the same or another address, hosts
vanish with open connections, members leave, partitions heal, links fail in one direction, packets are lost, event loops
stall, members come and go quickly, clocks are wrong.  At the end all faults are healed.

Checks:

* *Agreement*: within ``SETTLE_SECONDS`` after the last fault, the view of every live member is complete and has exactly
  the live members, with their current addresses and incarnations.
* *Quiet*: afterwards views do not change.
* *No false alarm*: while the only faults are stalls of at most half a second, no live member is lost.

Detection times are measured separately for killed processes (their hosts refuse connections) and vanished hosts
(silence).

Connections: with the option ``connected``, two members that know each other are connected.  The connections of a killed
process break at once, unless the link is cut; those of a vanished host remain open, as in TCP.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from random import Random
from typing import TYPE_CHECKING, Final

from p2prdf.errors import P2PRDFError
from p2prdf.overlay.membership import Broken, Create, Introduce, Leave, Post
from p2prdf.overlay.swim import Swim
from p2prdf.overlay.swim_config import SwimConfig
from p2prdf.overlay.swim_messages import Packet, Refused, SwimEffect, SwimRequest, TcpProbe
from p2prdf.sim.virtual_time import VirtualTime
from p2prdf.wire.contract import ContactLost, ContactSeen
from p2prdf.wire.messages import Contact

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from p2prdf.sim.virtual_time import Timer

__all__ = ["SETTLE_SECONDS", "SwimOptions", "SwimWorld", "ViewsDiffer", "main", "run_seed"]

SETTLE_SECONDS: Final = 60.0
QUIET_SECONDS: Final = 10.0
_EVENTS_MAX: Final = 20_000_000
_EPOCH: Final = 1_000_000_000.0


class ViewsDiffer(P2PRDFError):
    """Views did not converge, or a live member was lost without a reason."""

    code = "views-differ"


@dataclass(frozen=True, slots=True)
class SwimOptions:
    """Options of a run."""

    members: int = 5
    events: int = 20
    event_seconds: float = 2.0
    """Mean pause between two faults."""
    delay_seconds_max: float = 0.005
    """Longest delay of a packet; the shortest is a tenth of it."""
    connected: bool = True
    """Whether members that know each other are connected."""
    config: SwimConfig = field(default_factory=SwimConfig)


@dataclass(slots=True, eq=False)
class Node:
    """One incarnation of a member."""

    swim: Swim
    clock_ahead: float = 0.0
    alive: bool = True
    timer: Timer | None = None
    held_until: float = 0.0
    inbox: list[Packet] = field(default_factory=list)
    seen: dict[int, Contact] = field(default_factory=dict)
    """The live members that the view reported, by key."""

    @property
    def contact(self) -> Contact:
        """Key and address."""
        return self.swim.own


class SwimWorld(VirtualTime):
    """All members of a simulated view, and the packets between them."""

    def __init__(self, seed: int, options: SwimOptions | None = None):
        super().__init__(_EPOCH, horizon_seconds=5.0, events_max=_EVENTS_MAX)
        self.random = Random(seed)
        self.options = options or SwimOptions()
        self.counts: Counter[str] = Counter()
        self.noticed: dict[str, list[float]] = defaultdict(list)
        """Detection times of failures in seconds, by kind."""
        self.loss = 0.0
        self.forbid_alarms = False
        self._cuts: dict[tuple[str, str], None] = {}
        self._nodes: dict[tuple[str, int], Node] = {}
        self._links: dict[frozenset[Contact], None] = {}
        self._vanished: dict[str, None] = {}
        self._died: dict[Contact, tuple[float, str]] = {}
        self._ports = 0

    # --- members ---------------------------------------------------------------------------------

    @property
    def living(self) -> list[Node]:
        """The living nodes, in order of their addresses."""
        return [node for _, node in sorted(self._nodes.items()) if node.alive]

    def start(self, contact: Contact | None = None, *, clock_ahead: float = 0.0, zone: str = "") -> Node:
        """Start a process that is no member yet, by default with a new key and host."""
        if contact is None:
            self._ports += 1
            contact = Contact(self.random.getrandbits(64), f"10.0.{self._ports >> 8}.{self._ports & 255}", 7400)
        self._vanished.pop(contact.host, None)
        swim = Swim(
            contact, self.options.config, now=self.now + clock_ahead, zone=zone,
            entropy=Random(self.random.getrandbits(64)), linked=lambda key: self._linked(contact, key),
        )  # fmt: skip
        node = self._nodes[contact.host, contact.port] = Node(swim, clock_ahead)
        self._died.pop(contact, None)
        return node

    def join(self, contact: Contact | None = None, *, clock_ahead: float = 0.0, zone: str = "") -> Node:
        """Start a process and introduce it to members until it has joined, as a driver does."""
        node = self.start(contact, clock_ahead=clock_ahead, zone=zone)
        self._introduce(node)
        return node

    def _introduce(self, node: Node) -> None:
        if node.alive and not node.swim.member:
            members = [other for other in self.living if other.swim.member and not self._parted(node, other)]
            if members:
                self.submit(node, Introduce(self.random.choice(members).contact))
            elif not any(other.swim.member for other in self.living):
                self.submit(node, Create())
            self.set_timer(self.now + 1.0, self._introduce, node)

    def moved(self, contact: Contact) -> Contact:
        """Return the contact of a process that returns with the same key at another address."""
        self._ports += 1
        return Contact(contact.key, f"10.0.{self._ports >> 8}.{self._ports & 255}", 7400)

    def kill(self, node: Node, *, host: bool = False) -> None:
        """Kill a process; with its ``host``, connections remain open and new ones are not refused."""
        self._end(node)
        self._died[node.contact] = self.now, "host" if host else "process"
        if host:
            self._vanished[node.contact.host] = None
            return
        for link in [link for link in self._links if node.contact in link]:
            del self._links[link]
            (other,) = link - {node.contact}
            if not self._cut(node.contact.host, other.host):
                self.schedule(self._delay(), self._break, other, node.contact.key)

    def leave(self, node: Node) -> None:
        """End a process with a goodbye."""
        self.submit(node, Leave())
        self._end(node)
        for link in [link for link in self._links if node.contact in link]:
            del self._links[link]

    def _end(self, node: Node) -> None:
        node.alive = False
        if node.timer is not None:
            node.timer.cancelled = True

    def hold_up(self, node: Node, seconds: float) -> None:
        """Stall a node's event loop for some time; arrivals wait."""
        node.held_until = max(node.held_until, self.now + seconds)
        self.schedule(node.held_until - self.now, self._go_on, node)

    def _go_on(self, node: Node) -> None:
        """Resume a stalled loop in the worst order: timers first, then arrivals."""
        if node.alive and self.now >= node.held_until:
            self._arm(node)
            inbox, node.inbox = node.inbox, []
            for packet in inbox:
                self.schedule(0.001, self._deliver, node.contact, packet)

    # --- the network -----------------------------------------------------------------------------

    def cut(self, here: Sequence[Node], there: Sequence[Node], *, both: bool = True) -> None:
        """Lose everything from some nodes to others, and back."""
        for one in here:
            for other in there:
                self._cuts[one.contact.host, other.contact.host] = None
                if both:
                    self._cuts[other.contact.host, one.contact.host] = None

    def heal(self) -> None:
        """Heal all links."""
        self._cuts.clear()
        self.loss = 0.0

    def _cut(self, source: str, target: str) -> bool:
        return (source, target) in self._cuts

    def _parted(self, one: Node, other: Node) -> bool:
        hosts = one.contact.host, other.contact.host
        return self._cut(*hosts) or self._cut(*hosts[::-1])

    def _delay(self) -> float:
        return self.options.delay_seconds_max * self.random.uniform(0.1, 1.0)

    def _send(self, sender: Contact, to: Contact, packet: Packet) -> None:
        self.counts["packets"] += 1
        if self._cut(sender.host, to.host) or self.random.random() < self.loss:
            return
        self.schedule(self._delay(), self._deliver, to, packet)

    def _deliver(self, to: Contact, packet: Packet) -> None:
        node = self._nodes.get((to.host, to.port))
        if node is not None and node.alive:
            if self.now < node.held_until:
                node.inbox.append(packet)
            else:
                self._receive(node, packet)

    def _receive(self, node: Node, packet: Packet) -> None:
        self._step(node, lambda now: node.swim.receive(packet, now=now))

    def _tcp_probe(self, node: Node, contact: Contact) -> None:
        """Try to connect: refused if the host is there and the process is not."""
        host = contact.host
        there = self._nodes.get((host, contact.port))
        if self._cut(node.contact.host, host) or self._cut(host, node.contact.host):
            return
        if host not in self._vanished and (there is None or not there.alive):
            self.schedule(2 * self._delay(), self._told, node, Refused(contact))

    def _told(self, node: Node, request: SwimRequest) -> None:
        if node.alive:
            self.submit(node, request)

    # --- connections -----------------------------------------------------------------------------

    def _linked(self, own: Contact, key: int) -> bool:
        node = self._nodes[own.host, own.port]
        other = node.seen.get(key)
        return other is not None and frozenset((own, other)) in self._links

    def _link(self, node: Node, contact: Contact) -> None:
        other = self._nodes.get((contact.host, contact.port))
        there = other is not None and other.alive and other.contact == contact and not self._parted(node, other)
        if self.options.connected and there:
            self._links[frozenset((node.contact, contact))] = None

    def _unlink(self, node: Node, contact: Contact) -> None:
        """Close the connection to a lost member; the other side, if alive, sees the break."""
        link = frozenset((node.contact, contact))
        if link in self._links:
            del self._links[link]
            if not self._cut(node.contact.host, contact.host):
                self.schedule(self._delay(), self._break, contact, node.contact.key)

    def _break(self, at: Contact, key: int) -> None:
        node = self._nodes.get((at.host, at.port))
        if node is not None and node.alive and node.contact == at:
            if self.now < node.held_until:
                self.set_timer(node.held_until, self._break, at, key)
            else:
                self.submit(node, Broken(key))

    # --- driving ---------------------------------------------------------------------------------

    def submit(self, node: Node, request: SwimRequest) -> None:
        """Give a member a request."""
        self._step(node, lambda now: node.swim.submit(request, now=now))

    def _step(self, node: Node, call: Callable[[float], list[SwimEffect]]) -> None:
        for effect in call(self.now + node.clock_ahead):
            match effect:
                case Post(to, packet):
                    self._send(node.contact, to, packet)
                case TcpProbe(contact):
                    self._tcp_probe(node, contact)
                case ContactSeen(contact):
                    self._seen(node, contact)
                case ContactLost(contact):
                    self._lost(node, contact)
                case _:
                    self.counts[effect.event] += 1
        self._arm(node)

    def _seen(self, node: Node, contact: Contact) -> None:
        if contact.key in node.seen:
            raise ViewsDiffer(f"{node.contact} was told of {contact} twice")
        node.seen[contact.key] = contact
        self._link(node, contact)

    def _lost(self, node: Node, contact: Contact) -> None:
        if node.seen.pop(contact.key, None) != contact:
            raise ViewsDiffer(f"{node.contact} lost {contact}, which it did not have")
        self._unlink(node, contact)
        there = self._nodes[contact.host, contact.port]
        if contact in self._died:
            at, kind = self._died[contact]
            self.noticed[kind].append(self.now - at)
        elif there.alive and there.contact == contact:
            self.counts["false_alarms"] += 1
            if self.forbid_alarms:
                raise ViewsDiffer(f"at {self.now - _EPOCH:.3f} s {node.contact} lost {contact}, which lives")

    def _arm(self, node: Node) -> None:
        if node.timer is not None:
            node.timer.cancelled = True
            node.timer = None
        deadline = node.swim.deadline
        if deadline is not None and node.alive:
            when = max(deadline - node.clock_ahead, self.now, node.held_until)
            node.timer = self.set_timer(when, self._wake, node)

    def _wake(self, node: Node) -> None:
        if self.now < node.held_until:
            self._arm(node)
            return
        node.timer = None
        # Slightly later than requested, because clocks of different epochs round.
        self._step(node, lambda now: node.swim.wake(now=now + 1e-6))

    # --- the checks ------------------------------------------------------------------------------

    def differs(self) -> str:
        """Return a difference between views and live members as a text, or an empty text."""
        living = self.living
        truth = {node.contact.key: node.contact for node in living}
        for node in living:
            if not node.swim.member or not node.swim.complete:
                return f"{node.contact} has no complete view"
            for key in truth.keys() - node.seen.keys() - {node.contact.key}:
                return f"{node.contact} does not know {truth[key]}"
            for key, contact in node.seen.items():
                if truth.get(key) != contact:
                    return f"{node.contact} believes {contact} to live"
                there = self._nodes[contact.host, contact.port].swim.record
                if node.swim.living[key].life != there.life:
                    return f"{node.contact} knows another life of {contact}"
        return ""

    def settle(self, seconds: float = SETTLE_SECONDS) -> float:
        """Run until all views are correct; return the seconds.

        Raises ViewsDiffer if it takes longer than ``seconds``.
        """
        began = self.now
        while reason := self.differs():
            if self.now - began > seconds:
                raise ViewsDiffer(f"after {seconds:g} s of rest: {reason}")
            self.run_for(0.05)
        return self.now - began

    def stay(self, seconds: float = QUIET_SECONDS) -> None:
        """Let time pass without changes of views; raises ViewsDiffer for a change."""
        before, self.forbid_alarms = self.forbid_alarms, True
        self.run_for(seconds)
        self.forbid_alarms = before
        reason = self.differs()
        if reason:
            raise ViewsDiffer(f"it was well, and then, without a reason: {reason}")


# --- a run -------------------------------------------------------------------------------------------


def grow(world: SwimWorld, size: int) -> None:
    """Start ``size`` processes at once and wait until all know each other."""
    first = world.start()
    world.submit(first, Create())
    for _ in range(size - 1):
        world.join()
    world.settle(20.0)


def stall(world: SwimWorld, seconds_max: float = 0.5) -> None:
    """Stall loops, one or several at a time, and allow no false alarm."""
    world.forbid_alarms = True
    for _ in range(world.options.events):
        world.run_for(world.random.expovariate(1.0))
        for node in world.living:
            if world.random.random() < 0.3:
                world.hold_up(node, world.random.uniform(0.05, seconds_max))
                world.counts["held_up"] += 1
    world.run_for(5.0)
    world.forbid_alarms = False


def trouble(world: SwimWorld) -> None:
    """Draw faults."""
    random, options = world.random, world.options
    dead: list[Contact] = []
    for _ in range(options.events):
        world.run_for(random.expovariate(1 / options.event_seconds))
        kind = random.choices(list(_FAULTS), [weight for weight, _ in _FAULTS.values()])[0]
        world.counts[kind] += 1
        _FAULTS[kind][1](world, dead)


def _fault_kill(world: SwimWorld, dead: list[Contact]) -> None:
    living = world.living
    if len(living) > 1:
        victim = world.random.choice(living)
        world.kill(victim, host=world.random.random() < 0.3)
        dead.append(victim.contact)


def _fault_leave(world: SwimWorld, dead: list[Contact]) -> None:
    living = world.living
    if len(living) > 1:
        victim = world.random.choice(living)
        world.leave(victim)
        dead.append(victim.contact)


def _fault_return(world: SwimWorld, dead: list[Contact]) -> None:
    if dead:
        contact = dead.pop(world.random.randrange(len(dead)))
        ahead = world.random.choice([0.0, 0.0, -0.3, -100.0, 0.3])  # including clocks that went back
        world.join(world.moved(contact) if world.random.random() < 0.5 else contact, clock_ahead=ahead)


def _fault_join(world: SwimWorld, _: list[Contact]) -> None:
    if len(world.living) < 2 * world.options.members:
        world.join()


def _fault_part(world: SwimWorld, _: list[Contact]) -> None:
    living = world.living
    world.random.shuffle(living)
    half = world.random.randint(1, max(1, len(living) - 1))
    world.cut(living[:half], living[half:])
    world.schedule(world.random.uniform(0.5, 15.0), world.heal)


def _fault_one_way(world: SwimWorld, _: list[Contact]) -> None:
    living = world.living
    world.random.shuffle(living)
    some = world.random.randint(1, max(1, len(living) - 1))
    world.cut(living[:1], living[1 : 1 + some], both=False)
    world.schedule(world.random.uniform(0.5, 15.0), world.heal)


def _fault_loss(world: SwimWorld, _: list[Contact]) -> None:
    world.loss = 0.2
    world.schedule(world.random.uniform(1.0, 10.0), world.heal)


def _fault_hold_up(world: SwimWorld, _: list[Contact]) -> None:
    for node in world.living:
        if world.random.random() < 0.5:
            world.hold_up(node, world.random.uniform(0.05, 3.0))


def _fault_flap(world: SwimWorld, _: list[Contact]) -> None:
    living = world.living
    if len(living) > 1:
        contact = world.random.choice(living).contact
        for _turn in range(4):
            node = next(node for node in world.living if node.contact == contact)
            world.kill(node)
            world.run_for(world.random.uniform(0.01, 0.6))
            world.join(contact)
            world.run_for(world.random.uniform(0.01, 0.6))


_FAULTS: Final[dict[str, tuple[int, Callable[[SwimWorld, list[Contact]], None]]]] = {
    "kill": (4, _fault_kill),
    "leave": (1, _fault_leave),
    "return": (4, _fault_return),
    "join": (2, _fault_join),
    "part": (2, _fault_part),
    "one_way": (2, _fault_one_way),
    "loss": (1, _fault_loss),
    "hold_up": (2, _fault_hold_up),
    "flap": (1, _fault_flap),
}


def options_of(seed: int) -> SwimOptions:
    """Return the options of a run."""
    random = Random(seed)
    return SwimOptions(
        members=random.randint(2, 12),
        events=random.randint(5, 25),
        event_seconds=random.choice([0.3, 2.0, 5.0]),
        delay_seconds_max=random.choice([0.001, 0.01, 0.05]),
        connected=random.random() < 0.7,
    )


def run_seed(seed: int) -> SwimWorld:
    """Execute one run and return its world.  Raises ViewsDiffer, with the seed."""
    world = SwimWorld(seed, options_of(seed))
    try:
        grow(world, world.options.members)
        stall(world)
        trouble(world)
        world.heal()
        world.noticed["settled"].append(world.settle())
        world.run_for(15.0)  # for faults that end later
        world.settle()
        world.stay()
    except ViewsDiffer as error:
        raise ViewsDiffer(f"seed {seed}, {world.options}: {error}") from None
    return world


def detection(seed: int, members: int, deaths: int, *, host: bool = False, connected: bool = True) -> list[float]:
    """Kill members of a view of constant size one by one; return each other member's detection times."""
    world = SwimWorld(seed, replace(SwimOptions(), members=members, connected=connected))
    grow(world, members)
    for _ in range(deaths):
        world.run_for(world.random.uniform(1.0, 2.0))
        world.kill(world.random.choice(world.living), host=host)
        world.run_for(12.0)
        world.join()
        world.settle()
    return sorted(world.noticed["host" if host else "process"])


def _shares(values: list[float]) -> str:
    values = sorted(values)
    points = [(name, values[min(len(values) - 1, int(share * len(values)))]) for name, share in _POINTS]
    return ", ".join(f"{name} {value:.2f}" for name, value in points) + f" s of {len(values)}"


_POINTS: Final = (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("max", 1.0))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run many seeds and print counts; return 1 if views differed."""
    parser = argparse.ArgumentParser(prog="python -m schedules.swim_world", description="Views under faults.")
    parser.add_argument("--seeds", type=int, default=100, help="number of runs")
    parser.add_argument("--start", type=int, default=0, help="first seed")
    options = parser.parse_args(arguments)
    counts: Counter[str] = Counter()
    settled: list[float] = []
    for seed in range(options.start, options.start + options.seeds):
        try:
            world = run_seed(seed)
        except P2PRDFError as error:
            print(error, file=sys.stderr)
            return 1
        counts += world.counts
        settled += world.noticed["settled"]
    for name, number in sorted(counts.items()):
        print(f"{name:16} {number:10}")
    print(f"{'seeds':16} {options.seeds:10}")
    print(f"views equal after healing: {_shares(settled)}")
    for members in (5, 20):
        for text, host, connected in (
            ("killed, connected", False, True), ("killed, no connections", False, False),
            ("host vanished, no connections", True, False), ("host vanished, connected", True, True),
        ):  # fmt: skip
            found = detection(1, members, 20, host=host, connected=connected)
            print(f"{members:3} members, {text}: noticed after {_shares(found)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
