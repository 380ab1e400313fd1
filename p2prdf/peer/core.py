"""One overlay node as a state machine: requests and messages in, effects out, no input or output.

The duties of a driver:

1. Make one :class:`Peer` with its contact, and report other peers by ``ContactSeen`` and ``ContactLost`` as its overlay
   learns of them.
2. Pass the time to every call, in seconds since the epoch, monotonic.
3. Carry out the effects of a call in their order; complete each ``Persist`` before any later ``Send`` of the same list
   goes out.
4. Pass each received envelope to ``receive``, with its sender.  Envelopes may be lost, repeated and reordered: the peer
   repeats unacknowledged messages, and duplicates are harmless.
5. Keep one timer: when ``deadline`` is reached (at once, if it is not after now), call ``wake``.  ``receive`` mostly
   only stores a message; ``wake`` processes the messages since then in batches.
6. Answer ``FindOwner(key)`` by ``OwnersFound``: live peers closest to the key, this one included.
7. Number requests uniquely; each ends in one ``Completed``.  ``Notify`` delivers solutions to the subscriber.  Without
   its ``AcknowledgeAnswers``, delivery stops after a window.
8. While ``busy`` is true, accept no new publications.
9. While ``turn_open`` is true, the last turn has spent its budget and is not over: call ``wake`` again soon, and until
   then pass only acknowledgements to the peer.  It acknowledges no message before the turn is over.

A bad message never raises out of ``receive``: it is traced and dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from math import inf
from typing import Any, Protocol

from p2prdf import hlc, keys
from p2prdf.columns import ARRAYS, LISTS, Columns, as_list
from p2prdf.continuous.home import Home, subscription_home
from p2prdf.errors import Busy, NodeLeaving, P2PRDFError, StampRefused
from p2prdf.peer.entry.entry import ClientEdge
from p2prdf.peer.entry.exports import Exports
from p2prdf.peer.explain.explain import Explanations
from p2prdf.peer.explain.listing import listed
from p2prdf.peer.joins.engine import Engine
from p2prdf.peer.joins.items import HOME, TRIPLES, table_kinds
from p2prdf.peer.network.cluster import Cluster
from p2prdf.peer.network.component import Component, earliest, merged
from p2prdf.peer.network.config import PeerConfig
from p2prdf.peer.network.expulsions import ExpelledMembers
from p2prdf.peer.network.messenger import Messenger
from p2prdf.peer.network.pace import Pace
from p2prdf.peer.progress.end_of_stream import StreamEnds
from p2prdf.peer.progress.event_watermarks import Sources
from p2prdf.peer.progress.low_watermark import Known, LowWatermarks, Source
from p2prdf.peer.progress.retention import Retention
from p2prdf.peer.progress.stable_reads import StableReads
from p2prdf.peer.replication.anti_entropy import AntiEntropy, Kind
from p2prdf.peer.replication.conditions import Conditions
from p2prdf.peer.replication.one_copy import OneCopy
from p2prdf.peer.replication.redelivery import Redelivery
from p2prdf.peer.subscriptions.coordinator import Coordinator
from p2prdf.peer.subscriptions.items import HomeItems
from p2prdf.rdf.compiled import compile_filter
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.store.columnar import ColumnarTables
from p2prdf.store.light import LightTables
from p2prdf.store.tables import Tables
from p2prdf.wire import contract, messages
from p2prdf.wire.contract import Effect, Request
from p2prdf.wire.messages import Contact, Envelope, Message
from p2prdf.wire.stamps import LEASED, Anchor, latest, restamped, with_leases_until

__all__ = ["Entropy", "Peer"]

_EXPIRED_GROUPS_MAX = 10_000
_FEWER_SECONDS = 1.0
"""Seconds until a client should retry if nodes are missing: nodes started together meet within it."""
_FULL_SECONDS = 60.0
"""Seconds until a client should retry if a peer is full."""
_WHILE_CLOSING = (messages.Acknowledge, messages.NotOwner, messages.Leaving, messages.IdentityList, messages.Fetch)
"""The messages that a leaving peer still accepts: those that its last offers need."""
_LEADS_TO_ANSWERS = (messages.IndexTriples, messages.Forward, messages.Answers)
"""The messages of which a low watermark reports that none is in flight.

