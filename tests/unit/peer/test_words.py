"""The keyword index, peer by peer: entries of literals, late advertisements, and persistence."""

from __future__ import annotations

from typing import Any

import pytest

from p2prdf import hlc, keys
from p2prdf.columns import ARRAYS, LISTS, as_list
from p2prdf.peer import Peer, PeerConfig
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.rdf.quads import worded
from p2prdf.wire.contract import ContactSeen, OwnersFound, Persist, Publish, Send
from p2prdf.wire.messages import AdvertiseKeywords, Contact, Envelope, IndexTriples

OWN, OTHER, THIRD = (Contact(at << 62, f"peer-{at}", 1) for at in range(3))
P, Q = "<urn:p>", "<urn:q>"
TEA, RIO, BOTH = worded(P, ["tea"]), worded(P, ["rio"]), worded(P, ["tea", "rio"])
NOW = 1000.0
SINCE = hlc.from_seconds(NOW)
PLAIN = (1 << keys.EVENT_SHIFT) - 1


class Bench:
    """One peer of three, and all that it sends."""

    def __init__(self, columns, **config: Any):
        self.columns, self.now = columns, NOW + 10.0
        self.dictionary = TermDictionary()
        self.peer = Peer(OWN, PeerConfig(durable=True, **config), self.dictionary, columns)
        self.sent: list[tuple[Contact, Any]] = []
        self.kept: list[Any] = []
        for contact in (OTHER, THIRD):
            self.submit(ContactSeen(contact))
        self.submit(OwnersFound(OWN.key, (OWN, OTHER, THIRD), complete=True))

    def _carry_out(self, effects) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                self.sent.append((effect.to, effect.envelope.message))
            elif isinstance(effect, Persist):
                self.kept.append(effect.message)

    def submit(self, request) -> None:
        self._carry_out(self.peer.submit(request, now=self.now))
        self.wake()

    def take(self, message, sender: Contact = OTHER) -> None:
        self._carry_out(self.peer.receive(Envelope(0, 0, message), sender=sender, now=self.now))
        self.wake()

    def wake(self) -> None:
        while self.peer.deadline is not None and self.peer.deadline <= self.now:
            self._carry_out(self.peer.wake(now=self.now))

    def advertise(self, *predicates: str, since: int = SINCE) -> None:
        """Advertise to the peer that queries wait under keywords."""
        self.take(AdvertiseKeywords(self.terms(predicates), self.columns.full(len(predicates), since)))

    def terms(self, texts) -> Any:
        return self.columns.column(self.dictionary.intern_all(texts), "uint32")

    def publish(self, *triples: tuple[str, str, str], removed: bool = False) -> None:
        s, p, o = (self.terms(column) for column in zip(*triples, strict=True))
        self.submit(Publish(1, 7, 0, s, p, o, removed=removed))

    def arrive(self, triple: tuple[str, str, str], *, words: int = 0, time: int = SINCE + 1, sender=OTHER) -> None:
        """Let a triple arrive to be stored under its predicate."""
        s, p, o = (self.terms([each]) for each in triple)
        full = self.columns.full
        roles = full(1, 1 << keys.P, "uint32")
        message = IndexTriples(
            s, p, o, full(1, time), full(1, 9), roles, hops=8, origin=sender.key, published=PLAIN, words=words
        )
        self.take(message, sender)

    @property
    def worded(self) -> set[tuple[str, str, int]]:
        """Predicate, object and time of all keyword entries stored here or sent to others."""
        found = set()
        messages = [message for _, message in self.sent if isinstance(message, IndexTriples)]
        for each in (*messages, IndexTriples(*self.peer.triples())):
            texts = (self.dictionary.texts(as_list(column)) for column in (each.p, each.o))
            for predicate, text, time, roles in zip(*texts, as_list(each.time), as_list(each.roles), strict=True):
                if predicate in (TEA, RIO, BOTH):
                    assert not roles & ~(1 << keys.P | 1 << (keys.S | keys.P)) & PLAIN
                    found.add((predicate, text, time))
        return found

    @property
    def indexed(self) -> set[tuple[str, str]]:
        return {each[:2] for each in self.worded}


@pytest.fixture(params=[LISTS, ARRAYS], ids=["light", "columnar"])
def bench(request) -> Bench:
    return Bench(request.param)


