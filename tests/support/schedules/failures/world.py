"""A world with failing processes and disks.

The duties of a driver with durable records, in virtual time:

1. A ``Persist`` is written to the peer's disk at once.  Later effects of its list, and later lists, wait in order until
   the disk is synced up to the record; the peer continues meanwhile.  A sync takes a drawn time, and records that are
   written during a sync wait for the next one.
2. A *crash* ends a peer's process: its memory, timers, waiting effects, unsynced records (except for a part that may be
   kept) and client connections are lost.  Sent envelopes remain in flight; envelopes to a dead address are lost.
3. A *restart* creates a new peer with the same ring position, at the same or another address, which first restores the
   records of the disk.
4. A *failpoint* crashes a peer at a critical point: after a record was written or synced, before it sends, between two
   effects, or at a change of its view.
5. A *compaction* replaces a disk's records by the peer's snapshot, in steps while the peer works.

Views change late (:mod:`schedules.failures.views`), and links may be cut (:mod:`schedules.failures.links`).  Every
failure has a line in the trace.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from random import Random
from typing import TYPE_CHECKING, Final, Protocol

from p2prdf import hlc, keys
from p2prdf.columns import as_list
from p2prdf.errors import LocalProtocolError
from p2prdf.peer import Pace, Peer, PeerConfig
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.sim.ring import Ring
from p2prdf.sim.world import Node, World, WorldOptions
from p2prdf.wire.codec import FrameCodec
from p2prdf.wire.contract import (
    Attached,
    Bookmark,
    Completed,
    Effect,
    FindOwner,
    Notify,
    Outcome,
    Persist,
    Request,
    Send,
    Subscribed,
)
from p2prdf.wire.messages import Contact, Envelope, IndexTriples, Message
from p2prdf.wire.stamps import latest
from schedules.failures.disk import Disk, Record
from schedules.failures.links import Cut, Links
from schedules.failures.options import Failures
from schedules.failures.views import Views

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from p2prdf.sim.oracle import Triple
    from schedules.failures.clients import RepeatedPublishing

__all__ = ["FAILPOINTS", "Client", "FailingWorld", "Listener", "Machine"]

FAILPOINTS: Final = ("written", "synced", "send", "effect", "view")
"""Points at which a peer can crash."""

_LENGTH_BYTES = 4
_ROLES = (1 << keys.MARK_SHIFT) - 1
_SNAPSHOT_SLICE = 3
_SNAPSHOT_SECONDS = 0.02
_CLOCK_SECONDS = 1.0


class Client(Protocol):
    """The sender of a request to a peer."""

    def completed(self, node: Node, request: int, outcome: Outcome) -> None:
        """Handle the outcome of a request."""
        ...

    def cut_off(self, node: Node) -> None:
        """Handle the loss of the connection: the request has no outcome."""
        ...


class Listener(Protocol):
    """The receiver of a subscription's answers."""

    def notified(self, node: Node, notify: Notify) -> None:
        """Handle answers."""
        ...

    def bookmarked(self, bookmark: Bookmark) -> None:
        """Handle a bookmark."""
        ...

    def ended(self, why: str) -> None:
        """Handle the end of the attachment."""
        ...

    def cut_off(self, node: Node) -> None:
        """Handle the loss of the connection."""
        ...


