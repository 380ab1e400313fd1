"""The destinations of a few triples, found by a loop, are those of the vectorised spread."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from p2prdf import keys
from p2prdf.columns import ARRAYS, as_list
from p2prdf.peer import Peer, PeerConfig
from p2prdf.peer.joins.spread import Spread
from p2prdf.peer.network.batches import TripleBatch, roles_by_owner, rows_with, union
from p2prdf.peer.network.placement import NOBODY
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.wire import contract
from p2prdf.wire.messages import Contact

ROLES = (*(1 << role for role in range(8)), *(1 << (role + keys.EVENT_SHIFT) for role in range(8)))


def _peer(drawn: Random, overlay: str) -> tuple[Peer, TermDictionary]:
    dictionary = TermDictionary()
    contacts = [Contact(drawn.getrandbits(64), "peer", port + 1) for port in range(drawn.randint(1, 6))]
    own = contacts[0]
    config = PeerConfig(replicas=3, copies_min=1, overlay=overlay)
    peer = Peer(own, config, dictionary, ARRAYS, drawn)
    for each in contacts:
        peer.submit(contract.ContactSeen(each, drawn.choice(["", "a", "b"])), now=1.0)
    near = tuple(sorted(contacts, key=lambda each: each.key ^ own.key))
    peer.submit(contract.OwnersFound(own.key, near, complete=True), now=1.0)
    return peer, dictionary


def _batch(drawn: Random, dictionary: TermDictionary, count: int) -> TripleBatch:
    def terms() -> Any:
        return ARRAYS.column(dictionary.intern_all([f"<t{drawn.randrange(9)}>" for _ in range(count)]), "uint32")

    roles = [sum(drawn.sample(ROLES, drawn.randint(1, 16))) for _ in range(count)]
    empty = ARRAYS.full(count, 0)
    return TripleBatch(terms(), terms(), terms(), empty, empty, ARRAYS.column(roles, "uint32"))


def _by_index(spread: Spread, batch: TripleBatch, hashes: keys.U64, *, arrived: bool) -> list[tuple[int, list[int]]]:
    """Return the indexes of each triple by contact, one index after the other, as for a large batch."""
    places: list[Any] = []
    met = union(batch.roles)
    for role in range(8):
        bits = met & (1 << role | 1 << (role + keys.EVENT_SHIFT))
        if not bits:
            continue
        index = rows_with(batch.roles, bits)
        at = np.arange(len(batch)) if index is None else index
        columns = [np.asarray(column)[at] for column in (batch.s, batch.p, batch.o)]
        hashed = [hashes[column] for column in columns]
        if role == keys.ANY:
            buckets = keys.triple_ids(*hashed) % np.uint64(keys.BUCKETS)
            ring = np.array([keys.BUCKET_KEYS[each] for each in buckets.tolist()], np.uint64)
        else:
            ring = keys.role_keys(role, *hashed)
        some = TripleBatch(*columns, *(np.asarray(column)[at] for column in (batch.time, batch.event, batch.roles)))
        _, found = spread.spread(role, some, ring, arrived=arrived)
        places += [(bits, index, owners, marks) for owners, marks in found]
    found = roles_by_owner(len(batch), places, batch.roles)
    return [(owner, as_list(roles)) for owner, roles in found if owner != NOBODY]


@pytest.mark.parametrize("overlay", ["kademlia", "chord"])
@pytest.mark.parametrize("seed", range(40))
def test_a_loop_over_a_few_triples_finds_the_destinations_of_the_vectorised_spread(overlay: str, seed: int) -> None:
    drawn = Random(seed)
    peer, dictionary = _peer(drawn, overlay)
    spread = peer._engine.hot
    for count in range(1, 9):
        batch = _batch(drawn, dictionary, count)
        hashes = dictionary.hash_array()
        for arrived in (False, True):
            few = spread.few(batch, hashes, arrived=arrived)
            assert few == _by_index(spread, batch, hashes, arrived=arrived)


def test_a_large_batch_and_an_unknown_ring_are_not_for_the_loop() -> None:
    drawn = Random(1)
    peer, dictionary = _peer(drawn, "kademlia")
    batch = _batch(drawn, dictionary, 9)
    assert peer._engine.hot.few(batch, dictionary.hash_array(), arrived=False) is None
    lonely = Peer(Contact(1, "peer", 1), PeerConfig(replicas=3, copies_min=1), dictionary, ARRAYS, drawn)
    batch = _batch(drawn, dictionary, 1)
    assert lonely._engine.hot.few(batch, dictionary.hash_array(), arrived=False) is None
