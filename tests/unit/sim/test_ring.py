"""The ring's closest peers are those of a full sort by XOR."""

from __future__ import annotations

import random

import pytest

from p2prdf.sim.ring import Ring
from p2prdf.wire.messages import Contact


def _contacts(rng: random.Random, count: int, bits: int) -> list[Contact]:
    positions = rng.sample(range(1 << bits), count)
    return [Contact(position << (64 - bits), f"peer-{at}", 1) for at, position in enumerate(positions)]


@pytest.mark.parametrize("count", [1, 2, 7, 60])
def test_closest_agrees_with_a_full_sort(count: int):
    rng = random.Random(count)
    contacts = _contacts(rng, count, 8)
    ring = Ring(contacts)
    for _ in range(200):
        key, wanted = rng.getrandbits(64), rng.randint(1, count + 2)
        expected = sorted(contacts, key=lambda contact: contact.key ^ key)[:wanted]
        assert list(ring.closest(key, wanted)) == expected
        assert ring.owner(key) == expected[0]


def test_two_peers_at_one_position_are_a_mistake():
    with pytest.raises(AssertionError, match="one ring position"):
        Ring([Contact(1, "a", 1), Contact(1, "b", 1)])