@dataclass(slots=True, eq=False)
class Machine:
    """The node of a peer: process, disk, connections.

    ``life``: number of the process, to ignore events for an earlier one.  ``queue``: effects, each with the number of
    records that must be synced first.  ``failpoint``: point of the next crash, and the count of passes until it.
    ``moves``: number of earlier addresses.
    """

    disk: Disk = field(default_factory=Disk)
    alive: bool = True
    left: bool = False
    gone: bool = False
    life: int = 0
    published_to: int = 0
    """The key of the last receiver of a publication from this peer."""
    ended_at: float = 0.0
    """End of the former process, by its own clock."""
    started_at: float = 0.0
    """Time of the restore from the disk, by the own clock."""
    moves: int = 0
    queue: deque[tuple[int, Effect]] = field(default_factory=deque)
    syncing: bool = False
    slow_until: float = 0.0
    failpoint: tuple[str, int] | None = None
    requests: dict[int, Client] = field(default_factory=dict)
    listeners: dict[int, Listener] = field(default_factory=dict)
    clock: int = 0
    """The peer's clock before the last call."""
    clocks: dict[int, int] = field(default_factory=dict)
    """By request: the clock before the call that decided its outcome, until the client gets the outcome."""
    held: dict[int, None] = field(default_factory=dict)
    """Subscriptions with an attached client that has not been told of their end."""
    waiting: list[tuple[Envelope, Contact]] = field(default_factory=list)
    """Envelopes that came while the peer worked; they have its term identifiers, and are lost with its process."""