def test_a_text_is_indexed_once_more_under_each_set_of_words_that_it_has_one_of(bench):
    bench.advertise(TEA, RIO, BOTH)
    bench.publish(
        ("<urn:s>", P, '"Tea, tea!"@en'), ("<urn:s>", P, '"in Rio tea"'), ("<urn:s>", P, '"teapot"'),
        ("<urn:s>", Q, '"tea"'), ("<urn:s>", P, "<urn:tea>"), ("<urn:s>", P, '"1"^^<http://www.w3.org/2001/XMLSchema#integer>'),
    )  # fmt: skip
    both = '"in Rio tea"'
    assert bench.indexed == {(TEA, '"Tea, tea!"@en'), (BOTH, '"Tea, tea!"@en'), (TEA, both), (RIO, both), (BOTH, both)}


def test_a_removal_goes_the_way_of_the_publication(bench):
    bench.advertise(TEA)
    bench.publish(("<urn:s>", P, '"tea"'))
    bench.publish(("<urn:s>", P, '"tea"'), removed=True)
    assert sorted(time >= hlc.GONE for *_, time in bench.worded) == [False, True]


def test_triples_from_a_sender_with_the_same_keywords_are_left_as_they_are(bench):
    bench.advertise(TEA)
    bench.arrive(("<urn:s>", P, '"tea"'), words=bench.peer._engine.words.digest)
    assert not bench.indexed
    assert not any(isinstance(message, AdvertiseKeywords) for _, message in bench.sent)


def test_triples_from_a_sender_with_other_keywords_are_indexed_and_the_sender_is_told(bench):
    bench.advertise(TEA, RIO)
    bench.arrive(("<urn:s>", P, '"tea"'), words=5)
    assert bench.indexed == {(TEA, '"tea"')}
    told = [message for to, message in bench.sent if to == OTHER and isinstance(message, AdvertiseKeywords)]
    assert [bench.dictionary.texts(as_list(message.predicates)) for message in told] == [[TEA, RIO]]
    bench.arrive(("<urn:r>", P, '"tea"'), words=5)
    assert len([message for _, message in bench.sent if isinstance(message, AdvertiseKeywords)]) == 1, "once in a while"


def test_triples_without_a_digest_of_keywords_are_indexed(bench):
    """Anti-entropy and redelivery send no digest."""
    bench.advertise(TEA)
    bench.arrive(("<urn:s>", P, '"tea"'))
    assert bench.indexed == {(TEA, '"tea"')}


def test_a_triple_older_than_a_keyword_is_not_indexed_under_it(bench):
    bench.advertise(TEA)
    bench.arrive(("<urn:s>", P, '"tea"'), time=SINCE - 1)
    assert not bench.indexed


def test_a_late_keyword_counts_for_stored_triples(bench):
    bench.arrive(("<urn:s>", P, '"tea"'), time=SINCE + 5)
    bench.arrive(("<urn:s>", P, '"more tea"'), time=SINCE - 5)
    assert not bench.indexed
    bench.advertise(TEA)
    assert bench.worded == {(TEA, '"tea"', SINCE + 5)}
    bench.advertise(TEA, since=SINCE - 10)  # another part of the network needed it earlier
    assert bench.worded == {(TEA, '"tea"', SINCE + 5), (TEA, '"more tea"', SINCE - 5)}


def test_keywords_survive_a_restart_and_their_entries_are_added_again(bench):
    bench.arrive(("<urn:s>", P, '"tea"'))
    bench.advertise(TEA)
    told = [message for message in bench.peer.snapshot() if isinstance(message, AdvertiseKeywords)]
    assert len(told) == 1
    assert bench.dictionary.texts(as_list(told[0].predicates)) == [TEA]
    assert as_list(told[0].since) == [SINCE]
    again = Bench(bench.columns)
    again.peer, again.dictionary = Peer(OWN, bench.peer.config, bench.dictionary, bench.columns), bench.dictionary
    again.peer.restore([each for each in bench.kept if not _is_worded(each, bench.dictionary)], now=again.now)
    assert again.peer._engine.words.digest == bench.peer._engine.words.digest
    assert not again.indexed
    for contact in (OTHER, THIRD):
        again.submit(ContactSeen(contact))
    again.submit(OwnersFound(OWN.key, (OWN, OTHER, THIRD), complete=True))
    assert again.indexed == {(TEA, '"tea"')}, "a former life may have had it on its way"


def _is_worded(message, dictionary) -> bool:
    return isinstance(message, IndexTriples) and TEA in dictionary.texts(as_list(message.p))


def test_a_newcomer_and_a_peer_that_asks_for_indexes_are_told_the_keywords(bench):
    bench.advertise(TEA)
    bench.sent.clear()
    late = Contact(3 << 62, "late", 1)
    bench.submit(ContactSeen(late))
    assert [to for to, message in bench.sent if isinstance(message, AdvertiseKeywords)] == [late]


def test_an_advertisement_that_is_no_keyword_is_left_out(bench):
    bench.advertise(P, '"tea"')
    assert bench.peer.status()["keywords"] == 0
