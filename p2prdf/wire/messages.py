"""All messages, and the columns they carry.

Peers talk in batches: a message is a frozen dataclass whose fields are scalars, plans, contacts
or *columns* (parallel sequences of integers, :mod:`p2prdf.columns`).  Inside a process a term
column holds identifiers of that process's dictionary; on the wire it holds indices into the
frame's own dictionary (:mod:`p2prdf.wire.codec`).  The metadata of each field says what it is.

A peer message travels in a :class:`Parcel` with the sender's clock and, when it must not be
lost, a transfer number that the receiver acknowledges.

Names of the papers: IndexTriples is NewTriple, IndexQuery is IndexTriplePattern (CQC) and
IndexQuery (CSBV), Forward is FwdValuation (CQC) and FwdRewritten (CSBV).
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
    "WITHDRAWN", "Acknowledge", "Advertise", "AdvertiseWords", "Answers", "AskBookmarks", "AskCounts", "AskKnown",
    "AskLoad", "AskRoles",
    "AttachSubscription", "ClientAcknowledge", "ClientAttach", "ClientBookmark", "ClientEnded", "ClientError",
    "ClientEndStream", "ClientExpel", "ClientExpelled", "ClientExplain", "ClientExplained", "ClientHeartbeat",
    "ClientHello", "ClientIntroduced", "ClientListIntroduced", "ClientMessage",
    "ClientPing", "ClientPong", "ClientPublish", "ClientPublished", "ClientRows", "ClientSettled", "ClientStatus",
    "ClientStatusReply", "ClientStreamEnded", "ClientSubscribe", "ClientSubscribed", "ClientTrace",
    "ClientUnsubscribe", "ClientUnsubscribed", "ClientWantBookmarks",
    "ClientWelcome", "CloseSubscription", "ClusterKnown", "Contact", "Deliver", "Delivered", "Differing", "ElementMark",
    "ElementsForgotten",
    "EndSubscription", "ExplainSubscription", "Explanation", "Expulsions", "FindNode", "Forward", "GetRates", "Given",
    "GroupLeases", "Groups", "GroupsGone", "HoldSubKeys", "IndexQuery", "IndexTriples", "Introduced",
    "KeepAcknowledged",
    "KeepAnswers", "KeepEnds", "KeepGroups", "KeepReported", "KeepSubscription", "KeepWithdrawn", "KeptMark",
    "KeyDepth", "Leaving",
    "LowMark", "MembersKnown", "Message", "Nodes", "NotOwner", "Offer", "OpenSubscription", "Parcel", "PeerHello",
    "PublicationsComplete", "Query", "Rates", "RenewSubscriptions", "Rows", "SettledAnswers", "SourceMark",
    "SubscriptionClosed", "SubscriptionOpened", "SubscriptionRefused", "Summary", "TellBookmarks", "TellCounts",
    "TellKnown", "TellLoad", "TellRoles", "Totals", "Traced", "Want", "WatchLowMarks", "client_error", "error_of",
]  # fmt: skip


CLIENT_VERSION: Final = 9
"""Of the protocol between a client and its node; another version is refused by name."""
INDEXED: Final = "indexed"
ACCEPTED: Final = "accepted"
LEVELS: Final = (INDEXED, ACCEPTED)
"""When a publication is acknowledged (:class:`ClientPublish`)."""

EVENTS_COUNTED: Final = 16
NOT_COUNTED: Final = 8
"""In place of a role (:class:`AskCounts`): triples are not asked for."""
FORMER_MAX: Final = 64
"""Former identities of one cluster (:class:`ClusterKnown`)."""

Query: TypeAlias = "ConjunctiveQuery | StandingQuery"
"""What a subscription asks: a conjunctive query, or a standing query made of several (or of one, and more)."""

WITHDRAWN: Final = 1 << 63
"""An answer that is taken back, and its withdrawal, have identities that differ in this bit."""
SURE: Final = 1 << 62
"""In the time of a withdrawal that is handed out: the subscriber has acknowledged the answer."""


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
    """A last field that messages did not always have: where it has its default it is not written."""
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
    """Canonical queries under one plan, as columns; a row refers to one by its place here.

    A group stands for all subscriptions of an equal query.  ``since_min`` and ``since_max`` are
    the stamps of its earliest and latest subscription: a triple counts from the earliest on, and
    a triple published again counts again if a subscription came in between.  ``lease`` is the
    stamp until which the state may live without asking the home again.  ``params`` holds one
    column per constant of the plan.
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
    """Partial results or answers of one plan and step, as columns.

    ``group`` is the place of the row's group in the message's ``groups``; ``identity`` the sum of
    its triples' contributions; ``oldest`` and ``born`` the earliest and latest publication stamp
    among its triples; ``bindings`` one column per carried variable.
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
    """Entry peer to owners: triples to index under the roles that the receiver owns.

    ``time`` is the publication stamp, ``event`` the identity of the publication event,
    ``roles`` the set of roles (:func:`p2prdf.keys.role_bit`) meant for this receiver; a role whose
    bit ``role + 16`` is set as well goes to a sub-key of a hot key (:mod:`p2prdf.peer.joins.hot_keys`).
    Seed 004, section 3.3: NewTriple; one row stands for one logical message per role.
    ``view`` names what the sender knows of the ring (0: not all of it).  The bit ``role + 24`` says that by
    this view the receiver is the primary of the replica set under that role, and so joins what it stores.

    ``origin`` is the key of the peer where they were published (0: their publication is known to be at its owners),
    ``published`` all roles they were published under; all that the origin published from the stamp ``began``, when
    its present life began, to ``complete`` is at its owners (:mod:`p2prdf.peer.replication.redelivery`).  Rows without
    any role are not indexed: the receiver only keeps them until they are at their owners
    (:mod:`p2prdf.peer.replication.staging`).

    Of elements of streams ``time`` is the event time (:func:`p2prdf.hlc.element`), and ``stamp`` the latest publication
    stamp of any; of what the origin finishes for another (rolls forward) it is when it began to do so.  Of all else
    ``stamp`` is 0.

    ``words`` names the words of texts that the origin knew to be waited for, and has sent these texts under
    (:mod:`p2prdf.peer.joins.keyword_index`); 0: none, or it is not known.

    ``introducer``: on the disk the key of the member that sent the triples, unless that was ``origin`` itself
    (:mod:`p2prdf.peer.replication.introductions`).  Between peers it counts for nothing: the receiver knows the sender.
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
    """Peer to all others: all that was published here between these stamps is at its owners (as in IndexTriples)."""

    began: int
    complete: int


