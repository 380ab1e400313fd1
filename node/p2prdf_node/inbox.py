"""Envelopes of other nodes that wait for their share of a turn.

A frame brings hundreds of envelopes, and processing one may cost tens of milliseconds.  So frames are decoded on
arrival, and each turn passes as many envelopes to the peer as its budget allows.  For the peer a waiting envelope is
still in flight; envelopes may overtake each other.  An impatient sender sends an envelope again; while the first copy
waits, further copies are dropped.

Bounds: above ``ROWS_MAX`` rows or ``ENVELOPES_MAX`` envelopes, connections that bring more are not read until half of
the room is free.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

import structlog

from p2prdf_node.transport import rows_of

if TYPE_CHECKING:
    from p2prdf.wire.messages import Contact, Envelope
    from p2prdf_node.connection import Connection

__all__ = ["ENVELOPES_MAX", "ROWS_MAX", "Inbox"]

ROWS_MAX: Final = 32_768
"""Rows that wait before connections are held."""
ENVELOPES_MAX: Final = 2_048
"""Envelopes that wait before connections are held."""

log = structlog.get_logger("peer")


class Inbox:
    """Decoded envelopes that wait for the peer."""

    def __init__(self) -> None:
        self._envelopes: deque[tuple[Envelope, Contact, int]] = deque()
        self._rows = 0
        self._waiting: set[tuple[int, int]] = set()
        """Sender and number of each waiting transfer."""
        self.repeated = 0
        """Number of dropped copies."""
        self._held: dict[Connection, None] = {}

    def __len__(self) -> int:
        return len(self._envelopes)

    def put(self, envelope: Envelope, sender: Contact, connection: Connection) -> None:
        """Queue an envelope, and hold its connection if too much waits."""
        if envelope.transfer:
            if (sender.key, envelope.transfer) in self._waiting:
                self.repeated += 1
                return
            self._waiting.add((sender.key, envelope.transfer))
        rows = rows_of(envelope)
        self._envelopes.append((envelope, sender, rows))
        self._rows += rows
        if (self._rows > ROWS_MAX or len(self._envelopes) > ENVELOPES_MAX) and connection not in self._held:
            connection.hold("turn")
            self._held[connection] = None

    def take(self) -> tuple[Envelope, Contact, int] | None:
        """Return the next envelope, its sender and its number of rows."""
        if not self._envelopes:
            return None
        taken = self._envelopes.popleft()
        envelope, sender, rows = taken
        self._waiting.discard((sender.key, envelope.transfer))
        self._rows -= rows
        return taken

    def release(self) -> None:
        """Read held connections again once half of the room is free."""
        if not self._held or 2 * self._rows > ROWS_MAX or 2 * len(self._envelopes) > ENVELOPES_MAX:
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
        self._envelopes.clear()
        self._waiting.clear()
        self._rows = 0
