"""Probes: small publications at a steady pace with timed answers, also while nodes fail.

One every 50 ms, in turn of each kind: a single triple for a single pattern (of three, under keys of their own),
and two triples for a join of two patterns.  A probe's *delay* runs from its due time of publication to the
delivery of its answer to the subscriber, reconnecting at either end included.  It measures a user's waiting
time, not a node's work.
"""

from __future__ import annotations

import asyncio
import math
import time
from dataclasses import dataclass
from typing import Final

from chaos.publishing import Publication
from chaos.queries import NS, Query, Row

__all__ = ["PROBE_SECONDS", "Outage", "Probes"]

PROBE_SECONDS: Final = 0.05
LATE_SECONDS: Final = 5.0
"""A probe with an answer this late is part of an outage."""
_SINGLE: Final = 3
_JOINED: Final = 2


@dataclass(frozen=True, slots=True)
class Outage:
    """Consecutive late probes of one kind; times are seconds since the beginning.

    ``first_acknowledged``: when the first of them was acknowledged to its publisher. The overlay or the
    subscriber's client caused the delay after that time.
    """

    kind: str
    probes: int
    first_due: float
    last_due: float
    first_acknowledged: float
    last_arrived: float


class Probes:
    """Makes probes, and records each with the time of its answer (monotonic seconds)."""

    def __init__(self) -> None:
        self.made: dict[str, Publication] = {}
        self.arrived: dict[str, float] = {}
        self._number = 0
        self._next = 0.0
        self._stopped = False

    @property
    def queries(self) -> list[Query]:
        """The probes' standing queries."""
        single = [Query((("?probe", f"<{NS}probe/{each}>", "?n"),), ("?probe",)) for each in range(_SINGLE)]
        joined = [
            Query(
                (("?probe", f"<{NS}joined/{each}>", "?link"), ("?link", f"<{NS}link/{each}>", "?n")),
                ("?probe",),
                ("csbv", "cqc")[each % 2],
            )
            for each in range(_JOINED)
        ]
        return single + joined

    def stop(self) -> None:
        """Make no more probes."""
        self._stopped = True

    async def next_publication(self) -> Publication | None:
        """Return the next probe when it is due, independent of the delay of the one before."""
        self._next = (self._next or time.monotonic()) + PROBE_SECONDS
        await asyncio.sleep(max(0.0, self._next - time.monotonic()))
        if self._stopped:
            return None
        self._number += 1
        subject, kind = f"<{NS}p/{self._number}>", self._number % (_SINGLE + _JOINED)
        link, each = f"<{NS}l/{self._number}>", kind - _SINGLE
        triples = [(subject, f"<{NS}joined/{each}>", link), (link, f"<{NS}link/{each}>", '"1"')]
        if kind < _SINGLE:
            triples = [(subject, f"<{NS}probe/{kind}>", '"1"')]
        probe = self.made[subject] = Publication(triples, self._next)
        return probe

    def take(self, row: Row, now: float) -> None:
        """Record an answer; the first one counts."""
        self.arrived.setdefault(row[0], now)

    def delays(self, since: float, until: float) -> list[float]:
        """Return the delays of probes due within a period; infinite without an answer.

        Probes that their publisher gave up, and that were not acknowledged, are left out.
        """
        return [
            self.arrived.get(subject, math.inf) - probe.due
            for subject, probe in self.made.items()
            if since <= probe.due < until and probe.acknowledged_at
        ]

    def outages(self, origin: float) -> list[Outage]:
        """Return the stretches in which probes of a kind were late; seconds since ``origin``."""
        found: dict[str, list[Outage]] = {}
        for subject, probe in self.made.items():
            arrived = self.arrived.get(subject, math.inf)
            if not probe.acknowledged_at or arrived - probe.due < LATE_SECONDS:
                continue
            predicate = probe.triples[0][1].rpartition("#")[2].strip("<>").removeprefix(NS)
            of_kind = found.setdefault(predicate, [])
            late = Outage(
                predicate, 1, probe.due - origin, probe.due - origin, probe.acknowledged_at - origin, arrived - origin
            )
            if of_kind and late.first_due - of_kind[-1].last_due < LATE_SECONDS:
                before = of_kind.pop()
                acknowledged = min(before.first_acknowledged, late.first_acknowledged)
                arrived = max(before.last_arrived, late.last_arrived)
                late = Outage(predicate, before.probes + 1, before.first_due, late.last_due, acknowledged, arrived)
            of_kind.append(late)
        return sorted((each for kind in found.values() for each in kind), key=lambda each: each.first_due)