@dataclass(frozen=True, slots=True)
class MembersKnown:
    """Peer to its own next life: so many peers there have been at once, but for those that left in order since.

    ``lacks``: :class:`p2prdf.peer.network.messenger.Lacks`.  ``returned``: it had been there before it began with
    nothing. ``jumped`` and ``before``: the stamp at which the latest life began whose clock was further ahead of all
    stamps that were known than clocks may drift, and the latest of these stamps (0: no life was).
    """

    count: int
    lacks: int = _added(0)
    returned: bool = _added(False)
    jumped: int = _added(0)
    before: int = _added(0)


@dataclass(frozen=True, slots=True)
class Expulsions:
    """Decisions of administrators about members, by key: 1 expelled, 0 readmitted; of two the later one counts.

    A peer tells them to each peer that it meets, and keeps them (:mod:`p2prdf.peer.network.expulsions`).
    """

    members: Column = _u64()
    times: Column = _u64()
    expelled: Column = _u32()

    def __len__(self) -> int:
        return len(self.members)


@dataclass(frozen=True, slots=True)
class Introduced:
    """Peer to its own next life: which member sent which statements here
    (:mod:`p2prdf.peer.replication.introductions`).

    ``first_hand``: 1 if the member was the origin itself.  ``since``: the record is complete from this stamp on.
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
    """Peer to another that it meets, and to its own next life: the identity of its cluster (0: it knows none).

    ``members``: the most members that the cluster has had, as far as the sender knows.  ``former``: the identities of
    clusters that were merged with this one.  ``asks``: the receiver is to tell the same of its own.
    """

    identity: int
    members: int
    former: Column = _u64()
    asks: bool = False


@dataclass(frozen=True, slots=True)
class IndexQuery:
    """Home to owners of a step's key: wait for this pattern of these groups.

    CSBV sends step 0 only; CQC sends every step of the chain, so that a link knows which
    triples to keep (steps after 0 hold no rows of their own).  ``refresh`` as in Forward.
    """

    plan: Plan
    step: int
    groups: Groups
    refresh: int = 0
    hops: int = 0


@dataclass(frozen=True, slots=True)
class Forward:
    """Link to owners of the next step's key: partial results that now wait for that pattern.

    ``refresh``: 0, or a stamp: a subscription joined the group from then on, so probe stored
    triples not older than it even for rows already known.  ``view`` as in IndexTriples.
    ``copied``: from the owner of a hot key to a holder of its sub-keys, who keeps the rows and copies
    them no further; a query that waits for its first pattern is copied as the row that it is (step 0).
    ``kept``: by the sender's view the receiver is not the primary of the rows' replica set; it stores them only.
    ``suspect``: 0, or the key of the primary that should have sent the rows (:mod:`p2prdf.peer.joins.audit`).
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
    """Last link to the group's home: complete solutions, bindings in the order of the plan's answer.

    ``suspect``: 0, or the key of the primary that should have sent them (:mod:`p2prdf.peer.joins.audit`).
    """

    groups: Column = _u64()
    rows: Rows = _kind("object")
    hops: int = 0
    suspect: int = _added(0)


