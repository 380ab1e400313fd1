"""Random queries of the whole algebra with settled delivery, through real nodes, judged by another engine at marks."""

from __future__ import annotations

import random
from collections import Counter

from algebra.compare import Engine, same_values
from algebra.queries import GRAPHS, NODES, QueryWriter, draw_statements, for_engine, for_us

from p2prdf import hlc
from p2prdf.errors import QueryRefused

__all__ = ["Followed", "played"]

STEPS = 4


class Followed:
    """A settled subscription and the rows it holds."""

    def __init__(self, drawn, subscription):
        self.drawn = drawn
        self.names = subscription.names
        self.held = {}
        self._batches = subscription.batches()

    async def until(self, stamp):
        """Take batches up to a mark at or after a stamp."""
        async for batch in self._batches:
            for row in batch:
                if row.removed:
                    del self.held[row.identity]
                else:
                    self.held[row.identity] = row.terms
            if batch.bookmark is not None and batch.bookmark >= hlc.seconds(stamp):
                return

    def difference(self, engine):
        """Return the rows that this subscription has more or less often than the engine."""
        names, expected = engine.solutions(for_engine(self.drawn))
        order = [names.index(name) if name in names else -1 for name in self.names]
        laid_out = Counter()
        for row, count in expected.items():
            laid_out[tuple(row[at] if at >= 0 else None for at in order)] += count
        more = same_values(Counter(self.held.values()))
        more.subtract(same_values(laid_out))
        return [(row, count) for row, count in more.items() if count]


async def played(client, seed, count):
    """Follow ``count`` random queries while transactions change the graphs; return the differences, and a count."""
    rng, engine, differ, compared = random.Random(seed), Engine(None), [], 0
    pool = draw_statements(rng, 28)
    present = {(node, "<urn:always>", node, graph) for node in NODES for graph in GRAPHS}
    always = set(present)
    engine.change((), sorted(always))
    await _transact(client, (), always)
    followed = []
    while len(followed) < count:
        drawn = QueryWriter(rng).query()
        try:
            followed.append(Followed(drawn, await client.subscribe(for_us(drawn), settled=True)))
        except QueryRefused:
            continue
    for _ in range(STEPS):
        gone = {each for each in sorted(present - always) if rng.random() < rng.choice((0.1, 0.3))}
        come = {each for each in pool if each not in present and rng.random() < 0.4}
        present = (present - gone) | come
        engine.change(gone, come)
        stamp = await _transact(client, gone, come)
        for each in list(followed):
            await each.until(stamp)
            compared += 1
            if found := each.difference(engine):
                differ.append(f"seed {seed}: {for_us(each.drawn)}\n  {found[:3]}")
                followed.remove(each)
    return differ, compared


async def _transact(client, gone, come):
    async with client.transaction() as transaction:
        for graph in GRAPHS:
            transaction.retract([each[:3] for each in sorted(gone) if each[3] == graph], graph=graph or None)
            transaction.publish([each[:3] for each in sorted(come) if each[3] == graph], graph=graph or None)
    return transaction.stamp
