"""Values replaced in turn: the held validity intervals follow the distinct triples, not the history."""

from __future__ import annotations

import pytest
from reads.peers import Peers

from p2prdf.sim.world import Node
from p2prdf.wire import contract
from p2prdf.wire.messages import IndexTriples

VALUES = 5
QUERY = "SELECT ?t ?h { ?s <urn:temp> ?t ; <urn:hum> ?h }"
NAMES = "temp", "hum"


class Sensor:
    """A subject with two properties that take a few values in turn, and a subscriber to both."""

    def __init__(self, tables: str = "lists", seed: int = 1):
        self.peers = Peers("kademlia", tables=tables, seed=seed, forgets=True)
        self.world = self.peers.world
        self.client = self.peers.subscribe(QUERY)
        self.number = 0
        self.old: list[tuple[str, str, str]] = []

    def replace(self, count: int) -> None:
        for _ in range(count):
            if self.old:
                self.peers.publish(self.old, removed=True)
            self.number += 1
            self.old = [("<urn:s>", f"<urn:{name}>", f'"{self.number % VALUES}"') for name in NAMES]
            self.peers.publish(self.old)

    def rest(self) -> None:
        self.peers.until_told([self.client])
        self.world.run_for(6.0)
        value = f'"{self.number % VALUES}"'
        assert self.client.record.bag == {(value, value): 1}
        assert not self.client.record.complaints

    def sizes(self) -> tuple[int, int, int]:
        """Return the validity intervals and index entries of all peers, and the triples of their snapshots."""
        told = [node.peer._tables.sizes() for node in self.world.living()]
        kept = [message for node in self.world.living() for message in node.peer.snapshot()]
        return (
            sum(each.triples for each in told), sum(each.triple_roles for each in told),
            sum(len(each.s) for each in kept if isinstance(each, IndexTriples)),
        )  # fmt: skip


class Administrator:
    """Expects success."""

    def completed(self, node: Node, _: int, outcome: contract.Outcome) -> None:
        assert isinstance(outcome, contract.Expelled), node

    def cut_off(self, node: Node) -> None:
        raise AssertionError(f"{node} was lost")


def forgotten(nodes: list[Node]) -> int:
    return sum(int(node.peer.status()["intervals_forgotten"]) for node in nodes)


@pytest.mark.parametrize("tables", ["lists", "arrays"])
def test_what_is_held_and_kept_is_the_same_after_any_number_of_replacements(tables):
    sizes = []
    sensor = Sensor(tables)
    for count in (20, 40, 80):
        sensor.replace(count)
        sensor.rest()
        sizes.append(sensor.sizes())
        assert not any(node.peer._tables.superseded for node in sensor.world.nodes)
    assert sizes == sizes[:1] * 3
    triples, entries, kept = sizes[0]
    distinct = 2 * VALUES
    valid = 2
    assert entries == 3 * 8 * (distinct + valid), "three copies under each of eight indexes, and the ends before"
    assert triples <= 7 * (distinct + valid)
    assert kept <= 2 * triples, "the deletion before an interval, and its own publication or end"


def test_a_lost_member_stops_it_and_its_return_brings_nothing_back():
    """It returns with values that were replaced while it was away."""
    sensor = Sensor()
    world = sensor.world
    sensor.replace(3 * VALUES)
    sensor.rest()
    for away in world.nodes[:3]:
        world.crash(away)
        world.run_for(5.0)
        sensor.replace(2 * VALUES)  # each value's last interval from before the crash is still forgotten
        sensor.rest()
        before, held = forgotten(world.living()), sensor.sizes()[0]
        sensor.replace(VALUES + 1)
        sensor.rest()
        assert forgotten(world.living()) == before, "the absent member does not know these deletions"
        assert sensor.sizes()[0] > held
        world.restart(away)
        world.run_for(10.0)
        sensor.rest()
        assert not any(node.peer._tables.superseded for node in world.nodes)
        assert forgotten(world.living()) > before
        value = f'"{sensor.number % VALUES}"'
        assert sensor.peers.read(QUERY)[0] == {(value, value): 1}


def test_an_expelled_member_is_not_waited_for():
    sensor = Sensor()
    world = sensor.world
    sensor.replace(VALUES + 1)
    world.crash(world.nodes[0])
    world.run_for(30.0)
    sensor.replace(2 * VALUES)
    sensor.rest()
    before = forgotten(world.living())
    sensor.replace(2 * VALUES)
    sensor.rest()
    assert forgotten(world.living()) == before
    gone = world.nodes[0].contact.key
    for node in world.living():
        world.request(node, lambda number: contract.Expel(number, gone, expelled=True), Administrator())
    sensor.replace(1)
    sensor.rest()
    world.run_for(10.0)
    assert forgotten(world.living()) > before
    assert not any(node.peer._tables.superseded for node in world.living())
