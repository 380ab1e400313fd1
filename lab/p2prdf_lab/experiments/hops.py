"""Senders of a fleet's messages, and the hops of the messages without and with known addresses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from p2prdf_lab.fleets.finger_hops import finger_table, multisend_hops

if TYPE_CHECKING:
    import numpy.typing as npt

    from p2prdf_lab.fleets.fleet import Messages
    from p2prdf_lab.fleets.places import Places

__all__ = ["Hops", "senders"]


def senders(ring: Places, messages: Messages, publishers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the index of each message's sender; publication n enters at ``publishers[n]``."""
    if messages.origin is None:
        return publishers[messages.cause]
    return ring.owners(messages.origin)


class Hops:
    """Counts messages, and the hops of three ways to send them on a ring of Chord.

    ``alone``: each message takes its own route over fingers.  ``shared``: the messages of one publication from one peer
    at one step share the common part of their routes (recursive multisend).  ``direct``: with known addresses, the
    messages from one peer to another are one transfer.
    """

    def __init__(self, ring: Places, triples: int, seed: int):
        self._ring = ring
        self._fingers = finger_table(ring.positions)
        self._publishers = np.random.default_rng(seed).integers(0, len(ring), triples)
        self.messages = self.alone = self.shared = self.direct = 0

    def take(self, messages: Messages) -> None:
        """Count messages; every triple is published at a random peer."""
        owner = self._ring.owners(messages.key)
        source = senders(self._ring, messages, self._publishers)
        _, batch = np.unique(messages.cause * len(self._ring) + source, return_inverse=True)
        alone, shared = multisend_hops(self._ring.positions, source, messages.key, batch, self._fingers)
        self.messages += len(owner)
        self.alone += int(alone.sum())
        self.shared += shared
        self.direct += len(np.unique((batch * len(self._ring) + owner)[source != owner]))

    def row(self, label: str, triples: int) -> tuple[str | float, ...]:
        """Return a row of the traffic table, per triple."""
        counts = (self.messages, self.alone, self.shared, self.direct)
        return (label, *(round(count / triples, 2) for count in counts))
