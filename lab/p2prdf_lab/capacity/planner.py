"""Capacity planning: load, traffic and memory of N nodes for given queries and a stream.

A formula would need the distribution of terms, which decides the result: the owner of the most frequent predicate's key
has the same load in an overlay of any size.  So the planner runs the user's queries over a sample of the user's data,
in an overlay of the wanted size with the daemon's plans, keys, tables and codec
(:class:`~p2prdf_lab.capacity.traffic.TracedFleet`).  It counts loads and messages, takes bytes from real frames of some
messages, and memory from real tables of some peers.  In the same run, a second ring of twice the size shows whether
more peers help, and a third one the cost of random places.

Only values beyond the sample are estimates (:mod:`p2prdf_lab.capacity.growth`).

Not included: lookups, leases, churn, discovery, traffic of clients, and the splitting of hot keys
(:mod:`p2prdf.peer.joins.hot_keys`): a key has one owner.  The verdict names the keys that nodes would split.

A query with a pattern that no constant selects at its step is refused: such a pattern waits at every bucket, and a
fleet has no buckets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from p2prdf import keys
from p2prdf.continuous.identities import home_key
from p2prdf.continuous.order import evaluation_order
from p2prdf.errors import LocalProtocolError, QueryRefused
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.rdf.query import Algorithm, ConjunctiveQuery, Pattern, make_plan
from p2prdf_lab.capacity.footprint import Share, measure
from p2prdf_lab.capacity.growth import COUNT_MIN, Growth, grown
from p2prdf_lab.capacity.loaded_keys import LoadedKey
from p2prdf_lab.capacity.plan import CapacityPlan, Holder, NamedQuery, PlanOptions, Traffic
from p2prdf_lab.capacity.traffic import TracedFleet
from p2prdf_lab.fleets.fleet import Fleet
from p2prdf_lab.fleets.places import Places

__all__ = ["ROWS_MAX", "plan_capacity"]

Progress = Callable[[float, str], None]
"""Callback for progress: the part done, 0 to 1, and the current activity."""

Triples = tuple[Sequence[str], Sequence[str], Sequence[str]]
"""Columns of canonical terms."""

U32 = npt.NDArray[np.uint32]
I64 = npt.NDArray[np.int64]

ROWS_MAX: Final = 20_000_000
"""Most partial results and answers together, all in memory; the sample is cut there."""

_KEYS_SHOWN: Final = 5
_KEYS_LOOKED_AT: Final = 1000
_HOT_KEYS: Final = 3
_MARK_RATIO: Final = 1.1
"""Ratio of triples between two recordings of growth."""


def plan_capacity(
    queries: Sequence[NamedQuery], triples: Triples, options: PlanOptions, progress: Progress = lambda _, __: None
) -> CapacityPlan:
    """Run a sample through an overlay of the wanted size and return its cost.

    Raises QueryRefused, with the query's name, for an unsupported query, and LocalProtocolError for invalid options or
    an empty sample.
    """
    options.validate()
    if not queries:
        raise LocalProtocolError("there is no query to plan for")
    offered = len(triples[0])
    if not offered:
        raise LocalProtocolError("there is no triple to plan with")
    for each in queries:
        _refuse_unselected(each, options.algorithm)
    return _Planning(queries, triples, options, progress).plan()


def _refuse_unselected(named: NamedQuery, algorithm: Algorithm) -> None:
    """Raise QueryRefused for a query with a pattern that would wait at every bucket."""
    query = named.query
    plan = make_plan(query, evaluation_order(query, {}), algorithm)
    for step in plan.steps:
        if step.role == keys.ANY:
            when = "" if algorithm is Algorithm.CQC else " or bound part when its turn comes"
            raise QueryRefused(
                f"{named.name}: the planner cannot reckon with a pattern that has no constant{when}: it waits at"
                f" {keys.BUCKETS} places for every triple there is",
                construct=f"pattern {_spelled(step.pattern, query.constants)}",
            )


def _spelled(pattern: Pattern, constants: Sequence[str]) -> str:
    return " ".join(f"?v{slot}" if slot >= 0 else constants[~slot] for slot in pattern)


@dataclass(frozen=True, slots=True)
class _Mark:
    """Counts by peer after some number of triples."""

    triples: int
    copies: I64
    rows: I64
    answers: I64
    processing: I64


class _Planning:
    """The run of one sample through a fleet."""

    def __init__(self, queries: Sequence[NamedQuery], triples: Triples, options: PlanOptions, progress: Progress):
        self._options = options
        self._progress = progress
        self._offered = len(triples[0])
        self._asked = len(queries)
        self._queries: dict[int, ConjunctiveQuery] = {}
        subscribers: dict[int, int] = {}
        for each in queries:  # equal queries are evaluated once
            home = home_key(each.query, options.algorithm)
            self._queries.setdefault(home, each.query)
            subscribers[home] = subscribers.get(home, 0) + 1
        count = options.peers
        self._entries = tuple(count * at // options.publishers for at in range(options.publishers))
        progress(0.0, "taking in terms")
        self._terms = TermDictionary()
        self._fleet = TracedFleet(
            self._terms, _rings(options), options.algorithm, indexes=options.indexes, entries=self._entries,
            subscribers=subscribers,
        )  # fmt: skip
        self._fleet.subscribe(list(self._queries.values()))
        s, p, o = (np.array(self._terms.intern_all(column), np.uint32) for column in triples)
        self._triples: tuple[U32, U32, U32] = (s, p, o)
        self._marks: list[_Mark] = []
        self._batches = 0
        self._published = 0
        self._cut = ""

    def plan(self) -> CapacityPlan:
        """Publish the sample and return its cost."""
        self._publish()
        fleet, options = self._fleet, self._options
        here, doubled, *even = fleet.loads
        count, kinds = self._published, fleet.kinds
        self._progress(0.8, "measuring memory")
        holders = self._holders()
        self._progress(0.9, "comparing")
        none = np.zeros(options.peers)
        return CapacityPlan(
            options, self._asked, len(self._queries), count, self._offered, self._cut,
            _names(fleet.roles), _names(self._roles_needed()),
            here.arrivals, here.storage, int(here.kept.sum()), fleet.rows, fleet.answers, fleet.delivered,
            [
                Traffic(name, kind.messages / count, kind.rows / count, kind.bytes / count, len(kind.weighed))
                for name, kind in kinds.items()
            ],
            sum((kind.bytes_of(kind.sent) for kind in kinds.values()), none),
            sum((kind.bytes_of(kind.received) for kind in kinds.values()), none),
            self._entries, *self._busiest_keys(), holders, self._growth(None), int(doubled.arrivals.max()),
            self._with_csbv(), int(even[0].arrivals.max()) if even else None,
        )  # fmt: skip

    # --- publishing ------------------------------------------------------------------------------

    def _publish(self) -> None:
        fleet, options = self._fleet, self._options
        end = self._offered
        if options.hours is not None and options.hours * 3600 * options.rate < end:
            end = max(1, round(options.hours * 3600 * options.rate))
            self._cut = f"at this rate no more come in {options.hours:g} hours"
        for start in range(0, end, options.batch):
            self._published = min(start + options.batch, end)
            fleet.publish(*self._columns(start, self._published))
            self._batches += 1
            if not self._marks or self._published >= _MARK_RATIO * self._marks[-1].triples:
                self._mark()
            self._progress(0.8 * self._published / end, f"publishing {end:,} triples")
            if fleet.rows + fleet.answers > ROWS_MAX and self._published < end:
                self._cut = f"more than {ROWS_MAX:,} partial results and answers came of these"
                break
        if self._marks[-1].triples < self._published:
            self._mark()

    def _columns(self, start: int, end: int) -> tuple[U32, U32, U32]:
        """Return a batch; repeated triples of one publication count once."""
        s, p, o = (column[start:end] for column in self._triples)
        _, first = np.unique(np.stack((s, p, o)), axis=1, return_index=True)
        first.sort()
        return s[first], p[first], o[first]

    def _mark(self) -> None:
        loads = self._fleet.loads[0]
        self._marks.append(
            _Mark(self._published, loads.kept.copy(), loads.rows.copy(), self._fleet.answered.copy(), loads.arrivals)
        )

    # --- results ---------------------------------------------------------------------------------

    def _growth(self, peer: int | None) -> dict[str, Growth]:
        """Return the growth of counts at one peer (from all peers if its counts are too small); None: at all peers."""
        longest = max(len(query.patterns) for query in self._queries.values())
        powers = {"processing": max(1, longest - 1), "copies": 1, "rows": max(1, longest - 1), "answers": longest}
        triples = [mark.triples for mark in self._marks]
        found = {}
        for name, power in powers.items():
            counts = [getattr(mark, name) for mark in self._marks]
            own = [int(each.sum() if peer is None else each[peer]) for each in counts]
            if peer is not None and own[-1] < COUNT_MIN * 4:
                own = [int(each.sum()) for each in counts]
            found[name] = grown(name, triples, own, power)
        return found

    def _holders(self) -> dict[str, Holder]:
        """Measure the memory of the median peer, and of the fullest among the candidates for the fullest."""
        fleet = self._fleet
        storage = fleet.loads[0].storage
        median = int(np.argsort(storage, kind="stable")[len(storage) // 2])
        likely = dict.fromkeys((int(storage.argmax()), int(fleet.answered.argmax()), self._entries[0], median))
        shares = fleet.shares(list(likely))
        holders = {}
        for share in shares:
            share.entered = self._entered(share)
            footprint = measure(share, self._terms, fleet.loaded.plans, self._batches)
            holders[share.peer] = Holder(footprint, self._growth(share.peer))
        fullest = max(holders, key=lambda peer: (holders[peer].footprint.bytes, -peer))
        return {"fullest": holders[fullest], "median": holders[median]}

    def _entered(self, share: Share) -> U32:
        """Return the terms of the triples that are published at a peer."""
        if share.peer not in self._entries:
            return np.zeros(0, np.uint32)
        first, step = self._entries.index(share.peer), len(self._entries)
        size, end = self._options.batch, self._published
        parts = [
            column[start : min(start + size, end)]
            for start in range(first * size, end, step * size)
            for column in self._triples
        ]
        return np.unique(np.concatenate(parts)) if parts else np.zeros(0, np.uint32)

    def _roles_needed(self) -> int:
        """Return the indexes in which a query waits."""
        needed = 0
        for query in self._queries.values():
            needed |= make_plan(query, evaluation_order(query, {}), self._options.algorithm).roles
        return needed

    def _busiest_keys(self) -> tuple[list[tuple[LoadedKey, int]], list[LoadedKey]]:
        """Return the busiest keys of all, with their peers' loads, and those of the busiest peer."""
        found = self._fleet.loaded.busiest(_KEYS_LOOKED_AT)
        owners = self._fleet.rings[0].owners(np.array([each.key for each in found], np.uint64)).tolist()
        arrivals = self._fleet.loads[0].arrivals
        busiest = int(arrivals.argmax())
        shown = [(key, int(arrivals[owner])) for key, owner in zip(found, owners, strict=True)][:_KEYS_SHOWN]
        return shown, [key for key, owner in zip(found, owners, strict=True) if owner == busiest][:_HOT_KEYS]

    def _with_csbv(self) -> int | None:
        """Return the load of the busiest peer with CSBV for the same queries and triples."""
        options = self._options
        if options.algorithm is Algorithm.CSBV:
            return None
        other = Fleet(self._terms, [options.ring(options.peers)], Algorithm.CSBV, indexes=options.indexes)
        other.subscribe(list(self._queries.values()))
        for start in range(0, self._published, options.batch):
            other.publish(*self._columns(start, min(start + options.batch, self._published)))
        return int(other.loads[0].arrivals.max())


def _rings(options: PlanOptions) -> list[Places]:
    """Return the ring of the plan, one of twice as many peers, and, with random places, one of even places."""
    rings = [options.ring(options.peers), options.ring(2 * options.peers)]
    return rings if options.places == "even" else [*rings, options.even_ring(options.peers)]


def _names(roles: int) -> tuple[str, ...]:
    return tuple(keys.ROLE_NAMES[role] for role in keys.ROLES if roles >> role & 1)
