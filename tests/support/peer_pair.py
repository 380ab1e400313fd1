"""Two peers against their contract: without sockets, a link between them that can be cut, and manual time."""

from __future__ import annotations

from itertools import islice
from random import Random

from p2prdf.columns import ARRAYS, as_list
from p2prdf.peer import Peer, PeerConfig
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.rdf.query import Algorithm, ConjunctiveQuery
from p2prdf.wire.contract import (
    Completed,
    ContactSeen,
    Effect,
    Ended,
    FindOwner,
    Notify,
    OwnersFound,
    Publish,
    Send,
    Span,
    Subscribe,
    Subscribed,
    Trace,
)
from p2prdf.wire.messages import Contact, Envelope, Message

__all__ = ["HIGH", "LOW", "QUERY", "Pair"]

LOW, HIGH = Contact(1, "low", 1), Contact((1 << 64) - 2, "high", 1)
QUERY = ConjunctiveQuery(((0, ~0, 1),), ("<p>",), (0, 1), ("s", "o"))


class Pair:
    """Two peers that know each other, and a link between them that can be cut."""

    def __init__(self, columns=ARRAYS, **config):
        self.now = 1000.0
        self.dictionary = TermDictionary()
        chosen = PeerConfig(**config)
        self.peers = {
            contact.key: Peer(contact, chosen, self.dictionary, columns, Random(contact.key)) for contact in (LOW, HIGH)
        }
        self.completed: dict[int, object] = {}
        self.ended: list[Ended] = []
        self.notified: list[Notify] = []
        self.traces: list[Trace] = []
        self.spans: list[tuple[int, Span]] = []
        self.cut = False
        self.columns = columns
        self.requests = 0
        self.events = 0
        for contact in (LOW, HIGH):
            for other in (LOW, HIGH):
                self.submit(contact, ContactSeen(other))

    def submit(self, at: Contact, request) -> None:
        """Hand a request to one of them and let everything settle."""
        peer = self.peers[at.key]
        self._carry_out(peer, peer.submit(request, now=self.now))

    def _carry_out(self, peer: Peer, effects) -> None:
        todo = [(peer, effects)]
        while todo:
            peer, effects = todo.pop()
            for effect in effects:
                match effect:
                    case Send(to, envelope) if not self.cut and to.key in self.peers:
                        other = self.peers[to.key]
                        todo.append((other, other.receive(envelope, sender=peer.contact, now=self.now)))
                    case FindOwner(key):
                        there = (peer.contact,) if self.cut else (LOW, HIGH)
                        found = tuple(sorted(there, key=lambda each: each.key ^ key))
                        todo.append((peer, peer.submit(OwnersFound(key, found, complete=True), now=self.now)))
                    case Completed(request, outcome):
                        self.completed[request] = outcome
                    case Notify():
                        self.notified.append(effect)
                    case Ended():
                        self.ended.append(effect)
                    case Trace():
                        self.traces.append(effect)
                    case Span():
                        self.spans.append((peer.contact.key, effect))
            if not todo:
                due = (p for p in self.peers.values() if p.deadline is not None and p.deadline <= self.now)
                todo = [(each, each.wake(now=self.now)) for each in islice(due, 1)]

    def compare(self) -> None:
        """Give both the ring, as a daemon does, and let them compare their items."""
        for contact in (LOW, HIGH):
            found = tuple(sorted((LOW, HIGH), key=lambda each: each.key ^ contact.key))
            self.submit(contact, OwnersFound(contact.key, found, complete=True))
        self.pass_time(30.0)

    def listen(self, at: Contact) -> list[Message]:
        """Return a list that collects all further messages to one of them."""
        heard: list[Message] = []
        peer = self.peers[at.key]
        receive = peer.receive

        def hear(envelope: Envelope, *, sender: Contact, now: float) -> list[Effect]:
            heard.append(envelope.message)
            return receive(envelope, sender=sender, now=now)

        peer.receive = hear
        return heard

    def pass_time(self, seconds: float) -> None:
        """Let time pass, timer by timer."""
        end = self.now + seconds
        while True:
            due = [(p.deadline, p.contact.key) for p in self.peers.values() if p.deadline is not None]
            if not due or min(due)[0] > end:
                break
            when, key = min(due)
            self.now = max(self.now, when)
            self._carry_out(self.peers[key], self.peers[key].wake(now=self.now))
        self.now = end

    def subscribe(self, at: Contact, query=QUERY, lease_seconds=60.0) -> Subscribed:
        """Subscribe and return the outcome."""
        self.requests += 1
        request = self.requests
        self.submit(at, Subscribe(request, query, Algorithm.CSBV, lease_seconds=lease_seconds))
        self.pass_time(1.0)
        outcome = self.completed[request]
        assert isinstance(outcome, Subscribed), outcome
        return outcome

    def publish(self, at: Contact, *triples) -> int:
        """Publish triples; return the number of the request."""
        self.requests += 1
        intern, make = self.dictionary.intern_all, self.columns.column
        columns = [make(intern(column), "uint32") for column in zip(*triples, strict=True)]
        self.submit(at, Publish(self.requests, 9, self.events, *columns))
        self.events += len(triples)
        return self.requests

    def sequences(self) -> list[int]:
        """Return the numbers of the solutions delivered so far."""
        return [each.first + at for each in self.notified for at in range(len(each.identity))]

    def identities(self) -> list[int]:
        """Return the identities of the solutions delivered so far."""
        return [identity for each in self.notified for identity in as_list(each.identity)]
