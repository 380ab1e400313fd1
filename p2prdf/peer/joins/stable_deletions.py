"""Stable deletions: the stamp before which every peer has heard of all deletions and sent all their consequences.

Two low watermarks prove it.  At a cut ``at``, no message with a stamp up to ``upto`` is in flight: each peer that joins
has received the deletions up to ``upto``, and has put their retractions into its outbox.  These have stamps before the
cut.  Once a later low watermark passes ``at``, the retractions have been delivered.  Nobody derives a solution of a
deleted triple any more, and no retraction is missing, so items that ended up to ``upto`` are joined with nothing.

A peer that comes into the view may not know these deletions, so its arrival withdraws the proof until the next one.  A
deletion that arrives late refutes it up to its stamp (:meth:`p2prdf.store.tables.Tables.take_earliest_end`).

The stamp is kept on disk with the members of the view.  After a restart it holds while only those return: their disks
have the deletions, too.  A late deletion is restored after the record of the stamp, and lowers it once more.

Design: docs/explanation/design/deletions.md, "Stable deletions".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from p2prdf.columns import as_list
from p2prdf.peer.network.component import Component, Restorers
from p2prdf.wire.messages import Contact, DeletionsStable

if TYPE_CHECKING:
    from p2prdf.peer.network.messenger import Messenger
    from p2prdf.store.tables import Tables

__all__ = ["StableDeletions"]

_CUTS_MAX: Final = 16
"""Low watermarks that wait for a later one."""


class StableDeletions(Component):
    """The stable deletions of one peer, as its tables use them (``stable_before``)."""

    def __init__(self, messenger: Messenger, tables: Tables, restore_first: Callable[[], None]):
        """``restore_first`` stores the restored items that came before a record of this component."""
        self.dirty = False
        self._messenger = messenger
        self._tables = tables
        self._restore_first = restore_first
        self._cuts: list[tuple[int, int]] = []
        """Low watermarks with their cuts, since the view changed."""
        self._awaited: set[int] = set()
        """The members at the last record before a restart that have not returned yet."""

    @property
    def _proves(self) -> bool:
        """Whether deletions reach all peers that join: each goes under all indexes."""
        config = self._messenger.config
        return config.indexes == "all" and not config.keyword_routing

    @property
    def wanted(self) -> bool:
        """Whether a low watermark is wanted: a deletion is not stable yet."""
        tables = self._tables
        return tables.ever_removed and tables.latest_end >= tables.stable_before and self._proves and (
            self._messenger.view != 0
        )  # fmt: skip

    def learn(self, upto: int, at: int) -> None:
        """Take a low watermark of a cut."""
        earliest = self._tables.take_earliest_end()
        cuts = [each for each in self._cuts if each[0] < earliest]  # later ones are refuted
        proven = max((each[0] for each in cuts if each[1] <= upto), default=0)
        if self._proves and proven and proven >= self._tables.stable_before:
            self._tables.stable_before = proven + 1
            self.dirty = True
        self._cuts = [*(each for each in cuts if each[1] > upto), (upto, at)][-_CUTS_MAX:]

    def met(self, contact: Contact) -> None:
        """Withdraw the proof: a peer has come, and its data may be from before the deletions."""
        self._cuts.clear()
        if contact.key in self._awaited:
            self._awaited.remove(contact.key)
        elif self._tables.stable_before:
            self.forget()

    def lost(self, contact: Contact) -> None:
        """Forget the low watermarks of a view that has ended."""
        self._cuts.clear()
        self._awaited.discard(contact.key)

    def wake(self) -> None:
        """Store the stamp on disk."""
        self._messenger.persist(self._record())

    def _record(self) -> DeletionsStable:
        members = sorted(each.key for each in self._messenger.cache.contacts())
        return DeletionsStable(self._tables.stable_before, self._messenger.columns.column(members))

    # --- after a restart -------------------------------------------------------------------------

    def kept(self) -> Iterator[DeletionsStable]:
        """Return the record of the stamp."""
        if self._tables.stable_before:
            yield self._record()

    def restorers(self) -> Restorers:
        """Return the method that takes back the stamp."""
        return {DeletionsStable: self._restore}

    def _restore(self, message: DeletionsStable) -> None:
        self._restore_first()
        self._tables.stable_before = message.upto
        if message.upto > self._messenger.stamp_bound:
            self.forget()
        self._awaited = set(as_list(message.members)) - {self._messenger.own.key}

    def forget(self) -> None:
        """Forget the stamp, here and on disk."""
        self._tables.stable_before = 0
        self.dirty = True
