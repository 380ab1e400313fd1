"""Index advertisements: the indexes that queries use, and triples that were published under too few of them.

Triples always go into the configured indexes; ``indexes = on-demand`` configures none.  A coordinator that needs a
further index advertises it to every peer and stamps the subscription after all have acknowledged.  A peer that has
just started uses all indexes until a neighbour has told it the advertised ones.

A peer that was cut off meanwhile was not waited for.  It knows that peers are missing, and therefore uses all indexes
for up to ten minutes.  Its earlier publications lack the new index.  An advertisement therefore says from which stamp
on (``since``) the index matters, and each peer adds the index to the triples since then that lack it: to stored ones
when it hears of the index, and to later ones of publishers that have not heard of it.  Triples do not name their
events, so for indexes of events the last ``REMEMBERED_ROWS_MAX`` rows are remembered as they came.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from p2prdf import keys
from p2prdf.columns import as_list
from p2prdf.peer.network.batches import TripleBatch, part_of_batch, youngest
from p2prdf.peer.network.component import Component, Handlers, Restorers
from p2prdf.peer.network.messenger import Messenger
from p2prdf.peer.replication.recent_batches import RecentBatches
from p2prdf.store.tables import Tables
from p2prdf.wire.messages import AdvertiseIndexes, Contact, IndexesRequest, IndexesResponse

__all__ = ["REMEMBERED_ROWS_MAX", "IndexAdvertisements", "LateIndexes"]

REMEMBERED_ROWS_MAX: Final = 262_144
_FIRST_SECONDS: Final = 0.25
"""Seconds between two checks of a peer that may have lost its state whether it has met another peer."""

_PLAIN: Final = (1 << keys.EVENT_SHIFT) - 1
_OF_EVENTS: Final = _PLAIN << keys.EVENT_SHIFT


class IndexAdvertisements(Component):
    """The indexes in use, as far as this peer has heard."""

    def __init__(self, messenger: Messenger):
        self._messenger = messenger
        self.advertised = messenger.config.fixed_roles
        self.settled = messenger.config.indexes != "on-demand"
        """Whether this peer may restrict itself to the indexes that it knows of."""
        self._asked = self.settled
        """Whether this peer has asked neighbours, or need not."""
        self._settle_at: float | None = None

    @property
    def used(self) -> int:
        """The set of indexes for publications of this peer: all of them while it may not have heard of some."""
        if self.settled and not self._messenger.members.perhaps_cut_off:
            return self.advertised
        return self._messenger.config.cautious_roles | self.advertised

    @property
    def counted(self) -> int:
        """The set of indexes under which this peer can count triples."""
        return self.advertised if self.settled else 0

    @property
    def deadline(self) -> float | None:
        """The time at which neighbours are to be asked."""
        return self._settle_at

    def handlers(self) -> Handlers:
        """Return the handlers of advertisements and of the answer to :class:`IndexesRequest`."""
        return {
            AdvertiseIndexes: lambda _, message: self.add(message.roles, message.since),
            IndexesResponse: lambda _, message: self.told(message),
        }

    def restorers(self) -> Restorers:
        """Return the method that takes back advertisements."""
        return {AdvertiseIndexes: lambda message: self.add(message.roles, message.since)}

    def status(self) -> Mapping[str, object]:
        """Return the indexes in use."""
        return {"indexes": keys.role_name(self.used), "settled": self.settled}

    # --- hearing of roles ------------------------------------------------------------------------

    def begin(self) -> None:
        """Note the start of the incarnation: the peer first takes some time to meet others."""
        if self._settle_at is None and not self._asked:
            self._settle_at = self._messenger.now + self._messenger.config.settle_seconds
            self.dirty = True

    def add(self, roles: int, since: int) -> None:
        """Use these indexes from now on; only triples that were published from ``since`` on (0: none) matter."""
        if new := roles & ~self.advertised:
            self.advertised |= new
            self._messenger.persist(AdvertiseIndexes(new, since))

    def remember(self, batch: TripleBatch) -> None:
        """Remember triples that were stored here, or published here without any index."""

    def stored(self, batch: TripleBatch) -> None:
        """Add indexes that the publisher of triples had not heard of."""

    def met(self, contact: Contact) -> None:
        """Tell a peer that came, perhaps again, the advertisements that it may have missed."""
        for message in self.kept():
            self._messenger.send(contact, message)

    def kept(self) -> list[AdvertiseIndexes]:
        """Return all known advertisements."""
        if self.advertised != self._messenger.config.fixed_roles:
            return [AdvertiseIndexes(self.advertised)]
        return []

    # --- asking ----------------------------------------------------------------------------------

    def wake(self) -> None:
        """Ask neighbours for the advertised indexes, once this peer has had time to meet them."""
        messenger = self._messenger
        if self._settle_at is None or messenger.now < self._settle_at:
            return
        others = [each for each in messenger.cache.contacts() if each.key != messenger.own.key]
        if messenger.members.first_at is not None:  # peers that know more may be away
            self._settle_at = messenger.now + _FIRST_SECONDS
            return
        if not others:
            self._has_settled()
            return
        self._settle_at = messenger.now + max(messenger.config.settle_seconds, 0.5)
        for contact in others[:3]:
            messenger.send(contact, IndexesRequest())

    def ask(self, asker: Contact) -> None:
        """Tell a peer that has just started the known advertisements."""
        for message in self.kept():
            self._messenger.send(asker, message)
        if self._messenger.members.first_at is None:  # otherwise peers that know more may be away
            self._messenger.send(asker, IndexesResponse(self.advertised))

    def told(self, message: IndexesResponse) -> None:
        """Take the advertisements of a neighbour."""
        self.add(message.roles, 0)
        self._has_settled()

    def _has_settled(self) -> None:
        self.settled = self._asked = True
        self._settle_at = None


class LateIndexes(IndexAdvertisements):
    """Index advertisements that also count for triples published without the index, as far as peers have them."""

    def __init__(self, messenger: Messenger, tables: Tables, route: Callable[[TripleBatch], None]):
        """``route`` sends triples to the replicas of the keys of their indexes."""
        super().__init__(messenger)
        self._route_triples = route
        self._tables = tables
        self._asked = False  # other peers know from when on an index matters
        self._remembered = RecentBatches(messenger.columns, REMEMBERED_ROWS_MAX)
        self._since: dict[int, int] = {}
        """By stamp, the indexes that matter from then on; each index under the earliest known stamp."""

    def add(self, roles: int, since: int) -> None:
        """Use these indexes from now on, also for triples published from ``since`` on (0: for none).

        Two parts of a network may have begun to need an index at different times: the earlier time counts.
        """
        new = roles & ~self.advertised
        earlier = self._earlier(roles, since)
        if not new | earlier:
            return
        self.advertised |= new
        self._messenger.persist(AdvertiseIndexes(new | earlier, since))
        if not earlier:
            return
        self._since = {at: left for at, known in self._since.items() if (left := known & ~earlier)}
        self._since[since] = self._since.get(since, 0) | earlier
        if not self._messenger.restoring:
            held = TripleBatch(*self._tables.triples_since(since))
            held.published = _OF_EVENTS  # triples do not name their events
            if len(held) and earlier & _PLAIN:
                self._route(held, earlier & _PLAIN)
            for batch in list(self._remembered):
                lacking = earlier & ~batch.published & (~_PLAIN if batch.published else ~0)
                if lacking and youngest(batch) >= since:
                    self._route(batch, lacking)

    def _earlier(self, roles: int, since: int) -> int:
        """Return the indexes that were not known to matter from ``since`` on."""
        if not since:
            return 0
        for at, known in self._since.items():
            if at <= since:
                roles &= ~known
        return roles & ~self._messenger.config.fixed_roles

    def remember(self, batch: TripleBatch) -> None:
        """Remember triples that were stored here, or published here without any index."""
        if len(batch):
            self._remembered.add(batch)

    def stored(self, batch: TripleBatch) -> None:
        """Add indexes that the publisher of triples had not heard of, and remember the triples for later indexes."""
        if not len(batch.s):
            return
        self._remembered.add(batch)
        lacking, time = 0, youngest(batch)
        for since, roles in self._since.items():
            if time >= since:
                lacking |= roles & ~batch.published
        if lacking:
            self._route(batch, lacking)

    def kept(self) -> list[AdvertiseIndexes]:
        """Return all known advertisements."""
        found = [AdvertiseIndexes(roles, since) for since, roles in self._since.items()]
        rest = self.advertised & ~sum(self._since.values())
        if rest != self._messenger.config.fixed_roles:
            found.append(AdvertiseIndexes(rest))
        return found

    def _route(self, batch: TripleBatch, roles: int) -> None:
        if roles & _OF_EVENTS and 0 in (events := as_list(batch.event)):
            # A derived fact is no event: in indexes of events, replicas would take all facts for the same one.
            kept = [place for place, event in enumerate(events) if event]
            if roles & _PLAIN:
                self._route(batch, roles & _PLAIN)
            if kept:
                columns = self._messenger.columns
                index = columns.column(kept, "int64")
                self._route(part_of_batch(columns, batch, index), roles & _OF_EVENTS)
            return
        self._messenger.trace("roles-added-late", triples=len(batch), roles=keys.role_name(roles))
        missing = self._messenger.columns.full(len(batch), roles, "uint32")
        late = TripleBatch(batch.s, batch.p, batch.o, batch.time, batch.event, missing)
        late.published = batch.published | roles
        self._route_triples(late)
