"""What a subscription still has to be told: its solutions in order, until they are acknowledged.

Solutions are numbered from 1 in the order in which they came true at the home.  The log keeps
chunks of columns, not objects per row.  It holds at most ``rows_max`` unacknowledged solutions;
beyond that the oldest are dropped and the next chunk says how many were lost right before it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from p2prdf.columns import Column

__all__ = ["Chunk", "ResultLog"]


@dataclass(slots=True)
class Chunk:
    """Consecutive solutions, the first numbered ``first``; ``lost`` were dropped right before it."""

    first: int
    lost: int
    identity: Column
    born: Column
    bindings: tuple[Column, ...]

    def __len__(self) -> int:
        return len(self.identity)

    def part(self, start: int, stop: int) -> Chunk:
        """Return the solutions at places start..stop-1."""
        return Chunk(
            self.first + start,
            self.lost if start == 0 else 0,
            self.identity[start:stop],
            self.born[start:stop],
            tuple(column[start:stop] for column in self.bindings),
        )


class ResultLog:
    """The unacknowledged solutions of one subscription."""

    __slots__ = ("_chunks", "_next", "_out", "_under_way", "acknowledged", "last", "lost_total", "rows_max", "sent")

    def __init__(self, rows_max: int):
        self.rows_max = rows_max
        self._chunks: deque[Chunk] = deque()
        self._next = 0  # place of the first chunk that is not wholly handed out
        self._out: deque[tuple[int, int]] = deque()  # first and last of what is handed out, not acknowledged
        self._under_way = 0
        self.last = 0
        """Number of the newest solution."""
        self.sent = 0
        """Number of the newest solution handed out, or of which it was told that it is lost."""
        self.acknowledged = 0
        self.lost_total = 0

    def __len__(self) -> int:
        return sum(len(chunk) for chunk in self._chunks)

    def append(self, identity: Column, born: Column, bindings: tuple[Column, ...]) -> None:
        """Add solutions, dropping the oldest if the log is full."""
        self._chunks.append(Chunk(self.last + 1, 0, identity, born, bindings))
        self.last += len(identity)
        surplus = self.last - max(self.acknowledged, self._chunks[0].first - 1) - self.rows_max
        if surplus > 0:
            self._drop(surplus)

    def _drop(self, count: int) -> None:
        """Drop the oldest; whether that is a gap shows when the next is handed out."""
        while count > 0 and self._chunks:
            chunk = self._chunks[0]
            gone = min(count, len(chunk))
            count -= gone
            if gone == len(chunk):
                self._shift()
            else:
                self._chunks[0] = chunk.part(gone, len(chunk))

    def _shift(self) -> None:
        self._chunks.popleft()
        self._next = max(0, self._next - 1)

    def acknowledge(self, sequence: int) -> None:
        """Forget everything up to ``sequence``."""
        sequence = min(sequence, self.last)
        if sequence <= self.acknowledged:
            return
        self.acknowledged = sequence
        self.sent = max(self.sent, sequence)
        while self._out and self._out[0][0] <= sequence:
            first, last = self._out.popleft()
            self._under_way -= min(last, sequence) - first + 1
            if last > sequence:
                self._out.appendleft((sequence + 1, last))
        while self._chunks and self._chunks[0].first <= sequence:
            chunk = self._chunks[0]
            if chunk.first + len(chunk) - 1 <= sequence:
                self._shift()
            else:
                self._chunks[0] = chunk.part(sequence - chunk.first + 1, len(chunk))

    def rewind(self, after: int) -> None:
        """Hand out again from the solution after ``after`` on."""
        self.acknowledge(after)
        self.sent = min(after, self.last)  # what was acknowledged and is asked for again is a gap, and told
        self._out.clear()
        self._under_way = 0
        self._next = 0

    def take(self, window: int, chunk_max: int) -> Iterator[Chunk]:
        """Hand out what was not handed out, while at most ``window`` solutions are unacknowledged."""
        while self.sent < self.last and self._chunks:
            # Counted, not subtracted: what was dropped before it was handed out is not under way.
            room = min(window - self._under_way, chunk_max)
            if room <= 0:
                return
            while self._chunks[self._next].first + len(self._chunks[self._next]) - 1 <= self.sent:
                self._next += 1
            chunk = self._chunks[self._next]
            start = max(0, self.sent + 1 - chunk.first)
            part = chunk.part(start, min(len(chunk), start + room))
            part.lost = part.first - 1 - self.sent  # dropped before it was ever handed out
            self.lost_total += part.lost
            self.sent = part.first + len(part) - 1
            self._out.append((part.first, self.sent))
            self._under_way += len(part)
            yield part
