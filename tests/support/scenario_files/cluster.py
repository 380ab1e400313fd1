"""Real peers in virtual time, told of crashes, disks, links and membership by a script instead of a seed.

The peers have the configuration of daemons: three copies, of which two acknowledge, columnar tables, the wire codec
with a term dictionary per node, durable records.  Every transfer takes a millisecond.  A record is on the disk as soon
as the peer asks for it.  Ring positions are even and random numbers come from a fixed seed, so a script always gives
the same messages in the same order.

The failure detector is the script: a node learns that another is gone or back when the script says so.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from p2prdf import keys
from p2prdf.peer import Pace, Peer, PeerConfig
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.sim.faults import Faults
from p2prdf.sim.world import Node, World, WorldOptions
from p2prdf.wire.codec import FrameCodec
from p2prdf.wire.contract import (
    ClusterEntered,
    Completed,
    ContactLost,
    ContactSeen,
    Effect,
    Ended,
    FindOwner,
    Notify,
    OwnersFound,
    Persist,
    Request,
    SeedsReached,
    Send,
)
from p2prdf.wire.messages import Acknowledge, Contact, Envelope, Message
from scenario_files.readable import Readable

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Cluster", "Machine"]

_LENGTH_BYTES: Final = 4
_HOP_SECONDS: Final = 0.001
_SOON_SECONDS: Final = 0.0005
"""A timer that is due within that time is work at hand, not a wait."""
_STEPS_MAX: Final = 200_000
_PORT: Final = 7400
_OFFSET: Final = 1 << 59
"""Added to each ring position: the position 0 would stand for no node in some fields."""


@dataclass(slots=True)
class Machine:
    """The process, the disk and the links of one node."""

    alive: bool = True
    left: bool = False
    cut: bool = False
    incarnation: int = 0
    ended_at: float = 0.0
    silent_until: float = 0.0
    """Messages of this node that would arrive before are lost with its crash."""
    disk: list[bytes] = field(default_factory=list)
    view: dict[int, Contact] = field(default_factory=dict)


class Cluster(World):
    """Nodes n0, n1, ... of a scenario.

    ``print_line`` takes each line of the trace; ``shows`` says whether messages of a type from one node to another are
    part of it; ``on_effect`` takes the effects that concern clients.
    """

    def __init__(
        self, count: int, *, print_line: Callable[[str], None], shows: Callable[[str, str, str], bool],
        on_effect: Callable[[Node, Effect], None], **config: Any,
    ):  # fmt: skip
        self.machines: list[Machine] = []
        self.readable = Readable()
        self.print_line = print_line
        self._shows = shows
        self._on_effect = on_effect
        self.sent: list[str] = []
        """The names of the messages that were sent, in order."""
        self._transfers: dict[tuple[int, int, int], str] = {}
        settings = {"replicas": 3, "copies_min": 2, "durable": True, "has_seeds": True, **config}
        options = WorldOptions(
            peers=count, config=PeerConfig(**settings), tables="arrays", through_codec=True, places="even",
            faults=Faults(delay_min_seconds=_HOP_SECONDS, delay_max_seconds=_HOP_SECONDS),
        )  # fmt: skip
        super().__init__(options)
        for node in self.nodes:
            self._enter(node, self.nodes)

    # --- nodes -----------------------------------------------------------------------------------

    def _make_nodes(self) -> list[Node]:
        return [self._new_node() for _ in range(self.options.peers)]

    def _new_node(self) -> Node:
        index = len(self.machines)
        contact = Contact(keys.even_key(index) | _OFFSET, f"n{index}", _PORT)
        self.machines.append(Machine())
        self.readable.names[contact.key] = contact.host
        return self._make_node(index, contact, self.options.config, TermDictionary())

    def _introduce(self, node: Node) -> None:
        """Introduce nobody yet: the nodes meet when all of them are made."""

    def _enter(self, node: Node, members: list[Node]) -> None:
        """Tell a node that starts of the living members, itself included, and that it is one of them."""
        view = {other.contact.key: other.contact for other in members if self.machines[other.index].alive}
        self.machines[node.index].view = view
        for contact in list(view.values()):
            if contact != node.contact:
                self.submit(node, ContactSeen(contact))
        self.submit(node, self._owners(node, node.contact.key))
        self.submit(node, SeedsReached())
        self.submit(node, ClusterEntered())

    def _owners(self, node: Node, key: int) -> OwnersFound:
        view = self.machines[node.index].view
        return OwnersFound(key, tuple(sorted(view.values(), key=lambda each: each.key ^ key)), complete=True)

    def living(self) -> list[Node]:
        """Return the nodes that run."""
        return [node for node in self.nodes if self.machines[node.index].alive]

    def crash(self, node: Node, *, messages_lost: bool = False) -> None:
        """End a node's process: memory and timers are gone, the disk stays; its messages in flight arrive or not."""
        machine = self.machines[node.index]
        machine.alive, machine.ended_at = False, self.now
        machine.silent_until = self.now + 2 * _HOP_SECONDS if messages_lost else 0.0
        machine.incarnation += 1
        node.held.clear()
        if node.timer is not None:
            node.timer.cancelled = True
            node.timer = None

    def restart(self, node: Node, *, disk_lost: bool = False) -> int:
        """Start a node's process again with the records on its disk; return their number."""
        machine = self.machines[node.index]
        if disk_lost:
            machine.disk.clear()
        machine.alive = True
        node.dictionary = TermDictionary()
        node.codec = FrameCodec(node.dictionary, node.columns)
        entropy = self._generator(f"peer {node.index} incarnation {machine.incarnation}")
        config = self.options.config
        pace = Pace(config.turn_budget_seconds)
        node.peer = Peer(node.contact, config, node.dictionary, columns=node.columns, entropy=entropy, pace=pace)
        node.turns = 0
        records = [message for record in machine.disk for message in self._decoded(node, record)]
        if records:
            node.peer.restore(records, now=self.now, away_seconds=self.now - machine.ended_at)
        self._arm(node)
        self._enter(node, self.nodes)
        self.tell_of(node)
        return len(records)

    def join(self) -> Node:
        """Start a new node; all others learn of it at once."""
        node = self._new_node()
        self.nodes.append(node)
        self.by_key[node.contact.key] = node
        self._enter(node, self.nodes)
        self.tell_of(node)
        return node

    def tell_of(self, node: Node) -> None:
        """Tell all others that a node is there."""
        for other in self.living():
            if other is not node:
                self.machines[other.index].view[node.contact.key] = node.contact
                self.submit(other, ContactSeen(node.contact))

    def tell_lost(self, node: Node) -> None:
        """Tell all others that a node is gone."""
        for other in self.living():
            if other is not node and self.machines[other.index].view.pop(node.contact.key, None):
                self.submit(other, ContactLost(node.contact, left=self.machines[node.index].left))

    def held(self, node: Node) -> list[Message]:
        """Return the messages of a node's snapshot: the state that a restart would restore."""
        return list(node.peer.snapshot())

    # --- time ------------------------------------------------------------------------------------

    def deliver(self, stop: Callable[[], bool] = lambda: False) -> bool:
        """Deliver messages until none is in flight and no node has work at hand; return whether ``stop`` held first.

        Raises RuntimeError if the nodes do not come to rest.
        """
        for _ in range(_STEPS_MAX):
            if stop():
                return True
            due = self._next()
            if due is None or (not self.under_way and due > self.now + _SOON_SECONDS):
                return False
            self.step()
        raise RuntimeError(f"the nodes do not come to rest: {self.state()}")

    # --- messages --------------------------------------------------------------------------------

    def send(self, node: Node, to: Contact, envelope: Envelope) -> None:
        """Send a message, unless its receiver is down or a link is cut; print it in either case."""
        target = self.by_key[to.key]
        name = type(envelope.message).__name__
        if target is not node:
            self._print_sent(node, target, envelope, name)
        if self._reason(node, target) is None:
            super().send(node, to, envelope)

    def _print_sent(self, node: Node, target: Node, envelope: Envelope, name: str) -> None:
        self.sent.append(name)
        transfer = node.index, target.index, envelope.transfer
        again = " again" if envelope.transfer and transfer in self._transfers else ""
        self._transfers[transfer] = name
        reason = self._reason(node, target)
        if not self._shows(name, node.contact.host, target.contact.host):
            return
        if isinstance(envelope.message, Acknowledge):
            numbers = [int(each) for each in envelope.message.transfers]
            names = [self._transfers.get((target.index, node.index, each), "?") for each in numbers]
            said = f"Acknowledge({', '.join(names)})"
        else:
            said = self.readable.message(envelope.message, node.dictionary)
        lost = f"  [lost: {reason}]" if reason else ""
        self.print_line(f"{node.contact.host} -> {target.contact.host}: {said}{again}{lost}")

    def _reason(self, node: Node, target: Node) -> str | None:
        """Return why a message does not reach its receiver, or None."""
        if not self.machines[target.index].alive:
            return f"{target.contact.host} is down"
        if target is not node:
            for each in (node, target):
                if self.machines[each.index].cut:
                    return f"{each.contact.host} is cut off"
        return None

    def _receive_frame(self, node: Node, frame: bytes, sender: Contact) -> None:
        source = self.by_key[sender.key]
        reason = self._reason(source, node)
        if reason is None and self.now < self.machines[source.index].silent_until:
            reason = f"{sender.host} is down"
        if reason is None:
            super()._receive_frame(node, frame, sender)
            return
        for envelope in self._envelopes(node, frame):
            name = type(envelope.message).__name__
            if self._shows(name, sender.host, node.contact.host):
                self.print_line(f"{sender.host} -> {node.contact.host}: {name} in flight  [lost: {reason}]")

    def _envelopes(self, node: Node, frame: bytes) -> list[Envelope]:
        assert node.codec is not None
        return node.codec.decode(memoryview(frame)[_LENGTH_BYTES:], trusted=True)

    def _decoded(self, node: Node, record: bytes) -> list[Message]:
        return [envelope.message for envelope in self._envelopes(node, record)]

    # --- calls into peers ------------------------------------------------------------------------

    def submit(self, node: Node, request: Request) -> None:
        """Hand a request to a living peer and carry out its effects."""
        if self.machines[node.index].alive:
            super().submit(node, request)

    def _wake(self, node: Node) -> None:
        if self.machines[node.index].alive:
            super()._wake(node)

    def _perform(self, node: Node, effect: Effect) -> None:
        match effect:
            case Persist(message):
                assert node.codec is not None
                self.machines[node.index].disk.append(node.codec.encode((Envelope(0, 0, message),)))
            case FindOwner(key):
                self.schedule(0.0, self._find_owner, node, self.machines[node.index].incarnation, key)
            case Completed() | Notify() | Ended():
                self._on_effect(node, effect)
            case Send():
                self.send(node, effect.to, effect.envelope)
            case _:
                pass  # traces and spans are for logs; no client asks for bookmarks

    def _find_owner(self, node: Node, incarnation: int, key: int) -> None:
        if self.machines[node.index].incarnation == incarnation:
            self.submit(node, self._owners(node, key))
