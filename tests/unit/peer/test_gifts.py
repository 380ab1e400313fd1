"""What others kept by an older view comes in several messages: until all of it is here, that is known."""

from __future__ import annotations

import numpy as np
import pytest

from p2prdf.columns import ARRAYS, as_list
from p2prdf.peer import PeerConfig
from p2prdf.peer.network.messenger import Exchange
from p2prdf.peer.replication.anti_entropy import GIVEN_SECONDS, Repair
from p2prdf.peer.replication.digests import Changes, Items
from p2prdf.wire.contract import OwnersFound, Send
from p2prdf.wire.messages import Contact, Given, Offer, Want

ONE, OTHER, THIRD = Contact(1 << 60, "one", 1), Contact(2 << 60, "other", 1), Contact(3 << 60, "third", 1)
HOMES, ELSE = 18, 3
HERE = 77


class Things:
    """A kind of which one item is here."""

    dense = False
    version = 1

    def __init__(self, number):
        self.number = number

    def items(self):
        identities = np.array([HERE], np.uint64)
        return Items(identities, identities, np.arange(1))

    def changes(self):
        return Changes(True, self.items())

    def messages(self, places):
        del places
        return iter(())

    everything = items


class Taker:
    """A peer that is offered what it keeps; ``taken`` counts how often all gifts were over."""

    def __init__(self):
        self.exchange = Exchange(ONE, PeerConfig(replicas=3, copies_min=1), ARRAYS)
        self.exchange.observe(1000.0)
        self.exchange.seen(OTHER)
        self.exchange.seen(THIRD)
        self.exchange.owners_found(OwnersFound(0, (ONE, OTHER, THIRD), complete=True))
        kinds = [Things(HOMES), Things(ELSE)]
        self.repair = Repair(self.exchange, kinds, [HOMES], lambda: 0, lambda message: iter([message]), 0)
        self.taken = 0
        self.repair.on_gifts_taken = self._taken

    def _taken(self):
        self.taken += 1

    def offered(self, request, identities, *, sender=OTHER, kind=HOMES):
        """Take an offer; return what of it is wanted."""
        make, self.exchange.effects = self.exchange.columns.column, []
        buckets = make([0] * len(identities), "uint32")
        self.repair.offer(sender, Offer(request, kind, False, False, buckets, make(identities)))
        sent = [each.parcel.message for each in self.exchange.effects if isinstance(each, Send)]
        return [identity for message in sent if isinstance(message, Want) for identity in as_list(message.identities)]

    def given(self, request, *, sender=OTHER):
        self.repair.given_all(sender, Given(request, HOMES))


@pytest.fixture
def taker():
    return Taker()


def test_what_is_wanted_of_homes_is_awaited_until_it_is_said_to_be_here(taker):
    assert taker.offered(5, [HERE, 1, 2]) == [1, 2]
    assert taker.repair.gifts
    taker.given(6)
    taker.given(5, sender=THIRD)
    assert taker.repair.gifts
    taker.given(5)
    assert not taker.repair.gifts
    assert taker.taken == 1
    taker.given(5)
    assert taker.taken == 1


def test_all_who_give_are_waited_for(taker):
    taker.offered(5, [1])
    taker.offered(5, [1, 2], sender=THIRD)
    taker.given(5)
    assert taker.repair.gifts
    taker.given(5, sender=THIRD)
    assert taker.taken == 1


@pytest.mark.parametrize(("identities", "kind"), [([HERE], HOMES), ([1], ELSE)])
def test_what_is_here_and_what_is_not_of_homes_is_not_awaited(taker, identities, kind):
    taker.offered(5, identities, kind=kind)
    assert not taker.repair.gifts


def test_who_is_gone_gives_no_more(taker):
    taker.offered(5, [1])
    taker.offered(6, [2], sender=THIRD)
    taker.repair.contact_lost(OTHER)
    assert taker.repair.gifts
    taker.repair.contact_lost(THIRD)
    assert not taker.repair.gifts
    assert taker.taken == 1


def test_who_says_nothing_is_not_waited_for_for_ever(taker):
    taker.offered(5, [1])
    assert taker.repair.deadline <= 1000.0 + GIVEN_SECONDS
    taker.exchange.observe(1000.0 + GIVEN_SECONDS - 0.01)
    taker.repair.wake()
    assert taker.repair.gifts
    taker.exchange.observe(1000.0 + GIVEN_SECONDS)
    taker.repair.wake()
    assert not taker.repair.gifts
    assert taker.taken == 1
