"""Queries that have ended leave no plan, group, row or record at any peer.

Collections are counted, not bytes.  Terms are kept: a node forgets none of them.
"""

from __future__ import annotations

from collections import Counter

import pytest
from kept_objects import entries, grown
from reads.peers import Peers

INTEGER = "<http://www.w3.org/2001/XMLSchema#integer>"
CYCLES = 50
FORMS = {
    "two patterns and a filter": "SELECT ?s ?o ?t WHERE {{ ?s <urn:p> ?o . ?s <urn:q> ?t FILTER(?o > {0}) }}",
    "an optional pattern": "SELECT ?s ?o ?t WHERE {{ ?s <urn:p> ?o OPTIONAL {{ ?s <urn:q> ?t }} FILTER(?o > {0}) }}",
    "a constant": "SELECT ?s WHERE {{ ?s <urn:p> {0} }}",
}
REMEMBERED = ("._tables._ended", "ends._stamps", "ends._serials[]", "ends._names", "ends._subscriptions")
"""The identities of ended groups and subscriptions."""
ENDS = ("_anti_entropy._held",)
"""Digests, of which the ends are a part."""


def held(peers: Peers) -> list[Counter[str]]:
    """Return how many entries each peer has, by path."""
    world = peers.world
    return [entries(node.peer, without=[world, node.dictionary]) for node in world.nodes]


@pytest.mark.parametrize("tables", ["lists", "arrays"])
@pytest.mark.parametrize("form", FORMS)
def test_as_much_is_held_after_fifty_one_time_queries_as_before(form, tables):
    peers = Peers("kademlia", tables=tables)
    values = [(f"<urn:s{at}>", "<urn:p>", f'"{at}"^^{INTEGER}') for at in range(20)]
    peers.publish([*values, *((f"<urn:s{at}>", "<urn:q>", f"<urn:t{at}>") for at in range(20))])

    def ask(first: int, count: int) -> None:
        for number in range(first, first + count):
            peers.read(FORMS[form].format(number))
        peers.world.run_for(peers.world.options.config.group_lease_seconds * 2)

    ask(0, 5)
    before = held(peers)
    ask(5, CYCLES)
    for old, new in zip(before, held(peers), strict=True):
        more = {
            path: count
            for path, count in grown(old, new).items()
            if not path.endswith(REMEMBERED) and not any(each in path for each in ENDS)
        }
        assert sum(more.values()) <= CYCLES // 5, more
    for node in peers.world.nodes:
        status = node.peer.status()
        assert (status["plans"], status["groups"], status["rows"]) == (0, 0, 0)
