"""One real peer by itself: all its messages go to itself, its clients are here, and nothing is written anywhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from random import Random

from p2prdf.columns import ARRAYS, as_list
from p2prdf.hlc import FIRST, GONE
from p2prdf.peer import Peer, PeerConfig
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.rdf.query import Algorithm
from p2prdf.rdf.standing.query import parse_query
from p2prdf.wire import contract
from p2prdf.wire.contract import Effect
from p2prdf.wire.messages import WITHDRAWN, Contact

Triple = tuple[str, str, str]
_TURN_SECONDS = 0.001
_LEASE_SECONDS = 1e9


class Alone:
    """A peer with one replica, all indexes and columnar tables, a publisher, and subscribers that acknowledge."""

    def __init__(self) -> None:
        self.dictionary = TermDictionary()
        contact = Contact(1 << 63, "alone", 1)
        self.peer = Peer(contact, PeerConfig(), self.dictionary, ARRAYS, Random(1))
        self.now = 1_000_000.0
        self.outcomes: dict[int, contract.Outcome] = {}
        self.told = 0
        """Answers and retractions that were delivered."""
        self._requests = self._events = 0
        self._held: dict[int, dict[int, tuple[int, ...]]] = {}
        self._do(self.peer.submit(contract.ContactSeen(contact), now=self.now))
        self.settle()

    # --- driving ---------------------------------------------------------------------------------

    def _do(self, effects: Sequence[Effect]) -> None:
        peer, todo = self.peer, [effects]
        while todo:
            for effect in todo.pop():
                match effect:
                    case contract.Send(_, envelope):
                        todo.append(peer.receive(envelope, sender=peer.contact, now=self.now))
                    case contract.FindOwner(key):
                        found = contract.OwnersFound(key, (peer.contact,), complete=True)
                        todo.append(peer.submit(found, now=self.now))
                    case contract.Notify():
                        todo.append(self._notified(effect))
                    case contract.Completed(request, outcome):
                        self.outcomes[request] = outcome

    def _notified(self, notify: contract.Notify) -> Sequence[Effect]:
        assert not notify.lost
        self.told += len(notify.identity)
        held = self._held.setdefault(notify.subscription, {})
        columns = [as_list(column) for column in notify.bindings]
        rows: Iterable[tuple[int, ...]] = zip(*columns, strict=True) if columns else [()] * len(notify.identity)
        for identity, born, row in zip(as_list(notify.identity), as_list(notify.born), rows, strict=True):
            if born >= GONE:
                held.pop(identity ^ WITHDRAWN, None)
            else:
                held[identity] = row
        self._requests += 1
        done = contract.AcknowledgeAnswers(self._requests, notify.subscription, notify.identity)
        return self.peer.submit(done, now=self.now)

    def settle(self) -> None:
        """Let the peer work until it is idle."""
        while (deadline := self.peer.deadline) is not None and deadline <= self.now:
            self._do(self.peer.wake(now=self.now))

    def pass_time(self) -> None:
        """Let a turn's time pass, and the peer work."""
        self.now += _TURN_SECONDS
        self.settle()

    # --- clients ---------------------------------------------------------------------------------

    def subscribe(self, texts: Iterable[str]) -> list[int]:
        """Subscribe to queries that count earlier publications; return the numbers of the subscriptions."""
        first = self._requests + 1
        for text in texts:
            standing = parse_query(text)
            simple = standing.conjunctive
            query = standing if simple is None or simple.distinct else simple
            self._requests += 1
            wish = contract.Subscribe(self._requests, query, Algorithm.CSBV, False, _LEASE_SECONDS, FIRST)
            self._do(self.peer.submit(wish, now=self.now))
        wanted = range(first, self._requests + 1)
        while not all(request in self.outcomes for request in wanted):
            self.pass_time()
        found = [self.outcomes[request] for request in wanted]
        failed = [each for each in found if not isinstance(each, contract.Subscribed)]
        assert not failed, f"{len(failed)} queries were refused, the first: {failed[0]}"
        return [each.subscription for each in found if isinstance(each, contract.Subscribed)]

    def publish(self, triples: Sequence[Triple], *, removed: bool = False) -> None:
        """Publish triples, or remove them, and do all work that follows."""
        columns = [ARRAYS.column(self.dictionary.intern_all(column), "uint32") for column in zip(*triples, strict=True)]
        self._requests += 1
        request = contract.Publish(self._requests, 9, self._events, *columns, removed=removed)
        self._events += len(triples)
        self.now += _TURN_SECONDS
        self._do(self.peer.submit(request, now=self.now))
        self.settle()
        assert isinstance(self.outcomes.pop(request.request), contract.Published)

    def rows(self, subscription: int) -> Counter[tuple[str | None, ...]]:
        """Return the solutions of a subscriber; None is unbound."""
        texts = self.dictionary.texts
        return Counter(tuple(text or None for text in texts(row)) for row in self._held.get(subscription, {}).values())
