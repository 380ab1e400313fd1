"""A hundred standing queries over a benchmark's data, followed from the first triple to the last bookmark."""

from __future__ import annotations

import asyncio
from collections import Counter

import pyoxigraph as ox
import real_data
from reads import lubm

import p2prdf
from p2prdf.wire.messages import WITHDRAWN

__all__ = ["PER_EVENT", "Follower", "choose_queries", "expected"]

ANSWERS_MAX = 20_000
PER_EVENT = tuple(
    f"PREFIX ub: <http://swat.cse.lehigh.edu/onto/univ-bench.owl#> SELECT ?x ?y WHERE {{ ?x ub:{name} ?y }}"
    for name in ("headOf", "subOrganizationOf", "doctoralDegreeFrom")
)
"""Queries asked per publication event, too: each triple is published once, despite all repetitions."""


def choose_queries(store: ox.Store, triples: list[tuple[str, str, str]], count: int) -> list[str]:
    """Return the benchmark's queries with few enough answers, and drawn ones: 1 to 4 patterns."""
    walker, chosen = real_data.Walker(triples, seed=3), []
    candidates = list(lubm.queries().values())
    while len(chosen) < count:
        query = candidates.pop(0) if candidates else walker.draw()
        if query in chosen:
            continue
        found = _count(store, query)
        if found <= (ANSWERS_MAX if len(chosen) < 14 else real_data.ANSWERS_MAX) and (found or len(chosen) < 14):
            chosen.append(query)
    return chosen


def _count(store: ox.Store, query: str) -> int:
    found = 0
    for _ in store.query(query):
        found += 1
        if found > ANSWERS_MAX:
            break
    return found


def expected(store: ox.Store, query: str) -> Counter[tuple[str | None, ...]]:
    """Return the bag of answers of an independent engine."""
    found = store.query(query)
    names = [each.value for each in found.variables]
    return Counter(tuple(None if row[n] is None else str(row[n]) for n in names) for row in found)


class Follower:
    """One subscription: its solutions, and the number of answers that came twice."""

    def __init__(self, query: str, *, per_event: bool):
        self.query = query
        self.per_event = per_event
        self.held: dict[int, tuple[str | None, ...]] = {}
        self.doubled = 0
        self.bookmark = 0.0
        self._names: tuple[str, ...] = ()

    async def run(self, client: p2prdf.Client, live: asyncio.Event) -> None:
        """Follow until cancelled."""
        subscription = await client.subscribe(
            self.query, per_event=self.per_event, bookmarks=True, lease_seconds=600, busy_seconds=300
        )
        live.set()
        async for batch in subscription.batches():
            self._names = batch.names
            rows = zip(*batch.columns, strict=True) if batch.columns else [()] * len(batch)
            for identity, removed, row in zip(batch.identities, batch.removed, rows, strict=True):
                if removed:
                    self.held.pop(identity ^ WITHDRAWN, None)
                elif identity in self.held:
                    self.doubled += 1
                else:
                    self.held[identity] = tuple(text or None for text in row)
            if batch.bookmark is not None:
                self.bookmark = batch.bookmark

    def wrong(self, store: ox.Store) -> str:
        """Describe the errors of its solutions, "" if there are none."""
        wanted, got = expected(store, self.query), Counter(self.held.values())
        if got == wanted and not self.doubled:
            return ""
        missing, extra = wanted - got, got - wanted
        return (
            f"{self.query}: {missing.total()} missing, {extra.total()} too many, {self.doubled} doubled;"
            f" {list(missing)[:2]} {list(extra)[:2]}"
        )
