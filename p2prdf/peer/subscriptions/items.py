"""Items of a coordinator, for anti-entropy and snapshots: records, ends, solutions with their state, and leaves.

The identity of an item changes with every fact that other replicas should know: the peer that a subscription is
delivered to, the last report that was made and counted (it decides which elements leaves forget), and whether a
solution is acknowledged.  A dropped solution counts as a held one, since both are owed; a replica that lacks it
learns that it is lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from p2prdf import keys
from p2prdf.columns import Column, Columns, as_array, as_list
from p2prdf.continuous.home import SUBSCRIPTION_BITS, Home, Subscription, group_home, subscription_home
from p2prdf.continuous.leaf import Leaf
from p2prdf.peer.replication.digests import Changes, Items
from p2prdf.wire.messages import (
    Answers,
    EndSubscription,
    KeepAcknowledged,
    KeepAnswers,
    KeepReported,
    KeepRetracted,
    Message,
)
from p2prdf.wire.messages import Rows as WireRows

if TYPE_CHECKING:
    from p2prdf.peer.network.chunking import Chunker

__all__ = ["HomeItems"]

_ORDINAL_BITS: Final = 40
"""Low bits of a place; above them is the subscription's slot.  Ends have slot 0."""
_RECORD: Final = (1 << _ORDINAL_BITS) - 1
"""Ordinal of a subscription's record."""
_IDENTITIES_MAX: Final = 16_384
"""Identities in one message."""
_ENDED: Final = keys.fmix(0xE4D)
_SUBSCRIPTION_BITS: Final = np.uint64(SUBSCRIPTION_BITS)
_BARE: Final = np.uint64(2)
"""Added to the state of a solution without known values."""

U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]


