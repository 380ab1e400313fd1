"""The way of one triple to its acknowledged answer: files, functions and calls, counted by a profile hook."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from random import Random
from types import CodeType, FrameType
from typing import Any, Final

from p2prdf.columns import ARRAYS, as_list
from p2prdf.peer import Peer, PeerConfig
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.rdf.query import Algorithm, ConjunctiveQuery
from p2prdf.wire import contract
from p2prdf.wire.messages import Contact

PRODUCT: Final = str(Path(sys.modules["p2prdf"].__file__ or "").parent)
_QUERY: Final = ConjunctiveQuery(((0, ~0, 1),), ("<p>",), (0, 1), ("s", "o"))
_PEERS: Final = 3


class Passage:
    """Three peers that keep three copies, one subscription, and the calls of one publication."""

    def __init__(self) -> None:
        self.now = 1_000_000.0
        self.calls: Counter[CodeType] = Counter()
        self.messages: Counter[str] = Counter()
        self.dictionary = TermDictionary()
        config = PeerConfig(replicas=3, copies_min=2, durable=True, audit_seconds=10.0)
        contacts = [Contact((2 * n + 1) * (1 << 64) // 6, "peer", n + 1) for n in range(_PEERS)]
        self.peers = {
            each.key: Peer(each, config, self.dictionary, ARRAYS, Random(each.key)) for each in contacts
        }
        self.contacts = contacts
        self.completed: dict[int, object] = {}
        self.solutions = 0
        self._requests = 0
        for at in contacts:
            for other in contacts:
                self._submit(at, contract.ContactSeen(other))
        for at in contacts:
            near = tuple(sorted(contacts, key=lambda each: each.key ^ at.key))
            self._submit(at, contract.OwnersFound(at.key, near, complete=True))
        self._pass_time(60.0)
        self._request(contacts[1], lambda number: contract.Subscribe(number, _QUERY, Algorithm.CSBV))
        self._pass_time(10.0)
        for event in range(3):  # everything that is made at first use has been made
            self._publish(event)
        self._pass_time(60.0)

    def measure(self) -> None:
        """Publish one triple, and count all calls until its answer is acknowledged."""
        before = self.solutions
        columns = self._columns(99)
        self.messages.clear()
        self.calls.clear()
        sys.setprofile(self._profiled)
        try:
            self._request(self.contacts[0], lambda number: contract.Publish(number, 9, 99, *columns))
        finally:
            sys.setprofile(None)
        assert self.solutions == before + 1, "the publication led to no answer"

    def _profiled(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PRODUCT):
            self.calls[frame.f_code] += 1

    def _columns(self, event: int) -> list[Any]:
        make, intern = ARRAYS.column, self.dictionary.intern_all
        return [make(intern([text]), "uint32") for text in (f"<s{event}>", "<p>", f'"{event}"')]

    def _publish(self, event: int) -> None:
        columns = self._columns(event)
        self._request(self.contacts[0], lambda number: contract.Publish(number, 9, event, *columns))
        self._pass_time(1.0)

    def _request(self, at: Contact, make: Any) -> None:
        self._requests += 1
        self._submit(at, make(self._requests))

    def _submit(self, at: Contact, request: contract.Request) -> None:
        self._carry_out(self.peers[at.key], self.peers[at.key].submit(request, now=self.now))

    def _carry_out(self, peer: Peer, effects: list[contract.Effect]) -> None:
        """Deliver in rounds: all that is under way arrives, then all peers that are due wake."""
        under_way = [(peer, each) for each in effects]
        while under_way or (due := self._due()):
            if under_way:
                arriving, under_way = under_way, []
                for source, effect in arriving:
                    under_way += self._effect(source, effect)
            else:
                under_way = [(each, effect) for each in due for effect in each.wake(now=self.now)]

    def _due(self) -> list[Peer]:
        return [each for each in self.peers.values() if (due := each.deadline) is not None and due <= self.now]

    def _effect(self, peer: Peer, effect: contract.Effect) -> list[tuple[Peer, contract.Effect]]:
        match effect:
            case contract.Send(to, envelope):
                self.messages[type(envelope.message).__name__] += 1
                other = self.peers[to.key]
                return [(other, each) for each in other.receive(envelope, sender=peer.contact, now=self.now)]
            case contract.FindOwner(key):
                found = tuple(sorted(self.contacts, key=lambda each: each.key ^ key))
                answer = contract.OwnersFound(key, found, complete=True)
                return [(peer, each) for each in peer.submit(answer, now=self.now)]
            case contract.Completed(request, outcome):
                assert not isinstance(outcome, contract.Failed), outcome
                self.completed[request] = outcome
            case contract.Notify():
                self.solutions += len(as_list(effect.identity))
                self._requests += 1
                done = contract.AcknowledgeAnswers(self._requests, effect.subscription, effect.identity)
                return [(peer, each) for each in peer.submit(done, now=self.now)]
            case _:
                pass
        return []

    def _pass_time(self, seconds: float) -> None:
        end = self.now + seconds
        while True:
            due = [(each.deadline, key) for key, each in self.peers.items() if each.deadline is not None]
            if not due or min(due)[0] > end:
                break
            when, key = min(due)
            self.now = max(self.now, when)
            self._carry_out(self.peers[key], self.peers[key].wake(now=self.now))
        self.now = end