@dataclass(frozen=True, slots=True)
class GroupsGone:
    """Home to a holder: these groups have no subscription any more; drop what waits for them."""

    groups: Column = _u64()


@dataclass(frozen=True, slots=True)
class KeepGroups:
    """Holder to home: the leases of these groups ran out; do they still live?"""

    holder: Contact
    groups: Column = _u64()
    hops: int = 0


@dataclass(frozen=True, slots=True)
class GroupLeases:
    """Home to holder: the groups live until these stamps."""

    groups: Column = _u64()
    lease: Column = _u64()


@dataclass(frozen=True, slots=True)
class GetRates:
    """Planning home to owner of a pattern's key: how many triples came under these constant parts?

    One row per pattern, named by its ``position``; parts that the role does not name are filled
    with any term.
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
class Rates:
    """Owner to planning home: one more than the number of triples under each; 0 = not indexed here."""

    request: int
    position: Column = _u32()
    counts: Column = _u64()


@dataclass(frozen=True, slots=True)
class AskCounts:
    """Who explains a query to every other peer: how many rows wait at these steps, how many triples match?

    One row per step: the identity of its leaf (0: nobody waits), its number, and under which role triples are to be
    counted (``NOT_COUNTED``: none) that have the parts of ``masks``; parts that it does not name are filled with any
    term.  ``since``: rows and triples from this stamp on count for the subscription.  With ``EVENTS_COUNTED`` added to
    the role publication events are counted, not triples.
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
class TellCounts:
    """Answer to AskCounts, a row for each of its rows: what this peer is the first of the peers to keep.

    ``waiting``: rows that wait and count; ``over``: rows that waited and are not true any more; ``triples``: those
    that match; ``young``: those of them that count.  ``estimated``: 1 if of the rows, 2 if of the triples
    (3: of both) only a part was looked at.
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
class Advertise:
    """Home to every peer: somebody waits on these roles now; index triples under them.

    ``since``: what was published from this stamp on under fewer roles is to be indexed under these too
    (0: nothing is; nobody can wait for it).
    """

    roles: int
    since: int = 0


@dataclass(frozen=True, slots=True)
class AdvertiseWords:
    """Home to every peer: somebody waits for texts with words now; index texts that have them under these, too.

    ``predicates`` are qualified by words (:func:`p2prdf.rdf.quads.worded`).  ``since``, for each: what was published
    from this stamp on without it is to be indexed under it.
    """

    predicates: Column = _terms()
    since: Column = _u64()


@dataclass(frozen=True, slots=True)
class AskRoles:
    """New peer to a neighbour: which roles are waited on?"""


@dataclass(frozen=True, slots=True)
class TellRoles:
    """Neighbour to new peer: the roles waited on, as far as it has heard."""

    roles: int


@dataclass(frozen=True, slots=True)
class AskLoad:
    """Owner of a key that may be hot to a few others: how much arrives at you?"""

    request: int


@dataclass(frozen=True, slots=True)
class TellLoad:
    """Answer to AskLoad: triples (once per role) and rows that arrived within some seconds."""

    request: int
    arrivals: int
    seconds: float


@dataclass(frozen=True, slots=True)
class HoldSubKeys:
    """Owner of a hot key to the owner of some of its sub-keys: all rows come to you; keep its triples."""

    role: int
    key: int
    depth: int


@dataclass(frozen=True, slots=True)
class KeyDepth:
    """A key has 2^depth sub-keys.

    Owner of the key to a sender: spread your triples over them.  Owner of a sub-key to the owner of
    the key, once in a while when triples come: for this depth I was asked to hold (0: I was not).
    """

    role: int
    key: int
    depth: int


# --- peer to peer: repair ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Leaving:
    """A peer to all others: I am about to be gone, and take in nothing any more that should be kept."""


@dataclass(frozen=True, slots=True)
class Totals:
    """A replica to another: of each kind a fingerprint of all that I hold and you should hold too.

    ``kinds``: :mod:`p2prdf.peer.replication.anti_entropy`.  ``view`` as in IndexTriples: only equal views agree on what
    both should hold. Not acknowledged: whoever asks asks again.
    """

    request: int
    view: int
    kinds: Column = _u32()
    sums: Column = _u64()


@dataclass(frozen=True, slots=True)
class Differing:
    """Answer to Totals: the kinds of which I hold something else."""

    request: int
    kinds: Column = _u32()


@dataclass(frozen=True, slots=True)
class WatchLowMarks:
    """A peer with subscribers that want bookmarks, to each other: tell me your low marks for some seconds.

    ``urgent``: at each cut, not at one in eight.  ``streams``: a column of the hashes of some streams: tell ElementMark
    and SourceMark, too, and of these streams.  Not acknowledged: it is repeated.
    """

    urgent: bool = False
    streams: tuple[Column, ...] = field(default=(), metadata={"kind": "u64_columns"})


@dataclass(frozen=True, slots=True)
class LowMark:
    """Answer to WatchLowMarks at each cut: nothing under way here leads to an answer born before ``low``; 0: unknown.

    ``busy``: the ring keys of homes to whose queries something under way belongs, whatever its stamp; ``many``: there
    are more.  ``view`` as in IndexTriples.  Not acknowledged: the next cut tells more.
    """

    cut: int
    low: int
    view: int
    busy: Column = _u64()
    many: bool = False


@dataclass(frozen=True, slots=True)
class ElementMark:
    """Comes with a LowMark: of each stream of which elements are under way the earliest time of one, in ``times``.

    Not told if there are too many streams, or if it is not known.
    """

    cut: int
    view: int
    times: Column = _u64()


@dataclass(frozen=True, slots=True)
class SourceMark:
    """Comes with a LowMark: what publishers had said here of the streams asked for when the cut was passed.

    For each the hash of its stream, and ``began``, ``upto`` and ``openings`` as in
    :class:`p2prdf.wire.contract.Heartbeat`; ``ended`` is 1 for what is known here of ends (as in KeepEnds), else 0.
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
class KeptMark:
    """Comes with a LowMark, eight cuts apart: of each stream what is kept here, and has to be.

    For each the hash of the stream, the event time (ms) from which on queries of homes here need its elements
    (2^62: none does), and that before which they are forgotten here (0: none are).  Stream 0: all of every one is kept.
    """

    cut: int
    view: int
    streams: Column = _u64()
    needed: Column = _u64()
    forgotten: Column = _u64()


