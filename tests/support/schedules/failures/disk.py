"""A disk as a process sees it: what was written is there after a crash only if it was synced.

Records are written one after the other and become durable in that order.  A *sync* makes durable what
was written before it began; what is written meanwhile waits for the next one (group commit).
Records are counted from 1 over the whole life of the disk: ``written`` and ``synced`` are the numbers
of the last ones.

*Compaction* replaces what is durable by a snapshot.  The snapshot is taken bit by bit while records
go on being written: what was written since it began is kept beside it, so nothing is missed, and
what is in both is harmless, because records are taken in idempotently.
"""

from __future__ import annotations

from collections.abc import Iterable

from p2prdf.wire.messages import Message

__all__ = ["Disk", "Record"]

Record = Message | bytes
"""What a peer asked to keep: itself where all peers share a dictionary, else its frame."""


class Disk:
    """Records of one node, durable and not yet durable."""

    __slots__ = ("_mark", "buffer", "compactions", "durable", "losses", "synced", "written")

    def __init__(self) -> None:
        self.durable: list[Record] = []
        self.buffer: list[Record] = []
        self.written = 0
        self.synced = 0
        self.losses = 0
        self.compactions = 0
        self._mark: int | None = None  # number of the last record written before a running snapshot began

    def write(self, record: Record) -> int:
        """Write a record; return its number."""
        self.buffer.append(record)
        self.written += 1
        return self.written

    def sync(self, number: int) -> None:
        """Make every record up to this one durable."""
        count = max(0, number - self.synced)
        self.durable += self.buffer[:count]
        del self.buffer[:count]
        self.synced += count

    def crash(self, kept: int) -> None:
        """Lose what is not durable but its first ``kept`` records."""
        self.sync(min(self.synced + kept, self.written))
        self.written = self.synced
        self.buffer.clear()
        self._mark = None

    def lose(self) -> None:
        """Lose everything."""
        self.crash(0)
        self.durable.clear()
        self.losses += 1

    def begin_compaction(self) -> None:
        """Note that a snapshot of the state begins to be taken."""
        self._mark = self.written

    def end_compaction(self, snapshot: Iterable[Record]) -> None:
        """Put a snapshot in the place of every durable record from before it began."""
        assert self._mark is not None, "a compaction that began"
        since = max(0, self.synced - self._mark)
        self.durable = [*snapshot, *self.durable[len(self.durable) - since :]]
        self.compactions += 1
        self._mark = None

    @property
    def compacting(self) -> bool:
        """Whether a snapshot is being taken."""
        return self._mark is not None