When it has passed, the other replicas have their content as well, even from a peer outside the view.
"""


class Entropy(Protocol):
    """A source of randomness; ``random.Random`` fits."""

    def random(self) -> float:
        """Return a number in [0, 1)."""
        ...

    def getrandbits(self, k: int, /) -> int:
        """Return ``k`` random bits."""
        ...


class Peer:
    """One overlay node.  The module's docstring has the contract."""

    def __init__(
        self,
        contact: Contact,
        config: PeerConfig,
        dictionary: TermDictionary,
        columns: Columns = ARRAYS,
        entropy: Entropy | None = None,
        pace: Pace | None = None,
    ):
        """``pace`` measures the work of turns; without it a nominal cost counts."""
        self.contact = contact
        self.config = config
        self.dictionary = dictionary
        make_tables = LightTables if columns is LISTS else ColumnarTables
        first_transfer = entropy.getrandbits(48) if entropy is not None else 0
        draw = entropy.getrandbits if entropy is not None else None
        messenger = self._messenger = Messenger(contact, config, columns, first_transfer, pace, draw)
        self._pace = messenger.pace
        placement = messenger.placement
        self._tables: Tables = make_tables(
            dictionary, compile_filter, placement.leads, forgets=config.forget_intervals
        )
        self._expulsions = ExpelledMembers(messenger)
        engine = self._engine = Engine(
            messenger, self._tables, dictionary, self._answers_here, lambda: self._expulsions.keys
        )
        home = Home(
            self._tables.columns, log_rows_max=config.solutions_pending_max,
            log_characters_max=config.retention_bytes, characters_of=engine.chunker.characters_of,
            own=contact.key, to_check=messenger.signals.home_changed.emit, hash_of=lambda term: dictionary.hashes[term],
        )  # fmt: skip
        sources = Sources(config.stream_idle_seconds)
        self._retention = Retention(messenger, self._tables, home, sources, keys.term_hash)
        self._stream_ends = StreamEnds(messenger)
        home_items = HomeItems(HOME, home, columns, engine.chunker)
        self._kinds: list[Kind] = [home_items, self._stream_ends, *table_kinds(self._tables, engine)]
        self._anti_entropy: AntiEntropy | OneCopy
        if messenger.placement.replicated:
            assert isinstance(engine.redelivery, Redelivery), "several copies are completed by redelivery"
            self._anti_entropy = AntiEntropy(messenger, self._kinds, (HOME,), engine.redelivery, first_transfer)
        else:
            self._anti_entropy = OneCopy(messenger)
        self._coordinator = Coordinator(messenger, engine, self._tables, dictionary, home, self._retention)
        self._conditions = Conditions(
            messenger, dictionary, self._tables.latest_news, self._subject_key,
            lambda key: engine.hot.depth(keys.S, key) > 0,
        )  # fmt: skip
        self._edge = ClientEdge(messenger, engine, self._coordinator, self._conditions, dictionary, sources)
        self._exports = Exports(messenger, engine.kept_exports)
        self._explanations = Explanations(messenger, self._tables, dictionary, self._coordinator, engine.indexes)
        self._low_watermarks = LowWatermarks(
            messenger, lambda: self._coordinator.owes, self._low_watermark_learned, self._sources, self._retention.mark,
            self._queued, lambda: engine.stable_deletions.whole,
        )  # fmt: skip
        self._stable_reads = StableReads(
            messenger, self._tables, self._queued, lambda: self._edge.issued, engine.chunker.characters_of
        )
        self._cluster = Cluster(messenger, settled=lambda: self._anti_entropy.settled)
        self._lease = hlc.from_seconds(config.group_lease_seconds)
        self._view = 0
        self._begun = False
        self._unfinished = False
        """Whether publications of an earlier process may need redelivery."""
        self._check_leases_at: float | None = None
        self.turn_open = False
        """Whether the last turn stopped at its budget, with unprocessed items left."""
        self._ring_changed = False
        """Whether the known ring has changed since the last :meth:`wake`."""
        self.stamps_refused = 0
        """Messages of other peers refused because of a stamp from the future."""
        self.stamps_corrected = 0
        """Records on the disk that had a stamp from the future when this process began."""
        self._components: tuple[Component, ...] = (
            messenger, self._cluster, self._expulsions, *engine.parts, *self._anti_entropy.parts, engine,
            self._stream_ends, self._retention, self._low_watermarks, self._stable_reads, *self._coordinator.parts,
            self._coordinator, self._conditions, self._edge, self._edge.one_time, self._exports, self._explanations,
        )  # fmt: skip
        self._after_engine: tuple[tuple[str, Component], ...] = (
            *(("subscriptions", each) for each in self._coordinator.parts), ("subscriptions", self._coordinator),
            ("subscriptions", self._conditions), ("subscriptions", self._edge),
            ("subscriptions", self._edge.one_time), ("subscriptions", self._explanations),
            ("upkeep", engine.kept_exports), ("upkeep", self._exports),
            *(("repair", each) for each in self._anti_entropy.parts), ("upkeep", engine.redelivery),
        )  # fmt: skip
        """The components that a turn wakes after its first joins, with the share of the turn of each."""
        self._at_end: tuple[tuple[str, Component], ...] = (
            ("watermarks", self._low_watermarks), ("watermarks", self._stable_reads),
            ("watermarks", engine.stable_deletions),
            ("subscriptions", self._cluster),
        )  # fmt: skip
        self._timed = [each for each in self._components if type(each).deadline is not Component.deadline]
        self._handlers = merged(_owned(each, each.handlers()) for each in self._components)
        self._requests = merged(_owned(each, each.requests()) for each in self._components)
        self._requests[contract.Leave] = (self._anti_entropy, self._leave)
        self._requests[contract.Expel] = (self._expulsions, self._expel)
        messenger.signals.caught_up.connect(self._wake_all)
        messenger.signals.handoff_done.connect(self._wake_all)
        self._restorers: dict[type[Message], list[Callable[[Any], None]]] = {}
        for component in self._components:
            for kind, restore in component.restorers().items():
                self._restorers.setdefault(kind, []).append(restore)

    # --- the contract ----------------------------------------------------------------------------

    def submit(self, request: Request, *, now: float) -> list[Effect]:
        """Handle a request of the local application or the driver.

        Raises nothing: a failure ends in ``Completed(request, Failed(...))``.
        """
        self._begin(now)
        match request:
            case (
                contract.Publish() | contract.EndStream() | contract.Subscribe() | contract.Explain()
                | contract.BeginExport() | contract.ReadExport()
            ) if self._messenger.recovery.closing:
                failed = contract.Failed(NodeLeaving.code, "this peer is leaving")
                self._messenger.effects.append(contract.Completed(request.request, failed))
            case contract.OwnersFound():
                self._note_ring()
                self._messenger.owners_found(request)
            case contract.ContactSeen():
                self._note_ring()
                self._meet(request.contact, request.zone)
                self._cluster.met(request.contact)
            case contract.ContactLost():
                self._note_ring()
                self._cluster.lost(request.contact)
                self._contact_lost(request.contact, left=request.left)
            case contract.SeedsReached():
                self._wake_all()
                self._messenger.members.seeds_reached = True
                self._messenger.peers_came()
            case contract.ClusterEntered():
                self._cluster.enter()
            case _:
                component, serve = self._requests[type(request)]
                component.dirty = True
                serve(request)
        return self._end()

    def receive(self, envelope: Envelope, *, sender: Contact, now: float) -> list[Effect]:
        """Handle an envelope of another peer."""
        self._begin(now, envelope.clock)
        self._messenger.merge(envelope.clock)
        if sender.key in self._expulsions.keys:
            return self._end()
        if self._messenger.recovery.closing and not isinstance(envelope.message, _WHILE_CLOSING):
            return self._end()  # not acknowledged, so its sender sends it to other peers
        inbox, message = self._messenger.inbox, envelope.message
        if inbox.begin(sender, envelope.transfer):
            if (stamp := latest(message)) > self._messenger.stamp_bound:
                self._refuse_stamp(sender, message, stamp)
                inbox.refuse()  # not acknowledged, so its sender repeats it, perhaps after a restart
            else:
                if isinstance(message, _LEADS_TO_ANSWERS) and not self._messenger.is_known(sender):
                    self._anti_entropy.heard_stranger()
                if type(message) in LEASED:
                    message = with_leases_until(message, self._leases_end)
                self._handle(sender, message)
            inbox.end()
        return self._end()

    def wake(self, *, now: float) -> list[Effect]:
        """Process all arrivals and due work, until the budget of the turn is spent.

        An unfinished turn stays open (``turn_open``), and the next call continues it.
        """
        self._begin(now)
        self._pace.begin("engine")
        self._follow_view()
        if not self.turn_open:
            self._begin_turn()
        elif self._anti_entropy.is_urgent:
            self._pace.enter("repair")
            self._anti_entropy.answer_first()
        if self._work_off():
            self._end_turn()
            self.turn_open = False
        else:
            self.turn_open = True
        self._pace.enter("")
        return self._end()

    def _begin_turn(self) -> None:
        """Process all arrived messages, and do all due work."""
        engine, enter = self._engine, self._pace.enter
        self._wake((("engine", engine.indexes),))
        engine.turn()
        if engine.rejoining:
            enter("rejoin")
            engine.rejoin_some()
        self._wake((("upkeep", engine.audit),))
        if self._tables.forgetting:
            self._tables.forget_some()
        for contact in self._messenger.resend():
            self._contact_lost(contact)
        self._wake(self._after_engine)
        if self._check_leases_at is None or self._messenger.now >= self._check_leases_at:
            self._check_leases()
        if engine.idle:
            self._wake((("upkeep", engine.derived_facts),))

    def _wake(self, components: Iterable[tuple[str, Component]]) -> None:
        """Wake the components that are dirty or due; the work of each counts for a share of the turn."""
        now = self._messenger.now
        for share, each in components:
            if each.dirty or (each.due is not None and each.due <= now):
                self._pace.enter(share)
                each.dirty = False
                each.wake()
                each.due = each.deadline

    def _wake_all(self) -> None:
        """Have the next turn wake all components: something has changed that several of them depend on."""
        for each in self._timed:
            each.dirty = True

    def _note_ring(self) -> None:
        self._ring_changed = True
        self._wake_all()

    def _work_off(self) -> bool:
        """Process all pending work, or stop at the budget; return whether none is left.

        Calls of :attr:`Messenger.after_turn` run last, after messages to this peer itself.
        """
        messenger, engine, pace = self._messenger, self._engine, self._pace
        is_first = True
        while self._messenger.to_self or not engine.idle or messenger.after_turn:
            if not is_first and pace.over:
                return False
            is_first = False
            if messenger.to_self:
                pace.enter("subscriptions")
                self._handle_own()
            pace.enter("engine")
            engine.turn()
            if self._messenger.to_self or not engine.idle:
                continue
            self._wake((("engine", engine.derived_facts),))
            if not engine.idle:
                continue
            done, messenger.after_turn = messenger.after_turn, []
            for each in done:
                each()
        return True

    def _end_turn(self) -> None:
        """Evaluate, report low watermarks and acknowledge: all arrivals are stored and forwarded."""
        messenger = self._messenger
        evaluations, low_watermarks = self._coordinator.evaluations, self._low_watermarks
        self._engine.release_ended()
        if evaluations.waiting:
            self._pace.enter("subscriptions")
            evaluations.turn()
        for_export = self._exports.wants_low_watermarks
        low_watermarks.want(
            wanted=(
                self._coordinator.owes or evaluations.doubtful or self._edge.wants_bookmarks or for_export
                or evaluations.marks.wanted or self._engine.stable_deletions.wanted
            ),
            urgent=(
                self._edge.wants_bookmarks_soon or self._coordinator.windows.urgent or for_export
                or evaluations.marks.urgent
            ),
            streams=self._coordinator.windows.streams | self._retention.streams,
            hurries=self._edge.hurries + evaluations.marks.hurries,
        )
        self._wake(self._at_end)
        self._coordinator.tell_marks()
        if messenger.to_self:
            self._pace.enter("subscriptions")
            self._handle_own(all_of_them=True)
            self._coordinator.tell_marks()
        messenger.flush_acknowledgements()

    @property
    def deadline(self) -> float | None:
        """When to call ``wake``: not after now if there is work to do."""
        messenger, engine, edge, low_watermarks = self._messenger, self._engine, self._edge, self._low_watermarks
        if (
            self.turn_open or messenger.to_self or self._ring_changed or not engine.idle or engine.rejoining
            or messenger.owes_acknowledgements or self._tables.forgetting or self._coordinator.evaluations.waiting
            or self._coordinator.has_marks or messenger.strays
            # only events at the edge change the next two
            or (edge.dirty and not self._retention.streams <= low_watermarks.streams)
            or (edge.dirty and not low_watermarks.wanted and edge.wants_bookmarks)
        ):  # fmt: skip
            return messenger.now
        return earliest(self._first_due(), messenger.outbox.deadline, messenger.retry_lookups_at, self._check_leases_at)

    def _first_due(self) -> float | None:
        """Return the earliest deadline of a component."""
        while True:
            first: Component | None = None
            due: float | None = None
            for each in self._timed:
                if each.dirty:
                    each.due = each.deadline
                if each.due is not None and (due is None or each.due < due):
                    first, due = each, each.due
            if first is None or first.dirty or (now_due := first.deadline) == due:
                return due
            first.due = now_due  # its work is no longer needed, or only later

    @property
    def busy(self) -> bool:
        """Whether new publications should wait."""
        return self.busy_reason is not None

    @property
    def busy_reason(self) -> Busy | None:
        """Why new publications should wait, and for about how long, or None.

        Too many rows are in flight or stored, or too few members are present for an acknowledgement.
        """
        if self._messenger.members.short_of_peers:
            members = self._messenger.members
            needed, copies = members.copies_needed, members.copies
            text = f"only {copies} of the {needed} nodes are there that copies are needed at (setting copies_min)"
            return Busy(text, retry_after=_FEWER_SECONDS)
        if self._tables.held > self.config.triples_max:
            text = f"this node holds more than {self.config.triples_max} triples and partial results"
            return Busy(f"{text} (setting triples_max)", retry_after=_FULL_SECONDS)
        if self._edge.rows_open > self.config.rows_in_flight_max:
            text = f"more than {self.config.rows_in_flight_max} triples are on their way to their owners"
            return Busy(f"{text} (setting rows_in_flight_max)")
        return None

    @property
    def publications_open(self) -> int:
        """Publications of this peer that have not reached all owners, acknowledged to publishers or not."""
        return self._edge.publications_open

    @property
    def pace(self) -> Pace:
        """The measure of this peer's work."""
        return self._pace

    @property
    def short_of_peers(self) -> bool:
        """Whether fewer members are present than copies are needed; nothing is acknowledged meanwhile."""
        return self._messenger.members.short_of_peers

    @property
    def settled(self) -> bool:
        """Whether this peer knows the members that it indexes with, and their indexes."""
        return self._engine.indexes.settled

    @property
    def in_sync(self) -> bool:
        """Whether this peer has compared its data with the other replicas, and may coordinate subscriptions."""
        return self._messenger.recovery.caught_up

    @property
    def waits_for_seeds(self) -> bool:
        """Whether this peer waits until it has reached all of its seeds (``SeedsReached``)."""
        return self._messenger.members.first_at is not None

    @property
    def members_max(self) -> int:
        """The largest number of members known at once, by this and earlier processes, itself included."""
        return self._messenger.members.most

    @property
    def cluster(self) -> Cluster:
        """The identity of this peer's cluster, and the state of a merge."""
        return self._cluster

    @property
    def roles(self) -> int:
        """The set of indexes that this peer uses for its publications."""
        return self._engine.indexes.used

    @property
    def quiet(self) -> bool:
        """Whether this peer is idle: no message in flight, parked operation or tentative solution."""
        messenger = self._messenger
        return (
            self._engine.idle and not (messenger.to_self or len(messenger.outbox) or messenger.parked)
            and not self._anti_entropy.is_asked
            and not self._coordinator.evaluations.waiting and not self._coordinator.evaluations.doubtful
            and not self._engine.derived_facts.restless
        )  # fmt: skip

    # --- after a restart -------------------------------------------------------------------------

    def restore(self, kept: Iterable[Message], *, now: float, away_seconds: float = 0.0) -> None:
        """Restore the records of an earlier process (``Persist``, in that order), before any other call.

        ``away_seconds``: the time since that process ended, or an upper bound.  Nothing is joined or sent yet; that
        follows once other peers are known.
        """
        self._begin(now)
        self._messenger.restoring = True
        members = self._messenger.members
        newest = furthest = 0
        for found in kept:
            members.begin_restored()
            message = with_leases_until(found, self._leases_end)
            if (stamp := latest(message)) > self._messenger.stamp_bound:
                furthest = max(furthest, stamp)
                message = self._corrected(message)
                stamp = latest(message)
            newest = max(newest, stamp)
            restorers = self._restorers.get(type(message), ())
            for restore in restorers:
                restore(message)
            if not restorers:
                self._messenger.trace("not-restorable", kind=type(message).__name__)
        for component in self._components:
            component.restored()
        if self.stamps_corrected:
            self._engine.stable_deletions.forget(superseded=True)
        self._messenger.restoring = False
        members.begin_anew()
        self._messenger.effects.clear()
        self._note_clock(newest, furthest, away_seconds)
        members.away(away_seconds)
        self._unfinished = True

    def _corrected(self, message: Message) -> Message:
        """Return a record with future stamps moved to the past (docs/explanation/design/clocks.md)."""
        messenger = self._messenger
        anchor = Anchor(messenger.stamp_bound, hlc.from_seconds(messenger.now), *messenger.members.jump)
        self.stamps_corrected += 1
        return restamped(message, anchor.of_any)

    def _note_clock(self, newest: int, furthest: int, away_seconds: float) -> None:
        """Store the data that the next process needs to correct stamps, and report corrections."""
        messenger, now = self._messenger, hlc.from_seconds(self._messenger.now)
        drift = hlc.from_seconds(self.config.drift_max_seconds)
        if newest and now > newest + drift:
            # A peer may have been idle for long before it ended, so all stamps before the jump belong to its earlier
            # process. After a clock was set back, the end of that process is unknown, and the absence is infinite.
            ended = hlc.from_seconds(messenger.now - away_seconds) - 1 if 0 < away_seconds < inf else 0
            messenger.members.note_jump(now, max(newest, ended))
        elif not self.stamps_corrected:
            return
        messenger.persist(messenger.members.record())
        if self.stamps_corrected:
            messenger.trace(
                "stamps-corrected", records=self.stamps_corrected, furthest=hlc.shown(furthest),
                reason=f"the disk holds stamps up to {hlc.shown(furthest)}, and this node's clock shows"
                f" {hlc.shown(now)}: one of the two was or is wrong; see P2prdfClockWasAhead in"
                " docs/reference/operations.md",
            )  # fmt: skip

    def snapshot(self) -> Iterator[Message]:
        """Return the records that restore the present state; they may replace the log.

        The peer may continue between two messages; its later records belong after the snapshot.
        """
        engine = self._engine
        # first: a record may be in a log by the time these have been read
        under_way = self._coordinator.evaluations.messages()
        yield from _kept(
            self._messenger, self._cluster, engine.indexes, self._retention, self._expulsions, engine.introductions,
            engine.words,
        )  # fmt: skip
        for kind in self._kinds:
            if kind.number not in TRIPLES:
                yield from kind.everything()
        yield from under_way
        yield from _kept(engine, self._coordinator, engine.redelivery, engine.stable_deletions, self._conditions)
        yield from _kept(self._messenger)  # last: it must not claim members that are newer than the other records

    # --- for checkers and tests ------------------------------------------------------------------

    @property
    def split_keys(self) -> dict[tuple[int, int], int]:
        """Index and key of each hot key that is split here, and its depth."""
        return self._engine.hot.splits

    @property
    def roles_heard_of(self) -> int:
        """The set of indexes that queries use, as far as this peer knows."""
        return self._engine.indexes.advertised

    @property
    def words(self) -> list[str]:
        """The keyword-qualified predicates that queries use, as far as this peer knows."""
        return self._engine.words.predicates

    def waiting(self, role: int, key: int) -> list[tuple[int, int, int]]:
        """Return group, step and identity of each row that waits here under a ring key, ascending."""
        found: list[tuple[int, int, int]] = []
        for rows in self._tables.waiting_rows(role, key):
            groups = as_list(self._tables.group_ids(rows.plan, rows.group))
            found += [(group, rows.step, each) for group, each in zip(groups, as_list(rows.identity), strict=True)]
        return sorted(found)

    def triples(self) -> tuple[Any, ...]:
        """Return columns of all stored triples and publication events: s, p, o, time, event, indexes."""
        return tuple(self._tables.triples_since(0))

    @property
    def kinds(self) -> Sequence[Kind]:
        """All replicated items, by item type (:mod:`p2prdf.peer.joins.items`)."""
        return self._kinds

    @property
    def ended_groups(self) -> list[int]:
        """Groups that have ended, as far as this peer knows."""
        return self._tables.ended_groups()

    def is_home(self, group: int) -> bool:
        """Return whether this peer coordinates a live group."""
        return self._coordinator.home.find(group) is not None

    # --- inside ----------------------------------------------------------------------------------

    def _subject_key(self, subject: int) -> int:
        """Return the ring key under which the statements of a subject are stored."""
        term = self._messenger.columns.column([subject], "uint32")
        return int(as_list(self._tables.triple_keys(keys.S, term, term, term))[0])

    def _begin(self, now: float, clock: int = 0) -> None:
        messenger = self._messenger
        if now > messenger.now or messenger.members.began is None:
            messenger.observe(now)
        if self._low_watermarks.active:
            self._low_watermarks.passing(clock)
        if not self._begun:
            self._begun = True
            self._engine.indexes.begin()

    def _end(self) -> list[Effect]:
        effects = self._messenger.effects
        self._messenger.effects = []
        return effects

    @property
    def _leases_end(self) -> int:
        """The latest end of a group's lease made now, by any clock within the permitted drift."""
        return self._messenger.stamp_bound + self._lease

    def _refuse_stamp(self, sender: Contact, message: Message, stamp: int) -> None:
        """Report another peer's message that has a stamp from the future."""
        self.stamps_refused += 1
        try:
            self._messenger.check_stamp(stamp, f"a message {type(message).__name__} of {sender}")
        except StampRefused as error:
            self._messenger.trace("stamp-refused", code=error.code, reason=str(error), sender=str(sender))

    def _handle(self, sender: Contact, message: Message) -> None:
        found = self._handlers.get(type(message))
        if found is None:
            self._messenger.refused += 1
            self._messenger.trace("unexpected-message", kind=type(message).__name__, sender=str(sender))
            return
        component, handler = found
        component.dirty = True
        try:
            handler(sender, message)
        except P2PRDFError as error:
            self._messenger.note_refused(sender, error)

    def _low_watermark_learned(self, known: Known) -> None:
        self._coordinator.derive_again()
        self._retention.learn(known, self._low_watermarks.streams)
        self._coordinator.evaluations.learn(known)
        self._coordinator.windows.learn(known)
        self._edge.low_watermark(known)
        self._exports.low_watermark(known)
        self._engine.stable_deletions.learn(known.upto, known.at, whole=known.whole)

    def _queued(self) -> Iterator[Message]:
        """Return the publications that are stamped and wait to be indexed."""
        return chain(self._engine.staging.queued(), self._conditions.queued())

    def _sources(self, streams: Collection[int]) -> tuple[Source, ...]:
        """Return the known watermarks of publishers of some streams, and the ends of streams."""
        return (*self._edge.sources(streams), *self._stream_ends.told(streams))

    def _handle_own(self, *, all_of_them: bool = False) -> None:
        """Handle the messages to this peer itself that wait now, within the budget."""
        for _ in range(len(self._messenger.to_self)):
            self._handle(self.contact, self._messenger.to_self.popleft())
            self._pace.did()
            if self._pace.over and not all_of_them:
                return

    def _answers_here(self, groups: Any, rows: messages.Rows) -> None:
        self._coordinator.local_answers(groups, rows)

    # --- overlay ---------------------------------------------------------------------------------

    def _meet(self, contact: Contact, zone: str) -> None:
        """Add a peer, and send it the advertised indexes: it may have been away at the advertisement."""
        if not self._messenger.seen(contact, zone):
            return
        self._messenger.peers_came()
        self._members_changed()
        self._coordinator.contact_back(contact)
        self._engine.hot.met()
        self._engine.indexes.met(contact)
        self._retention.met(contact)
        self._engine.words.tell(contact)
        self._engine.stable_deletions.met(contact)
        self._engine.redelivery.met(contact)
        self._expulsions.met(contact)

    def _contact_lost(self, contact: Contact, *, left: bool = False) -> None:
        """Route the messages in flight to a lost peer again."""
        self._wake_all()
        self._members_changed()
        self._coordinator.contact_lost(contact)
        self._engine.hot.lost(contact)
        self._engine.stable_deletions.lost(contact, left=left)
        self._conditions.ring_changed()
        for transfer in self._messenger.give_up(contact, left=left):
            message, tokens = transfer.message, transfer.tokens
            if not self._engine.reroute(message, tokens) and not self._coordinator.reroute(message, tokens):
                # All replicas acknowledge a query, so another replica takes the place of each lost one.
                to_all = isinstance(message, messages.IndexQuery | messages.KeepEnds)
                send = self._coordinator.to_all if to_all else self._coordinator.to_owner
                for key in _keys_of(message, self.dictionary.hashes):
                    send(key, message, tokens)
            self._messenger.release(transfer.tokens, contact.key)
        self._messenger.retry_parked()
        self._engine.redelivery.finish(contact.key)
        self._edge.contact_lost(contact)
        self._anti_entropy.contact_lost(contact)

    def _members_changed(self) -> None:
        """Note that a member has come or is lost, although the view may soon be the same again."""
        self._stable_reads.members_changed()
        self._edge.one_time.members_changed()

    def _follow_view(self) -> None:
        """React to a change of the view, once it is complete again."""
        self._ring_changed = False
        messenger, view = self._messenger, self._messenger.view
        if view:
            self._engine.staging.ring_known()
        if view not in (0, self._view) and messenger.placement.follows_view:
            self._view = view
            messenger.signals.view_changed.emit()
            if self._unfinished:
                self._unfinished = False
                self._engine.redelivery.finish_all()
                self._engine.words.add_again()

    def _leave(self, request: contract.Leave) -> None:
        """Hand the data of this peer over to the remaining members."""

        def left(handed_over: bool) -> None:
            self._messenger.effects.append(contract.Completed(request.request, contract.Left(handed_over)))

        self._anti_entropy.leave(left)

    # --- expelled members ------------------------------------------------------------------------

    @property
    def expelled(self) -> frozenset[int]:
        """The keys of the members that an administrator has expelled."""
        return self._expulsions.keys

    def expulsions(self) -> list[dict[str, Any]]:
        """Return the decisions about members, as plain JSON values."""
        return self._expulsions.listed()

    def introduced(self, request: messages.ClientListIntroduced) -> dict[str, Any]:
        """Return statements that a member introduced here, or the histories of some, as JSON values."""
        record = self._engine.introductions
        if request.statements:
            return record.histories(request.statements)
        return record.listed(request.member, request.after)

    def _expel(self, request: contract.Expel) -> None:
        try:
            self._expulsions.decide(request.member, expelled=request.expelled)
        except P2PRDFError as error:
            outcome: contract.Outcome = contract.Failed(error.code, str(error))
        else:
            outcome = contract.Expelled()
        self._messenger.effects.append(contract.Completed(request.request, outcome))

    # --- leases ----------------------------------------------------------------------------------

    def _check_leases(self) -> None:
        """Ask the coordinators of groups with expired leases whether the groups still live."""
        now = self._messenger.now
        if self._check_leases_at is None:
            if self._tables.held or self._engine.has_queries:
                self._check_leases_at = now + self.config.group_lease_seconds / 2
            return
        if now < self._check_leases_at:
            return
        self._check_leases_at = None
        expired = self._tables.expired_groups(hlc.from_seconds(now), _EXPIRED_GROUPS_MAX)
        column = self._messenger.columns.column
        for identity in expired:
            self._coordinator.to_owner(
                subscription_home(identity), messages.KeepGroups(self.contact, column([identity]))
            )
        self._check_leases_at = now + self.config.group_lease_seconds / 2

    # --- state -----------------------------------------------------------------------------------

    @property
    def clock(self) -> int:
        """The latest stamp that this peer has issued or received."""
        return self._messenger.clock

    def subscriptions(self, *, now: float, after: int = 0) -> dict[str, object]:
        """Return some of the subscriptions that this peer serves, as plain JSON values."""
        return listed(self._coordinator.home, now=now, after=after)

    def status(self) -> dict[str, object]:
        """Return counters and sizes, as plain JSON values."""
        own: dict[str, object] = {
            "key": f"{self.contact.key:016x}",
            "host": self.contact.host,
            "port": self.contact.port,
            "overlay": self.config.overlay,
            "idle": self.quiet,
            "busy": self.busy,
            "stamps_refused": self.stamps_refused,
            "stamps_corrected": self.stamps_corrected,
        }
        return merged([own, *(each.status() for each in self._components)])