@dataclass(frozen=True, slots=True)
class ElementsForgotten:
    """A peer to each other: elements of these streams (by hash) from before these event times (ms) are forgotten.

    Sent when that has been concluded, and to whom one meets.
    """

    streams: Column = _u64()
    before: Column = _u64()


@dataclass(frozen=True, slots=True)
class AskBookmarks:
    """Entry peer to home: tell me when all that you have for these subscriptions is handed out.

    By the ``view`` of the asker all with a stamp up to ``upto`` has reached its home.  Not acknowledged.
    """

    subscriber: Contact
    upto: int
    view: int
    subscriptions: Column = _u64()


@dataclass(frozen=True, slots=True)
class TellBookmarks:
    """Answer to AskBookmarks: of these subscriptions all is handed out, in ``epoch`` up to number ``sent``."""

    upto: int
    subscriptions: Column = _u64()
    epoch: Column = _u64()
    sent: Column = _u64()


@dataclass(frozen=True, slots=True)
class Summary:
    """A replica to another: fingerprints of what I hold of one kind that you should hold too.

    ``kind``: :mod:`p2prdf.peer.replication.anti_entropy`.  ``sums``: one per bucket of identities, as many as a power
    of two; those before ``first`` are not asked about.  ``view`` as in IndexTriples: only equal views agree on what
    both should hold. ``lacks`` and ``returned`` as in MembersKnown.  ``began``: the stamp at which my present life
    began, 0: nothing has happened in it yet.
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
class Offer:
    """What I hold of a kind that you should hold too: identities.

    ``asked``: answer to the Summary of that number: what is in the buckets (of so many as the Summary had) that
    differ, identity 0 if nothing is; no row if all are equal.  ``more``: further buckets differ, ask again.
    ``lacks``, ``returned`` and ``began`` as in Summary.  ``members``: so many there should be.  ``known``: you had been
    here before your present life.  ``complete``: I am in step, and miss none of the members.
    Otherwise on its own account: what is kept here and may not be where it belongs.
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
class Want:
    """Answer to an Offer, of which it says the same: send me these; none: I have them all."""

    request: int
    kind: int
    asked: bool
    identities: Column = _u64()


