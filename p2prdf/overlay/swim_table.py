"""The states of all other members, and the queue of states to gossip."""

from __future__ import annotations

from math import ceil, log2
from typing import TYPE_CHECKING, Final

from p2prdf.keys import fmix
from p2prdf.overlay.swim_messages import BUCKETS, GOSSIP_BYTES_MAX, Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from p2prdf.overlay.swim_config import SwimConfig

__all__ = ["GossipQueue", "Table", "pages"]

_BUCKET_SHIFT: Final = 64 - (BUCKETS.bit_length() - 1)
_MASK: Final = (1 << 64) - 1


class Table:
    """The highest known state of each other member.

    Tables that have received the same states are equal, in any order of arrival: the state of highest rank stays.  At
    most ``view_max`` - 1 members are live.  Dead members and those that left are kept for a time, so that an old state
    does not revive them and a member that was only cut off is found again.  At most ``gone_max`` are kept, the latest
    ones.
    """

    def __init__(self, config: SwimConfig):
        self._config = config
        self.living: dict[int, Record] = {}
        self.refused = 0
        """Number of refusals of a live member because the view was full."""
        self._gone: dict[int, tuple[Record, float]] = {}

    def get(self, key: int) -> Record | None:
        """Return the state of a member, None if it is unknown."""
        record = self.living.get(key)
        if record is None and key in self._gone:
            record = self._gone[key][0]
        return record

    @property
    def gone(self) -> list[Record]:
        """The dead members and those that left, the earliest first."""
        return [record for record, _ in self._gone.values()]

    def better(self, record: Record) -> bool:
        """Return whether a state outranks the known one."""
        known = self.get(record.contact.key)
        return known is None or record.rank > known.rank

    def put(self, record: Record, now: float) -> bool:
        """Store a higher state.  Returns False, and counts a refusal, for a new live member if the view is full."""
        key = record.contact.key
        if record.state.living:
            if key not in self.living and len(self.living) >= self._config.view_max - 1:
                self.refused += 1
                return False
            self._gone.pop(key, None)
            self.living[key] = record
            return True
        self.living.pop(key, None)
        self._gone.pop(key, None)
        self._gone[key] = (record, now)
        while len(self._gone) > self._config.gone_max:
            del self._gone[next(iter(self._gone))]
        return True

    def forget(self, now: float) -> None:
        """Forget members that died or left more than ``gone_seconds`` ago."""
        while self._gone:
            key, (_, at) = next(iter(self._gone.items()))
            if at > now - self._config.gone_seconds:
                return
            del self._gone[key]

    def digests(self, own: Record | None) -> tuple[int, ...]:
        """Return a digest of the live members and their incarnations for each part of the ring.

        Dead members are left out, because peers forget them at different times.  Suspicions are left out, because they
        pass.
        """
        sums = [0] * BUCKETS
        for record in (*self.living.values(), *((own,) if own is not None else ())):
            key = record.contact.key
            sums[key >> _BUCKET_SHIFT] += fmix(key ^ fmix(record.incarnation))
        return tuple(each & _MASK for each in sums)

    def of_buckets(self, buckets: list[bool], own: Record | None) -> list[Record]:
        """Return the states of all members in some parts of the ring, this peer's own included."""
        everyone = [*self.living.values(), *self.gone, *((own,) if own is not None else ())]
        return [record for record in everyone if buckets[record.contact.key >> _BUCKET_SHIFT]]


def pages(records: Iterable[Record]) -> Iterator[tuple[Record, ...]]:
    """Split states into pages that each fit one packet."""
    page: list[Record] = []
    size = 0
    for record in records:
        if size + record.bytes > GOSSIP_BYTES_MAX:
            yield tuple(page)
            page, size = [], 0
        page.append(record)
        size += record.bytes
    if page:
        yield tuple(page)


class GossipQueue:
    """The queue of states to gossip, at most one for each member.

    Each state is sent in some ``gossip_factor`` * log2 n packets, the least sent states first.
    """

    def __init__(self, config: SwimConfig):
        self._config = config
        self._sends: dict[int, tuple[int, Record]] = {}

    def __len__(self) -> int:
        """Number of states in the queue."""
        return len(self._sends)

    def add(self, record: Record) -> None:
        """Queue a state, in place of an older one of the same member."""
        self._sends.pop(record.contact.key, None)
        self._sends[record.contact.key] = (0, record)

    def take(self, bytes_max: int, members: int, first: Record | None = None) -> tuple[Record, ...]:
        """Return the states for the next packet, ``first`` in front; their send counts grow."""
        taken = [] if first is None else [first]
        size = 0 if first is None else first.bytes
        times_max = ceil(self._config.gossip_factor * log2(members + 1))
        for key, (times, record) in sorted(self._sends.items(), key=lambda item: item[1][0]):
            if size + record.bytes > bytes_max:
                break
            if first is not None and first.contact.key == key:
                continue
            taken.append(record)
            size += record.bytes
            if times + 1 >= times_max:
                del self._sends[key]
            else:
                self._sends[key] = (times + 1, record)
        return tuple(taken)

    def clear(self) -> None:
        """Empty the queue, because no other member is live."""
        self._sends.clear()
