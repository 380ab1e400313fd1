"""An overlay of tens of thousands of peers in one set of columns: its loads and messages.

The seed paper has 20,000 peers, 100,000 queries and 600,000 triples, each in up to seven indexes.
:class:`~p2prdf.sim.world.World` simulates every message and would take hours.

A waiting row and a triple meet at the owner of their key, so the united tables of all peers give the joins of the
separate tables; ownership decides only which peer has the load.  A fleet is one set of the daemon's columnar tables,
plans and keys for all peers, and counts loads for the owner of each key.  It has no lookups, acknowledgements, retries
and coordinators.  tests/lab/test_fleet.py shows equal loads of each peer in a World and in a fleet.

A row has a *cause*: the last of its publications.  A message is the set of rows of one cause from one peer to one key
at one step, as in the papers.  So the counts for batches equal those for single triples.

The largest experiment has 2,250 million answers.  With ``list_answers=False``, rows of a plan's last step are only
counted: the number of answers under a key is rows times triples.  This is exact if every triple counts for every query
and no later filter decides; otherwise the fleet refuses.  Equal queries are not shared, as in the paper.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from p2prdf import keys
from p2prdf.columns import as_array
from p2prdf.continuous.order import evaluation_order
from p2prdf.errors import LocalProtocolError
from p2prdf.grow import GrowingColumn
from p2prdf.hash_index import HashIndex
from p2prdf.peer import PeerConfig
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.rdf.query import Algorithm, ConjunctiveQuery, Plan, constant_mask, make_plan
from p2prdf.store.compiled import compile_step
from p2prdf.store.tables import Derived
from p2prdf.wire.messages import Groups
from p2prdf_lab.fleets.tables import FleetTables, Travelling, joined_rows

__all__ = ["Fleet", "Listener", "Loads", "Messages", "Ring"]

U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Pairs = tuple[tuple[int, int], ...]

_BEGINNING = 1
"""Stamp of every subscription; triples are published from the next stamp on."""

_FOREVER = (1 << 63) - 1


class Ring(Protocol):
    """Ownership of keys, for whole columns."""

    def __len__(self) -> int:
        """Return the number of peers."""
        ...

    def owners(self, ring_keys: U64) -> I64:
        """Return the number of each key's owner, counting peers in order of position."""
        ...


@dataclass(slots=True)
class Loads:
    """Received and stored items of one ring, by peer.

    ``triples``: copies of triples received.  ``checked``: copies that came to a peer with waiting patterns or rows in
    the copy's index.  ``rows``: partial results received.  ``patterns``: patterns held, with later links (CQC).
    ``kept``: copies of triples stored.  ``matching``: stored copies that match a later pattern of a chain at the peer
    (CQC stores only these in the paper).
    """

    triples: I64
    checked: I64
    rows: I64
    patterns: I64
    kept: I64
    matching: I64

    @classmethod
    def none(cls, peers: int) -> Loads:
        """Return zero loads."""
        return cls(*(np.zeros(peers, np.int64) for _ in range(6)))

    @property
    def processing(self) -> I64:
        """QPL: triples received to be checked against waiting patterns and rows, and rows received."""
        return self.checked + self.rows

    @property
    def arrivals(self) -> I64:
        """All received triples and rows, as the daemon's ``processing_load``."""
        return self.triples + self.rows

    @property
    def storage(self) -> I64:
        """SL: patterns, triples and rows held: the daemon's ``storage_load``."""
        return self.patterns + self.kept + self.rows

    @property
    def storage_matching(self) -> I64:
        """SL if only triples are stored that match a later pattern, as CQC does in the paper."""
        return self.patterns + self.matching + self.rows


@dataclass(frozen=True, slots=True)
class Messages:
    """Messages of one kind as columns: from the peer that owns ``origin`` to the owner of ``key``.

    ``step``: the step of the plan at which the rows will wait; -1 for the messages of publishers, which have ``origin``
    None, with all copies of a triple together.  ``cause``: number of the publication, from 0.  ``rows``: triples or
    partial results in each message.
    """

    step: int
    cause: I64
    origin: U64 | None
    key: U64
    rows: I64


Listener = Callable[[Messages], None]