@dataclass(frozen=True, slots=True)
class Given:
    """Answer to a Want, after all that was wanted has been taken in, if whoever wanted it waits for that."""

    request: int
    kind: int


# --- peer to peer: subscriptions -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OpenSubscription:
    """Entry peer to home (owner of the query's key): leave a standing query for ``subscriber``.

    ``since``: the stamp from which on triples count; 0: from now on.  ``salt``: 0, or a number; equal queries are
    evaluated together if their salts are equal.  ``owner``: the client whose it is (:class:`Subscribe` of
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
    """Home to entry peer: the query is live at all its owners; it counts triples from ``since`` on.

    ``opened``: the stamp of its record: it was not live before.  ``epoch``: in which answers are told now; those that
    this home told in before have smaller numbers.  ``reads`` and ``writes``: the graphs that the query is about
    (:class:`p2prdf.rdf.reach.Reach`).
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
    """Home to entry peer: the subscription (new or named by number) is refused or not known."""

    request: int
    code: str
    text: str


@dataclass(frozen=True, slots=True)
class AttachSubscription:
    """Entry peer to home: deliver this subscription here, but not ``have``: the subscriber is done with these.

    ``have`` are identities of answers, as in Delivered.  ``owner``: the client that asks; empty if nobody is to be
    asked who it is.  Who is not the owner is refused, here and in what follows.
    """

    request: int
    subscription: int
    subscriber: Contact
    have: Column = _u64()
    hops: int = 0
    owner: str = _added("")


@dataclass(frozen=True, slots=True)
class CloseSubscription:
    """Entry peer to home: end this subscription.  ``owner`` as in AttachSubscription."""

    request: int
    subscription: int
    subscriber: Contact
    hops: int = 0
    owner: str = _added("")


@dataclass(frozen=True, slots=True)
class SubscriptionClosed:
    """Home to entry peer: the subscription is ended, as ``request`` asked for or (0) by itself, or by another client.

    ``why``: if neither a client nor its lease ended it.  ``elsewhere``: it lives, but what ``request`` opened or
    attached is delivered to another peer from now on.
    """

    request: int
    subscription: int
    elsewhere: bool = False
    why: str = ""


@dataclass(frozen=True, slots=True)
class RenewSubscriptions:
    """Entry peer to home: the subscribers are still there; keep these for another lease.

    ``requests``: by which each was opened or attached, as the entry peer knows.  If the home delivers one to another
    peer it says so (SubscriptionClosed): attachments that were repeated may overtake each other, and so may what is
    told of them.
    """

    subscriber: Contact
    subscriptions: Column = _u64()
    requests: Column = _u64()
    hops: int = 0


@dataclass(frozen=True, slots=True)
class ExplainSubscription:
    """Entry peer to home: how is this subscription evaluated, and what waits where?

    ``owner`` as in AttachSubscription.
    """

    request: int
    asker: Contact
    subscription: int
    hops: int = 0
    owner: str = _added("")


@dataclass(frozen=True, slots=True)
class Explanation:
    """Home to entry peer: the explanation as JSON text or, with a ``code``, why there is none."""

    request: int
    json: str
    code: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class Deliver:
    """Home to entry peer: solutions of one subscription, numbered from ``first`` on.

    Numbers count from 1 without a hole within an ``epoch``: a random number of one run of deliveries, which
    begins when a peer becomes home or a subscriber comes (back) to one.  What was not acknowledged
    comes again in the next.  ``lost`` counts solutions that were dropped right before ``first`` because the
    subscriber's log was full or they were too old: a gap is always told, if need be without any solution.
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
    """Entry peer to home: the subscriber has dealt with the answers of these identities; send more.

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
    """Home to entry peer: every replica knows what ``request`` (Delivered) acknowledged; it never comes again.

    Only what the home has handed out already may be on its way: in ``epoch`` it is numbered up to ``sent``.
    """

    request: int
    subscription: int
    epoch: int = 0
    sent: int = 0