class FailingWorld(World):
    """A world with failures, in which peers know all others at the start, in any overlay."""

    def __init__(
        self, options: WorldOptions, failures: Failures, *, trace: Callable[[str], None] | None = None
    ):
        failures.validate()
        self.failures = failures
        self.machines: list[Machine] = []
        self.links = Links()
        self.happened: Counter[str] = Counter()
        self.view_changes = 0
        self.views: Views
        self.stamps: dict[int, dict[int, int]] = {}
        """By publication event: its observed stamps, each with the indexes of the publication."""
        self.earliest: dict[Triple, int] = {}
        """By triple with a corrected stamp: its earliest corrected stamp."""
        self.on_acknowledged: Callable[[RepeatedPublishing, int], None] | None = None
        """Called with each publication and its stamp at the acknowledgement to its publisher."""
        self.on_compacted: Callable[[Node, Sequence[Record], Sequence[Record]], None] | None = None
        """Called after each compaction with the peer, and its durable records before and after."""
        self.on_crash: Callable[[Node], None] | None = None
        """Called after each crash; only scripted crashes restart their peers themselves, failpoints do not."""
        super().__init__(options, trace=trace)
        self.started = self.now

    # --- making ----------------------------------------------------------------------------------

    def _make_nodes(self) -> list[Node]:
        self._chance = self._generator("failures")
        self.views = Views(self, self.failures, self._generator("views"))
        nodes = super()._make_nodes()
        self.machines = [Machine() for _ in nodes]
        return nodes

    def _pace(self, index: int, config: PeerConfig) -> Pace:
        """Return the meter of a peer's work; a slow peer is equally slow after restarts."""
        most = self.failures.slowness_max
        chance = Random(f"p2prdf {self.options.seed} slow processor {index}")
        if not most or chance.random() < 0.5:
            return super()._pace(index, config)
        if index >= len(self.machines):
            self.happened["slow-processor"] += 1
        return Pace(config.turn_budget_seconds, slowness=chance.uniform(most / 10, most))

    def _introduce(self, node: Node) -> None:
        self.views.start(node)

    def members(self) -> Iterator[Node]:
        """Yield all peers, crashed ones included, that have not left or failed for good."""
        for node, machine in zip(self.nodes, self.machines, strict=True):
            if not (machine.left or machine.gone):
                yield node

    def living(self) -> list[Node]:
        """Return the peers with a running process."""
        return [node for node in self.nodes if self.machines[node.index].alive]

    def serving(self) -> list[Node]:
        """Return the peers with a running process that takes new work."""
        return [node for node in self.living() if not self.views.fenced(node)]

    def zone(self, node: Node) -> str:
        """Return the failure zone of a peer, "" without zones."""
        zones = self.failures.zones
        return f"zone {node.index % zones}" if zones else ""

    def keepers(self, key: int) -> list[Node]:
        """Return the replicas of a key by the true ring: the closest peer of each zone, then the closest others."""
        closest = [self.by_key[contact.key] for contact in self.ring.closest(key, len(self.ring))]
        zones: dict[str, Node] = {}
        for node in closest:
            zones.setdefault(self.zone(node) or str(node.index), node)
        first = list(zones.values())
        return [*first, *(node for node in closest if node not in first)][: self.options.config.replicas]

    def alive(self, node: Node) -> bool:
        """Return whether a peer's process runs."""
        return self.machines[node.index].alive

    def say(self, node: Node, text: str) -> None:
        """Write a line about a failure into the trace."""
        if self.trace is not None:
            self._say(node, f"!! {text}")

    # --- processes -------------------------------------------------------------------------------

    def crash(self, node: Node, why: str = "crash") -> None:
        """End a peer's process at once."""
        machine = self.machines[node.index]
        if not machine.alive:
            return
        self.happened[why] += 1
        unsynced = machine.disk.written - machine.disk.synced
        kept = 0
        if unsynced and self._chance.random() < self.failures.kept_probability:
            kept = self._chance.randint(0, unsynced)
        self.say(node, f"{why}: {len(machine.queue)} effects lost, {kept} of {unsynced} unsynced records kept")
        machine.disk.crash(kept)
        self._end_process(node)
        self.views.changed(node, gone=True)
        if self.on_crash is not None:
            self.on_crash(node)

    def _end_process(self, node: Node) -> None:
        machine = self.machines[node.index]
        machine.alive, machine.syncing, machine.failpoint = False, False, None
        machine.ended_at = self.now + node.skew
        machine.life += 1
        machine.queue.clear()
        node.held.clear()
        machine.waiting.clear()
        node.busy_until = 0.0
        if node.timer is not None:
            node.timer.cancelled = True
            node.timer = None
        clients: dict[Client | Listener, None] = dict.fromkeys(machine.requests.values())
        clients.update(dict.fromkeys(machine.listeners.values()))
        machine.requests.clear()
        machine.clocks.clear()
        machine.listeners.clear()
        machine.held.clear()
        for client in clients:
            client.cut_off(node)

    def restart(self, node: Node, *, disk: str = "kept", moved: bool = False) -> None:
        """Restart a crashed peer with its disk ``kept`` or ``lost``, at its old address or ``moved``."""
        machine = self.machines[node.index]
        if machine.alive or machine.left or machine.gone:
            return
        if disk == "lost":
            machine.disk.lose()
            self.happened["disk-loss"] += 1
        machine.alive = True
        machine.life += 1
        if moved:
            machine.moves += 1
            node.contact = Contact(node.contact.key, f"peer-{node.index}.{machine.moves}.sim", 7400)
        self.say(node, f"restart at {node.contact.host}, disk {disk}: {len(machine.disk.durable)} records")
        self._fresh_process(node)
        self.views.start(node)
        self.views.changed(node, gone=False)

    def _fresh_process(self, node: Node) -> None:
        machine = self.machines[node.index]
        if node.codec is not None:
            node.dictionary = TermDictionary()
            node.codec = FrameCodec(node.dictionary, node.columns)
        entropy = self._generator(f"peer {node.index} life {machine.life}")
        config, pace = node.peer.config, self._pace(node.index, node.peer.config)
        node.peer = Peer(node.contact, config, node.dictionary, columns=node.columns, entropy=entropy, pace=pace)
        node.turns = 0
        records = [message for record in machine.disk.durable for message in self.read(node, record)]
        machine.started_at = now = self.now + node.skew
        away = now - machine.ended_at  # as daemons do: after a clock step back the downtime is infinite
        node.peer.restore(records, now=now, away_seconds=inf if away < -_CLOCK_SECONDS else max(0.0, away))
        if node.peer.stamps_corrected:
            bound = hlc.from_seconds(now + node.peer.config.drift_max_seconds)
            self._corrected(node, [message for message in records if latest(message) > bound])
        self._arm(node)

    def _corrected(self, node: Node, found: Sequence[Message]) -> None:
        """Record the stamps that a starting peer corrected to the past, and write a snapshot, as its driver does."""
        self.happened["stamps-corrected"] += 1
        self.say(node, f"stamps of {node.peer.stamps_corrected} records corrected")
        corrected = {triple for message in found for triple, _ in self._stamped(node, message)}
        for message in node.peer.snapshot():
            for triple, stamp in self._stamped(node, message):
                if triple in corrected:
                    self.earliest[triple] = min(stamp, self.earliest.get(triple, stamp))
        self.schedule(0.0, self.compact, node)

    def _stamped(self, node: Node, message: Message) -> list[tuple[Triple, int]]:
        """Return the triples of a record with their stamps."""
        if not isinstance(message, IndexTriples):
            return []
        texts = [node.dictionary.texts(as_list(column)) for column in (message.s, message.p, message.o)]
        stamps = map(hlc.plain, as_list(message.time))
        return list(zip(zip(*texts, strict=True), stamps, strict=True))

    def join(self, key: int) -> Node:
        """Start a new peer."""
        index = len(self.nodes)
        contact = Contact(key, f"peer-{index}.sim", 7400)
        dictionary = TermDictionary() if self.options.through_codec else self.nodes[0].dictionary
        node = self._make_node(index, contact, self.nodes[0].peer.config, dictionary)
        self.nodes.append(node)
        self.machines.append(Machine())
        self.by_key[key] = node
        self._ring_changed()
        self.happened["join"] += 1
        self.say(node, "joins")
        self.views.start(node)
        self.views.changed(node, gone=False)
        return node

    def depart(self, node: Node, handed_over: bool) -> None:
        """End the process of a peer that has left; after a handoff its disk is removed as well."""
        if not self.alive(node):
            return
        if not handed_over:
            self.crash(node, "stop")
            self.schedule(1.0, self.restart, node)
            return
        self.happened["leave"] += 1
        self.say(node, "has left")
        self.machines[node.index].left = True
        self._end_process(node)
        self._ring_changed()
        self.views.changed(node, gone=True)

    def lose(self, node: Node) -> None:
        """Remove a crashed peer and its disk for good."""
        machine = self.machines[node.index]
        assert not machine.alive, "it has crashed"
        machine.disk.lose()
        machine.gone = True
        self.say(node, "is gone for good")
        self._ring_changed()
        self.views.changed(node, gone=True)

    def _ring_changed(self) -> None:
        self.ring = Ring((node.contact for node in self.members()), self.options.overlay)

    def step_clock(self, node: Node, seconds: float) -> None:
        """Let a peer's clock jump; its driver never gives a peer an earlier time than before."""
        self.happened["clock-step"] += 1
        self.say(node, f"clock jumps by {seconds:+.3f} s to {node.skew + seconds:+.3f} s")
        node.skew += seconds
        self._arm(node)

    def set_clock(self, node: Node, seconds: float) -> None:
        """Set the clock of a peer without a running process."""
        assert not self.alive(node), "a process reads its clock when it starts"
        self.say(node, f"clock set to {seconds:+.3f} s")
        if abs(seconds - node.skew) >= 3600.0:
            self.happened["clock-step-hours"] += 1
        self.happened["clock-set"] += 1
        node.skew = seconds

    # --- links -----------------------------------------------------------------------------------

    def cut(self, links: Cut, *, noticed: bool, why: str) -> None:
        """Cut links; if detectors notice, peers examine each other."""
        self.happened[why] += 1
        self.links.cut(links, noticed=noticed)
        self._links_changed(links, f"{why}, {'' if noticed else 'un'}noticed", gone=noticed)

    def mend(self, links: Cut, *, noticed: bool) -> None:
        """Heal a cut."""
        self.links.mend(links, noticed=noticed)
        self._links_changed(links, "mended", gone=False)

    def _links_changed(self, links: Cut, what: str, *, gone: bool) -> None:
        for sender, receiver in links:
            if sender < receiver or (receiver, sender) not in links:
                self.views.between(self.nodes[sender], self.nodes[receiver], gone=gone)
        if links:
            pairs = " ".join(f"{sender}>{receiver}" for sender, receiver in links)
            self.say(self.nodes[links[0][0]], f"links {what}: {pairs}")

    def send(self, node: Node, to: Contact, envelope: Envelope) -> None:
        """Send an envelope, unless its link is cut."""
        if type(envelope.message) is IndexTriples:
            self._note_stamps(envelope.message)
        target = self.by_key.get(to.key)
        if (
            target is None or not self.machines[target.index].alive
            or (target.contact is not to and target.contact != to)
        ):  # fmt: skip
            self._lost(node, to, envelope, "nobody is there")
        elif not self.links.carries(node.index, target.index):
            self._lost(node, to, envelope, "the link is cut")
        else:
            super().send(node, to, envelope)

    def _lost(self, node: Node, to: Contact, envelope: Envelope, why: str) -> None:
        self.counts.lost += 1
        if self.trace is not None:
            self._say(node, f"to {to.host} #{envelope.transfer} {type(envelope.message).__name__}: {why}")

    def _receive_frame(self, node: Node, frame: bytes, sender: Contact) -> None:
        if self._arrives(node, sender):
            assert node.codec is not None
            (envelope,) = node.codec.decode(memoryview(frame)[_LENGTH_BYTES:], trusted=True)
            self._take(node, envelope, sender)

    def _receive(self, node: Node, envelope: Envelope, sender: Contact) -> None:
        if self._arrives(node, sender):
            self._take(node, envelope, sender)

    def _take(self, node: Node, envelope: Envelope, sender: Contact) -> None:
        """Give a peer an envelope that arrives, or keep it until the peer has time."""
        if self.now < node.busy_until:
            waiting = self.machines[node.index].waiting
            if not waiting:
                self.schedule(node.busy_until - self.now, self._take_waiting, node)
            waiting.append((envelope, sender))
            return
        self._note_clock(node)
        super()._receive(node, envelope, sender)

    def _take_waiting(self, node: Node) -> None:
        """Give a peer the envelopes that came while it worked; without a peer there are none."""
        machine = self.machines[node.index]
        if not machine.waiting:
            return
        if self.now < node.busy_until:
            self.schedule(node.busy_until - self.now, self._take_waiting, node)
            return
        waiting, machine.waiting = machine.waiting, []
        for envelope, sender in waiting:
            self._receive(node, envelope, sender)

    def _arrives(self, node: Node, sender: Contact) -> bool:
        """Return whether an envelope arrives: its receiver is alive and the link is not cut."""
        return self.machines[node.index].alive and self.links.carries(self.by_key[sender.key].index, node.index)

    # --- calls into peers ------------------------------------------------------------------------

    def tell(self, node: Node, request: Request) -> None:
        """Give a peer a request of its overlay, unless a failpoint crashes it."""
        if not self.alive(node) or self._strikes(node, "view"):
            return
        if self.trace is not None:
            self._say(node, f"is told {type(request).__name__} {getattr(request, 'contact', '')}")
        self.submit(node, request)

    def request(self, node: Node, make: Callable[[int], Request], client: Client) -> int | None:
        """Send a client's request to a live peer; return its number, None if the peer crashed."""
        if not self.alive(node):
            return None
        self._request += 1
        number = self._request
        self.machines[node.index].requests[number] = client
        self.submit(node, make(number))
        return number

    def _ended(self, node: Node, subscription: int, why: str) -> None:
        """Report the end of an attachment to its client."""
        self.machines[node.index].held.pop(subscription, None)
        listener = self.machines[node.index].listeners.pop(subscription, None)
        if listener is not None:
            if self.trace is not None:
                self._say(node, f"no longer delivers {subscription:016x}: {why}")
            listener.ended(why)

    def _wake(self, node: Node) -> None:
        if not self.alive(node):
            return
        if self.now < node.busy_until:
            node.timer = self.set_timer(node.busy_until, self._wake, node)
            return
        if self.machines[node.index].waiting:
            self._take_waiting(node)
            if not self.alive(node):
                return
        self._note_clock(node)
        life = self.machines[node.index].life
        super()._wake(node)
        if self.failures.slowness_max and self.machines[node.index].life == life:
            if node.peer.turn_open:
                self.happened["turn-split"] += 1
            if node.peer.pace.slowness > 1:
                node.busy_until = self.now + node.peer.pace.spent

    def submit(self, node: Node, request: Request) -> None:
        """Give a request to a peer and carry out its effects."""
        self._note_clock(node)
        super().submit(node, request)

    def _note_clock(self, node: Node) -> None:
        self.machines[node.index].clock = node.peer.clock

    def decided_at(self, node: Node, request: int) -> int:
        """Return a peer's clock before the turn that decided the request that is just being reported."""
        return self.machines[node.index].clocks[request]

    def _find_owner(self, node: Node, life: int, key: int) -> None:
        if self.machines[node.index].life == life:
            self.submit(node, self.views.owners(node, key))

    # --- carrying out ----------------------------------------------------------------------------

    def _carry_out(self, node: Node, effects: Sequence[Effect]) -> None:
        machine = self.machines[node.index]
        disk, life = machine.disk, machine.life
        for effect in effects:
            kind = type(effect)
            if kind is Completed:
                machine.clocks[effect.request] = machine.clock  # type: ignore[union-attr]
            if kind is Persist:
                self._write(node, effect.message)  # type: ignore[union-attr]
            elif machine.queue or self._waits(disk):
                machine.queue.append((disk.written, effect))
            else:
                self._perform(node, effect)
            if machine.life != life:
                return  # crashed at a failpoint
        if disk.written > disk.synced and not machine.syncing:
            self._begin_sync(node)
        self._arm(node)

    def _waits(self, disk: Disk) -> bool:
        """Return whether effects must wait for the disk, by the driver's rule."""
        return disk.written > disk.synced

    def _write(self, node: Node, message: Message) -> None:
        if isinstance(message, IndexTriples):
            self._note_stamps(message)
        self.machines[node.index].disk.write(self._record(node, message))
        self._strikes(node, "written")

    def _record(self, node: Node, message: Message) -> Record:
        return message if node.codec is None else node.codec.encode((Envelope(0, 0, message),))

    def read(self, node: Node, record: Record) -> list[Message]:
        """Return the messages of a record, with the term identifiers of the current peer."""
        if not isinstance(record, bytes):
            return [record]
        assert node.codec is not None
        return [envelope.message for envelope in node.codec.decode(memoryview(record)[_LENGTH_BYTES:], trusted=True)]

    def _note_stamps(self, message: IndexTriples) -> None:
        published = message.published & _ROLES if message.origin else 0  # other peers added other indexes later
        for event, time in zip(as_list(message.event), as_list(message.time), strict=True):
            stamps = self.stamps.setdefault(event, {})
            stamps[hlc.plain(time)] = stamps.get(hlc.plain(time), 0) | published

    def _begin_sync(self, node: Node) -> None:
        machine, failures = self.machines[node.index], self.failures
        machine.syncing = True
        if self.now < machine.slow_until:
            seconds = self._chance.uniform(failures.slow_sync_min_seconds, failures.slow_sync_max_seconds)
        else:
            seconds = self._chance.uniform(failures.sync_min_seconds, failures.sync_max_seconds)
        self.schedule(seconds, self._end_sync, node, machine.life, machine.disk.written)

    def _end_sync(self, node: Node, life: int, number: int) -> None:
        machine = self.machines[node.index]
        if machine.life != life:
            return
        machine.syncing = False
        machine.disk.sync(number)
        if self._strikes(node, "synced"):
            return
        while machine.queue and machine.queue[0][0] <= machine.disk.synced:
            self._perform(node, machine.queue.popleft()[1])
            if machine.life != life:
                return
        if machine.disk.written > machine.disk.synced:
            self._begin_sync(node)

    def _perform(self, node: Node, effect: Effect) -> None:
        if self.machines[node.index].failpoint is not None and (
            self._strikes(node, "effect") or (isinstance(effect, Send) and self._strikes(node, "send"))
        ):
            return
        if isinstance(effect, Send):
            if _publishes(node, effect):
                if self._strikes(node, "publish"):
                    return
                self.machines[node.index].published_to = effect.to.key
            self.send(node, effect.to, effect.envelope)
        elif isinstance(effect, FindOwner):
            # The requesting call must end before its result arrives; a lookup takes a millisecond.
            self.schedule(0.001, self._find_owner, node, self.machines[node.index].life, effect.key)
        else:
            super()._perform(node, effect)

    def _completed(self, node: Node, effect: Completed) -> None:
        client = self.machines[node.index].requests.pop(effect.request, None)
        if self.trace is not None:
            self._say(node, f"request {effect.request}: {effect.outcome}")
        if client is None:
            raise LocalProtocolError(f"peer {node.index} completed unknown request {effect.request}")
        if isinstance(effect.outcome, Subscribed | Attached):
            self.machines[node.index].held[effect.outcome.subscription] = None
        client.completed(node, effect.request, effect.outcome)
        self.machines[node.index].clocks.pop(effect.request, None)

    def _notify(self, node: Node, notify: Notify) -> None:
        listener = self.machines[node.index].listeners.get(notify.subscription)
        if self.trace is not None:
            to = "a client" if listener is not None else "nobody"
            self._say(node, f"{to} gets {len(notify.identity)} answers of {notify.subscription:x} from {notify.first}")
        if listener is not None:
            listener.notified(node, notify)

    def _bookmark(self, node: Node, bookmark: Bookmark) -> None:
        listener = self.machines[node.index].listeners.get(bookmark.subscription)
        self.say(node, f"bookmark of {bookmark.subscription:x}: {bookmark.stamp}")
        if listener is not None:
            listener.bookmarked(bookmark)

    # --- failpoints and compaction ---------------------------------------------------------------

    def arm_failpoint(self, node: Node, where: str, times: int) -> None:
        """Let a peer crash at its next ``times``-th pass of a point."""
        assert where in (*FAILPOINTS, "publish"), where
        self.machines[node.index].failpoint = (where, times)
        self.say(node, f"failpoint: {where} {times}")

    def _strikes(self, node: Node, where: str) -> bool:
        """Count a pass of a point; crash the peer if its failpoint is reached."""
        machine = self.machines[node.index]
        if machine.failpoint is None or machine.failpoint[0] != where:
            return False
        left = machine.failpoint[1] - 1
        machine.failpoint = (where, left)
        if left > 0:
            return False
        self.crash(node, f"failpoint {where}")
        return True

    def compact(self, node: Node) -> None:
        """Replace the disk's records by a snapshot of the peer, a few messages at a time."""
        machine = self.machines[node.index]
        if not machine.alive or machine.disk.compacting:
            return
        self.happened["compaction"] += 1
        self.say(node, f"compaction of {len(machine.disk.durable)} records")
        machine.disk.begin_compaction()
        self._compact_on(node, machine.life, node.peer.snapshot(), [])

    def _compact_on(self, node: Node, life: int, snapshot: Iterator[Message], taken: list[Record]) -> None:
        machine = self.machines[node.index]
        if machine.life != life:
            return
        for _ in range(_SNAPSHOT_SLICE):
            message = next(snapshot, None)
            if message is None:
                before = machine.disk.durable
                machine.disk.end_compaction(taken)
                if self.on_compacted is not None:
                    self.on_compacted(node, before, machine.disk.durable)
                self.say(node, f"compacted to {len(machine.disk.durable)} records")
                return
            taken.append(self._record(node, message))
        self.schedule(_SNAPSHOT_SECONDS, self._compact_on, node, life, snapshot, taken)


def _publishes(node: Node, effect: Send) -> bool:
    """Return whether an effect sends a local publication to another peer."""
    message = effect.envelope.message
    own = node.contact.key
    return isinstance(message, IndexTriples) and message.origin == own != effect.to.key
