"""Introductions: which member sent which statements and deletions to this peer first.

A member that lies publishes statements under stamps and origins of its choice.  When it is expelled, its statements
stay, and an operator must tell them from those of honest members.  Each peer therefore records the sender of each batch
of triples, and whether the sender was the origin (*first hand*).  The records of all honest peers together name all
statements that a member introduced, without signatures.

Cost: one list entry per message, and 23 bytes per statement and receiver.  Nothing on the wire; on the disk the
sender's key in records of batches from other members than the origin, and the record in snapshots.

Bounds: beyond ``introductions_max`` statements the oldest half is dropped; the record is complete from ``since`` on.
Elements of streams are left out.  ``ENDS_MAX`` ends of subscriptions are recorded in memory, with the member that
reported each first.

Design: docs/explanation/design/members-that-lie.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from p2prdf import hlc
from p2prdf.columns import Column, as_array
from p2prdf.grow import GrowingColumn
from p2prdf.peer.network.component import Component, Restorers
from p2prdf.rdf import quads
from p2prdf.wire.messages import IndexTriples, Introduced

if TYPE_CHECKING:
    from p2prdf.peer.network.batches import TripleBatch
    from p2prdf.peer.network.chunking import Chunker
    from p2prdf.peer.network.messenger import Messenger
    from p2prdf.rdf.dictionary import TermDictionary

__all__ = ["LISTED_MAX", "Introductions"]

GATHERED_MAX: Final = 1_024
"""Messages buffered before their columns are copied."""
GATHERED_ROWS_MAX: Final = 16_384
ENDS_MAX: Final = 4_096
"""Ended subscriptions with a record of the member that ended them; the oldest are dropped first."""
LISTED_MAX: Final = 500
"""Statements per answer to a list or a question about histories."""

_GONE: Final = np.uint64(hlc.GONE)
_PLAIN: Final = np.uint64(hlc.GONE - 1)
_ELEMENT: Final = np.uint64(hlc.ELEMENT)
_Gathered = tuple[int, bool, tuple[Column, Column, Column], Column]


class Introductions(Component):
    """The record of one peer."""

    def __init__(self, messenger: Messenger, dictionary: TermDictionary, chunker: Chunker):
        self._messenger = messenger
        self._dictionary = dictionary
        self._chunker = chunker
        self._max = messenger.config.introductions_max
        self._gathered: list[_Gathered] = []
        self._gathered_rows = 0
        self._members: dict[int, int] = {}
        """By key: the number of a member."""
        self._member = GrowingColumn(np.uint16)
        self._first_hand = GrowingColumn(np.bool_)
        self._terms = [GrowingColumn(np.uint32) for _ in range(3)]
        self._time = GrowingColumn(np.uint64)
        self._dropped = 0
        """Rows dropped; the number of a row is its place plus this value."""
        self.since = 0
        """The record is complete from this stamp on; 0: from the beginning."""
        self._ends: dict[int, int] = {}
        """By ended subscription: the member that reported the end first."""
        self._unknown = self._known = False
        """Whether the disk had triples without their introducer, and whether it had a record."""

    def __len__(self) -> int:
        return len(self._time) + self._gathered_rows

    # --- recording -------------------------------------------------------------------------------

    def received(self, sender: int, message: IndexTriples) -> int:
        """Record a message of another member.

        Returns the introducer for the record on the disk: the sender, or 0 if ``origin`` names it.
        """
        first_hand = message.origin == sender and not message.stamp and not message.hops
        self._note(sender, first_hand, message)
        return 0 if first_hand else sender

    def published(self, batch: TripleBatch) -> None:
        """Record a publication that this peer received from a client."""
        self._note(self._messenger.own.key, True, batch)

    def ended(self, sender: int, subscriptions: Iterable[int]) -> None:
        """Record that a member ended subscriptions."""
        for each in subscriptions if self._max else ():
            if each and each not in self._ends:
                self._ends[each] = sender
        while len(self._ends) > ENDS_MAX:
            del self._ends[next(iter(self._ends))]

    def _note(self, member: int, first_hand: bool, triples: IndexTriples | TripleBatch) -> None:
        count = len(triples)
        if not self._max or not count:
            return
        self._gathered.append((member, first_hand, (triples.s, triples.p, triples.o), triples.time))
        self._gathered_rows += count
        if len(self._gathered) >= GATHERED_MAX or self._gathered_rows >= GATHERED_ROWS_MAX:
            self._gather()

    def _gather(self) -> None:
        """Copy the buffered messages into the columns."""
        gathered, self._gathered, self._gathered_rows = self._gathered, [], 0
        if not gathered:
            return
        counts = [len(each[3]) for each in gathered]
        numbers = [self._number(each[0]) for each in gathered]
        member = np.repeat(np.array(numbers, np.uint16), counts)
        first_hand = np.repeat(np.array([each[1] for each in gathered], np.bool_), counts)
        columns = [np.concatenate([as_array(each[2][at], np.uint32) for each in gathered]) for at in range(3)]
        time = np.concatenate([as_array(each[3]) for each in gathered])
        kept = (time & _PLAIN) < _ELEMENT
        if not kept.all():
            member, first_hand, time = member[kept], first_hand[kept], time[kept]
            columns = [each[kept] for each in columns]
        self._member.append(member)
        self._first_hand.append(first_hand)
        self._time.append(time)
        for column, values in zip(self._terms, columns, strict=True):
            column.append(values)
        if len(self._time) > self._max:
            self._drop_old()

    def _number(self, key: int) -> int:
        """Return the number of a member; members beyond 65,535 share the last one, under the key 0."""
        number = self._members.get(key)
        if number is None:
            number = len(self._members)
            if number >= (1 << 16) - 1:
                key, number = 0, (1 << 16) - 1
            self._members[key] = number
        return number

    def _drop_old(self) -> None:
        """Drop the oldest half."""
        count = len(self._time) - self._max // 2
        self.since = max(self.since, int((self._time.values[:count] & _PLAIN).max()))
        self._dropped += count

        def rest(column: GrowingColumn) -> GrowingColumn:
            fresh = GrowingColumn(column.values.dtype)
            fresh.append(column.values[count:])
            return fresh

        self._member, self._first_hand, self._time = rest(self._member), rest(self._first_hand), rest(self._time)
        self._terms = [rest(each) for each in self._terms]

    # --- over restarts ---------------------------------------------------------------------------

    def restore(self, message: IndexTriples | Introduced) -> None:
        """Restore a record from the disk."""
        if isinstance(message, Introduced):
            self._known = True
            self.since = max(self.since, message.since)
            columns = (message.members, message.first_hand)
            members, first_hand = (as_array(each) for each in columns)
            differs = (np.diff(members) != 0) | (np.diff(first_hand) != 0)
            bounds = [0, *(np.flatnonzero(differs) + 1).tolist(), len(message)]
            for start, stop in pairwise(bounds if len(message) else ()):
                terms = message.s[start:stop], message.p[start:stop], message.o[start:stop]
                told = int(members[start]), bool(first_hand[start])
                self._gathered.append((*told, terms, message.time[start:stop]))
                self._gathered_rows += stop - start
            self._gather()
        elif message.introducer:
            self._note(message.introducer, False, message)
        elif message.origin:
            self._note(message.origin, not message.stamp, message)
        elif len(message):
            self._unknown = True

    def restored(self) -> None:
        """Note that the disk has been read: a disk of an older version has triples and no record."""
        if self._max and self._unknown and not self._known:
            self.since = max(self.since, hlc.from_seconds(self._messenger.now))

    def restorers(self) -> Restorers:
        """Return the method that restores records."""
        return {Introduced: self.restore}

    def status(self) -> Mapping[str, object]:
        """Return how many statements are recorded."""
        return {"introductions": len(self)}

    def kept(self) -> Iterator[Introduced]:
        """Return the record as messages, for a snapshot."""
        if not self._max:
            return
        self._gather()
        count, make = len(self._time), self._messenger.columns.column
        keys = np.array([*self._keys(), 0], np.uint64)
        member, first_hand, time = self._member.values, self._first_hand.values, self._time.values
        terms = [each.values for each in self._terms]
        if not count:
            long, short = make([], "uint64"), make([], "uint32")
            yield Introduced(self.since, long, short, short, short, short, long)
        for start, stop in self._chunker.slices(count, tuple(terms)):
            s, p, o = (make(each[start:stop].tolist(), "uint32") for each in terms)
            yield Introduced(
                self.since, make(keys[member[start:stop]].tolist(), "uint64"),
                make(first_hand[start:stop].tolist(), "uint32"), s, p, o, make(time[start:stop].tolist(), "uint64"),
            )  # fmt: skip

    def _keys(self) -> list[int]:
        return sorted(self._members, key=self._members.__getitem__)

    # --- listing ---------------------------------------------------------------------------------

    def listed(self, member: int, after: int = 0) -> dict[str, Any]:
        """Return statements that a member introduced here, from record number ``after`` on, as JSON values.

        ``next`` is the number to continue from, or None.
        """
        self._gather()
        number = self._members.get(member, -1)
        places = np.flatnonzero(self._member.values == number)
        places = places[places >= after - self._dropped]
        some = places[:LISTED_MAX]
        more = len(places) > len(some)
        return {
            "since": self.since,
            "total": int(np.count_nonzero(self._member.values == number)),
            "statements": list(self._told(some)),
            "next": int(some[-1]) + 1 + self._dropped if more else None,
            "ended": [f"{each:016x}" for each, by in self._ends.items() if by == member],
        }

    def _told(self, places: npt.NDArray[Any]) -> Iterator[dict[str, Any]]:
        """Yield statements of clients, each once per event; not the directory of graphs, nor keyword rows."""
        seen: set[tuple[Any, ...]] = set()
        columns = [each.values[places].tolist() for each in self._terms]
        for s, p, o, time in zip(*columns, self._time.values[places].tolist(), strict=True):
            if (s, p, o, time) in seen:
                continue
            seen.add((s, p, o, time))
            subject, predicate, object_ = self._dictionary.texts((s, p, o))
            if quads.is_reserved(subject) or quads.word_parts_of(predicate) is not None:
                continue
            parts = quads.parts_of(predicate)
            yield {
                "subject": subject, "predicate": parts[0] if parts else predicate, "object": object_,
                "graph": parts[1] if parts else quads.DEFAULT, "term": predicate,
                "stamp": hlc.plain(time), "deleted": time >= hlc.GONE,
            }  # fmt: skip

    def histories(self, statements: Sequence[str]) -> dict[str, Any]:
        """Return the recorded events of some statements, given as three texts each, as JSON values.

        For each statement there is a list of events: stamp, deletion or not, key of the member, first hand or not.
        """
        self._gather()
        find = self._dictionary.find
        wanted = [tuple(map(find, statements[at : at + 3])) for at in range(0, min(len(statements), 3 * LISTED_MAX), 3)]
        found: dict[tuple[int | None, ...], dict[tuple[Any, ...], None]] = {each: {} for each in wanted}
        places = np.arange(len(self._time))
        for at in (2, 0, 1):
            chosen = np.array([each[at] for each in wanted if None not in each], np.uint32)
            places = places[np.isin(self._terms[at].values[places], chosen)]
        keys = [*self._keys(), 0]
        columns = [each.values[places].tolist() for each in (*self._terms, self._time, self._member, self._first_hand)]
        for subject, predicate, object_, time, member, first_hand in zip(*columns, strict=True):
            events = found.get((subject, predicate, object_))
            if events is not None:
                key = f"{keys[min(member, len(keys) - 1)]:016x}"
                events[hlc.plain(time), time >= hlc.GONE, key, first_hand] = None
        return {"since": self.since, "histories": [[list(event) for event in found[each]] for each in wanted]}