# --- peer to peer: between the replicas of a home ------------------------------------------------


@dataclass(frozen=True, slots=True)
class KeepSubscription:
    """A replica of a home to another: the record of a subscription, with that of its group.

    ``opener`` and ``opening`` name the request that opened it: asked again, it leads to the same subscription.
    ``order``: those of the plans of its leaves, one after the other.  ``since_min``, ``since_max`` and ``youngest``
    (the latest ``oldest`` of any answer) only grow apart, so records of one group may be taken in in any order.
    ``changed`` stamps the part that changes, which is where the subscription is delivered: of two records the later
    one counts.  ``owner``: the client that opened it; empty: nobody was asked who it is, and anybody may attach to it.
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
    """A replica of a home to another: these subscriptions are ended since the stamps ``times``, and stay so.

    ``groups``: for each, the group that ended with it, or 0; a subscription of 0 says nothing but that the group ended.
    """

    subscriptions: Column = _u64()
    groups: Column = _u64()
    times: Column = _u64()


@dataclass(frozen=True, slots=True)
class KeepAnswers:
    """A replica of a home to another: answers that are owed to this subscription and not acknowledged.

    ``told``: the subscriber is told as soon as enough replicas have them.
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
    """A replica of a home to another: of a query with windows all reports up to this event time are made and kept.

    In milliseconds since 1970.  Elements that only they needed are forgotten.  With a window by count ``number`` is
    that of the last of them, and ``last`` a hash of its last element's triple; else 0.
    """

    subscription: int
    upto: int
    number: int = 0
    last: int = 0


@dataclass(frozen=True, slots=True)
class KeepEnds:
    """Entry peer to all who keep a stream's key: a publisher closed.  And a replica of these to another: so far I know.

    For each the hash of the stream; who closed, and which ``opening`` of it (0 between replicas: it does not matter any
    more); the earliest event time, and up to when all is published, in milliseconds since 1970.
    """

    streams: Column = _u64()
    publishers: Column = _u64()
    openings: Column = _u64()
    began: Column = _u64()
    upto: Column = _u64()

    def __len__(self) -> int:
        return len(self.streams)


@dataclass(frozen=True, slots=True)
class KeepWithdrawn:
    """A replica of a home to another: these answers of a leaf of a standing query are not true any more.

    ``youngest``: the latest stamp that anything follows from which the leaf answered.
    """

    leaf: int
    youngest: int
    identity: Column = _u64()

    def __len__(self) -> int:
        return len(self.identity)


@dataclass(frozen=True, slots=True)
class KeepAcknowledged:
    """A replica of a home to another: the subscriber is done with these answers, recorded here or not.

    ``lost``: not so, but they were dropped, and nobody has told the subscriber yet.
    """

    subscription: int
    identity: Column = _u64()
    lost: bool = False


@dataclass(frozen=True, slots=True)
class AskKnown:
    """A replica of a home to another: I am asked for groups and subscriptions that I do not know; do you?

    ``kinds``: 0 for a group, 1 for a subscription.
    """

    identities: Column = _u64()
    kinds: Column = _u32()


@dataclass(frozen=True, slots=True)
class TellKnown:
    """Answer to AskKnown: for each a :class:`p2prdf.continuous.home.Known`; records and ends go before."""

    identities: Column = _u64()
    kinds: Column = _u32()
    known: Column = _u32()


# --- peer to peer: overlay -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """Receiver to sender: these transfers are taken in and need not be sent again."""

    transfers: Column = _u64()


@dataclass(frozen=True, slots=True)
class NotOwner:
    """Receiver to sender: other peers are closer to what you sent; it has been passed on there.

    ``before``: empty, or for each of them the last peer before it, so that it owns all keys between
    the two (Chord).
    """

    contacts: tuple[Contact, ...]
    before: tuple[Contact, ...] = ()


@dataclass(frozen=True, slots=True)
class FindNode:
    """Lookup, driver to driver: which peers do you know closest to ``key``?"""

    request: int
    key: int


@dataclass(frozen=True, slots=True)
class Nodes:
    """Answer to FindNode, closest first, the answering peer among them."""

    request: int
    contacts: tuple[Contact, ...]


