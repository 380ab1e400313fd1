"""The simulated network: arrival times, losses and duplicates of transfers, and their counts.

A *hop* is one transfer from one peer to another.  Lookups, data and replies have separate counts, because the papers
do not count replies.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from p2prdf.wire.messages import Acknowledge, FindNode, Message, Nodes, NotOwner

if TYPE_CHECKING:
    from p2prdf.sim.faults import Faults

__all__ = ["Counts", "Entropy", "Network"]

_REPLIES: Final = ("Nodes", "Acknowledge", "NotOwner")
"""Messages that only answer a transfer: the papers' hop counts leave them out."""


class Entropy(Protocol):
    """The part of random.Random that the network draws from."""

    def random(self) -> float:
        """Return a number in 0..1."""
        ...

    def uniform(self, a: float, b: float) -> float:
        """Return a number between the two."""
        ...


@dataclass(slots=True)
class Counts:
    """Counts of transfers between different peers.

    ``messages``: transfers by message type, retransmissions included.  ``lost``, ``duplicated`` and ``delayed``:
    transfers with such a fault.  ``bytes``: known only if envelopes pass through the codec.
    """

    messages: Counter[str] = field(default_factory=Counter)
    lost: int = 0
    duplicated: int = 0
    delayed: int = 0
    bytes: int = 0
    lookups: int = 0
    lookup_timeouts: int = 0

    @property
    def hops(self) -> int:
        """All transfers."""
        return sum(self.messages.values())

    @property
    def hops_without_replies(self) -> int:
        """Transfers without lookup replies, acknowledgements and corrections, as the papers count."""
        return self.hops - sum(self.messages[name] for name in _REPLIES)

    @property
    def lookup_requests(self) -> int:
        """Requests of lookups."""
        return self.messages[FindNode.__name__]

    @property
    def lookup_replies(self) -> int:
        """Replies to requests of lookups."""
        return self.messages[Nodes.__name__]

    @property
    def acknowledgements(self) -> int:
        """Transfers that only acknowledge others."""
        return self.messages[Acknowledge.__name__]

    @property
    def corrections(self) -> int:
        """Transfers that only correct the sender's view of a key's owner."""
        return self.messages[NotOwner.__name__]

    @property
    def data_transfers(self) -> int:
        """Transfers that carry data: all except the other kinds."""
        overhead = self.lookup_requests + self.lookup_replies + self.acknowledgements + self.corrections
        return self.hops - overhead

    def as_dict(self) -> dict[str, object]:
        """Return all counts under stable names, for JSON."""
        return {
            "hops": self.hops,
            "hops_without_replies": self.hops_without_replies,
            "data_transfers": self.data_transfers,
            "lookups": self.lookups,
            "lookup_requests": self.lookup_requests,
            "lookup_replies": self.lookup_replies,
            "lookup_timeouts": self.lookup_timeouts,
            "acknowledgements": self.acknowledgements,
            "corrections": self.corrections,
            "lost": self.lost,
            "duplicated": self.duplicated,
            "delayed": self.delayed,
            "bytes": self.bytes,
            "messages": dict(sorted(self.messages.items())),
        }


class Network:
    """Draws the fate of every transfer from one seeded generator."""

    __slots__ = ("_random", "counts", "faults")

    def __init__(self, faults: Faults, random: Entropy):
        faults.validate()
        self.faults = faults
        self.counts = Counts()
        self._random = random

    def fate(self, message: Message) -> list[float]:
        """Return the delay of each copy of a transfer, in seconds: no copy, one or two."""
        faults, counts = self.faults, self.counts
        counts.messages[type(message).__name__] += 1
        delays = []
        if faults.loss_probability and self._random.random() < faults.loss_probability:
            counts.lost += 1
        else:
            delays.append(self._delay())
        if faults.duplicate_probability and self._random.random() < faults.duplicate_probability:
            counts.duplicated += 1
            delays.append(self._delay())
        return delays

    def _delay(self) -> float:
        faults = self.faults
        delay = faults.delay_min_seconds
        if faults.delay_max_seconds > delay:
            delay = self._random.uniform(delay, faults.delay_max_seconds)
        if faults.straggler_probability and self._random.random() < faults.straggler_probability:
            self.counts.delayed += 1
            delay += faults.straggler_seconds
        return delay
