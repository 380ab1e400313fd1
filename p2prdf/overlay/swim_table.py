"""What a member believes of all others, and the news it passes on."""

from __future__ import annotations

from math import ceil, log2
from typing import TYPE_CHECKING, Final

from p2prdf.keys import fmix
from p2prdf.overlay.swim_messages import BUCKETS, NEWS_BYTES_MAX, Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from p2prdf.overlay.swim_config import SwimConfig

__all__ = ["News", "Table", "pages"]

_BUCKET_SHIFT: Final = 64 - (BUCKETS.bit_length() - 1)
_MASK: Final = (1 << 64) - 1


class Table:
    """The best belief about each other member.

    Two tables into which the same beliefs were put are equal, in whatever order they came: of each member the
    one of the highest rank stays.  The living are at most ``view_max`` less the own peer.  The others are kept
    for a time, so that an old belief does not bring them back, and so that who was only cut off is found
    again; at most ``gone_max`` of them, the longest gone forgotten first.
    """

    def __init__(self, config: SwimConfig):
        self._config = config
        self.living: dict[int, Record] = {}
        self.refused = 0
        """Members not taken in, because the view was full."""
        self._gone: dict[int, tuple[Record, float]] = {}

    def get(self, key: int) -> Record | None:
        """Return what is believed of a member, if anything."""
        record = self.living.get(key)
        if record is None and key in self._gone:
            record = self._gone[key][0]
        return record

    @property
    def gone(self) -> list[Record]:
        """The dead and those who left, longest gone first."""
        return [record for record, _ in self._gone.values()]

    def better(self, record: Record) -> bool:
        """Return whether a belief is new: of higher rank than what is believed."""
        known = self.get(record.contact.key)
        return known is None or record.rank > known.rank

    def put(self, record: Record, now: float) -> bool:
        """Take in a better belief.  Returns False, and counts, if it is of one living too many."""
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
        """Forget those who have been gone for long."""
        while self._gone:
            key, (_, at) = next(iter(self._gone.items()))
            if at > now - self._config.gone_seconds:
                return
            del self._gone[key]

    def digests(self, own: Record | None) -> tuple[int, ...]:
        """Return for each part of the ring a number made of its living members and their incarnations.

        Those who are gone are left out, as they are forgotten at other times by others.  So are
        suspicions: they pass.
        """
        sums = [0] * BUCKETS
        for record in (*self.living.values(), *((own,) if own is not None else ())):
            key = record.contact.key
            sums[key >> _BUCKET_SHIFT] += fmix(key ^ fmix(record.incarnation))
        return tuple(each & _MASK for each in sums)

    def of_buckets(self, buckets: list[bool], own: Record | None) -> list[Record]:
        """Return all beliefs about members in some parts of the ring, the own peer among them."""
        everyone = [*self.living.values(), *self.gone, *((own,) if own is not None else ())]
        return [record for record in everyone if buckets[record.contact.key >> _BUCKET_SHIFT]]


def pages(records: Iterable[Record]) -> Iterator[tuple[Record, ...]]:
    """Cut beliefs into pieces that each fit one packet."""
    page: list[Record] = []
    size = 0
    for record in records:
        if size + record.bytes > NEWS_BYTES_MAX:
            yield tuple(page)
            page, size = [], 0
        page.append(record)
        size += record.bytes
    if page:
        yield tuple(page)


class News:
    """Beliefs to pass on, with everything that is said: each some ``news_factor`` log2 n times, the least told first.

    There is at most one for each member.
    """

    def __init__(self, config: SwimConfig):
        self._config = config
        self._told: dict[int, tuple[int, Record]] = {}

    def __len__(self) -> int:
        """Number of beliefs still to be passed on."""
        return len(self._told)

    def add(self, record: Record) -> None:
        """Pass a belief on from now on, instead of an older one about the same member."""
        self._told.pop(record.contact.key, None)
        self._told[record.contact.key] = (0, record)

    def take(self, bytes_max: int, members: int, first: Record | None = None) -> tuple[Record, ...]:
        """Return what the next packet tells, ``first`` in front; they count as told once more."""
        taken = [] if first is None else [first]
        size = 0 if first is None else first.bytes
        times_max = ceil(self._config.news_factor * log2(members + 1))
        for key, (times, record) in sorted(self._told.items(), key=lambda item: item[1][0]):
            if size + record.bytes > bytes_max:
                break
            if first is not None and first.contact.key == key:
                continue
            taken.append(record)
            size += record.bytes
            if times + 1 >= times_max:
                del self._told[key]
            else:
                self._told[key] = (times + 1, record)
        return tuple(taken)

    def clear(self) -> None:
        """Pass nothing on: there is nobody."""
        self._told.clear()
