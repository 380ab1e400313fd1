"""The cost of rules: evaluated at the coordinator of each query that has them, or left in the network for all.

Sixteen simulated peers of the daemon's own code, three copies of everything.  Trees of ``in``, the rule that it
is transitive, and queries for the members of one tree each, subscribed before anything is published.  Then
trees are published, and some of their branches removed.  Time is the peers' CPU, the simulator's not counted.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from random import Random

from rich.console import Console
from rich.table import Table

from p2prdf.peer import PeerConfig
from p2prdf.rdf.query import Algorithm
from p2prdf.rdf.standing.insertion import parse_insertion
from p2prdf.rdf.standing.query import parse_query
from p2prdf.reasoning import parse_rules
from p2prdf.reasoning.insertions import insertions
from p2prdf.reasoning.ruled_query import rule_forms
from p2prdf.sim.world import WorldOptions
from schedules.failures.clients import Publisher, SubscriberClient
from schedules.failures.options import Failures
from schedules.failures.subscriber import ResumingSubscriber
from schedules.failures.world import FailingWorld

IN = "<urn:in>"
GRAPH = "<urn:all>"
RULES = parse_rules("?x <urn:in> ?z :- ?x <urn:in> ?y , ?y <urn:in> ?z .")
DEPTH = 5
BATCH = 20


@dataclass
class Done:
    """The cost of a run, and its notifications."""

    published: int
    messages: int
    seconds: float
    busiest: float
    seconds_removed: float
    told: list[set[tuple[str, ...]]]


class _Measured(FailingWorld):
    """A world that measures the CPU time of each peer."""

    def __init__(self, options: WorldOptions, failures: Failures):
        self.spent: Counter[int] = Counter()
        super().__init__(options, failures)

    def _wake(self, node) -> None:  # type: ignore[no-untyped-def]
        began = time.process_time()
        super()._wake(node)
        self.spent[node.index] += time.process_time() - began

    def _receive(self, node, envelope, sender) -> None:  # type: ignore[no-untyped-def]
        began = time.process_time()
        super()._receive(node, envelope, sender)
        self.spent[node.index] += time.process_time() - began


def _trees(count: int) -> list[tuple[str, str, str]]:
    """Return edges of binary trees, from the leaves up."""
    below = range(2 ** (DEPTH + 1) - 1, 1, -1)
    return [(f"<urn:t{tree}n{at}>", IN, f"<urn:t{tree}n{at // 2}>") for tree in range(count) for at in below]


def _run(trees: int, queries: int, *, in_network: bool) -> Done:
    config = PeerConfig(hot_keys=False, replicas=3, copies_min=2)
    world = _Measured(WorldOptions(peers=16, seed=5, config=config), Failures(publisher_crash_probability=0.0))
    world.run_for(5.0)

    def left(query: object) -> ResumingSubscriber:
        record = ResumingSubscriber("", query, Algorithm.CSBV, False, 86_400.0, "", True)  # type: ignore[arg-type]
        SubscriberClient(world, record, Random(1)).connect()
        return record

    if in_network:
        for text in insertions(RULES, GRAPH):
            left(parse_insertion(text))
    records = []
    for number in range(queries):
        pattern = f"?x {IN} <urn:t{number % trees}n1>"
        text = f"SELECT ?x {{ {f'GRAPH {GRAPH} {{ {pattern} }}' if in_network else pattern} }}"
        standing = parse_query(text, rules=() if in_network else rule_forms(RULES))
        records.append(left(standing.conjunctive or standing))
    world.run_for(5.0)
    assert all(record.since is not None for record in records)
    publisher, edges = Publisher(world, "publisher", Random(2)), _trees(trees)
    world.spent.clear()
    before = world.counts.hops
    for at in range(0, len(edges), BATCH):
        publisher.publish(0.0, edges[at : at + BATCH])
        world.run_for(0.1)
    world.run_for(10.0)
    seconds, busiest, messages = sum(world.spent.values()), max(world.spent.values()), world.counts.hops - before
    world.spent.clear()
    publisher.publish(0.0, [edge for edge in edges if edge[0].endswith("n2>")], removed=True)
    world.run_for(30.0)
    told = [set(record.bag) for record in records]
    return Done(len(edges), messages, seconds, busiest, sum(world.spent.values()), told)


def run(console: Console, quick: bool) -> bool:
    """Print the cost of both ways; return whether their notifications are equal."""
    table = Table(title=f"rules: binary trees of depth {DEPTH}, 16 peers, three copies; CPU seconds")
    for column in ("triples", "queries", "where", "messages", "all peers", "busiest", "removing", "answers"):
        table.add_column(column, justify="right")
    good = True
    for trees, queries in ((4, 1), (4, 4)) if quick else ((8, 1), (8, 16), (8, 128), (32, 128)):
        done = {where: _run(trees, queries, in_network=where == "network") for where in ("home", "network")}
        good &= done["home"].told == done["network"].told
        for where, each in done.items():
            table.add_row(
                f"{each.published:,}", f"{queries}", where, f"{each.messages:,}", f"{each.seconds:.2f}",
                f"{each.busiest:.2f}", f"{each.seconds_removed:.2f}", f"{sum(map(len, each.told)):,}",
            )  # fmt: skip
    console.print(table)
    console.print(f"both told {'the same' if good else 'something else'}")
    return good
