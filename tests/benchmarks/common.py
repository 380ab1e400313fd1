"""Shared parts of the benchmarks: calibration, tables, the seed's workload in a peer's tables."""

from __future__ import annotations

import gc
import random
import time
from dataclasses import dataclass

import numpy as np

from p2prdf import keys
from p2prdf.rdf.compiled import compile_filter
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.rdf.query import Algorithm, ConjunctiveQuery, Plan, make_plan
from p2prdf.store.backlog import Backlog
from p2prdf.store.columnar import ColumnarTables
from p2prdf.store.light import LightTables
from p2prdf.store.tables import Derived, Tables
from p2prdf.wire.messages import Groups
from p2prdf_lab.workloads.paths import path_queries, path_triples

RAREST_FIRST = (4, 3, 2, 1, 0)
"""The planner's order for the seed's paths: from the literal end."""

PREDICATE_OBJECT = 1 << (keys.P | keys.O)
"""The one index these queries wait on, as a set of indexes."""


def calibrate() -> float:
    """Return cold dictionary look-ups per CPU second, in millions: this machine's present speed."""
    held = {number * 7919: number for number in range(1_000_000)}
    wanted = list(held)
    random.Random(1).shuffle(wanted)
    wanted = wanted[:200_000]
    best = 1e9
    for _ in range(3):
        start = time.process_time()
        for key in wanted:
            held.get(key)
        best = min(best, time.process_time() - start)
    return len(wanted) / best / 1e6


def settle() -> None:
    """Apply the daemon's garbage-collector policy to the objects loaded so far."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)


@dataclass
class Loaded:
    """A peer's tables with the seed's path queries waiting in them, and a stream of triples."""

    tables: Tables
    dictionary: TermDictionary
    plan: Plan
    queries: list[ConjunctiveQuery]
    stream: tuple[np.ndarray, np.ndarray, np.ndarray]
    seconds_to_register: float


def load(kind: str, queries: int, triples: int) -> Loaded:
    """Fill tables of ``kind`` (light or columnar)."""
    dictionary = TermDictionary()
    made = LightTables if kind == "light" else ColumnarTables
    tables: Tables = made(dictionary, compile_filter)
    stream = path_triples(dictionary, triples, seed=2)
    standing = path_queries(queries, seed=1)
    plan = make_plan(standing[0], RAREST_FIRST, Algorithm.CSBV)
    make = tables.columns
    params = [
        make.column(dictionary.intern_all(query.constants[at] for query in standing), "uint32")
        for at in range(plan.constant_count)
    ]
    ids = make.column([int(keys.text_key(repr(query.constants))) for query in standing])
    ones = make.full(queries, 1)
    gc.collect()
    start = time.process_time()
    group = tables.add_groups(plan, Groups(ids, ones, ones, make.full(queries, 1 << 63), tuple(params)))
    tables.add_queries(plan, 0, group, 0)
    seconds = time.process_time() - start
    settle()
    return Loaded(tables, dictionary, plan, standing, stream, seconds)


@dataclass
class Fed:
    """The results of a stream: CPU seconds, answers, partial results."""

    seconds: float
    answers: int
    rows: int
    distinct: set[tuple[int, int]]


def feed(loaded: Loaded, batch: int, *, keep: bool = False) -> Fed:
    """Send the stream through the matching path in batches, following every derived row to its end.

    ``keep``: hold on to the distinct answers (group and binding), to compare them.
    """
    tables, last = loaded.tables, len(loaded.plan.steps)
    make = tables.columns
    count = len(loaded.stream[0])
    s, p, o = (make.adopt(column, "uint32") for column in loaded.stream)
    event = make.column(range(count))
    times, roles = make.full(batch, 10), make.full(batch, PREDICATE_OBJECT, "uint32")
    fed = Fed(0.0, 0, 0, set())
    backlog = Backlog(make)

    def follow(derived: list[Derived]) -> None:
        while True:
            for rows in derived:
                if rows.step == last:
                    fed.answers += len(rows)
                    if keep:
                        fed.distinct.update(zip(rows.group.tolist(), rows.bindings[0].tolist(), strict=True))
                else:
                    fed.rows += len(rows)
                    backlog.add(rows)
            if not backlog:
                return
            derived = tables.add_rows(backlog.take())

    start = time.process_time()
    if batch == 1 and isinstance(tables, LightTables):
        for subject, predicate, object_, number in zip(s, p, o, event, strict=True):
            todo = tables.add_triple(subject, predicate, object_, 10, number, PREDICATE_OBJECT)
            while todo:
                rows = todo.pop()
                if rows.step == last:
                    fed.answers += len(rows)
                else:
                    fed.rows += len(rows)
                    todo += tables.add_rows(rows)
    else:
        for first in range(0, count, batch):
            stop = min(first + batch, count)
            size = stop - first
            follow(
                tables.add_triples(
                    s[first:stop], p[first:stop], o[first:stop], times[:size], event[first:stop], roles[:size]
                )
            )
    fed.seconds = time.process_time() - start
    return fed
