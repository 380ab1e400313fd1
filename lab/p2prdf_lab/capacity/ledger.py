"""Counts of messages of one kind by peer, with their rows and bytes.

Every k-th message is weighed; k doubles as their number grows.  Least squares give the bytes of a message and of a row,
and from these the bytes of all.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

__all__ = ["KINDS", "ROWS_MAX", "Kind"]

I64 = npt.NDArray[np.int64]

KINDS: Final = {
    "index": "triples, to the owners of their keys",
    "forward": "partial results, to the owners of the next key",
    "answers": "answers, to the coordinators of their queries",
    "deliver": "answers, to the peers of their subscribers",
    "delivered": "subscribers' receipts, back to the coordinators",
    "settled": "replies to these receipts",
    "acknowledge": "acknowledgements of all messages",
}
"""Kinds of messages, in the order in which a triple causes them."""

ROWS_MAX: Final = 4096
"""Most rows of one message, as by the default of peers."""

_SAMPLED: Final = 256
"""Weighed messages of a kind after which only every second one is weighed, then every fourth, and so on."""


@dataclass(slots=True)
class Kind:
    """Messages of one kind: counts, rows, and the bytes of some of them.

    ``sent`` and ``received`` hold messages and rows by peer.
    """

    sent: npt.NDArray[np.int64]
    received: npt.NDArray[np.int64]
    weighed: list[tuple[int, int, int]] = field(default_factory=list)
    """Rows and bytes of weighed messages, each with the number of messages that it represents."""

    _stride: int = 1
    _skip: int = 0

    @classmethod
    def of(cls, peers: int) -> Kind:
        """Return an empty ledger."""
        return cls(np.zeros((2, peers), np.int64), np.zeros((2, peers), np.int64))

    @property
    def messages(self) -> int:
        """Number of messages."""
        return int(self.sent[0].sum())

    @property
    def rows(self) -> int:
        """Number of rows in all messages."""
        return int(self.sent[1].sum())

    def count(self, source: I64, target: I64, rows: I64) -> list[int]:
        """Count messages, split at ``ROWS_MAX``; return the indexes of those to be weighed."""
        pieces = -(-rows // ROWS_MAX)
        for peers, totals in ((source, self.sent), (target, self.received)):
            np.add.at(totals[0], peers, pieces)
            np.add.at(totals[1], peers, rows)
        while len(self.weighed) + len(rows) // self._stride > _SAMPLED * self._stride.bit_length():
            self._stride *= 2
        due = range(self._skip, len(rows), self._stride)
        self._skip = (self._skip - len(rows)) % self._stride
        return list(due)

    def weigh(self, rows: int, size: int) -> None:
        """Record the bytes of one of the messages that were counted last."""
        self.weighed.append((rows, size, self._stride))

    @property
    def unit_bytes(self) -> tuple[float, float]:
        """Bytes of a message and of each of its rows, by least squares over those weighed."""
        if not self.weighed:
            return 0.0, 0.0
        rows, size, weight = np.array(self.weighed, np.float64).T
        mean_rows, mean_size = np.average(rows, weights=weight), np.average(size, weights=weight)
        spread = float(np.average((rows - mean_rows) ** 2, weights=weight))
        slope = float(np.average((rows - mean_rows) * (size - mean_size), weights=weight)) / spread if spread else 0.0
        slope = min(max(slope, 0.0), float(mean_size / mean_rows) if mean_rows else 0.0)
        return float(mean_size - slope * mean_rows), slope

    def bytes_of(self, counts: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Return the bytes by peer, from the counts of messages and rows."""
        per_message, per_row = self.unit_bytes
        sizes: npt.NDArray[np.float64] = counts[0] * per_message + counts[1] * per_row
        return sizes

    @property
    def bytes(self) -> float:
        """Bytes of all messages."""
        return float(self.bytes_of(self.sent).sum())