@dataclass(frozen=True, slots=True)
class Traced:
    """Goes before a message of ``kind`` of which some rows are traced (:mod:`p2prdf.peer.network.tracing`).

    For each trace the publication stamp that its rows are known by, the trace (``high`` and ``low``: its 128 bits) and
    the span that the message is sent in.  Before a Deliver ``answers`` are identities of traced answers, else 0.
    Not acknowledged: with it only a part of a trace is lost.
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
    """First frame on a connection between peers: who speaks, and to whom it believes to speak."""

    sender: Contact
    receiver_key: int
    version: int = 8


Message = (
    IndexTriples | IndexQuery | Forward | Answers | GroupsGone | KeepGroups | GroupLeases | GetRates | Rates
    | Advertise | AdvertiseWords | AskRoles | TellRoles | AskLoad | TellLoad | HoldSubKeys | KeyDepth | OpenSubscription
    | SubscriptionOpened | SubscriptionRefused | AttachSubscription | CloseSubscription | SubscriptionClosed
    | RenewSubscriptions | Deliver | Delivered | SettledAnswers | KeepSubscription | EndSubscription | KeepAnswers
    | KeepAcknowledged | KeepWithdrawn | KeepReported | KeepEnds | AskKnown | TellKnown | Acknowledge | NotOwner
    | FindNode | Nodes | MembersKnown | ClusterKnown | PublicationsComplete | Leaving | Totals | Differing | Summary
    | Offer | Want | Given
    | WatchLowMarks | LowMark | ElementMark | SourceMark | KeptMark | ElementsForgotten | AskBookmarks | TellBookmarks
    | ExplainSubscription | Explanation | AskCounts | TellCounts | Traced | Expulsions | Introduced
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Parcel:
    """A peer message on its way.

    ``transfer`` is 0 for what may be lost, else the sender's number for this message;
    ``clock`` is the sender's hybrid logical clock.
    """

    transfer: int
    clock: int
    message: Message = field(metadata={"kind": "object"})


# --- client to node ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ClientHello:
    """First frame of a client.

    ``speaks_for``: the name of the client in whose place it speaks, if its own certificate gives it the right to.
    """

    version: int = CLIENT_VERSION
    agent: str = ""
    speaks_for: str = _added("")


@dataclass(frozen=True, slots=True)
class ClientWelcome:
    """Node to client: who answers, how many publications may be under way at once, and other nodes to turn to."""

    peer: Contact
    publications_max: int
    version: int = CLIENT_VERSION
    others: tuple[Contact, ...] = ()


@dataclass(frozen=True, slots=True)
class ClientPublish:
    """Publish triples.  Events are numbered by the publisher: the same number again is the same event.

    ``level``: when to answer with ClientPublished, ``indexed`` or ``accepted``.  ``removed``: remove them instead.
    ``after``: the latest stamp that the publisher has heard of; theirs will be after it.
    ``graph``: a column that names the graph of each, the empty text for the default graph; without it that is all their
    graph.  ``by_content``: events are not numbered (``first_event`` is 0) but known by what they say: the same
    statement of the same publisher again is the same event.

    ``times``: a column of event times, milliseconds since 1970.  With it these are elements of the streams that
    ``graph`` names; they are numbered, and not removed.
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
    """Goes before the ClientPublish of the same ``request``: it is to be traced (:mod:`p2prdf.wire.trace_context`).

    Not answered.
    """

    request: int
    traceparent: str


@dataclass(frozen=True, slots=True)
class ClientHeartbeat:
    """All elements of a publisher of times up to ``upto`` are acknowledged, and its first is not before ``began``.

    Times are milliseconds since 1970, ``stream`` is an IRI.  Not answered.  Repeated, each second or so, for as long as
    the publisher is to be waited for (:mod:`p2prdf.peer.progress.event_watermarks`).  ``opening``: a number drawn at
    random when the publisher opened the stream, for it may close it and open it again.
    """

    stream: str
    publisher: int
    began: int
    upto: int
    opening: int


@dataclass(frozen=True, slots=True)
class ClientEndStream:
    """A publisher closes an ``opening`` of a stream: wait for it no more.  Other fields as in ClientHeartbeat.

    Answered with ClientStreamEnded when enough nodes know it.  More than one does no harm.
    """

    request: int
    stream: str
    publisher: int
    began: int
    upto: int
    opening: int


@dataclass(frozen=True, slots=True)
class ClientStreamEnded:
    """That a publisher has closed is known, and stays so."""

    request: int


@dataclass(frozen=True, slots=True)
class ClientPublished:
    """The level that ``request`` asked for is reached, or more; ``time`` is the triples' publication stamp."""

    request: int
    time: int


