"""Parcels of other nodes that wait for their share of a turn.

A frame brings hundreds of parcels, and processing one may cost tens of milliseconds.  So frames are decoded on
arrival, and each turn passes as many parcels to the peer as its budget allows, acknowledgements first: these free
waiting messages.  For the peer a waiting parcel is still in flight; parcels may overtake each other.  An impatient
sender sends a parcel again; while the first copy waits, further copies are dropped.

Bounds: above ``ROWS_MAX`` rows or ``PARCELS_MAX`` parcels, connections that bring more are not read until half of the
room is free.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

import structlog

from p2prdf.wire.messages import Acknowledge
from p2prdf_node.transport import rows_of

if TYPE_CHECKING:
    from p2prdf.wire.messages import Contact, Envelope
    from p2prdf_node.connection import Connection

__all__ = ["PARCELS_MAX", "ROWS_MAX", "Inbox"]

ROWS_MAX: Final = 32_768
"""Rows that wait before connections are held."""
PARCELS_MAX: Final = 2_048
"""Parcels that wait before connections are held."""

log = structlog.get_logger("peer")


class Inbox:
    """Decoded parcels that wait for the peer."""

    def __init__(self) -> None:
        self._urgent: deque[tuple[Envelope, Contact]] = deque()
        self._others: deque[tuple[Envelope, Contact]] = deque()
        self._rows = 0
        self._waiting: set[tuple[int, int]] = set()
        """Sender and number of each waiting transfer."""
        self.repeated = 0
        """Number of dropped copies."""
        self._held: dict[Connection, None] = {}

    def __len__(self) -> int:
        return len(self._urgent) + len(self._others)

    def put(self, parcel: Envelope, sender: Contact, connection: Connection) -> None:
        """Queue a parcel, and hold its connection if too much waits."""
        if isinstance(parcel.message, Acknowledge):
            self._urgent.append((parcel, sender))
            return
        if parcel.transfer:
            if (sender.key, parcel.transfer) in self._waiting:
                self.repeated += 1
                return
            self._waiting.add((sender.key, parcel.transfer))
        self._others.append((parcel, sender))
        self._rows += rows_of(parcel)
        if (self._rows > ROWS_MAX or len(self._others) > PARCELS_MAX) and connection not in self._held:
            connection.hold("turn")
            self._held[connection] = None

    def take(self, *, urgent: bool) -> tuple[Envelope, Contact] | None:
        """Return the next parcel and its sender: an acknowledgement (``urgent``), or else another parcel."""
        if urgent:
            return self._urgent.popleft() if self._urgent else None
        if not self._others:
            return None
        parcel, sender = self._others.popleft()
        self._waiting.discard((sender.key, parcel.transfer))
        self._rows -= rows_of(parcel)
        return parcel, sender

    def release(self) -> None:
        """Read held connections again once half of the room is free."""
        if not self._held or 2 * self._rows > ROWS_MAX or 2 * len(self._others) > PARCELS_MAX:
            return
        held, self._held = self._held, {}
        for connection in held:
            try:
                connection.release("turn")
            except Exception:  # one connection must not keep the others held
                log.exception("connection_failed", address=connection.address)
                connection.abort()

    def clear(self) -> None:
        """Drop everything; none of it was acknowledged."""
        self._urgent.clear()
        self._others.clear()
        self._waiting.clear()
        self._rows = 0
