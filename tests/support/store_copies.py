"""Copies of everything at random: random publications and subscriptions, and copies that join only part of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

from hypothesis import strategies as st
from store_tables import BOTH_KINDS, brute_force, canonical, new_tables

from p2prdf import keys
from p2prdf.columns import as_list
from p2prdf.hlc import GONE
from p2prdf.rdf.query import Algorithm, make_plan
from p2prdf.store.backlog import Backlog
from p2prdf.store.tables import Derived
from p2prdf.wire.messages import Groups

__all__ = ["Copy", "check", "play", "scripts"]

slots = st.one_of(st.integers(0, 2), st.integers(0, 2).map(lambda constant: ~constant))
patterns = st.lists(st.tuples(slots, slots, slots), min_size=1, max_size=3)
triples = st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 4))
steps = st.one_of(
    st.tuples(st.just("publish"), st.lists(triples, min_size=1, max_size=4), st.just(0)),
    st.tuples(st.sampled_from(("publish", "remove")), st.lists(triples, min_size=1, max_size=4), st.integers(0, 3)),
    st.tuples(st.just("query"), patterns, st.booleans(), st.booleans(), st.sampled_from(list(Algorithm))),
    st.tuples(st.just("subscribe"), st.integers(0, 3)),
)
scripts = st.lists(steps, min_size=1, max_size=8)
"""Scripts of steps; the last part of a publication or removal is its delay in steps."""


class Copy:
    """One copy of everything; ``probe``: share of items joined on arrival; ``split``: send indexes in two messages."""

    def __init__(self, kind: str, chance: Random, *, probe: float | None, split: bool):
        self.tables, self.dictionary = new_tables(kind)
        self.chance, self.probe, self.split = chance, probe, split
        self.answers: dict[tuple[int, int], tuple[int, tuple[int, ...]]] = {}
        """By plan and identity: the latest ``oldest``, and the binding."""
        self.ended: set[int] = set()

    def publish(self, triples, time: int, first_event: int) -> None:
        """Take in publications, or with a time from GONE on removals, their indexes perhaps in two messages."""
        first = self.chance.randrange(BOTH_KINDS + 1) & BOTH_KINDS if self.split else BOTH_KINDS
        make = self.tables.columns
        s, p, o = (make.column(list(column), "uint32") for column in zip(*triples, strict=True))
        count = len(triples)
        events = make.column([keys.event_id(1, first_event + at) for at in range(count)])
        for roles in (first, BOTH_KINDS & ~first):
            if roles:
                joined = None
                if self.probe is not None:  # indexes that the other message names must be joined by whichever is first
                    chosen = [self._bits() | (BOTH_KINDS & ~roles if self.probe else 0) for _ in range(count)]
                    joined = make.column(chosen, "uint32")
                times, bits = make.full(count, time), make.full(count, roles, "uint32")
                self.follow(self.tables.add_triples(s, p, o, times, events, bits, joined))

    def _bits(self) -> int:
        return sum(1 << at for at in range(16) if self.chance.random() < (self.probe or 0)) & BOTH_KINDS

    def _which(self, count: int):
        if self.probe is None:
            return None
        return self.tables.columns.column([self.chance.random() < self.probe for _ in range(count)])

    def query(self, plan, query, since: int, refresh: int) -> None:
        make = self.tables.columns
        params = tuple(make.column([term], "uint32") for term in self.dictionary.intern_all(query.constants))
        identity, stamp, lease = (make.column([each]) for each in (plan.identity >> 1, since, 1 << 60))
        group = self.tables.add_groups(plan, Groups(identity, stamp, stamp, lease, params))
        for step in range(1, len(plan.steps) if plan.algorithm is Algorithm.CQC else 1):
            self.tables.add_queries(plan, step, group, refresh)
        self.follow(self.tables.add_queries(plan, 0, group, refresh, self._which(1)))

    def end(self, plan) -> None:
        self.tables.end_groups([plan.identity >> 1])
        self.ended.add(plan.identity)

    def follow(self, derived: list[Derived]) -> None:
        backlog = Backlog(self.tables.columns)
        while True:
            for rows in derived:
                assert rows.plan.identity not in self.ended
                if rows.step < len(rows.plan.steps):
                    backlog.add(rows)
                    continue
                columns = map(as_list, (rows.identity, rows.oldest, *rows.bindings))
                for identity, oldest, *bound in zip(*columns, strict=True):
                    place = (rows.plan.identity, identity)
                    self.answers[place] = max((oldest, tuple(bound)), self.answers.get(place, (0, ())))
            if not backlog:
                return
            rows = backlog.take()
            derived = self.tables.add_rows(rows, self._which(len(rows)))

    def answers_since(self, plan, since: int) -> dict[int, tuple[int, ...]]:
        return {
            identity: bound
            for (of, identity), (oldest, bound) in self.answers.items()
            if of == plan.identity and oldest >= since and oldest != GONE
        }


def play(script, copies: list[Copy], then: Callable[[], None] = lambda: None, *, times: int = 1):
    """Give every copy the same publications and subscriptions, each a number of times, with a step after each.

    Returns the queries with the stamps of all their subscriptions, and the log of publications.
    """
    log: list[tuple[int, tuple[int, int, int]]] = []
    asked: dict = {}
    for time, step in enumerate(script, start=1):
        act = _record(step, time, asked, log)
        for _ in range(times):
            for copy in copies:
                act(copy)
            then()
    return asked, log


def _record(step, time: int, asked: dict, log: list) -> Callable[[Copy], None]:
    """Record the meaning of a step of a script, and return its effect as a function of a copy."""
    if step[0] in ("publish", "remove"):
        stamp = max(1, time - step[2]) | (GONE if step[0] == "remove" else 0)
        log.extend((stamp, triple) for triple in step[1])
        return lambda copy: copy.publish(step[1], stamp, time * 100)
    if step[0] == "query":
        _, raw, filtered, per_event, algorithm, *conditions = step
        query = canonical(raw, filtered, *conditions)
        plan = make_plan(query, range(len(raw)), algorithm, per_event=per_event)
        if plan in asked:
            return lambda _: None
        asked[plan] = (query, [time])
        return lambda copy: copy.query(plan, query, time, 0)
    if not asked:
        return lambda _: None
    plan = list(asked)[step[1] % len(asked)]
    query, stamps = asked[plan]
    if not stamps:  # it has ended for good
        return lambda _: None
    if step[0] == "end":
        stamps.clear()
        return lambda copy: copy.end(plan)
    stamps.append(time)
    return lambda copy: copy.query(plan, query, time, time)


def check(asked, log, copies: list[Copy]) -> None:
    """Every subscription that has not ended has exactly the answers owed, the same at every copy."""
    for plan, (query, stamps) in asked.items():
        for since in stamps:
            owed = brute_force(query, copies[0].dictionary, log, since, plan.per_event)
            answers = copies[0].answers_since(plan, since)
            assert Counter(answers.values()) == owed
            for copy in copies[1:]:
                assert copy.answers_since(plan, since) == answers
