"""The handoff of data after a view change takes several messages: a peer knows until when it is incomplete."""

from __future__ import annotations

import numpy as np
import pytest

from p2prdf.columns import ARRAYS, as_list
from p2prdf.peer import PeerConfig
from p2prdf.peer.network.messenger import Messenger
from p2prdf.peer.replication.anti_entropy import GIVEN_SECONDS, AntiEntropy
from p2prdf.peer.replication.digests import Changes, Items
from p2prdf.wire.contract import OwnersFound, Send
from p2prdf.wire.messages import Contact, Fetch, FetchDone, IdentityList

ONE, OTHER, THIRD = Contact(1 << 60, "one", 1), Contact(2 << 60, "other", 1), Contact(3 << 60, "third", 1)
HOMES, ELSE = 18, 3
HERE = 77


class Things:
    """An item type with one item here."""

    dense = False
    counter = "things"
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
    """A peer that is offered its new data; ``taken`` counts how often all handoffs were complete."""

    def __init__(self):
        self.messenger = Messenger(ONE, PeerConfig(replicas=3, copies_min=1), ARRAYS)
        self.messenger.observe(1000.0)
        self.messenger.seen(OTHER)
        self.messenger.seen(THIRD)
        self.messenger.owners_found(OwnersFound(0, (ONE, OTHER, THIRD), complete=True))
        kinds = [Things(HOMES), Things(ELSE)]
        self.repair = AntiEntropy(self.messenger, kinds, [HOMES], lambda message: iter([message]), 0)
        self.taken = 0
        self.messenger.signals.handoff_done.connect(self._taken)

    def _taken(self):
        self.taken += 1

    def offered(self, request, identities, *, sender=OTHER, kind=HOMES):
        """Take an offer; return the wanted identities of it."""
        make, self.messenger.effects = self.messenger.columns.column, []
        buckets = make([0] * len(identities), "uint32")
        self.repair.offer(sender, IdentityList(request, kind, False, False, buckets, make(identities)))
        sent = [each.envelope.message for each in self.messenger.effects if isinstance(each, Send)]
        return [identity for message in sent if isinstance(message, Fetch) for identity in as_list(message.identities)]

    def given(self, request, *, sender=OTHER):
        self.repair.given_all(sender, FetchDone(request, HOMES))


@pytest.fixture
def taker():
    return Taker()


def test_wanted_coordinator_items_are_awaited_until_their_sender_reports_them_sent(taker):
    assert taker.offered(5, [HERE, 1, 2]) == [1, 2]
    assert taker.messenger.recovery.receiving
    taker.given(6)
    taker.given(5, sender=THIRD)
    assert taker.messenger.recovery.receiving
    taker.given(5)
    assert not taker.messenger.recovery.receiving
    assert taker.taken == 1
    taker.given(5)
    assert taker.taken == 1


def test_all_senders_are_waited_for(taker):
    taker.offered(5, [1])
    taker.offered(5, [1, 2], sender=THIRD)
    taker.given(5)
    assert taker.messenger.recovery.receiving
    taker.given(5, sender=THIRD)
    assert taker.taken == 1


@pytest.mark.parametrize(("identities", "kind"), [([HERE], HOMES), ([1], ELSE)])
def test_present_items_and_items_of_other_types_are_not_awaited(taker, identities, kind):
    taker.offered(5, identities, kind=kind)
    assert not taker.messenger.recovery.receiving


def test_a_lost_sender_is_not_waited_for(taker):
    taker.offered(5, [1])
    taker.offered(6, [2], sender=THIRD)
    taker.repair.contact_lost(OTHER)
    assert taker.messenger.recovery.receiving
    taker.repair.contact_lost(THIRD)
    assert not taker.messenger.recovery.receiving
    assert taker.taken == 1


def test_a_silent_sender_is_not_waited_for_for_ever(taker):
    taker.offered(5, [1])
    assert taker.repair.deadline <= 1000.0 + GIVEN_SECONDS
    taker.messenger.observe(1000.0 + GIVEN_SECONDS - 0.01)
    taker.repair.wake()
    assert taker.messenger.recovery.receiving
    taker.messenger.observe(1000.0 + GIVEN_SECONDS)
    taker.repair.wake()
    assert not taker.messenger.recovery.receiving
    assert taker.taken == 1
