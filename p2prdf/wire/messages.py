"""All messages, and the columns that they carry.

Peers exchange batches: a message is a frozen dataclass of scalars, plans, contacts and *columns* (parallel sequences of
integers, :mod:`p2prdf.columns`).  Inside a process a term column contains identifiers of that process's dictionary; on
the wire it contains indices into the frame's own dictionary (:mod:`p2prdf.wire.codec`).  The metadata of each field
names its kind.

A message between peers travels in an :class:`Envelope` with the sender's clock.  If it must not be lost, it has a
transfer number that the receiver acknowledges.

Names in the papers: IndexTriples is NewTriple, IndexQuery is IndexTriplePattern (CQC) and IndexQuery (CSBV), Forward is
FwdValuation (CQC) and FwdRewritten (CSBV).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from p2prdf.columns import Column
from p2prdf.errors import Busy, P2PRDFError, QueryRefused, error_from_code
from p2prdf.rdf.algebra import StandingQuery
from p2prdf.rdf.query import ConjunctiveQuery, Plan

__all__ = [
    "ACCEPTED", "CLIENT_VERSION", "EVENTS_COUNTED", "FORMER_MAX", "INDEXED", "LEVELS", "NOT_COUNTED", "SURE",
    "WITHDRAWN", "Acknowledge", "AdvertiseIndexes", "AdvertiseKeywords", "Answers", "AttachSubscription",
    "BookmarksRequest", "BookmarksResponse", "BucketDigests", "ClientAcknowledge", "ClientAttach", "ClientBookmark",
    "ClientEndStream", "ClientEnded", "ClientError", "ClientExpel", "ClientExpelled", "ClientExplain",
    "ClientExplained", "ClientHeartbeat", "ClientHello", "ClientIntroduced", "ClientListIntroduced",
    "ClientMessage", "ClientPing", "ClientPong", "ClientPublish", "ClientPublished", "ClientRows", "ClientSettled",
    "ClientStatus", "ClientStatusReply", "ClientStreamEnded", "ClientSubscribe", "ClientSubscribed", "ClientTrace",
    "ClientUnsubscribe", "ClientUnsubscribed", "ClientWantBookmarks", "ClientWelcome", "CloseSubscription",
    "ClusterKnown", "Contact", "CountsRequest", "CountsResponse", "Deliver", "Delivered", "DigestDiff",
    "ElementsForgotten", "EndSubscription", "Envelope", "ExplainSubscription", "Explanation", "Expulsions", "Fetch",
    "FetchDone", "FindNode", "Forward", "GroupLeases", "Groups", "GroupsGone", "HoldSubKeys", "IdentityList",
    "IndexQuery", "IndexTriples", "IndexesRequest", "IndexesResponse", "Introduced", "KeepAcknowledged",
    "KeepAnswers", "KeepEnds", "KeepGroups", "KeepReported", "KeepRetracted", "KeepSubscription", "KeyDepth",
    "Leaving", "LoadRequest", "LoadResponse", "LowWatermark", "MembersKnown", "Message", "NamesRequest",
    "NamesResponse", "Nodes", "NotOwner", "OpenSubscription", "PeerHello", "PublicationsComplete",
    "PublisherReport", "Query", "RatesRequest", "RatesResponse", "RenewSubscriptions", "RetentionReport",
    "RootDigests", "Rows", "SettledAnswers", "StreamReport", "SubscriptionClosed", "SubscriptionOpened",
    "SubscriptionRefused", "Traced", "WatchWatermarks", "client_error", "error_of",
]  # fmt: skip


CLIENT_VERSION: Final = 9
"""Version of the protocol between clients and nodes; a node refuses other versions with its own number."""
INDEXED: Final = "indexed"
ACCEPTED: Final = "accepted"
LEVELS: Final = (INDEXED, ACCEPTED)
"""The points at which a publication is acknowledged (:class:`ClientPublish`)."""

EVENTS_COUNTED: Final = 16
NOT_COUNTED: Final = 8
"""Takes the place of an index in :class:`CountsRequest` if no triples are to be counted."""
FORMER_MAX: Final = 64
"""Maximum number of former identities of one cluster (:class:`ClusterKnown`)."""

Query: TypeAlias = "ConjunctiveQuery | StandingQuery"
"""The query of a subscription: one conjunctive query, or a standing query composed of conjunctive queries."""

WITHDRAWN: Final = 1 << 63
"""The identities of a solution and of its retraction differ in this bit."""
SURE: Final = 1 << 62
"""Set in the time of a delivered retraction if the subscriber has acknowledged the solution."""


def _kind(kind: str) -> Any:
    return field(metadata={"kind": kind})


def _terms() -> Any:
    """A column of terms."""
    return _kind("terms")


def _term_columns() -> Any:
    """A tuple of term columns of equal length."""
    return _kind("term_columns")


def _u64() -> Any:
    """A column of unsigned 64-bit numbers."""
    return _kind("u64")


def _u32() -> Any:
    """A column of unsigned 32-bit numbers."""
    return _kind("u32")


def _added(default: Any) -> Any:
    """Declare a field that was added later at the end: it is not written if it has its default."""
    return field(default=default, metadata={"added": True})


@dataclass(frozen=True, slots=True)
class Contact:
    """A peer's ring position and address; ``key`` is the first 64 bits of its 160-bit identifier."""

    key: int
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.key:016x}@{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Groups:
    """Groups of subscriptions to equal queries under one plan, as columns.

    Rows refer to a group by its index.  ``since_min`` and ``since_max`` are the stamps of the group's earliest and
    latest subscription.  A triple counts from the earliest on; a triple that is published again counts again if a
    subscription was opened in between.  ``lease`` is the stamp until which state may live without a renewal by the
    coordinator.  ``params`` has one column per constant of the plan.
    """

    ids: Column = _u64()
    since_min: Column = _u64()
    since_max: Column = _u64()
    lease: Column = _u64()
    params: tuple[Column, ...] = _term_columns()

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class Rows:
    """Partial results or solutions of one plan and step, as columns.

    ``group`` is the index of the row's group in the message's ``groups``; ``identity`` the sum of its triples'
    contributions; ``oldest`` and ``born`` the minimum and maximum publication stamp of its triples; ``bindings`` one
    column per carried variable.
    """

    group: Column = _u32()
    identity: Column = _u64()
    oldest: Column = _u64()
    born: Column = _u64()
    bindings: tuple[Column, ...] = _term_columns()

    def __len__(self) -> int:
        return len(self.group)


# --- peer to peer: the engine --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class IndexTriples:
    """Entry peer to owners: triples to store under the receiver's indexes.

    Seed 004, section 3.3: NewTriple; one row is one logical message per index.  ``time``: publication stamp, or event
    time of a stream's element (:func:`p2prdf.hlc.element`).  ``event``: identity of the publication event.  ``roles``:
    the indexes (:func:`p2prdf.keys.role_bit`); bit ``role + 16`` marks a sub-key of a hot key
    (:mod:`p2prdf.peer.joins.hot_keys`), bit ``role + 24`` that in ``view`` (0: incomplete) the receiver is the primary
    and joins.  Rows without indexes are only staged (:mod:`p2prdf.peer.replication.staging`).

    ``origin``: key of the publishing peer; 0: all owners have the triples.  ``published``: all indexes of the
    publication. All publications of the origin from ``began``, its start, to ``complete`` are at their owners
    (:mod:`p2prdf.peer.replication.redelivery`).  ``stamp``: of elements their latest publication stamp, of redeliveries
    their beginning, else 0.  ``words``: digest of the keywords under which the origin indexed texts
    (:mod:`p2prdf.peer.joins.keyword_index`); 0: none or unknown.  ``introducer``: used on disk only: the sending
    member, unless it is ``origin`` (:mod:`p2prdf.peer.replication.introductions`).
    """

    s: Column = _terms()
    p: Column = _terms()
    o: Column = _terms()
    time: Column = _u64()
    event: Column = _u64()
    roles: Column = _u32()
    hops: int = 0
    view: int = 0
    origin: int = 0
    published: int = 0
    began: int = 0
    complete: int = 0
    stamp: int = 0
    words: int = 0
    introducer: int = _added(0)

    def __len__(self) -> int:
        return len(self.s)


@dataclass(frozen=True, slots=True)
class PublicationsComplete:
    """Peer to all others: its publications between these stamps are at their owners (see IndexTriples)."""

    began: int
    complete: int


@dataclass(frozen=True, slots=True)
class MembersKnown:
    """Peer to its own next process: the maximum number of members at a time, minus orderly departures.

    ``lacks``: its recovery state (:class:`p2prdf.peer.network.quorum.RecoveryState`).  ``returned``: it had been a
    member before it started empty.  ``jumped``: the stamp at which the latest process started with a clock further
    ahead of all known stamps than clocks may drift; ``before``: the latest stamp known then (0: there was no such
    process).
    """

    count: int
    lacks: int = _added(0)
    returned: bool = _added(False)
    jumped: int = _added(0)
    before: int = _added(0)


@dataclass(frozen=True, slots=True)
class Expulsions:
    """Decisions of administrators about members, by key: 1 expelled, 0 readmitted.

    The later decision about a member counts.  A peer sends decisions to each peer that it meets, and stores them
    (:mod:`p2prdf.peer.network.expulsions`).
    """

    members: Column = _u64()
    times: Column = _u64()
    expelled: Column = _u32()

    def __len__(self) -> int:
        return len(self.members)


@dataclass(frozen=True, slots=True)
class Introduced:
    """Peer to its own next process: the members that sent statements to this peer.

    ``first_hand``: 1 if the member was the origin itself.  ``since``: the record is complete from this stamp on.  See
    :mod:`p2prdf.peer.replication.introductions`.
    """

    since: int
    members: Column = _u64()
    first_hand: Column = _u32()
    s: Column = _terms()
    p: Column = _terms()
    o: Column = _terms()
    time: Column = _u64()

    def __len__(self) -> int:
        return len(self.members)


@dataclass(frozen=True, slots=True)
class ClusterKnown:
    """Peer to a peer that it meets, and to its own next process: its cluster's identity (0: unknown).

    ``members``: the maximum number of members that the cluster has had, to the sender's knowledge.  ``former``:
    identities of clusters that merged with this one.  ``asks``: the receiver should answer with its own.
    """

    identity: int
    members: int
    former: Column = _u64()
    asks: bool = False


@dataclass(frozen=True, slots=True)
class IndexQuery:
    """Coordinator to owners of a step's key: wait for the pattern of these groups.

    CSBV sends step 0 only.  CQC sends every step of the query chain, so that each link knows the triples to store
    (steps after 0 have no rows of their own).  ``refresh`` as in Forward.
    """

    plan: Plan
    step: int
    groups: Groups
    refresh: int = 0
    hops: int = 0


@dataclass(frozen=True, slots=True)
class Forward:
    """Link to owners of the next step's key: partial results that wait for the next pattern.

    ``refresh``: 0, or the stamp of a later subscription to the group: stored triples from that stamp on are joined even
    with known rows.  ``view`` as in IndexTriples.  ``copied``: from the owner of a hot key to the owner of sub-keys,
    which stores the rows and copies them no further; a query that waits for its first pattern is copied as a row of
    step 0. ``kept``: in the sender's view the receiver is not the primary, and only stores the rows.  ``suspect``: 0,
    or the key of the primary that should have sent the rows (:mod:`p2prdf.peer.joins.audit`).
    """

    plan: Plan
    step: int
    groups: Groups
    rows: Rows
    refresh: int = 0
    hops: int = 0
    view: int = 0
    copied: bool = False
    kept: bool = False
    suspect: int = _added(0)


@dataclass(frozen=True, slots=True)
class Answers:
    """Last link to the group's coordinator: solutions, with bindings in the order of the plan's answer.

    ``suspect``: 0, or the key of the primary that should have sent them (:mod:`p2prdf.peer.joins.audit`).
    """

    groups: Column = _u64()
    rows: Rows = _kind("object")
    hops: int = 0
    suspect: int = _added(0)


@dataclass(frozen=True, slots=True)
class GroupsGone:
    """Coordinator to a holder of rows: these groups have no subscription any more; delete their rows."""

    groups: Column = _u64()


@dataclass(frozen=True, slots=True)
class KeepGroups:
    """Holder of rows to coordinator: the leases of these groups have expired; ask whether the groups live."""

    holder: Contact
    groups: Column = _u64()
    hops: int = 0


@dataclass(frozen=True, slots=True)
class GroupLeases:
    """Coordinator to a holder of rows: the groups live until these stamps."""

    groups: Column = _u64()
    lease: Column = _u64()


@dataclass(frozen=True, slots=True)
class RatesRequest:
    """Planning coordinator to owner of a pattern's key: ask for numbers of triples with these constants.

    One row per pattern, named by its ``position``.  Parts that the index does not contain hold any term.
    """

    request: int
    asker: Contact
    position: Column = _u32()
    roles: Column = _u32()
    s: Column = _terms()
    p: Column = _terms()
    o: Column = _terms()
    hops: int = 0

    def __len__(self) -> int:
        return len(self.position)


@dataclass(frozen=True, slots=True)
class RatesResponse:
    """Owner to planning coordinator: the number of triples of each pattern plus one; 0: not indexed here."""

    request: int
    position: Column = _u32()
    counts: Column = _u64()


@dataclass(frozen=True, slots=True)
class CountsRequest:
    """Explaining peer to every other peer: ask for numbers of waiting rows and of matching triples.

    One row per step: the identity of its leaf (0: no rows are counted), its number, the index in which triples are
    counted (``NOT_COUNTED``: none), and in ``masks`` the parts that must match; other parts hold any term.  ``since``:
    rows and triples from this stamp on count for the subscription.  With ``EVENTS_COUNTED`` added to the index,
    publication events are counted instead of triples.
    """

    request: int
    since: int
    leaves: Column = _u64()
    steps: Column = _u32()
    under: Column = _u32()
    masks: Column = _u32()
    s: Column = _terms()
    p: Column = _terms()
    o: Column = _terms()

    def __len__(self) -> int:
        return len(self.leaves)


@dataclass(frozen=True, slots=True)
class CountsResponse:
    """Answer to CountsRequest, row by row: counts of items of which the sender is the first replica.

    ``waiting``: rows that wait and count; ``over``: rows that waited and have ended; ``triples``: matching triples;
    ``young``: matching triples that count.  ``estimated``: 1 if the rows, 2 if the triples (3: both) were sampled.
    """

    request: int
    waiting: Column = _u64()
    over: Column = _u64()
    triples: Column = _u64()
    young: Column = _u64()
    estimated: Column = _u32()

    def __len__(self) -> int:
        return len(self.waiting)


@dataclass(frozen=True, slots=True)
class AdvertiseIndexes:
    """Coordinator to every peer: queries wait in these indexes now; index triples under them.

    ``since``: publications from this stamp on under fewer indexes are to be added to these (0: none is, as no query can
    wait for them).
    """

    roles: int
    since: int = 0


@dataclass(frozen=True, slots=True)
class AdvertiseKeywords:
    """Coordinator to every peer: queries wait for texts with these keywords; index such texts under them.

    ``predicates`` are qualified by keywords (:func:`p2prdf.rdf.quads.worded`).  ``since``, for each: publications from
    this stamp on without it are to be indexed under it.
    """

    predicates: Column = _terms()
    since: Column = _u64()


@dataclass(frozen=True, slots=True)
class IndexesRequest:
    """New peer to a neighbour: ask for the indexes in use."""


@dataclass(frozen=True, slots=True)
class IndexesResponse:
    """Neighbour to new peer: the indexes in use, as far as it knows."""

    roles: int


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """Owner of a possibly hot key to a few others: ask for the load."""

    request: int


@dataclass(frozen=True, slots=True)
class LoadResponse:
    """Answer to LoadRequest: triples (once per index) and rows that arrived within some seconds."""

    request: int
    arrivals: int
    seconds: float


@dataclass(frozen=True, slots=True)
class HoldSubKeys:
    """Owner of a hot key to the owner of some sub-keys: store its triples; all rows will be sent there."""

    role: int
    key: int
    depth: int


@dataclass(frozen=True, slots=True)
class KeyDepth:
    """A key has 2^depth sub-keys.

    Owner of the key to a sender: spread triples over the sub-keys.  Owner of a sub-key to the owner of the key, from
    time to time while triples arrive: the depth for which the sender was asked to hold (0: it was not).
    """

    role: int
    key: int
    depth: int


# --- peer to peer: repair ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Leaving:
    """Peer to all others: it is about to leave, and accepts no further items."""


@dataclass(frozen=True, slots=True)
class RootDigests:
    """Replica to replica: a root digest per item type, of the items that both should store.

    ``kinds``: item types (:mod:`p2prdf.peer.replication.anti_entropy`).  ``view`` as in IndexTriples: only equal views
    agree on these items.  Not acknowledged: the sender repeats it.
    """

    request: int
    view: int
    kinds: Column = _u32()
    sums: Column = _u64()


@dataclass(frozen=True, slots=True)
class DigestDiff:
    """Answer to Totals: the item types with a different digest."""

    request: int
    kinds: Column = _u32()


@dataclass(frozen=True, slots=True)
class WatchWatermarks:
    """Peer with subscribers that want bookmarks to each other: send low watermarks for some seconds.

    ``urgent``: at each cut instead of each eighth.  ``streams``: a column of hashes of streams for which StreamReport
    and PublisherReport are requested, too.  Not acknowledged: it is repeated.
    """

    urgent: bool = False
    streams: tuple[Column, ...] = field(default=(), metadata={"kind": "u64_columns"})


@dataclass(frozen=True, slots=True)
class LowWatermark:
    """Answer to WatchWatermarks at each cut: no work in flight here leads to a solution born before ``low``.

    ``low`` 0: unknown.  ``busy``: the ring keys of coordinators with any work in flight here, regardless of its stamp;
    ``many``: there are more.  ``view`` as in IndexTriples.  Not acknowledged: the next cut replaces it.
    """

    cut: int
    low: int
    view: int
    busy: Column = _u64()
    many: bool = False


@dataclass(frozen=True, slots=True)
class StreamReport:
    """Sent with a LowWatermark: for each stream with elements in flight the earliest event time, in ``times``.

    Not sent if there are too many streams, or if the times are unknown.
    """

    cut: int
    view: int
    times: Column = _u64()


@dataclass(frozen=True, slots=True)
class PublisherReport:
    """Sent with a LowWatermark: the reports of publishers for the requested streams, as of the cut.

    For each report the hash of its stream, and ``began``, ``upto`` and ``openings`` as in
    :class:`p2prdf.wire.contract.Heartbeat`; ``ended`` is 1 for an end of stream (as in KeepEnds), else 0.
    """

    cut: int
    view: int
    streams: Column = _u64()
    publishers: Column = _u64()
    began: Column = _u64()
    upto: Column = _u64()
    openings: Column = _u64()
    ended: Column = _u32()


@dataclass(frozen=True, slots=True)
class RetentionReport:
    """Sent with a LowWatermark, every eighth cut: the retention report of each stream.

    For each the hash of the stream, the event time (ms) from which on queries coordinated here need its elements (2^62:
    none does), and the event time before which elements are forgotten here (0: none are).  Stream 0: all elements of
    all streams are to be kept.
    """

    cut: int
    view: int
    streams: Column = _u64()
    needed: Column = _u64()
    forgotten: Column = _u64()


@dataclass(frozen=True, slots=True)
class ElementsForgotten:
    """Peer to each other: elements of these streams (by hash) before these event times (ms) are forgotten.

    Sent when that is decided, and to each peer that the sender meets.
    """

    streams: Column = _u64()
    before: Column = _u64()


@dataclass(frozen=True, slots=True)
class BookmarksRequest:
    """Entry peer to coordinator: ask for a report when all solutions of these subscriptions are delivered.

    In the asker's ``view`` all solutions with a stamp up to ``upto`` have arrived at their coordinator.  Not
    acknowledged.
    """

    subscriber: Contact
    upto: int
    view: int
    subscriptions: Column = _u64()


@dataclass(frozen=True, slots=True)
class BookmarksResponse:
    """Answer to BookmarksRequest: all solutions are delivered, in ``epoch`` up to number ``sent``."""

    upto: int
    subscriptions: Column = _u64()
    epoch: Column = _u64()
    sent: Column = _u64()


@dataclass(frozen=True, slots=True)
class BucketDigests:
    """Replica to replica: digests of the items of one type that both should store.

    ``kind``: item type (:mod:`p2prdf.peer.replication.anti_entropy`).  ``sums``: one digest per bucket of identities, a
    power of two of them; buckets before ``first`` are not compared.  ``view`` as in IndexTriples: only equal views
    agree on these items.  ``lacks`` and ``returned`` as in MembersKnown.  ``began``: the stamp at which the sender's
    process started; 0: it has no event yet.
    """

    request: int
    kind: int
    view: int
    sums: Column = _u64()
    first: int = 0
    lacks: int = _added(0)
    returned: bool = _added(False)
    began: int = _added(0)


@dataclass(frozen=True, slots=True)
class IdentityList:
    """Identities of items of one type that sender and receiver should both store.

    ``asked``: answer to the Summary of that number, with the items in differing buckets (identity 0 for a bucket
    without items; no rows if all buckets are equal).  ``more``: further buckets differ; ask again.  ``lacks``,
    ``returned`` and ``began`` as in Summary.  ``members``: the number of members that there should be.  ``known``: the
    receiver was a member before its present process.  ``complete``: the sender is in sync and misses no member.

    Not ``asked``: an unsolicited offer of misplaced items.
    """

    request: int
    kind: int
    asked: bool
    more: bool
    buckets: Column = _u32()
    identities: Column = _u64()
    lacks: int = _added(0)
    returned: bool = _added(False)
    members: int = _added(0)
    known: bool = _added(False)
    began: int = _added(0)
    complete: bool = _added(False)


@dataclass(frozen=True, slots=True)
class Fetch:
    """Answer to an Offer, with the same fields: fetch these items; no rows: the receiver has them all."""

    request: int
    kind: int
    asked: bool
    identities: Column = _u64()


@dataclass(frozen=True, slots=True)
class FetchDone:
    """Answer to a Want: all requested items have been acknowledged, if the asking peer waits for that."""

    request: int
    kind: int


# --- peer to peer: subscriptions -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OpenSubscription:
    """Entry peer to coordinator (owner of the query's key): open a subscription for ``subscriber``.

    ``since``: the stamp from which on triples count; 0: from now on.  ``salt``: 0, or an isolation nonce: equal queries
    are evaluated together only if their salts are equal.  ``owner``: the owning client (:class:`Subscribe` of
    :mod:`p2prdf.wire.contract`).
    """

    request: int
    key: int
    query: Query = field(metadata={"kind": "object"})
    algorithm: str
    per_event: bool
    subscriber: Contact
    lease_seconds: float
    since: int = 0
    salt: int = 0
    hops: int = 0
    owner: str = _added("")


@dataclass(frozen=True, slots=True)
class SubscriptionOpened:
    """Coordinator to entry peer: the query is live at all its owners and counts triples from ``since`` on.

    ``opened``: the stamp of its record, before which it was not live.  ``epoch``: the current epoch of deliveries;
    earlier epochs of this coordinator have smaller numbers.  ``reads`` and ``writes``: the graphs that the query reads
    and writes (:class:`p2prdf.rdf.reach.Reach`).
    """

    request: int
    subscription: int
    since: int
    lease_seconds: float
    names: tuple[str, ...]
    order: tuple[int, ...]
    opened: int = 0
    epoch: int = 0
    reads: tuple[str, ...] = _added(())
    writes: tuple[str, ...] = _added(())


@dataclass(frozen=True, slots=True)
class SubscriptionRefused:
    """Coordinator to entry peer: the new subscription is refused, or an existing one is unknown."""

    request: int
    code: str
    text: str


@dataclass(frozen=True, slots=True)
class AttachSubscription:
    """Entry peer to coordinator: deliver this subscription here, except the solutions in ``have``.

    ``have``: identities of acknowledged solutions, as in Delivered.  ``owner``: the asking client; "": clients are not
    identified.  Another client than the owner is refused, in this and the following messages.
    """

    request: int
    subscription: int
    subscriber: Contact
    have: Column = _u64()
    hops: int = 0
    owner: str = _added("")


@dataclass(frozen=True, slots=True)
class CloseSubscription:
    """Entry peer to coordinator: end this subscription.  ``owner`` as in AttachSubscription."""

    request: int
    subscription: int
    subscriber: Contact
    hops: int = 0
    owner: str = _added("")


@dataclass(frozen=True, slots=True)
class SubscriptionClosed:
    """Coordinator to entry peer: the subscription has ended, or is delivered elsewhere.

    It ended because of ``request`` or (0) by its lease, by the coordinator, or by another client.  ``why``: the reason
    if neither a client nor the lease ended it.  ``elsewhere``: it lives, but the deliveries that ``request`` opened or
    attached go to another peer from now on.
    """

    request: int
    subscription: int
    elsewhere: bool = False
    why: str = ""


@dataclass(frozen=True, slots=True)
class RenewSubscriptions:
    """Entry peer to coordinator: the subscribers are connected; renew the leases.

    ``requests``: for each subscription the request that opened or attached it, to the entry peer's knowledge.  If the
    coordinator delivers to another peer, it answers SubscriptionClosed: repeated attachments, and the messages about
    them, may overtake each other.
    """

    subscriber: Contact
    subscriptions: Column = _u64()
    requests: Column = _u64()
    hops: int = 0


@dataclass(frozen=True, slots=True)
class ExplainSubscription:
    """Entry peer to coordinator: ask how a subscription is evaluated, and where rows wait.

    ``owner`` as in AttachSubscription.
    """

    request: int
    asker: Contact
    subscription: int
    hops: int = 0
    owner: str = _added("")


@dataclass(frozen=True, slots=True)
class Explanation:
    """Coordinator to entry peer: the explanation as JSON text; with a ``code``, the reason of a refusal."""

    request: int
    json: str
    code: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class Deliver:
    """Coordinator to entry peer: solutions of one subscription, numbered from ``first`` on.

    Numbers count from 1 without gaps within an ``epoch``, a random number of one run of deliveries.  An epoch begins
    when a peer becomes coordinator or a subscriber attaches.  Unacknowledged solutions are delivered again in the next
    epoch. ``lost``: number of solutions that were dropped right before ``first``, because the subscriber's log was full
    or they were too old.  A gap is always reported, if necessary without solutions.
    """

    subscription: int
    first: int
    lost: int
    identity: Column = _u64()
    born: Column = _u64()
    bindings: tuple[Column, ...] = _term_columns()
    epoch: int = 0

    def __len__(self) -> int:
        return len(self.identity)


@dataclass(frozen=True, slots=True)
class Delivered:
    """Entry peer to coordinator: the subscriber acknowledges these solutions; send more.

    ``owner`` as in AttachSubscription.
    """

    subscriber: Contact
    request: int
    subscription: int
    identity: Column = _u64()
    hops: int = 0
    owner: str = _added("")


@dataclass(frozen=True, slots=True)
class SettledAnswers:
    """Coordinator to entry peer: all replicas know the acknowledgement ``request``.

    Its solutions are not delivered again.  Deliveries that are in flight may still arrive: in ``epoch`` their numbers
    are at most ``sent``.
    """

    request: int
    subscription: int
    epoch: int = 0
    sent: int = 0


# --- peer to peer: between the replicas of a home ------------------------------------------------


@dataclass(frozen=True, slots=True)
class KeepSubscription:
    """Coordinator's replica to another: the record of a subscription and of its group.

    ``opener`` and ``opening`` name the request that opened it; repeated, it leads to the same subscription.  ``order``:
    the orders of its leaves' plans, concatenated.  ``since_min``, ``since_max`` and ``youngest`` (the maximum
    ``oldest`` of any solution) only grow apart, so records of a group can be merged in any order.  ``changed`` is the
    stamp of the variable part, the place of delivery: the later record counts.  ``owner``: the client that opened it;
    "": clients are not identified, and any may attach.
    """

    group: int
    query: Query = field(metadata={"kind": "object"})
    algorithm: str
    per_event: bool
    order: tuple[int, ...]
    opener: int
    opening: int
    since_min: int
    since_max: int
    youngest: int
    subscription: int
    since: int
    lease_seconds: float
    subscriber: Contact
    request: int
    changed: int
    salt: int = 0
    owner: str = _added("")


@dataclass(frozen=True, slots=True)
class EndSubscription:
    """Coordinator's replica to another: these subscriptions ended at the stamps ``times``, for good.

    ``groups``: for each subscription the group that ended with it, or 0.  Subscription 0: only the group's end is
    reported.
    """

    subscriptions: Column = _u64()
    groups: Column = _u64()
    times: Column = _u64()


@dataclass(frozen=True, slots=True)
class KeepAnswers:
    """Coordinator's replica to another: unacknowledged solutions of a subscription.

    ``told``: the subscriber receives them as soon as enough replicas have them.
    """

    subscription: int
    identity: Column = _u64()
    born: Column = _u64()
    bindings: tuple[Column, ...] = _term_columns()
    told: bool = False

    def __len__(self) -> int:
        return len(self.identity)


@dataclass(frozen=True, slots=True)
class KeepReported:
    """Coordinator's replica to another: all window reports up to this event time are made and stored.

    ``upto``: milliseconds since 1970.  Elements that only those reports needed are forgotten.  For a window by count,
    ``number`` is that of the last report and ``last`` a hash of the triple of its last element; else both are 0.
    """

    subscription: int
    upto: int
    number: int = 0
    last: int = 0


@dataclass(frozen=True, slots=True)
class KeepEnds:
    """Entry peer to all replicas of a stream's key, and between these: a publisher closed the stream.

    For each end the hash of the stream, the publisher, the ``opening`` that was closed (0 between replicas: it does not
    matter any more), the earliest event time, and the event time up to which all elements are published, in
    milliseconds since 1970.
    """

    streams: Column = _u64()
    publishers: Column = _u64()
    openings: Column = _u64()
    began: Column = _u64()
    upto: Column = _u64()

    def __len__(self) -> int:
        return len(self.streams)


@dataclass(frozen=True, slots=True)
class KeepRetracted:
    """Coordinator's replica to another: these solutions of a leaf of a standing query are retracted.

    ``youngest``: the stamp of the retractions, the maximum stamp of all solutions of the leaf.
    """

    leaf: int
    youngest: int
    identity: Column = _u64()

    def __len__(self) -> int:
        return len(self.identity)


@dataclass(frozen=True, slots=True)
class KeepAcknowledged:
    """Coordinator's replica to another: the subscriber has acknowledged these solutions.

    The receiver may not have stored them.  ``lost``: instead, the solutions were dropped, and the subscriber has not
    been informed yet.
    """

    subscription: int
    identity: Column = _u64()
    lost: bool = False


@dataclass(frozen=True, slots=True)
class NamesRequest:
    """Coordinator's replica to another: ask for the state of unknown groups and subscriptions.

    ``kinds``: 0 for a group, 1 for a subscription.
    """

    identities: Column = _u64()
    kinds: Column = _u32()


@dataclass(frozen=True, slots=True)
class NamesResponse:
    """Answer to NamesRequest: a :class:`p2prdf.continuous.home.Known` for each; records and ends go first."""

    identities: Column = _u64()
    kinds: Column = _u32()
    known: Column = _u32()


# --- peer to peer: overlay -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """Receiver to sender: these messages have been accepted and need no repetition."""

    transfers: Column = _u64()


@dataclass(frozen=True, slots=True)
class NotOwner:
    """Receiver to sender: other peers are closer to the keys; the message has been forwarded to them.

    ``before``: empty, or for each contact the last peer before it, so that the contact owns all keys between the two
    (Chord).
    """

    contacts: tuple[Contact, ...]
    before: tuple[Contact, ...] = ()


@dataclass(frozen=True, slots=True)
class FindNode:
    """Lookup, driver to driver: ask for the known peers closest to ``key``."""

    request: int
    key: int


@dataclass(frozen=True, slots=True)
class Nodes:
    """Answer to FindNode, closest first, the answering peer included."""

    request: int
    contacts: tuple[Contact, ...]


@dataclass(frozen=True, slots=True)
class Traced:
    """Precedes a message of type ``kind`` with traced rows (:mod:`p2prdf.peer.network.tracing`).

    For each trace the publication stamp of its rows, the trace identifier (128 bits in ``high`` and ``low``) and the
    message's span.  Before a Deliver, ``answers`` are identities of traced solutions, else 0.  Not acknowledged: a loss
    affects the trace only.
    """

    kind: int
    stamps: Column = _u64()
    high: Column = _u64()
    low: Column = _u64()
    parents: Column = _u64()
    answers: Column = _u64()

    def __len__(self) -> int:
        return len(self.stamps)


@dataclass(frozen=True, slots=True)
class PeerHello:
    """First frame on a connection between peers: the sender, and the key of the expected receiver."""

    sender: Contact
    receiver_key: int
    version: int = 8


Message = (
    IndexTriples | IndexQuery | Forward | Answers | GroupsGone | KeepGroups | GroupLeases | RatesRequest | RatesResponse
    | AdvertiseIndexes | AdvertiseKeywords | IndexesRequest | IndexesResponse | LoadRequest | LoadResponse
    | HoldSubKeys | KeyDepth | OpenSubscription
    | SubscriptionOpened | SubscriptionRefused | AttachSubscription | CloseSubscription | SubscriptionClosed
    | RenewSubscriptions | Deliver | Delivered | SettledAnswers | KeepSubscription | EndSubscription | KeepAnswers
    | KeepAcknowledged | KeepRetracted | KeepReported | KeepEnds | NamesRequest | NamesResponse | Acknowledge | NotOwner
    | FindNode | Nodes | MembersKnown | ClusterKnown | PublicationsComplete | Leaving | RootDigests | DigestDiff
    | BucketDigests
    | IdentityList | Fetch | FetchDone
    | WatchWatermarks | LowWatermark | StreamReport | PublisherReport | RetentionReport | ElementsForgotten
    | BookmarksRequest | BookmarksResponse
    | ExplainSubscription | Explanation | CountsRequest | CountsResponse | Traced | Expulsions | Introduced
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Envelope:
    """The envelope of a message between peers.

    ``transfer``: 0 for a message that may be lost, else the sender's number for it.  ``clock``: the sender's hybrid
    logical clock.
    """

    transfer: int
    clock: int
    message: Message = field(metadata={"kind": "object"})


# --- client to node ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ClientHello:
    """First frame of a client.

    ``speaks_for``: the client on whose behalf the sender acts; its own certificate must permit that.
    """

    version: int = CLIENT_VERSION
    agent: str = ""
    speaks_for: str = _added("")


@dataclass(frozen=True, slots=True)
class ClientWelcome:
    """Node to client: the node, the maximum number of pending publications, and alternative nodes."""

    peer: Contact
    publications_max: int
    version: int = CLIENT_VERSION
    others: tuple[Contact, ...] = ()


@dataclass(frozen=True, slots=True)
class ClientPublish:
    """Publish triples.  The publisher numbers events: an equal number means the same event.

    ``level``: when to answer with ClientPublished, ``indexed`` or ``accepted``.  ``removed``: delete the triples
    instead. ``after``: the latest stamp that the publisher knows; the stamps of the triples will be later.  ``graph``:
    a column with the graph of each triple ("": default graph); without it all triples belong to the default graph.
    ``by_content``: events have no numbers (``first_event`` is 0), but are identified by content: the same statement of
    the same publisher is the same event.

    ``times``: a column of event times in milliseconds since 1970.  With it, the triples are elements of the streams
    named by ``graph``; they have numbers and cannot be deleted.
    """

    request: int
    publisher: int
    first_event: int
    s: Column = _terms()
    p: Column = _terms()
    o: Column = _terms()
    level: str = INDEXED
    removed: bool = False
    after: int = 0
    graph: tuple[Column, ...] = field(default=(), metadata={"kind": "term_columns"})
    by_content: bool = False
    times: tuple[Column, ...] = field(default=(), metadata={"kind": "u64_columns"})

    def __len__(self) -> int:
        return len(self.s)


@dataclass(frozen=True, slots=True)
class ClientTrace:
    """Precedes the ClientPublish of the same ``request``, which is to be traced.

    The context is a W3C ``traceparent`` (:mod:`p2prdf.wire.trace_context`).  Not answered.
    """

    request: int
    traceparent: str


@dataclass(frozen=True, slots=True)
class ClientHeartbeat:
    """All elements of a publisher with times up to ``upto`` are acknowledged; none is before ``began``.

    Times are milliseconds since 1970; ``stream`` is an IRI.  ``opening``: a random number, drawn when the publisher
    opened the stream, which it may close and open again.  Not answered.  Repeated about every second as long as
    watermarks should wait for the publisher (:mod:`p2prdf.peer.progress.event_watermarks`).
    """

    stream: str
    publisher: int
    began: int
    upto: int
    opening: int


@dataclass(frozen=True, slots=True)
class ClientEndStream:
    """A publisher closes an ``opening`` of a stream: watermarks wait for it no more.

    Other fields as in ClientHeartbeat.  Answered with ClientStreamEnded when enough nodes know it.  Repetition is
    harmless.
    """

    request: int
    stream: str
    publisher: int
    began: int
    upto: int
    opening: int


@dataclass(frozen=True, slots=True)
class ClientStreamEnded:
    """Enough nodes know that the publisher has closed the stream."""

    request: int


@dataclass(frozen=True, slots=True)
class ClientPublished:
    """The requested level is reached, or a higher one; ``time`` is the triples' publication stamp."""

    request: int
    time: int


@dataclass(frozen=True, slots=True)
class ClientSubscribe:
    """Subscribe to a query in SPARQL.  ``since`` and ``salt`` as in OpenSubscription.

    ``ordered``: add columns with the sort keys of ORDER BY behind the others.  ``once``: a one-time query: the client
    ends the subscription when it has received all current solutions.
    """

    request: int
    query: str
    algorithm: str
    per_event: bool
    lease_seconds: float
    since: int = 0
    salt: int = 0
    ordered: bool = False
    once: bool = _added(False)


@dataclass(frozen=True, slots=True)
class ClientSubscribed:
    """The query is live; its solutions follow as ClientRows.  ``opened`` as in SubscriptionOpened."""

    request: int
    subscription: int
    since: int
    names: tuple[str, ...]
    order: tuple[int, ...]
    opened: int = 0


@dataclass(frozen=True, slots=True)
class ClientAttach:
    """Attach to an existing subscription.  ``have``: identities of acknowledged solutions."""

    request: int
    subscription: int
    have: Column = _u64()


@dataclass(frozen=True, slots=True)
class ClientRows:
    """Solutions of a subscription, as in Deliver."""

    subscription: int
    first: int
    lost: int
    identity: Column = _u64()
    born: Column = _u64()
    bindings: tuple[Column, ...] = _term_columns()
    epoch: int = 0

    def __len__(self) -> int:
        return len(self.identity)


@dataclass(frozen=True, slots=True)
class ClientWantBookmarks:
    """Request bookmarks of a subscription that is delivered to this client.  Not answered.

    ``urgent`` as in :class:`p2prdf.wire.contract.WantBookmarks`.
    """

    subscription: int
    urgent: bool = False


@dataclass(frozen=True, slots=True)
class ClientBookmark:
    """All solutions of a subscription born at or before ``time`` have been sent.

    Solutions of publications that were not acknowledged at that time are excepted.
    """

    subscription: int
    time: int


@dataclass(frozen=True, slots=True)
class ClientAcknowledge:
    """The subscriber acknowledges these solutions."""

    request: int
    subscription: int
    identity: Column = _u64()


@dataclass(frozen=True, slots=True)
class ClientSettled:
    """The solutions that ``request`` (ClientAcknowledge) acknowledged never return, from any node."""

    request: int
    subscription: int


@dataclass(frozen=True, slots=True)
class ClientEnded:
    """A subscription is not delivered to this client any more; ``code`` as in :mod:`p2prdf.errors`."""

    subscription: int
    code: str
    text: str


@dataclass(frozen=True, slots=True)
class ClientUnsubscribe:
    """End a subscription."""

    request: int
    subscription: int


@dataclass(frozen=True, slots=True)
class ClientUnsubscribed:
    """The subscription has ended."""

    request: int
    subscription: int


@dataclass(frozen=True, slots=True)
class ClientPing:
    """Ask whether the node is alive; sent by a client after some silence."""

    request: int


@dataclass(frozen=True, slots=True)
class ClientPong:
    """The node is alive."""

    request: int


@dataclass(frozen=True, slots=True)
class ClientStatus:
    """Ask for the node's status."""

    request: int


@dataclass(frozen=True, slots=True)
class ClientStatusReply:
    """The node's status as JSON text, keys as in docs/reference/operations.md."""

    request: int
    json: str


@dataclass(frozen=True, slots=True)
class ClientExplain:
    """Explain a subscription or, if that is 0, how a query would be evaluated.  No subscription is opened."""

    request: int
    subscription: int
    query: str
    algorithm: str
    per_event: bool


@dataclass(frozen=True, slots=True)
class ClientExplained:
    """An explanation: JSON text, keys as in docs/reference/explain.md."""

    request: int
    json: str


@dataclass(frozen=True, slots=True)
class ClientListSubscriptions:
    """Ask for a page of the subscriptions that the node coordinates, with numbers above ``after``."""

    request: int
    after: int = 0


@dataclass(frozen=True, slots=True)
class ClientSubscriptionsListed:
    """Subscriptions of all clients: JSON text, keys as in docs/reference/http.md."""

    request: int
    json: str


@dataclass(frozen=True, slots=True)
class ClientExpel:
    """Expel a member, or readmit it (not ``expelled``); member 0: only list the known decisions."""

    request: int
    member: int
    expelled: bool = True


@dataclass(frozen=True, slots=True)
class ClientExpelled:
    """The decisions about members known to the node: JSON text, keys as in docs/reference/operations.md."""

    request: int
    json: str


@dataclass(frozen=True, slots=True)
class ClientListIntroduced:
    """Ask for a page of statements that a member introduced at this node, records above ``after``.

    With ``statements`` (three texts each; the predicate qualified by the graph): the recorded history of each.
    """

    request: int
    member: int
    after: int
    statements: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClientIntroduced:
    """Introduced statements and members, as JSON text of :mod:`p2prdf.peer.replication.introductions`."""

    request: int
    json: str


@dataclass(frozen=True, slots=True)
class ClientError:
    """A request failed, or (request 0) the node is about to close the connection.

    ``retry_after``: seconds after which a busy node may have room; else 0.  ``construct``, ``line`` and ``column``: the
    refused part of a query and its position (from 1; 0: unknown); ``text`` contains them, too.
    """

    request: int
    code: str
    text: str
    retry_after: float = 0.0
    construct: str = _added("")
    line: int = _added(0)
    column: int = _added(0)


def client_error(error: P2PRDFError, request: int = 0) -> ClientError:
    """Return an error as a message to a client."""
    if isinstance(error, Busy):
        return ClientError(request, error.code, error.reason, error.retry_after)
    if isinstance(error, QueryRefused):
        place = error.line or 0, error.column or 0
        return ClientError(request, error.code, str(error), 0.0, error.construct, *place)
    return ClientError(request, error.code, str(error))


def error_of(message: ClientError) -> P2PRDFError:
    """Return the error in a message to a client."""
    m = message
    return error_from_code(m.code, m.text, m.retry_after, construct=m.construct, line=m.line, column=m.column)


ClientMessage = (
    ClientHello | ClientWelcome | ClientPublish | ClientPublished | ClientHeartbeat | ClientEndStream
    | ClientStreamEnded | ClientSubscribe | ClientSubscribed | ClientAttach | ClientRows | ClientWantBookmarks
    | ClientBookmark | ClientAcknowledge | ClientSettled | ClientEnded | ClientUnsubscribe | ClientUnsubscribed
    | ClientPing | ClientPong | ClientStatus | ClientStatusReply | ClientExplain | ClientExplained
    | ClientListSubscriptions | ClientSubscriptionsListed | ClientError | ClientTrace | ClientExpel | ClientExpelled
    | ClientListIntroduced | ClientIntroduced
)  # fmt: skip
