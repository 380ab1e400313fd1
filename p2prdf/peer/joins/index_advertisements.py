"""Which roles somebody waits on, as far as this peer has heard; and what was published under too few.

By default triples are indexed under all roles of triples, and under those of events that some plan uses; with
``indexes = on-demand`` only under roles that some plan uses.  A home that needs a new role tells every
peer (``Advertise``) and stamps the subscription after all have acknowledged.  A peer that has just started on demand
indexes under all roles until a neighbour has told it which are in use.  Where some roles are fixed it indexes under
these, and asks as well if triples are replicated: roles of events are in use only if somebody waits under them, and it
may have lost its disk unseen.

A peer that was cut off meanwhile was not waited for: it counted as lost.  It knows that somebody is missing, so it
indexes under all roles; for ten minutes, then whoever is missing is taken to be gone.  And what it published before it
knew, or under other roles, lacks the new one.  So an advertisement says from when on (``since``) the role matters,
and whoever keeps triples published since then under fewer roles sends them to the keepers of the missing ones: those
it holds when it hears of the role, and those that come later from somebody who has not heard.  A table of triples does
not say in which events one was published, so for roles of events the last ``REMEMBERED_ROWS_MAX`` rows are remembered
as they came; and where nobody seemed to wait for anything, as they were published.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from p2prdf import keys
from p2prdf.columns import as_list
from p2prdf.peer.network.batches import TripleBatch, part_of_batch, youngest
from p2prdf.peer.network.component import Component, Handlers, Restorers
from p2prdf.peer.network.messenger import Exchange
from p2prdf.peer.replication.recent_batches import RememberedBatches
from p2prdf.store.tables import Tables
from p2prdf.wire.messages import Advertise, AskRoles, Contact, TellRoles

__all__ = ["REMEMBERED_ROWS_MAX", "Roles"]

REMEMBERED_ROWS_MAX: Final = 262_144
_FIRST_SECONDS: Final = 0.25
"""How often a peer looks that may have lost what others know whether it has met one of them."""

_PLAIN: Final = (1 << keys.EVENT_SHIFT) - 1
_OF_EVENTS: Final = _PLAIN << keys.EVENT_SHIFT


class Roles(Component):
    """The roles in use."""

    def __init__(self, exchange: Exchange, tables: Tables, route: Callable[[TripleBatch], None]):
        """``route`` sends triples to the replicas of the keys of their indexes."""
        self._exchange = exchange
        self._route_triples = route
        self._tables = tables
        self.advertised = exchange.config.fixed_roles
        self.settled = exchange.config.indexes != "on-demand"
        """Whether this peer may index under the roles it knows of alone."""
        self._asked = self.settled and not exchange.replicated
        self._settle_at: float | None = None
        self._remembered = RememberedBatches(exchange.columns, REMEMBERED_ROWS_MAX)
        self._since: dict[int, int] = {}
        """By stamp the roles that matter from then on, each under the earliest known."""

    @property
    def used(self) -> int:
        """The set of roles this peer indexes its publications under: all, while it may not have heard of some."""
        if self.settled and not self._exchange.members.perhaps_cut_off:
            return self.advertised
        return self._exchange.config.cautious_roles | self.advertised

    @property
    def counted(self) -> int:
        """The set of roles under which this peer can tell how much there is."""
        return self.advertised if self.settled else 0

    @property
    def deadline(self) -> float | None:
        """When others are to be asked."""
        return self._settle_at

    def handlers(self) -> Handlers:
        """Return the handlers of advertisements and of the answer to :class:`AskRoles`."""
        return {
            Advertise: lambda _, message: self.add(message.roles, message.since),
            TellRoles: lambda _, message: self.told(message),
        }

    def restorers(self) -> Restorers:
        """Return the method that takes back advertisements."""
        return {Advertise: lambda message: self.add(message.roles, message.since)}

    def status(self) -> Mapping[str, object]:
        """Return the indexes in use."""
        return {"indexes": keys.role_name(self.used), "settled": self.settled}

    # --- hearing of roles ------------------------------------------------------------------------

    def begin(self) -> None:
        """Note that the peer lives: before it asks others it takes some time to meet them."""
        if self._settle_at is None and not self._asked:
            self._settle_at = self._exchange.now + self._exchange.config.settle_seconds

    def add(self, roles: int, since: int) -> None:
        """Index under these roles from now on, and what was published from ``since`` on as well (0: nothing is).

        Two parts of a network may have come to need a role at different times: the earlier one counts.
        """
        new = roles & ~self.advertised
        earlier = self._earlier(roles, since)
        if not new | earlier:
            return
        self.advertised |= new
        self._exchange.persist(Advertise(new | earlier, since))
        if not earlier:
            return
        self._since = {at: left for at, known in self._since.items() if (left := known & ~earlier)}
        self._since[since] = self._since.get(since, 0) | earlier
        if not self._exchange.restoring:
            held = TripleBatch(*self._tables.triples_since(since))
            held.published = _OF_EVENTS  # of triples nobody knows which events they were: these are no events
            if len(held) and earlier & _PLAIN:
                self._route(held, earlier & _PLAIN)
            for batch in list(self._remembered):
                lacking = earlier & ~batch.published & (~_PLAIN if batch.published else ~0)
                if lacking and youngest(batch) >= since:
                    self._route(batch, lacking)

    def _earlier(self, roles: int, since: int) -> int:
        """Return those roles that were not known to matter from ``since`` on."""
        if not since or not self._exchange.replicated:
            return 0
        for at, known in self._since.items():
            if at <= since:
                roles &= ~known
        return roles & ~self._exchange.config.fixed_roles

    def remember(self, batch: TripleBatch) -> None:
        """Take note of triples that are stored here, as they came, or published here and stored nowhere."""
        if len(batch) and self._exchange.replicated:
            self._remembered.add(batch)

    def stored(self, batch: TripleBatch) -> None:
        """Send on what lacks roles that its publisher had not heard of, and remember it for roles that come later."""
        if not self._exchange.replicated or not len(batch):
            return
        self.remember(batch)
        lacking, time = 0, youngest(batch)
        for since, roles in self._since.items():
            if time >= since:
                lacking |= roles & ~batch.published
        if lacking:
            self._route(batch, lacking)

    def _route(self, batch: TripleBatch, roles: int) -> None:
        if roles & _OF_EVENTS and 0 in (events := as_list(batch.event)):
            # A derived fact is no event.  Under roles of events replicas would take all facts for the same one.
            kept = [place for place, event in enumerate(events) if event]
            if roles & _PLAIN:
                self._route(batch, roles & _PLAIN)
            if kept:
                columns = self._exchange.columns
                index = columns.column(kept, "int64")
                self._route(part_of_batch(columns, batch, index), roles & _OF_EVENTS)
            return
        self._exchange.trace("roles-added-late", triples=len(batch), roles=keys.role_name(roles))
        missing = self._exchange.columns.full(len(batch), roles, "uint32")
        late = TripleBatch(batch.s, batch.p, batch.o, batch.time, batch.event, missing)
        late.published = batch.published | roles
        self._route_triples(late)

    def met(self, contact: Contact) -> None:
        """Tell a peer that came, perhaps again: it may have been away when roles were advertised."""
        for message in self.kept():
            self._exchange.send(contact, message)

    def kept(self) -> list[Advertise]:
        """Return all that is known of roles."""
        found = [Advertise(roles, since) for since, roles in self._since.items()]
        rest = self.advertised & ~sum(self._since.values())
        if rest != self._exchange.config.fixed_roles:
            found.append(Advertise(rest))
        return found

    # --- asking ----------------------------------------------------------------------------------

    def wake(self) -> None:
        """Ask others which roles are waited on, once this peer has had time to meet them."""
        exchange = self._exchange
        if self._settle_at is None or exchange.now < self._settle_at:
            return
        others = [each for each in exchange.cache.contacts() if each.key != exchange.own.key]
        if exchange.members.first_at is not None:  # whoever knows may be away
            self._settle_at = exchange.now + _FIRST_SECONDS
            return
        if not others:
            self._has_settled()
            return
        self._settle_at = exchange.now + max(exchange.config.settle_seconds, 0.5)
        for contact in others[:3]:
            exchange.send(contact, AskRoles())

    def ask(self, asker: Contact) -> None:
        """Tell a peer that has just started what this one has heard."""
        for message in self.kept():
            self._exchange.send(asker, message)
        if self._exchange.members.first_at is None:  # else those who know more may be away
            self._exchange.send(asker, TellRoles(self.advertised))

    def told(self, message: TellRoles) -> None:
        """Take in what a neighbour has heard."""
        self.add(message.roles, 0)
        self._has_settled()

    def _has_settled(self) -> None:
        self.settled = self._asked = True
        self._settle_at = None
