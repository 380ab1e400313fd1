"""The engine of a peer: it stores triples and rows, joins them, and routes the results.

Messages that arrive between two turns are queued.  A turn works them off in batches: store and probe the rows of this
peer, route the results, and continue with results that belong to this peer again.  Rows for other peers are collected
by destination and sent at the end of the turn, so one turn sends each peer at most one message of a kind.

The way of a triple:  publish -> route_triples -> (owner) take_triples -> turn: tables.add_triples
-> route -> (owner) take_rows -> turn: tables.add_rows -> route -> ... -> on_answers: the coordinator.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np

from p2prdf import hlc, keys
from p2prdf.columns import Column, Index, as_array, as_list
from p2prdf.continuous.home import GROUP_BITS
from p2prdf.errors import P2PRDFError
from p2prdf.hlc import GONE
from p2prdf.peer.joins.audit import Audit, NoAudit
from p2prdf.peer.joins.derived_facts import DerivedFacts
from p2prdf.peer.joins.exact import ExactLeaves
from p2prdf.peer.joins.failover import Failover
from p2prdf.peer.joins.hot_keys import HotKeys
from p2prdf.peer.joins.index_advertisements import IndexAdvertisements, LateIndexes
from p2prdf.peer.joins.items import all_triples
from p2prdf.peer.joins.kept_exports import KeptExports
from p2prdf.peer.joins.keyword_index import KeywordIndex
from p2prdf.peer.joins.spread import Spread
from p2prdf.peer.joins.stable_deletions import StableDeletions
from p2prdf.peer.network.batches import (
    TripleBatch,
    joined_batches,
    part_of_batch,
    roles_by_owner,
    rows_with,
    union,
    unmarked,
    unresolved,
    youngest,
)
from p2prdf.peer.network.chunking import Chunker
from p2prdf.peer.network.component import Component, Handlers, Restorers
from p2prdf.peer.network.inbox import Arrival
from p2prdf.peer.network.messenger import Messenger
from p2prdf.peer.network.placement import NOBODY, UNKNOWN
from p2prdf.peer.network.send_buffers import SendBuffers
from p2prdf.peer.network.tracing import ANSWER, INDEX, JOIN, Work, roles_told
from p2prdf.peer.replication.introductions import Introductions
from p2prdf.peer.replication.redelivery import Publications, Redelivery
from p2prdf.peer.replication.staging import Indexing, Staging
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.rdf.query import Plan
from p2prdf.store.backlog import Backlog, part_of
from p2prdf.store.tables import NEVER, Chosen, Derived, Tables, identity_of_group
from p2prdf.wire.messages import (
    Answers,
    Contact,
    Forward,
    GroupLeases,
    GroupsGone,
    IndexesRequest,
    IndexQuery,
    IndexTriples,
    Message,
    Rows,
)

__all__ = ["Engine"]

OVER_SECONDS: Final = 120.0
"""Seconds after which new rows are not joined with an ended row, if membership has been stable as well."""
SAME_RING_SECONDS: Final = 600.0
"""Seconds of stable membership after which no other replica can have joined a new row with one that has ended."""
SETTLED_SECONDS: Final = 2.0
"""Seconds of stable membership after which this peer counts as the only one that joins under its keys."""
LOST_SECONDS: Final = 10.0
"""Seconds after the loss of a peer in which this peer is not the only one: messages of the other may come here."""
PIECE_ROWS: Final = 8192
"""Triples or rows that a step of a turn stores: larger batches gain little."""
RESTORED_AT_ONCE: Final = 8192
"""Rows of small messages that are stored at once after a restart."""



class Engine(Component):
    """The joins of one peer: it keeps and joins the data under its keys and routes all other data."""

    def __init__(
        self,
        messenger: Messenger,
        tables: Tables,
        dictionary: TermDictionary,
        on_answers: Callable[[Column, Rows], None],
        expelled: Callable[[], Collection[int]] = frozenset,
    ):
        self._messenger = messenger
        self._traces = messenger.traces
        self._tables = tables
        self._columns = tables.columns
        self._dictionary = dictionary
        self._on_answers = on_answers
        self._pace = messenger.pace
        self._placement = messenger.placement
        self._triples_in: deque[tuple[Contact, IndexTriples, Arrival | None]] = deque()
        self._rows_in: deque[tuple[Contact, Forward, Arrival | None]] = deque()
        self._not_heard: dict[Contact, dict[int, None]] = {}
        """Peers that sent data of groups that have ended here, with these groups."""
        self._queries_in: deque[tuple[Contact, IndexQuery, Arrival | None]] = deque()
        self._mine: list[TripleBatch] = []
        self._restored: list[TripleBatch] = []
        self._restored_rows = 0
        self._todo = Backlog(tables.columns)
        self._copied = Backlog(tables.columns)
        self._kept = Backlog(tables.columns)
        """Rows to store without a join: another peer is their primary."""
        self._rejoins: deque[Chosen] = deque()
        self._rejoining: Iterator[list[Derived]] | None = None
        self.chunker = Chunker(messenger, dictionary, tables.columns)
        self.introductions = Introductions(messenger, dictionary, self.chunker)
        self.failover = Failover(messenger, self.rejoin)
        self.staging: Indexing
        self.redelivery: Publications
        self.hot: Spread
        self.indexes: IndexAdvertisements
        self.audit: NoAudit
        if messenger.placement.replicated:
            self.staging = Staging(messenger, self.chunker, self._keep_whole, self.route_triples)
            self.redelivery = Redelivery(messenger, self.staging.index)
            self.hot = Spread(messenger)
            self.indexes = LateIndexes(messenger, tables, self.route_triples)
            self.audit = Audit(messenger, tables, self._send_audited, lambda: self.idle)
            messenger.signals.index_widened.connect(self.failover.again)
        else:
            self.staging = Indexing(messenger, self.route_triples)
            self.redelivery = Publications()
            self.hot = HotKeys(messenger, tables, dictionary, self._copy)
            self.indexes = IndexAdvertisements(messenger)
            self.audit = NoAudit()
        self.exact = ExactLeaves(tables, dictionary, messenger.placement.leads)
        self.kept_exports = KeptExports(messenger, tables, dictionary)
        self.words = KeywordIndex(messenger, tables, dictionary, self.indexes, self.route_triples)
        self._out = SendBuffers(messenger, tables, self.chunker, self.redelivery.complete)
        self.forwards = self._out.forwards
        self.stable_deletions = StableDeletions(messenger, tables, self._store_restored, expelled)
        self.derived_facts = DerivedFacts(messenger, tables, dictionary, self.redelivery, self.indexes,
            self.route_triples)
        messenger.recovery.requires(lambda: not self.rejoining and not self.hot.unsettled and self.indexes.settled)
        self._view = -1
        self._same_ring_since = 0.0
        self._settled = 0
        """The value for :attr:`p2prdf.store.tables.Tables.settled`; copied rows of a hot key are joined with 0."""
        self.has_queries = False
        """Whether a query has waited here at any time."""

    # --- contract --------------------------------------------------------------------------------

    @property
    def parts(self) -> tuple[Component, ...]:
        """The components that the engine consists of."""
        return (
            self.redelivery, self.introductions, self.hot, self.indexes, self.words, self.derived_facts, self.audit,
            self.kept_exports, self.stable_deletions,
        )  # fmt: skip

    def handlers(self) -> Handlers:
        """Return the handlers of triples, partial results and queries, and of the end and lease of groups."""
        return {
            IndexTriples: self.take_triples,
            Forward: self.take_rows,
            IndexQuery: self.take_queries,
            GroupsGone: lambda _, message: self.end_groups(as_list(message.groups)),
            GroupLeases: lambda _, message: self._tables.extend_leases(as_list(message.groups), as_list(message.lease)),
            IndexesRequest: self._ask_roles,
        }

    def _ask_roles(self, sender: Contact, _: IndexesRequest) -> None:
        for message in self.words.kept():
            self._messenger.send(sender, message)
        self.indexes.ask(sender)

    def restorers(self) -> Restorers:
        """Return the methods that take back triples, partial results, queries and ended groups."""
        return {
            IndexTriples: self.restore,
            Forward: self.restore,
            IndexQuery: self.restore,
            GroupsGone: lambda message: self.end_groups(as_list(message.groups)),
        }

    def kept(self) -> Iterator[Message]:
        """Return all triples, and the groups that are known to have ended."""
        yield from all_triples(self._tables, self)
        if ended := self._tables.ended_groups():
            yield GroupsGone(self._columns.column(ended))

    def status(self) -> Mapping[str, object]:
        """Return the sizes and counters of the tables."""
        sizes = self._tables.sizes()
        return {
            "terms": len(self._dictionary),
            "triples": sizes.triples,
            "index_entries": sizes.triple_roles,
            "elements": sizes.elements,
            "elements_forgotten": sizes.elements_forgotten,
            "elements_late": sizes.elements_late,
            "rows_forgotten": sizes.rows_forgotten,
            "intervals_forgotten": sizes.intervals_forgotten,
            "queries": sizes.queries,
            "rows": sizes.rows,
            "groups": sizes.groups,
            "plans": sizes.plans,
            "table_bytes": sizes.bytes,
            "processing_load": sizes.processing_load,
            "storage_load": sizes.storage_load,
            "pairs_joined": sizes.joined,
            "pairs_outside_window": sizes.too_wide,
            "recomputing": self.rejoining,
        }

    # --- taking in -------------------------------------------------------------------------------

    def take_triples(self, sender: Contact, message: IndexTriples) -> None:
        """Queue triples of another peer."""
        self._triples_in.append((sender, message, self._messenger.inbox.current))

    def take_rows(self, sender: Contact, message: Forward) -> None:
        """Queue partial results of another peer."""
        self._rows_in.append((sender, message, self._messenger.inbox.current))

    def take_queries(self, sender: Contact, message: IndexQuery) -> None:
        """Queue queries that are to wait here."""
        self._queries_in.append((sender, message, self._messenger.inbox.current))

    @property
    def idle(self) -> bool:
        """Whether no message is queued, and no row is to be stored or sent."""
        return not (
            self._triples_in or self._rows_in or self._queries_in or self._mine or self._todo.parts
            or self._copied.parts or self._kept.parts or self._out.filled or self.hot.restless
        )  # fmt: skip

    @property
    def rejoining(self) -> bool:
        """Whether joins are being recomputed, one piece per turn."""
        return self._rejoining is not None or bool(self._rejoins)

    # --- a turn ----------------------------------------------------------------------------------

    def turn(self) -> None:
        """Process queued messages and send rows to other peers until the budget of the turn is spent.

        At least one step is done.  The next call continues; until then the engine is not idle.

        Publications that wait for their first turn leave before this peer stores its own part of them.  So their
        messages precede its record among the effects, and owners write to their disks while this peer writes to its own
        (docs/explanation/design/storage.md).
        """
        self._note_ring()
        if self._out.filled:
            self._out.send()
        self._tables.settled = self._settled
        self.hot.turn()
        while (self._accept_next() or self._store_next()) and not self._pace.over:
            pass
        if self._out.filled:
            self._out.send()
        self._traces.turn_over()

    def _accept_next(self) -> bool:
        """Accept the next queued message, queries first; return whether there was one."""
        if self._queries_in:
            sender, query, arrival = self._queries_in.popleft()
            self._guarded(self._accept_queries, sender, query, arrival)
            self._pace.did()
        elif self._triples_in:
            sender, triples, arrival = self._triples_in.popleft()
            self._accept_triples(sender, triples, arrival)
            self._pace.did(len(triples.s))
        elif self._rows_in:
            sender, forward, arrival = self._rows_in.popleft()
            self._guarded(self._accept_rows, sender, forward, arrival)
            self._pace.did(len(forward.rows.group))
        else:
            return False
        if not (self._triples_in or self._rows_in or self._queries_in):
            self._tell_ended()
        return True

    def _store_next(self) -> bool:
        """Store and join the next piece of the rows that this peer keeps; return whether there was one."""
        if self._mine:
            self._store_mine()
        elif self._todo.parts or self._copied.parts or self._kept.parts:
            self._store_rows()
        else:
            return False
        return True

    def _note_ring(self) -> None:
        """Set the age from which on ended rows are skipped, and whether this peer joins alone."""
        messenger, view = self._messenger, self._messenger.view
        if view != self._view:
            self._view, self._same_ring_since = view, messenger.now
        settled = messenger.now >= self._same_ring_since + SAME_RING_SECONDS
        self._tables.over_before = hlc.from_seconds(messenger.now - OVER_SECONDS) if settled else 0
        self._settled = hlc.from_seconds(messenger.now) if self._joins_alone() else 0

    def _joins_alone(self) -> bool:
        """Return whether no other peer joins, or may have joined lately, the data under the keys of this peer."""
        messenger = self._messenger
        return (
            self._tables.ever_removed and messenger.now >= self._same_ring_since + SETTLED_SECONDS
            and not messenger.members.lost_within(LOST_SECONDS) and messenger.recovery.complete
        )  # fmt: skip

    def rejoin(self, chosen: Chosen) -> None:
        """Recompute the joins of all rows under chosen keys, one piece per call of :meth:`rejoin_some`."""
        if chosen not in self._rejoins:
            self._rejoins.append(chosen)

    def rejoin_some(self) -> None:
        """Recompute the next piece of joins."""
        if self._rejoining is None:
            if not self._rejoins:
                return
            self._rejoining = self._tables.rejoin(self._rejoins.popleft())
        piece = next(self._rejoining, None)
        if piece is None:
            self._rejoining = None
            return
        for derived in piece:
            self.route(derived)

    def _guarded(
        self, accept: Callable[[Contact, Any, Arrival | None], None], sender: Contact, message: Any,
        arrival: Arrival | None,
    ) -> None:  # fmt: skip
        """Accept a message; refuse it alone if its plan cannot be executed."""
        try:
            accept(sender, message, arrival)
        except P2PRDFError as error:
            self._messenger.trace("message-refused", code=error.code, reason=str(error), sender=str(sender))

    def _store_mine(self) -> None:
        mine = self._take_mine()
        for each in mine:
            self.hot.count_triples(each)
            self._note(each)
            self.words.stored(each)
            if self.kept_exports.held:
                self.kept_exports.stored(each)
        batch = joined_batches(self._columns, mine)
        self.audit.sample_triples(batch)
        probed = self.hot.probed(batch.roles)
        batch.roles = unmarked(batch.roles)
        work = self._traces.work("index", INDEX, self._traces.of_batches(mine)) if self._traces.live else None
        for derived in self._tables.add_triples(*batch.columns(), probed):
            if not self.exact.tells(derived.plan):
                self._route(derived, work)
        if self.exact.active:
            for derived in self.exact.derive(batch, probed):
                self._route(derived, work)
        if work is not None:
            work.end(roles=roles_told(union(batch.roles)))
        if self.derived_facts.active:
            self.derived_facts.take_triples(batch.s, batch.p, batch.o)
        self._pace.did(len(batch.s))
        for each in mine:
            if each.tokens:
                self._messenger.release(each.tokens)

    def _take_mine(self) -> list[TripleBatch]:
        """Return queued triples, batch by batch, up to ``PIECE_ROWS``."""
        rows = count = 0
        while count < len(self._mine) and rows < PIECE_ROWS:
            rows += len(self._mine[count].s)
            count += 1
        mine, self._mine = self._mine[:count], self._mine[count:]
        return mine

    def _route(self, rows: Derived, work: Work | None) -> None:
        """Route results, and record those of traced publications."""
        if work is not None:
            work.derived(rows)
        self.route(rows)

    def _note(self, batch: TripleBatch) -> None:
        """Persist triples, remember their unfinished publication, and add indexes that their publisher did not know."""
        self.redelivery.note(batch)
        if self._messenger.config.durable:
            self._messenger.persist(batch.message())
        if batch.published and not (self.words.digest and self.words.only_words(batch)):
            self.indexes.stored(batch)

    def _store_rows(self) -> None:
        if self._kept.parts:
            rows = self._kept.take(PIECE_ROWS)
            self._pace.did(len(rows))
            self.audit.sample_rows(rows)
            work = self._traced_rows(rows) if self._traces.live else None
            self._keep_rows(rows)
            self._tables.add_rows(rows, self._columns.full(len(rows), 0, "bool"))
            if work is not None:
                work.end(step=rows.step, kept=True)
            self._note_derivations(rows)
            return
        copied = not self._todo.parts
        rows = (self._copied if copied else self._todo).take(PIECE_ROWS)
        self._pace.did(len(rows))
        self.hot.count_rows(rows, copied=copied)
        if not copied:
            self.hot.copy_rows(rows)
        work = self._traced_rows(rows) if self._traces.live else None
        self._keep_rows(rows)
        self._tables.settled = 0 if copied else self._settled
        for derived in self._tables.add_rows(rows):
            self._route(derived, work)
        self._tables.settled = self._settled
        if work is not None:
            work.end(step=rows.step)
        self._note_derivations(rows)

    def _traced_rows(self, rows: Derived) -> Work | None:
        return self._traces.work("join", JOIN, self._traces.found((rows.born, rows.oldest)))

    def _note_derivations(self, rows: Derived) -> None:
        if rows.plan.concludes and rows.step == len(rows.plan.steps) - 1:
            self.derived_facts.take_rows(rows)

    def _keep_rows(self, rows: Derived) -> None:
        if self._messenger.config.durable:
            for message in self._out.forwards(rows):
                self._messenger.persist(message)

    def restore(self, message: IndexTriples | Forward | IndexQuery) -> None:
        """Restore a record of the earlier incarnation, without a join."""
        tables, full = self._tables, self._columns.full
        match message:
            case IndexTriples():
                batch = TripleBatch.received(message, introducer=message.introducer)
                self.introductions.restore(message)
                self.redelivery.note(batch)
                indexed = union(batch.roles) != 0  # 0: the triples are staged only
                if batch.published and indexed:
                    self.indexes.remember(batch)
                self.words.note_restored(batch)
                self._messenger.advance(youngest(batch))
                if indexed:
                    self._restored.append(batch)
                    self._restored_rows += len(batch)
                if self._restored_rows >= RESTORED_AT_ONCE:
                    self._store_restored()
            case Forward():
                self.has_queries = True
                rows = self._rows_of(message)
                tables.add_rows(rows, full(len(rows), 0, "bool"))
                self._note_derivations(rows)
            case IndexQuery():
                self.has_queries = True
                group = tables.add_groups(message.plan, message.groups)
                probed = full(len(group), 0, "bool")
                tables.add_queries(message.plan, message.step, group, message.refresh, probed)
                self.exact.add(message.plan, group)

    def restored(self) -> None:
        """Store the last restored triples."""
        self._store_restored()

    def _store_restored(self) -> None:
        """Store the triples of many messages at once, which is much faster than message by message."""
        batches, self._restored, self._restored_rows = self._restored, [], 0
        if batches:
            whole = joined_batches(self._columns, batches)
            not_joined = self._columns.full(len(whole), 0, "uint32")
            self._tables.add_triples(*whole.columns()[:5], unmarked(whole.roles), not_joined)

    # --- triples ---------------------------------------------------------------------------------

    def _accept_triples(self, sender: Contact, message: IndexTriples, arrival: Arrival | None) -> None:
        """Keep the triples that this peer owns; pass the others on and correct the sender."""
        introducer = self.introductions.received(sender.key, message)
        batch = TripleBatch.received(message, hops=message.hops, sender=sender, introducer=introducer)
        roles = union(message.roles)
        if not roles:
            self._keep_whole(batch)
            return
        agreed = message.view and message.view == self._messenger.view
        if agreed and (roles >> keys.MARK_SHIFT & 0xFF == 0 or self.hot.keeps_all(batch, roles)):
            self._mine.append(batch)
            return
        if message.hops >= self._placement.row_hops_max:
            self._stray("triples", len(batch), sender)
            batch.roles = _all_joined(batch.roles)
            self._mine.append(batch)
            return
        batch.tokens = self._messenger.inbox.keep(arrival)
        self._spread(batch, arrived=True)
        self._messenger.release(batch.tokens)

    def _keep_whole(self, batch: TripleBatch) -> None:
        """Stage triples that are indexed elsewhere, or later, until their publication is complete."""
        self.redelivery.note(batch)
        self._messenger.persist(batch.message())

    def _stray(self, what: str, rows: int, sender: Contact) -> None:
        """Count rows that stay here although they may belong to other peers: the views of peers differ."""
        self._messenger.trace("hops-exhausted", what=what, rows=rows, sender=str(sender))
        self._messenger.note_misplaced(rows)

    def route_triples(self, batch: TripleBatch) -> None:
        """Send each triple to the replicas of its key under each of its indexes."""
        batch.sender = None
        self._spread(batch, arrived=False)

    def _spread(self, batch: TripleBatch, *, arrived: bool) -> None:
        """Split a batch by destination, under each index; with replicas the first destination joins it.

        ``arrived``: the batch came from another peer, and triples that this peer keeps go no further.
        """
        columns, messenger, placement = self._columns, self._messenger, self._placement
        if messenger.members.short_of_peers and not arrived:
            messenger.wait_for_peers(partial(self.route_triples, batch), batch.tokens)
            return
        few = self.hot.few(batch, self._dictionary.hash_array(), arrived=arrived)
        if few is not None:
            self._hand_over_parts(batch, few, [])
            return
        roles_met = union(batch.roles)
        places: list[tuple[int, Index | None, Column, Column | None]] = []
        unknown: dict[int, None] = {}
        for role in range(8):
            bits = roles_met & (1 << role | 1 << (role + keys.EVENT_SHIFT))
            if not bits:
                continue
            index = rows_with(batch.roles, bits)
            part = batch if index is None else part_of_batch(columns, batch, index)
            ring = self._tables.triple_keys(role, part.s, part.p, part.o)
            ring, destinations = self.hot.spread(role, part, ring, arrived=arrived)
            places += [(bits, index, owners, marks) for owners, marks in destinations]
            if missing := unresolved(ring, destinations[0][0]):
                unknown.update(dict.fromkeys(placement.wanted(missing)))
        self._hand_over_parts(batch, roles_by_owner(len(batch), places, batch.roles), list(unknown))

    def _hand_over_parts(
        self, batch: TripleBatch, parts: Sequence[tuple[int, Column]], unknown: list[int]
    ) -> None:
        columns = self._columns
        for owner, roles in parts:
            if owner == NOBODY:
                continue
            if isinstance(roles, list):
                if all(roles):
                    part = replace(batch, roles=columns.column(roles, "uint32"))
                    self._hand_over(owner, part, unknown)
                    continue
                index = columns.column([at for at, bits in enumerate(roles) if bits], "int64")
                roles = columns.column(roles, "uint32")
            else:
                index = np.flatnonzero(roles)
            part = part_of_batch(columns, batch, index)
            part.roles = columns.take(roles, index)
            self._hand_over(owner, part, unknown)

    def _hand_over(self, owner: int, part: TripleBatch, unknown: list[int]) -> None:
        messenger = self._messenger
        if part.sender is not None and owner != 0:
            part.hops += 1
        if owner < 0:
            messenger.park(unknown, partial(self.route_triples, part), part.tokens)
            return
        if part.tokens:
            messenger.hold(part.tokens)
        if self._traces.current:
            self._traces.routed(INDEX, messenger.contact(owner).key)
        if owner == 0:
            self._mine.append(part)
        else:
            if part.sender is not None:
                self._placement.passed(part.sender, messenger.contact(owner))
            self._out.add_triples(owner, part)

    # --- queries ---------------------------------------------------------------------------------

    def _widened(self, refresh: int) -> None:
        """Recompute the joins of this peer if it has heard late of a subscription.

        A new subscription comes with a refresh, which does so for the data that it waits for.
        """
        if self._tables.take_widened() and not refresh:
            self._messenger.signals.index_widened.emit()

    def _accept_queries(self, sender: Contact, message: IndexQuery, arrival: Arrival | None) -> None:
        plan, step = message.plan, message.step
        group = self._tables.add_groups(plan, message.groups)
        self._note_ended(sender, plan, group)
        self.audit.groups_came(message.groups.ids)
        self._widened(message.refresh)
        messenger, placement = self._messenger, self._placement
        if plan.steps[step].role == keys.ANY:
            self._install(message, group, joined=placement.leads_any(keys.BUCKET_KEYS))
            return
        if not placement.known or message.hops >= placement.hops_max:
            self._stray("queries", len(group), sender)
            self._install(message, group)
            return
        ring = as_list(self._tables.query_keys(plan, step, group))
        by_keepers: dict[tuple[int, ...], list[int]] = {}
        for place, keepers in enumerate(placement.keepers(ring)):
            by_keepers.setdefault(keepers, []).append(place)
        for keepers, places in sorted(by_keepers.items()):
            part = self._columns.take(group, self._columns.column(places, "int64"))
            if 0 in keepers:
                self._install(message, part, joined=keepers[0] == 0)
            else:
                messenger.not_mine(sender, messenger.contact(keepers[0]))
                self._pass_on_queries(message, part, keepers, arrival)

    def _pass_on_queries(
        self, message: IndexQuery, group: Column, owners: Sequence[int], arrival: Arrival | None
    ) -> None:
        messenger = self._messenger
        groups, _ = self._tables.export_groups(message.plan, group)
        tokens = messenger.inbox.keep(arrival)
        for owner in owners:
            passed = replace(message, groups=groups, hops=message.hops + 1)
            messenger.send(messenger.contact(owner), passed, tokens)
        messenger.release(tokens)

    def _install(self, message: IndexQuery, group: Column, *, joined: bool = True) -> None:
        """Store groups that wait for the pattern of a step."""
        self.has_queries = True
        if self._messenger.config.durable:
            groups, _ = self._tables.export_groups(message.plan, group)
            self._messenger.persist(replace(message, groups=groups, hops=0))
        if message.step == 0:
            rows = self._as_rows(message, group)
            self.hot.count_rows(rows, copied=False)
            self.hot.copy_rows(rows)
        probed = None if joined else self._columns.full(len(group), 0, "bool")
        self.exact.add(message.plan, group)
        for derived in self._tables.add_queries(message.plan, message.step, group, message.refresh, probed):
            self.route(derived)

    def _as_rows(self, message: IndexQuery, group: Column) -> Derived:
        """Return queries that wait for their first pattern as rows of the tables."""
        full, count = self._columns.full, len(group)
        ids = self._tables.group_ids(message.plan, group)
        identity: Column = [identity_of_group(each) for each in ids] if isinstance(ids, list) else keys.fmix_array(ids)
        return Derived(message.plan, 0, group, identity, full(count, NEVER), full(count, 0), (), message.refresh)

    def end_groups(self, ids: list[int]) -> None:
        """Forget groups and their waiting rows, here and at the holders of split keys."""
        self._messenger.persist(GroupsGone(self._columns.column(ids)))
        self.hot.end_groups(ids)
        self._tables.end_groups(ids)
        self.exact.end_groups(ids)
        self.derived_facts.end_groups(ids)

    def release_ended(self) -> None:
        """Release the ended groups of the tables, if this peer holds no rows by the number of a group."""
        if self._tables.has_ended and self.idle and not self._messenger.parked:
            self._tables.release_ended()

    def _note_ended(self, sender: Contact, plan: Plan, group: Column) -> None:
        """Note the ended groups of data that another peer sent, to tell it.

        Replicas compare rows of live groups only.  A peer that has not heard of the end would offer its rows in every
        comparison, and the others would fetch and drop them, until its lease of the group runs out.
        """
        if self._messenger.placement.replicated and sender.key != self._messenger.own.key:
            ended = self._tables.ended_among(plan, group)
            if ended:
                self._not_heard.setdefault(sender, {}).update(dict.fromkeys(ended))

    def _tell_ended(self) -> None:
        """Tell peers the ends of groups of which they sent data."""
        not_heard, self._not_heard = self._not_heard, {}
        for sender, ended in not_heard.items():
            self._messenger.send(sender, GroupsGone(self._columns.column(list(ended))))

    # --- rows ------------------------------------------------------------------------------------

    def _rows_of(self, message: Forward) -> Derived:
        """Return the rows of a message with the group numbers of this peer."""
        numbers = self._tables.add_groups(message.plan, message.groups)
        if message.step == 0:
            self.exact.add(message.plan, numbers)
        if not self._messenger.restoring:
            self._widened(message.refresh)
        rows = message.rows
        return Derived(
            message.plan, message.step, self._columns.take(numbers, self._index(rows.group)),
            rows.identity, rows.oldest, rows.born, rows.bindings, message.refresh,
        )  # fmt: skip

    def _accept_rows(self, sender: Contact, message: Forward, arrival: Arrival | None) -> None:
        """Keep the rows under keys that this peer owns; pass the others on."""
        derived = self._rows_of(message)
        self._note_ended(sender, message.plan, derived.group)
        self.has_queries = True
        if message.copied:
            self._copied.add(derived)
            return
        messenger, placement = self._messenger, self._placement
        if message.suspect:
            if message.view == messenger.view:
                self._take_audited(sender, derived, message.suspect, kept=message.kept)
            return
        if message.view and message.view == messenger.view:
            (self._kept if message.kept else self._todo).add(derived)
            return
        if message.plan.steps[message.step].role == keys.ANY:
            (self._todo if placement.leads_any(keys.BUCKET_KEYS) else self._kept).add(derived)
            return
        if not placement.known or message.hops >= placement.row_hops_max:
            self._stray("rows", len(derived), sender)
            self._todo.add(derived)
            return
        ring = self._tables.row_keys(derived)
        ranks = placement.destinations(ring, arrived=True)
        tokens = messenger.inbox.keep(arrival)
        for rank, owners in enumerate(ranks):
            placement.note_passing(tokens, ring, owners)
            for owner in self._split_rows(derived, ring, owners, message.hops + 1, tokens, kept=rank > 0):
                placement.passed(sender, messenger.contact(owner))
        messenger.release(tokens)

    def _index(self, column: Column) -> Index:
        index: Index = column if isinstance(column, list) else column.astype(np.int64)
        return index

    def route(self, rows: Derived) -> None:
        """Send new rows to the keys of their next step, or to the coordinator after the last one."""
        if rows.step == len(rows.plan.steps):
            if not rows.plan.concludes:  # a derivation: its fact is published by the fact's owner
                self._route_answers(rows)
            return
        if rows.plan.steps[rows.step].role == keys.ANY:
            self._route_to_buckets(rows)
            return
        self._route_by_key(rows, 0, ())

    def _route_by_key(self, rows: Derived, hops: int, tokens: tuple[int, ...]) -> None:
        ring = self._tables.row_keys(rows)
        for rank, owners in enumerate(self._placement.destinations(ring)):
            self._split_rows(rows, ring, owners, hops, tokens, kept=rank > 0)

    def _split_rows(
        self, rows: Derived, ring: Column, owners: Column, hops: int, tokens: tuple[int, ...], *, kept: bool = False
    ) -> list[int]:
        """Split rows by destination; return the contact numbers of the other peers."""
        away = []
        again = partial(self._route_by_key, hops=hops, tokens=tokens)
        for owner, part in self._parts(rows, ring, owners, JOIN, again, tokens):
            if owner == 0:
                (self._kept if kept else self._todo).add(part)
            else:
                self._out.add_rows(owner, part, hops, tokens, kept=kept)
                away.append(owner)
        return away

    def _parts(
        self, rows: Derived, ring: Column, owners: Column, work: int, again: Callable[[Derived], None],
        tokens: tuple[int, ...] = (),
    ) -> Iterator[tuple[int, Derived]]:  # fmt: skip
        """Yield the rows for each known destination; ``again`` routes the others when lookups have found theirs."""
        for owner, index in self._columns.split(owners):
            if owner == NOBODY:
                continue
            part = part_of(rows, index, self._columns)
            if owner == UNKNOWN:
                wanted = self._placement.wanted(as_list(self._columns.take(ring, index)))
                self._messenger.park(wanted, partial(again, part), tokens)
                continue
            if self._traces.current:
                self._traces.routed(work, self._messenger.contact(owner).key)
            yield owner, part

    def _route_to_buckets(self, rows: Derived) -> None:
        """Let a row that waits for any triple wait at every bucket."""
        self._route_to_keys(rows, list(keys.BUCKET_KEYS))

    def _route_to_keys(self, rows: Derived, ring: list[int]) -> None:
        """Send rows to the peers of all these keys; wait for lookups of unknown ones."""
        ranks = map(as_list, self._placement.owners(self._columns.column(ring)))
        by_key = list(zip(*ranks, strict=True))
        first = {keepers[0] for keepers in by_key}
        for owner in sorted({number for keepers in by_key for number in keepers}):
            kept = owner not in first
            if owner == 0:
                (self._kept if kept else self._todo).add(rows)
            elif owner > 0:
                self._out.add_rows(owner, rows, 0, kept=kept)
        unknown = [key for key, keepers in zip(ring, by_key, strict=True) if keepers[0] == UNKNOWN]
        if unknown:
            self._messenger.park(self._placement.wanted(unknown), partial(self._route_to_keys, rows, unknown))

    def _copy(self, holder: Contact, rows: Derived, tokens: tuple[int, ...]) -> None:
        """Send rows to a holder of sub-keys: at the end of the turn, or now if a completion counter waits for them."""
        number = self._messenger.cache.number(holder)
        if tokens:
            self._messenger.hold(tokens)
            self._out.send_rows(number, 0, 0, rows, tokens, copied=True)
        elif number > 0:
            self._out.add_copies(number, rows)

    # --- audits ----------------------------------------------------------------------------------

    def _send_audited(self, rows: Derived, suspect: int) -> None:
        """Send rows or solutions to the peers to which the primary ``suspect`` should have sent them."""
        messenger, last = self._messenger, rows.step == len(rows.plan.steps)
        if (last and rows.plan.concludes) or (not last and rows.plan.steps[rows.step].role == keys.ANY):
            return
        if last:
            rows, ring = self._with_homes(rows)
        else:
            ring = self._tables.row_keys(rows)
        for rank, owners in enumerate(self._placement.destinations(ring)):
            for owner, index in self._columns.split(owners):
                part = part_of(rows, index, self._columns)
                if owner < 0:
                    continue
                if last:
                    for groups, rows_found in self._out.answers([part]):
                        answers = Answers(groups, rows_found, 0, suspect)
                        if owner == 0:
                            messenger.to_self.append(answers)
                        else:
                            messenger.send(messenger.contact(owner), answers)
                elif owner == 0:
                    self._take_audited(messenger.own, part, suspect, kept=rank > 0)
                else:
                    for message in self._out.forwards(part, 0, messenger.view, kept=rank > 0):
                        messenger.send(messenger.contact(owner), replace(message, suspect=suspect))

    def _take_audited(self, sender: Contact, rows: Derived, suspect: int, *, kept: bool) -> None:
        """Store rows that a primary did not send, and report how many of them were missing."""
        before = self._tables.sizes().rows
        probed = self._columns.full(len(rows), 0, "bool") if kept else None
        self._keep_rows(rows)
        for derived in self._tables.add_rows(rows, probed):
            self.route(derived)
        self._note_derivations(rows)
        self.audit.found(suspect, self._tables.sizes().rows - before, sender)

    # --- answers ---------------------------------------------------------------------------------

    def _route_answers(self, rows: Derived) -> None:
        """Send solutions to the coordinators of their groups."""
        rows, homes = self._with_homes(rows)
        for owners in self._placement.owners(homes):
            for owner, part in self._parts(rows, homes, owners, ANSWER, self.route):
                if owner == 0:
                    for groups, answers in self._out.answers([part]):  # they are stored as one message
                        self._on_answers(groups, answers)
                else:
                    self._out.add_answers(owner, part)

    def _with_homes(self, rows: Derived) -> tuple[Derived, Column]:
        """Return solutions with their identities at coordinators, and the keys of these coordinators."""
        if rows.plan.distinct:
            rows = self._still_true(rows)
            rows = replace(rows, identity=self._distinct_identities(rows))
        ids = self._tables.group_ids(rows.plan, rows.group)
        if isinstance(ids, list):
            homes: Column = [each >> GROUP_BITS << GROUP_BITS for each in ids]
        else:
            shift = np.uint64(GROUP_BITS)
            homes = ids >> shift << shift
        return rows, homes

    def _still_true(self, rows: Derived) -> Derived:
        """Return the solutions without retracted ones: another derivation of an equal solution may be valid."""
        left = [at for at, oldest in enumerate(as_list(rows.oldest)) if oldest != GONE]
        return rows if len(left) == len(rows) else part_of(rows, self._columns.column(left, "int64"), self._columns)

    def _distinct_identities(self, rows: Derived) -> Column:
        """Return identities that depend on the values alone, so that equal solutions are one."""
        ids = self._tables.group_ids(rows.plan, rows.group)
        if isinstance(ids, list):
            hashes = self._dictionary.hashes
            found = [identity_of_group(each) for each in ids]
            for place, column in enumerate(rows.bindings):
                found = [
                    each + keys.contribution(hashes[term], place) & (1 << 64) - 1
                    for each, term in zip(found, column, strict=True)
                ]
            return found
        table = self._dictionary.hash_array()
        array = keys.fmix_array(as_array(ids))
        for place, column in enumerate(rows.bindings):
            array = array + keys.contributions(table[column], place)
        return array

    # --- churn -----------------------------------------------------------------------------------

    def reroute(self, message: Message, tokens: tuple[int, ...]) -> bool:
        """Route a message again after the loss of its receiver; return False for messages of other components.

        Its hop count stays (see the outbox).
        """
        if isinstance(message, IndexTriples):
            self.route_triples(TripleBatch.received(message, hops=message.hops, tokens=tokens))
            return True
        if isinstance(message, Forward):
            if message.copied:  # the owner of the key has the rows, and copies them to the present holders
                return True
            rows = self._rows_of(message)
            if rows.plan.steps[rows.step].role == keys.ANY:  # the bucket is unknown: send it to all of them
                self._route_to_buckets(rows)
            else:
                self._route_by_key(rows, message.hops, tokens)
            return True
        if isinstance(message, Answers):
            self.pass_on_answers(message, tokens)
            return True
        return False

    def pass_on_answers(self, message: Answers, tokens: tuple[int, ...]) -> None:
        """Route solutions that belong to other peers by the keys of their coordinators.

        Each group is routed alone: without address cache only one coordinator is known at a time.
        """
        ids = as_list(message.groups)
        for place, index in self._columns.split(message.rows.group):
            part = self.chunker.of_one_group(message.rows, index)
            groups, home = self._columns.column([ids[place]]), ids[place] >> GROUP_BITS << GROUP_BITS
            owners = self._messenger.placement.replica_set(home)
            if owners is None:
                waiting = Answers(groups, part, message.hops)
                self._messenger.park([home], partial(self.pass_on_answers, waiting, tokens), tokens)
                continue
            for owner in owners:
                if owner.key == self._messenger.own.key:
                    self._on_answers(groups, part)
                else:
                    self._messenger.send(owner, Answers(groups, part, message.hops + 1), tokens)


def _all_joined(roles: Column) -> Column:
    """Return sets of indexes marked so that the receiver is the primary under all of them."""
    every = 0xFF << keys.PRIMARY_SHIFT
    return [each | every for each in roles] if isinstance(roles, list) else roles | roles.dtype.type(every)

