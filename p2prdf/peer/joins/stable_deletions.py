"""Stable deletions: the stamp before which every peer has heard of all deletions and sent all their consequences.

Two low watermarks prove it.  At a cut ``at``, no message with a stamp up to ``upto`` is in flight: each peer that joins
has received the deletions up to ``upto``, and has put their retractions into its outbox.  These have stamps before the
cut.  Once a later low watermark passes ``at``, the retractions have been delivered.  Nobody derives a solution of a
deleted triple any more, and no retraction is missing, so items that ended up to ``upto`` are joined with nothing.

A peer that comes into the view may not know these deletions, so its arrival withdraws the proof until the next one.  A
deletion that arrives late refutes it up to its stamp (:meth:`p2prdf.store.tables.Tables.take_earliest_end`).

The stamp is kept on disk with the members of the view.  After a restart it holds while only those return: their disks
have the deletions, too.  A late deletion is restored after the record of the stamp, and lowers it once more.

If no peer misses a member at both low watermarks, all members that hold data know these deletions on their disks.  The
validity intervals that they ended are then forgotten (``before``).  A member that is lost stops this until it returns,
or until an administrator expels it.  Peers tell each other their proofs when a member is lost: one of them may
have missed a report, and replicas must forget the same.

Design: docs/explanation/design/deletions.md, "Stable deletions", and forgetting.md.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from p2prdf.columns import as_list
from p2prdf.peer.network.component import Component, Handlers, Restorers
from p2prdf.wire.messages import Contact, DeletionsForgotten, DeletionsStable, Message

if TYPE_CHECKING:
    from p2prdf.peer.network.messenger import Messenger
    from p2prdf.store.tables import Tables

__all__ = ["StableDeletions"]

_CUTS_MAX: Final = 16
"""Low watermarks that wait for a later one."""


class _Cut(NamedTuple):
    """A low watermark and its cut; ``whole``: no peer missed a member."""

    upto: int
    at: int
    whole: bool


class StableDeletions(Component):
    """The stable deletions of one peer, as its tables use them (``stable_before``), and the forgotten intervals."""

    def __init__(
        self, messenger: Messenger, tables: Tables, restore_first: Callable[[], None],
        expelled: Callable[[], Collection[int]] = frozenset,
    ):  # fmt: skip
        """``restore_first`` stores the restored items that came before a record of this component.

        ``expelled`` returns the expelled members, which are not missed.
        """
        self.dirty = False
        self._messenger = messenger
        self._forgets = messenger.config.forget_intervals
        self._tables = tables
        self._restore_first = restore_first
        self._cuts: list[_Cut] = []
        """Low watermarks with their cuts, since the view changed."""
        self._before = self._at = 0
        """Superseded intervals that ended before this stamp may go, as a cut proves; 0: none may."""
        self._late_at = 0
        """The clock when a deletion came last that refutes such a proof: proofs of earlier cuts do not count."""
        self._members: dict[int, None] = {}
        """The other members that this peer has ever met and that have not left."""
        self._others_miss = False
        """Whether another peer misses a member, by the last cut of this view."""
        self._expelled = expelled
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
        if not tables.ever_removed or not self._proves or not self._messenger.view:
            return False
        return tables.latest_end >= tables.stable_before or (
            tables.superseded and tables.latest_end >= self._before and self.whole and not self._others_miss
        )

    @property
    def whole(self) -> bool:
        """Whether this peer forgets intervals and misses no member."""
        return self._forgets and not self._missed()

    def _missed(self) -> list[int]:
        """Return the members that are absent, have not left and are not expelled."""
        present, expelled = {each.key for each in self._messenger.cache.contacts()}, self._expelled()
        return [key for key in self._members if key not in present and key not in expelled]

    def status(self) -> Mapping[str, object]:
        """Return the keys of missed members."""
        return {"members_missed": [f"{key:016x}" for key in self._missed()]}

    def learn(self, upto: int, at: int, *, whole: bool = False) -> None:
        """Take a low watermark of a cut; ``whole``: no peer missed a member.

        Once no deletion here is later than ``before``, it stays: low watermarks come for other reasons, too.
        """
        earliest = self._tables.take_earliest_end()
        if earliest < self._before:
            self._before, self._late_at = earliest, self._messenger.clock
            self.dirty = True
        cuts = [each for each in self._cuts if each.upto < earliest]  # later ones are refuted
        proven = max((each.upto for each in cuts if each.at <= upto), default=0)
        if self._proves and proven and proven >= self._tables.stable_before:
            self._tables.stable_before = proven + 1
            self.dirty = True
        if self._proves and whole and self._tables.latest_end >= self._before:
            at_all = max((each for each in cuts if each.whole and each.at <= upto), default=_Cut(0, 0, False))
            if at_all.upto >= max(1, self._before):
                self._before, self._at = at_all.upto + 1, at_all.at
                self.dirty = True
        self._others_miss = not whole
        self._cuts = [*(each for each in cuts if each.at > upto), _Cut(upto, at, whole)][-_CUTS_MAX:]
        self._forget_superseded()

    def _forgotten(self, members: Collection[int] = ()) -> DeletionsForgotten:
        return DeletionsForgotten(self._before, self._at, self._messenger.columns.column(sorted(members)))

    def take(self, _: Contact, message: DeletionsForgotten) -> None:
        """Take the proof of another peer, unless a deletion has come here since."""
        if self._forgets and message.before > self._before and message.at > self._late_at:
            self._before, self._at = message.before, message.at
            self.dirty = True
            self._forget_superseded()

    def _forget_superseded(self) -> None:
        """Forget what is stable here, too: late deletions and arrivals withdraw that."""
        before = min(self._before, self._tables.stable_before)
        if self._forgets and before != self._tables.superseded_before:
            self._tables.forget_superseded(before)

    def handlers(self) -> Handlers:
        """Return the handler of the proofs of other peers."""
        return {DeletionsForgotten: self.take}

    def met(self, contact: Contact) -> None:
        """Withdraw the proof: a peer has come, and its data may be from before the deletions."""
        self._cuts.clear()
        self._others_miss = False
        if self._forgets and contact.key != self._messenger.own.key:
            if contact.key not in self._members:
                self._members[contact.key] = None
                self.dirty |= self._tables.ever_removed
            if self._before:
                self._messenger.send(contact, self._forgotten())
        if contact.key in self._awaited:
            self._awaited.remove(contact.key)
        elif self._tables.stable_before:
            self.forget()

    def lost(self, contact: Contact, *, left: bool = False) -> None:
        """Forget the low watermarks of a view that has ended; miss the peer unless it has ``left``."""
        self._cuts.clear()
        self._others_miss = False
        self._awaited.discard(contact.key)
        if left:
            self.dirty |= contact.key in self._members and self._tables.ever_removed
            self._members.pop(contact.key, None)
        elif self._before:  # nothing more can be proven now
            for other in self._messenger.cache.contacts():
                if other.key not in {contact.key, self._messenger.own.key}:
                    self._messenger.send(other, self._forgotten())

    def wake(self) -> None:
        """Store the stamps on disk."""
        self._messenger.persist(self._record())
        if self._forgets:
            self._messenger.persist(self._forgotten(self._members))

    def _record(self) -> DeletionsStable:
        members = sorted(each.key for each in self._messenger.cache.contacts())
        return DeletionsStable(self._tables.stable_before, self._messenger.columns.column(members))

    # --- after a restart -------------------------------------------------------------------------

    def kept(self) -> Iterator[Message]:
        """Return the records of the stamps."""
        if self._tables.stable_before:
            yield self._record()
        if self._forgets and self._tables.ever_removed:
            yield self._forgotten(self._members)

    def restorers(self) -> Restorers:
        """Return the methods that take back the stamps."""
        return {DeletionsStable: self._restore, DeletionsForgotten: self._restore_forgotten}

    def _restore_forgotten(self, message: DeletionsForgotten) -> None:
        if not self._forgets:
            return
        self._before, self._at = message.before, message.at
        self._members = dict.fromkeys(each for each in as_list(message.members) if each != self._messenger.own.key)
        self._forget_superseded()
        self._forget_all()

    def restored(self) -> None:
        """Forget the intervals that were superseded after the last record."""
        self._restore_first()
        self._forget_all()

    def _forget_all(self) -> None:
        while self._tables.forgetting:
            self._tables.forget_some()

    def _restore(self, message: DeletionsStable) -> None:
        self._restore_first()
        self._tables.stable_before = message.upto
        if message.upto > self._messenger.stamp_bound:
            self.forget()
        self._awaited = set(as_list(message.members)) - {self._messenger.own.key}
        if self._forgets:  # a process that forgot nothing has stored these members alone
            self._members |= dict.fromkeys(sorted(self._awaited))

    def forget(self, *, superseded: bool = False) -> None:
        """Forget the stamp, here and on disk; ``superseded``: that of the forgotten intervals, too."""
        self._tables.stable_before = 0
        if superseded:
            self._before = self._at = 0
        self._forget_superseded()
        self.dirty = True