class HomeItems:
    """The item type of a coordinator (:class:`p2prdf.peer.replication.anti_entropy.Kind`)."""

    dense = False
    counter = "subscriptions"

    def __init__(self, number: int, home: Home, columns: Columns, chunker: Chunker):
        self.number = number
        self._home = home
        self._columns = columns
        self._chunker = chunker
        self._answers_of: dict[int, tuple[int, U64]] = {}
        """By slot of a subscription or leaf, the version and the item identities of its solutions."""

    @property
    def version(self) -> int:
        """A number that changes with every change of the items."""
        return self._home.version

    def changes(self) -> Changes:
        """Return all items of subscriptions."""
        return Changes(True, self.items())

    def everything(self) -> Iterator[Message]:
        """Return the whole state as messages.

        Orphaned groups are no items: each peer decides for itself which groups have no subscription.
        """
        for group, record, stamp in self._home.left_records():  # first: the ends that follow orphan them
            yield record
            for leaf in group.leaves:
                if leaf.answers is not None:
                    yield from self._leaf(leaf, np.arange(len(leaf.answers)))
            yield self._ended([(record.subscription, stamp, True)])
        yield from self.messages(self.items().places)

    def items(self) -> Items:
        """Return all items of subscriptions."""
        for slot in [slot for slot in self._answers_of if slot not in self._home.by_slot]:
            del self._answers_of[slot]
        ends = self._home.ends.all()
        ring: list[U64] = [ends.names >> _SUBSCRIPTION_BITS << _SUBSCRIPTION_BITS]
        found: list[U64] = [keys.fmix_array(ends.names ^ np.uint64(_ENDED) ^ ends.subscriptions.astype(np.uint64))]
        places: list[I64] = [ends.serials]
        for subscription in self._home.subscriptions.values():
            if subscription.group.planned:
                count = self._add(subscription, found, places)
                ring.append(np.full(count, subscription_home(subscription.number), np.uint64))
        for leaf in self._home.live_leaves():
            if leaf.group.planned:
                count = self._add_leaf(leaf, found, places)
                ring.append(np.full(count, group_home(leaf.identity), np.uint64))
        return Items(np.concatenate(ring), np.concatenate(found), np.concatenate(places))

    def _add(self, subscription: Subscription, found: list[U64], places: list[I64]) -> int:
        name = keys.fmix(subscription.number)
        first = subscription.slot << _ORDINAL_BITS
        version, answers = self._answers_of.get(subscription.slot, (-1, np.zeros(0, np.uint64)))
        now = subscription.log.version + (subscription.contents.version if subscription.contents is not None else 0)
        if version != now:
            identity, done = map(as_array, subscription.log.state())
            if subscription.contents is not None and (bare := subscription.contents.bare):
                done = done + np.isin(identity, np.array(bare, np.uint64)).astype(np.uint64) * _BARE
            answers = keys.fmix_array(keys.fmix_array(identity ^ np.uint64(name)) + done)
            self._answers_of[subscription.slot] = (now, answers)
        counted = keys.fmix(subscription.counted) if subscription.counted else 0
        record = keys.fmix(name ^ subscription.changed ^ keys.fmix(subscription.reported + 1) ^ counted)
        found += [np.array([record], np.uint64), answers]
        places += [np.array([first + _RECORD], np.int64), np.arange(first, first + len(answers), dtype=np.int64)]
        return 1 + len(answers)

    def _add_leaf(self, leaf: Leaf, found: list[U64], places: list[I64]) -> int:
        assert leaf.answers is not None
        version, answers = self._answers_of.get(leaf.slot, (-1, np.zeros(0, np.uint64)))
        if version != leaf.answers.version:
            identity, oldest = np.array(leaf.answers.identity, np.uint64), np.array(leaf.answers.oldest, np.uint64)
            name = np.uint64(keys.fmix(leaf.identity))
            answers = keys.fmix_array(keys.fmix_array(identity ^ name) ^ oldest)
            self._answers_of[leaf.slot] = (leaf.answers.version, answers)
        first = leaf.slot << _ORDINAL_BITS
        found.append(answers)
        places.append(np.arange(first, first + len(answers), dtype=np.int64))
        return len(answers)

    def messages(self, places: I64) -> Iterator[Message]:
        """Return items as messages, records first: replicas refuse solutions of an unknown subscription."""
        slots = places >> _ORDINAL_BITS
        ends = [end for place in places[slots == 0].tolist() if (end := self._home.ends.at(place)) is not None]
        for start in range(0, len(ends), _IDENTITIES_MAX):
            yield self._ended(ends[start : start + _IDENTITIES_MAX])
        by_slot = [
            (owner, places[slots == slot] & _RECORD)
            for slot in np.unique(slots[slots > 0]).tolist()
            if (owner := self._home.by_slot.get(slot)) is not None
        ]
        for owner, ordinals in by_slot:
            if isinstance(owner, Subscription) and (ordinals == _RECORD).any():
                yield self._home.record_of(owner)
                if owner.reported >= 0:
                    yield KeepReported(owner.number, *owner.mark)
        for owner, ordinals in by_slot:
            wanted = np.sort(ordinals[ordinals != _RECORD])
            yield from self._leaf(owner, wanted) if isinstance(owner, Leaf) else self._answers(owner, wanted)

    def _ended(self, ends: list[tuple[int, int, bool]]) -> Message:
        make = self._columns.column
        return EndSubscription(
            make([name if subscription else 0 for name, _, subscription in ends]),
            make([0 if subscription else name for name, _, subscription in ends]),
            make([stamp for _, stamp, _ in ends]),
        )

    def _answers(self, subscription: Subscription, ordinals: I64) -> Iterator[Message]:
        """Return the state of solutions.

        Acknowledged solutions come before their values, so that the receiver does not deliver them.  Lost ones come
        after their values, which a replica ignores once it knows of the loss.
        """
        done, lost, chunks = subscription.log.export(ordinals.tolist())
        for part in _slices(done):
            yield KeepAcknowledged(subscription.number, part)
        if subscription.contents is not None:
            yield from self._contents(subscription, [*as_list(done), *as_list(lost)])
        for part in _slices(lost):
            yield KeepAcknowledged(subscription.number, part, lost=True)
        for chunk in chunks:
            for start, stop in self._chunker.slices(len(chunk), chunk.bindings):
                piece = chunk.part(start, stop)
                yield KeepAnswers(subscription.number, piece.identity, piece.born, piece.bindings)

    def _contents(self, subscription: Subscription, identities: list[int]) -> Iterator[Message]:
        """Return the solutions of a standing query that were delivered and acknowledged and are still true."""
        assert subscription.contents is not None
        rows = subscription.contents.rows
        held = [each for each in identities if each in rows]
        make = self._columns.column
        bindings = tuple(make(column, "uint32") for column in zip(*(rows[each] for each in held), strict=True))
        born = make([subscription.since] * len(held))
        identity = make(held)
        for start, stop in self._chunker.slices(len(held), bindings):
            part = tuple(column[start:stop] for column in bindings)
            yield KeepAnswers(subscription.number, identity[start:stop], born[start:stop], part)

    def _leaf(self, leaf: Leaf, ordinals: I64) -> Iterator[Message]:
        """Return the solutions of a leaf as join messages, and the retracted ones."""
        assert leaf.answers is not None
        make = self._columns.column
        for part in _slices(make(leaf.answers.withdrawn(ordinals.tolist()))):
            yield KeepRetracted(leaf.identity, leaf.answers.youngest, part)
        held = leaf.answers.held(ordinals.tolist())
        if not held:
            return
        identity, oldest, born, rows = zip(*held, strict=True)
        bindings = tuple(make(column, "uint32") for column in zip(*rows, strict=True))
        whole = tuple(map(make, (identity, oldest, born)))
        for start, stop in self._chunker.slices(len(held), bindings):
            names, oldests, times = (column[start:stop] for column in whole)
            group = self._columns.full(stop - start, 0, "uint32")
            values = tuple(column[start:stop] for column in bindings)
            yield Answers(make([leaf.identity]), WireRows(group, names, oldests, times, values))


def _slices(column: Column) -> Iterator[Column]:
    for start in range(0, len(column), _IDENTITIES_MAX):
        yield column[start : start + _IDENTITIES_MAX]
