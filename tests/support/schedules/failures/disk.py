"""A simulated disk: only synced records survive a crash for certain.

Records are written and become durable in one order.  A *sync* makes all records durable that were written before it
began; later ones wait for the next sync (group commit).  Records are numbered from 1 over the life of the disk;
``written`` and ``synced`` are the last numbers.

*Compaction* replaces durable records by a snapshot.  Records are written while the snapshot is taken, and those since
its beginning are kept beside it.  So none is missing, and records in both are harmless, because replay is idempotent.
"""

from __future__ import annotations

from collections.abc import Iterable

from p2prdf.wire.messages import Message

__all__ = ["Disk", "Record"]

Record = Message | bytes
"""A persisted message: the message itself if all peers share a dictionary, otherwise its frame."""


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
        """Lose the records that are not durable, except for the first ``kept`` of them."""
        self.sync(min(self.synced + kept, self.written))
        self.written = self.synced
        self.buffer.clear()
        self._mark = None

    def lose(self) -> None:
        """Lose all records."""
        self.crash(0)
        self.durable.clear()
        self.losses += 1

    def begin_compaction(self) -> None:
        """Begin a snapshot of the state."""
        self._mark = self.written

    def end_compaction(self, snapshot: Iterable[Record]) -> None:
        """Replace all durable records from before the snapshot by the snapshot."""
        assert self._mark is not None, "a compaction that began"
        since = max(0, self.synced - self._mark)
        self.durable = [*snapshot, *self.durable[len(self.durable) - since :]]
        self.compactions += 1
        self._mark = None

    @property
    def compacting(self) -> bool:
        """Whether a snapshot is being taken."""
        return self._mark is not None