def _owned(component: Component, table: Mapping[Any, Any]) -> dict[Any, tuple[Component, Any]]:
    """Return a table of methods, each with its component."""
    return {key: (component, method) for key, method in table.items()}


def _kept(*components: Component) -> Iterator[Message]:
    """Return the records of components, in their order."""
    return chain.from_iterable(each.kept() for each in components)


def _keys_of(message: Message, hashes: list[int]) -> list[int]:
    """Return the ring keys that route a message of or to a coordinator; none if it is a reply."""
    match message:
        case messages.IndexQuery():
            step = message.plan.steps[message.step]
            if step.role == keys.ANY:  # the bucket is unknown, and a second installation is harmless
                return [keys.bucket_key(bucket) for bucket in range(keys.BUCKETS)]
            params = [hashes[as_list(column)[0]] for column in message.groups.params]
            return [keys.role_key(step.role, *(params[~slot] if slot < 0 else 0 for slot in step.pattern))]
        case messages.OpenSubscription():
            return [message.key]
        case messages.AttachSubscription() | messages.CloseSubscription() | messages.Delivered():
            return [subscription_home(message.subscription)]
        case messages.ExplainSubscription():
            return [subscription_home(message.subscription)]
        case messages.RenewSubscriptions():
            return [subscription_home(each) for each in as_list(message.subscriptions)[:1]]
        case messages.KeepEnds() if len(message) == 1:  # anti-entropy delivers messages with more streams
            return as_list(message.streams)
        case messages.KeepGroups():
            return [subscription_home(each) for each in as_list(message.groups)[:1]]
        case _:
            return []
