"""Probes: small publications at a steady pace whose answers are timed, also while nodes fail.

One every 50 ms, in turn of each kind: a single triple for a single pattern (of three, under keys of their own), and two
triples for a join of two patterns.  A probe's *delay* is from when it was due to be published to when its answer was
handed to the subscriber, reconnecting at either end included.  It says what a user waits, not what a node takes.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

from chaos.publishing import Publication
from chaos.queries import NS, Query, Row

__all__ = ["PROBE_SECONDS", "Probes"]

PROBE_SECONDS: Final = 0.05
_SINGLE: Final = 3
_JOINED: Final = 2


class Probes:
    """Makes probes, and remembers when each was due and when its answer came (monotonic seconds)."""

    def __init__(self) -> None:
        self.due: dict[str, float] = {}
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
        """Return the next probe when it is due, however late the one before it was."""
        self._next = (self._next or time.monotonic()) + PROBE_SECONDS
        await asyncio.sleep(max(0.0, self._next - time.monotonic()))
        if self._stopped:
            return None
        self._number += 1
        subject, kind = f"<{NS}p/{self._number}>", self._number % (_SINGLE + _JOINED)
        self.due[subject] = self._next
        if kind < _SINGLE:
            return Publication([(subject, f"<{NS}probe/{kind}>", '"1"')], self._next)
        link, each = f"<{NS}l/{self._number}>", kind - _SINGLE
        triples = [(subject, f"<{NS}joined/{each}>", link), (link, f"<{NS}link/{each}>", '"1"')]
        return Publication(triples, self._next)

    def take(self, row: Row, now: float) -> None:
        """Take note of an answer; the first one counts."""
        self.arrived.setdefault(row[0], now)

    def delays(self, since: float, until: float) -> list[float]:
        """Return the delays of probes due within a stretch of time; infinite where no answer came."""
        return [
            self.arrived.get(subject, float("inf")) - due for subject, due in self.due.items() if since <= due < until
        ]
