"""A capacity plan as plain values: options, cost of the sample, extrapolation to a longer stream.

:mod:`p2prdf_lab.capacity.planner` creates it.  Loads are those of the whole sample.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from p2prdf.errors import LocalProtocolError
from p2prdf.rdf.query import Algorithm, ConjunctiveQuery
from p2prdf_lab.capacity.growth import TIMES_MAX, Growth, Range
from p2prdf_lab.capacity.ledger import KINDS
from p2prdf_lab.experiments.results import gini
from p2prdf_lab.fleets.places import OVERLAYS, Places, even_positions, random_positions

if TYPE_CHECKING:
    from p2prdf_lab.capacity.footprint import Footprint
    from p2prdf_lab.capacity.loaded_keys import LoadedKey

__all__ = ["CapacityPlan", "Holder", "NamedQuery", "NodeLimits", "PlanOptions", "Spread", "Traffic"]

I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class NamedQuery:
    """A standing query and its name in errors."""

    name: str
    query: ConjunctiveQuery


@dataclass(frozen=True, slots=True)
class NodeLimits:
    """Assumed capacity of one node: rows per second, bytes of memory, network bytes per second."""

    load: float = 200_000.0
    memory_bytes: float = 4.0 * (1 << 30)
    link_bytes: float = 125e6


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """The overlay and the stream to plan for.

    ``rate`` triples per second, for ``hours`` (None: only as long as the sample), published by
    ``publishers`` entry peers in turn, ``batch`` triples at once.
    """

    peers: int
    algorithm: Algorithm = Algorithm.CSBV
    indexes: str = "all"
    overlay: str = "kademlia"
    places: str = "random"
    rate: float = 1000.0
    hours: float | None = None
    batch: int = 1000
    publishers: int = 1
    seed: int = 1
    node: NodeLimits = field(default_factory=NodeLimits)

    def validate(self) -> None:
        """Raise LocalProtocolError for invalid options."""
        if not 1 <= self.peers <= 1_000_000:
            raise LocalProtocolError(f"peers: {self.peers} is not between 1 and 1,000,000")
        if not 1 <= self.publishers <= self.peers:
            raise LocalProtocolError(f"publishers: {self.publishers} is not between 1 and the number of peers")
        if self.batch < 1:
            raise LocalProtocolError(f"batch: {self.batch} triples at once are too few")
        if self.overlay not in OVERLAYS:
            raise LocalProtocolError(f"overlay: {self.overlay!r} is none of {', '.join(OVERLAYS)}")
        if self.places not in ("random", "even"):
            raise LocalProtocolError(f"places: {self.places!r} is neither random nor even")
        if self.indexes not in ("all", "on-demand"):
            raise LocalProtocolError(f"indexes: {self.indexes!r} is neither all nor on-demand")
        for name, value, least, most, unit in (
            ("rate", self.rate, 0.001, 1e9, "triples a second"),
            ("hours", 1.0 if self.hours is None else self.hours, 1e-6, 1e6, "hours"),
            ("load", self.node.load, 1, 1e12, "a second"),
            ("memory", self.node.memory_bytes, 1024, 1 << 50, "bytes"),
            ("link", self.node.link_bytes, 1, 1e12, "bytes a second"),
        ):
            if not least <= value <= most:
                raise LocalProtocolError(f"{name}: {value!r} is not between {least:,} and {most:,.0f} {unit}")

    def ring(self, peers: int) -> Places:
        """Return the ring of ``peers`` peers."""
        return self.even_ring(peers) if self.places == "even" else self._placed(random_positions(peers, self.seed))

    def even_ring(self, peers: int) -> Places:
        """Return the ring of ``peers`` evenly placed peers."""
        return self._placed(even_positions(peers))

    def _placed(self, positions: list[int]) -> Places:
        return Places(positions, self.overlay)

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "peers": self.peers, "algorithm": self.algorithm.value, "indexes": self.indexes, "overlay": self.overlay,
            "places": self.places, "rate": self.rate, "hours": self.hours, "batch": self.batch,
            "publishers": self.publishers, "seed": self.seed,
            "node": {
                "load": self.node.load, "memory_bytes": self.node.memory_bytes, "link_bytes": self.node.link_bytes
            },
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Spread:
    """The distribution of a quantity over peers."""

    total: float
    max: float
    median: float
    mean: float
    gini: float

    @classmethod
    def of(cls, values: npt.NDArray[Any]) -> Spread:
        """Return the distribution of a value per peer."""
        return cls(
            float(values.sum()), float(values.max()), float(np.median(values)), float(values.mean()), gini(values)
        )

    def times(self, factor: float) -> Spread:
        """Return the distribution of ``factor`` times the quantity."""
        return Spread(self.total * factor, self.max * factor, self.median * factor, self.mean * factor, self.gini)

    def as_dict(self) -> dict[str, float]:
        """Return plain JSON values."""
        return {name: round(float(getattr(self, name)), 4) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class Traffic:
    """Messages of one kind, per triple published."""

    kind: str
    messages: float
    rows: float
    bytes: float
    weighed: int

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "kind": self.kind, "what": KINDS[self.kind], "messages_per_triple": round(self.messages, 6),
            "rows_per_triple": round(self.rows, 6), "bytes_per_triple": round(self.bytes, 3),
            "messages_weighed": self.weighed,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Holder:
    """The memory of one peer, and the growth of its ``copies``, ``rows`` and ``answers``."""

    footprint: Footprint
    growth: dict[str, Growth]

    def after(self, times: float) -> Range:
        """Return least and most bytes after ``times`` the sample; terms grow with triples, queries do not grow."""
        held = self.footprint
        low = high = float(held.queries_bytes)
        for name, size in (
            ("copies", held.triples_bytes + held.terms_bytes), ("rows", held.rows_bytes),
            ("answers", held.answers_bytes),
        ):  # fmt: skip
            least, most = self.growth[name].after(times)
            low, high = low + size * least, high + size * most
        return low, high


@dataclass(slots=True)
class CapacityPlan:
    """The results; loads are by peer, in order of position."""

    options: PlanOptions
    queries: int
    distinct_queries: int
    published: int
    offered: int
    cut: str
    """Reason for a shortened sample; empty if all of it was published."""
    roles: tuple[str, ...]
    """The indexes of triples; ``roles_needed``: the indexes in which a query waits."""
    roles_needed: tuple[str, ...]
    processing: I64
    storage: I64
    copies: int
    rows: int
    answers: int
    delivered: int
    traffic: list[Traffic]
    sent_bytes: npt.NDArray[np.float64]
    received_bytes: npt.NDArray[np.float64]
    entries: tuple[int, ...]
    busiest_keys: list[tuple[LoadedKey, int]]
    """The busiest keys, each with the load of its owner."""
    hot_keys: list[LoadedKey]
    """The busiest keys of the busiest peer."""
    holders: dict[str, Holder]
    """The memory of the ``fullest`` and of the ``median`` peer."""
    growth: dict[str, Growth]
    """Growth in the whole overlay: of ``processing``, ``copies``, ``rows``, ``answers``."""
    doubled_max: int
    """Load of the busiest peer with twice as many peers."""
    csbv_max: int | None = None
    """Load of the busiest peer with CSBV, in a plan for CQC."""
    even_max: int | None = None
    """Load of the busiest peer with evenly placed peers, in a plan with random places."""

    @property
    def seconds(self) -> float:
        """Duration of the sample at the rate."""
        return self.published / self.options.rate

    @property
    def processing_per_second(self) -> Spread:
        """Copies and rows to be processed per second, over the whole sample."""
        return Spread.of(self.processing).times(1 / self.seconds)

    @property
    def link_per_second(self) -> Spread:
        """Bytes sent and received per second."""
        return Spread.of(self.sent_bytes + self.received_bytes).times(1 / self.seconds)

    @property
    def times(self) -> float | None:
        """Length of the stream of ``hours`` in lengths of the sample; None without ``hours``."""
        hours = self.options.hours
        return None if hours is None else hours * 3600 * self.options.rate / self.published

    @property
    def times_estimated(self) -> float | None:
        """``times``, or None beyond the longest extrapolation."""
        return None if self.times is None or self.times > TIMES_MAX else self.times

    def busiest_after(self, times: float) -> Range:
        """Return the busiest peer's load per second at the end of ``times`` the sample, least and most.

        A load that grows with the power b of the stream has b times the average rate at the end.
        """
        mean = self.processing_per_second.max
        low, high = (max(1.0, power) for power in self.growth["processing"].bounds)
        return mean * low * times ** (low - 1), mean * high * times ** (high - 1)

    def memory_full_after(self) -> Range | None:
        """Return how many lengths of the sample fill the fullest peer's memory, soonest and latest.

        None: later than the longest extrapolation.  ``TIMES_MAX`` as the latest: then, or later.
        """
        limit, fullest = self.options.node.memory_bytes, self.holders["fullest"]
        if fullest.after(TIMES_MAX)[1] < limit:
            return None
        ends = []
        for at in (1, 0):
            low, high = 1e-6, float(TIMES_MAX)
            for _ in range(60):
                middle = (low * high) ** 0.5
                low, high = (low, middle) if fullest.after(middle)[at] >= limit else (middle, high)
            ends.append(high)
        return ends[0], ends[1]

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        times = self.times_estimated
        return {
            "options": self.options.as_dict(),
            "sample": {
                "queries": self.queries, "distinct_queries": self.distinct_queries, "triples": self.published,
                "offered": self.offered, "cut": self.cut, "seconds": round(self.seconds, 3), "roles": list(self.roles),
            },
            "processing": Spread.of(self.processing).as_dict(),
            "processing_per_second": self.processing_per_second.as_dict(),
            "storage": Spread.of(self.storage).as_dict(),
            "copies": self.copies,
            "partial_results": self.rows,
            "answers_per_triple": round(self.answers / self.published, 6),
            "delivered_per_triple": round(self.delivered / self.published, 6),
            "traffic": [each.as_dict() for each in self.traffic],
            "link_bytes_per_second": self.link_per_second.as_dict(),
            "busiest_keys": [
                {
                    "role": key.role, "terms": list(key.terms), "triples": key.triples, "partial_results": key.rows,
                    "share_of_peer": round(key.load / max(1, load), 4),
                }
                for key, load in self.busiest_keys
            ],
            "memory": {which: holder.footprint.as_dict() for which, holder in self.holders.items()},
            "growth": {name: each.as_dict() for name, each in self.growth.items()},
            "after_hours": None if times is None else {
                "times_the_sample": round(times, 3),
                "busiest_per_second": [round(each, 1) for each in self.busiest_after(times)],
                "memory": {
                    which: [round(each) for each in holder.after(times)] for which, holder in self.holders.items()
                },
            },
            "busiest_with_twice_the_peers": self.doubled_max,
            "busiest_with_csbv": self.csbv_max,
            "busiest_at_even_places": self.even_max,
        }  # fmt: skip