class Fleet:
    """All peers of some rings, which differ only in the ownership of keys.

    ``order``: ``rarest`` orders patterns as a peer without counted rates does, constants first; ``written`` keeps the
    order of the query, as the paper's peers do.  ``indexes``: triples go into all indexes of the algorithm (``paper``),
    into the default indexes of nodes (``all``), or into the indexes in which a plan waits (``on-demand``).
    ``on_messages`` is called with every batch of messages (None: messages are not counted, which is faster).
    """

    def __init__(
        self,
        dictionary: TermDictionary,
        rings: Sequence[Ring],
        algorithm: Algorithm,
        *,
        order: str = "rarest",
        indexes: str = "paper",
        encoding: str = "typed",
        list_answers: bool = True,
        on_messages: Listener | None = None,
    ):
        if order not in ("rarest", "written"):
            raise LocalProtocolError(f"order: {order!r} is neither rarest nor written")
        if indexes not in ("paper", "all", "on-demand"):
            raise LocalProtocolError(f"indexes: {indexes!r} is none of paper, all, on-demand")
        self.algorithm = algorithm
        if indexes == "paper":
            indexes = algorithm.value
        self.roles = PeerConfig(indexes=indexes).fixed_roles
        self.rings = list(rings)
        self.loads = [Loads.none(len(ring)) for ring in rings]
        self.published = 0
        self._order = order
        self._list_answers = list_answers
        self._on_messages = on_messages
        self._dictionary = dictionary
        self._tables = FleetTables(dictionary, encoding, list_answers=list_answers, trace=on_messages is not None)
        self._waits_from = [np.full((8, len(ring)), _FOREVER, np.int64) for ring in rings]
        """By ring, index and peer: the publication from which on patterns or rows wait; -1: before all."""
        self._seen = HashIndex()
        self._publication = GrowingColumn(np.int64)
        """The first publication of each triple, in the order of the tables."""
        self._later: dict[tuple[int, int, Pairs], HashIndex] = {}
        """The constants of later links, by index, constant positions, and positions that must be equal."""
        self._groups = 0

    @property
    def answers(self) -> int:
        """Number of answers so far, one for each combination of triples, also with DISTINCT."""
        return self._tables.answers

    @property
    def rows(self) -> int:
        """Number of partial results held."""
        return self._tables.sizes().rows

    @property
    def nbytes(self) -> int:
        """Bytes of the tables of all peers together."""
        return self._tables.nbytes

    # --- queries ---------------------------------------------------------------------------------

    def subscribe(self, queries: Sequence[ConjunctiveQuery]) -> None:
        """Install queries, before the first publication."""
        if self.published:
            raise LocalProtocolError("a fleet takes its queries before its triples")
        by_plan: dict[Plan, list[tuple[str, ...]]] = {}
        plans: dict[tuple[Any, ...], Plan] = {}
        for query in queries:
            order = self._order_of(query)
            kind = (query.patterns, query.answer, query.filters, query.distinct, order)
            plan = plans.get(kind)
            if plan is None:
                plan = plans[kind] = self._plan(query, order)
            by_plan.setdefault(plan, []).append(query.constants)
        for plan, constants in by_plan.items():
            self._install(plan, constants)

    def _order_of(self, query: ConjunctiveQuery) -> tuple[int, ...]:
        return evaluation_order(query, {}) if self._order == "rarest" else tuple(range(len(query.patterns)))

    def _plan(self, query: ConjunctiveQuery, order: tuple[int, ...]) -> Plan:
        plan = make_plan(query, order, self.algorithm)
        if any(step.role == keys.ANY for step in plan.steps):
            raise LocalProtocolError(f"a pattern of {query.patterns} has no constant part when its turn comes")
        last = compile_step(plan, len(plan.steps) - 1)
        if not self._list_answers and (last.equal or last.filters or last.never_literal):
            raise LocalProtocolError("answers can be counted only where the last pattern decides nothing more")
        return plan

    def _install(self, plan: Plan, constants: list[tuple[str, ...]]) -> None:
        self.roles |= plan.roles
        count = len(constants)
        params = tuple(
            np.array(self._dictionary.intern_all(column), np.uint32) for column in zip(*constants, strict=True)
        )
        first, self._groups = self._groups, self._groups + count
        ids = keys.fmix_array(np.arange(first, first + count, dtype=np.uint64))
        since = np.full(count, _BEGINNING, np.uint64)
        groups = Groups(ids, since, since, np.full(count, _FOREVER, np.uint64), params)
        numbers = as_array(self._tables.add_groups(plan, groups), np.int64)
        for step in range(len(plan.steps) if self.algorithm is Algorithm.CQC else 1):
            role = plan.steps[step].role
            ring_keys = as_array(self._tables.query_keys(plan, step, numbers))
            for ring, loads, waits_from in zip(self.rings, self.loads, self._waits_from, strict=True):
                owners = ring.owners(ring_keys)
                loads.patterns += np.bincount(owners, minlength=len(ring))
                waits_from[role, owners] = -1
            if step:
                self._note_later(plan, step, params)
        self._tables.add_queries(plan, 0, numbers, 0)

    def _note_later(self, plan: Plan, step: int, params: tuple[npt.NDArray[np.uint32], ...]) -> None:
        """Store the constants of a later link, to recognise matching triples."""
        at = plan.steps[step]
        mask = constant_mask(at.pattern)
        equal = tuple((a, b) for a, b in combinations(range(3), 2) if at.pattern[a] == at.pattern[b] >= 0)
        hashes = self._dictionary.hash_array()
        none = np.zeros(len(params[0]), np.uint64)
        parts = [hashes[params[~slot]] if slot < 0 else none for slot in at.pattern]
        self._later.setdefault((at.role, mask, equal), HashIndex()).insert(keys.role_keys(mask, *parts))

    # --- triples ---------------------------------------------------------------------------------

    def publish(self, s: npt.NDArray[np.uint32], p: npt.NDArray[np.uint32], o: npt.NDArray[np.uint32]) -> None:
        """Publish triples at once: store all of them, then process all derived rows."""
        count = len(s)
        first, self.published = self.published, self.published + count
        hashes = self._dictionary.hash_array()
        parts = (hashes[s], hashes[p], hashes[o])
        _, fresh = self._seen.insert(keys.triple_ids(*parts))
        self._publication.append(first + np.flatnonzero(fresh))
        roles_used = [role for role in keys.ROLES if self.roles >> role & 1]
        sent = [self._index(role, (s, p, o), parts, fresh) for role in roles_used]
        if self._on_messages is not None and sent:
            cause = np.tile(np.arange(first, first + count), len(sent))
            ring_keys = np.concatenate([each for each, _ in sent])
            self._on_messages(Messages(-1, cause, None, ring_keys, np.ones(len(cause), np.int64)))
        times = np.arange(_BEGINNING + 1 + first, _BEGINNING + 1 + first + count, dtype=np.uint64)
        roles = np.full(count, self.roles, np.uint32)
        self._work_off(self._tables.add_triples(s, p, o, times, times, roles))
        for role, (_, owners) in zip(roles_used, sent, strict=True):
            self._check(role, first, owners)

    def _index(
        self, role: int, triples: tuple[npt.NDArray[np.uint32], ...], parts: tuple[U64, U64, U64], fresh: Bools
    ) -> tuple[U64, list[I64]]:
        """Count the copies of triples in one index; return their keys, and the owners of these on each ring."""
        ring_keys = as_array(self._tables.triple_keys(role, *triples))
        matching = self._matching(role, parts, fresh)
        by_ring = [ring.owners(ring_keys) for ring in self.rings]
        for owners, loads in zip(by_ring, self.loads, strict=True):
            peers = len(loads.triples)
            loads.triples += np.bincount(owners, minlength=peers)
            loads.kept += np.bincount(owners[fresh], minlength=peers)
            loads.matching += np.bincount(owners[matching], minlength=peers)
        return ring_keys, by_ring

    def _check(self, role: int, first: int, by_ring: list[I64]) -> None:
        """Count the copies of a batch that met waiting patterns or rows, after the batch is processed."""
        for owners, loads, waits_from in zip(by_ring, self.loads, self._waits_from, strict=True):
            checked = waits_from[role, owners] < np.arange(first, first + len(owners))
            loads.checked += np.bincount(owners[checked], minlength=len(loads.checked))

    def _matching(self, role: int, parts: tuple[U64, U64, U64], fresh: Bools) -> Bools:
        """Return which new triples a peer of the paper stores in an index."""
        if self.algorithm is Algorithm.CSBV:
            return fresh
        matching = np.zeros(len(fresh), np.bool_)
        for (at, mask, equal), index in self._later.items():
            if at == role:
                found = index.find(keys.role_keys(mask, *parts)) >= 0
                for a, b in equal:
                    found &= parts[a] == parts[b]
                matching |= found
        return matching & fresh

    # --- partial results -------------------------------------------------------------------------

    def _work_off(self, derived: list[Derived]) -> None:
        """Store and join derived rows, all rows of a plan's step together, lowest step first."""
        todo: dict[tuple[int, int], list[Derived]] = {}
        while derived or todo:
            for rows in derived:
                todo.setdefault((rows.step, rows.plan.identity), []).append(rows)
            place = min(todo)
            rows = joined_rows(todo.pop(place))
            derived = [] if rows.step == len(rows.plan.steps) else self._store(rows)

    def _store(self, rows: Derived) -> list[Derived]:
        ring_keys = as_array(self._tables.row_keys(rows))
        role = rows.plan.steps[rows.step].role
        if isinstance(rows, Travelling):
            publication = self._publication.values[rows.cause]
        else:
            publication = np.full(len(rows), self.published - 1)
        for ring, loads, waits_from in zip(self.rings, self.loads, self._waits_from, strict=True):
            owners = ring.owners(ring_keys)
            loads.rows += np.bincount(owners, minlength=len(ring))
            np.minimum.at(waits_from[role], owners, publication)
        if isinstance(rows, Travelling) and self._on_messages is not None:
            self._on_messages(_messages(rows, publication, ring_keys))
        return self._tables.add_rows(rows)


def _messages(rows: Travelling, publication: I64, ring_keys: U64) -> Messages:
    """Group the rows that one publication sends from one key to another."""
    order = np.lexsort((ring_keys, rows.origin, publication))
    cause, origin, key = publication[order], rows.origin[order], ring_keys[order]
    new = np.ones(len(order), np.bool_)
    new[1:] = (cause[1:] != cause[:-1]) | (origin[1:] != origin[:-1]) | (key[1:] != key[:-1])
    first = np.flatnonzero(new)
    return Messages(rows.step, cause[first], origin[first], key[first], np.diff(first, append=len(order)))
