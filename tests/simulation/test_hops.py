"""The gain of the address cache: hops per triple with and without it, at 200 peers."""

from __future__ import annotations

import pytest

from p2prdf.peer import PeerConfig
from p2prdf.sim.world import World, WorldOptions


def _hops_per_triple(overlay: str, *, address_cache: bool) -> float:
    """Publish one triple at a time from one peer and count all transfers of the second half."""
    config = PeerConfig(indexes="csbv", address_cache=address_cache)
    world = World(WorldOptions(peers=200, seed=1, config=config, overlay=overlay))
    triples = [(f"<urn:s{at}>", f"<urn:p{at % 7}>", f'"{at}"') for at in range(200)]
    for triple in triples[:100]:
        world.publish(0.0, 17, [triple])
    world.run_until_quiet()
    before = world.counts.hops_without_replies
    for triple in triples[100:]:
        world.publish(0.0, 17, [triple])
        world.run_until_quiet()
    return (world.counts.hops_without_replies - before) / 100


@pytest.mark.parametrize(("overlay", "saved"), [("kademlia", 10), ("chord", 4)])
def test_a_warm_address_cache_saves_most_of_the_hops(overlay: str, saved: int):
    """Nine in ten where a lookup asks a whole neighbourhood, three in four where it follows fingers."""
    warm = _hops_per_triple(overlay, address_cache=True)
    without = _hops_per_triple(overlay, address_cache=False)
    assert warm <= 7.5  # seven keys, hardly ever one owner for two of them
    assert without >= saved * warm
