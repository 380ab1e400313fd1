"""The gain of the address cache: hops per triple in a simulated overlay, with and without it.

The node code is the daemon's; the network is virtual.  One hop is one transfer between two peers. Every triple
goes under all seven keys (the reference mode), one triple per publication, from ten of the peers, with standing
path queries and their travelling partial results.  Both runs see the same triples; the first ones are training and
not counted.  Without the cache each key is looked up each time, by a rolling lookup (buckets of 20, as the
daemon's) over the routing tables, then sent directly.
"""

from __future__ import annotations

import random

from rich.console import Console
from rich.table import Table

from p2prdf.peer import PeerConfig
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.sim.world import World, WorldOptions
from p2prdf_lab.workloads.paths import PathSchema, path_queries, path_triples

PEERS = 200
PUBLISHERS = 10
BUCKET = 20
BAR = 10.0


def run(console: Console, quick: bool) -> bool:
    """Print hops per triple; return whether the bar is met."""
    training, measured = (150, 50) if quick else (1200, 200)
    table = Table(title=f"hops per triple, {PEERS} peers, all seven keys, 50 standing 3-pattern paths")
    for column in ("address cache", "hops/triple", "without replies", "data", "lookup requests", "cache entries/peer"):
        table.add_column(column, justify="right")
    warm = _measure(training, measured, cache=True)
    cold = _measure(training, measured, cache=False)
    for name, figures in (("warm", warm), ("off", cold)):
        table.add_row(name, *(f"{figure:,.1f}" for figure in figures))
    console.print(table)
    ratio, plain = cold[0] / warm[0], cold[1] / warm[1]
    console.print(
        f"bar: {ratio:.1f} times fewer hops with the cache, {plain:.1f} times without counting replies "
        f"(at least {BAR:.0f})"
    )
    return ratio >= BAR and plain >= BAR


def _measure(training: int, measured: int, *, cache: bool) -> tuple[float, ...]:
    """Return hops, hops without replies, data transfers and lookup requests per triple, and cache entries."""
    schema = PathSchema(levels=3, branch=2, instances=20, values=20, domains=2)
    dictionary = TermDictionary()
    columns = path_triples(dictionary, training + measured, schema=schema, seed=3)
    triples = list(zip(*(dictionary.texts(column.tolist()) for column in columns), strict=True))
    world = World(WorldOptions(peers=PEERS, seed=1, bucket=BUCKET, config=PeerConfig(address_cache=cache)))
    rng = random.Random(5)
    for query in path_queries(50, schema=schema, length=3, seed=4):
        world.subscribe(rng.random(), rng.randrange(PEERS), query)
    world.run_until_quiet()

    def publish(some: list[tuple[str, str, str]]) -> None:
        for number, triple in enumerate(some):
            world.publish(number * 0.05, rng.randrange(PUBLISHERS), [triple])
        world.run_until_quiet()

    publish(triples[:training])
    before = world.counts.as_dict()
    publish(triples[training:])
    after = world.counts.as_dict()
    names = ("hops", "hops_without_replies", "data_transfers", "lookup_requests")
    per_triple = [(after[name] - before[name]) / measured for name in names]  # type: ignore[operator]
    entries = sum(int(node.peer.status()["address_cache_size"]) for node in world.nodes) / PEERS  # type: ignore[call-overload]
    return (*per_triple, entries)
