"""The ring's closest peers are those of a full sort by the overlay's metric."""

from __future__ import annotations

import random

import pytest

from p2prdf.sim.ring import Ring
from p2prdf.wire.messages import Contact


def _contacts(rng: random.Random, count: int, bits: int) -> list[Contact]:
    positions = rng.sample(range(1 << bits), count)
    return [Contact(position << (64 - bits), f"peer-{at}", 1) for at, position in enumerate(positions)]


DISTANCE = {
    "kademlia": lambda key, position: key ^ position,
    "chord": lambda key, position: (position - key) % (1 << 64),
}


@pytest.mark.parametrize("overlay", sorted(DISTANCE))
@pytest.mark.parametrize("count", [1, 2, 7, 60])
def test_closest_agrees_with_a_full_sort(count: int, overlay: str):
    rng = random.Random(count)
    contacts = _contacts(rng, count, 8)
    ring = Ring(contacts, overlay)
    assert len(ring) == count
    assert list(ring) == sorted(contacts, key=lambda contact: contact.key)
    for _ in range(200):
        key, wanted = rng.getrandbits(64), rng.randint(1, count + 2)
        expected = sorted(contacts, key=lambda contact: DISTANCE[overlay](key, contact.key))[:wanted]
        assert list(ring.closest(key, wanted)) == expected
        assert ring.owner(key) == expected[0]
        assert ring.before(key) == min(contacts, key=lambda contact: (key - 1 - contact.key) % (1 << 64))


def test_two_peers_at_one_position_are_a_mistake():
    with pytest.raises(AssertionError, match="one ring position"):
        Ring([Contact(1, "a", 1), Contact(1, "b", 1)])
