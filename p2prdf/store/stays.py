"""Stays of triples: from a publication to a removal.

The problem.  A triple is published, removed, and perhaps published again.  Publications and removals reach the
peers that hold it in any order, more than once, and not all of them everywhere at first; yet all of them must come to
the same, and so must everybody that has derived something from it meanwhile.

The idea.  Each removal divides the time of a triple.  What is between two removals is one *stay*, named by the stamp
of the removal that it begins after (0: none).  A publication belongs to the stay that its stamp lies in, a removal
ends all stays that began before it.  So what stays there are, and which of them is over, follows from the set
of removals known, and from nothing else.  Every stay has an identity of its own, so what is derived from one is
told from what is derived from the next, and is over for good when the stay is: *a stay begins, and ends, once*.
That is all that joins, copies and homes need to agree on: the later state counts (:mod:`p2prdf.store.tables`).

Who has not heard of a removal takes what is published after it for the stay before.  That may be for long: a removal
goes under the roles that are in use then, and later ones have keepers it never came to.  So a stay that is over
is held under all roles that a later one is held under, too, for what others derived from it there is to be taken back.
And the end of a stay that is heard of under a role counts under it for all stays after that: replicas that know many
removals of a triple, and keep them under different roles, are equal once they have told each other theirs, not once
for each removal.

A removal and a publication with the same stamp: the removal counts.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterator
from typing import Final, Generic, TypeVar

from p2prdf import hlc
from p2prdf.hlc import GONE

__all__ = ["LATE", "Stays", "later_time"]

K = TypeVar("K", bound=Hashable)

LATE: Final = hlc.from_seconds(600.0)
"""A removal is not under way for longer.

A stay that was over before a query was left may have led to answers all the same: of a later publication, by somebody
who had not heard of the removal.  They are taken back if the removal is not older than this, or if the triple was heard
of since (:meth:`Stays.heard`): the removal may have gone under other roles.  Else none of it is looked at, or a new
query would have to take back answers of everything that was ever removed.
"""


def later_time(time: int, other: int) -> int:
    """Return which of two times of a stay counts: over before going on, the earlier end, the later publication."""
    if time >= GONE and other >= GONE:
        return min(time, other)
    return max(time, other)


class Stays(Generic[K]):
    """The removals known of some triples; the table keeps a row per stay with its time.

    The time of a stay is the stamp of its latest publication (0: it has none yet), or, once it is over, ``GONE`` and
    the stamp of the removal that ended it.
    """

    def __init__(self) -> None:
        self._removals: dict[K, list[int]] = {}

    def __len__(self) -> int:
        """Return the number of triples that were ever removed."""
        return len(self._removals)

    def __contains__(self, triple: K) -> bool:
        return triple in self._removals

    def publish(self, triple: K, stamp: int, lacks: Callable[[int], bool]) -> Iterator[tuple[int, int]]:
        """Yield the beginning of the stay that a publication belongs to, and its time: perhaps it is over already.

        And those of the stays before, which others may have taken it for, until one ``lacks`` none of the roles that
        the publication came under, told by its beginning: then those before that one lack none, either.
        """
        removals = self._removals.get(triple, [])
        at = bisect_left(removals, stamp)
        yield removals[at - 1] if at else 0, GONE | removals[at] if at < len(removals) else stamp
        for before in range(at - 1, -1, -1):
            begin = removals[before - 1] if before else 0
            if not lacks(begin):
                return
            yield begin, GONE | removals[before]

    def remove(
        self, triple: K, stamp: int, time_of: Callable[[int], int], lacks: Callable[[int], bool]
    ) -> Iterator[tuple[int, int, int | None]]:
        """Take note of a removal; yield the stays that it changes or makes: their beginnings and times, its own first.

        Then the stay that it ends, and those others that ``lacks`` says are not held yet under the roles that the
        removal came under; a time of 0 changes nothing.  Stays of one triple get roles from the newest to the oldest,
        so a stay that lacks none proves that all older ones lack none: a removal costs the same however many stays
        there are.

        The third value is the beginning of another stay if the publication of this one, or its end, was taken for that
        of the other until now: this one is to be held as that was.  ``time_of`` returns the time of the stay with some
        beginning, 0 if there is none.  To be called again for a removal that is known changes nothing.
        """
        removals = self._removals.setdefault(triple, [])
        at = bisect_left(removals, stamp)
        before = removals[at - 1] if at else 0
        latest = time_of(before)
        if at == len(removals) or removals[at] != stamp:
            removals.insert(at, stamp)
        newer = self._lacking(removals, len(removals), at + 1, lacks)
        if at + 1 < len(removals):
            yield stamp, GONE | removals[at + 1], before  # until now it was the end of that which ended the stay before
        elif stamp < latest < GONE:  # it was published again, and that was heard of first
            yield stamp, latest, before
        else:
            yield stamp, 0, None
        yield before, GONE | stamp, None
        for begin, _ in newer:
            yield begin, 0, None
        for begin, end in self._lacking(removals, at - 1, -1, lacks):
            yield begin, GONE | end, None

    @staticmethod
    def _lacking(
        removals: list[int], newest: int, oldest: int, lacks: Callable[[int], bool]
    ) -> Iterator[tuple[int, int]]:
        """Yield beginnings and ends of stays by number, from the newest on until one lacks nothing.

        Stay 0 begins with the triple, and stay n after the n-th removal.
        """
        for number in range(newest, oldest, -1):
            begin = removals[number - 1] if number else 0
            if not lacks(begin):
                return
            yield begin, removals[number] if number < len(removals) else 0

    def heard(self, triple: K, time_of: Callable[[int], int]) -> int:
        """Return the stamp of what was heard of a removed triple last; ``time_of`` as in :meth:`remove`."""
        last = self._removals[triple][-1]
        return max(last, time_of(last))
