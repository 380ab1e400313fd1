"""Hops of a few messages on a ring small enough to count by hand: peers at 0, 1/4, 1/2 and 3/4 of the ring."""

from __future__ import annotations

import numpy as np
import pytest

from p2prdf_lab.experiments.caches import Traffic
from p2prdf_lab.experiments.hops import Hops, senders
from p2prdf_lab.fleets.fleet import Messages
from p2prdf_lab.fleets.places import Places

QUARTER = 1 << 62
RING = Places([at * QUARTER for at in range(4)])
NO_CACHE, IDENTIFIERS, STRETCHES = "no cache", "identifiers (paper)", "stretches (p2prdf)"


def key_of(peer: int, number: int = 0) -> int:
    """Return a key that a peer owns."""
    return (peer * QUARTER - 1 - number) % (1 << 64)


def messages(*sent: tuple[int, int, int]) -> Messages:
    """Return messages as (cause, sending peer, key)."""
    cause, source, key = zip(*sent, strict=True)
    origin = np.array([key_of(each) for each in source], np.uint64)
    return Messages(1, np.array(cause), origin, np.array(key, np.uint64), np.ones(len(sent), np.int64))


def test_messages_alone_shared_and_direct_are_counted_apart():
    hops = Hops(RING, 2, seed=1)
    hops.take(
        messages(
            (0, 0, key_of(0)),  # stays
            (0, 0, key_of(1)), (0, 0, key_of(1, 5)),  # one hop each, one transfer
            (0, 0, key_of(3)), (0, 0, key_of(2)),  # by way of 1/2, by way of 1/4: to 3/4, to 1/2
            (1, 0, key_of(1)),  # another publication: nothing is shared with it
        )
    )
    assert hops.messages == 6
    assert hops.alone == 0 + 1 + 1 + 2 + 2 + 1
    assert hops.shared == len({(0, 1), (0, 2), (2, 3), (1, 2)}) + 1  # 0 to 1/4 carries three of the keys
    assert hops.direct == 3 + 1


def test_publications_enter_at_their_publishers_and_rows_at_their_keys_owner():
    index = Messages(-1, np.array([1, 0]), None, np.array([key_of(1), key_of(2)], np.uint64), np.ones(2, np.int64))
    assert senders(RING, index, np.array([3, 2])).tolist() == [2, 3]
    assert senders(RING, messages((0, 2, key_of(1)), (1, 0, key_of(1))), np.array([3, 2])).tolist() == [2, 0]


def test_a_cache_of_identifiers_knows_only_former_receivers_and_shares_a_transfer():
    traffic = Traffic(RING, 3)
    far, other = key_of(3), key_of(3, 5)  # 2 hops: one peer is asked, so request, reply and message
    traffic.take(messages((0, 1, far), (0, 1, other), (0, 1, key_of(1))))
    assert traffic.messages.tolist() == [2, 0, 0]
    lookup = int(traffic.hops[NO_CACHE][0]) // 2
    assert lookup == 3
    assert traffic.hops[IDENTIFIERS][0] == 2 * lookup  # both are new
    assert traffic.hops[STRETCHES][0] == lookup + 1  # the first taught the second
    traffic.take(messages((1, 1, far), (1, 1, other)))
    for kind, hops in ((NO_CACHE, 2 * lookup), (IDENTIFIERS, 1), (STRETCHES, 1)):
        assert traffic.hops[kind][1] == hops, kind
    traffic.take(messages((2, 1, far)))
    traffic.take(messages((2, 1, far)))  # at the next step: messages that go at once do not wait for it
    assert traffic.hops[IDENTIFIERS][2] == traffic.hops[STRETCHES][2] == 2
    assert traffic.cache_sizes()[IDENTIFIERS].tolist() == [2]


@pytest.mark.parametrize("source", [0, 1])
def test_the_publishers_own_cache_is_left_out_of_the_sizes(source):
    traffic = Traffic(RING, 1)
    traffic.take(messages((0, source, key_of(3))))
    assert len(traffic.cache_sizes()[IDENTIFIERS]) == source