@dataclass(frozen=True, slots=True)
class ClientSubscribe:
    """Leave a standing query, as SPARQL text.  ``since`` and ``salt`` as in OpenSubscription.

    ``ordered``: solutions are to have what ORDER BY orders them by in columns of their own, behind the others.
    ``once``: it is a query that is answered once: the client will end it when it has all that is true.
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
    """Take up an earlier subscription again.  ``have``: identities of answers that the client is done with."""

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
    """Tell me bookmarks of a subscription that is delivered here, from now on.  Not answered.

    ``urgent`` as in :class:`p2prdf.wire.contract.WantBookmarks`.
    """

    subscription: int
    urgent: bool = False


@dataclass(frozen=True, slots=True)
class ClientBookmark:
    """No solution of a subscription born at or before ``time`` follows but those told before.

    Except of publications that were not acknowledged then.
    """

    subscription: int
    time: int


@dataclass(frozen=True, slots=True)
class ClientAcknowledge:
    """The subscriber has dealt with the answers of these identities."""

    request: int
    subscription: int
    identity: Column = _u64()


@dataclass(frozen=True, slots=True)
class ClientSettled:
    """What ``request`` (ClientAcknowledge) acknowledged never comes again, from whichever node."""

    request: int
    subscription: int


@dataclass(frozen=True, slots=True)
class ClientEnded:
    """A subscription is not delivered to this client any more; ``code`` is that of :mod:`p2prdf.errors`."""

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
    """It is ended."""

    request: int
    subscription: int


@dataclass(frozen=True, slots=True)
class ClientPing:
    """Ask whether the node is there: sent by a client that has heard nothing of it for a while."""

    request: int


@dataclass(frozen=True, slots=True)
class ClientPong:
    """The node is there."""

    request: int


@dataclass(frozen=True, slots=True)
class ClientStatus:
    """Ask for the node's state."""

    request: int


@dataclass(frozen=True, slots=True)
class ClientStatusReply:
    """The node's state: JSON text, keys as in docs/reference/operations.md."""

    request: int
    json: str


@dataclass(frozen=True, slots=True)
class ClientExplain:
    """Explain a subscription or, if that is 0, how a query would be evaluated; nothing is left standing for it."""

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
    """Ask which subscriptions the node hands out the answers of, as their home: some, of numbers after ``after``."""

    request: int
    after: int = 0


@dataclass(frozen=True, slots=True)
class ClientSubscriptionsListed:
    """Subscriptions of whoever: JSON text, keys as in docs/reference/http.md."""

    request: int
    json: str


@dataclass(frozen=True, slots=True)
class ClientExpel:
    """Expel a member, or readmit it (not ``expelled``); member 0: only list the decisions that this node knows."""

    request: int
    member: int
    expelled: bool = True


@dataclass(frozen=True, slots=True)
class ClientExpelled:
    """The decisions about members that the node knows: JSON text, keys as in docs/reference/operations.md."""

    request: int
    json: str


@dataclass(frozen=True, slots=True)
class ClientListIntroduced:
    """Ask which statements a member introduced at this node: some, of record numbers after ``after``.

    With ``statements`` (three texts each; the predicate qualified by the graph): the recorded history of each.
    """

    request: int
    member: int
    after: int
    statements: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClientIntroduced:
    """Statements and members that introduced them: JSON text, as :mod:`p2prdf.peer.replication.introductions` returns
    it."""

    request: int
    json: str


@dataclass(frozen=True, slots=True)
class ClientError:
    """A request failed, or (request 0) the connection is about to be closed.

    ``retry_after``: if the node is busy, after how many seconds it may have room; else 0.  ``construct``, ``line`` and
    ``column``: of a query that was refused, what is wrong and where (from 1; 0: not known); ``text`` names them, too.
    """

    request: int
    code: str
    text: str
    retry_after: float = 0.0
    construct: str = _added("")
    line: int = _added(0)
    column: int = _added(0)


def client_error(error: P2PRDFError, request: int = 0) -> ClientError:
    """Return an error as a client is told it."""
    if isinstance(error, Busy):
        return ClientError(request, error.code, error.reason, error.retry_after)
    if isinstance(error, QueryRefused):
        place = error.line or 0, error.column or 0
        return ClientError(request, error.code, str(error), 0.0, error.construct, *place)
    return ClientError(request, error.code, str(error))


def error_of(message: ClientError) -> P2PRDFError:
    """Return the error that a client is told."""
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
